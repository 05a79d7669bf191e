
/*
 * Copyright (C) the hymt authors
 */


/*
 * DeepL's API, version 2.
 *
 *   POST translate                 text, target_lang, source_lang, ...
 *   GET  languages                 see ngx_http_hymt_deepl_lang.c
 *   GET  usage
 *   GET  glossary-language-pairs
 *        glossaries ...            see ngx_http_hymt_glossary.c
 *
 * All of it below the location or below its "v2/".  Parameters come as JSON,
 * form or query string; null and "" are as good as absent.  Documents and what
 * version 3 brought are answered as not available.
 */


#include "ngx_http_hymt_deepl.h"


#define NGX_HTTP_HYMT_DEEPL_TYPES                                            \
    (NGX_HTTP_HYMT_JSON|NGX_HTTP_HYMT_FORM|NGX_HTTP_HYMT_MULTIPART)

/* what DeepL says where there is no limit */
#define NGX_HTTP_HYMT_DEEPL_NO_LIMIT  1000000000000

#define NGX_HTTP_HYMT_DEEPL_LISTS     3


typedef struct {
    ngx_uint_t    same;            /* source and target language are one */
    int32_t       source;          /* as asked, or HYMT_LANG_NONE */
    const char   *model;           /* model_type_used, or NULL */
    const char   *version;         /* tag_handling_version, or NULL */
    const char   *glossary;        /* its id, or NULL */
    size_t        glossary_len;
    const char   *tags[];          /* of the lists of tags, one after another */
} ngx_http_hymt_deepl_t;


