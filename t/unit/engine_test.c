/*
 * engine_test.c - the promises of engine.h: a life, submitting, canceling,
 * stopping, sleeping, and the length of a step.
 */

#include "engine_fixture.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>


static void
test_refusals(void)
{
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

    setenv("HYMT_CUDA_LIBRARY", "/nowhere/hymt_cuda.so", 1);

    ok(hymt_backend_find("cuda", &err) == NULL, "backend cuda");
    has_str(err.text, "there is no /nowhere/hymt_cuda.so", "is not there");
    is_int(hymt_backend_check("cuda", &err), HYMT_OK, "but a name");
    is_int(hymt_backend_on_device("cuda"), true, "cuda is on a device");
    is_int(hymt_backend_on_device("auto"), false, "auto is not, without it");
    ok(hymt_backend_find("ref", &err) == &hymt_backend_ref, "ref");
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


/*
 * A backend of depth 2 is never without a step while there is work: each goes
 * out before the tokens of the one in front are waited for, and takes its token
 * from there.
 */
static void
test_overlap(uint32_t depth)
{
    static seq_t  seq;

    uint64_t               steps, first, overlapped, fed;
    hymt_error_t           err;
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    p = params(depth);
    engine = start(&p);
    fake.ns_step = 1 * MS;
    first = fake.launched;

    fill_endless(&seq, 8, 40);
    hymt_engine_submit(engine, &seq.s, &err);
    is_int(wait_finished(engine, 1), 1, "depth %u: a sequence ends", depth);
    ok(is_right(&seq), "its tokens are right");

    hymt_engine_stop(engine);

    steps = fake.launched - first;
    overlapped = fake.overlapped;
    fed = fake.fed;

    if (depth == 1) {
        is_int(steps, 40, "a step a token");
        is_int(overlapped, 0, "each by itself");
        is_int(fed, 0, "with a token from the host");

    } else {
        ok(steps == 40 || steps == 41, "a step a token, maybe one too many:"
           " %d", (int) steps);
        is_int(overlapped, steps - 1, "each but the first behind another");
        is_int(fed, steps - 1, "whose token the host has not seen");
    }
}


int
main(void)
{
    set_up();

    test_refusals();
    test_life(1);
    test_life(2);
    test_arm();
    test_submit();
    test_cancel(1);
    test_cancel(2);
    test_stop(1);
    test_stop(2);
    test_cancels();
    test_cancel_waiting();
    test_idle();
    test_overlap(1);
    test_overlap(2);
    test_signals();
    test_pace();

    tear_down();

    return tap_done();
}
