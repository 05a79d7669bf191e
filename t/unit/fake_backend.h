/*
 * fake_backend.h - a backend without a model, for tests of what is above it.
 *
 * A token is a hash of the whole sequence so far, read back from the KV blocks
 * the step names, and of the slot's prompt, seed and index: a wrong block
 * table, position, chunk or slot changes the output.  fake_next() computes the
 * same from the plain sequence.
 *
 * fake_ops[1] computes inside launch(), fake_ops[2] defers all work to
 * collect().  Both check the promises that backend.h asks of its caller; the
 * first broken one is kept in fake.fault.
 *
 * Knobs and counters are in `fake`, which a test sets before create() or while
 * nothing runs.
 */

#ifndef HYMT_FAKE_BACKEND_H
#define HYMT_FAKE_BACKEND_H

#include "claim.h"
#include "fake_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>


static inline void
fake_sleep(uint64_t ns)
{
    struct timespec  ts;

    if (ns > 0) {
        ts.tv_sec = (time_t) (ns / 1000000000);
        ts.tv_nsec = (long) (ns % 1000000000);
        nanosleep(&ts, NULL);
    }
}


static inline bool
fake_raised(const volatile int *flag)
{
    return flag != NULL && __atomic_load_n(flag, __ATOMIC_RELAXED) != 0;
}


static inline hymt_status_t
fake_room(void *data, uint64_t *bytes, hymt_error_t *err)
{
    (void) data;
    (void) err;

    *bytes = (uint64_t) fake.room;

    return HYMT_OK;
}


static inline hymt_status_t
fake_create(uint32_t depth, const hymt_backend_params_t *params,
    const hymt_model_t *model, hymt_backend_t **out, hymt_error_t *err)
{
    uint32_t         i;
    uint64_t         room, held;
    fake_step_t     *step;
    hymt_backend_t  *b;

    if (fake.wants > 0
        && hymt_claim_ask(params->claim, HYMT_CLAIM_HOST, fake.wants,
                          fake_room, NULL, &room, &held, err) != HYMT_OK)
    {
        (void) hymt_fail(err, "fake: not enough memory, %" PRIu64 " of %"
                         PRIu64 " are for others", held, room);
        return HYMT_AGAIN;
    }

    for (i = 0; i < fake.create_ms; i++) {
        if (fake_raised(params->stop)) {
            return HYMT_ABORTED;
        }

        fake_sleep(1000000);
    }

    if (fake.create_fails) {
        return hymt_fail(err, "fake: told to fail");
    }

    if (fake.short_of_memory > 0) {
        fake.short_of_memory--;
        (void) hymt_fail(err, "fake: not enough memory");
        return HYMT_AGAIN;
    }

    if (atomic_fetch_sub(&fake.room, (int64_t) fake.wants)
        < (int64_t) fake.wants)
    {
        fake_fault("create: memory is taken that is not there");
    }

    b = calloc(1, sizeof(hymt_backend_t));
    b->params = *params;
    b->depth = depth;
    b->vocab = model != NULL ? model->config.vocab : fake.vocab;
    b->table = hymt_ceil_div(params->context, HYMT_KV_BLOCK);
    b->kv = calloc((size_t) params->n_blocks * HYMT_KV_BLOCK, 8);
    b->claims = calloc(params->n_blocks, sizeof(fake_claim_t));
    b->slots = calloc(params->max_batch, sizeof(fake_slot_t));

    for (i = 0; i < depth; i++) {
        step = &b->steps[i];
        step->seqs = calloc(params->max_batch, sizeof(hymt_batch_seq_t));
        step->tokens = calloc(params->max_rows, 4);
        step->blocks = calloc((size_t) params->max_batch * b->table, 4);
        step->sampled = calloc(params->max_batch, 4);
        step->aborts = calloc(params->max_batch, 4);
    }

    fake.backends++;
    *out = b;

    return HYMT_OK;
}


static inline hymt_status_t
fake_create_1(const hymt_backend_params_t *params, const hymt_model_t *model,
    hymt_backend_t **b, hymt_error_t *err)
{
    return fake_create(1, params, model, b, err);
}


static inline hymt_status_t
fake_create_2(const hymt_backend_params_t *params, const hymt_model_t *model,
    hymt_backend_t **b, hymt_error_t *err)
{
    return fake_create(2, params, model, b, err);
}


static inline void
fake_destroy(hymt_backend_t *b)
{
    uint32_t  i;

    for (i = 0; i < b->depth; i++) {
        free(b->steps[i].seqs);
        free(b->steps[i].tokens);
        free(b->steps[i].blocks);
        free(b->steps[i].sampled);
        free(b->steps[i].aborts);
    }

    free(b->kv);
    free(b->claims);
    free(b->slots);
    free(b);

    fake.room += (int64_t) fake.wants;

    fake.backends--;
}


