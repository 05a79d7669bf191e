/*
 * gemm.c - which kernel serves a product at how many rows; see kernels.h and
 * gemm.h.
 *
 * The choice is only one of speed: all of them give the same bits.  For the
 * own kernels that is so by construction; an algorithm of cublasLt serves only
 * after it gave the own kernel's bits on random numbers, on this device, in
 * this shape.
 */

#include "gemm.h"
#include "gemm_table.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define HYMT_GEMM_PLANS    25
#define HYMT_GEMM_PROOFS   512     /* results kept: some 50 a model */
#define HYMT_GEMM_FEW      128     /* rows: gemm_sm90.cu before gemm_many.cu */
#define HYMT_GEMM_CHECKED  16      /* rows compared at each of three places */


/* A CUtensorMap. */
typedef struct {
    uint64_t  data[16];
} __attribute__((aligned(64))) hymt_gemm_map_t;


struct hymt_gemm_s {
    hymt_gemm_map_t    maps[HYMT_GEMM_PLANS];
    hymt_cuda_t        dev;
    hymt_gemm_shape_t  shape;
    hymt_gemm_plan_t   plans[HYMT_GEMM_PLANS];
    uint32_t           n_plans;
    uint32_t           refused;    /* plans where cublasLt differed ... */
    uint32_t           unproven;   /* ... or could not be compared */
};


/* How the comparison of cublasLt's bits with those of the own kernels ended. */
typedef enum {
    HYMT_GEMM_EQUAL = 0,
    HYMT_GEMM_DIFFERENT,
    HYMT_GEMM_UNPROVEN,      /* no memory for it, or it failed to run */
} hymt_gemm_verdict_t;


/* What a proof depends on, and how it came out. */
typedef struct {
    int             device;
    uint32_t        n;
    uint32_t        k;
    uint32_t        m;
    bool            f32;
    bool            equal;
    hymt_lt_algo_t  algo;
} hymt_gemm_proof_t;


static void hymt_gemm_own_plan(const hymt_cuda_t *dev,
    const hymt_gemm_shape_t *shape, uint32_t m, hymt_gemm_plan_t *plan);
static void hymt_gemm_best_plan(const hymt_cuda_t *dev,
    const hymt_gemm_shape_t *shape, uint32_t m, hymt_gemm_plan_t *plan);
static int hymt_gemm_map_plan(const hymt_gemm_shape_t *shape,
    const hymt_gemm_plan_t *plan, hymt_gemm_map_t *map, char *err, size_t cap);
static cudaError_t hymt_gemm_run_plan(const hymt_cuda_t *dev,
    const hymt_gemm_shape_t *shape, const hymt_gemm_plan_t *plan,
    const hymt_gemm_map_t *map, uint32_t m, cudaStream_t stream);
static hymt_gemm_verdict_t hymt_gemm_judge(const hymt_cuda_t *dev,
    const hymt_gemm_shape_t *shape, const hymt_gemm_plan_t *plan, uint32_t low,
    uint32_t m);
static cudaError_t hymt_gemm_prove(const hymt_cuda_t *dev,
    const hymt_gemm_shape_t *shape, const hymt_gemm_plan_t *plan, uint32_t low,
    uint32_t m, bool *equal);


/* Numbers of rows that have a plan of their own, and whatever is the most. */
static const uint32_t     hymt_gemm_steps[HYMT_GEMM_PLANS - 1] = {
    8, 16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576,
    640, 768, 1024, 1536, 2048, 3072, 4096, 8192
};

static pthread_mutex_t    hymt_gemm_lock = PTHREAD_MUTEX_INITIALIZER;
static hymt_gemm_proof_t  hymt_gemm_proofs[HYMT_GEMM_PROOFS];
static uint32_t           hymt_gemm_n_proofs;


