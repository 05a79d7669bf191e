/*
 * y[m][n] = sum_k x[m][k] * w[n][k] on Hopper, for many rows: the time is that
 * of the matrix units, or of bringing tiles into shared memory.
 *
 * As in gemm_sm90.cu the weight is the large operand of the matrix instruction
 * and tokens are its N.  A block makes tiles of R rows of w (any multiple of
 * 32, a warpgroup for each 64) by T tokens, one after the other, as many blocks
 * as there are SMs: a thread copies w and another x, 64 or 128 columns a stage,
 * round a ring in shared memory, and they are at the next tile while the last
 * one is stored.  So what counts is that tiles come out even over the SMs:
 * 12288 x 512 are 128 of 192 x 256, 2048 x 512 as many of 64 x 128.
 *
 * 64 columns are (R + T) * 128 bytes for R * T * 128 operations of an SM that
 * does 4096 a cycle and is brought some 64 bytes: small tiles wait for bytes.
 * Blocks of a cluster can share what they have in common, each bringing a part
 * of w to those with other tokens, of x to those with other rows: an SM gets no
 * more bytes by that, but L2 hands out fewer.
 *
 * The sums leave by way of shared memory: transposed by stmatrix, in boxes of
 * 32 rows by a run of tokens, by bulk copies, which also keep to the tensor.
 *
 * H200, 1.8B: gate and up of 192 rows with SiLU 16.8 us (floor 11.8), of 512
 * 36.6 (31.3), of 2048 138 to 144 (126); cublasLt and the SiLU pass 20.6, 40.4
 * and 152 (docs/performance.md, GEMM).
 *
 * Promise: k ascends in steps of 16 in one accumulator, whatever R, T and m.
 */

#include "gemm.h"
#include "gemm_wgmma.cuh"
#include "norm.cuh"
#include "ptx.cuh"
#include "tensor_map.h"

#include <stdio.h>


#define K_BOX    64               /* columns of a box: 128 bytes, a swizzle */
#define HEAD     1024             /* bytes of barriers, before the ring */
#define STAGES   (HEAD / 16)      /* two barriers each */
#define GROUPS   3                /* of 64 rows, at most */
#define STRIP    64               /* bytes of a token in a box to store */


typedef struct {
    CUtensorMap  w;          /* (64, n, k / 64), box (64, R, D), or where it */
    CUtensorMap  x;          /* is shared (64, R / share_w, 1); x: m, T */
    CUtensorMap  y;          /* (n, m), SILU (n / 2, m), box (32, chunk) */
    uint32_t     m;
    uint32_t     n;
    uint32_t     k;
    uint32_t     rows;       /* R */
    uint32_t     stages;
    uint32_t     share_x;
    uint32_t     share_w;
    uint32_t     turns_x;    /* of a cluster along the tokens ... */
    uint32_t     turns;      /* ... and all */
    uint32_t     silu;
} hymt_gemm_many_t;


/* Tokens that are stored at a time: a divisor of T, a multiple of 16. */
static constexpr __host__ __device__ int
chunk_of(int tokens)
{
    return tokens == 224 ? 32 : tokens == 160 ? 80 : tokens == 96 ? 48
           : tokens > 112 ? 64 : tokens;
}


/* Places for them that a warpgroup has. */
static constexpr __host__ __device__ int
places_of(int tokens)
{
    return tokens > chunk_of(tokens) ? 2 : 1;
}


#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* The place of a stage in the ring. */
struct place {
    uint32_t  s, phase, stages;

    __device__ __forceinline__ void
    next(void)
    {
        if (++s == stages) {
            s = 0;
            phase ^= 1;
        }
    }
};


/*
 * One operand's copies to the ring, by one thread: D boxes a stage, to the
 * place `at` bytes into that of the stage.  What blocks share each of them
 * brings a part of, to all, box by box.
 */
struct many_copier {
    const void  *map;
    uint32_t     full, empty;     /* barriers */
    uint32_t     at, pitch, bytes;
    uint32_t     share, rank;     /* blocks that share it, this one's place */
    uint32_t     part;            /* rows that each brings */
    uint16_t     mask;            /* all of them */
    uint64_t     policy;

