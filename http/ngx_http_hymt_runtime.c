
/*
 * Copyright (C) the hymt authors
 */


/*
 * What lives in processes: each worker's end of the exchanges and, in worker 0,
 * the engine hosts.
 */


#include "ngx_http_hymt_runtime.h"


/* bytes of bodies that one turn of the event loop takes: some 0.2 ms */
#define NGX_HTTP_HYMT_TURN           (96 * 1024)


static ngx_connection_t *ngx_http_hymt_open_bell(ngx_cycle_t *cycle, int fd);
static void ngx_http_hymt_bell(ngx_event_t *ev);
static ngx_int_t ngx_http_hymt_process_events(ngx_cycle_t *cycle,
    ngx_msec_t timer, ngx_uint_t flags);
static void ngx_http_hymt_count_turn(ngx_http_hymt_counters_t *counters,
    uint64_t ns);


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
    rt->process = hymt_process(ngx_pid);
    rt->lane = (ngx_process == NGX_PROCESS_SINGLE) ? 0 : ngx_worker;

    ngx_queue_init(&rt->calls);

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

    hmcf->roster->process[rt->lane] = rt->process;
    hmcf->counters->buffers[rt->lane] = 0;
    ngx_http_hymt_load_reset(hmcf, rt->lane);

    models = hmcf->models.elts;

    for (i = 0; i < hmcf->models.nelts; i++) {
        ngx_queue_init(&models[i]->waiting);

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
    rt->began = 0;
    hymt_turn_clock_init(&rt->clock, hymt_turn_cpu);

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
    rt->conf->roster->process[rt->lane] = 0;
}


ngx_http_hymt_counters_t *
ngx_http_hymt_counters(void)
{
    return ngx_http_hymt_runtime ? ngx_http_hymt_runtime->conf->counters
                                 : NULL;
}


void
ngx_http_hymt_turn_begin(void)
{
    ngx_http_hymt_runtime_t  *rt;

    rt = ngx_http_hymt_runtime;

    if (rt != NULL && rt->began == 0) {
        rt->began = hymt_now_ns();
    }
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


static void
ngx_http_hymt_bell(ngx_event_t *ev)
{
    uint64_t                  n;
    ngx_connection_t         *c;
    ngx_http_hymt_runtime_t  *rt;

    ngx_http_hymt_turn_begin();

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


/*
 * Stands before the event method's own function, at the end of a turn: of one
 * that the module had a part in, what it took since then is counted.
 */
static ngx_int_t
ngx_http_hymt_process_events(ngx_cycle_t *cycle, ngx_msec_t timer,
    ngx_uint_t flags)
{
    uint64_t                  ns;
    ngx_uint_t                i;
    ngx_http_hymt_runtime_t  *rt;

    rt = ngx_http_hymt_runtime;
    ns = rt->began != 0 ? hymt_now_ns() - rt->began : 0;
    ns = hymt_turn_took(&rt->clock, ns);

    if (rt->began != 0) {
        ngx_http_hymt_count_turn(rt->conf->counters, ns);
    }

    rt->began = 0;
    rt->turn = 0;

    /* what this turn has submitted, with one system call */

    for (i = 0; i < rt->conf->models.nelts; i++) {
        if (rt->clients[i] != NULL) {
            hymt_client_ring(rt->clients[i]);
        }
    }

    return rt->process_events(cycle, timer, flags);
}


static void
ngx_http_hymt_count_turn(ngx_http_hymt_counters_t *counters, uint64_t ns)
{
    uint64_t    us;
    ngx_uint_t  i;

    us = ns / 1000;

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
}
