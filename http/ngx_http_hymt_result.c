
/*
 * Copyright (C) the hymt authors
 */


/*
 * What the engine says of a unit, and the end of a text and of a call: results
 * become texts, texts an answer.
 */


#include "ngx_http_hymt.h"


static void ngx_http_hymt_judge(ngx_http_hymt_item_t *item,
    const hymt_result_t *result);
static size_t ngx_http_hymt_stop_at(ngx_http_hymt_call_t *call,
    const char *text, size_t len);
static void ngx_http_hymt_outputs(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_rendered(ngx_http_hymt_call_t *call);


void
ngx_http_hymt_item_end(ngx_http_hymt_item_t *item)
{
    if (!item->done) {
        item->done = 1;
        item->call->done++;
    }
}


/* One text's failure: its own where the API tells of each, else the call's. */
void
ngx_http_hymt_item_fail(ngx_http_hymt_item_t *item, ngx_uint_t status,
    const char *code, const char *message)
{
    ngx_uint_t             i;
    ngx_http_hymt_job_t   *job;
    ngx_http_hymt_call_t  *call;

    call = item->call;

    if (!call->each || call->n_items == 1 || status >= 500) {

        if (call->array && status < 500) {
            ngx_http_hymt_fail(call, status, code, "text %lu: %s",
                               (unsigned long) (item - call->items), message);

        } else {
            ngx_http_hymt_fail(call, status, code, "%s", message);
        }

        return;
    }

    item->failure = calloc(1, sizeof(ngx_http_hymt_failure_t));

    if (item->failure == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        return;
    }

    item->failure->status = status;
    item->failure->code = code;
    (void) snprintf(item->failure->message, sizeof(item->failure->message),
                    "%s", message);

    for (i = 0; i < call->n_jobs; i++) {
        job = &call->jobs[i];

        if (job->item == item) {
            ngx_http_hymt_cancel(job);
            job->item = NULL;
            call->running--;
        }
    }

    ngx_http_hymt_item_end(item);
}


/* The runtime's word: a job has its result.  text is the slot's. */
void
ngx_http_hymt_call_done(ngx_http_hymt_job_t *job, const hymt_result_t *result,
    const char *text)
{
    ngx_http_hymt_call_t  *call;
    ngx_http_hymt_item_t  *item;

    call = job->call;
    item = job->item;

    ngx_http_hymt_acquit(job);

    call->running--;

    if (result->coalesced) {
        call->cached.shared = 1;

    } else {
        call->cached.alone = 1;
    }

    item->prompt_tokens += result->prompt_tokens;
    item->completion_tokens += result->completion_tokens;
    item->queue_ns = ngx_max(item->queue_ns, result->queue_ns);
    item->first_ns = ngx_max(item->first_ns, result->first_ns);
    item->total_ns = ngx_max(item->total_ns, result->total_ns);

    ngx_http_hymt_measure(call, result);

    if (result->code != HYMT_RESULT_OK) {
        job->item = NULL;
        ngx_http_hymt_judge(item, result);

    } else if (!hymt_utf8_check(text, result->text_len, NULL)) {
        job->item = NULL;
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "the engine's text is broken");

    } else {
        ngx_http_hymt_cache_store(job, result, text);
        ngx_http_hymt_take(job, result, text);
        job->item = NULL;
    }

    ngx_post_event(&call->run, &ngx_posted_events);
}


static void
ngx_http_hymt_judge(ngx_http_hymt_item_t *item, const hymt_result_t *result)
{
    const char  *error;

    error = result->error;

    switch (result->code) {

    case HYMT_RESULT_BAD_INPUT:
        ngx_http_hymt_item_fail(item, NGX_HTTP_BAD_REQUEST, "invalid_value",
                                error);
        break;

    case HYMT_RESULT_TOO_LONG:
        ngx_http_hymt_item_fail(item, 422, "text_too_long", error);
        break;

    case HYMT_RESULT_TIMEOUT:
        ngx_http_hymt_fail(item->call, NGX_HTTP_GATEWAY_TIME_OUT, "timeout",
                           "not done in time");
        break;

    case HYMT_RESULT_FULL:
        ngx_http_hymt_fail(item->call, NGX_HTTP_TOO_MANY_REQUESTS,
                           "queue_full", "%s", error);
        break;

    default:
        ngx_log_error(NGX_LOG_INFO, item->call->log, 0,
                      "hymt engine says: %s", error);

        ngx_http_hymt_fail(item->call, NGX_HTTP_SERVICE_UNAVAILABLE,
                           "unavailable", "the engine of model \"%s\" has"
                           " failed or is stopping",
                           item->call->model->name.data);
        break;
    }
}


