/*
 * scheduler.h - continuous batching in mixed steps.
 *
 * Every step carries one row for each sequence that decodes, plus chunks of
 * waiting prompts up to a budget of rows: while anybody decodes `budget_mixed`,
 * or what fills the step to one of `sizes`, `budget_prefill` when nobody does;
 * never more than decode rows leave of max_rows (one at least).  Decode rows
 * always go first and are never left out; prompts are prefilled first come
 * first served, and a long prompt takes at most half of a step's budget while
 * others wait behind it, so it starves nobody and is starved by nobody.  A
 * sequence is admitted (gets a slot and blocks for prompt + max_new) strictly
 * in the order of the line, which is that of arrival where all have one
 * priority and no flow (scheduler_line.h): one that does not fit yet holds back
 * those behind it, so a long one is not overtaken for ever.  Batch sequences
 * leave an eighth of the slots to others.
 *
 * With `prefix_cache`, prompts that begin alike in one scope share the blocks
 * of that beginning (prefix_cache.h): the rows of blocks that are ready are
 * skipped, and a sequence waits where another is just computing the block it
 * needs, taking no part of the budget meanwhile.
 *
 * With `coalesce`, of sequences that must give the same output (coalesce.h) one
 * is computed: from the moment it is admitted all others that wait, or come
 * later, follow it.  They have a slot and blocks of it only; its tokens are
 * theirs, those before they came included, and so is its end.  Where it is
 * canceled the first of them goes on in its place.
 *
 * The scheduler is pure bookkeeping: no clock, no thread, no backend.  plan()
 * describes the next step; commit() takes its tokens.  With a backend of depth
 * 2, plan() of step n+1 may come before commit() of step n; commits are in the
 * order of plans.  A sequence that turns out to have ended then has one more
 * row in flight; its token is dropped and its slot and blocks are freed only
 * when no step in flight uses them.
 *
 * Thread: engine thread only, except the fields of hymt_seq_t said otherwise.
 */

#ifndef HYMT_SCHEDULER_H
#define HYMT_SCHEDULER_H

#include <stdatomic.h>

#include "backend.h"
#include "prefix_cache.h"


typedef enum {
    HYMT_FINISH_NONE = 0,  /* not finished */
    HYMT_FINISH_STOP,      /* an end token (not part of the output) */
    HYMT_FINISH_LENGTH,    /* max_new tokens, or the context is full */
    HYMT_FINISH_LOOP,      /* said by the host: it repeats itself */
    HYMT_FINISH_CANCELED,
    HYMT_FINISH_FAILED,    /* the engine failed or stopped; no result */
} hymt_finish_t;


/* Set by configuration, not by who asks. */
typedef enum {
    HYMT_PRIORITY_INTERACTIVE = 0,
    HYMT_PRIORITY_BATCH,
    HYMT_N_PRIORITIES
} hymt_priority_t;


/* Those that wait and are served in turn with others: scheduler_line.h. */
typedef struct hymt_flow_s  hymt_flow_t;


/* Where the scheduler has a sequence. */
typedef enum {
    HYMT_PLACE_NONE = 0,
    HYMT_PLACE_LINE,       /* waits */
    HYMT_PLACE_SLOT,       /* runs */
    HYMT_PLACE_TWIN,       /* follows one that runs */
} hymt_place_t;


/*
 * One sequence: a prompt and what follows it.  The owner (text thread) fills
 * the first part, hands it to the engine, and gets it back through
 * hymt_engine_poll(); memory is the owner's and must live until finish is set.
 */
typedef struct hymt_seq_s {
    /* set by the owner before submitting; constant from then on */
    const uint32_t   *prompt;     /* [n_prompt], >= 1 */
    uint32_t          n_prompt;
    uint32_t          max_new;    /* >= 1; n_prompt + max_new <= context */
    uint32_t         *out;        /* [max_new] */
    hymt_sampling_t   sampling;
    const uint32_t   *stop;       /* [n_stop], end tokens beside the params' */
    uint32_t          n_stop;     /* 0: stop is not looked at */
    hymt_scope_t      scope;      /* who may know of the prompt by its speed */
    uint32_t          priority;   /* hymt_priority_t */
    uint64_t          flow[2];    /* key of its flow; zeroes: none */
    void             *owner;

    /* set to 1 by the engine thread before its first step; may be NULL */
    _Atomic uint32_t *started;

    /*
     * raised by the owner at any time, with hymt_engine_cancel(); seen at the
     * next step
     */
    volatile int      canceled;

    /* tokens valid in out: published with release, read with acquire */
    _Atomic uint32_t  n_out;

    /*
     * hymt_finish_t: set by hymt_engine_poll() (or hymt_engine_stop()) in the
     * owner's thread, so that nothing of the engine touches a sequence that
     * shows as finished
     */
    _Atomic uint32_t  finish;

    /* written by the engine thread, read once finished, ns of hymt_now_ns() */
    uint64_t          t_submit;   /* set by hymt_engine_submit() */
    uint64_t          t_start;    /* admitted to a slot; 0: never */
    uint64_t          t_first;    /* first token; 0: none */
    uint64_t          t_end;
    uint32_t          batch;      /* most sequences in a step with this one */
    uint32_t          n_cached;   /* prompt tokens that were not computed */
    bool              coalesced;  /* it followed another one */

    /* engine.c: is in the outbox, has ended (one word: one decision) */
    _Atomic uint32_t  notified;

    /* scheduler*.c */
    struct hymt_seq_s  *next;       /* in the waiting line, or in the news */
    struct hymt_seq_s  *prev;       /* in the waiting line */
    hymt_flow_t        *line;       /* where it waits */
    struct hymt_seq_s  *twins;      /* those that follow it; the next of them */
    struct hymt_seq_s  *chain;      /* coalesce.c: in its bucket */
    uint64_t            key;        /* coalesce.c */
    hymt_place_t        place;
    uint32_t            slot;
    uint32_t            n_done;     /* rows planned; position of the next */
    uint32_t            n_planned;  /* output tokens asked for */
    uint32_t            ended;      /* hymt_finish_t, on the engine's side */
    bool                in_news;
} hymt_seq_t;


