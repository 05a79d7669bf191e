/*
 * cpu.c - how fast the CPU backend is: decode at several batch sizes, prefill,
 * and the memory it reads for that against what the host can read.
 *
 * Decoding one token for each of a batch reads every weight once, and the KV of
 * each sequence; bytes over time is compared with a plain read of a large
 * buffer by the same threads, measured before and after in the same run.
 * Figures are medians of the steps; the best step is beside them, for hosts
 * that have other things to do.
 */

#include "backend.h"
#include "pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>


#define BENCH_BATCH      32
#define BENCH_PROMPT     64            /* tokens before the decoded ones */
#define BENCH_CONTEXT    512
#define BENCH_ROWS       256
#define BENCH_BLOCKS     (BENCH_BATCH * BENCH_CONTEXT / HYMT_KV_BLOCK)
#define BENCH_MAX_STEPS  99

#define BENCH_READ_SIZE  (512ull << 20)
#define BENCH_READ_PART  (1ull << 20)


typedef struct {
    uint32_t  threads;
    uint32_t  steps;
    double    read;            /* GB/s */
} bench_t;


/* Seconds of a step: the median, the best. */
typedef struct {
    double    decode[5];
    double    decode_best[5];
    double    prefill;
    double    prefill_best;
    uint64_t  weights;         /* bytes that a step reads */
    uint64_t  kv_token;        /* bytes of KV of one token */
} bench_times_t;


static const uint32_t  bench_batches[] = { 1, 4, 8, 16, 32 };


static hymt_status_t bench_model(const bench_t *bench, const char *dir,
    hymt_error_t *err);
static hymt_status_t bench_shape(const bench_t *bench, hymt_error_t *err);
static hymt_status_t bench_shape_model(hymt_model_t *model, int fd,
    hymt_error_t *err);
static int bench_random_file(uint64_t bytes);
static hymt_status_t bench_run(const bench_t *bench, const hymt_model_t *model,
    bool sample, bench_times_t *t, hymt_error_t *err);
static hymt_status_t bench_step(hymt_backend_t *b, uint32_t n_seqs,
    uint32_t n_rows, uint32_t pos, uint32_t vocab, bool sample,
    double *seconds, hymt_error_t *err);
static void bench_median(double *x, uint32_t n, double *median,
    double *best);
static int bench_compare(const void *one, const void *two);
static void bench_print(const bench_t *bench, const bench_times_t *t);
static double bench_read(uint32_t threads);
static void bench_read_item(void *arg, uint32_t item, uint32_t thread);


static const char  bench_help[] =
    "Usage: cpu MODEL [THREADS [STEPS]]\n"
    "       cpu --shape 1.8B-layer [THREADS [STEPS]]\n"
    "\n"
    "Decode and prefill speed of the CPU backend, and its share of the host's\n"
    "read bandwidth.  With --shape two layers and the head of the 1.8B model\n"
    "are timed with random weights, and the layers alone; the figures printed\n"
    "are computed from that for 32 layers, not measured.\n"
    "HYMT_CPU_ISA=scalar|avx2|avx512 chooses the kernels.\n";


int
main(int argc, char **argv)
{
    int            i;
    bench_t        bench;
    hymt_error_t   err;
    hymt_status_t  rc;

    i = argc > 1 && strcmp(argv[1], "--shape") == 0 ? 2 : 1;

    if (argc <= i || argv[i][0] == '-'
        || (i == 2 && strcmp(argv[2], "1.8B-layer") != 0))
    {
        fputs(bench_help, argc > 1 && strcmp(argv[1], "--help") == 0 ? stdout
                                                                     : stderr);
        return argc > 1 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }

    bench.threads = argc > i + 1 ? (uint32_t) atoi(argv[i + 1]) : 0;
    bench.steps = argc > i + 2 ? (uint32_t) atoi(argv[i + 2]) : 9;
    bench.steps = hymt_max(1, hymt_min(bench.steps, BENCH_MAX_STEPS));

    if (bench.threads == 0) {
        bench.threads = hymt_pool_default();
    }

    bench.read = bench_read(bench.threads);

    if (bench.read == 0) {
        fprintf(stderr, "cpu: can't measure the read bandwidth\n");
        return 1;
    }

    rc = i == 2 ? bench_shape(&bench, &err) : bench_model(&bench, argv[i],
                                                          &err);
    if (rc != HYMT_OK) {
        fprintf(stderr, "cpu: %s\n", err.text);
        return 1;
    }

    printf("read bandwidth before and after: %.1f and %.1f GB/s\n", bench.read,
           bench_read(bench.threads));

    return 0;
}


