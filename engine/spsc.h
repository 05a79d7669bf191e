/*
 * spsc.h - a ring of pointers between one producer and one consumer.
 *
 * Wait-free: push and pop are a few loads and one release store.  Each side
 * keeps its own index and a copy of the other's on a cache line of its own and
 * looks at the other's line only when its copy says full or empty.
 *
 * Ownership: the ring owns its slots, not what the pointers lead to; what was
 * written before a push is visible after the pop that returns it.
 *
 * Thread: push from one thread, pop and empty from one (other) thread.
 */

#ifndef HYMT_SPSC_H
#define HYMT_SPSC_H

#include <stdatomic.h>
#include <stdlib.h>

#include "base.h"


#define HYMT_SPSC_LINE  64
#define HYMT_SPSC_MAX   ((uint32_t) 1 << 24)


typedef struct {
    void             **slot;       /* owned, [mask + 1] */
    uint32_t           mask;
    char               pad0[HYMT_SPSC_LINE];

    /* the producer's line; indexes run freely and wrap at 2^32 */
    _Atomic uint32_t   tail;       /* pushed so far */
    uint32_t           head_seen;
    char               pad1[HYMT_SPSC_LINE];

    /* the consumer's line */
    _Atomic uint32_t   head;       /* popped so far */
    uint32_t           tail_seen;
    char               pad2[HYMT_SPSC_LINE];
} hymt_spsc_t;


/*
 * Makes an empty ring for at least n pointers (rounded up to a power of two).
 */
static inline hymt_status_t
hymt_spsc_init(hymt_spsc_t *ring, uint32_t n, hymt_error_t *err)
{
    uint32_t  size;

    ring->slot = NULL;

    if (n == 0 || n > HYMT_SPSC_MAX) {
        return hymt_fail(err, "a ring of %u entries: 1 to %u are possible", n,
                         HYMT_SPSC_MAX);
    }

    for (size = 1; size < n; size *= 2) { /* void */ }

    ring->slot = calloc(size, sizeof(void *));
    if (ring->slot == NULL) {
        return hymt_fail(err, "no memory for a ring of %u entries", size);
    }

    ring->mask = size - 1;
    ring->head_seen = 0;
    ring->tail_seen = 0;
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);

    return HYMT_OK;
}


static inline void
hymt_spsc_free(hymt_spsc_t *ring)
{
    free(ring->slot);
    ring->slot = NULL;
}


/* False where the ring is full. */
static inline bool
hymt_spsc_push(hymt_spsc_t *ring, void *p)
{
    uint32_t  tail;

    tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

    if (tail - ring->head_seen > ring->mask) {
        ring->head_seen = atomic_load_explicit(&ring->head,
                                               memory_order_acquire);

        if (tail - ring->head_seen > ring->mask) {
            return false;
        }
    }

    ring->slot[tail & ring->mask] = p;
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);

    return true;
}


/* True where pop() would return NULL. */
static inline bool
hymt_spsc_empty(hymt_spsc_t *ring)
{
    uint32_t  head;

    head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    if (head == ring->tail_seen) {
        ring->tail_seen = atomic_load_explicit(&ring->tail,
                                               memory_order_acquire);
    }

    return head == ring->tail_seen;
}


/* The oldest pointer, or NULL where the ring is empty. */
static inline void *
hymt_spsc_pop(hymt_spsc_t *ring)
{
    void      *p;
    uint32_t   head;

    if (hymt_spsc_empty(ring)) {
        return NULL;
    }

    head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    p = ring->slot[head & ring->mask];
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);

    return p;
}


#endif /* HYMT_SPSC_H */
