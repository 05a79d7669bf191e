/*
 * kv_cache.c - see kv_cache.h.
 *
 * The free blocks are a stack: a block just given back is warm in some cache
 * and is handed out first.
 */

#include "prefix_cache.h"

#include <inttypes.h>
#include <stdlib.h>


hymt_status_t
hymt_kv_pool_init(hymt_kv_pool_t *pool, uint32_t n_blocks, hymt_error_t *err)
{
    uint32_t  i;

    pool->n_blocks = 0;
    pool->n_free = 0;
    pool->free = NULL;
    pool->refs = NULL;
    pool->prefix = NULL;

    if (n_blocks == 0) {
        return hymt_fail(err, "the KV pool needs at least one block of %d"
                         " tokens", HYMT_KV_BLOCK);
    }

    pool->free = calloc(n_blocks, sizeof(uint32_t));
    pool->refs = calloc(n_blocks, sizeof(uint32_t));

    if (pool->free == NULL || pool->refs == NULL) {
        hymt_kv_pool_free(pool);
        return hymt_fail(err, "no memory for a list of %" PRIu32 " KV blocks",
                         n_blocks);
    }

    /* block 0 on top */

    for (i = 0; i < n_blocks; i++) {
        pool->free[i] = n_blocks - 1 - i;
    }

    pool->n_blocks = n_blocks;
    pool->n_free = n_blocks;

    return HYMT_OK;
}


void
hymt_kv_pool_free(hymt_kv_pool_t *pool)
{
    hymt_prefix_done(pool);

    free(pool->free);
    free(pool->refs);

    pool->free = NULL;
    pool->refs = NULL;
    pool->n_free = 0;
    pool->n_blocks = 0;
}


hymt_status_t
hymt_block_table_init(hymt_block_table_t *table, uint32_t context,
    hymt_error_t *err)
{
    uint32_t  capacity;

    table->n_blocks = 0;
    table->n_indexed = 0;
    table->capacity = 0;
    table->block = NULL;

    if (context == 0) {
        return hymt_fail(err, "a context of 0 tokens holds no sequence");
    }

    capacity = (context - 1) / HYMT_KV_BLOCK + 1;

    table->block = calloc(capacity, sizeof(uint32_t));
    if (table->block == NULL) {
        return hymt_fail(err, "no memory for a table of %" PRIu32 " KV blocks",
                         capacity);
    }

    table->capacity = capacity;

    return HYMT_OK;
}


void
hymt_block_table_free(hymt_block_table_t *table)
{
    free(table->block);

    table->block = NULL;
    table->n_blocks = 0;
    table->capacity = 0;
}


hymt_status_t
hymt_kv_reserve(hymt_kv_pool_t *pool, hymt_block_table_t *table,
    uint32_t n_tokens)
{
    uint32_t  want, block;

    want = n_tokens / HYMT_KV_BLOCK + (n_tokens % HYMT_KV_BLOCK != 0);

    if (want <= table->n_blocks) {
        return HYMT_OK;
    }

    if (want > table->capacity || want > pool->n_blocks) {
        return HYMT_TOO_LONG;
    }

    if (want - table->n_blocks > hymt_kv_available(pool)) {
        return HYMT_AGAIN;
    }

    while (table->n_blocks < want) {

        if (pool->n_free == 0) {
            hymt_prefix_evict(pool);
        }

        block = pool->free[--pool->n_free];
        pool->refs[block] = 1;
        table->block[table->n_blocks++] = block;
    }

    return HYMT_OK;
}


void
hymt_kv_release(hymt_kv_pool_t *pool, hymt_block_table_t *table)
{
    uint32_t  block;

    /*
     * last first, so that the next owner gets them in the same order, and that
     * of a prefix the end is forgotten before what it continues
     */

    while (table->n_blocks > 0) {
        block = table->block[--table->n_blocks];

        if (--pool->refs[block] > 0) {
            continue;
        }

        if (table->n_blocks < table->n_indexed
            && hymt_prefix_keep(pool, block))
        {
            continue;
        }

        pool->free[pool->n_free++] = block;
    }

    table->n_indexed = 0;
}


uint32_t
hymt_kv_available(const hymt_kv_pool_t *pool)
{
    return pool->n_free + hymt_prefix_idle(pool);
}
