
/*
 * Copyright (C) the hymt authors
 */


/*
 * The native API's answers: JSON, events, errors.
 */


#include "ngx_http_hymt_native.h"


/* bytes of an answer to one text beside its translation, about */
#define NGX_HTTP_HYMT_NATIVE_REST  256


typedef void (*ngx_http_hymt_native_pt)(ngx_http_hymt_item_t *item,
    ngx_http_hymt_text_t *out);


static void ngx_http_hymt_native_result(ngx_http_hymt_call_t *call,
    ngx_uint_t done, ngx_http_hymt_text_t *out);
static void ngx_http_hymt_native_each(ngx_http_hymt_call_t *call,
    const char *name, ngx_uint_t array, ngx_http_hymt_native_pt put,
    ngx_http_hymt_text_t *out);
static void ngx_http_hymt_native_text(ngx_http_hymt_item_t *item,
    ngx_http_hymt_text_t *out);
static void ngx_http_hymt_native_source(ngx_http_hymt_item_t *item,
    ngx_http_hymt_text_t *out);
static void ngx_http_hymt_native_detection(ngx_http_hymt_item_t *item,
    ngx_http_hymt_text_t *out);
static void ngx_http_hymt_native_reason(ngx_http_hymt_item_t *item,
    ngx_http_hymt_text_t *out);
static void ngx_http_hymt_native_failure(ngx_http_hymt_item_t *item,
    ngx_http_hymt_text_t *out);
static void ngx_http_hymt_native_ms(ngx_http_hymt_text_t *out,
    const char *name, uint64_t ns);
static void ngx_http_hymt_native_number(ngx_http_hymt_text_t *out, uint64_t n,
    ngx_uint_t digits);
static void ngx_http_hymt_native_string(ngx_http_hymt_text_t *out,
    const char *s);
static void ngx_http_hymt_native_put(ngx_http_hymt_text_t *out,
    const char *s);
static const char *ngx_http_hymt_native_finish(ngx_http_hymt_item_t *item);


void
ngx_http_hymt_native_render(ngx_http_hymt_call_t *call)
{
    char                  *text;
    ngx_http_hymt_item_t  *item;
    ngx_http_hymt_text_t   out;

    if (call->type != NGX_HTTP_HYMT_PLAIN) {
        ngx_memzero(&out, sizeof(ngx_http_hymt_text_t));

        ngx_http_hymt_native_result(call, 0, &out);
        ngx_http_hymt_append(&out, "\n", 1);

        if (out.failed) {
            free(out.data);
            ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR,
                               "internal", "out of memory");
            return;
        }

        ngx_http_hymt_reply_text(call, NGX_HTTP_OK, "application/json",
                                 out.data, out.len);
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
 * "first_token_ms", "total_ms"}, "errors"?}; at the end of events without its
 * translation and with "done".  Written without jansson: making, writing and
 * freeing its values took a quarter of a short request's time.
 */
static void
ngx_http_hymt_native_result(ngx_http_hymt_call_t *call, ngx_uint_t done,
    ngx_http_hymt_text_t *out)
{
    uint64_t     in, made;
    ngx_uint_t   i, failed;

    in = made = 0;
    failed = 0;

    for (i = 0; i < call->n_items; i++) {
        failed += (call->items[i].failure != NULL);
        in += call->items[i].prompt_tokens;
        made += call->items[i].completion_tokens;
    }

    ngx_http_hymt_reserve(out, NGX_HTTP_HYMT_NATIVE_REST
                               + (done ? 0 : call->items[0].out_len));
    ngx_http_hymt_append(out, "{", 1);

    if (!done) {
        ngx_http_hymt_native_each(call, "\"translation\":", call->array,
                                  ngx_http_hymt_native_text, out);
    }

    if (call->detect) {
        ngx_http_hymt_native_each(call, "\"src_lang\":", call->array,
                                  ngx_http_hymt_native_source, out);
        ngx_http_hymt_native_each(call, "\"detection\":", call->array,
                                  ngx_http_hymt_native_detection, out);

    } else if (call->job.src != HYMT_LANG_NONE) {
        ngx_http_hymt_native_put(out, "\"src_lang\":");
        ngx_http_hymt_native_string(out, hymt_langs[call->job.src].code);
        ngx_http_hymt_native_put(out, ",");
    }

    ngx_http_hymt_native_put(out, "\"tgt_lang\":");
    ngx_http_hymt_native_string(out, hymt_langs[call->job.tgt].code);
    ngx_http_hymt_native_put(out, ",\"model\":");
    ngx_http_hymt_native_string(out, (char *) call->model->name.data);
    ngx_http_hymt_native_put(out, ",");

    ngx_http_hymt_native_each(call, "\"finish_reason\":", call->array,
                              ngx_http_hymt_native_reason, out);

    ngx_http_hymt_native_put(out, "\"usage\":{\"prompt_tokens\":");
    ngx_http_hymt_native_number(out, in, 1);
    ngx_http_hymt_native_put(out, ",\"completion_tokens\":");
    ngx_http_hymt_native_number(out, made, 1);
    ngx_http_hymt_native_put(out, "},\"timing\":{");

    ngx_http_hymt_native_ms(out, "\"queue_ms\":", call->queue_ns);
    ngx_http_hymt_native_ms(out, ",\"first_token_ms\":", call->first_ns);
    ngx_http_hymt_native_ms(out, ",\"total_ms\":", call->end_ns);
    ngx_http_hymt_native_put(out, "},");

    if (failed) {
        ngx_http_hymt_native_each(call, "\"errors\":", 1,
                                  ngx_http_hymt_native_failure, out);
    }

    if (done) {
        ngx_http_hymt_native_put(out, "\"done\":true,");
    }

    /* each member has a comma behind it */

    if (!out->failed) {
        out->data[out->len - 1] = '}';
    }
}


