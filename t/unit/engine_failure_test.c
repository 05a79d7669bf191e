/*
 * engine_failure_test.c - models that do not load, self-tests that do not pass,
 * steps that fail or are given up.
 */

#include "engine_fixture.h"


static void
test_load_fails(void)
{
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    p = params(1);
    p.model = "/nonexistent/model";
    engine = start(&p);
    is_int(state(engine), HYMT_ENGINE_FAILED, "no such model");
    has_str(hymt_engine_reason(engine), "/nonexistent/model", "is named");
    ok(hymt_engine_config(engine) == NULL, "there is no config");
    hymt_engine_stop(engine);

    p = params(1);
    fake.create_fails = true;
    engine = start(&p);
    is_int(state(engine), HYMT_ENGINE_FAILED, "the backend does not start");
    has_str(hymt_engine_reason(engine), "fake: told to fail", "says why");
    hymt_engine_stop(engine);

    p = params(1);
    p.context = 5000;
    engine = start(&p);
    has_str(hymt_engine_reason(engine), "context 5000 is over",
            "a setting that the model does not allow");
    hymt_engine_stop(engine);

    is_int(fake.backends, 0, "no backend is left");
}


/* One that waits for memory. */
static hymt_engine_t *
begin_short(const hymt_engine_params_t *p)
{
    hymt_engine_t  *engine;

    engine = begin(p);

    while (!hymt_engine_waits(engine)
           && state(engine) == HYMT_ENGINE_LOADING)
    {
        fake_sleep(MS);
    }

    return engine;
}


/* Others have the memory, and are about to leave it, or not. */
static void
test_memory(void)
{
    bool                   quick;
    uint32_t               i;
    uint64_t               began;
    hymt_engine_t         *engine;
    _Atomic uint32_t       patience;
    hymt_engine_params_t   p;

    p = params(1);
    fake.short_of_memory = 1;
    engine = start(&p);
    is_int(state(engine), HYMT_ENGINE_FAILED, "too little memory");
    has_str(hymt_engine_reason(engine), "not enough memory", "says why");
    hymt_engine_stop(engine);

    atomic_init(&patience, 1);

    p = params(1);
    p.patience = &patience;
    fake.short_of_memory = 1;
    engine = start(&p);
    is_int(state(engine), HYMT_ENGINE_READY, "it waits for others to leave");
    hymt_engine_stop(engine);

    p = params(2);
    p.patience = &patience;
    fake.short_of_memory = UINT32_MAX;
    engine = begin_short(&p);

    is_int(state(engine), HYMT_ENGINE_LOADING, "while they don't, it loads");
    has_str(hymt_engine_reason(engine), "not enough memory", "and says why");

    atomic_store(&patience, 0);
    wait_loaded(engine);
    is_int(state(engine), HYMT_ENGINE_FAILED, "when they have left it fails");
    hymt_engine_stop(engine);

    atomic_store(&patience, 1);

    /* once in five times: the machine has other things to do */

    for (i = 0, quick = false; i < 5 && !quick; i++) {
        engine = begin_short(&p);

        began = hymt_now_ns();
        hymt_engine_stop(engine);
        quick = hymt_now_ns() - began < 300 * MS;
    }

    ok(quick, "stop ends the wait");

    is_int(fake.backends, 0, "no backend is left");
}


/* It has loaded, or not, after ten seconds at most. */
static uint32_t
ended(hymt_engine_t *engine)
{
    uint32_t  i;

    for (i = 0; i < 10000 && state(engine) == HYMT_ENGINE_LOADING; i++) {
        fake_sleep(MS);
    }

    return state(engine);
}


/* Two engines that load at once where there is memory for one. */
static void
test_turns(void)
{
    hymt_engine_t         *first, *second;
    _Atomic uint32_t       patience;
    hymt_engine_params_t   p;

    static hymt_claims_t  claims;

    p = params(1);
    p.claims = &claims;
    p.rank = 1;
    fake.wants = 6;
    fake.room = 10;
    fake.create_ms = 300;

    first = begin(&p);
    fake_sleep(50 * MS);
    second = begin_short(&p);

    is_int(state(first), HYMT_ENGINE_LOADING, "one loads");
    is_int(state(second), HYMT_ENGINE_LOADING, "the other one waits for that");
    has_str(hymt_engine_reason(second), "6 of 10 are for others", "as it says");
    is_int(ended(first), HYMT_ENGINE_READY, "one is ready");
    is_int(ended(second), HYMT_ENGINE_FAILED, "there is no memory for both");
    has_str(hymt_engine_reason(second), "0 of 4 are for others", "is why");
    hymt_engine_stop(second);
    hymt_engine_stop(first);
    is_str(fake.fault, "", "nobody took what was not there");

    /* they wait for the memory of an older one */

    atomic_init(&patience, 1);
    fake.room = 4;
    fake.create_ms = 20;
    p.patience = &patience;
    first = begin_short(&p);
    p.rank = 2;
    second = begin_short(&p);

    fake.room = 10;
    is_int(ended(second), HYMT_ENGINE_READY, "the newer one has it");
    is_int(state(first), HYMT_ENGINE_LOADING, "the older one waits on");

    atomic_store(&patience, 0);
    is_int(ended(first), HYMT_ENGINE_FAILED, "until none before it is there");
    hymt_engine_stop(first);

    /* what it stopped waiting for, failed at, or had is not held any more */

    fake.room = 4;
    atomic_store(&patience, 1);
    first = begin_short(&p);
    hymt_engine_stop(first);
    hymt_engine_stop(second);

    fake.room = 10;
    fake.nan_logits = true;
    p.rank = 1;
    first = begin(&p);
    is_int(ended(first), HYMT_ENGINE_FAILED, "one that fails in its test");
    hymt_engine_stop(first);

    fake.nan_logits = false;
    fake.room = 6;
    first = begin(&p);
    is_int(ended(first), HYMT_ENGINE_READY, "all memory is there again");
    hymt_engine_stop(first);

    is_str(fake.fault, "", "nobody took what was not there");
    is_int(fake.backends, 0, "no backend is left");
}


