/*
 * engine_load.c - from a model's directory to an engine that is ready: the
 * backend is found, waits for memory, loads and tests itself.
 */

#include "engine_private.h"
#include "selftest.h"
#include "sizing.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


/*
 * Prompt rows beside decode rows on a card: what steps are filled to, where
 * products change their kernels and at last graphs end (bench/cuda_mixed).
 * Where so many decode that fewer than HYMT_CARD_MIXED would be left of 512, up
 * to 640; beside more than that HYMT_CARD_MIXED, beyond the graphs.
 */
static const uint32_t  hymt_card_sizes[HYMT_SCHED_SIZES] = {
    128, 256, 512, 640
};

#define HYMT_CARD_MIXED  128

/* clients that the waiting line tells apart */
#define HYMT_MAX_FLOWS   4096

/* between two looks whether there is enough memory */
#define HYMT_MEMORY_MS   500


static hymt_status_t hymt_engine_choose(hymt_engine_t *engine,
    const hymt_model_t *model, hymt_error_t *err);
static hymt_status_t hymt_engine_try(hymt_engine_t *engine,
    const hymt_backend_ops_t *ops, const hymt_model_t *model,
    hymt_error_t *err);
static void hymt_engine_wait(hymt_engine_t *engine, const hymt_error_t *err);
static hymt_status_t hymt_engine_prepare(hymt_engine_t *engine,
    const hymt_model_t *model, hymt_error_t *err);
static hymt_status_t hymt_engine_schedule(hymt_engine_t *engine,
    const hymt_backend_params_t *params, hymt_error_t *err);
static void hymt_engine_describe(hymt_engine_t *engine,
    const hymt_backend_params_t *params);


