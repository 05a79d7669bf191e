
/*
 * Copyright (C) the hymt authors
 */


/*
 * DeepL's languages: its codes, which tell some of ours apart by region and
 * others not by script, and the list of them.
 */


#include "ngx_http_hymt_deepl.h"


/* What DeepL tells apart by region or script, with its name there. */

typedef struct {
    const char   *code;
    const char   *ours;
    const char   *name;
} ngx_http_hymt_deepl_lang_t;


static json_t *ngx_http_hymt_deepl_language(ngx_http_hymt_call_t *call,
    const char *code, const char *name, ngx_uint_t target);


static ngx_http_hymt_deepl_lang_t  ngx_http_hymt_deepl_variants[] = {
    { "EN-GB", "en", "English (British)" },
    { "EN-US", "en", "English (American)" },
    { "PT-BR", "pt", "Portuguese (Brazilian)" },
    { "PT-PT", "pt", "Portuguese (European)" },
    { "ZH", "zh", "Chinese (simplified)" },
    { "ZH-HANS", "zh", "Chinese (simplified)" },
    { "ZH-HANT", "zh-Hant", "Chinese (traditional)" },
    { NULL, NULL, NULL }
};


ngx_int_t
ngx_http_hymt_deepl_lang(ngx_http_hymt_call_t *call, const char *name,
    int32_t *lang)
{
    int          found;
    char         list[1400], shown[NGX_HTTP_HYMT_SHOWN];
    size_t       len;
    ngx_int_t    rc;
    const char  *value;

    len = 0;
    rc = ngx_http_hymt_param_string(call, name, &value, &len);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (len == 0) {
        return NGX_DECLINED;
    }

    found = hymt_lang_find(value, len);

    if (found != HYMT_LANG_NONE
        && (call->model->params.languages >> found & 1))
    {
        *lang = found;
        return NGX_OK;
    }

    (void) hymt_lang_list(call->model->params.languages, list, sizeof(list));

    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "unsupported_language",
                       "Value for '%s' not supported: \"%s\" is none of %s",
                       name, ngx_http_hymt_show(shown, value, len), list);

    return NGX_ERROR;
}


int32_t
ngx_http_hymt_deepl_base(ngx_http_hymt_call_t *call, int32_t lang)
{
    int  zh;

    if (lang == HYMT_LANG_NONE || strcmp(hymt_langs[lang].code, "zh-Hant")) {
        return lang;
    }

    zh = hymt_lang_find("zh", 2);

    return (call->model->params.languages >> zh & 1) ? zh : lang;
}


const char *
ngx_http_hymt_deepl_code(int32_t lang, ngx_uint_t upper, char *buf)
{
    size_t       i;
    const char  *code;

    code = hymt_langs[lang].code;

    for (i = 0; i < NGX_HTTP_HYMT_DEEPL_CODE - 1 && code[i] != '\0'; i++) {
        buf[i] = upper ? ngx_toupper(code[i]) : ngx_tolower(code[i]);
    }

    buf[i] = '\0';

    return buf;
}


/* "type" comes in the query string, or, by one client, in the body of a GET. */
void
ngx_http_hymt_deepl_languages(ngx_http_hymt_call_t *call)
{
    char                         code[NGX_HTTP_HYMT_DEEPL_CODE];
    json_t                      *list;
    int32_t                      i;
    ngx_int_t                    rc;
    ngx_uint_t                   n;
    hymt_lang_set_t              set;
    ngx_http_hymt_deepl_lang_t  *v;

    static const char  *types[] = { "source", "target", NULL };

    if (ngx_http_hymt_deepl_params(call) == NULL) {
        return;
    }

    rc = ngx_http_hymt_deepl_one_of(call, "type", types, &n);

    if (rc == NGX_ERROR) {
        return;
    }

    if (rc == NGX_DECLINED) {
        n = 0;
    }

    set = call->model->params.languages;
    list = json_array();

    for (i = 0; i < HYMT_N_LANGS; i++) {

        if (!(set >> i & 1)) {
            continue;
        }

        if (n == 0) {
            if (ngx_http_hymt_deepl_base(call, i) == i) {
                (void) json_array_append_new(list,
                           ngx_http_hymt_deepl_language(call,
                               ngx_http_hymt_deepl_code(i, 1, code),
                               hymt_langs[i].english, 0));
            }

            continue;
        }

        rc = NGX_DECLINED;

        for (v = ngx_http_hymt_deepl_variants; v->code; v++) {
            if (strcmp(v->ours, hymt_langs[i].code) == 0) {
                (void) json_array_append_new(list,
                           ngx_http_hymt_deepl_language(call, v->code,
                                                        v->name, 1));
                rc = NGX_OK;
            }
        }

        if (rc == NGX_DECLINED) {
            (void) json_array_append_new(list,
                       ngx_http_hymt_deepl_language(call,
                           ngx_http_hymt_deepl_code(i, 1, code),
                           hymt_langs[i].english, 1));
        }
    }

    ngx_http_hymt_reply(call, NGX_HTTP_OK, list);
}


static json_t *
ngx_http_hymt_deepl_language(ngx_http_hymt_call_t *call, const char *code,
    const char *name, ngx_uint_t target)
{
    if (!target) {
        return json_pack("{s:s, s:s}", "language", code, "name", name);
    }

    return json_pack("{s:s, s:s, s:b}", "language", code, "name", name,
                     "supports_formality",
                     (int) ngx_http_hymt_has(call, HYMT_FEATURE_STYLE));
}
