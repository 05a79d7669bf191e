/*
 * attention_test.cu - paged attention: against a double reference, and bit for
 * bit against itself however the rows are grouped.
 *
 * A fixture is a handful of sequences with shuffled page tables over one cache
 * in which everything never written is NaN; every position of a sequence has a
 * query row.  Rows are computed by decode items of any number of parts and by
 * prefill items of any cut; what they must all agree with are the bits of the
 * plainest run, and that run is compared with the reference.
 *
 * With the argument "small": few rows, for a sanitizer; "tiny": fewer.
 */

#include "kernels.h"
#include "ptx.cuh"
#include "../unit/tap.h"

#include <time.h>


#define GUARD  4096                     /* bytes before and after an output */


/* Device memory with guard bands, poisoned. */
typedef struct {
    uint8_t  *base;
    uint8_t  *p;
    size_t    bytes;
} buffer_t;


typedef struct {
    uint32_t  len;
    uint32_t  row;                      /* of position 0 */
    uint32_t  table;                    /* index of its first block id */
} seq_t;


typedef struct {
    uint32_t               n_heads;
    uint32_t               n_kv;
    uint32_t               group;
    uint32_t               n_seqs;
    uint32_t               n_rows;
    seq_t                 *seqs;
    uint32_t              *tables;      /* host */
    uint16_t              *cache;
    uint16_t              *q;
    uint16_t              *o;           /* what the device gave last */
    uint16_t              *want;        /* of the plainest run */

    buffer_t               d_o;
    buffer_t               d_partial;
    buffer_t               d_counters;
    hymt_bf16_t           *d_q;
    hymt_bf16_t           *d_cache;
    uint32_t              *d_tables;
    hymt_attention_item_t *d_items;
    uint32_t              *d_n_items;
    hymt_attention_item_t *items;       /* host */
    uint32_t               n_items;
    uint32_t               max_items;
    uint32_t               n_counters;
    uint32_t               n_partial;   /* tiles */
} fixture_t;


static hymt_cuda_t  dev;
static bool         plain;              /* prefill without wgmma */
static uint64_t     seed, random_state;
static bool         small, tiny;


#define cuda(call)                                                            \
    do {                                                                      \
        cudaError_t  cuda_e = (call);                                         \
        if (cuda_e != cudaSuccess) {                                          \
            printf("Bail out! %s:%d: %s: %s\n", __FILE__, __LINE__, #call,    \
                   cudaGetErrorString(cuda_e));                               \
            exit(1);                                                          \
        }                                                                     \
    } while (0)


static uint32_t
random_u32(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;

    return (uint32_t) (random_state >> 32);
}


/* Of a normal distribution, nearly. */
static float
random_normal(void)
{
    float  x;

    x = 0.0f;

    for (int i = 0; i < 4; i++) {
        x += (float) random_u32() / 4294967296.0f - 0.5f;
    }

    return x * 1.7320508f;
}


static uint16_t
bf16(float x)
{
    uint32_t  u;

    memcpy(&u, &x, 4);
    u += 0x7fff + (u >> 16 & 1);

    return (uint16_t) (u >> 16);
}


static float
bf16_float(uint16_t x)
{
    float     y;
    uint32_t  u;

    u = (uint32_t) x << 16;
    memcpy(&y, &u, 4);

    return y;
}


static void
buffer_init(buffer_t *b, size_t bytes)
{
    b->bytes = bytes;
    cuda(cudaMalloc(&b->base, bytes + 2 * GUARD));
    cuda(cudaMemset(b->base, 0xff, bytes + 2 * GUARD));
    b->p = b->base + GUARD;
}


static bool
buffer_guarded(const buffer_t *b)
{
    bool     good;
    uint8_t  guard[2 * GUARD];

    cuda(cudaMemcpy(guard, b->base, GUARD, cudaMemcpyDeviceToHost));
    cuda(cudaMemcpy(guard + GUARD, b->p + b->bytes, GUARD,
                    cudaMemcpyDeviceToHost));

    good = true;

    for (size_t i = 0; i < sizeof(guard); i++) {
        good &= guard[i] == 0xff;
    }

    return good;
}


