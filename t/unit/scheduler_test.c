/*
 * scheduler_test.c - the promises of scheduler.h, first one by one, then all
 * of them under random arrivals, cancels and aborts.  The fake backend turns a
 * wrong block, position, chunk or slot into a wrong token, and each sequence is
 * freed when it ends, so that a sanitizer sees who touches it later.
 */

#include "fake_backend.h"
#include "scheduler.h"
#include "tap.h"


#define N_FLOWS  9


typedef struct seq_s {
    hymt_seq_t      s;           /* first: news are these */
    uint32_t        number;      /* of arrival */
    uint64_t        begun_at;    /* step of admission */
    uint64_t        first_at;    /* step of its first token */
    uint32_t        rows_ahead;  /* prompt rows to go at admission, with own */
    uint32_t        room;        /* fewest prompt rows a step had since then */
    struct seq_s   *next;        /* of all that are out */
} seq_t;


/* A prompt that has been there: what the prefix cache may know. */
typedef struct seen_s {
    struct seen_s  *next;
    hymt_scope_t    scope;
    uint32_t        n;
    uint32_t        token[];
} seen_t;


typedef struct {
    hymt_sched_t         *sched;
    hymt_backend_t       *backend;
    hymt_sched_params_t   p;
    const hymt_backend_ops_t  *ops;

    seq_t                *out;       /* not ended yet */
    uint32_t              n_added;
    uint32_t              n_begun;
    uint32_t              last_begun[2][N_FLOWS];
    uint32_t              flows;     /* of sequences: 0, none */
    uint32_t              open;
    uint64_t              steps;
    hymt_batch_t          batch;     /* of the last plan */
    uint32_t              decode;    /* its decode rows */
    uint32_t              ended[HYMT_FINISH_FAILED + 1];  /* by finish */
    bool                  check_bound;
    uint32_t              alike;     /* kinds of beginnings of prompts */
    uint64_t              seed;      /* of all sequences; 0: each its own */
    seen_t               *seen;      /* all prompts so far */
    uint32_t              coalesced; /* of those that have ended */
    uint64_t              rows;      /* of prompts, computed */
    uint64_t              cached;    /* of those that have ended */
    char                  fault[256];
} rig_t;


static const uint32_t  stops[2] = { 7, 33 };

static uint64_t  rng;


static uint32_t
roll(uint32_t n)
{
    rng = fake_mix(rng);

    return (uint32_t) (rng >> 32) % n;
}


/* Keeps the first thing found wrong. */
__attribute__((format(printf, 2, 3)))
static void
rig_fault(rig_t *rig, const char *fmt, ...)
{
    va_list  args;

    if (rig->fault[0] == '\0') {
        va_start(args, fmt);
        vsnprintf(rig->fault, sizeof(rig->fault), fmt, args);
        va_end(args);
    }
}


static void
rig_open(rig_t *rig, hymt_sched_params_t p)
{
    hymt_error_t           err;
    hymt_backend_params_t  bp;

    memset(rig, 0, sizeof(rig_t));
    memset(&bp, 0, sizeof(bp));
    fake.fault[0] = '\0';

    p.stop = stops;
    p.n_stop = 2;
    rig->p = p;
    rig->ops = &fake_ops[p.depth];

    bp.max_batch = p.max_batch;
    bp.max_rows = p.max_rows;
    bp.context = p.context;
    bp.n_blocks = p.n_blocks;

    if (hymt_sched_create(&p, &rig->sched, &err) != HYMT_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }

    rig->ops->create(&bp, NULL, &rig->backend, &err);
}


static void
rig_close(rig_t *rig)
{
    seen_t  *seen;

    while ((seen = rig->seen) != NULL) {
        rig->seen = seen->next;
        free(seen);
    }

    rig->ops->destroy(rig->backend);
    hymt_sched_free(rig->sched);
}


static void
rig_remember(rig_t *rig, const hymt_seq_t *s)
{
    seen_t  *seen;

    seen = malloc(sizeof(seen_t) + 4 * s->n_prompt);
    seen->next = rig->seen;
    seen->scope = s->scope;
    seen->n = s->n_prompt;
    memcpy(seen->token, s->prompt, 4 * s->n_prompt);
    rig->seen = seen;
}


/*
 * What was not computed is a beginning, by whole blocks and without the last
 * token, of another prompt of its scope.
 */
static void
rig_check_cached(rig_t *rig, const seq_t *seq)
{
    uint32_t           i, same, most;
    const seen_t      *seen;
    const hymt_seq_t  *s;

    s = &seq->s;

    for (seen = rig->seen, same = 0, most = 0; seen != NULL;
         seen = seen->next)
    {
        if (memcmp(&seen->scope, &s->scope, sizeof(hymt_scope_t)) != 0) {
            continue;
        }

        for (i = 0; i < seen->n && i < s->n_prompt
                    && seen->token[i] == s->prompt[i]; i++)
        {
            /* void */
        }

        /* itself is among them, once */

        same += i == s->n_prompt && seen->n == i;
        most = hymt_max(most, i == s->n_prompt && seen->n == i && same == 1
                              ? 0 : i);
    }

    if (s->coalesced) {
        rig->coalesced++;

        /* fewer, where it has gone on in the other's place */

        if (s->n_cached > s->n_prompt || !rig->p.coalesce || same < 2) {
            rig_fault(rig, "sequence %u: followed, %u of %u tokens",
                      seq->number, s->n_cached, s->n_prompt);
        }

        return;
    }

    if (s->n_cached > most || s->n_cached >= s->n_prompt
        || s->n_cached % HYMT_KV_BLOCK != 0
        || (s->n_cached > 0 && !rig->p.prefix_cache))
    {
        rig_fault(rig, "sequence %u: %u tokens cached, %u of %u are known",
                  seq->number, s->n_cached, most, s->n_prompt);
    }

    rig->cached += s->n_cached;
}


static seq_t *
rig_new(rig_t *rig, uint32_t n_prompt, uint32_t max_new)
{
    seq_t  *seq;

    seq = calloc(1, sizeof(seq_t));

    seq->s.prompt = calloc(n_prompt, 4);
    seq->s.n_prompt = n_prompt;
    seq->s.max_new = max_new;
    seq->s.out = calloc(max_new, 4);
    seq->s.sampling.temperature = 1;
    seq->s.sampling.seed = rig->seed ? rig->seed : roll(1000);
    seq->number = ++rig->n_added;

    if (rig->flows > 0) {
        seq->s.priority = roll(3) == 0;
        seq->s.flow[roll(2)] = roll(rig->flows);
    }

    seq->room = UINT32_MAX;

    return seq;
}


