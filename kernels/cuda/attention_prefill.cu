/*
 * attention_prefill.cu - attention of runs of prompt rows over the paged cache.
 *
 * o[row][h] = softmax(q[row][h] K^T / sqrt(128), positions up to the row's) V
 *
 * A block has an item (or half of one) and one kv head: MT * 64 query rows,
 * which are consecutive positions times the heads of the group, so K and V are
 * read once for the group.  A warp has MT * 16 of them, its accumulators in
 * registers; tiles of K and V pass through two stages of shared memory.
 *
 * For n prompt positions at context c the two products are 4 n c n_heads 128
 * operations, less what is masked: 2048 tokens of 16 heads from position 0 are
 * 17.2 GFLOP.  The bytes (K and V once for every 128 query rows, out of L2) are
 * small beside that.
 */

#include "attention_prefill_sm90.cuh"
#include "attention_tile.cuh"


#define HYMT_ATTN_ROWS     128       /* query rows of an item */
#define HYMT_ATTN_WARPS    4
#define HYMT_ATTN_THREADS  (HYMT_ATTN_WARPS * 32)


template<int GROUP, int MT>
__global__ void
__launch_bounds__(HYMT_ATTN_THREADS, 2)
k_attention_prefill_bf16(const __grid_constant__ hymt_attention_args_t args)
{
    enum {
        ROWS = MT * 64,                  /* of this block */
        SPLIT = HYMT_ATTN_ROWS / ROWS,   /* blocks of an item */
        Q_HALF = ROWS * 128
    };

    extern __shared__ __align__(1024) uint8_t  smem[];

    float                  acc[MT][16][4], m[MT][2], l[MT][2];
    size_t                 page_size, ld;
    uint32_t               lane, warp, head, n_items, first, n_rows, last, end;
    uint32_t               q, stage, tile, n_tiles, low, high;
    uint32_t               page[HYMT_ATTN_PAGES], pos[MT][2];
    const uint32_t        *table;
    const hymt_bf16_t     *cache;
    hymt_attention_item_t  item;

    hymt_grid_launch();

    /* items towards the end of a prompt have more tiles: they go first */

    n_items = *args.n_items;
    first = blockIdx.y % SPLIT * (ROWS / GROUP);

    if (blockIdx.y / SPLIT >= n_items) {
        hymt_grid_wait();
        return;
    }

    item = args.items[n_items - 1 - blockIdx.y / SPLIT];

    if (first >= item.n_rows) {
        hymt_grid_wait();
        return;
    }

    lane = threadIdx.x & 31;
    warp = threadIdx.x / 32;
    head = blockIdx.x;

    n_rows = min(item.n_rows - first, ROWS / GROUP);
    item.row += first;
    item.pos += first;
    last = item.pos + n_rows - 1;
    end = last / HYMT_KV_PAGE + 1;
    n_tiles = last / HYMT_ATTN_TILE + 1;

    page_size = (size_t) args.n_kv * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    cache = args.cache + head * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    table = args.tables + item.table;
    ld = (size_t) args.n_heads * HYMT_HEAD_DIM;

    q = hymt_smem_addr(smem);
    stage = q + 2 * Q_HALF;

    hymt_attn_pages(page, table, 0, end);

    hymt_grid_wait();

    /* row r of the block: position r / GROUP, head r % GROUP */

#pragma unroll
    for (int i = 0; i < ROWS / 8; i++) {
        uint32_t  r, chunk;

        r = threadIdx.x / 16 + 8 * i;
        chunk = threadIdx.x % 16;

        hymt_cp_async_16_zfill(q + hymt_attn_offset(Q_HALF, r, chunk),
                               args.q + ld * (item.row
                                              + min(r / GROUP, n_rows - 1))
                               + (head * GROUP + r % GROUP) * HYMT_HEAD_DIM
                               + chunk * 8, r / GROUP < n_rows);
    }

    hymt_attn_load<HYMT_ATTN_THREADS>(stage, cache, page_size, page, 0,
                                      last + 1, threadIdx.x);
    hymt_attn_load<HYMT_ATTN_THREADS>(stage + HYMT_ATTN_KV, cache, page_size,
                                      page, 1, last + 1, threadIdx.x);
    hymt_cp_async_commit();

    if (n_tiles > 1) {
        hymt_attn_pages(page, table, 1, end);
    }

#pragma unroll
    for (int mt = 0; mt < MT; mt++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            m[mt][i] = -CUDART_INF_F;
            l[mt][i] = 0.0f;
            pos[mt][i] = item.pos
                         + min((warp * MT * 16 + mt * 16 + i * 8 + lane / 4)
                               / GROUP, n_rows - 1);
        }

#pragma unroll
        for (int nt = 0; nt < 16; nt++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                acc[mt][nt][e] = 0.0f;
            }
        }
    }

    /* the lowest and the highest position of the warp */

    low = item.pos + min(warp * MT * 16 / GROUP, n_rows - 1);
    high = item.pos + min((warp * MT * 16 + MT * 16 - 1) / GROUP, n_rows - 1);

    for (tile = 0; tile < n_tiles; tile++) {
        uint32_t  k, v, next;

        k = stage + tile % 2 * HYMT_ATTN_STAGE;
        v = k + HYMT_ATTN_KV;

        if (tile + 1 < n_tiles) {
            next = stage + (tile + 1) % 2 * HYMT_ATTN_STAGE;

            hymt_attn_load<HYMT_ATTN_THREADS>(next, cache, page_size, page, 0,
                                              last + 1
                                              - (tile + 1) * HYMT_ATTN_TILE,
                                              threadIdx.x);
            hymt_attn_load<HYMT_ATTN_THREADS>(next + HYMT_ATTN_KV, cache,
                                              page_size, page, 1,
                                              last + 1
                                              - (tile + 1) * HYMT_ATTN_TILE,
                                              threadIdx.x);

            if (tile + 2 < n_tiles) {
                hymt_attn_pages(page, table, tile + 2, end);
            }
        }

        hymt_cp_async_commit();
        hymt_cp_async_wait<1>();
        __syncthreads();

        if (tile * HYMT_ATTN_TILE <= high) {
            float     s[MT][8][4], a[MT][2], b[MT][2];
            uint32_t  p[MT][4][4];

            hymt_attn_scores<MT>(s, [&](int kk, uint32_t (&f)[MT][4]) {
#pragma unroll
                for (int mt = 0; mt < MT; mt++) {
                    hymt_ldmatrix_x4(f[mt], q
                        + hymt_attn_offset(Q_HALF,
                                           (warp * MT + mt) * 16 + (lane & 15),
                                           2 * kk + (lane >> 4)));
                }
            }, k);

#pragma unroll
            for (int mt = 0; mt < MT; mt++) {
                float  m_t[2], l_t[2];

                if (tile * HYMT_ATTN_TILE + HYMT_ATTN_TILE - 1 > low) {
                    hymt_attn_softmax<true, 2>(s[mt], m_t, l_t,
                                            tile * HYMT_ATTN_TILE, pos[mt]);
                } else {
                    hymt_attn_softmax<false, 2>(s[mt], m_t, l_t,
                                             tile * HYMT_ATTN_TILE, pos[mt]);
                }

                hymt_attn_round(p[mt], s[mt]);

#pragma unroll
                for (int i = 0; i < 2; i++) {
                    hymt_attn_scales(m[mt][i], m_t[i], a[mt][i], b[mt][i]);

                    l[mt][i] = hymt_attn_merge(l[mt][i], a[mt][i], l_t[i],
                                               b[mt][i]);
                }
            }

            hymt_attn_values<MT, 1>(p, v, [&](int nd, float (&x)[MT][2][4]) {
#pragma unroll
                for (int mt = 0; mt < MT; mt++) {
#pragma unroll
                    for (int j = 0; j < 2; j++) {
#pragma unroll
                        for (int e = 0; e < 4; e++) {
                            float  &y = acc[mt][2 * nd + j][e];

                            y = hymt_attn_merge(y, a[mt][e >> 1], x[mt][j][e],
                                                b[mt][e >> 1]);
                        }
                    }
                }
            });
        }

        __syncthreads();
    }

    /* through the warp's own rows of Q, for whole 16-byte chunks */

