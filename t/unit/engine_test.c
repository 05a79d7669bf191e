/*
 * engine_test.c - the promises of engine.h, with a backend that computes hashes
 * (fake_backend.h) behind a tiny checkpoint.
 */

#include "engine.h"
#include "fake_backend.h"
#include "fixture.h"
#include "tap.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>


#define MS         UINT64_C(1000000)
#define VOCAB      272
#define N_OUT      96


typedef struct {
    hymt_seq_t  s;           /* first: poll() gives these */
    uint32_t    prompt[64];
    uint32_t    out[64];
    uint32_t    seen;        /* tokens at the last poll */
    bool        busy;
} seq_t;


static char      dir[FIXTURE_PATH];
static int       news_fd;
static uint64_t  rng = 42;


static uint32_t
roll(uint32_t n)
{
    rng = fake_mix(rng);

    return (uint32_t) (rng >> 32) % n;
}


static hymt_engine_params_t
params(uint32_t depth)
{
    hymt_engine_params_t  p;

    memset(&p, 0, sizeof(p));
    p.model = dir;
    p.backend = "auto";
    p.ops = &fake_ops[depth];
    p.max_batch = 8;
    p.context = 256;
    p.max_seqs = N_OUT;
    p.news_fd = news_fd;

    memset(&fake, 0, sizeof(fake));

    return p;
}


/* Sleeps until there is news; false after five seconds without. */
static bool
wait_news(hymt_engine_t *engine)
{
    uint64_t       n;
    struct pollfd  fd;

    if (hymt_engine_arm(engine)) {
        return true;
    }

    fd.fd = news_fd;
    fd.events = POLLIN;

    if (poll(&fd, 1, 5000) != 1) {
        return false;
    }

    return read(news_fd, &n, sizeof(n)) == sizeof(n);
}


static uint32_t
state(hymt_engine_t *engine)
{
    return atomic_load(&hymt_engine_stats(engine)->state);
}


static hymt_engine_t *
start(const hymt_engine_params_t *p)
{
    hymt_error_t    err;
    hymt_engine_t  *engine;

    if (hymt_engine_start(p, &engine, &err) != HYMT_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }

    while (state(engine) == HYMT_ENGINE_LOADING && wait_news(engine)) {
        /* void */
    }

    return engine;
}


static void
fill(seq_t *seq, uint32_t n_prompt, uint32_t max_new)
{
    uint32_t  i;

    memset(seq, 0, sizeof(seq_t));
    seq->busy = true;

    for (i = 0; i < n_prompt && i < 64; i++) {
        seq->prompt[i] = roll(VOCAB);
    }

    seq->s.prompt = seq->prompt;
    seq->s.n_prompt = n_prompt;
    seq->s.max_new = max_new;
    seq->s.out = seq->out;
    seq->s.sampling.top_p = 1;
    seq->s.sampling.repetition_penalty = 1;
    seq->s.sampling.seed = roll(1000);
}


/* Like fill(), and it never gives an end token. */
static void
fill_endless(seq_t *seq, uint32_t n_prompt, uint32_t max_new)
{
    uint32_t  i, token;

    fill(seq, n_prompt, max_new);

    for ( ;; seq->s.sampling.seed++) {
        for (i = 0; i < max_new; i++) {
            token = fake_next(&seq->s.sampling, seq->prompt, n_prompt,
                              seq->out, i, VOCAB);

            if (token == FIXTURE_EOS || token == FIXTURE_EOD) {
                break;
            }

            seq->out[i] = token;
        }

        if (i == max_new) {
            memset(seq->out, 0, sizeof(seq->out));
            return;
        }
    }
}


