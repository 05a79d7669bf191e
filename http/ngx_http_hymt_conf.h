
/*
 * Copyright (C) the hymt authors
 */


/*
 * What nginx.conf says: models, locations and what they name, with what a cycle
 * makes of them.
 */


#ifndef _NGX_HTTP_HYMT_CONF_H_INCLUDED_
#define _NGX_HTTP_HYMT_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "glossary.h"
#include "host.h"
#include "process.h"
#include "quota.h"
#include "ngx_http_hymt_cache.h"
#include "ngx_http_hymt_metrics.h"


#define NGX_HTTP_HYMT_MAX_MODELS     16
#define NGX_HTTP_HYMT_NO_LANG        (-2)
#define NGX_HTTP_HYMT_MAX_GROUPS     64


typedef struct ngx_http_hymt_main_conf_s  ngx_http_hymt_main_conf_t;
typedef struct ngx_http_hymt_model_s      ngx_http_hymt_model_t;
typedef struct ngx_http_hymt_api_s        ngx_http_hymt_api_t;
typedef struct ngx_http_hymt_job_s        ngx_http_hymt_job_t;


/* A hymt_sessions zone. */

typedef struct {
    ngx_slab_pool_t            *shpool;
    u_char                     *table;     /* [n_sets][ways][place] */
    size_t                      n_sets;
    size_t                      place;     /* bytes of one in the table */
    size_t                      bytes;     /* of text that one keeps */
    time_t                      ttl;
} ngx_http_hymt_sessions_t;


/* A hymt_glossaries directory. */

typedef struct {
    ngx_str_t                   path;      /* full, terminated */
    hymt_glossary_limits_t      limits;
    hymt_glossary_store_t      *store;     /* of this process; NULL: failed */
    u_char                     *file;      /* of the directive, for messages */
    ngx_uint_t                  line;
} ngx_http_hymt_glossaries_t;


/* The user that workers run as, for judging permissions from the master. */

typedef struct {
    const char                 *name;      /* NULL: who asks */
    uid_t                       uid;
    gid_t                       groups[NGX_HTTP_HYMT_MAX_GROUPS];
    int                         n_groups;
} ngx_http_hymt_user_t;


/* A hymt_model block. */

struct ngx_http_hymt_model_s {
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
    ngx_int_t                   queue_tokens;  /* of prompts; 0: any */
    ngx_flag_t                  prefix_cache;
    ngx_flag_t                  coalesce;
    ngx_flag_t                  ignore_eos;

    u_char                     *file;      /* of the block, for messages */
    ngx_uint_t                  line;
    ngx_uint_t                  index;
    time_t                      created;   /* of its directory */
    u_char                      fingerprint[HYMT_SHA256_SIZE];
    unsigned                    used:1;    /* by some location */

    /* what the directory says, read when the configuration is checked */
    hymt_config_t               config;
    hymt_prompt_params_t        params;

    /* of this cycle, made in the master */
    hymt_exchange_t             exchange;
    size_t                      size;
    int                         host_fd;

    ngx_http_hymt_stats_t      *stats;     /* in the zone */
    hymt_quota_t               *load;      /* [lanes], tokens in flight */
    ngx_uint_t                  frame;     /* tokens of a prompt's own */

    /* of this process */
    ngx_http_hymt_job_t        *suspect;   /* the one in the engine */
    ngx_queue_t                 waiting;   /* calls wanting slots, by age */
    ngx_uint_t                  lined;     /* how many these are */
    ngx_uint_t                  woken;     /* of them: free slots are theirs */
    unsigned                    held:1;    /* jobs wait for its next engine */
};


/* hymt_engine_worker */

typedef enum {
    NGX_HTTP_HYMT_SHARED = 0,             /* worker 0 serves clients, too */
    NGX_HTTP_HYMT_DEDICATED
} ngx_http_hymt_worker_e;


/* Made for one cycle, shared by its processes; times by ngx_http_hymt_now(). */

typedef struct {
    /* see process.h; 0: not attached */
    _Atomic uint64_t            process[HYMT_MAX_LANES];

    /* worker 0's */
    ngx_atomic_t                ended;     /* before its time, in a row */
    ngx_atomic_t                failed;    /* it leaves for that reason */
    ngx_atomic_t                ready;     /* an engine, since; 0: none */
    ngx_atomic_t                resume;    /* engines start then; 0: running */
} ngx_http_hymt_roster_t;