/* What each text has, in an array where the texts came in one. */
static void
ngx_http_hymt_native_each(ngx_http_hymt_call_t *call, const char *name,
    ngx_uint_t array, ngx_http_hymt_native_pt put, ngx_http_hymt_text_t *out)
{
    ngx_uint_t  i;

    ngx_http_hymt_native_put(out, name);

    if (!array) {
        put(&call->items[0], out);
        ngx_http_hymt_native_put(out, ",");
        return;
    }

    ngx_http_hymt_native_put(out, "[");

    for (i = 0; i < call->n_items; i++) {

        if (i) {
            ngx_http_hymt_native_put(out, ",");
        }

        put(&call->items[i], out);
    }

    ngx_http_hymt_native_put(out, "],");
}


static void
ngx_http_hymt_native_text(ngx_http_hymt_item_t *item,
    ngx_http_hymt_text_t *out)
{
    if (item->failure != NULL) {
        ngx_http_hymt_native_put(out, "null");
        return;
    }

    ngx_http_hymt_append_string(out, item->out, item->out_len);
}


static void
ngx_http_hymt_native_source(ngx_http_hymt_item_t *item,
    ngx_http_hymt_text_t *out)
{
    if (item->detected == HYMT_LANG_NONE) {
        ngx_http_hymt_native_put(out, "null");
        return;
    }

    ngx_http_hymt_native_string(out, hymt_langs[item->detected].code);
}


static void
ngx_http_hymt_native_detection(ngx_http_hymt_item_t *item,
    ngx_http_hymt_text_t *out)
{
    char    s[64];
    double  x;

    x = item->confidence;

    (void) snprintf(s, sizeof(s), (x == 0 || x == 1)
                    ? "{\"confidence\":%.1f,\"too_short\":%s}"
                    : "{\"confidence\":%.6g,\"too_short\":%s}",
                    x, item->too_short ? "true" : "false");
    ngx_http_hymt_native_put(out, s);
}


static void
ngx_http_hymt_native_reason(ngx_http_hymt_item_t *item,
    ngx_http_hymt_text_t *out)
{
    ngx_http_hymt_native_string(out, ngx_http_hymt_native_finish(item));
}


static void
ngx_http_hymt_native_failure(ngx_http_hymt_item_t *item,
    ngx_http_hymt_text_t *out)
{
    if (item->failure == NULL) {
        ngx_http_hymt_native_put(out, "null");
        return;
    }

    ngx_http_hymt_native_put(out, "{\"code\":");
    ngx_http_hymt_native_string(out, item->failure->code);
    ngx_http_hymt_native_put(out, ",\"message\":");
    ngx_http_hymt_native_string(out, item->failure->message);
    ngx_http_hymt_native_put(out, "}");
}


/* To the microsecond. */
static void
ngx_http_hymt_native_ms(ngx_http_hymt_text_t *out, const char *name,
    uint64_t ns)
{
    ngx_http_hymt_native_put(out, name);
    ngx_http_hymt_native_number(out, ns / 1000000, 1);
    ngx_http_hymt_native_put(out, ".");
    ngx_http_hymt_native_number(out, ns / 1000 % 1000, 3);
}


/* So many digits at least.  printf() would take longer than all the rest. */
static void
ngx_http_hymt_native_number(ngx_http_hymt_text_t *out, uint64_t n,
    ngx_uint_t digits)
{
    char  s[NGX_INT64_LEN], *p, *end;

    end = s + sizeof(s);
    p = end;

    do {
        *--p = (char) ('0' + n % 10);
        n /= 10;
    } while (n != 0 || end - p < (ptrdiff_t) digits);

    ngx_http_hymt_append(out, p, end - p);
}


static void
ngx_http_hymt_native_string(ngx_http_hymt_text_t *out, const char *s)
{
    ngx_http_hymt_append_string(out, s, strlen(s));
}


static void
ngx_http_hymt_native_put(ngx_http_hymt_text_t *out, const char *s)
{
    ngx_http_hymt_append(out, s, strlen(s));
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
    ngx_http_hymt_append(out, "data: ", 6);
    ngx_http_hymt_native_result(call, 1, out);
    ngx_http_hymt_append(out, "\n\n", 2);
}


void
ngx_http_hymt_native_broken(ngx_http_hymt_call_t *call,
    ngx_http_hymt_failure_t *f, ngx_http_hymt_text_t *out)
{
    ngx_http_hymt_append_event(out, ngx_http_hymt_native_error(f));
}
