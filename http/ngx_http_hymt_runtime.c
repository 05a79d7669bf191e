
/*
 * Copyright (C) the hymt authors
 */


/*
 * What lives in processes: each worker's end of the exchanges and, in worker 0,
 * the engine hosts.
 */


#include "ngx_http_hymt_runtime.h"


#define NGX_HTTP_HYMT_EVENTS_A_WAKE  16

/* bytes of bodies that one turn of the event loop takes: some 0.2 ms */
#define NGX_HTTP_HYMT_TURN           (96 * 1024)


static ngx_connection_t *ngx_http_hymt_open_bell(ngx_cycle_t *cycle, int fd);
static void ngx_http_hymt_bell(ngx_event_t *ev);
static void ngx_http_hymt_drain_event(ngx_event_t *ev);
static void ngx_http_hymt_drain(ngx_http_hymt_runtime_t *rt);
static void ngx_http_hymt_dispatch(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model, hymt_client_t *client,
    hymt_event_t *event);
static ngx_uint_t ngx_http_hymt_gone(ngx_http_hymt_model_t *model);
static void ngx_http_hymt_state_changed(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model);
static void ngx_http_hymt_host_changed(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model, hymt_host_info_t *info);
static void ngx_http_hymt_serve_line(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model);
static ngx_int_t ngx_http_hymt_process_events(ngx_cycle_t *cycle,
    ngx_msec_t timer, ngx_uint_t flags);
static uint64_t ngx_http_hymt_cpu(void);


ngx_http_hymt_runtime_t  *ngx_http_hymt_runtime;


const ngx_uint_t  ngx_http_hymt_loop_us[NGX_HTTP_HYMT_LOOP_BUCKETS - 1] = {
    62, 125, 250, 500, 1000, 2000, 4000, 8000, 16000, 32000, 64000
};


/*
 * Never fails: a worker that can't take part still serves everything else, and
 * answers 503 where it should translate.
 */
ngx_int_t
ngx_http_hymt_init_process(ngx_cycle_t *cycle)
{
    ngx_msec_t                  wait;
    ngx_uint_t                  i;
    hymt_error_t                err;
    ngx_http_hymt_model_t     **models;
    ngx_http_hymt_runtime_t    *rt;
    ngx_http_hymt_main_conf_t  *hmcf;

    /* the cache manager and loader come here too, as "worker 0" */

    if (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NGX_OK;
    }

    hmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_hymt_module);

    if (hmcf == NULL || !hmcf->used || hmcf->roster == NULL) {
        return NGX_OK;
    }

    rt = ngx_calloc(sizeof(ngx_http_hymt_runtime_t), cycle->log);
    if (rt == NULL) {
        return NGX_OK;
    }

    rt->conf = hmcf;
    rt->cycle = cycle;
    rt->lane = (ngx_process == NGX_PROCESS_SINGLE) ? 0 : ngx_worker;

    ngx_queue_init(&rt->calls);
    ngx_queue_init(&rt->line);

    /* reads a file; not to happen on the event loop later */

    json_object_seed(0);
    ngx_http_hymt_bound_malloc();

    ngx_http_hymt_glossaries_open(hmcf, cycle);

    rt->bell = ngx_http_hymt_open_bell(cycle, hmcf->lane_fds[rt->lane]);
    if (rt->bell == NULL) {
        ngx_free(rt);
        return NGX_OK;
    }

    rt->bell->data = rt;

    rt->more.handler = ngx_http_hymt_drain_event;
    rt->more.data = rt;
    rt->more.log = cycle->log;

    rt->hold.handler = ngx_http_hymt_hold;
    rt->hold.data = rt->bell;
    rt->hold.log = cycle->log;
    rt->hold.cancelable = (rt->lane != 0);

    rt->resume.handler = ngx_http_hymt_start_hosts;
    rt->resume.data = rt->bell;
    rt->resume.log = cycle->log;
    rt->resume.cancelable = 1;

    /* cancelable: it keeps nobody from leaving */

    rt->watch.handler = ngx_http_hymt_watch;
    rt->watch.data = rt->bell;
    rt->watch.log = cycle->log;
    rt->watch.cancelable = 1;

    ngx_http_hymt_runtime = rt;

    wait = 0;

    if (rt->lane == 0) {
        ngx_http_hymt_sign_in(rt);

        wait = ngx_http_hymt_backoff(hmcf->roster, cycle->log);

        if (hmcf->dedicated) {
            ngx_http_hymt_stop_listening(cycle);
        }
    }

    hmcf->roster->pid[rt->lane] = ngx_pid;
    hmcf->counters->buffers[rt->lane] = 0;
    ngx_http_hymt_load_reset(hmcf, rt->lane);

    models = hmcf->models.elts;

    for (i = 0; i < hmcf->models.nelts; i++) {

        if (!models[i]->used) {
            continue;
        }

        if (hymt_client_open(&models[i]->exchange, rt->lane,
                             hmcf->lane_fds[rt->lane], models[i]->host_fd,
                             &rt->clients[i], &err)
            != HYMT_OK)
        {
            ngx_log_error(NGX_LOG_ALERT, cycle->log, 0,
                          "hymt_model \"%V\": %s", &models[i]->name, err.text);
            continue;
        }

        hymt_client_defer(rt->clients[i]);
    }

    if (wait) {
        ngx_add_timer(&rt->resume, wait);

    } else if (rt->lane == 0) {
        ngx_http_hymt_start_hosts(&rt->resume);
    }

    if (rt->lane == 0) {
        ngx_add_timer(&rt->watch, NGX_HTTP_HYMT_WATCH);
    }

    rt->process_events = ngx_event_actions.process_events;
    ngx_event_actions.process_events = ngx_http_hymt_process_events;
    rt->cpu = ngx_http_hymt_cpu();

    ngx_http_hymt_drain(rt);

    return NGX_OK;
}


