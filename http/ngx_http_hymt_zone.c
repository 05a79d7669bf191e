
/*
 * Copyright (C) the hymt authors
 */


/*
 * What the master makes for each cycle, in the init callback of the module's
 * zone: the exchanges in shared memory and their bells.
 */


#include "ngx_http_hymt_runtime.h"

#include <sys/eventfd.h>
#include <sys/mman.h>


typedef struct {
    int                             *fds;     /* lane bells, then hosts' */
    ngx_uint_t                       n_fds;
    ngx_log_t                       *log;
} ngx_http_hymt_fds_t;


typedef struct {
    void                            *mem;
    size_t                           size;
    ngx_log_t                       *log;
} ngx_http_hymt_mapping_t;


static ngx_int_t ngx_http_hymt_check_locations(
    ngx_http_hymt_main_conf_t *hmcf, ngx_log_t *log);
static ngx_int_t ngx_http_hymt_make_exchange(ngx_http_hymt_main_conf_t *hmcf,
    ngx_http_hymt_model_t *model);
static ngx_int_t ngx_http_hymt_adopt(ngx_http_hymt_main_conf_t *hmcf,
    ngx_http_hymt_model_t *model);
static void *ngx_http_hymt_map(ngx_http_hymt_main_conf_t *hmcf, size_t size,
    const char *what);
static void ngx_http_hymt_unmap(void *data);
static ngx_int_t ngx_http_hymt_make_bells(ngx_http_hymt_main_conf_t *hmcf);
static void ngx_http_hymt_close_bells(void *data);


/*
 * Runs in the master for every new cycle, also under "nginx -t", when the core
 * has its final values; an error refuses the configuration and leaves the old
 * one at work.
 */
