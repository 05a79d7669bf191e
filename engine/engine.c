/*
 * engine.c - the owner's side of an engine; see engine.h, and engine_private.h
 * for how the two sides meet.
 */

#include "engine_private.h"
#include "sizing.h"
#include "thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>


#define HYMT_STEP_MS  50


static hymt_status_t hymt_engine_check(const hymt_engine_params_t *params,
    hymt_error_t *err);
static hymt_status_t hymt_engine_init(hymt_engine_t *engine,
    hymt_error_t *err);
static hymt_status_t hymt_engine_spawn(hymt_engine_t *engine,
    hymt_error_t *err);
static void hymt_engine_free(hymt_engine_t *engine);
static void hymt_engine_wake(hymt_engine_t *engine);


hymt_status_t
hymt_engine_start(const hymt_engine_params_t *params, hymt_engine_t **engine,
    hymt_error_t *err)
{
    hymt_engine_t  *e;

    *engine = NULL;

    if (hymt_engine_check(params, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    e = calloc(1, sizeof(hymt_engine_t));
    if (e == NULL) {
        return hymt_fail(err, "no memory for an engine");
    }

    e->params = *params;
    e->params.model = NULL;
    e->params.backend = NULL;
    e->wake_fd = -1;
    e->params.model = strdup(params->model);

    if (params->ops == NULL) {
        e->params.backend = strdup(params->backend);
    }

    if (hymt_engine_init(e, err) != HYMT_OK
        || hymt_engine_spawn(e, err) != HYMT_OK)
    {
        hymt_engine_free(e);
        return HYMT_ERROR;
    }

    *engine = e;

    return HYMT_OK;
}


/* What can be said without the model. */
static hymt_status_t
hymt_engine_check(const hymt_engine_params_t *params, hymt_error_t *err)
{
    if (params->max_batch == 0 || params->max_batch > HYMT_MAX_BATCH) {
        return hymt_fail(err, "max_batch %" PRIu32 ": 1 to %d are possible",
                         params->max_batch, HYMT_MAX_BATCH);
    }

    if (params->ops == NULL
        && hymt_backend_check(params->backend, err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (params->max_seqs == 0 || params->max_seqs > HYMT_SPSC_MAX) {
        return hymt_fail(err, "max_seqs %" PRIu32 ": 1 to %" PRIu32 " are"
                         " possible", params->max_seqs, HYMT_SPSC_MAX);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_engine_init(hymt_engine_t *engine, hymt_error_t *err)
{
    if (engine->params.model == NULL
        || (engine->params.backend == NULL && engine->params.ops == NULL))
    {
        return hymt_fail(err, "no memory for the model's path");
    }

    if (engine->params.step_ms == 0) {
        engine->params.step_ms = HYMT_STEP_MS;
    }

    if (hymt_spsc_init(&engine->inbox, engine->params.max_seqs, err)
        != HYMT_OK
        || hymt_spsc_init(&engine->outbox, engine->params.max_seqs, err)
           != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    engine->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (engine->wake_fd == -1) {
        return hymt_fail(err, "eventfd() failed: %s", strerror(errno));
    }

    atomic_store(&engine->stats.progress_ns, hymt_now_ns());

    return HYMT_OK;
}


static hymt_status_t
hymt_engine_spawn(hymt_engine_t *engine, hymt_error_t *err)
{
    int  rc;

    rc = hymt_thread_start(&engine->thread, "hymt-engine", hymt_engine_thread,
                           engine);
    if (rc != 0) {
        return hymt_fail(err, "can't start the engine thread: %s",
                         strerror(rc));
    }

    return HYMT_OK;
}


static void
hymt_engine_free(hymt_engine_t *engine)
{
    if (engine->wake_fd != -1) {
        close(engine->wake_fd);
    }

    hymt_spsc_free(&engine->inbox);
    hymt_spsc_free(&engine->outbox);
    free((char *) engine->params.model);
    free((char *) engine->params.backend);
    free(engine);
}


void
hymt_engine_stop(hymt_engine_t *engine)
{
    if (engine == NULL) {
        return;
    }

    __atomic_store_n(&engine->stop, 1, __ATOMIC_RELEASE);
    hymt_engine_wake(engine);
    pthread_join(engine->thread, NULL);

    /* sets finish in those that nobody has asked about any more */

    while (hymt_engine_poll(engine) != NULL) { /* void */ }

    hymt_engine_free(engine);
}


const hymt_engine_stats_t *
hymt_engine_stats(const hymt_engine_t *engine)
{
    return &engine->stats;
}


bool
hymt_engine_waits(const hymt_engine_t *engine)
{
    return atomic_load_explicit(&engine->waits, memory_order_acquire) != 0;
}


const char *
hymt_engine_reason(const hymt_engine_t *engine)
{
    switch (atomic_load_explicit(&engine->stats.state, memory_order_acquire)) {

    case HYMT_ENGINE_READY:
        return engine->ready;

    case HYMT_ENGINE_FAILED:
        return engine->failed.text;

    case HYMT_ENGINE_LOADING:
        return hymt_engine_waits(engine) ? engine->shortage.text
                                         : "the model is loading";

    default:
        return "stopped";
    }
}


const hymt_config_t *
hymt_engine_config(const hymt_engine_t *engine)
{
    if (atomic_load_explicit(&engine->stats.state, memory_order_acquire)
        != HYMT_ENGINE_READY)
    {
        return NULL;
    }

    return &engine->config;
}


hymt_status_t
hymt_engine_submit(hymt_engine_t *engine, hymt_seq_t *seq, hymt_error_t *err)
{
    uint32_t                    i;
    uint64_t                    tokens, pool;
    const hymt_config_t        *config;
    const hymt_engine_stats_t  *stats;

    config = hymt_engine_config(engine);
    if (config == NULL) {
        return hymt_fail(err, "the engine is not ready: %s",
                         hymt_engine_reason(engine));
    }

    if (seq->n_prompt == 0 || seq->max_new == 0) {
        return hymt_fail(err, "a sequence of %" PRIu32 " prompt tokens and"
                         " max_new %" PRIu32 ": both must be at least 1",
                         seq->n_prompt, seq->max_new);
    }

    stats = &engine->stats;
    tokens = (uint64_t) seq->n_prompt + seq->max_new;
    pool = (uint64_t) atomic_load(&stats->kv_blocks) * HYMT_KV_BLOCK;

    if (tokens > atomic_load(&stats->context) || tokens > pool) {
        return hymt_fail(err, "%" PRIu32 " prompt tokens and %" PRIu32 " of"
                         " output do not fit: the context is %" PRIu32
                         " tokens, the whole KV pool %" PRIu64,
                         seq->n_prompt, seq->max_new,
                         atomic_load(&stats->context), pool);
    }

    /* an id outside of the embedding would be read from beyond it */

    for (i = 0; i < seq->n_prompt; i++) {
        if (seq->prompt[i] >= config->vocab) {
            return hymt_fail(err, "prompt token %" PRIu32 " at %" PRIu32
                             " is outside of the model's vocabulary of %"
                             PRIu32, seq->prompt[i], i, config->vocab);
        }
    }

    if (hymt_sampling_check(&seq->sampling, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    if (engine->n_out == engine->params.max_seqs) {
        return HYMT_AGAIN;
    }

    atomic_store_explicit(&seq->n_out, 0, memory_order_relaxed);
    atomic_store_explicit(&seq->finish, HYMT_FINISH_NONE,
                          memory_order_relaxed);
    atomic_store_explicit(&seq->notified, 0, memory_order_relaxed);

    seq->t_submit = hymt_now_ns();
    seq->t_start = 0;
    seq->t_first = 0;
    seq->t_end = 0;
    seq->batch = 0;

    /* never full: it holds max_seqs */

    engine->n_out++;
    hymt_spsc_push(&engine->inbox, seq);
    hymt_engine_wake(engine);

    return HYMT_OK;
}


void
hymt_engine_cancel(hymt_engine_t *engine, hymt_seq_t *seq)
{
    __atomic_store_n(&seq->canceled, 1, __ATOMIC_RELAXED);
    atomic_fetch_add_explicit(&engine->cancels, 1, memory_order_release);
    hymt_engine_wake(engine);
}


hymt_seq_t *
hymt_engine_poll(hymt_engine_t *engine)
{
    uint32_t     notified;
    hymt_seq_t  *seq;

    seq = hymt_spsc_pop(&engine->outbox);
    if (seq == NULL) {
        return NULL;
    }

    notified = atomic_exchange_explicit(&seq->notified, 0,
                                        memory_order_acq_rel);

    if (notified & HYMT_ENDED) {
        engine->n_out--;
        atomic_store_explicit(&seq->finish, seq->ended, memory_order_release);
    }

    return seq;
}


bool
hymt_engine_arm(hymt_engine_t *engine)
{
    uint32_t  state;

    atomic_exchange(&engine->armed, 1);

    state = atomic_load_explicit(&engine->stats.state, memory_order_acquire);

    if (state == engine->seen && hymt_spsc_empty(&engine->outbox)) {
        return false;
    }

    engine->seen = state;
    atomic_exchange(&engine->armed, 0);

    return true;
}


static void
hymt_engine_wake(hymt_engine_t *engine)
{
    if (atomic_exchange(&engine->asleep, 0)) {
        hymt_engine_notify(engine->wake_fd);
    }
}


void
hymt_engine_notify(int fd)
{
    uint64_t  one = 1;

    while (write(fd, &one, sizeof(one)) == -1 && errno == EINTR) { /* void */ }
}