static ngx_connection_t *
ngx_http_hymt_open_bell(ngx_cycle_t *cycle, int fd)
{
    ngx_event_t       *rev;
    ngx_connection_t  *c;

    c = ngx_get_connection(fd, cycle->log);
    if (c == NULL) {
        return NULL;
    }

    rev = c->read;

    rev->handler = ngx_http_hymt_bell;
    rev->log = cycle->log;
    c->write->log = cycle->log;

    /*
     * channel: not a connection to anybody, so nothing to close, count or warn
     * of.  idle: ngx_close_idle_connections() then calls the handler with
     * c->close set, which is the one sign a worker gets that it is to leave.
     */

    rev->channel = 1;
    c->write->channel = 1;
    c->idle = 1;

    /* each ring gives an event, be the last one read or not: so it is not */

    if (ngx_add_event(rev, NGX_READ_EVENT,
                      (ngx_event_flags & NGX_USE_EPOLL_EVENT)
                      ? NGX_CLEAR_EVENT : 0)
        != NGX_OK)
    {
        ngx_free_connection(c);
        c->fd = (ngx_socket_t) -1;
        return NULL;
    }

    return c;
}


void
ngx_http_hymt_exit_process(ngx_cycle_t *cycle)
{
    ngx_uint_t                i;
    ngx_http_hymt_model_t   **models;
    ngx_http_hymt_runtime_t  *rt;

    rt = ngx_http_hymt_runtime;

    if (rt == NULL) {
        return;
    }

    models = rt->conf->models.elts;

    for (i = 0; i < rt->conf->models.nelts; i++) {

        if (rt->clients[i] != NULL) {
            hymt_client_close(rt->clients[i]);
            rt->clients[i] = NULL;
        }

        if (rt->hosts[i] != NULL) {
            ngx_http_hymt_log_host(rt, models[i]);
            ngx_http_hymt_stop_engine(rt, models[i]);

            ngx_http_hymt_fold(models[i], &rt->seen[i]);
        }
    }

    if (rt->lane == 0) {
        ngx_http_hymt_sign_out(rt);
    }

    rt->conf->counters->buffers[rt->lane] = 0;
    rt->conf->roster->pid[rt->lane] = 0;
}


ngx_http_hymt_counters_t *
ngx_http_hymt_counters(void)
{
    return ngx_http_hymt_runtime ? ngx_http_hymt_runtime->conf->counters
                                 : NULL;
}


ngx_uint_t
ngx_http_hymt_turn_spent(void)
{
    return ngx_http_hymt_runtime->turn >= NGX_HTTP_HYMT_TURN;
}


void
ngx_http_hymt_turn_take(size_t bytes)
{
    ngx_http_hymt_runtime->turn += bytes;
}


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


ngx_int_t
ngx_http_hymt_take_load(ngx_http_hymt_call_t *call)
{
    return ngx_http_hymt_load_take(call, ngx_http_hymt_runtime->lane);
}


