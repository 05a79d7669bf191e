
/*
 * Copyright (C) the hymt authors
 */


/*
 * What a worker has to do with its engines: jobs go out, results come in, and
 * calls wait in line for a slot.
 */


#include "ngx_http_hymt_runtime.h"


#define NGX_HTTP_HYMT_EVENTS_A_WAKE  16


static void ngx_http_hymt_dispatch(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model, hymt_client_t *client,
    hymt_event_t *event);
static ngx_uint_t ngx_http_hymt_gone(ngx_http_hymt_model_t *model);
static void ngx_http_hymt_state_changed(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model);
static void ngx_http_hymt_host_changed(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model, hymt_host_info_t *info);
static void ngx_http_hymt_leave_line(ngx_http_hymt_call_t *call);


ngx_uint_t
ngx_http_hymt_ready(ngx_http_hymt_model_t *model)
{
    return ngx_http_hymt_runtime != NULL && model->exchange.mem != NULL
           && hymt_exchange_state(&model->exchange) == HYMT_HOST_READY;
}


ngx_uint_t
ngx_http_hymt_engine_info(ngx_http_hymt_model_t *model, hymt_host_info_t *info)
{
    if (ngx_http_hymt_runtime == NULL || model->exchange.mem == NULL) {
        return 0;
    }

    hymt_exchange_info(&model->exchange, info);

    return 1;
}


ngx_uint_t
ngx_http_hymt_stuck(ngx_http_hymt_main_conf_t *hmcf,
    const hymt_host_info_t *info, ngx_msec_t patience)
{
    patience = ngx_min(patience, hmcf->watchdog);

    /* how long its steps are is not known before the first one */

    if (info->step_max_ns == 0) {
        patience = hmcf->watchdog;
    }

    return patience != 0
           && hymt_exchange_stuck(info, hymt_now_ns(),
                                  (uint64_t) patience * 1000000);
}


uint32_t
ngx_http_hymt_in_flight(ngx_http_hymt_model_t *model)
{
    return hymt_exchange_in_flight(&model->exchange);
}


ngx_uint_t
ngx_http_hymt_queue_full(ngx_http_hymt_model_t *model)
{
    /* a slot that is kept for one in line is as good as taken */

    return ngx_http_hymt_in_flight(model) + model->woken
           >= (ngx_uint_t) model->queue;
}


ngx_int_t
ngx_http_hymt_take_load(ngx_http_hymt_call_t *call)
{
    return ngx_http_hymt_load_take(call, ngx_http_hymt_runtime->lane);
}


ngx_int_t
ngx_http_hymt_submit(ngx_http_hymt_job_t *job, const hymt_job_t *params)
{
    hymt_error_t            err;
    hymt_client_t          *client;
    ngx_http_hymt_call_t   *call;
    ngx_http_hymt_model_t  *model;

    call = job->call;
    model = call->model;
    client = ngx_http_hymt_runtime->clients[model->index];

    if (client == NULL || ngx_http_hymt_runtime->recycle) {
        return NGX_ERROR;
    }

    if (model->held || !ngx_http_hymt_may_run(job)) {
        return NGX_AGAIN;
    }

    if (!call->woken && model->woken
        && hymt_client_slots_free(client) <= model->woken)
    {
        return NGX_AGAIN;
    }

    switch (hymt_client_submit(client, params, job, &job->slot, &err)) {

    case HYMT_OK:
        ngx_http_hymt_leave_line(call);
        ngx_http_hymt_job_runs(job);
        return NGX_OK;

    case HYMT_AGAIN:
        return NGX_AGAIN;

    case HYMT_TOO_LONG:
        return NGX_DECLINED;

    default:
        return NGX_ERROR;
    }
}


void
ngx_http_hymt_cancel(ngx_http_hymt_job_t *job)
{
    hymt_client_t  *client;

    client = ngx_http_hymt_runtime->clients[job->call->model->index];

    if (client != NULL) {
        hymt_client_cancel(client, job->slot);
        ngx_http_hymt_job_over(job);
    }
}


ngx_uint_t
ngx_http_hymt_started(ngx_http_hymt_job_t *job)
{
    hymt_client_t  *client;

    client = ngx_http_hymt_runtime->clients[job->call->model->index];

    return hymt_client_started(client, job->slot);
}


