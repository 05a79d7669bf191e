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
 * Bytes: rows * vocab * 2, and k * 256 a row the second time.  H200, 120818
 * tokens, top_k 20, top_p 0.6, penalty: 256 rows 25.3 us, 53 % of the read
 * bandwidth (greedy 19.4 us, 70 %); one row 6.8 us.
 */

#include "norm.cuh"
#include "ptx.cuh"
#include "sampler_whole.cuh"


#define HYMT_BEST_WARPS    8
#define HYMT_BEST_BLOCKS   8        /* of a multiprocessor */
#define HYMT_BEST_LOADS    2        /* of a warp at a time, two groups each */
#define HYMT_BEST_GROUPS   (2 * HYMT_BEST_LOADS)   /* a part of a row */
#define HYMT_BEST_PART     (HYMT_BEST_GROUPS * HYMT_GROUP)

/* sm_86 and sm_89 have room for fewer threads */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ > 800 && __CUDA_ARCH__ < 900
#define HYMT_BEST_RESIDENT 6
#else
#define HYMT_BEST_RESIDENT HYMT_BEST_BLOCKS
#endif

#define HYMT_MAX_RANKS     8        /* blocks of a row, in a cluster */
#define HYMT_RANK_BLOCKS   128      /* of a launch: while there is room */

#define HYMT_FEW           128      /* top_k up to it goes by candidates */

#define HYMT_FEW_BINS      HYMT_SAMPLE_THREADS

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
    r->rank = 0;
    r->n_ranks = 1;

    if (s->repetition_penalty != 1) {
        r->seen = a->seen + (size_t) s->slot * a->seen_words;
    }
}


/*
 * Eight logits of a lane for their group's best, and which of them are seen.
 * Past the vocabulary others of the group come twice, which changes no maximum.
 */
static __device__ __forceinline__ void
hymt_best_tail(const hymt_sample_src_t *r, uint32_t group, hymt_bf16x8_t *v,
    uint32_t *seen)
{
    int       i;
    uint32_t  id, left;

    group = min(group, (r->vocab - 1) / HYMT_GROUP);
    id = group * HYMT_GROUP + threadIdx.x % 16 * 8;
    id = id < r->vocab ? id : group * HYMT_GROUP;
    left = r->vocab - id;

    v->bits = __ldcg((const uint4 *) (r->logits + id));
    *seen = 0;

    if (r->seen != NULL) {
        *seen = __ldcg(r->seen + id / 32) >> id % 32 & 255;
    }

    if (left < 8) {
        #pragma unroll
        for (i = 0; i < 4; i++) {
            v->pair[i].x = 2 * i < left ? v->pair[i].x : v->pair[0].x;
            v->pair[i].y = 2 * i + 1 < left ? v->pair[i].y : v->pair[0].x;
        }

        *seen &= (1u << left) - 1;
        *seen |= *seen & 1 ? 255u << left & 255 : 0;
    }
}


/* The greatest of eight, those that are seen penalised. */
static __device__ __forceinline__ float
hymt_best8(const hymt_sample_src_t *r, const hymt_bf16x8_t *v, uint32_t seen)
{
    int     i;
    float   best;
    float2  x;

    if (seen == 0) {
        x = __bfloat1622float2(__hmax2(__hmax2(v->pair[0], v->pair[1]),
                                       __hmax2(v->pair[2], v->pair[3])));

        return fmaxf(x.x, x.y);
    }

    best = -INFINITY;

    #pragma unroll
    for (i = 0; i < 4; i++) {
        x = __bfloat1622float2(v->pair[i]);

        x.x = seen >> 2 * i & 1 ? hymt_penalised(x.x, r->penalty) : x.x;
        x.y = seen >> 2 * i & 2 ? hymt_penalised(x.y, r->penalty) : x.y;

        best = fmaxf(best, fmaxf(x.x, x.y));
    }

    return best;
}


