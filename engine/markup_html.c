/*
 * markup_html.c - HTML into spans; see markup.h.
 *
 * The tokenizer is the HTML standard's (13.2.5), reduced to where tokens begin
 * and end.  Of tree construction only what decides over translate="no" is
 * kept: which elements are open, and which end without a tag.  Gumbo would be
 * the library for it; but its 0.10.1 ends the process by a failed assertion on
 * some inputs of a few tags ("<table><i>x<svg><![CDATA[x]]><pre>"-like), takes
 * time and memory quadratic in others, recurses as deep as elements nest, and
 * tells no place of tags it drops.
 */

#include "markup_private.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>


/* How far up an end tag, or a tag that ends others, looks: keeps it linear. */
#define HYMT_LOOK_UP  256


#define HYMT_MAX_NAME  12      /* bytes of the longest tag in our lists */

#define HYMT_HTML_BLOCK    0x01
#define HYMT_HTML_VOID     0x02
#define HYMT_HTML_IGNORED  0x04
#define HYMT_HTML_RAW      0x08
#define HYMT_HTML_INLINE   0x10

/* by rule k of hymt_implied */
#define HYMT_HTML_TAG(k)    (1u << (5 + (k)))
#define HYMT_HTML_ENDS(k)   (1u << (14 + (k)))
#define HYMT_HTML_UNTIL(k)  (1u << (23 + (k)))


/* The class of a name, as it stands in the text. */
typedef struct {
    char      name[HYMT_MAX_NAME];
    uint32_t  len;
    uint32_t  class;
} hymt_class_t;


typedef struct {
    const char      *text;
    uint32_t         len;
    uint32_t         at;
    uint32_t         foreign;    /* open elements down to which SVG or MathML
                                    reaches; 0: none */
    hymt_builder_t   b;
    hymt_class_t     seen[64];   /* by a hash of the name */
} hymt_html_t;


/* Elements whose start tag ends others, up to the nearest of `until`. */
typedef struct {
    const char  *tags;
    const char  *ends;
    const char  *until;
} hymt_implied_t;


#define HYMT_TABLE  " table template html "

static const char  hymt_block_tags[] =
    " address article aside audio base blockquote body br button canvas caption"
    " center col colgroup dd details dialog dir div dl dt embed fieldset"
    " figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head"
    " header hgroup hr html iframe legend li link listing main menu menuitem"
    " meta nav noembed noframes noscript object ol optgroup option p param"
    " plaintext pre script search section select source style summary table"
    " tbody td template textarea tfoot th thead title tr track ul video xmp ";

static const char  hymt_void_tags[] =
    " area base basefont bgsound br col embed frame hr img input keygen link"
    " meta param source track wbr ";

static const char  hymt_ignored_tags[] =
    " applet audio canvas code iframe kbd math noembed noframes object"
    " plaintext samp script style svg textarea tt var video xmp ";

/* their content has no tags but their own end tag */
static const char  hymt_raw_tags[] =
    " iframe noembed noframes script style textarea title xmp ";

static const char  hymt_inline_tags[] =
    " a abbr acronym applet b bdi bdo big cite code data del dfn em font i ins"
    " kbd label map mark math meter nobr output progress q rp rt ruby s samp"
    " slot small span strike strong sub sup svg time tt u var ";

static const char  hymt_ends_p[] =
    " address article aside blockquote center details dialog dir div dl"
    " fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr"
    " main menu nav ol p pre search section table ul li dd dt ";

static const hymt_implied_t  hymt_implied[] = {
    { hymt_ends_p, " p ", " button td th caption object" HYMT_TABLE },
    { " li ", " li ", " ul ol menu td th" HYMT_TABLE },
    { " dd dt ", " dd dt ", " dl td th" HYMT_TABLE },
    { " option optgroup ", " option ", " select optgroup" HYMT_TABLE },
    { " optgroup ", " optgroup ", " select" HYMT_TABLE },
    { " td th ", " td th ", " tr" HYMT_TABLE },
    { " tr tbody thead tfoot ", " tr ", HYMT_TABLE },
    { " tbody thead tfoot ", " tbody thead tfoot caption colgroup ",
      HYMT_TABLE },
    { " rb rt rp rtc ", " rb rt rp ", " ruby" HYMT_TABLE },
};