/* The tokens are right so far, and the end is. */
static bool
is_right(const seq_t *seq)
{
    uint32_t           i, n, token, finish;
    const hymt_seq_t  *s;

    s = &seq->s;
    finish = atomic_load(&s->finish);
    n = atomic_load(&s->n_out);

    for (i = 0; i < n; i++) {
        token = fake_next(&s->sampling, s->prompt, s->n_prompt, s->out, i,
                          VOCAB);
        if (s->out[i] != token) {
            return false;
        }
    }

    if (finish == HYMT_FINISH_STOP) {
        token = fake_next(&s->sampling, s->prompt, s->n_prompt, s->out, n,
                          VOCAB);
        return token == FIXTURE_EOS || token == FIXTURE_EOD;
    }

    return finish != HYMT_FINISH_LENGTH || n == s->max_new;
}


/* Polls until n sequences have finished; how many did. */
static uint32_t
wait_finished(hymt_engine_t *engine, uint32_t n)
{
    uint32_t     done;
    hymt_seq_t  *s;

    for (done = 0; done < n; ) {
        s = hymt_engine_poll(engine);

        if (s == NULL) {
            if (!wait_news(engine)) {
                break;
            }

            continue;
        }

        done += atomic_load(&s->finish) != HYMT_FINISH_NONE;
    }

    return done;
}


static void
test_refusals(void)
{
    char                   note[64];
    hymt_error_t           err;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    p = params(1);
    p.max_batch = 0;
    is_int(hymt_engine_start(&p, &engine, &err), HYMT_ERROR, "max_batch 0");
    has_str(err.text, "max_batch 0: 1 to 1024", "is named");

    p = params(1);
    p.max_seqs = 0;
    is_int(hymt_engine_start(&p, &engine, &err), HYMT_ERROR, "max_seqs 0");
    has_str(err.text, "max_seqs 0", "is named");

    p = params(1);
    p.ops = NULL;
    p.backend = "tpu";
    is_int(hymt_engine_start(&p, &engine, &err), HYMT_ERROR, "backend tpu");
    has_str(err.text, "backend \"tpu\" is not known", "is named");
    hymt_engine_stop(engine);

    ok(hymt_backend_find("cuda", note, sizeof(note), &err) == NULL,
       "backend cuda");
    has_str(err.text, "this build has no CUDA backend", "is not there");

    ok(hymt_backend_find("auto", note, sizeof(note), &err)
       == &hymt_backend_cpu, "auto is the cpu");
    has_str(note, "cpu: this build has no CUDA backend", "and says why");
    ok(hymt_backend_find("ref", NULL, 0, &err) == &hymt_backend_ref,
       "ref, without a note");
}


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
test_life(uint32_t depth)
{
    static seq_t  seqs[40];

    bool                        right;
    uint32_t                    i, most;
    hymt_error_t                err;
    hymt_engine_t              *engine;
    hymt_engine_params_t        p;
    const hymt_engine_stats_t  *stats;

    p = params(depth);
    fake.create_ms = 30;
    hymt_engine_start(&p, &engine, &err);

    is_int(state(engine), HYMT_ENGINE_LOADING, "depth %u: loading", depth);
    has_str(hymt_engine_reason(engine), "loading", "and says so");

    fill(&seqs[0], 5, 5);
    is_int(hymt_engine_submit(engine, &seqs[0].s, &err), HYMT_ERROR,
           "nothing is taken yet");
    has_str(err.text, "not ready: the model is loading", "with the reason");

    while (state(engine) == HYMT_ENGINE_LOADING && wait_news(engine)) {
        /* void */
    }

    is_int(state(engine), HYMT_ENGINE_READY, "ready");
    has_str(hymt_engine_reason(engine), "backend fake: hashes",
            "says what it runs on");
    has_str(hymt_engine_reason(engine), "KV 0.1 MB for 8192 tokens",
            "and what it takes");
    is_int(hymt_engine_config(engine)->vocab, VOCAB, "config is there");

    stats = hymt_engine_stats(engine);
    is_int(atomic_load(&stats->context), 256, "stats: context");
    is_int(atomic_load(&stats->max_batch), 8, "stats: max_batch");
    is_int(atomic_load(&stats->kv_blocks), 512, "stats: KV blocks");
    ok(atomic_load(&stats->load_ns) > 0, "stats: time to load");
    is_int(atomic_load(&stats->bytes_weights), 1000000, "stats: weights");

    for (i = 0; i < 40; i++) {
        fill(&seqs[i], 1 + roll(60), 1 + roll(60));
        hymt_engine_submit(engine, &seqs[i].s, &err);
    }

    is_int(wait_finished(engine, 40), 40, "40 sequences come back");
    ok(hymt_engine_poll(engine) == NULL, "and no more");

    for (i = 0, right = true, most = 0; i < 40; i++) {
        right = right && is_right(&seqs[i]) && atomic_load(&seqs[i].s.finish);
        right = right && seqs[i].s.t_submit <= seqs[i].s.t_start
                && (seqs[i].s.n_out == 0
                    || seqs[i].s.t_start <= seqs[i].s.t_first)
                && seqs[i].s.t_first <= seqs[i].s.t_end
                && seqs[i].s.t_start != 0 && seqs[i].s.t_end != 0;
        most = hymt_max(most, seqs[i].s.batch);
    }

    ok(right, "each with its tokens, its end and its times");
    is_int(most, 8, "in batches of up to max_batch");
    ok(atomic_load(&stats->steps) > 0 && atomic_load(&stats->step_ns) > 0,
       "stats: %d steps", (int) atomic_load(&stats->steps));
    is_int(atomic_load(&stats->running), 0, "stats: nothing runs");

    hymt_engine_stop(engine);
    is_str(fake.fault, "", "no promise to the backend is broken");
}


