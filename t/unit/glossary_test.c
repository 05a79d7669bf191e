/*
 * glossary_test.c - glossary.h: entries, matching.
 */

#include "glossary_fixture.h"


static hymt_status_t
parse(const char *text, hymt_glossary_format_t format, hymt_glossary_t **g)
{
    err.text[0] = '\0';
    *g = NULL;

    return hymt_glossary_parse(text, strlen(text), format, lang("en"),
                               lang("de"), NULL, g, &err);
}


/* the entries as "a=b|c=d", or the error */
static const char *
shown(const char *text, hymt_glossary_format_t format)
{
    size_t                        len;
    uint32_t                      i, n;
    hymt_status_t                 rc;
    hymt_glossary_t              *g;
    const hymt_glossary_entry_t  *e;

    static char  buf[2048];

    rc = parse(text, format, &g);

    if (rc != HYMT_OK) {
        return rc == HYMT_DECLINED ? err.text : "not declined";
    }

    e = hymt_glossary_entries(g, &n);

    for (i = 0, len = 0; i < n; i++) {
        len += (size_t) snprintf(buf + len, sizeof(buf) - len, "%s%s=%s",
                                 i == 0 ? "" : "|", e[i].src, e[i].tgt);

        if (strlen(e[i].src) != e[i].src_len
            || strlen(e[i].tgt) != e[i].tgt_len)
        {
            return "lengths differ";
        }
    }

    hymt_glossary_unref(g);

    return buf;
}


static void
test_tsv(void)
{
    is_str(shown("a\tb\nc d\te", HYMT_GLOSSARY_TSV), "a=b|c d=e", "TSV");
    is_str(shown("a\tb\r\nc\td\r\n", HYMT_GLOSSARY_TSV), "a=b|c=d", "CRLF");
    is_str(shown("\n\na\tb\n\r\n\nc\td\n\n", HYMT_GLOSSARY_TSV), "a=b|c=d",
           "empty lines");
    is_str(shown("\xef\xbb\xbf" "a\tb", HYMT_GLOSSARY_TSV), "a=b",
           "a byte order mark");
    is_str(shown("  a \t b  ", HYMT_GLOSSARY_TSV), "a=b", "blanks around");
    is_str(shown("\"a\"\tb,c", HYMT_GLOSSARY_TSV), "\"a\"=b,c",
           "quotes and commas are text");
    is_str(shown("猫\tKatze\nÄpfel\tapples", HYMT_GLOSSARY_TSV),
           "猫=Katze|Äpfel=apples", "beyond ASCII");
    is_str(shown("a\tx\nA\ty", HYMT_GLOSSARY_TSV), "a=x|A=y",
           "case makes two terms");

    has_str(shown("a\tb\nc\n", HYMT_GLOSSARY_TSV), "line 2: no tab", "no tab");
    has_str(shown("a\tb\nc\td\te\n", HYMT_GLOSSARY_TSV), "line 2: more than"
            " one tab", "two tabs");
    has_str(shown("a\tb\n\n\t b\n", HYMT_GLOSSARY_TSV), "line 3: the source"
            " term is empty", "an empty source");
    has_str(shown("a\t  \n", HYMT_GLOSSARY_TSV), "line 1: the target term is"
            " empty", "an empty target");
    has_str(shown("a\tb\nc\td\n\na\te", HYMT_GLOSSARY_TSV), "line 4: the source"
            " term is already in line 1", "the same term twice");
    has_str(shown("a\tb\nx\x01y\tb", HYMT_GLOSSARY_TSV), "line 2: the source"
            " term has a control character", "C0");
    has_str(shown("a\tb\x7f", HYMT_GLOSSARY_TSV), "control character", "DEL");
    has_str(shown("a\tb\xc2\x85z", HYMT_GLOSSARY_TSV), "control character",
            "C1");
    has_str(shown("a\xe2\x80\xa8z\tb", HYMT_GLOSSARY_TSV), "control character",
            "a line separator");
    has_str(shown("a\rb\tc", HYMT_GLOSSARY_TSV), "control character",
            "a lone CR");
    has_str(shown("a\t\xff", HYMT_GLOSSARY_TSV), "not UTF-8 at byte 2",
            "not UTF-8");
    has_str(shown("\n \r\n", HYMT_GLOSSARY_TSV), "line 2", "blanks alone");
    has_str(shown("", HYMT_GLOSSARY_TSV), "there is none", "nothing");
    has_str(shown("\xef\xbb\xbf\n", HYMT_GLOSSARY_TSV), "there is none",
            "a mark alone");
}


