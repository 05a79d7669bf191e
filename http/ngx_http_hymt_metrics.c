
/*
 * Copyright (C) the hymt authors
 */


/*
 * Counting: each request once, when its answer is known, for the figures of all
 * and, in its ctx, for the access log.
 */


#include "ngx_http_hymt.h"


static void ngx_http_hymt_stats_take(ngx_http_hymt_stats_t *stats,
    ngx_str_t *name);
static ngx_http_hymt_stats_t *ngx_http_hymt_stats_find(
    ngx_http_hymt_counters_t *counters, ngx_str_t *name);
static ngx_http_hymt_stats_t *ngx_http_hymt_stats_free(
    ngx_http_hymt_main_conf_t *hmcf);
static void ngx_http_hymt_count_status(ngx_http_hymt_call_t *call,
    ngx_uint_t status);
static void ngx_http_hymt_count_reject(ngx_http_hymt_call_t *call,
    ngx_uint_t status, const char *code);
static void ngx_http_hymt_count_texts(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_count_times(ngx_http_hymt_call_t *call);
static void ngx_http_hymt_record(ngx_http_hymt_call_t *call,
    const char *code);
static ngx_int_t ngx_http_hymt_source(ngx_http_hymt_item_t *item);
static void ngx_http_hymt_observe(ngx_http_hymt_stats_t *stats,
    ngx_uint_t which, uint64_t value, ngx_uint_t times);


#define ngx_http_hymt_add(counter, n)                                         \
    (void) ngx_atomic_fetch_add(&(counter), (ngx_atomic_int_t) (n))


const ngx_uint_t  ngx_http_hymt_codes[NGX_HTTP_HYMT_N_CODES] = {
    200, 201, 204, 400, 401, 403, 404, 405, 408, 411, 413, 415, 422, 429, 456,
    499, 500, 503, 504, 0
};


const char *const  ngx_http_hymt_rejects[NGX_HTTP_HYMT_N_REJECTS] = {
    "queue_full", "buffers_full", "loading", "unavailable", "other"
};


static const uint64_t  ngx_http_hymt_times[HYMT_BUCKETS - 1] = {
    1000000, 2000000, 5000000, 10000000, 20000000, 50000000, 100000000,
    200000000, 500000000, 1000000000, 2000000000, 5000000000, 10000000000,
    20000000000, 60000000000
};


static const uint64_t  ngx_http_hymt_lengths[HYMT_BUCKETS - 1] = {
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000
};


const uint64_t *const  ngx_http_hymt_bounds[NGX_HTTP_HYMT_N_HISTOGRAMS] = {
    ngx_http_hymt_times,
    ngx_http_hymt_times,
    ngx_http_hymt_times,
    ngx_http_hymt_times,
    ngx_http_hymt_times,
    hymt_step_bounds,
    ngx_http_hymt_lengths,
    ngx_http_hymt_lengths,
    hymt_step_bounds,
    hymt_batch_bounds
};


/*
 * In the master, for a new configuration: each model gets the figures of its
 * name.
 */
void
ngx_http_hymt_stats_init(ngx_http_hymt_main_conf_t *hmcf)
{
    ngx_uint_t               i;
    ngx_http_hymt_model_t  **models;

    models = hmcf->models.elts;

    for (i = 0; i < hmcf->models.nelts; i++) {
        models[i]->stats = ngx_http_hymt_stats_find(hmcf->counters,
                                                    &models[i]->name);
    }

    for (i = 0; i < hmcf->models.nelts; i++) {

        if (models[i]->stats == NULL) {
            models[i]->stats = ngx_http_hymt_stats_free(hmcf);
            ngx_http_hymt_stats_take(models[i]->stats, &models[i]->name);
        }
    }
}


static void
ngx_http_hymt_stats_take(ngx_http_hymt_stats_t *stats, ngx_str_t *name)
{
    ngx_memzero(stats, sizeof(ngx_http_hymt_stats_t));

    stats->len = name->len;
    stats->hash = ngx_crc32_long(name->data, name->len);

    ngx_memcpy(stats->name, name->data,
               ngx_min(name->len, NGX_HTTP_HYMT_STATS_NAME));
}


static ngx_http_hymt_stats_t *
ngx_http_hymt_stats_find(ngx_http_hymt_counters_t *counters, ngx_str_t *name)
{
    uint32_t                hash;
    ngx_uint_t              i;
    ngx_http_hymt_stats_t  *stats;

    hash = ngx_crc32_long(name->data, name->len);

    for (i = 0; i < NGX_HTTP_HYMT_MAX_STATS; i++) {
        stats = &counters->models[i];

        if (stats->len == name->len && stats->hash == hash
            && ngx_strncmp(stats->name, name->data,
                           ngx_min(name->len, NGX_HTTP_HYMT_STATS_NAME))
               == 0)
        {
            return stats;
        }
    }

    return NULL;
}


/* There are more places than models in a configuration. */
static ngx_http_hymt_stats_t *
ngx_http_hymt_stats_free(ngx_http_hymt_main_conf_t *hmcf)
{
    ngx_uint_t                i, j;
    ngx_http_hymt_stats_t    *stats, *old;
    ngx_http_hymt_model_t   **models;

    models = hmcf->models.elts;
    old = NULL;

    for (i = 0; i < NGX_HTTP_HYMT_MAX_STATS; i++) {
        stats = &hmcf->counters->models[i];

        if (stats->len == 0) {
            return stats;
        }

        for (j = 0; j < hmcf->models.nelts; j++) {
            if (models[j]->stats == stats) {
                break;
            }
        }

        if (j == hmcf->models.nelts && old == NULL) {
            old = stats;
        }
    }

    return old;
}


void
ngx_http_hymt_count(ngx_http_hymt_call_t *call, ngx_uint_t status,
    const char *code)
{
    if (call == NULL || call->counted) {
        return;
    }

    call->counted = 1;

    ngx_http_hymt_count_status(call, status);

    if (code != NULL) {
        ngx_http_hymt_count_reject(call, status, code);

    } else if (call->n_items) {
        ngx_http_hymt_count_texts(call);
        ngx_http_hymt_count_times(call);
    }

    ngx_http_hymt_record(call, code);
}


/* The client has gone, or NGINX has answered in our place. */
void
ngx_http_hymt_count_gone(ngx_http_hymt_call_t *call)
{
    ngx_uint_t  i, gone, status;

    if (call->counted) {
        return;
    }

    call->counted = 1;
    gone = call->start && !call->answered;
    status = call->r->headers_out.status;

    if (status == 0 || (gone && status == NGX_HTTP_OK)) {
        status = NGX_HTTP_CLIENT_CLOSED_REQUEST;
    }

    for (i = 0; ngx_http_hymt_codes[i] != 0; i++) {
        if (ngx_http_hymt_codes[i] == status) {
            break;
        }
    }

    ngx_http_hymt_add(call->model->stats->requests[call->api][i], 1);

    if (gone) {
        ngx_http_hymt_add(ngx_http_hymt_counters()->canceled, 1);
        ngx_http_hymt_add(call->model->stats->canceled, 1);

        ngx_http_hymt_record(call, "canceled");
    }
}


static void
ngx_http_hymt_count_status(ngx_http_hymt_call_t *call, ngx_uint_t status)
{
    ngx_uint_t                 i;
    ngx_atomic_t              *counter;
    ngx_http_hymt_counters_t  *counters;

    for (i = 0; ngx_http_hymt_codes[i] != 0; i++) {
        if (ngx_http_hymt_codes[i] == status) {
            break;
        }
    }

    ngx_http_hymt_add(call->model->stats->requests[call->api][i], 1);

    counters = ngx_http_hymt_counters();

    switch (status) {

    case NGX_HTTP_OK:
    case NGX_HTTP_CREATED:
    case NGX_HTTP_NO_CONTENT:
        counter = &counters->answered;
        break;

    case NGX_HTTP_TOO_MANY_REQUESTS:
    case NGX_HTTP_SERVICE_UNAVAILABLE:
        counter = &counters->rejected;
        break;

    case NGX_HTTP_GATEWAY_TIME_OUT:
        counter = &counters->timeouts;
        break;

    case NGX_HTTP_INTERNAL_SERVER_ERROR:
        counter = &counters->failed;
        break;

    default:
        counter = &counters->refused;
        break;
    }

    ngx_http_hymt_add(*counter, 1);
}


/* By what was wrong: an API may have given it another status. */
static void
ngx_http_hymt_count_reject(ngx_http_hymt_call_t *call, ngx_uint_t status,
    const char *code)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_HYMT_REJECT_OTHER; i++) {
        if (ngx_strcmp(code, ngx_http_hymt_rejects[i]) == 0) {
            break;
        }
    }

    if (i == NGX_HTTP_HYMT_REJECT_OTHER
        && status != NGX_HTTP_TOO_MANY_REQUESTS
        && status != NGX_HTTP_SERVICE_UNAVAILABLE)
    {
        return;
    }

    ngx_http_hymt_add(call->model->stats->rejected[i], 1);
}


