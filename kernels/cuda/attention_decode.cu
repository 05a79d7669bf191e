/*
 * attention_decode.cu - attention of one row a sequence over its paged cache,
 * with what comes before it: position and norm of q and k, and k and v to the
 * cache.
 *
 * o[row][h] = softmax(q[row][h] K^T / sqrt(128)) V
 *
 * A block has one item (a row, or a part of its positions) and one kv head,
 * whose K and V it reads once for the whole group of query heads: 512 bytes a
 * position, so 256 rows at 200 positions and 4 kv heads are 105 MB.  Each warp
 * takes every WARPS-th tile of 64 positions into its own 32 KB of shared
 * memory: V is on its way while K is used, the next tile's K while V is.  Many
 * rows: attention_decode_many.cuh.
 *
 * Results of tiles go through shared memory and are merged in tile order by all
 * threads.  Parts of a row put them into `partial` instead, and the block that
 * is the last to be done merges them all, in the same order: the number of
 * parts leaves no trace in the bits.
 *
 * What is read before the wait for the kernels in front:
 *   - items, n_items and tables: the host's copy in front of the step writes
 *     them, which makes them launch constants;
 *   - K and V but for the row's own position: a decode item is its sequence's
 *     only row in a step, so all positions before it were written by earlier
 *     steps (also where another sequence wrote them: a shared block is ready
 *     when the step that wrote it is done), and the copy is between.
 * The row's own K and V come from qkv: the block with the row's last tile puts
 * them into the cache, and into the tile where that is on its way already.  So
 * rows are served also where `compact` wants nothing of them.
 */

#include "attention_decode.cuh"
#include "attention_decode_many.cuh"


/*
 * K or V of a tile, at `head` of block 0, by one warp; SKIP: but for row
 * valid - 1, which is hymt_attn_load_row()'s.
 */
template<bool SKIP>
__device__ __forceinline__ void
hymt_attn_load(uint32_t dst, const hymt_bf16_t *head, size_t page_size,
    const uint32_t (&page)[HYMT_ATTN_PAGES], int32_t valid)
{
#pragma unroll
    for (int j = 0; j < HYMT_ATTN_PAGES; j++) {
        hymt_attn_load_page<SKIP>(dst, head + page[j] * page_size, j,
                                  valid - j * HYMT_KV_PAGE);
    }
}


template<int GROUP, int WARPS>
__global__ void
__launch_bounds__(WARPS * 32, 1)
k_attention_decode_bf16(const __grid_constant__ hymt_attention_args_t args)
{
    extern __shared__ __align__(128) uint8_t  stages[];

    __shared__ __align__(16) hymt_bf16_t  q[GROUP][HYMT_ATTN_Q];
    __shared__ float                      results[WARPS][GROUP]
                                                 [HYMT_ATTN_PARTIAL_SMEM];

    hymt_attn_state_t<GROUP, WARPS * 32>  state;
    hymt_attn_own_t<GROUP, WARPS * 32, HYMT_ATTN_HALF>  own;

    float                 *result;
    size_t                 page_size;
    uint8_t               *k_own;
    int32_t                valid;
    uint32_t               warp, head, base, tile, newest, width;
    uint32_t               k, v, page[HYMT_ATTN_PAGES], a[8][2];
    hymt_bf16_t           *cache, *cache_v, *at;
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

    warp = threadIdx.x / 32;
    head = blockIdx.x;

    page_size = (size_t) args.n_kv * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    cache = args.cache + head * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    cache_v = cache + HYMT_ATTN_V;
    table = args.tables + item.table;
    newest = item.pos / HYMT_KV_PAGE;

    k = hymt_smem_addr(stages) + warp * HYMT_ATTN_STAGE;
    v = k + HYMT_ATTN_KV;

    tile = item.first_tile + warp;
    valid = item.pos + 1 - tile * HYMT_ATTN_TILE;

    /* all but the item's own position, which nobody has written yet */

    if (tile < item.end_tile) {
        hymt_attn_pages(page, table, tile, newest);
        hymt_attn_load<true>(k, cache, page_size, page, valid);
    }

    hymt_cp_async_commit();

    if (tile < item.end_tile) {
        hymt_attn_load<true>(v, cache_v, page_size, page, valid);
    }

    hymt_cp_async_commit();

    own.prepare(args.rope, item.pos);
    at = cache + __ldg(&table[newest]) * page_size
         + item.pos % HYMT_KV_PAGE * HYMT_HEAD_DIM;

    /* the warp whose first tile has that position, if it is not a later one */

    base = item.pos / HYMT_ATTN_TILE - item.first_tile;
    k_own = base < WARPS ? stages + base * HYMT_ATTN_STAGE : NULL;

    hymt_grid_wait();

    /* what comes next reads q and the cache without a wait of its own */

    if (args.mixed) {
        hymt_grid_launch();
    }

    own.run(args, item.row, head, q[0],
            item.end_tile > item.pos / HYMT_ATTN_TILE, at, k_own,
            k_own == NULL ? NULL : k_own + HYMT_ATTN_KV,
            item.pos % HYMT_ATTN_TILE);

    __syncthreads();

    hymt_attn_row_q<GROUP>(a, q);

    state.init();

    for (base = item.first_tile; base < item.end_tile; base += WARPS) {
        tile = base + warp;

        if (tile < item.end_tile) {
            float     s[4][4], x[8][4], m_t[2], l_t[2];
            uint32_t  p[4][2];

            if (item.n_parts == 1) {
                result = results[warp][0];
                width = HYMT_ATTN_PARTIAL_SMEM;

            } else {
                width = HYMT_ATTN_PARTIAL;
                result = args.partial
                         + ((size_t) (item.partial + tile) * args.n_kv + head)
                           * GROUP * width;
            }

            if (tile + WARPS < item.end_tile) {
                hymt_attn_pages(page, table, tile + WARPS, newest);
            }

            hymt_cp_async_wait<1>();
            __syncwarp();

            hymt_attn_row_scores<0, 4, HYMT_ATTN_HALF>(s, a, k);

            __syncwarp();

            if (tile + WARPS < item.end_tile) {
                valid -= WARPS * HYMT_ATTN_TILE;
                hymt_attn_load<false>(k, cache, page_size, page, valid);
            }

            hymt_cp_async_commit();

            hymt_attn_row_softmax(s, m_t, l_t, tile * HYMT_ATTN_TILE,
                                  item.pos);
            hymt_attn_row_round(p, s);

            hymt_cp_async_wait<1>();
            __syncwarp();

#pragma unroll
            for (int i = 0; i < 32; i++) {
                x[i / 4][i % 4] = 0.0f;
            }

            hymt_attn_row_values<0, 4, HYMT_ATTN_HALF>(x, p, v);

            __syncwarp();

            if (tile + WARPS < item.end_tile) {
                hymt_attn_load<false>(v, cache_v, page_size, page, valid);
            }

            hymt_cp_async_commit();

            hymt_attn_row_result<GROUP>(result, width, x, m_t, l_t);
        }

        if (item.n_parts == 1) {
            __syncthreads();

            state.template merge<false>(results[0][0],
                                        min(item.end_tile - base, WARPS),
                                        GROUP * HYMT_ATTN_PARTIAL_SMEM,
                                        HYMT_ATTN_PARTIAL_SMEM);

            if (base + WARPS < item.end_tile) {
                __syncthreads();
            }
        }
    }

    if (item.n_parts > 1) {
        hymt_attn_parts<GROUP, WARPS * 32>(args, item, head);

    } else if (item.n_rows > 0) {
        state.store(args.o + (size_t) item.out * args.n_heads * HYMT_HEAD_DIM
                    + head * GROUP * HYMT_HEAD_DIM);
    }
}