static void
test_selftest(uint32_t depth)
{
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    p = params(depth);
    fake.nan_logits = true;
    engine = start(&p);
    is_int(state(engine), HYMT_ENGINE_FAILED, "depth %u: NaN", depth);
    has_str(hymt_engine_reason(engine), "is not finite", "is found");
    hymt_engine_stop(engine);

    p = params(depth);
    fake.batch_dependent = true;
    engine = start(&p);
    is_int(state(engine), HYMT_ENGINE_FAILED, "logits that change with load");
    has_str(hymt_engine_reason(engine), "in one step with other sequences",
            "are found");
    hymt_engine_stop(engine);

    p = params(depth);
    fake.chunk_dependent = true;
    engine = start(&p);
    is_int(state(engine), HYMT_ENGINE_FAILED, "or with chunking");
    has_str(hymt_engine_reason(engine), "alone and", "too");
    hymt_engine_stop(engine);

    p = params(depth);
    p.max_batch = 1;
    p.context = 16;
    p.kv_tokens = 16;
    engine = start(&p);
    is_int(state(engine), HYMT_ENGINE_READY, "the smallest engine passes");
    hymt_engine_stop(engine);

    is_str(fake.fault, "", "no promise to the backend is broken");
    is_int(fake.backends, 0, "no backend is left");
}


static void
test_failure(uint32_t depth, bool launch)
{
    static seq_t  seqs[3];

    uint32_t               i, n;
    hymt_error_t           err;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    p = params(depth);
    engine = start(&p);
    fake.ns_step = 5 * MS;

    if (launch) {
        fake.launch_fails_at = fake.launched + 10;

    } else {
        fake.collect_fails_at = fake.launched + 10;
    }

    for (i = 0; i < 3; i++) {
        fill_endless(&seqs[i], 5, 60);
    }

    for (i = 0, n = 0; i < 3; i++) {
        n += hymt_engine_submit(engine, &seqs[i].s, &err) == HYMT_OK;
    }

    is_int(wait_finished(engine, n), n, "depth %u: a failing %s ends all",
           depth, launch ? "launch" : "collect");
    is_int(atomic_load(&seqs[0].s.finish), HYMT_FINISH_FAILED, "as failed");
    is_int(state(engine), HYMT_ENGINE_FAILED, "the engine has failed");
    has_str(hymt_engine_reason(engine), "told to fail", "and says why");
    is_int(hymt_engine_submit(engine, &seqs[0].s, &err), HYMT_ERROR,
           "takes nothing more");
    has_str(err.text, "told to fail", "for that reason");

    hymt_engine_stop(engine);
    is_int(fake.backends, 0, "the backend is gone");
}


/* A backend that gives steps up on its own: bad luck, then a fault. */
static void
test_aborts(uint32_t depth)
{
    static seq_t  seqs[3];

    uint32_t               i, n;
    uint64_t               launched;
    hymt_error_t           err;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    p = params(depth);
    engine = start(&p);

    fake.abort_from = fake.launched + 5;
    fake.abort_to = fake.launched + 11;

    for (i = 0; i < 3; i++) {
        fill_endless(&seqs[i], 5, 60);
    }

    hymt_engine_submit(engine, &seqs[0].s, &err);
    is_int(wait_finished(engine, 1), 1, "depth %u: seven aborts in a row",
           depth);
    ok(fake.aborted >= 6 && is_right(&seqs[0])
       && atomic_load(&seqs[0].s.finish) == HYMT_FINISH_LENGTH,
       "change nothing");
    is_int(state(engine), HYMT_ENGINE_READY, "the engine goes on");

    fake.abort_from = fake.launched + 5;
    fake.abort_to = UINT64_MAX;
    launched = fake.launched;

    for (i = 1, n = 0; i < 3; i++) {
        n += hymt_engine_submit(engine, &seqs[i].s, &err) == HYMT_OK;
    }

    is_int(wait_finished(engine, n), n, "aborts without end: all end");
    is_int(atomic_load(&seqs[1].s.finish), HYMT_FINISH_FAILED, "as failed");
    is_int(state(engine), HYMT_ENGINE_FAILED, "the engine has failed");
    has_str(hymt_engine_reason(engine), "gave up 8 steps in a row",
            "and says why");
    ok(fake.launched - launched < 20, "after %d steps",
       (int) (fake.launched - launched));

    hymt_engine_stop(engine);

    p = params(depth);
    fake.abort_to = UINT64_MAX;
    engine = start(&p);
    is_int(state(engine), HYMT_ENGINE_FAILED, "also in the self-test");
    has_str(hymt_engine_reason(engine), "with no stop asked for",
            "which says why");
    hymt_engine_stop(engine);

    is_int(fake.backends, 0, "the backend is gone");
}


int
main(void)
{
    set_up();

    test_load_fails();
    test_memory();
    test_turns();
    test_selftest(1);
    test_selftest(2);
    test_failure(1, true);
    test_failure(1, false);
    test_failure(2, true);
    test_failure(2, false);
    test_aborts(1);
    test_aborts(2);

    tear_down();

    return tap_done();
}
