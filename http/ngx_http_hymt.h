
/*
 * Copyright (C) the hymt authors
 */


/*
 * What the files of the module do for each other; ngx_http_hymt_call.h has what
 * they do it with.  The data goes one way:
 *
 *   ngx_http_hymt_request.c  finds the endpoint, checks what can be now
 *   ngx_http_hymt_body.c     reads the body, begins the call
 *   ngx_http_hymt_params.c   body and query string -> one JSON object
 *   ngx_http_hymt_native.c   that object -> call (texts, options) -> answer;
 *   and its likes, one API   the only files that know the wire forms
 *   ngx_http_hymt_call.c     call -> documents; its life
 *   ngx_http_hymt_unit.c     documents -> units -> jobs
 *   ngx_http_hymt_result.c   results -> documents -> texts -> answer
 *   ngx_http_hymt_answer.c   the answer, or an error, to the client
 *   ngx_http_hymt_progress.c what of a text may be sent before its end
 *   ngx_http_hymt_stream.c   results -> events, as they come
 *   ngx_http_hymt_zone.c     the exchanges and bells of a cycle
 *   ngx_http_hymt_runtime.c  this process's ends of them, life and death
 *   ngx_http_hymt_engine.c   jobs to the engines, results from them
 *   ngx_http_hymt_hosts.c    the engine hosts in worker 0
 *   ngx_http_hymt_buffers.c  the memory that requests may take
 *   ngx_http_hymt_watch.c    worker 0: engines that hang, workers that leave
 *   ngx_http_hymt_cache.c    results that were had before
 *   ngx_http_hymt_lost.c     calls whose engine has died
 *   ngx_http_hymt_worker.c   worker 0: serving or not, starting again
 *   ngx_http_hymt_conf.c     values of directives
 *   ngx_http_hymt_model.c    hymt_model { } blocks and their checks
 *   ngx_http_hymt_access.c   what the workers' user may read
 *   ngx_http_hymt_glossaries.c  hymt_glossaries, and terms for a unit
 *   ngx_http_hymt_metrics.c  counting, in shared memory
 *   ngx_http_hymt_status.c   hymt_status: JSON, ready, live
 *   ngx_http_hymt_prometheus.c  and its metrics
 *   ngx_http_hymt_variables.c  $hymt_...
 */


#ifndef _NGX_HTTP_HYMT_H_INCLUDED_
#define _NGX_HTTP_HYMT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "ngx_http_hymt_cache.h"
#include "ngx_http_hymt_call.h"
#include "ngx_http_hymt_conf.h"
#include "ngx_http_hymt_metrics.h"


/* bodies and answers up to this size are handled on the event loop */
#define NGX_HTTP_HYMT_INLINE         8192

/* what parsing a small request, or going on with one, is in bytes of bodies */
#define NGX_HTTP_HYMT_A_PARSE        (32 * 1024)
#define NGX_HTTP_HYMT_A_RUN          (16 * 1024)

/* of a client's string in a message, with its end */
#define NGX_HTTP_HYMT_SHOWN          41

/* an engine that does nothing for so long, ms, is not ready */
#define NGX_HTTP_HYMT_STALL          750


extern ngx_module_t  ngx_http_hymt_module;


/* ngx_http_hymt_model.c */

