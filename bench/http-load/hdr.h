/*
 * hdr.h - a histogram of times that keeps every percentile within 0.4 %, in
 * fixed memory: 256 buckets for each power of two, as HdrHistogram's.
 *
 * Thread: one at a time.
 */

#ifndef HYMT_BENCH_HDR_H
#define HYMT_BENCH_HDR_H

#include <stdint.h>
#include <string.h>


#define HDR_SUB      256
#define HDR_POWERS   32
#define HDR_BUCKETS  (HDR_SUB * (HDR_POWERS + 1))


typedef struct {
    uint64_t  n;
    uint64_t  max;
    uint64_t  count[HDR_BUCKETS];
} hdr_t;


static inline void
hdr_add(hdr_t *h, uint64_t value)
{
    int       power;
    uint64_t  i;

    h->n++;

    if (value > h->max) {
        h->max = value;
    }

    if (value < HDR_SUB) {
        h->count[value]++;
        return;
    }

    /* value >> power is in [HDR_SUB, 2 * HDR_SUB) */

    power = 63 - __builtin_clzll(value) - 8;

    i = (uint64_t) (power + 1) * HDR_SUB + (value >> power) - HDR_SUB;

    h->count[i < HDR_BUCKETS ? i : HDR_BUCKETS - 1]++;
}


static inline void
hdr_merge(hdr_t *to, const hdr_t *from)
{
    uint32_t  i;

    to->n += from->n;

    if (from->max > to->max) {
        to->max = from->max;
    }

    for (i = 0; i < HDR_BUCKETS; i++) {
        to->count[i] += from->count[i];
    }
}


/* The middle of the bucket that percentile p (0 to 100) falls into; 0: none. */
static inline double
hdr_percentile(const hdr_t *h, double p)
{
    double    width;
    uint32_t  i, power;
    uint64_t  seen, want;

    want = (uint64_t) ((double) h->n * p / 100 + 0.5);

    if (want == 0) {
        want = 1;
    }

    for (i = 0, seen = 0; i < HDR_BUCKETS; i++) {
        seen += h->count[i];

        if (seen >= want) {
            break;
        }
    }

    if (h->n == 0) {
        return 0;
    }

    if (i < HDR_SUB) {
        return i;
    }

    power = i / HDR_SUB - 1;
    width = (double) (1ull << power);

    return ((double) (i % HDR_SUB) + HDR_SUB + 0.5) * width;
}


#endif /* HYMT_BENCH_HDR_H */
