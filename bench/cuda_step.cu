/*
 * cuda_step.cu - what whole steps of the CUDA backend cost, beside what the
 * device could do.
 *
 * Through the backend's table, as the engine drives it: decode steps fed by the
 * token last sampled with two in flight, prompts alone.  "device" is the time
 * by events, "wall" from one collected step to the next, "cpu" what the driving
 * thread used of its core: medians, in ms.
 *
 * The floor is the larger of two times: weights, KV and logits (written once,
 * read once) over the read bandwidth, and multiplications over the matmul rate,
 * both measured here first.
 *
 *     cuda_step MODEL
 */

#include "../kernels/cuda/ptx.cuh"

extern "C" {
#include "../engine/backend.h"
#include "../engine/selftest.h"
}

#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vector>


#define BATCH     256
#define ROWS      (BATCH + 2048)
#define CONTEXT   2048
#define SPAN      256            /* tokens of KV a sequence has */
#define STEPS     60             /* of a decode case, centred on its context */


#define gpu(call)                                                             \
    do {                                                                      \
        cudaError_t  gpu_rc = (call);                                         \
        if (gpu_rc != cudaSuccess) {                                          \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(gpu_rc));   \
            exit(1);                                                          \
        }                                                                     \
    } while (0)


#include "cuda_ceiling.cuh"


typedef struct {
    double  device, again, wall, cpu;   /* ms */
} times_t;


typedef struct {
    const hymt_backend_ops_t  *ops;
    hymt_backend_t            *b;
    hymt_model_t              *model;
    hymt_batch_seq_t           seqs[BATCH];
    uint32_t                   tokens[CONTEXT + BATCH];
    uint32_t                   blocks[BATCH * SPAN / HYMT_KV_BLOCK];
    double                     bandwidth, matmul;
    double                     weights, kv_token, params;
} bench_t;


static hymt_error_t  err;


static void
die(const char *what)
{
    fprintf(stderr, "cuda_step: %s: %s\n", what, err.text);
    exit(1);
}


static double
median(std::vector<double> v)
{
    std::sort(v.begin(), v.end());

    return v.empty() ? 0 : v[v.size() / 2];
}


static double
thread_ms(void)
{
    struct timespec  t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);

    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}


/* ---- the ceilings ---- */

__global__ void
k_fill(uint32_t *p, size_t n)
{
    size_t  i;

    /* bf16 pairs around 1, of both signs */

    for (i = (size_t) blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (size_t) gridDim.x * blockDim.x)
    {
        p[i] = ((uint32_t) i * 2654435761u & 0x807f807fu) | 0x3f803f80u;
    }
}


static void
measure_ceilings(bench_t *t)
{
    void  *p;

    const size_t  bytes = (size_t) 2 << 30;

    gpu(cudaMalloc(&p, bytes));
    k_fill<<<1024, 256>>>((uint32_t *) p, bytes / 4);

    t->bandwidth = ceiling_read(p, bytes, 0);
    t->matmul = ceiling_matmul(p, 0);

    gpu(cudaFree(p));
}


/* ---- the backend ---- */

static void
open_backend(bench_t *t, const char *dir)
{
    uint64_t                start, made, weights, kv, other;
    uint32_t                i;
    const hymt_config_t    *c;
    hymt_backend_params_t   p;

    memset(&p, 0, sizeof(p));
    p.max_batch = BATCH;
    p.max_rows = ROWS;
    p.context = CONTEXT;
    p.n_blocks = BATCH * SPAN / HYMT_KV_BLOCK;

    start = hymt_now_ns();

    if (hymt_model_open(dir, &t->model, &err) != HYMT_OK) {
        die(dir);
    }

    c = &t->model->config;

    if (t->ops->create(&p, t->model, &t->b, &err) != HYMT_OK) {
        die("create");
    }

    made = hymt_now_ns();

    if (hymt_selftest(t->ops, t->b, &p, c, &err) != HYMT_OK) {
        die("self-test");
    }

    printf("ready in %.3f s: open and create %.3f, self-test %.3f\n",
           (hymt_now_ns() - start) / 1e9, (made - start) / 1e9,
           (hymt_now_ns() - made) / 1e9);
    printf("%s\n", t->ops->describe(t->b));

    t->ops->memory(t->b, &weights, &kv, &other);
    t->weights = (double) weights;
    t->params = (double) t->model->n_params;
    t->kv_token = 2.0 * 2 * HYMT_KV_BLOCK * 8 * c->n_layers * c->n_kv_heads;

    for (i = 0; i < BATCH * SPAN / HYMT_KV_BLOCK; i++) {
        t->blocks[i] = i;
    }

    for (i = 0; i < CONTEXT + BATCH; i++) {
        t->tokens[i] = (uint32_t) ((i + 1) * 2654435761u) % c->vocab;
    }
}


