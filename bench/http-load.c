/*
 * http-load.c - load for a translation location of NGINX, and what it did.
 *
 * Closed loop (N clients, each sends again when it has its answer) or open
 * (requests arrive as a Poisson process, whatever the server does; latency
 * then counts from the arrival, so that waiting for a connection shows).
 * Connections are kept alive; one thread and epoll.  Prompts have exact
 * numbers of tokens, outputs too where the model has "ignore_eos on"; both are
 * checked in every answer.
 *
 * Meanwhile other threads ask for a static location, and hymt_status and /proc
 * tell what the engine and the workers' threads did.
 */

#include "exact_text.h"
#include "hdr.h"
#include "worker_cpu.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>


#define LOAD_CONNS      8192
#define LOAD_OUT        16384          /* a request */
#define LOAD_IN         262144         /* an answer */
#define LOAD_EVENTS     256
#define LOAD_PROBES     4
#define LOAD_MAX_PROBE  64
#define LOAD_LATE_NS    (120 * 1000000000ull)   /* an answer is given up */

#define load_s(x)       ((uint64_t) ((x) * 1e9))


typedef enum {
    LOAD_E_CONNECT = 0,
    LOAD_E_CLOSED,         /* in the middle of an answer */
    LOAD_E_LATE,
    LOAD_E_FORM,           /* an answer that can't be read */
    LOAD_E_STATUS_4XX,
    LOAD_E_STATUS_429,
    LOAD_E_STATUS_5XX,
    LOAD_E_EVENT,          /* a stream without its end */
    LOAD_E_IN,             /* not the tokens that were meant */
    LOAD_E_OUT,
    LOAD_ERRORS
} load_error_t;


static const char  *load_error_names[LOAD_ERRORS] = {
    "connect", "closed", "late", "malformed", "4xx", "429", "5xx",
    "stream without end", "other tokens in", "other tokens out",
};


/* A number of tokens: mean with jitter, or a range drawn by its logarithm. */
typedef struct {
    uint32_t  low;
    uint32_t  high;
    bool      range;
} load_length_t;


typedef struct {
    int        fd;
    bool       busy;
    bool       fresh;                  /* nothing came over it yet */
    uint64_t   begin;                  /* of its request, by the clock */
    uint64_t   first;                  /* text came; 0: not yet */
    uint32_t   tokens_in;
    uint32_t   tokens_out;
    size_t     out_len;
    size_t     out_sent;
    size_t     in_len;
    char      *out;                    /* [LOAD_OUT] */
    char      *in;                     /* [LOAD_IN] */
} load_conn_t;


/* What is counted between the two ends of the measurement. */
typedef struct {
    uint64_t  done;
    uint64_t  tokens_in;
    uint64_t  tokens_out;
    uint64_t  errors[LOAD_ERRORS];
    hdr_t     latency;                 /* us */
    hdr_t     first;
} load_stats_t;


typedef struct {
    bool      valid;
    long      pid;
    double    step_seconds;
    double    steps;
    double    output_tokens;
    double    prompt_tokens;
} load_status_t;


typedef struct {
    pthread_t       tid;
    struct load_s  *load;
    uint64_t        random;
    uint64_t        failed;
    hdr_t           before;
    hdr_t           during;
} load_probe_t;


typedef struct load_s {
    struct sockaddr_in  addr;
    const char         *host;          /* as given, for the Host header */
    const char         *model;
    const char         *uri;
    const char         *status_uri;
    const char         *static_uri;
    const char         *more;          /* JSON members */
    const char         *row;
    load_length_t       in;
    load_length_t       out;
    uint32_t            clients;
    double              rate;
    double              jitter;
    double              seconds;
    double              warm;
    double              probe_rate;
    uint64_t            seed;
    uint64_t            random;
    bool                stream;
    bool                verbose;

    exact_text_t        text;
    int                 epoll;
    uint32_t            n_conns;
    uint32_t            n_idle;
    uint32_t           *idle;          /* [LOAD_CONNS] */
    load_conn_t        *conns;         /* [LOAD_CONNS] */
    char               *scratch;       /* [LOAD_OUT] */

    uint64_t            from;          /* measured between these */
    uint64_t            to;
    load_stats_t        stats;
    char                sample[512];   /* an answer that was an error */

    _Atomic int         phase;         /* of the probes */
    load_probe_t       *probes;
} load_t;


