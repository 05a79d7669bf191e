/*
 * backend_cuda.h - what the CUDA backend's host files share.
 *
 *     backend_cuda.c   the table: create, destroy, slots, figures
 *     device_cuda.c    the device: found, checked, opened; errors
 *     memory_cuda.c    sizes, memory, tables
 *     weights_cuda.c   weights: where they lie, and their way there
 *     forward_cuda.c   one step as a row of kernels; graphs of it
 *     step_cuda.c      a batch becomes metadata; launch and collect
 *
 * A step is one copy of metadata to the device, one graph, one copy of tokens
 * back, one event.  Two can be in flight, each with pinned memory of its own;
 * on the device the stream keeps them apart, so all else is there once.
 *
 * Graphs are captured at load: for rows up to a bucket and for what kinds of
 * attention a step needs.  A graph's kernels run for the whole bucket; where
 * the metadata lies follows from the bucket, so a small step is a small copy.
 * Steps of more than HYMT_CUDA_GRAPH_ROWS rows launch the same kernels one by
 * one: they take longer than their launches.
 *
 * Thread: the engine thread, but for the readers of weights_cuda.c.
 */

#ifndef HYMT_BACKEND_CUDA_H
#define HYMT_BACKEND_CUDA_H

#include "backend.h"
#include "kernels.h"


#define HYMT_CUDA_DEPTH       2
#define HYMT_CUDA_GRAPH_ROWS  640
#define HYMT_CUDA_BUCKETS     24
#define HYMT_CUDA_HEADS       3       /* sizes of a mixed step's head */
#define HYMT_CUDA_ALIGN       256     /* of every array on the device */

/* attention parts beside those of one part a row, where contexts are long */
#define HYMT_CUDA_PARTS       64

/* tiles up to which a decode row is one part: two rounds of a block */
#define HYMT_CUDA_ONE_PART    8

/* a step of prompts alone with more rows is large, see hymt_cuda_shape_t; no
   graph is for such, so this is not less than HYMT_CUDA_GRAPH_ROWS */
#define HYMT_CUDA_LARGE_ROWS  640

/* tiles that rows of several parts may have together: sizes `partial` */
#define HYMT_CUDA_TILES       2048

/* bitmaps of prompts on their way to the device */
#define HYMT_CUDA_STAGING     64


/* The environment's switches, read at create(); for tests. */
typedef struct {
    bool      graphs;     /* HYMT_CUDA_GRAPHS=off: kernels one by one */
    bool      pdl;        /* HYMT_CUDA_PDL=off */
    bool      lt;         /* HYMT_CUDA_LT=off: own GEMM kernels alone */

    /* HYMT_CUDA_FAULT=launch:N|collect:N|lost:N|alloc|taken; step N counts
       from 1 */
    uint64_t  fail_launch;
    uint64_t  fail_collect;
    uint64_t  lose;
    bool      fail_alloc;
    bool      fail_taken;
} hymt_cuda_switches_t;


/* Device memory taken in two turns, as mapping.h does it with the host's. */
typedef struct {
    uint8_t  *base;       /* owned; NULL while counting */
    uint64_t  used;
    uint64_t  size;
    bool      overflow;
} hymt_cuda_arena_t;


typedef struct {
    hymt_bf16_t  *input_norm;  /* [hidden] */
    hymt_bf16_t  *post_norm;   /* [hidden] */
    hymt_bf16_t  *q_norm;      /* [128], NULL without qk_norm */
    hymt_bf16_t  *k_norm;
    hymt_bf16_t  *qkv;         /* [q + k + v][hidden] */
    hymt_bf16_t  *o;           /* [hidden][q] */
    hymt_bf16_t  *gate_up;     /* [2 ffn][hidden], 8 rows of each in turn */
    hymt_bf16_t  *down;        /* [hidden][ffn] */
} hymt_cuda_layer_t;


typedef struct {
    hymt_gemm_t  *qkv;
    hymt_gemm_t  *kv;         /* the last layer's, for large steps; or NULL */
    hymt_gemm_t  *o;
    hymt_gemm_t  *gate_up;
    hymt_gemm_t  *down;
} hymt_cuda_gemms_t;


/* What a step needs of attention. */
typedef enum {
    HYMT_STEP_DECODE = 0,  /* a row a sequence */
    HYMT_STEP_LONG,        /* the same, with contexts that are cut in parts */
    HYMT_STEP_PROMPT,      /* no decode row */
    HYMT_STEP_MIXED,       /* both; and for more and more rows of logits */
    HYMT_STEP_KINDS = HYMT_STEP_MIXED + HYMT_CUDA_HEADS
} hymt_cuda_kind_t;


