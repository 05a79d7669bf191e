/*
 * quota.c - see quota.h.
 */

#include "quota.h"


/* two that refuse each other try again, each after its own time */
#define HYMT_QUOTA_TRIES  16


static void hymt_quota_pause(uint32_t n);


bool
hymt_quota_take(hymt_quota_t *quota, uint32_t n_words, uint32_t own,
    uint64_t n, uint64_t max)
{
    uint32_t  i;

    for (i = 0; i < HYMT_QUOTA_TRIES; i++) {

        (void) atomic_fetch_add(&quota[own].taken, n);

        if (hymt_quota_taken(quota, n_words) <= max) {
            return true;
        }

        (void) atomic_fetch_sub(&quota[own].taken, n);

        /* some of that may have been another's try */

        if (hymt_quota_taken(quota, n_words) + n > max) {
            return false;
        }

        hymt_quota_pause((own + 1) * (i + 1));
    }

    return false;
}


/* some loads each: nothing that a compiler may leave out */
static void
hymt_quota_pause(uint32_t n)
{
    uint32_t           i;
    _Atomic uint32_t   at;

    atomic_init(&at, 0);

    for (i = 0; i < n; i++) {
        (void) atomic_fetch_add(&at, 1);
    }
}


void
hymt_quota_give(hymt_quota_t *quota, uint32_t own, uint64_t n)
{
    (void) atomic_fetch_sub(&quota[own].taken, n);
}


uint64_t
hymt_quota_taken(const hymt_quota_t *quota, uint32_t n_words)
{
    uint32_t  i;
    uint64_t  sum;

    for (i = 0, sum = 0; i < n_words; i++) {
        sum += atomic_load(&quota[i].taken);
    }

    return sum;
}


void
hymt_quota_clear(hymt_quota_t *quota, uint32_t own)
{
    atomic_store(&quota[own].taken, 0);
}
