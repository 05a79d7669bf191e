
/*
 * Copyright (C) the hymt authors
 */


/*
 * $hymt_model, $hymt_src, $hymt_tokens_in ...: what a request was, for the
 * access log.  They are known when it has been answered.
 *
 * $hymt_api_key: the key a client shows, whichever way its API has for that.
 * For `map`, limit_req and hymt_owner, which are asked before there is a body:
 * a key in a form's or JSON's field is not seen.
 */


#include "ngx_http_hymt.h"


typedef enum {
    NGX_HTTP_HYMT_V_MODEL = 0,
    NGX_HTTP_HYMT_V_SRC,
    NGX_HTTP_HYMT_V_TGT,
    NGX_HTTP_HYMT_V_TOKENS_IN,
    NGX_HTTP_HYMT_V_TOKENS_OUT,
    NGX_HTTP_HYMT_V_QUEUE_TIME,
    NGX_HTTP_HYMT_V_TTFT,
    NGX_HTTP_HYMT_V_COMPUTE_TIME,
    NGX_HTTP_HYMT_V_BATCH,
    NGX_HTTP_HYMT_V_CACHE,
    NGX_HTTP_HYMT_V_FINISH
} ngx_http_hymt_variable_e;


static ngx_int_t ngx_http_hymt_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_hymt_variable_text(ngx_http_variable_value_t *v,
    const char *text, size_t len);
static ngx_int_t ngx_http_hymt_variable_lang(ngx_http_variable_value_t *v,
    ngx_int_t lang);
static ngx_int_t ngx_http_hymt_variable_number(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, ngx_uint_t n);
static ngx_int_t ngx_http_hymt_variable_time(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, ngx_http_hymt_ctx_t *ctx, uint64_t ns);
static ngx_int_t ngx_http_hymt_api_key_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_hymt_authorization_key(ngx_http_request_t *r,
    ngx_str_t *key);
static ngx_int_t ngx_http_hymt_argument_key(ngx_http_request_t *r,
    ngx_str_t *key);


