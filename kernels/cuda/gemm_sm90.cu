/*
 * y[m][n] = sum_k x[m][k] * w[n][k] on Hopper, for few rows: the time is the
 * time to read w once.
 *
 * The weight is the large operand of the matrix instruction, the tokens are its
 * N: a block owns R rows of w (any multiple of 8 up to 128, so that all SMs
 * stream equal shares) and T tokens.  The instruction always multiplies 64
 * rows; what lies behind the tile's R rows in shared memory comes out as rows
 * nobody stores.  One warp copies: stages of 128 columns go round a ring in
 * shared memory, w past the caches, x from L2.  The ring is filled with
 * weights BEFORE the wait for the kernel in front: while one product drains,
 * the next one's weights are already on their way, which is worth more than
 * anything done inside a kernel.
 *
 * Where x is large, blocks of a cluster share it: each stage of x is read from
 * L2 by one of `share_x` blocks and sent to all; likewise w among `share_w`
 * blocks with other tokens.  Stage s is brought by block s % share.
 *
 * Bytes: w once (n * k * 2) from memory; x ceil(n / R) / share_x times and w
 * ceil(m / T) / share_w times from L2.
 *
 * Promise: k ascends in steps of 16 in one accumulator, whatever T, R and m.
 */

#include "gemm.h"
#include "gemm_store.cuh"
#include "gemm_wgmma.cuh"
#include "ptx.cuh"

#include <cudaTypedefs.h>
#include <stdio.h>


#define K_BOX    64               /* columns of a box: 128 bytes, a swizzle */
#define K_STAGE  (2 * K_BOX)
#define HEAD     1024             /* barriers, before the ring */
#define STAGES   ((HEAD) / 16)    /* two barriers each */


typedef struct {
    CUtensorMap      w;        /* (64, n, k / 64), box (64, R, 2) */
    CUtensorMap      x;        /* (64, m, k / 64), box (64, T, 2) */
    hymt_gemm_out_t  out;
    uint32_t         n;
    uint32_t         k;
    uint32_t         rows;     /* R */
    uint32_t         stages;
    uint32_t         share_x;
    uint32_t         share_w;
} hymt_gemm_sm90_t;


#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Stage `i` of this block's ring: its copies, as far as they are its turn. */
struct loader {
    const hymt_gemm_sm90_t  &p;
    uint32_t                 ring, bars, w_bytes, x_bytes;
    uint32_t                 row, token;
    uint32_t                 rank_x, rank_w;    /* in the cluster */
    uint16_t                 mask_x, mask_w;    /* who shares x, w with it */

    __device__ __forceinline__ void
    w(uint32_t i)
    {
        uint32_t  s = i % p.stages, dst = ring + s * w_bytes;

        hymt_mbar_expect(bars + 8 * s, w_bytes + x_bytes);

        if (p.share_w == 1) {
            hymt_tma_load_3d(dst, &p.w, bars + 8 * s, 0, row, 2 * i,
                             HYMT_L2_EVICT_FIRST);

        } else if (s % p.share_w == rank_w) {
            hymt_tma_multicast_3d(dst, &p.w, bars + 8 * s, 0, row, 2 * i,
                                  mask_w, HYMT_L2_EVICT_FIRST);
        }
    }

    __device__ __forceinline__ void
    x(uint32_t i)
    {
        uint32_t  s = i % p.stages;
        uint32_t  dst = ring + p.stages * w_bytes + s * x_bytes;

        if (p.share_x == 1) {
            hymt_tma_load_3d(dst, &p.x, bars + 8 * s, 0, token, 2 * i,
                             HYMT_L2_EVICT_NORMAL);

        } else if (s % p.share_x == rank_x) {
            hymt_tma_multicast_3d(dst, &p.x, bars + 8 * s, 0, token, 2 * i,
                                  mask_x, HYMT_L2_EVICT_NORMAL);
        }
    }
};


/*
 * Threads: one warpgroup for each 64 rows of the tile, then the copying warp.
 * Barriers: full[stages], empty[stages].
 */
