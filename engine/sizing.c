/*
 * sizing.c - see sizing.h.
 */

#include "sizing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


#define HYMT_KV_TOKENS_PER_SEQ  1024

/* prompt rows of one step: GEMMs gain nothing from more */
#define HYMT_PROMPT_ROWS_HOST   256
#define HYMT_PROMPT_ROWS_CARD   2048

#define HYMT_CGROUP_PATH        4096


static hymt_status_t hymt_sizing_context(const hymt_engine_params_t *params,
    const hymt_config_t *config, uint32_t *context, hymt_error_t *err);
static hymt_status_t hymt_sizing_kv(const hymt_engine_params_t *params,
    uint32_t element, const hymt_config_t *config, uint64_t weights,
    uint64_t memory, hymt_sizing_t *sizing, hymt_error_t *err);
static uint64_t hymt_sizing_default_kv(const hymt_engine_params_t *params,
    uint64_t token, uint64_t weights, uint64_t memory, uint32_t context);
static uint64_t hymt_sizing_cgroup_2(void);
static uint64_t hymt_sizing_limit(const char *path);


hymt_status_t
hymt_sizing(const hymt_engine_params_t *params, uint32_t depth,
    uint32_t kv_element, const hymt_config_t *config, uint64_t weights,
    uint64_t memory, hymt_sizing_t *sizing, hymt_error_t *err)
{
    if (params->max_batch == 0 || params->max_batch > HYMT_MAX_BATCH) {
        return hymt_fail(err, "max_batch %" PRIu32 ": 1 to %d are possible",
                         params->max_batch, HYMT_MAX_BATCH);
    }

    if (hymt_sizing_context(params, config, &sizing->context, err)
        != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    sizing->max_rows = params->max_batch
                       + (depth == 1 ? HYMT_PROMPT_ROWS_HOST
                                     : HYMT_PROMPT_ROWS_CARD);

    return hymt_sizing_kv(params, kv_element, config, weights, memory, sizing,
                          err);
}


static hymt_status_t
hymt_sizing_context(const hymt_engine_params_t *params,
    const hymt_config_t *config, uint32_t *context, hymt_error_t *err)
{
    if (params->context == 0) {
        *context = hymt_min(HYMT_DEFAULT_CONTEXT, config->max_position);
        return HYMT_OK;
    }

    if (params->context < HYMT_KV_BLOCK) {
        return hymt_fail(err, "context %" PRIu32 ": at least %d tokens are"
                         " needed", params->context, HYMT_KV_BLOCK);
    }

    if (params->context > config->max_position) {
        return hymt_fail(err, "context %" PRIu32 " is over the model's"
                         " max_position_embeddings, %" PRIu32,
                         params->context, config->max_position);
    }

    *context = params->context;

    return HYMT_OK;
}


static hymt_status_t
hymt_sizing_kv(const hymt_engine_params_t *params, uint32_t element,
    const hymt_config_t *config, uint64_t weights, uint64_t memory,
    hymt_sizing_t *sizing, hymt_error_t *err)
{
    uint64_t  token, tokens, need;

    /* keys and values */

    if (hymt_mul_overflow((uint64_t) config->n_layers * config->n_kv_heads,
                          (uint64_t) config->head_dim * 2 * element, &token))
    {
        return hymt_fail(err, "the model's KV of one token does not fit in 64"
                         " bits");
    }

    tokens = params->kv_tokens;

    if (tokens == 0) {
        tokens = hymt_sizing_default_kv(params, token, weights, memory,
                                        sizing->context);

    } else if (tokens < sizing->context) {
        return hymt_fail(err, "kv_tokens %" PRIu64 " is less than one context"
                         " of %" PRIu32 " tokens: raise it, or lower context",
                         tokens, sizing->context);
    }

    tokens = tokens / HYMT_KV_BLOCK + (tokens % HYMT_KV_BLOCK != 0);

    if (tokens > UINT32_MAX / HYMT_KV_BLOCK
        || hymt_mul_overflow(tokens * HYMT_KV_BLOCK, token, &sizing->kv_bytes)
        || hymt_add_overflow(sizing->kv_bytes, weights, &need)
        || need > memory)
    {
        return hymt_fail(err, "%" PRIu64 " blocks of %d tokens of KV, %" PRIu64
                         " bytes a token, and %" PRIu64 " bytes of weights do"
                         " not fit into %" PRIu64 " bytes of memory: lower"
                         " kv_tokens, max_batch or context", tokens,
                         HYMT_KV_BLOCK, token, weights, memory);
    }

    sizing->n_blocks = (uint32_t) tokens;

    return HYMT_OK;
}


static uint64_t
hymt_sizing_default_kv(const hymt_engine_params_t *params, uint64_t token,
    uint64_t weights, uint64_t memory, uint32_t context)
{
    uint64_t  tokens, fit;

    tokens = (uint64_t) params->max_batch * HYMT_KV_TOKENS_PER_SEQ;
    fit = memory / 2 > weights ? (memory / 2 - weights) / token : 0;

    tokens = hymt_min(tokens, fit);

    return hymt_max(tokens, context);
}


uint64_t
hymt_sizing_memory(void)
{
    long      pages, size;
    uint64_t  memory, limit;

    pages = sysconf(_SC_PHYS_PAGES);
    size = sysconf(_SC_PAGESIZE);

    memory = pages > 0 && size > 0 ? (uint64_t) pages * (uint64_t) size
                                   : UINT64_MAX;

    limit = hymt_sizing_cgroup_2();
    memory = hymt_min(memory, limit);

    /* version 1, as a container sees its own */

    limit = hymt_sizing_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes");

    return hymt_min(memory, limit);
}


/* The tightest memory.max from this process's group up to the root. */
static uint64_t
hymt_sizing_cgroup_2(void)
{
    FILE      *f;
    char      *end, line[HYMT_CGROUP_PATH], path[HYMT_CGROUP_PATH + 64];
    uint64_t   memory, limit;

    f = fopen("/proc/self/cgroup", "re");
    if (f == NULL) {
        return UINT64_MAX;
    }

    memory = UINT64_MAX;

    while (fgets(line, sizeof(line), f) != NULL) {

        if (strncmp(line, "0::/", 4) != 0) {
            continue;
        }

        line[strcspn(line, "\n")] = '\0';

        do {
            snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max",
                     line + 3);

            limit = hymt_sizing_limit(path);
            memory = hymt_min(memory, limit);

            end = strrchr(line + 3, '/');
            if (end != NULL) {
                *end = '\0';
            }

        } while (end != NULL);
    }

    fclose(f);

    return memory;
}


/* The number in a file; "max", or no file: no limit. */
static uint64_t
hymt_sizing_limit(const char *path)
{
    FILE                *f;
    unsigned long long   limit;

    f = fopen(path, "re");
    if (f == NULL) {
        return UINT64_MAX;
    }

    if (fscanf(f, "%llu", &limit) != 1) {
        limit = UINT64_MAX;
    }

    fclose(f);

    return limit;
}
