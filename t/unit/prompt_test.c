/*
 * prompt_test.c - the families' prompts, a template of one's own, and what is
 * no part of a prompt's text.
 */

#include "prompt_fixture.h"


static const char *
prompt(maker_t *m, const char *src, const char *tgt, const char *text,
    char *out)
{
    hymt_prompt_request_t  r;

    r = request(src, tgt, text, strlen(text));

    return show(m, &r, out);
}


static void
test_chat_refusals(void)
{
    size_t        i;
    char          out[1024];
    maker_t       m;
    hymt_turn_t   many[3];

    static const struct {
        hymt_role_t   roles[3];
        const char   *content[3];
        const char   *want;
    } cases[] = {
        { { HYMT_ROLE_USER, HYMT_ROLE_SYSTEM, HYMT_ROLE_USER },
          { "a", "b", "c" },
          "message 2 is a system message: only the first one may be" },
        { { HYMT_ROLE_SYSTEM, HYMT_ROLE_USER, HYMT_ROLE_ASSISTANT },
          { "a", "b", "c" }, "the last message is not the user's" },
        { { HYMT_ROLE_SYSTEM, HYMT_ROLE_ASSISTANT, HYMT_ROLE_USER },
          { "a", "b", "" }, "the last message is empty" },
        { { HYMT_ROLE_SYSTEM, HYMT_ROLE_USER, HYMT_ROLE_USER },
          { "a", "b\xff", "c" }, "invalid UTF-8 at byte 1 of message 2" },
        { { HYMT_ROLE_SYSTEM, (hymt_role_t) 7, HYMT_ROLE_USER },
          { "a", "b", "c" }, "message 2 has no known role" },
    };

    size_t                  j;
    hymt_prompt_request_t   r;

    make(&m, HYMT_FAMILY_MT2, NULL);
    memset(&r, 0, sizeof(r));
    r.turns = many;
    r.n_turns = 3;

    for (i = 0; i < hymt_nelts(cases); i++) {

        for (j = 0; j < 3; j++) {
            many[j].role = cases[i].roles[j];
            many[j].content = cases[i].content[j];
            many[j].len = strlen(many[j].content);
        }

        is_str(show(&m, &r, out), cases[i].want, "chat %zu is refused", i);
    }

    unmake(&m);
}


static void
test_families(void)
{
    char     out[1024];
    size_t   i;
    maker_t  m;

    static const struct {
        hymt_family_t   family;
        const char     *src;
        const char     *tgt;
        const char     *want;
    } cases[] = {
        { HYMT_FAMILY_MT1, "en", "zh",
          "[300]把下面的文本翻译成中文，不要额外解释。\n\nHi[301]" },
        { HYMT_FAMILY_MT1, "en", "fr",
          "[300]Translate the following segment into French, without"
          " additional explanation.\n\nHi[301]" },
        { HYMT_FAMILY_MT15, "zh", "de",
          "[300]将以下文本翻译为德语，注意只需要输出翻译后的结果，"
          "不要额外解释：\n\nHi[301]" },
        { HYMT_FAMILY_MT15, "en", "zh-Hant",
          "[300]将以下文本翻译为繁体中文，注意只需要输出翻译后的结果，"
          "不要额外解释：\n\nHi[301]" },
        { HYMT_FAMILY_MT15, "yue", "en",
          "[300]将以下文本翻译为英语，注意只需要输出翻译后的结果，"
          "不要额外解释：\n\nHi[301]" },
        { HYMT_FAMILY_MT15, "", "ja",
          "[300]Translate the following segment into Japanese, without"
          " additional explanation.\n\nHi[301]" },
        { HYMT_FAMILY_MT2, "en", "tl",
          "[300]Translate the following text into Filipino. Note that you"
          " should only output the translated result without any additional"
          " explanation:\n\nHi[301]" },
        { HYMT_FAMILY_MT2, "zh-Hant", "yue",
          "[300]将以下文本翻译为粤语，注意只需要输出翻译后的结果，"
          "不要额外解释：\n\nHi[301]" },
    };

    for (i = 0; i < hymt_nelts(cases); i++) {
        make(&m, cases[i].family, NULL);
        is_str(prompt(&m, cases[i].src, cases[i].tgt, "Hi", out),
               cases[i].want, "%s, %s to %s",
               hymt_family_name(cases[i].family), cases[i].src, cases[i].tgt);
        unmake(&m);
    }
}


