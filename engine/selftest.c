/*
 * selftest.c - see selftest.h.
 */

#include "selftest.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>


#define HYMT_SELFTEST_ROWS    20     /* crosses a block's border */
#define HYMT_SELFTEST_LARGE   4      /* the same of a large model */
#define HYMT_SELFTEST_OTHERS  5      /* sequences beside it, 1 to 3 rows */

/* weights over which a row takes a CPU long enough to count */
#define HYMT_SELFTEST_LARGE_PARAMS  ((uint64_t) 200 * 1000 * 1000)


typedef struct {
    const hymt_backend_ops_t     *ops;
    hymt_backend_t               *backend;
    const hymt_backend_params_t  *params;
    uint32_t                      vocab;

    uint32_t                      n;         /* prompt tokens */
    uint32_t                      n_blocks;  /* that n + 1 tokens take */
    uint32_t                      n_others;
    uint32_t                      token[HYMT_SELFTEST_ROWS + 1];
    uint32_t                      other[HYMT_SELFTEST_OTHERS + 3];
    uint32_t                     *block;     /* all of the pool, in order */

    /* of the sequence, [n + 1][vocab]: alone, and in the run being looked at */
    float                        *alone;
    float                        *again;
    float                        *batch;     /* of the step with others */
} hymt_selftest_t;


static void hymt_selftest_plan(hymt_selftest_t *t,
    const hymt_config_t *config);
static uint64_t hymt_selftest_weights(const hymt_config_t *config);
static hymt_status_t hymt_selftest_alloc(hymt_selftest_t *t,
    hymt_error_t *err);
static hymt_status_t hymt_selftest_run(hymt_selftest_t *t, hymt_error_t *err);
static hymt_status_t hymt_selftest_alone(hymt_selftest_t *t,
    hymt_error_t *err);
static hymt_status_t hymt_selftest_chunks(hymt_selftest_t *t,
    hymt_error_t *err);
static hymt_status_t hymt_selftest_among(hymt_selftest_t *t,
    hymt_error_t *err);
static hymt_status_t hymt_selftest_chunk(hymt_selftest_t *t, uint32_t slot,
    const uint32_t *blocks, uint32_t from, uint32_t to, float *logits,
    uint32_t *token, hymt_error_t *err);
static hymt_status_t hymt_selftest_step(hymt_selftest_t *t,
    const hymt_batch_seq_t *seqs, uint32_t n_seqs, float *logits,
    uint32_t *tokens, hymt_error_t *err);
static hymt_status_t hymt_selftest_finite(const hymt_selftest_t *t,
    hymt_error_t *err);
static hymt_status_t hymt_selftest_equal(const hymt_selftest_t *t,
    const char *how, hymt_error_t *err);
static void hymt_selftest_begin(hymt_selftest_t *t, uint32_t slot,
    const uint32_t *prompt, uint32_t n);
static uint32_t hymt_selftest_token(uint32_t i, uint32_t vocab);


hymt_status_t
hymt_selftest(const hymt_backend_ops_t *ops, hymt_backend_t *backend,
    const hymt_backend_params_t *params, const hymt_config_t *config,
    hymt_error_t *err)
{
    hymt_status_t    rc;
    hymt_selftest_t  t;

    memset(&t, 0, sizeof(t));
    t.ops = ops;
    t.backend = backend;
    t.params = params;

    hymt_selftest_plan(&t, config);

    rc = hymt_selftest_alloc(&t, err);

    if (rc == HYMT_OK) {
        rc = hymt_selftest_run(&t, err);
    }

    free(t.block);
    free(t.alone);
    free(t.again);
    free(t.batch);

    return rc;
}


/* The sizes, held to what the engine has. */
static void
hymt_selftest_plan(hymt_selftest_t *t, const hymt_config_t *config)
{
    bool      large;
    uint32_t  i, spare;

    large = hymt_selftest_weights(config) > HYMT_SELFTEST_LARGE_PARAMS;

    t->vocab = config->vocab;
    t->n = large ? HYMT_SELFTEST_LARGE : HYMT_SELFTEST_ROWS;
    t->n = hymt_min(t->n, t->params->context - 1);
    t->n = hymt_min(t->n, t->params->max_rows - 1);
    t->n_blocks = hymt_ceil_div(t->n + 1, HYMT_KV_BLOCK);

    /* a slot, a block and three rows for each of the others */

    t->n_others = large ? 1 : HYMT_SELFTEST_OTHERS;
    t->n_others = hymt_min(t->n_others, t->params->max_batch - 1);

    spare = t->params->n_blocks - t->n_blocks;
    t->n_others = hymt_min(t->n_others, spare);

    spare = (t->params->max_rows - t->n - 1) / 3;
    t->n_others = hymt_min(t->n_others, spare);

    if (t->params->context < 3) {
        t->n_others = 0;
    }

    for (i = 0; i < hymt_nelts(t->token); i++) {
        t->token[i] = hymt_selftest_token(i, t->vocab);
    }

    for (i = 0; i < hymt_nelts(t->other); i++) {
        t->other[i] = hymt_selftest_token(i + 100, t->vocab);
    }
}


