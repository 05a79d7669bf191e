/*
 * sampler.cu - draws a token for each row of logits; see kernels.h.
 *
 * Two kernels.  The first reads the logits once and leaves one number for each
 * group of 128 ids: its best, after the penalty.  A token among the k best is
 * in a group whose best is among the k best groups' (or ties), so the second
 * looks again at some k groups and no more, and draws among the few tokens
 * there.  What is not so simple (no top_k, a large one, too many ties) it draws
 * from the whole row.
 *
 * Bytes: rows * vocab * 4, and k * 512 a row the second time.
 */

#include "ptx.cuh"
#include "sampler_whole.cuh"


#define HYMT_BEST_THREADS  256
#define HYMT_BEST_GROUPS   4        /* of a warp */
#define HYMT_BLOCK_GROUPS  (HYMT_BEST_THREADS / 32 * HYMT_BEST_GROUPS)

#define HYMT_FEW           128      /* top_k up to it goes by candidates */

#define HYMT_FEW_BINS      1024

/* the best of a group that has something infinite or not a number in it */
#define HYMT_KEY_BAD       0xffffffffu


static __device__ __forceinline__ void
hymt_sample_src(const hymt_sample_args_t *a, uint32_t row,
    const hymt_sample_row_t *s, hymt_sample_src_t *r)
{
    r->logits = a->logits + (size_t) row * a->ld;
    r->vocab = a->vocab;
    r->penalty = s->repetition_penalty;
    r->temperature = s->temperature;
    r->seen = NULL;

    if (s->repetition_penalty != 1) {
        r->seen = a->seen + (size_t) s->slot * a->seen_words;
    }
}


/*
 * best[row][group] = key of the greatest of the group's penalised logits
 *
 * A warp takes 4 groups, 512 bytes each, all loads before the first use; it
 * ends when they are done, so that many blocks are in flight at any time.
 * vocab * 4 bytes a row.
 */
static __global__ void __launch_bounds__(HYMT_BEST_THREADS)
k_group_best_f32(const __grid_constant__ hymt_sample_args_t a, uint32_t *best,
    uint32_t n_groups)
{
    int                i;
    float              zero;
    float4             v[HYMT_BEST_GROUPS];
    uint32_t           lane, group, id, key, kept, seen[HYMT_BEST_GROUPS];
    hymt_sample_row_t  s;
    hymt_sample_src_t  r;

    hymt_grid_launch();

    /* settings are the host's, copied before the step's first kernel */

    s = a.sample[blockIdx.y];
    hymt_sample_src(&a, blockIdx.y, &s, &r);

    lane = threadIdx.x % 32;
    group = (blockIdx.x * (HYMT_BEST_THREADS / 32) + threadIdx.x / 32)
            * HYMT_BEST_GROUPS;

    hymt_grid_wait();

    if (s.slot == UINT32_MAX) {
        return;
    }

    #pragma unroll
    for (i = 0; i < HYMT_BEST_GROUPS; i++) {
        id = (group + i) * HYMT_GROUP + lane * 4;
        v[i] = hymt_logits4(&r, id);
        seen[i] = hymt_seen4(&r, id);
    }

    kept = 0;

    #pragma unroll
    for (i = 0; i < HYMT_BEST_GROUPS; i++) {
        id = (group + i) * HYMT_GROUP + lane * 4;

        /* x * 0 is 0 but for what is not finite */

        zero = v[i].x * 0.0f;

        if (r.vocab - id >= 4 && id < r.vocab) {
            zero = fmaf(v[i].y, 0.0f, zero);
            zero = fmaf(v[i].z, 0.0f, zero);
            zero = fmaf(v[i].w, 0.0f, zero);

        } else if (id < r.vocab) {
            zero = r.vocab - id > 1 ? fmaf(v[i].y, 0.0f, zero) : zero;
            zero = r.vocab - id > 2 ? fmaf(v[i].z, 0.0f, zero) : zero;

        } else {
            zero = 0;
        }

        v[i] = hymt_penalise4(&r, v[i], seen[i]);

        key = hymt_key(fmaxf(fmaxf(v[i].x, v[i].y), fmaxf(v[i].z, v[i].w))
                       + 0.0f);
        key = __reduce_max_sync(0xffffffffu, zero == 0 ? key : HYMT_KEY_BAD);
        kept = lane == i ? key : kept;
    }

    if (lane < HYMT_BEST_GROUPS && group + lane < n_groups) {
        best[(size_t) blockIdx.y * n_groups + group + lane] = kept;
    }
}


