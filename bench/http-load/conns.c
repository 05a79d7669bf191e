/*
 * conns.c - the connections of http-load: when requests begin, what is sent,
 * what comes back.  Kept alive, epoll, edge-triggered.
 */

#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>


#define LOAD_EVENTS     256
#define LOAD_LATE_NS    (120 * 1000000000ull)   /* an answer is given up */


static uint64_t load_arrivals(load_t *load, uint64_t now, uint64_t *next,
    uint64_t start);
static int load_take(load_t *load);
static void load_begin(load_t *load, uint32_t i, uint64_t due);
static uint32_t load_draw(load_t *load, const load_length_t *length);
static int load_connect(load_t *load, load_conn_t *c);
static void load_send(load_t *load, load_conn_t *c);
static void load_receive(load_t *load, load_conn_t *c);
static int load_complete(load_conn_t *c, int *status, char **body);
static void load_answer(load_t *load, load_conn_t *c, int status,
    const char *body);
static long load_member(const char *body, const char *name);
static void load_fail(load_t *load, load_conn_t *c, load_error_t error);
static void load_end(load_t *load, load_conn_t *c);
static void load_late(load_t *load, uint64_t now);


void
load_turn(load_t *load, uint64_t until, uint64_t *next, uint64_t start)
{
    int                 i, n;
    uint64_t            now, wake, late;
    struct timespec     ts;
    struct epoll_event  events[LOAD_EVENTS];

    late = hymt_now_ns();

    for ( ;; ) {
        now = hymt_now_ns();

        if (now >= until
            || (load->closing && load->n_idle == load->n_conns))
        {
            return;
        }

        wake = load_arrivals(load, now, next, start);
        wake = hymt_min(wake, until);
        now = hymt_now_ns();
        wake = wake > now ? wake - now : 0;

        ts.tv_sec = (time_t) (wake / 1000000000);
        ts.tv_nsec = (long) (wake % 1000000000);

        n = epoll_pwait2(load->epoll, events, LOAD_EVENTS, &ts, NULL);

        for (i = 0; i < n; i++) {
            if (events[i].events & EPOLLOUT) {
                load_send(load, &load->conns[events[i].data.u32]);
            }

            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
                load_receive(load, &load->conns[events[i].data.u32]);
            }
        }

        if (now - late > 1000000000) {
            late = now;
            load_late(load, now);
        }
    }
}


void
load_drain(load_t *load, uint64_t until)
{
    uint64_t  next;

    next = until;
    load->closing = true;

    load_turn(load, until, &next, 0);

    load->closing = false;
}


/* Sends what is due; when something will be next. */
static uint64_t
load_arrivals(load_t *load, uint64_t now, uint64_t *next, uint64_t start)
{
    int       i;
    uint32_t  n;
    uint64_t  at;

    if (load->closing) {
        return UINT64_MAX;
    }

    if (load->rate > 0) {

        while (*next <= now) {
            i = load_take(load);

            if (i == -1) {
                load_fail(load, NULL, LOAD_E_CONNECT);

            } else {
                load_begin(load, (uint32_t) i, *next);
            }

            *next += (uint64_t) (-log(1 - exact_uniform(&load->random))
                                 / load->rate * 1e9);
        }

        return *next;
    }

    /* clients begin spread over the warm-up's first half */

    while (load->n_conns < load->clients) {
        at = start + load_s(load->warm / 2 * load->n_conns / load->clients);

        if (at > now) {
            return at;
        }

        i = load_take(load);

        if (i == -1) {
            load_fail(load, NULL, LOAD_E_CONNECT);
            return now + 10000000;
        }

        load_begin(load, (uint32_t) i, now);
    }

    /* those that have their answer; one that fails at once waits a turn */

    for (n = load->n_idle; n > 0; n--) {
        load_begin(load, load->idle[--load->n_idle], hymt_now_ns());
    }

    return UINT64_MAX;
}


/*
 * An idle connection, or a new one; -1: there can be no more.  For the floor
 * any of them: a loop's clients are spread over all workers, too.
 */
