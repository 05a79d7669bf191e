/*
 * rope_test.cu - RoPE, QK-norm and the append to pages against plain C with the
 * same rounding points and the same order of sums: bit for bit, the untouched
 * places of q and of the cache included.  Also where q is not wanted.
 */

#include "device_buffer.h"


#define DIM      HYMT_HEAD_DIM
#define CONTEXT  700
#define EPS      1e-5f


typedef struct {
    uint32_t  n_heads;
    uint32_t  n_kv;
} heads_t;


static const heads_t   shapes[] = {
    { 16, 4 }, { 32, 8 }, { 8, 8 }, { 1, 1 }, { 2, 1 }, { 14, 2 }
};

static const uint32_t  row_counts[] = { 1, 2, 17, 64, 300 };

static hymt_cuda_t     dev;
static uint16_t        cosines[CONTEXT][DIM / 2], sines[CONTEXT][DIM / 2];


static void
fill_tables(void)
{
    double    angle;
    uint32_t  i, pos;

    for (pos = 0; pos < CONTEXT; pos++) {
        for (i = 0; i < DIM / 2; i++) {
            angle = pos * pow(11158840.0, -2.0 * i / DIM);
            cosines[pos][i] = bf16_bits((float) cos(angle));
            sines[pos][i] = bf16_bits((float) sin(angle));
        }
    }
}


static void
plain_rope(const uint16_t *from, uint16_t *to, uint32_t pos)
{
    float     c, s, lo, hi;
    uint32_t  i;

    for (i = 0; i < DIM / 2; i++) {
        c = bf16_value(cosines[pos][i]);
        s = bf16_value(sines[pos][i]);
        lo = bf16_value(from[i]);
        hi = bf16_value(from[i + DIM / 2]);

        to[i] = bf16_bits(bf16_round(lo * c) + bf16_round(-hi * s));
        to[i + DIM / 2] = bf16_bits(bf16_round(hi * c) + bf16_round(lo * s));
    }
}


/* rope.cu's order: 4 and 4 of a lane, then a butterfly over 16 lanes. */
static void
plain_norm(uint16_t *x, const uint16_t *w)
{
    int       i;
    float     v, lane[16], other[16], scale;
    uint32_t  l, j;

    for (l = 0; l < 16; l++) {
        lane[l] = 0;

        for (j = 0; j < 8; j++) {
            v = bf16_value(x[j / 4 * (DIM / 2) + l * 4 + j % 4]);
            lane[l] = fmaf(v, v, lane[l]);
        }
    }

    for (i = 8; i > 0; i /= 2) {
        memcpy(other, lane, sizeof(lane));

        for (l = 0; l < 16; l++) {
            lane[l] += other[l ^ (uint32_t) i];
        }
    }

    scale = 1.0f / sqrtf(lane[0] * (1.0f / DIM) + EPS);

    for (j = 0; j < DIM; j++) {
        x[j] = bf16_bits(bf16_round(bf16_value(x[j]) * scale)
                         * bf16_value(w[j]));
    }
}


static float
random_value(uint32_t kind)
{
    switch (kind) {
    case 0:
        return random_normal() * 1e-39f;
    case 1:
        return random_below(50) ? random_normal() / 100 : 20000;
    case 2:
        return 0.75f;
    default:
        return random_normal() * 3;
    }
}


