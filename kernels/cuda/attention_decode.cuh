/*
 * attention_decode.cuh - what the kernels for decode rows share: the arithmetic
 * of a tile, a row's state, its own position, and the merging of its parts.
 *
 * A row has at most 8 heads for a kv head, so K and V are the first operand of
 * the matrix instructions, whose 16 rows are positions or dimensions, and the
 * heads are the 8 columns: half the instructions of attention_tile.cuh's way.
 * Products and sums are the same, in the same order, and so are the bits.
 *
 * With g = lane / 4 and t = lane % 4 a lane has the positions g of every 8, and
 * heads 2t and 2t + 1 of the group; those over it are zeros that nobody reads.
 */

#ifndef HYMT_CUDA_ATTENTION_DECODE_CUH
#define HYMT_CUDA_ATTENTION_DECODE_CUH

#include "attention_tile.cuh"
#include "rope.cuh"


/* Elements of a q head in shared memory, where rows must not begin in the same
   bank. */
#define HYMT_ATTN_Q             (HYMT_HEAD_DIM + 8)

/* Floats of a row of a tile's result: acc, m, l; and in shared memory, where
   rows must not begin in the same bank. */
#define HYMT_ATTN_PARTIAL       (HYMT_HEAD_DIM + 2)
#define HYMT_ATTN_PARTIAL_SMEM  (HYMT_HEAD_DIM + 8)

/* Elements from K to V of a page. */
#define HYMT_ATTN_V             (HYMT_KV_PAGE * HYMT_HEAD_DIM)


/* q of all heads of the group as the second operand, zeros over them. */
template<int GROUP>
__device__ __forceinline__ void
hymt_attn_row_q(uint32_t (&to)[8][2],
    const hymt_bf16_t (&q)[GROUP][HYMT_ATTN_Q])
{
    uint32_t  g, t;

    g = (threadIdx.x & 31) / 4;
    t = threadIdx.x & 3;

#pragma unroll
    for (int i = 0; i < 16; i++) {
        to[i / 2][i % 2] = g < GROUP
                           ? *(const uint32_t *) &q[g][8 * i + 2 * t] : 0;
    }
}


/*
 * S of 16 N positions of the tile, from 16 FIRST on: s[n][2 i + j] is position
 * 16 n + 8 i + g, head 2t + j.  q: second operand, of dimensions 16 kk..; k:
 * shared address of these rows of K, whose halves are HALF apart.
 */
template<int FIRST, int N, int HALF>
__device__ __forceinline__ void
hymt_attn_row_scores(float (&s)[4][4], const uint32_t (&q)[8][2], uint32_t k)
{
    uint32_t  lane;

    lane = threadIdx.x & 31;

#pragma unroll
    for (int i = 4 * FIRST; i < 4 * (FIRST + N); i++) {
        s[i / 4][i % 4] = 0.0f;
    }

#pragma unroll
    for (int kk = 0; kk < 8; kk++) {
#pragma unroll
        for (int n = FIRST; n < FIRST + N; n++) {
            uint32_t  a[4];

            hymt_ldmatrix_x4(a, k + (n - FIRST) * 2048
                             + hymt_attn_offset(HALF, lane & 15,
                                                2 * kk + (lane >> 4)));

            hymt_mma_16816(s[n], a, q[kk][0], q[kk][1]);
        }
    }
}


/*
 * hymt_attn_softmax() of a decode row, with the sum of P: that is the same tree
 * of positions there and here.
 */
__device__ __forceinline__ void
hymt_attn_row_softmax(float (&s)[4][4], float (&m_t)[2], float (&l_t)[2],
    uint32_t first, uint32_t pos)
{
    float     base, sum[2][2];
    uint32_t  at;

    at = first + (threadIdx.x & 31) / 4;

#pragma unroll
    for (int j = 0; j < 2; j++) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (at + 8 * i > pos) {
                s[i / 2][i % 2 * 2 + j] = -CUDART_INF_F;
            }
        }

        m_t[j] = fmaxf(fmaxf(fmaxf(s[0][j], s[0][2 + j]),
                             fmaxf(s[1][j], s[1][2 + j])),
                       fmaxf(fmaxf(s[2][j], s[2][2 + j]),
                             fmaxf(s[3][j], s[3][2 + j])));
    }

