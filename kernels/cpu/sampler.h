/*
 * sampler.h - draws the next token from one row of logits, on the host.
 *
 * The order of sampling.h, with what it leaves open settled so that a result is
 * exact and a function of the logits alone:
 *   - temperature divides in fp32;
 *   - top-k keeps every token whose score is not below the k-th largest, ties
 *     at that value included;
 *   - probabilities and their sums are in double, over what top-k kept;
 *   - top-p orders by score, equal scores by id, and keeps the shortest
 *     beginning whose sum reaches top_p;
 *   - the draw walks the kept tokens by id: the first whose running sum exceeds
 *     hymt_uniform() times the sum of all.
 *
 * No sorting: the k-th value and the top-p border are found by a radix search
 * over the bits of the scores, three passes at most, so a vocabulary of 120,000
 * costs about a millisecond whatever the settings.
 *
 * Thread: any; no state.
 */

#ifndef HYMT_SAMPLER_H
#define HYMT_SAMPLER_H

#include "sampling.h"


/* Words of a set of token ids. */
#define hymt_seen_words(vocab)  hymt_ceil_div(vocab, 64)


static inline void
hymt_seen_add(uint64_t *seen, uint32_t id)
{
    seen[id / 64] |= (uint64_t) 1 << id % 64;
}


/*
 * Output token number n (from 0) of a sequence.  logits [vocab] are changed;
 * -INFINITY is allowed (never drawn while anything else is there), not a number
 * is not.  seen is the set of ids in prompt and output so far, all of them
 * below vocab; scratch is [vocab], unused with temperature 0.
 */
uint32_t hymt_sample(const hymt_sampling_t *s, const uint64_t *seen, uint32_t n,
    float *logits, uint32_t vocab, double *scratch);


/* False where any of x is infinite or not a number. */
bool hymt_all_finite(const float *x, uint32_t n);


#endif /* HYMT_SAMPLER_H */
