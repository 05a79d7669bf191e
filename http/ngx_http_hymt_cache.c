
/*
 * Copyright (C) the hymt authors
 */


/*
 * The translation cache.  A unit's key is a digest of everything its result
 * depends on, so it serves any API and any request with that sentence in it;
 * what is kept is the engine's text as it came, and goes the same way as if it
 * had just come.
 *
 * Only what the same question would give again is kept: greedy outputs, or
 * those of a seed that the client or the configuration has named; and of them
 * those that ended by themselves.
 */


#include "ngx_http_hymt.h"
#include "fingerprint.h"


/* what a hit is in bytes of bodies: see ngx_http_hymt_turn_take() */
#define NGX_HTTP_HYMT_A_HIT  4096


static ngx_int_t ngx_http_hymt_cache_init(ngx_shm_zone_t *zone, void *data);
static void ngx_http_hymt_cache_control(ngx_http_request_t *r,
    ngx_http_hymt_cached_t *cached);
static ngx_uint_t ngx_http_hymt_cache_says(ngx_str_t *value,
    const char *directive);
static void ngx_http_hymt_cache_key(ngx_http_hymt_job_t *job,
    const hymt_job_t *params);
static void ngx_http_hymt_cache_add(hymt_sha256_t *sha, const void *data,
    uint32_t len);
static uint32_t ngx_http_hymt_cache_now(void);


/* hymt_cache zone=NAME:SIZE [size=4k] [ttl=1d] | off; */
char *
ngx_http_hymt_cache_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_hymt_loc_conf_t *hlcf = conf;

    char                       *rv;
    ngx_str_t                  *value;
    ngx_http_hymt_cache_t      *cache;
    ngx_http_hymt_zone_conf_t   z;
    ngx_http_hymt_main_conf_t  *hmcf;

    if (hlcf->cache != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        hlcf->cache = NULL;
        return NGX_CONF_OK;
    }

    z.param = "size=";
    z.least = 64;
    z.most = HYMT_TRANSLATION_MAX;
    z.bytes = 4096;
    z.ttl = 86400;

    rv = ngx_http_hymt_conf_zone(cf, cmd, &z);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    cache = ngx_pcalloc(cf->pool, sizeof(ngx_http_hymt_cache_t));
    if (cache == NULL) {
        return NGX_CONF_ERROR;
    }

    cache->longest = z.bytes;
    cache->ttl = z.ttl;
    cache->buf = ngx_palloc(cf->pool, z.bytes);

    if (cache->buf == NULL) {
        return NGX_CONF_ERROR;
    }

    z.zone->init = ngx_http_hymt_cache_init;
    z.zone->data = cache;

    hlcf->cache = cache;

    hmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_hymt_module);
    hmcf->cached = 1;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_hymt_cache_init(ngx_shm_zone_t *zone, void *data)
{
    ngx_http_hymt_cache_t *old = data;

    void                   *mem;
    size_t                  room;
    hymt_error_t            err;
    ngx_slab_pool_t        *shpool;
    ngx_http_hymt_cache_t  *cache;

    cache = zone->data;
    shpool = (ngx_slab_pool_t *) zone->shm.addr;

    /* places are found by size, so they must have kept theirs */

    if (old != NULL && old->longest != cache->longest) {
        ngx_log_error(NGX_LOG_EMERG, zone->shm.log, 0,
                      "\"size\" of the hymt_cache zone \"%V\" can't change"
                      " with a reload: use another name", &zone->shm.name);
        return NGX_ERROR;
    }

    /* what the slab allocator can give in one piece, less a page for itself */

    room = shpool->end - shpool->start;
    room -= ngx_min(room, 4 * ngx_pagesize);

    if (hymt_translation_cache_view(&cache->table, NULL, room, cache->longest,
                                    &err)
        != HYMT_OK)
    {
        ngx_log_error(NGX_LOG_EMERG, zone->shm.log, 0,
                      "hymt_cache zone \"%V\" is too small: %s",
                      &zone->shm.name, err.text);
        return NGX_ERROR;
    }

    if (old != NULL) {
        mem = old->table.mem;

    } else {

        /* not to be touched before it is needed */

        mem = ngx_slab_alloc(shpool, room);

        if (mem == NULL) {
            ngx_log_error(NGX_LOG_EMERG, zone->shm.log, 0,
                          "hymt_cache zone \"%V\" is too small",
                          &zone->shm.name);
            return NGX_ERROR;
        }
    }

    cache->table.mem = mem;

    return NGX_OK;
}


