/*
 * ptx.cuh - the instructions CUDA C++ has no name for, one inline function
 * each, and the host's launch with programmatic dependent launch.
 *
 * What Hopper alone has (mbarrier, bulk tensor copies, clusters) is declared
 * for sm_90 and later only; griddepcontrol is a no-op before it, so kernels
 * call it without asking.
 */

#ifndef HYMT_CUDA_PTX_CUH
#define HYMT_CUDA_PTX_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>


/* ---- programmatic dependent launch ---- */

/* All earlier kernels of the stream are done and their writes are visible. */
__device__ __forceinline__ void
hymt_grid_wait(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}


/* The next kernel may start once every block has said so (or has ended). */
__device__ __forceinline__ void
hymt_grid_launch(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}


/* ---- shared memory ---- */

__device__ __forceinline__ uint32_t
hymt_smem_addr(const void *p)
{
    return (uint32_t) __cvta_generic_to_shared(p);
}


/* Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8
   of matrix l / 8. */
__device__ __forceinline__ void
hymt_ldmatrix_x4(uint32_t (&r)[4], uint32_t addr)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16"
                 " {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(addr) : "memory");
}


__device__ __forceinline__ void
hymt_ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t addr)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"
                 " {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(addr) : "memory");
}


/* An 8x8 matrix of 16-bit elements, two a lane as of ldmatrix, transposed. */
__device__ __forceinline__ uint32_t
hymt_transpose(uint32_t x)
{
    uint32_t  y;

    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
                 : "=r"(y) : "r"(x));

    return y;
}


/* 16 bytes from global to shared memory, past L1. */
__device__ __forceinline__ void
hymt_cp_async_16(uint32_t dst, const void *src)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"(dst), "l"(src) : "memory");
}


/* The same, or 16 bytes of zeros; src must be a valid address either way. */
__device__ __forceinline__ void
hymt_cp_async_16_zfill(uint32_t dst, const void *src, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(dst), "l"(src), "r"(valid ? 16 : 0) : "memory");
}


__device__ __forceinline__ void
hymt_cp_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}


/* At most N of this thread's groups are still in flight. */
template<int N>
__device__ __forceinline__ void
hymt_cp_async_wait(void)
{
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}


/* ---- matrix units ---- */

/*
 * c += a * b, bf16 in, fp32 sum: a 16x16, b 16x8, c 16x8.  With g = lane / 4
 * and t = lane % 4:
 *   a[0] (g, 2t..)  a[1] (g + 8, 2t..)  a[2] (g, 2t + 8..)  a[3] (g + 8, ..)
 *   b[0] (2t.., g)  b[1] (2t + 8.., g)
 *   c[0], c[1] (g, 2t..)                c[2], c[3] (g + 8, 2t..)
 */
__device__ __forceinline__ void
hymt_mma_16816(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9},"
                 " {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
                   "r"(b0), "r"(b1));
}


/* ---- Hopper: mbarrier, bulk tensor copies, clusters ---- */

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ void
hymt_mbar_init(uint32_t bar, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :: "r"(bar), "r"(count) : "memory");
}


/* Makes initialised barriers visible to the copy engine and the cluster. */
__device__ __forceinline__ void
hymt_mbar_init_fence(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}


/* One arrival, and `bytes` more that copies will bring in this phase. */
__device__ __forceinline__ void
hymt_mbar_expect(uint32_t bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(bar), "r"(bytes) : "memory");
}


__device__ __forceinline__ void
hymt_mbar_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 :: "r"(bar) : "memory");
}


/*
 * The barrier at the same offset in block `rank` of the cluster.  It says that
 * something was read, and releases no writes: those would need a fence.
 */
__device__ __forceinline__ void
hymt_mbar_arrive_at(uint32_t bar, uint32_t rank)
{
    asm volatile("{\n\t.reg .b32 remote;\n\t"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n\t"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote];\n\t}"
                 :: "r"(bar), "r"(rank) : "memory");
}


/* A place of a ring is free: lanes tell each block that may fill it. */
__device__ __forceinline__ void
hymt_mbar_release(uint32_t bar, uint32_t rank, bool does, bool cluster)
{
    if (does) {
        if (cluster) {
            hymt_mbar_arrive_at(bar, rank);

        } else {
            hymt_mbar_arrive(bar);
        }
    }
}


/* Waits for the end of the phase of this parity. */
__device__ __forceinline__ void
hymt_mbar_wait(uint32_t bar, uint32_t parity)
{
    asm volatile("{\n\t.reg .pred done;\n\t"
                 "again:\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64"
                 " done, [%0], %1;\n\t"
                 "@!done bra again;\n\t}"
                 :: "r"(bar), "r"(parity) : "memory");
}


