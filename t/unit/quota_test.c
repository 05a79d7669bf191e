/*
 * quota_test.c - limits that several take from at once: see quota.h.
 */

#include "quota.h"
#include "tap.h"

#include <pthread.h>
#include <sched.h>


#define N_THREADS  6
#define N_ROUNDS   1000000   /* that each has its share */


typedef struct {
    uint32_t  own;
    uint64_t  n;
    uint64_t  most;      /* that all had together while this one had its n */
} taker_t;


static hymt_quota_t      quota[N_THREADS];
static _Atomic uint64_t  held;
static uint64_t          limit;
static uint64_t          end_ns;      /* no rounds begin after it */

static pthread_barrier_t  start;


static void
test_alone(void)
{
    ok(hymt_quota_take(quota, 3, 0, 4, 10), "four of ten");
    ok(hymt_quota_take(quota, 3, 2, 6, 10), "another's six");
    ok(!hymt_quota_take(quota, 3, 1, 1, 10), "no more");
    is_int(hymt_quota_taken(quota, 3), 10, "and nothing was taken for that");
    ok(hymt_quota_take(quota, 3, 1, 0, 10), "nothing fits");

    hymt_quota_give(quota, 2, 5);
    ok(!hymt_quota_take(quota, 3, 1, 6, 10), "six where five are left");
    ok(hymt_quota_take(quota, 3, 1, 5, 10), "five");

    hymt_quota_clear(quota, 0);
    is_int(hymt_quota_taken(quota, 3), 6, "what one that died had is gone");
    ok(hymt_quota_take(quota, 3, 0, 4, 10), "others may have it");
    ok(!hymt_quota_take(quota, 3, 0, 11, 10), "more than there is");

    hymt_quota_clear(quota, 0);
    hymt_quota_clear(quota, 1);
    hymt_quota_clear(quota, 2);
    is_int(hymt_quota_taken(quota, 3), 0, "all given back");
}


static void *
take(void *data)
{
    uint32_t   i;
    uint64_t   now;
    taker_t   *t;

    t = data;

    pthread_barrier_wait(&start);

    for (i = 0; i < N_ROUNDS; i++) {

        /* where others want the processors, a turn takes milliseconds */

        if (i % 64 == 1 && hymt_now_ns() >= end_ns) {
            break;
        }

        while (!hymt_quota_take(quota, N_THREADS, t->own, t->n, limit)) {
            sched_yield();
        }

        now = atomic_fetch_add(&held, t->n) + t->n;
        t->most = hymt_max(t->most, now);

        if (i % 64 == 0) {
            sched_yield();
        }

        (void) atomic_fetch_sub(&held, t->n);
        hymt_quota_give(quota, t->own, t->n);
    }

    return NULL;
}


static void
test_together(uint64_t max, uint64_t n, const char *name)
{
    uint32_t   i;
    uint64_t   most;
    taker_t    taker[N_THREADS];
    pthread_t  thread[N_THREADS];

    limit = max;
    end_ns = hymt_now_ns() + 3000000000;
    memset(taker, 0, sizeof(taker));
    pthread_barrier_init(&start, NULL, N_THREADS);

    for (i = 0; i < N_THREADS; i++) {
        taker[i].own = i;
        taker[i].n = n != 0 ? n : 1 + i;
        pthread_create(&thread[i], NULL, take, &taker[i]);
    }

    most = 0;

    for (i = 0; i < N_THREADS; i++) {
        pthread_join(thread[i], NULL);

        most = hymt_max(most, taker[i].most);
    }

    pthread_barrier_destroy(&start);

    /* and none of them waits for ever, or this is never reached */

    ok(most <= max, "%s: never more than %d, %d at most", name, (int) max,
       (int) most);
    is_int(hymt_quota_taken(quota, N_THREADS), 0, "%s: all given back", name);
}


int
main(void)
{
    test_alone();
    test_together(1, 1, "one");
    test_together(3, 1, "three");
    test_together(7, 0, "of several sizes");

    return tap_done();
}
