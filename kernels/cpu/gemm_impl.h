/*
 * gemm_impl.h - y[m][n] = sum_k x[m][k] * w[n][k] over panels of w.
 *
 * Included by kernels_*.c only, see kernels.h for what the operator promises.
 *
 * A tile is a few rows of x times a few strips of w; a strip is the 2 * LANES
 * rows of w whose values come out of one load of bf16 pairs.  The tile's sums
 * stay in registers over a block of k: for each k one load, a shift and a mask
 * for each strip, one broadcast for each row, and 2 FMAs for each pair of
 * both.  With few rows there are more strips, to have enough independent sums
 * in flight to hide the latency of the FMA.  None of that changes the order of
 * any sum.
 *
 * Bytes moved: w once (n * k * 2) for any m, as the slices of a block of k are
 * used for all rows while they are in the cache.
 */

#if HYMT_LANES == 16
#define HYMT_GEMM_ROWS  12
#define HYMT_GEMM_WIDE  4
#elif HYMT_LANES == 8
#define HYMT_GEMM_ROWS  6
#define HYMT_GEMM_WIDE  4
#else
#define HYMT_GEMM_ROWS  4
#define HYMT_GEMM_WIDE  2
#endif

/* strips of one panel */
#define HYMT_STRIPS  (HYMT_PANEL / (2 * HYMT_LANES))


typedef struct {
    const uint32_t  *w;          /* first panel, at the first k of the block */
    size_t           w_stride;   /* words from panel to panel */
    const float     *x;
    size_t           ldx;
    float           *y;
    size_t           ldy;
    uint32_t         k;          /* of this block */
    bool             first;      /* block of k: store, else add */
    bool             f32;
} hymt_gemm_block_t;


/* Rows row .. row + nr of x times strips strip .. strip + ns of w. */
hymt_inline void
hymt_gemm_tile(const hymt_gemm_block_t *b, uint32_t row, uint32_t strip,
    const int nr, const int ns, const bool f32)
{
    int              r, s;
    vf_t             sum[HYMT_GEMM_ROWS][HYMT_GEMM_WIDE][2];
    vf_t             lo, hi, x;
    vu_t             pair;
    float           *y;
    uint32_t         k, i;
    const float     *px[HYMT_GEMM_ROWS];
    const uint32_t  *pw[HYMT_GEMM_WIDE];

#pragma GCC unroll 16
    for (r = 0; r < nr; r++) {
        px[r] = b->x + (row + (uint32_t) r) * b->ldx;

#pragma GCC unroll 8
        for (s = 0; s < ns; s++) {
            sum[r][s][0] = vf_set1(0);
            sum[r][s][1] = vf_set1(0);
        }
    }

#pragma GCC unroll 8
    for (s = 0; s < ns; s++) {
        i = strip + (uint32_t) s;
        pw[s] = b->w + i / HYMT_STRIPS * b->w_stride
                + i % HYMT_STRIPS * HYMT_LANES;
    }

    for (k = 0; k < b->k; k++) {

#pragma GCC unroll 8
        for (s = 0; s < ns; s++) {

            if (f32) {
                lo = (vf_t) vu_load(pw[s] + k * 32);
                hi = (vf_t) vu_load(pw[s] + k * 32 + 16);

            } else {
                pair = vu_load(pw[s] + k * 16);
                lo = (vf_t) (pair << 16);
                hi = (vf_t) (pair & 0xffff0000u);
            }

#pragma GCC unroll 16
            for (r = 0; r < nr; r++) {
                x = vf_set1(px[r][k]);
                sum[r][s][0] = vf_fma(x, lo, sum[r][s][0]);
                sum[r][s][1] = vf_fma(x, hi, sum[r][s][1]);
            }
        }
    }

#pragma GCC unroll 16
    for (r = 0; r < nr; r++) {

#pragma GCC unroll 8
        for (s = 0; s < ns; s++) {
            i = strip + (uint32_t) s;
            y = b->y + (row + (uint32_t) r) * b->ldy
                + i / HYMT_STRIPS * HYMT_PANEL + i % HYMT_STRIPS * HYMT_LANES;

            if (!b->first) {
                sum[r][s][0] += vf_load(y);
                sum[r][s][1] += vf_load(y + 16);
            }

            vf_store(y, sum[r][s][0]);
            vf_store(y + 16, sum[r][s][1]);
        }
    }
}


#define HYMT_GEMM_CASE(nr, ns)                                                \
    case nr:                                                                  \
        if (b->f32) {                                                         \
            hymt_gemm_tile(b, row, strip, nr, ns, true);                      \
        } else {                                                              \
            hymt_gemm_tile(b, row, strip, nr, ns, false);                     \
        }                                                                     \
        break


