/*
 * placeholder_test.c - what is a placeholder and what is text; terms;
 * references.
 */

#include "entity.h"
#include "placeholder.h"
#include "tap.h"


/* Each placeholder of the text in brackets. */
static void
is_held(const char *want)
{
    char         text[512], got[1024], *p;
    size_t       at, n, len;
    const char  *w;

    for (w = want, len = 0; *w != '\0'; w++) {
        if (*w != '[' && *w != ']') {
            text[len++] = *w;
        }
    }

    text[len] = '\0';
    p = got;

    for (at = 0; at < len; at += n) {

        if (hymt_placeholder(text, at, len, true, &n)
            == HYMT_PLACEHOLDER_NONE)
        {
            *p++ = text[at];
            n = 1;
            continue;
        }

        p += sprintf(p, "[%.*s]", (int) n, text + at);
    }

    *p = '\0';
    is_str(got, want, "%s", text);
}


static void
test_kinds(void)
{
    is_held("[%s] [%d] [%1$s] [%-5.2f] [%lld] [%%] [%@] [%(name)s] [%{n}]");
    is_held("100% sure, 5 % of, 50%discount, 50%, %, % s");
    is_held("[{}] [{0}] [{name}] [{ name }] [{0:.2f}] [{a.b}] [{x|trim}]");
    is_held("{ }, {not one}, {a b}, {, }");
    is_held("[{{x}}] [{{ x.y }}] [{% if x %}] [{# c #}] [{{{x}}}]");
    is_held("[${v}] [#{v}] $v, ${, # {");
    is_held("[{n, plural, one {# item} other {# items}}] [{d, date, short}]");
    is_held("{n, plural, one {# item, {a, b}");
    is_held("[<x id=\"1\"/>] [<x id=\"12\"></x>] [<b>]c[</b>] [<0>] [<br />]");
    is_held("a < b, a <b or c>, <3, <<, <a b>, <->");
    is_held("[https://a.b/c?d=(e)&f=1#g]. ([http://a.b]) [www.a.b], x");
    is_held("[https://a.b/]，好 [mailto:me@a.b]");
    is_held("[me.too@mail.example.org]. a@b, @me, me@, a@b.c");
}


/* where a cut makes a placeholder of what is text, and nowhere else */
static void
test_joined(void)
{
    bool         joined, held;
    char         text[16];
    size_t       i, k, at, n, len;
    uint32_t     seen, wrong;
    const char  *signs = "7%de{}(h.- ";

    seen = 0;
    wrong = 0;
    len = 5;

    for (i = 0; i < 11 * 11 * 11 * 11 * 11; i++) {

        for (k = 0, n = i; k < len; k++, n /= 11) {
            text[k] = signs[n % 11];
        }

        for (at = 0; at < len; at++) {
            held = hymt_placeholder(text, at, len, true, &n)
                   == HYMT_PLACEHOLDER_STRICT;
            joined = hymt_placeholder_joined(text, at, len);

            for (k = at + 1; !held && k <= len; k++) {
                held |= hymt_placeholder(text, at, k, true, &n)
                        == HYMT_PLACEHOLDER_STRICT;
                held |= hymt_placeholder(text + at, 0, k - at, true, &n)
                        == HYMT_PLACEHOLDER_STRICT;
            }

            seen += joined;
            wrong += joined
                     != (held && hymt_placeholder(text, at, len, true, &n)
                                 != HYMT_PLACEHOLDER_STRICT);
        }
    }

    is_int(wrong, 0, "of %" PRIu32 " joined, and all others", seen);
}


