/*
 * exchange_server.c - the host's end of every lane.
 *
 * A lane is open from the acknowledgement of an attach until its client
 * attaches anew or breaks the protocol.  A lane that is not open is drained: a
 * CANCEL for each job it had running, nothing more is written to its rings, and
 * only when the last of them is done is the next attach acknowledged, so that
 * no late text of an old job can meet a new one in the same arena.
 *
 * Each lane has its own armed flag, so that a client that plays with it misses
 * bells of nobody's but its own.
 */

#include "exchange_layout.h"

#include <stdlib.h>
#include <string.h>


typedef struct {
    void    *data;
    bool     running;
    bool     told;        /* its CANCEL has been given out */
    bool     stream;
} hymt_server_slot_t;


typedef struct {
    hymt_lane_t         *lane;
    int                  fd;
    bool                 open;
    uint64_t             attach;       /* last acknowledged */

    hymt_ring_end_t      submit;
    hymt_ring_end_t      complete;

    uint32_t             n_running;
    uint32_t             n_untold;     /* of those, without a CANCEL so far */
    uint32_t             scan;         /* draining: next slot to look at */
    hymt_server_slot_t  *slots;        /* [n_slots], in the server's block */
} hymt_server_lane_t;


struct hymt_server_s {
    hymt_exchange_t      ex;
    hymt_layout_t        layout;
    hymt_header_t       *header;
    int                  own_fd;
    uint32_t             epoch;
    uint32_t             state;
    uint32_t             turn;         /* lane to look at first */
    bool                 armed;
    hymt_server_slot_t  *slots;        /* [n_lanes * n_slots] */
    hymt_server_lane_t   lanes[];
};


static void hymt_server_begin(hymt_server_t *server);
static void hymt_server_wake(hymt_server_t *server);
static void hymt_server_disarm(hymt_server_t *server);
static hymt_status_t hymt_server_lane(hymt_server_t *server, uint32_t i,
    hymt_message_t *m);
static hymt_status_t hymt_server_submit(hymt_server_t *server,
    hymt_server_lane_t *sl, hymt_message_t *m);
static hymt_status_t hymt_server_entry(hymt_server_t *server,
    hymt_server_lane_t *sl, uint32_t entry, hymt_message_t *m);
static void hymt_server_shut(hymt_server_lane_t *sl);
static void hymt_server_break(hymt_server_lane_t *sl);
static hymt_status_t hymt_server_drain(hymt_server_t *server,
    hymt_server_lane_t *sl, hymt_message_t *m);
static void hymt_server_attach(hymt_server_lane_t *sl, uint64_t attach);
static bool hymt_server_lane_ready(hymt_server_t *server,
    hymt_server_lane_t *sl);
static void hymt_server_forget(hymt_server_lane_t *sl, uint32_t slot);
static void hymt_server_push(hymt_server_lane_t *sl, uint32_t kind,
    uint32_t slot);
static void hymt_server_reason(hymt_header_t *h, const char *reason);


hymt_status_t
hymt_server_open(const hymt_exchange_t *ex, int own_fd, const int *lane_fds,
    hymt_server_t **server, hymt_error_t *err)
{
    uint32_t             i;
    hymt_layout_t        l;
    hymt_server_t       *s;
    hymt_server_lane_t  *sl;

    if (!hymt_layout(&ex->params, &l)) {
        return hymt_fail(err, "exchange: %u lanes of %u slots of %u + %u bytes"
                         " are out of range", ex->params.n_lanes,
                         ex->params.n_slots, ex->params.in_bytes,
                         ex->params.out_bytes);
    }

    s = calloc(1, sizeof(*s) + ex->params.n_lanes * sizeof(s->lanes[0]));
    if (s == NULL) {
        return hymt_fail(err, "exchange: no memory for a server");
    }

    s->slots = calloc((size_t) ex->params.n_lanes * ex->params.n_slots,
                      sizeof(hymt_server_slot_t));
    if (s->slots == NULL) {
        free(s);
        return hymt_fail(err, "exchange: no memory for %u lanes of %u slots",
                         ex->params.n_lanes, ex->params.n_slots);
    }

    s->ex = *ex;
    s->layout = l;
    s->header = hymt_header(ex);
    s->own_fd = own_fd;

    for (i = 0; i < ex->params.n_lanes; i++) {
        sl = &s->lanes[i];
        sl->lane = hymt_lane(ex, &l, i);
        sl->fd = lane_fds[i];
        sl->slots = s->slots + (size_t) i * ex->params.n_slots;

        hymt_ring_end(&sl->submit, sl->lane, &sl->lane->submit, l.submit_at,
                      l.submit_cap);
        hymt_ring_end(&sl->complete, sl->lane, &sl->lane->complete,
                      l.complete_at, l.complete_cap);
    }

    hymt_server_begin(s);

    *server = s;

    return HYMT_OK;
}


