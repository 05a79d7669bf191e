/*
 * exchange_test.c - lanes, rings, generations and bells: both ends in one
 * thread, each a step at a time.
 */

#include "exchange_fixture.h"


static void
test_sizes(void)
{
    size_t                  n;
    hymt_layout_t           l;
    hymt_exchange_params_t  p;

    static const hymt_exchange_params_t  bad[] = {
        { 0, 4, 100, 100 }, { 257, 4, 100, 100 }, { 1, 0, 100, 100 },
        { 1, 65537, 100, 100 }, { 1, 4, 0, 100 }, { 1, 4, 100, 0 },
    };

    for (n = 0; n < hymt_nelts(bad); n++) {
        is_int(hymt_exchange_size(&bad[n]), 0, "sizes %zu are refused", n);
    }

    p = (hymt_exchange_params_t) { 256, 65536, UINT32_MAX, UINT32_MAX };
    ok(hymt_exchange_size(&p) == 0 || hymt_exchange_size(&p) > UINT32_MAX,
       "the largest parameters do not wrap");

    p = sizes;
    ok(hymt_layout(&p, &l), "a layout");
    ok(l.submit_cap >= 4 * SLOTS && l.complete_cap >= 2 * SLOTS,
       "rings hold all that can be unread");
    is_int(l.lane_stride % 64, 0, "lanes begin on cache lines");
    is_int(l.slots_at % 64, 0, "slots begin on cache lines");
    is_int(offsetof(hymt_lane_t, submit) % 64, 0, "rings have their own lines");

    set_up();
    ok(hymt_client_open(&ex, LANES, -1, -1, &client[0], &err) == HYMT_ERROR,
       "a lane out of range is refused");
    has_str(err.text, "lane 3 of 3", "and the error says so");
    tear_down();
}


static void
test_round_trip(void)
{
    char             buf[IN];
    uint32_t         slot, len;
    hymt_job_t       job;
    const char      *text;
    hymt_event_t     e;
    hymt_result_t    r;
    hymt_message_t   m;

    set_up();
    open_server();
    open_client(1);

    ok(submit(1, "hello", 0, NULL, &slot) == HYMT_AGAIN,
       "no submit before the host has answered");

    (void) message();
    is_int(event(1).kind, HYMT_EVENT_ATTACHED, "attached");
    is_int(event(1).kind, 99, "once");

    is_int(submit(1, "hello", HYMT_JOB_STREAM, &job, &slot), HYMT_OK, "submit");
    is_int(hymt_client_slots_free(client[1]), SLOTS - 1, "a slot is taken");
    is_int(hymt_exchange_in_flight(&ex), 1, "one job in flight");

    m = message();
    is_int(m.kind, HYMT_MESSAGE_JOB, "the host gets a job");
    is_int(m.lane, 1, "of the lane");
    is_int(m.slot, slot, "in the slot");

    is_int(hymt_server_job(server, &m, &job, buf, &err), HYMT_OK, "a job");
    is_int(job.src, 3, "source");
    is_int(job.tgt, -7, "target, unjudged");
    is_int(job.max_tokens, 11, "max_tokens");
    is_int(job.deadline_ns, 99, "deadline");
    is_int(job.sampling.seed, 1234567890123, "seed");
    is_int(job.part_len[0], 5, "text length");
    ok(memcmp(job.part[0], "hello", 5) == 0, "text");

    hymt_server_own(server, m.lane, m.slot, &m);

    memcpy(hymt_server_out(server, m.lane, m.slot, &len), "bonjour", 7);
    is_int(len, OUT, "the out arena");

    hymt_server_progress(server, m.lane, m.slot, 3);
    hymt_server_progress(server, m.lane, m.slot, 5);

    e = event(1);
    is_int(e.kind, HYMT_EVENT_PROGRESS, "progress");
    ok(e.data == &job, "with the caller's data");
    is_int(event(1).kind, 99, "two in a burst come as one");

    hymt_client_text(client[1], slot, &text, &len);
    is_int(len, 5, "with the later length");
    ok(memcmp(text, "bonjo", 5) == 0, "and text");

    hymt_server_progress(server, m.lane, m.slot, 6);
    is_int(event(1).kind, HYMT_EVENT_PROGRESS, "the next progress comes");

    answer(&m, "bonjour");

    e = event(1);
    is_int(e.kind, HYMT_EVENT_DONE, "done");
    is_int(e.slot, slot, "in the slot");

    hymt_client_result(client[1], slot, &r);
    is_int(r.code, HYMT_RESULT_OK, "result");
    is_int(r.completion_tokens, 5, "tokens");
    is_int(r.text_len, 7, "text length");
    ok(r.error[0] == '\0', "and no message");

    is_int(hymt_client_slots_free(client[1]), SLOTS - 1, "still taken");
    hymt_client_slot_free(client[1], slot);
    hymt_client_slot_free(client[1], slot);
    is_int(hymt_client_slots_free(client[1]), SLOTS, "free, once");
    is_int(hymt_exchange_in_flight(&ex), 0, "none in flight");

    tear_down();
}


