/*
 * cuda_gemm_runs.cuh - a product computed by a plan, alone or in the chain of a
 * layer: its time, and whether its bits are the plain kernel's.
 *
 * Who includes it fills the globals first.
 */

#ifndef HYMT_CUDA_GEMM_RUNS_CUH
#define HYMT_CUDA_GEMM_RUNS_CUH

#include "../kernels/cuda/gemm.h"
#include "../kernels/cuda/ptx.cuh"

#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <vector>


#define CHECK(call)                                                           \
    do {                                                                      \
        cudaError_t  rc_ = (call);                                            \
        if (rc_ != cudaSuccess) {                                             \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call,              \
                   cudaGetErrorString(rc_));                                  \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

#define WEIGHTS   (2200ull << 20)     /* bytes */
#define ROWS      2048
#define REPEATS   5


typedef struct {
    const char         *name;
    uint32_t            n;
    uint32_t            k;
    hymt_gemm_after_t   after;
} product_t;


static hymt_cuda_t   dev;
static hymt_bf16_t  *weights, *x, *scratch;
static uint8_t      *y, *y_ref;
static size_t        y_bytes;
static uint32_t     *differ;


/* Gives up, and says where, when the device does not come back. */
static void
finish(const char *what)
{
    time_t       start = time(NULL);
    cudaError_t  rc;

    while ((rc = cudaStreamQuery(dev.stream)) == cudaErrorNotReady) {
        if (time(NULL) - start > 3) {
            printf("HANGS: %s\n", what);
            fflush(stdout);
            _exit(3);
        }
    }

    if (rc != cudaSuccess) {
        printf("FAILS: %s: %s\n", what, cudaGetErrorString(rc));
        fflush(stdout);
        _exit(3);
    }
}


/* Median time in us of what `record` puts on the stream, as one graph. */
template<typename F>
static double
graph_us(const char *what, F record)
{
    cudaGraph_t          graph;
    cudaGraphExec_t      exec;
    cudaEvent_t          e0, e1;
    std::vector<double>  times;

    CHECK(cudaEventCreate(&e0));
    CHECK(cudaEventCreate(&e1));

    CHECK(cudaStreamBeginCapture(dev.stream, cudaStreamCaptureModeRelaxed));
    record();
    CHECK(cudaStreamEndCapture(dev.stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));

    for (int i = 0; i <= REPEATS; i++) {
        float  ms;

        CHECK(cudaEventRecord(e0, dev.stream));
        CHECK(cudaGraphLaunch(exec, dev.stream));
        CHECK(cudaEventRecord(e1, dev.stream));
        finish(what);
        CHECK(cudaEventElapsedTime(&ms, e0, e1));

        if (i > 0) {
            times.push_back(ms * 1000);
        }
    }

    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaEventDestroy(e0));
    CHECK(cudaEventDestroy(e1));

    std::sort(times.begin(), times.end());

    return times[times.size() / 2];
}


static hymt_gemm_shape_t
shape_of(const product_t *p, size_t weight)
{
    hymt_gemm_shape_t  s;

    memset(&s, 0, sizeof(s));
    s.w = weights + weight;
    s.n = p->n;
    s.k = p->k;
    s.x = x;
    s.y = y;
    s.ldy = p->after == HYMT_GEMM_SILU ? p->n / 2 : p->n;
    s.max_rows = ROWS;
    s.scratch = scratch;
    s.after = p->after;

    return s;
}


static cudaError_t
run_plan(const hymt_gemm_shape_t *s, const hymt_gemm_plan_t *plan, uint32_t m)
{
    char     err[256];
    uint8_t  map[128] __attribute__((aligned(64)));

    if (plan->kind == HYMT_GEMM_LT) {
        return hymt_lt_run(&dev, s, &plan->algo, m, dev.stream);
    }

    if (plan->kind == HYMT_GEMM_MMA) {
        return hymt_gemm_mma_run(&dev, s, plan, m, dev.stream);
    }

    if ((plan->kind == HYMT_GEMM_MANY
         ? hymt_gemm_many_map(s, plan, map, err, sizeof(err))
         : hymt_gemm_sm90_map(s, plan, map, err, sizeof(err)))
        != 0)
    {
        printf("%s\n", err);
        exit(1);
    }

    if (plan->kind == HYMT_GEMM_MANY) {
        return hymt_gemm_many_run(&dev, s, plan, map, m, dev.stream);
    }

    return hymt_gemm_sm90_run(&dev, s, plan, map, m, dev.stream);
}


