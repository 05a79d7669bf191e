/*
 * segment_test.c - lines, markers, sentences and cuts by length.
 */

#include "segment.h"
#include "tap.h"


/* The parts of a text, "|" between them. */
static char *
parts(const char *lang, const char *text, size_t len, size_t limit, bool all,
    const hymt_ranges_t *whole, size_t *longest)
{
    int                l;
    char              *out, *p;
    uint32_t           i, from, to;
    hymt_cuts_t        cuts;
    hymt_error_t       err;
    hymt_segmenter_t  *seg;

    memset(&cuts, 0, sizeof(cuts));
    l = hymt_lang_find(lang, strlen(lang));
    out = p = malloc(len * 2 + 1);

    if (out == NULL || hymt_segmenter_create(l, &seg, &err) != HYMT_OK
        || hymt_segment(seg, text, len, limit, all, whole, &cuts, &err)
           != HYMT_OK)
    {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }

    from = 0;
    *longest = 0;

    for (i = 0; i <= cuts.n; i++) {
        to = i < cuts.n ? cuts.at[i] : (uint32_t) len;

        if (to < from || to > len || (to == from && len != 0)) {
            printf("Bail out! cut %u at %u behind %u\n", i, to, from);
            exit(1);
        }

        memcpy(p, text + from, to - from);
        p += to - from;
        *p++ = '|';
        *longest = hymt_max(*longest, to - from);
        from = to;
    }

    p[-1] = '\0';
    free(cuts.at);
    hymt_segmenter_free(seg);

    return out;
}


static void
is_cut(const char *lang, const char *want)
{
    char         text[1024], *got;
    size_t       longest, n;
    const char  *p;

    for (p = want, n = 0; *p != '\0'; p++) {
        if (*p != '|') {
            text[n++] = *p;
        }
    }

    text[n] = '\0';
    got = parts(lang, text, n, 100000, true, NULL, &longest);
    is_str(got, want, "%s", lang);
    free(got);
}


static void
test_sentences(void)
{
    is_cut("en", "Hello there. |How are you? |Fine!");
    is_cut("en", "Dr. Smith met Mr. and Mrs. Brown. |They left.");
    is_cut("en", "Use a tool, e.g. this one. |It works.");
    is_cut("en", "See No. 5 and fig. 3. |Then go.");
    is_cut("en", "J. R. R. Tolkien wrote it. |Read it.");
    is_cut("en", "It costs 3.50 now. |Buy version 2.1 today.");
    is_cut("en", "Wait... |No. 3 is next, i.e. that one.");
    is_cut("en", "He said \"Stop.\" |Then he left.");
    is_cut("en", "The U.S. Army came. |It left.");
    is_cut("de", "Am 3. Oktober kam Hr. Meier, z. B. mit Fr. Braun. |Gut.");
    is_cut("de", "Die Fa. Müller GmbH bzw. Dr. Kurz. |Ende.");
    is_cut("fr", "M. Dupont est là. |Mme. Durand aussi.");
    is_cut("es", "El Sr. Pérez llegó. |¿Cómo está? |¡Bien!");
    is_cut("ru", "В 1990 г. Иванов жил на ул. Ленина. |Потом уехал.");
    is_cut("zh", "你好。|今天天气很好！|你去哪里？|“我去学校。”|他说。");
    is_cut("ja", "「行く。」と彼は言った。|そうですか。|はい！");
    is_cut("ko", "안녕하세요. |오늘은 날씨가 좋습니다. |어디 가세요?");
    is_cut("ar", "مرحبا بك. |كيف حالك؟ |أنا بخير.");
    is_cut("ur", "یہ ایک جملہ ہے۔ |یہ دوسرا ہے۔");
    is_cut("hi", "यह एक वाक्य है। |यह दूसरा है।");
    is_cut("bn", "এটি একটি বাক্য। |এটি আরেকটি।");
    is_cut("km", "នេះជាប្រយោគ។ |នេះជាប្រយោគទីពីរ។");
    is_cut("my", "ဒါကစာကြောင်းပါ။ |နောက်တစ်ကြောင်းပါ။");
    is_cut("bo", "བོད་ཡིག། |ཡི་གེ་གཉིས་པ།");
    is_cut("th", "สวัสดีครับ วันนี้อากาศดี");
}


