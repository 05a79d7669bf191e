/*
 * attention_tile.cuh - the arithmetic of attention, shared by the kernels for
 * decode rows and for prompt rows.
 *
 * The positions of a sequence are cut into tiles of 64 from 0.  For 16 query
 * rows a warp computes a tile's
 *
 *     S = Q K^T                    mma m16n8k16, fp32, k16 steps ascending
 *     m_t = c * max S              c = log2(e) / sqrt(128)
 *     P = exp2(c * S - m_t)        one fma, one ex2
 *     l_t = sum P                  fp32, before P is rounded to bf16
 *     acc_t = P V                  as S; 4 steps of 16 positions
 *
 * and tiles are merged one by one in order: hymt_attn_scales() and
 * hymt_attn_merge().  Nothing else in a kernel touches these numbers, so the
 * bits of a row depend on its q, K, V and position alone.
 *
 * In shared memory K, V and Q are rows of 256 bytes, kept as two halves of 64
 * dimensions: 128 bytes a row, the 16-byte chunk c of row r at c ^ (r & 7).
 * Eight rows of one chunk then lie in different banks, which is what ldmatrix
 * reads.
 */

#ifndef HYMT_CUDA_ATTENTION_TILE_CUH
#define HYMT_CUDA_ATTENTION_TILE_CUH

#include "kernels.h"
#include "ptx.cuh"

#include <math_constants.h>


#define HYMT_ATTN_HALF   (HYMT_ATTN_TILE * 128)   /* bytes: 64 rows, 64 dims */
#define HYMT_ATTN_KV     (2 * HYMT_ATTN_HALF)     /* K or V of a tile */
#define HYMT_ATTN_STAGE  (2 * HYMT_ATTN_KV)       /* K and V */
#define HYMT_ATTN_PAGES  (HYMT_ATTN_TILE / HYMT_KV_PAGE)

/* log2(e) / sqrt(HYMT_HEAD_DIM) */
#define HYMT_ATTN_SCALE  0.12751743f


/* Where chunk 0..15 of a row is, in a tile whose halves are `half` apart. */
__device__ __forceinline__ uint32_t
hymt_attn_offset(uint32_t half, uint32_t row, uint32_t chunk)
{
    return (chunk >> 3) * half + row * 128 + (((chunk ^ row) & 7) << 4);
}


__device__ __forceinline__ float
hymt_attn_exp2(float x)
{
    float  y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));

    return y;
}


/* Two floats -> bf16, the first in the low half. */
__device__ __forceinline__ uint32_t
hymt_attn_pack(float lo, float hi)
{
    uint32_t  y;

    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(hi), "f"(lo));

    return y;
}


/*
 * S of MT * 16 rows.  load_q(kk, a) gives the fragments of dimensions 16 kk..;
 * k: shared address of K.
 */
template<int MT, typename Q>
__device__ __forceinline__ void
hymt_attn_scores(float (&s)[MT][8][4], Q load_q, uint32_t k)
{
    uint32_t  lane, row, chunk;

    lane = threadIdx.x & 31;
    row = (lane & 7) + ((lane >> 4) << 3);
    chunk = (lane >> 3) & 1;

#pragma unroll
    for (int mt = 0; mt < MT; mt++) {
#pragma unroll
        for (int nt = 0; nt < 8; nt++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                s[mt][nt][e] = 0.0f;
            }
        }
    }

#pragma unroll
    for (int kk = 0; kk < 8; kk++) {
        uint32_t  a[MT][4];

        load_q(kk, a);

#pragma unroll
        for (int np = 0; np < 4; np++) {
            uint32_t  b[4];

            hymt_ldmatrix_x4(b, k + np * 2048
                             + hymt_attn_offset(HYMT_ATTN_HALF, row,
                                                2 * kk + chunk));

#pragma unroll
            for (int mt = 0; mt < MT; mt++) {
                hymt_mma_16816(s[mt][2 * np], a[mt], b[0], b[1]);
                hymt_mma_16816(s[mt][2 * np + 1], a[mt], b[2], b[3]);
            }
        }
    }
}


