/*
 * host_test.c - the life of an engine host: loading, failing, deadlines and
 * cancels, being stuck, stopping, its log.
 */

#include "host_fixture.h"


static void
find_log(hymt_log_level_t level, const char *part)
{
    bool               found;
    char               line[1024], all[4096];
    hymt_log_level_t   l;

    found = false;
    all[0] = '\0';

    while (hymt_host_log(host, &l, line, sizeof(line)) == HYMT_OK) {
        found |= l == level && strstr(line, part) != NULL;
        strncat(all, line, sizeof(all) - strlen(all) - 1);
        strncat(all, "\n", sizeof(all) - strlen(all) - 1);
    }

    ok(found, "the log says \"%s\"", part);

    if (!found) {
        printf("# log: %s\n", all);
    }
}


static void
test_loading(void)
{
    uint32_t   i;
    answer_t  *a[4];

    fake.create_ms = 400;
    set_up(dir);

    for (i = 0; i < 4; i++) {
        a[i] = ask((ask_t) { .text = i == 3 ? "\xff" : "x",
                             .within_ms = i == 1 ? 50 : 0,
                             .max_tokens = 3 });
    }

    hymt_client_cancel(client[0], a[2]->slot);

    ok(wait_done(a[1]), "a deadline is kept while the model loads");
    is_int(a[1]->result.code, HYMT_RESULT_TIMEOUT, "with TIMEOUT");
    has_str(a[1]->result.error, "loading", "and the cause");
    is_int(info().state, HYMT_HOST_LOADING, "it still loads");

    for (i = 0; i < 5 && info().waiting != 2; i++) {
        turn();
    }

    is_int(info().waiting, 2, "two wait");
    ok(!a[0]->done, "unanswered");

    ok(wait_done(a[0]) && wait_done(a[3]), "they are answered when ready");
    is_int(a[0]->result.code, HYMT_RESULT_OK, "the good one");
    is_int(a[3]->result.code, HYMT_RESULT_BAD_INPUT, "the bad one");
    ok(a[0]->result.queue_ns > 100000000, "its wait counts (%u ms)",
       (uint32_t) (a[0]->result.queue_ns / 1000000));
    ok(!a[2]->done, "the canceled one is not heard of");
    is_int(hymt_client_slots_free(client[0]), SLOTS, "but its slot is free");
    ok(states >= LANES, "clients are told of the state");

    for (i = 0; i < 4; i++) {
        free(a[i]);
    }

    tear_down();
}


static void
test_failed_loads(void)
{
    char       path[FIXTURE_PATH + 32], away[FIXTURE_PATH + 32];
    answer_t  *a, *b;

    fake.create_fails = true;
    fake.create_ms = 200;
    set_up(dir);
    a = ask((ask_t) { .text = "waits" });
    wait_state(HYMT_HOST_FAILED);
    (void) wait_done(a);
    is_int(a->result.code, HYMT_RESULT_UNAVAILABLE, "what waited is answered");
    has_str(a->result.error, "told to fail", "with the reason");
    has_str(info().reason, "told to fail", "which everybody may read");

    b = ask((ask_t) { .text = "late" });
    (void) wait_done(b);
    is_int(b->result.code, HYMT_RESULT_UNAVAILABLE, "so is what comes later");
    find_log(HYMT_LOG_ERROR, "told to fail");
    free(a);
    free(b);
    tear_down();

    snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
    snprintf(away, sizeof(away), "%s/tokenizer.away", dir);
    rename(path, away);
    fake.create_ms = 100;
    set_up(dir);
    wait_state(HYMT_HOST_FAILED);
    has_str(info().reason, "tokenizer.json", "a missing tokenizer is named");
    refused((ask_t) { .text = "x" }, HYMT_RESULT_UNAVAILABLE,
            "tokenizer.json");
    tear_down();
    rename(away, path);

    set_up("/nonexistent/model");
    wait_state(HYMT_HOST_FAILED);
    has_str(info().reason, "/nonexistent/model", "so is a missing model");
    tear_down();
}


static void
test_failed_step(void)
{
    answer_t  *a;

    fake.ns_step = 1000000;
    set_up(dir);
    wait_state(HYMT_HOST_READY);
    fake.launch_fails_at = fake.launched + 10;

    a = ask((ask_t) { .text = "in the middle" });
    (void) wait_done(a);
    is_int(a->result.code, HYMT_RESULT_FAILED, "what ran has failed");
    ok(a->result.error[0] != '\0', "with a reason (%s)", a->result.error);
    free(a);

    wait_state(HYMT_HOST_FAILED);
    refused((ask_t) { .text = "next" }, HYMT_RESULT_UNAVAILABLE, "");
    find_log(HYMT_LOG_ERROR, "");

    tear_down();
}


static void
test_running(void)
{
    uint64_t   end;
    answer_t  *a, *b;

    fake.ns_step = 5000000;
    set_up(dir);
    wait_state(HYMT_HOST_READY);

    a = ask((ask_t) { .text = "out of time", .max_tokens = 300,
                      .within_ms = 60 });
    b = ask((ask_t) { .text = "given up", .max_tokens = 300, .lane = 1,
                      .flags = HYMT_JOB_STREAM });

    while (b->progress == 0 && !b->done) {
        turn();
    }

    hymt_client_cancel(client[1], b->slot);

    ok(wait_done(a), "a deadline ends what runs");
    is_int(a->result.code, HYMT_RESULT_TIMEOUT, "with TIMEOUT");
    ok(a->result.total_ns > 55000000 && a->result.total_ns < 2000000000,
       "in time (%u ms)", (uint32_t) (a->result.total_ns / 1000000));

    end = hymt_now_ns() + PATIENCE * 1000000ull;

    while (hymt_client_slots_free(client[1]) < SLOTS && hymt_now_ns() < end) {
        turn();
    }

    is_int(hymt_client_slots_free(client[1]), SLOTS, "a cancel frees the slot");
    ok(!b->done, "without another word");
    is_int(hymt_exchange_in_flight(&ex), 0, "nothing is in flight");

    while (info().running > 0 && hymt_now_ns() < end) {
        turn();
    }

    is_int(info().running, 0, "nothing runs");

    free(a);
    free(b);
    tear_down();
}


