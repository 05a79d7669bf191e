/*
 * exchange_layout.h - what lies where in an exchange's memory, and the rings
 * and bells in it.  Private to exchange*.c.
 *
 *     header | lane 0 | lane 1 | ...
 *     lane:  words | submit ring | completion ring | slots | arenas
 *
 * Every part is a multiple of a cache line; words of different writers lie in
 * different lines.  Each word has one writer, except the two "armed" flags,
 * which the sleeper sets and the ringer takes down.
 *
 * An attach word is (epoch << 32 | generation): a client that attaches names
 * the host it means, so a host answers only to those that have seen it, and an
 * acknowledgement is the same word written back.
 */

#ifndef HYMT_EXCHANGE_LAYOUT_H
#define HYMT_EXCHANGE_LAYOUT_H

#include <stdatomic.h>
#include <unistd.h>

#include "exchange.h"


#define HYMT_LINE          64

#define HYMT_MAX_SLOTS     65536

#define hymt_line_up(n)    (((n) + HYMT_LINE - 1) / HYMT_LINE * HYMT_LINE)

#define HYMT_REASON_WORDS  (HYMT_REASON_MAX / 8)

/* a ring's entry: kind << 16 | slot */
#define HYMT_SUBMIT_JOB     1
#define HYMT_SUBMIT_CANCEL  2

#define HYMT_COMPLETE_PROGRESS  1
#define HYMT_COMPLETE_DONE      2

#define hymt_entry(kind, slot)  ((uint32_t) (kind) << 16 | (slot))
#define hymt_entry_kind(e)      ((e) >> 16)
#define hymt_entry_slot(e)      ((e) & 0xffff)

#define hymt_attach_word(epoch, gen)  ((uint64_t) (epoch) << 32 | (gen))
#define hymt_attach_epoch(word)       ((uint32_t) ((word) >> 32))
#define hymt_attach_gen(word)         ((uint32_t) (word))


/* Written by the host alone. */
typedef struct {
    _Alignas(HYMT_LINE)
    _Atomic uint32_t  epoch;
    _Atomic uint32_t  state;

    _Alignas(HYMT_LINE)
    _Atomic uint32_t  waiting;
    _Atomic uint32_t  running;
    _Atomic uint32_t  kv_blocks;
    _Atomic uint32_t  kv_blocks_used;
    _Atomic uint32_t  max_batch;
    _Atomic uint32_t  context;
    _Atomic uint64_t  steps;
    _Atomic uint64_t  step_ns;
    _Atomic uint64_t  step_max_ns;
    _Atomic uint64_t  step_seqs;
    _Atomic uint64_t  step_count[HYMT_BUCKETS];
    _Atomic uint64_t  batch_count[HYMT_BUCKETS];
    _Atomic uint64_t  rows_prefill;
    _Atomic uint64_t  rows_decode;
    _Atomic uint64_t  prefix_hits;
    _Atomic uint64_t  prefix_misses;
    _Atomic uint64_t  prefix_tokens;
    _Atomic uint64_t  prefix_evictions;
    _Atomic uint32_t  prefix_blocks;
    _Atomic uint64_t  coalesced;
    _Atomic uint64_t  load_ns;
    _Atomic uint64_t  bytes_weights;
    _Atomic uint64_t  bytes_kv;
    _Atomic uint64_t  bytes_other;
    _Atomic uint64_t  progress_ns;
    _Atomic uint64_t  turn_ns;
    _Atomic uint64_t  work_ns;

    /* odd while the reason is being written */
    _Alignas(HYMT_LINE)
    _Atomic uint32_t  seq;
    _Atomic uint64_t  reason[HYMT_REASON_WORDS];
} hymt_header_t;


/* Positions grow for ever and wrap; the entries lie elsewhere. */
typedef struct {
    _Alignas(HYMT_LINE) _Atomic uint32_t  head;   /* producer's */
    _Alignas(HYMT_LINE) _Atomic uint32_t  tail;   /* consumer's */
} hymt_ring_t;


typedef struct {
    /* written by the client */
    _Alignas(HYMT_LINE)
    _Atomic uint64_t  attach;
    _Atomic uint32_t  in_flight;

    /* written by the host */
    _Alignas(HYMT_LINE)
    _Atomic uint64_t  ack;

    hymt_ring_t       submit;
    hymt_ring_t       complete;

    _Alignas(HYMT_LINE) _Atomic uint32_t  host_armed;
    _Alignas(HYMT_LINE) _Atomic uint32_t  client_armed;
} hymt_lane_t;


/* A job as it crosses; the parts' text follows one another in the in arena. */
typedef struct {
    int32_t          src;
    int32_t          tgt;
    uint32_t         max_tokens;
    float            max_ratio;
    uint32_t         flags;
    uint64_t         deadline_ns;
    hymt_sampling_t  sampling;
    hymt_scope_t     scope;
    uint32_t         priority;
    uint64_t         flow[2];
    uint32_t         n_stop;
    uint32_t         stop[HYMT_JOB_STOPS];
    uint32_t         part_len[HYMT_N_PARTS];
} hymt_slot_job_t;


