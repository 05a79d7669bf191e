/*
 * loop_guard_test.c - outputs that loop, soon; outputs that only repeat what
 * there is to repeat, never.
 */

#include "loop_guard.h"
#include "tap.h"


#define MAX  20000


static uint32_t  prompt[MAX], out[MAX];
static uint64_t  state = 1;


static uint32_t
word(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;

    return 1000 + (uint32_t) ((state >> 33) % 5000);
}


/* n words, then unit tokens again and again; the length in all. */
static uint32_t
repeat(uint32_t *to, uint32_t n, uint32_t unit, uint32_t copies)
{
    uint32_t  i;

    for (i = 0; i < n + unit; i++) {
        to[i] = word();
    }

    for ( ; i < n + unit * copies; i++) {
        to[i] = to[i - unit];
    }

    return n + unit * copies;
}


/* The token at which the guard speaks up, 0: at none. */
static uint32_t
looped(uint32_t n_prompt, uint32_t n)
{
    uint32_t           i;
    hymt_loop_guard_t  guard;

    hymt_loop_guard_init(&guard);

    for (i = 1; i <= n; i++) {
        if (hymt_loop_guard_push(&guard, prompt, n_prompt, out, i)) {
            return i;
        }
    }

    return 0;
}


static void
test_loops(void)
{
    uint32_t  unit, at, n_prompt, n, least, most;

    n_prompt = repeat(prompt, 60, 0, 0);
    least = 0;
    most = 0;

    for (unit = 1; unit <= HYMT_LOOP_PERIOD; unit++) {
        n = repeat(out, 50, unit, 40 + 100 / unit);
        at = looped(n_prompt, n);

        /* five copies, or 33 tokens of them */

        least += at == 0 || at < 50 + hymt_max(5 * unit, 33);
        most += at > 50 + hymt_max(5 * unit, 33 + unit);
    }

    is_int(least, 0, "no period is called a loop too early");
    is_int(most, 0, "or late");

    n = repeat(out, 50, HYMT_LOOP_PERIOD + 1, 10);
    is_int(looped(n_prompt, n), 0, "a longer period is not seen");

    n = repeat(out, 0, 1, 3000);
    is_int(looped(n_prompt, n), 33, "from the first token on");
}


static void
test_text(void)
{
    uint32_t  i, n_prompt, n;

    n_prompt = repeat(prompt, 500, 0, 0);

    n = repeat(out, 10000, 0, 0);
    is_int(looped(n_prompt, n), 0, "words");

    /* lines of a table: equal but for a number */

    for (i = 0; i < 6000; i++) {
        out[i] = i % 12 == 5 ? word() : i % 12;
    }

    is_int(looped(n_prompt, 6000), 0, "rows with one cell that differs");

    n = repeat(out, 20, 1, 32);
    is_int(looped(n_prompt, n), 0, "a short row of dots");

    n = repeat(out, 20, 16, 4);
    is_int(looped(n_prompt, n), 0, "a refrain sung four times");
}


static void
test_sources(void)
{
    uint32_t  unit, copies, n_prompt, n, wrong, missed;

    wrong = 0;
    missed = 0;

    /* a source that repeats, and its translation, of another length */

    for (unit = 1; unit <= 60; unit += 7) {
        for (copies = 10; copies <= 60; copies += 25) {
            n_prompt = repeat(prompt, 40, unit, copies);

            n = repeat(out, 5, unit, copies);
            wrong += looped(n_prompt, n) != 0;

            n = repeat(out, 5, 2 * unit, copies);
            wrong += looped(n_prompt, n) != 0;

            n = repeat(out, 5, hymt_max(unit / 2, 1), 2 * copies);
            wrong += looped(n_prompt, n) != 0;

            n = repeat(out, 5, unit, 3 * copies + 40);
            missed += looped(n_prompt, n) == 0;
        }
    }

    is_int(wrong, 0, "what the source repeats may be repeated");
    is_int(missed, 0, "but not for ever");

    n_prompt = repeat(prompt, 40, 3, 3);
    n = repeat(out, 5, 3, 200);
    ok(looped(n_prompt, n) > 0 && looped(n_prompt, n) < 70,
       "\"ha ha ha\" is no licence to laugh for ever");
}


static void
test_cost(void)
{
    uint32_t  i, n_prompt, n;
    uint64_t  start, ns;

    n_prompt = repeat(prompt, 8000, 0, 0);
    n = repeat(out, 10000, 0, 0);
    start = tap_cpu_ns();

    for (i = 0; i < 5; i++) {
        (void) looped(n_prompt, n);
    }

    ns = (tap_cpu_ns() - start) / (5 * n);
    ok(ns < 20000, "%u ns a token", (uint32_t) ns);

    n = repeat(out, 0, 1, 40);
    start = tap_cpu_ns();
    (void) looped(n_prompt, n);
    printf("# %u us to look at a prompt of %u tokens\n",
           (uint32_t) ((tap_cpu_ns() - start) / 1000), n_prompt);
}


int
main(void)
{
    test_loops();
    test_text();
    test_sources();
    test_cost();

    return tap_done();
}
