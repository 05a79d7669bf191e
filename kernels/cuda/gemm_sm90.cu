/*
 * y[m][n] = sum_k x[m][k] * w[n][k] on Hopper, for few rows: the time is the
 * time to read w once.
 *
 * The weight is the large operand of the matrix instruction, the tokens are its
 * N: a block owns R rows of w (any multiple of 8 up to 192, so that all SMs
 * stream equal shares) and T tokens.  The instruction always multiplies 64
 * rows; what lies behind the tile's R rows in shared memory comes out as rows
 * nobody stores.
 *
 * One warp copies w and one x, in stages of 64, 128 or 256 columns that go
 * round a ring in shared memory, w past the caches, x from L2.  The ring is
 * filled with weights BEFORE the wait for the kernel in front, so while one
 * product drains, the next one's weights are already on their way: that is
 * worth more than anything done inside a kernel.
 *
 * The sums are one chain of k / 16 dependent instructions.  With few tokens
 * each takes 18 cycles (shared memory hands out 64 rows of w in 16), so what
 * lies between them counts: see the loop.
 *
 * Where x is large, blocks of a cluster share it: each stage of x is read from
 * L2 by one of `share_x` blocks and sent to all; likewise w among `share_w`
 * blocks with other tokens.  Stage s is brought by block s % share.
 *
 * Bytes: w once (n * k * 2) from memory; x ceil(n / R) / share_x times and w
 * ceil(m / T) / share_w times from L2.
 *
 * H200, 1.8B, a layer's four products in a chain, 96 MB, floor 21.2 us: 27.6 us
 * for 1 row, 27.2 for 8, 28.1 for 16, 30.4 for 32, 33.8 for 64, 38.4 for 128
 * (docs/performance.md, GEMM).
 *
 * Promise: k ascends in steps of 16 in one accumulator, whatever T, R and m.
 */

#include "gemm.h"
#include "gemm_store.cuh"
#include "gemm_wgmma.cuh"
#include "ptx.cuh"
#include "tensor_map.h"

#include <stdio.h>


#define K_BOX   64                /* columns of a box: 128 bytes, a swizzle */
#define HEAD    1024              /* bytes of barriers, before the ring */
#define STAGES  (HEAD / 16)       /* two barriers each */


typedef struct {
    CUtensorMap      w;        /* (64, n, k / 64), box (64, R, depth) */
    CUtensorMap      x;        /* (64, m, k / 64), box (64, T, depth) */
    hymt_gemm_out_t  out;
    uint32_t         n;
    uint32_t         k;
    uint32_t         rows;     /* R */
    uint32_t         stages;
    uint32_t         share_x;
    uint32_t         share_w;
} hymt_gemm_sm90_t;


#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

/*
 * One operand's copies to the ring, by one thread.  A stage is `depth` boxes;
 * its operand lies `at` bytes into its place of `pitch` bytes.
 */
struct copier {
    const void  *map;
    uint32_t     full, empty;     /* barriers */
    uint32_t     at, pitch, bytes;
    uint32_t     first;           /* row of the tensor */
    uint32_t     depth, stages;
    uint32_t     share, rank;     /* blocks that share it, this one's place */
    uint16_t     mask;            /* all of them */
    uint64_t     policy;

    __device__ __forceinline__ void
    copy(uint32_t i, uint32_t s) const
    {
        const uint32_t  bar = full + 8 * s, to = at + s * pitch;

        hymt_mbar_expect(bar, bytes);

        if (share == 1) {
            hymt_tma_load_3d(to, map, bar, 0, first, i * depth, policy);

        } else if (s % share == rank) {
            hymt_tma_multicast_3d(to, map, bar, 0, first, i * depth, mask,
                                  policy);
        }
    }

    /* the stages that fit at once */
    __device__ __forceinline__ void
    fill(uint32_t n) const
    {
#pragma unroll 1
        for (uint32_t i = 0; i < n && i < stages; i++) {
            copy(i, i);
        }
    }

    /*
     * The others, as places become free.  In a cluster it ends only when all
     * have been told free: what others still send to this block must find it.
     */
    __device__ __forceinline__ void
    go_on(uint32_t n, bool cluster) const
    {
        const uint32_t  end = cluster ? n + stages : n;
        uint32_t        s = 0, phase = 0;

#pragma unroll 1
        for (uint32_t i = stages; i < end; i++) {
            hymt_mbar_wait(empty + 8 * s, phase);

            if (i < n) {
                copy(i, s);
            }

            if (++s == stages) {
                s = 0;
                phase ^= 1;
            }
        }
    }
};


/*
 * Threads: one warpgroup for each 64 rows of the tile, then a warp that copies
 * w and one that copies x.  Barriers: full[stages], empty[stages].  D: boxes of
 * a stage; the more, the less waiting between the instructions of the chain.
 */