static void hymt_html_markup(hymt_html_t *h);
static void hymt_html_start(hymt_html_t *h);
static void hymt_html_end(hymt_html_t *h);
static bool hymt_html_tag(hymt_html_t *h, hymt_tag_t *tag);
static uint32_t hymt_html_attributes(hymt_html_t *h, uint32_t i,
    hymt_tag_t *tag);
static void hymt_html_attribute(hymt_tag_t *tag, const char *name, uint32_t len,
    const char *value, uint32_t value_len, bool *seen);
static void hymt_html_imply(hymt_html_t *h, const hymt_tag_t *tag);
static void hymt_html_raw(hymt_html_t *h, const hymt_tag_t *tag);
static void hymt_html_raw_text(hymt_html_t *h, uint32_t end);
static uint32_t hymt_html_raw_end(const hymt_html_t *h, const char *name,
    uint32_t len, bool script);
static bool hymt_html_at_tag(const hymt_html_t *h, uint32_t at,
    const char *name, uint32_t len);
static void hymt_html_declaration(hymt_html_t *h);
static uint32_t hymt_html_comment_end(const hymt_html_t *h, uint32_t at);
static uint32_t hymt_html_find(const hymt_html_t *h, uint32_t at,
    const char *s);
static uint32_t hymt_html_class(hymt_html_t *h, const char *name, uint32_t len);
static uint32_t hymt_html_lists(const char *name, uint32_t len);
static bool hymt_html_in(const char *list, const char *name, uint32_t len);
static bool hymt_html_letter(char c);
static bool hymt_html_blank(char c);


hymt_status_t
hymt_markup_html(const char *text, size_t len,
    const hymt_document_params_t *params, hymt_markup_t *m, hymt_error_t *err)
{
    hymt_html_t  h;

    if (len >= INT32_MAX) {
        return hymt_fail(err, "HTML of %zu bytes: at most %d", len, INT32_MAX);
    }

    memset(&h, 0, sizeof(h));

    h.text = text;
    h.len = (uint32_t) len;
    h.b.text = text;
    h.b.params = params;
    h.b.markup = m;
    h.b.html = true;
    h.b.root = HYMT_SPAN_NONE;

    while (h.at < h.len && !h.b.no_memory) {
        hymt_html_markup(&h);
    }

    free(h.b.open);

    return h.b.no_memory ? hymt_fail(err, "no memory for HTML of %zu bytes",
                                     len)
                         : HYMT_OK;
}


/* text up to the next markup, and that */
static void
hymt_html_markup(hymt_html_t *h)
{
    char         c;
    uint32_t     from;
    const char  *p;

    from = h->at;

    for ( ;; ) {
        p = memchr(h->text + h->at, '<', h->len - h->at);

        if (p == NULL || (uint32_t) (p - h->text) + 1 == h->len) {
            hymt_build_span(&h->b, HYMT_SPAN_TEXT, from, h->len - from);
            h->at = h->len;
            return;
        }

        h->at = (uint32_t) (p - h->text);
        c = p[1];

        if (hymt_html_letter(c) || c == '!' || c == '?'
            || (c == '/' && h->at + 2 < h->len))
        {
            break;
        }

        h->at++;               /* "a < b" is text */
    }

    hymt_build_span(&h->b, HYMT_SPAN_TEXT, from, h->at - from);

    if (hymt_html_letter(c)) {
        hymt_html_start(h);

    } else if (c == '/' && hymt_html_letter(p[2])) {
        hymt_html_end(h);

    } else {
        hymt_html_declaration(h);
    }
}


static void
hymt_html_start(hymt_html_t *h)
{
    bool         raw;
    hymt_tag_t   tag;
    const char  *name;

    if (!hymt_html_tag(h, &tag)) {
        return;
    }

    name = h->text + tag.name;
    raw = false;

    tag.class = hymt_html_class(h, name, tag.name_len);
    tag.block = (tag.class & HYMT_HTML_BLOCK) != 0;
    tag.ignored = (tag.class & HYMT_HTML_IGNORED) != 0;
    tag.pre = hymt_html_in(" pre listing textarea ", name, tag.name_len);

    if (h->foreign != 0 && h->b.n_open < h->foreign) {
        h->foreign = 0;
    }

    if (h->foreign != 0) {
        tag.empty = h->text[tag.at + tag.len - 2] == '/';
        tag.block = false;

    } else if ((tag.class & HYMT_HTML_VOID) != 0) {
        tag.empty = true;

    } else {

        /*
         * HTML knows no "/>" but in foreign elements; who writes <x id="1"/>
         * for a placeholder means it, though, and no <b/> is meant.
         */

        tag.empty = h->text[tag.at + tag.len - 2] == '/' && !tag.block
                    && (tag.class & HYMT_HTML_INLINE) == 0;
        raw = (tag.class & HYMT_HTML_RAW) != 0;

        hymt_html_imply(h, &tag);
    }

    hymt_build_open(&h->b, &tag);

    if (h->foreign == 0 && !tag.empty
        && hymt_html_in(" svg math ", name, tag.name_len))
    {
        if (h->text[tag.at + tag.len - 2] == '/') {
            hymt_build_pop(&h->b, h->b.n_open - 1);

        } else {
            h->foreign = h->b.n_open;
        }
    }

    if (raw) {
        hymt_html_raw(h, &tag);

    } else if (hymt_html_in(" plaintext ", name, tag.name_len)
               && h->foreign == 0)
    {
        hymt_html_raw_text(h, h->len);
    }
}


