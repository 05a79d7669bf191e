/*
 * hymt_bench.c - hymt bench: how fast a model reads and writes, at several
 * numbers of sentences at once.
 */

#include "arena.h"
#include "hymt_session.h"
#include "hymt_texts.h"
#include "job_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>


#define HYMT_MAX_LEVELS    16
#define HYMT_LEAST_ROUND   16        /* sentences a round, 4 a client */
#define HYMT_LONG_TEXT     1200      /* bytes, for prefill */
#define HYMT_CONTEXT_TEXT  4000      /* some 1,000 tokens */


typedef struct {
    hymt_session_params_t   params;
    const char             *to;
    const char             *from;
    uint32_t                levels[HYMT_MAX_LEVELS];
    uint32_t                n_levels;
    uint64_t                seconds;
    hymt_job_t              job;
    hymt_session_t         *session;
    uint64_t                n_scopes;    /* given out so far */
} hymt_bench_t;


/* What a level has brought. */
typedef struct {
    uint64_t           ns;
    uint64_t           prompt;       /* tokens */
    uint64_t           cached;       /* of those */
    uint64_t           output;
    uint32_t           n;
    uint32_t           capacity;     /* of these two: */
    uint64_t          *first;        /* [n], ns each */
    uint64_t          *total;
    hymt_host_info_t   before;
    hymt_host_info_t   after;
} hymt_level_t;


static int hymt_bench(int argc, char **argv);
static int hymt_bench_options(hymt_bench_t *b, int argc, char **argv);
static hymt_status_t hymt_bench_levels(hymt_bench_t *b, const char *list,
    hymt_error_t *err);
static int hymt_bench_model(hymt_bench_t *b);
static hymt_status_t hymt_bench_run(hymt_bench_t *b, hymt_error_t *err);
static hymt_status_t hymt_bench_prefill(hymt_bench_t *b, hymt_error_t *err);
static hymt_status_t hymt_bench_prefix(hymt_bench_t *b, hymt_error_t *err);
static hymt_status_t hymt_bench_ask(hymt_bench_t *b, uint64_t scope,
    const char *context, const char *text, hymt_level_t *level,
    hymt_error_t *err);
static hymt_status_t hymt_bench_level(hymt_bench_t *b, uint32_t at_once,
    hymt_error_t *err);
static hymt_status_t hymt_bench_rounds(hymt_bench_t *b, uint32_t at_once,
    uint32_t n, hymt_level_t *level, hymt_error_t *err);
static hymt_status_t hymt_bench_round(hymt_bench_t *b, hymt_job_t *jobs,
    hymt_result_t *results, uint32_t n, uint32_t at_once, hymt_level_t *level,
    hymt_error_t *err);
static hymt_status_t hymt_bench_add(hymt_level_t *level,
    const hymt_result_t *result, hymt_error_t *err);
static void hymt_bench_info(hymt_bench_t *b, hymt_host_info_t *info);
static void hymt_bench_print(uint32_t at_once, hymt_level_t *level);
static double hymt_bench_ms(uint64_t *ns, uint32_t n, uint32_t percent);
static int hymt_bench_compare(const void *a, const void *b);


const hymt_command_t  hymt_command_bench = {
    "bench",
    "how fast a model translates, alone and many at once",
    "bench MODEL [OPTION ...]\n"
    "\n"
    "Translates built-in English sentences of some ten words and prints, for\n"
    "each number of them in flight, sentences and output tokens a second,\n"
    "the time and the rows of a step, and how long the first token and the\n"
    "whole sentence took.  Before that, how fast prompts are read, and how\n"
    "long the first token takes after some 1,000 tokens that are new, and\n"
    "where the prefix cache knows them: nothing else here is helped by it.\n"
    "\n"
    "  --at-once LIST    numbers in flight (1,4,16)\n"
    "  --seconds N       at least as long for each (2)\n"
    "  --to LANG         into this language (the model's first but English)\n"
    "  --from LANG       the sentences' language, for the prompt (en)\n"
    HYMT_SESSION_MANUAL,
    hymt_bench
};