static uint64_t
hymt_selftest_weights(const hymt_config_t *config)
{
    uint64_t  layer;

    layer = ((uint64_t) config->n_heads * 2 + config->n_kv_heads * 2)
            * config->head_dim + (uint64_t) config->ffn * 3;

    return (layer * config->n_layers + config->vocab) * config->hidden;
}


static hymt_status_t
hymt_selftest_alloc(hymt_selftest_t *t, hymt_error_t *err)
{
    size_t    row;
    uint32_t  i;

    row = (size_t) t->vocab * sizeof(float);

    t->block = calloc(t->params->n_blocks, sizeof(uint32_t));
    t->alone = calloc(t->n + 1, row);
    t->again = calloc(t->n + 1, row);
    t->batch = calloc(t->n + 1 + 3 * t->n_others, row);

    if (t->block == NULL || t->alone == NULL || t->again == NULL
        || t->batch == NULL)
    {
        return hymt_fail(err, "self-test: no memory for logits");
    }

    for (i = 0; i < t->params->n_blocks; i++) {
        t->block[i] = i;
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_selftest_run(hymt_selftest_t *t, hymt_error_t *err)
{
    hymt_status_t  rc;

    rc = hymt_selftest_alone(t, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    rc = hymt_selftest_chunks(t, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    return hymt_selftest_among(t, err);
}


/* The prompt in one chunk, then the token it gives as a decode row. */
static hymt_status_t
hymt_selftest_alone(hymt_selftest_t *t, hymt_error_t *err)
{
    hymt_status_t  rc;

    hymt_selftest_begin(t, 0, t->token, t->n);

    rc = hymt_selftest_chunk(t, 0, t->block, 0, t->n, t->alone,
                             &t->token[t->n], err);
    if (rc != HYMT_OK) {
        return rc;
    }

    if (t->token[t->n] >= t->vocab) {
        return hymt_fail(err, "self-test: sampled token %" PRIu32 " of a"
                         " vocabulary of %" PRIu32, t->token[t->n], t->vocab);
    }

    rc = hymt_selftest_chunk(t, 0, t->block, t->n, t->n + 1,
                             t->alone + (size_t) t->n * t->vocab, NULL, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    return hymt_selftest_finite(t, err);
}


/* The same tokens as a prompt in three chunks, from the pool's last blocks. */
static hymt_status_t
hymt_selftest_chunks(hymt_selftest_t *t, hymt_error_t *err)
{
    uint32_t         i, from, to, slot;
    hymt_status_t    rc;
    const uint32_t  *blocks;

    slot = t->params->max_batch - 1;
    blocks = t->block + t->params->n_blocks - t->n_blocks;

    hymt_selftest_begin(t, slot, t->token, t->n + 1);

    for (i = 0, from = 0; i < 3; i++, from = to) {
        to = i == 2 ? t->n + 1 : hymt_min(from + 1 + 5 * i, t->n);

        if (from == to) {
            continue;
        }

        rc = hymt_selftest_chunk(t, slot, blocks, from, to,
                                 t->again + (size_t) from * t->vocab, NULL,
                                 err);
        if (rc != HYMT_OK) {
            return rc;
        }
    }

    return hymt_selftest_equal(t, "in chunks", err);
}


/* And as a whole prompt in the middle of other sequences. */
static hymt_status_t
hymt_selftest_among(hymt_selftest_t *t, hymt_error_t *err)
{
    uint32_t           i, n, before, at, tokens[HYMT_SELFTEST_OTHERS + 1];
    hymt_status_t      rc;
    hymt_batch_seq_t   seqs[HYMT_SELFTEST_OTHERS + 1], *seq;

    if (t->n_others == 0) {
        return HYMT_OK;
    }

    memset(seqs, 0, sizeof(seqs));
    before = (t->n_others + 1) / 2;

    for (i = 0, n = 0, at = 0; i <= t->n_others; i++) {
        seq = &seqs[i];
        seq->slot = t->n_others - i;
        seq->sample = true;

        if (i == before) {
            at = n;
            seq->n_rows = t->n + 1;
            seq->tokens = t->token;
            seq->blocks = t->block + t->n_others;

        } else {
            seq->n_rows = 1 + i % 3;
            seq->tokens = t->other + hymt_min(i, HYMT_SELFTEST_OTHERS);
            seq->blocks = t->block + i - (i > before);
        }

        n += seq->n_rows;
        hymt_selftest_begin(t, seq->slot, seq->tokens, seq->n_rows);
    }

    rc = hymt_selftest_step(t, seqs, t->n_others + 1, t->batch, tokens, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    memcpy(t->again, t->batch + (size_t) at * t->vocab,
           (size_t) (t->n + 1) * t->vocab * sizeof(float));

    return hymt_selftest_equal(t, "in one step with other sequences", err);
}


/*
 * Rows from .. to - 1 of the sequence in a step of their own; samples where
 * token is not NULL.
 */
static hymt_status_t
hymt_selftest_chunk(hymt_selftest_t *t, uint32_t slot, const uint32_t *blocks,
    uint32_t from, uint32_t to, float *logits, uint32_t *token,
    hymt_error_t *err)
{
    uint32_t          sampled;
    hymt_status_t     rc;
    hymt_batch_seq_t  seq;

    memset(&seq, 0, sizeof(seq));
    seq.slot = slot;
    seq.n_rows = to - from;
    seq.pos = from;
    seq.tokens = &t->token[from];
    seq.blocks = blocks;
    seq.sample = token != NULL;

    rc = hymt_selftest_step(t, &seq, 1, logits, &sampled, err);

    if (rc == HYMT_OK && token != NULL) {
        *token = sampled;
    }

    return rc;
}


static hymt_status_t
hymt_selftest_step(hymt_selftest_t *t, const hymt_batch_seq_t *seqs,
    uint32_t n_seqs, float *logits, uint32_t *tokens, hymt_error_t *err)
{
    uint32_t      i;
    hymt_batch_t  batch;

    batch.seqs = seqs;
    batch.n_seqs = n_seqs;
    batch.logits = logits;

    for (i = 0, batch.n_rows = 0; i < n_seqs; i++) {
        batch.n_rows += seqs[i].n_rows;
    }

    if (t->ops->launch(t->backend, &batch, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    return t->ops->collect(t->backend, tokens, err);
}


static hymt_status_t
hymt_selftest_finite(const hymt_selftest_t *t, hymt_error_t *err)
{
    size_t  i;

    for (i = 0; i < (size_t) (t->n + 1) * t->vocab; i++) {
        if (!isfinite(t->alone[i])) {
            return hymt_fail(err, "self-test: the logit of token %zu at"
                             " position %zu is not finite: are the weights"
                             " damaged?", i % t->vocab, i / t->vocab);
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_selftest_equal(const hymt_selftest_t *t, const char *how,
    hymt_error_t *err)
{
    size_t  i;

    /* bits, not values: -0 is not 0 */

    for (i = 0; i < (size_t) (t->n + 1) * t->vocab; i++) {
        if (memcmp(&t->alone[i], &t->again[i], sizeof(float)) != 0) {
            return hymt_fail(err, "self-test: backend %s: the logit of token"
                             " %zu at position %zu is %.9g alone and %.9g %s:"
                             " results would depend on the load; please report"
                             " this with the processor's name",
                             t->ops->name, i % t->vocab, i / t->vocab,
                             (double) t->alone[i], (double) t->again[i], how);
        }
    }

    return HYMT_OK;
}


static void
hymt_selftest_begin(hymt_selftest_t *t, uint32_t slot,
    const uint32_t *prompt, uint32_t n)
{
    hymt_sampling_t  greedy;

    memset(&greedy, 0, sizeof(greedy));
    greedy.top_p = 1;
    greedy.repetition_penalty = 1;

    t->ops->slot_begin(t->backend, slot, &greedy, prompt, n);
}


/* Knuth's multiplicative hash (TAOCP 3, 6.4): the same on every host. */
static uint32_t
hymt_selftest_token(uint32_t i, uint32_t vocab)
{
    return (uint32_t) (((uint64_t) ((i + 1) * UINT32_C(2654435761)) * vocab)
                       >> 32);
}
