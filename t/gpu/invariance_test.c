/*
 * invariance_test.c - what backend_test shows of the built-in model and small
 * ones, of layers in the shapes of the 1.8B and the 7B, whose products are
 * those of the GEMM table: a sequence's bits are its own, alone and among 63
 * and 255 others, whole and in chunks, by graphs and kernel by kernel.  Of all
 * of them: the same bits in another process.  Of the built-in one: a context to
 * its last position.  And a thread that sleeps while the device works.
 *
 * The head is a small one, so that logits of all rows fit; gemm_test has the
 * real ones.
 *
 * invariance_test bits DIR: a hash of a prompt's logits.
 */

#define CONTEXT  8192

#include "invariance.h"

#include <time.h>


#define DEMO   "models/demo"
#define LONG   600           /* tokens of a prompt of two chunks */
#define STEPS  40
#define NEAR   0.05


/* FNV-1a, 64 bits. */
static uint64_t
hash(const float *data, size_t n)
{
    size_t          i;
    uint64_t        h;
    const uint8_t  *p;

    p = (const uint8_t *) data;

    for (i = 0, h = UINT64_C(0xcbf29ce484222325); i < n * sizeof(float); i++) {
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    }

    return h;
}


static uint64_t
prompt_hash(const hymt_model_t *model, uint64_t seed)
{
    size_t     n;
    float     *logits;
    uint64_t   h;

    n = (size_t) LONG * model->config.vocab;
    logits = malloc(n * sizeof(float));
    memset(logits, 0xff, n * sizeof(float));

    if (prompt_logits(cuda, model, LONG, 512, seed, logits)
        == HYMT_TOKEN_NONE)
    {
        die("prompt");
    }

    h = hash(logits, n);
    free(logits);

    return h;
}


static void
test_restart(const hymt_model_t *model, const char *program, const char *dir)
{
    char      command[1024], got[32], want[32];
    FILE     *f;
    uint64_t  h;

    h = prompt_hash(model, 99);
    ok(h != prompt_hash(model, 98), "another prompt has other bits");

    snprintf(want, sizeof(want), "%016" PRIx64 "\n", h);
    snprintf(command, sizeof(command), "%s bits %s", program, dir);
    f = popen(command, "r");

    if (f == NULL || fgets(got, sizeof(got), f) == NULL) {
        got[0] = '\0';
    }

    is_str(got, want, "in another process: the same bits");

    if (f != NULL) {
        pclose(f);
    }
}


static uint64_t
clock_ns(clockid_t clock)
{
    struct timespec  t;

    clock_gettime(clock, &t);

    return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}


/* Long prompts and a large layer: most of a step is the device's. */
static void
test_waiting(const hymt_model_t *model)
{
    seq_t            s;
    uint32_t         i, rows, token;
    uint64_t         cpu, wall;
    hymt_backend_t  *b;

    b = backend_open(cuda, model, NULL);
    pool_reset();
    seq_make(&s, 0, max_rows, 0, 5, model->config.vocab);
    seq_begin(cuda, b, &s, true);

    for (i = 0, cpu = 0, wall = 0; i <= STEPS; i++) {

        /* the first one is not counted */

        if (i == 1) {
            cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
            wall = clock_ns(CLOCK_MONOTONIC);
        }

        s.pos = 0;
        rows = s.n;

        if (step(cuda, b, &s, &rows, 1, NULL, &token) != HYMT_OK) {
            die("step");
        }
    }

    cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    wall = clock_ns(CLOCK_MONOTONIC) - wall;

    ok(cpu * 4 < wall * 3, "%u steps of %.2f ms take the thread %.2f ms each",
       STEPS, (double) wall / STEPS / 1e6, (double) cpu / STEPS / 1e6);

    cuda->destroy(b);
}


/*
 * A prompt that leaves one position of the context, and a row that decodes
 * there; its logits.  The token that the prompt gives.
 */
