/*
 * host_test.c - the engine host, asked through an exchange: a tiny checkpoint's
 * tokenizer and prompts, and a backend whose tokens are a hash of the sequence,
 * so that every answer can be computed beforehand.
 */

#include "fixture.h"

#include "fake_backend.h"
#include "host_private.h"

#include <poll.h>
#include <sys/eventfd.h>

#include "tap.h"


#define LANES    2
#define SLOTS    16
#define IN       4000
#define OUT      3000

#define CONTEXT  512

/* far more than anything here takes */
#define PATIENCE  20000


typedef struct {
    bool           done;
    uint32_t       slot;
    uint32_t       progress;     /* events */
    uint32_t       first;        /* bytes at the first of them */
    uint64_t       t_first;
    uint32_t       seen;         /* bytes at the last of them */
    bool           broken;       /* they were not whole UTF-8 */
    hymt_result_t  result;
    char           text[OUT + 1];
} answer_t;


typedef struct {
    uint32_t    lane;
    const char *text;
    uint32_t    len;
    int         src;
    int         tgt;
    uint32_t    max_tokens;
    uint32_t    flags;
    uint64_t    seed;
    uint64_t    within_ms;
    float       top_p;
    float       max_ratio;
    uint32_t    stop;            /* 0: none */
    const char *stops;           /* one stop string, or NULL */
    const char *part[HYMT_N_PARTS];
} ask_t;


static char                    dir[FIXTURE_PATH];
static hymt_exchange_params_t  sizes;
static hymt_exchange_t         ex;
static void                   *mem;
static hymt_host_t            *host;
static hymt_client_t          *client[LANES];
static int                     host_fd, log_fd;
static int                     lane_fd[LANES];
static uint32_t                epochs, states;
static bool                    share;       /* caches of the engine */
static int                     en, fr;


static int
bell_new(void)
{
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}


static void
bell_read(int fd)
{
    uint64_t  n;
    ssize_t   rc;

    rc = read(fd, &n, sizeof(n));
    (void) rc;
}


static void
start_host(const char *model)
{
    hymt_error_t        err;
    hymt_host_params_t  p;

    memset(&p, 0, sizeof(p));
    p.exchange = ex;
    p.own_fd = host_fd;
    p.lane_fds = lane_fd;
    p.engine.model = model;
    p.engine.backend = "auto";
    p.engine.ops = &fake_ops[2];
    p.engine.max_batch = 8;
    p.engine.context = CONTEXT;
    p.engine.prefix_cache = share;
    p.engine.coalesce = share;
    p.family = HYMT_FAMILY_MT15;
    p.log_fd = log_fd;

    if (hymt_host_start(&p, &host, &err) != HYMT_OK) {
        printf("Bail out! host: %s\n", err.text);
        exit(1);
    }
}


static void
set_up(const char *model)
{
    int           i;
    size_t        size;
    hymt_error_t  err;

    sizes = (hymt_exchange_params_t) { LANES, SLOTS, IN,
                                       sizes.out_bytes ? sizes.out_bytes
                                                       : OUT };
    epochs = 0;
    states = 0;

    size = hymt_exchange_size(&sizes);
    mem = aligned_alloc(64, hymt_ceil_div(size, 64) * 64);
    memset(mem, 0, size);
    hymt_exchange_init(&ex, mem, &sizes);

    host_fd = bell_new();
    log_fd = bell_new();

    for (i = 0; i < LANES; i++) {
        lane_fd[i] = bell_new();

        if (hymt_client_open(&ex, (uint32_t) i, lane_fd[i], host_fd,
                             &client[i], &err)
            != HYMT_OK)
        {
            printf("Bail out! client: %s\n", err.text);
            exit(1);
        }
    }

    start_host(model);
}


static void
tear_down(void)
{
    int  i;

    hymt_host_stop(host);
    host = NULL;

    for (i = 0; i < LANES; i++) {
        hymt_client_close(client[i]);
        close(lane_fd[i]);
    }

    close(host_fd);
    close(log_fd);
    free(mem);

    memset(&fake, 0, sizeof(fake));
    fake.vocab = 60;
    sizes.out_bytes = 0;
}


static void
take_event(uint32_t lane, const hymt_event_t *e)
{
    uint32_t     len;
    answer_t    *a;
    const char  *text;

    epochs += e->kind == HYMT_EVENT_EPOCH;
    states += e->kind == HYMT_EVENT_STATE;

    if (e->kind != HYMT_EVENT_PROGRESS && e->kind != HYMT_EVENT_DONE) {
        return;
    }

    a = e->data;
    hymt_client_text(client[lane], e->slot, &text, &len);
    a->broken |= !hymt_utf8_check(text, len, NULL) || len < a->seen;
    a->broken |= strncmp(a->text, text, a->seen) != 0;
    a->seen = len;

    if (e->kind == HYMT_EVENT_PROGRESS) {
        if (a->progress++ == 0) {
            a->first = len;
            a->t_first = hymt_now_ns();
        }

        memcpy(a->text, text, len);
        a->text[len] = '\0';
        return;
    }

    hymt_client_result(client[lane], e->slot, &a->result);
    memcpy(a->text, text, len);
    a->text[len] = '\0';
    a->done = true;
    hymt_client_slot_free(client[lane], e->slot);
}


/* Everything that is there; sleeps a little where nothing is. */
static void
turn(void)
{
    uint32_t       i;
    bool           any;
    hymt_event_t   e;
    struct pollfd  p[LANES];

    any = false;

    for (i = 0; i < LANES; i++) {
        while (hymt_client_poll(client[i], &e) == HYMT_OK) {
            take_event(i, &e);
            any = true;
        }

        any |= hymt_client_arm(client[i]);
        p[i].fd = lane_fd[i];
        p[i].events = POLLIN;
    }

    if (!any) {
        (void) poll(p, LANES, 50);
    }

    for (i = 0; i < LANES; i++) {
        bell_read(lane_fd[i]);
    }
}


