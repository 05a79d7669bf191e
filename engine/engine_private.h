/*
 * engine_private.h - what the two sides of an engine share: engine.c is the
 * owner's, engine_thread.c and engine_load.c the engine thread's.
 *
 * How the two threads meet.  The owner pushes sequences into `inbox`, the
 * engine thread pushes those with news into `outbox`.  Each side says with an
 * atomic flag that it is about to sleep (`asleep`, `armed`), then looks once
 * more at its ring; the other pushes first, then takes the flag, and writes the
 * eventfd only where it was up.  Both touch the flag by exchange, so one of the
 * two comes second and sees what the first did: nothing is lost between the
 * look and the sleep.
 *
 * Who owns a sequence is one word, `notified`.  The engine thread sets IN_BOX,
 * with ENDED for the last time, and pushes only where IN_BOX was not set: a
 * sequence is in the outbox at most once.  The owner clears the word as it
 * takes the sequence out; ENDED is found there exactly once, and after setting
 * it the engine thread touches the sequence no more.
 */

#ifndef HYMT_ENGINE_PRIVATE_H
#define HYMT_ENGINE_PRIVATE_H

#include "engine.h"
#include "pace.h"
#include "spsc.h"

#include <pthread.h>


/* hymt_seq_t.notified */
#define HYMT_IN_BOX         1
#define HYMT_ENDED          2

#define HYMT_ENGINE_DEPTH   2
#define HYMT_ENGINE_NOTE    400


/* What is remembered of a step in flight. */
typedef struct {
    uint64_t                 start;
    uint32_t                 n_decode;
    uint32_t                 n_prompt;
    const hymt_batch_seq_t  *seqs;      /* of the batch: until the next plan */
    uint32_t                 n_seqs;
} hymt_engine_step_t;


struct hymt_engine_s {
    hymt_engine_params_t        params;     /* model is owned */
    pthread_t                   thread;
    volatile int                stop;

    /* written before the state that shows them */
    hymt_config_t               config;
    char                        ready[HYMT_ERROR_TEXT];
    hymt_error_t                failed;

    /* the same of `waits`, which says that there is too little memory */
    hymt_error_t                shortage;
    _Atomic uint32_t            waits;

    hymt_engine_stats_t         stats;

    /* between the threads */
    hymt_spsc_t                 inbox;
    hymt_spsc_t                 outbox;
    int                         wake_fd;
    _Atomic uint32_t            asleep;
    _Atomic uint32_t            armed;
    _Atomic uint32_t            cancels;    /* raised so far; may wrap */

    /* owner */
    uint32_t                    n_out;      /* sequences not yet back */
    uint32_t                    seen;       /* the state, by arm() */

    /* engine thread */
    const hymt_backend_ops_t   *ops;        /* NULL before it is found */
    char                        note[HYMT_ENGINE_NOTE];  /* why this one */
    hymt_claim_t                claim;      /* while it loads */
    hymt_backend_t             *backend;
    hymt_sched_t               *sched;
    uint32_t                   *tokens;     /* [max_batch] */
    hymt_pace_t                 pace;
    hymt_engine_step_t          steps[HYMT_ENGINE_DEPTH];
    uint32_t                    oldest;
    uint32_t                    n_open;     /* steps in flight */
    uint32_t                    n_aborts;   /* in a row, without a cause */
    uint64_t                    last_end;   /* of a step */
    uint32_t                    cancels_seen;
};


/* The thread's function; data is the engine. */
void *hymt_engine_thread(void *data);

bool hymt_engine_stopping(const hymt_engine_t *engine);
void hymt_engine_set_state(hymt_engine_t *engine, hymt_engine_state_t state);

/* Adds one to an eventfd. */
void hymt_engine_notify(int fd);


/* ---- engine_load.c ---- */

/* READY, HYMT_ERROR, or HYMT_ABORTED when told to stop. */
hymt_status_t hymt_engine_load(hymt_engine_t *engine, hymt_error_t *err);


#endif /* HYMT_ENGINE_PRIVATE_H */
