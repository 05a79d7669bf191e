
/*
 * Copyright (C) the hymt authors
 */


/*
 * What a client is sent that is no stream: an answer, or an error in its API's
 * form.
 */


#include "ngx_http_hymt.h"


static void ngx_http_hymt_give_back(ngx_http_request_t *r,
    ngx_http_hymt_call_t *call);
static void ngx_http_hymt_free_answer(void *data);
static ngx_int_t ngx_http_hymt_error_headers(ngx_http_request_t *r,
    ngx_uint_t status);


void
ngx_http_hymt_answer(ngx_http_hymt_call_t *call)
{
    char                *answer;
    ngx_http_request_t  *r;
    ngx_pool_cleanup_t  *cln;

    r = call->r;

    ngx_http_hymt_count(call, call->status, NULL);
    ngx_http_hymt_call_close(call);

    /*
     * The pool's cleanup, not the request's: that one may run while parts of
     * the answer still wait in the connection.
     */

    cln = ngx_pool_cleanup_add(r->pool, 0);

    if (cln == NULL || ngx_http_hymt_cache_header(call) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    answer = call->answer;
    call->answer = NULL;

    cln->handler = ngx_http_hymt_free_answer;
    cln->data = answer;

    ngx_http_finalize_request(r,
        ngx_http_hymt_send(r, call->status, call->content_type,
                           (u_char *) answer, call->answer_len));
}


static void
ngx_http_hymt_free_answer(void *data)
{
    free(data);
}


void
ngx_http_hymt_answer_failure(ngx_http_hymt_call_t *call,
    ngx_http_hymt_failure_t *f)
{
    ngx_http_request_t  *r;

    r = call->r;

    if (ngx_http_hymt_stream_opened(call)) {
        ngx_http_hymt_stream_broken(call, f);
        return;
    }

    ngx_http_hymt_call_close(call);

    if (r->reading_body) {
        ngx_http_hymt_call_drop_body(call);

    } else if (call->body_len != 0) {
        ngx_http_hymt_give_back(r, call);
    }

    ngx_http_finalize_request(r, ngx_http_hymt_error(r, call->conf->api, f));
}


/* For who comes after us: the body in one buffer, which the call owns. */
static void
ngx_http_hymt_give_back(ngx_http_request_t *r, ngx_http_hymt_call_t *call)
{
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    if (r->request_body == NULL || r->request_body->bufs != NULL) {
        return;
    }

    b = ngx_calloc_buf(r->pool);
    cl = ngx_alloc_chain_link(r->pool);

    if (b == NULL || cl == NULL) {
        return;
    }

    b->pos = (u_char *) call->body;
    b->last = b->pos + call->body_len;
    b->start = b->pos;
    b->end = b->last;
    b->temporary = 1;

    cl->buf = b;
    cl->next = NULL;

    r->request_body->bufs = cl;
}


/*
 * An error in the API's form.  Returns what the content handler returns or the
 * request is finalized with; the body, where there is one still to come, is
 * discarded.
 */
ngx_int_t
ngx_http_hymt_error(ngx_http_request_t *r, ngx_http_hymt_api_t *api,
    ngx_http_hymt_failure_t *f)
{
    char                 *text;
    u_char               *body;
    size_t                len;
    json_t               *root;
    ngx_int_t             rc;
    ngx_uint_t            level;
    ngx_http_err_page_t  *page;

    root = api->error(f);
    text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);

    if (text == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    len = ngx_strlen(text);
    body = ngx_pnalloc(r->pool, len + 1);

    if (body != NULL) {
        ngx_memcpy(body, text, len);
        body[len++] = '\n';
    }

    free(text);

    if (body == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_hymt_count(ngx_http_hymt_call(r), f->status, f->code);

    level = (f->status == NGX_HTTP_INTERNAL_SERVER_ERROR) ? NGX_LOG_ERR
                                                          : NGX_LOG_INFO;

    ngx_log_error(level, r->connection->log, 0, "hymt answers %ui: %s",
                  f->status, f->message);

    page = ngx_http_hymt_page(r, f->status);

    /* not where the page says what the status is, "= @fallback" */

    if ((page == NULL || page->overwrite == -1)
        && ngx_http_hymt_error_headers(r, f->status) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (page != NULL) {
        return f->status;
    }

    /* no "100 Continue" for a body that is refused */

    r->expect_tested = 1;

    if (!r->reading_body) {
        rc = ngx_http_discard_request_body(r);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    if (f->status == NGX_HTTP_REQUEST_ENTITY_TOO_LARGE) {
        r->keepalive = 0;
    }

    return ngx_http_hymt_send(r, f->status, "application/json", body, len);
}


ngx_int_t
ngx_http_hymt_send(ngx_http_request_t *r, ngx_uint_t status, const char *type,
    u_char *body, size_t len)
{
    ngx_int_t     rc;
    ngx_buf_t    *b;
    ngx_chain_t   out;

    r->headers_out.status = status;
    r->headers_out.content_type.data = (u_char *) type;
    r->headers_out.content_type.len = ngx_strlen(type);
    r->headers_out.content_type_len = strcspn(type, ";");
    r->headers_out.content_type_lowcase = NULL;
    r->headers_out.content_length_n = len;

    if (status == NGX_HTTP_NO_CONTENT) {
        r->header_only = 1;
        ngx_str_null(&r->headers_out.content_type);
        r->headers_out.content_type_len = 0;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_ERROR;
    }

    b->pos = body;
    b->last = body + len;
    b->memory = len ? 1 : 0;
    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;
    b->sync = (len || b->last_buf) ? 0 : 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}


static ngx_int_t
ngx_http_hymt_error_headers(ngx_http_request_t *r, ngx_uint_t status)
{
    u_char                     *p;
    ngx_msec_t                  wait;
    ngx_uint_t                  i, types, methods;
    ngx_http_hymt_call_t       *call;
    ngx_http_hymt_main_conf_t  *hmcf;
    u_char                      value[256];

    static struct {
        ngx_uint_t   bit;
        const char  *name;
    } names[] = {
        { NGX_HTTP_GET, "GET, HEAD" },
        { NGX_HTTP_POST, "POST" },
        { NGX_HTTP_DELETE, "DELETE" },
    }, kinds[] = {
        { NGX_HTTP_HYMT_JSON, "application/json" },
        { NGX_HTTP_HYMT_PLAIN, "text/plain" },
        { NGX_HTTP_HYMT_FORM, "application/x-www-form-urlencoded" },
        { NGX_HTTP_HYMT_MULTIPART, "multipart/form-data" },
    };

    call = ngx_http_hymt_call(r);
    p = value;

    switch (status) {

    case NGX_HTTP_NOT_ALLOWED:
        methods = call ? call->allow : 0;

        for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            if (methods & names[i].bit) {
                p = ngx_sprintf(p, "%s%s", p == value ? "" : ", ",
                                names[i].name);
            }
        }

        *p = '\0';

        return ngx_http_hymt_header(r, "Allow", (char *) value);

    case NGX_HTTP_UNSUPPORTED_MEDIA_TYPE:
        types = (call && call->endpoint) ? call->endpoint->types : 0;

        for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
            if (types & kinds[i].bit) {
                p = ngx_sprintf(p, "%s%s", p == value ? "" : ", ",
                                kinds[i].name);
            }
        }

        *p = '\0';

        return ngx_http_hymt_header(r, "Accept", (char *) value);

    case NGX_HTTP_TOO_MANY_REQUESTS:
    case NGX_HTTP_SERVICE_UNAVAILABLE:
        hmcf = ngx_http_get_module_main_conf(r, ngx_http_hymt_module);
        wait = ngx_http_hymt_backing_off(hmcf);

        p = ngx_sprintf(p, "%M", ngx_max((wait + 999) / 1000, 1));
        *p = '\0';

        return ngx_http_hymt_header(r, "Retry-After", (char *) value);
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_hymt_header(ngx_http_request_t *r, const char *key,
    const char *value)
{
    size_t            len;
    ngx_table_elt_t  *h;

    len = ngx_strlen(value);

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    h->key.data = (u_char *) key;
    h->key.len = ngx_strlen(key);
    h->value.len = len;
    h->value.data = ngx_pnalloc(r->pool, len);

    if (h->value.data == NULL) {
        h->hash = 0;
        return NGX_ERROR;
    }

    ngx_memcpy(h->value.data, value, len);

#if (nginx_version >= 1023000)
    h->next = NULL;
#endif

    return NGX_OK;
}


/* An error_page of the operator's, for a fallback say, goes before ours. */
ngx_http_err_page_t *
ngx_http_hymt_page(ngx_http_request_t *r, ngx_uint_t status)
{
    ngx_uint_t                 i;
    ngx_http_err_page_t       *page;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (clcf->error_pages == NULL || r->error_page || r->reading_body) {
        return NULL;
    }

    page = clcf->error_pages->elts;

    for (i = 0; i < clcf->error_pages->nelts; i++) {
        if (page[i].status == (ngx_int_t) status) {
            return &page[i];
        }
    }

    return NULL;
}
