/*
 * attention_test.cu - paged attention: against a double reference, and bit for
 * bit against itself however the rows are grouped.
 *
 * A fixture is a handful of sequences with shuffled page tables over one cache
 * in which everything never written is NaN; every position of a sequence has a
 * query row.  Rows are computed by decode items of any number of parts and by
 * prefill items of any cut; what they must all agree with are the bits of the
 * plainest run, and that run is compared with the reference.  Decode makes q
 * itself, and its position's K and V; prefill has K and V from rope_append, and
 * q, if it does not make that itself as well.
 *
 * With the argument "small": few rows, for a sanitizer; "tiny": fewer.
 */

#include "attention_reference.cuh"

#include <time.h>


/* Every position by a decode item of its own. */
static void
decode_all(fixture_t *f, uint32_t tiles, room_t room)
{
    uint32_t  partial;

    partial = 0;

    for (uint32_t i = 0; i < f->n_seqs; i++) {
        for (uint32_t pos = 0; pos < f->seqs[i].len; pos++) {
            if (f->n_items + f->seqs[i].len / HYMT_ATTN_TILE + 1
                    > f->max_items
                || !add_decode(f, i, pos, tiles, &partial))
            {
                run(f, false, room);
                partial = 0;
                add_decode(f, i, pos, tiles, &partial);
            }
        }
    }

    run(f, false, room);
}


/*
 * Every position by prefill items: chunks of `chunk` rows (0: any, at random)
 * cut into items of the most rows.
 */
static void
prefill_all(fixture_t *f, uint32_t chunk, room_t room)
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

    run(f, true, room);
}


static void
same(fixture_t *f, const char *what, uint32_t n, room_t room)
{
    static const char *const  rooms[ROOMS] = { "many", "few", "some",
                                                "many mixed" };

    download(f);
    is_int(differing(f), 0, "same bits: %s, %u, %s blocks%s", what, n,
           rooms[room], plain ? ", no wgmma" : queries ? ", own q" : "");
}


static void
invariance(fixture_t *f)
{
    uint32_t  n_parts, n_chunks;

    static const uint32_t  parts[] = { 1, 2, 3, 8 };
    static const uint32_t  chunks[] = { 0, 33, 1, 7, 16, 1000000 };

    n_parts = tiny ? 1 : sizeof(parts) / sizeof(parts[0]);
    n_chunks = tiny ? 2 : sizeof(chunks) / sizeof(chunks[0]);

    for (uint32_t i = 0; i < ROOMS; i++) {
        const room_t  room = (room_t) i;

        poison(f);
        decode_all(f, 0, room);
        same(f, "whole rows again", 1, room);

        for (uint32_t j = 0; j < n_parts; j++) {
            poison(f);
            decode_all(f, parts[j], room);
            same(f, "parts of n tiles", parts[j], room);
        }

        /* prefill knows the first two alone */

        if (room > ROOM_FEW) {
            continue;
        }

        for (uint32_t j = 0; j < n_chunks; j++) {
            for (uint32_t k = 0; k < 2 + hopper; k++) {
                plain = k == 1;
                queries = k == 2;
                poison(f);
                prefill_all(f, chunks[j], room);
                same(f, "prompt in chunks of n rows", chunks[j], room);
            }

            plain = false;
            queries = false;
        }
    }

    ok(counters_zero(f), "counters are zero again");
    ok(appended(f), "decode appends what prompts do");
}


static void
test_group(uint32_t n_heads, uint32_t n_kv, bool norm, float gain,
    const char *what)
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

    fixture_init(&f, n_heads, n_kv, lens, n, norm, gain);

    poison(&f);
    decode_all(&f, 0, ROOM_MANY);
    download(&f);
    memcpy(f.want, f.o, f.d_o.bytes);

    is_close(&f, n + (small ? 4 : 40), what);
    invariance(&f);
    fixture_free(&f);
}


/*
 * Rows whose position is not in the cache yet: one at a time, and one of each
 * sequence together, against the same rows among all others.
 */
