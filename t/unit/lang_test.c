/*
 * lang_test.c - languages by what people and programs call them.
 */

#include "lang.h"
#include "tap.h"


static const char *
find(const char *name)
{
    int  i;

    i = hymt_lang_find(name, strlen(name));

    return i == HYMT_LANG_NONE ? "none" : hymt_langs[i].code;
}


static void
test_names(void)
{
    size_t  i;

    static const char *const  cases[][2] = {
        { "ZH", "zh" }, { "Zh-hant", "zh-Hant" }, { "YUE", "yue" },
        { "pt-BR", "pt" }, { "en_US", "en" }, { "EN-gb", "en" },
        { "zh-CN", "zh" }, { "zh-SG", "zh" }, { "zh_Hans", "zh" },
        { "zh-Hans-HK", "zh" }, { "zh-TW", "zh-Hant" }, { "zh_HK", "zh-Hant" },
        { "zh-MO", "zh-Hant" }, { "zh-Hant-HK", "zh-Hant" },
        { "zh-hant-tw", "zh-Hant" }, { "zht", "none" }, { "zt", "zh-Hant" },
        { "zh-yue", "yue" }, { "yue-HK", "yue" }, { "yue-Hant-HK", "yue" },
        { "cmn-Hans-CN", "zh" }, { "zho-TW", "zh-Hant" }, { "chi", "zh" },
        { "fil", "tl" }, { "fil-PH", "tl" }, { "tgl", "tl" }, { "iw", "he" },
        { "in", "id" }, { "deu", "de" }, { "ger", "de" }, { "de-AT", "de" },
        { "es-419", "es" }, { "mn-Mong", "mn" }, { "ug-Arab-CN", "ug" },
        { "english", "en" }, { "Chinese", "zh" }, { "TRADITIONAL CHINESE",
        "zh-Hant" }, { "Chinese (Simplified)", "zh" }, { "中文", "zh" },
        { "繁体中文", "zh-Hant" }, { "藏语", "bo" }, { "Uyghur", "ug" },
        { "sv", "none" }, { "el", "none" }, { "", "none" }, { "-", "none" },
        { "e", "none" }, { "en-", "none" }, { "en--US", "none" },
        { "en-toolongsubtag", "none" }, { "en US", "none" }, { "-en", "none" },
        { "en;q=1", "none" }, { "klingon", "none" }, { "xx-zh", "none" },
    };

    for (i = 0; i < hymt_nelts(cases); i++) {
        is_str(find(cases[i][0]), cases[i][1], "\"%s\"", cases[i][0]);
    }

    is_int(hymt_lang_find("en\0US", 5), HYMT_LANG_NONE, "a NUL inside");
    is_int(hymt_lang_find("english and much more, indeed so much that no name"
                          " of a language is so long", 74), HYMT_LANG_NONE,
           "a very long name");
}


static void
test_table(void)
{
    int  i, wrong;

    wrong = 0;

    for (i = 0; i < HYMT_N_LANGS; i++) {
        wrong += hymt_lang_find(hymt_langs[i].code,
                                strlen(hymt_langs[i].code)) != i;
        wrong += hymt_lang_find(hymt_langs[i].english,
                                strlen(hymt_langs[i].english)) != i;
        wrong += hymt_lang_find(hymt_langs[i].chinese,
                                strlen(hymt_langs[i].chinese)) != i;
    }

    is_int(wrong, 0, "each language is found by its three names");
}


static void
test_list(void)
{
    char             buf[4096];
    size_t           n;
    hymt_lang_set_t  set;

    set = (hymt_lang_set_t) 1 << hymt_lang_find("en", 2)
          | (hymt_lang_set_t) 1 << hymt_lang_find("zh", 2);

    n = hymt_lang_list(set, buf, sizeof(buf));
    is_str(buf, "zh (Chinese), en (English)", "a set as text");
    is_int(n, strlen(buf), "its length");

    n = hymt_lang_list(set, buf, 10);
    is_str(buf, "zh (Chine", "cut at the capacity");
    is_int(n, 9, "the length of what is there");

    n = hymt_lang_list(0, buf, sizeof(buf));
    is_str(buf, "", "the empty set");
    is_int(n, 0, "has no text");

    n = hymt_lang_list(HYMT_LANGS_ALL, buf, sizeof(buf));
    has_str(buf, "yue (Cantonese)", "all of them");
    is_int(n, strlen(buf), "with their length");

    buf[0] = 'x';
    is_int(hymt_lang_list(set, buf, 0), 0, "no room at all");
    is_int(buf[0], 'x', "is left alone");
}


int
main(void)
{
    test_names();
    test_table();
    test_list();

    return tap_done();
}