static hymt_host_info_t
info(void)
{
    hymt_host_info_t  in;

    hymt_exchange_info(&ex, &in);

    return in;
}


static void
wait_state(uint32_t state)
{
    uint64_t  end;

    end = hymt_now_ns() + PATIENCE * 1000000ull;

    while (info().state != state && hymt_now_ns() < end) {
        turn();
    }

    is_int(info().state, state, "state %u is reached", state);
}


static bool
wait_done(answer_t *a)
{
    uint64_t  end;

    end = hymt_now_ns() + PATIENCE * 1000000ull;

    while (!a->done && hymt_now_ns() < end) {
        turn();
    }

    return a->done;
}


/* Zeros in an ask are an ordinary job from lane 0 into English. */
static answer_t *
ask(ask_t q)
{
    uint32_t       i;
    uint64_t       end;
    hymt_job_t     job;
    answer_t      *a;
    hymt_status_t  rc;

    a = calloc(1, sizeof(answer_t));
    a->result.code = HYMT_N_RESULTS;
    memset(&job, 0, sizeof(job));

    job.src = q.src ? q.src : HYMT_LANG_NONE;
    job.tgt = q.tgt ? q.tgt : en;
    job.max_tokens = q.max_tokens;
    job.flags = q.flags;
    job.sampling.top_p = q.top_p != 0 ? q.top_p : 1;
    job.sampling.repetition_penalty = 1;
    job.sampling.seed = q.seed;
    job.deadline_ns = q.within_ms ? hymt_now_ns() + q.within_ms * 1000000 : 0;
    job.max_ratio = q.max_ratio;
    job.stop[0] = q.stop;
    job.n_stop = q.stop != 0;

    q.part[HYMT_PART_TEXT] = q.text;

    for (i = 0; i < HYMT_N_PARTS; i++) {
        job.part[i] = q.part[i];
        job.part_len[i] = q.part[i] ? (uint32_t) strlen(q.part[i]) : 0;
    }

    /* with its NUL */

    job.part[HYMT_PART_STOPS] = q.stops;
    job.part_len[HYMT_PART_STOPS] = q.stops ? (uint32_t) strlen(q.stops) + 1
                                            : 0;

    job.part_len[HYMT_PART_TEXT] = q.len ? q.len
                                         : job.part_len[HYMT_PART_TEXT];

    end = hymt_now_ns() + PATIENCE * 1000000ull;

    do {
        rc = hymt_client_submit(client[q.lane], &job, a, &a->slot, NULL);

        if (rc == HYMT_AGAIN) {
            turn();
        }
    } while (rc == HYMT_AGAIN && hymt_now_ns() < end);

    if (rc != HYMT_OK) {
        ok(false, "a job is taken");
    }

    return a;
}


/* What the host must answer to a job without limits of its own. */
static void
expect(const char *text, uint64_t seed, uint32_t max_tokens, char *want,
    uint32_t *n_tokens)
{
    bool                   guessed;
    size_t                 n, n_text, w, at;
    uint32_t               ids[CONTEXT], out[CONTEXT], i, j, n_stop, cap;
    hymt_detok_t           d;
    hymt_config_t          config;
    hymt_encoder_t        *enc;
    hymt_prompter_t       *prompter;
    hymt_sampling_t        s;
    const uint32_t        *stop;
    hymt_tokenizer_t      *tok;
    hymt_prompt_params_t   pp;
    hymt_prompt_request_t  r;

    memset(&pp, 0, sizeof(pp));
    memset(&s, 0, sizeof(s));
    memset(&r, 0, sizeof(r));
    pp.family = HYMT_FAMILY_MT15;
    s.seed = seed;
    r.src = HYMT_LANG_NONE;
    r.tgt = en;
    r.text = text;
    r.len = strlen(text);

    if (hymt_config_read(dir, &config, NULL) != HYMT_OK
        || hymt_tokenizer_load(dir, &tok, NULL) != HYMT_OK
        || hymt_prompt_detect(dir, &config, &pp, &guessed, NULL) != HYMT_OK
        || hymt_prompter_create(tok, &config, &pp, &prompter, NULL) != HYMT_OK
        || hymt_encoder_create(tok, &enc, NULL) != HYMT_OK
        || hymt_prompt_build(prompter, enc, &r, ids, CONTEXT, &n, &n_text,
                             NULL)
           != HYMT_OK)
    {
        ok(false, "a prompt is built");
        return;
    }

    stop = hymt_prompter_stops(prompter, &n_stop);
    cap = max_tokens ? max_tokens : (uint32_t) (4 * n_text + 128);
    cap = hymt_min(cap, CONTEXT - (uint32_t) n);
    hymt_detok_init(&d);
    at = 0;

    for (i = 0; i < cap; i++) {
        out[i] = fake_next(&s, ids, (uint32_t) n, out, i, config.vocab);

        for (j = 0; j < n_stop && stop[j] != out[i]; j++) { /* void */ }

        if (j < n_stop) {
            break;
        }

        (void) hymt_detok_push(tok, &d, out[i], want + at, OUT - at, &w);
        at += w;
    }

    (void) hymt_detok_end(&d, want + at, OUT - at, &w);
    want[at + w] = '\0';
    *n_tokens = i;

    hymt_encoder_free(enc);
    hymt_prompter_free(prompter);
    hymt_tokenizer_free(tok);
}


