/*
 * backend_fixture.h - a backend under test through its table: sequences, steps,
 * prompts in chunks, outputs; for the tests of the CUDA backend.
 *
 * A sequence has blocks of its own, scattered over the pool.  Figures are
 * compared as ||got - want|| / ||want||, bits by memcmp().
 */

#ifndef HYMT_BACKEND_FIXTURE_H
#define HYMT_BACKEND_FIXTURE_H

#include "backend.h"
#include "fixture.h"
#include "tap.h"

#include <libgen.h>


#define SLOTS    256
#define ROWS     1024
#define CONTEXT  2048
#define BLOCKS   4096


/* A sequence under test: its tokens, and the blocks it lies in. */
typedef struct {
    uint32_t   slot;
    uint32_t   n;                    /* of its prompt */
    uint32_t   pos;                  /* rows done */
    uint32_t   tokens[CONTEXT];
    uint32_t   blocks[CONTEXT / HYMT_KV_BLOCK];
} seq_t;


static uint64_t      random_state;
static hymt_error_t  err;

/* of the backends that are opened: less for tools that run everything slowly */
static uint32_t      max_slots = SLOTS;
static uint32_t      max_rows = ROWS;

/* blocks of the pool in random order, and how many have been given out */
static uint32_t      pool[BLOCKS];
static uint32_t      pool_used;


__attribute__((noreturn, unused))
static void
die(const char *what)
{
    printf("Bail out! %s: %s\n", what, err.text);
    exit(2);
}


__attribute__((unused))
static uint32_t
random_below(uint32_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005)
                   + UINT64_C(1442695040888963407);

    return (uint32_t) ((random_state >> 33) % n);
}


/* The shared object lies one folder above the tests' programs. */
__attribute__((unused))
static const hymt_backend_ops_t *
cuda_ops(char *program)
{
    char                       *path, *copy;
    const hymt_backend_ops_t   *ops;

    if (getenv("HYMT_CUDA_LIBRARY") == NULL) {
        copy = strdup(program);

        if (asprintf(&path, "%s/../hymt_cuda.so", dirname(copy)) > 0) {
            setenv("HYMT_CUDA_LIBRARY", path, 1);
            free(path);
        }

        free(copy);
    }

    ops = hymt_backend_find("cuda", &err);
    if (ops == NULL) {
        die("backend cuda");
    }

    return ops;
}


__attribute__((unused))
static hymt_backend_t *
backend_open(const hymt_backend_ops_t *ops, const hymt_model_t *model,
    const volatile int *stop)
{
    hymt_backend_t         *b;
    hymt_backend_params_t   p;

    memset(&p, 0, sizeof(p));

    p.max_batch = max_slots;
    p.max_rows = max_rows;
    p.context = hymt_min(CONTEXT, model->config.max_position);
    p.n_blocks = BLOCKS;
    p.stop = stop;

    if (ops->create(&p, model, &b, &err) != HYMT_OK) {
        die(ops->name);
    }

    return b;
}


/* All blocks are free again, in another order. */
__attribute__((unused))
static void
pool_reset(void)
{
    uint32_t  i, j, t;

    for (i = 0; i < BLOCKS; i++) {
        pool[i] = i;
    }

    for (i = BLOCKS - 1; i > 0; i--) {
        j = random_below(i + 1);
        t = pool[i];
        pool[i] = pool[j];
        pool[j] = t;
    }

    pool_used = 0;
}


/* A prompt of n tokens that depend on the seed alone, and room for `more`. */
__attribute__((unused))
static void
seq_make(seq_t *s, uint32_t slot, uint32_t n, uint32_t more, uint64_t seed,
    uint32_t vocab)
{
    uint32_t  i;
    uint64_t  kept;

    memset(s, 0, sizeof(*s));

    s->slot = slot;
    s->n = n;

    for (i = 0; i < hymt_ceil_div(n + more, HYMT_KV_BLOCK); i++) {
        if (pool_used == BLOCKS) {
            hymt_fail(&err, "no block is left");
            die("fixture");
        }

        s->blocks[i] = pool[pool_used++];
    }

    kept = random_state;
    random_state = seed * 7919 + 1;

    for (i = 0; i < n + more; i++) {
        s->tokens[i] = random_below(vocab);
    }

    random_state = kept;
}


