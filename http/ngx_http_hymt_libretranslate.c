
/*
 * Copyright (C) the hymt authors
 */


/*
 * LibreTranslate's API, version 1.9.
 *
 *   POST translate        q, source, target, format, alternatives
 *   POST detect           q
 *   GET  languages
 *   GET  health
 *   GET  frontend/settings
 *
 * Parameters come as JSON, form or query string; null and "" are as good as
 * absent.  Files and suggestions are answered as by a server without them.
 */


#include "ngx_http_hymt_libretranslate.h"
#include "detect.h"

#include <math.h>


#define NGX_HTTP_HYMT_LIBRE_ALTERNATIVES  3
#define NGX_HTTP_HYMT_LIBRE_SAMPLE        65536

#define NGX_HTTP_HYMT_LIBRE_TYPES                                            \
    (NGX_HTTP_HYMT_JSON|NGX_HTTP_HYMT_FORM|NGX_HTTP_HYMT_MULTIPART)


typedef struct {
    ngx_uint_t         n;              /* texts */
    ngx_uint_t         alternatives;   /* asked for, of each */
    hymt_detection_t   found;
    unsigned           automatic:1;    /* source "auto" */
} ngx_http_hymt_libre_t;


static void ngx_http_hymt_libre_translate(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_libre_q(ngx_http_hymt_call_t *call,
    json_t **list);
static json_t *ngx_http_hymt_libre_lines(json_t *text);
static ngx_int_t ngx_http_hymt_libre_missing(ngx_http_hymt_call_t *call,
    const char *name);
static ngx_int_t ngx_http_hymt_libre_languages_asked(
    ngx_http_hymt_call_t *call, ngx_http_hymt_libre_t *libre);
static ngx_int_t ngx_http_hymt_libre_code(ngx_http_hymt_call_t *call,
    const char *name, const char **code, size_t *len);
static ngx_int_t ngx_http_hymt_libre_format(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_libre_alternatives(ngx_http_hymt_call_t *call,
    ngx_http_hymt_libre_t *libre);
static ngx_int_t ngx_http_hymt_libre_number(json_t *value, double *number);
static ngx_int_t ngx_http_hymt_libre_items(ngx_http_hymt_call_t *call,
    json_t *list, ngx_http_hymt_libre_t *libre);
static void ngx_http_hymt_libre_sampling(ngx_http_hymt_call_t *call,
    ngx_http_hymt_item_t *item, ngx_uint_t n);
static ngx_int_t ngx_http_hymt_libre_find(ngx_http_hymt_call_t *call,
    json_t *list, hymt_detection_t *found);
static void ngx_http_hymt_libre_render(ngx_http_hymt_call_t *call);
static json_t *ngx_http_hymt_libre_others(ngx_http_hymt_call_t *call,
    ngx_http_hymt_libre_t *libre, ngx_uint_t text);
static json_t *ngx_http_hymt_libre_detected(int lang, double confidence);
static void ngx_http_hymt_libre_detect(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_libre_health(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_libre_settings(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_libre_files(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_libre_suggest(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_libre_no_memory(ngx_http_hymt_call_t *call);
static json_t *ngx_http_hymt_libre_error(ngx_http_hymt_failure_t *f);


static ngx_http_hymt_endpoint_t  ngx_http_hymt_libre_endpoints[] = {

    { NGX_HTTP_POST, "translate",
      NGX_HTTP_HYMT_LIBRE_TYPES, 1, 0,
      ngx_http_hymt_libre_translate, ngx_http_hymt_libre_render },

    { NGX_HTTP_POST, "detect",
      NGX_HTTP_HYMT_LIBRE_TYPES, 0, 0,
      ngx_http_hymt_libre_detect, NULL },

    { NGX_HTTP_GET, "languages",
      0, 0, 0,
      ngx_http_hymt_libre_languages, NULL },

    { NGX_HTTP_GET, "health",
      0, 0, 0,
      ngx_http_hymt_libre_health, NULL },

    { NGX_HTTP_GET, "frontend/settings",
      0, 0, 0,
      ngx_http_hymt_libre_settings, NULL },

    { NGX_HTTP_POST, "translate_file",
      NGX_HTTP_HYMT_LIBRE_TYPES, 0, 0,
      ngx_http_hymt_libre_files, NULL },

    { NGX_HTTP_GET, "download_file/*",
      0, 0, 0,
      ngx_http_hymt_libre_files, NULL },

    { NGX_HTTP_POST, "suggest",
      NGX_HTTP_HYMT_LIBRE_TYPES, 0, 0,
      ngx_http_hymt_libre_suggest, NULL },

    { 0, NULL, 0, 0, 0, NULL, NULL }
};


ngx_http_hymt_api_t  ngx_http_hymt_libretranslate = {
    ngx_string("libretranslate"),
    ngx_http_hymt_libre_endpoints,
    ngx_http_hymt_libre_error,
    NULL,
    NULL,
    NULL
};


static void
ngx_http_hymt_libre_translate(ngx_http_hymt_call_t *call)
{
    json_t                 *list;
    ngx_http_hymt_libre_t  *libre;

    ngx_http_hymt_defaults(call);

    libre = calloc(1, sizeof(ngx_http_hymt_libre_t));

    if (libre == NULL) {
        (void) ngx_http_hymt_libre_no_memory(call);
        return;
    }

    call->data = libre;

    if (ngx_http_hymt_libre_q(call, &list) != NGX_OK
        || ngx_http_hymt_libre_languages_asked(call, libre) != NGX_OK
        || ngx_http_hymt_libre_alternatives(call, libre) != NGX_OK
        || ngx_http_hymt_libre_format(call) != NGX_OK
        || (libre->automatic
            && ngx_http_hymt_libre_find(call, list, &libre->found) != NGX_OK)
        || ngx_http_hymt_libre_items(call, list, libre) != NGX_OK)
    {
        return;
    }

    (void) ngx_http_hymt_prepare(call);
}


/* The texts: an array that lives as long as the call. */
static ngx_int_t
ngx_http_hymt_libre_q(ngx_http_hymt_call_t *call, json_t **list)
{
    size_t   i, n;
    json_t  *root, *q, *text;

    /* a type without a body says nothing */

    if (call->body_len == 0) {
        call->type = 0;
    }

    root = ngx_http_hymt_params(call);

    if (root == NULL) {

        if (call->root != NULL && !json_is_object(call->root)) {
            call->failure.status = 0;
            ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST,
                               NGX_HTTP_HYMT_LIBRE_SAYS,
                               "Invalid JSON format");
        }

        return NGX_ERROR;
    }

    q = json_object_get(root, "q");

    if (json_is_string(q) && json_string_length(q) == 0) {
        q = NULL;
    }

    call->array = json_is_array(q);

    if (q == NULL || ngx_http_hymt_param_strings(call, "q", 0, list) != NGX_OK)
    {
        return ngx_http_hymt_libre_missing(call, "q");
    }

    if (json_object_set_new(root, "q", *list) != 0) {
        return ngx_http_hymt_libre_no_memory(call);
    }

    n = json_array_size(*list);

    if (n == 0) {
        return ngx_http_hymt_libre_missing(call, "q");
    }

    if (n > (size_t) call->conf->max_texts) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST,
                           NGX_HTTP_HYMT_LIBRE_SAYS, "Invalid request: request"
                           " (%lu) exceeds text limit (%ld)",
                           (unsigned long) n, (long) call->conf->max_texts);
        return NGX_ERROR;
    }

    if (call->type == NGX_HTTP_HYMT_JSON) {
        return NGX_OK;
    }

    for (i = 0; i < n; i++) {
        text = ngx_http_hymt_libre_lines(json_array_get(*list, i));

        if (text == NULL || json_array_set_new(*list, i, text) != 0) {
            return ngx_http_hymt_libre_no_memory(call);
        }
    }

    return NGX_OK;
}


/* Browsers end the lines of a form's text with CR LF: LF here. */
static json_t *
ngx_http_hymt_libre_lines(json_t *text)
{
    char        *copy, *p;
    size_t       i, len;
    json_t      *lines;
    const char  *from;

    from = json_string_value(text);
    len = json_string_length(text);

    if (memchr(from, '\r', len) == NULL) {
        return json_incref(text);
    }

    copy = malloc(len);

    if (copy == NULL) {
        return NULL;
    }

    p = copy;

    for (i = 0; i < len; i++) {

        if (from[i] != '\r') {
            *p++ = from[i];

        } else if (i + 1 == len || from[i + 1] != '\n') {
            *p++ = '\n';
        }
    }

    lines = json_stringn(copy, p - copy);

    free(copy);

    return lines;
}


static ngx_int_t
ngx_http_hymt_libre_missing(ngx_http_hymt_call_t *call, const char *name)
{
    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, NGX_HTTP_HYMT_LIBRE_SAYS,
                       "Invalid request: missing %s parameter", name);

    return NGX_ERROR;
}


/* The location's default languages stand in for what is missing. */
static ngx_int_t
ngx_http_hymt_libre_languages_asked(ngx_http_hymt_call_t *call,
    ngx_http_hymt_libre_t *libre)
{
    size_t       source_len, target_len;
    const char  *source, *target;

    if (ngx_http_hymt_libre_code(call, "source", &source, &source_len)
        != NGX_OK
        || ngx_http_hymt_libre_code(call, "target", &target, &target_len)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (source == NULL && call->job.src == HYMT_LANG_NONE) {
        return ngx_http_hymt_libre_missing(call, "source");
    }

    if (target == NULL && call->job.tgt == HYMT_LANG_NONE) {
        return ngx_http_hymt_libre_missing(call, "target");
    }

    if (source != NULL && strcasecmp(source, "auto") == 0) {
        libre->automatic = 1;
        call->job.src = HYMT_LANG_NONE;
        source = NULL;
    }

    if ((source != NULL
         && ngx_http_hymt_libre_lang(call, source, source_len, &call->job.src)
            != NGX_OK)
        || (target != NULL
            && ngx_http_hymt_libre_lang(call, target, target_len,
                                        &call->job.tgt) != NGX_OK))
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_libre_code(ngx_http_hymt_call_t *call, const char *name,
    const char **code, size_t *len)
{
    *code = NULL;
    *len = 0;

    if (ngx_http_hymt_param_string(call, name, code, len) == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (*len == 0) {
        *code = NULL;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_libre_format(ngx_http_hymt_call_t *call)
{
    const char  *format;

    format = "";

    if (ngx_http_hymt_param_string(call, "format", &format, NULL)
        == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    if (format[0] == '\0' || strcmp(format, "text") == 0) {
        call->document.format = HYMT_FORMAT_TEXT;
        return NGX_OK;
    }

    if (strcmp(format, "html") == 0) {
        call->document.format = HYMT_FORMAT_HTML;
        return NGX_OK;
    }

    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, NGX_HTTP_HYMT_LIBRE_SAYS,
                       "%.40s format is not supported", format);

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_hymt_libre_alternatives(ngx_http_hymt_call_t *call,
    ngx_http_hymt_libre_t *libre)
{
    double   n;
    json_t  *value;

    value = json_object_get(call->root, "alternatives");

    if (value == NULL || json_is_null(value)) {
        return NGX_OK;
    }

    if (ngx_http_hymt_libre_number(value, &n) != NGX_OK) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST,
                           NGX_HTTP_HYMT_LIBRE_SAYS, "Invalid request:"
                           " alternatives parameter is not a number");
        return NGX_ERROR;
    }

    if (n > NGX_HTTP_HYMT_LIBRE_ALTERNATIVES) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST,
                           NGX_HTTP_HYMT_LIBRE_SAYS, "Invalid request:"
                           " alternatives parameter must be <= %d",
                           NGX_HTTP_HYMT_LIBRE_ALTERNATIVES);
        return NGX_ERROR;
    }

    libre->alternatives = n < 0 ? 0 : (ngx_uint_t) n;

    return NGX_OK;
}


/* a JSON number, or an integer in a string */
static ngx_int_t
ngx_http_hymt_libre_number(json_t *value, double *number)
{
    char        *end;
    const char  *text;

    if (json_is_number(value)) {
        *number = json_number_value(value);
        return NGX_OK;
    }

    text = json_string_value(value);

    if (text == NULL || strspn(text, "+-0123456789 ") != strlen(text)) {
        return NGX_ERROR;
    }

    *number = (double) strtoll(text, &end, 10);

    return (end != text && *end == '\0') ? NGX_OK : NGX_ERROR;
}


/* First all texts, then the first alternative of each, then the second ... */
static ngx_int_t
ngx_http_hymt_libre_items(ngx_http_hymt_call_t *call, json_t *list,
    ngx_http_hymt_libre_t *libre)
{
    json_t                *text;
    ngx_uint_t             i, same;
    ngx_http_hymt_item_t  *item;

    libre->n = json_array_size(list);

    /* what is in the target language already needs no model */

    same = (call->job.src == call->job.tgt);

    if (same) {
        call->job.src = HYMT_LANG_NONE;
    }

    if (ngx_http_hymt_items(call, libre->n * (1 + libre->alternatives))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (i = 0; i < call->n_items; i++) {
        item = &call->items[i];
        text = json_array_get(list, i % libre->n);

        item->text = json_string_value(text);
        item->len = json_string_length(text);
        item->as_is = same || ngx_http_hymt_symbols(item->text, item->len);

        if (i >= libre->n) {
            ngx_http_hymt_libre_sampling(call, item, i / libre->n);
        }
    }

    return NGX_OK;
}


/*
 * The n-th alternative strays further than the one before; always the same way,
 * so that a request asked again gets the same answer.
 */
static void
ngx_http_hymt_libre_sampling(ngx_http_hymt_call_t *call,
    ngx_http_hymt_item_t *item, ngx_uint_t n)
{
    hymt_sampling_t  *s;

    s = &item->sampling;

    *s = call->job.sampling;

    s->temperature = ngx_max(s->temperature, 0.5f + 0.2f * (float) n);
    s->top_p = 0.9f;
    s->top_k = 20;
    s->seed = call->conf->seeded ? s->seed : 1;
}


/* One detection for all texts, as long as they are not too long. */
static ngx_int_t
ngx_http_hymt_libre_find(ngx_http_hymt_call_t *call, json_t *list,
    hymt_detection_t *found)
{
    size_t                 i, len;
    json_t                *text;
    ngx_http_hymt_text_t   sample;

    ngx_memzero(found, sizeof(hymt_detection_t));
    ngx_memzero(&sample, sizeof(ngx_http_hymt_text_t));

    json_array_foreach(list, i, text) {
        len = json_string_length(text);

        if (ngx_http_hymt_symbols(json_string_value(text), len)) {
            continue;
        }

        len = ngx_min(len, NGX_HTTP_HYMT_LIBRE_SAMPLE - sample.len);

        ngx_http_hymt_append(&sample, json_string_value(text),
                             hymt_utf8_whole(json_string_value(text), len));
        ngx_http_hymt_append(&sample, "\n", 1);

        if (sample.len >= NGX_HTTP_HYMT_LIBRE_SAMPLE) {
            break;
        }
    }

    if (sample.failed) {
        free(sample.data);
        return ngx_http_hymt_libre_no_memory(call);
    }

    if (sample.len != 0) {
        hymt_detect(sample.data, sample.len,
                    call->document.format != HYMT_FORMAT_TEXT,
                    call->model->params.languages, found);
    }

    free(sample.data);

    if (found->n == 0 || found->too_short) {
        return NGX_OK;
    }

    /* in texts of several languages there is something to translate */

    if (found->best[0].lang != call->job.tgt
        || (found->reliable && found->n == 1))
    {
        call->job.src = found->best[0].lang;
    }

    return NGX_OK;
}


/*
 * {"translatedText", "detectedLanguage"?: {"confidence", "language"},
 * "alternatives"?: []}, each an array where the texts came as one
 */
static void
ngx_http_hymt_libre_render(ngx_http_hymt_call_t *call)
{
    json_t                 *root, *texts, *found, *others;
    ngx_uint_t              i;
    ngx_http_hymt_item_t   *item;
    ngx_http_hymt_libre_t  *libre;

    libre = call->data;

    root = json_object();
    texts = json_array();
    found = json_array();
    others = json_array();

    for (i = 0; i < libre->n; i++) {
        item = &call->items[i];

        (void) json_array_append_new(texts, json_stringn(item->out,
                                                         item->out_len));
        (void) json_array_append_new(found, libre->found.n == 0
                         ? ngx_http_hymt_libre_detected(HYMT_LANG_NONE, 0)
                         : ngx_http_hymt_libre_detected(
                               libre->found.best[0].lang,
                               libre->found.best[0].confidence));
        (void) json_array_append_new(others,
                         ngx_http_hymt_libre_others(call, libre, i));
    }

    (void) json_object_set(root, "translatedText", call->array ? texts
                           : json_array_get(texts, 0));

    if (libre->automatic) {
        (void) json_object_set(root, "detectedLanguage", call->array ? found
                               : json_array_get(found, 0));
    }

    if (libre->alternatives) {
        (void) json_object_set(root, "alternatives", call->array ? others
                               : json_array_get(others, 0));
    }

    /* short arrays mean that memory was */

    if (json_array_size(texts) != libre->n
        || json_array_size(found) != libre->n
        || json_array_size(others) != libre->n)
    {
        json_decref(root);
        root = NULL;
    }

    json_decref(texts);
    json_decref(found);
    json_decref(others);

    ngx_http_hymt_reply(call, NGX_HTTP_OK, root);
}


/* The alternatives of a text that differ from its translation. */
static json_t *
ngx_http_hymt_libre_others(ngx_http_hymt_call_t *call,
    ngx_http_hymt_libre_t *libre, ngx_uint_t text)
{
    json_t                *list;
    ngx_uint_t             i, k;
    ngx_http_hymt_item_t  *item, *other;

    list = json_array();

    for (i = text + libre->n; i < call->n_items; i += libre->n) {
        item = &call->items[i];

        if (item->out_len == 0) {
            continue;
        }

        for (k = text; k < i; k += libre->n) {
            other = &call->items[k];

            if (other->out_len == item->out_len
                && ngx_memcmp(other->out, item->out, item->out_len) == 0)
            {
                break;
            }
        }

        if (k == i
            && json_array_append_new(list, json_stringn(item->out,
                                                        item->out_len)) != 0)
        {
            json_decref(list);
            return NULL;
        }
    }

    return list;
}


/* of nothing told, LibreTranslate says English */
static json_t *
ngx_http_hymt_libre_detected(int lang, double confidence)
{
    return json_pack("{s:f, s:s}", "confidence", rint(confidence * 100),
                     "language", lang == HYMT_LANG_NONE ? "en"
                                 : ngx_http_hymt_libre_code_of(lang));
}


static void
ngx_http_hymt_libre_detect(ngx_http_hymt_call_t *call)
{
    json_t            *list, *root;
    uint32_t           i;
    hymt_detection_t   found;

    if (ngx_http_hymt_libre_q(call, &list) != NGX_OK
        || ngx_http_hymt_libre_find(call, list, &found) != NGX_OK)
    {
        return;
    }

    root = json_array();

    for (i = 0; i < found.n; i++) {
        (void) json_array_append_new(root,
                         ngx_http_hymt_libre_detected(found.best[i].lang,
                             found.best[i].confidence));
    }

    if (found.n == 0) {
        (void) json_array_append_new(root,
                         ngx_http_hymt_libre_detected(HYMT_LANG_NONE, 0));
    }

    ngx_http_hymt_reply(call, NGX_HTTP_OK, root);
}


/* Whether the server can be asked; whether the model is loaded: hymt_status. */
static void
ngx_http_hymt_libre_health(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_reply(call, NGX_HTTP_OK, json_pack("{s:s}", "status", "ok"));
}


static void
ngx_http_hymt_libre_settings(ngx_http_hymt_call_t *call)
{
    int              i;
    hymt_lang_set_t  set;

    set = call->model->params.languages;
    i = call->conf->target;

    if (i < 0) {
        i = hymt_lang_find("en", 2);
    }

    if (!(set >> i & 1)) {
        for (i = 0; i < HYMT_N_LANGS - 1 && !(set >> i & 1); i++) { /* void */ }
    }

    ngx_http_hymt_reply(call, NGX_HTTP_OK,
        json_pack("{s:i, s:i, s:b, s:b, s:b, s:b, s:[],"
                  " s:{s:{s:s, s:s}, s:{s:s, s:s}}}",
                  "charLimit", -1,
                  "frontendTimeout", 500,
                  "apiKeys", 0,
                  "keyRequired", 0,
                  "suggestions", 0,
                  "filesTranslation", 0,
                  "supportedFilesFormat",
                  "language",
                  "source", "code", "auto", "name", "Auto Detect",
                  "target", "code", ngx_http_hymt_libre_code_of(i),
                  "name", ngx_http_hymt_libre_name_of(i)));
}


static void
ngx_http_hymt_libre_files(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_fail(call, call->method == NGX_HTTP_POST
                             ? NGX_HTTP_FORBIDDEN : NGX_HTTP_BAD_REQUEST,
                       NGX_HTTP_HYMT_LIBRE_SAYS,
                       "Files translation are disabled on this server.");
}


static void
ngx_http_hymt_libre_suggest(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_fail(call, NGX_HTTP_FORBIDDEN, NGX_HTTP_HYMT_LIBRE_SAYS,
                       "Suggestions are disabled on this server.");
}


static ngx_int_t
ngx_http_hymt_libre_no_memory(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                       "out of memory");

    return NGX_ERROR;
}


/*
 * {"error"}.  What LibreTranslate has no status for is 400, as all that is the
 * client's fault; its clients know what to do about 429 and 503.
 */
static json_t *
ngx_http_hymt_libre_error(ngx_http_hymt_failure_t *f)
{
    const char  *before;

    before = "";

    if (f->status == NGX_HTTP_REQUEST_ENTITY_TOO_LARGE || f->status == 422) {
        f->status = NGX_HTTP_BAD_REQUEST;
        before = "Invalid request: request exceeds text limit: ";

    } else if (f->status == NGX_HTTP_BAD_REQUEST) {

        if (strcmp(f->code, "invalid_json") == 0) {
            before = "Invalid JSON format: ";

        } else if (strcmp(f->code, NGX_HTTP_HYMT_LIBRE_SAYS) != 0) {
            before = "Invalid request: ";
        }
    }

    return json_pack("{s:s+}", "error", before, f->message);
}