/* every part at its place, whatever the others are, and lies about them */
static void
test_parts(void)
{
    char             buf[IN];
    uint32_t         i, j, slot;
    hymt_job_t       job, got;
    hymt_slot_t     *s;
    hymt_layout_t    l;
    hymt_message_t   m;

    static const char  *const parts[HYMT_N_PARTS] = {
        "the text", "a context", "x\ty\n", "formal", "u 1\na", "stop",
    };

    set_up();
    open_server();
    open_client(0);
    attach(0);
    (void) hymt_layout(&sizes, &l);

    for (i = 0; i < 1u << HYMT_N_PARTS; i++) {

        memset(&job, 0, sizeof(job));
        job.max_ratio = 1.5f;
        job.flags = HYMT_JOB_FORMATTED | HYMT_JOB_LOOPS | 0x8000;
        job.n_stop = i % (HYMT_JOB_STOPS + 1);

        for (j = 0; j < job.n_stop; j++) {
            job.stop[j] = 1000 + j;
        }

        for (j = 0; j < HYMT_N_PARTS; j++) {
            if (i >> j & 1) {
                job.part[j] = parts[j];
                job.part_len[j] = (uint32_t) strlen(parts[j]);
            }
        }

        (void) hymt_client_submit(client[0], &job, NULL, &slot, &err);
        m = message();

        if (hymt_server_job(server, &m, &got, buf, &err) != HYMT_OK
            || got.max_ratio != job.max_ratio || got.n_stop != job.n_stop
            || got.flags != (HYMT_JOB_FORMATTED | HYMT_JOB_LOOPS)
            || memcmp(got.stop, job.stop, job.n_stop * sizeof(uint32_t)) != 0)
        {
            ok(false, "a job with parts %#x", i);
        }

        for (j = 0; j < HYMT_N_PARTS; j++) {
            if (got.part_len[j] != job.part_len[j]
                || memcmp(got.part[j], parts[j], got.part_len[j]) != 0)
            {
                ok(false, "part %u of %#x", j, i);
            }
        }

        answer(&m, "");
        (void) event(0);
        hymt_client_slot_free(client[0], slot);
    }

    ok(true, "parts in all %u combinations", i);

    job.n_stop = HYMT_JOB_STOPS + 1;
    is_int(hymt_client_submit(client[0], &job, NULL, &slot, &err), HYMT_ERROR,
           "too many end tokens");
    has_str(err.text, "up to 8", "are refused");

    /* two parts that are too long only together, then a lie about a count */

    memset(&job, 0, sizeof(job));
    memset(buf, 'x', sizeof(buf));
    job.part[HYMT_PART_TEXT] = buf;
    job.part[HYMT_PART_CHAT] = buf;
    job.part_len[HYMT_PART_TEXT] = IN / 2;
    job.part_len[HYMT_PART_CHAT] = IN / 2 + 1;
    is_int(hymt_client_submit(client[0], &job, NULL, &slot, &err),
           HYMT_TOO_LONG, "in_bytes bounds all parts together");

    job.part_len[HYMT_PART_CHAT] = IN / 2;
    is_int(hymt_client_submit(client[0], &job, NULL, &slot, &err), HYMT_OK,
           "which may be as long");

    s = hymt_slot(hymt_lane(&ex, &l, 0), &l, slot);
    s->job.n_stop = HYMT_JOB_STOPS + 1;
    m = message();
    is_int(hymt_server_job(server, &m, &got, buf, &err), HYMT_ERROR,
           "a count over the bound");
    has_str(err.text, "claims 9 end tokens", "is a lie");
    is_int(event(0).kind, HYMT_EVENT_EPOCH, "that closes the lane");

    tear_down();
}