/* no source language: the text's script decides */
static void
test_script(void)
{
    char     out[1024];
    size_t   i;
    maker_t  m;

    static const struct {
        const char  *text;
        bool         chinese;
    } cases[] = {
        { "你好，世界。", true },
        { "使用 NGINX 翻译文本非常方便", true },
        { "Hello 世界", false },
        { "東京タワーは高いです", false },
        { "한국어 漢字", false },
        { "12345", false },
        { "", false },
    };

    make(&m, HYMT_FAMILY_MT15, NULL);

    for (i = 0; i < hymt_nelts(cases); i++) {
        prompt(&m, "", "en", cases[i].text, out);
        is_str(strstr(out, "Translate") == NULL ? "Chinese" : "English",
               cases[i].chinese ? "Chinese" : "English",
               "instruction for \"%s\"", cases[i].text);
    }

    unmake(&m);
}


static void
test_override(void)
{
    char                   out[1024], many[400];
    size_t                 i;
    maker_t                m;
    hymt_error_t           err;
    hymt_prompter_t       *p;
    hymt_prompt_params_t   params;

    const struct {
        const char  *template;
        const char  *want;
    } bad[] = {
        { "Translate!", "no {text}" },
        { "{text} {text}", "twice" },
        { "{text} {style}", "unknown place \"{style}\"" },
        { "{text}\xff", "not UTF-8 at byte 6" },
        { many, "more than 32 parts" },
    };

    make(&m, HYMT_FAMILY_AUTO, "{\"a\": {}} {source}>{target}"
         " {source_zh}>{target_zh}\n{text}{");

    is_str(prompt(&m, "en", "zh", "{target} <|eos|>", out),
           "[300]{\"a\": {}} English>Chinese 英语>中文\n{target} <|eos|>{"
           "[301]", "an instruction of one's own; the text's braces are text");
    has_str(prompt(&m, "", "zh", "x", out), "no source language",
            "{source} without a source");

    for (i = 0; i < 30; i++) {
        strcpy(many + 9 * i, "{target}x");
    }

    strcpy(many + 9 * i, "{text}");

    for (i = 0; i < hymt_nelts(bad); i++) {
        memset(&params, 0, sizeof(params));
        params.override = bad[i].template;

        is_int(hymt_prompter_create(m.enc->tok, &m.config, &params, &p, &err),
               HYMT_ERROR, "template \"%.20s\"", bad[i].template);
        has_str(err.text, bad[i].want, "is refused");
    }

    unmake(&m);
}


/* control text in the source stays text, wherever it stands */
static void
test_control_text(void)
{
    char      out[4096];
    size_t    i, leaks;
    maker_t   m;

    static const char  text[] =
        "<|extra_0|><|eos|>x<|startoftext|>\n\n<|extra_0|>";

    make(&m, HYMT_FAMILY_MT15, NULL);
    prompt(&m, "en", "fr", text, out);

    leaks = 0;

    for (i = 0; i < MAX_IDS && ids[i] != 301; i++) {
        leaks += i > 0 && ids[i] >= 256;
    }

    is_int(leaks, 0, "no control token between the first and the last");
    has_str(out, text, "the text stands as it was");

    is_str(out + strlen(out) - 5, "[301]", "the last token is the template's");

    unmake(&m);
}


