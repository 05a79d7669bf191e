
/*
 * Copyright (C) the hymt authors
 */


#include "ngx_http_hymt.h"


/* the counters, and what a slab keeps for itself */
#define NGX_HTTP_HYMT_ZONE_SIZE                                               \
    ((sizeof(ngx_http_hymt_counters_t) / 4096 + 16) * 4096)


static void *ngx_http_hymt_create_main_conf(ngx_conf_t *cf);
static char *ngx_http_hymt_init_main_conf(ngx_conf_t *cf, void *conf);
static void *ngx_http_hymt_create_loc_conf(ngx_conf_t *cf);
static char *ngx_http_hymt_merge_loc_conf(ngx_conf_t *cf, void *parent,
    void *child);
static char *ngx_http_hymt_conflict(ngx_conf_t *cf,
    ngx_http_core_loc_conf_t *clcf, const char *text);


static ngx_conf_num_bounds_t  ngx_http_hymt_window_bounds = {
    ngx_http_hymt_conf_bounds, 1, 1024
};

static ngx_conf_num_bounds_t  ngx_http_hymt_texts_bounds = {
    ngx_http_hymt_conf_bounds, 1, 100000
};

static ngx_conf_num_bounds_t  ngx_http_hymt_unit_bounds = {
    ngx_http_hymt_conf_bounds, 64, 1024 * 1024
};

static ngx_conf_post_t  ngx_http_hymt_watchdog_bounds = {
    ngx_http_hymt_conf_watchdog
};


