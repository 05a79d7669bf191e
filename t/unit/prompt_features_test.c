/*
 * prompt_features_test.c - terms, context, a style and formatted text in
 * prompts.
 */

#include "prompt_fixture.h"


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


int
main(void)
{
    test_together();
    test_features();
    test_bad_features();
    test_unwrap();

    return tap_done();
}
