/*
 * gemm_lt.c - products by cublasLt, for many rows; see gemm.h.
 *
 * The library is large, and optional: it is looked up when an engine starts,
 * and only its entry points named here are used.  Split-K is never allowed: the
 * order of k is the same for every number of rows (hymt_gemm_create() checks).
 */

#include "gemm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>


#define HYMT_LT_STR(x)   HYMT_LT_STR_(x)
#define HYMT_LT_STR_(x)  #x
#define HYMT_LT_NAME     "libcublasLt.so." HYMT_LT_STR(CUBLAS_VER_MAJOR)


/* Columns first, as cublasLt counts: y[n, m] = w[k, n]^T x[k, m]. */
typedef struct {
    cublasLtMatmulDescOpaque_t    op;
    cublasLtMatrixLayoutOpaque_t  w;
    cublasLtMatrixLayoutOpaque_t  x;
    cublasLtMatrixLayoutOpaque_t  y;
} hymt_lt_product_t;


static int hymt_lt_load(char *err, size_t cap);
static bool hymt_lt_describe(const hymt_gemm_shape_t *shape, uint32_t m,
    hymt_lt_product_t *p);


/* The entry points, found once a process; engines may start in any thread. */
static pthread_mutex_t  hymt_lt_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    void  *library;

    __typeof__(&cublasLtCreate)                           create;
    __typeof__(&cublasLtDestroy)                          destroy;
    __typeof__(&cublasLtGetVersion)                       version;
    __typeof__(&cublasLtMatmul)                           matmul;
    __typeof__(&cublasLtMatmulAlgoGetHeuristic)           heuristic;
    __typeof__(&cublasLtMatmulDescInit_internal)          op_init;
    __typeof__(&cublasLtMatmulDescSetAttribute)           op_set;
    __typeof__(&cublasLtMatrixLayoutInit_internal)        layout_init;
    __typeof__(&cublasLtMatmulPreferenceInit_internal)    preference_init;
    __typeof__(&cublasLtMatmulPreferenceSetAttribute)     preference_set;
} hymt_lt;


int
hymt_lt_open(hymt_cuda_t *dev, char *err, size_t cap)
{
    int             rc;
    cublasStatus_t  status;

    dev->lt = NULL;

    pthread_mutex_lock(&hymt_lt_lock);
    rc = hymt_lt_load(err, cap);
    pthread_mutex_unlock(&hymt_lt_lock);

    if (rc != 0) {
        return -1;
    }

    status = hymt_lt.create(&dev->lt);

    if (status != CUBLAS_STATUS_SUCCESS) {
        dev->lt = NULL;
        snprintf(err, cap, "cublasLtCreate() failed with status %d",
                 (int) status);
        return -1;
    }

    return 0;
}


void
hymt_lt_close(hymt_cuda_t *dev)
{
    if (dev->lt != NULL) {
        (void) hymt_lt.destroy(dev->lt);
        dev->lt = NULL;
    }
}


static int
hymt_lt_load(char *err, size_t cap)
{
    size_t  i;
    void   *library;

    /* the loader's own search, then where the toolkit puts it */

    static const char *const  paths[] = {
        HYMT_LT_NAME,
        "/usr/local/cuda/lib64/" HYMT_LT_NAME,
        "/usr/local/cuda/targets/x86_64-linux/lib/" HYMT_LT_NAME,
    };

    const struct {
        const char  *name;
        void        *at;
    } entries[] = {
        { "cublasLtCreate", &hymt_lt.create },
        { "cublasLtDestroy", &hymt_lt.destroy },
        { "cublasLtGetVersion", &hymt_lt.version },
        { "cublasLtMatmul", &hymt_lt.matmul },
        { "cublasLtMatmulAlgoGetHeuristic", &hymt_lt.heuristic },
        { "cublasLtMatmulDescInit_internal", &hymt_lt.op_init },
        { "cublasLtMatmulDescSetAttribute", &hymt_lt.op_set },
        { "cublasLtMatrixLayoutInit_internal", &hymt_lt.layout_init },
        { "cublasLtMatmulPreferenceInit_internal", &hymt_lt.preference_init },
        { "cublasLtMatmulPreferenceSetAttribute", &hymt_lt.preference_set },
    };

    if (hymt_lt.library != NULL) {
        return 0;
    }

    library = NULL;

    for (i = 0; library == NULL && i < sizeof(paths) / sizeof(*paths); i++) {
        library = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);
    }

    if (library == NULL) {
        snprintf(err, cap, "%s was not found: %s", HYMT_LT_NAME, dlerror());
        return -1;
    }

    for (i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
        void  *symbol = dlsym(library, entries[i].name);

        if (symbol == NULL) {
            snprintf(err, cap, "%s has no %s()", HYMT_LT_NAME,
                     entries[i].name);
            dlclose(library);
            return -1;
        }

        memcpy(entries[i].at, &symbol, sizeof(symbol));
    }

    hymt_lt.library = library;

    return 0;
}