int
hymt_gemm_create(const hymt_cuda_t *dev, const hymt_gemm_shape_t *shape,
    hymt_gemm_t **gemm, char *err, size_t cap)
{
    uint32_t              low, m;
    cudaError_t           rc;
    hymt_gemm_t          *g;
    hymt_gemm_plan_t     *plan;
    hymt_gemm_verdict_t   verdict;

    *gemm = NULL;

    if (shape->n % 8 != 0 || shape->k % 64 != 0 || shape->max_rows == 0
        || (shape->after == HYMT_GEMM_SILU && shape->n % 16 != 0))
    {
        snprintf(err, cap, "no kernel for a product of %u x %u", shape->n,
                 shape->k);
        return -1;
    }

    g = aligned_alloc(64, (sizeof(*g) + 63) / 64 * 64);
    if (g == NULL) {
        snprintf(err, cap, "no memory");
        return -1;
    }

    memset(g, 0, sizeof(*g));
    g->dev = *dev;
    g->shape = *shape;
    dev = &g->dev;

    rc = hymt_gemm_mma_init(dev);

    if (rc == cudaSuccess && dev->cc == 90) {
        if (hymt_gemm_sm90_built()) {
            rc = hymt_gemm_sm90_init(dev);

            if (rc == cudaSuccess) {
                rc = hymt_gemm_many_init(dev);
            }

        } else {
            g->dev.cc = 80;    /* from PTX: what every device can do */
        }
    }

    if (rc != cudaSuccess) {
        snprintf(err, cap, "cudaFuncSetAttribute() failed: %s",
                 cudaGetErrorString(rc));
        free(g);
        return -1;
    }

    for (m = 0; m != shape->max_rows; g->n_plans++) {
        plan = &g->plans[g->n_plans];
        low = m + 1;

        m = g->n_plans < HYMT_GEMM_PLANS - 1 ? hymt_gemm_steps[g->n_plans]
                                             : shape->max_rows;
        m = m < shape->max_rows ? m : shape->max_rows;

        hymt_gemm_best_plan(dev, shape, m, plan);

        if (plan->kind == HYMT_GEMM_LT) {
            verdict = hymt_gemm_judge(dev, shape, plan, low, m);

            if (verdict != HYMT_GEMM_EQUAL) {
                g->refused += verdict == HYMT_GEMM_DIFFERENT;
                g->unproven += verdict == HYMT_GEMM_UNPROVEN;
                hymt_gemm_own_plan(dev, shape, m, plan);
            }
        }

        plan->max_rows = m;

        if (hymt_gemm_map_plan(shape, plan, &g->maps[g->n_plans], err, cap)
            != 0)
        {
            free(g);
            return -1;
        }
    }

    *gemm = g;

    return 0;
}


void
hymt_gemm_free(hymt_gemm_t *gemm)
{
    free(gemm);
}


cudaError_t
hymt_gemm_run(const hymt_gemm_t *gemm, uint32_t m, cudaStream_t stream)
{
    uint32_t  i;

    for (i = 0; i < gemm->n_plans - 1; i++) {
        if (m <= gemm->plans[i].max_rows) {
            break;
        }
    }

    return hymt_gemm_run_plan(&gemm->dev, &gemm->shape, &gemm->plans[i],
                              &gemm->maps[i], m, stream);
}


void
hymt_gemm_describe(const hymt_gemm_t *gemm, char *text, size_t cap)
{
    int                      n;
    size_t                   used;
    uint32_t                 i;
    const hymt_gemm_plan_t  *p;

    static const char *const  names[] = { "mma", "wgmma", "wgmma tiles",
                                          "cublasLt" };

    n = snprintf(text, cap, "%u x %u:", gemm->shape.n, gemm->shape.k);
    used = n < 0 ? 0 : (size_t) n;

    for (i = 0; i < gemm->n_plans && used < cap; i++) {
        p = &gemm->plans[i];

        /* neighbours of one kind are one */

        if (i + 1 < gemm->n_plans && p->kind == gemm->plans[i + 1].kind) {
            continue;
        }

        n = snprintf(text + used, cap - used, " to %u rows %s%s", p->max_rows,
                     names[p->kind], i + 1 < gemm->n_plans ? "," : "");
        used += n < 0 ? 0 : (size_t) n;
    }

    if (gemm->refused != 0 && used < cap) {
        n = snprintf(text + used, cap - used, "; cublasLt would have changed"
                     " bits in %u of %u cases", gemm->refused, gemm->n_plans);
        used += n < 0 ? 0 : (size_t) n;
    }

    if (gemm->unproven != 0 && used < cap) {
        (void) snprintf(text + used, cap - used, "; cublasLt could not be"
                        " compared in %u of %u cases", gemm->unproven,
                        gemm->n_plans);
    }
}


