
/*
 * Copyright (C) the hymt authors
 */


/*
 * A call: the texts of one request on their way through the engine.  Each is a
 * document that hands out units; a window of them is submitted, the others wait
 * here, in the worker's memory, and follow as results come.
 */


#include "ngx_http_hymt.h"


#if (NGX_THREADS)

typedef struct {
    ngx_http_hymt_call_t   *call;
    ngx_http_hymt_work_pt   work;
    ngx_http_hymt_work_pt   then;
} ngx_http_hymt_task_t;


static void ngx_http_hymt_task_thread(void *data, ngx_log_t *log);
static void ngx_http_hymt_task_done(ngx_event_t *ev);

#endif

static ngx_int_t ngx_http_hymt_check_queue(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_call_timeout(ngx_event_t *ev);
static void ngx_http_hymt_call_run_event(ngx_event_t *ev);
static void ngx_http_hymt_call_cleanup(void *data);
static void ngx_http_hymt_call_free(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_release(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_empty(ngx_http_hymt_call_t *call);


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

    call = ngx_http_hymt_call_get(r->connection->log);
    if (call == NULL) {
        return NULL;
    }

    ngx_memzero(call, offsetof(ngx_http_hymt_call_t, failure.message));

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


/* The connection may linger for the rest of it: nobody wants what has come. */
void
ngx_http_hymt_call_drop_body(ngx_http_hymt_call_t *call)
{
    free(call->body);

    call->body = NULL;
    call->body_len = 0;
    call->body_cap = 0;

    ngx_http_hymt_discharge(call);
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

    ngx_http_hymt_turn_begin();

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

    if (call->endpoint->engine && !ngx_http_hymt_ready(call->model)
        && hlcf->loading_wait < wait)
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

    if (call->session.len != 0
        && ngx_http_hymt_session_context(call) != NGX_OK)
    {
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    if (!call->cached.reads && ngx_http_hymt_check_queue(call) != NGX_OK) {
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    /* parameters grow with the body, documents and answers with the texts */

    need = 2 * call->body_len + call->n_items * sizeof(ngx_http_hymt_item_t)
           + call->conf->window * sizeof(ngx_http_hymt_job_t);

    for (i = 0; i < call->n_items; i++) {
        need += 2 * call->items[i].len;

        if (call->items[i].doc != NULL) {
            need += hymt_document_memory(call->items[i].doc);
        }
    }

    if (ngx_http_hymt_charge(call, need) != NGX_OK) {
        ngx_http_hymt_fail_buffers(call);
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    call->jobs = malloc(call->conf->window * sizeof(ngx_http_hymt_job_t));

    if (call->jobs == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
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
ngx_int_t
ngx_http_hymt_enter(ngx_http_hymt_call_t *call)
{
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

    if (call->loading && ngx_http_hymt_ready(call->model)) {
        ngx_http_hymt_call_loaded(call);
    }

    return NGX_OK;
}


/* NGX_OK: from now on it counts in what is in hand. */
static ngx_int_t
ngx_http_hymt_check_queue(ngx_http_hymt_call_t *call)
{
    if (!ngx_http_hymt_queue_full(call->model)) {
        return ngx_http_hymt_take_load(call);
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

    /* its results may have been in the cache */

    if (call->woken && !call->run.posted) {
        ngx_http_hymt_pass_on(call);
    }

    if (call->failure.status != 0) {
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    if (call->done == call->n_items) {
        ngx_http_hymt_finish(call);
    }
}


static void
ngx_http_hymt_call_timeout(ngx_event_t *ev)
{
    ngx_connection_t         *c;
    ngx_http_hymt_call_t     *call;
    ngx_http_hymt_failure_t   f;

    ngx_http_hymt_turn_begin();

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

    ngx_http_hymt_turn_begin();

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
void
ngx_http_hymt_call_end(ngx_http_hymt_call_t *call)
{
    ngx_uint_t  i;

    call->ended = 1;

    for (i = 0; call->running && i < call->n_jobs; i++) {
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

    ngx_http_hymt_turn_begin();

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

    if (call->body_len > NGX_HTTP_HYMT_INLINE
        && ngx_http_hymt_call_work(call, call->body_len,
                                   ngx_http_hymt_release, NULL)
           == NGX_OK)
    {
        return;
    }

    ngx_http_hymt_empty(call);
    ngx_http_hymt_call_put(call);
}


/* On any thread. */
static void
ngx_http_hymt_release(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_empty(call);
    ngx_free(call);
}


static void
ngx_http_hymt_empty(ngx_http_hymt_call_t *call)
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
}
