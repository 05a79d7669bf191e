
/*
 * Copyright (C) the hymt authors
 */


/*
 * OpenAI's API, as far as a translation model goes.
 *
 *   POST chat/completions   the client's own prompt, answered or streamed
 *   GET  models, models/ID
 *
 * The messages go into the model's chat template as they are: nothing is added,
 * cut into units or looked after.  null is as good as absent, and fields that
 * are not known are left alone.
 */


#include "ngx_http_hymt_openai.h"


typedef struct {
    const char    *ours;
    ngx_uint_t     status;          /* 0: as it is */
    const char    *type;
    const char    *code;
} ngx_http_hymt_openai_error_t;


static void ngx_http_hymt_openai_render(ngx_http_hymt_call_t *call);
static const char *ngx_http_hymt_openai_finish(ngx_http_hymt_item_t *item);
static json_t *ngx_http_hymt_openai_usage(ngx_http_hymt_item_t *item);
static void ngx_http_hymt_openai_delta(ngx_http_hymt_call_t *call,
    const char *text, size_t len, ngx_http_hymt_text_t *out);
static void ngx_http_hymt_openai_begin(ngx_http_hymt_call_t *call,
    ngx_http_hymt_text_t *out);
static json_t *ngx_http_hymt_openai_chunk(ngx_http_hymt_openai_t *openai,
    json_t *delta, const char *finish);
static void ngx_http_hymt_openai_end(ngx_http_hymt_call_t *call,
    ngx_http_hymt_text_t *out);
static void ngx_http_hymt_openai_broken(ngx_http_hymt_call_t *call,
    ngx_http_hymt_failure_t *f, ngx_http_hymt_text_t *out);
