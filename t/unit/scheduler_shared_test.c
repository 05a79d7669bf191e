/*
 * scheduler_shared_test.c - what sequences share: the blocks of prompts that
 * begin alike, and all of the output where they are equal.
 */

#include "scheduler_fixture.h"


/* Prompts that begin alike, as a document's segments do: one is computed. */
static void
test_prefix_together(uint32_t depth)
{
    rig_t                rig;
    uint32_t             i;
    hymt_prefix_stats_t  stats;
    hymt_sched_params_t  p;

    rng = 12;
    p = small;
    p.depth = depth;
    p.prefix_cache = true;
    rig_open(&rig, p);
    rig.check_bound = true;

    for (i = 0; i < 3; i++) {
        rig_add_alike(&rig, 100, 8, 1, 97, 0);
    }

    rig_step(&rig);
    is_int(rig.batch.n_seqs, 1, "depth %u: of three that begin alike one is"
           " computed", depth);
    is_int(rig.batch.n_rows, 48, "with the whole budget");
    is_int(hymt_sched_blocks_used(rig.sched), 7 + 1 + 1,
           "all three hold the blocks of the beginning");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "each has its own output");
    is_int((int) rig.rows, 100 + 4 + 4, "the others compute their ends");
    is_int((int) rig.cached, 2 * 96, "and are told of the rest");
    is_int(hymt_sched_blocks_used(rig.sched), 0, "nobody holds a block");

    hymt_sched_prefix_stats(rig.sched, &stats);
    is_int((int) stats.hits, 2, "two hits");
    is_int((int) stats.misses, 1, "one miss");
    is_int((int) stats.tokens, 192, "192 tokens saved");
    is_int((int) stats.blocks, 6, "6 blocks known");

    /* the last token is always computed, be its block a whole one */

    rig.rows = 0;
    rig_add_alike(&rig, 96, 8, 1, 96, 0);
    rig_add_alike(&rig, 96, 8, 1, 96, 0);
    while (rig_step(&rig)) { /* void */ }
    is_int((int) rig.rows, 32, "later ones compute the last token's block");

    rig.rows = 0;
    rig_add_alike(&rig, 96, 8, 1, 96, 1);
    while (rig_step(&rig)) { /* void */ }
    is_int((int) rig.rows, 96, "in another scope nothing is known");

    rig_add_alike(&rig, 16, 8, 1, 16, 0);
    while (rig_step(&rig)) { /* void */ }
    hymt_sched_prefix_stats(rig.sched, &stats);
    is_int((int) stats.misses, 2, "one block is no prefix to look for");

    is_str(rig.fault, "", "all is right");
    rig_close(&rig);
}


/* Who waits for a block goes on where its owner ends. */
static void
test_prefix_owner(uint32_t depth)
{
    rig_t                rig;
    seq_t               *first;
    hymt_sched_params_t  p;

    rng = 13;
    p = small;
    p.depth = depth;
    p.budget_prefill = 20;
    p.prefix_cache = true;
    rig_open(&rig, p);

    first = rig_add_alike(&rig, 100, 8, 1, 97, 0);
    rig_add_alike(&rig, 100, 8, 1, 97, 0);
    rig_add_alike(&rig, 100, 8, 1, 97, 0);

    rig_step(&rig);
    is_int(rig.batch.n_seqs, 1, "depth %u: two wait for the first", depth);

    rig_cancel(&rig, first);

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "canceled, it lets the second go on");
    is_int(rig.ended[HYMT_FINISH_CANCELED], 1, "one was canceled");
    is_int((int) rig.rows, 20 + 84 + 4, "after its last whole block, for both");
    is_int(hymt_sched_blocks_used(rig.sched), 0, "no block is held");

    rig_close(&rig);
}