enum { PHASE_IDLE = 0, PHASE_WARM, PHASE_LOADED, PHASE_END };


static int load_arguments(load_t *load, int argc, char **argv);
static int load_address(load_t *load, char *text);
static int load_length(const char *text, load_length_t *length);
static int load_run(load_t *load);
static void load_turn(load_t *load, uint64_t until, uint64_t *next,
    uint64_t start);
static uint64_t load_arrivals(load_t *load, uint64_t now, uint64_t *next,
    uint64_t start);
static int load_take(load_t *load);
static void load_begin(load_t *load, uint32_t i, uint64_t due);
static uint32_t load_draw(load_t *load, const load_length_t *length);
static int load_connect(load_t *load, load_conn_t *c);
static void load_send(load_t *load, load_conn_t *c);
static void load_receive(load_t *load, load_conn_t *c);
static int load_complete(load_t *load, load_conn_t *c, int *status,
    char **body);
static void load_answer(load_t *load, load_conn_t *c, int status,
    const char *body);
static long load_member(const char *body, const char *name);
static void load_fail(load_t *load, load_conn_t *c, load_error_t error);
static void load_end(load_t *load, load_conn_t *c);
static void load_late(load_t *load, uint64_t now);

static void load_probes_start(load_t *load);
static void *load_probe(void *data);
static int load_probe_once(load_t *load, int *fd, const char *request);

static void load_status(load_t *load, load_status_t *status);
static char *load_get(load_t *load, const char *uri);
static double load_cpu(void);
static void load_report(load_t *load, const load_status_t *a,
    const load_status_t *b, worker_cpu_t *cpu, double client);
static double load_probe_us(const worker_cpu_t *cpu, const hdr_t *before);


static const char  load_help[] =
"Usage: http-load [OPTION VALUE ...] [--stream] [--header] HOST:PORT\n"
"\n"
"Sends translation requests to NGINX and reports what came of them.\n"
"\n"
"  --model DIR      whose tokenizer and prompts make the texts (models/demo)\n"
"  --uri URI        of the translation location (/translate)\n"
"  --clients N      closed loop with N clients (1), begun over --warm seconds\n"
"  --rate R         instead: R requests a second, Poisson\n"
"  --in N, --out N  tokens of a prompt in all, of an output (60, 40), each\n"
"                   jittered evenly by --jitter (0.5); or A-B: a range, drawn\n"
"                   evenly by its logarithm\n"
"  --seconds S      measured (5), after --warm W (1)\n"
"  --seed N         of arrivals, lengths and texts (1)\n"
"  --stream         ask for events; first token as the client sees it\n"
"  --more JSON      members for each request: '\"temperature\":0.7'\n"
"  --status URI     hymt_status, for engine and CPU figures\n"
"  --static URI     a location to ask meanwhile: --static-rate R a second\n"
"                   (400), for a second before the load as well\n"
"  --row NAME       one line of a table instead of the report\n"
"  --header         that table's head, and nothing else\n"
"\n"
"Exit status 1 where anything but the wanted answers came.\n";


static const char  load_head[] =
"| 60/40 unless said | sentences/s | P50 ms | P95 ms | P99 ms | first token P50"
" / P95 ms | engine busy | CPU us a request: event loop, text, engine |"
" static p99 us: idle, loaded | errors |\n"
"|---|---|---|---|---|---|---|---|---|---|\n";


int
main(int argc, char **argv)
{
    int             rc;
    load_t         *load;
    hymt_error_t    err;

    load = calloc(1, sizeof(load_t));
    if (load == NULL) {
        return 1;
    }

    rc = load_arguments(load, argc, argv);
    if (rc != 0) {
        fputs(rc == 3 ? load_head : load_help, rc == 2 ? stderr : stdout);
        return rc == 2 ? 2 : 0;
    }

    (void) signal(SIGPIPE, SIG_IGN);

    if (exact_text_open(&load->text, load->model, &err) != HYMT_OK) {
        fprintf(stderr, "http-load: %s\n", err.text);
        return 1;
    }

    load->conns = calloc(LOAD_CONNS, sizeof(load_conn_t));
    load->idle = calloc(LOAD_CONNS, sizeof(uint32_t));
    load->scratch = malloc(LOAD_OUT);
    load->probes = calloc(LOAD_PROBES, sizeof(load_probe_t));
    load->epoll = epoll_create1(0);

    if (load->conns == NULL || load->idle == NULL || load->scratch == NULL
        || load->probes == NULL || load->epoll == -1)
    {
        fprintf(stderr, "http-load: no memory\n");
        return 1;
    }

    return load_run(load);
}


