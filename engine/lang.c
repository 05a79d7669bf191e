/*
 * lang.c - the languages by code and name.
 */

#include "lang.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>


#define HYMT_MAX_NAME  64


/* Another name for a language, in lower case. */
typedef struct {
    const char  *name;
    const char  *code;
} hymt_lang_alias_t;


/* in the order of the models' cards */
const hymt_lang_t  hymt_langs[HYMT_N_LANGS] = {
    { "zh", "Chinese", "中文" },
    { "en", "English", "英语" },
    { "fr", "French", "法语" },
    { "pt", "Portuguese", "葡萄牙语" },
    { "es", "Spanish", "西班牙语" },
    { "ja", "Japanese", "日语" },
    { "tr", "Turkish", "土耳其语" },
    { "ru", "Russian", "俄语" },
    { "ar", "Arabic", "阿拉伯语" },
    { "ko", "Korean", "韩语" },
    { "th", "Thai", "泰语" },
    { "it", "Italian", "意大利语" },
    { "de", "German", "德语" },
    { "vi", "Vietnamese", "越南语" },
    { "ms", "Malay", "马来语" },
    { "id", "Indonesian", "印尼语" },
    { "tl", "Filipino", "菲律宾语" },
    { "hi", "Hindi", "印地语" },
    { "zh-Hant", "Traditional Chinese", "繁体中文" },
    { "pl", "Polish", "波兰语" },
    { "cs", "Czech", "捷克语" },
    { "nl", "Dutch", "荷兰语" },
    { "km", "Khmer", "高棉语" },
    { "my", "Burmese", "缅甸语" },
    { "fa", "Persian", "波斯语" },
    { "gu", "Gujarati", "古吉拉特语" },
    { "ur", "Urdu", "乌尔都语" },
    { "te", "Telugu", "泰卢固语" },
    { "mr", "Marathi", "马拉地语" },
    { "he", "Hebrew", "希伯来语" },
    { "bn", "Bengali", "孟加拉语" },
    { "ta", "Tamil", "泰米尔语" },
    { "uk", "Ukrainian", "乌克兰语" },
    { "bo", "Tibetan", "藏语" },
    { "kk", "Kazakh", "哈萨克语" },
    { "mn", "Mongolian", "蒙古语" },
    { "ug", "Uyghur", "维吾尔语" },
    { "yue", "Cantonese", "粤语" },
};


/*
 * Retired and three-letter codes (ISO 639-2 both ways, 639-3), macrolanguages'
 * usual members, and names people write.
 */
static const hymt_lang_alias_t  hymt_aliases[] = {
    { "zho", "zh" }, { "chi", "zh" }, { "cmn", "zh" }, { "zt", "zh-Hant" },
    { "eng", "en" }, { "fra", "fr" }, { "fre", "fr" }, { "por", "pt" },
    { "spa", "es" }, { "jpn", "ja" }, { "tur", "tr" }, { "rus", "ru" },
    { "ara", "ar" }, { "arb", "ar" }, { "kor", "ko" }, { "tha", "th" },
    { "ita", "it" }, { "deu", "de" }, { "ger", "de" }, { "vie", "vi" },
    { "msa", "ms" }, { "may", "ms" }, { "zsm", "ms" }, { "ind", "id" },
    { "in", "id" }, { "fil", "tl" }, { "tgl", "tl" }, { "hin", "hi" },
    { "pol", "pl" }, { "ces", "cs" }, { "cze", "cs" }, { "nld", "nl" },
    { "dut", "nl" }, { "khm", "km" }, { "mya", "my" }, { "bur", "my" },
    { "fas", "fa" }, { "per", "fa" }, { "pes", "fa" }, { "guj", "gu" },
    { "urd", "ur" }, { "tel", "te" }, { "mar", "mr" }, { "heb", "he" },
    { "iw", "he" }, { "ben", "bn" }, { "tam", "ta" }, { "ukr", "uk" },
    { "bod", "bo" }, { "tib", "bo" }, { "kaz", "kk" }, { "mon", "mn" },
    { "khk", "mn" }, { "uig", "ug" },

    { "chinese (simplified)", "zh" }, { "simplified chinese", "zh" },
    { "mandarin", "zh" }, { "chinese (traditional)", "zh-Hant" },
    { "tagalog", "tl" }, { "farsi", "fa" }, { "myanmar", "my" },
    { "uighur", "ug" }, { "flemish", "nl" },

    { "汉语", "zh" }, { "漢語", "zh" }, { "简体中文", "zh" },
    { "繁體中文", "zh-Hant" }, { "粵語", "yue" }, { "广东话", "yue" },
    { "英文", "en" }, { "法文", "fr" }, { "德文", "de" }, { "日文", "ja" },
    { "韩文", "ko" }, { "俄文", "ru" }, { "西班牙文", "es" },
    { "印度尼西亚语", "id" }, { "他加禄语", "tl" },
};


static int hymt_lang_exact(const char *name);
static bool hymt_lang_same(const char *name, const char *other);
static int hymt_lang_tag(char *name);
static bool hymt_lang_subtags(const char *tags);
static bool hymt_lang_traditional(const char *tags);
static bool hymt_lang_has_subtag(const char *tags, const char *subtag);


