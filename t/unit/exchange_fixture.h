/*
 * exchange_fixture.h - an exchange of three lanes, its ends, and the short
 * calls its tests are made of.
 */

#ifndef HYMT_EXCHANGE_FIXTURE_H
#define HYMT_EXCHANGE_FIXTURE_H

#include "exchange_layout.h"

#include <sys/eventfd.h>
#include <sys/mman.h>

#include "tap.h"


#define LANES   3
#define SLOTS   4
#define IN      100
#define OUT     200

static const hymt_exchange_params_t  sizes = { LANES, SLOTS, IN, OUT };

static hymt_exchange_t   ex;
static hymt_server_t    *server;
static hymt_client_t    *client[LANES];
static int               host_fd;
static int               lane_fd[LANES];
static hymt_error_t      err;


static inline uint64_t
bell(int fd)
{
    uint64_t  n;

    return read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}


static inline void
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


static inline void
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


static inline void
open_server(void)
{
    if (hymt_server_open(&ex, host_fd, lane_fd, &server, &err) != HYMT_OK) {
        printf("Bail out! server: %s\n", err.text);
        exit(1);
    }
}


static inline void
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
static inline void
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


static inline hymt_status_t
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


static inline hymt_message_t
message(void)
{
    hymt_message_t  m;

    memset(&m, 0, sizeof(m));

    if (hymt_server_poll(server, &m) != HYMT_OK) {
        m.kind = 99;
    }

    return m;
}


static inline hymt_event_t
event(uint32_t lane)
{
    hymt_event_t  e;

    if (hymt_client_poll(client[lane], &e) != HYMT_OK) {
        e.kind = 99;
    }

    return e;
}


/* Attached, events of the way there swallowed. */
static inline void
attach(uint32_t lane)
{
    int  i;

    for (i = 0; i < 10 && !hymt_client_attached(client[lane]); i++) {
        (void) event(lane);
        (void) message();
    }
}


static inline void
answer(const hymt_message_t *m, const char *text)
{
    uint32_t        cap;
    hymt_result_t   r;

    memset(&r, 0, sizeof(r));
    r.code = HYMT_RESULT_OK;
    r.finish = HYMT_FINISH_STOP;
    r.text_len = (uint32_t) strlen(text);
    r.completion_tokens = 5;
    strcpy(r.error, "not to be told");

    memcpy(hymt_server_out(server, m->lane, m->slot, &cap), text, r.text_len);
    hymt_server_done(server, m->lane, m->slot, &r);
}


#endif /* HYMT_EXCHANGE_FIXTURE_H */
