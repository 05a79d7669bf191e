/*
 * weights_cuda.c - where the weights lie on the device, and their way there.
 *
 * Matrices that read the same rows of x are one: q, k and v row after row, gate
 * and up in turns of HYMT_GATE_GROUP rows, so that a tile of the product has
 * both values of its outputs.  The vocabulary is padded with rows of zeros to a
 * multiple of HYMT_LOGIT_PAD, for the kernels' tiles.
 *
 * The way: tensors are cut into pieces of some megabytes; each reader takes the
 * next piece, reads it into one of its two pinned buffers and starts the copy
 * to the device, while the copy from the other is under way.  So file, page
 * cache and bus are busy at once.  bf16 goes as it is; F16 and F32 become bf16,
 * rounded to nearest even.
 */

#include "backend_cuda.h"
#include "thread.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


#define HYMT_LOGIT_PAD      128
#define HYMT_LOAD_PIECE     (4 << 20)   /* bytes on the device */
#define HYMT_LOAD_READERS   8


/* Rows of one tensor and their place. */
typedef struct {
    const hymt_tensor_t  *t;
    hymt_bf16_t          *dst;
    uint64_t              first;     /* row */
    uint64_t              n;         /* rows */
    uint64_t              k;         /* elements of a row */
    bool                  turns;     /* every other group of rows */
} hymt_cuda_piece_t;


typedef struct {
    hymt_cuda_loader_t  *loader;
    pthread_t            tid;
    bool                 started;
    cudaStream_t         stream;
    cudaEvent_t          copied[2];
    uint8_t             *pinned;     /* two pieces */
    float               *f32;        /* one piece, where it is converted */
    hymt_status_t        rc;
    hymt_error_t         err;
} hymt_cuda_reader_t;


struct hymt_cuda_loader_s {
    int                  device;
    const volatile int  *stop;
    volatile int         canceled;
    hymt_cuda_piece_t   *pieces;
    uint32_t             n_pieces;
    uint32_t             capacity;
    uint64_t             largest;    /* elements */
    bool                 convert;
    _Atomic uint32_t     next;
    uint32_t             n_readers;
    hymt_cuda_reader_t   readers[HYMT_LOAD_READERS];
};


static hymt_status_t hymt_cuda_plan(hymt_cuda_loader_t *l,
    const hymt_backend_t *b, const hymt_model_t *model, hymt_error_t *err);
static hymt_status_t hymt_cuda_plan_layer(hymt_cuda_loader_t *l,
    const hymt_backend_t *b, const hymt_layer_t *t,
    const hymt_cuda_layer_t *layer, hymt_error_t *err);
static hymt_status_t hymt_cuda_cut(hymt_cuda_loader_t *l,
    const hymt_tensor_t *t, hymt_bf16_t *dst, bool turns, hymt_error_t *err);
static uint32_t hymt_cuda_count_readers(const hymt_cuda_loader_t *l);
static void *hymt_cuda_reader(void *data);
static hymt_status_t hymt_cuda_reader_open(hymt_cuda_reader_t *r);
static hymt_status_t hymt_cuda_reader_run(hymt_cuda_reader_t *r);
static void hymt_cuda_reader_close(hymt_cuda_reader_t *r);
static hymt_status_t hymt_cuda_read(hymt_cuda_reader_t *r,
    const hymt_cuda_piece_t *p, uint16_t *buffer);
static hymt_status_t hymt_cuda_send(hymt_cuda_reader_t *r,
    const hymt_cuda_piece_t *p, const uint16_t *buffer);
static inline uint16_t hymt_cuda_round(float f);


void
hymt_cuda_layout_weights(hymt_backend_t *b, const hymt_model_t *model)
{
    uint32_t              i;
    uint64_t              hidden;
    hymt_cuda_arena_t    *a;
    hymt_cuda_layer_t    *layer;
    const hymt_config_t  *c;

    a = &b->weights;
    c = &b->config;
    hidden = c->hidden;

    b->ld_logits = hymt_ceil_div(c->vocab, HYMT_LOGIT_PAD) * HYMT_LOGIT_PAD;

    b->embed = hymt_cuda_take(a, b->ld_logits, hidden * 2);
    b->lm_head = model->lm_head != model->embed
                 ? hymt_cuda_take(a, b->ld_logits, hidden * 2) : b->embed;
    b->norm = hymt_cuda_take(a, hidden, 2);

    for (i = 0; i < c->n_layers; i++) {
        layer = &b->layers[i];

        layer->input_norm = hymt_cuda_take(a, hidden, 2);
        layer->post_norm = hymt_cuda_take(a, hidden, 2);

        if (c->qk_norm) {
            layer->q_norm = hymt_cuda_take(a, HYMT_HEAD_DIM, 2);
            layer->k_norm = hymt_cuda_take(a, HYMT_HEAD_DIM, 2);
        }

        layer->qkv = hymt_cuda_take(a, b->qkv_width, hidden * 2);
        layer->o = hymt_cuda_take(a, hidden, (uint64_t) b->q_width * 2);
        layer->gate_up = hymt_cuda_take(a, (uint64_t) c->ffn * 2, hidden * 2);
        layer->down = hymt_cuda_take(a, hidden, (uint64_t) c->ffn * 2);
    }
}