#pragma unroll
    for (int lanes = 4; lanes < 32; lanes *= 2) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
            m_t[j] = fmaxf(m_t[j], __shfl_xor_sync(0xffffffff, m_t[j], lanes));
        }
    }

#pragma unroll
    for (int j = 0; j < 2; j++) {
        m_t[j] = __fmul_rn(m_t[j], HYMT_ATTN_SCALE);
        base = m_t[j] == -CUDART_INF_F ? 0.0f : m_t[j];

#pragma unroll
        for (int i = 0; i < 8; i++) {
            float  &x = s[i / 2][i % 2 * 2 + j];

            x = hymt_attn_exp2(__fmaf_rn(x, HYMT_ATTN_SCALE, -base));
            sum[i % 2][j] = i < 2 ? x : __fadd_rn(sum[i % 2][j], x);
        }
    }

    /* positions next to each other, then the two eights of 16, then the rest */

#pragma unroll
    for (int i = 0; i < 4; i++) {
        sum[i / 2][i % 2] = __fadd_rn(sum[i / 2][i % 2],
                                      __shfl_xor_sync(0xffffffff,
                                                      sum[i / 2][i % 2], 4));
    }

#pragma unroll
    for (int j = 0; j < 2; j++) {
        l_t[j] = __fadd_rn(sum[0][j], sum[1][j]);
    }

#pragma unroll
    for (int lanes = 8; lanes < 32; lanes *= 2) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
            l_t[j] = __fadd_rn(l_t[j],
                               __shfl_xor_sync(0xffffffff, l_t[j], lanes));
        }
    }
}


/* P as the second operand of V P: fragments of 16 positions. */
__device__ __forceinline__ void
hymt_attn_row_round(uint32_t (&p)[4][2], const float (&s)[4][4])
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        p[i / 2][i % 2] = hymt_transpose(hymt_attn_pack(s[i / 2][i % 2 * 2],
                                                        s[i / 2][i % 2 * 2
                                                                 + 1]));
    }
}


/*
 * acc_t goes on by the 16 N positions from 16 FIRST on: acc[nd][2 i + j] is
 * dimension 16 nd + 8 i + g, head 2t + j.  v: shared address of these rows of
 * V, whose halves are HALF apart.
 */
template<int FIRST, int N, int HALF>
__device__ __forceinline__ void
hymt_attn_row_values(float (&acc)[8][4], const uint32_t (&p)[4][2], uint32_t v)
{
    uint32_t  lane, row;

    lane = threadIdx.x & 31;
    row = (lane & 7) + ((lane >> 4) << 3);

#pragma unroll
    for (int ks = FIRST; ks < FIRST + N; ks++) {
#pragma unroll
        for (int nd = 0; nd < 8; nd++) {
            uint32_t  a[4];

            hymt_ldmatrix_x4_trans(a, v + (ks - FIRST) * 2048
                                   + hymt_attn_offset(HALF, row,
                                                      2 * nd
                                                      + ((lane >> 3) & 1)));

            hymt_mma_16816(acc[nd], a, p[ks][0], p[ks][1]);
        }
    }
}


/*
 * A tile's result to `to`, rows `width` floats apart, one for each head of the
 * group: acc, m, l.
 */
template<int GROUP>
__device__ __forceinline__ void
hymt_attn_row_result(float *to, uint32_t width, const float (&acc)[8][4],
    const float (&m_t)[2], const float (&l_t)[2])
{
    uint32_t  g, t;

    g = (threadIdx.x & 31) / 4;
    t = threadIdx.x & 3;

#pragma unroll
    for (int j = 0; j < 2; j++) {
        if (2 * t + j >= GROUP) {
            break;
        }

#pragma unroll
        for (int i = 0; i < 16; i++) {
            to[(2 * t + j) * width + 8 * i + g] = acc[i / 2][i % 2 * 2 + j];
        }

        if (g == 0) {
            to[(2 * t + j) * width + HYMT_HEAD_DIM] = m_t[j];
            to[(2 * t + j) * width + HYMT_HEAD_DIM + 1] = l_t[j];
        }
    }
}


