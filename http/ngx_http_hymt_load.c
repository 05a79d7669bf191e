
/*
 * Copyright (C) the hymt authors
 */


/*
 * What the workers of a configuration have in hand together: tokens by model,
 * requests by location, each a quota with a word for each worker.
 */


#include "ngx_http_hymt.h"


static void ngx_http_hymt_busy_location(ngx_http_hymt_call_t *call);


/* In the master, over as many zeroed bytes as size() says. */
void
ngx_http_hymt_load_create(ngx_http_hymt_main_conf_t *hmcf, hymt_quota_t *words)
{
    ngx_uint_t                  i;
    ngx_http_hymt_model_t     **models;
    ngx_http_hymt_loc_conf_t  **locations;

    models = hmcf->models.elts;
    locations = hmcf->locations.elts;

    for (i = 0; i < hmcf->models.nelts; i++) {
        models[i]->load = words;
        words += hmcf->lanes;
    }

    for (i = 0; i < hmcf->locations.nelts; i++) {
        locations[i]->load = words;
        words += hmcf->lanes;
    }
}


size_t
ngx_http_hymt_load_size(ngx_http_hymt_main_conf_t *hmcf)
{
    return (hmcf->models.nelts + hmcf->locations.nelts) * hmcf->lanes
           * sizeof(hymt_quota_t);
}


/* A worker begins: what its forerunner had is gone. */
void
ngx_http_hymt_load_reset(ngx_http_hymt_main_conf_t *hmcf, ngx_uint_t lane)
{
    ngx_uint_t                  i;
    ngx_http_hymt_model_t     **models;
    ngx_http_hymt_loc_conf_t  **locations;

    models = hmcf->models.elts;
    locations = hmcf->locations.elts;

    for (i = 0; i < hmcf->models.nelts; i++) {
        hymt_quota_clear(models[i]->load, lane);
    }

    for (i = 0; i < hmcf->locations.nelts; i++) {
        hymt_quota_clear(locations[i]->load, lane);
    }
}


ngx_int_t
ngx_http_hymt_check_location(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_main_conf_t  *hmcf;

    if (call->conf->concurrency == 0) {
        return NGX_OK;
    }

    hmcf = ngx_http_get_module_main_conf(call->r, ngx_http_hymt_module);

    if (hymt_quota_taken(call->conf->load, hmcf->lanes)
        < (uint64_t) call->conf->concurrency)
    {
        return NGX_OK;
    }

    ngx_http_hymt_busy_location(call);

    return NGX_ERROR;
}


static void
ngx_http_hymt_busy_location(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_fail(call, NGX_HTTP_TOO_MANY_REQUESTS, "queue_full",
                       "this location has %ld requests in hand, as many as it"
                       " may", (long) call->conf->concurrency);
}


ngx_int_t
ngx_http_hymt_load_take(ngx_http_hymt_call_t *call, ngx_uint_t lane)
{
    uint64_t                    requests, tokens;
    ngx_http_hymt_main_conf_t  *hmcf;

    hmcf = ngx_http_get_module_main_conf(call->r, ngx_http_hymt_module);

    requests = call->conf->concurrency;
    tokens = call->model->queue_tokens;

    if (tokens && call->tokens > tokens) {
        ngx_http_hymt_fail(call, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                           "too_large", "the prompts are some %lu tokens; the"
                           " queue of model \"%s\" never has room for more than"
                           " %lu", (unsigned long) call->tokens,
                           call->model->name.data, (unsigned long) tokens);
        return NGX_ERROR;
    }

    if (!hymt_quota_take(call->conf->load, hmcf->lanes, lane, 1,
                         requests ? requests : UINT64_MAX))
    {
        ngx_http_hymt_busy_location(call);
        return NGX_ERROR;
    }

    if (!hymt_quota_take(call->model->load, hmcf->lanes, lane, call->tokens,
                         tokens ? tokens : UINT64_MAX))
    {
        hymt_quota_give(call->conf->load, lane, 1);

        ngx_http_hymt_fail(call, NGX_HTTP_TOO_MANY_REQUESTS, "queue_full",
                           "the queue of model \"%s\" has no room for some %lu"
                           " tokens more", call->model->name.data,
                           (unsigned long) call->tokens);
        return NGX_ERROR;
    }

    call->loaded = 1;

    return NGX_OK;
}


void
ngx_http_hymt_load_give(ngx_http_hymt_call_t *call, ngx_uint_t lane)
{
    if (call->loaded) {
        call->loaded = 0;
        hymt_quota_give(call->conf->load, lane, 1);
        hymt_quota_give(call->model->load, lane, call->tokens);
    }
}
