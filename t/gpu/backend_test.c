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
 * compute-sanitizer; backend_test prompts: the same, of many prompt rows.
 */

#include "invariance.h"
#include "sampler.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>


#define DEMO    "models/demo"

/* bf16 has 8 bits: what a row of narrow layers makes of that */
#define NEAR    0.05


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


/*
 * Steps of prompts, of decode rows and of both, by graphs and one by one; or of
 * prompts with so many rows that they go another way (hymt_cuda_is_large()).
 */
static int
test_small(bool prompts)
{
    char           dir[FIXTURE_PATH];
    hymt_model_t  *model;

    static const fixture_shape_t  shape = {
        .heads = 4, .kv_heads = 1, .head_dim = 128, .hidden = 256, .ffn = 640,
        .vocab = 1000,
    };

    small = true;

    if (!prompts) {
        max_slots = 8;
        max_rows = 32;
    }

    setenv("HYMT_CUDA_LT", "off", 1);

    fixture_dir(dir);
    fixture_model(dir, &shape, 42);
    model = model_open(dir);

    if (prompts) {
        test_prompts(model);

    } else {
        against_ref(model, "two layers", TINY);
        test_chunks(model, TINY);
        test_among(model, 5);
        test_wanted(model, 4);
    }

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
        return test_small(false);
    }

    if (argc > 1 && strcmp(argv[1], "prompts") == 0) {
        return test_small(true);
    }

    demo = model_open(DEMO);

    against_ref(demo, "demo model", SHORT);
    test_shapes();
    test_sampler(demo);
    test_chunks(demo, SHORT);
    test_chunks(demo, 1100);
    test_prompts(demo);
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
