/*
 * memory_cuda.c - the CUDA backend's memory: how much there is of everything,
 * whether it fits, where it lies, and the tables that never change; see
 * backend_cuda.h.
 */

#include "backend_cuda.h"
#include "claim.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>


/* left free: what the driver takes for kernels, graphs and streams */
#define HYMT_CUDA_SPARE      (256 << 20)

#define HYMT_CUDA_WORKSPACE  (64 << 20)


/* What a device has, and whether an error is asked for. */
typedef struct {
    size_t  total;
    bool    none;
} hymt_cuda_room_t;


static hymt_status_t hymt_cuda_fits(const hymt_backend_t *b,
    hymt_error_t *err);
static hymt_status_t hymt_cuda_free_bytes(void *data, uint64_t *bytes,
    hymt_error_t *err);
static hymt_status_t hymt_cuda_map_all(hymt_backend_t *b, hymt_error_t *err);
static uint64_t hymt_cuda_passing(const hymt_backend_t *b);
static void hymt_cuda_layout_kv(hymt_backend_t *b);
static void hymt_cuda_layout_other(hymt_backend_t *b);
static hymt_status_t hymt_cuda_pinned(hymt_backend_t *b, hymt_error_t *err);
static void hymt_cuda_rope_table(const hymt_backend_t *b, uint16_t *cosine,
    uint16_t *sine);
static inline uint16_t hymt_cuda_bf16(double d);


void
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


hymt_status_t
hymt_cuda_memories(hymt_backend_t *b, const hymt_model_t *model,
    hymt_error_t *err)
{
    hymt_status_t  rc;

    b->layers = calloc(b->config.n_layers, sizeof(hymt_cuda_layer_t));
    b->sampling = calloc(b->params.max_batch, sizeof(hymt_sampling_t));
    b->staged = calloc(b->n_staging, sizeof(cudaEvent_t));

    if (b->layers == NULL || b->sampling == NULL || b->staged == NULL) {
        return hymt_fail(err, "no memory for the cuda backend");
    }

    hymt_cuda_layout_weights(b, model);
    hymt_cuda_layout_kv(b);
    hymt_cuda_layout_other(b);

    rc = hymt_cuda_fits(b, err);

    if (rc == HYMT_OK) {
        rc = hymt_cuda_map_all(b, err);
    }

    if (rc != HYMT_OK) {
        return rc;
    }

    hymt_cuda_layout_weights(b, model);
    hymt_cuda_layout_kv(b);
    hymt_cuda_layout_other(b);

    rc = hymt_cuda_try(cudaMemsetAsync(b->other.base, 0, b->other.size,
                                       b->dev.stream), err);

    return rc == HYMT_OK ? hymt_cuda_pinned(b, err) : rc;
}


/* Before anything is taken, so that the error has the whole sum. */
static hymt_status_t
hymt_cuda_fits(const hymt_backend_t *b, hymt_error_t *err)
{
    bool              overflow;
    char              loads[HYMT_CLAIM_TEXT];
    uint64_t          sum, spare, free_bytes, held;
    hymt_status_t     rc;
    hymt_cuda_room_t  room;

    spare = HYMT_CUDA_SPARE + hymt_cuda_passing(b);
    room.none = b->switches.fail_alloc;

    overflow = b->weights.overflow || b->kv_pool.overflow || b->other.overflow
               || hymt_add_overflow(b->weights.used, b->kv_pool.used, &sum)
               || hymt_add_overflow(sum, b->other.used + spare, &sum);

    rc = hymt_claim_ask(overflow ? NULL : b->params.claim, b->place,
                        overflow ? UINT64_MAX : sum, hymt_cuda_free_bytes,
                        &room, &free_bytes, &held, err);

    if (rc == HYMT_AGAIN) {
        (void) hymt_fail(err, "not enough memory on device %d, %s: %" PRIu64
                         " MB for weights, %" PRIu64 " MB for the KV cache of %"
                         PRIu32 " blocks, %" PRIu64 " MB for activations and"
                         " %" PRIu64 " MB to spare are needed, %" PRIu64 " MB"
                         " of %zu MB are free%s: lower kv_tokens or max_batch,"
                         " or free the device", b->dev.device, b->name,
                         b->weights.used / 1000000, b->kv_pool.used / 1000000,
                         b->params.n_blocks, b->other.used / 1000000,
                         spare / 1000000, free_bytes / 1000000,
                         room.total / 1000000, hymt_claim_text(held, loads));

        return (overflow || sum > room.total) ? HYMT_ERROR : HYMT_AGAIN;
    }

    return rc;
}


