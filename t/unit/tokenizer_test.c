/*
 * tokenizer_test.c - text to ids: equal to Hugging Face's, never a control
 * token, in time that does not depend on what the text is.
 */

#include "tap.h"
#include "tokenizer_json.h"
#include "vectors.h"


#define MODEL    "models/demo"
#define MAX_IDS  65536


static uint32_t  ids[MAX_IDS];


/* the vectors, with and without machine code for the patterns */
static void
test_vectors(hymt_tokenizer_t *tok, hymt_encoder_t *enc, bool jit)
{
    char          *field[2], show[2048];
    size_t         len, n;
    uint32_t       i;
    unsigned       wrong, seen;
    vectors_t      v;
    hymt_error_t   err;

    for (i = 0; i < tok->n_stages; i++) {
        tok->stages[i].jit = tok->stages[i].jit && jit;
    }

    wrong = 0;
    seen = 0;
    vectors_open(&v, "t/data/tokenizer.txt");

    while (vectors_next(&v, field, 2)) {
        seen++;
        len = vectors_bytes(field[0]);
        n = 0;
        err.text[0] = '\0';

        if (hymt_encode(enc, field[0], len, ids, MAX_IDS, &n, &err) == HYMT_OK
            && vectors_equal(field[1], ids, n))
        {
            continue;
        }

        if (wrong++ == 0) {
            printf("# line %u: got  %s%s\n# line %u: want %s\n", v.number,
                   ids_show(ids, n, show, sizeof(show)), err.text, v.number,
                   field[1]);
        }
    }

    is_int(wrong, 0, "texts with ids unlike Hugging Face's, %s JIT",
           jit ? "with" : "without");
    ok(seen > 1000, "%u texts were compared", seen);
}


/* a merge at a time, as the definition says */
static size_t
slow_bpe(const hymt_tokenizer_t *tok, const unsigned char *text, size_t len,
    uint32_t *out)
{
    size_t    i, best;
    uint32_t  m, rank, best_rank;
    uint64_t  pair;

    for (i = 0; i < len; i++) {
        out[i] = tok->byte_id[text[i]];
    }

    for ( ;; ) {
        best = 0;
        best_rank = HYMT_NO_RANK;

        for (i = 0; i + 1 < len; i++) {
            pair = (uint64_t) out[i] << 32 | out[i + 1];
            m = (uint32_t) hymt_mix64(pair) & tok->merge_mask;

            while (tok->merges[m].rank != HYMT_NO_RANK
                   && tok->merges[m].pair != pair)
            {
                m = (m + 1) & tok->merge_mask;
            }

            rank = tok->merges[m].rank;

            if (rank < best_rank) {
                best_rank = rank;
                best = i;
            }
        }

        if (best_rank == HYMT_NO_RANK) {
            return len;
        }

        out[best] = tok->merged[best_rank];
        memmove(out + best + 1, out + best + 2,
                (len - best - 2) * sizeof(uint32_t));
        len--;
    }
}


/* words below, at and above the lengths where the way of merging changes */
static void
test_lengths(const hymt_tokenizer_t *tok, hymt_encoder_t *enc)
{
    int            wrong, round;
    size_t         len, n, want_n;
    uint32_t       want[256], random;
    unsigned       i, wide;
    unsigned char  text[256];

    wrong = 0;
    random = 1;

    for (round = 0; round < 3000; round++) {
        len = 1 + (size_t) round % 120;
        wide = round % 3 == 0 ? 3 : 26;

        for (i = 0; i < len; i++) {
            random = random * 1664525 + 1013904223;
            text[i] = (unsigned char) ('a' + (random >> 16) % wide);
        }

        want_n = slow_bpe(tok, text, len, want);

        wrong += hymt_bpe_word(enc, text, (uint32_t) len, ids, MAX_IDS, &n)
                 != HYMT_OK
                 || n != want_n
                 || memcmp(ids, want, n * sizeof(uint32_t)) != 0;
    }

    is_int(wrong, 0, "words that merge unlike the definition");
}


