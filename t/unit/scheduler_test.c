/*
 * scheduler_test.c - the promises of scheduler.h one by one: admission,
 * budgets, shares of a step, ends.
 */

#include "scheduler_fixture.h"


static void
test_refusals(void)
{
    hymt_seq_t           seq;
    hymt_error_t         err;
    hymt_sched_t        *sched;
    hymt_sched_params_t  p;

    p = small;
    p.max_batch = 0;
    is_int(hymt_sched_create(&p, &sched, &err), HYMT_ERROR, "max_batch 0");
    has_str(err.text, "max_batch 0", "is named");

    p = small;
    p.max_rows = 7;
    is_int(hymt_sched_create(&p, &sched, &err), HYMT_ERROR,
           "fewer rows than slots");
    has_str(err.text, "fewer than max_batch 8", "is named");

    p = small;
    p.depth = 3;
    is_int(hymt_sched_create(&p, &sched, &err), HYMT_ERROR, "depth 3");

    p = small;
    p.n_blocks = 0;
    is_int(hymt_sched_create(&p, &sched, &err), HYMT_ERROR, "no blocks");

    p = small;
    p.n_blocks = 4;
    hymt_sched_create(&p, &sched, NULL);

    memset(&seq, 0, sizeof(seq));
    seq.n_prompt = 1;
    is_int(hymt_sched_add(sched, &seq, &err), HYMT_ERROR, "max_new 0");

    seq.n_prompt = 60;
    seq.max_new = 5;
    is_int(hymt_sched_add(sched, &seq, &err), HYMT_TOO_LONG,
           "more than the pool");
    has_str(err.text, "the whole KV pool 64", "says what there is");

    seq.n_prompt = UINT32_MAX;
    seq.max_new = UINT32_MAX;
    is_int(hymt_sched_add(sched, &seq, &err), HYMT_TOO_LONG,
           "numbers do not wrap");

    is_int(hymt_sched_waiting(sched), 0, "refused ones do not wait");
    is_int(hymt_sched_plan(sched, NULL, NULL, &(hymt_batch_t) { 0 }),
           HYMT_AGAIN, "nothing to run");

    hymt_sched_commit(sched, NULL);
    ok(hymt_sched_news(sched) == NULL, "a commit without a plan is nothing");

    hymt_sched_free(sched);
    hymt_sched_free(NULL);
}


static void
test_one(uint32_t depth)
{
    rig_t                rig;
    hymt_sched_params_t  p;

    rng = 1;
    p = small;
    p.depth = depth;
    rig_open(&rig, p);

    rig_add(&rig, 50, 20);
    is_int(hymt_sched_waiting(rig.sched), 1, "depth %u: one waits", depth);

    rig_step(&rig);
    is_int(hymt_sched_waiting(rig.sched), 0, "admitted");
    is_int(hymt_sched_running(rig.sched), 1, "runs");
    is_int(hymt_sched_blocks_used(rig.sched), 5,
           "holds blocks for prompt and output");
    is_int(rig.batch.n_rows, 48, "the first step takes the budget's rows");
    ok(!rig.batch.seqs[0].sample, "and samples nothing");

    if (depth == 2) {
        ok(rig.open == 1, "a second plan comes before the first commit");
    }

    rig_step(&rig);
    is_int(rig.batch.n_rows, 2, "the second takes the rest");
    ok(rig.batch.seqs[0].sample, "and samples");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "the output is right");
    is_int(rig.ended[HYMT_FINISH_STOP] + rig.ended[HYMT_FINISH_LENGTH], 1,
           "it ended once");
    is_int(hymt_sched_blocks_used(rig.sched), 0, "all blocks are back");
    is_int(hymt_sched_running(rig.sched), 0, "nothing runs");

    rig_close(&rig);
}


