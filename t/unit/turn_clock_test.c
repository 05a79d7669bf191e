/*
 * What turns of an event loop take, and how rarely the thread's CPU time is
 * asked for.
 */

#include "turn_clock.h"
#include "tap.h"


static uint64_t  cpu;       /* ns that the thread has taken */
static uint32_t  looks;


static uint64_t
look(void)
{
    looks++;

    return cpu;
}


/* A turn of so much CPU time, in which others had the core for the rest. */
static uint64_t
turn(hymt_turn_clock_t *clock, uint64_t took, uint64_t others)
{
    cpu += took;

    return hymt_turn_took(clock, took + others);
}


static void
test_short(void)
{
    uint32_t           i, right;
    hymt_turn_clock_t  clock;

    looks = 0;
    hymt_turn_clock_init(&clock, look);
    is_int(looks, 1, "asked at first");

    for (i = 0, right = 0; i < 100 * HYMT_TURN_UNREAD; i++) {
        right += turn(&clock, 40000 + i, 0) == 40000 + i;
    }

    is_int(right, i, "short turns take what they take");
    is_int(looks, 101, "one of eight asks");

    for (i = 0, looks = 0; i < 10 * HYMT_TURN_UNREAD; i++) {
        cpu += 30000;
        right += turn(&clock, 30000, 0) == 30000;
        right += hymt_turn_took(&clock, 0) == 0;
    }

    is_int(right, 2 * i + 100 * HYMT_TURN_UNREAD, "some are of no interest");
    is_int(looks, 20, "those of no interest ask as rarely");
}


static void
test_long(void)
{
    uint32_t           i, right;
    hymt_turn_clock_t  clock;

    hymt_turn_clock_init(&clock, look);

    for (i = 0, right = 0; i < 100; i++) {
        right += turn(&clock, 50000 + 20000 * i, 0) == 50000 + 20000 * i;
    }

    is_int(right, 100, "whatever their length, where nobody had the core");
}


static void
test_others(void)
{
    uint32_t           i, low, high;
    uint64_t           got, took;
    hymt_turn_clock_t  clock;

    hymt_turn_clock_init(&clock, look);
    (void) turn(&clock, 2000000, 0);

    is_int(turn(&clock, 300000, 50000000), 300000,
           "others had the core for long: not counted");
    is_int(turn(&clock, 1000, 50000000), 1000, "nor in the next turn");

    for (i = 0, low = 0, high = 0; i < 1000; i++) {
        took = 1000 + 7919 * (uint64_t) i % 90000;
        got = turn(&clock, took, i % 3 ? 0 : 20000000);

        low += got < took;
        high += got > HYMT_TURN_UNREAD * 91000;
    }

    is_int(low, 0, "never less than what it was");
    is_int(high, 0, "nor more than a few turns");
}


int
main(void)
{
    uint64_t           before;
    hymt_turn_clock_t  clock;

    test_short();
    test_long();
    test_others();

    before = hymt_turn_cpu();

    while (hymt_turn_cpu() - before < 1000000) { /* void */ }

    hymt_turn_clock_init(&clock, hymt_turn_cpu);
    ok(clock.read - before >= 1000000, "the thread's own CPU time");

    return tap_done();
}