static size_t
cache_at(const fixture_t *f, const seq_t *seq, uint32_t pos, uint32_t head,
    uint32_t kv)
{
    uint32_t  block;

    block = f->tables[seq->table + pos / HYMT_KV_PAGE];

    return ((((size_t) block * f->n_kv + head) * 2 + kv) * HYMT_KV_PAGE
            + pos % HYMT_KV_PAGE) * HYMT_HEAD_DIM;
}


/*
 * gain scales q: large makes the softmax one of few positions.  Positions of
 * the same sequence have a query row each, from position `from` on.
 */
static void
fixture_init(fixture_t *f, uint32_t n_heads, uint32_t n_kv,
    const uint32_t *lens, uint32_t n_seqs, float gain)
{
    size_t    n_cache, n_q, at;
    uint32_t  n_blocks, n_table, n, swap, *order;

    memset(f, 0, sizeof(*f));

    f->n_heads = n_heads;
    f->n_kv = n_kv;
    f->group = n_heads / n_kv;
    f->n_seqs = n_seqs;
    f->seqs = (seq_t *) calloc(n_seqs, sizeof(seq_t));

    n_table = 0;

    for (uint32_t i = 0; i < n_seqs; i++) {
        f->seqs[i].len = lens[i];
        f->seqs[i].row = f->n_rows;
        f->seqs[i].table = n_table;
        f->n_rows += lens[i];
        n_table += (lens[i] + HYMT_KV_PAGE - 1) / HYMT_KV_PAGE;
        f->n_partial += (lens[i] / HYMT_ATTN_TILE + 1) * lens[i];
    }

    /* the partials of a launch are bounded by its items, see add_decode() */

    f->n_partial = f->n_partial < 4096 ? f->n_partial : 4096;

    n_blocks = n_table + 7;
    n_cache = (size_t) n_blocks * n_kv * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    n_q = (size_t) f->n_rows * n_heads * HYMT_HEAD_DIM;

    order = (uint32_t *) calloc(n_blocks, sizeof(uint32_t));

    for (uint32_t i = 0; i < n_blocks; i++) {
        order[i] = i;
    }

    for (uint32_t i = n_blocks - 1; i > 0; i--) {
        n = random_u32() % (i + 1);
        swap = order[i];
        order[i] = order[n];
        order[n] = swap;
    }

    f->tables = order;                  /* the first n_table of them */

    f->cache = (uint16_t *) malloc(n_cache * 2);
    f->q = (uint16_t *) malloc(n_q * 2);
    f->o = (uint16_t *) malloc(n_q * 2);
    f->want = (uint16_t *) malloc(n_q * 2);
    memset(f->cache, 0xff, n_cache * 2);

    for (uint32_t i = 0; i < n_seqs; i++) {
        for (uint32_t pos = 0; pos < lens[i]; pos++) {
            for (uint32_t head = 0; head < 2 * n_kv; head++) {
                at = cache_at(f, &f->seqs[i], pos, head / 2, head % 2);

                for (uint32_t d = 0; d < HYMT_HEAD_DIM; d++) {
                    f->cache[at + d] = bf16(random_normal());
                }
            }
        }
    }

    for (size_t i = 0; i < n_q; i++) {
        f->q[i] = bf16(gain * random_normal());
    }

    f->max_items = 2 * f->n_rows + 4096;
    f->n_counters = f->max_items;
    f->items = (hymt_attention_item_t *) calloc(f->max_items,
                                                sizeof(*f->items));

    buffer_init(&f->d_o, n_q * 2);
    buffer_init(&f->d_partial, (size_t) f->n_partial * n_heads
                               * (HYMT_HEAD_DIM + 2) * 4);
    buffer_init(&f->d_counters, (size_t) f->n_counters * n_kv * 4);
    cuda(cudaMemset(f->d_counters.p, 0, f->d_counters.bytes));

    cuda(cudaMalloc(&f->d_q, n_q * 2));
    cuda(cudaMalloc(&f->d_cache, n_cache * 2));
    cuda(cudaMalloc(&f->d_tables, n_blocks * 4));
    cuda(cudaMalloc(&f->d_items, f->max_items * sizeof(*f->items)));
    cuda(cudaMalloc(&f->d_n_items, 4));

    cuda(cudaMemcpy(f->d_q, f->q, n_q * 2, cudaMemcpyHostToDevice));
    cuda(cudaMemcpy(f->d_cache, f->cache, n_cache * 2,
                    cudaMemcpyHostToDevice));
    cuda(cudaMemcpy(f->d_tables, f->tables, n_blocks * 4,
                    cudaMemcpyHostToDevice));
}


