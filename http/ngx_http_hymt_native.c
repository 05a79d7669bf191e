
/*
 * Copyright (C) the hymt authors
 */


/*
 * The native API: a body becomes the texts and options of a call, results
 * become an answer.
 *
 * Both functions may run on a thread of the pool: they call malloc and jansson,
 * and of NGINX only what touches nothing but its arguments.
 */


#include "ngx_http_hymt.h"

#include <jansson.h>
#include <math.h>


typedef struct {
    const char   *name;
    ngx_int_t   (*set)(ngx_http_hymt_call_t *call, const char *name,
                       json_t *value);
} ngx_http_hymt_field_t;


static void ngx_http_hymt_parse_json(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_parse_plain(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_parse_arg(ngx_http_hymt_call_t *call,
    u_char *name, size_t name_len, u_char *value, size_t value_len);
static void ngx_http_hymt_defaults(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_check(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_set_text(ngx_http_hymt_call_t *call,
    const char *name, json_t *value);
static ngx_int_t ngx_http_hymt_set_texts(ngx_http_hymt_call_t *call,
    json_t *value);
static ngx_int_t ngx_http_hymt_set_lang(ngx_http_hymt_call_t *call,
    const char *name, json_t *value);
static ngx_int_t ngx_http_hymt_lang(ngx_http_hymt_call_t *call,
    const char *name, const char *value, size_t len, int32_t *lang);
static ngx_int_t ngx_http_hymt_set_real(ngx_http_hymt_call_t *call,
    const char *name, json_t *value);
static ngx_int_t ngx_http_hymt_set_integer(ngx_http_hymt_call_t *call,
    const char *name, json_t *value);
static ngx_int_t ngx_http_hymt_option(ngx_http_hymt_call_t *call,
    const char *name, double real, int64_t integer);
static ngx_int_t ngx_http_hymt_wrong(ngx_http_hymt_call_t *call,
    const char *name, const char *want, json_t *value);
static const char *ngx_http_hymt_type(json_t *value);
static json_t *ngx_http_hymt_render_json(ngx_http_hymt_call_t *call);
static const char *ngx_http_hymt_finish(ngx_http_hymt_item_t *item);


static ngx_http_hymt_field_t  ngx_http_hymt_fields[] = {
    { "text", ngx_http_hymt_set_text },
    { "src_lang", ngx_http_hymt_set_lang },
    { "tgt_lang", ngx_http_hymt_set_lang },
    { "temperature", ngx_http_hymt_set_real },
    { "top_p", ngx_http_hymt_set_real },
    { "top_k", ngx_http_hymt_set_integer },
    { "repetition_penalty", ngx_http_hymt_set_real },
    { "seed", ngx_http_hymt_set_integer },
    { "max_tokens", ngx_http_hymt_set_integer },
    { NULL, NULL }
};


void
ngx_http_hymt_native_parse(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_defaults(call);

    if (call->plain) {
        ngx_http_hymt_parse_plain(call);

    } else {
        ngx_http_hymt_parse_json(call);
    }

    if (call->failure.status == 0) {
        (void) ngx_http_hymt_check(call);
    }
}


/* From the configuration; the seed was drawn on the event loop. */
static void
ngx_http_hymt_defaults(ngx_http_hymt_call_t *call)
{
    hymt_sampling_t           *s;
    hymt_config_t             *config;
    ngx_http_hymt_loc_conf_t  *hlcf;

    hlcf = call->conf;
    config = &call->model->config;
    s = &call->job.sampling;

    s->temperature = 0;
    s->top_p = 1;
    s->top_k = 0;
    s->repetition_penalty = 1;

    if (hlcf->sampling == NGX_HTTP_HYMT_SAMPLING_RECOMMENDED
        || (hlcf->sampling == NGX_HTTP_HYMT_SAMPLING_MODEL
            && !call->model->params.greedy))
    {
        if (config->temperature > 0) {
            s->temperature = config->temperature;
            s->top_p = config->top_p;
            s->top_k = config->top_k;
            s->repetition_penalty = config->repetition_penalty;

        } else {

            /* what the cards of all dense models recommend */

            s->temperature = 0.7f;
            s->top_p = 0.6f;
            s->top_k = 20;
            s->repetition_penalty = 1.05f;
        }
    }

    ngx_http_hymt_sampling_over(s, &hlcf->values);

    if (hlcf->seeded) {
        s->seed = hlcf->values.seed;
    }

    call->job.src = hlcf->source == NGX_HTTP_HYMT_NO_LANG ? HYMT_LANG_NONE
                                                         : hlcf->source;
    call->job.tgt = hlcf->target == NGX_HTTP_HYMT_NO_LANG ? HYMT_LANG_NONE
                                                         : hlcf->target;
}


static void
ngx_http_hymt_parse_json(ngx_http_hymt_call_t *call)
{
    json_t                 *root, *value;
    const char             *key;
    json_error_t            error;
    ngx_http_hymt_field_t  *field;

    root = json_loadb(call->body, call->body_len,
                      JSON_REJECT_DUPLICATES|JSON_ALLOW_NUL, &error);

    if (root == NULL) {
        if (json_error_code(&error) == json_error_invalid_utf8) {
            ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_utf8",
                               "line %d, column %d: the body is not UTF-8",
                               error.line, error.column);

        } else {
            ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_json",
                               "line %d, column %d: %s", error.line,
                               error.column, error.text);
        }

        return;
    }

    call->json = root;

    if (!json_is_object(root)) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_type",
                           "the body must be a JSON object, not %s",
                           ngx_http_hymt_type(root));
        return;
    }

    json_object_foreach(root, key, value) {

        for (field = ngx_http_hymt_fields; field->name; field++) {
            if (strcmp(field->name, key) == 0) {
                break;
            }
        }

        if (field->name == NULL) {
            ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "unknown_field",
                               "unknown field \"%.100s\"; known are text,"
                               " src_lang, tgt_lang, temperature, top_p, top_k,"
                               " repetition_penalty, seed, max_tokens", key);
            return;
        }

        if (field->set(call, key, value) != NGX_OK) {
            return;
        }
    }

    if (call->items == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "missing_field",
                           "the field \"text\" is missing");
    }
}