static int
load_take(load_t *load)
{
    uint32_t      i, n, taken;
    load_conn_t  *c;

    if (load->n_idle > 0) {
        n = --load->n_idle;
        i = load->floor
            ? (uint32_t) (exact_uniform(&load->random) * (n + 1)) : n;

        taken = load->idle[i];
        load->idle[i] = load->idle[n];

        return (int) taken;
    }

    if (load->n_conns == LOAD_CONNS) {
        return -1;
    }

    c = &load->conns[load->n_conns];
    c->fd = -1;
    c->out = malloc(LOAD_OUT);
    c->in = malloc(LOAD_IN);

    if (c->out == NULL || c->in == NULL) {
        return -1;
    }

    return (int) load->n_conns++;
}


static void
load_begin(load_t *load, uint32_t i, uint64_t due)
{
    int           n;
    char          body[LOAD_OUT];
    load_conn_t  *c;

    c = &load->conns[i];
    c->busy = true;
    c->begin = due;
    c->first = 0;
    c->in_len = 0;
    c->out_sent = 0;
    c->tokens_in = hymt_max(load_draw(load, &load->in),
                            load->text.frame + 1);
    c->tokens_out = load_draw(load, &load->out);

    (void) exact_text_make(&load->text, &load->random, c->tokens_in,
                           load->scratch, LOAD_OUT / 2);

    n = snprintf(body, sizeof(body), "{\"text\":\"%s\",\"src_lang\":\"%s\","
                 "\"tgt_lang\":\"%s\",\"split\":\"none\",\"max_tokens\":%"
                 PRIu32 "%s%s%s}", load->scratch, EXACT_SOURCE, EXACT_TARGET,
                 c->tokens_out, load->stream ? ",\"stream\":true" : "",
                 load->more != NULL ? "," : "",
                 load->more != NULL ? load->more : "");

    n = snprintf(c->out, LOAD_OUT, "POST %s HTTP/1.1\r\nHost: %s\r\n"
                 "Content-Type: application/json\r\nContent-Length: %d\r\n"
                 "\r\n%s", load->floor ? load->floor_uri : load->uri,
                 load->host, n, body);

    c->out_len = (size_t) hymt_min(n, LOAD_OUT - 1);

    if (c->fd == -1 && load_connect(load, c) != 0) {
        load_fail(load, c, LOAD_E_CONNECT);
        return;
    }

    load_send(load, c);
}


static uint32_t
load_draw(load_t *load, const load_length_t *length)
{
    double  u, x;

    u = exact_uniform(&load->random);

    if (length->range) {
        x = length->low * pow((double) length->high / length->low, u);

    } else {
        x = length->low * (1 + load->jitter * (2 * u - 1));
    }

    return (uint32_t) hymt_max(1, lrint(x));
}


static int
load_connect(load_t *load, load_conn_t *c)
{
    int                 one;
    struct epoll_event  event;

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd == -1) {
        return -1;
    }

    one = 1;
    (void) setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));

    event.events = EPOLLIN | EPOLLOUT | EPOLLET;
    event.data.u32 = (uint32_t) (c - load->conns);
    c->fresh = true;

    if (connect(c->fd, (struct sockaddr *) &load->addr, sizeof(load->addr))
        == -1 && errno != EINPROGRESS)
    {
        return -1;
    }

    return epoll_ctl(load->epoll, EPOLL_CTL_ADD, c->fd, &event);
}


/* What the socket does not take yet it asks for by an event. */
static void
load_send(load_t *load, load_conn_t *c)
{
    ssize_t  n;

    while (c->busy && c->out_sent < c->out_len) {
        n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, 0);

        if (n > 0) {
            c->out_sent += (size_t) n;
            continue;
        }

        if (n == -1 && errno != EAGAIN && errno != ENOTCONN) {
            load_fail(load, c, c->fresh ? LOAD_E_CONNECT : LOAD_E_CLOSED);
        }

        return;
    }
}