template<int T, int D>
__global__ void __launch_bounds__(448)
k_gemm_sm90_bf16(const __grid_constant__ hymt_gemm_sm90_t p)
{
    extern __shared__ __align__(1024) uint8_t  smem[];

    const uint32_t  warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    const uint32_t  lane = threadIdx.x % 32;
    const uint32_t  groups = blockDim.x / 128;
    const uint32_t  n_stages = (p.k + D * K_BOX - 1) / (D * K_BOX);
    const uint32_t  w_bytes = p.rows * D * K_BOX * 2;
    const uint32_t  x_bytes = T * D * K_BOX * 2;
    const uint32_t  pitch = w_bytes + x_bytes;
    const uint32_t  full = hymt_smem_addr(smem), empty = full + 8 * p.stages;
    const uint32_t  ring = full + HEAD;
    const uint32_t  row = blockIdx.x * p.rows, token = blockIdx.y * T;
    const uint32_t  rank_x = blockIdx.x % p.share_x;
    const uint32_t  rank_w = blockIdx.y % p.share_w;
    const bool      cluster = p.share_x * p.share_w > 1;

    hymt_grid_launch();

    if (threadIdx.x == 0) {
#pragma unroll 1
        for (uint32_t s = 0; s < p.stages; s++) {
            hymt_mbar_init(full + 8 * s, 2);
            hymt_mbar_init(empty + 8 * s,
                           4 * groups * (p.share_x + p.share_w - 1));
        }

        hymt_mbar_init_fence();

    } else if (threadIdx.x == 32) {
        hymt_tma_prefetch_map(&p.w);
        hymt_tma_prefetch_map(&p.x);
    }

    if (cluster) {
        __syncwarp();
        hymt_cluster_meet();

    } else {
        __syncthreads();
    }

    /* by warp first: a branch by lane would cost the others their uniform
       registers */

    if (warp == 4 * groups) {

        if (lane == 0) {
            copier  c = { &p.w, full, empty, ring, pitch, w_bytes, row, D,
                          p.stages, p.share_w, rank_w, 0,
                          HYMT_L2_EVICT_FIRST };

            for (uint32_t i = 0; i < p.share_w; i++) {
                c.mask |= 1 << (i * p.share_x + rank_x);
            }

            c.fill(n_stages);
            c.go_on(n_stages, cluster);
        }

    } else if (warp == 4 * groups + 1) {

        if (lane == 0) {
            copier  c = { &p.x, full, empty, ring + w_bytes, pitch, x_bytes,
                          token, D, p.stages, p.share_x, rank_x, 0,
                          HYMT_L2_EVICT_NORMAL };

            for (uint32_t i = 0; i < p.share_x; i++) {
                c.mask |= 1 << (rank_w * p.share_x + i);
            }

            hymt_grid_wait();
            c.fill(n_stages);
            c.go_on(n_stages, cluster);
        }

    } else {
        const uint32_t  group = warp / 4;
        const uint32_t  limit = min(row + p.rows, p.n);
        const uint32_t  box = p.rows * 8;      /* of w, / 16 bytes */
        const uint32_t  a0 = hymt_wgmma_lo(ring + group * 64 * 128);
        const uint32_t  b0 = hymt_wgmma_lo(ring + w_bytes);
        const uint32_t  n_whole = p.k / (D * K_BOX);
        uint32_t        s = 0, phase = 0, at = 0, last = 0, peer;
        bool            releases;
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

        for (uint32_t i = 0; i < n_whole; i++) {
            hymt_mbar_wait(full + 8 * s, phase);

            hymt_wgmma_fence();

#pragma unroll
            for (int j = 0; j < 4 * D; j++) {
                hymt_wgmma(d, hymt_wgmma_desc(a0 + at + j / 4 * box
                                              + j % 4 * 2),
                           hymt_wgmma_desc(b0 + at + j / 4 * (T * 8)
                                           + j % 4 * 2), 1);
            }

            hymt_wgmma_commit();

            const uint32_t  now = s;

            at += pitch / 16;

            if (++s == p.stages) {
                s = 0;
                at = 0;
                phase ^= 1;
            }

            /* the stage before this one has been read */

            hymt_wgmma_wait<1>();

            if (i > 0) {
                hymt_mbar_release(empty + 8 * last, peer, releases, cluster);
            }

            last = now;
        }

        hymt_wgmma_wait<0>();
        hymt_wgmma_pin(d);

        if (n_whole > 0) {
            hymt_mbar_release(empty + 8 * last, peer, releases, cluster);
        }

        /* a part of a stage may be left: k is a multiple of 64 */

        if (n_whole < n_stages) {
            hymt_mbar_wait(full + 8 * s, phase);

#pragma unroll 1
            for (uint32_t i = n_whole * D; i < p.k / K_BOX; i++) {
                hymt_wgmma_fence();

#pragma unroll
                for (int j = 0; j < 4; j++) {
                    hymt_wgmma(d, hymt_wgmma_desc(a0 + at + i % D * box
                                                  + 2 * j),
                               hymt_wgmma_desc(b0 + at + i % D * (T * 8)
                                               + 2 * j), 1);
                }

                hymt_wgmma_commit();
                hymt_wgmma_wait<0>();
                hymt_wgmma_pin(d);
            }

            hymt_mbar_release(empty + 8 * s, peer, releases, cluster);
        }

        /* its x came after the wait for earlier kernels: so does this */

        hymt_gemm_store<T>(p.out, d, row + warp * 16, limit, token);
    }

}

