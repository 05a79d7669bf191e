/*
 * pace_test.c - prompt rows that fit the time of a step; see pace.h.
 */

#include "pace.h"
#include "tap.h"


#define LIMIT_MS  50


/* Steps on a host with a fixed time per step and per row, in us. */
static uint64_t
run(hymt_pace_t *pace, uint32_t steps, uint32_t n_decode, uint64_t step,
    uint64_t row)
{
    uint64_t          us, most;
    uint32_t          n_prompt;
    hymt_pace_kind_t  kind;

    kind = n_decode ? HYMT_PACE_MIXED : HYMT_PACE_PREFILL;

    for (most = 0; steps > 0; steps--) {
        n_prompt = pace->budget[kind];
        us = step + row * (n_decode + n_prompt);
        most = hymt_max(most, us);
        hymt_pace_step(pace, n_decode, n_prompt, us * 1000);
    }

    return most;
}


static void
test_fast(void)
{
    uint64_t     us;
    hymt_pace_t  pace;

    hymt_pace_init(&pace, LIMIT_MS, 300);
    is_int(pace.budget[HYMT_PACE_MIXED], 16, "begins with 16 rows");
    is_int(pace.budget[HYMT_PACE_PREFILL], 16, "of each kind");

    run(&pace, 1, 0, 0, 1);
    is_int(pace.budget[HYMT_PACE_PREFILL], 32, "doubles on a fast host");
    is_int(pace.budget[HYMT_PACE_MIXED], 16, "one kind by itself");

    run(&pace, 10, 0, 0, 1);
    is_int(pace.budget[HYMT_PACE_PREFILL], 300, "up to what a step holds");

    us = run(&pace, 30, 8, 5000, 500);
    ok(us <= 50000, "grows to the limit and not over it: %d us", (int) us);
    ok(us >= 33000, "and makes use of it");
}


static void
test_slow(void)
{
    uint64_t     us;
    hymt_pace_t  pace;

    hymt_pace_init(&pace, LIMIT_MS, 300);

    us = run(&pace, 1, 0, 0, 15000);
    ok(us == 240000, "the first step of a slow host is too long");
    is_int(pace.budget[HYMT_PACE_PREFILL], 2, "the second is not");

    run(&pace, 5, 4, 0, 15000);
    is_int(pace.budget[HYMT_PACE_MIXED], 1,
           "where decode rows take all the time, one prompt row goes on");

    hymt_pace_step(&pace, 4, 0, UINT64_MAX);
    is_int(pace.budget[HYMT_PACE_MIXED], 1, "steps without prompt say nothing");
    is_int(pace.budget[HYMT_PACE_PREFILL], 2, "of either kind");
}


/* The rows of a long prompt get dearer as it grows. */
static void
test_change(void)
{
    uint32_t     before;
    uint64_t     us, row, most;
    hymt_pace_t  pace;

    hymt_pace_init(&pace, LIMIT_MS, 300);
    run(&pace, 20, 0, 1000, 200);

    for (row = 200, most = 0; row < 2000; row += 10) {
        us = run(&pace, 1, 0, 1000, row);
        most = hymt_max(most, us);
    }

    ok(most <= 50000, "follows rows that slow down: %d us", (int) most);

    run(&pace, 40, 0, 1000, 500);
    us = run(&pace, 1, 0, 1000, 700);
    ok(us <= 50000, "rows that are two fifths dearer at once fit: %d us",
       (int) us);

    run(&pace, 40, 0, 1000, 2000);

    before = pace.budget[HYMT_PACE_PREFILL];
    run(&pace, 1, 0, 500000, 2000);
    ok(pace.budget[HYMT_PACE_PREFILL] < before,
       "a hiccup makes it careful: %u rows, before %u",
       pace.budget[HYMT_PACE_PREFILL], before);

    run(&pace, 40, 0, 1000, 200);
    ok(pace.budget[HYMT_PACE_PREFILL] > 150, "for a while only: %u",
       pace.budget[HYMT_PACE_PREFILL]);
}


static void
test_edges(void)
{
    hymt_pace_t  pace;

    hymt_pace_init(&pace, 1, 1);
    run(&pace, 10, 0, 0, 0);
    is_int(pace.budget[HYMT_PACE_PREFILL], 1, "a step of one row stays so");

    hymt_pace_init(&pace, UINT32_MAX, UINT32_MAX);
    run(&pace, 100, 0, 0, 0);
    ok(pace.budget[HYMT_PACE_PREFILL] > 1000000, "no number wraps: %u",
       pace.budget[HYMT_PACE_PREFILL]);
}


int
main(void)
{
    test_fast();
    test_slow();
    test_change();
    test_edges();

    return tap_done();
}
