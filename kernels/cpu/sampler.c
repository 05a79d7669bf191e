/*
 * sampler.c - see sampler.h.
 */

#include "sampler.h"

#include <math.h>
#include <string.h>


/* 11, 11 and 10 bits of a key, from the top */
#define HYMT_RADIX  2048

#define HYMT_LANES  16

/* e^-50 of the best is lost in the rounding of a sum in double */
#define HYMT_NEGLIGIBLE  (-50.0)


static void hymt_penalise(const uint64_t *seen, float penalty, float *logits,
    uint32_t vocab);
static uint32_t hymt_argmax(const float *x, uint32_t n);
static uint32_t hymt_kth_key(const float *x, uint32_t n, uint32_t k);
static double hymt_weigh(const float *x, uint32_t n, float max,
    uint32_t min_key, double *weight);
static double hymt_top_p(const float *x, uint32_t n, double goal,
    double *weight);
static uint32_t hymt_draw(const double *weight, uint32_t n, double goal);


static const uint32_t  hymt_radix_shift[] = { 21, 10, 0 };


/* An integer that orders as the float does. */
static inline uint32_t
hymt_key(float x)
{
    uint32_t  bits;

    memcpy(&bits, &x, sizeof(bits));

    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}


/* Whether the key agrees with prefix in the bits above those of this pass. */
static inline bool
hymt_key_in(uint32_t key, uint32_t prefix, int pass)
{
    return pass == 0
           || (key ^ prefix) >> hymt_radix_shift[pass - 1] == 0;
}


static inline uint32_t
hymt_key_digit(uint32_t key, int pass)
{
    return key >> hymt_radix_shift[pass] & (pass == 2 ? 1023 : 2047);
}


uint32_t
hymt_sample(const hymt_sampling_t *s, const uint64_t *seen, uint32_t n,
    float *logits, uint32_t vocab, double *scratch)
{
    float     max;
    double    total;
    uint32_t  i, best, min_key;

    if (s->repetition_penalty != 1) {
        hymt_penalise(seen, s->repetition_penalty, logits, vocab);
    }

    best = hymt_argmax(logits, vocab);

    if (s->temperature == 0 || logits[best] == -INFINITY) {
        return best;
    }

    /* adding 0 makes -0 equal to 0 for the keys, too */

    for (i = 0; i < vocab; i++) {
        logits[i] = logits[i] / s->temperature + 0.0f;
    }

    max = logits[best];
    min_key = 0;

    if (s->top_k != 0 && s->top_k < vocab) {
        min_key = hymt_kth_key(logits, vocab, s->top_k);
    }

    total = hymt_weigh(logits, vocab, max, min_key, scratch);

    if (s->top_p < 1) {
        total = hymt_top_p(logits, vocab, (double) s->top_p * total, scratch);
    }

    return hymt_draw(scratch, vocab, (double) hymt_uniform(s, n) * total);
}


static void
hymt_penalise(const uint64_t *seen, float penalty, float *logits,
    uint32_t vocab)
{
    uint32_t  i, id;
    uint64_t  word;

    for (i = 0; i < hymt_seen_words(vocab); i++) {
        for (word = seen[i]; word != 0; word &= word - 1) {
            id = i * 64 + (uint32_t) __builtin_ctzll(word);

            logits[id] = logits[id] < 0 ? logits[id] * penalty
                                        : logits[id] / penalty;
        }
    }
}


/* The maximum in lanes, for the compiler to make vectors of; then its first. */
static uint32_t
hymt_argmax(const float *x, uint32_t n)
{
    float     top[HYMT_LANES], max;
    uint32_t  i, j;

    for (j = 0; j < HYMT_LANES; j++) {
        top[j] = x[0];
    }

    for (i = 0; i + HYMT_LANES <= n; i += HYMT_LANES) {
        for (j = 0; j < HYMT_LANES; j++) {
            top[j] = top[j] > x[i + j] ? top[j] : x[i + j];
        }
    }

    max = top[0];

    for (j = 1; j < HYMT_LANES; j++) {
        max = max > top[j] ? max : top[j];
    }

    for ( /* void */ ; i < n; i++) {
        max = max > x[i] ? max : x[i];
    }

    for (i = 0; i < n - 1 && x[i] != max; i++) { /* void */ }

    return i;
}