static void
ngx_http_hymt_parse_plain(ngx_http_hymt_call_t *call)
{
    size_t   bad;
    u_char  *p, *last, *amp, *eq;

    if (!hymt_utf8_check(call->body, call->body_len, &bad)) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_utf8",
                           "the body is not UTF-8 at byte %lu",
                           (unsigned long) bad);
        return;
    }

    p = call->args.data;
    last = p + call->args.len;

    while (p < last) {
        amp = ngx_strlchr(p, last, '&');

        if (amp == NULL) {
            amp = last;
        }

        eq = ngx_strlchr(p, amp, '=');

        if (eq != NULL
            && ngx_http_hymt_parse_arg(call, p, eq - p, eq + 1, amp - eq - 1)
               != NGX_OK)
        {
            return;
        }

        p = amp + 1;
    }

    call->items = calloc(1, sizeof(ngx_http_hymt_item_t));

    if (call->items == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        return;
    }

    call->n_items = 1;
    call->items[0].call = call;
    call->items[0].text = call->body;
    call->items[0].len = call->body_len;
}


/*
 * What the query string of a text/plain request may say.  Other arguments are
 * somebody else's: an API key's, say.
 */
static ngx_int_t
ngx_http_hymt_parse_arg(ngx_http_hymt_call_t *call, u_char *name,
    size_t name_len, u_char *value, size_t value_len)
{
    char                   *end, text[128];
    u_char                 *src, *dst;
    double                  real;
    long long               integer;
    ngx_http_hymt_field_t  *field;

    if (value_len >= sizeof(text)) {
        value_len = sizeof(text) - 1;
    }

    src = value;
    dst = (u_char *) text;

    ngx_unescape_uri(&dst, &src, value_len, 0);

    *dst = '\0';

    if (name_len == 2 && ngx_strncmp(name, "to", 2) == 0) {
        return ngx_http_hymt_lang(call, "to", text, dst - (u_char *) text,
                                  &call->job.tgt);
    }

    if (name_len == 4 && ngx_strncmp(name, "from", 4) == 0) {
        return ngx_http_hymt_lang(call, "from", text, dst - (u_char *) text,
                                  &call->job.src);
    }

    for (field = ngx_http_hymt_fields; field->name; field++) {

        if (strlen(field->name) != name_len
            || ngx_strncmp(field->name, name, name_len) != 0)
        {
            continue;
        }

        errno = 0;

        if (field->set == ngx_http_hymt_set_real) {
            real = strtod(text, &end);

            if (end == text || *end != '\0' || errno || !isfinite(real)) {
                ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_type",
                                   "%s must be a number", field->name);
                return NGX_ERROR;
            }

            return ngx_http_hymt_option(call, field->name, real, 0);
        }

        if (field->set == ngx_http_hymt_set_integer) {
            integer = strtoll(text, &end, 10);

            if (end == text || *end != '\0' || errno) {
                ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_type",
                                   "%s must be an integer", field->name);
                return NGX_ERROR;
            }

            return ngx_http_hymt_option(call, field->name, 0, integer);
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_check(ngx_http_hymt_call_t *call)
{
    char             list[1400];
    ngx_uint_t       i;
    hymt_error_t     err;
    hymt_lang_set_t  set;

    set = call->model->params.languages;

    if (call->job.tgt == HYMT_LANG_NONE) {
        (void) hymt_lang_list(set, list, sizeof(list));

        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "missing_field",
                           "the target language is missing: give \"%s\", one"
                           " of %s", call->plain ? "?to=" : "tgt_lang", list);
        return NGX_ERROR;
    }

    if (call->job.tgt == call->job.src) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "source and target language are the same: %s",
                           hymt_langs[call->job.tgt].code);
        return NGX_ERROR;
    }

    if (hymt_sampling_check(&call->job.sampling, &err) != HYMT_OK) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value", "%s",
                           err.text);
        return NGX_ERROR;
    }

    for (i = 0; i < call->n_items; i++) {

        if (call->items[i].len == 0) {

            if (call->array) {
                ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "empty_text",
                                   "text %lu is empty", (unsigned long) i);

            } else {
                ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "empty_text",
                                   "the text is empty");
            }

            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_set_text(ngx_http_hymt_call_t *call, const char *name,
    json_t *value)
{
    if (json_is_array(value)) {
        return ngx_http_hymt_set_texts(call, value);
    }

    if (!json_is_string(value)) {
        return ngx_http_hymt_wrong(call, name,
                                   "a string or an array of strings", value);
    }

    call->items = calloc(1, sizeof(ngx_http_hymt_item_t));

    if (call->items == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        return NGX_ERROR;
    }

    call->n_items = 1;
    call->items[0].call = call;
    call->items[0].text = json_string_value(value);
    call->items[0].len = json_string_length(value);

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_set_texts(ngx_http_hymt_call_t *call, json_t *value)
{
    size_t   i, n;
    json_t  *text;

    n = json_array_size(value);

    if (n == 0) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "empty_text",
                           "the array \"text\" is empty");
        return NGX_ERROR;
    }

    if (n > (size_t) call->conf->max_texts) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "too_many_texts",
                           "the array \"text\" has %lu texts; at most %ld are"
                           " taken", (unsigned long) n,
                           (long) call->conf->max_texts);
        return NGX_ERROR;
    }

    call->items = calloc(n, sizeof(ngx_http_hymt_item_t));

    if (call->items == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        return NGX_ERROR;
    }

    call->n_items = n;
    call->array = 1;

    for (i = 0; i < n; i++) {
        text = json_array_get(value, i);

        if (!json_is_string(text)) {
            ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_type",
                               "text %lu must be a string, not %s",
                               (unsigned long) i, ngx_http_hymt_type(text));
            return NGX_ERROR;
        }

        call->items[i].call = call;
        call->items[i].text = json_string_value(text);
        call->items[i].len = json_string_length(text);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_set_lang(ngx_http_hymt_call_t *call, const char *name,
    json_t *value)
{
    if (!json_is_string(value)) {
        return ngx_http_hymt_wrong(call, name, "a string", value);
    }

    return ngx_http_hymt_lang(call, name, json_string_value(value),
                              json_string_length(value),
                              name[0] == 's' ? &call->job.src
                                             : &call->job.tgt);
}


