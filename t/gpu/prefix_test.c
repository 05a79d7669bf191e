/*
 * prefix_test.c - on a GPU, what is not computed again: sequences that share
 * blocks have the bits of those that computed their own; an engine with its
 * caches on gives the tokens of one without.
 */

#include "backend_fixture.h"
#include "engine.h"

#include <poll.h>
#include <sys/eventfd.h>


#define DEMO      "models/demo"
#define PROMPT    150
#define N_SEQS    96
#define TURNS     20
#define MAX_NEW   24


typedef struct {
    hymt_seq_t  s;             /* first: poll() gives these */
    uint32_t    prompt[PROMPT];
    uint32_t    out[MAX_NEW];
} run_t;


static const hymt_backend_ops_t  *cuda;
static int                        news_fd;


/*
 * Readers that find 1 to 8 blocks of a sequence, in one step with its next
 * token: every row against the prompt computed whole.
 */
static void
test_blocks(const hymt_model_t *model)
{
    float            *want, *got, *at;
    seq_t            *s;
    size_t            row;
    uint32_t          i, same, vocab, token, rows[9], tokens[9];
    hymt_backend_t   *b;

    vocab = model->config.vocab;
    row = vocab * sizeof(float);
    want = malloc(PROMPT * row);
    got = malloc(ROWS * row);
    s = calloc(9, sizeof(seq_t));

    b = backend_open(cuda, model, NULL);
    pool_reset();
    seq_make(&s[0], 0, PROMPT, 0, 5, vocab);
    token = prompt(cuda, b, &s[0], PROMPT, vocab, want);
    cuda->destroy(b);

    b = backend_open(cuda, model, NULL);
    pool_reset();
    seq_make(&s[0], 0, PROMPT - 1, 1, 5, vocab);
    (void) prompt(cuda, b, &s[0], 33, vocab, got);
    s[0].n = PROMPT;
    rows[0] = 1;

    for (i = 1; i < 9; i++) {
        seq_make(&s[i], i * 7, PROMPT, 0, 5, vocab);
        memcpy(s[i].blocks, s[0].blocks, i * sizeof(uint32_t));
        s[i].pos = i * HYMT_KV_BLOCK;
        seq_begin(cuda, b, &s[i], false);
        rows[i] = PROMPT - s[i].pos;
    }

    memset(got, 0xff, ROWS * row);
    is_int(step(cuda, b, s, rows, 9, got, tokens), HYMT_OK,
           "a step of nine that share blocks");

    for (i = 0, at = got, same = 0; i < 9; i++) {
        same += memcmp(at, want + (size_t) (PROMPT - rows[i]) * vocab,
                       rows[i] * row) == 0
                && (i == 0 || tokens[i] == token);
        at += (size_t) rows[i] * vocab;
    }

    is_int(same, 9, "all have the bits and tokens of one that shares none");

    cuda->destroy(b);
    free(want);
    free(got);
    free(s);
}


static hymt_engine_t *
engine_open(bool caches)
{
    hymt_engine_t         *engine;
    hymt_engine_params_t   p;

    memset(&p, 0, sizeof(p));
    p.model = DEMO;
    p.backend = "cuda";
    p.max_batch = 64;
    p.context = 512;
    p.kv_tokens = 8192;
    p.max_seqs = N_SEQS;
    p.prefix_cache = caches;
    p.coalesce = caches;
    p.news_fd = news_fd;

    if (hymt_engine_start(&p, &engine, &err) != HYMT_OK) {
        die("engine");
    }

    while (atomic_load(&hymt_engine_stats(engine)->state)
           == HYMT_ENGINE_LOADING)
    {
        poll(NULL, 0, 10);
    }

    is_int(atomic_load(&hymt_engine_stats(engine)->state), HYMT_ENGINE_READY,
           "an engine: %s", hymt_engine_reason(engine));

    return engine;
}


/* Until n have ended; false after ten seconds without news. */
static bool
engine_wait(hymt_engine_t *engine, uint32_t n)
{
    uint64_t       count;
    hymt_seq_t    *s;
    struct pollfd  fd = { .fd = news_fd, .events = POLLIN };

    while (n > 0) {
        s = hymt_engine_poll(engine);

        if (s != NULL) {
            n -= atomic_load(&s->finish) != HYMT_FINISH_NONE;
            continue;
        }

        if (!hymt_engine_arm(engine)
            && (poll(&fd, 1, 10000) != 1
                || read(news_fd, &count, sizeof(count)) == -1))
        {
            return false;
        }
    }

    return true;
}


