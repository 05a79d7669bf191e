
/*
 * Copyright (C) the hymt authors
 */


/*
 * A call: the texts of one request on their way through the engine.  A window
 * of them is submitted; the others wait here, in the worker's memory, and
 * follow as results come.
 */


#include "ngx_http_hymt.h"

#include <jansson.h>


#if (NGX_THREADS)

typedef struct {
    ngx_http_hymt_call_t   *call;
    ngx_http_hymt_work_pt   work;
    ngx_http_hymt_work_pt   then;
} ngx_http_hymt_task_t;


static void ngx_http_hymt_task_thread(void *data, ngx_log_t *log);
static void ngx_http_hymt_task_done(ngx_event_t *ev);

#endif

static void ngx_http_hymt_call_timeout(ngx_event_t *ev);
static void ngx_http_hymt_call_run_event(ngx_event_t *ev);
static void ngx_http_hymt_call_cleanup(void *data);
static void ngx_http_hymt_call_end(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_call_cancel_items(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_call_free(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_release(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_free_answer(void *data);
static ngx_uint_t ngx_http_hymt_blank(const char *text, size_t len);
static void ngx_http_hymt_judge(ngx_http_hymt_item_t *item);
static void ngx_http_hymt_rendered(ngx_http_hymt_call_t *call);


ngx_http_hymt_call_t *
ngx_http_hymt_call_create(ngx_http_request_t *r)
{
    ngx_http_cleanup_t         *cln;
    ngx_http_hymt_call_t       *call;
    ngx_http_hymt_loc_conf_t   *hlcf;
    ngx_http_hymt_main_conf_t  *hmcf;

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
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
    call->log = r->connection->log;

    call->timer.handler = ngx_http_hymt_call_timeout;
    call->timer.data = r->connection;
    call->timer.log = r->connection->log;

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

    return NGX_OK;
}


void
ngx_http_hymt_fail(ngx_http_hymt_call_t *call, ngx_uint_t status,
    const char *code, const char *fmt, ...)
{
    u_char                    c;
    size_t                    i, len;
    va_list                   args;
    ngx_uint_t                broken;
    ngx_http_hymt_failure_t  *f;

    f = &call->failure;

    if (f->status != 0) {
        return;
    }

    f->status = status;
    f->code = code;

    va_start(args, fmt);
    (void) vsnprintf(f->message, sizeof(f->message), fmt, args);
    va_end(args);

    /* it may quote the client, goes to the log, and may have been cut */

    len = hymt_utf8_whole(f->message, ngx_strlen(f->message));
    f->message[len] = '\0';

    broken = !hymt_utf8_check(f->message, len, NULL);

    for (i = 0; i < len; i++) {
        c = (u_char) f->message[i];

        if (c < 0x20 || c == 0x7f || (broken && c >= 0x80)) {
            f->message[i] = '?';
        }
    }
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
ngx_http_hymt_sampling_none(hymt_sampling_t *s)
{
    s->temperature = -1;
    s->top_p = -1;
    s->repetition_penalty = -1;
    s->top_k = UINT32_MAX;
}


void
ngx_http_hymt_sampling_over(hymt_sampling_t *s, const hymt_sampling_t *over)
{
    if (over->temperature >= 0) {
        s->temperature = over->temperature;
    }

    if (over->top_p >= 0) {
        s->top_p = over->top_p;
    }

    if (over->repetition_penalty >= 0) {
        s->repetition_penalty = over->repetition_penalty;
    }

    if (over->top_k != UINT32_MAX) {
        s->top_k = over->top_k;
    }
}


void
ngx_http_hymt_call_start(ngx_http_hymt_call_t *call)
{
    ngx_msec_t                 wait;
    hymt_host_info_t           info;
    ngx_http_hymt_loc_conf_t  *hlcf;

    hlcf = call->conf;
    wait = hlcf->timeout;

    /* kept when the engine dies and the texts are submitted again */

    call->job.sampling.seed = (uint64_t) ngx_random() << 32
                              ^ (uint64_t) ngx_random();

    call->start = ngx_current_msec;
    call->deadline = hymt_now_ns() + (uint64_t) wait * 1000000;

    if (ngx_http_hymt_engine_info(call->model, &info)
        && info.state != HYMT_HOST_READY && hlcf->loading_wait < wait)
    {
        wait = hlcf->loading_wait;
        call->loading = 1;
    }

    /* not cancelable: it also keeps a worker that is to leave */

    ngx_add_timer(&call->timer, ngx_max(wait, 1));
}


/*
 * Texts parsed and checked: in, or 429.  Afterwards the call is the engine's
 * until its last item is done.
 */
void
ngx_http_hymt_call_admit(ngx_http_hymt_call_t *call)
{
    size_t  need;

    if (ngx_http_hymt_in_flight(call->model)
        >= (uint32_t) call->model->queue)
    {
        ngx_http_hymt_fail(call, NGX_HTTP_TOO_MANY_REQUESTS, "queue_full",
                           "the queue of model \"%s\" is full",
                           call->model->name.data);
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    /* the parsed copy of the texts, the items, and answers of like size */

    need = 2 * call->body_len + call->n_items * sizeof(ngx_http_hymt_item_t);

    if (ngx_http_hymt_charge(call, need) != NGX_OK) {
        ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "buffers_full",
                           "the buffers of this worker are full");
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    (void) ngx_atomic_fetch_add(&ngx_http_hymt_counters()->texts,
                                call->n_items);

    ngx_http_hymt_enlist(call);

    ngx_http_hymt_call_run(call);
}


void
ngx_http_hymt_call_run(ngx_http_hymt_call_t *call)
{
    ngx_int_t              rc;
    ngx_http_hymt_item_t  *item;

    while (call->failure.status == 0 && call->next < call->n_items
           && call->running < (ngx_uint_t) call->conf->window)
    {
        item = &call->items[call->next];

        if (item->state != NGX_HTTP_HYMT_ITEM_WAITING) {
            call->next++;
            continue;
        }

        if (ngx_http_hymt_blank(item->text, item->len)) {

            /* nothing to translate: white space comes back as it is */

            item->state = NGX_HTTP_HYMT_ITEM_DONE;
            item->out = malloc(item->len + 1);

            if (item->out == NULL) {
                ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR,
                                   "internal", "out of memory");
                break;
            }

            ngx_memcpy(item->out, item->text, item->len);
            item->out_len = item->len;
            item->result.finish = HYMT_FINISH_STOP;

            call->next++;
            call->done++;
            continue;
        }

        rc = ngx_http_hymt_submit(item);

        if (rc == NGX_AGAIN) {
            ngx_http_hymt_line_up(call);
            break;
        }

        if (rc == NGX_DECLINED) {
            ngx_http_hymt_fail(call, 422, "text_too_long",
                               "text %lu has %lu bytes; model \"%s\" with its"
                               " context of %ld tokens takes at most %ld:"
                               " split it", (unsigned long) call->next,
                               (unsigned long) item->len,
                               call->model->name.data,
                               (long) call->model->context,
                               (long) call->model->exchange.params.in_bytes);
            break;
        }

        if (rc != NGX_OK) {
            ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE,
                               "unavailable", "this worker has no engine");
            break;
        }

        item->state = NGX_HTTP_HYMT_ITEM_RUNNING;
        call->running++;
        call->next++;
    }

    if (call->failure.status != 0) {
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    if (call->done == call->n_items) {
        ngx_http_hymt_call_end(call);

        if (ngx_http_hymt_call_work(call, 2 * call->body_len,
                                    ngx_http_hymt_native_render,
                                    ngx_http_hymt_rendered)
            != NGX_OK)
        {
            ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR,
                               "internal", "can't start a task");
            ngx_http_hymt_answer_failure(call, &call->failure);
        }
    }
}


static void
ngx_http_hymt_rendered(ngx_http_hymt_call_t *call)
{
    ngx_pool_cleanup_t  *cln;

    if (call->failure.status == 0) {

        /*
         * The pool's cleanup, not the request's: that one may run while parts
         * of the answer still wait in the connection.
         */

        cln = ngx_pool_cleanup_add(call->r->pool, 0);

        if (cln == NULL) {
            ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR,
                               "internal", "out of memory");

        } else {
            cln->handler = ngx_http_hymt_free_answer;
            cln->data = call->answer;
        }
    }

    if (call->failure.status != 0) {
        ngx_http_hymt_answer_failure(call, &call->failure);
        return;
    }

    ngx_http_hymt_answer(call);
}


static void
ngx_http_hymt_free_answer(void *data)
{
    free(data);
}


/* The runtime's word: one item has its result.  text is the slot's. */
void
ngx_http_hymt_call_item_done(ngx_http_hymt_item_t *item,
    const hymt_result_t *result, const char *text)
{
    ngx_http_hymt_call_t  *call;

    call = item->call;

    item->state = NGX_HTTP_HYMT_ITEM_DONE;
    item->result = *result;

    call->running--;
    call->done++;

    if (result->code != HYMT_RESULT_OK) {
        ngx_http_hymt_judge(item);

    } else {
        item->out = malloc(result->text_len + 1);

        if (item->out == NULL) {
            ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR,
                               "internal", "out of memory");

        } else {
            ngx_memcpy(item->out, text, result->text_len);
            item->out_len = result->text_len;

            if (!hymt_utf8_check(item->out, item->out_len, NULL)) {
                ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR,
                                   "internal", "the engine's text is broken");
            }
        }
    }

    ngx_post_event(&call->run, &ngx_posted_events);
}


static void
ngx_http_hymt_judge(ngx_http_hymt_item_t *item)
{
    char                   where[64];
    const char            *error;
    ngx_http_hymt_call_t  *call;

    call = item->call;
    error = item->result.error;

    where[0] = '\0';

    if (call->array) {
        (void) snprintf(where, sizeof(where), "text %lu: ",
                        (unsigned long) (item - call->items));
    }

    switch (item->result.code) {

    case HYMT_RESULT_BAD_INPUT:
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "%s%s", where, error);
        break;

    case HYMT_RESULT_TOO_LONG:
        ngx_http_hymt_fail(call, 422, "text_too_long", "%s%s", where, error);
        break;

    case HYMT_RESULT_TIMEOUT:
        ngx_http_hymt_fail(call, NGX_HTTP_GATEWAY_TIME_OUT, "timeout",
                           "not done in time");
        break;

    case HYMT_RESULT_FULL:
        ngx_http_hymt_fail(call, NGX_HTTP_TOO_MANY_REQUESTS, "queue_full",
                           "%s", error);
        break;

    default:
        ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "unavailable",
                           "%s", error[0] ? error : "the engine is gone");
        break;
    }
}


