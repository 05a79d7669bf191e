/*
 * attention_prefill_sm90.cuh - the prefill kernel by Hopper's warpgroup matrix
 * instructions.
 *
 * The same function as k_attention_prefill_bf16, and the same bits.  A block
 * has WGS * 64 query rows, a warpgroup for each 64, and one more warp that
 * brings tiles of K and V into a ring of stages.  While the product P V of a
 * tile runs, its warpgroup works at the softmax of the next.
 *
 * sm_90a only; elsewhere the kernel is empty and never launched.
 */

#ifndef HYMT_CUDA_ATTENTION_PREFILL_SM90_CUH
#define HYMT_CUDA_ATTENTION_PREFILL_SM90_CUH

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#include "attention_wgmma.cuh"
#endif

#include "attention_tile.cuh"


#define HYMT_ATTN_PRODUCERS  128


/*
 * The softmax of a tile, P in place of S, and what merging it takes: a and b of
 * each row; m and l are brought forward.
 */
__device__ __forceinline__ void
hymt_attn_tile(float (&s)[8][4], float (&m)[2], float (&l)[2], float (&a)[2],
    float (&b)[2], uint32_t tile, bool masked, const uint32_t (&pos)[2])
{
    float  m_t[2], l_t[2];

    if (masked) {
        hymt_attn_softmax<true, 2>(s, m_t, l_t, tile * HYMT_ATTN_TILE, pos);
    } else {
        hymt_attn_softmax<false, 2>(s, m_t, l_t, tile * HYMT_ATTN_TILE, pos);
    }

#pragma unroll
    for (int i = 0; i < 2; i++) {
        hymt_attn_scales(m[i], m_t[i], a[i], b[i]);
        l[i] = hymt_attn_merge(l[i], a[i], l_t[i], b[i]);
    }
}


template<int GROUP, int WGS, int STAGES>
__global__ void
__launch_bounds__(WGS * 128 + HYMT_ATTN_PRODUCERS, 1)
k_attention_prefill_sm90_bf16(
    const __grid_constant__ hymt_attention_args_t args)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL

    enum {
        ROWS = WGS * 64,                 /* of this block */
        SPLIT = 128 / ROWS,              /* blocks of an item */
        Q_HALF = ROWS * 128
    };

    extern __shared__ __align__(1024) uint8_t  smem[];

    __shared__ __align__(8) uint64_t  bars[3][STAGES];

    size_t                 page_size, ld;
    uint32_t               lane, warp, group, head, n_items, first, n_rows;
    uint32_t               q, stage, tile, n_tiles, last, full_k, full_v, empty;
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
    group = threadIdx.x / 128;
    head = blockIdx.x;

    n_rows = min(item.n_rows - first, ROWS / GROUP);
    item.row += first;
    item.pos += first;
    last = item.pos + n_rows - 1;
    n_tiles = last / HYMT_ATTN_TILE + 1;

    page_size = (size_t) args.n_kv * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    cache = args.cache + head * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    table = args.tables + item.table;
    ld = (size_t) args.n_heads * HYMT_HEAD_DIM;

    q = hymt_smem_addr(smem);
    stage = q + 2 * Q_HALF;

    full_k = hymt_smem_addr(bars[0]);
    full_v = hymt_smem_addr(bars[1]);
    empty = hymt_smem_addr(bars[2]);

    if (threadIdx.x == 0) {
        uint32_t  groups;

        /* a warpgroup whose rows are all beyond the item's has nothing to do */

        groups = (n_rows * GROUP + 63) / 64;

        for (int i = 0; i < STAGES; i++) {
            hymt_mbar_init(full_k + 8 * i, HYMT_ATTN_PRODUCERS);
            hymt_mbar_init(full_v + 8 * i, HYMT_ATTN_PRODUCERS);
            hymt_mbar_init(empty + 8 * i, groups * 128);
        }

        hymt_mbar_init_fence();
    }

    __syncthreads();

    if (group == WGS) {
        if (WGS == 2) {
            asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        }

        uint32_t  k, slot, page[HYMT_ATTN_PAGES], next[HYMT_ATTN_PAGES];

        hymt_attn_pages(page, table, 0, last / HYMT_KV_PAGE + 1);
        hymt_grid_wait();

        for (tile = 0; tile < n_tiles; tile++) {
            slot = tile % STAGES;
            k = stage + slot * HYMT_ATTN_STAGE;

            if (tile + 1 < n_tiles) {
                hymt_attn_pages(next, table, tile + 1,
                                last / HYMT_KV_PAGE + 1);
            }

            if (tile >= STAGES) {
                hymt_mbar_wait(empty + 8 * slot, (tile / STAGES - 1) & 1);
            }

            hymt_attn_load<HYMT_ATTN_PRODUCERS>(k, cache, page_size, page, 0,
                                                last + 1
                                                - tile * HYMT_ATTN_TILE,
                                                threadIdx.x % 128);
            hymt_attn_copy_arrive(full_k + 8 * slot);

            hymt_attn_load<HYMT_ATTN_PRODUCERS>(k + HYMT_ATTN_KV, cache,
                                                page_size, page, 1,
                                                last + 1
                                                - tile * HYMT_ATTN_TILE,
                                                threadIdx.x % 128);
            hymt_attn_copy_arrive(full_v + 8 * slot);

#pragma unroll
            for (int j = 0; j < HYMT_ATTN_PAGES; j++) {
                page[j] = next[j];
            }
        }

        return;
    }

    float     s[8][4], acc[16][4], x[16][4], m[2], l[2], a[2], b[2];
    uint32_t  p[4][4], pos[2], low, high;

    if (WGS == 2) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    }

    hymt_grid_wait();

    if (group * 64 >= n_rows * GROUP) {
        return;
    }

    /* row r of the block: position r / GROUP, head r % GROUP */

