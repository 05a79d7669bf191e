/*
 * norm_test.cu - embedding, add + norm and SiLU against plain C with the same
 * rounding points and the same order of sums: bit for bit.
 */

#include "device_buffer.h"


#define SLOTS      64
#define VOCAB      999
#define CHAIN      6
#define MAX_ROWS   300
#define MAX_WIDTH  8192


typedef enum {
    NORMAL = 0,
    OUTLIER,
    EQUAL,
    DENORMAL,
    ALTERNATING,
    HUGE_VALUES,
    N_KINDS
} kind_t;


static const uint32_t  row_counts[] = { 1, 2, 7, 33, 256, MAX_ROWS };
static const uint32_t  widths[] = { 8, 256, 264, 1000, 2048, 4096, MAX_WIDTH };

static hymt_cuda_t     dev;


static float
random_value(uint32_t kind, uint32_t i)
{
    switch (kind) {
    case OUTLIER:
        return i % 97 == 13 ? 30000 : random_normal() / 64;
    case EQUAL:
        return -1.703125f;
    case DENORMAL:
        return random_normal() * 1e-39f;
    case ALTERNATING:
        return i % 2 ? 3 : -3;
    case HUGE_VALUES:
        return random_normal() * 3e37f;
    default:
        return random_normal();
    }
}


/* Rows of different kinds. */
static void
fill(uint16_t *x, uint32_t rows, uint32_t width)
{
    uint32_t  i, j;

    for (i = 0; i < rows; i++) {
        for (j = 0; j < width; j++) {
            x[(size_t) i * width + j] = bf16_bits(random_value(i % N_KINDS, j));
        }
    }
}


/* norm.cu's order: 8 of a thread, butterfly in a warp, warps ascending. */
static float
plain_scale(const uint16_t *x, uint32_t n, float eps)
{
    int       i;
    float     v, sum, lane[32], other[32];
    uint32_t  warp, l, j, at;

    sum = 0;

    for (warp = 0; warp * 256 < n; warp++) {
        for (l = 0; l < 32; l++) {
            lane[l] = 0;

            for (j = 0; j < 8; j++) {
                at = warp * 256 + l * 8 + j;
                v = at < n ? bf16_value(x[at]) : 0;
                lane[l] = fmaf(v, v, lane[l]);
            }
        }

        for (i = 16; i > 0; i /= 2) {
            for (l = 0; l < 32; l++) {
                other[l] = lane[l ^ (uint32_t) i];
            }

            for (l = 0; l < 32; l++) {
                lane[l] += other[l];
            }
        }

        sum += lane[0];
    }

    return 1.0f / sqrtf(sum * (1.0f / (float) n) + eps);
}


static void
plain_norm(const uint16_t *x, const uint16_t *w, uint16_t *h, uint32_t n,
    float eps)
{
    float     scale;
    uint32_t  i;

    scale = plain_scale(x, n, eps);

    for (i = 0; i < n; i++) {
        h[i] = bf16_bits(bf16_round(bf16_value(x[i]) * scale)
                         * bf16_value(w[i]));
    }
}


/* Elements that differ, -0 and 0 included. */
static size_t
differ(const uint16_t *got, const uint16_t *want, size_t n)
{
    size_t  i, bad;

    bad = 0;

    for (i = 0; i < n; i++) {
        if (got[i] != want[i] && bad++ < 3) {
            printf("# at %zu: got %04x (%g), want %04x (%g)\n", i, got[i],
                   bf16_value(got[i]), want[i], bf16_value(want[i]));
        }
    }

    return bad;
}


static uint16_t *
new_row(size_t n)
{
    uint16_t  *p;

    p = (uint16_t *) malloc(n * sizeof(uint16_t));

    if (p == NULL) {
        printf("Bail out! no memory\n");
        exit(2);
    }

    return p;
}