static hymt_status_t
bench_model(const bench_t *bench, const char *dir, hymt_error_t *err)
{
    hymt_model_t   *model;
    hymt_status_t   rc;
    bench_times_t   t;

    if (hymt_model_open(dir, &model, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    rc = bench_run(bench, model, true, &t, err);

    if (rc == HYMT_OK) {
        bench_print(bench, &t);
    }

    hymt_model_close(model);

    return rc;
}


static hymt_status_t
bench_shape(const bench_t *bench, hymt_error_t *err)
{
    int             fd;
    uint32_t        i;
    hymt_model_t    model;
    hymt_status_t   rc;
    bench_times_t   all, layers;

    fd = bench_random_file((uint64_t) 120818 * 2048 * 2);
    if (fd == -1) {
        return hymt_fail(err, "no memory for 495 MB of random weights");
    }

    rc = bench_shape_model(&model, fd, err);

    if (rc == HYMT_OK) {
        rc = bench_run(bench, &model, false, &layers, err);
    }

    if (rc == HYMT_OK) {
        rc = bench_run(bench, &model, true, &all, err);
    }

    free(model.layers);
    close(fd);

    if (rc != HYMT_OK) {
        return rc;
    }

    /* 32 layers: 15 times those of the two more */

#define bench_scale(x)  (all.x += 15 * layers.x)

    for (i = 0; i < hymt_nelts(bench_batches); i++) {
        bench_scale(decode[i]);
        bench_scale(decode_best[i]);
    }

    bench_scale(prefill);
    bench_scale(prefill_best);

    all.weights = 1791080448ull * 2;
    all.kv_token *= 16;

    printf("1.8B shape, computed for 32 layers from two of random weights,"
           " which take %.2f ms at batch 1\n", layers.decode[0] * 1e3);

    bench_print(bench, &all);

    return HYMT_OK;
}


/* Two layers; every tensor is the beginning of the same file. */
static hymt_status_t
bench_shape_model(hymt_model_t *model, int fd, hymt_error_t *err)
{
    uint32_t       i, j;
    hymt_layer_t  *l;

    static hymt_tensor_t  tensors[8];

    static const uint64_t  shapes[8][2] = {
        { 120818, 2048 }, { 2048, 1 }, { 128, 1 }, { 2048, 2048 },
        { 512, 2048 }, { 6144, 2048 }, { 2048, 6144 }, { 0, 0 },
    };

    memset(model, 0, sizeof(*model));
    model->layers = calloc(2, sizeof(hymt_layer_t));

    if (model->layers == NULL) {
        return hymt_fail(err, "no memory");
    }

    for (j = 0; j < 7; j++) {
        tensors[j].name = "random";
        tensors[j].file = "random";
        tensors[j].fd = fd;
        tensors[j].dtype = HYMT_BF16;
        tensors[j].n_dims = shapes[j][1] == 1 ? 1 : 2;
        tensors[j].shape[0] = shapes[j][0];
        tensors[j].shape[1] = shapes[j][1];
        tensors[j].bytes = shapes[j][0] * shapes[j][1] * 2;
    }

    for (i = 0; i < 2; i++) {
        l = &model->layers[i];

        l->input_norm = l->post_norm = &tensors[1];
        l->q_norm = l->k_norm = &tensors[2];
        l->q = l->o = &tensors[3];
        l->k = l->v = &tensors[4];
        l->gate = l->up = &tensors[5];
        l->down = &tensors[6];
    }

    model->embed = model->lm_head = &tensors[0];
    model->norm = &tensors[1];

    model->config = (hymt_config_t) {
        .n_layers = 2, .hidden = 2048, .ffn = 6144, .n_heads = 16,
        .n_kv_heads = 4, .head_dim = 128, .vocab = 120818,
        .max_position = 32768, .rms_eps = 1e-5f, .tied = true, .qk_norm = true,
        .rope_base = 11158839.925,
    };

    return HYMT_OK;
}


/* bf16 numbers of either sign between 2^-6 and 2^-5, in memory. */
static int
bench_random_file(uint64_t bytes)
{
    int        fd;
    ssize_t    n;
    uint16_t   buffer[32768];
    uint32_t   i, random;
    uint64_t   left;

    fd = memfd_create("hymt-bench", MFD_CLOEXEC);
    if (fd == -1) {
        return -1;
    }

    random = 1;

    for (left = bytes; left > 0; left -= (uint64_t) n) {
        for (i = 0; i < hymt_nelts(buffer); i++) {
            random = random * 1664525 + 1013904223;
            buffer[i] = (uint16_t) (0x3c80 | (random >> 16 & 0x807f));
        }

        n = write(fd, buffer, hymt_min(left, sizeof(buffer)));

        if (n <= 0) {
            close(fd);
            return -1;
        }
    }

    return fd;
}


static hymt_status_t
bench_run(const bench_t *bench, const hymt_model_t *model, bool sample,
    bench_times_t *t, hymt_error_t *err)
{
    double                  x[BENCH_MAX_STEPS];
    uint32_t                i, j, vocab;
    uint64_t                kv, other, start;
    hymt_status_t           rc;
    hymt_backend_t         *b;
    hymt_backend_params_t   p;

    vocab = model->config.vocab;
    memset(&p, 0, sizeof(p));

    p.threads = bench->threads;
    p.max_batch = BENCH_BATCH;
    p.max_rows = BENCH_ROWS;
    p.context = BENCH_CONTEXT;
    p.n_blocks = BENCH_BLOCKS;

    start = hymt_now_ns();

    rc = hymt_backend_cpu.create(&p, model, &b, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    hymt_backend_cpu.memory(b, &t->weights, &kv, &other);
    t->kv_token = kv / (BENCH_BLOCKS * HYMT_KV_BLOCK);

    printf("%s: %" PRIu64 " MB of weights loaded in %.2f s\n",
           hymt_backend_cpu.describe(b), t->weights / 1000000,
           (double) (hymt_now_ns() - start) * 1e-9);

    for (j = 0; j < bench->steps && rc == HYMT_OK; j++) {
        rc = bench_step(b, 1, BENCH_ROWS, 0, vocab, sample, &x[j],
                        err);
    }

    bench_median(x, bench->steps, &t->prefill, &t->prefill_best);

    /* every sequence has its prompt in the cache */

    for (j = 0; j < BENCH_PROMPT && rc == HYMT_OK; j++) {
        rc = bench_step(b, BENCH_BATCH, 1, j, vocab, sample, &x[0],
                        err);
    }

    for (i = 0; i < hymt_nelts(bench_batches); i++) {
        for (j = 0; j < bench->steps && rc == HYMT_OK; j++) {
            rc = bench_step(b, bench_batches[i], 1, BENCH_PROMPT + j, vocab,
                            sample, &x[j], err);
        }

        bench_median(x, bench->steps, &t->decode[i], &t->decode_best[i]);
    }

    hymt_backend_cpu.destroy(b);

    return rc;
}


static hymt_status_t
bench_step(hymt_backend_t *b, uint32_t n_seqs, uint32_t n_rows, uint32_t pos,
    uint32_t vocab, bool sample, double *seconds, hymt_error_t *err)
{
    uint32_t          i, j;
    uint32_t          blocks[BENCH_BATCH][BENCH_CONTEXT / HYMT_KV_BLOCK];
    uint32_t          tokens[BENCH_ROWS], sampled[BENCH_BATCH];
    uint64_t          start;
    hymt_batch_t      batch;
    hymt_status_t     rc;
    hymt_sampling_t   greedy;
    hymt_batch_seq_t  seqs[BENCH_BATCH];

    memset(&greedy, 0, sizeof(greedy));
    memset(seqs, 0, sizeof(seqs));
    memset(&batch, 0, sizeof(batch));

    greedy.top_p = 1;
    greedy.repetition_penalty = 1;

    for (i = 0; i < n_rows; i++) {
        tokens[i] = (pos + i * 7919) % vocab;
    }

    for (i = 0; i < n_seqs; i++) {
        for (j = 0; j < BENCH_CONTEXT / HYMT_KV_BLOCK; j++) {
            blocks[i][j] = i * (BENCH_CONTEXT / HYMT_KV_BLOCK) + j;
        }

        if (pos == 0) {
            hymt_backend_cpu.slot_begin(b, i, &greedy, tokens, 1);
        }

        seqs[i].slot = i;
        seqs[i].n_rows = n_rows;
        seqs[i].pos = pos;
        seqs[i].tokens = tokens;
        seqs[i].blocks = blocks[i];
        seqs[i].sample = sample;
    }

    batch.seqs = seqs;
    batch.n_seqs = n_seqs;
    batch.n_rows = n_seqs * n_rows;

    start = hymt_now_ns();

    rc = hymt_backend_cpu.launch(b, &batch, err);

    if (rc == HYMT_OK) {
        rc = hymt_backend_cpu.collect(b, sampled, err);
    }

    *seconds = (double) (hymt_now_ns() - start) * 1e-9;

    return rc;
}


static void
bench_median(double *x, uint32_t n, double *median, double *best)
{
    qsort(x, n, sizeof(double), bench_compare);

    *median = x[n / 2];
    *best = x[0];
}


static int
bench_compare(const void *one, const void *two)
{
    const double  a = *(const double *) one, b = *(const double *) two;

    return (a > b) - (a < b);
}


static void
bench_print(const bench_t *bench, const bench_times_t *t)
{
    double    bytes, rate;
    uint32_t  i;

    for (i = 0; i < hymt_nelts(bench_batches); i++) {
        bytes = (double) t->weights + (double) bench_batches[i]
                * (double) t->kv_token * BENCH_PROMPT;
        rate = bytes / t->decode[i] * 1e-9;

        printf("decode, batch %2u: %8.2f ms a step (best %.2f), %8.1f tokens/s,"
               " %5.1f GB/s, %.2f of the read bandwidth\n", bench_batches[i],
               t->decode[i] * 1e3, t->decode_best[i] * 1e3,
               bench_batches[i] / t->decode[i], rate, rate / bench->read);
    }

    printf("prefill, %d rows: %8.2f ms a step (best %.2f), %8.1f tokens/s,"
           " %.0f GFLOP/s\n", BENCH_ROWS, t->prefill * 1e3,
           t->prefill_best * 1e3, BENCH_ROWS / t->prefill,
           (double) t->weights * BENCH_ROWS / t->prefill * 1e-9);
}


/* GB/s of a buffer larger than the caches, best of 5; 0 on failure. */
static double
bench_read(uint32_t threads)
{
    int            i;
    double         best, rate;
    uint64_t      *buffer, start;
    hymt_pool_t   *pool;
    hymt_error_t   err;

    buffer = mmap(NULL, BENCH_READ_SIZE, PROT_READ|PROT_WRITE,
                  MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);

    if (buffer == MAP_FAILED
        || hymt_pool_create(threads, &pool, &err) != HYMT_OK)
    {
        return 0;
    }

    (void) madvise(buffer, BENCH_READ_SIZE, MADV_HUGEPAGE);
    memset(buffer, 1, BENCH_READ_SIZE);

    best = 0;

    for (i = 0; i < 5; i++) {
        start = hymt_now_ns();

        hymt_pool_run(pool, bench_read_item, buffer,
                      BENCH_READ_SIZE / BENCH_READ_PART);

        rate = (double) BENCH_READ_SIZE / (double) (hymt_now_ns() - start);
        best = hymt_max(best, rate);
    }

    hymt_pool_destroy(pool);
    munmap(buffer, BENCH_READ_SIZE);

    return best;
}


static void
bench_read_item(void *arg, uint32_t item, uint32_t thread)
{
    size_t              i, j;
    uint64_t            sum[8];
    const uint64_t     *p;
    volatile uint64_t   sink;

    (void) thread;

    p = (const uint64_t *) arg + item * (BENCH_READ_PART / 8);
    memset(sum, 0, sizeof(sum));

    for (i = 0; i < BENCH_READ_PART / 8; i += 8) {
        for (j = 0; j < 8; j++) {
            sum[j] += p[i + j];
        }
    }

    sink = sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6]
           + sum[7];
    (void) sink;
}