/* Greedy, or all settings of the sampler. */
__attribute__((unused))
static void
seq_begin(const hymt_backend_ops_t *ops, hymt_backend_t *b, const seq_t *s,
    bool greedy)
{
    hymt_sampling_t  sampling;

    memset(&sampling, 0, sizeof(sampling));

    sampling.temperature = greedy ? 0 : 0.8f;
    sampling.top_k = 20;
    sampling.top_p = 0.9f;
    sampling.repetition_penalty = greedy ? 1 : 1.05f;
    sampling.seed = 7;

    ops->slot_begin(b, s->slot, &sampling, s->tokens, s->n);
}


/*
 * One step: `rows[i]` further rows of each sequence (0: not in it), the last
 * of a prompt sampled.  Logits of all rows where not NULL; tokens of the
 * sequences that are in it.
 */
__attribute__((unused))
static hymt_status_t
step(const hymt_backend_ops_t *ops, hymt_backend_t *b, seq_t *seqs,
    const uint32_t *rows, uint32_t n, float *logits, uint32_t *tokens)
{
    uint32_t                 i;
    hymt_batch_t             batch;
    static hymt_batch_seq_t  list[SLOTS];

    memset(&batch, 0, sizeof(batch));
    memset(list, 0, sizeof(list));

    batch.seqs = list;
    batch.logits = logits;

    for (i = 0; i < n; i++) {
        if (rows[i] == 0) {
            continue;
        }

        list[batch.n_seqs].slot = seqs[i].slot;
        list[batch.n_seqs].n_rows = rows[i];
        list[batch.n_seqs].pos = seqs[i].pos;
        list[batch.n_seqs].tokens = seqs[i].tokens + seqs[i].pos;
        list[batch.n_seqs].blocks = seqs[i].blocks;
        list[batch.n_seqs].sample = seqs[i].pos + rows[i] >= seqs[i].n;
        list[batch.n_seqs].n_out = seqs[i].pos + rows[i] - seqs[i].n;

        seqs[i].pos += rows[i];
        batch.n_rows += rows[i];
        batch.n_seqs++;
    }

    if (ops->launch(b, &batch, &err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    return ops->collect(b, tokens, &err);
}


/* The prompt in chunks, alone; what its end sampled. */
__attribute__((unused))
static uint32_t
prompt(const hymt_backend_ops_t *ops, hymt_backend_t *b, seq_t *s,
    uint32_t chunk, uint32_t vocab, float *logits)
{
    uint32_t  rows, token;

    token = HYMT_TOKEN_NONE;
    seq_begin(ops, b, s, false);

    while (s->pos < s->n) {
        rows = hymt_min(chunk, s->n - s->pos);

        if (step(ops, b, s, &rows, 1, logits + (size_t) s->pos * vocab,
                 &token) != HYMT_OK)
        {
            printf("# %s\n", err.text);
            return HYMT_TOKEN_NONE;
        }
    }

    return token;
}


__attribute__((unused))
static double
distance(const float *got, const float *want, size_t n)
{
    double  diff, sum;
    size_t  i;

    diff = 0;
    sum = 0;

    for (i = 0; i < n; i++) {
        diff += ((double) got[i] - want[i]) * ((double) got[i] - want[i]);
        sum += (double) want[i] * want[i];
    }

    return sqrt(diff / sum);
}


/* The greatest distance of a row; what is not a number stays one. */
__attribute__((unused))
static double
worst_row(const float *got, const float *want, uint32_t rows, uint32_t vocab)
{
    double    d, worst;
    uint32_t  i;

    worst = 0;

    for (i = 0; i < rows; i++) {
        d = distance(got + (size_t) i * vocab, want + (size_t) i * vocab,
                     vocab);
        worst = isnan(worst) || d <= worst ? worst : d;
    }

    return worst;
}


#endif /* HYMT_BACKEND_FIXTURE_H */
