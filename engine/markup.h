/*
 * markup.h - HTML or XML as one flat list of spans over its bytes.
 *
 * The spans tile the text: every byte lies in exactly one, in order, so that
 * what is put together again from them has every tag where it was.  XML is
 * read by Expat.  HTML is read by the tokenizer of the HTML standard (13.2.5),
 * written here, because a span must be told for every byte of any input, in
 * linear time: see markup_html.c; what comes of it, a library's parser judges
 * (markup_judge.h).
 *
 * What a translator sees as a sentence ends at block tags.  An inline tag (b,
 * i, a, span, em, unknown ones ...) lies inside.  Not translated, and then
 * opaque: script, style, code, kbd, samp, var, tt, textarea, svg, math, iframe,
 * noembed, noframes, xmp, plaintext, object, applet, audio, video, canvas; what
 * translate="no" or class="notranslate" say, unless translate="yes" within says
 * else; CDATA sections, comments, declarations, processing instructions;
 * ignore_tags.  noscript, template, pre, title, option, button are translated;
 * in pre a line is a unit.  br ends a unit, unless it is one of the
 * non_splitting_tags.
 *
 * In XML a tag is inline where its parent has text of its own beside it
 * ("mixed content"), or is inline itself; else it ends a unit.  splitting_tags
 * and non_splitting_tags decide before that.
 *
 * Thread: any.
 */

#ifndef HYMT_MARKUP_H
#define HYMT_MARKUP_H

#include "document.h"


#define HYMT_SPAN_NONE  UINT32_MAX


typedef enum {
    HYMT_SPAN_TEXT = 0,   /* with references, to translate */
    HYMT_SPAN_OPEN,       /* an inline start tag; match: its end tag */
    HYMT_SPAN_CLOSE,
    HYMT_SPAN_VOID,       /* <img>, <x/>, a comment: inline, nothing in it */
    HYMT_SPAN_OPAQUE,     /* a whole inline element that is not translated */
    HYMT_SPAN_BREAK,      /* what ends a unit, and what lies outside of any */
} hymt_span_kind_t;


typedef struct {
    uint32_t          at;
    uint32_t          len;
    uint32_t          match;      /* OPEN, CLOSE: index of the other, or NONE */
    uint32_t          inner;      /* OPAQUE: its one text, if it has just one */
    uint32_t          inner_len;
    uint32_t          parent;     /* OPEN span around it, or NONE */
    hymt_span_kind_t  kind;
    bool              pre;        /* TEXT: line ends count */
    bool              raw;        /* TEXT of HTML's title and its likes: what
                                     looks like a tag is none */
    bool              element;    /* OPEN, VOID, OPAQUE: a tag is behind it */
    int8_t            splits;     /* by the lists: 1 yes, 0 no, -1 not named */
    bool              mixed;      /* OPEN: text beside its children */
    bool              is_inline;
} hymt_span_t;


typedef struct {
    hymt_span_t  *span;           /* malloc'ed */
    uint32_t      n;
    uint32_t      capacity;
} hymt_markup_t;                  /* all zero: empty */


/*
 * text[len] must be NUL.  HYMT_ERROR: no memory, or (XML) malformed: line and
 * column.
 */
hymt_status_t hymt_markup_html(const char *text, size_t len,
    const hymt_document_params_t *params, hymt_markup_t *m, hymt_error_t *err);
hymt_status_t hymt_markup_xml(const char *text, size_t len,
    const hymt_document_params_t *params, hymt_markup_t *m, hymt_error_t *err);

void hymt_markup_free(hymt_markup_t *m);


#endif /* HYMT_MARKUP_H */
