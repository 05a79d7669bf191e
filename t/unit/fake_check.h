/*
 * fake_check.h - what backend.h asks of who launches a batch: the first promise
 * that is broken is kept in fake.fault.
 */

#ifndef HYMT_FAKE_CHECK_H
#define HYMT_FAKE_CHECK_H

#include "fake_state.h"


/* What backend.h asks of one sequence of a batch. */
static inline bool
fake_check_seq(const hymt_backend_t *b, const hymt_batch_seq_t *seq)
{
    uint32_t            i, n;
    const fake_slot_t  *s;

    if (seq->slot >= b->params.max_batch || !b->slots[seq->slot].begun) {
        fake_fault("launch: slot %u was not begun", seq->slot);
        return false;
    }

    s = &b->slots[seq->slot];

    if (seq->n_rows == 0 || seq->pos + seq->n_rows > b->params.context) {
        fake_fault("launch: slot %u: %u rows at %u, context %u", seq->slot,
                   seq->n_rows, seq->pos, b->params.context);
        return false;
    }

    /* rows found in the cache are left out, by whole blocks */

    if (seq->pos != s->next_pos
        && (seq->pos < s->next_pos || seq->pos >= s->n_prompt
            || seq->pos % HYMT_KV_BLOCK != 0))
    {
        fake_fault("launch: slot %u: position %u, want %u", seq->slot,
                   seq->pos, s->next_pos);
    }

    if (seq->sample && seq->n_out != s->n_asked) {
        fake_fault("launch: slot %u: n_out %u, want %u", seq->slot,
                   seq->n_out, s->n_asked);
    }

    if (seq->tokens == NULL && (seq->n_rows != 1 || !s->asked)) {
        fake_fault("launch: slot %u has no last token", seq->slot);
    }

    for (i = 0; seq->tokens != NULL && i < seq->n_rows; i++) {
        if (seq->tokens[i] >= b->vocab) {
            fake_fault("launch: token %u, vocabulary %u", seq->tokens[i],
                       b->vocab);
        }
    }

    n = hymt_ceil_div(seq->pos + seq->n_rows, HYMT_KV_BLOCK);

    for (i = 0; i < n; i++) {
        if (seq->blocks[i] >= b->params.n_blocks) {
            fake_fault("launch: block %u of %u", seq->blocks[i],
                       b->params.n_blocks);
            return false;
        }
    }

    return true;
}


/*
 * Marks the blocks of a sequence: those before its first row are read, the
 * others written.  False where one that is written is used by another slot.
 */
static inline bool
fake_claim(hymt_backend_t *b, const hymt_batch_seq_t *seq, uint64_t stamp)
{
    bool           writes;
    uint32_t       i, n, me;
    fake_claim_t  *claim;

    n = hymt_ceil_div(seq->pos + seq->n_rows, HYMT_KV_BLOCK);
    me = seq->slot + 1;

    for (i = 0; i < n; i++) {
        claim = &b->claims[seq->blocks[i]];
        writes = i >= seq->pos / HYMT_KV_BLOCK;

        if (claim->stamp != stamp) {
            claim->stamp = stamp;
            claim->writer = 0;
            claim->reader = 0;
        }

        if ((claim->writer != 0 && claim->writer != me)
            || (writes && claim->reader != 0 && claim->reader != me))
        {
            return false;
        }

        if (writes) {
            claim->writer = me;

        } else {
            claim->reader = claim->reader == 0 || claim->reader == me
                            ? me : FAKE_MANY;
        }
    }

    return true;
}


static inline bool
fake_check(hymt_backend_t *b, const hymt_batch_t *batch)
{
    uint32_t      i, j, rows;
    fake_step_t  *step;

    if (b->n_open == b->depth) {
        fake_fault("launch: %u steps are in flight already", b->n_open);
        return false;
    }

    if (batch->n_seqs == 0 || batch->n_seqs > b->params.max_batch) {
        fake_fault("launch: %u sequences, max_batch %u", batch->n_seqs,
                   b->params.max_batch);
        return false;
    }

    for (i = 0, rows = 0; i < batch->n_seqs; i++) {
        if (!fake_check_seq(b, &batch->seqs[i])) {
            return false;
        }

        rows += batch->seqs[i].n_rows;

        for (j = 0; j < i; j++) {
            if (batch->seqs[j].slot == batch->seqs[i].slot) {
                fake_fault("launch: slot %u twice", batch->seqs[i].slot);
            }
        }

        if (!fake_claim(b, &batch->seqs[i], fake.launched)) {
            fake_fault("launch: a block written is another's too, slot %u",
                       batch->seqs[i].slot);
        }
    }

    if (rows != batch->n_rows || rows > b->params.max_rows) {
        fake_fault("launch: n_rows %u, sum %u, max_rows %u", batch->n_rows,
                   rows, b->params.max_rows);
        return false;
    }

    for (i = 0; i < b->n_open; i++) {
        step = &b->steps[(b->oldest + i) % b->depth];

        for (j = 0; j < step->n_seqs; j++) {
            if (!fake_claim(b, &step->seqs[j], fake.launched)) {
                fake_fault("launch: a block of slot %u is still in flight",
                           step->seqs[j].slot);
            }
        }
    }

    return true;
}


#endif /* HYMT_FAKE_CHECK_H */
