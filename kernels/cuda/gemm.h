/*
 * gemm.h - what the files of the GEMM share: gemm.c chooses by the number of
 * rows, gemm_sm90.cu, gemm_many.cu, gemm_mma.cu and gemm_lt.c compute, all in
 * one K order.
 */

#ifndef HYMT_CUDA_GEMM_H
#define HYMT_CUDA_GEMM_H

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif


typedef enum {
    HYMT_GEMM_MMA = 0,    /* gemm_mma.cu: every device */
    HYMT_GEMM_WGMMA,      /* gemm_sm90.cu: cc 9.0 */
    HYMT_GEMM_MANY,       /* gemm_many.cu: cc 9.0 */
    HYMT_GEMM_LT,         /* gemm_lt.c: cublasLt */
} hymt_gemm_kind_t;


#define HYMT_LT_ALGOS      32
#define HYMT_GEMM_CLUSTER  8      /* blocks of one, at most */

typedef cublasLtMatmulAlgo_t  hymt_lt_algo_t;


/* How a product is computed for up to so many rows. */
typedef struct {
    uint32_t          max_rows;
    hymt_gemm_kind_t  kind;

    /* all but HYMT_GEMM_LT; _MMA: tokens and rows alone */
    uint16_t          tokens;    /* of a tile: 8, 16, 32, 64, 96, 128;
                                    _MANY: 32, 48, .. 128, 160, .. 256 */
    uint16_t          rows;      /* of the weight, of a tile; % 8, SILU % 16;
                                    _MANY: % 32, SILU % 64 */
    uint16_t          depth;     /* of a stage, in 64 columns: 1, 2, 4;
                                    _MANY: 1, to 128 tokens also 2 */
    uint16_t          share_x;   /* blocks of a cluster with the same tokens */
    uint16_t          share_w;   /* ... with the same rows of the weight */
    uint16_t          ring;      /* KB of shared memory */

    /* HYMT_GEMM_LT */
    hymt_lt_algo_t    algo;
} hymt_gemm_plan_t;


/* gemm.c */

/* The least cost by hymt_gemm_many_cost(); false: no tile fits the product. */
bool hymt_gemm_many_plan(const hymt_cuda_t *dev,
    const hymt_gemm_shape_t *shape, uint32_t m, hymt_gemm_plan_t *plan);


/* gemm_sm90.cu */

/* Whether this build has Hopper's kernels, and not only PTX for it. */
bool hymt_gemm_sm90_built(void);

/* Raises the kernels' shared memory limit.  Once a device. */
cudaError_t hymt_gemm_sm90_init(const hymt_cuda_t *dev);

/* Host memory only: a tensor map of the weight in tiles of the plan. */
int hymt_gemm_sm90_map(const hymt_gemm_shape_t *shape,
    const hymt_gemm_plan_t *plan, void *map, char *err, size_t cap);

cudaError_t hymt_gemm_sm90_run(const hymt_cuda_t *dev,
    const hymt_gemm_shape_t *shape, const hymt_gemm_plan_t *plan,
    const void *w_map, uint32_t m, cudaStream_t stream);


/* gemm_many.cu: as above; products that are not HYMT_GEMM_F32 */

cudaError_t hymt_gemm_many_init(const hymt_cuda_t *dev);

/* Whether a plan's tiles can be made, and its memory holds two stages. */
bool hymt_gemm_many_fits(const hymt_gemm_shape_t *shape,
    const hymt_gemm_plan_t *plan);

/* Cycles by arithmetic, of shared memory filled at 72 bytes each: what ways to
   cut a product are ordered by where none was measured. */
uint64_t hymt_gemm_many_cost(const hymt_cuda_t *dev,
    const hymt_gemm_shape_t *shape, const hymt_gemm_plan_t *plan, uint32_t m);

int hymt_gemm_many_map(const hymt_gemm_shape_t *shape,
    const hymt_gemm_plan_t *plan, void *map, char *err, size_t cap);

cudaError_t hymt_gemm_many_run(const hymt_cuda_t *dev,
    const hymt_gemm_shape_t *shape, const hymt_gemm_plan_t *plan,
    const void *w_map, uint32_t m, cudaStream_t stream);


/* gemm_mma.cu */

cudaError_t hymt_gemm_mma_init(const hymt_cuda_t *dev);

cudaError_t hymt_gemm_mma_run(const hymt_cuda_t *dev,
    const hymt_gemm_shape_t *shape, const hymt_gemm_plan_t *plan, uint32_t m,
    cudaStream_t stream);


/* gemm_lt.c; dev->lt is open */

size_t hymt_lt_version(void);

/* The library's proposals without split-K, best first; their number. */
uint32_t hymt_lt_algos(const hymt_cuda_t *dev, const hymt_gemm_shape_t *shape,
    uint32_t m, hymt_lt_algo_t *algos, uint32_t max);

cudaError_t hymt_lt_run(const hymt_cuda_t *dev,
    const hymt_gemm_shape_t *shape, const hymt_lt_algo_t *algo, uint32_t m,
    cudaStream_t stream);


/* gemm_proof.cu */

/* Fresh random numbers, about -1 .. 1 times scale. */
cudaError_t hymt_gemm_fill(hymt_bf16_t *p, size_t n, uint64_t seed,
    float scale, cudaStream_t stream);

/* *differ (device memory) += how many of n bytes / 2 differ. */
cudaError_t hymt_gemm_compare(const void *a, const void *b, size_t n_halves,
    uint32_t *differ, cudaStream_t stream);


#ifdef __cplusplus
}
#endif

#endif /* HYMT_CUDA_GEMM_H */