#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t  r, chunk;

        r = group * 64 + threadIdx.x % 128 / 16 + 8 * i;
        chunk = threadIdx.x % 16;

        hymt_cp_async_16_zfill(q + hymt_attn_offset(Q_HALF, r, chunk),
                               args.q + ld * (item.row
                                              + min(r / GROUP, n_rows - 1))
                               + (head * GROUP + r % GROUP) * HYMT_HEAD_DIM
                               + chunk * 8, r / GROUP < n_rows);
    }

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

    /* the lowest and the highest position of the warpgroup */

    low = item.pos + group * 64 / GROUP;
    high = item.pos + min((group * 64 + 63) / GROUP, n_rows - 1);
    n_tiles = high / HYMT_ATTN_TILE + 1;

    hymt_cp_async_wait<0>();
    hymt_attn_proxy_fence();
    hymt_attn_group_sync(group);

    q += group * 64 * 128;

    auto scores = [&](uint32_t t) {
        uint32_t  k;

        k = stage + t % STAGES * HYMT_ATTN_STAGE;

        hymt_mbar_wait(full_k + 8 * (t % STAGES), t / STAGES & 1);
        hymt_attn_proxy_fence();
        hymt_attn_wgmma_fence();

        hymt_attn_wgmma_scores<0>(s, hymt_attn_wgmma_desc(q),
                                  hymt_attn_wgmma_desc(k));
#pragma unroll
        for (int kk = 1; kk < 8; kk++) {
            hymt_attn_wgmma_scores<1>(s,
                hymt_attn_wgmma_desc(q + kk / 4 * Q_HALF + kk % 4 * 32),
                hymt_attn_wgmma_desc(k + kk / 4 * HYMT_ATTN_HALF
                                     + kk % 4 * 32));
        }

        hymt_attn_wgmma_commit();
    };

    auto values = [&](uint32_t t) {
        uint32_t  v;

        v = stage + t % STAGES * HYMT_ATTN_STAGE + HYMT_ATTN_KV;

        hymt_mbar_wait(full_v + 8 * (t % STAGES), t / STAGES & 1);
        hymt_attn_proxy_fence();
        hymt_attn_wgmma_fence();

        hymt_attn_wgmma_values<0>(x, p[0], hymt_attn_wgmma_desc(v));

#pragma unroll
        for (int ks = 1; ks < 4; ks++) {
            hymt_attn_wgmma_values<1>(x, p[ks],
                                      hymt_attn_wgmma_desc(v + ks * 2048));
        }

        hymt_attn_wgmma_commit();
    };

    auto merge = [&]() {
#pragma unroll
        for (int nt = 0; nt < 16; nt++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                acc[nt][e] = hymt_attn_merge(acc[nt][e], a[e >> 1], x[nt][e],
                                             b[e >> 1]);
            }
        }
    };

    scores(0);
    hymt_attn_wgmma_wait<0>();
    hymt_attn_wgmma_pin(s);

    hymt_attn_tile(s, m, l, a, b, 0, HYMT_ATTN_TILE - 1 > low, pos);
    hymt_attn_round(p, s);

    for (tile = 0; tile + 1 < n_tiles; tile++) {
        float  a_next[2], b_next[2];

        scores(tile + 1);
        values(tile);

        hymt_attn_wgmma_wait<1>();
        hymt_attn_wgmma_pin(s);

        hymt_attn_tile(s, m, l, a_next, b_next, tile + 1,
                       (tile + 2) * HYMT_ATTN_TILE - 1 > low, pos);

        hymt_attn_wgmma_wait<0>();
        hymt_attn_wgmma_pin(x);
        hymt_mbar_arrive(empty + 8 * (tile % STAGES));

        merge();

        /* P of the tile before was read until now */

        hymt_attn_round(p, s);

#pragma unroll
        for (int i = 0; i < 2; i++) {
            a[i] = a_next[i];
            b[i] = b_next[i];
        }
    }

    values(tile);
    hymt_attn_wgmma_wait<0>();
    hymt_attn_wgmma_pin(x);
    merge();

    /* through the warp's own rows of Q, for whole 16-byte chunks */

    hymt_attn_group_sync(group);

#pragma unroll
    for (int i = 0; i < 2; i++) {
        float     r;
        uint32_t  row;

        r = __frcp_rn(l[i]);
        row = warp * 16 + i * 8 + lane / 4;

#pragma unroll
        for (int nt = 0; nt < 16; nt++) {
            *(uint32_t *) (smem + hymt_attn_offset(Q_HALF, row, nt)
                           + (lane & 3) * 4)
                = hymt_attn_pack(hymt_attn_finish(acc[nt][2 * i], r),
                                 hymt_attn_finish(acc[nt][2 * i + 1], r));
        }
    }

    __syncwarp();

#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t  r, chunk;

        r = warp * 16 + 2 * i + lane / 16;
        chunk = lane % 16;

        if (r / GROUP < n_rows) {
            *(uint4 *) (args.o + ld * (item.row + r / GROUP)
                        + (head * GROUP + r % GROUP) * HYMT_HEAD_DIM
                        + chunk * 8)
                = *(uint4 *) (smem + hymt_attn_offset(Q_HALF, r, chunk));
        }
    }

#endif
}


#endif /* HYMT_CUDA_ATTENTION_PREFILL_SM90_CUH */
