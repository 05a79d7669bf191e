/*
 * scheduler_fuzz.c - libFuzzer on the scheduler, with the fake backend of the
 * unit tests below it.
 *
 *     clang -std=c11 -D_GNU_SOURCE -O1 -g -Iengine \
 *         -fsanitize=fuzzer,address,undefined t/fuzz/scheduler_fuzz.c \
 *         engine/scheduler.c engine/kv_cache.c engine/base.c -o scheduler_fuzz
 *     ./scheduler_fuzz -max_total_time=300 -max_len=2000
 *
 * An input is the engine's size and then a program: each byte adds a sequence,
 * cancels one, changes a budget, launches or collects a step, aborts one, or
 * drops all.  Nothing may crash or break a promise to the backend; each
 * sequence ends once, with the tokens it would have alone; at the end no block
 * is held.
 */

#include "../unit/fake_backend.h"
#include "scheduler.h"


#define FUZZ_SEQS     64
#define FUZZ_CONTEXT  96


typedef struct {
    const uint8_t        *data;
    size_t                size;

    hymt_sched_params_t   p;
    hymt_sched_t         *sched;
    hymt_backend_t       *backend;
    hymt_seq_t           *seqs[FUZZ_SEQS];    /* out; NULL: free */
    uint32_t              open;
} fuzz_t;


static const uint32_t  stops[2] = { 3, 11 };


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static uint32_t
fuzz_byte(fuzz_t *f)
{
    if (f->size == 0) {
        return 0;
    }

    f->size--;

    return *f->data++;
}


static void
fuzz_require(bool good, const char *what)
{
    if (!good || fake.fault[0]) {
        fprintf(stderr, "%s: %s\n", what, fake.fault);
        abort();
    }
}


static void
fuzz_open(fuzz_t *f)
{
    hymt_error_t           err;
    hymt_backend_params_t  bp;

    memset(&fake, 0, sizeof(fake));
    fake.vocab = 40;

    f->p.max_batch = 1 + fuzz_byte(f) % 16;
    f->p.context = 2 + fuzz_byte(f) % (FUZZ_CONTEXT - 1);
    f->p.n_blocks = 1 + fuzz_byte(f) % 40;
    f->p.max_rows = f->p.max_batch + fuzz_byte(f) % 64;
    f->p.budget_mixed = fuzz_byte(f);
    f->p.budget_prefill = fuzz_byte(f);
    f->p.depth = 1 + fuzz_byte(f) % 2;
    f->p.prefix_cache = fuzz_byte(f) % 2;
    f->p.coalesce = fuzz_byte(f) % 2;
    f->p.max_flows = fuzz_byte(f) % 4;
    f->p.age = fuzz_byte(f);
    f->p.stop = stops;
    f->p.n_stop = 2;

    fuzz_require(hymt_sched_create(&f->p, &f->sched, &err) == HYMT_OK,
                 "create");

    memset(&bp, 0, sizeof(bp));
    bp.max_batch = f->p.max_batch;
    bp.max_rows = f->p.max_rows;
    bp.context = f->p.context;
    bp.n_blocks = f->p.n_blocks;

    fake_ops[f->p.depth].create(&bp, NULL, &f->backend, &err);
}


static void
fuzz_free(hymt_seq_t *seq)
{
    free((void *) seq->prompt);
    free(seq->out);
    free(seq);
}


static void
fuzz_add(fuzz_t *f)
{
    uint32_t       i, n;
    uint32_t      *prompt;
    hymt_seq_t    *seq;
    hymt_status_t  rc;

    for (n = 0; n < FUZZ_SEQS && f->seqs[n] != NULL; n++) { /* void */ }

    if (n == FUZZ_SEQS) {
        return;
    }

    seq = calloc(1, sizeof(hymt_seq_t));
    seq->n_prompt = fuzz_byte(f) % FUZZ_CONTEXT;
    seq->max_new = fuzz_byte(f) % 32;
    seq->sampling.temperature = 1;
    seq->sampling.seed = fuzz_byte(f) % 8;
    seq->scope.word[0] = fuzz_byte(f) % 2;
    seq->priority = fuzz_byte(f) % HYMT_N_PRIORITIES;
    seq->flow[0] = fuzz_byte(f) % 8;
    seq->out = calloc(seq->max_new + 1, 4);

    prompt = calloc(seq->n_prompt + 1, 4);
    seq->prompt = prompt;

    for (i = 0; i < seq->n_prompt; i++) {
        prompt[i] = (uint32_t) fake_mix(seq->sampling.seed + i) % fake.vocab;
    }

    rc = hymt_sched_add(f->sched, seq, NULL);

    if (rc == HYMT_OK) {
        f->seqs[n] = seq;
        return;
    }

    fuzz_require(rc == HYMT_TOO_LONG
                 || seq->n_prompt == 0 || seq->max_new == 0, "add");
    fuzz_free(seq);
}


