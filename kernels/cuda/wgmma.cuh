/*
 * wgmma.cuh - what all users of Hopper's warpgroup matrix instruction need: its
 * order among other instructions, registers that pass from one warpgroup to
 * another, a barrier of one.
 *
 * sm_90a only.
 */

#ifndef HYMT_CUDA_WGMMA_CUH
#define HYMT_CUDA_WGMMA_CUH

#include <stdint.h>


/* Registers and shared memory as written so far are seen by what follows. */
__device__ __forceinline__ void
hymt_wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}


__device__ __forceinline__ void
hymt_wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}


/* At most N groups of this warpgroup are still running. */
template<int N>
__device__ __forceinline__ void
hymt_wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}


/* Keeps the compiler from moving uses of the sums over this point. */
template<int N>
__device__ __forceinline__ void
hymt_wgmma_pin(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        asm volatile("" : "+f"(d[i]) :: "memory");
    }
}


template<int N, int M>
__device__ __forceinline__ void
hymt_wgmma_pin(float (&d)[N][M])
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        hymt_wgmma_pin(d[i]);
    }
}


/* Registers a thread has from here on: all threads of a warpgroup. */
template<int N>
__device__ __forceinline__ void
hymt_registers_fewer(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N));
}


template<int N>
__device__ __forceinline__ void
hymt_registers_more(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N));
}


/* Of the 128 threads of a warpgroup; barrier 0 is the block's. */
__device__ __forceinline__ void
hymt_group_sync(uint32_t group)
{
    asm volatile("bar.sync %0, 128;" :: "r"(group + 1) : "memory");
}


#endif /* HYMT_CUDA_WGMMA_CUH */