static hymt_status_t
hymt_cuda_free_bytes(void *data, uint64_t *bytes, hymt_error_t *err)
{
    hymt_cuda_room_t *room = data;

    size_t         n = 0;
    hymt_status_t  rc;

    rc = hymt_cuda_try(cudaMemGetInfo(&n, &room->total), err);

    *bytes = room->none ? 0 : n;

    return rc == HYMT_OK ? HYMT_OK : HYMT_ERROR;
}


/* What fitted may not any more: other programs take memory, too. */
static hymt_status_t
hymt_cuda_map_all(hymt_backend_t *b, hymt_error_t *err)
{
    hymt_status_t  rc;

    rc = hymt_cuda_map(&b->weights, "weights", err);

    if (rc == HYMT_OK && b->switches.fail_taken) {
        b->kv_pool.used = UINT64_C(1) << 46;
    }

    if (rc == HYMT_OK) {
        rc = hymt_cuda_map(&b->kv_pool, "KV cache", err);
    }

    if (rc == HYMT_OK) {
        rc = hymt_cuda_map(&b->other, "activations", err);
    }

    if (rc == HYMT_OK) {
        hymt_claim_took(b->params.claim,
                        HYMT_CUDA_SPARE + hymt_cuda_passing(b));
    }

    return rc;
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

    head = b->ld_logits * (hidden * 2 + b->params.max_batch * UINT64_C(4))
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

    b->wanted = hymt_cuda_take(a, batch, hidden);
    b->logits = hymt_cuda_take(a, batch, (uint64_t) b->ld_logits * 2);
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
    hymt_status_t      rc;
    hymt_cuda_step_t  *step;

    for (i = 0; i < HYMT_CUDA_DEPTH; i++) {
        step = &b->steps[i];

        step->sample = calloc(b->params.max_batch, sizeof(uint32_t));
        if (step->sample == NULL) {
            return hymt_fail(err, "no memory for the cuda backend");
        }

        rc = hymt_cuda_try(cudaHostAlloc((void **) &step->meta, b->meta_size,
                                         cudaHostAllocDefault), err);

        if (rc == HYMT_OK) {
            rc = hymt_cuda_try(cudaHostAlloc((void **) &step->result,
                                             (b->params.max_batch + 1) * 4,
                                             cudaHostAllocDefault), err);
        }

        if (rc == HYMT_OK) {
            rc = hymt_cuda_try(cudaEventCreateWithFlags(&step->start,
                                                        cudaEventBlockingSync),
                               err);
        }

        if (rc == HYMT_OK) {
            rc = hymt_cuda_try(cudaEventCreateWithFlags(&step->done,
                                                        cudaEventBlockingSync),
                               err);
        }

        if (rc != HYMT_OK) {
            return rc;
        }
    }

    for (i = 0; i < b->n_staging; i++) {
        rc = hymt_cuda_try(cudaEventCreateWithFlags(&b->staged[i],
                                                    cudaEventDisableTiming
                                                    | cudaEventBlockingSync),
                           err);

        if (rc != HYMT_OK) {
            return rc;
        }
    }

    return hymt_cuda_try(cudaHostAlloc((void **) &b->staging,
                                       (size_t) b->n_staging * b->seen_words
                                       * 4, cudaHostAllocDefault), err);
}


hymt_status_t
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
