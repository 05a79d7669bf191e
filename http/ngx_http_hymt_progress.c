
/*
 * Copyright (C) the hymt authors
 */


/*
 * What of a text may be sent before all of it is there.
 *
 * A document of several units, or with tags, gives out what is final as units
 * come back.  One that is a single plain unit is sent while the model writes
 * it: up to what the document might still change, which waits for the result.
 * It refuses no answer of which a part may have been sent.  A chat is sent as
 * it is, up to what may become a stop string.
 */


#include "ngx_http_hymt.h"
#include "segment.h"


static void ngx_http_hymt_send_head(ngx_http_hymt_item_t *item);
static ngx_uint_t ngx_http_hymt_growing(ngx_http_hymt_item_t *item);
static size_t ngx_http_hymt_chat_part(ngx_http_hymt_call_t *call,
    const char *text, size_t from, size_t len);
static size_t ngx_http_hymt_lead(ngx_http_hymt_item_t *item, const char *text,
    size_t len);


/* The runtime's word: a streaming job has more text. */
void
ngx_http_hymt_call_progress(ngx_http_hymt_job_t *job)
{
    size_t                 from, to;
    uint32_t               len;
    const char            *text;
    ngx_http_hymt_call_t  *call;
    ngx_http_hymt_item_t  *item;

    call = job->call;
    item = job->item;

    /* no engine tells of progress unasked, unless its memory is spoiled */

    if (call->stream_state == NULL) {
        return;
    }

    /* a reader that is slow gets it all in one event later */

    if (call->failure.status != 0 || !ngx_http_hymt_growing(item)
        || ngx_http_hymt_stream_busy(call))
    {
        return;
    }

    ngx_http_hymt_so_far(job, &text, &len);

    from = ngx_http_hymt_lead(item, text, len) + item->sent - item->head;

    if (from >= len || !hymt_utf8_check(text + from, len - from, NULL)) {
        return;
    }

    to = item->doc ? hymt_document_final(text, len, from)
                   : ngx_http_hymt_chat_part(call, text, from, len);

    if (to > from) {
        ngx_http_hymt_send_head(item);

        item->sent += to - from;
        ngx_http_hymt_stream_text(call, text + from, to - from);
    }
}


/* What stands before the one unit of a document. */
static void
ngx_http_hymt_send_head(ngx_http_hymt_item_t *item)
{
    size_t       len;
    const char  *text;

    if (item->doc != NULL && item->sent == 0
        && hymt_document_ready(item->doc, 0, &text, &len) == HYMT_OK
        && len > 0)
    {
        item->head = len;
        item->sent = len;
        ngx_http_hymt_stream_text(item->call, text, len);
    }
}


/* Whether what the model writes is what is sent. */
static ngx_uint_t
ngx_http_hymt_growing(ngx_http_hymt_item_t *item)
{
    return item->doc == NULL || hymt_document_plain(item->doc);
}


/* Where a stop string begins, or might: nothing before `from` does. */
static size_t
ngx_http_hymt_chat_part(ngx_http_hymt_call_t *call, const char *text,
    size_t from, size_t len)
{
    size_t       n, keep, to;
    ngx_uint_t   i;
    const char  *p;

    to = len;

    for (i = 0; i < call->n_stops; i++) {
        n = strlen(call->stops[i]);
        p = memmem(text + from, len - from, call->stops[i], n);

        if (p != NULL) {
            to = ngx_min(to, (size_t) (p - text));
            continue;
        }

        for (keep = ngx_min(n - 1, len - from); keep > 0; keep--) {
            if (memcmp(text + len - keep, call->stops[i], keep) == 0) {
                to = ngx_min(to, len - keep);
                break;
            }
        }
    }

    return to;
}


/* Blanks at the beginning that a document takes away. */
static size_t
ngx_http_hymt_lead(ngx_http_hymt_item_t *item, const char *text, size_t len)
{
    return item->doc ? hymt_blank_before(text, len) : 0;
}


void
ngx_http_hymt_send_more(ngx_http_hymt_call_t *call)
{
    size_t                 len;
    ngx_uint_t             i;
    const char            *text;
    ngx_http_hymt_item_t  *item;

    item = &call->items[0];

    if (call->failure.status != 0 || ngx_http_hymt_stream_failed(call)
        || ngx_http_hymt_stream_busy(call))
    {
        return;
    }

    if (!ngx_http_hymt_growing(item)) {

        if (hymt_document_ready(item->doc, item->sent, &text, &len) == HYMT_OK
            && len > 0)
        {
            item->sent += len;
            ngx_http_hymt_stream_text(call, text, len);
        }

        return;
    }

    for (i = 0; call->running && i < call->n_jobs; i++) {
        if (call->jobs[i].item != NULL) {
            ngx_http_hymt_call_progress(&call->jobs[i]);
        }
    }
}


ngx_uint_t
ngx_http_hymt_sent_is_right(ngx_http_hymt_item_t *item, const char *raw,
    size_t len)
{
    size_t       n, lead, body;
    const char  *text;

    if (item->sent == 0 || !ngx_http_hymt_growing(item)) {
        return 1;
    }

    lead = ngx_http_hymt_lead(item, raw, len);
    body = item->sent - item->head;

    if (lead + body > len) {
        return 0;
    }

    if (item->doc == NULL) {
        return body <= item->chat_len;
    }

    /* without memory the call ends with that */

    if (hymt_document_ready(item->doc, 0, &text, &n) != HYMT_OK) {
        return 1;
    }

    return n >= item->sent
           && memcmp(text + item->head, raw + lead, body) == 0;
}


void
ngx_http_hymt_send_rest(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_item_t  *item;

    item = &call->items[0];

    if (item->out_len > item->sent) {
        ngx_http_hymt_stream_text(call, item->out + item->sent,
                                  item->out_len - item->sent);
        item->sent = item->out_len;
    }
}
