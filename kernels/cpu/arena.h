/*
 * arena.h - one mapping for many arrays.
 *
 * Memory is laid out twice by the same function: the first time the arena is
 * empty, takes return NULL and only count; hymt_arena_map() then gets that
 * much; the second time the takes return the places.  So the sum can't differ
 * from its parts, and every product and sum is checked in one place.
 *
 *     layout(b, &arena);
 *     hymt_arena_map(&arena, "KV cache", false, err);
 *     layout(b, &arena);
 */

#ifndef HYMT_ARENA_H
#define HYMT_ARENA_H

#include "base.h"


typedef struct {
    uint8_t   *base;       /* owned; NULL while counting */
    uint64_t   size;       /* mapped */
    uint64_t   used;       /* taken so far */
    bool       overflow;   /* the sum does not fit in 64 bits */
} hymt_arena_t;


/* count * size bytes, aligned to 64 bytes; NULL while counting. */
void *hymt_arena_take(hymt_arena_t *a, uint64_t count, uint64_t size);


/*
 * Maps what was counted, zeroed, and starts again from the beginning; `what`
 * names it in errors.  `huge` asks for huge pages: for what is filled at once
 * and read from end to end, not for what is touched bit by bit, a whole page
 * cleared at each touch.  HYMT_AGAIN: the system has no memory for it now.
 */
hymt_status_t hymt_arena_map(hymt_arena_t *a, const char *what, bool huge,
    hymt_error_t *err);

void hymt_arena_unmap(hymt_arena_t *a);


/*
 * Bytes that this process may still take: what the kernel calls available, and
 * what its cgroup (v2) leaves, hymt_memory_left().  A mapping gets more than
 * that without an error, and the process is killed when it touches it: so ask
 * before.  UINT64_MAX where the host does not say.
 */
uint64_t hymt_memory_available(void);

/*
 * What the limit of a cgroup, a directory with memory.max, memory.current and
 * memory.stat, leaves; what files of weights have in the page cache is counted
 * there, but goes when the memory is wanted.  UINT64_MAX: no limit.
 */
uint64_t hymt_memory_left(const char *group);


#endif /* HYMT_ARENA_H */
