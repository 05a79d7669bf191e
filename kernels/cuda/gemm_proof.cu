/*
 * gemm_proof.cu - random matrices and their comparison, on the device: what
 * hymt_gemm_create() needs to prove that two ways to compute a product give
 * the same bits.  At load only.
 */

#include "gemm.h"


#define THREADS  256
#define BLOCKS   1056


/* A number's bits are a hash of its place: four of them summed look normal. */
static __global__ void __launch_bounds__(THREADS)
k_fill_bf16(hymt_bf16_t *p, size_t n, uint64_t seed, float scale)
{
    uint64_t  z;
    float     sum;

    for (size_t i = (size_t) blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (size_t) gridDim.x * THREADS)
    {
        z = seed + i * 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        z ^= z >> 31;

        sum = -2.0f;

        for (int j = 0; j < 4; j++) {
            sum += (float) ((z >> (16 * j)) & 0xffff) * (1.0f / 65536.0f);
        }

        p[i] = __float2bfloat16_rn(sum * scale);
    }
}


static __global__ void __launch_bounds__(THREADS)
k_compare_b16(const uint16_t *a, const uint16_t *b, size_t n, uint32_t *differ)
{
    uint32_t  count = 0;

    for (size_t i = (size_t) blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (size_t) gridDim.x * THREADS)
    {
        count += a[i] != b[i];
    }

    if (count != 0) {
        atomicAdd(differ, count);
    }
}


extern "C" cudaError_t
hymt_gemm_fill(hymt_bf16_t *p, size_t n, uint64_t seed, float scale,
    cudaStream_t stream)
{
    k_fill_bf16<<<BLOCKS, THREADS, 0, stream>>>(p, n, seed, scale);

    return cudaGetLastError();
}


extern "C" cudaError_t
hymt_gemm_compare(const void *a, const void *b, size_t n_halves,
    uint32_t *differ, cudaStream_t stream)
{
    k_compare_b16<<<BLOCKS, THREADS, 0, stream>>>((const uint16_t *) a,
                                                  (const uint16_t *) b,
                                                  n_halves, differ);

    return cudaGetLastError();
}