static inline void
fake_slot_begin(hymt_backend_t *b, uint32_t slot,
    const hymt_sampling_t *sampling, const uint32_t *prompt, uint32_t n_prompt)
{
    fake_slot_t  *s;

    if (slot >= b->params.max_batch) {
        fake_fault("slot_begin: slot %u of %u", slot, b->params.max_batch);
        return;
    }

    s = &b->slots[slot];

    if (s->in_flight) {
        fake_fault("slot_begin: slot %u is in flight", slot);
    }

    memset(s, 0, sizeof(fake_slot_t));
    s->begun = true;
    s->last = HYMT_TOKEN_NONE;
    s->n_prompt = n_prompt;
    s->key = fake_key(sampling, prompt, n_prompt);
}


static inline void
fake_copy(hymt_backend_t *b, fake_step_t *step, const hymt_batch_t *batch)
{
    uint32_t           i, n, rows, blocks;
    fake_slot_t       *s;
    hymt_batch_seq_t  *seq;

    step->n_seqs = batch->n_seqs;
    step->n_rows = batch->n_rows;
    step->logits = batch->logits;

    for (i = 0, rows = 0, blocks = 0; i < batch->n_seqs; i++) {
        seq = &step->seqs[i];
        *seq = batch->seqs[i];

        if (seq->tokens != NULL) {
            memcpy(&step->tokens[rows], seq->tokens, 4 * seq->n_rows);
            seq->tokens = &step->tokens[rows];
        }

        n = hymt_ceil_div(seq->pos + seq->n_rows, HYMT_KV_BLOCK);
        memcpy(&step->blocks[blocks], seq->blocks, 4 * n);
        seq->blocks = &step->blocks[blocks];

        rows += seq->n_rows;
        blocks += n;

        s = &b->slots[seq->slot];
        s->next_pos = seq->pos + seq->n_rows;
        s->n_asked += seq->sample;
        s->asked = s->asked || seq->sample;
        s->in_flight++;
        step->aborts[i] = s->aborts;
    }
}


static inline uint64_t *
fake_kv(hymt_backend_t *b, const hymt_batch_seq_t *seq, uint32_t pos)
{
    return &b->kv[(size_t) seq->blocks[pos / HYMT_KV_BLOCK] * HYMT_KV_BLOCK
                  + pos % HYMT_KV_BLOCK];
}


static inline void
fake_logits(hymt_backend_t *b, const fake_step_t *step,
    const hymt_batch_seq_t *seq, uint32_t row, uint64_t h, float *logits)
{
    uint32_t  i;

    for (i = 0; i < b->vocab; i++) {
        logits[i] = (float) (fake_mix(h + i) >> 40) / (1 << 20) - 8;
    }

    if (fake.batch_dependent) {
        logits[b->vocab / 2] += (float) step->n_seqs * 1e-4f;
    }

    if (fake.chunk_dependent) {
        logits[b->vocab / 2] += (float) row * 1e-4f;
    }

    if (fake.nan_logits) {
        logits[seq->pos % b->vocab] = (float) (0.0 / (h == 1 ? 1.0 : 0.0));
    }
}


static inline uint32_t
fake_script(uint32_t n_out)
{
    size_t  len;

    len = strlen(fake.script);

    if (n_out >= len && fake.script_end != 0) {
        return fake.script_end;
    }

    return (uint8_t) fake.script[n_out % len];
}


static inline void
fake_run_seq(hymt_backend_t *b, fake_step_t *step, uint32_t i, float *logits)
{
    uint32_t           r, pos, token;
    uint64_t           h;
    fake_slot_t       *s;
    hymt_batch_seq_t  *seq;

    seq = &step->seqs[i];
    s = &b->slots[seq->slot];

    for (r = 0; r < seq->n_rows; r++) {
        pos = seq->pos + r;
        token = seq->tokens != NULL ? seq->tokens[r] : s->last;
        *fake_kv(b, seq, pos) = fake_entry(token, pos);
    }

    step->sampled[i] = HYMT_TOKEN_NONE;

    for (pos = 0, h = 0; pos < seq->pos + seq->n_rows; pos++) {
        h = fake_mix(h ^ *fake_kv(b, seq, pos));

        if (logits != NULL && pos >= seq->pos) {
            r = pos - seq->pos;
            fake_logits(b, step, seq, r, h, logits + (size_t) r * b->vocab);
        }
    }

    if (seq->sample) {
        s->last = fake.script != NULL
                  ? fake_script(seq->n_out)
                  : (uint32_t) (fake_mix(h ^ s->key ^ seq->n_out) % b->vocab);
        step->sampled[i] = s->last;
    }
}


/*
 * An aborted step leaves rubbish, and its caller begins again from there; a
 * younger step in flight was built on it and moves nothing any more.
 */