template<int T>
__global__ void __launch_bounds__(288)
k_gemm_sm90_bf16(const __grid_constant__ hymt_gemm_sm90_t p)
{
    extern __shared__ __align__(1024) uint8_t  smem[];

    const uint32_t  warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    const uint32_t  lane = threadIdx.x % 32;
    const uint32_t  groups = blockDim.x / 128;
    const uint32_t  n_stages = (p.k + K_STAGE - 1) / K_STAGE;
    const uint32_t  w_bytes = p.rows * K_STAGE * 2, x_bytes = T * K_STAGE * 2;
    const uint32_t  full = hymt_smem_addr(smem), empty = full + 8 * p.stages;
    const uint32_t  ring = full + HEAD;
    const uint32_t  row = blockIdx.x * p.rows, token = blockIdx.y * T;
    const uint32_t  rank_x = blockIdx.x % p.share_x;
    const uint32_t  rank_w = blockIdx.y % p.share_w;
    const bool      cluster = p.share_x * p.share_w > 1;

    hymt_grid_launch();

    if (threadIdx.x == 0) {
        for (uint32_t s = 0; s < p.stages; s++) {
            hymt_mbar_init(full + 8 * s, 1);
            hymt_mbar_init(empty + 8 * s,
                           4 * groups * (p.share_x + p.share_w - 1));
        }

        hymt_mbar_init_fence();
    }

    if (cluster) {
        hymt_cluster_sync();

    } else {
        __syncthreads();
    }

    if (warp == 4 * groups) {

        if (lane == 0) {
            const uint32_t  ahead = min(n_stages, p.stages);
            uint16_t        mask_x = 0, mask_w = 0;

            for (uint32_t i = 0; i < p.share_x; i++) {
                mask_x |= 1 << (rank_w * p.share_x + i);
            }

            for (uint32_t i = 0; i < p.share_w; i++) {
                mask_w |= 1 << (i * p.share_x + rank_x);
            }

            loader  load = { p, ring, full, w_bytes, x_bytes, row, token,
                             rank_x, rank_w, mask_x, mask_w };

            for (uint32_t i = 0; i < ahead; i++) {
                load.w(i);
            }

            hymt_grid_wait();

            for (uint32_t i = 0; i < ahead; i++) {
                load.x(i);
            }

            for (uint32_t i = ahead; i < n_stages; i++) {
                hymt_mbar_wait_cluster(empty + 8 * (i % p.stages),
                                       (i / p.stages - 1) & 1);
                load.w(i);
                load.x(i);
            }
        }

    } else {
        const uint32_t  group = warp / 4;
        const uint32_t  limit = min(row + p.rows, p.n);
        const uint32_t  half = p.rows * 8;     /* of a stage, / 16 bytes */
        uint32_t        s = 0, phase = 0, last = 0, peer = 0;
        bool            releases;
        uint64_t        a, b;
        float           d[T / 2];

        /* lane i tells the i-th block that shares with this one */

        if (lane < p.share_x) {
            peer = rank_w * p.share_x + lane;

        } else {
            peer = lane - p.share_x;
            peer = (peer + (peer >= rank_w)) * p.share_x + rank_x;
        }

        releases = lane < p.share_x + p.share_w - 1;

#pragma unroll
        for (int i = 0; i < T / 2; i++) {
            d[i] = 0;
        }

        for (uint32_t i = 0; i < p.k / K_STAGE; i++) {
            hymt_mbar_wait(full + 8 * s, phase);

            a = hymt_wgmma_desc(ring + s * w_bytes + group * 64 * 128);
            b = hymt_wgmma_desc(ring + p.stages * w_bytes + s * x_bytes);

            hymt_wgmma_fence();

#pragma unroll
            for (int j = 0; j < 8; j++) {
                hymt_wgmma(d, a + j / 4 * half + j % 4 * 2,
                           b + j / 4 * (T * 8) + j % 4 * 2, 1);
            }

            hymt_wgmma_commit();
            hymt_wgmma_wait<1>();

            /* the stage before this one has been read */

            if (i > 0 && releases) {
                if (cluster) {
                    hymt_mbar_arrive_at(empty + 8 * last, peer);

                } else {
                    hymt_mbar_arrive(empty + 8 * last);
                }
            }

            last = s;

            if (++s == p.stages) {
                s = 0;
                phase ^= 1;
            }
        }

        hymt_wgmma_wait<0>();
        hymt_wgmma_pin(d);

        /* k is a multiple of 64: half a stage may be left */

        if (p.k % K_STAGE != 0) {
            hymt_mbar_wait(full + 8 * s, phase);

            a = hymt_wgmma_desc(ring + s * w_bytes + group * 64 * 128);
            b = hymt_wgmma_desc(ring + p.stages * w_bytes + s * x_bytes);

            hymt_wgmma_fence();

#pragma unroll
            for (int j = 0; j < 4; j++) {
                hymt_wgmma(d, a + 2 * j, b + 2 * j, 1);
            }

            hymt_wgmma_commit();
            hymt_wgmma_wait<0>();
            hymt_wgmma_pin(d);
        }

        hymt_gemm_store<T>(p.out, d, row + warp * 16, limit, token);
    }

    /* nobody leaves while others may still send to it */

    if (cluster) {
        __syncwarp();
        hymt_cluster_sync();
    }
}