static void
fuzz_check(const hymt_seq_t *seq)
{
    uint32_t  i, token;

    for (i = 0; i < seq->n_out; i++) {
        token = fake_next(&seq->sampling, seq->prompt, seq->n_prompt,
                          seq->out, i, fake.vocab);
        fuzz_require(token == seq->out[i], "another token than alone");
    }

    if (seq->ended == HYMT_FINISH_STOP) {
        token = fake_next(&seq->sampling, seq->prompt, seq->n_prompt,
                          seq->out, i, fake.vocab);
        fuzz_require(token == stops[0] || token == stops[1], "no end token");
    }

    fuzz_require(seq->ended != HYMT_FINISH_LENGTH
                 || seq->n_out == seq->max_new, "length");
    fuzz_require(seq->ended != HYMT_FINISH_CANCELED || seq->canceled,
                 "canceled");
}


static void
fuzz_news(fuzz_t *f)
{
    uint32_t     i;
    hymt_seq_t  *seq;

    while ((seq = hymt_sched_news(f->sched)) != NULL) {

        for (i = 0; i < FUZZ_SEQS && f->seqs[i] != seq; i++) { /* void */ }

        fuzz_require(i < FUZZ_SEQS, "news of a sequence that is not out");

        if (seq->ended != HYMT_FINISH_NONE) {
            fuzz_check(seq);
            fuzz_free(seq);
            f->seqs[i] = NULL;
        }
    }
}


static void
fuzz_begin(void *data, hymt_seq_t *seq)
{
    fuzz_t  *f = data;

    fake_slot_begin(f->backend, seq->slot, &seq->sampling, seq->prompt,
                    seq->n_prompt);
}


static bool
fuzz_launch(fuzz_t *f)
{
    hymt_error_t   err;
    hymt_batch_t   batch;
    hymt_status_t  rc;

    rc = hymt_sched_plan(f->sched, fuzz_begin, f, &batch);

    if (rc == HYMT_OK) {
        rc = fake_launch(f->backend, &batch, &err);
        fuzz_require(rc == HYMT_OK, "launch");
        f->open++;
    }

    fuzz_news(f);

    return rc == HYMT_OK;
}


static bool
fuzz_collect(fuzz_t *f)
{
    uint32_t       tokens[16];
    hymt_error_t   err;
    hymt_status_t  rc;

    if (f->open == 0) {
        return false;
    }

    f->open--;

    rc = fake_collect(f->backend, tokens, &err);
    fuzz_require(rc != HYMT_ERROR, "collect");

    hymt_sched_commit(f->sched, rc == HYMT_OK ? tokens : NULL);
    fuzz_news(f);

    return true;
}


/* What is in flight is forgotten by both. */
static void
fuzz_drop_all(fuzz_t *f)
{
    uint32_t      tokens[16];
    hymt_error_t  err;

    for ( /* void */ ; f->open > 0; f->open--) {
        fake_collect(f->backend, tokens, &err);
    }

    hymt_sched_drop_all(f->sched, HYMT_FINISH_FAILED);
    fuzz_news(f);
}


static void
fuzz_call(fuzz_t *f)
{
    uint32_t     n;
    hymt_seq_t  *seq;

    n = fuzz_byte(f);

    switch (n % 8) {

    case 0:
        fuzz_add(f);
        break;

    case 1:
        seq = f->seqs[n / 8];
        if (seq != NULL) {
            seq->canceled = 1;
            hymt_sched_cancels(f->sched);
        }

        break;

    case 2:
        hymt_sched_budget(f->sched, fuzz_byte(f), fuzz_byte(f));
        break;

    case 3:
        if (n / 8 == 0) {
            fuzz_drop_all(f);

        } else {
            fake.abort_next = n / 8 < 8;
        }

        break;

    case 4:
    case 5:
        fuzz_launch(f);
        break;

    default:
        fuzz_collect(f);
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t  i, turn;
    fuzz_t    f;

    memset(&f, 0, sizeof(f));
    f.data = data;
    f.size = size;

    fuzz_open(&f);

    while (f.size > 0) {
        fuzz_call(&f);
    }

    fake.abort_next = false;

    for (turn = 0; fuzz_launch(&f) || fuzz_collect(&f); turn++) {
        fuzz_require(turn < 100000, "it never ends");
    }

    for (i = 0; i < FUZZ_SEQS; i++) {
        fuzz_require(f.seqs[i] == NULL, "a sequence has not ended");
    }

    fuzz_require(hymt_sched_blocks_used(f.sched) == 0
                 && hymt_sched_running(f.sched) == 0
                 && hymt_sched_waiting(f.sched) == 0, "idle, but not empty");

    fake_destroy(f.backend);
    hymt_sched_free(f.sched);

    return 0;
}
