/*
 * hymt_session.c - see hymt_session.h.
 */

#include "hymt_session.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>


#define HYMT_DEFAULT_BATCH   16
#define HYMT_LARGEST_BATCH   1024
#define HYMT_LONGEST         (1u << 24)

/* More than a token has: then the context is what says "too long". */
#define HYMT_BYTES_A_TOKEN   16


struct hymt_session_s {
    const hymt_command_t     *command;
    bool                      verbose;
    hymt_exchange_params_t    sizes;
    hymt_exchange_t           exchange;
    size_t                    size;
    int                       own_fd;
    int                       host_fd;
    hymt_client_t            *client;
    hymt_host_t              *host;
};


static hymt_status_t hymt_session_memory(hymt_session_t *session,
    hymt_error_t *err);
static hymt_status_t hymt_session_start(hymt_session_t *session,
    const hymt_session_params_t *params, hymt_error_t *err);
static hymt_status_t hymt_session_ready(hymt_session_t *session,
    hymt_error_t *err);
static hymt_status_t hymt_session_poll(hymt_session_t *session,
    uint32_t timeout_ms, hymt_event_t *event);
static void hymt_session_log(hymt_session_t *session);


void
hymt_session_defaults(hymt_session_params_t *params)
{
    memset(params, 0, sizeof(*params));

    params->backend = "auto";
    params->batch = HYMT_DEFAULT_BATCH;
    params->family = HYMT_FAMILY_AUTO;
}


hymt_status_t
hymt_session_option(hymt_session_params_t *params, int option,
    const char *value, hymt_error_t *err)
{
    uint64_t  n;

    n = 0;

    switch (option) {

    case HYMT_OPT_BACKEND:
        params->backend = value;
        return HYMT_OK;

    case HYMT_OPT_VERBOSE:
        params->verbose = true;
        return HYMT_OK;

    case HYMT_OPT_FAMILY:
        if (hymt_family_parse(value, strlen(value), &params->family)
            != HYMT_OK)
        {
            return hymt_fail(err, "--family %s: mt1, mt1.5, mt2 or auto",
                             value);
        }

        return HYMT_OK;

    case HYMT_OPT_BATCH:
        if (hymt_session_number("batch", value, 1, HYMT_LARGEST_BATCH, &n, err)
            != HYMT_OK)
        {
            return HYMT_ERROR;
        }

        params->batch = (uint32_t) n;
        return HYMT_OK;

    case HYMT_OPT_CONTEXT:
        if (hymt_session_number("context-size", value, 64, HYMT_LONGEST, &n,
                                err)
            != HYMT_OK)
        {
            return HYMT_ERROR;
        }

        params->context = (uint32_t) n;
        return HYMT_OK;

    case HYMT_OPT_THREADS:
        if (hymt_session_number("threads", value, 1, 1024, &n, err) != HYMT_OK)
        {
            return HYMT_ERROR;
        }

        params->threads = (uint32_t) n;
        return HYMT_OK;

    case HYMT_OPT_DEVICE:
        if (hymt_session_number("device", value, 0, 127, &n, err) != HYMT_OK) {
            return HYMT_ERROR;
        }

        params->device = (int) n;
        return HYMT_OK;
    }

    return HYMT_DECLINED;
}


hymt_status_t
hymt_session_number(const char *name, const char *value, uint64_t min,
    uint64_t max, uint64_t *n, hymt_error_t *err)
{
    char                *end;
    unsigned long long   v;

    errno = 0;
    v = strtoull(value, &end, 10);

    if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0
        || v < min || v > max)
    {
        return hymt_fail(err, "--%s %s: a whole number from %" PRIu64 " to %"
                         PRIu64, name, value, min, max);
    }

    *n = v;

    return HYMT_OK;
}


hymt_status_t
hymt_session_fraction(const char *name, const char *value, float min,
    float max, float *n, hymt_error_t *err)
{
    char   *end;
    float   v;

    v = strtof(value, &end);

    if (end == value || *end != '\0' || !(v >= min && v <= max)) {
        return hymt_fail(err, "--%s %s: a number from %g to %g", name, value,
                         (double) min, (double) max);
    }

    *n = v;

    return HYMT_OK;
}