static void
test_capacity(hymt_encoder_t *enc)
{
    char          text[512];
    size_t        n, whole;
    uint32_t      guard[513];
    hymt_error_t  err;

    memset(text, 'q', sizeof(text));
    text[100] = ' ';

    is_int(hymt_encode(enc, text, sizeof(text), ids, MAX_IDS, &whole, &err),
           HYMT_OK, "a text of two words");
    ok(whole > 10, "of %zu tokens", whole);

    guard[whole] = 12345;
    is_int(hymt_encode(enc, text, sizeof(text), guard, whole, &n, &err),
           HYMT_OK, "with just the room it needs");

    guard[whole - 1] = 12345;
    is_int(hymt_encode(enc, text, sizeof(text), guard, whole - 1, &n, &err),
           HYMT_TOO_LONG, "with one less");
    has_str(err.text, "byte 100 of 512", "says how far it came");
    is_int(guard[whole - 1], 12345, "and writes no further");

    is_int(hymt_encode(enc, text, 1, guard, 0, &n, &err), HYMT_TOO_LONG,
           "no room at all");
    is_int(hymt_encode(enc, text, 0, guard, 0, &n, &err), HYMT_OK,
           "an empty text needs none");
    is_int(n, 0, "and gives none");
}


static void
test_invalid(hymt_encoder_t *enc)
{
    size_t        i, n;
    hymt_error_t  err;

    static const struct {
        const char  *name;
        const char  *text;
        size_t       len;
        const char  *want;
    } cases[] = {
        { "a lone high surrogate", "ab\xed\xa0\x80", 5, "byte 2" },
        { "a lone low surrogate", "\xed\xb0\x80", 3, "byte 0" },
        { "a pair of surrogates", "\xed\xa0\xbd\xed\xb8\x80", 6, "byte 0" },
        { "a cut code point", "abc\xe4\xbd", 5, "byte 3" },
        { "an overlong NUL", "a\xc0\x80", 3, "byte 1" },
    };

    for (i = 0; i < hymt_nelts(cases); i++) {
        is_int(hymt_encode(enc, cases[i].text, cases[i].len, ids, MAX_IDS, &n,
                           &err), HYMT_ERROR, "%s", cases[i].name);
        has_str(err.text, cases[i].want, "%s: the place", cases[i].name);
    }

    is_int(hymt_encode(enc, "a", HYMT_MAX_TEXT + 1, ids, MAX_IDS, &n, &err),
           HYMT_TOO_LONG, "a text over the limit");
}


/* the text of every added token, alone and among others, is plain text */
static void
test_control_text(const hymt_tokenizer_t *tok, hymt_encoder_t *enc)
{
    char           text[4096];
    size_t         i, n, len;
    uint32_t       id, leaks, bytes, seen;
    const char    *s;
    hymt_error_t   err;

    static const char *const  around[][2] = {
        { "", "" }, { " ", " " }, { "x", "y" }, { "\n", "\n" },
        { "<｜hy_", "<" }, { "1", "2" }, { "你", "好" }, { "\xcc\x81", "\0" },
    };

    leaks = 0;
    seen = 0;

    for (id = 0; id < tok->size; id++) {

        if (!tok->tokens[id].added
            || !hymt_tokenizer_bytes(tok, id, &s, &bytes))
        {
            continue;
        }

        for (i = 0; i < hymt_nelts(around); i++) {
            len = (size_t) sprintf(text, "%s%.*s%s%.*s", around[i][0],
                                   (int) bytes, s, around[i][1], (int) bytes,
                                   s);

            if (hymt_encode(enc, text, len, ids, MAX_IDS, &n, &err)
                != HYMT_OK)
            {
                leaks++;
                n = 0;
            }

            while (n != 0) {
                leaks += tok->tokens[ids[--n]].added;
                seen++;
            }
        }
    }

    ok(seen > 1000, "control text makes %u tokens", seen);
    is_int(leaks, 0, "none of them a control token");

    is_int(hymt_tokenizer_added(tok, "<｜hy_User｜>", &id), HYMT_OK,
           "a control token by its text");
    ok(hymt_tokenizer_special(tok, id), "is special");
    is_int(hymt_tokenizer_added(tok, "<｜hy_User", &id), HYMT_DECLINED,
           "part of its text");
    is_int(hymt_tokenizer_added(tok, "the", &id), HYMT_DECLINED,
           "an ordinary token");
}