/* Two blocks of three stages each fit a multiprocessor. */
static bool
hymt_attn_spreads(const hymt_cuda_t *dev)
{
    return dev->smem >= 7 * HYMT_ATTN_STAGE;
}


template<int GROUP, int WARPS>
static cudaError_t
hymt_attention_decode_run(const hymt_cuda_t *dev,
    const hymt_attention_args_t *args, uint32_t smem, cudaStream_t stream)
{
    int          most;
    cudaError_t  err;

    most = WARPS == 2 && hymt_attn_spreads(dev) ? 3 : WARPS;

    err = cudaFuncSetAttribute(k_attention_decode_bf16<GROUP, WARPS>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               most * HYMT_ATTN_STAGE);
    if (err != cudaSuccess) {
        return err;
    }

    hymt_launch(k_attention_decode_bf16<GROUP, WARPS>,
                dim3(args->n_kv, args->grid), dim3(WARPS * 32), smem, stream,
                dev->pdl, *args);

    return cudaGetLastError();
}


/*
 * Few blocks: four tiles at once, for the time of one row.  More: two, so that
 * three blocks share a multiprocessor and one's loads cover another's
 * arithmetic; while two for each are enough they get more memory than they
 * need, or three would go to those that the product in front leaves first, and
 * none to the others.  More than four for each: a warp has a row to itself.
 */
template<int GROUP>
static cudaError_t
hymt_attention_decode_group(const hymt_cuda_t *dev,
    const hymt_attention_args_t *args, cudaStream_t stream)
{
    bool      spread;
    uint32_t  blocks;

    blocks = args->grid * args->n_kv;

    if (blocks > 4 * dev->sms) {
        return hymt_attention_decode_many<GROUP>(dev, args, stream);
    }

    if (blocks <= dev->sms && dev->smem >= 5 * HYMT_ATTN_STAGE) {
        return hymt_attention_decode_run<GROUP, 4>(dev, args,
                                                   4 * HYMT_ATTN_STAGE, stream);
    }

    /* beside prompts, theirs need the room */

    spread = blocks <= 2 * dev->sms && hymt_attn_spreads(dev) && !args->mixed;

    return hymt_attention_decode_run<GROUP, 2>(dev, args,
                                               (spread ? 3 : 2)
                                               * HYMT_ATTN_STAGE, stream);
}


extern "C" cudaError_t
hymt_cuda_attention_decode(const hymt_cuda_t *dev,
    const hymt_attention_args_t *args, cudaStream_t stream)
{
    switch (args->n_heads / args->n_kv) {

    case 1:
        return hymt_attention_decode_group<1>(dev, args, stream);

    case 2:
        return hymt_attention_decode_group<2>(dev, args, stream);

    case 4:
        return hymt_attention_decode_group<4>(dev, args, stream);

    case 8:
        return hymt_attention_decode_group<8>(dev, args, stream);
    }

    return cudaErrorInvalidValue;
}