/* A step that takes long is seen from outside; so is its end. */
static void
test_stuck(void)
{
    uint64_t          end, patience;
    answer_t         *a;
    hymt_host_info_t  in;

    patience = 300 * 1000000ull;

    set_up(dir);
    wait_state(HYMT_HOST_READY);

    in = info();
    is_int(in.work_ns, 0, "no work");

    fake.ns_step = 1500 * 1000000ull;

    a = ask((ask_t) { .text = "Good morning.", .max_tokens = 1 });
    end = hymt_now_ns() + PATIENCE * 1000000ull;

    do {
        in = info();
    } while (!hymt_exchange_stuck(&in, hymt_now_ns(), patience)
             && !a->done && hymt_now_ns() < end);

    ok(hymt_exchange_stuck(&in, hymt_now_ns(), patience), "stuck");
    ok(in.work_ns != 0, "while it has work");

    (void) wait_done(a);
    fake.ns_step = 0;
    free(a);

    /* figures are published one by one */

    do {
        in = info();
    } while ((in.work_ns != 0 || in.step_max_ns < 1000 * 1000000ull
              || in.batch_count[0] != in.steps || in.step_seqs != in.steps)
             && hymt_now_ns() < end);

    is_int(in.work_ns, 0, "no work again");
    ok(!hymt_exchange_stuck(&in, hymt_now_ns(), PATIENCE * 1000000ull),
       "and not stuck");
    ok(in.step_max_ns >= 1000 * 1000000ull, "the longest step: %g s",
       (double) in.step_max_ns / 1e9);
    is_int(in.step_count[13] + in.step_count[14] + in.step_count[15], 1,
           "is counted where it belongs");
    is_int(in.batch_count[0], in.steps, "alone in each");
    is_int(in.step_seqs, in.steps, "of the steps");

    tear_down();
}


static void
test_stop(void)
{
    uint32_t   i;
    uint64_t   start;
    answer_t  *a[SLOTS];

    fake.ns_step = 10000000;
    set_up(dir);
    wait_state(HYMT_HOST_READY);

    for (i = 0; i < SLOTS; i++) {
        a[i] = ask((ask_t) { .text = "cut short", .max_tokens = 300 });
    }

    start = hymt_now_ns();
    hymt_host_stop(host);
    host = NULL;
    ok(hymt_now_ns() - start < 1000000000, "a stop takes a moment (%u ms)",
       (uint32_t) ((hymt_now_ns() - start) / 1000000));

    for (i = 0; i < SLOTS; i++) {
        ok(wait_done(a[i])
           && a[i]->result.code == HYMT_RESULT_UNAVAILABLE,
           "job %u is answered UNAVAILABLE (%u)", i, a[i]->result.code);
        has_str(a[i]->result.error, "stopping", "with the cause");
        free(a[i]);
    }

    is_int(info().state, HYMT_HOST_STOPPED, "stopped");
    is_int(fake.backends, 0, "nothing is left of the backend");

    /* the next one on the same exchange */

    fake.ns_step = 0;
    start_host(dir);
    wait_state(HYMT_HOST_READY);
    turn();
    is_int(epochs, LANES, "the next host's epoch is told to each client");
    a[0] = ask((ask_t) { .text = "again", .max_tokens = 3 });
    ok(wait_done(a[0]) && a[0]->result.code == HYMT_RESULT_OK, "it serves");
    free(a[0]);

    /* while it loads */

    hymt_host_stop(host);
    fake.create_ms = 60000;
    start_host(dir);
    start = hymt_now_ns();
    tear_down();
    ok(hymt_now_ns() - start < 2000000000, "a stop ends loading (%u ms)",
       (uint32_t) ((hymt_now_ns() - start) / 1000000));
}


static void
test_log(void)
{
    int                i;
    char               line[100], want[100];
    struct pollfd      p;
    hymt_log_level_t   level;

    set_up(dir);
    wait_state(HYMT_HOST_READY);

    p.fd = log_fd;
    p.events = POLLIN;
    ok(poll(&p, 1, 0) == 1, "the log rings its bell");
    find_log(HYMT_LOG_NOTICE, "loading ");

    for (i = 0; i < HYMT_LOG_LINES + 6; i++) {
        hymt_host_say(host, HYMT_LOG_INFO, "line %d", i);
    }

    is_int(hymt_host_log(host, &level, line, sizeof(line)), HYMT_OK, "a log");
    is_str(line, "6 older lines were dropped", "too much drops the oldest");

    (void) hymt_host_log(host, &level, line, sizeof(line));
    is_str(line, "line 6", "the rest is there");
    is_int(level, HYMT_LOG_INFO, "with its level");

    for (i = 1; i < HYMT_LOG_LINES; i++) {
        (void) hymt_host_log(host, &level, line, sizeof(line));
    }

    snprintf(want, sizeof(want), "line %d", HYMT_LOG_LINES + 5);
    is_str(line, want, "to the last");
    is_int(hymt_host_log(host, &level, line, sizeof(line)), HYMT_AGAIN,
           "and no more");

    tear_down();
}


int
main(void)
{
    make_model();

    test_loading();
    test_failed_loads();
    test_failed_step();
    test_running();
    test_stuck();
    test_stop();
    test_log();

    fixture_remove(dir);

    return tap_done();
}
