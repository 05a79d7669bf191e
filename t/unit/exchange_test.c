/*
 * exchange_test.c - lanes, rings, generations and bells: both ends in one
 * thread, in two threads, and ends that are killed.
 */

#include "../../engine/exchange_layout.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tap.h"


#define LANES   3
#define SLOTS   4
#define IN      100
#define OUT     200

#define STRESS  20000


static const hymt_exchange_params_t  sizes = { LANES, SLOTS, IN, OUT };

static hymt_exchange_t   ex;
static hymt_server_t    *server;
static hymt_client_t    *client[LANES];
static int               host_fd;
static int               lane_fd[LANES];
static hymt_error_t      err;


static uint64_t
bell(int fd)
{
    uint64_t  n;

    return read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}


static void
set_up(void)
{
    int    i;
    void  *mem;

    mem = mmap(NULL, hymt_exchange_size(&sizes), PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    hymt_exchange_init(&ex, mem, &sizes);

    host_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    for (i = 0; i < LANES; i++) {
        lane_fd[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    }
}


static void
tear_down(void)
{
    int  i;

    for (i = 0; i < LANES; i++) {
        hymt_client_close(client[i]);
        client[i] = NULL;
        close(lane_fd[i]);
    }

    hymt_server_close(server);
    server = NULL;

    close(host_fd);
    munmap(ex.mem, hymt_exchange_size(&sizes));
}


static void
open_server(void)
{
    if (hymt_server_open(&ex, host_fd, lane_fd, &server, &err) != HYMT_OK) {
        printf("Bail out! server: %s\n", err.text);
        exit(1);
    }
}


static void
open_client(uint32_t lane)
{
    if (hymt_client_open(&ex, lane, lane_fd[lane], host_fd, &client[lane],
                         &err)
        != HYMT_OK)
    {
        printf("Bail out! client: %s\n", err.text);
        exit(1);
    }
}


/*
 * A killed process leaves what it wrote, and nothing is written for it any
 * more: its memory is freed and the shared memory put back.
 */
static void
kill_end(bool host, uint32_t lane)
{
    size_t   size;
    char    *saved;

    size = hymt_exchange_size(&sizes);
    saved = malloc(size);
    memcpy(saved, ex.mem, size);

    if (host) {
        hymt_server_close(server);
        server = NULL;

    } else {
        hymt_client_close(client[lane]);
        client[lane] = NULL;
    }

    memcpy(ex.mem, saved, size);
    free(saved);
}


static hymt_status_t
submit(uint32_t lane, const char *text, uint32_t flags, void *data,
    uint32_t *slot)
{
    hymt_job_t  job;

    memset(&job, 0, sizeof(job));
    job.src = 3;
    job.tgt = -7;
    job.max_tokens = 11;
    job.deadline_ns = 99;
    job.flags = flags;
    job.sampling.temperature = 0.5f;
    job.sampling.seed = 1234567890123;
    job.part[HYMT_PART_TEXT] = text;
    job.part_len[HYMT_PART_TEXT] = (uint32_t) strlen(text);

    return hymt_client_submit(client[lane], &job, data, slot, &err);
}


static hymt_message_t
message(void)
{
    hymt_message_t  m;

    memset(&m, 0, sizeof(m));

    if (hymt_server_poll(server, &m) != HYMT_OK) {
        m.kind = 99;
    }

    return m;
}


static hymt_event_t
event(uint32_t lane)
{
    hymt_event_t  e;

    if (hymt_client_poll(client[lane], &e) != HYMT_OK) {
        e.kind = 99;
    }

    return e;
}


/* Attached, events of the way there swallowed. */
static void
attach(uint32_t lane)
{
    int  i;

    for (i = 0; i < 10 && !hymt_client_attached(client[lane]); i++) {
        (void) event(lane);
        (void) message();
    }
}


static void
answer(const hymt_message_t *m, const char *text)
{
    uint32_t        cap;
    hymt_result_t   r;

    memset(&r, 0, sizeof(r));
    r.code = HYMT_RESULT_OK;
    r.finish = HYMT_FINISH_STOP;
    r.text_len = (uint32_t) strlen(text);
    r.completion_tokens = 5;

    memcpy(hymt_server_out(server, m->lane, m->slot, &cap), text, r.text_len);
    hymt_server_done(server, m->lane, m->slot, &r);
}


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

    is_int(hymt_client_slots_free(client[1]), SLOTS - 1, "still taken");
    hymt_client_slot_free(client[1], slot);
    hymt_client_slot_free(client[1], slot);
    is_int(hymt_client_slots_free(client[1]), SLOTS, "free, once");
    is_int(hymt_exchange_in_flight(&ex), 0, "none in flight");

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
    is_int(got.waiting, 7, "waiting");
    is_int(got.steps, 1ull << 40, "steps");
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

    hymt_server_close(server);
    server = NULL;
    is_int(event(0).kind, HYMT_EVENT_STATE, "a host that leaves says so");
    hymt_exchange_info(&ex, &got);
    is_int(got.state, HYMT_HOST_STOPPED, "stopped");
    is_int(got.waiting, 0, "nothing waits");

    tear_down();
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
    ok(bell(lane_fd[0]) == 0, "the poll has read the bell empty");

    tear_down();
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
            is_int(submit(0, "b", 0, NULL, &slot), HYMT_AGAIN,
                   "a broken queue takes nothing");
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


/*
 * ---- two threads over real bells ----
 *
 * The host answers most jobs at once, streams to every third, and answers a
 * cancel; the client keeps its slots full, cancels every seventh.
 */

typedef struct {
    uint32_t  n;
    uint32_t  cap;
    uint32_t  texts;
    uint32_t  wrong;
    uint32_t  sleeps;
} stress_t;


static _Atomic int  stress_over;


static bool
stress_sleep(int fd)
{
    struct pollfd  p;

    p.fd = fd;
    p.events = POLLIN;

    return poll(&p, 1, 5000) == 1;
}


static void *
stress_host(void *data)
{
    char             buf[IN];
    uint32_t         cap;
    stress_t        *st;
    hymt_job_t       job;
    hymt_result_t    r;
    hymt_message_t   m;

    st = data;
    memset(&r, 0, sizeof(r));

    while (!atomic_load(&stress_over)) {
        while (hymt_server_poll(server, &m) == HYMT_OK) {

            if (m.kind == HYMT_MESSAGE_CANCEL) {
                r.code = HYMT_RESULT_CANCELED;
                r.text_len = 0;
                hymt_server_done(server, m.lane, m.slot, &r);
                continue;
            }

            if (hymt_server_job(server, &m, &job, buf, NULL) != HYMT_OK) {
                st->wrong++;
                continue;
            }

            st->n++;

            /* these stay until they are canceled */

            if (job.max_tokens % 7 == 0) {
                continue;
            }

            memcpy(hymt_server_out(server, m.lane, m.slot, &cap), job.part[0],
                   job.part_len[0]);

            if (job.flags & HYMT_JOB_STREAM) {
                hymt_server_progress(server, m.lane, m.slot, 1);
                hymt_server_progress(server, m.lane, m.slot,
                                     job.part_len[0]);
            }

            r.code = HYMT_RESULT_OK;
            r.text_len = job.part_len[0];
            hymt_server_done(server, m.lane, m.slot, &r);
        }

        if (!hymt_server_arm(server)) {
            st->sleeps++;
            (void) stress_sleep(host_fd);
        }
    }

    return NULL;
}


static void
stress_submit(stress_t *st)
{
    char        text[32];
    uint32_t    slot;
    hymt_job_t  job;

    memset(&job, 0, sizeof(job));

    while (st->n < st->cap) {
        job.max_tokens = st->n;
        job.flags = st->n % 3 == 0 ? HYMT_JOB_STREAM : 0;
        job.part[0] = text;
        job.part_len[0] = (uint32_t) snprintf(text, sizeof(text), "text %u",
                                              st->n);

        if (hymt_client_submit(client[0], &job, (void *) (uintptr_t) st->n,
                               &slot, NULL)
            != HYMT_OK)
        {
            break;
        }

        if (st->n % 7 == 0) {
            hymt_client_cancel(client[0], slot);
        }

        st->n++;
    }
}


static void
stress_take(stress_t *st, const hymt_event_t *e)
{
    char            want[32];
    uint32_t        len;
    const char     *text;
    hymt_result_t   r;

    if (e->kind == HYMT_EVENT_EPOCH) {
        st->wrong++;
    }

    if (e->kind != HYMT_EVENT_DONE) {
        return;
    }

    hymt_client_result(client[0], e->slot, &r);
    hymt_client_text(client[0], e->slot, &text, &len);
    snprintf(want, sizeof(want), "text %u", (uint32_t) (uintptr_t) e->data);

    st->wrong += r.code != HYMT_RESULT_OK || len != strlen(want)
                 || memcmp(text, want, len) != 0;
    st->texts++;

    hymt_client_slot_free(client[0], e->slot);
}


static void
test_stress(uint32_t jobs)
{
    bool          stuck;
    stress_t      host, st;
    pthread_t     thread;
    hymt_event_t  e;

    memset(&host, 0, sizeof(host));
    memset(&st, 0, sizeof(st));
    st.cap = jobs;
    stuck = false;

    set_up();
    open_server();
    open_client(0);
    atomic_store(&stress_over, 0);

    if (pthread_create(&thread, NULL, stress_host, &host) != 0) {
        ok(false, "a thread");
        return;
    }

    while (!stuck
           && (st.n < st.cap || hymt_client_slots_free(client[0]) < SLOTS))
    {
        stress_submit(&st);

        while (hymt_client_poll(client[0], &e) == HYMT_OK) {
            stress_take(&st, &e);
        }

        if (st.n == st.cap && hymt_client_slots_free(client[0]) == SLOTS) {
            break;
        }

        if (!hymt_client_attached(client[0])
            || hymt_client_slots_free(client[0]) == 0 || st.n == st.cap)
        {
            if (!hymt_client_arm(client[0])) {
                st.sleeps++;
                stuck = !stress_sleep(lane_fd[0]);
            }
        }
    }

    atomic_store(&stress_over, 1);
    hymt_bell_write(host_fd);
    pthread_join(thread, NULL);

    ok(!stuck, "no bell is lost (%u and %u sleeps)", st.sleeps, host.sleeps);
    is_int(host.n, jobs, "every job crossed");
    is_int(st.texts, jobs - (jobs + 6) / 7, "every result came back");
    is_int(st.wrong + host.wrong, 0, "each with its own text");
    is_int(hymt_exchange_in_flight(&ex), 0, "nothing left in flight");

    tear_down();
}


/* A client process that is killed while it works, again and again. */
static void
fork_client(void)
{
    uint32_t      slot;
    hymt_event_t  e;

    open_client(0);

    for ( ;; ) {
        while (hymt_client_poll(client[0], &e) == HYMT_OK) {
            if (e.kind == HYMT_EVENT_DONE) {
                hymt_client_slot_free(client[0], e.slot);
            }
        }

        if (submit(0, "child", HYMT_JOB_STREAM, NULL, &slot) == HYMT_OK
            && slot == 2)
        {
            hymt_client_cancel(client[0], slot);
        }
    }
}


static void
serve_until(uint64_t end)
{
    hymt_message_t  m;

    while (hymt_now_ns() < end) {
        m = message();

        if (m.kind == HYMT_MESSAGE_JOB && m.slot != 1) {
            hymt_server_progress(server, m.lane, m.slot, 1);
            answer(&m, "served");
        }

        if (m.kind == HYMT_MESSAGE_CANCEL) {
            answer(&m, "canceled");
        }
    }
}


/* The next client's first job, all the way. */
static bool
serve_one(void)
{
    uint32_t        slot;
    hymt_event_t    e;
    hymt_message_t  m;

    (void) event(0);

    if (submit(0, "parent", 0, &slot, &slot) != HYMT_OK) {
        return false;
    }

    m = message();

    if (m.kind != HYMT_MESSAGE_JOB || m.slot != slot) {
        return false;
    }

    answer(&m, "parent");
    e = event(0);

    return e.kind == HYMT_EVENT_DONE && e.data == &slot
           && hymt_exchange_in_flight(&ex) == 1;
}


static void
test_kill_client(void)
{
    int    i, good;
    pid_t  pid;

    set_up();
    open_server();
    good = 0;

    for (i = 0; i < 20; i++) {
        pid = fork();

        if (pid == 0) {
            fork_client();
            _exit(0);
        }

        serve_until(hymt_now_ns() + (uint64_t) (i % 5 + 1) * 3000000);
        kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);

        open_client(0);
        serve_until(hymt_now_ns() + 1000000);
        good += serve_one();
        kill_end(false, 0);
    }

    is_int(good, 20, "a client killed at any moment is followed by a good one");

    tear_down();
}


/* One look at the events, one job; returns how many were done. */
static uint32_t
client_turn(void)
{
    uint32_t       slot, done;
    hymt_event_t   e;
    struct pollfd  p;

    done = 0;

    while (hymt_client_poll(client[0], &e) == HYMT_OK) {
        if (e.kind == HYMT_EVENT_DONE) {
            hymt_client_slot_free(client[0], e.slot);
            done++;
        }
    }

    if (submit(0, "parent", HYMT_JOB_STREAM, NULL, &slot) == HYMT_OK) {
        if (slot == 1) {
            hymt_client_cancel(client[0], slot);
        }

        return done;
    }

    if (!hymt_client_arm(client[0])) {
        p.fd = lane_fd[0];
        p.events = POLLIN;
        (void) poll(&p, 1, 1000);
    }

    return done;
}


static void
test_kill_host(void)
{
    int       i, turn, good;
    pid_t     pid;
    uint32_t  done;

    set_up();
    open_client(0);
    good = 0;

    for (i = 0; i < 20; i++) {
        pid = fork();

        if (pid == 0) {
            open_server();
            serve_until(UINT64_MAX);
            _exit(0);
        }

        done = 0;

        for (turn = 0; turn < 5000 && done < 50 + (uint32_t) i * 7; turn++) {
            done += client_turn();
        }

        kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);

        good += done >= 50;
    }

    is_int(good, 20, "a host killed at any moment is followed by a good one");

    tear_down();
}


int
main(void)
{
    const char  *jobs;

    jobs = getenv("HYMT_STRESS");

    if (jobs != NULL) {
        test_stress((uint32_t) atoi(jobs));
        return tap_done();
    }

    test_sizes();
    test_round_trip();
    test_limits();
    test_lanes_in_turn();
    test_cancel();
    test_client_killed();
    test_host_killed();
    test_client_first();
    test_info();
    test_bells();
    test_broken_lane();
    test_broken_host();
    test_stress(STRESS);
    test_kill_client();
    test_kill_host();

    return tap_done();
}