/* Of the whole block; part is one of m->part. */
static __device__ __forceinline__ uint32_t
hymt_block_max(uint32_t x, uint32_t *part)
{
    uint32_t  lane;

    lane = threadIdx.x % 32;
    x = __reduce_max_sync(0xffffffffu, x);

    if (lane == 0) {
        part[threadIdx.x / 32] = x;
    }

    __syncthreads();

    return __reduce_max_sync(0xffffffffu,
                             lane < HYMT_SAMPLE_WARPS ? part[lane] : 0);
}


/* The first id whose score is the best: in the first group that has it. */
static __device__ uint32_t
hymt_draw_best(const hymt_sample_src_t *r, hymt_sample_smem_t *m,
    const uint32_t *key, uint32_t best)
{
    int       i;
    float     score[4];
    uint32_t  id, found;

    found = 0;

    #pragma unroll
    for (i = 0; i < HYMT_THREAD_GROUPS; i++) {
        if (key[i] == best) {
            found = max(found, ~(i * HYMT_SAMPLE_THREADS + threadIdx.x));
        }
    }

    id = ~hymt_block_max(found, m->part[1]) * HYMT_GROUP
         + threadIdx.x % 32 * 4;

    hymt_scores4(r, hymt_penalise4(r, hymt_logits4(r, id), hymt_seen4(r, id)),
                 score);
    found = 0;

    #pragma unroll
    for (i = 3; i >= 0; i--) {
        found = hymt_key(score[i]) == best ? ~(id + i) : found;
    }

    return ~__reduce_max_sync(0xffffffffu, found);
}


/*
 * The first bin up to which there are k groups -> m->border; the last if there
 * are not so many.
 */
static __device__ __forceinline__ void
hymt_few_border(hymt_sample_smem_t *m, uint32_t k)
{
    uint32_t  first, own, before, warp;

    first = m->low[threadIdx.x * 2];
    own = first + m->low[threadIdx.x * 2 + 1];
    before = (uint32_t) hymt_warp_scan(own);

    if (threadIdx.x % 32 == 31) {
        m->part[1][threadIdx.x / 32] = before;
    }

    __syncthreads();

    before -= own;

    #pragma unroll
    for (warp = 0; warp < HYMT_SAMPLE_WARPS; warp++) {
        before += warp < threadIdx.x / 32 ? m->part[1][warp] : 0;
    }

    if (before < k && before + own >= k) {
        m->border = threadIdx.x * 2 + (before + first < k);
    }

    __syncthreads();
}


/*
 * Scores of groups that may hold one of the k best, in m->hot, are looked at
 * again: a warp takes a group at a time.  What is in a bin up to the border
 * goes to m->candidate, best score and then smallest id the greatest.
 */
static __device__ __forceinline__ void
hymt_few_candidates(const hymt_sample_src_t *r, hymt_sample_smem_t *m)
{
    int       i, j;
    float     score[4];
    float4    v[2];
    uint32_t  h, at, lane, border, id[2], seen[2];

    lane = threadIdx.x % 32;
    border = m->border;

    for (h = threadIdx.x / 32; h < m->n_hot; h += 2 * HYMT_SAMPLE_WARPS) {

        #pragma unroll
        for (i = 0; i < 2; i++) {
            at = h + i * HYMT_SAMPLE_WARPS;
            id[i] = at < m->n_hot ? m->hot[at] * HYMT_GROUP + lane * 4
                                  : UINT32_MAX;
            v[i] = hymt_logits4(r, id[i]);
            seen[i] = hymt_seen4(r, id[i]);
        }

        #pragma unroll
        for (i = 0; i < 2; i++) {
            hymt_scores4(r, hymt_penalise4(r, v[i], seen[i]), score);

            #pragma unroll
            for (j = 0; j < 4; j++) {
                if (hymt_bin(r->max, score[j], HYMT_FEW_BINS) > border) {
                    continue;
                }

                at = atomicAdd(&m->n_candidates, 1);

                if (at < HYMT_CANDIDATES) {
                    m->candidate[at] = (uint64_t) hymt_key(score[j]) << 32
                                       | (uint32_t) ~(id[i] + j);
                }
            }
        }
    }
}