/* News that came before anybody asked to be rung. */
static void
test_arm(void)
{
    static seq_t  seq;

    hymt_error_t           err;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    p = params(1);
    engine = start(&p);

    while (hymt_engine_arm(engine)) { /* the state is known */ }

    ok(!hymt_engine_arm(engine), "no news: sleep");

    fill_endless(&seq, 5, 1);
    hymt_engine_submit(engine, &seq.s, &err);
    ok(wait_news(engine), "rung at the first news");
    wait_finished(engine, 1);

    fill_endless(&seq, 5, 1);
    hymt_engine_submit(engine, &seq.s, &err);

    while (atomic_load(&hymt_engine_stats(engine)->rows_prefill) < 10) {
        usleep(100);
    }

    usleep(20000);
    ok(hymt_engine_arm(engine), "news before arm: do not sleep");
    ok(hymt_engine_poll(engine) == &seq.s, "but poll");

    hymt_engine_stop(engine);
}


static void
test_submit(void)
{
    static seq_t  seqs[5];

    hymt_error_t           err;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    p = params(1);
    p.max_seqs = 4;
    engine = start(&p);

    fill(&seqs[0], 200, 57);
    is_int(hymt_engine_submit(engine, &seqs[0].s, &err), HYMT_ERROR,
           "more than the context");
    has_str(err.text, "the context is 256 tokens", "says what there is");

    fill(&seqs[0], 0, 5);
    is_int(hymt_engine_submit(engine, &seqs[0].s, &err), HYMT_ERROR,
           "no prompt");

    fill(&seqs[0], 5, 5);
    seqs[0].prompt[3] = VOCAB;
    is_int(hymt_engine_submit(engine, &seqs[0].s, &err), HYMT_ERROR,
           "a token that is none");
    has_str(err.text, "prompt token 272 at 3", "is named");

    fill(&seqs[0], 5, 5);
    seqs[0].s.sampling.top_p = NAN;
    is_int(hymt_engine_submit(engine, &seqs[0].s, &err), HYMT_ERROR,
           "sampling out of range");
    has_str(err.text, "top_p", "is named");

    fake.ns_step = 20 * MS;
    fill(&seqs[0], 5, 20);
    fill(&seqs[1], 5, 20);
    fill(&seqs[2], 5, 20);
    fill(&seqs[3], 5, 20);
    fill(&seqs[4], 5, 20);
    hymt_engine_submit(engine, &seqs[0].s, &err);
    hymt_engine_submit(engine, &seqs[1].s, &err);
    hymt_engine_submit(engine, &seqs[2].s, &err);
    is_int(hymt_engine_submit(engine, &seqs[3].s, &err), HYMT_OK,
           "max_seqs sequences");
    is_int(hymt_engine_submit(engine, &seqs[4].s, &err), HYMT_AGAIN,
           "and one more: come back later");

    is_int(wait_finished(engine, 1), 1, "when one is back");
    is_int(hymt_engine_submit(engine, &seqs[4].s, &err), HYMT_OK,
           "there is room");

    hymt_engine_stop(engine);
}


