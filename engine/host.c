/*
 * host.c - start and stop of the engine host, and the loading between.
 */

#include "host_private.h"

#include "spsc.h"
#include "thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


/* A text has at most one token a byte, but normal forms can make it longer. */
#define HYMT_SCRATCH_EXTRA  4096


static hymt_status_t hymt_host_copy(hymt_host_t *host,
    const hymt_host_params_t *params, hymt_error_t *err);
static char *hymt_host_copy_string(char **at, const char *s);
static hymt_status_t hymt_host_spawn(hymt_host_t *host, hymt_error_t *err);
static void hymt_host_free(hymt_host_t *host);

static hymt_status_t hymt_host_load_text(hymt_host_t *host,
    hymt_error_t *err);
static hymt_status_t hymt_host_load_prompts(hymt_host_t *host,
    const hymt_config_t *config, hymt_error_t *err);
static void hymt_host_ready(hymt_host_t *host);
static void hymt_host_fail(hymt_host_t *host, const char *reason);
static void hymt_host_reason(hymt_host_t *host, const char *reason);


hymt_status_t
hymt_host_start(const hymt_host_params_t *params, hymt_host_t **host,
    hymt_error_t *err)
{
    hymt_host_t  *h;

    *host = NULL;

    h = calloc(1, sizeof(*h));
    if (h == NULL) {
        return hymt_fail(err, "no memory for an engine host");
    }

    if (hymt_host_log_init(&h->log, params->log_fd, err) != HYMT_OK) {
        free(h);
        return HYMT_ERROR;
    }

    if (hymt_host_copy(h, params, err) != HYMT_OK
        || hymt_server_open(&params->exchange, params->own_fd,
                            params->lane_fds, &h->server, err)
           != HYMT_OK
        || hymt_host_spawn(h, err) != HYMT_OK)
    {
        hymt_host_free(h);
        return HYMT_ERROR;
    }

    *host = h;

    return HYMT_OK;
}


static hymt_status_t
hymt_host_copy(hymt_host_t *host, const hymt_host_params_t *params,
    hymt_error_t *err)
{
    char                          *at;
    size_t                         size;
    uint64_t                       seqs;
    const hymt_exchange_params_t  *ep;

    size = strlen(params->engine.model) + strlen(params->engine.backend) + 2
           + (params->override != NULL ? strlen(params->override) + 1 : 0);

    ep = &params->exchange.params;

    host->scratch_cap = (size_t) ep->in_bytes + HYMT_SCRATCH_EXTRA;
    host->scratch_text = malloc((size_t) ep->in_bytes + 1);
    host->scratch_ids = malloc(host->scratch_cap * sizeof(uint32_t));
    host->strings = malloc(size);

    if (host->scratch_text == NULL || host->scratch_ids == NULL
        || host->strings == NULL)
    {
        return hymt_fail(err, "no memory for an engine host that takes texts"
                         " of %u bytes", ep->in_bytes);
    }

    seqs = (uint64_t) ep->n_lanes * ep->n_slots;

    host->params = *params;
    host->params.engine.max_seqs = (uint32_t) hymt_min(seqs, HYMT_SPSC_MAX);
    host->params.engine.news_fd = params->own_fd;

    at = host->strings;
    host->params.engine.model = hymt_host_copy_string(&at,
                                                      params->engine.model);
    host->params.engine.backend = hymt_host_copy_string(&at,
                                                    params->engine.backend);
    host->params.override = params->override != NULL
                            ? hymt_host_copy_string(&at, params->override)
                            : NULL;
    host->params.lane_fds = NULL;

    host->state = HYMT_HOST_LOADING;
    host->nearest = UINT64_MAX;
    host->t_start = hymt_now_ns();

    return HYMT_OK;
}


static char *
hymt_host_copy_string(char **at, const char *s)
{
    char    *copy;
    size_t   n;

    n = strlen(s) + 1;
    copy = memcpy(*at, s, n);
    *at += n;

    return copy;
}


static hymt_status_t
hymt_host_spawn(hymt_host_t *host, hymt_error_t *err)
{
    int  rc;

    rc = hymt_thread_start(&host->thread, "hymt-text", hymt_host_thread, host);
    if (rc != 0) {
        return hymt_fail(err, "can't start the text thread: %s", strerror(rc));
    }

    return HYMT_OK;
}


void
hymt_host_stop(hymt_host_t *host)
{
    ssize_t   n;
    uint64_t  one;

    if (host == NULL) {
        return;
    }

    one = 1;
    atomic_store(&host->stop, 1);
    n = write(host->params.own_fd, &one, sizeof(one));
    (void) n;

    pthread_join(host->thread, NULL);

    hymt_host_free(host);
}


static void
hymt_host_free(hymt_host_t *host)
{
    hymt_server_close(host->server);
    hymt_host_jobs_free(host);

    hymt_encoder_free(host->enc);
    hymt_prompter_free(host->prompter);
    hymt_tokenizer_free(host->tok);

    free(host->scratch_text);
    free(host->scratch_ids);
    free(host->strings);

    hymt_host_log_done(&host->log);
    free(host);
}