#pragma unroll
    for (int mt = 0; mt < MT; mt++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float     r;
            uint32_t  row;

            r = __frcp_rn(l[mt][i]);
            row = (warp * MT + mt) * 16 + i * 8 + lane / 4;

#pragma unroll
            for (int nt = 0; nt < 16; nt++) {
                *(uint32_t *) (smem + hymt_attn_offset(Q_HALF, row, nt)
                               + (lane & 3) * 4)
                    = hymt_attn_pack(hymt_attn_finish(acc[mt][nt][2 * i], r),
                                     hymt_attn_finish(acc[mt][nt][2 * i + 1],
                                                      r));
            }
        }
    }

    __syncwarp();

#pragma unroll
    for (int i = 0; i < MT * 8; i++) {
        uint32_t  r, chunk;

        r = warp * MT * 16 + 2 * i + lane / 16;
        chunk = lane % 16;

        if (r / GROUP < n_rows) {
            *(uint4 *) (args.o + ld * (item.row + r / GROUP)
                        + (head * GROUP + r % GROUP) * HYMT_HEAD_DIM
                        + chunk * 8)
                = *(uint4 *) (smem + hymt_attn_offset(Q_HALF, r, chunk));
        }
    }
}


template<int GROUP, int MT>
static cudaError_t
hymt_attention_prefill_run(const hymt_cuda_t *dev,
    const hymt_attention_args_t *args, cudaStream_t stream)
{
    enum { SMEM = MT * HYMT_ATTN_KV + 2 * HYMT_ATTN_STAGE };

    cudaError_t  err;

    err = cudaFuncSetAttribute(k_attention_prefill_bf16<GROUP, MT>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               SMEM);
    if (err != cudaSuccess) {
        return err;
    }

    hymt_launch(k_attention_prefill_bf16<GROUP, MT>,
                dim3(args->n_kv, args->grid * (2 / MT)),
                dim3(HYMT_ATTN_THREADS), SMEM, stream, dev->pdl, *args);

    return cudaGetLastError();
}