hymt_status_t
hymt_cuda_load_start(hymt_backend_t *b, const hymt_model_t *model,
    hymt_cuda_loader_t **loader, hymt_error_t *err)
{
    int                  rc;
    uint32_t             i;
    size_t               vocab, pad;
    hymt_status_t        status;
    hymt_cuda_loader_t  *l;

    *loader = NULL;
    vocab = (size_t) b->config.vocab * b->config.hidden;
    pad = ((size_t) b->ld_logits * b->config.hidden - vocab)
          * sizeof(hymt_bf16_t);

    status = hymt_cuda_try(cudaMemsetAsync(b->embed + vocab, 0, pad,
                                           b->dev.stream), err);

    if (status == HYMT_OK) {
        status = hymt_cuda_try(cudaMemsetAsync(b->lm_head + vocab, 0, pad,
                                               b->dev.stream), err);
    }

    if (status != HYMT_OK) {
        return status;
    }

    l = calloc(1, sizeof(hymt_cuda_loader_t));
    if (l == NULL) {
        return hymt_fail(err, "no memory to load the weights");
    }

    l->device = b->dev.device;
    l->stop = b->params.stop;

    if (hymt_cuda_plan(l, b, model, err) != HYMT_OK) {
        (void) hymt_cuda_load_end(l, true, NULL);
        return HYMT_ERROR;
    }

    l->n_readers = hymt_cuda_count_readers(l);

    for (i = 0; i < l->n_readers; i++) {
        l->readers[i].loader = l;

        rc = hymt_thread_start(&l->readers[i].tid, "hymt-load",
                               hymt_cuda_reader, &l->readers[i]);
        if (rc != 0) {
            (void) hymt_cuda_load_end(l, true, NULL);
            return hymt_fail(err, "can't start a thread to read the weights:"
                             " %s", strerror(rc));
        }

        l->readers[i].started = true;
    }

    *loader = l;

    return HYMT_OK;
}


hymt_status_t
hymt_cuda_load_end(hymt_cuda_loader_t *l, bool cancel, hymt_error_t *err)
{
    uint32_t             i;
    hymt_status_t        rc;
    hymt_cuda_reader_t  *r;

    rc = HYMT_OK;

    if (l == NULL) {
        return rc;
    }

    if (cancel) {
        __atomic_store_n(&l->canceled, 1, __ATOMIC_RELAXED);
    }

    for (i = 0; i < l->n_readers; i++) {
        r = &l->readers[i];

        if (!r->started) {
            continue;
        }

        pthread_join(r->tid, NULL);

        /* an error cancels the others: it is the news, they are not */

        if ((r->rc == HYMT_ERROR || r->rc == HYMT_AGAIN)
            && (rc == HYMT_OK || rc == HYMT_ABORTED))
        {
            (void) hymt_fail(err, "%s", r->err.text);
            rc = r->rc;

        } else if (r->rc != HYMT_OK && rc == HYMT_OK) {
            rc = r->rc;
        }
    }

    free(l->pieces);
    free(l);

    return rc;
}


