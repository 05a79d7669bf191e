/*
 * host_private.h - what the files of the host share.
 *
 *     host.c          start and stop; loading; what the caller sees
 *     text_thread.c   the loop: messages, news, deadlines, sleep
 *     host_job.c      one job: sequence, text, answer
 *     host_prompt.c   its check, its prompt, its cap
 *     host_log.c      lines for the caller's log
 *
 * All but the log belongs to the text thread once that has started.
 */

#ifndef HYMT_HOST_PRIVATE_H
#define HYMT_HOST_PRIVATE_H

#include <pthread.h>

#include "host.h"
#include "job_parts.h"
#include "loop_guard.h"


#define HYMT_LOG_LINES  64
#define HYMT_LOG_LINE   512

/* the model's end tokens and a job's own */
#define HYMT_HOST_STOPS  (HYMT_PROMPT_STOPS + HYMT_JOB_STOPS)


typedef struct {
    hymt_log_level_t  level;
    char              text[HYMT_LOG_LINE];
} hymt_log_line_t;


typedef struct {
    pthread_mutex_t   mutex;
    int               fd;          /* the caller's, or -1 */
    uint32_t          first;
    uint32_t          n;
    uint64_t          dropped;
    hymt_log_line_t   lines[HYMT_LOG_LINES];
} hymt_host_log_t;


/*
 * A job that has been taken and not answered.  Its buffers stay with it when it
 * goes back to the free list, so that they are allocated once.
 */
typedef struct hymt_host_job_s {
    hymt_seq_t               seq;          /* the engine's while running */

    struct hymt_host_job_s  *prev;         /* in the order they came */
    struct hymt_host_job_s  *next;         /* here, or in the free list */

    uint32_t                 lane;
    uint32_t                 slot;
    bool                     running;      /* the engine has it */
    uint32_t                 finish;       /* hymt_finish_t, if the host's */

    /* decided before the engine has let go; HYMT_N_RESULTS: not */
    uint32_t                 verdict;

    hymt_job_t               job;
    uint32_t                 stops[HYMT_HOST_STOPS];
    char                     stop_text[HYMT_STOPS_BYTES];
    uint32_t                 stop_text_len;
    uint64_t                 t_taken;

    char                    *text;         /* kept while the model loads */
    size_t                   text_cap;
    uint32_t                *ids;          /* prompt, then output */
    size_t                   ids_cap;

    uint32_t                 n_seen;       /* output tokens turned into text */
    uint32_t                 text_len;     /* in the out arena */
    hymt_detok_t             detok;
    hymt_loop_guard_t        guard;
} hymt_host_job_t;


struct hymt_host_s {
    hymt_host_params_t    params;
    char                 *strings;         /* that params points to */
    pthread_t             thread;
    _Atomic uint32_t      stop;
    _Atomic uint32_t      lost;            /* FAILED, once it had been READY */

    hymt_server_t        *server;
    hymt_engine_t        *engine;          /* NULL: could not be started */

    /* what the model is asked with; NULL until loaded */
    hymt_tokenizer_t     *tok;
    hymt_prompter_t      *prompter;
    hymt_encoder_t       *enc;
    hymt_lang_set_t       languages;
    const uint32_t       *stops;
    uint32_t              n_stops;

    uint32_t              state;           /* hymt_host_state_t */
    char                  reason[HYMT_REASON_MAX];
    bool                  waits;           /* for memory: it has been said */
    uint64_t              t_start;
    uint64_t              load_ns;
    uint64_t              work_ns;         /* there are jobs since; 0: none */

    hymt_host_job_t      *first;           /* all that are out */
    hymt_host_job_t      *last;
    hymt_host_job_t      *free;
    uint32_t              n_waiting;       /* of those, for the model to load */
    uint64_t              nearest;         /* no deadline is before it */

    char                 *scratch_text;    /* [in_bytes] */
    uint32_t             *scratch_ids;     /* [scratch_cap] */
    size_t                scratch_cap;
    hymt_term_t           terms[HYMT_MAX_TERMS];
    hymt_turn_t           turns[HYMT_MAX_TURNS];

    hymt_host_log_t       log;
};


/* ---- host.c ---- */

/* Starts the engine and loads tokenizer and prompts; on errors FAILED. */
void hymt_host_load(hymt_host_t *host);

/* Follows the engine's state. */
void hymt_host_watch(hymt_host_t *host);


/* ---- text_thread.c ---- */

void *hymt_host_thread(void *data);

/* State and figures, for everybody to see. */
void hymt_host_publish(hymt_host_t *host);


/* ---- host_job.c ---- */

/* Takes the job of a message: answers it, keeps it, or hands it on. */
void hymt_host_take(hymt_host_t *host, const hymt_message_t *m);

/* Hands all that waited for the model on. */
void hymt_host_admit_all(hymt_host_t *host);

void hymt_host_cancel(hymt_host_t *host, hymt_host_job_t *job, uint32_t code);

/* New tokens, or the end, of a sequence that the engine gave back. */
void hymt_host_news(hymt_host_t *host, hymt_seq_t *seq);

/* Answers a job and forgets it.  error may be NULL. */
void hymt_host_answer(hymt_host_t *host, hymt_host_job_t *job, uint32_t code,
    const char *error);

void hymt_host_jobs_free(hymt_host_t *host);

/*
 * Room for want > 0 elements; what was in buf is not kept.  NULL: no memory,
 * buf is as it was.
 */
void *hymt_host_grow(void *buf, size_t *cap, size_t want, size_t size);


/* ---- host_prompt.c ---- */

/* HYMT_ERROR: it asks for what can't be. */
hymt_status_t hymt_host_check(hymt_host_t *host, const hymt_job_t *job,
    hymt_error_t *err);

/*
 * Fills ids and the sequence.  HYMT_ERROR: the text; HYMT_TOO_LONG; HYMT_AGAIN:
 * no memory.
 */
hymt_status_t hymt_host_prompt(hymt_host_t *host, hymt_host_job_t *job,
    hymt_error_t *err);


/* ---- host_log.c ---- */

hymt_status_t hymt_host_log_init(hymt_host_log_t *log, int fd,
    hymt_error_t *err);

void hymt_host_log_done(hymt_host_log_t *log);

void hymt_host_say(hymt_host_t *host, hymt_log_level_t level, const char *fmt,
    ...) __attribute__((format(printf, 3, 4)));


#endif /* HYMT_HOST_PRIVATE_H */