static void
test_cancel(uint32_t depth)
{
    static seq_t  seqs[2];

    uint64_t               t;
    hymt_error_t           err;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    p = params(depth);
    engine = start(&p);

    fake.ns_step = 5 * MS;
    fill_endless(&seqs[0], 5, 60);
    fill_endless(&seqs[1], 5, 10);
    hymt_engine_submit(engine, &seqs[0].s, &err);
    hymt_engine_submit(engine, &seqs[1].s, &err);

    while (atomic_load(&seqs[0].s.n_out) < 3) {
        wait_news(engine);
        hymt_engine_poll(engine);
    }

    hymt_engine_cancel(engine, &seqs[0].s);
    is_int(wait_finished(engine, 2), 2, "depth %u: both end", depth);
    is_int(atomic_load(&seqs[0].s.finish), HYMT_FINISH_CANCELED,
           "one is canceled");
    ok(atomic_load(&seqs[0].s.n_out) < 60, "before its end");
    is_int(atomic_load(&seqs[1].s.finish), HYMT_FINISH_LENGTH,
           "the other is not");
    ok(is_right(&seqs[0]) && is_right(&seqs[1]), "their tokens are right");

    if (depth == 1) {

        /* a step of 2 s in layers of 500 ms */

        fake.ns_step = 2000 * MS;
        fill_endless(&seqs[0], 5, 60);
        hymt_engine_submit(engine, &seqs[0].s, &err);
        usleep(50000);

        t = hymt_now_ns();
        hymt_engine_cancel(engine, &seqs[0].s);
        wait_finished(engine, 1);
        t = hymt_now_ns() - t;

        is_int(atomic_load(&seqs[0].s.finish), HYMT_FINISH_CANCELED,
               "a step of canceled sequences ends early");
        ok(t < 1000 * MS, "within a layer: %d ms", (int) (t / MS));
    }

    hymt_engine_stop(engine);
    is_str(fake.fault, "", "no promise to the backend is broken");
}