static void
test_limits(void)
{
    int       i;
    char      text[IN + 2];
    uint32_t  slot;

    set_up();
    open_server();
    open_client(0);
    attach(0);

    memset(text, 'x', IN + 1);
    text[IN + 1] = '\0';

    is_int(submit(0, text, 0, NULL, &slot), HYMT_TOO_LONG, "over in_bytes");
    has_str(err.text, "101 bytes, a job holds 100", "with both numbers");

    text[IN] = '\0';
    is_int(submit(0, text, 0, NULL, &slot), HYMT_OK, "text of in_bytes fits");

    for (i = 1; i < SLOTS; i++) {
        is_int(submit(0, "", 0, NULL, &slot), HYMT_OK, "slot %d", i);
    }

    is_int(submit(0, "", 0, NULL, &slot), HYMT_AGAIN, "no slot is left");

    tear_down();
}


static void
test_lanes_in_turn(void)
{
    int             i;
    uint32_t        slot;
    hymt_message_t  m;

    set_up();
    open_server();

    for (i = 0; i < LANES; i++) {
        open_client((uint32_t) i);
        attach((uint32_t) i);
    }

    for (i = 0; i < 3; i++) {
        (void) submit(0, "a", 0, NULL, &slot);
    }

    (void) submit(1, "b", 0, NULL, &slot);
    (void) submit(2, "c", 0, NULL, &slot);

    for (i = 0; i < 5; i++) {
        m = message();
        is_int(m.kind, HYMT_MESSAGE_JOB, "message %d", i);
        ok(i < 3 || m.lane == 0, "lane %u comes in turn", m.lane);
    }

    tear_down();
}


static void
test_cancel(void)
{
    int             mark;
    uint32_t        slot, again;
    hymt_event_t    e;
    hymt_message_t  m, c;

    set_up();
    open_server();
    open_client(0);
    attach(0);

    (void) submit(0, "a", HYMT_JOB_STREAM, &mark, &slot);
    m = message();
    hymt_server_own(server, 0, m.slot, &mark);
    hymt_server_progress(server, 0, m.slot, 1);

    hymt_client_cancel(client[0], slot);
    hymt_client_cancel(client[0], slot);

    c = message();
    is_int(c.kind, HYMT_MESSAGE_CANCEL, "the host hears of it");
    ok(c.data == &mark, "with its own data");
    is_int(message().kind, 99, "once");

    is_int(event(0).kind, 99, "its progress is not seen any more");
    is_int(hymt_client_slots_free(client[0]), SLOTS - 1, "the slot waits");

    answer(&m, "x");
    is_int(event(0).kind, 99, "nor its end");
    is_int(hymt_client_slots_free(client[0]), SLOTS, "but the slot is free");

    /* a cancel that crosses with the end must not hit the slot's next job */

    (void) submit(0, "b", 0, NULL, &slot);
    m = message();
    answer(&m, "x");
    hymt_client_cancel(client[0], slot);
    (void) event(0);

    is_int(submit(0, "c", 0, &mark, &again), HYMT_OK, "the slot's next job");
    is_int(again, slot, "in the same slot");

    m = message();
    is_int(m.kind, HYMT_MESSAGE_JOB, "the old cancel is passed over");
    is_int(message().kind, 99, "and touches nothing");
    answer(&m, "y");

    e = event(0);
    is_int(e.kind, HYMT_EVENT_DONE, "the next job ends");
    ok(e.data == &mark, "as itself");

    hymt_client_cancel(client[0], again);
    is_int(hymt_client_slots_free(client[0]), SLOTS,
           "a cancel of what is done frees the slot");

    tear_down();
}


