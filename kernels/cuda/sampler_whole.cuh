/*
 * sampler_whole.cuh - a draw from a whole row: any top_k, any top_p, any number
 * of ties.
 *
 * Borders (the k-th score, the score where top_p is reached) are found by a
 * search of a few passes over the row.  The first cuts the range of scores that
 * weigh anything into even bins, which spreads the atomic additions as the
 * scores are spread; each further one cuts the border's bin, an interval of
 * keys, into 2048, until a bin is one key.
 *
 * Where there are few rows, the blocks of a cluster share one: each adds up its
 * part of the ids and all read the sums of all.  Sums are exact, so that
 * changes nothing but the time.
 */

#ifndef HYMT_CUDA_SAMPLER_WHOLE_CUH
#define HYMT_CUDA_SAMPLER_WHOLE_CUH

#include "ptx.cuh"
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


/* Four ids on their way: the next ones are loaded while these are weighed. */
typedef struct {
    float4    logit;
    uint32_t  seen;
} hymt_quad_t;


/* Of all blocks that share the row. */
static __device__ __forceinline__ void
hymt_row_sync(const hymt_sample_src_t *r)
{
#if __CUDA_ARCH__ >= 900
    if (r->n_ranks > 1) {
        __syncwarp();
        hymt_cluster_sync();
        return;
    }
#endif

    __syncthreads();
}


/* What a block of the cluster has where this one has p. */
template<typename T>
static __device__ __forceinline__ T *
hymt_peer(const hymt_sample_src_t *r, T *p, uint32_t rank)
{
#if __CUDA_ARCH__ >= 900
    if (r->n_ranks > 1) {
        uint64_t  at;

        asm volatile("mapa.u64 %0, %1, %2;"
                     : "=l"(at) : "l"(p), "r"(rank));

        return (T *) at;
    }
#endif

    return p;
}


static __device__ __forceinline__ hymt_quad_t
hymt_load_quad(const hymt_sample_src_t *r, uint32_t id)
{
    hymt_quad_t  q;

    q.logit = hymt_logits4(r, id);
    q.seen = hymt_seen4(r, id);

    return q;
}


/*
 * What ids id and id + 1 measure, where `in` has their bits.  Exponentials are
 * taken side by side, of both where one is needed: a branch for each would be a
 * wait for each.
 */
static __device__ __forceinline__ void
hymt_measure2(const hymt_sample_src_t *r, const hymt_measure_t *of, uint32_t id,
    const float *score, uint32_t in, uint64_t *x)
{
    int       j;
    uint32_t  key;

    #pragma unroll
    for (j = 0; j < 2; j++) {
        key = hymt_key(score[j]);
        x[j] = id + j < r->vocab;

        if (of->kind == HYMT_COUNT_TIES) {
            x[j] &= key == of->key;

        } else if (of->kind == HYMT_WEIGH_KEPT) {
            x[j] &= key > of->key || (key == of->key && id + j < of->cut);
        }

        x[j] &= in >> j;
    }

    if (of->kind == HYMT_WEIGH_KEPT && (x[0] | x[1]) != 0) {

        #pragma unroll
        for (j = 0; j < 2; j++) {
            x[j] = x[j] ? hymt_weight(r->max, score[j]) : 0;
        }
    }
}


/* Scores of two of a quad's ids: the first two, or the last. */
static __device__ __forceinline__ void
hymt_scores2(const hymt_sample_src_t *r, const hymt_quad_t *q, bool last,
    float *score)
{
    uint32_t  seen;

    seen = last ? q->seen >> 2 : q->seen;
    score[0] = last ? q->logit.z : q->logit.x;
    score[1] = last ? q->logit.w : q->logit.y;

    if (seen & 1) {
        score[0] = hymt_penalised(score[0], r->penalty);
    }

    if (seen & 2) {
        score[1] = hymt_penalised(score[1], r->penalty);
    }

    score[0] = hymt_score(r, score[0]);
    score[1] = hymt_score(r, score[1]);
}


/*
 * Adds up a measure in bins, from the best score down; of this block's part of
 * the ids.  First: even bins.  Then: keys of [low, high] in bins of 2^shift.
 */
