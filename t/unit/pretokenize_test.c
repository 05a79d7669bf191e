/*
 * pretokenize_test.c - where text is cut, and normal forms; what is wanted
 * here came from Hugging Face tokenizers.
 */

#include "tap.h"
#include "tokenizer_json.h"


/* the pieces of text with "|" between */
static const char *
pieces(hymt_encoder_t *enc, const char *text, size_t len, char *out)
{
    size_t               i, n, used;
    hymt_error_t         err;
    const hymt_piece_t  *p;

    if (hymt_normalize(enc, &text, &len, &err) != HYMT_OK
        || hymt_pretokenize(enc, &text, len, &p, &n, &err) != HYMT_OK)
    {
        return strcpy(out, err.text);
    }

    used = 0;

    for (i = 0; i < n; i++) {
        if (i != 0) {
            out[used++] = '|';
        }

        memcpy(out + used, text + p[i].begin, p[i].end - p[i].begin);
        used += p[i].end - p[i].begin;
    }

    out[used] = '\0';

    return out;
}


static void
test_case(const char *name, const tokenizer_json_t *json, const char *text,
    const char *want)
{
    char             out[1024];
    hymt_encoder_t  *enc;

    enc = tokenizer_json_encoder(json);

    is_str(pieces(enc, text, strlen(text), out), want, "%s: \"%s\"", name,
           text);

    tokenizer_json_free(enc);
}


static void
test_behaviors(void)
{
    size_t            i;
    tokenizer_json_t  json;

    static const struct {
        const char  *name;
        const char  *splits;
        const char  *want;
    } cases[] = {
        { "Removed", SPLITS(SPLIT("String", "-", "Removed", "false")),
          "the|final|countdown" },
        { "Isolated", SPLITS(SPLIT("String", "-", "Isolated", "false")),
          "the|-|final|-|-|countdown" },
        { "MergedWithPrevious",
          SPLITS(SPLIT("String", "-", "MergedWithPrevious", "false")),
          "the-|final-|-|countdown" },
        { "MergedWithNext",
          SPLITS(SPLIT("String", "-", "MergedWithNext", "false")),
          "the|-final|-|-countdown" },
        { "Contiguous", SPLITS(SPLIT("String", "-", "Contiguous", "false")),
          "the|-|final|--|countdown" },
        { "Removed, inverted", SPLITS(SPLIT("Regex", "[a-z]+", "Removed",
          "true")), "the|final|countdown" },
        { "Contiguous, inverted", SPLITS(SPLIT("Regex", "[a-z]", "Contiguous",
          "true")), "the|-|final|--|countdown" },
        { "two splits", SPLITS(SPLIT("String", "--", "Isolated", "false") ", "
          SPLIT("Regex", "^c|n", "Isolated", "false")),
          "the-fi|n|al|--|c|ou|n|tdow|n" },
        { "empty matches cut too", SPLITS(SPLIT("Regex", "(?=-)", "Isolated",
          "false")), "the|-final|-|-countdown" },
        { "a pattern that is not there", SPLITS(SPLIT("String", "+",
          "Isolated", "false")), "the-final--countdown" },
    };

    memset(&json, 0, sizeof(json));

    for (i = 0; i < hymt_nelts(cases); i++) {
        json.pre_tokenizer = cases[i].splits;
        test_case(cases[i].name, &json, "the-final--countdown",
                  cases[i].want);
    }

    json.pre_tokenizer = SPLITS(SPLIT("String", ".", "Removed", "false"));
    test_case("a String is no pattern", &json, "a.b", "a|b");
    test_case("all removed", &json, "...", "");
    test_case("empty text", &json, "", "");
}