/*
 * A thread's share of the output: pairs of dimensions, pair i * THREADS +
 * thread of the group's GROUP * 64.
 */
template<int GROUP, int THREADS>
struct hymt_attn_state_t {
    enum { PAIRS = GROUP * HYMT_HEAD_DIM / 2,
           N = (PAIRS + THREADS - 1) / THREADS };

    float   m[N];
    float   l[N];
    float2  acc[N];


    __device__ __forceinline__ void
    init()
    {
#pragma unroll
        for (int i = 0; i < N; i++) {
            m[i] = -CUDART_INF_F;
            l[i] = 0.0f;
            acc[i] = make_float2(0.0f, 0.0f);
        }
    }


    /* Merges n tiles' results: `stride` floats a tile, `width` a row. */
    template<bool GLOBAL>
    __device__ __forceinline__ void
    merge(const float *src, uint32_t n, uint32_t stride, uint32_t width)
    {
        float         m_t, l_t, a, b;
        float2        x;
        uint32_t      pair;
        const float  *row;

#pragma unroll 4
        for (uint32_t t = 0; t < n; t++) {
#pragma unroll
            for (int i = 0; i < N; i++) {
                pair = i * THREADS + threadIdx.x;

                if (PAIRS % THREADS && pair >= PAIRS) {
                    break;
                }

                row = src + t * (size_t) stride + pair / 64 * width;

                if (GLOBAL) {
                    /* written by other blocks: past L1 */
                    x = __ldcg((const float2 *) row + pair % 64);
                    m_t = __ldcg(row + HYMT_HEAD_DIM);
                    l_t = __ldcg(row + HYMT_HEAD_DIM + 1);

                } else {
                    x = ((const float2 *) row)[pair % 64];
                    m_t = row[HYMT_HEAD_DIM];
                    l_t = row[HYMT_HEAD_DIM + 1];
                }

                hymt_attn_scales(m[i], m_t, a, b);

                l[i] = hymt_attn_merge(l[i], a, l_t, b);
                acc[i].x = hymt_attn_merge(acc[i].x, a, x.x, b);
                acc[i].y = hymt_attn_merge(acc[i].y, a, x.y, b);
            }
        }
    }


    /* o: of the group's first head */
    __device__ __forceinline__ void
    store(hymt_bf16_t *o)
    {
        float     r;
        uint32_t  pair;

#pragma unroll
        for (int i = 0; i < N; i++) {
            pair = i * THREADS + threadIdx.x;

            if (PAIRS % THREADS && pair >= PAIRS) {
                break;
            }

            r = __frcp_rn(l[i]);

            ((uint32_t *) o)[pair] = hymt_attn_pack(
                                         hymt_attn_finish(acc[i].x, r),
                                         hymt_attn_finish(acc[i].y, r));
        }
    }
};


/*
 * Block ids of a tile's pages.  Pages behind the last, `newest`, are never
 * read: theirs is the id of the sequence's first.
 */
__device__ __forceinline__ void
hymt_attn_pages(uint32_t (&page)[HYMT_ATTN_PAGES], const uint32_t *table,
    uint32_t tile, uint32_t newest)
{
    uint32_t  i;

#pragma unroll
    for (int j = 0; j < HYMT_ATTN_PAGES; j++) {
        i = tile * HYMT_ATTN_PAGES + j;
        page[j] = __ldg(&table[i <= newest ? i : 0]);
    }
}


/*
 * The item's own position, by all threads: its q heads to `q`, its k and v to
 * the cache; and to k_row and v_row, their places in a tile in shared memory,
 * where there are such.  prepare() comes before the wait, run() behind it.
 */
template<int GROUP, int THREADS, int HALF>
struct hymt_attn_own_t {
    enum { HEADS = THREADS / HYMT_ROPE_LANES,      /* at once */
           N = (GROUP + 2 + HEADS - 1) / HEADS };

    hymt_head_t  turn, weight[N];


