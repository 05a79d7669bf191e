/*
 * golden_test.c - the demo model against what transformers computes from the
 * same weights in fp32 (models/demo/golden, made by tools/demo-model/golden.py
 * which documents the file): prompts, greedy outputs and their text.  Then the
 * promise that one request's output has the same tokens whatever runs beside
 * it, on however many threads, and after everything was opened anew.
 */

#include "engine.h"
#include "golden.h"
#include "prompt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>


#define GREEDY  GOLDEN_MODEL "/golden/greedy.tsv"

#define PROMPT  192     /* more tokens than any prompt of the file has */
#define CAP     160     /* of output, golden.py's */
#define CROWD   32


typedef enum {
    COL_SRC = 0,
    COL_TGT,
    COL_SOURCE,
    COL_OUTPUT,
    COL_OUTPUT_IDS,
    COL_PROMPT_IDS,
    N_COLS,
} column_t;


/* A line of greedy.tsv; the texts lie in the file's memory. */
typedef struct {
    int          src;
    int          tgt;
    const char  *source;
    const char  *output;
    uint32_t     out[CAP];
    uint32_t     n_out;
    uint32_t     prompt[PROMPT];
    uint32_t     n_prompt;
} row_t;


/* Everything between a text and its translation but the host's threads. */
typedef struct {
    hymt_tokenizer_t  *tok;
    hymt_encoder_t    *enc;
    hymt_prompter_t   *prompter;
    hymt_config_t      config;
    hymt_engine_t     *engine;     /* NULL: texts only */
} side_t;


typedef struct {
    hymt_seq_t  s;                 /* first: poll() gives these */
    uint32_t    prompt[PROMPT];
    uint32_t    out[CAP];
} seq_t;


static const char *const  columns[N_COLS] = {
    "src_lang", "tgt_lang", "source", "output", "output_ids", "prompt_ids",
};

static row_t     *rows;
static uint32_t   n_rows;
static char      *file;        /* what the rows' texts lie in */
static int        news_fd;


static uint32_t
read_ids(const char *text, uint32_t *ids, uint32_t cap)
{
    char      *end;
    uint32_t   n;

    for (n = 0; *text != '\0'; text = end + (*end == ' '), n++) {
        if (n == cap) {
            hymt_fail(&err, "more than %u ids: \"%.40s\"", cap, text);
            golden_die(GREEDY);
        }

        ids[n] = (uint32_t) strtoul(text, &end, 10);
    }

    return n;
}


/* Cuts a line at its tabs; how many fields there are, at most N_COLS. */
static uint32_t
read_fields(char *line, char *fields[N_COLS])
{
    uint32_t  n;

    for (n = 0; line != NULL && n < N_COLS; n++) {
        fields[n] = strsep(&line, "\t");
    }

    return n;
}


static void
read_rows(void)
{
    int        place[N_COLS];
    char      *data, *line, *fields[N_COLS];
    size_t     len;
    uint32_t   i, j, n;
    row_t     *row;

    file = golden_read(GREEDY, &len);
    data = file;

    for (i = 0, n = 0; i < len; i++) {
        n += data[i] == '\n';
    }

    rows = calloc(n, sizeof(row_t));
    n = read_fields(strsep(&data, "\n"), fields);

    for (i = 0; i < N_COLS; i++) {
        for (j = 0; j < n && strcmp(fields[j], columns[i]); j++) { /* void */ }

        if (j == n) {
            hymt_fail(&err, "no column \"%s\"", columns[i]);
            golden_die(GREEDY);
        }

        place[i] = (int) j;
    }

    while ((line = strsep(&data, "\n")) != NULL && *line != '\0') {
        if (read_fields(line, fields) != N_COLS) {
            hymt_fail(&err, "line %u has too few columns", n_rows + 2);
            golden_die(GREEDY);
        }

        row = &rows[n_rows++];
        row->src = hymt_lang_find(fields[place[COL_SRC]],
                                  strlen(fields[place[COL_SRC]]));
        row->tgt = hymt_lang_find(fields[place[COL_TGT]],
                                  strlen(fields[place[COL_TGT]]));
        row->source = fields[place[COL_SOURCE]];
        row->output = fields[place[COL_OUTPUT]];
        row->n_out = read_ids(fields[place[COL_OUTPUT_IDS]], row->out, CAP);
        row->n_prompt = read_ids(fields[place[COL_PROMPT_IDS]], row->prompt,
                                 PROMPT);
    }
}


