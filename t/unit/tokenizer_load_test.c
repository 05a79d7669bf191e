/*
 * tokenizer_load_test.c - wrong tokenizer.json files: each gives an error that
 * names the file and the fault.
 */

#include "tap.h"
#include "tokenizer_json.h"


#define ADDED(id, content)                                                    \
    "[{\"id\": " id ", \"content\": \"" content "\", \"special\": true}]"

#define STEP_8(x)   x ", " x ", " x ", " x ", " x ", " x ", " x ", " x
#define SPACES      SPLIT("String", " ", "Isolated", "false")
#define NEST_8(x)                                                             \
    SEQ(SEQ(SEQ(SEQ(SEQ(SEQ(SEQ(SEQ(x))))))))
#define SEQ(x)                                                                \
    "{\"type\": \"Sequence\", \"pretokenizers\": [" x "]}"
#define REGEX(r)  SPLITS(SPLIT("Regex", r, "Isolated", "false"))
#define NFC       "{\"type\": \"NFC\"}"


typedef struct {
    const char        *name;
    const char        *want;    /* part of the error; NULL: it loads */
    tokenizer_json_t   json;
} load_case_t;


static const load_case_t  cases[] = {
    { "the bytes alone", NULL, { .added = NULL } },

    /* JSON */

    { "no JSON", "line 1", { .whole = "tokenizer" } },
    { "cut in the middle", "line 1", { .whole = "{\"model\": {" } },
    { "an array", "JSON object", { .whole = "[]" } },
    { "lone surrogate", "line 1", { .whole = "{\"a\": \"\\ud800\"}" } },
    { "bad UTF-8", "line 1", { .whole = "{\"a\": \"\xff\"}" } },
    { "NUL in a string", "line 1", { .whole = "{\"a\": \"\\u0000\"}" } },
    { "twice the same key", "line 1", { .vocab = ", \"a\": 256" } },

    /* model */

    { "no model", "model: an object", { .whole = "{}" } },
    { "model is a string", "model: an object", { .whole = "{\"model\": \"BPE\""
      "}" } },
    { "no type", "model: type nothing", { .whole = "{\"model\": {}}" } },
    { "WordPiece", "model: type \"WordPiece\"", { .whole = "{\"model\":"
      " {\"type\": \"WordPiece\"}}" } },
    { "no vocab", "vocab", { .whole = "{\"model\": {\"type\": \"BPE\","
      " \"merges\": []}}" } },
    { "vocab is an array", "vocab", { .whole = "{\"model\": {\"type\":"
      " \"BPE\", \"merges\": [], \"vocab\": []}}" } },
    { "no merges", "merges", { .whole = "{\"model\": {\"type\": \"BPE\","
      " \"vocab\": {}}}" } },
    { "no pre_tokenizer", "pre_tokenizer", { .whole = "{\"model\": {\"type\":"
      " \"BPE\", \"merges\": [], \"vocab\": {}}}" } },
    { "an empty vocab", "byte 0x00", { .whole = "{\"pre_tokenizer\":"
      BYTE_LEVEL ", \"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\":"
      " {}}}" } },
    { "dropout", "dropout 0.1", { .model = ", \"dropout\": 0.1" } },
    { "no dropout, as a number", NULL, { .model = ", \"dropout\": 0.0" } },
    { "unk_token", "unk_token \"<unk>\"", { .model = ", \"unk_token\":"
      " \"<unk>\"" } },
    { "byte_fallback", "byte_fallback true", { .model = ", \"byte_fallback\":"
      " true" } },
    { "a prefix of subwords", "continuing_subword_prefix", { .model =
      ", \"continuing_subword_prefix\": \"##\"" } },
    { "an empty prefix", NULL, { .model = ", \"continuing_subword_prefix\":"
      " \"\"" } },
    { "a suffix of words", "end_of_word_suffix", { .model =
      ", \"end_of_word_suffix\": \"</w>\"" } },
    { "ignore_merges is a number", "ignore_merges 1", { .model =
      ", \"ignore_merges\": 1" } },

    /* ids */

    { "a negative id", "id -1 of \"xy\"", { .vocab = ", \"xy\": -1" } },
    { "an id of a million and more", "id 1048576 of \"xy\"", { .vocab =
      ", \"xy\": 1048576" } },
    { "a huge id", "line 1", { .vocab = ", \"xy\": 99999999999999999999" } },
    { "an id with a fraction", "id 256.5 of \"xy\"", { .vocab =
      ", \"xy\": 256.5" } },
    { "an id that is a string", "id \"256\" of \"xy\"", { .vocab =
      ", \"xy\": \"256\"" } },
    { "an id twice", "id 97 of", { .vocab = ", \"xy\": 97" } },
    { "holes between ids", NULL, { .vocab = ", \"xy\": 1000000" } },
    { "a token with a line break", "id -1 of \"x\\ny\"", { .vocab =
      ", \"x\\ny\": -1" } },

    /* added tokens */

    { "added_tokens is an object", "added_tokens", { .added = "{}" } },
    { "an added token is a string", "number 0", { .added = "[\"<a>\"]" } },
    { "without content", "number 0", { .added = "[{\"id\": 256}]" } },
    { "with empty content", "number 0", { .added = ADDED("256", "") } },
    { "without id", "id nothing of \"<a>\"", { .added = "[{\"content\":"
      " \"<a>\"}]" } },
    { "with a negative id", "id -5 of \"<a>\"", { .added = ADDED("-5", "<a>")
    } },
    { "special is a string", "special of \"<a>\"", { .added = "[{\"id\": 256,"
      " \"content\": \"<a>\", \"special\": \"yes\"}]" } },
    { "the id of a token", "id 97 of", { .added = ADDED("97", "<a>") } },
    { "an id twice", "id 256 of \"<b>\"", { .added = "[{\"id\": 256,"
      " \"content\": \"<a>\"}, {\"id\": 256, \"content\": \"<b>\"}]" } },
    { "another id in vocab", "id 300 of \"<a>\"", { .added =
      ADDED("300", "<a>"), .vocab = ", \"<a>\": 256" } },
    { "the same id in vocab", NULL, { .added = ADDED("256", "<a>"),
      .vocab = ", \"<a>\": 256" } },
    { "the token of a byte", "byte 0x61, which plain text needs", { .added =
      ADDED("97", "a") } },

    /* merges */

    { "merges of unknown tokens", "number 0 needs token \"xy\"", { .merges =
      "[\"x y\"]" } },
    { "an unknown left side", "needs token \"q1\"", { .merges =
      "[[\"q1\", \"a\"]]" } },
    { "a merge of one", "number 0, \"xy\"", { .merges = "[\"xy\"]" } },
    { "a merge of three", "number 0, \"x y z\"", { .merges = "[\"x y z\"]" } },
    { "a pair of one", "number 0", { .merges = "[[\"x\"]]" } },
    { "a pair of three", "number 0", { .merges = "[[\"x\", \"y\", \"z\"]]" } },
    { "a pair of numbers", "number 1", { .vocab = ", \"ab\": 256", .merges =
      "[\"a b\", [1, 2]]" } },
    { "a merge that is null", "number 0, null", { .merges = "[null]" } },
    { "both ways to write a merge", NULL, { .vocab = ", \"ab\": 256,"
      " \"abc\": 257", .merges = "[\"a b\", [\"ab\", \"c\"]]" } },

    /* steps */

    { "a pre_tokenizer without ByteLevel", "no ByteLevel", { .pre_tokenizer =
      SPACES } },
    { "Metaspace", "pre_tokenizer \"Metaspace\"", { .pre_tokenizer =
      "{\"type\": \"Metaspace\"}" } },
    { "a step after ByteLevel", "follow ByteLevel", { .pre_tokenizer =
      SEQ(BYTE_LEVEL ", " SPACES) } },
    { "a step that is null", "not null", { .pre_tokenizer =
      SEQ("null, " BYTE_LEVEL) } },
    { "Sequence without list", "pretokenizers", { .pre_tokenizer =
      "{\"type\": \"Sequence\"}" } },
    { "nested eight deep", NULL, { .pre_tokenizer = NEST_8(BYTE_LEVEL) } },
    { "nested nine deep", "nested at most 8", { .pre_tokenizer =
      SEQ(NEST_8(BYTE_LEVEL)) } },
    { "32 steps", NULL, { .pre_tokenizer =
      SPLITS(STEP_8(SPACES) ", " STEP_8(SPACES) ", " STEP_8(SPACES) ", "
             STEP_8(SPACES)) } },
    { "33 steps", "more than 32", { .pre_tokenizer =
      SPLITS(STEP_8(SPACES) ", " STEP_8(SPACES) ", " STEP_8(SPACES) ", "
             STEP_8(SPACES) ", " SPACES) } },
    { "ByteLevel without add_prefix_space", "add_prefix_space",
      { .pre_tokenizer = "{\"type\": \"ByteLevel\"}" } },
    { "an unknown behavior", "behavior \"Sideways\"", { .pre_tokenizer =
      SPLITS(SPLIT("String", " ", "Sideways", "false")) } },
    { "invert is null", "invert null", { .pre_tokenizer =
      SPLITS(SPLIT("String", " ", "Isolated", "null")) } },
    { "an unknown kind of pattern", "{\"Glob\":\"*\"}", { .pre_tokenizer =
      SPLITS(SPLIT("Glob", "*", "Isolated", "false")) } },
    { "an empty String", "it is empty", { .pre_tokenizer =
      SPLITS(SPLIT("String", "", "Isolated", "false")) } },
    { "an unknown normalizer", "normalizer \"Lowercase\"", { .normalizer =
      "{\"type\": \"Lowercase\"}" } },
    { "a normalizer that is a string", "normalizer: an object",
      { .normalizer = "\"NFC\"" } },
    { "eight normalizers", NULL, { .normalizer = "{\"type\": \"Sequence\","
      " \"normalizers\": [" STEP_8(NFC) "]}" } },
    { "nine normalizers", "more than 8", { .normalizer = "{\"type\":"
      " \"Sequence\", \"normalizers\": [" STEP_8(NFC) ", " NFC "]}" } },
    { "a decoder of words", "decoder: type \"WordPiece\"", { .decoder =
      "{\"type\": \"WordPiece\"}" } },

    /* regular expressions: what has another meaning in Oniguruma */

    { "an empty pattern", "1 to 65536 bytes", { .pre_tokenizer = REGEX("") } },
    { "\\w", "this escape", { .pre_tokenizer = REGEX("a\\\\w") } },
    { "\\h", "at byte 1 of the pattern", { .pre_tokenizer = REGEX("a\\\\h")
    } },
    { "\\b", "this escape", { .pre_tokenizer = REGEX("\\\\b") } },
    { "\\R", "this escape", { .pre_tokenizer = REGEX("\\\\R") } },
    { "\\K", "this escape", { .pre_tokenizer = REGEX("a\\\\Kb") } },
    { "\\Q", "this escape", { .pre_tokenizer = REGEX("\\\\Qa") } },
    { "a back reference", "this escape", { .pre_tokenizer = REGEX("(a)\\\\1")
    } },
    { "a byte above 7F", "this escape", { .pre_tokenizer = REGEX("\\\\xe9") }
    },
    { "a surrogate", "this escape", { .pre_tokenizer = REGEX("\\\\ud800") } },
    { "a script", "this property", { .pre_tokenizer = REGEX("\\\\p{Han}") } },
    { "\\pL", "this property", { .pre_tokenizer = REGEX("\\\\pL") } },
    { "an unclosed property", "this property", { .pre_tokenizer =
      REGEX("\\\\p{L") } },
    { "a negated property in a class", "negated property", { .pre_tokenizer =
      REGEX("[\\\\P{L}a]") } },
    { "a class in a class", "class inside a class", { .pre_tokenizer =
      REGEX("[a[b]]") } },
    { "a POSIX class", "class inside a class", { .pre_tokenizer =
      REGEX("[[:alpha:]]") } },
    { "an intersection", "intersection", { .pre_tokenizer =
      REGEX("[a-z&&b]") } },
    { "] first in a class", "begins with", { .pre_tokenizer = REGEX("[]a]") }
    },
    { "an open class", "without an end", { .pre_tokenizer = REGEX("[a") } },
    { "a range to a set", "this range", { .pre_tokenizer = REGEX("[a-\\\\s]")
    } },
    { "a range backwards", "this range", { .pre_tokenizer = REGEX("[z-a]") } },
    { "a range of a range", "this range", { .pre_tokenizer = REGEX("[a-c-e]")
    } },
    { "flags in the middle", "this kind of group", { .pre_tokenizer =
      REGEX("a(?i)b") } },
    { "another flag", "this kind of group", { .pre_tokenizer =
      REGEX("(?m:.)") } },
    { "ss where case does not count", "in a caseless group",
      { .pre_tokenizer = REGEX("(?i:a|sS)") } },
    { "st over a group's end", "in a caseless group", { .pre_tokenizer =
      REGEX("(?i:(?:s)t)") } },
    { "st where case counts again", NULL, { .pre_tokenizer =
      REGEX("(?i:s(?:a|s))st|s") } },
    { "not ASCII, where case does not count", "in a caseless group",
      { .pre_tokenizer = REGEX("(?i:\u00df)") } },
    { "a set where case does not count", "in a caseless group",
      { .pre_tokenizer = REGEX("(?i:\\\\p{Lu})") } },
    { "the same in a class", "in a caseless group", { .pre_tokenizer =
      REGEX("(?i:[a\\\\s])") } },
    { "a negated class there", "in a caseless group", { .pre_tokenizer =
      REGEX("(?i:[^k])") } },
    { "a class of ASCII there", NULL, { .pre_tokenizer =
      REGEX("'(?i:[sdmt]|ll|ve|re)") } },
    { "a comment", "this kind of group", { .pre_tokenizer = REGEX("(?#a)") } },
    { "a named group", "this kind of group", { .pre_tokenizer =
      REGEX("(?<n>a)") } },
    { "a verb", "begins with \"*\"", { .pre_tokenizer = REGEX("(*UTF)a") } },
    { "a possessive interval", "repeat of a repeat", { .pre_tokenizer =
      REGEX("a{2,3}+") } },
    { "an optional interval", "repeat of a repeat", { .pre_tokenizer =
      REGEX("a{2}?") } },
    { "a huge interval", "this repeat", { .pre_tokenizer = REGEX("a{70000}") }
    },
    { "a backward interval", "this repeat", { .pre_tokenizer = REGEX("a{3,2}")
    } },
    { "an open group", "parenthesis", { .pre_tokenizer = REGEX("(?:a") } },
    { "nothing to repeat", "repeat", { .pre_tokenizer = REGEX("*a") } },
    { "the end after a backslash", "this escape", { .pre_tokenizer =
      REGEX("a\\\\") } },
};


