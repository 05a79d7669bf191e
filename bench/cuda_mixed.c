/*
 * cuda_mixed.c - what a step costs by what is in it: rows that decode, prompts
 * beside them.
 *
 * Through the backend's own table, as the engine does, so a row of this table
 * is a step that NGINX sees: time by the device's clock (step_ns), and from
 * launch() to collect().  What the scheduler fills steps to (hymt_card_sizes)
 * is read off it.
 *
 * The last step is what a profiler is told to look at (tools/ncu-figures.py).
 */

#include "backend.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define MIXED_BATCH    256
#define MIXED_ROWS     (MIXED_BATCH + 2048)
#define MIXED_CONTEXT  512
#define MIXED_BLOCKS   (MIXED_BATCH * MIXED_CONTEXT / HYMT_KV_BLOCK)
#define MIXED_STEPS    31


typedef struct {
    uint32_t  decode;          /* rows, each with `pos` tokens before it */
    uint32_t  pos;
    uint32_t  prompts;
    uint32_t  length;          /* of each */
} mixed_case_t;


typedef struct {
    const hymt_backend_ops_t  *ops;
    hymt_backend_t            *b;
    uint32_t                   context;
    uint32_t                   vocab;
    uint32_t                  *tokens;     /* [MIXED_ROWS] */
    uint32_t                  *blocks;     /* [MIXED_BLOCKS] */
    hymt_batch_seq_t           seqs[MIXED_BATCH];
} mixed_t;


static hymt_status_t mixed_fill(mixed_t *m, uint32_t length,
    hymt_error_t *err);
static hymt_status_t mixed_run(mixed_t *m, const mixed_case_t *c,
    uint32_t steps, hymt_error_t *err);
static void mixed_seq(mixed_t *m, uint32_t i, uint32_t rows, uint32_t pos,
    uint32_t first);
static void mixed_profiler(const char *call);
static int mixed_compare(const void *one, const void *two);


static const mixed_case_t  mixed_cases[] = {
    { 1, 80, 0, 0 }, { 1, 80, 1, 60 }, { 8, 80, 0, 0 }, { 8, 80, 1, 60 },
    { 48, 80, 0, 0 }, { 48, 80, 1, 60 }, { 48, 80, 2, 40 },
    { 48, 80, 2, 60 },
    { 84, 80, 2, 60 }, { 128, 80, 0, 0 }, { 128, 80, 2, 60 },
    { 168, 80, 4, 60 }, { 208, 80, 5, 60 }, { 240, 80, 0, 0 },
    { 240, 80, 6, 60 }, { 250, 80, 6, 65 }, { 240, 80, 12, 60 },
    { 240, 200, 0, 0 }, { 240, 300, 0, 0 }, { 240, 300, 1, 200 },
    { 0, 0, 1, 60 }, { 0, 0, 8, 60 }, { 0, 0, 16, 60 }, { 0, 0, 34, 60 },
    { 0, 0, 4, 512 },
};


static const char  mixed_help[] =
    "Usage: cuda_mixed MODEL [DECODE POS PROMPTS LENGTH [STEPS]]\n"
    "\n"
    "Times steps of the CUDA backend with rows that decode and whole prompts\n"
    "beside them: a table of cases, or the one given.\n";


