/*
 * exchange_client.c - a client's end of its lane.
 *
 * The client's own memory says which slots are out and for whom; from shared
 * memory it takes ring entries, text and results, and believes none of them
 * unchecked.  Anything impossible, like a new epoch, loses the lane: all slots
 * are free again, the caller is told (EPOCH), and attaching begins anew.
 */

#include "exchange_layout.h"

#include <stdlib.h>
#include <string.h>


#define HYMT_SLOT_NONE  UINT32_MAX


typedef enum {
    HYMT_SLOT_FREE = 0,
    HYMT_SLOT_OUT,         /* the host has it */
    HYMT_SLOT_CANCELED,    /* the host has it, nobody waits for it */
    HYMT_SLOT_DONE,        /* the caller reads its result */
} hymt_slot_state_t;


typedef struct {
    void      *data;
    uint32_t   state;      /* hymt_slot_state_t */
    uint32_t   next;       /* in the free list */
} hymt_client_slot_t;


struct hymt_client_s {
    hymt_exchange_t      ex;
    hymt_layout_t        layout;
    hymt_header_t       *header;
    hymt_lane_t         *lane;
    int                  own_fd;
    int                  host_fd;

    uint64_t             attach;       /* as written to the lane */
    uint32_t             state;        /* of the host, as last told */
    bool                 attached;
    bool                 armed;
    bool                 lost;         /* a broken ring, not told yet */
    bool                 defer;        /* hymt_client_ring() rings */
    bool                 pushed;       /* and has something to ring for */

    hymt_ring_end_t      submit;
    hymt_ring_end_t      complete;

    uint32_t             free;         /* a stack: hot slots are used again */
    uint32_t             n_free;
    hymt_client_slot_t   slots[];
};


static void hymt_client_attach(hymt_client_t *client);
static void hymt_client_reset(hymt_client_t *client);
static void hymt_client_release(hymt_client_t *client, uint32_t slot);
static void hymt_client_push_free(hymt_client_t *client, uint32_t slot);
static void hymt_client_publish(hymt_client_t *client);
static void hymt_client_write(hymt_client_t *client, const hymt_job_t *job,
    uint32_t slot);
static hymt_status_t hymt_client_push(hymt_client_t *client, uint32_t kind,
    uint32_t slot);
static bool hymt_client_is_lost(hymt_client_t *client);
static hymt_status_t hymt_client_complete(hymt_client_t *client,
    hymt_event_t *event);
static hymt_status_t hymt_client_entry(hymt_client_t *client, uint32_t entry,
    hymt_event_t *event);


hymt_status_t
hymt_client_open(const hymt_exchange_t *ex, uint32_t lane, int own_fd,
    int host_fd, hymt_client_t **client, hymt_error_t *err)
{
    hymt_client_t  *c;
    hymt_layout_t   l;

    if (!hymt_layout(&ex->params, &l)) {
        return hymt_fail(err, "exchange: %u lanes of %u slots of %u + %u bytes"
                         " are out of range", ex->params.n_lanes,
                         ex->params.n_slots, ex->params.in_bytes,
                         ex->params.out_bytes);
    }

    if (lane >= ex->params.n_lanes) {
        return hymt_fail(err, "exchange: lane %u of %u", lane,
                         ex->params.n_lanes);
    }

    c = calloc(1, sizeof(*c) + ex->params.n_slots * sizeof(c->slots[0]));
    if (c == NULL) {
        return hymt_fail(err, "exchange: no memory for a client of %u slots",
                         ex->params.n_slots);
    }

    c->ex = *ex;
    c->layout = l;
    c->header = hymt_header(ex);
    c->lane = hymt_lane(ex, &l, lane);
    c->own_fd = own_fd;
    c->host_fd = host_fd;

    hymt_ring_end(&c->submit, c->lane, &c->lane->submit, l.submit_at,
                  l.submit_cap);
    hymt_ring_end(&c->complete, c->lane, &c->lane->complete, l.complete_at,
                  l.complete_cap);

    c->attach = atomic_load(&c->lane->attach);
    c->state = atomic_load(&c->header->state);

    hymt_client_attach(c);

    *client = c;

    return HYMT_OK;
}


