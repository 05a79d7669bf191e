/*
 * hymt_selftest.c - hymt self-test: whether a model, on this machine, does what
 * it must.
 */

#include "hymt_lines.h"
#include "hymt_session.h"
#include "hymt_texts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


#define HYMT_N_TEXTS  ((uint32_t) hymt_nelts(hymt_texts))


typedef struct {
    hymt_session_params_t   params;
    const char             *golden;
    hymt_lang_set_t         languages;
    hymt_sampling_t         sampling;      /* greedy */
    int                     en;
    int                     other;         /* the model's first but English */
    hymt_session_t         *session;
    uint32_t                failed;        /* checks */
} hymt_selftest_t;


/* The columns of a golden file, by the names in its first line. */
typedef enum {
    HYMT_GOLDEN_SRC = 0,
    HYMT_GOLDEN_TGT,
    HYMT_GOLDEN_SOURCE,
    HYMT_GOLDEN_OUTPUT,
    HYMT_GOLDEN_COLUMNS
} hymt_golden_column_t;


/* One line of a golden file. */
typedef struct {
    char       *line;
    size_t      number;
    int         src;
    int         tgt;
    const char *source;
    const char *want;
} hymt_golden_t;


typedef struct {
    hymt_golden_t   *rows;
    uint32_t         n;
    uint32_t         cap;
    bool             named;        /* the first line has been read */
    uint32_t         column[HYMT_GOLDEN_COLUMNS];
} hymt_goldens_t;