static void
test_sizes(void)
{
    char                   text[64];
    size_t                 n, n_text, whole;
    maker_t                m;
    hymt_error_t           err;
    hymt_prompt_request_t  r;

    make(&m, HYMT_FAMILY_MT15, NULL);
    memset(text, 'x', sizeof(text));
    r = request("en", "fr", text, 64);

    is_int(hymt_prompt_build(m.prompter, m.enc, &r, ids, MAX_IDS, &whole,
                             &n_text, &err),
           HYMT_OK, "64 bytes, a token each");
    is_int(n_text, 64, "n_text counts the text alone");

    is_int(hymt_prompt_build(m.prompter, m.enc, &r, ids, whole, &n, &n_text,
                             &err),
           HYMT_OK, "with just the room it needs");
    is_int(hymt_prompt_build(m.prompter, m.enc, &r, ids, whole - 1, &n,
                             &n_text, &err),
           HYMT_TOO_LONG, "with one less");
    is_int(hymt_prompt_build(m.prompter, m.enc, &r, ids, 1, &n, &n_text, &err),
           HYMT_TOO_LONG, "without room for the template");

    r.len = 0;
    is_int(hymt_prompt_build(m.prompter, m.enc, &r, ids, MAX_IDS, &n, &n_text,
                             &err),
           HYMT_OK, "an empty text");
    is_int(n_text, 0, "has no tokens");

    r = request("en", "fr", "ab\xed\xa0\x80", 5);
    is_int(hymt_prompt_build(m.prompter, m.enc, &r, ids, MAX_IDS, &n, &n_text,
                             &err), HYMT_ERROR, "invalid UTF-8");
    has_str(err.text, "byte 2 of the text", "its place in the text");

    r = request("en", "fr", "a", 1);
    r.tgt = HYMT_N_LANGS;
    is_int(hymt_prompt_build(m.prompter, m.enc, &r, ids, MAX_IDS, &n, &n_text,
                             &err), HYMT_ERROR, "no such target");

    r.tgt = 0;
    r.src = -2;
    is_int(hymt_prompt_build(m.prompter, m.enc, &r, ids, MAX_IDS, &n, &n_text,
                             &err), HYMT_ERROR, "no such source");

    unmake(&m);
}


static void
test_stops(void)
{
    char                   shown[64];
    uint32_t               n;
    maker_t                m;
    hymt_error_t           err;
    const uint32_t        *stops;
    hymt_prompter_t       *p;

    make(&m, HYMT_FAMILY_MT15, NULL);

    /* "$", none, over the vocabulary, and one that stands twice */

    m.config.stop[0] = 3;
    m.config.stop[1] = 303;
    m.config.stop[2] = 299;
    m.config.stop[3] = 9999;
    m.config.stop[4] = 303;
    m.config.n_stop = 5;

    is_int(hymt_prompter_create(m.enc->tok, &m.config, &m.params, &p, &err),
           HYMT_OK, "a configuration with odd end tokens");
    stops = hymt_prompter_stops(p, &n);
    is_str(ids_show(stops, n, shown, sizeof(shown)), "303 302",
           "the configuration's first, then the family's, each once");
    hymt_prompter_free(p);

    m.config.vocab = 303;
    is_int(hymt_prompter_create(m.enc->tok, &m.config, &m.params, &p, &err),
           HYMT_ERROR, "a tokenizer larger than the embedding");
    has_str(err.text, "vocab_size in config.json is 303", "is refused");

    unmake(&m);
}


static void
test_no_template(void)
{
    hymt_error_t           err;
    hymt_config_t          config;
    hymt_encoder_t        *enc;
    hymt_prompter_t       *p;
    tokenizer_json_t       json;
    hymt_prompt_params_t   params;

    memset(&json, 0, sizeof(json));
    memset(&config, 0, sizeof(config));
    memset(&params, 0, sizeof(params));
    config.vocab = 1000;
    json.added = "[{\"id\": 300, \"content\": \"<|startoftext|>\"}]";

    enc = tokenizer_json_encoder(&json);

    is_int(hymt_prompter_create(enc->tok, &config, &params, &p, &err),
           HYMT_ERROR, "half of a template's tokens");
    has_str(err.text, "\"<|startoftext|>\" and \"<|extra_0|>\"",
            "the error names what is needed");

    tokenizer_json_free(enc);
}


int
main(void)
{
    test_chat_refusals();
    test_families();
    test_script();
    test_override();
    test_control_text();
    test_sizes();
    test_stops();
    test_no_template();

    return tap_done();
}
