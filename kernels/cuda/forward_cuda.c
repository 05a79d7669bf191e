/*
 * forward_cuda.c - one step as a row of kernels, to be read from top to bottom,
 * and the graphs made of it; see backend_cuda.h.
 *
 * A layer is seven kernels, nine in a step of decode rows and prompts: a decode
 * step of the 1.8B model is 228.  Each reads what the one before it wrote and
 * starts early (programmatic dependent launch, where the device has it), its
 * weights on their way before its rows are there.
 */

#include "backend_cuda.h"

#include <stdlib.h>
#include <string.h>


/* a step of prompts alone has a row to sample for so many rows */
#define HYMT_CUDA_PROMPT_ROWS  8


static hymt_status_t hymt_cuda_create_layer(hymt_backend_t *b,
    uint32_t layer, hymt_error_t *err);
static void hymt_cuda_layer_attention(const hymt_backend_t *b,
    const hymt_cuda_shape_t *s, uint32_t layer, bool compact, cudaError_t *rc);
static void hymt_cuda_attention_args(const hymt_backend_t *b,
    const hymt_cuda_shape_t *s, uint32_t layer, hymt_attention_args_t *a);
static void hymt_cuda_layer_rope(const hymt_backend_t *b,
    const hymt_cuda_shape_t *s, const hymt_attention_args_t *a,
    cudaError_t *rc);
static void hymt_cuda_last_attention(const hymt_backend_t *b,
    const hymt_cuda_shape_t *s, cudaError_t *rc);
static void hymt_cuda_layer_begin(const hymt_backend_t *b, uint32_t layer,
    uint32_t rows, const uint32_t *wanted, cudaError_t *rc);
static void hymt_cuda_layer_end(const hymt_backend_t *b, uint32_t layer,
    uint32_t rows, const uint32_t *wanted, cudaError_t *rc);
static void hymt_cuda_draw(const hymt_backend_t *b,
    const hymt_cuda_shape_t *s, cudaError_t *rc);
static hymt_status_t hymt_cuda_capture_one(hymt_backend_t *b,
    hymt_cuda_graph_t *graph, hymt_error_t *err);
static bool hymt_cuda_bucket_shape(const hymt_backend_t *b, uint32_t bucket,
    hymt_cuda_kind_t kind, hymt_cuda_shape_t *s);


static const uint32_t  hymt_cuda_buckets[] = {
    1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256,
    320, 384, 448, 512, 576, 640,
};

/* a step may take a graph of more rows, where it has too many prompts */
_Static_assert(HYMT_CUDA_LARGE_ROWS >= HYMT_CUDA_GRAPH_ROWS,
               "graphs are of steps that are not large");

/* Rows of logits of mixed steps: what the head costs goes up behind these. */
static const uint32_t  hymt_cuda_heads[HYMT_CUDA_HEADS] = {
    64, 128, UINT32_MAX,
};


/* The first error stays; what comes after it is not launched. */
#define hymt_cuda_run(rc, call)                                               \
    do {                                                                      \
        if (*(rc) == cudaSuccess) {                                           \
            *(rc) = (call);                                                   \
        }                                                                     \
    } while (0)


hymt_status_t
hymt_cuda_create_gemms(hymt_backend_t *b, hymt_error_t *err)
{
    uint32_t           i;
    hymt_gemm_shape_t  s;

    b->gemms = calloc(b->config.n_layers, sizeof(hymt_cuda_gemms_t));
    if (b->gemms == NULL) {
        return hymt_fail(err, "no memory for the cuda backend");
    }

    for (i = 0; i < b->config.n_layers; i++) {
        if (hymt_cuda_create_layer(b, i, err) != HYMT_OK) {
            return HYMT_ERROR;
        }
    }

    memset(&s, 0, sizeof(s));
    s.w = b->lm_head;
    s.n = b->ld_logits;
    s.k = b->config.hidden;
    s.x = b->h;
    s.y = b->logits;
    s.ldy = b->ld_logits;
    s.max_rows = b->params.max_batch;
    s.after = HYMT_GEMM_STORE;

    return hymt_gemm_create(&b->dev, &s, &b->gemm_logits, err->text,
                            sizeof(err->text))
           == 0 ? HYMT_OK : HYMT_ERROR;
}


