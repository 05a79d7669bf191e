
/*
 * Copyright (C) the hymt authors
 */


/*
 * Glossaries by DeepL's API, version 2: named lists of terms, kept by
 * engine/glossary.h in the directory of hymt_glossaries, each its owner's
 * alone.  But for the language pairs all of it reads or writes files and runs
 * on the pool.
 */


#include "ngx_http_hymt_deepl.h"


static ngx_int_t ngx_http_hymt_glossary_on(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_glossary_request(ngx_http_hymt_call_t *call,
    hymt_glossary_request_t *request);
static ngx_int_t ngx_http_hymt_glossary_format(ngx_http_hymt_call_t *call,
    hymt_glossary_format_t *format);
static json_t *ngx_http_hymt_glossary_json(const hymt_glossary_info_t *info);
static ngx_int_t ngx_http_hymt_glossary_find(ngx_http_hymt_call_t *call,
    const char *id, size_t len, hymt_glossary_t **g);
static ngx_int_t ngx_http_hymt_glossary_fail(ngx_http_hymt_call_t *call,
    hymt_status_t rc, const char *text);


/* Only what can be used: a client that asks first then does without. */
void
ngx_http_hymt_glossary_pairs(ngx_http_hymt_call_t *call)
{
    char              from[NGX_HTTP_HYMT_DEEPL_CODE];
    char              to[NGX_HTTP_HYMT_DEEPL_CODE];
    json_t           *list;
    int32_t           i, j;
    hymt_lang_set_t   set;

    set = 0;
    list = json_array();

    if (call->conf->glossaries != NULL && call->owner != NULL
        && ngx_http_hymt_has(call, HYMT_FEATURE_TERMS))
    {
        set = call->model->params.languages;
    }

    for (i = 0; i < HYMT_N_LANGS; i++) {

        if (!(set >> i & 1) || ngx_http_hymt_deepl_base(call, i) != i) {
            continue;
        }

        for (j = 0; j < HYMT_N_LANGS; j++) {

            if (j == i || !(set >> j & 1)
                || ngx_http_hymt_deepl_base(call, j) != j)
            {
                continue;
            }

            (void) json_array_append_new(list,
                       json_pack("{s:s, s:s}",
                           "source_lang", ngx_http_hymt_deepl_code(i, 0, from),
                           "target_lang", ngx_http_hymt_deepl_code(j, 0, to)));
        }
    }

    ngx_http_hymt_reply(call, NGX_HTTP_OK,
                        json_pack("{s:o}", "supported_languages", list));
}


static ngx_int_t
ngx_http_hymt_glossary_on(ngx_http_hymt_call_t *call)
{
    if (call->conf->glossaries == NULL || call->conf->owner == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_FORBIDDEN, "forbidden",
                           "Glossaries are off here");

    } else if (call->owner == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_FORBIDDEN, "forbidden",
                           "Glossaries need an owner: send your key");

    } else if (call->conf->glossaries->store == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "unavailable",
                           "This worker could not open the glossaries'"
                           " directory");

    } else {
        return NGX_OK;
    }

    return NGX_ERROR;
}


void
ngx_http_hymt_glossary_create(ngx_http_hymt_call_t *call)
{
    hymt_error_t              err;
    hymt_status_t             rc;
    hymt_glossary_info_t      info;
    hymt_glossary_request_t   request;

    if (ngx_http_hymt_glossary_on(call) != NGX_OK
        || ngx_http_hymt_deepl_params(call) == NULL
        || ngx_http_hymt_glossary_request(call, &request) != NGX_OK)
    {
        return;
    }

    rc = hymt_glossary_create(call->conf->glossaries->store, call->owner,
                              strlen(call->owner), &request, &info, &err);

    if (rc != HYMT_OK) {
        (void) ngx_http_hymt_glossary_fail(call, rc, err.text);
        return;
    }

    ngx_http_hymt_reply(call, NGX_HTTP_CREATED,
                        ngx_http_hymt_glossary_json(&info));
}