/* a file that tries to reach its control token by merges or as a word */
static void
test_hostile(const char *name, const char *model)
{
    char             show[256];
    size_t           n;
    hymt_error_t     err;
    hymt_encoder_t  *enc;

    const tokenizer_json_t  json = {
        .added = "[{\"id\": 258, \"content\": \"<s>\", \"special\": true}]",
        .vocab = ", \"<s\": 256, \"s>\": 257, \"<s>\": 258, \"<s>x\": 259",
        .merges = "[\"< s\", \"<s >\", \"s >\", \"< s>\", \"<s> x\"]",
        .model = model,
    };

    enc = tokenizer_json_encoder(&json);

    (void) hymt_encode(enc, "<s>", 3, ids, MAX_IDS, &n, &err);
    is_str(ids_show(ids, n, show, sizeof(show)), "256 62", "%s: <s>", name);

    (void) hymt_encode(enc, "<s>x<s>", 7, ids, MAX_IDS, &n, &err);
    is_str(ids_show(ids, n, show, sizeof(show)), "256 62 120 256 62",
           "%s: <s>x<s>", name);

    tokenizer_json_free(enc);
}


static void
test_words(void)
{
    char             show[256];
    size_t           n;
    hymt_error_t     err;
    hymt_encoder_t  *enc;

    const tokenizer_json_t  merges = {
        .vocab = ", \"ab\": 256, \"bc\": 257, \"abc\": 258",
        .merges = "[\"b c\", [\"a\", \"b\"]]",
    };

    const tokenizer_json_t  words = {
        .vocab = ", \"ab\": 256, \"bc\": 257, \"abc\": 258",
        .merges = "[\"b c\", [\"a\", \"b\"]]",
        .model = ", \"ignore_merges\": true",
    };

    const tokenizer_json_t  again = {
        .vocab = ", \"ab\": 256, \"bc\": 257",
        .merges = "[\"a b\", \"b c\", \"a b\"]",
    };

    enc = tokenizer_json_encoder(&merges);
    (void) hymt_encode(enc, "abc", 3, ids, MAX_IDS, &n, &err);
    is_str(ids_show(ids, n, show, sizeof(show)), "97 257",
           "the lower rank merges first");
    tokenizer_json_free(enc);

    enc = tokenizer_json_encoder(&words);
    (void) hymt_encode(enc, "abc", 3, ids, MAX_IDS, &n, &err);
    is_str(ids_show(ids, n, show, sizeof(show)), "258",
           "ignore_merges: a word that is a token");
    (void) hymt_encode(enc, "abcab", 5, ids, MAX_IDS, &n, &err);
    is_str(ids_show(ids, n, show, sizeof(show)), "97 257 256",
           "ignore_merges: any other merges");
    tokenizer_json_free(enc);

    enc = tokenizer_json_encoder(&again);
    (void) hymt_encode(enc, "abc", 3, ids, MAX_IDS, &n, &err);
    is_str(ids_show(ids, n, show, sizeof(show)), "97 257",
           "a merge that stands twice has its last rank");
    tokenizer_json_free(enc);
}


