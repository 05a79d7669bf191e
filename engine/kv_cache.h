/*
 * kv_cache.h - fixed-size blocks of keys and values, handed out to sequences.
 *
 * One block holds HYMT_KV_BLOCK tokens of one sequence, for every layer.  This
 * file knows only which block belongs to whom; the memory is the backend's.
 * The pool is made once, at load, and never grows.  A sequence reserves blocks
 * for its prompt and the cap of its output at admission, so what runs is never
 * preempted.
 *
 * Blocks are counted by reference: full prompt blocks of equal tokens may be
 * shared (prefix_cache.h) and are then read-only.  A block that nobody holds is
 * free, or idle: still known to the prefix cache, and given away when no free
 * one is left.
 *
 * Thread: engine thread only.
 */

#ifndef HYMT_KV_CACHE_H
#define HYMT_KV_CACHE_H

#include "backend.h"


typedef struct hymt_prefix_s  hymt_prefix_t;


typedef struct {
    uint32_t       *free;      /* owned, [n_blocks], a stack of block ids */
    uint32_t       *refs;      /* owned, [n_blocks] */
    uint32_t        n_free;
    uint32_t        n_blocks;
    hymt_prefix_t  *prefix;    /* owned; NULL: no prefix cache */
} hymt_kv_pool_t;


typedef struct {
    uint32_t  *block;      /* owned, [capacity], indexes into the pool */
    uint32_t   n_blocks;   /* blocks held */
    uint32_t   n_indexed;  /* the first of them: known to the prefix cache */
    uint32_t   capacity;   /* ceil(context / HYMT_KV_BLOCK) */
} hymt_block_table_t;


hymt_status_t hymt_kv_pool_init(hymt_kv_pool_t *pool, uint32_t n_blocks,
    hymt_error_t *err);

void hymt_kv_pool_free(hymt_kv_pool_t *pool);

hymt_status_t hymt_block_table_init(hymt_block_table_t *table,
    uint32_t context, hymt_error_t *err);

void hymt_block_table_free(hymt_block_table_t *table);


/*
 * Makes the table hold blocks for n_tokens tokens in all.  All or nothing.
 *
 * Returns HYMT_OK; HYMT_AGAIN when the pool has too few free blocks, or
 * HYMT_TOO_LONG when the table or the whole pool is too small: the table is
 * then as it was.
 */
hymt_status_t hymt_kv_reserve(hymt_kv_pool_t *pool, hymt_block_table_t *table,
    uint32_t n_tokens);


/* Gives all blocks of the table back. */
void hymt_kv_release(hymt_kv_pool_t *pool, hymt_block_table_t *table);


/* Blocks that nobody holds, free and idle ones. */
uint32_t hymt_kv_available(const hymt_kv_pool_t *pool);


#endif /* HYMT_KV_CACHE_H */
