/*
 * gemm_test.cu - products against plain C in double, and against each other:
 * every way to compute a row gives it the same bits, at every number of rows.
 *
 * All rows at once by the plain kernel are the measure; a sample of them is
 * checked in double on the host.  Then each path computes every awkward number
 * of rows: those must be the measure's bits, all others untouched.
 *
 * With the arguments "seed small", for compute-sanitizer: every instance of
 * every kernel once for each way to store, few rows, no cublasLt.
 */

#include "device_buffer.h"
#include "gemm.h"


#define ROWS     2051
#define SAMPLES  400
#define N_ROWS   (sizeof(row_counts) / sizeof(row_counts[0]))
#define CUTS     18            /* instances of k_gemm_sm90_bf16 ... */
#define RANDOM   6             /* ... of which so many are drawn */
#define TILES    34            /* instances of k_gemm_many_bf16 */


typedef struct {
    uint32_t            n;
    uint32_t            k;
    uint32_t            max_rows;
    hymt_gemm_after_t   after;
} case_t;


typedef cudaError_t (*path_pt)(void *data, uint32_t m);


static const uint32_t  row_counts[] = { 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63,
                                        64, 65, 127, 128, 255, 256, 300, 511,
                                        512, 700, ROWS };

static const case_t  cases[] = {
    { 768, 256, ROWS, HYMT_GEMM_STORE },        /* the demo model */
    { 256, 256, ROWS, HYMT_GEMM_STORE },
    { 1280, 256, ROWS, HYMT_GEMM_SILU },
    { 256, 640, ROWS, HYMT_GEMM_STORE },
    { 12288, 256, 256, HYMT_GEMM_F32 },
    { 3072, 2048, ROWS, HYMT_GEMM_STORE },      /* 1.8B */
    { 2048, 2048, ROWS, HYMT_GEMM_STORE },
    { 12288, 2048, ROWS, HYMT_GEMM_SILU },
    { 2048, 6144, ROWS, HYMT_GEMM_STORE },
    { 120832, 2048, 256, HYMT_GEMM_F32 },
    { 6144, 4096, 512, HYMT_GEMM_STORE },       /* 7B */
    { 28672, 4096, 512, HYMT_GEMM_SILU },
    { 4096, 14336, 512, HYMT_GEMM_STORE },
    { 8, 64, 300, HYMT_GEMM_STORE },            /* awkward */
    { 24, 64, 17, HYMT_GEMM_F32 },
    { 200, 192, 700, HYMT_GEMM_STORE },
    { 1000, 320, 700, HYMT_GEMM_F32 },
    { 48, 448, 65, HYMT_GEMM_SILU },
    { 656, 1088, 511, HYMT_GEMM_SILU },
};

/* two tiles of the largest each way, and half a stage of four boxes left */
static const case_t  small_cases[] = {
    { 208, 384, 268, HYMT_GEMM_STORE },
    { 208, 384, 268, HYMT_GEMM_SILU },
    { 208, 384, 268, HYMT_GEMM_F32 },
};

static hymt_cuda_t         dev;
static hymt_gemm_shape_t   shape;
static size_t              y_row;        /* bytes */
static buffer_t            w, x, y, scratch, measure, poison;
static uint32_t           *differ;


static uint32_t
differing(const void *a, const void *b, size_t bytes)
{
    uint32_t  n;

    if (bytes == 0) {
        return 0;
    }

    gpu(cudaMemsetAsync(differ, 0, sizeof(n), dev.stream));
    gpu(hymt_gemm_compare(a, b, bytes / 2, differ, dev.stream));
    gpu(cudaMemcpyAsync(&n, differ, sizeof(n), cudaMemcpyDeviceToHost,
                        dev.stream));
    gpu(cudaStreamSynchronize(dev.stream));

    return n;
}


/* Some rows of x are not as usual: an outlier, equal, tiny, alternating, and
   zeros of both signs. */