static int
hymt_bench(int argc, char **argv)
{
    int            status;
    hymt_bench_t   b;
    hymt_error_t   err;

    memset(&b, 0, sizeof(b));
    hymt_session_defaults(&b.params);
    b.seconds = 2;
    b.from = "en";

    status = hymt_bench_options(&b, argc, argv);

    if (status == HYMT_EXIT_OK) {
        status = hymt_bench_model(&b);
    }

    if (status == HYMT_EXIT_OK
        && (hymt_session_open(&b.params, &hymt_command_bench, &b.session, &err)
            != HYMT_OK
            || hymt_bench_run(&b, &err) != HYMT_OK))
    {
        status = hymt_failed(&hymt_command_bench, "%s", err.text);
    }

    hymt_session_close(b.session);

    return status == HYMT_EXIT_OK ? hymt_flush(&hymt_command_bench) : status;
}


enum {
    HYMT_OPT_AT_ONCE = 1,
    HYMT_OPT_FROM,
    HYMT_OPT_SECONDS,
    HYMT_OPT_TO,
};


static int
hymt_bench_options(hymt_bench_t *b, int argc, char **argv)
{
    int            c;
    hymt_error_t   err;
    hymt_status_t  rc;

    static const struct option  options[] = {
        { "at-once", required_argument, NULL, HYMT_OPT_AT_ONCE },
        { "from", required_argument, NULL, HYMT_OPT_FROM },
        { "seconds", required_argument, NULL, HYMT_OPT_SECONDS },
        { "to", required_argument, NULL, HYMT_OPT_TO },
        HYMT_SESSION_OPTIONS,
        { NULL, 0, NULL, 0 },
    };

    rc = hymt_bench_levels(b, "1,4,16", &err);

    while (rc == HYMT_OK
           && (c = getopt_long(argc, argv, "", options, NULL)) != -1)
    {
        switch (c) {

        case '?':
            return HYMT_EXIT_USAGE;

        case HYMT_OPT_AT_ONCE:
            rc = hymt_bench_levels(b, optarg, &err);
            break;

        case HYMT_OPT_FROM:
            b->from = optarg;
            break;

        case HYMT_OPT_SECONDS:
            rc = hymt_session_number("seconds", optarg, 0, 3600, &b->seconds,
                                     &err);
            break;

        case HYMT_OPT_TO:
            b->to = optarg;
            break;

        default:
            rc = hymt_session_option(&b->params, c, optarg, &err);
        }
    }

    if (rc != HYMT_OK) {
        return hymt_usage(&hymt_command_bench, "%s", err.text);
    }

    if (argc - optind != 1) {
        return hymt_usage(&hymt_command_bench, "one MODEL is needed");
    }

    b->params.model = argv[optind];

    return HYMT_EXIT_OK;
}


static hymt_status_t
hymt_bench_levels(hymt_bench_t *b, const char *list, hymt_error_t *err)
{
    char        *end;
    const char  *p;

    b->n_levels = 0;

    for (p = list; /* void */ ; p = end + 1) {
        b->levels[b->n_levels] = (uint32_t) strtoul(p, &end, 10);

        if (end == p || b->levels[b->n_levels] < 1
            || b->levels[b->n_levels] > 1024 || (*end != ',' && *end != '\0')
            || ++b->n_levels == HYMT_MAX_LEVELS)
        {
            return hymt_fail(err, "--at-once %s: numbers from 1 to 1024 with"
                             " commas between, less than %d of them", list,
                             HYMT_MAX_LEVELS);
        }

        if (*end == '\0') {
            return HYMT_OK;
        }
    }
}