static ngx_int_t
ngx_http_hymt_glossary_request(ngx_http_hymt_call_t *call,
    hymt_glossary_request_t *request)
{
    size_t       i;
    int32_t      lang[2];
    ngx_int_t    rc;

    static const char  *langs[] = { "source_lang", "target_lang" };

    ngx_memzero(request, sizeof(hymt_glossary_request_t));

    rc = ngx_http_hymt_param_string(call, "name", &request->name,
                                    &request->name_len);

    if (rc == NGX_DECLINED || request->name_len == 0) {
        return ngx_http_hymt_deepl_missing(call, "name");
    }

    for (i = 0; i < 2; i++) {
        rc = ngx_http_hymt_deepl_lang(call, langs[i], &lang[i]);

        if (rc == NGX_DECLINED) {
            return ngx_http_hymt_deepl_missing(call, langs[i]);
        }

        if (rc != NGX_OK) {
            return NGX_ERROR;
        }
    }

    request->src = ngx_http_hymt_deepl_base(call, lang[0]);
    request->tgt = ngx_http_hymt_deepl_base(call, lang[1]);

    if (request->src == request->tgt
        || !ngx_http_hymt_has(call, HYMT_FEATURE_TERMS))
    {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "not_supported",
                           "Unsupported glossary language pair: %s",
                           request->src == request->tgt
                           ? "both languages are the same"
                           : "the model has no prompt for terms");
        return NGX_ERROR;
    }

    rc = ngx_http_hymt_param_string(call, "entries", &request->entries,
                                    &request->entries_len);

    if (rc == NGX_DECLINED) {
        return ngx_http_hymt_deepl_missing(call, "entries");
    }

    return rc == NGX_OK
           ? ngx_http_hymt_glossary_format(call, &request->format) : NGX_ERROR;
}


static ngx_int_t
ngx_http_hymt_glossary_format(ngx_http_hymt_call_t *call,
    hymt_glossary_format_t *format)
{
    const char  *name;

    name = "tsv";

    if (ngx_http_hymt_param_string(call, "entries_format", &name, NULL)
        == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    if (strcmp(name, "tsv") == 0) {
        *format = HYMT_GLOSSARY_TSV;
        return NGX_OK;
    }

    if (strcmp(name, "csv") == 0) {
        *format = HYMT_GLOSSARY_CSV;
        return NGX_OK;
    }

    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                       "Value for 'entries_format' not supported: \"%.40s\" is"
                       " neither tsv nor csv", name);

    return NGX_ERROR;
}


static json_t *
ngx_http_hymt_glossary_json(const hymt_glossary_info_t *info)
{
    char  from[NGX_HTTP_HYMT_DEEPL_CODE], to[NGX_HTTP_HYMT_DEEPL_CODE];

    return json_pack("{s:s, s:b, s:s, s:s, s:s, s:s, s:I}",
                     "glossary_id", info->id,
                     "ready", 1,
                     "name", info->name,
                     "source_lang", ngx_http_hymt_deepl_code(info->src, 0,
                                                             from),
                     "target_lang", ngx_http_hymt_deepl_code(info->tgt, 0,
                                                             to),
                     "creation_time", info->created,
                     "entry_count", (json_int_t) info->n);
}


/* What is no glossary is not listed: asked for by its id, it says why. */
void
ngx_http_hymt_glossary_list(ngx_http_hymt_call_t *call)
{
    json_t                *list;
    uint32_t               i, n, bad;
    hymt_error_t           err;
    hymt_status_t          rc;
    hymt_glossary_info_t  *infos;

    if (ngx_http_hymt_glossary_on(call) != NGX_OK) {
        return;
    }

    rc = hymt_glossary_list(call->conf->glossaries->store, call->owner,
                            strlen(call->owner), &infos, &n, &bad, &err);

    if (rc != HYMT_OK) {
        (void) ngx_http_hymt_glossary_fail(call, rc, err.text);
        return;
    }

    list = json_array();

    for (i = 0; i < n; i++) {
        (void) json_array_append_new(list,
                                     ngx_http_hymt_glossary_json(&infos[i]));
    }

    free(infos);

    if (json_array_size(list) != n) {
        json_decref(list);
        list = NULL;
    }

    ngx_http_hymt_reply(call, NGX_HTTP_OK,
                        json_pack("{s:o}", "glossaries", list));
}


