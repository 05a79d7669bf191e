/*
 * backend_test.c - the whole CUDA backend on a GPU: logits against the backend
 * in double precision, equal bits whatever runs beside a sequence and however
 * its rows are cut into steps, the sampler's tokens against the CPU's from the
 * same logits, steps that overlap, refusals and injected errors.
 *
 * backend_test lost: the loss of the device alone, in a process of its own.
 * backend_test full: a device that is full when it is opened, the same; hog is
 * what fills it.
 * backend_test small: two layers, few steps and no cublasLt, for
 * compute-sanitizer.
 */

#include "backend_fixture.h"
#include "sampler.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>


#define DEMO    "models/demo"
#define SHORT   75            /* tokens of a test's prompt ... */
#define TINY    21            /* ... where all is slow */

/* bf16 has 8 bits: what a row of narrow layers makes of that */
#define NEAR    0.05


static const hymt_backend_ops_t  *cuda;
static bool                       small;


static hymt_model_t *
model_open(const char *dir)
{
    hymt_model_t  *model;

    if (hymt_model_open(dir, &model, &err) != HYMT_OK) {
        die(dir);
    }

    return model;
}


/* Logits of a whole prompt, by `ops`, in chunks. */
static uint32_t
prompt_logits(const hymt_backend_ops_t *ops, const hymt_model_t *model,
    uint32_t n, uint32_t chunk, uint64_t seed, float *logits)
{
    seq_t            s;
    uint32_t         token;
    hymt_backend_t  *b;

    b = backend_open(ops, model, NULL);

    pool_reset();
    seq_make(&s, 3, n, 0, seed, model->config.vocab);
    token = prompt(ops, b, &s, chunk, model->config.vocab, logits);

    ops->destroy(b);

    return token;
}


static void
against_ref(const hymt_model_t *model, const char *what, uint32_t n)
{
    float     *got, *want;
    size_t     size;
    uint32_t   vocab;

    vocab = model->config.vocab;
    size = (size_t) n * vocab * sizeof(float);
    got = malloc(size);
    want = malloc(size);
    memset(got, 0xff, size);

    prompt_logits(&hymt_backend_ref, model, n, n, 11, want);
    prompt_logits(cuda, model, n, 33, 11, got);

    is_near(worst_row(got, want, n, vocab), 0, NEAR,
            "%s: logits of %u positions, the farthest row", what, n);
    printf("# %s: ||difference|| / ||reference|| %.5f\n", what,
           distance(got, want, (size_t) n * vocab));

    free(got);
    free(want);
}


static void
test_shapes(void)
{
    char           dir[FIXTURE_PATH], what[64];
    uint32_t       i;
    hymt_model_t  *model;

    static const fixture_shape_t  shapes[] = {
        { .heads = 4, .kv_heads = 1, .head_dim = 128, .hidden = 128,
          .ffn = 320 },
        { .heads = 3, .kv_heads = 3, .head_dim = 128, .hidden = 192,
          .ffn = 64, .dtype = "F16", .vocab = 301, .untied = true },
        { .heads = 4, .kv_heads = 2, .head_dim = 128, .hidden = 64,
          .ffn = 1088, .dtype = "F32", .no_qk_norm = true, .layers = 3 },
        { .heads = 8, .kv_heads = 1, .head_dim = 128, .hidden = 512,
          .ffn = 768, .shards = 3, .untied = true, .layers = 1 },
    };

    for (i = 0; i < hymt_nelts(shapes); i++) {
        fixture_dir(dir);
        fixture_model(dir, &shapes[i], 42);
        model = model_open(dir);

        snprintf(what, sizeof(what), "group %u, hidden %u",
                 shapes[i].heads / shapes[i].kv_heads, shapes[i].hidden);
        against_ref(model, what, SHORT);

        hymt_model_close(model);
        fixture_remove(dir);
    }
}


/*
 * Bits of one sequence's logits, and its token: whole, in chunks, by graphs or
 * kernel by kernel, in another slot and other blocks, twice.
 */