/* 0; 1: help, 3: the table's head is asked for; 2: they are wrong. */
static int
load_arguments(load_t *load, int argc, char **argv)
{
    int     i;
    char   *value;
    size_t  k;

    load->model = "models/demo";
    load->uri = "/translate";
    load->clients = 1;
    load->jitter = 0.5;
    load->seconds = 5;
    load->warm = 1;
    load->probe_rate = 400;
    load->in.low = 60;
    load->out.low = 40;

    double  clients = 1, seed = 1;

    const struct {
        const char   *name;
        const char  **text;
        double       *number;
    }  options[] = {
        { "--model", &load->model, NULL }, { "--uri", &load->uri, NULL },
        { "--more", &load->more, NULL }, { "--row", &load->row, NULL },
        { "--status", &load->status_uri, NULL },
        { "--static", &load->static_uri, NULL },
        { "--clients", NULL, &clients }, { "--rate", NULL, &load->rate },
        { "--jitter", NULL, &load->jitter }, { "--seed", NULL, &seed },
        { "--seconds", NULL, &load->seconds },
        { "--warm", NULL, &load->warm },
        { "--static-rate", NULL, &load->probe_rate },
    };

    for (i = 1; i < argc; i++) {

        if (strcmp(argv[i], "--help") == 0) {
            return 1;
        }

        if (strcmp(argv[i], "--header") == 0) {
            return 3;
        }

        if (strcmp(argv[i], "--stream") == 0) {
            load->stream = true;
            continue;
        }

        if (i == argc - 1) {
            break;
        }

        value = argv[i + 1];

        if (strcmp(argv[i], "--in") == 0 || strcmp(argv[i], "--out") == 0) {
            if (load_length(value, argv[i][2] == 'i' ? &load->in : &load->out)
                != 0)
            {
                return 2;
            }

            i++;
            continue;
        }

        for (k = 0; k < hymt_nelts(options); k++) {
            if (strcmp(argv[i], options[k].name) == 0) {
                break;
            }
        }

        if (k == hymt_nelts(options)) {
            return 2;
        }

        if (options[k].text != NULL) {
            *options[k].text = value;

        } else {
            *options[k].number = strtod(value, &value);

            if (*value != '\0' || !(*options[k].number >= 0)) {
                return 2;
            }
        }

        i++;
    }

    if (i != argc - 1 || load_address(load, argv[i]) != 0 || clients < 1
        || clients > LOAD_CONNS || load->jitter > 1 || load->seconds <= 0)
    {
        return 2;
    }

    load->clients = (uint32_t) clients;
    load->seed = (uint64_t) seed;
    load->random = load->seed * 0x9e3779b97f4a7c15ull + 1;

    return 0;
}


static int
load_address(load_t *load, char *text)
{
    int    port;
    char  *colon, host[64];

    load->host = text;
    colon = strrchr(text, ':');
    port = colon != NULL ? atoi(colon + 1) : 0;

    if (port <= 0 || port > 65535 || colon - text >= (long) sizeof(host)) {
        return 1;
    }

    snprintf(host, sizeof(host), "%.*s", (int) (colon - text), text);

    load->addr.sin_family = AF_INET;
    load->addr.sin_port = htons((uint16_t) port);

    return inet_pton(AF_INET, host, &load->addr.sin_addr) == 1 ? 0 : 1;
}


static int
load_length(const char *text, load_length_t *length)
{
    char           *end;
    unsigned long   low, high;

    low = strtoul(text, &end, 10);
    high = low;
    length->range = *end == '-';

    if (length->range) {
        high = strtoul(end + 1, &end, 10);
    }

    if (*end != '\0' || low == 0 || low > high || high > EXACT_TOKENS) {
        return 1;
    }

    length->low = (uint32_t) low;
    length->high = (uint32_t) high;

    return 0;
}