bool
hymt_gemm_many_plan(const hymt_cuda_t *dev, const hymt_gemm_shape_t *shape,
    uint32_t m, hymt_gemm_plan_t *plan)
{
    uint32_t          i, rows, tiles;
    uint64_t          cost, least;
    hymt_gemm_plan_t  p;

    static const uint16_t  tokens[] = { 256, 224, 192, 160, 128, 112, 96, 80,
                                        64, 48, 32 };

    least = UINT64_MAX;

    for (i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        tiles = (m + tokens[i] - 1) / tokens[i];

        for (rows = 192; rows > 0; rows -= 32) {
            memset(&p, 0, sizeof(p));

            p.max_rows = plan->max_rows;
            p.kind = HYMT_GEMM_MANY;
            p.tokens = tokens[i];
            p.rows = (uint16_t) rows;
            p.depth = rows + tokens[i] <= 160 && shape->k % 128 == 0 ? 2 : 1;
            p.share_x = 1;
            p.share_w = p.depth == 1 && tiles % 2 == 0 ? 2 : 1;
            p.ring = 226;

            cost = hymt_gemm_many_cost(dev, shape, &p, m);

            if (cost < least && hymt_gemm_many_fits(shape, &p)) {
                least = cost;
                *plan = p;
            }
        }
    }

    return least != UINT64_MAX;
}


/*
 * By rule: as many equal tiles as there are SMs, for they all stream at the
 * same rate; tiles of tokens as large as their number, to 64.
 */
static void
hymt_gemm_own_plan(const hymt_cuda_t *dev, const hymt_gemm_shape_t *shape,
    uint32_t m, hymt_gemm_plan_t *plan)
{
    uint32_t  step, rows, tiles;

    memset(plan, 0, sizeof(*plan));

    if (dev->cc != 90) {
        plan->kind = HYMT_GEMM_MMA;
        plan->tokens = m <= 16 ? 16 : 64;
        plan->rows = shape->n / 64 >= dev->sms ? 64
                     : shape->n / 32 >= dev->sms ? 32 : 16;
        return;
    }

    if (m > HYMT_GEMM_FEW && hymt_gemm_many_plan(dev, shape, m, plan)) {
        return;
    }

    plan->kind = HYMT_GEMM_WGMMA;
    plan->tokens = m <= 8 ? 8 : m <= 16 ? 16 : m <= 32 ? 32 : m <= 64 ? 64
                   : 128;

    step = shape->after == HYMT_GEMM_SILU ? 16 : 8;
    tiles = (m + plan->tokens - 1) / plan->tokens;
    rows = (shape->n * tiles + dev->sms - 1) / dev->sms;
    rows = (rows + step - 1) / step * step;
    plan->rows = (uint16_t) (rows < 128 ? rows : 128);

    plan->depth = plan->rows + plan->tokens <= 48 ? 4
                  : plan->rows + plan->tokens <= 96 ? 2 : 1;
    plan->share_x = 1;
    plan->share_w = 1;
    plan->ring = m <= 32 ? 104 : 208;
}


/* A row's tiles know nothing of what is done with the sums. */
static bool
hymt_gemm_row_serves(const hymt_gemm_row_t *row, const hymt_gemm_shape_t *shape)
{
    return row->kind != HYMT_GEMM_MANY
           || (shape->after != HYMT_GEMM_F32
               && (shape->after != HYMT_GEMM_SILU || row->rows % 64 == 0));
}


