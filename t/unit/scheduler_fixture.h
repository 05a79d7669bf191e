/*
 * scheduler_fixture.h - a scheduler on hashes (fake_backend.h), turned as the
 * engine's loop turns it, and the promises of scheduler.h looked at each turn.
 * The fake backend turns a wrong block, position, chunk or slot into a wrong
 * token, and each sequence is freed when it ends, so that a sanitizer sees who
 * touches it later.
 */

#ifndef HYMT_SCHEDULER_FIXTURE_H
#define HYMT_SCHEDULER_FIXTURE_H

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


static const hymt_sched_params_t  small = {
    .max_batch = 8, .context = 128, .n_blocks = 64, .max_rows = 64,
    .budget_mixed = 16, .budget_prefill = 48, .depth = 1,
};


static inline uint32_t
roll(uint32_t n)
{
    rng = fake_mix(rng);

    return (uint32_t) (rng >> 32) % n;
}


/* Keeps the first thing found wrong. */
__attribute__((format(printf, 2, 3)))
static inline void
rig_fault(rig_t *rig, const char *fmt, ...)
{
    va_list  args;

    if (rig->fault[0] == '\0') {
        va_start(args, fmt);
        vsnprintf(rig->fault, sizeof(rig->fault), fmt, args);
        va_end(args);
    }
}


static inline void
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


static inline void
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


static inline void
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
static inline void
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


static inline seq_t *
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


static inline seq_t *
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
static inline seq_t *
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
static inline void
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


static inline seq_t *
rig_add(rig_t *rig, uint32_t n_prompt, uint32_t max_new)
{
    if (rig->alike == 0 || roll(4) == 0) {
        return rig_add_alike(rig, n_prompt, max_new, 0, 0, 0);
    }

    return rig_add_alike(rig, n_prompt, max_new, roll(rig->alike),
                         roll(rig->p.context), roll(6) ? 0 : roll(3));
}


static inline void
rig_cancel(rig_t *rig, seq_t *seq)
{
    __atomic_store_n(&seq->s.canceled, 1, __ATOMIC_RELAXED);
    hymt_sched_cancels(rig->sched);
}


/* The output is what the sequence gives alone, and ends where it should. */
static inline void
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
static inline void
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


static inline void
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


static inline void
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
static inline void
rig_check_plan(rig_t *rig)
{
    seq_t                   *seq;
    uint32_t                 i, prompt, budget, least;
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

    least = budget;

    for (i = 0; rig->decode && i < HYMT_SCHED_SIZES && rig->p.sizes[i]; i++) {

        if (rig->decode + rig->p.sizes[i] / 8 <= rig->p.sizes[i]) {
            budget = hymt_max(rig->p.sizes[i] - rig->decode, 1);
            least = hymt_min(least, budget);
        }
    }

    budget = hymt_min(budget, rig->p.max_rows - rig->decode);
    least = hymt_min(least, budget);

    if (prompt > budget) {
        rig_fault(rig, "%u prompt rows, budget %u", prompt, budget);
    }

    for (seq = rig->out; seq != NULL; seq = seq->next) {
        if (seq->begun_at && seq->first_at == 0) {
            seq->room = hymt_min(seq->room, least);
        }
    }
}


/* By itself, or one that follows it. */
static inline bool
rig_is_wanted(const hymt_seq_t *s)
{
    while (s != NULL && s->canceled) {
        s = s->twins;
    }

    return s != NULL;
}


/* Decoding sequences before a plan: none of them may be left out of it. */
static inline uint32_t
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


static inline void
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
static inline bool
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


/* Gives a sequence a seed with which it never stops by itself. */
static inline void
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
static inline seq_t *
rig_add_endless(rig_t *rig, uint32_t n_prompt, uint32_t max_new)
{
    seq_t  *seq;

    seq = rig_add(rig, n_prompt, max_new);
    seq_endless(&seq->s);

    return seq;
}


#endif /* HYMT_SCHEDULER_FIXTURE_H */
