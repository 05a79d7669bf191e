/*
 * text_thread.c - the host's loop.  Each turn takes some messages and all news,
 * ends what is late, publishes figures, and sleeps when there is nothing left.
 */

#include "host_private.h"

#include <poll.h>
#include <string.h>


/* Messages before news are looked at: tokenising must not hold tokens back. */
#define HYMT_MESSAGES_A_TURN  16

/* Longest sleeps: figures stay fresh while it works, little to do when not. */
#define HYMT_BUSY_MS   100
#define HYMT_IDLE_MS   HYMT_TURN_MS


static bool hymt_host_messages(hymt_host_t *host);
static void hymt_host_deadlines(hymt_host_t *host);
static void hymt_host_sleep(hymt_host_t *host);
static void hymt_host_end(hymt_host_t *host);


void *
hymt_host_thread(void *data)
{
    bool          more;
    hymt_seq_t   *seq;
    hymt_host_t  *host;

    host = data;

    hymt_host_load(host);

    while (!atomic_load(&host->stop)) {
        more = hymt_host_messages(host);

        hymt_host_watch(host);

        while (host->engine != NULL
               && (seq = hymt_engine_poll(host->engine)) != NULL)
        {
            hymt_host_news(host, seq);
        }

        hymt_host_deadlines(host);
        hymt_host_publish(host);

        if (!more && !hymt_server_arm(host->server)
            && (host->engine == NULL || !hymt_engine_arm(host->engine)))
        {
            hymt_host_sleep(host);
        }
    }

    hymt_host_end(host);

    return NULL;
}


/* True: there may be more. */
static bool
hymt_host_messages(hymt_host_t *host)
{
    uint32_t        i;
    hymt_message_t  m;

    for (i = 0; i < HYMT_MESSAGES_A_TURN; i++) {

        if (hymt_server_poll(host->server, &m) != HYMT_OK) {
            return false;
        }

        if (m.kind == HYMT_MESSAGE_JOB) {
            hymt_host_take(host, &m);

        } else if (m.data != NULL) {
            hymt_host_cancel(host, m.data, HYMT_RESULT_CANCELED);
        }
    }

    return true;
}


/* Looks at all jobs only when the nearest deadline has passed. */
static void
hymt_host_deadlines(hymt_host_t *host)
{
    uint64_t          now;
    hymt_host_job_t  *job, *next;

    now = hymt_now_ns();

    if (now < host->nearest) {
        return;
    }

    host->nearest = UINT64_MAX;

    for (job = host->first; job != NULL; job = next) {
        next = job->next;

        if (job->job.deadline_ns == 0 || job->verdict != HYMT_N_RESULTS) {
            continue;
        }

        if (job->job.deadline_ns <= now) {
            hymt_host_cancel(host, job, HYMT_RESULT_TIMEOUT);

        } else {
            host->nearest = hymt_min(host->nearest, job->job.deadline_ns);
        }
    }
}


#define hymt_copy(field)                                                      \
    info.field = atomic_load_explicit(&stats->field, memory_order_relaxed)


void
hymt_host_publish(hymt_host_t *host)
{
    uint32_t                    i;
    hymt_host_info_t            info;
    const hymt_engine_stats_t  *stats;

    memset(&info, 0, sizeof(info));

    if (host->engine != NULL) {
        stats = hymt_engine_stats(host->engine);

        hymt_copy(waiting);
        hymt_copy(running);
        hymt_copy(kv_blocks);
        hymt_copy(kv_blocks_used);
        hymt_copy(max_batch);
        hymt_copy(context);
        hymt_copy(steps);
        hymt_copy(step_ns);
        hymt_copy(step_max_ns);
        hymt_copy(step_seqs);
        hymt_copy(rows_prefill);
        hymt_copy(rows_decode);
        hymt_copy(prefix_hits);
        hymt_copy(prefix_misses);
        hymt_copy(prefix_tokens);
        hymt_copy(prefix_evictions);
        hymt_copy(prefix_blocks);
        hymt_copy(coalesced);
        hymt_copy(bytes_weights);
        hymt_copy(bytes_kv);
        hymt_copy(bytes_other);
        hymt_copy(progress_ns);

        for (i = 0; i < HYMT_BUCKETS; i++) {
            hymt_copy(step_count[i]);
            hymt_copy(batch_count[i]);
        }
    }

    info.turn_ns = hymt_now_ns();

    if (host->first == NULL) {
        host->work_ns = 0;

    } else if (host->work_ns == 0) {
        host->work_ns = info.turn_ns;
    }

    info.work_ns = host->work_ns;

    info.state = host->state;
    info.waiting += host->n_waiting;
    info.load_ns = host->load_ns;
    memcpy(info.reason, host->reason, sizeof(info.reason));

    hymt_server_info(host->server, &info);
}


#undef hymt_copy


static void
hymt_host_sleep(hymt_host_t *host)
{
    int             timeout;
    uint64_t        now, ms;
    struct pollfd   p;

    timeout = host->first != NULL || host->state == HYMT_HOST_LOADING
              ? HYMT_BUSY_MS : HYMT_IDLE_MS;

    if (host->nearest != UINT64_MAX) {
        now = hymt_now_ns();
        ms = host->nearest > now ? (host->nearest - now) / 1000000 + 1 : 0;
        timeout = (int) hymt_min(ms, (uint64_t) timeout);
    }

    p.fd = host->params.own_fd;
    p.events = POLLIN;

    (void) poll(&p, 1, timeout);
}


/*
 * What had ended before the engine stopped is answered with its result, the
 * rest, unread messages included, with UNAVAILABLE.
 */
static void
hymt_host_end(hymt_host_t *host)
{
    uint32_t          i, n;
    hymt_message_t    m;
    hymt_host_job_t  *job, *next;

    host->state = HYMT_HOST_STOPPED;
    strcpy(host->reason, "the engine is stopping");

    /* with the engine's last figures, which go with it */

    hymt_host_publish(host);

    hymt_engine_stop(host->engine);
    host->engine = NULL;

    for (job = host->first; job != NULL; job = next) {
        next = job->next;

        if (job->running) {
            hymt_host_news(host, &job->seq);

        } else {
            hymt_host_answer(host, job, HYMT_RESULT_UNAVAILABLE,
                             host->reason);
        }
    }

    /* bounded, should a client ask again as fast as it is refused */

    n = 2 * host->params.exchange.params.n_lanes
        * host->params.exchange.params.n_slots;

    for (i = 0; i < n && hymt_server_poll(host->server, &m) == HYMT_OK; i++) {
        if (m.kind == HYMT_MESSAGE_JOB) {
            hymt_host_take(host, &m);
        }
    }
}
