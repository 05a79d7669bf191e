/*
 * detok_test.c - streams of tokens turned into text.
 */

#include "tap.h"
#include "tokenizer_json.h"


static const tokenizer_json_t  json = {
    .added = "[{\"id\": 300, \"content\": \"<special>\", \"special\": true},"
             " {\"id\": 301, \"content\": \"<plain>\", \"special\": false}]",
    .vocab = ", \"\xc4\xa0hello\": 256, \"\xc3\xa4\xc2\xbd\": 257,"
             " \"\xc5\x82\xc4\xa0\": 258",
};


/* text out of ids, by pushes and the end */
static const char *
stream(const hymt_tokenizer_t *tok, const uint32_t *ids, size_t n, char *out)
{
    size_t        i, len, used;
    hymt_detok_t  d;

    hymt_detok_init(&d);
    used = 0;

    for (i = 0; i < n; i++) {
        (void) hymt_detok_push(tok, &d, ids[i], out + used, 100, &len);

        if (!hymt_utf8_check(out + used, len, NULL)) {
            return "a part that is not UTF-8";
        }

        used += len;
    }

    (void) hymt_detok_end(&d, out + used, 100, &len);
    out[used + len] = '\0';

    return out;
}


static void
test_stream(const hymt_tokenizer_t *tok)
{
    char    out[256];
    size_t  i;

    /* what Python's bytes.decode(errors="replace") and Rust's lossy give */

    static const struct {
        const char  *name;
        uint32_t     ids[8];
        size_t       n;
        const char  *want;
    } cases[] = {
        { "whole words", { 'A', 256, '!' }, 3, "A hello!" },
        { "a code point over three tokens", { 0xe4, 0xbd, 0xa0 }, 3, "你" },
        { "a token with the beginning of one", { 257, 0xa0, 'x' }, 3, "你x" },
        { "four bytes, one by one", { 0xf0, 0x9f, 0x98, 0x80 }, 4, "😀" },
        { "cut at the end", { 'a', 0xe4, 0xbd }, 3, "a\xef\xbf\xbd" },
        { "cut by ASCII", { 0xe4, 0xbd, 'z' }, 3, "\xef\xbf\xbdz" },
        { "cut by another beginning", { 0xe4, 0xbd, 0xe4, 0xbd, 0xa0 }, 5,
          "\xef\xbf\xbd你" },
        { "lone continuations, one each", { 0x80, 0xbf }, 2,
          "\xef\xbf\xbd\xef\xbf\xbd" },
        { "overlong: each byte is broken", { 0xc0, 0x80 }, 2,
          "\xef\xbf\xbd\xef\xbf\xbd" },
        { "surrogate: each byte is broken", { 0xed, 0xa0, 0x80 }, 3,
          "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
        { "F0 90 then A", { 0xf0, 0x90, 'A' }, 3, "\xef\xbf\xbd" "A" },
        { "F0 80: no continuation fits", { 0xf0, 0x80 }, 2,
          "\xef\xbf\xbd\xef\xbf\xbd" },
        { "bytes that never occur", { 0xff, 0xfe, 'k' }, 3,
          "\xef\xbf\xbd\xef\xbf\xbdk" },
        { "completed by a token that goes on", { 0xe4, 0xbd, 258 }, 3,
          "你 " },
        { "special tokens give nothing", { 'a', 300, 'b' }, 3, "ab" },
        { "a special token inside a code point", { 0xe4, 300, 0xbd, 0xa0 }, 4,
          "你" },
        { "an added token that is not special", { 'a', 301 }, 2, "a<plain>" },
        { "ids without a token give nothing", { 'a', 299, 9999, 'b' }, 4,
          "ab" },
    };

    for (i = 0; i < hymt_nelts(cases); i++) {
        is_str(stream(tok, cases[i].ids, cases[i].n, out), cases[i].want,
               "%s", cases[i].name);
    }
}


static void
test_room(const hymt_tokenizer_t *tok)
{
    char           out[16];
    size_t         n;
    hymt_detok_t   d;

    hymt_detok_init(&d);

    is_int(hymt_detok_push(tok, &d, 256, out, 5, &n), HYMT_TOO_LONG,
           "a token of six bytes in five");
    is_int(n, 0, "nothing is written");
    is_int(hymt_detok_push(tok, &d, 256, out, 6, &n), HYMT_OK,
           "the same token again, in six");
    is_int(n, 6, "all of it is written");

    is_int(hymt_detok_push(tok, &d, 0xe4, out, 0, &n), HYMT_OK,
           "a byte that waits needs no room");
    is_int(hymt_detok_push(tok, &d, 'x', out, 3, &n), HYMT_TOO_LONG,
           "U+FFFD and x in three bytes");
    is_int(d.n, 1, "the byte that waited still waits");
    is_int(hymt_detok_push(tok, &d, 'x', out, 4, &n), HYMT_OK,
           "U+FFFD and x in four");
    is_int(d.n, 0, "nothing waits");

    is_int(hymt_detok_push(tok, &d, 0xe4, out, 0, &n), HYMT_OK, "again");
    is_int(hymt_detok_end(&d, out, 2, &n), HYMT_TOO_LONG,
           "the end in two bytes");
    is_int(hymt_detok_end(&d, out, 3, &n), HYMT_OK, "the end in three");
    is_int(hymt_detok_end(&d, out, 0, &n), HYMT_OK, "the end twice");
    is_int(n, 0, "gives nothing the second time");
}


int
main(void)
{
    hymt_error_t       err;
    hymt_tokenizer_t  *tok;

    if (tokenizer_json_load(&json, &tok, &err) != HYMT_OK) {
        fixture_die("tokenizer.json does not load", err.text);
    }

    test_stream(tok);
    test_room(tok);

    hymt_tokenizer_free(tok);

    return tap_done();
}
