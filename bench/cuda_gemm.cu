/*
 * cuda_gemm - the GEMM family: each product of a layer alone, all four in a
 * chain, and the head; own kernels beside cublasLt.
 *
 * Weights rotate past the L2, launches are timed as one CUDA graph, times are
 * medians.  The ceilings, reading memory and multiplying matrices, are
 * measured in the same run.  Ways to cut a product are tried, their bits
 * compared with the plain kernel's; "tune" tries them in the chain, too, and
 * prints the rows of gemm_table.h.  "table": what the backend launches, alone.
 */

#include "../kernels/cuda/gemm.h"
#include "../kernels/cuda/ptx.cuh"

#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <vector>


#define CHECK(call)                                                           \
    do {                                                                      \
        cudaError_t  rc_ = (call);                                            \
        if (rc_ != cudaSuccess) {                                             \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call,              \
                   cudaGetErrorString(rc_));                                  \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

#define WEIGHTS   (2200ull << 20)     /* bytes */
#define ROWS      2048
#define REPEATS   5


typedef struct {
    const char         *name;
    uint32_t            n;
    uint32_t            k;
    hymt_gemm_after_t   after;
} product_t;


static const product_t  small[] = {
    { "qkv", 3072, 2048, HYMT_GEMM_STORE },
    { "o", 2048, 2048, HYMT_GEMM_STORE },
    { "gate_up", 12288, 2048, HYMT_GEMM_SILU },
    { "down", 2048, 6144, HYMT_GEMM_STORE },
    { "head", 120832, 2048, HYMT_GEMM_STORE },
};

static const product_t  large[] = {
    { "qkv", 6144, 4096, HYMT_GEMM_STORE },
    { "o", 4096, 4096, HYMT_GEMM_STORE },
    { "gate_up", 28672, 4096, HYMT_GEMM_SILU },
    { "down", 4096, 14336, HYMT_GEMM_STORE },
    { "head", 128256, 4096, HYMT_GEMM_STORE },
};

static const uint32_t  row_counts[] = { 1, 8, 16, 32, 48, 64, 96, 128,
                                        192, 256, 384, 512, 640, 768, 1024,
                                        1536, 2048 };


static hymt_cuda_t   dev;
static hymt_bf16_t  *weights, *x, *scratch;
static uint8_t      *y, *y_ref;
static size_t        y_bytes;
static uint32_t     *differ;
static double        read_rate, matmul_rate;    /* bytes, operations a us */


/* Gives up, and says where, when the device does not come back. */
static void
finish(const char *what)
{
    time_t       start = time(NULL);
    cudaError_t  rc;

    while ((rc = cudaStreamQuery(dev.stream)) == cudaErrorNotReady) {
        if (time(NULL) - start > 3) {
            printf("HANGS: %s\n", what);
            fflush(stdout);
            _exit(3);
        }
    }

    if (rc != cudaSuccess) {
        printf("FAILS: %s: %s\n", what, cudaGetErrorString(rc));
        fflush(stdout);
        _exit(3);
    }
}


static __global__ void
k_read(const uint4 *p, size_t n, uint32_t *sink)
{
    const size_t  step = (size_t) gridDim.x * blockDim.x;
    uint4         v[4];
    uint32_t      sum = 0;

    for (size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x;
         i + 3 * step < n; i += 4 * step)
    {
        for (int j = 0; j < 4; j++) {
            v[j] = __ldcs(p + i + j * step);
        }

        for (int j = 0; j < 4; j++) {
            sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
        }
    }

    if (sum == 0x12345678) {
        *sink = sum;
    }
}


/* Median time in us of what `record` puts on the stream, as one graph. */
template<typename F>
static double
graph_us(const char *what, F record)
{
    cudaGraph_t          graph;
    cudaGraphExec_t      exec;
    cudaEvent_t          e0, e1;
    std::vector<double>  times;

    CHECK(cudaEventCreate(&e0));
    CHECK(cudaEventCreate(&e1));

    CHECK(cudaStreamBeginCapture(dev.stream, cudaStreamCaptureModeRelaxed));
    record();
    CHECK(cudaStreamEndCapture(dev.stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));

    for (int i = 0; i <= REPEATS; i++) {
        float  ms;

        CHECK(cudaEventRecord(e0, dev.stream));
        CHECK(cudaGraphLaunch(exec, dev.stream));
        CHECK(cudaEventRecord(e1, dev.stream));
        finish(what);
        CHECK(cudaEventElapsedTime(&ms, e0, e1));

        if (i > 0) {
            times.push_back(ms * 1000);
        }
    }

    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(e0));
    CHECK(cudaEventDestroy(e1));

    std::sort(times.begin(), times.end());

    return times[times.size() / 2];
}