    /* n stages of depth boxes, from row `first` of the tensor on */
    __device__ __forceinline__ void
    copy(place &to, uint32_t first, uint32_t n, uint32_t depth) const
    {
#pragma unroll 1
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t  bar = full + 8 * to.s, smem = at + to.s * pitch;

            hymt_mbar_wait(empty + 8 * to.s, to.phase);
            hymt_mbar_expect(bar, bytes);

            if (share == 1) {
                hymt_tma_load_3d(smem, map, bar, 0, first, i * depth, policy);

            } else {
#pragma unroll 1
                for (uint32_t j = 0; j < depth; j++) {
                    hymt_tma_multicast_3d(smem + (j * share + rank) * part
                                                 * 128, map, bar, 0,
                                          first + rank * part, i * depth + j,
                                          mask, policy);
                }
            }

            to.next();
        }
    }
};


static __device__ __forceinline__ uint32_t
pair_bits(float a, float b)
{
    __nv_bfloat162  v = __floats2bfloat162_rn(a, b);

    return *(uint32_t *) &v;
}


static __device__ __forceinline__ uint32_t
silu_bits(const float *d)
{
    __nv_bfloat162  v;

    v = hymt_silu_mul_pair(__floats2bfloat162_rn(d[0], d[1]),
                           __floats2bfloat162_rn(d[2], d[3]));

    return *(uint32_t *) &v;
}


/*
 * The sums of a warpgroup, 64 rows by T tokens, to y, by way of `out`: places
 * of C tokens by 128 bytes.  Rows up to `limit` are the tile's.
 */
template<int T>
static __device__ __forceinline__ void
store(const hymt_gemm_many_t &p, const float (&d)[T / 2], uint32_t out,
    uint32_t group, uint32_t row, uint32_t limit, uint32_t token)
{
    constexpr int   C = chunk_of(T), PLACES = places_of(T);
    const uint32_t  lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const bool      stores = threadIdx.x % 128 == 0;
    uint32_t        at, col, of;

    /* 16 bytes of a strip: bits 4, 5 of the address are swizzled by 7, 8 */

    if (p.silu) {
        of = lane % 16;
        col = warp;
        at = of * STRIP + (col ^ (of / 2 % 4)) * 16;

    } else {
        of = lane / 16 * 8 + lane % 8;
        col = warp % 2 * 2 + lane / 8 % 2;
        at = warp / 2 * C * STRIP + of * STRIP + (col ^ (of / 2 % 4)) * 16;
    }

#pragma unroll
    for (int c = 0; c < T / C; c++) {
        const uint32_t  place = out + c % PLACES * C * 128;

        /* the last chunk that was here has been read */

        if (stores && c == 0) {
            hymt_bulk_wait_read<0>();

        } else if (stores && c >= PLACES) {
            hymt_bulk_wait_read<PLACES - 1>();
        }

        hymt_group_sync(group);

        if (p.silu) {
#pragma unroll
            for (int j = 0; j < C / 8; j += 2) {
                const int  i = 4 * (c * C / 8 + j);

                hymt_stmatrix_x2_trans(place + at + j * 8 * STRIP,
                                       silu_bits(d + i), silu_bits(d + i + 4));
            }

        } else {
#pragma unroll
            for (int j = 0; j < C / 8; j += 2) {
                const int  i = 4 * (c * C / 8 + j);

                hymt_stmatrix_x4_trans(place + at + j * 8 * STRIP,
                                       pair_bits(d[i], d[i + 1]),
                                       pair_bits(d[i + 2], d[i + 3]),
                                       pair_bits(d[i + 4], d[i + 5]),
                                       pair_bits(d[i + 6], d[i + 7]));
            }
        }

        hymt_fence_async();
        hymt_group_sync(group);

        if (stores) {
            const uint32_t  first = token + c * C;

            if (first < p.m && row < limit) {
                hymt_tma_store_2d(&p.y, place, p.silu ? row / 2 : row, first);
            }

            if (first < p.m && row + 32 < limit && !p.silu) {
                hymt_tma_store_2d(&p.y, place + C * STRIP, row + 32, first);
            }

            hymt_bulk_commit();
        }
    }
}