/* Idle blocks are room: the longest unused are forgotten first. */
static void
test_prefix_eviction(void)
{
    rig_t                rig;
    uint32_t             i;
    hymt_prefix_stats_t  stats;
    hymt_sched_params_t  p;

    rng = 14;
    p = small;
    p.n_blocks = 8;
    p.prefix_cache = true;
    rig_open(&rig, p);

    for (i = 0; i < 2; i++) {
        rig_add_alike(&rig, 49, 8, i, 49, 0);
        while (rig_step(&rig)) { /* void */ }
    }

    hymt_sched_prefix_stats(rig.sched, &stats);
    is_int((int) stats.blocks, 6, "two prompts of three blocks are known");

    rig_add_alike(&rig, 33, 16, 0, 33, 0);     /* touches the first */
    while (rig_step(&rig)) { /* void */ }

    rig_add_alike(&rig, 10, 100, 2, 0, 0);
    while (rig_step(&rig)) { /* void */ }

    hymt_sched_prefix_stats(rig.sched, &stats);
    is_int((int) stats.evictions, 5, "a sequence of seven blocks takes five");
    is_int((int) stats.blocks, 1, "one is left");

    rig.cached = 0;
    rig_add_alike(&rig, 49, 8, 1, 49, 0);
    while (rig_step(&rig)) { /* void */ }
    is_int((int) rig.cached, 0, "not of the one used longest ago");

    rig_add_alike(&rig, 49, 8, 0, 49, 0);
    while (rig_step(&rig)) { /* void */ }
    is_int((int) rig.cached, 16, "but the beginning of that used last");

    is_str(rig.fault, "", "all is right");
    rig_close(&rig);
}


/* Equal ones, before and after the first has begun. */
static void
test_coalesce(uint32_t depth)
{
    rig_t                rig;
    uint32_t             i;
    seq_t               *seqs[4];
    hymt_sched_params_t  p;

    rng = 15;
    p = small;
    p.depth = depth;
    p.coalesce = true;
    rig_open(&rig, p);

    seqs[0] = rig_add_alike(&rig, 20, 20, 1, 20, 0);
    seq_endless(&seqs[0]->s);
    rig.seed = seqs[0]->s.sampling.seed;
    rig_cancel(&rig, seqs[0]);
    rig_step(&rig);

    for (i = 0; i < 3; i++) {
        seqs[i] = rig_add_alike(&rig, 20, 20, 1, 20, 0);
    }

    is_int(hymt_sched_waiting(rig.sched), 3, "depth %u: three wait", depth);

    rig_step(&rig);
    is_int(hymt_sched_running(rig.sched), 1, "one runs");
    is_int(hymt_sched_waiting(rig.sched), 0, "the others follow it");
    is_int(hymt_sched_blocks_used(rig.sched), 3, "with its blocks");

    while (seqs[0]->s.n_out < 4) {
        rig_step(&rig);
    }

    seqs[3] = rig_add_alike(&rig, 20, 20, 1, 20, 0);
    is_int(seqs[3]->s.n_out, 4, "one that comes later has what there is");
    ok(seqs[3]->s.coalesced, "and follows");
    ok(hymt_sched_news(rig.sched) == &seqs[3]->s, "which is news");

    /* each differs in one thing */

    rig_add_alike(&rig, 20, 19, 1, 20, 0);
    rig_add_alike(&rig, 19, 20, 1, 20, 0);
    rig_add_alike(&rig, 20, 20, 2, 20, 0);
    rig_add_alike(&rig, 20, 20, 1, 20, 1);
    rig_add_alike(&rig, 20, 20, 1, 20, 0);
    is_int(hymt_sched_waiting(rig.sched), 4, "four others do not follow");

    rig_cancel(&rig, seqs[1]);
    rig_step(&rig);
    is_int(rig.ended[HYMT_FINISH_CANCELED], 2, "one that follows leaves");

    rig_cancel(&rig, seqs[0]);
    rig_step(&rig);
    is_int(rig.ended[HYMT_FINISH_CANCELED], 3, "the first leaves");
    is_int(hymt_sched_running(rig.sched), 5, "another goes on in its place");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "each has its output");
    is_int(rig.n_added - 3, rig.ended[HYMT_FINISH_STOP]
                            + rig.ended[HYMT_FINISH_LENGTH], "and its end");
    is_int(rig.coalesced, 4, "four were not computed");
    is_int((int) hymt_sched_coalesced(rig.sched), 4, "and are counted");
    is_int(rig.n_begun, 5, "five were");
    is_int(hymt_sched_blocks_used(rig.sched), 0, "no block is held");

    rig_close(&rig);
}