size_t
hymt_lt_version(void)
{
    return hymt_lt.version();
}


uint32_t
hymt_lt_algos(const hymt_cuda_t *dev, const hymt_gemm_shape_t *shape,
    uint32_t m, hymt_lt_algo_t *algos, uint32_t max)
{
    int                                n;
    uint32_t                           i, mask;
    hymt_lt_product_t                  p;
    cublasLtMatmulPreferenceOpaque_t   preference;
    cublasLtMatmulHeuristicResult_t    results[HYMT_LT_ALGOS];

    mask = CUBLASLT_REDUCTION_SCHEME_NONE;
    n = 0;

    if (max > HYMT_LT_ALGOS) {
        max = HYMT_LT_ALGOS;
    }

    if (!hymt_lt_describe(shape, m, &p)
        || hymt_lt.preference_init(&preference, sizeof(preference))
           != CUBLAS_STATUS_SUCCESS
        || hymt_lt.preference_set(&preference,
                                  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                  &mask, sizeof(mask))
           != CUBLAS_STATUS_SUCCESS
        || hymt_lt.preference_set(&preference,
                                  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                  &dev->workspace_bytes,
                                  sizeof(dev->workspace_bytes))
           != CUBLAS_STATUS_SUCCESS
        || hymt_lt.heuristic(dev->lt, &p.op, &p.w, &p.x, &p.y, &p.y,
                             &preference, (int) max, results, &n)
           != CUBLAS_STATUS_SUCCESS)
    {
        return 0;
    }

    for (i = 0; i < (uint32_t) n; i++) {
        algos[i] = results[i].algo;
    }

    return (uint32_t) n;
}


cudaError_t
hymt_lt_run(const hymt_cuda_t *dev, const hymt_gemm_shape_t *shape,
    const hymt_lt_algo_t *algo, uint32_t m, cudaStream_t stream)
{
    void               *y;
    float               one, zero;
    cudaError_t         rc;
    cublasStatus_t      status;
    hymt_lt_product_t   p;

    one = 1;
    zero = 0;
    y = shape->after == HYMT_GEMM_SILU ? shape->scratch : shape->y;

    if (!hymt_lt_describe(shape, m, &p)) {
        return cudaErrorInvalidValue;
    }

    status = hymt_lt.matmul(dev->lt, &p.op, &one, shape->w, &p.w, shape->x,
                            &p.x, &zero, y, &p.y, y, &p.y, algo,
                            dev->workspace, dev->workspace_bytes, stream);

    rc = cudaGetLastError();

    if (status != CUBLAS_STATUS_SUCCESS) {
        return rc != cudaSuccess ? rc : cudaErrorLaunchFailure;
    }

    if (rc == cudaSuccess && shape->after == HYMT_GEMM_SILU) {
        rc = hymt_cuda_silu_mul(dev, shape->scratch, shape->y, m, shape->n / 2,
                                stream);
    }

    return rc;
}


static bool
hymt_lt_describe(const hymt_gemm_shape_t *shape, uint32_t m,
    hymt_lt_product_t *p)
{
    uint32_t           ldy;
    cudaDataType_t     type;
    cublasOperation_t  transposed;

    transposed = CUBLAS_OP_T;
    type = shape->after == HYMT_GEMM_F32 ? CUDA_R_32F : CUDA_R_16BF;
    ldy = shape->after == HYMT_GEMM_SILU ? shape->n : shape->ldy;

    return hymt_lt.op_init(&p->op, sizeof(p->op), CUBLAS_COMPUTE_32F,
                           CUDA_R_32F) == CUBLAS_STATUS_SUCCESS
           && hymt_lt.op_set(&p->op, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                             sizeof(transposed)) == CUBLAS_STATUS_SUCCESS
           && hymt_lt.layout_init(&p->w, sizeof(p->w), CUDA_R_16BF, shape->k,
                                  shape->n, shape->k) == CUBLAS_STATUS_SUCCESS
           && hymt_lt.layout_init(&p->x, sizeof(p->x), CUDA_R_16BF, shape->k,
                                  m, shape->k) == CUBLAS_STATUS_SUCCESS
           && hymt_lt.layout_init(&p->y, sizeof(p->y), type, shape->n, m, ldy)
              == CUBLAS_STATUS_SUCCESS;
}
