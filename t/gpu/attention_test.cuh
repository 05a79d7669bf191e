/*
 * attention_test.cuh - the fixture of attention_test.cu: sequences with
 * shuffled page tables over one cache, items for their rows, launches.
 *
 * Rows are random sums of the product in front; the kernel of prompt rows makes
 * q and the cache of them, and decode attention has to make the same.
 */

#ifndef HYMT_ATTENTION_TEST_CUH
#define HYMT_ATTENTION_TEST_CUH

#include "kernels.h"
#include "ptx.cuh"
#include "../unit/tap.h"


#define GUARD  4096                     /* bytes before and after an output */


/* Device memory with guard bands, poisoned. */
typedef struct {
    uint8_t  *base;
    uint8_t  *p;
    size_t    bytes;
} buffer_t;


/* How many blocks there seem to be, for a device. */
typedef enum {
    ROOM_MANY = 0,
    ROOM_FEW,
    ROOM_SOME,
    ROOM_MIXED,                         /* many, and prompts beside them */
    ROOMS
} room_t;


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
    uint16_t              *cache;       /* as the device has it */
    uint16_t              *q;
    uint16_t              *o;           /* what the device gave last */
    uint16_t              *want;        /* of the plainest run */

    buffer_t               d_o;
    buffer_t               d_partial;
    buffer_t               d_counters;
    size_t                 n_q;         /* elements */
    size_t                 n_qkv;
    size_t                 n_cache;
    hymt_bf16_t           *d_q;
    hymt_bf16_t           *d_qkv;
    hymt_bf16_t           *d_cache;
    hymt_bf16_t           *d_turns;     /* [2][max_context][64] */
    hymt_bf16_t           *d_norms;     /* [2][128] */
    hymt_rope_t            rope;
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
static bool         compact;            /* as in the last layer */
static bool         hopper;             /* what only that has */
static bool         queries;            /* prefill makes q itself */
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


static void *
device_copy(const void *from, size_t bytes)
{
    void  *p;

    cuda(cudaMalloc(&p, bytes));
    cuda(cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice));

    return p;
}


/* Cosines and sines, some positions fewer than there are; weights of norms. */
static void
fixture_rope(fixture_t *f, bool norm, float gain)
{
    size_t     n;
    double     angle;
    uint16_t  *turns, norms[2][HYMT_HEAD_DIM];

    for (uint32_t i = 0; i < f->n_seqs; i++) {
        f->rope.context = f->rope.context > f->seqs[i].len
                          ? f->rope.context : f->seqs[i].len;
    }

    f->rope.context -= f->rope.context / 10;

    n = (size_t) f->rope.context * (HYMT_HEAD_DIM / 2);
    turns = (uint16_t *) malloc(2 * n * 2);

    for (size_t i = 0; i < n; i++) {
        angle = (double) (i / (HYMT_HEAD_DIM / 2))
                * pow(10000.0, -2.0 * (i % (HYMT_HEAD_DIM / 2))
                               / HYMT_HEAD_DIM);
        turns[i] = bf16((float) cos(angle));
        turns[n + i] = bf16((float) sin(angle));
    }

    for (uint32_t d = 0; d < HYMT_HEAD_DIM; d++) {
        norms[0][d] = bf16(gain * (1 + 0.2f * random_normal()));
        norms[1][d] = bf16(1 + 0.2f * random_normal());
    }

    f->d_turns = (hymt_bf16_t *) device_copy(turns, 2 * n * 2);
    f->d_norms = (hymt_bf16_t *) device_copy(norms, sizeof(norms));

    f->rope.cos = f->d_turns;
    f->rope.sin = f->d_turns + n;
    f->rope.q_norm = norm ? f->d_norms : NULL;
    f->rope.k_norm = norm ? f->d_norms + HYMT_HEAD_DIM : NULL;
    f->rope.eps = 1e-5f;

    free(turns);
}


/* Of all rows, by the kernel for prompts: q and the cache. */
static void
fixture_append(fixture_t *f)
{
    int32_t           *dest, *d_dest;
    uint32_t          *pos, *d_pos, row;
    hymt_rope_args_t   args;

    dest = (int32_t *) malloc(f->n_rows * 4);
    pos = (uint32_t *) malloc(f->n_rows * 4);

    for (uint32_t i = 0; i < f->n_seqs; i++) {
        for (uint32_t at = 0; at < f->seqs[i].len; at++) {
            row = f->seqs[i].row + at;
            pos[row] = at;
            dest[row] = (int32_t) (f->tables[f->seqs[i].table
                                             + at / HYMT_KV_PAGE]
                                   * HYMT_KV_PAGE + at % HYMT_KV_PAGE);
        }
    }

    d_dest = (int32_t *) device_copy(dest, f->n_rows * 4);
    d_pos = (uint32_t *) device_copy(pos, f->n_rows * 4);

    memset(&args, 0, sizeof(args));
    args.qkv = f->d_qkv;
    args.q = f->d_q;
    args.cache = f->d_cache;
    args.pos = d_pos;
    args.kv_dest = d_dest;
    args.rope = f->rope;
    args.rows = f->n_rows;
    args.n_heads = f->n_heads;
    args.n_kv = f->n_kv;

    cuda(hymt_cuda_rope_append(&dev, &args, dev.stream));
    cuda(cudaStreamSynchronize(dev.stream));

    cuda(cudaMemcpy(f->q, f->d_q, f->n_q * 2, cudaMemcpyDeviceToHost));
    cuda(cudaMemcpy(f->cache, f->d_cache, f->n_cache * 2,
                    cudaMemcpyDeviceToHost));

    cudaFree(d_dest);
    cudaFree(d_pos);
    free(dest);
    free(pos);
}


