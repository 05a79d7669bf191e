/*
 * document_guard.c - what a model lets slip is taken out; see
 * document_private.h.
 *
 * Control tokens as text: "<｜hy_User｜>", "｜hy_place▁holder▁no▁2｜", "<|eos|>",
 * "<|extra_0|>", also with the half-width and the paired bar (U+FFE8, U+FF60),
 * and cut off at the end.  What the unit itself says is left alone.
 *
 * The beginning of an answer may have been sent when the rest comes: so nothing
 * here changes what stands before the first character that something to take
 * out can begin with, and document_stream.c, which knows these characters, must
 * hear of every new rule.
 */

#include "document_private.h"
#include "scan.h"
#include "utf8.h"

#include <string.h>


#define HYMT_MAX_TOKEN  96      /* bytes of a control token's text */


static size_t hymt_guard_token(const char *p, size_t len);
static size_t hymt_guard_bar(const char *p, size_t len, bool *wide);
static size_t hymt_guard_name(const char *p, size_t len);
static size_t hymt_guard_mark(const char *p, size_t len);
static size_t hymt_guard_copy(const hymt_work_t *work, const char *text,
    size_t *at, size_t len, char *out);
static size_t hymt_guard_lines(char *out, size_t n, bool lines, int tgt);
static size_t hymt_guard_wrapper(const hymt_work_t *work, char *out, size_t n);
static size_t hymt_guard_trim(char *out, size_t n);
static bool hymt_guard_strict(const char *text, size_t at, size_t len,
    bool tags, size_t *n);
static bool hymt_guard_own(const hymt_work_t *work, const char *s, size_t len);


size_t
hymt_guard(const hymt_document_t *doc, const hymt_work_t *work,
    const char *text, size_t len, char *out, bool *stripped)
{
    size_t  i, n, to, token;

    /* nothing begins with what most of a text is, nor is it changed */

    static const hymt_scan_t  odd = {
        2, { hymt_lanes('<'), hymt_lanes(0x7f) }, hymt_lanes(' '),
        hymt_lanes(0x80)
    };

    *stripped = false;
    n = 0;

    for (i = 0; i < len; /* void */ ) {

        if (text[i] >= ' ' && text[i] < 0x7f && text[i] != '<') {
            to = hymt_scan(&odd, text, i + 1, len);
            memmove(out + n, text + i, to - i);
            n += to - i;
            i = to;
            continue;
        }

        token = hymt_guard_token(text + i, len - i);

        if (token == 0 && doc->params.tags_by_model && work->tagged == NULL) {
            token = hymt_guard_mark(text + i, len - i);
        }

        if (token != 0 && !hymt_guard_own(work, text + i, token)) {
            *stripped = true;
            i += token;
            continue;
        }

        n += hymt_guard_copy(work, text, &i, len, out + n);
    }

    n = hymt_guard_lines(out, n, hymt_work_lines(work), doc->params.tgt);
    n = hymt_guard_wrapper(work, out, n);

    return hymt_guard_trim(out, n);
}


/*
 * Where what one leaves behind is another one, "{{a}b}", all their first
 * characters go, but for those a blank behind makes signs: no text is worth
 * more rounds.
 */
size_t
hymt_guard_placeholders(const hymt_document_t *doc, char *text, size_t len)
{
    bool    tags, again;
    size_t  i, n, k;

    tags = doc->params.format == HYMT_FORMAT_TEXT;
    n = hymt_placeholder_next(text, 0, len);

    if (n == len) {
        return hymt_guard_trim(text, len);
    }

    for (i = n; i < len; /* void */ ) {

        if (!hymt_placeholder_strict(text[i])
            || !hymt_guard_strict(text, i, len, tags, &k))
        {
            text[n++] = text[i++];
            continue;
        }

        i += k;

        while (i < len && text[i] == ' ' && (n == 0 || text[n - 1] == ' ')) {
            i++;
        }
    }

    len = hymt_guard_trim(text, n);
    again = false;

    for (i = hymt_placeholder_next(text, 0, len);
         i < len && !again;
         i = hymt_placeholder_next(text, i + 1, len))
    {
        again = hymt_guard_strict(text, i, len, tags, &k);
    }

    if (!again) {
        return len;
    }

    n = 0;

    for (i = 0; i < len; i++) {
        if (text[i] != '{'
            && ((text[i] != '%' && text[i] != '<')
                || (i + 1 < len && text[i + 1] == ' ')))
        {
            text[n++] = text[i];
        }
    }

    return hymt_guard_trim(text, n);
}


static bool
hymt_guard_strict(const char *text, size_t at, size_t len, bool tags,
    size_t *n)
{
    return hymt_placeholder(text, at, len, tags, n) == HYMT_PLACEHOLDER_STRICT;
}


static size_t
hymt_guard_trim(char *out, size_t n)
{
    size_t  blank;

    n -= hymt_blank_after(out, n);
    blank = hymt_blank_before(out, n);
    memmove(out, out + blank, n - blank);

    return n - blank;
}


