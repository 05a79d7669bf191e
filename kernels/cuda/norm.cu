/*
 * norm.cu - what lies between the matrices of a layer: embedding, residual add
 * with norm, SiLU times up.  See kernels.h.
 *
 * A block of the first two is one row, a thread 8 elements of it, so that a row
 * is in flight at once and the only waits are one load, one barrier and one
 * store: in a decode step these kernels are latency and nothing else.
 *
 * H200, hidden 2048, ffn 6144, a node of a graph: add and norm 1.02 us for one
 * row, where an empty node is 0.39, and for 2048 rows 9.5 us, 76 % of the read
 * bandwidth; SiLU 0.85 and 20 us, 82 %.
 */

#include "kernels.h"
#include "norm.cuh"
#include "ptx.cuh"


#define HYMT_SILU_THREADS  256


/*
 * The scale of a row's norm; every thread of the block brings its elements' sum
 * of squares.  Order: butterfly within a warp, then warps ascending, from 0.
 * The number of warps is a function of the row's length, so the order is, too.
 */
static __device__ __forceinline__ float
hymt_row_scale(float sum, float inv_n, float eps)
{
    int     i, n_warps;
    float4  v;

    __shared__ float4  part[8];

    for (i = 16; i > 0; i /= 2) {
        sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, i));
    }

    n_warps = blockDim.x / 32;

    if (threadIdx.x % 32 == 0) {
        ((float *) part)[threadIdx.x / 32] = sum;
    }

    /* sums are read four at a time; adding 0 to a sum of squares is nothing */

    if (threadIdx.x < 32 && threadIdx.x >= n_warps) {
        ((float *) part)[threadIdx.x] = 0;
    }

    __syncthreads();

    sum = 0;

    for (i = 0; i < n_warps; i += 4) {
        v = part[i / 4];
        sum = __fadd_rn(sum, v.x);
        sum = __fadd_rn(sum, v.y);
        sum = __fadd_rn(sum, v.z);
        sum = __fadd_rn(sum, v.w);
    }

    return hymt_norm_scale(sum, inv_n, eps);
}


static __device__ __forceinline__ float
hymt_squares(const hymt_bf16x8_t *x)
{
    int    i;
    float  sum;

    sum = 0;

    #pragma unroll
    for (i = 0; i < 4; i++) {
        sum = hymt_add_squares(sum, x->pair[i]);
    }

    return sum;
}


static __device__ __forceinline__ uint4
hymt_norm8(const hymt_bf16x8_t *x, float scale, const hymt_bf16x8_t *weight)
{
    int            i;
    hymt_bf16x8_t  h;

    #pragma unroll
    for (i = 0; i < 4; i++) {
        h.pair[i] = hymt_norm_pair(x->pair[i], scale, weight->pair[i]);
    }

    return h.bits;
}


/*
 * x[r] = embed[token(r)], h[r] = norm(x[r])
 *
 * Moves 6 * hidden bytes a row, a row of the embedding in and two rows out.
 */
static __global__ void __launch_bounds__(1024)
k_embed_bf16(const __grid_constant__ hymt_embed_args_t a, float inv_n)
{
    bool           in;
    size_t         at;
    float          scale;
    uint32_t       token;
    hymt_bf16x8_t  x, weight;

    hymt_grid_launch();

    in = threadIdx.x * 8 < a.hidden;
    at = (size_t) blockIdx.x * a.hidden + threadIdx.x * 8;
    x.bits = make_uint4(0, 0, 0, 0);
    weight.bits = x.bits;

    if (in) {
        weight.bits = __ldg((const uint4 *) (a.weight + threadIdx.x * 8));
    }

    hymt_grid_wait();

    token = __ldcg(a.tokens + blockIdx.x);

    if (token & HYMT_TOKEN_SLOT) {
        token = __ldcg(a.last + (token & ~HYMT_TOKEN_SLOT));
    }

    if (token >= a.vocab) {
        token = 0;
    }

    if (in) {
        x.bits = __ldg((const uint4 *) (a.embed + (size_t) token * a.hidden
                                        + threadIdx.x * 8));
        *(uint4 *) (a.x + at) = x.bits;
    }

    scale = hymt_row_scale(hymt_squares(&x), inv_n, a.eps);

    if (in) {
        *(uint4 *) (a.h + at) = hymt_norm8(&x, scale, &weight);
    }
}


/*
 * sum[r] = x[from] + y[r], h[r] = norm(sum[r]); or, without y, of x[from]
 *
 * Moves 8 * hidden bytes a row: x and y in, sum and h out.
 */
