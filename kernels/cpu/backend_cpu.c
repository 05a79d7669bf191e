/*
 * backend_cpu.c - the CPU backend of backend.h: its memory, its slots, a step
 * from the batch to sampled tokens.  forward.c computes.
 */

#include "backend.h"
#include "batch_check.h"
#include "claim.h"
#include "cpu.h"
#include "memory_cpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#ifndef HYMT_BUILD_ID
#define HYMT_BUILD_ID  "none"
#endif


static hymt_status_t hymt_cpu_create(const hymt_backend_params_t *params,
    const hymt_model_t *model, hymt_backend_t **out, hymt_error_t *err);
static hymt_status_t hymt_cpu_build(hymt_backend_t *b,
    const hymt_model_t *model, hymt_error_t *err);
static hymt_status_t hymt_cpu_fits(const hymt_backend_t *b,
    const hymt_model_t *model, hymt_error_t *err);
static hymt_status_t hymt_cpu_available(void *data, uint64_t *bytes,
    hymt_error_t *err);
static void hymt_cpu_layout(hymt_backend_t *b);
static void hymt_cpu_layout_kv(hymt_backend_t *b);
static void hymt_cpu_destroy(hymt_backend_t *b);
static void hymt_cpu_slot_begin(hymt_backend_t *b, uint32_t slot,
    const hymt_sampling_t *sampling, const uint32_t *prompt,
    uint32_t n_prompt);
static hymt_status_t hymt_cpu_launch(hymt_backend_t *b,
    const hymt_batch_t *batch, hymt_error_t *err);
static hymt_status_t hymt_cpu_plan(hymt_backend_t *b,
    const hymt_batch_t *batch, hymt_error_t *err);
static hymt_status_t hymt_cpu_plan_seq(hymt_backend_t *b,
    const hymt_batch_t *batch, uint32_t i, hymt_error_t *err);
static hymt_status_t hymt_cpu_step(hymt_backend_t *b);
static void hymt_cpu_sample_item(void *arg, uint32_t item, uint32_t thread);
static hymt_status_t hymt_cpu_bad_logits(hymt_backend_t *b);
static hymt_status_t hymt_cpu_collect(hymt_backend_t *b, uint32_t *tokens,
    hymt_error_t *err);
static void hymt_cpu_memory(const hymt_backend_t *b, uint64_t *weights,
    uint64_t *kv, uint64_t *other);
static const char *hymt_cpu_describe(const hymt_backend_t *b);


const hymt_backend_ops_t  hymt_backend_cpu = {
    .abi = HYMT_BACKEND_ABI,
    .build_id = HYMT_BUILD_ID,
    .name = "cpu",
    .depth = 1,
    .create = hymt_cpu_create,
    .destroy = hymt_cpu_destroy,
    .slot_begin = hymt_cpu_slot_begin,
    .launch = hymt_cpu_launch,
    .collect = hymt_cpu_collect,
    .memory = hymt_cpu_memory,
    .describe = hymt_cpu_describe,
    .kv_element = sizeof(float),
};


