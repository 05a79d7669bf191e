/*
 * norm.cuh - the rounding points of Hugging Face's bf16 norm and SiLU, one
 * function each, shared by every kernel that has them in it.
 *
 * Products and sums of two bf16 are done in packed bf16 instructions: they
 * round once, and fp32 has over twice the bits of bf16, so rounding an fp32
 * result again, as Hugging Face does, gives the same.
 */

#ifndef HYMT_CUDA_NORM_CUH
#define HYMT_CUDA_NORM_CUH

#include <stdint.h>

#include <cuda_bf16.h>


/* 16 bytes of a row: one load or store. */
typedef union {
    uint4           bits;
    __nv_bfloat162  pair[4];
} hymt_bf16x8_t;


/* sum + x.x^2 + x.y^2, in this order, one fused multiply-add each */
static __device__ __forceinline__ float
hymt_add_squares(float sum, __nv_bfloat162 x)
{
    float2  v;

    v = __bfloat1622float2(x);

    return __fmaf_rn(v.y, v.y, __fmaf_rn(v.x, v.x, sum));
}


/* 1 / sqrt(mean + eps), each operation rounded as C does */
static __device__ __forceinline__ float
hymt_norm_scale(float sum, float inv_n, float eps)
{
    return __frcp_rn(__fsqrt_rn(__fadd_rn(__fmul_rn(sum, inv_n), eps)));
}


/* x * scale -> bf16, times weight -> bf16 */
static __device__ __forceinline__ __nv_bfloat162
hymt_norm_pair(__nv_bfloat162 x, float scale, __nv_bfloat162 weight)
{
    float2  v;

    v = __bfloat1622float2(x);

    return __hmul2_rn(weight, __floats2bfloat162_rn(v.x * scale, v.y * scale));
}


/*
 * g / (1 + e^-g) in fp32, within 4 units of the last place; whatever computes
 * SiLU calls this, so that all paths give the same bits.
 */
static __device__ __forceinline__ float
hymt_silu(float g)
{
    return __fdividef(g, 1.0f + expf(-g));
}


/* silu(gate) -> bf16, times up -> bf16 */
static __device__ __forceinline__ __nv_bfloat162
hymt_silu_mul_pair(__nv_bfloat162 gate, __nv_bfloat162 up)
{
    float2  g;

    g = __bfloat1622float2(gate);

    return __hmul2_rn(__floats2bfloat162_rn(hymt_silu(g.x), hymt_silu(g.y)),
                      up);
}


#endif /* HYMT_CUDA_NORM_CUH */
