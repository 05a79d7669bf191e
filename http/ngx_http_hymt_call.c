
/*
 * Copyright (C) the hymt authors
 */


/*
 * A call: the texts of one request on their way through the engine.  Each is a
 * document that hands out units; a window of them is submitted, the others wait
 * here, in the worker's memory, and follow as results come.
 */


#include "ngx_http_hymt.h"

#include "job_parts.h"


#if (NGX_THREADS)

typedef struct {
    ngx_http_hymt_call_t   *call;
    ngx_http_hymt_work_pt   work;
    ngx_http_hymt_work_pt   then;
} ngx_http_hymt_task_t;


static void ngx_http_hymt_task_thread(void *data, ngx_log_t *log);
static void ngx_http_hymt_task_done(ngx_event_t *ev);

#endif

static ngx_http_hymt_job_t *ngx_http_hymt_free_job(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_next_unit(ngx_http_hymt_call_t *call,
    ngx_http_hymt_item_t *item, hymt_unit_t *unit);
static ngx_int_t ngx_http_hymt_ask(ngx_http_hymt_job_t *job,
    const hymt_unit_t *unit);
static void ngx_http_hymt_ask_stops(ngx_http_hymt_call_t *call,
    hymt_job_t *params, char *buf);
static ngx_int_t ngx_http_hymt_hand_out(ngx_http_hymt_job_t *job,
    const hymt_job_t *params);
static ngx_int_t ngx_http_hymt_enter(ngx_http_hymt_call_t *call);
static ngx_int_t ngx_http_hymt_check_queue(ngx_http_hymt_call_t *call);
static char *ngx_http_hymt_unit_terms(ngx_http_hymt_call_t *call,
    const hymt_unit_t *unit, uint32_t *len);
static void ngx_http_hymt_item_end(ngx_http_hymt_item_t *item);
static void ngx_http_hymt_item_fail(ngx_http_hymt_item_t *item,
    ngx_uint_t status, const char *code, const char *message);
static void ngx_http_hymt_judge(ngx_http_hymt_item_t *item,
    const hymt_result_t *result);
static void ngx_http_hymt_take(ngx_http_hymt_job_t *job,
    const hymt_result_t *result, const char *text);
static size_t ngx_http_hymt_stop_at(ngx_http_hymt_call_t *call,
    const char *text, size_t len);
static void ngx_http_hymt_finish(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_outputs(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_rendered(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_call_timeout(ngx_event_t *ev);
static void ngx_http_hymt_call_run_event(ngx_event_t *ev);
static void ngx_http_hymt_call_end(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_call_cleanup(void *data);
static void ngx_http_hymt_call_free(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_release(ngx_http_hymt_call_t *call);


ngx_http_hymt_call_t *
ngx_http_hymt_call_create(ngx_http_request_t *r)
{
    ngx_http_cleanup_t         *cln;
    ngx_http_hymt_ctx_t        *ctx;
    ngx_http_hymt_call_t       *call;
    ngx_http_hymt_loc_conf_t   *hlcf;
    ngx_http_hymt_main_conf_t  *hmcf;

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NULL;
    }

    ctx = ngx_pcalloc(r->pool, sizeof(ngx_http_hymt_ctx_t));
    if (ctx == NULL) {
        return NULL;
    }

    call = ngx_calloc(sizeof(ngx_http_hymt_call_t), r->connection->log);
    if (call == NULL) {
        return NULL;
    }

    hlcf = ngx_http_get_module_loc_conf(r, ngx_http_hymt_module);

    hmcf = ngx_http_get_module_main_conf(r, ngx_http_hymt_module);

    call->r = r;
    call->conf = hlcf;
    call->pool = hmcf->pool;
    call->model = hlcf->model;
    call->ctx = ctx;

    while (call->api < NGX_HTTP_HYMT_MAX_APIS - 1
           && ngx_http_hymt_apis[call->api] != hlcf->api)
    {
        call->api++;
    }

    ctx->call = call;
    ctx->model = hlcf->model;
    ctx->src = HYMT_LANG_NONE;
    ctx->tgt = HYMT_LANG_NONE;
    call->log = r->connection->log;

    call->timer.handler = ngx_http_hymt_call_timeout;
    call->timer.data = r->connection;
    call->timer.log = r->connection->log;

    call->begin.data = r->connection;
    call->begin.log = r->connection->log;

    call->run.handler = ngx_http_hymt_call_run_event;
    call->run.data = r->connection;
    call->run.log = r->connection->log;

    cln->handler = ngx_http_hymt_call_cleanup;
    cln->data = call;

    return call;
}


/*
 * NGX_OK; NGX_DECLINED: hymt_buffers are full; NGX_ERROR: no memory.  Grows
 * with what has come, not with what Content-Length says will.
 */
ngx_int_t
ngx_http_hymt_call_append(ngx_http_hymt_call_t *call, u_char *data, size_t len)
{
    char    *body;
    size_t   cap;

    if (len > call->body_cap - call->body_len) {
        cap = ngx_max(2 * call->body_cap, call->body_len + len);
        cap = ngx_max(cap, 1024);

        if (ngx_http_hymt_charge(call, cap - call->body_cap) != NGX_OK) {
            return NGX_DECLINED;
        }

        body = realloc(call->body, cap);
        if (body == NULL) {
            return NGX_ERROR;
        }

        call->body = body;
        call->body_cap = cap;
    }

    ngx_memcpy(call->body + call->body_len, data, len);
    call->body_len += len;

    ngx_http_hymt_turn_take(len);

    return NGX_OK;
}


/*
 * Does work(call) here, or, where it is about more than a few kilobytes, on a
 * thread of the pool; then(call) follows on the event loop.
 */
ngx_int_t
ngx_http_hymt_call_work(ngx_http_hymt_call_t *call, size_t size,
    ngx_http_hymt_work_pt work, ngx_http_hymt_work_pt then)
{
#if (NGX_THREADS)
    ngx_thread_task_t     *task;
    ngx_http_hymt_task_t  *ctx;

    if (size > NGX_HTTP_HYMT_INLINE && call->pool != NULL) {

        /* malloc'ed: it may outlive the request and its pool */

        task = ngx_calloc(sizeof(ngx_thread_task_t)
                          + sizeof(ngx_http_hymt_task_t), call->log);
        if (task == NULL) {
            return NGX_ERROR;
        }

        ctx = (ngx_http_hymt_task_t *) (task + 1);
        ctx->call = call;
        ctx->work = work;
        ctx->then = then;

        task->ctx = ctx;
        task->handler = ngx_http_hymt_task_thread;
        task->event.handler = ngx_http_hymt_task_done;
        task->event.data = task;

        if (ngx_thread_task_post(call->pool, task) != NGX_OK) {
            ngx_free(task);
            return NGX_ERROR;
        }

        if (then != NULL) {
            call->busy = 1;
        }

        return NGX_OK;
    }
#endif

    work(call);

    if (then != NULL) {
        then(call);
    }

    return NGX_OK;
}


#if (NGX_THREADS)

static void
ngx_http_hymt_task_thread(void *data, ngx_log_t *log)
{
    ngx_http_hymt_task_t *ctx = data;

    ctx->work(ctx->call);
}


static void
ngx_http_hymt_task_done(ngx_event_t *ev)
{
    ngx_connection_t       *c;
    ngx_thread_task_t      *task;
    ngx_http_hymt_call_t   *call;
    ngx_http_hymt_task_t   *ctx;
    ngx_http_hymt_work_pt   then;

    task = ev->data;
    ctx = task->ctx;
    call = ctx->call;
    then = ctx->then;

    ngx_free(task);

    if (then == NULL) {
        return;
    }

    call->busy = 0;

    if (call->r == NULL) {
        ngx_http_hymt_call_free(call);
        return;
    }

    if (call->answered) {
        /* the timeout was faster */
        return;
    }

    c = call->r->connection;

    ngx_http_set_log_request(c->log, call->r);

    then(call);

    ngx_http_run_posted_requests(c);
}

#endif


void
ngx_http_hymt_call_start(ngx_http_hymt_call_t *call)
{
    ngx_msec_t                 wait;
    hymt_host_info_t           info;
    ngx_http_hymt_loc_conf_t  *hlcf;

    hlcf = call->conf;
    wait = hlcf->timeout;

    /* kept when the engine dies and the units are submitted again */

    call->job.sampling.seed = (uint64_t) ngx_random() << 32
                              ^ (uint64_t) ngx_random();
    call->cached.drawn = call->job.sampling.seed;

    call->start = ngx_current_msec;
    call->start_ns = hymt_now_ns();
    call->deadline = call->start_ns + (uint64_t) wait * 1000000;

    if (call->endpoint->engine
        && ngx_http_hymt_engine_info(call->model, &info)
        && info.state != HYMT_HOST_READY && hlcf->loading_wait < wait)
    {
        wait = hlcf->loading_wait;
        call->loading = 1;
    }

    /* not cancelable: it also keeps a worker that is to leave */

    ngx_add_timer(&call->timer, ngx_max(wait, 1));
}


/*
 * Parsed and checked: in, or 429.  Afterwards the call is the engine's until
 * its last item is done.  One whose results may be in the cache asks the engine
 * for nothing until it needs one that is not.
 */
void
ngx_http_hymt_call_admit(ngx_http_hymt_call_t *call)
{
    size_t      need;
    ngx_uint_t  i;

    if (!call->cached.reads && ngx_http_hymt_check_queue(call) != NGX_OK) {
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    if (call->session != NULL
        && ngx_http_hymt_session_context(call) != NGX_OK)
    {
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    /* parameters grow with the body, documents and answers with the texts */

    need = 2 * call->body_len + call->n_items * sizeof(ngx_http_hymt_item_t)
           + call->conf->window * sizeof(ngx_http_hymt_job_t);

    for (i = 0; i < call->n_items; i++) {
        need += 2 * call->items[i].len;
    }

    if (ngx_http_hymt_charge(call, need) != NGX_OK) {
        ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "buffers_full",
                           "the buffers of this worker are full");
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    call->jobs = calloc(call->conf->window, sizeof(ngx_http_hymt_job_t));

    if (call->jobs == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    for (i = 0; i < (ngx_uint_t) call->conf->window; i++) {
        call->jobs[i].call = call;
    }

    if (call->stream && ngx_http_hymt_stream_create(call) != NGX_OK) {
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    if (!call->cached.reads && ngx_http_hymt_enter(call) != NGX_OK) {
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    ngx_http_hymt_call_run(call);
}


/* From now on it may ask the engine. */
static ngx_int_t
ngx_http_hymt_enter(ngx_http_hymt_call_t *call)
{
    hymt_host_info_t  info;

    if (call->entered) {
        return NGX_OK;
    }

    /* the others were asked before their bodies were read */

    if (call->cached.reads
        && (ngx_http_hymt_check_model(call) != NGX_OK
            || ngx_http_hymt_check_queue(call) != NGX_OK))
    {
        return NGX_ERROR;
    }

    call->entered = 1;

    ngx_http_hymt_count_admitted(call);

    ngx_http_hymt_enlist(call);

    /* while a thread parsed it nobody told it that the model has loaded */

    if (call->loading && ngx_http_hymt_engine_info(call->model, &info)
        && info.state == HYMT_HOST_READY)
    {
        ngx_http_hymt_call_loaded(call);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_check_queue(ngx_http_hymt_call_t *call)
{
    if (ngx_http_hymt_in_flight(call->model)
        < (uint32_t) call->model->queue)
    {
        return NGX_OK;
    }

    ngx_http_hymt_fail(call, NGX_HTTP_TOO_MANY_REQUESTS, "queue_full",
                       "the queue of model \"%s\" is full",
                       call->model->name.data);

    return NGX_ERROR;
}


/* From now on it has its hymt_timeout. */
void
ngx_http_hymt_call_loaded(ngx_http_hymt_call_t *call)
{
    ngx_msec_t  spent;

    call->loading = 0;
    spent = ngx_current_msec - call->start;

    ngx_add_timer(&call->timer, call->conf->timeout > spent
                                ? call->conf->timeout - spent : 1);
}


/*
 * Fills the window with units, item by item in order; ends the call when
 * nothing is left.
 */
void
ngx_http_hymt_call_run(ngx_http_hymt_call_t *call)
{
    ngx_int_t              rc;
    ngx_uint_t             i;
    hymt_unit_t            unit;
    ngx_http_hymt_job_t   *job;
    ngx_http_hymt_item_t  *item;

    if (ngx_http_hymt_stream_failed(call)) {
        ngx_http_finalize_request(call->r, NGX_ERROR);
        return;
    }

    i = call->first;

    while (call->failure.status == 0 && i < call->n_items
           && call->running < (ngx_uint_t) call->conf->window)
    {
        item = &call->items[i];

        rc = ngx_http_hymt_next_unit(call, item, &unit);

        if (rc == NGX_DONE) {
            ngx_http_hymt_item_end(item);
        }

        if (rc == NGX_DONE || rc == NGX_DECLINED) {

            while (call->first < call->n_items
                   && call->items[call->first].done)
            {
                call->first++;
            }

            i++;
            continue;
        }

        if (rc == NGX_AGAIN) {
            i++;
            continue;
        }

        job = ngx_http_hymt_free_job(call);
        job->item = item;
        job->id = unit.id;

        rc = ngx_http_hymt_ask(job, &unit);

        if (rc == NGX_OK) {
            call->running++;
            continue;
        }

        if (rc == NGX_DONE) {
            job->item = NULL;

            /* a document may be in the cache as a whole: others first */

            if (ngx_http_hymt_turn_spent()) {
                ngx_post_event(&call->run, &ngx_posted_next_events);
                break;
            }

            continue;
        }

        ngx_http_hymt_take_back(job);

        if (call->failure.status != 0) {
            break;
        }

        if (rc == NGX_AGAIN) {
            ngx_http_hymt_line_up(call);
            break;
        }

        if (rc == NGX_DECLINED) {
            (void) snprintf(call->scratch, sizeof(call->scratch),
                            "a text of %lu bytes; model \"%s\" with its"
                            " context of %ld tokens takes at most %ld: split"
                            " it", (unsigned long) unit.len,
                            call->model->name.data,
                            (long) call->model->context,
                            (long) call->model->exchange.params.in_bytes);

            ngx_http_hymt_item_fail(item, 422, "text_too_long",
                                    call->scratch);
            continue;
        }

        ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "unavailable",
                           "this worker has no engine");
    }

    if (call->failure.status != 0) {
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    if (call->done == call->n_items) {
        ngx_http_hymt_finish(call);
    }
}


static ngx_http_hymt_job_t *
ngx_http_hymt_free_job(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_job_t  *job;

    for (job = call->jobs; job->item != NULL; job++) { /* void */ }

    return job;
}


/*
 * NGX_OK; NGX_AGAIN: none until results are in; NGX_DONE: the item has just
 * ended; NGX_DECLINED: it had ended before.
 */
static ngx_int_t
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
static ngx_int_t
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


static void
ngx_http_hymt_item_end(ngx_http_hymt_item_t *item)
{
    if (!item->done) {
        item->done = 1;
        item->call->done++;
    }
}


/* One text's failure: its own where the API tells of each, else the call's. */
static void
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

    for (i = 0; i < (ngx_uint_t) call->conf->window; i++) {
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


static void
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
static void
ngx_http_hymt_finish(ngx_http_hymt_call_t *call)
{
    size_t      size;
    ngx_uint_t  i;

    if (!call->entered) {
        ngx_http_hymt_count_admitted(call);
    }

    ngx_http_hymt_call_end(call);

    if (call->session != NULL) {
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


static void
ngx_http_hymt_call_timeout(ngx_event_t *ev)
{
    ngx_connection_t         *c;
    ngx_http_hymt_call_t     *call;
    ngx_http_hymt_failure_t   f;

    call = (ngx_http_hymt_call_t *)
               ((u_char *) ev - offsetof(ngx_http_hymt_call_t, timer));

    c = call->r->connection;

    ngx_http_set_log_request(c->log, call->r);

    /* a task may be writing call->failure: this one is of its own */

    f.param[0] = '\0';

    if (call->loading) {
        f.status = NGX_HTTP_SERVICE_UNAVAILABLE;
        f.code = "loading";
        (void) snprintf(f.message, sizeof(f.message),
                        "model \"%s\" is still loading",
                        call->model->name.data);

    } else {
        f.status = NGX_HTTP_GATEWAY_TIME_OUT;
        f.code = "timeout";
        (void) snprintf(f.message, sizeof(f.message), "not done within %lu ms",
                        (unsigned long) call->conf->timeout);
    }

    ngx_http_hymt_answer_failure(call, &f);

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_hymt_call_run_event(ngx_event_t *ev)
{
    ngx_connection_t      *c;
    ngx_http_hymt_call_t  *call;

    call = (ngx_http_hymt_call_t *)
               ((u_char *) ev - offsetof(ngx_http_hymt_call_t, run));

    if (ngx_http_hymt_turn_spent()) {
        ngx_post_event(&call->run, &ngx_posted_next_events);
        return;
    }

    ngx_http_hymt_turn_take(NGX_HTTP_HYMT_A_RUN);

    c = call->r->connection;

    ngx_http_set_log_request(c->log, call->r);

    ngx_http_hymt_call_run(call);

    ngx_http_run_posted_requests(c);
}


/* The engine has nothing more to do with the call. */
static void
ngx_http_hymt_call_end(ngx_http_hymt_call_t *call)
{
    ngx_uint_t  i;

    call->ended = 1;

    for (i = 0; call->running && i < (ngx_uint_t) call->conf->window; i++) {
        if (call->jobs[i].item != NULL) {
            ngx_http_hymt_cancel(&call->jobs[i]);
            call->jobs[i].item = NULL;
            call->running--;
        }
    }

    ngx_http_hymt_delist(call);

    if (call->begin.posted) {
        ngx_delete_posted_event(&call->begin);
    }

    if (call->run.posted) {
        ngx_delete_posted_event(&call->run);
        ngx_http_hymt_pass_on();
    }
}


/*
 * The answer begins.  The timer has run until now, during a task in another
 * thread too, so that a worker which is to leave waits for it.
 */
void
ngx_http_hymt_call_close(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_call_end(call);

    call->answered = 1;

    ngx_http_hymt_stream_close(call);

    if (call->timer.timer_set) {
        ngx_del_timer(&call->timer);
    }
}


/*
 * The request is over, one way or another.  Runs before the access log, and
 * before the pool is destroyed.
 */
static void
ngx_http_hymt_call_cleanup(void *data)
{
    ngx_http_hymt_call_t *call = data;

    ngx_http_hymt_count_gone(call);

    ngx_http_hymt_call_close(call);

    call->ctx->call = NULL;
    call->ctx = NULL;
    call->r = NULL;
    call->log = ngx_cycle->log;

    if (!call->busy) {
        ngx_http_hymt_call_free(call);
    }
}


static void
ngx_http_hymt_call_free(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_discharge(call);

    /* a large body may have become very many small pieces */

    if (ngx_http_hymt_call_work(call, call->body_len, ngx_http_hymt_release,
                                NULL)
        != NGX_OK)
    {
        ngx_http_hymt_release(call);
    }
}


/* On any thread. */
static void
ngx_http_hymt_release(ngx_http_hymt_call_t *call)
{
    ngx_uint_t  i;

    for (i = 0; i < call->n_items; i++) {
        hymt_document_free(call->items[i].doc);
        free(call->items[i].chat);
        free(call->items[i].failure);
    }

    json_decref(call->root);
    hymt_glossary_unref(call->glossary);

    free(call->items);
    free(call->jobs);
    free(call->suspects);
    free(call->terms);
    free(call->stops);
    free(call->data);
    free(call->args.data);
    free(call->part);
    free(call->owner);
    free(call->session_text);
    free(call->boundary);
    free(call->body);
    free(call->answer);
    ngx_free(call);
}
