
/*
 * Copyright (C) the hymt authors
 */


/*
 * The request's side: what may come in, its body as it arrives, the answer.
 */


#include "ngx_http_hymt.h"


#define NGX_HTTP_HYMT_RETRY_AFTER  "1"


static ngx_int_t ngx_http_hymt_check_type(ngx_http_request_t *r,
    ngx_uint_t *plain);
static ngx_uint_t ngx_http_hymt_compressed(ngx_http_request_t *r);
static ngx_int_t ngx_http_hymt_check_engine(ngx_http_request_t *r,
    ngx_http_hymt_loc_conf_t *hlcf);
static void ngx_http_hymt_body_handler(ngx_http_request_t *r);
static void ngx_http_hymt_read_event_handler(ngx_http_request_t *r);
static void ngx_http_hymt_read_body(ngx_http_request_t *r,
    ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_take_bufs(ngx_http_request_t *r,
    ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_take_file(ngx_http_hymt_call_t *call,
    ngx_buf_t *b);
static void ngx_http_hymt_body_done(ngx_http_request_t *r,
    ngx_http_hymt_call_t *call);
static void ngx_http_hymt_parsed(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_send(ngx_http_request_t *r, ngx_uint_t status,
    ngx_str_t *type, u_char *body, size_t len);
static ngx_int_t ngx_http_hymt_error(ngx_http_request_t *r,
    ngx_uint_t status, const char *code, const char *message);
static ngx_int_t ngx_http_hymt_error_headers(ngx_http_request_t *r,
    ngx_uint_t status);
static ngx_int_t ngx_http_hymt_header(ngx_http_request_t *r, ngx_str_t *key,
    ngx_str_t *value);
static ngx_uint_t ngx_http_hymt_has_page(ngx_http_request_t *r,
    ngx_uint_t status);
static void ngx_http_hymt_count(ngx_uint_t status);


static ngx_str_t  ngx_http_hymt_type_json = ngx_string("application/json");
static ngx_str_t  ngx_http_hymt_type_text =
    ngx_string("text/plain; charset=utf-8");


ngx_int_t
ngx_http_hymt_handler(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_uint_t                 plain;
    ngx_http_hymt_call_t      *call;
    ngx_http_hymt_counters_t  *counters;
    ngx_http_hymt_loc_conf_t  *hlcf;

    hlcf = ngx_http_get_module_loc_conf(r, ngx_http_hymt_module);
    counters = ngx_http_hymt_counters();

    if (counters == NULL) {
        return ngx_http_hymt_error(r, NGX_HTTP_SERVICE_UNAVAILABLE,
                                   "unavailable",
                                   "this worker could not join the engine");
    }

    (void) ngx_atomic_fetch_add(&counters->requests, 1);

    if (!(r->method & NGX_HTTP_POST)) {
        return ngx_http_hymt_error(r, NGX_HTTP_NOT_ALLOWED,
                                   "method_not_allowed",
                                   "translate with POST");
    }

    if (ngx_http_hymt_check_type(r, &plain) != NGX_OK) {
        return ngx_http_hymt_error(r, NGX_HTTP_UNSUPPORTED_MEDIA_TYPE,
                                   "unsupported_media_type",
                                   "send application/json or text/plain, in"
                                   " UTF-8 and not compressed, and say so in"
                                   " Content-Type");
    }

    if (r->headers_in.content_length_n > (off_t) hlcf->max_body) {
        return ngx_http_hymt_error(r, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                                   "body_too_large",
                                   "the body is larger than hymt_max_body or"
                                   " client_max_body_size allows");
    }

    rc = ngx_http_hymt_check_engine(r, hlcf);
    if (rc != NGX_DECLINED) {
        return rc;
    }

    call = ngx_http_hymt_call_create(r);
    if (call == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    call->plain = plain;

    if (plain && r->args.len) {

        /* a task may look at it when the request has gone */

        call->args.data = malloc(r->args.len);
        if (call->args.data == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        ngx_memcpy(call->args.data, r->args.data, r->args.len);
        call->args.len = r->args.len;
    }

    ngx_http_set_ctx(r, call, ngx_http_hymt_module);

    /* straight into the call's own memory: no temporary file, no second copy */

    r->request_body_no_buffering = 1;

    rc = ngx_http_read_client_request_body(r, ngx_http_hymt_body_handler);

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        return rc;
    }

    return NGX_DONE;
}


static ngx_int_t
ngx_http_hymt_check_type(ngx_http_request_t *r, ngx_uint_t *plain)
{
    u_char     *p, *last, *name;
    size_t      len;
    ngx_str_t  *type;

    *plain = 0;

    if (ngx_http_hymt_compressed(r)) {
        return NGX_DECLINED;
    }

    if (r->headers_in.content_type == NULL) {
        return NGX_OK;
    }

    type = &r->headers_in.content_type->value;
    p = type->data;
    last = p + type->len;

    while (p < last && *p != ';' && *p != ' ' && *p != '\t') {
        p++;
    }

    len = p - type->data;

    if (len == sizeof("text/plain") - 1
        && ngx_strncasecmp(type->data, (u_char *) "text/plain", len) == 0)
    {
        *plain = 1;

    } else if (len != sizeof("application/json") - 1
               || ngx_strncasecmp(type->data, (u_char *) "application/json",
                                  len) != 0)
    {
        return NGX_DECLINED;
    }

    name = ngx_strlcasestrn(p, last, (u_char *) "charset=", 8 - 1);

    if (name == NULL) {
        return NGX_OK;
    }

    name += 8;

    if (name < last && *name == '"') {
        name++;
    }

    len = last - name;

    if ((len >= 5 && ngx_strncasecmp(name, (u_char *) "utf-8", 5) == 0)
        || (len >= 4 && ngx_strncasecmp(name, (u_char *) "utf8", 4) == 0)
        || (len >= 8 && ngx_strncasecmp(name, (u_char *) "us-ascii", 8) == 0))
    {
        return NGX_OK;
    }

    return NGX_DECLINED;
}


static ngx_uint_t
ngx_http_hymt_compressed(ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    static ngx_str_t  name = ngx_string("content-encoding");
    static ngx_str_t  identity = ngx_string("identity");

    part = &r->headers_in.headers.part;

    for ( /* void */ ; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].key.len == name.len
                && ngx_strncasecmp(h[i].key.data, name.data, name.len) == 0
                && (h[i].value.len != identity.len
                    || ngx_strncasecmp(h[i].value.data, identity.data,
                                       identity.len)
                       != 0))
            {
                return 1;
            }
        }
    }

    return 0;
}


/* NGX_DECLINED: go on; else what the handler returns. */
static ngx_int_t
ngx_http_hymt_check_engine(ngx_http_request_t *r,
    ngx_http_hymt_loc_conf_t *hlcf)
{
    hymt_host_info_t  info;

    if (!ngx_http_hymt_engine_info(hlcf->model, &info)) {
        return ngx_http_hymt_error(r, NGX_HTTP_SERVICE_UNAVAILABLE,
                                   "unavailable", "there is no engine");
    }

    if (info.state == HYMT_HOST_FAILED) {
        return ngx_http_hymt_error(r, NGX_HTTP_SERVICE_UNAVAILABLE,
                                   "unavailable", info.reason);
    }

    if (info.state != HYMT_HOST_READY && hlcf->loading_wait == 0) {
        return ngx_http_hymt_error(r, NGX_HTTP_SERVICE_UNAVAILABLE, "loading",
                                   "the model is still loading");
    }

    if (ngx_http_hymt_buffers_full()) {
        return ngx_http_hymt_error(r, NGX_HTTP_SERVICE_UNAVAILABLE,
                                   "buffers_full",
                                   "the buffers of this worker are full");
    }

    if (ngx_http_hymt_in_flight(hlcf->model) >= (uint32_t) hlcf->model->queue)
    {
        return ngx_http_hymt_error(r, NGX_HTTP_TOO_MANY_REQUESTS, "queue_full",
                                   "the model's queue is full");
    }

    return NGX_DECLINED;
}


static void
ngx_http_hymt_body_handler(ngx_http_request_t *r)
{
    ngx_http_hymt_call_t  *call;

    call = ngx_http_get_module_ctx(r, ngx_http_hymt_module);

    ngx_http_hymt_read_body(r, call);
}


static void
ngx_http_hymt_read_event_handler(ngx_http_request_t *r)
{
    ngx_http_hymt_call_t  *call;

    call = ngx_http_get_module_ctx(r, ngx_http_hymt_module);

    if (r->connection->read->timedout) {
        r->connection->timedout = 1;
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_TIME_OUT);
        return;
    }

    ngx_http_hymt_read_body(r, call);
}


