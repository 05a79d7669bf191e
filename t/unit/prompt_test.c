/*
 * prompt_test.c - prompts as the models' cards write them, with the ids that
 * Hugging Face gives.
 */

#include "job_parts.h"
#include "tap.h"
#include "tokenizer_json.h"
#include "vectors.h"


#define MODEL    "models/demo"
#define MAX_IDS  4096

#define CONTROL_7B                                                            \
    "[{\"id\": 300, \"content\": \"<|startoftext|>\", \"special\": true},"    \
    " {\"id\": 301, \"content\": \"<|extra_0|>\", \"special\": true},"        \
    " {\"id\": 302, \"content\": \"<|eos|>\", \"special\": true},"            \
    " {\"id\": 303, \"content\": \"<|endoftext|>\", \"special\": true},"      \
    " {\"id\": 304, \"content\": \"<|extra_4|>\", \"special\": true}]"


typedef struct {
    hymt_encoder_t        *enc;
    hymt_config_t          config;
    hymt_prompt_params_t   params;
    hymt_prompter_t       *prompter;
} maker_t;


static uint32_t  ids[MAX_IDS];


static int
lang(const char *code)
{
    return code[0] == '\0' ? HYMT_LANG_NONE
                           : hymt_lang_find(code, strlen(code));
}


static hymt_prompt_request_t
request(const char *src, const char *tgt, const char *text, size_t len)
{
    hymt_prompt_request_t  r;

    memset(&r, 0, sizeof(r));
    r.src = lang(src);
    r.tgt = lang(tgt);
    r.text = text;
    r.len = len;

    return r;
}


/* A prompter over bytes with the 7B family's control tokens. */
static void
make(maker_t *m, hymt_family_t family, const char *override)
{
    hymt_error_t      err;
    tokenizer_json_t  json;

    memset(m, 0, sizeof(*m));
    memset(&json, 0, sizeof(json));
    json.added = CONTROL_7B;

    m->enc = tokenizer_json_encoder(&json);
    m->config.vocab = 305;
    m->params.family = family;
    m->params.languages = HYMT_LANGS_ALL;
    m->params.override = override;

    if (hymt_prompter_create(m->enc->tok, &m->config, &m->params,
                             &m->prompter, &err)
        != HYMT_OK)
    {
        fixture_die("no prompter", err.text);
    }
}


static void
unmake(maker_t *m)
{
    hymt_prompter_free(m->prompter);
    tokenizer_json_free(m->enc);
}


/* The prompt as text, control tokens as "[id]"; bytes are their own ids. */
static const char *
show(maker_t *m, const hymt_prompt_request_t *r, char *out)
{
    size_t        i, n, n_text, used;
    hymt_error_t  err;

    if (hymt_prompt_build(m->prompter, m->enc, r, ids, MAX_IDS, &n, &n_text,
                          &err)
        != HYMT_OK)
    {
        return strcpy(out, err.text);
    }

    used = 0;

    for (i = 0; i < n; i++) {
        used += (size_t) sprintf(out + used, ids[i] < 256 ? "%c" : "[%u]",
                                 ids[i]);
    }

    return out;
}


static const char *
prompt(maker_t *m, const char *src, const char *tgt, const char *text,
    char *out)
{
    hymt_prompt_request_t  r;

    r = request(src, tgt, text, strlen(text));

    return show(m, &r, out);
}


