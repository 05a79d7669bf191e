/*
 * backend_test.c - the whole CPU backend against the double-precision one, and
 * the promises of backend.h: equal bits whatever the batch, chunks, threads,
 * slots and blocks.
 */

#define SLOTS    32
#define ROWS     256
#define CONTEXT  1024
#define BLOCKS   320
#define SHORT    75       /* tokens of a test's prompt */

#include "claim.h"
#include "fixture.h"
#include "seq_fixture.h"

#include <fcntl.h>


static hymt_model_t *
test_model(char *dir, const fixture_shape_t *shape)
{
    hymt_model_t  *model;

    fixture_dir(dir);
    fixture_model(dir, shape, 42);

    if (hymt_model_open(dir, &model, &err) != HYMT_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }

    return model;
}


static hymt_backend_t *
test_backend(const hymt_backend_ops_t *ops, const hymt_model_t *model,
    uint32_t threads, const volatile int *stop)
{
    hymt_backend_t         *b;
    hymt_backend_params_t   p;

    memset(&p, 0, sizeof(p));

    p.threads = threads;
    p.max_batch = SLOTS;
    p.max_rows = ROWS;
    p.context = CONTEXT;
    p.n_blocks = BLOCKS;
    p.stop = stop;

    if (ops->create(&p, model, &b, &err) != HYMT_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }

    return b;
}


/* The blocks of a sequence are every SLOTS-th from `slot` on, or backwards. */
static void
test_seq(seq_t *s, uint32_t slot, uint32_t n, uint64_t seed, uint32_t vocab)
{
    uint32_t  i, k;

    memset(s, 0, sizeof(*s));

    s->slot = slot;
    s->n = n;
    random_state = seed;

    for (i = 0; i < CONTEXT; i++) {
        s->tokens[i] = random_below(vocab);
    }

    k = BLOCKS / SLOTS;

    for (i = 0; i < hymt_ceil_div(n, HYMT_KV_BLOCK); i++) {
        s->blocks[i] = n > k * HYMT_KV_BLOCK ? i
                     : seed & 1 ? slot * k + i : slot * k + k - 1 - i;
    }
}


static void
test_against_ref(void)
{
    char             dir[FIXTURE_PATH];
    float           *got, *want;
    seq_t            s;
    uint32_t         i, j, a, b, vocab;
    hymt_model_t    *model;
    hymt_backend_t  *cpu, *ref;

    static const char *const  isas[] = { "scalar", "avx2", "avx512" };

    static const fixture_shape_t  shapes[] = {
        { .heads = 4, .kv_heads = 1, .head_dim = 128, .hidden = 128,
          .ffn = 320 },
        { .heads = 8, .kv_heads = 1, .head_dim = 64, .dtype = "F32",
          .untied = true, .no_qk_norm = true },
        { .heads = 3, .kv_heads = 3, .head_dim = 16, .dtype = "F16",
          .hidden = 48, .ffn = 80, .vocab = 301 },
        { .heads = 6, .kv_heads = 2, .head_dim = 6, .hidden = 80, .ffn = 112,
          .untied = true, .layers = 3 },
        { .heads = 2, .kv_heads = 1, .head_dim = 64, .no_qk_norm = true,
          .ffn = 1040, .hidden = 528, .layers = 1 },
    };

    for (i = 0; i < hymt_nelts(shapes); i++) {
        model = test_model(dir, &shapes[i]);
        vocab = model->config.vocab;
        got = malloc(sizeof(float) * SHORT * vocab);
        want = malloc(sizeof(float) * SHORT * vocab);

        ref = test_backend(&hymt_backend_ref, model, 1, NULL);
        test_seq(&s, 3, SHORT, 1000 + i, vocab);
        a = prompt(&hymt_backend_ref, ref, &s, SHORT, vocab, want);
        hymt_backend_ref.destroy(ref);

        for (j = 0; j < hymt_nelts(isas); j++) {
            setenv("HYMT_CPU_ISA", isas[j], 1);

            cpu = NULL;

            hymt_backend_params_t  p = {
                .threads = 2, .max_batch = SLOTS, .max_rows = ROWS,
                .context = CONTEXT, .n_blocks = BLOCKS
            };

            if (hymt_backend_cpu.create(&p, model, &cpu, &err) != HYMT_OK) {
                has_str(err.text, "HYMT_CPU_ISA",
                        "shape %u, %s: not on this host", i, isas[j]);
                continue;
            }

            memset(got, 0xff, sizeof(float) * SHORT * vocab);
            test_seq(&s, 3, SHORT, 1000 + i, vocab);
            b = prompt(&hymt_backend_cpu, cpu, &s, 32, vocab, got);

            is_near(worst_row(got, want, SHORT, vocab), 0, 1e-5,
                    "shape %u, %s: logits of every position", i,
                    hymt_backend_cpu.describe(cpu));
            is_int(b, a, "shape %u, %s: sampled token", i, isas[j]);

            hymt_backend_cpu.destroy(cpu);
        }

        unsetenv("HYMT_CPU_ISA");
        hymt_model_close(model);
        fixture_remove(dir);
        free(got);
        free(want);
    }
}


