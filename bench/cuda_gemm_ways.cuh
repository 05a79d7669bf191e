/*
 * cuda_gemm_ways.cuh - all ways to compute a product that are worth trying, own
 * kernels' and cublasLt's, and the best of them in the chain of a layer.
 */

#ifndef HYMT_CUDA_GEMM_WAYS_CUH
#define HYMT_CUDA_GEMM_WAYS_CUH

#include "cuda_gemm_runs.cuh"


/* A way to compute a product, and its time alone. */
typedef struct {
    double            us;
    hymt_gemm_plan_t  plan;
} timed_t;


/* Whether a plan's ring holds two stages and a turn of the cluster. */
static bool
fits(const hymt_gemm_plan_t *p)
{
    const uint32_t  share = std::max(p->share_x, p->share_w);

    return (uint32_t) (p->rows + p->tokens) * p->depth * 128
           * std::max(share, 2u) + 1024u <= p->ring * 1024u;
}


static void
sort_ways(std::vector<timed_t> &ways)
{
    std::sort(ways.begin(), ways.end(), [](const timed_t &a, const timed_t &b)
    {
        return a.us < b.us;
    });
}


static const uint32_t  shares[][2] = { { 1, 1 }, { 2, 1 }, { 1, 2 }, { 2, 2 },
                                       { 4, 1 }, { 1, 4 } };


/* Tries a way; those with other bits are counted. */
static void
try_way(const product_t *p, const hymt_gemm_plan_t *plan, uint32_t m,
    std::vector<timed_t> &ways, int *wrong)
{
    timed_t  way;

    if (!same_bits(p, plan, m)) {
        printf("WRONG: %s m %u: %s\n", p->name, m, plan_text(plan));
        (*wrong)++;
        return;
    }

    way.plan = *plan;
    way.us = time_plan(p, plan, m);
    ways.push_back(way);
}


/* Tiles for many rows that are not far from the best by arithmetic. */
static void
many_ways(const product_t *p, uint32_t m, std::vector<timed_t> &ways,
    int *wrong)
{
    uint64_t           least, cost;
    hymt_gemm_plan_t   plan = {};
    hymt_gemm_shape_t  s = shape_of(p, 0);

    if (!hymt_gemm_many_plan(&dev, &s, m, &plan)) {
        return;
    }

    least = hymt_gemm_many_cost(&dev, &s, &plan, m);

    for (uint32_t T = 32; T <= 256; T += 16) {
        for (uint32_t R = 32; R <= 192; R += 32) {
            const uint32_t  tiles = (m + T - 1) / T;

            plan.tokens = T;
            plan.rows = R;
            cost = hymt_gemm_many_cost(&dev, &s, &plan, m);

            if (cost > least + least / 3) {
                continue;
            }

            for (uint32_t i = 0; i < 4 * 2 * 2; i++) {
                plan.share_x = shares[i % 4][0];
                plan.share_w = shares[i % 4][1];
                plan.depth = 1 + i / 4 % 2;
                plan.ring = i / 8 ? 112 : 226;

                if (tiles % plan.share_w == 0
                    && (plan.ring == 226 || i % 4 == 0)
                    && hymt_gemm_many_fits(&s, &plan))
                {
                    try_way(p, &plan, m, ways, wrong);
                }
            }
        }
    }
}


