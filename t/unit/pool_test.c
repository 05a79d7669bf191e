/*
 * pool_test.c - every item once, everything seen, clean ends; signals and
 * names of the helpers.
 */

#include "pool.h"
#include "tap.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>


#define ITEMS  1000


typedef struct {
    uint32_t  n_threads;
    uint32_t  done[ITEMS];       /* times, by item: one thread each */
    uint32_t  bad_thread[ITEMS];
    uint32_t  nap;               /* us in item 0 */
} job_t;


static void
count(void *arg, uint32_t i, uint32_t thread)
{
    job_t  *job = arg;

    job->done[i]++;
    job->bad_thread[i] |= thread >= job->n_threads;

    if (i == 0 && job->nap != 0) {
        usleep(job->nap);
    }
}


static void
test_items(uint32_t threads, uint32_t jobs, uint32_t nap)
{
    job_t          *job;
    uint32_t        i, j, n, bad;
    hymt_pool_t    *pool;
    hymt_error_t    err;

    static const uint32_t  sizes[] = { 0, 1, 2, 3, 17, 64, ITEMS };

    if (!ok(hymt_pool_create(threads, &pool, &err) == HYMT_OK, "a pool of %u",
            threads))
    {
        printf("# %s\n", err.text);
        return;
    }

    is_int(hymt_pool_threads(pool), threads, "has %u threads", threads);

    job = calloc(1, sizeof(job_t));
    job->n_threads = threads;
    bad = 0;

    for (j = 0; j < jobs; j++) {
        n = sizes[j % hymt_nelts(sizes)];

        memset(job->done, 0, sizeof(job->done));
        job->nap = j % 50 == 4 ? nap : 0;
        hymt_pool_run(pool, count, job, n);

        for (i = 0; i < ITEMS; i++) {
            bad += job->done[i] != (i < n) || job->bad_thread[i];
        }
    }

    is_int(bad, 0, "%u threads, %u jobs: each item once, thread in range",
           threads, jobs);

    free(job);
    hymt_pool_destroy(pool);
}


static void
thread_facts(void *arg, uint32_t i, uint32_t thread)
{
    char      name[32];
    char     *fact = arg;
    sigset_t  set;

    (void) i;

    usleep(1000);

    if (thread != 1) {
        return;
    }

    pthread_getname_np(pthread_self(), name, sizeof(name));
    pthread_sigmask(SIG_BLOCK, NULL, &set);

    fact[0] = strcmp(name, "hymt-cpu") == 0 ? 'n' : '-';
    fact[1] = sigismember(&set, SIGTERM) && sigismember(&set, SIGALRM)
              && sigismember(&set, SIGCHLD) ? 'b' : '-';
    fact[2] = sigismember(&set, SIGSEGV) || sigismember(&set, SIGBUS)
              || sigismember(&set, SIGFPE) || sigismember(&set, SIGILL)
              ? '-' : 'f';
}


static uint32_t
process_threads(void)
{
    DIR       *d;
    uint32_t   n;

    n = 0;
    d = opendir("/proc/self/task");

    while (d != NULL && readdir(d) != NULL) {
        n++;
    }

    if (d != NULL) {
        closedir(d);
    }

    return n - 2;
}


static void
test_helpers(void)
{
    char           fact[4] = "";
    sigset_t       before, after;
    uint32_t       n;
    hymt_pool_t   *pool;
    hymt_error_t   err;

    n = process_threads();
    pthread_sigmask(SIG_BLOCK, NULL, &before);

    if (hymt_pool_create(3, &pool, &err) != HYMT_OK) {
        ok(false, "%s", err.text);
        return;
    }

    pthread_sigmask(SIG_BLOCK, NULL, &after);
    ok(sigismember(&before, SIGTERM) == sigismember(&after, SIGTERM),
       "the caller's signals are as before");
    is_int(process_threads(), n + 2, "two helpers and the caller");

    while (fact[0] == '\0') {
        hymt_pool_run(pool, thread_facts, fact, 64);
    }

    is_str(fact, "nbf", "helpers: named, signals blocked, faults not");

    hymt_pool_destroy(pool);
    is_int(process_threads(), n, "none left after the end");
}


static void
test_limits(void)
{
    uint32_t       n;
    hymt_pool_t   *pool;
    hymt_error_t   err;

    is_int(hymt_pool_create(0, &pool, &err), HYMT_ERROR, "no thread");
    has_str(err.text, "threads: 0", "says so");
    is_int(hymt_pool_create(HYMT_POOL_MAX + 1, &pool, &err), HYMT_ERROR,
           "too many");
    has_str(err.text, "out of range", "says so");

    n = hymt_pool_default();
    ok(n >= 1 && n <= HYMT_POOL_MAX, "by the host: %u", n);

    hymt_pool_destroy(NULL);
}


int
main(void)
{
    uint32_t  i;

    test_items(1, 100, 0);
    test_items(2, 3000, 2000);
    test_items(3, 1000, 2000);
    test_items(9, 300, 0);

    /* ends while helpers are still on their way in */

    for (i = 0; i < 3; i++) {
        test_items(4, i, 0);
    }

    test_helpers();
    test_limits();

    return tap_done();
}
