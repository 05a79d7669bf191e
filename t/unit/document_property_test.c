/*
 * document_property_test.c - thousands of random texts, pages and documents
 * through translators of every kind: no tag and no placeholder is lost, comes
 * twice or new, whatever a model says; nor does another parser than ours find
 * other elements behind than before; nor changes what was sent of an answer
 * when the rest of it comes.
 */

#include "document_fixture.h"
#include "markup.h"
#include "markup_judge.h"
#include "placeholder.h"


#define MAX_TEXT  16384


typedef struct {
    char    text[MAX_TEXT];
    size_t  len;
} buf_t;


static uint64_t  state;
static uint32_t  refused;    /* by the judge, of all answers so far */
static uint32_t  judged;     /* whole outputs */


static uint32_t
rnd(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;

    return (uint32_t) (state >> 33) % n;
}


static void
put(buf_t *b, const char *s)
{
    size_t  n;

    n = strlen(s);

    if (b->len + n < MAX_TEXT) {
        memcpy(b->text + b->len, s, n);
        b->len += n;
        b->text[b->len] = '\0';
    }
}


/* ---- random input ---- */


static const char  *words[] = {
    "Hello", "world. ", "Dr. Who? ", " two", "今天天气很好。", "ok! ", "สวัสดี",
    " ", "\n", "  ", "1,000", "(x)", "été", "a", "B", "—", "مرحبا؟ ", "Acme",
};

static const char  *holds[] = {
    " %s ", " {name} ", " {0} ", " {{x}} ", " %1$d ", " ${v} ", " {name} ",
    " %(n)s ", " {n, plural, one {#} other {# x}} ",
};

static const char  *entities[] = {
    "&amp;", "&lt;", "&gt;", "&#233;", "&#x4e2d;", "&quot;",
};

static const char  *tags[] = {
    "b", "i", "span", "p", "div", "li", "a", "x-y", "td", "code", "h1", "em",
};


static void
random_words(buf_t *b, bool markup)
{
    uint32_t  i;

    for (i = 1 + rnd(6); i > 0; i--) {

        if (rnd(8) == 0) {
            put(b, holds[rnd(hymt_nelts(holds))]);

        } else if (markup && rnd(8) == 0) {
            put(b, entities[rnd(hymt_nelts(entities))]);

        } else {
            put(b, words[rnd(hymt_nelts(words))]);
            put(b, rnd(2) ? " " : "");
        }
    }
}


static void
random_tree(buf_t *b, uint32_t depth, bool html)
{
    uint32_t     i;
    const char  *tag;

    for (i = rnd(4); i > 0 && b->len < MAX_TEXT / 2; i--) {

        switch (rnd(depth < 5 ? 6 : 3)) {

        case 0:
            put(b, rnd(2) ? "<!-- c <b> -->" : html ? "<br>" : "<br/>");
            break;

        case 1:
            put(b, html ? "<img alt='a > b'>" : "<x id=\"1\"/>");
            break;

        case 2:
        case 3:
            random_words(b, true);
            break;

        default:
            tag = tags[rnd(hymt_nelts(tags))];
            put(b, "<");
            put(b, tag);
            put(b, rnd(6) == 0 ? " translate=\"no\""
                   : rnd(6) == 0 ? " translate=\"yes\" a=\"%s {x}\"" : "");
            put(b, ">");
            random_tree(b, depth + 1, html);
            put(b, "</");
            put(b, tag);
            put(b, ">");
        }
    }
}


static void
random_soup(buf_t *b)
{
    uint32_t            i;
    static const char  *bits[] = {
        "<", ">", "</", "/>", "<!--", "-->", "<!", "<?", "&", "&am", "&#x", ";",
        "\"", "'", "=", "<script>", "</script>", "<pre>", "</pre>", "<svg>",
        "</svg>", "<title>", "</title>", "<b ", "</b", "<![CDATA[", "]]>", "\n",
        "<li>", "<td>", "<table>", "</table>", "<p translate=no>", "<code>",
        "</code>", "<textarea>", "<s1>", "</s1>", "\r", "\xef\xbb\xbf",
    };

    for (i = rnd(40); i > 0; i--) {

        switch (rnd(4)) {

        case 0:
            random_words(b, true);
            break;

        case 1:
            put(b, rnd(2) ? "<" : "</");
            put(b, tags[rnd(hymt_nelts(tags))]);
            put(b, ">");
            break;

        default:
            put(b, bits[rnd(hymt_nelts(bits))]);
        }
    }
}


