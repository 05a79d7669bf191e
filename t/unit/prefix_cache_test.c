/*
 * prefix_cache_test.c - the promises of prefix_cache.h: first one by one, then
 * a pool under random prompts, ends and evictions against a plain model of it.
 */

#include "prefix_cache.h"
#include "random.h"
#include "tap.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


#define B         HYMT_KV_BLOCK
#define N_BLOCKS  24
#define N_TABLES  6
#define CONTEXT   (12 * B)


static const hymt_scope_t  everybody;


static void
count(uint32_t *prompt, uint32_t n)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        prompt[i] = i;
    }
}


static void
test_without(void)
{
    uint32_t             prompt[CONTEXT];
    hymt_kv_pool_t       pool;
    hymt_prefix_stats_t  stats;
    hymt_block_table_t   t;

    count(prompt, CONTEXT);
    hymt_kv_pool_init(&pool, 4, NULL);
    hymt_block_table_init(&t, CONTEXT, NULL);

    is_int(hymt_prefix_reserve(&pool, &t, 0, &everybody, prompt, 40, 50),
           HYMT_OK, "without a cache blocks are reserved");
    is_int(t.n_blocks, 4, "as many");
    is_int(hymt_prefix_skip(&pool, &t, 0, 40), 0, "nothing is skipped");
    is_int(hymt_prefix_claim(&pool, &t, 0, 0, 40), 40, "all is to compute");
    hymt_prefix_commit(&pool, &t, 0, 40);
    hymt_prefix_abandon(&pool, &t, 0);
    hymt_kv_release(&pool, &t);
    is_int(pool.n_free, 4, "and all blocks become free");

    hymt_prefix_stats(&pool, &stats);
    is_int((int) stats.misses, 0, "no figures");

    hymt_block_table_free(&t);
    hymt_kv_pool_free(&pool);
}


static void
test_waits(void)
{
    uint32_t            prompt[CONTEXT];
    hymt_kv_pool_t      pool;
    hymt_block_table_t  a, b, c;

    count(prompt, CONTEXT);
    hymt_kv_pool_init(&pool, 12, NULL);
    is_int(hymt_prefix_init(&pool, NULL), HYMT_OK, "a cache");
    hymt_block_table_init(&a, CONTEXT, NULL);
    hymt_block_table_init(&b, CONTEXT, NULL);
    hymt_block_table_init(&c, CONTEXT, NULL);

    hymt_prefix_reserve(&pool, &a, 0, &everybody, prompt, 3 * B + 1, 4 * B);
    hymt_prefix_reserve(&pool, &b, 1, &everybody, prompt, 3 * B, 4 * B);
    is_int(a.n_indexed, 3, "three full blocks are indexed");
    is_int(b.n_blocks, 4, "the same prompt, one token less");
    ok(memcmp(a.block, b.block, 2 * 4) == 0, "shares two blocks");
    ok(a.block[2] != b.block[2], "but not that of its last token");
    is_int(b.n_indexed, 2, "which is its own and stays unknown");
    is_int((int) hymt_kv_available(&pool), 12 - 6, "six blocks are held");

    is_int(hymt_prefix_claim(&pool, &a, 0, 0, 49), 49, "the first computes");
    is_int(hymt_prefix_skip(&pool, &b, 0, 48), 0, "the second can't skip yet");
    is_int(hymt_prefix_claim(&pool, &b, 1, 0, 48), 0, "and has to wait");

    hymt_prefix_commit(&pool, &a, 0, B + 3);
    is_int(hymt_prefix_skip(&pool, &b, 0, 48), B, "a block is ready: skipped");
    is_int(hymt_prefix_claim(&pool, &b, 1, B, 32), 0, "the next is half done");

    hymt_prefix_abandon(&pool, &a, 0);
    hymt_kv_release(&pool, &a);
    is_int(hymt_prefix_claim(&pool, &b, 1, B, 32), 32,
           "its owner gone, it is the second's");

    hymt_prefix_reserve(&pool, &c, 2, &everybody, prompt, 3 * B, 3 * B);
    is_int(hymt_prefix_skip(&pool, &c, 0, 48), B, "a third skips the first");
    is_int(hymt_prefix_claim(&pool, &c, 2, B, 32), 0, "waits for the second");

    hymt_prefix_commit(&pool, &b, B, B);
    is_int(hymt_prefix_skip(&pool, &c, B, 48), 2 * B, "skips it when ready");
    is_int(hymt_prefix_claim(&pool, &c, 2, 2 * B, B), B, "does the last alone");

    hymt_prefix_abandon(&pool, &c, 2);
    hymt_kv_release(&pool, &c);
    hymt_prefix_abandon(&pool, &b, 1);
    hymt_kv_release(&pool, &b);
    is_int((int) hymt_kv_available(&pool), 12, "nobody holds a block");
    is_int(pool.n_free, 10, "two are known");

    hymt_block_table_free(&a);
    hymt_block_table_free(&b);
    hymt_block_table_free(&c);
    hymt_kv_pool_free(&pool);
}


