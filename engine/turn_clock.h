/*
 * turn_clock.h - what the turns of an event loop take of its thread's CPU time.
 *
 * To ask for a thread's CPU time takes a system call, to ask the clock none.
 * So what is short by the clock is taken for CPU time.  What is not, perhaps
 * because others had the core, is no more than what the thread took since it
 * was last asked, which is a few turns ago.
 *
 * Thread: the loop's own.
 */

#ifndef HYMT_TURN_CLOCK_H
#define HYMT_TURN_CLOCK_H

#include <stdint.h>


/* turns from one look at the CPU time to the next, at most */
#define HYMT_TURN_UNREAD  8

/* ns: a turn of one or two small requests on a core that was idle */
#define HYMT_TURN_SHORT   250000


typedef struct {
    uint64_t  (*cpu)(void);     /* ns, of the thread that asks */
    uint64_t    read;           /* what it said last */
    uint32_t    turns;          /* since */
} hymt_turn_clock_t;


/* cpu: hymt_turn_cpu(), but in tests. */
void hymt_turn_clock_init(hymt_turn_clock_t *clock, uint64_t (*cpu)(void));

/*
 * A turn has ended that took `ns` by the clock, 0 where nothing of it is of
 * interest; returns what it took of CPU time: never less than it did, and no
 * more than either `ns` or what the last HYMT_TURN_UNREAD turns took together,
 * but for HYMT_TURN_SHORT.
 */
uint64_t hymt_turn_took(hymt_turn_clock_t *clock, uint64_t ns);

uint64_t hymt_turn_cpu(void);


#endif /* HYMT_TURN_CLOCK_H */
