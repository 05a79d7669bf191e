/*
 * greedy_test.c - 500 held-out sentences through the engine, greedily, on the
 * CUDA backend and on the CPU's: few translations differ, and each first where
 * the CPU's logits of the two tokens are as good as equal: within three bf16
 * units in the last place, one for the rounding of the two logits, which are
 * bf16 on the CUDA backend, and one for what all before them does to each.
 *
 * 300 sentences of models/demo/golden into the language they are there with,
 * and the first 200 of them into another one.
 *
 * greedy_test texts FILE: writes what the CPU's translations are, without a
 * GPU, for tools/hf-greedy.py.
 * greedy_test FILE: also compares what that has made of it: transformers in
 * bf16 leaves the CPU's translations as often as we do, and as far.
 */

#include "backend_fixture.h"
#include "engine.h"
#include "prompt.h"

#include <poll.h>
#include <sys/eventfd.h>


#define DEMO    "models/demo"
#define GREEDY  DEMO "/golden/greedy.tsv"

#define TEXTS   500
#define PROMPT  224
#define CAP     160
#define MOST    12            /* per cent that may differ */
#define TIE     3.0           /* bf16 ulps */


typedef struct {
    hymt_seq_t  s;            /* first: poll() gives these */
    uint32_t    prompt[PROMPT];
    uint32_t    out[CAP];
} text_t;


/* Translations that are others than the CPU's. */
typedef struct {
    uint32_t    texts;
    uint32_t    over_one;     /* of them, more than one bf16 ulp apart */
    double      sum;          /* of ulps */
    double      most;
} apart_t;


static text_t             texts[2][TEXTS];
static uint32_t           n_texts;
static hymt_tokenizer_t  *tok;
static hymt_encoder_t    *enc;
static hymt_prompter_t   *prompter;


static void
add_text(int src, int tgt, const char *source)
{
    size_t                 n, n_text;
    uint32_t               i;
    text_t                *t;
    hymt_prompt_request_t  r;

    memset(&r, 0, sizeof(r));
    r.src = src;
    r.tgt = tgt;
    r.text = source;
    r.len = strlen(source);

    for (i = 0; i < 2; i++) {
        t = &texts[i][n_texts];

        if (hymt_prompt_build(prompter, enc, &r, t->prompt, PROMPT, &n,
                              &n_text, &err) != HYMT_OK)
        {
            die(source);
        }

        t->s.prompt = t->prompt;
        t->s.n_prompt = (uint32_t) n;
        t->s.max_new = CAP;
        t->s.out = t->out;
        t->s.sampling.top_p = 1;
        t->s.sampling.repetition_penalty = 1;
        t->s.stop = hymt_prompter_stops(prompter, &t->s.n_stop);
    }

    n_texts++;
}


/* The language after `tgt` that is not `src`. */
static int
other_language(int src, int tgt)
{
    uint32_t  i, j;
    int       lang[5];

    static const char *const  names[] = { "en", "zh", "fr", "de", "es" };

    for (i = 0, j = 0; i < hymt_nelts(names); i++) {
        lang[i] = hymt_lang_find(names[i], strlen(names[i]));
        j = lang[i] == tgt ? i + 1 : j;
    }

    j %= hymt_nelts(names);

    return lang[j] == src ? lang[(j + 1) % hymt_nelts(names)] : lang[j];
}


/* The file's first columns are the languages and the source. */
static void
read_texts(void)
{
    FILE                  *f;
    bool                   guessed, more;
    char                  *line, *rest, *source;
    size_t                 cap;
    int                    src, tgt;
    hymt_config_t          config;
    hymt_prompt_params_t   p;

    memset(&p, 0, sizeof(p));

    if (hymt_config_read(DEMO, &config, &err) != HYMT_OK
        || hymt_tokenizer_load(DEMO, &tok, &err) != HYMT_OK
        || hymt_encoder_create(tok, &enc, &err) != HYMT_OK
        || hymt_prompt_detect(DEMO, &config, &p, &guessed, &err) != HYMT_OK
        || hymt_prompter_create(tok, &config, &p, &prompter, &err) != HYMT_OK)
    {
        die(DEMO);
    }

    line = NULL;
    cap = 0;

    for (more = false; n_texts < TEXTS; more = true) {
        f = fopen(GREEDY, "r");

        if (f == NULL || getline(&line, &cap, f) == -1
            || strncmp(line, "src_lang\ttgt_lang\tsource\t", 25) != 0)
        {
            hymt_fail(&err, "not there, or other columns");
            die(GREEDY);
        }

        while (n_texts < TEXTS && getline(&line, &cap, f) != -1) {
            rest = line;
            source = strsep(&rest, "\t");
            src = hymt_lang_find(source, strlen(source));
            source = strsep(&rest, "\t");
            tgt = hymt_lang_find(source, strlen(source));
            source = strsep(&rest, "\t");

            add_text(src, more ? other_language(src, tgt) : tgt, source);
        }

        fclose(f);
    }

    free(line);
}


