/*
 * prefix_cache.c - see prefix_cache.h.
 *
 * The index is a table of chains of block numbers; a ring through block 0 .. n
 * (n is its head) lists the idle ones, the one used longest ago first.
 */

#include "prefix_cache.h"
#include "sha256.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>


#define HYMT_BLOCK_NONE  UINT32_MAX


typedef struct {
    uint32_t      token[HYMT_KV_BLOCK];
    hymt_scope_t  scope;
    uint64_t      hash;     /* of scope and all tokens from the first */
    uint32_t      parent;   /* the block before; NONE: the prompt's first */
    uint32_t      chain;    /* the next with this bucket, or NONE */
    uint32_t      owner;    /* slot that computes it; NONE: nobody does */
    bool          ready;
} hymt_prefix_block_t;


typedef struct {
    uint32_t  prev;
    uint32_t  next;
} hymt_prefix_link_t;


struct hymt_prefix_s {
    hymt_prefix_block_t  *block;    /* [n_blocks] */
    hymt_prefix_link_t   *idle;     /* [n_blocks + 1], a ring */
    uint32_t             *bucket;   /* [mask + 1] */
    uint32_t              mask;
    uint32_t              n_idle;
    uint64_t              seed[2];  /* nobody can make prompts that collide */
    hymt_prefix_stats_t   stats;
};


static hymt_status_t hymt_prefix_alloc(hymt_prefix_t *p, uint32_t n_blocks,
    hymt_error_t *err);
static uint64_t hymt_prefix_begin(const hymt_prefix_t *p,
    const hymt_scope_t *scope);
static uint64_t hymt_prefix_hash(const hymt_prefix_t *p, uint64_t h,
    const uint32_t *token);
static uint64_t hymt_prefix_mix(uint64_t a, uint64_t b);
static uint32_t hymt_prefix_find(const hymt_prefix_t *p, uint64_t hash,
    uint32_t parent, const hymt_scope_t *scope, const uint32_t *token);
static uint32_t hymt_prefix_match(hymt_kv_pool_t *pool,
    hymt_block_table_t *table, const hymt_scope_t *scope,
    const uint32_t *prompt, uint32_t n_full, uint32_t *n_idle);
static void hymt_prefix_hold(hymt_kv_pool_t *pool, hymt_block_table_t *table,
    uint32_t n);
static void hymt_prefix_insert(hymt_kv_pool_t *pool,
    hymt_block_table_t *table, uint32_t owner, const hymt_scope_t *scope,
    const uint32_t *prompt, uint32_t n_full);
static void hymt_prefix_forget(hymt_prefix_t *p, uint32_t block);
static void hymt_prefix_unlink(hymt_prefix_t *p, uint32_t block);


void
hymt_scope(const void *name, size_t len, hymt_scope_t *scope)
{
    hymt_sha256_t  s;
    unsigned char  digest[HYMT_SHA256_SIZE];

    hymt_sha256_init(&s);
    hymt_sha256_update(&s, name, len);
    hymt_sha256_final(&s, digest);

    memcpy(scope->word, digest, sizeof(scope->word));
    scope->word[0] |= 1;
}


