
/*
 * Copyright (C) the hymt authors
 */


/*
 * The request's side: what may come in, its body as it arrives, the answer.
 */


#include "ngx_http_hymt.h"


static ngx_int_t ngx_http_hymt_cors(ngx_http_request_t *r,
    ngx_http_hymt_loc_conf_t *hlcf);
static ngx_int_t ngx_http_hymt_owner(ngx_http_request_t *r,
    ngx_http_hymt_call_t *call);
static ngx_http_hymt_endpoint_t *ngx_http_hymt_find(ngx_http_request_t *r,
    ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_path(ngx_http_request_t *r, ngx_str_t *path);
static ngx_int_t ngx_http_hymt_shorten(ngx_str_t *path);
static ngx_int_t ngx_http_hymt_match(ngx_http_hymt_endpoint_t *ep,
    ngx_str_t *path, ngx_str_t *part);
static char *ngx_http_hymt_copy(u_char *data, size_t len);
static ngx_int_t ngx_http_hymt_check_type(ngx_http_request_t *r,
    ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_type_is(ngx_str_t *value, size_t len,
    const char *type);
static ngx_uint_t ngx_http_hymt_compressed(ngx_http_request_t *r);
static ngx_uint_t ngx_http_hymt_wants_events(ngx_http_request_t *r);
static ngx_int_t ngx_http_hymt_check_engine(ngx_http_hymt_call_t *call);
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
static void ngx_http_hymt_begin(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_begin_event(ngx_event_t *ev);
static void ngx_http_hymt_parsed(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_give_back(ngx_http_request_t *r,
    ngx_http_hymt_call_t *call);
static void ngx_http_hymt_free_answer(void *data);
static ngx_int_t ngx_http_hymt_send(ngx_http_request_t *r, ngx_uint_t status,
    const char *type, u_char *body, size_t len);
static ngx_int_t ngx_http_hymt_error(ngx_http_request_t *r,
    ngx_http_hymt_api_t *api, ngx_http_hymt_failure_t *f);
static ngx_int_t ngx_http_hymt_error_headers(ngx_http_request_t *r,
    ngx_uint_t status);
static ngx_http_err_page_t *ngx_http_hymt_page(ngx_http_request_t *r,
    ngx_uint_t status);


ngx_int_t
ngx_http_hymt_handler(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_http_hymt_call_t      *call;
    ngx_http_hymt_failure_t    f;
    ngx_http_hymt_counters_t  *counters;
    ngx_http_hymt_loc_conf_t  *hlcf;

    hlcf = ngx_http_get_module_loc_conf(r, ngx_http_hymt_module);
    counters = ngx_http_hymt_counters();

    if (counters == NULL) {
        f.status = NGX_HTTP_SERVICE_UNAVAILABLE;
        f.code = "unavailable";
        f.param[0] = '\0';
        (void) snprintf(f.message, sizeof(f.message),
                        "this worker could not join the engine");

        return ngx_http_hymt_error(r, hlcf->api, &f);
    }

    (void) ngx_atomic_fetch_add(&counters->requests, 1);

    call = ngx_http_hymt_call_create(r);
    if (call == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_set_ctx(r, call->ctx, ngx_http_hymt_module);

    rc = ngx_http_hymt_cors(r, hlcf);
    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (ngx_http_hymt_owner(r, call) != NGX_OK
        || ngx_http_hymt_cache_begin(r, call) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    call->method = r->method;
    call->events = ngx_http_hymt_wants_events(r);
    call->endpoint = ngx_http_hymt_find(r, call);

    if (call->endpoint == NULL) {

        if (call->allow == 0) {
            ngx_http_hymt_fail(call, NGX_HTTP_NOT_FOUND, "not_found",
                               "there is nothing at this path");

        } else {
            ngx_http_hymt_fail(call, NGX_HTTP_NOT_ALLOWED,
                               "method_not_allowed", "use %s",
                               (call->allow & NGX_HTTP_POST) ? "POST"
                               : (call->allow & NGX_HTTP_GET) ? "GET"
                               : "DELETE");
        }

    } else if (ngx_http_hymt_check_type(r, call) != NGX_OK) {
        ngx_http_hymt_fail(call, NGX_HTTP_UNSUPPORTED_MEDIA_TYPE,
                           "unsupported_media_type",
                           "send%s%s%s%s, in UTF-8 and not compressed, and say"
                           " so in Content-Type",
                           call->endpoint->types & NGX_HTTP_HYMT_JSON
                           ? " application/json" : "",
                           call->endpoint->types & NGX_HTTP_HYMT_PLAIN
                           ? " or text/plain" : "",
                           call->endpoint->types & NGX_HTTP_HYMT_FORM
                           ? " or application/x-www-form-urlencoded" : "",
                           call->endpoint->types & NGX_HTTP_HYMT_MULTIPART
                           ? " or multipart/form-data" : "");

    } else if (r->headers_in.content_length_n > (off_t) hlcf->body_limit) {
        ngx_http_hymt_fail(call, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                           "body_too_large", "the body is larger than"
                           " hymt_max_body or client_max_body_size allows");

    } else if (call->endpoint->engine) {
        (void) ngx_http_hymt_check_engine(call);
    }

    if (call->failure.status != 0) {
        ngx_http_hymt_call_close(call);
        return ngx_http_hymt_error(r, hlcf->api, &call->failure);
    }

    if (r->args.len) {

        /* a task may look at it when the request has gone */

        call->args.data = malloc(r->args.len);
        if (call->args.data == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        ngx_memcpy(call->args.data, r->args.data, r->args.len);
        call->args.len = r->args.len;
    }

    /* straight into the call's own memory: no temporary file, no second copy */

    r->request_body_no_buffering = 1;

    rc = ngx_http_read_client_request_body(r, ngx_http_hymt_body_handler);

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        return rc;
    }

    return NGX_DONE;
}


/*
 * Tells browsers that a page of another origin may ask: NGX_DECLINED to go on,
 * or what a preflight is answered with.
 */
static ngx_int_t
ngx_http_hymt_cors(ngx_http_request_t *r, ngx_http_hymt_loc_conf_t *hlcf)
{
    ngx_str_t   *allowed, *origin;
    ngx_uint_t   i, any;

    static ngx_str_t  name = ngx_string("origin");

    if (hlcf->cors == NULL) {
        return NGX_DECLINED;
    }

    origin = ngx_http_hymt_request_header(r, &name);
    allowed = hlcf->cors->elts;
    any = (allowed[0].len == 1 && allowed[0].data[0] == '*');

    if (!any && ngx_http_hymt_header(r, "Vary", "Origin") != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (origin == NULL) {
        return NGX_DECLINED;
    }

    for (i = 0; !any && i < hlcf->cors->nelts; i++) {
        if (allowed[i].len == origin->len
            && ngx_strncmp(allowed[i].data, origin->data, origin->len) == 0)
        {
            break;
        }
    }

    if (!any && i == hlcf->cors->nelts) {
        return NGX_DECLINED;
    }

    if (ngx_http_hymt_header(r, "Access-Control-Allow-Origin",
                             any ? "*" : (char *) allowed[i].data)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (r->method != NGX_HTTP_OPTIONS) {
        return NGX_DECLINED;
    }

    if (ngx_http_hymt_header(r, "Access-Control-Allow-Methods",
                             "GET, POST, DELETE") != NGX_OK
        || ngx_http_hymt_header(r, "Access-Control-Allow-Headers",
                                "Authorization, Content-Type") != NGX_OK
        || ngx_http_hymt_header(r, "Access-Control-Max-Age", "86400")
           != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_hymt_send(r, NGX_HTTP_NO_CONTENT, "text/plain", NULL, 0);
}


static ngx_int_t
ngx_http_hymt_owner(ngx_http_request_t *r, ngx_http_hymt_call_t *call)
{
    ngx_str_t  value;

    if (call->conf->owner == NULL) {
        return NGX_OK;
    }

    if (ngx_http_complex_value(r, call->conf->owner, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    /* nobody has nothing of his own */

    if (value.len == 0) {
        return NGX_OK;
    }

    call->owner = ngx_http_hymt_copy(value.data, value.len);

    if (call->owner == NULL) {
        return NGX_ERROR;
    }

    /* from what is in the engine's caches nobody learns of another's prompts */

    hymt_scope(value.data, value.len, &call->job.scope);

    return NGX_OK;
}


/*
 * NULL: nothing there (methods 0), or nothing for this method.  Answers of GET
 * serve HEAD as well.
 */
static ngx_http_hymt_endpoint_t *
ngx_http_hymt_find(ngx_http_request_t *r, ngx_http_hymt_call_t *call)
{
    ngx_int_t                  rc;
    ngx_str_t                  path, part;
    ngx_uint_t                 method;
    ngx_http_hymt_endpoint_t  *ep;

    method = (r->method & NGX_HTTP_HEAD) ? NGX_HTTP_GET : r->method;
    rc = ngx_http_hymt_path(r, &path);

    do {
        for (ep = call->conf->api->endpoints; ep->methods; ep++) {

            if (ngx_http_hymt_match(ep, &path, &part) != NGX_OK) {
                continue;
            }

            if (!(ep->methods & method)) {
                call->allow |= ep->methods;
                continue;
            }

            if (part.len) {
                call->part = ngx_http_hymt_copy(part.data, part.len);

                if (call->part == NULL) {
                    return NULL;
                }
            }

            return ep;
        }

    } while (rc == NGX_DECLINED && call->allow == 0
             && ngx_http_hymt_shorten(&path) == NGX_OK);

    return NULL;
}


/*
 * What follows the location's name, without slashes at its ends.  An exact or
 * regular expression's location has no name to take away: then the path may
 * begin behind any slash (NGX_DECLINED).
 */
static ngx_int_t
ngx_http_hymt_path(ngx_http_request_t *r, ngx_str_t *path)
{
    ngx_int_t                  rc;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    *path = r->uri;
    rc = NGX_DECLINED;

    if (!clcf->exact_match && !clcf->named && !clcf->noname
#if (NGX_PCRE)
        && clcf->regex == NULL
#endif
        && clcf->name.len <= r->uri.len
        && ngx_strncmp(clcf->name.data, r->uri.data, clcf->name.len) == 0)
    {
        path->data += clcf->name.len;
        path->len -= clcf->name.len;
        rc = NGX_OK;
    }

    while (path->len && path->data[0] == '/') {
        path->data++;
        path->len--;
    }

    while (path->len && path->data[path->len - 1] == '/') {
        path->len--;
    }

    return rc;
}


/* Drops the first part of a path: NGX_DECLINED when nothing was left of it. */
static ngx_int_t
ngx_http_hymt_shorten(ngx_str_t *path)
{
    u_char  *p;

    if (path->len == 0) {
        return NGX_DECLINED;
    }

    p = ngx_strlchr(path->data, path->data + path->len, '/');
    p = p ? p + 1 : path->data + path->len;

    path->len -= p - path->data;
    path->data = p;

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_match(ngx_http_hymt_endpoint_t *ep, ngx_str_t *path,
    ngx_str_t *part)
{
    size_t       len, star;
    const char  *p;

    part->len = 0;
    len = ngx_strlen(ep->path);
    p = ngx_strchr(ep->path, '*');

    if (p == NULL) {
        return (path->len == len
                && ngx_strncmp(path->data, ep->path, len) == 0)
               ? NGX_OK : NGX_DECLINED;
    }

    /* "glossaries/" then one part, then perhaps "/entries" */

    star = p - ep->path;
    len -= star + 1;

    if (path->len <= star + len
        || ngx_strncmp(path->data, ep->path, star) != 0
        || ngx_strncmp(path->data + path->len - len, p + 1, len) != 0)
    {
        return NGX_DECLINED;
    }

    part->data = path->data + star;
    part->len = path->len - star - len;

    return ngx_strlchr(part->data, part->data + part->len, '/') ? NGX_DECLINED
                                                                : NGX_OK;
}


static char *
ngx_http_hymt_copy(u_char *data, size_t len)
{
    char  *p;

    p = malloc(len + 1);

    if (p != NULL) {
        ngx_memcpy(p, data, len);
        p[len] = '\0';
    }

    return p;
}


static ngx_int_t
ngx_http_hymt_check_type(ngx_http_request_t *r, ngx_http_hymt_call_t *call)
{
    u_char      *p, *last, *name;
    size_t       len;
    ngx_str_t   *type;
    ngx_uint_t   types;

    types = call->endpoint->types;

    if (ngx_http_hymt_compressed(r)) {
        return NGX_DECLINED;
    }

    if (r->headers_in.content_type == NULL) {

        /* some clients send none; JSON is the first of all we take */

        if (r->headers_in.content_length_n > 0 || r->headers_in.chunked) {
            call->type = types & NGX_HTTP_HYMT_JSON;
        }

        return NGX_OK;
    }

    type = &r->headers_in.content_type->value;
    p = type->data;
    last = p + type->len;

    while (p < last && *p != ';' && *p != ' ' && *p != '\t') {
        p++;
    }

    len = p - type->data;

    if (ngx_http_hymt_type_is(type, len, "application/json")) {
        call->type = NGX_HTTP_HYMT_JSON;

    } else if (ngx_http_hymt_type_is(type, len, "text/plain")) {
        call->type = NGX_HTTP_HYMT_PLAIN;

    } else if (ngx_http_hymt_type_is(type, len,
                                     "application/x-www-form-urlencoded"))
    {
        call->type = NGX_HTTP_HYMT_FORM;

    } else if (ngx_http_hymt_type_is(type, len, "multipart/form-data")) {
        call->type = NGX_HTTP_HYMT_MULTIPART;
    }

    if (!(call->type & types)) {

        /* a type without a body says nothing */

        if (!(call->endpoint->methods & NGX_HTTP_POST)
            || (types == 0 && r->headers_in.content_length_n <= 0))
        {
            call->type = 0;
            return NGX_OK;
        }

        return NGX_DECLINED;
    }

    if (call->type == NGX_HTTP_HYMT_MULTIPART) {
        name = ngx_strlcasestrn(p, last, (u_char *) "boundary=", 9 - 1);

        if (name == NULL) {
            return NGX_DECLINED;
        }

        name += 9;
        p = last;

        if (name < last && *name == '"') {
            name++;
            p = ngx_strlchr(name, last, '"');

        } else {
            p = ngx_strlchr(name, last, ';');
        }

        p = p ? p : last;

        if (p == name || p - name > 70) {
            return NGX_DECLINED;
        }

        call->boundary = ngx_http_hymt_copy(name, p - name);

        return call->boundary ? NGX_OK : NGX_ERROR;
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


static ngx_int_t
ngx_http_hymt_type_is(ngx_str_t *value, size_t len, const char *type)
{
    return len == ngx_strlen(type)
           && ngx_strncasecmp(value->data, (u_char *) type, len) == 0;
}


static ngx_uint_t
ngx_http_hymt_compressed(ngx_http_request_t *r)
{
    ngx_str_t  *value;

    static ngx_str_t  name = ngx_string("content-encoding");

    value = ngx_http_hymt_request_header(r, &name);

    return value != NULL
           && (value->len != 8
               || ngx_strncasecmp(value->data, (u_char *) "identity", 8) != 0);
}


/* As browsers' EventSource does: no other type comes before. */
static ngx_uint_t
ngx_http_hymt_wants_events(ngx_http_request_t *r)
{
    ngx_str_t  *value;

    static ngx_str_t  name = ngx_string("accept");

    value = ngx_http_hymt_request_header(r, &name);

    return value != NULL && value->len >= 17
           && ngx_strncasecmp(value->data, (u_char *) "text/event-stream", 17)
              == 0;
}


ngx_str_t *
ngx_http_hymt_request_header(ngx_http_request_t *r, ngx_str_t *name)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {

            if (h[i].key.len == name->len
                && ngx_strncasecmp(h[i].key.data, name->data, name->len) == 0)
            {
                return &h[i].value;
            }
        }
    }

    return NULL;
}


/* Before the body is read; an engine that may not be needed is asked later. */
static ngx_int_t
ngx_http_hymt_check_engine(ngx_http_hymt_call_t *call)
{
    if (!call->cached.reads && ngx_http_hymt_check_model(call) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_hymt_buffers_full()) {
        ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "buffers_full",
                           "the buffers of this worker are full");
        return NGX_ERROR;
    }

    if (!call->cached.reads
        && ngx_http_hymt_in_flight(call->model)
           >= (uint32_t) call->model->queue)
    {
        ngx_http_hymt_fail(call, NGX_HTTP_TOO_MANY_REQUESTS, "queue_full",
                           "the model's queue is full");
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_hymt_check_model(ngx_http_hymt_call_t *call)
{
    ngx_msec_t                  wait;
    hymt_host_info_t            info;
    ngx_http_hymt_model_t      *model;
    ngx_http_hymt_main_conf_t  *hmcf;

    model = call->model;
    hmcf = ngx_http_get_module_main_conf(call->r, ngx_http_hymt_module);
    wait = ngx_http_hymt_backing_off(hmcf);

    if (!ngx_http_hymt_engine_info(model, &info)) {
        ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "unavailable",
                           "there is no engine");

    } else if (wait) {
        ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "unavailable",
                           "the engine of model \"%s\" has failed and starts"
                           " again in %lu s", model->name.data,
                           (unsigned long) (wait + 999) / 1000);

    } else if (info.state == HYMT_HOST_FAILED && info.load_ns == 0) {

        /*
         * One that failed after it was ready is about to be replaced.  Why is
         * the log's and hymt_status's to say, not everybody's to know.
         */

        ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "unavailable",
                           "the engine of model \"%s\" has failed",
                           model->name.data);

    } else if (info.state != HYMT_HOST_READY && call->conf->loading_wait == 0)
    {
        ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "loading",
                           "the model is still loading");

    } else {
        return NGX_OK;
    }

    return NGX_ERROR;
}


static void
ngx_http_hymt_body_handler(ngx_http_request_t *r)
{
    ngx_http_hymt_call_t  *call;

    call = ngx_http_hymt_call(r);

    ngx_http_hymt_read_body(r, call);
}


static void
ngx_http_hymt_read_event_handler(ngx_http_request_t *r)
{
    ngx_http_hymt_call_t  *call;

    call = ngx_http_hymt_call(r);

    if (call == NULL) {

        /* an error_page has taken the request elsewhere */

        ngx_http_block_reading(r);
        return;
    }

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
    ngx_int_t                  rc;
    ngx_event_t               *rev;
    ngx_http_core_loc_conf_t  *clcf;

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

            /* a worker that is to leave waits for timers alone */

            if (!rev->timer_set) {
                clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
                ngx_add_timer(rev, clcf->client_body_timeout);
            }

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

        if (len > call->conf->body_limit - call->body_len) {
            ngx_http_hymt_fail(call, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                               "body_too_large", "the body is larger than"
                               " hymt_max_body or client_max_body_size allows");
            return NGX_ERROR;
        }

        rc = NGX_OK;

        if (ngx_buf_in_memory(b)) {
            rc = ngx_http_hymt_call_append(call, b->pos, len);

            if (r->request_body_no_buffering) {
                b->pos = b->last;
            }

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

    /* one read before us is others' too: mirror's, error_page's */

    if (r->request_body_no_buffering) {
        r->request_body->bufs = NULL;
    }

    return NGX_OK;
}


/*
 * Only where somebody before us had the body read, and it went to a file: we
 * ask for none.
 */
static ngx_int_t
ngx_http_hymt_take_file(ngx_http_hymt_call_t *call, ngx_buf_t *b)
{
    off_t      pos;
    ssize_t    n;
    ngx_int_t  rc;
    u_char     chunk[4096];

    pos = b->file_pos;

    while (pos < b->file_last) {
        n = ngx_read_file(b->file, chunk,
                          (size_t) ngx_min(b->file_last - pos,
                                           (off_t) sizeof(chunk)),
                          pos);

        if (n <= 0) {
            return NGX_ERROR;
        }

        rc = ngx_http_hymt_call_append(call, chunk, n);
        if (rc != NGX_OK) {
            return rc;
        }

        pos += n;
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

    ngx_http_hymt_begin(call);
}


/* Many requests may come in one turn of the event loop: each has its own. */
static void
ngx_http_hymt_begin(ngx_http_hymt_call_t *call)
{
    if (ngx_http_hymt_turn_spent()) {
        call->begin.handler = ngx_http_hymt_begin_event;
        ngx_post_event(&call->begin, &ngx_posted_next_events);
        return;
    }

    ngx_http_hymt_turn_take(NGX_HTTP_HYMT_A_PARSE);

    if (ngx_http_hymt_call_work(call, call->endpoint->thread
                                      ? NGX_HTTP_HYMT_INLINE + 1
                                      : call->body_len,
                                call->endpoint->parse, ngx_http_hymt_parsed)
        != NGX_OK)
    {
        ngx_http_finalize_request(call->r, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
}


static void
ngx_http_hymt_begin_event(ngx_event_t *ev)
{
    ngx_connection_t      *c;
    ngx_http_hymt_call_t  *call;

    call = (ngx_http_hymt_call_t *)
               ((u_char *) ev - offsetof(ngx_http_hymt_call_t, begin));

    c = call->r->connection;

    ngx_http_set_log_request(c->log, call->r);

    ngx_http_hymt_begin(call);

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_hymt_parsed(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_work_pt  more;

    if (call->failure.status != 0) {
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    if (call->answer != NULL) {
        ngx_http_hymt_answer(call);
        return;
    }

    if (call->more != NULL) {
        more = call->more;
        call->more = NULL;

        if (ngx_http_hymt_call_work(call, NGX_HTTP_HYMT_INLINE + 1, more,
                                    ngx_http_hymt_parsed)
            != NGX_OK)
        {
            ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR,
                               "internal", "can't start a task");
            ngx_http_hymt_answer_failure(call, &call->failure);
        }

        return;
    }

    ngx_http_hymt_call_admit(call);
}


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

    if (!r->reading_body && call->body_len != 0) {
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
static ngx_int_t
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


static ngx_int_t
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
static ngx_http_err_page_t *
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


ngx_http_hymt_call_t *
ngx_http_hymt_call(ngx_http_request_t *r)
{
    ngx_http_hymt_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_hymt_module);

    return ctx ? ctx->call : NULL;
}
