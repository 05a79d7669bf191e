
/*
 * Copyright (C) the hymt authors
 */


/*
 * What the files of OpenAI's API share: ngx_http_hymt_openai.c has its
 * endpoints, answers and events, ngx_http_hymt_openai_chat.c reads what is
 * asked.
 */


#ifndef _NGX_HTTP_HYMT_OPENAI_H_INCLUDED_
#define _NGX_HTTP_HYMT_OPENAI_H_INCLUDED_


#include "ngx_http_hymt.h"


/* Of a chat, in call->data. */

typedef struct {
    char           id[40];
    json_int_t     created;
    const char    *model;           /* as the client calls it */
    unsigned       usage:1;         /* a last event with it is wanted */
    unsigned       began:1;         /* the first event is out */
} ngx_http_hymt_openai_t;


/* ngx_http_hymt_openai_chat.c: any thread */

void ngx_http_hymt_openai_chat(ngx_http_hymt_call_t *call);

/* NGX_OK where it is the model's name, or that of its directory */
ngx_int_t ngx_http_hymt_openai_named(ngx_http_hymt_model_t *model,
    const char *name, size_t len);

/* names the parameter that the call has failed for: NGX_ERROR */
ngx_int_t ngx_http_hymt_openai_param(ngx_http_hymt_call_t *call,
    const char *param);


#endif /* _NGX_HTTP_HYMT_OPENAI_H_INCLUDED_ */
