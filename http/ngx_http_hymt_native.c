
/*
 * Copyright (C) the hymt authors
 */


/*
 * The native API.
 *
 *   POST {"text", "tgt_lang", ...} or text/plain    translations
 *   GET languages                                   what may be asked for
 *
 * It is strict: an unknown field, null, or a value out of range is an error.
 */


#include "ngx_http_hymt_native.h"
#include "json_quick.h"


/* members of a body that is read without jansson */
#define NGX_HTTP_HYMT_NATIVE_FLAT  24


typedef struct {
    ngx_str_t     name;
    ngx_int_t   (*set)(ngx_http_hymt_call_t *call, const char *name,
                       const hymt_json_member_t *value);
} ngx_http_hymt_field_t;


static void ngx_http_hymt_native_parse(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_native_parse_json(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_native_tree(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_native_member(ngx_http_hymt_call_t *call,
    const hymt_json_member_t *value);
static void ngx_http_hymt_native_parse_plain(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_native_texts(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_native_text(ngx_http_hymt_call_t *call,
    const char *name, const hymt_json_member_t *value);
static ngx_int_t ngx_http_hymt_native_lang(ngx_http_hymt_call_t *call,
    const char *name, const hymt_json_member_t *value);
static ngx_int_t ngx_http_hymt_native_lang_named(ngx_http_hymt_call_t *call,
    const char *name, const char *value, size_t len, int32_t *lang);
static ngx_int_t ngx_http_hymt_native_real(ngx_http_hymt_call_t *call,
    const char *name, const hymt_json_member_t *value);
static ngx_int_t ngx_http_hymt_native_integer(ngx_http_hymt_call_t *call,
    const char *name, const hymt_json_member_t *value);
static ngx_int_t ngx_http_hymt_native_bool(ngx_http_hymt_call_t *call,
    const char *name, const hymt_json_member_t *value);
static ngx_int_t ngx_http_hymt_native_enum(ngx_http_hymt_call_t *call,
    const char *name, const hymt_json_member_t *value);
static ngx_uint_t ngx_http_hymt_native_is(const hymt_json_member_t *value,
    const char *text);
static ngx_int_t ngx_http_hymt_native_part(ngx_http_hymt_call_t *call,
    const char *name, const hymt_json_member_t *value);
static ngx_int_t ngx_http_hymt_native_keep(ngx_http_hymt_call_t *call,
    const char *name, const hymt_json_member_t *value);
static ngx_int_t ngx_http_hymt_native_terms(ngx_http_hymt_call_t *call,
    const char *name, const hymt_json_member_t *value);
static ngx_int_t ngx_http_hymt_native_session(ngx_http_hymt_call_t *call,
    const char *name, const hymt_json_member_t *value);
static ngx_int_t ngx_http_hymt_native_option(ngx_http_hymt_call_t *call,
    const char *name, double real, int64_t integer);
static ngx_int_t ngx_http_hymt_native_wrong(ngx_http_hymt_call_t *call,
    const char *name, const char *want, json_type type);


static ngx_http_hymt_field_t  ngx_http_hymt_fields[] = {
    { ngx_string("text"), ngx_http_hymt_native_text },
    { ngx_string("src_lang"), ngx_http_hymt_native_lang },
    { ngx_string("tgt_lang"), ngx_http_hymt_native_lang },
    { ngx_string("format"), ngx_http_hymt_native_enum },
    { ngx_string("split"), ngx_http_hymt_native_enum },
    { ngx_string("terms"), ngx_http_hymt_native_terms },
    { ngx_string("keep"), ngx_http_hymt_native_keep },
    { ngx_string("context"), ngx_http_hymt_native_part },
    { ngx_string("style"), ngx_http_hymt_native_part },
    { ngx_string("stream"), ngx_http_hymt_native_bool },
    { ngx_string("session_id"), ngx_http_hymt_native_session },
    { ngx_string("temperature"), ngx_http_hymt_native_real },
    { ngx_string("top_p"), ngx_http_hymt_native_real },
    { ngx_string("top_k"), ngx_http_hymt_native_integer },
    { ngx_string("repetition_penalty"), ngx_http_hymt_native_real },
    { ngx_string("seed"), ngx_http_hymt_native_integer },
    { ngx_string("max_tokens"), ngx_http_hymt_native_integer },
    { ngx_null_string, NULL }
};


static ngx_http_hymt_endpoint_t  ngx_http_hymt_native_endpoints[] = {

    { NGX_HTTP_POST, "",
      NGX_HTTP_HYMT_JSON|NGX_HTTP_HYMT_PLAIN, 1, 0,
      ngx_http_hymt_native_parse, ngx_http_hymt_native_render },

    { NGX_HTTP_GET, "languages",
      0, 0, 0,
      ngx_http_hymt_native_languages, NULL },

    { 0, NULL, 0, 0, 0, NULL, NULL }
};


ngx_http_hymt_api_t  ngx_http_hymt_native = {
    ngx_string("native"),
    ngx_http_hymt_native_endpoints,
    ngx_http_hymt_native_error,
    ngx_http_hymt_native_delta,
    ngx_http_hymt_native_end,
    ngx_http_hymt_native_broken
};


static void
ngx_http_hymt_native_parse(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_defaults(call);

    call->each = 1;
    call->stream = call->events;

    if (call->type == NGX_HTTP_HYMT_PLAIN) {
        ngx_http_hymt_native_parse_plain(call);

    } else {
        ngx_http_hymt_native_parse_json(call);
    }

    if (call->failure.status == 0
        && ngx_http_hymt_native_texts(call) == NGX_OK)
    {
        (void) ngx_http_hymt_prepare(call);
    }
}


static void
ngx_http_hymt_native_parse_json(ngx_http_hymt_call_t *call)
{
    size_t              i, n;
    hymt_json_member_t  member[NGX_HTTP_HYMT_NATIVE_FLAT];

    n = hymt_json_flat(call->body, call->body_len, member,
                       NGX_HTTP_HYMT_NATIVE_FLAT);

    if (n == 0 && ngx_http_hymt_native_tree(call) != NGX_OK) {
        return;
    }

    for (i = 0; i < n; i++) {
        if (ngx_http_hymt_native_member(call, &member[i]) != NGX_OK) {
            return;
        }
    }

    if (call->items == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "missing_field",
                           "the field \"text\" is missing");
        return;
    }

    if (call->stream && call->array) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "stream takes one text, not an array");
    }
}


/* By jansson, which allocates: arrays, escapes, and what is wrong. */
static ngx_int_t
ngx_http_hymt_native_tree(ngx_http_hymt_call_t *call)
{
    json_t              *root, *value;
    const char          *key;
    hymt_json_member_t   member;

    root = ngx_http_hymt_params(call);

    if (root == NULL) {
        return NGX_ERROR;
    }

    json_object_foreach(root, key, value) {
        member.name = key;
        member.name_len = strlen(key);
        member.type = json_typeof(value);
        member.text = json_string_value(value);
        member.len = json_string_length(value);
        member.integer = json_integer_value(value);
        member.real = json_number_value(value);
        member.tree = value;

        if (ngx_http_hymt_native_member(call, &member) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_native_member(ngx_http_hymt_call_t *call,
    const hymt_json_member_t *value)
{
    char                    known[400], *p;
    ngx_http_hymt_field_t  *field;

    for (field = ngx_http_hymt_fields; field->set; field++) {
        if (field->name.len == value->name_len
            && ngx_memcmp(field->name.data, value->name, value->name_len) == 0)
        {
            return field->set(call, (char *) field->name.data, value);
        }
    }

    p = known;

    for (field = ngx_http_hymt_fields; field->set; field++) {
        p += sprintf(p, "%s%s", p == known ? "" : ", ",
                     field->name.data);
    }

    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "unknown_field",
                       "unknown field \"%.*s\"; known are %s",
                       (int) ngx_min(value->name_len, 100), value->name,
                       known);

    return NGX_ERROR;
}


static void
ngx_http_hymt_native_parse_plain(ngx_http_hymt_call_t *call)
{
    double                  real;
    int64_t                 integer;
    size_t                  bad, len;
    ngx_int_t               rc;
    const char             *text, *name;
    ngx_http_hymt_field_t  *field;

    if (call->body_len == 0) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "empty_body",
                           "the body is empty");
        return;
    }

    if (!hymt_utf8_check(call->body, call->body_len, &bad)) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_utf8",
                           "the body is not UTF-8 at byte %lu",
                           (unsigned long) bad);
        return;
    }

    /* other arguments are somebody else's: an API key, say */

    if (ngx_http_hymt_params(call) == NULL) {
        return;
    }

    if ((ngx_http_hymt_param_string(call, "to", &text, &len) == NGX_OK
         && ngx_http_hymt_native_lang_named(call, "to", text, len,
                                            &call->job.tgt) != NGX_OK)
        || (ngx_http_hymt_param_string(call, "from", &text, &len) == NGX_OK
            && ngx_http_hymt_native_lang_named(call, "from", text, len,
                                               &call->job.src) != NGX_OK))
    {
        return;
    }

    for (field = ngx_http_hymt_fields; field->set; field++) {
        name = (char *) field->name.data;
        real = 0;
        integer = 0;

        if (field->set == ngx_http_hymt_native_real) {
            rc = ngx_http_hymt_param_real(call, name, &real);

        } else if (field->set == ngx_http_hymt_native_integer) {
            rc = ngx_http_hymt_param_integer(call, name, INT64_MIN, INT64_MAX,
                                             &integer);

        } else {
            continue;
        }

        if (rc == NGX_ERROR
            || (rc == NGX_OK
                && ngx_http_hymt_native_option(call, name, real, integer)
                   != NGX_OK))
        {
            return;
        }
    }

    if (ngx_http_hymt_items(call, 1) == NGX_OK) {
        call->items[0].text = call->body;
        call->items[0].len = call->body_len;
    }
}


