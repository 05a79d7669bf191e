
/*
 * Copyright (C) the hymt authors
 */


/*
 * What the files of the module share.  The data goes one way:
 *
 *   ngx_http_hymt_request.c  reads the body, answers
 *   ngx_http_hymt_native.c   body -> call (texts and options) -> answer
 *   ngx_http_hymt_call.c     call -> jobs in slots -> results
 *   ngx_http_hymt_runtime.c  this process's ends of the exchanges, the engine
 *                            hosts in worker 0, bells, life and death
 *   ngx_http_hymt_model.c    hymt_model { } blocks and their checks
 *   ngx_http_hymt_status.c   hymt_status
 */


#ifndef _NGX_HTTP_HYMT_H_INCLUDED_
#define _NGX_HTTP_HYMT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "host.h"


#define NGX_HTTP_HYMT_MAX_MODELS     16
#define NGX_HTTP_HYMT_NO_LANG        (-2)
#define NGX_HTTP_HYMT_LOOP_BUCKETS   12

/* bodies and answers up to this size are handled on the event loop */
#define NGX_HTTP_HYMT_INLINE         8192


typedef struct ngx_http_hymt_main_conf_s  ngx_http_hymt_main_conf_t;
typedef struct ngx_http_hymt_call_s       ngx_http_hymt_call_t;


/* A hymt_model block. */

typedef struct {
    ngx_str_t                   name;
    ngx_str_t                   path;      /* full, terminated */
    ngx_str_t                   backend;   /* terminated */
    ngx_str_t                   prompt;    /* terminated, or empty */
    ngx_uint_t                  family;    /* hymt_family_t */
    ngx_int_t                   device;
    ngx_int_t                   threads;
    ngx_int_t                   max_batch;
    ngx_int_t                   context;
    ngx_int_t                   kv_tokens;
    ngx_int_t                   queue;     /* requests in flight */

    u_char                     *file;      /* of the block, for messages */
    ngx_uint_t                  line;
    ngx_uint_t                  index;
    unsigned                    used:1;    /* by some location */

    /* what the directory says, read when the configuration is checked */
    hymt_config_t               config;
    hymt_prompt_params_t        params;

    /* of this cycle, made in the master */
    hymt_exchange_t             exchange;
    size_t                      size;
    int                         host_fd;
} ngx_http_hymt_model_t;


/*
 * Counters in shared memory, which survive a reload.  All only grow, but for
 * `buffers`, which each worker keeps right for itself.
 */

typedef struct {
    ngx_atomic_t                requests;
    ngx_atomic_t                texts;
    ngx_atomic_t                answered;      /* 200 */
    ngx_atomic_t                refused;       /* 4xx but 429 */
    ngx_atomic_t                rejected;      /* 429 and 503 */
    ngx_atomic_t                failed;        /* 500 */
    ngx_atomic_t                timeouts;      /* 504 */
    ngx_atomic_t                canceled;      /* the client went away */
    ngx_atomic_t                resubmitted;
    ngx_atomic_t                tokens_in;
    ngx_atomic_t                tokens_out;

    /*
     * Thread CPU time of the event loop between two returns to the kernel:
     * bucket i counts those up to ngx_http_hymt_loop_us[i], the last one the
     * rest.
     */
    ngx_atomic_t                loop[NGX_HTTP_HYMT_LOOP_BUCKETS];
    ngx_atomic_t                loop_max;      /* us */

    ngx_atomic_t                buffers[HYMT_MAX_LANES];   /* bytes */
} ngx_http_hymt_counters_t;


/* Made for one cycle, shared by its processes. */

typedef struct {
    ngx_atomic_t                pid[HYMT_MAX_LANES];   /* 0: not attached */
} ngx_http_hymt_roster_t;


struct ngx_http_hymt_main_conf_s {
    ngx_array_t                 models;    /* ngx_http_hymt_model_t * */
    ngx_array_t                 locations; /* ngx_http_hymt_loc_conf_t * */
    size_t                      buffers;   /* of one worker */
    ngx_shm_zone_t             *zone;
    ngx_cycle_t                *cycle;
    ngx_http_hymt_counters_t   *counters;
    ngx_http_hymt_roster_t     *roster;
    ngx_uint_t                  lanes;
    int                        *lane_fds;  /* [lanes] */
    ngx_thread_pool_t          *pool;
    ngx_uint_t                  used;      /* hymt_translate somewhere */
};


