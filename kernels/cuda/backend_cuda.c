/*
 * backend_cuda.c - the CUDA backend of backend.h: the table, what it can do,
 * how it is made, its slots; see backend_cuda.h.
 */

#include "backend_cuda.h"
#include "batch_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#ifndef HYMT_BUILD_ID
#define HYMT_BUILD_ID  "none"
#endif

#define HYMT_CUDA_MAX_HIDDEN 8192
#define HYMT_CUDA_MAX_VOCAB  262144
#define HYMT_CUDA_MAX_TABLE  (1 << 28)   /* blocks of all sequences */


static hymt_status_t hymt_cuda_create(const hymt_backend_params_t *params,
    const hymt_model_t *model, hymt_backend_t **out, hymt_error_t *err);
static hymt_status_t hymt_cuda_check_params(const hymt_backend_params_t *p,
    const hymt_config_t *c, hymt_error_t *err);
static hymt_status_t hymt_cuda_check_shape(const hymt_config_t *c,
    hymt_error_t *err);
static hymt_status_t hymt_cuda_switches(hymt_cuda_switches_t *s,
    hymt_error_t *err);
static hymt_status_t hymt_cuda_build(hymt_backend_t *b,
    const hymt_model_t *model, hymt_error_t *err);
static hymt_status_t hymt_cuda_graphs(hymt_backend_t *b, hymt_error_t *err);
static void hymt_cuda_tell(hymt_backend_t *b);
static void hymt_cuda_tell_gemms(hymt_backend_t *b);
static void hymt_cuda_destroy(hymt_backend_t *b);
static void hymt_cuda_slot_begin(hymt_backend_t *b, uint32_t slot,
    const hymt_sampling_t *sampling, const uint32_t *prompt,
    uint32_t n_prompt);
static hymt_status_t hymt_cuda_send_seen(hymt_backend_t *b, uint32_t slot,
    const uint32_t *prompt, uint32_t n_prompt, hymt_error_t *err);
static void hymt_cuda_memory(const hymt_backend_t *b, uint64_t *weights,
    uint64_t *kv, uint64_t *other);
static const char *hymt_cuda_describe(const hymt_backend_t *b);
static uint64_t hymt_cuda_step_ns(const hymt_backend_t *b);


static const hymt_backend_ops_t  hymt_cuda_ops = {
    .abi = HYMT_BACKEND_ABI,
    .build_id = HYMT_BUILD_ID,
    .name = "cuda",
    .depth = HYMT_CUDA_DEPTH,
    .create = hymt_cuda_create,
    .destroy = hymt_cuda_destroy,
    .slot_begin = hymt_cuda_slot_begin,
    .launch = hymt_cuda_launch,
    .collect = hymt_cuda_collect,
    .memory = hymt_cuda_memory,
    .describe = hymt_cuda_describe,
    .kv_element = sizeof(hymt_bf16_t),
    .device_memory = hymt_cuda_device_memory,
    .step_ns = hymt_cuda_step_ns,
};


const hymt_backend_ops_t *hymt_backend_cuda_ops(void);


/* The one symbol of the shared object; HYMT_BACKEND_CUDA_SYMBOL. */
__attribute__((visibility("default")))
const hymt_backend_ops_t *
hymt_backend_cuda_ops(void)
{
    return &hymt_cuda_ops;
}


