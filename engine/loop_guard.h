/*
 * loop_guard.h - notices an output that repeats itself without end.
 *
 * A loop is a run of tokens each equal to the one `period` before it, for a
 * period of up to HYMT_LOOP_PERIOD, that has gone on for at least 32 tokens and
 * four periods: five copies.  What the prompt itself repeats may be repeated,
 * with room for languages that say it in smaller pieces: a loop has more than
 * twice the copies of the prompt's own longest run, and twice its tokens and 32
 * more.  So "ha ha ha", rows of dots and tables of equal cells pass,
 * and an output that will not stop where its source did is found soon after.
 *
 * Costs a comparison for each period and token; the prompt is looked at once,
 * and only when a run is long enough to ask.  No allocation.
 *
 * Thread: one at a time.
 */

#ifndef HYMT_LOOP_GUARD_H
#define HYMT_LOOP_GUARD_H

#include "base.h"


#define HYMT_LOOP_PERIOD  128


typedef struct {
    uint32_t  run[HYMT_LOOP_PERIOD];   /* of period i + 1, so far */
    bool      asked;                   /* what follows is known */
    uint32_t  copies;                  /* the prompt's own, at least 1 */
    uint32_t  tokens;
} hymt_loop_guard_t;


void hymt_loop_guard_init(hymt_loop_guard_t *guard);

/*
 * Takes token out[n - 1], after all those before it: true where the output
 * loops there.
 */
bool hymt_loop_guard_push(hymt_loop_guard_t *guard, const uint32_t *prompt,
    uint32_t n_prompt, const uint32_t *out, uint32_t n);


#endif /* HYMT_LOOP_GUARD_H */