static int
load_run(load_t *load)
{
    double         client;
    uint32_t       i;
    uint64_t       start, next, bad;
    load_status_t  a, b;
    worker_cpu_t   cpu[4];             /* the load lies between the last two */

    memset(cpu, 0, sizeof(cpu));
    load_status(load, &a);

    if (load->status_uri != NULL && !a.valid) {
        fprintf(stderr, "http-load: no status at %s\n", load->status_uri);
        return 1;
    }

    if (load->static_uri != NULL) {
        worker_cpu_read(a.pid, &cpu[0]);
        load_probes_start(load);
        usleep(1000000);
        atomic_store(&load->phase, PHASE_WARM);
        worker_cpu_read(a.pid, &cpu[1]);
    }

    start = hymt_now_ns();
    load->from = start + load_s(load->warm);
    load->to = load->from + load_s(load->seconds);
    next = start;

    load_turn(load, load->from, &next, start);

    load_status(load, &a);
    worker_cpu_read(a.pid, &cpu[2]);
    client = load_cpu();
    atomic_store(&load->phase, PHASE_LOADED);

    /* the time that the two readings take is in neither count */

    load->from = hymt_now_ns();
    load->to = load->from + load_s(load->seconds);

    load_turn(load, load->to, &next, start);

    atomic_store(&load->phase, PHASE_END);
    client = load_cpu() - client;
    worker_cpu_read(a.pid, &cpu[3]);
    load_status(load, &b);

    for (i = 0; load->static_uri != NULL && i < LOAD_PROBES; i++) {
        pthread_join(load->probes[i].tid, NULL);
    }

    load->seconds = (double) (load->to - load->from) / 1e9;
    load_report(load, &a, &b, cpu, client);

    for (i = 0, bad = 0; i < LOAD_ERRORS; i++) {
        bad += load->stats.errors[i];
    }

    if (bad > 0 && load->sample[0] != '\0') {
        fprintf(stderr, "http-load: for example: %s\n", load->sample);
    }

    return bad > 0 || load->stats.done == 0;
}


