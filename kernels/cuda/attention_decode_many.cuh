/*
 * attention_decode_many.cuh - the decode kernel for many rows: a warp has an
 * item and a kv head by itself.
 *
 * K and V of 32 positions are a slot of 8 KB; the warp's slots are a ring that
 * it fills three ahead of its arithmetic: K of a tile's first and second half,
 * V of these, the next tile's.  A last tile of no more than half takes no place
 * for its second one: V comes a slot sooner, and zeros that would change no bit
 * are not multiplied.  The warp waits for no other, keeps its state in
 * registers, and with eight of them on a multiprocessor there is always enough
 * on its way to keep the memory busy.
 *
 * H200, share of the read bandwidth: 256 rows at 200 positions 84 % (27.2 us),
 * at 1000 95 % (120 us).
 */

#ifndef HYMT_CUDA_ATTENTION_DECODE_MANY_CUH
#define HYMT_CUDA_ATTENTION_DECODE_MANY_CUH

#include "attention_decode.cuh"


#define HYMT_ATTN_SLOTS      3
#define HYMT_ATTN_SLOT       (HYMT_ATTN_KV / 2)
#define HYMT_ATTN_SLOT_HALF  (HYMT_ATTN_HALF / 2)


/* Part 0, 1: K, 2, 3: V of the first and the second half of a tile. */
template<bool SKIP>
__device__ __forceinline__ void
hymt_attn_load_slot(uint32_t dst, const hymt_bf16_t *head, size_t page_size,
    const uint32_t (&page)[HYMT_ATTN_PAGES], int part, int32_t valid)
{
    head += part / 2 * HYMT_ATTN_V;

#pragma unroll
    for (int i = 0; i < HYMT_ATTN_PAGES / 2; i++) {
        int  j = part % 2 * (HYMT_ATTN_PAGES / 2) + i;

        hymt_attn_load_page<SKIP, HYMT_ATTN_SLOT_HALF>(
            dst, head + page[j] * page_size, i, valid - j * HYMT_KV_PAGE);
    }
}