static void
test_cases(void)
{
    size_t             i;
    hymt_error_t       err;
    hymt_status_t      rc;
    hymt_tokenizer_t  *tok;

    for (i = 0; i < hymt_nelts(cases); i++) {
        rc = tokenizer_json_load(&cases[i].json, &tok, &err);

        if (cases[i].want == NULL) {
            is_str(rc == HYMT_OK ? "loads" : err.text, "loads", "%s",
                   cases[i].name);

        } else {
            is_int(rc, HYMT_ERROR, "%s: refused", cases[i].name);
            has_str(err.text, "/tokenizer.json: ", "%s: names the file",
                    cases[i].name);
            has_str(err.text, cases[i].want, "%s: names the fault",
                    cases[i].name);
            ok(tok == NULL && strchr(err.text, '\n') == NULL,
               "%s: nothing is left, and the message is one line",
               cases[i].name);
        }

        hymt_tokenizer_free(tok);
    }
}


static void
test_missing(void)
{
    hymt_error_t       err;
    hymt_tokenizer_t  *tok;

    is_int(hymt_tokenizer_load("/nonexistent", &tok, &err), HYMT_ERROR,
           "a directory that is not there");
    has_str(err.text, "/nonexistent/tokenizer.json", "is named");
    ok(tok == NULL, "nothing is left");
}