ngx_uint_t
ngx_http_hymt_leaves(void)
{
    return ngx_http_hymt_runtime->lane == 0
           && ngx_process == NGX_PROCESS_WORKER;
}


void
ngx_http_hymt_so_far(ngx_http_hymt_job_t *job, const char **text,
    uint32_t *len)
{
    hymt_client_text(ngx_http_hymt_runtime->clients[job->call->model->index],
                     job->slot, text, len);
}


void
ngx_http_hymt_enlist(ngx_http_hymt_call_t *call)
{
    ngx_queue_insert_tail(&ngx_http_hymt_runtime->calls, &call->queue);
    call->admitted = 1;
}


void
ngx_http_hymt_delist(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_load_give(call, ngx_http_hymt_runtime->lane);

    if (call->admitted) {
        ngx_queue_remove(&call->queue);
        call->admitted = 0;
    }

    ngx_http_hymt_pass_on(call);
}


void
ngx_http_hymt_line_up(ngx_http_hymt_call_t *call)
{
    if (!call->lined) {
        ngx_queue_insert_tail(&call->model->waiting, &call->line);
        call->model->lined++;
        call->lined = 1;
    }

    /* woken for nothing it keeps its place, but no slot */

    if (call->woken) {
        call->woken = 0;
        call->model->woken--;

        ngx_http_hymt_serve_line(call->model);
    }
}


void
ngx_http_hymt_pass_on(ngx_http_hymt_call_t *call)
{
    if (call->lined) {
        ngx_http_hymt_leave_line(call);
        ngx_http_hymt_serve_line(call->model);
    }
}


static void
ngx_http_hymt_leave_line(ngx_http_hymt_call_t *call)
{
    if (!call->lined) {
        return;
    }

    ngx_queue_remove(&call->line);
    call->lined = 0;
    call->model->lined--;

    if (call->woken) {
        call->woken = 0;
        call->model->woken--;
    }
}


void
ngx_http_hymt_serve_line(ngx_http_hymt_model_t *model)
{
    uint32_t               n;
    ngx_queue_t           *q;
    hymt_client_t         *client;
    ngx_http_hymt_call_t  *call;

    if (model->woken == model->lined || model->held) {
        return;
    }

    client = ngx_http_hymt_runtime->clients[model->index];

    if (client == NULL || !hymt_client_attached(client)) {
        return;
    }

    n = hymt_client_slots_free(client);

    for (q = ngx_queue_head(&model->waiting);
         model->woken < n && q != ngx_queue_sentinel(&model->waiting);
         q = ngx_queue_next(q))
    {
        call = ngx_queue_data(q, ngx_http_hymt_call_t, line);

        if (call->woken || (call->waits && model->suspect != NULL)) {
            continue;
        }

        call->waits = 0;
        call->woken = 1;
        model->woken++;

        ngx_post_event(&call->run, &ngx_posted_events);
    }
}


void
ngx_http_hymt_drain_event(ngx_event_t *ev)
{
    ngx_http_hymt_turn_begin();

    ngx_http_hymt_drain(ev->data);
}


void
ngx_http_hymt_drain(ngx_http_hymt_runtime_t *rt)
{
    ngx_uint_t               i, n, looked, nelts;
    hymt_event_t             event;
    hymt_client_t           *client;
    ngx_http_hymt_model_t  **models;

    models = rt->conf->models.elts;
    nelts = rt->conf->models.nelts;
    n = 0;

    for (looked = 0; looked < nelts; looked++) {
        i = (rt->first + looked) % nelts;

        if (rt->hosts[i] != NULL) {
            ngx_http_hymt_log_host(rt, models[i]);
        }

        client = rt->clients[i];

        if (client == NULL) {
            continue;
        }

        for ( ;; ) {

            if (hymt_client_poll(client, &event) == HYMT_OK) {
                ngx_http_hymt_dispatch(rt, models[i], client, &event);

            } else if (!hymt_client_arm(client)) {
                break;
            }

            /* memory gone wild may have news without an event */

            if (++n == NGX_HTTP_HYMT_EVENTS_A_WAKE) {

                /* let other connections have their turn, and models */

                ngx_http_hymt_serve_line(models[i]);

                rt->first = i + 1;
                ngx_post_event(&rt->more, &ngx_posted_next_events);
                return;
            }
        }

        /* of what has just ended, or was canceled: that gives no event */

        ngx_http_hymt_serve_line(models[i]);
    }
}