void
ngx_http_hymt_take(ngx_http_hymt_job_t *job, const hymt_result_t *result,
    const char *text)
{
    size_t                 len;
    ngx_http_hymt_call_t  *call;
    ngx_http_hymt_item_t  *item;

    call = job->call;
    item = job->item;
    len = result->text_len;

    /* STOP < LENGTH < LOOP: the worst of the units is the text's */

    if (result->finish == HYMT_FINISH_LENGTH
        || result->finish == HYMT_FINISH_LOOP)
    {
        item->finish = ngx_max(item->finish, result->finish);
    }

    if (item->doc == NULL) {
        len = ngx_http_hymt_stop_at(call, text, len);

        if (len < result->text_len) {
            item->finish = HYMT_FINISH_STOP;
        }

        item->chat = malloc(len + 1);

        if (item->chat == NULL) {
            ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR,
                               "internal", "out of memory");
            return;
        }

        ngx_memcpy(item->chat, text, len);
        item->chat_len = len;

    } else {
        hymt_document_result(item->doc, job->id, text, len,
                             result->finish != HYMT_FINISH_STOP);
    }

    if (!call->stream) {
        return;
    }

    if (!ngx_http_hymt_sent_is_right(item, text, result->text_len)) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "the text changed after a part of it was sent");
        return;
    }

    ngx_http_hymt_send_more(call);
}


/*
 * Where the stop string begins that is the first to be complete, the longest of
 * those; len without one.
 */
static size_t
ngx_http_hymt_stop_at(ngx_http_hymt_call_t *call, const char *text, size_t len)
{
    size_t       n, at, end;
    ngx_uint_t   i;
    const char  *p;

    at = len;
    end = len + 1;

    for (i = 0; i < call->n_stops; i++) {
        n = strlen(call->stops[i]);
        p = memmem(text, len, call->stops[i], n);

        if (p == NULL || (size_t) (p - text) + n > end) {
            continue;
        }

        if ((size_t) (p - text) + n < end || (size_t) (p - text) < at) {
            at = p - text;
            end = at + n;
        }
    }

    return at;
}


/* All items are done. */
void
ngx_http_hymt_finish(ngx_http_hymt_call_t *call)
{
    size_t      size;
    ngx_uint_t  i;

    if (!call->entered) {
        ngx_http_hymt_count_admitted(call);
    }

    ngx_http_hymt_call_end(call);

    if (call->session.len != 0) {
        ngx_http_hymt_session_add(call);
    }

    if (call->stream) {
        ngx_http_hymt_outputs(call);

        if (call->failure.status != 0) {
            ngx_http_hymt_answer_failure(call, &call->failure);
            return;
        }

        ngx_http_hymt_send_rest(call);
        ngx_http_hymt_stream_end(call);
        return;
    }

    /* 4 characters a token is much */

    size = call->body_len;

    for (i = 0; i < call->n_items; i++) {
        size += 4 * call->items[i].completion_tokens;
    }

    if (ngx_http_hymt_call_work(call, size, ngx_http_hymt_outputs,
                                ngx_http_hymt_rendered)
        != NGX_OK)
    {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "can't start a task");
        ngx_http_hymt_answer_failure(call, &call->failure);
    }
}


/* Documents become texts, texts an answer; on any thread. */
static void
ngx_http_hymt_outputs(ngx_http_hymt_call_t *call)
{
    ngx_uint_t             i;
    ngx_http_hymt_item_t  *item;

    for (i = 0; i < call->n_items; i++) {
        item = &call->items[i];

        if (item->failure != NULL) {
            continue;
        }

        if (item->finish == 0) {
            item->finish = HYMT_FINISH_STOP;
        }

        if (item->as_is) {
            item->out = item->text;
            item->out_len = item->len;

        } else if (item->doc == NULL) {
            item->out = item->chat;
            item->out_len = item->chat_len;

        } else if (hymt_document_output(item->doc, &item->out, &item->out_len)
                   != HYMT_OK)
        {
            ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR,
                               "internal", "out of memory");
            return;
        }
    }

    if (!call->stream) {
        call->endpoint->render(call);
    }
}


static void
ngx_http_hymt_rendered(ngx_http_hymt_call_t *call)
{
    if (call->failure.status != 0) {
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    ngx_http_hymt_answer(call);
}