/* Whatever lies in the cache before, the last positions of the context. */
static void
test_far(void)
{
    char              dir[FIXTURE_PATH];
    float            *got, *want;
    seq_t             s;
    uint32_t          i, rows, token, vocab;
    hymt_model_t     *model;
    hymt_backend_t   *cpu, *ref;
    fixture_shape_t   shape = { .heads = 4, .kv_heads = 1, .head_dim = 128,
                                .max_position = CONTEXT };

    model = test_model(dir, &shape);
    vocab = model->config.vocab;
    got = malloc(sizeof(float) * 20 * vocab);
    want = malloc(sizeof(float) * 20 * vocab);

    cpu = test_backend(&hymt_backend_cpu, model, 2, NULL);
    ref = test_backend(&hymt_backend_ref, model, 1, NULL);

    rows = 20;

    for (i = 0; i < 2; i++) {
        test_seq(&s, 0, CONTEXT, 5, vocab);
        s.pos = CONTEXT - rows;

        seq_begin(i ? &hymt_backend_ref : &hymt_backend_cpu, i ? ref : cpu,
                  &s, false);
        is_int(step(i ? &hymt_backend_ref : &hymt_backend_cpu,
                    i ? ref : cpu, &s, &rows, 1, i ? want : got, &token),
               HYMT_OK, "the end of the context computes");
    }

    is_near(worst_row(got, want, rows, vocab), 0, 1e-5,
            "logits up to position %u", CONTEXT - 1);

    s.pos = CONTEXT - 5;
    is_int(step(&hymt_backend_cpu, cpu, &s, &rows, 1, got, &token),
           HYMT_ERROR, "past the context: refused");
    has_str(err.text, "out of range", "and says so");

    hymt_backend_cpu.destroy(cpu);
    hymt_backend_ref.destroy(ref);
    hymt_model_close(model);
    fixture_remove(dir);
    free(got);
    free(want);
}


