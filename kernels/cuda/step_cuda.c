/*
 * step_cuda.c - a batch becomes metadata in pinned memory, a copy and a graph;
 * see backend_cuda.h.
 */

#include "backend_cuda.h"
#include "batch_check.h"

#include <inttypes.h>
#include <string.h>


/* A batch, counted. */
typedef struct {
    const hymt_batch_t  *batch;
    uint32_t             n_rows;
    uint32_t             n_samples;
    uint32_t             n_decode;     /* rows */
    uint32_t             n_prefill;    /* items */
    uint32_t             n_table;      /* blocks of all sequences */
    bool                 is_large;     /* see hymt_cuda_shape_t */
    uint32_t             n_tiles;      /* of all rows for decode attention */
    uint32_t             longest;      /* tiles of the longest of them */
    uint32_t             one_part;     /* tiles of a row that has no parts */
    uint32_t             part_tiles;   /* tiles of a part; 0: no parts */
} hymt_cuda_plan_t;


/* Where the next of everything goes. */
typedef struct {
    hymt_sample_row_t      *sample;
    hymt_attention_item_t  *decode;
    hymt_attention_item_t  *prefill;       /* from the last one on */
    uint32_t               *tokens;
    uint32_t               *pos;
    int32_t                *kv;
    uint32_t               *gather;
    uint32_t               *tables;

    uint32_t                row;
    uint32_t                n_samples;
    uint32_t                n_decode;
    uint32_t                n_prefill;
    uint32_t                n_table;
    uint32_t                n_split;       /* rows of several parts */
    uint32_t                n_split_tiles;
} hymt_cuda_pack_t;


static hymt_status_t hymt_cuda_plan(const hymt_backend_t *b,
    hymt_cuda_plan_t *plan, hymt_error_t *err);
static void hymt_cuda_plan_seq(const hymt_backend_t *b,
    hymt_cuda_plan_t *plan, uint32_t i);
static void hymt_cuda_plan_tiles(hymt_cuda_plan_t *plan);
static bool hymt_cuda_plan_row(const hymt_cuda_plan_t *plan, uint32_t i,
    uint32_t *pos);
static const hymt_cuda_graph_t *hymt_cuda_choose(const hymt_backend_t *b,
    hymt_cuda_plan_t *plan, hymt_cuda_shape_t *shape);
static uint32_t hymt_cuda_one_part(const hymt_backend_t *b,
    const hymt_cuda_plan_t *plan);
static uint32_t hymt_cuda_parts(const hymt_cuda_plan_t *plan,
    uint32_t capacity);
static uint32_t hymt_cuda_row_parts(const hymt_cuda_plan_t *plan,
    uint32_t pos, uint32_t part_tiles);
static uint32_t hymt_cuda_count_items(const hymt_cuda_plan_t *plan,
    uint32_t part_tiles, uint32_t *tiles);
static uint32_t hymt_cuda_pack(hymt_backend_t *b, hymt_cuda_step_t *step,
    const hymt_cuda_plan_t *plan, const hymt_cuda_shape_t *s);
static void hymt_cuda_pack_seq(const hymt_backend_t *b,
    const hymt_batch_seq_t *seq, const hymt_cuda_plan_t *plan,
    hymt_cuda_pack_t *pack);
static void hymt_cuda_pack_decode(const hymt_batch_seq_t *seq,
    const hymt_cuda_plan_t *plan, uint32_t row, hymt_cuda_pack_t *pack);
static void hymt_cuda_pack_prefill(const hymt_batch_seq_t *seq,
    uint32_t item_rows, hymt_cuda_pack_t *pack);
static uint32_t hymt_cuda_pack_out(const hymt_batch_seq_t *seq,
    const hymt_cuda_pack_t *pack);
static void hymt_cuda_pack_sample(const hymt_backend_t *b,
    const hymt_batch_seq_t *seq, hymt_cuda_pack_t *pack);
static void hymt_cuda_pad(const hymt_cuda_shape_t *s, hymt_cuda_pack_t *pack);
static hymt_status_t hymt_cuda_start(hymt_backend_t *b,
    hymt_cuda_step_t *step, const hymt_cuda_shape_t *s, cudaGraphExec_t exec,
    uint32_t meta, hymt_error_t *err);
static hymt_status_t hymt_cuda_logits(hymt_backend_t *b,
    const hymt_batch_t *batch, const hymt_cuda_shape_t *s, hymt_error_t *err);