static void
test_chunks(const hymt_model_t *model, uint32_t n)
{
    float           *got, *want;
    seq_t            s;
    size_t           size;
    uint32_t         i, graphs, token, vocab;
    hymt_backend_t  *b;

    static const uint32_t  chunks[] = { CONTEXT, CONTEXT, 1, 7, 16, 33, 64,
                                        200 };

    vocab = model->config.vocab;
    size = (size_t) n * vocab * sizeof(float);
    want = malloc(size);
    got = malloc(size);
    token = prompt_logits(cuda, model, n, max_rows, 99, want);
    ok(token < vocab, "%u tokens: token %u", n, token);

    for (graphs = 0; graphs < 2; graphs++) {
        setenv("HYMT_CUDA_GRAPHS", graphs ? "on" : "off", 1);
        b = backend_open(cuda, model, NULL);

        for (i = 0; i < hymt_nelts(chunks); i++) {

            /* position by position takes long where the prompt is */

            if ((chunks[i] == 1 && n > SHORT && !graphs)
                || (small && chunks[i] != 7))
            {
                continue;
            }

            pool_reset();
            seq_make(&s, i * 31 % max_slots, n, 0, 99, vocab);
            memset(got, 0xff, size);

            is_int(prompt(cuda, b, &s, hymt_min(chunks[i], max_rows), vocab,
                          got),
                   token, "%u tokens in chunks of %u, graphs %s: same token",
                   n, chunks[i], graphs ? "on" : "off");
            ok(memcmp(got, want, size) == 0,
               "%u tokens in chunks of %u, graphs %s: same bits", n,
               chunks[i], graphs ? "on" : "off");
        }

        cuda->destroy(b);
    }

    unsetenv("HYMT_CUDA_GRAPHS");
    free(got);
    free(want);
}


/*
 * The same sequence among `others` of all lengths, mixed into steps in ever
 * other proportions, prompts first and tokens after.
 */
static void
test_among(const hymt_model_t *model, uint32_t others)
{
    float             *want, *got, *all;
    seq_t             *many;
    size_t             size;
    uint32_t           i, n, at, turn, vocab, mine, token, left, drawn, len;
    static uint32_t    rows[SLOTS], tokens[SLOTS];
    hymt_backend_t    *b;

    len = small ? TINY : SHORT;
    vocab = model->config.vocab;
    size = (size_t) len * vocab * sizeof(float);
    want = malloc(size);
    got = malloc(size);
    all = malloc((size_t) ROWS * vocab * sizeof(float));
    many = calloc(others + 1, sizeof(seq_t));

    token = prompt_logits(cuda, model, len, max_rows, 99, want);

    b = backend_open(cuda, model, NULL);
    pool_reset();
    mine = others / 3;
    drawn = HYMT_TOKEN_NONE;
    memset(got, 0xff, size);

    for (i = 0; i <= others; i++) {
        seq_make(&many[i], others - i, i == mine ? len : 1 + i * 3 % 113, 40,
                 i == mine ? 99 : 1000 + i, vocab);
        seq_begin(cuda, b, &many[i], false);
    }

    for (turn = 0; many[mine].pos < len; turn++) {
        for (i = 0, n = 0, at = 0; i <= others; i++) {
            rows[i] = (turn + i) % 3 ? 1 + (turn * 7 + i * 5) % 13 : 0;

            /* a prompt that is done goes on with its tokens, one a step */

            left = many[i].pos < many[i].n ? many[i].n - many[i].pos
                   : many[i].pos < many[i].n + 40 && i != mine;
            rows[i] = hymt_min(rows[i], left);
            rows[i] = hymt_min(rows[i], max_rows - n);

            at = i == mine ? n : at;
            n += rows[i];
        }

        if (n == 0) {
            continue;
        }

        i = many[mine].pos;

        if (step(cuda, b, many, rows, others + 1, all, tokens) != HYMT_OK) {
            die("step");
        }

        memcpy(got + (size_t) i * vocab, all + (size_t) at * vocab,
               (size_t) rows[mine] * vocab * sizeof(float));

        for (i = 0, n = 0; i < mine; i++) {
            n += rows[i] > 0;
        }

        drawn = tokens[n];
    }

    is_int(drawn, token, "among %u others: same token", others);
    ok(memcmp(got, want, size) == 0, "among %u others: same bits", others);

    cuda->destroy(b);
    free(many);
    free(all);
    free(got);
    free(want);
}


/*
 * Outputs of 64 sequences, step by step, each told the token it goes on with;
 * then of 1, 64 and 256 at once whose tokens the device has, with two steps in
 * flight: the first of them must have the tokens they had.
 */