static void
refused(ask_t q, uint32_t code, const char *error)
{
    answer_t  *a;

    a = ask(q);

    if (!wait_done(a)) {
        ok(false, "a wrong job is answered");
        return;
    }

    is_int(a->result.code, code, "%s", error);
    has_str(a->result.error, error, "the error says so");
    is_int(a->result.text_len, 0, "no text");
    free(a);
}


static void
test_answer(void)
{
    char       want[OUT + 1];
    uint32_t   n;
    answer_t  *a;

    set_up(dir);

    a = ask((ask_t) { .text = "Good morning." });
    ok(wait_done(a), "a job is answered");
    expect("Good morning.", 0, 0, want, &n);

    is_int(a->result.code, HYMT_RESULT_OK, "OK");
    is_str(a->result.error, "", "no error");
    is_str(a->text, want, "with its text");
    is_int(a->result.text_len, strlen(want), "its length");
    is_int(a->result.completion_tokens, n, "its tokens");
    ok(a->result.prompt_tokens > 13, "prompt tokens (%u)",
       a->result.prompt_tokens);
    is_int(a->result.batch, 1, "alone in its steps");
    is_int(a->progress, 0, "no progress where none was asked for");
    ok(a->result.queue_ns > 0 && a->result.queue_ns <= a->result.first_ns
       && a->result.first_ns <= a->result.total_ns, "times in their order");
    free(a);

    a = ask((ask_t) { .text = "Good morning.", .max_tokens = 5, .seed = 9 });
    (void) wait_done(a);
    expect("Good morning.", 9, 5, want, &n);
    is_int(a->result.code, HYMT_RESULT_OK, "max_tokens");
    is_int(a->result.completion_tokens, 5, "is held");
    is_int(a->result.finish, HYMT_FINISH_LENGTH, "and shown");
    is_str(a->text, want, "the seed counts");
    free(a);

    is_int(info().state, HYMT_HOST_READY, "ready");
    is_int(info().context, CONTEXT, "context");
    ok(info().rows_decode > 0 && info().load_ns > 0, "figures");
    has_str(info().reason, "max_batch 8", "and what it runs on");
    is_str(fake.fault, "", "no promise to the backend was broken");

    tear_down();
}


static void
test_stream(void)
{
    answer_t  *a;

    fake.ns_step = 2000000;
    set_up(dir);

    a = ask((ask_t) { .text = "Word by word.", .flags = HYMT_JOB_STREAM,
                      .max_tokens = 40 });
    ok(wait_done(a), "a streaming job is answered");
    is_int(a->result.code, HYMT_RESULT_OK, "OK");
    ok(a->progress > 3, "text comes as it is made (%u times)", a->progress);
    ok(!a->broken, "always whole code points, never less than before");
    is_int(a->seen, a->result.text_len, "at the end all of it");
    free(a);

    tear_down();
}


/*
 * Two workers ask the same, streaming; the first one dies in the middle.  The
 * second has all of the text, from its beginning, and little was computed.
 */
static void
test_coalesced(void)
{
    int        fd;
    uint64_t   steps;
    answer_t  *a, *b, *c;

    static const char  text[] = "abcdefghijklmnopqrstuvwxyz0123456789";

    share = true;
    fake.script = text;
    fake.ns_step = 5000000;
    set_up(dir);
    wait_state(HYMT_HOST_READY);

    a = ask((ask_t) { .text = "The same.", .flags = HYMT_JOB_STREAM,
                      .max_tokens = 72 });

    while (a->seen < 9 && !a->done) {
        turn();
    }

    b = ask((ask_t) { .text = "The same.", .flags = HYMT_JOB_STREAM,
                      .max_tokens = 72, .lane = 1 });
    c = ask((ask_t) { .text = "The same.", .max_tokens = 72, .lane = 1,
                      .flags = HYMT_JOB_LOOPS });

    while (b->progress == 0 && !b->done) {
        turn();
    }

    ok(b->first >= 9, "who comes late has at once what there is (%u bytes)",
       b->first);
    is_int(info().running, 1, "one sequence runs");

    /* a worker that dies comes again under the same number */

    hymt_client_close(client[0]);
    fd = lane_fd[0];
    (void) hymt_client_open(&ex, 0, fd, host_fd, &client[0], NULL);

    ok(wait_done(b), "the other one is answered");
    ok(wait_done(c), "and one that does not stream");
    is_int(b->result.code, HYMT_RESULT_OK, "OK");
    is_int(b->result.completion_tokens, 72, "with all tokens");
    ok(strncmp(b->text, text, 36) == 0 && strcmp(b->text + 36, text) == 0,
       "in order");
    ok(!b->broken, "each progress a beginning of the next");
    is_int(b->result.coalesced, 1, "it is told that it followed");
    is_int(c->result.text_len, 72, "the other has the same text");
    ok(!a->done, "the dead one has no answer");

    steps = info().steps;
    ok(steps < 72 + 15, "72 tokens in %u steps", (uint32_t) steps);
    is_int((int) info().coalesced, 2, "two of three were not computed");

    free(a);
    free(b);
    free(c);

    /* a loop ends those that do not want one, and no other */

    fake.script = "la ";
    a = ask((ask_t) { .text = "Loop.", .max_tokens = 300 });
    b = ask((ask_t) { .text = "Loop.", .max_tokens = 300,
                      .flags = HYMT_JOB_LOOPS });
    c = ask((ask_t) { .text = "Loop.", .max_tokens = 300, .lane = 1 });
    fake.ns_step = 200000;
    (void) wait_done(a);
    (void) wait_done(b);
    (void) wait_done(c);
    is_int(a->result.finish, HYMT_FINISH_LOOP, "the guard ends one");
    is_int(c->result.finish, HYMT_FINISH_LOOP, "and another");
    is_str(a->text, c->text, "at the same place");
    is_int(b->result.finish, HYMT_FINISH_LENGTH, "who has none goes on");
    is_int(b->result.completion_tokens, 300, "to its cap");

    free(a);
    free(b);
    free(c);
    tear_down();
    share = false;
}


