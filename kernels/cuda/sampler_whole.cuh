/*
 * sampler_whole.cuh - a draw from a whole row by one block: any top_k, any
 * top_p, any number of ties.
 *
 * Borders (the k-th score, the score where top_p is reached) are found by a
 * search of a few passes over the row.  The first cuts the range of scores that
 * weigh anything into even bins, which spreads the atomic additions as the
 * scores are spread; each further one cuts the border's bin, an interval of
 * keys, into 2048, until a bin is one key.
 */

#ifndef HYMT_CUDA_SAMPLER_WHOLE_CUH
#define HYMT_CUDA_SAMPLER_WHOLE_CUH

#include "sampler.cuh"


typedef enum {
    HYMT_COUNT_ALL = 0,
    HYMT_COUNT_TIES,       /* those of score `key` */
    HYMT_WEIGH_KEPT,       /* those over it, and of its ties ids below `cut` */
} hymt_measure_kind_t;


typedef struct {
    hymt_measure_kind_t  kind;
    uint32_t             key;
    uint32_t             cut;
} hymt_measure_t;


static __device__ __forceinline__ uint64_t
hymt_measure(const hymt_sample_src_t *r, const hymt_measure_t *of, uint32_t id,
    float score)
{
    uint32_t  key;

    key = hymt_key(score);

    switch (of->kind) {
    case HYMT_COUNT_TIES:
        return key == of->key && id < r->vocab;

    case HYMT_WEIGH_KEPT:
        return key > of->key || (key == of->key && id < of->cut)
               ? hymt_weight(r->max, score) : 0;

    default:
        return id < r->vocab;
    }
}


/* Scores of the four ids from id on. */
static __device__ __forceinline__ void
hymt_load_scores(const hymt_sample_src_t *r, uint32_t id, float *score)
{
    hymt_scores4(r, hymt_penalise4(r, hymt_logits4(r, id), hymt_seen4(r, id)),
                 score);
}


/*
 * Adds up a measure in bins, from the best score down.  Level 0: even bins.
 * Further: keys of [low, high] in bins of 2^shift.
 */
static __device__ void
hymt_fill_bins(const hymt_sample_src_t *r, hymt_sample_smem_t *m,
    const hymt_measure_t *of, bool first, uint32_t low, uint32_t high,
    uint32_t shift)
{
    int       j;
    float     score[4];
    uint32_t  i, id, key, bin, part;
    uint64_t  x;

    for (i = threadIdx.x; i < HYMT_BINS; i += HYMT_SAMPLE_THREADS) {
        m->low[i] = 0;
        m->high[i] = 0;
    }

    __syncthreads();

    for (id = threadIdx.x * 4; id < r->vocab; id += HYMT_SAMPLE_THREADS * 4) {
        hymt_load_scores(r, id, score);

        #pragma unroll
        for (j = 0; j < 4; j++) {
            key = hymt_key(score[j]);
            bin = hymt_bin(r->max, score[j], HYMT_BINS);

            if (!first) {
                bin = key >= low && key <= high ? (high - key) >> shift
                                                : HYMT_BINS;
            }

            if (bin >= HYMT_BINS) {
                continue;
            }

            x = hymt_measure(r, of, id + j, score[j]);

            if (x == 0) {
                continue;
            }

            /* 64 bits as two native additions: the carry goes to the upper */

            part = (uint32_t) x;
            x = (x >> 32) + (atomicAdd(&m->low[bin], part) > ~part);

            if (x != 0) {
                atomicAdd(&m->high[bin], (uint32_t) x);
            }
        }
    }

    __syncthreads();
}


/*
 * The first bin up to which the sum reaches the goal -> m->border, HYMT_BINS if
 * none does; what is before it -> m->above.  With top_p the goal is its share
 * of the sum, and is returned.
 */
static __device__ uint64_t
hymt_border_bin(hymt_sample_smem_t *m, uint64_t goal, float top_p)
{
    int       j, bin;
    uint32_t  warp;
    uint64_t  x[4], own, before, total;

    own = 0;

    #pragma unroll
    for (j = 0; j < 4; j++) {
        x[j] = (uint64_t) m->high[threadIdx.x * 4 + j] << 32;
        x[j] += m->low[threadIdx.x * 4 + j];
        own += x[j];
    }

    before = hymt_warp_scan(own);

    if (threadIdx.x % 32 == 31) {
        m->sum[threadIdx.x / 32] = before;
    }

    if (threadIdx.x == 0) {
        m->border = HYMT_BINS;
    }

    __syncthreads();

    before -= own;
    total = 0;

    for (warp = 0; warp < HYMT_SAMPLE_WARPS; warp++) {
        before += warp < threadIdx.x / 32 ? m->sum[warp] : 0;
        total += m->sum[warp];
    }

    if (top_p > 0) {
        goal = hymt_top_p_goal(top_p, total);
    }

    if (before < goal && before + own >= goal) {
        bin = 0;

        #pragma unroll
        for (j = 0; j < 3; j++) {
            if (bin == j && before + x[j] < goal) {
                before += x[j];
                bin++;
            }
        }

        m->border = threadIdx.x * 4 + bin;
        m->above = before;
    }

    __syncthreads();

    return goal;
}


/* The smallest key that falls into an even bin up to this one. */
static __device__ uint32_t
hymt_bin_key(float max, uint32_t bin)
{
    uint32_t  low, high, middle;

    low = hymt_key(-INFINITY);
    high = hymt_key(max);

    while (low < high) {
        middle = low + (high - low) / 2;

        if (hymt_bin(max, hymt_key_value(middle), HYMT_BINS) <= bin) {
            high = middle;

        } else {
            low = middle + 1;
        }
    }

    return low;
}