static hymt_gemm_shape_t
shape_of(const product_t *p, size_t weight)
{
    hymt_gemm_shape_t  s;

    memset(&s, 0, sizeof(s));
    s.w = weights + weight;
    s.n = p->n;
    s.k = p->k;
    s.x = x;
    s.y = y;
    s.ldy = p->after == HYMT_GEMM_SILU ? p->n / 2 : p->n;
    s.max_rows = ROWS;
    s.scratch = scratch;
    s.after = p->after;

    return s;
}


static cudaError_t
run_plan(const hymt_gemm_shape_t *s, const hymt_gemm_plan_t *plan, uint32_t m)
{
    char     err[256];
    uint8_t  map[128] __attribute__((aligned(64)));

    if (plan->kind == HYMT_GEMM_LT) {
        return hymt_lt_run(&dev, s, &plan->algo, m, dev.stream);
    }

    if (plan->kind == HYMT_GEMM_MMA) {
        return hymt_gemm_mma_run(&dev, s, plan, m, dev.stream);
    }

    if ((plan->kind == HYMT_GEMM_MANY
         ? hymt_gemm_many_map(s, plan, map, err, sizeof(err))
         : hymt_gemm_sm90_map(s, plan, map, err, sizeof(err)))
        != 0)
    {
        printf("%s\n", err);
        exit(1);
    }

    if (plan->kind == HYMT_GEMM_MANY) {
        return hymt_gemm_many_run(&dev, s, plan, map, m, dev.stream);
    }

    return hymt_gemm_sm90_run(&dev, s, plan, map, m, dev.stream);
}


static const char *
plan_text(const hymt_gemm_plan_t *p)
{
    static char  text[4][64];
    static int   i;
    char        *t = text[i++ % 4];

    if (p->kind == HYMT_GEMM_WGMMA || p->kind == HYMT_GEMM_MANY) {
        snprintf(t, 64, "%sT%u R%u x%u w%u d%u r%u",
                 p->kind == HYMT_GEMM_MANY ? "many " : "", p->tokens,
                 p->rows, p->share_x, p->share_w, p->depth, p->ring);

    } else {
        snprintf(t, 64, "%s", p->kind == HYMT_GEMM_LT ? "lt" : "mma");
    }

    return t;
}


/* One product, several launches in a row, each with its own weights. */
static double
time_plan(const product_t *p, const hymt_gemm_plan_t *plan, uint32_t m)
{
    const size_t    size = (size_t) p->n * p->k;
    const uint32_t  launches = size * 2 > 200 << 20 ? 4 : 20;

    return graph_us(plan_text(plan), [&] {
        for (uint32_t i = 0; i < launches; i++) {
            hymt_gemm_shape_t  s;

            s = shape_of(p, i * size % (WEIGHTS / 2 - size) / 64 * 64);
            CHECK(run_plan(&s, plan, m));
        }
    }) / launches;
}


static size_t
out_bytes(const product_t *p, uint32_t m)
{
    return (size_t) m * p->n * (p->after == HYMT_GEMM_F32 ? 4 :
                                p->after == HYMT_GEMM_SILU ? 1 : 2);
}