static hymt_status_t
hymt_cuda_plan(hymt_cuda_loader_t *l, const hymt_backend_t *b,
    const hymt_model_t *model, hymt_error_t *err)
{
    uint32_t  i;

    if (hymt_cuda_cut(l, model->embed, b->embed, false, err) != HYMT_OK
        || hymt_cuda_cut(l, model->norm, b->norm, false, err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (model->lm_head != model->embed
        && hymt_cuda_cut(l, model->lm_head, b->lm_head, false, err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    for (i = 0; i < model->config.n_layers; i++) {
        if (hymt_cuda_plan_layer(l, b, &model->layers[i], &b->layers[i], err)
            != HYMT_OK)
        {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_cuda_plan_layer(hymt_cuda_loader_t *l, const hymt_backend_t *b,
    const hymt_layer_t *t, const hymt_cuda_layer_t *layer, hymt_error_t *err)
{
    size_t    q, kv;
    uint32_t  i;

    q = (size_t) b->q_width * b->config.hidden;
    kv = (size_t) b->config.n_kv_heads * HYMT_HEAD_DIM * b->config.hidden;

    const struct {
        const hymt_tensor_t  *t;
        hymt_bf16_t          *dst;
        bool                  turns;
    } parts[] = {
        { t->input_norm, layer->input_norm, false },
        { t->post_norm, layer->post_norm, false },
        { t->q_norm, layer->q_norm, false },
        { t->k_norm, layer->k_norm, false },
        { t->q, layer->qkv, false },
        { t->k, layer->qkv + q, false },
        { t->v, layer->qkv + q + kv, false },
        { t->o, layer->o, false },
        { t->gate, layer->gate_up, true },
        { t->up, layer->gate_up + (size_t) HYMT_GATE_GROUP * b->config.hidden,
          true },
        { t->down, layer->down, false },
    };

    for (i = 0; i < hymt_nelts(parts); i++) {
        if (parts[i].t != NULL
            && hymt_cuda_cut(l, parts[i].t, parts[i].dst, parts[i].turns, err)
               != HYMT_OK)
        {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_cuda_cut(hymt_cuda_loader_t *l, const hymt_tensor_t *t, hymt_bf16_t *dst,
    bool turns, hymt_error_t *err)
{
    uint64_t            rows, k, first, n;
    hymt_cuda_piece_t  *p;

    k = t->n_dims == 2 ? t->shape[1] : t->shape[0];
    rows = t->n_dims == 2 ? t->shape[0] : 1;

    n = HYMT_LOAD_PIECE / 2 / k / HYMT_GATE_GROUP * HYMT_GATE_GROUP;
    n = hymt_max(n, HYMT_GATE_GROUP);

    l->convert |= t->dtype != HYMT_BF16;
    l->largest = hymt_max(l->largest, hymt_min(n, rows) * k);

    for (first = 0; first < rows; first += n) {
        if (l->n_pieces == l->capacity) {
            l->capacity = hymt_max(256, l->capacity * 2);

            p = realloc(l->pieces, l->capacity * sizeof(hymt_cuda_piece_t));
            if (p == NULL) {
                return hymt_fail(err, "no memory to load the weights");
            }

            l->pieces = p;
        }

        p = &l->pieces[l->n_pieces++];

        p->t = t;
        p->first = first;
        p->n = hymt_min(n, rows - first);
        p->k = k;
        p->turns = turns;
        p->dst = dst + first * k * (turns ? 2 : 1);
    }

    return HYMT_OK;
}


static uint32_t
hymt_cuda_count_readers(const hymt_cuda_loader_t *l)
{
    long      cpus;
    uint32_t  n;

    cpus = sysconf(_SC_NPROCESSORS_ONLN);

    n = cpus > 1 ? (uint32_t) hymt_min(cpus, HYMT_LOAD_READERS) : 1;

    /* a small model is read before many threads have got their memory */

    return hymt_min(n, l->n_pieces / 64 + 1);
}


static void *
hymt_cuda_reader(void *data)
{
    hymt_cuda_reader_t  *r = data;

    r->rc = hymt_cuda_reader_open(r);

    if (r->rc == HYMT_OK) {
        r->rc = hymt_cuda_reader_run(r);
    }

    if (r->rc != HYMT_OK) {
        __atomic_store_n(&r->loader->canceled, 1, __ATOMIC_RELAXED);
    }

    hymt_cuda_reader_close(r);

    return NULL;
}


static hymt_status_t
hymt_cuda_reader_open(hymt_cuda_reader_t *r)
{
    int             i;
    hymt_error_t   *err;
    hymt_status_t   rc;

    err = &r->err;

    rc = hymt_cuda_try(cudaSetDevice(r->loader->device), err);

    if (rc == HYMT_OK) {
        rc = hymt_cuda_try(cudaStreamCreateWithFlags(&r->stream,
                                                     cudaStreamNonBlocking),
                           err);
    }

    if (rc == HYMT_OK) {
        rc = hymt_cuda_try(cudaHostAlloc((void **) &r->pinned,
                                         r->loader->largest * 4,
                                         cudaHostAllocDefault), err);
    }

    for (i = 0; rc == HYMT_OK && i < 2; i++) {
        rc = hymt_cuda_try(cudaEventCreateWithFlags(&r->copied[i],
                                                    cudaEventDisableTiming
                                                    | cudaEventBlockingSync),
                           err);
    }

    if (rc != HYMT_OK) {
        return rc;
    }

    if (r->loader->convert) {
        r->f32 = malloc(r->loader->largest * sizeof(float));

        if (r->f32 == NULL) {
            return hymt_fail(err, "no memory to convert the weights");
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_cuda_reader_run(hymt_cuda_reader_t *r)
{
    uint32_t                  i, n;
    uint16_t                 *buffer;
    hymt_status_t             rc;
    hymt_cuda_loader_t       *l;
    const hymt_cuda_piece_t  *p;

    l = r->loader;

    for (n = 0; /* void */ ; n++) {
        i = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed);

        if (i >= l->n_pieces) {
            break;
        }

        if (__atomic_load_n(&l->canceled, __ATOMIC_RELAXED)
            || (l->stop != NULL && __atomic_load_n(l->stop, __ATOMIC_RELAXED)))
        {
            return HYMT_ABORTED;
        }

        p = &l->pieces[i];
        buffer = (uint16_t *) r->pinned + n % 2 * l->largest;

        /* an event that was never recorded has passed */

        if (hymt_cuda_try(cudaEventSynchronize(r->copied[n % 2]), &r->err)
            != HYMT_OK)
        {
            return HYMT_ERROR;
        }

        rc = hymt_cuda_read(r, p, buffer);
        if (rc != HYMT_OK) {
            return rc;
        }

        if (hymt_cuda_send(r, p, buffer) != HYMT_OK
            || hymt_cuda_try(cudaEventRecord(r->copied[n % 2], r->stream),
                             &r->err) != HYMT_OK)
        {
            return HYMT_ERROR;
        }
    }

    return hymt_cuda_try(cudaStreamSynchronize(r->stream), &r->err);
}


static void
hymt_cuda_reader_close(hymt_cuda_reader_t *r)
{
    int  i;

    if (r->stream != NULL) {
        (void) cudaStreamSynchronize(r->stream);
        (void) cudaStreamDestroy(r->stream);
    }

    for (i = 0; i < 2; i++) {
        if (r->copied[i] != NULL) {
            (void) cudaEventDestroy(r->copied[i]);
        }
    }

    if (r->pinned != NULL) {
        (void) cudaFreeHost(r->pinned);
    }

    free(r->f32);
}


static hymt_status_t
hymt_cuda_read(hymt_cuda_reader_t *r, const hymt_cuda_piece_t *p,
    uint16_t *buffer)
{
    uint64_t              i, first, n;
    hymt_status_t         rc;
    const volatile int   *stop;

    first = p->first * p->k;
    n = p->n * p->k;
    stop = r->loader->stop;

    if (p->t->dtype == HYMT_BF16) {
        return hymt_tensor_read(p->t, first, n, buffer, stop, &r->err);
    }

    rc = hymt_tensor_read_f32(p->t, first, n, r->f32, stop, &r->err);
    if (rc != HYMT_OK) {
        return rc;
    }

    for (i = 0; i < n; i++) {
        buffer[i] = hymt_cuda_round(r->f32[i]);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_cuda_send(hymt_cuda_reader_t *r, const hymt_cuda_piece_t *p,
    const uint16_t *buffer)
{
    size_t  group;

    if (!p->turns) {
        return hymt_cuda_try(cudaMemcpyAsync(p->dst, buffer, p->n * p->k * 2,
                                             cudaMemcpyHostToDevice,
                                             r->stream), &r->err);
    }

    group = HYMT_GATE_GROUP * p->k * 2;

    return hymt_cuda_try(cudaMemcpy2DAsync(p->dst, group * 2, buffer, group,
                                           group, p->n / HYMT_GATE_GROUP,
                                           cudaMemcpyHostToDevice, r->stream),
                         &r->err);
}


/* To nearest even; what is not a number stays none. */
static inline uint16_t
hymt_cuda_round(float f)
{
    uint32_t  bits;

    memcpy(&bits, &f, sizeof(bits));

    if ((bits & 0x7fffffff) > 0x7f800000) {
        return (uint16_t) (bits >> 16 | 0x40);
    }

    return (uint16_t) ((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
