/*
 * backend_cuda.c - the CUDA backend of backend.h: the table, its memory, its
 * slots; see backend_cuda.h.
 */

#include "backend_cuda.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#ifndef HYMT_BUILD_ID
#define HYMT_BUILD_ID  "none"
#endif

/* left free: what the driver takes for kernels, graphs and streams */
#define HYMT_CUDA_SPARE      (256 << 20)

#define HYMT_CUDA_WORKSPACE  (64 << 20)
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
static void hymt_cuda_sizes(hymt_backend_t *b);
static hymt_status_t hymt_cuda_build(hymt_backend_t *b,
    const hymt_model_t *model, hymt_error_t *err);
static hymt_status_t hymt_cuda_memories(hymt_backend_t *b,
    const hymt_model_t *model, hymt_error_t *err);
static hymt_status_t hymt_cuda_fits(const hymt_backend_t *b,
    hymt_error_t *err);
static uint64_t hymt_cuda_passing(const hymt_backend_t *b);
static void hymt_cuda_layout_kv(hymt_backend_t *b);
static void hymt_cuda_layout_other(hymt_backend_t *b);
static hymt_status_t hymt_cuda_pinned(hymt_backend_t *b, hymt_error_t *err);
static hymt_status_t hymt_cuda_tables(hymt_backend_t *b, hymt_error_t *err);
static void hymt_cuda_rope_table(const hymt_backend_t *b, uint16_t *cosine,
    uint16_t *sine);
static inline uint16_t hymt_cuda_bf16(double d);
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
    if (p->max_batch == 0 || p->max_rows == 0 || p->n_blocks == 0
        || p->context == 0)
    {
        return hymt_fail(err, "cuda backend: max_batch %" PRIu32 ", max_rows %"
                         PRIu32 ", context %" PRIu32 ", n_blocks %" PRIu32
                         ": none may be 0", p->max_batch, p->max_rows,
                         p->context, p->n_blocks);
    }

    if (p->context > c->max_position) {
        return hymt_fail(err, "context: %" PRIu32 " is more than the model's"
                         " max_position_embeddings, %" PRIu32, p->context,
                         c->max_position);
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

    } else if (sscanf(value, "launch:%" SCNu64, &s->fail_launch) != 1
               && sscanf(value, "collect:%" SCNu64, &s->fail_collect) != 1
               && sscanf(value, "lost:%" SCNu64, &s->lose) != 1)
    {
        return hymt_fail(err, "HYMT_CUDA_FAULT: \"%.64s\" is none of alloc,"
                         " launch:N, collect:N and lost:N", value);
    }

    return HYMT_OK;
}