/*
 * The engine died and took this call's jobs along.  They are asked again once;
 * a call that was there at two deaths may be their cause.
 */
void
ngx_http_hymt_call_lost(ngx_http_hymt_call_t *call)
{
    ngx_uint_t  i;

    if (call->running == 0) {
        return;
    }

    for (i = 0; i < call->n_items; i++) {
        if (call->items[i].state == NGX_HTTP_HYMT_ITEM_RUNNING) {
            call->items[i].state = NGX_HTTP_HYMT_ITEM_WAITING;
        }
    }

    call->running = 0;
    call->next = 0;

    if (++call->epochs > 1) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "the engine failed twice with this request");

    } else {
        (void) ngx_atomic_fetch_add(&ngx_http_hymt_counters()->resubmitted, 1);
    }

    ngx_post_event(&call->run, &ngx_posted_events);
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

    c = call->r->connection;

    ngx_http_set_log_request(c->log, call->r);

    ngx_http_hymt_call_run(call);

    ngx_http_run_posted_requests(c);
}


/* The engine has nothing more to do with the call. */
static void
ngx_http_hymt_call_end(ngx_http_hymt_call_t *call)
{
    call->ended = 1;

    ngx_http_hymt_call_cancel_items(call);
    ngx_http_hymt_delist(call);

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

    if (call->timer.timer_set) {
        ngx_del_timer(&call->timer);
    }
}


static void
ngx_http_hymt_call_cancel_items(ngx_http_hymt_call_t *call)
{
    ngx_uint_t  i;

    for (i = 0; call->running && i < call->n_items; i++) {
        if (call->items[i].state == NGX_HTTP_HYMT_ITEM_RUNNING) {
            ngx_http_hymt_cancel(&call->items[i]);
            call->items[i].state = NGX_HTTP_HYMT_ITEM_DONE;
            call->running--;
        }
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

    if (!call->answered && call->start) {
        (void) ngx_atomic_fetch_add(&ngx_http_hymt_counters()->canceled, 1);
    }

    ngx_http_hymt_call_close(call);

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
        free(call->items[i].out);
    }

    if (call->json != NULL) {
        json_decref(call->json);
    }

    free(call->items);
    free(call->args.data);
    free(call->body);
    ngx_free(call);
}


static ngx_uint_t
ngx_http_hymt_blank(const char *text, size_t len)
{
    size_t  i;

    for (i = 0; i < len; i++) {
        switch (text[i]) {

        case ' ':
        case '\t':
        case '\n':
        case '\r':
            continue;

        default:
            return 0;
        }
    }

    return 1;
}