/* Some megabytes are read: the master serves nobody meanwhile. */
ngx_int_t
ngx_http_hymt_cache_model(ngx_http_hymt_main_conf_t *hmcf,
    ngx_http_hymt_model_t *model)
{
    hymt_error_t  err;

    if (!hmcf->cached) {
        return NGX_OK;
    }

    if (hymt_fingerprint((char *) model->path.data, model->fingerprint, &err)
        != HYMT_OK)
    {
        ngx_log_error(NGX_LOG_EMERG, hmcf->cycle->log, 0,
                      "hymt_model \"%V\" in %s:%ui: %s", &model->name,
                      model->file, model->line, err.text);
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_hymt_cache_begin(ngx_http_request_t *r, ngx_http_hymt_call_t *call)
{
    ngx_str_t                  scope;
    hymt_sha256_t             *base;
    ngx_http_hymt_model_t     *model;
    ngx_http_hymt_cached_t    *cached;
    ngx_http_hymt_loc_conf_t  *hlcf;

    struct {
        uint32_t               family;
        uint32_t               context;
        uint32_t               ignore_eos;
        uint32_t               owned;      /* by an owner, or by a scope */
    } options;

    hlcf = call->conf;
    model = call->model;
    cached = &call->cached;

    if (hlcf->cache == NULL) {
        return NGX_OK;
    }

    cached->on = 1;
    cached->reads = 1;
    cached->writes = 1;

    ngx_http_hymt_cache_control(r, cached);

    if (!cached->writes) {
        return NGX_OK;
    }

    /* what is somebody's own is not for others to find, unless it is said so */

    ngx_str_null(&scope);
    ngx_memzero(&options, sizeof(options));

    if (hlcf->cache_scope != NULL) {
        if (ngx_http_complex_value(r, hlcf->cache_scope, &scope) != NGX_OK) {
            return NGX_ERROR;
        }

    } else if (call->owner != NULL) {
        scope.data = (u_char *) call->owner;
        scope.len = ngx_strlen(call->owner);
        options.owned = 1;
    }

    options.family = model->params.family;
    options.context = model->context;
    options.ignore_eos = model->ignore_eos;

    base = &cached->base;

    hymt_sha256_init(base);
    hymt_sha256_update(base, HYMT_VERSION, sizeof(HYMT_VERSION));
    hymt_sha256_update(base, model->fingerprint, sizeof(model->fingerprint));
    hymt_sha256_update(base, &options, sizeof(options));

    ngx_http_hymt_cache_add(base, model->backend.data, model->backend.len);
    ngx_http_hymt_cache_add(base, model->prompt.data, model->prompt.len);
    ngx_http_hymt_cache_add(base, scope.data, scope.len);

    return NGX_OK;
}


/* Of the request: no-store, keep out; no-cache, make it anew. */
static void
ngx_http_hymt_cache_control(ngx_http_request_t *r,
    ngx_http_hymt_cached_t *cached)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    static ngx_str_t  name = ngx_string("cache-control");

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].key.len != name.len
                || ngx_strncasecmp(h[i].key.data, name.data, name.len) != 0)
            {
                continue;
            }

            if (ngx_http_hymt_cache_says(&h[i].value, "no-store")) {
                cached->reads = 0;
                cached->writes = 0;
            }

            if (ngx_http_hymt_cache_says(&h[i].value, "no-cache")) {
                cached->reads = 0;
            }
        }
    }
}


/* Whether a directive is in a list of them, parted by commas. */
static ngx_uint_t
ngx_http_hymt_cache_says(ngx_str_t *value, const char *directive)
{
    u_char  *p, *end, *last;
    size_t   len;

    len = ngx_strlen(directive);
    p = value->data;
    last = p + value->len;

    for ( ;; ) {
        while (p < last && (*p == ' ' || *p == '\t' || *p == ',')) {
            p++;
        }

        if (p == last) {
            return 0;
        }

        end = ngx_strlchr(p, last, ',');
        end = end ? end : last;

        if ((size_t) (end - p) >= len
            && ngx_strncasecmp(p, (u_char *) directive, len) == 0
            && (p + len == end || p[len] == ' ' || p[len] == '\t'
                || p[len] == '='))
        {
            return 1;
        }

        p = end;
    }
}


ngx_int_t
ngx_http_hymt_cache_find(ngx_http_hymt_job_t *job, const hymt_job_t *params,
    hymt_result_t *result, const char **text)
{
    hymt_translation_t       found;
    ngx_http_hymt_call_t    *call;
    ngx_http_hymt_cache_t   *cache;
    ngx_http_hymt_cached_t  *cached;

    call = job->call;
    cached = &call->cached;
    cache = call->conf->cache;

    job->keep = 0;

    if (!cached->on) {
        return NGX_DECLINED;
    }

    if (!cached->writes
        || (params->sampling.temperature != 0
            && job->item->sampling.seed == cached->drawn))
    {
        cached->passed = 1;
        return NGX_DECLINED;
    }

    ngx_http_hymt_cache_key(job, params);
    job->keep = 1;

    if (!cached->reads) {
        cached->passed = 1;
        return NGX_DECLINED;
    }

    if (hymt_translation_cache_find(&cache->table, job->key,
                                    ngx_http_hymt_cache_now(), cache->ttl,
                                    cache->buf, &found)
        != HYMT_OK
        || !hymt_utf8_check(cache->buf, found.len, NULL))
    {
        return NGX_DECLINED;
    }

    ngx_memzero(result, sizeof(hymt_result_t));

    result->code = HYMT_RESULT_OK;
    result->finish = HYMT_FINISH_STOP;
    result->text_len = found.len;
    result->prompt_tokens = found.prompt_tokens;
    result->completion_tokens = found.completion_tokens;

    *text = cache->buf;

    cached->hit = 1;
    (void) ngx_atomic_fetch_add(&call->model->stats->cache_hits, 1);

    ngx_http_hymt_turn_take(NGX_HTTP_HYMT_A_HIT);

    return NGX_OK;
}


