
/*
 * Copyright (C) the hymt authors
 */


/*
 * The worker that the engines live in: whether it serves clients as well, and
 * how soon it starts its engines again when they took it down.
 *
 * A dedicated one serves nobody, so that what an engine may do to its process
 * costs no client a connection.  That goes for every listener of NGINX, those
 * of stream and mail included.  With reuseport the kernel gives each worker a
 * queue of its own, which somebody has to serve: then it is shared.
 */


#include "ngx_http_hymt.h"

#include <pthread.h>


/* an engine that was ready for so long has not failed in a row, ms */
#define NGX_HTTP_HYMT_HEALTHY      60000

#define NGX_HTTP_HYMT_MAX_BACKOFF  30000


static ngx_listening_t *ngx_http_hymt_reuseport(ngx_cycle_t *cycle);
static void *ngx_http_hymt_stop_thread(void *data);
static void ngx_http_hymt_end(void);


/* In the master, for a new cycle: NGX_OK, or NGX_ERROR to refuse it. */
ngx_int_t
ngx_http_hymt_choose_worker(ngx_http_hymt_main_conf_t *hmcf)
{
    ngx_uint_t        level;
    ngx_listening_t  *ls;

    if (hmcf->engine_worker == NGX_HTTP_HYMT_SHARED) {
        return NGX_OK;
    }

    if (hmcf->lanes == 1) {

        if (hmcf->engine_worker == NGX_HTTP_HYMT_DEDICATED) {
            ngx_log_error(NGX_LOG_EMERG, hmcf->cycle->log, 0,
                          "\"hymt_engine_worker dedicated\" leaves nobody to"
                          " serve clients with one worker: set"
                          " \"worker_processes\" to 2 or more, or \"shared\"");
            return NGX_ERROR;
        }

        return NGX_OK;
    }

    ls = ngx_http_hymt_reuseport(hmcf->cycle);

    if (ls != NULL) {
        level = hmcf->engine_worker == NGX_HTTP_HYMT_DEDICATED
                ? NGX_LOG_WARN : NGX_LOG_NOTICE;

        ngx_log_error(level, hmcf->cycle->log, 0,
                      "hymt_engine_worker is \"shared\", since the listener"
                      " on %V has a queue for each worker: should an engine"
                      " crash, clients of its worker are lost",
                      &ls->addr_text);
        return NGX_OK;
    }

    hmcf->dedicated = 1;

    return NGX_OK;
}


static ngx_listening_t *
ngx_http_hymt_reuseport(ngx_cycle_t *cycle)
{
    ngx_uint_t        i;
    ngx_listening_t  *ls;

    ls = cycle->listening.elts;

    for (i = 0; i < cycle->listening.nelts; i++) {

#if (NGX_HAVE_REUSEPORT)
        if (ls[i].reuseport) {
            return &ls[i];
        }
#endif

#if (nginx_version >= 1025000)
        if (ls[i].quic) {
            return &ls[i];
        }
#endif
    }

    return NULL;
}


/*
 * In the dedicated worker.  A listener without a connection is passed over by
 * whatever enables accept events, so nothing brings them back.
 */
void
ngx_http_hymt_stop_listening(ngx_cycle_t *cycle)
{
    ngx_uint_t         i;
    ngx_listening_t   *ls;
    ngx_connection_t  *c;

    ngx_use_accept_mutex = 0;

    ls = cycle->listening.elts;

    for (i = 0; i < cycle->listening.nelts; i++) {

        c = ls[i].connection;

        if (c == NULL) {
            continue;
        }

        if (c->read->active
            && ngx_del_event(c->read, NGX_READ_EVENT, NGX_DISABLE_EVENT)
               != NGX_OK)
        {
            ngx_log_error(NGX_LOG_ERR, cycle->log, 0,
                          "hymt: worker 0 goes on listening on %V",
                          &ls[i].addr_text);
            continue;
        }

        ngx_free_connection(c);

        c->fd = (ngx_socket_t) -1;
        ls[i].connection = NULL;
    }
}


/*
 * An engine whose thread is stuck, in a driver say, can't be joined, and a
 * worker that is to leave must not wait for it.
 */
ngx_int_t
ngx_http_hymt_stop_host(hymt_host_t *host, ngx_msec_t limit)
{
    pthread_t        tid;
    struct timespec  end;

    if (limit == 0
        || pthread_create(&tid, NULL, ngx_http_hymt_stop_thread, host) != 0)
    {
        hymt_host_stop(host);
        return NGX_OK;
    }

    (void) clock_gettime(CLOCK_REALTIME, &end);

    end.tv_sec += limit / 1000;
    end.tv_nsec += limit % 1000 * 1000000;

    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }

    if (pthread_timedjoin_np(tid, NULL, &end) != 0) {
        ngx_http_hymt_abandon();
        return NGX_AGAIN;
    }

    return NGX_OK;
}


static void *
ngx_http_hymt_stop_thread(void *data)
{
    hymt_host_stop(data);

    return NULL;
}


/*
 * NGINX ends a worker with exit(), whose handlers go backwards: this one comes
 * before those of libraries that would wait for the engine's device.
 */
void
ngx_http_hymt_abandon(void)
{
    (void) atexit(ngx_http_hymt_end);
}


static void
ngx_http_hymt_end(void)
{
    _exit(0);
}


/*
 * In a new worker 0: how long its engines have to wait, ms.  The first end is
 * no reason to; each one soon after it doubles what the next has to.
 */
ngx_msec_t
ngx_http_hymt_backoff(ngx_http_hymt_roster_t *roster, ngx_log_t *log)
{
    uint64_t    now;
    ngx_msec_t  wait;

    now = ngx_http_hymt_now();

    /* one that left in peace has signed out */

    if (roster->process[0] == 0 && !roster->failed) {
        roster->ended = 0;

    } else if (roster->ready
               && now - roster->ready >= NGX_HTTP_HYMT_HEALTHY)
    {
        roster->ended = 1;

    } else {
        roster->ended++;
    }

    wait = 0;

    if (roster->ended > 1) {
        wait = 1000 << ngx_min(roster->ended - 2, 5);
        wait = ngx_min(wait, NGX_HTTP_HYMT_MAX_BACKOFF);
    }

    if (roster->ended) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "hymt: the engines' worker ended before its time, %uA in"
                      " a row: engines start in %M s", roster->ended,
                      wait / 1000);
    }

    roster->failed = 0;
    roster->ready = 0;
    roster->resume = wait ? now + wait : 0;

    return wait;
}


/* ms until the engines start again; 0: they are not waiting */
ngx_msec_t
ngx_http_hymt_backing_off(ngx_http_hymt_main_conf_t *hmcf)
{
    uint64_t  now, resume;

    if (hmcf->roster == NULL) {
        return 0;
    }

    resume = hmcf->roster->resume;

    if (resume == 0) {
        return 0;
    }

    now = ngx_http_hymt_now();

    return resume > now ? (ngx_msec_t) (resume - now) : 1;
}


/* A clock that all processes share, ms. */
uint64_t
ngx_http_hymt_now(void)
{
    return hymt_now_ns() / 1000000;
}
