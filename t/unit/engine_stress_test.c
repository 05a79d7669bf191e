/*
 * engine_stress_test.c - two threads and thousands of sequences, with cancels
 * and sleeps; backends that compute give the same alone and together.
 */

#include "engine_fixture.h"

#include <sched.h>


/* The owner's side of the stress: takes what is there, checks it. */
static uint32_t
stress_poll(hymt_engine_t *engine, bool *good)
{
    seq_t       *seq;
    uint32_t     done, finish, n;
    hymt_seq_t  *s;

    for (done = 0; (s = hymt_engine_poll(engine)) != NULL; ) {
        seq = (seq_t *) s;
        finish = atomic_load_explicit(&s->finish, memory_order_acquire);
        n = atomic_load_explicit(&s->n_out, memory_order_acquire);

        /* news are something new, of a sequence that is out */

        if (!seq->busy || n < seq->seen
            || (finish == HYMT_FINISH_NONE && n == 0))
        {
            *good = false;
        }

        seq->seen = n;

        if (finish != HYMT_FINISH_NONE) {
            *good = *good && is_right(seq) && finish != HYMT_FINISH_FAILED
                    && (finish != HYMT_FINISH_CANCELED || s->canceled);
            memset(seq, 0xa5, sizeof(seq_t));
            seq->busy = false;
            done++;
        }
    }

    return done;
}


/*
 * With n_out sequences out at most: many fill the batches, one makes both
 * threads meet on their way to sleep each time.
 */
static void
test_stress(uint32_t depth, uint32_t n_out, uint32_t total)
{
    static seq_t  seqs[N_OUT];

    bool                   good;
    seq_t                 *seq;
    uint32_t               i, sent, done;
    uint64_t               seed;
    hymt_error_t           err;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    memset(seqs, 0, sizeof(seqs));
    good = true;

    p = params(depth);
    p.max_batch = 32;
    p.prefix_cache = true;
    p.coalesce = true;
    engine = start(&p);

    for (sent = 0, done = 0; done < total && good; ) {

        for (i = roll(2 * n_out); i < n_out && sent < total; i += 1 + roll(4))
        {
            seq = &seqs[i];

            if (seq->busy) {
                if (roll(8) == 0) {
                    hymt_engine_cancel(engine, &seq->s);
                }

                continue;
            }

            /* or one that another may be just now */

            if (roll(4) == 0) {
                seed = rng;
                rng = 1 + roll(2);
                fill(seq, 8, 6);
                rng = seed;

            } else {
                fill(seq, 1 + roll(8), 1 + roll(6));
            }

            seq->s.sampling.temperature = 1;
            good = good && hymt_engine_submit(engine, &seq->s, &err)
                           == HYMT_OK;
            sent++;
        }

        if (roll(3) == 0) {
            sched_yield();
        }

        done += stress_poll(engine, &good);

        if (roll(2) && done < sent && !wait_news(engine)) {
            printf("# asleep for 5 s with %u of %u back\n", done, sent);
            good = false;
        }
    }

    good = good && hymt_engine_poll(engine) == NULL;

    ok(good, "depth %u: %u sequences, %u at a time, with cancels and sleeps at"
       " random: each back once, complete", depth, total, n_out);

    is_int(atomic_load(&hymt_engine_stats(engine)->kv_blocks_used), 0,
           "no block is held");

    ok(n_out == 1 || atomic_load(&hymt_engine_stats(engine)->coalesced) > 0,
       "some followed others");

    hymt_engine_stop(engine);
    is_str(fake.fault, "", "no promise to the backend is broken");
}