/*
 * best[row][group] = key of the greatest of the group's penalised logits;
 * HYMT_KEY_BAD in some group of a row where not all are finite
 *
 * A block has a slice of a row, whose parts, 4 groups or 1 KB, its warps take
 * in turn: all loads of a part come before the first use.  A lane has 8 logits
 * of a group, in packed instructions but where one of them is seen: at 90
 * instructions for a group's 128 these were the limit, and not the memory.
 *
 * vocab * 2 bytes a row, and vocab / 8 where there is a penalty.
 */
static __global__ void __launch_bounds__(HYMT_BEST_WARPS * 32,
                                         HYMT_BEST_RESIDENT)
k_group_best_bf16(const __grid_constant__ hymt_sample_args_t a,
    uint32_t *best, uint32_t n_groups, uint32_t row_parts,
    uint32_t slice_parts)
{
    int                i, j;
    uint32_t           lane, part, end, group, id, key, kept, slot;
    uint32_t           seen[HYMT_BEST_LOADS];
    hymt_bf16x8_t      v[HYMT_BEST_LOADS];
    __nv_bfloat162     none, bad;
    hymt_sample_src_t  r;

    hymt_grid_launch();

    /* settings are the host's, copied before the step's first kernel */

    slot = a.sample[blockIdx.y].slot;
    hymt_sample_src(&a, blockIdx.y, &a.sample[blockIdx.y], &r);

    lane = threadIdx.x % 32;
    part = blockIdx.x * slice_parts + threadIdx.x / 32;
    end = min((blockIdx.x + 1) * slice_parts, row_parts);
    best += (size_t) blockIdx.y * n_groups;
    none = __floats2bfloat162_rn(0, 0);
    bad = none;

    hymt_grid_wait();

    if (slot == UINT32_MAX || part >= end) {
        return;
    }

    for ( /* void */ ; part < end; part += HYMT_BEST_WARPS) {
        group = part * HYMT_BEST_GROUPS;

        if ((part + 1) * HYMT_BEST_PART <= r.vocab) {
            id = part * HYMT_BEST_PART + lane * 8;

            #pragma unroll
            for (i = 0; i < HYMT_BEST_LOADS; i++) {
                v[i].bits = __ldcg((const uint4 *) (r.logits + id) + i * 32);
                seen[i] = 0;
            }

            if (r.seen != NULL) {
                #pragma unroll
                for (i = 0; i < HYMT_BEST_LOADS; i++) {
                    seen[i] = __ldcg(r.seen + id / 32 + i * 8);
                }

                #pragma unroll
                for (i = 0; i < HYMT_BEST_LOADS; i++) {
                    seen[i] = seen[i] >> id % 32 & 255;
                }
            }

        } else {
            #pragma unroll
            for (i = 0; i < HYMT_BEST_LOADS; i++) {
                hymt_best_tail(&r, group + 2 * i + lane / 16, &v[i], &seen[i]);
            }
        }

        kept = 0;

        #pragma unroll
        for (i = 0; i < HYMT_BEST_LOADS; i++) {

            /* x * 0 is 0 but for what is not finite */

            #pragma unroll
            for (j = 0; j < 4; j++) {
                bad = __hfma2(v[i].pair[j], none, bad);
            }

            key = hymt_key(hymt_best8(&r, &v[i], seen[i]) + 0.0f);

            /* of the 16 lanes that have the group */

            #pragma unroll
            for (j = 8; j > 0; j /= 2) {
                key = max(key, __shfl_xor_sync(0xffffffffu, key, j));
            }

            kept = lane % 16 == i ? key : kept;
        }

        id = group + lane % 16 * 2 + lane / 16;

        if (lane % 16 < HYMT_BEST_LOADS && id < n_groups) {
            best[id] = kept;
        }
    }

    if (__any_sync(0xffffffffu, !__hbeq2(bad, none)) && lane == 0) {
        best[group] = HYMT_KEY_BAD;
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


/* What a draw by candidates needs of the settings; ready before the logits. */
typedef struct {
    uint32_t  top_k;
    float     top_p;
    uint32_t  u;
    float     width;       /* of a bin of logits */
    float     scale;       /* bins for one of logits */
} hymt_few_t;


static __device__ __forceinline__ uint32_t
hymt_few_bin(const hymt_few_t *few, float best, float x)
{
    return __float2uint_rz((best - x) * few->scale);
}


/*
 * The first bin up to which there are k groups -> m->border; the last if there
 * are not so many.  A thread has a bin.
 */
static __device__ __forceinline__ void
hymt_few_border(hymt_sample_smem_t *m, uint32_t k)
{
    uint32_t  own, before, warp;

    own = m->low[threadIdx.x];
    before = hymt_warp_scan(own);

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
        m->border = threadIdx.x;
    }

    __syncthreads();
}


/*
 * The least logit that may matter: the border bin's least, and less by what may
 * have the same quotient by the temperature.
 */
static __device__ __forceinline__ float
hymt_few_least(const hymt_few_t *few, float best, uint32_t border)
{
    float  least;

    least = best - (float) (border + 1) * few->width;

    return least - (fabsf(best) * 0x1p-21f + fabsf(least) * 0x1p-21f + 1e-37f);
}


static __device__ __forceinline__ void
hymt_few_add(const hymt_sample_src_t *r, hymt_sample_smem_t *m, uint32_t id,
    float x)
{
    uint32_t  at;

    at = atomicAdd(&m->n_candidates, 1);

    if (at < HYMT_CANDIDATES) {
        m->candidate[at] = (uint64_t) hymt_key(hymt_score(r, x)) << 32
                           | (uint32_t) ~id;
    }
}


/*
 * The groups that may hold one of the k best, in m->hot, are looked at again: a
 * warp takes two at a time.  What is not below `least` goes to m->candidate,
 * best score and then smallest id the greatest.
 */
static __device__ __forceinline__ void
hymt_few_candidates(const hymt_sample_src_t *r, hymt_sample_smem_t *m,
    float least)
{
    int       i;
    float4    v[2];
    uint32_t  h, at, lane, id[2], seen[2];

    lane = threadIdx.x % 32;

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
            v[i] = hymt_penalise4(r, v[i], seen[i]);

            if (v[i].x >= least) {
                hymt_few_add(r, m, id[i], v[i].x);
            }

            if (v[i].y >= least) {
                hymt_few_add(r, m, id[i] + 1, v[i].y);
            }

            if (v[i].z >= least) {
                hymt_few_add(r, m, id[i] + 2, v[i].z);
            }

            if (v[i].w >= least) {
                hymt_few_add(r, m, id[i] + 3, v[i].w);
            }
        }
    }
}


