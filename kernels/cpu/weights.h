/*
 * weights.h - a model's weights in memory, as the CPU kernels read them.
 *
 * bf16 stays bf16; F16 and F32 become f32.  Matrices that read the same rows
 * of x are one: q, k and v row after row, gate and up in alternating panels
 * (so that one item of work has both values of its outputs).
 *
 * Ownership: all memory is in the mapping.  Thread: any once loaded.
 */

#ifndef HYMT_WEIGHTS_H
#define HYMT_WEIGHTS_H

#include "mapping.h"
#include "kernels.h"
#include "pool.h"


typedef struct {
    float          *input_norm;  /* [hidden] */
    float          *post_norm;   /* [hidden] */
    float          *q_norm;      /* [dim], NULL without qk_norm; the rest 0 */
    float          *k_norm;      /* [dim] */
    hymt_matrix_t   qkv;         /* [q + k + v, hidden] */
    hymt_matrix_t   o;           /* [hidden, n_heads * head_dim] */
    hymt_matrix_t   gate_up;     /* [2 * (ffn rounded up to 32), hidden] */
    hymt_matrix_t   down;        /* [hidden, ffn] */
} hymt_layer_weights_t;


typedef struct {
    hymt_mapping_t         mapping;
    hymt_layer_weights_t  *layers;     /* [n_layers] */
    float                 *norm;       /* [hidden] */
    hymt_matrix_t          embed;      /* [vocab, hidden] */
    hymt_matrix_t          lm_head;    /* embed's data where tied */
} hymt_weights_t;


/* Bytes that hymt_weights_load() will map; UINT64_MAX where it overflows. */
uint64_t hymt_weights_bytes(const hymt_model_t *model);


/*
 * Allocates and reads all weights, repacking with the pool's threads.
 * HYMT_ABORTED where *stop was raised.  On any failure nothing is left behind.
 */
hymt_status_t hymt_weights_load(hymt_weights_t *w, const hymt_model_t *model,
    hymt_pool_t *pool, const volatile int *stop, hymt_error_t *err);

void hymt_weights_free(hymt_weights_t *w);


/* Row n of a matrix as floats, out [k]. */
void hymt_matrix_row(const hymt_matrix_t *m, uint32_t n, float *out);


#endif /* HYMT_WEIGHTS_H */
