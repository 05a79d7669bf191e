
/*
 * Copyright (C) the hymt authors
 */


/*
 * What the files of the native API share: ngx_http_hymt_native.c has its
 * endpoints and reads what is asked, ngx_http_hymt_native_answer.c answers.
 */


#ifndef _NGX_HTTP_HYMT_NATIVE_H_INCLUDED_
#define _NGX_HTTP_HYMT_NATIVE_H_INCLUDED_


#include "ngx_http_hymt.h"


/* ngx_http_hymt_native_answer.c: any thread; events on the event loop */

void ngx_http_hymt_native_render(ngx_http_hymt_call_t *call);
void ngx_http_hymt_native_languages(ngx_http_hymt_call_t *call);
json_t *ngx_http_hymt_native_error(ngx_http_hymt_failure_t *f);

void ngx_http_hymt_native_delta(ngx_http_hymt_call_t *call,
    const char *text, size_t len, ngx_http_hymt_text_t *out);
void ngx_http_hymt_native_end(ngx_http_hymt_call_t *call,
    ngx_http_hymt_text_t *out);
void ngx_http_hymt_native_broken(ngx_http_hymt_call_t *call,
    ngx_http_hymt_failure_t *f, ngx_http_hymt_text_t *out);


#endif /* _NGX_HTTP_HYMT_NATIVE_H_INCLUDED_ */