static hymt_status_t
hymt_cuda_create_layer(hymt_backend_t *b, uint32_t layer, hymt_error_t *err)
{
    bool                      last;
    uint32_t                  i, hidden, ffn;
    hymt_gemm_shape_t         s;
    hymt_cuda_gemms_t        *g;
    const hymt_cuda_layer_t  *w;

    g = &b->gemms[layer];
    w = &b->layers[layer];
    hidden = b->config.hidden;
    ffn = b->config.ffn;
    last = layer == b->config.n_layers - 1
           && hymt_cuda_is_large(b, b->params.max_rows);

    const struct {
        hymt_gemm_t        **gemm;
        const hymt_bf16_t   *w;
        uint32_t             n;
        uint32_t             k;
        const hymt_bf16_t   *x;
        hymt_bf16_t         *y;
        uint32_t             ldy;
        hymt_gemm_after_t    after;
    } list[] = {
        { &g->qkv, w->qkv, b->qkv_width, hidden, b->h, b->qkv, b->qkv_width,
          HYMT_GEMM_STORE },
        { last ? &g->kv : NULL, w->qkv + (size_t) b->q_width * hidden,
          b->qkv_width - b->q_width, hidden, b->h, b->qkv + b->q_width,
          b->qkv_width, HYMT_GEMM_STORE },
        { &g->o, w->o, hidden, b->q_width, b->o, b->y, hidden,
          HYMT_GEMM_STORE },
        { &g->gate_up, w->gate_up, ffn * 2, hidden, b->h, b->act, ffn,
          HYMT_GEMM_SILU },
        { &g->down, w->down, hidden, ffn, b->act, b->y, hidden,
          HYMT_GEMM_STORE },
    };

    for (i = 0; i < hymt_nelts(list); i++) {
        if (list[i].gemm == NULL) {
            continue;
        }

        memset(&s, 0, sizeof(s));
        s.w = list[i].w;
        s.n = list[i].n;
        s.k = list[i].k;
        s.x = list[i].x;
        s.y = list[i].y;
        s.ldy = list[i].ldy;
        s.max_rows = b->params.max_rows;
        s.scratch = b->gate_up;
        s.after = list[i].after;

        if (hymt_gemm_create(&b->dev, &s, list[i].gemm, err->text,
                             sizeof(err->text))
            != 0)
        {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


void
hymt_cuda_free_gemms(hymt_backend_t *b)
{
    uint32_t  i;

    if (b->gemms != NULL) {
        for (i = 0; i < b->config.n_layers; i++) {
            hymt_gemm_free(b->gemms[i].qkv);
            hymt_gemm_free(b->gemms[i].kv);
            hymt_gemm_free(b->gemms[i].o);
            hymt_gemm_free(b->gemms[i].gate_up);
            hymt_gemm_free(b->gemms[i].down);
        }
    }

    hymt_gemm_free(b->gemm_logits);
    free(b->gemms);
}


bool
hymt_cuda_is_large(const hymt_backend_t *b, uint32_t rows)
{
    return rows > HYMT_CUDA_LARGE_ROWS && b->dev.cc == 90;
}


void
hymt_cuda_place(hymt_cuda_shape_t *s)
{
    uint32_t  at;

    /* what holds 64 bits first */

    at = 64;
    s->sample_at = at;
    at += s->samples * (uint32_t) sizeof(hymt_sample_row_t);
    s->decode_at = at;
    at += s->decode * (uint32_t) sizeof(hymt_attention_item_t);
    s->prefill_at = at;
    at += s->prefill * (uint32_t) sizeof(hymt_attention_item_t);
    s->tokens_at = at;
    at += s->rows * 4;
    s->pos_at = at;
    at += s->rows * 4;
    s->kv_at = at;
    at += s->rows * 4;
    s->gather_at = at;
    at += s->samples * 4;
    s->tables_at = at;
}


cudaError_t
hymt_cuda_forward(const hymt_backend_t *b, const hymt_cuda_shape_t *s)
{
    uint32_t                  i, last;
    cudaError_t               rc;
    cudaStream_t              stream;
    hymt_embed_args_t         embed;
    const hymt_cuda_t        *dev;

    rc = cudaSuccess;
    dev = &b->dev;
    stream = dev->stream;
    last = b->config.n_layers - 1;

    memset(&embed, 0, sizeof(embed));
    embed.embed = b->embed;
    embed.tokens = (const uint32_t *) (b->meta + s->tokens_at);
    embed.last = b->last;
    embed.weight = b->layers[0].input_norm;
    embed.x = b->x;
    embed.h = b->h;
    embed.rows = s->rows;
    embed.hidden = b->config.hidden;
    embed.vocab = b->config.vocab;
    embed.eps = b->config.rms_eps;

    hymt_cuda_run(&rc, hymt_cuda_embed(dev, &embed, stream));

    for (i = 0; i <= last; i++) {
        if (i == last && s->is_large) {
            hymt_cuda_last_attention(b, s, &rc);
            break;
        }

        hymt_cuda_run(&rc, hymt_gemm_run(b->gemms[i].qkv, s->rows, stream));
        hymt_cuda_layer_attention(b, s, i, i == last, &rc);

        if (i < last) {
            hymt_cuda_layer_end(b, i, s->rows, NULL, &rc);
        }
    }

    /* behind the last K and V nothing is for rows that are not sampled */

    if (s->samples > 0) {
        hymt_cuda_layer_end(b, last, s->samples,
                            (const uint32_t *) (b->meta + s->gather_at), &rc);
        hymt_cuda_draw(b, s, &rc);
    }

    return rc;
}


/*
 * Position and norm of q and k, and k and v to the cache: of prompts before
 * attention, of rows that decode in it; in large steps so is q of prompts.
 * compact: o of the rows that are sampled, in their order.
 */
static void
hymt_cuda_layer_attention(const hymt_backend_t *b, const hymt_cuda_shape_t *s,
    uint32_t layer, bool compact, cudaError_t *rc)
{
    bool                   decode;
    hymt_attention_args_t  a;

    decode = s->decode > 0 && !s->is_large;

    hymt_cuda_attention_args(b, s, layer, &a);
    a.q = s->is_large ? NULL : b->q;
    a.mixed = decode && s->prefill > 0;
    a.compact = compact;

    if (s->prefill > 0) {
        hymt_cuda_layer_rope(b, s, &a, rc);
    }

    if (decode) {
        a.items = (const hymt_attention_item_t *) (b->meta + s->decode_at);
        a.n_items = (const uint32_t *) b->meta;
        a.grid = s->decode;
        hymt_cuda_run(rc, hymt_cuda_attention_decode(&b->dev, &a,
                                                     b->dev.stream));
    }

    if (s->prefill > 0) {
        a.items = (const hymt_attention_item_t *) (b->meta + s->prefill_at);
        a.n_items = (const uint32_t *) b->meta + 1;
        a.grid = s->prefill;
        hymt_cuda_run(rc, hymt_cuda_attention_prefill(&b->dev, &a,
                                                      b->dev.stream));
    }
}


static void
hymt_cuda_attention_args(const hymt_backend_t *b, const hymt_cuda_shape_t *s,
    uint32_t layer, hymt_attention_args_t *a)
{
    memset(a, 0, sizeof(*a));

    a->qkv = b->qkv;
    a->rope.cos = b->cos;
    a->rope.sin = b->sin;
    a->rope.q_norm = b->layers[layer].q_norm;
    a->rope.k_norm = b->layers[layer].k_norm;
    a->rope.context = b->params.context;
    a->rope.eps = b->config.rms_eps;
    a->o = b->o;
    a->cache = b->kv + layer * b->kv_layer;
    a->tables = (const uint32_t *) (b->meta + s->tables_at);
    a->partial = b->partial;
    a->counters = b->counters;
    a->n_heads = b->config.n_heads;
    a->n_kv = b->config.n_kv_heads;
}


static void
hymt_cuda_layer_rope(const hymt_backend_t *b, const hymt_cuda_shape_t *s,
    const hymt_attention_args_t *a, cudaError_t *rc)
{
    hymt_rope_args_t  rope;

    memset(&rope, 0, sizeof(rope));

    rope.qkv = b->qkv;
    rope.q = s->is_large ? NULL : b->q;
    rope.cache = a->cache;
    rope.pos = (const uint32_t *) (b->meta + s->pos_at);
    rope.kv_dest = (const int32_t *) (b->meta + s->kv_at);
    rope.rope = a->rope;
    rope.rows = s->rows;
    rope.n_heads = a->n_heads;
    rope.n_kv = a->n_kv;

    hymt_cuda_run(rc, hymt_cuda_rope_append(&b->dev, &rope, b->dev.stream));
}


/*
 * The last layer of a large step up to its attention: K and V of all rows, then
 * q as well of those that are sampled, side by side, whose attention is that of
 * decode, many blocks a row.  It reads K and V before it waits, and they are
 * new here: so it starts when all in front of it have ended.
 */
static void
hymt_cuda_last_attention(const hymt_backend_t *b, const hymt_cuda_shape_t *s,
    cudaError_t *rc)
{
    uint32_t                  last;
    hymt_cuda_t               dev;
    cudaStream_t              stream;
    hymt_attention_args_t     a;
    const hymt_cuda_gemms_t  *g;

    last = b->config.n_layers - 1;
    g = &b->gemms[last];
    stream = b->dev.stream;
    dev = b->dev;
    dev.pdl = false;

    hymt_cuda_attention_args(b, s, last, &a);
    a.items = (const hymt_attention_item_t *) (b->meta + s->decode_at);
    a.n_items = (const uint32_t *) b->meta;
    a.grid = s->decode;
    a.compact = true;

    hymt_cuda_run(rc, hymt_gemm_run(g->kv, s->rows, stream));
    hymt_cuda_layer_rope(b, s, &a, rc);

    if (s->samples == 0) {
        return;
    }

    hymt_cuda_layer_begin(b, last, s->samples,
                          (const uint32_t *) (b->meta + s->gather_at), rc);
    hymt_cuda_run(rc, hymt_gemm_run(g->qkv, s->samples, stream));
    hymt_cuda_run(rc, hymt_cuda_attention_decode(&dev, &a, stream));
}


/* A layer's first norm once more, of x as it is; wanted: of these rows. */
static void
hymt_cuda_layer_begin(const hymt_backend_t *b, uint32_t layer, uint32_t rows,
    const uint32_t *wanted, cudaError_t *rc)
{
    hymt_norm_args_t  norm;

    memset(&norm, 0, sizeof(norm));
    norm.x = b->x;
    norm.weight = b->layers[layer].input_norm;
    norm.h = b->h;
    norm.gather = wanted;
    norm.rows = rows;
    norm.hidden = b->config.hidden;
    norm.eps = b->config.rms_eps;

    hymt_cuda_run(rc, hymt_cuda_add_norm(&b->dev, &norm, b->dev.stream));
}


/*
 * A layer behind its attention, and the norm that follows it.  wanted: the last
 * one; the rows of x that go with the `rows` rows of o.
 */
static void
hymt_cuda_layer_end(const hymt_backend_t *b, uint32_t layer, uint32_t rows,
    const uint32_t *wanted, cudaError_t *rc)
{
    cudaStream_t              stream;
    hymt_norm_args_t          norm;
    const hymt_cuda_gemms_t  *g;

    g = &b->gemms[layer];
    stream = b->dev.stream;

    memset(&norm, 0, sizeof(norm));
    norm.x = b->x;
    norm.y = b->y;
    norm.weight = b->layers[layer].post_norm;
    norm.sum = wanted != NULL ? b->wanted : b->x;
    norm.h = b->h;
    norm.gather = wanted;
    norm.rows = rows;
    norm.hidden = b->config.hidden;
    norm.eps = b->config.rms_eps;

    hymt_cuda_run(rc, hymt_gemm_run(g->o, rows, stream));
    hymt_cuda_run(rc, hymt_cuda_add_norm(&b->dev, &norm, stream));
    hymt_cuda_run(rc, hymt_gemm_run(g->gate_up, rows, stream));
    hymt_cuda_run(rc, hymt_gemm_run(g->down, rows, stream));

    norm.x = norm.sum;
    norm.gather = NULL;

    if (wanted != NULL) {
        norm.weight = b->norm;
        norm.sum = NULL;

    } else {
        norm.weight = b->layers[layer + 1].input_norm;
    }

    hymt_cuda_run(rc, hymt_cuda_add_norm(&b->dev, &norm, stream));
}


/* Logits of the rows that are sampled, and a token drawn from each. */
static void
hymt_cuda_draw(const hymt_backend_t *b, const hymt_cuda_shape_t *s,
    cudaError_t *rc)
{
    hymt_sample_args_t  sample;

    memset(&sample, 0, sizeof(sample));
    sample.logits = b->logits;
    sample.ld = b->ld_logits;
    sample.vocab = b->config.vocab;
    sample.rows = s->samples;
    sample.sample = (const hymt_sample_row_t *) (b->meta + s->sample_at);
    sample.seen = b->seen;
    sample.seen_words = b->seen_words;
    sample.last = b->last;
    sample.bad = b->result;
    sample.out = b->result + 1;
    sample.scratch = b->sample_scratch;

    hymt_cuda_run(rc, hymt_gemm_run(b->gemm_logits, s->samples,
                                    b->dev.stream));
    hymt_cuda_run(rc, hymt_cuda_sample(&b->dev, &sample, b->dev.stream));
}


/*
 * The last layer's attention is made up for with all rows, whose x the step has
 * left as it was, in a large step with what is in front of it; as many at a
 * time as there is place for logits of.
 */
cudaError_t
hymt_cuda_forward_logits(const hymt_backend_t *b, const hymt_cuda_shape_t *s,
    uint32_t first, uint32_t n)
{
    uint32_t      last;
    cudaError_t   rc;
    cudaStream_t  stream;

    rc = cudaSuccess;
    last = b->config.n_layers - 1;
    stream = b->dev.stream;

    if (first == 0) {
        if (s->is_large) {
            hymt_cuda_layer_begin(b, last, s->rows, NULL, &rc);
            hymt_cuda_run(&rc, hymt_gemm_run(b->gemms[last].qkv, s->rows,
                                             stream));
        }

        hymt_cuda_layer_attention(b, s, last, false, &rc);

    } else {
        hymt_cuda_run(&rc, cudaMemcpyAsync(b->o,
                                           b->o + (size_t) first * b->q_width,
                                           (size_t) n * b->q_width * 2,
                                           cudaMemcpyDeviceToDevice, stream));
    }

    hymt_cuda_layer_end(b, last, n, b->every + first, &rc);
    hymt_cuda_run(&rc, hymt_gemm_run(b->gemm_logits, n, stream));

    return rc;
}


hymt_status_t
hymt_cuda_capture(hymt_backend_t *b, hymt_error_t *err)
{
    uint32_t            i, kind;
    hymt_status_t       rc;
    hymt_cuda_graph_t  *graph;

    if (!b->switches.graphs) {
        return HYMT_OK;
    }

    for (i = 0; i < hymt_nelts(hymt_cuda_buckets); i++) {

        /* one that holds every step is enough */

        if (i > 0 && hymt_cuda_buckets[i - 1] >= b->params.max_rows) {
            break;
        }

        for (kind = 0; kind < HYMT_STEP_KINDS; kind++) {
            graph = &b->graphs[i][kind];

            if (!hymt_cuda_bucket_shape(b, i, kind, &graph->shape)) {
                continue;
            }

            if (b->params.stop != NULL
                && __atomic_load_n(b->params.stop, __ATOMIC_RELAXED))
            {
                return HYMT_ABORTED;
            }

            rc = hymt_cuda_capture_one(b, graph, err);

            if (rc != HYMT_OK) {
                return rc;
            }

            b->n_graphs++;
        }

        b->n_buckets = i + 1;
    }

    return HYMT_OK;
}


/* False: no step needs this bucket of this kind. */
static bool
hymt_cuda_bucket_shape(const hymt_backend_t *b, uint32_t bucket,
    hymt_cuda_kind_t kind, hymt_cuda_shape_t *s)
{
    uint32_t  rows, below, batch, head;

    rows = hymt_min(hymt_cuda_buckets[bucket], b->params.max_rows);
    below = bucket > 0 ? hymt_cuda_buckets[bucket - 1] : 0;
    batch = b->params.max_batch;

    memset(s, 0, sizeof(*s));
    s->rows = rows;

    switch (kind) {

    case HYMT_STEP_DECODE:
    case HYMT_STEP_LONG:
        if (below >= batch) {
            return false;
        }

        s->rows = hymt_min(rows, batch);
        s->samples = s->rows;
        s->decode = s->rows + (kind == HYMT_STEP_LONG ? HYMT_CUDA_PARTS : 0);
        break;

    case HYMT_STEP_PROMPT:
        s->samples = hymt_max(rows / HYMT_CUDA_PROMPT_ROWS, 1);
        s->samples = hymt_min(s->samples, batch);
        s->prefill = rows / HYMT_CUDA_PROMPT_ROWS + 4;
        break;

    default:

        head = kind - HYMT_STEP_MIXED;
        s->samples = hymt_min(rows, batch);

        if (rows < 2
            || (head > 0 && hymt_cuda_heads[head - 1] >= s->samples))
        {
            return false;
        }

        /* a row that decodes is sampled, as a rule */

        s->samples = hymt_min(hymt_cuda_heads[head], s->samples);
        s->decode = s->samples + HYMT_CUDA_PARTS / 4;
        s->prefill = rows / HYMT_CUDA_PROMPT_ROWS + 4;
    }

    hymt_cuda_place(s);

    return true;
}


static hymt_status_t
hymt_cuda_capture_one(hymt_backend_t *b, hymt_cuda_graph_t *graph,
    hymt_error_t *err)
{
    cudaGraph_t    g;
    cudaError_t    rc, end;
    hymt_status_t  status;

    status = hymt_cuda_try(cudaStreamBeginCapture(b->dev.stream,
                                            cudaStreamCaptureModeThreadLocal),
                           err);

    if (status != HYMT_OK) {
        return status;
    }

    g = NULL;
    rc = hymt_cuda_forward(b, &graph->shape);
    end = cudaStreamEndCapture(b->dev.stream, &g);

    status = hymt_cuda_check(rc, "the capture of a kernel", err);

    if (status == HYMT_OK) {
        status = hymt_cuda_check(end, "cudaStreamEndCapture()", err);
    }

    if (status != HYMT_OK) {
        if (g != NULL) {
            (void) cudaGraphDestroy(g);
        }

        return status;
    }

    status = hymt_cuda_try(cudaGraphInstantiate(&graph->exec, g, 0), err);
    (void) cudaGraphDestroy(g);

    if (status != HYMT_OK) {
        graph->exec = NULL;
        return status;
    }

    return hymt_cuda_try(cudaGraphUpload(graph->exec, b->dev.stream), err);
}


void
hymt_cuda_free_graphs(hymt_backend_t *b)
{
    uint32_t  i, kind;

    for (i = 0; i < HYMT_CUDA_BUCKETS; i++) {
        for (kind = 0; kind < HYMT_STEP_KINDS; kind++) {
            if (b->graphs[i][kind].exec != NULL) {
                (void) cudaGraphExecDestroy(b->graphs[i][kind].exec);
            }
        }
    }
}


const hymt_cuda_graph_t *
hymt_cuda_graph(const hymt_backend_t *b, hymt_cuda_kind_t kind,
    const hymt_cuda_shape_t *need)
{
    uint32_t                  i, k, last;
    const hymt_cuda_graph_t  *graph;

    last = kind == HYMT_STEP_MIXED ? HYMT_STEP_KINDS - 1 : kind;

    for (i = 0; i < b->n_buckets; i++) {
        for (k = kind; k <= last; k++) {
            graph = &b->graphs[i][k];

            if (graph->exec != NULL
                && graph->shape.rows >= need->rows
                && graph->shape.samples >= need->samples
                && graph->shape.decode >= need->decode
                && graph->shape.prefill >= need->prefill)
            {
                return graph;
            }
        }
    }

    return NULL;
}