/*
 * How much of everything a step's kernels run for, and where the metadata of
 * such a step lies: offsets from its beginning, in bytes.  The first words are
 * the items in use, decode and prefill.
 *
 * A step is large where prompts alone have many rows.  Their attention makes q,
 * and the last layer has K and V of all rows, but q and attention of those that
 * are sampled alone: `decode` items, whose rows are places among the samples.
 */
typedef struct {
    uint32_t  rows;
    uint32_t  samples;     /* rows of logits */
    uint32_t  decode;      /* items of attention; 0: no such kernel */
    uint32_t  prefill;
    bool      is_large;

    uint32_t  sample_at;   /* hymt_sample_row_t [samples] */
    uint32_t  decode_at;   /* hymt_attention_item_t [decode] */
    uint32_t  prefill_at;
    uint32_t  tokens_at;   /* uint32_t [rows] */
    uint32_t  pos_at;
    uint32_t  kv_at;       /* int32_t [rows] */
    uint32_t  gather_at;   /* uint32_t [samples] */
    uint32_t  tables_at;   /* uint32_t, as many as there are */
} hymt_cuda_shape_t;


typedef struct {
    hymt_cuda_shape_t  shape;
    cudaGraphExec_t    exec;       /* NULL: not captured */
} hymt_cuda_graph_t;


/* A step in flight, or the place for one. */
typedef struct {
    uint8_t       *meta;           /* pinned, [meta_size] */
    uint32_t      *result;         /* pinned, [1 + max_batch]: bad, tokens */
    uint32_t      *sample;         /* [max_batch]: the row of `result` that is
                                      a sequence's, UINT32_MAX: none */
    cudaEvent_t    start;
    cudaEvent_t    done;
    uint32_t       n_seqs;
    bool           aborted;
} hymt_cuda_step_t;


struct hymt_backend_s {
    hymt_backend_params_t   params;
    hymt_config_t           config;
    hymt_cuda_switches_t    switches;
    hymt_cuda_t             dev;
    char                    name[64];      /* of the device */
    uint64_t                place;         /* its memory, see claim.h */

    /* sizes */
    uint32_t                q_width;       /* n_heads * 128 */
    uint32_t                qkv_width;
    uint32_t                group;         /* heads of one KV head */
    uint32_t                ld_logits;     /* vocabulary, padded to 128 */
    uint32_t                seen_words;    /* of 32 bits */
    uint32_t                item_rows;     /* most rows of a prefill item */
    uint32_t                max_table;     /* blocks of all sequences */
    uint64_t                kv_layer;      /* elements of a layer's cache */
    uint32_t                meta_size;

    hymt_cuda_arena_t       weights;
    hymt_cuda_arena_t       kv_pool;
    hymt_cuda_arena_t       other;

    /* weights */
    hymt_cuda_layer_t      *layers;        /* owned, [n_layers] */
    hymt_bf16_t            *embed;         /* [vocab padded][hidden] */
    hymt_bf16_t            *lm_head;       /* embed where tied */
    hymt_bf16_t            *norm;

    hymt_cuda_gemms_t      *gemms;         /* owned, [n_layers] */
    hymt_gemm_t            *gemm_logits;

    hymt_bf16_t            *kv;            /* [layer][block][head][K|V][16] */

    /* activations, [max_rows] each */
    hymt_bf16_t            *x;
    hymt_bf16_t            *h;
    hymt_bf16_t            *qkv;
    hymt_bf16_t            *q;
    hymt_bf16_t            *o;
    hymt_bf16_t            *y;
    hymt_bf16_t            *act;
    hymt_bf16_t            *gate_up;

    hymt_bf16_t            *cos;           /* [context][64] */
    hymt_bf16_t            *sin;
    hymt_bf16_t            *wanted;        /* [max_batch][hidden], of x */
    hymt_bf16_t            *logits;        /* [max_batch][ld_logits] */
    uint32_t               *every;         /* [max_rows]: 0, 1, 2, ... */
    uint32_t               *seen;          /* [max_batch][seen_words] */
    uint32_t               *last;          /* [max_batch] */
    uint32_t               *result;        /* [1 + max_batch] */
    float                  *partial;
    uint32_t               *counters;
    void                   *sample_scratch;
    uint8_t                *meta;          /* [meta_size] */

    hymt_cuda_graph_t       graphs[HYMT_CUDA_BUCKETS][HYMT_STEP_KINDS];
    uint32_t                n_buckets;
    uint32_t                n_graphs;

    hymt_sampling_t        *sampling;      /* owned, [max_batch] */

    /* bitmaps on their way; place i is free once its event has passed */
    uint32_t               *staging;       /* pinned, [n_staging][seen_words] */
    cudaEvent_t            *staged;        /* owned, [n_staging] */
    uint32_t                n_staging;
    uint32_t                next_staging;

    hymt_cuda_step_t        steps[HYMT_CUDA_DEPTH];
    uint32_t                oldest;
    uint32_t                n_open;
    uint64_t                n_launched;
    uint64_t                n_collected;
    uint64_t                step_ns;