/*
 * The greatest key such that those at or over it measure up to the goal, or to
 * top_p (if over 0) of all; 0 if all do not.  *goal: what of it is left for
 * those of just this key.
 */
static __device__ uint32_t
hymt_border_key(const hymt_sample_src_t *r, hymt_sample_smem_t *m,
    const hymt_measure_t *of, uint64_t *goal, float top_p)
{
    bool      first;
    uint32_t  low, high, shift, bin;

    low = 0;
    high = hymt_key(r->max);
    shift = 0;

    for (first = true; first || low < high; first = false) {
        shift = first ? 0 : 32 - __clz(high - low);
        shift = shift > 11 ? shift - 11 : 0;

        hymt_fill_bins(r, m, of, first, low, high, shift);

        *goal = hymt_border_bin(m, *goal, first ? top_p : 0);
        bin = m->border;

        if (bin == HYMT_BINS) {
            return 0;
        }

        *goal -= m->above;

        if (first) {
            low = hymt_bin_key(r->max, bin);
            high = bin == 0 ? high : hymt_bin_key(r->max, bin - 1) - 1;

        } else {
            high -= bin << shift;
            low = high - low < 1u << shift ? low : high - (1u << shift) + 1;
        }
    }

    return high;
}


/*
 * Sums of a measure over the even share of the row that each warp has, ids
 * ascending -> m->sum.  Returns the sum of all.
 */
static __device__ uint64_t
hymt_share_sums(const hymt_sample_src_t *r, hymt_sample_smem_t *m,
    const hymt_measure_t *of, uint32_t begin, uint32_t end)
{
    int       j;
    float     score[4];
    uint32_t  id, warp;
    uint64_t  sum;

    sum = 0;

    for (id = begin + threadIdx.x % 32 * 4; id < end; id += HYMT_GROUP) {
        hymt_load_scores(r, id, score);

        #pragma unroll
        for (j = 0; j < 4; j++) {
            sum += hymt_measure(r, of, id + j, score[j]);
        }
    }

    sum = hymt_warp_scan(sum);

    __syncthreads();

    if (threadIdx.x % 32 == 31) {
        m->sum[threadIdx.x / 32] = sum;
    }

    __syncthreads();

    sum = 0;

    for (warp = 0; warp < HYMT_SAMPLE_WARPS; warp++) {
        sum += m->sum[warp];
    }

    return sum;
}


/* The first id at which the running sum exceeds the goal. */
static __device__ uint32_t
hymt_find(const hymt_sample_src_t *r, hymt_sample_smem_t *m,
    const hymt_measure_t *of, uint64_t goal, uint32_t begin, uint32_t end)
{
    int       j;
    float     score[4];
    uint32_t  id, lane, warp, over;
    uint64_t  before, own, x[4];

    lane = threadIdx.x % 32;
    before = 0;

    for (warp = 0; warp < threadIdx.x / 32; warp++) {
        before += m->sum[warp];
    }

    if (before > goal || before + m->sum[warp] <= goal) {
        begin = end;
    }

    for ( /* void */ ; begin < end; begin += HYMT_GROUP) {
        id = begin + lane * 4;
        hymt_load_scores(r, id, score);
        own = 0;

        #pragma unroll
        for (j = 0; j < 4; j++) {
            x[j] = hymt_measure(r, of, id + j, score[j]);
            own += x[j];
        }

        own = before + hymt_warp_scan(own);
        over = __ballot_sync(0xffffffffu, own > goal);

        if (over != 0) {
            if (lane == __ffs(over) - 1) {
                #pragma unroll
                for (j = 3; j >= 0; j--) {
                    id += own > goal && j > 0 && own - x[j] <= goal ? j : 0;
                    own -= x[j];
                }

                m->found = id;
            }

            break;
        }

        before = __shfl_sync(0xffffffffu, own, 31);
    }

    __syncthreads();

    return m->found;
}


/* All threads of the block come here and get the token. */
static __device__ uint32_t
hymt_draw_whole(const hymt_sample_src_t *r, hymt_sample_smem_t *m,
    uint32_t top_k, float top_p, uint32_t u)
{
    uint32_t        begin, end, key, share;
    uint64_t        goal, weight;
    hymt_measure_t  of;

    share = (r->vocab + HYMT_GROUP * HYMT_SAMPLE_WARPS - 1)
            / (HYMT_GROUP * HYMT_SAMPLE_WARPS) * HYMT_GROUP;
    begin = threadIdx.x / 32 * share;
    end = min(begin + share, r->vocab);

    key = 0;

    if (top_k != 0 && top_k < r->vocab) {
        of.kind = HYMT_COUNT_ALL;
        goal = top_k;
        key = hymt_border_key(r, m, &of, &goal, 0);
    }

    of.kind = HYMT_WEIGH_KEPT;
    of.key = key == 0 ? 0 : key - 1;
    of.cut = 0;

    if (top_p < 1) {
        goal = 0;
        of.key = hymt_border_key(r, m, &of, &goal, top_p);

        /* as many of the border's ties, the first ids, as the rest takes */

        weight = hymt_weight(r->max, hymt_key_value(of.key));
        goal = (goal + weight - 1) / weight;

        of.kind = HYMT_COUNT_TIES;
        hymt_share_sums(r, m, &of, begin, end);
        of.cut = hymt_find(r, m, &of, goal - 1, begin, end) + 1;
        of.kind = HYMT_WEIGH_KEPT;
    }

    goal = hymt_share(hymt_share_sums(r, m, &of, begin, end), u);

    return hymt_find(r, m, &of, goal, begin, end);
}


#endif /* HYMT_CUDA_SAMPLER_WHOLE_CUH */