static void
load_receive(load_t *load, load_conn_t *c)
{
    int       status;
    char     *body;
    ssize_t   n;

    while (c->fd != -1) {
        n = recv(c->fd, c->in + c->in_len, LOAD_IN - 1 - c->in_len, 0);

        if (n == -1 && errno == EAGAIN) {
            return;
        }

        if (n <= 0) {
            load_fail(load, c, c->fresh ? LOAD_E_CONNECT
                               : c->busy ? LOAD_E_CLOSED : LOAD_ERRORS);
            return;
        }

        c->fresh = false;
        c->in_len += (size_t) n;
        c->in[c->in_len] = '\0';

        if (c->first == 0 && load->stream
            && strstr(c->in, "data: {\"delta\"") != NULL)
        {
            c->first = hymt_now_ns();
        }

        switch (load_complete(c, &status, &body)) {

        case 1:
            load_answer(load, c, status, body);
            break;

        case -1:
            load_fail(load, c, LOAD_E_FORM);
            return;
        }
    }
}


/* Whether the answer is whole: 1, 0: not yet, -1: it can't be read. */
static int
load_complete(load_conn_t *c, int *status, char **body)
{
    char    *end, *p;
    size_t   head;

    end = strstr(c->in, "\r\n\r\n");

    if (end == NULL) {
        return c->in_len == LOAD_IN - 1 ? -1 : 0;
    }

    if (!c->busy || sscanf(c->in, "HTTP/1.1 %d", status) != 1) {
        return -1;
    }

    *body = end + 4;
    head = (size_t) (*body - c->in);
    *end = '\0';
    p = strcasestr(c->in, "\r\nContent-Length:");
    *end = '\r';

    if (p != NULL) {
        return c->in_len >= head + strtoul(p + 17, NULL, 10);
    }

    /* chunked: the last chunk is empty */

    return c->in_len >= head + 5
           && memcmp(c->in + c->in_len - 5, "0\r\n\r\n", 5) == 0;
}


static void
load_answer(load_t *load, load_conn_t *c, int status, const char *body)
{
    uint64_t       now;
    load_stats_t  *s;

    now = hymt_now_ns();
    s = &load->stats;

    if (status != 200
        || (load->stream && !load->floor
            && strstr(body, "\"done\":true") == NULL))
    {
        snprintf(load->sample, sizeof(load->sample), "%s", body);

        load_fail(load, c, status == 429 ? LOAD_E_STATUS_429
                           : status >= 500 ? LOAD_E_STATUS_5XX
                           : status != 200 ? LOAD_E_STATUS_4XX
                           : LOAD_E_EVENT);
        return;
    }

    if (now >= load->from && now < load->to) {
        s->done++;

        if (load->floor) {
            load_end(load, c);
            return;
        }

        s->tokens_in += c->tokens_in;
        s->tokens_out += c->tokens_out;
        s->errors[LOAD_E_IN] += load_member(body, "\"prompt_tokens\":")
                                != (long) c->tokens_in;
        s->errors[LOAD_E_OUT] += load_member(body, "\"completion_tokens\":")
                                 != (long) c->tokens_out;

        hdr_add(&s->latency, (now - c->begin) / 1000);

        if (c->first != 0) {
            hdr_add(&s->first, (c->first - c->begin) / 1000);
        }
    }

    load_end(load, c);
}


static long
load_member(const char *body, const char *name)
{
    const char  *p;

    p = strstr(body, name);

    return p != NULL ? atol(p + strlen(name)) : -1;
}


/* LOAD_ERRORS: none, an idle connection was closed. */
static void
load_fail(load_t *load, load_conn_t *c, load_error_t error)
{
    uint64_t  now;

    now = hymt_now_ns();

    if (error < LOAD_ERRORS && now >= load->from && now < load->to) {
        load->stats.errors[error]++;
    }

    if (c == NULL) {
        return;
    }

    if (error < LOAD_E_STATUS_4XX || error > LOAD_E_EVENT) {
        close(c->fd);
        c->fd = -1;
    }

    if (c->busy) {
        load_end(load, c);
    }
}


/* A closed loop's client goes on with the turn's next look at arrivals. */
static void
load_end(load_t *load, load_conn_t *c)
{
    c->busy = false;
    c->in_len = 0;
    load->idle[load->n_idle++] = (uint32_t) (c - load->conns);
}


static void
load_late(load_t *load, uint64_t now)
{
    uint32_t  i;

    for (i = 0; i < load->n_conns; i++) {
        if (load->conns[i].busy && now > load->conns[i].begin + LOAD_LATE_NS) {
            load_fail(load, &load->conns[i], LOAD_E_LATE);
        }
    }
}
