
/*
 * Copyright (C) the hymt authors
 */


/*
 * A request's body as it arrives, into memory of the call's own, and what
 * begins once it is whole.
 */


#include "ngx_http_hymt.h"


static void ngx_http_hymt_read_event_handler(ngx_http_request_t *r);
static void ngx_http_hymt_read_body(ngx_http_request_t *r,
    ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_read_later(ngx_http_request_t *r,
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


void
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

    ngx_http_hymt_turn_begin();

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

            if (ngx_http_hymt_read_later(r, call) != NGX_OK) {
                return;
            }

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
            (void) ngx_http_hymt_read_later(r, call);
            return;
        }
    }

    ngx_http_hymt_body_done(r, call);
}


/* The rest of it: NGX_OK, or NGX_ERROR where there is no room for what came. */
static ngx_int_t
ngx_http_hymt_read_later(ngx_http_request_t *r, ngx_http_hymt_call_t *call)
{
    if (ngx_http_hymt_body_waits(call) != NGX_OK) {
        ngx_http_hymt_fail_buffers(call);
        ngx_http_hymt_answer_failure(call, &call->failure);
        return NGX_ERROR;
    }

    r->read_event_handler = ngx_http_hymt_read_event_handler;

    return NGX_OK;
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
            ngx_http_hymt_fail_buffers(call);
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

    ngx_http_hymt_body_came(call);
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

    ngx_http_hymt_turn_begin();

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