static void
test_csv(void)
{
    hymt_glossary_t  *g;

    is_str(shown("a,b\nc,d", HYMT_GLOSSARY_CSV), "a=b|c=d", "CSV");
    is_str(shown("\"a, b\",\"say \"\"c\"\"\"\r\n", HYMT_GLOSSARY_CSV),
           "a, b=say \"c\"", "quotes");
    is_str(shown("a,b,en,de\nc,d\ne,f,EN,de-DE\ng,h,,", HYMT_GLOSSARY_CSV),
           "a=b|c=d|e=f|g=h", "languages");
    is_str(shown("\"a\",b,\"en\",\"de\"", HYMT_GLOSSARY_CSV), "a=b",
           "quoted languages");

    has_str(shown("a,b\nc", HYMT_GLOSSARY_CSV), "line 2: not two columns",
            "one column");
    has_str(shown("a,b,en", HYMT_GLOSSARY_CSV), "line 1: not two columns",
            "three columns");
    has_str(shown("a,b,en,de,", HYMT_GLOSSARY_CSV), "more than four", "five");
    has_str(shown("a,b,en,fr", HYMT_GLOSSARY_CSV), "line 1: the target"
            " language is not the glossary's (de)", "another language");
    has_str(shown("a,b,xx,de", HYMT_GLOSSARY_CSV), "the source language is not"
            " the glossary's (en)", "no language");
    has_str(shown("a,\"b", HYMT_GLOSSARY_CSV), "no closing quote", "no end");
    has_str(shown("a,\"b\nc\"", HYMT_GLOSSARY_CSV), "line 1: a line break",
            "a line break in a term");
    has_str(shown("\"a\"x,b", HYMT_GLOSSARY_CSV), "after a closing quote",
            "text after a quote");
    has_str(shown("a\tb,c", HYMT_GLOSSARY_CSV), "control character", "a tab");
    has_str(shown("\"\",b", HYMT_GLOSSARY_CSV), "source term is empty",
            "quoted nothing");
    has_str(shown("a,b\n\"a\",c", HYMT_GLOSSARY_CSV), "line 2: the source term"
            " is already in line 1", "the same term, quoted");

    is_int(parse("a\nb,\"", HYMT_GLOSSARY_CSV, &g), HYMT_DECLINED, "declined");
}


static void
test_limits(void)
{
    char                    *tsv;
    size_t                   len;
    hymt_glossary_t         *g;
    hymt_glossary_limits_t   l = { .entries = 2, .term_bytes = 4, .bytes = 20 };

    is_int(hymt_glossary_parse("a\tb\nc\td\n", 8, HYMT_GLOSSARY_TSV, 0, 1, &l,
                               &g, &err), HYMT_OK, "two entries of two");
    is_int(hymt_glossary_tsv(g, &tsv, &len, &err), HYMT_OK, "back as TSV");
    is_str(tsv, "a\tb\nc\td\n", "as they were");
    is_int(len, 8, "with their length");
    free(tsv);
    hymt_glossary_unref(g);

    is_int(hymt_glossary_parse("a\tb\nc\td\ne\tf", 11, HYMT_GLOSSARY_TSV, 0, 1,
                               &l, &g, &err), HYMT_TOO_LONG, "three");
    has_str(err.text, "line 3: more than 2 entries", "says so");

    is_int(hymt_glossary_parse("a\tbcdef", 7, HYMT_GLOSSARY_TSV, 0, 1, &l, &g,
                               &err), HYMT_TOO_LONG, "a long term");
    has_str(err.text, "target term has 5 bytes, 4 are allowed", "says so");

    is_int(hymt_glossary_parse("a\tb\n                 ", 21, HYMT_GLOSSARY_TSV,
                               0, 1, &l, &g, &err), HYMT_TOO_LONG,
           "a long text");
    has_str(err.text, "21 bytes, 20 are allowed", "says so");
}