hymt_status_t
hymt_engine_load(hymt_engine_t *engine, hymt_error_t *err)
{
    uint64_t        start;
    hymt_model_t   *model;
    hymt_status_t   rc;

    start = hymt_now_ns();

    if (hymt_model_open(engine->params.model, &model, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    hymt_claim_init(&engine->claim, engine->params.claims,
                    engine->params.rank);

    while ((rc = hymt_engine_choose(engine, model, err)) == HYMT_AGAIN) {
        hymt_engine_wait(engine, err);

        if (hymt_engine_stopping(engine)) {
            rc = HYMT_ABORTED;
            break;
        }
    }

    hymt_claim_drop(&engine->claim);
    hymt_model_close(model);

    if (rc == HYMT_OK) {
        atomic_store(&engine->stats.load_ns, hymt_now_ns() - start);
        hymt_engine_set_state(engine, HYMT_ENGINE_READY);
    }

    return rc;
}


/*
 * "auto" is the CUDA backend where all goes well with it, up to and with its
 * self-test, else the CPU's with the reason in the note.
 */
static hymt_status_t
hymt_engine_choose(hymt_engine_t *engine, const hymt_model_t *model,
    hymt_error_t *err)
{
    bool           any;
    hymt_status_t  rc;

    if (engine->params.ops != NULL) {
        return hymt_engine_try(engine, engine->params.ops, model, err);
    }

    any = strcmp(engine->params.backend, "auto") == 0;
    engine->note[0] = '\0';

    rc = hymt_engine_try(engine,
                         hymt_backend_find(any ? "cuda"
                                               : engine->params.backend, err),
                         model, err);

    if (rc != HYMT_ERROR || !any) {
        return rc;
    }

    snprintf(engine->note, sizeof(engine->note), "no CUDA: %.380s",
             err->text);

    return hymt_engine_try(engine, &hymt_backend_cpu, model, err);
}


/* ops NULL: it was not found, and the error says why. */
static hymt_status_t
hymt_engine_try(hymt_engine_t *engine, const hymt_backend_ops_t *ops,
    const hymt_model_t *model, hymt_error_t *err)
{
    bool           patient;
    hymt_status_t  rc;

    if (ops == NULL) {
        return HYMT_ERROR;
    }

    engine->ops = ops;

    /* looked at before: who is gone by then has left its memory */

    patient = engine->params.patience != NULL
              && atomic_load(engine->params.patience) != 0;

    engine->claim.busy = false;

    rc = hymt_engine_prepare(engine, model, err);

    if (rc != HYMT_OK && engine->backend != NULL) {
        ops->destroy(engine->backend);
        engine->backend = NULL;
    }

    if (rc == HYMT_AGAIN && (patient || engine->claim.busy)) {
        hymt_claim_wait(&engine->claim);
        return HYMT_AGAIN;
    }

    hymt_claim_drop(&engine->claim);

    return rc == HYMT_AGAIN ? HYMT_ERROR : rc;
}


/* Until memory is looked at once more, or stop. */
static void
hymt_engine_wait(hymt_engine_t *engine, const hymt_error_t *err)
{
    struct pollfd  p;

    if (!hymt_engine_waits(engine)) {
        engine->shortage = *err;
        atomic_store_explicit(&engine->waits, 1, memory_order_release);
    }

    p.fd = engine->wake_fd;
    p.events = POLLIN;

    atomic_exchange(&engine->asleep, 1);

    if (!hymt_engine_stopping(engine)) {
        (void) poll(&p, 1, HYMT_MEMORY_MS);
    }

    atomic_exchange(&engine->asleep, 0);
}


/* From an open model to an engine that has passed its self-test. */
static hymt_status_t
hymt_engine_prepare(hymt_engine_t *engine, const hymt_model_t *model,
    hymt_error_t *err)
{
    uint64_t               memory;
    hymt_status_t          rc;
    hymt_sizing_t          sizing;
    hymt_backend_params_t  params;

    engine->config = model->config;

    if (engine->ops->device_memory == NULL) {
        memory = hymt_sizing_memory();

    } else {
        rc = engine->ops->device_memory(engine->params.device, &memory, err);

        if (rc != HYMT_OK) {
            return rc;
        }
    }

    rc = hymt_sizing(&engine->params, engine->ops->depth,
                     engine->ops->kv_element, &model->config, model->bytes,
                     memory, &sizing, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    memset(&params, 0, sizeof(params));
    params.threads = engine->params.threads;
    params.device = engine->params.device;
    params.max_batch = engine->params.max_batch;
    params.max_rows = sizing.max_rows;
    params.context = sizing.context;
    params.n_blocks = sizing.n_blocks;
    params.stop = &engine->stop;
    params.claim = &engine->claim;

    rc = engine->ops->create(&params, model, &engine->backend, err);
    if (rc != HYMT_OK) {
        engine->backend = NULL;
        return rc;
    }

    rc = hymt_selftest(engine->ops, engine->backend, &params, &model->config,
                       err);
    if (rc != HYMT_OK) {
        return rc;
    }

    rc = hymt_engine_schedule(engine, &params, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    hymt_engine_describe(engine, &params);

    return HYMT_OK;
}


static hymt_status_t
hymt_engine_schedule(hymt_engine_t *engine,
    const hymt_backend_params_t *params, hymt_error_t *err)
{
    hymt_sched_params_t  sp;

    engine->tokens = calloc(params->max_batch, sizeof(uint32_t));
    if (engine->tokens == NULL) {
        return hymt_fail(err, "no memory for the tokens of max_batch %" PRIu32,
                         params->max_batch);
    }

    hymt_pace_init(&engine->pace, engine->params.step_ms, params->max_rows);

    memset(&sp, 0, sizeof(sp));
    sp.max_batch = params->max_batch;
    sp.context = params->context;
    sp.n_blocks = params->n_blocks;
    sp.max_rows = params->max_rows;
    sp.depth = engine->ops->depth;
    sp.max_flows = hymt_min(engine->params.max_seqs, HYMT_MAX_FLOWS);
    sp.prefix_cache = engine->params.prefix_cache;
    sp.coalesce = engine->params.coalesce;
    sp.stop = engine->config.stop;
    sp.n_stop = engine->params.ignore_eos ? 0 : engine->config.n_stop;

    if (sp.depth == 1) {
        sp.budget_mixed = engine->pace.budget[HYMT_PACE_MIXED];
        sp.budget_prefill = engine->pace.budget[HYMT_PACE_PREFILL];

    } else {
        sp.budget_mixed = HYMT_CARD_MIXED;
        memcpy(sp.sizes, hymt_card_sizes, sizeof(sp.sizes));
        sp.budget_prefill = params->max_rows;
    }

    return hymt_sched_create(&sp, &engine->sched, err);
}


static void
hymt_engine_describe(hymt_engine_t *engine,
    const hymt_backend_params_t *params)
{
    uint64_t              weights, kv, other;
    hymt_engine_stats_t  *stats;

    engine->ops->memory(engine->backend, &weights, &kv, &other);

    stats = &engine->stats;
    atomic_store(&stats->kv_blocks, params->n_blocks);
    atomic_store(&stats->max_batch, params->max_batch);
    atomic_store(&stats->context, params->context);
    atomic_store(&stats->bytes_weights, weights);
    atomic_store(&stats->bytes_kv, kv);
    atomic_store(&stats->bytes_other, other);

    snprintf(engine->ready, sizeof(engine->ready), "backend %s%s%s%s: %s;"
             " max_batch %" PRIu32 ", context %" PRIu32 "; weights %.1f MB, KV"
             " %.1f MB for %" PRIu64 " tokens, %.1f MB besides",
             engine->ops->name, engine->note[0] ? " (auto: " : "",
             engine->note, engine->note[0] ? ")" : "",
             engine->ops->describe(engine->backend), params->max_batch,
             params->context, (double) weights / 1e6, (double) kv / 1e6,
             (uint64_t) params->n_blocks * HYMT_KV_BLOCK,
             (double) other / 1e6);
}
