
/*
 * Copyright (C) the hymt authors
 */


/*
 * The engine hosts in worker 0: their beginning, their words for the log, their
 * end.
 */


#include "ngx_http_hymt_runtime.h"


static void ngx_http_hymt_start_host(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model, ngx_cycle_t *cycle);


void
ngx_http_hymt_start_hosts(ngx_event_t *ev)
{
    ngx_uint_t                 i;
    ngx_connection_t          *c;
    ngx_http_hymt_model_t    **models;
    ngx_http_hymt_runtime_t   *rt;

    ngx_http_hymt_turn_begin();

    c = ev->data;
    rt = c->data;
    models = rt->conf->models.elts;

    for (i = 0; i < rt->conf->models.nelts; i++) {
        if (models[i]->used) {
            ngx_http_hymt_start_host(rt, models[i], rt->cycle);
        }
    }

    rt->conf->roster->resume = 0;
}


static void
ngx_http_hymt_start_host(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model, ngx_cycle_t *cycle)
{
    hymt_error_t               err;
    hymt_host_params_t         params;
    ngx_http_hymt_main_conf_t *hmcf;

    hmcf = rt->conf;

    ngx_memzero(&params, sizeof(hymt_host_params_t));

    params.exchange = model->exchange;
    params.own_fd = model->host_fd;
    params.lane_fds = hmcf->lane_fds;
    params.log_fd = hmcf->lane_fds[rt->lane];

    params.engine.model = (char *) model->path.data;
    params.engine.backend = (char *) model->backend.data;
    params.engine.device = model->device;
    params.engine.threads = model->threads;
    params.engine.max_batch = model->max_batch;
    params.engine.context = model->context;
    params.engine.kv_tokens = model->kv_tokens;
    params.engine.prefix_cache = model->prefix_cache;
    params.engine.coalesce = model->coalesce;
    params.engine.ignore_eos = model->ignore_eos;
    params.engine.patience = &rt->patience;
    params.engine.claims = &hmcf->counters->claims;
    params.engine.rank = hmcf->generation;

    params.family = model->params.family;
    params.override = model->prompt.len ? (char *) model->prompt.data : NULL;

    if (hymt_host_start(&params, &rt->hosts[model->index], &err) != HYMT_OK) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, 0,
                      "hymt_model \"%V\": %s", &model->name, err.text);
        return;
    }

    (void) ngx_atomic_fetch_add(&model->stats->starts, 1);
}


void
ngx_http_hymt_stop_engine(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model)
{
    ngx_uint_t  i;

    i = model->index;

    if (ngx_http_hymt_hopeless(rt, i)) {
        ngx_http_hymt_abandon();
        rt->abandoned = 1;

    } else if (ngx_http_hymt_stop_host(rt->hosts[i], rt->conf->watchdog)
               != NGX_OK)
    {
        ngx_log_error(NGX_LOG_ERR, rt->cycle->log, 0,
                      "hymt \"%V\": the engine does not stop: this worker ends"
                      " without waiting for it", &model->name);

        rt->abandoned = 1;
    }

    rt->hosts[i] = NULL;
}


void
ngx_http_hymt_log_host(ngx_http_hymt_runtime_t *rt,
    ngx_http_hymt_model_t *model)
{
    char              line[1024];
    hymt_log_level_t  level;

    static ngx_uint_t  levels[] = {
        NGX_LOG_ERR, NGX_LOG_WARN, NGX_LOG_NOTICE, NGX_LOG_INFO
    };

    while (hymt_host_log(rt->hosts[model->index], &level, line, sizeof(line))
           == HYMT_OK)
    {
        ngx_log_error(levels[level], rt->cycle->log, 0,
                      "hymt \"%V\": %s", &model->name, line);
    }
}
