/*
 * cuda_attention.cu - how fast paged attention is: decode at several batch
 * sizes and contexts, prompts of several lengths, for the shapes of the 1.8B
 * and the 7B model.
 *
 * A graph is a chain of layers, each with a cache of its own, as many as are
 * needed to leave nothing in the L2 between two replays; a figure is the
 * median time of a replay over its layers, with programmatic dependent launch
 * where the device has it.  Decode is compared with the read bandwidth, prefill
 * with the rate of a large matrix product, both measured in the same run.
 */

#include "kernels.h"
#include "ptx.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define REPLAYS    21
#define L2_BYTES   (200ull << 20)       /* read between two uses of a cache */
#define MAX_LAYERS 512


typedef struct {
    const char *name;
    uint32_t    n_heads;
    uint32_t    n_kv;
} model_t;


static const model_t  models[] = {
    { "1.8B", 16, 4 },
    { "7B", 32, 8 },
};


static hymt_cuda_t  dev;
static double       read_rate;          /* bytes/s */
static double       matmul_rate;        /* FLOP/s */
static uint8_t     *pool;
static size_t       pool_bytes;


#define gpu(call)                                                             \
    do {                                                                      \
        cudaError_t  gpu_rc = (call);                                         \
        if (gpu_rc != cudaSuccess) {                                          \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,     \
                    cudaGetErrorString(gpu_rc));                              \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

#include "cuda_ceiling.cuh"


/* bf16 of a small range of exponents, from a hash of the index */
__global__ void
k_fill(uint32_t *p, size_t n)
{
    for (size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; i < n;
         i += (size_t) gridDim.x * blockDim.x)
    {
        uint32_t  x;

        x = (uint32_t) i * 2654435761u + (uint32_t) (i >> 32);
        x ^= x >> 15;
        x *= 2246822519u;
        x ^= x >> 13;
        p[i] = (x & 0x807f807fu) | 0x3f003f00u;
    }
}


static int
compare(const void *one, const void *two)
{
    float  a, b;

    a = *(const float *) one;
    b = *(const float *) two;

    return (a > b) - (a < b);
}


/* Median seconds of a replay. */
static double
time_graph(cudaGraphExec_t exec)
{
    float        ms[REPLAYS];
    cudaEvent_t  from, to;

    gpu(cudaEventCreate(&from));
    gpu(cudaEventCreate(&to));

    for (int i = -3; i < REPLAYS; i++) {
        gpu(cudaEventRecord(from, dev.stream));
        gpu(cudaGraphLaunch(exec, dev.stream));
        gpu(cudaEventRecord(to, dev.stream));
        gpu(cudaEventSynchronize(to));

        if (i >= 0) {
            gpu(cudaEventElapsedTime(&ms[i], from, to));
        }
    }

    cudaEventDestroy(from);
    cudaEventDestroy(to);
    qsort(ms, REPLAYS, sizeof(ms[0]), compare);

    return ms[REPLAYS / 2] * 1e-3;
}


static void
begin(void)
{
    gpu(cudaStreamBeginCapture(dev.stream, cudaStreamCaptureModeThreadLocal));
}


static double
end(void)
{
    double           seconds;
    cudaGraph_t      graph;
    cudaGraphExec_t  exec;

    gpu(cudaStreamEndCapture(dev.stream, &graph));
    gpu(cudaGraphInstantiate(&exec, graph, 0));

    seconds = time_graph(exec);

    gpu(cudaGraphExecDestroy(exec));
    gpu(cudaGraphDestroy(graph));

    return seconds;
}


/* What a launch needs beside the cache, for up to `rows` rows. */
typedef struct {
    hymt_attention_args_t  args;
    hymt_bf16_t           *q;           /* and qkv: prefill reads the front */
    hymt_bf16_t           *turns;
    uint32_t              *tables;
    hymt_attention_item_t *items;
    uint32_t              *n_items;
} buffers_t;


static void
buffers_init(buffers_t *b, const model_t *model, uint32_t n_seqs, uint32_t ctx,
    uint32_t rows, const hymt_attention_item_t *items, uint32_t n_items,
    uint32_t n_tiles)
{
    size_t     q, turns;
    uint32_t  *tables, n_pages, pages, swap, j;

    pages = (ctx + HYMT_KV_PAGE - 1) / HYMT_KV_PAGE;
    n_pages = n_seqs * pages;
    tables = (uint32_t *) malloc(n_pages * 4);

    for (uint32_t i = 0; i < n_pages; i++) {
        tables[i] = i;
    }

    for (uint32_t i = n_pages - 1; i > 0; i--) {
        j = rand() % (i + 1);
        swap = tables[i];
        tables[i] = tables[j];
        tables[j] = swap;
    }

    q = (size_t) rows * (model->n_heads + 2 * model->n_kv) * HYMT_HEAD_DIM;
    turns = ((size_t) ctx * 2 + 2) * HYMT_HEAD_DIM;

    memset(b, 0, sizeof(*b));
    gpu(cudaMalloc(&b->tables, n_pages * 4));
    gpu(cudaMalloc(&b->items, n_items * sizeof(*items)));
    gpu(cudaMalloc(&b->n_items, 4));
    gpu(cudaMalloc(&b->q, q * 2));
    gpu(cudaMalloc(&b->turns, turns * 2));
    gpu(cudaMalloc(&b->args.o, q * 2));
    gpu(cudaMalloc(&b->args.partial, (size_t) n_tiles * model->n_heads
                                     * (HYMT_HEAD_DIM + 2) * 4 + 4));
    gpu(cudaMalloc(&b->args.counters, rows * model->n_kv * 4));
    gpu(cudaMemset(b->args.counters, 0, rows * model->n_kv * 4));
    gpu(cudaMemcpy(b->tables, tables, n_pages * 4, cudaMemcpyHostToDevice));
    gpu(cudaMemcpy(b->items, items, n_items * sizeof(*items),
                   cudaMemcpyHostToDevice));
    gpu(cudaMemcpy(b->n_items, &n_items, 4, cudaMemcpyHostToDevice));
    k_fill<<<1024, 256>>>((uint32_t *) b->q, q / 2);
    k_fill<<<1024, 256>>>((uint32_t *) b->turns, turns / 2);
    gpu(cudaDeviceSynchronize());

    b->args.q = b->q;
    b->args.qkv = b->q;
    b->args.rope.q_norm = b->turns;
    b->args.rope.k_norm = b->turns + HYMT_HEAD_DIM;
    b->args.rope.cos = b->turns + 2 * HYMT_HEAD_DIM;
    b->args.rope.sin = b->args.rope.cos + ctx * HYMT_HEAD_DIM / 2;
    b->args.rope.context = ctx;
    b->args.rope.eps = 1e-5f;
    b->args.tables = b->tables;
    b->args.items = b->items;
    b->args.n_items = b->n_items;
    b->args.grid = n_items;
    b->args.n_heads = model->n_heads;
    b->args.n_kv = model->n_kv;

    free(tables);
}


static void
buffers_free(buffers_t *b)
{
    cudaFree(b->tables);
    cudaFree(b->items);
    cudaFree(b->n_items);
    cudaFree(b->q);
    cudaFree(b->turns);
    cudaFree(b->args.o);
    cudaFree(b->args.partial);
    cudaFree(b->args.counters);
}


/* Seconds of a layer: a chain over as many caches as it takes. */
static double
time_layers(buffers_t *b, bool prefill, size_t cache_bytes)
{
    uint32_t  n;
    double    seconds;

    n = (uint32_t) (L2_BYTES / cache_bytes + 1);
    n = n < 8 ? 8 : n > MAX_LAYERS ? MAX_LAYERS : n;

    begin();

    for (uint32_t i = 0; i < n; i++) {
        b->args.cache = (hymt_bf16_t *) (pool + i * cache_bytes
                                                      % (pool_bytes
                                                         - cache_bytes)
                                                      / 4096 * 4096);

        gpu(prefill ? hymt_cuda_attention_prefill(&dev, &b->args, dev.stream)
                    : hymt_cuda_attention_decode(&dev, &b->args, dev.stream));
    }

    seconds = end() / n;

    return seconds;
}


static void
bench_decode(const model_t *model, uint32_t batch, uint32_t ctx)
{
    double                 best, seconds, bytes;
    size_t                 cache_bytes;
    uint32_t               n, n_tiles, n_parts, best_tiles, at;
    buffers_t              b;
    hymt_attention_item_t *items;

    static const uint32_t  parts[] = { 0, 1, 2, 4, 8, 16 };

    n_tiles = (ctx + HYMT_ATTN_TILE - 1) / HYMT_ATTN_TILE;
    cache_bytes = (size_t) batch * ((ctx + HYMT_KV_PAGE - 1) / HYMT_KV_PAGE)
                  * model->n_kv * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM * 2;
    bytes = (double) batch * ctx * model->n_kv * 512;

    items = (hymt_attention_item_t *) calloc((size_t) batch * n_tiles,
                                             sizeof(*items));
    best = 1e9;
    best_tiles = 0;

    printf("decode %-4s batch %3u ctx %4u:", model->name, batch, ctx);

    for (uint32_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        n_parts = parts[i] ? (n_tiles + parts[i] - 1) / parts[i] : 1;

        if (parts[i] && (n_parts == 1 || batch * model->n_kv * n_parts > 1500))
        {
            continue;
        }

        n = 0;

        for (uint32_t row = 0; row < batch; row++) {
            for (uint32_t part = 0; part < n_parts; part++) {
                at = part * parts[i];

                items[n].row = row;
                items[n].n_rows = 1;
                items[n].pos = ctx - 1;
                items[n].table = row * ((ctx + HYMT_KV_PAGE - 1)
                                        / HYMT_KV_PAGE);
                items[n].part = part;
                items[n].n_parts = n_parts;
                items[n].first_tile = at;
                items[n].end_tile = n_parts == 1 || at + parts[i] > n_tiles
                                    ? n_tiles : at + parts[i];
                items[n].partial = row * n_tiles;
                items[n].counter = row;
                n++;
            }
        }

        buffers_init(&b, model, batch, ctx, batch, items, n, batch * n_tiles);
        seconds = time_layers(&b, false, cache_bytes);
        buffers_free(&b);

        printf(" %u:%.2f", parts[i], seconds * 1e6);

        if (seconds < best) {
            best = seconds;
            best_tiles = parts[i];
        }
    }

    printf("  best %u: %.2f us, %.0f GB/s, %.0f %%\n", best_tiles, best * 1e6,
           bytes / best * 1e-9, 100 * bytes / best / read_rate);
    fflush(stdout);

    free(items);
}


/*
 * A whole prompt from position 0 in one launch, its end first, as in a step;
 * `from`: the last rows of it.
 */
static void
bench_prefill(const model_t *model, uint32_t n_seqs, uint32_t from,
    uint32_t ctx)
{
    double                 seconds, flop;
    size_t                 cache_bytes;
    uint32_t               n, pos, rows, most;
    buffers_t              b;
    hymt_attention_item_t *items;

    most = hymt_attention_rows(model->n_heads / model->n_kv);
    items = (hymt_attention_item_t *) calloc(n_seqs * (ctx / most + 1),
                                             sizeof(*items));
    n = 0;
    flop = 0;

    for (uint32_t seq = 0; seq < n_seqs; seq++) {
        for (uint32_t end = ctx; end > from; end = pos) {
            pos = from + (end - from - 1) / most * most;
            rows = end - pos;

            items[n].row = seq * (ctx - from) + pos - from;
            items[n].n_rows = rows;
            items[n].pos = pos;
            items[n].table = seq * ((ctx + HYMT_KV_PAGE - 1) / HYMT_KV_PAGE);
            n++;
        }

        for (pos = from; pos < ctx; pos++) {
            flop += 4.0 * (pos + 1) * model->n_heads * HYMT_HEAD_DIM;
        }
    }

    cache_bytes = (size_t) n_seqs * ((ctx + HYMT_KV_PAGE - 1) / HYMT_KV_PAGE)
                  * model->n_kv * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM * 2;

    buffers_init(&b, model, n_seqs, ctx, n_seqs * (ctx - from), items, n, 0);
    seconds = time_layers(&b, true, cache_bytes);
    buffers_free(&b);

    printf("prefill %-4s %2u x %4u..%4u: %.2f us, %.0f TFLOP/s, %.0f %%%s\n",
           model->name, n_seqs, from, ctx, seconds * 1e6,
           flop / seconds * 1e-12, 100 * flop / seconds / matmul_rate,
           dev.cc == 90 ? "" : ", mma.sync");
    fflush(stdout);

    free(items);
}


int
main(int argc, char **argv)
{
    bool            decode, prefill;
    cudaDeviceProp  prop;

    static const uint32_t  batches[] = { 1, 16, 64, 256 };
    static const uint32_t  contexts[] = { 200, 500, 1000, 8192 };

    /* "decode" or "prefill": that alone */

    decode = argc < 2 || strcmp(argv[1], "decode") == 0;
    prefill = argc < 2 || strcmp(argv[1], "prefill") == 0;

    gpu(cudaGetDeviceProperties(&prop, 0));

    dev.cc = prop.major * 10 + prop.minor;
    dev.sms = prop.multiProcessorCount;
    dev.smem = prop.sharedMemPerBlockOptin;
    dev.pdl = dev.cc / 10 == 9;
    gpu(cudaStreamCreateWithFlags(&dev.stream, cudaStreamNonBlocking));

    pool_bytes = 10ull << 30;
    gpu(cudaMalloc(&pool, pool_bytes));
    k_fill<<<4096, 256>>>((uint32_t *) pool, pool_bytes / 4);
    gpu(cudaDeviceSynchronize());

    read_rate = ceiling_read(pool, 4ull << 30, dev.stream);
    matmul_rate = ceiling_matmul(pool, dev.stream);

    printf("%s: reads %.0f GB/s, matrix product %.0f TFLOP/s\n"
           "us a layer; n:us is n tiles a part, 0: one part\n",
           prop.name, read_rate * 1e-9, matmul_rate * 1e-12);

    for (uint32_t m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
        for (uint32_t i = 0; decode && i < 16; i++) {
            bench_decode(&models[m], batches[i / 4], contexts[i % 4]);
        }

        for (int i = 0; prefill && i < (prop.major == 9 ? 2 : 1); i++) {
            dev.cc = i == 0 ? prop.major * 10 + prop.minor : 80;

            bench_prefill(&models[m], 1, 0, 60);
            bench_prefill(&models[m], 8, 0, 60);
            bench_prefill(&models[m], 1, 0, 200);
            bench_prefill(&models[m], 1, 0, 600);
            bench_prefill(&models[m], 1, 0, 2048);
            bench_prefill(&models[m], 1, 1536, 2048);
        }

        dev.cc = prop.major * 10 + prop.minor;
    }

    return 0;
}