template<int GROUP>
__global__ void
__launch_bounds__(32, 8)
k_attention_decode_many_bf16(const __grid_constant__ hymt_attention_args_t args)
{
    enum { HALF = HYMT_ATTN_SLOT_HALF };

    extern __shared__ __align__(128) uint8_t  slots[];

    __shared__ __align__(16) hymt_bf16_t  q[GROUP][HYMT_ATTN_Q];

    hymt_attn_own_t<GROUP, 32, HALF>  own;

    float                  m[2], l[2], acc[8][4];
    size_t                 page_size;
    int32_t                valid;
    uint8_t               *k_own, *v_own;
    uint32_t               lane, head, tile, newest, row, slot, first;
    uint32_t               a[8][2], page[HYMT_ATTN_PAGES];
    uint32_t               next[HYMT_ATTN_PAGES];
    hymt_bf16_t           *cache, *at, *o;
    const uint32_t        *table;
    hymt_attention_item_t  item;

    if (!args.mixed) {
        hymt_grid_launch();
    }

    item = args.items[blockIdx.y];
    hymt_attn_item(item, args.compact);

    if (blockIdx.y >= *args.n_items) {
        hymt_grid_wait();
        return;
    }

    lane = threadIdx.x & 31;
    head = blockIdx.x;

    page_size = (size_t) args.n_kv * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    cache = args.cache + head * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    table = args.tables + item.table;
    newest = item.pos / HYMT_KV_PAGE;
    first = hymt_smem_addr(slots);

    /* all but the item's own position, which nobody has written yet */

    tile = item.first_tile;
    valid = item.pos + 1 - tile * HYMT_ATTN_TILE;
    hymt_attn_pages(page, table, tile, newest);

#pragma unroll
    for (int i = 0; i < HYMT_ATTN_SLOTS; i++) {
        if (valid > HYMT_ATTN_TILE / 2) {
            hymt_attn_load_slot<true>(first + i * HYMT_ATTN_SLOT, cache,
                                      page_size, page, i, valid);

        } else if (i < 2) {
            hymt_attn_load_slot<true>(first + i * HYMT_ATTN_SLOT, cache,
                                      page_size, page, 2 * i, valid);
        }

        hymt_cp_async_commit();
    }

    own.prepare(args.rope, item.pos);
    at = cache + __ldg(&table[newest]) * page_size
         + item.pos % HYMT_KV_PAGE * HYMT_HEAD_DIM;

    hymt_grid_wait();

    /* what comes next reads q and the cache without a wait of its own */

    if (args.mixed) {
        hymt_grid_launch();
    }

    /* the slots it belongs to, where they are on their way already */

    row = item.pos % HYMT_ATTN_TILE;
    k_own = NULL;
    v_own = NULL;

    if (valid <= HYMT_ATTN_TILE / 2) {
        k_own = slots;
        v_own = slots + HYMT_ATTN_SLOT;

    } else if (valid <= HYMT_ATTN_TILE) {
        k_own = slots + HYMT_ATTN_SLOT;
    }

    own.run(args, item.row, head, q[0],
            item.end_tile > item.pos / HYMT_ATTN_TILE, at, k_own, v_own,
            row % (HYMT_ATTN_TILE / 2));

    __syncwarp();

    hymt_attn_row_q<GROUP>(a, q);

#pragma unroll
    for (int j = 0; j < 2; j++) {
        m[j] = -CUDART_INF_F;
        l[j] = 0.0f;
    }

#pragma unroll
    for (int i = 0; i < 32; i++) {
        acc[i / 4][i % 4] = 0.0f;
    }

    slot = 0;

    for (tile = item.first_tile; tile < item.end_tile; tile++) {
        float     s[4][4], x[8][4], m_t[2], l_t[2], b[2], c[2];
        uint32_t  p[4][2], here;
        bool      more, whole, next_whole;

        more = tile + 1 < item.end_tile;
        whole = valid > HYMT_ATTN_TILE / 2;
        next_whole = valid > HYMT_ATTN_TILE + HYMT_ATTN_TILE / 2;

        if (more) {
            hymt_attn_pages(next, table, tile + 1, newest);
        }

#pragma unroll
        for (int part = 0; part < 4; part++) {
            if (part % 2 == 0 || whole) {
                here = first + slot * HYMT_ATTN_SLOT;
                slot = slot + 1 < HYMT_ATTN_SLOTS ? slot + 1 : 0;

                hymt_cp_async_wait<HYMT_ATTN_SLOTS - 1>();
                __syncwarp();

                if (part == 0) {
                    hymt_attn_row_scores<0, 2, HALF>(s, a, here);

                } else if (part == 1) {
                    hymt_attn_row_scores<2, 2, HALF>(s, a, here);

                } else if (part == 2) {
#pragma unroll
                    for (int i = 0; i < 32; i++) {
                        x[i / 4][i % 4] = 0.0f;
                    }

                    hymt_attn_row_values<0, 2, HALF>(x, p, here);

                } else {
                    hymt_attn_row_values<2, 2, HALF>(x, p, here);
                }

                __syncwarp();

                /* three slots on */

                if (part == 0) {
                    if (whole) {
                        hymt_attn_load_slot<false>(here, cache, page_size,
                                                   page, 3, valid);
                    }

                } else if (more && (part == 1 || next_whole)) {
                    hymt_attn_load_slot<false>(here, cache, page_size, next,
                                               part - 1,
                                               valid - HYMT_ATTN_TILE);

                } else if (more && part == 2) {
                    hymt_attn_load_slot<false>(here, cache, page_size, next, 2,
                                               valid - HYMT_ATTN_TILE);
                }

                hymt_cp_async_commit();

            } else if (part == 1) {
#pragma unroll
                for (int i = 8; i < 16; i++) {
                    s[i / 4][i % 4] = 0.0f;
                }
            }

            if (part == 1) {
                hymt_attn_row_softmax(s, m_t, l_t, tile * HYMT_ATTN_TILE,
                                      item.pos);
                hymt_attn_row_round(p, s);
            }
        }

        if (item.n_parts > 1) {
            hymt_attn_row_result<GROUP>(
                args.partial + ((size_t) (item.partial + tile) * args.n_kv
                                + head) * GROUP * HYMT_ATTN_PARTIAL,
                HYMT_ATTN_PARTIAL, x, m_t, l_t);

        } else {
#pragma unroll
            for (int j = 0; j < 2; j++) {
                hymt_attn_scales(m[j], m_t[j], b[j], c[j]);
                l[j] = hymt_attn_merge(l[j], b[j], l_t[j], c[j]);
            }

#pragma unroll
            for (int i = 0; i < 32; i++) {
                float  &y = acc[i / 4][i % 4];

                y = hymt_attn_merge(y, b[i % 2], x[i / 4][i % 4], c[i % 2]);
            }
        }

#pragma unroll
        for (int i = 0; i < HYMT_ATTN_PAGES; i++) {
            page[i] = next[i];
        }

        valid -= HYMT_ATTN_TILE;
    }

    if (item.n_parts > 1) {
        hymt_attn_parts<GROUP, 32>(args, item, head);
        return;
    }

    if (item.n_rows == 0) {
        return;
    }

    /* by way of q's place, for whole 16-byte pieces */

#pragma unroll
    for (int j = 0; j < 2; j++) {
        l[j] = __frcp_rn(l[j]);
    }

#pragma unroll
    for (int i = 0; i < 16; i++) {
        float  *y = &acc[i / 2][i % 2 * 2];

        slot = hymt_transpose(hymt_attn_pack(hymt_attn_finish(y[0], l[0]),
                                             hymt_attn_finish(y[1], l[1])));

        if (lane / 4 < GROUP) {
            *(uint32_t *) &q[lane / 4][8 * i + 2 * (lane & 3)] = slot;
        }
    }

    __syncwarp();

    o = args.o + ((size_t) item.out * args.n_heads + head * GROUP)
                 * HYMT_HEAD_DIM;

#pragma unroll
    for (int i = 0; i < (GROUP + 1) / 2; i++) {
        row = 2 * i + lane / 16;

        if (row < GROUP) {
            *(uint4 *) (o + row * HYMT_HEAD_DIM + lane % 16 * 8)
                = *(const uint4 *) &q[row][lane % 16 * 8];
        }
    }
}


template<int GROUP>
static cudaError_t
hymt_attention_decode_many(const hymt_cuda_t *dev,
    const hymt_attention_args_t *args, cudaStream_t stream)
{
    enum { SMEM = HYMT_ATTN_SLOTS * HYMT_ATTN_SLOT };

    cudaError_t  err;

    err = cudaFuncSetAttribute(k_attention_decode_many_bf16<GROUP>,
                               cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared);
    if (err != cudaSuccess) {
        return err;
    }

    hymt_launch(k_attention_decode_many_bf16<GROUP>,
                dim3(args->n_kv, args->grid), dim3(32), SMEM, stream,
                dev->pdl, *args);

    return cudaGetLastError();
}


#endif /* HYMT_CUDA_ATTENTION_DECODE_MANY_CUH */
