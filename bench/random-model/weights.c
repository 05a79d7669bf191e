/*
 * weights.c - the shards of random weights: see random_model.h.
 *
 * How: SplitMix64 of a counter gives four 16-bit numbers, each of which is
 * looked up in a table of the normal distribution's 65,536 quantiles, rounded
 * to bf16.  Time is that of writing the file.
 */

#include "random_model.h"
#include "thread.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


#define RM_CHUNK      (4u << 20)          /* bytes of one piece of work */
#define RM_SHARD      (8ull << 30)        /* most bytes of a file */

#define RM_PER_LAYER  11


static void rm_tensor(rm_t *rm, const char *name, uint32_t layer,
    uint32_t rows, uint32_t cols);
static hymt_status_t rm_tables(rm_t *rm, hymt_error_t *err);
static double rm_quantile(double p);
static uint16_t rm_bf16(float x);
static hymt_status_t rm_headers(rm_t *rm, hymt_error_t *err);
static hymt_status_t rm_data(rm_t *rm, hymt_error_t *err);
static void *rm_thread(void *data);
static int rm_chunk(rm_t *rm, uint64_t chunk, uint16_t *buf);
static void rm_fill(const rm_t *rm, uint32_t tensor, uint64_t first,
    uint64_t n, uint16_t *dst);
static uint64_t rm_mix(uint64_t x);
static hymt_status_t rm_index(const rm_t *rm, hymt_error_t *err);
static void rm_shard_name(const rm_t *rm, uint32_t shard, char *name,
    size_t cap);


hymt_status_t
rm_plan(rm_t *rm, hymt_error_t *err)
{
    uint32_t           i, j, q, kv;
    uint64_t           at;
    rm_tensor_t       *t;
    const rm_shape_t  *s;

    s = &rm->shape;
    q = s->heads * 128;
    kv = s->kv_heads * 128;

    rm->tensors = calloc((size_t) s->layers * RM_PER_LAYER + 2,
                         sizeof(rm_tensor_t));
    if (rm->tensors == NULL) {
        return hymt_fail(err, "no memory");
    }

    rm_tensor(rm, "model.embed_tokens.weight", 0, s->vocab, s->hidden);

    for (i = 0; i < s->layers; i++) {

        const struct {
            const char  *name;
            uint32_t     rows;
            uint32_t     cols;
        }  layer[RM_PER_LAYER] = {
            { "input_layernorm", s->hidden, 0 },
            { "self_attn.q_proj", q, s->hidden },
            { "self_attn.k_proj", kv, s->hidden },
            { "self_attn.v_proj", kv, s->hidden },
            { "self_attn.o_proj", s->hidden, q },
            { "self_attn.query_layernorm", 128, 0 },
            { "self_attn.key_layernorm", 128, 0 },
            { "post_attention_layernorm", s->hidden, 0 },
            { "mlp.gate_proj", s->ffn, s->hidden },
            { "mlp.up_proj", s->ffn, s->hidden },
            { "mlp.down_proj", s->hidden, s->ffn },
        };

        for (j = 0; j < RM_PER_LAYER; j++) {
            rm_tensor(rm, layer[j].name, i + 1, layer[j].rows, layer[j].cols);
        }
    }

    rm_tensor(rm, "model.norm.weight", 0, s->hidden, 0);

    for (i = 0, at = 0; i < rm->n_tensors; i++) {
        t = &rm->tensors[i];

        if (at > 0 && at + t->bytes > RM_SHARD) {
            at = 0;

            if (++rm->n_shards == RM_MAX_SHARDS) {
                return hymt_fail(err, "more than %d files", RM_MAX_SHARDS);
            }
        }

        t->shard = rm->n_shards;
        t->begin = at;
        at += t->bytes;
        rm->bytes += t->bytes;
    }

    rm->n_shards++;

    return HYMT_OK;
}


/* layer counts from 1; 0: not of a layer. */
static void
rm_tensor(rm_t *rm, const char *name, uint32_t layer, uint32_t rows,
    uint32_t cols)
{
    rm_tensor_t  *t;

    t = &rm->tensors[rm->n_tensors++];
    t->rows = rows;
    t->cols = cols;
    t->bytes = (uint64_t) rows * hymt_max(cols, 1) * 2;

    if (layer == 0) {
        snprintf(t->name, sizeof(t->name), "%s", name);

    } else {
        snprintf(t->name, sizeof(t->name), "model.layers.%" PRIu32
                 ".%s.weight", layer - 1, name);
    }
}


