/*
 * attention_decode.cu - attention of one row a sequence over its paged cache.
 *
 * o[row][h] = softmax(q[row][h] K^T / sqrt(128)) V
 *
 * A block has one item (a row, or a part of its positions) and one kv head,
 * whose K and V it reads once for the whole group of query heads: 512 bytes a
 * position, so 256 rows at 200 positions and 4 kv heads are 105 MB.  Each warp
 * takes every WARPS-th tile of 64 positions into its own 32 KB of shared
 * memory: V is on its way while K is used, the next tile's K while V is.  Only
 * `group` of the 16 rows of a matrix instruction are real; the matrix units
 * have nothing else to do here.
 *
 * H200, share of the read bandwidth: 81 % for those 256 rows (28 us), 70 % for
 * 64 rows (8.1 us); one row takes 2.6 us.
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
 */

#include "attention_tile.cuh"


/* Floats of a row of a tile's result: acc, m, l; and in shared memory, where
   rows must not begin in the same bank. */
#define HYMT_ATTN_PARTIAL       (HYMT_HEAD_DIM + 2)
#define HYMT_ATTN_PARTIAL_SMEM  (HYMT_HEAD_DIM + 8)


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


/* K (and V) of one row of a tile, whose page is at src, by one warp. */
template<bool V>
__device__ __forceinline__ void
hymt_attn_load_row(uint32_t dst, const hymt_bf16_t *src, uint32_t row)
{
    uint32_t  lane, kv;

    lane = threadIdx.x & 31;
    kv = lane / 16;

    if (!V && kv == 1) {
        return;
    }

    hymt_cp_async_16(dst + kv * HYMT_ATTN_KV
                     + hymt_attn_offset(HYMT_ATTN_HALF, row, lane % 16),
                     src + (kv * HYMT_KV_PAGE + row % HYMT_KV_PAGE)
                           * HYMT_HEAD_DIM + lane % 16 * 8);
}


/*
 * SHARED: V takes the place of its tile's K once that was used, so that twice
 * as many blocks find room.
 */