/* code points one by one, each when its last byte comes */
static void
test_stream_first(void)
{
    uint64_t         start, late;
    answer_t        *a;
    struct timespec  ts = { .tv_nsec = 300000000 };

    static const char  script[] = "l\xc3\xa9t\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd"
                                  " \xf0\x9f\x98\x80 fin.";

    fake.ns_step = 10000000;
    fake.script = script;
    fake.script_end = FIXTURE_EOS;
    set_up(dir);
    wait_state(HYMT_HOST_READY);

    start = hymt_now_ns();
    a = ask((ask_t) { .text = "Summer.", .flags = HYMT_JOB_STREAM });
    ok(wait_done(a), "a streaming job is answered");
    is_str(a->text, script, "with its text");
    is_int(a->result.finish, HYMT_FINISH_STOP, "to its end");
    ok(a->first >= 1 && a->first <= 5, "its first progress is its first"
       " letters (%u bytes)", a->first);
    ok(a->progress >= 4 && a->progress <= 18, "no progress without text (%u"
       " events)", a->progress);
    ok(!a->broken, "whole code points, each a beginning of the next");

    late = a->t_first - start;
    ok(late >= a->result.first_ns, "not before the first token");
    printf("# first token after %u us, first text seen %u us later\n",
           (uint32_t) (a->result.first_ns / 1000),
           (uint32_t) ((late - a->result.first_ns) / 1000));
    free(a);

    /* a reader that sleeps finds one event and all there is, costs nobody */

    fake.script = "abcdefghijklmnopqrstuvwxyz0123456789";
    fake.script_end = 0;
    fake.ns_step = 2000000;
    a = ask((ask_t) { .text = "x", .flags = HYMT_JOB_STREAM,
                      .max_tokens = 120 });

    while (a->progress == 0 && !a->done) {
        turn();
    }

    a->progress = 0;

    do {
        nanosleep(&ts, NULL);
    } while (info().running != 0);

    ok(wait_done(a), "it ends while its reader sleeps");
    ok(a->progress <= 1, "one event waits at most (%u)", a->progress);
    is_int(strlen(a->text), 120, "and all of the text");
    ok(!a->broken, "in order");
    free(a);

    tear_down();
}


static void
test_parts(void)
{
    char       prompt[1024];
    answer_t  *a;

    fake.script = "ok";
    fake.script_end = FIXTURE_EOS;
    set_up(dir);

    a = ask((ask_t) { .text = "Hi", .tgt = fr,
                      .part[HYMT_PART_CONTEXT] = "By the river.\n",
                      .part[HYMT_PART_TERMS] = "bank\trive\nbus\tcar\n" });
    (void) wait_done(a);
    strcpy(prompt, "参考下面的翻译：\nbank 翻译成 rive\nbus 翻译成 car\n\n"
           "By the river.\n\n参考上面的信息，把下面的文本翻译成法语，"
           "注意不需要翻译上文，也不要额外解释：\nHi\n");
    is_int(a->result.code, HYMT_RESULT_OK, "terms and context");
    is_int(a->result.prompt_tokens, strlen(prompt) + 3, "are in the prompt");
    is_str(a->text, "ok", "and answered");
    free(a);

    a = ask((ask_t) { .text = "", .tgt = 99,
                      .part[HYMT_PART_CHAT] = "u 2\nHia 2\nHou 5\nThen?" });
    (void) wait_done(a);
    is_int(a->result.code, HYMT_RESULT_OK, "a chat, whatever the languages");
    is_int(a->result.prompt_tokens, 1 + 3 + 4 + 6 + 1, "is all of the prompt");
    free(a);

    fake.script = "one two three four five";
    a = ask((ask_t) { .text = "", .max_tokens = 23,
                      .part[HYMT_PART_CHAT] = "u 2\nHi", .stops = "o t" });
    (void) wait_done(a);
    is_int(a->result.code, HYMT_RESULT_OK, "a chat with a stop string");
    is_int(a->result.finish, HYMT_FINISH_STOP, "ends there");
    is_int(a->result.completion_tokens, 9, "and computes no further");
    is_str(a->text, "one two t", "with the stop string in it");
    free(a);

    a = ask((ask_t) { .text = "", .max_tokens = 23,
                      .part[HYMT_PART_CHAT] = "u 2\nHi", .stops = "O t" });
    (void) wait_done(a);
    is_str(a->text, "one two three four five", "a stop string never seen");
    free(a);

    fake.script = "ok";

    refused((ask_t) { .text = "x", .part[HYMT_PART_STYLE] = "formal" },
            HYMT_RESULT_BAD_INPUT, "mt1.5 have no prompt for style");
    refused((ask_t) { .text = "x", .part[HYMT_PART_TERMS] = "a\tb" },
            HYMT_RESULT_BAD_INPUT, "term 1 is not");
    refused((ask_t) { .text = "x", .part[HYMT_PART_TERMS] = "a\tb\x01\n" },
            HYMT_RESULT_BAD_INPUT, "term 1 has a control character");
    refused((ask_t) { .text = "x", .part[HYMT_PART_CONTEXT] = "\xff" },
            HYMT_RESULT_BAD_INPUT, "UTF-8 at byte 0 of the context");
    refused((ask_t) { .text = "x", .part[HYMT_PART_CHAT] = "u 2\nHi" },
            HYMT_RESULT_BAD_INPUT, "a chat brings its own prompt");
    refused((ask_t) { .text = "", .part[HYMT_PART_CHAT] = "u 2\nHi",
                      .flags = HYMT_JOB_FORMATTED },
            HYMT_RESULT_BAD_INPUT, "a chat brings its own prompt");
    refused((ask_t) { .text = "", .part[HYMT_PART_CHAT] = "u 3\nHi" },
            HYMT_RESULT_BAD_INPUT, "message 1 is not");
    refused((ask_t) { .text = "",
                      .part[HYMT_PART_CHAT] = "s 2\nHiu 2\nHi" },
            HYMT_RESULT_BAD_INPUT, "message 1 can't be told to the model");
    refused((ask_t) { .text = "x", .max_ratio = NAN },
            HYMT_RESULT_BAD_INPUT, "max_ratio nan is not between");
    refused((ask_t) { .text = "x", .max_ratio = -1 },
            HYMT_RESULT_BAD_INPUT, "max_ratio -1 is not between");
    refused((ask_t) { .text = "x", .max_ratio = 1e9f },
            HYMT_RESULT_BAD_INPUT, "is not between 0 and 100");

    tear_down();
}


