/*
 * host_prompt.c - what a job asks for, checked and made into a sequence: its
 * prompt's tokens, its cap, what ends it.
 */

#include "host_private.h"

#include <string.h>


/*
 * A text whose prompt leaves less than this for the output can't be translated
 * in one piece: it is refused rather than cut.  Less in a small context.
 */
#define HYMT_MIN_OUTPUT  256

#define HYMT_CAP_RATIO  4
#define HYMT_CAP_GROWN  8
#define HYMT_CAP_EXTRA  128


static hymt_status_t hymt_host_check_lang(hymt_host_t *host, const char *what,
    int32_t lang, hymt_error_t *err);
static hymt_status_t hymt_host_check_parts(const hymt_job_t *job,
    hymt_error_t *err);
static hymt_status_t hymt_host_request(hymt_host_t *host,
    const hymt_job_t *job, hymt_prompt_request_t *r, hymt_error_t *err);
static hymt_status_t hymt_host_stops(hymt_host_t *host, hymt_host_job_t *job,
    hymt_error_t *err);
static hymt_status_t hymt_host_fit(hymt_host_t *host, const hymt_job_t *job,
    uint64_t n, uint64_t n_text, uint32_t *max_new, hymt_error_t *err);
static uint64_t hymt_host_cap(const hymt_job_t *job, uint64_t n_text);


