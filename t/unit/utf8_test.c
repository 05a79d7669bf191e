/*
 * utf8_test.c - what counts as UTF-8, and where a cut text is whole.
 */

#include "base.h"
#include "tap.h"


typedef struct {
    const char  *name;
    const char  *text;
    size_t       len;
    bool         valid;
    size_t       bad;
    size_t       whole;
} utf8_case_t;


static const utf8_case_t  cases[] = {
    { "empty", "", 0, true, 0, 0 },
    { "ASCII", "abc", 3, true, 0, 3 },
    { "NUL", "a\0b", 3, true, 0, 3 },
    { "two, three and four bytes", "\xc3\xa9\xe4\xbd\xa0\xf0\x9f\x98\x80", 9,
      true, 0, 9 },
    { "U+10FFFF", "\xf4\x8f\xbf\xbf", 4, true, 0, 4 },
    { "U+FFFE and U+FFFF", "\xef\xbf\xbe\xef\xbf\xbf", 6, true, 0, 6 },
    { "above U+10FFFF", "\xf4\x90\x80\x80", 4, false, 0, 4 },
    { "lead byte F5", "x\xf5\x80\x80\x80", 5, false, 1, 5 },
    { "lone continuation", "ab\x80", 3, false, 2, 3 },
    { "lone high surrogate", "\xed\xa0\x80", 3, false, 0, 3 },
    { "lone low surrogate", "x\xed\xbf\xbf", 4, false, 1, 4 },
    { "last before the surrogates", "\xed\x9f\xbf", 3, true, 0, 3 },
    { "overlong of two", "\xc0\x80", 2, false, 0, 2 },
    { "overlong of two, C1", "\xc1\xbf", 2, false, 0, 2 },
    { "overlong of three", "\xe0\x9f\xbf", 3, false, 0, 3 },
    { "overlong of four", "\xf0\x8f\xbf\xbf", 4, false, 0, 4 },
    { "cut after the first of two", "a\xc3", 2, false, 1, 1 },
    { "cut after the first of three", "a\xe4", 2, false, 1, 1 },
    { "cut after the second of three", "a\xe4\xbd", 3, false, 1, 1 },
    { "cut after the third of four", "a\xf0\x9f\x98", 4, false, 1, 1 },
    { "cut, but broken already", "a\xf0\x8f", 3, false, 1, 3 },
    { "cut surrogate is broken already", "a\xed\xa0", 3, false, 1, 3 },
    { "broken in the middle", "a\xe4\x41z", 4, false, 1, 4 },
};


/* the same behind so many bytes of ASCII, and before some */
static uint32_t
inside(const utf8_case_t *c)
{
    char      text[64];
    bool      valid;
    size_t    n, bad;
    uint32_t  good;

    for (n = 0, good = 0; n < 24; n++) {
        memset(text, 'x', sizeof(text));
        memcpy(text + n, c->text, c->len);

        bad = n + c->bad;
        valid = hymt_utf8_check(text, n + c->len + 20, &bad);
        good += valid == c->valid && bad == n + c->bad;
    }

    return good;
}


int
main(void)
{
    bool    valid;
    size_t  i, bad;

    for (i = 0; i < hymt_nelts(cases); i++) {
        bad = 0;
        valid = hymt_utf8_check(cases[i].text, cases[i].len, &bad);

        is_int(valid, cases[i].valid, "%s: validity", cases[i].name);
        is_int(bad, cases[i].bad, "%s: offset of the fault", cases[i].name);
        is_int(hymt_utf8_whole(cases[i].text, cases[i].len), cases[i].whole,
               "%s: whole part", cases[i].name);
        is_int(inside(&cases[i]), 24, "%s: among ASCII", cases[i].name);
    }

    ok(!hymt_utf8_check("\xff", 1, NULL), "the offset may be left out");

    return tap_done();
}