static seq_t *
rig_submit(rig_t *rig, seq_t *seq)
{
    hymt_error_t  err;

    rig_remember(rig, &seq->s);

    if (hymt_sched_add(rig->sched, &seq->s, &err) != HYMT_OK) {
        rig_fault(rig, "add: %s", err.text);
    }

    seq->next = rig->out;
    rig->out = seq;

    return seq;
}


/* A prompt of beginning `kind` for `alike` tokens, and then at random. */
static seq_t *
rig_add_alike(rig_t *rig, uint32_t n_prompt, uint32_t max_new, uint32_t kind,
    uint32_t alike, uint32_t scope)
{
    seq_t     *seq;
    uint32_t   i, *prompt;

    seq = rig_new(rig, n_prompt, max_new);
    seq->s.scope.word[scope % 2] = scope;
    prompt = (uint32_t *) seq->s.prompt;

    for (i = 0; i < n_prompt; i++) {
        prompt[i] = i < alike
                    ? (uint32_t) (fake_mix(kind * 100003 + i) % fake.vocab)
                    : roll(fake.vocab);
    }

    return rig_submit(rig, seq);
}


/* One more of a sequence that is out. */
static void
rig_add_again(rig_t *rig)
{
    uint32_t   n;
    seq_t     *seq, *other;

    for (n = roll(5), other = rig->out; n > 0 && other->next != NULL; n--) {
        other = other->next;
    }

    seq = rig_new(rig, other->s.n_prompt, other->s.max_new);
    memcpy((void *) seq->s.prompt, other->s.prompt, 4 * other->s.n_prompt);
    seq->s.sampling = other->s.sampling;
    seq->s.scope = other->s.scope;

    (void) rig_submit(rig, seq);
}


static seq_t *
rig_add(rig_t *rig, uint32_t n_prompt, uint32_t max_new)
{
    if (rig->alike == 0 || roll(4) == 0) {
        return rig_add_alike(rig, n_prompt, max_new, 0, 0, 0);
    }

    return rig_add_alike(rig, n_prompt, max_new, roll(rig->alike),
                         roll(rig->p.context), roll(6) ? 0 : roll(3));
}


static void
rig_cancel(rig_t *rig, seq_t *seq)
{
    __atomic_store_n(&seq->s.canceled, 1, __ATOMIC_RELAXED);
    hymt_sched_cancels(rig->sched);
}


/* The output is what the sequence gives alone, and ends where it should. */
static void
rig_check_output(rig_t *rig, seq_t *seq)
{
    bool         stop;
    uint32_t     i, token;
    hymt_seq_t  *s;

    s = &seq->s;
    stop = false;

    for (i = 0; i <= s->n_out && i < s->max_new; i++) {
        token = fake_next(&s->sampling, s->prompt, s->n_prompt, s->out, i,
                          fake.vocab);
        stop = token == stops[0] || token == stops[1]
               || (s->n_stop > 0 && token == s->stop[0]);

        if (i < s->n_out && (stop || s->out[i] != token)) {
            rig_fault(rig, "sequence %u: token %u is %u, alone %u",
                      seq->number, i, s->out[i], token);
        }
    }

    if (s->ended == HYMT_FINISH_STOP && !stop) {
        rig_fault(rig, "sequence %u: stopped without an end token",
                  seq->number);
    }

    if (s->ended == HYMT_FINISH_LENGTH && s->n_out != s->max_new) {
        rig_fault(rig, "sequence %u: length at %u of %u", seq->number,
                  s->n_out, s->max_new);
    }

    if (s->ended == HYMT_FINISH_CANCELED && !s->canceled) {
        rig_fault(rig, "sequence %u was never canceled", seq->number);
    }
}


/*
 * The oldest prompt gets half of what prompts may have at least (or, where that
 * is one row, every other step's), so those ahead bound the steps to the first
 * token.
 */
static void
rig_check_bound(rig_t *rig, seq_t *seq)
{
    uint64_t  bound;

    bound = seq->room < 2 ? 2 * (uint64_t) seq->rows_ahead
                          : seq->rows_ahead / (seq->room / 2);
    bound += 2 * rig->p.max_batch + rig->p.depth;

    /* who has taken over began earlier than the rig knows */

    if (rig->check_bound && seq->begun_at
        && seq->first_at - seq->begun_at > bound)
    {
        rig_fault(rig, "sequence %u: first token after %" PRIu64 " steps,"
                  " bound %" PRIu64, seq->number,
                  seq->first_at - seq->begun_at, bound);
    }
}


static void
rig_news(rig_t *rig)
{
    seq_t       *seq, **p;
    hymt_seq_t  *s;

    while ((s = hymt_sched_news(rig->sched)) != NULL) {

        for (p = &rig->out; *p != NULL && &(*p)->s != s; p = &(*p)->next) {
            /* void */
        }

        if (*p == NULL) {
            rig_fault(rig, "news of a sequence that has ended");
            return;
        }

        seq = *p;

        if (s->n_out > 0 && seq->first_at == 0) {
            seq->first_at = rig->steps;
            rig_check_bound(rig, seq);
        }

        if (s->ended == HYMT_FINISH_NONE) {
            continue;
        }

        rig_check_output(rig, seq);
        rig_check_cached(rig, seq);
        rig->ended[s->ended]++;

        *p = seq->next;
        free((void *) s->prompt);
        free(s->out);
        free(seq);
    }
}


static void
rig_begin(void *data, hymt_seq_t *s)
{
    rig_t  *rig = data;

    seq_t     *seq, *other;
    uint32_t  *last;

    seq = (seq_t *) s;

    rig->n_begun++;

    /* in order of arrival, where flow and priority are the same */

    last = &rig->last_begun[s->priority][s->flow[0] + 3 * s->flow[1]];

    if (seq->number < *last) {
        rig_fault(rig, "sequence %u was admitted after %u", seq->number,
                  *last);
    }

    *last = seq->number;
    seq->begun_at = rig->steps + 1;

    for (other = rig->out; other != NULL; other = other->next) {
        if (other->s.place == HYMT_PLACE_SLOT) {
            seq->rows_ahead += other->s.n_prompt
                               - hymt_min(other->s.n_prompt, other->s.n_done);
        }
    }

    rig->ops->slot_begin(rig->backend, s->slot, &s->sampling, s->prompt,
                         s->n_prompt);
}