/* d += a * b for T tokens; `half`: by two instructions. */
template<int T, bool half>
static __device__ __forceinline__ void
multiply(float (&d)[T / 2], uint32_t a, uint32_t b)
{
    if constexpr (half) {
        hymt_wgmma(*(float (*)[T / 4]) &d[0], hymt_wgmma_desc(a),
                   hymt_wgmma_desc(b), 1);
        hymt_wgmma(*(float (*)[T / 4]) &d[T / 4], hymt_wgmma_desc(a),
                   hymt_wgmma_desc(b + T / 2 * 8), 1);

    } else {
        hymt_wgmma(d, hymt_wgmma_desc(a), hymt_wgmma_desc(b), 1);
    }
}


/*
 * Threads: a warpgroup for each 64 rows of a tile, G at most, then one of which
 * a thread copies w and another x, and which leaves its registers to the rest.
 * Barriers: full[stages], empty[stages].  D: boxes of a stage.
 *
 * With three groups a thread has 128 registers to begin with, too few for an
 * instruction that names as many sums: then it takes two.
 */
template<int T, int G, int D>
__global__ void __launch_bounds__(G * 128 + 128, 1)
k_gemm_many_bf16(const __grid_constant__ hymt_gemm_many_t p)
{
    extern __shared__ __align__(1024) uint8_t  smem[];

    const uint32_t  warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    const uint32_t  lane = threadIdx.x % 32;
    const uint32_t  groups = blockDim.x / 128 - 1;
    const uint32_t  n_k = p.k / (D * K_BOX);
    const uint32_t  w_bytes = p.rows * D * 128, x_bytes = T * D * 128;
    const uint32_t  pitch = w_bytes + x_bytes;
    const uint32_t  full = hymt_smem_addr(smem), empty = full + 8 * p.stages;
    const uint32_t  ring = full + HEAD;
    const uint32_t  share = p.share_x * p.share_w;
    const uint32_t  rank_x = blockIdx.x % share % p.share_x;
    const uint32_t  rank_w = blockIdx.x % share / p.share_x;
    const uint32_t  first = blockIdx.x / share, step = gridDim.x / share;

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
        hymt_tma_prefetch_map(&p.y);
    }

    if (share > 1) {
        __syncwarp();
        hymt_cluster_meet();

    } else {
        __syncthreads();
    }

    if (warp >= 4 * groups) {
        hymt_registers_fewer<32>();

        /* places are free at first: the wait for the phase before it is none */

        place  to = { 0, 1, p.stages };

        if (warp == 4 * groups && lane == 0) {
            many_copier  c = { &p.w, full, empty, ring, pitch, w_bytes,
                               p.share_w, rank_w, p.rows / p.share_w, 0,
                               HYMT_L2_EVICT_FIRST };

            for (uint32_t i = 0; i < p.share_w; i++) {
                c.mask |= 1 << (i * p.share_x + rank_x);
            }

#pragma unroll 1
            for (uint32_t turn = first; turn < p.turns; turn += step) {
                c.copy(to, (turn / p.turns_x * p.share_x + rank_x) * p.rows,
                       n_k, D);
            }

            /* what others still send here, or tell, must find this block */

#pragma unroll 1
            for (uint32_t i = 0; share > 1 && i < p.stages; i++) {
                hymt_mbar_wait(empty + 8 * to.s, to.phase);
                to.next();
            }

        } else if (warp == 4 * groups + 1 && lane == 0) {
            many_copier  c = { &p.x, full, empty, ring + w_bytes, pitch,
                               x_bytes, p.share_x, rank_x, T / p.share_x, 0,
                               HYMT_L2_EVICT_NORMAL };

            for (uint32_t i = 0; i < p.share_x; i++) {
                c.mask |= 1 << (rank_w * p.share_x + i);
            }

            hymt_grid_wait();

#pragma unroll 1
            for (uint32_t turn = first; turn < p.turns; turn += step) {
                c.copy(to, (turn % p.turns_x * p.share_w + rank_w) * T, n_k,
                       D);
            }
        }

    } else {
        hymt_registers_more<G == 3 ? 160 : 216>();

        const uint32_t  group = warp / 4;
        const uint32_t  a0 = hymt_wgmma_lo(ring + group * 64 * 128);
        const uint32_t  b0 = hymt_wgmma_lo(ring + w_bytes);
        const uint32_t  box = p.rows * 8;      /* of w, / 16 bytes */
        const uint32_t  out = ring + p.stages * pitch
                              + group * places_of(T) * chunk_of(T) * 128;
        place           at = { 0, 0, p.stages };
        uint32_t        last = 0, peer;
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

#pragma unroll 1
        for (uint32_t turn = first; turn < p.turns; turn += step) {
            const uint32_t  token = (turn % p.turns_x * p.share_w + rank_w) * T;
            const uint32_t  row = (turn / p.turns_x * p.share_x + rank_x)
                                  * p.rows;

#pragma unroll
            for (int i = 0; i < T / 2; i++) {
                d[i] = 0;
            }

            hymt_wgmma_pin(d);

#pragma unroll 1
            for (uint32_t i = 0; i < n_k; i++) {
                const uint32_t  now = at.s, to = now * (pitch / 16);

                hymt_mbar_wait(full + 8 * now, at.phase);

                hymt_wgmma_fence();

#pragma unroll
                for (int j = 0; j < 4 * D; j++) {
                    multiply<T, (T * G > 576)>(d, a0 + to + j / 4 * box
                                                  + j % 4 * 2,
                                               b0 + to + j / 4 * (T * 8)
                                               + j % 4 * 2);
                }

                hymt_wgmma_commit();
                at.next();

                /* the stage before this one has been read */

                hymt_wgmma_wait<1>();

                if (i > 0) {
                    hymt_mbar_release(empty + 8 * last, peer, releases,
                                      share > 1);
                }

                last = now;
            }

            hymt_wgmma_wait<0>();
            hymt_wgmma_pin(d);

            hymt_mbar_release(empty + 8 * last, peer, releases, share > 1);

            store<T>(p, d, out, group, row + group * 64,
                     min(row + p.rows, p.n), token);
        }

        if (threadIdx.x % 128 == 0) {
            hymt_bulk_wait();
        }
    }
}

