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


/*
 * What is to be computed of an item, with its first row's place in o; nothing:
 * n_rows is 0.
 */
__device__ __forceinline__ void
hymt_attn_item(hymt_attention_item_t &item, bool compact)
{
    uint32_t  last;

    if (!compact) {
        item.out = item.row;
        return;
    }

    last = item.n_rows - 1;

    item.row += last;
    item.pos += last;
    item.n_rows = item.out != UINT32_MAX;
}


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
 * S of 16 rows.  load_q(kk, a) gives the fragment of dimensions 16 kk..; k:
 * shared address of K.
 */
template<typename Q>
__device__ __forceinline__ void
hymt_attn_scores(float (&s)[8][4], Q load_q, uint32_t k)
{
    uint32_t  lane, row, chunk;

    lane = threadIdx.x & 31;
    row = (lane & 7) + ((lane >> 4) << 3);
    chunk = (lane >> 3) & 1;

#pragma unroll
    for (int nt = 0; nt < 8; nt++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            s[nt][e] = 0.0f;
        }
    }

#pragma unroll
    for (int kk = 0; kk < 8; kk++) {
        uint32_t  a[4];

        load_q(kk, a);

#pragma unroll
        for (int np = 0; np < 4; np++) {
            uint32_t  b[4];

            hymt_ldmatrix_x4(b, k + np * 2048
                             + hymt_attn_offset(HYMT_ATTN_HALF, row,
                                                2 * kk + chunk));

            hymt_mma_16816(s[2 * np], a, b[0], b[1]);
            hymt_mma_16816(s[2 * np + 1], a, b[2], b[3]);
        }
    }
}


/*
 * Maximum m_t, P in place of S and the lane's share of its sum, for rows g and
 * g + 8 of 16.
 *
 * MASK: positions over pos[i] are left out, first being the tile's; without it
 * the caller knows that there are none.  A row with no position at all has
 * m_t = -inf and P = 0.
 */
template<bool MASK>
__device__ __forceinline__ void
hymt_attn_softmax(float (&s)[8][4], float (&m_t)[2], float (&share)[2],
    uint32_t first, const uint32_t (&pos)[2])
{
    float     base, sum[4];
    uint32_t  at;

    at = first + 2 * (threadIdx.x & 3);

#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (MASK) {
#pragma unroll
            for (int j = 0; j < 16; j++) {
                if (at + 8 * (j / 2) + j % 2 > pos[i]) {
                    s[j / 2][2 * i + j % 2] = -CUDART_INF_F;
                }
            }
        }

        /* several chains, and both rows before the first shuffle */

#pragma unroll
        for (int j = 0; j < 4; j++) {
            sum[j] = fmaxf(fmaxf(s[j][2 * i], s[j][2 * i + 1]),
                           fmaxf(s[j + 4][2 * i], s[j + 4][2 * i + 1]));
        }

        m_t[i] = fmaxf(fmaxf(sum[0], sum[1]), fmaxf(sum[2], sum[3]));
    }

#pragma unroll
    for (int lanes = 1; lanes < 4; lanes *= 2) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            m_t[i] = fmaxf(m_t[i], __shfl_xor_sync(0xffffffff, m_t[i], lanes));
        }
    }

#pragma unroll
    for (int i = 0; i < 2; i++) {
        m_t[i] = __fmul_rn(m_t[i], HYMT_ATTN_SCALE);

        /* -inf - -inf would be NaN */
        base = MASK && m_t[i] == -CUDART_INF_F ? 0.0f : m_t[i];

#pragma unroll
        for (int j = 0; j < 16; j++) {
            float  &x = s[j / 2][2 * i + j % 2];

            x = hymt_attn_exp2(__fmaf_rn(x, HYMT_ATTN_SCALE, -base));
            sum[j % 4] = j < 4 ? x : __fadd_rn(sum[j % 4], x);
        }

        share[i] = __fadd_rn(__fadd_rn(sum[0], sum[1]),
                             __fadd_rn(sum[2], sum[3]));
    }
}


/* l_t of the lane's rows, from the shares of the four lanes that have them. */
__device__ __forceinline__ void
hymt_attn_sum(float (&l_t)[2], const float (&share)[2])
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        l_t[i] = share[i];
    }

#pragma unroll
    for (int lanes = 1; lanes < 4; lanes *= 2) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            l_t[i] = __fadd_rn(l_t[i],
                               __shfl_xor_sync(0xffffffff, l_t[i], lanes));
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
 * acc_t of 16 rows, ND * 16 dimensions at a time: take(nd, acc_t) gets those
 * from 16 nd on as two n8 fragments; v: shared address of V.
 */