static __device__ void
hymt_fill_bins(const hymt_sample_src_t *r, hymt_sample_smem_t *m,
    const hymt_measure_t *of, bool first, uint32_t low, uint32_t high,
    uint32_t shift)
{
    int          j, half;
    float        score[2];
    uint32_t     i, id, step, key, in, part, bin[2];
    uint64_t     x[2];
    hymt_quad_t  q, next;

    for (i = threadIdx.x; i < HYMT_BINS; i += HYMT_SAMPLE_THREADS) {
        m->low[i] = 0;
        m->high[i] = 0;
    }

    __syncthreads();

    step = r->n_ranks * HYMT_SAMPLE_THREADS * 4;
    id = (r->rank * HYMT_SAMPLE_THREADS + threadIdx.x) * 4;
    next = hymt_load_quad(r, id);

    for ( /* void */ ; id < r->vocab; id += step) {
        q = next;
        next = hymt_load_quad(r, id + step);

        #pragma unroll 1
        for (half = 0; half < 4; half += 2) {
            hymt_scores2(r, &q, half != 0, score);
            in = 0;

            #pragma unroll
            for (j = 0; j < 2; j++) {
                key = hymt_key(score[j]);
                bin[j] = hymt_bin(r->max, score[j]);

                if (!first) {
                    bin[j] = key >= low && key <= high ? (high - key) >> shift
                                                       : HYMT_BINS;
                }

                in |= (bin[j] < HYMT_BINS) << j;
            }

            if (in == 0) {
                continue;
            }

            hymt_measure2(r, of, id + half, score, in, x);

            #pragma unroll
            for (j = 0; j < 2; j++) {
                if (x[j] == 0) {
                    continue;
                }

                /* 64 bits by two native additions, the carry to the upper */

                part = (uint32_t) x[j];
                part = (uint32_t) (x[j] >> 32)
                       + (atomicAdd(&m->low[bin[j]], part) > ~part);

                if (part != 0) {
                    atomicAdd(&m->high[bin[j]], part);
                }
            }
        }
    }

    hymt_row_sync(r);
}


/*
 * The first bin up to which the sum reaches the goal -> m->border, HYMT_BINS if
 * none does; what is before it -> m->above.  With top_p the goal is its share
 * of the sum.  Returns the goal.
 */