static bool
same_bits(const product_t *p, const hymt_gemm_plan_t *plan, uint32_t m)
{
    uint32_t           n;
    hymt_gemm_shape_t  s = shape_of(p, 0);

    CHECK(cudaMemsetAsync(y, 0xff, out_bytes(p, m), dev.stream));
    CHECK(run_plan(&s, plan, m));
    CHECK(cudaMemsetAsync(differ, 0, 4, dev.stream));
    CHECK(hymt_gemm_compare(y, y_ref, out_bytes(p, m) / 2, differ,
                            dev.stream));
    finish(plan_text(plan));
    CHECK(cudaMemcpy(&n, differ, 4, cudaMemcpyDeviceToHost));

    return n == 0;
}


static void
reference(const product_t *p, uint32_t m)
{
    hymt_gemm_plan_t   plan = {};
    hymt_gemm_shape_t  s = shape_of(p, 0);

    plan.kind = HYMT_GEMM_MMA;
    plan.tokens = 64;
    plan.rows = 64;
    s.y = y_ref;

    CHECK(cudaMemsetAsync(y_ref, 0xff, out_bytes(p, m), dev.stream));
    CHECK(hymt_gemm_mma_run(&dev, &s, &plan, m, dev.stream));
    finish("reference");
}


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


static double
chain_us(const product_t *ps, const hymt_gemm_plan_t *plans, uint32_t m,
    uint32_t layers)
{
    return graph_us("chain", [&] {
        size_t  at = 0;

        for (uint32_t i = 0; i < layers; i++) {
            for (int j = 0; j < 4; j++) {
                hymt_gemm_shape_t  s;

                if (at + (size_t) ps[j].n * ps[j].k > WEIGHTS / 2) {
                    at = 0;
                }

                s = shape_of(&ps[j], at);
                s.y = y + (j % 2) * (y_bytes / 2);
                CHECK(run_plan(&s, &plans[j], m));

                at += (size_t) ps[j].n * ps[j].k;
            }
        }
    });
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


/*
 * What the backend launches: each product alone and all four in a chain, as
 * hymt_gemm_create() chooses, beside cublasLt's first proposal.
 */
static void
time_table(const product_t *ps, uint32_t m, uint32_t layers)
{
    char                       err[256];
    double                     us, bytes = 0, flops = 0, floor_us;
    size_t                     at = 0;
    hymt_gemm_plan_t           lt[4];
    std::vector<hymt_gemm_t *>  gemms;

    for (uint32_t i = 0; i < layers * 4; i++) {
        hymt_gemm_t        *gemm;
        const product_t    *p = &ps[i % 4];
        hymt_gemm_shape_t   s;

        if (at + (size_t) p->n * p->k > WEIGHTS / 2) {
            at = 0;
        }

        s = shape_of(p, at);
        s.y = y + (i % 2) * (y_bytes / 2);
        at += (size_t) p->n * p->k;

        if (hymt_gemm_create(&dev, &s, &gemm, err, sizeof(err)) != 0) {
            printf("%s\n", err);
            exit(1);
        }

        gemms.push_back(gemm);

        if (i < 4) {
            lt[i].kind = HYMT_GEMM_LT;

            if (hymt_lt_algos(&dev, &s, m, &lt[i].algo, 1) != 1) {
                printf("cublasLt has no algorithm\n");
                exit(1);
            }

            bytes += (double) p->n * p->k * 2 + (double) m * p->k * 2
                     + out_bytes(p, m);
            flops += 2.0 * m * p->n * p->k;
        }
    }

    printf("%5u", m);

    for (int j = 0; j < 4; j++) {
        us = graph_us(ps[j].name, [&] {
            for (uint32_t i = 0; i < layers; i++) {
                CHECK(hymt_gemm_run(gemms[4 * i + j], m, dev.stream));
            }
        });

        printf("  %s %.1f", ps[j].name, us / layers);
    }

    us = graph_us("chain", [&] {
        for (hymt_gemm_t *gemm : gemms) {
            CHECK(hymt_gemm_run(gemm, m, dev.stream));
        }
    });

    floor_us = std::max(bytes / read_rate, flops / matmul_rate);

    printf("  chain %.1f (%.0f %% of %.1f), cublasLt %.1f\n", us / layers,
           100 * floor_us * layers / us, floor_us,
           chain_us(ps, lt, m, layers) / layers);

    for (hymt_gemm_t *gemm : gemms) {
        hymt_gemm_free(gemm);
    }
}


static void
ceilings(void)
{
    double             us;
    hymt_lt_algo_t     algos[HYMT_LT_ALGOS];
    hymt_gemm_shape_t  s;
    uint32_t           n;
    product_t          p = { "square", 8192, 8192, HYMT_GEMM_STORE };

    us = graph_us("read", [&] {
        k_read<<<1056, 512, 0, dev.stream>>>((const uint4 *) weights,
                                             WEIGHTS / 16, differ);
        CHECK(cudaGetLastError());
    });

    read_rate = WEIGHTS / us;

    s = shape_of(&p, 0);
    s.x = weights + ((size_t) 8192 * 8192);
    s.ldy = 8192;
    n = hymt_lt_algos(&dev, &s, 8192, algos, 4);
    matmul_rate = 0;

    for (uint32_t i = 0; i < n; i++) {
        us = graph_us("square", [&] {
            CHECK(hymt_lt_run(&dev, &s, &algos[i], 8192, dev.stream));
        });

        matmul_rate = std::max(matmul_rate, 2.0 * 8192 * 8192 * 8192 / us);
    }

    printf("read %.2f TB/s, matmul 8192^3 %.0f TFLOP/s\n", read_rate / 1e6,
           matmul_rate / 1e6);
}


/* Row of gemm_table.h. */
static void
print_row(const product_t *p, uint32_t m, const hymt_gemm_plan_t *plan)
{
    if (plan->kind != HYMT_GEMM_LT) {
        printf("ROW { %u, %u, %u, HYMT_GEMM_%s, %u, %u, %u, %u, %u, %u },\n",
               p->n, p->k, m,
               plan->kind == HYMT_GEMM_MANY ? "MANY" : "WGMMA", plan->tokens,
               plan->rows, plan->depth, plan->share_x, plan->share_w,
               plan->ring);
        return;
    }

    printf("ROW { %u, %u, %u, HYMT_GEMM_LT, 0, 0, 0, 0, 0, 0, { {", p->n,
           p->k, m);

    for (int i = 0; i < 8; i++) {
        printf(" 0x%llx,", (unsigned long long) plan->algo.data[i]);
    }

    printf(" } } },\n");
}


int
main(int argc, char **argv)
{
    bool              tune = false, seven = false, table = false;
    uint64_t          seed = (uint64_t) time(NULL);
    char              err[256];
    const product_t  *ps;
    cudaDeviceProp    prop;

    std::vector<uint32_t>  wanted;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "tune") == 0) {
            tune = true;

        } else if (strcmp(argv[i], "7b") == 0) {
            seven = true;

        } else if (strcmp(argv[i], "table") == 0) {
            table = true;

        } else {
            wanted.push_back((uint32_t) atoi(argv[i]));
        }
    }

    if (wanted.empty()) {
        wanted.assign(row_counts, row_counts + sizeof(row_counts) / 4);
    }

    ps = seven ? large : small;

    CHECK(cudaSetDevice(0));
    CHECK(cudaGetDeviceProperties(&prop, 0));
    dev.cc = prop.major * 10 + prop.minor;
    dev.sms = (uint32_t) prop.multiProcessorCount;
    dev.smem = (uint32_t) prop.sharedMemPerBlockOptin;
    dev.pdl = dev.cc / 10 == 9;
    dev.workspace_bytes = 64 << 20;
    CHECK(cudaStreamCreateWithFlags(&dev.stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&dev.workspace, dev.workspace_bytes));

    if (hymt_lt_open(&dev, err, sizeof(err)) != 0) {
        printf("%s\n", err);
        return 1;
    }

    CHECK(hymt_gemm_sm90_init(&dev));
    CHECK(hymt_gemm_many_init(&dev));
    CHECK(hymt_gemm_mma_init(&dev));

    y_bytes = 160 << 20;
    CHECK(cudaMalloc(&weights, WEIGHTS));
    CHECK(cudaMalloc(&x, (size_t) ROWS * 14336 * 2));
    CHECK(cudaMalloc(&scratch, (size_t) ROWS * 28672 * 2));
    CHECK(cudaMalloc(&y, y_bytes));
    CHECK(cudaMalloc(&y_ref, y_bytes));
    CHECK(cudaMalloc(&differ, 4));

    CHECK(hymt_gemm_fill(weights, WEIGHTS / 2, seed, 0.05f, dev.stream));
    CHECK(hymt_gemm_fill(x, (size_t) ROWS * 14336, seed + 1, 2.0f,
                         dev.stream));
    finish("fill");

    printf("%s, cublasLt %zu, seed %llu\n", prop.name, hymt_lt_version(),
           (unsigned long long) seed);
    ceilings();

    for (uint32_t m : wanted) {
        const uint32_t        layers = seven ? 4 : 12;
        hymt_gemm_plan_t      lt[5], best[5];
        double                bytes = 0, flops = 0, floor_us, t;
        std::vector<timed_t>  ways[5];

        if (table) {
            time_table(ps, m, layers);
            continue;
        }

        for (int j = 0; j < 5; j++) {
            int                   bad_own = 0, bad_lt;
            double                b, f, lt_us;
            std::vector<timed_t>  of_lt;

            if (j == 4 && m > 256) {
                continue;
            }

            reference(&ps[j], m);
            of_lt = lt_ways(&ps[j], m, &bad_lt);
            lt[j] = of_lt[0].plan;
            lt_us = of_lt[0].us;

            if (j < 4 || m <= 64) {
                ways[j] = own_ways(&ps[j], m, &bad_own);
            }

            b = (double) ps[j].n * ps[j].k * 2 + (double) m * ps[j].k * 2
                + out_bytes(&ps[j], m);
            f = 2.0 * m * ps[j].n * ps[j].k;
            floor_us = std::max(b / read_rate, f / matmul_rate);

            printf("%-8s m %-4u floor %5.1f lt %6.1f (%2.0f %%) own",
                   ps[j].name, m, floor_us, lt_us, 100 * floor_us / lt_us);

            for (size_t i = 0; i < 4 && i < ways[j].size(); i++) {
                printf(" %.1f (%.0f %%) %s%s", ways[j][i].us,
                       100 * floor_us / ways[j][i].us,
                       plan_text(&ways[j][i].plan),
                       i + 1 < ways[j].size() ? "," : "");
            }

            printf("; of %zu and %zu differ %d, %d\n", ways[j].size(),
                   of_lt.size(), bad_own, bad_lt);

            if (tune && !ways[j].empty()) {
                printf("OWN ");
                print_row(&ps[j], m, &ways[j][0].plan);
            }

            /* the first eight of each kind can be best in a chain */

            if (ways[j].size() > 8) {
                ways[j].resize(8);
            }

            ways[j].insert(ways[j].end(), of_lt.begin(), of_lt.end());
            sort_ways(ways[j]);

            best[j] = ways[j][0].plan;

            if (j < 4) {
                bytes += b;
                flops += f;
            }
        }

        floor_us = layers * std::max(bytes / read_rate, flops / matmul_rate);
        t = chain_us(ps, best, m, layers);

        printf("chain m %-4u floor %.1f a layer, lt %.1f, best alone %.1f", m,
               floor_us / layers, chain_us(ps, lt, m, layers) / layers,
               t / layers);

        if (tune) {
            t = tune_chain(ps, ways, m, layers, best);
        }

        printf(", tuned %.1f (%.0f %%):", t / layers, 100 * floor_us / t);

        for (int j = 0; j < 4; j++) {
            printf(" %s;", plan_text(&best[j]));
        }

        printf("\n");

        for (int j = 0; j < (m > 256 ? 4 : 5); j++) {
            print_row(&ps[j], m, &best[j]);
        }

        fflush(stdout);
    }

    return 0;
}
