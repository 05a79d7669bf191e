/*
 * hymt_translate.c - hymt translate: lines of text, or a whole one, into
 * another language.
 */

#include "hymt_lines.h"
#include "hymt_request.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>


#define HYMT_PROGRESS_NS  100000000

/* How long a line of the input may go unnoticed while others are worked on. */
#define HYMT_WAIT_MS      50


/* A line that has been read and not written. */
typedef struct {
    size_t     number;
    bool       cr;           /* it ended in CR LF */
    bool       done;
    bool       failed;
    char      *output;
    uint32_t   output_len;
} hymt_line_t;


typedef struct {
    hymt_session_params_t   params;
    const char             *to;
    const char             *from;
    const char             *path;        /* NULL: stdin */
    bool                    whole;
    bool                    seeded;
    hymt_request_t          request;
    hymt_job_t              job;         /* what all have in common */

    hymt_lines_t            in;
    hymt_session_t         *session;

    hymt_line_t            *lines;       /* [window], line i at i % window */
    uint32_t                window;
    size_t                  read;
    size_t                  written;
    uint32_t                out;         /* with the engine */
    bool                    end;         /* of the input */
    int                     status;

    bool                    terminal;    /* show progress */
    bool                    shown;
    uint64_t                started;
    uint64_t                last_shown;
    uint64_t                tokens;
} hymt_translate_t;


static int hymt_translate(int argc, char **argv);
static int hymt_translate_options(hymt_translate_t *t, int argc, char **argv);
static hymt_status_t hymt_translate_option(hymt_translate_t *t, int c,
    hymt_error_t *err);
static int hymt_translate_model(hymt_translate_t *t, int argc, char **argv);
static int hymt_translate_open(hymt_translate_t *t);
static int hymt_translate_lines(hymt_translate_t *t);
static bool hymt_translate_read(hymt_translate_t *t);
static void hymt_translate_line(hymt_translate_t *t, const char *text,
    size_t len);
static bool hymt_translate_blank(const char *text, size_t len);
static void hymt_translate_submit(hymt_translate_t *t, hymt_line_t *line,
    const char *text, size_t len);
static void hymt_translate_event(hymt_translate_t *t,
    const hymt_event_t *event);
static const char *hymt_translate_cut(uint32_t finish);
static void hymt_translate_keep(hymt_line_t *line, const char *text,
    uint32_t len);
static void hymt_translate_write(hymt_translate_t *t);
static int hymt_translate_whole(hymt_translate_t *t);
static int hymt_translate_text(hymt_translate_t *t, char *text, size_t cap);
static int hymt_translate_stream(hymt_translate_t *t);
static void hymt_translate_failed(hymt_translate_t *t, size_t number,
    uint32_t code, const char *error);
static int hymt_translate_unread(const hymt_translate_t *t);
static void hymt_translate_progress(hymt_translate_t *t);
static void hymt_translate_clear(hymt_translate_t *t);


const hymt_command_t  hymt_command_translate = {
    "translate",
    "lines of text, or a whole text, into another language",
    "translate MODEL --to LANG [--from LANG] [OPTION ...] [FILE]\n"
    "\n"
    "Translates each line of FILE, or of stdin, and writes the translations\n"
    "in the same order, a line for each.  Many lines are worked on at once.\n"
    "Blank lines stay as they are.\n"
    "\n"
    "  --to LANG         into this language: a code (zh, pt-BR) or a name\n"
    "  --from LANG       from this language; it may be left out\n"
    "  --whole           the input is one text, newlines and all; it is\n"
    "                    written as it is made\n"
    HYMT_REQUEST_MANUAL
    "  --max-tokens N    longest output (4 for each token of the text + 128)\n"
    "  --temperature X   0: always the likeliest token.  This and the next\n"
    "                    four: as the model's files recommend\n"
    "  --top-k N         choose among the N likeliest; 0: among all\n"
    "  --top-p X         choose among those that have X of the probability\n"
    "  --repetition-penalty X\n"
    "  --seed N          the same seed gives the same output (random)\n"
    HYMT_SESSION_MANUAL
    "\n"
    "A line that can't be translated is named on stderr with the cause, gives\n"
    "an empty line, and makes the exit status 1; so is one whose output was\n"
    "cut, which is written as far as it goes.\n",
    hymt_translate
};


