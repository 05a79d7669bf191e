/*
 * cpu_ops_test.c - the operators between the matrices, of every instruction
 * set, against double precision; attention over scattered and poisoned blocks.
 */

#include "cpu_kernels.h"


static void
test_rms_norm(const hymt_kernels_t *k)
{
    float     *x, *w, *y;
    double    *want, sum, d, worst;
    uint32_t   i, j, n, n_mean, touched;

    static const uint32_t  sizes[][2] = {
        { 16, 16 }, { 16, 6 }, { 128, 128 }, { 528, 528 }, { 2048, 2048 }
    };

    worst = 0;
    touched = 0;

    for (i = 0; i < hymt_nelts(sizes); i++) {
        n = sizes[i][0];
        n_mean = sizes[i][1];
        x = kernels_input(n);
        w = kernels_input(n);
        y = kernels_output(1, n);
        want = calloc(n, sizeof(double));
        sum = 0;

        for (j = 0; j < n; j++) {
            x[j] = j < n_mean ? x[j] : 0;
            sum += (double) x[j] * x[j];
        }

        for (j = 0; j < n; j++) {
            want[j] = w[j] * (x[j] / sqrt(sum / n_mean + 1e-5));
        }

        k->rms_norm(y, x, w, n, n_mean, 1e-5f);
        touched += kernels_touched(y, 1, n, n);
        d = kernels_distance(y, want, n);
        worst = d <= worst ? worst : d;

        k->rms_norm(x, x, w, n, n_mean, 1e-5f);
        ok(memcmp(x, y, n * sizeof(float)) == 0,
           "%s: rms_norm of %u in place: same bits", k->name, n);

        free(x);
        free(w);
        free(y);
        free(want);
    }

    ok(worst <= 1e-6 && touched == 0,
       "%s: rms_norm: error %.2g, %u floats outside touched", k->name, worst,
       touched);
}


static void
test_silu_mul(const hymt_kernels_t *k)
{
    float     *g, *u, *y;
    double    *want;
    uint32_t   i;

    const uint32_t  n = 4096;

    g = kernels_input(n);
    u = kernels_input(n);
    y = kernels_output(1, n);
    want = malloc(n * sizeof(double));

    for (i = 0; i < n; i++) {
        g[i] = (float) i / 40 - 51;
        want[i] = g[i] / (1 + exp(-(double) g[i])) * u[i];
    }

    k->silu_mul(y, g, u, n);

    ok(kernels_distance(y, want, n) <= 1e-6
       && kernels_touched(y, 1, n, n) == 0,
       "%s: silu_mul: error %.2g, %u floats outside touched", k->name,
       kernels_distance(y, want, n), kernels_touched(y, 1, n, n));

    /* each by itself: no element far off where others are large */

    for (i = 0; i < n; i++) {
        if (fabs(y[i] - want[i]) > 1e-6 * fabs(want[i]) + 1e-30) {
            break;
        }
    }

    is_int(i, n, "%s: silu_mul: every element within 1e-6 of itself (%g)",
           k->name, g[i < n ? i : 0]);

    g[0] = -200;
    g[1] = 200;
    g[2] = -INFINITY;
    g[3] = NAN;
    u[0] = u[1] = u[3] = 1;
    k->silu_mul(y, g, u, 16);
    is_near(y[0], 0, 1e-35, "%s: silu of -200", k->name);
    is_near(y[1], 200, 1e-4, "%s: silu of 200", k->name);
    ok(!isfinite(y[2]) || y[2] == 0, "%s: silu of -inf: %g", k->name, y[2]);
    ok(isnan(y[3]), "%s: what is not a number stays so: %g", k->name, y[3]);

    free(g);
    free(u);
    free(y);
    free(want);
}


static void
test_add(const hymt_kernels_t *k)
{
    float     *x, *y, *before;
    uint32_t   i, bad;

    const uint32_t  n = 528;

    x = kernels_input(n);
    before = kernels_input(n);
    y = kernels_output(1, n);
    memcpy(y, before, n * sizeof(float));
    k->add(y, x, n);
    bad = kernels_touched(y, 1, n, n);

    for (i = 0; i < n; i++) {
        bad += y[i] != before[i] + x[i];
    }

    is_int(bad, 0, "%s: add", k->name);

    free(x);
    free(before);
    free(y);
}


