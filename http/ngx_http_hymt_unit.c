
/*
 * Copyright (C) the hymt authors
 */


/*
 * A unit of a text on its way to the engine: the next that a document has, as a
 * job.
 */


#include "ngx_http_hymt.h"

#include "job_parts.h"


/* terms times units that are looked at before a request is let in */
#define NGX_HTTP_HYMT_SEARCHES  10000


static void ngx_http_hymt_ask_stops(ngx_http_hymt_call_t *call,
    hymt_job_t *params, char *buf);
static void ngx_http_hymt_estimate_unit(const hymt_unit_t *unit, void *data);
static ngx_int_t ngx_http_hymt_hand_out(ngx_http_hymt_job_t *job,
    const hymt_job_t *params);
static char *ngx_http_hymt_unit_terms(ngx_http_hymt_call_t *call,
    const hymt_unit_t *unit, uint32_t *len);


/*
 * Before anything is tokenised: a token for three bytes, between the four of
 * English and the three, or less, of Chinese; of all that goes into the prompts
 * and, for each, the family's own words.
 */
void
ngx_http_hymt_estimate(ngx_http_hymt_call_t *call)
{
    ngx_uint_t             i;
    ngx_http_hymt_item_t  *item;

    if (call->model->queue_tokens == 0) {
        return;
    }

    for (i = 0; i < call->n_items; i++) {
        item = &call->items[i];

        if (item->as_is) {
            continue;
        }

        if (item->doc == NULL) {
            call->tokens += item->len / 3 + 1;
            continue;
        }

        hymt_document_waiting(item->doc, ngx_http_hymt_estimate_unit, call);
    }
}


static void
ngx_http_hymt_estimate_unit(const hymt_unit_t *unit, void *data)
{
    ngx_http_hymt_call_t *call = data;

    char        *terms;
    size_t       bytes;
    uint32_t     len;
    ngx_uint_t   searched;

    if (call->tokens > (ngx_uint_t) call->model->queue_tokens) {
        return;
    }

    /* looking for them all in every unit would take long; so the mean does */

    searched = NGX_HTTP_HYMT_SEARCHES / ngx_max(call->n_terms, 1);
    searched = ngx_max(searched, 1);

    if (call->n_units < searched) {
        terms = ngx_http_hymt_unit_terms(call, unit, &len);
        free(terms);

        call->terms_len += len;

    } else {
        len = (uint32_t) (call->terms_len / searched);
    }

    bytes = unit->len + len + call->job.part_len[HYMT_PART_STYLE]
            + (call->job.part[HYMT_PART_CONTEXT] != NULL
               ? call->job.part_len[HYMT_PART_CONTEXT] : unit->context_len);

    call->tokens += call->model->frame + bytes / 3 + 1;
    call->n_units++;
}


ngx_http_hymt_job_t *
ngx_http_hymt_free_job(ngx_http_hymt_call_t *call)
{
    ngx_uint_t            i;
    ngx_http_hymt_job_t  *job;

    for (i = 0; i < call->n_jobs; i++) {
        if (call->jobs[i].item == NULL) {
            return &call->jobs[i];
        }
    }

    job = &call->jobs[call->n_jobs++];

    ngx_memzero(job, sizeof(ngx_http_hymt_job_t));
    job->call = call;

    return job;
}


/*
 * NGX_OK; NGX_AGAIN: none until results are in; NGX_DONE: the item has just
 * ended; NGX_DECLINED: it had ended before.
 */
ngx_int_t
ngx_http_hymt_next_unit(ngx_http_hymt_call_t *call, ngx_http_hymt_item_t *item,
    hymt_unit_t *unit)
{
    if (item->done) {
        return NGX_DECLINED;
    }

    if (item->doc != NULL) {

        switch (hymt_document_next(item->doc, unit)) {

        case HYMT_OK:
            return NGX_OK;

        case HYMT_AGAIN:
            return NGX_AGAIN;

        default:
            return NGX_DONE;
        }
    }

    if (item->chat != NULL || item->as_is) {
        return NGX_DONE;
    }

    if (item->asked) {
        return NGX_AGAIN;
    }

    ngx_memzero(unit, sizeof(hymt_unit_t));

    unit->text = item->text;
    unit->len = item->len;
    item->asked = 1;

    return NGX_OK;
}


/*
 * NGX_DONE: the cache had it, the item has its result.  Else as
 * ngx_http_hymt_submit(), or NGX_ERROR with a failure.
 */
