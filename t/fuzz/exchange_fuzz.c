/*
 * exchange_fuzz.c - libFuzzer on both ends of an exchange, over memory whose
 * bytes are spoiled between calls.
 *
 *     clang -std=c11 -D_GNU_SOURCE -O1 -g -Iengine \
 *         -fsanitize=fuzzer,address,undefined t/fuzz/exchange_fuzz.c \
 *         engine/exchange*.c engine/base.c -o exchange_fuzz
 *     ./exchange_fuzz -max_total_time=300 -max_len=4000
 *
 * With -DHYMT_FUZZ_MAIN and any compiler: "exchange_fuzz [programs] [seed]"
 * runs random ones.
 *
 * An input is a program: each byte chooses a call of the client, a call of the
 * server, or bytes of the shared memory to change.  Nothing may crash, reach
 * outside the memory (it lies between guard pages), loop, or break what the
 * server promises its host: a JOB only for a slot that does not run, a CANCEL
 * only for one that does, once, with the host's own data.
 *
 * An even first byte spoils all memory.  An odd one spoils lane 0 only, and
 * then lane 1 must go on as if nothing had happened.
 */

#include "exchange_layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>


#define LANES     2
#define SLOTS     3
#define IN        60
#define OUT       70

#define PROGRAM   600

#define MAX_LOOP  10000


typedef struct {
    bool  running;
    bool  told;
} fuzz_job_t;


typedef struct {
    const uint8_t   *data;
    size_t           size;
    size_t           at;

    bool             lane_only;
    hymt_exchange_t  ex;
    hymt_layout_t    layout;
    hymt_server_t   *server;
    hymt_client_t   *client[LANES];
    fuzz_job_t       jobs[LANES][SLOTS];
    int              host_fd;
    int              lane_fd[LANES];
    uint32_t         sum;           /* of all bytes read: none may be outside */
} fuzz_t;


static const hymt_exchange_params_t  sizes = { LANES, SLOTS, IN, OUT };


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


#define must(cond)                                                            \
    do {                                                                      \
        if (!(cond)) {                                                        \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #cond);\
            abort();                                                          \
        }                                                                     \
    } while (0)


static uint8_t
next(fuzz_t *f)
{
    return f->at < f->size ? f->data[f->at++] : 0;
}


static void
open_server(fuzz_t *f)
{
    memset(f->jobs, 0, sizeof(f->jobs));
    must(hymt_server_open(&f->ex, f->host_fd, f->lane_fd, &f->server, NULL)
         == HYMT_OK);
}


static void
open_client(fuzz_t *f, uint32_t lane)
{
    must(hymt_client_open(&f->ex, lane, f->lane_fd[lane], f->host_fd,
                          &f->client[lane], NULL)
         == HYMT_OK);
}


/* Random bytes at a random place, in what may be spoiled. */
static void
spoil(fuzz_t *f)
{
    char    *from;
    size_t   at, size;
    uint8_t  n;

    from = f->ex.mem;
    size = f->layout.size;

    if (f->lane_only) {
        from = (char *) hymt_lane(&f->ex, &f->layout, 0);
        size = f->layout.lane_stride;
    }

    at = (size_t) next(f) << 8;
    at |= next(f);

    /* three of four in the words, rings and slots of a lane */

    if (at % 4 != 0 && !f->lane_only) {
        at = (size_t) ((char *) hymt_lane(&f->ex, &f->layout, at / 4 % LANES)
                       - from)
             + at / 8 % f->layout.arenas_at;

    } else if (at % 4 != 0) {
        at = at / 4 % f->layout.arenas_at;
    }

    for (n = next(f) % 8; n < 8 && at < size; n++) {
        from[at++] = (char) next(f);
    }
}


static void
client_read(fuzz_t *f, uint32_t lane, uint32_t slot)
{
    uint32_t        i, len;
    const char     *text;
    hymt_result_t   r;

    hymt_client_text(f->client[lane], slot, &text, &len);
    must(len <= OUT);

    for (i = 0; i < len; i++) {
        f->sum += (uint8_t) text[i];
    }

    hymt_client_result(f->client[lane], slot, &r);
    must(r.code < HYMT_N_RESULTS && r.text_len <= OUT);
    must(strlen(r.error) < HYMT_REASON_MAX);
}


