
/*
 * Copyright (C) the hymt authors
 */


/*
 * What the files of DeepL's API share.  Any thread.
 */


#ifndef _NGX_HTTP_HYMT_DEEPL_H_INCLUDED_
#define _NGX_HTTP_HYMT_DEEPL_H_INCLUDED_


#include "ngx_http_hymt.h"


#define NGX_HTTP_HYMT_DEEPL_CODE  16


/* ngx_http_hymt_deepl.c */

/* ngx_http_hymt_params(), where a type without a body says nothing */
json_t *ngx_http_hymt_deepl_params(ngx_http_hymt_call_t *call);

/* which of values it is; NGX_DECLINED: absent, null or empty */
ngx_int_t ngx_http_hymt_deepl_one_of(ngx_http_hymt_call_t *call,
    const char *name, const char **values, ngx_uint_t *found);

/* fails: NGX_ERROR */
ngx_int_t ngx_http_hymt_deepl_missing(ngx_http_hymt_call_t *call,
    const char *name);


/* ngx_http_hymt_deepl_lang.c */

void ngx_http_hymt_deepl_languages(ngx_http_hymt_call_t *call);

/*
 * A parameter that is a language of the model, in any of DeepL's forms.
 * NGX_OK; NGX_DECLINED: absent, null or empty; NGX_ERROR: failure is set.
 */
ngx_int_t ngx_http_hymt_deepl_lang(ngx_http_hymt_call_t *call,
    const char *name, int32_t *lang);

/* the language without its script or region, which DeepL does not tell apart
   in sources and glossaries */
int32_t ngx_http_hymt_deepl_base(ngx_http_hymt_call_t *call, int32_t lang);

/* its code in upper or lower case; buf [NGX_HTTP_HYMT_DEEPL_CODE] */
const char *ngx_http_hymt_deepl_code(int32_t lang, ngx_uint_t upper,
    char *buf);


/* ngx_http_hymt_glossary.c */

void ngx_http_hymt_glossary_pairs(ngx_http_hymt_call_t *call);
void ngx_http_hymt_glossary_create(ngx_http_hymt_call_t *call);
void ngx_http_hymt_glossary_list(ngx_http_hymt_call_t *call);
void ngx_http_hymt_glossary_get(ngx_http_hymt_call_t *call);
void ngx_http_hymt_glossary_entries(ngx_http_hymt_call_t *call);
void ngx_http_hymt_glossary_delete(ngx_http_hymt_call_t *call);

/* for a translation: takes the glossary of that id for the call */
ngx_int_t ngx_http_hymt_glossary_use(ngx_http_hymt_call_t *call,
    const char *id, size_t len);


#endif /* _NGX_HTTP_HYMT_DEEPL_H_INCLUDED_ */