static uint32_t
context_logits(const hymt_backend_ops_t *ops, const hymt_model_t *model,
    uint32_t chunk, float *logits, bool *ends)
{
    static seq_t     s;
    uint32_t         rows, token, drawn;
    hymt_backend_t  *b;

    b = backend_open(ops, model, NULL);
    pool_reset();
    seq_make(&s, 5, CONTEXT - 1, 1, 4242, model->config.vocab);
    seq_begin(ops, b, &s, true);

    for (drawn = HYMT_TOKEN_NONE; s.pos < s.n; /* void */) {
        rows = hymt_min(chunk, s.n - s.pos);

        if (step(ops, b, &s, &rows, 1, NULL, &drawn) != HYMT_OK) {
            die("a long prompt");
        }
    }

    rows = 1;

    if (step(ops, b, &s, &rows, 1, logits, &token) != HYMT_OK) {
        die("the last position");
    }

    *ends = step(ops, b, &s, &rows, 1, NULL, &token) == HYMT_ERROR;
    ops->destroy(b);

    return drawn;
}


static void
test_context(const hymt_model_t *model)
{
    bool      ends;
    float    *want, *got;
    size_t    size;
    uint32_t  i, token, vocab;

    static const uint32_t  chunks[] = { 1000, 333, 64 };

    vocab = model->config.vocab;
    size = vocab * sizeof(float);
    want = malloc(size);
    got = malloc(size);

    token = context_logits(cuda, model, max_rows, want, &ends);
    ok(token < vocab, "after %u tokens: token %u", CONTEXT - 1, token);
    ok(ends, "behind the context's last position: refused");

    for (i = 0; i < hymt_nelts(chunks); i++) {
        memset(got, 0xff, size);
        is_int(context_logits(cuda, model, chunks[i], got, &ends), token,
               "in chunks of %u: the same token", chunks[i]);
        ok(memcmp(got, want, size) == 0,
           "in chunks of %u: the same bits at the last position", chunks[i]);
    }

    (void) context_logits(&hymt_backend_cpu, model, max_rows, got, &ends);
    is_near(distance(want, got, vocab), 0, NEAR,
            "as the CPU's, in fp32, at the last position");

    free(got);
    free(want);
}


static void
test_shape(const fixture_shape_t *shape, const char *name,
    const char *program, bool wait)
{
    char           dir[FIXTURE_PATH];
    hymt_model_t  *model;

    printf("# %s\n", name);

    fixture_dir(dir);
    fixture_model(dir, shape, 42);
    model = model_open(dir);

    test_chunks(model, SHORT);
    test_chunks(model, LONG);
    test_prompts(model);
    test_among(model, 63);
    test_among(model, 255);
    test_wanted(model, 150);
    test_overlap(model);
    test_restart(model, program, dir);

    if (wait) {
        test_waiting(model);
    }

    hymt_model_close(model);
    fixture_remove(dir);
}


int
main(int argc, char **argv)
{
    hymt_model_t  *model;

    static const fixture_shape_t  small_one = {
        .layers = 2, .heads = 16, .kv_heads = 4, .head_dim = 128,
        .hidden = 2048, .ffn = 6144, .vocab = 4000, .max_position = 2048,
    };

    static const fixture_shape_t  large_one = {
        .layers = 1, .heads = 32, .kv_heads = 8, .head_dim = 128,
        .hidden = 4096, .ffn = 14336, .vocab = 4000, .max_position = 2048,
    };

    random_state = (uint64_t) time(NULL);
    cuda = cuda_ops(argv[0]);

    if (argc > 2 && strcmp(argv[1], "bits") == 0) {
        model = model_open(argv[2]);
        printf("%016" PRIx64 "\n", prompt_hash(model, 99));
        hymt_model_close(model);

        return 0;
    }

    if (argc > 1) {
        random_state = strtoull(argv[1], NULL, 10);
    }

    printf("# seed %" PRIu64 "\n", random_state);

    model = model_open(DEMO);
    test_context(model);
    test_restart(model, argv[0], DEMO);
    hymt_model_close(model);

    test_shape(&small_one, "layers of the 1.8B", argv[0], false);
    test_shape(&large_one, "a layer of the 7B", argv[0], true);

    return tap_done();
}