static void
test_alone(void)
{
    room_t      room;
    uint32_t    n, lens[32], partial;
    fixture_t   f;
    const char *what;

    static const uint32_t  tiles[] = { 0, 1, 3 };

    n = small ? 4 : 32;

    for (uint32_t i = 0; i < n; i++) {
        lens[i] = i == 0 ? 1 : 1 + random_u32() % 700;
    }

    fixture_init(&f, 16, 4, lens, n, true, 1.0f);

    poison(&f);
    decode_all(&f, 0, ROOM_MANY);
    download(&f);
    memcpy(f.want, f.o, f.d_o.bytes);

    for (uint32_t kind = 0; kind < 2 * ROOMS * 3 + 1 + hopper; kind++) {
        poison(&f);

        /* all but the last position by one launch */

        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t pos = 0; pos + 1 < lens[i]; pos++) {
                partial = 0;
                add_decode(&f, i, pos, 0, &partial);
            }
        }

        run(&f, false, ROOM_MANY);

        if (kind >= 2 * ROOMS * 3) {
            queries = kind > 2 * ROOMS * 3;

            for (uint32_t i = 0; i < n; i++) {
                add_prefill(&f, i, lens[i] - 1, 1);
                run(&f, true, ROOM_FEW);
            }

            download(&f);
            is_int(differing(&f), 0, "rows alone: prefill%s",
                   queries ? ", own q" : "");
            queries = false;
            continue;
        }

        room = (room_t) (kind / 2 % ROOMS);
        what = kind % 2 ? "together" : "alone";
        partial = random_u32() % 64;

        for (uint32_t i = 0; i < n; i++) {
            forget(&f, i, lens[i] - 1);
        }

        for (uint32_t i = 0; i < n; i++) {
            add_decode(&f, i, lens[i] - 1, tiles[kind / 2 / ROOMS], &partial);

            if (kind % 2 == 0 || i + 1 == n) {
                run(&f, false, room);
                partial = random_u32() % 64;
            }
        }

        download(&f);
        is_int(differing(&f), 0, "rows %s: decode, parts of %u tiles", what,
               tiles[kind / 2 / ROOMS]);
        ok(appended(&f), "they are appended");
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

    fixture_init(&f, 16, 4, lens, 2, true, 1.0f);
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


/*
 * As in the last layer: of items that have a place in o their last rows alone,
 * side by side there; the rest is as it was.
 */
