/*
 * rope.cu - position and QK-norm of q and k, and k and v to their pages, of
 * prompts' rows; see kernels.h.  Those that decode: attention_decode.cu.
 */

#include "ptx.cuh"
#include "rope.cuh"


#define HYMT_ROPE_THREADS  128
#define HYMT_ROPE_HEADS    (HYMT_ROPE_THREADS / HYMT_ROPE_LANES)


/*
 * A block is 8 heads of a row: q heads where they are wanted, then k, then v.
 * No two threads but those of a head's 16 lanes have to do with each other.
 *
 * Moves 4 * (n_heads + 2 n_kv) * 128 bytes a row, without q 8 * n_kv * 128.
 * Positions, destinations and tables are the host's, copied before the step's
 * first kernel, so they are read while the product before this is still
 * running; after the wait there is one load, one butterfly and one store.
 * H200, 16 and 4 heads: one row 0.87 us of which an empty node is 0.39, 2048
 * rows 8.7 us, 63 % of the read bandwidth.
 */
static __global__ void __launch_bounds__(HYMT_ROPE_THREADS)
k_rope_append_bf16(const __grid_constant__ hymt_rope_args_t a)
{
    bool                rotated;
    size_t              at;
    int32_t             dest;
    uint32_t            head, row, kv;
    hymt_head_t         x, turn, weight;
    hymt_bf16_t        *to;
    const hymt_bf16_t  *from;

    hymt_grid_launch();

    row = blockIdx.y;
    head = blockIdx.x * HYMT_ROPE_HEADS + threadIdx.x / HYMT_ROPE_LANES
           + (a.q == NULL ? a.n_heads : 0);
    dest = (int32_t) __ldcg((const uint32_t *) a.kv_dest + row);

    if (dest < 0) {
        hymt_grid_wait();
        return;
    }

    /* the last block's lanes past the last head go along, writing nothing */

    kv = a.n_heads + 2 * a.n_kv;
    from = a.qkv + ((size_t) row * kv + (head < kv ? head : 0)) * HYMT_HEAD_DIM;
    to = NULL;
    rotated = head < a.n_heads + a.n_kv;

    if (head < a.n_heads) {
        to = a.q + ((size_t) row * a.n_heads + head) * HYMT_HEAD_DIM;

    } else if (head < kv) {
        kv = head - a.n_heads;
        kv = rotated ? kv * 2 : (kv - a.n_kv) * 2 + 1;
        at = (size_t) (dest / HYMT_KV_PAGE) * a.n_kv * 2 + kv;
        to = a.cache + (at * HYMT_KV_PAGE + dest % HYMT_KV_PAGE)
                       * HYMT_HEAD_DIM;
    }

    turn = hymt_head_turn(a.rope, __ldcg(a.pos + row));
    weight = turn;

    if (a.rope.q_norm != NULL) {
        weight = hymt_head_weight(head < a.n_heads ? a.rope.q_norm
                                                   : a.rope.k_norm);
    }

    hymt_grid_wait();

    x = hymt_head_load(from);
    hymt_rope_head(x, a.rope, rotated, turn, weight);

    if (to != NULL) {
        hymt_head_store(to, x);
    }
}


cudaError_t
hymt_cuda_rope_append(const hymt_cuda_t *dev, const hymt_rope_args_t *args,
    cudaStream_t stream)
{
    uint32_t  heads;

    heads = (args->q == NULL ? 0 : args->n_heads) + 2 * args->n_kv;

    return hymt_launch(k_rope_append_bf16,
                       dim3((heads + HYMT_ROPE_HEADS - 1) / HYMT_ROPE_HEADS,
                            args->rows),
                       dim3(HYMT_ROPE_THREADS), 0, stream, dev->pdl, *args);
}