static void
test_ends(void)
{
    answer_t  *a;

    fake.script = "one, two; three";
    fake.script_end = FIXTURE_EOS;
    set_up(dir);
    wait_state(HYMT_HOST_READY);

    a = ask((ask_t) { .text = "x", .stop = ';' });
    (void) wait_done(a);
    is_str(a->text, "one, two", "a job's own end token ends it");
    is_int(a->result.finish, HYMT_FINISH_STOP, "as a stop");
    free(a);

    a = ask((ask_t) { .text = "x", .stop = 4000000000 });
    (void) wait_done(a);
    is_str(a->text, "one, two; three", "one that never comes does not");
    free(a);

    fake.script = "<target>a <s1>b</s1></target>";
    a = ask((ask_t) { .text = "x <s1>y</s1>",
                      .flags = HYMT_JOB_FORMATTED | HYMT_JOB_STREAM });
    (void) wait_done(a);
    is_str(a->text, "a <s1>b</s1>", "a formatted text is unwrapped");
    is_int(a->result.text_len, 12, "its length too");
    is_int(a->progress, 0, "nothing was shown before");
    free(a);

    tear_down();
}


static void
test_caps(void)
{
    int        th;
    size_t     i;
    answer_t  *a;

    const struct {
        float     ratio;
        bool      thai;
        uint32_t  want;
    } cases[] = {
        { 0, false, 4 * 20 + 128 },
        { 0, true, 8 * 20 + 128 },
        { 0.5f, true, 10 + 128 },
        { 2.5f, false, 50 + 128 },
    };

    th = hymt_lang_find("th", 2);
    fake.script = "abcdefghijklmnopqrstuvwxyz";
    set_up(dir);
    wait_state(HYMT_HOST_READY);

    for (i = 0; i < hymt_nelts(cases); i++) {
        a = ask((ask_t) { .text = "twenty bytes of text",
                          .tgt = cases[i].thai ? th : fr,
                          .max_ratio = cases[i].ratio,
                          .flags = HYMT_JOB_LOOPS });
        (void) wait_done(a);
        is_int(a->result.completion_tokens, cases[i].want,
               "a cap of %g tokens for each of the text's",
               (double) cases[i].ratio);
        is_int(a->result.finish, HYMT_FINISH_LENGTH, "and that is said");
        free(a);
    }

    tear_down();
}


static void
test_loops(void)
{
    uint32_t   i;
    answer_t  *a[3], *b;

    fake.script = "ha ";
    set_up(dir);
    wait_state(HYMT_HOST_READY);

    for (i = 0; i < 3; i++) {
        fake.ns_step = i * 500000;
        a[i] = ask((ask_t) { .text = "What do you say?",
                             .flags = i == 1 ? HYMT_JOB_STREAM : 0 });
        (void) wait_done(a[i]);
    }

    is_int(a[0]->result.code, HYMT_RESULT_OK, "an output that loops");
    is_int(a[0]->result.finish, HYMT_FINISH_LOOP, "ends as a loop");
    ok(a[0]->result.completion_tokens >= 33
       && a[0]->result.completion_tokens < 60, "soon (%u tokens)",
       a[0]->result.completion_tokens);
    is_int(a[0]->result.text_len, a[0]->result.completion_tokens,
           "with the text so far");
    is_str(a[1]->text, a[0]->text, "at the same place, streaming");
    is_str(a[2]->text, a[0]->text, "or slow");

    b = ask((ask_t) { .text = "What do you say?", .flags = HYMT_JOB_LOOPS });
    (void) wait_done(b);
    is_int(b->result.finish, HYMT_FINISH_LENGTH, "unless that is asked for");
    free(b);

    b = ask((ask_t) { .text = "hi hi hi hi hi hi hi hi hi hi hi hi hi hi hi hi"
                              " hi hi hi hi", .max_tokens = 66 });
    (void) wait_done(b);
    is_int(b->result.finish, HYMT_FINISH_LENGTH, "or the text repeats too");
    free(b);

    for (i = 0; i < 3; i++) {
        free(a[i]);
    }

    tear_down();
}


