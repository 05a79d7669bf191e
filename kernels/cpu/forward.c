/*
 * forward.c - the forward pass of HunYuanDenseV1 on the CPU.
 *
 * ref.c has the same in plain words.  Here each operator is a list of items,
 * cut over rows or over rows of a weight, that the pool's threads take; an item
 * computes the same bits whoever takes it and whatever else is in the step.
 */

#include "cpu.h"

#include <math.h>
#include <string.h>


/* about 40 us of one thread: less is not worth waking another */
#define HYMT_SERIAL_WORK  2000000

/* rows of an item where the work is row by row */
#define HYMT_ITEM_ROWS    4


/* What becomes of a product's columns. */
typedef enum {
    HYMT_STORE = 0,   /* y = x w */
    HYMT_RESIDUAL,    /* y += x w */
    HYMT_SILU,        /* y = silu(x gate) * (x up), panels alternating */
} hymt_after_t;


typedef struct {
    hymt_backend_t       *b;
    const hymt_matrix_t  *w;
    const float          *x;
    size_t                ldx;
    float                *y;
    size_t                ldy;
    uint32_t              m;
    uint32_t              panels;     /* of an item */
    hymt_after_t          after;
} hymt_product_t;


typedef struct {
    hymt_backend_t  *b;
    const float     *weight;
} hymt_norm_t;


static void hymt_product(hymt_backend_t *b, const hymt_matrix_t *w,
    const float *x, size_t ldx, uint32_t m, float *y, size_t ldy,
    hymt_after_t after);
static void hymt_product_item(void *arg, uint32_t item, uint32_t thread);
static void hymt_embed_item(void *arg, uint32_t item, uint32_t thread);
static void hymt_norm_rows(hymt_backend_t *b, const float *weight);
static void hymt_norm_item(void *arg, uint32_t item, uint32_t thread);
static void hymt_heads_item(void *arg, uint32_t item, uint32_t thread);
static void hymt_head(const hymt_backend_t *b, uint32_t row, const float *norm,
    const float *from, float *to);
static void hymt_cache_write(hymt_backend_t *b, uint32_t row, uint32_t head,
    const float *k, const float *v);
static void hymt_attention_item(void *arg, uint32_t item, uint32_t thread);
static uint64_t hymt_attention_work(const hymt_backend_t *b);


hymt_status_t
hymt_forward(hymt_backend_t *b)
{
    uint32_t                     m, n_items;
    const hymt_config_t         *c;
    const hymt_layer_weights_t  *w;

    c = &b->config;
    m = b->n_rows;
    n_items = hymt_ceil_div(m, HYMT_ITEM_ROWS);

    hymt_cpu_run(b, hymt_embed_item, b, n_items,
                 (uint64_t) m * (c->hidden + c->head_dim * 32));

    for (b->layer = 0; b->layer < c->n_layers; b->layer++) {
        w = &b->weights.layers[b->layer];

        if (hymt_given_up(b)) {
            return HYMT_ABORTED;
        }

        hymt_norm_rows(b, w->input_norm);
        hymt_product(b, &w->qkv, b->h, b->ld_hidden, m, b->qkv, b->ld_qkv,
                     HYMT_STORE);

        hymt_cpu_run(b, hymt_heads_item, b, n_items,
                     (uint64_t) m * b->ld_qkv * 4);
        hymt_cpu_run(b, hymt_attention_item, b, b->n_tiles * c->n_kv_heads,
                     hymt_attention_work(b));

        hymt_product(b, &w->o, b->o, b->ld_o, m, b->x, b->ld_hidden,
                     HYMT_RESIDUAL);

        if (hymt_given_up(b)) {
            return HYMT_ABORTED;
        }

        hymt_norm_rows(b, w->post_norm);
        hymt_product(b, &w->gate_up, b->h, b->ld_hidden, m, b->act, b->ld_act,
                     HYMT_SILU);
        hymt_product(b, &w->down, b->act, b->ld_act, m, b->x, b->ld_hidden,
                     HYMT_RESIDUAL);
    }

    return hymt_given_up(b) ? HYMT_ABORTED : HYMT_OK;
}


void
hymt_forward_logits(hymt_backend_t *b, uint32_t first, uint32_t n)
{
    uint32_t  i, row;

    for (i = 0; i < n; i++) {
        row = b->wanted[first + i].row;

        b->kernels->rms_norm(b->h + i * b->ld_hidden,
                             b->x + row * b->ld_hidden, b->weights.norm,
                             b->config.hidden, b->config.hidden,
                             b->config.rms_eps);
    }

    hymt_product(b, &b->weights.lm_head, b->h, b->ld_hidden, n, b->logits,
                 b->ld_logits, HYMT_STORE);
}


bool
hymt_given_up(const hymt_backend_t *b)
{
    uint32_t             i;
    const volatile int  *canceled;

    if (b->params.stop != NULL && *b->params.stop) {
        return true;
    }

    for (i = 0; i < b->batch->n_seqs; i++) {
        canceled = b->batch->seqs[i].canceled;

        if (canceled == NULL || !*canceled) {
            return false;
        }
    }

    return b->batch->n_seqs != 0;
}


