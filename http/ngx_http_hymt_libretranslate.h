
/*
 * Copyright (C) the hymt authors
 */


/*
 * What the files of LibreTranslate's API share: ngx_http_hymt_libretranslate.c
 * has its endpoints, ngx_http_hymt_libretranslate_lang.c its languages.
 */


#ifndef _NGX_HTTP_HYMT_LIBRETRANSLATE_H_INCLUDED_
#define _NGX_HTTP_HYMT_LIBRETRANSLATE_H_INCLUDED_


#include "ngx_http_hymt.h"


/* the code of failures whose text is LibreTranslate's own */
#define NGX_HTTP_HYMT_LIBRE_SAYS  "libretranslate"


/* ngx_http_hymt_libretranslate_lang.c: any thread */

/* NGX_OK, or NGX_ERROR (failure) where the model does not know it */
ngx_int_t ngx_http_hymt_libre_lang(ngx_http_hymt_call_t *call,
    const char *code, size_t len, int32_t *lang);

const char *ngx_http_hymt_libre_code_of(int lang);
const char *ngx_http_hymt_libre_name_of(int lang);

void ngx_http_hymt_libre_languages(ngx_http_hymt_call_t *call);


#endif /* _NGX_HTTP_HYMT_LIBRETRANSLATE_H_INCLUDED_ */