static ngx_int_t
ngx_http_hymt_native_texts(ngx_http_hymt_call_t *call)
{
    char        list[1400];
    ngx_uint_t  i;

    if (call->job.tgt == HYMT_LANG_NONE) {
        (void) hymt_lang_list(call->model->params.languages, list,
                              sizeof(list));

        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "missing_field",
                           "the target language is missing: give \"%s\", one"
                           " of %s",
                           call->type == NGX_HTTP_HYMT_PLAIN ? "?to="
                                                             : "tgt_lang",
                           list);
        return NGX_ERROR;
    }

    for (i = 0; i < call->n_items; i++) {

        if (call->items[i].len != 0) {
            continue;
        }

        if (call->array) {
            ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "empty_text",
                               "text %lu is empty", (unsigned long) i);

        } else {
            ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "empty_text",
                               "the text is empty");
        }

        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_native_text(ngx_http_hymt_call_t *call, const char *name,
    const hymt_json_member_t *value)
{
    size_t   i, n;
    json_t  *text;

    if (value->type == JSON_STRING) {
        if (ngx_http_hymt_items(call, 1) != NGX_OK) {
            return NGX_ERROR;
        }

        call->items[0].text = value->text;
        call->items[0].len = value->len;

        return NGX_OK;
    }

    if (value->type != JSON_ARRAY) {
        return ngx_http_hymt_native_wrong(call, name,
                                          "a string or an array of strings",
                                          value->type);
    }

    n = json_array_size(value->tree);

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

    if (ngx_http_hymt_items(call, n) != NGX_OK) {
        return NGX_ERROR;
    }

    call->array = 1;

    json_array_foreach(value->tree, i, text) {
        if (!json_is_string(text)) {
            ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_type",
                               "text %lu must be a string, not %s",
                               (unsigned long) i,
                               ngx_http_hymt_type(json_typeof(text)));
            return NGX_ERROR;
        }

        call->items[i].text = json_string_value(text);
        call->items[i].len = json_string_length(text);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_native_lang(ngx_http_hymt_call_t *call, const char *name,
    const hymt_json_member_t *value)
{
    if (value->type != JSON_STRING) {
        return ngx_http_hymt_native_wrong(call, name, "a string", value->type);
    }

    return ngx_http_hymt_native_lang_named(call, name, value->text, value->len,
                                           name[0] == 's' ? &call->job.src
                                                          : &call->job.tgt);
}


static ngx_int_t
ngx_http_hymt_native_lang_named(ngx_http_hymt_call_t *call, const char *name,
    const char *value, size_t len, int32_t *lang)
{
    int              found;
    char             list[1400], shown[NGX_HTTP_HYMT_SHOWN];
    hymt_lang_set_t  set;

    if (lang == &call->job.src && len == 4 && memcmp(value, "auto", 4) == 0) {
        call->detect = 1;
        call->job.src = HYMT_LANG_NONE;
        return NGX_OK;
    }

    set = call->model->params.languages;
    found = hymt_lang_find(value, len);

    if (found != HYMT_LANG_NONE && (set >> found & 1)) {
        *lang = found;
        return NGX_OK;
    }

    (void) hymt_lang_list(set, list, sizeof(list));

    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "unsupported_language",
                       "%s \"%s\" is no language of model \"%s\"; it knows %s",
                       name, ngx_http_hymt_show(shown, value, len),
                       call->model->name.data, list);

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_hymt_native_real(ngx_http_hymt_call_t *call, const char *name,
    const hymt_json_member_t *value)
{
    if (value->type != JSON_REAL && value->type != JSON_INTEGER) {
        return ngx_http_hymt_native_wrong(call, name, "a number",
                                          value->type);
    }

    return ngx_http_hymt_native_option(call, name, value->real, 0);
}


static ngx_int_t
ngx_http_hymt_native_integer(ngx_http_hymt_call_t *call, const char *name,
    const hymt_json_member_t *value)
{
    if (value->type != JSON_INTEGER) {
        return ngx_http_hymt_native_wrong(call, name, "an integer",
                                          value->type);
    }

    return ngx_http_hymt_native_option(call, name, 0, value->integer);
}


static ngx_int_t
ngx_http_hymt_native_bool(ngx_http_hymt_call_t *call, const char *name,
    const hymt_json_member_t *value)
{
    if (value->type != JSON_TRUE && value->type != JSON_FALSE) {
        return ngx_http_hymt_native_wrong(call, name, "a boolean",
                                          value->type);
    }

    call->stream = value->type == JSON_TRUE;

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_native_enum(ngx_http_hymt_call_t *call, const char *name,
    const hymt_json_member_t *value)
{
    char        shown[NGX_HTTP_HYMT_SHOWN];
    ngx_uint_t  i;

    static const char  *formats[] = { "text", "html", "xml" };
    static const char  *splits[] = { "auto", "none", "sentence", "paragraph" };

    if (value->type != JSON_STRING) {
        return ngx_http_hymt_native_wrong(call, name, "a string", value->type);
    }

    if (name[0] == 'f') {
        for (i = 0; i < hymt_nelts(formats); i++) {
            if (ngx_http_hymt_native_is(value, formats[i])) {
                call->document.format = (hymt_format_t) i;
                return NGX_OK;
            }
        }

    } else {
        for (i = 0; i < hymt_nelts(splits); i++) {
            if (ngx_http_hymt_native_is(value, splits[i])) {
                call->document.split = (hymt_split_t) i;
                return NGX_OK;
            }
        }
    }

    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                       "%s must be %s, not \"%s\"", name,
                       name[0] == 'f' ? "text, html or xml"
                       : "auto, none, sentence or paragraph",
                       ngx_http_hymt_show(shown, value->text, value->len));

    return NGX_ERROR;
}


static ngx_uint_t
ngx_http_hymt_native_is(const hymt_json_member_t *value, const char *text)
{
    return strlen(text) == value->len
           && memcmp(text, value->text, value->len) == 0;
}


static ngx_int_t
ngx_http_hymt_native_part(ngx_http_hymt_call_t *call, const char *name,
    const hymt_json_member_t *value)
{
    hymt_part_t  part;

    if (value->type != JSON_STRING) {
        return ngx_http_hymt_native_wrong(call, name, "a string", value->type);
    }

    part = (name[0] == 'c') ? HYMT_PART_CONTEXT : HYMT_PART_STYLE;

    if (value->len == 0) {
        return NGX_OK;
    }

    call->job.part[part] = value->text;
    call->job.part_len[part] = value->len;

    return NGX_OK;
}


/* Terms that come back as they are. */
static ngx_int_t
ngx_http_hymt_native_keep(ngx_http_hymt_call_t *call, const char *name,
    const hymt_json_member_t *value)
{
    size_t    i;
    json_t   *one;

    if (value->type != JSON_ARRAY) {
        return ngx_http_hymt_native_wrong(call, name, "an array of strings",
                                          value->type);
    }

    call->data = calloc(json_array_size(value->tree) + 1, sizeof(char *));

    if (call->data == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        return NGX_ERROR;
    }

    call->document.keep.item = call->data;

    json_array_foreach(value->tree, i, one) {
        if (!json_is_string(one)) {
            return ngx_http_hymt_native_wrong(call, name,
                                              "an array of strings",
                                              json_typeof(one));
        }

        if (json_string_length(one) == 0
            || strlen(json_string_value(one)) != json_string_length(one))
        {
            ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                               "a term of keep must not be empty or hold a NUL"
                               " character");
            return NGX_ERROR;
        }

        call->document.keep.item[i] = json_string_value(one);
        call->document.keep.n++;
    }

    return NGX_OK;
}