static void
test_match(void)
{
    hymt_glossary_t  *g;

    is_int(parse("train\tZug\ntrain station\tBahnhof\nTrain\tBahn\ncat\tKatze\n"
                 "猫\tcat\n猫咪\tkitty\nC++\tC++\n.NET\t.NET\nÄpfel\tapples\n"
                 "รถไฟ\ttrain\n서울\tSeoul\nстанция\tstation\nx\ty\ne\u0301\tz\n",
                 HYMT_GLOSSARY_TSV, &g), HYMT_OK, "a glossary");

    is_str(matches(g, "the train station", false, 32), "train station|train",
           "the longest first, what it holds too");
    is_str(matches(g, "train", false, 32), "train", "the whole text");
    is_str(matches(g, "trains, retrain, trainé, train_s", false, 32), "train",
           "whole words; an underscore parts words");
    is_str(matches(g, "cats concat cat's", false, 32), "cat",
           "an apostrophe parts words");
    is_str(matches(g, "Train TRAIN", false, 32), "Train", "case counts");
    is_str(matches(g, "TRAIN STATION", true, 32), "train station|train",
           "or not: the first of equals");
    is_str(matches(g, "ÄPFEL und äpfel", true, 32), "Äpfel",
           "not beyond ASCII either");
    is_str(matches(g, "我家的猫咪很可爱", false, 32), "猫咪|猫",
           "Chinese matches anywhere");
    is_str(matches(g, "猫x猫", false, 32), "猫|x", "and parts words");
    is_str(matches(g, "นั่งรถไฟไป", false, 32), "รถไฟ", "Thai anywhere");
    is_str(matches(g, "서울에서", false, 32), "서울", "a Korean particle");
    is_str(matches(g, "станциями", false, 32), "", "no part of a Russian word");
    is_str(matches(g, "use C++ and .NET!", false, 32), ".NET|C++",
           "terms that begin or end in punctuation");
    is_str(matches(g, "ASP.NET C++11", false, 32), ".NET|C++",
           "match beside letters on that side");
    is_str(matches(g, "", false, 32), "", "an empty text");
    is_str(matches(g, "cat train station", false, 2), "train station|train",
           "at most max, the longest");
    is_str(matches(g, "train", false, 0), "", "none of none");
    has_str(matches(g, "train \xc3", false, 32), "not UTF-8 at byte 6",
            "not UTF-8");

    hymt_glossary_unref(g);
}


/* many terms and a long text against looking for each term by itself */
static void
test_match_large(void)
{
    char                          *text, *all, word[64];
    size_t                         len, at;
    uint32_t                       i, k, n, wrong, want;
    uint64_t                       start;
    unsigned                       rng;
    hymt_glossary_t               *g;
    const hymt_glossary_entry_t   *e;
    const hymt_glossary_entry_t  **out;

    all = malloc(1 << 20);
    text = malloc(110000);
    out = malloc(10000 * sizeof(*out));
    rng = 1;

    for (i = 0, at = 0; i < 10000; i++) {
        at += (size_t) sprintf(all + at, "term%u word\t%u\n", i * 7 % 10000, i);
    }

    is_int(hymt_glossary_parse(all, at, HYMT_GLOSSARY_TSV, 1, 2, NULL, &g,
                               &err), HYMT_OK, "10,000 entries");

    for (len = 0; len < 100000; /* void */) {
        rng = rng * 1103515245 + 12345;
        len += (size_t) sprintf(text + len, "term%u %s", rng >> 16,
                                rng & 0x800 ? "word " : "words ");
    }

    start = tap_cpu_ns();
    is_int(hymt_glossary_match(g, text, len, true, out, 10000, &n, &err),
           HYMT_OK, "in 100 KB");
    printf("# 10,000 terms in 100 KB: %.1f ms\n",
           (double) (tap_cpu_ns() - start) / 1e6);

    e = hymt_glossary_entries(g, &k);
    wrong = 0;
    want = 0;

    for (i = 0; i < k; i += 16) {
        snprintf(word, sizeof(word), "%s ", e[i].src);
        want = strstr(text, word) != NULL
               && (strncmp(text, word, strlen(word)) == 0
                   || strstr(text, word)[-1] == ' ');

        for (k = 0; k < n && out[k] != &e[i]; k++) { /* void */ }

        wrong += (k < n) != want;
        (void) hymt_glossary_entries(g, &k);
    }

    is_int(wrong, 0, "the same as strstr() finds");
    ok(n > 100 && n < 10000, "some of them");
    hymt_glossary_unref(g);

    /* nested terms of one letter, in a text of that letter */

    for (i = 0, at = 0; i < 340; i++) {
        for (k = 0; k <= i; k++) {
            memcpy(all + at, "中", 3);
            at += 3;
        }

        at += (size_t) sprintf(all + at, "\tx\n");
    }

    for (len = 0; len < 99999; len += 3) {
        memcpy(text + len, "中", 3);
    }

    is_int(hymt_glossary_parse(all, at, HYMT_GLOSSARY_TSV, 0, 1, NULL, &g,
                               &err), HYMT_OK, "terms that begin alike");

    start = tap_cpu_ns();
    is_int(hymt_glossary_match(g, text, len, false, out, 10000, &n, &err),
           HYMT_OK, "in a text made to be slow");
    start = tap_cpu_ns() - start;
    printf("# 340 nested terms in 100 KB: %.1f ms\n", (double) start / 1e6);

    is_int(n, 340, "all of them");
    is_int(out[0]->src_len, 1020, "the longest first");
    ok(start < 5000000000, "in bounded time");

    hymt_glossary_unref(g);
    free(all);
    free(text);
    free(out);
}


int
main(void)
{
    test_tsv();
    test_csv();
    test_limits();
    test_match();
    test_match_large();

    return tap_done();
}