/* Raises the generation, for the host that is there now. */
static void
hymt_client_attach(hymt_client_t *client)
{
    hymt_client_reset(client);

    client->attach = hymt_attach_word(atomic_load(&client->header->epoch),
                                      hymt_attach_gen(client->attach) + 1);

    atomic_store(&client->lane->attach, client->attach);
    hymt_bell_write(client->host_fd);
}


static void
hymt_client_reset(hymt_client_t *client)
{
    uint32_t  i;

    client->attached = false;
    client->lost = false;
    client->submit.at = 0;
    client->complete.at = 0;
    client->free = HYMT_SLOT_NONE;
    client->n_free = 0;

    for (i = client->ex.params.n_slots; i > 0; i--) {
        hymt_client_push_free(client, i - 1);
    }

    hymt_client_publish(client);
}


static void
hymt_client_release(hymt_client_t *client, uint32_t slot)
{
    hymt_client_push_free(client, slot);
    hymt_client_publish(client);
}


static void
hymt_client_push_free(hymt_client_t *client, uint32_t slot)
{
    hymt_client_slot_t  *s;

    s = &client->slots[slot];

    s->state = HYMT_SLOT_FREE;
    s->data = NULL;
    s->next = client->free;

    client->free = slot;
    client->n_free++;
}


/* How many are out, for hymt_exchange_in_flight(). */
static void
hymt_client_publish(hymt_client_t *client)
{
    atomic_store_explicit(&client->lane->in_flight,
                          client->ex.params.n_slots - client->n_free,
                          memory_order_release);
}


/*
 * Attaching anew is saying goodbye: the host takes a raised generation as the
 * end of all that was out.
 */
void
hymt_client_close(hymt_client_t *client)
{
    if (client == NULL) {
        return;
    }

    hymt_client_attach(client);

    free(client);
}


bool
hymt_client_attached(const hymt_client_t *client)
{
    return client->attached;
}


hymt_status_t
hymt_client_submit(hymt_client_t *client, const hymt_job_t *job, void *data,
    uint32_t *slot, hymt_error_t *err)
{
    uint32_t             i, n;
    uint64_t             bytes;
    hymt_client_slot_t  *s;

    if (job->n_stop > HYMT_JOB_STOPS) {
        return hymt_fail(err, "%u end tokens of its own; a job has up to %d",
                         job->n_stop, HYMT_JOB_STOPS);
    }

    bytes = 0;

    for (i = 0; i < HYMT_N_PARTS; i++) {
        bytes += job->part_len[i];
    }

    if (bytes > client->ex.params.in_bytes) {
        (void) hymt_fail(err, "the text has %llu bytes, a job holds %u",
                         (unsigned long long) bytes,
                         client->ex.params.in_bytes);
        return HYMT_TOO_LONG;
    }

    if (!client->attached || client->lost || client->n_free == 0) {
        (void) hymt_fail(err, client->attached
                         ? "all job slots are taken"
                         : "the engine has not answered yet");
        return HYMT_AGAIN;
    }

    n = client->free;
    s = &client->slots[n];

    client->free = s->next;
    client->n_free--;

    s->state = HYMT_SLOT_OUT;
    s->data = data;

    hymt_client_publish(client);
    hymt_client_write(client, job, n);

    if (hymt_client_push(client, HYMT_SUBMIT_JOB, n) != HYMT_OK) {
        hymt_client_release(client, n);
        (void) hymt_fail(err, "the engine's queue is broken, attaching anew");
        return HYMT_AGAIN;
    }

    *slot = n;

    return HYMT_OK;
}


static void
hymt_client_write(hymt_client_t *client, const hymt_job_t *job, uint32_t slot)
{
    char         *in;
    uint32_t      i;
    hymt_slot_t  *s;

    s = hymt_slot(client->lane, &client->layout, slot);
    in = hymt_slot_in(client->lane, &client->layout, slot);

    s->job.src = job->src;
    s->job.tgt = job->tgt;
    s->job.max_tokens = job->max_tokens;
    s->job.max_ratio = job->max_ratio;
    s->job.flags = job->flags;
    s->job.deadline_ns = job->deadline_ns;
    s->job.sampling = job->sampling;
    s->job.scope = job->scope;
    s->job.priority = job->priority;
    memcpy(s->job.flow, job->flow, sizeof(job->flow));
    s->job.n_stop = job->n_stop;
    memcpy(s->job.stop, job->stop, job->n_stop * sizeof(job->stop[0]));

    for (i = 0; i < HYMT_N_PARTS; i++) {
        s->job.part_len[i] = job->part_len[i];

        if (job->part_len[i] > 0) {
            memcpy(in, job->part[i], job->part_len[i]);
            in += job->part_len[i];
        }
    }

    atomic_store_explicit(&s->out_len, 0, memory_order_relaxed);
    atomic_store_explicit(&s->news, 0, memory_order_relaxed);
    atomic_store_explicit(&s->started, 0, memory_order_relaxed);
}


