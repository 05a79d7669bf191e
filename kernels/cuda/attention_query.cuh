/*
 * attention_query.cuh - q of prompt rows, out of the product in front: position
 * and QK-norm as everywhere (rope.cuh), then to shared memory as the matrix
 * instructions want it (attention_tile.cuh).
 *
 * A block reads its q once, so what is done to it here is done once, and no
 * kernel has to write it.
 */

#ifndef HYMT_CUDA_ATTENTION_QUERY_CUH
#define HYMT_CUDA_ATTENTION_QUERY_CUH

#include "attention_tile.cuh"
#include "rope.cuh"


/* Rows of q that a thread has a part of: every other one of its warp's 16. */
#define HYMT_ATTN_QUERIES  8


/* What they are turned and multiplied with: launch constants alone. */
typedef struct {
    hymt_head_t  turn[HYMT_ATTN_QUERIES];
    hymt_head_t  weight;
} hymt_attn_query_t;


/*
 * The first of the thread's rows.  Row r of the block is position r / GROUP and
 * head r % GROUP; of n_rows positions, those beyond are like the last, and go
 * nowhere.
 */
__device__ __forceinline__ uint32_t
hymt_attn_query_row(void)
{
    return threadIdx.x / 32 * 16 + threadIdx.x % 32 / HYMT_ROPE_LANES;
}


/* pos: of the block's first row. */
template<int GROUP>
__device__ __forceinline__ void
hymt_attn_query_begin(hymt_attn_query_t &y, const hymt_rope_t &rope,
    uint32_t pos, uint32_t n_rows)
{
#pragma unroll
    for (int i = 0; i < HYMT_ATTN_QUERIES; i++) {
        y.turn[i] = hymt_head_turn(rope,
                                   pos + min((hymt_attn_query_row() + 2 * i)
                                             / GROUP, n_rows - 1));
    }

    y.weight = y.turn[0];

    if (rope.q_norm != NULL) {
        y.weight = hymt_head_weight(rope.q_norm);
    }
}


/*
 * from: the first head of the block's first position in qkv, positions ld
 * apart; to: halves q_half apart.  A warp writes the 16 rows that it reads.
 */
template<int GROUP>
__device__ __forceinline__ void
hymt_attn_query(uint8_t *to, uint32_t q_half, const hymt_attn_query_t &y,
    const hymt_rope_t &rope, const hymt_bf16_t *from, size_t ld,
    uint32_t n_rows)
{
    float        sum[HYMT_ATTN_QUERIES], scale;
    uint32_t     row, lane;
    uint8_t     *half;
    hymt_head_t  x[HYMT_ATTN_QUERIES];

#pragma unroll
    for (int i = 0; i < HYMT_ATTN_QUERIES; i++) {
        row = hymt_attn_query_row() + 2 * i;
        x[i] = hymt_head_load(from + ld * min(row / GROUP, n_rows - 1)
                              + row % GROUP * HYMT_HEAD_DIM);
    }

    lane = threadIdx.x % HYMT_ROPE_LANES;

#pragma unroll
    for (int i = 0; i < HYMT_ATTN_QUERIES; i++) {
        hymt_rotate(x[i], y.turn[i]);
        sum[i] = hymt_head_squares(x[i]);
    }

    if (rope.q_norm != NULL) {
        hymt_head_sums(sum);

        /* root and division, which are long, of one row each: of its lane's */

#pragma unroll
        for (int n = 1; n < HYMT_ATTN_QUERIES; n *= 2) {
#pragma unroll
            for (int i = 0; i < HYMT_ATTN_QUERIES; i += 2 * n) {
                sum[i] = lane & n ? sum[i + n] : sum[i];
            }
        }

        scale = hymt_norm_scale(sum[0], 1.0f / HYMT_HEAD_DIM, rope.eps);

#pragma unroll
        for (int i = 0; i < HYMT_ATTN_QUERIES; i++) {
            hymt_head_scale(x[i], __shfl_sync(0xffffffffu, scale, i,
                                              HYMT_ROPE_LANES), y.weight);
        }
    }

#pragma unroll
    for (int i = 0; i < HYMT_ATTN_QUERIES; i++) {
        half = to + hymt_attn_offset(q_half, hymt_attn_query_row() + 2 * i,
                                     lane / 2)
               + lane % 2 * 8;

        *(uint2 *) half = hymt_head_bits(x[i].lo);
        *(uint2 *) (half + q_half) = hymt_head_bits(x[i].hi);
    }

    __syncwarp();
}


#endif /* HYMT_CUDA_ATTENTION_QUERY_CUH */