/* The key of the k-th largest of x; k in [1, n]. */
static uint32_t
hymt_kth_key(const float *x, uint32_t n, uint32_t k)
{
    int       pass;
    uint32_t  i, digit, key, prefix, count[HYMT_RADIX];

    prefix = 0;

    for (pass = 0; pass < 3; pass++) {
        memset(count, 0, sizeof(count));

        for (i = 0; i < n; i++) {
            key = hymt_key(x[i]);

            if (hymt_key_in(key, prefix, pass)) {
                count[hymt_key_digit(key, pass)]++;
            }
        }

        digit = HYMT_RADIX - 1;

        while (count[digit] < k) {
            k -= count[digit--];
        }

        prefix |= digit << hymt_radix_shift[pass];
    }

    return prefix;
}


/*
 * weight[i] = e^(x[i] - max) of what is kept, else 0.  Returns the sum.
 */
static double
hymt_weigh(const float *x, uint32_t n, float max, uint32_t min_key,
    double *weight)
{
    double    sum, d;
    uint32_t  i;

    sum = 0;

    for (i = 0; i < n; i++) {
        d = (double) x[i] - (double) max;
        weight[i] = 0;

        if (d >= HYMT_NEGLIGIBLE && hymt_key(x[i]) >= min_key) {
            weight[i] = exp(d);
            sum += weight[i];
        }
    }

    return sum;
}


/*
 * Sets the weights of all tokens to 0 that come after those whose weights, from
 * the largest down, reach the goal.  Returns the sum of the rest.
 */
static double
hymt_top_p(const float *x, uint32_t n, double goal, double *weight)
{
    int       pass;
    double    above, kept, sum[HYMT_RADIX];
    uint32_t  i, digit, last, key, prefix;

    prefix = 0;
    above = 0;

    for (pass = 0; pass < 3; pass++) {
        memset(sum, 0, sizeof(sum));

        for (i = 0; i < n; i++) {
            if (weight[i] > 0) {
                key = hymt_key(x[i]);

                if (hymt_key_in(key, prefix, pass)) {
                    sum[hymt_key_digit(key, pass)] += weight[i];
                }
            }
        }

        /* rounding may leave the sum of all short of the goal: take the last */

        last = 0;

        for (digit = HYMT_RADIX; digit-- > 0; /* void */) {
            if (sum[digit] == 0) {
                continue;
            }

            last = digit;

            if (above + sum[digit] >= goal) {
                break;
            }

            above += sum[digit];
        }

        if (digit == UINT32_MAX) {
            above -= sum[last];
        }

        prefix |= last << hymt_radix_shift[pass];
    }

    /* prefix is the smallest score kept; of its ties the first ids are */

    kept = 0;

    for (i = 0; i < n; i++) {
        if (weight[i] == 0) {
            continue;
        }

        key = hymt_key(x[i]);

        if (key == prefix && above < goal) {
            above += weight[i];

        } else if (key <= prefix) {
            weight[i] = 0;
        }

        kept += weight[i];
    }

    return kept;
}


static uint32_t
hymt_draw(const double *weight, uint32_t n, double goal)
{
    double    sum;
    uint32_t  i, last;

    sum = 0;
    last = 0;

    for (i = 0; i < n; i++) {
        if (weight[i] > 0) {
            sum += weight[i];
            last = i;

            if (sum > goal) {
                break;
            }
        }
    }

    return last;
}


bool
hymt_all_finite(const float *x, uint32_t n)
{
    float     sum[HYMT_LANES];
    uint32_t  i, j;

    /* 0 for each finite value, not a number for any other */

    memset(sum, 0, sizeof(sum));

    for (i = 0; i + HYMT_LANES <= n; i += HYMT_LANES) {
        for (j = 0; j < HYMT_LANES; j++) {
            sum[j] += x[i + j] * 0.0f;
        }
    }

    for ( /* void */ ; i < n; i++) {
        sum[0] += x[i] * 0.0f;
    }

    for (j = 0; j < HYMT_LANES; j++) {
        if (sum[j] != 0) {
            return false;
        }
    }

    return true;
}