static void
odd_rows(const case_t *c)
{
    uint32_t   r, i;
    float      v;
    uint16_t  *row;

    row = (uint16_t *) malloc(c->k * 2);

    for (r = 3; r < c->max_rows; r += 61) {
        for (i = 0; i < c->k; i++) {
            v = r % 5 == 4 ? (i % 3 ? 0.0f : -0.0f)
                : r % 4 == 0 ? (i == c->k / 3 ? 30000 : random_normal() / 64)
                : r % 4 == 1 ? -1.703125f
                : r % 4 == 2 ? random_normal() * 1e-39f
                : i % 2 ? 3 : -3;
            row[i] = bf16_bits(v);
        }

        gpu(cudaMemcpy((uint16_t *) x.data + (size_t) r * c->k, row, c->k * 2,
                       cudaMemcpyHostToDevice));
    }

    free(row);
}


/* sum_k x w in double, and the sum of magnitudes. */
static double
dot(uint32_t row, uint32_t col, double *magnitude)
{
    uint32_t  i;
    double    sum, p;

    static uint16_t  a[14336], b[14336];

    gpu(cudaMemcpy(a, (uint16_t *) x.data + (size_t) row * shape.k,
                   shape.k * 2, cudaMemcpyDeviceToHost));
    gpu(cudaMemcpy(b, (uint16_t *) w.data + (size_t) col * shape.k,
                   shape.k * 2, cudaMemcpyDeviceToHost));

    sum = 0;
    *magnitude = 0;

    for (i = 0; i < shape.k; i++) {
        p = (double) bf16_value(a[i]) * bf16_value(b[i]);
        sum += p;
        *magnitude += fabs(p);
    }

    return sum;
}


/* A sample of the measure against the host. */
static void
check_measure(const case_t *c, const char *name)
{
    uint32_t  i, row, col, cols, outside;
    uint16_t  half;
    float     got;
    double    want, up, s, u, slack, error, norm;

    cols = c->after == HYMT_GEMM_SILU ? c->n / 2 : c->n;
    outside = 0;
    error = 0;
    norm = 0;

    for (i = 0; i < (small_shapes ? SAMPLES / 10 : SAMPLES); i++) {
        row = i % 5 == 0 ? 0 : i % 5 == 1 ? c->max_rows - 1
              : random_below(c->max_rows);
        col = i % 7 == 0 ? cols - 1 - random_below(8) : random_below(cols);

        if (c->after == HYMT_GEMM_F32) {
            gpu(cudaMemcpy(&got, (float *) measure.data
                                 + (size_t) row * cols + col, 4,
                           cudaMemcpyDeviceToHost));

        } else {
            gpu(cudaMemcpy(&half, (uint16_t *) measure.data
                                  + (size_t) row * cols + col, 2,
                           cudaMemcpyDeviceToHost));
            got = bf16_value(half);
        }

        if (c->after == HYMT_GEMM_SILU) {
            want = dot(row, col / 8 * 16 + col % 8, &s);
            up = dot(row, col / 8 * 16 + col % 8 + 8, &u);

            slack = (fabs(want) / 128 + s / 32768) * (fabs(up) + u / 32768)
                    + (fabs(up) / 128 + u / 32768) * fabs(want);
            want = want / (1 + exp(-want)) * up;
            slack += fabs(want) / 64;

        } else {
            want = dot(row, col, &s);
            slack = s / 32768 + (c->after == HYMT_GEMM_F32 ? 0
                                                           : fabs(want) / 250);
        }

        /* also what is not a number is outside */

        outside += !(fabs(got - want) <= slack + 1e-37);

        if (row % 61 != 3) {
            error += (got - want) * (got - want);
            norm += want * want;
        }
    }

    is_int(outside, 0, "%s: no sample is further from double than rounding"
           " explains", name);

    /* a bf16 rounding is 2^-8 at most; SiLU has three */

    ok(sqrt(error / norm) < (c->after == HYMT_GEMM_SILU ? 0x3p-8 : 5e-3),
       "%s: relative error %.2e", name, sqrt(error / norm));
}