    hymt_error_t            error;         /* of slot_begin(), which has none */
    bool                    failed;        /* unusable from here on */

    double                  seconds[3];    /* device, weights, graphs */
    char                    lt[160];       /* cuBLASLt, or why there is none */
    char                    description[512];
};


/* ---- device_cuda.c ---- */

/*
 * HYMT_OK, or an error that names the call: HYMT_AGAIN where it found too
 * little memory, HYMT_ERROR for anything else.
 */
hymt_status_t hymt_cuda_check(cudaError_t rc, const char *call,
    hymt_error_t *err);

#define hymt_cuda_try(call, err)  hymt_cuda_check((call), #call, (err))

/*
 * Total memory of a device that can be used, which this opens.  HYMT_AGAIN: it
 * has too little left for that now.
 */
hymt_status_t hymt_cuda_device_memory(int device, uint64_t *bytes,
    hymt_error_t *err);

/* Opens params.device: b->dev and its stream.  HYMT_AGAIN as above. */
hymt_status_t hymt_cuda_open(hymt_backend_t *b, hymt_error_t *err);

/* count * size bytes; NULL while counting. */
void *hymt_cuda_take(hymt_cuda_arena_t *a, uint64_t count, uint64_t size);

/* The device's memory for what was counted; HYMT_AGAIN: it has too little. */
hymt_status_t hymt_cuda_map(hymt_cuda_arena_t *a, const char *what,
    hymt_error_t *err);


/* ---- memory_cuda.c ---- */

/* What follows from parameters and model. */
void hymt_cuda_sizes(hymt_backend_t *b);

/*
 * All memory, the device's and pinned, if it fits; zeros are on their way.
 * HYMT_AGAIN: it does not fit now, but would on a device that is empty.
 */
hymt_status_t hymt_cuda_memories(hymt_backend_t *b,
    const hymt_model_t *model, hymt_error_t *err);

/* Cosines, sines, and the list of all rows. */
hymt_status_t hymt_cuda_tables(hymt_backend_t *b, hymt_error_t *err);


/* ---- weights_cuda.c ---- */

typedef struct hymt_cuda_loader_s  hymt_cuda_loader_t;

/* Counts, or places, the weights; before and after the arena is mapped. */
void hymt_cuda_layout_weights(hymt_backend_t *b, const hymt_model_t *model);

/* Starts to read them in threads of its own, which use model and backend. */
hymt_status_t hymt_cuda_load_start(hymt_backend_t *b,
    const hymt_model_t *model, hymt_cuda_loader_t **loader, hymt_error_t *err);

/*
 * Waits until all lie on the device; `cancel`: until the threads have given up.
 * Frees the loader.  HYMT_ABORTED where *params.stop was raised.
 */
hymt_status_t hymt_cuda_load_end(hymt_cuda_loader_t *loader, bool cancel,
    hymt_error_t *err);


/* ---- forward_cuda.c ---- */

hymt_status_t hymt_cuda_create_gemms(hymt_backend_t *b, hymt_error_t *err);
void hymt_cuda_free_gemms(hymt_backend_t *b);

/* Whether a step of so many rows of prompts alone is large. */
bool hymt_cuda_is_large(const hymt_backend_t *b, uint32_t rows);

/* Places the metadata of a step that has rows .. prefill set. */
void hymt_cuda_place(hymt_cuda_shape_t *shape);

/* The kernels of one step, into the stream or the capture on it. */
cudaError_t hymt_cuda_forward(const hymt_backend_t *b,
    const hymt_cuda_shape_t *shape);

/*
 * Logits of rows first .. first + n - 1 of the step before, which had this
 * shape: after those of all rows in front of them, from 0 on.
 */
cudaError_t hymt_cuda_forward_logits(const hymt_backend_t *b,
    const hymt_cuda_shape_t *shape, uint32_t first, uint32_t n);

hymt_status_t hymt_cuda_capture(hymt_backend_t *b, hymt_error_t *err);
void hymt_cuda_free_graphs(hymt_backend_t *b);

/*
 * The smallest graph for a step that needs so much; NULL: there is none.  MIXED
 * means all of these.
 */
const hymt_cuda_graph_t *hymt_cuda_graph(const hymt_backend_t *b,
    hymt_cuda_kind_t kind, const hymt_cuda_shape_t *need);


/* ---- step_cuda.c ---- */

/* Bytes of metadata of the largest step. */
uint32_t hymt_cuda_meta_size(const hymt_backend_t *b);

hymt_status_t hymt_cuda_launch(hymt_backend_t *b, const hymt_batch_t *batch,
    hymt_error_t *err);
hymt_status_t hymt_cuda_collect(hymt_backend_t *b, uint32_t *tokens,
    hymt_error_t *err);


#endif /* HYMT_BACKEND_CUDA_H */