/* a character twice: apart where the pattern matches it, else together */
static void
test_characters(void)
{
    char              name[64], text[16], want[32];
    size_t            i;
    tokenizer_json_t  json;

#define IS(p, c, y)                                                           \
    { p, SPLITS(SPLIT("Regex", p, "Isolated", "false")), c, y }

    static const struct {
        const char  *pattern;
        const char  *splits;
        const char  *c;
        bool         hit;
    } cases[] = {
        IS("\\\\s", "\t", true), IS("\\\\s", "\v", true),
        IS("\\\\s", "\f", true), IS("\\\\s", "\x1f", false),
        IS("\\\\s", "\xc2\x85", true), IS("\\\\s", "\xc2\xa0", true),
        IS("\\\\s", "\xe1\x9a\x80", true),      /* U+1680 */
        IS("\\\\s", "\xe1\xa0\x8e", false),     /* U+180E */
        IS("\\\\s", "\xe2\x80\x8a", true),      /* U+200A */
        IS("\\\\s", "\xe2\x80\x8b", false),     /* U+200B */
        IS("\\\\s", "\xe2\x80\xa8", true),      /* U+2028 */
        IS("\\\\s", "\xe3\x80\x80", true),      /* U+3000 */
        IS("\\\\s", "\xef\xbb\xbf", false),     /* U+FEFF */
        IS("\\\\S", "\xe1\xa0\x8e", true), IS("\\\\S", "\xc2\x85", false),
        IS("[\\\\S]", "\xe1\xa0\x8e", true), IS("[\\\\S]", " ", false),
        IS("[^\\\\s]", "\xe3\x80\x80", false),
        IS("\\\\d", "7", true), IS("\\\\d", "\xd9\xa3", true),
        IS("\\\\d", "\xc2\xbd", false), IS("\\\\D", "7", false),
        IS("\\\\p{N}", "\xc2\xbd", true),       /* one half */
        IS("\\\\p{N}", "\xe2\x91\xa0", true),   /* circled one */
        IS("\\\\p{L}", "\xe3\x83\xbc", true),   /* U+30FC */
        IS("\\\\p{M}", "\xcc\x81", true),
        IS("\\\\p{L}", "\xf0\xb1\x8d\x90", true),       /* U+31350, 15.0 */
        IS("[\\\\p{L}]", "\xf0\xae\xaf\xb0", true),     /* U+2EBF0, 15.1 */
        IS("\\\\P{L}", "\xf0\xb1\x8d\x90", false),
        IS("\\\\p{^L}", "\xf0\xb1\x8d\x90", false),
        IS("\\\\p{Nd}", "\xf0\x9c\xb3\xb0", true),      /* U+1CCF0, 16.0 */
        IS("\\\\p{So}", "\xf0\x9f\xab\xa9", true),      /* U+1FAE9, 16.0 */
        IS("\\\\p{L}", "\xcd\xb8", false),      /* U+0378, not assigned */
        IS("\\\\x41", "A", true), IS("\\\\u00e9", "\xc3\xa9", true),
        IS("\\\\x{1F600}", "\xf0\x9f\x98\x80", true),
        IS("[\\\\-\\\\]]", "]", true), IS("[\\\\-\\\\]]", "\\", false),
        IS("[a-]", "-", true), IS("[一-龥]", "\xe9\xbe\xa5", true),
        IS("[一-龥]", "\xe9\xbe\xa6", false),   /* U+9FA6 */
        IS(".", "\n", false), IS(".", "\r", true), IS(".", "\xc2\x85", true),
        IS("{", "{", true), IS("#", "#", true),
        IS("(?i:S)", "\xc5\xbf", true),         /* long s */
        IS("(?i:k)", "\xe2\x84\xaa", true),     /* the Kelvin sign */
    };

    memset(&json, 0, sizeof(json));

    for (i = 0; i < hymt_nelts(cases); i++) {
        json.pre_tokenizer = cases[i].splits;
        snprintf(want, sizeof(want), cases[i].hit ? "%s|%s" : "%s%s",
                 cases[i].c, cases[i].c);
        snprintf(text, sizeof(text), "%s%s", cases[i].c, cases[i].c);
        snprintf(name, sizeof(name), "%s %s", cases[i].pattern,
                 cases[i].hit ? "matches" : "does not match");
        test_case(name, &json, text, want);
    }
}


