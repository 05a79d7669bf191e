/*
 * pool.c - see pool.h.
 *
 * `state` is the whole protocol: bit 31 says that a job is open, the bits below
 * count the helpers inside it.  A helper enters by adding one while the bit is
 * set; the caller clears the bit when no item is left and waits for the count
 * to reach zero.  `round` counts jobs and is what sleeping helpers wait on.
 */

#include "pool.h"
#include "thread.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>


#define HYMT_POOL_OPEN  0x80000000u

/* nanoseconds; the gap between two jobs of one layer is less */
#define HYMT_POOL_SPIN  5000

/* nanoseconds that a job's end may come late for no reason of its own */
#define HYMT_POOL_LATE  200000

/* the caller works alone for so many jobs at most after helpers came late */
#define HYMT_POOL_ALONE  256


typedef struct {
    hymt_pool_t  *pool;
    pthread_t     tid;
    uint32_t      index;       /* from 1 */
} hymt_pool_helper_t;


struct hymt_pool_s {
    uint32_t             n_threads;
    uint32_t             n_started;    /* helpers to join */
    uint64_t             spin_ns;      /* 0: never spin */

    uint32_t             alone;        /* jobs that the caller does alone */
    uint32_t             penalty;      /* how many after the next late one */

    /* the job: written by the caller while no helper is inside */
    hymt_pool_fn_t       fn;
    void                *arg;
    uint32_t             n;

    _Alignas(64) _Atomic uint32_t  next;
    _Alignas(64) _Atomic uint32_t  state;
    _Alignas(64) _Atomic uint32_t  round;
    _Atomic uint32_t     n_asleep;
    _Atomic uint32_t     caller_asleep;
    _Atomic bool         ending;

    hymt_pool_helper_t   helper[];
};


static uint32_t hymt_pool_cores(const cpu_set_t *set);
static uint32_t hymt_pool_quota(void);
static hymt_status_t hymt_pool_start(hymt_pool_t *pool, hymt_error_t *err);
static void *hymt_pool_helper(void *data);
static bool hymt_pool_enter(hymt_pool_t *pool);
static void hymt_pool_leave(hymt_pool_t *pool);
static uint32_t hymt_pool_work(hymt_pool_t *pool, uint32_t thread);
static void hymt_pool_judge(hymt_pool_t *pool, uint64_t late, uint64_t item);
static void hymt_pool_wait_round(hymt_pool_t *pool, uint32_t seen);
static void hymt_pool_wait_empty(hymt_pool_t *pool);
static void hymt_pool_pause(void);
static void hymt_futex_wait(_Atomic uint32_t *word, uint32_t value);
static void hymt_futex_wake(_Atomic uint32_t *word, int n);


uint32_t
hymt_pool_default(void)
{
    uint32_t   n, quota;
    cpu_set_t  set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return 1;
    }

    n = hymt_pool_cores(&set);

    quota = hymt_pool_quota();
    n = hymt_min(n, quota);

    if (n > 2) {
        n--;
    }

    return hymt_max(1, hymt_min(n, HYMT_POOL_MAX));
}


/*
 * CPUs of the set that are the first of their core there: a second hardware
 * thread of a core brings nothing to a loop of FMAs.
 */
static uint32_t
hymt_pool_cores(const cpu_set_t *set)
{
    int        cpu, first;
    FILE      *f;
    char       path[96];
    uint32_t   n;

    n = 0;

    for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, set)) {
            continue;
        }

        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/"
                 "thread_siblings_list", cpu);

        first = cpu;

        f = fopen(path, "re");
        if (f != NULL) {
            if (fscanf(f, "%d", &first) != 1) {
                first = cpu;
            }

            fclose(f);
        }

        n += first == cpu || first < 0 || first >= CPU_SETSIZE
             || !CPU_ISSET(first, set);
    }

    return hymt_max(n, 1);
}