/* A sequence's keys and values, and the pool they are scattered over. */
typedef struct {
    uint32_t   head_dim, dim, group, n;
    float     *k, *v;                /* [n][head_dim] */
    float     *pool;
    uint32_t  *table;
    uint32_t   n_blocks;
    float     *q;                    /* [n][group][dim] */
} sequence_t;


static void
make_sequence(sequence_t *s, uint32_t head_dim, uint32_t group, uint32_t n)
{
    size_t     block;
    float     *p;
    uint32_t   i, j, t;

    s->head_dim = head_dim;
    s->dim = hymt_round_up(head_dim, 16);
    s->group = group;
    s->n = n;
    s->n_blocks = hymt_ceil_div(n, 16);

    s->k = kernels_input((size_t) n * head_dim);
    s->v = kernels_input((size_t) n * head_dim);
    s->q = kernels_input((size_t) n * group * s->dim);
    s->table = malloc(s->n_blocks * sizeof(uint32_t));

    block = (size_t) 32 * s->dim;
    s->pool = malloc(block * s->n_blocks * 2 * sizeof(float));
    memset(s->pool, 0xff, block * s->n_blocks * 2 * sizeof(float));

    for (i = 0; i < n * group; i++) {
        for (j = 0; j < s->dim; j++) {
            s->q[i * s->dim + j] *= j < head_dim ? 0.1f : 0;
        }
    }

    for (i = 0; i < s->n_blocks; i++) {
        s->table[i] = 2 * s->n_blocks - 1 - 2 * i;
    }

    for (t = 0; t < n; t++) {
        p = s->pool + s->table[t / 16] * block;

        for (j = 0; j < s->dim; j++) {
            p[j * 16 + t % 16] = j < head_dim ? s->k[t * head_dim + j] : 0;
            p[(16 + t % 16) * s->dim + j] = j < head_dim
                                            ? s->v[t * head_dim + j] : 0;
        }
    }
}


static void
free_sequence(sequence_t *s)
{
    free(s->k);
    free(s->v);
    free(s->q);
    free(s->table);
    free(s->pool);
}


static void
plain_attention(const sequence_t *s, uint32_t row, uint32_t head, double *out)
{
    float     *q;
    double    *p, max, sum;
    uint32_t   t, j;

    q = s->q + ((size_t) row * s->group + head) * s->dim;
    p = malloc((row + 1) * sizeof(double));
    max = -INFINITY;

    for (t = 0; t <= row; t++) {
        p[t] = 0;

        for (j = 0; j < s->head_dim; j++) {
            p[t] += (double) q[j] * s->k[t * s->head_dim + j];
        }

        p[t] *= 0.25;
        max = fmax(max, p[t]);
    }

    sum = 0;

    for (t = 0; t <= row; t++) {
        p[t] = exp(p[t] - max);
        sum += p[t];
    }

    memset(out, 0, s->dim * sizeof(double));

    for (t = 0; t <= row; t++) {
        for (j = 0; j < s->head_dim; j++) {
            out[j] += p[t] / sum * s->v[t * s->head_dim + j];
        }
    }

    free(p);
}


/* Rows first to first + n_rows; out [n_rows][group][dim]. */
static float *
attention(const hymt_kernels_t *k, const sequence_t *s, uint32_t first,
    uint32_t n_rows)
{
    float             *out;
    hymt_attention_t   a;

    out = kernels_output((size_t) n_rows * s->group, s->dim);

    a.kv = s->pool;
    a.block_stride = (size_t) 32 * s->dim;
    a.blocks = s->table;
    a.q = s->q + (size_t) first * s->group * s->dim;
    a.q_stride = (size_t) s->group * s->dim;
    a.out = out;
    a.state = kernels_output((size_t) n_rows * s->group, 18);
    a.n_rows = n_rows;
    a.group = s->group;
    a.dim = s->dim;
    a.pos = first;
    a.scale = 0.25f;

    k->attention(&a);

    if (kernels_touched(out, (size_t) n_rows * s->group, s->dim, s->dim)
        || kernels_touched(a.state, (size_t) n_rows * s->group, 18, 18))
    {
        ok(false, "%s: attention wrote past its output", k->name);
    }

    free(a.state);

    return out;
}