/* All that were admitted, by languages; chats have none. */
void
ngx_http_hymt_count_admitted(ngx_http_hymt_call_t *call)
{
    ngx_int_t                  src, tgt;
    ngx_uint_t                 i;
    ngx_http_hymt_counters_t  *counters;

    counters = ngx_http_hymt_counters();

    ngx_http_hymt_add(counters->texts, call->n_items);
    ngx_http_hymt_add(call->model->stats->texts, call->n_items);

    tgt = call->job.tgt;

    if (call->chat || tgt < 0 || tgt >= HYMT_N_LANGS) {
        return;
    }

    for (i = 0; i < call->n_items; i++) {
        src = ngx_http_hymt_source(&call->items[i]);

        ngx_http_hymt_add(counters->pairs[src < 0 ? HYMT_N_LANGS : src][tgt],
                          1);
    }
}


void
ngx_http_hymt_count_resubmitted(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_add(ngx_http_hymt_counters()->resubmitted, 1);
    ngx_http_hymt_add(call->model->stats->resubmitted, 1);
}


static void
ngx_http_hymt_count_texts(ngx_http_hymt_call_t *call)
{
    ngx_uint_t                 i;
    ngx_http_hymt_item_t      *item;
    ngx_http_hymt_stats_t     *stats;
    ngx_http_hymt_counters_t  *counters;

    counters = ngx_http_hymt_counters();
    stats = call->model->stats;

    for (i = 0; i < call->n_items; i++) {
        item = &call->items[i];

        if (item->prompt_tokens == 0) {
            continue;
        }

        ngx_http_hymt_add(counters->tokens_in, item->prompt_tokens);
        ngx_http_hymt_add(counters->tokens_out, item->completion_tokens);
        ngx_http_hymt_add(stats->tokens_in, item->prompt_tokens);
        ngx_http_hymt_add(stats->tokens_out, item->completion_tokens);

        ngx_http_hymt_observe(stats, NGX_HTTP_HYMT_H_PROMPT_TOKENS,
                              item->prompt_tokens, 1);
        ngx_http_hymt_observe(stats, NGX_HTTP_HYMT_H_OUTPUT_TOKENS,
                              item->completion_tokens, 1);

        if (item->failure != NULL) {
            continue;
        }

        ngx_http_hymt_add(*(item->finish == HYMT_FINISH_LENGTH ? &stats->cut
                            : item->finish == HYMT_FINISH_LOOP
                              ? &stats->looped : &stats->stopped),
                          1);
    }
}