/*
 * Draws among the candidates, a thread each.  All n of m->candidate are there
 * in any order; every thread finds its own place among them by comparing, so
 * nothing depends on that order.
 */
static __device__ __forceinline__ void
hymt_few_draw(hymt_sample_smem_t *m, float max, uint32_t n, uint32_t top_k,
    float top_p, uint32_t u)
{
    uint32_t  i, j, rank, key;
    uint64_t  own, other, weight, total, before, goal;

    i = threadIdx.x;
    own = i < n ? m->candidate[i] : 0;
    key = (uint32_t) (own >> 32);

    /* top-k: what is not below the k-th */

    if (i < n) {
        rank = 0;

        for (j = 0; j < n; j++) {
            rank += m->candidate[j] > own;
        }

        if (rank == top_k - 1) {
            m->kth = key;
        }
    }

    __syncthreads();

    weight = 0;

    if (i < n && key >= m->kth) {
        weight = hymt_weight(max, hymt_key_value(key));
    }

    if (i < n) {
        m->weight[0][i] = weight;
    }

    __syncthreads();

    /* top-p: what the better ones do not reach the goal without */

    if (i < n) {
        before = 0;
        total = 0;

        for (j = 0; j < n; j++) {
            other = m->weight[0][j];
            total += other;
            before += m->candidate[j] > own ? other : 0;
        }

        if (top_p < 1 && before >= hymt_top_p_goal(top_p, total)) {
            weight = 0;
        }

        m->weight[1][i] = weight;
    }

    __syncthreads();

    /* the first id at which the running sum is over the share */

    if (weight != 0) {
        before = 0;
        total = 0;

        for (j = 0; j < n; j++) {
            other = m->weight[1][j];
            total += other;
            before += (uint32_t) m->candidate[j] > (uint32_t) own ? other : 0;
        }

        goal = hymt_share(total, u);

        if (before <= goal && before + weight > goal) {
            m->found = ~(uint32_t) own;
        }
    }

    __syncthreads();
}


/*
 * A draw by candidates; false where there are too many.  key: bests of this
 * thread's groups.
 */
static __device__ __forceinline__ bool
hymt_draw_few(const hymt_sample_src_t *r, hymt_sample_smem_t *m,
    const uint32_t *key, uint32_t top_k, float top_p, uint32_t u)
{
    int       i;
    uint32_t  at, bin[HYMT_THREAD_GROUPS];

    for (at = threadIdx.x; at < HYMT_FEW_BINS; at += HYMT_SAMPLE_THREADS) {
        m->low[at] = 0;
    }

    if (threadIdx.x == 0) {
        m->border = HYMT_FEW_BINS - 1;
        m->kth = 0;
        m->n_hot = 0;
        m->n_candidates = 0;
    }

    __syncthreads();

    #pragma unroll
    for (i = 0; i < HYMT_THREAD_GROUPS; i++) {
        bin[i] = UINT32_MAX;

        if (key[i] != 0) {
            bin[i] = hymt_bin(r->max, hymt_score(r, hymt_key_value(key[i])),
                              HYMT_FEW_BINS);
        }

        if (bin[i] < HYMT_FEW_BINS) {
            atomicAdd(&m->low[bin[i]], 1);
        }
    }

    __syncthreads();

    hymt_few_border(m, top_k);

    #pragma unroll
    for (i = 0; i < HYMT_THREAD_GROUPS; i++) {
        if (bin[i] <= m->border) {
            at = atomicAdd(&m->n_hot, 1);

            if (at < HYMT_CANDIDATES) {
                m->hot[at] = i * HYMT_SAMPLE_THREADS + threadIdx.x;
            }
        }
    }

    __syncthreads();

    if (m->n_hot > HYMT_CANDIDATES) {
        return false;
    }

    hymt_few_candidates(r, m);

    __syncthreads();

    if (m->n_candidates > HYMT_CANDIDATES) {
        return false;
    }

    hymt_few_draw(m, r->max, m->n_candidates, top_k, top_p, u);

    return true;
}