hymt_status_t
hymt_session_model(const hymt_session_params_t *params, hymt_family_t *family,
    hymt_lang_set_t *languages, hymt_sampling_t *s, hymt_error_t *err)
{
    bool                  guessed;
    hymt_config_t         config;
    hymt_prompt_params_t  pp;

    memset(&pp, 0, sizeof(pp));
    pp.family = params->family;

    if (hymt_config_read(params->model, &config, err) != HYMT_OK
        || hymt_prompt_detect(params->model, &config, &pp, &guessed, err)
           != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (family != NULL) {
        *family = pp.family;
    }

    *languages = pp.languages;

    memset(s, 0, sizeof(*s));
    s->temperature = pp.greedy ? 0 : config.temperature;
    s->top_p = config.top_p;
    s->top_k = config.top_k;
    s->repetition_penalty = config.repetition_penalty;

    return HYMT_OK;
}


hymt_status_t
hymt_session_language(const char *name, hymt_lang_set_t set, int *lang,
    hymt_error_t *err)
{
    char  list[HYMT_ERROR_TEXT];

    *lang = hymt_lang_find(name, strlen(name));

    if (*lang != HYMT_LANG_NONE && (set >> *lang & 1) != 0) {
        return HYMT_OK;
    }

    (void) hymt_lang_list(set, list, sizeof(list));

    return hymt_fail(err, "this model has no language \"%s\"; it has %s", name,
                     list);
}


hymt_status_t
hymt_session_open(const hymt_session_params_t *params,
    const hymt_command_t *command, hymt_session_t **session,
    hymt_error_t *err)
{
    hymt_session_t  *s;

    s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return hymt_fail(err, "no memory");
    }

    s->command = command;
    s->verbose = params->verbose;

    s->sizes.n_lanes = 1;
    s->sizes.n_slots = 2 * params->batch;
    s->sizes.in_bytes = (params->context != 0 ? params->context : 8192)
                        * HYMT_BYTES_A_TOKEN;
    s->sizes.out_bytes = s->sizes.in_bytes;

    s->own_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    s->host_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    if (s->own_fd == -1 || s->host_fd == -1) {
        (void) hymt_fail(err, "eventfd() failed: %s", strerror(errno));

    } else if (hymt_session_memory(s, err) == HYMT_OK
               && hymt_session_start(s, params, err) == HYMT_OK
               && hymt_session_ready(s, err) == HYMT_OK)
    {
        *session = s;
        return HYMT_OK;
    }

    hymt_session_close(s);

    return HYMT_ERROR;
}


