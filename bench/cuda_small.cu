/*
 * cuda_small.cu - the kernels between the matrices and the sampler, timed as
 * they run in a step: nodes of a CUDA graph with programmatic dependent launch.
 *
 * Each line is the time of one node, the median of many replays, all buffers
 * rotated past the L2 cache; bytes are what the operator must move, and the
 * share is that of the read bandwidth measured in the same run.  The first
 * line, a chain of empty kernels, is what a node costs that does nothing.  "In
 * L2": all nodes on the same buffers, as in a decode step, where the product
 * before has just written them.
 *
 *     cuda_small [sampler | hidden ffn heads kv_heads]
 */

#include "kernels.h"
#include "ptx.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define NODES    48
#define REPLAYS  21
#define VOCAB    120818u
#define LD       120832u
#define CONTEXT  4096u
#define POOL     ((size_t) 2 << 30)


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


typedef struct {
    float     temperature;
    float     top_p;
    uint32_t  top_k;
    float     penalty;
} setting_t;


/* Launches node i of a chain. */
typedef void (*node_pt)(uint32_t i, uint32_t rows, const void *setting);


static hymt_cuda_t         dev;
static unsigned char      *pool;        /* POOL bytes of bf16 */
static hymt_bf16_t        *logits;      /* four sets of 256 rows */
static uint32_t           *numbers;     /* small integers: ids, positions */
static hymt_sample_row_t  *sample;
static uint32_t           *state;       /* seen, last, out, bad */
static void               *scratch;
static double              bandwidth;   /* bytes/s */

static uint32_t            hidden = 2048, ffn = 6144, n_heads = 16, n_kv = 4;


static __global__ void
k_fill_bf16(hymt_bf16_t *x, size_t n)
{
    size_t    i;
    uint32_t  h;

    for (i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; i < n;
         i += (size_t) gridDim.x * blockDim.x)
    {
        h = (uint32_t) i * 2654435761u;
        h = (h ^ h >> 15) * 2246822519u;
        x[i] = __float2bfloat16_rn((float) (h >> 8) * 0x1p-23f - 1);
    }
}


/* About normal with a deviation of 3, as logits are. */
static __global__ void
k_fill_logits(hymt_bf16_t *x, size_t n)
{
    int       j;
    float     sum;
    size_t    i;
    uint64_t  h;

    for (i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; i < n;
         i += (size_t) gridDim.x * blockDim.x)
    {
        h = (i + 1) * 0x9e3779b97f4a7c15u;
        sum = 0;

        for (j = 0; j < 8; j++) {
            h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
            sum += (float) (h >> 40) * 0x1p-24f - 0.5f;
        }

        x[i] = __float2bfloat16_rn(sum * 3.67f);
    }
}


static __global__ void
k_nothing(uint32_t unused)
{
    (void) unused;

    hymt_grid_launch();
    hymt_grid_wait();
}


static int
by_value(const void *one, const void *two)
{
    const float  *a = (const float *) one, *b = (const float *) two;

    return *a < *b ? -1 : *a > *b;
}


/* Median microseconds of one node of a chain. */
static double
time_chain(node_pt node, uint32_t nodes, uint32_t rows, const void *setting)
{
    float            ms[REPLAYS];
    uint32_t         i;
    cudaEvent_t      begin, end;
    cudaGraph_t      graph;
    cudaGraphExec_t  exec;

    gpu(cudaStreamBeginCapture(dev.stream, cudaStreamCaptureModeThreadLocal));

    for (i = 0; i < nodes; i++) {
        node(i, rows, setting);
    }

    gpu(cudaStreamEndCapture(dev.stream, &graph));
    gpu(cudaGraphInstantiate(&exec, graph, 0));
    gpu(cudaEventCreate(&begin));
    gpu(cudaEventCreate(&end));

    for (i = 0; i < 3; i++) {
        gpu(cudaGraphLaunch(exec, dev.stream));
    }

    for (i = 0; i < REPLAYS; i++) {
        gpu(cudaEventRecord(begin, dev.stream));
        gpu(cudaGraphLaunch(exec, dev.stream));
        gpu(cudaEventRecord(end, dev.stream));
        gpu(cudaEventSynchronize(end));
        gpu(cudaEventElapsedTime(&ms[i], begin, end));
    }

    gpu(cudaEventDestroy(begin));
    gpu(cudaEventDestroy(end));
    gpu(cudaGraphExecDestroy(exec));
    gpu(cudaGraphDestroy(graph));

    qsort(ms, REPLAYS, sizeof(float), by_value);

    return (double) ms[REPLAYS / 2] * 1e3 / nodes;
}


/* The i-th piece of so many bytes, round and round the pool. */
static hymt_bf16_t *
piece(uint32_t i, size_t bytes)
{
    bytes = (bytes + 255) / 256 * 256;

    return (hymt_bf16_t *) (pool + i % (POOL / bytes) * bytes);
}


