/*
 * arena.h - many small pieces of memory that go together.
 *
 * Pieces come from malloc'ed chunks, one behind the other, and are freed all at
 * once.  Thread: one at a time.
 */

#ifndef HYMT_ARENA_H
#define HYMT_ARENA_H

#include "base.h"


typedef struct hymt_arena_chunk_s  hymt_arena_chunk_t;

typedef struct {
    hymt_arena_chunk_t  *chunk;   /* the one in use; older ones hang behind */
    size_t               used;
} hymt_arena_t;               /* all zero: empty */


/* NULL where there is no memory.  Aligned for any type; not cleared. */
void *hymt_arena_alloc(hymt_arena_t *arena, size_t size);

/* a cleared array of n elements; NULL on overflow too */
void *hymt_arena_array(hymt_arena_t *arena, size_t n, size_t size);

void hymt_arena_free(hymt_arena_t *arena);

/* bytes that were malloc'ed */
size_t hymt_arena_size(const hymt_arena_t *arena);


/*
 * A malloc'ed array that grows: makes room for one more element behind n in
 * *p, which holds *cap elements of size bytes.  False: no memory, or 2^32
 * elements.
 */
bool hymt_grow(void *p, uint32_t n, uint32_t *cap, size_t size);


#endif /* HYMT_ARENA_H */