static hymt_status_t
hymt_client_push(hymt_client_t *client, uint32_t kind, uint32_t slot)
{
    if (hymt_ring_push(&client->submit, hymt_entry(kind, slot)) != HYMT_OK) {
        client->lost = true;
        hymt_bell_write(client->own_fd);
        return HYMT_ERROR;
    }

    client->pushed = true;

    if (!client->defer) {
        hymt_client_ring(client);
    }

    return HYMT_OK;
}


void
hymt_client_defer(hymt_client_t *client)
{
    client->defer = true;
}


void
hymt_client_ring(hymt_client_t *client)
{
    if (client->pushed) {
        client->pushed = false;
        hymt_bell_ring(&client->lane->host_armed, client->host_fd);
    }
}


void
hymt_client_cancel(hymt_client_t *client, uint32_t slot)
{
    hymt_client_slot_t  *s;

    if (slot >= client->ex.params.n_slots) {
        return;
    }

    s = &client->slots[slot];

    if (s->state == HYMT_SLOT_DONE) {
        hymt_client_release(client, slot);
        return;
    }

    if (s->state != HYMT_SLOT_OUT) {
        return;
    }

    s->state = HYMT_SLOT_CANCELED;
    s->data = NULL;

    (void) hymt_client_push(client, HYMT_SUBMIT_CANCEL, slot);
}


hymt_status_t
hymt_client_poll(hymt_client_t *client, hymt_event_t *event)
{
    bool      was_attached;
    uint32_t  state;

    event->slot = HYMT_SLOT_NONE;
    event->data = NULL;

    if (client->armed) {
        client->armed = false;
        atomic_store(&client->lane->client_armed, 0);
    }

    if (hymt_client_is_lost(client)) {
        was_attached = client->attached;
        hymt_client_attach(client);

        /* nothing was ever out: not worth a word */

        if (was_attached) {
            event->kind = HYMT_EVENT_EPOCH;
            return HYMT_OK;
        }
    }

    state = atomic_load(&client->header->state);

    if (state != client->state) {
        client->state = state;
        event->kind = HYMT_EVENT_STATE;
        return HYMT_OK;
    }

    if (client->attached) {
        return hymt_client_complete(client, event);
    }

    if (atomic_load(&client->lane->ack) == client->attach) {
        client->attached = true;
        event->kind = HYMT_EVENT_ATTACHED;
        return HYMT_OK;
    }

    return HYMT_AGAIN;
}


/* A new host, a broken ring, or a lane that the host has closed. */
static bool
hymt_client_is_lost(hymt_client_t *client)
{
    return client->lost
           || atomic_load(&client->header->epoch)
              != hymt_attach_epoch(client->attach)
           || (client->attached
               && atomic_load(&client->lane->ack) != client->attach);
}


static hymt_status_t
hymt_client_complete(hymt_client_t *client, hymt_event_t *event)
{
    uint32_t       i, entry;
    hymt_status_t  rc;

    /* bounded: a host that writes without end gets no more than a ringful */

    for (i = 0; i < client->complete.cap; i++) {
        rc = hymt_ring_pop(&client->complete, &entry);

        if (rc == HYMT_OK) {
            rc = hymt_client_entry(client, entry, event);

            if (rc == HYMT_DECLINED) {
                continue;
            }
        }

        if (rc != HYMT_ERROR) {
            return rc;
        }

        client->lost = true;
        hymt_client_attach(client);
        event->kind = HYMT_EVENT_EPOCH;

        return HYMT_OK;
    }

    return HYMT_AGAIN;
}