void
hymt_cpu_run(hymt_backend_t *b, hymt_pool_fn_t fn, void *arg, uint32_t n,
    uint64_t work)
{
    uint32_t  i;

    if (work >= HYMT_SERIAL_WORK) {
        hymt_pool_run(b->pool, fn, arg, n);
        return;
    }

    for (i = 0; i < n; i++) {
        fn(arg, i, 0);
    }
}


static void
hymt_product(hymt_backend_t *b, const hymt_matrix_t *w, const float *x,
    size_t ldx, uint32_t m, float *y, size_t ldy, hymt_after_t after)
{
    uint64_t        work;
    hymt_product_t  p;

    p.b = b;
    p.w = w;
    p.x = x;
    p.ldx = ldx;
    p.y = y;
    p.ldy = ldy;
    p.m = m;
    p.after = after;

    /* three items a thread or more, so that a late one costs little */

    p.panels = hymt_min(w->n_panels / (b->n_threads * 3), HYMT_ITEM_PANELS);
    p.panels = hymt_max(p.panels, 1);

    if (after == HYMT_SILU) {
        p.panels = hymt_round_up(p.panels, 2);
    }

    /* few rows: the time is that to read w */

    work = (uint64_t) w->n * w->k * hymt_max(m, 4);

    hymt_cpu_run(b, hymt_product_item, &p,
                 hymt_ceil_div(w->n_panels, p.panels), work);
}


static void
hymt_product_item(void *arg, uint32_t item, uint32_t thread)
{
    float                 *tile, *y;
    uint32_t               i, j, panel, n_panels, column;
    const hymt_kernels_t  *k;
    const hymt_product_t  *p;

    p = arg;
    k = p->b->kernels;

    panel = item * p->panels;
    n_panels = hymt_min(p->panels, p->w->n_panels - panel);
    column = panel * HYMT_PANEL;

    if (p->after == HYMT_STORE) {
        k->gemm(p->w, panel, n_panels, p->x, p->ldx, p->m, p->y + column,
                p->ldy);
        return;
    }

    tile = p->b->tile[thread];

    k->gemm(p->w, panel, n_panels, p->x, p->ldx, p->m, tile,
            HYMT_ITEM_PANELS * HYMT_PANEL);

    for (i = 0; i < p->m; i++) {
        y = p->y + i * p->ldy;

        if (p->after == HYMT_RESIDUAL) {
            k->add(y + column, tile,
                   hymt_min(n_panels * HYMT_PANEL, p->w->n - column));

        } else {
            for (j = 0; j < n_panels; j += 2) {
                k->silu_mul(y + (panel + j) / 2 * HYMT_PANEL,
                            tile + j * HYMT_PANEL, tile + (j + 1) * HYMT_PANEL,
                            HYMT_PANEL);
            }
        }

        tile += HYMT_ITEM_PANELS * HYMT_PANEL;
    }
}


/* Embeds rows, and computes the angles of their positions. */
static void
hymt_embed_item(void *arg, uint32_t item, uint32_t thread)
{
    float            angle, *cos, *sin;
    uint32_t         i, row, end, half;
    hymt_backend_t  *b;

    (void) thread;

    b = arg;
    half = b->config.head_dim / 2;
    row = item * HYMT_ITEM_ROWS;
    end = hymt_min(row + HYMT_ITEM_ROWS, b->n_rows);

    for ( ; row < end; row++) {
        hymt_matrix_row(&b->weights.embed, b->rows[row].token,
                        b->x + row * b->ld_hidden);

        cos = b->cos + (size_t) row * half;
        sin = b->sin + (size_t) row * half;

        for (i = 0; i < half; i++) {
            angle = (float) b->rows[row].pos * b->inv_freq[i];
            sincosf(angle, &sin[i], &cos[i]);
        }
    }
}


static void
hymt_norm_rows(hymt_backend_t *b, const float *weight)
{
    hymt_norm_t  norm;

    norm.b = b;
    norm.weight = weight;

    hymt_cpu_run(b, hymt_norm_item, &norm,
                 hymt_ceil_div(b->n_rows, HYMT_ITEM_ROWS),
                 (uint64_t) b->n_rows * b->config.hidden * 2);
}


static void
hymt_norm_item(void *arg, uint32_t item, uint32_t thread)
{
    uint32_t         row, end;
    hymt_norm_t     *norm;
    hymt_backend_t  *b;

    (void) thread;

    norm = arg;
    b = norm->b;
    row = item * HYMT_ITEM_ROWS;
    end = hymt_min(row + HYMT_ITEM_ROWS, b->n_rows);

    for ( ; row < end; row++) {
        b->kernels->rms_norm(b->h + row * b->ld_hidden,
                             b->x + row * b->ld_hidden, norm->weight,
                             b->config.hidden, b->config.hidden,
                             b->config.rms_eps);
    }
}


