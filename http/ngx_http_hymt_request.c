
/*
 * Copyright (C) the hymt authors
 */


/*
 * The request's side: which endpoint it is for, and what may come in.
 */


#include "ngx_http_hymt.h"


static ngx_int_t ngx_http_hymt_cors(ngx_http_request_t *r,
    ngx_http_hymt_loc_conf_t *hlcf);
static ngx_int_t ngx_http_hymt_owner(ngx_http_request_t *r,
    ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_flow(ngx_http_request_t *r,
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


ngx_int_t
ngx_http_hymt_handler(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_http_hymt_call_t      *call;
    ngx_http_hymt_failure_t    f;
    ngx_http_hymt_counters_t  *counters;
    ngx_http_hymt_loc_conf_t  *hlcf;

    ngx_http_hymt_turn_begin();

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
        || ngx_http_hymt_flow(r, call) != NGX_OK
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
                               "method_not_allowed", "use%s%s%s",
                               (call->allow & NGX_HTTP_GET) ? " GET" : "",
                               !(call->allow & NGX_HTTP_POST) ? ""
                               : (call->allow & NGX_HTTP_GET) ? " or POST"
                               : " POST",
                               !(call->allow & NGX_HTTP_DELETE) ? ""
                               : call->allow == NGX_HTTP_DELETE ? " DELETE"
                               : " or DELETE");
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


/* Its place in the engine's line. */
static ngx_int_t
ngx_http_hymt_flow(ngx_http_request_t *r, ngx_http_hymt_call_t *call)
{
    ngx_str_t     value;
    hymt_scope_t  key;

    call->job.priority = call->conf->priority;

    if (call->conf->fair_key == NULL) {
        return NGX_OK;
    }

    if (ngx_http_complex_value(r, call->conf->fair_key, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    if (value.len) {
        hymt_scope(value.data, value.len, &key);
        ngx_memcpy(call->job.flow, key.word, sizeof(call->job.flow));
    }

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
        ngx_http_hymt_fail_buffers(call);
        return NGX_ERROR;
    }

    if (!call->cached.reads && ngx_http_hymt_queue_full(call->model)) {
        ngx_http_hymt_fail(call, NGX_HTTP_TOO_MANY_REQUESTS, "queue_full",
                           "the model's queue is full");
        return NGX_ERROR;
    }

    if (!call->cached.reads) {
        return ngx_http_hymt_check_location(call);
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_hymt_check_model(ngx_http_hymt_call_t *call)
{
    ngx_msec_t                  wait;
    ngx_uint_t                  told;
    hymt_host_info_t            info;
    ngx_http_hymt_model_t      *model;
    ngx_http_hymt_main_conf_t  *hmcf;

    model = call->model;
    hmcf = ngx_http_get_module_main_conf(call->r, ngx_http_hymt_module);
    wait = ngx_http_hymt_backing_off(hmcf);

    if (!wait && ngx_http_hymt_ready(model)) {
        return NGX_OK;
    }

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
         * One that failed after it was ready is about to be replaced.  Which
         * file is at fault is the log's and hymt_status's to say, not
         * everybody's to know.
         */

        told = info.reason[0] != '\0' && strchr(info.reason, '/') == NULL;

        ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "unavailable",
                           "the engine of model \"%s\" has failed%s%s",
                           model->name.data, told ? ": " : "",
                           told ? info.reason : "");

    } else if (info.state != HYMT_HOST_READY && call->conf->loading_wait == 0)
    {
        ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "loading",
                           "the model is still loading");

    } else {
        return NGX_OK;
    }

    return NGX_ERROR;
}


ngx_http_hymt_call_t *
ngx_http_hymt_call(ngx_http_request_t *r)
{
    ngx_http_hymt_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_hymt_module);

    return ctx ? ctx->call : NULL;
}