#else

template<int T, int G, int D>
__global__ void
k_gemm_many_bf16(const __grid_constant__ hymt_gemm_many_t p)
{
}

#endif


typedef void (*hymt_gemm_many_pt)(const hymt_gemm_many_t);

#define KERNELS(T, D)                                                         \
    { T, D, { k_gemm_many_bf16<T, 2, D>, k_gemm_many_bf16<T, 3, D> } }

static const struct {
    uint32_t           tokens;
    uint32_t           depth;
    hymt_gemm_many_pt  kernel[2];    /* of up to two groups, of three */
} kernels[] = {
    KERNELS(32, 2), KERNELS(48, 2), KERNELS(64, 2), KERNELS(80, 2),
    KERNELS(96, 2), KERNELS(112, 2), KERNELS(128, 2),
    KERNELS(48, 1), KERNELS(64, 1), KERNELS(80, 1), KERNELS(96, 1),
    KERNELS(112, 1), KERNELS(128, 1), KERNELS(160, 1), KERNELS(192, 1),
    KERNELS(224, 1), KERNELS(256, 1),
};

/* Most clusters of so many blocks that run at once. */
static uint32_t  most_clusters[HYMT_GEMM_CLUSTER + 1];


static hymt_gemm_many_pt
kernel_of(uint32_t tokens, uint32_t depth, uint32_t groups)
{
    for (const auto &i : kernels) {
        if (i.tokens == tokens && i.depth == depth) {
            return i.kernel[groups == GROUPS];
        }
    }

    return NULL;
}