int
main(int argc, char **argv)
{
    size_t                  i;
    mixed_t                 m;
    mixed_case_t            one;
    hymt_error_t            err;
    hymt_model_t           *model;
    hymt_backend_params_t   p;

    if (argc != 2 && argc != 6 && argc != 7) {
        fputs(mixed_help, stderr);
        return 2;
    }

    memset(&m, 0, sizeof(m));
    memset(&p, 0, sizeof(p));
    memset(&one, 0, sizeof(one));
    m.context = MIXED_CONTEXT;

    if (argc > 2) {
        one.decode = (uint32_t) atoi(argv[2]);
        one.pos = (uint32_t) atoi(argv[3]);
        one.prompts = (uint32_t) atoi(argv[4]);
        one.length = (uint32_t) atoi(argv[5]);

        if (one.pos < MIXED_ROWS && one.length < MIXED_ROWS) {
            m.context = hymt_max(m.context, one.pos + 1);
            m.context = hymt_max(m.context, one.length);
            m.context = hymt_ceil_div(m.context, HYMT_KV_BLOCK) * HYMT_KV_BLOCK;
        }

        if (one.decode + one.prompts > MIXED_BATCH
            || one.decode + one.prompts * one.length > MIXED_ROWS
            || one.pos >= m.context || one.length > m.context
            || (one.decode + one.prompts) * m.context
               > MIXED_BLOCKS * HYMT_KV_BLOCK)
        {
            fputs(mixed_help, stderr);
            return 2;
        }
    }

    p.max_batch = MIXED_BATCH;
    p.max_rows = MIXED_ROWS;
    p.context = m.context;
    p.n_blocks = MIXED_BLOCKS;

    m.ops = hymt_backend_find("cuda", &err);

    if (m.ops == NULL || hymt_model_open(argv[1], &model, &err) != HYMT_OK
        || m.ops->create(&p, model, &m.b, &err) != HYMT_OK)
    {
        fprintf(stderr, "cuda_mixed: %s\n", err.text);
        return 1;
    }

    m.vocab = model->config.vocab;
    m.tokens = malloc(MIXED_ROWS * sizeof(uint32_t));
    m.blocks = malloc(MIXED_BLOCKS * sizeof(uint32_t));

    if (m.tokens == NULL || m.blocks == NULL) {
        fprintf(stderr, "cuda_mixed: no memory\n");
        return 1;
    }

    printf("%s\n", m.ops->describe(m.b));
    printf("decode    at  prompts  of    rows   device ms   host ms"
           "  us a row\n");

    if (argc > 2) {
        if (mixed_fill(&m, one.pos + 1, &err) != HYMT_OK
            || mixed_run(&m, &one, argc > 6 ? (uint32_t) atoi(argv[6])
                                            : MIXED_STEPS, &err)
               != HYMT_OK)
        {
            fprintf(stderr, "cuda_mixed: %s\n", err.text);
            return 1;
        }
    }

    if (argc == 2 && mixed_fill(&m, MIXED_CONTEXT, &err) != HYMT_OK) {
        fprintf(stderr, "cuda_mixed: %s\n", err.text);
        return 1;
    }

    for (i = 0; argc == 2 && i < hymt_nelts(mixed_cases); i++) {
        if (mixed_run(&m, &mixed_cases[i], MIXED_STEPS, &err) != HYMT_OK) {
            fprintf(stderr, "cuda_mixed: %s\n", err.text);
            return 1;
        }
    }

    m.ops->destroy(m.b);
    hymt_model_close(model);

    return 0;
}