static void
begin(bench_t *t, uint32_t slot, bool greedy)
{
    hymt_sampling_t  s;

    memset(&s, 0, sizeof(s));
    s.temperature = greedy ? 0 : 0.7f;
    s.top_k = 20;
    s.top_p = 0.6f;
    s.repetition_penalty = greedy ? 1 : 1.05f;
    s.seed = slot + 1;

    t->ops->slot_begin(t->b, slot, &s, t->tokens, SPAN / 2);
}


/*
 * Each prompt begins at another token: rows of a step that are equal take less
 * power, and where that is the limit less time than any that are served.
 */
static void
set_seq(bench_t *t, uint32_t i, uint32_t rows, uint32_t pos, bool prompt)
{
    hymt_batch_seq_t  *s;

    s = &t->seqs[i];

    memset(s, 0, sizeof(*s));
    s->slot = i;
    s->n_rows = rows;
    s->pos = pos;
    s->tokens = prompt ? t->tokens + i + pos : NULL;
    s->blocks = t->blocks + (rows > SPAN ? 0 : i * (SPAN / HYMT_KV_BLOCK));
    s->sample = true;
    s->n_out = prompt ? 0 : pos;
}


static void
launch(bench_t *t, uint32_t first, uint32_t n, uint32_t rows)
{
    hymt_batch_t  batch;

    memset(&batch, 0, sizeof(batch));
    batch.seqs = t->seqs + first;
    batch.n_seqs = n;
    batch.n_rows = n * rows;

    if (t->ops->launch(t->b, &batch, &err) != HYMT_OK) {
        die("launch");
    }
}


static void
collect(bench_t *t)
{
    static uint32_t  tokens[BATCH];

    if (t->ops->collect(t->b, tokens, &err) != HYMT_OK) {
        die("collect");
    }
}


/* Contexts of `pos` tokens for the first n sequences. */
static void
fill(bench_t *t, uint32_t n, uint32_t pos, bool greedy)
{
    uint32_t  i, j, many;

    for (i = 0; i < n; i++) {
        begin(t, i, greedy);
        set_seq(t, i, pos, 0, true);
    }

    for (i = 0; i < n; i += many) {
        many = hymt_min(n - i, 2048 / pos);

        for (j = 0; j < many; j++) {
            t->seqs[i + j].slot = i + j;
        }

        launch(t, i, many, pos);
        collect(t);
    }
}


static times_t
decode(bench_t *t, uint32_t n, uint32_t context, bool greedy)
{
    double                 now, then, cpu;
    times_t                r;
    uint32_t               i, j, first;
    std::vector<double>    device, wall, half[2];

    first = context - STEPS / 2;
    fill(t, n, first, greedy);
    cpu = 0;
    then = 0;

    for (i = 0; i <= STEPS; i++) {
        if (i < STEPS) {
            for (j = 0; j < n; j++) {
                set_seq(t, j, 1, first + i, false);
            }

            launch(t, 0, n, 1);
        }

        if (i == 0) {
            cpu = thread_ms();
            continue;
        }

        collect(t);
        now = hymt_now_ns() / 1e6;

        /* the first ones warm up */

        if (i > 4) {
            device.push_back(t->ops->step_ns(t->b) / 1e6);
            half[i % 2].push_back(device.back());
            wall.push_back(now - then);
        }

        then = now;
    }

    r.device = median(device);
    r.again = median(half[0]) - median(half[1]);
    r.wall = median(wall);
    r.cpu = (thread_ms() - cpu) / STEPS;

    return r;
}


