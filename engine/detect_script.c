/*
 * detect_script.c - the scripts and the telling letters of a text.
 */

#include "detect_private.h"

#include "utf8.h"

#include <string.h>
#include <strings.h>


typedef struct {
    uint32_t       first;
    uint32_t       last;
    hymt_script_t  script;
} hymt_script_range_t;


typedef struct {
    uint32_t        c;
    hymt_letters_t  letters;
} hymt_script_letter_t;


/* by code point; digits and punctuation are left out where they have ranges */
static const hymt_script_range_t  hymt_script_ranges[] = {
    { 0x0041, 0x005a, HYMT_SCRIPT_LATIN },
    { 0x0061, 0x007a, HYMT_SCRIPT_LATIN },
    { 0x00c0, 0x00d6, HYMT_SCRIPT_LATIN },
    { 0x00d8, 0x00f6, HYMT_SCRIPT_LATIN },
    { 0x00f8, 0x024f, HYMT_SCRIPT_LATIN },
    { 0x0370, 0x03ff, HYMT_SCRIPT_OTHER },          /* Greek */
    { 0x0400, 0x0481, HYMT_SCRIPT_CYRILLIC },
    { 0x048a, 0x052f, HYMT_SCRIPT_CYRILLIC },
    { 0x0531, 0x0587, HYMT_SCRIPT_OTHER },          /* Armenian */
    { 0x05d0, 0x05ea, HYMT_SCRIPT_HEBREW },
    { 0x0620, 0x064a, HYMT_SCRIPT_ARABIC },
    { 0x066e, 0x06d3, HYMT_SCRIPT_ARABIC },
    { 0x06d5, 0x06d5, HYMT_SCRIPT_ARABIC },
    { 0x06ee, 0x06ef, HYMT_SCRIPT_ARABIC },
    { 0x06fa, 0x06ff, HYMT_SCRIPT_ARABIC },
    { 0x0700, 0x074f, HYMT_SCRIPT_OTHER },          /* Syriac */
    { 0x0750, 0x077f, HYMT_SCRIPT_ARABIC },
    { 0x0780, 0x07bf, HYMT_SCRIPT_OTHER },          /* Thaana */
    { 0x0900, 0x0963, HYMT_SCRIPT_DEVANAGARI },
    { 0x0970, 0x097f, HYMT_SCRIPT_DEVANAGARI },
    { 0x0980, 0x09e3, HYMT_SCRIPT_BENGALI },
    { 0x0a00, 0x0a7f, HYMT_SCRIPT_OTHER },          /* Gurmukhi */
    { 0x0a81, 0x0ae3, HYMT_SCRIPT_GUJARATI },
    { 0x0b00, 0x0b7f, HYMT_SCRIPT_OTHER },          /* Oriya */
    { 0x0b82, 0x0bd7, HYMT_SCRIPT_TAMIL },
    { 0x0c00, 0x0c63, HYMT_SCRIPT_TELUGU },
    { 0x0c80, 0x0dff, HYMT_SCRIPT_OTHER },          /* Kannada, Malayalam,
                                                       Sinhala */
    { 0x0e01, 0x0e3a, HYMT_SCRIPT_THAI },
    { 0x0e40, 0x0e4e, HYMT_SCRIPT_THAI },
    { 0x0e80, 0x0eff, HYMT_SCRIPT_OTHER },          /* Lao */
    { 0x0f00, 0x0f00, HYMT_SCRIPT_TIBETAN },
    { 0x0f40, 0x0fbc, HYMT_SCRIPT_TIBETAN },
    { 0x1000, 0x103f, HYMT_SCRIPT_MYANMAR },
    { 0x1050, 0x108f, HYMT_SCRIPT_MYANMAR },
    { 0x10a0, 0x10ff, HYMT_SCRIPT_OTHER },          /* Georgian */
    { 0x1100, 0x11ff, HYMT_SCRIPT_HANGUL },
    { 0x1200, 0x167f, HYMT_SCRIPT_OTHER },          /* Ethiopic, Cherokee,
                                                       Canadian syllabics */
    { 0x1780, 0x17d3, HYMT_SCRIPT_KHMER },
    { 0x1820, 0x18aa, HYMT_SCRIPT_MONGOLIAN },
    { 0x1e00, 0x1eff, HYMT_SCRIPT_LATIN },
    { 0x1f00, 0x1fff, HYMT_SCRIPT_OTHER },          /* Greek */
    { 0x3005, 0x3007, HYMT_SCRIPT_HAN },
    { 0x3041, 0x3096, HYMT_SCRIPT_KANA },
    { 0x309d, 0x309f, HYMT_SCRIPT_KANA },
    { 0x30a1, 0x30fa, HYMT_SCRIPT_KANA },
    { 0x30fc, 0x30ff, HYMT_SCRIPT_KANA },
    { 0x3131, 0x318e, HYMT_SCRIPT_HANGUL },
    { 0x3400, 0x4dbf, HYMT_SCRIPT_HAN },
    { 0x4e00, 0x9fff, HYMT_SCRIPT_HAN },
    { 0xac00, 0xd7a3, HYMT_SCRIPT_HANGUL },
    { 0xf900, 0xfaff, HYMT_SCRIPT_HAN },
    { 0xfb1d, 0xfb4f, HYMT_SCRIPT_HEBREW },
    { 0xfb50, 0xfdff, HYMT_SCRIPT_ARABIC },
    { 0xfe70, 0xfefc, HYMT_SCRIPT_ARABIC },
    { 0xff21, 0xff3a, HYMT_SCRIPT_LATIN },
    { 0xff41, 0xff5a, HYMT_SCRIPT_LATIN },
    { 0xff66, 0xff9d, HYMT_SCRIPT_KANA },
    { 0x20000, 0x3ffff, HYMT_SCRIPT_HAN },
};