    /* The head that the thread has at turn i: q's, then k, v, and no more. */
    __device__ __forceinline__ uint32_t
    head(int i) const
    {
        return i * HEADS + threadIdx.x / HYMT_ROPE_LANES;
    }


    __device__ __forceinline__ void
    prepare(const hymt_rope_t &rope, uint32_t pos)
    {
        turn = hymt_head_turn(rope, pos);

        if (rope.q_norm == NULL) {
            return;
        }

#pragma unroll
        for (int i = 0; i < N; i++) {
            weight[i] = hymt_head_weight(head(i) < GROUP ? rope.q_norm
                                                         : rope.k_norm);
        }
    }


    /* at: of the position's K in its page, V is HYMT_ATTN_V elements behind */
    __device__ __forceinline__ void
    run(const hymt_attention_args_t &args, uint32_t row, uint32_t kv,
        hymt_bf16_t *q, bool append, hymt_bf16_t *at, uint8_t *k_row,
        uint8_t *v_row, uint32_t in_tile)
    {
        uint32_t            h;
        hymt_head_t         x[N];
        const hymt_bf16_t  *from;

        from = args.qkv + (size_t) row * (args.n_heads + 2 * args.n_kv)
                          * HYMT_HEAD_DIM;

#pragma unroll
        for (int i = 0; i < N; i++) {
            h = head(i) < GROUP ? kv * GROUP + head(i)
                                : args.n_heads + kv
                                  + (head(i) == GROUP ? 0 : args.n_kv);
            x[i] = hymt_head_load(from + h * HYMT_HEAD_DIM);
        }

#pragma unroll
        for (int i = 0; i < N; i++) {
            h = head(i);

            hymt_rope_head(x[i], args.rope, h <= GROUP, turn, weight[i]);

            if (h < GROUP) {
                hymt_head_store(q + h * HYMT_ATTN_Q, x[i]);

            } else if (h < GROUP + 2 && append) {
                store(x[i], h == GROUP ? k_row : v_row, in_tile);
                hymt_head_store(h == GROUP ? at : at + HYMT_ATTN_V, x[i]);
            }
        }
    }


    /* To row `row` of the tile at `tile`; NULL: nowhere. */
    __device__ __forceinline__ void
    store(const hymt_head_t &x, uint8_t *tile, uint32_t row)
    {
        uint32_t  at;

        if (tile != NULL) {
            at = hymt_attn_offset(HALF, row, hymt_head_at() / 8)
                 + hymt_head_at() % 8 * 2;
            *(uint2 *) (tile + at) = hymt_head_bits(x.lo);
            *(uint2 *) (tile + at + HALF) = hymt_head_bits(x.hi);
        }
    }
};


/*
 * The item's tiles are in `partial`: if it is the last part of its row that is
 * done, the block merges them all.
 */
template<int GROUP, int THREADS>
__device__ __forceinline__ void
hymt_attn_parts(const hymt_attention_args_t &args,
    const hymt_attention_item_t &item, uint32_t head)
{
    __shared__ uint32_t  last;

    uint32_t                          *counter;
    hymt_attn_state_t<GROUP, THREADS>  state;

    __syncthreads();

    if (threadIdx.x == 0) {
        counter = args.counters + item.counter * args.n_kv + head;

        __threadfence();

        last = atomicAdd(counter, 1) + 1 == item.n_parts;

        if (last) {
            *counter = 0;
            __threadfence();
        }
    }

    __syncthreads();

    if (!last || item.n_rows == 0) {
        return;
    }

    state.init();
    state.template merge<true>(args.partial
                               + ((size_t) item.partial * args.n_kv + head)
                                 * GROUP * HYMT_ATTN_PARTIAL,
                               item.pos / HYMT_ATTN_TILE + 1,
                               args.n_kv * GROUP * HYMT_ATTN_PARTIAL,
                               HYMT_ATTN_PARTIAL);
    state.store(args.o + (size_t) item.out * args.n_heads * HYMT_HEAD_DIM
                + head * GROUP * HYMT_HEAD_DIM);
}


#endif /* HYMT_CUDA_ATTENTION_DECODE_CUH */