static void
load_turn(load_t *load, uint64_t until, uint64_t *next, uint64_t start)
{
    int                 i, n;
    uint64_t            now, wake, late;
    struct timespec     ts;
    struct epoll_event  events[LOAD_EVENTS];

    late = hymt_now_ns();

    for ( ;; ) {
        now = hymt_now_ns();

        if (now >= until) {
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


/* Sends what is due; when something will be next. */
static uint64_t
load_arrivals(load_t *load, uint64_t now, uint64_t *next, uint64_t start)
{
    int       i;
    uint32_t  n;
    uint64_t  at;

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


/* An idle connection, or a new one; -1: there can be no more. */
static int
load_take(load_t *load)
{
    load_conn_t  *c;

    if (load->n_idle > 0) {
        return (int) load->idle[--load->n_idle];
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
                 "\r\n%s", load->uri, load->host, n, body);

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

        switch (load_complete(load, c, &status, &body)) {

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
load_complete(load_t *load, load_conn_t *c, int *status, char **body)
{
    char    *end, *p;
    size_t   head;

    (void) load;

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
        || (load->stream && strstr(body, "\"done\":true") == NULL))
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


static void
load_probes_start(load_t *load)
{
    uint32_t  i;

    for (i = 0; i < LOAD_PROBES; i++) {
        load->probes[i].load = load;
        load->probes[i].random = load->seed * 1000003 + i + 1;

        if (pthread_create(&load->probes[i].tid, NULL, load_probe,
                           &load->probes[i])
            != 0)
        {
            fprintf(stderr, "http-load: no thread for the static location\n");
            exit(1);
        }
    }
}


/* Poisson arrivals over one connection; time counts from the arrival. */
static void *
load_probe(void *data)
{
    load_probe_t *probe = data;

    int              fd, phase;
    char             request[512];
    uint64_t         next, now;
    struct timespec  ts;

    fd = -1;
    next = hymt_now_ns();

    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n",
             probe->load->static_uri, probe->load->host);

    while ((phase = atomic_load(&probe->load->phase)) != PHASE_END) {
        next += (uint64_t) (-log(1 - exact_uniform(&probe->random))
                            * LOAD_PROBES / probe->load->probe_rate * 1e9);

        ts.tv_sec = (time_t) (next / 1000000000);
        ts.tv_nsec = (long) (next % 1000000000);
        (void) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);

        /* woken late is the client's fault, a slow answer before is not */

        now = hymt_now_ns();

        if (load_probe_once(probe->load, &fd, request) != 0) {
            probe->failed++;
            continue;
        }

        now = hymt_now_ns() - now;

        if (phase == PHASE_IDLE) {
            hdr_add(&probe->before, now / 1000);

        } else if (phase == PHASE_LOADED) {
            hdr_add(&probe->during, now / 1000);
        }
    }

    close(fd);

    return NULL;
}


static int
load_probe_once(load_t *load, int *fd, const char *request)
{
    int      one;
    char     answer[4096];
    ssize_t  n;

    if (*fd == -1) {
        one = 1;
        *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (connect(*fd, (struct sockaddr *) &load->addr, sizeof(load->addr))
            == -1)
        {
            close(*fd);
            *fd = -1;
            return -1;
        }

        (void) setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }

    n = send(*fd, request, strlen(request), 0);

    if (n > 0) {
        n = recv(*fd, answer, sizeof(answer) - 1, 0);
    }

    if (n <= 0 || strncmp(answer, "HTTP/1.1 200", 12) != 0) {
        close(*fd);
        *fd = -1;
        return -1;
    }

    return 0;
}


static void
load_status(load_t *load, load_status_t *status)
{
    char    *text;
    json_t  *root, *worker, *model, *work;

    memset(status, 0, sizeof(*status));

    text = load->status_uri != NULL ? load_get(load, load->status_uri) : NULL;

    if (text == NULL) {
        return;
    }

    root = json_loads(text, 0, NULL);
    worker = json_object_get(root, "engine_worker");
    model = json_array_get(json_object_get(root, "models"), 0);
    work = json_object_get(model, "work");

#define load_number(o, name)  json_number_value(json_object_get(o, name))

    status->valid = work != NULL;
    status->pid = (long) load_number(worker, "pid");
    status->step_seconds = load_number(work, "step_seconds");
    status->steps = load_number(work, "steps");
    status->prompt_tokens = load_number(work, "prompt_tokens");
    status->output_tokens = load_number(work, "output_tokens");

#undef load_number

    json_decref(root);
    free(text);
}


/* A body of up to 1 MB, owned by the caller, or NULL. */
static char *
load_get(load_t *load, const char *uri)
{
    int      fd;
    char    *in, *body, request[512];
    size_t   len;
    ssize_t  n;

    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    in = malloc(1 << 20);
    body = NULL;

    snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n",
             uri, load->host);

    if (in != NULL
        && connect(fd, (struct sockaddr *) &load->addr, sizeof(load->addr))
           == 0
        && send(fd, request, strlen(request), 0) > 0)
    {
        for (len = 0; len < (1 << 20) - 1; len += (size_t) n) {
            n = recv(fd, in + len, (1 << 20) - 1 - len, 0);

            if (n <= 0) {
                break;
            }
        }

        in[len] = '\0';
        body = strstr(in, "\r\n\r\n");
        body = body != NULL ? strdup(body + 4) : NULL;
    }

    close(fd);
    free(in);

    return body;
}


/* Seconds of CPU time that this program has taken. */
static double
load_cpu(void)
{
    struct rusage  u;

    (void) getrusage(RUSAGE_SELF, &u);

    return (double) (u.ru_utime.tv_sec + u.ru_stime.tv_sec)
           + (double) (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}


static void
load_report(load_t *load, const load_status_t *a, const load_status_t *b,
    worker_cpu_t *cpu, double client)
{
    double          done, busy, us[CPU_KINDS], first[3];
    uint32_t        i;
    uint64_t        errors, failed;
    load_stats_t   *s;
    static hdr_t    before, during;

    s = &load->stats;
    done = (double) hymt_max(s->done, 1);
    busy = 100 * (b->step_seconds - a->step_seconds) / load->seconds;

    for (i = 0; i < CPU_KINDS; i++) {
        us[i] = (double) (cpu[3].ns[i] - cpu[2].ns[i]) / 1e3 / done;
    }

    for (i = 0, failed = 0; i < LOAD_PROBES; i++) {
        hdr_merge(&before, &load->probes[i].before);
        hdr_merge(&during, &load->probes[i].during);
        failed += load->probes[i].failed;
    }

    us[CPU_LOOP] -= load_probe_us(cpu, &before) * (double) during.n / done;

    for (i = 0, errors = failed; i < LOAD_ERRORS; i++) {
        errors += s->errors[i];
    }

#define load_ms(h, p)  (hdr_percentile(h, p) / 1e3)

    first[0] = load_ms(&s->first, 50);
    first[1] = load_ms(&s->first, 95);
    first[2] = load_ms(&s->first, 99);

    if (load->row != NULL) {
        printf("| %s | %.1f | %.1f | %.1f | %.1f |", load->row,
               (double) s->done / load->seconds, load_ms(&s->latency, 50),
               load_ms(&s->latency, 95), load_ms(&s->latency, 99));

        if (load->stream) {
            printf(" %.1f / %.1f |", first[0], first[1]);

        } else {
            printf(" |");
        }

        printf(" %.0f %% | %.0f, %.0f, %.0f |", busy, us[CPU_LOOP],
               us[CPU_TEXT], us[CPU_ENGINE]);

        if (load->static_uri != NULL) {
            printf(" %.0f, %.0f |", hdr_percentile(&before, 99),
                   hdr_percentile(&during, 99));

        } else {
            printf(" |");
        }

        printf(" %" PRIu64 " |\n", errors);

    } else {
        printf("seed %" PRIu64 ", prompts with a frame of %" PRIu32 " tokens,"
               " %.1f s\n", load->seed, load->text.frame, load->seconds);
        printf("answers       %" PRIu64 ", %.1f a second; tokens a second %.0f"
               " in, %.0f out\n", s->done, (double) s->done / load->seconds,
               (double) s->tokens_in / load->seconds,
               (double) s->tokens_out / load->seconds);
        printf("latency ms    P50 %.2f  P95 %.2f  P99 %.2f  max %.2f\n",
               load_ms(&s->latency, 50), load_ms(&s->latency, 95),
               load_ms(&s->latency, 99), (double) s->latency.max / 1e3);

        if (load->stream) {
            printf("first token   P50 %.2f  P95 %.2f  P99 %.2f\n", first[0],
                   first[1], first[2]);
        }
    }

    if (load->row == NULL && b->valid) {
        printf("engine        busy %.1f %%; %.0f steps of %.3f ms, %.1f output"
               " and %.1f prompt tokens each\n", busy, b->steps - a->steps,
               1e3 * (b->step_seconds - a->step_seconds)
               / hymt_max(b->steps - a->steps, 1),
               (b->output_tokens - a->output_tokens)
               / hymt_max(b->steps - a->steps, 1),
               (b->prompt_tokens - a->prompt_tokens)
               / hymt_max(b->steps - a->steps, 1));
        printf("CPU us each   event loop %.1f, thread pools %.1f, text %.1f,"
               " engine %.1f, others %.1f; this client %.1f (%.0f %% of a"
               " core)\n", us[CPU_LOOP], us[CPU_POOL], us[CPU_TEXT],
               us[CPU_ENGINE], us[CPU_OTHER], client * 1e6 / done,
               100 * client / load->seconds);
        printf("memory MB     %.1f before, %.1f after, in %" PRIu32
               " workers\n", (double) cpu[2].rss / 1e6,
               (double) cpu[3].rss / 1e6, cpu[3].workers);
    }

    if (load->row == NULL && load->static_uri != NULL) {
        printf("static us     idle P50 %.0f P99 %.0f; loaded P50 %.0f P99"
               " %.0f; %" PRIu64 " failed\n", hdr_percentile(&before, 50),
               hdr_percentile(&before, 99), hdr_percentile(&during, 50),
               hdr_percentile(&during, 99), failed);
    }

    for (i = 0; i < LOAD_ERRORS; i++) {
        if (s->errors[i] > 0) {
            fprintf(load->row != NULL ? stderr : stdout, "errors        %s:"
                    " %" PRIu64 "\n", load_error_names[i], s->errors[i]);
        }
    }

#undef load_ms
}


/*
 * What the event loops took for a request of the static location while there
 * was nothing else: it is not the translations'.
 */
static double
load_probe_us(const worker_cpu_t *cpu, const hdr_t *before)
{
    if (before->n == 0) {
        return 0;
    }

    return (double) (cpu[1].ns[CPU_LOOP] - cpu[0].ns[CPU_LOOP]) / 1e3
           / (double) before->n;
}
