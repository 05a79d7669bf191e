/*
 * sampler.cuh - scores, weights and random numbers of the sampler: sampler.cu
 * draws what needs few candidates, sampler_whole.cuh the rest.
 *
 * Weights are integers in units of 2^-46 of the best token's: their sums are
 * exact and the same in any order, so a draw depends neither on how threads
 * share the work nor on the launch.  Against the CPU's doubles a sum is off by
 * 2^-47 a token at most; a vocabulary of 2^18 still fits 64 bits.
 */

#ifndef HYMT_CUDA_SAMPLER_CUH
#define HYMT_CUDA_SAMPLER_CUH

#include "kernels.h"


#define HYMT_SAMPLE_THREADS  512
#define HYMT_SAMPLE_WARPS    (HYMT_SAMPLE_THREADS / 32)

#define HYMT_GROUP           128     /* ids: four a lane of a warp */
#define HYMT_THREAD_GROUPS   4       /* of a row: 2^18 ids, 4 * 512 groups */

#define HYMT_BINS            2048

#define HYMT_CANDIDATES      256

#define HYMT_UNIT            0x1p46

/* below the best, that bins cover: more than what weighs anything */
#define HYMT_BIN_RANGE       34.0f


/* One row as its threads see it. */
typedef struct {
    const hymt_bf16_t  *logits;
    const uint32_t     *seen;         /* NULL: no penalty */
    uint32_t            vocab;
    float               penalty;
    float               temperature;  /* 0: greedy */
    float               max;          /* score of the best */
    uint32_t            rank;         /* blocks that share the row: this one */
    uint32_t            n_ranks;
} hymt_sample_src_t;


typedef struct {
    uint32_t  low[HYMT_BINS];      /* bins; of a sum, its lower half */
    uint32_t  high[HYMT_BINS];

    uint64_t  candidate[HYMT_CANDIDATES];
    uint64_t  weight[2][HYMT_CANDIDATES];
    uint32_t  hot[HYMT_CANDIDATES];

    uint64_t  sum[HYMT_SAMPLE_WARPS];
    uint32_t  part[2][HYMT_SAMPLE_WARPS];

    uint64_t  above;
    uint32_t  border;
    uint32_t  kth;
    uint32_t  n_hot;
    uint32_t  n_candidates;
    uint32_t  found;
} hymt_sample_smem_t;


/* An integer that orders as the float does; 0 is none's. */
static __device__ __forceinline__ uint32_t
hymt_key(float x)
{
    int32_t  bits;

    bits = __float_as_int(x);

    return (uint32_t) (bits ^ (bits >> 31 | INT32_MIN));
}


static __device__ __forceinline__ float
hymt_key_value(uint32_t key)
{
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}


/* Four logits from id on (id % 4 == 0); what is past the vocabulary is -inf. */
static __device__ __forceinline__ float4
hymt_logits4(const hymt_sample_src_t *r, uint32_t id)
{
    uint2   bits;
    float4  v;

    v = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);

    if (id < r->vocab) {
        bits = __ldcg((const uint2 *) (r->logits + id));
        v.x = __uint_as_float(bits.x << 16);
        v.y = __uint_as_float(bits.x & 0xffff0000u);
        v.z = __uint_as_float(bits.y << 16);
        v.w = __uint_as_float(bits.y & 0xffff0000u);

        if (r->vocab - id < 4) {
            v.w = -INFINITY;
            v.z = r->vocab - id < 3 ? -INFINITY : v.z;
            v.y = r->vocab - id < 2 ? -INFINITY : v.y;
        }
    }

    return v;
}


/* Which of these four are in the set, a bit each. */
static __device__ __forceinline__ uint32_t
hymt_seen4(const hymt_sample_src_t *r, uint32_t id)
{
    if (r->seen == NULL || id >= r->vocab) {
        return 0;
    }

    return __ldcg(r->seen + id / 32) >> id % 32 & 15;
}