hymt_status_t
hymt_host_check(hymt_host_t *host, const hymt_job_t *job, hymt_error_t *err)
{
    if (hymt_host_check_parts(job, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    if (!(job->max_ratio >= 0 && job->max_ratio <= HYMT_MAX_RATIO)) {
        return hymt_fail(err, "max_ratio %g is not between 0 and %d",
                         (double) job->max_ratio, HYMT_MAX_RATIO);
    }

    if (job->part_len[HYMT_PART_CHAT] > 0) {
        return hymt_sampling_check(&job->sampling, err);
    }

    if (job->src != HYMT_LANG_NONE
        && hymt_host_check_lang(host, "source", job->src, err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (hymt_host_check_lang(host, "target", job->tgt, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    return hymt_sampling_check(&job->sampling, err);
}


/* What the prompt can't tell: that there is a text, or else a chat alone. */
static hymt_status_t
hymt_host_check_parts(const hymt_job_t *job, hymt_error_t *err)
{
    size_t    bad;
    uint32_t  i;

    if (job->part_len[HYMT_PART_CHAT] > 0) {

        for (i = 0; i < HYMT_N_PARTS; i++) {
            if (i != HYMT_PART_CHAT && i != HYMT_PART_STOPS
                && job->part_len[i] > 0)
            {
                break;
            }
        }

        if (i < HYMT_N_PARTS || (job->flags & HYMT_JOB_FORMATTED)) {
            return hymt_fail(err, "a chat brings its own prompt: no text,"
                             " terms, context, style or tags can come with"
                             " it");
        }

        return HYMT_OK;
    }

    if (job->part_len[HYMT_PART_TEXT] == 0) {
        return hymt_fail(err, "the text is empty");
    }

    if (!hymt_utf8_check(job->part[HYMT_PART_TEXT],
                         job->part_len[HYMT_PART_TEXT], &bad))
    {
        return hymt_fail(err, "the text is not UTF-8 at byte %zu", bad);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_host_check_lang(hymt_host_t *host, const char *what, int32_t lang,
    hymt_error_t *err)
{
    char  list[HYMT_REASON_MAX];

    if (lang < 0 || lang >= HYMT_N_LANGS) {
        return hymt_fail(err, "%s language %d is none of 0 to %d", what, lang,
                         HYMT_N_LANGS - 1);
    }

    if (host->languages >> lang & 1) {
        return HYMT_OK;
    }

    (void) hymt_lang_list(host->languages, list, sizeof(list));

    return hymt_fail(err, "the model does not know %s as a %s language; it"
                     " knows %s", hymt_langs[lang].english, what, list);
}


hymt_status_t
hymt_host_prompt(hymt_host_t *host, hymt_host_job_t *job, hymt_error_t *err)
{
    size_t                  n, n_text;
    uint32_t               *ids, max_new;
    hymt_status_t           rc;
    hymt_prompt_request_t   request;

    rc = hymt_host_request(host, &job->job, &request, err);

    if (rc == HYMT_OK) {
        rc = hymt_prompt_build(host->prompter, host->enc, &request,
                               host->scratch_ids, host->scratch_cap, &n,
                               &n_text, err);
    }

    if (rc != HYMT_OK) {
        return rc;
    }

    rc = hymt_host_fit(host, &job->job, n, n_text, &max_new, err);

    if (rc != HYMT_OK) {
        return rc;
    }

    ids = hymt_host_grow(job->ids, &job->ids_cap, n + max_new,
                         sizeof(uint32_t));
    if (ids == NULL) {
        (void) hymt_fail(err, "the engine host has no memory");
        return HYMT_AGAIN;
    }

    job->ids = ids;
    memcpy(job->ids, host->scratch_ids, n * sizeof(uint32_t));

    job->seq.prompt = job->ids;
    job->seq.n_prompt = (uint32_t) n;
    job->seq.out = job->ids + n;
    job->seq.max_new = max_new;
    job->seq.sampling = job->job.sampling;
    job->seq.scope = job->job.scope;
    job->seq.priority = job->job.priority;
    memcpy(job->seq.flow, job->job.flow, sizeof(job->seq.flow));
    job->seq.started = hymt_server_started(host->server, job->lane, job->slot);

    return hymt_host_stops(host, job, err);
}


static hymt_status_t
hymt_host_request(hymt_host_t *host, const hymt_job_t *job,
    hymt_prompt_request_t *r, hymt_error_t *err)
{
    memset(r, 0, sizeof(*r));

    r->src = job->src;
    r->tgt = job->tgt;
    r->text = job->part[HYMT_PART_TEXT];
    r->len = job->part_len[HYMT_PART_TEXT];
    r->context = job->part[HYMT_PART_CONTEXT];
    r->context_len = job->part_len[HYMT_PART_CONTEXT];
    r->style = job->part[HYMT_PART_STYLE];
    r->style_len = job->part_len[HYMT_PART_STYLE];
    r->formatted = (job->flags & HYMT_JOB_FORMATTED) != 0;
    r->terms = host->terms;
    r->turns = host->turns;

    if (hymt_terms_read(job->part[HYMT_PART_TERMS],
                        job->part_len[HYMT_PART_TERMS], host->terms,
                        &r->n_terms, err)
        != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    return hymt_turns_read(job->part[HYMT_PART_CHAT],
                           job->part_len[HYMT_PART_CHAT], host->turns,
                           &r->n_turns, err);
}


/* The end tokens, and the stop strings, whose part goes with the next job. */
static hymt_status_t
hymt_host_stops(hymt_host_t *host, hymt_host_job_t *job, hymt_error_t *err)
{
    uint32_t     n, len;
    const char  *text;

    text = job->job.part[HYMT_PART_STOPS];
    len = job->job.part_len[HYMT_PART_STOPS];
    n = host->params.engine.ignore_eos ? 0 : host->n_stops;

    if (hymt_stops_check(text, len, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    if (len > 0) {
        memcpy(job->stop_text, text, len);
    }

    job->stop_text_len = len;
    job->seq.stop = host->stops;
    job->seq.n_stop = n;

    if (job->job.n_stop > 0) {
        memcpy(job->stops, host->stops, n * sizeof(uint32_t));
        memcpy(job->stops + n, job->job.stop,
               job->job.n_stop * sizeof(uint32_t));

        job->seq.stop = job->stops;
        job->seq.n_stop += job->job.n_stop;
    }

    return HYMT_OK;
}


/* How many tokens the output may have. */
static hymt_status_t
hymt_host_fit(hymt_host_t *host, const hymt_job_t *job, uint64_t n,
    uint64_t n_text, uint32_t *max_new, hymt_error_t *err)
{
    uint64_t                    context, pool, least, want, frame;
    const hymt_engine_stats_t  *stats;

    stats = hymt_engine_stats(host->engine);
    context = atomic_load_explicit(&stats->context, memory_order_relaxed);
    pool = atomic_load_explicit(&stats->kv_blocks, memory_order_relaxed);
    pool *= HYMT_KV_BLOCK;
    context = hymt_min(context, pool);

    want = job->max_tokens != 0 ? job->max_tokens : hymt_host_cap(job, n_text);

    least = hymt_min((uint64_t) HYMT_MIN_OUTPUT, context / 32);
    least = hymt_min(hymt_max(least, 1), want);

    if (n + least > context && job->part_len[HYMT_PART_CHAT] > 0) {
        (void) hymt_fail(err, "the messages are %llu tokens; the context of"
                         " %llu has no room for an answer",
                         (unsigned long long) n, (unsigned long long) context);
        return HYMT_TOO_LONG;
    }

    if (n + least > context) {
        frame = n - hymt_min(n, n_text) + least;

        (void) hymt_fail(err, "the text is %llu tokens; the context of %llu"
                         " leaves room for %llu: split it",
                         (unsigned long long) n_text,
                         (unsigned long long) context,
                         (unsigned long long) (context
                                               - hymt_min(context, frame)));
        return HYMT_TOO_LONG;
    }

    *max_new = (uint32_t) hymt_min(want, context - n);

    return HYMT_OK;
}


static uint64_t
hymt_host_cap(const hymt_job_t *job, uint64_t n_text)
{
    double  ratio;

    ratio = job->max_ratio;

    if (ratio == 0) {
        ratio = job->part_len[HYMT_PART_CHAT] == 0 && hymt_lang_grows(job->tgt)
                ? HYMT_CAP_GROWN : HYMT_CAP_RATIO;
    }

    return (uint64_t) (ratio * (double) n_text) + HYMT_CAP_EXTRA;
}