#else

template<int T, int D>
__global__ void
k_gemm_sm90_bf16(const __grid_constant__ hymt_gemm_sm90_t p)
{
}

#endif


typedef void (*hymt_gemm_sm90_pt)(const hymt_gemm_sm90_t);


template<int D>
static hymt_gemm_sm90_pt
kernel_of(uint32_t tokens)
{
    switch (tokens) {
    case 8:
        return k_gemm_sm90_bf16<8, D>;
    case 16:
        return k_gemm_sm90_bf16<16, D>;
    case 32:
        return k_gemm_sm90_bf16<32, D>;
    case 64:
        return k_gemm_sm90_bf16<64, D>;
    case 96:
        return k_gemm_sm90_bf16<96, D>;
    default:
        return k_gemm_sm90_bf16<128, D>;
    }
}


/* Stages of 1, 2 or 4 boxes. */
static hymt_gemm_sm90_pt
kernel_of(uint32_t tokens, uint32_t depth)
{
    return depth == 4 ? kernel_of<4>(tokens)
           : depth == 2 ? kernel_of<2>(tokens) : kernel_of<1>(tokens);
}


static int
encode(CUtensorMap *map, const void *data, uint32_t rows, uint32_t k,
    uint32_t box_rows, uint32_t depth)
{
    hymt_tensor_box_t  t = { data, { K_BOX, rows, k / K_BOX },
                             { (uint64_t) k * 2, K_BOX * 2 },
                             { K_BOX, box_rows, depth }, 3, 128 };

    return hymt_tensor_map(map, &t);
}


extern "C" bool
hymt_gemm_sm90_built(void)
{
    cudaFuncAttributes  attr;

    if (cudaFuncGetAttributes(&attr, kernel_of(8, 1)) != cudaSuccess) {
        (void) cudaGetLastError();
        return false;
    }

    return attr.ptxVersion >= 90;
}


extern "C" cudaError_t
hymt_gemm_sm90_init(const hymt_cuda_t *dev)
{
    cudaError_t        rc;
    hymt_gemm_sm90_pt  kernel;

    for (uint32_t i = 0; i < 18; i++) {
        kernel = kernel_of(i % 6 == 5 ? 96 : 8 << i % 6, 1 << i / 6);

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
    int  rc;

    rc = encode((CUtensorMap *) map, shape->w, shape->n, shape->k, plan->rows,
                plan->depth);

    if (rc != 0) {
        snprintf(err, cap, "cuTensorMapEncodeTiled() failed with %d for a"
                 " weight of %u x %u", rc, shape->n, shape->k);
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
    const uint32_t       stage = plan->depth * K_BOX;
    const uint32_t       n_stages = (shape->k + stage - 1) / stage;
    const uint32_t       share = plan->share_x > plan->share_w ? plan->share_x
                                                               : plan->share_w;
    uint32_t             pitch, fit, need, behind;
    hymt_gemm_sm90_t     p;
    cudaLaunchConfig_t   config = {};
    cudaLaunchAttribute  attr[2];

    if (encode(&p.x, shape->x, m, shape->k, plan->tokens, plan->depth)
        != 0)
    {
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

    /* as many stages as fit, or as there are; in a cluster they take turns */

    pitch = (plan->rows + plan->tokens) * stage * 2;
    fit = (plan->ring * 1024u - HEAD) / pitch;
    need = (n_stages + share - 1) / share * share;

    p.stages = fit < STAGES ? fit : STAGES;
    p.stages -= p.stages % share;
    p.stages = p.stages < need ? p.stages : need;

    if (p.stages < 2 || p.stages < share) {
        p.stages = share > 2 ? share : 2;
    }

    /* the instruction reads whole groups of 64 rows, also of the last box */

    behind = (groups * 64 - plan->rows) * K_BOX * 2;
    behind -= behind < plan->tokens * stage * 2 ? behind
                                                : plan->tokens * stage * 2;

    config.dynamicSmemBytes = HEAD + p.stages * pitch + behind;

    config.gridDim.x = (shape->n + plan->rows - 1) / plan->rows;
    config.gridDim.x += plan->share_x - 1;
    config.gridDim.x -= config.gridDim.x % plan->share_x;
    config.gridDim.y = (m + plan->tokens - 1) / plan->tokens;
    config.gridDim.y += plan->share_w - 1;
    config.gridDim.y -= config.gridDim.y % plan->share_w;
    config.gridDim.z = 1;
    config.blockDim = dim3(groups * 128 + 64);
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

    return cudaLaunchKernelEx(&config, kernel_of(plan->tokens, plan->depth),
                              p);
}