static void
test_overlap(const hymt_model_t *model)
{
    seq_t                    *many;
    uint32_t                  i, j, k, n, vocab, launched, collected, differ;
    hymt_batch_t              batch;
    hymt_backend_t           *b;
    static uint32_t           out[4][SLOTS][40], tokens[SLOTS];
    static hymt_batch_seq_t   list[SLOTS];

    static const uint32_t  sizes[] = { 64, 1, 64, 256 };

    vocab = model->config.vocab;
    many = calloc(SLOTS, sizeof(seq_t));
    b = backend_open(cuda, model, NULL);

    for (k = 0; k < hymt_nelts(sizes); k++) {
        n = sizes[k];
        pool_reset();

        for (i = 0; i < n; i++) {
            seq_make(&many[i], (i * 37 + k) % SLOTS, 5 + i % 40, 40, 3000 + i,
                     vocab);
            seq_begin(cuda, b, &many[i], i % 2);
        }

        memset(&batch, 0, sizeof(batch));
        batch.seqs = list;
        batch.n_seqs = n;
        launched = 0;
        collected = 0;

        while (collected < 40) {
            memset(list, 0, sizeof(list));
            batch.n_rows = 0;

            for (i = 0; i < n; i++) {
                list[i].slot = many[i].slot;
                list[i].n_rows = launched == 0 ? many[i].n : 1;
                list[i].pos = launched == 0 ? 0 : many[i].n + launched - 1;
                list[i].tokens = launched == 0 ? many[i].tokens
                                 : k == 0 ? &out[0][i][launched - 1] : NULL;
                list[i].blocks = many[i].blocks;
                list[i].sample = true;
                list[i].n_out = launched;
                batch.n_rows += list[i].n_rows;
            }

            /* a first step may be too large: its prompts come one by one */

            if (launched == 0) {
                for (i = 0; i < n; i++) {
                    batch.seqs = &list[i];
                    batch.n_seqs = 1;
                    batch.n_rows = list[i].n_rows;

                    if (cuda->launch(b, &batch, &err) != HYMT_OK
                        || cuda->collect(b, &out[k][i][0], &err) != HYMT_OK)
                    {
                        die("prompt");
                    }
                }

                batch.seqs = list;
                batch.n_seqs = n;
                launched = 1;
                collected = 1;
                continue;
            }

            if (launched < 40) {
                if (cuda->launch(b, &batch, &err) != HYMT_OK) {
                    die("launch");
                }

                launched++;
            }

            if (launched - collected == (k == 0 ? 1 : 2) || launched == 40) {
                if (cuda->collect(b, tokens, &err) != HYMT_OK) {
                    die("collect");
                }

                for (i = 0; i < n; i++) {
                    out[k][i][collected] = tokens[i];
                }

                collected++;
            }
        }

        for (i = 0, differ = 0; i < hymt_min(n, sizes[0]); i++) {
            for (j = 0; j < 40 && out[k][i][j] == out[0][i][j]
                        && out[k][i][j] < vocab; j++)
            {
                /* void */
            }

            differ += j < 40;
        }

        is_int(differ, 0, "%u at once, %s", n, k == 0
               ? "one step in flight: tokens"
               : "two steps in flight: same tokens");
    }

    cuda->destroy(b);
    free(many);
}


/*
 * In steps of all kinds, with graphs and without, each sequence that asks for a
 * token has the greatest of its own last row's logits, which are computed for
 * all rows apart from the step.
 */