static const hymt_script_letter_t  hymt_script_letters[] = {
    { 0x04e8, HYMT_LETTERS_MN }, { 0x04e9, HYMT_LETTERS_MN },
    { 0x04ae, HYMT_LETTERS_MN }, { 0x04af, HYMT_LETTERS_MN },

    { 0x04a2, HYMT_LETTERS_TURKIC }, { 0x04a3, HYMT_LETTERS_TURKIC },
    { 0x04ba, HYMT_LETTERS_TURKIC }, { 0x04bb, HYMT_LETTERS_TURKIC },
    { 0x04d8, HYMT_LETTERS_TURKIC }, { 0x04d9, HYMT_LETTERS_TURKIC },

    { 0x0492, HYMT_LETTERS_KK }, { 0x0493, HYMT_LETTERS_KK },
    { 0x049a, HYMT_LETTERS_KK }, { 0x049b, HYMT_LETTERS_KK },
    { 0x04b0, HYMT_LETTERS_KK }, { 0x04b1, HYMT_LETTERS_KK },

    { 0x0404, HYMT_LETTERS_UK }, { 0x0454, HYMT_LETTERS_UK },
    { 0x0406, HYMT_LETTERS_UK }, { 0x0456, HYMT_LETTERS_UK },
    { 0x0407, HYMT_LETTERS_UK }, { 0x0457, HYMT_LETTERS_UK },
    { 0x0490, HYMT_LETTERS_UK }, { 0x0491, HYMT_LETTERS_UK },

    { 0x042b, HYMT_LETTERS_RU }, { 0x044b, HYMT_LETTERS_RU },
    { 0x042d, HYMT_LETTERS_RU }, { 0x044d, HYMT_LETTERS_RU },
    { 0x0401, HYMT_LETTERS_RU }, { 0x0451, HYMT_LETTERS_RU },

    { 0x0419, HYMT_LETTERS_EAST }, { 0x0439, HYMT_LETTERS_EAST },
    { 0x0429, HYMT_LETTERS_EAST }, { 0x0449, HYMT_LETTERS_EAST },
    { 0x042c, HYMT_LETTERS_EAST }, { 0x044c, HYMT_LETTERS_EAST },
    { 0x042e, HYMT_LETTERS_EAST }, { 0x044e, HYMT_LETTERS_EAST },
    { 0x042f, HYMT_LETTERS_EAST }, { 0x044f, HYMT_LETTERS_EAST },

    { 0x06c7, HYMT_LETTERS_UG }, { 0x06c8, HYMT_LETTERS_UG },
    { 0x06cb, HYMT_LETTERS_UG }, { 0x06d0, HYMT_LETTERS_UG },
    { 0x06d5, HYMT_LETTERS_UG },

    { 0x0679, HYMT_LETTERS_UR }, { 0x0688, HYMT_LETTERS_UR },
    { 0x0691, HYMT_LETTERS_UR }, { 0x06ba, HYMT_LETTERS_UR },
    { 0x06c1, HYMT_LETTERS_UR }, { 0x06d2, HYMT_LETTERS_UR },

    { 0x067e, HYMT_LETTERS_FA }, { 0x0686, HYMT_LETTERS_FA },
    { 0x0698, HYMT_LETTERS_FA }, { 0x06a9, HYMT_LETTERS_FA },
    { 0x06af, HYMT_LETTERS_FA }, { 0x06cc, HYMT_LETTERS_FA },

    { 0x0623, HYMT_LETTERS_AR }, { 0x0625, HYMT_LETTERS_AR },
    { 0x0629, HYMT_LETTERS_AR }, { 0x0643, HYMT_LETTERS_AR },

    { 0x0933, HYMT_LETTERS_MR }, { 0x0934, HYMT_LETTERS_MR },
};