static const char *
plan_text(const hymt_gemm_plan_t *p)
{
    static char  text[4][64];
    static int   i;
    char        *t = text[i++ % 4];

    if (p->kind == HYMT_GEMM_WGMMA || p->kind == HYMT_GEMM_MANY) {
        snprintf(t, 64, "%sT%u R%u x%u w%u d%u r%u",
                 p->kind == HYMT_GEMM_MANY ? "many " : "", p->tokens,
                 p->rows, p->share_x, p->share_w, p->depth, p->ring);

    } else {
        snprintf(t, 64, "%s", p->kind == HYMT_GEMM_LT ? "lt" : "mma");
    }

    return t;
}


/* One product, several launches in a row, each with its own weights. */
static double
time_plan(const product_t *p, const hymt_gemm_plan_t *plan, uint32_t m)
{
    const size_t    size = (size_t) p->n * p->k;
    const uint32_t  launches = size * 2 > 200 << 20 ? 4 : 20;

    return graph_us(plan_text(plan), [&] {
        for (uint32_t i = 0; i < launches; i++) {
            hymt_gemm_shape_t  s;

            s = shape_of(p, i * size % (WEIGHTS / 2 - size) / 64 * 64);
            CHECK(run_plan(&s, plan, m));
        }
    }) / launches;
}


static size_t
out_bytes(const product_t *p, uint32_t m)
{
    return (size_t) m * p->n * (p->after == HYMT_GEMM_F32 ? 4 :
                                p->after == HYMT_GEMM_SILU ? 1 : 2);
}


static bool
same_bits(const product_t *p, const hymt_gemm_plan_t *plan, uint32_t m)
{
    uint32_t           n;
    hymt_gemm_shape_t  s = shape_of(p, 0);

    CHECK(cudaMemsetAsync(y, 0xff, out_bytes(p, m), dev.stream));
    CHECK(run_plan(&s, plan, m));
    CHECK(cudaMemsetAsync(differ, 0, 4, dev.stream));
    CHECK(hymt_gemm_compare(y, y_ref, out_bytes(p, m) / 2, differ,
                            dev.stream));
    finish(plan_text(plan));
    CHECK(cudaMemcpy(&n, differ, 4, cudaMemcpyDeviceToHost));

    return n == 0;
}


static void
reference(const product_t *p, uint32_t m)
{
    hymt_gemm_plan_t   plan = {};
    hymt_gemm_shape_t  s = shape_of(p, 0);

    plan.kind = HYMT_GEMM_MMA;
    plan.tokens = 64;
    plan.rows = 64;
    s.y = y_ref;

    CHECK(cudaMemsetAsync(y_ref, 0xff, out_bytes(p, m), dev.stream));
    CHECK(hymt_gemm_mma_run(&dev, &s, &plan, m, dev.stream));
    finish("reference");
}


static double
chain_us(const product_t *ps, const hymt_gemm_plan_t *plans, uint32_t m,
    uint32_t layers)
{
    return graph_us("chain", [&] {
        size_t  at = 0;

        for (uint32_t i = 0; i < layers; i++) {
            for (int j = 0; j < 4; j++) {
                hymt_gemm_shape_t  s;

                if (at + (size_t) ps[j].n * ps[j].k > WEIGHTS / 2) {
                    at = 0;
                }

                s = shape_of(&ps[j], at);
                s.y = y + (j % 2) * (y_bytes / 2);
                CHECK(run_plan(&s, &plans[j], m));

                at += (size_t) ps[j].n * ps[j].k;
            }
        }
    });
}


#endif /* HYMT_CUDA_GEMM_RUNS_CUH */