static void
test_wanted(const hymt_model_t *model, uint32_t n)
{
    seq_t            *many;
    float            *all, *row;
    uint32_t          i, j, k, turn, graphs, vocab, best, at, wrong, drawn;
    static uint32_t   rows[SLOTS], tokens[SLOTS];
    hymt_backend_t   *b;

    vocab = model->config.vocab;
    all = malloc((size_t) ROWS * vocab * sizeof(float));
    many = calloc(n, sizeof(seq_t));

    for (graphs = 0; graphs < 2; graphs++) {
        setenv("HYMT_CUDA_GRAPHS", graphs ? "on" : "off", 1);
        b = backend_open(cuda, model, NULL);
        pool_reset();
        wrong = 0;
        drawn = 0;

        for (i = 0; i < n; i++) {
            seq_make(&many[i], n - 1 - i, 1 + random_below(small ? 40 : 150),
                     20, 7000 + i, vocab);
            seq_begin(cuda, b, &many[i], true);
        }

        for (turn = 0; turn < 24; turn++) {
            at = 0;

            for (i = 0; i < n; i++) {
                j = many[i].pos < many[i].n ? many[i].n - many[i].pos
                    : many[i].pos < many[i].n + 20;

                /* all, or chunks alone, or what has come to its end alone */

                rows[i] = turn % 4 == 3 || random_below(3) == 0 ? 0
                          : 1 + random_below(turn % 2 ? 200 : 9);

                if (turn % 8 == 3) {
                    rows[i] = j > 2 ? 2 : 0;

                } else if (turn % 8 == 7) {
                    rows[i] = many[i].pos >= many[i].n;
                }

                rows[i] = hymt_min(hymt_min(rows[i], j), max_rows - at);
                at += rows[i];
            }

            if (at == 0) {
                continue;
            }

            if (step(cuda, b, many, rows, n, all, tokens) != HYMT_OK) {
                die("step");
            }

            for (i = 0, j = 0, at = 0; i < n; i++) {
                if (rows[i] == 0) {
                    continue;
                }

                at += rows[i];
                row = all + (size_t) (at - 1) * vocab;

                for (k = 1, best = 0; k < vocab; k++) {
                    best = row[k] > row[best] ? k : best;
                }

                if (many[i].pos < many[i].n) {
                    best = HYMT_TOKEN_NONE;
                }

                drawn += best != HYMT_TOKEN_NONE;
                wrong += tokens[j++] != best;
            }
        }

        ok(drawn > 0, "%u sequences, graphs %s: %u tokens", n,
           graphs ? "on" : "off", drawn);
        is_int(wrong, 0, "each its own row's greatest logit");

        cuda->destroy(b);
    }

    unsetenv("HYMT_CUDA_GRAPHS");
    free(many);
    free(all);
}


/* Drawn tokens are what the CPU's sampler draws from the same logits. */
static void
test_sampler(const hymt_model_t *model)
{
    float            *logits;
    seq_t             s;
    double           *scratch;
    uint32_t          i, j, rows, vocab, want, got, wrong;
    uint64_t         *seen;
    hymt_backend_t   *b;
    hymt_sampling_t   sampling;

    vocab = model->config.vocab;
    logits = malloc((size_t) SHORT * vocab * sizeof(float));
    scratch = malloc(vocab * sizeof(double));
    seen = malloc((hymt_seen_words(vocab)) * sizeof(uint64_t));
    b = backend_open(cuda, model, NULL);

    for (i = 0, wrong = 0; i < 60; i++) {
        memset(&sampling, 0, sizeof(sampling));
        sampling.temperature = i % 4 ? 0.5f + 0.1f * (float) (i % 7) : 0;
        sampling.top_k = i % 5 ? 7 * i : 0;
        sampling.top_p = i % 3 ? 0.3f + 0.1f * (float) (i % 8) : 1;
        sampling.repetition_penalty = i % 2 ? 1 + 0.1f * (float) (i % 9) : 1;
        sampling.seed = random_state + i;
        sampling.index = i % 3;

        pool_reset();
        seq_make(&s, i, 1 + i, 0, 500 + i, vocab);
        cuda->slot_begin(b, s.slot, &sampling, s.tokens, s.n);
        rows = s.n;

        if (step(cuda, b, &s, &rows, 1, logits, &got) != HYMT_OK) {
            die("step");
        }

        memset(seen, 0, hymt_seen_words(vocab) * sizeof(uint64_t));

        for (j = 0; j < s.n; j++) {
            hymt_seen_add(seen, s.tokens[j]);
        }

        want = hymt_sample(&sampling, seen, 0,
                           logits + (size_t) (s.n - 1) * vocab, vocab,
                           scratch);
        wrong += got != want;
    }

    is_int(wrong, 0, "60 settings: the CPU sampler's tokens");

    cuda->destroy(b);
    free(seen);
    free(scratch);
    free(logits);
}