/* Weights load on the engine thread meanwhile. */
void
hymt_host_load(hymt_host_t *host)
{
    hymt_error_t  err;

    hymt_host_say(host, HYMT_LOG_NOTICE, "loading %s",
                  host->params.engine.model);

    if (hymt_engine_start(&host->params.engine, &host->engine, &err)
        != HYMT_OK)
    {
        host->engine = NULL;
        hymt_host_fail(host, err.text);
        return;
    }

    if (hymt_host_load_text(host, &err) != HYMT_OK) {
        hymt_engine_stop(host->engine);
        host->engine = NULL;
        hymt_host_fail(host, err.text);
    }
}


static hymt_status_t
hymt_host_load_text(hymt_host_t *host, hymt_error_t *err)
{
    const char     *dir;
    hymt_config_t   config;

    dir = host->params.engine.model;

    if (hymt_config_read(dir, &config, err) != HYMT_OK
        || hymt_tokenizer_load(dir, &host->tok, err) != HYMT_OK
        || hymt_encoder_create(host->tok, &host->enc, err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (hymt_tokenizer_size(host->tok) > config.vocab) {
        hymt_host_say(host, HYMT_LOG_WARN, "%s: tokenizer.json has ids up to"
                      " %u, the embedding %u rows: texts that need the others"
                      " are refused", dir, hymt_tokenizer_size(host->tok) - 1,
                      config.vocab);
    }

    return hymt_host_load_prompts(host, &config, err);
}


static hymt_status_t
hymt_host_load_prompts(hymt_host_t *host, const hymt_config_t *config,
    hymt_error_t *err)
{
    bool                   guessed;
    const char            *dir;
    hymt_prompt_params_t   pp;

    dir = host->params.engine.model;
    guessed = false;

    memset(&pp, 0, sizeof(pp));
    pp.family = host->params.family;
    pp.override = host->params.override;

    if (hymt_prompt_detect(dir, config, &pp, &guessed, err) != HYMT_OK
        || hymt_prompter_create(host->tok, config, &pp, &host->prompter, err)
           != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (guessed) {
        hymt_host_say(host, HYMT_LOG_WARN, "%s: its name does not tell the"
                      " family of its prompts: taken for %s; say \"family\""
                      " where that is wrong", dir,
                      hymt_family_name(pp.family));
    }

    host->languages = pp.languages;
    host->stops = hymt_prompter_stops(host->prompter, &host->n_stops);

    return HYMT_OK;
}


bool
hymt_host_lost(const hymt_host_t *host)
{
    return atomic_load_explicit(&host->lost, memory_order_acquire) != 0;
}


void
hymt_host_watch(hymt_host_t *host)
{
    uint32_t  state;

    if (host->engine == NULL) {
        return;
    }

    state = atomic_load_explicit(&hymt_engine_stats(host->engine)->state,
                                 memory_order_acquire);

    if (state == HYMT_ENGINE_LOADING && !host->waits
        && hymt_engine_waits(host->engine))
    {
        host->waits = true;
        hymt_host_reason(host, hymt_engine_reason(host->engine));

        hymt_host_say(host, HYMT_LOG_NOTICE, "waits for the memory of the"
                      " engine before it: %s", host->reason);

    } else if (state == HYMT_ENGINE_READY && host->state == HYMT_HOST_LOADING)
    {
        hymt_host_ready(host);

    } else if ((state == HYMT_ENGINE_FAILED || state == HYMT_ENGINE_STOPPED)
               && host->state != HYMT_HOST_FAILED)
    {
        hymt_host_fail(host, hymt_engine_reason(host->engine));
    }
}


static void
hymt_host_ready(hymt_host_t *host)
{
    host->load_ns = hymt_now_ns() - host->t_start;
    host->state = HYMT_HOST_READY;
    hymt_host_reason(host, hymt_engine_reason(host->engine));

    hymt_host_say(host, HYMT_LOG_NOTICE, "ready in %.2f s: %s",
                  (double) host->load_ns / 1e9,
                  hymt_engine_reason(host->engine));

    hymt_host_admit_all(host);
}


/*
 * For good: what waits is answered, what ran comes back from the engine.  The
 * state goes first, so that who reads an answer knows why.
 */
static void
hymt_host_fail(hymt_host_t *host, const char *reason)
{
    hymt_host_job_t  *job, *next;

    host->state = HYMT_HOST_FAILED;
    hymt_host_reason(host, reason);

    atomic_store_explicit(&host->lost, host->load_ns != 0,
                          memory_order_release);

    hymt_host_say(host, HYMT_LOG_ERROR, "%s", reason);
    hymt_host_publish(host);

    for (job = host->first; job != NULL; job = next) {
        next = job->next;

        if (!job->running) {
            hymt_host_answer(host, job, HYMT_RESULT_UNAVAILABLE,
                             host->reason);
        }
    }

    host->n_waiting = 0;
}


static void
hymt_host_reason(hymt_host_t *host, const char *reason)
{
    snprintf(host->reason, sizeof(host->reason), "%s", reason);
    host->reason[hymt_utf8_whole(host->reason, strlen(host->reason))] = '\0';
}