static ngx_int_t
ngx_http_hymt_lang(ngx_http_hymt_call_t *call, const char *name,
    const char *value, size_t len, int32_t *lang)
{
    int              found;
    char             list[1400];
    hymt_lang_set_t  set;

    set = call->model->params.languages;
    found = hymt_lang_find(value, len);

    if (found != HYMT_LANG_NONE && (set >> found & 1)) {
        *lang = found;
        return NGX_OK;
    }

    (void) hymt_lang_list(set, list, sizeof(list));

    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "unsupported_language",
                       "%s \"%.40s\" is no language of model \"%s\"; it knows"
                       " %s", name, value, call->model->name.data, list);

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_hymt_set_real(ngx_http_hymt_call_t *call, const char *name,
    json_t *value)
{
    if (!json_is_number(value)) {
        return ngx_http_hymt_wrong(call, name, "a number", value);
    }

    return ngx_http_hymt_option(call, name, json_number_value(value), 0);
}


static ngx_int_t
ngx_http_hymt_set_integer(ngx_http_hymt_call_t *call, const char *name,
    json_t *value)
{
    if (!json_is_integer(value)) {
        return ngx_http_hymt_wrong(call, name, "an integer", value);
    }

    return ngx_http_hymt_option(call, name, 0, json_integer_value(value));
}