static void
node_nothing(uint32_t i, uint32_t rows, const void *setting)
{
    (void) rows;
    (void) setting;

    gpu(hymt_launch(k_nothing, dim3(1), dim3(128), 0, dev.stream, dev.pdl, i));
}


static void
node_embed(uint32_t i, uint32_t rows, const void *setting)
{
    size_t             bytes;
    hymt_embed_args_t  args;

    (void) setting;

    bytes = (size_t) rows * hidden * 2;

    args.embed = (hymt_bf16_t *) pool;
    args.tokens = numbers + i * 7;
    args.last = numbers;
    args.weight = piece(0, hidden * 2);
    args.x = piece(8 + i * 2, bytes);
    args.h = piece(9 + i * 2, bytes);
    args.rows = rows;
    args.hidden = hidden;
    args.vocab = VOCAB;
    args.eps = 1e-5f;

    gpu(hymt_cuda_embed(&dev, &args, dev.stream));
}


static void
node_add_norm(uint32_t i, uint32_t rows, const void *setting)
{
    size_t            bytes;
    hymt_norm_args_t  args;

    (void) setting;

    bytes = (size_t) rows * hidden * 2;

    args.x = piece(1 + i * 3, bytes);
    args.y = piece(2 + i * 3, bytes);
    args.sum = piece(1 + i * 3, bytes);
    args.h = piece(3 + i * 3, bytes);
    args.weight = piece(0, hidden * 2);
    args.gather = NULL;
    args.rows = rows;
    args.hidden = hidden;
    args.eps = 1e-5f;

    gpu(hymt_cuda_add_norm(&dev, &args, dev.stream));
}


static void
node_add_norm_hot(uint32_t i, uint32_t rows, const void *setting)
{
    (void) i;

    node_add_norm(0, rows, setting);
}


static void
node_silu(uint32_t i, uint32_t rows, const void *setting)
{
    size_t  bytes;

    (void) setting;

    bytes = (size_t) rows * ffn * 2;

    gpu(hymt_cuda_silu_mul(&dev, piece(i * 2, bytes * 2),
                           piece(i * 4 + 2, bytes), rows, ffn, dev.stream));
}


static void
node_rope(uint32_t i, uint32_t rows, const void *setting)
{
    size_t            bytes;
    hymt_rope_args_t  args;

    (void) setting;

    bytes = (size_t) rows * (n_heads + 2 * n_kv) * 256;

    args.qkv = piece(i * 3, bytes);
    args.q = piece(i * 3 + 1, bytes);
    args.cache = piece(i * 3 + 2, bytes);
    args.pos = numbers;
    args.kv_dest = (int32_t *) numbers + CONTEXT;
    args.rope.cos = (hymt_bf16_t *) pool;
    args.rope.sin = (hymt_bf16_t *) pool + CONTEXT * 64;
    args.rope.q_norm = piece(0, 256);
    args.rope.k_norm = piece(1, 256);
    args.rows = rows;
    args.n_heads = n_heads;
    args.n_kv = n_kv;
    args.rope.context = CONTEXT;
    args.rope.eps = 1e-5f;

    gpu(hymt_cuda_rope_append(&dev, &args, dev.stream));
}


static void
node_rope_hot(uint32_t i, uint32_t rows, const void *setting)
{
    (void) i;

    node_rope(1, rows, setting);
}


static void
node_sample(uint32_t i, uint32_t rows, const void *setting)
{
    hymt_sample_args_t  args;

    (void) setting;

    args.logits = logits + (size_t) (i * rows % 1024) * LD;
    args.ld = LD;
    args.vocab = VOCAB;
    args.rows = rows;
    args.sample = sample;
    args.seen_words = (VOCAB + 63) / 64 * 2;
    args.seen = state + 1024;
    args.last = state;
    args.out = state + 256;
    args.bad = state + 512;
    args.scratch = scratch;

    gpu(hymt_cuda_sample(&dev, &args, dev.stream));
}


static void
report(const char *what, uint32_t rows, node_pt node, uint32_t nodes,
    double bytes, const void *setting)
{
    double  us, again;

    us = time_chain(node, nodes, rows, setting);
    again = time_chain(node, nodes, rows, setting);

    printf("%-28s %5u rows %8.2f us  (again %8.2f) %7.0f GB/s %5.1f %%\n", what,
           rows, us, again, bytes / us / 1e3, bytes / us * 1e8 / bandwidth);
    fflush(stdout);
}


static void
bench_bandwidth(void)
{
    bandwidth = ceiling_read(pool, POOL, dev.stream);
    printf("read bandwidth %.2f TB/s\n", bandwidth / 1e12);
    printf("an empty node %.2f us\n", time_chain(node_nothing, 200, 0, NULL));
}


