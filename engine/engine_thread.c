/*
 * engine_thread.c - the engine thread: runs steps, tells the owner; see
 * engine_private.h for how they meet.
 */

#include "engine_private.h"

#include <stdlib.h>
#include <unistd.h>


/* a step is planned again so often where the backend gave it up on its own */
#define HYMT_MAX_ABORTS  8


static hymt_status_t hymt_engine_run(hymt_engine_t *engine,
    hymt_error_t *err);
static hymt_status_t hymt_engine_launch(hymt_engine_t *engine,
    const hymt_batch_t *batch, hymt_error_t *err);
static hymt_status_t hymt_engine_collect(hymt_engine_t *engine,
    hymt_error_t *err);
static hymt_status_t hymt_engine_aborted(hymt_engine_t *engine,
    const hymt_engine_step_t *step, hymt_error_t *err);
static bool hymt_engine_all_canceled(const hymt_engine_step_t *step);
static void hymt_engine_account(hymt_engine_t *engine,
    const hymt_engine_step_t *step);
static void hymt_engine_begin(void *data, hymt_seq_t *seq);
static void hymt_engine_started(hymt_seq_t *seq);
static void hymt_engine_fail(hymt_engine_t *engine, const hymt_error_t *err);
static void hymt_engine_end(hymt_engine_t *engine);
static void hymt_engine_take_inbox(hymt_engine_t *engine);
static void hymt_engine_tell(hymt_engine_t *engine);
static void hymt_engine_tell_caches(hymt_engine_t *engine);
static void hymt_engine_publish(hymt_engine_t *engine, hymt_seq_t *seq);
static void hymt_engine_sleep(hymt_engine_t *engine);
static void hymt_engine_ring(hymt_engine_t *engine);


void *
hymt_engine_thread(void *data)
{
    hymt_engine_t  *engine = data;

    hymt_error_t   err;
    hymt_status_t  rc;

    rc = hymt_engine_load(engine, &err);

    if (rc == HYMT_OK) {
        rc = hymt_engine_run(engine, &err);
    }

    if (rc == HYMT_ABORTED && !hymt_engine_stopping(engine)) {
        rc = hymt_fail(&err, "backend %s gave up while it was loading or"
                       " tested, with no stop asked for: a fault of the"
                       " backend", engine->ops->name);
    }

    if (rc == HYMT_ERROR) {
        hymt_engine_fail(engine, &err);
    }

    hymt_engine_end(engine);

    return NULL;
}


/*
 * The step loop.  A backend of depth 2 gets step n+1 before the tokens of step
 * n are waited for, so that it never waits for this thread.
 *
 * Returns HYMT_ABORTED when told to stop, or HYMT_ERROR.
 */
static hymt_status_t
hymt_engine_run(hymt_engine_t *engine, hymt_error_t *err)
{
    hymt_batch_t   batch;
    hymt_status_t  rc;

    for ( ;; ) {
        hymt_engine_take_inbox(engine);

        if (hymt_engine_stopping(engine)) {
            return HYMT_ABORTED;
        }

        rc = hymt_sched_plan(engine->sched, hymt_engine_begin, engine,
                             &batch);

        hymt_engine_tell(engine);

        if (rc == HYMT_OK) {
            if (hymt_engine_launch(engine, &batch, err) != HYMT_OK) {
                return HYMT_ERROR;
            }

            if (engine->n_open < engine->ops->depth) {
                continue;
            }
        }

        if (engine->n_open == 0) {
            hymt_engine_sleep(engine);
            continue;
        }

        if (hymt_engine_collect(engine, err) != HYMT_OK) {
            return HYMT_ERROR;
        }

        hymt_engine_tell(engine);
    }
}