static void
test_rope(const heads_t *s, uint32_t rows, bool norm, bool query)
{
    size_t            n, n_q, n_cache, page, bad;
    int32_t           dest[300];
    uint32_t          r, i, j, all, head, kv, blocks, at, pos[300], clamped;
    uint16_t         *in, *want, *got, *want_cache, *got_cache, *place;
    uint16_t          w[2][DIM], x[DIM];
    buffer_t          qkv, q, cache, d_pos, d_dest, d_cos, d_sin, d_w;
    hymt_rope_args_t  args;

    all = s->n_heads + 2 * s->n_kv;
    n = (size_t) rows * all * DIM;
    n_q = (size_t) rows * s->n_heads * DIM;
    blocks = rows / HYMT_KV_PAGE + 3;
    page = (size_t) s->n_kv * 2 * HYMT_KV_PAGE * DIM;
    n_cache = blocks * page;

    in = (uint16_t *) malloc(n * 2);
    want = (uint16_t *) malloc(n_q * 2);
    got = (uint16_t *) malloc(n_q * 2);
    want_cache = (uint16_t *) malloc(n_cache * 2);
    got_cache = (uint16_t *) malloc(n_cache * 2);

    memset(want_cache, POISON_BYTE, n_cache * 2);

    for (i = 0; i < n; i++) {
        in[i] = bf16_bits(random_value(i / DIM % 5));
    }

    for (i = 0; i < DIM; i++) {
        w[0][i] = bf16_bits(random_normal());
        w[1][i] = bf16_bits(random_normal());
    }

    /* places: a walk through all of them by a step prime to their number */

    at = random_below(blocks * HYMT_KV_PAGE);

    for (r = 0; r < rows; r++) {
        pos[r] = r % 9 == 4 ? CONTEXT + random_below(1000)
                            : random_below(CONTEXT);
        dest[r] = r % 5 == 3 ? -1 : (int32_t) at;
        at = (at + 1) % (blocks * HYMT_KV_PAGE);
    }

    for (r = rows - 1; r > 0; r--) {
        int32_t  swap;

        i = random_below(r + 1);
        swap = dest[r];
        dest[r] = dest[i];
        dest[i] = swap;
    }

    memset(want, POISON_BYTE, n_q * 2);

    for (r = 0; r < rows; r++) {
        if (dest[r] < 0) {
            continue;
        }

        clamped = pos[r] < CONTEXT ? pos[r] : CONTEXT - 1;

        for (head = query ? 0 : s->n_heads; head < all; head++) {
            memcpy(x, in + ((size_t) r * all + head) * DIM, sizeof(x));

            if (head < s->n_heads + s->n_kv) {
                uint16_t  turned[DIM];

                plain_rope(x, turned, clamped);

                if (norm) {
                    plain_norm(turned, w[head >= s->n_heads]);
                }

                memcpy(x, turned, sizeof(x));
            }

            if (head < s->n_heads) {
                memcpy(want + ((size_t) r * s->n_heads + head) * DIM, x,
                       sizeof(x));
                continue;
            }

            kv = head - s->n_heads;
            j = kv >= s->n_kv;
            kv -= j * s->n_kv;

            place = want_cache + (size_t) (dest[r] / HYMT_KV_PAGE) * page
                    + (((size_t) kv * 2 + j) * HYMT_KV_PAGE
                       + (size_t) dest[r] % HYMT_KV_PAGE) * DIM;
            memcpy(place, x, sizeof(x));
        }
    }

    buffer_new(&qkv, n * 2);
    buffer_new(&q, n_q * 2);
    buffer_new(&cache, n_cache * 2);
    buffer_new(&d_pos, rows * 4);
    buffer_new(&d_dest, rows * 4);
    buffer_new(&d_cos, sizeof(cosines));
    buffer_new(&d_sin, sizeof(sines));
    buffer_new(&d_w, sizeof(w));

    buffer_put(&qkv, in, n * 2);
    buffer_put(&d_pos, pos, rows * 4);
    buffer_put(&d_dest, dest, rows * 4);
    buffer_put(&d_cos, cosines, sizeof(cosines));
    buffer_put(&d_sin, sines, sizeof(sines));
    buffer_put(&d_w, w, sizeof(w));

    args.qkv = (hymt_bf16_t *) qkv.data;
    args.q = query ? (hymt_bf16_t *) q.data : NULL;
    args.cache = (hymt_bf16_t *) cache.data;
    args.pos = (uint32_t *) d_pos.data;
    args.kv_dest = (int32_t *) d_dest.data;
    args.rope.cos = (hymt_bf16_t *) d_cos.data;
    args.rope.sin = (hymt_bf16_t *) d_sin.data;
    args.rope.q_norm = norm ? (hymt_bf16_t *) d_w.data : NULL;
    args.rope.k_norm = norm ? (hymt_bf16_t *) d_w.data + DIM : NULL;
    args.rows = rows;
    args.n_heads = s->n_heads;
    args.n_kv = s->n_kv;
    args.rope.context = CONTEXT;
    args.rope.eps = EPS;

    gpu(hymt_cuda_rope_append(&dev, &args, dev.stream));
    gpu(cudaStreamSynchronize(dev.stream));

    buffer_get(&q, got, n_q * 2);
    buffer_get(&cache, got_cache, n_cache * 2);
    bad = 0;

    for (i = 0; i < n_q; i++) {
        if (got[i] != want[i] && bad++ < 3) {
            printf("# q: row %zu, head %zu, %u: got %04x, want %04x\n",
                   i / DIM / s->n_heads, (size_t) i / DIM % s->n_heads,
                   i % DIM, got[i], want[i]);
        }
    }

    for (i = 0; i < n_cache; i++) {
        if (got_cache[i] != want_cache[i] && bad++ < 6) {
            printf("# cache: at %u: got %04x, want %04x\n", i, got_cache[i],
                   want_cache[i]);
        }
    }

    ok(bad == 0 && buffer_guarded(&q) && buffer_guarded(&cache),
       "rope%s, append%s: %u rows, %u heads, %u of keys",
       norm ? ", norm" : "", query ? "" : ", no q", rows, s->n_heads, s->n_kv);

    buffer_free(&qkv);
    buffer_free(&q);
    buffer_free(&cache);
    buffer_free(&d_pos);
    buffer_free(&d_dest);
    buffer_free(&d_cos);
    buffer_free(&d_sin);
    buffer_free(&d_w);
    free(in);
    free(want);
    free(got);
    free(want_cache);
    free(got_cache);
}


int
main(int argc, char **argv)
{
    size_t  i, j;

    random_begin(argc, argv);
    device_begin(&dev);
    fill_tables();

    for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (j = 0; j < sizeof(row_counts) / sizeof(row_counts[0]); j++) {
            if (small_shapes && row_counts[j] > 17) {
                continue;
            }

            test_rope(&shapes[i], row_counts[j], true, true);
            test_rope(&shapes[i], row_counts[j], true, false);
        }

        test_rope(&shapes[i], 33, false, true);
        test_rope(&shapes[i], 33, false, false);
    }

    gpu(cudaStreamDestroy(dev.stream));

    return tap_done();
}