static void
fixture_free(fixture_t *f)
{
    ok(buffer_guarded(&f->d_o) && buffer_guarded(&f->d_partial)
       && buffer_guarded(&f->d_counters), "guard bands are whole");

    cudaFree(f->d_o.base);
    cudaFree(f->d_partial.base);
    cudaFree(f->d_counters.base);
    cudaFree(f->d_q);
    cudaFree(f->d_cache);
    cudaFree(f->d_tables);
    cudaFree(f->d_items);
    cudaFree(f->d_n_items);
    free(f->seqs);
    free(f->tables);
    free(f->cache);
    free(f->q);
    free(f->o);
    free(f->want);
    free(f->items);
}


/* A decode item for one row, in parts of `tiles` tiles; 0: one part. */
static bool
add_decode(fixture_t *f, uint32_t seq, uint32_t pos, uint32_t tiles,
    uint32_t *partial)
{
    uint32_t               n_tiles, n_parts, counter;
    hymt_attention_item_t *item;

    n_tiles = pos / HYMT_ATTN_TILE + 1;
    n_parts = tiles == 0 ? 1 : (n_tiles + tiles - 1) / tiles;
    counter = f->n_counters - 1 - f->n_items;

    if (n_parts > 1 && *partial + n_tiles > f->n_partial) {
        return false;
    }

    for (uint32_t part = 0; part < n_parts; part++) {
        item = &f->items[f->n_items++];

        item->row = f->seqs[seq].row + pos;
        item->n_rows = 1;
        item->pos = pos;
        item->table = f->seqs[seq].table;
        item->part = part;
        item->n_parts = n_parts;
        item->first_tile = n_parts == 1 ? 0 : part * tiles;
        item->end_tile = n_parts == 1 || part + 1 == n_parts ? n_tiles
                                                             : (part + 1)
                                                               * tiles;
        item->partial = n_parts == 1 ? UINT32_MAX : *partial;
        item->counter = n_parts == 1 ? UINT32_MAX : counter;
    }

    if (n_parts > 1) {
        *partial += n_tiles;
    }

    return true;
}


static void
add_prefill(fixture_t *f, uint32_t seq, uint32_t pos, uint32_t n_rows)
{
    hymt_attention_item_t *item;

    item = &f->items[f->n_items++];
    memset(item, 0xff, sizeof(*item));

    item->row = f->seqs[seq].row + pos;
    item->n_rows = n_rows;
    item->pos = pos;
    item->table = f->seqs[seq].table;
}


static void
fixture_args(const fixture_t *f, hymt_attention_args_t *args, uint32_t grid)
{
    memset(args, 0, sizeof(*args));

    args->q = f->d_q;
    args->o = (hymt_bf16_t *) f->d_o.p;
    args->cache = f->d_cache;
    args->tables = f->d_tables;
    args->items = f->d_items;
    args->n_items = f->d_n_items;
    args->grid = grid;
    args->partial = (float *) f->d_partial.p;
    args->counters = (uint32_t *) f->d_counters.p;
    args->n_heads = f->n_heads;
    args->n_kv = f->n_kv;
}


static void
fixture_upload(fixture_t *f)
{
    cuda(cudaMemcpy(f->d_items, f->items, f->max_items * sizeof(*f->items),
                    cudaMemcpyHostToDevice));
    cuda(cudaMemcpy(f->d_n_items, &f->n_items, 4, cudaMemcpyHostToDevice));
}


/*
 * Launches what was added, some blocks more than needed; wide: as on a device
 * with any number of multiprocessors, which chooses the variant for few blocks.
 */
