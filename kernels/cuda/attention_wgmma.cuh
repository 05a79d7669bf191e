/*
 * attention_wgmma.cuh - Hopper's warpgroup matrix instruction, for the two
 * products of attention.
 *
 * Of warp w of the group, with g = lane / 4 and t = lane % 4, element i of
 * fragment j is row 16 w + g + 8 (i / 2), column 8 j + 2 t + i % 2: each warp
 * has what mma m16n8k16 gives it for 16 rows, so hymt_attn_softmax() serves
 * both.  The sums have the same bits too: k16 steps in the same order.
 *
 * sm_90a only.
 */

#ifndef HYMT_CUDA_ATTENTION_WGMMA_CUH
#define HYMT_CUDA_ATTENTION_WGMMA_CUH

#include "attention_tile.cuh"
#include "wgmma.cuh"


/*
 * Rows of 64 elements, 128 bytes each, swizzled by 128 bytes in groups of eight
 * rows, groups 1024 bytes apart: bits 0..13 the address / 16, 16..29 the
 * distance of the halves / 16 (read for V alone, whose columns are both
 * halves), 32..45 that of groups / 16, 62..63 the swizzle.
 */
__device__ __forceinline__ uint64_t
hymt_attn_wgmma_desc(uint32_t addr)
{
    return (uint64_t) ((addr & 0x3ffff) >> 4)
           | (uint64_t) (HYMT_ATTN_HALF / 16) << 16 | 64ull << 32 | 1ull << 62;
}


/* s = q k, or s += q k: 64 rows of q in shared memory, 64 positions. */
template<int ADD>
__device__ __forceinline__ void
hymt_attn_wgmma_scores(float (&d)[8][4], uint64_t q, uint64_t k)
{
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "setp.ne.b32 p, %34, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12,"
                 " %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23,"
                 " %24, %25, %26, %27, %28, %29, %30, %31},"
                 " %32, %33, p, 1, 1, 0, 0;\n\t}"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]),
                   "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]),
                   "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
                   "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]),
                   "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]),
                   "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
                   "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]),
                   "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3])
                 : "l"(q), "l"(k), "n"(ADD));
}


/* The same with q in registers, as p below. */
template<int ADD>
__device__ __forceinline__ void
hymt_attn_wgmma_scores(float (&d)[8][4], const uint32_t (&q)[4], uint64_t k)
{
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "setp.ne.b32 p, %37, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12,"
                 " %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23,"
                 " %24, %25, %26, %27, %28, %29, %30, %31},"
                 " {%32, %33, %34, %35}, %36, p, 1, 1, 0;\n\t}"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]),
                   "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]),
                   "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
                   "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]),
                   "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]),
                   "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
                   "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]),
                   "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3])
                 : "r"(q[0]), "r"(q[1]), "r"(q[2]), "r"(q[3]), "l"(k),
                   "n"(ADD));
}


/* The same for p v: p in registers, v with its positions as rows. */
template<int ADD>
__device__ __forceinline__ void
hymt_attn_wgmma_values(float (&d)[16][4], const uint32_t (&p)[4], uint64_t v)
{
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "setp.ne.b32 p, %69, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12,"
                 " %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23,"
                 " %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34,"
                 " %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45,"
                 " %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56,"
                 " %57, %58, %59, %60, %61, %62, %63},"
                 " {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n\t}"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]),
                   "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]),
                   "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
                   "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]),
                   "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]),
                   "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
                   "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]),
                   "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]),
                   "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]),
                   "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]),
                   "+f"(d[10][0]), "+f"(d[10][1]), "+f"(d[10][2]),
                   "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]),
                   "+f"(d[11][2]), "+f"(d[11][3]), "+f"(d[12][0]),
                   "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]),
                   "+f"(d[13][0]), "+f"(d[13][1]), "+f"(d[13][2]),
                   "+f"(d[13][3]), "+f"(d[14][0]), "+f"(d[14][1]),
                   "+f"(d[14][2]), "+f"(d[14][3]), "+f"(d[15][0]),
                   "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3])
                 : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v),
                   "n"(ADD));
}


/* One arrival for the warp: its copies that it has waited for are there, for
   matrix instructions too. */
__device__ __forceinline__ void
hymt_attn_ready(uint32_t bar)
{
    hymt_fence_async();
    __syncwarp();

    if ((threadIdx.x & 31) == 0) {
        hymt_mbar_arrive(bar);
    }
}


#endif /* HYMT_CUDA_ATTENTION_WGMMA_CUH */