static void
test_stop(uint32_t depth)
{
    static seq_t  seqs[3];

    uint64_t               t;
    hymt_error_t           err;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    p = params(depth);
    engine = start(&p);

    fill_endless(&seqs[0], 5, 1);
    hymt_engine_submit(engine, &seqs[0].s, &err);

    while (atomic_load(&hymt_engine_stats(engine)->rows_prefill) < 5) {
        usleep(100);
    }

    usleep(20000);
    fake.ns_step = 2000 * MS;
    fill_endless(&seqs[1], 5, 60);
    fill_endless(&seqs[2], 5, 60);
    hymt_engine_submit(engine, &seqs[1].s, &err);
    hymt_engine_submit(engine, &seqs[2].s, &err);
    usleep(20000);

    t = hymt_now_ns();
    hymt_engine_stop(engine);
    t = hymt_now_ns() - t;

    ok(t < 1200 * MS, "depth %u: stop within a layer: %d ms", depth,
       (int) (t / MS));
    is_int(atomic_load(&seqs[0].s.finish), HYMT_FINISH_LENGTH,
           "what had ended has its result");
    is_int(atomic_load(&seqs[1].s.finish), HYMT_FINISH_FAILED,
           "what had not has failed");
    is_int(atomic_load(&seqs[2].s.finish), HYMT_FINISH_FAILED, "each");
    is_int(fake.backends, 0, "the backend is gone");

    p = params(depth);
    fake.create_ms = 5000;
    hymt_engine_start(&p, &engine, &err);
    usleep(10000);

    t = hymt_now_ns();
    hymt_engine_stop(engine);
    t = hymt_now_ns() - t;

    ok(t < 1000 * MS, "also while it loads: %d ms", (int) (t / MS));
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


/* A step all of whose sequences are canceled is no fault, however many. */
static void
test_cancels(void)
{
    static seq_t  seq;

    uint32_t               i, n;
    hymt_error_t           err;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    p = params(1);
    engine = start(&p);
    fake.ns_step = 4 * MS;

    for (i = 0, n = 0; i < 40; i++) {
        fill_endless(&seq, 5, 60);
        hymt_engine_submit(engine, &seq.s, &err);

        /* in the middle of its first step */

        fake_sleep(2 * MS);
        hymt_engine_cancel(engine, &seq.s);
        n += wait_finished(engine, 1);
    }

    is_int(n, 40, "40 canceled one by one, %d of them within a step",
           (int) fake.aborted);
    is_int(state(engine), HYMT_ENGINE_READY, "the engine goes on");
    hymt_engine_stop(engine);
}


/* One that waits goes at the next step, not when its turn comes. */
static void
test_cancel_waiting(void)
{
    static seq_t  seqs[3];

    uint32_t               i;
    hymt_error_t           err;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    p = params(1);
    p.max_batch = 1;
    engine = start(&p);
    fake.ns_step = 4 * MS;

    for (i = 0; i < 3; i++) {
        fill_endless(&seqs[i], 5, 60);
        hymt_engine_submit(engine, &seqs[i].s, &err);
    }

    hymt_engine_cancel(engine, &seqs[2].s);
    wait_finished(engine, 1);

    is_int(atomic_load(&seqs[2].s.finish), HYMT_FINISH_CANCELED,
           "the last of the line is canceled");
    is_int(atomic_load(&seqs[0].s.finish), HYMT_FINISH_NONE,
           "while the first runs");

    for (i = 0; i < 2; i++) {
        hymt_engine_cancel(engine, &seqs[i].s);
    }

    is_int(wait_finished(engine, 2), 2, "and then the others");
    hymt_engine_stop(engine);
}


static void
test_idle(void)
{
    uint64_t               steps, cpu;
    struct rusage          a, b;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    p = params(1);
    engine = start(&p);
    steps = atomic_load(&hymt_engine_stats(engine)->steps);

    getrusage(RUSAGE_SELF, &a);
    usleep(300000);
    getrusage(RUSAGE_SELF, &b);

    cpu = (uint64_t) ((b.ru_utime.tv_sec - a.ru_utime.tv_sec
                       + b.ru_stime.tv_sec - a.ru_stime.tv_sec) * 1000000
                      + b.ru_utime.tv_usec - a.ru_utime.tv_usec
                      + b.ru_stime.tv_usec - a.ru_stime.tv_usec);

    ok(cpu < 10000, "idle: %d us of CPU in 300 ms", (int) cpu);
    ok(b.ru_nvcsw - a.ru_nvcsw < 10, "it does not wake up by itself: %d",
       (int) (b.ru_nvcsw - a.ru_nvcsw));
    is_int(atomic_load(&hymt_engine_stats(engine)->steps), steps, "no steps");

    hymt_engine_stop(engine);
}


/* The line of a thread's status in /proc that begins with name, or "". */
static void
thread_status(const char *thread, const char *name, char *line, size_t cap)
{
    DIR            *tasks;
    FILE           *f;
    char            path[300], buf[256];
    bool            found;
    struct dirent  *e;

    line[0] = '\0';
    tasks = opendir("/proc/self/task");

    while (tasks != NULL && (e = readdir(tasks)) != NULL) {
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);

        f = fopen(path, "r");
        if (f == NULL) {
            continue;
        }

        for (found = false; fgets(buf, sizeof(buf), f) != NULL; ) {
            if (strncmp(buf, "Name:\t", 6) == 0) {
                buf[strcspn(buf, "\n")] = '\0';
                found = strcmp(buf + 6, thread) == 0;
            }

            if (found && strncmp(buf, name, strlen(name)) == 0) {
                snprintf(line, cap, "%s", buf);
            }
        }

        fclose(f);
    }

    if (tasks != NULL) {
        closedir(tasks);
    }
}