static void
bench_sampler(const char *what, setting_t s)
{
    char               name[64];
    uint32_t           i, j;
    hymt_sample_row_t  row[256];

    static const uint32_t  rows[] = { 1, 16, 64, 256 };

    memset(row, 0, sizeof(row));

    for (i = 0; i < 256; i++) {
        row[i].slot = i;
        row[i].temperature = s.temperature;
        row[i].top_p = s.top_p;
        row[i].top_k = s.top_k;
        row[i].repetition_penalty = s.penalty;
        row[i].seed = i * 77;
    }

    gpu(cudaMemcpy(sample, row, sizeof(row), cudaMemcpyHostToDevice));

    for (j = 0; j < 4; j++) {
        snprintf(name, sizeof(name), "sample %s", what);
        report(name, rows[j], node_sample, 16, (double) rows[j] * VOCAB * 2,
               NULL);
    }
}


static void
set_up(void)
{
    size_t          n_state;
    uint32_t        i, *host;
    cudaDeviceProp  prop;

    gpu(cudaSetDevice(0));
    gpu(cudaGetDeviceProperties(&prop, 0));
    gpu(cudaStreamCreate(&dev.stream));

    dev.cc = prop.major * 10 + prop.minor;
    dev.sms = (uint32_t) prop.multiProcessorCount;
    dev.pdl = dev.cc / 10 == 9;

    printf("%s, hidden %u, ffn %u, heads %u and %u, vocabulary %u\n", prop.name,
           hidden, ffn, n_heads, n_kv, VOCAB);

    n_state = 1024 + (size_t) 256 * ((VOCAB + 63) / 64 * 2);

    gpu(cudaMalloc((void **) &pool, POOL));
    gpu(cudaMalloc((void **) &logits, (size_t) 1024 * LD * 2));
    gpu(cudaMalloc((void **) &numbers, CONTEXT * 8 * 4));
    gpu(cudaMalloc((void **) &sample, 256 * sizeof(*sample)));
    gpu(cudaMalloc((void **) &state, n_state * 4));
    gpu(cudaMalloc(&scratch, hymt_sampler_scratch(256, LD)));

    k_fill_bf16<<<1024, 256>>>((hymt_bf16_t *) pool, POOL / 2);
    k_fill_logits<<<1024, 256>>>(logits, (size_t) 1024 * LD);
    gpu(cudaGetLastError());

    /* positions and tokens; then places in pages, row after row */

    host = (uint32_t *) malloc(CONTEXT * 8 * 4);

    if (host == NULL) {
        exit(1);
    }

    for (i = 0; i < CONTEXT * 8; i++) {
        host[i] = i < CONTEXT ? i * 1237 % CONTEXT : i - CONTEXT;
    }

    gpu(cudaMemcpy(numbers, host, CONTEXT * 8 * 4, cudaMemcpyHostToDevice));
    free(host);

    /* a few hundred tokens of each slot's set */

    host = (uint32_t *) calloc(n_state, 4);

    if (host == NULL) {
        exit(1);
    }

    for (i = 0; i < 256 * 200; i++) {
        host[1024 + i * 2654435761u % (n_state - 1024)] |= 1u << i % 32;
    }

    gpu(cudaMemcpy(state, host, n_state * 4, cudaMemcpyHostToDevice));
    free(host);

    gpu(cudaDeviceSynchronize());
}


int
main(int argc, char **argv)
{
    size_t  i;
    double  r;

    static const uint32_t  rows[] = { 1, 16, 64, 256, 512, 2048 };

    if (argc == 5) {
        hidden = (uint32_t) strtoul(argv[1], NULL, 10);
        ffn = (uint32_t) strtoul(argv[2], NULL, 10);
        n_heads = (uint32_t) strtoul(argv[3], NULL, 10);
        n_kv = (uint32_t) strtoul(argv[4], NULL, 10);
    }

    set_up();
    bench_bandwidth();

    for (i = 0; argc != 2 && i < sizeof(rows) / sizeof(rows[0]); i++) {
        r = rows[i];

        report("embed", rows[i], node_embed, NODES, r * hidden * 6, NULL);
        report("add, norm", rows[i], node_add_norm, NODES, r * hidden * 8,
               NULL);
        report("add, norm, in L2", rows[i], node_add_norm_hot, NODES,
               r * hidden * 8, NULL);
        report("rope, norm, append", rows[i], node_rope, NODES,
               r * (n_heads + 2 * n_kv) * 512, NULL);
        report("rope, norm, append, in L2", rows[i], node_rope_hot, NODES,
               r * (n_heads + 2 * n_kv) * 512, NULL);
        report("silu, mul", rows[i], node_silu, NODES, r * ffn * 6, NULL);
    }

    bench_sampler("as recommended", { 0.7f, 0.6f, 20, 1.05f });
    bench_sampler("greedy", { 0, 1, 0, 1 });
    bench_sampler("top-k 50", { 1, 1, 50, 1 });
    bench_sampler("top-p alone", { 1, 0.95f, 0, 1 });
    bench_sampler("temperature alone", { 1, 1, 0, 1 });

    return 0;
}