/* Every number of rows by one path; small: one, and a tile and a bit. */
static void
check_path(const case_t *c, const char *name, path_pt run, void *data,
    uint32_t tokens)
{
    size_t    i;
    uint32_t  m, wrong, beyond, worst;

    wrong = 0;
    beyond = 0;
    worst = 0;

    for (i = 0; i < (small_shapes ? 2 : N_ROWS); i++) {
        m = !small_shapes ? row_counts[i] : i == 0 ? 1 : tokens + 12;
        m = m < c->max_rows ? m : c->max_rows;

        gpu(cudaMemsetAsync(y.data, POISON_BYTE, y.bytes, dev.stream));
        gpu(run(data, m));
        gpu(cudaStreamSynchronize(dev.stream));

        if (differing(y.data, measure.data, m * y_row) != 0) {
            wrong++;
            worst = m;
        }

        beyond += differing((char *) y.data + m * y_row, poison.data,
                            (c->max_rows - m) * y_row) != 0;
    }

    is_int(wrong, 0, "%s: the same bits at every number of rows (not at %u)",
           name, worst);
    is_int(beyond, 0, "%s: other rows untouched", name);
    ok(buffer_guarded(&y) && buffer_guarded(&scratch), "%s: within bounds",
       name);
}


typedef struct {
    hymt_gemm_plan_t  plan;
    uint64_t          map[16] __attribute__((aligned(64)));
} cut_t;


static cudaError_t
run_product(void *data, uint32_t m)
{
    return hymt_gemm_run((hymt_gemm_t *) data, m, dev.stream);
}


static cudaError_t
run_cut(void *data, uint32_t m)
{
    cut_t  *cut = (cut_t *) data;

    return cut->plan.kind == HYMT_GEMM_MMA
           ? hymt_gemm_mma_run(&dev, &shape, &cut->plan, m, dev.stream)
           : cut->plan.kind == HYMT_GEMM_MANY
           ? hymt_gemm_many_run(&dev, &shape, &cut->plan, cut->map, m,
                                dev.stream)
           : hymt_gemm_sm90_run(&dev, &shape, &cut->plan, cut->map, m,
                                dev.stream);
}


static void
check_products(const case_t *c, const char *name)
{
    char               label[512], text[256], err[256];
    hymt_gemm_t       *gemm;
    cublasLtHandle_t   lt;

    lt = dev.lt;

    for (int with = lt != NULL; with >= 0; with--) {
        dev.lt = with ? lt : NULL;

        if (hymt_gemm_create(&dev, &shape, &gemm, err, sizeof(err)) != 0) {
            ok(false, "%s: created: %s", name, err);
            continue;
        }

        hymt_gemm_describe(gemm, text, sizeof(text));
        snprintf(label, sizeof(label), "%s: %s", name, text);

        ok(strstr(text, "; cublasLt ") == NULL, "%s: nothing refused", label);
        check_path(c, label, run_product, gemm, c->max_rows);

        hymt_gemm_free(gemm);
    }

    dev.lt = lt;
}


static void
check_cuts(const case_t *c, const char *name)
{
    uint32_t  i, at, step, share, fit;
    cut_t     cut;
    char      label[256], err[256];

    static const uint16_t  tokens[] = { 8, 16, 32, 64, 96, 128 };

    step = c->after == HYMT_GEMM_SILU ? 16 : 8;

    for (i = 0; i < 3; i++) {
        memset(&cut, 0, sizeof(cut));
        cut.plan.kind = HYMT_GEMM_MMA;
        cut.plan.tokens = i == 1 ? 64 : 16;
        cut.plan.rows = 16 << i;

        snprintf(label, sizeof(label), "%s: mma, %u tokens, %u rows", name,
                 cut.plan.tokens, cut.plan.rows);
        check_path(c, label, run_cut, &cut, cut.plan.tokens);
    }

    if (dev.cc != 90) {
        return;
    }

    for (i = 0; i < (small_shapes ? CUTS : RANDOM); i++) {
        at = small_shapes ? i : random_below(CUTS);

        memset(&cut, 0, sizeof(cut));
        cut.plan.kind = HYMT_GEMM_WGMMA;
        cut.plan.tokens = tokens[at % 6];
        cut.plan.depth = 1 << at / 6;
        cut.plan.share_x = 1 << random_below(3);
        cut.plan.share_w = 1 << random_below(cut.plan.share_x == 4 ? 2 : 3);

        /* two stages must fit, and one for each of a cluster of four */

        if ((step + cut.plan.tokens) * cut.plan.depth > 440) {
            cut.plan.share_x = 1 << random_below(2);
            cut.plan.share_w = 1 << random_below(2);
        }

        share = cut.plan.share_x > cut.plan.share_w ? cut.plan.share_x
                                                    : cut.plan.share_w;
        fit = (share == 4 ? 440 : 880) / cut.plan.depth - cut.plan.tokens;
        fit = fit < 192 ? fit : 192;
        cut.plan.rows = step * (1 + random_below(fit / step));

        /* the fewest stages, or as many as there are */

        cut.plan.ring = small_shapes && random_below(2) ? 2 : 208;

        snprintf(label, sizeof(label), "%s: wgmma, %u tokens, %u rows, depth"
                 " %u, %u of a cluster share x, %u w", name, cut.plan.tokens,
                 cut.plan.rows, cut.plan.depth, cut.plan.share_x,
                 cut.plan.share_w);

        if (hymt_gemm_sm90_map(&shape, &cut.plan, cut.map, err, sizeof(err))
            != 0)
        {
            ok(false, "%s: %s", label, err);
            continue;
        }

        check_path(c, label, run_cut, &cut, cut.plan.tokens);
    }
}