/* All own ways worth trying, the fastest first. */
static std::vector<timed_t>
own_ways(const product_t *p, uint32_t m, int *wrong)
{
    const uint32_t        step = p->after == HYMT_GEMM_SILU ? 16 : 8;
    std::vector<timed_t>  ways;

    *wrong = 0;

    if (m >= 48) {
        many_ways(p, m, ways, wrong);
    }

    for (uint32_t T : { 8u, 16u, 32u, 64u, 96u, 128u }) {
        const uint32_t  ty = (m + T - 1) / T;
        uint32_t        base, last = 0;

        if (m > 256 || ty > 4 || (T > 8 && T / 2 >= m)
            || (m > 128 && T < 64))
        {
            continue;
        }

        base = (p->n * ty + dev.sms - 1) / dev.sms;
        base = std::min(192u, (base + step - 1) / step * step);

        std::vector<uint32_t>  rows = { base, base / 2 / step * step,
                                        base * 3 / 2 / step * step, 2 * base,
                                        64, 128 };

        if (m <= 16) {
            for (uint32_t R = 16; R <= 192; R += R < 80 ? step : 16) {
                rows.push_back(R);
            }
        }

        std::sort(rows.begin(), rows.end());

        for (uint32_t R : rows) {
            if (R < step || R > 192 || R == last) {
                continue;
            }

            last = R;

            for (uint32_t i = 0; i < 6 * 3 * 2; i++) {
                hymt_gemm_plan_t  plan = {};

                plan.kind = HYMT_GEMM_WGMMA;
                plan.tokens = T;
                plan.rows = R;
                plan.share_x = shares[i % 6][0];
                plan.share_w = shares[i % 6][1];
                plan.depth = 1 << i / 6 % 3;
                plan.ring = i / 18 ? 208 : 104;

                if (plan.share_w > ty || (m <= 8 && plan.share_x > 1)
                    || (m <= 64 && plan.share_x * plan.share_w > 2)
                    || (T <= 16 && plan.depth == 1)
                    || (T > 64 && plan.depth == 4)
                    || (m > 128 && (plan.depth == 4 || plan.ring == 104))
                    || !fits(&plan))
                {
                    continue;
                }

                try_way(p, &plan, m, ways, wrong);
            }
        }
    }

    sort_ways(ways);

    return ways;
}


/* All of cublasLt's that give the same bits, the fastest first. */
static std::vector<timed_t>
lt_ways(const product_t *p, uint32_t m, int *wrong)
{
    uint32_t              n;
    hymt_lt_algo_t        algos[HYMT_LT_ALGOS];
    hymt_gemm_shape_t     s = shape_of(p, 0);
    std::vector<timed_t>  ways;

    *wrong = 0;

    n = hymt_lt_algos(&dev, &s, m, algos, 16);

    for (uint32_t i = 0; i < n; i++) {
        timed_t  way = {};

        way.plan.kind = HYMT_GEMM_LT;
        way.plan.algo = algos[i];

        if (!same_bits(p, &way.plan, m)) {
            (*wrong)++;
            continue;
        }

        way.us = time_plan(p, &way.plan, m);
        ways.push_back(way);
    }

    sort_ways(ways);

    return ways;
}


/*
 * Products overlap in a chain, so what is best alone need not be: one after
 * the other takes the best of its ways and ring sizes in the chain, twice.
 */
static double
tune_chain(const product_t *ps, const std::vector<timed_t> *ways, uint32_t m,
    uint32_t layers, hymt_gemm_plan_t *plans)
{
    double  us;

    for (int turn = 0; turn < 8; turn++) {
        const int         j = (turn + 2) % 4;
        hymt_gemm_plan_t  keep = plans[j];

        for (size_t i = 0; i < ways[j].size(); i++) {
            /* one much slower alone has no chance */

            if (ways[j][i].us > 1.3 * ways[j][0].us) {
                break;
            }

            for (uint32_t ring : { 0u, 88u, 104u, 112u, 120u, 144u, 176u,
                                   208u })
            {
                plans[j] = ways[j][i].plan;

                if (plans[j].kind == HYMT_GEMM_WGMMA && ring != 0) {
                    plans[j].ring = ring;
                }

                if ((plans[j].kind == HYMT_GEMM_WGMMA) != (ring != 0)
                    || (ring != 0 && !fits(&plans[j])))
                {
                    continue;
                }

                /* the clock falls under load: what is kept is timed anew */

                us = chain_us(ps, plans, m, layers);
                std::swap(plans[j], keep);

                if (us >= chain_us(ps, plans, m, layers) * 0.998) {
                    keep = plans[j];
                }
            }
        }

        plans[j] = keep;
    }

    return chain_us(ps, plans, m, layers);
}


#endif /* HYMT_CUDA_GEMM_WAYS_CUH */