/* All texts at once; how long it took. */
static double
translate(const char *backend, text_t *list)
{
    uint32_t               i, done;
    uint64_t               count, start;
    hymt_seq_t            *s;
    hymt_engine_t         *engine;
    struct pollfd          fd;
    hymt_engine_params_t   p;

    memset(&p, 0, sizeof(p));
    p.model = DEMO;
    p.backend = backend;
    p.max_batch = 64;
    p.context = 512;
    p.max_seqs = TEXTS;
    p.news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (hymt_engine_start(&p, &engine, &err) != HYMT_OK) {
        die(backend);
    }

    fd.fd = p.news_fd;
    fd.events = POLLIN;

    while (hymt_engine_config(engine) == NULL) {
        if (!hymt_engine_arm(engine)) {
            (void) poll(&fd, 1, 100);
        }

        if (atomic_load(&hymt_engine_stats(engine)->state)
            == HYMT_ENGINE_FAILED)
        {
            hymt_fail(&err, "%s", hymt_engine_reason(engine));
            die(backend);
        }
    }

    printf("# %s\n", hymt_engine_reason(engine));
    start = hymt_now_ns();

    for (i = 0; i < n_texts; i++) {
        if (hymt_engine_submit(engine, &list[i].s, &err) != HYMT_OK) {
            die("submit");
        }
    }

    for (done = 0; done < n_texts; /* void */) {
        s = hymt_engine_poll(engine);

        if (s != NULL) {
            done += atomic_load(&s->finish) != HYMT_FINISH_NONE;

        } else if (!hymt_engine_arm(engine)) {
            (void) poll(&fd, 1, 1000);

            if (read(p.news_fd, &count, sizeof(count)) == -1) {
                count = 0;
            }
        }
    }

    start = hymt_now_ns() - start;
    hymt_engine_stop(engine);
    close(p.news_fd);

    return (double) start / 1e9;
}


static bool
ends(const text_t *t, uint32_t token)
{
    uint32_t  i;

    for (i = 0; i < t->s.n_stop; i++) {
        if (t->s.stop[i] == token) {
            return true;
        }
    }

    return false;
}


/* Token `at` of the output, HYMT_TOKEN_NONE for its end. */
static uint32_t
token_of(const text_t *t, uint32_t at)
{
    return at < t->s.n_out ? t->out[at] : HYMT_TOKEN_NONE;
}


/* The first place where they differ; CAP: none. */
static uint32_t
first_difference(const text_t *a, const text_t *b)
{
    uint32_t  i;

    for (i = 0; i < hymt_max(a->s.n_out, b->s.n_out); i++) {
        if (token_of(a, i) != token_of(b, i)) {
            return i;
        }
    }

    return CAP;
}


/* Of a token, or of the best that ends. */
static double
logit_of(const text_t *t, const float *row, uint32_t token)
{
    float     best;
    uint32_t  i;

    if (token != HYMT_TOKEN_NONE) {
        return (double) row[token];
    }

    best = -INFINITY;

    for (i = 0; i < t->s.n_stop; i++) {
        best = hymt_max(best, row[t->s.stop[i]]);
    }

    return (double) best;
}


/* What the CPU's token is ahead of the other one, in bf16 ulps of its logit. */
static double
margin(const hymt_model_t *model, const text_t *t, uint32_t at, uint32_t other)
{
    float           *logits, *row;
    seq_t            s;
    double           best, ulps;
    uint32_t         rows, token;
    hymt_backend_t  *b;

    b = backend_open(&hymt_backend_cpu, model, NULL);
    pool_reset();
    seq_make(&s, 0, t->s.n_prompt + at, 0, 1, model->config.vocab);
    memcpy(s.tokens, t->prompt, t->s.n_prompt * sizeof(uint32_t));
    memcpy(s.tokens + t->s.n_prompt, t->out, at * sizeof(uint32_t));

    rows = s.n;
    logits = malloc((size_t) rows * model->config.vocab * sizeof(float));

    if (step(&hymt_backend_cpu, b, &s, &rows, 1, logits, &token) != HYMT_OK) {
        die("step");
    }

    row = logits + (size_t) (rows - 1) * model->config.vocab;
    best = logit_of(t, row, token_of(t, at));
    ulps = (best - logit_of(t, row, other)) / ldexp(1, ilogb(best) - 7);

    free(logits);
    hymt_backend_cpu.destroy(b);

    return ulps;
}