/*
 * Maximum, P in place of S and its sum for the lane's rows g and g + 8 of 16;
 * with ROWS 1 for g alone, and P of g + 8 is 0.
 *
 * MASK: positions over pos[i] are left out, first being the tile's; without it
 * the caller knows that there are none.  A row with no position at all has
 * m_t = -inf, P = 0 and l_t = 0.
 */
template<bool MASK, int ROWS>
__device__ __forceinline__ void
hymt_attn_softmax(float (&s)[8][4], float (&m_t)[2], float (&l_t)[2],
    uint32_t first, const uint32_t (&pos)[2])
{
    float     base;
    uint32_t  at;

    at = first + 2 * (threadIdx.x & 3);

#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        m_t[i] = -CUDART_INF_F;

#pragma unroll
        for (int nt = 0; nt < 8; nt++) {
#pragma unroll
            for (int e = 2 * i; e < 2 * i + 2; e++) {
                if (MASK && at + 8 * nt + (e & 1) > pos[i]) {
                    s[nt][e] = -CUDART_INF_F;
                }

                m_t[i] = fmaxf(m_t[i], s[nt][e]);
            }
        }

        m_t[i] = fmaxf(m_t[i], __shfl_xor_sync(0xffffffff, m_t[i], 1));
        m_t[i] = fmaxf(m_t[i], __shfl_xor_sync(0xffffffff, m_t[i], 2));
        m_t[i] = __fmul_rn(m_t[i], HYMT_ATTN_SCALE);

        /* -inf - -inf would be NaN */
        base = MASK && m_t[i] == -CUDART_INF_F ? 0.0f : m_t[i];

        l_t[i] = 0.0f;

#pragma unroll
        for (int nt = 0; nt < 8; nt++) {
#pragma unroll
            for (int e = 2 * i; e < 2 * i + 2; e++) {
                s[nt][e] = hymt_attn_exp2(__fmaf_rn(s[nt][e], HYMT_ATTN_SCALE,
                                                    -base));
                l_t[i] = __fadd_rn(l_t[i], s[nt][e]);
            }
        }

        l_t[i] = __fadd_rn(l_t[i], __shfl_xor_sync(0xffffffff, l_t[i], 1));
        l_t[i] = __fadd_rn(l_t[i], __shfl_xor_sync(0xffffffff, l_t[i], 2));
    }

    if (ROWS == 1) {
#pragma unroll
        for (int nt = 0; nt < 8; nt++) {
            s[nt][2] = 0.0f;
            s[nt][3] = 0.0f;
        }
    }
}


/* P as the first operand of P V: fragments of 16 positions. */
__device__ __forceinline__ void
hymt_attn_round(uint32_t (&p)[4][4], const float (&s)[8][4])
{
#pragma unroll
    for (int ks = 0; ks < 4; ks++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            p[ks][i] = hymt_attn_pack(s[2 * ks + (i >> 1)][2 * (i & 1)],
                                      s[2 * ks + (i >> 1)][2 * (i & 1) + 1]);
        }
    }
}


/*
 * acc_t of MT * 16 rows, ND * 16 dimensions at a time: take(nd, acc_t) gets
 * those from 16 nd on as two n8 fragments; v: shared address of V.
 */
template<int MT, int ND, typename T>
__device__ __forceinline__ void
hymt_attn_values(const uint32_t (&p)[MT][4][4], uint32_t v, T take)
{
    uint32_t  lane;

    lane = threadIdx.x & 31;

#pragma unroll
    for (int nd = 0; nd < 8; nd += ND) {
        float  acc[ND][MT][2][4];

#pragma unroll
        for (int i = 0; i < ND * MT * 8; i++) {
            acc[i / (8 * MT)][i / 8 % MT][i / 4 % 2][i % 4] = 0.0f;
        }

#pragma unroll
        for (int ks = 0; ks < 4; ks++) {
#pragma unroll
            for (int j = 0; j < ND; j++) {
                uint32_t  b[4];

                hymt_ldmatrix_x4_trans(b, v + ks * 2048
                                       + hymt_attn_offset(HYMT_ATTN_HALF,
                                                          lane & 15,
                                                          2 * (nd + j)
                                                          + (lane >> 4)));

#pragma unroll
                for (int mt = 0; mt < MT; mt++) {
                    hymt_mma_16816(acc[j][mt][0], p[mt][ks], b[0], b[1]);
                    hymt_mma_16816(acc[j][mt][1], p[mt][ks], b[2], b[3]);
                }
            }
        }

#pragma unroll
        for (int j = 0; j < ND; j++) {
            take(nd + j, acc[j]);
        }
    }
}