static void
hymt_cuda_sizes(hymt_backend_t *b)
{
    const hymt_config_t  *c;

    c = &b->config;

    b->group = c->n_heads / c->n_kv_heads;
    b->q_width = c->n_heads * HYMT_HEAD_DIM;
    b->qkv_width = (c->n_heads + 2 * c->n_kv_heads) * HYMT_HEAD_DIM;
    b->seen_words = hymt_ceil_div(c->vocab, 32);
    b->item_rows = hymt_attention_rows(b->group);
    b->kv_layer = (uint64_t) b->params.n_blocks * c->n_kv_heads * 2
                  * HYMT_KV_PAGE * HYMT_HEAD_DIM;

    b->max_table = b->params.max_batch
                   * hymt_ceil_div(b->params.context, HYMT_KV_BLOCK);
    b->meta_size = hymt_cuda_meta_size(b);
    b->n_staging = hymt_min(b->params.max_batch, HYMT_CUDA_STAGING);
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

    if (hymt_cuda_switches(&b->switches, err) != HYMT_OK
        || hymt_cuda_open(b, err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    hymt_cuda_sizes(b);

    if (hymt_cuda_memories(b, model, err) != HYMT_OK
        || hymt_cuda_load_start(b, model, &loader, err) != HYMT_OK)
    {
        return HYMT_ERROR;
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
hymt_cuda_memories(hymt_backend_t *b, const hymt_model_t *model,
    hymt_error_t *err)
{
    b->layers = calloc(b->config.n_layers, sizeof(hymt_cuda_layer_t));
    b->sampling = calloc(b->params.max_batch, sizeof(hymt_sampling_t));
    b->staged = calloc(b->n_staging, sizeof(cudaEvent_t));

    if (b->layers == NULL || b->sampling == NULL || b->staged == NULL) {
        return hymt_fail(err, "no memory for the cuda backend");
    }

    hymt_cuda_layout_weights(b, model);
    hymt_cuda_layout_kv(b);
    hymt_cuda_layout_other(b);

    if (hymt_cuda_fits(b, err) != HYMT_OK
        || hymt_cuda_map(&b->weights, "weights", err) != HYMT_OK
        || hymt_cuda_map(&b->kv_pool, "KV cache", err) != HYMT_OK
        || hymt_cuda_map(&b->other, "activations", err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    hymt_cuda_layout_weights(b, model);
    hymt_cuda_layout_kv(b);
    hymt_cuda_layout_other(b);

    if (hymt_cuda_try(cudaMemsetAsync(b->other.base, 0, b->other.size,
                                      b->dev.stream), err) != HYMT_OK
        || hymt_cuda_pinned(b, err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    return HYMT_OK;
}


/* Before anything is taken, so that the error has the whole sum. */
static hymt_status_t
hymt_cuda_fits(const hymt_backend_t *b, hymt_error_t *err)
{
    size_t    free_bytes, total;
    uint64_t  sum, spare;

    spare = HYMT_CUDA_SPARE + hymt_cuda_passing(b);

    if (hymt_cuda_try(cudaMemGetInfo(&free_bytes, &total), err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    if (b->switches.fail_alloc) {
        free_bytes = 0;
    }

    if (b->weights.overflow || b->kv_pool.overflow || b->other.overflow
        || hymt_add_overflow(b->weights.used, b->kv_pool.used, &sum)
        || hymt_add_overflow(sum, b->other.used + spare, &sum)
        || sum > free_bytes)
    {
        return hymt_fail(err, "not enough memory on device %d, %s: %" PRIu64
                         " MB for weights, %" PRIu64 " MB for the KV cache of %"
                         PRIu32 " blocks, %" PRIu64 " MB for activations and"
                         " %" PRIu64 " MB to spare are needed, %zu MB of %zu MB"
                         " are free: lower kv_tokens or max_batch, or free the"
                         " device", b->dev.device, b->name,
                         b->weights.used / 1000000, b->kv_pool.used / 1000000,
                         b->params.n_blocks, b->other.used / 1000000,
                         spare / 1000000, free_bytes / 1000000,
                         total / 1000000);
    }

    return HYMT_OK;
}


/*
 * What is taken for a while at load, to prove products on: weights of a shape,
 * rows, and their products twice.  Too little would leave cuBLASLt unused.
 */
static uint64_t
hymt_cuda_passing(const hymt_backend_t *b)
{
    uint64_t  head, gate_up, hidden;

    hidden = b->config.hidden;

    head = b->ld_logits * (hidden * 2 + b->params.max_batch * UINT64_C(8))
           + b->params.max_batch * hidden * 2;
    gate_up = b->config.ffn * UINT64_C(2)
              * (hidden * 2 + b->params.max_rows * UINT64_C(4))
              + b->params.max_rows * hidden * 2;

    return hymt_max(head, gate_up);
}


static void
hymt_cuda_layout_kv(hymt_backend_t *b)
{
    b->kv = hymt_cuda_take(&b->kv_pool, b->config.n_layers, b->kv_layer * 2);
}


static void
hymt_cuda_layout_other(hymt_backend_t *b)
{
    uint64_t              rows, batch, hidden;
    hymt_cuda_arena_t    *a;
    const hymt_config_t  *c;

    a = &b->other;
    c = &b->config;
    rows = b->params.max_rows;
    batch = b->params.max_batch;
    hidden = (uint64_t) c->hidden * 2;

    b->x = hymt_cuda_take(a, rows, hidden);
    b->h = hymt_cuda_take(a, rows, hidden);
    b->y = hymt_cuda_take(a, rows, hidden);
    b->qkv = hymt_cuda_take(a, rows, (uint64_t) b->qkv_width * 2);
    b->q = hymt_cuda_take(a, rows, (uint64_t) b->q_width * 2);
    b->o = hymt_cuda_take(a, rows, (uint64_t) b->q_width * 2);
    b->act = hymt_cuda_take(a, rows, (uint64_t) c->ffn * 2);
    b->gate_up = hymt_cuda_take(a, rows, (uint64_t) c->ffn * 4);

    b->cos = hymt_cuda_take(a, b->params.context, HYMT_HEAD_DIM / 2 * 2);
    b->sin = hymt_cuda_take(a, b->params.context, HYMT_HEAD_DIM / 2 * 2);
    b->every = hymt_cuda_take(a, rows, sizeof(uint32_t));

    b->last_h = hymt_cuda_take(a, batch, hidden);
    b->logits = hymt_cuda_take(a, batch, (uint64_t) b->ld_logits * 4);
    b->seen = hymt_cuda_take(a, batch, (uint64_t) b->seen_words * 4);
    b->last = hymt_cuda_take(a, batch, sizeof(uint32_t));
    b->result = hymt_cuda_take(a, batch + 1, sizeof(uint32_t));
    b->sample_scratch = hymt_cuda_take(a, 1,
                                       hymt_sampler_scratch((uint32_t) batch,
                                                            b->ld_logits));

    b->partial = hymt_cuda_take(a, (uint64_t) HYMT_CUDA_TILES * c->n_heads,
                                (HYMT_HEAD_DIM + 2) * sizeof(float));
    b->counters = hymt_cuda_take(a, batch * c->n_kv_heads, sizeof(uint32_t));
    b->meta = hymt_cuda_take(a, 1, b->meta_size);

    b->dev.workspace_bytes = HYMT_CUDA_WORKSPACE;
    b->dev.workspace = hymt_cuda_take(a, 1, HYMT_CUDA_WORKSPACE);
}


static hymt_status_t
hymt_cuda_pinned(hymt_backend_t *b, hymt_error_t *err)
{
    uint32_t           i;
    hymt_cuda_step_t  *step;

    for (i = 0; i < HYMT_CUDA_DEPTH; i++) {
        step = &b->steps[i];

        step->sample = calloc(b->params.max_batch, sizeof(uint32_t));
        if (step->sample == NULL) {
            return hymt_fail(err, "no memory for the cuda backend");
        }

        if (hymt_cuda_try(cudaHostAlloc((void **) &step->meta, b->meta_size,
                                        cudaHostAllocDefault), err) != HYMT_OK
            || hymt_cuda_try(cudaHostAlloc((void **) &step->result,
                                           (b->params.max_batch + 1) * 4,
                                           cudaHostAllocDefault), err)
               != HYMT_OK
            || hymt_cuda_try(cudaEventCreateWithFlags(&step->start,
                                                      cudaEventBlockingSync),
                             err) != HYMT_OK
            || hymt_cuda_try(cudaEventCreateWithFlags(&step->done,
                                                      cudaEventBlockingSync),
                             err) != HYMT_OK)
        {
            return HYMT_ERROR;
        }
    }

    for (i = 0; i < b->n_staging; i++) {
        if (hymt_cuda_try(cudaEventCreateWithFlags(&b->staged[i],
                                                   cudaEventDisableTiming
                                                   | cudaEventBlockingSync),
                          err) != HYMT_OK)
        {
            return HYMT_ERROR;
        }
    }

    return hymt_cuda_try(cudaHostAlloc((void **) &b->staging,
                                       (size_t) b->n_staging * b->seen_words
                                       * 4, cudaHostAllocDefault), err);
}


/* Cosines, sines, and the list of all rows. */
static hymt_status_t
hymt_cuda_tables(hymt_backend_t *b, hymt_error_t *err)
{
    size_t          n;
    uint32_t        i, *every;
    uint16_t       *table;
    hymt_status_t   rc;

    n = (size_t) b->params.context * (HYMT_HEAD_DIM / 2);
    table = malloc(n * 2 * sizeof(uint16_t));
    every = malloc(b->params.max_rows * sizeof(uint32_t));

    if (table == NULL || every == NULL) {
        free(table);
        free(every);
        return hymt_fail(err, "no memory for the cuda backend");
    }

    hymt_cuda_rope_table(b, table, table + n);

    for (i = 0; i < b->params.max_rows; i++) {
        every[i] = i;
    }

    /* in the stream, after the zeros; from pageable memory it waits */

    rc = HYMT_OK;

    if (hymt_cuda_try(cudaMemcpyAsync(b->cos, table, n * 2,
                                      cudaMemcpyHostToDevice, b->dev.stream),
                      err) != HYMT_OK
        || hymt_cuda_try(cudaMemcpyAsync(b->sin, table + n, n * 2,
                                         cudaMemcpyHostToDevice,
                                         b->dev.stream), err) != HYMT_OK
        || hymt_cuda_try(cudaMemcpyAsync(b->every, every,
                                         b->params.max_rows * 4,
                                         cudaMemcpyHostToDevice,
                                         b->dev.stream), err) != HYMT_OK
        || hymt_cuda_try(cudaStreamSynchronize(b->dev.stream), err) != HYMT_OK)
    {
        rc = HYMT_ERROR;
    }

    free(table);
    free(every);

    return rc;
}


/*
 * As transformers has them: frequencies and angles in fp32, their cosine and
 * sine to bf16.  inv_freq[i] = 1 / base^(2i / dim), modeling_rope_utils.py.
 */
static void
hymt_cuda_rope_table(const hymt_backend_t *b, uint16_t *cosine, uint16_t *sine)
{
    float     base, exponent, power, angle, inv_freq[HYMT_HEAD_DIM / 2];
    size_t    at;
    double    s, c;
    uint32_t  i, pos;

    base = (float) b->config.rope_base;

    for (i = 0; i < HYMT_HEAD_DIM / 2; i++) {
        exponent = (float) (2 * i) / (float) HYMT_HEAD_DIM;
        power = (float) pow((double) base, (double) exponent);
        inv_freq[i] = 1.0f / power;
    }

    for (pos = 0, at = 0; pos < b->params.context; pos++) {
        for (i = 0; i < HYMT_HEAD_DIM / 2; i++, at++) {
            angle = (float) pos * inv_freq[i];
            sincos((double) angle, &s, &c);
            cosine[at] = hymt_cuda_bf16(c);
            sine[at] = hymt_cuda_bf16(s);
        }
    }
}


/* By way of fp32, as the original is. */
static inline uint16_t
hymt_cuda_bf16(double d)
{
    float     f;
    uint32_t  bits;

    f = (float) d;
    memcpy(&bits, &f, sizeof(bits));

    return (uint16_t) ((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}


static hymt_status_t
hymt_cuda_graphs(hymt_backend_t *b, hymt_error_t *err)
{
    hymt_error_t  lt;

    /* without cuBLASLt the own kernels do it all */

    if (!b->switches.lt) {
        snprintf(b->lt, sizeof(b->lt), "without cuBLASLt, as was asked for");

    } else if (hymt_lt_open(&b->dev, lt.text, sizeof(lt.text)) == 0) {
        snprintf(b->lt, sizeof(b->lt), "cuBLASLt");

    } else {
        snprintf(b->lt, sizeof(b->lt), "slower with many rows without cuBLASLt"
                 " (%.100s)", lt.text);
    }

    if (hymt_cuda_tables(b, err) != HYMT_OK
        || hymt_cuda_create_gemms(b, err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    return hymt_cuda_capture(b, err);
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

        if (strstr(text, "; cublasLt would") != NULL) {
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