hymt_status_t
hymt_prefix_init(hymt_kv_pool_t *pool, hymt_error_t *err)
{
    hymt_prefix_t  *p;

    p = calloc(1, sizeof(hymt_prefix_t));
    if (p == NULL) {
        return hymt_fail(err, "no memory for the prefix cache");
    }

    pool->prefix = p;

    if (hymt_prefix_alloc(p, pool->n_blocks, err) != HYMT_OK) {
        hymt_prefix_done(pool);
        return HYMT_ERROR;
    }

    /* where there is no entropy yet, a time is better than a constant */

    if (getrandom(p->seed, sizeof(p->seed), GRND_NONBLOCK)
        != (ssize_t) sizeof(p->seed))
    {
        p->seed[0] = hymt_now_ns();
        p->seed[1] = (uint64_t) (uintptr_t) p;
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_prefix_alloc(hymt_prefix_t *p, uint32_t n_blocks, hymt_error_t *err)
{
    uint32_t  i, n;

    for (n = 1; n < n_blocks && n < UINT32_C(1) << 31; n *= 2) { /* void */ }

    p->block = calloc(n_blocks, sizeof(hymt_prefix_block_t));
    p->idle = calloc((size_t) n_blocks + 1, sizeof(hymt_prefix_link_t));
    p->bucket = calloc(n, sizeof(uint32_t));

    if (p->block == NULL || p->idle == NULL || p->bucket == NULL) {
        return hymt_fail(err, "no memory for a prefix cache of %" PRIu32
                         " blocks", n_blocks);
    }

    p->mask = n - 1;

    for (i = 0; i < n; i++) {
        p->bucket[i] = HYMT_BLOCK_NONE;
    }

    p->idle[n_blocks].prev = n_blocks;
    p->idle[n_blocks].next = n_blocks;

    return HYMT_OK;
}


void
hymt_prefix_done(hymt_kv_pool_t *pool)
{
    if (pool->prefix == NULL) {
        return;
    }

    free(pool->prefix->block);
    free(pool->prefix->idle);
    free(pool->prefix->bucket);
    free(pool->prefix);

    pool->prefix = NULL;
}


void
hymt_prefix_stats(const hymt_kv_pool_t *pool, hymt_prefix_stats_t *stats)
{
    if (pool->prefix == NULL) {
        memset(stats, 0, sizeof(hymt_prefix_stats_t));
        return;
    }

    *stats = pool->prefix->stats;
}


hymt_status_t
hymt_prefix_reserve(hymt_kv_pool_t *pool, hymt_block_table_t *table,
    uint32_t owner, const hymt_scope_t *scope, const uint32_t *prompt,
    uint32_t n_prompt, uint32_t n_tokens)
{
    uint32_t        n, want, n_idle;
    hymt_status_t   rc;
    hymt_prefix_t  *p;

    p = pool->prefix;

    if (p == NULL) {
        return hymt_kv_reserve(pool, table, n_tokens);
    }

    want = n_tokens / HYMT_KV_BLOCK + (n_tokens % HYMT_KV_BLOCK != 0);

    if (want > table->capacity || want > pool->n_blocks) {
        return HYMT_TOO_LONG;
    }

    /* the block of the last token is written, and so never a shared one */

    n = hymt_prefix_match(pool, table, scope, prompt,
                          (n_prompt - 1) / HYMT_KV_BLOCK, &n_idle);

    /* those found that are idle are no room for the others */

    if (want - n > hymt_kv_available(pool) - n_idle) {
        return HYMT_AGAIN;
    }

    hymt_prefix_hold(pool, table, n);

    rc = hymt_kv_reserve(pool, table, n_tokens);
    if (rc != HYMT_OK) {
        return rc;
    }

    if (n > 0) {
        p->stats.hits++;

    } else if (n_prompt > HYMT_KV_BLOCK) {
        p->stats.misses++;
    }

    hymt_prefix_insert(pool, table, owner, scope, prompt,
                       n_prompt / HYMT_KV_BLOCK);

    return HYMT_OK;
}


/*
 * Writes the indexed blocks that the prompt begins with into the table, without
 * holding them; how many, and how many of them are idle.
 */
static uint32_t
hymt_prefix_match(hymt_kv_pool_t *pool, hymt_block_table_t *table,
    const hymt_scope_t *scope, const uint32_t *prompt, uint32_t n_full,
    uint32_t *n_idle)
{
    uint32_t        n, block;
    uint64_t        hash;
    hymt_prefix_t  *p;

    p = pool->prefix;
    hash = hymt_prefix_begin(p, scope);
    block = HYMT_BLOCK_NONE;
    *n_idle = 0;

    for (n = 0; n < n_full; n++) {
        hash = hymt_prefix_hash(p, hash, &prompt[n * HYMT_KV_BLOCK]);
        block = hymt_prefix_find(p, hash, block, scope,
                                 &prompt[n * HYMT_KV_BLOCK]);

        if (block == HYMT_BLOCK_NONE) {
            break;
        }

        table->block[n] = block;
        *n_idle += pool->refs[block] == 0;
    }

    return n;
}


static uint32_t
hymt_prefix_find(const hymt_prefix_t *p, uint64_t hash, uint32_t parent,
    const hymt_scope_t *scope, const uint32_t *token)
{
    uint32_t                    i;
    const hymt_prefix_block_t  *b;

    for (i = p->bucket[hash & p->mask]; i != HYMT_BLOCK_NONE; i = b->chain) {
        b = &p->block[i];

        if (b->hash == hash && b->parent == parent
            && b->scope.word[0] == scope->word[0]
            && b->scope.word[1] == scope->word[1]
            && memcmp(b->token, token, sizeof(b->token)) == 0)
        {
            return i;
        }
    }

    return HYMT_BLOCK_NONE;
}


/* Of the blocks written into the table, the first n. */
static void
hymt_prefix_hold(hymt_kv_pool_t *pool, hymt_block_table_t *table, uint32_t n)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        if (pool->refs[table->block[i]]++ == 0) {
            hymt_prefix_unlink(pool->prefix, table->block[i]);
        }
    }

    table->n_blocks = n;
    table->n_indexed = n;
}


