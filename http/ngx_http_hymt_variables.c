
/*
 * Copyright (C) the hymt authors
 */


/*
 * $hymt_api_key: the key a client shows, whichever way its API has for that.
 * For `map`, limit_req and hymt_owner, which are asked before there is a body:
 * a key in a form's or JSON's field is not seen.
 */


#include "ngx_http_hymt.h"


static ngx_int_t ngx_http_hymt_api_key_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_hymt_authorization_key(ngx_http_request_t *r,
    ngx_str_t *key);
static ngx_int_t ngx_http_hymt_argument_key(ngx_http_request_t *r,
    ngx_str_t *key);


static ngx_str_t  ngx_http_hymt_api_key_name = ngx_string("hymt_api_key");


ngx_int_t
ngx_http_hymt_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var;

    var = ngx_http_add_variable(cf, &ngx_http_hymt_api_key_name, 0);
    if (var == NULL) {
        return NGX_ERROR;
    }

    var->get_handler = ngx_http_hymt_api_key_variable;

    return NGX_OK;
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