typedef struct {
    ngx_http_hymt_model_t      *model;     /* NULL: no hymt_translate here */
    ngx_msec_t                  timeout;
    ngx_msec_t                  loading_wait;
    size_t                      max_body;
    ngx_int_t                   max_texts;
    ngx_int_t                   window;
    ngx_flag_t                  ignore_client_abort;
    ngx_int_t                   source;    /* default, or NO_LANG */
    ngx_int_t                   target;

    /* hymt_sampling: a base, and values over it */
    ngx_uint_t                  sampling;  /* ngx_http_hymt_sampling_e */
    hymt_sampling_t             values;
    unsigned                    seeded:1;
} ngx_http_hymt_loc_conf_t;


typedef enum {
    NGX_HTTP_HYMT_SAMPLING_MODEL = 0,     /* as the model says */
    NGX_HTTP_HYMT_SAMPLING_GREEDY,
    NGX_HTTP_HYMT_SAMPLING_RECOMMENDED
} ngx_http_hymt_sampling_e;


/* An error as the client will see it. */

typedef struct {
    ngx_uint_t                  status;    /* 0: none */
    const char                 *code;
    char                        message[1600];
} ngx_http_hymt_failure_t;


/* One text of a call. */

typedef struct {
    const char                 *text;      /* in the call's parsed body */
    size_t                      len;

    char                       *out;       /* malloc'ed, when done */
    size_t                      out_len;
    uint32_t                    slot;
    unsigned                    state:2;   /* ngx_http_hymt_item_e */
    hymt_result_t               result;

    ngx_http_hymt_call_t       *call;
} ngx_http_hymt_item_t;


typedef enum {
    NGX_HTTP_HYMT_ITEM_WAITING = 0,
    NGX_HTTP_HYMT_ITEM_RUNNING,
    NGX_HTTP_HYMT_ITEM_DONE
} ngx_http_hymt_item_e;


/*
 * A request's work, outside of its pool: a task in another thread may still
 * hold it when the client has gone.  `r` is then NULL and the task's end frees
 * it; in any other case the request's cleanup does.
 */

struct ngx_http_hymt_call_s {
    ngx_http_request_t         *r;
    ngx_http_hymt_model_t      *model;
    ngx_http_hymt_loc_conf_t   *conf;

    ngx_event_t                 timer;     /* timeout; never cancelable */
    ngx_event_t                 run;       /* posted: go on with the call */
    ngx_queue_t                 queue;     /* runtime: all admitted calls */
    ngx_queue_t                 line;      /* runtime: those wanting slots */
    ngx_log_t                  *log;       /* the connection's */

    /* the body as it comes */
    char                       *body;
    size_t                      body_len;
    size_t                      body_cap;

    /* the query string, for text/plain: a malloc'ed copy */
    ngx_str_t                   args;

    ngx_thread_pool_t          *pool;

    /* filled by the parser, read by everyone after */
    ngx_http_hymt_item_t       *items;
    ngx_uint_t                  n_items;
    void                       *json;      /* json_t that owns the texts */
    hymt_job_t                  job;       /* options common to all items */
    ngx_http_hymt_failure_t     failure;

    /* progress */
    ngx_uint_t                  next;      /* first item not submitted */
    ngx_uint_t                  running;
    ngx_uint_t                  done;
    ngx_uint_t                  epochs;    /* engine restarts lived through */
    ngx_msec_t                  start;     /* body read, ngx_current_msec */
    uint64_t                    deadline;  /* hymt_now_ns() clock */

    /* the answer: malloc'ed, handed to the request's pool to free */
    char                       *answer;
    size_t                      answer_len;

    size_t                      charged;   /* bytes of hymt_buffers */

    unsigned                    plain:1;   /* text/plain in and out */
    unsigned                    array:1;   /* "text" was an array */
    unsigned                    busy:1;    /* a thread holds it */
    unsigned                    admitted:1;
    unsigned                    loading:1; /* timer is the loading wait */
    unsigned                    lined:1;   /* in the line for slots */
    unsigned                    ended:1;   /* of no interest to the engine */
    unsigned                    answered:1;
};


typedef void (*ngx_http_hymt_work_pt)(ngx_http_hymt_call_t *call);


extern ngx_module_t  ngx_http_hymt_module;


/* ngx_http_hymt_model.c */

