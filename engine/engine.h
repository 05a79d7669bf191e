/*
 * engine.h - the engine thread: loads a model, runs steps, hands back tokens.
 *
 * Everything here is in token ids; text is the host's (host.h).  Two threads
 * meet: the owner (one thread, the text thread) submits, cancels and polls; the
 * engine thread computes.  Between them two SPSC rings of pointers and two
 * eventfds; no lock, no allocation after start.
 *
 * Life: start() returns at once; the thread opens the model, creates the
 * backend, tests itself and becomes READY or FAILED.  stop() ends it within one
 * layer of work.  A backend error makes it FAILED: every sequence ends with
 * HYMT_FINISH_FAILED and new ones are refused; the process lives on.
 */

#ifndef HYMT_ENGINE_H
#define HYMT_ENGINE_H

#include "claim.h"
#include "histogram.h"
#include "scheduler.h"


typedef enum {
    HYMT_ENGINE_LOADING = 0,
    HYMT_ENGINE_READY,
    HYMT_ENGINE_FAILED,    /* hymt_engine_reason() says why */
    HYMT_ENGINE_STOPPED,
} hymt_engine_state_t;


typedef struct {
    const char  *model;       /* directory; copied */
    const char  *backend;     /* "auto", "cuda", "cpu", "ref"; copied */

    /* NULL: by name; tests bring a table of their own */
    const hymt_backend_ops_t  *ops;

    int          device;
    uint32_t     threads;     /* cpu: compute threads; 0: a core each, less
                                 one where there are more than two */
    uint32_t     max_batch;   /* 1..1024 */
    uint32_t     context;     /* tokens; 0: 8192; at most max_position */
    uint64_t     kv_tokens;   /* 0: max_batch * 1024, within design's bound */
    uint32_t     max_seqs;    /* submitted and not yet back */
    bool         prefix_cache;  /* see prefix_cache.h */
    bool         coalesce;      /* see scheduler.h */
    uint32_t     step_ms;     /* longest step where one token allows; 0: 50 */
    bool         ignore_eos;  /* for measurements: the model's end tokens end no
                                 output, and the host looks for no loops */

    /*
     * While it is not 0, others are about to leave their memory to this engine:
     * where it finds too little it does not fail but tries again.  NULL: nobody
     * is.
     */
    const _Atomic uint32_t  *patience;

    /*
     * Engines that take memory in turns, and this one's rank among them, see
     * claim.h.  NULL: it is alone.
     */
    hymt_claims_t           *claims;
    uint64_t                 rank;

    /*
     * Rung (eventfd written) when poll() has news or the state has changed,
     * if armed: see hymt_engine_arm().  -1: nobody sleeps.
     */
    int          news_fd;
} hymt_engine_params_t;


/* All relaxed atomics, written by the engine thread; read by anyone. */
typedef struct {
    _Atomic uint32_t  state;          /* hymt_engine_state_t */
    _Atomic uint32_t  waiting;
    _Atomic uint32_t  running;
    _Atomic uint32_t  kv_blocks;
    _Atomic uint32_t  kv_blocks_used;
    _Atomic uint32_t  max_batch;
    _Atomic uint32_t  context;
    _Atomic uint64_t  steps;
    _Atomic uint64_t  step_ns;        /* sum */
    _Atomic uint64_t  step_max_ns;
    _Atomic uint64_t  step_seqs;      /* sum of their sequences */
    _Atomic uint64_t  step_count[HYMT_BUCKETS];    /* by time */
    _Atomic uint64_t  batch_count[HYMT_BUCKETS];   /* by sequences */
    _Atomic uint64_t  rows_prefill;   /* prompt tokens computed */
    _Atomic uint64_t  rows_decode;    /* output tokens computed */
    _Atomic uint64_t  prefix_hits;    /* see hymt_prefix_stats_t */
    _Atomic uint64_t  prefix_misses;
    _Atomic uint64_t  prefix_tokens;
    _Atomic uint64_t  prefix_evictions;
    _Atomic uint32_t  prefix_blocks;
    _Atomic uint64_t  coalesced;      /* sequences that followed another */
    _Atomic uint64_t  load_ns;        /* start to READY */
    _Atomic uint64_t  bytes_weights;
    _Atomic uint64_t  bytes_kv;
    _Atomic uint64_t  bytes_other;
    _Atomic uint64_t  progress_ns;    /* hymt_now_ns(), last sign of life */
} hymt_engine_stats_t;


typedef struct hymt_engine_s  hymt_engine_t;


hymt_status_t hymt_engine_start(const hymt_engine_params_t *params,
    hymt_engine_t **engine, hymt_error_t *err);

/*
 * Raises stop, rings, joins within one layer of work, and frees the engine
 * (NULL is legal).  Afterwards finish is set in every sequence that was out:
 * those that had ended keep their result, the others are FAILED.  Stats,
 * reason and config of the engine are gone.
 */
void hymt_engine_stop(hymt_engine_t *engine);

const hymt_engine_stats_t *hymt_engine_stats(const hymt_engine_t *engine);

/* True: LOADING, and waiting for memory; hymt_engine_reason() says how much. */
bool hymt_engine_waits(const hymt_engine_t *engine);

/* Why it is FAILED, or what it runs on once READY; owner thread. */
const char *hymt_engine_reason(const hymt_engine_t *engine);

/*
 * The model's config once READY (state read with acquire); NULL before.
 */
const hymt_config_t *hymt_engine_config(const hymt_engine_t *engine);


/*
 * Hands a sequence over.  HYMT_AGAIN: max_seqs are out already.  HYMT_ERROR:
 * not READY, or the sequence can never fit.
 */
hymt_status_t hymt_engine_submit(hymt_engine_t *engine, hymt_seq_t *seq,
    hymt_error_t *err);

/* Raises seq->canceled and wakes the engine. */
void hymt_engine_cancel(hymt_engine_t *engine, hymt_seq_t *seq);

/*
 * The next sequence with news since it was last polled, or NULL.  Read finish
 * first, then n_out: a finished one has all its tokens and is the owner's
 * again.
 */
hymt_seq_t *hymt_engine_poll(hymt_engine_t *engine);

/*
 * Asks to be rung at the next news.  True: there is news already, or the state
 * is another one than at the last call: poll again (nothing was armed); false:
 * sleep on news_fd.
 */
bool hymt_engine_arm(hymt_engine_t *engine);


#endif /* HYMT_ENGINE_H */