static void
test_invariance(const char *isa, const fixture_shape_t *shape)
{
    char             dir[FIXTURE_PATH];
    float           *want, *got, *all;
    seq_t            s, *many;
    uint32_t         i, j, chunk, threads, token, vocab, width, n, at, turn;
    uint32_t         rows[SLOTS], tokens[SLOTS];
    hymt_model_t    *model;
    hymt_backend_t  *b;

    static const uint32_t  chunks[] = { 1, 7, 16, SHORT };

    setenv("HYMT_CPU_ISA", isa, 1);

    model = test_model(dir, shape);
    vocab = model->config.vocab;
    width = vocab * SHORT;
    want = malloc(sizeof(float) * width);
    got = malloc(sizeof(float) * width);
    all = malloc(sizeof(float) * ROWS * vocab);
    many = malloc(sizeof(seq_t) * SLOTS);

    b = test_backend(&hymt_backend_cpu, model, 1, NULL);
    test_seq(&s, 0, SHORT, 99, vocab);
    token = prompt(&hymt_backend_cpu, b, &s, SHORT, vocab, want);

    /* other slots, other blocks, chunks */

    for (i = 0; i < hymt_nelts(chunks); i++) {
        test_seq(&s, 5 + i, SHORT, 99, vocab);
        memset(got, 0xff, sizeof(float) * width);

        is_int(prompt(&hymt_backend_cpu, b, &s, chunks[i], vocab, got),
               token, "%s: chunks of %u: same token", isa, chunks[i]);
        ok(memcmp(got, want, sizeof(float) * width) == 0,
           "%s: chunks of %u: same bits", isa, chunks[i]);
    }

    hymt_backend_cpu.destroy(b);

    /* among 31 others of all lengths, with 1 to 3 threads */

    for (threads = 1; threads <= 3; threads++) {
        b = test_backend(&hymt_backend_cpu, model, threads, NULL);

        for (i = 0; i < SLOTS; i++) {
            test_seq(&many[i], SLOTS - 1 - i, i == 17 ? SHORT : 5 + i * 2,
                     i == 17 ? 99 : i, vocab);
            seq_begin(&hymt_backend_cpu, b, &many[i], false);
        }

        memset(got, 0xff, sizeof(float) * width);
        turn = 0;
        chunk = 0;

        while (many[17].pos < SHORT) {
            n = 0;
            at = 0;

            for (i = 0; i < SLOTS; i++) {
                rows[i] = (turn + i) % 3 ? 1 + (turn * 7 + i * 5) % 13 : 0;
                rows[i] = hymt_min(rows[i], many[i].n - many[i].pos);
                rows[i] = hymt_min(rows[i], ROWS - n);
                at = i == 17 ? n : at;
                n += rows[i];
            }

            j = many[17].pos;

            if (step(&hymt_backend_cpu, b, many, rows, SLOTS, all, tokens)
                != HYMT_OK)
            {
                ok(false, "%s: step %u: %s", isa, turn, err.text);
                break;
            }

            memcpy(got + (size_t) j * vocab, all + (size_t) at * vocab,
                   sizeof(float) * rows[17] * vocab);

            if (many[17].pos == SHORT && rows[17] != 0) {
                for (i = 0, chunk = 0; i < 17; i++) {
                    chunk += rows[i] != 0;
                }

                is_int(tokens[chunk], token,
                       "%s: among 31 others, %u threads: same token", isa,
                       threads);
            }

            turn++;
        }

        ok(memcmp(got, want, sizeof(float) * width) == 0,
           "%s: among 31 others, %u threads: same bits", isa, threads);

        hymt_backend_cpu.destroy(b);
    }

    unsetenv("HYMT_CPU_ISA");
    hymt_model_close(model);
    fixture_remove(dir);
    free(want);
    free(got);
    free(all);
    free(many);
}


/*
 * Two sequences that find the first blocks of a third one, in one step with its
 * next token: all as if each had computed its own.
 */
static void
test_shared_blocks(const hymt_backend_ops_t *ops)
{
    char             dir[FIXTURE_PATH];
    float           *want, *got;
    seq_t           *s;
    uint32_t         i, vocab, token, rows[3], tokens[3];
    size_t           row;
    hymt_model_t    *model;
    hymt_backend_t  *b;

    static const fixture_shape_t  shape = { .layers = 2 };

    model = test_model(dir, &shape);
    vocab = model->config.vocab;
    row = vocab * sizeof(float);
    want = malloc(SHORT * row);
    got = malloc(ROWS * row);
    s = malloc(sizeof(seq_t) * 3);

    b = test_backend(ops, model, 2, NULL);

    test_seq(&s[0], 0, SHORT, 99, vocab);
    token = prompt(ops, b, &s[0], SHORT, vocab, want);
    ops->destroy(b);

    /* the first has a token more; the others end where it ended */

    b = test_backend(ops, model, 2, NULL);

    test_seq(&s[0], 0, SHORT - 1, 99, vocab);
    (void) prompt(ops, b, &s[0], SHORT - 1, vocab, got);
    s[0].n = SHORT;

    for (i = 1; i < 3; i++) {
        test_seq(&s[i], i, SHORT, 99, vocab);
        memcpy(s[i].blocks, s[0].blocks, i * sizeof(uint32_t));
        s[i].pos = i * HYMT_KV_BLOCK;
        seq_begin(ops, b, &s[i], false);
        rows[i] = SHORT - s[i].pos;
    }

    rows[0] = 1;
    memset(got, 0xff, ROWS * row);
    is_int(step(ops, b, s, rows, 3, got, tokens), HYMT_OK,
           "%s: a step of three that share blocks", ops->name);

    ok(memcmp(got, want + (size_t) (SHORT - 1) * vocab, row) == 0,
       "%s: who has computed them: same bits", ops->name);
    ok(memcmp(got + vocab, want + (size_t) HYMT_KV_BLOCK * vocab,
              rows[1] * row) == 0,
       "%s: who has found one: same bits", ops->name);
    ok(memcmp(got + (size_t) (1 + rows[1]) * vocab,
              want + (size_t) 2 * HYMT_KV_BLOCK * vocab, rows[2] * row) == 0,
       "%s: who has found two: same bits", ops->name);
    is_int(tokens[1], token, "%s: same token", ops->name);
    is_int(tokens[2], token, "%s: same token", ops->name);

    ops->destroy(b);
    hymt_model_close(model);
    fixture_remove(dir);
    free(want);
    free(got);
    free(s);
}


