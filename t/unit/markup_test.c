/*
 * markup_test.c - the spans of HTML and XML, and hostile pages.
 */

#include "markup.h"
#include "document_fixture.h"


/*
 * The spans as "kind[bytes]" one behind the other: t text, o open, c close,
 * v void, q opaque, - break.
 */
static void
is_spans(bool html, const char *text, const char *want)
{
    char                    got[2048], *p;
    uint32_t                i, at;
    hymt_error_t            err;
    hymt_markup_t           m;
    hymt_status_t           rc;
    hymt_document_params_t  prm;

    prm = params(HYMT_FORMAT_HTML, "en", "de");
    memset(&m, 0, sizeof(m));

    rc = html ? hymt_markup_html(text, strlen(text), &prm, &m, &err)
              : hymt_markup_xml(text, strlen(text), &prm, &m, &err);

    if (rc != HYMT_OK) {
        is_str(err.text, want, "%s", text);
        hymt_markup_free(&m);
        return;
    }

    p = got;
    *p = '\0';
    at = 0;

    for (i = 0; i < m.n; i++) {
        p += sprintf(p, "%s%c[%.*s]", m.span[i].at == at ? "" : "GAP",
                     "tocvq-"[m.span[i].kind], (int) m.span[i].len,
                     text + m.span[i].at);
        at = m.span[i].at + m.span[i].len;
    }

    is_str(got, want, "%s", text);
    is_int(at, strlen(text), "to the end");
    hymt_markup_free(&m);
}


static void
test_html(void)
{
    is_spans(true, "", "");
    is_spans(true, "a<b>c</b>", "t[a]o[<b>]t[c]c[</b>]");
    is_spans(true, "<P>a<BR/>", "-[<P>]t[a]-[<BR/>]");
    is_spans(true, "a < b <3 > c", "t[a < b <3 > c]");
    is_spans(true, "<a b='>' c=\"'>\" d=>x", "o[<a b='>' c=\"'>\" d=>]t[x]");
    is_spans(true, "<a =b=c / d>x", "o[<a =b=c / d>]t[x]");
    is_spans(true, "<a b='x>y", "-[<a b='x>y]");
    is_spans(true, "x</ y>z</>w<?p ?>v<!x>", "t[x]v[</ y>]t[z]v[</>]t[w]"
             "v[<?p ?>]t[v]v[<!x>]");
    is_spans(true, "<!doctype html><!--a--!>b", "-[<!doctype html>]"
             "v[<!--a--!>]t[b]");
    is_spans(true, "<!-- a --->b<!--c", "v[<!-- a --->]t[b]v[<!--c]");
    is_spans(true, "<title>a<b></title >c",
             "-[<title>]t[a<b>]-[</title >]t[c]");
    is_spans(true, "<style>a</styles></STYLE>b",
             "-[<style>]-[a</styles>]-[</STYLE>]t[b]");
    is_spans(true, "a<code>b<i>c</i></code>d", "t[a]q[<code>b<i>c</i></code>]"
             "t[d]");
    is_spans(true, "a<i translate=no>b<b translate>c</b></i>d",
             "t[a]o[<i translate=no>]-[b]o[<b translate>]t[c]c[</b>]c[</i>]"
             "t[d]");
    is_spans(true, "<![CDATA[a]]>b<svg><![CDATA[</svg>]]><a/></svg>c",
             "v[<![CDATA[a]]>]t[b]q[<svg><![CDATA[</svg>]]><a/></svg>]t[c]");
    is_spans(true, "<ul translate=no><li>a<li>b</ul><li>c",
             "-[<ul translate=no>]-[<li>]-[a]-[<li>]-[b]-[</ul>]-[<li>]t[c]");
    is_spans(true, "<p class='x notranslate'>a<p>b",
             "-[<p class='x notranslate'>]-[a]-[<p>]t[b]");
    is_spans(true, "<td translate=no>a<td>b",
             "-[<td translate=no>]-[a]-[<td>]t[b]");
    is_spans(true, "<plaintext>a</plaintext>",
             "-[<plaintext>]-[a</plaintext>]");
}


