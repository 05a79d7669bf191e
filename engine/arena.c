/*
 * arena.c - see arena.h.
 */

#include "arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>


/*
 * The first: most documents are a sentence, and there may be thousands.  With
 * its head no more than glibc's malloc() keeps at hand for each thread.
 */
#define HYMT_ARENA_CHUNK  1008


struct hymt_arena_chunk_s {
    hymt_arena_chunk_t       *next;
    size_t                    size;
    alignas(max_align_t) char data[];
};


static bool hymt_arena_more(hymt_arena_t *arena, size_t size);


void *
hymt_arena_alloc(hymt_arena_t *arena, size_t size)
{
    void  *p;

    if (size > SIZE_MAX / 2) {
        return NULL;
    }

    size = hymt_ceil_div(hymt_max(size, 1), alignof(max_align_t))
           * alignof(max_align_t);

    if ((arena->chunk == NULL || arena->chunk->size - arena->used < size)
        && !hymt_arena_more(arena, size))
    {
        return NULL;
    }

    p = arena->chunk->data + arena->used;
    arena->used += size;

    return p;
}


/* chunks double, so that their number stays small and waste proportional */
static bool
hymt_arena_more(hymt_arena_t *arena, size_t size)
{
    size_t               want;
    hymt_arena_chunk_t  *chunk;

    want = HYMT_ARENA_CHUNK;

    if (arena->chunk != NULL) {
        want = hymt_min(arena->chunk->size * 2, (size_t) 1 << 22);
    }

    want = hymt_max(want, size);

    chunk = malloc(sizeof(hymt_arena_chunk_t) + want);

    if (chunk == NULL) {
        return false;
    }

    chunk->size = want;
    chunk->next = arena->chunk;
    arena->chunk = chunk;
    arena->used = 0;

    return true;
}


void *
hymt_arena_array(hymt_arena_t *arena, size_t n, size_t size)
{
    void      *p;
    uint64_t   total;

    if (hymt_mul_overflow(n, size, &total) || total > SIZE_MAX / 2) {
        return NULL;
    }

    p = hymt_arena_alloc(arena, (size_t) total);

    if (p != NULL) {
        memset(p, 0, (size_t) total);
    }

    return p;
}


void
hymt_arena_free(hymt_arena_t *arena)
{
    hymt_arena_chunk_t  *chunk, *next;

    for (chunk = arena->chunk; chunk != NULL; chunk = next) {
        next = chunk->next;
        free(chunk);
    }

    arena->chunk = NULL;
    arena->used = 0;
}


size_t
hymt_arena_size(const hymt_arena_t *arena)
{
    size_t                     size;
    const hymt_arena_chunk_t  *chunk;

    size = 0;

    for (chunk = arena->chunk; chunk != NULL; chunk = chunk->next) {
        size += sizeof(hymt_arena_chunk_t) + chunk->size;
    }

    return size;
}


bool
hymt_grow(void *p, uint32_t n, uint32_t *cap, size_t size)
{
    void      *grown, *old;
    uint32_t   want;
    uint64_t   total;

    if (n < *cap) {
        return true;
    }

    if (*cap > UINT32_MAX / 2) {
        return false;
    }

    want = hymt_max(*cap * 2, 16);

    if (hymt_mul_overflow(want, size, &total) || total > SIZE_MAX / 2) {
        return false;
    }

    memcpy(&old, p, sizeof(old));
    grown = realloc(old, (size_t) total);

    if (grown == NULL) {
        return false;
    }

    memcpy(p, &grown, sizeof(grown));
    *cap = want;

    /* cppcheck-suppress memleak ; *p holds it */
    return true;
}