static void
run(fixture_t *f, bool prefill, bool wide)
{
    hymt_cuda_t            d;
    hymt_attention_args_t  args;

    d = dev;
    d.sms = wide ? UINT32_MAX / 2 : 0;
    d.cc = plain ? 80 : dev.cc;

    fixture_upload(f);
    fixture_args(f, &args, f->n_items + random_u32() % 3);

    if (args.grid > 0) {
        cuda(prefill ? hymt_cuda_attention_prefill(&d, &args, dev.stream)
                     : hymt_cuda_attention_decode(&d, &args, dev.stream));
    }

    /* the next launch's items take the place of these */

    cuda(cudaStreamSynchronize(dev.stream));

    f->n_items = 0;
}


static void
poison(fixture_t *f)
{
    cuda(cudaMemset(f->d_o.p, 0xff, f->d_o.bytes));
    cuda(cudaMemset(f->d_partial.p, 0xff, f->d_partial.bytes));
}


static void
download(fixture_t *f)
{
    cuda(cudaStreamSynchronize(dev.stream));
    cuda(cudaMemcpy(f->o, f->d_o.p, f->d_o.bytes, cudaMemcpyDeviceToHost));
}


/* The rows of f->o that differ from f->want. */
static uint32_t
differing(const fixture_t *f)
{
    size_t    width;
    uint32_t  n;

    width = (size_t) f->n_heads * HYMT_HEAD_DIM;
    n = 0;

    for (uint32_t r = 0; r < f->n_rows; r++) {
        n += memcmp(f->o + r * width, f->want + r * width, width * 2) != 0;
    }

    return n;
}


static bool
counters_zero(const fixture_t *f)
{
    bool       good;
    uint32_t  *c;

    c = (uint32_t *) malloc(f->d_counters.bytes);
    cuda(cudaMemcpy(c, f->d_counters.p, f->d_counters.bytes,
                    cudaMemcpyDeviceToHost));

    good = true;

    for (size_t i = 0; i < f->d_counters.bytes / 4; i++) {
        good &= c[i] == 0;
    }

    free(c);

    return good;
}


/*
 * One row and head.  rounded: with P of each tile rounded to bf16 as the kernel
 * does, else the exact softmax.
 */
static void
reference(const fixture_t *f, uint32_t seq, uint32_t pos, uint32_t head,
    bool rounded, double *out)
{
    double           m, l, max, sum, p, a, b, scale, acc[HYMT_HEAD_DIM], s[64];
    uint32_t         n;
    const uint16_t  *q, *k, *v;

    scale = 1.0 / sqrt((double) HYMT_HEAD_DIM);
    q = f->q + ((size_t) (f->seqs[seq].row + pos) * f->n_heads + head)
        * HYMT_HEAD_DIM;

    m = -INFINITY;
    l = 0;
    memset(out, 0, HYMT_HEAD_DIM * sizeof(double));

    for (uint32_t first = 0; first <= pos; first += HYMT_ATTN_TILE) {
        n = pos + 1 - first < HYMT_ATTN_TILE ? pos + 1 - first
                                             : HYMT_ATTN_TILE;
        max = -INFINITY;

        for (uint32_t i = 0; i < n; i++) {
            k = f->cache + cache_at(f, &f->seqs[seq], first + i,
                                    head / f->group, 0);
            s[i] = 0;

            for (uint32_t d = 0; d < HYMT_HEAD_DIM; d++) {
                s[i] += (double) bf16_float(q[d]) * bf16_float(k[d]);
            }

            s[i] *= scale;
            max = s[i] > max ? s[i] : max;
        }

        sum = 0;
        memset(acc, 0, sizeof(acc));

        for (uint32_t i = 0; i < n; i++) {
            v = f->cache + cache_at(f, &f->seqs[seq], first + i,
                                    head / f->group, 1);
            p = exp(s[i] - max);
            sum += p;
            p = rounded ? bf16_float(bf16((float) p)) : p;

            for (uint32_t d = 0; d < HYMT_HEAD_DIM; d++) {
                acc[d] += p * bf16_float(v[d]);
            }
        }

        a = exp(m - (max > m ? max : m));
        b = exp(max - (max > m ? max : m));
        m = max > m ? max : m;
        l = l * a + sum * b;

        for (uint32_t d = 0; d < HYMT_HEAD_DIM; d++) {
            out[d] = out[d] * a + acc[d] * b;
        }
    }

    for (uint32_t d = 0; d < HYMT_HEAD_DIM; d++) {
        out[d] /= l;
    }
}


