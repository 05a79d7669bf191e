/*
 * ref.c - the forward pass of HunYuanDenseV1 in double precision, one row after
 * another, to be read from top to bottom: what the backends are compared with.
 *
 * transformers, models/hunyuan_v1_dense/modeling_hunyuan_v1_dense.py.  The
 * angles of the rotary embedding are fp32 as there; all else is double.  No
 * threads, no blocking, every weight as floats: for tests and tiny models.
 */

#include "backend.h"
#include "batch_check.h"
#include "kernels.h"
#include "sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>


#ifndef HYMT_BUILD_ID
#define HYMT_BUILD_ID  "none"
#endif


typedef struct {
    float  *input_norm, *post_norm, *q_norm, *k_norm;
    float  *q, *k, *v, *o, *gate, *up, *down;
} hymt_ref_layer_t;


typedef struct {
    hymt_sampling_t   sampling;
    uint32_t          last;
    uint64_t         *seen;
} hymt_ref_slot_t;


struct hymt_backend_s {
    hymt_backend_params_t   params;
    hymt_config_t           config;
    hymt_ref_layer_t       *layers;
    float                  *embed, *lm_head, *norm;
    float                  *inv_freq;

    /* [n_layers][n_blocks][16 tokens][n_kv_heads][head_dim] */
    double                 *k_cache, *v_cache;

    double                 *x, *h, *q, *k, *v, *o, *gate, *up;
    double                 *score;        /* [context] */
    double                 *scratch;      /* [vocab] */
    float                  *logits;       /* [vocab] */

    hymt_ref_slot_t        *slots;
    uint32_t               *sampled;      /* [max_batch] */
    uint32_t                n_seqs;
    bool                    launched;
    hymt_status_t           result;

    /* everything allocated, to count and free */
    void                  **blocks;
    uint32_t                n_blocks;
    uint64_t                weight_bytes, kv_bytes, other_bytes;
};


static hymt_status_t hymt_ref_create(const hymt_backend_params_t *params,
    const hymt_model_t *model, hymt_backend_t **out, hymt_error_t *err);
static hymt_status_t hymt_ref_load(hymt_backend_t *b,
    const hymt_model_t *model, hymt_error_t *err);
static hymt_status_t hymt_ref_tensor(hymt_backend_t *b, float **dst,
    const hymt_tensor_t *t, hymt_error_t *err);
static hymt_status_t hymt_ref_buffers(hymt_backend_t *b, hymt_error_t *err);
static void *hymt_ref_alloc(hymt_backend_t *b, uint64_t n, uint64_t size,
    uint64_t *sum);
static void hymt_ref_destroy(hymt_backend_t *b);
static void hymt_ref_slot_begin(hymt_backend_t *b, uint32_t slot,
    const hymt_sampling_t *sampling, const uint32_t *prompt,
    uint32_t n_prompt);
static hymt_status_t hymt_ref_launch(hymt_backend_t *b,
    const hymt_batch_t *batch, hymt_error_t *err);
static hymt_status_t hymt_ref_check(hymt_backend_t *b,
    const hymt_batch_t *batch, hymt_error_t *err);
static bool hymt_ref_given_up(const hymt_backend_t *b,
    const hymt_batch_t *batch);
static hymt_status_t hymt_ref_row(hymt_backend_t *b, const hymt_batch_t *batch,
    uint32_t seq, uint32_t pos, uint32_t token);
static void hymt_ref_norm(double *y, const double *x, const float *w,
    uint32_t n, double eps);
static void hymt_ref_matmul(double *y, const float *w, const double *x,
    uint32_t n, uint32_t k);
static void hymt_ref_rope(const hymt_backend_t *b, double *x, uint32_t pos);
static double *hymt_ref_cache(const hymt_backend_t *b, double *cache,
    uint32_t layer, const uint32_t *table, uint32_t pos);
static void hymt_ref_attention(hymt_backend_t *b, uint32_t layer,
    const uint32_t *table, uint32_t pos);
