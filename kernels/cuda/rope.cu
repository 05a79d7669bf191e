/*
 * rope.cu - position and QK-norm of q and k, and k and v to their pages; see
 * kernels.h.
 */

#include "kernels.h"
#include "norm.cuh"
#include "ptx.cuh"


/* lanes of a head; each has 4 elements of its first half and 4 of its second */
#define HYMT_ROPE_LANES    16

#define HYMT_ROPE_THREADS  128
#define HYMT_ROPE_HEADS    (HYMT_ROPE_THREADS / HYMT_ROPE_LANES)


typedef union {
    uint2           bits;
    __nv_bfloat162  pair[2];
} hymt_bf16x4_t;


static __device__ __forceinline__ uint2
hymt_constant4(const hymt_bf16_t *p)
{
    return __ldg((const uint2 *) p);
}


/*
 * (lo, hi) -> (lo * cos - hi * sin, hi * cos + lo * sin), every product and
 * every sum -> bf16
 */
static __device__ __forceinline__ void
hymt_rotate(hymt_bf16x4_t *lo, hymt_bf16x4_t *hi, const hymt_bf16x4_t *cos,
    const hymt_bf16x4_t *sin)
{
    int             i;
    __nv_bfloat162  a, b;

    #pragma unroll
    for (i = 0; i < 2; i++) {
        a = lo->pair[i];
        b = hi->pair[i];

        lo->pair[i] = __hsub2_rn(__hmul2_rn(a, cos->pair[i]),
                                 __hmul2_rn(b, sin->pair[i]));
        hi->pair[i] = __hadd2_rn(__hmul2_rn(b, cos->pair[i]),
                                 __hmul2_rn(a, sin->pair[i]));
    }
}


/*
 * Norm of a head's 128 elements.  Order of the sum: a lane's first half, its
 * second half, then a butterfly over the 16 lanes.
 */
static __device__ __forceinline__ void
hymt_head_norm(hymt_bf16x4_t *lo, hymt_bf16x4_t *hi,
    const hymt_bf16x4_t *w_lo, const hymt_bf16x4_t *w_hi, float eps)
{
    int    i;
    float  sum, scale;

    sum = hymt_add_squares(0, lo->pair[0]);
    sum = hymt_add_squares(sum, lo->pair[1]);
    sum = hymt_add_squares(sum, hi->pair[0]);
    sum = hymt_add_squares(sum, hi->pair[1]);

    #pragma unroll
    for (i = HYMT_ROPE_LANES / 2; i > 0; i /= 2) {
        sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, i));
    }

    scale = hymt_norm_scale(sum, 1.0f / HYMT_HEAD_DIM, eps);

    #pragma unroll
    for (i = 0; i < 2; i++) {
        lo->pair[i] = hymt_norm_pair(lo->pair[i], scale, w_lo->pair[i]);
        hi->pair[i] = hymt_norm_pair(hi->pair[i], scale, w_hi->pair[i]);
    }
}


/*
 * A block is 8 heads of a row: q heads, then k, then v.  No two threads but
 * those of a head's 16 lanes have to do with each other.
 *
 * Moves 4 * (n_heads + 2 n_kv) * 128 bytes a row.  Positions, destinations and
 * tables are the host's, copied before the step's first kernel, so they are
 * read while the product before this is still running; after the wait there is
 * one load, one butterfly and one store.  H200, 16 and 4 heads: one row 0.87 us
 * of which an empty node is 0.39, 2048 rows 8.7 us, 63 % of the read bandwidth.
 */
static __global__ void __launch_bounds__(HYMT_ROPE_THREADS)
k_rope_append_bf16(const __grid_constant__ hymt_rope_args_t a)
{
    int                 i;
    bool                rotated;
    size_t              at;
    uint2               old_lo, old_hi;
    int32_t             dest;
    uint32_t            head, row, pos, kv;
    hymt_bf16_t        *to;
    hymt_bf16x4_t       lo, hi, cos, sin, w_lo, w_hi;
    const hymt_bf16_t  *from, *weight;

    hymt_grid_launch();

    row = blockIdx.y;
    i = threadIdx.x % HYMT_ROPE_LANES * 4;
    head = blockIdx.x * HYMT_ROPE_HEADS + threadIdx.x / HYMT_ROPE_LANES;

    /* the last block's lanes past the last head go along, writing nothing */

    kv = a.n_heads + 2 * a.n_kv;
    from = a.qkv + ((size_t) row * kv + (head < kv ? head : 0)) * HYMT_HEAD_DIM
           + i;
    to = NULL;
    weight = NULL;
    rotated = head < a.n_heads + a.n_kv;

    if (head < a.n_heads) {
        weight = a.q_norm;
        to = a.q + ((size_t) row * a.n_heads + head) * HYMT_HEAD_DIM + i;

    } else if (head < kv) {
        weight = rotated ? a.k_norm : NULL;
        kv = head - a.n_heads;
        kv = rotated ? kv * 2 : (kv - a.n_kv) * 2 + 1;
        dest = (int32_t) __ldcg((const uint32_t *) a.kv_dest + row);

        if (dest >= 0) {
            at = (size_t) (dest / HYMT_KV_PAGE) * a.n_kv * 2 + kv;
            to = a.cache + (at * HYMT_KV_PAGE + dest % HYMT_KV_PAGE)
                           * HYMT_HEAD_DIM + i;
        }
    }

    cos.bits = make_uint2(0, 0);
    sin.bits = cos.bits;
    w_lo.bits = cos.bits;
    w_hi.bits = cos.bits;

    if (rotated) {
        pos = min(__ldcg(a.pos + row), a.context - 1);
        at = (size_t) pos * (HYMT_HEAD_DIM / 2) + i;
        cos.bits = hymt_constant4(a.cos + at);
        sin.bits = hymt_constant4(a.sin + at);
    }

    if (weight != NULL) {
        w_lo.bits = hymt_constant4(weight + i);
        w_hi.bits = hymt_constant4(weight + HYMT_HEAD_DIM / 2 + i);
    }

    hymt_grid_wait();

    old_lo = __ldcg((const uint2 *) from);
    old_hi = __ldcg((const uint2 *) (from + HYMT_HEAD_DIM / 2));
    lo.bits = old_lo;
    hi.bits = old_hi;

    /* a warp may hold a head that is rotated beside one that is not */

    if (__any_sync(0xffffffffu, rotated)) {
        hymt_rotate(&lo, &hi, &cos, &sin);

        if (a.q_norm != NULL) {
            hymt_head_norm(&lo, &hi, &w_lo, &w_hi, a.eps);
        }

        if (!rotated) {
            lo.bits = old_lo;
            hi.bits = old_hi;
        }
    }

    if (to != NULL) {
        *(uint2 *) to = lo.bits;
        *(uint2 *) (to + HYMT_HEAD_DIM / 2) = hi.bits;
    }
}


cudaError_t
hymt_cuda_rope_append(const hymt_cuda_t *dev, const hymt_rope_args_t *args,
    cudaStream_t stream)
{
    uint32_t  heads;

    heads = args->n_heads + 2 * args->n_kv;

    return hymt_launch(k_rope_append_bf16,
                       dim3((heads + HYMT_ROPE_HEADS - 1) / HYMT_ROPE_HEADS,
                            args->rows),
                       dim3(HYMT_ROPE_THREADS), 0, stream, dev->pdl, *args);
}