static void
ngx_http_hymt_read_body(ngx_http_request_t *r, ngx_http_hymt_call_t *call)
{
    ngx_int_t     rc;
    ngx_event_t  *rev;

    for ( ;; ) {
        if (ngx_http_hymt_take_bufs(r, call) != NGX_OK) {
            ngx_http_hymt_answer_failure(call, &call->failure);
            return;
        }

        if (!r->reading_body) {
            break;
        }

        if (ngx_http_hymt_turn_spent()) {

            /* others first; what has come already gives no second event */

            r->read_event_handler = ngx_http_hymt_read_event_handler;
            rev = r->connection->read;

            ngx_post_event(rev, &ngx_posted_next_events);
            return;
        }

        rc = ngx_http_read_unbuffered_request_body(r);

        if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
            ngx_http_finalize_request(r, rc);
            return;
        }

        if (rc == NGX_AGAIN && r->request_body->bufs == NULL) {
            r->read_event_handler = ngx_http_hymt_read_event_handler;
            return;
        }
    }

    ngx_http_hymt_body_done(r, call);
}


static ngx_int_t
ngx_http_hymt_take_bufs(ngx_http_request_t *r, ngx_http_hymt_call_t *call)
{
    size_t        len;
    ngx_int_t     rc;
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    if (r->request_body == NULL) {
        return NGX_OK;
    }

    for (cl = r->request_body->bufs; cl; cl = cl->next) {
        b = cl->buf;

        len = ngx_buf_in_memory(b) ? (size_t) (b->last - b->pos)
              : b->in_file ? (size_t) (b->file_last - b->file_pos) : 0;

        if (len > call->conf->max_body - call->body_len) {
            ngx_http_hymt_fail(call, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                               "body_too_large", "the body is larger than"
                               " hymt_max_body or client_max_body_size allows");
            return NGX_ERROR;
        }

        rc = NGX_OK;

        if (ngx_buf_in_memory(b)) {
            rc = ngx_http_hymt_call_append(call, b->pos, len);
            b->pos = b->last;

        } else if (b->in_file) {
            rc = ngx_http_hymt_take_file(call, b);
        }

        if (rc == NGX_DECLINED) {
            ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE,
                               "buffers_full",
                               "the buffers of this worker are full");
            return NGX_ERROR;
        }

        if (rc != NGX_OK) {
            ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR,
                               "internal", "can't keep the body");
            return NGX_ERROR;
        }
    }

    r->request_body->bufs = NULL;

    return NGX_OK;
}