/* the bytes of a control token's text at p; 0: none */
static size_t
hymt_guard_token(const char *p, size_t len)
{
    bool    angle, wide, wide_end;
    size_t  n, bar, name;

    if (*p != '<' && *p != '\xef') {
        return 0;
    }

    len = hymt_min(len, HYMT_MAX_TOKEN);
    angle = *p == '<';
    n = angle;

    bar = n < len ? hymt_guard_bar(p + n, len - n, &wide) : 0;

    if (bar == 0) {
        return 0;
    }

    n += bar;
    name = hymt_guard_name(p + n, len - n);

    if (name == 0 || (!angle && (name < 3 || memcmp(p + n, "hy_", 3) != 0))) {
        return 0;
    }

    n += name;

    bar = n < len ? hymt_guard_bar(p + n, len - n, &wide_end) : 0;

    /* without its end it must be one of Hunyuan's to be told from text */

    if (bar == 0) {
        return wide && name >= 3 && memcmp(p + n - name, "hy_", 3) == 0 ? n : 0;
    }

    n += bar;

    return n < len && p[n] == '>' ? n + 1 : n;
}


static size_t
hymt_guard_bar(const char *p, size_t len, bool *wide)
{
    *wide = *p != '|';

    if (*p == '|') {
        return 1;
    }

    return len >= 3 && (memcmp(p, "\xef\xbd\x9c", 3) == 0
                        || memcmp(p, "\xef\xbd\xa0", 3) == 0
                        || memcmp(p, "\xef\xbf\xa8", 3) == 0) ? 3 : 0;
}


/* letters, digits, "_", and U+2581 for it */
static size_t
hymt_guard_name(const char *p, size_t len)
{
    size_t  i;

    for (i = 0; i < len; /* void */ ) {

        if ((p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z')
            || (p[i] >= '0' && p[i] <= '9') || p[i] == '_')
        {
            i++;

        } else if (len - i >= 3 && memcmp(p + i, "\xe2\x96\x81", 3) == 0) {
            i += 3;

        } else {
            break;
        }
    }

    return i;
}


/* "<s1>", "</s1>" in an answer to a unit that was given none */
static size_t
hymt_guard_mark(const char *p, size_t len)
{
    size_t  i, from;

    if (len < 4 || p[0] != '<') {
        return 0;
    }

    i = 1 + (p[1] == '/');

    if (p[i++] != 's') {
        return 0;
    }

    for (from = i; i < len && p[i] >= '0' && p[i] <= '9' && i < 16; i++) {
        /* void */
    }

    if (i == from) {
        return 0;
    }

    i += i < len && p[i] == '/';

    return i < len && p[i] == '>' ? i + 1 : 0;
}


/* one code point; what ends a line becomes LF */
static size_t
hymt_guard_copy(const hymt_work_t *work, const char *text, size_t *at,
    size_t len, char *out)
{
    size_t   from, n;
    int32_t  c;

    from = *at;
    c = hymt_utf8_next_char(text, at, len);

    if (c < 0) {
        memcpy(out, "\xef\xbf\xbd", 3);
        return 3;
    }

    if (hymt_line_end_char(c)) {

        if (c == '\r' && *at < len && text[*at] == '\n') {
            (*at)++;
        }

        *out = '\n';
        return 1;
    }

    n = *at - from;

    if (c != '\t' && (c < 0x20 || (c >= 0x7f && c < 0xa0)
                      || (c & 0xfffe) == 0xfffe)
        && !hymt_guard_own(work, text + from, n))
    {
        return 0;
    }

    memmove(out, text + from, n);

    return n;
}


/*
 * Line ends with the blanks around them become one blank, or nothing between
 * letters of a language without spaces; or, where lines count, LFs alone.
 */
static size_t
hymt_guard_lines(char *out, size_t n, bool lines, int tgt)
{
    size_t  i, to, w, ends;

    if (memchr(out, '\n', n) == NULL) {
        return n;
    }

    w = 0;

    for (i = 0; i < n; i++) {

        if (out[i] != '\n') {
            out[w++] = out[i];
            continue;
        }

        to = i + hymt_blank_before(out + i, n - i);
        w -= hymt_blank_after(out, w);
        ends = 0;

        for ( /* void */ ; i < to; i++) {
            ends += out[i] == '\n';
        }

        i--;

        if (lines) {
            memset(out + w, '\n', ends);
            w += ends;

        } else if (!hymt_lang_unspaced(tgt)) {
            out[w++] = ' ';
        }
    }

    return w;
}


/* <target>text</target>, as the formatted prompt asks for; and <source> */
static size_t
hymt_guard_wrapper(const hymt_work_t *work, char *out, size_t n)
{
    size_t              i, k, blank;
    static const char  *wrappers[] = {
        "<target>", "</target>", "<source>", "</source>",
    };

    if (memchr(out, '<', n) == NULL) {
        return n;
    }

    for (i = 0; i < hymt_nelts(wrappers); i++) {
        k = strlen(wrappers[i]);

        if (hymt_guard_own(work, wrappers[i], k)) {
            continue;
        }

        blank = hymt_blank_before(out, n);

        if (n - blank >= k && memcmp(out + blank, wrappers[i], k) == 0) {
            n -= blank + k;
            memmove(out, out + blank + k, n);
        }

        blank = hymt_blank_after(out, n);

        if (n - blank >= k
            && memcmp(out + n - blank - k, wrappers[i], k) == 0)
        {
            n -= blank + k;
        }
    }

    return n;
}


static bool
hymt_guard_own(const hymt_work_t *work, const char *s, size_t len)
{
    return memmem(work->text, work->len, s, len) != NULL;
}
