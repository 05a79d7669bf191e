/*
 * kv_cache_test.c - the promises of kv_cache.h.
 */

#include "kv_cache.h"
#include "random.h"
#include "tap.h"


#define N_TABLES  7
#define N_BLOCKS  40


static void
test_refusals(void)
{
    hymt_error_t        err;
    hymt_kv_pool_t      pool;
    hymt_block_table_t  table;

    is_int(hymt_kv_pool_init(&pool, 0, &err), HYMT_ERROR,
           "a pool without blocks is refused");
    has_str(err.text, "at least one block", "and the error says so");

    is_int(hymt_block_table_init(&table, 0, &err), HYMT_ERROR,
           "a context of 0 is refused");
    has_str(err.text, "context of 0", "and the error says so");

    hymt_kv_pool_free(&pool);
    hymt_block_table_free(&table);
}


static void
test_all_or_nothing(void)
{
    hymt_kv_pool_t      pool;
    hymt_block_table_t  a, b;

    hymt_kv_pool_init(&pool, 4, NULL);
    hymt_block_table_init(&a, 3 * HYMT_KV_BLOCK - 1, NULL);
    hymt_block_table_init(&b, 100 * HYMT_KV_BLOCK, NULL);

    is_int(a.capacity, 3, "capacity is rounded up");

    is_int(hymt_kv_reserve(&pool, &a, 1), HYMT_OK, "one token");
    is_int(a.n_blocks, 1, "takes one block");

    is_int(hymt_kv_reserve(&pool, &a, HYMT_KV_BLOCK), HYMT_OK,
           "a full block's tokens");
    is_int(a.n_blocks, 1, "take no second block");

    is_int(hymt_kv_reserve(&pool, &a, HYMT_KV_BLOCK + 1), HYMT_OK,
           "one token more");
    is_int(a.n_blocks, 2, "takes a second");
    ok(a.block[0] != a.block[1], "another one");

    is_int(hymt_kv_reserve(&pool, &a, 3 * HYMT_KV_BLOCK + 1), HYMT_TOO_LONG,
           "more than the table holds is too long");
    is_int(hymt_kv_reserve(&pool, &b, 4 * HYMT_KV_BLOCK + 1), HYMT_TOO_LONG,
           "more than the whole pool is too long");
    is_int(hymt_kv_reserve(&pool, &b, UINT32_MAX), HYMT_TOO_LONG,
           "the greatest number does not wrap");
    is_int(hymt_kv_reserve(&pool, &b, 3 * HYMT_KV_BLOCK), HYMT_AGAIN,
           "more than is free: come back later");
    is_int(b.n_blocks, 0, "the table is as it was");
    is_int(pool.n_free, 2, "and so is the pool");

    hymt_kv_release(&pool, &a);
    is_int(a.n_blocks, 0, "released");
    is_int(hymt_kv_reserve(&pool, &b, 3 * HYMT_KV_BLOCK), HYMT_OK,
           "now there is room");
    is_int(pool.n_free, 1, "for three");

    hymt_kv_release(&pool, &b);
    hymt_kv_release(&pool, &b);
    is_int(pool.n_free, 4, "releasing twice gives back once");

    hymt_block_table_free(&a);
    hymt_block_table_free(&b);
    hymt_kv_pool_free(&pool);
}


/* What another holder still counts on does not become free. */
static void
test_shared(void)
{
    uint32_t            block;
    hymt_kv_pool_t      pool;
    hymt_block_table_t  a, b;

    hymt_kv_pool_init(&pool, 2, NULL);
    hymt_block_table_init(&a, HYMT_KV_BLOCK, NULL);
    hymt_block_table_init(&b, HYMT_KV_BLOCK, NULL);

    hymt_kv_reserve(&pool, &a, 1);
    block = a.block[0];

    pool.refs[block]++;
    b.block[b.n_blocks++] = block;

    hymt_kv_release(&pool, &a);
    is_int(pool.n_free, 1, "a block with a second holder stays taken");

    hymt_kv_release(&pool, &b);
    is_int(pool.n_free, 2, "the last holder frees it");

    hymt_block_table_free(&a);
    hymt_block_table_free(&b);
    hymt_kv_pool_free(&pool);
}


static bool
owned_once(const hymt_kv_pool_t *pool, const hymt_block_table_t *tables)
{
    uint32_t  i, j, n[N_BLOCKS] = { 0 };

    for (i = 0; i < pool->n_free; i++) {
        n[pool->free[i]]++;
    }

    for (i = 0; i < N_TABLES; i++) {
        for (j = 0; j < tables[i].n_blocks; j++) {
            n[tables[i].block[j]]++;
        }
    }

    for (i = 0; i < N_BLOCKS; i++) {
        if (n[i] != 1) {
            return false;
        }
    }

    return true;
}


static void
test_random(void)
{
    bool                good;
    uint32_t            i, step;
    hymt_kv_pool_t      pool;
    hymt_block_table_t  tables[N_TABLES];

    good = true;
    hymt_kv_pool_init(&pool, N_BLOCKS, NULL);

    for (i = 0; i < N_TABLES; i++) {
        hymt_block_table_init(&tables[i], 16 * HYMT_KV_BLOCK, NULL);
    }

    for (step = 0; step < 20000; step++) {
        i = roll(N_TABLES);

        if (roll(3) == 0) {
            hymt_kv_release(&pool, &tables[i]);

        } else {
            hymt_kv_reserve(&pool, &tables[i], roll(17 * HYMT_KV_BLOCK));
        }

        good = good && owned_once(&pool, tables);
    }

    ok(good, "20000 random steps: each block has exactly one owner");

    for (i = 0; i < N_TABLES; i++) {
        hymt_kv_release(&pool, &tables[i]);
        hymt_block_table_free(&tables[i]);
    }

    is_int(pool.n_free, N_BLOCKS, "none is lost");

    hymt_kv_pool_free(&pool);
}


int
main(void)
{
    test_refusals();
    test_all_or_nothing();
    test_shared();
    test_random();

    return tap_done();
}