void
ngx_http_hymt_cache_missed(ngx_http_hymt_job_t *job)
{
    ngx_http_hymt_call_t  *call;

    call = job->call;

    if (job->keep && call->cached.reads) {
        call->cached.missed = 1;
        (void) ngx_atomic_fetch_add(&call->model->stats->cache_misses, 1);
    }
}


void
ngx_http_hymt_cache_store(ngx_http_hymt_job_t *job,
    const hymt_result_t *result, const char *text)
{
    hymt_status_t           rc;
    hymt_translation_t      t;
    ngx_http_hymt_cache_t  *cache;
    ngx_http_hymt_stats_t  *stats;

    if (!job->keep || result->finish != HYMT_FINISH_STOP) {
        return;
    }

    cache = job->call->conf->cache;
    stats = job->call->model->stats;

    t.len = result->text_len;
    t.prompt_tokens = result->prompt_tokens;
    t.completion_tokens = result->completion_tokens;

    rc = hymt_translation_cache_store(&cache->table, job->key,
                                      ngx_http_hymt_cache_now(), cache->ttl,
                                      text, &t);

    if (rc == HYMT_DECLINED) {
        return;
    }

    (void) ngx_atomic_fetch_add(&stats->cache_stores, 1);

    if (rc == HYMT_AGAIN) {
        (void) ngx_atomic_fetch_add(&stats->cache_evictions, 1);
    }
}


/* All that the engine is told but when to be done and whether to stream. */
static void
ngx_http_hymt_cache_key(ngx_http_hymt_job_t *job, const hymt_job_t *params)
{
    ngx_uint_t     i;
    hymt_sha256_t  sha;

    struct {
        int32_t    src;
        int32_t    tgt;
        uint32_t   max_tokens;
        float      max_ratio;
        uint32_t   flags;
        float      repetition_penalty;
        float      temperature;
        float      top_p;
        uint32_t   top_k;
        uint32_t   index;
        uint64_t   seed;
        uint32_t   n_stop;
        uint32_t   stop[HYMT_JOB_STOPS];
    } options;

    ngx_memzero(&options, sizeof(options));

    options.src = params->src;
    options.tgt = params->tgt;
    options.max_tokens = params->max_tokens;
    options.max_ratio = params->max_ratio;
    options.flags = params->flags & ~HYMT_JOB_STREAM;
    options.repetition_penalty = params->sampling.repetition_penalty;

    /* nothing else matters to a greedy one */

    if (params->sampling.temperature != 0) {
        options.temperature = params->sampling.temperature;
        options.top_p = params->sampling.top_p;
        options.top_k = params->sampling.top_k;
        options.index = params->sampling.index;
        options.seed = params->sampling.seed;
    }

    options.n_stop = ngx_min(params->n_stop, HYMT_JOB_STOPS);

    ngx_memcpy(options.stop, params->stop,
               options.n_stop * sizeof(options.stop[0]));

    sha = job->call->cached.base;

    hymt_sha256_update(&sha, &options, sizeof(options));

    for (i = 0; i < HYMT_N_PARTS; i++) {
        ngx_http_hymt_cache_add(&sha, params->part[i], params->part_len[i]);
    }

    hymt_sha256_final(&sha, job->key);
}


/* Its length comes first, so that no two lists of parts read the same. */
static void
ngx_http_hymt_cache_add(hymt_sha256_t *sha, const void *data, uint32_t len)
{
    hymt_sha256_update(sha, &len, sizeof(len));
    hymt_sha256_update(sha, data, len);
}


/* Of a clock that all processes share. */
static uint32_t
ngx_http_hymt_cache_now(void)
{
    return (uint32_t) (hymt_now_ns() / 1000000000) + 1;
}


const char *
ngx_http_hymt_cache_status(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_cached_t  *cached;

    cached = &call->cached;

    if (cached->shared && !cached->alone) {
        return "COALESCED";
    }

    return cached->missed ? "MISS"
           : cached->passed ? "BYPASS"
           : cached->hit ? "HIT" : NULL;
}


ngx_int_t
ngx_http_hymt_cache_header(ngx_http_hymt_call_t *call)
{
    const char  *status;

    status = ngx_http_hymt_cache_status(call);

    if (!call->conf->cache_header || status == NULL) {
        return NGX_OK;
    }

    return ngx_http_hymt_header(call->r, "X-Cache-Status", status);
}