/* One token, one scope, one place: each makes another block of it. */
static void
test_exact(void)
{
    uint32_t            i, n, prompt[CONTEXT];
    hymt_scope_t        scope;
    hymt_kv_pool_t      pool;
    hymt_block_table_t  t;

    count(prompt, CONTEXT);
    hymt_kv_pool_init(&pool, 12, NULL);
    hymt_prefix_init(&pool, NULL);
    hymt_block_table_init(&t, CONTEXT, NULL);

    hymt_prefix_reserve(&pool, &t, 0, &everybody, prompt, 65, 65);
    hymt_prefix_commit(&pool, &t, 0, 65);
    hymt_kv_release(&pool, &t);

    for (i = 0, n = 0; i < 64; i++) {
        prompt[i]++;
        hymt_prefix_reserve(&pool, &t, 0, &everybody, prompt, 65, 65);
        n += hymt_prefix_skip(&pool, &t, 0, 65) == i / B * B;
        hymt_kv_release(&pool, &t);
        prompt[i]--;
    }

    is_int((int) n, 64, "another token: what is before its block is found");

    for (i = 0, n = 0; i < 128; i++) {
        memset(&scope, 0, sizeof(scope));
        scope.word[i / 64] = UINT64_C(1) << i % 64;
        hymt_prefix_reserve(&pool, &t, 0, &scope, prompt, 65, 65);
        n += hymt_prefix_skip(&pool, &t, 0, 65) == 0;
        hymt_kv_release(&pool, &t);
    }

    is_int((int) n, 128, "another scope: nothing");

    hymt_prefix_reserve(&pool, &t, 0, &everybody, prompt + B, 49, 49);
    is_int(hymt_prefix_skip(&pool, &t, 0, 49), 0, "the same block elsewhere:"
           " nothing");
    hymt_kv_release(&pool, &t);

    hymt_prefix_reserve(&pool, &t, 0, &everybody, prompt, 65, 65);
    is_int(hymt_prefix_skip(&pool, &t, 0, 65), 64, "the same: all");
    hymt_kv_release(&pool, &t);

    hymt_block_table_free(&t);
    hymt_kv_pool_free(&pool);
}


static void
test_scope(void)
{
    hymt_scope_t  a, b, nobody;

    hymt_scope("a", 1, &a);
    hymt_scope("a", 1, &b);
    hymt_scope("", 0, &nobody);
    ok(memcmp(&a, &b, sizeof(a)) == 0, "one owner, one scope");

    hymt_scope("b", 1, &b);
    ok(memcmp(&a, &b, sizeof(a)) != 0, "two owners, two scopes");
    ok(memcmp(&nobody, &everybody, sizeof(a)) != 0, "no name is everybody's");
}


static void
test_all_or_nothing(void)
{
    uint32_t            prompt[CONTEXT];
    hymt_kv_pool_t      pool;
    hymt_block_table_t  a, b;

    count(prompt, CONTEXT);
    hymt_kv_pool_init(&pool, 6, NULL);
    hymt_prefix_init(&pool, NULL);
    hymt_block_table_init(&a, CONTEXT, NULL);
    hymt_block_table_init(&b, CONTEXT, NULL);

    hymt_prefix_reserve(&pool, &a, 0, &everybody, prompt, 3 * B, 3 * B);
    hymt_prefix_commit(&pool, &a, 0, 3 * B);
    hymt_kv_release(&pool, &a);

    prompt[B]++;
    hymt_prefix_reserve(&pool, &b, 1, &everybody, prompt + B, B, 2 * B);
    prompt[B]--;
    is_int(pool.n_free, 1, "three known, two held, one free");

    is_int(hymt_prefix_reserve(&pool, &a, 0, &everybody, prompt, 3 * B,
                               5 * B), HYMT_AGAIN,
           "blocks that are found are no room for others");
    is_int(a.n_blocks, 0, "the table is as it was");
    is_int((int) hymt_prefix_idle(&pool), 3, "and so is the cache");

    is_int(hymt_prefix_reserve(&pool, &a, 0, &everybody, prompt, 3 * B,
                               4 * B), HYMT_OK, "one less fits");
    is_int(pool.n_free, 0, "in all there is");
    is_int(hymt_prefix_skip(&pool, &a, 0, 3 * B), 2 * B, "with its two hits");

    is_int(hymt_prefix_reserve(&pool, &b, 0, &everybody, prompt, B, 7 * B),
           HYMT_TOO_LONG, "more than the pool");

    hymt_kv_release(&pool, &a);
    hymt_kv_release(&pool, &b);
    hymt_block_table_free(&a);
    hymt_block_table_free(&b);
    hymt_kv_pool_free(&pool);
}


/*
 * The model: what each block holds, as the one who computes it writes it: the
 * tokens from the prompt's first to the block's last.
 */