/* The prompt rows keep their budget, and the step its limit. */
static void
rig_check_plan(rig_t *rig)
{
    seq_t                   *seq;
    uint32_t                 i, prompt, budget;
    const hymt_batch_seq_t  *row;

    for (i = 0, rig->decode = 0, prompt = 0; i < rig->batch.n_seqs; i++) {
        row = &rig->batch.seqs[i];

        if (row->n_out > 0) {
            rig->decode++;

        } else {
            prompt += row->n_rows;
        }
    }

    rig->rows += prompt;

    budget = rig->decode ? rig->p.budget_mixed : rig->p.budget_prefill;

    if (rig->decode && rig->p.fill_rows > rig->decode) {
        budget = hymt_max(budget, rig->p.fill_rows - rig->decode);
    }

    budget = hymt_min(budget, rig->p.max_rows - rig->decode);

    if (prompt > budget) {
        rig_fault(rig, "%u prompt rows, budget %u", prompt, budget);
    }

    for (seq = rig->out; seq != NULL; seq = seq->next) {
        if (seq->begun_at && seq->first_at == 0) {
            seq->room = hymt_min(seq->room, budget);
        }
    }
}


/* By itself, or one that follows it. */
static bool
rig_is_wanted(const hymt_seq_t *s)
{
    while (s != NULL && s->canceled) {
        s = s->twins;
    }

    return s != NULL;
}


/* Decoding sequences before a plan: none of them may be left out of it. */
static uint32_t
rig_ready(rig_t *rig)
{
    uint32_t  n;
    seq_t    *seq;

    for (seq = rig->out, n = 0; seq != NULL; seq = seq->next) {
        n += seq->s.place == HYMT_PLACE_SLOT && rig_is_wanted(&seq->s)
             && seq->s.n_done >= seq->s.n_prompt
             && seq->s.n_planned < seq->s.max_new;
    }

    return n;
}


static void
rig_collect(rig_t *rig)
{
    hymt_error_t   err;
    hymt_status_t  rc;
    uint32_t       tokens[64];

    rc = rig->ops->collect(rig->backend, tokens, &err);
    rig->open--;

    if (rc == HYMT_ERROR) {
        rig_fault(rig, "collect: %s", err.text);
    }

    hymt_sched_commit(rig->sched, rc == HYMT_OK ? tokens : NULL);
}


/* One turn of the engine's loop; false where there is nothing to do. */
static bool
rig_step(rig_t *rig)
{
    uint32_t       ready;
    hymt_error_t   err;
    hymt_status_t  rc;

    ready = rig_ready(rig);
    rc = hymt_sched_plan(rig->sched, rig_begin, rig, &rig->batch);
    rig_news(rig);

    if (rc == HYMT_OK) {
        rig->steps++;
        rig->open++;
        rig_check_plan(rig);

        if (rig->decode != ready) {
            rig_fault(rig, "%u sequences could decode, %u rows do", ready,
                      rig->decode);
        }

        if (rig->ops->launch(rig->backend, &rig->batch, &err) != HYMT_OK) {
            rig_fault(rig, "launch: %s", err.text);
            return false;
        }

        if (rig->open < rig->p.depth) {
            return true;
        }
    }

    if (rig->open == 0) {
        return false;
    }

    rig_collect(rig);
    rig_news(rig);

    if (fake.fault[0]) {
        rig_fault(rig, "%s", fake.fault);
    }

    return rig->fault[0] == '\0';
}


static const hymt_sched_params_t  small = {
    .max_batch = 8, .context = 128, .n_blocks = 64, .max_rows = 64,
    .budget_mixed = 16, .budget_prefill = 48, .depth = 1,
};


static void
test_refusals(void)
{
    hymt_seq_t           seq;
    hymt_error_t         err;
    hymt_sched_t        *sched;
    hymt_sched_params_t  p;

    p = small;
    p.max_batch = 0;
    is_int(hymt_sched_create(&p, &sched, &err), HYMT_ERROR, "max_batch 0");
    has_str(err.text, "max_batch 0", "is named");

    p = small;
    p.max_rows = 7;
    is_int(hymt_sched_create(&p, &sched, &err), HYMT_ERROR,
           "fewer rows than slots");
    has_str(err.text, "fewer than max_batch 8", "is named");

    p = small;
    p.depth = 3;
    is_int(hymt_sched_create(&p, &sched, &err), HYMT_ERROR, "depth 3");

    p = small;
    p.n_blocks = 0;
    is_int(hymt_sched_create(&p, &sched, &err), HYMT_ERROR, "no blocks");

    p = small;
    p.n_blocks = 4;
    hymt_sched_create(&p, &sched, NULL);

    memset(&seq, 0, sizeof(seq));
    seq.n_prompt = 1;
    is_int(hymt_sched_add(sched, &seq, &err), HYMT_ERROR, "max_new 0");

    seq.n_prompt = 60;
    seq.max_new = 5;
    is_int(hymt_sched_add(sched, &seq, &err), HYMT_TOO_LONG,
           "more than the pool");
    has_str(err.text, "the whole KV pool 64", "says what there is");

    seq.n_prompt = UINT32_MAX;
    seq.max_new = UINT32_MAX;
    is_int(hymt_sched_add(sched, &seq, &err), HYMT_TOO_LONG,
           "numbers do not wrap");

    is_int(hymt_sched_waiting(sched), 0, "refused ones do not wait");
    is_int(hymt_sched_plan(sched, NULL, NULL, &(hymt_batch_t) { 0 }),
           HYMT_AGAIN, "nothing to run");

    hymt_sched_commit(sched, NULL);
    ok(hymt_sched_news(sched) == NULL, "a commit without a plan is nothing");

    hymt_sched_free(sched);
    hymt_sched_free(NULL);
}