typedef struct {
    /* the client's while it fills the slot */
    _Alignas(HYMT_LINE)
    hymt_slot_job_t   job;

    /* the host's while the job runs */
    _Alignas(HYMT_LINE)
    _Atomic uint32_t  out_len;

    /* set by the host with a PROGRESS entry, cleared by the client */
    _Atomic uint32_t  news;

    /* set by the host's engine, cleared by the client before it submits */
    _Atomic uint32_t  started;
    hymt_result_t     result;
} hymt_slot_t;


/* Places and sizes, from the local parameters alone. */
typedef struct {
    uint32_t  submit_cap;      /* entries, a power of two */
    uint32_t  complete_cap;
    size_t    submit_at;       /* offsets in a lane */
    size_t    complete_at;
    size_t    slots_at;
    size_t    arenas_at;
    size_t    in_stride;
    size_t    out_stride;
    size_t    lane_stride;
    size_t    size;            /* of all */
} hymt_layout_t;


/* One process's end of a ring: its own position, never read back. */
typedef struct {
    hymt_ring_t       *ring;
    _Atomic uint32_t  *entries;
    uint32_t           cap;
    uint32_t           at;
} hymt_ring_end_t;


/* False where the parameters are out of range. */
bool hymt_layout(const hymt_exchange_params_t *params, hymt_layout_t *layout);


static inline hymt_header_t *
hymt_header(const hymt_exchange_t *ex)
{
    return ex->mem;
}


static inline hymt_lane_t *
hymt_lane(const hymt_exchange_t *ex, const hymt_layout_t *l, uint32_t lane)
{
    return (hymt_lane_t *) ((char *) ex->mem + sizeof(hymt_header_t)
                            + lane * l->lane_stride);
}


static inline void
hymt_ring_end(hymt_ring_end_t *end, hymt_lane_t *lane, hymt_ring_t *ring,
    size_t entries_at, uint32_t cap)
{
    end->ring = ring;
    end->entries = (_Atomic uint32_t *) ((char *) lane + entries_at);
    end->cap = cap;
    end->at = 0;
}


static inline hymt_slot_t *
hymt_slot(hymt_lane_t *lane, const hymt_layout_t *l, uint32_t slot)
{
    return (hymt_slot_t *) ((char *) lane + l->slots_at) + slot;
}


static inline char *
hymt_slot_in(hymt_lane_t *lane, const hymt_layout_t *l, uint32_t slot)
{
    return (char *) lane + l->arenas_at
           + slot * (l->in_stride + l->out_stride);
}


static inline char *
hymt_slot_out(hymt_lane_t *lane, const hymt_layout_t *l, uint32_t slot)
{
    return hymt_slot_in(lane, l, slot) + l->in_stride;
}


/*
 * Rings are as large as all that a correct peer can leave unread, so a full one
 * is a broken one: HYMT_OK or HYMT_ERROR.
 *
 * Sequentially consistent with the look at the armed flag that follows.
 */
static inline hymt_status_t
hymt_ring_push(hymt_ring_end_t *end, uint32_t entry)
{
    uint32_t  tail;

    tail = atomic_load_explicit(&end->ring->tail, memory_order_acquire);

    if (end->at - tail >= end->cap) {
        return HYMT_ERROR;
    }

    atomic_store_explicit(&end->entries[end->at & (end->cap - 1)], entry,
                          memory_order_relaxed);
    end->at++;
    atomic_store(&end->ring->head, end->at);

    return HYMT_OK;
}


/* HYMT_OK, HYMT_AGAIN, or HYMT_ERROR: the producer's position is impossible. */
static inline hymt_status_t
hymt_ring_pop(hymt_ring_end_t *end, uint32_t *entry)
{
    uint32_t  head;

    head = atomic_load_explicit(&end->ring->head, memory_order_acquire);

    if (head == end->at) {
        return HYMT_AGAIN;
    }

    if (head - end->at > end->cap) {
        return HYMT_ERROR;
    }

    *entry = atomic_load_explicit(&end->entries[end->at & (end->cap - 1)],
                                  memory_order_relaxed);
    end->at++;
    atomic_store_explicit(&end->ring->tail, end->at, memory_order_release);

    return HYMT_OK;
}


/* For the look after arming. */
static inline bool
hymt_ring_has(const hymt_ring_end_t *end)
{
    return atomic_load(&end->ring->head) != end->at;
}


/* A counter that is full already leaves the descriptor readable: fine. */
static inline void
hymt_bell_write(int fd)
{
    ssize_t   n;
    uint64_t  one;

    one = 1;

    n = write(fd, &one, sizeof(one));
    (void) n;
}


static inline void
hymt_bell_read(int fd)
{
    ssize_t   n;
    uint64_t  count;

    n = read(fd, &count, sizeof(count));
    (void) n;
}


/*
 * Sleeper: armed = 1, then looks at the data.  Ringer: data, then looks at
 * armed.  All four are sequentially consistent, so at least one of them sees
 * the other.
 */
static inline void
hymt_bell_ring(_Atomic uint32_t *armed, int fd)
{
    if (atomic_load(armed) && atomic_exchange(armed, 0)) {
        hymt_bell_write(fd);
    }
}


#endif /* HYMT_EXCHANGE_LAYOUT_H */