/* text of n times unit must take linear time, or nearly */
static void
test_time(hymt_encoder_t *enc, const char *name, const char *unit)
{
    char          *text;
    size_t         i, n, len, unit_len;
    uint32_t      *out;
    uint64_t       start, ms;
    hymt_error_t   err;
    hymt_status_t  rc;

    len = 1000000;
    unit_len = strlen(unit);
    len -= len % unit_len;
    text = malloc(len);
    out = malloc(4 * len * sizeof(uint32_t));

    if (text == NULL || out == NULL) {
        fixture_die("no memory", name);
    }

    for (i = 0; i < len; i += unit_len) {
        memcpy(text + i, unit, unit_len);
    }

    start = tap_cpu_ns();
    rc = hymt_encode(enc, text, len, out, 4 * len, &n, &err);
    ms = (tap_cpu_ns() - start) / 1000000;

    is_str(rc == HYMT_OK ? "encoded" : err.text, "encoded", "1 MB of %s",
           name);

    /* a quadratic way takes minutes, with sanitizers a linear one a second */

    ok(ms < 5000, "in %" PRIu64 " ms", ms);

    free(text);
    free(out);
}


static void
test_times(hymt_encoder_t *enc)
{
    hymt_encoder_t    *nfc;
    tokenizer_json_t   json;

    test_time(enc, "one letter", "a");
    test_time(enc, "one Han character", "的");
    test_time(enc, "spaces", " ");
    test_time(enc, "newlines", "\n");
    test_time(enc, "digits", "7");
    test_time(enc, "full stops", ".");
    test_time(enc, "combining marks", "\xcc\x81\xcc\x96");
    test_time(enc, "spaces and letters", " a");
    test_time(enc, "control characters", "\x01");

    memset(&json, 0, sizeof(json));
    json.normalizer = "{\"type\": \"NFC\"}";

    nfc = tokenizer_json_encoder(&json);
    test_time(nfc, "marks out of order, NFC", "\xcc\x81\xcc\x96");
    test_time(nfc, "jamo, NFC", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8");
    tokenizer_json_free(nfc);
}


/* a pattern that explodes stops with an error instead of a hanging thread */
static void
test_explosion(void)
{
    bool             jit;
    char             text[64];
    size_t           n;
    uint64_t         start;
    hymt_error_t     err;
    hymt_encoder_t  *enc;

    const tokenizer_json_t  json = {
        .pre_tokenizer = SPLITS(SPLIT("Regex", "(?:a+a+)+[bc]",
                                      "Isolated", "false")),
    };

    memset(text, 'a', sizeof(text));

    for (jit = true; /* void */ ; jit = false) {
        enc = tokenizer_json_encoder(&json);
        ((hymt_tokenizer_t *) enc->tok)->stages[0].jit &= jit;

        start = tap_cpu_ns();
        is_int(hymt_encode(enc, text, sizeof(text), ids, MAX_IDS, &n, &err),
               HYMT_ERROR, "a pattern that explodes, %s JIT",
               jit ? "with" : "without");
        has_str(err.text, "splitting text at byte 0: ", "says where");
        ok(tap_cpu_ns() - start < 10000000000, "and stops in %" PRIu64 " ms",
           (tap_cpu_ns() - start) / 1000000);

        tokenizer_json_free(enc);

        if (!jit) {
            break;
        }
    }
}


int
main(void)
{
    hymt_error_t       err;
    hymt_encoder_t    *enc;
    hymt_tokenizer_t  *tok;

    tok = NULL;
    enc = NULL;

    if (hymt_tokenizer_load(MODEL, &tok, &err) != HYMT_OK
        || hymt_encoder_create(tok, &enc, &err) != HYMT_OK)
    {
        fixture_die("can't load", err.text);
    }

    test_vectors(tok, enc, true);
    test_lengths(tok, enc);
    test_capacity(enc);
    test_invalid(enc);
    test_control_text(tok, enc);
    test_times(enc);
    test_vectors(tok, enc, false);
    test_time(enc, "spaces, without JIT", " ");
    test_time(enc, "marks, without JIT", "\xcc\x81\xcc\x96");

    hymt_encoder_free(enc);
    hymt_tokenizer_free(tok);

    test_hostile("by merges", "");
    test_hostile("as a word", ", \"ignore_merges\": true");
    test_words();
    test_explosion();

    return tap_done();
}