hymt_status_t
rm_weights(rm_t *rm, hymt_error_t *err)
{
    if (rm_tables(rm, err) != HYMT_OK || rm_headers(rm, err) != HYMT_OK
        || rm_data(rm, err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    return rm_index(rm, err);
}


static hymt_status_t
rm_tables(rm_t *rm, hymt_error_t *err)
{
    double    x;
    uint32_t  i;

    rm->matrix = malloc(65536 * sizeof(uint16_t));
    rm->norm = malloc(65536 * sizeof(uint16_t));

    if (rm->matrix == NULL || rm->norm == NULL) {
        return hymt_fail(err, "no memory");
    }

    for (i = 0; i < 65536; i++) {
        x = rm_quantile((i + 0.5) / 65536);
        rm->matrix[i] = rm_bf16((float) (0.02 * x));
        rm->norm[i] = rm_bf16((float) (1 + 0.1 * x));
    }

    return HYMT_OK;
}


/* x with P(X < x) = p: Newton's method on the error function. */
static double
rm_quantile(double p)
{
    int     i;
    double  x, f, density;

    for (i = 0, x = 0; i < 60; i++) {
        f = 0.5 * erfc(-x * M_SQRT1_2) - p;
        density = exp(-0.5 * x * x) * 0.3989422804014327;

        /* far out the slope is small and the step would leave the tail */

        f /= density;
        x -= f > 0.5 ? 0.5 : f < -0.5 ? -0.5 : f;
    }

    return x;
}


/* To the nearest, ties to even; finite x. */
static uint16_t
rm_bf16(float x)
{
    uint32_t  u;

    memcpy(&u, &x, sizeof(u));

    return (uint16_t) ((u + 0x7fff + (u >> 16 & 1)) >> 16);
}


/* The files, their headers, and their full length. */
static hymt_status_t
rm_headers(rm_t *rm, hymt_error_t *err)
{
    FILE               *f;
    char                name[64];
    long                at;
    uint32_t            i, shard;
    uint64_t            n, end;
    const rm_tensor_t  *t;

    for (shard = 0; shard < rm->n_shards; shard++) {
        rm_shard_name(rm, shard, name, sizeof(name));

        f = rm_create(rm, name, err);
        if (f == NULL) {
            return HYMT_ERROR;
        }

        fwrite("12345678{\"__metadata__\":{\"format\":\"pt\"}", 1, 39, f);

        for (i = 0, end = 0; i < rm->n_tensors; i++) {
            t = &rm->tensors[i];

            if (t->shard != shard) {
                continue;
            }

            end = t->begin + t->bytes;

            fprintf(f, ",\"%s\":{\"dtype\":\"BF16\",\"shape\":[%" PRIu32,
                    t->name, t->rows);

            if (t->cols) {
                fprintf(f, ",%" PRIu32, t->cols);
            }

            fprintf(f, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                    t->begin, end);
        }

        fputc('}', f);

        /* data begins aligned, as the library of that format has it */

        for (at = ftell(f); at % 64 != 0; at++) {
            fputc(' ', f);
        }

        n = (uint64_t) at - 8;
        rewind(f);
        (void) fwrite(&n, 1, 8, f);

        rm->data[shard] = (uint64_t) at;
        rm->fd[shard] = dup(fileno(f));

        if (rm_close(f, name, err) != HYMT_OK) {
            return HYMT_ERROR;
        }

        if (rm->fd[shard] == -1
            || ftruncate(rm->fd[shard], (off_t) ((uint64_t) at + end)) != 0)
        {
            return hymt_fail(err, "%s/%s: %s", rm->dir, name,
                             strerror(errno));
        }
    }

    return HYMT_OK;
}


static hymt_status_t
rm_data(rm_t *rm, hymt_error_t *err)
{
    int        rc;
    uint32_t   i, n;
    pthread_t  tid[RM_MAX_THREADS];

    for (n = 0; n < rm->threads; n++) {
        rc = hymt_thread_start(&tid[n], "random-model", rm_thread, rm);

        if (rc != 0) {
            atomic_store(&rm->failed, rc);
            break;
        }
    }

    for (i = 0; i < n; i++) {
        pthread_join(tid[i], NULL);
    }

    for (i = 0; i < rm->n_shards; i++) {
        close(rm->fd[i]);
    }

    rc = atomic_load(&rm->failed);

    return rc == 0 ? HYMT_OK
                   : hymt_fail(err, "%s: can't write the weights: %s", rm->dir,
                               strerror(rc));
}


static void *
rm_thread(void *data)
{
    rm_t  *rm = data;

    int        rc;
    uint16_t  *buf;

    buf = malloc(RM_CHUNK);

    for (rc = buf == NULL ? ENOMEM : 0; rc == 0; ) {
        rc = rm_chunk(rm, atomic_fetch_add(&rm->next, 1), buf);
    }

    if (rc > 0) {
        atomic_store(&rm->failed, rc);
    }

    free(buf);

    return NULL;
}


/* Chunks count through the tensors.  0, errno, or -1: there are no more. */
static int
rm_chunk(rm_t *rm, uint64_t chunk, uint16_t *buf)
{
    ssize_t             n;
    uint32_t            i;
    uint64_t            chunks, at, bytes, done;
    const rm_tensor_t  *t;

    for (i = 0; i < rm->n_tensors; i++) {
        chunks = hymt_ceil_div(rm->tensors[i].bytes, RM_CHUNK);

        if (chunk < chunks) {
            break;
        }

        chunk -= chunks;
    }

    if (i == rm->n_tensors || atomic_load(&rm->failed)) {
        return -1;
    }

    t = &rm->tensors[i];
    at = chunk * RM_CHUNK;
    bytes = hymt_min(t->bytes - at, RM_CHUNK);

    rm_fill(rm, i, at / 2, bytes / 2, buf);

    for (done = 0; done < bytes; done += (uint64_t) n) {
        n = pwrite(rm->fd[t->shard], (char *) buf + done, bytes - done,
                   (off_t) (rm->data[t->shard] + t->begin + at + done));
        if (n <= 0) {
            return errno != 0 ? errno : EIO;
        }
    }

    return 0;
}


/* Elements first .. first + n - 1; first is a multiple of four. */
static void
rm_fill(const rm_t *rm, uint32_t tensor, uint64_t first, uint64_t n,
    uint16_t *dst)
{
    uint64_t         i, j, bits, key;
    const uint16_t  *table;

    table = rm->tensors[tensor].cols ? rm->matrix : rm->norm;
    key = rm_mix(rm->seed) ^ rm_mix(tensor + 0x9e37ull);

    for (i = 0; i < n; i += 4) {
        bits = rm_mix(key + (first + i) / 4);

        for (j = 0; j < 4 && i + j < n; j++) {
            dst[i + j] = table[bits >> 16 * j & 0xffff];
        }
    }
}


/* SplitMix64's step from the state x (Steele, Lea, Flood, OOPSLA 2014). */
static uint64_t
rm_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;

    return x ^ x >> 31;
}


/* Which file has which tensor, where there are several. */
static hymt_status_t
rm_index(const rm_t *rm, hymt_error_t *err)
{
    char      name[64];
    FILE     *f;
    uint32_t  i;

    if (rm->n_shards == 1) {
        return HYMT_OK;
    }

    f = rm_create(rm, "model.safetensors.index.json", err);
    if (f == NULL) {
        return HYMT_ERROR;
    }

    fprintf(f, "{\"metadata\":{\"total_size\":%" PRIu64 "},\"weight_map\":{",
            rm->bytes);

    for (i = 0; i < rm->n_tensors; i++) {
        rm_shard_name(rm, rm->tensors[i].shard, name, sizeof(name));
        fprintf(f, "%s\n\"%s\":\"%s\"", i ? "," : "", rm->tensors[i].name,
                name);
    }

    fputs("}}\n", f);

    return rm_close(f, "model.safetensors.index.json", err);
}


static void
rm_shard_name(const rm_t *rm, uint32_t shard, char *name, size_t cap)
{
    if (rm->n_shards == 1) {
        snprintf(name, cap, "model.safetensors");

    } else {
        snprintf(name, cap, "model-%05" PRIu32 "-of-%05" PRIu32
                 ".safetensors", shard + 1, rm->n_shards);
    }
}