static void hymt_ref_logits(hymt_backend_t *b);
static void hymt_ref_sample(hymt_backend_t *b, const hymt_batch_t *batch,
    uint32_t seq);
static hymt_status_t hymt_ref_collect(hymt_backend_t *b, uint32_t *tokens,
    hymt_error_t *err);
static void hymt_ref_memory(const hymt_backend_t *b, uint64_t *weights,
    uint64_t *kv, uint64_t *other);
static const char *hymt_ref_describe(const hymt_backend_t *b);


const hymt_backend_ops_t  hymt_backend_ref = {
    .abi = HYMT_BACKEND_ABI,
    .build_id = HYMT_BUILD_ID,
    .name = "ref",
    .depth = 1,
    .create = hymt_ref_create,
    .destroy = hymt_ref_destroy,
    .slot_begin = hymt_ref_slot_begin,
    .launch = hymt_ref_launch,
    .collect = hymt_ref_collect,
    .memory = hymt_ref_memory,
    .describe = hymt_ref_describe,
    .kv_element = sizeof(double),
};


/* One row: the token at pos of sequence seq.  Leaves x before the last norm. */
static hymt_status_t
hymt_ref_row(hymt_backend_t *b, const hymt_batch_t *batch, uint32_t seq,
    uint32_t pos, uint32_t token)
{
    double                  *k, *v;
    uint32_t                 i, l, dim, width;
    const uint32_t          *table;
    const hymt_config_t     *c;
    const hymt_ref_layer_t  *w;

    c = &b->config;
    dim = c->head_dim;
    width = c->n_kv_heads * dim;
    table = batch->seqs[seq].blocks;

    for (i = 0; i < c->hidden; i++) {
        b->x[i] = (double) b->embed[(size_t) token * c->hidden + i];
    }

    for (l = 0; l < c->n_layers; l++) {
        if (hymt_ref_given_up(b, batch)) {
            return HYMT_ABORTED;
        }

        w = &b->layers[l];

        /* attention */

        hymt_ref_norm(b->h, b->x, w->input_norm, c->hidden,
                      (double) c->rms_eps);

        hymt_ref_matmul(b->q, w->q, b->h, c->n_heads * dim, c->hidden);
        hymt_ref_matmul(b->k, w->k, b->h, width, c->hidden);
        hymt_ref_matmul(b->v, w->v, b->h, width, c->hidden);

        for (i = 0; i < c->n_heads; i++) {
            hymt_ref_rope(b, b->q + i * dim, pos);

            if (c->qk_norm) {
                hymt_ref_norm(b->q + i * dim, b->q + i * dim, w->q_norm, dim,
                              (double) c->rms_eps);
            }
        }

        for (i = 0; i < c->n_kv_heads; i++) {
            hymt_ref_rope(b, b->k + i * dim, pos);

            if (c->qk_norm) {
                hymt_ref_norm(b->k + i * dim, b->k + i * dim, w->k_norm, dim,
                              (double) c->rms_eps);
            }
        }

        k = hymt_ref_cache(b, b->k_cache, l, table, pos);
        v = hymt_ref_cache(b, b->v_cache, l, table, pos);

        memcpy(k, b->k, width * sizeof(double));
        memcpy(v, b->v, width * sizeof(double));

        hymt_ref_attention(b, l, table, pos);

        hymt_ref_matmul(b->h, w->o, b->o, c->hidden, c->n_heads * dim);

        for (i = 0; i < c->hidden; i++) {
            b->x[i] += b->h[i];
        }

        /* feed forward */

        hymt_ref_norm(b->h, b->x, w->post_norm, c->hidden,
                      (double) c->rms_eps);

        hymt_ref_matmul(b->gate, w->gate, b->h, c->ffn, c->hidden);
        hymt_ref_matmul(b->up, w->up, b->h, c->ffn, c->hidden);

        for (i = 0; i < c->ffn; i++) {
            b->gate[i] = b->gate[i] / (1.0 + exp(-b->gate[i])) * b->up[i];
        }

        hymt_ref_matmul(b->h, w->down, b->gate, c->hidden, c->ffn);

        for (i = 0; i < c->hidden; i++) {
            b->x[i] += b->h[i];
        }
    }

    return HYMT_OK;
}