ngx_int_t
ngx_http_hymt_submit(ngx_http_hymt_job_t *job, const hymt_job_t *params)
{
    hymt_error_t    err;
    hymt_client_t  *client;

    client = ngx_http_hymt_runtime->clients[job->call->model->index];

    if (client == NULL || ngx_http_hymt_runtime->recycle) {
        return NGX_ERROR;
    }

    if (job->call->model->held || !ngx_http_hymt_may_run(job)) {
        return NGX_AGAIN;
    }

    switch (hymt_client_submit(client, params, job, &job->slot, &err)) {

    case HYMT_OK:
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

    if (call->lined) {
        ngx_queue_remove(&call->line);
        call->lined = 0;
    }
}


void
ngx_http_hymt_line_up(ngx_http_hymt_call_t *call)
{
    if (!call->lined) {
        ngx_queue_insert_tail(&ngx_http_hymt_runtime->line, &call->line);
        call->lined = 1;
    }
}


void
ngx_http_hymt_pass_on(void)
{
    ngx_http_hymt_runtime_t  *rt;

    rt = ngx_http_hymt_runtime;

    if (!ngx_queue_empty(&rt->line)) {
        ngx_post_event(&rt->more, &ngx_posted_events);
    }
}


static void
ngx_http_hymt_bell(ngx_event_t *ev)
{
    uint64_t                  n;
    ngx_connection_t         *c;
    ngx_http_hymt_runtime_t  *rt;

    c = ev->data;
    rt = c->data;

    if (c->close) {
        c->close = 0;
        ngx_http_hymt_leaving(rt);
        return;
    }

    /* level-triggered but for epoll: whatever is left rings again */

    if (!(ngx_event_flags & NGX_USE_EPOLL_EVENT)
        && read(c->fd, &n, sizeof(n)) == -1 && ngx_errno != NGX_EAGAIN)
    {
        ngx_log_error(NGX_LOG_ALERT, ev->log, ngx_errno,
                      "read() of a hymt bell failed");
    }

    ngx_http_hymt_drain(rt);
}


static void
ngx_http_hymt_drain_event(ngx_event_t *ev)
{
    ngx_http_hymt_drain(ev->data);
}


static void
ngx_http_hymt_drain(ngx_http_hymt_runtime_t *rt)
{
    ngx_uint_t               i, n;
    hymt_event_t             event;
    hymt_client_t           *client;
    ngx_http_hymt_model_t  **models;

    models = rt->conf->models.elts;
    n = 0;

    for (i = 0; i < rt->conf->models.nelts; i++) {

        if (rt->hosts[i] != NULL) {
            ngx_http_hymt_log_host(rt, models[i]);
        }

        client = rt->clients[i];

        if (client == NULL) {
            continue;
        }

        do {
            while (hymt_client_poll(client, &event) == HYMT_OK) {

                ngx_http_hymt_dispatch(rt, models[i], client, &event);

                if (++n == NGX_HTTP_HYMT_EVENTS_A_WAKE) {

                    /* let other connections have their turn */

                    ngx_post_event(&rt->more, &ngx_posted_next_events);
                    return;
                }
            }

        } while (hymt_client_arm(client));

        /* a canceled job's slot comes back without an event */

        if (hymt_client_attached(client)) {
            ngx_http_hymt_serve_line(rt, models[i]);
        }
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
        ngx_http_hymt_serve_line(rt, model);
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

        ngx_http_hymt_serve_line(rt, model);
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


static void
ngx_http_hymt_serve_line(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model)
{
    uint32_t               n;
    ngx_queue_t           *q, *next;
    ngx_http_hymt_call_t  *call;

    n = model->held ? 0 : hymt_client_slots_free(rt->clients[model->index]);

    for (q = ngx_queue_head(&rt->line);
         n > 0 && q != ngx_queue_sentinel(&rt->line);
         q = next)
    {
        next = ngx_queue_next(q);
        call = ngx_queue_data(q, ngx_http_hymt_call_t, line);

        if (call->model != model
            || (call->waits && model->suspect != NULL))
        {
            continue;
        }

        ngx_queue_remove(q);
        call->lined = 0;
        call->waits = 0;
        call->woken = 1;

        ngx_post_event(&call->run, &ngx_posted_events);
        n--;
    }
}


/*
 * Stands before the event method's own function and measures the thread's CPU
 * time since it was last called: what the handlers of one turn took, together.
 */
static ngx_int_t
ngx_http_hymt_process_events(ngx_cycle_t *cycle, ngx_msec_t timer,
    ngx_uint_t flags)
{
    uint64_t                   now, ns, us;
    ngx_uint_t                 i;
    ngx_http_hymt_runtime_t   *rt;
    ngx_http_hymt_counters_t  *counters;

    rt = ngx_http_hymt_runtime;
    counters = rt->conf->counters;

    now = ngx_http_hymt_cpu();
    ns = now - rt->cpu;
    us = ns / 1000;
    rt->cpu = now;
    rt->turn = 0;

    for (i = 0; i < NGX_HTTP_HYMT_LOOP_BUCKETS - 1; i++) {
        if (us <= ngx_http_hymt_loop_us[i]) {
            break;
        }
    }

    (void) ngx_atomic_fetch_add(&counters->loop[i], 1);
    (void) ngx_atomic_fetch_add(&counters->loop_ns, ns);

    if (us > counters->loop_max) {
        counters->loop_max = us;
    }

    /* what this turn has submitted, with one system call */

    for (i = 0; i < rt->conf->models.nelts; i++) {
        if (rt->clients[i] != NULL) {
            hymt_client_ring(rt->clients[i]);
        }
    }

    return rt->process_events(cycle, timer, flags);
}


static uint64_t
ngx_http_hymt_cpu(void)
{
    struct timespec  ts;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts) == -1) {
        return 0;
    }

    return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}