/* Opens the texts' half; with threads, an engine too. */
static void
side_open(side_t *side, uint32_t threads, uint32_t max_batch)
{
    bool                   guessed;
    struct pollfd          fd;
    hymt_engine_params_t   p;
    hymt_prompt_params_t   pp;

    memset(side, 0, sizeof(side_t));
    memset(&pp, 0, sizeof(pp));

    if (hymt_config_read(GOLDEN_MODEL, &side->config, &err) != HYMT_OK
        || hymt_tokenizer_load(GOLDEN_MODEL, &side->tok, &err) != HYMT_OK
        || hymt_encoder_create(side->tok, &side->enc, &err) != HYMT_OK
        || hymt_prompt_detect(GOLDEN_MODEL, &side->config, &pp, &guessed, &err)
           != HYMT_OK
        || hymt_prompter_create(side->tok, &side->config, &pp, &side->prompter,
                                &err) != HYMT_OK)
    {
        golden_die(GOLDEN_MODEL);
    }

    if (threads == 0) {
        return;
    }

    memset(&p, 0, sizeof(p));
    p.model = GOLDEN_MODEL;
    p.backend = "cpu";
    p.threads = threads;
    p.max_batch = max_batch;
    p.context = GOLDEN_CONTEXT;
    p.max_seqs = n_rows;
    p.news_fd = news_fd;

    /* a sanitizer's steps are slow: sized by time, they would hold few rows */

    p.step_ms = 5000;

    if (hymt_engine_start(&p, &side->engine, &err) != HYMT_OK) {
        golden_die("engine");
    }

    fd.fd = news_fd;
    fd.events = POLLIN;

    while (hymt_engine_config(side->engine) == NULL) {
        if (!hymt_engine_arm(side->engine)) {
            (void) poll(&fd, 1, 100);
        }

        if (atomic_load(&hymt_engine_stats(side->engine)->state)
            == HYMT_ENGINE_FAILED)
        {
            hymt_fail(&err, "%s", hymt_engine_reason(side->engine));
            golden_die("engine");
        }
    }
}


static void
side_close(side_t *side)
{
    hymt_engine_stop(side->engine);
    hymt_prompter_free(side->prompter);
    hymt_encoder_free(side->enc);
    hymt_tokenizer_free(side->tok);
}


static uint32_t
side_prompt(side_t *side, const row_t *row, uint32_t ids[PROMPT])
{
    size_t                 n, n_text;
    hymt_prompt_request_t  r;

    memset(&r, 0, sizeof(r));
    r.src = row->src;
    r.tgt = row->tgt;
    r.text = row->source;
    r.len = strlen(row->source);

    if (hymt_prompt_build(side->prompter, side->enc, &r, ids, PROMPT, &n,
                          &n_text, &err) != HYMT_OK)
    {
        golden_die(row->source);
    }

    return (uint32_t) n;
}


/* A sequence as the host makes it of a row. */
static void
side_fill(side_t *side, const row_t *row, seq_t *seq)
{
    memset(seq, 0, sizeof(seq_t));

    seq->s.n_prompt = side_prompt(side, row, seq->prompt);
    seq->s.prompt = seq->prompt;
    seq->s.max_new = CAP;
    seq->s.out = seq->out;
    seq->s.sampling.top_p = 1;
    seq->s.sampling.repetition_penalty = 1;
    seq->s.stop = hymt_prompter_stops(side->prompter, &seq->s.n_stop);
}


/* Hands n sequences over at once, and waits until all are back. */
static void
side_run(side_t *side, seq_t *seqs, uint32_t n)
{
    uint32_t        i, done;
    uint64_t        count;
    hymt_seq_t     *s;
    struct pollfd   fd;

    for (i = 0; i < n; i++) {
        if (hymt_engine_submit(side->engine, &seqs[i].s, &err) != HYMT_OK) {
            golden_die("submit");
        }
    }

    fd.fd = news_fd;
    fd.events = POLLIN;

    for (done = 0; done < n; ) {
        s = hymt_engine_poll(side->engine);

        if (s != NULL) {
            done += atomic_load(&s->finish) != HYMT_FINISH_NONE;

        } else if (!hymt_engine_arm(side->engine)) {
            (void) poll(&fd, 1, 1000);

            if (read(news_fd, &count, sizeof(count)) == -1) {
                count = 0;
            }
        }
    }
}