static void
test_refusals(void)
{
    char  text[IN + 1];

    set_up(dir);

    refused((ask_t) { .text = "good\xc3\x28" }, HYMT_RESULT_BAD_INPUT,
            "not UTF-8 at byte 4");
    refused((ask_t) { .text = "" }, HYMT_RESULT_BAD_INPUT,
            "the text is empty");
    refused((ask_t) { .text = "x", .tgt = 99 }, HYMT_RESULT_BAD_INPUT,
            "target language 99 is none of 0 to 37");
    refused((ask_t) { .text = "x", .tgt = -5 }, HYMT_RESULT_BAD_INPUT,
            "target language -5");
    refused((ask_t) { .text = "x", .src = INT32_MIN }, HYMT_RESULT_BAD_INPUT,
            "source language -2147483648");
    refused((ask_t) { .text = "x", .top_p = 7 }, HYMT_RESULT_BAD_INPUT,
            "top_p");
    refused((ask_t) { .text = "x", .top_p = NAN }, HYMT_RESULT_BAD_INPUT,
            "top_p");

    memset(text, 'x', sizeof(text));
    text[IN] = '\0';
    refused((ask_t) { .text = text }, HYMT_RESULT_TOO_LONG,
            "the text is 4000 tokens; the context of 512 leaves room for");
    is_int(info().state, HYMT_HOST_READY, "the host is none the worse");

    tear_down();
}


static void
test_languages(void)
{
    set_up(dir);
    fixture_write(dir, "hymt.json", "{\"languages\": [\"en\", \"de\"]}");
    tear_down();

    set_up(dir);
    refused((ask_t) { .text = "x", .tgt = fr }, HYMT_RESULT_BAD_INPUT,
            "does not know French as a target language; it knows en");
    refused((ask_t) { .text = "x", .src = fr }, HYMT_RESULT_BAD_INPUT,
            "does not know French as a source language");
    tear_down();

    fixture_write(dir, "hymt.json", "{}");
}


static void
test_longest(void)
{
    char       text[IN + 1];
    uint32_t   room;
    answer_t  *a;

    set_up(dir);

    memset(text, 'x', sizeof(text));
    text[CONTEXT] = '\0';

    a = ask((ask_t) { .text = text });
    (void) wait_done(a);
    is_int(a->result.code, HYMT_RESULT_TOO_LONG, "a text of the context's size"
           " does not fit");
    room = (uint32_t) atoi(strstr(a->result.error, "room for ")
                           ? strstr(a->result.error, "room for ") + 9 : "0");
    ok(room > 100 && room < CONTEXT, "its error names a size (%u)", room);
    free(a);

    text[room] = '\0';
    a = ask((ask_t) { .text = text });
    (void) wait_done(a);
    is_int(a->result.code, HYMT_RESULT_OK, "a text of that size does");
    ok(a->result.prompt_tokens + a->result.completion_tokens <= CONTEXT,
       "%u + %u tokens", a->result.prompt_tokens,
       a->result.completion_tokens);
    free(a);

    text[room] = 'x';
    text[room + 1] = '\0';
    a = ask((ask_t) { .text = text });
    (void) wait_done(a);
    is_int(a->result.code, HYMT_RESULT_TOO_LONG, "one token more does not");
    free(a);

    a = ask((ask_t) { .text = text, .max_tokens = 1 });
    (void) wait_done(a);
    is_int(a->result.code, HYMT_RESULT_OK, "unless less output is asked for");
    free(a);

    tear_down();
}


static void
test_arena_full(void)
{
    char       want[OUT + 1];
    uint32_t   n;
    uint64_t   seed;
    answer_t  *a;

    for (seed = 0, n = 0; n < 60; seed++) {
        expect("More than it holds.", seed, 0, want, &n);
    }

    sizes.out_bytes = 40;
    set_up(dir);

    a = ask((ask_t) { .text = "More than it holds.", .seed = seed - 1 });
    (void) wait_done(a);
    is_int(a->result.code, HYMT_RESULT_OK, "a full arena is no fault");
    is_int(a->result.finish, HYMT_FINISH_LENGTH, "but a length");
    ok(a->result.text_len > 10 && a->result.text_len <= 40, "within it (%u)",
       a->result.text_len);
    ok(!a->broken, "whole code points");
    ok(strncmp(a->text, want, a->result.text_len) == 0, "the beginning of all");
    free(a);

    tear_down();
}


static void
test_loading(void)
{
    uint32_t   i;
    answer_t  *a[4];

    fake.create_ms = 400;
    set_up(dir);

    for (i = 0; i < 4; i++) {
        a[i] = ask((ask_t) { .text = i == 3 ? "\xff" : "x",
                             .within_ms = i == 1 ? 50 : 0,
                             .max_tokens = 3 });
    }

    hymt_client_cancel(client[0], a[2]->slot);

    ok(wait_done(a[1]), "a deadline is kept while the model loads");
    is_int(a[1]->result.code, HYMT_RESULT_TIMEOUT, "with TIMEOUT");
    has_str(a[1]->result.error, "loading", "and the cause");
    is_int(info().state, HYMT_HOST_LOADING, "it still loads");

    for (i = 0; i < 5 && info().waiting != 2; i++) {
        turn();
    }

    is_int(info().waiting, 2, "two wait");
    ok(!a[0]->done, "unanswered");

    ok(wait_done(a[0]) && wait_done(a[3]), "they are answered when ready");
    is_int(a[0]->result.code, HYMT_RESULT_OK, "the good one");
    is_int(a[3]->result.code, HYMT_RESULT_BAD_INPUT, "the bad one");
    ok(a[0]->result.queue_ns > 100000000, "its wait counts (%u ms)",
       (uint32_t) (a[0]->result.queue_ns / 1000000));
    ok(!a[2]->done, "the canceled one is not heard of");
    is_int(hymt_client_slots_free(client[0]), SLOTS, "but its slot is free");
    ok(states >= LANES, "clients are told of the state");

    for (i = 0; i < 4; i++) {
        free(a[i]);
    }

    tear_down();
}


