
/*
 * Copyright (C) the hymt authors
 */


#include "ngx_http_hymt.h"

#include <jansson.h>


static ngx_uint_t ngx_http_hymt_status_ready(ngx_http_hymt_main_conf_t *hmcf,
    ngx_http_hymt_text_t *out);
static void ngx_http_hymt_status_text(ngx_http_hymt_main_conf_t *hmcf,
    ngx_http_hymt_text_t *out);
static void ngx_http_hymt_status_free(void *data);
static json_t *ngx_http_hymt_status_json(ngx_http_hymt_main_conf_t *hmcf);
static json_t *ngx_http_hymt_status_worker(ngx_http_hymt_main_conf_t *hmcf);
static json_t *ngx_http_hymt_status_model(ngx_http_hymt_main_conf_t *hmcf,
    ngx_http_hymt_model_t *model);
static json_t *ngx_http_hymt_status_languages(hymt_lang_set_t set);
static json_t *ngx_http_hymt_status_counters(ngx_http_hymt_counters_t *c);
static json_t *ngx_http_hymt_status_buffers(ngx_http_hymt_main_conf_t *hmcf);
static json_t *ngx_http_hymt_status_loop(ngx_http_hymt_counters_t *c);


static ngx_str_t  ngx_http_hymt_status_types[] = {
    ngx_string("application/json"),
    ngx_string("text/plain; version=0.0.4; charset=utf-8"),
    ngx_string("text/plain"),
    ngx_string("text/plain")
};


