/*
 * exchange.h - jobs and results between processes, over shared memory.
 *
 * One exchange serves one engine.  It has a header (state and figures of the
 * engine, written by its host) and one lane for each client process: job slots
 * with fixed text arenas, a submit ring and a completion ring.  Each ring has
 * one producer and one consumer, so pushes are wait-free and a process that
 * dies in the middle of one hurts only its own lane.
 *
 *     client (worker)                          host (text thread)
 *     slot_take, submit  -- submit ring -->    poll: a private copy of the job
 *     poll               <-- completions --    progress, done
 *     result, slot_free
 *
 * Memory holds no pointers, only indexes, and is never trusted: sizes come from
 * process-local parameters, everything read is copied once and the copy is
 * checked.  A lane that breaks the protocol is closed until it attaches again.
 *
 * Generations.  A client begins by raising its lane's `gen` (attach); the host
 * then cancels whatever the former generation left, resets both rings, and sets
 * `ack` to the same number; before that the client must not submit.  A host
 * begins by raising `epoch`; clients that see it change attach again and decide
 * for each job of theirs whether to resubmit.  A result of an older generation
 * can't be taken for a newer one's: the rings were reset in between.
 *
 * Bells.  An eventfd per lane wakes its client, one wakes the host.  A consumer
 * arms its bell, looks once more, and sleeps; a producer that finds the bell
 * armed disarms it and writes: one system call a burst.  The server's first
 * poll after arming reads the host's eventfd empty; a client's may be shared by
 * the clients of several exchanges, so whoever sleeps on it reads it, before
 * polling all of them, or waits for edges, of which each write is one.
 *
 * Everything here is plain C over memory the caller gives; descriptors stay the
 * caller's to open, watch and close.
 */

#ifndef HYMT_EXCHANGE_H
#define HYMT_EXCHANGE_H

#include "engine.h"


#define HYMT_REASON_MAX  256

#define HYMT_MAX_LANES   256

/* a host that is well shows itself as often, though it have nothing to do */
#define HYMT_TURN_MS     1000


/* Fixed at configuration; every process has the same values of its own. */
typedef struct {
    uint32_t  n_lanes;     /* 1..HYMT_MAX_LANES: worker processes */
    uint32_t  n_slots;     /* of each lane, 1..65536 */
    uint32_t  in_bytes;    /* arena of a job's parts together */
    uint32_t  out_bytes;   /* arena of its result's text */
} hymt_exchange_params_t;


/*
 * The parts of a job's text; a length of 0: not given.  Their meaning is
 * prompt.h's hymt_prompt_request_t, how terms, a chat and stop strings are
 * written is job_parts.h's.  A job has a TEXT, and what goes with it, or a CHAT
 * alone.  STOPS go with either: the output ends with the token that completes
 * one of them, which stays in the text, for the client to cut.
 */
typedef enum {
    HYMT_PART_TEXT = 0,
    HYMT_PART_CONTEXT,
    HYMT_PART_TERMS,
    HYMT_PART_STYLE,
    HYMT_PART_CHAT,
    HYMT_PART_STOPS,
    HYMT_N_PARTS
} hymt_part_t;


#define HYMT_JOB_STREAM     0x1  /* wants progress events */
#define HYMT_JOB_FORMATTED  0x2  /* the text holds <sN></sN> tags; no progress,
                                    as the answer has to be unwrapped */
#define HYMT_JOB_LOOPS      0x4  /* let it repeat itself: no loop guard */

#define HYMT_JOB_FLAGS      (HYMT_JOB_STREAM | HYMT_JOB_FORMATTED            \
                             | HYMT_JOB_LOOPS)

#define HYMT_JOB_STOPS      8

#define HYMT_MAX_RATIO      100


