/*
 * load.c - how fast a checkpoint is read from the page cache.
 *
 * Compares, in one run and taking turns, a plain pread() of the same bytes with
 * hymt_tensor_read() and hymt_tensor_read_f32() of every tensor.  The first
 * two move the bytes once, from the page cache to a 16 MiB buffer; the third
 * also writes twice as many as floats, where the weights have 16 bits.
 */

#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


#define BENCH_BUFFER      (16 << 20)
#define BENCH_MAX_ROUNDS  99


typedef hymt_status_t (*bench_read_pt)(const hymt_tensor_t *t, void *buffer,
    hymt_error_t *err);


static hymt_status_t bench_all(const hymt_model_t *model, bench_read_pt read,
    void *buffer, uint64_t *ns, hymt_error_t *err);
static hymt_status_t bench_pread(const hymt_tensor_t *t, void *buffer,
    hymt_error_t *err);
static hymt_status_t bench_raw(const hymt_tensor_t *t, void *buffer,
    hymt_error_t *err);
static hymt_status_t bench_f32(const hymt_tensor_t *t, void *buffer,
    hymt_error_t *err);
static void bench_print(const char *name, const hymt_model_t *model,
    uint64_t *ns, int rounds);
static int bench_compare(const void *one, const void *two);


static const bench_read_pt  bench_ways[3] = { bench_pread, bench_raw,
                                              bench_f32 };


static const char  bench_help[] =
    "Usage: load MODEL [ROUNDS]\n"
    "\n"
    "Reads all weights of the model directory ROUNDS times (5) in each of\n"
    "three ways, after one round that fills the page cache, and prints the\n"
    "median and the best: bytes on disk by time.\n";


int
main(int argc, char **argv)
{
    int            i, rounds;
    void          *buffer;
    size_t         way;
    uint64_t       start, ns[3][BENCH_MAX_ROUNDS];
    hymt_error_t   err;
    hymt_model_t  *model;

    if (argc < 2 || argc > 3 || strcmp(argv[1], "--help") == 0) {
        fputs(bench_help, argc < 2 || argc > 3 ? stderr : stdout);
        return argc < 2 || argc > 3 ? 2 : 0;
    }

    rounds = argc == 3 ? atoi(argv[2]) : 5;

    if (rounds < 1 || rounds > BENCH_MAX_ROUNDS) {
        fprintf(stderr, "load: ROUNDS is 1 to %d\n", BENCH_MAX_ROUNDS);
        return 2;
    }

    start = hymt_now_ns();

    if (hymt_model_open(argv[1], &model, &err) != HYMT_OK) {
        fprintf(stderr, "load: %s\n", err.text);
        return 1;
    }

    printf("open: %.2f ms, %.3f GB of weights\n",
           (double) (hymt_now_ns() - start) / 1e6,
           (double) model->bytes / 1e9);

    buffer = malloc(BENCH_BUFFER);
    if (buffer == NULL) {
        fprintf(stderr, "load: no memory\n");
        return 1;
    }

    for (i = -1; i < rounds; i++) {
        for (way = 0; way < 3; way++) {
            if (bench_all(model, bench_ways[way], buffer,
                          &ns[way][i < 0 ? 0 : i], &err)
                != HYMT_OK)
            {
                fprintf(stderr, "load: %s\n", err.text);
                return 1;
            }
        }
    }

    bench_print("pread", model, ns[0], rounds);
    bench_print("hymt_tensor_read", model, ns[1], rounds);
    bench_print("hymt_tensor_read_f32", model, ns[2], rounds);

    free(buffer);
    hymt_model_close(model);

    return 0;
}


static hymt_status_t
bench_all(const hymt_model_t *model, bench_read_pt read, void *buffer,
    uint64_t *ns, hymt_error_t *err)
{
    size_t               i;
    uint32_t             n;
    uint64_t             start;
    const hymt_layer_t  *l;

    const hymt_tensor_t  *top[3] = {
        model->embed, model->norm,
        model->config.tied ? NULL : model->lm_head,
    };

    start = hymt_now_ns();

    for (i = 0; i < hymt_nelts(top); i++) {
        if (top[i] != NULL && read(top[i], buffer, err) != HYMT_OK) {
            return HYMT_ERROR;
        }
    }

    for (n = 0; n < model->config.n_layers; n++) {
        l = &model->layers[n];

        const hymt_tensor_t  *all[] = {
            l->input_norm, l->q, l->k, l->v, l->o, l->q_norm, l->k_norm,
            l->post_norm, l->gate, l->up, l->down,
        };

        for (i = 0; i < hymt_nelts(all); i++) {
            if (all[i] != NULL && read(all[i], buffer, err) != HYMT_OK) {
                return HYMT_ERROR;
            }
        }
    }

    *ns = hymt_now_ns() - start;

    return HYMT_OK;
}


static hymt_status_t
bench_pread(const hymt_tensor_t *t, void *buffer, hymt_error_t *err)
{
    ssize_t   n;
    uint64_t  at;

    for (at = 0; at < t->bytes; at += (uint64_t) n) {
        n = pread(t->fd, buffer, hymt_min(t->bytes - at, BENCH_BUFFER),
                  (off_t) (t->offset + at));
        if (n <= 0) {
            return hymt_fail(err, "%s: pread failed", t->file);
        }
    }

    return HYMT_OK;
}


static hymt_status_t
bench_raw(const hymt_tensor_t *t, void *buffer, hymt_error_t *err)
{
    uint64_t  i, n, all, chunk;

    chunk = BENCH_BUFFER / hymt_dtype_size(t->dtype);
    all = t->bytes / hymt_dtype_size(t->dtype);

    for (i = 0; i < all; i += n) {
        n = hymt_min(all - i, chunk);

        if (hymt_tensor_read(t, i, n, buffer, NULL, err) != HYMT_OK) {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static hymt_status_t
bench_f32(const hymt_tensor_t *t, void *buffer, hymt_error_t *err)
{
    uint64_t  i, n, all;

    all = t->bytes / hymt_dtype_size(t->dtype);

    for (i = 0; i < all; i += n) {
        n = hymt_min(all - i, BENCH_BUFFER / sizeof(float));

        if (hymt_tensor_read_f32(t, i, n, buffer, NULL, err) != HYMT_OK) {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static void
bench_print(const char *name, const hymt_model_t *model, uint64_t *ns,
    int rounds)
{
    qsort(ns, (size_t) rounds, sizeof(uint64_t), bench_compare);

    printf("%-22s median %6.2f GB/s   best %6.2f GB/s   median %.3f s\n",
           name, (double) model->bytes / (double) ns[rounds / 2],
           (double) model->bytes / (double) ns[0],
           (double) ns[rounds / 2] / 1e9);
}


static int
bench_compare(const void *one, const void *two)
{
    uint64_t  a = *(const uint64_t *) one;
    uint64_t  b = *(const uint64_t *) two;

    return a < b ? -1 : a > b;
}