/* Places of the ring: what a plan's shared memory has beside those of sums. */
static uint32_t
stages_of(const hymt_gemm_plan_t *plan)
{
    const int       tokens = plan->tokens;
    const uint32_t  groups = (plan->rows + 63) / 64;
    const uint32_t  rest = HEAD + groups * places_of(tokens)
                                  * chunk_of(tokens) * 128;
    const uint32_t  ring = plan->ring * 1024;
    const uint32_t  fit = ring > rest ? (ring - rest)
                                        / ((plan->rows + tokens) * plan->depth
                                           * 128) : 0;

    return fit < STAGES ? fit : STAGES;
}


extern "C" cudaError_t
hymt_gemm_many_init(const hymt_cuda_t *dev)
{
    int                  n;
    cudaError_t          rc;
    hymt_gemm_many_pt    kernel;
    cudaLaunchConfig_t   config = {};
    cudaLaunchAttribute  attr;

    for (size_t i = 0; i < 2 * sizeof(kernels) / sizeof(kernels[0]); i++) {
        kernel = kernels[i / 2].kernel[i % 2];

        rc = cudaFuncSetAttribute(kernel,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int) dev->smem);
        if (rc != cudaSuccess) {
            return rc;
        }

        rc = cudaFuncSetAttribute(kernel,
                              cudaFuncAttributePreferredSharedMemoryCarveout,
                              cudaSharedmemCarveoutMaxShared);
        if (rc != cudaSuccess) {
            return rc;
        }
    }

    /* multiprocessors come in groups, and a cluster keeps to one */

    most_clusters[1] = dev->sms;

    for (uint32_t i = 2; i <= HYMT_GEMM_CLUSTER; i *= 2) {
        attr.id = cudaLaunchAttributeClusterDimension;
        attr.val.clusterDim.x = i;
        attr.val.clusterDim.y = 1;
        attr.val.clusterDim.z = 1;
        config.gridDim = dim3(dev->sms / i * i);
        config.blockDim = dim3(GROUPS * 128 + 128);
        config.dynamicSmemBytes = dev->smem;
        config.attrs = &attr;
        config.numAttrs = 1;

        rc = cudaOccupancyMaxActiveClusters(&n, kernel_of(256, 1, GROUPS),
                                            &config);
        if (rc != cudaSuccess) {
            return rc;
        }

        most_clusters[i] = (uint32_t) n < dev->sms / i ? (uint32_t) n
                                                       : dev->sms / i;
        most_clusters[i] += most_clusters[i] == 0;
    }

    return cudaSuccess;
}


static bool
map_operand(CUtensorMap *map, const void *data, uint32_t rows, uint32_t k,
    uint32_t box_rows, uint32_t depth)
{
    hymt_tensor_box_t  t = { data, { K_BOX, rows, k / K_BOX },
                             { (uint64_t) k * 2, K_BOX * 2 },
                             { K_BOX, box_rows, depth }, 3, 128 };

    return hymt_tensor_map(map, &t) == 0;
}


extern "C" int
hymt_gemm_many_map(const hymt_gemm_shape_t *shape,
    const hymt_gemm_plan_t *plan, void *map, char *err, size_t cap)
{
    if (!map_operand((CUtensorMap *) map, shape->w, shape->n, shape->k,
                     plan->rows / plan->share_w,
                     plan->share_w > 1 ? 1 : plan->depth))
    {
        snprintf(err, cap, "cuTensorMapEncodeTiled() failed for a weight of"
                 " %u x %u", shape->n, shape->k);
        return -1;
    }

    return 0;
}


extern "C" bool
hymt_gemm_many_fits(const hymt_gemm_shape_t *shape,
    const hymt_gemm_plan_t *plan)
{
    const uint32_t  step = shape->after == HYMT_GEMM_SILU ? 64 : 32;
    const uint32_t  share = plan->share_x * plan->share_w;

    return shape->after != HYMT_GEMM_F32
           && kernel_of(plan->tokens, plan->depth, 1) != NULL
           && shape->k % (K_BOX * plan->depth) == 0
           && plan->rows % step == 0 && plan->rows >= step
           && plan->rows <= GROUPS * 64
           && plan->rows % (8 * plan->share_w) == 0
           && plan->tokens % (8 * plan->share_x) == 0
           && share <= HYMT_GEMM_CLUSTER
           && stages_of(plan) >= 2;
}


