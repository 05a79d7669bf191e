/*
 * hdr_test.c - the histogram that bench/http-load takes its percentiles from:
 * beside a sorted list of the same times, it is never off by more than it says.
 */

#include "../../bench/http-load/hdr.h"
#include "random.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>


#define N      20000
#define ERROR  0.004


static uint64_t  times[N];
static hdr_t     hdr, part;


static int
compare(const void *a, const void *b)
{
    uint64_t  x, y;

    x = *(const uint64_t *) a;
    y = *(const uint64_t *) b;

    return (x > y) - (x < y);
}


/* The value that p per cent of n are no greater than. */
static uint64_t
exact(uint32_t n, double p)
{
    uint32_t  at;

    at = (uint32_t) (n * p / 100 + 0.5);

    return times[at > 0 ? at - 1 : 0];
}


static void
test_percentiles(const char *what, uint32_t n)
{
    double    got, want, worst;
    uint32_t  i;

    static const double  asked[] = { 0, 1, 25, 50, 75, 90, 95, 99, 99.9, 100 };

    memset(&hdr, 0, sizeof(hdr));

    for (i = 0; i < n; i++) {
        hdr_add(&hdr, times[i]);
    }

    qsort(times, n, sizeof(times[0]), compare);

    for (i = 0, worst = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        got = hdr_percentile(&hdr, asked[i]);
        want = (double) exact(n, asked[i]);
        worst = fmax(worst, want > 0 ? fabs(got - want) / want : got);
    }

    ok(worst <= ERROR, "%s: percentiles within %.1f %%: %.3f", what,
       ERROR * 100, worst * 100);
    is_int(hdr.n, n, "%s: their number", what);
    is_int(hdr.max, times[n - 1], "%s: the greatest", what);
}


int
main(void)
{
    uint32_t  i, j;

    memset(&hdr, 0, sizeof(hdr));
    is_near(hdr_percentile(&hdr, 50), 0, 0, "of none: 0");

    times[0] = 123456;
    test_percentiles("one", 1);

    for (i = 0; i < 256; i++) {
        times[i] = 255 - i;
    }

    test_percentiles("small ones", 256);

    for (i = 0, j = 0; i < 64; i++) {
        times[j++] = (UINT64_C(1) << i % 40);
        times[j++] = (UINT64_C(1) << i % 40) + 1;
        times[j++] = (UINT64_C(2) << i % 39) - 1;
    }

    test_percentiles("beside powers of two", j);

    for (i = 0; i < N; i++) {
        times[i] = (uint64_t) exp(roll(27000) / 1000.0);
    }

    test_percentiles("up to 2^39", N);

    /* in parts, of which each is merged */

    memset(&hdr, 0, sizeof(hdr));

    for (i = 0; i < 4; i++) {
        memset(&part, 0, sizeof(part));

        for (j = i; j < N; j += 4) {
            hdr_add(&part, times[j]);
        }

        hdr_merge(&hdr, &part);
    }

    is_int(hdr.n, N, "merged: their number");
    is_int(hdr.max, times[N - 1], "merged: the greatest");
    ok(fabs(hdr_percentile(&hdr, 95) / (double) exact(N, 95) - 1) <= ERROR,
       "merged: a percentile");

    hdr_add(&hdr, UINT64_MAX);
    is_int(hdr.count[HDR_BUCKETS - 1], 1, "what is beyond is in the last one");

    return tap_done();
}