static void
ngx_http_hymt_count_times(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_stats_t  *stats;

    stats = call->model->stats;

    ngx_http_hymt_observe(stats, NGX_HTTP_HYMT_H_REQUEST,
                          hymt_now_ns() - call->start_ns, 1);

    /* texts that come back as they are never saw the engine */

    if (call->end_ns == 0) {
        return;
    }

    ngx_http_hymt_observe(stats, NGX_HTTP_HYMT_H_QUEUE, call->queue_ns, 1);
    ngx_http_hymt_observe(stats, NGX_HTTP_HYMT_H_FIRST, call->first_ns, 1);
    ngx_http_hymt_observe(stats, NGX_HTTP_HYMT_H_PREFILL,
                          call->first_ns - call->queue_ns, 1);
    ngx_http_hymt_observe(stats, NGX_HTTP_HYMT_H_DECODE,
                          call->end_ns - call->first_ns, 1);
}


/*
 * A job's result is in: what it says of the call's times.  The host's count
 * from when it took the job; here they begin when the body was read.
 */
void
ngx_http_hymt_measure(ngx_http_hymt_call_t *call, const hymt_result_t *result)
{
    uint64_t    now, taken, queue, first;
    ngx_uint_t  n;

    call->batch = ngx_max(call->batch, result->batch);

    if (result->code != HYMT_RESULT_OK || result->queue_ns == 0) {
        return;
    }

    now = hymt_now_ns() - call->start_ns;
    taken = now - ngx_min(now, result->total_ns);
    queue = ngx_min(taken + result->queue_ns, now);

    /* an end token at once is no token: the time of the answer stands in */

    first = result->first_ns ? ngx_min(taken + result->first_ns, now) : now;
    first = ngx_max(first, queue);

    if (call->end_ns == 0 || queue < call->queue_ns) {
        call->queue_ns = queue;
    }

    if (call->end_ns == 0 || first < call->first_ns) {
        call->first_ns = first;
    }

    call->end_ns = ngx_max(now, 1);

    n = result->completion_tokens;

    if (n > 1 && result->first_ns && result->total_ns > result->first_ns) {
        ngx_http_hymt_observe(call->model->stats, NGX_HTTP_HYMT_H_TOKEN,
                              (result->total_ns - result->first_ns) / (n - 1),
                              n - 1);
    }
}