ngx_int_t
ngx_http_hymt_ask(ngx_http_hymt_job_t *job, const hymt_unit_t *unit)
{
    char                  *terms, stops[HYMT_STOPS_BYTES];
    ngx_int_t              rc;
    hymt_job_t             params;
    ngx_http_hymt_call_t  *call;
    ngx_http_hymt_item_t  *item;

    call = job->call;
    item = job->item;

    params = call->job;
    params.src = item->src;
    params.sampling = item->sampling;
    params.sampling.index = (uint32_t) (item - call->items) << 16
                            | (unit->id & 0xffff);
    params.deadline_ns = call->deadline;

    if (unit->attempt) {
        hymt_sampling_again(&params.sampling, unit->attempt);
    }

    if (call->stream
        && (item->doc == NULL || hymt_document_plain(item->doc)))
    {
        params.flags |= HYMT_JOB_STREAM;
    }

    if (call->chat) {
        params.part[HYMT_PART_CHAT] = unit->text;
        params.part_len[HYMT_PART_CHAT] = unit->len;

        ngx_http_hymt_ask_stops(call, &params, stops);

        return ngx_http_hymt_hand_out(job, &params);
    }

    if (unit->tagged) {
        params.flags |= HYMT_JOB_FORMATTED;
    }

    params.part[HYMT_PART_TEXT] = unit->text;
    params.part_len[HYMT_PART_TEXT] = unit->len;

    if (params.part[HYMT_PART_CONTEXT] == NULL && unit->context != NULL) {
        params.part[HYMT_PART_CONTEXT] = unit->context;
        params.part_len[HYMT_PART_CONTEXT] = unit->context_len;
    }

    terms = ngx_http_hymt_unit_terms(call, unit,
                                     &params.part_len[HYMT_PART_TERMS]);
    params.part[HYMT_PART_TERMS] = terms;

    rc = ngx_http_hymt_hand_out(job, &params);

    free(terms);

    return rc;
}


static ngx_int_t
ngx_http_hymt_hand_out(ngx_http_hymt_job_t *job, const hymt_job_t *params)
{
    ngx_int_t              rc;
    const char            *text;
    hymt_result_t          result;
    ngx_http_hymt_item_t  *item;

    item = job->item;

    if (ngx_http_hymt_cache_find(job, params, &result, &text) == NGX_OK) {
        item->prompt_tokens += result.prompt_tokens;
        item->completion_tokens += result.completion_tokens;

        ngx_http_hymt_take(job, &result, text);

        return NGX_DONE;
    }

    if (ngx_http_hymt_enter(job->call) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = ngx_http_hymt_submit(job, params);

    if (rc == NGX_OK) {
        ngx_http_hymt_cache_missed(job);
    }

    return rc;
}


/*
 * Stop strings end the engine's work early; what is left of them in the text is
 * cut here in any case, so those that don't fit may stay behind.
 */
static void
ngx_http_hymt_ask_stops(ngx_http_hymt_call_t *call, hymt_job_t *params,
    char *buf)
{
    size_t      len, n, room;
    ngx_uint_t  i;

    room = call->model->exchange.params.in_bytes;
    room -= ngx_min(room, params->part_len[HYMT_PART_CHAT]);
    room = ngx_min(room, HYMT_STOPS_BYTES);
    len = 0;

    for (i = 0; i < ngx_min(call->n_stops, HYMT_MAX_STOPS); i++) {
        n = ngx_strlen(call->stops[i]) + 1;

        if (n > room - len) {
            continue;
        }

        ngx_memcpy(buf + len, call->stops[i], n);
        len += n;
    }

    params->part[HYMT_PART_STOPS] = buf;
    params->part_len[HYMT_PART_STOPS] = (uint32_t) len;
}


/*
 * "source TAB target" lines of the terms that the unit holds; NULL without any.
 * A unit is small, and so are the terms of a request.
 */
static char *
ngx_http_hymt_unit_terms(ngx_http_hymt_call_t *call, const hymt_unit_t *unit,
    uint32_t *len)
{
    ngx_uint_t             i;
    ngx_http_hymt_term_t  *term;
    ngx_http_hymt_text_t   out;

    ngx_memzero(&out, sizeof(ngx_http_hymt_text_t));

    for (i = 0; i < call->n_terms; i++) {
        term = &call->terms[i];

        if (memmem(unit->text, unit->len, term->source, strlen(term->source))
            == NULL)
        {
            continue;
        }

        ngx_http_hymt_append(&out, term->source, strlen(term->source));
        ngx_http_hymt_append(&out, "\t", 1);
        ngx_http_hymt_append(&out, term->target, strlen(term->target));
        ngx_http_hymt_append(&out, "\n", 1);
    }

    if (call->glossary != NULL) {
        ngx_http_hymt_glossary_terms(call, unit->text, unit->len, &out);
    }

    if (out.failed) {

        /* better without terms than not at all: memory is short anyway */

        free(out.data);
        out.data = NULL;
        out.len = 0;
    }

    *len = out.len;

    return out.data;
}


void
ngx_http_hymt_take_back(ngx_http_hymt_job_t *job)
{
    if (job->item->doc != NULL) {
        hymt_document_return(job->item->doc, job->id);

    } else {
        job->item->asked = 0;
    }

    job->item = NULL;
}
