/*
 * sizing.h - how large an engine is made: context, rows of a step, KV blocks.
 *
 * KV defaults to max_batch * 1024 tokens, at least one context, and at most
 * what fits into (memory / 2 - weights), so that during a reload two
 * generations of the engine fit side by side.
 *
 * Thread: any.
 */

#ifndef HYMT_SIZING_H
#define HYMT_SIZING_H

#include "engine.h"


#define HYMT_MAX_BATCH        1024
#define HYMT_DEFAULT_CONTEXT  8192


typedef struct {
    uint32_t  context;    /* tokens of one sequence */
    uint32_t  max_rows;   /* of a step */
    uint32_t  n_blocks;   /* KV blocks in the pool */
    uint64_t  kv_bytes;   /* that they take */
} hymt_sizing_t;


/*
 * Sizes for a model of `weights` bytes in `memory` bytes, for a backend of this
 * depth whose KV numbers take `kv_element` bytes.  Errors name the setting,
 * what was found and what would be right.
 */
hymt_status_t hymt_sizing(const hymt_engine_params_t *params,
    uint32_t depth, uint32_t kv_element, const hymt_config_t *config,
    uint64_t weights, uint64_t memory, hymt_sizing_t *sizing,
    hymt_error_t *err);

/*
 * Bytes this process may use: the host's memory or the tightest limit of the
 * control groups it is in.
 */
uint64_t hymt_sizing_memory(void);


#endif /* HYMT_SIZING_H */