static int
hymt_bench_model(hymt_bench_t *b)
{
    int              i;
    uint32_t         l;
    hymt_error_t     err;
    hymt_lang_set_t  languages;

    if (hymt_session_model(&b->params, NULL, &languages, &b->job.sampling, &err)
        != HYMT_OK)
    {
        return hymt_failed(&hymt_command_bench, "%s", err.text);
    }

    for (i = 0; b->to == NULL && i < HYMT_N_LANGS; i++) {
        if ((languages >> i & 1) != 0
            && strcmp(hymt_langs[i].code, "en") != 0)
        {
            b->to = hymt_langs[i].code;
        }
    }

    if (hymt_session_language(b->to != NULL ? b->to : "en", languages,
                              &b->job.tgt, &err)
        != HYMT_OK
        || hymt_session_language(b->from, languages, &b->job.src, &err)
           != HYMT_OK)
    {
        return hymt_usage(&hymt_command_bench, "%s", err.text);
    }

    for (l = 0; l < b->n_levels; l++) {
        b->params.batch = hymt_max(b->params.batch, b->levels[l]);
    }

    return HYMT_EXIT_OK;
}


static hymt_status_t
hymt_bench_run(hymt_bench_t *b, hymt_error_t *err)
{
    uint32_t          l;
    hymt_host_info_t  info;

    hymt_session_info(b->session, &info);

    printf("%s: %s\n", b->params.model, info.reason);
    printf("ready in %.2f s; %s to %s\n\n", (double) info.load_ns / 1e9,
           hymt_langs[b->job.src].code, hymt_langs[b->job.tgt].code);

    if (hymt_bench_prefill(b, err) != HYMT_OK
        || hymt_bench_prefix(b, err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    printf("\n%9s %12s %13s %10s %11s %9s %8s %8s\n", "in flight",
           "sentences/s", "output tok/s", "ms a step", "rows a step",
           "first ms", "50 % ms", "95 % ms");
    fflush(stdout);

    for (l = 0; l < b->n_levels; l++) {
        if (hymt_bench_level(b, b->levels[l], err) != HYMT_OK) {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


/* One output token each: the time is that of reading. */
static hymt_status_t
hymt_bench_prefill(hymt_bench_t *b, hymt_error_t *err)
{
    char            text[HYMT_LONG_TEXT];
    size_t          i, n;
    hymt_job_t      jobs[4];
    hymt_level_t    level;
    hymt_result_t   results[4];

    for (i = 0, n = 0; n < sizeof(text) - 100; i++) {
        n += (size_t) snprintf(text + n, sizeof(text) - n, "%s ",
                               hymt_texts[i % hymt_nelts(hymt_texts)]);
    }

    for (i = 0; i < hymt_nelts(jobs); i++) {
        jobs[i] = b->job;
        jobs[i].max_tokens = 1;
        jobs[i].part[HYMT_PART_TEXT] = text;
        jobs[i].part_len[HYMT_PART_TEXT] = (uint32_t) n;
    }

    memset(&level, 0, sizeof(level));

    do {
        if (hymt_bench_round(b, jobs, results, hymt_nelts(jobs),
                             hymt_nelts(jobs), &level, err)
            != HYMT_OK)
        {
            free(level.first);
            free(level.total);
            return HYMT_ERROR;
        }
    } while (level.ns < b->seconds * 1000000000);

    printf("prefill: %.0f tokens a second (prompts of %" PRIu64 " tokens)\n",
           (double) level.prompt * 1e9 / (double) level.ns,
           level.prompt / level.n);

    free(level.first);
    free(level.total);

    return HYMT_OK;
}


/*
 * A chat, which every model takes: what was said before, and a sentence.  One
 * output token, so that the time is that of reading.
 */
static hymt_status_t
hymt_bench_prefix(hymt_bench_t *b, hymt_error_t *err)
{
    char              context[HYMT_CONTEXT_TEXT];
    double            first, again;
    size_t            i, n, cap;
    uint64_t          start;
    hymt_level_t      fresh, known;
    hymt_status_t     rc;
    hymt_host_info_t  info;

    /* what fits a small context, too, at two bytes a token */

    hymt_session_info(b->session, &info);
    cap = hymt_min(sizeof(context), (size_t) 2 * info.context) - 100;

    context[0] = '\0';

    for (i = 0, n = 0; n + 100 < cap; i++) {
        n += (size_t) snprintf(context + n, sizeof(context) - n, "%s ",
                               hymt_texts[i % hymt_nelts(hymt_texts)]);
    }

    memset(&fresh, 0, sizeof(fresh));
    memset(&known, 0, sizeof(known));
    start = hymt_now_ns();
    i = 0;

    do {
        b->n_scopes++;

        rc = hymt_bench_ask(b, b->n_scopes, context,
                            hymt_texts[i++ % hymt_nelts(hymt_texts)], &fresh,
                            err);
        if (rc == HYMT_OK) {
            rc = hymt_bench_ask(b, b->n_scopes, context,
                                hymt_texts[i % hymt_nelts(hymt_texts)],
                                &known, err);
        }
    } while (rc == HYMT_OK
             && hymt_now_ns() - start < b->seconds * 1000000000);

    if (rc == HYMT_OK) {
        first = hymt_bench_ms(fresh.first, fresh.n, 50);
        again = hymt_bench_ms(known.first, known.n, 50);

        printf("prefix cache: prompts of %" PRIu64 " tokens: first token after"
               " %.2f ms, after %.2f ms where the first %" PRIu64 " are known"
               " (%.0f %% saved)\n", known.prompt / known.n, first, again,
               known.cached / known.n, 100 - 100 * again / first);
    }

    free(fresh.first);
    free(fresh.total);
    free(known.first);
    free(known.total);

    return rc;
}


static hymt_status_t
hymt_bench_ask(hymt_bench_t *b, uint64_t scope, const char *context,
    const char *text, hymt_level_t *level, hymt_error_t *err)
{
    char           chat[HYMT_CONTEXT_TEXT + 500], content[sizeof(chat) - 100];
    char          *end;
    hymt_job_t     job;
    hymt_turn_t    turn;
    hymt_result_t  result;

    turn.role = HYMT_ROLE_USER;
    turn.content = content;
    turn.len = (size_t) snprintf(content, sizeof(content), "%s\n%s", context,
                                 text);
    end = hymt_turn_write(chat, &turn);

    job = b->job;
    job.scope.word[0] = scope;
    job.max_tokens = 1;
    job.part[HYMT_PART_CHAT] = chat;
    job.part_len[HYMT_PART_CHAT] = (uint32_t) (end - chat);

    if (hymt_session_all(b->session, &job, 1, 1, &result, NULL, err)
        != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (result.code != HYMT_RESULT_OK) {
        return hymt_fail(err, "a chat: %s: %s", hymt_result_name(result.code),
                         result.error);
    }

    return hymt_bench_add(level, &result, err);
}


static hymt_status_t
hymt_bench_level(hymt_bench_t *b, uint32_t at_once, hymt_error_t *err)
{
    hymt_level_t   level;
    hymt_status_t  rc;

    memset(&level, 0, sizeof(level));

    rc = hymt_bench_rounds(b, at_once, hymt_max(4 * at_once, HYMT_LEAST_ROUND),
                           &level, err);
    if (rc == HYMT_OK) {
        hymt_bench_print(at_once, &level);
    }

    free(level.first);
    free(level.total);

    return rc;
}


static hymt_status_t
hymt_bench_rounds(hymt_bench_t *b, uint32_t at_once, uint32_t n,
    hymt_level_t *level, hymt_error_t *err)
{
    uint32_t        i;
    hymt_job_t     *jobs;
    const char     *text;
    hymt_result_t  *results;
    hymt_status_t   rc;

    jobs = calloc(n, sizeof(hymt_job_t));
    results = calloc(n, sizeof(hymt_result_t));
    rc = HYMT_OK;

    if (jobs == NULL || results == NULL) {
        rc = hymt_fail(err, "no memory");
    }

    for (i = 0; rc == HYMT_OK && i < n; i++) {
        text = hymt_texts[i % hymt_nelts(hymt_texts)];
        jobs[i] = b->job;
        jobs[i].sampling.index = i;
        jobs[i].part[HYMT_PART_TEXT] = text;
        jobs[i].part_len[HYMT_PART_TEXT] = (uint32_t) strlen(text);
    }

    hymt_bench_info(b, &level->before);

    while (rc == HYMT_OK
           && (level->n == 0 || level->ns < b->seconds * 1000000000))
    {
        rc = hymt_bench_round(b, jobs, results, n, at_once, level, err);
    }

    hymt_bench_info(b, &level->after);

    free(jobs);
    free(results);

    return rc;
}


static hymt_status_t
hymt_bench_round(hymt_bench_t *b, hymt_job_t *jobs,
    hymt_result_t *results, uint32_t n, uint32_t at_once, hymt_level_t *level,
    hymt_error_t *err)
{
    uint32_t  i;
    uint64_t  start;

    /* a scope each: nothing is known from the rounds before, or beside it */

    for (i = 0; i < n; i++) {
        jobs[i].scope.word[0] = ++b->n_scopes;
    }

    start = hymt_now_ns();

    if (hymt_session_all(b->session, jobs, n, at_once, results, NULL, err)
        != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    level->ns += hymt_now_ns() - start;

    for (i = 0; i < n; i++) {
        if (results[i].code != HYMT_RESULT_OK) {
            return hymt_fail(err, "\"%.40s\": %s: %s", jobs[i].part[0],
                             hymt_result_name(results[i].code),
                             results[i].error);
        }

        if (hymt_bench_add(level, &results[i], err) != HYMT_OK) {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_bench_add(hymt_level_t *level, const hymt_result_t *result,
    hymt_error_t *err)
{
    uint32_t  room;

    room = level->capacity;

    if (!hymt_grow(&level->first, level->n, &room, sizeof(uint64_t))
        || !hymt_grow(&level->total, level->n, &level->capacity,
                      sizeof(uint64_t)))
    {
        return hymt_fail(err, "no memory");
    }

    level->prompt += result->prompt_tokens;
    level->cached += result->cached_tokens;
    level->output += result->completion_tokens;
    level->first[level->n] = result->first_ns;
    level->total[level->n++] = result->total_ns;

    return HYMT_OK;
}


/* The host publishes its figures a moment after its answers. */
static void
hymt_bench_info(hymt_bench_t *b, hymt_host_info_t *info)
{
    struct timespec  ts = { 0, 20000000 };

    nanosleep(&ts, NULL);
    hymt_session_info(b->session, info);
}


static void
hymt_bench_print(uint32_t at_once, hymt_level_t *level)
{
    double    s, steps;
    uint64_t  rows;

    s = (double) level->ns / 1e9;
    steps = (double) hymt_max(level->after.steps - level->before.steps, 1);
    rows = level->after.rows_decode - level->before.rows_decode
           + level->after.rows_prefill - level->before.rows_prefill;

    printf("%9" PRIu32 " %12.1f %13.0f %10.2f %11.1f %9.1f %8.1f %8.1f\n",
           at_once, level->n / s, (double) level->output / s,
           (double) (level->after.step_ns - level->before.step_ns) / 1e6
           / steps, (double) rows / steps,
           hymt_bench_ms(level->first, level->n, 50),
           hymt_bench_ms(level->total, level->n, 50),
           hymt_bench_ms(level->total, level->n, 95));
    fflush(stdout);
}


static double
hymt_bench_ms(uint64_t *ns, uint32_t n, uint32_t percent)
{
    qsort(ns, n, sizeof(uint64_t), hymt_bench_compare);

    return (double) ns[(uint64_t) (n - 1) * percent / 100] / 1e6;
}


static int
hymt_bench_compare(const void *a, const void *b)
{
    uint64_t  x, y;

    x = *(const uint64_t *) a;
    y = *(const uint64_t *) b;

    return x < y ? -1 : x > y;
}
