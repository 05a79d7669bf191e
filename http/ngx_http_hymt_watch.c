
/*
 * Copyright (C) the hymt authors
 */


/*
 * Worker 0 looks at its engines while it serves, and waits for the other
 * workers when it leaves.
 */


#include "ngx_http_hymt_runtime.h"


#define NGX_HTTP_HYMT_HOLD  50    /* ms between looks at the others */

/* looks until the memory of a process that has ended is free */
#define NGX_HTTP_HYMT_ALONE  3


static ngx_uint_t ngx_http_hymt_others(ngx_http_hymt_runtime_t *rt);
static void ngx_http_hymt_orphans(ngx_http_hymt_runtime_t *rt);
static ngx_uint_t ngx_http_hymt_present(ngx_http_hymt_runtime_t *rt,
    ngx_uint_t lane);
static void ngx_http_hymt_look_back(ngx_http_hymt_runtime_t *rt);
static void ngx_http_hymt_watch_model(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model);
static void ngx_http_hymt_give_up(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model);


/*
 * Workers of one cycle leave in any order, but the engines are in worker 0:
 * while another one is there, a timer that is not cancelable keeps it.  Should
 * it die all the same, no other is started for them.
 */
void
ngx_http_hymt_leaving(ngx_http_hymt_runtime_t *rt)
{
    if (rt->lane == 0 && (rt->recycle || !ngx_http_hymt_others(rt))) {
        return;
    }

    ngx_add_timer(&rt->hold, NGX_HTTP_HYMT_HOLD);
}


void
ngx_http_hymt_hold(ngx_event_t *ev)
{
    ngx_http_hymt_runtime_t  *rt;
    ngx_connection_t         *c;

    ngx_http_hymt_turn_begin();

    c = ev->data;
    rt = c->data;

    if (rt->lane == 0) {

        if (!rt->recycle && ngx_http_hymt_others(rt)) {
            ngx_add_timer(&rt->hold, NGX_HTTP_HYMT_HOLD);
        }

        return;
    }

    /* again and again: bodies may still be on their way */

    if (!ngx_http_hymt_present(rt, 0)) {
        ngx_http_hymt_orphans(rt);
    }

    ngx_add_timer(&rt->hold, NGX_HTTP_HYMT_HOLD);
}


static ngx_uint_t
ngx_http_hymt_others(ngx_http_hymt_runtime_t *rt)
{
    ngx_uint_t  i;

    for (i = 1; i < rt->conf->lanes; i++) {
        if (ngx_http_hymt_present(rt, i)) {
            return 1;
        }
    }

    return 0;
}


/* Nobody will answer them any more. */
static void
ngx_http_hymt_orphans(ngx_http_hymt_runtime_t *rt)
{
    ngx_queue_t           *q;
    ngx_http_hymt_call_t  *call;

    for (q = ngx_queue_head(&rt->calls);
         q != ngx_queue_sentinel(&rt->calls);
         q = ngx_queue_next(q))
    {
        call = ngx_queue_data(q, ngx_http_hymt_call_t, queue);

        ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "unavailable",
                           "the engine of model \"%s\" has failed",
                           call->model->name.data);

        ngx_post_event(&call->run, &ngx_posted_events);
    }
}


static ngx_uint_t
ngx_http_hymt_present(ngx_http_hymt_runtime_t *rt, ngx_uint_t lane)
{
    /* one that was killed has not signed out */

    return hymt_process_alive(rt->conf->roster->process[lane]);
}


void
ngx_http_hymt_sign_in(ngx_http_hymt_runtime_t *rt)
{
    uint64_t                  process;
    ngx_uint_t                i;
    ngx_http_hymt_engines_t  *engines;

    rt->alone = NGX_HTTP_HYMT_ALONE;
    ngx_http_hymt_look_back(rt);

    engines = rt->conf->counters->engines;

    for (i = 0; i < NGX_HTTP_HYMT_GENERATIONS; i++) {
        process = engines[i].process;

        if (!hymt_process_alive(process)
            && atomic_compare_exchange_strong(&engines[i].process, &process,
                                              rt->process))
        {
            engines[i].generation = rt->conf->generation;
            return;
        }
    }
}