/* Against the CPU's, of which the first differences are told. */
static apart_t
compare(const hymt_model_t *model, const text_t *list)
{
    double    ulps;
    apart_t   d;
    uint32_t  i, at;

    memset(&d, 0, sizeof(d));

    for (i = 0; i < n_texts; i++) {
        at = first_difference(&texts[0][i], &list[i]);

        if (at == CAP) {
            continue;
        }

        ulps = margin(model, &texts[0][i], at, token_of(&list[i], at));

        d.texts++;
        d.over_one += ulps > 1;
        d.sum += ulps;
        d.most = hymt_max(d.most, ulps);
    }

    printf("# %u of %u differ, first where the CPU's two tokens are %.2f bf16"
           " ulps apart in the mean, %.2f at most, more than one %u times\n",
           d.texts, n_texts, d.texts ? d.sum / d.texts : 0, d.most,
           d.over_one);

    return d;
}


/* Of two counts of rare things: no more than chance makes of one number, three
   deviations. */
static bool
within_chance(uint32_t ours, uint32_t other)
{
    double  more;

    more = (double) ours - other;

    return more <= 3 * sqrt((double) ours + other);
}


/* A line a text: its prompt, the output, and what ends one; by tabs. */
static int
write_texts(const char *path)
{
    FILE      *f;
    text_t    *t;
    uint32_t   i, j;

    f = fopen(path, "w");

    for (i = 0; f != NULL && i < n_texts; i++) {
        t = &texts[0][i];

        for (j = 0; j < t->s.n_prompt; j++) {
            fprintf(f, "%s%" PRIu32, j ? " " : "", t->prompt[j]);
        }

        fputc('\t', f);

        for (j = 0; j < t->s.n_out; j++) {
            fprintf(f, "%s%" PRIu32, j ? " " : "", t->out[j]);
        }

        fputc('\t', f);

        for (j = 0; j < t->s.n_stop; j++) {
            fprintf(f, "%s%" PRIu32, j ? " " : "", t->s.stop[j]);
        }

        fprintf(f, "\n");
    }

    if (f == NULL || fclose(f) != 0) {
        hymt_fail(&err, "not written");
        die(path);
    }

    return 0;
}


/* Another program's tokens, a line a text, up to an end or a difference. */
static void
read_tokens(const char *path, text_t *list)
{
    FILE      *f;
    char      *line, *rest, *word;
    size_t     cap;
    text_t    *t;
    uint32_t   i, token;

    line = NULL;
    cap = 0;
    f = fopen(path, "r");

    for (i = 0; i < n_texts; i++) {
        if (f == NULL || getline(&line, &cap, f) == -1) {
            hymt_fail(&err, "not there, or too few lines");
            die(path);
        }

        t = &list[i];
        t->s.n_out = 0;
        rest = line;

        while ((word = strsep(&rest, " \n")) != NULL && t->s.n_out < CAP) {
            token = (uint32_t) strtoul(word, NULL, 10);

            if (*word == '\0' || ends(t, token)) {
                break;
            }

            t->out[t->s.n_out++] = token;
        }
    }

    free(line);
    fclose(f);
}


int
main(int argc, char **argv)
{
    double         seconds[2];
    apart_t        ours, other;
    hymt_model_t  *model;

    (void) cuda_ops(argv[0]);

    read_texts();
    seconds[0] = translate("cpu", texts[0]);

    if (argc > 2 && strcmp(argv[1], "texts") == 0) {
        return write_texts(argv[2]);
    }

    if (hymt_model_open(DEMO, &model, &err) != HYMT_OK) {
        die(DEMO);
    }

    seconds[1] = translate("cuda", texts[1]);
    printf("# cpu %.2f s, cuda %.2f s\n", seconds[0], seconds[1]);

    ours = compare(model, texts[1]);

    ok(ours.texts * 100 <= n_texts * MOST, "%u of %u translations differ from"
       " the CPU's: %.1f %%, at most %d %%", ours.texts, n_texts,
       100.0 * ours.texts / n_texts, MOST);
    ok(ours.most <= TIE, "where they first differ the CPU's two tokens are at"
       " most %.2f bf16 ulps apart, at most %.0f", ours.most, TIE);

    if (argc > 1) {
        read_tokens(argv[1], texts[1]);
        other = compare(model, texts[1]);

        ok(within_chance(ours.texts, other.texts),
           "%u differ, of transformers' in bf16 %u", ours.texts, other.texts);
        ok(within_chance(ours.over_one, other.over_one),
           "%u by more than one ulp, of transformers' %u", ours.over_one,
           other.over_one);
    }

    hymt_model_close(model);

    return tap_done();
}