static void
test_byte_level(void)
{
    size_t            i;
    tokenizer_json_t  json;

    static const struct {
        const char  *regex;
        const char  *prefix;
        const char  *text;
        const char  *want;
    } cases[] = {
        { "true", "false", "I'll  go 12a!?\n", "I|'ll| | go| 12|a|!?|\n" },
        { "true", "true", "I'll go", " I|'ll| go" },
        { "true", "true", " I", " I" },
        { "false", "true", "a b", " a b" },
        { "false", "true", "", "" },
    };

    memset(&json, 0, sizeof(json));

    for (i = 0; i < hymt_nelts(cases); i++) {
        char  level[128];

        snprintf(level, sizeof(level), "{\"type\": \"ByteLevel\","
                 " \"use_regex\": %s, \"add_prefix_space\": %s}",
                 cases[i].regex, cases[i].prefix);
        json.pre_tokenizer = level;

        test_case("ByteLevel", &json, cases[i].text, cases[i].want);
    }

    json.pre_tokenizer = "{\"type\": \"Sequence\", \"pretokenizers\": ["
        SPLIT("String", "-", "Isolated", "false") ", {\"type\": \"ByteLevel\","
        " \"use_regex\": false, \"add_prefix_space\": true}]}";

    test_case("a space before each piece", &json, "a-b", " a| -| b");
}


/* look-around ends where a piece does; NUL is a character like any other */
static void
test_pieces(void)
{
    char              out[64];
    hymt_encoder_t   *enc;
    tokenizer_json_t  json;

    memset(&json, 0, sizeof(json));
    json.pre_tokenizer = SPLITS(SPLIT("Regex", "[0-9]", "Isolated", "false")
                                ", " SPLIT("Regex", "\\\\s+(?!\\\\S)|\\\\s+",
                                "Isolated", "false"));

    test_case("spaces before a digit end the piece", &json, "a   1", "a|   |1");
    test_case("spaces before a letter do not", &json, "a   b", "a|  | |b");

    json.pre_tokenizer = SPLITS(SPLIT("Regex", "\\\\x00", "Isolated",
                                      "false"));
    enc = tokenizer_json_encoder(&json);
    pieces(enc, "a\0b", 3, out);
    ok(memcmp(out, "a|\0|b", 6) == 0, "NUL splits, and nothing ends at it");
    tokenizer_json_free(enc);
}


static void
test_normal_forms(void)
{
    size_t            i;
    tokenizer_json_t  json;

#define FORM(f)  "{\"type\": \"" f "\"}"

    static const struct {
        const char  *form;
        const char  *text;
        const char  *want;
    } cases[] = {
        { FORM("NFC"), "a\xcc\x81", "\xc3\xa1" },
        { FORM("NFD"), "\xc3\xa1", "a\xcc\x81" },
        { FORM("NFKC"), "\xef\xac\x81\xef\xbc\xa1", "fiA" },
        { FORM("NFKD"), "\xe1\xba\x9b\xcc\xa3", "s\xcc\xa3\xcc\x87" },
        { FORM("NFC"), "\xef\xac\x81", "\xef\xac\x81" },
        { FORM("NFC"), "a\xcc\x81\xcc\x96", "\xc3\xa1\xcc\x96" },
        { FORM("NFD"), "a\xcc\x81\xcc\x96", "a\xcc\x96\xcc\x81" },
        { FORM("NFC"), "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab",
          "\xed\x95\x9c" },
        { FORM("NFD"), "\xed\x95\x9c",
          "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab" },
        { FORM("NFC"), "\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc" },
        { FORM("NFC"), "\xe2\x84\xab", "\xc3\x85" },
        { FORM("NFKC"), "\xef\xb7\xba", "صلى الله عليه وسلم" },

        /* younger than Hugging Face's tables: left alone */

        { FORM("NFKC"), "\xe3\x8b\xbf", "\xe3\x8b\xbf" },
        { FORM("NFC"), "\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0",
          "\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0" },
        { "{\"type\": \"Sequence\", \"normalizers\": [" FORM("NFD") ", "
          FORM("NFC") "]}", "\xc3\xa1" "b", "\xc3\xa1" "b" },
        { "{\"type\": \"Sequence\", \"normalizers\": []}", "\xef\xac\x81",
          "\xef\xac\x81" },
    };

    memset(&json, 0, sizeof(json));

    for (i = 0; i < hymt_nelts(cases); i++) {
        json.normalizer = cases[i].form;
        test_case(cases[i].form, &json, cases[i].text, cases[i].want);
    }
}


int
main(void)
{
    test_behaviors();
    test_characters();
    test_byte_level();
    test_pieces();
    test_normal_forms();

    return tap_done();
}
