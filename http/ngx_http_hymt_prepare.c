
/*
 * Copyright (C) the hymt authors
 */


/*
 * What the parse() and render() functions of the APIs have in common.  All of
 * it may run on a thread of the pool: malloc and jansson, and of NGINX only
 * what touches nothing but its arguments.
 */


#include "ngx_http_hymt.h"
#include "detect.h"
#include "scan.h"
#include "utf8.h"

#include <utf8proc.h>


/* how much of a text is in a language before all of it is taken to be */
#define NGX_HTTP_HYMT_SURE  0.9


static void ngx_http_hymt_clean(char *message);
static ngx_int_t ngx_http_hymt_check_options(ngx_http_hymt_call_t *call);
static const char *ngx_http_hymt_asked(ngx_http_hymt_call_t *call, char *list);
static ngx_int_t ngx_http_hymt_detect(ngx_http_hymt_call_t *call);
static ngx_uint_t ngx_http_hymt_translated(ngx_http_hymt_call_t *call,
    const hymt_detection_t *d);


void
ngx_http_hymt_fail(ngx_http_hymt_call_t *call, ngx_uint_t status,
    const char *code, const char *fmt, ...)
{
    va_list                   args;
    ngx_http_hymt_failure_t  *f;

    f = &call->failure;

    if (f->status != 0) {
        return;
    }

    f->status = status;
    f->code = code;

    va_start(args, fmt);
    (void) vsnprintf(f->message, sizeof(f->message), fmt, args);
    va_end(args);

    ngx_http_hymt_clean(f->message);
}


/* A message may quote the client, goes to the log, and may have been cut. */
static void
ngx_http_hymt_clean(char *message)
{
    u_char      c;
    size_t      i, len;
    ngx_uint_t  broken;

    len = hymt_utf8_whole(message, ngx_strlen(message));
    message[len] = '\0';

    broken = !hymt_utf8_check(message, len, NULL);

    for (i = 0; i < len; i++) {
        c = (u_char) message[i];

        if (c < 0x20 || c == 0x7f || (broken && c >= 0x80)) {
            message[i] = '?';
        }
    }
}


void
ngx_http_hymt_reply(ngx_http_hymt_call_t *call, ngx_uint_t status,
    json_t *root)
{
    char    *text;
    size_t   len;

    text = root ? json_dumps(root, JSON_COMPACT|JSON_REAL_PRECISION(6)) : NULL;

    json_decref(root);

    if (text == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        return;
    }

    /* the terminator's place serves for a newline */

    len = strlen(text);
    text[len++] = '\n';

    ngx_http_hymt_reply_text(call, status, "application/json", text, len);
}


void
ngx_http_hymt_reply_text(ngx_http_hymt_call_t *call, ngx_uint_t status,
    const char *content_type, char *text, size_t len)
{
    call->status = status;
    call->content_type = content_type;
    call->answer = text;
    call->answer_len = len;
}


void
ngx_http_hymt_defaults(ngx_http_hymt_call_t *call)
{
    uint64_t                   seed;
    hymt_sampling_t           *s;
    hymt_config_t             *config;
    ngx_http_hymt_loc_conf_t  *hlcf;

    hlcf = call->conf;
    config = &call->model->config;
    s = &call->job.sampling;

    /* drawn on the event loop */
    seed = s->seed;

    ngx_memzero(s, sizeof(hymt_sampling_t));

    s->seed = seed;
    s->top_p = 1;
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

    call->job.max_ratio = (float) hlcf->ratio / 100;

    call->document.split = hlcf->split;
    call->document.unit_bytes = hlcf->unit;
}


ngx_uint_t
ngx_http_hymt_symbols(const char *text, size_t len)
{
    size_t   at;
    int32_t  c;

    at = 0;

    while (at < len) {
        c = hymt_utf8_next_char(text, &at, len);

        switch (utf8proc_category(c)) {

        case UTF8PROC_CATEGORY_CN:
        case UTF8PROC_CATEGORY_LU:
        case UTF8PROC_CATEGORY_LL:
        case UTF8PROC_CATEGORY_LT:
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_LO:
        case UTF8PROC_CATEGORY_ND:
        case UTF8PROC_CATEGORY_NL:
        case UTF8PROC_CATEGORY_NO:
        case UTF8PROC_CATEGORY_CO:

            /* a digit drawn as an emoji has a variation selector */

            if (hymt_utf8_char_at(text, at, len) != 0xfe0f) {
                return 0;
            }

            break;

        default:
            break;
        }
    }

    return 1;
}


void
ngx_http_hymt_sampling_none(hymt_sampling_t *s)
{
    s->temperature = -1;
    s->top_p = -1;
    s->repetition_penalty = -1;
    s->top_k = UINT32_MAX;
}