static void
test_terms(void)
{
    uint32_t      i;
    const char   *s;
    hymt_terms_t  terms;

    memset(&terms, 0, sizeof(terms));

    is_int(hymt_terms_find(&terms, "x", 0, 1, true), UINT32_MAX, "no terms");

    hymt_terms_add(&terms, "Go", 2);
    hymt_terms_add(&terms, "Acme", 4);
    hymt_terms_add(&terms, "Acme Go", 7);
    hymt_terms_add(&terms, "Go", 2);
    hymt_terms_add(&terms, "腾讯", 6);
    hymt_terms_sort(&terms);

    is_int(terms.n, 4, "each once");

    s = "Acme Going";
    i = hymt_terms_find(&terms, s, 0, strlen(s), true);
    is_int(terms.term[i].len, 4, "the longest whole word");
    i = hymt_terms_find(&terms, s, 0, strlen(s), false);
    is_int(terms.term[i].len, 7, "or with an ending");
    is_int(hymt_terms_find(&terms, "LetGo", 3, 5, false), UINT32_MAX,
           "not inside a word");
    s = "在腾讯工作";
    i = hymt_terms_find(&terms, s, 3, strlen(s), true);
    ok(i != UINT32_MAX && terms.term[i].len == 6, "no words in Chinese");

    hymt_terms_free(&terms);
}


static void
is_entity(const char *text, bool html, size_t n, int32_t want)
{
    int32_t  c;

    c = -2;
    is_int(hymt_entity(text, strlen(text), html, &c), n, "%s: bytes", text);

    if (n != 0) {
        is_int(c, want, "%s: code point", text);
    }
}


static void
test_entities(void)
{
    is_entity("&amp;x", true, 5, '&');
    is_entity("&ampx", true, 4, '&');
    is_entity("&ampx", false, 0, 0);
    is_entity("&eacute;", true, 8, 0xe9);
    is_entity("&yuml", true, 5, 0xff);
    is_entity("&hellip;", true, 8, 0x2026);
    is_entity("&hellip", true, 0, 0);
    is_entity("&notin;", true, 7, HYMT_ENTITY_OPAQUE);
    is_entity("&#20013;", true, 8, 0x4e2d);
    is_entity("&#x4E2d", true, 7, 0x4e2d);
    is_entity("&#0;", true, 4, HYMT_ENTITY_OPAQUE);
    is_entity("&#xD800;", true, 8, HYMT_ENTITY_OPAQUE);
    is_entity("&#99999999999999;", true, 17, HYMT_ENTITY_OPAQUE);
    is_entity("&#x1F600;", true, 9, 0x1f600);
    is_entity("& b", true, 0, 0);
    is_entity("&#;", true, 0, 0);
    is_entity("&", true, 0, 0);
}


/* the quick look misses nothing, and lets sentences pass */
static void
test_free(void)
{
    char         text[96];
    bool         free;
    size_t       i, at, n, len;
    uint32_t     round, held, missed;
    uint64_t     state;

    static const char  *bits[] = {
        "%", "{", "}", "$", "#", "<b>", "@", ":", "/", ".", "w", "www.", "s",
        "d", "a.de", "http", "mailto", "tel", "+", "ftp", " ", "\xc3\xa9", "Go",
        "1",
    };

    static const char  *sentences[] = {
        "", "Open the file.", "Was ist das? 50 Euro (etwa).", "一只猫",
        "How; what, where - \"so\" & 'so' = 2 * 3 / [x]!",
    };

    state = 1;

    for (round = 0, held = 0, missed = 0; round < 20000; round++) {

        for (i = 0, len = 0; i < 8; i++) {
            state = state * 6364136223846793005 + 1442695040888963407;
            n = (size_t) (state >> 33) % hymt_nelts(bits);

            memcpy(text + len, bits[n], strlen(bits[n]));
            len += strlen(bits[n]);
        }

        free = hymt_placeholder_free(text, len);

        for (at = 0; at < len; at++) {
            if (hymt_placeholder(text, at, len, true, &n)
                != HYMT_PLACEHOLDER_NONE)
            {
                held++;
                missed += free;
                break;
            }
        }
    }

    is_int(missed, 0, "of %" PRIu32 " texts that hold something", held);

    for (i = 0; i < hymt_nelts(sentences); i++) {
        is_int(hymt_placeholder_free(sentences[i], strlen(sentences[i])), true,
               "nothing in \"%s\"", sentences[i]);
    }
}


int
main(void)
{
    test_kinds();
    test_joined();
    test_free();
    test_terms();
    test_entities();

    return tap_done();
}