static void
test_client_first(void)
{
    set_up();
    open_client(0);

    is_int(event(0).kind, 99, "a client without a host waits");
    ok(!hymt_client_arm(client[0]), "and sleeps");

    open_server();
    ok(bell(lane_fd[0]) > 0, "a host that comes wakes it");
    is_int(event(0).kind, HYMT_EVENT_STATE, "there is a host now");
    is_int(event(0).kind, 99, "the lane attaches without a word");
    is_int(message().kind, 99, "the host answers");
    is_int(event(0).kind, HYMT_EVENT_ATTACHED, "attached");

    tear_down();
}


static void
test_info(void)
{
    hymt_host_info_t  put, got;

    set_up();

    hymt_exchange_info(&ex, &got);
    is_int(got.state, HYMT_HOST_NONE, "nobody there");
    is_int(hymt_exchange_state(&ex), HYMT_HOST_NONE, "the state alone");
    is_str(got.reason, "", "no reason");

    open_server();
    open_client(0);
    attach(0);

    hymt_exchange_info(&ex, &got);
    is_int(got.state, HYMT_HOST_LOADING, "a new host loads");
    is_int(got.epoch, 1, "epoch");

    memset(&put, 0, sizeof(put));
    put.state = HYMT_HOST_FAILED;
    put.waiting = 7;
    put.steps = 1ull << 40;
    put.step_count[HYMT_BUCKETS - 1] = 3;
    put.batch_count[0] = 4;
    put.turn_ns = 5;
    put.work_ns = 6;
    memset(put.reason, 'r', sizeof(put.reason));
    memcpy(put.reason + HYMT_REASON_MAX - 2, "\xc3\xa9", 2);

    (void) hymt_client_arm(client[0]);
    (void) bell(lane_fd[0]);
    hymt_server_info(server, &put);

    ok(bell(lane_fd[0]) == 1, "a change of state wakes clients");
    is_int(event(0).kind, HYMT_EVENT_STATE, "and is an event");
    is_int(event(0).kind, 99, "once");

    hymt_exchange_info(&ex, &got);
    is_int(got.state, HYMT_HOST_FAILED, "state");
    is_int(hymt_exchange_state(&ex), HYMT_HOST_FAILED, "the state alone");
    is_int(got.waiting, 7, "waiting");
    is_int(got.steps, 1ull << 40, "steps");
    is_int(got.step_count[HYMT_BUCKETS - 1], 3, "steps by time");
    is_int(got.batch_count[0], 4, "and by size");
    is_int(got.turn_ns, 5, "the host's turn");
    is_int(got.work_ns, 6, "work since");
    is_int(strlen(got.reason), HYMT_REASON_MAX - 2,
           "a long reason is cut at a whole code point");

    (void) hymt_client_arm(client[0]);
    put.waiting = 8;
    hymt_server_info(server, &put);
    ok(bell(lane_fd[0]) == 0, "figures alone wake nobody");

    /* a host that died while it wrote */

    atomic_fetch_add(&hymt_header(&ex)->seq, 1);
    hymt_exchange_info(&ex, &got);
    is_str(got.reason, "", "a torn reason is not shown");
    is_int(got.waiting, 8, "figures are");

    hymt_server_info(server, &put);
    hymt_exchange_info(&ex, &got);
    ok(got.reason[0] == 'r', "the next writer mends it");

    /* one that a peer has written over */

    atomic_store(&hymt_header(&ex)->reason[1], UINT64_MAX);
    hymt_exchange_info(&ex, &got);
    is_str(got.reason, "rrrrrrrr", "a spoiled reason ends where it is no text");

    hymt_server_close(server);
    server = NULL;
    is_int(event(0).kind, HYMT_EVENT_STATE, "a host that leaves says so");
    hymt_exchange_info(&ex, &got);
    is_int(got.state, HYMT_HOST_STOPPED, "stopped");
    is_int(got.waiting, 0, "nothing waits");

    tear_down();
}


/* A time of the clock; it may be before 0 here. */
static uint64_t
ms(int n)
{
    return (uint64_t) (10000 + n) * 1000000;
}