static void
test_refusals(const hymt_model_t *model)
{
    seq_t                   s;
    volatile int            stop;
    uint32_t                rows, token;
    uint64_t                bytes;
    hymt_backend_t         *b;
    hymt_backend_params_t   p;

    memset(&p, 0, sizeof(p));
    p.max_batch = SLOTS;
    p.max_rows = ROWS;
    p.context = CONTEXT;
    p.n_blocks = BLOCKS;

    is_int(cuda->device_memory(0, &bytes, &err), HYMT_OK, "device 0");
    ok(bytes > UINT64_C(1) << 30, "has %.1f GB", (double) bytes / 1e9);
    is_int(cuda->device_memory(99, &bytes, &err), HYMT_ERROR, "device 99");
    has_str(err.text, "device 99: there", "is not there");

    p.n_blocks = 100 * 1000 * 1000;
    is_int(cuda->create(&p, model, &b, &err), HYMT_ERROR, "too much KV");
    has_str(err.text, "are free: lower kv_tokens", "says what is free");
    p.n_blocks = BLOCKS;

    setenv("HYMT_CUDA_FAULT", "alloc", 1);
    is_int(cuda->create(&p, model, &b, &err), HYMT_AGAIN, "no memory is left");
    has_str(err.text, "not enough memory on device 0", "says so");

    setenv("HYMT_CUDA_FAULT", "taken", 1);
    is_int(cuda->create(&p, model, &b, &err), HYMT_AGAIN,
           "what fitted is gone when it is taken");
    has_str(err.text, "no device memory for", "says so");

    stop = 1;
    p.stop = &stop;
    unsetenv("HYMT_CUDA_FAULT");
    is_int(cuda->create(&p, model, &b, &err), HYMT_ABORTED, "stopped loading");

    stop = 0;
    b = backend_open(cuda, model, &stop);
    pool_reset();
    rows = 20;

    seq_make(&s, 0, 40, 0, 1, model->config.vocab);
    s.pos = CONTEXT - 5;
    is_int(step(cuda, b, &s, &rows, 1, NULL, &token), HYMT_ERROR,
           "past the context: refused");
    has_str(err.text, "out of range", "and says so");

    s.pos = 0;
    s.tokens[3] = model->config.vocab;
    is_int(step(cuda, b, &s, &rows, 1, NULL, &token), HYMT_ERROR,
           "a token that is none: refused");
    s.tokens[3] = 1;

    s.pos = 0;
    stop = 1;
    is_int(step(cuda, b, &s, &rows, 1, NULL, &token), HYMT_ABORTED,
           "stopped: aborted");
    stop = 0;
    s.pos = 0;
    is_int(step(cuda, b, &s, &rows, 1, NULL, &token), HYMT_OK,
           "and goes on after it");
    is_int(token, HYMT_TOKEN_NONE, "nothing was sampled");
    cuda->destroy(b);

    setenv("HYMT_CUDA_FAULT", "launch:2", 1);
    b = backend_open(cuda, model, NULL);
    s.pos = 0;
    is_int(step(cuda, b, &s, &rows, 1, NULL, &token), HYMT_OK, "step 1");
    is_int(step(cuda, b, &s, &rows, 1, NULL, &token), HYMT_ERROR,
           "step 2 can't be launched");
    has_str(err.text, "launch of step 2 failed", "and says so");
    s.pos = 0;
    is_int(step(cuda, b, &s, &rows, 1, NULL, &token), HYMT_ERROR,
           "unusable from there on");
    cuda->destroy(b);

    setenv("HYMT_CUDA_FAULT", "collect:1", 1);
    b = backend_open(cuda, model, NULL);
    s.pos = 0;
    is_int(step(cuda, b, &s, &rows, 1, NULL, &token), HYMT_ERROR,
           "step 1 fails");
    has_str(err.text, "step 1 failed", "and says so");
    cuda->destroy(b);
    unsetenv("HYMT_CUDA_FAULT");
}


/* Steps of prompts, of decode rows and of both, by graphs and one by one. */
static int
test_small(void)
{
    char           dir[FIXTURE_PATH];
    hymt_model_t  *model;

    static const fixture_shape_t  shape = {
        .heads = 4, .kv_heads = 1, .head_dim = 128, .hidden = 256, .ffn = 640,
        .vocab = 1000,
    };

    small = true;
    max_slots = 8;
    max_rows = 32;
    setenv("HYMT_CUDA_LT", "off", 1);

    fixture_dir(dir);
    fixture_model(dir, &shape, 42);
    model = model_open(dir);

    against_ref(model, "two layers", TINY);
    test_chunks(model, TINY);
    test_among(model, 5);
    test_wanted(model, 4);

    hymt_model_close(model);
    fixture_remove(dir);

    return tap_done();
}


/* In a process of its own: after a loss no call of CUDA works any more. */
static int
lost(void)
{
    seq_t            s;
    uint32_t         rows, token;
    hymt_model_t    *model;
    hymt_status_t    rc;
    hymt_backend_t  *b;

    setenv("HYMT_CUDA_FAULT", "lost:2", 1);

    model = model_open(DEMO);
    b = backend_open(cuda, model, NULL);
    pool_reset();
    seq_make(&s, 0, 40, 0, 1, model->config.vocab);

    rows = 20;

    if (step(cuda, b, &s, &rows, 1, NULL, &token) != HYMT_OK) {
        return 3;
    }

    rc = step(cuda, b, &s, &rows, 1, NULL, &token);
    printf("# %s\n", rc == HYMT_ERROR ? err.text : "no error");

    cuda->destroy(b);
    hymt_model_close(model);

    return rc == HYMT_ERROR ? 0 : 4;
}


