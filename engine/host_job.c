/*
 * host_job.c - one job from its arrival to its answer: taken, handed to the
 * engine, its tokens made into text in place, answered.
 */

#include "host_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


static hymt_host_job_t *hymt_host_job_new(hymt_host_t *host);
static void hymt_host_job_link(hymt_host_t *host, hymt_host_job_t *job);
static void hymt_host_job_unlink(hymt_host_t *host, hymt_host_job_t *job);
static void hymt_host_keep(hymt_host_t *host, hymt_host_job_t *job);
static void hymt_host_admit(hymt_host_t *host, hymt_host_job_t *job);
static void hymt_host_submit(hymt_host_t *host, hymt_host_job_t *job);
static void hymt_host_text(hymt_host_t *host, hymt_host_job_t *job,
    bool ended);
static void hymt_host_token(hymt_host_t *host, hymt_host_job_t *job,
    char *out, uint32_t cap);
static void hymt_host_finish(hymt_host_t *host, hymt_host_job_t *job,
    uint32_t finish);
static void hymt_host_unwrap(hymt_host_t *host, hymt_host_job_t *job);
static void hymt_host_times(const hymt_host_job_t *job, hymt_result_t *r);


void
hymt_host_take(hymt_host_t *host, const hymt_message_t *m)
{
    hymt_job_t        shared;
    hymt_error_t      err;
    hymt_result_t     r;
    hymt_host_job_t  *job;

    if (hymt_server_job(host->server, m, &shared, host->scratch_text, &err)
        != HYMT_OK)
    {
        hymt_host_say(host, HYMT_LOG_ERROR, "%s", err.text);
        return;
    }

    job = hymt_host_job_new(host);

    if (job == NULL) {
        memset(&r, 0, sizeof(r));
        r.code = HYMT_RESULT_UNAVAILABLE;
        snprintf(r.error, sizeof(r.error), "the engine host has no memory");
        hymt_server_done(host->server, m->lane, m->slot, &r);
        return;
    }

    job->lane = m->lane;
    job->slot = m->slot;
    job->job = shared;
    job->t_taken = hymt_now_ns();

    hymt_host_job_link(host, job);
    hymt_server_own(host->server, m->lane, m->slot, job);

    if (host->state == HYMT_HOST_LOADING) {
        hymt_host_keep(host, job);

    } else if (host->state == HYMT_HOST_READY) {
        hymt_host_admit(host, job);

    } else {
        hymt_host_answer(host, job, HYMT_RESULT_UNAVAILABLE, host->reason);
    }
}


/* The exchange gives out one job a slot, which bounds how many there are. */
static hymt_host_job_t *
hymt_host_job_new(hymt_host_t *host)
{
    hymt_host_job_t  *job;

    job = host->free;

    if (job != NULL) {
        host->free = job->next;

    } else {
        job = calloc(1, sizeof(*job));
        if (job == NULL) {
            return NULL;
        }
    }

    job->running = false;
    job->finish = HYMT_FINISH_NONE;
    job->verdict = HYMT_N_RESULTS;
    job->n_seen = 0;
    job->text_len = 0;
    hymt_detok_init(&job->detok);
    hymt_loop_guard_init(&job->guard);

    memset(&job->seq, 0, sizeof(job->seq));
    job->seq.owner = job;

    return job;
}


static void
hymt_host_job_link(hymt_host_t *host, hymt_host_job_t *job)
{
    job->next = NULL;
    job->prev = host->last;

    if (host->last != NULL) {
        host->last->next = job;

    } else {
        host->first = job;
    }

    host->last = job;

    if (job->job.deadline_ns != 0) {
        host->nearest = hymt_min(host->nearest, job->job.deadline_ns);
    }
}


/* Out of the list and onto the free one, buffers and all. */
static void
hymt_host_job_unlink(hymt_host_t *host, hymt_host_job_t *job)
{
    if (job->prev != NULL) {
        job->prev->next = job->next;

    } else {
        host->first = job->next;
    }

    if (job->next != NULL) {
        job->next->prev = job->prev;

    } else {
        host->last = job->prev;
    }

    job->next = host->free;
    host->free = job;
}


/* The model loads: the text must leave the scratch memory. */
static void
hymt_host_keep(hymt_host_t *host, hymt_host_job_t *job)
{
    char      *text;
    size_t     n;
    uint32_t   i;

    for (i = 0, n = 0; i < HYMT_N_PARTS; i++) {
        n += job->job.part_len[i];
    }

    text = hymt_host_grow(job->text, &job->text_cap, n + 1, 1);

    if (text == NULL) {
        hymt_host_answer(host, job, HYMT_RESULT_UNAVAILABLE,
                         "the engine host has no memory");
        return;
    }

    job->text = text;
    memcpy(job->text, host->scratch_text, n);

    for (i = 0, n = 0; i < HYMT_N_PARTS; i++) {
        job->job.part[i] = job->text + n;
        n += job->job.part_len[i];
    }

    host->n_waiting++;
}