static void
find_log(hymt_log_level_t level, const char *part)
{
    bool               found;
    char               line[1024], all[4096];
    hymt_log_level_t   l;

    found = false;
    all[0] = '\0';

    while (hymt_host_log(host, &l, line, sizeof(line)) == HYMT_OK) {
        found |= l == level && strstr(line, part) != NULL;
        strncat(all, line, sizeof(all) - strlen(all) - 1);
        strncat(all, "\n", sizeof(all) - strlen(all) - 1);
    }

    ok(found, "the log says \"%s\"", part);

    if (!found) {
        printf("# log: %s\n", all);
    }
}


static void
test_failed_loads(void)
{
    char       path[FIXTURE_PATH + 32], away[FIXTURE_PATH + 32];
    answer_t  *a, *b;

    fake.create_fails = true;
    fake.create_ms = 200;
    set_up(dir);
    a = ask((ask_t) { .text = "waits" });
    wait_state(HYMT_HOST_FAILED);
    (void) wait_done(a);
    is_int(a->result.code, HYMT_RESULT_UNAVAILABLE, "what waited is answered");
    has_str(a->result.error, "told to fail", "with the reason");
    has_str(info().reason, "told to fail", "which everybody may read");

    b = ask((ask_t) { .text = "late" });
    (void) wait_done(b);
    is_int(b->result.code, HYMT_RESULT_UNAVAILABLE, "so is what comes later");
    find_log(HYMT_LOG_ERROR, "told to fail");
    free(a);
    free(b);
    tear_down();

    snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
    snprintf(away, sizeof(away), "%s/tokenizer.away", dir);
    rename(path, away);
    fake.create_ms = 100;
    set_up(dir);
    wait_state(HYMT_HOST_FAILED);
    has_str(info().reason, "tokenizer.json", "a missing tokenizer is named");
    refused((ask_t) { .text = "x" }, HYMT_RESULT_UNAVAILABLE,
            "tokenizer.json");
    tear_down();
    rename(away, path);

    set_up("/nonexistent/model");
    wait_state(HYMT_HOST_FAILED);
    has_str(info().reason, "/nonexistent/model", "so is a missing model");
    tear_down();
}


static void
test_failed_step(void)
{
    answer_t  *a;

    fake.ns_step = 1000000;
    set_up(dir);
    wait_state(HYMT_HOST_READY);
    fake.launch_fails_at = fake.launched + 10;

    a = ask((ask_t) { .text = "in the middle" });
    (void) wait_done(a);
    is_int(a->result.code, HYMT_RESULT_FAILED, "what ran has failed");
    ok(a->result.error[0] != '\0', "with a reason (%s)", a->result.error);
    free(a);

    wait_state(HYMT_HOST_FAILED);
    refused((ask_t) { .text = "next" }, HYMT_RESULT_UNAVAILABLE, "");
    find_log(HYMT_LOG_ERROR, "");

    tear_down();
}


static void
test_running(void)
{
    uint64_t   end;
    answer_t  *a, *b;

    fake.ns_step = 5000000;
    set_up(dir);
    wait_state(HYMT_HOST_READY);

    a = ask((ask_t) { .text = "out of time", .max_tokens = 300,
                      .within_ms = 60 });
    b = ask((ask_t) { .text = "given up", .max_tokens = 300, .lane = 1,
                      .flags = HYMT_JOB_STREAM });

    while (b->progress == 0 && !b->done) {
        turn();
    }

    hymt_client_cancel(client[1], b->slot);

    ok(wait_done(a), "a deadline ends what runs");
    is_int(a->result.code, HYMT_RESULT_TIMEOUT, "with TIMEOUT");
    ok(a->result.total_ns > 55000000 && a->result.total_ns < 2000000000,
       "in time (%u ms)", (uint32_t) (a->result.total_ns / 1000000));

    end = hymt_now_ns() + PATIENCE * 1000000ull;

    while (hymt_client_slots_free(client[1]) < SLOTS && hymt_now_ns() < end) {
        turn();
    }

    is_int(hymt_client_slots_free(client[1]), SLOTS, "a cancel frees the slot");
    ok(!b->done, "without another word");
    is_int(hymt_exchange_in_flight(&ex), 0, "nothing is in flight");

    while (info().running > 0 && hymt_now_ns() < end) {
        turn();
    }

    is_int(info().running, 0, "nothing runs");

    free(a);
    free(b);
    tear_down();
}


/* A step that takes long is seen from outside; so is its end. */
static void
test_stuck(void)
{
    uint64_t          end, patience;
    answer_t         *a;
    hymt_host_info_t  in;

    patience = 300 * 1000000ull;

    set_up(dir);
    wait_state(HYMT_HOST_READY);

    in = info();
    is_int(in.work_ns, 0, "no work");

    fake.ns_step = 1500 * 1000000ull;

    a = ask((ask_t) { .text = "Good morning.", .max_tokens = 1 });
    end = hymt_now_ns() + PATIENCE * 1000000ull;

    do {
        in = info();
    } while (!hymt_exchange_stuck(&in, hymt_now_ns(), patience)
             && !a->done && hymt_now_ns() < end);

    ok(hymt_exchange_stuck(&in, hymt_now_ns(), patience), "stuck");
    ok(in.work_ns != 0, "while it has work");

    (void) wait_done(a);
    fake.ns_step = 0;
    free(a);

    /* figures are published one by one */

    do {
        in = info();
    } while ((in.work_ns != 0 || in.step_max_ns < 1000 * 1000000ull
              || in.batch_count[0] != in.steps || in.step_seqs != in.steps)
             && hymt_now_ns() < end);

    is_int(in.work_ns, 0, "no work again");
    ok(!hymt_exchange_stuck(&in, hymt_now_ns(), PATIENCE * 1000000ull),
       "and not stuck");
    ok(in.step_max_ns >= 1000 * 1000000ull, "the longest step: %g s",
       (double) in.step_max_ns / 1e9);
    is_int(in.step_count[13] + in.step_count[14] + in.step_count[15], 1,
           "is counted where it belongs");
    is_int(in.batch_count[0], in.steps, "alone in each");
    is_int(in.step_seqs, in.steps, "of the steps");

    tear_down();
}