/*
 * Epoch 0 is that of no host: attach words of clients that came first name it.
 * Clients are woken whether armed or not: the former host may have taken a flag
 * down and died before it wrote.
 */
static void
hymt_server_begin(hymt_server_t *server)
{
    uint32_t          i;
    hymt_host_info_t  info;

    memset(&info, 0, sizeof(info));
    info.state = HYMT_HOST_LOADING;

    server->state = HYMT_HOST_LOADING;
    hymt_server_info(server, &info);

    server->epoch = atomic_load(&server->header->epoch) + 1;
    server->epoch += server->epoch == 0;
    atomic_store(&server->header->epoch, server->epoch);

    for (i = 0; i < server->ex.params.n_lanes; i++) {
        hymt_bell_write(server->lanes[i].fd);
    }
}


void
hymt_server_close(hymt_server_t *server)
{
    hymt_host_info_t  info;

    if (server == NULL) {
        return;
    }

    hymt_exchange_info(&server->ex, &info);

    info.state = HYMT_HOST_STOPPED;
    info.waiting = 0;
    info.running = 0;
    info.kv_blocks_used = 0;
    info.reason[0] = '\0';

    hymt_server_info(server, &info);

    free(server->slots);
    free(server);
}


static void
hymt_server_wake(hymt_server_t *server)
{
    uint32_t             i;
    hymt_server_lane_t  *sl;

    for (i = 0; i < server->ex.params.n_lanes; i++) {
        sl = &server->lanes[i];
        hymt_bell_ring(&sl->lane->client_armed, sl->fd);
    }
}


hymt_status_t
hymt_server_poll(hymt_server_t *server, hymt_message_t *m)
{
    uint32_t  i, n, lane;

    if (server->armed) {
        hymt_server_disarm(server);
        hymt_bell_read(server->own_fd);
    }

    n = server->ex.params.n_lanes;

    for (i = 0; i < n; i++) {
        lane = (server->turn + i) % n;

        if (hymt_server_lane(server, lane, m) == HYMT_OK) {
            m->lane = lane;
            server->turn = (lane + 1) % n;
            return HYMT_OK;
        }
    }

    return HYMT_AGAIN;
}


static void
hymt_server_disarm(hymt_server_t *server)
{
    uint32_t  i;

    server->armed = false;

    for (i = 0; i < server->ex.params.n_lanes; i++) {
        atomic_store(&server->lanes[i].lane->host_armed, 0);
    }
}


static hymt_status_t
hymt_server_lane(hymt_server_t *server, uint32_t i, hymt_message_t *m)
{
    hymt_server_lane_t  *sl;

    sl = &server->lanes[i];

    if (sl->open && atomic_load(&sl->lane->attach) != sl->attach) {
        hymt_server_shut(sl);
    }

    if (sl->open && hymt_server_submit(server, sl, m) == HYMT_OK) {
        return HYMT_OK;
    }

    return sl->open ? HYMT_AGAIN : hymt_server_drain(server, sl, m);
}


