/*
 * main.c - http-load: load for a translation location of NGINX, and what came
 * of it.
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

#include "load.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>


#define LOAD_DRAIN  10     /* s for the last answers */


static int load_arguments(load_t *load, int argc, char **argv);
static int load_address(load_t *load, char *text);
static int load_length(const char *text, load_length_t *length);
static int load_run(load_t *load);
static double load_floor(load_t *load, long pid);
static double load_cpu(void);
static void load_idle_again(load_t *load);
static void load_report(load_t *load, const load_status_t *a,
    const load_status_t *b, worker_cpu_t *cpu, double client,
    uint64_t n_before, double floor_us);
static double load_probe_us(const worker_cpu_t *cpu, const hdr_t *before);


static const char  *load_error_names[LOAD_ERRORS] = {
    "connect", "closed", "late", "malformed", "4xx", "429", "5xx",
    "stream without end", "other tokens in", "other tokens out",
};


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
"  --static URI     a location to ask for before the load, meanwhile and\n"
"                   after it, --static-rate R times a second (400): idle for\n"
"                   twice --static-seconds S (1), loaded for half the time of\n"
"                   the load, made longer where that is less than those two;\n"
"                   CPU time is then counted in the other half\n"
"  --floor URI      a location with \"return 200\": after the load requests\n"
"                   go there for --floor-seconds S (1), as many a second as\n"
"                   were answered, Poisson; what the event loops take for one\n"
"                   is what NGINX, the kernel and waking up take at least\n"
"  --row NAME       one line of a table instead of the report\n"
"  --header         that table's head, and nothing else\n"
"\n"
"Exit status 1 where anything but the wanted answers came.\n";


static const char  load_head[] =
"| 60/40 unless said | sentences/s | P50 ms | P95 ms | P99 ms | first token P50"
" / P95 ms | engine busy, ms a step, rows a step |"
" CPU us a request: event loop (its floor), text, engine |"
" static p99 us: idle (before, after), loaded; CPU us, idle | errors |\n"
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
    load->probe_seconds = 1;
    load->floor_seconds = 1;
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
        { "--floor", &load->floor_uri, NULL },
        { "--floor-seconds", NULL, &load->floor_seconds },
        { "--clients", NULL, &clients }, { "--rate", NULL, &load->rate },
        { "--jitter", NULL, &load->jitter }, { "--seed", NULL, &seed },
        { "--seconds", NULL, &load->seconds },
        { "--warm", NULL, &load->warm },
        { "--static-rate", NULL, &load->probe_rate },
        { "--static-seconds", NULL, &load->probe_seconds },
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
    double         client, floor_us;
    uint32_t       i;
    uint64_t       start, next, half, probed, n_before, bad;
    load_status_t  a, b;
    worker_cpu_t   cpu[4];             /* idle between the first two */

    memset(cpu, 0, sizeof(cpu));
    load_status(load, &a);

    if (load->status_uri != NULL && !a.valid) {
        fprintf(stderr, "http-load: no status at %s\n", load->status_uri);
        return 1;
    }

    if (load->static_uri != NULL) {
        worker_cpu_read(a.pid, &cpu[0]);
        load_probes_start(load);
        usleep((useconds_t) (load->probe_seconds * 1e6));
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

    n_before = 0;

    if (load->static_uri != NULL) {
        half = (load->to - load->from) / 2;
        probed = hymt_max(half, load_s(2 * load->probe_seconds));
        load->to += probed - half;

        load_turn(load, load->from + probed, &next, start);

        /* and the probes' last requests */

        atomic_store(&load->phase, PHASE_QUIET);
        load_turn(load, hymt_now_ns() + load_s(0.1), &next, start);

        worker_cpu_read(a.pid, &cpu[2]);
        client = load_cpu();
        n_before = load->stats.done;
    }

    load_turn(load, load->to, &next, start);

    client = load_cpu() - client;
    worker_cpu_read(a.pid, &cpu[3]);
    load_status(load, &b);

    if (load->static_uri != NULL) {
        load_idle_again(load);
    }

    load->seconds = (double) (load->to - load->from) / 1e9;
    floor_us = load->floor_uri != NULL ? load_floor(load, a.pid) : 0;

    load_report(load, &a, &b, cpu, client, n_before, floor_us);

    for (i = 0, bad = 0; i < LOAD_ERRORS; i++) {
        bad += load->stats.errors[i];
    }

    if (bad > 0 && load->sample[0] != '\0') {
        fprintf(stderr, "http-load: for example: %s\n", load->sample);
    }

    return bad > 0 || load->stats.done == 0;
}


/*
 * What a 99th percentile of an idle server is differs from one second to the
 * next, and what else the machine does changes: so idle is both before and
 * after, for as long together as loaded at least.
 */
static void
load_idle_again(load_t *load)
{
    load_drain(load, hymt_now_ns() + load_s(LOAD_DRAIN));

    atomic_store(&load->phase, PHASE_AFTER);
    usleep((useconds_t) (load->probe_seconds * 1e6));
    atomic_store(&load->phase, PHASE_END);

    load_probes_join(load);
}