static void
test_embed(uint32_t rows, uint32_t width)
{
    size_t             n, bad;
    buffer_t           embed, tokens, last, weight, x, h;
    uint32_t           i, id, token[MAX_ROWS], slot[SLOTS];
    uint16_t          *table, *w, *want_x, *want_h, *got;
    hymt_embed_args_t  args;

    n = (size_t) rows * width;
    table = new_row((size_t) VOCAB * width);
    w = new_row(width);
    want_x = new_row(n);
    want_h = new_row(n);
    got = new_row(n);

    fill(table, VOCAB, width);
    fill(w, 1, width);

    for (i = 0; i < SLOTS; i++) {
        slot[i] = random_below(VOCAB);
    }

    for (i = 0; i < rows; i++) {
        id = random_below(VOCAB);
        token[i] = id;

        if (i % 3 == 1) {
            token[i] = random_below(SLOTS);
            id = slot[token[i]];
            token[i] |= HYMT_TOKEN_SLOT;

        } else if (i % 7 == 3) {
            token[i] = VOCAB + random_below(100);
            id = 0;
        }

        memcpy(want_x + (size_t) i * width, table + (size_t) id * width,
               width * 2);
        plain_norm(want_x + (size_t) i * width, w, want_h + (size_t) i * width,
                   width, 1e-5f);
    }

    buffer_new(&embed, (size_t) VOCAB * width * 2);
    buffer_new(&tokens, rows * 4);
    buffer_new(&last, SLOTS * 4);
    buffer_new(&weight, width * 2);
    buffer_new(&x, n * 2);
    buffer_new(&h, n * 2);

    buffer_put(&embed, table, (size_t) VOCAB * width * 2);
    buffer_put(&tokens, token, rows * 4);
    buffer_put(&last, slot, SLOTS * 4);
    buffer_put(&weight, w, width * 2);

    args.embed = (hymt_bf16_t *) embed.data;
    args.tokens = (uint32_t *) tokens.data;
    args.last = (uint32_t *) last.data;
    args.weight = (hymt_bf16_t *) weight.data;
    args.x = (hymt_bf16_t *) x.data;
    args.h = (hymt_bf16_t *) h.data;
    args.rows = rows;
    args.hidden = width;
    args.vocab = VOCAB;
    args.eps = 1e-5f;

    gpu(hymt_cuda_embed(&dev, &args, dev.stream));
    gpu(cudaStreamSynchronize(dev.stream));

    buffer_get(&x, got, n * 2);
    bad = differ(got, want_x, n);
    buffer_get(&h, got, n * 2);
    bad += differ(got, want_h, n);

    ok(bad == 0 && buffer_guarded(&x) && buffer_guarded(&h),
       "embed: %u rows of %u", rows, width);

    buffer_free(&embed);
    buffer_free(&tokens);
    buffer_free(&last);
    buffer_free(&weight);
    buffer_free(&x);
    buffer_free(&h);
    free(table);
    free(w);
    free(want_x);
    free(want_h);
    free(got);
}


/*
 * A chain of additions to the same rows, then as in the last layer: one to rows
 * of a list, one more whose sum nobody wants, and a norm of a list's rows with
 * nothing added.  In one graph: each must have
 * waited for the one before.
 */