/* KV of every slot's first positions, which are read later: random tokens. */
static hymt_status_t
mixed_fill(mixed_t *m, uint32_t length, hymt_error_t *err)
{
    uint32_t         i, n, at_once, slots;
    hymt_batch_t     batch;
    hymt_sampling_t  sampling;
    uint32_t         out[MIXED_BATCH];

    for (i = 0; i < MIXED_BLOCKS; i++) {
        m->blocks[i] = i * 37 % MIXED_BLOCKS;
    }

    for (i = 0; i < MIXED_ROWS; i++) {
        m->tokens[i] = (uint32_t) rand() % m->vocab;
    }

    memset(&sampling, 0, sizeof(sampling));
    sampling.top_p = 1;
    sampling.repetition_penalty = 1;

    for (i = 0; i < MIXED_BATCH; i++) {
        m->ops->slot_begin(m->b, i, &sampling, m->tokens, 1);
    }

    at_once = MIXED_ROWS / length;
    slots = MIXED_BLOCKS * HYMT_KV_BLOCK / m->context;
    slots = hymt_min(slots, MIXED_BATCH);

    for (i = 0; i < slots; i += at_once) {

        for (n = 0; n < at_once && i + n < slots; n++) {
            mixed_seq(m, n, length, 0, 0);
            m->seqs[n].slot = i + n;
            m->seqs[n].blocks = m->blocks + (i + n) * m->context
                                            / HYMT_KV_BLOCK;
        }

        memset(&batch, 0, sizeof(batch));
        batch.seqs = m->seqs;
        batch.n_seqs = n;
        batch.n_rows = n * length;

        if (m->ops->launch(m->b, &batch, err) != HYMT_OK
            || m->ops->collect(m->b, out, err) != HYMT_OK)
        {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static hymt_status_t
mixed_run(mixed_t *m, const mixed_case_t *c, uint32_t steps, hymt_error_t *err)
{
    uint32_t      i, n;
    uint64_t      start, device[MIXED_STEPS], host[MIXED_STEPS];
    hymt_batch_t  batch;
    uint32_t      out[MIXED_BATCH];

    memset(&batch, 0, sizeof(batch));
    batch.seqs = m->seqs;
    batch.n_seqs = c->decode + c->prompts;
    batch.n_rows = c->decode + c->prompts * c->length;

    for (i = 0; i < batch.n_seqs; i++) {
        n = i < c->decode ? 0 : i - c->decode;
        mixed_seq(m, i, i < c->decode ? 1 : c->length,
                  i < c->decode ? c->pos : 0,
                  i < c->decode ? i : c->decode + n * c->length);
    }

    steps = hymt_min(hymt_max(steps, 1), MIXED_STEPS);

    for (i = 0; i < steps + 3; i++) {
        if (i == steps + 2) {
            mixed_profiler("cuProfilerStart");
        }

        start = hymt_now_ns();

        if (m->ops->launch(m->b, &batch, err) != HYMT_OK
            || m->ops->collect(m->b, out, err) != HYMT_OK)
        {
            return HYMT_ERROR;
        }

        /* the first ones warm up */

        if (i >= 3) {
            host[i - 3] = hymt_now_ns() - start;
            device[i - 3] = m->ops->step_ns(m->b);
        }
    }

    mixed_profiler("cuProfilerStop");

    qsort(host, steps, sizeof(uint64_t), mixed_compare);
    qsort(device, steps, sizeof(uint64_t), mixed_compare);

    printf("%6" PRIu32 " %5" PRIu32 " %8" PRIu32 " %3" PRIu32 " %7" PRIu32
           " %11.3f %9.3f %9.2f\n", c->decode, c->pos, c->prompts, c->length,
           batch.n_rows, (double) device[steps / 2] / 1e6,
           (double) host[steps / 2] / 1e6,
           (double) device[steps / 2] / 1e3 / batch.n_rows);
    fflush(stdout);

    return HYMT_OK;
}


static void
mixed_seq(mixed_t *m, uint32_t i, uint32_t rows, uint32_t pos, uint32_t first)
{
    hymt_batch_seq_t  *s;

    s = &m->seqs[i];
    memset(s, 0, sizeof(*s));

    s->slot = i;
    s->n_rows = rows;
    s->pos = pos;
    s->tokens = m->tokens + first;
    s->blocks = m->blocks + i * m->context / HYMT_KV_BLOCK;
    s->sample = true;
}


/* The driver is the backend's: it is not linked with. */
static void
mixed_profiler(const char *call)
{
    int   (*entry)(void);
    void   *driver;

    driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

    if (driver == NULL) {
        return;
    }

    *(void **) &entry = dlsym(driver, call);

    if (entry != NULL) {
        (void) entry();
    }

    dlclose(driver);
}


static int
mixed_compare(const void *one, const void *two)
{
    uint64_t  a = *(const uint64_t *) one;
    uint64_t  b = *(const uint64_t *) two;

    return a < b ? -1 : a > b;
}