/* What the access log may want to know when the call is gone. */
static void
ngx_http_hymt_record(ngx_http_hymt_call_t *call, const char *code)
{
    ngx_uint_t             i;
    ngx_http_hymt_ctx_t   *ctx;
    ngx_http_hymt_item_t  *item;

    ctx = call->ctx;

    ctx->finish = code;
    ctx->cache = ngx_http_hymt_cache_status(call);

    /* not admitted; or a thread is at it, of one that has timed out or gone */

    if (call->busy || call->jobs == NULL) {
        return;
    }

    ctx->asked = 1;
    ctx->src = ngx_http_hymt_source(&call->items[0]);
    ctx->tgt = call->chat ? HYMT_LANG_NONE : call->job.tgt;
    ctx->batch = call->batch;
    ctx->timed = call->end_ns ? 1 : 0;
    ctx->queue_ns = call->queue_ns;
    ctx->first_ns = call->first_ns;
    ctx->compute_ns = call->end_ns - call->queue_ns;

    for (i = 0; i < call->n_items; i++) {
        item = &call->items[i];

        ctx->tokens_in += item->prompt_tokens;
        ctx->tokens_out += item->completion_tokens;

        if (ngx_http_hymt_source(item) != ctx->src) {
            ctx->mixed = 1;
        }

        if (code == NULL) {
            ctx->worst = ngx_max(ctx->worst, item->finish);
        }
    }

    if (code == NULL) {
        ctx->finish = ctx->worst == HYMT_FINISH_LOOP ? "loop"
                      : ctx->worst == HYMT_FINISH_LENGTH ? "length" : "stop";
    }
}


static ngx_int_t
ngx_http_hymt_source(ngx_http_hymt_item_t *item)
{
    int32_t  src;

    src = item->src != HYMT_LANG_NONE ? item->src : item->detected;

    return (src >= 0 && src < HYMT_N_LANGS) ? src : HYMT_LANG_NONE;
}


static void
ngx_http_hymt_observe(ngx_http_hymt_stats_t *stats, ngx_uint_t which,
    uint64_t value, ngx_uint_t times)
{
    ngx_uint_t  i;

    i = hymt_bucket(ngx_http_hymt_bounds[which], value);

    ngx_http_hymt_add(stats->bucket[which][i], times);
    ngx_http_hymt_add(stats->sum[which], value * times);
}


/*
 * In worker 0, now and then: what its engine has done since, which is lost with
 * the engine, goes to what stays.
 */
void
ngx_http_hymt_fold(ngx_http_hymt_model_t *model, hymt_host_info_t *last)
{
    ngx_uint_t              i;
    hymt_host_info_t        info;
    ngx_http_hymt_stats_t  *stats;

    hymt_exchange_info(&model->exchange, &info);

    if (info.epoch != last->epoch) {
        ngx_memzero(last, sizeof(hymt_host_info_t));
    }

    stats = model->stats;

    ngx_http_hymt_add(stats->rows_prefill,
                      info.rows_prefill - last->rows_prefill);
    ngx_http_hymt_add(stats->rows_decode,
                      info.rows_decode - last->rows_decode);
    ngx_http_hymt_add(stats->prefix_hits,
                      info.prefix_hits - last->prefix_hits);
    ngx_http_hymt_add(stats->prefix_misses,
                      info.prefix_misses - last->prefix_misses);
    ngx_http_hymt_add(stats->prefix_tokens,
                      info.prefix_tokens - last->prefix_tokens);
    ngx_http_hymt_add(stats->coalesced, info.coalesced - last->coalesced);
    ngx_http_hymt_add(stats->prefix_evictions,
                      info.prefix_evictions - last->prefix_evictions);
    ngx_http_hymt_add(stats->sum[NGX_HTTP_HYMT_H_STEP],
                      info.step_ns - last->step_ns);
    ngx_http_hymt_add(stats->sum[NGX_HTTP_HYMT_H_BATCH],
                      info.step_seqs - last->step_seqs);

    for (i = 0; i < HYMT_BUCKETS; i++) {
        ngx_http_hymt_add(stats->bucket[NGX_HTTP_HYMT_H_STEP][i],
                          info.step_count[i] - last->step_count[i]);
        ngx_http_hymt_add(stats->bucket[NGX_HTTP_HYMT_H_BATCH][i],
                          info.batch_count[i] - last->batch_count[i]);
    }

    *last = info;
}
