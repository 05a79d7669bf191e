/*
 * model.h - a model directory on disk: its config and the place, type and
 * shape of every weight, each checked, none read yet.
 *
 * A directory holds config.json and either model.safetensors or
 * model.safetensors.index.json with its shards.  Opening reads headers only
 * (see safetensors.h for what is checked there); then every tensor the
 * architecture needs must be there with the right shape, and a tensor that
 * the architecture does not know is an error, except lm_head.weight of a tied
 * model.  Weights are read later by pread into memory the backend owns: a file
 * replaced by another gives its old bytes, one written to in place an error,
 * never a SIGBUS.
 *
 * Ownership: the model owns names, descriptors and file handles;
 * hymt_model_close() frees all.  Thread: one at a time.
 */

#ifndef HYMT_MODEL_H
#define HYMT_MODEL_H

#include "config.h"


typedef enum {
    HYMT_F32 = 0,
    HYMT_F16,
    HYMT_BF16,
} hymt_dtype_t;


typedef struct {
    const char   *name;
    const char   *file;        /* path, for messages */
    int           fd;
    hymt_dtype_t  dtype;
    uint32_t      n_dims;      /* 1 or 2 */
    uint64_t      shape[2];    /* [rows, cols], or [n, 1] */
    uint64_t      offset;      /* absolute, in the file */
    uint64_t      bytes;
    uint64_t      mtime_ns;    /* of the file when opened; 0: not checked */
} hymt_tensor_t;


typedef struct {
    const hymt_tensor_t *input_norm;   /* [hidden] */
    const hymt_tensor_t *q;            /* [n_heads * head_dim, hidden] */
    const hymt_tensor_t *k;            /* [n_kv_heads * head_dim, hidden] */
    const hymt_tensor_t *v;            /* same */
    const hymt_tensor_t *o;            /* [hidden, n_heads * head_dim] */
    const hymt_tensor_t *q_norm;       /* [head_dim], NULL without qk_norm */
    const hymt_tensor_t *k_norm;       /* [head_dim], NULL without qk_norm */
    const hymt_tensor_t *post_norm;    /* [hidden] */
    const hymt_tensor_t *gate;         /* [ffn, hidden] */
    const hymt_tensor_t *up;           /* [ffn, hidden] */
    const hymt_tensor_t *down;         /* [hidden, ffn] */
} hymt_layer_t;


typedef struct {
    hymt_config_t         config;
    char                 *dir;
    const hymt_tensor_t  *embed;       /* [vocab, hidden] */
    const hymt_tensor_t  *norm;        /* [hidden] */
    const hymt_tensor_t  *lm_head;     /* [vocab, hidden]; embed where tied */
    hymt_layer_t         *layers;      /* [n_layers] */
    uint64_t              n_params;    /* unique: without a tied lm_head */
    uint64_t              bytes;       /* of those, on disk */
    struct hymt_model_private_s  *priv;
} hymt_model_t;


hymt_status_t hymt_model_open(const char *dir, hymt_model_t **model,
    hymt_error_t *err);

void hymt_model_close(hymt_model_t *model);

size_t hymt_dtype_size(hymt_dtype_t dtype);

const char *hymt_dtype_name(hymt_dtype_t dtype);


/*
 * Reads n elements of a tensor starting at element first, as they lie in the
 * file, into dst [n * hymt_dtype_size(t->dtype)].  pread in chunks of at most
 * 16 MiB; a short read, or a file changed since it was opened, is an error
 * that names file, tensor and offset.
 * Between chunks *stop (may be NULL) is looked at: non-zero returns
 * HYMT_ABORTED.
 */
hymt_status_t hymt_tensor_read(const hymt_tensor_t *t, uint64_t first,
    uint64_t n, void *dst, const volatile int *stop, hymt_error_t *err);


/* The same, converted to float.  Reads through a bounded buffer. */
hymt_status_t hymt_tensor_read_f32(const hymt_tensor_t *t, uint64_t first,
    uint64_t n, float *dst, const volatile int *stop, hymt_error_t *err);


#endif /* HYMT_MODEL_H */
