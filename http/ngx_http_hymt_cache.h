
/*
 * Copyright (C) the hymt authors
 */


/*
 * hymt_cache: translations of units, by all that a result depends on, in memory
 * that all workers share.  On the event loop.
 */


#ifndef _NGX_HTTP_HYMT_CACHE_H_INCLUDED_
#define _NGX_HTTP_HYMT_CACHE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "exchange.h"
#include "translation_cache.h"


struct ngx_http_hymt_call_s;
struct ngx_http_hymt_job_s;
struct ngx_http_hymt_main_conf_s;
struct ngx_http_hymt_model_s;


/* A hymt_cache zone. */

typedef struct {
    hymt_translation_cache_t    table;
    uint32_t                    longest;   /* bytes of a text */
    uint32_t                    ttl;       /* seconds */
    char                       *buf;       /* [longest], of each process */
} ngx_http_hymt_cache_t;


/* What of it a call uses and has seen. */

typedef struct {
    hymt_sha256_t               base;      /* of keys: model, scope */
    uint64_t                    drawn;     /* a seed that nobody has named */
    unsigned                    on:1;
    unsigned                    reads:1;
    unsigned                    writes:1;
    unsigned                    hit:1;     /* for one unit or more */
    unsigned                    missed:1;
    unsigned                    passed:1;  /* not looked at, not kept */
    unsigned                    shared:1;  /* computed with an equal one */
    unsigned                    alone:1;   /* computed for itself */
} ngx_http_hymt_cached_t;


char *ngx_http_hymt_cache_zone(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* in the master, for a new configuration: the model's fingerprint */
ngx_int_t ngx_http_hymt_cache_model(struct ngx_http_hymt_main_conf_s *hmcf,
    struct ngx_http_hymt_model_s *model);

/* for a new request: its scope, and what its Cache-Control says */
ngx_int_t ngx_http_hymt_cache_begin(ngx_http_request_t *r,
    struct ngx_http_hymt_call_s *call);

/*
 * Looks for the result of a job that has its item and unit's id: NGX_OK, text
 * is good until the next call; or NGX_DECLINED.
 */
ngx_int_t ngx_http_hymt_cache_find(struct ngx_http_hymt_job_s *job,
    const hymt_job_t *params, hymt_result_t *result, const char **text);

/* the job went to the engine after all */
void ngx_http_hymt_cache_missed(struct ngx_http_hymt_job_s *job);

/* keeps a result, where that may be */
void ngx_http_hymt_cache_store(struct ngx_http_hymt_job_s *job,
    const hymt_result_t *result, const char *text);

/*
 * "HIT", "MISS", "BYPASS", "COALESCED": what was not there was computed with
 * equal ones alone; NULL: no cache, or nothing to look for
 */
const char *ngx_http_hymt_cache_status(struct ngx_http_hymt_call_s *call);

/* hymt_cache_header: before the header is sent */
ngx_int_t ngx_http_hymt_cache_header(struct ngx_http_hymt_call_s *call);


#endif /* _NGX_HTTP_HYMT_CACHE_H_INCLUDED_ */