static hymt_status_t
hymt_cuda_create(const hymt_backend_params_t *params,
    const hymt_model_t *model, hymt_backend_t **out, hymt_error_t *err)
{
    hymt_status_t    rc;
    hymt_backend_t  *b;

    if (hymt_cuda_check_params(params, &model->config, err) != HYMT_OK
        || hymt_cuda_check_shape(&model->config, err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    b = calloc(1, sizeof(hymt_backend_t));
    if (b == NULL) {
        return hymt_fail(err, "no memory for the cuda backend");
    }

    b->params = *params;
    b->config = model->config;

    rc = hymt_cuda_build(b, model, err);

    if (rc != HYMT_OK) {
        hymt_cuda_destroy(b);
        return rc;
    }

    hymt_cuda_tell(b);
    *out = b;

    return HYMT_OK;
}


static hymt_status_t
hymt_cuda_check_params(const hymt_backend_params_t *p, const hymt_config_t *c,
    hymt_error_t *err)
{
    if (hymt_backend_params_check("cuda", p, c, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    if (p->n_blocks > INT32_MAX / HYMT_KV_BLOCK) {
        return hymt_fail(err, "cuda backend: %" PRIu32 " KV blocks, at most %d"
                         " are possible: lower kv_tokens", p->n_blocks,
                         INT32_MAX / HYMT_KV_BLOCK);
    }

    /* offsets into a step's metadata have 32 bits */

    if (p->max_batch > HYMT_CUDA_MAX_TABLE
                       / hymt_ceil_div(p->context, HYMT_KV_BLOCK))
    {
        return hymt_fail(err, "cuda backend: %" PRIu32 " sequences of %" PRIu32
                         " tokens are too many for one step: lower max_batch"
                         " or context", p->max_batch, p->context);
    }

    return HYMT_OK;
}


/* What the kernels are built for. */
static hymt_status_t
hymt_cuda_check_shape(const hymt_config_t *c, hymt_error_t *err)
{
    uint32_t  group;

    group = c->n_heads / c->n_kv_heads;

    if (c->head_dim != HYMT_HEAD_DIM) {
        return hymt_fail(err, "cuda backend: the model's head_dim is %" PRIu32
                         ", %d is possible: use backend cpu", c->head_dim,
                         HYMT_HEAD_DIM);
    }

    if (group != 1 && group != 2 && group != 4 && group != 8) {
        return hymt_fail(err, "cuda backend: the model has %" PRIu32 " heads"
                         " for each KV head, 1, 2, 4 and 8 are possible: use"
                         " backend cpu", group);
    }

    if (c->hidden % 64 != 0 || c->hidden > HYMT_CUDA_MAX_HIDDEN
        || c->ffn % 64 != 0)
    {
        return hymt_fail(err, "cuda backend: the model's hidden_size %" PRIu32
                         " and intermediate_size %" PRIu32 " must be multiples"
                         " of 64, hidden_size at most %d: use backend cpu",
                         c->hidden, c->ffn, HYMT_CUDA_MAX_HIDDEN);
    }

    if (c->vocab > HYMT_CUDA_MAX_VOCAB) {
        return hymt_fail(err, "cuda backend: the model's vocabulary of %" PRIu32
                         " is over %d: use backend cpu", c->vocab,
                         HYMT_CUDA_MAX_VOCAB);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_cuda_switches(hymt_cuda_switches_t *s, hymt_error_t *err)
{
    size_t       i;
    const char  *value;

    const struct {
        const char  *name;
        bool        *on;
    } flags[] = {
        { "HYMT_CUDA_GRAPHS", &s->graphs },
        { "HYMT_CUDA_PDL", &s->pdl },
        { "HYMT_CUDA_LT", &s->lt },
    };

    for (i = 0; i < hymt_nelts(flags); i++) {
        value = getenv(flags[i].name);
        *flags[i].on = value == NULL || strcmp(value, "off") != 0;
    }

    value = getenv("HYMT_CUDA_FAULT");

    if (value == NULL) {
        return HYMT_OK;
    }

    if (strcmp(value, "alloc") == 0) {
        s->fail_alloc = true;

    } else if (strcmp(value, "taken") == 0) {
        s->fail_taken = true;

    } else if (sscanf(value, "launch:%" SCNu64, &s->fail_launch) != 1
               && sscanf(value, "collect:%" SCNu64, &s->fail_collect) != 1
               && sscanf(value, "lost:%" SCNu64, &s->lose) != 1)
    {
        return hymt_fail(err, "HYMT_CUDA_FAULT: \"%.64s\" is none of alloc,"
                         " taken, launch:N, collect:N and lost:N", value);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_cuda_build(hymt_backend_t *b, const hymt_model_t *model,
    hymt_error_t *err)
{
    uint64_t             start, opened;
    hymt_status_t        rc, end;
    hymt_error_t         other;
    hymt_cuda_loader_t  *loader;

    start = hymt_now_ns();

    rc = hymt_cuda_switches(&b->switches, err);

    if (rc == HYMT_OK) {
        rc = hymt_cuda_open(b, err);
    }

    if (rc != HYMT_OK) {
        return rc;
    }

    hymt_cuda_sizes(b);

    rc = hymt_cuda_memories(b, model, err);

    if (rc == HYMT_OK) {
        rc = hymt_cuda_load_start(b, model, &loader, err);
    }

    if (rc != HYMT_OK) {
        return rc;
    }

    opened = hymt_now_ns();
    b->seconds[0] = (double) (opened - start) / 1e9;

    /* kernels are made ready for weights that are still on their way */

    rc = hymt_cuda_graphs(b, err);
    b->seconds[2] = (double) (hymt_now_ns() - opened) / 1e9;

    end = hymt_cuda_load_end(loader, rc != HYMT_OK,
                             rc == HYMT_OK ? err : &other);
    b->seconds[1] = (double) (hymt_now_ns() - opened) / 1e9;

    if (rc == HYMT_OK) {
        rc = end;
    }

    if (rc == HYMT_OK) {
        rc = hymt_cuda_try(cudaStreamSynchronize(b->dev.stream), err);
    }

    return rc;
}


static hymt_status_t
hymt_cuda_graphs(hymt_backend_t *b, hymt_error_t *err)
{
    hymt_error_t   lt;
    hymt_status_t  rc;

    /* without cuBLASLt the own kernels do it all */

    if (!b->switches.lt) {
        snprintf(b->lt, sizeof(b->lt), "without cuBLASLt, as was asked for");

    } else if (hymt_lt_open(&b->dev, lt.text, sizeof(lt.text)) == 0) {
        snprintf(b->lt, sizeof(b->lt), "cuBLASLt");

    } else {
        snprintf(b->lt, sizeof(b->lt), "slower with many rows without cuBLASLt"
                 " (%.100s)", lt.text);
    }

    rc = hymt_cuda_tables(b, err);

    if (rc == HYMT_OK) {
        rc = hymt_cuda_create_gemms(b, err);
    }

    if (rc == HYMT_OK) {
        rc = hymt_cuda_capture(b, err);
    }

    return rc;
}


static void
hymt_cuda_tell(hymt_backend_t *b)
{
    snprintf(b->description, sizeof(b->description), "device %d, %s, sm_%d,"
             " %s, %" PRIu32 " graphs%s; device %.2f s, weights %.2f s, graphs"
             " %.2f s", b->dev.device, b->name, b->dev.cc, b->lt, b->n_graphs,
             b->dev.pdl ? " with dependent launch" : "", b->seconds[0],
             b->seconds[1], b->seconds[2]);

    hymt_cuda_tell_gemms(b);
}


/* Products for which cuBLASLt was to be used and was not. */
static void
hymt_cuda_tell_gemms(hymt_backend_t *b)
{
    char      text[256];
    size_t    used;
    uint32_t  i;

    const hymt_gemm_t  *list[] = {
        b->gemms[0].qkv, b->gemms[0].o, b->gemms[0].gate_up, b->gemms[0].down,
        b->gemm_logits,
    };

    for (i = 0; i < hymt_nelts(list); i++) {
        hymt_gemm_describe(list[i], text, sizeof(text));

        if (strstr(text, "; cublasLt ") != NULL) {
            used = strlen(b->description);
            snprintf(b->description + used, sizeof(b->description) - used,
                     "; product %s", text);
        }
    }
}


/* Also after an error that makes every call fail: what can't be freed stays. */
static void
hymt_cuda_destroy(hymt_backend_t *b)
{
    uint32_t           i;
    hymt_cuda_step_t  *step;

    if (b == NULL) {
        return;
    }

    (void) cudaSetDevice(b->params.device);

    if (b->dev.stream != NULL) {
        (void) cudaStreamSynchronize(b->dev.stream);
    }

    hymt_cuda_free_graphs(b);
    hymt_cuda_free_gemms(b);

    hymt_lt_close(&b->dev);

    for (i = 0; i < HYMT_CUDA_DEPTH; i++) {
        step = &b->steps[i];

        (void) cudaFreeHost(step->meta);
        (void) cudaFreeHost(step->result);
        free(step->sample);

        if (step->start != NULL) {
            (void) cudaEventDestroy(step->start);
        }

        if (step->done != NULL) {
            (void) cudaEventDestroy(step->done);
        }
    }

    for (i = 0; b->staged != NULL && i < b->n_staging; i++) {
        if (b->staged[i] != NULL) {
            (void) cudaEventDestroy(b->staged[i]);
        }
    }

    (void) cudaFreeHost(b->staging);
    (void) cudaFree(b->weights.base);
    (void) cudaFree(b->kv_pool.base);
    (void) cudaFree(b->other.base);

    if (b->dev.stream != NULL) {
        (void) cudaStreamDestroy(b->dev.stream);
    }

    free(b->layers);
    free(b->sampling);
    free(b->staged);
    free(b);
}


static void
hymt_cuda_slot_begin(hymt_backend_t *b, uint32_t slot,
    const hymt_sampling_t *sampling, const uint32_t *prompt,
    uint32_t n_prompt)
{
    b->sampling[slot] = *sampling;

    if (sampling->repetition_penalty == 1 || b->failed) {
        return;
    }

    if (hymt_cuda_send_seen(b, slot, prompt, n_prompt, &b->error) != HYMT_OK) {
        b->failed = true;
    }
}


/* The set of ids in the prompt, to the slot's bitmap, in the stream's order. */
static hymt_status_t
hymt_cuda_send_seen(hymt_backend_t *b, uint32_t slot, const uint32_t *prompt,
    uint32_t n_prompt, hymt_error_t *err)
{
    uint32_t     i, *words;
    cudaEvent_t  staged;

    staged = b->staged[b->next_staging];
    words = b->staging + (size_t) b->next_staging * b->seen_words;
    b->next_staging = (b->next_staging + 1) % b->n_staging;

    if (hymt_cuda_try(cudaEventSynchronize(staged), err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    memset(words, 0, (size_t) b->seen_words * 4);

    for (i = 0; i < n_prompt; i++) {
        if (prompt[i] < b->config.vocab) {
            words[prompt[i] / 32] |= UINT32_C(1) << prompt[i] % 32;
        }
    }

    if (hymt_cuda_try(cudaMemcpyAsync(b->seen + (size_t) slot * b->seen_words,
                                      words, (size_t) b->seen_words * 4,
                                      cudaMemcpyHostToDevice, b->dev.stream),
                      err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    return hymt_cuda_try(cudaEventRecord(staged, b->dev.stream), err);
}


static void
hymt_cuda_memory(const hymt_backend_t *b, uint64_t *weights, uint64_t *kv,
    uint64_t *other)
{
    *weights = b->weights.size;
    *kv = b->kv_pool.size;
    *other = b->other.size;
}


static const char *
hymt_cuda_describe(const hymt_backend_t *b)
{
    return b->description;
}


static uint64_t
hymt_cuda_step_ns(const hymt_backend_t *b)
{
    return b->step_ns;
}