void
hymt_host_admit_all(hymt_host_t *host)
{
    hymt_host_job_t  *job, *next;

    host->n_waiting = 0;

    for (job = host->first; job != NULL; job = next) {
        next = job->next;
        hymt_host_admit(host, job);
    }
}


static void
hymt_host_admit(hymt_host_t *host, hymt_host_job_t *job)
{
    hymt_error_t   err;
    hymt_status_t  rc;

    if (hymt_host_check(host, &job->job, &err) != HYMT_OK) {
        hymt_host_answer(host, job, HYMT_RESULT_BAD_INPUT, err.text);
        return;
    }

    rc = hymt_host_prompt(host, job, &err);

    if (rc != HYMT_OK) {
        hymt_host_answer(host, job, rc == HYMT_TOO_LONG
                                    ? HYMT_RESULT_TOO_LONG
                                    : rc == HYMT_AGAIN
                                      ? HYMT_RESULT_UNAVAILABLE
                                      : HYMT_RESULT_BAD_INPUT,
                         err.text);
        return;
    }

    hymt_host_submit(host, job);
}


static void
hymt_host_submit(hymt_host_t *host, hymt_host_job_t *job)
{
    uint32_t       state;
    hymt_error_t   err;
    hymt_status_t  rc;

    rc = hymt_engine_submit(host->engine, &job->seq, &err);

    if (rc == HYMT_OK) {
        job->running = true;

    } else if (rc == HYMT_AGAIN) {
        hymt_host_answer(host, job, HYMT_RESULT_FULL,
                         "the engine has no room for more");

    } else {
        /* a token outside of the vocabulary: the text's; else the engine's */

        state = atomic_load_explicit(&hymt_engine_stats(host->engine)->state,
                                     memory_order_acquire);

        hymt_host_answer(host, job, state == HYMT_ENGINE_READY
                                    ? HYMT_RESULT_BAD_INPUT
                                    : HYMT_RESULT_UNAVAILABLE,
                         err.text);
    }
}


/* Ends a job from outside; the engine has to let go first. */
void
hymt_host_cancel(hymt_host_t *host, hymt_host_job_t *job, uint32_t code)
{
    if (job->running) {
        if (job->verdict == HYMT_N_RESULTS) {
            job->verdict = code;
            hymt_engine_cancel(host->engine, &job->seq);
        }

        return;
    }

    host->n_waiting--;

    hymt_host_answer(host, job, code, code == HYMT_RESULT_TIMEOUT
                     ? "its time was over while the model was loading" : NULL);
}


void
hymt_host_news(hymt_host_t *host, hymt_seq_t *seq)
{
    uint32_t          finish;
    hymt_host_job_t  *job;

    job = seq->owner;
    finish = atomic_load_explicit(&seq->finish, memory_order_acquire);

    if (job->verdict == HYMT_N_RESULTS) {
        hymt_host_text(host, job, finish != HYMT_FINISH_NONE);
    }

    if (finish != HYMT_FINISH_NONE) {
        hymt_host_finish(host, job, finish);
    }
}


/* Turns what has come into text, in the client's arena. */
static void
hymt_host_text(hymt_host_t *host, hymt_host_job_t *job, bool ended)
{
    char      *out;
    size_t     n;
    uint32_t   cap, n_out, had;

    out = hymt_server_out(host->server, job->lane, job->slot, &cap);
    n_out = atomic_load_explicit(&job->seq.n_out, memory_order_acquire);
    had = job->text_len;

    while (job->finish == HYMT_FINISH_NONE && job->n_seen < n_out) {
        hymt_host_token(host, job, out, cap);
    }

    if (job->finish == HYMT_FINISH_NONE && ended) {
        if (hymt_detok_end(&job->detok, out + job->text_len,
                           cap - job->text_len, &n)
            == HYMT_OK)
        {
            job->text_len += (uint32_t) n;

        } else {
            job->finish = HYMT_FINISH_LENGTH;
        }
    }

    /* the end as the host sees it, which the engine does not */

    if (job->finish != HYMT_FINISH_NONE) {
        job->verdict = HYMT_RESULT_OK;

        if (!ended) {
            hymt_engine_cancel(host->engine, &job->seq);
        }
    }

    if (!ended && job->text_len > had
        && (job->job.flags & HYMT_JOB_FORMATTED) == 0)
    {
        hymt_server_progress(host->server, job->lane, job->slot,
                             job->text_len);
    }
}