void
ngx_http_hymt_sign_out(ngx_http_hymt_runtime_t *rt)
{
    uint64_t                  process;
    ngx_uint_t                i;
    ngx_http_hymt_engines_t  *engines;

    engines = rt->conf->counters->engines;

    for (i = 0; i < NGX_HTTP_HYMT_GENERATIONS; i++) {
        process = rt->process;

        (void) atomic_compare_exchange_strong(&engines[i].process, &process,
                                              0);
    }
}


/*
 * Engines of a former configuration leave when their requests are done: one of
 * this one that finds too little memory waits for that.
 */
static void
ngx_http_hymt_look_back(ngx_http_hymt_runtime_t *rt)
{
    ngx_uint_t                i;
    ngx_http_hymt_engines_t  *engines;

    engines = rt->conf->counters->engines;

    rt->alone++;

    for (i = 0; i < NGX_HTTP_HYMT_GENERATIONS; i++) {
        if (engines[i].generation < rt->conf->generation
            && hymt_process_alive(engines[i].process))
        {
            rt->alone = 0;
        }
    }

    atomic_store(&rt->patience, rt->alone < NGX_HTTP_HYMT_ALONE);
}


void
ngx_http_hymt_watch(ngx_event_t *ev)
{
    ngx_uint_t                i;
    ngx_connection_t         *c;
    ngx_http_hymt_model_t   **models;
    ngx_http_hymt_runtime_t  *rt;

    ngx_http_hymt_turn_begin();

    c = ev->data;
    rt = c->data;
    models = rt->conf->models.elts;

    ngx_http_hymt_look_back(rt);

    for (i = 0; i < rt->conf->models.nelts; i++) {
        if (rt->hosts[i] != NULL) {
            ngx_http_hymt_watch_model(rt, models[i]);
        }
    }

    ngx_add_timer(ev, NGX_HTTP_HYMT_WATCH);
}


/*
 * Says once that an engine is stuck, and that it is not any more; one that
 * stays so for as long again is given up.
 */
static void
ngx_http_hymt_watch_model(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model)
{
    ngx_uint_t         i, stuck;
    hymt_host_info_t  *info;

    i = model->index;
    info = &rt->seen[i];

    ngx_http_hymt_fold(model, info);

    stuck = ngx_http_hymt_stuck(rt->conf, info, rt->conf->watchdog);

    if (!stuck && !rt->stuck[i]) {
        return;
    }

    /* looks, not time: what stopped the whole process is no fault of it */

    rt->stuck[i] = stuck ? rt->stuck[i] + 1 : 0;

    if (rt->stuck[i] > 1) {
        if (ngx_http_hymt_hopeless(rt, i)) {
            ngx_http_hymt_give_up(rt, model);
        }

        return;
    }

    if (!stuck) {
        ngx_log_error(NGX_LOG_NOTICE, rt->cycle->log, 0,
                      "hymt \"%V\": the engine goes on", &model->name);
        return;
    }

    ngx_log_error(NGX_LOG_ERR, rt->cycle->log, 0,
                  "hymt \"%V\": the engine is stuck: %uD sequences run and"
                  " %uD wait, and no step has ended for %M ms beyond the"
                  " longest one of %uL ms", &model->name, info->running,
                  info->waiting, rt->conf->watchdog,
                  info->step_max_ns / 1000000);
}


ngx_uint_t
ngx_http_hymt_hopeless(ngx_http_hymt_runtime_t *rt, ngx_uint_t i)
{
    return rt->stuck[i] > 1
           && (rt->stuck[i] - 1) * NGX_HTTP_HYMT_WATCH >= rt->conf->watchdog;
}


/*
 * As with an engine that has failed, but this one can't be asked to give back
 * what it has: the other workers take it for lost when they see the next one.
 */
static void
ngx_http_hymt_give_up(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model)
{
    if (rt->recycle || ngx_process != NGX_PROCESS_WORKER) {
        return;
    }

    ngx_log_error(NGX_LOG_ERR, rt->cycle->log, 0,
                  "hymt \"%V\": the engine does not go on: this worker leaves"
                  " it and another one takes its place", &model->name);

    rt->recycle = 1;
    rt->conf->roster->failed = 1;

    ngx_http_hymt_orphans(rt);

    ngx_quit = 1;
}