/* nesting as deep as a file can hold must not exhaust the stack */
static void
test_deep(void)
{
    char              *text;
    size_t             n;
    hymt_error_t       err;
    tokenizer_json_t   json;
    hymt_tokenizer_t  *tok;

    n = 1000000;
    text = malloc(n + 1);

    if (text == NULL) {
        fixture_die("no memory", "test_deep");
    }

    memset(text, '[', n);
    memcpy(text, "{\"a\":", 5);
    text[n] = '\0';

    memset(&json, 0, sizeof(json));
    json.whole = text;

    is_int(tokenizer_json_load(&json, &tok, &err), HYMT_ERROR,
           "a million brackets");
    has_str(err.text, "depth", "the error says so");

    free(text);
}


static void
test_long_token(void)
{
    char              *vocab;
    size_t             n;
    hymt_error_t       err;
    tokenizer_json_t   json;
    hymt_tokenizer_t  *tok;

    n = 5000;
    vocab = malloc(n + 64);

    if (vocab == NULL) {
        fixture_die("no memory", "test_long_token");
    }

    memset(vocab, 'x', n);
    memcpy(vocab, ", \"", 3);
    strcpy(vocab + n, "\": 256");

    memset(&json, 0, sizeof(json));
    json.vocab = vocab;

    is_int(tokenizer_json_load(&json, &tok, &err), HYMT_ERROR,
           "a token of 5,000 bytes");
    has_str(err.text, "4096 are accepted", "the error says the limit");

    free(vocab);
}


int
main(void)
{
    test_cases();
    test_missing();
    test_deep();
    test_long_token();

    return tap_done();
}