static hymt_status_t
hymt_server_submit(hymt_server_t *server, hymt_server_lane_t *sl,
    hymt_message_t *m)
{
    uint32_t       i, entry;
    hymt_status_t  rc;

    for (i = 0; i < sl->submit.cap; i++) {
        rc = hymt_ring_pop(&sl->submit, &entry);

        if (rc == HYMT_OK) {
            rc = hymt_server_entry(server, sl, entry, m);
        }

        if (rc == HYMT_ERROR) {
            hymt_server_break(sl);
        }

        if (rc != HYMT_DECLINED) {
            return rc;
        }
    }

    return HYMT_AGAIN;
}


/* HYMT_DECLINED: a cancel that crossed with the end of its job. */
static hymt_status_t
hymt_server_entry(hymt_server_t *server, hymt_server_lane_t *sl,
    uint32_t entry, hymt_message_t *m)
{
    uint32_t             kind;
    hymt_server_slot_t  *s;

    kind = hymt_entry_kind(entry);
    m->slot = hymt_entry_slot(entry);

    if (m->slot >= server->ex.params.n_slots) {
        return HYMT_ERROR;
    }

    s = &sl->slots[m->slot];

    if (kind == HYMT_SUBMIT_JOB && !s->running) {
        s->running = true;
        s->told = false;
        s->stream = false;
        s->data = NULL;

        sl->n_running++;
        sl->n_untold++;

        m->kind = HYMT_MESSAGE_JOB;
        m->data = NULL;

        return HYMT_OK;
    }

    if (kind != HYMT_SUBMIT_CANCEL) {
        return HYMT_ERROR;
    }

    if (!s->running || s->told) {
        return HYMT_DECLINED;
    }

    s->told = true;
    sl->n_untold--;

    m->kind = HYMT_MESSAGE_CANCEL;
    m->data = s->data;

    return HYMT_OK;
}


static void
hymt_server_shut(hymt_server_lane_t *sl)
{
    sl->open = false;
    sl->scan = 0;
}


/* Takes the acknowledgement back: a client that is there attaches anew. */
static void
hymt_server_break(hymt_server_lane_t *sl)
{
    hymt_server_shut(sl);

    atomic_store(&sl->lane->ack, 0);
    hymt_bell_ring(&sl->lane->client_armed, sl->fd);
}


static hymt_status_t
hymt_server_drain(hymt_server_t *server, hymt_server_lane_t *sl,
    hymt_message_t *m)
{
    uint64_t             attach;
    hymt_server_slot_t  *s;

    while (sl->n_untold > 0 && sl->scan < server->ex.params.n_slots) {
        s = &sl->slots[sl->scan++];

        if (s->running && !s->told) {
            s->told = true;
            sl->n_untold--;

            m->kind = HYMT_MESSAGE_CANCEL;
            m->slot = sl->scan - 1;
            m->data = s->data;

            return HYMT_OK;
        }
    }

    attach = atomic_load(&sl->lane->attach);

    if (sl->n_running == 0 && attach != sl->attach
        && hymt_attach_epoch(attach) == server->epoch)
    {
        hymt_server_attach(sl, attach);
    }

    return HYMT_AGAIN;
}


static void
hymt_server_attach(hymt_server_lane_t *sl, uint64_t attach)
{
    hymt_lane_t  *lane;

    lane = sl->lane;

    sl->open = true;
    sl->attach = attach;
    sl->submit.at = 0;
    sl->complete.at = 0;

    atomic_store_explicit(&lane->submit.head, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->submit.tail, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->complete.head, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->complete.tail, 0, memory_order_relaxed);

    atomic_store(&lane->ack, attach);

    /* whoever armed it before may be dead: a write too many costs nothing */

    hymt_bell_write(sl->fd);
}