static void
random_lines(buf_t *b)
{
    uint32_t            i;
    static const char  *ends[] = { "\n", "\r\n", "\n\n", "\r", " \n\t", "\f" };
    static const char  *begins[] = { "", "", "- ", "1. ", "  * ", "\t" };

    for (i = rnd(12); i > 0; i--) {
        put(b, begins[rnd(hymt_nelts(begins))]);
        random_words(b, false);
        put(b, ends[rnd(hymt_nelts(ends))]);
    }
}


/* ---- translators that are no friends ---- */


/* the unit and what no unit has: taken out again, or it is cut at its holds */
static size_t
with_new(const hymt_unit_t *unit, char *out, size_t cap, void *data)
{
    size_t  n;

    n = identity(unit, out, cap, data);
    memcpy(out + n, " {new}", 6);

    return n + 6;
}


static size_t
hostile(const hymt_unit_t *unit, char *out, size_t cap, void *data)
{
    size_t              i, n, at;
    const char         *s;
    static const char  *bits[] = {
        "<", ">", "&", "&amp;", "<｜hy_User｜>", "<|eos|>", "<b>", "</b>",
        "<s1>", "</s1>", "<s2></s2>", " %s", "{name}", "\n", "</p>", "<!--",
        "\x01", "\xff", "</target>", "]]>", "<s9>", "\xc2\xa0", "。",
    };

    (void) data;

    switch (rnd(8)) {

    case 0:
        return 0;

    case 1:
        return identity(unit, out, cap, NULL);

    case 2:
        return upper(unit, out, cap, NULL);

    case 3:                                            /* twice */
        memcpy(out, unit->text, unit->len);
        memcpy(out + unit->len, unit->text, unit->len);
        return unit->len * 2;

    case 4:                                            /* halves swapped */
        at = unit->len != 0 ? rnd((uint32_t) unit->len) : 0;
        memcpy(out, unit->text + at, unit->len - at);
        memcpy(out + unit->len - at, unit->text, at);
        return unit->len;

    case 5:                                            /* very long */
        memset(out, 'x', cap / 2);
        return cap / 2;

    case 6:                                            /* a piece is lost */
        at = unit->len != 0 ? rnd((uint32_t) unit->len) : 0;
        n = rnd(8);
        n = hymt_min(n, unit->len - at);
        memcpy(out, unit->text, at);
        memcpy(out + at, unit->text + at + n, unit->len - at - n);
        return unit->len - n;

    default:                                           /* bits come in */
        n = 0;

        for (i = 0; i < unit->len; i++) {

            if (rnd(12) == 0) {
                s = bits[rnd(hymt_nelts(bits))];

                if (n + strlen(s) + unit->len - i < cap) {
                    memcpy(out + n, s, strlen(s));
                    n += strlen(s);
                }
            }

            out[n++] = unit->text[i];
        }

        return n;
    }
}


/* tags change places and nothing else: what a good model may do */
static size_t
reorder(const hymt_unit_t *unit, char *out, size_t cap, void *data)
{
    size_t       at, n;
    const char  *p;

    (void) cap;
    (void) data;

    p = memmem(unit->text, unit->len, "<s1>", 4);
    at = p != NULL ? (size_t) (p - unit->text) : 0;
    p = memmem(unit->text, unit->len, "</s1>", 5);

    if (at == 0 || p == NULL) {
        return upper(unit, out, cap, NULL);
    }

    n = (size_t) (p - unit->text) + 5 - at;
    memcpy(out, unit->text + at, n);
    out[n] = ' ';
    memcpy(out + n + 1, unit->text, at);
    memcpy(out + n + 1 + at, unit->text + at + n, unit->len - at - n);

    return unit->len + 1;
}


/* ---- what must hold ---- */


static int
by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}