static void
test_one(uint32_t depth)
{
    rig_t                rig;
    hymt_sched_params_t  p;

    rng = 1;
    p = small;
    p.depth = depth;
    rig_open(&rig, p);

    rig_add(&rig, 50, 20);
    is_int(hymt_sched_waiting(rig.sched), 1, "depth %u: one waits", depth);

    rig_step(&rig);
    is_int(hymt_sched_waiting(rig.sched), 0, "admitted");
    is_int(hymt_sched_running(rig.sched), 1, "runs");
    is_int(hymt_sched_blocks_used(rig.sched), 5,
           "holds blocks for prompt and output");
    is_int(rig.batch.n_rows, 48, "the first step takes the budget's rows");
    ok(!rig.batch.seqs[0].sample, "and samples nothing");

    if (depth == 2) {
        ok(rig.open == 1, "a second plan comes before the first commit");
    }

    rig_step(&rig);
    is_int(rig.batch.n_rows, 2, "the second takes the rest");
    ok(rig.batch.seqs[0].sample, "and samples");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "the output is right");
    is_int(rig.ended[HYMT_FINISH_STOP] + rig.ended[HYMT_FINISH_LENGTH], 1,
           "it ended once");
    is_int(hymt_sched_blocks_used(rig.sched), 0, "all blocks are back");
    is_int(hymt_sched_running(rig.sched), 0, "nothing runs");

    rig_close(&rig);
}


/* Gives a sequence a seed with which it never stops by itself. */
static void
seq_endless(hymt_seq_t *s)
{
    uint32_t  i, token;

    for ( ;; s->sampling.seed++) {
        for (i = 0; i < s->max_new; i++) {
            token = fake_next(&s->sampling, s->prompt, s->n_prompt, s->out, i,
                              fake.vocab);

            if (token == stops[0] || token == stops[1]) {
                break;
            }

            s->out[i] = token;
        }

        if (i == s->max_new) {
            memset(s->out, 0, 4 * s->max_new);
            return;
        }
    }
}


/* For tests that count. */
static seq_t *
rig_add_endless(rig_t *rig, uint32_t n_prompt, uint32_t max_new)
{
    seq_t  *seq;

    seq = rig_add(rig, n_prompt, max_new);
    seq_endless(&seq->s);

    return seq;
}


static void
test_mixed(void)
{
    rig_t  rig;

    rng = 2;
    rig_open(&rig, small);

    rig_add_endless(&rig, 5, 30);
    rig_step(&rig);
    rig_step(&rig);
    is_int(rig.batch.n_rows, 1, "alone: one decode row");

    rig_add_endless(&rig, 40, 5);
    rig_step(&rig);
    is_int(rig.batch.n_rows, 17, "a decode row and the mixed budget's prompt");
    is_int(rig.batch.seqs[0].n_out, 2, "the decode row comes first");
    is_int(rig.batch.seqs[1].n_rows, 16, "then the prompt's chunk");

    hymt_sched_budget(rig.sched, 0, 0);
    rig_step(&rig);
    is_int(rig.batch.n_rows, 2, "a budget of 0 still gives one prompt row");

    rig.p.budget_mixed = 64;
    hymt_sched_budget(rig.sched, 1000, 1000);
    rig_step(&rig);
    is_int(rig.batch.n_rows, 24, "a large budget takes the whole rest");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "all is right");
    is_int(rig.ended[HYMT_FINISH_LENGTH], 2, "both ended by length");

    rig_close(&rig);
}


static void
test_fill(void)
{
    rig_t                rig;
    hymt_sched_params_t  p;

    rng = 9;
    p = small;
    p.budget_mixed = 4;
    p.fill_rows = 16;
    rig_open(&rig, p);

    rig_add_endless(&rig, 5, 30);
    rig_step(&rig);

    rig_add_endless(&rig, 30, 5);
    rig_step(&rig);
    is_int(rig.batch.n_rows, 16, "filled: one decode row, 15 of the prompt");

    rig_step(&rig);
    is_int(rig.batch.n_rows, 16, "filled: as many again");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "filled: all is right");
    rig_close(&rig);

    /* where decode rows fill a step alone the budget stays */

    p.fill_rows = 2;
    rig_open(&rig, p);

    rig_add_endless(&rig, 5, 30);
    rig_add_endless(&rig, 5, 30);
    rig_step(&rig);
    rig_step(&rig);

    rig_add_endless(&rig, 30, 5);
    rig_step(&rig);
    is_int(rig.batch.n_rows, 6, "not to be filled: the mixed budget's prompt");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "not to be filled: all is right");
    rig_close(&rig);
}


static void
test_own_stop(void)
{
    rig_t        rig;
    uint32_t     i, own, out[5];
    hymt_seq_t  *s;

    rng = 8;
    rig_open(&rig, small);

    s = &rig_add_endless(&rig, 5, 30)->s;

    for (i = 0; i < 5; i++) {
        out[i] = fake_next(&s->sampling, s->prompt, 5, out, i, fake.vocab);
    }

    own = out[4];
    s->stop = &own;
    s->n_stop = 1;

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "all is right");
    is_int(rig.ended[HYMT_FINISH_STOP], 1, "an end token of its own ends it");

    rig_close(&rig);
}


static void
test_arrival_order(void)
{
    rig_t                rig;
    seq_t               *late;
    hymt_sched_params_t  p;

    rng = 3;
    p = small;
    p.n_blocks = 8;
    rig_open(&rig, p);

    rig_add_endless(&rig, 40, 40);
    late = rig_add_endless(&rig, 60, 4);
    rig_add_endless(&rig, 4, 4);

    rig_step(&rig);
    is_int(hymt_sched_running(rig.sched), 1, "the second does not fit yet");
    is_int(hymt_sched_waiting(rig.sched), 2,
           "and holds back the third, which would");

    rig_cancel(&rig, late);
    rig_step(&rig);
    is_int(hymt_sched_running(rig.sched), 2, "canceled, it lets it pass");
    is_int(rig.ended[HYMT_FINISH_CANCELED], 1, "and ends as canceled");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "all is right");
    rig_close(&rig);
}