template<bool ADD>
static __global__ void __launch_bounds__(1024)
k_add_norm_bf16(const __grid_constant__ hymt_norm_args_t a, float inv_n)
{
    int            i;
    bool           in;
    float          scale;
    size_t         at, from;
    hymt_bf16x8_t  x, y, weight;

    hymt_grid_launch();

    in = threadIdx.x * 8 < a.hidden;
    x.bits = make_uint4(0, 0, 0, 0);
    y.bits = x.bits;
    weight.bits = x.bits;

    if (in) {
        weight.bits = __ldg((const uint4 *) (a.weight + threadIdx.x * 8));
    }

    /* the list is the host's, copied before the step's first kernel */

    from = a.gather != NULL ? __ldcg(a.gather + blockIdx.x) : blockIdx.x;
    from = from * a.hidden + threadIdx.x * 8;
    at = (size_t) blockIdx.x * a.hidden + threadIdx.x * 8;

    hymt_grid_wait();

    if (in) {
        x.bits = __ldcg((const uint4 *) (a.x + from));

        if constexpr (ADD) {
            y.bits = __ldcg((const uint4 *) (a.y + at));

            #pragma unroll
            for (i = 0; i < 4; i++) {
                x.pair[i] = __hadd2_rn(x.pair[i], y.pair[i]);
            }
        }

        if (a.sum != NULL) {
            *(uint4 *) (a.sum + at) = x.bits;
        }
    }

    scale = hymt_row_scale(hymt_squares(&x), inv_n, a.eps);

    if (in) {
        *(uint4 *) (a.h + at) = hymt_norm8(&x, scale, &weight);
    }
}


/*
 * y[i] = bf16(bf16(silu(gate[i])) * up[i]), gate and up in turns of 8
 *
 * A thread makes 8 of y.  Rows need no telling apart: both sides are dense.
 * Moves 6 * ffn bytes a row.
 */
static __global__ void __launch_bounds__(HYMT_SILU_THREADS)
k_silu_mul_bf16(const hymt_bf16_t *gu, hymt_bf16_t *y, size_t n)
{
    int            i;
    size_t         at;
    const uint4   *from;
    hymt_bf16x8_t  gate, up;

    hymt_grid_launch();
    hymt_grid_wait();

    at = (size_t) blockIdx.x * HYMT_SILU_THREADS + threadIdx.x;

    if (at >= n) {
        return;
    }

    from = (const uint4 *) gu + at * 2;
    gate.bits = __ldcg(from);
    up.bits = __ldcg(from + 1);

    #pragma unroll
    for (i = 0; i < 4; i++) {
        gate.pair[i] = hymt_silu_mul_pair(gate.pair[i], up.pair[i]);
    }

    ((uint4 *) y)[at] = gate.bits;
}


/* Threads of a row: 8 elements each, whole warps. */
static uint32_t
hymt_row_threads(uint32_t hidden)
{
    return (hidden / 8 + 31) / 32 * 32;
}


cudaError_t
hymt_cuda_embed(const hymt_cuda_t *dev, const hymt_embed_args_t *args,
    cudaStream_t stream)
{
    return hymt_launch(k_embed_bf16, dim3(args->rows),
                       dim3(hymt_row_threads(args->hidden)), 0, stream,
                       dev->pdl, *args, 1.0f / (float) args->hidden);
}


cudaError_t
hymt_cuda_add_norm(const hymt_cuda_t *dev, const hymt_norm_args_t *args,
    cudaStream_t stream)
{
    return hymt_launch(args->y != NULL ? k_add_norm_bf16<true>
                                       : k_add_norm_bf16<false>,
                       dim3(args->rows),
                       dim3(hymt_row_threads(args->hidden)), 0, stream,
                       dev->pdl, *args, 1.0f / (float) args->hidden);
}


cudaError_t
hymt_cuda_silu_mul(const hymt_cuda_t *dev, const hymt_bf16_t *gu,
    hymt_bf16_t *y, uint32_t rows, uint32_t ffn, cudaStream_t stream)
{
    size_t  n;

    n = (size_t) rows * (ffn / 8);

    return hymt_launch(k_silu_mul_bf16,
                       dim3((unsigned) ((n + HYMT_SILU_THREADS - 1)
                                        / HYMT_SILU_THREADS)),
                       dim3(HYMT_SILU_THREADS), 0, stream, dev->pdl,
                       gu, y, n);
}
