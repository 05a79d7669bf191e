/*
 * batch_check.c - see batch_check.h.
 */

#include "batch_check.h"

#include <inttypes.h>


static hymt_status_t hymt_batch_check_seq(const hymt_batch_t *batch,
    uint32_t i, uint32_t room, const hymt_backend_params_t *p,
    const hymt_config_t *c, hymt_error_t *err);


hymt_status_t
hymt_backend_params_check(const char *name, const hymt_backend_params_t *p,
    const hymt_config_t *c, hymt_error_t *err)
{
    if (p->max_batch == 0 || p->max_rows == 0 || p->n_blocks == 0
        || p->context == 0)
    {
        return hymt_fail(err, "%s backend: max_batch %" PRIu32 ", max_rows %"
                         PRIu32 ", context %" PRIu32 ", n_blocks %" PRIu32
                         ": none may be 0", name, p->max_batch, p->max_rows,
                         p->context, p->n_blocks);
    }

    if (p->context > c->max_position) {
        return hymt_fail(err, "context: %" PRIu32 " is more than the model's"
                         " max_position_embeddings, %" PRIu32, p->context,
                         c->max_position);
    }

    return HYMT_OK;
}


hymt_status_t
hymt_batch_check(const hymt_batch_t *batch, const hymt_backend_params_t *p,
    const hymt_config_t *c, hymt_error_t *err)
{
    uint32_t  i, n_rows;

    if (batch->n_seqs > p->max_batch) {
        return hymt_fail(err, "batch: %" PRIu32 " sequences, at most %" PRIu32
                         " are possible", batch->n_seqs, p->max_batch);
    }

    n_rows = 0;

    for (i = 0; i < batch->n_seqs; i++) {
        if (hymt_batch_check_seq(batch, i, p->max_rows - n_rows, p, c, err)
            != HYMT_OK)
        {
            return HYMT_ERROR;
        }

        n_rows += batch->seqs[i].n_rows;
    }

    if (n_rows != batch->n_rows) {
        return hymt_fail(err, "batch: n_rows is %" PRIu32 ", its sequences have"
                         " %" PRIu32, batch->n_rows, n_rows);
    }

    return HYMT_OK;
}


/* room: rows that the sequences before it leave. */
static hymt_status_t
hymt_batch_check_seq(const hymt_batch_t *batch, uint32_t i, uint32_t room,
    const hymt_backend_params_t *p, const hymt_config_t *c, hymt_error_t *err)
{
    uint32_t                 j, n;
    const hymt_batch_seq_t  *s;

    s = &batch->seqs[i];

    if (s->slot >= p->max_batch || s->n_rows == 0 || s->n_rows > room
        || s->pos >= p->context || s->n_rows > p->context - s->pos
        || (s->tokens == NULL && s->n_rows != 1))
    {
        return hymt_fail(err, "batch: sequence %" PRIu32 ": slot %" PRIu32
                         ", %" PRIu32 " rows at position %" PRIu32 " are out"
                         " of range", i, s->slot, s->n_rows, s->pos);
    }

    n = hymt_ceil_div(s->pos + s->n_rows, HYMT_KV_BLOCK);

    for (j = 0; j < n; j++) {
        if (s->blocks[j] >= p->n_blocks) {
            return hymt_fail(err, "batch: sequence %" PRIu32 ": KV block %"
                             PRIu32 " of %" PRIu32, i, s->blocks[j],
                             p->n_blocks);
        }
    }

    for (j = 0; s->tokens != NULL && j < s->n_rows; j++) {
        if (s->tokens[j] >= c->vocab) {
            return hymt_fail(err, "batch: sequence %" PRIu32 ": token %" PRIu32
                             " is not in the vocabulary of %" PRIu32, i,
                             s->tokens[j], c->vocab);
        }
    }

    return HYMT_OK;
}
