/*
 * attention_prefill_sm90.cuh - the prefill kernel by Hopper's warpgroup matrix
 * instructions.
 *
 * The same function as k_attention_prefill_bf16, the same bytes and the same
 * bits.  A block has WGS * 64 query rows, a warpgroup for each 64, and one more
 * that brings tiles of K and V into a ring of stages, each of its warps a page.
 * While the product P V of a tile runs, its warpgroup works at the softmax of
 * the next.
 *
 * Of two warpgroups one's products run beside the other's softmax, and both
 * want shared memory: the operands of Q K are 128 bytes a cycle, all there is,
 * and shuffles and what comes for the next tiles pass through it, too.  So Q,
 * the half that stays the same, is in registers then.
 *
 * QUERY: q comes from qkv, and is turned and normed here; else from rope.cu.
 *
 * H200, 2048 tokens of 16 heads and 4 kv heads from position 0: 37 us, 470
 * TFLOP/s, half the rate of a large matrix product; 60 tokens: 3.4 us.
 *
 * sm_90a only; elsewhere the kernel is empty and never launched.
 */

#ifndef HYMT_CUDA_ATTENTION_PREFILL_SM90_CUH
#define HYMT_CUDA_ATTENTION_PREFILL_SM90_CUH

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#include "attention_wgmma.cuh"
#endif

#include "attention_query.cuh"


/* Threads that bring K and V. */
#define HYMT_ATTN_PRODUCERS  128

/* Of one warpgroup two blocks share a multiprocessor. */
#define hymt_attn_blocks(wgs)  ((wgs) == 1 ? 2 : 1)


