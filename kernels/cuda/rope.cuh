/*
 * rope.cuh - position and QK-norm of one head, for the kernel of prompt rows
 * (rope.cu) and for decode attention, which does its rows itself: one function,
 * so the bits are the same.
 *
 * A head is 16 lanes' of a warp, each of which has 4 elements of its first half
 * and the 4 of its second that they turn with.
 */

#ifndef HYMT_CUDA_ROPE_CUH
#define HYMT_CUDA_ROPE_CUH

#include "kernels.h"
#include "norm.cuh"


#define HYMT_ROPE_LANES  16


/* A lane's share of a head; of cosines and sines: those in lo, these in hi. */
typedef struct {
    __nv_bfloat162  lo[2];
    __nv_bfloat162  hi[2];
} hymt_head_t;


typedef union {
    uint2           bits;
    __nv_bfloat162  pair[2];
} hymt_bf16x4_t;


static __device__ __forceinline__ hymt_head_t
hymt_head(uint2 lo, uint2 hi)
{
    hymt_head_t    x;
    hymt_bf16x4_t  half[2];

    half[0].bits = lo;
    half[1].bits = hi;

    x.lo[0] = half[0].pair[0];
    x.lo[1] = half[0].pair[1];
    x.hi[0] = half[1].pair[0];
    x.hi[1] = half[1].pair[1];

    return x;
}


static __device__ __forceinline__ uint2
hymt_head_bits(const __nv_bfloat162 (&half)[2])
{
    hymt_bf16x4_t  x;

    x.pair[0] = half[0];
    x.pair[1] = half[1];

    return x.bits;
}


/* The lane's first element of a head. */
static __device__ __forceinline__ uint32_t
hymt_head_at(void)
{
    return threadIdx.x % HYMT_ROPE_LANES * 4;
}


/* Of a weight [128]. */
static __device__ __forceinline__ hymt_head_t
hymt_head_weight(const hymt_bf16_t *w)
{
    w += hymt_head_at();

    return hymt_head(__ldg((const uint2 *) w),
                     __ldg((const uint2 *) (w + HYMT_HEAD_DIM / 2)));
}


/* Cosines and sines of a position. */
static __device__ __forceinline__ hymt_head_t
hymt_head_turn(const hymt_rope_t &rope, uint32_t pos)
{
    size_t  at;

    at = (size_t) min(pos, rope.context - 1) * (HYMT_HEAD_DIM / 2)
         + hymt_head_at();

    return hymt_head(__ldg((const uint2 *) (rope.cos + at)),
                     __ldg((const uint2 *) (rope.sin + at)));
}


/* Of a head that another kernel wrote. */
static __device__ __forceinline__ hymt_head_t
hymt_head_load(const hymt_bf16_t *from)
{
    from += hymt_head_at();

    return hymt_head(__ldcg((const uint2 *) from),
                     __ldcg((const uint2 *) (from + HYMT_HEAD_DIM / 2)));
}


static __device__ __forceinline__ void
hymt_head_store(hymt_bf16_t *to, const hymt_head_t &x)
{
    to += hymt_head_at();
    *(uint2 *) to = hymt_head_bits(x.lo);
    *(uint2 *) (to + HYMT_HEAD_DIM / 2) = hymt_head_bits(x.hi);
}


/*
 * (lo, hi) -> (lo * cos - hi * sin, hi * cos + lo * sin), every product and
 * every sum -> bf16
 */
static __device__ __forceinline__ void
hymt_rotate(hymt_head_t &x, const hymt_head_t &turn)
{
    int             i;
    __nv_bfloat162  a, b;

    #pragma unroll
    for (i = 0; i < 2; i++) {
        a = x.lo[i];
        b = x.hi[i];

        x.lo[i] = __hsub2_rn(__hmul2_rn(a, turn.lo[i]),
                                  __hmul2_rn(b, turn.hi[i]));
        x.hi[i] = __hadd2_rn(__hmul2_rn(b, turn.lo[i]),
                                  __hmul2_rn(a, turn.hi[i]));
    }
}


/* Of squares, a lane's share: its first half, then its second. */
static __device__ __forceinline__ float
hymt_head_squares(const hymt_head_t &x)
{
    float  sum;

    sum = hymt_add_squares(0, x.lo[0]);
    sum = hymt_add_squares(sum, x.lo[1]);
    sum = hymt_add_squares(sum, x.hi[0]);

    return hymt_add_squares(sum, x.hi[1]);
}


/*
 * The shares of N heads -> their sums, by a butterfly over the 16 lanes: one
 * order for all, while those of several heads need not wait for each other.
 */
template<int N>
static __device__ __forceinline__ void
hymt_head_sums(float (&sum)[N])
{
    int  i, lanes;

    #pragma unroll
    for (lanes = HYMT_ROPE_LANES / 2; lanes > 0; lanes /= 2) {
        #pragma unroll
        for (i = 0; i < N; i++) {
            sum[i] = __fadd_rn(sum[i],
                               __shfl_xor_sync(0xffffffffu, sum[i], lanes));
        }
    }
}


static __device__ __forceinline__ void
hymt_head_scale(hymt_head_t &x, float scale, const hymt_head_t &weight)
{
    int  i;

    #pragma unroll
    for (i = 0; i < 2; i++) {
        x.lo[i] = hymt_norm_pair(x.lo[i], scale, weight.lo[i]);
        x.hi[i] = hymt_norm_pair(x.hi[i], scale, weight.hi[i]);
    }
}


/* Norm of a head's 128 elements. */
static __device__ __forceinline__ void
hymt_head_norm(hymt_head_t &x, const hymt_head_t &weight, float eps)
{
    float  sum[1];

    sum[0] = hymt_head_squares(x);
    hymt_head_sums(sum);

    hymt_head_scale(x, hymt_norm_scale(sum[0], 1.0f / HYMT_HEAD_DIM, eps),
                    weight);
}


/*
 * What q and k go through; all lanes of the warp come here, and a warp may hold
 * a head that is rotated beside one that is not.
 */
static __device__ __forceinline__ void
hymt_rope_head(hymt_head_t &x, const hymt_rope_t &rope, bool rotated,
    const hymt_head_t &turn, const hymt_head_t &weight)
{
    hymt_head_t  y;

    y = x;
    hymt_rotate(y, turn);

    if (rope.q_norm != NULL) {
        hymt_head_norm(y, weight, rope.eps);
    }

    if (rotated) {
        x = y;
    }
}


#endif /* HYMT_CUDA_ROPE_CUH */
