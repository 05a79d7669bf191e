/*
 * markup_judge_test.c - the second parser: what counts as the same elements,
 * what it does not judge, and that no input takes it long.
 */

#include "markup_judge.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>


static const char  *names[] = { "same", "other", "unknown" };


static void
judge(hymt_format_t format, const char *was, const char *is,
    hymt_judgement_t expected)
{
    is_str(names[hymt_markup_judge(format, was, strlen(was), is, strlen(is))],
           names[expected], "%s \"%s\" and \"%s\"",
           format == HYMT_FORMAT_HTML ? "HTML" : "XML", was, is);
}


static void
judge_both(const char *was, const char *is, hymt_judgement_t expected)
{
    judge(HYMT_FORMAT_HTML, was, is, expected);
    judge(HYMT_FORMAT_XML, was, is, expected);
}


static void
test_same(void)
{
    judge_both("", "", HYMT_JUDGE_SAME);
    judge_both("one two", "eins &lt; &amp; &gt; zwei", HYMT_JUDGE_SAME);
    judge_both("one <b>two</b> three", "drei eins <b>zwei</b>",
               HYMT_JUDGE_SAME);
    judge_both("<i>a</i> <b>b</b>", "<b>b</b> <i>a</i>", HYMT_JUDGE_SAME);
    judge_both("a <b>b <i>c</i></b>", "<b><i>C</i> B</b> A", HYMT_JUDGE_SAME);
    judge_both("<a b=\"1\" c=\"2\">x</a>", "<a c=\"2\" b=\"1\">y</a>",
               HYMT_JUDGE_SAME);
    judge_both("x <!-- c --> y", "<!-- c --> z", HYMT_JUDGE_SAME);
    judge_both("x <?p i?> y", "z <?p i?>", HYMT_JUDGE_SAME);
    judge_both("a <x id=\"1\"/> b", "b <x id=\"1\"/> a", HYMT_JUDGE_SAME);
    judge_both("&nbsp;x&eacute;", "&nbsp;y", HYMT_JUDGE_SAME);

    judge(HYMT_FORMAT_HTML, "a < b", "b &lt; a", HYMT_JUDGE_SAME);
    judge(HYMT_FORMAT_HTML, "x<br>y <img src=a>", "<img src=a>y<br>x",
          HYMT_JUDGE_SAME);
    judge(HYMT_FORMAT_HTML, "<B>x</b>", "<b>y</B>", HYMT_JUDGE_SAME);
    judge(HYMT_FORMAT_HTML, "x </b> y <i>z", "X </b> Y <i>Z", HYMT_JUDGE_SAME);
    judge(HYMT_FORMAT_HTML, "<meta charset=\"utf-16\">x <b>y</b>",
          "<meta charset=\"utf-16\">z <b>w</b>", HYMT_JUDGE_SAME);
    judge(HYMT_FORMAT_XML, "<n:a xml:lang=\"de\"/>x", "y<n:a xml:lang=\"de\"/>",
          HYMT_JUDGE_SAME);
}


static void
test_other(void)
{
    judge_both("one", "<b>one</b>", HYMT_JUDGE_OTHER);
    judge_both("<b>one</b>", "one", HYMT_JUDGE_OTHER);
    judge_both("<b>one</b>", "<b>one</b><b>two</b>", HYMT_JUDGE_OTHER);
    judge_both("<b>one</b>", "<i>one</i>", HYMT_JUDGE_OTHER);
    judge_both("<b>x <i>y</i></b>", "<i>x <b>y</b></i>", HYMT_JUDGE_OTHER);
    judge_both("<b>x</b> <i>y</i>", "<b>x <i>y</i></b>", HYMT_JUDGE_OTHER);
    judge_both("<a b=\"1\">x</a>", "<a b=\"2\">x</a>", HYMT_JUDGE_OTHER);
    judge_both("<a b=\"1\">x</a>", "<a>x</a>", HYMT_JUDGE_OTHER);
    judge_both("x <!-- c -->", "x", HYMT_JUDGE_OTHER);
    judge_both("x", "x <!-- c -->", HYMT_JUDGE_OTHER);
    judge_both("x", "x <script>alert(1)</script>", HYMT_JUDGE_OTHER);
    judge_both("<a t=\"%s\">x</a>", "<a t=\"\" o=\"%s\">x</a>",
               HYMT_JUDGE_OTHER);

    judge(HYMT_FORMAT_HTML, "x <b>y</b> z", "x <b>y z", HYMT_JUDGE_SAME);
    judge(HYMT_FORMAT_XML, "x <b>y</b> z", "x <b>y z", HYMT_JUDGE_OTHER);
    judge(HYMT_FORMAT_XML, "x", "x & y", HYMT_JUDGE_OTHER);
    judge(HYMT_FORMAT_XML, "x", "x </div><div>", HYMT_JUDGE_OTHER);
    judge(HYMT_FORMAT_XML, "x", "\x01", HYMT_JUDGE_OTHER);
}