/*
 * Draws among the candidates, a thread each.  All n of m->candidate are there
 * in any order, zeros after them; every thread finds its own place among them
 * by comparing, so nothing depends on that order.
 */
static __device__ __forceinline__ void
hymt_few_draw(hymt_sample_smem_t *m, const hymt_few_t *few, float max,
    uint32_t n)
{
    int       q;
    uint32_t  i, j, rank, key;
    uint64_t  own, other, weight, total, before, goal;

    i = threadIdx.x;
    n = (n + 3) / 4 * 4;
    own = i < n ? m->candidate[i] : 0;
    key = (uint32_t) (own >> 32);

    /* top-k: what is not below the k-th */

    if (own != 0) {
        rank = 0;

        for (j = 0; j < n; j += 4) {
            #pragma unroll
            for (q = 0; q < 4; q++) {
                rank += m->candidate[j + q] > own;
            }
        }

        if (rank == few->top_k - 1) {
            m->kth = key;
        }
    }

    __syncthreads();

    weight = 0;

    if (own != 0 && key >= m->kth) {
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

        for (j = 0; j < n; j += 4) {
            #pragma unroll
            for (q = 0; q < 4; q++) {
                other = m->weight[0][j + q];
                total += other;
                before += m->candidate[j + q] > own ? other : 0;
            }
        }

        if (few->top_p < 1 && before >= hymt_top_p_goal(few->top_p, total)) {
            weight = 0;
        }

        m->weight[1][i] = weight;
    }

    __syncthreads();

    /* the first id at which the running sum is over the share */

    if (weight != 0) {
        before = 0;
        total = 0;

        for (j = 0; j < n; j += 4) {
            #pragma unroll
            for (q = 0; q < 4; q++) {
                other = m->weight[1][j + q];
                total += other;
                before += (uint32_t) m->candidate[j + q] > (uint32_t) own
                          ? other : 0;
            }
        }

        goal = hymt_share(total, few->u);

        if (before <= goal && before + weight > goal) {
            m->found = ~(uint32_t) own;
        }
    }

    __syncthreads();
}