#else

template<int T>
__global__ void
k_gemm_sm90_bf16(const __grid_constant__ hymt_gemm_sm90_t p)
{
}

#endif


typedef void (*hymt_gemm_sm90_pt)(const hymt_gemm_sm90_t);


static hymt_gemm_sm90_pt
kernel_of(uint32_t tokens)
{
    switch (tokens) {
    case 8:
        return k_gemm_sm90_bf16<8>;
    case 16:
        return k_gemm_sm90_bf16<16>;
    case 32:
        return k_gemm_sm90_bf16<32>;
    case 64:
        return k_gemm_sm90_bf16<64>;
    case 128:
        return k_gemm_sm90_bf16<128>;
    default:
        return NULL;
    }
}


/* The driver is asked for by name: nothing links against it. */
static CUresult
encode(CUtensorMap *map, const void *data, uint32_t rows, uint32_t k,
    uint32_t box_rows)
{
    static PFN_cuTensorMapEncodeTiled_v12000  encode_tiled;

    cuuint64_t  dim[3] = { K_BOX, rows, k / K_BOX };
    cuuint64_t  stride[2] = { (cuuint64_t) k * 2, K_BOX * 2 };
    cuuint32_t  box[3] = { K_BOX, box_rows, K_STAGE / K_BOX };
    cuuint32_t  step[3] = { 1, 1, 1 };

    if (encode_tiled == NULL) {
        cudaDriverEntryPointQueryResult  found;

        if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled",
                                             (void **) &encode_tiled, 12000,
                                             cudaEnableDefault, &found)
            != cudaSuccess || found != cudaDriverEntryPointSuccess)
        {
            encode_tiled = NULL;
            return CUDA_ERROR_NOT_FOUND;
        }
    }

    return encode_tiled(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3,
                        (void *) data, dim, stride, box, step,
                        CU_TENSOR_MAP_INTERLEAVE_NONE,
                        CU_TENSOR_MAP_SWIZZLE_128B,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}


extern "C" cudaError_t
hymt_gemm_sm90_init(const hymt_cuda_t *dev)
{
    cudaError_t        rc;
    hymt_gemm_sm90_pt  kernel;

    for (uint32_t tokens = 8; tokens <= 128; tokens *= 2) {
        kernel = kernel_of(tokens);

        rc = cudaFuncSetAttribute(kernel,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  dev->smem);
        if (rc != cudaSuccess) {
            return rc;
        }

        /* two products share an SM: all of its memory that can be shared */

        rc = cudaFuncSetAttribute(kernel,
                                  cudaFuncAttributePreferredSharedMemoryCarveout,
                                  cudaSharedmemCarveoutMaxShared);
        if (rc != cudaSuccess) {
            return rc;
        }
    }

    return cudaSuccess;
}


