/*
 * pool.h - the compute threads of the CPU backend.
 *
 * A pool of n threads is n - 1 helpers and the thread that calls run().  Items
 * of a job are taken one by one from a shared counter, so a thread that the
 * kernel puts aside delays its own item and no other; and a helper that comes
 * late to a job finds it closed and is not waited for.
 *
 * Waiting is a few microseconds of spinning, and only where the host has a
 * core for every thread; then a futex.  A pool of one thread uses neither
 * atomics nor system calls.  Where helpers keep losing their cores to other
 * processes, the caller works alone for some jobs.
 *
 * Helpers block all signals but those of their own faults and are called
 * "hymt-cpu".
 *
 * Thread: all calls from one thread, which is part of the pool.
 */

#ifndef HYMT_POOL_H
#define HYMT_POOL_H

#include "base.h"


#define HYMT_POOL_MAX  256


typedef struct hymt_pool_s  hymt_pool_t;


/* Does item i; thread is in [0, n_threads), for scratch memory. */
typedef void (*hymt_pool_fn_t)(void *arg, uint32_t i, uint32_t thread);


/*
 * The number of threads that suits the host: the physical cores this process
 * may run on (affinity mask, then the quota of cgroup v2), less one for the
 * rest of the process where there are more than two.
 */
uint32_t hymt_pool_default(void);


/* threads in [1, HYMT_POOL_MAX]; more is an error. */
hymt_status_t hymt_pool_create(uint32_t threads, hymt_pool_t **pool,
    hymt_error_t *err);

/* Ends and joins the helpers.  pool may be NULL. */
void hymt_pool_destroy(hymt_pool_t *pool);

uint32_t hymt_pool_threads(const hymt_pool_t *pool);


/*
 * Does items 0 to n - 1 in any order and returns when all are done.  What they
 * wrote is seen by the caller.  Not to be called from an item.
 */
void hymt_pool_run(hymt_pool_t *pool, hymt_pool_fn_t fn, void *arg,
    uint32_t n);


#endif /* HYMT_POOL_H */
