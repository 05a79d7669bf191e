
/*
 * Copyright (C) the hymt authors
 */


/*
 * Google's Cloud Translation, basic edition (v2).
 *
 *   GET, POST              q, target, source, format, model
 *   GET, POST  detect      q
 *   GET, POST  languages   target
 *
 * Below language/translate/v2, whichever part of that the location has.
 * Parameters come as JSON, form or query string; null and "" are as good as
 * absent.  The format is HTML unless it is said to be text.
 */


#include "ngx_http_hymt.h"
#include "detect.h"


#define NGX_HTTP_HYMT_GOOGLE_TYPES                                           \
    (NGX_HTTP_HYMT_JSON|NGX_HTTP_HYMT_FORM|NGX_HTTP_HYMT_MULTIPART)


typedef struct {
    const char   *google;
    const char   *ours;
} ngx_http_hymt_google_lang_t;


typedef struct {
    const char   *code;
    const char   *domain;
    const char   *reason;
} ngx_http_hymt_google_reason_t;


static void ngx_http_hymt_google_translate(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_google_params(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_google_q(ngx_http_hymt_call_t *call,
    json_t **list);
static ngx_int_t ngx_http_hymt_google_lang(ngx_http_hymt_call_t *call,
    const char *name, int32_t *lang);
static ngx_int_t ngx_http_hymt_google_format(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_google_items(ngx_http_hymt_call_t *call,
    json_t *list);
static void ngx_http_hymt_google_render(ngx_http_hymt_call_t *call);
static json_t *ngx_http_hymt_google_text(ngx_http_hymt_call_t *call,
    ngx_http_hymt_item_t *item);
static const char *ngx_http_hymt_google_markup(const char *p,
    const char *end);
static const char *ngx_http_hymt_google_tag(const char *p, const char *end);
static const char *ngx_http_hymt_google_after(const char *p, const char *end,
    const char *mark);
static void ngx_http_hymt_google_detect(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_google_languages(ngx_http_hymt_call_t *call);
static const char *ngx_http_hymt_google_code(int lang);
static json_t *ngx_http_hymt_google_error(ngx_http_hymt_failure_t *f);


/* where its codes are not ours; others that it takes, hymt_lang_find() knows */

static ngx_http_hymt_google_lang_t  ngx_http_hymt_google_langs[] = {
    { "zh-CN", "zh" },
    { "zh-TW", "zh-Hant" },
    { NULL, NULL }
};


static ngx_http_hymt_google_reason_t  ngx_http_hymt_google_reasons[] = {
    { "missing_field", "global", "required" },
    { "not_found", "global", "notFound" },
    { "method_not_allowed", "global", "httpMethodNotAllowed" },
    { "body_too_large", "global", "uploadTooLarge" },
    { "too_large", "global", "uploadTooLarge" },
    { "queue_full", "usageLimits", "rateLimitExceeded" },
    { "internal", "global", "internalError" },
    { "timeout", "global", "backendError" },
    { "loading", "global", "backendError" },
    { "buffers_full", "global", "backendError" },
    { "unavailable", "global", "backendError" },
    { NULL, "global", "invalid" }
};


static ngx_http_hymt_endpoint_t  ngx_http_hymt_google_endpoints[] = {

    { NGX_HTTP_GET|NGX_HTTP_POST, "",
      NGX_HTTP_HYMT_GOOGLE_TYPES, 1, 0,
      ngx_http_hymt_google_translate, ngx_http_hymt_google_render },

    { NGX_HTTP_GET|NGX_HTTP_POST, "translate/v2",
      NGX_HTTP_HYMT_GOOGLE_TYPES, 1, 0,
      ngx_http_hymt_google_translate, ngx_http_hymt_google_render },

    { NGX_HTTP_GET|NGX_HTTP_POST, "language/translate/v2",
      NGX_HTTP_HYMT_GOOGLE_TYPES, 1, 0,
      ngx_http_hymt_google_translate, ngx_http_hymt_google_render },

    { NGX_HTTP_GET|NGX_HTTP_POST, "detect",
      NGX_HTTP_HYMT_GOOGLE_TYPES, 0, 0,
      ngx_http_hymt_google_detect, NULL },

    { NGX_HTTP_GET|NGX_HTTP_POST, "translate/v2/detect",
      NGX_HTTP_HYMT_GOOGLE_TYPES, 0, 0,
      ngx_http_hymt_google_detect, NULL },

    { NGX_HTTP_GET|NGX_HTTP_POST, "language/translate/v2/detect",
      NGX_HTTP_HYMT_GOOGLE_TYPES, 0, 0,
      ngx_http_hymt_google_detect, NULL },

    { NGX_HTTP_GET|NGX_HTTP_POST, "languages",
      NGX_HTTP_HYMT_GOOGLE_TYPES, 0, 0,
      ngx_http_hymt_google_languages, NULL },

    { NGX_HTTP_GET|NGX_HTTP_POST, "translate/v2/languages",
      NGX_HTTP_HYMT_GOOGLE_TYPES, 0, 0,
      ngx_http_hymt_google_languages, NULL },

    { NGX_HTTP_GET|NGX_HTTP_POST, "language/translate/v2/languages",
      NGX_HTTP_HYMT_GOOGLE_TYPES, 0, 0,
      ngx_http_hymt_google_languages, NULL },

    { 0, NULL, 0, 0, 0, NULL, NULL }
};


ngx_http_hymt_api_t  ngx_http_hymt_google = {
    ngx_string("google"),
    ngx_http_hymt_google_endpoints,
    ngx_http_hymt_google_error,
    NULL,
    NULL,
    NULL
};


static void
ngx_http_hymt_google_translate(ngx_http_hymt_call_t *call)
{
    json_t   *list;
    int32_t   source;

    ngx_http_hymt_defaults(call);

    source = HYMT_LANG_NONE;

    if (ngx_http_hymt_google_params(call) != NGX_OK
        || ngx_http_hymt_google_q(call, &list) != NGX_OK
        || ngx_http_hymt_google_lang(call, "target", &call->job.tgt) != NGX_OK
        || ngx_http_hymt_google_lang(call, "source", &source) != NGX_OK
        || ngx_http_hymt_google_format(call) != NGX_OK)
    {
        return;
    }

    if (call->job.tgt == HYMT_LANG_NONE) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "missing_field",
                           "Required parameter: target");
        return;
    }

    if (source != HYMT_LANG_NONE) {
        call->job.src = source;
    }

    call->detect = (call->job.src == HYMT_LANG_NONE);

    if (call->job.src == call->job.tgt) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "Bad language pair: %s|%s",
                           ngx_http_hymt_google_code(call->job.src),
                           ngx_http_hymt_google_code(call->job.tgt));
        return;
    }

    if (ngx_http_hymt_google_items(call, list) == NGX_OK) {
        (void) ngx_http_hymt_prepare(call);
    }
}