/* Everything of a text that is no text, sorted, in one string. */
static char *
skeleton(const char *text, size_t len, const hymt_document_params_t *p)
{
    char           **item, *all, *copy;
    size_t           total, i, n, k;
    hymt_error_t     e;
    hymt_markup_t    m;
    hymt_placeholder_t  kind;

    memset(&m, 0, sizeof(m));
    copy = malloc(len + 1);
    memcpy(copy, text, len);
    copy[len] = '\0';

    if (p->format != HYMT_FORMAT_TEXT
        && (p->format == HYMT_FORMAT_HTML
            ? hymt_markup_html(copy, len, p, &m, &e)
            : hymt_markup_xml(copy, len, p, &m, &e)) != HYMT_OK)
    {
        free(copy);
        return NULL;
    }

    item = malloc((m.n + len + 1) * sizeof(char *));
    n = 0;
    total = 1;

    for (i = 0; i < m.n; i++) {
        if (m.span[i].kind != HYMT_SPAN_TEXT) {
            item[n++] = strndup(copy + m.span[i].at, m.span[i].len);
            total += m.span[i].len + 1;
        }
    }

    /* placeholders of the generator's kinds, and line ends, wherever */

    for (i = 0; i < len; i += k) {
        /*
         * From here on, so that a digit before makes no difference; what a "{"
         * of an answer and a far "}" have between them is none where it
         * reaches across a tag.
         */

        kind = hymt_placeholder(copy + i, 0, len - i, false, &k);

        if (p->format == HYMT_FORMAT_TEXT
            && (copy[i] == '\n' || copy[i] == '\r' || copy[i] == '\f'))
        {
            k = 1;

        } else if (kind != HYMT_PLACEHOLDER_STRICT
                   || (p->format != HYMT_FORMAT_TEXT
                       && memchr(copy + i, '<', k) != NULL))
        {
            k = 1;
            continue;
        }

        item[n++] = strndup(copy + i, k);
        total += k + 1;
    }

    qsort(item, n, sizeof(char *), by_text);

    all = malloc(total);
    all[0] = '\0';

    for (i = 0, k = 0; i < n; i++) {
        k += (size_t) sprintf(all + k, "%s\n", item[i]);
        free(item[i]);
    }

    free(item);
    free(copy);
    hymt_markup_free(&m);

    return all;
}


static uint32_t
check(const buf_t *b, const hymt_document_params_t *p, translator_pt translator,
    bool soup, const char *name, uint32_t seed)
{
    char              *out, *before, *after;
    bool               good;
    size_t             len;
    trace_t            trace;
    hymt_error_t       err;
    hymt_judgement_t   judgement;

    out = translate(b->text, b->len, p, translator, NULL, &len, &trace, &err);

    if (out == NULL) {
        if (p->format == HYMT_FORMAT_XML) {
            return 0;
        }

        ok(false, "%s, seed %u: refused: %s", name, seed, err.text);
        return 1;
    }

    good = true;
    refused += trace.stats.refused;

    /* what a parser makes of soup hangs on its order, which may change */

    if (p->format != HYMT_FORMAT_TEXT && !soup) {
        judgement = hymt_markup_judge(p->format, b->text, b->len, out, len);
        judged += judgement == HYMT_JUDGE_SAME;

        if (judgement == HYMT_JUDGE_OTHER) {
            ok(false, "%s, seed %u: other elements", name, seed);
            good = false;
        }
    }

    if (!hymt_utf8_check(out, len, NULL)) {
        ok(false, "%s, seed %u: broken UTF-8", name, seed);
        good = false;
    }

    if (translator == identity
        && (len != b->len || memcmp(out, b->text, len) != 0)
        && hymt_lang_find("zh", 2) != p->tgt)
    {
        good = false;
    }

    before = skeleton(b->text, b->len, p);
    after = skeleton(out, len, p);

    if (!good || before == NULL || after == NULL || strcmp(before, after) != 0)
    {
        good = false;
        ok(false, "%s, seed %u", name, seed);
        printf("# in   \"%.999s\"\n# out  \"%.999s\"\n# had  \"%.999s\"\n"
               "# has  \"%.999s\"\n",
               b->text, out, before != NULL ? before : "(malformed)",
               after != NULL ? after : "(malformed)");
    }

    free(before);
    free(after);
    free(out);

    return !good;
}