/*
 * ||o - ref|| / ||ref|| over `n` rows drawn from all, every head, the ends of
 * sequences always.  bf16 alone rounds by 1.7e-3 of a value on average, P
 * rounded to bf16 adds about as much.
 */
static void
is_close(const fixture_t *f, uint32_t n, const char *what)
{
    double           ref[HYMT_HEAD_DIM], near[HYMT_HEAD_DIM];
    double           err[2], sum, x;
    uint32_t         seq, pos, head;
    const uint16_t  *o;

    err[0] = 0;
    err[1] = 0;
    sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        seq = i < f->n_seqs ? i : random_u32() % f->n_seqs;
        pos = i < f->n_seqs ? f->seqs[seq].len - 1
                            : random_u32() % f->seqs[seq].len;

        for (head = i % 2; head < f->n_heads; head += 2) {
            reference(f, seq, pos, head, false, ref);
            reference(f, seq, pos, head, true, near);

            o = f->want + ((size_t) (f->seqs[seq].row + pos) * f->n_heads
                           + head) * HYMT_HEAD_DIM;

            for (uint32_t d = 0; d < HYMT_HEAD_DIM; d++) {
                x = bf16_float(o[d]);
                err[0] += (x - ref[d]) * (x - ref[d]);
                x -= bf16_float(bf16((float) near[d]));
                err[1] += x * x;
                sum += ref[d] * ref[d];
            }
        }
    }

    err[0] = sqrt(err[0] / sum);
    err[1] = sqrt(err[1] / sum);

    ok(err[0] < 4e-3, "%s: %.2e from the exact softmax", what, err[0]);
    ok(err[1] < 5e-4, "%s: %.2e from the one that rounds P", what, err[1]);
}


/* Every position by a decode item of its own. */
static void
decode_all(fixture_t *f, uint32_t tiles, bool wide)
{
    uint32_t  partial;

    partial = 0;

    for (uint32_t i = 0; i < f->n_seqs; i++) {
        for (uint32_t pos = 0; pos < f->seqs[i].len; pos++) {
            if (f->n_items + f->seqs[i].len / HYMT_ATTN_TILE + 1
                    > f->max_items
                || !add_decode(f, i, pos, tiles, &partial))
            {
                run(f, false, wide);
                partial = 0;
                add_decode(f, i, pos, tiles, &partial);
            }
        }
    }

    run(f, false, wide);
}


/*
 * Every position by prefill items: chunks of `chunk` rows (0: any, at random)
 * cut into items of the most rows.
 */
static void
prefill_all(fixture_t *f, uint32_t chunk, bool wide)
{
    uint32_t  pos, n, rows, end;

    for (uint32_t i = 0; i < f->n_seqs; i++) {
        pos = 0;

        while (pos < f->seqs[i].len) {
            n = chunk == 0 ? 1 + random_u32() % 300 : chunk;
            end = pos + n < f->seqs[i].len ? pos + n : f->seqs[i].len;

            while (pos < end) {
                rows = hymt_attention_rows(f->group);
                rows = end - pos < rows ? end - pos : rows;

                add_prefill(f, i, pos, rows);
                pos += rows;
            }
        }
    }

    run(f, true, wide);
}


static void
same(fixture_t *f, const char *what, uint32_t n, bool wide)
{
    download(f);
    is_int(differing(f), 0, "same bits: %s, %u, %s%s", what, n,
           wide ? "few blocks" : "many blocks", plain ? ", no wgmma" : "");
}


static void
invariance(fixture_t *f)
{
    uint32_t  n_parts, n_chunks;

    static const uint32_t  parts[] = { 1, 2, 3, 8 };
    static const uint32_t  chunks[] = { 0, 33, 1, 7, 16, 1000000 };

    n_parts = tiny ? 1 : sizeof(parts) / sizeof(parts[0]);
    n_chunks = tiny ? 2 : sizeof(chunks) / sizeof(chunks[0]);

    for (uint32_t wide = 0; wide < 2; wide++) {
        poison(f);
        decode_all(f, 0, wide);
        same(f, "whole rows again", 1, wide);

        for (uint32_t i = 0; i < n_parts; i++) {
            poison(f);
            decode_all(f, parts[i], wide);
            same(f, "parts of n tiles", parts[i], wide);
        }

        for (uint32_t i = 0; i < n_chunks; i++) {
            for (uint32_t j = 0; j < 2; j++) {
                plain = j;
                poison(f);
                prefill_all(f, chunks[i], wide);
                same(f, "prompt in chunks of n rows", chunks[i], wide);
            }

            plain = false;
        }
    }

    ok(counters_zero(f), "counters are zero again");
}