static void
test_unknown(void)
{
    judge(HYMT_FORMAT_XML, "x </b>", "x </b>", HYMT_JUDGE_UNKNOWN);
    judge(HYMT_FORMAT_XML, "x & y", "z", HYMT_JUDGE_UNKNOWN);
}


/* n times s, put into something */
static char *
many(const char *before, const char *s, size_t n, const char *after)
{
    char    *text, *p;
    size_t   i;

    text = malloc(strlen(before) + strlen(s) * n + strlen(after) + 1);
    p = stpcpy(text, before);

    for (i = 0; i < n; i++) {
        p = stpcpy(p, s);
    }

    strcpy(p, after);

    return text;
}


static void
limit(const char *what, char *text, hymt_judgement_t expected)
{
    double         ms;
    size_t         len;
    uint64_t       start;
    hymt_format_t  format;

    len = strlen(text);

    for (format = HYMT_FORMAT_HTML; format <= HYMT_FORMAT_XML; format++) {
        start = tap_cpu_ns();

        is_str(names[hymt_markup_judge(format, text, len, text, len)],
               names[expected], "%s, %zu bytes", what, len);

        ms = (double) (tap_cpu_ns() - start) / 1e6;

        printf("# %.3f ms\n", ms);
        ok(ms < 50, "%s: soon", what);
    }

    free(text);
}


static void
test_limits(void)
{
    limit("a long text", many("", "word ", 1600, ""), HYMT_JUDGE_SAME);
    limit("too long a text", many("", "word ", 1700, ""), HYMT_JUDGE_UNKNOWN);
    limit("many elements", many("", "<b>x</b> ", 900, ""), HYMT_JUDGE_SAME);
    limit("many empty ones", many("", "<b/>", 2000, ""), HYMT_JUDGE_SAME);
    limit("too deep", many("", "<b>", 200, "x"), HYMT_JUDGE_UNKNOWN);
    limit("too deep at length", many("", "<b>", 2700, "x"),
          HYMT_JUDGE_UNKNOWN);
    limit("too many attributes", many("<b", " a=''", 1500, "/>"),
          HYMT_JUDGE_UNKNOWN);
    limit("references", many("", "&lt;", 2000, ""), HYMT_JUDGE_SAME);
    limit("comments", many("", "<!---->", 1150, ""), HYMT_JUDGE_SAME);
}


static void
test_speed(void)
{
    double              us;
    size_t              i, k;
    uint64_t            start;
    hymt_format_t       format;
    static const char   was[] = "Click <a href=\"/x\">here</a> to <b>save</b>"
                                " your file, then close the window.";
    static const char   is[] = "Klicken Sie <a href=\"/x\">hier</a>, um die"
                               " Datei zu <b>speichern</b>.";

    for (format = HYMT_FORMAT_HTML; format <= HYMT_FORMAT_XML; format++) {
        start = tap_cpu_ns();

        for (i = 0, k = 0; i < 2000; i++) {
            k += hymt_markup_judge(format, was, sizeof(was) - 1, is,
                                   sizeof(is) - 1);
        }

        us = (double) (tap_cpu_ns() - start) / 1e3 / 2000;

        is_int(k, 0, "a sentence with tags, 2000 times");
        printf("# %s: %.1f us each\n",
               format == HYMT_FORMAT_HTML ? "HTML" : "XML", us);
    }
}


int
main(void)
{
    test_same();
    test_other();
    test_unknown();
    test_limits();
    test_speed();

    return tap_done();
}
