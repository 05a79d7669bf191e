
/*
 * Copyright (C) the hymt authors
 */


/*
 * What becomes of calls when the engine's process dies, or its engine fails for
 * good: their units are submitted once more, to the next one.
 *
 * Whatever was being computed may have been the cause: those units are suspects
 * and, of each worker, one at a time is in the engine, so that a guilty one
 * takes none of the others along.  A unit that was being computed at two ends
 * is not tried again.  Those that only waited are no suspects.
 */


#include "ngx_http_hymt.h"


static ngx_uint_t ngx_http_hymt_forsake(ngx_http_hymt_job_t *job);
static void ngx_http_hymt_accuse(ngx_http_hymt_job_t *job);
static ngx_http_hymt_suspect_t *ngx_http_hymt_find_suspect(
    ngx_http_hymt_job_t *job);
static void ngx_http_hymt_again(ngx_http_hymt_call_t *call, ngx_uint_t sent);


/* The engine's process died and took this call's jobs along. */
void
ngx_http_hymt_call_lost(ngx_http_hymt_call_t *call)
{
    ngx_uint_t  i, sent;

    if (call->running == 0) {
        return;
    }

    sent = 0;

    for (i = 0; i < call->n_jobs; i++) {
        if (call->jobs[i].item != NULL) {
            sent |= ngx_http_hymt_forsake(&call->jobs[i]);
        }
    }

    ngx_http_hymt_again(call, sent);
}


/* An engine that has failed, or is stopping, gives a job back. */
void
ngx_http_hymt_job_lost(ngx_http_hymt_job_t *job)
{
    ngx_http_hymt_again(job->call, ngx_http_hymt_forsake(job));
}


/* True: it has sent text, which it can't take back. */
static ngx_uint_t
ngx_http_hymt_forsake(ngx_http_hymt_job_t *job)
{
    ngx_uint_t             sent;
    ngx_http_hymt_item_t  *item;

    item = job->item;

    sent = item->sent
           && (item->doc == NULL || hymt_document_plain(item->doc));

    if (ngx_http_hymt_started(job)) {
        ngx_http_hymt_accuse(job);
    }

    ngx_http_hymt_job_over(job);
    ngx_http_hymt_take_back(job);

    job->call->running--;

    return sent;
}


static void
ngx_http_hymt_accuse(ngx_http_hymt_job_t *job)
{
    ngx_http_hymt_call_t     *call;
    ngx_http_hymt_suspect_t  *suspect;

    call = job->call;

    if (ngx_http_hymt_find_suspect(job) != NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "the engine failed twice with this request");
        return;
    }

    if (call->suspects == NULL) {
        call->suspects = calloc(call->conf->window,
                                sizeof(ngx_http_hymt_suspect_t));
    }

    /*
     * Suspects are handed out again before anything else, so there are never
     * more than jobs; without memory it goes on unwatched.
     */

    if (call->suspects == NULL
        || call->n_suspects == (ngx_uint_t) call->conf->window)
    {
        return;
    }

    suspect = &call->suspects[call->n_suspects++];
    suspect->item = job->item;
    suspect->id = job->id;
}


static ngx_http_hymt_suspect_t *
ngx_http_hymt_find_suspect(ngx_http_hymt_job_t *job)
{
    ngx_uint_t             i;
    ngx_http_hymt_call_t  *call;

    call = job->call;

    for (i = 0; i < call->n_suspects; i++) {
        if (call->suspects[i].item == job->item
            && call->suspects[i].id == job->id)
        {
            return &call->suspects[i];
        }
    }

    return NULL;
}


static void
ngx_http_hymt_again(ngx_http_hymt_call_t *call, ngx_uint_t sent)
{
    if (sent) {
        ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "unavailable",
                           "the engine was restarted");

    } else if (ngx_http_hymt_leaves()) {

        /* this process goes with its engine and sees no other */

        ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "unavailable",
                           "the engine of model \"%s\" has failed",
                           call->model->name.data);

    } else if (call->running == 0 && call->failure.status == 0) {
        ngx_http_hymt_count_resubmitted(call);
    }

    ngx_post_event(&call->run, &ngx_posted_events);
}


/* Whether a job may go to the engine now, or waits for another suspect. */
ngx_uint_t
ngx_http_hymt_may_run(ngx_http_hymt_job_t *job)
{
    ngx_http_hymt_call_t  *call;

    call = job->call;

    job->suspect = (ngx_http_hymt_find_suspect(job) != NULL);
    call->waits = (job->suspect && call->model->suspect != NULL);

    return !call->waits;
}


/* It went in. */
void
ngx_http_hymt_job_runs(ngx_http_hymt_job_t *job)
{
    if (job->suspect) {
        job->call->model->suspect = job;
    }
}


/* It came back, or nobody wants it any more: the next suspect may go in. */
void
ngx_http_hymt_job_over(ngx_http_hymt_job_t *job)
{
    if (job->call->model->suspect == job) {
        job->call->model->suspect = NULL;
        ngx_http_hymt_serve_line(job->call->model);
    }
}


/* It has a result: nothing is to be said against it. */
void
ngx_http_hymt_acquit(ngx_http_hymt_job_t *job)
{
    ngx_http_hymt_call_t     *call;
    ngx_http_hymt_suspect_t  *suspect;

    call = job->call;

    ngx_http_hymt_job_over(job);

    suspect = ngx_http_hymt_find_suspect(job);

    if (suspect != NULL) {
        *suspect = call->suspects[--call->n_suspects];
    }
}