/* Rope, then the norm of each head; q to its place, k and v to the cache. */
static void
hymt_heads_item(void *arg, uint32_t item, uint32_t thread)
{
    float                       *k;
    uint32_t                     i, row, end, dim;
    const float                 *from, *v;
    hymt_backend_t              *b;
    const hymt_config_t         *c;
    const hymt_layer_weights_t  *w;

    b = arg;
    c = &b->config;
    dim = c->head_dim;
    w = &b->weights.layers[b->layer];
    k = b->attn[thread];
    row = item * HYMT_ITEM_ROWS;
    end = hymt_min(row + HYMT_ITEM_ROWS, b->n_rows);

    for ( ; row < end; row++) {
        from = b->qkv + row * b->ld_qkv;

        for (i = 0; i < c->n_heads; i++, from += dim) {
            hymt_head(b, row, w->q_norm, from,
                      b->q + row * b->ld_q + (size_t) i * b->dim);
        }

        v = from + (size_t) c->n_kv_heads * dim;

        for (i = 0; i < c->n_kv_heads; i++, from += dim, v += dim) {
            hymt_head(b, row, w->k_norm, from, k);
            hymt_cache_write(b, row, i, k, v);
        }
    }
}


/* One head of q or k, [head_dim] to [dim]. */
static void
hymt_head(const hymt_backend_t *b, uint32_t row, const float *norm,
    const float *from, float *to)
{
    uint32_t  i, dim, half;

    dim = b->config.head_dim;
    half = dim / 2;

    memcpy(to, from, dim * sizeof(float));

    for (i = dim; i < b->dim; i++) {
        to[i] = 0;
    }

    hymt_rope(to, b->cos + (size_t) row * half, b->sin + (size_t) row * half,
              half);

    if (norm != NULL) {
        b->kernels->rms_norm(to, to, norm, b->dim, dim, b->config.rms_eps);
    }
}


static void
hymt_cache_write(hymt_backend_t *b, uint32_t row, uint32_t head,
    const float *k, const float *v)
{
    float                   *block;
    uint32_t                 i, t, pos;
    const hymt_batch_seq_t  *seq;

    seq = &b->batch->seqs[b->rows[row].seq];
    pos = b->rows[row].pos;
    t = pos % HYMT_KV_BLOCK;

    block = b->kv + b->layer * b->kv_layer
            + seq->blocks[pos / HYMT_KV_BLOCK] * b->kv_block
            + head * b->kv_head;

    for (i = 0; i < b->dim; i++) {
        block[(size_t) i * HYMT_KV_BLOCK + t] = k[i];
    }

    block += (size_t) b->dim * (HYMT_KV_BLOCK + t);

    memcpy(block, v, b->config.head_dim * sizeof(float));

    for (i = b->config.head_dim; i < b->dim; i++) {
        block[i] = 0;
    }
}


/* One tile of rows, one kv head. */
static void
hymt_attention_item(void *arg, uint32_t item, uint32_t thread)
{
    float                   *out;
    uint32_t                 i, j, head;
    hymt_backend_t          *b;
    hymt_attention_t         a;
    const hymt_config_t     *c;
    const hymt_cpu_row_t    *row;
    const hymt_cpu_tile_t   *tile;

    b = arg;
    c = &b->config;

    /* the longest of a prompt, its last tile, first: it would be waited for */

    tile = &b->tiles[b->n_tiles - 1 - item / c->n_kv_heads];
    head = item % c->n_kv_heads;
    row = &b->rows[tile->row];

    a.kv = b->kv + b->layer * b->kv_layer + head * b->kv_head;
    a.block_stride = b->kv_block;
    a.blocks = b->batch->seqs[row->seq].blocks;
    a.group = c->n_heads / c->n_kv_heads;
    a.dim = b->dim;
    a.q = b->q + tile->row * b->ld_q + (size_t) head * a.group * a.dim;
    a.q_stride = b->ld_q;
    a.n_rows = tile->n_rows;
    a.pos = row->pos;
    a.scale = (float) (1.0 / sqrt((double) c->head_dim));
    a.out = b->attn[thread];
    a.state = a.out + (size_t) HYMT_TILE_ROWS * a.group * a.dim;

    b->kernels->attention(&a);

    for (i = 0; i < a.n_rows; i++) {
        out = b->o + (tile->row + i) * b->ld_o
              + (size_t) head * a.group * c->head_dim;

        for (j = 0; j < a.group; j++) {
            memcpy(out + (size_t) j * c->head_dim,
                   a.out + ((size_t) i * a.group + j) * a.dim,
                   c->head_dim * sizeof(float));
        }
    }
}


static uint64_t
hymt_attention_work(const hymt_backend_t *b)
{
    uint32_t  i;
    uint64_t  tokens;

    tokens = 0;

    for (i = 0; i < b->n_rows; i++) {
        tokens += b->rows[i].pos + 1;
    }

    return tokens * b->ld_q * 2;
}