/* Through a backend that computes: alone and together, greedy and sampled. */
static void
test_backend(const char *name)
{
    static seq_t  alone[12], together[12];

    uint32_t               i, j, same;
    hymt_error_t           err;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    p = params(1);
    p.ops = NULL;
    p.backend = name;
    p.threads = 2;
    engine = start(&p);

    is_int(state(engine), HYMT_ENGINE_READY, "backend %s: %s", name,
           hymt_engine_reason(engine));

    for (i = 0; i < 12; i++) {
        fill(&alone[i], 1 + roll(60), 1 + roll(30));
        alone[i].s.sampling.temperature = i % 2 ? 1 : 0;

        together[i] = alone[i];
        together[i].s.prompt = together[i].prompt;
        together[i].s.out = together[i].out;

        hymt_engine_submit(engine, &alone[i].s, &err);
        wait_finished(engine, 1);
    }

    for (i = 0; i < 12; i++) {
        hymt_engine_submit(engine, &together[i].s, &err);
    }

    wait_finished(engine, 12);

    for (i = 0, same = 0; i < 12; i++) {
        j = atomic_load(&alone[i].s.n_out);
        same += atomic_load(&together[i].s.n_out) == j
                && memcmp(alone[i].out, together[i].out, 4 * j) == 0;
    }

    is_int(same, 12, "12 sequences give the same tokens alone and together");

    hymt_engine_stop(engine);
}


/*
 * With the prefix cache on: a tree of prompts through a backend that computes,
 * many times in another order each time, so that hits, waits and takeovers by
 * another owner differ.  Against the first run, one by one without a cache.
 */
static void
test_prefix(const char *name, uint32_t turns)
{
    static seq_t  alone[24], again[24];

    uint32_t               i, j, turn, same, ended, n;
    uint64_t               cached;
    seq_t                 *seq;
    hymt_error_t           err;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    p = params(1);
    p.ops = NULL;
    p.backend = name;
    p.threads = 2;
    p.kv_tokens = 320;
    engine = start(&p);

    for (i = 0; i < 24; i++) {
        fill(&alone[i], 17 + roll(48), 1 + roll(8));
        alone[i].s.sampling.temperature = i % 2 ? 1 : 0;
        alone[i].s.scope.word[1] = i % 5 == 0;

        /* three beginnings, of lengths that are no multiple of a block's */

        for (j = 0; j < 37 + 9 * (i % 3); j++) {
            alone[i].prompt[j] = (i % 3 * 61 + j) % VOCAB;
        }

        hymt_engine_submit(engine, &alone[i].s, &err);
        wait_finished(engine, 1);
    }

    is_int((int) atomic_load(&hymt_engine_stats(engine)->prefix_tokens), 0,
           "backend %s: without a cache all is computed", name);
    hymt_engine_stop(engine);

    p.prefix_cache = true;
    p.news_fd = news_fd;
    engine = start(&p);

    for (turn = 0, same = 0, ended = 0, cached = 0; turn < turns; turn++) {

        for (n = 0; n < 24; n++) {
            i = (n * 7 + turn * 5) % 24;
            seq = &again[i];
            *seq = alone[i];
            seq->s.prompt = seq->prompt;
            seq->s.out = seq->out;
            memset(seq->out, 0xff, sizeof(seq->out));

            hymt_engine_submit(engine, &seq->s, &err);

            if (roll(12) == 0) {
                hymt_engine_cancel(engine, &seq->s);
            }
        }

        wait_finished(engine, 24);

        for (i = 0; i < 24; i++) {
            j = atomic_load(&again[i].s.n_out);
            cached += again[i].s.n_cached;

            /* one that was canceled: as far as it came */

            same += memcmp(alone[i].out, again[i].out, 4 * j) == 0
                    && (again[i].s.canceled
                        || j == atomic_load(&alone[i].s.n_out));
            ended += atomic_load(&again[i].s.finish) != HYMT_FINISH_FAILED;
        }
    }

    is_int(same, 24 * turns, "backend %s: the same tokens, hit or miss", name);
    is_int(ended, 24 * turns, "none failed");
    is_int((int) atomic_load(&hymt_engine_stats(engine)->prefix_tokens),
           (int) cached, "each was told what it did not compute");
    ok(cached > 24 * turns * 16, "%d tokens were found", (int) cached);
    ok(atomic_load(&hymt_engine_stats(engine)->prefix_evictions) > 0,
       "and blocks were given away in between");

    hymt_engine_stop(engine);
}


int
main(void)
{
    set_up();

    test_backend("cpu");
    test_backend("ref");
    test_prefix("cpu", 60);
    test_prefix("ref", 8);
    test_stress(1, N_OUT, 40000);
    test_stress(2, N_OUT, 40000);
    test_stress(1, 1, 20000);
    test_stress(2, 2, 20000);

    tear_down();

    return tap_done();
}