typedef struct {
    int32_t          src;            /* language index or HYMT_LANG_NONE */
    int32_t          tgt;
    uint32_t         max_tokens;     /* 0: by the length of the text */
    float            max_ratio;      /* then: so many for each token of it and
                                        128 more, up to HYMT_MAX_RATIO; 0: 4,
                                        8 into scripts that take more */
    uint32_t         flags;
    hymt_sampling_t  sampling;
    hymt_scope_t     scope;          /* whose prompts share a beginning */
    uint32_t         priority;       /* hymt_priority_t */
    uint64_t         flow[2];        /* who it is for, in the line; 0: nobody */
    uint64_t         deadline_ns;    /* hymt_now_ns() clock; 0: none */

    /* tokens that end the output beside the model's */
    uint32_t         n_stop;
    uint32_t         stop[HYMT_JOB_STOPS];

    const char      *part[HYMT_N_PARTS];      /* whole UTF-8 */
    uint32_t         part_len[HYMT_N_PARTS];
} hymt_job_t;


typedef enum {
    HYMT_RESULT_OK = 0,
    HYMT_RESULT_CANCELED,
    HYMT_RESULT_TIMEOUT,       /* deadline passed before it was done */
    HYMT_RESULT_BAD_INPUT,     /* the job itself is wrong; error says how */
    HYMT_RESULT_TOO_LONG,      /* does not fit the context; error says */
    HYMT_RESULT_FULL,          /* the engine has no room */
    HYMT_RESULT_UNAVAILABLE,   /* loading, failed or stopping: try later */
    HYMT_RESULT_FAILED,        /* the engine failed while it ran */
    HYMT_N_RESULTS
} hymt_result_code_t;


typedef struct {
    uint32_t  code;              /* hymt_result_code_t */
    uint32_t  finish;            /* hymt_finish_t */
    uint32_t  prompt_tokens;
    uint32_t  cached_tokens;     /* of those: found in the prefix cache */
    uint32_t  completion_tokens;
    uint32_t  text_len;          /* bytes in the out arena */
    uint32_t  coalesced;         /* 1: it followed another equal one */
    uint32_t  batch;             /* most sequences in a step with it */
    uint64_t  queue_ns;          /* submit to first step */
    uint64_t  first_ns;          /* submit to first token */
    uint64_t  total_ns;          /* submit to end, in the host */
    char      error[HYMT_REASON_MAX];
} hymt_result_t;


typedef enum {
    HYMT_HOST_NONE = 0,    /* nobody serves this exchange yet */
    HYMT_HOST_LOADING,
    HYMT_HOST_READY,
    HYMT_HOST_FAILED,      /* info.reason says why */
    HYMT_HOST_STOPPED,
} hymt_host_state_t;


/* What anybody may know of the engine: a snapshot. */
typedef struct {
    uint32_t  state;           /* hymt_host_state_t */
    uint32_t  epoch;
    uint32_t  waiting;
    uint32_t  running;
    uint32_t  kv_blocks;
    uint32_t  kv_blocks_used;
    uint32_t  max_batch;
    uint32_t  context;
    uint64_t  steps;
    uint64_t  step_ns;
    uint64_t  step_max_ns;
    uint64_t  step_seqs;
    uint64_t  step_count[HYMT_BUCKETS];
    uint64_t  batch_count[HYMT_BUCKETS];
    uint64_t  rows_prefill;
    uint64_t  rows_decode;
    uint64_t  prefix_hits;
    uint64_t  prefix_misses;
    uint64_t  prefix_tokens;
    uint64_t  prefix_evictions;
    uint32_t  prefix_blocks;
    uint64_t  coalesced;
    uint64_t  load_ns;
    uint64_t  bytes_weights;
    uint64_t  bytes_kv;
    uint64_t  bytes_other;
    uint64_t  progress_ns;     /* the engine's last sign of life */
    uint64_t  turn_ns;         /* the host's: every HYMT_TURN_MS at least */
    uint64_t  work_ns;         /* there has been work since; 0: there is none */
    char      reason[HYMT_REASON_MAX];  /* of the state; terminated */
} hymt_host_info_t;


/* A process's view: memory shared, the rest its own. */
typedef struct {
    void                    *mem;
    hymt_exchange_params_t   params;
} hymt_exchange_t;