static void
hymt_ref_norm(double *y, const double *x, const float *w, uint32_t n,
    double eps)
{
    double    sum;
    uint32_t  i;

    sum = 0;

    for (i = 0; i < n; i++) {
        sum += x[i] * x[i];
    }

    for (i = 0; i < n; i++) {
        y[i] = (double) w[i] * (x[i] / sqrt(sum / n + eps));
    }
}


/* y [n] = w [n][k] x [k] */
static void
hymt_ref_matmul(double *y, const float *w, const double *x, uint32_t n,
    uint32_t k)
{
    double    sum;
    uint32_t  i, j;

    for (i = 0; i < n; i++, w += k) {
        sum = 0;

        for (j = 0; j < k; j++) {
            sum += (double) w[j] * x[j];
        }

        y[i] = sum;
    }
}


/* Halves, not neighbours, are the pairs that turn. */
static void
hymt_ref_rope(const hymt_backend_t *b, double *x, uint32_t pos)
{
    float     angle;
    double    u, v, cosine, sine;
    uint32_t  i, half;

    half = b->config.head_dim / 2;

    for (i = 0; i < half; i++) {
        angle = (float) pos * b->inv_freq[i];
        cosine = cos((double) angle);
        sine = sin((double) angle);

        u = x[i];
        v = x[i + half];

        x[i] = u * cosine - v * sine;
        x[i + half] = v * cosine + u * sine;
    }
}


/* K or V of one token in one layer, [n_kv_heads][head_dim]. */
static double *
hymt_ref_cache(const hymt_backend_t *b, double *cache, uint32_t layer,
    const uint32_t *table, uint32_t pos)
{
    size_t  token;

    token = (size_t) layer * b->params.n_blocks + table[pos / HYMT_KV_BLOCK];
    token = token * HYMT_KV_BLOCK + pos % HYMT_KV_BLOCK;

    return cache + token * b->config.n_kv_heads * b->config.head_dim;
}


/* o = softmax(q k^T / sqrt(head_dim)) v over tokens 0 to pos */
static void
hymt_ref_attention(hymt_backend_t *b, uint32_t layer, const uint32_t *table,
    uint32_t pos)
{
    double               *q, *o, *k, *v, max, sum;
    uint32_t              head, kv, t, i, dim;
    const hymt_config_t  *c;

    c = &b->config;
    dim = c->head_dim;

    for (head = 0; head < c->n_heads; head++) {
        q = b->q + head * dim;
        o = b->o + head * dim;
        kv = head / (c->n_heads / c->n_kv_heads) * dim;
        max = -INFINITY;

        for (t = 0; t <= pos; t++) {
            k = hymt_ref_cache(b, b->k_cache, layer, table, t) + kv;
            sum = 0;

            for (i = 0; i < dim; i++) {
                sum += q[i] * k[i];
            }

            b->score[t] = sum / sqrt((double) dim);
            max = fmax(max, b->score[t]);
        }

        sum = 0;

        for (t = 0; t <= pos; t++) {
            b->score[t] = exp(b->score[t] - max);
            sum += b->score[t];
        }

        memset(o, 0, dim * sizeof(double));

        for (t = 0; t <= pos; t++) {
            v = hymt_ref_cache(b, b->v_cache, layer, table, t) + kv;

            for (i = 0; i < dim; i++) {
                o[i] += b->score[t] / sum * v[i];
            }
        }
    }
}


