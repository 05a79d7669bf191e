/*
 * turn_clock.c - see turn_clock.h.
 */

#include "turn_clock.h"
#include "base.h"

#include <time.h>


void
hymt_turn_clock_init(hymt_turn_clock_t *clock, uint64_t (*cpu)(void))
{
    clock->cpu = cpu;
    clock->read = cpu();
    clock->turns = 0;
}


uint64_t
hymt_turn_took(hymt_turn_clock_t *clock, uint64_t ns)
{
    uint64_t  before;

    clock->turns++;

    if (ns <= HYMT_TURN_SHORT && clock->turns < HYMT_TURN_UNREAD) {
        return ns;
    }

    before = clock->read;

    clock->read = clock->cpu();
    clock->turns = 0;

    return hymt_min(ns, clock->read - before);
}


uint64_t
hymt_turn_cpu(void)
{
    struct timespec  ts;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts) == -1) {
        return 0;
    }

    return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}