static void
test_signals(void)
{
    int                    i, changed;
    char                   line[256];
    sigset_t               before, after;
    uint64_t               blocked, faults;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    pthread_sigmask(SIG_SETMASK, NULL, &before);

    p = params(1);
    engine = start(&p);

    pthread_sigmask(SIG_SETMASK, NULL, &after);

    for (i = 1, changed = 0; i < 65; i++) {
        changed += sigismember(&before, i) != sigismember(&after, i);
    }

    is_int(changed, 0, "the caller's signal mask is as it was");

    thread_status("hymt-engine", "SigBlk:", line, sizeof(line));
    blocked = strtoull(line[0] ? line + 7 : "0", NULL, 16);

    faults = UINT64_C(1) << (SIGSEGV - 1) | UINT64_C(1) << (SIGBUS - 1)
             | UINT64_C(1) << (SIGFPE - 1) | UINT64_C(1) << (SIGILL - 1);

    ok((blocked & UINT64_C(1) << (SIGTERM - 1))
       && (blocked & UINT64_C(1) << (SIGIO - 1))
       && (blocked & UINT64_C(1) << (SIGCHLD - 1)),
       "thread \"hymt-engine\" blocks signals: %s", line);
    is_int(blocked & faults, 0, "but those of faults");

    hymt_engine_stop(engine);
}


/* 1 ms a row, 20 ms a step: a long prompt comes in chunks of 18 rows. */
static void
test_pace(void)
{
    static seq_t     seq;
    static uint32_t  prompt[240];

    uint32_t               i;
    hymt_error_t           err;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    for (i = 0; i < 240; i++) {
        prompt[i] = roll(VOCAB);
    }

    p = params(1);
    p.step_ms = 20;
    engine = start(&p);
    fake.ns_row = 1 * MS;
    fake.max_rows = 0;

    fill(&seq, 1, 8);
    seq.s.prompt = prompt;
    seq.s.n_prompt = 240;
    hymt_engine_submit(engine, &seq.s, &err);
    wait_finished(engine, 1);

    ok(is_right(&seq), "a long prompt in chunks");
    ok(fake.max_rows >= 8 && fake.max_rows <= 20,
       "that take up to 20 ms: %u rows", fake.max_rows);

    hymt_engine_stop(engine);
}


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
    hymt_error_t           err;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    memset(seqs, 0, sizeof(seqs));
    good = true;

    p = params(depth);
    p.max_batch = 32;
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

            fill(seq, 1 + roll(8), 1 + roll(6));
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


int
main(void)
{
    fixture_shape_t  shape = { .vocab = VOCAB };

    fixture_dir(dir);
    fixture_model(dir, &shape, 1);
    news_fd = eventfd(0, EFD_CLOEXEC);

    test_refusals();
    test_load_fails();
    test_selftest(1);
    test_selftest(2);
    test_life(1);
    test_life(2);
    test_arm();
    test_submit();
    test_cancel(1);
    test_cancel(2);
    test_stop(1);
    test_stop(2);
    test_failure(1, true);
    test_failure(1, false);
    test_failure(2, true);
    test_failure(2, false);
    test_aborts(1);
    test_aborts(2);
    test_cancels();
    test_cancel_waiting();
    test_idle();
    test_signals();
    test_pace();
    test_backend("cpu");
    test_backend("ref");
    test_stress(1, N_OUT, 40000);
    test_stress(2, N_OUT, 40000);
    test_stress(1, 1, 20000);
    test_stress(2, 2, 20000);

    close(news_fd);
    fixture_remove(dir);

    return tap_done();
}