/* L2 policies of a copy, as createpolicy makes them for a fraction of 1. */
#define HYMT_L2_EVICT_NORMAL  0x1000000000000000ull
#define HYMT_L2_EVICT_FIRST   0x12f0000000000000ull


/* A box of a tensor map to shared memory; its bytes count at the barrier. */
__device__ __forceinline__ void
hymt_tma_load_3d(uint32_t dst, const void *map, uint32_t bar, uint32_t c0,
    uint32_t c1, uint32_t c2, uint64_t policy)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global"
                 ".mbarrier::complete_tx::bytes.L2::cache_hint"
                 " [%0], [%1, {%3, %4, %5}], [%2], %6;"
                 :: "r"(dst), "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2),
                    "l"(policy) : "memory");
}


/* The same to the same place in each block of the cluster named in `mask`. */
__device__ __forceinline__ void
hymt_tma_multicast_3d(uint32_t dst, const void *map, uint32_t bar, uint32_t c0,
    uint32_t c1, uint32_t c2, uint16_t mask, uint64_t policy)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global"
                 ".mbarrier::complete_tx::bytes.multicast::cluster"
                 ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6, %7;"
                 :: "r"(dst), "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2),
                    "h"(mask), "l"(policy) : "memory");
}


/*
 * 8x8 matrices of 16-bit elements to shared memory, transposed: with
 * g = lane / 4 and t = lane % 4, a thread's two elements are row g, columns 2t
 * and 2t + 1, and go to the rows 2t and 2t + 1.  Lane l gives the address of
 * row l % 8 of matrix l / 8.
 */
__device__ __forceinline__ void
hymt_stmatrix_x2_trans(uint32_t addr, uint32_t r0, uint32_t r1)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16"
                 " [%0], {%1, %2};" :: "r"(addr), "r"(r0), "r"(r1) : "memory");
}


__device__ __forceinline__ void
hymt_stmatrix_x4_trans(uint32_t addr, uint32_t r0, uint32_t r1, uint32_t r2,
    uint32_t r3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16"
                 " [%0], {%1, %2, %3, %4};"
                 :: "r"(addr), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");
}


/*
 * A box of shared memory to a tensor map; what lies outside the tensor is left
 * out.  Writes come first by hymt_fence_async().  Copies are counted in groups.
 */
__device__ __forceinline__ void
hymt_tma_store_2d(const void *map, uint32_t src, uint32_t c0, uint32_t c1)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
                 " [%0, {%2, %3}], [%1];"
                 :: "l"(map), "r"(src), "r"(c0), "r"(c1) : "memory");
}


__device__ __forceinline__ void
hymt_bulk_commit(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}


/* At most N of this thread's groups still read shared memory. */
template<int N>
__device__ __forceinline__ void
hymt_bulk_wait_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(N) : "memory");
}


/* All that this thread's groups write is written. */
__device__ __forceinline__ void
hymt_bulk_wait(void)
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}


__device__ __forceinline__ void
hymt_tma_prefetch_map(const void *map)
{
    asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}


/* Ordinary stores to shared memory, and cp.async's that were waited for, are
   seen by wgmma and bulk copies that follow. */
__device__ __forceinline__ void
hymt_fence_async(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}


/* Of all threads of the cluster; what they wrote before is visible after. */
__device__ __forceinline__ void
hymt_cluster_sync(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
}


/* The same without making writes visible, which takes a fence of the device. */
__device__ __forceinline__ void
hymt_cluster_meet(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n\t"
                 "barrier.cluster.wait.aligned;" ::: "memory");
}

#endif


/* ---- host ---- */

/*
 * Launches a kernel whose arguments are exactly `args`.  With `pdl` it may
 * start before the kernel in front of it has ended: see hymt_grid_wait().
 */
template<typename... P, typename... A>
static inline cudaError_t
hymt_launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t smem,
    cudaStream_t stream, bool pdl, A... args)
{
    cudaLaunchConfig_t   config = {};
    cudaLaunchAttribute  attr[1];

    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = smem;
    config.stream = stream;
    config.attrs = attr;
    config.numAttrs = pdl ? 1 : 0;

    attr[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attr[0].val.programmaticStreamSerializationAllowed = 1;

    return cudaLaunchKernelEx(&config, kernel, (P) args...);
}


#endif /* HYMT_CUDA_PTX_CUH */