static void
test_attention(const hymt_kernels_t *k, uint32_t head_dim, uint32_t group,
    uint32_t n)
{
    float       *all, *part;
    double      *want, d, worst;
    size_t       width;
    uint32_t     i, j, rows, bits;
    sequence_t   s;

    make_sequence(&s, head_dim, group, n);
    width = (size_t) group * s.dim;

    all = attention(k, &s, 0, n);
    want = malloc(s.dim * sizeof(double));
    worst = 0;

    for (i = 0; i < n; i++) {
        for (j = 0; j < group; j++) {
            plain_attention(&s, i, j, want);
            d = kernels_distance(all + i * width + j * s.dim, want, s.dim);
            worst = d <= worst ? worst : d;
        }
    }

    bits = 0;

    for (i = 0; i < n; i += rows) {
        rows = 1 + kernels_random(11);
        rows = hymt_min(rows, n - i);
        part = attention(k, &s, i, rows);
        bits += memcmp(part, all + i * width, rows * width * 4) != 0;
        free(part);
    }

    /* scores reach some hundreds here, whose last bit is 1e-5 of a weight */

    ok(worst <= 2e-5 && bits == 0,
       "%s: attention, head_dim %u, group %u, %u tokens: error %.2g, %u parts"
       " with other bits", k->name, head_dim, group, n, worst, bits);

    free(all);
    free(want);
    free_sequence(&s);
}


static void
test_rope(void)
{
    float          x[8], cosine[4], sine[4], inv_freq[64];
    uint32_t       i;
    hymt_config_t  c;

    for (i = 0; i < 8; i++) {
        x[i] = (float) i + 1;
        cosine[i % 4] = cosf((float) (i % 4));
        sine[i % 4] = sinf((float) (i % 4));
    }

    hymt_rope(x, cosine, sine, 4);
    is_near(x[1], 2 * cos(1) - 6 * sin(1), 1e-6, "rope: first half");
    is_near(x[5], 6 * cos(1) + 2 * sin(1), 1e-6, "rope: second half");

    /* values of PyTorch: 1 / base ** (arange(0, 128, 2).float() / 128) */

    memset(&c, 0, sizeof(c));
    c.head_dim = 128;
    c.rope_base = 11158839.92507748;
    hymt_rope_inv_freq(&c, inv_freq);

    is_near(inv_freq[0], 1, 0, "inv_freq 0");
    is_near(inv_freq[1], 0.7760343551635742, 0, "inv_freq 1, to the bit");
    is_near(inv_freq[33], 0.00023231188242789358, 0, "inv_freq 33, to the bit");
    is_near(inv_freq[63], 1.1547820122359553e-07, 0, "inv_freq 63, to the bit");
}


int
main(void)
{
    uint32_t               i, j;
    const hymt_kernels_t  *k;

    static const uint32_t  lengths[] = { 1, 15, 16, 17, 40, 129 };

    for (i = 0; i < hymt_nelts(kernels_names); i++) {
        k = hymt_kernels_find(kernels_names[i]);

        if (k == NULL) {
            ok(true, "%s: not on this host # SKIP", kernels_names[i]);
            continue;
        }

        test_rms_norm(k);
        test_silu_mul(k);
        test_add(k);

        for (j = 0; j < hymt_nelts(lengths); j++) {
            test_attention(k, 128, 4, lengths[j]);
            test_attention(k, 64, 1, lengths[j]);
            test_attention(k, 6, 3, lengths[j]);
            test_attention(k, 16, 8, lengths[j]);
        }
    }

    ok(hymt_kernels_find("sse9") == NULL, "an unknown name finds nothing");

    test_rope();

    return tap_done();
}