static void
test_compact(uint32_t n_heads, uint32_t n_kv)
{
    size_t     width;
    uint32_t   n, lens[40], at, rows, chunk, partial, from, first, bad;
    uint32_t  *place;
    fixture_t  f;

    n = tiny ? 3 : small ? 8 : 40;

    for (uint32_t i = 0; i < n; i++) {
        lens[i] = 1 + random_u32() % (tiny ? 150 : 700);
    }

    fixture_init(&f, n_heads, n_kv, lens, n, true, 1.0f);
    width = (size_t) n_heads * HYMT_HEAD_DIM;
    place = (uint32_t *) malloc(n * sizeof(uint32_t));

    poison(&f);
    decode_all(&f, 0, ROOM_MANY);
    download(&f);
    memcpy(f.want, f.o, f.d_o.bytes);

    for (uint32_t kind = 0; kind < ROOMS + 3 + hopper; kind++) {
        const bool    decode = kind < ROOMS;
        const room_t  room = (room_t) (kind % ROOMS);

        poison(&f);
        partial = 0;
        at = 0;

        for (uint32_t i = 0; i < n; i++) {
            place[i] = random_u32() % 3 ? at++ : UINT32_MAX;

            if (decode) {
                forget(&f, i, lens[i] - 1);
                from = f.n_items;

                if (!add_decode(&f, i, lens[i] - 1, i % 4, &partial)) {
                    add_decode(&f, i, lens[i] - 1, 0, &partial);
                }

                while (from < f.n_items) {
                    f.items[from++].out = place[i];
                }

                continue;
            }

            /* a prompt, or what is left of one */

            from = random_u32() % 2 ? 0 : random_u32() % lens[i];
            chunk = hymt_attention_rows(f.group);

            for (uint32_t pos = from; pos < lens[i]; pos += rows) {
                rows = lens[i] - pos < chunk ? lens[i] - pos : chunk;
                add_prefill(&f, i, pos, rows);
                f.items[f.n_items - 1].out = pos + rows == lens[i]
                                             ? place[i] : UINT32_MAX;
            }
        }

        compact = true;
        plain = kind == ROOMS + 2;
        queries = kind == ROOMS + 3;
        run(&f, !decode, room);
        compact = false;
        plain = false;
        queries = false;
        download(&f);

        bad = 0;

        for (uint32_t i = 0; i < n; i++) {
            if (place[i] != UINT32_MAX) {
                first = f.seqs[i].row + lens[i] - 1;
                bad += memcmp(f.o + place[i] * width, f.want + first * width,
                              width * 2) != 0;
            }
        }

        for (size_t i = at * width; i < f.d_o.bytes / 2; i++) {
            bad += f.o[i] != 0xffff;
        }

        is_int(bad, 0, "%u of %u last rows side by side, %s %u", at, n,
               decode ? "decode" : "prefill", kind);
        ok(appended(&f), "the others are appended as well");
    }

    ok(counters_zero(&f), "counters are zero again");
    free(place);
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

    fixture_init(&f, 16, 4, &len, 1, true, 1.0f);

    rows = 70;
    first = len - rows;
    width = (size_t) f.n_heads * HYMT_HEAD_DIM;

    for (uint32_t kind = 0; kind < 8 + hopper; kind++) {
        poison(&f);
        partial = 0;
        queries = kind == 8;

        for (uint32_t pos = first; pos < len; ) {
            if (kind < 6) {
                if (!add_decode(&f, 0, pos, kind * kind, &partial)) {
                    run(&f, false, (room_t) (kind % ROOMS));
                    partial = 0;
                    continue;
                }

                pos++;

            } else {
                add_prefill(&f, 0, pos, kind == 6 ? 10 : 14);
                pos += kind == 6 ? 10 : 14;
            }
        }

        run(&f, kind >= 6, (room_t) (kind % ROOMS));
        queries = false;
        download(&f);

        if (kind == 0) {
            memcpy(f.want, f.o, f.d_o.bytes);
        }

        is_int(memcmp(f.o + first * width, f.want + first * width,
                      rows * width * 2), 0,
               "same bits at context %u, %s of %u", len,
               kind < 6 ? "parts" : kind < 8 ? "chunks" : "chunks, own q",
               kind < 6 ? kind * kind : kind);
    }

    /* is_close() begins with the ends of sequences */

    is_close(&f, 1, "long context");
    fixture_free(&f);
}


/* What k_give() writes, and where from. */
typedef struct {
    hymt_bf16_t        *to;
    const hymt_bf16_t  *from;
    size_t              n;
} given_t;


/*
 * What kernels in front do in a step: gives q and qkv, and rows of 128 elements
 * of the cache, which are listed.
 */
__global__ void
k_give(given_t q, given_t qkv, given_t cache, const uint32_t *rows)
{
    size_t  i, at, first, step;

    hymt_grid_launch();
    hymt_grid_wait();

    step = (size_t) gridDim.x * blockDim.x;
    first = blockIdx.x * (size_t) blockDim.x + threadIdx.x;

    for (i = first; i < q.n; i += step) {
        q.to[i] = q.from[i];
    }

    for (i = first; i < qkv.n; i += step) {
        qkv.to[i] = qkv.from[i];
    }

    for (i = first; i < cache.n * HYMT_HEAD_DIM; i += step) {
        at = rows[i / HYMT_HEAD_DIM] * (size_t) HYMT_HEAD_DIM
             + i % HYMT_HEAD_DIM;

        cache.to[at] = cache.from[at];
    }
}


/*
 * In a captured chain, where each kernel starts before the one in front of it
 * has ended: q, qkv and all positions of prompts are written just before they
 * are read, and spoilt just after, as is the position that decode appends.
 * mixed: prefill does not wait for decode, and who waits for prefill has waited
 * for both.  own: prefill makes q itself.
 */