/* A row without tokens continues with what was sampled in its slot. */
static void
test_last_token(const hymt_backend_ops_t *ops)
{
    char              dir[FIXTURE_PATH];
    seq_t             s;
    uint32_t          i, first, token, want[8], vocab;
    hymt_batch_t      batch;
    hymt_model_t     *model;
    hymt_backend_t   *b;
    fixture_shape_t   shape = { .hidden = 64 };
    hymt_batch_seq_t  seq;

    model = test_model(dir, &shape);
    vocab = model->config.vocab;
    b = test_backend(ops, model, 2, NULL);
    test_seq(&s, 1, 20, 3, vocab);

    for (first = 0; first < 2; first++) {
        seq_begin(ops, b, &s, false);

        for (i = 0; i < 8; i++) {
            memset(&seq, 0, sizeof(seq));
            seq.slot = s.slot;
            seq.n_rows = i == 0 ? s.n : 1;
            seq.pos = i == 0 ? 0 : s.n + i - 1;
            seq.blocks = s.blocks;
            seq.sample = true;
            seq.n_out = i;
            seq.tokens = i == 0 ? s.tokens : first ? NULL : &want[i - 1];

            batch.seqs = &seq;
            batch.n_seqs = 1;
            batch.n_rows = seq.n_rows;
            batch.logits = NULL;

            if (ops->launch(b, &batch, &err) != HYMT_OK
                || ops->collect(b, &token, &err) != HYMT_OK)
            {
                ok(false, "%s: %s", ops->name, err.text);
                break;
            }

            if (first) {
                is_int(token, want[i], "%s: token %u the same without being"
                       " told the one before", ops->name, i);
            } else {
                want[i] = token;
            }
        }
    }

    ops->destroy(b);
    hymt_model_close(model);
    fixture_remove(dir);
}


