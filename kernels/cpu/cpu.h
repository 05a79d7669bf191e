/*
 * cpu.h - the CPU backend's state, shared by backend_cpu.c (the table of
 * functions, slots and sampling) and forward.c (the forward pass).
 *
 * Thread: the engine thread; items of work run on the pool's threads and touch
 * their own rows only.
 */

#ifndef HYMT_CPU_H
#define HYMT_CPU_H

#include "sampler.h"
#include "weights.h"


/* Rows whose logits are in memory at the same time. */
#define HYMT_LOGIT_ROWS  32

/* Rows of one sequence that one item of attention work takes. */
#define HYMT_TILE_ROWS   8

/* Panels that one item of a matrix product takes at most. */
#define HYMT_ITEM_PANELS  4


typedef struct {
    hymt_sampling_t   sampling;
    uint32_t          last;       /* token sampled last, or HYMT_TOKEN_NONE */
    uint64_t         *seen;       /* [hymt_seen_words(vocab)] */
} hymt_cpu_slot_t;


/* One row of the step. */
typedef struct {
    uint32_t  seq;       /* index in the batch */
    uint32_t  pos;
    uint32_t  token;
} hymt_cpu_row_t;


/* Up to HYMT_TILE_ROWS rows of one sequence. */
typedef struct {
    uint32_t  row;
    uint32_t  n_rows;
} hymt_cpu_tile_t;


/* A row whose logits are wanted. */
typedef struct {
    uint32_t  row;
    uint32_t  seq;       /* that samples here, or UINT32_MAX */
} hymt_cpu_logit_t;


struct hymt_backend_s {
    hymt_backend_params_t   params;
    hymt_config_t           config;
    const hymt_kernels_t   *kernels;
    hymt_pool_t            *pool;
    uint32_t                n_threads;

    hymt_weights_t          weights;
    hymt_mapping_t          kv_mapping;
    hymt_mapping_t          mapping;      /* everything below */

    /* sizes in floats; lines of a power of two would share cache sets */
    uint32_t                dim;          /* head_dim rounded up to 16 */
    uint32_t                q_width;      /* n_heads * head_dim */
    uint32_t                act_width;    /* ffn rounded up to 32 */
    size_t                  ld_hidden;
    size_t                  ld_qkv;
    size_t                  ld_q;         /* n_heads * dim */
    size_t                  ld_o;
    size_t                  ld_act;
    size_t                  ld_logits;

    /* [n_layers][n_blocks][n_kv_heads][2][16 * dim], see hymt_attention_t */
    float                  *kv;
    size_t                  kv_head;      /* floats of one head of a block */
    size_t                  kv_block;     /* of a block */
    size_t                  kv_layer;     /* of a layer */

    /* activations, [max_rows] lines each */
    float                  *x;            /* residual stream */
    float                  *h;            /* normed, input of a product */
    float                  *qkv;
    float                  *q;            /* after rope and norm, padded */
    float                  *o;            /* attention's output */
    float                  *act;          /* silu(gate) * up */
    float                  *cos;          /* [max_rows][head_dim / 2] */
    float                  *sin;
    float                  *inv_freq;     /* [head_dim / 2] */
    float                  *logits;       /* [HYMT_LOGIT_ROWS] lines */

    /* scratch of each thread */
    float                 **tile;         /* [max_rows][4 * 32] */
    float                 **attn;         /* out, state: [queries][dim + 18] */
    double                **weight;       /* [vocab], for the sampler */

    hymt_cpu_slot_t        *slots;        /* [max_batch] */

    /* the step */
    const hymt_batch_t     *batch;
    uint32_t                n_rows;
    uint32_t                layer;
    hymt_cpu_row_t         *rows;         /* [max_rows] */
    hymt_cpu_tile_t        *tiles;        /* [max_rows] */
    uint32_t                n_tiles;
    hymt_cpu_logit_t       *wanted;       /* [max_rows] */
    uint32_t                n_wanted;
    uint32_t                wanted_at;    /* first of those in `logits` */
    uint32_t               *bad;          /* [max_rows]: logits not finite */

    /* its result, for collect() */
    bool                    launched;
    hymt_status_t           result;
    uint32_t                n_seqs;
    uint32_t               *sampled;      /* [max_batch] */
    hymt_error_t            error;

    char                    description[96];
};


/*
 * Runs the layers over the step's rows: b->x is then the residual stream
 * before the last norm, and KV of the rows is written.  HYMT_ABORTED where the
 * step was given up.
 */
hymt_status_t hymt_forward(hymt_backend_t *b);


/*
 * Logits of the n wanted rows from `first` on into b->logits, n at most
 * HYMT_LOGIT_ROWS.
 */
void hymt_forward_logits(hymt_backend_t *b, uint32_t first, uint32_t n);


/* Whether *stop is raised, or every sequence of the step canceled. */
bool hymt_given_up(const hymt_backend_t *b);


/*
 * Runs n items on the pool, or here where `work` (multiply-adds, about) is too
 * little to wake anybody for.
 */
void hymt_cpu_run(hymt_backend_t *b, hymt_pool_fn_t fn, void *arg, uint32_t n,
    uint64_t work);


#endif /* HYMT_CPU_H */