/* Indexes the full blocks of the prompt that are not yet. */
static void
hymt_prefix_insert(hymt_kv_pool_t *pool, hymt_block_table_t *table,
    uint32_t owner, const hymt_scope_t *scope, const uint32_t *prompt,
    uint32_t n_full)
{
    uint32_t              i, parent, *bucket;
    uint64_t              hash;
    const uint32_t       *token;
    hymt_prefix_t        *p;
    hymt_prefix_block_t  *b;

    p = pool->prefix;
    i = table->n_indexed;
    parent = i > 0 ? table->block[i - 1] : HYMT_BLOCK_NONE;
    hash = i > 0 ? p->block[parent].hash : hymt_prefix_begin(p, scope);

    for ( ; i < n_full; i++) {
        token = &prompt[i * HYMT_KV_BLOCK];
        hash = hymt_prefix_hash(p, hash, token);

        /* a last block that others share already: this one is private */

        if (hymt_prefix_find(p, hash, parent, scope, token)
            != HYMT_BLOCK_NONE)
        {
            break;
        }

        b = &p->block[table->block[i]];
        memcpy(b->token, token, sizeof(b->token));
        b->scope = *scope;
        b->hash = hash;
        b->parent = parent;
        b->owner = owner;
        b->ready = false;

        bucket = &p->bucket[hash & p->mask];
        b->chain = *bucket;
        *bucket = table->block[i];

        parent = table->block[i];
    }

    table->n_indexed = i;
}


uint32_t
hymt_prefix_skip(hymt_kv_pool_t *pool, const hymt_block_table_t *table,
    uint32_t pos, uint32_t n_prompt)
{
    uint32_t        from;
    hymt_prefix_t  *p;

    p = pool->prefix;

    if (p == NULL || pos % HYMT_KV_BLOCK != 0) {
        return pos;
    }

    from = pos;

    while (pos / HYMT_KV_BLOCK < table->n_indexed
           && pos + HYMT_KV_BLOCK < n_prompt
           && p->block[table->block[pos / HYMT_KV_BLOCK]].ready)
    {
        pos += HYMT_KV_BLOCK;
    }

    p->stats.tokens += pos - from;

    return pos;
}


uint32_t
hymt_prefix_claim(hymt_kv_pool_t *pool, const hymt_block_table_t *table,
    uint32_t owner, uint32_t pos, uint32_t n)
{
    uint32_t              i;
    hymt_prefix_block_t  *b;

    for (i = pos / HYMT_KV_BLOCK;
         i < table->n_indexed && i * HYMT_KV_BLOCK < pos + n;
         i++)
    {
        b = &pool->prefix->block[table->block[i]];

        if (b->ready || (b->owner != owner && b->owner != HYMT_BLOCK_NONE)) {
            return i * HYMT_KV_BLOCK - pos;
        }

        b->owner = owner;
    }

    return n;
}