char *ngx_http_hymt_model_block(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_http_hymt_model_t *ngx_http_hymt_model_get(ngx_conf_t *cf,
    ngx_http_hymt_main_conf_t *hmcf, ngx_str_t *name);
ngx_int_t ngx_http_hymt_model_check(ngx_http_hymt_model_t *model,
    ngx_cycle_t *cycle);


/* ngx_http_hymt_access.c */

ngx_int_t ngx_http_hymt_user(ngx_cycle_t *cycle, ngx_http_hymt_user_t *user);

/*
 * Whether the workers may use a path: want is 4 to read it, 7 to keep files in
 * it.  NGX_ERROR: text says why not.
 */
ngx_int_t ngx_http_hymt_check_path(ngx_http_hymt_user_t *user,
    const char *path, mode_t want, char *text, size_t size);


/* ngx_http_hymt_glossaries.c */

char *ngx_http_hymt_glossaries(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_int_t ngx_http_hymt_glossaries_check(ngx_http_hymt_main_conf_t *hmcf);
void ngx_http_hymt_glossaries_open(ngx_http_hymt_main_conf_t *hmcf,
    ngx_cycle_t *cycle);

/* appends "source TAB target" lines of the glossary's terms that occur in text;
   any thread */
void ngx_http_hymt_glossary_terms(ngx_http_hymt_call_t *call,
    const char *text, size_t len, ngx_http_hymt_text_t *out);


/* ngx_http_hymt_zone.c */

ngx_int_t ngx_http_hymt_init_zone(ngx_shm_zone_t *zone, void *data);


/* ngx_http_hymt_runtime.c */

ngx_int_t ngx_http_hymt_init_process(ngx_cycle_t *cycle);
void ngx_http_hymt_exit_process(ngx_cycle_t *cycle);

extern const ngx_uint_t
    ngx_http_hymt_loop_us[NGX_HTTP_HYMT_LOOP_BUCKETS - 1];

/* NULL in processes that serve no requests */
ngx_http_hymt_counters_t *ngx_http_hymt_counters(void);

/* this turn of the event loop has come to the module: begins every handler */
void ngx_http_hymt_turn_begin(void);

/*
 * This turn of the event loop has taken its share of work; what it costs is
 * counted in bytes of bodies.
 */
ngx_uint_t ngx_http_hymt_turn_spent(void);
void ngx_http_hymt_turn_take(size_t bytes);


/* ngx_http_hymt_engine.c */

/*
 * Submits a job that has its item, unit id and call set.  NGX_OK; NGX_AGAIN: no
 * slot is free but for those who came before, or the lane is not attached yet;
 * NGX_DECLINED: it does not fit a slot; NGX_ERROR: no client.
 */
ngx_int_t ngx_http_hymt_submit(ngx_http_hymt_job_t *job,
    const hymt_job_t *params);
void ngx_http_hymt_cancel(ngx_http_hymt_job_t *job);

/* whether the engine had begun with a job, which may be lost by now */
ngx_uint_t ngx_http_hymt_started(ngx_http_hymt_job_t *job);

/* this process is the engines' and ends with them */
ngx_uint_t ngx_http_hymt_leaves(void);

/* the text so far of a job in the engine: the slot's, to be copied */
void ngx_http_hymt_so_far(ngx_http_hymt_job_t *job, const char **text,
    uint32_t *len);

/*
 * Every admitted call is on the runtime's list; one that found no slot stands
 * in its model's line as well.  As many of the first there as there are slots
 * free are woken, that is, run again; a slot is kept for each until then, and
 * its place until it has the slot.
 */
void ngx_http_hymt_enlist(ngx_http_hymt_call_t *call);
void ngx_http_hymt_delist(ngx_http_hymt_call_t *call);
void ngx_http_hymt_line_up(ngx_http_hymt_call_t *call);

/* a call that stands in line, or not, wants no slot now: the next one may */
void ngx_http_hymt_pass_on(ngx_http_hymt_call_t *call);

/* wakes those that may be */
void ngx_http_hymt_serve_line(ngx_http_hymt_model_t *model);

/* ngx_http_hymt_load_take() for this worker */
ngx_int_t ngx_http_hymt_take_load(ngx_http_hymt_call_t *call);

/* whether the model's engine is READY */
ngx_uint_t ngx_http_hymt_ready(ngx_http_hymt_model_t *model);

/* what this process knows of the model's engine; false: nothing to ask */
ngx_uint_t ngx_http_hymt_engine_info(ngx_http_hymt_model_t *model,
    hymt_host_info_t *info);

/*
 * Whether it is READY and has done nothing about its work for `patience` beyond
 * its longest step, hymt_watchdog at most, and before its first step; never
 * where that is 0.
 */
ngx_uint_t ngx_http_hymt_stuck(ngx_http_hymt_main_conf_t *hmcf,
    const hymt_host_info_t *info, ngx_msec_t patience);
uint32_t ngx_http_hymt_in_flight(ngx_http_hymt_model_t *model);

/* Whether new requests of it get 429. */
ngx_uint_t ngx_http_hymt_queue_full(ngx_http_hymt_model_t *model);


/* ngx_http_hymt_buffers.c */

/* a process begins: what threads free is for others to take */
void ngx_http_hymt_bound_malloc(void);

/* memory for a call, not cleared, and back: some of it is kept for others */
ngx_http_hymt_call_t *ngx_http_hymt_call_get(ngx_log_t *log);
void ngx_http_hymt_call_put(ngx_http_hymt_call_t *call);

/* room for `more` bytes of hymt_buffers: NGX_OK, or NGX_DECLINED */
ngx_int_t ngx_http_hymt_charge(ngx_http_hymt_call_t *call, size_t more);
void ngx_http_hymt_discharge(ngx_http_hymt_call_t *call);

/*
 * Of a body a part has come, and the worker turns to others.  Clients may make
 * the rest as slow as they like, so such bodies have at most half of
 * hymt_buffers beside the first kilobytes of each: NGX_OK, or NGX_DECLINED.
 * Then it has come.
 */
ngx_int_t ngx_http_hymt_body_waits(ngx_http_hymt_call_t *call);
void ngx_http_hymt_body_came(ngx_http_hymt_call_t *call);

ngx_uint_t ngx_http_hymt_buffers_full(void);
void ngx_http_hymt_fail_buffers(ngx_http_hymt_call_t *call);


/* ngx_http_hymt_load.c: what all workers have in hand */

size_t ngx_http_hymt_load_size(ngx_http_hymt_main_conf_t *hmcf);
void ngx_http_hymt_load_create(ngx_http_hymt_main_conf_t *hmcf,
    hymt_quota_t *words);
void ngx_http_hymt_load_reset(ngx_http_hymt_main_conf_t *hmcf,
    ngx_uint_t lane);

/* hymt_concurrency; a look, before the body is read: NGX_OK or NGX_ERROR
   (failure) */
ngx_int_t ngx_http_hymt_check_location(ngx_http_hymt_call_t *call);

/* hymt_concurrency and "queue_tokens"; the same, and from now on it counts */
ngx_int_t ngx_http_hymt_load_take(ngx_http_hymt_call_t *call, ngx_uint_t lane);
void ngx_http_hymt_load_give(ngx_http_hymt_call_t *call, ngx_uint_t lane);


/* ngx_http_hymt_call.c */

ngx_http_hymt_call_t *ngx_http_hymt_call_create(ngx_http_request_t *r);
ngx_int_t ngx_http_hymt_call_append(ngx_http_hymt_call_t *call, u_char *data,
    size_t len);
void ngx_http_hymt_call_drop_body(ngx_http_hymt_call_t *call);
void ngx_http_hymt_call_start(ngx_http_hymt_call_t *call);
void ngx_http_hymt_call_admit(ngx_http_hymt_call_t *call);
void ngx_http_hymt_call_loaded(ngx_http_hymt_call_t *call);
void ngx_http_hymt_call_run(ngx_http_hymt_call_t *call);
void ngx_http_hymt_call_close(ngx_http_hymt_call_t *call);

/* no units any more: what is in the engine is of no use */
void ngx_http_hymt_call_end(ngx_http_hymt_call_t *call);

/* a place in the model's queue: NGX_OK or NGX_ERROR (failure) */
ngx_int_t ngx_http_hymt_enter(ngx_http_hymt_call_t *call);

/* then NULL: the call is gone when the work is done */
ngx_int_t ngx_http_hymt_call_work(ngx_http_hymt_call_t *call, size_t size,
    ngx_http_hymt_work_pt work, ngx_http_hymt_work_pt then);


/* ngx_http_hymt_unit.c */

/* one of the window that is free; there is one where less is running */
ngx_http_hymt_job_t *ngx_http_hymt_free_job(ngx_http_hymt_call_t *call);

/* call->tokens, where "queue_tokens" asks for them: the documents are made and
   nothing of them is handed out; any thread */
void ngx_http_hymt_estimate(ngx_http_hymt_call_t *call);

/* NGX_OK, NGX_AGAIN: when more results are in; NGX_DONE: no more */
ngx_int_t ngx_http_hymt_next_unit(ngx_http_hymt_call_t *call,
    ngx_http_hymt_item_t *item, hymt_unit_t *unit);

/* the unit goes to the engine: as ngx_http_hymt_submit() */
ngx_int_t ngx_http_hymt_ask(ngx_http_hymt_job_t *job,
    const hymt_unit_t *unit);

/* a unit that is not in the engine is to be handed out again */
void ngx_http_hymt_take_back(ngx_http_hymt_job_t *job);


/* ngx_http_hymt_result.c */

void ngx_http_hymt_call_done(ngx_http_hymt_job_t *job,
    const hymt_result_t *result, const char *text);

/* an answer to a unit becomes part of its text */
void ngx_http_hymt_take(ngx_http_hymt_job_t *job, const hymt_result_t *result,
    const char *text);

void ngx_http_hymt_item_end(ngx_http_hymt_item_t *item);
void ngx_http_hymt_item_fail(ngx_http_hymt_item_t *item, ngx_uint_t status,
    const char *code, const char *message);

/* all items are done */
void ngx_http_hymt_finish(ngx_http_hymt_call_t *call);


/* For parse() and render(), on any thread; the first failure counts. */

void ngx_http_hymt_fail(ngx_http_hymt_call_t *call, ngx_uint_t status,
    const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* takes root over; 200 unless status says otherwise */
void ngx_http_hymt_reply(ngx_http_hymt_call_t *call, ngx_uint_t status,
    json_t *root);

/* takes malloc'ed text over */
void ngx_http_hymt_reply_text(ngx_http_hymt_call_t *call, ngx_uint_t status,
    const char *content_type, char *text, size_t len);

/*
 * Sampling, languages and document options from the configuration: the first
 * thing a parse() does.
 */
void ngx_http_hymt_defaults(ngx_http_hymt_call_t *call);

/* n items that are set up but for their text: NGX_OK or NGX_ERROR (failure) */
ngx_int_t ngx_http_hymt_items(ngx_http_hymt_call_t *call, ngx_uint_t n);

/*
 * The last thing a parse() of translations does: checks the options, detects
 * the source where it was asked, makes the documents.  NGX_OK or NGX_ERROR.
 */
ngx_int_t ngx_http_hymt_prepare(ngx_http_hymt_call_t *call);

/*
 * True for a text without a letter or digit: emoji, marks, space, nothing.
 * Nobody can translate it.
 */
ngx_uint_t ngx_http_hymt_symbols(const char *text, size_t len);

/* whether the model has a prompt for terms, context, style, and `more` */
ngx_uint_t ngx_http_hymt_has(ngx_http_hymt_call_t *call, uint32_t more);

/* values not given (in `none`) leave the base as it is */
void ngx_http_hymt_sampling_none(hymt_sampling_t *s);
void ngx_http_hymt_sampling_over(hymt_sampling_t *s,
    const hymt_sampling_t *over);

void ngx_http_hymt_reserve(ngx_http_hymt_text_t *out, size_t len);
void ngx_http_hymt_append(ngx_http_hymt_text_t *out, const char *data,
    size_t len);

/* appends a JSON string; s is UTF-8 */
void ngx_http_hymt_append_string(ngx_http_hymt_text_t *out, const char *s,
    size_t len);

/* appends "data: " JSON "\n\n" and lets go of root */
void ngx_http_hymt_append_event(ngx_http_hymt_text_t *out, json_t *root);


/* ngx_http_hymt_lost.c */

void ngx_http_hymt_call_lost(ngx_http_hymt_call_t *call);
void ngx_http_hymt_job_lost(ngx_http_hymt_job_t *job);
ngx_uint_t ngx_http_hymt_may_run(ngx_http_hymt_job_t *job);
void ngx_http_hymt_job_runs(ngx_http_hymt_job_t *job);
void ngx_http_hymt_job_over(ngx_http_hymt_job_t *job);
void ngx_http_hymt_acquit(ngx_http_hymt_job_t *job);


/* ngx_http_hymt_worker.c */

ngx_int_t ngx_http_hymt_choose_worker(ngx_http_hymt_main_conf_t *hmcf);
void ngx_http_hymt_stop_listening(ngx_cycle_t *cycle);

/*
 * Stops an engine: NGX_OK; NGX_AGAIN: not within so many ms (0: whenever it
 * is), it is left to the end of the process, which then is one that waits for
 * nobody.
 */
ngx_int_t ngx_http_hymt_stop_host(hymt_host_t *host, ngx_msec_t limit);
void ngx_http_hymt_abandon(void);

ngx_msec_t ngx_http_hymt_backoff(ngx_http_hymt_roster_t *roster,
    ngx_log_t *log);
ngx_msec_t ngx_http_hymt_backing_off(ngx_http_hymt_main_conf_t *hmcf);
uint64_t ngx_http_hymt_now(void);


/* ngx_http_hymt_params.c: on any thread */

/*
 * Body and query string as one JSON object, kept in call->root: a JSON body as
 * it is (the query string is not looked at), else the fields of a form and of
 * the query string as strings, repeated ones as arrays.  NULL: failure is set.
 */
json_t *ngx_http_hymt_params(ngx_http_hymt_call_t *call);

/*
 * One parameter by name.  NGX_OK; NGX_DECLINED: absent or null, *value is left
 * as it was; NGX_ERROR: of a wrong type or out of range, failure is set.  From
 * forms, numbers and booleans are taken from their text.
 */
ngx_int_t ngx_http_hymt_param_string(ngx_http_hymt_call_t *call,
    const char *name, const char **value, size_t *len);
ngx_int_t ngx_http_hymt_param_bool(ngx_http_hymt_call_t *call,
    const char *name, ngx_uint_t *value);
ngx_int_t ngx_http_hymt_param_integer(ngx_http_hymt_call_t *call,
    const char *name, int64_t low, int64_t high, int64_t *value);
ngx_int_t ngx_http_hymt_param_real(ngx_http_hymt_call_t *call,
    const char *name, double *value);

/* a string or an array of strings as a new array (the caller's), of strings
   only; comma: a single string is split at commas */
ngx_int_t ngx_http_hymt_param_strings(ngx_http_hymt_call_t *call,
    const char *name, ngx_uint_t comma, json_t **value);

/* "0.7", "1e-3": NGX_OK, or NGX_ERROR for what is no finite decimal number */
ngx_int_t ngx_http_hymt_decimal(const char *text, double *value);

/* what is too large for a float is out of range anyway */
ngx_int_t ngx_http_hymt_float(ngx_http_hymt_call_t *call, const char *name,
    double real, float *value);

/* "an array", "a string" ...: of a JSON value, for messages */
const char *ngx_http_hymt_type(json_type type);

/* the beginning of a client's string, for messages: no NUL ends it */
const char *ngx_http_hymt_show(char shown[NGX_HTTP_HYMT_SHOWN],
    const char *value, size_t len);


/* ngx_http_hymt_session.c: on the event loop; call->session is set */

char *ngx_http_hymt_sessions_zone(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_int_t ngx_http_hymt_session_context(ngx_http_hymt_call_t *call);
void ngx_http_hymt_session_add(ngx_http_hymt_call_t *call);


/* ngx_http_hymt_progress.c: on the event loop; a stream has one item */

void ngx_http_hymt_call_progress(ngx_http_hymt_job_t *job);

/* what can't change any more, as long as the reader is not behind */
void ngx_http_hymt_send_more(ngx_http_hymt_call_t *call);

/* the result is in: whether what was sent before is a part of it; raw is the
   engine's text */
ngx_uint_t ngx_http_hymt_sent_is_right(ngx_http_hymt_item_t *item,
    const char *raw, size_t len);

/* all outputs are in */
void ngx_http_hymt_send_rest(ngx_http_hymt_call_t *call);


/* ngx_http_hymt_stream.c: on the event loop */

/* for a call with call->stream set; sends nothing yet: NGX_OK or NGX_ERROR
   (failure) */
ngx_int_t ngx_http_hymt_stream_create(ngx_http_hymt_call_t *call);

/* the header is out: a failure must go into an event */
ngx_uint_t ngx_http_hymt_stream_opened(ngx_http_hymt_call_t *call);

/*
 * Events of the API for text that is new.  Never ends the request: where
 * nothing can be sent any more, the call runs and sees failed().
 */
void ngx_http_hymt_stream_text(ngx_http_hymt_call_t *call, const char *text,
    size_t len);
ngx_uint_t ngx_http_hymt_stream_busy(ngx_http_hymt_call_t *call);
ngx_uint_t ngx_http_hymt_stream_failed(ngx_http_hymt_call_t *call);

/* these end the request, with the API's last events */
void ngx_http_hymt_stream_end(ngx_http_hymt_call_t *call);
void ngx_http_hymt_stream_broken(ngx_http_hymt_call_t *call,
    ngx_http_hymt_failure_t *f);

/* the request is ending: no more timers */
void ngx_http_hymt_stream_close(ngx_http_hymt_call_t *call);


/* ngx_http_hymt_native.c and its likes */

extern ngx_http_hymt_api_t  ngx_http_hymt_native;
extern ngx_http_hymt_api_t  ngx_http_hymt_libretranslate;
extern ngx_http_hymt_api_t  ngx_http_hymt_deepl;
extern ngx_http_hymt_api_t  ngx_http_hymt_google;
extern ngx_http_hymt_api_t  ngx_http_hymt_openai;

extern ngx_http_hymt_api_t *ngx_http_hymt_apis[];


/* ngx_http_hymt_request.c */

ngx_int_t ngx_http_hymt_handler(ngx_http_request_t *r);

/* whether the model's engine may be asked: NGX_OK or NGX_ERROR (failure) */
ngx_int_t ngx_http_hymt_check_model(ngx_http_hymt_call_t *call);

/* the first header of a name, which is in lower case; NULL without one */
ngx_str_t *ngx_http_hymt_request_header(ngx_http_request_t *r,
    ngx_str_t *name);


/* the request's call, NULL where it has none any more */
ngx_http_hymt_call_t *ngx_http_hymt_call(ngx_http_request_t *r);


/* ngx_http_hymt_body.c */

/* reads what has come of the body; the call begins once that is whole */
void ngx_http_hymt_body_handler(ngx_http_request_t *r);


/* ngx_http_hymt_answer.c */

void ngx_http_hymt_answer(ngx_http_hymt_call_t *call);
void ngx_http_hymt_answer_failure(ngx_http_hymt_call_t *call,
    ngx_http_hymt_failure_t *f);

/* an error without a call, in the form of an API; a body as it is */
ngx_int_t ngx_http_hymt_error(ngx_http_request_t *r, ngx_http_hymt_api_t *api,
    ngx_http_hymt_failure_t *f);
ngx_int_t ngx_http_hymt_send(ngx_http_request_t *r, ngx_uint_t status,
    const char *type, u_char *body, size_t len);

ngx_int_t ngx_http_hymt_header(ngx_http_request_t *r, const char *key,
    const char *value);

/* the operator's error_page for a status, or NULL */
ngx_http_err_page_t *ngx_http_hymt_page(ngx_http_request_t *r,
    ngx_uint_t status);


/* ngx_http_hymt_metrics.c */

/* for a new configuration: the models find their figures in the zone */
void ngx_http_hymt_stats_init(ngx_http_hymt_main_conf_t *hmcf);

/*
 * Once for each call, when its answer is known: its status and, where it is a
 * failure, the code; else its texts.  What it knows goes to call->ctx, too.
 */
void ngx_http_hymt_count(ngx_http_hymt_call_t *call, ngx_uint_t status,
    const char *code);

/* one that is over and was not counted */
void ngx_http_hymt_count_gone(ngx_http_hymt_call_t *call);

void ngx_http_hymt_count_admitted(ngx_http_hymt_call_t *call);
void ngx_http_hymt_count_resubmitted(ngx_http_hymt_call_t *call);

/* takes a result's times */
void ngx_http_hymt_measure(ngx_http_hymt_call_t *call,
    const hymt_result_t *result);

/* what the engine has done since *last is added to the zone's figures */
void ngx_http_hymt_fold(ngx_http_hymt_model_t *model, hymt_host_info_t *last);


/* ngx_http_hymt_prometheus.c */

void ngx_http_hymt_prometheus(ngx_http_request_t *r,
    ngx_http_hymt_main_conf_t *hmcf, ngx_uint_t vllm,
    ngx_http_hymt_text_t *out);


/* ngx_http_hymt_variables.c */

ngx_int_t ngx_http_hymt_add_variables(ngx_conf_t *cf);


/* ngx_http_hymt_status.c */

ngx_int_t ngx_http_hymt_status_handler(ngx_http_request_t *r);

/* "loading", "ready", "stuck" ... */
const char *ngx_http_hymt_state(ngx_http_hymt_main_conf_t *hmcf,
    const hymt_host_info_t *info);


#endif /* _NGX_HTTP_HYMT_H_INCLUDED_ */