void
ngx_http_hymt_sampling_over(hymt_sampling_t *s, const hymt_sampling_t *over)
{
    if (over->temperature >= 0) {
        s->temperature = over->temperature;
    }

    if (over->top_p >= 0) {
        s->top_p = over->top_p;
    }

    if (over->repetition_penalty >= 0) {
        s->repetition_penalty = over->repetition_penalty;
    }

    if (over->top_k != UINT32_MAX) {
        s->top_k = over->top_k;
    }
}


ngx_int_t
ngx_http_hymt_items(ngx_http_hymt_call_t *call, ngx_uint_t n)
{
    ngx_uint_t  i;

    call->items = hymt_zalloc(n * sizeof(ngx_http_hymt_item_t));

    if (call->items == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        return NGX_ERROR;
    }

    call->n_items = n;

    for (i = 0; i < n; i++) {
        call->items[i].call = call;
        call->items[i].src = HYMT_LANG_NONE;
        call->items[i].detected = HYMT_LANG_NONE;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_hymt_prepare(ngx_http_hymt_call_t *call)
{
    ngx_uint_t               i;
    hymt_error_t             err;
    ngx_http_hymt_item_t    *item;
    hymt_document_params_t   params;

    if (call->failure.status != 0
        || ngx_http_hymt_check_options(call) != NGX_OK
        || (call->detect && ngx_http_hymt_detect(call) != NGX_OK))
    {
        return NGX_ERROR;
    }

    params = call->document;
    params.tgt = call->job.tgt;
    params.neighbours = call->conf->neighbours
                        && ngx_http_hymt_has(call, HYMT_FEATURE_CONTEXT);
    params.tags_by_model = call->conf->tags == NGX_HTTP_HYMT_TAGS_MODEL
                           && ngx_http_hymt_has(call, HYMT_FEATURE_FORMATTED);

    for (i = 0; i < call->n_items; i++) {
        item = &call->items[i];

        if (!call->detect) {
            item->src = call->job.src;
        }

        /* what was set for one item alone has a seed */

        if (item->sampling.repetition_penalty == 0) {
            item->sampling = call->job.sampling;
        }

        if (call->chat || item->as_is) {
            continue;
        }

        params.src = item->src;

        if (hymt_document_create(item->text, item->len, &params, &item->doc,
                                 &err)
            != HYMT_OK)
        {
            ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_text",
                               "%s", err.text);
            return NGX_ERROR;
        }
    }

    ngx_http_hymt_estimate(call);

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_check_options(ngx_http_hymt_call_t *call)
{
    char             list[1400];
    hymt_error_t     err;
    hymt_lang_set_t  set;

    if (hymt_sampling_check(&call->job.sampling, &err) != HYMT_OK) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value", "%s",
                           err.text);
        return NGX_ERROR;
    }

    if (call->chat) {
        return NGX_OK;
    }

    if (!ngx_http_hymt_has(call, 0)) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "not_supported",
                           "model \"%s\" does not do what was asked (family"
                           " %s%s): leave out %s", call->model->name.data,
                           hymt_family_name(call->model->params.family),
                           call->model->prompt.len ? ", with a \"prompt\" of"
                           " its own" : "", ngx_http_hymt_asked(call, list));
        return NGX_ERROR;
    }

    set = call->model->params.languages;

    if (call->job.tgt == HYMT_LANG_NONE) {
        (void) hymt_lang_list(set, list, sizeof(list));

        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "missing_field",
                           "the target language is missing: give one of %s",
                           list);
        return NGX_ERROR;
    }

    if (!call->detect && call->job.tgt == call->job.src) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "source and target language are the same: %s",
                           hymt_langs[call->job.tgt].code);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* What the call holds beside its texts, by the names of its API's fields. */
static const char *
ngx_http_hymt_asked(ngx_http_hymt_call_t *call, char *list)
{
    char        *p;
    ngx_uint_t   i;

    struct {
        ngx_uint_t   there;
        const char  *name;
    } fields[] = {
        { call->n_terms, "terms" },
        { call->glossary != NULL, "glossary_id" },
        { call->job.part_len[HYMT_PART_CONTEXT], "context" },
        { call->job.part_len[HYMT_PART_STYLE],
          call->conf->api == &ngx_http_hymt_deepl ? "formality" : "style" },
        { call->session.len, "session_id" }
    };

    p = list;
    *p = '\0';

    for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (fields[i].there) {
            p += sprintf(p, "%s%s", p == list ? "" : ", ", fields[i].name);
        }
    }

    return list;
}


/* Whether the model has a prompt for what the call holds, and for more. */
ngx_uint_t
ngx_http_hymt_has(ngx_http_hymt_call_t *call, uint32_t more)
{
    uint32_t  features;

    features = more;

    if (call->n_terms || call->glossary != NULL) {
        features |= HYMT_FEATURE_TERMS;
    }

    if (call->job.part_len[HYMT_PART_CONTEXT] || call->session.len) {
        features |= HYMT_FEATURE_CONTEXT;
    }

    if (call->job.part_len[HYMT_PART_STYLE]) {
        features |= HYMT_FEATURE_STYLE;
    }

    return features == 0
           || (call->model->prompt.len == 0
               && (features & ~call->model->params.features) == 0
               && hymt_prompt_has(call->model->params.family, features));
}