static void
test_group(uint32_t n_heads, uint32_t n_kv, float gain, const char *what)
{
    uint32_t   n, lens[64];
    fixture_t  f;

    static const uint32_t  borders[] = {
        1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 513,
        1025
    };

    n = small ? 9 : sizeof(borders) / sizeof(borders[0]);
    memcpy(lens, borders, n * sizeof(lens[0]));

    while (n < (small ? 9 : 24)) {
        lens[n++] = 1 + random_u32() % 700;
    }

    if (tiny) {
        n = 2;
        lens[0] = 17;
        lens[1] = 131;
    }

    fixture_init(&f, n_heads, n_kv, lens, n, gain);

    poison(&f);
    decode_all(&f, 0, false);
    download(&f);
    memcpy(f.want, f.o, f.d_o.bytes);

    is_close(&f, n + (small ? 4 : 40), what);
    invariance(&f);
    fixture_free(&f);
}


/* One row at a time, against the same rows among all others. */
static void
test_alone(void)
{
    uint32_t   n, lens[32], partial;
    fixture_t  f;

    n = small ? 4 : 32;

    for (uint32_t i = 0; i < n; i++) {
        lens[i] = 1 + random_u32() % 700;
    }

    fixture_init(&f, 16, 4, lens, n, 1.0f);

    poison(&f);
    decode_all(&f, 0, false);
    download(&f);
    memcpy(f.want, f.o, f.d_o.bytes);

    for (uint32_t kind = 0; kind < 3; kind++) {
        poison(&f);

        /* all but the last position by one launch, those each by its own */

        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t pos = 0; pos + 1 < lens[i]; pos++) {
                partial = 0;
                add_decode(&f, i, pos, 0, &partial);
            }
        }

        run(&f, false, false);

        for (uint32_t i = 0; i < n; i++) {
            partial = random_u32() % 64;

            if (kind < 2) {
                add_decode(&f, i, lens[i] - 1, kind, &partial);
                run(&f, false, true);

            } else {
                add_prefill(&f, i, lens[i] - 1, 1);
                run(&f, true, true);
            }
        }

        download(&f);
        is_int(differing(&f), 0, "rows alone: %s",
               kind == 0 ? "decode" : kind == 1 ? "decode in parts"
                                                : "prefill");
    }

    fixture_free(&f);
}


static void
test_empty(void)
{
    bool                   untouched;
    uint32_t               lens[] = { 40, 7 };
    fixture_t              f;
    hymt_attention_args_t  args;

    fixture_init(&f, 16, 4, lens, 2, 1.0f);
    fixture_upload(&f);
    fixture_args(&f, &args, 5);

    cuda(hymt_cuda_attention_decode(&dev, &args, dev.stream));
    cuda(hymt_cuda_attention_prefill(&dev, &args, dev.stream));
    download(&f);

    untouched = true;

    for (size_t i = 0; i < f.d_o.bytes / 2; i++) {
        untouched &= f.o[i] == 0xffff;
    }

    ok(untouched, "an empty list writes nothing");

    fixture_free(&f);
}


/* The last rows of a long sequence. */
static void
test_long(void)
{
    uint32_t   len, rows, partial, first;
    size_t     width;
    fixture_t  f;

    len = small ? 700 : 8192;

    fixture_init(&f, 16, 4, &len, 1, 1.0f);

    rows = 70;
    first = len - rows;
    width = (size_t) f.n_heads * HYMT_HEAD_DIM;

    for (uint32_t kind = 0; kind < 8; kind++) {
        poison(&f);
        partial = 0;

        for (uint32_t pos = first; pos < len; ) {
            if (kind < 6) {
                if (!add_decode(&f, 0, pos, kind * kind, &partial)) {
                    run(&f, false, kind & 1);
                    partial = 0;
                    continue;
                }

                pos++;

            } else {
                add_prefill(&f, 0, pos, kind == 6 ? 10 : 14);
                pos += kind == 6 ? 10 : 14;
            }
        }

        run(&f, kind >= 6, kind & 1);
        download(&f);

        if (kind == 0) {
            memcpy(f.want, f.o, f.d_o.bytes);
        }

        is_int(memcmp(f.o + first * width, f.want + first * width,
                      rows * width * 2), 0,
               "same bits at context %u, %s of %u", len,
               kind < 6 ? "parts" : "chunks", kind < 6 ? kind * kind : kind);
    }

    /* is_close() begins with the ends of sequences */

    is_close(&f, 1, "long context");
    fixture_free(&f);
}