static void
hymt_html_end(hymt_html_t *h)
{
    bool          block;
    uint32_t      i, least;
    hymt_tag_t    tag;
    hymt_open_t  *e;

    if (!hymt_html_tag(h, &tag)) {
        return;
    }

    block = (hymt_html_class(h, h->text + tag.name, tag.name_len)
             & HYMT_HTML_BLOCK) != 0;
    least = h->b.n_open > HYMT_LOOK_UP ? h->b.n_open - HYMT_LOOK_UP : 0;

    for (i = h->b.n_open; i > least; i--) {
        e = &h->b.open[i - 1];

        if (e->name_len == tag.name_len
            && strncasecmp(h->text + e->name, h->text + tag.name,
                           tag.name_len) == 0)
        {
            hymt_build_close(&h->b, i - 1, tag.at, tag.len);

            if (h->b.n_open < h->foreign) {
                h->foreign = 0;
            }

            return;
        }

        /* "<b><p>x</b>": the paragraph goes on */

        if (e->block && !block) {
            break;
        }
    }

    hymt_build_span(&h->b, block ? HYMT_SPAN_BREAK : HYMT_SPAN_CLOSE, tag.at,
                    tag.len);
}


/*
 * The tag at h->at; moves behind it.  False: it never ends, and is no tag then,
 * but nothing else either.
 */
static bool
hymt_html_tag(hymt_html_t *h, hymt_tag_t *tag)
{
    uint32_t  i;

    memset(tag, 0, sizeof(*tag));

    tag->at = h->at;
    tag->translate = -1;
    tag->name = h->at + 1 + (h->text[h->at + 1] == '/');

    for (i = tag->name; i < h->len; i++) {
        if (hymt_html_blank(h->text[i]) || h->text[i] == '/'
            || h->text[i] == '>')
        {
            break;
        }
    }

    tag->name_len = i - tag->name;

    i = hymt_html_attributes(h, i, tag);

    if (i >= h->len) {
        hymt_build_span(&h->b, HYMT_SPAN_BREAK, h->at, h->len - h->at);
        h->at = h->len;

        return false;
    }

    h->at = i + 1;
    tag->len = h->at - tag->at;

    return true;
}


/* from behind a tag's name to its ">", which is returned; h->len: none */
static uint32_t
hymt_html_attributes(hymt_html_t *h, uint32_t i, hymt_tag_t *tag)
{
    bool         seen[2];
    char         quote;
    uint32_t     name, name_len, value;
    const char  *p, *t;

    t = h->text;
    seen[0] = seen[1] = false;

    for ( ;; ) {

        while (i < h->len && (hymt_html_blank(t[i]) || t[i] == '/')) {
            i++;
        }

        if (i >= h->len || t[i] == '>') {
            return i;
        }

        /* an "=" may begin a name, not end one */

        name = i++;

        while (i < h->len && !hymt_html_blank(t[i]) && t[i] != '/'
               && t[i] != '>' && t[i] != '=')
        {
            i++;
        }

        name_len = i - name;

        while (i < h->len && hymt_html_blank(t[i])) {
            i++;
        }

        value = i;

        if (i >= h->len || t[i] != '=') {
            hymt_html_attribute(tag, t + name, name_len, t + value, 0, seen);
            continue;
        }

        i++;

        while (i < h->len && hymt_html_blank(t[i])) {
            i++;
        }

        if (i >= h->len) {
            return h->len;
        }

        quote = t[i];
        value = i;

        if (quote == '"' || quote == '\'') {
            p = memchr(t + i + 1, quote, h->len - i - 1);

            if (p == NULL) {
                return h->len;
            }

            value++;
            i = (uint32_t) (p - t);

        } else {
            while (i < h->len && !hymt_html_blank(t[i]) && t[i] != '>') {
                i++;
            }
        }

        hymt_html_attribute(tag, t + name, name_len, t + value, i - value,
                            seen);

        i += quote == '"' || quote == '\'';
    }
}