/*
 * What the event loops take for a request as those before, at the same rate,
 * that gets a fixed answer at once.
 */
static double
load_floor(load_t *load, long pid)
{
    double        us;
    uint32_t      i;
    uint64_t      next;
    load_stats_t  *stats, *loaded;
    worker_cpu_t  before, after;

    loaded = malloc(sizeof(load_stats_t));
    if (loaded == NULL) {
        return 0;
    }

    load_drain(load, hymt_now_ns() + load_s(LOAD_DRAIN));

    stats = &load->stats;
    *loaded = *stats;
    memset(stats, 0, sizeof(*stats));

    load->rate = (double) hymt_max(loaded->done, 1) / load->seconds;
    load->floor = true;

    worker_cpu_read(pid, &before);

    load->from = hymt_now_ns();
    load->to = load->from + load_s(load->floor_seconds);
    next = load->from;

    load_turn(load, load->to, &next, load->from);

    worker_cpu_read(pid, &after);

    us = (double) (after.ns[CPU_LOOP] - before.ns[CPU_LOOP]) / 1e3
         / (double) hymt_max(stats->done, 1);

    for (i = 0; i < LOAD_ERRORS; i++) {
        loaded->errors[i] += stats->errors[i];
    }

    *stats = *loaded;
    free(loaded);

    return us;
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


/* CPU times are of the answers that came after so many. */
static void
load_report(load_t *load, const load_status_t *a, const load_status_t *b,
    worker_cpu_t *cpu, double client, uint64_t n_before, double floor_us)
{
    double          done, busy, steps, us[CPU_KINDS], first[3];
    uint32_t        i;
    uint64_t        errors, failed;
    load_stats_t   *s;
    static hdr_t    before, during, after, idle;

    s = &load->stats;
    done = (double) hymt_max(s->done - n_before, 1);
    steps = hymt_max(b->steps - a->steps, 1);
    busy = 100 * (b->step_seconds - a->step_seconds) / load->seconds;

    for (i = 0; i < CPU_KINDS; i++) {
        us[i] = (double) (cpu[3].ns[i] - cpu[2].ns[i]) / 1e3 / done;
    }

    for (i = 0, failed = 0; i < LOAD_PROBES; i++) {
        hdr_merge(&before, &load->probes[i].before);
        hdr_merge(&during, &load->probes[i].during);
        hdr_merge(&after, &load->probes[i].after);
        failed += load->probes[i].failed;
    }

    hdr_merge(&idle, &before);
    hdr_merge(&idle, &after);

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

        printf(" %.0f %%, %.2f, %.0f | %.0f", busy,
               1e3 * (b->step_seconds - a->step_seconds) / steps,
               (b->output_tokens - a->output_tokens + b->prompt_tokens
                - a->prompt_tokens) / steps,
               us[CPU_LOOP]);

        if (load->floor_uri != NULL) {
            printf(" (%.0f)", floor_us);
        }

        printf(", %.0f, %.0f |", us[CPU_TEXT], us[CPU_ENGINE]);

        if (load->static_uri != NULL) {
            printf(" %.0f (%.0f, %.0f), %.0f; %.0f |",
                   hdr_percentile(&idle, 99), hdr_percentile(&before, 99),
                   hdr_percentile(&after, 99), hdr_percentile(&during, 99),
                   load_probe_us(cpu, &before));

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
               1e3 * (b->step_seconds - a->step_seconds) / steps,
               (b->output_tokens - a->output_tokens) / steps,
               (b->prompt_tokens - a->prompt_tokens) / steps);
        printf("CPU us each   event loop %.1f, thread pools %.1f, text %.1f,"
               " engine %.1f, others %.1f; this client %.1f (%.0f %% of a"
               " core)\n", us[CPU_LOOP], us[CPU_POOL], us[CPU_TEXT],
               us[CPU_ENGINE], us[CPU_OTHER], client * 1e6 / done,
               100 * client / load->seconds
               * (load->static_uri != NULL ? 2 : 1));

        if (load->floor_uri != NULL) {
            printf("              event loop's floor %.1f: the same requests to"
                   " %s\n", floor_us, load->floor_uri);
        }

        printf("memory MB     %.1f before, %.1f after, in %" PRIu32
               " workers\n", (double) cpu[2].rss / 1e6,
               (double) cpu[3].rss / 1e6, cpu[3].workers);
    }

    if (load->row == NULL && load->static_uri != NULL) {
        printf("static us     idle P50 %.0f P99 %.0f; loaded P50 %.0f P99"
               " %.0f; %" PRIu64 " failed\n", hdr_percentile(&idle, 50),
               hdr_percentile(&idle, 99), hdr_percentile(&during, 50),
               hdr_percentile(&during, 99), failed);
        printf("              idle P99 %.0f before, %.0f after; %" PRIu64
               " asked idle, %" PRIu64 " loaded\n",
               hdr_percentile(&before, 99), hdr_percentile(&after, 99),
               idle.n, during.n);
        printf("              event loop's CPU us for one, idle: %.0f\n",
               load_probe_us(cpu, &before));
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
 * was nothing else.
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