/* Tiles for many rows: each number of tokens, of boxes a stage and of groups of
   64 rows, or half of them, with cuts drawn at random. */
static void
check_tiles(const case_t *c, const char *name)
{
    uint32_t  i, step, low, ran;
    cut_t     cut;
    char      label[256], err[256];

    static const uint16_t  tokens[] = { 32, 48, 64, 80, 96, 112, 128, 160, 192,
                                        224, 256 };

    step = c->after == HYMT_GEMM_SILU ? 64 : 32;
    ran = 0;

    for (i = 0; i < 4 * sizeof(tokens) / sizeof(tokens[0]); i++) {
        if (!small_shapes && random_below(2)) {
            continue;
        }

        memset(&cut, 0, sizeof(cut));
        cut.plan.kind = HYMT_GEMM_MANY;
        cut.plan.tokens = tokens[i / 4];
        cut.plan.depth = 1 + i % 2;
        cut.plan.share_x = 1 << random_below(3);
        cut.plan.share_w = 1 << random_below(cut.plan.share_x == 4 ? 2 : 3);

        /* up to two groups, or three */

        low = i % 4 < 2 ? 0 : 128;
        cut.plan.rows = low + step * (1 + random_below((low ? 64 : 128)
                                                       / step));
        cut.plan.ring = 160 + random_below(67);

        if (!hymt_gemm_many_fits(&shape, &cut.plan)) {
            cut.plan.share_x = 1;
            cut.plan.share_w = 1;
            cut.plan.ring = 226;
        }

        if (!hymt_gemm_many_fits(&shape, &cut.plan)) {
            continue;
        }

        /* or the least that fits, two stages */

        while (small_shapes && i % 3) {
            cut.plan.ring--;

            if (!hymt_gemm_many_fits(&shape, &cut.plan)) {
                cut.plan.ring++;
                break;
            }
        }

        snprintf(label, sizeof(label), "%s: tiles, %u tokens, %u rows, depth"
                 " %u, %u of a cluster share x, %u w, %u KB", name,
                 cut.plan.tokens, cut.plan.rows, cut.plan.depth,
                 cut.plan.share_x, cut.plan.share_w, cut.plan.ring);

        if (hymt_gemm_many_map(&shape, &cut.plan, cut.map, err, sizeof(err))
            != 0)
        {
            ok(false, "%s: %s", label, err);
            continue;
        }

        check_path(c, label, run_cut, &cut, cut.plan.tokens);
        ran++;
    }

    if (small_shapes) {
        is_int(ran, TILES, "%s: every instance for tiles has run", name);
    }
}


