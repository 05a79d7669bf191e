/*
 * exchange_fault_test.c - the exchange when one of its ends dies, or writes
 * what it should not.
 */

#include "exchange_fixture.h"


static void
test_client_killed(void)
{
    int             i, step, mark;
    uint32_t        slot;
    hymt_message_t  m, c;

    static const char *const  steps[] = {
        "before it was acknowledged", "when attached", "with a job submitted",
        "with a job running", "with a job canceled", "with a result unread",
    };

    for (step = 0; step < 6; step++) {
        set_up();
        open_server();
        open_client(0);
        memset(&m, 0, sizeof(m));

        if (step >= 1) {
            attach(0);
        }

        if (step >= 2) {
            (void) submit(0, "old", HYMT_JOB_STREAM, NULL, &slot);
        }

        if (step >= 3) {
            m = message();
            hymt_server_own(server, 0, m.slot, &mark);
            hymt_server_progress(server, 0, m.slot, 1);
        }

        if (step == 4) {
            hymt_client_cancel(client[0], slot);
        }

        if (step == 5) {
            answer(&m, "old");
        }

        kill_end(false, 0);
        open_client(0);

        is_int(hymt_exchange_in_flight(&ex), 0,
               "client killed %s: nothing in flight", steps[step]);

        if (step == 3 || step == 4) {
            c = message();
            is_int(c.kind, HYMT_MESSAGE_CANCEL, "its job is canceled");
            ok(c.data == &mark, "with the host's data");
            is_int(message().kind, 99, "once");
            is_int(event(0).kind, 99, "no answer to the new one before its"
                   " end");
            answer(&m, "old");
        }

        attach(0);
        ok(hymt_client_attached(client[0]), "the new client attaches");

        for (i = 0; i < SLOTS; i++) {
            is_int(submit(0, "new", 0, NULL, &slot), HYMT_OK, "new job %d", i);
        }

        for (i = 0; i < SLOTS; i++) {
            m = message();
            is_int(m.kind, HYMT_MESSAGE_JOB, "arrives");
            answer(&m, "new");
        }

        for (i = 0; i < SLOTS; i++) {
            is_int(event(0).kind, HYMT_EVENT_DONE, "is done");
        }

        is_int(event(0).kind, 99, "nothing else");
        tear_down();
    }
}


static void
test_host_killed(void)
{
    int             step, seen;
    uint32_t        slot;
    hymt_event_t    e;
    hymt_message_t  m;

    static const char *const  steps[] = {
        "before it acknowledged", "when attached", "with a job unread",
        "with a job running", "with a result unread",
    };

    for (step = 0; step < 5; step++) {
        set_up();
        open_server();
        open_client(0);
        memset(&m, 0, sizeof(m));

        if (step >= 1) {
            attach(0);
        }

        if (step >= 2) {
            (void) submit(0, "old", HYMT_JOB_STREAM, NULL, &slot);
        }

        if (step >= 3) {
            m = message();
            ok(!hymt_client_started(client[0], slot), "not begun");
            atomic_store(hymt_server_started(server, 0, m.slot), 1);
            hymt_server_progress(server, 0, m.slot, 1);
        }

        if (step == 4) {
            answer(&m, "old");
        }

        (void) bell(lane_fd[0]);
        kill_end(true, 0);
        (void) bell(lane_fd[0]);
        open_server();

        ok(bell(lane_fd[0]) > 0, "host killed %s: the next one wakes the"
           " client", steps[step]);

        e = event(0);

        if (step == 0) {
            is_int(e.kind, 99, "nothing was out: nothing is said");

        } else {
            is_int(e.kind, HYMT_EVENT_EPOCH, "the client is told");
        }

        if (step >= 2) {
            is_int(hymt_client_started(client[0], slot), step >= 3,
                   "it knows whether its job had begun");
        }

        is_int(hymt_client_slots_free(client[0]), SLOTS, "all slots are free");
        is_int(hymt_exchange_in_flight(&ex), 0, "nothing is in flight");

        for (seen = 0; seen < 10 && !hymt_client_attached(client[0]); seen++) {
            is_int(message().kind, 99, "the new host hears nothing stale");
            e = event(0);
        }

        is_int(e.kind, HYMT_EVENT_ATTACHED, "attached anew");
        is_int(submit(0, "new", 0, NULL, &slot), HYMT_OK, "a new job");
        m = message();
        is_int(m.kind, HYMT_MESSAGE_JOB, "arrives");
        answer(&m, "new");
        is_int(event(0).kind, HYMT_EVENT_DONE, "is done");

        tear_down();
    }
}