static int hymt_selftest_run(int argc, char **argv);
static int hymt_selftest_options(hymt_selftest_t *t, int argc, char **argv);
static int hymt_selftest_model(hymt_selftest_t *t);
static hymt_status_t hymt_selftest_all(hymt_selftest_t *t, hymt_error_t *err);
static void hymt_check(hymt_selftest_t *t, bool pass, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static hymt_status_t hymt_check_invariance(hymt_selftest_t *t,
    hymt_error_t *err);
static hymt_status_t hymt_check_same(hymt_selftest_t *t,
    const hymt_job_t *jobs, const char *what, hymt_error_t *err);
static hymt_status_t hymt_check_trips(hymt_selftest_t *t, hymt_error_t *err);
static hymt_status_t hymt_check_trip(hymt_selftest_t *t, int lang,
    hymt_error_t *err);
static hymt_status_t hymt_translate_one(hymt_selftest_t *t, int src, int tgt,
    const char *text, char **answer, bool *good, hymt_error_t *err);
static bool hymt_has_han(const char *text);

static hymt_status_t hymt_check_golden(hymt_selftest_t *t, hymt_error_t *err);
static hymt_status_t hymt_golden_read(hymt_selftest_t *t, hymt_goldens_t *g,
    hymt_error_t *err);
static hymt_status_t hymt_golden_line(hymt_selftest_t *t, hymt_goldens_t *g,
    const char *line, size_t len, size_t number, hymt_error_t *err);
static hymt_status_t hymt_golden_names(hymt_selftest_t *t, hymt_goldens_t *g,
    const char *line, size_t len, hymt_error_t *err);
static hymt_status_t hymt_golden_add(hymt_selftest_t *t, hymt_goldens_t *g,
    const char *line, size_t len, size_t number, hymt_error_t *err);
static hymt_status_t hymt_golden_split(hymt_selftest_t *t, hymt_goldens_t *g,
    hymt_golden_t *row, hymt_error_t *err);
static hymt_status_t hymt_golden_language(hymt_selftest_t *t,
    const hymt_golden_t *row, const char *name, int *lang, hymt_error_t *err);
static hymt_status_t hymt_golden_compare(hymt_selftest_t *t,
    const hymt_goldens_t *g, hymt_error_t *err);
static bool hymt_golden_equal(const char *got, const char *want);
static void hymt_golden_free(hymt_goldens_t *g);

static hymt_job_t hymt_selftest_job(const hymt_selftest_t *t, int src,
    int tgt, const char *text);
static void hymt_free_texts(char **texts, uint32_t n);


static const char *const  hymt_golden_columns[HYMT_GOLDEN_COLUMNS] = {
    "src_lang", "tgt_lang", "source", "output",
};


const hymt_command_t  hymt_command_selftest = {
    "self-test",
    "whether a model on this machine does what it must",
    "self-test MODEL [OPTION ...]\n"
    "\n"
    "Loads the model, which checks that its logits are finite and have equal\n"
    "bits whatever runs beside them.  Then: sentences translated alone and\n"
    "all at once must be the same byte for byte, greedy and with a seed; a\n"
    "sentence must come to an end in each of the model's languages and back.\n"
    "Prints a line for each check, \"ok\" or \"not ok\".\n"
    "\n"
    "  --golden FILE     compare greedy translations with those of a file.\n"
    "                    Its first line names columns, with tabs between:\n"
    "                    src_lang, tgt_lang, source and output, in any order\n"
    "                    and among others; each further line is a sentence.\n"
    "                    Space at the ends of a translation is passed over,\n"
    "                    and so are lines that begin with #.  The demo model\n"
    "                    has golden/greedy.tsv\n"
    HYMT_SESSION_MANUAL
    "\n"
    "Exit status: 1 where a check has failed.\n",
    hymt_selftest_run
};


static int
hymt_selftest_run(int argc, char **argv)
{
    int              status;
    hymt_error_t     err;
    hymt_selftest_t  t;

    memset(&t, 0, sizeof(t));
    hymt_session_defaults(&t.params);

    status = hymt_selftest_options(&t, argc, argv);

    if (status == HYMT_EXIT_OK) {
        status = hymt_selftest_model(&t);
    }

    if (status == HYMT_EXIT_OK
        && (hymt_session_open(&t.params, &hymt_command_selftest, &t.session,
                              &err)
            != HYMT_OK
            || hymt_selftest_all(&t, &err) != HYMT_OK))
    {
        status = hymt_failed(&hymt_command_selftest, "%s", err.text);
    }

    hymt_session_close(t.session);

    if (status == HYMT_EXIT_OK) {
        status = hymt_flush(&hymt_command_selftest);
    }

    if (status == HYMT_EXIT_OK && t.failed > 0) {
        status = hymt_failed(&hymt_command_selftest, "%" PRIu32 " checks"
                             " failed", t.failed);
    }

    return status;
}


enum {
    HYMT_OPT_GOLDEN = 1,
};


static int
hymt_selftest_options(hymt_selftest_t *t, int argc, char **argv)
{
    int            c;
    hymt_error_t   err;

    static const struct option  options[] = {
        { "golden", required_argument, NULL, HYMT_OPT_GOLDEN },
        HYMT_SESSION_OPTIONS,
        { NULL, 0, NULL, 0 },
    };

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {

        if (c == HYMT_OPT_GOLDEN) {
            t->golden = optarg;

        } else if (c == '?') {
            return HYMT_EXIT_USAGE;

        } else if (hymt_session_option(&t->params, c, optarg, &err)
                   != HYMT_OK)
        {
            return hymt_usage(&hymt_command_selftest, "%s", err.text);
        }
    }

    if (argc - optind != 1) {
        return hymt_usage(&hymt_command_selftest, "one MODEL is needed");
    }

    t->params.model = argv[optind];

    return HYMT_EXIT_OK;
}


static int
hymt_selftest_model(hymt_selftest_t *t)
{
    int           i;
    hymt_error_t  err;

    if (hymt_session_model(&t->params, NULL, &t->languages, &t->sampling, &err)
        != HYMT_OK)
    {
        return hymt_failed(&hymt_command_selftest, "%s", err.text);
    }

    t->sampling.temperature = 0;
    t->en = hymt_lang_find("en", 2);
    t->other = HYMT_LANG_NONE;

    for (i = 0; i < HYMT_N_LANGS; i++) {
        if (i != t->en && (t->languages >> i & 1) != 0) {
            t->other = i;
            break;
        }
    }

    if (t->other == HYMT_LANG_NONE || (t->languages >> t->en & 1) == 0) {
        return hymt_failed(&hymt_command_selftest, "%s: the checks need"
                           " English and one more language",
                           t->params.model);
    }

    return HYMT_EXIT_OK;
}


static hymt_status_t
hymt_selftest_all(hymt_selftest_t *t, hymt_error_t *err)
{
    hymt_host_info_t  info;

    hymt_session_info(t->session, &info);
    hymt_check(t, true, "ready in %.2f s: %s", (double) info.load_ns / 1e9,
               info.reason);

    if (hymt_check_invariance(t, err) != HYMT_OK
        || hymt_check_trips(t, err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    return t->golden != NULL ? hymt_check_golden(t, err) : HYMT_OK;
}


static void
hymt_check(hymt_selftest_t *t, bool pass, const char *fmt, ...)
{
    va_list  args;

    t->failed += !pass;

    fputs(pass ? "ok - " : "not ok - ", stdout);

    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);

    putchar('\n');
    fflush(stdout);
}


static hymt_status_t
hymt_check_invariance(hymt_selftest_t *t, hymt_error_t *err)
{
    uint32_t    i;
    hymt_job_t  jobs[HYMT_N_TEXTS];

    for (i = 0; i < HYMT_N_TEXTS; i++) {
        jobs[i] = hymt_selftest_job(t, t->en, t->other, hymt_texts[i]);
    }

    if (hymt_check_same(t, jobs, "greedy", err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    for (i = 0; i < HYMT_N_TEXTS; i++) {
        jobs[i].sampling.temperature = 0.7f;
        jobs[i].sampling.top_p = 0.8f;
        jobs[i].sampling.seed = 42;
        jobs[i].sampling.index = i;
    }

    return hymt_check_same(t, jobs, "with a seed", err);
}


/* Alone, one after the other, and all at once. */
static hymt_status_t
hymt_check_same(hymt_selftest_t *t, const hymt_job_t *jobs, const char *what,
    hymt_error_t *err)
{
    char           *alone[HYMT_N_TEXTS], *together[HYMT_N_TEXTS];
    uint32_t        i, same;
    hymt_result_t   r[HYMT_N_TEXTS], r2[HYMT_N_TEXTS];
    hymt_status_t   rc;

    memset(alone, 0, sizeof(alone));
    memset(together, 0, sizeof(together));

    rc = hymt_session_all(t->session, jobs, HYMT_N_TEXTS, 1, r, alone, err);

    if (rc == HYMT_OK) {
        rc = hymt_session_all(t->session, jobs, HYMT_N_TEXTS, 0, r2, together,
                              err);
    }

    if (rc == HYMT_OK) {
        for (i = 0, same = 0; i < HYMT_N_TEXTS; i++) {

            if (r[i].code == HYMT_RESULT_OK && r2[i].code == HYMT_RESULT_OK
                && strcmp(alone[i], together[i]) == 0)
            {
                same++;
                continue;
            }

            printf("# \"%s\"\n#   alone:    %s %s\n#   together: %s %s\n",
                   hymt_texts[i], alone[i], r[i].error, together[i],
                   r2[i].error);
        }

        hymt_check(t, same == HYMT_N_TEXTS, "%" PRIu32 " of %" PRIu32
                   " sentences are the same alone and together, %s", same,
                   HYMT_N_TEXTS, what);
    }

    hymt_free_texts(alone, HYMT_N_TEXTS);
    hymt_free_texts(together, HYMT_N_TEXTS);

    return rc;
}


static hymt_status_t
hymt_check_trips(hymt_selftest_t *t, hymt_error_t *err)
{
    int  i;

    for (i = 0; i < HYMT_N_LANGS; i++) {
        if (i != t->en && (t->languages >> i & 1) != 0
            && hymt_check_trip(t, i, err) != HYMT_OK)
        {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_check_trip(hymt_selftest_t *t, int lang, hymt_error_t *err)
{
    bool         there, back;
    char        *out, *home;
    const char  *code;

    code = hymt_langs[lang].code;
    home = NULL;
    back = false;

    if (hymt_translate_one(t, t->en, lang, hymt_texts[0], &out, &there, err)
        != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (there
        && hymt_translate_one(t, lang, t->en, out, &home, &back, err)
           != HYMT_OK)
    {
        free(out);
        return HYMT_ERROR;
    }

    hymt_check(t, there && back, "en to %s and back: \"%s\", \"%s\"", code,
               out, home != NULL ? home : "");

    /* no reason to fail: a model may be poor at a language */

    if (there && (strncmp(code, "zh", 2) == 0 || strcmp(code, "yue") == 0)
        && !hymt_has_han(out))
    {
        printf("# warning: no Chinese character in it\n");
    }

    free(out);
    free(home);

    return HYMT_OK;
}


static hymt_status_t
hymt_translate_one(hymt_selftest_t *t, int src, int tgt, const char *text,
    char **answer, bool *good, hymt_error_t *err)
{
    hymt_job_t     job;
    hymt_result_t  r;

    *answer = NULL;
    job = hymt_selftest_job(t, src, tgt, text);

    if (hymt_session_all(t->session, &job, 1, 1, &r, answer, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    *good = r.code == HYMT_RESULT_OK && r.finish == HYMT_FINISH_STOP
            && r.text_len > 0;

    if (r.code != HYMT_RESULT_OK) {
        printf("# %s: %s\n", hymt_result_name(r.code), r.error);

    } else if (r.finish != HYMT_FINISH_STOP) {
        printf("# no end within %" PRIu32 " tokens\n", r.completion_tokens);
    }

    return HYMT_OK;
}


/* U+4E00 to U+9FFF: UTF-8 that begins with E4 B8 to E9 BF. */
static bool
hymt_has_han(const char *text)
{
    const unsigned char  *p;

    for (p = (const unsigned char *) text; *p != '\0'; p++) {
        if ((p[0] == 0xe4 && p[1] >= 0xb8) || (p[0] >= 0xe5 && p[0] <= 0xe9)) {
            return true;
        }
    }

    return false;
}


static hymt_status_t
hymt_check_golden(hymt_selftest_t *t, hymt_error_t *err)
{
    hymt_goldens_t  g;
    hymt_status_t   rc;

    memset(&g, 0, sizeof(g));

    rc = hymt_golden_read(t, &g, err);

    if (rc == HYMT_OK) {
        rc = hymt_golden_compare(t, &g, err);
    }

    hymt_golden_free(&g);

    return rc;
}


static hymt_status_t
hymt_golden_read(hymt_selftest_t *t, hymt_goldens_t *g, hymt_error_t *err)
{
    int             fd;
    char           *line;
    size_t          len, number;
    hymt_lines_t    lines;
    hymt_status_t   rc;

    fd = open(t->golden, O_RDONLY | O_CLOEXEC);
    if (fd == -1) {
        return hymt_fail(err, "%s: %s", t->golden, strerror(errno));
    }

    hymt_lines_init(&lines, fd);

    for (number = 1; /* void */ ; number++) {
        rc = hymt_lines_next(&lines, true, &line, &len);

        if (rc == HYMT_ERROR) {
            (void) hymt_fail(err, "%s: %s", t->golden, strerror(errno));
        }

        if (rc != HYMT_OK) {
            break;
        }

        if (len > 0 && line[0] != '#'
            && hymt_golden_line(t, g, line, len, number, err) != HYMT_OK)
        {
            rc = HYMT_ERROR;
            break;
        }
    }

    hymt_lines_free(&lines);
    close(fd);

    return rc == HYMT_DECLINED ? HYMT_OK : rc;
}


static hymt_status_t
hymt_golden_line(hymt_selftest_t *t, hymt_goldens_t *g, const char *line,
    size_t len, size_t number, hymt_error_t *err)
{
    if (g->named) {
        return hymt_golden_add(t, g, line, len, number, err);
    }

    g->named = true;

    return hymt_golden_names(t, g, line, len, err);
}


static hymt_status_t
hymt_golden_names(hymt_selftest_t *t, hymt_goldens_t *g, const char *line,
    size_t len, hymt_error_t *err)
{
    uint32_t     i, n;
    size_t       size;
    const char  *p, *end, *tab;

    end = line + len;

    for (i = 0; i < HYMT_GOLDEN_COLUMNS; i++) {
        size = strlen(hymt_golden_columns[i]);

        for (p = line, n = 0; p != NULL; p = tab ? tab + 1 : NULL, n++) {
            tab = memchr(p, '\t', (size_t) (end - p));

            if ((size_t) ((tab != NULL ? tab : end) - p) == size
                && memcmp(p, hymt_golden_columns[i], size) == 0)
            {
                break;
            }
        }

        if (p == NULL) {
            return hymt_fail(err, "%s: the first line names no column \"%s\";"
                             " want src_lang, tgt_lang, source and output with"
                             " tabs between", t->golden,
                             hymt_golden_columns[i]);
        }

        g->column[i] = n;
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_golden_add(hymt_selftest_t *t, hymt_goldens_t *g, const char *line,
    size_t len, size_t number, hymt_error_t *err)
{
    uint32_t        cap;
    hymt_golden_t  *rows;

    if (g->n == g->cap) {
        cap = 2 * g->cap + 64;
        rows = realloc(g->rows, cap * sizeof(hymt_golden_t));

        if (rows == NULL) {
            return hymt_fail(err, "no memory");
        }

        g->rows = rows;
        g->cap = cap;
    }

    rows = &g->rows[g->n];
    rows->number = number;
    rows->line = strndup(line, len);

    if (rows->line == NULL) {
        return hymt_fail(err, "no memory");
    }

    g->n++;

    return hymt_golden_split(t, g, rows, err);
}


static hymt_status_t
hymt_golden_split(hymt_selftest_t *t, hymt_goldens_t *g, hymt_golden_t *row,
    hymt_error_t *err)
{
    char      *rest, *field, *value[HYMT_GOLDEN_COLUMNS];
    uint32_t   i, n;

    memset(value, 0, sizeof(value));
    rest = row->line;

    for (n = 0; (field = strsep(&rest, "\t")) != NULL; n++) {
        for (i = 0; i < HYMT_GOLDEN_COLUMNS; i++) {
            if (g->column[i] == n) {
                value[i] = field;
            }
        }
    }

    for (i = 0; i < HYMT_GOLDEN_COLUMNS; i++) {
        if (value[i] == NULL) {
            return hymt_fail(err, "%s: line %zu: no %s: there are %" PRIu32
                             " columns, it is the %" PRIu32 ". of the first"
                             " line", t->golden, row->number,
                             hymt_golden_columns[i], n, g->column[i] + 1);
        }
    }

    row->source = value[HYMT_GOLDEN_SOURCE];
    row->want = value[HYMT_GOLDEN_OUTPUT];

    if (hymt_golden_language(t, row, value[HYMT_GOLDEN_SRC], &row->src, err)
        != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    return hymt_golden_language(t, row, value[HYMT_GOLDEN_TGT], &row->tgt,
                                err);
}


static hymt_status_t
hymt_golden_language(hymt_selftest_t *t, const hymt_golden_t *row,
    const char *name, int *lang, hymt_error_t *err)
{
    hymt_error_t  why;

    if (hymt_session_language(name, t->languages, lang, &why) == HYMT_OK) {
        return HYMT_OK;
    }

    return hymt_fail(err, "%s: line %zu: %s", t->golden, row->number,
                     why.text);
}


static hymt_status_t
hymt_golden_compare(hymt_selftest_t *t, const hymt_goldens_t *g,
    hymt_error_t *err)
{
    char           **texts;
    uint32_t         i, same;
    hymt_job_t      *jobs;
    hymt_result_t   *r;
    hymt_status_t    rc;

    jobs = calloc(g->n + 1, sizeof(hymt_job_t));
    r = calloc(g->n + 1, sizeof(hymt_result_t));
    texts = calloc(g->n + 1, sizeof(char *));
    rc = HYMT_OK;

    if (jobs == NULL || r == NULL || texts == NULL) {
        rc = hymt_fail(err, "no memory");
    }

    if (rc == HYMT_OK) {
        for (i = 0; i < g->n; i++) {
            jobs[i] = hymt_selftest_job(t, g->rows[i].src, g->rows[i].tgt,
                                        g->rows[i].source);
        }

        rc = hymt_session_all(t->session, jobs, g->n, 0, r, texts, err);
    }

    if (rc == HYMT_OK) {
        for (i = 0, same = 0; i < g->n; i++) {

            if (r[i].code == HYMT_RESULT_OK
                && hymt_golden_equal(texts[i], g->rows[i].want))
            {
                same++;
                continue;
            }

            printf("# %s:%zu: \"%s\"\n#   got  %s%s\n#   want %s\n", t->golden,
                   g->rows[i].number, g->rows[i].source, texts[i], r[i].error,
                   g->rows[i].want);
        }

        hymt_check(t, g->n > 0 && same == g->n, "%" PRIu32 " of %" PRIu32
                   " translations are those of %s", same, g->n, t->golden);
    }

    if (texts != NULL) {
        hymt_free_texts(texts, g->n);
    }

    free(texts);
    free(jobs);
    free(r);

    return rc;
}


/* But for spaces at the ends, which tools that make such files strip. */
static bool
hymt_golden_equal(const char *got, const char *want)
{
    size_t  n, m;

    static const char  space[] = " \t\r\n";

    got += strspn(got, space);
    want += strspn(want, space);

    for (n = strlen(got); n > 0 && strchr(space, got[n - 1]); n--) {
        /* void */
    }

    for (m = strlen(want); m > 0 && strchr(space, want[m - 1]); m--) {
        /* void */
    }

    return n == m && memcmp(got, want, n) == 0;
}


static void
hymt_golden_free(hymt_goldens_t *g)
{
    uint32_t  i;

    for (i = 0; i < g->n; i++) {
        free(g->rows[i].line);
    }

    free(g->rows);
}


static hymt_job_t
hymt_selftest_job(const hymt_selftest_t *t, int src, int tgt,
    const char *text)
{
    hymt_job_t  job;

    memset(&job, 0, sizeof(job));

    job.src = src;
    job.tgt = tgt;
    job.sampling = t->sampling;
    job.part[HYMT_PART_TEXT] = text;
    job.part_len[HYMT_PART_TEXT] = (uint32_t) strlen(text);

    return job;
}


static void
hymt_free_texts(char **texts, uint32_t n)
{
    uint32_t  i;

    for (i = 0; i < n; i++) {
        free(texts[i]);
    }
}