hymt_status_t
hymt_server_job(hymt_server_t *server, const hymt_message_t *m,
    hymt_job_t *job, char *buf, hymt_error_t *err)
{
    char                *in;
    uint32_t             i;
    uint64_t             bytes;
    hymt_slot_job_t      shared;
    hymt_server_lane_t  *sl;

    sl = &server->lanes[m->lane];

    /* volatile: one copy, which no later read may replace */

    shared = *(volatile hymt_slot_job_t *)
             &hymt_slot(sl->lane, &server->layout, m->slot)->job;

    job->src = shared.src;
    job->tgt = shared.tgt;
    job->max_tokens = shared.max_tokens;
    job->max_ratio = shared.max_ratio;
    job->flags = shared.flags & HYMT_JOB_FLAGS;
    job->deadline_ns = shared.deadline_ns;
    job->sampling = shared.sampling;
    job->scope = shared.scope;
    job->priority = hymt_min(shared.priority, HYMT_N_PRIORITIES - 1);
    memcpy(job->flow, shared.flow, sizeof(job->flow));
    job->n_stop = shared.n_stop;
    memcpy(job->stop, shared.stop, sizeof(job->stop));

    if (shared.n_stop > HYMT_JOB_STOPS) {
        hymt_server_forget(sl, m->slot);
        hymt_server_break(sl);

        return hymt_fail(err, "lane %u, slot %u: it claims %u end tokens of"
                         " %d; the lane is closed", m->lane, m->slot,
                         shared.n_stop, HYMT_JOB_STOPS);
    }

    bytes = 0;

    for (i = 0; i < HYMT_N_PARTS; i++) {
        job->part[i] = buf + bytes;
        job->part_len[i] = shared.part_len[i];
        bytes += shared.part_len[i];

        if (bytes > server->ex.params.in_bytes) {
            hymt_server_forget(sl, m->slot);
            hymt_server_break(sl);

            return hymt_fail(err, "lane %u, slot %u: its text claims %llu"
                             " bytes of %u; the lane is closed", m->lane,
                             m->slot, (unsigned long long) bytes,
                             server->ex.params.in_bytes);
        }
    }

    in = hymt_slot_in(sl->lane, &server->layout, m->slot);
    memcpy(buf, in, bytes);

    sl->slots[m->slot].stream = (job->flags & HYMT_JOB_STREAM) != 0;

    return HYMT_OK;
}


void
hymt_server_own(hymt_server_t *server, uint32_t lane, uint32_t slot,
    void *data)
{
    server->lanes[lane].slots[slot].data = data;
}


char *
hymt_server_out(hymt_server_t *server, uint32_t lane, uint32_t slot,
    uint32_t *cap)
{
    *cap = server->ex.params.out_bytes;

    return hymt_slot_out(server->lanes[lane].lane, &server->layout, slot);
}


void
hymt_server_progress(hymt_server_t *server, uint32_t lane, uint32_t slot,
    uint32_t len)
{
    hymt_slot_t         *s;
    hymt_server_lane_t  *sl;

    sl = &server->lanes[lane];

    if (!sl->open || !sl->slots[slot].running) {
        return;
    }

    s = hymt_slot(sl->lane, &server->layout, slot);

    atomic_store_explicit(&s->out_len,
                          hymt_min(len, server->ex.params.out_bytes),
                          memory_order_release);

    if (sl->slots[slot].stream && atomic_exchange(&s->news, 1) == 0) {
        hymt_server_push(sl, HYMT_COMPLETE_PROGRESS, slot);
    }
}


_Atomic uint32_t *
hymt_server_started(hymt_server_t *server, uint32_t lane, uint32_t slot)
{
    return &hymt_slot(server->lanes[lane].lane, &server->layout, slot)
            ->started;
}


void
hymt_server_done(hymt_server_t *server, uint32_t lane, uint32_t slot,
    const hymt_result_t *result)
{
    hymt_slot_t         *s;
    hymt_server_lane_t  *sl;

    sl = &server->lanes[lane];

    if (!sl->slots[slot].running) {
        return;
    }

    hymt_server_forget(sl, slot);

    if (!sl->open) {
        return;
    }

    s = hymt_slot(sl->lane, &server->layout, slot);

    s->result = *result;
    s->result.text_len = hymt_min(result->text_len,
                                  server->ex.params.out_bytes);

    atomic_store_explicit(&s->out_len, s->result.text_len,
                          memory_order_release);

    hymt_server_push(sl, HYMT_COMPLETE_DONE, slot);
}