extern "C" int
hymt_gemm_sm90_map(const hymt_gemm_shape_t *shape,
    const hymt_gemm_plan_t *plan, void *map, char *err, size_t cap)
{
    CUresult  rc;

    rc = encode((CUtensorMap *) map, shape->w, shape->n, shape->k, plan->rows);

    if (rc != CUDA_SUCCESS) {
        snprintf(err, cap, "cuTensorMapEncodeTiled() failed with %d for a"
                 " weight of %u x %u", (int) rc, shape->n, shape->k);
        return -1;
    }

    return 0;
}


extern "C" cudaError_t
hymt_gemm_sm90_run(const hymt_cuda_t *dev, const hymt_gemm_shape_t *shape,
    const hymt_gemm_plan_t *plan, const void *w_map, uint32_t m,
    cudaStream_t stream)
{
    const uint32_t       groups = (plan->rows + 63) / 64;
    const uint32_t       n_stages = (shape->k + K_STAGE - 1) / K_STAGE;
    const uint32_t       share = plan->share_x > plan->share_w ? plan->share_x
                                                               : plan->share_w;
    uint32_t             stage_bytes, w_end, end;
    hymt_gemm_sm90_t     p;
    cudaLaunchConfig_t   config = {};
    cudaLaunchAttribute  attr[2];

    if (encode(&p.x, shape->x, m, shape->k, plan->tokens) != CUDA_SUCCESS) {
        return cudaErrorUnknown;
    }

    p.w = *(const CUtensorMap *) w_map;
    p.out.y = shape->y;
    p.out.ldy = shape->ldy;
    p.out.m = m;
    p.out.after = shape->after;
    p.n = shape->n;
    p.k = shape->k;
    p.rows = plan->rows;
    p.share_x = plan->share_x;
    p.share_w = plan->share_w;

    /* as many stages as fit, as many as there are, in turns of the cluster */

    stage_bytes = (plan->rows + plan->tokens) * K_STAGE * 2;
    p.stages = (plan->ring * 1024u - HEAD) / stage_bytes;

    if (p.stages > n_stages) {
        p.stages = n_stages + share - 1;
    }

    if (p.stages > STAGES) {
        p.stages = STAGES;
    }

    p.stages -= p.stages % share;

    if (p.stages < 2 || p.stages < share) {
        p.stages = share > 2 ? share : 2;
    }

    /* the instruction reads whole groups of 64 rows behind the last tile */

    w_end = HEAD + p.stages * plan->rows * K_STAGE * 2;
    end = w_end + (groups * 64 - plan->rows) * K_BOX * 2;

    config.dynamicSmemBytes = HEAD + p.stages * stage_bytes;

    if (config.dynamicSmemBytes < end) {
        config.dynamicSmemBytes = end;
    }

    config.gridDim.x = (shape->n + plan->rows - 1) / plan->rows;
    config.gridDim.x += plan->share_x - 1;
    config.gridDim.x -= config.gridDim.x % plan->share_x;
    config.gridDim.y = (m + plan->tokens - 1) / plan->tokens;
    config.gridDim.y += plan->share_w - 1;
    config.gridDim.y -= config.gridDim.y % plan->share_w;
    config.gridDim.z = 1;
    config.blockDim = dim3(groups * 128 + 32);
    config.stream = stream;
    config.attrs = attr;

    if (share > 1) {
        attr[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
        attr[config.numAttrs].val.clusterDim.x = plan->share_x;
        attr[config.numAttrs].val.clusterDim.y = plan->share_w;
        attr[config.numAttrs].val.clusterDim.z = 1;
        config.numAttrs++;
    }

    if (dev->pdl) {
        attr[config.numAttrs].id =
            cudaLaunchAttributeProgrammaticStreamSerialization;
        attr[config.numAttrs].val.programmaticStreamSerializationAllowed = 1;
        config.numAttrs++;
    }

    return cudaLaunchKernelEx(&config, kernel_of(plan->tokens), p);
}