/* HYMT_DECLINED: of a job that nobody waits for. */
static hymt_status_t
hymt_client_entry(hymt_client_t *client, uint32_t entry, hymt_event_t *event)
{
    uint32_t             kind, slot;
    hymt_client_slot_t  *s;

    kind = hymt_entry_kind(entry);
    slot = hymt_entry_slot(entry);

    if (slot >= client->ex.params.n_slots
        || (kind != HYMT_COMPLETE_PROGRESS && kind != HYMT_COMPLETE_DONE))
    {
        return HYMT_ERROR;
    }

    s = &client->slots[slot];

    if (s->state != HYMT_SLOT_OUT && s->state != HYMT_SLOT_CANCELED) {
        return HYMT_ERROR;
    }

    if (s->state == HYMT_SLOT_CANCELED) {
        if (kind == HYMT_COMPLETE_DONE) {
            hymt_client_release(client, slot);
        }

        return HYMT_DECLINED;
    }

    event->slot = slot;
    event->data = s->data;

    if (kind == HYMT_COMPLETE_DONE) {
        s->state = HYMT_SLOT_DONE;
        event->kind = HYMT_EVENT_DONE;
        return HYMT_OK;
    }

    /* cleared before the length is read: what comes later is told again */

    (void) atomic_exchange(
        &hymt_slot(client->lane, &client->layout, slot)->news, 0);

    event->kind = HYMT_EVENT_PROGRESS;

    return HYMT_OK;
}


bool
hymt_client_arm(hymt_client_t *client)
{
    client->armed = true;
    atomic_store(&client->lane->client_armed, 1);

    if (hymt_client_is_lost(client)
        || atomic_load(&client->header->state) != client->state
        || (client->attached && hymt_ring_has(&client->complete))
        || (!client->attached
            && atomic_load(&client->lane->ack) == client->attach))
    {
        client->armed = false;
        atomic_store(&client->lane->client_armed, 0);

        return true;
    }

    return false;
}


void
hymt_client_text(const hymt_client_t *client, uint32_t slot, const char **text,
    uint32_t *len)
{
    uint32_t      n;
    hymt_slot_t  *s;

    if (slot >= client->ex.params.n_slots) {
        *text = "";
        *len = 0;
        return;
    }

    s = hymt_slot(client->lane, &client->layout, slot);
    n = atomic_load_explicit(&s->out_len, memory_order_acquire);

    *text = hymt_slot_out(client->lane, &client->layout, slot);
    *len = hymt_min(n, client->ex.params.out_bytes);
}


void
hymt_client_result(const hymt_client_t *client, uint32_t slot,
    hymt_result_t *r)
{
    const hymt_result_t  *result;

    if (slot >= client->ex.params.n_slots
        || client->slots[slot].state != HYMT_SLOT_DONE)
    {
        memset(r, 0, sizeof(*r));
        r->code = HYMT_RESULT_FAILED;
        return;
    }

    /*
     * One copy, which no later read may replace.  Of results that are well the
     * message is nobody's.
     */

    result = &hymt_slot(client->lane, &client->layout, slot)->result;

    memcpy(r, result, offsetof(hymt_result_t, error));
    atomic_signal_fence(memory_order_seq_cst);

    r->error[0] = '\0';

    if (r->code != HYMT_RESULT_OK) {
        memcpy(r->error, result->error, HYMT_REASON_MAX);
        r->error[HYMT_REASON_MAX - 1] = '\0';
    }

    r->text_len = hymt_min(r->text_len, client->ex.params.out_bytes);

    if (r->code >= HYMT_N_RESULTS || r->finish > HYMT_FINISH_FAILED) {
        r->code = HYMT_RESULT_FAILED;
        r->finish = HYMT_FINISH_FAILED;
    }
}


void
hymt_client_slot_free(hymt_client_t *client, uint32_t slot)
{
    if (slot < client->ex.params.n_slots
        && client->slots[slot].state == HYMT_SLOT_DONE)
    {
        hymt_client_release(client, slot);
    }
}


bool
hymt_client_started(const hymt_client_t *client, uint32_t slot)
{
    hymt_slot_t  *s;

    if (slot >= client->ex.params.n_slots) {
        return false;
    }

    s = hymt_slot(client->lane, &client->layout, slot);

    return atomic_load(&s->started) != 0;
}


uint32_t
hymt_client_slots_free(const hymt_client_t *client)
{
    return client->lost ? 0 : client->n_free;
}