/*
 * What rope and append do in a step: gives q, and rows of 128 elements of the
 * cache, which are listed.
 */
__global__ void
k_give(hymt_bf16_t *q, const hymt_bf16_t *q_from, size_t n, hymt_bf16_t *cache,
    const hymt_bf16_t *cache_from, const uint32_t *rows, uint32_t n_rows)
{
    size_t  i, at, step;

    hymt_grid_launch();
    hymt_grid_wait();

    step = (size_t) gridDim.x * blockDim.x;

    for (i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; i < n; i += step) {
        q[i] = q_from[i];
    }

    for (i = blockIdx.x * (size_t) blockDim.x + threadIdx.x;
         i < n_rows * (size_t) HYMT_HEAD_DIM; i += step)
    {
        at = rows[i / HYMT_HEAD_DIM] * (size_t) HYMT_HEAD_DIM
             + i % HYMT_HEAD_DIM;

        cache[at] = cache_from[at];
    }
}


static void *
device_copy(const void *from, size_t bytes)
{
    void  *p;

    cuda(cudaMalloc(&p, bytes));
    cuda(cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice));

    return p;
}


/*
 * In a captured chain, where each kernel starts before the one in front of it
 * has ended: q, the newest position of decode rows and all of prompts are
 * written just before they are read, and spoilt just after.
 */