static void
test_fair_chunks(void)
{
    rig_t                rig;
    seq_t               *large, *little;
    hymt_sched_params_t  p;

    rng = 4;
    p = small;
    p.context = 1024;
    p.n_blocks = 256;
    rig_open(&rig, p);

    large = rig_add_endless(&rig, 900, 4);
    rig_step(&rig);
    is_int(rig.batch.n_rows, 48, "alone a long prompt takes all");

    little = rig_add_endless(&rig, 20, 4);
    rig_step(&rig);
    is_int(rig.batch.seqs[0].n_rows, 28, "with one behind it, half and what"
           " the other leaves");
    is_int(rig.batch.seqs[1].n_rows, 20, "which is through in one step");
    ok(little->s.n_out == 1, "and has its first token");

    rig_add_endless(&rig, 900, 4);
    rig_add_endless(&rig, 3, 4);
    rig_step(&rig);
    is_int(rig.batch.seqs[0].n_out, 1, "decode first");
    is_int(rig.batch.seqs[1].n_rows, 9,
           "of two long ones the older gets half and the rest");
    is_int(rig.batch.seqs[2].n_rows, 4, "the younger half of what remains");
    is_int(rig.batch.seqs[3].n_rows, 3, "the short one all it needs");
    ok(large->s.n_out == 0, "the oldest is still at its prompt");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "all is right");
    rig_close(&rig);
}


/* The slowest case: one prompt row a step. */
static void
test_budget_of_one(void)
{
    rig_t                rig;
    seq_t               *little;
    hymt_sched_params_t  p;

    rng = 5;
    p = small;
    p.budget_mixed = 1;
    p.budget_prefill = 1;
    rig_open(&rig, p);
    rig.check_bound = true;

    rig_add_endless(&rig, 100, 2);
    rig_step(&rig);
    little = rig_add_endless(&rig, 10, 20);

    while (little->s.n_out == 0 && rig_step(&rig)) { /* void */ }

    ok(rig.steps <= 22, "a short prompt needs every other step: %d",
       (int) rig.steps);

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "and the long one its bound");
    rig_close(&rig);
}


/* Where decode rows leave one row of max_rows, a prompt has it. */
static void
test_room_of_one(void)
{
    rig_t                rig;
    seq_t               *late;
    uint32_t             i;
    hymt_sched_params_t  p;

    rng = 10;
    p = small;
    p.max_batch = 4;
    p.max_rows = 4;
    rig_open(&rig, p);
    rig.check_bound = true;

    for (i = 0; i < 3; i++) {
        rig_add_endless(&rig, 1, 100);
    }

    rig_step(&rig);
    late = rig_add_endless(&rig, 20, 4);

    for (i = 0; late->s.n_out == 0 && rig_step(&rig); i++) {
        if (rig.batch.n_rows != 4) {
            rig_fault(&rig, "a step of %u rows", rig.batch.n_rows);
        }
    }

    is_int(i, 20, "beside three that decode, a prompt needs a step a row");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "each in a full step");
    rig_close(&rig);
}


static void
test_cancel(uint32_t depth)
{
    rig_t                rig;
    seq_t               *a, *b;
    hymt_sched_params_t  p;

    rng = 6;
    p = small;
    p.depth = depth;
    rig_open(&rig, p);

    a = rig_add_endless(&rig, 10, 50);
    b = rig_add_endless(&rig, 10, 50);

    while (a->s.n_out < 3) {
        rig_step(&rig);
    }

    rig_cancel(&rig, a);
    rig_step(&rig);
    is_int(rig.ended[HYMT_FINISH_CANCELED], 1,
           "depth %u: seen at the next step", depth);
    is_int(hymt_sched_running(rig.sched), 1, "one runs on");

    rig_step(&rig);
    is_int(hymt_sched_blocks_used(rig.sched), 4, "with its blocks alone");

    if (depth == 1) {
        ok(rig.batch.seqs[0].canceled == &b->s.canceled,
           "the backend may look at the flag");

    } else {
        ok(rig.batch.seqs[0].canceled == NULL,
           "a deferred step does not look at the owner's memory");
    }

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "all is right");
    is_int(rig.ended[HYMT_FINISH_LENGTH], 1, "the other ended by length");
    rig_close(&rig);
}


static void
test_cancel_waiting(void)
{
    rig_t                rig;
    uint32_t             i;
    seq_t               *seqs[4];
    hymt_sched_params_t  p;

    rng = 11;
    p = small;
    p.max_batch = 1;
    rig_open(&rig, p);

    for (i = 0; i < 4; i++) {
        seqs[i] = rig_add_endless(&rig, 5, 20);
    }

    rig_step(&rig);
    is_int(hymt_sched_waiting(rig.sched), 3, "three wait");

    rig_cancel(&rig, seqs[2]);
    rig_step(&rig);
    is_int(rig.ended[HYMT_FINISH_CANCELED], 1,
           "one canceled in the middle of the line is seen at the next step");
    is_int(hymt_sched_waiting(rig.sched), 2, "and has left it");

    /* nobody has said so: it is seen when its turn comes */

    __atomic_store_n(&seqs[1]->s.canceled, 1, __ATOMIC_RELAXED);

    while (rig_step(&rig)) { /* void */ }

    is_int(rig.ended[HYMT_FINISH_CANCELED], 2, "a flag alone is enough");
    is_int(rig.n_begun, 2, "not to be admitted");
    is_int(rig.ended[HYMT_FINISH_LENGTH], 2, "the others ended by length");
    is_str(rig.fault, "", "all is right");
    rig_close(&rig);
}


static void
test_abort(uint32_t depth)
{
    rig_t                rig;
    uint32_t             i;
    hymt_sched_params_t  p;

    rng = 7;
    p = small;
    p.depth = depth;
    rig_open(&rig, p);

    rig_add_endless(&rig, 100, 20);
    rig_add_endless(&rig, 5, 20);

    for (i = 0; rig_step(&rig); i++) {
        fake.abort_next = i % 3 == 1;
    }

    fake.abort_next = false;

    is_str(rig.fault, "", "depth %u: after aborted steps the output is the"
           " same", depth);
    is_int(rig.ended[HYMT_FINISH_LENGTH], 2, "both ended by length");
    is_int(hymt_sched_blocks_used(rig.sched), 0, "all blocks are back");
    rig_close(&rig);
}