/* Ranges of the sampling values are hymt_sampling_check()'s. */
static ngx_int_t
ngx_http_hymt_option(ngx_http_hymt_call_t *call, const char *name,
    double real, int64_t integer)
{
    hymt_sampling_t  *s;

    s = &call->job.sampling;

    if (integer < 0 || integer > (name[0] == 's' ? INT64_MAX : INT32_MAX)) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "%s must not be %lld", name, (long long) integer);
        return NGX_ERROR;
    }

    if (strcmp(name, "temperature") == 0) {
        s->temperature = (float) real;

    } else if (strcmp(name, "top_p") == 0) {
        s->top_p = (float) real;

    } else if (strcmp(name, "repetition_penalty") == 0) {
        s->repetition_penalty = (float) real;

    } else if (strcmp(name, "top_k") == 0) {
        s->top_k = (uint32_t) integer;

    } else if (strcmp(name, "seed") == 0) {
        s->seed = (uint64_t) integer;

    } else if (integer == 0) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "max_tokens must be at least 1");
        return NGX_ERROR;

    } else {
        call->job.max_tokens = (uint32_t) integer;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_wrong(ngx_http_hymt_call_t *call, const char *name,
    const char *want, json_t *value)
{
    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_type",
                       "%s must be %s, not %s", name, want,
                       ngx_http_hymt_type(value));

    return NGX_ERROR;
}


static const char *
ngx_http_hymt_type(json_t *value)
{
    switch (json_typeof(value)) {

    case JSON_OBJECT:
        return "an object";

    case JSON_ARRAY:
        return "an array";

    case JSON_STRING:
        return "a string";

    case JSON_INTEGER:
        return "an integer";

    case JSON_REAL:
        return "a real number";

    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";

    case JSON_NULL:
        break;
    }

    return "null";
}


/*
 * {"translation", "src_lang"?, "tgt_lang", "model", "finish_reason", "usage":
 * {"prompt_tokens", "completion_tokens"}, "timing": {"queue_ms",
 * "first_token_ms", "total_ms"}}, or the text alone.
 */
void
ngx_http_hymt_native_render(ngx_http_hymt_call_t *call)
{
    json_t  *root;

    if (call->plain) {

        /* one text: its memory is the answer's from now on */

        call->answer = call->items[0].out;
        call->answer_len = call->items[0].out_len;
        call->items[0].out = NULL;
        return;
    }

    root = ngx_http_hymt_render_json(call);

    if (root != NULL) {
        call->answer = json_dumps(root, JSON_COMPACT|JSON_REAL_PRECISION(6));
        json_decref(root);
    }

    if (call->answer == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        return;
    }

    /* the terminator's place serves for a newline */

    call->answer_len = strlen(call->answer);
    call->answer[call->answer_len++] = '\n';
}


static json_t *
ngx_http_hymt_render_json(ngx_http_hymt_call_t *call)
{
    json_t                *root, *texts, *reasons;
    uint64_t               queue, first, total, in, out;
    ngx_uint_t             i;
    ngx_http_hymt_item_t  *item;

    texts = call->array ? json_array() : NULL;
    reasons = call->array ? json_array() : NULL;

    queue = first = total = in = out = 0;

    for (i = 0; i < call->n_items; i++) {
        item = &call->items[i];

        if (call->array) {

            /* a failed one leaves the array short: found by json_pack below */

            (void) json_array_append_new(texts, json_stringn(item->out,
                                                             item->out_len));
            (void) json_array_append_new(reasons, json_string(
                                                ngx_http_hymt_finish(item)));
        }

        queue = ngx_max(queue, item->result.queue_ns);
        first = ngx_max(first, item->result.first_ns);
        total = ngx_max(total, item->result.total_ns);
        in += item->result.prompt_tokens;
        out += item->result.completion_tokens;
    }

    if (!call->array) {
        texts = json_stringn(call->items[0].out, call->items[0].out_len);
        reasons = json_string(ngx_http_hymt_finish(&call->items[0]));

    } else if (json_array_size(texts) != call->n_items
               || json_array_size(reasons) != call->n_items)
    {
        json_decref(texts);
        json_decref(reasons);
        return NULL;
    }

    root = json_pack("{s:o, s:s*, s:s, s:s, s:o, s:{s:I, s:I},"
                     " s:{s:f, s:f, s:f}}",
                     "translation", texts,
                     "src_lang", call->job.src == HYMT_LANG_NONE
                                 ? NULL : hymt_langs[call->job.src].code,
                     "tgt_lang", hymt_langs[call->job.tgt].code,
                     "model", (char *) call->model->name.data,
                     "finish_reason", reasons,
                     "usage", "prompt_tokens", (json_int_t) in,
                     "completion_tokens", (json_int_t) out,
                     "timing", "queue_ms", (double) queue / 1e6,
                     "first_token_ms", (double) first / 1e6,
                     "total_ms", (double) total / 1e6);

    return root;
}


static const char *
ngx_http_hymt_finish(ngx_http_hymt_item_t *item)
{
    switch (item->result.finish) {

    case HYMT_FINISH_LENGTH:
        return "length";

    case HYMT_FINISH_LOOP:
        return "loop";

    default:
        return "stop";
    }
}
