/*
 * weights.c - see weights.h.
 */

#include "weights.h"

#include <stdlib.h>
#include <string.h>


/* bytes of a tensor read at a time; one row at least */
#define HYMT_LOAD_CHUNK  (8 * 1024 * 1024)

/* rows that one item of work packs */
#define HYMT_LOAD_ROWS   32


/* Rows of one tensor on their way into a matrix. */
typedef struct {
    const hymt_matrix_t  *m;
    const void           *rows;       /* [n_rows][k], as the matrix has them */
    uint32_t              first;      /* row of the tensor */
    uint32_t              n_rows;
    uint32_t              base;       /* row of the matrix for the tensor's 0 */
    bool                  alternate;  /* every other panel, from base on */
} hymt_load_t;


typedef struct {
    hymt_pool_t         *pool;
    const volatile int  *stop;
    void                *buffer;      /* [HYMT_LOAD_CHUNK] or one row */
    uint64_t             size;
    hymt_error_t        *err;
} hymt_loader_t;


static void hymt_weights_layout(hymt_weights_t *w, const hymt_model_t *model);
static void hymt_matrix_layout(hymt_mapping_t *map, hymt_matrix_t *m,
    uint32_t n, const hymt_tensor_t *const *parts, uint32_t n_parts);
static uint64_t hymt_load_size(const hymt_config_t *c);
static hymt_status_t hymt_weights_read(hymt_weights_t *w,
    const hymt_model_t *model, hymt_loader_t *l);
static hymt_status_t hymt_layer_read(hymt_layer_weights_t *w,
    const hymt_layer_t *t, const hymt_config_t *c, hymt_loader_t *l);
static hymt_status_t hymt_vector_read(float *dst, const hymt_tensor_t *t,
    hymt_loader_t *l);
static hymt_status_t hymt_matrix_read(hymt_matrix_t *m, const hymt_tensor_t *t,
    uint32_t base, bool alternate, hymt_loader_t *l);
static void hymt_matrix_pack(void *arg, uint32_t item, uint32_t thread);


uint64_t
hymt_weights_bytes(const hymt_model_t *model)
{
    uint64_t        bytes;
    hymt_weights_t  w;

    memset(&w, 0, sizeof(w));

    w.layers = calloc(model->config.n_layers, sizeof(hymt_layer_weights_t));
    if (w.layers == NULL) {
        return UINT64_MAX;
    }

    hymt_weights_layout(&w, model);
    bytes = w.mapping.overflow ? UINT64_MAX : w.mapping.used;

    free(w.layers);

    return bytes;
}


hymt_status_t
hymt_weights_load(hymt_weights_t *w, const hymt_model_t *model,
    hymt_pool_t *pool, const volatile int *stop, hymt_error_t *err)
{
    hymt_loader_t  l;
    hymt_status_t  rc;

    memset(w, 0, sizeof(*w));
    memset(&l, 0, sizeof(l));

    l.pool = pool;
    l.stop = stop;
    l.err = err;
    l.size = hymt_load_size(&model->config);

    w->layers = calloc(model->config.n_layers, sizeof(hymt_layer_weights_t));
    l.buffer = malloc(l.size);

    if (w->layers == NULL || l.buffer == NULL) {
        rc = hymt_fail(err, "no memory to load the weights");
        goto done;
    }

    hymt_weights_layout(w, model);

    rc = hymt_mapping_make(&w->mapping, "weights", true, err);
    if (rc != HYMT_OK) {
        goto done;
    }

    hymt_weights_layout(w, model);

    rc = hymt_weights_read(w, model, &l);

done:

    free(l.buffer);

    if (rc != HYMT_OK) {
        hymt_weights_free(w);
    }

    return rc;
}


void
hymt_weights_free(hymt_weights_t *w)
{
    hymt_mapping_free(&w->mapping);
    free(w->layers);
    memset(w, 0, sizeof(*w));
}


