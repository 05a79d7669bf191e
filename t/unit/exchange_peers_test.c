/*
 * exchange_peers_test.c - the ends of an exchange at the same time: in two
 * threads over real bells, and in two processes of which one is killed.
 *
 * HYMT_STRESS=N runs the two threads alone, for N jobs: for a build with
 * -fsanitize=thread.
 */

#include "exchange_fixture.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>


#define STRESS  20000


/*
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

    return poll(&p, 1, 5000) == 1 && (fd == host_fd || bell(fd) > 0);
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
        (void) bell(lane_fd[0]);
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

    test_stress(STRESS);
    test_kill_client();
    test_kill_host();

    return tap_done();
}