/* What hymt_draw_few() starts from; a barrier has to follow. */
static __device__ __forceinline__ void
hymt_few_begin(hymt_sample_smem_t *m, hymt_few_t *few,
    const hymt_sample_row_t *s)
{
    m->low[threadIdx.x] = 0;

    if (threadIdx.x < HYMT_CANDIDATES) {
        m->candidate[threadIdx.x] = 0;
    }

    if (threadIdx.x == 0) {
        m->border = HYMT_FEW_BINS - 1;
        m->kth = 0;
        m->n_hot = 0;
        m->n_candidates = 0;
    }

    few->top_k = s->top_k;
    few->top_p = s->top_p;
    few->u = hymt_uniform24(s->seed, s->n_out, s->index);
    few->width = s->temperature * (HYMT_BIN_RANGE / HYMT_FEW_BINS);
    few->scale = 1 / few->width;
}


/*
 * A draw by candidates; false where there are too many.  key: bests of this
 * thread's groups; best: of all.
 */
static __device__ __forceinline__ bool
hymt_draw_few(const hymt_sample_src_t *r, hymt_sample_smem_t *m,
    const hymt_few_t *few, const uint32_t *key, float best)
{
    int       i;
    float     least;
    uint32_t  at;

    #pragma unroll
    for (i = 0; i < HYMT_THREAD_GROUPS; i++) {
        if (key[i] != 0) {
            at = hymt_few_bin(few, best, hymt_key_value(key[i]));

            if (at < HYMT_FEW_BINS) {
                atomicAdd(&m->low[at], 1);
            }
        }
    }

    __syncthreads();

    hymt_few_border(m, few->top_k);
    least = hymt_few_least(few, best, m->border);

    #pragma unroll
    for (i = 0; i < HYMT_THREAD_GROUPS; i++) {
        if (key[i] != 0 && hymt_key_value(key[i]) >= least) {
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

    hymt_few_candidates(r, m, least);

    __syncthreads();

    if (m->n_candidates > HYMT_CANDIDATES) {
        return false;
    }

    hymt_few_draw(m, few, r->max, m->n_candidates);

    return true;
}


/* Whether one block has little to do for a row; the others need not stay. */
static __device__ __forceinline__ bool
hymt_draws_few(const hymt_sample_row_t *s, uint32_t vocab)
{
    return s->temperature == 0
           || (s->top_k != 0 && s->top_k <= HYMT_FEW && s->top_k < vocab);
}


static __device__ __forceinline__ uint32_t
hymt_draw(hymt_sample_src_t *r, hymt_sample_smem_t *m, const hymt_few_t *few,
    bool draws_few, const uint32_t *key, uint32_t best)
{
    if (r->temperature == 0) {
        return hymt_draw_best(r, m, key, best);
    }

    r->max = hymt_score(r, hymt_key_value(best));

    /* as on the CPU where a penalty or a temperature overflows: the first id */

    if (!isfinite(r->max)) {
        return 0;
    }

    if (draws_few && hymt_draw_few(r, m, few, key, hymt_key_value(best))) {
        return m->found;
    }

    return hymt_draw_whole(r, m, few->top_k, few->top_p, few->u);
}


/*
 * A token for each row, of its groups' bests and, again, some logits.  A row
 * has n_ranks blocks, a cluster, of which only a draw from the whole row needs
 * more than the first.
 */
static __global__ void __launch_bounds__(HYMT_SAMPLE_THREADS, 2)
k_sample_bf16(const __grid_constant__ hymt_sample_args_t a,
    const uint32_t *best, uint32_t n_groups, uint32_t n_ranks)
{
    int                i;
    bool               draws_few;
    uint32_t           at, row, slot, token, best_key, key[HYMT_THREAD_GROUPS];
    hymt_few_t         few;
    hymt_sample_row_t  s;
    hymt_sample_src_t  r;

    __shared__ hymt_sample_smem_t  m;

    hymt_grid_launch();

    /* settings are the host's, copied before the step's first kernel */

    row = blockIdx.x / n_ranks;
    s = a.sample[row];
    hymt_sample_src(&a, row, &s, &r);
    r.rank = blockIdx.x % n_ranks;

    draws_few = hymt_draws_few(&s, a.vocab);
    r.n_ranks = draws_few ? 1 : n_ranks;
    slot = s.slot;

    hymt_few_begin(&m, &few, &s);

    hymt_grid_wait();

    if (slot == UINT32_MAX || r.rank >= r.n_ranks) {
        return;
    }

    best_key = 0;

    #pragma unroll
    for (i = 0; i < HYMT_THREAD_GROUPS; i++) {
        at = i * HYMT_SAMPLE_THREADS + threadIdx.x;
        key[i] = 0;

        if (at < n_groups) {
            key[i] = __ldcg(best + (size_t) row * n_groups + at);
        }

        best_key = max(best_key, key[i]);
    }

    best_key = hymt_block_max(best_key, m.part[0]);
    token = UINT32_MAX;

    if (best_key != HYMT_KEY_BAD) {
        token = hymt_draw(&r, &m, &few, draws_few, key, best_key);
    }

    if (threadIdx.x != 0 || r.rank != 0) {
        return;
    }

    a.out[row] = token;

    if (token == UINT32_MAX) {
        atomicOr(a.bad, 1);
        return;
    }

    a.last[slot] = token;
    atomicOr(a.seen + (size_t) slot * a.seen_words + token / 32,
             1u << token % 32);
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
    uint32_t             *best, n_groups, row_parts, slices, slice_parts;
    uint32_t              n_ranks;
    cudaError_t           rc;
    cudaLaunchConfig_t    config = {};
    cudaLaunchAttribute   attr[2];

    best = (uint32_t *) args->scratch;
    n_groups = (args->vocab + HYMT_GROUP - 1) / HYMT_GROUP;
    row_parts = (args->vocab + HYMT_BEST_PART - 1) / HYMT_BEST_PART;

    /* slices: all run at once, and each warp has a part to do */

    slices = dev->sms * HYMT_BEST_BLOCKS / args->rows;
    slices = slices < row_parts / HYMT_BEST_WARPS
             ? slices : row_parts / HYMT_BEST_WARPS;
    slices = slices > 1 ? slices : 1;

    slice_parts = (row_parts + slices - 1) / slices;

    rc = hymt_launch(k_group_best_bf16,
                     dim3((row_parts + slice_parts - 1) / slice_parts,
                          args->rows),
                     dim3(HYMT_BEST_WARPS * 32), 0, stream, dev->pdl, *args,
                     best, n_groups, row_parts, slice_parts);
    if (rc != cudaSuccess) {
        return rc;
    }

    /* later devices run the code for sm_80, which knows no clusters */

    n_ranks = dev->cc == 90 ? HYMT_MAX_RANKS : 1;

    while (n_ranks > 1 && args->rows * n_ranks > HYMT_RANK_BLOCKS) {
        n_ranks /= 2;
    }

    config.gridDim = dim3(args->rows * n_ranks);
    config.blockDim = dim3(HYMT_SAMPLE_THREADS);
    config.stream = stream;
    config.attrs = attr;

    if (n_ranks > 1) {
        attr[0].id = cudaLaunchAttributeClusterDimension;
        attr[0].val.clusterDim.x = n_ranks;
        attr[0].val.clusterDim.y = 1;
        attr[0].val.clusterDim.z = 1;
        config.numAttrs = 1;
    }

    if (dev->pdl) {
        attr[config.numAttrs].id =
            cudaLaunchAttributeProgrammaticStreamSerialization;
        attr[config.numAttrs].val.programmaticStreamSerializationAllowed = 1;
        config.numAttrs++;
    }

    return cudaLaunchKernelEx(&config, k_sample_bf16, *args,
                              (const uint32_t *) best, n_groups, n_ranks);
}