static size_t hymt_script_skip(const char *text, size_t len);
static size_t hymt_script_skip_tag(const char *text, size_t len);
static hymt_script_t hymt_script_of(uint32_t c);
static void hymt_script_mark(uint32_t c, uint32_t last, hymt_scripts_t *s);


void
hymt_scripts_count(const char *text, size_t len, bool html, hymt_scripts_t *s)
{
    size_t         i, n;
    uint32_t       c, last;
    hymt_script_t  script;

    c = 0;
    *s = (hymt_scripts_t) { 0 };

    for (i = 0; i < len; ) {

        n = html ? hymt_script_skip(text + i, len - i) : 0;
        if (n != 0) {
            i += n;
            continue;
        }

        last = c;
        c = (uint32_t) hymt_utf8_next_char(text, &i, len);
        script = hymt_script_of(c);

        if (script == HYMT_SCRIPT_NONE) {
            continue;
        }

        s->letters++;
        s->weight += hymt_script_weight(script);
        s->script[script]++;

        if (script == HYMT_SCRIPT_CYRILLIC || script == HYMT_SCRIPT_ARABIC
            || script == HYMT_SCRIPT_DEVANAGARI)
        {
            hymt_script_mark(c, last, s);
        }
    }
}


/* the length of the tag or entity that text begins with, or 0 */
static size_t
hymt_script_skip(const char *text, size_t len)
{
    size_t  n;

    if (text[0] == '<' && len > 1
        && (text[1] == '/' || text[1] == '!' || text[1] == '?'
            || (text[1] >= 'a' && text[1] <= 'z')
            || (text[1] >= 'A' && text[1] <= 'Z')))
    {
        return hymt_script_skip_tag(text, len);
    }

    if (text[0] == '&') {
        n = 1 + strspn(text + 1, "#0123456789abcdefghijklmnopqrstuvwxyz"
                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

        return n > 1 && n < 32 && text[n] == ';' ? n + 1 : 0;
    }

    return 0;
}


/* what script and style hold goes with their tags */
static size_t
hymt_script_skip_tag(const char *text, size_t len)
{
    const char  *end;

    end = text;

    if (strncasecmp(text, "<script", 7) == 0) {
        end = strcasestr(text, "</script");

    } else if (strncasecmp(text, "<style", 6) == 0) {
        end = strcasestr(text, "</style");
    }

    end = end == NULL ? NULL : strchr(end, '>');

    return end == NULL ? len : (size_t) (end + 1 - text);
}


static hymt_script_t
hymt_script_of(uint32_t c)
{
    size_t  low, high, mid;

    low = 0;
    high = hymt_nelts(hymt_script_ranges);

    while (low < high) {
        mid = (low + high) / 2;

        if (c < hymt_script_ranges[mid].first) {
            high = mid;

        } else if (c > hymt_script_ranges[mid].last) {
            low = mid + 1;

        } else {
            return hymt_script_ranges[mid].script;
        }
    }

    return HYMT_SCRIPT_NONE;
}


static void
hymt_script_mark(uint32_t c, uint32_t last, hymt_scripts_t *s)
{
    size_t  i;

    if (c == last && (c == 0x0430 || c == 0x0443 || c == 0x044d)) {
        s->mark[HYMT_LETTERS_PAIR]++;
    }

    for (i = 0; i < hymt_nelts(hymt_script_letters); i++) {
        if (hymt_script_letters[i].c == c) {
            s->mark[hymt_script_letters[i].letters]++;
            return;
        }
    }
}


uint32_t
hymt_script_weight(hymt_script_t script)
{
    return script == HYMT_SCRIPT_HAN || script == HYMT_SCRIPT_KANA
           || script == HYMT_SCRIPT_HANGUL ? 3 : 1;
}
