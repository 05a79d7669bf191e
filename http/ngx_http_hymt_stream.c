
/*
 * Copyright (C) the hymt authors
 */


/*
 * Server-Sent Events.  Two buffers: one fills with events while the other is on
 * its way; a reader that is slower than the model finds what has gathered in
 * one event.  Their memory belongs to the request's pool, since parts of it may
 * wait in the connection when the request's own cleanup has run.
 *
 * The header goes out with the first event, so that what fails before it has
 * its status; the first ping, where nothing came for so long, is one.
 */


#include "ngx_http_hymt.h"


struct ngx_http_hymt_stream_s {
    ngx_http_hymt_text_t   fill;
    ngx_http_hymt_text_t   flight;
    ngx_chain_t           *free;
    ngx_chain_t           *busy;
    ngx_event_t            ping;
    ngx_http_hymt_call_t  *call;
    unsigned               open:1;     /* the header is out */
    unsigned               failed:1;   /* nothing more can be sent */
};


static ngx_int_t ngx_http_hymt_stream_open(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_stream_free(void *data);
static void ngx_http_hymt_stream_flush(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_stream_output(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_stream_last(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_stream_write(ngx_http_request_t *r);
static void ngx_http_hymt_stream_ping(ngx_event_t *ev);


ngx_int_t
ngx_http_hymt_stream_create(ngx_http_hymt_call_t *call)
{
    ngx_pool_cleanup_t             *cln;
    struct ngx_http_hymt_stream_s  *ss;

    cln = ngx_pool_cleanup_add(call->r->pool,
                               sizeof(struct ngx_http_hymt_stream_s));
    if (cln == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        return NGX_ERROR;
    }

    ss = cln->data;
    ngx_memzero(ss, sizeof(struct ngx_http_hymt_stream_s));

    cln->handler = ngx_http_hymt_stream_free;

    ss->call = call;
    ss->ping.handler = ngx_http_hymt_stream_ping;
    ss->ping.data = call->r->connection;
    ss->ping.log = call->r->connection->log;
    ss->ping.cancelable = 1;

    call->stream_state = ss;

    if (call->conf->ping) {
        ngx_add_timer(&ss->ping, call->conf->ping);
    }

    return NGX_OK;
}


void
ngx_http_hymt_stream_text(ngx_http_hymt_call_t *call, const char *text,
    size_t len)
{
    struct ngx_http_hymt_stream_s  *ss;

    ss = call->stream_state;

    if (!ss->open && ngx_http_hymt_stream_open(call) != NGX_OK) {
        return;
    }

    call->conf->api->delta(call, text, len, &ss->fill);

    ngx_http_hymt_stream_flush(call);
}


/* Where a filter keeps what it was given, the connection is what is full. */
ngx_uint_t
ngx_http_hymt_stream_busy(ngx_http_hymt_call_t *call)
{
    return call->stream_state->busy != NULL
           || (call->r->connection->buffered & NGX_HTTP_WRITE_BUFFERED);
}


ngx_uint_t
ngx_http_hymt_stream_opened(ngx_http_hymt_call_t *call)
{
    return call->stream_state != NULL && call->stream_state->open;
}


ngx_uint_t
ngx_http_hymt_stream_failed(ngx_http_hymt_call_t *call)
{
    return call->stream_state != NULL && call->stream_state->failed;
}


static ngx_int_t
ngx_http_hymt_stream_open(ngx_http_hymt_call_t *call)
{
    ngx_int_t                       rc;
    ngx_http_request_t             *r;
    struct ngx_http_hymt_stream_s  *ss;

    r = call->r;
    ss = call->stream_state;

    ss->open = 1;

    r->headers_out.status = NGX_HTTP_OK;
    ngx_str_set(&r->headers_out.content_type, "text/event-stream");
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;
    r->headers_out.content_length_n = -1;

    rc = NGX_ERROR;

    if (ngx_http_hymt_header(r, "Cache-Control", "no-store") == NGX_OK
        && ngx_http_hymt_header(r, "X-Accel-Buffering", "no") == NGX_OK
        && ngx_http_hymt_cache_header(call) == NGX_OK)
    {
        rc = ngx_http_send_header(r);
    }

    if (rc == NGX_ERROR || rc > NGX_OK) {
        ss->failed = 1;
        ngx_post_event(&call->run, &ngx_posted_events);
        return NGX_ERROR;
    }

    r->write_event_handler = ngx_http_hymt_stream_write;

    return NGX_OK;
}


static void
ngx_http_hymt_stream_free(void *data)
{
    struct ngx_http_hymt_stream_s *ss = data;

    free(ss->fill.data);
    free(ss->flight.data);
}


/* Nothing happens here that could end the request under a caller's feet. */
static void
ngx_http_hymt_stream_flush(ngx_http_hymt_call_t *call)
{
    struct ngx_http_hymt_stream_s  *ss;

    ss = call->stream_state;

    if (!ss->failed && ngx_http_hymt_stream_output(call) == NGX_ERROR) {
        ss->failed = 1;
    }

    if (ss->failed && !call->run.posted) {
        ngx_post_event(&call->run, &ngx_posted_events);
    }
}


static ngx_int_t
ngx_http_hymt_stream_output(ngx_http_hymt_call_t *call)
{
    ngx_int_t                       rc;
    ngx_buf_t                      *b;
    ngx_event_t                    *wev;
    ngx_chain_t                    *out;
    ngx_http_request_t             *r;
    ngx_http_hymt_text_t            text;
    ngx_http_core_loc_conf_t       *clcf;
    struct ngx_http_hymt_stream_s  *ss;

    r = call->r;
    wev = r->connection->write;
    ss = call->stream_state;
    out = NULL;

    if (ss->fill.failed || r->connection->error) {
        return NGX_ERROR;
    }

    if (ss->busy == NULL && ss->fill.len) {
        text = ss->flight;
        ss->flight = ss->fill;
        ss->fill = text;
        ss->fill.len = 0;

        out = ngx_chain_get_free_buf(r->pool, &ss->free);
        if (out == NULL) {
            return NGX_ERROR;
        }

        b = out->buf;

        b->start = (u_char *) ss->flight.data;
        b->pos = b->start;
        b->last = b->pos + ss->flight.len;
        b->end = b->last;
        b->memory = 1;
        b->flush = 1;
        b->tag = (ngx_buf_tag_t) &ngx_http_hymt_module;

        if (call->conf->ping) {
            ngx_add_timer(&ss->ping, call->conf->ping);
        }
    }

    if (out == NULL && ss->busy == NULL && !r->connection->buffered) {
        return NGX_OK;
    }

    rc = ngx_http_output_filter(r, out);

    ngx_chain_update_chains(r->pool, &ss->free, &ss->busy, &out,
                            (ngx_buf_tag_t) &ngx_http_hymt_module);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (ngx_handle_write_event(wev, clcf->send_lowat) != NGX_OK) {
        return NGX_ERROR;
    }

    /* with limit_rate the timer may be the limit's */

    if (wev->delayed) {
        return NGX_OK;
    }

    if (wev->active && !wev->ready) {
        ngx_add_timer(wev, clcf->send_timeout);

    } else if (wev->timer_set) {
        ngx_del_timer(wev);
    }

    return NGX_OK;
}


void
ngx_http_hymt_stream_end(ngx_http_hymt_call_t *call)
{
    struct ngx_http_hymt_stream_s  *ss;

    ss = call->stream_state;

    if (!ss->open) {
        (void) ngx_http_hymt_stream_open(call);
    }

    call->conf->api->end(call, &ss->fill);

    ngx_http_hymt_count(call, NGX_HTTP_OK, NULL);
    ngx_http_hymt_stream_last(call);
}


void
ngx_http_hymt_stream_broken(ngx_http_hymt_call_t *call,
    ngx_http_hymt_failure_t *f)
{
    ngx_uint_t  level;

    level = (f->status == NGX_HTTP_INTERNAL_SERVER_ERROR) ? NGX_LOG_ERR
                                                          : NGX_LOG_INFO;

    ngx_log_error(level, call->r->connection->log, 0,
                  "hymt ends a stream with %ui: %s", f->status, f->message);

    ngx_http_hymt_count(call, f->status, f->code);

    call->conf->api->broken(call, f, &call->stream_state->fill);

    ngx_http_hymt_stream_last(call);
}


/* The last events and the end; NGINX's writer sees to what is left. */
static void
ngx_http_hymt_stream_last(ngx_http_hymt_call_t *call)
{
    ngx_buf_t                      *b;
    ngx_int_t                       rc;
    ngx_chain_t                    *out;
    ngx_event_t                    *wev;
    ngx_http_request_t             *r;
    struct ngx_http_hymt_stream_s  *ss;

    r = call->r;
    wev = r->connection->write;
    ss = call->stream_state;

    ngx_http_hymt_call_close(call);

    r->write_event_handler = ngx_http_request_empty_handler;

    if (wev->timer_set && !wev->delayed) {
        ngx_del_timer(wev);
    }

    out = ngx_chain_get_free_buf(r->pool, &ss->free);

    if (ss->failed || ss->fill.failed || out == NULL) {
        ngx_http_finalize_request(r, NGX_ERROR);
        return;
    }

    b = out->buf;

    b->start = (u_char *) ss->fill.data;
    b->pos = b->start;
    b->last = b->pos + ss->fill.len;
    b->end = b->last;
    b->memory = ss->fill.len ? 1 : 0;
    b->flush = 1;
    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;
    b->tag = (ngx_buf_tag_t) &ngx_http_hymt_module;

    rc = ngx_http_output_filter(r, out);

    ngx_http_finalize_request(r, rc);
}


/* The connection takes more. */
static void
ngx_http_hymt_stream_write(ngx_http_request_t *r)
{
    ngx_connection_t      *c;
    ngx_http_hymt_call_t  *call;

    ngx_http_hymt_turn_begin();

    c = r->connection;
    call = ngx_http_hymt_call(r);

    if (c->write->timedout) {
        ngx_log_error(NGX_LOG_INFO, c->log, NGX_ETIMEDOUT,
                      "client timed out");
        c->timedout = 1;
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_TIME_OUT);
        return;
    }

    ngx_http_hymt_stream_flush(call);

    /* what came while it was busy */

    ngx_http_hymt_send_more(call);
}


/* Proxies and clients take silence for death. */
static void
ngx_http_hymt_stream_ping(ngx_event_t *ev)
{
    ngx_connection_t               *c;
    ngx_http_hymt_call_t           *call;
    struct ngx_http_hymt_stream_s  *ss;

    ngx_http_hymt_turn_begin();

    ss = (struct ngx_http_hymt_stream_s *)
             ((u_char *) ev - offsetof(struct ngx_http_hymt_stream_s, ping));

    call = ss->call;
    c = call->r->connection;

    ngx_http_set_log_request(c->log, call->r);

    ngx_add_timer(&ss->ping, call->conf->ping);

    /* a model that does not come is worth a status */

    if (!ss->open
        && (call->loading || ngx_http_hymt_stream_open(call) != NGX_OK))
    {
        return;
    }

    if (!ngx_http_hymt_stream_busy(call)) {
        ngx_http_hymt_append(&ss->fill, ": ping\n\n", 8);
        ngx_http_hymt_stream_flush(call);
    }

    ngx_http_run_posted_requests(c);
}


/* The request ends without the stream's end. */
void
ngx_http_hymt_stream_close(ngx_http_hymt_call_t *call)
{
    struct ngx_http_hymt_stream_s  *ss;

    ss = call->stream_state;

    if (ss != NULL && ss->ping.timer_set) {
        ngx_del_timer(&ss->ping);
    }
}