/* Pages come as they are touched. */
static hymt_status_t
hymt_session_memory(hymt_session_t *session, hymt_error_t *err)
{
    void  *mem;

    session->size = hymt_exchange_size(&session->sizes);

    if (session->size == 0) {
        return hymt_fail(err, "--batch times --context-size is too large");
    }

    mem = mmap(NULL, session->size, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (mem == MAP_FAILED) {
        return hymt_fail(err, "no memory for %zu bytes of texts: %s",
                         session->size, strerror(errno));
    }

    hymt_exchange_init(&session->exchange, mem, &session->sizes);

    return HYMT_OK;
}


static hymt_status_t
hymt_session_start(hymt_session_t *session,
    const hymt_session_params_t *params, hymt_error_t *err)
{
    hymt_host_params_t  hp;

    memset(&hp, 0, sizeof(hp));

    hp.exchange = session->exchange;
    hp.own_fd = session->host_fd;
    hp.lane_fds = &session->own_fd;
    hp.engine.model = params->model;
    hp.engine.backend = params->backend;
    hp.engine.threads = params->threads;
    hp.engine.device = params->device;
    hp.engine.max_batch = params->batch;
    hp.engine.context = params->context;
    hp.engine.prefix_cache = true;
    hp.engine.coalesce = true;
    hp.family = params->family;
    hp.log_fd = session->own_fd;

    if (hymt_host_start(&hp, &session->host, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    return hymt_client_open(&session->exchange, 0, session->own_fd,
                            session->host_fd, &session->client, err);
}


static hymt_status_t
hymt_session_ready(hymt_session_t *session, hymt_error_t *err)
{
    hymt_event_t      event;
    hymt_host_info_t  info;

    for ( ;; ) {
        (void) hymt_session_poll(session, 1000, &event);

        hymt_exchange_info(&session->exchange, &info);

        if (info.state == HYMT_HOST_FAILED) {
            return hymt_fail(err, "%s", info.reason);
        }

        if (info.state == HYMT_HOST_READY
            && hymt_client_attached(session->client))
        {
            return HYMT_OK;
        }
    }
}


void
hymt_session_close(hymt_session_t *session)
{
    if (session == NULL) {
        return;
    }

    hymt_client_close(session->client);
    hymt_host_stop(session->host);

    if (session->exchange.mem != NULL) {
        munmap(session->exchange.mem, session->size);
    }

    if (session->own_fd != -1) {
        close(session->own_fd);
    }

    if (session->host_fd != -1) {
        close(session->host_fd);
    }

    free(session);
}


uint32_t
hymt_session_window(const hymt_session_t *session)
{
    return session->sizes.n_slots;
}


uint32_t
hymt_session_bytes(const hymt_session_t *session)
{
    return session->sizes.in_bytes;
}


hymt_client_t *
hymt_session_client(const hymt_session_t *session)
{
    return session->client;
}


void
hymt_session_info(const hymt_session_t *session, hymt_host_info_t *info)
{
    hymt_exchange_info(&session->exchange, info);
}


hymt_status_t
hymt_session_next(hymt_session_t *session, uint32_t timeout_ms,
    hymt_event_t *event)
{
    uint64_t       now, end;
    hymt_status_t  rc;

    end = hymt_now_ns() + (uint64_t) timeout_ms * 1000000;

    for ( ;; ) {
        now = hymt_now_ns();

        rc = hymt_session_poll(session, now < end
                               ? (uint32_t) ((end - now) / 1000000) + 1 : 0,
                               event);

        if (rc == HYMT_OK && (event->kind == HYMT_EVENT_DONE
                              || event->kind == HYMT_EVENT_PROGRESS))
        {
            return HYMT_OK;
        }

        if (rc != HYMT_OK && hymt_now_ns() >= end) {
            return HYMT_AGAIN;
        }
    }
}


/* One event of any kind, after one sleep at most. */
static hymt_status_t
hymt_session_poll(hymt_session_t *session, uint32_t timeout_ms,
    hymt_event_t *event)
{
    ssize_t         n;
    uint64_t        count;
    struct pollfd   p;

    hymt_session_log(session);

    if (hymt_client_poll(session->client, event) == HYMT_OK) {
        return HYMT_OK;
    }

    if (!hymt_client_arm(session->client)) {
        p.fd = session->own_fd;
        p.events = POLLIN;
        (void) poll(&p, 1, (int) timeout_ms);

        n = read(session->own_fd, &count, sizeof(count));
        (void) n;
    }

    hymt_session_log(session);

    return hymt_client_poll(session->client, event);
}


static void
hymt_session_log(hymt_session_t *session)
{
    char              line[1024];
    hymt_log_level_t  level;

    while (hymt_host_log(session->host, &level, line, sizeof(line))
           == HYMT_OK)
    {
        /* errors come back from what failed */

        if (level == HYMT_LOG_WARN
            || (level != HYMT_LOG_ERROR && session->verbose))
        {
            fprintf(stderr, "hymt %s: %s\n", session->command->name, line);
        }
    }
}


hymt_status_t
hymt_session_all(hymt_session_t *session, const hymt_job_t *jobs, uint32_t n,
    uint32_t at_once, hymt_result_t *results, char **texts, hymt_error_t *err)
{
    uint32_t        i, next, out, slot, len;
    const char     *text;
    hymt_event_t    event;
    hymt_status_t   rc;

    at_once = at_once == 0 ? session->sizes.n_slots
                           : hymt_min(at_once, session->sizes.n_slots);

    for (next = 0, out = 0; next < n || out > 0; /* void */ ) {

        while (next < n && out < at_once) {
            rc = hymt_client_submit(session->client, &jobs[next],
                                    (void *) (uintptr_t) next, &slot, err);
            if (rc != HYMT_OK) {
                return HYMT_ERROR;
            }

            next++;
            out++;
        }

        if (hymt_session_next(session, 1000, &event) != HYMT_OK
            || event.kind != HYMT_EVENT_DONE)
        {
            continue;
        }

        i = (uint32_t) (uintptr_t) event.data;
        hymt_client_result(session->client, event.slot, &results[i]);
        hymt_client_text(session->client, event.slot, &text, &len);

        if (texts != NULL) {
            texts[i] = strndup(text, len);
            if (texts[i] == NULL) {
                return hymt_fail(err, "no memory");
            }
        }

        hymt_client_slot_free(session->client, event.slot);
        out--;
    }

    return HYMT_OK;
}


const char *
hymt_result_name(uint32_t code)
{
    static const char *const  names[HYMT_N_RESULTS] = {
        "done", "canceled", "out of time", "bad input", "too long",
        "no room", "not available", "failed",
    };

    return code < HYMT_N_RESULTS ? names[code] : "unknown";
}