static times_t
prefill(bench_t *t, uint32_t n, uint32_t rows)
{
    double               start, cpu;
    times_t              r;
    uint32_t             i, j;
    std::vector<double>  device, wall, half[2];

    for (j = 0; j < n; j++) {
        begin(t, j, true);
        set_seq(t, j, rows, 0, true);
    }

    cpu = 0;

    for (i = 0; i < 24; i++) {
        if (i == 4) {
            cpu = thread_ms();
        }

        start = hymt_now_ns() / 1e6;
        launch(t, 0, n, rows);
        collect(t);

        if (i >= 4) {
            wall.push_back(hymt_now_ns() / 1e6 - start);
            device.push_back(t->ops->step_ns(t->b) / 1e6);
            half[i % 2].push_back(device.back());
        }
    }

    r.device = median(device);
    r.again = median(half[0]) - median(half[1]);
    r.wall = median(wall);
    r.cpu = (thread_ms() - cpu) / 20;

    return r;
}


static void
print(const bench_t *t, const char *what, const times_t *r, double rows,
    double logits, double kv)
{
    double  bytes, flops, floor;

    /* tied: the embedding's bytes are the head's; a row of it is nothing */

    bytes = t->weights + kv * t->kv_token
            + logits * t->model->config.vocab * 4.0;
    flops = 2 * (rows * (t->params - (double) t->model->config.vocab
                                     * t->model->config.hidden)
                 + logits * t->model->config.vocab
                   * t->model->config.hidden);

    floor = hymt_max(bytes / t->bandwidth, flops / t->matmul) * 1e3;

    printf("%-28s device %8.3f (%+.3f)  wall %8.3f  cpu %6.3f  floor %7.3f "
           " %3.0f %%\n", what, r->device, r->again, r->wall, r->cpu, floor,
           floor / r->device * 100);
}


int
main(int argc, char **argv)
{
    char            what[64];
    size_t          i;
    times_t         r;
    static bench_t  t;

    static const uint32_t  batches[] = { 1, 16, 64, 256 };

    static const struct {
        uint32_t  n, rows;
    } prompts[] = { { 1, 60 }, { 8, 60 }, { 34, 60 }, { 1, 2048 } };

    if (argc != 2) {
        fprintf(stderr, "usage: cuda_step MODEL\n");
        return 2;
    }

    t.ops = hymt_backend_find("cuda", &err);
    if (t.ops == NULL) {
        die("backend cuda");
    }

    /* first: being ready includes the device's context */

    open_backend(&t, argv[1]);

    measure_ceilings(&t);
    printf("read bandwidth %.2f TB/s, matmul %.0f TFLOP/s\n",
           t.bandwidth / 1e12, t.matmul / 1e12);

    for (i = 0; i < hymt_nelts(batches); i++) {
        r = decode(&t, batches[i], 200, false);
        snprintf(what, sizeof(what), "decode %u x ctx 200", batches[i]);
        print(&t, what, &r, batches[i], batches[i], batches[i] * 200.0);
    }

    r = decode(&t, BATCH, 200, true);
    snprintf(what, sizeof(what), "decode %u, greedy", BATCH);
    print(&t, what, &r, BATCH, BATCH, BATCH * 200.0);

    for (i = 0; i < hymt_nelts(prompts); i++) {
        r = prefill(&t, prompts[i].n, prompts[i].rows);
        snprintf(what, sizeof(what), "prompts %u x %u", prompts[i].n,
                 prompts[i].rows);
        print(&t, what, &r, prompts[i].n * prompts[i].rows, prompts[i].n, 0);
    }

    t.ops->destroy(t.b);
    hymt_model_close(t.model);

    return 0;
}