extern "C" uint64_t
hymt_gemm_many_cost(const hymt_cuda_t *dev, const hymt_gemm_shape_t *shape,
    const hymt_gemm_plan_t *plan, uint32_t m)
{
    const uint32_t  groups = (plan->rows + 63) / 64;
    const uint32_t  tiles = (shape->n + plan->rows - 1) / plan->rows
                            * ((m + plan->tokens - 1) / plan->tokens);
    const uint64_t  turns = (tiles + dev->sms - 1) / dev->sms;
    const uint64_t  units = groups * plan->tokens * 2;
    const uint64_t  bytes = (plan->rows + plan->tokens) * 128 / 72;

    return turns * ((units > bytes ? units : bytes) * (shape->k / K_BOX)
                    + 2000);
}


extern "C" cudaError_t
hymt_gemm_many_run(const hymt_cuda_t *dev, const hymt_gemm_shape_t *shape,
    const hymt_gemm_plan_t *plan, const void *w_map, uint32_t m,
    cudaStream_t stream)
{
    const int            tokens = plan->tokens;
    const bool           silu = shape->after == HYMT_GEMM_SILU;
    const uint32_t       groups = (plan->rows + 63) / 64;
    const uint32_t       share = plan->share_x * plan->share_w;
    const uint32_t       tiles_n = (shape->n + plan->rows - 1) / plan->rows;
    const uint32_t       tiles_m = (m + tokens - 1) / tokens;
    uint32_t             clusters;
    hymt_gemm_many_pt    kernel;
    hymt_gemm_many_t     p;
    hymt_tensor_box_t    y = { shape->y,
                               { silu ? shape->n / 2 : shape->n, m, 1 },
                               { (uint64_t) shape->ldy * 2, 0 },
                               { STRIP / 2, (uint32_t) chunk_of(tokens), 1 },
                               2, STRIP };
    cudaLaunchConfig_t   config = {};
    cudaLaunchAttribute  attr[2];

    kernel = kernel_of(plan->tokens, plan->depth, groups);

    if (kernel == NULL
        || !map_operand(&p.x, shape->x, m, shape->k, tokens / plan->share_x,
                        plan->share_x > 1 ? 1 : plan->depth)
        || hymt_tensor_map(&p.y, &y) != 0)
    {
        return cudaErrorInvalidValue;
    }

    p.w = *(const CUtensorMap *) w_map;
    p.m = m;
    p.n = shape->n;
    p.k = shape->k;
    p.rows = plan->rows;
    p.stages = stages_of(plan);
    p.share_x = plan->share_x;
    p.share_w = plan->share_w;
    p.turns_x = (tiles_m + plan->share_w - 1) / plan->share_w;
    p.turns = (tiles_n + plan->share_x - 1) / plan->share_x * p.turns_x;
    p.silu = silu;

    clusters = p.turns < most_clusters[share] ? p.turns : most_clusters[share];

    config.gridDim = dim3(clusters * share);
    config.blockDim = dim3(groups * 128 + 128);
    config.dynamicSmemBytes = HEAD
                              + p.stages * (plan->rows + tokens)
                                * plan->depth * 128
                              + groups * places_of(tokens)
                                * chunk_of(tokens) * 128;
    config.stream = stream;
    config.attrs = attr;

    if (share > 1) {
        attr[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
        attr[config.numAttrs].val.clusterDim.x = share;
        attr[config.numAttrs].val.clusterDim.y = 1;
        attr[config.numAttrs].val.clusterDim.z = 1;
        config.numAttrs++;
    }

    if (dev->pdl) {
        attr[config.numAttrs].id =
            cudaLaunchAttributeProgrammaticStreamSerialization;
        attr[config.numAttrs].val.programmaticStreamSerializationAllowed = 1;
        config.numAttrs++;
    }

    return cudaLaunchKernelEx(&config, kernel, p);
}
