/*
 * seq_fixture.h - sequences under test and their steps through a backend's
 * table: prompts in chunks, outputs, distances; for the tests of the CPU's
 * backend and the GPU's.
 *
 * Who includes it has said how long a sequence may be and how many are in a
 * step: CONTEXT and SLOTS.  Figures are compared as ||got - want|| / ||want||,
 * bits by memcmp().
 */

#ifndef HYMT_SEQ_FIXTURE_H
#define HYMT_SEQ_FIXTURE_H

#include "backend.h"
#include "tap.h"


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


#endif /* HYMT_SEQ_FIXTURE_H */
