
/*
 * Copyright (C) the hymt authors
 */


/*
 * What is counted, in shared memory.  All of it only grows, but for `buffers`,
 * which each worker keeps right for itself, `engines` and `claims`.
 *
 * The zone goes on over a reload, of the same binary: with another one its tag
 * differs, NGINX makes a new zone, and all begins at zero.
 */


#ifndef _NGX_HTTP_HYMT_METRICS_H_INCLUDED_
#define _NGX_HTTP_HYMT_METRICS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>

#include "claim.h"
#include "histogram.h"
#include "host.h"


#define NGX_HTTP_HYMT_LOOP_BUCKETS   12
#define NGX_HTTP_HYMT_MAX_APIS       8
#define NGX_HTTP_HYMT_N_CODES        20

/* models that were seen since the start; those of old configurations make room
   for new ones */
#define NGX_HTTP_HYMT_MAX_STATS      32
#define NGX_HTTP_HYMT_STATS_NAME     64

/* configurations, one after the other, whose engines may live at a time */
#define NGX_HTTP_HYMT_GENERATIONS    16


/* Why a request got 429 or 503. */

typedef enum {
    NGX_HTTP_HYMT_REJECT_QUEUE = 0,
    NGX_HTTP_HYMT_REJECT_BUFFERS,
    NGX_HTTP_HYMT_REJECT_LOADING,
    NGX_HTTP_HYMT_REJECT_UNAVAILABLE,
    NGX_HTTP_HYMT_REJECT_OTHER,
    NGX_HTTP_HYMT_N_REJECTS
} ngx_http_hymt_reject_e;


typedef enum {
    NGX_HTTP_HYMT_H_REQUEST = 0,          /* ns, body read to answer */
    NGX_HTTP_HYMT_H_QUEUE,                /* ns, to the first step */
    NGX_HTTP_HYMT_H_FIRST,                /* ns, to the first token */
    NGX_HTTP_HYMT_H_PREFILL,              /* ns, first step to first token */
    NGX_HTTP_HYMT_H_DECODE,               /* ns, from there to the last */
    NGX_HTTP_HYMT_H_TOKEN,                /* ns, between tokens */
    NGX_HTTP_HYMT_H_PROMPT_TOKENS,        /* of a text */
    NGX_HTTP_HYMT_H_OUTPUT_TOKENS,
    NGX_HTTP_HYMT_H_STEP,                 /* ns, by the engine */
    NGX_HTTP_HYMT_H_BATCH,                /* sequences, by the engine */
    NGX_HTTP_HYMT_N_HISTOGRAMS
} ngx_http_hymt_histogram_e;


/* A worker that has engines. */

typedef struct {
    _Atomic uint64_t            process;   /* see process.h; 0: none */
    _Atomic uint64_t            generation;
} ngx_http_hymt_engines_t;


/* Of one model. */

typedef struct {
    size_t                      len;       /* of the name; 0: free */
    uint32_t                    hash;      /* of all of it */
    u_char                      name[NGX_HTTP_HYMT_STATS_NAME];

    ngx_atomic_t                requests[NGX_HTTP_HYMT_MAX_APIS]
                                        [NGX_HTTP_HYMT_N_CODES];
    ngx_atomic_t                texts;
    ngx_atomic_t                tokens_in;
    ngx_atomic_t                tokens_out;
    ngx_atomic_t                stopped;   /* texts, by their end */

    /* beside what else each request adds to: few cache lines */
    ngx_atomic_t                sum[NGX_HTTP_HYMT_N_HISTOGRAMS];

    ngx_atomic_t                cut;
    ngx_atomic_t                looped;
    ngx_atomic_t                canceled;
    ngx_atomic_t                resubmitted;
    ngx_atomic_t                cache_hits;        /* units, by hymt_cache */
    ngx_atomic_t                cache_misses;
    ngx_atomic_t                cache_stores;
    ngx_atomic_t                cache_evictions;
    ngx_atomic_t                rejected[NGX_HTTP_HYMT_N_REJECTS];
    ngx_atomic_t                bucket[NGX_HTTP_HYMT_N_HISTOGRAMS]
                                      [HYMT_BUCKETS];  /* not cumulative */

    /* the engines' own, added up by worker 0 */
    ngx_atomic_t                starts;
    ngx_atomic_t                rows_prefill;
    ngx_atomic_t                rows_decode;
    ngx_atomic_t                prefix_hits;
    ngx_atomic_t                prefix_misses;
    ngx_atomic_t                prefix_tokens;
    ngx_atomic_t                prefix_evictions;
    ngx_atomic_t                coalesced;
} ngx_http_hymt_stats_t;


typedef struct {
    ngx_atomic_t                requests;
    ngx_atomic_t                texts;
    ngx_atomic_t                answered;      /* 200, 201, 204 */
    ngx_atomic_t                refused;       /* 4xx but 429 */
    ngx_atomic_t                rejected;      /* 429 and 503 */
    ngx_atomic_t                failed;        /* 500 */
    ngx_atomic_t                timeouts;      /* 504 */
    ngx_atomic_t                canceled;      /* the client went away */
    ngx_atomic_t                resubmitted;
    ngx_atomic_t                tokens_in;
    ngx_atomic_t                tokens_out;
    ngx_atomic_t                characters;    /* DeepL's: of texts answered */

    /*
     * CPU time of turns of the event loop that came to the module, from there
     * to the return to the kernel: bucket i counts those up to
     * ngx_http_hymt_loop_us[i], the last one the rest.
     */
    ngx_atomic_t                loop[NGX_HTTP_HYMT_LOOP_BUCKETS];
    ngx_atomic_t                loop_ns;
    ngx_atomic_t                loop_max;      /* us */

    ngx_atomic_t                buffers[HYMT_MAX_LANES];   /* bytes */

    /* configurations so far; engines of all that there are, and the memory that
       they take in turns, the newest first */
    _Atomic uint64_t            generation;
    ngx_http_hymt_engines_t     engines[NGX_HTTP_HYMT_GENERATIONS];
    hymt_claims_t               claims;

    /* texts by languages; the last source: not known */
    ngx_atomic_t                pairs[HYMT_N_LANGS + 1][HYMT_N_LANGS];

    ngx_http_hymt_stats_t       models[NGX_HTTP_HYMT_MAX_STATS];
} ngx_http_hymt_counters_t;


/* the statuses counted; the last one, 0, stands for all others */
extern const ngx_uint_t  ngx_http_hymt_codes[NGX_HTTP_HYMT_N_CODES];

extern const char *const ngx_http_hymt_rejects[NGX_HTTP_HYMT_N_REJECTS];

/* of each histogram, in its unit */
extern const uint64_t *const ngx_http_hymt_bounds[NGX_HTTP_HYMT_N_HISTOGRAMS];


#endif /* _NGX_HTTP_HYMT_METRICS_H_INCLUDED_ */