static bool
is_stop(const side_t *side, uint32_t token)
{
    uint32_t         i, n;
    const uint32_t  *stops;

    stops = hymt_prompter_stops(side->prompter, &n);

    for (i = 0; i < n && stops[i] != token; i++) { /* void */ }

    return i < n;
}


static void
print_ids(const char *what, const uint32_t *ids, uint32_t n)
{
    uint32_t  i;

    printf("#   %s", what);

    for (i = 0; i < n; i++) {
        printf(" %" PRIu32, ids[i]);
    }

    printf("\n");
}


static void
test_prompts(void)
{
    side_t     side;
    uint32_t   i, n, good, ids[PROMPT];
    row_t     *row;

    side_open(&side, 0, 0);

    for (i = 0, good = 0; i < n_rows; i++) {
        row = &rows[i];
        n = side_prompt(&side, row, ids);

        if (n == row->n_prompt && memcmp(ids, row->prompt, 4 * n) == 0) {
            good++;
            continue;
        }

        printf("# row %" PRIu32 ": \"%s\"\n", i, row->source);
        print_ids("got ", ids, n);
        print_ids("want", row->prompt, row->n_prompt);
    }

    is_int(good, n_rows, "prompts as apply_chat_template and tokenizer make"
           " them");
    side_close(&side);
}


/*
 * The ids of greedy.tsv, less the end token, which is no part of an output.
 */
static bool
is_golden(const side_t *side, const row_t *row, const seq_t *seq)
{
    bool      end;
    uint32_t  n;

    n = row->n_out;
    end = n > 0 && is_stop(side, row->out[n - 1]);
    n -= end;

    if (seq->s.finish == (end ? HYMT_FINISH_STOP : HYMT_FINISH_LENGTH)
        && seq->s.n_out == n && memcmp(seq->out, row->out, 4 * n) == 0)
    {
        return true;
    }

    printf("# \"%s\": finish %" PRIu32 "\n", row->source, seq->s.finish);
    print_ids("got ", seq->out, seq->s.n_out);
    print_ids("want", row->out, n);

    return false;
}


static bool
is_text(const side_t *side, const row_t *row, const seq_t *seq)
{
    char          text[8192];
    size_t        at, n;
    uint32_t      i;
    hymt_detok_t  d;

    hymt_detok_init(&d);

    for (i = 0, at = 0; i < seq->s.n_out; i++, at += n) {
        if (hymt_detok_push(side->tok, &d, seq->out[i], text + at,
                            sizeof(text) - 1 - at, &n) != HYMT_OK)
        {
            return false;
        }
    }

    if (hymt_detok_end(&d, text + at, sizeof(text) - 1 - at, &n) != HYMT_OK) {
        return false;
    }

    text[at + n] = '\0';

    if (strcmp(text, row->output) == 0) {
        return true;
    }

    printf("# got  \"%s\"\n# want \"%s\"\n", text, row->output);

    return false;
}


static void
test_greedy(uint32_t stride)
{
    side_t     side;
    seq_t     *seqs;
    uint32_t   i, n, ids, texts, batch;

    side_open(&side, 2, 16);

    n = hymt_ceil_div(n_rows, stride);
    seqs = calloc(n, sizeof(seq_t));

    for (i = 0; i < n; i++) {
        side_fill(&side, &rows[i * stride], &seqs[i]);
    }

    side_run(&side, seqs, n);

    for (i = 0, ids = 0, texts = 0, batch = 0; i < n; i++) {
        ids += is_golden(&side, &rows[i * stride], &seqs[i]);
        texts += is_text(&side, &rows[i * stride], &seqs[i]);
        batch = hymt_max(batch, seqs[i].s.batch);
    }

    is_int(ids, n, "greedy outputs of %" PRIu32 " of %" PRIu32 " sentences",
           n, n_rows);
    is_int(texts, n, "and their texts");
    is_int(batch, 16, "in batches of 16");

    free(seqs);
    side_close(&side);
}