/* {"source term": "target term", ...} */
static ngx_int_t
ngx_http_hymt_native_terms(ngx_http_hymt_call_t *call, const char *name,
    const hymt_json_member_t *value)
{
    json_t                *one;
    const char            *key;
    ngx_http_hymt_term_t  *term;

    if (value->type != JSON_OBJECT) {
        return ngx_http_hymt_native_wrong(call, name, "an object of strings",
                                          value->type);
    }

    if (json_object_size(value->tree) == 0) {
        return NGX_OK;
    }

    call->terms = calloc(json_object_size(value->tree),
                         sizeof(ngx_http_hymt_term_t));

    if (call->terms == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        return NGX_ERROR;
    }

    json_object_foreach(value->tree, key, one) {

        if (!json_is_string(one)) {
            return ngx_http_hymt_native_wrong(call, name,
                                              "an object of strings",
                                              json_typeof(one));
        }

        if (key[0] == '\0' || json_string_length(one) == 0
            || strpbrk(key, "\t\r\n") != NULL
            || strpbrk(json_string_value(one), "\t\r\n") != NULL
            || strlen(json_string_value(one)) != json_string_length(one))
        {
            ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                               "a term must not be empty or hold a control"
                               " character");
            return NGX_ERROR;
        }

        term = &call->terms[call->n_terms++];
        term->source = key;
        term->target = json_string_value(one);
    }

    return NGX_OK;
}