static void
test_add_norm(uint32_t rows, uint32_t width)
{
    size_t            n, at, bad;
    uint32_t          i, j, step, list[MAX_ROWS];
    uint16_t         *w, *want_x, *want_h, *y[CHAIN + 1], *got, *sum;
    buffer_t          weight, x, h, end, bare, gather, gathered;
    buffer_t          add[CHAIN + 1];
    cudaGraph_t       graph;
    cudaGraphExec_t   exec;
    hymt_norm_args_t  args;

    n = (size_t) rows * width;
    w = new_row(width);
    want_x = new_row(n);
    want_h = new_row(n);
    sum = new_row(n);
    got = new_row(n);

    fill(w, 1, width);
    fill(want_x, rows, width);

    buffer_new(&weight, width * 2);
    buffer_new(&x, n * 2);
    buffer_new(&h, n * 2);
    buffer_new(&end, n * 2);
    buffer_new(&bare, n * 2);
    buffer_new(&gather, rows * 4);
    buffer_new(&gathered, n * 2);

    buffer_put(&weight, w, width * 2);
    buffer_put(&x, want_x, n * 2);

    for (i = 0; i < rows; i++) {
        list[i] = random_below(rows);
    }

    buffer_put(&gather, list, rows * 4);

    for (step = 0; step <= CHAIN; step++) {
        y[step] = new_row(n);
        fill(y[step], rows, width);
        buffer_new(&add[step], n * 2);
        buffer_put(&add[step], y[step], n * 2);
    }

    args.x = (hymt_bf16_t *) x.data;
    args.weight = (hymt_bf16_t *) weight.data;
    args.sum = (hymt_bf16_t *) x.data;
    args.h = (hymt_bf16_t *) h.data;
    args.rows = rows;
    args.hidden = width;
    args.eps = 1e-5f;
    args.gather = NULL;

    /* alone, without a graph */

    args.y = (hymt_bf16_t *) add[0].data;
    gpu(hymt_cuda_add_norm(&dev, &args, dev.stream));
    gpu(cudaStreamSynchronize(dev.stream));

    for (at = 0; at < n; at++) {
        want_x[at] = bf16_bits(bf16_value(want_x[at]) + bf16_value(y[0][at]));
    }

    for (i = 0; i < rows; i++) {
        at = (size_t) i * width;
        plain_norm(want_x + at, w, want_h + at, width, 1e-5f);
    }

    buffer_get(&x, got, n * 2);
    bad = differ(got, want_x, n);
    buffer_get(&h, got, n * 2);
    bad += differ(got, want_h, n);

    ok(bad == 0 && buffer_guarded(&x) && buffer_guarded(&h),
       "add, norm: %u rows of %u", rows, width);

    /* the chain */

    buffer_poison(&h);
    gpu(cudaStreamBeginCapture(dev.stream, cudaStreamCaptureModeThreadLocal));

    for (step = 0; step <= CHAIN; step++) {
        args.y = (hymt_bf16_t *) add[step].data;

        if (step == CHAIN) {
            args.gather = (uint32_t *) gather.data;
            args.sum = (hymt_bf16_t *) gathered.data;
        }

        gpu(hymt_cuda_add_norm(&dev, &args, dev.stream));
    }

    args.x = args.sum;
    args.y = (hymt_bf16_t *) add[0].data;
    args.sum = NULL;
    args.h = (hymt_bf16_t *) end.data;
    args.gather = NULL;

    gpu(hymt_cuda_add_norm(&dev, &args, dev.stream));

    args.x = (hymt_bf16_t *) x.data;
    args.y = NULL;
    args.h = (hymt_bf16_t *) bare.data;
    args.gather = (uint32_t *) gather.data;

    gpu(hymt_cuda_add_norm(&dev, &args, dev.stream));

    gpu(cudaStreamEndCapture(dev.stream, &graph));
    gpu(cudaGraphInstantiate(&exec, graph, 0));
    gpu(cudaGraphLaunch(exec, dev.stream));
    gpu(cudaStreamSynchronize(dev.stream));

    for (step = 0; step < CHAIN; step++) {
        for (at = 0; at < n; at++) {
            want_x[at] = bf16_bits(bf16_value(want_x[at])
                                   + bf16_value(y[step][at]));
        }
    }

    for (i = 0; i < rows; i++) {
        at = (size_t) i * width;

        for (j = 0; j < width; j++) {
            sum[at + j] = bf16_bits(bf16_value(want_x[list[i] * width + j])
                                    + bf16_value(y[CHAIN][at + j]));
        }

        plain_norm(sum + at, w, want_h + at, width, 1e-5f);
    }

    buffer_get(&x, got, n * 2);
    bad = differ(got, want_x, n);
    buffer_get(&gathered, got, n * 2);
    bad += differ(got, sum, n);
    buffer_get(&h, got, n * 2);
    bad += differ(got, want_h, n);

    for (i = 0; i < rows; i++) {
        at = (size_t) i * width;

        for (j = 0; j < width; j++) {
            sum[at + j] = bf16_bits(bf16_value(sum[at + j])
                                    + bf16_value(y[0][at + j]));
        }

        plain_norm(sum + at, w, want_h + at, width, 1e-5f);
    }

    buffer_get(&end, got, n * 2);
    bad += differ(got, want_h, n);

    for (i = 0; i < rows; i++) {
        plain_norm(want_x + (size_t) list[i] * width, w,
                   want_h + (size_t) i * width, width, 1e-5f);
    }

    buffer_get(&bare, got, n * 2);
    bad += differ(got, want_h, n);

    ok(bad == 0 && buffer_guarded(&x) && buffer_guarded(&h)
       && buffer_guarded(&gathered) && buffer_guarded(&end)
       && buffer_guarded(&bare),
       "a chain of %u in a graph, then through a list, then without a sum, and"
       " with nothing added: %u rows of %u", CHAIN, rows, width);

    gpu(cudaGraphExecDestroy(exec));
    gpu(cudaGraphDestroy(graph));

    for (step = 0; step <= CHAIN; step++) {
        buffer_free(&add[step]);
        free(y[step]);
    }

    buffer_free(&weight);
    buffer_free(&x);
    buffer_free(&h);
    buffer_free(&end);
    buffer_free(&bare);
    buffer_free(&gather);
    buffer_free(&gathered);
    free(w);
    free(sum);
    free(want_x);
    free(want_h);
    free(got);
}


