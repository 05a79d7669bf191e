/*
 * cuda_ceiling.cuh - what the device can do at best, measured in the run of
 * each bench: reading memory, and multiplying large matrices.
 *
 * Medians of 11 by events, after one that warms up.  Who includes it has
 * defined gpu(call), which gives up where a call fails.
 */

#ifndef HYMT_CUDA_CEILING_CUH
#define HYMT_CUDA_CEILING_CUH

#include <algorithm>
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>


#define CEILING_TIMES   11
#define CEILING_SQUARE  8192


__global__ void
k_read(const uint4 *p, size_t n, uint4 *out)
{
    size_t  i, stride;
    uint4   v[4], sum;

    stride = (size_t) gridDim.x * blockDim.x;
    sum = make_uint4(0, 0, 0, 0);

    for (i = (size_t) blockIdx.x * blockDim.x + threadIdx.x;
         i + 3 * stride < n; i += 4 * stride)
    {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            v[j] = __ldcs(&p[i + j * stride]);
        }

#pragma unroll
        for (int j = 0; j < 4; j++) {
            sum.x ^= v[j].x;
            sum.y ^= v[j].y;
            sum.z ^= v[j].z;
            sum.w ^= v[j].w;
        }
    }

    if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x12345678) {
        *out = sum;
    }
}


/* Seconds of what `launch` puts into the stream. */
template<typename L>
static double
ceiling_time(cudaStream_t stream, L launch)
{
    float        ms[CEILING_TIMES + 1];
    cudaEvent_t  from, to;

    gpu(cudaEventCreate(&from));
    gpu(cudaEventCreate(&to));

    for (int i = 0; i <= CEILING_TIMES; i++) {
        gpu(cudaEventRecord(from, stream));
        launch();
        gpu(cudaGetLastError());
        gpu(cudaEventRecord(to, stream));
        gpu(cudaEventSynchronize(to));
        gpu(cudaEventElapsedTime(&ms[i], from, to));
    }

    gpu(cudaEventDestroy(from));
    gpu(cudaEventDestroy(to));

    std::sort(ms + 1, ms + CEILING_TIMES + 1);

    return ms[1 + CEILING_TIMES / 2] * 1e-3;
}


/* Bytes a second, of memory that is larger than the L2 by far. */
static double
ceiling_read(void *p, size_t bytes, cudaStream_t stream)
{
    return bytes / ceiling_time(stream, [&] {
        k_read<<<132 * 16, 256, 0, stream>>>((const uint4 *) p, bytes / 16,
                                             (uint4 *) p);
    });
}


/* Operations a second; p: three squares of bf16. */
static double
ceiling_matmul(void *p, cudaStream_t stream)
{
    int                              found;
    void                            *work, *x, *y;
    float                            one, zero;
    size_t                           size;
    double                           seconds;
    cublasLtHandle_t                 lt;
    cublasOperation_t                op;
    cublasLtMatmulDesc_t             desc;
    cublasLtMatrixLayout_t           layout;
    cublasLtMatmulPreference_t       pref;
    cublasLtMatmulHeuristicResult_t  result;

    const size_t  n = CEILING_SQUARE;

    one = 1;
    zero = 0;
    op = CUBLAS_OP_T;
    size = 64 << 20;
    x = (char *) p + n * n * 2;
    y = (char *) p + 2 * n * n * 2;

    gpu(cudaMalloc(&work, size));

    cublasLtCreate(&lt);
    cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &op,
                                   sizeof(op));
    cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, n, n, n);
    cublasLtMatmulPreferenceCreate(&pref);
    cublasLtMatmulPreferenceSetAttribute(pref,
                                    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &size, sizeof(size));

    if (cublasLtMatmulAlgoGetHeuristic(lt, desc, layout, layout, layout, layout,
                                       pref, 1, &result, &found)
        != CUBLAS_STATUS_SUCCESS || found == 0)
    {
        fprintf(stderr, "cuBLASLt has no algorithm\n");
        exit(1);
    }

    seconds = ceiling_time(stream, [&] {
        cublasLtMatmul(lt, desc, &one, p, layout, x, layout, &zero, y, layout,
                       y, layout, &result.algo, work, size, stream);
    });

    cublasLtMatmulPreferenceDestroy(pref);
    cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(desc);
    cublasLtDestroy(lt);
    gpu(cudaFree(work));

    return 2.0 * n * n * n / seconds;
}


#endif /* HYMT_CUDA_CEILING_CUH */