/* Bytes an exchange needs; 0 where the parameters are out of range. */
size_t hymt_exchange_size(const hymt_exchange_params_t *params);

/*
 * Lays an exchange out in zeroed memory, 64-byte aligned (once, before any
 * process uses it), and fills the view.  Touches only what it must: arenas stay
 * untouched, so they cost nothing until used.
 */
void hymt_exchange_init(hymt_exchange_t *ex, void *mem,
    const hymt_exchange_params_t *params);

/*
 * A consistent copy, from any process.  The reason's text is taken under a
 * sequence number; where the host dies in the middle it may be empty.
 */
void hymt_exchange_info(const hymt_exchange_t *ex, hymt_host_info_t *info);

/* Its state alone: one line of memory, where the engine writes all others. */
hymt_host_state_t hymt_exchange_state(const hymt_exchange_t *ex);

/*
 * Whether an engine that is READY is stuck at `now` (hymt_now_ns()): it has
 * work, and for patience_ns beyond its longest step there was no progress, or
 * its host has not been heard of for that long, and two turns.
 */
bool hymt_exchange_stuck(const hymt_host_info_t *info, uint64_t now,
    uint64_t patience_ns);

/* Jobs that all clients together have out: sum of what the lanes publish. */
uint32_t hymt_exchange_in_flight(const hymt_exchange_t *ex);


/* ---- client: one process, one thread ---- */

typedef struct hymt_client_s  hymt_client_t;


typedef enum {
    HYMT_EVENT_ATTACHED,   /* the host has acknowledged: submit away */
    HYMT_EVENT_EPOCH,      /* a new host or a broken lane: every job out is
                              lost, see hymt_client_poll() */
    HYMT_EVENT_PROGRESS,   /* more text in a streaming job's arena */
    HYMT_EVENT_DONE,       /* result ready; free the slot when read */
    HYMT_EVENT_STATE,      /* the host's state has changed */
} hymt_event_kind_t;


typedef struct {
    hymt_event_kind_t  kind;
    uint32_t           slot;   /* PROGRESS, DONE */
    void              *data;   /* PROGRESS, DONE: what submit() was given */
} hymt_event_t;


/*
 * Takes lane `lane` and begins attaching.  own_fd and host_fd are the eventfds
 * (non-blocking) of this lane and of the host; the client writes to its own
 * where a call other than poll() finds something to be polled for.
 */
hymt_status_t hymt_client_open(const hymt_exchange_t *ex, uint32_t lane,
    int own_fd, int host_fd, hymt_client_t **client, hymt_error_t *err);

/* Says goodbye: cancels all, lowers the published in-flight count to 0. */
void hymt_client_close(hymt_client_t *client);

bool hymt_client_attached(const hymt_client_t *client);

/*
 * Takes a free slot, writes the job into it and submits it; *slot is its
 * number, data comes back with its events.
 *
 * HYMT_AGAIN: no free slot, or not attached.  HYMT_TOO_LONG: the parts exceed
 * in_bytes together.  HYMT_ERROR: more than HYMT_JOB_STOPS end tokens.
 */
hymt_status_t hymt_client_submit(hymt_client_t *client, const hymt_job_t *job,
    void *data, uint32_t *slot, hymt_error_t *err);

/*
 * Cancels a job; no further event of it will be seen (its data pointer is
 * forgotten at once) and its slot frees itself when the host lets go.
 */
void hymt_client_cancel(hymt_client_t *client, uint32_t slot);

/*
 * From now on jobs and cancels do not ring the host's bell: hymt_client_ring()
 * does, once for all since the last.  Whoever asks for this calls it before he
 * sleeps.
 */
void hymt_client_defer(hymt_client_t *client);
void hymt_client_ring(hymt_client_t *client);

/*
 * The next event: HYMT_OK, or HYMT_AGAIN.
 *
 * On EPOCH every slot has been freed without DONE; the client is attaching
 * anew and will see ATTACHED.  Jobs in flight are the caller's to resubmit:
 * what started() says of them holds until submit() is next called.
 */
hymt_status_t hymt_client_poll(hymt_client_t *client, hymt_event_t *event);