/*
 * Whether got is silu(g) * u with the two roundings, where the exponential may
 * be off by a few units of fp32: then the first rounding may fall either way.
 */
static bool
is_silu_mul(uint16_t got, float g, float u)
{
    int     i;
    double  s;

    s = (double) g / (1 + exp(-(double) g));

    for (i = -1; i <= 1; i++) {
        if (got == bf16_bits(bf16_round((float) (s * (1 + i * 1e-6))) * u)) {
            return true;
        }
    }

    /* e^-g near the end of fp32: the quotient may be flushed to 0 */

    return fabs(s) < 1e-36 && fabs((double) bf16_value(got)) <= fabs(s * u);
}


static void
test_silu(uint32_t rows, uint32_t ffn)
{
    size_t     i, n, at, bad;
    float      g, u;
    buffer_t   gu, y;
    uint16_t  *in, *got;

    n = (size_t) rows * ffn;
    in = new_row(n * 2);
    got = new_row(n);

    fill(in, rows, ffn * 2);

    for (i = 0; i < n * 2; i += 5) {
        in[i] = bf16_bits(random_normal() * 40);
    }

    buffer_new(&gu, n * 4);
    buffer_new(&y, n * 2);
    buffer_put(&gu, in, n * 4);

    gpu(hymt_cuda_silu_mul(&dev, (hymt_bf16_t *) gu.data,
                           (hymt_bf16_t *) y.data, rows, ffn, dev.stream));
    gpu(cudaStreamSynchronize(dev.stream));

    buffer_get(&y, got, n * 2);
    bad = 0;

    for (i = 0; i < n; i++) {
        at = i / 8 * 16 + i % 8;
        g = bf16_value(in[at]);
        u = bf16_value(in[at + 8]);

        if (!is_silu_mul(got[i], g, u) && bad++ < 3) {
            printf("# silu(%g) * %g: got %g\n", g, u, bf16_value(got[i]));
        }
    }

    ok(bad == 0 && buffer_guarded(&y), "silu, mul: %u rows of %u", rows, ffn);

    buffer_free(&gu);
    buffer_free(&y);
    free(in);
    free(got);
}


int
main(int argc, char **argv)
{
    size_t  i, j;

    random_begin(argc, argv);
    device_begin(&dev);

    for (i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        for (j = 0; j < sizeof(row_counts) / sizeof(row_counts[0]); j++) {
            if (small_shapes && (row_counts[j] > 7 || widths[i] > 2048)) {
                continue;
            }

            test_embed(row_counts[j], widths[i]);
            test_add_norm(row_counts[j], widths[i]);
            test_silu(row_counts[j], widths[i]);
        }
    }

    gpu(cudaStreamDestroy(dev.stream));

    return tap_done();
}