static void
hymt_weights_layout(hymt_weights_t *w, const hymt_model_t *model)
{
    uint32_t               i, dim;
    hymt_mapping_t        *map;
    const hymt_layer_t    *t;
    const hymt_config_t   *c;
    hymt_layer_weights_t  *layer;

    map = &w->mapping;
    c = &model->config;
    dim = hymt_round_up(c->head_dim, 16);

    hymt_matrix_layout(map, &w->embed, c->vocab, &model->embed, 1);

    if (model->lm_head == model->embed) {
        w->lm_head = w->embed;

    } else {
        hymt_matrix_layout(map, &w->lm_head, c->vocab, &model->lm_head, 1);
    }

    w->norm = hymt_mapping_take(map, c->hidden, sizeof(float));

    for (i = 0; i < c->n_layers; i++) {
        t = &model->layers[i];
        layer = &w->layers[i];

        layer->input_norm = hymt_mapping_take(map, c->hidden, sizeof(float));
        layer->post_norm = hymt_mapping_take(map, c->hidden, sizeof(float));

        if (c->qk_norm) {
            layer->q_norm = hymt_mapping_take(map, dim, sizeof(float));
            layer->k_norm = hymt_mapping_take(map, dim, sizeof(float));
        }

        hymt_matrix_layout(map, &layer->qkv,
                           (c->n_heads + 2 * c->n_kv_heads) * c->head_dim,
                           (const hymt_tensor_t *[]) { t->q, t->k, t->v }, 3);
        hymt_matrix_layout(map, &layer->o, c->hidden, &t->o, 1);
        hymt_matrix_layout(map, &layer->gate_up,
                           2 * hymt_round_up(c->ffn, HYMT_PANEL),
                           (const hymt_tensor_t *[]) { t->gate, t->up }, 2);
        hymt_matrix_layout(map, &layer->down, c->hidden, &t->down, 1);
    }
}


static void
hymt_matrix_layout(hymt_mapping_t *map, hymt_matrix_t *m, uint32_t n,
    const hymt_tensor_t *const *parts, uint32_t n_parts)
{
    uint32_t  i;

    m->n = n;
    m->k = (uint32_t) parts[0]->shape[1];
    m->n_panels = hymt_ceil_div(n, HYMT_PANEL);
    m->f32 = false;

    for (i = 0; i < n_parts; i++) {
        m->f32 |= parts[i]->dtype != HYMT_BF16;
    }

    m->data = hymt_mapping_take(map, (uint64_t) m->n_panels * HYMT_PANEL,
                                (uint64_t) m->k * (m->f32 ? 4 : 2));
}


static uint64_t
hymt_load_size(const hymt_config_t *c)
{
    uint64_t  row;

    row = hymt_max(c->hidden, c->ffn);
    row = hymt_max(row, (uint64_t) c->n_heads * c->head_dim);

    return hymt_max(HYMT_LOAD_CHUNK, row * sizeof(float));
}


static hymt_status_t
hymt_weights_read(hymt_weights_t *w, const hymt_model_t *model,
    hymt_loader_t *l)
{
    uint32_t       i;
    hymt_status_t  rc;

    rc = hymt_matrix_read(&w->embed, model->embed, 0, false, l);

    if (rc == HYMT_OK && model->lm_head != model->embed) {
        rc = hymt_matrix_read(&w->lm_head, model->lm_head, 0, false, l);
    }

    if (rc == HYMT_OK) {
        rc = hymt_vector_read(w->norm, model->norm, l);
    }

    for (i = 0; i < model->config.n_layers && rc == HYMT_OK; i++) {
        rc = hymt_layer_read(&w->layers[i], &model->layers[i], &model->config,
                             l);
    }

    return rc;
}