static void ngx_http_hymt_deepl_translate(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_deepl_tags(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_deepl_langs_asked(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_deepl_formality(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_deepl_handling(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_deepl_split(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_deepl_options(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_deepl_glossary_asked(
    ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_deepl_texts(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_deepl_more(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_deepl_render(ngx_http_hymt_call_t *call);
static json_t *ngx_http_hymt_deepl_translation(ngx_http_hymt_call_t *call,
    ngx_http_hymt_item_t *item, json_int_t characters);
static json_int_t ngx_http_hymt_deepl_characters(const char *text,
    size_t len);
static void ngx_http_hymt_deepl_usage(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_deepl_no_memory(ngx_http_hymt_call_t *call);
static json_t *ngx_http_hymt_deepl_error(ngx_http_hymt_failure_t *f);


static const char  *ngx_http_hymt_deepl_tag_lists[] = {
    "ignore_tags", "splitting_tags", "non_splitting_tags"
};


/* each of them twice: a location may stand for the host or for its "v2" */

#define NGX_HTTP_HYMT_DEEPL_ENDPOINTS(v)                                     \
                                                                             \
    { NGX_HTTP_POST, v "translate",                                          \
      NGX_HTTP_HYMT_DEEPL_TYPES, 1, 0,                                       \
      ngx_http_hymt_deepl_translate, ngx_http_hymt_deepl_render },           \
                                                                             \
    { NGX_HTTP_GET, v "languages",                                           \
      NGX_HTTP_HYMT_FORM, 0, 0,                                              \
      ngx_http_hymt_deepl_languages, NULL },                                 \
                                                                             \
    { NGX_HTTP_GET, v "usage",                                               \
      0, 0, 0,                                                               \
      ngx_http_hymt_deepl_usage, NULL },                                     \
                                                                             \
    { NGX_HTTP_GET, v "glossary-language-pairs",                             \
      0, 0, 0,                                                               \
      ngx_http_hymt_glossary_pairs, NULL },                                  \
                                                                             \
    { NGX_HTTP_POST, v "glossaries",                                         \
      NGX_HTTP_HYMT_DEEPL_TYPES, 0, 1,                                       \
      ngx_http_hymt_glossary_create, NULL },                                 \
                                                                             \
    { NGX_HTTP_GET, v "glossaries",                                          \
      0, 0, 1,                                                               \
      ngx_http_hymt_glossary_list, NULL },                                   \
                                                                             \
    { NGX_HTTP_GET, v "glossaries/*",                                        \
      0, 0, 1,                                                               \
      ngx_http_hymt_glossary_get, NULL },                                    \
                                                                             \
    { NGX_HTTP_DELETE, v "glossaries/*",                                     \
      0, 0, 1,                                                               \
      ngx_http_hymt_glossary_delete, NULL },                                 \
                                                                             \
    { NGX_HTTP_GET, v "glossaries/*/entries",                                \
      0, 0, 1,                                                               \
      ngx_http_hymt_glossary_entries, NULL }


static ngx_http_hymt_endpoint_t  ngx_http_hymt_deepl_endpoints[] = {

    NGX_HTTP_HYMT_DEEPL_ENDPOINTS(""),

    NGX_HTTP_HYMT_DEEPL_ENDPOINTS("v2/"),

    { 0, NULL, 0, 0, 0, NULL, NULL }
};


ngx_http_hymt_api_t  ngx_http_hymt_deepl = {
    ngx_string("deepl"),
    ngx_http_hymt_deepl_endpoints,
    ngx_http_hymt_deepl_error,
    NULL,
    NULL,
    NULL
};


static void
ngx_http_hymt_deepl_translate(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_deepl_t  *deepl;

    ngx_http_hymt_defaults(call);

    if (ngx_http_hymt_deepl_params(call) == NULL
        || ngx_http_hymt_deepl_tags(call) != NGX_OK
        || ngx_http_hymt_deepl_langs_asked(call) != NGX_OK
        || ngx_http_hymt_deepl_formality(call) != NGX_OK
        || ngx_http_hymt_deepl_handling(call) != NGX_OK
        || ngx_http_hymt_deepl_options(call) != NGX_OK
        || ngx_http_hymt_deepl_glossary_asked(call) != NGX_OK
        || ngx_http_hymt_deepl_texts(call) != NGX_OK)
    {
        return;
    }

    deepl = call->data;

    if (deepl->glossary != NULL) {
        call->more = ngx_http_hymt_deepl_more;
        return;
    }

    (void) ngx_http_hymt_prepare(call);
}


json_t *
ngx_http_hymt_deepl_params(ngx_http_hymt_call_t *call)
{
    if (call->body_len == 0) {
        call->type = 0;
    }

    return ngx_http_hymt_params(call);
}


/* Three lists of names, as arrays or with commas between. */
static ngx_int_t
ngx_http_hymt_deepl_tags(ngx_http_hymt_call_t *call)
{
    size_t                   i, j, n;
    json_t                  *list[NGX_HTTP_HYMT_DEEPL_LISTS], *one;
    ngx_int_t                rc;
    hymt_list_t             *tags[NGX_HTTP_HYMT_DEEPL_LISTS];
    const char              *name, **tag;
    ngx_http_hymt_deepl_t   *deepl;

    tags[0] = &call->document.ignore_tags;
    tags[1] = &call->document.splitting_tags;
    tags[2] = &call->document.non_splitting_tags;

    n = 0;

    for (i = 0; i < NGX_HTTP_HYMT_DEEPL_LISTS; i++) {
        list[i] = NULL;
        name = ngx_http_hymt_deepl_tag_lists[i];

        rc = ngx_http_hymt_param_strings(call, name, 1, &list[i]);

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }

        /* the strings stay the call's */

        if (rc == NGX_OK
            && json_object_set_new(call->root, name, list[i]) != 0)
        {
            return ngx_http_hymt_deepl_no_memory(call);
        }

        n += json_array_size(list[i]);
    }

    deepl = calloc(1, sizeof(ngx_http_hymt_deepl_t) + n * sizeof(char *));

    if (deepl == NULL) {
        return ngx_http_hymt_deepl_no_memory(call);
    }

    call->data = deepl;
    tag = deepl->tags;

    for (i = 0; i < NGX_HTTP_HYMT_DEEPL_LISTS; i++) {
        tags[i]->item = tag;

        json_array_foreach(list[i], j, one) {
            if (json_string_length(one) != 0) {
                *tag++ = json_string_value(one);
            }
        }

        tags[i]->n = (uint32_t) (tag - tags[i]->item);
    }

    return NGX_OK;
}


/*
 * Without a source the location's default stands in, or each text's is
 * detected.
 */
static ngx_int_t
ngx_http_hymt_deepl_langs_asked(ngx_http_hymt_call_t *call)
{
    ngx_int_t               rc;
    ngx_http_hymt_deepl_t  *deepl;

    deepl = call->data;

    rc = ngx_http_hymt_deepl_lang(call, "target_lang", &call->job.tgt);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_DECLINED && call->job.tgt == HYMT_LANG_NONE) {
        return ngx_http_hymt_deepl_missing(call, "target_lang");
    }

    if (ngx_http_hymt_deepl_lang(call, "source_lang", &call->job.src)
        == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    deepl->source = call->job.src;

    if (call->job.src == HYMT_LANG_NONE) {
        call->detect = 1;

    } else if (call->job.src == call->job.tgt) {

        /* nothing to do: the texts come back */

        deepl->same = 1;
        call->job.src = HYMT_LANG_NONE;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_hymt_deepl_missing(ngx_http_hymt_call_t *call, const char *name)
{
    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "missing_field",
                       "Parameter '%s' not specified", name);

    return NGX_ERROR;
}


/* Before context and glossary: a family may have a prompt for it, or none. */
static ngx_int_t
ngx_http_hymt_deepl_formality(ngx_http_hymt_call_t *call)
{
    ngx_int_t    rc;
    ngx_uint_t   n;
    const char  *style;

    static const char  *values[] = { "default", "more", "less", "prefer_more",
                                     "prefer_less", NULL };

    rc = ngx_http_hymt_deepl_one_of(call, "formality", values, &n);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_DECLINED || n == 0) {
        return NGX_OK;
    }

    style = (n == 1 || n == 3) ? "formal" : "informal";

    call->job.part[HYMT_PART_STYLE] = style;
    call->job.part_len[HYMT_PART_STYLE] = (uint32_t) strlen(style);

    if (ngx_http_hymt_has(call, 0)) {
        return NGX_OK;
    }

    call->job.part[HYMT_PART_STYLE] = NULL;
    call->job.part_len[HYMT_PART_STYLE] = 0;

    if (n > 2) {
        return NGX_OK;
    }

    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "not_supported",
                       "'formality' is not supported: model \"%s\" (family"
                       " %s) has no prompt for it; prefer_%s is taken",
                       call->model->name.data,
                       hymt_family_name(call->model->params.family),
                       values[n]);

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_hymt_deepl_handling(ngx_http_hymt_call_t *call)
{
    ngx_int_t               rc;
    ngx_uint_t              n;
    ngx_http_hymt_deepl_t  *deepl;

    static const char  *kinds[] = { "html", "xml", NULL };
    static const char  *versions[] = { "v1", "v2", NULL };

    deepl = call->data;

    rc = ngx_http_hymt_deepl_one_of(call, "tag_handling", kinds, &n);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    call->document.format = rc == NGX_DECLINED ? HYMT_FORMAT_TEXT
                            : n == 0 ? HYMT_FORMAT_HTML : HYMT_FORMAT_XML;

    rc = ngx_http_hymt_deepl_one_of(call, "tag_handling_version", versions,
                                    &n);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_OK && call->document.format != HYMT_FORMAT_TEXT) {
        deepl->version = versions[n];
    }

    return ngx_http_hymt_deepl_split(call);
}


/*
 * "1", at punctuation and newlines: a line is translated by itself.
 * "nonewlines": so is a text that fits, as by the other APIs.  "0": a text that
 * does not fit is refused.
 */
static ngx_int_t
ngx_http_hymt_deepl_split(ngx_http_hymt_call_t *call)
{
    json_t      *value;
    ngx_int_t    rc;
    ngx_uint_t   n;

    static const char  *values[] = { "0", "1", "nonewlines", NULL };

    value = json_object_get(call->root, "split_sentences");

    if (json_is_integer(value)
        && (json_integer_value(value) == 0 || json_integer_value(value) == 1))
    {
        n = (ngx_uint_t) json_integer_value(value);

    } else {
        rc = ngx_http_hymt_deepl_one_of(call, "split_sentences", values, &n);

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }

        if (rc == NGX_DECLINED) {
            n = call->document.format == HYMT_FORMAT_HTML ? 2 : 1;
        }
    }

    if (n == 0) {
        call->document.split = HYMT_SPLIT_NONE;

    } else if (n == 1 && call->document.split == HYMT_SPLIT_AUTO) {
        call->document.split = HYMT_SPLIT_PARAGRAPH;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_deepl_options(ngx_http_hymt_call_t *call)
{
    size_t                  len;
    ngx_int_t               rc;
    ngx_uint_t              n, flag;
    const char             *context;
    ngx_http_hymt_deepl_t  *deepl;

    static const char  *models[] = { "quality_optimized",
                                     "prefer_quality_optimized",
                                     "latency_optimized", NULL };

    deepl = call->data;
    flag = 0;

    if (ngx_http_hymt_param_bool(call, "preserve_formatting", &flag)
        == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    call->document.preserve_formatting = flag;

    /* always shown: only looked at */

    if (ngx_http_hymt_param_bool(call, "show_billed_characters", &flag)
        == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    flag = 1;

    if (ngx_http_hymt_param_bool(call, "outline_detection", &flag)
        == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    call->document.listed_tags_split = !flag;

    rc = ngx_http_hymt_deepl_one_of(call, "model_type", models, &n);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_OK) {
        deepl->model = models[n == 1 ? 0 : n];
    }

    len = 0;

    if (ngx_http_hymt_param_string(call, "context", &context, &len)
        == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    if (len != 0) {
        call->job.part[HYMT_PART_CONTEXT] = context;
        call->job.part_len[HYMT_PART_CONTEXT] = len;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_hymt_deepl_one_of(ngx_http_hymt_call_t *call, const char *name,
    const char **values, ngx_uint_t *found)
{
    char         list[160], *p, shown[NGX_HTTP_HYMT_SHOWN];
    size_t       len;
    ngx_uint_t   i;
    const char  *value;

    len = 0;

    if (ngx_http_hymt_param_string(call, name, &value, &len) == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (len == 0) {
        return NGX_DECLINED;
    }

    p = list;

    for (i = 0; values[i] != NULL; i++) {

        if (strlen(values[i]) == len && strcmp(values[i], value) == 0) {
            *found = i;
            return NGX_OK;
        }

        p += sprintf(p, "%s%s", i ? ", " : "", values[i]);
    }

    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                       "Value for '%s' not supported: \"%s\" is none of %s",
                       name, ngx_http_hymt_show(shown, value, len), list);

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_hymt_deepl_glossary_asked(ngx_http_hymt_call_t *call)
{
    json_t                 *several;
    ngx_http_hymt_deepl_t  *deepl;

    deepl = call->data;

    several = json_object_get(call->root, "glossary_ids");

    if (json_array_size(several) != 0 || json_string_length(several) != 0) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "not_supported",
                           "'glossary_ids' is not supported: give one"
                           " glossary_id");
        return NGX_ERROR;
    }

    if (ngx_http_hymt_param_string(call, "glossary_id", &deepl->glossary,
                                   &deepl->glossary_len)
        == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    if (deepl->glossary_len == 0) {
        deepl->glossary = NULL;
        return NGX_OK;
    }

    if (call->detect) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "missing_field",
                           "Use of a glossary requires the source_lang"
                           " parameter to be specified");
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_deepl_texts(ngx_http_hymt_call_t *call)
{
    size_t                  i, n;
    json_t                 *list, *text;
    ngx_int_t               rc;
    ngx_http_hymt_item_t   *item;
    ngx_http_hymt_deepl_t  *deepl;

    deepl = call->data;

    rc = ngx_http_hymt_param_strings(call, "text", 0, &list);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_DECLINED) {
        return ngx_http_hymt_deepl_missing(call, "text");
    }

    if (json_object_set_new(call->root, "text", list) != 0) {
        return ngx_http_hymt_deepl_no_memory(call);
    }

    n = json_array_size(list);

    if (n == 0) {
        return ngx_http_hymt_deepl_missing(call, "text");
    }

    if (n > (size_t) call->conf->max_texts) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "too_many_texts",
                           "Too many texts: %lu, at most %ld are taken",
                           (unsigned long) n, (long) call->conf->max_texts);
        return NGX_ERROR;
    }

    if (ngx_http_hymt_items(call, n) != NGX_OK) {
        return NGX_ERROR;
    }

    call->array = (n > 1);

    json_array_foreach(list, i, text) {
        item = &call->items[i];

        item->text = json_string_value(text);
        item->len = json_string_length(text);
        item->as_is = deepl->same
                      || ngx_http_hymt_symbols(item->text, item->len);
    }

    return NGX_OK;
}


/* On a thread: reads the glossary's file. */
static void
ngx_http_hymt_deepl_more(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_deepl_t  *deepl;

    deepl = call->data;

    if (ngx_http_hymt_glossary_use(call, deepl->glossary, deepl->glossary_len)
        == NGX_OK)
    {
        (void) ngx_http_hymt_prepare(call);
    }
}


/* {"translations": [{"detected_source_language", "text", ...}, ...]} */
static void
ngx_http_hymt_deepl_render(ngx_http_hymt_call_t *call)
{
    json_t                *list;
    ngx_uint_t             i;
    json_int_t             characters, total;
    ngx_http_hymt_item_t  *item;

    list = json_array();
    total = 0;

    for (i = 0; i < call->n_items; i++) {
        item = &call->items[i];
        characters = ngx_http_hymt_deepl_characters(item->text, item->len);
        total += characters;

        (void) json_array_append_new(list,
                   ngx_http_hymt_deepl_translation(call, item, characters));
    }

    /* short means that memory was */

    if (json_array_size(list) != call->n_items) {
        json_decref(list);
        list = NULL;
    }

    (void) ngx_atomic_fetch_add(&ngx_http_hymt_counters()->characters, total);

    ngx_http_hymt_reply(call, NGX_HTTP_OK,
                        json_pack("{s:o}", "translations", list));
}


static json_t *
ngx_http_hymt_deepl_translation(ngx_http_hymt_call_t *call,
    ngx_http_hymt_item_t *item, json_int_t characters)
{
    char                    code[NGX_HTTP_HYMT_DEEPL_CODE];
    int32_t                 src;
    json_t                 *root;
    ngx_http_hymt_deepl_t  *deepl;

    deepl = call->data;
    src = call->detect ? item->detected : deepl->source;

    /* where nothing tells: clients do not take nothing */

    if (src == HYMT_LANG_NONE) {
        src = hymt_lang_find("en", 2);
    }

    src = ngx_http_hymt_deepl_base(call, src);

    root = json_pack("{s:s, s:o}",
                     "detected_source_language",
                     ngx_http_hymt_deepl_code(src, 1, code),
                     "text", json_stringn(item->out, item->out_len));

    if (root == NULL) {
        return NULL;
    }

    (void) json_object_set_new(root, "billed_characters",
                               json_integer(characters));

    if (deepl->model != NULL) {
        (void) json_object_set_new(root, "model_type_used",
                                   json_string(deepl->model));
    }

    if (deepl->version != NULL) {
        (void) json_object_set_new(root, "tag_handling_version",
                                   json_string(deepl->version));
    }

    return root;
}


/* code points of whole UTF-8 */
static json_int_t
ngx_http_hymt_deepl_characters(const char *text, size_t len)
{
    size_t      i;
    json_int_t  n;

    n = 0;

    for (i = 0; i < len; i++) {
        n += ((u_char) text[i] & 0xc0) != 0x80;
    }

    return n;
}


/* Of all keys together: who may do how much is NGINX's limits' to say. */
static void
ngx_http_hymt_deepl_usage(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_counters_t  *counters;

    counters = ngx_http_hymt_counters();

    ngx_http_hymt_reply(call, NGX_HTTP_OK,
                        json_pack("{s:I, s:I}",
                                  "character_count",
                                  (json_int_t) counters->characters,
                                  "character_limit",
                                  (json_int_t) NGX_HTTP_HYMT_DEEPL_NO_LIMIT));
}


static ngx_int_t
ngx_http_hymt_deepl_no_memory(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                       "out of memory");

    return NGX_ERROR;
}


/* {"message"}, with the status codes that clients know */
static json_t *
ngx_http_hymt_deepl_error(ngx_http_hymt_failure_t *f)
{
    if (f->status == 422) {
        f->status = NGX_HTTP_REQUEST_ENTITY_TOO_LARGE;
    }

    if (strcmp(f->code, "not_found") == 0) {
        return json_pack("{s:s}", "message",
                         "Not available: of version 2 this server has"
                         " translate, languages, usage,"
                         " glossary-language-pairs and glossaries");
    }

    if (strcmp(f->code, "invalid_text") == 0) {
        return json_pack("{s:s+}", "message",
                         "Tag handling parsing failed, please check input: ",
                         f->message);
    }

    return json_pack("{s:s}", "message", f->message);
}