static void
test_mixed(void)
{
    rig_t  rig;

    rng = 2;
    rig_open(&rig, small);

    rig_add_endless(&rig, 5, 30);
    rig_step(&rig);
    rig_step(&rig);
    is_int(rig.batch.n_rows, 1, "alone: one decode row");

    rig_add_endless(&rig, 40, 5);
    rig_step(&rig);
    is_int(rig.batch.n_rows, 17, "a decode row and the mixed budget's prompt");
    is_int(rig.batch.seqs[0].n_out, 2, "the decode row comes first");
    is_int(rig.batch.seqs[1].n_rows, 16, "then the prompt's chunk");

    hymt_sched_budget(rig.sched, 0, 0);
    rig_step(&rig);
    is_int(rig.batch.n_rows, 2, "a budget of 0 still gives one prompt row");

    rig.p.budget_mixed = 64;
    hymt_sched_budget(rig.sched, 1000, 1000);
    rig_step(&rig);
    is_int(rig.batch.n_rows, 24, "a large budget takes the whole rest");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "all is right");
    is_int(rig.ended[HYMT_FINISH_LENGTH], 2, "both ended by length");

    rig_close(&rig);
}


static void
test_fill(void)
{
    rig_t                rig;
    hymt_sched_params_t  p;

    rng = 9;
    p = small;
    p.budget_mixed = 4;
    p.sizes[0] = 16;
    rig_open(&rig, p);

    rig_add_endless(&rig, 5, 30);
    rig_step(&rig);

    rig_add_endless(&rig, 30, 5);
    rig_step(&rig);
    is_int(rig.batch.n_rows, 16, "filled: one decode row, 15 of the prompt");

    rig_step(&rig);
    is_int(rig.batch.n_rows, 16, "filled: as many again");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "filled: all is right");
    rig_close(&rig);

    /* where decode rows fill a step alone the budget stays */

    p.sizes[0] = 1;
    rig_open(&rig, p);

    rig_add_endless(&rig, 5, 30);
    rig_add_endless(&rig, 5, 30);
    rig_step(&rig);
    rig_step(&rig);

    rig_add_endless(&rig, 30, 5);
    rig_step(&rig);
    is_int(rig.batch.n_rows, 6, "not to be filled: the mixed budget's prompt");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "not to be filled: all is right");
    rig_close(&rig);
}


/* A step no larger than what waits is worth. */
static void
test_sizes(void)
{
    rig_t                rig;
    uint32_t             i;
    hymt_sched_params_t  p;

    static const struct {
        uint32_t     n_prompt;
        uint32_t     rows;
        const char  *name;
    } steps[] = {
        { 5, 6, "all there is" },
        { 15, 8, "16 rows in all: 8" },
        { 16, 16, "17 rows: 16" },
        { 31, 16, "32 rows: 16" },
        { 32, 24, "33 rows: 24" },
        { 50, 24, "51 rows: 24, the largest" },
    };

    for (i = 0; i < hymt_nelts(steps); i++) {
        rng = 9;
        p = small;
        p.budget_mixed = 4;
        p.sizes[0] = 8;
        p.sizes[1] = 16;
        p.sizes[2] = 24;
        rig_open(&rig, p);

        rig_add_endless(&rig, 5, 30);
        rig_step(&rig);

        rig_add_endless(&rig, steps[i].n_prompt, 5);
        rig_step(&rig);
        is_int(rig.batch.n_rows, steps[i].rows, "sizes: %s", steps[i].name);

        while (rig_step(&rig)) { /* void */ }

        is_str(rig.fault, "", "sizes: all is right");
        rig_close(&rig);
    }

    /* seven rows that decode leave an eighth of the first size, eight none */

    p.max_batch = 10;

    for (i = 6; i <= 8; i++) {
        rig_open(&rig, p);

        while (rig.n_added < i) {
            rig_add_endless(&rig, 2, 30);
        }

        rig_step(&rig);
        rig_add_endless(&rig, 5, 5);
        rig_step(&rig);
        is_int(rig.batch.n_rows, i < 8 ? 8 : 13,
               "sizes: %" PRIu32 " decode rows", i);

        while (rig_step(&rig)) { /* void */ }

        is_str(rig.fault, "", "sizes: all is right");
        rig_close(&rig);
    }
}