static __device__ uint64_t
hymt_border_bin(const hymt_sample_src_t *r, hymt_sample_smem_t *m,
    uint64_t goal, float top_p)
{
    int       j, bin;
    uint4     low, high;
    uint32_t  rank, warp;
    uint64_t  x[4], own, before, total;

    x[0] = 0;
    x[1] = 0;
    x[2] = 0;
    x[3] = 0;

    #pragma unroll 1
    for (rank = 0; rank < r->n_ranks; rank++) {
        low = ((const uint4 *) hymt_peer(r, m->low, rank))[threadIdx.x];
        high = ((const uint4 *) hymt_peer(r, m->high, rank))[threadIdx.x];

        x[0] += (uint64_t) high.x << 32 | low.x;
        x[1] += (uint64_t) high.y << 32 | low.y;
        x[2] += (uint64_t) high.z << 32 | low.z;
        x[3] += (uint64_t) high.w << 32 | low.w;
    }

    own = x[0] + x[1] + x[2] + x[3];
    before = hymt_warp_scan(own);

    if (threadIdx.x % 32 == 31) {
        m->sum[threadIdx.x / 32] = before;
    }

    if (threadIdx.x == 0) {
        m->border = HYMT_BINS;
    }

    /* nor does any block go on to clear its bins before all have read them */

    hymt_row_sync(r);

    before -= own;
    total = 0;

    #pragma unroll 4
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

        if (hymt_bin(max, hymt_key_value(middle)) <= bin) {
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

    for (first = true; first || low < high; first = false) {
        shift = first ? 0 : 32 - __clz(high - low);
        shift = shift > 11 ? shift - 11 : 0;

        hymt_fill_bins(r, m, of, first, low, high, shift);

        *goal = hymt_border_bin(r, m, *goal, first ? top_p : 0);
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


/* The ids that this warp has, of even parts in order: [*begin, *end). */
static __device__ __forceinline__ void
hymt_warp_part(const hymt_sample_src_t *r, uint32_t *begin, uint32_t *end)
{
    uint32_t  warps, part;

    warps = r->n_ranks * HYMT_SAMPLE_WARPS;
    part = (r->vocab + HYMT_GROUP * warps - 1) / (HYMT_GROUP * warps)
           * HYMT_GROUP;

    *begin = (r->rank * HYMT_SAMPLE_WARPS + threadIdx.x / 32) * part;
    *end = min(*begin + part, r->vocab);
}


/*
 * Sums of a measure over the part of each warp -> m->sum of its block.
 * Returns the sum of all.
 */
static __device__ uint64_t
hymt_part_sums(const hymt_sample_src_t *r, hymt_sample_smem_t *m,
    const hymt_measure_t *of)
{
    int          half;
    float        score[2];
    uint32_t     id, begin, end, rank, warp;
    uint64_t     sum, x[2];
    hymt_quad_t  q, next;

    hymt_warp_part(r, &begin, &end);
    sum = 0;
    id = begin + threadIdx.x % 32 * 4;
    next = hymt_load_quad(r, id);

    for ( /* void */ ; id < end; id += HYMT_GROUP) {
        q = next;
        next = hymt_load_quad(r, id + HYMT_GROUP);

        #pragma unroll 1
        for (half = 0; half < 4; half += 2) {
            hymt_scores2(r, &q, half != 0, score);
            hymt_measure2(r, of, id + half, score, 3, x);
            sum += x[0] + x[1];
        }
    }

    __syncwarp();

    sum = hymt_warp_scan(sum);

    /* m->sum may still be read from what was before this */

    hymt_row_sync(r);

    if (threadIdx.x % 32 == 31) {
        m->sum[threadIdx.x / 32] = sum;
    }

    hymt_row_sync(r);

    sum = 0;

    for (rank = 0; rank < r->n_ranks; rank++) {
        #pragma unroll 4
        for (warp = 0; warp < HYMT_SAMPLE_WARPS; warp++) {
            sum += hymt_peer(r, m->sum, rank)[warp];
        }
    }

    return sum;
}


/*
 * The first id at which the running sum exceeds the goal, which it does: the
 * warp in whose part that is walks there.
 */
static __device__ uint32_t
hymt_find(const hymt_sample_src_t *r, hymt_sample_smem_t *m,
    const hymt_measure_t *of, uint64_t goal)
{
    int          j;
    float        score[2];
    uint32_t     id, lane, warp, rank, over, begin, end;
    uint64_t     before, own, x[4];
    hymt_quad_t  q;

    hymt_warp_part(r, &begin, &end);
    lane = threadIdx.x % 32;
    before = 0;

    for (rank = 0; rank < r->rank; rank++) {
        #pragma unroll 4
        for (warp = 0; warp < HYMT_SAMPLE_WARPS; warp++) {
            before += hymt_peer(r, m->sum, rank)[warp];
        }
    }

    for (warp = 0; warp < threadIdx.x / 32; warp++) {
        before += m->sum[warp];
    }

    if (before > goal || before + m->sum[warp] <= goal) {
        begin = end;
    }

    for ( /* void */ ; begin < end; begin += HYMT_GROUP) {
        id = begin + lane * 4;
        q = hymt_load_quad(r, id);
        hymt_scores2(r, &q, false, score);
        hymt_measure2(r, of, id, score, 3, x);
        hymt_scores2(r, &q, true, score);
        hymt_measure2(r, of, id + 2, score, 3, x + 2);

        own = before + hymt_warp_scan(x[0] + x[1] + x[2] + x[3]);
        over = __ballot_sync(0xffffffffu, own > goal);

        if (over == 0) {
            before = __shfl_sync(0xffffffffu, own, 31);
            continue;
        }

        if (lane == __ffs(over) - 1) {

            #pragma unroll
            for (j = 3; j > 0; j--) {
                id += own > goal && own - x[j] <= goal ? j : 0;
                own -= x[j];
            }

            for (rank = 0; rank < r->n_ranks; rank++) {
                *hymt_peer(r, &m->found, rank) = id;
            }
        }

        break;
    }

    hymt_row_sync(r);

    return m->found;
}


/* All threads of all blocks that share the row come here and get the token. */
static __device__ uint32_t
hymt_draw_whole(const hymt_sample_src_t *r, hymt_sample_smem_t *m,
    uint32_t top_k, float top_p, uint32_t u)
{
    uint32_t        key;
    uint64_t        goal, weight;
    hymt_measure_t  of;

    key = 0;
    of.kind = HYMT_COUNT_ALL;
    of.key = 0;
    of.cut = 0;

    if (top_k != 0 && top_k < r->vocab) {
        goal = top_k;
        key = hymt_border_key(r, m, &of, &goal, 0);
    }

    of.kind = HYMT_WEIGH_KEPT;
    of.key = key == 0 ? 0 : key - 1;

    if (top_p < 1) {
        goal = 0;
        of.key = hymt_border_key(r, m, &of, &goal, top_p);

        /* as many of the border's ties, the first ids, as the rest takes */

        weight = hymt_weight(r->max, hymt_key_value(of.key));
        goal = (goal + weight - 1) / weight;

        of.kind = HYMT_COUNT_TIES;
        hymt_part_sums(r, m, &of);
        of.cut = hymt_find(r, m, &of, goal - 1) + 1;
        of.kind = HYMT_WEIGH_KEPT;
    }

    goal = hymt_share(hymt_part_sums(r, m, &of), u);

    return hymt_find(r, m, &of, goal);
}


#endif /* HYMT_CUDA_SAMPLER_WHOLE_CUH */