static void
run(const char *name, hymt_format_t format, bool soup, translator_pt translator,
    uint32_t n)
{
    buf_t                   b;
    uint32_t                seed, bad, was;
    hymt_document_params_t  p;
    static const char      *langs[] = { "en", "zh", "de", "th", "ja" };

    bad = 0;
    was = refused;

    for (seed = 1; seed <= n && bad < 3; seed++) {
        state = seed;
        b.len = 0;
        b.text[0] = '\0';

        p = params(format, langs[rnd(5)], langs[rnd(5)]);

        if (translator == identity) {
            p.tgt = p.src;
        }

        p.split = rnd(4);
        p.unit_bytes = rnd(2) ? 0 : 8 + rnd(100);
        p.tags_by_model = rnd(2);
        p.neighbours = rnd(2);

        if (soup) {
            random_soup(&b);

        } else if (format == HYMT_FORMAT_TEXT) {
            random_lines(&b);

        } else {
            random_tree(&b, 0, format == HYMT_FORMAT_HTML);
        }

        bad += check(&b, &p, translator, soup, name, seed);
    }

    ok(bad == 0, "%s: %u times", name, n);

    /* what our own reading let pass, another parser has nothing against */

    if (!soup) {
        is_int(refused - was, 0, "%s: nothing is refused in vain", name);

    } else {
        printf("# refused by the other parser: %u\n", refused - was);
    }
}


/* what is nearly a placeholder, in parts as small as may be: nothing changes */
static void
run_nearly(translator_pt translator, uint32_t n, const char *name)
{
    buf_t                    b;
    char                    *out;
    bool                     same;
    size_t                   len;
    trace_t                  trace;
    uint32_t                 seed, left, bad;
    hymt_error_t             e;
    hymt_document_params_t   p;
    static const char       *terms[] = { "Acme", "d", "x7", "di", "a.(" };
    static const char       *bits[] = {
        "%", "%", "%d", "%e", "7", "50", "d", "n", "iscount", "word", "Acme",
        " ", " ", ". ", "{", "}", "{x}", "{{", "${", "(", ")", ".(", ":", ",",
        "me@x.org", "http://x.org/", "Über", "\xe4\xbd\xa0", "x7",
        "<b>", "</b>", "<br>", "<code>x7</code>", "&notin;", "\n",
    };

    bad = 0;

    for (seed = 1; seed <= n && bad < 3; seed++) {
        state = seed;
        b.len = 0;
        b.text[0] = '\0';

        p = params(rnd(2) ? HYMT_FORMAT_TEXT : HYMT_FORMAT_HTML, "en", "en");
        p.split = rnd(4);
        p.unit_bytes = 1 + rnd(40);
        p.tags_by_model = rnd(2);
        p.keep.item = terms;
        p.keep.n = rnd(2) * (uint32_t) hymt_nelts(terms);

        for (left = 1 + rnd(60); left > 0; left--) {
            put(&b, bits[rnd(hymt_nelts(bits))]);
        }

        out = translate(b.text, b.len, &p, translator, NULL, &len, &trace, &e);
        same = out != NULL && len == b.len && memcmp(out, b.text, len) == 0;

        if (!same) {
            bad++;
            ok(false, "%s, seed %u", name, seed);
            printf("# in    \"%s\"\n# out   \"%s\"\n# units \"%s\"\n", b.text,
                   out != NULL ? out : e.text, trace.units);
        }

        free(out);
    }

    ok(bad == 0, "%s: %u times", name, n);
}