static void
test_own_stop(void)
{
    rig_t        rig;
    uint32_t     i, own, out[5];
    hymt_seq_t  *s;

    rng = 8;
    rig_open(&rig, small);

    s = &rig_add_endless(&rig, 5, 30)->s;

    for (i = 0; i < 5; i++) {
        out[i] = fake_next(&s->sampling, s->prompt, 5, out, i, fake.vocab);
    }

    own = out[4];
    s->stop = &own;
    s->n_stop = 1;

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "all is right");
    is_int(rig.ended[HYMT_FINISH_STOP], 1, "an end token of its own ends it");

    rig_close(&rig);
}


static void
test_arrival_order(void)
{
    rig_t                rig;
    seq_t               *late;
    hymt_sched_params_t  p;

    rng = 3;
    p = small;
    p.n_blocks = 8;
    rig_open(&rig, p);

    rig_add_endless(&rig, 40, 40);
    late = rig_add_endless(&rig, 60, 4);
    rig_add_endless(&rig, 4, 4);

    rig_step(&rig);
    is_int(hymt_sched_running(rig.sched), 1, "the second does not fit yet");
    is_int(hymt_sched_waiting(rig.sched), 2,
           "and holds back the third, which would");

    rig_cancel(&rig, late);
    rig_step(&rig);
    is_int(hymt_sched_running(rig.sched), 2, "canceled, it lets it pass");
    is_int(rig.ended[HYMT_FINISH_CANCELED], 1, "and ends as canceled");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "all is right");
    rig_close(&rig);
}


static void
test_fair_chunks(void)
{
    rig_t                rig;
    seq_t               *large, *little;
    hymt_sched_params_t  p;

    rng = 4;
    p = small;
    p.context = 1024;
    p.n_blocks = 256;
    rig_open(&rig, p);

    large = rig_add_endless(&rig, 900, 4);
    rig_step(&rig);
    is_int(rig.batch.n_rows, 48, "alone a long prompt takes all");

    little = rig_add_endless(&rig, 20, 4);
    rig_step(&rig);
    is_int(rig.batch.seqs[0].n_rows, 28, "with one behind it, half and what"
           " the other leaves");
    is_int(rig.batch.seqs[1].n_rows, 20, "which is through in one step");
    ok(little->s.n_out == 1, "and has its first token");

    rig_add_endless(&rig, 900, 4);
    rig_add_endless(&rig, 3, 4);
    rig_step(&rig);
    is_int(rig.batch.seqs[0].n_out, 1, "decode first");
    is_int(rig.batch.seqs[1].n_rows, 9,
           "of two long ones the older gets half and the rest");
    is_int(rig.batch.seqs[2].n_rows, 4, "the younger half of what remains");
    is_int(rig.batch.seqs[3].n_rows, 3, "the short one all it needs");
    ok(large->s.n_out == 0, "the oldest is still at its prompt");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "all is right");
    rig_close(&rig);
}


/* The slowest case: one prompt row a step. */
static void
test_budget_of_one(void)
{
    rig_t                rig;
    seq_t               *little;
    hymt_sched_params_t  p;

    rng = 5;
    p = small;
    p.budget_mixed = 1;
    p.budget_prefill = 1;
    rig_open(&rig, p);
    rig.check_bound = true;

    rig_add_endless(&rig, 100, 2);
    rig_step(&rig);
    little = rig_add_endless(&rig, 10, 20);

    while (little->s.n_out == 0 && rig_step(&rig)) { /* void */ }

    ok(rig.steps <= 22, "a short prompt needs every other step: %d",
       (int) rig.steps);

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "and the long one its bound");
    rig_close(&rig);
}