ngx_int_t
ngx_http_hymt_status_handler(ngx_http_request_t *r)
{
    ngx_int_t                   rc;
    ngx_buf_t                  *b;
    ngx_uint_t                  status;
    ngx_chain_t                 out;
    ngx_pool_cleanup_t         *cln;
    ngx_http_hymt_text_t        text;
    ngx_http_hymt_loc_conf_t   *hlcf;
    ngx_http_hymt_main_conf_t  *hmcf;

    ngx_http_hymt_turn_begin();

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        (void) ngx_http_hymt_header(r, "Allow", "GET, HEAD");
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    hmcf = ngx_http_get_module_main_conf(r, ngx_http_hymt_module);
    hlcf = ngx_http_get_module_loc_conf(r, ngx_http_hymt_module);

    b = ngx_calloc_buf(r->pool);
    cln = ngx_pool_cleanup_add(r->pool, 0);

    if (b == NULL || cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_memzero(&text, sizeof(ngx_http_hymt_text_t));
    status = NGX_HTTP_OK;

    switch (hlcf->status) {

    case NGX_HTTP_HYMT_STATUS_PROMETHEUS:
        ngx_http_hymt_prometheus(r, hmcf, hlcf->vllm, &text);
        break;

    case NGX_HTTP_HYMT_STATUS_READY:
        status = ngx_http_hymt_status_ready(hmcf, &text);
        break;

    case NGX_HTTP_HYMT_STATUS_LIVE:
        ngx_http_hymt_append(&text, "live\n", 5);
        break;

    default:
        ngx_http_hymt_status_text(hmcf, &text);
        break;
    }

    cln->handler = ngx_http_hymt_status_free;
    cln->data = text.data;

    if (text.failed || text.len == 0
        || ngx_http_hymt_header(r, "Cache-Control", "no-store") != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->headers_out.status = status;
    r->headers_out.content_type = ngx_http_hymt_status_types[hlcf->status];
    r->headers_out.content_type_len =
                             strcspn((char *) r->headers_out.content_type.data,
                                     ";");
    r->headers_out.content_type_lowcase = NULL;
    r->headers_out.content_length_n = text.len;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b->pos = (u_char *) text.data;
    b->last = b->pos + text.len;
    b->memory = 1;
    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}


/* Whether this worker translates now: 200, or 503 with what is missing. */
static ngx_uint_t
ngx_http_hymt_status_ready(ngx_http_hymt_main_conf_t *hmcf,
    ngx_http_hymt_text_t *out)
{
    ngx_uint_t               i;
    const char              *state;
    hymt_host_info_t         info;
    ngx_http_hymt_model_t  **models;

    if (ngx_exiting || ngx_quit || ngx_terminate) {
        ngx_http_hymt_append(out, "draining\n", 9);
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    models = hmcf->models.elts;

    for (i = 0; i < hmcf->models.nelts; i++) {

        if (!models[i]->used) {
            continue;
        }

        ngx_memzero(&info, sizeof(hymt_host_info_t));

        state = ngx_http_hymt_engine_info(models[i], &info)
                ? ngx_http_hymt_state(hmcf, &info) : "unavailable";

        if (ngx_strcmp(state, "ready") == 0) {
            continue;
        }

        ngx_http_hymt_append(out, (char *) models[i]->name.data,
                             models[i]->name.len);
        ngx_http_hymt_append(out, ": ", 2);
        ngx_http_hymt_append(out, state, ngx_strlen(state));
        ngx_http_hymt_append(out, "\n", 1);
    }

    if (out->len) {
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    ngx_http_hymt_append(out, "ready\n", 6);

    return NGX_HTTP_OK;
}


static void
ngx_http_hymt_status_text(ngx_http_hymt_main_conf_t *hmcf,
    ngx_http_hymt_text_t *out)
{
    char    *text;
    json_t  *root;

    root = ngx_http_hymt_status_json(hmcf);
    text = root ? json_dumps(root, JSON_INDENT(2)|JSON_REAL_PRECISION(9))
                : NULL;
    json_decref(root);

    if (text == NULL) {
        out->failed = 1;
        return;
    }

    ngx_http_hymt_append(out, text, ngx_strlen(text));
    ngx_http_hymt_append(out, "\n", 1);

    free(text);
}


static void
ngx_http_hymt_status_free(void *data)
{
    free(data);
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
                                         ngx_http_hymt_status_model(hmcf,
                                                                    model[i]));
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
                     "pid", (json_int_t)
                     hymt_process_pid(hmcf->roster->process[0]),
                     "ended_in_a_row", (json_int_t) hmcf->roster->ended,
                     "starts_in_seconds", (json_int_t) (wait + 999) / 1000);
}


static json_t *
ngx_http_hymt_status_model(ngx_http_hymt_main_conf_t *hmcf,
    ngx_http_hymt_model_t *model)
{
    hymt_host_info_t        info;
    ngx_http_hymt_stats_t  *stats;

    ngx_memzero(&info, sizeof(hymt_host_info_t));

    (void) ngx_http_hymt_engine_info(model, &info);

    stats = model->stats;

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:f, s:o,"
                     " s:{s:i, s:i, s:i, s:i, s:i},"
                     " s:i, s:{s:i, s:i, s:i}, s:{s:i, s:I, s:I, s:I},"
                     " s:{s:I, s:I, s:I},"
                     " s:{s:I, s:f, s:I, s:I, s:I}, s:{s:I, s:I, s:I, s:I}}",
                     "name", (char *) model->name.data,
                     "path", (char *) model->path.data,
                     "family", hymt_family_name(model->params.family),
                     "backend", (char *) model->backend.data,
                     "state", ngx_http_hymt_state(hmcf, &info),
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
                     "prefix_cache",
                     "blocks", (int) info.prefix_blocks,
                     "hits", (json_int_t) info.prefix_hits,
                     "misses", (json_int_t) info.prefix_misses,
                     "tokens", (json_int_t) info.prefix_tokens,
                     "memory",
                     "weights", (json_int_t) info.bytes_weights,
                     "kv", (json_int_t) info.bytes_kv,
                     "other", (json_int_t) info.bytes_other,
                     "work",
                     "steps", (json_int_t) info.steps,
                     "step_seconds", (double) info.step_ns / 1e9,
                     "prompt_tokens", (json_int_t) info.rows_prefill,
                     "output_tokens", (json_int_t) info.rows_decode,
                     "coalesced", (json_int_t) info.coalesced,
                     "translation_cache",
                     "hits", (json_int_t) stats->cache_hits,
                     "misses", (json_int_t) stats->cache_misses,
                     "stores", (json_int_t) stats->cache_stores,
                     "evictions", (json_int_t) stats->cache_evictions);
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


const char *
ngx_http_hymt_state(ngx_http_hymt_main_conf_t *hmcf,
    const hymt_host_info_t *info)
{
    /* what the last one left */

    if (ngx_http_hymt_backing_off(hmcf)) {
        return "backing off";
    }

    switch (info->state) {

    case HYMT_HOST_NONE:
        return "starting";

    case HYMT_HOST_LOADING:
        return "loading";

    case HYMT_HOST_READY:
        return ngx_http_hymt_stuck(hmcf, info, NGX_HTTP_HYMT_STALL) ? "stuck"
                                                                    : "ready";

    case HYMT_HOST_FAILED:
        return "failed";
    }

    return "stopped";
}