/* answers of all that the guards know, in pieces */
static uint32_t
streamed(uint32_t seed, size_t *all)
{
    char                    *sent, *out;
    bool                     good;
    buf_t                    b;
    size_t                   n_sent, n, i, k;
    uint32_t                 left;
    const char              *text;
    hymt_document_params_t   p;
    static const char       *texts[] = {
        "Hello world", "- Hello world.\n", "50 % of it, $5, #1",
        "a < b or <|eos|> it", "\xef\xbd\x9c it",
    };
    static const char       *bits[] = {
        "<", ">", "|", "<|", "|>", "<|eos|>", "\xef\xbd\x9chy_User\xef\xbd\x9c",
        "\xef\xbd\x9c", "hy_", "</target>", "<source>", "<s1>", "<b>", "</b>",
        "%", "%", "s", "d", "%s", "(", ")", "{", "}", "{", "}", "{x}", "{{",
        "}}",
        "$", "#", "${", ",", ", date", "5", "50", "-", "/", "\n", "\r\n", " ",
        " ", "  ", "\t", "\x01", "\x7f", "\xc2\x85", "\xc2\xa0", "\xe2\x80\xa8",
        "\xe3\x80\x80", "\xef\xbb\xbf", "\xef\xbf\xbf", "\xe4\xbd\xa0", "a",
        "b", "word ", "word ", ".", "https://", "www.a.b/", "me@x.org",
    };

    state = seed;
    b.len = 0;
    b.text[0] = '\0';
    text = texts[rnd(hymt_nelts(texts))];

    p = params(HYMT_FORMAT_TEXT, "en", rnd(2) ? "zh" : "de");
    p.tags_by_model = rnd(2);

    for (left = 1 + rnd(rnd(4) == 0 ? 40 : 10); left > 0; left--) {
        put(&b, bits[rnd(hymt_nelts(bits))]);
    }

    sent = stream(text, &p, b.text, b.len, &n_sent, &out, &n);
    good = out != NULL;
    *all += n_sent;

    for (i = 0; good && i < n; i++) {
        good = hymt_placeholder(out, i, n, true, &k) != HYMT_PLACEHOLDER_STRICT
               || strstr(text, "<|eos|>") != NULL;
    }

    if (!good) {
        ok(false, "streams, seed %u", seed);
        printf("# answer \"%s\"\n# sent   \"%s\"\n# output \"%s\"\n", b.text,
               sent, out != NULL ? out : "(it changed)");
    }

    free(sent);
    free(out);

    return !good;
}


static void
run_streams(uint32_t n)
{
    size_t    all;
    uint32_t  seed, bad;

    all = 0;
    bad = 0;

    for (seed = 1; seed <= n && bad < 3; seed++) {
        bad += streamed(seed, &all);
    }

    ok(bad == 0, "streams: %u times", n);
    ok(all > n, "streams: %zu bytes were sent before the end", all);
}


int
main(void)
{
    uint32_t  n;

    n = getenv("HYMT_LONG") == NULL ? 1000 : TAP_SANITIZED ? 10000 : 100000;

    run("lines, identity", HYMT_FORMAT_TEXT, false, identity, n);
    run("lines, upper case", HYMT_FORMAT_TEXT, false, upper, n);
    run("lines, hostile", HYMT_FORMAT_TEXT, false, hostile, n);
    run("html, identity", HYMT_FORMAT_HTML, false, identity, n);
    run("html, upper case", HYMT_FORMAT_HTML, false, upper, n);
    run("html, tags move", HYMT_FORMAT_HTML, false, reorder, n);
    run("html, hostile", HYMT_FORMAT_HTML, false, hostile, n);
    run("xml, identity", HYMT_FORMAT_XML, false, identity, n);
    run("xml, tags move", HYMT_FORMAT_XML, false, reorder, n);
    run("xml, hostile", HYMT_FORMAT_XML, false, hostile, n);
    run("soup, identity", HYMT_FORMAT_HTML, true, identity, n);
    run("soup, upper case", HYMT_FORMAT_HTML, true, upper, n);
    run("soup, hostile", HYMT_FORMAT_HTML, true, hostile, n);
    run("soup as xml, hostile", HYMT_FORMAT_XML, true, hostile, n);
    run("soup as text, identity", HYMT_FORMAT_TEXT, true, identity, n);

    run_nearly(identity, 10 * n, "nearly placeholders, identity");
    run_nearly(with_new, 10 * n, "nearly placeholders, cut at all there are");

    run_streams(20 * n);

    ok(judged >= 3 * n, "%u outputs were read by another parser", judged);

    return tap_done();
}