/*
 * A mixed step is filled with prompt rows to one of `sizes`: the least that
 * takes half of all rows there are and leaves an eighth to prompts.  A larger
 * one would serve prompts sooner, and everybody who decodes later.  Where none
 * leaves an eighth prompts get budget_mixed.
 */
#define HYMT_SCHED_SIZES  4


typedef struct {
    uint32_t         max_batch;       /* slots */
    uint32_t         context;
    uint32_t         n_blocks;
    uint32_t         max_rows;        /* of a step: bound of both budgets */
    uint32_t         budget_mixed;    /* prompt rows while anybody decodes */
    uint32_t         sizes[HYMT_SCHED_SIZES];  /* of mixed steps, rising; 0:
                                         no more of them */
    uint32_t         budget_prefill;  /* prompt rows when nobody does */
    uint32_t         depth;           /* plans that may be open: 1 or 2 */
    uint32_t         max_flows;       /* that are told apart */
    uint64_t         age;             /* of batch, tokens; 0: HYMT_LINE_AGE */
    bool             prefix_cache;
    bool             coalesce;
    const uint32_t  *stop;            /* [n_stop], copied */
    uint32_t         n_stop;
} hymt_sched_params_t;


typedef struct hymt_sched_s  hymt_sched_t;


hymt_status_t hymt_sched_create(const hymt_sched_params_t *params,
    hymt_sched_t **sched, hymt_error_t *err);

void hymt_sched_free(hymt_sched_t *sched);


/*
 * Puts a sequence at the end of its flow in the waiting line.  One that can
 * never fit (n_prompt + max_new over the context or the whole pool) is
 * HYMT_TOO_LONG and stays the caller's.  Afterwards `coalesced` says whether it
 * follows one that runs already.
 */
hymt_status_t hymt_sched_add(hymt_sched_t *sched, hymt_seq_t *seq,
    hymt_error_t *err);


/* Prompt rows of the following plans; clamped to [1, max_rows]. */
void hymt_sched_budget(hymt_sched_t *sched, uint32_t mixed, uint32_t prefill);


/*
 * Says that flags have been raised in sequences that may be waiting: the next
 * plan() looks at the whole line, which costs a cache miss for each.  What
 * runs, and the first in line before it is admitted, every plan() looks at.
 */
void hymt_sched_cancels(hymt_sched_t *sched);


/*
 * Called for each sequence admitted to a slot during plan(), in order, before
 * the step is launched: the backend's slot_begin().  Those that follow it are
 * its twins, a list by that field.
 */
typedef void (*hymt_sched_begin_pt)(void *data, hymt_seq_t *seq);


/*
 * Drops canceled sequences, admits waiting ones, and describes the next step.
 * The batch points into the scheduler's memory and is valid until the next
 * plan() (hymt_batch_t is read during launch only).
 *
 * Returns HYMT_OK, or HYMT_AGAIN when there is nothing to run (no plan is then
 * open).
 */
hymt_status_t hymt_sched_plan(hymt_sched_t *sched, hymt_sched_begin_pt begin,
    void *data, hymt_batch_t *batch);


/*
 * Takes the tokens of the oldest open plan (in the order of its batch).
 * tokens NULL: the step was aborted; what it computed is planned again, what
 * was canceled is dropped.
 *
 * Outputs are appended and ends found here; each sequence with news (tokens or
 * finish) is put on the news list.
 */
void hymt_sched_commit(hymt_sched_t *sched, const uint32_t *tokens);


/*
 * The next sequence with news (more tokens, or `ended` set), or NULL.  An ended
 * one comes exactly once and the scheduler never touches it again, even while
 * a step in flight still carries a row of it.  News are taken after each
 * commit(), plan() and drop_all().
 */
hymt_seq_t *hymt_sched_news(hymt_sched_t *sched);


/*
 * Ends everything, waiting or running, with `finish`; all become news.  Open
 * plans are forgotten: what is in flight must not be committed any more.
 */
void hymt_sched_drop_all(hymt_sched_t *sched, hymt_finish_t finish);


uint32_t hymt_sched_waiting(const hymt_sched_t *sched);
uint32_t hymt_sched_running(const hymt_sched_t *sched);

/* Blocks that sequences hold; idle ones of the prefix cache are not. */
uint32_t hymt_sched_blocks_used(const hymt_sched_t *sched);

/* Sequences that followed another one, so far. */
uint64_t hymt_sched_coalesced(const hymt_sched_t *sched);

void hymt_sched_prefix_stats(const hymt_sched_t *sched,
    hymt_prefix_stats_t *stats);


#endif /* HYMT_SCHEDULER_H */