/* of attributes named alike the first counts; translate goes before class */
static void
hymt_html_attribute(hymt_tag_t *tag, const char *name, uint32_t len,
    const char *value, uint32_t value_len, bool *seen)
{
    int  t;

    if (len == 9 && strncasecmp(name, "translate", 9) == 0 && !seen[0]) {
        seen[0] = true;
        t = hymt_build_translate(value, value_len);
        tag->translate = t != -1 ? t : tag->translate;

    } else if (len == 5 && strncasecmp(name, "class", 5) == 0 && !seen[1]) {
        seen[1] = true;

        if (tag->translate == -1 && hymt_build_notranslate(value, value_len)) {
            tag->translate = 0;
        }
    }
}


/* what the start tag at hand ends */
static void
hymt_html_imply(hymt_html_t *h, const hymt_tag_t *tag)
{
    size_t    k;
    uint32_t  i, least, class;

    for (k = 0; k < hymt_nelts(hymt_implied); k++) {

        if ((tag->class & HYMT_HTML_TAG(k)) == 0) {
            continue;
        }

        least = h->b.n_open > HYMT_LOOK_UP ? h->b.n_open - HYMT_LOOK_UP : 0;

        for (i = h->b.n_open; i > least; i--) {
            class = h->b.open[i - 1].class;

            if ((class & HYMT_HTML_UNTIL(k)) != 0) {
                break;
            }

            if ((class & HYMT_HTML_ENDS(k)) != 0) {
                hymt_build_pop(&h->b, i - 1);
                break;
            }
        }
    }
}


/* the text of an element that holds no tags */
static void
hymt_html_raw(hymt_html_t *h, const hymt_tag_t *tag)
{
    bool      script;
    uint32_t  end;

    script = hymt_html_in(" script ", h->text + tag->name, tag->name_len);
    end = hymt_html_raw_end(h, h->text + tag->name, tag->name_len, script);

    hymt_html_raw_text(h, end);
}


static void
hymt_html_raw_text(hymt_html_t *h, uint32_t end)
{
    hymt_markup_t  *m;

    hymt_build_span(&h->b, HYMT_SPAN_TEXT, h->at, end - h->at);
    h->at = end;

    m = h->b.markup;

    if (m->n != 0) {
        m->span[m->n - 1].raw = true;
    }
}


/*
 * Where "</name" begins.  In a script "<!--" and then "<script" hide it, until
 * "</script" (the standard's double escaped state) or "-->".
 */
static uint32_t
hymt_html_raw_end(const hymt_html_t *h, const char *name, uint32_t len,
    bool script)
{
    bool         escaped, twice;
    uint32_t     i;
    const char  *t;

    t = h->text;
    escaped = false;
    twice = false;

    for (i = h->at; i < h->len; i++) {

        if (t[i] == '-' && escaped && h->len - i >= 3
            && memcmp(t + i, "-->", 3) == 0)
        {
            escaped = false;
            twice = false;
            continue;
        }

        if (t[i] != '<') {
            continue;
        }

        if (script && !escaped && h->len - i >= 4
            && memcmp(t + i, "<!--", 4) == 0)
        {
            escaped = true;
            i++;               /* "<!-->" ends at once */
            continue;
        }

        if (escaped && !twice && hymt_html_at_tag(h, i + 1, name, len)) {
            twice = true;
            continue;
        }

        if (i + 1 < h->len && t[i + 1] == '/'
            && hymt_html_at_tag(h, i + 2, name, len))
        {
            if (!twice) {
                return i;
            }

            twice = false;
        }
    }

    return h->len;
}


static bool
hymt_html_at_tag(const hymt_html_t *h, uint32_t at, const char *name,
    uint32_t len)
{
    char  c;

    if (at >= h->len || h->len - at <= len
        || strncasecmp(h->text + at, name, len) != 0)
    {
        return false;
    }

    c = h->text[at + len];

    return hymt_html_blank(c) || c == '/' || c == '>';
}