static void
test_lost(const char *program)
{
    int   status;
    char  command[1024];

    snprintf(command, sizeof(command), "%s lost", program);
    status = system(command);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
       "a lost device: an error, and nothing ends the process");
}


/* Takes all of device 0, down to the last MB, until its input ends. */
static int
hog(void)
{
    int      context;
    char     c;
    void    *driver, *ctx;
    size_t   size, left, total;

    int (*init)(unsigned);
    int (*retain)(void **, int);
    int (*set)(void *);
    int (*info)(size_t *, size_t *);
    int (*take)(unsigned long long *, size_t);

    unsigned long long  p;

    driver = dlopen("libcuda.so.1", RTLD_NOW);

    if (driver == NULL) {
        return 3;
    }

    *(void **) &init = dlsym(driver, "cuInit");
    *(void **) &retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **) &set = dlsym(driver, "cuCtxSetCurrent");
    *(void **) &info = dlsym(driver, "cuMemGetInfo_v2");
    *(void **) &take = dlsym(driver, "cuMemAlloc_v2");

    context = init(0);
    context = context == 0 ? retain(&ctx, 0) : context;
    context = context == 0 ? set(ctx) : context;
    context = context == 0 ? info(&left, &total) : context;

    if (context != 0) {
        return 4;
    }

    for (size = left; size >= 1 << 20; /* void */) {
        if (take(&p, size) != 0) {
            size /= 2;
        }
    }

    (void) info(&left, &total);
    printf("%zu MB of %zu MB are left\n", left >> 20, total >> 20);
    fflush(stdout);

    return read(0, &c, 1) == 0 ? 0 : 5;
}


/*
 * A device without room for a context, then with it: the one process that was
 * told to come again can open it.
 */
static int
full(const char *program)
{
    int            fds[2];
    char           command[1024], line[256];
    FILE          *f;
    uint64_t       bytes;
    hymt_status_t  rc, later;

    if (pipe(fds) == -1) {
        return 3;
    }

    snprintf(command, sizeof(command), "exec %s hog <&%d %d>&-", program,
             fds[0], fds[1]);

    f = popen(command, "r");

    if (f == NULL || fgets(line, sizeof(line), f) == NULL) {
        return 4;
    }

    printf("# full: %s", line);

    rc = cuda->device_memory(0, &bytes, &err);
    printf("# %s\n", rc != HYMT_OK ? err.text : "no error");

    close(fds[0]);
    close(fds[1]);

    if (pclose(f) != 0) {
        return 5;
    }

    later = cuda->device_memory(0, &bytes, &err);
    printf("# %s\n", later != HYMT_OK ? err.text : "no error");

    return rc == HYMT_AGAIN
           && strstr(err.text, "not enough memory on device 0") != NULL
           && later == HYMT_OK ? 0 : 6;
}


static void
test_full(const char *program)
{
    int   status;
    char  command[1024];

    snprintf(command, sizeof(command), "%s full", program);
    status = system(command);
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
       "a device that is full can be opened later");
}


int
main(int argc, char **argv)
{
    hymt_model_t  *demo;

    random_state = (uint64_t) time(NULL);

    if (argc > 2) {
        random_state = strtoull(argv[2], NULL, 10);
    }

    if (argc > 1 && strcmp(argv[1], "hog") == 0) {
        return hog();
    }

    cuda = cuda_ops(argv[0]);

    if (argc > 1 && strcmp(argv[1], "lost") == 0) {
        return lost();
    }

    if (argc > 1 && strcmp(argv[1], "full") == 0) {
        return full(argv[0]);
    }

    printf("# seed %" PRIu64 "\n", random_state);

    if (argc > 1 && strcmp(argv[1], "small") == 0) {
        return test_small();
    }

    demo = model_open(DEMO);

    against_ref(demo, "demo model", SHORT);
    test_shapes();
    test_sampler(demo);
    test_chunks(demo, SHORT);
    test_chunks(demo, 1100);
    test_among(demo, 63);
    test_among(demo, 255);
    test_wanted(demo, 5);
    test_wanted(demo, 150);
    test_overlap(demo);
    test_refusals(demo);
    test_lost(argv[0]);
    test_full(argv[0]);

    hymt_model_close(demo);

    return tap_done();
}
