
/*
 * Copyright (C) the hymt authors
 */


/*
 * LibreTranslate's languages: codes and names, where they are not ours, and the
 * list of them.
 */


#include "ngx_http_hymt_libretranslate.h"


typedef struct {
    const char        *code;           /* LibreTranslate's */
    const char        *ours;
    const char        *name;
} ngx_http_hymt_libre_lang_t;


/* where its codes and names are not ours; the first of a language is shown */

static ngx_http_hymt_libre_lang_t  ngx_http_hymt_libre_langs[] = {
    { "zh-Hans", "zh", "Chinese" },
    { "zh-Hant", "zh-Hant", "Chinese (traditional)" },
    { "pt", "pt", "Portuguese" },
    { "pt-BR", "pt", "Portuguese (Brazil)" },
    { "pb", "pt", NULL },
    { NULL, NULL, NULL }
};


ngx_int_t
ngx_http_hymt_libre_lang(ngx_http_hymt_call_t *call, const char *code,
    size_t len, int32_t *lang)
{
    int                          found;
    char                         shown[NGX_HTTP_HYMT_SHOWN];
    ngx_http_hymt_libre_lang_t  *l;

    found = hymt_lang_find(code, len);

    for (l = ngx_http_hymt_libre_langs; l->code; l++) {
        if (strlen(l->code) == len && strcasecmp(l->code, code) == 0) {
            found = hymt_lang_find(l->ours, strlen(l->ours));
        }
    }

    if (found != HYMT_LANG_NONE
        && (call->model->params.languages >> found & 1))
    {
        *lang = found;
        return NGX_OK;
    }

    ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, NGX_HTTP_HYMT_LIBRE_SAYS,
                       "%s is not supported",
                       ngx_http_hymt_show(shown, code, len));

    return NGX_ERROR;
}


/* [{"code", "name", "targets": [...]}, ...] */
void
ngx_http_hymt_libre_languages(ngx_http_hymt_call_t *call)
{
    int                          i;
    size_t                       n;
    json_t                      *root, *codes, *one;
    ngx_http_hymt_libre_lang_t  *l;

    root = json_array();
    codes = json_array();

    for (i = 0; i < HYMT_N_LANGS; i++) {

        if (!(call->model->params.languages >> i & 1)) {
            continue;
        }

        n = json_array_size(root);

        for (l = ngx_http_hymt_libre_langs; l->code; l++) {

            if (l->name == NULL || strcmp(l->ours, hymt_langs[i].code) != 0) {
                continue;
            }

            (void) json_array_append_new(codes, json_string(l->code));
            (void) json_array_append_new(root, json_pack("{s:s, s:s}",
                                         "code", l->code, "name", l->name));
        }

        if (json_array_size(root) != n) {
            continue;
        }

        (void) json_array_append_new(codes, json_string(hymt_langs[i].code));
        (void) json_array_append_new(root, json_pack("{s:s, s:s}",
                                     "code", hymt_langs[i].code,
                                     "name", hymt_langs[i].english));
    }

    json_array_foreach(root, n, one) {
        (void) json_object_set(one, "targets", codes);
    }

    json_decref(codes);

    ngx_http_hymt_reply(call, NGX_HTTP_OK, root);
}


const char *
ngx_http_hymt_libre_code_of(int lang)
{
    ngx_http_hymt_libre_lang_t  *l;

    for (l = ngx_http_hymt_libre_langs; l->code; l++) {
        if (strcmp(l->ours, hymt_langs[lang].code) == 0) {
            return l->code;
        }
    }

    return hymt_langs[lang].code;
}


const char *
ngx_http_hymt_libre_name_of(int lang)
{
    ngx_http_hymt_libre_lang_t  *l;

    for (l = ngx_http_hymt_libre_langs; l->code; l++) {
        if (strcmp(l->ours, hymt_langs[lang].code) == 0) {
            return l->name;
        }
    }

    return hymt_langs[lang].english;
}