template<int GROUP, int WARPS, bool SHARED>
__global__ void
__launch_bounds__(WARPS * 32, SHARED && GROUP <= 4 ? 6 : 1)
k_attention_decode_bf16(const __grid_constant__ hymt_attention_args_t args)
{
    extern __shared__ __align__(1024) uint8_t  stages[];

    __shared__ float     results[WARPS][GROUP][HYMT_ATTN_PARTIAL_SMEM];
    __shared__ uint32_t  last;

    hymt_attn_state_t<GROUP, WARPS * 32>  state;

    float                 *result;
    size_t                 page_size;
    int32_t                valid;
    uint32_t               lane, warp, g, head, base, tile, newest, width;
    uint32_t               k, v, page[HYMT_ATTN_PAGES], a[8][2];
    const uint32_t        *table;
    const hymt_bf16_t     *cache, *cache_v, *row, *q;
    hymt_attention_item_t  item;

    if (!args.mixed) {
        hymt_grid_launch();
    }

    item = args.items[blockIdx.y];

    hymt_attn_item(item, args.compact);

    if (blockIdx.y >= *args.n_items || item.n_rows == 0) {
        hymt_grid_wait();
        return;
    }

    lane = threadIdx.x & 31;
    warp = threadIdx.x / 32;
    head = blockIdx.x;
    g = lane / 4;

    page_size = (size_t) args.n_kv * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    cache = args.cache + head * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    cache_v = cache + HYMT_KV_PAGE * HYMT_HEAD_DIM;
    table = args.tables + item.table;
    newest = item.pos / HYMT_KV_PAGE;

    k = hymt_smem_addr(stages)
        + warp * (SHARED ? HYMT_ATTN_KV : HYMT_ATTN_STAGE);
    v = SHARED ? k : k + HYMT_ATTN_KV;

    q = args.q + (size_t) item.row * args.n_heads * HYMT_HEAD_DIM
        + (head * GROUP + g) * HYMT_HEAD_DIM + 2 * (lane & 3);

    tile = item.first_tile + warp;

    if (tile < item.end_tile) {
        hymt_attn_pages(page, table, tile, newest);
    }

    valid = item.pos + 1 - tile * HYMT_ATTN_TILE;

    if (tile >= item.end_tile) {
        hymt_grid_wait();

    } else if (valid > HYMT_ATTN_TILE) {
        hymt_attn_load<false>(k, cache, page_size, page, valid);
        hymt_cp_async_commit();

        if (!SHARED) {
            hymt_attn_load<false>(v, cache_v, page_size, page, valid);
            hymt_cp_async_commit();
        }

        hymt_grid_wait();

    } else {
        hymt_attn_load<true>(k, cache, page_size, page, valid);

        if (!SHARED) {
            hymt_attn_load<true>(v, cache_v, page_size, page, valid);
        }

        row = cache + __ldg(&table[newest]) * page_size;

        hymt_grid_wait();

        hymt_attn_load_row<!SHARED>(k, row, valid - 1);
        hymt_cp_async_commit();

        if (!SHARED) {
            hymt_cp_async_commit();
        }
    }

    /* what comes next reads q and the cache without a wait of its own */

    if (args.mixed) {
        hymt_grid_launch();
    }

    /* rows over the group's are zeros */

#pragma unroll
    for (int kk = 0; kk < 8; kk++) {
        a[kk][0] = g < GROUP ? *(const uint32_t *) (q + 16 * kk) : 0;
        a[kk][1] = g < GROUP ? *(const uint32_t *) (q + 16 * kk + 8) : 0;
    }

    state.init();

    for (base = item.first_tile; base < item.end_tile; base += WARPS) {
        tile = base + warp;

        if (tile < item.end_tile) {
            float           s[8][4], m_t[2], l_t[2], share[2];
            uint32_t        p[4][4];
            const uint32_t  pos[2] = { item.pos, item.pos };

            if (item.n_parts == 1) {
                result = results[warp][0];
                width = HYMT_ATTN_PARTIAL_SMEM;

            } else {
                width = HYMT_ATTN_PARTIAL;
                result = args.partial
                         + ((size_t) (item.partial + tile) * args.n_kv + head)
                           * GROUP * width;
            }

            if (!SHARED && tile + WARPS < item.end_tile) {
                hymt_attn_pages(page, table, tile + WARPS, newest);
            }

            hymt_cp_async_wait<SHARED ? 0 : 1>();
            __syncwarp();

            hymt_attn_scores(s, [&](int kk, uint32_t (&f)[4]) {
                f[0] = a[kk][0];
                f[1] = 0;
                f[2] = a[kk][1];
                f[3] = 0;
            }, k);

            __syncwarp();

            if (SHARED) {
                hymt_attn_load<false>(v, cache_v, page_size, page, valid);
            }

            if (tile + WARPS < item.end_tile) {
                valid -= WARPS * HYMT_ATTN_TILE;

                if (SHARED) {
                    hymt_attn_pages(page, table, tile + WARPS, newest);

                } else {
                    hymt_attn_load<false>(k, cache, page_size, page, valid);
                }
            }

            hymt_cp_async_commit();

            hymt_attn_softmax<true, 1>(s, m_t, share, tile * HYMT_ATTN_TILE,
                                       pos);
            hymt_attn_round(p, s);

            hymt_cp_async_wait<SHARED ? 0 : 1>();
            __syncwarp();

            hymt_attn_values<4>(p, v, [&](int nd, float (&x)[2][4]) {
                float  *at;

                if (g < GROUP) {
                    at = result + g * width + 16 * nd + 2 * (lane & 3);

                    *(float2 *) at = make_float2(x[0][0], x[0][1]);
                    *(float2 *) (at + 8) = make_float2(x[1][0], x[1][1]);
                }
            });

            __syncwarp();

            if (tile + WARPS < item.end_tile) {
                hymt_attn_load<false>(v, SHARED ? cache : cache_v, page_size,
                                      page, valid);
            }

            hymt_cp_async_commit();

            hymt_attn_sum<1>(l_t, share);

            if (g < GROUP && (lane & 3) == 0) {
                *(float2 *) (result + g * width + HYMT_HEAD_DIM)
                    = make_float2(m_t[0], l_t[0]);
            }
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
        __syncthreads();

        if (threadIdx.x == 0) {
            uint32_t  *counter;

            counter = args.counters + item.counter * args.n_kv + head;

            __threadfence();

            last = atomicAdd(counter, 1) + 1 == item.n_parts;

            if (last) {
                *counter = 0;
                __threadfence();
            }
        }

        __syncthreads();

        if (!last) {
            return;
        }

        state.template merge<true>(args.partial
                                   + ((size_t) item.partial * args.n_kv + head)
                                     * GROUP * HYMT_ATTN_PARTIAL,
                                   item.pos / HYMT_ATTN_TILE + 1,
                                   args.n_kv * GROUP * HYMT_ATTN_PARTIAL,
                                   HYMT_ATTN_PARTIAL);
    }

    state.store(args.o + (size_t) item.out * args.n_heads * HYMT_HEAD_DIM
                + head * GROUP * HYMT_HEAD_DIM);
}


template<int GROUP, int WARPS, bool SHARED>
static cudaError_t
hymt_attention_decode_run(const hymt_cuda_t *dev,
    const hymt_attention_args_t *args, cudaStream_t stream)
{
    enum { SMEM = WARPS * (SHARED ? HYMT_ATTN_KV : HYMT_ATTN_STAGE) };

    cudaError_t  err;

    err = cudaFuncSetAttribute(k_attention_decode_bf16<GROUP, WARPS, SHARED>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               SMEM);

    if (SHARED && err == cudaSuccess) {
        err = cudaFuncSetAttribute(
                              k_attention_decode_bf16<GROUP, WARPS, SHARED>,
                              cudaFuncAttributePreferredSharedMemoryCarveout,
                              cudaSharedmemCarveoutMaxShared);
    }

    if (err != cudaSuccess) {
        return err;
    }

    hymt_launch(k_attention_decode_bf16<GROUP, WARPS, SHARED>,
                dim3(args->n_kv, args->grid), dim3(WARPS * 32), SMEM, stream,
                dev->pdl, *args);

    return cudaGetLastError();
}


/*
 * Few blocks: four tiles at once, for the time of one row.  More: two, so that
 * three blocks share a multiprocessor and one's loads cover another's
 * arithmetic.  More than that: six, each with half the memory, rather than one
 * after the other; in mixed steps alone, as this pays while contexts are of two
 * tiles and costs a tenth where they are of four.
 */
template<int GROUP>
static cudaError_t
hymt_attention_decode_group(const hymt_cuda_t *dev,
    const hymt_attention_args_t *args, cudaStream_t stream)
{
    if (args->grid * args->n_kv <= dev->sms
        && dev->smem >= 5 * HYMT_ATTN_STAGE)
    {
        return hymt_attention_decode_run<GROUP, 4, false>(dev, args, stream);
    }

    if (args->mixed && args->grid * args->n_kv > 3 * dev->sms) {
        return hymt_attention_decode_run<GROUP, 2, true>(dev, args, stream);
    }

    return hymt_attention_decode_run<GROUP, 2, false>(dev, args, stream);
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
