
/*
 * Copyright (C) the hymt authors
 */


#include "ngx_http_hymt.h"

#include <jansson.h>


static json_t *ngx_http_hymt_status_json(ngx_http_hymt_main_conf_t *hmcf);
static json_t *ngx_http_hymt_status_worker(ngx_http_hymt_main_conf_t *hmcf);
static json_t *ngx_http_hymt_status_model(ngx_http_hymt_main_conf_t *hmcf,
    ngx_http_hymt_model_t *model);
static json_t *ngx_http_hymt_status_languages(hymt_lang_set_t set);
static json_t *ngx_http_hymt_status_counters(ngx_http_hymt_counters_t *c);
static json_t *ngx_http_hymt_status_buffers(ngx_http_hymt_main_conf_t *hmcf);
static json_t *ngx_http_hymt_status_loop(ngx_http_hymt_counters_t *c);
static const char *ngx_http_hymt_state(ngx_http_hymt_main_conf_t *hmcf,
    uint32_t state);


ngx_int_t
ngx_http_hymt_status_handler(ngx_http_request_t *r)
{
    char                       *text;
    size_t                      len;
    json_t                     *root;
    ngx_int_t                   rc;
    ngx_buf_t                  *b;
    ngx_chain_t                 out;
    ngx_http_hymt_main_conf_t  *hmcf;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        (void) ngx_http_hymt_header(r, "Allow", "GET, HEAD");
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    hmcf = ngx_http_get_module_main_conf(r, ngx_http_hymt_module);

    root = ngx_http_hymt_status_json(hmcf);
    text = root ? json_dumps(root, JSON_INDENT(2)|JSON_REAL_PRECISION(9))
                : NULL;
    json_decref(root);

    if (text == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    len = ngx_strlen(text);

    b = ngx_create_temp_buf(r->pool, len + 1);

    if (b == NULL) {
        free(text);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    b->last = ngx_cpymem(b->last, text, len);
    *b->last++ = '\n';

    free(text);

    if (ngx_http_hymt_header(r, "Cache-Control", "no-store") != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->headers_out.status = NGX_HTTP_OK;
    ngx_str_set(&r->headers_out.content_type, "application/json");
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;
    r->headers_out.content_length_n = b->last - b->pos;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}


static json_t *
ngx_http_hymt_status_json(ngx_http_hymt_main_conf_t *hmcf)
{
    json_t                    *models, *root;
    ngx_uint_t                 i;
    ngx_http_hymt_model_t    **model;
    ngx_http_hymt_counters_t  *counters;

    counters = ngx_http_hymt_counters();
    models = json_array();
    model = hmcf->models.elts;

    for (i = 0; i < hmcf->models.nelts; i++) {
        if (model[i]->used) {
            (void) json_array_append_new(models,
                                  ngx_http_hymt_status_model(hmcf, model[i]));
        }
    }

    root = json_pack("{s:s, s:i, s:o}",
                     "version", HYMT_VERSION,
                     "workers", (int) hmcf->lanes,
                     "models", models);

    if (root != NULL && counters != NULL) {
        (void) json_object_set_new(root, "engine_worker",
                                   ngx_http_hymt_status_worker(hmcf));
        (void) json_object_set_new(root, "counters",
                                   ngx_http_hymt_status_counters(counters));
        (void) json_object_set_new(root, "buffers",
                                   ngx_http_hymt_status_buffers(hmcf));
        (void) json_object_set_new(root, "event_loop",
                                   ngx_http_hymt_status_loop(counters));
    }

    return root;
}


static json_t *
ngx_http_hymt_status_worker(ngx_http_hymt_main_conf_t *hmcf)
{
    ngx_msec_t  wait;

    wait = ngx_http_hymt_backing_off(hmcf);

    return json_pack("{s:s, s:I, s:I, s:I}",
                     "mode", hmcf->dedicated ? "dedicated" : "shared",
                     "pid", (json_int_t) hmcf->roster->pid[0],
                     "ended_in_a_row", (json_int_t) hmcf->roster->ended,
                     "starts_in_seconds", (json_int_t) (wait + 999) / 1000);
}


static json_t *
ngx_http_hymt_status_model(ngx_http_hymt_main_conf_t *hmcf,
    ngx_http_hymt_model_t *model)
{
    hymt_host_info_t  info;

    ngx_memzero(&info, sizeof(hymt_host_info_t));

    (void) ngx_http_hymt_engine_info(model, &info);

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:f, s:o,"
                     " s:{s:i, s:i, s:i, s:i, s:i},"
                     " s:i, s:{s:i, s:i, s:i}, s:{s:I, s:I, s:I},"
                     " s:{s:I, s:f, s:I, s:I}}",
                     "name", (char *) model->name.data,
                     "path", (char *) model->path.data,
                     "family", hymt_family_name(model->params.family),
                     "backend", (char *) model->backend.data,
                     "state", ngx_http_hymt_state(hmcf, info.state),
                     "reason", info.reason,
                     "epoch", (int) info.epoch,
                     "load_seconds", (double) info.load_ns / 1e9,
                     "languages",
                     ngx_http_hymt_status_languages(model->params.languages),
                     "queue",
                     "limit", (int) model->queue,
                     "in_flight", (int) ngx_http_hymt_in_flight(model),
                     "waiting", (int) info.waiting,
                     "running", (int) info.running,
                     "max_batch", (int) model->max_batch,
                     "context", (int) model->context,
                     "kv",
                     "block_tokens", HYMT_KV_BLOCK,
                     "blocks", (int) info.kv_blocks,
                     "blocks_used", (int) info.kv_blocks_used,
                     "memory",
                     "weights", (json_int_t) info.bytes_weights,
                     "kv", (json_int_t) info.bytes_kv,
                     "other", (json_int_t) info.bytes_other,
                     "work",
                     "steps", (json_int_t) info.steps,
                     "step_seconds", (double) info.step_ns / 1e9,
                     "prompt_tokens", (json_int_t) info.rows_prefill,
                     "output_tokens", (json_int_t) info.rows_decode);
}


static json_t *
ngx_http_hymt_status_languages(hymt_lang_set_t set)
{
    json_t      *list;
    ngx_uint_t   i;

    list = json_array();

    for (i = 0; i < HYMT_N_LANGS; i++) {
        if (set >> i & 1) {
            (void) json_array_append_new(list,
                                         json_string(hymt_langs[i].code));
        }
    }

    return list;
}


static json_t *
ngx_http_hymt_status_counters(ngx_http_hymt_counters_t *c)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
                     "requests", (json_int_t) c->requests,
                     "texts", (json_int_t) c->texts,
                     "answered", (json_int_t) c->answered,
                     "refused", (json_int_t) c->refused,
                     "rejected", (json_int_t) c->rejected,
                     "failed", (json_int_t) c->failed,
                     "timeouts", (json_int_t) c->timeouts,
                     "canceled", (json_int_t) c->canceled,
                     "resubmitted", (json_int_t) c->resubmitted,
                     "prompt_tokens", (json_int_t) c->tokens_in,
                     "output_tokens", (json_int_t) c->tokens_out);
}


