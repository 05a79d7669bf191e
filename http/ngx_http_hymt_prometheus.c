
/*
 * Copyright (C) the hymt authors
 */


/*
 * hymt_status prometheus: text format 0.0.4.  Labels come from fixed lists and
 * from the configuration, never from requests.
 */


#include "ngx_http_hymt.h"


#define NGX_HTTP_HYMT_S  1000000000.0


/* A model, and its labels as they are written. */

typedef struct {
    ngx_http_hymt_model_t      *model;
    hymt_host_info_t            info;
    const char                 *state;
    char                       *labels;    /* model="..." */
    char                       *vllm;      /* model_name="...",engine="0" */
} ngx_http_hymt_view_t;


typedef struct {
    ngx_http_hymt_main_conf_t  *hmcf;
    ngx_http_hymt_counters_t   *counters;
    ngx_http_hymt_text_t       *out;
    ngx_http_hymt_view_t       *views;
    ngx_uint_t                  n_views;
} ngx_http_hymt_page_t;


typedef struct {
    const char                 *name;
    const char                 *vllm;      /* or NULL */
    const char                 *help;
    double                      unit;
} ngx_http_hymt_family_t;


static ngx_int_t ngx_http_hymt_views(ngx_http_request_t *r,
    ngx_http_hymt_page_t *page);
static char *ngx_http_hymt_labels(ngx_http_request_t *r, const char *key,
    ngx_str_t *name, const char *more);
static void ngx_http_hymt_head(ngx_http_hymt_page_t *page, const char *name,
    const char *type, const char *help);
static void ngx_http_hymt_line(ngx_http_hymt_page_t *page, const char *name,
    const char *labels, const char *more, double value);
static void ngx_http_hymt_general(ngx_http_hymt_page_t *page);
static void ngx_http_hymt_requests(ngx_http_hymt_page_t *page);
static ngx_uint_t ngx_http_hymt_offered(ngx_http_hymt_main_conf_t *hmcf,
    ngx_http_hymt_model_t *model, ngx_uint_t api);
static void ngx_http_hymt_counts(ngx_http_hymt_page_t *page);
static void ngx_http_hymt_pairs(ngx_http_hymt_page_t *page);
static void ngx_http_hymt_engines(ngx_http_hymt_page_t *page);
static void ngx_http_hymt_states(ngx_http_hymt_page_t *page);
static void ngx_http_hymt_gauges(ngx_http_hymt_page_t *page);
static void ngx_http_hymt_histograms(ngx_http_hymt_page_t *page,
    ngx_uint_t vllm);
static void ngx_http_hymt_histogram(ngx_http_hymt_page_t *page,
    const char *name, const char *labels, ngx_atomic_t *bucket,
    const uint64_t *bounds, ngx_uint_t n, double unit, double sum);
static void ngx_http_hymt_worker(ngx_http_hymt_page_t *page);
static void ngx_http_hymt_vllm(ngx_http_hymt_page_t *page);


static const ngx_http_hymt_family_t
    ngx_http_hymt_families[NGX_HTTP_HYMT_N_HISTOGRAMS] =
{
    { "hymt_request_seconds", "vllm:e2e_request_latency_seconds",
      "Time from the body to the answer, of requests that were translated.",
      NGX_HTTP_HYMT_S },

    { "hymt_queue_wait_seconds", "vllm:request_queue_time_seconds",
      "Time from the body to the engine's first step for it.",
      NGX_HTTP_HYMT_S },

    { "hymt_time_to_first_token_seconds", "vllm:time_to_first_token_seconds",
      "Time from the body to the first token.", NGX_HTTP_HYMT_S },

    { "hymt_prefill_seconds", "vllm:request_prefill_time_seconds",
      "Time from the first step to the first token.", NGX_HTTP_HYMT_S },

    { "hymt_decode_seconds", "vllm:request_decode_time_seconds",
      "Time from the first token to the last.", NGX_HTTP_HYMT_S },

    { "hymt_inter_token_seconds", "vllm:inter_token_latency_seconds",
      "Time between two tokens of a text, its mean for each.",
      NGX_HTTP_HYMT_S },

    { "hymt_text_prompt_tokens", "vllm:request_prompt_tokens",
      "Tokens of a text's prompts.", 1 },

    { "hymt_text_output_tokens", "vllm:request_generation_tokens",
      "Tokens of a text's output.", 1 },

    { "hymt_step_seconds", NULL, "Time of an engine's step.",
      NGX_HTTP_HYMT_S },

    { "hymt_batch_size", NULL, "Sequences in an engine's step.", 1 }
};