/* every family, pair and awkward beginning, by transformers */
static void
test_vectors(void)
{
    char                  *field[9], shown[2048];
    size_t                 n, n_text;
    unsigned               wrong, seen;
    hymt_term_t            terms[HYMT_MAX_TERMS];
    vectors_t              v;
    hymt_error_t           err;
    hymt_config_t          config;
    hymt_encoder_t        *enc;
    hymt_prompter_t       *p;
    hymt_tokenizer_t      *tok;
    hymt_prompt_params_t   params;
    hymt_prompt_request_t  r;

    if (hymt_tokenizer_load(MODEL, &tok, &err) != HYMT_OK
        || hymt_encoder_create(tok, &enc, &err) != HYMT_OK)
    {
        fixture_die("can't load", err.text);
    }

    memset(&config, 0, sizeof(config));
    memset(&params, 0, sizeof(params));
    config.vocab = hymt_tokenizer_size(tok);

    wrong = 0;
    seen = 0;
    vectors_open(&v, "t/data/prompts.txt");

    while (vectors_next(&v, field, 9)) {
        seen++;
        n = 0;
        err.text[0] = '\0';

        (void) hymt_family_parse(field[0], strlen(field[0]), &params.family);

        if (hymt_prompter_create(tok, &config, &params, &p, &err) != HYMT_OK) {
            fixture_die("no prompter", err.text);
        }

        r = request(field[1], field[2], field[7], vectors_bytes(field[7]));
        r.terms = terms;
        r.context = field[4];
        r.context_len = vectors_bytes(field[4]);
        r.style = field[5];
        r.style_len = vectors_bytes(field[5]);
        r.formatted = field[6][0] == '1';

        if (hymt_terms_read(field[3], vectors_bytes(field[3]), terms,
                            &r.n_terms, &err)
            != HYMT_OK)
        {
            fixture_die("bad terms", err.text);
        }

        if (hymt_prompt_build(p, enc, &r, ids, MAX_IDS, &n, &n_text, &err)
            != HYMT_OK
            || !vectors_equal(field[8], ids, n))
        {
            if (wrong++ == 0) {
                printf("# line %u: got  %s%s\n# line %u: want %s\n", v.number,
                       ids_show(ids, n, shown, sizeof(shown)), err.text,
                       v.number, field[8]);
            }
        }

        hymt_prompter_free(p);
    }

    is_int(wrong, 0, "prompts with ids unlike Hugging Face's");
    ok(seen > 900, "%u prompts were compared", seen);

    hymt_encoder_free(enc);
    hymt_tokenizer_free(tok);
}


/* The prompt as the text of its tokens. */
static size_t
prompt_bytes(const hymt_tokenizer_t *tok, size_t n, char *out, size_t cap)
{
    size_t       i, at;
    uint32_t     len;
    const char  *bytes;

    for (i = 0, at = 0; i < n; i++) {
        if (hymt_tokenizer_bytes(tok, ids[i], &bytes, &len)
            && at + len < cap)
        {
            memcpy(out + at, bytes, len);
            at += len;
        }
    }

    return at;
}


