
/*
 * Copyright (C) the hymt authors
 */


/*
 * What the files of the runtime share: ngx_http_hymt_zone.c makes what the
 * master makes for a cycle, ngx_http_hymt_runtime.c uses it in each process,
 * ngx_http_hymt_watch.c is worker 0's care for its engines.
 */


#ifndef _NGX_HTTP_HYMT_RUNTIME_H_INCLUDED_
#define _NGX_HTTP_HYMT_RUNTIME_H_INCLUDED_


#include "ngx_http_hymt.h"
#include "turn_clock.h"

#include <stdatomic.h>


/* worker 0 looks at its engines so often, ms */
#define NGX_HTTP_HYMT_WATCH  500

/* calls that are over whose memory is kept for the next ones */
#define NGX_HTTP_HYMT_SPARE  64


/* One process's runtime: the only variable of the module. */

typedef struct {
    ngx_http_hymt_main_conf_t       *conf;
    ngx_cycle_t                     *cycle;
    ngx_uint_t                       lane;
    uint64_t                         process; /* this one, see process.h */
    ngx_connection_t                *bell;

    hymt_client_t                   *clients[NGX_HTTP_HYMT_MAX_MODELS];
    hymt_host_t                     *hosts[NGX_HTTP_HYMT_MAX_MODELS];

    ngx_queue_t                      calls;   /* admitted, by age */
    ngx_http_hymt_call_t            *spare[NGX_HTTP_HYMT_SPARE];
    ngx_uint_t                       n_spare;
    size_t                           charged;
    size_t                           coming;  /* of them, in slow bodies */
    size_t                           turn;    /* bytes taken since epoll */

    ngx_event_t                      more;    /* posted: drain again */
    ngx_uint_t                       first;   /* model to begin with */
    ngx_event_t                      hold;    /* worker 0 leaves last */
    ngx_event_t                      resume;  /* worker 0: start engines */
    ngx_uint_t                       recycle; /* worker 0 leaves at once */

    /* worker 0: its engines are looked at */
    ngx_event_t                      watch;
    hymt_host_info_t                 seen[NGX_HTTP_HYMT_MAX_MODELS];
    ngx_uint_t                       stuck[NGX_HTTP_HYMT_MAX_MODELS];
    unsigned                         abandoned:1;  /* some of them */

    /* looks that saw no engine of a former configuration; while there is one,
       or was just now, those of this one wait for its memory.  Those of later
       ones don't leave theirs */
    ngx_uint_t                       alone;
    _Atomic uint32_t                 patience;

    /* what turns of the event loop take */
    ngx_int_t                      (*process_events)(ngx_cycle_t *cycle,
                                         ngx_msec_t timer, ngx_uint_t flags);
    uint64_t                         began;   /* ns; 0: nothing of ours yet */
    hymt_turn_clock_t                clock;
} ngx_http_hymt_runtime_t;


/* NULL in processes that serve no requests, and in the master */
extern ngx_http_hymt_runtime_t  *ngx_http_hymt_runtime;


/* ngx_http_hymt_engine.c */

/* takes what engines have to say, a part of it at a time; the same, posted */
void ngx_http_hymt_drain(ngx_http_hymt_runtime_t *rt);
void ngx_http_hymt_drain_event(ngx_event_t *ev);


/* ngx_http_hymt_hosts.c */

/* a timer: those of all models that are used */
void ngx_http_hymt_start_hosts(ngx_event_t *ev);

/* waits for it, unless there is no hope of that */
void ngx_http_hymt_stop_engine(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model);

void ngx_http_hymt_log_host(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model);


/* ngx_http_hymt_watch.c */

/* the process is asked to leave: keeps it for those that need it */
void ngx_http_hymt_leaving(ngx_http_hymt_runtime_t *rt);

/* timers */
void ngx_http_hymt_hold(ngx_event_t *ev);
void ngx_http_hymt_watch(ngx_event_t *ev);

/* engines of this process come and go, for later configurations to see */
void ngx_http_hymt_sign_in(ngx_http_hymt_runtime_t *rt);
void ngx_http_hymt_sign_out(ngx_http_hymt_runtime_t *rt);

/* whether an engine is stuck for longer than the watchdog allows */
ngx_uint_t ngx_http_hymt_hopeless(ngx_http_hymt_runtime_t *rt, ngx_uint_t i);


#endif /* _NGX_HTTP_HYMT_RUNTIME_H_INCLUDED_ */