struct ngx_http_hymt_main_conf_s {
    ngx_array_t                 models;    /* ngx_http_hymt_model_t * */
    ngx_array_t                 locations; /* ngx_http_hymt_loc_conf_t * */
    ngx_array_t                 glossaries;/* ngx_http_hymt_glossaries_t * */
    size_t                      buffers;   /* of one worker */
    ngx_msec_t                  watchdog;  /* 0: off */
    ngx_shm_zone_t             *zone;
    ngx_cycle_t                *cycle;
    ngx_http_hymt_counters_t   *counters;
    ngx_http_hymt_roster_t     *roster;
    uint64_t                    generation;
    ngx_uint_t                  lanes;
    int                        *lane_fds;  /* [lanes] */
    ngx_thread_pool_t          *pool;
    ngx_uint_t                  used;      /* hymt_translate somewhere */
    ngx_uint_t                  cached;    /* hymt_cache somewhere */
    ngx_uint_t                  engine_worker; /* ngx_http_hymt_worker_e */
    ngx_uint_t                  dedicated; /* what came of it */
};


typedef struct {
    ngx_http_hymt_model_t      *model;     /* NULL: no hymt_translate here */
    ngx_http_hymt_api_t        *api;
    ngx_msec_t                  timeout;
    ngx_msec_t                  loading_wait;
    ngx_msec_t                  ping;      /* 0: none */
    size_t                      max_body;
    size_t                      body_limit;/* client_max_body_size, too */
    ngx_int_t                   max_texts;
    ngx_int_t                   window;
    ngx_flag_t                  ignore_client_abort;
    ngx_int_t                   source;    /* default, or NO_LANG */
    ngx_int_t                   target;
    ngx_uint_t                  split;     /* hymt_split_t */
    size_t                      unit;      /* bytes of a unit */
    ngx_uint_t                  tags;      /* ngx_http_hymt_tags_e */
    ngx_uint_t                  ratio;     /* percent: tokens out to in; 0 */
    ngx_flag_t                  neighbours;
    ngx_array_t                *cors;      /* ngx_str_t: origins, or "*" */
    ngx_http_complex_value_t   *owner;     /* of glossaries and sessions */
    ngx_http_hymt_glossaries_t *glossaries;/* NULL: off */
    ngx_http_hymt_sessions_t   *sessions;
    ngx_http_hymt_cache_t      *cache;     /* NULL: off */
    ngx_http_complex_value_t   *cache_scope;
    ngx_flag_t                  cache_header;
    ngx_uint_t                  priority;  /* hymt_priority_t */
    ngx_http_complex_value_t   *fair_key;
    ngx_int_t                   concurrency;   /* requests; 0: any */
    hymt_quota_t               *load;      /* [lanes], those in hand */

    /* hymt_sampling: a base, and values over it */
    ngx_uint_t                  sampling;  /* ngx_http_hymt_sampling_e */
    hymt_sampling_t             values;
    unsigned                    seeded:1;

    ngx_uint_t                  status;    /* ngx_http_hymt_status_e */
    ngx_flag_t                  vllm;      /* its names, too */
} ngx_http_hymt_loc_conf_t;


/* What hymt_status shows. */

typedef enum {
    NGX_HTTP_HYMT_STATUS_JSON = 0,
    NGX_HTTP_HYMT_STATUS_PROMETHEUS,
    NGX_HTTP_HYMT_STATUS_READY,
    NGX_HTTP_HYMT_STATUS_LIVE
} ngx_http_hymt_status_e;


/* Tags inside of a sentence. */

typedef enum {
    NGX_HTTP_HYMT_TAGS_MODEL = 0,         /* by the prompt for them */
    NGX_HTTP_HYMT_TAGS_RUNS               /* what is between them, in pieces */
} ngx_http_hymt_tags_e;


typedef enum {
    NGX_HTTP_HYMT_SAMPLING_MODEL = 0,     /* as the model says */
    NGX_HTTP_HYMT_SAMPLING_GREEDY,
    NGX_HTTP_HYMT_SAMPLING_RECOMMENDED
} ngx_http_hymt_sampling_e;


/* ngx_http_hymt_conf.c */

char *ngx_http_hymt_conf_translate(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_hymt_conf_status(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

typedef struct {
    const char      *param;     /* "bytes=": a size beside that of the zone */
    ssize_t          least;
    ssize_t          most;

    /* defaults before, values after */
    ssize_t          bytes;
    time_t           ttl;

    ngx_shm_zone_t  *zone;      /* new, without data */
} ngx_http_hymt_zone_conf_t;


/* "zone=NAME:SIZE", "ttl=TIME" and z->param: of a directive that is no "off" */
char *ngx_http_hymt_conf_zone(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_hymt_zone_conf_t *z);

/* post handlers of NGINX's slots; bounds: of a ngx_conf_num_bounds_t */
char *ngx_http_hymt_conf_bounds(ngx_conf_t *cf, void *post, void *data);
char *ngx_http_hymt_conf_watchdog(ngx_conf_t *cf, void *post, void *data);

char *ngx_http_hymt_conf_ratio(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_hymt_conf_cors(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_hymt_conf_language(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_hymt_conf_sampling(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


#endif /* _NGX_HTTP_HYMT_CONF_H_INCLUDED_ */