static void
client_poll(fuzz_t *f, uint32_t lane)
{
    uint32_t      loops;
    hymt_event_t  e;

    for (loops = 0; hymt_client_poll(f->client[lane], &e) == HYMT_OK; loops++) {
        must(loops < MAX_LOOP);

        if (e.kind == HYMT_EVENT_PROGRESS || e.kind == HYMT_EVENT_DONE) {
            must(e.slot < SLOTS && e.data == f);
            client_read(f, lane, e.slot);
        }

        if (e.kind == HYMT_EVENT_DONE) {
            hymt_client_slot_free(f->client[lane], e.slot);
        }
    }

    must(hymt_client_slots_free(f->client[lane]) <= SLOTS);
}


static void
client_submit(fuzz_t *f, uint32_t lane, uint32_t len)
{
    char        text[IN + 4];
    uint32_t    i, slot;
    hymt_job_t  job;

    memset(&job, 0, sizeof(job));
    memset(text, 'a' + (int) lane, sizeof(text));

    job.flags = len % 2;
    job.n_stop = len % (HYMT_JOB_STOPS + 2);

    for (i = 0; i < HYMT_N_PARTS; i++) {
        job.part[i] = text;
    }

    job.part_len[0] = len % (IN + 4);
    job.part_len[len % HYMT_N_PARTS] += len / 16;

    (void) hymt_client_submit(f->client[lane], &job, f, &slot, NULL);
}


static void
server_poll(fuzz_t *f)
{
    char            buf[IN];
    uint32_t        i, k;
    fuzz_job_t     *j;
    hymt_job_t      job;
    hymt_message_t  m;

    if (hymt_server_poll(f->server, &m) != HYMT_OK) {
        return;
    }

    must(m.lane < LANES && m.slot < SLOTS);
    j = &f->jobs[m.lane][m.slot];

    if (m.kind == HYMT_MESSAGE_CANCEL) {
        must(j->running && !j->told && m.data == j);
        j->told = true;
        return;
    }

    must(!j->running);

    if (hymt_server_job(f->server, &m, &job, buf, NULL) == HYMT_OK) {
        must(job.part[0] == buf && job.n_stop <= HYMT_JOB_STOPS);
        must((job.flags & ~(uint32_t) HYMT_JOB_FLAGS) == 0);

        for (i = 0; i < HYMT_N_PARTS; i++) {
            must(job.part[i] >= buf && job.part[i] <= buf + IN);
            must(job.part_len[i] <= buf + IN - job.part[i]);

            for (k = 0; k < job.part_len[i]; k++) {
                f->sum += (uint8_t) job.part[i][k];
            }
        }

        j->running = true;
        j->told = false;
        hymt_server_own(f->server, m.lane, m.slot, j);
    }
}


static void
server_answer(fuzz_t *f, uint32_t lane, uint32_t slot, bool done)
{
    char           *out;
    uint32_t        cap;
    hymt_result_t   r;

    if (!f->jobs[lane][slot].running) {
        return;
    }

    out = hymt_server_out(f->server, lane, slot, &cap);
    must(cap == OUT);
    memset(out, 'A' + (int) lane, cap);

    if (!done) {
        hymt_server_progress(f->server, lane, slot, OUT / 2);
        return;
    }

    memset(&r, 0, sizeof(r));
    r.text_len = OUT;
    hymt_server_done(f->server, lane, slot, &r);
    f->jobs[lane][slot].running = false;
}


static void
reopen(fuzz_t *f, uint8_t what)
{
    uint32_t  lane;

    if (what % 4 == 0) {
        hymt_server_close(f->server);
        open_server(f);
        return;
    }

    lane = f->lane_only ? 0 : what / 4 % LANES;
    hymt_client_close(f->client[lane]);
    open_client(f, lane);
}


static void
step(fuzz_t *f, uint8_t op)
{
    uint32_t          lane, slot;
    hymt_host_info_t  info;

    lane = op / 16 % LANES;
    slot = op / 32 % SLOTS;

    switch (op % 16) {

    case 0:
    case 1:
    case 2:
        client_submit(f, lane, next(f));
        break;

    case 3:
    case 4:
        client_poll(f, lane);
        break;

    case 5:
        hymt_client_cancel(f->client[lane], slot);
        break;

    case 6:
        (void) hymt_client_arm(f->client[lane]);
        break;

    case 7:
    case 8:
    case 9:
        server_poll(f);
        break;

    case 10:
        server_answer(f, lane, slot, false);
        break;

    case 11:
    case 12:
        server_answer(f, lane, slot, true);
        break;

    case 13:
        (void) hymt_server_arm(f->server);
        hymt_exchange_info(&f->ex, &info);
        must(info.state <= HYMT_HOST_STOPPED);
        must(strlen(info.reason) < HYMT_REASON_MAX);
        info.state = slot + 1;
        hymt_server_info(f->server, &info);
        break;

    case 14:
        if (op == 14) {
            reopen(f, next(f));
        }

        /* fall through */

    case 15:
        spoil(f);
        break;
    }

    must(hymt_exchange_in_flight(&f->ex) <= LANES * SLOTS);
}