/* chats, by both families' templates in transformers */
static void
test_chats(void)
{
    char                   *field[4], text[2048];
    size_t                  n, n_text, len, want;
    maker_t                 big, small;
    unsigned                wrong, seen;
    vectors_t               v;
    hymt_turn_t             turns[HYMT_MAX_TURNS];
    hymt_error_t            err;
    const maker_t          *m;
    hymt_tokenizer_t       *tok;
    hymt_prompt_request_t   r;

    make(&big, HYMT_FAMILY_MT15, NULL);
    memset(&small, 0, sizeof(small));

    if (hymt_tokenizer_load(MODEL, &tok, &err) != HYMT_OK
        || hymt_encoder_create(tok, &small.enc, &err) != HYMT_OK)
    {
        fixture_die("can't load", err.text);
    }

    small.config.vocab = hymt_tokenizer_size(tok);

    if (hymt_prompter_create(tok, &small.config, &small.params,
                             &small.prompter, &err)
        != HYMT_OK)
    {
        fixture_die("no prompter", err.text);
    }

    memset(&r, 0, sizeof(r));
    r.turns = turns;
    wrong = 0;
    seen = 0;
    vectors_open(&v, "t/data/chats.txt");

    while (vectors_next(&v, field, 4)) {
        seen++;
        m = field[0][0] == 's' ? &small : &big;
        n = 0;

        if (hymt_turns_read(field[1], vectors_bytes(field[1]), turns,
                            &r.n_turns, &err)
            != HYMT_OK)
        {
            fixture_die("bad chat", err.text);
        }

        (void) hymt_prompt_build(m->prompter, m->enc, &r, ids, MAX_IDS, &n,
                                 &n_text, &err);

        len = prompt_bytes(m->enc->tok, n, text, sizeof(text));
        want = vectors_bytes(field[2]);

        if (len != want || memcmp(text, field[2], len) != 0
            || (field[3][0] != '-' && !vectors_equal(field[3], ids, n)))
        {
            if (wrong++ == 0) {
                printf("# line %u: got  %.*s\n# line %u: want %.*s\n",
                       v.number, (int) len, text, v.number, (int) want,
                       field[2]);
            }
        }
    }

    is_int(wrong, 0, "chats unlike Hugging Face's");
    ok(seen >= 32, "%u chats were compared", seen);

    hymt_prompter_free(small.prompter);
    hymt_encoder_free(small.enc);
    hymt_tokenizer_free(tok);
    unmake(&big);
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


static hymt_prompt_request_t
asking(const char *tgt, uint32_t features)
{
    hymt_prompt_request_t  r;

    static const hymt_term_t  terms[] = {
        { "bank", 4, "Ufer", 4 },
        { "bus", 3, "Bus", 3 },
    };

    r = request("en", tgt, "Hi", 2);

    if (features & HYMT_FEATURE_TERMS) {
        r.terms = terms;
        r.n_terms = 2;
    }

    if (features & HYMT_FEATURE_CONTEXT) {
        r.context = "By\nthe river.";
        r.context_len = 13;
    }

    if (features & HYMT_FEATURE_STYLE) {
        r.style = "terse";
        r.style_len = 5;
    }

    r.formatted = (features & HYMT_FEATURE_FORMATTED) != 0;

    return r;
}


/* those that no card has as a whole */
static void
test_together(void)
{
    char                   out[2048];
    size_t                 i;
    maker_t                m;
    hymt_prompt_request_t  r;

    static const struct {
        hymt_family_t   family;
        const char     *tgt;
        uint32_t        features;
        const char     *want;
    } cases[] = {
        { HYMT_FAMILY_MT15, "de",
          HYMT_FEATURE_CONTEXT | HYMT_FEATURE_FORMATTED,
          "[300]By\nthe river.\n参考上面的信息，将以下<source></source>之间的"
          "文本翻译为德语，注意不需要翻译上文，只需要输出翻译后的结果，"
          "不要额外解释，原文中的<sn></sn>标签表示标签内文本包含格式信息，"
          "需要在译文中相应的位置尽量保留该标签。"
          "输出格式为：<target>str</target>\n\n<source>Hi</source>[301]" },
        { HYMT_FAMILY_MT2, "de",
          HYMT_FEATURE_TERMS | HYMT_FEATURE_CONTEXT | HYMT_FEATURE_STYLE,
          "[300]Reference the following translations:\nbank translates to"
          " Ufer\nbus translates to Bus\n\n[Background Information]\nBy\nthe"
          " river.\n\nPlease translate the following text into German, taking"
          " the provided background information into consideration. Note that"
          " the translation style must strictly conform to [terse].\n\n"
          "[Source Text]\nHi[301]" },
        { HYMT_FAMILY_MT2, "zh",
          HYMT_FEATURE_CONTEXT | HYMT_FEATURE_STYLE,
          "[300]【背景信息】\nBy\nthe river.\n\n"
          "请结合背景信息将以下文本翻译为中文。\n"
          "注意翻译的风格要严格符合【terse】\n\n【待翻译文本】\nHi[301]" },
    };

    for (i = 0; i < hymt_nelts(cases); i++) {
        make(&m, cases[i].family, NULL);
        r = asking(cases[i].tgt, cases[i].features);
        is_str(show(&m, &r, out), cases[i].want, "%s, features %#x together",
               hymt_family_name(cases[i].family), cases[i].features);
        unmake(&m);
    }
}


/* has() says what build() does, and build() says what is missing */
static void
test_features(void)
{
    char                   out[4096];
    bool                   built;
    size_t                 wrong;
    maker_t                m;
    uint32_t               features;
    hymt_family_t          family;
    hymt_prompt_request_t  r;

    for (family = HYMT_FAMILY_MT1; family <= HYMT_FAMILY_MT2; family++) {
        make(&m, family, NULL);
        wrong = 0;

        for (features = 0; features < 16; features++) {
            r = asking("de", features);
            built = strncmp(show(&m, &r, out), "[300]", 5) == 0;
            wrong += built != hymt_prompt_has(family, features);

            r = asking("zh", features);
            built = strncmp(show(&m, &r, out), "[300]", 5) == 0;
            wrong += built != hymt_prompt_has(family, features);
        }

        is_int(wrong, 0, "%s has what it says", hymt_family_name(family));
        unmake(&m);
    }

    ok(!hymt_prompt_has(HYMT_FAMILY_MT2, 16), "no feature beyond the last");
    ok(hymt_prompt_has(HYMT_FAMILY_AUTO, HYMT_FEATURE_TERMS),
       "auto is mt1.5");

    make(&m, HYMT_FAMILY_MT1, NULL);
    r = asking("de", HYMT_FEATURE_CONTEXT | HYMT_FEATURE_STYLE);
    is_str(show(&m, &r, out), "models of the family mt1 have no prompt for"
           " context", "the first that is missing is named");
    unmake(&m);

    make(&m, HYMT_FAMILY_MT15, NULL);
    r = asking("de", HYMT_FEATURE_CONTEXT | HYMT_FEATURE_STYLE);
    is_str(show(&m, &r, out), "models of the family mt1.5 have no prompt for"
           " style", "not one that is there");
    unmake(&m);

    make(&m, HYMT_FAMILY_MT2, NULL);
    r = asking("de", HYMT_FEATURE_STYLE | HYMT_FEATURE_FORMATTED);
    is_str(show(&m, &r, out), "models of the family mt2 have no prompt for"
           " style and formatted text together", "or both");
    unmake(&m);

    make(&m, HYMT_FAMILY_MT2, "{text}");
    r = asking("de", HYMT_FEATURE_TERMS);
    is_str(show(&m, &r, out), "the prompt template given for this model has no"
           " place for terms", "a template of one's own has none");
    unmake(&m);
}


static void
test_bad_features(void)
{
    char                   out[1024];
    size_t                 i;
    maker_t                m;
    hymt_term_t            term;
    hymt_prompt_request_t  r;

    static const struct {
        const char  *src;
        const char  *tgt;
        const char  *want;
    } cases[] = {
        { "", "x", "term 1 has an empty source" },
        { "x", "", "term 1 has an empty translation" },
        { "a\nb", "x", "term 1 has a control character, U+000A, at byte 1" },
        { "a", "x\t", "term 1 has a control character, U+0009, at byte 1" },
        { "a\x7f", "x", "term 1 has a control character, U+007F" },
        { "a\xc2\x85", "x", "term 1 has a control character, U+0085" },
        { "a", "\xe2\x80\xa8", "term 1 has a control character, U+2028" },
        { "a\xff", "x", "invalid UTF-8 at byte 1 of term 1" },
    };

    make(&m, HYMT_FAMILY_MT2, NULL);
    r = request("en", "de", "Hi", 2);
    r.terms = &term;
    r.n_terms = 1;

    for (i = 0; i < hymt_nelts(cases); i++) {
        term.src = cases[i].src;
        term.src_len = strlen(term.src);
        term.tgt = cases[i].tgt;
        term.tgt_len = strlen(term.tgt);

        has_str(show(&m, &r, out), cases[i].want, "term %zu is refused", i);
    }

    r = request("en", "de", "Hi", 2);
    r.style = "a\rb";
    r.style_len = 3;
    has_str(show(&m, &r, out), "the style has a control character, U+000D, at"
            " byte 1", "a style is one line");

    r = request("en", "de", "Hi", 2);
    r.context = "ab\xc3";
    r.context_len = 3;
    has_str(show(&m, &r, out), "invalid UTF-8 at byte 2 of the context",
            "a context is text");

    unmake(&m);
}


static void
test_unwrap(void)
{
    char     got[64];
    size_t   i, from, len;
    maker_t  m, other;

    static const char  *const cases[][2] = {
        { "<target>Hallo <s1>x</s1></target>", "Hallo <s1>x</s1>" },
        { "\n<target>Hallo</target>\n", "Hallo" },
        { "<target>Hal", "Hal" },
        { "Hallo</target>", "Hallo" },
        { "Hallo <target>", "Hallo <target>" },
        { "<target></target>", "" },
        { "<target>", "" },
        { "</target>", "" },
        { "", "" },
        { " Hallo ", " Hallo " },
    };

    make(&m, HYMT_FAMILY_MT15, NULL);
    make(&other, HYMT_FAMILY_MT2, NULL);

    for (i = 0; i < hymt_nelts(cases); i++) {
        len = strlen(cases[i][0]);
        hymt_prompt_unwrap(m.prompter, cases[i][0], &from, &len);
        memcpy(got, cases[i][0] + from, len);
        got[len] = '\0';
        is_str(got, cases[i][1], "\"%s\" unwrapped", cases[i][0]);
    }

    len = strlen(cases[0][0]);
    hymt_prompt_unwrap(other.prompter, cases[0][0], &from, &len);
    is_int(len - from, strlen(cases[0][0]), "a family that does not wrap");

    unmake(&m);
    unmake(&other);
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
    test_vectors();
    test_chats();
    test_chat_refusals();
    test_together();
    test_features();
    test_bad_features();
    test_unwrap();
    test_families();
    test_script();
    test_override();
    test_control_text();
    test_sizes();
    test_stops();
    test_no_template();

    return tap_done();
}
