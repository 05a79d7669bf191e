/*
 * prefix_cache.h - KV blocks of prompts, found again by their tokens.
 *
 * Every full block of a prompt is indexed when its sequence is admitted, under
 * its HYMT_KV_BLOCK tokens, the block before it, and a scope.  A later sequence
 * that begins with the same tokens in the same scope holds the same blocks and
 * does not compute them again: the fixed part of a prompt, a glossary, a
 * context, the turns of a session.  Backends give a row the same bits however
 * its sequence was cut into steps, so a hit and a miss give the same bytes.
 *
 * A hash only says where to look; tokens, scope and the block before are always
 * compared.  As that one is compared by its number, a block is never forgotten
 * before those that continue it: who holds a block holds all before it, and
 * idle ones are forgotten in the order of their last use, the end of a prompt
 * first.
 *
 * An indexed block is being computed by its owner, a slot, until the step that
 * writes its last row has been committed; then it is ready and never written
 * again.  Sequences that need a block which is not ready wait for it: of sixty
 * equal contexts that arrive together one is computed.  Where the owner ends
 * before that, the next one that needs the block becomes its owner.
 *
 * The last token of a prompt is always computed, since its logits are wanted.
 *
 * The cache takes no memory of the pool's: blocks that nobody holds wait in it
 * for a hit until a sequence needs their room.
 *
 * Thread: engine thread only, but for hymt_scope().
 */

#ifndef HYMT_PREFIX_CACHE_H
#define HYMT_PREFIX_CACHE_H

#include "kv_cache.h"


/* Whose prompts may be shared with whose; all zero: everybody's. */
typedef struct {
    uint64_t  word[2];
} hymt_scope_t;


/* The scope of an owner's name: of its SHA-256, and never everybody's. */
void hymt_scope(const void *name, size_t len, hymt_scope_t *scope);


/* Sums since the start, but for blocks. */
typedef struct {
    uint64_t  hits;      /* sequences that found blocks */
    uint64_t  misses;    /* those with a full block to look for, and no hit */
    uint64_t  tokens;    /* prompt tokens that were not computed */
    uint64_t  evictions; /* blocks forgotten to make room */
    uint32_t  blocks;    /* ready ones, held or idle */
} hymt_prefix_stats_t;


/* Gives the pool a prefix cache; freed with hymt_prefix_done(), or with it. */
hymt_status_t hymt_prefix_init(hymt_kv_pool_t *pool, hymt_error_t *err);

void hymt_prefix_done(hymt_kv_pool_t *pool);

/* Zeroes without a cache. */
void hymt_prefix_stats(const hymt_kv_pool_t *pool, hymt_prefix_stats_t *stats);


/*
 * Makes an empty table hold blocks for n_tokens in all, of which the first
 * n_prompt are prompt[]: those in the index, new ones for the rest; full blocks
 * of the prompt that are new to the index are indexed as `owner`'s.  All or
 * nothing.
 *
 * Returns as hymt_kv_reserve(), which it is without a cache.
 */
hymt_status_t hymt_prefix_reserve(hymt_kv_pool_t *pool,
    hymt_block_table_t *table, uint32_t owner, const hymt_scope_t *scope,
    const uint32_t *prompt, uint32_t n_prompt, uint32_t n_tokens);

/*
 * Where the first row is that has to be computed, at or after row `pos` of a
 * prompt of n_prompt tokens: behind the blocks that are ready.
 */
uint32_t hymt_prefix_skip(hymt_kv_pool_t *pool,
    const hymt_block_table_t *table, uint32_t pos, uint32_t n_prompt);

/*
 * How many of the n rows from `pos` the owner may compute: up to a block that
 * is ready, or another's.  Their blocks become the owner's.
 */
uint32_t hymt_prefix_claim(hymt_kv_pool_t *pool,
    const hymt_block_table_t *table, uint32_t owner, uint32_t pos, uint32_t n);

/* Says that the n rows from `pos` are in the blocks, and all before them. */
void hymt_prefix_commit(hymt_kv_pool_t *pool,
    const hymt_block_table_t *table, uint32_t pos, uint32_t n);

/*
 * Says that `owner` is about to release the table: blocks of its that are not
 * ready are nobody's.
 */
void hymt_prefix_abandon(hymt_kv_pool_t *pool,
    const hymt_block_table_t *table, uint32_t owner);


/* ---- for kv_cache.c ---- */

/*
 * Nobody holds an indexed block any more.  False: it was not ready, is
 * forgotten, and the caller's to free.
 */
bool hymt_prefix_keep(hymt_kv_pool_t *pool, uint32_t block);

/* Frees the idle block used longest ago; there must be one. */
void hymt_prefix_evict(hymt_kv_pool_t *pool);

/* Idle blocks. */
uint32_t hymt_prefix_idle(const hymt_kv_pool_t *pool);


#endif /* HYMT_PREFIX_CACHE_H */