/* Prompts of four beginnings, some of them equal to the last token. */
static void
runs_make(run_t *runs, uint32_t vocab)
{
    uint32_t  i, j, alike;

    memset(runs, 0, N_SEQS * sizeof(run_t));

    for (i = 0; i < N_SEQS; i++) {
        runs[i].s.n_prompt = 60 + random_below(PROMPT - 60);
        alike = i % 3 == 0 ? PROMPT : 20 + random_below(100);

        if (i % 3 == 0) {
            runs[i].s.n_prompt = 140;
        }

        for (j = 0; j < PROMPT; j++) {
            runs[i].prompt[j] = j < alike ? (i % 4 * 977 + j * 31) % vocab
                                          : random_below(vocab);
        }

        runs[i].s.max_new = MAX_NEW;
        runs[i].s.sampling.temperature = i % 2 ? 0.9f : 0;
        runs[i].s.sampling.top_p = 0.95f;
        runs[i].s.sampling.repetition_penalty = 1.05f;
        runs[i].s.sampling.seed = i % 8;
    }
}


static void
test_engine(uint32_t vocab)
{
    run_t          *alone, *again;
    uint32_t        i, j, turn, same;
    hymt_engine_t  *engine;

    alone = calloc(N_SEQS, sizeof(run_t));
    again = calloc(N_SEQS, sizeof(run_t));
    runs_make(alone, vocab);
    engine = engine_open(false);

    for (i = 0; i < N_SEQS; i++) {
        alone[i].s.prompt = alone[i].prompt;
        alone[i].s.out = alone[i].out;

        if (hymt_engine_submit(engine, &alone[i].s, &err) != HYMT_OK
            || !engine_wait(engine, 1))
        {
            die("one by one");
        }
    }

    hymt_engine_stop(engine);
    engine = engine_open(true);

    for (turn = 0, same = 0; turn < TURNS; turn++) {

        for (j = 0; j < N_SEQS; j++) {
            i = (j * 29 + turn * 13) % N_SEQS;
            again[i] = alone[i];
            again[i].s.prompt = again[i].prompt;
            again[i].s.out = again[i].out;
            memset(again[i].out, 0xff, sizeof(again[i].out));

            if (hymt_engine_submit(engine, &again[i].s, &err) != HYMT_OK) {
                die("together");
            }

            if (random_below(16) == 0) {
                hymt_engine_cancel(engine, &again[i].s);
            }
        }

        if (!engine_wait(engine, N_SEQS)) {
            hymt_fail(&err, "no news for ten seconds");
            die("together");
        }

        for (i = 0; i < N_SEQS; i++) {
            j = atomic_load(&again[i].s.n_out);
            same += memcmp(again[i].out, alone[i].out, 4 * j) == 0
                    && (again[i].s.canceled
                        || j == atomic_load(&alone[i].s.n_out));
        }
    }

    is_int(same, N_SEQS * TURNS, "the same tokens, alone and without caches,"
           " or together and with them");
    ok(atomic_load(&hymt_engine_stats(engine)->prefix_tokens) > 10000,
       "%u prompt tokens were found",
       (uint32_t) atomic_load(&hymt_engine_stats(engine)->prefix_tokens));
    ok(atomic_load(&hymt_engine_stats(engine)->coalesced) > 0,
       "%u sequences followed others",
       (uint32_t) atomic_load(&hymt_engine_stats(engine)->coalesced));
    is_int(atomic_load(&hymt_engine_stats(engine)->kv_blocks_used), 0,
           "no block is held");

    hymt_engine_stop(engine);
    free(alone);
    free(again);
}


int
main(int argc, char **argv)
{
    uint32_t       vocab;
    hymt_model_t  *model;

    (void) argc;

    random_state = hymt_now_ns();
    printf("# seed %llu\n", (unsigned long long) random_state);

    cuda = cuda_ops(argv[0]);
    news_fd = eventfd(0, EFD_CLOEXEC);

    if (hymt_model_open(DEMO, &model, &err) != HYMT_OK) {
        die(DEMO);
    }

    vocab = model->config.vocab;
    test_blocks(model);
    hymt_model_close(model);

    test_engine(vocab);

    close(news_fd);

    return tap_done();
}