static void
ngx_http_hymt_dispatch(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model, hymt_client_t *client, hymt_event_t *event)
{
    uint32_t               len;
    const char            *text;
    ngx_queue_t           *q, *next;
    hymt_result_t          result;
    ngx_http_hymt_call_t  *call;

    switch (event->kind) {

    case HYMT_EVENT_ATTACHED:
        model->held = 0;
        break;

    case HYMT_EVENT_DONE:
        hymt_client_result(client, event->slot, &result);
        hymt_client_text(client, event->slot, &text, &len);

        if (result.text_len > len) {
            result.text_len = len;
        }

        if ((result.code == HYMT_RESULT_FAILED
             || result.code == HYMT_RESULT_UNAVAILABLE)
            && ngx_http_hymt_gone(model))
        {
            model->held = 1;
            ngx_http_hymt_job_lost(event->data);

        } else {
            ngx_http_hymt_call_done(event->data, &result, text);
        }

        hymt_client_slot_free(client, event->slot);
        break;

    case HYMT_EVENT_EPOCH:

        /* the engine's process died: what it had is to be asked again */

        for (q = ngx_queue_head(&rt->calls);
             q != ngx_queue_sentinel(&rt->calls);
             q = next)
        {
            next = ngx_queue_next(q);
            call = ngx_queue_data(q, ngx_http_hymt_call_t, queue);

            if (call->model == model) {
                ngx_http_hymt_call_lost(call);
            }
        }

        break;

    case HYMT_EVENT_STATE:
        ngx_http_hymt_state_changed(rt, model);
        break;

    case HYMT_EVENT_PROGRESS:
        ngx_http_hymt_call_progress(event->data);
        break;
    }
}


/*
 * The engine has served and does no more; another is to come, or has just come
 * (LOADING).
 */
static ngx_uint_t
ngx_http_hymt_gone(ngx_http_hymt_model_t *model)
{
    hymt_host_info_t  info;

    /* a reload of a single process brings none */

    if (ngx_process != NGX_PROCESS_WORKER) {
        return 0;
    }

    hymt_exchange_info(&model->exchange, &info);

    return info.state == HYMT_HOST_STOPPED
           || info.state == HYMT_HOST_LOADING
           || (info.state == HYMT_HOST_FAILED && info.load_ns != 0);
}


/*
 * Calls that wait for the model to load have a shorter time for that; it ends
 * when the engine is ready.
 */
static void
ngx_http_hymt_state_changed(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model)
{
    ngx_queue_t           *q;
    hymt_host_info_t       info;
    ngx_http_hymt_call_t  *call;

    hymt_exchange_info(&model->exchange, &info);

    if (rt->lane == 0) {
        ngx_http_hymt_host_changed(rt, model, &info);
    }

    if (info.state != HYMT_HOST_READY) {
        return;
    }

    model->held = 0;

    for (q = ngx_queue_head(&rt->calls);
         q != ngx_queue_sentinel(&rt->calls);
         q = ngx_queue_next(q))
    {
        call = ngx_queue_data(q, ngx_http_hymt_call_t, queue);

        if (call->model != model || !call->loading || call->ended) {
            continue;
        }

        ngx_http_hymt_call_loaded(call);
    }
}


/*
 * An engine that fails after it was ready does so for good, and a device's
 * fault often goes with the process alone: the master starts another one.
 */
static void
ngx_http_hymt_host_changed(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model, hymt_host_info_t *info)
{
    if (info->state == HYMT_HOST_READY) {
        rt->conf->roster->ready = ngx_http_hymt_now();
    }

    if (rt->hosts[model->index] == NULL
        || !hymt_host_lost(rt->hosts[model->index])
        || rt->recycle || ngx_process != NGX_PROCESS_WORKER)
    {
        return;
    }

    ngx_log_error(NGX_LOG_ERR, rt->cycle->log, 0,
                  "hymt \"%V\": the engine has failed: this worker leaves and"
                  " another one takes its place", &model->name);

    rt->recycle = 1;
    rt->conf->roster->failed = 1;

    ngx_quit = 1;
}