static int
hymt_translate(int argc, char **argv)
{
    int               status;
    uint32_t          i;
    hymt_translate_t  t;

    memset(&t, 0, sizeof(t));
    hymt_session_defaults(&t.params);
    t.job.src = HYMT_LANG_NONE;

    status = hymt_translate_options(&t, argc, argv);

    if (status == HYMT_EXIT_OK) {
        status = hymt_translate_open(&t);
    }

    if (status == HYMT_EXIT_OK) {
        status = t.whole ? hymt_translate_whole(&t) : hymt_translate_lines(&t);
    }

    hymt_session_close(t.session);

    for (i = 0; t.lines != NULL && i < t.window; i++) {
        free(t.lines[i].output);
    }

    free(t.lines);
    hymt_lines_free(&t.in);
    hymt_request_done(&t.request);

    if (t.in.fd > STDIN_FILENO) {
        close(t.in.fd);
    }

    return status;
}


enum {
    HYMT_OPT_MAX_TOKENS = 1,
    HYMT_OPT_PENALTY,
    HYMT_OPT_SEED,
    HYMT_OPT_TEMPERATURE,
    HYMT_OPT_TO,
    HYMT_OPT_FROM,
    HYMT_OPT_TOP_K,
    HYMT_OPT_TOP_P,
    HYMT_OPT_WHOLE,
};


static int
hymt_translate_options(hymt_translate_t *t, int argc, char **argv)
{
    int            c;
    hymt_error_t   err;
    hymt_status_t  rc;

    static const struct option  options[] = {
        { "from", required_argument, NULL, HYMT_OPT_FROM },
        { "max-tokens", required_argument, NULL, HYMT_OPT_MAX_TOKENS },
        { "repetition-penalty", required_argument, NULL, HYMT_OPT_PENALTY },
        { "seed", required_argument, NULL, HYMT_OPT_SEED },
        { "temperature", required_argument, NULL, HYMT_OPT_TEMPERATURE },
        { "to", required_argument, NULL, HYMT_OPT_TO },
        { "top-k", required_argument, NULL, HYMT_OPT_TOP_K },
        { "top-p", required_argument, NULL, HYMT_OPT_TOP_P },
        { "whole", no_argument, NULL, HYMT_OPT_WHOLE },
        HYMT_REQUEST_OPTIONS,
        HYMT_SESSION_OPTIONS,
        { NULL, 0, NULL, 0 },
    };

    /* marks of "not given": the model's own are not known before it is */

    t->job.sampling.temperature = -1;
    t->job.sampling.top_p = -1;
    t->job.sampling.repetition_penalty = -1;
    t->job.sampling.top_k = UINT32_MAX;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == '?') {
            return HYMT_EXIT_USAGE;
        }

        rc = hymt_session_option(&t->params, c, optarg, &err);

        if (rc == HYMT_DECLINED) {
            rc = hymt_request_option(&t->request, c, optarg, &err);
        }

        if (rc == HYMT_DECLINED) {
            rc = hymt_translate_option(t, c, &err);
        }

        if (rc != HYMT_OK) {
            return hymt_usage(&hymt_command_translate, "%s", err.text);
        }
    }

    return hymt_translate_model(t, argc, argv);
}


static hymt_status_t
hymt_translate_option(hymt_translate_t *t, int c, hymt_error_t *err)
{
    uint64_t          n;
    hymt_status_t     rc;
    hymt_sampling_t  *s;

    n = 0;
    s = &t->job.sampling;

    switch (c) {

    case HYMT_OPT_FROM:
        t->from = optarg;
        return HYMT_OK;

    case HYMT_OPT_TO:
        t->to = optarg;
        return HYMT_OK;

    case HYMT_OPT_WHOLE:
        t->whole = true;
        return HYMT_OK;

    case HYMT_OPT_MAX_TOKENS:
        rc = hymt_session_number("max-tokens", optarg, 1, UINT32_MAX, &n, err);
        t->job.max_tokens = (uint32_t) n;
        return rc;

    case HYMT_OPT_SEED:
        t->seeded = true;
        return hymt_session_number("seed", optarg, 0, UINT64_MAX, &s->seed,
                                   err);

    case HYMT_OPT_TEMPERATURE:
        return hymt_session_fraction("temperature", optarg, 0, 10,
                                     &s->temperature, err);

    case HYMT_OPT_TOP_K:
        rc = hymt_session_number("top-k", optarg, 0, INT32_MAX, &n, err);
        s->top_k = (uint32_t) n;
        return rc;

    case HYMT_OPT_TOP_P:
        return hymt_session_fraction("top-p", optarg, 1e-6f, 1, &s->top_p,
                                     err);

    default:
        return hymt_session_fraction("repetition-penalty", optarg, 0.1f, 10,
                                     &s->repetition_penalty, err);
    }
}