/*
 * What a row's state and a tile's result are multiplied with when they are
 * merged: m becomes the common maximum.  The state starts at m = -inf, l = 0,
 * acc = 0.
 *
 * A tile with no position for the row must leave the state as it is, to the
 * bit: with b = -0 its zeros become -0, and x * 1 + -0 is x whatever x is.
 */
__device__ __forceinline__ void
hymt_attn_scales(float &m, float m_t, float &a, float &b)
{
    float  top;

    top = fmaxf(m, m_t);

    a = hymt_attn_exp2(__fsub_rn(m, top));
    b = m_t == -CUDART_INF_F ? -0.0f : hymt_attn_exp2(__fsub_rn(m_t, top));

    m = top;
}


__device__ __forceinline__ float
hymt_attn_merge(float x, float a, float x_t, float b)
{
    return __fmaf_rn(x, a, __fmul_rn(x_t, b));
}


/* One element of the output, before it is rounded; r is 1 / l. */
__device__ __forceinline__ float
hymt_attn_finish(float x, float r)
{
    return __fmul_rn(x, r);
}


/*
 * K or V (kv: 0 or 1) of a tile's pages from..to-1 to shared memory, by THREADS
 * threads of which this is number `thread`: 16 rows of 256 bytes a page; rows
 * at or over `valid` are zeros (never-written cache may hold NaN, and 0 * NaN is
 * NaN).
 */
template<int THREADS>
__device__ __forceinline__ void
hymt_attn_load(uint32_t dst, const hymt_bf16_t *head, size_t page_size,
    const uint32_t (&page)[HYMT_ATTN_PAGES], uint32_t from, uint32_t to,
    uint32_t kv, uint32_t valid, uint32_t thread)
{
    enum { STEP = THREADS / 16,            /* rows a pass */
           PASSES = HYMT_KV_PAGE / STEP };

    uint32_t            row, at;
    const hymt_bf16_t  *src;

    row = thread / 16;
    at = dst + hymt_attn_offset(HYMT_ATTN_HALF, row, thread % 16);
    head += (kv * HYMT_KV_PAGE + row) * HYMT_HEAD_DIM + thread % 16 * 8;

#pragma unroll
    for (int j = 0; j < HYMT_ATTN_PAGES; j++) {
        if (j < from || j >= to) {
            continue;
        }

        src = head + page[j] * page_size;

#pragma unroll
        for (int i = 0; i < PASSES; i++) {
            hymt_cp_async_16_zfill((at ^ ((i * STEP & 7) << 4))
                                   + (j * HYMT_KV_PAGE + i * STEP) * 128,
                                   src + i * STEP * HYMT_HEAD_DIM,
                                   row + j * HYMT_KV_PAGE + i * STEP < valid);
        }
    }
}


/* All its pages. */
template<int THREADS>
__device__ __forceinline__ void
hymt_attn_load(uint32_t dst, const hymt_bf16_t *head, size_t page_size,
    const uint32_t (&page)[HYMT_ATTN_PAGES], uint32_t kv, uint32_t valid,
    uint32_t thread)
{
    hymt_attn_load<THREADS>(dst, head, page_size, page, 0, HYMT_ATTN_PAGES, kv,
                            valid, thread);
}


/*
 * Block ids of a tile's pages.  Pages at or over `end` are never read: theirs
 * is the id of the first.
 */
__device__ __forceinline__ void
hymt_attn_pages(uint32_t (&page)[HYMT_ATTN_PAGES], const uint32_t *table,
    uint32_t tile, uint32_t end)
{
    uint32_t  i;

#pragma unroll
    for (int j = 0; j < HYMT_ATTN_PAGES; j++) {
        i = tile * HYMT_ATTN_PAGES + j;
        page[j] = __ldg(&table[i < end ? i : 0]);
    }
}


#endif /* HYMT_CUDA_ATTENTION_TILE_CUH */