static void
hymt_gemm_tile_1(const hymt_gemm_block_t *b, uint32_t row, uint32_t nr,
    uint32_t strip)
{
    switch (nr) {
    HYMT_GEMM_CASE(1, 1);
    HYMT_GEMM_CASE(2, 1);
    HYMT_GEMM_CASE(3, 1);
    HYMT_GEMM_CASE(4, 1);
#if HYMT_GEMM_ROWS >= 6
    HYMT_GEMM_CASE(5, 1);
    HYMT_GEMM_CASE(6, 1);
#endif
#if HYMT_GEMM_ROWS >= 12
    HYMT_GEMM_CASE(7, 1);
    HYMT_GEMM_CASE(8, 1);
    HYMT_GEMM_CASE(9, 1);
    HYMT_GEMM_CASE(10, 1);
    HYMT_GEMM_CASE(11, 1);
    HYMT_GEMM_CASE(12, 1);
#endif
    }
}


static void
hymt_gemm_tile_2(const hymt_gemm_block_t *b, uint32_t row, uint32_t nr,
    uint32_t strip)
{
    switch (nr) {
    HYMT_GEMM_CASE(1, 2);
    HYMT_GEMM_CASE(2, 2);
#if HYMT_GEMM_ROWS >= 6
    HYMT_GEMM_CASE(3, 2);
#endif
#if HYMT_GEMM_ROWS >= 12
    HYMT_GEMM_CASE(4, 2);
    HYMT_GEMM_CASE(5, 2);
    HYMT_GEMM_CASE(6, 2);
#endif
    }
}


#if HYMT_GEMM_WIDE >= 4

static void
hymt_gemm_tile_4(const hymt_gemm_block_t *b, uint32_t row, uint32_t nr,
    uint32_t strip)
{
    switch (nr) {
    HYMT_GEMM_CASE(1, 4);
#if HYMT_GEMM_ROWS >= 12
    HYMT_GEMM_CASE(2, 4);
    HYMT_GEMM_CASE(3, 4);
#endif
    }
}

#endif


/* Rows row .. row + nr, nr <= HYMT_GEMM_ROWS, times all n_strips strips. */
static void
hymt_gemm_rows(const hymt_gemm_block_t *b, uint32_t row, uint32_t nr,
    uint32_t strip, uint32_t n_strips)
{
    uint32_t  end, wide;

    end = strip + n_strips;
    wide = HYMT_GEMM_ROWS / nr;

#if HYMT_GEMM_WIDE >= 4
    for ( ; wide >= 4 && end - strip >= 4; strip += 4) {
        hymt_gemm_tile_4(b, row, nr, strip);
    }
#endif

    for ( ; wide >= 2 && end - strip >= 2; strip += 2) {
        hymt_gemm_tile_2(b, row, nr, strip);
    }

    for ( ; strip < end; strip++) {
        hymt_gemm_tile_1(b, row, nr, strip);
    }
}


/*
 * One block of k.  Few rows: all strips at a time, which are as many streams.
 * Many: strip by strip of w, each for all rows, cut evenly.
 */
static void
hymt_gemm_block(const hymt_gemm_block_t *b, uint32_t m, uint32_t n_strips)
{
    uint32_t  strip, row, nr, left;

    if (m <= HYMT_GEMM_ROWS) {
        hymt_gemm_rows(b, 0, m, 0, n_strips);
        return;
    }

    for (strip = 0; strip < n_strips; strip++) {
        for (row = 0; row < m; row += nr) {
            left = hymt_ceil_div(m - row, HYMT_GEMM_ROWS);
            nr = hymt_ceil_div(m - row, left);

            hymt_gemm_tile_1(b, row, nr, strip);
        }
    }
}


static void
hymt_gemm(const hymt_matrix_t *w, uint32_t panel, uint32_t n_panels,
    const float *x, size_t ldx, uint32_t m, float *y, size_t ldy)
{
    size_t             words;
    uint32_t           k;
    hymt_gemm_block_t  b;

    if (m == 0) {
        return;
    }

    words = w->f32 ? 32 : 16;

    b.w_stride = words * w->k;
    b.ldx = ldx;
    b.y = y;
    b.ldy = ldy;
    b.f32 = w->f32;

    for (k = 0; k < w->k; k += HYMT_K_BLOCK) {
        b.w = (const uint32_t *) w->data + panel * b.w_stride + k * words;
        b.x = x + k;
        b.k = hymt_min(w->k - k, HYMT_K_BLOCK);
        b.first = k == 0;

        hymt_gemm_block(&b, m, n_panels * HYMT_STRIPS);
    }
}