/* The shortest of a CROWD-th of all rows: of one direction, or two. */
static const row_t *
crowd_row(uint32_t i)
{
    uint32_t  j, best;

    best = i * n_rows / CROWD;

    for (j = best; j < (i + 1) * n_rows / CROWD; j++) {
        best = rows[j].n_prompt < rows[best].n_prompt ? j : best;
    }

    return &rows[best];
}


/* Every other one draws with a seed. */
static void
crowd_fill(side_t *side, seq_t *seqs, uint32_t max_new)
{
    uint32_t  i;

    for (i = 0; i < CROWD; i++) {
        side_fill(side, crowd_row(i), &seqs[i]);
        seqs[i].s.max_new = max_new;

        if (i % 2 == 1) {
            seqs[i].s.sampling.temperature = 0.7f;
            seqs[i].s.sampling.top_p = 0.8f;
            seqs[i].s.sampling.top_k = 20;
            seqs[i].s.sampling.repetition_penalty = 1.05f;
            seqs[i].s.sampling.seed = 1000 + i;
        }
    }
}


static uint32_t
crowd_same(const seq_t *got, const seq_t *want, uint32_t stride)
{
    uint32_t  i, same;

    for (i = 0, same = 0; i < CROWD; i += stride) {

        if (got[i].s.n_out == want[i].s.n_out
            && got[i].s.finish == want[i].s.finish
            && memcmp(got[i].out, want[i].out, 4 * got[i].s.n_out) == 0)
        {
            same++;
            continue;
        }

        printf("# sequence %" PRIu32 "\n", i);
        print_ids("got ", got[i].out, got[i].s.n_out);
        print_ids("want", want[i].out, want[i].s.n_out);
    }

    return same;
}


/*
 * All is opened anew for each of n numbers of threads.  The first one's crowd
 * is what the others, and those that run alone, are compared with.  An odd
 * stride, so that both kinds of sampling run alone.
 */
static void
test_same(uint32_t n, uint32_t stride, uint32_t max_new)
{
    side_t     side;
    seq_t     *first, *seqs;
    uint32_t   i, j, alone, batch;

    static const uint32_t  threads[] = { 1, 2, 2, 1 };

    first = calloc(CROWD, sizeof(seq_t));
    seqs = calloc(CROWD, sizeof(seq_t));
    alone = hymt_ceil_div(CROWD, stride);

    for (i = 0; i < n; i++) {
        side_open(&side, threads[i], CROWD);

        crowd_fill(&side, seqs, max_new);
        side_run(&side, seqs, CROWD);

        if (i == 0) {
            memcpy(first, seqs, CROWD * sizeof(seq_t));
        }

        is_int(crowd_same(seqs, first, 1), CROWD, "opened %" PRIu32 " times,"
               " %" PRIu32 " threads: %d at once", i + 1, threads[i], CROWD);

        for (j = 0, batch = 0; j < CROWD; j++) {
            batch = hymt_max(batch, seqs[j].s.batch);
        }

        ok(batch > CROWD / 2, "in batches of up to %" PRIu32, batch);

        crowd_fill(&side, seqs, max_new);

        for (j = 0; j < CROWD; j += stride) {
            side_run(&side, &seqs[j], 1);
        }

        is_int(crowd_same(seqs, first, stride), alone, "and %" PRIu32
               " of them alone", alone);

        side_close(&side);
    }

    for (i = 0, j = 0; i < CROWD; i += 2) {
        j += memcmp(first[i].out, crowd_row(i)->out, 4 * first[i].s.n_out)
             == 0;
    }

    is_int(j, CROWD / 2, "the greedy ones are those of the file");

    free(first);
    free(seqs);
}


int
main(void)
{
    news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    read_rows();
    is_int(n_rows, 300, "sentences");

    test_prompts();
    test_greedy(golden_stride(1, 15));

    if (golden_stride(1, 2) == 1) {
        test_same(4, 3, CAP);

    } else {
        test_same(2, 11, 10);
    }

    close(news_fd);
    free(rows);
    free(file);

    return tap_done();
}