void
hymt_prefix_commit(hymt_kv_pool_t *pool, const hymt_block_table_t *table,
    uint32_t pos, uint32_t n)
{
    uint32_t              i;
    hymt_prefix_block_t  *b;

    for (i = pos / HYMT_KV_BLOCK;
         i < table->n_indexed && (i + 1) * HYMT_KV_BLOCK <= pos + n;
         i++)
    {
        b = &pool->prefix->block[table->block[i]];

        if (!b->ready) {
            b->ready = true;
            b->owner = HYMT_BLOCK_NONE;
            pool->prefix->stats.blocks++;
        }
    }
}


void
hymt_prefix_abandon(hymt_kv_pool_t *pool, const hymt_block_table_t *table,
    uint32_t owner)
{
    uint32_t              i;
    hymt_prefix_block_t  *b;

    for (i = 0; i < table->n_indexed; i++) {
        b = &pool->prefix->block[table->block[i]];

        if (b->owner == owner) {
            b->owner = HYMT_BLOCK_NONE;
        }
    }
}


bool
hymt_prefix_keep(hymt_kv_pool_t *pool, uint32_t block)
{
    uint32_t             last, head;
    hymt_prefix_t       *p;
    hymt_prefix_link_t  *idle;

    p = pool->prefix;

    if (!p->block[block].ready) {
        hymt_prefix_forget(p, block);
        return false;
    }

    idle = p->idle;
    head = pool->n_blocks;
    last = idle[head].prev;

    idle[block].prev = last;
    idle[block].next = head;
    idle[last].next = block;
    idle[head].prev = block;

    p->n_idle++;

    return true;
}


void
hymt_prefix_evict(hymt_kv_pool_t *pool)
{
    uint32_t        block;
    hymt_prefix_t  *p;

    p = pool->prefix;
    block = p->idle[pool->n_blocks].next;

    hymt_prefix_unlink(p, block);
    hymt_prefix_forget(p, block);

    p->stats.blocks--;
    p->stats.evictions++;

    pool->free[pool->n_free++] = block;
}


uint32_t
hymt_prefix_idle(const hymt_kv_pool_t *pool)
{
    return pool->prefix != NULL ? pool->prefix->n_idle : 0;
}


/* Out of the index. */
static void
hymt_prefix_forget(hymt_prefix_t *p, uint32_t block)
{
    uint32_t  *at;

    at = &p->bucket[p->block[block].hash & p->mask];

    while (*at != block) {
        at = &p->block[*at].chain;
    }

    *at = p->block[block].chain;
}


/* Out of the ring of idle ones. */
static void
hymt_prefix_unlink(hymt_prefix_t *p, uint32_t block)
{
    hymt_prefix_link_t  *l;

    l = &p->idle[block];

    p->idle[l->prev].next = l->next;
    p->idle[l->next].prev = l->prev;
    p->n_idle--;
}


static uint64_t
hymt_prefix_begin(const hymt_prefix_t *p, const hymt_scope_t *scope)
{
    return hymt_prefix_mix(scope->word[0] ^ p->seed[0],
                           scope->word[1] ^ p->seed[1]);
}


static uint64_t
hymt_prefix_hash(const hymt_prefix_t *p, uint64_t h, const uint32_t *token)
{
    uint32_t  i;
    uint64_t  pair[2];

    for (i = 0; i < HYMT_KV_BLOCK; i += 4) {
        memcpy(pair, &token[i], sizeof(pair));
        h = hymt_prefix_mix(pair[0] ^ h ^ p->seed[0], pair[1] ^ p->seed[1]);
    }

    return h;
}


/* Both halves of the product: every bit of each tells. */
static uint64_t
hymt_prefix_mix(uint64_t a, uint64_t b)
{
    unsigned __int128  product;

    product = (unsigned __int128) a * b;

    return (uint64_t) product ^ (uint64_t) (product >> 64);
}