static void
test_graph(bool mixed, bool own)
{
    size_t                  width, most;
    given_t                 give_q, give_qkv, give, spoil_q, spoil_qkv, spoil;
    uint32_t                n, lens[40], bad, partial, n_new, n_decode, rows;
    uint32_t                n_decode_new;
    uint32_t               *fresh, *d_fresh, *d_n;
    fixture_t               f;
    hymt_cuda_t             d;
    cudaGraph_t             graph;
    hymt_bf16_t            *spoilt;
    cudaGraphExec_t         exec;
    hymt_attention_args_t   args, prompt;
    hymt_attention_item_t  *d_items;

    n = tiny ? 2 : small ? 8 : 40;

    for (uint32_t i = 0; i < n; i++) {
        lens[i] = 1 + random_u32() % (tiny ? 150 : 400);
    }

    fixture_init(&f, 16, 4, lens, n, true, 1.0f);

    poison(&f);
    decode_all(&f, 0, ROOM_MANY);
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

        if (i < n / 2) {
            n_decode_new = n_new;
        }
    }

    /* the positions of decode rows are the first of the list */

    give.n = n_new - n_decode_new;
    spoil.n = n_new;

    most = f.n_qkv > f.n_cache ? f.n_qkv : f.n_cache;
    cuda(cudaMalloc(&spoilt, most * 2));
    cuda(cudaMemset(spoilt, 0xff, most * 2));

    give_q.to = (hymt_bf16_t *) device_copy(f.q, f.n_q * 2);
    give_q.from = f.d_q;
    give_q.n = f.n_q;

    cuda(cudaMalloc(&give_qkv.to, f.n_qkv * 2));
    give_qkv.from = f.d_qkv;
    give_qkv.n = f.n_qkv;

    give.to = (hymt_bf16_t *) device_copy(f.cache, f.n_cache * 2);
    give.from = f.d_cache;

    spoil_q = give_q;
    spoil_qkv = give_qkv;
    spoil.to = give.to;
    spoil_q.from = spoil_qkv.from = spoil.from = spoilt;

    d_fresh = (uint32_t *) device_copy(fresh, n_new * 4);

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
    prompt.q = own ? NULL : give_q.to;
    args.q = NULL;
    args.qkv = give_qkv.to;
    prompt.qkv = own ? give_qkv.to : NULL;
    prompt.cache = args.cache = give.to;
    prompt.mixed = args.mixed = mixed;

    /* mixed, as where there are more blocks than find place at once */

    d = dev;
    d.sms = mixed ? 0 : dev.sms;

    cuda(cudaStreamBeginCapture(dev.stream, cudaStreamCaptureModeThreadLocal));

    for (int i = 0; i < 8; i++) {
        cuda(hymt_launch(k_give, dim3(132), dim3(256), 0, dev.stream, dev.pdl,
                         give_q, give_qkv, give, d_fresh + n_decode_new));
        cuda(hymt_cuda_attention_decode(&d, &args, dev.stream));
        cuda(hymt_cuda_attention_prefill(&d, &prompt, dev.stream));
        cuda(hymt_launch(k_give, dim3(132), dim3(256), 0, dev.stream, dev.pdl,
                         spoil_q, spoil_qkv, spoil, d_fresh));
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

    is_int(bad, 0, "same bits in a graph of overlapping kernels%s%s",
           mixed ? ", prompts beside decode" : "", own ? ", own q" : "");
    ok(counters_zero(&f), "counters are zero again");

    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaFree(give_q.to);
    cudaFree(give_qkv.to);
    cudaFree(give.to);
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
    dev.pdl = dev.cc / 10 == 9;
    hopper = dev.cc == 90;
    cuda(cudaStreamCreateWithFlags(&dev.stream, cudaStreamNonBlocking));

    test_empty();
    tiny ? test_group(4, 1, true, 1.0f, "group of 4")
         : test_group(16, 4, true, 1.0f, "group of 4");

    if (!small) {
        test_group(4, 4, true, 1.0f, "group of 1");
        test_group(32, 8, true, 1.0f, "group of 4, 8 kv heads");
    }

    if (tiny) {
        test_group(1, 1, true, 1.0f, "group of 1");
        test_group(2, 1, false, 1.0f, "group of 2, no norm");
        test_group(8, 1, true, 1.0f, "group of 8");

    } else {
        test_group(4, 2, false, 1.0f, "group of 2, no norm");
        test_group(16, 2, true, 1.0f, "group of 8");
        test_group(8, 2, true, 20.0f, "few positions matter");
        test_alone();
        test_compact(8, 4);
        test_long();
    }

    test_compact(16, 4);
    test_graph(false, false);
    test_graph(true, false);

    if (hopper) {
        test_graph(false, true);
        test_graph(true, true);
    }

    cudaStreamDestroy(dev.stream);

    return tap_done();
}