static __device__ __forceinline__ uint32_t
hymt_draw(const hymt_sample_row_t *s, hymt_sample_src_t *r,
    hymt_sample_smem_t *m, const uint32_t *key, uint32_t best)
{
    uint32_t  u;

    if (s->temperature == 0) {
        return hymt_draw_best(r, m, key, best);
    }

    r->max = hymt_score(r, hymt_key_value(best));

    /* as on the CPU where a penalty or a temperature overflows: the first id */

    if (!isfinite(r->max)) {
        return 0;
    }

    u = hymt_uniform24(s->seed, s->n_out, s->index);

    if (s->top_k != 0 && s->top_k <= HYMT_FEW && s->top_k < r->vocab
        && hymt_draw_few(r, m, key, s->top_k, s->top_p, u))
    {
        return m->found;
    }

    return hymt_draw_whole(r, m, s->top_k, s->top_p, u);
}


/*
 * One block a row: a token of the groups' bests and, again, some logits.
 */
static __global__ void __launch_bounds__(HYMT_SAMPLE_THREADS)
k_sample_f32(const __grid_constant__ hymt_sample_args_t a, const uint32_t *best,
    uint32_t n_groups)
{
    int                i;
    uint32_t           at, token, max_key, key[HYMT_THREAD_GROUPS];
    hymt_sample_row_t  s;
    hymt_sample_src_t  r;

    __shared__ hymt_sample_smem_t  m;

    hymt_grid_launch();

    s = a.sample[blockIdx.x];
    hymt_sample_src(&a, blockIdx.x, &s, &r);

    hymt_grid_wait();

    if (s.slot == UINT32_MAX) {
        return;
    }

    max_key = 0;

    #pragma unroll
    for (i = 0; i < HYMT_THREAD_GROUPS; i++) {
        at = i * HYMT_SAMPLE_THREADS + threadIdx.x;
        key[i] = 0;

        if (at < n_groups) {
            key[i] = __ldcg(best + (size_t) blockIdx.x * n_groups + at);
        }

        max_key = max(max_key, key[i]);
    }

    max_key = hymt_block_max(max_key, m.part[0]);
    token = UINT32_MAX;

    if (max_key != HYMT_KEY_BAD) {
        token = hymt_draw(&s, &r, &m, key, max_key);
    }

    if (threadIdx.x != 0) {
        return;
    }

    a.out[blockIdx.x] = token;

    if (token == UINT32_MAX) {
        atomicOr(a.bad, 1);
        return;
    }

    a.last[s.slot] = token;
    a.seen[(size_t) s.slot * a.seen_words + token / 32] |= 1u << token % 32;
}


size_t
hymt_sampler_scratch(uint32_t rows, uint32_t ld)
{
    return (size_t) rows * ((ld + HYMT_GROUP - 1) / HYMT_GROUP)
           * sizeof(uint32_t);
}


cudaError_t
hymt_cuda_sample(const hymt_cuda_t *dev, const hymt_sample_args_t *args,
    cudaStream_t stream)
{
    uint32_t     *best, n_groups;
    cudaError_t   rc;

    best = (uint32_t *) args->scratch;
    n_groups = (args->vocab + HYMT_GROUP - 1) / HYMT_GROUP;

    rc = hymt_launch(k_group_best_f32,
                     dim3((n_groups + HYMT_BLOCK_GROUPS - 1)
                          / HYMT_BLOCK_GROUPS, args->rows),
                     dim3(HYMT_BEST_THREADS), 0, stream, dev->pdl, *args, best,
                     n_groups);
    if (rc != cudaSuccess) {
        return rc;
    }

    return hymt_launch(k_sample_f32, dim3(args->rows),
                       dim3(HYMT_SAMPLE_THREADS), 0, stream, dev->pdl, *args,
                       (const uint32_t *) best, n_groups);
}
