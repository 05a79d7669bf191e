/*
 * quota.h - one limit that several processes take from.
 *
 * Each process has a word of its own, in memory they share, that it alone
 * writes: what one that died had taken is gone when its word is cleared.  The
 * sum of all words is what is taken.
 *
 * A process first adds to its word and then looks at the sum, so of two that
 * come at the same time at least one sees the other: together they never have
 * more than there is.  Who finds too much takes it back.
 */

#ifndef HYMT_QUOTA_H
#define HYMT_QUOTA_H

#include "base.h"

#include <stdatomic.h>


typedef struct {
    _Atomic uint64_t  taken;
} hymt_quota_t;


/*
 * Takes n for word `own` of quota [n_words], if then at most max are taken by
 * all.  false: nothing was taken, since there is no room, or, which is rare,
 * others kept trying at the same moments.  Never waits for anybody.
 */
bool hymt_quota_take(hymt_quota_t *quota, uint32_t n_words, uint32_t own,
    uint64_t n, uint64_t max);

/* what take() has given, back */
void hymt_quota_give(hymt_quota_t *quota, uint32_t own, uint64_t n);

/* what is taken by all, those included that are about to find too much */
uint64_t hymt_quota_taken(const hymt_quota_t *quota, uint32_t n_words);

/* the process that had this word is gone */
void hymt_quota_clear(hymt_quota_t *quota, uint32_t own);


#endif /* HYMT_QUOTA_H */