/*
 * Only where somebody before us had the body read, and it went to a file: we
 * ask for none.
 */
static ngx_int_t
ngx_http_hymt_take_file(ngx_http_hymt_call_t *call, ngx_buf_t *b)
{
    ssize_t    n;
    ngx_int_t  rc;
    u_char     chunk[4096];

    while (b->file_pos < b->file_last) {
        n = ngx_read_file(b->file, chunk,
                          (size_t) ngx_min(b->file_last - b->file_pos,
                                           (off_t) sizeof(chunk)),
                          b->file_pos);

        if (n <= 0) {
            return NGX_ERROR;
        }

        rc = ngx_http_hymt_call_append(call, chunk, n);
        if (rc != NGX_OK) {
            return rc;
        }

        b->file_pos += n;
    }

    return NGX_OK;
}


static void
ngx_http_hymt_body_done(ngx_http_request_t *r, ngx_http_hymt_call_t *call)
{
    ngx_event_t  *rev;

    r->connection->log->action = "translating";

    r->write_event_handler = ngx_http_request_empty_handler;

    ngx_http_hymt_call_start(call);

    if (call->body_len == 0) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "empty_body",
                           "the body is empty");
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    if (call->conf->ignore_client_abort) {
        r->read_event_handler = ngx_http_block_reading;

    } else {
        r->read_event_handler = ngx_http_test_reading;

        /* an end of file that came with the body gives no second event */

        rev = r->connection->read;

        if (rev->ready) {
            ngx_post_event(rev, &ngx_posted_events);

        } else if (ngx_handle_read_event(rev, 0) != NGX_OK) {
            ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
            return;
        }
    }

    if (ngx_http_hymt_call_work(call, call->body_len,
                                ngx_http_hymt_native_parse,
                                ngx_http_hymt_parsed)
        != NGX_OK)
    {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
}