static void hymt_cuda_widen(float *row, size_t n);
static hymt_status_t hymt_cuda_fault(hymt_backend_t *b, hymt_error_t *err);


/* Tiles of a part that are tried, least first; a block takes 4 at a time. */
static const uint32_t  hymt_cuda_part_sizes[] = {
    4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024,
};


uint32_t
hymt_cuda_meta_size(const hymt_backend_t *b)
{
    hymt_cuda_shape_t  s;

    memset(&s, 0, sizeof(s));
    s.rows = b->params.max_rows;
    s.samples = b->params.max_batch;
    s.decode = b->params.max_batch + HYMT_CUDA_PARTS;

    /* every prompt may leave an item that is not full; graphs have more */

    s.prefill = b->params.max_rows / b->item_rows + b->params.max_batch
                + HYMT_CUDA_GRAPH_ROWS;

    hymt_cuda_place(&s);

    return s.tables_at + b->max_table * 4;
}


hymt_status_t
hymt_cuda_launch(hymt_backend_t *b, const hymt_batch_t *batch,
    hymt_error_t *err)
{
    uint32_t                  i, meta;
    hymt_cuda_plan_t          plan;
    hymt_cuda_step_t         *step;
    hymt_cuda_shape_t         shape;
    const hymt_cuda_graph_t  *graph;

    if (b->failed) {
        return hymt_fail(err, "%s", b->error.text[0] ? b->error.text
                         : "cuda backend: it has failed before");
    }

    if (b->n_open == HYMT_CUDA_DEPTH) {
        return hymt_fail(err, "cuda backend: %d steps are in flight already",
                         HYMT_CUDA_DEPTH);
    }

    step = &b->steps[(b->oldest + b->n_open) % HYMT_CUDA_DEPTH];

    memset(&plan, 0, sizeof(plan));
    plan.batch = batch;

    if (hymt_cuda_plan(b, &plan, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    b->n_launched++;
    step->n_seqs = batch->n_seqs;
    step->aborted = b->params.stop != NULL
                    && __atomic_load_n(b->params.stop, __ATOMIC_RELAXED);

    if (step->aborted) {
        b->n_open++;
        return HYMT_OK;
    }

    graph = hymt_cuda_choose(b, &plan, &shape);

    for (i = 0, meta = 0; i < batch->n_seqs; i++) {
        step->sample[i] = batch->seqs[i].sample ? meta++ : UINT32_MAX;
    }

    meta = hymt_cuda_pack(b, step, &plan, &shape);

    if (hymt_cuda_fault(b, err) != HYMT_OK
        || hymt_cuda_start(b, step, &shape, graph ? graph->exec : NULL, meta,
                           err) != HYMT_OK
        || hymt_cuda_logits(b, batch, &shape, err) != HYMT_OK)
    {
        b->failed = true;
        return HYMT_ERROR;
    }

    b->n_open++;

    return HYMT_OK;
}


/* Checks the batch and counts what it takes. */
static hymt_status_t
hymt_cuda_plan(const hymt_backend_t *b, hymt_cuda_plan_t *plan,
    hymt_error_t *err)
{
    uint32_t  i;

    if (plan->batch->n_seqs == 0) {
        return hymt_fail(err, "batch: no sequences");
    }

    if (hymt_batch_check(plan->batch, &b->params, &b->config, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    for (i = 0; i < plan->batch->n_seqs; i++) {
        hymt_cuda_plan_seq(b, plan, i);
    }

    return HYMT_OK;
}


static void
hymt_cuda_plan_seq(const hymt_backend_t *b, hymt_cuda_plan_t *plan, uint32_t i)
{
    const hymt_batch_seq_t  *s;

    s = &plan->batch->seqs[i];

    plan->n_table += hymt_ceil_div(s->pos + s->n_rows, HYMT_KV_BLOCK);
    plan->n_rows += s->n_rows;
    plan->n_samples += s->sample;

    if (s->n_rows == 1) {
        plan->n_decode++;

    } else {
        plan->n_prefill += hymt_ceil_div(s->n_rows, b->item_rows);
    }
}


/* What rows for decode attention have before them. */
static void
hymt_cuda_plan_tiles(hymt_cuda_plan_t *plan)
{
    uint32_t  i, pos, tiles;

    for (i = 0; i < plan->batch->n_seqs; i++) {
        if (hymt_cuda_plan_row(plan, i, &pos)) {
            tiles = pos / HYMT_ATTN_TILE + 1;
            plan->n_tiles += tiles;
            plan->longest = hymt_max(plan->longest, tiles);
        }
    }
}


/*
 * Whether a sequence has a row for decode attention, and its position: its only
 * row, in large steps the one that is sampled.
 */
static bool
hymt_cuda_plan_row(const hymt_cuda_plan_t *plan, uint32_t i, uint32_t *pos)
{
    const hymt_batch_seq_t  *s;

    s = &plan->batch->seqs[i];
    *pos = s->pos + s->n_rows - 1;

    return plan->is_large ? s->sample : s->n_rows == 1;
}


/* A graph and its shape, or the shape of a step without one. */
static const hymt_cuda_graph_t *
hymt_cuda_choose(const hymt_backend_t *b, hymt_cuda_plan_t *plan,
    hymt_cuda_shape_t *shape)
{
    bool                      is_long;
    uint32_t                  n, tiles;
    hymt_cuda_kind_t          kind;
    const hymt_cuda_graph_t  *graph;

    plan->is_large = plan->n_decode == 0
                     && hymt_cuda_is_large(b, plan->n_rows);
    n = plan->is_large ? plan->n_samples : plan->n_decode;

    hymt_cuda_plan_tiles(plan);
    plan->one_part = hymt_cuda_one_part(b, plan);
    is_long = plan->longest > plan->one_part;

    if (plan->n_prefill == 0) {
        kind = is_long ? HYMT_STEP_LONG : HYMT_STEP_DECODE;

    } else {
        kind = plan->n_decode ? HYMT_STEP_MIXED : HYMT_STEP_PROMPT;
    }

    memset(shape, 0, sizeof(*shape));
    shape->rows = plan->n_rows;
    shape->samples = plan->n_samples;
    shape->decode = n;
    shape->prefill = plan->n_prefill;
    shape->is_large = plan->is_large;

    graph = hymt_cuda_graph(b, kind, shape);

    if (graph != NULL) {
        *shape = graph->shape;
        plan->part_tiles = is_long ? hymt_cuda_parts(plan, shape->decode) : 0;
        return graph;
    }

    if (is_long) {
        plan->part_tiles = hymt_cuda_parts(plan, n + HYMT_CUDA_PARTS);
        shape->decode = hymt_cuda_count_items(plan, plan->part_tiles, &tiles);
    }

    hymt_cuda_place(shape);

    return NULL;
}


/*
 * Parts cost more than they bring while the device is busy with other rows: a
 * row is cut where it would go on for long after its share of the work.
 */
static uint32_t
hymt_cuda_one_part(const hymt_backend_t *b, const hymt_cuda_plan_t *plan)
{
    uint32_t  share;

    share = (uint32_t) ((uint64_t) plan->n_tiles * b->config.n_kv_heads
                        / b->dev.sms);

    return hymt_max(HYMT_CUDA_ONE_PART, 3 * share);
}


/*
 * Tiles of a part: as few as the items there is place for allow, so that few
 * long contexts are spread over the device.  Bits do not depend on it.
 */
static uint32_t
hymt_cuda_parts(const hymt_cuda_plan_t *plan, uint32_t capacity)
{
    uint32_t  i, n, tiles;

    for (i = 0; i < hymt_nelts(hymt_cuda_part_sizes); i++) {
        n = hymt_cuda_count_items(plan, hymt_cuda_part_sizes[i], &tiles);

        if (n <= capacity && tiles <= HYMT_CUDA_TILES) {
            return hymt_cuda_part_sizes[i];
        }
    }

    return 0;
}


/* Items of decode attention, and the tiles of rows that have several. */
static uint32_t
hymt_cuda_count_items(const hymt_cuda_plan_t *plan, uint32_t part_tiles,
    uint32_t *tiles)
{
    uint32_t  i, n, pos, parts;

    *tiles = 0;

    for (i = 0, n = 0; i < plan->batch->n_seqs; i++) {
        if (!hymt_cuda_plan_row(plan, i, &pos)) {
            continue;
        }

        parts = hymt_cuda_row_parts(plan, pos, part_tiles);
        n += parts;

        if (parts > 1) {
            *tiles += pos / HYMT_ATTN_TILE + 1;
        }
    }

    return n;
}


static uint32_t
hymt_cuda_row_parts(const hymt_cuda_plan_t *plan, uint32_t pos,
    uint32_t part_tiles)
{
    uint32_t  tiles;

    tiles = pos / HYMT_ATTN_TILE + 1;

    if (tiles <= plan->one_part || part_tiles == 0) {
        return 1;
    }

    return hymt_ceil_div(tiles, part_tiles);
}


/* Returns the bytes of metadata. */
static uint32_t
hymt_cuda_pack(hymt_backend_t *b, hymt_cuda_step_t *step,
    const hymt_cuda_plan_t *plan, const hymt_cuda_shape_t *s)
{
    uint8_t           *m;
    uint32_t           i;
    hymt_cuda_pack_t   pack;

    m = step->meta;

    memset(&pack, 0, sizeof(pack));
    pack.sample = (hymt_sample_row_t *) (m + s->sample_at);
    pack.decode = (hymt_attention_item_t *) (m + s->decode_at);
    pack.prefill = (hymt_attention_item_t *) (m + s->prefill_at)
                   + plan->n_prefill;
    pack.tokens = (uint32_t *) (m + s->tokens_at);
    pack.pos = (uint32_t *) (m + s->pos_at);
    pack.kv = (int32_t *) (m + s->kv_at);
    pack.gather = (uint32_t *) (m + s->gather_at);
    pack.tables = (uint32_t *) (m + s->tables_at);

    for (i = 0; i < plan->batch->n_seqs; i++) {
        hymt_cuda_pack_seq(b, &plan->batch->seqs[i], plan, &pack);
    }

    hymt_cuda_pad(s, &pack);

    ((uint32_t *) m)[0] = pack.n_decode;
    ((uint32_t *) m)[1] = pack.n_prefill;

    return s->tables_at + pack.n_table * 4;
}


static void
hymt_cuda_pack_seq(const hymt_backend_t *b, const hymt_batch_seq_t *seq,
    const hymt_cuda_plan_t *plan, hymt_cuda_pack_t *pack)
{
    uint32_t  i, n, pos;

    for (i = 0; i < seq->n_rows; i++) {
        pos = seq->pos + i;

        pack->tokens[pack->row + i] = seq->tokens != NULL ? seq->tokens[i]
                                      : HYMT_TOKEN_SLOT | seq->slot;
        pack->pos[pack->row + i] = pos;

        /* a row that decodes is appended by its attention */

        pack->kv[pack->row + i] = seq->n_rows == 1 ? -1
                                  : (int32_t) (seq->blocks[pos / HYMT_KV_BLOCK]
                                               * HYMT_KV_BLOCK
                                               + pos % HYMT_KV_BLOCK);
    }

    if (seq->n_rows > 1) {
        hymt_cuda_pack_prefill(seq, b->item_rows, pack);
    }

    if (plan->is_large && seq->sample) {
        hymt_cuda_pack_decode(seq, plan, pack->n_samples, pack);

    } else if (seq->n_rows == 1) {
        hymt_cuda_pack_decode(seq, plan, pack->row, pack);
    }

    pack->row += seq->n_rows;

    if (seq->sample) {
        hymt_cuda_pack_sample(b, seq, pack);
    }

    n = hymt_ceil_div(seq->pos + seq->n_rows, HYMT_KV_BLOCK);
    memcpy(pack->tables + pack->n_table, seq->blocks, n * sizeof(uint32_t));
    pack->n_table += n;
}


/* The sequence's last row, which is `row` of qkv. */
static void
hymt_cuda_pack_decode(const hymt_batch_seq_t *seq,
    const hymt_cuda_plan_t *plan, uint32_t row, hymt_cuda_pack_t *pack)
{
    uint32_t                i, pos, tiles, n, width;
    hymt_attention_item_t  *item;

    pos = seq->pos + seq->n_rows - 1;
    tiles = pos / HYMT_ATTN_TILE + 1;
    n = hymt_cuda_row_parts(plan, pos, plan->part_tiles);
    width = n > 1 ? plan->part_tiles : tiles;

    for (i = 0; i < n; i++) {
        item = &pack->decode[pack->n_decode++];

        memset(item, 0, sizeof(*item));
        item->row = row;
        item->n_rows = 1;
        item->pos = pos;
        item->table = pack->n_table;
        item->part = i;
        item->n_parts = n;
        item->first_tile = i * width;
        item->end_tile = hymt_min((i + 1) * width, tiles);
        item->partial = pack->n_split_tiles;
        item->counter = pack->n_split;
        item->out = hymt_cuda_pack_out(seq, pack);
    }

    if (n > 1) {
        pack->n_split++;
        pack->n_split_tiles += tiles;
    }
}


static void
hymt_cuda_pack_prefill(const hymt_batch_seq_t *seq, uint32_t item_rows,
    hymt_cuda_pack_t *pack)
{
    uint32_t                i;
    hymt_attention_item_t  *item;

    for (i = 0; i < seq->n_rows; i += item_rows) {
        item = --pack->prefill;
        pack->n_prefill++;

        memset(item, 0, sizeof(*item));
        item->row = pack->row + i;
        item->n_rows = hymt_min(item_rows, seq->n_rows - i);
        item->pos = seq->pos + i;
        item->table = pack->n_table;
        item->n_parts = 1;
        item->end_tile = (item->pos + item->n_rows - 1) / HYMT_ATTN_TILE + 1;
        item->out = i + item->n_rows == seq->n_rows
                    ? hymt_cuda_pack_out(seq, pack) : UINT32_MAX;
    }
}


/* Where the last layer has the sequence's last row. */
static uint32_t
hymt_cuda_pack_out(const hymt_batch_seq_t *seq, const hymt_cuda_pack_t *pack)
{
    return seq->sample ? pack->n_samples : UINT32_MAX;
}


/* The sequence's last row is the one before pack->row. */
static void
hymt_cuda_pack_sample(const hymt_backend_t *b, const hymt_batch_seq_t *seq,
    hymt_cuda_pack_t *pack)
{
    hymt_sample_row_t      *row;
    const hymt_sampling_t  *s;

    s = &b->sampling[seq->slot];
    row = &pack->sample[pack->n_samples];

    row->slot = seq->slot;
    row->n_out = seq->n_out;
    row->temperature = s->temperature;
    row->top_p = s->top_p;
    row->repetition_penalty = s->repetition_penalty;
    row->top_k = s->top_k;
    row->index = s->index;
    row->pad = 0;
    row->seed = s->seed;

    pack->gather[pack->n_samples++] = pack->row - 1;
}


/* Rows and samples of the bucket that this step does not use. */
static void
hymt_cuda_pad(const hymt_cuda_shape_t *s, hymt_cuda_pack_t *pack)
{
    uint32_t  i;

    for (i = pack->row; i < s->rows; i++) {
        pack->tokens[i] = 0;
        pack->pos[i] = 0;
        pack->kv[i] = -1;
    }

    for (i = pack->n_samples; i < s->samples; i++) {
        memset(&pack->sample[i], 0, sizeof(hymt_sample_row_t));
        pack->sample[i].slot = UINT32_MAX;
        pack->sample[i].top_p = 1;
        pack->sample[i].repetition_penalty = 1;
        pack->gather[i] = 0;
    }
}


static hymt_status_t
hymt_cuda_start(hymt_backend_t *b, hymt_cuda_step_t *step,
    const hymt_cuda_shape_t *s, cudaGraphExec_t exec, uint32_t meta,
    hymt_error_t *err)
{
    cudaStream_t  stream;

    stream = b->dev.stream;

    if (hymt_cuda_try(cudaEventRecord(step->start, stream), err) != HYMT_OK
        || hymt_cuda_try(cudaMemcpyAsync(b->meta, step->meta, meta,
                                         cudaMemcpyHostToDevice, stream), err)
           != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (exec != NULL) {
        if (hymt_cuda_try(cudaGraphLaunch(exec, stream), err) != HYMT_OK) {
            return HYMT_ERROR;
        }

    } else if (hymt_cuda_check(hymt_cuda_forward(b, s), "a kernel's launch",
                               err)
               != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (hymt_cuda_try(cudaMemcpyAsync(step->result, b->result,
                                      (1 + s->samples) * sizeof(uint32_t),
                                      cudaMemcpyDeviceToHost, stream), err)
        != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    return hymt_cuda_try(cudaEventRecord(step->done, stream), err);
}


/*
 * What batch->logits wants, computed once more after the step.  A row comes to
 * the upper half of its place, bf16 as the sampler reads it, and is widened.
 */
static hymt_status_t
hymt_cuda_logits(hymt_backend_t *b, const hymt_batch_t *batch,
    const hymt_cuda_shape_t *s, hymt_error_t *err)
{
    size_t        vocab;
    uint32_t      i, n;
    cudaStream_t  stream;

    if (batch->logits == NULL) {
        return HYMT_OK;
    }

    stream = b->dev.stream;
    vocab = b->config.vocab;

    for (i = 0; i < batch->n_rows; i += n) {
        n = hymt_min(batch->n_rows - i, b->params.max_batch);

        if (hymt_cuda_check(hymt_cuda_forward_logits(b, s, i, n),
                            "a kernel's launch", err) != HYMT_OK
            || hymt_cuda_try(cudaMemcpy2DAsync((uint8_t *) (batch->logits
                                                            + i * vocab)
                                               + vocab * 2, vocab * 4,
                                               b->logits,
                                               (size_t) b->ld_logits * 2,
                                               vocab * 2, n,
                                               cudaMemcpyDeviceToHost, stream),
                             err) != HYMT_OK)
        {
            return HYMT_ERROR;
        }
    }

    if (hymt_cuda_try(cudaStreamSynchronize(stream), err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    for (i = 0; i < batch->n_rows; i++) {
        hymt_cuda_widen(batch->logits + i * vocab, vocab);
    }

    return HYMT_OK;
}


/*
 * n of bf16 in the upper half of `row` -> fp32.  From the front on: what is
 * written ends where the next to be read begins, or before.
 */
static void
hymt_cuda_widen(float *row, size_t n)
{
    size_t    i;
    uint16_t  x;
    uint32_t  bits;

    for (i = 0; i < n; i++) {
        memcpy(&x, (uint8_t *) row + (n + i) * sizeof(x), sizeof(x));
        bits = (uint32_t) x << 16;
        memcpy(&row[i], &bits, sizeof(bits));
    }
}


hymt_status_t
hymt_cuda_collect(hymt_backend_t *b, uint32_t *tokens, hymt_error_t *err)
{
    float              ms;
    uint32_t           i;
    hymt_cuda_step_t  *step;

    if (b->n_open == 0) {
        return hymt_fail(err, "cuda backend: no step is in flight");
    }

    step = &b->steps[b->oldest];
    b->oldest = (b->oldest + 1) % HYMT_CUDA_DEPTH;
    b->n_open--;
    b->n_collected++;

    if (step->aborted) {
        b->step_ns = 0;
        return HYMT_ABORTED;
    }

    if (b->n_collected == b->switches.fail_collect) {
        b->failed = true;
        return hymt_fail(err, "CUDA: step %" PRIu64 " failed: an error was"
                         " asked for by HYMT_CUDA_FAULT", b->n_collected);
    }

    if (hymt_cuda_try(cudaEventSynchronize(step->done), err) != HYMT_OK
        || hymt_cuda_try(cudaEventElapsedTime(&ms, step->start, step->done),
                         err) != HYMT_OK)
    {
        b->failed = true;
        return HYMT_ERROR;
    }

    b->step_ns = (uint64_t) ((double) ms * 1e6);

    if (step->result[0] != 0) {
        b->failed = true;
        return hymt_fail(err, "logits are not finite: the weights are broken,"
                         " or the memory of %s is", b->name);
    }

    for (i = 0; i < step->n_seqs; i++) {
        tokens[i] = step->sample[i] != UINT32_MAX
                    ? step->result[1 + step->sample[i]] : HYMT_TOKEN_NONE;
    }

    return HYMT_OK;
}


/* An error that a test has asked for at this step. */
static hymt_status_t
hymt_cuda_fault(hymt_backend_t *b, hymt_error_t *err)
{
    hymt_embed_args_t  nowhere;

    if (b->n_launched == b->switches.fail_launch) {
        return hymt_fail(err, "CUDA: the launch of step %" PRIu64 " failed: an"
                         " error was asked for by HYMT_CUDA_FAULT",
                         b->n_launched);
    }

    if (b->n_launched == b->switches.lose) {

        /* an illegal address: from here on every call fails, as after a loss */

        memset(&nowhere, 0, sizeof(nowhere));
        nowhere.rows = 1;
        nowhere.hidden = b->config.hidden;
        nowhere.vocab = b->config.vocab;

        return hymt_cuda_try(hymt_cuda_embed(&b->dev, &nowhere,
                                             b->dev.stream), err);
    }

    return HYMT_OK;
}
