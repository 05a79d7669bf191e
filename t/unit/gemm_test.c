/*
 * gemm_test.c - the matrix product of every instruction set against double
 * precision, and the equality of bits for any number of rows and any cut.
 */

#include "cpu_kernels.h"


typedef struct {
    hymt_matrix_t   m;
    double         *w;        /* [n][k], as rounded */
} weight_t;


/* The layout as kernels.h describes it. */
static weight_t
make(uint32_t n, uint32_t k, bool f32)
{
    float      x;
    size_t     at;
    weight_t   w;
    uint16_t  *h;
    uint32_t   i, j, bits, lane;

    w.m.n = n;
    w.m.k = k;
    w.m.n_panels = hymt_ceil_div(n, 32);
    w.m.f32 = f32;
    w.m.data = aligned_alloc(64, (size_t) w.m.n_panels * 32 * k * 4);
    memset(w.m.data, 0, (size_t) w.m.n_panels * 32 * k * 4);
    w.w = malloc((size_t) n * k * sizeof(double));

    for (i = 0; i < n; i++) {
        lane = i % 32;

        for (j = 0; j < k; j++) {
            x = kernels_float();
            memcpy(&bits, &x, sizeof(bits));
            at = ((size_t) (i - lane) * k + (size_t) j * 32);

            if (f32) {
                memcpy((float *) w.m.data + at + lane, &x, sizeof(x));

            } else {
                h = (uint16_t *) w.m.data + at;
                h[lane % 16 * 2 + lane / 16] = (uint16_t) (bits >> 16);
                bits &= 0xffff0000u;
                memcpy(&x, &bits, sizeof(x));
            }

            w.w[(size_t) i * k + j] = (double) x;
        }
    }

    return w;
}


static void
product(const weight_t *w, const float *x, size_t ldx, uint32_t m, double *y)
{
    double    sum;
    uint32_t  i, j, k;

    for (i = 0; i < m; i++) {
        for (j = 0; j < w->m.n; j++) {
            sum = 0;

            for (k = 0; k < w->m.k; k++) {
                sum += (double) x[i * ldx + k] * w->w[(size_t) j * w->m.k + k];
            }

            y[(size_t) i * w->m.n + j] = sum;
        }
    }
}


static void
test_shape(const hymt_kernels_t *kernels, uint32_t n, uint32_t k, bool f32)
{
    float     *x, *y, *part;
    double    *want, worst, d;
    size_t     ldy, ldx;
    uint32_t   i, r, m, touched, bits, cut;
    weight_t   w;

    static const uint32_t  rows[] = {
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 17, 24, 25, 31, 33, 64
    };

    w = make(n, k, f32);
    ldy = w.m.n_panels * 32 + 16;
    ldx = k;

    /* read exactly: sanitizers see a load beyond */

    x = kernels_input(64 * ldx);
    want = malloc((size_t) 64 * n * sizeof(double));
    product(&w, x, ldx, 64, want);

    worst = 0;
    touched = 0;
    bits = 0;

    for (i = 0; i < hymt_nelts(rows); i++) {
        m = rows[i];
        y = kernels_output(m, ldy);

        kernels->gemm(&w.m, 0, w.m.n_panels, x, ldx, m, y, ldy);
        touched += kernels_touched(y, m, w.m.n_panels * 32, ldy);

        for (r = 0; r < m; r++) {
            d = kernels_distance(y + r * ldy, want + (size_t) r * n, n);
            worst = d <= worst ? worst : d;
        }

        /* one row alone, and the panels in two calls */

        r = kernels_random(m);
        part = kernels_output(1, ldy);
        kernels->gemm(&w.m, 0, w.m.n_panels, x + r * ldx, ldx, 1, part, ldy);
        bits += memcmp(part, y + r * ldy, w.m.n_panels * 32 * 4) != 0;
        free(part);

        cut = kernels_random(w.m.n_panels + 1);
        part = kernels_output(m, ldy);
        kernels->gemm(&w.m, 0, cut, x, ldx, m, part, ldy);
        kernels->gemm(&w.m, cut, w.m.n_panels - cut, x, ldx, m,
                      part + cut * 32, ldy);
        bits += memcmp(part, y, m * ldy * 4) != 0;
        free(part);

        free(y);
    }

    ok(worst <= 2e-6 && touched == 0 && bits == 0,
       "%s, %s, N %u, K %u: error %.2g (at most 2e-6), %u floats outside"
       " touched, %u results with other bits", kernels->name,
       f32 ? "f32" : "bf16", n, k, worst, touched, bits);

    free(w.m.data);
    free(w.w);
    free(x);
    free(want);
}


int
main(void)
{
    uint32_t               i, j;
    const hymt_kernels_t  *kernels;

    static const uint32_t  shapes[][2] = {
        { 32, 16 }, { 1, 1 }, { 31, 5 }, { 33, 255 }, { 64, 256 },
        { 100, 257 }, { 160, 48 }, { 96, 700 },
    };

    for (i = 0; i < hymt_nelts(kernels_names); i++) {
        kernels = hymt_kernels_find(kernels_names[i]);

        if (kernels == NULL) {
            ok(true, "%s: not on this host # SKIP", kernels_names[i]);
            continue;
        }

        for (j = 0; j < hymt_nelts(shapes); j++) {
            test_shape(kernels, shapes[j][0], shapes[j][1], false);
            test_shape(kernels, shapes[j][0], shapes[j][1], true);
        }
    }

    return tap_done();
}