/*
 * Asks for the bell at the next event.  True: there is one already, poll again.
 */
bool hymt_client_arm(hymt_client_t *client);

/*
 * The text so far: points into shared memory, valid until the slot is freed;
 * *len is checked against the arena.  Whole code points.  Its bytes are the
 * host's word: check what must be UTF-8.
 */
void hymt_client_text(const hymt_client_t *client, uint32_t slot,
    const char **text, uint32_t *len);

/* A checked copy of the result, its message only of a failure; after DONE */
void hymt_client_result(const hymt_client_t *client, uint32_t slot,
    hymt_result_t *result);

/* After DONE. */
void hymt_client_slot_free(hymt_client_t *client, uint32_t slot);

/*
 * Whether the engine had begun to compute a job: one that had not is no cause
 * of the engine's end.
 */
bool hymt_client_started(const hymt_client_t *client, uint32_t slot);

/* none of a lane that is lost and not attached anew */
uint32_t hymt_client_slots_free(const hymt_client_t *client);


/* ---- server: the host's text thread ---- */

typedef struct hymt_server_s  hymt_server_t;


typedef enum {
    HYMT_MESSAGE_JOB,      /* a new job: see hymt_server_job() */
    HYMT_MESSAGE_CANCEL,   /* of a job that has been taken */
} hymt_message_kind_t;


typedef struct {
    hymt_message_kind_t  kind;
    uint32_t             lane;
    uint32_t             slot;
    void                *data;   /* CANCEL: what hymt_server_own() was given */
} hymt_message_t;


/*
 * Takes the exchange: raises the epoch, wakes every client.  lane_fds [n_lanes]
 * are copied.
 */
hymt_status_t hymt_server_open(const hymt_exchange_t *ex, int own_fd,
    const int *lane_fds, hymt_server_t **server, hymt_error_t *err);

/* Sets state STOPPED and wakes every client. */
void hymt_server_close(hymt_server_t *server);

/*
 * The next message: HYMT_OK or HYMT_AGAIN.  Lanes are served in turn, one
 * message each, so that a busy one does not starve the others.  A lane that
 * attaches anew yields CANCEL for each job it had running first.
 */
hymt_status_t hymt_server_poll(hymt_server_t *server, hymt_message_t *m);

/*
 * Copies the job of a JOB message: numbers into *job, text into buf (capacity
 * in_bytes), to which job->part points.  HYMT_ERROR: the lane lied (bad length
 * or count); the lane is closed until it attaches again.  Does not judge
 * languages, UTF-8 or what the parts hold.
 */
hymt_status_t hymt_server_job(hymt_server_t *server, const hymt_message_t *m,
    hymt_job_t *job, char *buf, hymt_error_t *err);

/* Remembers data for a running job, for its CANCEL message. */
void hymt_server_own(hymt_server_t *server, uint32_t lane, uint32_t slot,
    void *data);

/*
 * Room in the job's out arena, for the text to be written to in place; and
 * what to call when `len` bytes in all are whole and valid: publishes them and,
 * for a streaming job, sends PROGRESS (at most one is outstanding).
 */
char *hymt_server_out(hymt_server_t *server, uint32_t lane, uint32_t slot,
    uint32_t *cap);

void hymt_server_progress(hymt_server_t *server, uint32_t lane, uint32_t slot,
    uint32_t len);

/* Where the engine says that a job is being computed: set it to 1. */
_Atomic uint32_t *hymt_server_started(hymt_server_t *server, uint32_t lane,
    uint32_t slot);

/* Ends a job; its slot is the client's again.  Exactly once for each job. */
void hymt_server_done(hymt_server_t *server, uint32_t lane, uint32_t slot,
    const hymt_result_t *result);

/* Publishes state, figures and reason; a change of state wakes clients. */
void hymt_server_info(hymt_server_t *server, const hymt_host_info_t *info);

/* As hymt_client_arm(). */
bool hymt_server_arm(hymt_server_t *server);


#endif /* HYMT_EXCHANGE_H */