static json_t *
ngx_http_hymt_status_buffers(ngx_http_hymt_main_conf_t *hmcf)
{
    json_t      *used;
    ngx_uint_t   i;

    used = json_array();

    for (i = 0; i < hmcf->lanes; i++) {
        (void) json_array_append_new(used,
            json_integer((json_int_t) hmcf->counters->buffers[i]));
    }

    return json_pack("{s:I, s:o}", "limit_per_worker",
                     (json_int_t) hmcf->buffers, "used", used);
}


static json_t *
ngx_http_hymt_status_loop(ngx_http_hymt_counters_t *c)
{
    json_t      *turns;
    ngx_uint_t   i;

    turns = json_array();

    for (i = 0; i < NGX_HTTP_HYMT_LOOP_BUCKETS; i++) {
        (void) json_array_append_new(turns,
            i < NGX_HTTP_HYMT_LOOP_BUCKETS - 1
            ? json_pack("{s:I, s:I}", "up_to_us",
                        (json_int_t) ngx_http_hymt_loop_us[i],
                        "turns", (json_int_t) c->loop[i])
            : json_pack("{s:n, s:I}", "up_to_us",
                        "turns", (json_int_t) c->loop[i]));
    }

    return json_pack("{s:o, s:I}", "turns", turns,
                     "max_us", (json_int_t) c->loop_max);
}


static const char *
ngx_http_hymt_state(ngx_http_hymt_main_conf_t *hmcf, uint32_t state)
{
    /* what the last one left */

    if (ngx_http_hymt_backing_off(hmcf)) {
        return "backing off";
    }

    switch (state) {

    case HYMT_HOST_NONE:
        return "starting";

    case HYMT_HOST_LOADING:
        return "loading";

    case HYMT_HOST_READY:
        return "ready";

    case HYMT_HOST_FAILED:
        return "failed";
    }

    return "stopped";
}
