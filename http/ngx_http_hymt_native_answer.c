
/*
 * Copyright (C) the hymt authors
 */


/*
 * The native API's answers: JSON, events, errors.
 */


#include "ngx_http_hymt_native.h"


static json_t *ngx_http_hymt_native_result(ngx_http_hymt_call_t *call,
    ngx_uint_t with_text);
static const char *ngx_http_hymt_native_finish(ngx_http_hymt_item_t *item);


void
ngx_http_hymt_native_render(ngx_http_hymt_call_t *call)
{
    char                  *text;
    ngx_http_hymt_item_t  *item;

    if (call->type != NGX_HTTP_HYMT_PLAIN) {
        ngx_http_hymt_reply(call, NGX_HTTP_OK,
                            ngx_http_hymt_native_result(call, 1));
        return;
    }

    item = &call->items[0];
    text = malloc(item->out_len + 1);

    if (text == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        return;
    }

    ngx_memcpy(text, item->out, item->out_len);

    ngx_http_hymt_reply_text(call, NGX_HTTP_OK, "text/plain; charset=utf-8",
                             text, item->out_len);
}


/*
 * {"translation", "src_lang"?, "tgt_lang", "model", "finish_reason", "usage":
 * {"prompt_tokens", "completion_tokens"}, "timing": {"queue_ms",
 * "first_token_ms", "total_ms"}, "errors"?}
 */
static json_t *
ngx_http_hymt_native_result(ngx_http_hymt_call_t *call, ngx_uint_t with_text)
{
    json_t                *root, *texts, *reasons, *errors, *sources;
    json_t                *detections;
    int32_t                src;
    uint64_t               in, out;
    ngx_uint_t             i, failed;
    ngx_http_hymt_item_t  *item;

    texts = json_array();
    reasons = json_array();
    errors = json_array();
    sources = json_array();
    detections = json_array();

    in = out = 0;
    failed = 0;

    for (i = 0; i < call->n_items; i++) {
        item = &call->items[i];
        src = call->detect ? item->detected : item->src;

        (void) json_array_append_new(texts, item->failure ? json_null()
                                     : json_stringn(item->out,
                                                    item->out_len));
        (void) json_array_append_new(reasons,
                         json_string(ngx_http_hymt_native_finish(item)));
        (void) json_array_append_new(errors, item->failure == NULL
                         ? json_null()
                         : json_pack("{s:s, s:s}",
                                     "code", item->failure->code,
                                     "message", item->failure->message));
        (void) json_array_append_new(detections,
                         json_pack("{s:f, s:b}",
                                   "confidence", item->confidence,
                                   "too_short", (int) item->too_short));
        (void) json_array_append_new(sources, src == HYMT_LANG_NONE
                         ? json_null() : json_string(hymt_langs[src].code));

        failed += (item->failure != NULL);
        in += item->prompt_tokens;
        out += item->completion_tokens;
    }

    root = json_object();

    if (with_text) {
        (void) json_object_set(root, "translation", call->array ? texts
                               : json_array_get(texts, 0));
    }

    if (call->detect) {
        (void) json_object_set(root, "src_lang", call->array ? sources
                               : json_array_get(sources, 0));
        (void) json_object_set(root, "detection", call->array ? detections
                               : json_array_get(detections, 0));

    } else if (call->job.src != HYMT_LANG_NONE) {
        (void) json_object_set_new(root, "src_lang",
                            json_string(hymt_langs[call->job.src].code));
    }

    (void) json_object_set_new(root, "tgt_lang",
                               json_string(hymt_langs[call->job.tgt].code));
    (void) json_object_set_new(root, "model",
                            json_string((char *) call->model->name.data));
    (void) json_object_set(root, "finish_reason", call->array ? reasons
                           : json_array_get(reasons, 0));
    (void) json_object_set_new(root, "usage",
                               json_pack("{s:I, s:I}",
                                         "prompt_tokens", (json_int_t) in,
                                         "completion_tokens",
                                         (json_int_t) out));
    (void) json_object_set_new(root, "timing",
                               json_pack("{s:f, s:f, s:f}",
                                         "queue_ms",
                                         (double) call->queue_ns / 1e6,
                                         "first_token_ms",
                                         (double) call->first_ns / 1e6,
                                         "total_ms",
                                         (double) call->end_ns / 1e6));

    if (failed) {
        (void) json_object_set(root, "errors", errors);
    }

    /* short arrays mean that memory was */

    if (json_array_size(texts) != call->n_items
        || json_array_size(reasons) != call->n_items
        || json_array_size(errors) != call->n_items
        || json_array_size(sources) != call->n_items
        || json_array_size(detections) != call->n_items)
    {
        json_decref(root);
        root = NULL;
    }

    json_decref(texts);
    json_decref(reasons);
    json_decref(errors);
    json_decref(sources);
    json_decref(detections);

    return root;
}


static const char *
ngx_http_hymt_native_finish(ngx_http_hymt_item_t *item)
{
    if (item->failure != NULL) {
        return "error";
    }

    switch (item->finish) {

    case HYMT_FINISH_LENGTH:
        return "length";

    case HYMT_FINISH_LOOP:
        return "loop";
    }

    return "stop";
}


void
ngx_http_hymt_native_languages(ngx_http_hymt_call_t *call)
{
    json_t      *list;
    ngx_uint_t   i;

    list = json_array();

    for (i = 0; i < HYMT_N_LANGS; i++) {
        if (call->model->params.languages >> i & 1) {
            (void) json_array_append_new(list,
                                 json_pack("{s:s, s:s}",
                                           "code", hymt_langs[i].code,
                                           "name", hymt_langs[i].english));
        }
    }

    ngx_http_hymt_reply(call, NGX_HTTP_OK,
                        json_pack("{s:s, s:o}",
                                  "model", (char *) call->model->name.data,
                                  "languages", list));
}


json_t *
ngx_http_hymt_native_error(ngx_http_hymt_failure_t *f)
{
    return json_pack("{s:{s:s, s:s}}", "error", "code", f->code,
                     "message", f->message);
}


/*
 * Events: {"delta": "..."} as text comes, then one like the answer without its
 * text and with "done": true; {"error": {...}} where it breaks.
 */
void
ngx_http_hymt_native_delta(ngx_http_hymt_call_t *call, const char *text,
    size_t len, ngx_http_hymt_text_t *out)
{
    ngx_http_hymt_append_event(out, json_pack("{s:s%}", "delta", text, len));
}


void
ngx_http_hymt_native_end(ngx_http_hymt_call_t *call, ngx_http_hymt_text_t *out)
{
    json_t  *root;

    root = ngx_http_hymt_native_result(call, 0);

    if (root != NULL) {
        (void) json_object_set_new(root, "done", json_true());
    }

    ngx_http_hymt_append_event(out, root);
}


void
ngx_http_hymt_native_broken(ngx_http_hymt_call_t *call,
    ngx_http_hymt_failure_t *f, ngx_http_hymt_text_t *out)
{
    ngx_http_hymt_append_event(out, ngx_http_hymt_native_error(f));
}
