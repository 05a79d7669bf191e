/*
 * gemm_wgmma.cuh - Hopper's warpgroup matrix instruction, for the shapes the
 * GEMM uses: a 64 x 16 (weights), b 16 x T (tokens), both bf16 in shared memory
 * with k contiguous and swizzled by 128 bytes, sums fp32 in registers.
 *
 * Of warp w of the group, with g = lane / 4 and t = lane % 4, sum 4 j + i is
 *   row 16 w + g + 8 (i / 2), column 8 j + 2 t + i % 2.
 *
 * sm_90a only.
 */

#ifndef HYMT_CUDA_GEMM_WGMMA_CUH
#define HYMT_CUDA_GEMM_WGMMA_CUH

#include <stdint.h>


/*
 * A matrix of rows of 64 elements, 128 bytes each, in groups of eight rows:
 * bits 0..13 its address / 16, 32..45 the stride of groups / 16, 62..63 the
 * swizzle.  The address of row 0 is a multiple of 1024.  Only the lower half
 * varies, and it can be added to: 16 columns are 2, a byte is 1 / 16.
 */
__device__ __forceinline__ uint32_t
hymt_wgmma_lo(uint32_t addr)
{
    return addr / 16 + 0x10000;
}


__device__ __forceinline__ uint64_t
hymt_wgmma_desc(uint32_t lo)
{
    uint64_t  desc;

    asm("mov.b64 %0, {%1, %2};" : "=l"(desc) : "r"(lo), "r"(0x40000040));

    return desc;
}


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


/* d += a * b, or d = a * b where `add` is 0. */


__device__ __forceinline__ void
hymt_wgmma(float (&d)[4], uint64_t a, uint64_t b, uint32_t add)
{
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "setp.ne.b32 p, %6, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
                 " {%0, %1, %2, %3},"
                 " %4, %5, p, 1, 1, 0, 0;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "l"(a), "l"(b), "r"(add));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[8], uint64_t a, uint64_t b, uint32_t add)
{
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "setp.ne.b32 p, %10, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16"
                 " {%0, %1, %2, %3, %4, %5, %6, %7},"
                 " %8, %9, p, 1, 1, 0, 0;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),
                   "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                 : "l"(a), "l"(b), "r"(add));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[16], uint64_t a, uint64_t b, uint32_t add)
{
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "setp.ne.b32 p, %18, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16"
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11,"
                 " %12, %13, %14, %15},"
                 " %16, %17, p, 1, 1, 0, 0;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),
                   "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
                   "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
                   "+f"(d[14]), "+f"(d[15])
                 : "l"(a), "l"(b), "r"(add));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[32], uint64_t a, uint64_t b, uint32_t add)
{
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "setp.ne.b32 p, %34, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11,"
                 " %12, %13, %14, %15, %16, %17, %18, %19, %20, %21,"
                 " %22, %23, %24, %25, %26, %27, %28, %29, %30, %31},"
                 " %32, %33, p, 1, 1, 0, 0;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),
                   "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
                   "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
                   "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
                   "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),
                   "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31])
                 : "l"(a), "l"(b), "r"(add));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[64], uint64_t a, uint64_t b, uint32_t add)
{
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "setp.ne.b32 p, %66, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11,"
                 " %12, %13, %14, %15, %16, %17, %18, %19, %20, %21,"
                 " %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
                 " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41,"
                 " %42, %43, %44, %45, %46, %47, %48, %49, %50, %51,"
                 " %52, %53, %54, %55, %56, %57, %58, %59, %60, %61,"
                 " %62, %63},"
                 " %64, %65, p, 1, 1, 0, 0;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),
                   "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
                   "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
                   "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
                   "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),
                   "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]),
                   "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]),
                   "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                   "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]),
                   "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),
                   "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
                   "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]),
                   "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]),
                   "+f"(d[62]), "+f"(d[63])
                 : "l"(a), "l"(b), "r"(add));
}


#endif /* HYMT_CUDA_GEMM_WGMMA_CUH */