template<int GROUP, int WGS, int STAGES>
static cudaError_t
hymt_attention_prefill_sm90(const hymt_cuda_t *dev,
    const hymt_attention_args_t *args, cudaStream_t stream)
{
    enum { SMEM = WGS * HYMT_ATTN_KV + STAGES * HYMT_ATTN_STAGE };

    cudaError_t  err;

    err = cudaFuncSetAttribute(k_attention_prefill_sm90_bf16<GROUP, WGS,
                                                             STAGES>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               SMEM);
    if (err != cudaSuccess) {
        return err;
    }

    hymt_launch(k_attention_prefill_sm90_bf16<GROUP, WGS, STAGES>,
                dim3(args->n_kv, args->grid * (2 / WGS)),
                dim3(WGS * 128 + HYMT_ATTN_PRODUCERS), SMEM, stream, dev->pdl,
                *args);

    return cudaGetLastError();
}


/* Few items: half an item a block, for the time of one. */
template<int GROUP>
static cudaError_t
hymt_attention_prefill_group(const hymt_cuda_t *dev,
    const hymt_attention_args_t *args, cudaStream_t stream)
{
    if (dev->cc == 90) {
        if (2 * args->grid * args->n_kv <= dev->sms) {
            return hymt_attention_prefill_sm90<GROUP, 1, 3>(dev, args, stream);
        }

        return hymt_attention_prefill_sm90<GROUP, 2, 4>(dev, args, stream);
    }

    if (args->grid * args->n_kv <= dev->sms) {
        return hymt_attention_prefill_run<GROUP, 1>(dev, args, stream);
    }

    return hymt_attention_prefill_run<GROUP, 2>(dev, args, stream);
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