/*
 * gain scales q: large makes the softmax one of few positions.  Every position
 * of a sequence has a row.
 */
static void
fixture_init(fixture_t *f, uint32_t n_heads, uint32_t n_kv,
    const uint32_t *lens, uint32_t n_seqs, bool norm, float gain)
{
    size_t     width;
    uint16_t  *qkv;
    uint32_t   n_blocks, n_table, n, swap, *order;

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
    width = (size_t) (n_heads + 2 * n_kv) * HYMT_HEAD_DIM;
    f->n_cache = (size_t) n_blocks * n_kv * 2 * HYMT_KV_PAGE * HYMT_HEAD_DIM;
    f->n_q = (size_t) f->n_rows * n_heads * HYMT_HEAD_DIM;
    f->n_qkv = f->n_rows * width;

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

    f->cache = (uint16_t *) malloc(f->n_cache * 2);
    f->q = (uint16_t *) malloc(f->n_q * 2);
    f->o = (uint16_t *) malloc(f->n_q * 2);
    f->want = (uint16_t *) malloc(f->n_q * 2);
    qkv = (uint16_t *) malloc(f->n_qkv * 2);

    for (size_t i = 0; i < f->n_qkv; i++) {
        qkv[i] = bf16((i % width < (size_t) n_heads * HYMT_HEAD_DIM ? gain : 1)
                      * random_normal());
    }

    f->max_items = 2 * f->n_rows + 4096;
    f->n_counters = f->max_items;
    f->items = (hymt_attention_item_t *) calloc(f->max_items,
                                                sizeof(*f->items));

    buffer_init(&f->d_o, f->n_q * 2);
    buffer_init(&f->d_partial, (size_t) f->n_partial * n_heads
                               * (HYMT_HEAD_DIM + 2) * 4);
    buffer_init(&f->d_counters, (size_t) f->n_counters * n_kv * 4);
    cuda(cudaMemset(f->d_counters.p, 0, f->d_counters.bytes));

    cuda(cudaMalloc(&f->d_q, f->n_q * 2));
    cuda(cudaMalloc(&f->d_cache, f->n_cache * 2));
    cuda(cudaMalloc(&f->d_items, f->max_items * sizeof(*f->items)));
    cuda(cudaMalloc(&f->d_n_items, 4));
    cuda(cudaMemset(f->d_q, 0xff, f->n_q * 2));
    cuda(cudaMemset(f->d_cache, 0xff, f->n_cache * 2));

    f->d_qkv = (hymt_bf16_t *) device_copy(qkv, f->n_qkv * 2);
    f->d_tables = (uint32_t *) device_copy(f->tables, n_blocks * 4);
    free(qkv);

    fixture_rope(f, norm, gain);
    fixture_append(f);
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
    cudaFree(f->d_qkv);
    cudaFree(f->d_turns);
    cudaFree(f->d_norms);
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
    args->qkv = f->d_qkv;
    args->rope = f->rope;
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
 * Launches what was added, some blocks more than needed.  What is chosen goes
 * by the number of multiprocessors, and by what else is in the step: there is
 * nothing, but decode is told so.
 */
static void
run(fixture_t *f, bool prefill, room_t room)
{
    hymt_cuda_t            d;
    hymt_attention_args_t  args;

    fixture_upload(f);
    fixture_args(f, &args, f->n_items + random_u32() % 3);

    d = dev;
    d.sms = room == ROOM_FEW ? UINT32_MAX / 4
            : room == ROOM_SOME ? (args.grid * f->n_kv + 1) / 2 : 0;
    args.mixed = room == ROOM_MIXED && !prefill;
    args.compact = compact;
    args.q = queries ? NULL : f->d_q;
    d.cc = plain ? 80 : dev.cc;

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


/* Whether every K and V is as the kernel for prompts left it. */
static bool
appended(const fixture_t *f)
{
    bool       good;
    uint16_t  *cache;

    cache = (uint16_t *) malloc(f->n_cache * 2);
    cuda(cudaStreamSynchronize(dev.stream));
    cuda(cudaMemcpy(cache, f->d_cache, f->n_cache * 2,
                    cudaMemcpyDeviceToHost));

    good = memcmp(cache, f->cache, f->n_cache * 2) == 0;
    free(cache);

    return good;
}


/* As if a position had not been appended yet. */
static void
forget(const fixture_t *f, uint32_t seq, uint32_t pos)
{
    for (uint32_t i = 0; i < 2 * f->n_kv; i++) {
        cuda(cudaMemset(f->d_cache + cache_at(f, &f->seqs[seq], pos, i / 2,
                                              i % 2),
                        0xff, HYMT_HEAD_DIM * 2));
    }
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


#endif /* HYMT_ATTENTION_TEST_CUH */
