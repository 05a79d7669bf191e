/*
 * random_model.h - what the files of the program share: the model that is
 * written, and who writes which of its files.
 */

#ifndef HYMT_BENCH_RANDOM_MODEL_H
#define HYMT_BENCH_RANDOM_MODEL_H

#include "base.h"

#include <stdatomic.h>
#include <stdio.h>


#define RM_MAX_THREADS  64
#define RM_MAX_SHARDS   64
#define RM_PATH         4096


typedef struct {
    const char  *name;
    uint32_t     layers;
    uint32_t     hidden;
    uint32_t     ffn;
    uint32_t     heads;
    uint32_t     kv_heads;
    uint32_t     vocab;
    uint32_t     alpha;
    uint32_t     positions;
} rm_shape_t;


typedef struct {
    char      name[96];
    uint32_t  rows;
    uint32_t  cols;           /* 0: a vector of `rows`, a norm */
    uint32_t  shard;
    uint64_t  begin;          /* of its data, in the shard */
    uint64_t  bytes;
} rm_tensor_t;


typedef struct {
    rm_shape_t         shape;
    uint64_t           seed;
    uint32_t           threads;
    char               dir[RM_PATH];
    const char        *tokenizer;

    rm_tensor_t       *tensors;
    uint32_t           n_tensors;
    uint32_t           n_shards;
    uint64_t           bytes;             /* of weights in all */
    int                fd[RM_MAX_SHARDS];
    uint64_t           data[RM_MAX_SHARDS];   /* where data begins */

    uint16_t          *matrix;            /* [65536] quantiles, bf16 bits */
    uint16_t          *norm;

    _Atomic uint64_t   next;              /* chunk to be written */
    _Atomic int        failed;            /* errno */
} rm_t;


/* weights.c */

/* Names, shapes and places of all tensors. */
hymt_status_t rm_plan(rm_t *rm, hymt_error_t *err);

/* Writes the files planned, and an index where there are several. */
hymt_status_t rm_weights(rm_t *rm, hymt_error_t *err);


/* texts.c */

/* Writes config.json, the tokenizer, and copies of what goes with it. */
hymt_status_t rm_texts(const rm_t *rm, hymt_error_t *err);


/* main.c */

/* A new file of the directory; NULL: error. */
FILE *rm_create(const rm_t *rm, const char *name, hymt_error_t *err);

/* Closes it; an error where it could not be written. */
hymt_status_t rm_close(FILE *f, const char *name, hymt_error_t *err);


#endif /* HYMT_BENCH_RANDOM_MODEL_H */