static void
test_xml(void)
{
    is_spans(false, "a<b>c</b>", "t[a]o[<b>]t[c]c[</b>]");
    is_spans(false, "<a><b>c</b><b>d<e/></b></a>",
             "-[<a>]-[<b>]t[c]-[</b>]-[<b>]t[d]v[<e/>]-[</b>]-[</a>]");
    is_spans(false, "<?xml version='1.0'?><a/><!-- b -->\n",
             "-[<?xml version='1.0'?>]-[<a/>]-[<!-- b -->\n]");
    is_spans(false, "a<![CDATA[<x>]]>b<?p q?>",
             "t[a]v[<![CDATA[<x>]]>]t[b]v[<?p q?>]");
    is_spans(false, "a<b translate='no'>c</b>",
             "t[a]q[<b translate='no'>c</b>]");
    is_spans(false, "<b", "XML: the text ends inside an element or tag:"
             " is an end tag missing?");
    is_spans(false, "a & b", "XML, line 1, column 4: not well-formed (invalid"
             " token): send well-formed XML, or use html");
}


/* pages made to be slow or deep: each within a second, sanitized or not */
static void
test_hostile(void)
{
    char                   *text, *out;
    size_t                  i, k, n, len, out_len;
    trace_t                 trace;
    uint64_t                start;
    hymt_error_t            err;
    hymt_document_params_t  p;
    static const char      *bits[] = {
        "<div>x", "<b>", "<b><i></b></i>x", "<li><ul>", "<table><td>", "</p>x",
        "<a b=", "<a b=\"", "<!--", "<!-- -->", "&", "&#x", "<", "</",
        "<pre>\n",
        "<b a1 a2 a3 a4 a5 a6>", "<svg><a>", "<script><!--<script>", "<p><b>x",
        "<body a=b>", "<b translate=no><i translate=yes>x", "{{", "{a,plural,{",
        "http://a(", "x@y.", "<code>x", "<title>",
    };

    n = 100000;
    text = malloc(n + 64);
    p = params(HYMT_FORMAT_HTML, "en", "de");
    p.max_units = 10000000;

    for (i = 0; i < hymt_nelts(bits); i++) {

        for (len = 0; len < n; len += k) {
            k = strlen(bits[i]);
            memcpy(text + len, bits[i], k);
        }

        for (k = 0; k < 2; k++) {
            p.tags_by_model = k;
            start = tap_cpu_ns();
            out = translate(text, len, &p, identity, NULL, &out_len, &trace,
                            &err);
            start = tap_cpu_ns() - start;

            ok(out != NULL && out_len == len && memcmp(out, text, len) == 0,
               "%s, many times", i != 14 ? bits[i] : "<pre>");
            ok(start < 5000000000, "in %.2f s", (double) start / 1e9);
            free(out);
        }
    }

    /* nested elements, closed again, 100,000 deep */

    for (i = 0, len = 0; i < 2; i++) {
        p.format = i == 0 ? HYMT_FORMAT_XML : HYMT_FORMAT_HTML;
        text = realloc(text, 700064);

        for (len = 0; len < 300000; len += 3) {
            memcpy(text + len, "<q>", 3);
        }

        len += (size_t) sprintf(text + len, "x y");

        for (k = 0; k < 100000; k++) {
            memcpy(text + len, "</q>", 4);
            len += 4;
        }

        start = tap_cpu_ns();
        out = translate(text, len, &p, identity, NULL, &out_len, &trace, &err);
        start = tap_cpu_ns() - start;

        ok(out != NULL && out_len == len && memcmp(out, text, len) == 0
           && start < 5000000000, "100,000 deep, in %.2f s",
           (double) start / 1e9);
        free(out);
    }

    free(text);
}


int
main(void)
{
    test_html();
    test_xml();
    test_hostile();

    return tap_done();
}