static __device__ __forceinline__ float
hymt_penalised(float x, float penalty)
{
    return x < 0 ? __fmul_rn(x, penalty) : __fdiv_rn(x, penalty);
}


static __device__ __forceinline__ float4
hymt_penalise4(const hymt_sample_src_t *r, float4 v, uint32_t seen)
{
    if (seen != 0) {
        v.x = seen & 1 ? hymt_penalised(v.x, r->penalty) : v.x;
        v.y = seen & 2 ? hymt_penalised(v.y, r->penalty) : v.y;
        v.z = seen & 4 ? hymt_penalised(v.z, r->penalty) : v.z;
        v.w = seen & 8 ? hymt_penalised(v.w, r->penalty) : v.w;
    }

    return v;
}


/* Of a penalised logit.  Adding 0 makes -0 equal to 0 for the keys, too. */
static __device__ __forceinline__ float
hymt_score(const hymt_sample_src_t *r, float x)
{
    return __fadd_rn(r->temperature == 0 ? x : __fdiv_rn(x, r->temperature),
                     0.0f);
}


static __device__ __forceinline__ void
hymt_scores4(const hymt_sample_src_t *r, float4 v, float *score)
{
    score[0] = hymt_score(r, v.x);
    score[1] = hymt_score(r, v.y);
    score[2] = hymt_score(r, v.z);
    score[3] = hymt_score(r, v.w);
}


/* Bins are even parts of the range below the best, which is in bin 0. */
static __device__ __forceinline__ uint32_t
hymt_bin(float max, float score)
{
    return __float2uint_rz(__fmul_rn(__fsub_rn(max, score),
                                     HYMT_BINS / HYMT_BIN_RANGE));
}


/* 0 for what is 33 or more below the best */
static __device__ __forceinline__ uint64_t
hymt_weight(float max, float score)
{
    return __double2ull_rn(exp((double) score - (double) max) * HYMT_UNIT);
}


/* The sum that top_p asks for, of that of all: at least 1, at most all. */
static __device__ __forceinline__ uint64_t
hymt_top_p_goal(float top_p, uint64_t total)
{
    return __double2ull_ru((double) top_p * __ull2double_rn(total));
}


/* floor(total * u / 2^24): a running sum over it is over u's share of total */
static __device__ __forceinline__ uint64_t
hymt_share(uint64_t total, uint32_t u)
{
    return (total >> 24) * u + ((total & 0xffffff) * u >> 24);
}


/* hymt_uniform() of sampling.h, times 2^24. */
static __device__ __forceinline__ uint32_t
hymt_uniform24(uint64_t seed, uint32_t n_out, uint32_t index)
{
    int       i;
    uint32_t  x0, x1, x2, x3, y0, y2, k0, k1;

    x0 = n_out;
    x1 = index;
    x2 = 0;
    x3 = 0;

    k0 = (uint32_t) seed;
    k1 = (uint32_t) (seed >> 32);

    #pragma unroll
    for (i = 0; i < 10; i++) {
        y0 = __umulhi(0xcd9e8d57u, x2) ^ x1 ^ k0;
        y2 = __umulhi(0xd2511f53u, x0) ^ x3 ^ k1;

        x1 = 0xcd9e8d57u * x2;
        x3 = 0xd2511f53u * x0;
        x0 = y0;
        x2 = y2;

        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }

    return x0 >> 8;
}


/* Inclusive, over the lanes of a warp. */
template<typename T>
static __device__ __forceinline__ T
hymt_warp_scan(T x)
{
    int  i, lane;
    T    other;

    lane = threadIdx.x % 32;

    #pragma unroll
    for (i = 1; i < 32; i *= 2) {
        other = __shfl_up_sync(0xffffffffu, x, i);
        x += lane >= i ? other : 0;
    }

    return x;
}


#endif /* HYMT_CUDA_SAMPLER_CUH */