static void
hymt_gemm_best_plan(const hymt_cuda_t *dev, const hymt_gemm_shape_t *shape,
    uint32_t m, hymt_gemm_plan_t *plan)
{
    uint32_t                 i;
    const hymt_gemm_row_t   *row, *best;

    hymt_gemm_own_plan(dev, shape, m, plan);

    /*
     * The measured way for the next larger number of rows; with many rows only
     * where that is not far, or it wastes a part of each tile.
     */

    best = NULL;

    if (dev->cc == 90) {
        for (i = 0; i < sizeof(hymt_gemm_rows) / sizeof(hymt_gemm_row_t); i++)
        {
            row = &hymt_gemm_rows[i];

            if (row->n == shape->n && row->k == shape->k && row->m >= m
                && (row->kind == HYMT_GEMM_WGMMA || row->m <= m + m / 2)
                && hymt_gemm_row_serves(row, shape)
                && (best == NULL || row->m < best->m))
            {
                best = row;
            }
        }
    }

    if (best != NULL && best->kind != HYMT_GEMM_LT) {
        plan->kind = best->kind;
        plan->tokens = best->tokens;
        plan->rows = best->rows;
        plan->depth = best->depth;
        plan->share_x = best->share_x;
        plan->share_w = best->share_w;
        plan->ring = best->ring;
        return;
    }

    if (dev->lt == NULL || (best == NULL && m <= 64)) {
        return;
    }

    /* behind cublasLt gate and up are written, and read once more */

    if (best == NULL && shape->after == HYMT_GEMM_SILU
        && plan->kind == HYMT_GEMM_MANY)
    {
        return;
    }

    if (best != NULL && hymt_lt_version() == HYMT_GEMM_TABLE_LT) {
        plan->kind = HYMT_GEMM_LT;
        plan->algo = best->algo;
        return;
    }

    if (hymt_lt_algos(dev, shape, m, &plan->algo, 1) == 1) {
        plan->kind = HYMT_GEMM_LT;
    }
}


static int
hymt_gemm_map_plan(const hymt_gemm_shape_t *shape,
    const hymt_gemm_plan_t *plan, hymt_gemm_map_t *map, char *err, size_t cap)
{
    switch (plan->kind) {

    case HYMT_GEMM_WGMMA:
        return hymt_gemm_sm90_map(shape, plan, map, err, cap);

    case HYMT_GEMM_MANY:
        return hymt_gemm_many_map(shape, plan, map, err, cap);

    default:
        return 0;
    }
}


static cudaError_t
hymt_gemm_run_plan(const hymt_cuda_t *dev, const hymt_gemm_shape_t *shape,
    const hymt_gemm_plan_t *plan, const hymt_gemm_map_t *map, uint32_t m,
    cudaStream_t stream)
{
    switch (plan->kind) {

    case HYMT_GEMM_WGMMA:
        return hymt_gemm_sm90_run(dev, shape, plan, map, m, stream);

    case HYMT_GEMM_MANY:
        return hymt_gemm_many_run(dev, shape, plan, map, m, stream);

    case HYMT_GEMM_LT:
        return hymt_lt_run(dev, shape, &plan->algo, m, stream);

    default:
        return hymt_gemm_mma_run(dev, shape, plan, m, stream);
    }
}


static hymt_gemm_verdict_t
hymt_gemm_judge(const hymt_cuda_t *dev, const hymt_gemm_shape_t *shape,
    const hymt_gemm_plan_t *plan, uint32_t low, uint32_t m)
{
    bool                  equal;
    uint32_t              i;
    hymt_gemm_proof_t    *p;
    hymt_gemm_verdict_t   verdict;

    pthread_mutex_lock(&hymt_gemm_lock);

    for (i = 0; i < hymt_gemm_n_proofs; i++) {
        p = &hymt_gemm_proofs[i];

        if (p->device == dev->device && p->n == shape->n && p->k == shape->k
            && p->m == m && p->f32 == (shape->after == HYMT_GEMM_F32)
            && memcmp(&p->algo, &plan->algo, sizeof(p->algo)) == 0)
        {
            verdict = p->equal ? HYMT_GEMM_EQUAL : HYMT_GEMM_DIFFERENT;
            goto done;
        }
    }

    if (hymt_gemm_prove(dev, shape, plan, low, m, &equal) != cudaSuccess) {
        verdict = HYMT_GEMM_UNPROVEN;
        goto done;
    }

    verdict = equal ? HYMT_GEMM_EQUAL : HYMT_GEMM_DIFFERENT;

    if (hymt_gemm_n_proofs < HYMT_GEMM_PROOFS) {
        p = &hymt_gemm_proofs[hymt_gemm_n_proofs++];

        p->device = dev->device;
        p->n = shape->n;
        p->k = shape->k;
        p->m = m;
        p->f32 = shape->after == HYMT_GEMM_F32;
        p->equal = equal;
        p->algo = plan->algo;
    }

done:

    pthread_mutex_unlock(&hymt_gemm_lock);

    return verdict;
}