static void
test_drop_all(uint32_t depth)
{
    rig_t                rig;
    uint32_t             i;
    hymt_sched_params_t  p;

    rng = 8;
    p = small;
    p.depth = depth;
    p.max_batch = 2;
    rig_open(&rig, p);

    for (i = 0; i < 5; i++) {
        rig_add_endless(&rig, 10, 20);
    }

    rig_step(&rig);
    rig_step(&rig);
    rig_step(&rig);

    hymt_sched_drop_all(rig.sched, HYMT_FINISH_FAILED);
    rig_news(&rig);

    is_int(rig.ended[HYMT_FINISH_FAILED], 5, "depth %u: running and waiting"
           " ones, each once", depth);
    is_int(hymt_sched_running(rig.sched), 0, "nothing runs");
    is_int(hymt_sched_waiting(rig.sched), 0, "nothing waits");
    is_int(hymt_sched_blocks_used(rig.sched), 0, "no block is held");
    is_str(rig.fault, "", "all is right");

    rig_close(&rig);
}


/* News not taken at once are not told twice. */
static void
test_news(void)
{
    rig_t         rig;
    seq_t        *seq;
    uint32_t      i, tokens[8];
    hymt_error_t  err;

    rng = 9;
    rig_open(&rig, small);
    seq = rig_add_endless(&rig, 10, 4);

    for (i = 0; i < 4; i++) {
        hymt_sched_plan(rig.sched, rig_begin, &rig, &rig.batch);
        rig.ops->launch(rig.backend, &rig.batch, &err);
        rig.ops->collect(rig.backend, tokens, &err);
        hymt_sched_commit(rig.sched, tokens);
    }

    is_int(seq->s.ended, HYMT_FINISH_LENGTH, "four steps, four tokens");
    ok(hymt_sched_news(rig.sched) == &seq->s, "which are one piece of news");
    ok(hymt_sched_news(rig.sched) == NULL, "and no more");

    free((void *) seq->s.prompt);
    free(seq->s.out);
    free(seq);
    rig_close(&rig);
}


/* Prompts that begin alike, as a document's segments do: one is computed. */
static void
test_prefix_together(uint32_t depth)
{
    rig_t                rig;
    uint32_t             i;
    hymt_prefix_stats_t  stats;
    hymt_sched_params_t  p;

    rng = 12;
    p = small;
    p.depth = depth;
    p.prefix_cache = true;
    rig_open(&rig, p);
    rig.check_bound = true;

    for (i = 0; i < 3; i++) {
        rig_add_alike(&rig, 100, 8, 1, 97, 0);
    }

    rig_step(&rig);
    is_int(rig.batch.n_seqs, 1, "depth %u: of three that begin alike one is"
           " computed", depth);
    is_int(rig.batch.n_rows, 48, "with the whole budget");
    is_int(hymt_sched_blocks_used(rig.sched), 7 + 1 + 1,
           "all three hold the blocks of the beginning");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "each has its own output");
    is_int((int) rig.rows, 100 + 4 + 4, "the others compute their ends");
    is_int((int) rig.cached, 2 * 96, "and are told of the rest");
    is_int(hymt_sched_blocks_used(rig.sched), 0, "nobody holds a block");

    hymt_sched_prefix_stats(rig.sched, &stats);
    is_int((int) stats.hits, 2, "two hits");
    is_int((int) stats.misses, 1, "one miss");
    is_int((int) stats.tokens, 192, "192 tokens saved");
    is_int((int) stats.blocks, 6, "6 blocks known");

    /* the last token is always computed, be its block a whole one */

    rig.rows = 0;
    rig_add_alike(&rig, 96, 8, 1, 96, 0);
    rig_add_alike(&rig, 96, 8, 1, 96, 0);
    while (rig_step(&rig)) { /* void */ }
    is_int((int) rig.rows, 32, "later ones compute the last token's block");

    rig.rows = 0;
    rig_add_alike(&rig, 96, 8, 1, 96, 1);
    while (rig_step(&rig)) { /* void */ }
    is_int((int) rig.rows, 96, "in another scope nothing is known");

    rig_add_alike(&rig, 16, 8, 1, 16, 0);
    while (rig_step(&rig)) { /* void */ }
    hymt_sched_prefix_stats(rig.sched, &stats);
    is_int((int) stats.misses, 2, "one block is no prefix to look for");

    is_str(rig.fault, "", "all is right");
    rig_close(&rig);
}


/* Who waits for a block goes on where its owner ends. */
static void
test_prefix_owner(uint32_t depth)
{
    rig_t                rig;
    seq_t               *first;
    hymt_sched_params_t  p;

    rng = 13;
    p = small;
    p.depth = depth;
    p.budget_prefill = 20;
    p.prefix_cache = true;
    rig_open(&rig, p);

    first = rig_add_alike(&rig, 100, 8, 1, 97, 0);
    rig_add_alike(&rig, 100, 8, 1, 97, 0);
    rig_add_alike(&rig, 100, 8, 1, 97, 0);

    rig_step(&rig);
    is_int(rig.batch.n_seqs, 1, "depth %u: two wait for the first", depth);

    rig_cancel(&rig, first);

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "canceled, it lets the second go on");
    is_int(rig.ended[HYMT_FINISH_CANCELED], 1, "one was canceled");
    is_int((int) rig.rows, 20 + 84 + 4, "after its last whole block, for both");
    is_int(hymt_sched_blocks_used(rig.sched), 0, "no block is held");

    rig_close(&rig);
}


/* Idle blocks are room: the longest unused are forgotten first. */
static void
test_prefix_eviction(void)
{
    rig_t                rig;
    uint32_t             i;
    hymt_prefix_stats_t  stats;
    hymt_sched_params_t  p;

    rng = 14;
    p = small;
    p.n_blocks = 8;
    p.prefix_cache = true;
    rig_open(&rig, p);

    for (i = 0; i < 2; i++) {
        rig_add_alike(&rig, 49, 8, i, 49, 0);
        while (rig_step(&rig)) { /* void */ }
    }

    hymt_sched_prefix_stats(rig.sched, &stats);
    is_int((int) stats.blocks, 6, "two prompts of three blocks are known");

    rig_add_alike(&rig, 33, 16, 0, 33, 0);     /* touches the first */
    while (rig_step(&rig)) { /* void */ }

    rig_add_alike(&rig, 10, 100, 2, 0, 0);
    while (rig_step(&rig)) { /* void */ }

    hymt_sched_prefix_stats(rig.sched, &stats);
    is_int((int) stats.evictions, 5, "a sequence of seven blocks takes five");
    is_int((int) stats.blocks, 1, "one is left");

    rig.cached = 0;
    rig_add_alike(&rig, 49, 8, 1, 49, 0);
    while (rig_step(&rig)) { /* void */ }
    is_int((int) rig.cached, 0, "not of the one used longest ago");

    rig_add_alike(&rig, 49, 8, 0, 49, 0);
    while (rig_step(&rig)) { /* void */ }
    is_int((int) rig.cached, 16, "but the beginning of that used last");

    is_str(rig.fault, "", "all is right");
    rig_close(&rig);
}