ngx_int_t
ngx_http_hymt_init_zone(ngx_shm_zone_t *zone, void *data)
{
    ngx_http_hymt_main_conf_t *old = data;

    ngx_uint_t                  i;
    hymt_quota_t               *words;
    ngx_core_conf_t            *ccf;
    ngx_slab_pool_t            *shpool;
    ngx_http_hymt_model_t     **models;
    ngx_http_hymt_main_conf_t  *hmcf;

    hmcf = zone->data;

    if (old != NULL) {
        hmcf->counters = old->counters;

    } else {
        shpool = (ngx_slab_pool_t *) zone->shm.addr;

        hmcf->counters = ngx_slab_calloc(shpool,
                                         sizeof(ngx_http_hymt_counters_t));
        if (hmcf->counters == NULL) {
            return NGX_ERROR;
        }
    }

    ngx_http_hymt_stats_init(hmcf);

    ccf = (ngx_core_conf_t *) ngx_get_conf(hmcf->cycle->conf_ctx,
                                           ngx_core_module);

    hmcf->lanes = ccf->master ? (ngx_uint_t) ccf->worker_processes : 1;

    if (hmcf->lanes > HYMT_MAX_LANES) {
        ngx_log_error(NGX_LOG_EMERG, hmcf->cycle->log, 0,
                      "hymt works with at most %d worker_processes, not %ui",
                      HYMT_MAX_LANES, hmcf->lanes);
        return NGX_ERROR;
    }

    if (ngx_http_hymt_choose_worker(hmcf) != NGX_OK
        || ngx_http_hymt_glossaries_check(hmcf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    models = hmcf->models.elts;

    for (i = 0; i < hmcf->models.nelts; i++) {
        if (ngx_http_hymt_model_check(models[i], hmcf->cycle) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (ngx_http_hymt_check_locations(hmcf, hmcf->cycle->log) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_test_config) {
        return NGX_OK;
    }

    hmcf->roster = ngx_http_hymt_map(hmcf, sizeof(ngx_http_hymt_roster_t),
                                     "roster");
    if (hmcf->roster == NULL) {
        return NGX_ERROR;
    }

    /* one byte more: none at all can't be mapped */

    words = ngx_http_hymt_map(hmcf, ngx_http_hymt_load_size(hmcf) + 1, "load");
    if (words == NULL) {
        return NGX_ERROR;
    }

    ngx_http_hymt_load_create(hmcf, words);

    hmcf->generation = atomic_fetch_add(&hmcf->counters->generation, 1) + 1;

    for (i = 0; i < hmcf->models.nelts; i++) {
        if (models[i]->used
            && (ngx_http_hymt_cache_model(hmcf, models[i]) != NGX_OK
                || ngx_http_hymt_make_exchange(hmcf, models[i]) != NGX_OK))
        {
            return NGX_ERROR;
        }
    }

    return ngx_http_hymt_make_bells(hmcf);
}


static ngx_int_t
ngx_http_hymt_check_locations(ngx_http_hymt_main_conf_t *hmcf, ngx_log_t *log)
{
    char                        list[2048];
    ngx_int_t                   lang;
    ngx_uint_t                  i, j;
    hymt_lang_set_t             set;
    ngx_http_hymt_loc_conf_t  **locations;

    locations = hmcf->locations.elts;

    for (i = 0; i < hmcf->locations.nelts; i++) {
        set = locations[i]->model->params.languages;

        if (locations[i]->source == locations[i]->target
            && locations[i]->source != NGX_HTTP_HYMT_NO_LANG)
        {
            ngx_log_error(NGX_LOG_EMERG, log, 0,
                          "\"hymt_default_source\" and \"hymt_default_target\""
                          " of a location are both %s",
                          hymt_langs[locations[i]->source].code);
            return NGX_ERROR;
        }

        for (j = 0; j < 2; j++) {
            lang = j ? locations[i]->target : locations[i]->source;

            if (lang == NGX_HTTP_HYMT_NO_LANG || (set >> lang & 1)) {
                continue;
            }

            (void) hymt_lang_list(set, list, sizeof(list));

            ngx_log_error(NGX_LOG_EMERG, log, 0,
                          "\"%s %s\": hymt_model \"%V\" does not know that"
                          " language; it knows %s",
                          j ? "hymt_default_target" : "hymt_default_source",
                          hymt_langs[lang].code, &locations[i]->model->name,
                          list);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_make_exchange(ngx_http_hymt_main_conf_t *hmcf,
    ngx_http_hymt_model_t *model)
{
    void                    *mem;
    hymt_exchange_params_t   params;

    if (ngx_http_hymt_runtime != NULL) {
        return ngx_http_hymt_adopt(hmcf, model);
    }

    params.n_lanes = hmcf->lanes;
    params.n_slots = model->queue;

    /* four bytes a token, and room for the shortest texts; lazily touched */

    params.in_bytes = ngx_max(4 * model->context, 4096);
    params.out_bytes = params.in_bytes;

    model->size = hymt_exchange_size(&params);

    if (model->size == 0) {
        ngx_log_error(NGX_LOG_EMERG, hmcf->cycle->log, 0,
                      "hymt_model \"%V\": \"queue\" times \"context\" is too"
                      " large for one exchange", &model->name);
        return NGX_ERROR;
    }

    mem = ngx_http_hymt_map(hmcf, model->size, "exchange");
    if (mem == NULL) {
        return NGX_ERROR;
    }

    hymt_exchange_init(&model->exchange, mem, &params);

    return NGX_OK;
}


/*
 * A reload with master_process off happens inside the one process, which is not
 * started again: its engines go on, so they must be the same ones.
 */
static ngx_int_t
ngx_http_hymt_adopt(ngx_http_hymt_main_conf_t *hmcf,
    ngx_http_hymt_model_t *model)
{
    ngx_uint_t               i;
    ngx_http_hymt_model_t  **running;

    running = ngx_http_hymt_runtime->conf->models.elts;

    for (i = 0; i < ngx_http_hymt_runtime->conf->models.nelts; i++) {

        if (running[i]->exchange.mem != NULL
            && running[i]->name.len == model->name.len
            && running[i]->path.len == model->path.len
            && ngx_strncmp(running[i]->name.data, model->name.data,
                           model->name.len) == 0
            && ngx_strncmp(running[i]->path.data, model->path.data,
                           model->path.len) == 0)
        {
            model->exchange = running[i]->exchange;
            model->index = running[i]->index;
            ngx_memcpy(model->fingerprint, running[i]->fingerprint,
                       sizeof(model->fingerprint));
            return NGX_OK;
        }
    }

    ngx_log_error(NGX_LOG_EMERG, hmcf->cycle->log, 0,
                  "hymt_model \"%V\": with \"master_process off\" a reload"
                  " can't load another model; restart instead", &model->name);

    return NGX_ERROR;
}


/*
 * Shared by the processes of one cycle: made here rather than by NGINX since
 * its size follows worker_processes, which a directive's setter does not know.
 */
static void *
ngx_http_hymt_map(ngx_http_hymt_main_conf_t *hmcf, size_t size,
    const char *what)
{
    void                     *mem;
    ngx_pool_cleanup_t       *cln;
    ngx_http_hymt_mapping_t  *mapping;

    cln = ngx_pool_cleanup_add(hmcf->cycle->pool,
                               sizeof(ngx_http_hymt_mapping_t));
    if (cln == NULL) {
        return NULL;
    }

    mem = mmap(NULL, size, PROT_READ|PROT_WRITE,
               MAP_SHARED|MAP_ANONYMOUS|MAP_NORESERVE, -1, 0);

    if (mem == MAP_FAILED) {
        ngx_log_error(NGX_LOG_EMERG, hmcf->cycle->log, ngx_errno,
                      "mmap(%uz) for a hymt %s failed", size, what);
        return NULL;
    }

    mapping = cln->data;
    mapping->mem = mem;
    mapping->size = size;
    mapping->log = hmcf->cycle->log;

    cln->handler = ngx_http_hymt_unmap;

    return mem;
}


static void
ngx_http_hymt_unmap(void *data)
{
    ngx_http_hymt_mapping_t *mapping = data;

    /* threads that nobody could stop may be at it */

    if (ngx_http_hymt_runtime != NULL && ngx_http_hymt_runtime->abandoned) {
        return;
    }

    if (munmap(mapping->mem, mapping->size) == -1) {
        ngx_log_error(NGX_LOG_ALERT, mapping->log, ngx_errno,
                      "munmap(%p, %uz) failed", mapping->mem, mapping->size);
    }
}


static ngx_int_t
ngx_http_hymt_make_bells(ngx_http_hymt_main_conf_t *hmcf)
{
    ngx_uint_t               i, n;
    ngx_pool_cleanup_t      *cln;
    ngx_http_hymt_fds_t     *set;
    ngx_http_hymt_model_t  **models;

    n = hmcf->lanes + hmcf->models.nelts;

    cln = ngx_pool_cleanup_add(hmcf->cycle->pool, sizeof(ngx_http_hymt_fds_t));
    if (cln == NULL) {
        return NGX_ERROR;
    }

    set = cln->data;
    set->n_fds = 0;
    set->log = hmcf->cycle->log;
    set->fds = ngx_palloc(hmcf->cycle->pool, n * sizeof(int));

    if (set->fds == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_hymt_close_bells;

    for (i = 0; i < n; i++) {
        set->fds[i] = eventfd(0, EFD_NONBLOCK|EFD_CLOEXEC);

        if (set->fds[i] == -1) {
            ngx_log_error(NGX_LOG_EMERG, hmcf->cycle->log, ngx_errno,
                          "eventfd() failed");
            return NGX_ERROR;
        }

        set->n_fds++;
    }

    hmcf->lane_fds = set->fds;

    models = hmcf->models.elts;

    for (i = 0; i < hmcf->models.nelts; i++) {
        models[i]->host_fd = set->fds[hmcf->lanes + i];
    }

    return NGX_OK;
}


static void
ngx_http_hymt_close_bells(void *data)
{
    ngx_http_hymt_fds_t *set = data;

    ngx_uint_t  i;

    for (i = 0; i < set->n_fds; i++) {
        if (close(set->fds[i]) == -1) {
            ngx_log_error(NGX_LOG_ALERT, set->log, ngx_errno,
                          "close() of a hymt bell failed");
        }
    }
}