/* Where decode rows leave one row of max_rows, a prompt has it. */
static void
test_room_of_one(void)
{
    rig_t                rig;
    seq_t               *late;
    uint32_t             i;
    hymt_sched_params_t  p;

    rng = 10;
    p = small;
    p.max_batch = 4;
    p.max_rows = 4;
    rig_open(&rig, p);
    rig.check_bound = true;

    for (i = 0; i < 3; i++) {
        rig_add_endless(&rig, 1, 100);
    }

    rig_step(&rig);
    late = rig_add_endless(&rig, 20, 4);

    for (i = 0; late->s.n_out == 0 && rig_step(&rig); i++) {
        if (rig.batch.n_rows != 4) {
            rig_fault(&rig, "a step of %u rows", rig.batch.n_rows);
        }
    }

    is_int(i, 20, "beside three that decode, a prompt needs a step a row");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "each in a full step");
    rig_close(&rig);
}


static void
test_cancel(uint32_t depth)
{
    rig_t                rig;
    seq_t               *a, *b;
    hymt_sched_params_t  p;

    rng = 6;
    p = small;
    p.depth = depth;
    rig_open(&rig, p);

    a = rig_add_endless(&rig, 10, 50);
    b = rig_add_endless(&rig, 10, 50);

    while (a->s.n_out < 3) {
        rig_step(&rig);
    }

    rig_cancel(&rig, a);
    rig_step(&rig);
    is_int(rig.ended[HYMT_FINISH_CANCELED], 1,
           "depth %u: seen at the next step", depth);
    is_int(hymt_sched_running(rig.sched), 1, "one runs on");

    rig_step(&rig);
    is_int(hymt_sched_blocks_used(rig.sched), 4, "with its blocks alone");

    if (depth == 1) {
        ok(rig.batch.seqs[0].canceled == &b->s.canceled,
           "the backend may look at the flag");

    } else {
        ok(rig.batch.seqs[0].canceled == NULL,
           "a deferred step does not look at the owner's memory");
    }

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "all is right");
    is_int(rig.ended[HYMT_FINISH_LENGTH], 1, "the other ended by length");
    rig_close(&rig);
}


static void
test_cancel_waiting(void)
{
    rig_t                rig;
    uint32_t             i;
    seq_t               *seqs[4];
    hymt_sched_params_t  p;

    rng = 11;
    p = small;
    p.max_batch = 1;
    rig_open(&rig, p);

    for (i = 0; i < 4; i++) {
        seqs[i] = rig_add_endless(&rig, 5, 20);
    }

    rig_step(&rig);
    is_int(hymt_sched_waiting(rig.sched), 3, "three wait");

    rig_cancel(&rig, seqs[2]);
    rig_step(&rig);
    is_int(rig.ended[HYMT_FINISH_CANCELED], 1,
           "one canceled in the middle of the line is seen at the next step");
    is_int(hymt_sched_waiting(rig.sched), 2, "and has left it");

    /* nobody has said so: it is seen when its turn comes */

    __atomic_store_n(&seqs[1]->s.canceled, 1, __ATOMIC_RELAXED);

    while (rig_step(&rig)) { /* void */ }

    is_int(rig.ended[HYMT_FINISH_CANCELED], 2, "a flag alone is enough");
    is_int(rig.n_begun, 2, "not to be admitted");
    is_int(rig.ended[HYMT_FINISH_LENGTH], 2, "the others ended by length");
    is_str(rig.fault, "", "all is right");
    rig_close(&rig);
}


static void
test_abort(uint32_t depth)
{
    rig_t                rig;
    uint32_t             i;
    hymt_sched_params_t  p;

    rng = 7;
    p = small;
    p.depth = depth;
    rig_open(&rig, p);

    rig_add_endless(&rig, 100, 20);
    rig_add_endless(&rig, 5, 20);

    for (i = 0; rig_step(&rig); i++) {
        fake.abort_next = i % 3 == 1;
    }

    fake.abort_next = false;

    is_str(rig.fault, "", "depth %u: after aborted steps the output is the"
           " same", depth);
    is_int(rig.ended[HYMT_FINISH_LENGTH], 2, "both ended by length");
    is_int(hymt_sched_blocks_used(rig.sched), 0, "all blocks are back");
    rig_close(&rig);
}


