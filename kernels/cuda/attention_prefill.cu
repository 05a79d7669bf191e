/*
 * attention_prefill.cu - attention of runs of prompt rows over the paged cache.
 *
 * o[row][h] = softmax(q[row][h] K^T / sqrt(128), positions up to the row's) V
 *
 * A block has an item (or half of one) and one kv head: 128 (64) query rows,
 * which are consecutive positions times the heads of the group, so K and V are
 * read once for the group.  A warp has 16 of them, its accumulators in
 * registers; tiles of K and V pass through two stages of shared memory.
 *
 * For n prompt positions at context c the two products are 4 n c n_heads 128
 * operations, less what is masked: 2048 tokens of 16 heads from position 0 are
 * 17.2 GFLOP.  The bytes (K and V once for every 128 query rows, out of L2) are
 * small beside that.
 *
 * Nothing but launch constants (the copy in front of the step has written items
 * and tables) is read before the wait: positions that an item reads may be rows
 * of the same step.  Beside decode rows there is no wait but at the end: see
 * kernels.h; what it reads then comes from the L2.
 */

#include "attention_prefill_sm90.cuh"
#include "attention_tile.cuh"


/* Query rows of an item. */
#define HYMT_ATTN_ROWS  128


template<int GROUP, int WARPS>
__global__ void
__launch_bounds__(WARPS * 32, 1)
k_attention_prefill_bf16(const __grid_constant__ hymt_attention_args_t args)
{
    enum {
        ROWS = WARPS * 16,               /* of this block */
        SPLIT = HYMT_ATTN_ROWS / ROWS,   /* blocks of an item */
        Q_HALF = ROWS * 128
    };

    extern __shared__ __align__(1024) uint8_t  smem[];

    float                  acc[16][4], m[2], l[2];
    size_t                 page_size, ld;
    int32_t                valid;
    uint32_t               lane, warp, head, first, n_rows, last;
    uint32_t               q, stage, tile, n_tiles, low, high, page, newest;
    uint32_t               pos[2];
    const uint32_t        *table;
    const hymt_bf16_t     *cache;
    hymt_attention_item_t  item;

    hymt_grid_launch();

    first = blockIdx.y % SPLIT * (ROWS / GROUP);
    item = args.items[blockIdx.y / SPLIT];
    hymt_attn_item(item, args.compact);

    if (blockIdx.y / SPLIT >= *args.n_items || first >= item.n_rows) {
        hymt_grid_wait();
        return;
    }

    lane = threadIdx.x & 31;
    warp = threadIdx.x / 32;
    head = blockIdx.x;

    n_rows = min(item.n_rows - first, ROWS / GROUP);
    item.row += first;
    item.out += first;
    item.pos += first;
    last = item.pos + n_rows - 1;
    newest = last / HYMT_KV_PAGE;
    n_tiles = last / HYMT_ATTN_TILE + 1;

    page_size = (size_t) args.n_kv * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    cache = args.cache + head * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    table = args.tables + item.table;
    ld = (size_t) args.n_heads * HYMT_HEAD_DIM;

    q = hymt_smem_addr(smem);
    stage = q + 2 * Q_HALF;

    /* of each tile a warp loads one page, of K or V or both */

    page = __ldg(&table[min(warp % 4, newest)]);
    valid = (int32_t) (last + 1 - warp % 4 * HYMT_KV_PAGE);

    if (!args.mixed) {
        hymt_grid_wait();
    }

    auto load = [&](uint32_t t) {
        uint32_t            k;
        const hymt_bf16_t  *src;

        k = stage + t % 2 * HYMT_ATTN_STAGE;
        src = cache + page * page_size;

        if (warp < 4) {
            hymt_attn_load_page<false>(k, src, warp % 4, valid);
        }

        if (warp + 4 >= WARPS) {
            hymt_attn_load_page<false>(k + HYMT_ATTN_KV,
                                src + HYMT_KV_PAGE * HYMT_HEAD_DIM, warp % 4,
                                valid);
        }

        page = __ldg(&table[min((t + 1) * HYMT_ATTN_PAGES + warp % 4, newest)]);
        valid -= HYMT_ATTN_TILE;
    };

    /* row r of the block: position r / GROUP, head r % GROUP */

#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t  r, chunk;

        r = warp * 16 + 2 * i + lane / 16;
        chunk = lane % 16;

        hymt_cp_async_16_zfill(q + hymt_attn_offset(Q_HALF, r, chunk),
                               args.q + ld * (item.row
                                              + min(r / GROUP, n_rows - 1))
                               + (head * GROUP + r % GROUP) * HYMT_HEAD_DIM
                               + chunk * 8, r / GROUP < n_rows);
    }

    load(0);
    hymt_cp_async_commit();

#pragma unroll
    for (int i = 0; i < 2; i++) {
        m[i] = -CUDART_INF_F;
        l[i] = 0.0f;
        pos[i] = item.pos + min((warp * 16 + i * 8 + lane / 4) / GROUP,
                                n_rows - 1);
    }