static hymt_status_t
hymt_layer_read(hymt_layer_weights_t *w, const hymt_layer_t *t,
    const hymt_config_t *c, hymt_loader_t *l)
{
    uint32_t  i, q, kv;

    q = c->n_heads * c->head_dim;
    kv = c->n_kv_heads * c->head_dim;

    const struct {
        float                *dst;
        const hymt_tensor_t  *t;
    } vectors[] = {
        { w->input_norm, t->input_norm },
        { w->post_norm, t->post_norm },
        { w->q_norm, t->q_norm },
        { w->k_norm, t->k_norm },
    };

    const struct {
        hymt_matrix_t        *m;
        const hymt_tensor_t  *t;
        uint32_t              base;
        bool                  alternate;
    } matrices[] = {
        { &w->qkv, t->q, 0, false },
        { &w->qkv, t->k, q, false },
        { &w->qkv, t->v, q + kv, false },
        { &w->o, t->o, 0, false },
        { &w->gate_up, t->gate, 0, true },
        { &w->gate_up, t->up, HYMT_PANEL, true },
        { &w->down, t->down, 0, false },
    };

    hymt_status_t  rc;

    for (i = 0; i < hymt_nelts(vectors); i++) {
        if (vectors[i].dst == NULL) {
            continue;
        }

        rc = hymt_vector_read(vectors[i].dst, vectors[i].t, l);
        if (rc != HYMT_OK) {
            return rc;
        }
    }

    for (i = 0; i < hymt_nelts(matrices); i++) {
        rc = hymt_matrix_read(matrices[i].m, matrices[i].t, matrices[i].base,
                              matrices[i].alternate, l);
        if (rc != HYMT_OK) {
            return rc;
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_vector_read(float *dst, const hymt_tensor_t *t, hymt_loader_t *l)
{
    return hymt_tensor_read_f32(t, 0, t->shape[0], dst, l->stop, l->err);
}


static hymt_status_t
hymt_matrix_read(hymt_matrix_t *m, const hymt_tensor_t *t, uint32_t base,
    bool alternate, hymt_loader_t *l)
{
    uint64_t       rows, n, first;
    hymt_load_t    load;
    hymt_status_t  rc;

    load.m = m;
    load.rows = l->buffer;
    load.base = base;
    load.alternate = alternate;

    rows = l->size / ((uint64_t) m->k * (m->f32 ? 4 : 2));

    for (first = 0; first < t->shape[0]; first += n) {
        n = hymt_min(rows, t->shape[0] - first);

        if (m->f32) {
            rc = hymt_tensor_read_f32(t, first * m->k, n * m->k, l->buffer,
                                      l->stop, l->err);
        } else {
            rc = hymt_tensor_read(t, first * m->k, n * m->k, l->buffer,
                                  l->stop, l->err);
        }

        if (rc != HYMT_OK) {
            return rc;
        }

        load.first = (uint32_t) first;
        load.n_rows = (uint32_t) n;

        hymt_pool_run(l->pool, hymt_matrix_pack, &load,
                      (uint32_t) hymt_ceil_div(n, HYMT_LOAD_ROWS));
    }

    return HYMT_OK;
}


/* HYMT_LOAD_ROWS rows of the chunk into their panels. */
static void
hymt_matrix_pack(void *arg, uint32_t item, uint32_t thread)
{
    float                *f;
    uint32_t              i, k, row, end, lane;
    uint16_t             *h;
    const float          *from_f;
    const uint16_t       *from_h;
    const hymt_load_t    *load;
    const hymt_matrix_t  *m;

    (void) thread;

    load = arg;
    m = load->m;

    i = item * HYMT_LOAD_ROWS;
    end = hymt_min(i + HYMT_LOAD_ROWS, load->n_rows);

    for ( ; i < end; i++) {
        row = load->first + i;

        if (load->alternate) {
            row += row / HYMT_PANEL * HYMT_PANEL;
        }

        row += load->base;
        lane = row % HYMT_PANEL;

        if (m->f32) {
            f = (float *) m->data + (size_t) (row - lane) * m->k + lane;
            from_f = (const float *) load->rows + (size_t) i * m->k;

            for (k = 0; k < m->k; k++) {
                f[(size_t) k * HYMT_PANEL] = from_f[k];
            }

        } else {
            h = (uint16_t *) m->data + (size_t) (row - lane) * m->k
                + lane % 16 * 2 + lane / 16;
            from_h = (const uint16_t *) load->rows + (size_t) i * m->k;

            for (k = 0; k < m->k; k++) {
                h[(size_t) k * HYMT_PANEL] = from_h[k];
            }
        }
    }
}


void
hymt_matrix_row(const hymt_matrix_t *m, uint32_t n, float *out)
{
    size_t           at;
    uint32_t         k, lane, bits;
    const float     *f;
    const uint16_t  *h;

    lane = n % HYMT_PANEL;
    at = (size_t) (n - lane) * m->k;

    if (m->f32) {
        f = (const float *) m->data + at + lane;

        for (k = 0; k < m->k; k++) {
            out[k] = f[(size_t) k * HYMT_PANEL];
        }

        return;
    }

    h = (const uint16_t *) m->data + at + lane % 16 * 2 + lane / 16;

    for (k = 0; k < m->k; k++) {
        bits = (uint32_t) h[(size_t) k * HYMT_PANEL] << 16;
        memcpy(&out[k], &bits, sizeof(bits));
    }
}