static void
test_stop(void)
{
    uint32_t   i;
    uint64_t   start;
    answer_t  *a[SLOTS];

    fake.ns_step = 10000000;
    set_up(dir);
    wait_state(HYMT_HOST_READY);

    for (i = 0; i < SLOTS; i++) {
        a[i] = ask((ask_t) { .text = "cut short", .max_tokens = 300 });
    }

    start = hymt_now_ns();
    hymt_host_stop(host);
    host = NULL;
    ok(hymt_now_ns() - start < 1000000000, "a stop takes a moment (%u ms)",
       (uint32_t) ((hymt_now_ns() - start) / 1000000));

    for (i = 0; i < SLOTS; i++) {
        ok(wait_done(a[i])
           && a[i]->result.code == HYMT_RESULT_UNAVAILABLE,
           "job %u is answered UNAVAILABLE (%u)", i, a[i]->result.code);
        has_str(a[i]->result.error, "stopping", "with the cause");
        free(a[i]);
    }

    is_int(info().state, HYMT_HOST_STOPPED, "stopped");
    is_int(fake.backends, 0, "nothing is left of the backend");

    /* the next one on the same exchange */

    fake.ns_step = 0;
    start_host(dir);
    wait_state(HYMT_HOST_READY);
    turn();
    is_int(epochs, LANES, "the next host's epoch is told to each client");
    a[0] = ask((ask_t) { .text = "again", .max_tokens = 3 });
    ok(wait_done(a[0]) && a[0]->result.code == HYMT_RESULT_OK, "it serves");
    free(a[0]);

    /* while it loads */

    hymt_host_stop(host);
    fake.create_ms = 60000;
    start_host(dir);
    start = hymt_now_ns();
    tear_down();
    ok(hymt_now_ns() - start < 2000000000, "a stop ends loading (%u ms)",
       (uint32_t) ((hymt_now_ns() - start) / 1000000));
}


static void
test_many(void)
{
    char       text[40], want[OUT + 1];
    uint32_t   i, n, same, batch;
    answer_t  *a[40];

    fake.ns_step = 200000;
    set_up(dir);

    for (i = 0; i < 40; i++) {
        snprintf(text, sizeof(text), "sentence number %u", i * 37);
        a[i] = ask((ask_t) { .lane = i % LANES, .text = text, .seed = i,
                             .flags = i % 3 ? 0 : HYMT_JOB_STREAM,
                             .max_tokens = 20 + i % 50 });
    }

    for (i = 0, same = 0, batch = 0; i < 40; i++) {
        snprintf(text, sizeof(text), "sentence number %u", i * 37);
        expect(text, i, 20 + i % 50, want, &n);
        same += wait_done(a[i]) && strcmp(a[i]->text, want) == 0
                && !a[i]->broken;
        batch = hymt_max(batch, a[i]->result.batch);
        free(a[i]);
    }

    is_int(same, 40, "every text is the one it would be alone");
    is_int(batch, 8, "though they ran together");
    is_str(fake.fault, "", "no promise to the backend was broken");

    tear_down();
}


static void
test_log(void)
{
    int                i;
    char               line[100], want[100];
    struct pollfd      p;
    hymt_log_level_t   level;

    set_up(dir);
    wait_state(HYMT_HOST_READY);

    p.fd = log_fd;
    p.events = POLLIN;
    ok(poll(&p, 1, 0) == 1, "the log rings its bell");
    find_log(HYMT_LOG_NOTICE, "loading ");

    for (i = 0; i < HYMT_LOG_LINES + 6; i++) {
        hymt_host_say(host, HYMT_LOG_INFO, "line %d", i);
    }

    is_int(hymt_host_log(host, &level, line, sizeof(line)), HYMT_OK, "a log");
    is_str(line, "6 older lines were dropped", "too much drops the oldest");

    (void) hymt_host_log(host, &level, line, sizeof(line));
    is_str(line, "line 6", "the rest is there");
    is_int(level, HYMT_LOG_INFO, "with its level");

    for (i = 1; i < HYMT_LOG_LINES; i++) {
        (void) hymt_host_log(host, &level, line, sizeof(line));
    }

    snprintf(want, sizeof(want), "line %d", HYMT_LOG_LINES + 5);
    is_str(line, want, "to the last");
    is_int(hymt_host_log(host, &level, line, sizeof(line)), HYMT_AGAIN,
           "and no more");

    tear_down();
}


int
main(void)
{
    fixture_shape_t  shape = { .layers = 1, .max_position = 2048 };

    fixture_dir(dir);
    fixture_model(dir, &shape, 7);

    en = hymt_lang_find("en", 2);
    fr = hymt_lang_find("fr", 2);

    test_answer();
    test_stream();
    test_stream_first();
    test_coalesced();
    test_parts();
    test_ends();
    test_caps();
    test_loops();
    test_refusals();
    test_languages();
    test_longest();
    test_arena_full();
    test_loading();
    test_failed_loads();
    test_failed_step();
    test_running();
    test_stuck();
    test_stop();
    test_many();
    test_log();

    fixture_remove(dir);

    return tap_done();
}