static void
test_giving_up(const hymt_backend_ops_t *ops)
{
    char              dir[FIXTURE_PATH];
    seq_t             s[2];
    volatile int      stop, canceled[2];
    uint32_t          i, tokens[2], want, vocab;
    hymt_batch_t      batch;
    hymt_model_t     *model;
    hymt_backend_t   *b;
    fixture_shape_t   shape = { .hidden = 64 };
    hymt_batch_seq_t  seqs[2];

    stop = 0;
    model = test_model(dir, &shape);
    vocab = model->config.vocab;
    b = test_backend(ops, model, 2, &stop);

    memset(seqs, 0, sizeof(seqs));

    for (i = 0; i < 2; i++) {
        test_seq(&s[i], i, 20, i, vocab);
        seq_begin(ops, b, &s[i], false);

        canceled[i] = 0;
        seqs[i].slot = i;
        seqs[i].n_rows = 20;
        seqs[i].tokens = s[i].tokens;
        seqs[i].blocks = s[i].blocks;
        seqs[i].sample = i == 1;
        seqs[i].canceled = &canceled[i];
    }

    batch.seqs = seqs;
    batch.n_seqs = 2;
    batch.n_rows = 40;
    batch.logits = NULL;

    canceled[0] = 1;
    is_int(ops->launch(b, &batch, &err), HYMT_OK, "%s: one canceled",
           ops->name);
    is_int(ops->collect(b, tokens, &err), HYMT_OK, "the other goes on");
    is_int(tokens[0], HYMT_TOKEN_NONE, "nothing where none was asked for");
    ok(tokens[1] < vocab, "a token where it was");
    want = tokens[1];

    canceled[1] = 1;
    is_int(ops->launch(b, &batch, &err), HYMT_OK, "%s: all canceled",
           ops->name);
    is_int(ops->collect(b, tokens, &err), HYMT_ABORTED, "the step ends early");

    canceled[1] = 0;
    stop = 1;
    is_int(ops->launch(b, &batch, &err), HYMT_OK, "%s: stop", ops->name);
    is_int(ops->collect(b, tokens, &err), HYMT_ABORTED, "the step ends early");

    stop = 0;
    seq_begin(ops, b, &s[1], false);
    ops->launch(b, &batch, &err);
    is_int(ops->collect(b, tokens, &err), HYMT_OK, "%s lives on", ops->name);
    is_int(tokens[1], want, "and gives the same token");

    is_int(ops->collect(b, tokens, &err), HYMT_ERROR, "nothing in flight");
    has_str(err.text, "in flight", "and says so");

    seqs[1].slot = SLOTS;
    is_int(ops->launch(b, &batch, &err), HYMT_ERROR, "a slot out of range");
    seqs[1].slot = 1;
    s[1].tokens[3] = vocab;
    is_int(ops->launch(b, &batch, &err), HYMT_ERROR, "a token out of range");
    s[1].tokens[3] = 0;
    s[1].blocks[0] = BLOCKS;
    is_int(ops->launch(b, &batch, &err), HYMT_ERROR, "a block out of range");

    ops->destroy(b);

    stop = 1;

    hymt_backend_params_t  p = {
        .threads = 1, .max_batch = 2, .max_rows = 16, .context = 64,
        .n_blocks = 8, .stop = &stop
    };

    is_int(ops->create(&p, model, &b, &err), HYMT_ABORTED,
           "%s: stop while loading", ops->name);

    p.stop = NULL;
    p.context = model->config.max_position + 1;
    is_int(ops->create(&p, model, &b, &err), HYMT_ERROR,
           "%s: more context than the model has", ops->name);
    has_str(err.text, "max_position_embeddings", "and says so");

    hymt_model_close(model);
    fixture_remove(dir);
}


static void
test_not_finite(const hymt_backend_ops_t *ops)
{
    int               fd;
    char              dir[FIXTURE_PATH];
    seq_t             s;
    uint16_t          nan;
    uint32_t          rows, token;
    hymt_model_t     *model;
    hymt_backend_t   *b;
    fixture_shape_t   shape = { .hidden = 64 };

    model = test_model(dir, &shape);

    nan = 0x7fc0;
    fd = open(model->layers[1].down->file, O_WRONLY);

    if (fd == -1
        || pwrite(fd, &nan, 2, (off_t) model->layers[1].down->offset) != 2)
    {
        fixture_die("can't break", model->layers[1].down->file);
    }

    close(fd);
    hymt_model_close(model);

    if (hymt_model_open(dir, &model, &err) != HYMT_OK) {
        fixture_die("can't open", dir);
    }

    b = test_backend(ops, model, 1, NULL);

    rows = 10;
    test_seq(&s, 0, 10, 3, model->config.vocab);
    seq_begin(ops, b, &s, false);

    is_int(step(ops, b, &s, &rows, 1, NULL, &token), HYMT_ERROR,
           "%s: a weight that is not a number", ops->name);
    has_str(err.text, "not finite", "and says so");

    ops->destroy(b);
    hymt_model_close(model);
    fixture_remove(dir);
}


