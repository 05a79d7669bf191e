/*
 * backend.h - the border between the scheduler and what computes.
 *
 * A backend is asked for whole batch steps, never for single operators, so
 * that each fuses and schedules as it likes.  A step is a ragged batch: for
 * each sequence in it a run of rows (prompt tokens to prefill, or the one token
 * sampled last), their positions, and the table of KV blocks they read and
 * write.  Prefill chunks and decode rows mix freely in one step.
 *
 * Steps overlap: launch() starts one and may return before it is done,
 * collect() waits for the oldest one launched.  Up to `depth` steps may be in
 * flight, so a decode row can be launched before the token it continues has
 * been seen by the host: HYMT_TOKEN_LAST names it.  A backend with depth 1
 * computes inside launch().
 *
 * Promises every backend keeps:
 *   - batch invariance: the logits of a row depend on its sequence's tokens
 *     and positions alone; not on other rows, chunking, threads or slots;
 *   - rounding, masking and order of the forward pass as the Hugging Face class
 *     hunyuan_v1_dense (RoPE first, then QK-norm);
 *   - no allocation in launch() and collect().
 *
 * Thread: all calls of one backend from one thread (the engine thread), after
 * fork.
 */

#ifndef HYMT_BACKEND_H
#define HYMT_BACKEND_H

#include "model.h"
#include "sampling.h"


#define HYMT_BACKEND_ABI  3

#define HYMT_KV_BLOCK     16           /* tokens a block of KV holds */

#define HYMT_TOKEN_NONE   UINT32_MAX   /* nothing was sampled */


/* claim.h, whose atomics are not for C++ */
typedef struct hymt_claim_s  hymt_claim_t;


typedef struct {
    uint32_t            threads;     /* cpu: compute threads, 0: a core each,
                                        less one where there are over two */
    int                 device;      /* cuda: ordinal */
    uint32_t            max_batch;   /* slots: sequences that run at once */
    uint32_t            max_rows;    /* rows of one step */
    uint32_t            context;     /* tokens of one sequence */
    uint32_t            n_blocks;    /* KV blocks in the pool */
    const volatile int *stop;        /* raised: give up within a layer, on a
                                        device within a step */
    hymt_claim_t       *claim;       /* of memory, for create() to ask by; its
                                        caller drops it.  NULL: no others */
} hymt_backend_params_t;


/* One sequence's part of a step. */
typedef struct {
    uint32_t         slot;       /* < max_batch; holds sampler state */
    uint32_t         n_rows;     /* >= 1 */
    uint32_t         pos;        /* position of the first row */

    /*
     * [n_rows], read during launch() only; NULL: one row, the token last
     * sampled in this slot, which may still be in flight
     */
    const uint32_t  *tokens;

    /* [ceil((pos + n_rows) / HYMT_KV_BLOCK)], read during launch() only */
    const uint32_t  *blocks;

    /* the last row is followed by sampling output token `n_out` (from 0) */
    bool             sample;
    uint32_t         n_out;

    /*
     * Looked at between layers by a backend of depth 1: where every sequence of
     * a step is canceled the step ends early.  NULL: never canceled.
     */
    const volatile int *canceled;
} hymt_batch_seq_t;


typedef struct {
    const hymt_batch_seq_t  *seqs;    /* [n_seqs], read during launch() only */
    uint32_t                 n_seqs;
    uint32_t                 n_rows;  /* sum, at most max_rows */

    /*
     * Tests and self-test: fp32 logits of EVERY row, [n_rows][vocab], before
     * penalty and temperature; complete after collect().  NULL: not wanted.
     */
    float                   *logits;
} hymt_batch_t;


typedef struct hymt_backend_s  hymt_backend_t;