void
ngx_http_hymt_prometheus(ngx_http_request_t *r,
    ngx_http_hymt_main_conf_t *hmcf, ngx_uint_t vllm,
    ngx_http_hymt_text_t *out)
{
    ngx_http_hymt_page_t  page;

    ngx_memzero(&page, sizeof(ngx_http_hymt_page_t));

    page.hmcf = hmcf;
    page.counters = ngx_http_hymt_counters();
    page.out = out;

    if (ngx_http_hymt_views(r, &page) != NGX_OK) {
        out->failed = 1;
        return;
    }

    ngx_http_hymt_general(&page);
    ngx_http_hymt_engines(&page);

    /* without: this worker could not join the engine */

    if (page.counters == NULL) {
        return;
    }

    ngx_http_hymt_requests(&page);
    ngx_http_hymt_counts(&page);
    ngx_http_hymt_pairs(&page);
    ngx_http_hymt_histograms(&page, 0);
    ngx_http_hymt_worker(&page);

    if (vllm) {
        ngx_http_hymt_vllm(&page);
        ngx_http_hymt_histograms(&page, 1);
    }
}


static ngx_int_t
ngx_http_hymt_views(ngx_http_request_t *r, ngx_http_hymt_page_t *page)
{
    ngx_uint_t               i;
    ngx_http_hymt_view_t    *v;
    ngx_http_hymt_model_t  **models;

    models = page->hmcf->models.elts;

    page->n_views = 0;
    page->views = ngx_pcalloc(r->pool, (page->hmcf->models.nelts + 1)
                                       * sizeof(ngx_http_hymt_view_t));
    if (page->views == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < page->hmcf->models.nelts; i++) {

        if (!models[i]->used) {
            continue;
        }

        v = &page->views[page->n_views++];

        v->model = models[i];
        v->state = ngx_http_hymt_engine_info(models[i], &v->info)
                   ? ngx_http_hymt_state(page->hmcf, &v->info) : "starting";

        v->labels = ngx_http_hymt_labels(r, "model", &models[i]->name, "");
        v->vllm = ngx_http_hymt_labels(r, "model_name", &models[i]->name,
                                       ",engine=\"0\"");

        if (v->labels == NULL || v->vllm == NULL) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static char *
ngx_http_hymt_labels(ngx_http_request_t *r, const char *key, ngx_str_t *name,
    const char *more)
{
    char        *labels, *p;
    ngx_uint_t   i;

    labels = ngx_pnalloc(r->pool, ngx_strlen(key) + 2 * name->len
                                  + ngx_strlen(more) + sizeof("=\"\""));
    if (labels == NULL) {
        return NULL;
    }

    p = stpcpy(labels, key);
    p = stpcpy(p, "=\"");

    for (i = 0; i < name->len; i++) {

        if (name->data[i] == '\\' || name->data[i] == '"') {
            *p++ = '\\';
        }

        if (name->data[i] == '\n') {
            *p++ = '\\';
            *p++ = 'n';

        } else {
            *p++ = name->data[i];
        }
    }

    *p++ = '"';
    (void) stpcpy(p, more);

    return labels;
}


static void
ngx_http_hymt_head(ngx_http_hymt_page_t *page, const char *name,
    const char *type, const char *help)
{
    int   n;
    char  text[512];

    n = snprintf(text, sizeof(text), "# HELP %s %s\n# TYPE %s %s\n", name,
                 help, name, type);

    ngx_http_hymt_append(page->out, text, n);
}


/* labels and more, with a comma before it, may be NULL */
static void
ngx_http_hymt_line(ngx_http_hymt_page_t *page, const char *name,
    const char *labels, const char *more, double value)
{
    int                    n;
    char                   text[64];
    ngx_http_hymt_text_t  *out;

    out = page->out;

    ngx_http_hymt_append(out, name, ngx_strlen(name));

    if (labels != NULL || more != NULL) {
        ngx_http_hymt_append(out, "{", 1);

        if (labels != NULL) {
            ngx_http_hymt_append(out, labels, ngx_strlen(labels));
        }

        if (more != NULL) {
            more += (labels == NULL);
            ngx_http_hymt_append(out, more, ngx_strlen(more));
        }

        ngx_http_hymt_append(out, "}", 1);
    }

    /* whole numbers as such, up to 2^53; times to the microsecond */

    n = snprintf(text, sizeof(text),
                 value == (double) (int64_t) value ? " %.0f\n" : " %.6f\n",
                 value);

    ngx_http_hymt_append(out, text, n);
}


static void
ngx_http_hymt_general(ngx_http_hymt_page_t *page)
{
    ngx_http_hymt_head(page, "hymt_info", "gauge", "The version that runs.");
    ngx_http_hymt_line(page, "hymt_info", NULL,
                       ",version=\"" HYMT_VERSION "\"", 1);

    ngx_http_hymt_head(page, "hymt_workers", "gauge", "Worker processes.");
    ngx_http_hymt_line(page, "hymt_workers", NULL, NULL, page->hmcf->lanes);
}


static void
ngx_http_hymt_requests(ngx_http_hymt_page_t *page)
{
    char                    more[64], code[16];
    ngx_uint_t              i, a, c, n;
    ngx_http_hymt_view_t   *v;

    ngx_http_hymt_head(page, "hymt_requests_total", "counter",
                       "Requests by API and status; 499: the client left.");

    for (i = 0; i < page->n_views; i++) {
        v = &page->views[i];

        for (a = 0; a < NGX_HTTP_HYMT_MAX_APIS && ngx_http_hymt_apis[a]; a++) {

            for (c = 0; c < NGX_HTTP_HYMT_N_CODES; c++) {
                n = v->model->stats->requests[a][c];

                /* what can be expected is there from the beginning */

                if (n == 0
                    && (ngx_http_hymt_codes[c] != NGX_HTTP_OK
                        || !ngx_http_hymt_offered(page->hmcf, v->model, a)))
                {
                    continue;
                }

                (void) snprintf(code, sizeof(code), "%u",
                                (unsigned) ngx_http_hymt_codes[c]);
                (void) snprintf(more, sizeof(more),
                                ",api=\"%s\",code=\"%s\"",
                                (char *) ngx_http_hymt_apis[a]->name.data,
                                ngx_http_hymt_codes[c] ? code : "other");

                ngx_http_hymt_line(page, "hymt_requests_total", v->labels,
                                   more, n);
            }
        }
    }
}


static ngx_uint_t
ngx_http_hymt_offered(ngx_http_hymt_main_conf_t *hmcf,
    ngx_http_hymt_model_t *model, ngx_uint_t api)
{
    ngx_uint_t                  i;
    ngx_http_hymt_loc_conf_t  **locations;

    locations = hmcf->locations.elts;

    for (i = 0; i < hmcf->locations.nelts; i++) {
        if (locations[i]->model == model
            && locations[i]->api == ngx_http_hymt_apis[api])
        {
            return 1;
        }
    }

    return 0;
}


static void
ngx_http_hymt_counts(ngx_http_hymt_page_t *page)
{
    char                    more[64];
    ngx_uint_t              i, j, k;
    ngx_http_hymt_stats_t  *s;

    static const struct {
        const char  *name;
        const char  *help;
        const char  *more[3];
        size_t       at[3];
    } counts[] = {

        { "hymt_texts_total", "Texts that were admitted.", { NULL },
          { offsetof(ngx_http_hymt_stats_t, texts) } },

        { "hymt_tokens_total", "Tokens of texts that were answered.",
          { ",kind=\"prompt\"", ",kind=\"output\"" },
          { offsetof(ngx_http_hymt_stats_t, tokens_in),
            offsetof(ngx_http_hymt_stats_t, tokens_out) } },

        { "hymt_truncations_total",
          "Texts whose output was cut: too long, or it repeated itself.",
          { ",reason=\"length\"", ",reason=\"loop\"" },
          { offsetof(ngx_http_hymt_stats_t, cut),
            offsetof(ngx_http_hymt_stats_t, looped) } },

        { "hymt_cancels_total", "Requests whose client went away.", { NULL },
          { offsetof(ngx_http_hymt_stats_t, canceled) } },

        { "hymt_resubmissions_total",
          "Requests asked again after their engine had died.", { NULL },
          { offsetof(ngx_http_hymt_stats_t, resubmitted) } },

        { "hymt_translation_cache_hits_total",
          "Texts and parts of texts that the cache had.", { NULL },
          { offsetof(ngx_http_hymt_stats_t, cache_hits) } },

        { "hymt_translation_cache_misses_total",
          "Those that it did not have.", { NULL },
          { offsetof(ngx_http_hymt_stats_t, cache_misses) } },

        { "hymt_translation_cache_stores_total",
          "Results that it has taken.", { NULL },
          { offsetof(ngx_http_hymt_stats_t, cache_stores) } },

        { "hymt_translation_cache_evictions_total",
          "Results that had to go for others.", { NULL },
          { offsetof(ngx_http_hymt_stats_t, cache_evictions) } },

        { "hymt_engine_tokens_total",
          "Tokens that went through the engines, in vain or not.",
          { ",kind=\"prompt\"", ",kind=\"output\"" },
          { offsetof(ngx_http_hymt_stats_t, rows_prefill),
            offsetof(ngx_http_hymt_stats_t, rows_decode) } },

        { "hymt_prefix_cache_lookups_total",
          "Prompts whose beginning was looked for in the KV cache.",
          { ",result=\"hit\"", ",result=\"miss\"" },
          { offsetof(ngx_http_hymt_stats_t, prefix_hits),
            offsetof(ngx_http_hymt_stats_t, prefix_misses) } },

        { "hymt_prefix_cache_tokens_total",
          "Prompt tokens that were there and not computed again.", { NULL },
          { offsetof(ngx_http_hymt_stats_t, prefix_tokens) } },

        { "hymt_prefix_cache_evictions_total",
          "Blocks forgotten to make room.", { NULL },
          { offsetof(ngx_http_hymt_stats_t, prefix_evictions) } },

        { "hymt_coalesced_total",
          "Texts and parts of texts computed once with an equal one.",
          { NULL }, { offsetof(ngx_http_hymt_stats_t, coalesced) } },

        { "hymt_engine_starts_total", "Engines started.", { NULL },
          { offsetof(ngx_http_hymt_stats_t, starts) } }
    };

    for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        ngx_http_hymt_head(page, counts[i].name, "counter", counts[i].help);

        for (j = 0; j < page->n_views; j++) {
            s = page->views[j].model->stats;

            for (k = 0; k == 0 || counts[i].more[k] != NULL; k++) {
                ngx_http_hymt_line(page, counts[i].name,
                                   page->views[j].labels, counts[i].more[k],
                                   *(ngx_atomic_t *) ((u_char *) s
                                                      + counts[i].at[k]));
            }
        }
    }

    ngx_http_hymt_head(page, "hymt_rejections_total", "counter",
                       "Requests that got 429 or 503, by reason.");

    for (j = 0; j < page->n_views; j++) {
        s = page->views[j].model->stats;

        for (k = 0; k < NGX_HTTP_HYMT_N_REJECTS; k++) {
            (void) snprintf(more, sizeof(more), ",reason=\"%s\"",
                            ngx_http_hymt_rejects[k]);

            ngx_http_hymt_line(page, "hymt_rejections_total",
                               page->views[j].labels, more, s->rejected[k]);
        }
    }
}


/* Only those that were asked for: there are 1,482. */
static void
ngx_http_hymt_pairs(ngx_http_hymt_page_t *page)
{
    char        more[64];
    ngx_uint_t  i, j, n;

    ngx_http_hymt_head(page, "hymt_language_pair_texts_total", "counter",
                       "Texts by languages; source none: not given.");

    for (i = 0; i <= HYMT_N_LANGS; i++) {

        for (j = 0; j < HYMT_N_LANGS; j++) {
            n = page->counters->pairs[i][j];

            if (n == 0) {
                continue;
            }

            (void) snprintf(more, sizeof(more),
                            ",source=\"%.8s\",target=\"%.8s\"",
                            i < HYMT_N_LANGS ? hymt_langs[i].code : "none",
                            hymt_langs[j].code);

            ngx_http_hymt_line(page, "hymt_language_pair_texts_total", NULL,
                               more, n);
        }
    }
}


static void
ngx_http_hymt_engines(ngx_http_hymt_page_t *page)
{
    ngx_uint_t             i;
    ngx_http_hymt_view_t  *v;

    ngx_http_hymt_head(page, "hymt_engine_up", "gauge",
                       "Whether the engine is ready and not stuck.");

    for (i = 0; i < page->n_views; i++) {
        v = &page->views[i];

        ngx_http_hymt_line(page, "hymt_engine_up", v->labels, NULL,
                           ngx_strcmp(v->state, "ready") == 0);
    }

    ngx_http_hymt_states(page);
    ngx_http_hymt_gauges(page);
}


static void
ngx_http_hymt_states(ngx_http_hymt_page_t *page)
{
    char        more[64];
    ngx_uint_t  i, j;

    static const char *const  states[] = {
        "starting", "loading", "ready", "stuck", "failed", "stopped",
        "backing off"
    };

    ngx_http_hymt_head(page, "hymt_engine_state", "gauge",
                       "1 for the state that the engine is in.");

    for (i = 0; i < page->n_views; i++) {

        for (j = 0; j < sizeof(states) / sizeof(states[0]); j++) {
            (void) snprintf(more, sizeof(more), ",state=\"%s\"", states[j]);

            ngx_http_hymt_line(page, "hymt_engine_state",
                               page->views[i].labels, more,
                               ngx_strcmp(page->views[i].state, states[j])
                               == 0);
        }
    }
}


static void
ngx_http_hymt_gauges(ngx_http_hymt_page_t *page)
{
    double             value[16];
    ngx_uint_t         i, j;
    hymt_host_info_t  *info;

    static const struct {
        const char  *name;
        const char  *help;
        const char  *more;
    } gauges[] = {
        { "hymt_engine_epoch", "Engines of this configuration so far.", NULL },
        { "hymt_model_load_seconds", "Time the model took to load.", NULL },
        { "hymt_queue_depth", "Texts and parts of texts that wait.", NULL },
        { "hymt_queue_limit", "How many may wait or run.", NULL },
        { "hymt_in_flight", "Texts and parts of texts that wait or run.",
          NULL },
        { "hymt_running", "Sequences in the engine's batch.", NULL },
        { "hymt_max_batch", "Most sequences in a batch.", NULL },
        { "hymt_context_tokens", "Most tokens of a prompt and its output.",
          NULL },
        { "hymt_kv_blocks", "Blocks of the KV cache.", NULL },
        { "hymt_kv_blocks_used", "Those that sequences hold.", NULL },
        { "hymt_prefix_cache_blocks",
          "Those that hold a prompt's beginning, in use or not.", NULL },
        { "hymt_step_max_seconds", "The engine's longest step.", NULL },
        { "hymt_memory_bytes", "Memory of the engine.", ",kind=\"weights\"" },
        { "hymt_memory_bytes", NULL, ",kind=\"kv\"" },
        { "hymt_memory_bytes", NULL, ",kind=\"other\"" }
    };

    for (i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++) {

        if (gauges[i].help != NULL) {
            ngx_http_hymt_head(page, gauges[i].name, "gauge", gauges[i].help);
        }

        for (j = 0; j < page->n_views; j++) {
            info = &page->views[j].info;

            value[0] = info->epoch;
            value[1] = (double) info->load_ns / NGX_HTTP_HYMT_S;
            value[2] = info->waiting;
            value[3] = page->views[j].model->queue;
            value[4] = page->views[j].model->exchange.mem
                       ? ngx_http_hymt_in_flight(page->views[j].model) : 0;
            value[5] = info->running;
            value[6] = info->max_batch;
            value[7] = info->context;
            value[8] = info->kv_blocks;
            value[9] = info->kv_blocks_used;
            value[10] = info->prefix_blocks;
            value[11] = (double) info->step_max_ns / NGX_HTTP_HYMT_S;
            value[12] = info->bytes_weights;
            value[13] = info->bytes_kv;
            value[14] = info->bytes_other;

            ngx_http_hymt_line(page, gauges[i].name, page->views[j].labels,
                               gauges[i].more, value[i]);
        }
    }
}


static void
ngx_http_hymt_histograms(ngx_http_hymt_page_t *page, ngx_uint_t vllm)
{
    ngx_uint_t                     i, j;
    const char                    *name;
    ngx_http_hymt_view_t          *v;
    ngx_http_hymt_stats_t         *stats;
    const ngx_http_hymt_family_t  *family;

    for (i = 0; i < NGX_HTTP_HYMT_N_HISTOGRAMS; i++) {
        family = &ngx_http_hymt_families[i];
        name = vllm ? family->vllm : family->name;

        if (name == NULL) {
            continue;
        }

        ngx_http_hymt_head(page, name, "histogram", family->help);

        for (j = 0; j < page->n_views; j++) {
            v = &page->views[j];
            stats = v->model->stats;

            ngx_http_hymt_histogram(page, name, vllm ? v->vllm : v->labels,
                                    stats->bucket[i], ngx_http_hymt_bounds[i],
                                    HYMT_BUCKETS, family->unit,
                                    (double) stats->sum[i] / family->unit);
        }
    }
}


/* Each bucket is read once, so that what is shown agrees with itself. */
static void
ngx_http_hymt_histogram(ngx_http_hymt_page_t *page, const char *name,
    const char *labels, ngx_atomic_t *bucket, const uint64_t *bounds,
    ngx_uint_t n, double unit, double sum)
{
    char        full[128], more[64];
    ngx_uint_t  i, count;

    (void) snprintf(full, sizeof(full), "%s_bucket", name);

    count = 0;

    for (i = 0; i < n; i++) {
        count += bucket[i];

        if (i < n - 1) {
            (void) snprintf(more, sizeof(more), ",le=\"%.9g\"",
                            (double) bounds[i] / unit);
        } else {
            (void) snprintf(more, sizeof(more), ",le=\"+Inf\"");
        }

        ngx_http_hymt_line(page, full, labels, more, count);
    }

    (void) snprintf(full, sizeof(full), "%s_sum", name);
    ngx_http_hymt_line(page, full, labels, NULL, sum);

    (void) snprintf(full, sizeof(full), "%s_count", name);
    ngx_http_hymt_line(page, full, labels, NULL, count);
}


static void
ngx_http_hymt_worker(ngx_http_hymt_page_t *page)
{
    char        more[64];
    uint64_t    bounds[NGX_HTTP_HYMT_LOOP_BUCKETS - 1];
    ngx_uint_t  i;

    ngx_http_hymt_head(page, "hymt_buffers_bytes", "gauge",
                       "What a worker holds of bodies, jobs and answers.");

    for (i = 0; i < page->hmcf->lanes; i++) {
        (void) snprintf(more, sizeof(more), ",worker=\"%u\"", (unsigned) i);

        ngx_http_hymt_line(page, "hymt_buffers_bytes", NULL, more,
                           page->counters->buffers[i]);
    }

    ngx_http_hymt_head(page, "hymt_buffers_limit_bytes", "gauge",
                       "How much of that each may hold.");
    ngx_http_hymt_line(page, "hymt_buffers_limit_bytes", NULL, NULL,
                       page->hmcf->buffers);

    for (i = 0; i < NGX_HTTP_HYMT_LOOP_BUCKETS - 1; i++) {
        bounds[i] = ngx_http_hymt_loop_us[i];
    }

    ngx_http_hymt_head(page, "hymt_event_loop_seconds", "histogram",
                       "CPU time of a turn of the event loop, from where it"
                       " comes to the module.");
    ngx_http_hymt_histogram(page, "hymt_event_loop_seconds", NULL,
                            page->counters->loop, bounds,
                            NGX_HTTP_HYMT_LOOP_BUCKETS, 1000000,
                            (double) page->counters->loop_ns
                            / NGX_HTTP_HYMT_S);

    ngx_http_hymt_head(page, "hymt_event_loop_max_seconds", "gauge",
                       "The longest turn of the event loop.");
    ngx_http_hymt_line(page, "hymt_event_loop_max_seconds", NULL, NULL,
                       (double) page->counters->loop_max / 1000000);
}


/* Names that dashboards and autoscalers know; the histograms follow. */
static void
ngx_http_hymt_vllm(ngx_http_hymt_page_t *page)
{
    double                  value[10];
    ngx_uint_t              i, j;
    ngx_http_hymt_view_t   *v;
    ngx_http_hymt_stats_t  *s;

    static const struct {
        const char  *name;
        const char  *type;
        const char  *help;
        const char  *more;
    } lines[] = {
        { "vllm:num_requests_running", "gauge", "As hymt_running.", NULL },
        { "vllm:num_requests_waiting", "gauge", "As hymt_queue_depth.", NULL },
        { "vllm:kv_cache_usage_perc", "gauge",
          "As hymt_kv_blocks_used / hymt_kv_blocks.", NULL },
        { "vllm:prefix_cache_queries_total", "counter",
          "Prompt tokens that went through the engine or were cached.", NULL },
        { "vllm:prefix_cache_hits_total", "counter",
          "As hymt_prefix_cache_tokens_total.", NULL },
        { "vllm:prompt_tokens_total", "counter",
          "As hymt_tokens_total, prompt.", NULL },
        { "vllm:generation_tokens_total", "counter",
          "As hymt_tokens_total, output.", NULL },
        { "vllm:request_success_total", "counter", "Texts, by their end.",
          ",finished_reason=\"stop\"" },
        { "vllm:request_success_total", NULL, NULL,
          ",finished_reason=\"length\"" },
        { "vllm:request_success_total", NULL, NULL,
          ",finished_reason=\"abort\"" }
    };

    for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {

        if (lines[i].type != NULL) {
            ngx_http_hymt_head(page, lines[i].name, lines[i].type,
                               lines[i].help);
        }

        for (j = 0; j < page->n_views; j++) {
            v = &page->views[j];
            s = v->model->stats;

            value[0] = v->info.running;
            value[1] = v->info.waiting;
            value[2] = v->info.kv_blocks ? (double) v->info.kv_blocks_used
                                           / v->info.kv_blocks : 0;
            value[3] = s->rows_prefill + s->prefix_tokens;
            value[4] = s->prefix_tokens;
            value[5] = s->tokens_in;
            value[6] = s->tokens_out;
            value[7] = s->stopped;
            value[8] = s->cut + s->looped;
            value[9] = s->canceled;

            ngx_http_hymt_line(page, lines[i].name, v->vllm, lines[i].more,
                               value[i]);
        }
    }
}