static void
test_memory(void)
{
    char                   dir[FIXTURE_PATH];
    uint64_t               weights, kv, other, want;
    hymt_model_t          *model;
    hymt_backend_t        *b;
    fixture_shape_t        shape = { .hidden = 64 };
    hymt_backend_params_t  p;

    model = test_model(dir, &shape);
    b = test_backend(&hymt_backend_cpu, model, 1, NULL);

    hymt_backend_cpu.memory(b, &weights, &kv, &other);

    want = model->n_params * 2;
    ok(weights >= want && weights < want * 2, "memory: weights, %" PRIu64
       " bytes for %" PRIu64 " in the file", weights, want);
    is_int(kv, (uint64_t) 2 * 4 * 2 * 2 * 16 * 16 * BLOCKS, "memory: KV");
    ok(other > 0, "memory: the rest, %" PRIu64, other);

    hymt_backend_cpu.destroy(b);

    memset(&p, 0, sizeof(p));
    p.threads = 1;
    p.max_batch = 4;
    p.max_rows = 16;
    p.context = 64;
    p.n_blocks = UINT32_MAX;

    is_int(hymt_backend_cpu.create(&p, model, &b, &err), HYMT_AGAIN,
           "more KV than there is memory free");
    has_str(err.text, "MB for the KV cache of 4294967295 blocks",
            "says what for and how much");
    has_str(err.text, "a smaller max_batch", "and what helps");

    hymt_model_close(model);
    fixture_remove(dir);
}


static hymt_status_t
all_free(void *data, uint64_t *bytes, hymt_error_t *e)
{
    (void) data;
    (void) e;

    *bytes = UINT64_MAX;

    return HYMT_OK;
}


/* What another engine that loads was let to is not there for this one. */
static void
test_turns(void)
{
    char                    dir[FIXTURE_PATH];
    uint64_t                free_bytes, held, weights, kv, more;
    hymt_claim_t            claim, other;
    hymt_model_t           *model;
    hymt_error_t            err;
    hymt_backend_t         *b;
    hymt_backend_params_t   p;

    static hymt_claims_t  claims;

    fixture_shape_t  shape = { .heads = 4, .kv_heads = 2 };

    model = test_model(dir, &shape);
    hymt_claim_init(&claim, &claims, 1);
    hymt_claim_init(&other, &claims, 1);

    memset(&p, 0, sizeof(p));
    p.threads = 1;
    p.max_batch = 2;
    p.max_rows = 16;
    p.context = 32;
    p.n_blocks = 4;
    p.claim = &claim;

    is_int(hymt_claim_ask(&other, HYMT_CLAIM_HOST, UINT64_C(1) << 62, all_free,
                          NULL, &free_bytes, &held, &err),
           HYMT_OK, "another engine loads, of any size");
    is_int(hymt_backend_cpu.create(&p, model, &b, &err), HYMT_AGAIN,
           "so there is no memory");
    has_str(err.text, "of them for engines that load", "for that reason");
    ok(claim.busy, "which passes");

    hymt_claim_drop(&other);
    is_int(hymt_backend_cpu.create(&p, model, &b, &err), HYMT_OK,
           "when it does there is");

    hymt_backend_cpu.memory(b, &weights, &kv, &more);
    ok(claim.own < HYMT_CLAIMS
       && claims.entry[claim.own].bytes >= weights + kv
       && claims.entry[claim.own].bytes <= weights + kv + more,
       "this one's is held, too, until its caller lets go");

    hymt_claim_drop(&claim);
    hymt_backend_cpu.destroy(b);
    hymt_model_close(model);
    fixture_remove(dir);
}


int
main(void)
{
    fixture_shape_t  a = { .heads = 4, .kv_heads = 1, .head_dim = 128,
                           .hidden = 272, .ffn = 176 };
    fixture_shape_t  b = { .heads = 3, .kv_heads = 3, .dtype = "F32",
                           .layers = 1, .head_dim = 24 };

    test_against_ref();
    test_far();

    test_invariance("scalar", &b);

#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        test_invariance("avx2", &a);
    }

    if (__builtin_cpu_supports("avx512dq")) {
        test_invariance("avx512", &a);
    }
#endif

    test_shared_blocks(&hymt_backend_cpu);
    test_shared_blocks(&hymt_backend_ref);
    test_last_token(&hymt_backend_cpu);
    test_last_token(&hymt_backend_ref);
    test_giving_up(&hymt_backend_cpu);
    test_giving_up(&hymt_backend_ref);
    test_not_finite(&hymt_backend_cpu);
    test_not_finite(&hymt_backend_ref);
    test_memory();
    test_turns();

    return tap_done();
}