/*
 * The same product on random numbers both ways; the first rows, those in the
 * middle and the last are compared, fp32 or bf16 as the product is.  Then the
 * fewest rows that the plan is for, with those of the most.  A failure to run
 * is a failure to prove, and leaves no error behind.
 */
static cudaError_t
hymt_gemm_prove(const hymt_cuda_t *dev, const hymt_gemm_shape_t *shape,
    const hymt_gemm_plan_t *plan, uint32_t low, uint32_t m, bool *equal)
{
    char               err[256];
    size_t             w_size, x_size, y_size, row, check, at, total;
    uint32_t           i, differ, *count;
    uint8_t           *base, *y[2];
    cudaError_t        rc;
    hymt_gemm_map_t    map;
    hymt_gemm_plan_t   own;
    hymt_gemm_shape_t  s;

    s = *shape;
    s.after = shape->after == HYMT_GEMM_F32 ? HYMT_GEMM_F32 : HYMT_GEMM_STORE;
    s.ldy = s.n;
    s.max_rows = m;

    row = (size_t) s.n * (s.after == HYMT_GEMM_F32 ? 4 : 2);
    w_size = (size_t) s.n * s.k * 2;
    x_size = ((size_t) m * s.k * 2 + 255) / 256 * 256;
    y_size = (m * row + 255) / 256 * 256;
    check = m < HYMT_GEMM_CHECKED ? m : HYMT_GEMM_CHECKED;
    total = w_size + x_size + 2 * y_size + 512;

    rc = cudaMalloc((void **) &base, total);
    if (rc != cudaSuccess) {
        (void) cudaGetLastError();
        return rc;
    }

    s.w = (hymt_bf16_t *) base;
    at = (w_size + 255) / 256 * 256;
    s.x = (hymt_bf16_t *) (base + at);
    at += x_size;
    y[0] = base + at;
    y[1] = base + at + y_size;
    count = (uint32_t *) (base + at + 2 * y_size);

    rc = cudaMemsetAsync(y[0], 0xff, 2 * y_size, dev->stream);

    if (rc == cudaSuccess) {
        rc = cudaMemsetAsync(count, 0, sizeof(*count), dev->stream);
    }

    if (rc == cudaSuccess) {
        rc = hymt_gemm_fill((hymt_bf16_t *) base, (size_t) s.n * s.k, 1, 0.05f,
                            dev->stream);
    }

    if (rc == cudaSuccess) {
        rc = hymt_gemm_fill((hymt_bf16_t *) (base + at - x_size),
                            (size_t) m * s.k, 2, 1.0f, dev->stream);
    }

    s.y = y[0];

    if (rc == cudaSuccess) {
        rc = hymt_lt_run(dev, &s, &plan->algo, m, dev->stream);
    }

    /* the own kernel computes only the rows that are compared */

    for (i = 0; rc == cudaSuccess && i < 3; i++) {
        at = (m - check) * i / 2;
        s.x = (hymt_bf16_t *) (y[0] - x_size) + at * s.k;
        s.y = y[1] + at * row;

        hymt_gemm_own_plan(dev, &s, (uint32_t) check, &own);

        if (hymt_gemm_map_plan(&s, &own, &map, err, sizeof(err)) != 0) {
            rc = cudaErrorUnknown;
            break;
        }

        rc = hymt_gemm_run_plan(dev, &s, &own, &map, (uint32_t) check,
                                dev->stream);

        if (rc == cudaSuccess) {
            rc = hymt_gemm_compare(y[0] + at * row, y[1] + at * row,
                                   check * row / 2, count, dev->stream);
        }
    }

    s.x = (hymt_bf16_t *) (y[0] - x_size);
    s.y = y[1];

    if (rc == cudaSuccess) {
        rc = hymt_lt_run(dev, &s, &plan->algo, low, dev->stream);
    }

    if (rc == cudaSuccess) {
        rc = hymt_gemm_compare(y[0], y[1], low * row / 2, count, dev->stream);
    }

    differ = 1;

    if (rc == cudaSuccess) {
        rc = cudaMemcpyAsync(&differ, count, sizeof(differ),
                             cudaMemcpyDeviceToHost, dev->stream);
    }

    if (rc == cudaSuccess) {
        rc = cudaStreamSynchronize(dev->stream);
    }

    (void) cudaFree(base);
    (void) cudaGetLastError();

    *equal = differ == 0;

    return rc;
}