static void
test_priorities(void)
{
    rig_t                rig;
    uint32_t             i;
    seq_t               *seq;
    hymt_seq_t           bad;
    hymt_error_t         err;
    hymt_sched_params_t  p;

    rng = 17;
    p = small;
    p.age = 1;
    rig_open(&rig, p);

    for (i = 0; i < 9; i++) {
        seq = rig_new(&rig, 5, 20);
        seq->s.priority = HYMT_PRIORITY_BATCH;
        rig_submit(&rig, seq);
        seq_endless(&seq->s);
    }

    rig_step(&rig);
    is_int(hymt_sched_running(rig.sched), 7, "batch leaves one slot of eight");

    rig_add_endless(&rig, 5, 20);
    rig_step(&rig);
    is_int(hymt_sched_running(rig.sched), 8, "which another gets at once");
    is_int(hymt_sched_waiting(rig.sched), 2, "though these came before it");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "all is right");
    is_int(rig.ended[HYMT_FINISH_LENGTH], 10, "all came to their end");

    memset(&bad, 0, sizeof(bad));
    bad.n_prompt = 1;
    bad.max_new = 1;
    bad.priority = 2;
    is_int(hymt_sched_add(rig.sched, &bad, &err), HYMT_ERROR, "priority 2");
    has_str(err.text, "priority 2", "is named");

    rig_close(&rig);
}


/* Equal ones, before and after the first has begun. */
static void
test_coalesce(uint32_t depth)
{
    rig_t                rig;
    uint32_t             i;
    seq_t               *seqs[4];
    hymt_sched_params_t  p;

    rng = 15;
    p = small;
    p.depth = depth;
    p.coalesce = true;
    rig_open(&rig, p);

    seqs[0] = rig_add_alike(&rig, 20, 20, 1, 20, 0);
    seq_endless(&seqs[0]->s);
    rig.seed = seqs[0]->s.sampling.seed;
    rig_cancel(&rig, seqs[0]);
    rig_step(&rig);

    for (i = 0; i < 3; i++) {
        seqs[i] = rig_add_alike(&rig, 20, 20, 1, 20, 0);
    }

    is_int(hymt_sched_waiting(rig.sched), 3, "depth %u: three wait", depth);

    rig_step(&rig);
    is_int(hymt_sched_running(rig.sched), 1, "one runs");
    is_int(hymt_sched_waiting(rig.sched), 0, "the others follow it");
    is_int(hymt_sched_blocks_used(rig.sched), 3, "with its blocks");

    while (seqs[0]->s.n_out < 4) {
        rig_step(&rig);
    }

    seqs[3] = rig_add_alike(&rig, 20, 20, 1, 20, 0);
    is_int(seqs[3]->s.n_out, 4, "one that comes later has what there is");
    ok(seqs[3]->s.coalesced, "and follows");
    ok(hymt_sched_news(rig.sched) == &seqs[3]->s, "which is news");

    /* each differs in one thing */

    rig_add_alike(&rig, 20, 19, 1, 20, 0);
    rig_add_alike(&rig, 19, 20, 1, 20, 0);
    rig_add_alike(&rig, 20, 20, 2, 20, 0);
    rig_add_alike(&rig, 20, 20, 1, 20, 1);
    rig_add_alike(&rig, 20, 20, 1, 20, 0);
    is_int(hymt_sched_waiting(rig.sched), 4, "four others do not follow");

    rig_cancel(&rig, seqs[1]);
    rig_step(&rig);
    is_int(rig.ended[HYMT_FINISH_CANCELED], 2, "one that follows leaves");

    rig_cancel(&rig, seqs[0]);
    rig_step(&rig);
    is_int(rig.ended[HYMT_FINISH_CANCELED], 3, "the first leaves");
    is_int(hymt_sched_running(rig.sched), 5, "another goes on in its place");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "each has its output");
    is_int(rig.n_added - 3, rig.ended[HYMT_FINISH_STOP]
                            + rig.ended[HYMT_FINISH_LENGTH], "and its end");
    is_int(rig.coalesced, 4, "four were not computed");
    is_int((int) hymt_sched_coalesced(rig.sched), 4, "and are counted");
    is_int(rig.n_begun, 5, "five were");
    is_int(hymt_sched_blocks_used(rig.sched), 0, "no block is held");

    rig_close(&rig);
}


