/*
 * backend_fixture.h - the CUDA backend under test: how it is found and opened,
 * and sequences with blocks of their own, scattered over the pool.
 */

#ifndef HYMT_BACKEND_FIXTURE_H
#define HYMT_BACKEND_FIXTURE_H

#define SLOTS    256
#define ROWS     1024
#ifndef CONTEXT
#define CONTEXT  2048
#endif
#define BLOCKS   4096

#include "fixture.h"
#include "seq_fixture.h"

#include <libgen.h>


/* of the backends that are opened: less for tools that run everything slowly */
static uint32_t      max_slots = SLOTS;
static uint32_t      max_rows = ROWS;

/* blocks of the pool in random order, and how many have been given out */
static uint32_t      pool[BLOCKS];
static uint32_t      pool_used;


/* The shared object lies one folder above the tests' programs. */
__attribute__((unused))
static const hymt_backend_ops_t *
cuda_ops(char *program)
{
    char                       *path, *copy;
    const hymt_backend_ops_t   *ops;

    if (getenv("HYMT_CUDA_LIBRARY") == NULL) {
        copy = strdup(program);

        if (asprintf(&path, "%s/../hymt_cuda.so", dirname(copy)) > 0) {
            setenv("HYMT_CUDA_LIBRARY", path, 1);
            free(path);
        }

        free(copy);
    }

    ops = hymt_backend_find("cuda", &err);
    if (ops == NULL) {
        die("backend cuda");
    }

    return ops;
}


__attribute__((unused))
static hymt_backend_t *
backend_open(const hymt_backend_ops_t *ops, const hymt_model_t *model,
    const volatile int *stop)
{
    hymt_backend_t         *b;
    hymt_backend_params_t   p;

    memset(&p, 0, sizeof(p));

    p.max_batch = max_slots;
    p.max_rows = max_rows;
    p.context = hymt_min(CONTEXT, model->config.max_position);
    p.n_blocks = BLOCKS;
    p.stop = stop;

    if (ops->create(&p, model, &b, &err) != HYMT_OK) {
        die(ops->name);
    }

    return b;
}


/* All blocks are free again, in another order. */
__attribute__((unused))
static void
pool_reset(void)
{
    uint32_t  i, j, t;

    for (i = 0; i < BLOCKS; i++) {
        pool[i] = i;
    }

    for (i = BLOCKS - 1; i > 0; i--) {
        j = random_below(i + 1);
        t = pool[i];
        pool[i] = pool[j];
        pool[j] = t;
    }

    pool_used = 0;
}


/* A prompt of n tokens that depend on the seed alone, and room for `more`. */
__attribute__((unused))
static void
seq_make(seq_t *s, uint32_t slot, uint32_t n, uint32_t more, uint64_t seed,
    uint32_t vocab)
{
    uint32_t  i;
    uint64_t  kept;

    memset(s, 0, sizeof(*s));

    s->slot = slot;
    s->n = n;

    for (i = 0; i < hymt_ceil_div(n + more, HYMT_KV_BLOCK); i++) {
        if (pool_used == BLOCKS) {
            hymt_fail(&err, "no block is left");
            die("fixture");
        }

        s->blocks[i] = pool[pool_used++];
    }

    kept = random_state;
    random_state = seed * 7919 + 1;

    for (i = 0; i < n + more; i++) {
        s->tokens[i] = random_below(vocab);
    }

    random_state = kept;
}


#endif /* HYMT_BACKEND_FIXTURE_H */