template<int GROUP, int WGS, int STAGES, bool QUERY>
__global__ void
__launch_bounds__(WGS * 128 + HYMT_ATTN_PRODUCERS, hymt_attn_blocks(WGS))
k_attention_prefill_sm90_bf16(
    const __grid_constant__ hymt_attention_args_t args)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL

    enum {
        ROWS = WGS * 64,                 /* of this block */
        SPLIT = 128 / ROWS,              /* blocks of an item */
        Q_REGISTERS = WGS == 2,
        Q_HALF = ROWS * 128
    };

    extern __shared__ __align__(1024) uint8_t  smem[];

    __shared__ __align__(8) uint64_t  bars[3][STAGES];

    size_t                 page_size, ld, ld_q;
    uint32_t               lane, warp, group, head, first, n_rows;
    uint32_t               q, stage, tile, n_tiles, last, full_k, full_v, empty;
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

    /* so that the compiler knows it to be the same for the whole warp */
    group = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);

    n_rows = min(item.n_rows - first, ROWS / GROUP);
    item.row += first;
    item.out += first;
    item.pos += first;
    last = item.pos + n_rows - 1;
    n_tiles = last / HYMT_ATTN_TILE + 1;

    page_size = (size_t) args.n_kv * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    cache = args.cache + head * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    table = args.tables + item.table;
    ld = (size_t) args.n_heads * HYMT_HEAD_DIM;
    ld_q = ld + (size_t) args.n_kv * 2 * HYMT_HEAD_DIM;

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
            hymt_mbar_init(full_k + 8 * i, HYMT_ATTN_PRODUCERS / 32);
            hymt_mbar_init(full_v + 8 * i, HYMT_ATTN_PRODUCERS / 32);
            hymt_mbar_init(empty + 8 * i, groups * 4);
        }

        hymt_mbar_init_fence();
    }

    __syncthreads();

    if (group == WGS) {
        hymt_registers_fewer<24>();

        int32_t             valid;
        uint32_t            k, slot, page, before;
        const hymt_bf16_t  *src;

        /* a warp loads a page of each tile */

        warp %= 4;
        valid = (int32_t) (last + 1 - warp * HYMT_KV_PAGE);
        page = __ldg(&table[min(warp, last / HYMT_KV_PAGE)]);

        if (!args.mixed) {
            hymt_grid_wait();
        }

        /*
         * The fence that shows copies to matrix instructions is the copying
         * thread's, once they have landed: when the next tile's are on the way.
         * With two stages these find no place before the tile is used: there
         * it is waited for first.
         */

        before = 0;

        for (tile = 0; tile < n_tiles; tile++) {
            slot = tile % STAGES;
            k = stage + slot * HYMT_ATTN_STAGE;
            src = cache + page * page_size;

            page = __ldg(&table[min((tile + 1) * HYMT_ATTN_PAGES + warp,
                                    last / HYMT_KV_PAGE)]);

            if (STAGES == 2 && tile > 0) {
                hymt_cp_async_wait<0>();
                hymt_attn_ready(full_k + 8 * before);
                hymt_attn_ready(full_v + 8 * before);
            }

            if (tile >= STAGES) {
                hymt_mbar_wait(empty + 8 * slot, (tile / STAGES - 1) & 1);
            }

            hymt_attn_load_page<false>(k, src, warp, valid);
            hymt_cp_async_commit();

            hymt_attn_load_page<false>(k + HYMT_ATTN_KV,
                                src + HYMT_KV_PAGE * HYMT_HEAD_DIM, warp,
                                valid);
            hymt_cp_async_commit();

            if (STAGES > 2 && tile > 0) {
                hymt_cp_async_wait<2>();
                hymt_attn_ready(full_k + 8 * before);
                hymt_attn_ready(full_v + 8 * before);
            }

            before = slot;
            valid -= HYMT_ATTN_TILE;
        }

        hymt_cp_async_wait<1>();
        hymt_attn_ready(full_k + 8 * before);

        hymt_cp_async_wait<0>();
        hymt_attn_ready(full_v + 8 * before);

        hymt_grid_wait();
        return;
    }

    float     s[8][4], acc[16][4], x[16][4], m[2], l[2], a[2], b[2], share[2];
    uint32_t  p[4][4], q_part[8][4], pos[2], low, high;
    uint64_t  q_desc, k_desc, v_desc;

    hymt_attn_query_t  query;

    static_assert(!QUERY || Q_REGISTERS, "a warp reads no rows but its own");

    hymt_registers_more<WGS == 1 ? 232 : 240>();

    if constexpr (QUERY) {
        hymt_attn_query_begin<GROUP>(query, args.rope, item.pos, n_rows);
    }

    if (!args.mixed) {
        hymt_grid_wait();
    }

    if (group * 64 >= n_rows * GROUP) {
        return;
    }

    /* row r of the block: position r / GROUP, head r % GROUP */

    if constexpr (QUERY) {
        hymt_attn_query<GROUP>(smem, Q_HALF, query, args.rope,
                               args.qkv + ld_q * item.row
                               + head * GROUP * HYMT_HEAD_DIM, ld_q, n_rows);

    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            uint32_t  r, chunk;

            r = group * 64 + threadIdx.x % 128 / 16 + 8 * i;
            chunk = threadIdx.x % 16;

            hymt_cp_async_16_zfill(q + hymt_attn_offset(Q_HALF, r, chunk),
                                   args.q
                                   + ld * (item.row
                                           + min(r / GROUP, n_rows - 1))
                                   + (head * GROUP + r % GROUP) * HYMT_HEAD_DIM
                                   + chunk * 8, r / GROUP < n_rows);
        }

        hymt_cp_async_commit();
    }

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

    if constexpr (!QUERY) {
        hymt_cp_async_wait<0>();
        hymt_fence_async();
        hymt_group_sync(group);
    }

    q += group * 64 * 128;

    q_desc = hymt_attn_wgmma_desc(q);
    k_desc = hymt_attn_wgmma_desc(stage);
    v_desc = hymt_attn_wgmma_desc(stage + HYMT_ATTN_KV);

    if constexpr (Q_REGISTERS) {
#pragma unroll
        for (int kk = 0; kk < 8; kk++) {
            hymt_ldmatrix_x4(q_part[kk],
                             q + hymt_attn_offset(Q_HALF, warp % 4 * 16
                                                          + lane % 16,
                                                  2 * kk + lane / 16));
        }
    }

    auto scores = [&](uint32_t t) {
        uint64_t  k;

        k = k_desc + t % STAGES * (HYMT_ATTN_STAGE / 16);

        hymt_mbar_wait(full_k + 8 * (t % STAGES), t / STAGES & 1);
        hymt_wgmma_fence();

        if constexpr (Q_REGISTERS) {
            hymt_attn_wgmma_scores<0>(s, q_part[0], k);

        } else {
            hymt_attn_wgmma_scores<0>(s, q_desc, k);
        }

#pragma unroll
        for (int kk = 1; kk < 8; kk++) {
            const uint64_t  at = k + (kk / 4 * HYMT_ATTN_HALF + kk % 4 * 32)
                                     / 16;

            if constexpr (Q_REGISTERS) {
                hymt_attn_wgmma_scores<1>(s, q_part[kk], at);

            } else {
                hymt_attn_wgmma_scores<1>(s, q_desc
                                             + (kk / 4 * Q_HALF + kk % 4 * 32)
                                               / 16, at);
            }
        }

        hymt_wgmma_commit();
    };

    auto values = [&](uint32_t t) {
        uint64_t  v;

        v = v_desc + t % STAGES * (HYMT_ATTN_STAGE / 16);

        hymt_mbar_wait(full_v + 8 * (t % STAGES), t / STAGES & 1);
        hymt_wgmma_fence();

        hymt_attn_wgmma_values<0>(x, p[0], v);

#pragma unroll
        for (int ks = 1; ks < 4; ks++) {
            hymt_attn_wgmma_values<1>(x, p[ks], v + ks * 2048 / 16);
        }

        hymt_wgmma_commit();
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

    hymt_wgmma_wait<0>();
    hymt_wgmma_pin(s);

    hymt_attn_tile(s, share, m, a, b, 0, HYMT_ATTN_TILE - 1 > low, pos);
    hymt_attn_round(p, s);

    for (tile = 0; tile + 1 < n_tiles; tile++) {
        float  share_next[2], a_next[2], b_next[2];

        scores(tile + 1);
        values(tile);

        hymt_wgmma_wait<1>();
        hymt_wgmma_pin(s);

        hymt_attn_tile(s, share_next, m, a_next, b_next, tile + 1,
                       (tile + 2) * HYMT_ATTN_TILE - 1 > low, pos);

        hymt_wgmma_wait<0>();
        hymt_wgmma_pin(x);

        if (lane == 0) {
            hymt_mbar_arrive(empty + 8 * (tile % STAGES));
        }

        merge();
        hymt_attn_forward(l, share, a, b);

        /* P of the tile before was read until now */

        hymt_attn_round(p, s);

#pragma unroll
        for (int i = 0; i < 2; i++) {
            a[i] = a_next[i];
            b[i] = b_next[i];
            share[i] = share_next[i];
        }
    }

    values(tile);

    hymt_attn_forward(l, share, a, b);
    hymt_wgmma_wait<0>();
    hymt_wgmma_pin(x);
    merge();

    /* Q is read no more, by no warp of the group */

    hymt_group_sync(group);

    hymt_attn_store<GROUP>(smem, Q_HALF, acc, l, args.o + ld * item.out
                                                 + head * GROUP * HYMT_HEAD_DIM,
                           ld, n_rows);

    hymt_grid_wait();

#endif
}


#endif /* HYMT_CUDA_ATTENTION_PREFILL_SM90_CUH */