static void
test_drop_all(uint32_t depth)
{
    rig_t                rig;
    uint32_t             i;
    hymt_sched_params_t  p;

    rng = 8;
    p = small;
    p.depth = depth;
    p.max_batch = 2;
    rig_open(&rig, p);

    for (i = 0; i < 5; i++) {
        rig_add_endless(&rig, 10, 20);
    }

    rig_step(&rig);
    rig_step(&rig);
    rig_step(&rig);

    hymt_sched_drop_all(rig.sched, HYMT_FINISH_FAILED);
    rig_news(&rig);

    is_int(rig.ended[HYMT_FINISH_FAILED], 5, "depth %u: running and waiting"
           " ones, each once", depth);
    is_int(hymt_sched_running(rig.sched), 0, "nothing runs");
    is_int(hymt_sched_waiting(rig.sched), 0, "nothing waits");
    is_int(hymt_sched_blocks_used(rig.sched), 0, "no block is held");
    is_str(rig.fault, "", "all is right");

    rig_close(&rig);
}


/* News not taken at once are not told twice. */
static void
test_news(void)
{
    rig_t         rig;
    seq_t        *seq;
    uint32_t      i, tokens[8];
    hymt_error_t  err;

    rng = 9;
    rig_open(&rig, small);
    seq = rig_add_endless(&rig, 10, 4);

    for (i = 0; i < 4; i++) {
        hymt_sched_plan(rig.sched, rig_begin, &rig, &rig.batch);
        rig.ops->launch(rig.backend, &rig.batch, &err);
        rig.ops->collect(rig.backend, tokens, &err);
        hymt_sched_commit(rig.sched, tokens);
    }

    is_int(seq->s.ended, HYMT_FINISH_LENGTH, "four steps, four tokens");
    ok(hymt_sched_news(rig.sched) == &seq->s, "which are one piece of news");
    ok(hymt_sched_news(rig.sched) == NULL, "and no more");

    free((void *) seq->s.prompt);
    free(seq->s.out);
    free(seq);
    rig_close(&rig);
}


static void
test_priorities(void)
{
    rig_t                rig;
    uint32_t             i;
    seq_t               *seq;
    hymt_seq_t           bad;
    hymt_error_t         err;
    hymt_sched_params_t  p;

    rng = 17;
    p = small;
    p.age = 1;
    rig_open(&rig, p);

    for (i = 0; i < 9; i++) {
        seq = rig_new(&rig, 5, 20);
        seq->s.priority = HYMT_PRIORITY_BATCH;
        rig_submit(&rig, seq);
        seq_endless(&seq->s);
    }

    rig_step(&rig);
    is_int(hymt_sched_running(rig.sched), 7, "batch leaves one slot of eight");

    rig_add_endless(&rig, 5, 20);
    rig_step(&rig);
    is_int(hymt_sched_running(rig.sched), 8, "which another gets at once");
    is_int(hymt_sched_waiting(rig.sched), 2, "though these came before it");

    while (rig_step(&rig)) { /* void */ }

    is_str(rig.fault, "", "all is right");
    is_int(rig.ended[HYMT_FINISH_LENGTH], 10, "all came to their end");

    memset(&bad, 0, sizeof(bad));
    bad.n_prompt = 1;
    bad.max_new = 1;
    bad.priority = 2;
    is_int(hymt_sched_add(rig.sched, &bad, &err), HYMT_ERROR, "priority 2");
    has_str(err.text, "priority 2", "is named");

    rig_close(&rig);
}


int
main(void)
{
    test_refusals();
    test_one(1);
    test_one(2);
    test_mixed();
    test_fill();
    test_sizes();
    test_own_stop();
    test_arrival_order();
    test_fair_chunks();
    test_budget_of_one();
    test_room_of_one();
    test_cancel(1);
    test_cancel(2);
    test_cancel_waiting();
    test_abort(1);
    test_abort(2);
    test_drop_all(1);
    test_drop_all(2);
    test_news();
    test_priorities();

    return tap_done();
}