/* What is left of the arguments, and what the model says to them. */
static int
hymt_translate_model(hymt_translate_t *t, int argc, char **argv)
{
    hymt_error_t      err;
    hymt_family_t     family;
    hymt_lang_set_t   languages;
    hymt_sampling_t  *s, own;

    if (argc - optind < 1 || argc - optind > 2) {
        return hymt_usage(&hymt_command_translate,
                          "a MODEL is needed, and at most one FILE");
    }

    if (t->to == NULL) {
        return hymt_usage(&hymt_command_translate, "--to is needed");
    }

    t->params.model = argv[optind];
    t->path = argv[optind + 1];

    if (hymt_session_model(&t->params, &family, &languages, &own, &err)
        != HYMT_OK)
    {
        return hymt_failed(&hymt_command_translate, "%s", err.text);
    }

    if (hymt_session_language(t->to, languages, &t->job.tgt, &err) != HYMT_OK
        || (t->from != NULL
            && hymt_session_language(t->from, languages, &t->job.src, &err)
               != HYMT_OK)
        || hymt_request_fill(&t->request, family, &t->job, &err) != HYMT_OK)
    {
        return hymt_usage(&hymt_command_translate, "%s", err.text);
    }

    s = &t->job.sampling;

    s->temperature = s->temperature < 0 ? own.temperature : s->temperature;
    s->top_p = s->top_p < 0 ? own.top_p : s->top_p;
    s->top_k = s->top_k == UINT32_MAX ? own.top_k : s->top_k;
    s->repetition_penalty = s->repetition_penalty < 0
                            ? own.repetition_penalty : s->repetition_penalty;

    if (!t->seeded && getrandom(&s->seed, sizeof(s->seed), 0)
                      != sizeof(s->seed))
    {
        s->seed = hymt_now_ns();
    }

    return HYMT_EXIT_OK;
}


static int
hymt_translate_open(hymt_translate_t *t)
{
    int           fd;
    hymt_error_t  err;

    fd = STDIN_FILENO;

    if (t->path != NULL && strcmp(t->path, "-") != 0) {
        fd = open(t->path, O_RDONLY | O_CLOEXEC);

        if (fd == -1) {
            return hymt_failed(&hymt_command_translate, "%s: %s", t->path,
                               strerror(errno));
        }
    }

    hymt_lines_init(&t->in, fd);

    if (hymt_session_open(&t->params, &hymt_command_translate, &t->session,
                          &err)
        != HYMT_OK)
    {
        return hymt_failed(&hymt_command_translate, "%s", err.text);
    }

    t->window = hymt_session_window(t->session);
    t->lines = calloc(t->window, sizeof(hymt_line_t));

    if (t->lines == NULL) {
        return hymt_failed(&hymt_command_translate, "no memory");
    }

    t->terminal = isatty(STDERR_FILENO) == 1;
    t->started = hymt_now_ns();

    return HYMT_EXIT_OK;
}


static int
hymt_translate_lines(hymt_translate_t *t)
{
    hymt_event_t  event;

    for ( ;; ) {
        while (!t->end && t->read - t->written < t->window
               && hymt_translate_read(t))
        {
            /* void */
        }

        hymt_translate_write(t);

        if (t->end && t->read == t->written) {
            break;
        }

        if (t->out > 0
            && hymt_session_next(t->session, HYMT_WAIT_MS, &event) == HYMT_OK)
        {
            hymt_translate_event(t, &event);
        }

        hymt_translate_progress(t);
    }

    hymt_translate_clear(t);

    return hymt_flush(&hymt_command_translate) == HYMT_EXIT_OK
           ? t->status : HYMT_EXIT_FAILED;
}


/* False where there is none now, or none any more. */
static bool
hymt_translate_read(hymt_translate_t *t)
{
    char           *text;
    size_t          len;
    hymt_status_t   rc;

    /* sleeps on the input only when nothing else is to be waited for */

    rc = hymt_lines_next(&t->in, t->read == t->written, &text, &len);

    if (rc == HYMT_OK) {
        hymt_translate_line(t, text, len);
        return true;
    }

    if (rc == HYMT_ERROR) {
        hymt_translate_clear(t);
        t->status = hymt_translate_unread(t);
    }

    t->end = rc != HYMT_AGAIN;

    return false;
}