static void
test_stuck(void)
{
    uint32_t          i;
    hymt_host_info_t  info;

    static const struct {
        uint32_t     state;
        int          turn, work, progress, longest;   /* ms */
        bool         stuck;
        const char  *name;
    } cases[] = {
        { HYMT_HOST_READY, 990, 0, 10, 0, false, "idle for long" },
        { HYMT_HOST_READY, 990, 995, 10, 0, false, "work has just come" },
        { HYMT_HOST_READY, 990, 800, 995, 0, false, "steps go on" },
        { HYMT_HOST_READY, 990, 800, 850, 0, true, "they don't" },
        { HYMT_HOST_READY, 990, 800, 850, 60, false, "a step may be long" },
        { HYMT_HOST_READY, 990, 800, 850, 40, true, "but not that long" },
        { HYMT_HOST_READY, 990, 800, 10, 0, true, "the first one hangs" },
        { HYMT_HOST_READY, -1000, 0, 890, 0, false, "the host was away" },
        { HYMT_HOST_READY, -1100, 0, 890, 0, false, "as long as it may" },
        { HYMT_HOST_READY, -1200, 0, 890, 0, true, "but not for ever" },
        { HYMT_HOST_READY, 1010, 1020, 1030, 0, false, "news of later" },
        { HYMT_HOST_LOADING, 1, 1, 1, 0, false, "loading" },
        { HYMT_HOST_FAILED, 1, 1, 1, 0, false, "failed" },
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memset(&info, 0, sizeof(info));
        info.state = cases[i].state;
        info.turn_ns = ms(cases[i].turn);
        info.work_ns = cases[i].work ? ms(cases[i].work) : 0;
        info.progress_ns = ms(cases[i].progress);
        info.step_max_ns = (uint64_t) cases[i].longest * 1000000;

        is_int(hymt_exchange_stuck(&info, ms(1000), 100 * 1000000),
               cases[i].stuck,
               "stuck: %s", cases[i].name);
    }
}


static void
test_bells(void)
{
    uint32_t        slot;
    hymt_message_t  m;

    set_up();
    open_server();
    open_client(0);
    attach(0);
    (void) bell(host_fd);
    (void) bell(lane_fd[0]);

    (void) submit(0, "a", 0, NULL, &slot);
    ok(bell(host_fd) == 0, "no bell for one that is awake");
    ok(hymt_server_arm(server), "who looks away too early is told");

    m = message();
    ok(!hymt_server_arm(server), "nothing left: sleep");

    (void) submit(0, "b", 0, NULL, &slot);
    (void) submit(0, "c", 0, NULL, &slot);
    is_int(bell(host_fd), 1, "one bell a burst");

    ok(!hymt_client_arm(client[0]), "nothing yet: sleep");
    answer(&m, "x");
    is_int(bell(lane_fd[0]), 1, "a result rings");
    ok(hymt_client_arm(client[0]), "there is news");
    is_int(event(0).kind, HYMT_EVENT_DONE, "done");

    ok(!hymt_client_arm(client[0]), "nothing more");
    m = message();
    answer(&m, "y");
    is_int(event(0).kind, HYMT_EVENT_DONE, "the next one");

    (void) message();
    ok(!hymt_server_arm(server), "nothing for the host");
    (void) submit(0, "d", 0, NULL, &slot);
    (void) message();
    ok(bell(host_fd) == 0, "its poll has read the bell empty");

    ok(!hymt_server_arm(server), "the host sleeps again");
    hymt_client_defer(client[0]);
    hymt_client_cancel(client[0], slot);
    ok(bell(host_fd) == 0, "a client that defers does not ring");
    hymt_client_ring(client[0]);
    is_int(bell(host_fd), 1, "until it is told to");
    hymt_client_ring(client[0]);
    ok(bell(host_fd) == 0, "and that once");

    tear_down();
}


int
main(void)
{
    test_sizes();
    test_round_trip();
    test_parts();
    test_limits();
    test_lanes_in_turn();
    test_cancel();
    test_client_first();
    test_info();
    test_stuck();
    test_bells();

    return tap_done();
}
