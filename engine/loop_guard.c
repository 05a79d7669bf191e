/*
 * loop_guard.c - runs of equal periods, in the output and in the prompt.
 */

#include "loop_guard.h"

#include <string.h>


#define HYMT_LOOP_TOKENS   32
#define HYMT_LOOP_REPEATS  4

/* the prompt's: twice as long, as its language may say it in more tokens */
#define HYMT_SOURCE_PERIOD  (2 * HYMT_LOOP_PERIOD)


static bool hymt_loop_guard_passes(hymt_loop_guard_t *guard,
    const uint32_t *prompt, uint32_t n_prompt, uint32_t run, uint32_t period);
static void hymt_loop_guard_ask(hymt_loop_guard_t *guard,
    const uint32_t *prompt, uint32_t n);


void
hymt_loop_guard_init(hymt_loop_guard_t *guard)
{
    memset(guard, 0, sizeof(*guard));
}


bool
hymt_loop_guard_push(hymt_loop_guard_t *guard, const uint32_t *prompt,
    uint32_t n_prompt, const uint32_t *out, uint32_t n)
{
    uint32_t         p, periods, *run;
    const uint32_t  *last;

    last = out + n - 1;
    run = guard->run;
    periods = hymt_min(n - 1, HYMT_LOOP_PERIOD);

    for (p = 1; p <= periods; p++) {
        run[p - 1] = *last == *(last - p) ? run[p - 1] + 1 : 0;
    }

    for (p = 1; p <= periods; p++) {
        if (run[p - 1] >= HYMT_LOOP_TOKENS
            && run[p - 1] >= HYMT_LOOP_REPEATS * p
            && !hymt_loop_guard_passes(guard, prompt, n_prompt, run[p - 1], p))
        {
            return true;
        }
    }

    return false;
}


static bool
hymt_loop_guard_passes(hymt_loop_guard_t *guard, const uint32_t *prompt,
    uint32_t n_prompt, uint32_t run, uint32_t period)
{
    if (!guard->asked) {
        hymt_loop_guard_ask(guard, prompt, n_prompt);
    }

    return run / period + 1 <= 2 * guard->copies
           || run < 2 * guard->tokens + HYMT_LOOP_TOKENS;
}


static void
hymt_loop_guard_ask(hymt_loop_guard_t *guard, const uint32_t *prompt,
    uint32_t n)
{
    uint32_t  i, p, run;

    guard->asked = true;
    guard->copies = 1;
    guard->tokens = 0;

    for (p = 1; p <= HYMT_SOURCE_PERIOD && p < n; p++) {

        for (i = p, run = 0; i < n; i++) {
            run = prompt[i] == prompt[i - p] ? run + 1 : 0;

            /* a whole copy, not two words that happen to stand so */

            if (run >= p) {
                guard->copies = hymt_max(guard->copies, run / p + 1);
                guard->tokens = hymt_max(guard->tokens, run);
            }
        }
    }
}