static void
hymt_translate_line(hymt_translate_t *t, const char *text, size_t len)
{
    hymt_line_t  *line;

    line = &t->lines[t->read % t->window];

    line->number = ++t->read;
    line->done = false;
    line->failed = false;
    line->output_len = 0;
    line->cr = len > 0 && text[len - 1] == '\r';
    len -= line->cr;

    if (hymt_translate_blank(text, len)) {
        hymt_translate_keep(line, text, (uint32_t) len);
        line->done = true;

    } else {
        hymt_translate_submit(t, line, text, len);
    }
}


static bool
hymt_translate_blank(const char *text, size_t len)
{
    size_t  i;

    for (i = 0; i < len; i++) {
        if (text[i] != ' ' && text[i] != '\t') {
            return false;
        }
    }

    return len <= UINT32_MAX;
}


static void
hymt_translate_submit(hymt_translate_t *t, hymt_line_t *line,
    const char *text, size_t len)
{
    uint32_t        slot;
    hymt_error_t    err;
    hymt_status_t   rc;

    t->job.part[HYMT_PART_TEXT] = text;
    t->job.part_len[HYMT_PART_TEXT] = (uint32_t) hymt_min(len, UINT32_MAX);
    t->job.sampling.index = (uint32_t) line->number;

    /* there is a slot for each line of the window */

    rc = hymt_client_submit(hymt_session_client(t->session), &t->job, line,
                            &slot, &err);

    if (rc == HYMT_OK) {
        t->out++;
        return;
    }

    line->done = true;
    line->failed = true;
    hymt_translate_failed(t, line->number, rc == HYMT_TOO_LONG
                          ? HYMT_RESULT_TOO_LONG : HYMT_RESULT_UNAVAILABLE,
                          err.text);
}


static void
hymt_translate_event(hymt_translate_t *t, const hymt_event_t *event)
{
    uint32_t         len;
    const char      *text;
    hymt_line_t     *line;
    hymt_result_t    r;
    hymt_client_t   *client;

    if (event->kind != HYMT_EVENT_DONE) {
        return;
    }

    line = event->data;
    client = hymt_session_client(t->session);

    hymt_client_result(client, event->slot, &r);
    hymt_client_text(client, event->slot, &text, &len);

    if (r.code == HYMT_RESULT_OK) {
        hymt_translate_keep(line, text, len);

        if (r.finish != HYMT_FINISH_STOP) {
            hymt_translate_clear(t);
            t->status = hymt_failed(&hymt_command_translate, "line %zu: the"
                                    " output %s at %" PRIu32 " tokens",
                                    line->number,
                                    hymt_translate_cut(r.finish),
                                    r.completion_tokens);
        }

    } else {
        line->failed = true;
        hymt_translate_failed(t, line->number, r.code, r.error);
    }

    hymt_client_slot_free(client, event->slot);

    t->tokens += r.completion_tokens;
    t->out--;
    line->done = true;
}


static const char *
hymt_translate_cut(uint32_t finish)
{
    return finish == HYMT_FINISH_LOOP ? "repeated itself, it was cut"
                                      : "was cut";
}


/* A line for a line: a break in the output would shift those that follow. */
static void
hymt_translate_keep(hymt_line_t *line, const char *text, uint32_t len)
{
    char      *output;
    uint32_t   i;

    output = realloc(line->output, (size_t) len + 1);

    if (output == NULL) {
        line->failed = true;
        return;
    }

    for (i = 0; i < len; i++) {
        output[i] = text[i] == '\n' || text[i] == '\r' ? ' ' : text[i];
    }

    line->output = output;
    line->output_len = len;
}


/* Those at the front that are done. */
static void
hymt_translate_write(hymt_translate_t *t)
{
    bool          any;
    hymt_line_t  *line;

    any = false;

    while (t->written < t->read) {
        line = &t->lines[t->written % t->window];

        if (!line->done) {
            break;
        }

        if (!any) {
            hymt_translate_clear(t);
            any = true;
        }

        if (!line->failed) {
            fwrite(line->output, 1, line->output_len, stdout);
        }

        fputs(line->cr ? "\r\n" : "\n", stdout);
        t->written++;
    }

    /* whoever reads along sees what there is */

    if (any) {
        fflush(stdout);
    }
}