/*
 * Each text by itself.  What can't be told leaves the source open: the models
 * do without.
 */
static ngx_int_t
ngx_http_hymt_detect(ngx_http_hymt_call_t *call)
{
    ngx_uint_t             i;
    hymt_detection_t       d;
    ngx_http_hymt_item_t  *item;

    for (i = 0; i < call->n_items; i++) {
        item = &call->items[i];

        if (item->as_is) {
            continue;
        }

        hymt_detect(item->text, item->len,
                    call->document.format != HYMT_FORMAT_TEXT,
                    call->model->params.languages, &d);

        item->too_short = d.too_short;

        if (d.n == 0) {
            continue;
        }

        item->detected = d.best[0].lang;
        item->confidence = d.best[0].confidence;

        if (!d.too_short) {
            item->src = d.best[0].lang;
            item->as_is = ngx_http_hymt_translated(call, &d);
        }
    }

    return NGX_OK;
}


/*
 * A text that is surely in the target language already comes back as it is, as
 * from other services, rather than in words a model finds for it.  Cantonese
 * reads as Chinese to the detection, and a style asks for other words.
 */
static ngx_uint_t
ngx_http_hymt_translated(ngx_http_hymt_call_t *call, const hymt_detection_t *d)
{
    int              lang;
    hymt_lang_set_t  set;

    lang = d->best[0].lang;
    set = call->model->params.languages;

    if (lang != call->job.tgt || !d->reliable
        || d->best[0].confidence < NGX_HTTP_HYMT_SURE
        || call->job.part_len[HYMT_PART_STYLE])
    {
        return 0;
    }

    return !(set >> hymt_lang_find("yue", 3) & 1)
           || (lang != hymt_lang_find("zh", 2)
               && lang != hymt_lang_find("zh-Hant", 7));
}


/* Room for so much more. */
void
ngx_http_hymt_reserve(ngx_http_hymt_text_t *out, size_t len)
{
    char    *p;
    size_t   cap;

    if (len <= out->cap - out->len) {
        return;
    }

    cap = ngx_max(2 * out->cap, out->len + len);
    cap = ngx_max(cap, 256);

    p = realloc(out->data, cap);

    if (p == NULL) {
        out->failed = 1;
        return;
    }

    out->data = p;
    out->cap = cap;
}


void
ngx_http_hymt_append(ngx_http_hymt_text_t *out, const char *data, size_t len)
{
    if (!out->failed) {
        ngx_http_hymt_reserve(out, len);
    }

    if (len && !out->failed) {
        ngx_memcpy(out->data + out->len, data, len);
        out->len += len;
    }
}


/* A JSON string of UTF-8 that was checked before. */
void
ngx_http_hymt_append_string(ngx_http_hymt_text_t *out, const char *s,
    size_t len)
{
    char    escape[8];
    size_t  i, from;
    u_char  c;

    static const hymt_scan_t  odd = {
        2, { hymt_lanes('"'), hymt_lanes('\\') }, hymt_lanes(0x20),
        hymt_lanes(0)
    };

    ngx_http_hymt_append(out, "\"", 1);

    from = 0;

    for (i = hymt_scan(&odd, s, 0, len);
         i < len;
         i = hymt_scan(&odd, s, i + 1, len))
    {
        c = (u_char) s[i];

        ngx_http_hymt_append(out, s + from, i - from);
        from = i + 1;

        switch (c) {

        case '"':
            ngx_http_hymt_append(out, "\\\"", 2);
            break;

        case '\\':
            ngx_http_hymt_append(out, "\\\\", 2);
            break;

        case '\n':
            ngx_http_hymt_append(out, "\\n", 2);
            break;

        case '\r':
            ngx_http_hymt_append(out, "\\r", 2);
            break;

        case '\t':
            ngx_http_hymt_append(out, "\\t", 2);
            break;

        default:
            (void) snprintf(escape, sizeof(escape), "\\u%04X", c);
            ngx_http_hymt_append(out, escape, 6);
        }
    }

    ngx_http_hymt_append(out, s + from, len - from);
    ngx_http_hymt_append(out, "\"", 1);
}


void
ngx_http_hymt_append_event(ngx_http_hymt_text_t *out, json_t *root)
{
    char  *text;

    text = root ? json_dumps(root, JSON_COMPACT|JSON_REAL_PRECISION(6)) : NULL;

    json_decref(root);

    if (text == NULL) {
        out->failed = 1;
        return;
    }

    ngx_http_hymt_append(out, "data: ", 6);
    ngx_http_hymt_append(out, text, strlen(text));
    ngx_http_hymt_append(out, "\n\n", 2);

    free(text);
}