/* The next one; sets job->finish where nothing may follow. */
static void
hymt_host_token(hymt_host_t *host, hymt_host_job_t *job, char *out,
    uint32_t cap)
{
    size_t       n;
    uint32_t     had;
    hymt_seq_t  *seq;

    seq = &job->seq;
    had = job->text_len;

    if (hymt_detok_push(host->tok, &job->detok, seq->out[job->n_seen],
                        out + job->text_len, cap - job->text_len, &n)
        != HYMT_OK)
    {
        job->finish = HYMT_FINISH_LENGTH;
        return;
    }

    job->text_len += (uint32_t) n;
    job->n_seen++;

    if (job->stop_text_len > 0
        && hymt_stops_seen(job->stop_text, job->stop_text_len, out, had,
                           job->text_len))
    {
        job->finish = HYMT_FINISH_STOP;
        return;
    }

    if ((job->job.flags & HYMT_JOB_LOOPS) == 0
        && !host->params.engine.ignore_eos
        && hymt_loop_guard_push(&job->guard, seq->prompt, seq->n_prompt,
                                seq->out, job->n_seen))
    {
        job->finish = HYMT_FINISH_LOOP;
    }
}


/* The engine has let go. */
static void
hymt_host_finish(hymt_host_t *host, hymt_host_job_t *job, uint32_t finish)
{
    uint32_t     code;
    const char  *error;

    error = NULL;
    code = job->verdict;

    if (code == HYMT_RESULT_TIMEOUT) {
        error = "its time was over before it was done";

    } else if (code == HYMT_N_RESULTS) {

        if (finish == HYMT_FINISH_STOP || finish == HYMT_FINISH_LENGTH) {
            code = HYMT_RESULT_OK;

        } else if (finish == HYMT_FINISH_CANCELED) {
            code = HYMT_RESULT_CANCELED;

        } else if (host->state == HYMT_HOST_STOPPED) {
            code = HYMT_RESULT_UNAVAILABLE;
            error = host->reason;

        } else {
            code = HYMT_RESULT_FAILED;
            error = hymt_engine_reason(host->engine);
        }
    }

    if (code == HYMT_RESULT_OK && (job->job.flags & HYMT_JOB_FORMATTED)) {
        hymt_host_unwrap(host, job);
    }

    hymt_host_answer(host, job, code, error);
}


/* Nobody has been told of the text so far. */
static void
hymt_host_unwrap(hymt_host_t *host, hymt_host_job_t *job)
{
    char      *out;
    size_t     from, len;
    uint32_t   cap;

    out = hymt_server_out(host->server, job->lane, job->slot, &cap);
    len = hymt_min(job->text_len, cap);

    hymt_prompt_unwrap(host->prompter, out, &from, &len);
    memmove(out, out + from, len);

    job->text_len = (uint32_t) len;
}


void
hymt_host_answer(hymt_host_t *host, hymt_host_job_t *job, uint32_t code,
    const char *error)
{
    hymt_result_t  r;

    memset(&r, 0, sizeof(r));

    r.code = code;
    r.prompt_tokens = job->seq.n_prompt;
    r.cached_tokens = job->seq.n_cached;
    r.coalesced = job->seq.coalesced;
    r.completion_tokens = job->n_seen;
    r.text_len = job->text_len;
    r.batch = job->seq.batch;
    r.finish = job->finish != HYMT_FINISH_NONE ? job->finish
               : atomic_load_explicit(&job->seq.finish, memory_order_acquire);

    hymt_host_times(job, &r);

    if (error != NULL) {
        snprintf(r.error, sizeof(r.error), "%s", error);
        r.error[hymt_utf8_whole(r.error, strlen(r.error))] = '\0';
    }

    hymt_server_done(host->server, job->lane, job->slot, &r);
    hymt_host_job_unlink(host, job);
}


/* From the moment the job was taken; a time that never came is 0. */
static void
hymt_host_times(const hymt_host_job_t *job, hymt_result_t *r)
{
    const hymt_seq_t  *s;

    s = &job->seq;

    r->total_ns = hymt_now_ns() - job->t_taken;

    if (s->t_start > job->t_taken) {
        r->queue_ns = s->t_start - job->t_taken;
    }

    if (s->t_first > job->t_taken) {
        r->first_ns = s->t_first - job->t_taken;
    }
}


void
hymt_host_jobs_free(hymt_host_t *host)
{
    hymt_host_job_t  *job, *next;

    for (job = host->free; job != NULL; job = next) {
        next = job->next;
        free(job->text);
        free(job->ids);
        free(job);
    }

    host->free = NULL;
}


void *
hymt_host_grow(void *buf, size_t *cap, size_t want, size_t size)
{
    void  *p;

    if (want <= *cap) {
        return buf;
    }

    want = hymt_max(want, *cap * 2);

    p = malloc(want * size);
    if (p == NULL) {
        return NULL;
    }

    free(buf);
    *cap = want;

    return p;
}