typedef struct {
    uint32_t            prompt[CONTEXT];
    uint32_t            n;
    uint32_t            done;
    hymt_scope_t        scope;
    hymt_block_table_t  t;
} table_t;


typedef struct {
    uint32_t      n;
    uint32_t      token[CONTEXT];
    hymt_scope_t  scope;
} content_t;


static hymt_kv_pool_t  pool;
static table_t         table[N_TABLES];
static content_t       content[N_BLOCKS];


/* Each block is free, idle or held, as often as tables have it. */
static bool
counts_are_right(void)
{
    uint32_t  i, j, held, refs[N_BLOCKS];

    memset(refs, 0, sizeof(refs));

    for (i = 0; i < N_TABLES; i++) {
        for (j = 0; j < table[i].t.n_blocks; j++) {
            refs[table[i].t.block[j]]++;
        }
    }

    for (i = 0, held = 0; i < N_BLOCKS; i++) {
        held += refs[i] > 0;

        if (refs[i] != pool.refs[i]) {
            return false;
        }
    }

    for (i = 0; i < pool.n_free; i++) {
        if (refs[pool.free[i]] > 0) {
            return false;
        }
    }

    return held + hymt_kv_available(&pool) == N_BLOCKS;
}


static bool
random_begin(uint32_t i)
{
    uint32_t       k, kind, alike;
    table_t       *t;
    hymt_status_t  rc;

    t = &table[i];
    kind = roll(3);
    alike = roll(CONTEXT);

    t->n = 1 + roll(CONTEXT - B);
    t->done = 0;
    t->scope.word[0] = roll(8) == 0;

    for (k = 0; k < t->n; k++) {
        t->prompt[k] = k < alike ? kind : roll(3);
    }

    rc = hymt_prefix_reserve(&pool, &t->t, i, &t->scope, t->prompt, t->n,
                             t->n + roll(B));

    return rc == HYMT_OK || (rc == HYMT_AGAIN && t->t.n_blocks == 0);
}


/* Skips, checks what it skips, and computes some of the rest. */
static bool
random_compute(uint32_t i)
{
    uint32_t    k, n, pos;
    table_t    *t;
    content_t  *c;

    t = &table[i];
    pos = hymt_prefix_skip(&pool, &t->t, t->done, t->n);

    for (k = t->done / B; k < pos / B; k++) {
        c = &content[t->t.block[k]];

        if (c->n != (k + 1) * B
            || memcmp(c->token, t->prompt, 4 * c->n) != 0
            || memcmp(&c->scope, &t->scope, sizeof(hymt_scope_t)) != 0)
        {
            return false;
        }
    }

    if (pos >= t->n && t->done < t->n) {
        return false;
    }

    n = hymt_prefix_claim(&pool, &t->t, i, pos, t->n - pos);
    n = n > 0 ? 1 + roll(n) : 0;

    for (k = pos; k < pos + n; k++) {
        c = &content[t->t.block[k / B]];

        /* nobody else holds what is written, unless they wait for it */

        c->n = k + 1;
        c->scope = t->scope;
        memcpy(c->token, t->prompt, 4 * (k + 1));
    }

    hymt_prefix_commit(&pool, &t->t, pos, n);
    t->done = pos + n;

    return true;
}


static bool
random_run(uint64_t seed)
{
    uint32_t  i, turn;
    bool      good;

    rng = seed * 2654435761 + 88172645463325252;
    good = true;

    hymt_kv_pool_init(&pool, N_BLOCKS, NULL);
    hymt_prefix_init(&pool, NULL);

    for (i = 0; i < N_TABLES; i++) {
        hymt_block_table_init(&table[i].t, CONTEXT + B, NULL);
    }

    for (turn = 0; good && turn < 2000; turn++) {
        i = roll(N_TABLES);

        if (table[i].t.n_blocks == 0) {
            good = random_begin(i);

        } else if (roll(12) == 0 || table[i].done == table[i].n) {
            hymt_prefix_abandon(&pool, &table[i].t, i);
            hymt_kv_release(&pool, &table[i].t);

        } else {
            good = random_compute(i);
        }

        good = good && counts_are_right();
    }

    if (!good) {
        printf("# seed %" PRIu64 ": turn %u\n", seed, turn);
    }

    for (i = 0; i < N_TABLES; i++) {
        hymt_prefix_abandon(&pool, &table[i].t, i);
        hymt_kv_release(&pool, &table[i].t);
        hymt_block_table_free(&table[i].t);
    }

    good = good && hymt_kv_available(&pool) == N_BLOCKS;
    hymt_kv_pool_free(&pool);

    return good;
}


int
main(int argc, char **argv)
{
    test_without();
    test_waits();
    test_exact();
    test_scope();
    test_all_or_nothing();

    ok(tap_runs(argc, argv, 200, random_run),
       "200 random runs: what is skipped holds the prompt's tokens, in"
       " its scope; no block is lost");

    return tap_done();
}
