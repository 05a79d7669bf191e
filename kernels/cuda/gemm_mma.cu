/*
 * y[m][n] = sum_k x[m][k] * w[n][k] by mma.sync, for every device from sm_80,
 * any number of rows, and on Hopper where nothing faster is proven.
 *
 * A block owns 16 rows of w for each of its warps and T tokens; stages of 64
 * columns come through shared memory by cp.async, four in flight, 128 bytes a
 * row with its 16-byte pieces swizzled by the row, so that neither the copies
 * nor ldmatrix meet bank conflicts.
 *
 * Bytes: w once for each T tokens, x once for each block's rows of w, from L2.
 * Floor: n * k * 2 bytes of memory while m is small.
 *
 * Promise: k ascends in steps of 16 in one accumulator, whatever T, the number
 * of warps and m: the bits of gemm_sm90.cu.
 */

#include "gemm.h"
#include "gemm_store.cuh"
#include "ptx.cuh"


#define K_STAGE  64
#define STAGES   4


typedef struct {
    const hymt_bf16_t  *w;
    const hymt_bf16_t  *x;
    hymt_gemm_out_t     out;
    uint32_t            n;
    uint32_t            k;
} hymt_gemm_mma_t;


/* Rows `first` .. of a matrix, columns k .., to a stage; zeros from `limit`. */
__device__ __forceinline__ void
load(uint32_t dst, const hymt_bf16_t *src, uint32_t rows, uint32_t first,
    uint32_t limit, uint32_t k, uint32_t ld)
{
    uint32_t  r, c;

    for (uint32_t i = threadIdx.x; i < rows * 8; i += blockDim.x) {
        r = i / 8;
        c = i % 8;

        hymt_cp_async_16_zfill(dst + r * 128 + (c ^ (r & 7)) * 16,
                               src + (size_t) min(first + r, limit - 1) * ld
                               + k + c * 8, first + r < limit);
    }
}


/* T: 16 or a multiple; blockDim.x: 32 threads for each 16 rows of w. */
template<int T>
__global__ void __launch_bounds__(128)
k_gemm_mma_bf16(const hymt_gemm_mma_t p)
{
    extern __shared__ __align__(128) uint8_t  smem[];

    const uint32_t  warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t  rows = blockDim.x / 2;
    const uint32_t  w_bytes = rows * 128, x_bytes = T * 128;
    const uint32_t  w_ring = hymt_smem_addr(smem);
    const uint32_t  x_ring = w_ring + STAGES * w_bytes;
    const uint32_t  row = blockIdx.x * rows, token = blockIdx.y * T;
    const uint32_t  n_stages = p.k / K_STAGE;
    const uint32_t  a_row = warp * 16 + lane % 16;
    const uint32_t  b_row = lane / 16 * 8 + lane % 8;
    float           d[T / 2];

    hymt_grid_launch();

    for (uint32_t i = 0; i < STAGES - 1 && i < n_stages; i++) {
        load(w_ring + i * w_bytes, p.w, rows, row, p.n, i * K_STAGE, p.k);
    }

    hymt_grid_wait();

    for (uint32_t i = 0; i < STAGES - 1; i++) {
        if (i < n_stages) {
            load(x_ring + i * x_bytes, p.x, T, token, p.out.m, i * K_STAGE,
                 p.k);
        }

        hymt_cp_async_commit();
    }

#pragma unroll
    for (int i = 0; i < T / 2; i++) {
        d[i] = 0;
    }

    for (uint32_t i = 0; i < n_stages; i++) {
        const uint32_t  s = i % STAGES, next = i + STAGES - 1;
        const uint32_t  w = w_ring + s * w_bytes, x = x_ring + s * x_bytes;

        hymt_cp_async_wait<STAGES - 2>();
        __syncthreads();

        if (next < n_stages) {
            load(w_ring + next % STAGES * w_bytes, p.w, rows, row, p.n,
                 next * K_STAGE, p.k);
            load(x_ring + next % STAGES * x_bytes, p.x, T, token, p.out.m,
                 next * K_STAGE, p.k);
        }

        hymt_cp_async_commit();

#pragma unroll
        for (uint32_t kk = 0; kk < K_STAGE / 16; kk++) {
            uint32_t  a[4], b[4], c;

            c = 2 * kk + lane / 16;
            hymt_ldmatrix_x4(a, w + a_row * 128 + (c ^ (a_row & 7)) * 16);

            c = 2 * kk + lane / 8 % 2;

#pragma unroll
            for (int j = 0; j < T / 16; j++) {
                hymt_ldmatrix_x4(b, x + (16 * j + b_row) * 128
                                    + (c ^ (b_row & 7)) * 16);

                hymt_mma_16816(*(float (*)[4]) &d[8 * j], a, b[0], b[1]);
                hymt_mma_16816(*(float (*)[4]) &d[8 * j + 4], a, b[2], b[3]);
            }
        }
    }

    hymt_gemm_store<T>(p.out, d, row + warp * 16, min(row + rows, p.n), token);
}


static size_t
smem_of(uint32_t rows, uint32_t tokens)
{
    return (size_t) STAGES * (rows + tokens) * 128;
}


extern "C" cudaError_t
hymt_gemm_mma_init(const hymt_cuda_t *dev)
{
    cudaError_t  rc;

    (void) dev;

    rc = cudaFuncSetAttribute(k_gemm_mma_bf16<16>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              (int) smem_of(64, 16));
    if (rc != cudaSuccess) {
        return rc;
    }

    return cudaFuncSetAttribute(k_gemm_mma_bf16<64>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int) smem_of(64, 64));
}


extern "C" cudaError_t
hymt_gemm_mma_run(const hymt_cuda_t *dev, const hymt_gemm_shape_t *shape,
    const hymt_gemm_plan_t *plan, uint32_t m, cudaStream_t stream)
{
    const uint32_t   rows = plan->rows, tokens = plan->tokens;
    dim3             grid, block;
    hymt_gemm_mma_t  p;

    p.w = shape->w;
    p.x = shape->x;
    p.out.y = shape->y;
    p.out.ldy = shape->ldy;
    p.out.m = m;
    p.out.after = shape->after;
    p.n = shape->n;
    p.k = shape->k;

    grid = dim3((shape->n + rows - 1) / rows, (m + tokens - 1) / tokens);
    block = dim3(rows * 2);

    if (tokens == 16) {
        return hymt_launch(k_gemm_mma_bf16<16>, grid, block,
                           smem_of(rows, tokens), stream, dev->pdl, p);
    }

    return hymt_launch(k_gemm_mma_bf16<64>, grid, block,
                       smem_of(rows, tokens), stream, dev->pdl, p);
}
