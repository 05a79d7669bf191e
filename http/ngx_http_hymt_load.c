
/*
 * Copyright (C) the hymt authors
 */


/*
 * What the workers of a configuration have in hand together: tokens by model,
 * requests by location.  A word for each worker, which it alone writes, so that
 * one that dies leaves nothing behind.
 */


#include "ngx_http_hymt.h"


static ngx_uint_t ngx_http_hymt_load(ngx_http_hymt_main_conf_t *hmcf,
    ngx_atomic_t *words);
static ngx_uint_t ngx_http_hymt_tokens(ngx_http_hymt_call_t *call);


/* In the master, over as many zeroed bytes as size() says. */
void
ngx_http_hymt_load_create(ngx_http_hymt_main_conf_t *hmcf, ngx_atomic_t *words)
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
           * sizeof(ngx_atomic_t);
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
        models[i]->load[lane] = 0;
    }

    for (i = 0; i < hmcf->locations.nelts; i++) {
        locations[i]->load[lane] = 0;
    }
}


static ngx_uint_t
ngx_http_hymt_load(ngx_http_hymt_main_conf_t *hmcf, ngx_atomic_t *words)
{
    ngx_uint_t  i, n;

    for (i = 0, n = 0; i < hmcf->lanes; i++) {
        n += words[i];
    }

    return n;
}


/* hymt_concurrency; asked before the body is read, too */
ngx_int_t
ngx_http_hymt_check_location(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_main_conf_t  *hmcf;

    if (call->conf->concurrency == 0) {
        return NGX_OK;
    }

    hmcf = ngx_http_get_module_main_conf(call->r, ngx_http_hymt_module);

    if (ngx_http_hymt_load(hmcf, call->conf->load)
        < (ngx_uint_t) call->conf->concurrency)
    {
        return NGX_OK;
    }

    ngx_http_hymt_fail(call, NGX_HTTP_TOO_MANY_REQUESTS, "queue_full",
                       "this location has %ld requests in hand, as many as it"
                       " may", (long) call->conf->concurrency);

    return NGX_ERROR;
}


/* "queue_tokens", once the texts are known */
ngx_int_t
ngx_http_hymt_check_tokens(ngx_http_hymt_call_t *call)
{
    ngx_uint_t                  n, max;
    ngx_http_hymt_main_conf_t  *hmcf;

    max = call->model->queue_tokens;

    if (max == 0) {
        return NGX_OK;
    }

    hmcf = ngx_http_get_module_main_conf(call->r, ngx_http_hymt_module);
    n = ngx_http_hymt_tokens(call);

    if (n > max) {
        ngx_http_hymt_fail(call, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                           "too_large", "the texts are some %lu tokens; the"
                           " queue of model \"%s\" never has room for more than"
                           " %lu", (unsigned long) n, call->model->name.data,
                           (unsigned long) max);
        return NGX_ERROR;
    }

    if (ngx_http_hymt_load(hmcf, call->model->load) + n <= max) {
        return NGX_OK;
    }

    ngx_http_hymt_fail(call, NGX_HTTP_TOO_MANY_REQUESTS, "queue_full",
                       "the queue of model \"%s\" has no room for some %lu"
                       " tokens more", call->model->name.data,
                       (unsigned long) n);

    return NGX_ERROR;
}


/*
 * Before anything is tokenised: a token for three bytes, between the four of
 * English and the three, or less, of Chinese.
 */
static ngx_uint_t
ngx_http_hymt_tokens(ngx_http_hymt_call_t *call)
{
    size_t      bytes;
    ngx_uint_t  i;

    for (i = 0, bytes = 0; i < call->n_items; i++) {
        bytes += call->items[i].len;
    }

    return bytes / 3 + call->n_items;
}


void
ngx_http_hymt_load_add(ngx_http_hymt_call_t *call, ngx_uint_t lane)
{
    call->tokens = ngx_http_hymt_tokens(call);

    call->model->load[lane] += call->tokens;
    call->conf->load[lane]++;
}


void
ngx_http_hymt_load_remove(ngx_http_hymt_call_t *call, ngx_uint_t lane)
{
    call->model->load[lane] -= call->tokens;
    call->conf->load[lane]--;
}
