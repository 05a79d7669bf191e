/*
 * gemm_store.cuh - what happens to the sums of a product: the last lines of
 * every kernel of the family.
 *
 * A warp holds 16 rows of the weight by T tokens as the matrix instructions
 * leave them: with g = lane / 4 and t = lane % 4, sum 4 j + i is row
 * g + 8 (i / 2) of token 8 j + 2 t + i % 2.  As gate and up alternate by eight
 * rows, both of a column are in one thread.
 */

#ifndef HYMT_CUDA_GEMM_STORE_CUH
#define HYMT_CUDA_GEMM_STORE_CUH

#include "kernels.h"
#include "norm.cuh"
#include "ptx.cuh"


typedef struct {
    void      *y;        /* [m][ldy] */
    uint32_t   ldy;
    uint32_t   m;
    uint32_t   after;    /* hymt_gemm_after_t */
} hymt_gemm_out_t;


__device__ __forceinline__ uint32_t
hymt_bits(__nv_bfloat162 v)
{
    return *(uint32_t *) &v;
}


/*
 * The sums of one warp, 16 rows by T tokens, to y.  Rows come in eights: the
 * first eight are there (`row` < limit), the others if row + 8 < limit.
 */
template<int T>
__device__ __forceinline__ void
hymt_gemm_store(const hymt_gemm_out_t &out, const float (&d)[T / 2],
    uint32_t row, uint32_t limit, uint32_t token)
{
    const uint32_t   lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uint32_t         v, m;
    float           *yf;
    hymt_bf16_t     *yb;
    __nv_bfloat162   lo, hi;

#pragma unroll
    for (int j = 0; j < T / 8; j++) {

        if (out.after == HYMT_GEMM_F32) {
            m = token + 8 * j + 2 * t;
            yf = (float *) out.y + (size_t) m * out.ldy + row + g;

            if (m < out.m && row < limit) {
                yf[0] = d[4 * j];
            }

            if (m < out.m && row + 8 < limit) {
                yf[8] = d[4 * j + 2];
            }

            if (m + 1 < out.m && row < limit) {
                yf[out.ldy] = d[4 * j + 1];
            }

            if (m + 1 < out.m && row + 8 < limit) {
                yf[out.ldy + 8] = d[4 * j + 3];
            }

            continue;
        }

        lo = __floats2bfloat162_rn(d[4 * j], d[4 * j + 1]);
        hi = __floats2bfloat162_rn(d[4 * j + 2], d[4 * j + 3]);

        m = token + 8 * j + g;
        yb = (hymt_bf16_t *) out.y + (size_t) m * out.ldy + 2 * t;

        if (out.after == HYMT_GEMM_SILU) {
            v = hymt_transpose(hymt_bits(hymt_silu_mul_pair(lo, hi)));

            if (m < out.m && row < limit) {
                *(uint32_t *) (yb + row / 2) = v;
            }

            continue;
        }

        v = hymt_transpose(hymt_bits(lo));

        if (m < out.m && row < limit) {
            *(uint32_t *) (yb + row) = v;
        }

        v = hymt_transpose(hymt_bits(hi));

        if (m < out.m && row + 8 < limit) {
            *(uint32_t *) (yb + row + 8) = v;
        }
    }
}


#endif /* HYMT_CUDA_GEMM_STORE_CUH */
