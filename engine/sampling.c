/*
 * sampling.c - see sampling.h.
 */

#include "sampling.h"



float
hymt_uniform(const hymt_sampling_t *s, uint32_t n)
{
    int       i;
    uint32_t  x0, x1, x2, x3, k0, k1;
    uint64_t  p0, p1;

    x0 = n;
    x1 = s->index;
    x2 = 0;
    x3 = 0;

    k0 = (uint32_t) s->seed;
    k1 = (uint32_t) (s->seed >> 32);

    for (i = 0; i < 10; i++) {
        p0 = (uint64_t) 0xd2511f53 * x0;
        p1 = (uint64_t) 0xcd9e8d57 * x2;

        x0 = (uint32_t) (p1 >> 32) ^ x1 ^ k0;
        x1 = (uint32_t) p1;
        x2 = (uint32_t) (p0 >> 32) ^ x3 ^ k1;
        x3 = (uint32_t) p0;

        k0 += 0x9e3779b9;
        k1 += 0xbb67ae85;
    }

    return (float) (x0 >> 8) * 0x1p-24f;
}


void
hymt_sampling_again(hymt_sampling_t *s, uint32_t attempt)
{
    /* 2^64 by the golden ratio: far from the seeds that people give */

    s->seed ^= attempt * UINT64_C(0x9e3779b97f4a7c15);
}


hymt_status_t
hymt_sampling_check(const hymt_sampling_t *s, hymt_error_t *err)
{
    /* written so that what is not a number fails */

    if (!(s->temperature >= 0 && s->temperature <= 10)) {
        return hymt_fail(err, "temperature: %g is out of range, 0 (greedy) to"
                         " 10 is possible", (double) s->temperature);
    }

    if (!(s->top_p > 0 && s->top_p <= 1)) {
        return hymt_fail(err, "top_p: %g is out of range, more than 0 and at"
                         " most 1 (off) is possible", (double) s->top_p);
    }

    if (!(s->repetition_penalty >= 0.1f && s->repetition_penalty <= 10)) {
        return hymt_fail(err, "repetition_penalty: %g is out of range, 0.1 to"
                         " 10 is possible, 1 is off",
                         (double) s->repetition_penalty);
    }

    return HYMT_OK;
}