static void ngx_http_hymt_openai_models(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_openai_one_model(ngx_http_hymt_call_t *call);
static json_t *ngx_http_hymt_openai_model_json(ngx_http_hymt_model_t *model,
    const char *name);
static json_t *ngx_http_hymt_openai_error(ngx_http_hymt_failure_t *f);


static ngx_http_hymt_endpoint_t  ngx_http_hymt_openai_endpoints[] = {

    { NGX_HTTP_POST, "chat/completions",
      NGX_HTTP_HYMT_JSON, 1, 0,
      ngx_http_hymt_openai_chat, ngx_http_hymt_openai_render },

    { NGX_HTTP_GET, "models",
      0, 0, 0,
      ngx_http_hymt_openai_models, NULL },

    { NGX_HTTP_GET, "models/*",
      0, 0, 0,
      ngx_http_hymt_openai_one_model, NULL },

    /* the same where the location is a folder above */

    { NGX_HTTP_POST, "v1/chat/completions",
      NGX_HTTP_HYMT_JSON, 1, 0,
      ngx_http_hymt_openai_chat, ngx_http_hymt_openai_render },

    { NGX_HTTP_GET, "v1/models",
      0, 0, 0,
      ngx_http_hymt_openai_models, NULL },

    { NGX_HTTP_GET, "v1/models/*",
      0, 0, 0,
      ngx_http_hymt_openai_one_model, NULL },

    { 0, NULL, 0, 0, 0, NULL, NULL }
};


/* clients tell errors apart by their status first */

static ngx_http_hymt_openai_error_t  ngx_http_hymt_openai_errors[] = {
    { "missing_field", 0, "invalid_request_error",
      "missing_required_parameter" },
    { "text_too_long", NGX_HTTP_BAD_REQUEST, "invalid_request_error",
      "context_length_exceeded" },
    { "queue_full", 0, "requests", "rate_limit_exceeded" },
    { "internal", 0, "server_error", "internal" },
    { "loading", 0, "server_error", "loading" },
    { "unavailable", 0, "server_error", "unavailable" },
    { "buffers_full", 0, "server_error", "buffers_full" },
    { "timeout", 0, "server_error", "timeout" },
    { NULL, 0, "invalid_request_error", NULL }
};


ngx_http_hymt_api_t  ngx_http_hymt_openai = {
    ngx_string("openai"),
    ngx_http_hymt_openai_endpoints,
    ngx_http_hymt_openai_error,
    ngx_http_hymt_openai_delta,
    ngx_http_hymt_openai_end,
    ngx_http_hymt_openai_broken
};


static void
ngx_http_hymt_openai_render(ngx_http_hymt_call_t *call)
{
    json_t                  *message;
    ngx_http_hymt_item_t    *item;
    ngx_http_hymt_openai_t  *openai;

    openai = call->data;
    item = &call->items[0];

    message = json_pack("{s:s, s:s%, s:n}", "role", "assistant",
                        "content", item->out, item->out_len, "refusal");

    ngx_http_hymt_reply(call, NGX_HTTP_OK,
                        json_pack("{s:s, s:s, s:I, s:s, s:[{s:i, s:o, s:n,"
                                  " s:s}], s:o, s:n}",
                                  "id", openai->id,
                                  "object", "chat.completion",
                                  "created", openai->created,
                                  "model", openai->model,
                                  "choices",
                                  "index", 0,
                                  "message", message,
                                  "logprobs",
                                  "finish_reason",
                                  ngx_http_hymt_openai_finish(item),
                                  "usage", ngx_http_hymt_openai_usage(item),
                                  "system_fingerprint"));
}


static const char *
ngx_http_hymt_openai_finish(ngx_http_hymt_item_t *item)
{
    return item->finish == HYMT_FINISH_STOP ? "stop" : "length";
}


static json_t *
ngx_http_hymt_openai_usage(ngx_http_hymt_item_t *item)
{
    return json_pack("{s:I, s:I, s:I, s:{s:i}}",
                     "prompt_tokens", (json_int_t) item->prompt_tokens,
                     "completion_tokens",
                     (json_int_t) item->completion_tokens,
                     "total_tokens", (json_int_t) item->prompt_tokens
                                     + item->completion_tokens,
                     "prompt_tokens_details", "cached_tokens", 0);
}


/*
 * Events: a delta with the role, deltas with text, one with the reason of the
 * end, the usage where it is wanted, and [DONE]; an error instead, where the
 * stream breaks.
 */
static void
ngx_http_hymt_openai_delta(ngx_http_hymt_call_t *call, const char *text,
    size_t len, ngx_http_hymt_text_t *out)
{
    ngx_http_hymt_openai_begin(call, out);

    ngx_http_hymt_append_event(out,
        ngx_http_hymt_openai_chunk(call->data,
                                   json_pack("{s:s%}", "content", text, len),
                                   NULL));
}


static void
ngx_http_hymt_openai_begin(ngx_http_hymt_call_t *call,
    ngx_http_hymt_text_t *out)
{
    ngx_http_hymt_openai_t  *openai;

    openai = call->data;

    if (openai->began) {
        return;
    }

    openai->began = 1;

    ngx_http_hymt_append_event(out,
        ngx_http_hymt_openai_chunk(openai,
                                   json_pack("{s:s, s:s}",
                                             "role", "assistant",
                                             "content", ""),
                                   NULL));
}


static json_t *
ngx_http_hymt_openai_chunk(ngx_http_hymt_openai_t *openai, json_t *delta,
    const char *finish)
{
    json_t  *root, *choices;

    choices = delta ? json_pack("[{s:i, s:o, s:n, s:s?}]",
                                "index", 0,
                                "delta", delta,
                                "logprobs",
                                "finish_reason", finish)
                    : json_array();

    root = json_pack("{s:s, s:s, s:I, s:s, s:n, s:o}",
                     "id", openai->id,
                     "object", "chat.completion.chunk",
                     "created", openai->created,
                     "model", openai->model,
                     "system_fingerprint",
                     "choices", choices);

    /* where usage comes at the end, every chunk has a place for it */

    if (root != NULL && openai->usage
        && json_object_set_new(root, "usage", json_null()) != 0)
    {
        json_decref(root);
        return NULL;
    }

    return root;
}


static void
ngx_http_hymt_openai_end(ngx_http_hymt_call_t *call, ngx_http_hymt_text_t *out)
{
    json_t                  *root;
    ngx_http_hymt_item_t    *item;
    ngx_http_hymt_openai_t  *openai;

    openai = call->data;
    item = &call->items[0];

    ngx_http_hymt_openai_begin(call, out);

    ngx_http_hymt_append_event(out,
        ngx_http_hymt_openai_chunk(openai, json_object(),
                                   ngx_http_hymt_openai_finish(item)));

    if (openai->usage) {
        root = ngx_http_hymt_openai_chunk(openai, NULL, NULL);

        if (root != NULL) {
            (void) json_object_set_new(root, "usage",
                                       ngx_http_hymt_openai_usage(item));
        }

        ngx_http_hymt_append_event(out, root);
    }

    ngx_http_hymt_append(out, "data: [DONE]\n\n", 14);
}


/* no [DONE]: it is not */
static void
ngx_http_hymt_openai_broken(ngx_http_hymt_call_t *call,
    ngx_http_hymt_failure_t *f, ngx_http_hymt_text_t *out)
{
    ngx_http_hymt_append_event(out, ngx_http_hymt_openai_error(f));
}


static void
ngx_http_hymt_openai_models(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_reply(call, NGX_HTTP_OK,
                        json_pack("{s:s, s:[o]}", "object", "list", "data",
                                  ngx_http_hymt_openai_model_json(call->model,
                                      (char *) call->model->name.data)));
}


static void
ngx_http_hymt_openai_one_model(ngx_http_hymt_call_t *call)
{
    if (ngx_http_hymt_openai_named(call->model, call->part,
                                   strlen(call->part))
        != NGX_OK)
    {
        ngx_http_hymt_fail(call, NGX_HTTP_NOT_FOUND, "model_not_found",
                           "The model `%.100s` does not exist: this is `%s`",
                           call->part, call->model->name.data);
        (void) ngx_http_hymt_openai_param(call, "model");
        return;
    }

    ngx_http_hymt_reply(call, NGX_HTTP_OK,
                        ngx_http_hymt_openai_model_json(call->model,
                                                        call->part));
}


static json_t *
ngx_http_hymt_openai_model_json(ngx_http_hymt_model_t *model,
    const char *name)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:I}",
                     "id", name,
                     "object", "model",
                     "created", (json_int_t) model->created,
                     "owned_by", "hymt",
                     "max_model_len", (json_int_t) model->context);
}


static json_t *
ngx_http_hymt_openai_error(ngx_http_hymt_failure_t *f)
{
    ngx_http_hymt_openai_error_t  *e;

    for (e = ngx_http_hymt_openai_errors; e->ours; e++) {
        if (strcmp(e->ours, f->code) == 0) {
            break;
        }
    }

    if (e->status) {
        f->status = e->status;
    }

    return json_pack("{s:{s:s, s:s, s:s?, s:s}}", "error",
                     "message", f->message,
                     "type", e->type,
                     "param", f->param[0] ? f->param : NULL,
                     "code", e->code ? e->code : f->code);
}
