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

#include "wgmma.cuh"


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


/*
 * d += a * b, or d = a * b where `add` is 0.  The operands of N tokens are
 * named in eights: registers are "%0" to "%(N / 2 - 1)", then a, b and add.
 */
#define R0    "%0, %1, %2, %3, %4, %5, %6, %7"
#define R1    R0 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define R2    R1 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define R3    R2 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define R4    R3 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define R5    R4 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define R6    R5 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define R7    R6 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define R8    R7 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define R9    R8 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define R10   R9 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define R11   R10 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define R12   R11 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define R13   R12 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define R14   R13 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define R15   R14 ", %120, %121, %122, %123, %124, %125, %126, %127"

#define D4(i)   "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D8(i)   D4(i), D4(i + 4)
#define D16(i)  D8(i), D8(i + 8)
#define D32(i)  D16(i), D16(i + 16)
#define D64(i)  D32(i), D32(i + 32)

#define HYMT_WGMMA(tokens, regs, a_at, b_at, add_at, ...)                     \
    asm volatile("{\n\t.reg .pred p;\n\t"                                    \
                 "setp.ne.b32 p, " add_at ", 0;\n\t"                          \
                 "wgmma.mma_async.sync.aligned.m64n" #tokens                  \
                 "k16.f32.bf16.bf16 {" regs "}, " a_at ", " b_at              \
                 ", p, 1, 1, 0, 0;\n\t}"                                      \
                 : __VA_ARGS__ : "l"(a), "l"(b), "r"(add))


__device__ __forceinline__ void
hymt_wgmma(float (&d)[4], uint64_t a, uint64_t b, uint32_t add)
{
    HYMT_WGMMA(8, "%0, %1, %2, %3", "%4", "%5", "%6", D4(0));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[8], uint64_t a, uint64_t b, uint32_t add)
{
    HYMT_WGMMA(16, R0, "%8", "%9", "%10", D8(0));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[16], uint64_t a, uint64_t b, uint32_t add)
{
    HYMT_WGMMA(32, R1, "%16", "%17", "%18", D16(0));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[24], uint64_t a, uint64_t b, uint32_t add)
{
    HYMT_WGMMA(48, R2, "%24", "%25", "%26", D16(0), D8(16));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[32], uint64_t a, uint64_t b, uint32_t add)
{
    HYMT_WGMMA(64, R3, "%32", "%33", "%34", D32(0));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[40], uint64_t a, uint64_t b, uint32_t add)
{
    HYMT_WGMMA(80, R4, "%40", "%41", "%42", D32(0), D8(32));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[48], uint64_t a, uint64_t b, uint32_t add)
{
    HYMT_WGMMA(96, R5, "%48", "%49", "%50", D32(0), D16(32));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[56], uint64_t a, uint64_t b, uint32_t add)
{
    HYMT_WGMMA(112, R6, "%56", "%57", "%58", D32(0), D16(32), D8(48));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[64], uint64_t a, uint64_t b, uint32_t add)
{
    HYMT_WGMMA(128, R7, "%64", "%65", "%66", D64(0));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[80], uint64_t a, uint64_t b, uint32_t add)
{
    HYMT_WGMMA(160, R9, "%80", "%81", "%82", D64(0), D16(64));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[96], uint64_t a, uint64_t b, uint32_t add)
{
    HYMT_WGMMA(192, R11, "%96", "%97", "%98", D64(0), D32(64));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[112], uint64_t a, uint64_t b, uint32_t add)
{
    HYMT_WGMMA(224, R13, "%112", "%113", "%114", D64(0), D32(64), D16(96));
}


__device__ __forceinline__ void
hymt_wgmma(float (&d)[128], uint64_t a, uint64_t b, uint32_t add)
{
    HYMT_WGMMA(256, R15, "%128", "%129", "%130", D64(0), D64(64));
}


#undef HYMT_WGMMA
#undef D4
#undef D8
#undef D16
#undef D32
#undef D64
#undef R0
#undef R1
#undef R2
#undef R3
#undef R4
#undef R5
#undef R6
#undef R7
#undef R8
#undef R9
#undef R10
#undef R11
#undef R12
#undef R13
#undef R14
#undef R15


#endif /* HYMT_CUDA_GEMM_WGMMA_CUH */