static void
check_case(const case_t *c)
{
    char              name[64];
    hymt_gemm_plan_t  plain;

    static const char *const  after[] = { "", " SiLU", " fp32" };

    snprintf(name, sizeof(name), "%ux%u%s", c->n, c->k, after[c->after]);

    y_row = (size_t) c->n * (c->after == HYMT_GEMM_F32 ? 4
                             : c->after == HYMT_GEMM_SILU ? 1 : 2);

    buffer_new(&w, (size_t) c->n * c->k * 2);
    buffer_new(&x, (size_t) c->max_rows * c->k * 2);
    buffer_new(&y, c->max_rows * y_row);
    buffer_new(&measure, c->max_rows * y_row);
    buffer_new(&poison, c->max_rows * y_row);
    buffer_new(&scratch, c->after == HYMT_GEMM_SILU
                         ? (size_t) c->max_rows * c->n * 2 : 64);

    gpu(hymt_gemm_fill((hymt_bf16_t *) w.data, (size_t) c->n * c->k,
                       random_u32(), 0.05f, dev.stream));
    gpu(hymt_gemm_fill((hymt_bf16_t *) x.data, (size_t) c->max_rows * c->k,
                       random_u32(), 2.0f, dev.stream));
    gpu(cudaStreamSynchronize(dev.stream));
    odd_rows(c);

    memset(&shape, 0, sizeof(shape));
    shape.w = (hymt_bf16_t *) w.data;
    shape.n = c->n;
    shape.k = c->k;
    shape.x = (hymt_bf16_t *) x.data;
    shape.y = measure.data;
    shape.ldy = c->after == HYMT_GEMM_SILU ? c->n / 2 : c->n;
    shape.max_rows = c->max_rows;
    shape.scratch = (hymt_bf16_t *) scratch.data;
    shape.after = c->after;

    memset(&plain, 0, sizeof(plain));
    plain.tokens = 64;
    plain.rows = 64;

    gpu(hymt_gemm_mma_run(&dev, &shape, &plain, c->max_rows, dev.stream));
    gpu(cudaStreamSynchronize(dev.stream));
    shape.y = y.data;

    check_measure(c, name);
    check_products(c, name);
    check_cuts(c, name);

    if (dev.cc == 90 && c->after != HYMT_GEMM_F32) {
        check_tiles(c, name);
    }

    ok(buffer_guarded(&measure), "%s: the measure is within bounds", name);

    buffer_free(&w);
    buffer_free(&x);
    buffer_free(&y);
    buffer_free(&measure);
    buffer_free(&poison);
    buffer_free(&scratch);
}


/* A product that is the last columns of wider rows, as K and V are of qkv: the
   bits it has alone, and the other columns and rows are left as they were. */
static void
check_columns(uint32_t n, uint32_t k, uint32_t before, bool lt)
{
    char              err[256];
    size_t            i, width;
    uint16_t         *got, *want, expected;
    uint32_t          m, col, wrong;
    hymt_cuda_t       d;
    hymt_gemm_t      *gemm;
    hymt_gemm_plan_t  plain;

    static const uint32_t  rows[] = { 1, 60, 300, 641, ROWS };

    d = dev;
    d.lt = lt ? dev.lt : NULL;
    width = before + n;

    buffer_new(&w, (size_t) n * k * 2);
    buffer_new(&x, (size_t) ROWS * k * 2);
    buffer_new(&measure, (size_t) ROWS * n * 2);
    buffer_new(&y, ROWS * width * 2);
    got = (uint16_t *) malloc(y.bytes);
    want = (uint16_t *) malloc(measure.bytes);

    gpu(hymt_gemm_fill((hymt_bf16_t *) w.data, (size_t) n * k, random_u32(),
                       0.05f, dev.stream));
    gpu(hymt_gemm_fill((hymt_bf16_t *) x.data, (size_t) ROWS * k,
                       random_u32(), 2.0f, dev.stream));

    memset(&shape, 0, sizeof(shape));
    shape.w = (hymt_bf16_t *) w.data;
    shape.n = n;
    shape.k = k;
    shape.x = (hymt_bf16_t *) x.data;
    shape.y = measure.data;
    shape.ldy = n;
    shape.max_rows = ROWS;

    memset(&plain, 0, sizeof(plain));
    plain.tokens = 64;
    plain.rows = 64;

    gpu(hymt_gemm_mma_run(&dev, &shape, &plain, ROWS, dev.stream));
    gpu(cudaStreamSynchronize(dev.stream));
    buffer_get(&measure, want, measure.bytes);

    shape.y = (hymt_bf16_t *) y.data + before;
    shape.ldy = (uint32_t) width;
    wrong = 0;

    if (ok(hymt_gemm_create(&d, &shape, &gemm, err, sizeof(err)) == 0,
           "%ux%u behind %u columns is created", n, k, before))
    {
        for (m = 0; m < sizeof(rows) / sizeof(rows[0]); m++) {
            buffer_poison(&y);
            gpu(hymt_gemm_run(gemm, rows[m], dev.stream));
            gpu(cudaStreamSynchronize(dev.stream));
            buffer_get(&y, got, y.bytes);

            for (i = 0; i < ROWS; i++) {
                for (col = 0; col < width; col++) {
                    expected = i < rows[m] && col >= before
                               ? want[i * n + col - before] : 0xffff;
                    wrong += got[i * width + col] != expected;
                }
            }
        }

        hymt_gemm_free(gemm);
    }

    ok(wrong == 0 && buffer_guarded(&y), "%ux%u behind %u columns%s: as alone,"
       " and nothing beside it", n, k, before, lt ? "" : ", own kernels");

    free(want);
    free(got);
    buffer_free(&w);
    buffer_free(&x);
    buffer_free(&y);
    buffer_free(&measure);
}