template<int ND, typename T>
__device__ __forceinline__ void
hymt_attn_values(const uint32_t (&p)[4][4], uint32_t v, T take)
{
    uint32_t  lane;

    lane = threadIdx.x & 31;

#pragma unroll
    for (int nd = 0; nd < 8; nd += ND) {
        float  acc[ND][2][4];

#pragma unroll
        for (int i = 0; i < ND * 8; i++) {
            acc[i / 8][i / 4 % 2][i % 4] = 0.0f;
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

                hymt_mma_16816(acc[j][0], p[ks], b[0], b[1]);
                hymt_mma_16816(acc[j][1], p[ks], b[2], b[3]);
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


/*
 * The softmax of a tile, P in place of S, and what merging it takes: a and b of
 * each row; m is brought forward, l by hymt_attn_forward(), which may wait.
 */
__device__ __forceinline__ void
hymt_attn_tile(float (&s)[8][4], float (&share)[2], float (&m)[2],
    float (&a)[2], float (&b)[2], uint32_t tile, bool masked,
    const uint32_t (&pos)[2])
{
    float  m_t[2];

    if (masked) {
        hymt_attn_softmax<true>(s, m_t, share, tile * HYMT_ATTN_TILE, pos);
    } else {
        hymt_attn_softmax<false>(s, m_t, share, tile * HYMT_ATTN_TILE, pos);
    }

#pragma unroll
    for (int i = 0; i < 2; i++) {
        hymt_attn_scales(m[i], m_t[i], a[i], b[i]);
    }
}


__device__ __forceinline__ void
hymt_attn_forward(float (&l)[2], const float (&share)[2], const float (&a)[2],
    const float (&b)[2])
{
    float  l_t[2];

    hymt_attn_sum(l_t, share);

#pragma unroll
    for (int i = 0; i < 2; i++) {
        l[i] = hymt_attn_merge(l[i], a[i], l_t[i], b[i]);
    }
}


/* One element of the output, before it is rounded; r is 1 / l. */
__device__ __forceinline__ float
hymt_attn_finish(float x, float r)
{
    return __fmul_rn(x, r);
}


/*
 * Writes a warp's 16 rows of the output, through its own rows of Q's place in
 * shared memory (halves q_half apart), for whole 16-byte chunks.  Row r of the
 * block is position r / GROUP, of which there are n_rows, and head r % GROUP;
 * o: of the block's first row, positions ld apart.
 */
template<int GROUP>
__device__ __forceinline__ void
hymt_attn_store(uint8_t *smem, uint32_t q_half, const float (&acc)[16][4],
    const float (&l)[2], hymt_bf16_t *o, size_t ld, uint32_t n_rows)
{
    float     r;
    uint32_t  lane, warp, row, chunk;

    lane = threadIdx.x & 31;
    warp = threadIdx.x / 32;

#pragma unroll
    for (int i = 0; i < 2; i++) {
        r = __frcp_rn(l[i]);
        row = warp * 16 + i * 8 + lane / 4;

#pragma unroll
        for (int nt = 0; nt < 16; nt++) {
            *(uint32_t *) (smem + hymt_attn_offset(q_half, row, nt)
                           + (lane & 3) * 4)
                = hymt_attn_pack(hymt_attn_finish(acc[nt][2 * i], r),
                                 hymt_attn_finish(acc[nt][2 * i + 1], r));
        }
    }

    __syncwarp();

#pragma unroll
    for (int i = 0; i < 8; i++) {
        row = warp * 16 + 2 * i + lane / 16;
        chunk = lane % 16;

        if (row / GROUP < n_rows) {
            *(uint4 *) (o + ld * (row / GROUP) + row % GROUP * HYMT_HEAD_DIM
                        + chunk * 8)
                = *(uint4 *) (smem + hymt_attn_offset(q_half, row, chunk));
        }
    }
}


/*
 * One page of K or V (src, 4 KB) to its 16 rows of a tile, by one warp.  Rows
 * at or over `valid`, counted from the page's first, are zeros: never-written
 * cache may hold NaN, and 0 * NaN is NaN.  SKIP: row valid - 1 is left out.
 * HALF: bytes between the halves of what is loaded.
 */
template<bool SKIP, int HALF = HYMT_ATTN_HALF>
__device__ __forceinline__ void
hymt_attn_load_page(uint32_t dst, const hymt_bf16_t *src, uint32_t page,
    int32_t valid)
{
    int32_t   row;
    uint32_t  lane, at;

    lane = threadIdx.x & 31;
    row = lane / 16;
    src += lane * 8;
    at = dst + page * HYMT_KV_PAGE * 128
         + hymt_attn_offset(HALF, row, lane % 16);

#pragma unroll
    for (int i = 0; i < HYMT_KV_PAGE / 2; i++) {
        if (SKIP && row + 2 * i == valid - 1) {
            continue;
        }

        hymt_cp_async_16_zfill((at ^ ((2 * i & 7) << 4)) + 2 * i * 128,
                               src + 2 * i * HYMT_HEAD_DIM,
                               row + 2 * i < valid);
    }
}


#endif /* HYMT_CUDA_ATTENTION_TILE_CUH */