/* Drawn at random, the seed and all else that says how has to be equal. */
static void
test_coalesce_sampling(void)
{
    rig_t                rig;
    uint32_t             i;
    seq_t               *seqs[8];
    static uint32_t      end[2] = { 3, 4 };
    hymt_sched_params_t  p;

    rng = 16;
    p = small;
    p.coalesce = true;
    rig_open(&rig, p);

    for (i = 0; i < 8; i++) {
        seqs[i] = rig_add_alike(&rig, 20, 20, 1, 20, 0);
    }

    hymt_sched_drop_all(rig.sched, HYMT_FINISH_FAILED);

    for (i = 0; i < 8; i++) {
        (void) hymt_sched_news(rig.sched);
        seqs[i]->s.sampling = (hymt_sampling_t) {
            .temperature = 1, .top_p = 0.5f, .top_k = 3, .seed = 9,
            .repetition_penalty = 1
        };
        seqs[i]->s.ended = HYMT_FINISH_NONE;
    }

    seqs[1]->s.sampling.temperature = 0.5f;
    seqs[2]->s.sampling.top_p = 0.6f;
    seqs[3]->s.sampling.top_k = 4;
    seqs[4]->s.sampling.seed = 8;
    seqs[5]->s.sampling.index = 1;
    seqs[6]->s.sampling.repetition_penalty = 1.1f;
    seqs[7]->s.stop = end;
    seqs[7]->s.n_stop = 2;

    for (i = 0; i < 8; i++) {
        hymt_sched_add(rig.sched, &seqs[i]->s, NULL);
    }

    rig_step(&rig);
    is_int(hymt_sched_running(rig.sched), 8, "each other option counts");

    while (rig_step(&rig)) { /* void */ }

    is_int(rig.coalesced, 0, "none of them follows");

    /* greedy, it does not: these follow though they are given by another */

    for (i = 0; i < 2; i++) {
        seqs[i] = rig_add_alike(&rig, 20, 20, 1, 20, 0);
        seqs[i]->s.ended = HYMT_FINISH_NONE;
    }

    hymt_sched_drop_all(rig.sched, HYMT_FINISH_FAILED);

    for (i = 0; i < 2; i++) {
        (void) hymt_sched_news(rig.sched);
        seqs[i]->s.sampling = (hymt_sampling_t) {
            .top_p = i ? 0.5f : 1, .top_k = i, .seed = i, .index = i,
            .repetition_penalty = 1
        };
        seqs[i]->s.ended = HYMT_FINISH_NONE;
        hymt_sched_add(rig.sched, &seqs[i]->s, NULL);
    }

    rig_step(&rig);
    is_int(hymt_sched_running(rig.sched), 1, "greedy, the rest is nothing");

    hymt_sched_drop_all(rig.sched, HYMT_FINISH_FAILED);
    rig.out = NULL;
    while (hymt_sched_news(rig.sched) != NULL) { /* void */ }

    for (i = 0; i < 2; i++) {
        free((void *) seqs[i]->s.prompt);
        free(seqs[i]->s.out);
        free(seqs[i]);
    }

    rig_close(&rig);
}


static hymt_sched_params_t
random_params(void)
{
    hymt_sched_params_t  p;

    memset(&p, 0, sizeof(p));
    p.max_batch = 1 + roll(roll(4) ? 12 : 40);
    p.context = 32 + roll(200);
    p.n_blocks = hymt_ceil_div(p.context, HYMT_KV_BLOCK) + roll(60);
    p.max_rows = p.max_batch + roll(100);
    p.budget_mixed = 1 + roll(roll(3) ? p.max_rows : 3);
    p.budget_prefill = 1 + roll(p.max_rows);
    p.budget_mixed = hymt_min(p.budget_mixed, p.max_rows);
    p.fill_rows = roll(3) ? 0 : roll(p.max_rows);
    p.depth = 1 + roll(2);
    p.prefix_cache = roll(4) != 0;
    p.coalesce = roll(4) != 0;
    p.max_flows = 8;
    p.age = 1 + roll(2000);

    return p;
}


static void
random_events(rig_t *rig, uint32_t cancels, uint32_t aborts)
{
    uint32_t  n, n_prompt;
    seq_t    *seq;

    if (rig->out != NULL && roll(3) == 0) {
        rig_add_again(rig);
    }

    for (n = roll(4) ? 0 : roll(4); n > 0; n--) {
        n_prompt = 1 + roll(roll(3) ? 20 : rig->p.context - 1);
        rig_add(rig, n_prompt, 1 + roll(rig->p.context - n_prompt));
    }

    for (seq = rig->out; cancels && seq != NULL; seq = seq->next) {
        if (roll(cancels) == 0) {
            rig_cancel(rig, seq);
        }
    }

    fake.abort_next = aborts && roll(aborts) == 0;
}


static bool
random_run(uint64_t seed)
{
    rig_t     rig;
    uint32_t  turn, n, cancels, aborts;

    rng = seed;
    rig_open(&rig, random_params());

    rig.alike = roll(5);
    rig.flows = roll(2) * (1 + roll(3));
    cancels = roll(2) ? 20 + roll(200) : 0;
    aborts = roll(3) ? 0 : 3 + roll(20);
    rig.check_bound = aborts == 0;

    for (turn = 0; turn < 150 && rig.fault[0] == '\0'; turn++) {
        random_events(&rig, cancels, aborts);
        rig_step(&rig);
    }

    for (turn = 0; rig_step(&rig) && turn < 100000; turn++) {
        fake.abort_next = aborts && roll(aborts) == 0;
    }

    fake.abort_next = false;

    for (turn = 0, n = 0; turn < 5; turn++) {
        n += rig.ended[turn];
    }

    if (n != rig.n_added || rig.out != NULL) {
        rig_fault(&rig, "%u of %u sequences ended", n, rig.n_added);
    }

    if (hymt_sched_blocks_used(rig.sched) || hymt_sched_running(rig.sched)
        || hymt_sched_waiting(rig.sched))
    {
        rig_fault(&rig, "idle with %u blocks used, %u running, %u waiting",
                  hymt_sched_blocks_used(rig.sched),
                  hymt_sched_running(rig.sched),
                  hymt_sched_waiting(rig.sched));
    }

    if (rig.fault[0]) {
        printf("# seed %" PRIu64 ": %s\n", seed, rig.fault);
    }

    rig_close(&rig);

    return rig.fault[0] == '\0';
}


int
main(int argc, char **argv)
{
    bool      good;
    uint64_t  seed, first;

    test_refusals();
    test_one(1);
    test_one(2);
    test_mixed();
    test_fill();
    test_own_stop();
    test_arrival_order();
    test_fair_chunks();
    test_budget_of_one();
    test_room_of_one();
    test_cancel(1);
    test_cancel(2);
    test_cancel_waiting();
    test_abort(1);
    test_abort(2);
    test_drop_all(1);
    test_drop_all(2);
    test_news();
    test_prefix_together(1);
    test_prefix_together(2);
    test_prefix_owner(1);
    test_prefix_owner(2);
    test_prefix_eviction();
    test_priorities();
    test_coalesce(1);
    test_coalesce(2);
    test_coalesce_sampling();

    /* a failing run is repeated by its seed as the only argument */

    first = argc > 1 ? strtoull(argv[1], NULL, 10) : hymt_now_ns();
    printf("# seeds from %" PRIu64 "\n", first);

    for (seed = first, good = true; good && seed < first + 300; seed++) {
        good = random_run(seed);
    }

    ok(good, "300 random runs: each sequence ends once, as it would alone, in"
       " bounded steps; budgets, order and blocks are kept; what is shared is"
       " alike and of one scope");

    return tap_done();
}