/* Earlier texts of the same conversation become context. */
static ngx_int_t
ngx_http_hymt_native_session(ngx_http_hymt_call_t *call, const char *name,
    const hymt_json_member_t *value)
{
    size_t  i;

    if (value->type != JSON_STRING) {
        return ngx_http_hymt_native_wrong(call, name, "a string", value->type);
    }

    if (call->conf->sessions == NULL || call->owner == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "sessions_off",
                           "sessions are off here%s",
                           call->conf->sessions ? " for who has no owner"
                                                : "");
        return NGX_ERROR;
    }

    for (i = 0; i < value->len; i++) {
        if (value->text[i] <= ' ' || value->text[i] >= 0x7f) {
            break;
        }
    }

    if (i == 0 || i > 64 || i != value->len) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "session_id must be 1 to 64 visible ASCII"
                           " characters");
        return NGX_ERROR;
    }

    call->session.data = (u_char *) value->text;
    call->session.len = value->len;

    return NGX_OK;
}


/* Ranges of the sampling values are hymt_sampling_check()'s. */
static ngx_int_t
ngx_http_hymt_native_option(ngx_http_hymt_call_t *call, const char *name,
    double real, int64_t integer)
{
    int64_t           low, high;
    hymt_sampling_t  *s;

    s = &call->job.sampling;

    low = (name[0] == 'm');
    high = (name[0] == 's') ? INT64_MAX : INT32_MAX;

    if (integer < low || integer > high) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "%s must be from %lld to %lld, not %lld", name,
                           (long long) low, (long long) high,
                           (long long) integer);
        return NGX_ERROR;
    }

    if (strcmp(name, "temperature") == 0) {
        return ngx_http_hymt_float(call, name, real, &s->temperature);

    } else if (strcmp(name, "top_p") == 0) {
        return ngx_http_hymt_float(call, name, real, &s->top_p);

    } else if (strcmp(name, "repetition_penalty") == 0) {
        return ngx_http_hymt_float(call, name, real, &s->repetition_penalty);

    } else if (strcmp(name, "top_k") == 0) {
        s->top_k = (uint32_t) integer;

    } else if (strcmp(name, "seed") == 0) {
        s->seed = (uint64_t) integer;

    } else {
        call->job.max_tokens = (uint32_t) integer;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_native_wrong(ngx_http_hymt_call_t *call, const char *name,
    const char *want, json_type type)
{
    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_type",
                       "%s must be %s, not %s", name, want,
                       ngx_http_hymt_type(type));

    return NGX_ERROR;
}