static hymt_status_t
hymt_cpu_create(const hymt_backend_params_t *params, const hymt_model_t *model,
    hymt_backend_t **out, hymt_error_t *err)
{
    hymt_status_t    rc;
    hymt_backend_t  *b;

    if (hymt_backend_params_check("cpu", params, &model->config, err)
        != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    b = calloc(1, sizeof(hymt_backend_t));
    if (b == NULL) {
        return hymt_fail(err, "no memory for the cpu backend");
    }

    b->params = *params;
    b->config = model->config;

    rc = hymt_cpu_build(b, model, err);

    if (rc != HYMT_OK) {
        hymt_cpu_destroy(b);
        return rc;
    }

    *out = b;

    return HYMT_OK;
}


static hymt_status_t
hymt_cpu_build(hymt_backend_t *b, const hymt_model_t *model, hymt_error_t *err)
{
    uint32_t             i;
    hymt_status_t        rc;
    const hymt_config_t  *c;

    c = &b->config;

    if (hymt_kernels_select(&b->kernels, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    b->n_threads = b->params.threads ? b->params.threads : hymt_pool_default();

    if (hymt_pool_create(b->n_threads, &b->pool, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    hymt_cpu_layout(b);
    hymt_cpu_layout_kv(b);

    rc = hymt_cpu_fits(b, model, err);

    if (rc == HYMT_OK) {
        rc = hymt_mapping_make(&b->mapping, "activations", false, err);
    }

    if (rc == HYMT_OK) {
        rc = hymt_mapping_make(&b->kv_mapping, "KV cache", false, err);
    }

    if (rc != HYMT_OK) {
        return rc;
    }

    hymt_cpu_layout(b);
    hymt_cpu_layout_kv(b);

    for (i = 0; i < b->params.max_batch; i++) {
        b->slots[i].last = HYMT_TOKEN_NONE;
    }

    hymt_rope_inv_freq(c, b->inv_freq);

    rc = hymt_weights_load(&b->weights, model, b->pool, b->params.stop, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    snprintf(b->description, sizeof(b->description),
             "%s, %u thread%s, %s weights", b->kernels->name, b->n_threads,
             b->n_threads == 1 ? "" : "s",
             b->weights.layers[0].qkv.f32 ? "f32" : "bf16");

    return HYMT_OK;
}


/* Before anything is taken: mapping too much fails only when touched. */
static hymt_status_t
hymt_cpu_fits(const hymt_backend_t *b, const hymt_model_t *model,
    hymt_error_t *err)
{
    bool           overflow;
    char           loads[HYMT_CLAIM_TEXT];
    uint64_t       weights, sum, available, held;
    hymt_status_t  rc;

    weights = hymt_weights_bytes(model);

    overflow = b->mapping.overflow || b->kv_mapping.overflow
               || hymt_add_overflow(weights, b->mapping.used, &sum)
               || hymt_add_overflow(sum, b->kv_mapping.used, &sum);

    rc = hymt_claim_ask(overflow ? NULL : b->params.claim, HYMT_CLAIM_HOST,
                        overflow ? UINT64_MAX : sum, hymt_cpu_available, NULL,
                        &available, &held, err);

    if (overflow || rc == HYMT_AGAIN) {
        (void) hymt_fail(err, "not enough memory: %" PRIu64 " MB for weights, %"
                         PRIu64 " MB for the KV cache of %u blocks and %" PRIu64
                         " MB for activations are needed, %" PRIu64 " MB are"
                         " available%s: a smaller max_batch or KV cache needs"
                         " less", weights / 1000000,
                         b->kv_mapping.used / 1000000, b->params.n_blocks,
                         b->mapping.used / 1000000, available / 1000000,
                         hymt_claim_text(held, loads));
    }

    return overflow ? HYMT_ERROR : rc;
}


static hymt_status_t
hymt_cpu_available(void *data, uint64_t *bytes, hymt_error_t *err)
{
    (void) data;
    (void) err;

    *bytes = hymt_memory_available();

    return HYMT_OK;
}


/* Called twice, see mapping.h. */
static void
hymt_cpu_layout(hymt_backend_t *b)
{
    uint32_t              i, group;
    uint64_t              rows, half, words;
    hymt_mapping_t       *map;
    const hymt_config_t  *c;

    map = &b->mapping;
    c = &b->config;
    rows = b->params.max_rows;
    half = c->head_dim / 2;
    group = c->n_heads / c->n_kv_heads;
    words = hymt_seen_words(c->vocab);

    b->dim = hymt_round_up(c->head_dim, 16);
    b->q_width = c->n_heads * c->head_dim;
    b->act_width = hymt_round_up(c->ffn, HYMT_PANEL);

    /* 16 more floats: the next line of a buffer starts in another cache set */

    b->ld_hidden = c->hidden + 16;
    b->ld_qkv = hymt_round_up(b->q_width + 2 * c->n_kv_heads * c->head_dim,
                              HYMT_PANEL) + 16;
    b->ld_q = (size_t) c->n_heads * b->dim + 16;
    b->ld_o = hymt_round_up(b->q_width, 16) + 16;
    b->ld_act = b->act_width + 16;
    b->ld_logits = hymt_round_up(c->vocab, HYMT_PANEL) + 16;

    b->x = hymt_mapping_take(map, rows, b->ld_hidden * sizeof(float));
    b->h = hymt_mapping_take(map, hymt_max(rows, HYMT_LOGIT_ROWS),
                             b->ld_hidden * sizeof(float));
    b->qkv = hymt_mapping_take(map, rows, b->ld_qkv * sizeof(float));
    b->q = hymt_mapping_take(map, rows, b->ld_q * sizeof(float));
    b->o = hymt_mapping_take(map, rows, b->ld_o * sizeof(float));
    b->act = hymt_mapping_take(map, rows, b->ld_act * sizeof(float));
    b->cos = hymt_mapping_take(map, rows, half * sizeof(float));
    b->sin = hymt_mapping_take(map, rows, half * sizeof(float));
    b->inv_freq = hymt_mapping_take(map, half, sizeof(float));
    b->logits = hymt_mapping_take(map, HYMT_LOGIT_ROWS,
                                  b->ld_logits * sizeof(float));

    b->rows = hymt_mapping_take(map, rows, sizeof(hymt_cpu_row_t));
    b->tiles = hymt_mapping_take(map, rows, sizeof(hymt_cpu_tile_t));
    b->wanted = hymt_mapping_take(map, rows, sizeof(hymt_cpu_logit_t));
    b->bad = hymt_mapping_take(map, rows, sizeof(uint32_t));
    b->sampled = hymt_mapping_take(map, b->params.max_batch, sizeof(uint32_t));
    b->slots = hymt_mapping_take(map, b->params.max_batch,
                                 sizeof(hymt_cpu_slot_t));

    b->tile = hymt_mapping_take(map, b->n_threads, sizeof(float *));
    b->attn = hymt_mapping_take(map, b->n_threads, sizeof(float *));
    b->weight = hymt_mapping_take(map, b->n_threads, sizeof(double *));

    for (i = 0; i < b->n_threads; i++) {
        float   *tile, *attn;
        double  *weight;

        tile = hymt_mapping_take(map, rows, HYMT_ITEM_PANELS * HYMT_PANEL
                                            * sizeof(float));
        attn = hymt_mapping_take(map, (uint64_t) HYMT_TILE_ROWS * group,
                                 (b->dim + 18) * sizeof(float));
        weight = hymt_mapping_take(map, c->vocab, sizeof(double));

        if (b->mapping.base != NULL) {
            b->tile[i] = tile;
            b->attn[i] = attn;
            b->weight[i] = weight;
        }
    }

    for (i = 0; i < b->params.max_batch; i++) {
        uint64_t  *seen;

        seen = hymt_mapping_take(map, words, sizeof(uint64_t));

        if (b->mapping.base != NULL) {
            b->slots[i].seen = seen;
        }
    }
}


static void
hymt_cpu_layout_kv(hymt_backend_t *b)
{
    uint64_t              block;
    const hymt_config_t  *c;

    c = &b->config;

    b->kv_head = (size_t) 2 * HYMT_KV_BLOCK * b->dim;
    b->kv_block = c->n_kv_heads * b->kv_head;
    b->kv_layer = b->params.n_blocks * b->kv_block;

    block = (uint64_t) b->kv_block * sizeof(float) * c->n_layers;

    b->kv = hymt_mapping_take(&b->kv_mapping, b->params.n_blocks, block);
}


static void
hymt_cpu_destroy(hymt_backend_t *b)
{
    if (b == NULL) {
        return;
    }

    hymt_pool_destroy(b->pool);
    hymt_weights_free(&b->weights);
    hymt_mapping_free(&b->kv_mapping);
    hymt_mapping_free(&b->mapping);
    free(b);
}


static void
hymt_cpu_slot_begin(hymt_backend_t *b, uint32_t slot,
    const hymt_sampling_t *sampling, const uint32_t *prompt, uint32_t n_prompt)
{
    uint32_t          i;
    hymt_cpu_slot_t  *s;

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
hymt_cpu_launch(hymt_backend_t *b, const hymt_batch_t *batch,
    hymt_error_t *err)
{
    if (b->launched) {
        return hymt_fail(err, "cpu backend: a step is in flight, depth is 1");
    }

    if (hymt_cpu_plan(b, batch, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    b->batch = batch;
    b->n_seqs = batch->n_seqs;
    b->result = hymt_cpu_step(b);
    b->batch = NULL;
    b->launched = true;

    return HYMT_OK;
}


/* Checks the batch and lays out its rows. */
static hymt_status_t
hymt_cpu_plan(hymt_backend_t *b, const hymt_batch_t *batch, hymt_error_t *err)
{
    uint32_t  i;

    if (hymt_batch_check(batch, &b->params, &b->config, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    b->n_rows = 0;
    b->n_tiles = 0;
    b->n_wanted = 0;

    for (i = 0; i < batch->n_seqs; i++) {
        b->sampled[i] = HYMT_TOKEN_NONE;

        if (hymt_cpu_plan_seq(b, batch, i, err) != HYMT_OK) {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_cpu_plan_seq(hymt_backend_t *b, const hymt_batch_t *batch, uint32_t i,
    hymt_error_t *err)
{
    bool                     last;
    uint32_t                 j, token;
    const hymt_batch_seq_t  *s;

    s = &batch->seqs[i];

    for (j = 0; j < s->n_rows; j += HYMT_TILE_ROWS) {
        b->tiles[b->n_tiles].row = b->n_rows + j;
        b->tiles[b->n_tiles].n_rows = hymt_min(s->n_rows - j, HYMT_TILE_ROWS);
        b->n_tiles++;
    }

    for (j = 0; j < s->n_rows; j++) {
        token = s->tokens != NULL ? s->tokens[j] : b->slots[s->slot].last;
        last = j == s->n_rows - 1;

        if (token == HYMT_TOKEN_NONE) {
            return hymt_fail(err, "batch: sequence %u goes on without a token:"
                             " slot %u has sampled none", i, s->slot);
        }

        if ((s->sample && last) || batch->logits != NULL) {
            b->wanted[b->n_wanted].row = b->n_rows;
            b->wanted[b->n_wanted].seq = s->sample && last ? i : UINT32_MAX;
            b->n_wanted++;
        }

        b->rows[b->n_rows].seq = i;
        b->rows[b->n_rows].pos = s->pos + j;
        b->rows[b->n_rows].token = token;
        b->n_rows++;
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_cpu_step(hymt_backend_t *b)
{
    uint32_t  i, n;

    if (hymt_forward(b) != HYMT_OK) {
        return HYMT_ABORTED;
    }

    for (i = 0; i < b->n_wanted; i += n) {
        n = hymt_min(b->n_wanted - i, HYMT_LOGIT_ROWS);

        b->wanted_at = i;
        hymt_forward_logits(b, i, n);

        hymt_cpu_run(b, hymt_cpu_sample_item, b, n,
                     (uint64_t) n * b->config.vocab * 4);
    }

    return hymt_cpu_bad_logits(b);
}


/* Checks one row of logits, hands it out, and samples where asked for. */
static void
hymt_cpu_sample_item(void *arg, uint32_t item, uint32_t thread)
{
    float                   *logits;
    uint32_t                 i, vocab, token;
    hymt_backend_t          *b;
    hymt_cpu_slot_t         *slot;
    const hymt_cpu_logit_t  *wanted;
    const hymt_batch_seq_t  *seq;

    b = arg;
    i = b->wanted_at + item;
    wanted = &b->wanted[i];
    vocab = b->config.vocab;
    logits = b->logits + item * b->ld_logits;

    b->bad[i] = !hymt_all_finite(logits, vocab);

    if (b->batch->logits != NULL) {
        memcpy(b->batch->logits + (size_t) wanted->row * vocab, logits,
               vocab * sizeof(float));
    }

    if (wanted->seq == UINT32_MAX || b->bad[i]) {
        return;
    }

    seq = &b->batch->seqs[wanted->seq];
    slot = &b->slots[seq->slot];

    token = hymt_sample(&slot->sampling, slot->seen, seq->n_out, logits, vocab,
                        b->weight[thread]);

    hymt_seen_add(slot->seen, token);
    slot->last = token;
    b->sampled[wanted->seq] = token;
}


static hymt_status_t
hymt_cpu_bad_logits(hymt_backend_t *b)
{
    uint32_t               i;
    const hymt_cpu_row_t  *row;

    for (i = 0; i < b->n_wanted; i++) {
        if (b->bad[i]) {
            row = &b->rows[b->wanted[i].row];

            return hymt_fail(&b->error, "logits of token %u at position %u"
                             " are not finite: the weights are broken, or"
                             " this host's memory is", row->token, row->pos);
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_cpu_collect(hymt_backend_t *b, uint32_t *tokens, hymt_error_t *err)
{
    if (!b->launched) {
        return hymt_fail(err, "cpu backend: no step is in flight");
    }

    b->launched = false;

    if (b->result == HYMT_ERROR) {
        return hymt_fail(err, "%s", b->error.text);
    }

    if (b->result == HYMT_OK) {
        memcpy(tokens, b->sampled, b->n_seqs * sizeof(uint32_t));
    }

    return b->result;
}


static void
hymt_cpu_memory(const hymt_backend_t *b, uint64_t *weights, uint64_t *kv,
    uint64_t *other)
{
    *weights = b->weights.mapping.size;
    *kv = b->kv_mapping.size;
    *other = b->mapping.size + sizeof(hymt_backend_t)
             + b->config.n_layers * sizeof(hymt_layer_weights_t);
}


static const char *
hymt_cpu_describe(const hymt_backend_t *b)
{
    return b->description;
}