static int
hymt_translate_whole(hymt_translate_t *t)
{
    int      status;
    char    *text;
    size_t   cap;

    cap = hymt_session_bytes(t->session);

    text = malloc(cap + 2);
    if (text == NULL) {
        return hymt_failed(&hymt_command_translate, "no memory");
    }

    status = hymt_translate_text(t, text, cap);

    free(text);

    return hymt_flush(&hymt_command_translate) == HYMT_EXIT_OK
           ? status : HYMT_EXIT_FAILED;
}


/* Two bytes more than cap may come: one too many, and the last line's end. */
static int
hymt_translate_text(hymt_translate_t *t, char *text, size_t cap)
{
    size_t         n;
    ssize_t        got;
    uint32_t       slot;
    hymt_error_t   err;

    for (n = 0; n < cap + 2; n += (size_t) got) {
        got = read(t->in.fd, text + n, cap + 2 - n);

        if (got == -1) {
            return hymt_translate_unread(t);
        }

        if (got == 0) {
            break;
        }
    }

    /* that end is the file's, not the text's */

    n -= n > 0 && text[n - 1] == '\n';

    if (n > cap) {
        return hymt_failed(&hymt_command_translate, "the text has more than"
                           " %zu bytes: split it, or raise --context-size",
                           cap);
    }

    t->job.flags = HYMT_JOB_STREAM;
    t->job.part[HYMT_PART_TEXT] = text;
    t->job.part_len[HYMT_PART_TEXT] = (uint32_t) n;

    if (hymt_client_submit(hymt_session_client(t->session), &t->job, NULL,
                           &slot, &err)
        != HYMT_OK)
    {
        return hymt_failed(&hymt_command_translate, "%s", err.text);
    }

    return hymt_translate_stream(t);
}


static int
hymt_translate_stream(hymt_translate_t *t)
{
    uint32_t         len, shown;
    const char      *text;
    hymt_event_t     event;
    hymt_client_t   *client;
    hymt_result_t    r;

    client = hymt_session_client(t->session);
    shown = 0;

    do {
        if (hymt_session_next(t->session, 1000, &event) != HYMT_OK) {
            event.kind = HYMT_EVENT_PROGRESS;
            continue;
        }

        hymt_client_text(client, event.slot, &text, &len);

        if (len > shown) {
            fwrite(text + shown, 1, len - shown, stdout);
            fflush(stdout);
            shown = len;
        }
    } while (event.kind != HYMT_EVENT_DONE);

    putchar('\n');

    hymt_client_result(client, event.slot, &r);
    hymt_client_slot_free(client, event.slot);

    if (r.code != HYMT_RESULT_OK) {
        return hymt_failed(&hymt_command_translate, "%s: %s",
                           hymt_result_name(r.code), r.error);
    }

    if (r.finish != HYMT_FINISH_STOP) {
        return hymt_failed(&hymt_command_translate, "the output %s at %" PRIu32
                           " tokens", hymt_translate_cut(r.finish),
                           r.completion_tokens);
    }

    return HYMT_EXIT_OK;
}


/* An engine that has failed serves no further line: the input ends here. */
static void
hymt_translate_failed(hymt_translate_t *t, size_t number, uint32_t code,
    const char *error)
{
    hymt_translate_clear(t);

    t->status = hymt_failed(&hymt_command_translate, "line %zu: %s%s%s",
                            number, hymt_result_name(code),
                            error[0] != '\0' ? ": " : "", error);

    if (code == HYMT_RESULT_FAILED || code == HYMT_RESULT_UNAVAILABLE) {
        t->end = true;
    }
}


static int
hymt_translate_unread(const hymt_translate_t *t)
{
    return hymt_failed(&hymt_command_translate, "can't read %s: %s",
                       t->path != NULL ? t->path : "stdin", strerror(errno));
}


static void
hymt_translate_progress(hymt_translate_t *t)
{
    double    s;
    uint64_t  now;

    now = hymt_now_ns();

    if (!t->terminal || now - t->last_shown < HYMT_PROGRESS_NS) {
        return;
    }

    s = (double) (now - t->started) / 1e9;

    fprintf(stderr, "\r\033[K%zu lines, %.1f a second, %.0f tokens a second",
            t->written, (double) t->written / s, (double) t->tokens / s);
    fflush(stderr);

    t->last_shown = now;
    t->shown = true;
}


static void
hymt_translate_clear(hymt_translate_t *t)
{
    if (t->shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        t->shown = false;
    }
}