static void
hymt_server_forget(hymt_server_lane_t *sl, uint32_t slot)
{
    hymt_server_slot_t  *s;

    s = &sl->slots[slot];

    sl->n_running--;
    sl->n_untold -= !s->told;

    s->running = false;
    s->data = NULL;
}


static void
hymt_server_push(hymt_server_lane_t *sl, uint32_t kind, uint32_t slot)
{
    if (hymt_ring_push(&sl->complete, hymt_entry(kind, slot)) != HYMT_OK) {
        hymt_server_break(sl);
        return;
    }

    hymt_bell_ring(&sl->lane->client_armed, sl->fd);
}


#define hymt_put(field)                                                       \
    atomic_store_explicit(&h->field, info->field, memory_order_relaxed)


void
hymt_server_info(hymt_server_t *server, const hymt_host_info_t *info)
{
    uint32_t        i;
    hymt_header_t  *h;

    h = server->header;

    hymt_put(waiting);
    hymt_put(running);
    hymt_put(kv_blocks);
    hymt_put(kv_blocks_used);
    hymt_put(max_batch);
    hymt_put(context);
    hymt_put(steps);
    hymt_put(step_ns);
    hymt_put(step_max_ns);
    hymt_put(step_seqs);
    hymt_put(rows_prefill);
    hymt_put(rows_decode);
    hymt_put(prefix_hits);
    hymt_put(prefix_misses);
    hymt_put(prefix_tokens);
    hymt_put(prefix_evictions);
    hymt_put(prefix_blocks);
    hymt_put(coalesced);
    hymt_put(load_ns);
    hymt_put(bytes_weights);
    hymt_put(bytes_kv);
    hymt_put(bytes_other);
    hymt_put(progress_ns);
    hymt_put(turn_ns);
    hymt_put(work_ns);

    for (i = 0; i < HYMT_BUCKETS; i++) {
        hymt_put(step_count[i]);
        hymt_put(batch_count[i]);
    }

    hymt_server_reason(h, info->reason);

    atomic_store(&h->state, info->state);

    if (info->state != server->state) {
        server->state = info->state;
        hymt_server_wake(server);
    }
}


#undef hymt_put


/*
 * Release on every word: none may be seen without the odd number before it.  A
 * host that died in the middle has left an odd one.
 */
static void
hymt_server_reason(hymt_header_t *h, const char *reason)
{
    size_t    len;
    uint32_t  i, seq;
    uint64_t  words[HYMT_REASON_WORDS];

    memset(words, 0, sizeof(words));
    len = strnlen(reason, HYMT_REASON_MAX - 1);
    memcpy(words, reason, hymt_utf8_whole(reason, len));

    seq = atomic_load_explicit(&h->seq, memory_order_relaxed) | 1;
    atomic_store_explicit(&h->seq, seq, memory_order_relaxed);

    for (i = 0; i < HYMT_REASON_WORDS; i++) {
        atomic_store_explicit(&h->reason[i], words[i], memory_order_release);
    }

    atomic_store_explicit(&h->seq, seq + 1, memory_order_release);
}


bool
hymt_server_arm(hymt_server_t *server)
{
    uint32_t  i;

    server->armed = true;

    for (i = 0; i < server->ex.params.n_lanes; i++) {
        atomic_store(&server->lanes[i].lane->host_armed, 1);
    }

    for (i = 0; i < server->ex.params.n_lanes; i++) {
        if (hymt_server_lane_ready(server, &server->lanes[i])) {
            hymt_server_disarm(server);
            return true;
        }
    }

    return false;
}


/* Whether a poll would find something to do. */
static bool
hymt_server_lane_ready(hymt_server_t *server, hymt_server_lane_t *sl)
{
    uint64_t  attach;

    attach = atomic_load(&sl->lane->attach);

    if (sl->open) {
        return attach != sl->attach || hymt_ring_has(&sl->submit);
    }

    return sl->n_untold > 0
           || (sl->n_running == 0 && attach != sl->attach
               && hymt_attach_epoch(attach) == server->epoch);
}