#pragma unroll
    for (int nt = 0; nt < 16; nt++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            acc[nt][e] = 0.0f;
        }
    }

    /* the lowest and the highest position of the warp */

    low = item.pos + min(warp * 16 / GROUP, n_rows - 1);
    high = item.pos + min((warp * 16 + 15) / GROUP, n_rows - 1);

    for (tile = 0; tile < n_tiles; tile++) {
        if (tile + 1 < n_tiles) {
            load(tile + 1);
        }

        hymt_cp_async_commit();
        hymt_cp_async_wait<1>();
        __syncthreads();

        if (tile * HYMT_ATTN_TILE <= high) {
            float     s[8][4], share[2], a[2], b[2];
            uint32_t  k, p[4][4];

            k = stage + tile % 2 * HYMT_ATTN_STAGE;

            hymt_attn_scores(s, [&](int kk, uint32_t (&f)[4]) {
                hymt_ldmatrix_x4(f, q + hymt_attn_offset(Q_HALF,
                                                         warp * 16
                                                         + (lane & 15),
                                                         2 * kk
                                                         + (lane >> 4)));
            }, k);

            hymt_attn_tile(s, share, m, a, b, tile,
                           tile * HYMT_ATTN_TILE + HYMT_ATTN_TILE - 1 > low,
                           pos);
            hymt_attn_round(p, s);
            hymt_attn_forward(l, share, a, b);

            hymt_attn_values<2>(p, k + HYMT_ATTN_KV,
                                [&](int nd, float (&x)[2][4]) {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    float  &y = acc[2 * nd + i / 4][i % 4];

                    y = hymt_attn_merge(y, a[i / 2 % 2], x[i / 4][i % 4],
                                        b[i / 2 % 2]);
                }
            });
        }

        __syncthreads();
    }

    hymt_attn_store<GROUP>(smem, Q_HALF, acc, l, args.o + ld * item.out
                                                 + head * GROUP * HYMT_HEAD_DIM,
                           ld, n_rows);

    hymt_grid_wait();
}


template<int GROUP, int WARPS>
static cudaError_t
hymt_attention_prefill_run(const hymt_cuda_t *dev,
    const hymt_attention_args_t *args, cudaStream_t stream)
{
    enum { SMEM = WARPS * 16 * 256 + 2 * HYMT_ATTN_STAGE };

    cudaError_t  err;

    err = cudaFuncSetAttribute(k_attention_prefill_bf16<GROUP, WARPS>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               SMEM);
    if (err != cudaSuccess) {
        return err;
    }

    hymt_launch(k_attention_prefill_bf16<GROUP, WARPS>,
                dim3(args->n_kv, args->grid * (8 / WARPS)), dim3(WARPS * 32),
                SMEM, stream, dev->pdl, *args);

    return cudaGetLastError();
}


template<int GROUP, int WGS, int STAGES, bool QUERY = false>
static cudaError_t
hymt_attention_prefill_sm90(const hymt_cuda_t *dev,
    const hymt_attention_args_t *args, cudaStream_t stream)
{
    enum { SMEM = WGS * HYMT_ATTN_KV + STAGES * HYMT_ATTN_STAGE };

    cudaError_t  err;

    err = cudaFuncSetAttribute(k_attention_prefill_sm90_bf16<GROUP, WGS,
                                                             STAGES, QUERY>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               SMEM);
    if (err != cudaSuccess) {
        return err;
    }

    hymt_launch(k_attention_prefill_sm90_bf16<GROUP, WGS, STAGES, QUERY>,
                dim3(args->n_kv, args->grid * (2 / WGS)),
                dim3(WGS * 128 + HYMT_ATTN_PRODUCERS), SMEM, stream, dev->pdl,
                *args);

    return cudaGetLastError();
}


/*
 * Few items: half an item a block, for the time of one.  A quarter more blocks
 * than multiprocessors still gain: there are short ones among them.
 *
 * Beside decode rows prompts are short: half an item and two stages.  A compact
 * item has one row.
 */
template<int GROUP>
static cudaError_t
hymt_attention_prefill_group(const hymt_cuda_t *dev,
    const hymt_attention_args_t *args, cudaStream_t stream)
{
    bool  few;

    few = args->mixed || args->compact
          || 8ull * args->grid * args->n_kv <= 5ull * dev->sms;

    if (dev->cc == 90) {
        if (args->q == NULL) {
            return hymt_attention_prefill_sm90<GROUP, 2, 4, true>(dev, args,
                                                                  stream);
        }

        if (args->mixed) {
            return hymt_attention_prefill_sm90<GROUP, 1, 2>(dev, args, stream);
        }

        if (few) {
            return hymt_attention_prefill_sm90<GROUP, 1, 3>(dev, args, stream);
        }

        return hymt_attention_prefill_sm90<GROUP, 2, 4>(dev, args, stream);
    }

    if (few) {
        return hymt_attention_prefill_run<GROUP, 4>(dev, args, stream);
    }

    return hymt_attention_prefill_run<GROUP, 8>(dev, args, stream);
}


extern "C" uint32_t
hymt_attention_rows(uint32_t group)
{
    return HYMT_ATTN_ROWS / group;
}


extern "C" cudaError_t
hymt_cuda_attention_prefill(const hymt_cuda_t *dev,
    const hymt_attention_args_t *args, cudaStream_t stream)
{
    switch (args->n_heads / args->n_kv) {

    case 1:
        return hymt_attention_prefill_group<1>(dev, args, stream);

    case 2:
        return hymt_attention_prefill_group<2>(dev, args, stream);

    case 4:
        return hymt_attention_prefill_group<4>(dev, args, stream);

    case 8:
        return hymt_attention_prefill_group<8>(dev, args, stream);
    }

    return cudaErrorInvalidValue;
}
