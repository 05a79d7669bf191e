/*
 * scheduler_random_test.c - all promises of scheduler.h under random arrivals,
 * cancels and aborts.
 */

#include "scheduler_fixture.h"


static hymt_sched_params_t
random_params(void)
{
    uint32_t             i, n, size;
    hymt_sched_params_t  p;

    memset(&p, 0, sizeof(p));
    p.max_batch = 1 + roll(roll(4) ? 12 : 40);
    p.context = 32 + roll(200);
    p.n_blocks = hymt_ceil_div(p.context, HYMT_KV_BLOCK) + roll(60);
    p.max_rows = p.max_batch + roll(100);
    p.budget_mixed = 1 + roll(roll(3) ? p.max_rows : 3);
    p.budget_prefill = 1 + roll(p.max_rows);
    p.budget_mixed = hymt_min(p.budget_mixed, p.max_rows);

    n = roll(HYMT_SCHED_SIZES + 1);

    for (i = 0, size = 0; i < n; i++) {
        size += 1 + roll(p.max_rows);
        p.sizes[i] = size;
    }

    p.depth = 1 + roll(2);
    p.prefix_cache = roll(4) != 0;
    p.coalesce = roll(4) != 0;
    p.max_flows = 8;
    p.age = 1 + roll(2000);

    return p;
}


static void
random_events(rig_t *rig, uint32_t cancels, uint32_t aborts)
{
    uint32_t  n, n_prompt;
    seq_t    *seq;

    if (rig->out != NULL && roll(3) == 0) {
        rig_add_again(rig);
    }

    for (n = roll(4) ? 0 : roll(4); n > 0; n--) {
        n_prompt = 1 + roll(roll(3) ? 20 : rig->p.context - 1);
        rig_add(rig, n_prompt, 1 + roll(rig->p.context - n_prompt));
    }

    for (seq = rig->out; cancels && seq != NULL; seq = seq->next) {
        if (roll(cancels) == 0) {
            rig_cancel(rig, seq);
        }
    }

    fake.abort_next = aborts && roll(aborts) == 0;
}


static bool
random_run(uint64_t seed)
{
    rig_t     rig;
    uint32_t  turn, n, cancels, aborts;

    rng = seed;
    rig_open(&rig, random_params());

    rig.alike = roll(5);
    rig.flows = roll(2) * (1 + roll(3));
    cancels = roll(2) ? 20 + roll(200) : 0;
    aborts = roll(3) ? 0 : 3 + roll(20);
    rig.check_bound = aborts == 0;

    for (turn = 0; turn < 150 && rig.fault[0] == '\0'; turn++) {
        random_events(&rig, cancels, aborts);
        rig_step(&rig);
    }

    for (turn = 0; rig_step(&rig) && turn < 100000; turn++) {
        fake.abort_next = aborts && roll(aborts) == 0;
    }

    fake.abort_next = false;

    for (turn = 0, n = 0; turn < 5; turn++) {
        n += rig.ended[turn];
    }

    if (n != rig.n_added || rig.out != NULL) {
        rig_fault(&rig, "%u of %u sequences ended", n, rig.n_added);
    }

    if (hymt_sched_blocks_used(rig.sched) || hymt_sched_running(rig.sched)
        || hymt_sched_waiting(rig.sched))
    {
        rig_fault(&rig, "idle with %u blocks used, %u running, %u waiting",
                  hymt_sched_blocks_used(rig.sched),
                  hymt_sched_running(rig.sched),
                  hymt_sched_waiting(rig.sched));
    }

    if (rig.fault[0]) {
        printf("# seed %" PRIu64 ": %s\n", seed, rig.fault);
    }

    rig_close(&rig);

    return rig.fault[0] == '\0';
}


int
main(int argc, char **argv)
{
    ok(tap_runs(argc, argv, 300, random_run),
       "300 random runs: each sequence ends once, as it would alone, in"
       " bounded steps; budgets, order and blocks are kept; what is shared is"
       " alike and of one scope");

    return tap_done();
}