static void
test_length(void)
{
    char           *got, *text;
    size_t          i, longest;
    uint64_t        start;
    hymt_ranges_t   whole;
    hymt_range_t    range;

    got = parts("en", "One two. Three four. Five six.", 30, 30, false, NULL,
                &longest);
    is_str(got, "One two. Three four. Five six.", "what fits is not cut");
    free(got);

    got = parts("en", "One two. Three four. Five six.", 30, 22, false, NULL,
                &longest);
    is_str(got, "One two. Three four. |Five six.", "cut at a sentence end");
    free(got);

    got = parts("en", "aaaa bbbb cccc, dddd eeee ffff gggg", 35, 24, false,
                NULL, &longest);
    is_str(got, "aaaa bbbb cccc, |dddd eeee ffff gggg", "cut at a comma");
    free(got);

    got = parts("en", "aaaa bbbb cccc dddd eeee ffff gggg", 34, 20, false,
                NULL, &longest);
    is_str(got, "aaaa bbbb cccc dddd |eeee ffff gggg", "cut at a space");
    free(got);

    got = parts("th", "ภาษาไทยเป็นภาษาที่มีระดับเสียงของคำแน่นอน", 123, 60,
                false, NULL, &longest);
    ok(longest <= 60 && strchr(got, '|') != NULL, "Thai: between words: %s",
       got);
    ok(strstr(got, "ภา|ษา") == NULL, "Thai: not inside one");
    free(got);

    /* nothing but combining marks, nothing but letters: still bounded */

    text = malloc(1 << 20);

    if (text == NULL) {
        exit(1);
    }

    for (i = 0; i < 1 << 20; i += 2) {
        memcpy(text + i, "\xcc\x81", 2);
    }

    start = tap_cpu_ns();
    got = parts("en", text, 1 << 20, 600, false, NULL, &longest);
    ok(longest <= 2400, "a grapheme of 1 MB: parts of %zu", longest);
    free(got);

    memset(text, 'x', 1 << 20);
    got = parts("en", text, 1 << 20, 600, false, NULL, &longest);
    ok(longest <= 600, "a word of 1 MB: parts of %zu", longest);
    free(got);

    for (i = 0; i + 39 < 1 << 20; i += 39) {
        memcpy(text + i, "ภาษาไทยเป็นภา", 39);
    }

    got = parts("th", text, i, 600, false, NULL, &longest);
    ok(longest <= 600, "Thai of 1 MB without spaces: parts of %zu", longest);
    free(got);

    for (i = 0; i + 10 <= 1 << 20; i += 10) {
        memcpy(text + i, "Dr. X. Ab ", 10);
    }

    got = parts("en", text, i, 600, true, NULL, &longest);
    ok(longest <= 600, "abbreviations of 1 MB: parts of %zu", longest);
    free(got);

    ok(tap_cpu_ns() - start < 10000000000, "in %.2f s",
       (double) (tap_cpu_ns() - start) / 1e9);

    /* what must stay whole stays whole */

    memset(text, 'y', 200);
    range.at = 10;
    range.len = 150;
    memset(&whole, 0, sizeof(whole));
    whole.range = &range;
    whole.n = 1;

    got = parts("en", text, 200, 40, false, &whole, &longest);
    is_int(strcspn(got, "|"), 10, "cut before it");
    is_int(strcspn(got + 11, "|"), 150, "cut behind it");
    free(got);

    range.at = 4;
    range.len = 13;

    got = parts("en", "See http://home.(\xc3\x9c""ber it", 25, 600, true,
                &whole, &longest);
    is_str(got, "See http://home.(|\xc3\x9c""ber it",
           "a bracket within it begins no sentence");
    free(got);
    free(text);
}


static void
test_lines(void)
{
    size_t  eol;

    is_int(hymt_line("ab\r\ncd", 6, &eol), 2, "CRLF");
    is_int(eol, 2, "its length");
    is_int(hymt_line("ab\rcd", 5, &eol), 2, "CR");
    is_int(eol, 1, "its length");
    is_int(hymt_line("ab\xe2\x80\xa9" "c", 6, &eol), 2, "U+2029");
    is_int(eol, 3, "its length");
    is_int(hymt_line("ab", 2, &eol), 2, "the last line");
    is_int(eol, 0, "has no end");

#define marker(s)  hymt_line_marker(s, strlen(s))

    is_int(marker("plain text"), 0, "no marker");
    is_int(marker("  - item"), 4, "dash");
    is_int(marker("* item"), 2, "star");
    is_int(marker("• item"), 4, "bullet");
    is_int(marker("12. item"), 4, "number");
    is_int(marker("1.2) item"), 5, "numbers");
    is_int(marker("(a) item"), 4, "letter in brackets");
    is_int(marker("a) item"), 3, "letter");
    is_int(marker("> - [x] item"), 8, "several");
    is_int(marker("## Title"), 3, "heading");
    is_int(marker("-5 degrees"), 0, "a minus sign");
    is_int(marker("A. Smith"), 0, "an initial");
    is_int(marker("1995. That year"), 0, "a year");
    is_int(marker("- "), 0, "nothing behind it");
    is_int(marker("3.14"), 0, "a decimal");

    ok(hymt_has_letter("12 à", 5), "a letter");
    ok(!hymt_has_letter("12 :-) 😀", 11), "none");
    is_int(hymt_blank_before(" \xc2\xa0\xe3\x80\x80x", 7), 6, "white space");
    is_int(hymt_blank_after("x\xe3\x80\x80 ", 5), 4, "at the end");
}


int
main(void)
{
    test_sentences();
    test_length();
    test_lines();

    return tap_done();
}