static ngx_int_t
ngx_http_hymt_google_params(ngx_http_hymt_call_t *call)
{
    /* a type without a body says nothing */

    if (call->body_len == 0) {
        call->type = 0;
    }

    return ngx_http_hymt_params(call) ? NGX_OK : NGX_ERROR;
}


/* The texts: an array that lives as long as the call. */
static ngx_int_t
ngx_http_hymt_google_q(ngx_http_hymt_call_t *call, json_t **list)
{
    size_t     n;
    ngx_int_t  rc;

    rc = ngx_http_hymt_param_strings(call, "q", 0, list);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    n = (rc == NGX_OK) ? json_array_size(*list) : 0;

    if (rc == NGX_OK && json_object_set_new(call->root, "q", *list) != 0) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        return NGX_ERROR;
    }

    if (n == 0) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "missing_field",
                           "Required Text");
        return NGX_ERROR;
    }

    if (n > (size_t) call->conf->max_texts) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "too_many_texts",
                           "Too many text segments: %lu; at most %ld are"
                           " taken", (unsigned long) n,
                           (long) call->conf->max_texts);
        return NGX_ERROR;
    }

    call->array = (n > 1);

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_google_lang(ngx_http_hymt_call_t *call, const char *name,
    int32_t *lang)
{
    int          found;
    char         shown[NGX_HTTP_HYMT_SHOWN];
    size_t       len;
    ngx_int_t    rc;
    const char  *code;

    rc = ngx_http_hymt_param_string(call, name, &code, &len);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_DECLINED || len == 0
        || (name[0] == 's' && strcasecmp(code, "auto") == 0))
    {
        return NGX_OK;
    }

    found = hymt_lang_find(code, len);

    if (found == HYMT_LANG_NONE
        || !(call->model->params.languages >> found & 1))
    {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "Invalid Value: %s \"%s\" is not supported", name,
                           ngx_http_hymt_show(shown, code, len));
        return NGX_ERROR;
    }

    *lang = found;

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_google_format(ngx_http_hymt_call_t *call)
{
    const char  *format;

    format = "";

    if (ngx_http_hymt_param_string(call, "format", &format, NULL)
        == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    call->document.format = HYMT_FORMAT_HTML;

    if (strcmp(format, "text") == 0) {
        call->document.format = HYMT_FORMAT_TEXT;

    } else if (format[0] != '\0' && strcmp(format, "html") != 0) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "Invalid Value: format must be html or text, not"
                           " \"%.40s\"", format);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_google_items(ngx_http_hymt_call_t *call, json_t *list)
{
    size_t                 i;
    json_t                *text;
    ngx_http_hymt_item_t  *item;

    if (ngx_http_hymt_items(call, json_array_size(list)) != NGX_OK) {
        return NGX_ERROR;
    }

    json_array_foreach(list, i, text) {
        item = &call->items[i];

        item->text = json_string_value(text);
        item->len = json_string_length(text);
        item->as_is = ngx_http_hymt_symbols(item->text, item->len);
    }

    return NGX_OK;
}


/*
 * {"data": {"translations": [{"translatedText", "detectedSourceLanguage"?,
 * "model"?}, ...]}}
 */
static void
ngx_http_hymt_google_render(ngx_http_hymt_call_t *call)
{
    json_t                *list, *one, *model;
    ngx_uint_t             i;
    ngx_http_hymt_item_t  *item;

    list = json_array();
    model = json_object_get(call->root, "model");

    for (i = 0; i < call->n_items; i++) {
        item = &call->items[i];

        one = json_pack("{s:o}", "translatedText",
                        ngx_http_hymt_google_text(call, item));

        if (call->detect) {
            (void) json_object_set_new(one, "detectedSourceLanguage",
                       json_string(ngx_http_hymt_google_code(item->detected)));
        }

        if (json_is_string(model) && json_string_length(model) != 0) {
            (void) json_object_set(one, "model", model);
        }

        (void) json_array_append_new(list, one);
    }

    /* a short array means that memory was */

    if (json_array_size(list) != call->n_items) {
        json_decref(list);
        list = NULL;
    }

    ngx_http_hymt_reply(call, NGX_HTTP_OK,
                        json_pack("{s:{s:o}}", "data", "translations", list));
}


/* In HTML, Google escapes quotes between tags, and its clients undo it. */
static json_t *
ngx_http_hymt_google_text(ngx_http_hymt_call_t *call,
    ngx_http_hymt_item_t *item)
{
    json_t                *text;
    const char            *p, *end, *next;
    ngx_http_hymt_text_t   out;

    if (call->document.format == HYMT_FORMAT_TEXT) {
        return json_stringn(item->out, item->out_len);
    }

    ngx_memzero(&out, sizeof(ngx_http_hymt_text_t));

    p = item->out;
    end = p + item->out_len;

    while (p < end) {

        if (*p == '\'') {
            ngx_http_hymt_append(&out, "&#39;", 5);
            p++;

        } else if (*p == '"') {
            ngx_http_hymt_append(&out, "&quot;", 6);
            p++;

        } else {
            next = ngx_http_hymt_google_markup(p, end);
            ngx_http_hymt_append(&out, p, next - p);
            p = next;
        }
    }

    text = out.failed ? NULL : json_stringn(out.len ? out.data : "", out.len);

    free(out.data);

    return text;
}


/* The end of the markup that begins at p; of text, where none does. */
static const char *
ngx_http_hymt_google_markup(const char *p, const char *end)
{
    size_t       len;
    const char  *next;

    if (*p != '<') {

        while (p < end && *p != '<' && *p != '\'' && *p != '"') {
            p++;
        }

        return p;
    }

    len = end - p;

    if (len >= 4 && ngx_memcmp(p, "<!--", 4) == 0) {
        return ngx_http_hymt_google_after(p + 4, end, "-->");
    }

    if (len >= 2 && (p[1] == '!' || p[1] == '?')) {
        return ngx_http_hymt_google_after(p + 2, end, ">");
    }

    next = ngx_http_hymt_google_tag(p, end);

    /* what is in these is no text */

    if (len >= 7 && strncasecmp(p, "<script", 7) == 0) {
        return ngx_http_hymt_google_after(next, end, "</script");
    }

    if (len >= 6 && strncasecmp(p, "<style", 6) == 0) {
        return ngx_http_hymt_google_after(next, end, "</style");
    }

    return next;
}


/* The end of a tag, attributes and all; a "<" alone is none. */
static const char *
ngx_http_hymt_google_tag(const char *p, const char *end)
{
    char  quote;

    p++;

    if (p < end && *p == '/') {
        p++;
    }

    if (p == end || !((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z'))) {
        return p;
    }

    for (quote = 0; p < end; p++) {

        if (quote) {
            quote = (*p == quote) ? 0 : quote;

        } else if (*p == '"' || *p == '\'') {
            quote = *p;

        } else if (*p == '>') {
            return p + 1;
        }
    }

    return end;
}


static const char *
ngx_http_hymt_google_after(const char *p, const char *end, const char *mark)
{
    u_char  *at;
    size_t   len;

    len = strlen(mark);

    at = ngx_strlcasestrn((u_char *) p, (u_char *) end, (u_char *) mark,
                          len - 1);

    return at ? (char *) at + len : end;
}


/*
 * {"data": {"detections": [[{"language", "isReliable", "confidence"}], ...]}}:
 * one for each text, in an array of its own
 */
static void
ngx_http_hymt_google_detect(ngx_http_hymt_call_t *call)
{
    size_t             i;
    json_t            *list, *text, *root;
    hymt_detection_t   d;

    if (ngx_http_hymt_google_params(call) != NGX_OK
        || ngx_http_hymt_google_q(call, &list) != NGX_OK)
    {
        return;
    }

    root = json_array();

    json_array_foreach(list, i, text) {

        hymt_detect(json_string_value(text), json_string_length(text), false,
                    call->model->params.languages, &d);

        (void) json_array_append_new(root,
                   json_pack("[{s:s, s:b, s:f}]",
                             "language", ngx_http_hymt_google_code(
                                 d.n ? d.best[0].lang : HYMT_LANG_NONE),
                             "isReliable", d.n != 0 && d.reliable,
                             "confidence", d.n ? d.best[0].confidence : 0.0));
    }

    if (json_array_size(root) != json_array_size(list)) {
        json_decref(root);
        root = NULL;
    }

    ngx_http_hymt_reply(call, NGX_HTTP_OK,
                        json_pack("{s:{s:o}}", "data", "detections", root));
}


/*
 * {"data": {"languages": [{"language", "name"?}, ...]}}: names only in a
 * language, which are Chinese for Chinese and English for all others
 */
static void
ngx_http_hymt_google_languages(ngx_http_hymt_call_t *call)
{
    int          i;
    json_t      *list, *one;
    int32_t      target;
    ngx_uint_t   chinese;

    target = HYMT_LANG_NONE;

    if (ngx_http_hymt_google_params(call) != NGX_OK
        || ngx_http_hymt_google_lang(call, "target", &target) != NGX_OK)
    {
        return;
    }

    chinese = target != HYMT_LANG_NONE
              && strncmp(hymt_langs[target].code, "zh", 2) == 0;

    list = json_array();

    for (i = 0; i < HYMT_N_LANGS; i++) {

        if (!(call->model->params.languages >> i & 1)) {
            continue;
        }

        one = json_pack("{s:s}", "language", ngx_http_hymt_google_code(i));

        if (target != HYMT_LANG_NONE) {
            (void) json_object_set_new(one, "name",
                                       json_string(chinese
                                                   ? hymt_langs[i].chinese
                                                   : hymt_langs[i].english));
        }

        (void) json_array_append_new(list, one);
    }

    ngx_http_hymt_reply(call, NGX_HTTP_OK,
                        json_pack("{s:{s:o}}", "data", "languages", list));
}


static const char *
ngx_http_hymt_google_code(int lang)
{
    ngx_http_hymt_google_lang_t  *l;

    if (lang == HYMT_LANG_NONE) {
        return "und";
    }

    for (l = ngx_http_hymt_google_langs; l->google; l++) {
        if (strcmp(l->ours, hymt_langs[lang].code) == 0) {
            return l->google;
        }
    }

    return hymt_langs[lang].code;
}


/*
 * {"error": {"code", "message", "errors": [{"message", "domain", "reason"}]}}
 */
static json_t *
ngx_http_hymt_google_error(ngx_http_hymt_failure_t *f)
{
    ngx_http_hymt_google_reason_t  *r;

    if (f->status == 422) {
        f->status = NGX_HTTP_BAD_REQUEST;
    }

    for (r = ngx_http_hymt_google_reasons; r->code; r++) {
        if (strcmp(r->code, f->code) == 0) {
            break;
        }
    }

    return json_pack("{s:{s:i, s:s, s:[{s:s, s:s, s:s}]}}",
                     "error",
                     "code", (int) f->status,
                     "message", f->message,
                     "errors",
                     "message", f->message,
                     "domain", r->domain,
                     "reason", r->reason);
}