static inline void
fake_abort(hymt_backend_t *b, fake_step_t *step)
{
    uint32_t           i, r;
    fake_slot_t       *s;
    hymt_batch_seq_t  *seq;

    for (i = 0; i < step->n_seqs; i++) {
        seq = &step->seqs[i];
        s = &b->slots[seq->slot];

        for (r = 0; r < seq->n_rows; r++) {
            *fake_kv(b, seq, seq->pos + r) = fake_mix(r ^ 0xdead);
        }

        step->sampled[i] = HYMT_TOKEN_NONE;

        if (step->aborts[i] == s->aborts) {
            s->aborts++;
            s->next_pos = seq->pos;
            s->n_asked = seq->n_out;
            s->asked = false;
            s->last = 0;
        }
    }

    step->aborted = true;
    fake.aborted++;
}


/* The time of a step goes by in four layers; each looks whether to go on. */
static inline bool
fake_wanted(hymt_backend_t *b, const fake_step_t *step)
{
    uint32_t  i, layer;

    if (fake.abort_next
        || (fake.launched >= fake.abort_from
            && fake.launched <= fake.abort_to))
    {
        fake.abort_next = false;
        return false;
    }

    for (layer = 0; layer < 4; layer++) {
        if (fake_raised(b->params.stop)) {
            return false;
        }

        for (i = 0; i < step->n_seqs; i++) {
            if (!fake_raised(step->seqs[i].canceled)) {
                break;
            }
        }

        if (i == step->n_seqs) {
            return false;
        }

        fake_sleep((fake.ns_step + step->n_rows * fake.ns_row) / 4);
    }

    return true;
}


static inline void
fake_run(hymt_backend_t *b, fake_step_t *step)
{
    uint32_t  i, rows;

    step->aborted = false;

    if (!fake_wanted(b, step)) {
        fake_abort(b, step);
        return;
    }

    for (i = 0, rows = 0; i < step->n_seqs; i++) {
        fake_run_seq(b, step, i, step->logits == NULL ? NULL
                     : step->logits + (size_t) rows * b->vocab);
        rows += step->seqs[i].n_rows;
    }
}


static inline hymt_status_t
fake_launch(hymt_backend_t *b, const hymt_batch_t *batch, hymt_error_t *err)
{
    uint32_t      i;
    fake_step_t  *step;

    fake.launched++;
    fake.max_rows = hymt_max(fake.max_rows, batch->n_rows);

    if (fake.launched == fake.launch_fails_at) {
        return hymt_fail(err, "fake: launch %" PRIu64 " was told to fail",
                         fake.launched);
    }

    if (!fake_check(b, batch)) {
        return hymt_fail(err, "fake: %s", fake.fault);
    }

    step = &b->steps[(b->oldest + b->n_open) % b->depth];
    fake.overlapped += b->n_open > 0;
    b->n_open++;

    for (i = 0; i < batch->n_seqs; i++) {
        fake.fed += batch->seqs[i].tokens == NULL;
    }

    fake_copy(b, step, batch);

    if (b->depth == 1) {
        fake_run(b, step);
    }

    return HYMT_OK;
}


static inline hymt_status_t
fake_collect(hymt_backend_t *b, uint32_t *tokens, hymt_error_t *err)
{
    uint32_t      i;
    fake_step_t  *step;

    if (b->n_open == 0) {
        fake_fault("collect: nothing is in flight");
        return hymt_fail(err, "fake: %s", fake.fault);
    }

    step = &b->steps[b->oldest];

    if (b->depth == 2) {
        fake_run(b, step);
    }

    b->oldest = (b->oldest + 1) % b->depth;
    b->n_open--;

    for (i = 0; i < step->n_seqs; i++) {
        tokens[i] = step->sampled[i];
        b->slots[step->seqs[i].slot].in_flight--;
    }

    if (fake.launched == fake.collect_fails_at) {
        return hymt_fail(err, "fake: collect was told to fail");
    }

    return step->aborted ? HYMT_ABORTED : HYMT_OK;
}


static inline void
fake_memory(const hymt_backend_t *b, uint64_t *weights, uint64_t *kv,
    uint64_t *other)
{
    *weights = 1000000;
    *kv = (uint64_t) b->params.n_blocks * HYMT_KV_BLOCK * 8;
    *other = 3000000;
}


static inline const char *
fake_describe(const hymt_backend_t *b)
{
    return b->depth == 1 ? "hashes, at once" : "hashes, deferred";
}


/* by depth */
__attribute__((unused))
static const hymt_backend_ops_t  fake_ops[3] = {
    [1] = {
        HYMT_BACKEND_ABI, "test", "fake", 1, fake_create_1, fake_destroy,
        fake_slot_begin, fake_launch, fake_collect, fake_memory, fake_describe,
        4, NULL, NULL,
    },
    [2] = {
        HYMT_BACKEND_ABI, "test", "fake", 2, fake_create_2, fake_destroy,
        fake_slot_begin, fake_launch, fake_collect, fake_memory, fake_describe,
        4, NULL, NULL,
    },
};


#endif /* HYMT_FAKE_BACKEND_H */
