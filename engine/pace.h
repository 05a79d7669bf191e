/*
 * pace.h - how many prompt rows a step may carry so that it stays within a
 * time limit, learnt from the steps before.
 *
 * The time of a row is that of the slowest of the last few steps with prompt
 * rows, kept apart for mixed steps and prefill-only ones: it goes up at once,
 * as rows get dearer with each that went before them in a prompt, though to no
 * more than twice what it was, for a hiccup's sake; and down slowly.
 * Budgets begin small and at most double from step to step, so a slow host is
 * not met with a large step first.
 *
 * Thread: engine thread only.
 */

#ifndef HYMT_PACE_H
#define HYMT_PACE_H

#include "base.h"


typedef enum {
    HYMT_PACE_MIXED = 0,
    HYMT_PACE_PREFILL,
} hymt_pace_kind_t;


typedef struct {
    double    limit_ns;
    double    row_ns[2];      /* 0: no such step yet */
    uint32_t  budget[2];      /* prompt rows, at least 1 */
    uint32_t  max_rows;
} hymt_pace_t;


void hymt_pace_init(hymt_pace_t *pace, uint32_t step_ms, uint32_t max_rows);

/* A step of these rows took ns. */
void hymt_pace_step(hymt_pace_t *pace, uint32_t n_decode, uint32_t n_prompt,
    uint64_t ns);


#endif /* HYMT_PACE_H */