static ngx_http_variable_t  ngx_http_hymt_vars[] = {

    { ngx_string("hymt_api_key"), NULL, ngx_http_hymt_api_key_variable,
      0, 0, 0 },

    { ngx_string("hymt_model"), NULL, ngx_http_hymt_variable,
      NGX_HTTP_HYMT_V_MODEL, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("hymt_src"), NULL, ngx_http_hymt_variable,
      NGX_HTTP_HYMT_V_SRC, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("hymt_tgt"), NULL, ngx_http_hymt_variable,
      NGX_HTTP_HYMT_V_TGT, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("hymt_tokens_in"), NULL, ngx_http_hymt_variable,
      NGX_HTTP_HYMT_V_TOKENS_IN, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("hymt_tokens_out"), NULL, ngx_http_hymt_variable,
      NGX_HTTP_HYMT_V_TOKENS_OUT, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("hymt_queue_time"), NULL, ngx_http_hymt_variable,
      NGX_HTTP_HYMT_V_QUEUE_TIME, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("hymt_ttft"), NULL, ngx_http_hymt_variable,
      NGX_HTTP_HYMT_V_TTFT, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("hymt_compute_time"), NULL, ngx_http_hymt_variable,
      NGX_HTTP_HYMT_V_COMPUTE_TIME, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("hymt_batch"), NULL, ngx_http_hymt_variable,
      NGX_HTTP_HYMT_V_BATCH, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("hymt_cache"), NULL, ngx_http_hymt_variable,
      NGX_HTTP_HYMT_V_CACHE, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("hymt_finish"), NULL, ngx_http_hymt_variable,
      NGX_HTTP_HYMT_V_FINISH, NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


ngx_int_t
ngx_http_hymt_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_hymt_vars; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    const char           *cache;
    ngx_http_hymt_ctx_t  *ctx;

    v->not_found = 1;

    ctx = ngx_http_get_module_ctx(r, ngx_http_hymt_module);

    if (ctx == NULL) {
        return NGX_OK;
    }

    switch (data) {

    case NGX_HTTP_HYMT_V_MODEL:
        return ngx_http_hymt_variable_text(v, (char *) ctx->model->name.data,
                                           ctx->model->name.len);

    case NGX_HTTP_HYMT_V_CACHE:
        cache = ctx->call ? ngx_http_hymt_cache_status(ctx->call) : ctx->cache;

        return cache ? ngx_http_hymt_variable_text(v, cache, ngx_strlen(cache))
                     : NGX_OK;

    case NGX_HTTP_HYMT_V_FINISH:
        return ctx->finish ? ngx_http_hymt_variable_text(v, ctx->finish,
                                                     ngx_strlen(ctx->finish))
                           : NGX_OK;
    }

    if (!ctx->asked) {
        return NGX_OK;
    }

    switch (data) {

    case NGX_HTTP_HYMT_V_SRC:
        return ctx->mixed ? ngx_http_hymt_variable_text(v, "mixed", 5)
                          : ngx_http_hymt_variable_lang(v, ctx->src);

    case NGX_HTTP_HYMT_V_TGT:
        return ngx_http_hymt_variable_lang(v, ctx->tgt);

    case NGX_HTTP_HYMT_V_TOKENS_IN:
        return ngx_http_hymt_variable_number(r, v, ctx->tokens_in);

    case NGX_HTTP_HYMT_V_TOKENS_OUT:
        return ngx_http_hymt_variable_number(r, v, ctx->tokens_out);

    case NGX_HTTP_HYMT_V_QUEUE_TIME:
        return ngx_http_hymt_variable_time(r, v, ctx, ctx->queue_ns);

    case NGX_HTTP_HYMT_V_TTFT:
        return ngx_http_hymt_variable_time(r, v, ctx, ctx->first_ns);

    case NGX_HTTP_HYMT_V_COMPUTE_TIME:
        return ngx_http_hymt_variable_time(r, v, ctx, ctx->compute_ns);
    }

    return ngx_http_hymt_variable_number(r, v, ctx->batch);
}


static ngx_int_t
ngx_http_hymt_variable_text(ngx_http_variable_value_t *v, const char *text,
    size_t len)
{
    v->data = (u_char *) text;
    v->len = len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_variable_lang(ngx_http_variable_value_t *v, ngx_int_t lang)
{
    const char  *code;

    if (lang < 0 || lang >= HYMT_N_LANGS) {
        return NGX_OK;
    }

    code = hymt_langs[lang].code;

    return ngx_http_hymt_variable_text(v, code, ngx_strlen(code));
}


static ngx_int_t
ngx_http_hymt_variable_number(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, ngx_uint_t n)
{
    u_char  *p;

    p = ngx_pnalloc(r->pool, NGX_INT_T_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    return ngx_http_hymt_variable_text(v, (char *) p,
                                       ngx_sprintf(p, "%ui", n) - p);
}


/* Seconds, to the microsecond. */
static ngx_int_t
ngx_http_hymt_variable_time(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, ngx_http_hymt_ctx_t *ctx, uint64_t ns)
{
    u_char  *p;

    if (!ctx->timed) {
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_INT64_LEN + 8);
    if (p == NULL) {
        return NGX_ERROR;
    }

    return ngx_http_hymt_variable_text(v, (char *) p,
                                       ngx_sprintf(p, "%uL.%06uL",
                                                   ns / 1000000000,
                                                   ns / 1000 % 1000000)
                                       - p);
}


static ngx_int_t
ngx_http_hymt_api_key_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_int_t   rc;
    ngx_str_t   key, *value;

    static ngx_str_t  google = ngx_string("x-goog-api-key");

    rc = ngx_http_hymt_authorization_key(r, &key);

    if (rc == NGX_DECLINED) {
        value = ngx_http_hymt_request_header(r, &google);

        if (value != NULL && value->len != 0) {
            key = *value;
            rc = NGX_OK;
        }
    }

    if (rc == NGX_DECLINED) {
        rc = ngx_http_hymt_argument_key(r, &key);
    }

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    if (rc == NGX_DECLINED) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = key.data;
    v->len = key.len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


/* Authorization: Bearer KEY (OpenAI, Google), DeepL-Auth-Key KEY */
static ngx_int_t
ngx_http_hymt_authorization_key(ngx_http_request_t *r, ngx_str_t *key)
{
    u_char      *p, *last;
    ngx_uint_t   i;
    ngx_str_t   *value;

    static ngx_str_t  schemes[] = {
        ngx_string("bearer "),
        ngx_string("deepl-auth-key ")
    };

    if (r->headers_in.authorization == NULL) {
        return NGX_DECLINED;
    }

    value = &r->headers_in.authorization->value;
    last = value->data + value->len;

    for (i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {

        if (value->len <= schemes[i].len
            || ngx_strncasecmp(value->data, schemes[i].data, schemes[i].len)
               != 0)
        {
            continue;
        }

        p = value->data + schemes[i].len;

        while (p < last && *p == ' ') {
            p++;
        }

        if (p == last) {
            return NGX_DECLINED;
        }

        key->data = p;
        key->len = last - p;

        return NGX_OK;
    }

    return NGX_DECLINED;
}


/* ?api_key=KEY (LibreTranslate), ?key=KEY (Google) */
static ngx_int_t
ngx_http_hymt_argument_key(ngx_http_request_t *r, ngx_str_t *key)
{
    u_char      *src, *dst;
    ngx_uint_t   i;
    ngx_str_t    value;

    static ngx_str_t  names[] = {
        ngx_string("api_key"),
        ngx_string("key")
    };

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {

        if (ngx_http_arg(r, names[i].data, names[i].len, &value) != NGX_OK
            || value.len == 0)
        {
            continue;
        }

        dst = ngx_pnalloc(r->pool, value.len);
        if (dst == NULL) {
            return NGX_ERROR;
        }

        key->data = dst;
        src = value.data;

        ngx_unescape_uri(&dst, &src, value.len, 0);

        key->len = dst - key->data;

        return NGX_OK;
    }

    return NGX_DECLINED;
}