/* "max 100000" or "200000 100000": microseconds of CPU time a period */
static uint32_t
hymt_pool_quota(void)
{
    FILE           *f;
    unsigned long   quota, period;
    uint32_t        n;

    n = HYMT_POOL_MAX;

    f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (f == NULL) {
        return n;
    }

    if (fscanf(f, "%lu %lu", &quota, &period) == 2 && period > 0) {
        quota = hymt_ceil_div(quota, period);
        n = (uint32_t) hymt_max(1, hymt_min(quota, HYMT_POOL_MAX));
    }

    fclose(f);

    return n;
}


hymt_status_t
hymt_pool_create(uint32_t threads, hymt_pool_t **out, hymt_error_t *err)
{
    size_t        size;
    cpu_set_t     set;
    hymt_pool_t  *pool;

    if (threads < 1 || threads > HYMT_POOL_MAX) {
        return hymt_fail(err, "threads: %u is out of range, 1 to %u is"
                         " possible", threads, HYMT_POOL_MAX);
    }

    size = sizeof(hymt_pool_t) + threads * sizeof(hymt_pool_helper_t);
    size = hymt_ceil_div(size, 64) * 64;

    pool = aligned_alloc(64, size);
    if (pool == NULL) {
        return hymt_fail(err, "no memory for the thread pool: %zu bytes", size);
    }

    memset(pool, 0, size);
    pool->n_threads = threads;

    if (sched_getaffinity(0, sizeof(set), &set) == 0
        && threads <= (uint32_t) CPU_COUNT(&set))
    {
        pool->spin_ns = HYMT_POOL_SPIN;
    }

    if (hymt_pool_start(pool, err) != HYMT_OK) {
        hymt_pool_destroy(pool);
        return HYMT_ERROR;
    }

    *out = pool;

    return HYMT_OK;
}


static hymt_status_t
hymt_pool_start(hymt_pool_t *pool, hymt_error_t *err)
{
    int                  rc;
    uint32_t             i;
    hymt_pool_helper_t  *h;

    rc = 0;

    for (i = 1; i < pool->n_threads && rc == 0; i++) {
        h = &pool->helper[i - 1];
        h->pool = pool;
        h->index = i;

        rc = hymt_thread_start(&h->tid, "hymt-cpu", hymt_pool_helper, h);
        pool->n_started += rc == 0;
    }

    if (rc != 0) {
        return hymt_fail(err, "can't start compute thread %u of %u: %s",
                         i - 1, pool->n_threads, strerror(rc));
    }

    return HYMT_OK;
}


void
hymt_pool_destroy(hymt_pool_t *pool)
{
    uint32_t  i;

    if (pool == NULL) {
        return;
    }

    atomic_store(&pool->ending, true);
    atomic_fetch_add(&pool->round, 1);
    hymt_futex_wake(&pool->round, HYMT_POOL_MAX);

    for (i = 0; i < pool->n_started; i++) {
        pthread_join(pool->helper[i].tid, NULL);
    }

    free(pool);
}


uint32_t
hymt_pool_threads(const hymt_pool_t *pool)
{
    return pool->n_threads;
}


void
hymt_pool_run(hymt_pool_t *pool, hymt_pool_fn_t fn, void *arg, uint32_t n)
{
    uint32_t  i, done, asleep;
    uint64_t  start, mine;

    if (pool->n_threads == 1 || n <= 1 || pool->alone > 0) {
        pool->alone -= pool->alone > 0;

        for (i = 0; i < n; i++) {
            fn(arg, i, 0);
        }

        return;
    }

    pool->fn = fn;
    pool->arg = arg;
    pool->n = n;

    start = hymt_now_ns();

    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store(&pool->state, HYMT_POOL_OPEN);
    atomic_fetch_add(&pool->round, 1);

    asleep = atomic_load(&pool->n_asleep);
    if (asleep != 0) {
        hymt_futex_wake(&pool->round, (int) hymt_min(n - 1, asleep));
    }

    done = hymt_pool_work(pool, 0);
    mine = hymt_now_ns();

    if (atomic_fetch_and(&pool->state, ~HYMT_POOL_OPEN) != HYMT_POOL_OPEN) {
        hymt_pool_wait_empty(pool);
        hymt_pool_judge(pool, hymt_now_ns() - mine,
                        (mine - start) / hymt_max(done, 1));
    }
}