char *ngx_http_hymt_model_block(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_http_hymt_model_t *ngx_http_hymt_model_get(ngx_conf_t *cf,
    ngx_http_hymt_main_conf_t *hmcf, ngx_str_t *name);
ngx_int_t ngx_http_hymt_model_check(ngx_http_hymt_model_t *model,
    ngx_cycle_t *cycle);


/* ngx_http_hymt_runtime.c */

ngx_int_t ngx_http_hymt_init_zone(ngx_shm_zone_t *zone, void *data);
ngx_int_t ngx_http_hymt_init_process(ngx_cycle_t *cycle);
void ngx_http_hymt_exit_process(ngx_cycle_t *cycle);

extern const ngx_uint_t
    ngx_http_hymt_loop_us[NGX_HTTP_HYMT_LOOP_BUCKETS - 1];

/* NULL in processes that serve no requests */
ngx_http_hymt_counters_t *ngx_http_hymt_counters(void);

/* room for `more` bytes of hymt_buffers: NGX_OK, or NGX_DECLINED */
ngx_int_t ngx_http_hymt_charge(ngx_http_hymt_call_t *call, size_t more);
void ngx_http_hymt_discharge(ngx_http_hymt_call_t *call);
ngx_uint_t ngx_http_hymt_buffers_full(void);

/* this turn of the event loop has taken its share of bodies */
ngx_uint_t ngx_http_hymt_turn_spent(void);

ngx_int_t ngx_http_hymt_submit(ngx_http_hymt_item_t *item);
void ngx_http_hymt_cancel(ngx_http_hymt_item_t *item);

/*
 * Every admitted call is on the runtime's list; one that found no slot stands
 * in line as well and is run again when a slot is free.
 */
void ngx_http_hymt_enlist(ngx_http_hymt_call_t *call);
void ngx_http_hymt_delist(ngx_http_hymt_call_t *call);
void ngx_http_hymt_line_up(ngx_http_hymt_call_t *call);

/* what this process knows of the model's engine; false: nothing to ask */
ngx_uint_t ngx_http_hymt_engine_info(ngx_http_hymt_model_t *model,
    hymt_host_info_t *info);
uint32_t ngx_http_hymt_in_flight(ngx_http_hymt_model_t *model);


/* ngx_http_hymt_call.c */

ngx_http_hymt_call_t *ngx_http_hymt_call_create(ngx_http_request_t *r);
ngx_int_t ngx_http_hymt_call_append(ngx_http_hymt_call_t *call, u_char *data,
    size_t len);
void ngx_http_hymt_call_start(ngx_http_hymt_call_t *call);
void ngx_http_hymt_call_admit(ngx_http_hymt_call_t *call);
void ngx_http_hymt_call_run(ngx_http_hymt_call_t *call);
void ngx_http_hymt_call_item_done(ngx_http_hymt_item_t *item,
    const hymt_result_t *result, const char *text);
void ngx_http_hymt_call_lost(ngx_http_hymt_call_t *call);
void ngx_http_hymt_call_close(ngx_http_hymt_call_t *call);

/* then NULL: the call is gone when the work is done */
ngx_int_t ngx_http_hymt_call_work(ngx_http_hymt_call_t *call, size_t size,
    ngx_http_hymt_work_pt work, ngx_http_hymt_work_pt then);

/* values not given (in `none`) leave the base as it is */
void ngx_http_hymt_sampling_none(hymt_sampling_t *s);
void ngx_http_hymt_sampling_over(hymt_sampling_t *s,
    const hymt_sampling_t *over);

void ngx_http_hymt_fail(ngx_http_hymt_call_t *call, ngx_uint_t status,
    const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));


/* ngx_http_hymt_native.c: both run on any thread */

void ngx_http_hymt_native_parse(ngx_http_hymt_call_t *call);
void ngx_http_hymt_native_render(ngx_http_hymt_call_t *call);


/* ngx_http_hymt_request.c */

ngx_int_t ngx_http_hymt_handler(ngx_http_request_t *r);
void ngx_http_hymt_answer(ngx_http_hymt_call_t *call);
void ngx_http_hymt_answer_failure(ngx_http_hymt_call_t *call,
    ngx_http_hymt_failure_t *f);


/* ngx_http_hymt_status.c */

ngx_int_t ngx_http_hymt_status_handler(ngx_http_request_t *r);


#endif /* _NGX_HTTP_HYMT_H_INCLUDED_ */