/* comments, doctypes, CDATA, and what reads as a comment */
static void
hymt_html_declaration(hymt_html_t *h)
{
    uint32_t          from, left;
    const char       *p;
    hymt_span_kind_t  kind;

    from = h->at;
    p = h->text + from;
    left = h->len - from;
    kind = HYMT_SPAN_VOID;

    if (left >= 4 && memcmp(p, "<!--", 4) == 0) {
        h->at = hymt_html_comment_end(h, from + 4);

    } else if (left >= 9 && memcmp(p, "<![CDATA[", 9) == 0
               && h->foreign != 0)
    {
        h->at = hymt_html_find(h, from, "]]>");

    } else {

        if (left >= 9 && strncasecmp(p, "<!doctype", 9) == 0) {
            kind = HYMT_SPAN_BREAK;
        }

        h->at = hymt_html_find(h, from + 2, ">");
    }

    hymt_build_span(&h->b, kind, from, h->at - from);
}


/* at is behind "<!--"; "<!-->", "<!--->" are whole comments, "--!>" an end */
static uint32_t
hymt_html_comment_end(const hymt_html_t *h, uint32_t at)
{
    uint32_t     left;
    const char  *p;

    p = h->text + at;
    left = h->len - at;

    if (left >= 1 && p[0] == '>') {
        return at + 1;
    }

    if (left >= 2 && p[0] == '-' && p[1] == '>') {
        return at + 2;
    }

    for ( /* void */ ; left >= 3; p++, left--) {

        if (p[0] != '-' || p[1] != '-') {
            continue;
        }

        if (p[2] == '>') {
            return h->len - left + 3;
        }

        if (left >= 4 && p[2] == '!' && p[3] == '>') {
            return h->len - left + 4;
        }
    }

    return h->len;
}


/* behind the next s, or the end */
static uint32_t
hymt_html_find(const hymt_html_t *h, uint32_t at, const char *s)
{
    const char  *p;

    p = memmem(h->text + at, h->len - at, s, strlen(s));

    return p != NULL ? (uint32_t) (p - h->text) + (uint32_t) strlen(s) : h->len;
}


/* what our lists say of a name; pages repeat few of them */
static uint32_t
hymt_html_class(hymt_html_t *h, const char *name, uint32_t len)
{
    hymt_class_t  *seen;

    if (len > HYMT_MAX_NAME) {
        return 0;
    }

    seen = &h->seen[((unsigned char) name[0] * 7 + (unsigned char) name[len - 1]
                     + len * 3) % hymt_nelts(h->seen)];

    if (seen->len != len || memcmp(seen->name, name, len) != 0) {
        memcpy(seen->name, name, len);
        seen->len = len;
        seen->class = hymt_html_lists(name, len);
    }

    return seen->class;
}


static uint32_t
hymt_html_lists(const char *name, uint32_t len)
{
    size_t                 k;
    uint32_t               class;
    const hymt_implied_t  *imp;

    class = 0;

    if (hymt_html_in(hymt_block_tags, name, len)) {
        class |= HYMT_HTML_BLOCK;
    }

    if (hymt_html_in(hymt_void_tags, name, len)) {
        class |= HYMT_HTML_VOID;
    }

    if (hymt_html_in(hymt_ignored_tags, name, len)) {
        class |= HYMT_HTML_IGNORED;
    }

    if (hymt_html_in(hymt_raw_tags, name, len)) {
        class |= HYMT_HTML_RAW;
    }

    if (hymt_html_in(hymt_inline_tags, name, len)) {
        class |= HYMT_HTML_INLINE;
    }

    for (k = 0; k < hymt_nelts(hymt_implied); k++) {
        imp = &hymt_implied[k];

        class |= hymt_html_in(imp->tags, name, len) ? HYMT_HTML_TAG(k) : 0;
        class |= hymt_html_in(imp->ends, name, len) ? HYMT_HTML_ENDS(k) : 0;
        class |= hymt_html_in(imp->until, name, len) ? HYMT_HTML_UNTIL(k) : 0;
    }

    return class;
}


/* whether name is one of the words of list, which stand between spaces */
static bool
hymt_html_in(const char *list, const char *name, uint32_t len)
{
    const char  *p;

    for (p = list; p != NULL && p[1] != '\0'; p = strchr(p, ' ')) {
        p++;

        if (*p == (name[0] | 0x20) && strncasecmp(p, name, len) == 0
            && p[len] == ' ')
        {
            return true;
        }
    }

    return false;
}


static bool
hymt_html_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}


static bool
hymt_html_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r';
}
