/*
 * host_job_test.c - what becomes of a job: its text, as a stream or whole, its
 * end, what is refused, and many at once.
 */

#include "host_fixture.h"


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


int
main(void)
{
    make_model();

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
    test_many();

    fixture_remove(dir);

    return tap_done();
}
