
/*
 * Copyright (C) the hymt authors
 */


/*
 * A request for a chat of OpenAI's API: messages into turns of the model's chat
 * template, and the options.  Any thread.
 */


#include "ngx_http_hymt_openai.h"
#include "job_parts.h"


#define NGX_HTTP_HYMT_OPENAI_STOPS  4


static ngx_http_hymt_openai_t *ngx_http_hymt_openai_create(
    ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_openai_model(ngx_http_hymt_call_t *call,
    ngx_http_hymt_openai_t *openai);
static ngx_int_t ngx_http_hymt_openai_messages(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_openai_turns(ngx_http_hymt_call_t *call,
    ngx_http_hymt_text_t *out);
static ngx_int_t ngx_http_hymt_openai_message(ngx_http_hymt_call_t *call,
    json_t *message, size_t i, hymt_role_t *role, ngx_http_hymt_text_t *out);
static ngx_int_t ngx_http_hymt_openai_role(ngx_http_hymt_call_t *call,
    json_t *value, size_t i, hymt_role_t *role);
static ngx_int_t ngx_http_hymt_openai_content(ngx_http_hymt_call_t *call,
    json_t *value, size_t i, hymt_role_t role, ngx_http_hymt_text_t *out);
static ngx_int_t ngx_http_hymt_openai_turn(ngx_http_hymt_call_t *call,
    hymt_turn_t *turn, ngx_http_hymt_text_t *out);
static ngx_int_t ngx_http_hymt_openai_sampling(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_openai_real(ngx_http_hymt_call_t *call,
    const char *name, float *value);
static ngx_int_t ngx_http_hymt_openai_integer(ngx_http_hymt_call_t *call,
    const char *name, int64_t low, int64_t high, int64_t *value);
static ngx_int_t ngx_http_hymt_openai_limits(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_openai_stop(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_openai_stop_ids(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_openai_stream(ngx_http_hymt_call_t *call,
    ngx_http_hymt_openai_t *openai);
static ngx_int_t ngx_http_hymt_openai_fault(ngx_http_hymt_call_t *call,
    const char *code, const char *param, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static ngx_int_t ngx_http_hymt_openai_wrong(ngx_http_hymt_call_t *call,
    const char *param, const char *want, json_t *value);
static ngx_int_t ngx_http_hymt_openai_no_memory(ngx_http_hymt_call_t *call);


void
ngx_http_hymt_openai_chat(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_openai_t  *openai;

    ngx_http_hymt_defaults(call);

    openai = ngx_http_hymt_openai_create(call);

    if (openai == NULL
        || ngx_http_hymt_params(call) == NULL
        || ngx_http_hymt_openai_model(call, openai) != NGX_OK
        || ngx_http_hymt_openai_messages(call) != NGX_OK
        || ngx_http_hymt_openai_sampling(call) != NGX_OK
        || ngx_http_hymt_openai_limits(call) != NGX_OK
        || ngx_http_hymt_openai_stop(call) != NGX_OK
        || ngx_http_hymt_openai_stop_ids(call) != NGX_OK
        || ngx_http_hymt_openai_stream(call, openai) != NGX_OK)
    {
        return;
    }

    (void) ngx_http_hymt_prepare(call);
}


static ngx_http_hymt_openai_t *
ngx_http_hymt_openai_create(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_openai_t  *openai;

    openai = calloc(1, sizeof(ngx_http_hymt_openai_t));

    if (openai == NULL) {
        (void) ngx_http_hymt_openai_no_memory(call);
        return NULL;
    }

    call->data = openai;
    call->chat = 1;

    (void) snprintf(openai->id, sizeof(openai->id),
                    "chatcmpl-%08lx%08lx%08lx", (unsigned long) ngx_random(),
                    (unsigned long) ngx_random(),
                    (unsigned long) ngx_random());

    openai->created = (json_int_t) ngx_time();
    openai->model = (char *) call->model->name.data;

    return openai;
}


/* A location has one model; a client may name it, and none but it. */
static ngx_int_t
ngx_http_hymt_openai_model(ngx_http_hymt_call_t *call,
    ngx_http_hymt_openai_t *openai)
{
    size_t      len;
    ngx_int_t   rc;

    len = 0;
    rc = ngx_http_hymt_param_string(call, "model", &openai->model, &len);

    if (rc == NGX_ERROR) {
        return ngx_http_hymt_openai_param(call, "model");
    }

    if (rc == NGX_DECLINED
        || ngx_http_hymt_openai_named(call->model, openai->model, len)
           == NGX_OK)
    {
        return NGX_OK;
    }

    ngx_http_hymt_fail(call, NGX_HTTP_NOT_FOUND, "model_not_found",
                       "The model `%.100s` does not exist: this is `%s`",
                       openai->model, call->model->name.data);

    return ngx_http_hymt_openai_param(call, "model");
}


/* NGX_OK: it is the model's name, or that of its directory. */
ngx_int_t
ngx_http_hymt_openai_named(ngx_http_hymt_model_t *model, const char *name,
    size_t len)
{
    size_t   n;
    u_char  *base, *end;

    if (len == model->name.len
        && ngx_strncmp(name, model->name.data, len) == 0)
    {
        return NGX_OK;
    }

    end = model->path.data + model->path.len;

    while (end > model->path.data && end[-1] == '/') {
        end--;
    }

    base = end;

    while (base > model->path.data && base[-1] != '/') {
        base--;
    }

    n = end - base;

    return (n > 0 && len == n && ngx_strncmp(name, base, n) == 0)
           ? NGX_OK : NGX_DECLINED;
}


static ngx_int_t
ngx_http_hymt_openai_messages(ngx_http_hymt_call_t *call)
{
    size_t                 n;
    json_t                *list, *turns;
    ngx_int_t              rc;
    ngx_http_hymt_text_t   out;

    list = json_object_get(call->root, "messages");

    if (list == NULL || json_is_null(list)) {
        return ngx_http_hymt_openai_fault(call, "missing_field", "messages",
                                          "messages are missing");
    }

    if (!json_is_array(list)) {
        return ngx_http_hymt_openai_wrong(call, "messages", "an array", list);
    }

    n = json_array_size(list);

    if (n == 0 || n > HYMT_MAX_TURNS) {
        return ngx_http_hymt_openai_fault(call, "invalid_value", "messages",
                                          "messages must be 1 to %d, not %lu",
                                          HYMT_MAX_TURNS, (unsigned long) n);
    }

    ngx_memzero(&out, sizeof(ngx_http_hymt_text_t));

    rc = ngx_http_hymt_openai_turns(call, &out);

    /* in place of the messages: the parameters own the texts of items */

    turns = rc == NGX_OK ? json_stringn_nocheck(out.data, out.len) : NULL;

    free(out.data);

    if (rc != NGX_OK) {
        return NGX_ERROR;
    }

    if (json_object_set_new(call->root, "messages", turns) != 0) {
        return ngx_http_hymt_openai_no_memory(call);
    }

    if (ngx_http_hymt_items(call, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    call->items[0].text = json_string_value(turns);
    call->items[0].len = json_string_length(turns);

    return NGX_OK;
}


/* What the chat template makes of them is the engine's to judge. */
static ngx_int_t
ngx_http_hymt_openai_turns(ngx_http_hymt_call_t *call,
    ngx_http_hymt_text_t *out)
{
    size_t        i;
    json_t       *list, *message;
    hymt_role_t   role;

    list = json_object_get(call->root, "messages");
    role = HYMT_ROLE_SYSTEM;

    json_array_foreach(list, i, message) {
        if (ngx_http_hymt_openai_message(call, message, i, &role, out)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    if (role != HYMT_ROLE_USER) {
        return ngx_http_hymt_openai_fault(call, "invalid_value", "messages",
                                          "the last message must be the"
                                          " user's");
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_openai_message(ngx_http_hymt_call_t *call, json_t *message,
    size_t i, hymt_role_t *role, ngx_http_hymt_text_t *out)
{
    char                   param[64];
    ngx_int_t              rc;
    hymt_turn_t            turn;
    ngx_http_hymt_text_t   content;

    (void) snprintf(param, sizeof(param), "messages[%lu]", (unsigned long) i);

    if (!json_is_object(message)) {
        return ngx_http_hymt_openai_wrong(call, param, "an object", message);
    }

    if (ngx_http_hymt_openai_role(call, json_object_get(message, "role"), i,
                                  role) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_memzero(&content, sizeof(ngx_http_hymt_text_t));

    rc = ngx_http_hymt_openai_content(call,
                                      json_object_get(message, "content"), i,
                                      *role, &content);

    if (rc == NGX_OK) {
        turn.role = *role;
        turn.content = content.data;
        turn.len = content.len;

        rc = ngx_http_hymt_openai_turn(call, &turn, out);
    }

    free(content.data);

    return rc;
}


static ngx_int_t
ngx_http_hymt_openai_role(ngx_http_hymt_call_t *call, json_t *value, size_t i,
    hymt_role_t *role)
{
    char         param[64];
    ngx_uint_t   k;
    const char  *name;

    static const struct {
        const char   *name;
        hymt_role_t   role;
    } roles[] = {
        { "user", HYMT_ROLE_USER },
        { "assistant", HYMT_ROLE_ASSISTANT },
        { "system", HYMT_ROLE_SYSTEM },
        { "developer", HYMT_ROLE_SYSTEM },
    };

    (void) snprintf(param, sizeof(param), "messages[%lu].role",
                    (unsigned long) i);

    if (value == NULL || json_is_null(value)) {
        return ngx_http_hymt_openai_fault(call, "missing_field", param,
                                          "%s is missing", param);
    }

    name = json_string_value(value);

    if (name == NULL) {
        return ngx_http_hymt_openai_wrong(call, param, "a string", value);
    }

    for (k = 0; k < sizeof(roles) / sizeof(roles[0]); k++) {
        if (strcmp(name, roles[k].name) == 0) {
            break;
        }
    }

    if (k == sizeof(roles) / sizeof(roles[0])) {
        return ngx_http_hymt_openai_fault(call, "invalid_value", param,
                                          "%s must be system, user or"
                                          " assistant, not \"%.40s\"", param,
                                          name);
    }

    *role = roles[k].role;

    if (*role == HYMT_ROLE_SYSTEM && i > 0) {
        return ngx_http_hymt_openai_fault(call, "invalid_value", param,
                                          "%s: only the first message can be"
                                          " of the role %s", param, name);
    }

    return NGX_OK;
}


/* A string, or a list of parts; lines of their own, where they are several. */
static ngx_int_t
ngx_http_hymt_openai_content(ngx_http_hymt_call_t *call, json_t *value,
    size_t i, hymt_role_t role, ngx_http_hymt_text_t *out)
{
    char         param[64];
    size_t       k;
    json_t      *part, *text;
    const char  *type;

    (void) snprintf(param, sizeof(param), "messages[%lu].content",
                    (unsigned long) i);

    if (json_is_string(value)) {
        ngx_http_hymt_append(out, json_string_value(value),
                             json_string_length(value));

    } else if (json_is_array(value)) {

        json_array_foreach(value, k, part) {
            (void) snprintf(param, sizeof(param), "messages[%lu].content[%lu]",
                            (unsigned long) i, (unsigned long) k);

            type = json_string_value(json_object_get(part, "type"));
            text = json_object_get(part, "text");

            if (type == NULL || strcmp(type, "text") != 0
                || !json_is_string(text))
            {
                return ngx_http_hymt_openai_fault(call, "invalid_value", param,
                                                  "%s must be {\"type\":"
                                                  " \"text\", \"text\":"
                                                  " \"...\"}: the model reads"
                                                  " nothing else", param);
            }

            ngx_http_hymt_append(out, "\n", k ? 1 : 0);
            ngx_http_hymt_append(out, json_string_value(text),
                                 json_string_length(text));
        }

    } else if (value != NULL && !json_is_null(value)) {
        return ngx_http_hymt_openai_wrong(call, param,
                                          "a string or an array of parts",
                                          value);

    } else if (role != HYMT_ROLE_ASSISTANT) {
        return ngx_http_hymt_openai_fault(call, "missing_field", param,
                                          "%s is missing", param);
    }

    if (role == HYMT_ROLE_USER && out->len == 0) {
        return ngx_http_hymt_openai_fault(call, "invalid_value", param,
                                          "%s is empty", param);
    }

    return out->failed ? ngx_http_hymt_openai_no_memory(call) : NGX_OK;
}


static ngx_int_t
ngx_http_hymt_openai_turn(ngx_http_hymt_call_t *call, hymt_turn_t *turn,
    ngx_http_hymt_text_t *out)
{
    char    *p, *end;
    size_t   size;

    size = turn->len + HYMT_TURN_EXTRA;
    p = malloc(size);

    if (p == NULL) {
        return ngx_http_hymt_openai_no_memory(call);
    }

    end = hymt_turn_write(p, turn);

    ngx_http_hymt_append(out, p, end - p);

    free(p);

    return out->failed ? ngx_http_hymt_openai_no_memory(call) : NGX_OK;
}


static ngx_int_t
ngx_http_hymt_openai_sampling(ngx_http_hymt_call_t *call)
{
    int64_t           n;
    ngx_int_t         rc;
    hymt_sampling_t  *s;

    s = &call->job.sampling;

    if (ngx_http_hymt_openai_real(call, "temperature", &s->temperature)
        != NGX_OK
        || ngx_http_hymt_openai_real(call, "top_p", &s->top_p) != NGX_OK
        || ngx_http_hymt_openai_real(call, "repetition_penalty",
                                     &s->repetition_penalty) != NGX_OK)
    {
        return NGX_ERROR;
    }

    /* -1 is 0 to vLLM: off */

    n = s->top_k;

    if (ngx_http_hymt_openai_integer(call, "top_k", -1, INT32_MAX, &n)
        == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    s->top_k = n < 0 ? 0 : (uint32_t) n;

    rc = ngx_http_hymt_openai_integer(call, "seed", INT64_MIN, INT64_MAX, &n);

    if (rc == NGX_OK) {
        s->seed = (uint64_t) n;
    }

    return rc == NGX_ERROR ? NGX_ERROR : NGX_OK;
}


/* The values before were good: what is not is this one. */
static ngx_int_t
ngx_http_hymt_openai_real(ngx_http_hymt_call_t *call, const char *name,
    float *value)
{
    double        real;
    ngx_int_t     rc;
    hymt_error_t  err;

    rc = ngx_http_hymt_param_real(call, name, &real);

    if (rc == NGX_OK) {
        rc = ngx_http_hymt_float(call, name, real, value);
    }

    if (rc == NGX_ERROR) {
        return ngx_http_hymt_openai_param(call, name);
    }

    if (rc == NGX_DECLINED) {
        return NGX_OK;
    }

    if (hymt_sampling_check(&call->job.sampling, &err) != HYMT_OK) {
        return ngx_http_hymt_openai_fault(call, "invalid_value", name, "%s",
                                          err.text);
    }

    return NGX_OK;
}


/* NGX_DECLINED: not given */
static ngx_int_t
ngx_http_hymt_openai_integer(ngx_http_hymt_call_t *call, const char *name,
    int64_t low, int64_t high, int64_t *value)
{
    ngx_int_t  rc;

    rc = ngx_http_hymt_param_integer(call, name, low, high, value);

    return rc == NGX_ERROR ? ngx_http_hymt_openai_param(call, name) : rc;
}


/* max_tokens is the older name; one answer is all there is. */
static ngx_int_t
ngx_http_hymt_openai_limits(ngx_http_hymt_call_t *call)
{
    int64_t  n;

    n = 0;

    if (ngx_http_hymt_openai_integer(call, "max_tokens", 1, INT64_MAX, &n)
        == NGX_ERROR
        || ngx_http_hymt_openai_integer(call, "max_completion_tokens", 1,
                                        INT64_MAX, &n)
           == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    call->job.max_tokens = (uint32_t) ngx_min(n, INT32_MAX);

    n = 1;

    if (ngx_http_hymt_openai_integer(call, "n", INT64_MIN, INT64_MAX, &n)
        == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    if (n != 1) {
        return ngx_http_hymt_openai_fault(call, "unsupported_value", "n",
                                          "n must be 1: ask %s",
                                          n > 1 ? "again for another answer"
                                                : "for one answer");
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_openai_stop(ngx_http_hymt_call_t *call)
{
    size_t       i, n, len;
    json_t      *list;
    ngx_int_t    rc;
    const char  *stop;

    rc = ngx_http_hymt_param_strings(call, "stop", 0, &list);

    if (rc == NGX_ERROR) {
        return ngx_http_hymt_openai_param(call, "stop");
    }

    if (rc == NGX_DECLINED) {
        return NGX_OK;
    }

    /* in place of what came: the call points into it */

    if (json_object_set_new(call->root, "stop", list) != 0) {
        return ngx_http_hymt_openai_no_memory(call);
    }

    n = json_array_size(list);

    if (n == 0) {
        return NGX_OK;
    }

    if (n > NGX_HTTP_HYMT_OPENAI_STOPS) {
        return ngx_http_hymt_openai_fault(call, "invalid_value", "stop",
                                          "stop must be at most %d strings,"
                                          " not %lu",
                                          NGX_HTTP_HYMT_OPENAI_STOPS,
                                          (unsigned long) n);
    }

    call->stops = calloc(n, sizeof(char *));

    if (call->stops == NULL) {
        return ngx_http_hymt_openai_no_memory(call);
    }

    for (i = 0; i < n; i++) {
        stop = json_string_value(json_array_get(list, i));
        len = json_string_length(json_array_get(list, i));

        if (len == 0 || strlen(stop) != len) {
            return ngx_http_hymt_openai_fault(call, "invalid_value", "stop",
                                              "stop %lu is empty or holds"
                                              " U+0000", (unsigned long) i);
        }

        call->stops[call->n_stops++] = stop;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_openai_stop_ids(ngx_http_hymt_call_t *call)
{
    size_t       i, n;
    json_t      *list, *id;
    json_int_t   value;

    list = json_object_get(call->root, "stop_token_ids");

    if (list == NULL || json_is_null(list)) {
        return NGX_OK;
    }

    if (!json_is_array(list)) {
        return ngx_http_hymt_openai_wrong(call, "stop_token_ids",
                                          "an array of integers", list);
    }

    n = json_array_size(list);

    if (n > HYMT_JOB_STOPS) {
        return ngx_http_hymt_openai_fault(call, "invalid_value",
                                          "stop_token_ids",
                                          "stop_token_ids must be at most %d,"
                                          " not %lu", HYMT_JOB_STOPS,
                                          (unsigned long) n);
    }

    json_array_foreach(list, i, id) {

        if (!json_is_integer(id)) {
            return ngx_http_hymt_openai_wrong(call, "stop_token_ids",
                                              "an array of integers", id);
        }

        value = json_integer_value(id);

        if (value < 0 || value > INT32_MAX) {
            return ngx_http_hymt_openai_fault(call, "invalid_value",
                                              "stop_token_ids",
                                              "stop_token_ids: %lld is no"
                                              " token", (long long) value);
        }

        call->job.stop[call->job.n_stop++] = (uint32_t) value;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_openai_stream(ngx_http_hymt_call_t *call,
    ngx_http_hymt_openai_t *openai)
{
    json_t      *options, *usage;
    ngx_uint_t   stream;

    stream = 0;

    if (ngx_http_hymt_param_bool(call, "stream", &stream) == NGX_ERROR) {
        return ngx_http_hymt_openai_param(call, "stream");
    }

    call->stream = stream;

    options = json_object_get(call->root, "stream_options");

    if (options == NULL || json_is_null(options)) {
        return NGX_OK;
    }

    if (!json_is_object(options)) {
        return ngx_http_hymt_openai_wrong(call, "stream_options", "an object",
                                          options);
    }

    usage = json_object_get(options, "include_usage");

    if (usage != NULL && !json_is_null(usage) && !json_is_boolean(usage)) {
        return ngx_http_hymt_openai_wrong(call,
                                          "stream_options.include_usage",
                                          "a boolean", usage);
    }

    openai->usage = json_is_true(usage);

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_openai_fault(ngx_http_hymt_call_t *call, const char *code,
    const char *param, const char *fmt, ...)
{
    char     text[400];
    va_list  args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);

    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, code, "%s", text);

    return ngx_http_hymt_openai_param(call, param);
}


static ngx_int_t
ngx_http_hymt_openai_wrong(ngx_http_hymt_call_t *call, const char *param,
    const char *want, json_t *value)
{
    return ngx_http_hymt_openai_fault(call, "invalid_type", param,
                                      "%s must be %s, not %s", param, want,
                                      ngx_http_hymt_type(json_typeof(value)));
}


/* It has failed for this parameter. */
ngx_int_t
ngx_http_hymt_openai_param(ngx_http_hymt_call_t *call, const char *param)
{
    (void) snprintf(call->failure.param, sizeof(call->failure.param), "%s",
                    param);

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_hymt_openai_no_memory(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                       "out of memory");

    return NGX_ERROR;
}