/* The server's side of everything, as long as there is something to do. */
static void
settle(fuzz_t *f)
{
    uint32_t  i, lane, slot;

    for (i = 0; i < 64; i++) {
        server_poll(f);

        for (lane = 0; lane < LANES; lane++) {
            for (slot = 0; slot < SLOTS; slot++) {
                server_answer(f, lane, slot, true);
            }

            if (lane == 1 || !f->lane_only) {
                client_poll(f, lane);
            }
        }
    }
}


/* Lane 1, with lane 0 spoiled, has lost nothing and is served. */
static void
check_good_lane(fuzz_t *f)
{
    uint32_t         slot;
    hymt_job_t       job;
    hymt_event_t     e;
    hymt_message_t   m;

    settle(f);

    must(hymt_client_attached(f->client[1]));
    must(hymt_client_slots_free(f->client[1]) == SLOTS);

    memset(&job, 0, sizeof(job));
    must(hymt_client_submit(f->client[1], &job, f, &slot, NULL) == HYMT_OK);

    do {
        must(hymt_server_poll(f->server, &m) == HYMT_OK);
    } while (m.lane != 1);

    must(m.kind == HYMT_MESSAGE_JOB && m.slot == slot);

    f->jobs[1][slot].running = true;
    server_answer(f, 1, slot, true);

    must(hymt_client_poll(f->client[1], &e) == HYMT_OK);
    must(e.kind == HYMT_EVENT_DONE && e.slot == slot);
    hymt_client_slot_free(f->client[1], slot);
}


/* Between two pages that nobody may touch, against the end of the second. */
static void *
guarded(size_t size, void **map, size_t *map_size)
{
    char    *p;
    size_t   page, inner;

    page = (size_t) sysconf(_SC_PAGESIZE);
    inner = hymt_ceil_div(size, page) * page;
    *map_size = inner + 2 * page;

    p = mmap(NULL, *map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(p != MAP_FAILED);
    must(mprotect(p + page, inner, PROT_READ | PROT_WRITE) == 0);

    *map = p;

    return p + page + inner - size;
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int       i;
    void     *map;
    size_t    map_size;
    fuzz_t    fuzz, *f;

    f = &fuzz;
    memset(f, 0, sizeof(*f));

    f->data = data;
    f->size = size;
    f->lane_only = next(f) % 2 != 0;

    must(hymt_layout(&sizes, &f->layout));
    hymt_exchange_init(&f->ex, guarded(f->layout.size, &map, &map_size),
                       &sizes);

    f->host_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    for (i = 0; i < LANES; i++) {
        f->lane_fd[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        open_client(f, (uint32_t) i);
    }

    open_server(f);
    settle(f);

    while (f->at < f->size) {
        step(f, next(f));
    }

    if (f->lane_only) {
        check_good_lane(f);
    }

    settle(f);

    for (i = 0; i < LANES; i++) {
        hymt_client_close(f->client[i]);
        close(f->lane_fd[i]);
    }

    hymt_server_close(f->server);
    close(f->host_fd);
    munmap(map, map_size);

    return 0;
}


#ifdef HYMT_FUZZ_MAIN

int
main(int argc, char **argv)
{
    size_t    i;
    uint64_t  x;
    uint8_t   program[PROGRAM];
    unsigned  n, programs;

    programs = argc > 1 ? (unsigned) atoi(argv[1]) : 5000;
    x = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    x = x * 0x9e3779b97f4a7c15 + 1;

    for (n = 0; n < programs; n++) {
        for (i = 0; i < sizeof(program); i++) {
            /* xorshift64* (Vigna, 2014) */

            x ^= x >> 12;
            x ^= x << 25;
            x ^= x >> 27;
            program[i] = (uint8_t) ((x * 0x2545f4914f6cdd1d) >> 56);
        }

        (void) LLVMFuzzerTestOneInput(program, sizeof(program));
    }

    printf("exchange_fuzz: %u programs of %d bytes\n", programs, PROGRAM);

    return 0;
}

#endif