static void
hymt_ref_logits(hymt_backend_t *b)
{
    uint32_t              i;
    const hymt_config_t  *c;

    c = &b->config;

    hymt_ref_norm(b->h, b->x, b->norm, c->hidden, (double) c->rms_eps);
    hymt_ref_matmul(b->scratch, b->lm_head, b->h, c->vocab, c->hidden);

    for (i = 0; i < c->vocab; i++) {
        b->logits[i] = (float) b->scratch[i];
    }
}


static void
hymt_ref_sample(hymt_backend_t *b, const hymt_batch_t *batch, uint32_t seq)
{
    uint32_t                 token;
    hymt_ref_slot_t         *slot;
    const hymt_batch_seq_t  *s;

    s = &batch->seqs[seq];
    slot = &b->slots[s->slot];

    token = hymt_sample(&slot->sampling, slot->seen, s->n_out, b->logits,
                        b->config.vocab, b->scratch);

    hymt_seen_add(slot->seen, token);
    slot->last = token;
    b->sampled[seq] = token;
}


static hymt_status_t
hymt_ref_launch(hymt_backend_t *b, const hymt_batch_t *batch,
    hymt_error_t *err)
{
    uint32_t                 i, j, row, token;
    const hymt_batch_seq_t  *s;

    if (hymt_ref_check(b, batch, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    b->launched = true;
    b->result = HYMT_OK;
    b->n_seqs = batch->n_seqs;
    row = 0;

    for (i = 0; i < batch->n_seqs; i++) {
        s = &batch->seqs[i];
        b->sampled[i] = HYMT_TOKEN_NONE;

        for (j = 0; j < s->n_rows; j++, row++) {
            token = s->tokens != NULL ? s->tokens[j] : b->slots[s->slot].last;

            if (hymt_ref_row(b, batch, i, s->pos + j, token) != HYMT_OK) {
                b->result = HYMT_ABORTED;
                return HYMT_OK;
            }

            if (batch->logits == NULL && !(s->sample && j == s->n_rows - 1)) {
                continue;
            }

            hymt_ref_logits(b);

            if (batch->logits != NULL) {
                memcpy(batch->logits + (size_t) row * b->config.vocab,
                       b->logits, b->config.vocab * sizeof(float));
            }

            if (!hymt_all_finite(b->logits, b->config.vocab)) {
                b->result = HYMT_ERROR;
                return HYMT_OK;
            }

            if (s->sample && j == s->n_rows - 1) {
                hymt_ref_sample(b, batch, i);
            }
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_ref_check(hymt_backend_t *b, const hymt_batch_t *batch,
    hymt_error_t *err)
{
    uint32_t                 i;
    const hymt_batch_seq_t  *s;

    if (b->launched) {
        return hymt_fail(err, "ref backend: a step is in flight, depth is 1");
    }

    if (hymt_batch_check(batch, &b->params, &b->config, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    for (i = 0; i < batch->n_seqs; i++) {
        s = &batch->seqs[i];

        if (s->tokens == NULL && b->slots[s->slot].last == HYMT_TOKEN_NONE) {
            return hymt_fail(err, "batch: sequence %u goes on without a token:"
                             " slot %u has sampled none", i, s->slot);
        }
    }

    return HYMT_OK;
}


static bool
hymt_ref_given_up(const hymt_backend_t *b, const hymt_batch_t *batch)
{
    uint32_t  i;

    if (b->params.stop != NULL && *b->params.stop) {
        return true;
    }

    for (i = 0; i < batch->n_seqs; i++) {
        if (batch->seqs[i].canceled == NULL || !*batch->seqs[i].canceled) {
            return false;
        }
    }

    return batch->n_seqs != 0;
}


static hymt_status_t
hymt_ref_collect(hymt_backend_t *b, uint32_t *tokens, hymt_error_t *err)
{
    if (!b->launched) {
        return hymt_fail(err, "ref backend: no step is in flight");
    }

    b->launched = false;

    if (b->result == HYMT_ERROR) {
        return hymt_fail(err, "ref backend: logits are not finite");
    }

    if (b->result == HYMT_OK) {
        memcpy(tokens, b->sampled, b->n_seqs * sizeof(uint32_t));
    }

    return b->result;
}


static void
hymt_ref_slot_begin(hymt_backend_t *b, uint32_t slot,
    const hymt_sampling_t *sampling, const uint32_t *prompt, uint32_t n_prompt)
{
    uint32_t          i;
    hymt_ref_slot_t  *s;

    s = &b->slots[slot];

    s->sampling = *sampling;
    s->last = HYMT_TOKEN_NONE;

    memset(s->seen, 0, hymt_seen_words(b->config.vocab) * sizeof(uint64_t));

    for (i = 0; i < n_prompt; i++) {
        if (prompt[i] < b->config.vocab) {
            hymt_seen_add(s->seen, prompt[i]);
        }
    }
}


static hymt_status_t
hymt_ref_create(const hymt_backend_params_t *params, const hymt_model_t *model,
    hymt_backend_t **out, hymt_error_t *err)
{
    hymt_status_t    rc;
    hymt_backend_t  *b;

    if (hymt_backend_params_check("ref", params, &model->config, err)
        != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    b = calloc(1, sizeof(hymt_backend_t));
    if (b == NULL) {
        return hymt_fail(err, "no memory for the ref backend");
    }

    b->params = *params;
    b->config = model->config;

    rc = hymt_ref_buffers(b, err);

    if (rc == HYMT_OK) {
        rc = hymt_ref_load(b, model, err);
    }

    if (rc != HYMT_OK) {
        hymt_ref_destroy(b);
        return rc;
    }

    hymt_rope_inv_freq(&b->config, b->inv_freq);

    *out = b;

    return HYMT_OK;
}


static hymt_status_t
hymt_ref_load(hymt_backend_t *b, const hymt_model_t *model, hymt_error_t *err)
{
    uint32_t             i, j;
    hymt_status_t        rc;
    hymt_ref_layer_t    *w;
    const hymt_layer_t  *t;

    rc = hymt_ref_tensor(b, &b->embed, model->embed, err);

    if (rc == HYMT_OK) {
        rc = hymt_ref_tensor(b, &b->norm, model->norm, err);
    }

    b->lm_head = b->embed;

    if (rc == HYMT_OK && model->lm_head != model->embed) {
        rc = hymt_ref_tensor(b, &b->lm_head, model->lm_head, err);
    }

    for (i = 0; i < b->config.n_layers; i++) {
        w = &b->layers[i];
        t = &model->layers[i];

        const struct {
            float                **dst;
            const hymt_tensor_t   *t;
        } list[] = {
            { &w->input_norm, t->input_norm }, { &w->post_norm, t->post_norm },
            { &w->q_norm, t->q_norm }, { &w->k_norm, t->k_norm },
            { &w->q, t->q }, { &w->k, t->k }, { &w->v, t->v }, { &w->o, t->o },
            { &w->gate, t->gate }, { &w->up, t->up }, { &w->down, t->down },
        };

        for (j = 0; j < hymt_nelts(list) && rc == HYMT_OK; j++) {
            if (list[j].t != NULL) {
                rc = hymt_ref_tensor(b, list[j].dst, list[j].t, err);
            }
        }
    }

    return rc;
}


static hymt_status_t
hymt_ref_tensor(hymt_backend_t *b, float **dst, const hymt_tensor_t *t,
    hymt_error_t *err)
{
    uint64_t  n;

    n = t->shape[0] * t->shape[1];

    *dst = hymt_ref_alloc(b, n, sizeof(float), &b->weight_bytes);
    if (*dst == NULL) {
        return hymt_fail(err, "ref backend: no memory for tensor \"%s\"",
                         t->name);
    }

    return hymt_tensor_read_f32(t, 0, n, *dst, b->params.stop, err);
}


static hymt_status_t
hymt_ref_buffers(hymt_backend_t *b, hymt_error_t *err)
{
    uint32_t              i, width;
    uint64_t              kv, words, *other;
    const hymt_config_t  *c;

    c = &b->config;
    width = c->n_heads * c->head_dim;
    words = hymt_seen_words(c->vocab);
    other = &b->other_bytes;

    /* 11 tensors a layer, 3 more, and less than 32 buffers */

    b->blocks = calloc((size_t) c->n_layers * 11 + b->params.max_batch + 35,
                       sizeof(void *));
    if (b->blocks == NULL) {
        return hymt_fail(err, "no memory for the ref backend");
    }

    kv = (uint64_t) c->n_layers * HYMT_KV_BLOCK * c->n_kv_heads * c->head_dim
         * sizeof(double);

    b->k_cache = hymt_ref_alloc(b, b->params.n_blocks, kv, &b->kv_bytes);
    b->v_cache = hymt_ref_alloc(b, b->params.n_blocks, kv, &b->kv_bytes);

    b->layers = hymt_ref_alloc(b, c->n_layers, sizeof(hymt_ref_layer_t), other);
    b->slots = hymt_ref_alloc(b, b->params.max_batch, sizeof(hymt_ref_slot_t),
                              other);
    b->sampled = hymt_ref_alloc(b, b->params.max_batch, sizeof(uint32_t),
                                other);
    b->inv_freq = hymt_ref_alloc(b, c->head_dim / 2, sizeof(float), other);
    b->logits = hymt_ref_alloc(b, c->vocab, sizeof(float), other);
    b->scratch = hymt_ref_alloc(b, c->vocab, sizeof(double), other);
    b->score = hymt_ref_alloc(b, b->params.context, sizeof(double), other);

    b->x = hymt_ref_alloc(b, c->hidden, sizeof(double), other);
    b->h = hymt_ref_alloc(b, c->hidden, sizeof(double), other);
    b->q = hymt_ref_alloc(b, width, sizeof(double), other);
    b->k = hymt_ref_alloc(b, width, sizeof(double), other);
    b->v = hymt_ref_alloc(b, width, sizeof(double), other);
    b->o = hymt_ref_alloc(b, width, sizeof(double), other);
    b->gate = hymt_ref_alloc(b, c->ffn, sizeof(double), other);
    b->up = hymt_ref_alloc(b, c->ffn, sizeof(double), other);

    /* each that failed is missing from the list */

    if (b->n_blocks != 17) {
        return hymt_fail(err, "ref backend: no memory for %u KV blocks and"
                         " the activations", b->params.n_blocks);
    }

    for (i = 0; i < b->params.max_batch; i++) {
        b->slots[i].last = HYMT_TOKEN_NONE;
        b->slots[i].seen = hymt_ref_alloc(b, words, sizeof(uint64_t), other);

        if (b->slots[i].seen == NULL) {
            return hymt_fail(err, "ref backend: no memory for %u slots",
                             b->params.max_batch);
        }
    }

    return HYMT_OK;
}


/* Zeroed; NULL where it fails. */
static void *
hymt_ref_alloc(hymt_backend_t *b, uint64_t n, uint64_t size, uint64_t *sum)
{
    void  *p;

    p = calloc(n, size);

    if (p != NULL) {
        b->blocks[b->n_blocks++] = p;
        *sum += n * size;
    }

    return p;
}


static void
hymt_ref_destroy(hymt_backend_t *b)
{
    uint32_t  i;

    if (b == NULL) {
        return;
    }

    for (i = 0; i < b->n_blocks; i++) {
        free(b->blocks[i]);
    }

    free(b->blocks);
    free(b);
}


static void
hymt_ref_memory(const hymt_backend_t *b, uint64_t *weights, uint64_t *kv,
    uint64_t *other)
{
    *weights = b->weight_bytes;
    *kv = b->kv_bytes;
    *other = b->other_bytes;
}


static const char *
hymt_ref_describe(const hymt_backend_t *b)
{
    (void) b;

    return "double precision, 1 thread";
}