static void
ngx_http_hymt_parsed(ngx_http_hymt_call_t *call)
{
    if (call->failure.status != 0) {
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    ngx_http_hymt_call_admit(call);
}


void
ngx_http_hymt_answer(ngx_http_hymt_call_t *call)
{
    ngx_uint_t                 i, in, out;
    ngx_http_request_t        *r;
    ngx_http_hymt_counters_t  *counters;

    r = call->r;
    counters = ngx_http_hymt_counters();

    in = 0;
    out = 0;

    for (i = 0; i < call->n_items; i++) {
        in += call->items[i].result.prompt_tokens;
        out += call->items[i].result.completion_tokens;
    }

    (void) ngx_atomic_fetch_add(&counters->tokens_in, in);
    (void) ngx_atomic_fetch_add(&counters->tokens_out, out);

    ngx_http_hymt_call_close(call);

    ngx_http_finalize_request(r,
        ngx_http_hymt_send(r, NGX_HTTP_OK,
                           call->plain ? &ngx_http_hymt_type_text
                                       : &ngx_http_hymt_type_json,
                           (u_char *) call->answer, call->answer_len));
}


void
ngx_http_hymt_answer_failure(ngx_http_hymt_call_t *call,
    ngx_http_hymt_failure_t *f)
{
    ngx_http_request_t  *r;

    r = call->r;

    ngx_http_hymt_call_close(call);

    ngx_http_finalize_request(r, ngx_http_hymt_error(r, f->status, f->code,
                                                     f->message));
}


/*
 * {"error": {"code", "message"}}.  Returns what the content handler returns or
 * the request is finalized with; the body, where there is one still to come, is
 * discarded.
 */
static ngx_int_t
ngx_http_hymt_error(ngx_http_request_t *r, ngx_uint_t status,
    const char *code, const char *message)
{
    u_char      *body, *p;
    size_t       len, size;
    ngx_int_t    rc;
    ngx_uint_t   level;

    ngx_http_hymt_count(status);

    level = (status == NGX_HTTP_INTERNAL_SERVER_ERROR) ? NGX_LOG_ERR
                                                       : NGX_LOG_INFO;

    ngx_log_error(level, r->connection->log, 0, "hymt answers %ui: %s", status,
                  message);

    if (ngx_http_hymt_error_headers(r, status) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (ngx_http_hymt_has_page(r, status)) {
        return status;
    }

    if (!r->reading_body) {
        rc = ngx_http_discard_request_body(r);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    if (status == NGX_HTTP_REQUEST_ENTITY_TOO_LARGE) {
        r->keepalive = 0;
    }

    len = ngx_strlen(message);

    size = sizeof("{\"error\":{\"code\":\"\",\"message\":\"\"}}\n") - 1
           + ngx_strlen(code) + len
           + ngx_escape_json(NULL, (u_char *) message, len);

    body = ngx_pnalloc(r->pool, size);
    if (body == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    p = ngx_sprintf(body, "{\"error\":{\"code\":\"%s\",\"message\":\"", code);
    p = (u_char *) ngx_escape_json(p, (u_char *) message, len);
    p = ngx_cpymem(p, "\"}}\n", 4);

    return ngx_http_hymt_send(r, status, &ngx_http_hymt_type_json, body,
                              p - body);
}


static ngx_int_t
ngx_http_hymt_send(ngx_http_request_t *r, ngx_uint_t status, ngx_str_t *type,
    u_char *body, size_t len)
{
    ngx_int_t     rc;
    ngx_buf_t    *b;
    ngx_chain_t   out;

    if (status == NGX_HTTP_OK) {
        ngx_http_hymt_count(status);
    }

    r->headers_out.status = status;
    r->headers_out.content_type = *type;
    r->headers_out.content_type_len = (type == &ngx_http_hymt_type_text)
                                      ? sizeof("text/plain") - 1 : type->len;
    r->headers_out.content_type_lowcase = NULL;
    r->headers_out.content_length_n = len;

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
    static ngx_str_t  allow = ngx_string("Allow");
    static ngx_str_t  post = ngx_string("POST");
    static ngx_str_t  accept = ngx_string("Accept");
    static ngx_str_t  types = ngx_string("application/json, text/plain");
    static ngx_str_t  retry = ngx_string("Retry-After");
    static ngx_str_t  after = ngx_string(NGX_HTTP_HYMT_RETRY_AFTER);

    switch (status) {

    case NGX_HTTP_NOT_ALLOWED:
        return ngx_http_hymt_header(r, &allow, &post);

    case NGX_HTTP_UNSUPPORTED_MEDIA_TYPE:
        return ngx_http_hymt_header(r, &accept, &types);

    case NGX_HTTP_TOO_MANY_REQUESTS:
    case NGX_HTTP_SERVICE_UNAVAILABLE:
        return ngx_http_hymt_header(r, &retry, &after);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_header(ngx_http_request_t *r, ngx_str_t *key, ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    h->key = *key;
    h->value = *value;

#if (nginx_version >= 1023000)
    h->next = NULL;
#endif

    return NGX_OK;
}


/* An error_page of the operator's, for a fallback say, goes before ours. */
static ngx_uint_t
ngx_http_hymt_has_page(ngx_http_request_t *r, ngx_uint_t status)
{
    ngx_uint_t                 i;
    ngx_http_err_page_t       *page;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (clcf->error_pages == NULL || r->error_page) {
        return 0;
    }

    page = clcf->error_pages->elts;

    for (i = 0; i < clcf->error_pages->nelts; i++) {
        if (page[i].status == (ngx_int_t) status) {
            return 1;
        }
    }

    return 0;
}


static void
ngx_http_hymt_count(ngx_uint_t status)
{
    ngx_atomic_t              *counter;
    ngx_http_hymt_counters_t  *counters;

    counters = ngx_http_hymt_counters();

    if (counters == NULL) {
        return;
    }

    switch (status) {

    case NGX_HTTP_OK:
        counter = &counters->answered;
        break;

    case NGX_HTTP_TOO_MANY_REQUESTS:
    case NGX_HTTP_SERVICE_UNAVAILABLE:
        counter = &counters->rejected;
        break;

    case NGX_HTTP_GATEWAY_TIME_OUT:
        counter = &counters->timeouts;
        break;

    case NGX_HTTP_INTERNAL_SERVER_ERROR:
        counter = &counters->failed;
        break;

    default:
        counter = &counters->refused;
        break;
    }

    (void) ngx_atomic_fetch_add(counter, 1);
}