static hymt_status_t
hymt_engine_launch(hymt_engine_t *engine, const hymt_batch_t *batch,
    hymt_error_t *err)
{
    uint32_t             i;
    hymt_engine_step_t  *step;

    step = &engine->steps[(engine->oldest + engine->n_open)
                          % HYMT_ENGINE_DEPTH];
    step->n_decode = 0;

    for (i = 0; i < batch->n_seqs; i++) {
        step->n_decode += batch->seqs[i].n_out > 0;
    }

    step->n_prompt = batch->n_rows - step->n_decode;
    step->seqs = batch->seqs;
    step->n_seqs = batch->n_seqs;
    step->start = hymt_now_ns();

    if (engine->ops->launch(engine->backend, batch, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    engine->n_open++;

    return HYMT_OK;
}


static hymt_status_t
hymt_engine_collect(hymt_engine_t *engine, hymt_error_t *err)
{
    hymt_status_t        rc;
    hymt_engine_step_t  *step;

    step = &engine->steps[engine->oldest];

    rc = engine->ops->collect(engine->backend, engine->tokens, err);

    engine->oldest = (engine->oldest + 1) % HYMT_ENGINE_DEPTH;
    engine->n_open--;

    if (rc == HYMT_ABORTED) {
        return hymt_engine_aborted(engine, step, err);
    }

    if (rc != HYMT_OK) {
        return HYMT_ERROR;
    }

    engine->n_aborts = 0;

    hymt_sched_commit(engine->sched, engine->tokens);
    hymt_engine_account(engine, step);

    return HYMT_OK;
}


/*
 * What an aborted step was to do is planned again.  A cause goes away with that
 * (canceled ones are dropped, stop ends the loop); a backend that has none
 * would be asked for the same for ever.
 */
static hymt_status_t
hymt_engine_aborted(hymt_engine_t *engine, const hymt_engine_step_t *step,
    hymt_error_t *err)
{
    hymt_sched_commit(engine->sched, NULL);

    if (hymt_engine_stopping(engine) || hymt_engine_all_canceled(step)) {
        return HYMT_OK;
    }

    if (++engine->n_aborts < HYMT_MAX_ABORTS) {
        return HYMT_OK;
    }

    return hymt_fail(err, "backend %s gave up %d steps in a row with nothing"
                     " canceled and no stop asked for: a fault of the backend",
                     engine->ops->name, HYMT_MAX_ABORTS);
}


static bool
hymt_engine_all_canceled(const hymt_engine_step_t *step)
{
    uint32_t             i;
    const volatile int  *canceled;

    for (i = 0; i < step->n_seqs; i++) {
        canceled = step->seqs[i].canceled;

        /* with two steps in flight there is no flag, and so no such cause */

        if (canceled == NULL
            || __atomic_load_n(canceled, __ATOMIC_RELAXED) == 0)
        {
            return false;
        }
    }

    return true;
}


/* Statistics of a step, and what it teaches about the next ones. */
static void
hymt_engine_account(hymt_engine_t *engine, const hymt_engine_step_t *step)
{
    uint32_t              i;
    uint64_t              now, ns;
    hymt_engine_stats_t  *stats;

    stats = &engine->stats;
    now = hymt_now_ns();

    /* steps overlap: one begins when the last has ended */

    ns = engine->ops->step_ns != NULL
         ? engine->ops->step_ns(engine->backend)
         : now - hymt_max(step->start, engine->last_end);

    engine->last_end = now;

    atomic_fetch_add_explicit(&stats->steps, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&stats->step_ns, ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&stats->step_seqs, step->n_seqs,
                              memory_order_relaxed);

    i = hymt_bucket(hymt_step_bounds, ns);
    atomic_fetch_add_explicit(&stats->step_count[i], 1, memory_order_relaxed);

    i = hymt_bucket(hymt_batch_bounds, step->n_seqs);
    atomic_fetch_add_explicit(&stats->batch_count[i], 1,
                              memory_order_relaxed);

    if (ns > atomic_load_explicit(&stats->step_max_ns, memory_order_relaxed)) {
        atomic_store_explicit(&stats->step_max_ns, ns, memory_order_relaxed);
    }

    atomic_fetch_add_explicit(&stats->rows_prefill, step->n_prompt,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&stats->rows_decode, step->n_decode,
                              memory_order_relaxed);

    if (engine->ops->depth == 1) {
        hymt_pace_step(&engine->pace, step->n_decode, step->n_prompt, ns);
        hymt_sched_budget(engine->sched,
                          engine->pace.budget[HYMT_PACE_MIXED],
                          engine->pace.budget[HYMT_PACE_PREFILL]);
    }
}


static void
hymt_engine_begin(void *data, hymt_seq_t *seq)
{
    hymt_engine_t  *engine = data;

    hymt_seq_t  *s;

    for (s = seq; s != NULL; s = s->twins) {
        hymt_engine_started(s);
    }

    engine->ops->slot_begin(engine->backend, seq->slot, &seq->sampling,
                            seq->prompt, seq->n_prompt);
}


static void
hymt_engine_started(hymt_seq_t *seq)
{
    seq->t_start = hymt_now_ns();

    if (seq->started != NULL) {
        atomic_store(seq->started, 1);
    }
}


/* Says why, ends all there is and all that still comes, until told to stop. */
static void
hymt_engine_fail(hymt_engine_t *engine, const hymt_error_t *err)
{
    engine->failed = *err;
    hymt_engine_set_state(engine, HYMT_ENGINE_FAILED);

    if (engine->sched != NULL) {
        hymt_sched_drop_all(engine->sched, HYMT_FINISH_FAILED);
        hymt_engine_tell(engine);
    }

    /* its memory is worth more than what is left in it */

    if (engine->backend != NULL) {
        engine->ops->destroy(engine->backend);
        engine->backend = NULL;
    }

    hymt_sched_free(engine->sched);
    engine->sched = NULL;

    while (!hymt_engine_stopping(engine)) {
        hymt_engine_take_inbox(engine);
        hymt_engine_sleep(engine);
    }
}


static void
hymt_engine_end(hymt_engine_t *engine)
{
    hymt_error_t  err;

    /* stop is raised: what is in flight ends soon */

    while (engine->backend != NULL && engine->n_open > 0) {
        engine->ops->collect(engine->backend, engine->tokens, &err);
        engine->n_open--;
    }

    hymt_engine_take_inbox(engine);

    if (engine->sched != NULL) {
        hymt_sched_drop_all(engine->sched, HYMT_FINISH_FAILED);
        hymt_engine_tell(engine);
        hymt_sched_free(engine->sched);
    }

    if (engine->backend != NULL) {
        engine->ops->destroy(engine->backend);
    }

    free(engine->tokens);
    hymt_engine_set_state(engine, HYMT_ENGINE_STOPPED);
}


static void
hymt_engine_take_inbox(hymt_engine_t *engine)
{
    uint32_t     cancels;
    hymt_seq_t  *seq;

    /* read first: what was canceled by then is in the inbox, or was before */

    cancels = atomic_load_explicit(&engine->cancels, memory_order_acquire);

    while ((seq = hymt_spsc_pop(&engine->inbox)) != NULL) {

        if (engine->sched != NULL
            && hymt_sched_add(engine->sched, seq, NULL) == HYMT_OK)
        {
            if (seq->coalesced) {
                hymt_engine_started(seq);
            }

            continue;
        }

        seq->ended = HYMT_FINISH_FAILED;
        hymt_engine_publish(engine, seq);
        hymt_engine_ring(engine);
    }

    if (cancels != engine->cancels_seen && engine->sched != NULL) {
        engine->cancels_seen = cancels;
        hymt_sched_cancels(engine->sched);
    }
}


/* Hands the scheduler's news on, and what the scheduler looks like now. */
static void
hymt_engine_tell(hymt_engine_t *engine)
{
    bool                  any;
    hymt_seq_t           *seq;
    hymt_engine_stats_t  *stats;

    for (any = false; (seq = hymt_sched_news(engine->sched)) != NULL;
         any = true)
    {
        hymt_engine_publish(engine, seq);
    }

    stats = &engine->stats;

    atomic_store_explicit(&stats->waiting, hymt_sched_waiting(engine->sched),
                          memory_order_relaxed);
    atomic_store_explicit(&stats->running, hymt_sched_running(engine->sched),
                          memory_order_relaxed);
    atomic_store_explicit(&stats->kv_blocks_used,
                          hymt_sched_blocks_used(engine->sched),
                          memory_order_relaxed);
    hymt_engine_tell_caches(engine);

    atomic_store_explicit(&stats->progress_ns, hymt_now_ns(),
                          memory_order_relaxed);

    if (any) {
        hymt_engine_ring(engine);
    }
}


static void
hymt_engine_tell_caches(hymt_engine_t *engine)
{
    hymt_prefix_stats_t   prefix;
    hymt_engine_stats_t  *stats;

    stats = &engine->stats;
    hymt_sched_prefix_stats(engine->sched, &prefix);

    atomic_store_explicit(&stats->prefix_hits, prefix.hits,
                          memory_order_relaxed);
    atomic_store_explicit(&stats->prefix_misses, prefix.misses,
                          memory_order_relaxed);
    atomic_store_explicit(&stats->prefix_tokens, prefix.tokens,
                          memory_order_relaxed);
    atomic_store_explicit(&stats->prefix_evictions, prefix.evictions,
                          memory_order_relaxed);
    atomic_store_explicit(&stats->prefix_blocks, prefix.blocks,
                          memory_order_relaxed);
    atomic_store_explicit(&stats->coalesced,
                          hymt_sched_coalesced(engine->sched),
                          memory_order_relaxed);
}


static void
hymt_engine_publish(hymt_engine_t *engine, hymt_seq_t *seq)
{
    uint32_t  bits, old;
    uint64_t  now;

    now = hymt_now_ns();
    bits = HYMT_IN_BOX;

    if (seq->t_first == 0
        && atomic_load_explicit(&seq->n_out, memory_order_relaxed) > 0)
    {
        seq->t_first = now;
    }

    if (seq->ended != HYMT_FINISH_NONE) {
        seq->t_end = now;
        bits |= HYMT_ENDED;
    }

    old = atomic_fetch_or_explicit(&seq->notified, bits,
                                   memory_order_acq_rel);

    /* with ENDED set and IN_BOX set before, it may be gone by now */

    if (!(old & HYMT_IN_BOX)) {
        hymt_spsc_push(&engine->outbox, seq);
    }
}


/* Until something comes into the inbox, or stop. */
static void
hymt_engine_sleep(hymt_engine_t *engine)
{
    uint64_t  n;

    atomic_exchange(&engine->asleep, 1);

    if (hymt_spsc_empty(&engine->inbox) && !hymt_engine_stopping(engine)) {

        /* EINTR, or a count left from an earlier call: one more turn */

        if (read(engine->wake_fd, &n, sizeof(n)) == -1) {
            n = 0;
        }
    }

    atomic_exchange(&engine->asleep, 0);
}


static void
hymt_engine_ring(hymt_engine_t *engine)
{
    if (atomic_exchange(&engine->armed, 0) && engine->params.news_fd != -1) {
        hymt_engine_notify(engine->params.news_fd);
    }
}


void
hymt_engine_set_state(hymt_engine_t *engine, hymt_engine_state_t state)
{
    atomic_store_explicit(&engine->stats.state, state, memory_order_release);
    atomic_store_explicit(&engine->stats.progress_ns, hymt_now_ns(),
                          memory_order_relaxed);
    hymt_engine_ring(engine);
}


bool
hymt_engine_stopping(const hymt_engine_t *engine)
{
    return __atomic_load_n(&engine->stop, __ATOMIC_ACQUIRE) != 0;
}