typedef struct {
    uint32_t     abi;        /* HYMT_BACKEND_ABI */
    const char  *build_id;   /* must equal the host's for a shared object */
    const char  *name;       /* "cpu", "cuda", "ref" */
    uint32_t     depth;      /* steps in flight: 1 or 2 */

    /*
     * Checks the parameters, allocates everything (weights, KV pool,
     * activations), reads the weights.  HYMT_ABORTED where *stop was raised;
     * HYMT_AGAIN: too little memory is free now, and the error has the sum;
     * HYMT_ERROR and HYMT_AGAIN leave nothing behind.  The model must stay open
     * until create() returns.
     */
    hymt_status_t (*create)(const hymt_backend_params_t *params,
        const hymt_model_t *model, hymt_backend_t **b, hymt_error_t *err);

    void (*destroy)(hymt_backend_t *b);

    /*
     * Puts a sequence into a free slot: its sampling, and its prompt for the
     * repetition penalty's set (the prompt's tokens may partly come from shared
     * blocks and never pass through a step).
     */
    void (*slot_begin)(hymt_backend_t *b, uint32_t slot,
        const hymt_sampling_t *sampling, const uint32_t *prompt,
        uint32_t n_prompt);

    /*
     * Starts a step.  HYMT_ERROR: nothing was started and the backend is
     * unusable.
     */
    hymt_status_t (*launch)(hymt_backend_t *b, const hymt_batch_t *batch,
        hymt_error_t *err);

    /*
     * Waits for the oldest step in flight; tokens[i] is what sequence i of its
     * batch sampled, HYMT_TOKEN_NONE where it did not ask.
     *
     * HYMT_ABORTED: the step ended early (all canceled, or *stop); its tokens
     * are void, the KV it was to write is undefined, the backend lives on.
     * HYMT_ERROR: logits that are not finite, or a device error: unusable.
     */
    hymt_status_t (*collect)(hymt_backend_t *b, uint32_t *tokens,
        hymt_error_t *err);

    /* Bytes taken: weights as held, KV pool, everything else. */
    void (*memory)(const hymt_backend_t *b, uint64_t *weights, uint64_t *kv,
        uint64_t *other);

    /* What runs, for the log: "avx512, 2 threads, bf16 weights". */
    const char *(*describe)(const hymt_backend_t *b);

    uint32_t     kv_element;  /* bytes of a number in the KV pool */

    /*
     * The memory that weights and KV must share, of params.device; its errors
     * say why the device can't be used, HYMT_AGAIN that it has too little
     * memory left to be opened now.  NULL: the host's.
     */
    hymt_status_t (*device_memory)(int device, uint64_t *bytes,
        hymt_error_t *err);

    /*
     * How long the step collected last has kept the device busy, by its own
     * clock.  NULL: from launch() to collect(), by the host's.
     */
    uint64_t (*step_ns)(const hymt_backend_t *b);
} hymt_backend_ops_t;


extern const hymt_backend_ops_t  hymt_backend_cpu;

/*
 * The readable forward pass in double precision, one row at a time: what the
 * others are compared with.  For tests and tiny models.
 */
extern const hymt_backend_ops_t  hymt_backend_ref;


/*
 * The CUDA backend is a shared object of its own, so that nothing else needs a
 * CUDA library: hymt_cuda.so, beside the file this code is in, or in
 * ../lib/hymt from there; HYMT_CUDA_LIBRARY names another.  It has one symbol
 * of this type, is opened once and stays.
 */
#define HYMT_BACKEND_CUDA_SYMBOL  "hymt_backend_cuda_ops"

typedef const hymt_backend_ops_t *(*hymt_backend_ops_fn_t)(void);


/* Whether a name means a backend or "auto".  Opens nothing. */
hymt_status_t hymt_backend_check(const char *name, hymt_error_t *err);

/*
 * Whether the engine may compute in memory that is not the host's: "cuda", and
 * "auto" where the shared object and a device's driver are.  Opens nothing.
 */
bool hymt_backend_on_device(const char *name);

/*
 * The table of "cpu", "ref" or "cuda"; NULL with the reason.  "cuda" opens the
 * shared object, so this is for the engine thread: no CUDA code gets into a
 * process that forks.
 */
const hymt_backend_ops_t *hymt_backend_find(const char *name,
    hymt_error_t *err);


#endif /* HYMT_BACKEND_H */