/*
 * A helper that holds its item for much longer than the caller needs for one
 * has lost its core to somebody else, and the caller with it.  Then the caller
 * does better alone for a while: twice as long each time, half as long after a
 * job that went well.
 */
static void
hymt_pool_judge(hymt_pool_t *pool, uint64_t late, uint64_t item)
{
    if (late > HYMT_POOL_LATE + 2 * item) {
        pool->penalty = hymt_min(pool->penalty * 2 + 8, HYMT_POOL_ALONE);
        pool->alone = pool->penalty;

    } else {
        pool->penalty /= 2;
    }
}


static void *
hymt_pool_helper(void *data)
{
    uint32_t             seen;
    hymt_pool_t         *pool;
    hymt_pool_helper_t  *h;

    h = data;
    pool = h->pool;

    for ( ;; ) {
        seen = atomic_load(&pool->round);

        if (atomic_load(&pool->ending)) {
            return NULL;
        }

        if (hymt_pool_enter(pool)) {
            hymt_pool_work(pool, h->index);
            hymt_pool_leave(pool);
        }

        hymt_pool_wait_round(pool, seen);
    }
}


static bool
hymt_pool_enter(hymt_pool_t *pool)
{
    uint32_t  state;

    state = atomic_load(&pool->state);

    while (state & HYMT_POOL_OPEN) {
        if (atomic_compare_exchange_weak(&pool->state, &state, state + 1)) {
            return true;
        }
    }

    return false;
}


static void
hymt_pool_leave(hymt_pool_t *pool)
{
    /* 1: the last one out of a job that the caller has closed */

    if (atomic_fetch_sub(&pool->state, 1) == 1
        && atomic_load(&pool->caller_asleep))
    {
        hymt_futex_wake(&pool->state, 1);
    }
}


/* Returns the number of items done here. */
static uint32_t
hymt_pool_work(hymt_pool_t *pool, uint32_t thread)
{
    uint32_t  i, done;

    for (done = 0; /* void */ ; done++) {
        i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);

        if (i >= pool->n) {
            return done;
        }

        pool->fn(pool->arg, i, thread);
    }
}


static void
hymt_pool_wait_round(hymt_pool_t *pool, uint32_t seen)
{
    uint64_t  end;

    if (pool->spin_ns != 0) {
        end = hymt_now_ns() + pool->spin_ns;

        do {
            if (atomic_load(&pool->round) != seen) {
                return;
            }

            hymt_pool_pause();

        } while (hymt_now_ns() < end);
    }

    atomic_fetch_add(&pool->n_asleep, 1);

    while (atomic_load(&pool->round) == seen) {
        hymt_futex_wait(&pool->round, seen);
    }

    atomic_fetch_sub(&pool->n_asleep, 1);
}


static void
hymt_pool_wait_empty(hymt_pool_t *pool)
{
    uint32_t  state;
    uint64_t  end;

    if (pool->spin_ns != 0) {
        end = hymt_now_ns() + pool->spin_ns;

        do {
            if (atomic_load(&pool->state) == 0) {
                return;
            }

            hymt_pool_pause();

        } while (hymt_now_ns() < end);
    }

    atomic_store(&pool->caller_asleep, 1);

    for ( ;; ) {
        state = atomic_load(&pool->state);
        if (state == 0) {
            break;
        }

        hymt_futex_wait(&pool->state, state);
    }

    atomic_store(&pool->caller_asleep, 0);
}


static void
hymt_pool_pause(void)
{
    int  i;

    for (i = 0; i < 16; i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile ("yield");
#endif
    }
}


/* Returns at once where *word is not value any more. */
static void
hymt_futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    (void) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}


static void
hymt_futex_wake(_Atomic uint32_t *word, int n)
{
    (void) syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}