static void
test_graph(void)
{
    size_t                  n_q, n_cache, width;
    uint32_t                n, lens[40], bad, partial, n_new, n_decode, rows;
    uint32_t               *fresh, *d_fresh, *d_n;
    fixture_t               f;
    cudaGraph_t             graph;
    hymt_bf16_t            *q, *cache, *spoilt;
    cudaGraphExec_t         exec;
    hymt_attention_args_t   args, prompt;
    hymt_attention_item_t  *d_items;

    n = tiny ? 2 : small ? 8 : 40;

    for (uint32_t i = 0; i < n; i++) {
        lens[i] = 1 + random_u32() % (tiny ? 150 : 400);
    }

    fixture_init(&f, 16, 4, lens, n, 1.0f);

    poison(&f);
    decode_all(&f, 0, false);
    download(&f);

    /* decode rows of the first half, whole prompts of the other */

    width = (size_t) f.n_heads * HYMT_HEAD_DIM;
    fresh = (uint32_t *) malloc((size_t) f.n_rows * f.n_kv * 2 * 4);
    memset(f.want, 0xff, f.d_o.bytes);
    partial = 0;
    n_new = 0;
    n_decode = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t  from;

        from = i < n / 2 ? lens[i] - 1 : 0;

        if (i < n / 2) {
            add_decode(&f, i, from, i % 3, &partial);
            n_decode = f.n_items;

        } else {
            for (uint32_t pos = 0; pos < lens[i]; pos += 32) {
                add_prefill(&f, i, pos,
                            lens[i] - pos < 32 ? lens[i] - pos : 32);
            }
        }

        rows = lens[i] - from;
        memcpy(f.want + (f.seqs[i].row + from) * width,
               f.o + (f.seqs[i].row + from) * width, rows * width * 2);

        for (uint32_t pos = from; pos < lens[i]; pos++) {
            for (uint32_t head = 0; head < 2 * f.n_kv; head++) {
                fresh[n_new++] = cache_at(&f, &f.seqs[i], pos, head / 2,
                                          head % 2) / HYMT_HEAD_DIM;
            }
        }
    }

    n_q = f.d_o.bytes / 2;
    n_cache = 0;

    for (uint32_t i = 0; i < n; i++) {
        n_cache += (lens[i] + HYMT_KV_PAGE - 1) / HYMT_KV_PAGE;
    }

    n_cache = (n_cache + 7) * f.n_kv * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;

    q = (hymt_bf16_t *) device_copy(f.q, n_q * 2);
    cache = (hymt_bf16_t *) device_copy(f.cache, n_cache * 2);
    d_fresh = (uint32_t *) device_copy(fresh, n_new * 4);

    cuda(cudaMalloc(&spoilt, n_cache * 2));
    cuda(cudaMemset(spoilt, 0xff, n_cache * 2));

    fixture_upload(&f);
    fixture_args(&f, &args, n_decode);
    cuda(cudaMemcpy(f.d_n_items, &n_decode, 4, cudaMemcpyHostToDevice));

    prompt = args;
    prompt.grid = f.n_items - n_decode;

    d_items = (hymt_attention_item_t *)
              device_copy(f.items + n_decode, prompt.grid * sizeof(*d_items));
    d_n = (uint32_t *) device_copy(&prompt.grid, 4);

    prompt.items = d_items;
    prompt.n_items = d_n;
    prompt.q = args.q = q;
    prompt.cache = args.cache = cache;

    cuda(cudaStreamBeginCapture(dev.stream, cudaStreamCaptureModeThreadLocal));

    for (int i = 0; i < 8; i++) {
        cuda(hymt_launch(k_give, dim3(132), dim3(256), 0, dev.stream, dev.pdl,
                         q, f.d_q, n_q, cache, f.d_cache, d_fresh, n_new));
        cuda(hymt_cuda_attention_decode(&dev, &args, dev.stream));
        cuda(hymt_cuda_attention_prefill(&dev, &prompt, dev.stream));
        cuda(hymt_launch(k_give, dim3(132), dim3(256), 0, dev.stream, dev.pdl,
                         q, spoilt, n_q < n_cache ? n_q : n_cache, cache,
                         spoilt, d_fresh, n_new));
    }

    cuda(cudaStreamEndCapture(dev.stream, &graph));
    cuda(cudaGraphInstantiate(&exec, graph, 0));

    bad = 0;

    for (int i = 0; i < (small ? 2 : 20); i++) {
        poison(&f);
        cuda(cudaGraphLaunch(exec, dev.stream));
        download(&f);
        bad += differing(&f);
    }

    is_int(bad, 0, "same bits in a graph of overlapping kernels, 20 times");
    ok(counters_zero(&f), "counters are zero again");

    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaFree(q);
    cudaFree(cache);
    cudaFree(spoilt);
    cudaFree(d_fresh);
    cudaFree(d_items);
    cudaFree(d_n);
    free(fresh);
    fixture_free(&f);
}


int
main(int argc, char **argv)
{
    cudaDeviceProp  prop;

    tiny = argc > 1 && strcmp(argv[1], "tiny") == 0;
    small = tiny || (argc > 1 && strcmp(argv[1], "small") == 0);
    seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t) time(NULL);
    random_state = seed * 0x9e3779b97f4a7c15ull | 1;
    printf("# seed %" PRIu64 "\n", seed);

    if (cudaGetDeviceProperties(&prop, 0) != cudaSuccess) {
        printf("1..0 # SKIP no CUDA device\n");
        return 0;
    }

    dev.cc = prop.major * 10 + prop.minor;
    dev.sms = prop.multiProcessorCount;
    dev.smem = prop.sharedMemPerBlockOptin;
    dev.pdl = dev.cc >= 90;
    cuda(cudaStreamCreateWithFlags(&dev.stream, cudaStreamNonBlocking));

    test_empty();
    tiny ? test_group(4, 1, 1.0f, "group of 4")
         : test_group(16, 4, 1.0f, "group of 4");

    if (!small) {
        test_group(4, 4, 1.0f, "group of 1");
        test_group(32, 8, 1.0f, "group of 4, 8 kv heads");
    }

    if (!tiny) {
        test_group(4, 2, 1.0f, "group of 2");
        test_group(16, 2, 1.0f, "group of 8");
        test_group(8, 2, 20.0f, "few positions matter");
        test_alone();
        test_long();
    }

    test_graph();

    cudaStreamDestroy(dev.stream);

    return tap_done();
}