static ngx_conf_enum_t  ngx_http_hymt_priorities[] = {
    { ngx_string("interactive"), HYMT_PRIORITY_INTERACTIVE },
    { ngx_string("batch"), HYMT_PRIORITY_BATCH },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_hymt_splits[] = {
    { ngx_string("auto"), HYMT_SPLIT_AUTO },
    { ngx_string("none"), HYMT_SPLIT_NONE },
    { ngx_string("sentence"), HYMT_SPLIT_SENTENCE },
    { ngx_string("paragraph"), HYMT_SPLIT_PARAGRAPH },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_hymt_workers[] = {
    { ngx_string("dedicated"), NGX_HTTP_HYMT_DEDICATED },
    { ngx_string("shared"), NGX_HTTP_HYMT_SHARED },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_hymt_tags[] = {
    { ngx_string("model"), NGX_HTTP_HYMT_TAGS_MODEL },
    { ngx_string("runs"), NGX_HTTP_HYMT_TAGS_RUNS },
    { ngx_null_string, 0 }
};


/* the first one is the default */

ngx_http_hymt_api_t  *ngx_http_hymt_apis[] = {
    &ngx_http_hymt_native,
    &ngx_http_hymt_libretranslate,
    &ngx_http_hymt_deepl,
    &ngx_http_hymt_google,
    &ngx_http_hymt_openai,
    NULL
};


static ngx_command_t  ngx_http_hymt_commands[] = {

    { ngx_string("hymt_model"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_BLOCK|NGX_CONF_TAKE1,
      ngx_http_hymt_model_block,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("hymt_buffers"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_hymt_main_conf_t, buffers),
      NULL },

    { ngx_string("hymt_engine_worker"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_hymt_main_conf_t, engine_worker),
      ngx_http_hymt_workers },

    { ngx_string("hymt_watchdog"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_hymt_main_conf_t, watchdog),
      &ngx_http_hymt_watchdog_bounds },

    { ngx_string("hymt_translate"),
      NGX_HTTP_LOC_CONF|NGX_CONF_TAKE12,
      ngx_http_hymt_conf_translate,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("hymt_status"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS|NGX_CONF_TAKE12,
      ngx_http_hymt_conf_status,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("hymt_timeout"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, timeout),
      NULL },

    { ngx_string("hymt_loading_wait"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, loading_wait),
      NULL },

    { ngx_string("hymt_ping"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, ping),
      NULL },

    { ngx_string("hymt_max_body"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, max_body),
      NULL },

    { ngx_string("hymt_max_texts"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, max_texts),
      &ngx_http_hymt_texts_bounds },

    { ngx_string("hymt_window"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, window),
      &ngx_http_hymt_window_bounds },

    { ngx_string("hymt_ignore_client_abort"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, ignore_client_abort),
      NULL },

    { ngx_string("hymt_sampling"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_hymt_conf_sampling,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("hymt_default_source"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_hymt_conf_language,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, source),
      NULL },

    { ngx_string("hymt_default_target"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_hymt_conf_language,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, target),
      NULL },

    { ngx_string("hymt_split"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, split),
      ngx_http_hymt_splits },

    { ngx_string("hymt_tags"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, tags),
      ngx_http_hymt_tags },

    { ngx_string("hymt_neighbours"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, neighbours),
      NULL },

    { ngx_string("hymt_max_ratio"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_hymt_conf_ratio,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("hymt_cors"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_hymt_conf_cors,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("hymt_owner"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_set_complex_value_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, owner),
      NULL },

    { ngx_string("hymt_sessions"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_hymt_sessions_zone,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("hymt_cache"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_hymt_cache_zone,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("hymt_priority"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, priority),
      ngx_http_hymt_priorities },

    { ngx_string("hymt_fair_key"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_set_complex_value_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, fair_key),
      NULL },

    { ngx_string("hymt_concurrency"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, concurrency),
      NULL },

    { ngx_string("hymt_cache_scope"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_set_complex_value_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, cache_scope),
      NULL },

    { ngx_string("hymt_cache_header"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, cache_header),
      NULL },

    { ngx_string("hymt_glossaries"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_hymt_glossaries,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("hymt_unit"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_hymt_loc_conf_t, unit),
      &ngx_http_hymt_unit_bounds },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_hymt_module_ctx = {
    ngx_http_hymt_add_variables,           /* preconfiguration */
    NULL,                                  /* postconfiguration */

    ngx_http_hymt_create_main_conf,        /* create main configuration */
    ngx_http_hymt_init_main_conf,          /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_hymt_create_loc_conf,         /* create location configuration */
    ngx_http_hymt_merge_loc_conf           /* merge location configuration */
};


ngx_module_t  ngx_http_hymt_module = {
    NGX_MODULE_V1,
    &ngx_http_hymt_module_ctx,             /* module context */
    ngx_http_hymt_commands,                /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    ngx_http_hymt_init_process,            /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_hymt_exit_process,            /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static void *
ngx_http_hymt_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_hymt_main_conf_t  *hmcf;

    hmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_hymt_main_conf_t));
    if (hmcf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     hmcf->zone = NULL;
     *     hmcf->counters = NULL;
     *     hmcf->roster = NULL;
     *     hmcf->lanes = 0;
     *     hmcf->lane_fds = NULL;
     *     hmcf->pool = NULL;
     *     hmcf->used = 0;
     *     hmcf->dedicated = 0;
     */

    if (ngx_array_init(&hmcf->models, cf->pool, 2,
                       sizeof(ngx_http_hymt_model_t *))
        != NGX_OK
        || ngx_array_init(&hmcf->locations, cf->pool, 4,
                          sizeof(ngx_http_hymt_loc_conf_t *))
           != NGX_OK
        || ngx_array_init(&hmcf->glossaries, cf->pool, 1,
                          sizeof(ngx_http_hymt_glossaries_t *))
           != NGX_OK)
    {
        return NULL;
    }

    hmcf->buffers = NGX_CONF_UNSET_SIZE;
    hmcf->engine_worker = NGX_CONF_UNSET_UINT;
    hmcf->watchdog = NGX_CONF_UNSET_MSEC;
    hmcf->cycle = cf->cycle;

    return hmcf;
}


static char *
ngx_http_hymt_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_hymt_main_conf_t *hmcf = conf;

    ngx_str_t                name;
    ngx_uint_t               i;
    ngx_http_hymt_model_t  **models;

    ngx_conf_init_size_value(hmcf->buffers, 64 * 1024 * 1024);
    ngx_conf_init_msec_value(hmcf->watchdog, 10000);

    models = hmcf->models.elts;

    for (i = 0; i < hmcf->models.nelts; i++) {

        if (models[i]->path.data == NULL) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "hymt_translate \"%V\" in %s:%ui: there is no"
                          " hymt_model of that name", &models[i]->name,
                          models[i]->file, models[i]->line);
            return NGX_CONF_ERROR;
        }

        if (!models[i]->used) {
            ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                          "hymt_model \"%V\" in %s:%ui is used by no"
                          " hymt_translate and will not be loaded",
                          &models[i]->name, models[i]->file,
                          models[i]->line);
        }
    }

    if (hmcf->models.nelts == 0) {
        return NGX_CONF_OK;
    }

#if (NGX_THREADS)

    hmcf->pool = ngx_thread_pool_add(cf, NULL);
    if (hmcf->pool == NULL) {
        return NGX_CONF_ERROR;
    }

#endif

    /*
     * The zone holds the counters; its init callback is also where a new cycle
     * makes what needs worker_processes and `user`, which are known only then,
     * and can still refuse the configuration.
     */

    ngx_str_set(&name, "hymt");

    hmcf->zone = ngx_shared_memory_add(cf, &name, NGX_HTTP_HYMT_ZONE_SIZE,
                                       &ngx_http_hymt_module);
    if (hmcf->zone == NULL) {
        return NGX_CONF_ERROR;
    }

    hmcf->zone->init = ngx_http_hymt_init_zone;
    hmcf->zone->data = hmcf;

    return NGX_CONF_OK;
}


static void *
ngx_http_hymt_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_hymt_loc_conf_t  *hlcf;

    hlcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_hymt_loc_conf_t));
    if (hlcf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     hlcf->model = NULL;
     *     hlcf->seeded = 0;
     */

    ngx_http_hymt_sampling_none(&hlcf->values);

    hlcf->timeout = NGX_CONF_UNSET_MSEC;
    hlcf->loading_wait = NGX_CONF_UNSET_MSEC;
    hlcf->ping = NGX_CONF_UNSET_MSEC;
    hlcf->max_body = NGX_CONF_UNSET_SIZE;
    hlcf->max_texts = NGX_CONF_UNSET;
    hlcf->window = NGX_CONF_UNSET;
    hlcf->ignore_client_abort = NGX_CONF_UNSET;
    hlcf->split = NGX_CONF_UNSET_UINT;
    hlcf->tags = NGX_CONF_UNSET_UINT;
    hlcf->status = NGX_CONF_UNSET_UINT;
    hlcf->vllm = NGX_CONF_UNSET;
    hlcf->ratio = NGX_CONF_UNSET_UINT;
    hlcf->neighbours = NGX_CONF_UNSET;
    hlcf->cors = NGX_CONF_UNSET_PTR;
    hlcf->sessions = NGX_CONF_UNSET_PTR;
    hlcf->cache = NGX_CONF_UNSET_PTR;
    hlcf->cache_header = NGX_CONF_UNSET;
    hlcf->priority = NGX_CONF_UNSET_UINT;
    hlcf->concurrency = NGX_CONF_UNSET;
    hlcf->glossaries = NGX_CONF_UNSET_PTR;
    hlcf->unit = NGX_CONF_UNSET_SIZE;
    hlcf->source = NGX_CONF_UNSET;
    hlcf->target = NGX_CONF_UNSET;
    hlcf->sampling = NGX_CONF_UNSET_UINT;

    return hlcf;
}


static char *
ngx_http_hymt_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_hymt_loc_conf_t *prev = parent;
    ngx_http_hymt_loc_conf_t *conf = child;

    ngx_str_t                  *origin;
    ngx_http_core_loc_conf_t   *clcf;
    ngx_http_hymt_loc_conf_t  **location;
    ngx_http_hymt_main_conf_t  *hmcf;

    ngx_conf_merge_msec_value(conf->timeout, prev->timeout, 60000);
    ngx_conf_merge_msec_value(conf->loading_wait, prev->loading_wait, 30000);
    ngx_conf_merge_msec_value(conf->ping, prev->ping, 15000);
    ngx_conf_merge_size_value(conf->max_body, prev->max_body, 1024 * 1024);
    ngx_conf_merge_value(conf->max_texts, prev->max_texts, 1000);
    ngx_conf_merge_value(conf->window, prev->window, 16);
    ngx_conf_merge_value(conf->ignore_client_abort, prev->ignore_client_abort,
                         0);
    ngx_conf_merge_uint_value(conf->split, prev->split, HYMT_SPLIT_AUTO);
    ngx_conf_merge_size_value(conf->unit, prev->unit, 1500);
    ngx_conf_merge_uint_value(conf->ratio, prev->ratio, 0);
    ngx_conf_merge_value(conf->neighbours, prev->neighbours, 0);
    ngx_conf_merge_uint_value(conf->tags, prev->tags,
                              NGX_HTTP_HYMT_TAGS_MODEL);
    ngx_conf_merge_uint_value(conf->status, prev->status,
                              NGX_HTTP_HYMT_STATUS_JSON);
    ngx_conf_merge_value(conf->vllm, prev->vllm, 0);
    ngx_conf_merge_ptr_value(conf->cors, prev->cors, NULL);
    ngx_conf_merge_ptr_value(conf->sessions, prev->sessions, NULL);
    ngx_conf_merge_ptr_value(conf->cache, prev->cache, NULL);
    ngx_conf_merge_value(conf->cache_header, prev->cache_header, 0);
    ngx_conf_merge_ptr_value(conf->glossaries, prev->glossaries, NULL);

    if (conf->owner == NULL) {
        conf->owner = prev->owner;
    }

    if (conf->fair_key == NULL) {
        conf->fair_key = prev->fair_key;
    }

    ngx_conf_merge_uint_value(conf->priority, prev->priority,
                              HYMT_PRIORITY_INTERACTIVE);
    ngx_conf_merge_value(conf->concurrency, prev->concurrency, 0);

    if (conf->cache_scope == NULL) {
        conf->cache_scope = prev->cache_scope;
    }

    ngx_conf_merge_value(conf->source, prev->source, NGX_HTTP_HYMT_NO_LANG);
    ngx_conf_merge_value(conf->target, prev->target, NGX_HTTP_HYMT_NO_LANG);

    if (conf->sampling == NGX_CONF_UNSET_UINT) {
        conf->values = prev->values;
        conf->seeded = prev->seeded;

        ngx_conf_merge_uint_value(conf->sampling, prev->sampling,
                                  NGX_HTTP_HYMT_SAMPLING_MODEL);
    }

    /* "if" and "limit_except" blocks are part of the location around them */

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->noname && conf->model == NULL && clcf->handler == NULL) {
        conf->model = prev->model;
        conf->api = prev->api;

        if (clcf->lmt_excpt && conf->model != NULL) {
            clcf->handler = ngx_http_hymt_handler;
        }
    }

    if (conf->model == NULL) {
        return NGX_CONF_OK;
    }

    if (conf->timeout == 0) {
        return ngx_http_hymt_conflict(cf, clcf,
                                      "\"hymt_timeout\" must not be zero");
    }

    /* unlike client_max_body_size, whose 0 is no limit */

    if (conf->max_body == 0) {
        return ngx_http_hymt_conflict(cf, clcf,
                                      "\"hymt_max_body\" must not be zero");
    }

    if ((conf->owner != NULL || conf->glossaries != NULL)
        && conf->cors != NULL)
    {
        origin = conf->cors->elts;

        if (origin->len == 1) {
            return ngx_http_hymt_conflict(cf, clcf,
                                          "\"hymt_cors *\" does not go with"
                                          " \"hymt_owner\" and"
                                          " \"hymt_glossaries\": what belongs"
                                          " to somebody is not for every page;"
                                          " name origins");
        }
    }

    /*
     * NGINX would refuse a large body before the handler is asked, with a page
     * of its own.  The smaller of both limits is kept, by the handler, so that
     * clients get one form of error.
     */

    conf->body_limit = conf->max_body;

    if (clcf->client_max_body_size
        && clcf->client_max_body_size < (off_t) conf->max_body)
    {
        conf->body_limit = (size_t) clcf->client_max_body_size;
    }

    clcf->client_max_body_size = 0;

    /* to be judged once the model's directory has been read */

    hmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_hymt_module);

    location = ngx_array_push(&hmcf->locations);
    if (location == NULL) {
        return NGX_CONF_ERROR;
    }

    *location = conf;

    return NGX_CONF_OK;
}


/* While blocks are merged, the directive at hand is a foreign one. */
static char *
ngx_http_hymt_conflict(ngx_conf_t *cf, ngx_http_core_loc_conf_t *clcf,
    const char *text)
{
    ngx_log_error(NGX_LOG_EMERG, cf->log, 0, "location \"%V\": %s",
                  &clcf->name, text);

    return NGX_CONF_ERROR;
}