void
ngx_http_hymt_glossary_get(ngx_http_hymt_call_t *call)
{
    hymt_glossary_t  *g;

    if (ngx_http_hymt_glossary_find(call, call->part, strlen(call->part), &g)
        != NGX_OK)
    {
        return;
    }

    ngx_http_hymt_reply(call, NGX_HTTP_OK,
                        ngx_http_hymt_glossary_json(hymt_glossary_info(g)));

    hymt_glossary_unref(g);
}


static ngx_int_t
ngx_http_hymt_glossary_find(ngx_http_hymt_call_t *call, const char *id,
    size_t len, hymt_glossary_t **g)
{
    hymt_error_t   err;
    hymt_status_t  rc;

    if (ngx_http_hymt_glossary_on(call) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = hymt_glossary_get(call->conf->glossaries->store, call->owner,
                           strlen(call->owner), id, len, g, &err);

    if (rc == HYMT_DECLINED) {
        ngx_http_hymt_fail(call, NGX_HTTP_NOT_FOUND, "no_glossary",
                           "Glossary not found");
        return NGX_ERROR;
    }

    return rc == HYMT_OK ? NGX_OK
                         : ngx_http_hymt_glossary_fail(call, rc, err.text);
}


void
ngx_http_hymt_glossary_entries(ngx_http_hymt_call_t *call)
{
    char             *text;
    size_t            len;
    hymt_error_t      err;
    hymt_status_t     rc;
    hymt_glossary_t  *g;

    if (ngx_http_hymt_glossary_find(call, call->part, strlen(call->part), &g)
        != NGX_OK)
    {
        return;
    }

    rc = hymt_glossary_tsv(g, &text, &len, &err);

    hymt_glossary_unref(g);

    if (rc != HYMT_OK) {
        (void) ngx_http_hymt_glossary_fail(call, rc, err.text);
        return;
    }

    ngx_http_hymt_reply_text(call, NGX_HTTP_OK,
                             "text/tab-separated-values; charset=utf-8",
                             text, len);
}


void
ngx_http_hymt_glossary_delete(ngx_http_hymt_call_t *call)
{
    char           *nothing;
    hymt_error_t    err;
    hymt_status_t   rc;

    if (ngx_http_hymt_glossary_on(call) != NGX_OK) {
        return;
    }

    rc = hymt_glossary_delete(call->conf->glossaries->store, call->owner,
                              strlen(call->owner), call->part,
                              strlen(call->part), &err);

    if (rc == HYMT_DECLINED) {
        ngx_http_hymt_fail(call, NGX_HTTP_NOT_FOUND, "no_glossary",
                           "Glossary not found");
        return;
    }

    if (rc != HYMT_OK) {
        (void) ngx_http_hymt_glossary_fail(call, rc, err.text);
        return;
    }

    nothing = malloc(1);

    if (nothing == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        return;
    }

    ngx_http_hymt_reply_text(call, NGX_HTTP_NO_CONTENT, "text/plain", nothing,
                             0);
}


static ngx_int_t
ngx_http_hymt_glossary_fail(ngx_http_hymt_call_t *call, hymt_status_t rc,
    const char *text)
{
    switch (rc) {

    case HYMT_DECLINED:
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "Bad glossary: %s", text);
        break;

    case HYMT_TOO_LONG:
        ngx_http_hymt_fail(call, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                           "too_large", "Glossary limit exceeded: %s", text);
        break;

    default:
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "%s", text);
        break;
    }

    return NGX_ERROR;
}


ngx_int_t
ngx_http_hymt_glossary_use(ngx_http_hymt_call_t *call, const char *id,
    size_t len)
{
    char                         from[NGX_HTTP_HYMT_DEEPL_CODE];
    char                         to[NGX_HTTP_HYMT_DEEPL_CODE];
    const hymt_glossary_info_t  *info;

    if (ngx_http_hymt_glossary_find(call, id, len, &call->glossary)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    info = hymt_glossary_info(call->glossary);

    if (ngx_http_hymt_deepl_base(call, call->job.src) == info->src
        && ngx_http_hymt_deepl_base(call, call->job.tgt) == info->tgt)
    {
        return NGX_OK;
    }

    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                       "The glossary is from %s to %s: source_lang and"
                       " target_lang must match it",
                       ngx_http_hymt_deepl_code(info->src, 1, from),
                       ngx_http_hymt_deepl_code(info->tgt, 1, to));

    return NGX_ERROR;
}