/* Without memory for the proof cublasLt does not serve, and that is told. */
static void
check_unproven(void)
{
    void         *rest;
    char          text[256], err[256];
    size_t        left, total;
    hymt_gemm_t  *gemm;

    memset(&shape, 0, sizeof(shape));
    shape.n = 16384;
    shape.k = 2048;
    shape.ldy = shape.n;
    shape.max_rows = 128;

    buffer_new(&w, (size_t) shape.n * shape.k * 2);
    buffer_new(&x, (size_t) shape.max_rows * shape.k * 2);
    buffer_new(&y, (size_t) shape.max_rows * shape.n * 2);
    shape.w = (hymt_bf16_t *) w.data;
    shape.x = (hymt_bf16_t *) x.data;
    shape.y = y.data;

    gpu(cudaMemGetInfo(&left, &total));
    rest = NULL;

    while (left > 32 << 20 && cudaMalloc(&rest, left) != cudaSuccess) {
        (void) cudaGetLastError();
        left -= 8 << 20;
    }

    if (ok(hymt_gemm_create(&dev, &shape, &gemm, err, sizeof(err)) == 0,
           "created without memory for a proof"))
    {
        hymt_gemm_describe(gemm, text, sizeof(text));
        ok(strstr(text, "; cublasLt could not be compared in ") != NULL,
           "it says so: %s", text);
        hymt_gemm_free(gemm);
    }

    (void) cudaFree(rest);
    buffer_free(&w);
    buffer_free(&x);
    buffer_free(&y);
}


int
main(int argc, char **argv)
{
    char    err[256];
    size_t  i;

    random_begin(argc, argv);
    device_begin(&dev);

    /* so few blocks that each goes on from tile to tile */

    dev.sms = small_shapes ? 8 : dev.sms;

    dev.workspace_bytes = 32 << 20;
    gpu(cudaMalloc(&dev.workspace, dev.workspace_bytes));
    gpu(cudaMalloc((void **) &differ, sizeof(*differ)));

    if (!small_shapes && hymt_lt_open(&dev, err, sizeof(err)) != 0) {
        printf("# %s\n", err);
    }

    gpu(hymt_gemm_mma_init(&dev));

    if (dev.cc == 90) {
        gpu(hymt_gemm_sm90_init(&dev));
        gpu(hymt_gemm_many_init(&dev));
    }

    if (small_shapes) {
        for (i = 0; i < sizeof(small_cases) / sizeof(small_cases[0]); i++) {
            check_case(&small_cases[i]);
        }

        return tap_done();
    }

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_case(&cases[i]);
    }

    for (i = 0; i < 2; i++) {
        check_columns(256, 256, 512, i == 0);
        check_columns(1024, 2048, 2048, i == 0);
        check_columns(2048, 4096, 4096, i == 0);
    }

    if (dev.lt != NULL) {
        check_unproven();
    }

    hymt_lt_close(&dev);

    return tap_done();
}
