/*
 * hymt_session.h - a model served inside this program: an engine host and an
 * exchange over private memory with one client, the path that NGINX's workers
 * go.  For the commands that run a model.
 */

#ifndef HYMT_SESSION_H
#define HYMT_SESSION_H

#include <getopt.h>

#include "hymt.h"
#include "host.h"


/* The options these commands have in common; getopt's values for them. */
enum {
    HYMT_OPT_BACKEND = 256,
    HYMT_OPT_BATCH,
    HYMT_OPT_CONTEXT,
    HYMT_OPT_DEVICE,
    HYMT_OPT_FAMILY,
    HYMT_OPT_THREADS,
    HYMT_OPT_VERBOSE,
};

#define HYMT_SESSION_OPTIONS                                                  \
    { "backend", required_argument, NULL, HYMT_OPT_BACKEND },                 \
    { "batch", required_argument, NULL, HYMT_OPT_BATCH },                     \
    { "context-size", required_argument, NULL, HYMT_OPT_CONTEXT },            \
    { "device", required_argument, NULL, HYMT_OPT_DEVICE },                   \
    { "family", required_argument, NULL, HYMT_OPT_FAMILY },                   \
    { "threads", required_argument, NULL, HYMT_OPT_THREADS },                 \
    { "verbose", no_argument, NULL, HYMT_OPT_VERBOSE }

#define HYMT_SESSION_MANUAL                                                   \
    "  --backend NAME    cuda, cpu, ref (slow, readable), or auto: cuda\n"    \
    "                    where that can be (the default)\n"                   \
    "  --batch N         sequences that run at once (16)\n"                   \
    "  --context-size N  tokens of a prompt and its output (8192, or the\n"   \
    "                    model's limit)\n"                                    \
    "  --device N        which GPU (0)\n"                                     \
    "  --family NAME     whose prompts: mt1, mt1.5, mt2, or auto (the\n"      \
    "                    default: by the directory's name)\n"                 \
    "  --threads N       compute threads (one a core; one less over two)\n"   \
    "  --verbose         what the engine says while it starts, on stderr\n"


typedef struct {
    const char     *model;
    const char     *backend;
    hymt_family_t   family;
    uint32_t        threads;
    int             device;
    uint32_t        batch;
    uint32_t        context;
    bool            verbose;
} hymt_session_params_t;


typedef struct hymt_session_s  hymt_session_t;


void hymt_session_defaults(hymt_session_params_t *params);

/*
 * Takes one of HYMT_SESSION_OPTIONS.  HYMT_DECLINED: not one of them;
 * HYMT_ERROR: a bad value.
 */
hymt_status_t hymt_session_option(hymt_session_params_t *params, int option,
    const char *value, hymt_error_t *err);

/* A whole number within bounds, for "--name". */
hymt_status_t hymt_session_number(const char *name, const char *value,
    uint64_t min, uint64_t max, uint64_t *n, hymt_error_t *err);

/* The same for fractions. */
hymt_status_t hymt_session_fraction(const char *name, const char *value,
    float min, float max, float *n, hymt_error_t *err);


/*
 * What can be known without weights: the family (NULL: who asks?) and the
 * languages of the model, and the sampling that its files recommend.
 */
hymt_status_t hymt_session_model(const hymt_session_params_t *params,
    hymt_family_t *family, hymt_lang_set_t *languages,
    hymt_sampling_t *sampling, hymt_error_t *err);

/* A language of the model by name; the error lists them. */
hymt_status_t hymt_session_language(const char *name, hymt_lang_set_t set,
    int *lang, hymt_error_t *err);


/*
 * Loads the model and waits until it is ready.  Warnings go to stderr with the
 * command's name before them.
 */
hymt_status_t hymt_session_open(const hymt_session_params_t *params,
    const hymt_command_t *command, hymt_session_t **session,
    hymt_error_t *err);

void hymt_session_close(hymt_session_t *session);

/* Jobs that can be out at once: twice the batch, so that it never starves. */
uint32_t hymt_session_window(const hymt_session_t *session);

/* Bytes that a text may have. */
uint32_t hymt_session_bytes(const hymt_session_t *session);

hymt_client_t *hymt_session_client(const hymt_session_t *session);

void hymt_session_info(const hymt_session_t *session, hymt_host_info_t *info);

/*
 * Waits for the next PROGRESS or DONE; HYMT_AGAIN after timeout_ms without one.
 */
hymt_status_t hymt_session_next(hymt_session_t *session, uint32_t timeout_ms,
    hymt_event_t *event);

/*
 * Asks for all of n texts, as many at once as `at_once` allows (0: the window),
 * and waits.  jobs[i] is answered in results[i]; texts[i] is a new string for
 * the caller to free, or NULL where the text is not wanted (texts NULL) or
 * there is none.  HYMT_ERROR: no memory, or a text too long to be asked for.
 */
hymt_status_t hymt_session_all(hymt_session_t *session, const hymt_job_t *jobs,
    uint32_t n, uint32_t at_once, hymt_result_t *results, char **texts,
    hymt_error_t *err);

/* "timeout", "bad input", ... */
const char *hymt_result_name(uint32_t code);


#endif /* HYMT_SESSION_H */