int
hymt_lang_find(const char *name, size_t len)
{
    int     found;
    char    lower[HYMT_MAX_NAME + 1];
    size_t  i;

    if (len == 0 || len > HYMT_MAX_NAME || memchr(name, '\0', len) != NULL) {
        return HYMT_LANG_NONE;
    }

    for (i = 0; i < len; i++) {
        lower[i] = name[i];

        if (name[i] >= 'A' && name[i] <= 'Z') {
            lower[i] = (char) (name[i] | 0x20);
        }
    }

    lower[len] = '\0';

    found = hymt_lang_exact(lower);

    return found != HYMT_LANG_NONE ? found : hymt_lang_tag(lower);
}


/* a whole code, name or alias; name is in lower case */
static int
hymt_lang_exact(const char *name)
{
    int     i;
    size_t  a;

    /* codes are usual, and beside each other in memory */

    for (i = 0; i < HYMT_N_LANGS; i++) {
        if (hymt_lang_same(name, hymt_langs[i].code)) {
            return i;
        }
    }

    for (i = 0; i < HYMT_N_LANGS; i++) {
        if (hymt_lang_same(name, hymt_langs[i].english)
            || strcmp(name, hymt_langs[i].chinese) == 0)
        {
            return i;
        }
    }

    for (a = 0; a < hymt_nelts(hymt_aliases); a++) {
        if (strcmp(name, hymt_aliases[a].name) == 0) {
            return hymt_lang_exact(hymt_aliases[a].code);
        }
    }

    return HYMT_LANG_NONE;
}


/* whatever their case; most differ in their first letter */
static bool
hymt_lang_same(const char *name, const char *other)
{
    return ((*name ^ *other) & 0xdf) == 0 && strcasecmp(name, other) == 0;
}


/* language[-Script][-REGION]...: BCP 47, "_" for "-" accepted */
static int
hymt_lang_tag(char *name)
{
    int    found;
    char  *p, *tags;

    for (p = name; *p != '\0'; p++) {
        if (*p == '_') {
            *p = '-';
        }
    }

    tags = strchr(name, '-');

    if (tags == NULL || tags - name < 2 || tags - name > 3
        || !hymt_lang_subtags(tags))
    {
        return HYMT_LANG_NONE;
    }

    *tags = '\0';
    found = hymt_lang_exact(name);
    *tags = '-';

    if (found == HYMT_LANG_NONE || strcmp(hymt_langs[found].code, "zh") != 0) {
        return found;
    }

    if (hymt_lang_has_subtag(tags, "yue")) {
        return hymt_lang_exact("yue");
    }

    return hymt_lang_traditional(tags) ? hymt_lang_exact("zh-hant") : found;
}


/* tags is "-xx-yy": each part has one to eight letters or digits */
static bool
hymt_lang_subtags(const char *tags)
{
    size_t  n;

    while (*tags == '-') {
        tags++;
        n = strspn(tags, "abcdefghijklmnopqrstuvwxyz0123456789");

        if (n == 0 || n > 8) {
            return false;
        }

        tags += n;
    }

    return *tags == '\0';
}


/* a script says more than a region */
static bool
hymt_lang_traditional(const char *tags)
{
    if (hymt_lang_has_subtag(tags, "hans")) {
        return false;
    }

    return hymt_lang_has_subtag(tags, "hant")
           || hymt_lang_has_subtag(tags, "tw")
           || hymt_lang_has_subtag(tags, "hk")
           || hymt_lang_has_subtag(tags, "mo");
}


static bool
hymt_lang_has_subtag(const char *tags, const char *subtag)
{
    size_t  n, len;

    len = strlen(subtag);

    while (*tags == '-') {
        tags++;
        n = strcspn(tags, "-");

        if (n == len && memcmp(tags, subtag, n) == 0) {
            return true;
        }

        tags += n;
    }

    return false;
}


bool
hymt_lang_grows(int lang)
{
    size_t  i;

    static const char  *codes[] = {
        "ar", "bn", "bo", "fa", "gu", "he", "hi", "kk", "km", "mn", "mr",
        "my", "ta", "te", "th", "ug", "ur",
    };

    for (i = 0; lang >= 0 && lang < HYMT_N_LANGS && i < hymt_nelts(codes);
         i++)
    {
        if (strcmp(hymt_langs[lang].code, codes[i]) == 0) {
            return true;
        }
    }

    return false;
}


size_t
hymt_lang_list(hymt_lang_set_t set, char *buf, size_t cap)
{
    int     i, n;
    size_t  len;

    len = 0;

    if (cap != 0) {
        buf[0] = '\0';
    }

    for (i = 0; i < HYMT_N_LANGS && len < cap; i++) {

        if ((set >> i & 1) == 0) {
            continue;
        }

        n = snprintf(buf + len, cap - len, "%s%s (%s)", len == 0 ? "" : ", ",
                     hymt_langs[i].code, hymt_langs[i].english);

        if (n < 0 || (size_t) n >= cap - len) {
            return cap - 1;
        }

        len += (size_t) n;
    }

    return len;
}
