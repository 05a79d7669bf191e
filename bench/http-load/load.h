/*
 * load.h - what the files of http-load share.
 *
 *     main.c        arguments, one run, its report
 *     conns.c       connections: arrivals, requests, answers
 *     probe.c       a static location asked meanwhile
 *     status.c      what hymt_status says
 *     exact_text.h  texts of exact numbers of tokens
 *     worker_cpu.h  CPU time of the workers' threads
 *     hdr.h         histograms
 */

#ifndef HYMT_BENCH_LOAD_H
#define HYMT_BENCH_LOAD_H

#include "exact_text.h"
#include "hdr.h"
#include "worker_cpu.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>


#define LOAD_CONNS      8192
#define LOAD_OUT        16384          /* a request */
#define LOAD_IN         262144         /* an answer */
#define LOAD_PROBES     4

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
    hdr_t           before;        /* idle */
    hdr_t           during;
    hdr_t           after;         /* idle again */
} load_probe_t;


typedef struct load_s {
    struct sockaddr_in  addr;
    const char         *host;          /* as given, for the Host header */
    const char         *model;
    const char         *uri;
    const char         *status_uri;
    const char         *static_uri;
    const char         *floor_uri;
    const char         *more;          /* JSON members */
    const char         *row;
    load_length_t       in;
    load_length_t       out;
    uint32_t            clients;
    double              rate;
    double              jitter;
    double              seconds;
    double              warm;
    double              floor_seconds;
    double              probe_rate;
    double              probe_seconds;
    uint64_t            seed;
    uint64_t            random;
    bool                stream;
    bool                verbose;
    bool                closing;       /* no request begins */
    bool                floor;         /* requests go to floor_uri */

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


/* What the probes do. */
enum {
    PHASE_IDLE = 0,
    PHASE_WARM,                        /* they ask, and nobody counts */
    PHASE_LOADED,
    PHASE_QUIET,                       /* they do not ask */
    PHASE_AFTER,
    PHASE_END,
};


/* ---- conns.c ---- */

/* Sends and receives until a time; *next is the next arrival of a rate. */
void load_turn(load_t *load, uint64_t until, uint64_t *next, uint64_t start);

/* Until all answers are there, but not longer than a time. */
void load_drain(load_t *load, uint64_t until);


/* ---- probe.c ---- */

void load_probes_start(load_t *load);

void load_probes_join(load_t *load);


/* ---- status.c ---- */

/* status->valid: there was one. */
void load_status(load_t *load, load_status_t *status);


#endif /* HYMT_BENCH_LOAD_H */