/* Drawn at random, the seed and all else that says how has to be equal. */
static void
test_coalesce_sampling(void)
{
    rig_t                rig;
    uint32_t             i;
    seq_t               *seqs[8];
    static uint32_t      end[2] = { 3, 4 };
    hymt_sched_params_t  p;

    rng = 16;
    p = small;
    p.coalesce = true;
    rig_open(&rig, p);

    for (i = 0; i < 8; i++) {
        seqs[i] = rig_add_alike(&rig, 20, 20, 1, 20, 0);
    }

    hymt_sched_drop_all(rig.sched, HYMT_FINISH_FAILED);

    for (i = 0; i < 8; i++) {
        (void) hymt_sched_news(rig.sched);
        seqs[i]->s.sampling = (hymt_sampling_t) {
            .temperature = 1, .top_p = 0.5f, .top_k = 3, .seed = 9,
            .repetition_penalty = 1
        };
        seqs[i]->s.ended = HYMT_FINISH_NONE;
    }

    seqs[1]->s.sampling.temperature = 0.5f;
    seqs[2]->s.sampling.top_p = 0.6f;
    seqs[3]->s.sampling.top_k = 4;
    seqs[4]->s.sampling.seed = 8;
    seqs[5]->s.sampling.index = 1;
    seqs[6]->s.sampling.repetition_penalty = 1.1f;
    seqs[7]->s.stop = end;
    seqs[7]->s.n_stop = 2;

    for (i = 0; i < 8; i++) {
        hymt_sched_add(rig.sched, &seqs[i]->s, NULL);
    }

    rig_step(&rig);
    is_int(hymt_sched_running(rig.sched), 8, "each other option counts");

    while (rig_step(&rig)) { /* void */ }

    is_int(rig.coalesced, 0, "none of them follows");

    /* greedy, it does not: these follow though they are given by another */

    for (i = 0; i < 2; i++) {
        seqs[i] = rig_add_alike(&rig, 20, 20, 1, 20, 0);
        seqs[i]->s.ended = HYMT_FINISH_NONE;
    }

    hymt_sched_drop_all(rig.sched, HYMT_FINISH_FAILED);

    for (i = 0; i < 2; i++) {
        (void) hymt_sched_news(rig.sched);
        seqs[i]->s.sampling = (hymt_sampling_t) {
            .top_p = i ? 0.5f : 1, .top_k = i, .seed = i, .index = i,
            .repetition_penalty = 1
        };
        seqs[i]->s.ended = HYMT_FINISH_NONE;
        hymt_sched_add(rig.sched, &seqs[i]->s, NULL);
    }

    rig_step(&rig);
    is_int(hymt_sched_running(rig.sched), 1, "greedy, the rest is nothing");

    hymt_sched_drop_all(rig.sched, HYMT_FINISH_FAILED);
    rig.out = NULL;
    while (hymt_sched_news(rig.sched) != NULL) { /* void */ }

    for (i = 0; i < 2; i++) {
        free((void *) seqs[i]->s.prompt);
        free(seqs[i]->s.out);
        free(seqs[i]);
    }

    rig_close(&rig);
}


int
main(void)
{
    test_prefix_together(1);
    test_prefix_together(2);
    test_prefix_owner(1);
    test_prefix_owner(2);
    test_prefix_eviction();
    test_coalesce(1);
    test_coalesce(2);
    test_coalesce_sampling();

    return tap_done();
}