/* A lane's own words, spoiled by its client. */
static void
test_broken_lane(void)
{
    int             i;
    uint32_t        slot;
    hymt_lane_t    *lane;
    hymt_layout_t   l;
    hymt_message_t  m, run;
    hymt_job_t      job;
    char            buf[IN];

    static const char *const  ways[] = {
        "an impossible ring position", "a slot out of range",
        "a kind that is none", "the same job twice",
        "a text longer than its arena", "a completion position ahead",
    };

    (void) hymt_layout(&sizes, &l);

    for (i = 0; i < 6; i++) {
        set_up();
        open_server();
        open_client(0);
        open_client(1);
        attach(0);
        attach(1);
        lane = hymt_lane(&ex, &l, 0);

        (void) submit(0, "a", 0, NULL, &slot);
        run = message();
        hymt_server_own(server, 0, run.slot, &run);
        (void) submit(0, "b", 0, NULL, &slot);

        switch (i) {

        case 0:
            atomic_store(&lane->submit.head, 12345);
            break;

        case 1:
            atomic_store((_Atomic uint32_t *) ((char *) lane + l.submit_at) + 1,
                         hymt_entry(HYMT_SUBMIT_JOB, SLOTS));
            break;

        case 2:
            atomic_store((_Atomic uint32_t *) ((char *) lane + l.submit_at) + 1,
                         hymt_entry(77, 0));
            break;

        case 3:
            atomic_store((_Atomic uint32_t *) ((char *) lane + l.submit_at) + 1,
                         hymt_entry(HYMT_SUBMIT_JOB, run.slot));
            break;

        case 4:
            hymt_slot(lane, &l, slot)->job.part_len[0] = UINT32_MAX;
            m = message();
            is_int(hymt_server_job(server, &m, &job, buf, &err), HYMT_ERROR,
                   "the job is refused");
            has_str(err.text, "4294967295 bytes of 100", "and the error says");
            break;

        case 5:
            atomic_store(&lane->complete.tail, 999);
            m = message();
            answer(&m, "b");
            break;
        }

        m = message();
        is_int(m.kind, HYMT_MESSAGE_CANCEL, "%s: what ran is canceled",
               ways[i]);
        ok(m.data == &run, "with the host's data");
        is_int(message().kind, 99, "nothing else comes of the lane");
        answer(&run, "a");

        is_int(submit(1, "c", 0, NULL, &slot), HYMT_OK, "other lanes go on");
        m = message();
        is_int(m.lane, 1, "and are heard");
        answer(&m, "c");
        is_int(event(1).kind, HYMT_EVENT_DONE, "and answered");

        is_int(event(0).kind, HYMT_EVENT_EPOCH, "its client is told");
        attach(0);
        is_int(submit(0, "d", 0, NULL, &slot), HYMT_OK, "and may come back");
        is_int(message().kind, HYMT_MESSAGE_JOB, "to be served again");

        tear_down();
    }
}


/* What a host wrote, spoiled. */
static void
test_broken_host(void)
{
    int             i;
    uint32_t        slot, len;
    const char     *text;
    hymt_slot_t    *s;
    hymt_lane_t    *lane;
    hymt_result_t   r;
    hymt_layout_t   l;
    hymt_message_t  m;

    (void) hymt_layout(&sizes, &l);

    for (i = 0; i < 4; i++) {
        set_up();
        open_server();
        open_client(0);
        attach(0);
        lane = hymt_lane(&ex, &l, 0);

        (void) submit(0, "a", 0, NULL, &slot);
        m = message();

        switch (i) {

        case 0:
            atomic_store(&lane->complete.head, 12345);
            break;

        case 1:
            answer(&m, "a");
            atomic_store((_Atomic uint32_t *) ((char *) lane + l.complete_at),
                         hymt_entry(HYMT_COMPLETE_DONE, 60000));
            break;

        case 2:
            answer(&m, "a");
            atomic_store((_Atomic uint32_t *) ((char *) lane + l.complete_at),
                         hymt_entry(HYMT_COMPLETE_DONE, SLOTS - 1));
            break;

        case 3:
            atomic_store(&lane->submit.tail, 999);
            (void) bell(lane_fd[0]);
            is_int(submit(0, "b", 0, NULL, &slot), HYMT_AGAIN,
                   "a broken queue takes nothing");
            is_int(hymt_client_slots_free(client[0]), 0, "no slot is free");
            ok(bell(lane_fd[0]) > 0, "and rings its own bell");
            break;
        }

        is_int(event(0).kind, HYMT_EVENT_EPOCH, "way %d: the lane is lost", i);
        is_int(hymt_client_slots_free(client[0]), SLOTS, "with all its slots");
        is_int(hymt_exchange_in_flight(&ex), 0, "nothing in flight");

        tear_down();
    }

    set_up();
    open_server();
    open_client(0);
    attach(0);
    (void) submit(0, "a", 0, NULL, &slot);
    m = message();
    answer(&m, "a");
    (void) event(0);

    s = hymt_slot(hymt_lane(&ex, &l, 0), &l, slot);
    memset((void *) &s->result, 0xff, sizeof(s->result));
    atomic_store(&s->out_len, 1u << 31);

    hymt_client_result(client[0], slot, &r);
    is_int(r.code, HYMT_RESULT_FAILED, "a code that is none is FAILED");
    is_int(r.text_len, OUT, "lengths are held to the arena");
    is_int(strlen(r.error), HYMT_REASON_MAX - 1, "the error ends");

    hymt_client_text(client[0], slot, &text, &len);
    is_int(len, OUT, "and the text's");

    tear_down();
}


int
main(void)
{
    test_client_killed();
    test_host_killed();
    test_broken_lane();
    test_broken_host();

    return tap_done();
}
