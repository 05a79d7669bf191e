/*
 * document_cut.c - from the source to blocks; see document_block.h.
 */

#include "document_block.h"
#include "entity.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>


#define HYMT_INNER_MAX  64      /* bytes of text that may show an element */


static hymt_status_t hymt_cut_text(hymt_block_t *b, hymt_error_t *err);
static hymt_status_t hymt_cut_lines(hymt_block_t *b, uint32_t at, uint32_t end,
    hymt_error_t *err);
static void hymt_cut_line_ends(hymt_block_t *b);
static hymt_status_t hymt_cut_markup(hymt_block_t *b, hymt_error_t *err);
static hymt_status_t hymt_cut_spans(hymt_block_t *b, const hymt_markup_t *m,
    hymt_error_t *err);
static bool hymt_cut_begin(hymt_block_t *b, const hymt_markup_t *m, uint32_t i,
    uint32_t at);
static void hymt_cut_decode(hymt_block_t *b, uint32_t at, uint32_t len,
    bool pre);
static void hymt_cut_put(hymt_block_t *b, const char *s, uint32_t n,
    uint32_t src);
static void hymt_cut_opaque(hymt_block_t *b, const hymt_span_t *span);


hymt_status_t
hymt_document_cut(hymt_document_t *doc, hymt_error_t *err)
{
    hymt_block_t   b;
    hymt_status_t  rc;

    memset(&b, 0, sizeof(b));

    b.doc = doc;
    b.emit.last = &doc->first;
    b.html = doc->params.format == HYMT_FORMAT_HTML;

    rc = hymt_segmenter_create(doc->params.src, &b.seg, err);

    if (rc == HYMT_OK) {
        rc = doc->params.format == HYMT_FORMAT_TEXT ? hymt_cut_text(&b, err)
                                                    : hymt_cut_markup(&b, err);
    }

    hymt_emit_upto(doc, &b.emit, doc->len);

    free(b.map);
    free(b.item);
    free(b.atom);
    free(b.of_span);
    free(b.whole.range);
    free(b.cuts.at);
    hymt_segmenter_free(b.seg);

    if (rc == HYMT_OK && doc->no_memory) {
        return hymt_fail(err, "no memory for a document of %u bytes", doc->len);
    }

    if (rc == HYMT_OK && doc->too_many) {
        return hymt_fail(err, "the text has more than %u units to translate:"
                         " send it in parts", doc->params.max_units);
    }

    return rc;
}


static hymt_status_t
hymt_cut_text(hymt_block_t *b, hymt_error_t *err)
{
    if (b->doc->params.split != HYMT_SPLIT_NONE) {
        return hymt_cut_lines(b, 0, b->doc->len, err);
    }

    b->plain = b->doc->source;
    b->len = b->doc->len;
    b->end = b->len;

    hymt_cut_line_ends(b);

    return hymt_block_parts(b, err);
}


/* lines of the source, each a block behind its marker */
static hymt_status_t
hymt_cut_lines(hymt_block_t *b, uint32_t at, uint32_t end, hymt_error_t *err)
{
    size_t         eol, len, marker;
    hymt_status_t  rc;

    rc = HYMT_OK;

    while (rc == HYMT_OK && at < end && !b->doc->too_many) {
        len = hymt_line(b->doc->source + at, end - at, &eol);
        marker = hymt_line_marker(b->doc->source + at, len);

        b->plain = b->doc->source + at + marker;
        b->len = (uint32_t) (len - marker);
        b->base = at + (uint32_t) marker;
        b->end = at + (uint32_t) len;
        b->n_items = 0;

        rc = hymt_block_parts(b, err);

        at += (uint32_t) (len + eol);
    }

    return rc;
}


/* the text is one unit: line ends with the blanks around are held */
static void
hymt_cut_line_ends(hymt_block_t *b)
{
    size_t       len, eol, blank;
    uint32_t     at, from, to;
    const char  *s;

    s = b->doc->source;

    for (at = 0; at < b->len; at = to) {
        len = hymt_line(s + at, b->len - at, &eol);
        from = at + (uint32_t) (len - hymt_blank_after(s + at, len));
        to = at + (uint32_t) (len + eol);

        if (eol == 0) {
            break;
        }

        blank = hymt_blank_before(s + to, b->len - to);
        to += (uint32_t) blank;

        hymt_block_item(b, HYMT_ATOM_HOLD, from, to - from, from, to - from);
    }
}


static hymt_status_t
hymt_cut_markup(hymt_block_t *b, hymt_error_t *err)
{
    hymt_markup_t     m;
    hymt_status_t     rc;
    hymt_document_t  *doc;

    doc = b->doc;
    memset(&m, 0, sizeof(m));

    rc = b->html ? hymt_markup_html(doc->source, doc->len, &doc->params, &m,
                                    err)
                 : hymt_markup_xml(doc->source, doc->len, &doc->params, &m,
                                   err);
    if (rc == HYMT_OK) {
        rc = hymt_cut_spans(b, &m, err);
    }

    hymt_markup_free(&m);

    return rc;
}


static hymt_status_t
hymt_cut_spans(hymt_block_t *b, const hymt_markup_t *m, hymt_error_t *err)
{
    size_t              len, eol;
    uint32_t            i, at, end;
    hymt_status_t       rc;
    hymt_document_t    *doc;
    const hymt_span_t  *s;

    doc = b->doc;
    rc = HYMT_OK;

    for (i = 0; i < m->n; i++) {
        s = &m->span[i];

        if (s->kind == HYMT_SPAN_BREAK) {
            continue;
        }

        doc->raw = false;

        if (!hymt_cut_begin(b, m, i, s->at)) {
            break;
        }

        for ( /* void */ ; i < m->n && rc == HYMT_OK; i++) {
            s = &m->span[i];

            if (s->kind == HYMT_SPAN_BREAK) {
                break;
            }

            at = s->at;
            end = s->at + s->len;
            doc->raw |= s->raw;

            if (s->kind == HYMT_SPAN_TEXT && s->pre) {

                /* each line a block of its own */

                for ( ;; ) {
                    len = hymt_line(doc->source + at, end - at, &eol);
                    hymt_cut_decode(b, at, (uint32_t) len, true);

                    if (eol == 0) {
                        break;
                    }

                    b->end = at + (uint32_t) len;
                    rc = hymt_block_parts(b, err);
                    at += (uint32_t) (len + eol);

                    if (rc != HYMT_OK || !hymt_cut_begin(b, m, i, at)) {
                        break;
                    }
                }

                if (doc->no_memory) {
                    return HYMT_OK;
                }

            } else if (s->kind == HYMT_SPAN_TEXT) {
                hymt_cut_decode(b, at, s->len, false);

            } else if (s->kind == HYMT_SPAN_OPAQUE) {
                hymt_cut_opaque(b, s);

            } else {
                hymt_block_item(b, s->kind == HYMT_SPAN_OPEN ? HYMT_ATOM_OPEN
                                 : s->kind == HYMT_SPAN_CLOSE ? HYMT_ATOM_CLOSE
                                 : HYMT_ATOM_VOID, b->len, 0, at, s->len);

                if (!doc->no_memory) {
                    b->item[b->n_items - 1].span = i;
                    b->item[b->n_items - 1].match = s->match;
                }
            }

            b->end = end;
            b->n_spans = i + 1 - b->first_span;
        }

        if (rc == HYMT_OK) {
            rc = hymt_block_parts(b, err);
        }

        if (rc != HYMT_OK || doc->no_memory || doc->too_many) {
            break;
        }
    }

    return rc;
}


/*
 * A block begins in span i at source byte at.  Decoded text is never longer
 * than its source; what the block may need is the source up to its end.
 */
static bool
hymt_cut_begin(hymt_block_t *b, const hymt_markup_t *m, uint32_t i,
    uint32_t at)
{
    size_t              eol;
    uint32_t            k, need, from;
    const hymt_span_t  *s;

    need = 1;

    for (k = i; k < m->n && m->span[k].kind != HYMT_SPAN_BREAK; k++) {
        s = &m->span[k];

        if (s->kind == HYMT_SPAN_OPAQUE) {
            need += s->inner_len;
        }

        if (s->kind != HYMT_SPAN_TEXT) {
            continue;
        }

        if (!s->pre) {
            need += s->len;
            continue;
        }

        from = hymt_max(at, s->at);
        need += (uint32_t) hymt_line(b->doc->source + from,
                                     s->at + s->len - from, &eol);
        if (eol != 0) {
            break;
        }
    }

    b->plain = hymt_arena_alloc(&b->doc->arena, need);
    b->len = 0;
    b->n_items = 0;
    b->mapped = true;
    b->first_span = i;
    b->n_spans = 1;
    b->end = at;

    while (need + 1 > b->map_capacity && b->plain != NULL) {
        if (!hymt_grow(&b->map, b->map_capacity, &b->map_capacity,
                       sizeof(uint32_t)))
        {
            b->plain = NULL;
        }
    }

    if (b->plain == NULL) {
        b->doc->no_memory = true;
        return false;
    }

    return true;
}


static void
hymt_cut_decode(hymt_block_t *b, uint32_t at, uint32_t len, bool pre)
{
    char         s[4];
    size_t       n;
    int32_t      c;
    uint32_t     i, w;
    const char  *p;

    p = b->doc->source + at;

    for (i = 0; i < len; i += (uint32_t) n) {

        if (p[i] == '&') {
            n = hymt_entity(p + i, len - i, b->html, &c);

            if (n == 0) {
                n = 1;
                hymt_cut_put(b, p + i, 1, at + i);

            } else if (c == HYMT_ENTITY_OPAQUE) {
                hymt_block_item(b, HYMT_ATOM_HOLD, b->len, (uint32_t) n, at + i,
                              (uint32_t) n);
                hymt_cut_put(b, p + i, (uint32_t) n, at + i);

            } else {
                w = 0;
                U8_APPEND_UNSAFE(s, w, c);
                hymt_cut_put(b, s, w, at + i);
            }

            continue;
        }

        if (!pre && p[i] != '\0' && strchr(" \t\n\r\f", p[i]) != NULL) {
            n = strspn(p + i, " \t\n\r\f");
            n = hymt_min(n, len - i);
            hymt_cut_put(b, " ", 1, at + i);
            continue;
        }

        for (n = 1; i + n < len && p[i + n] != '&'
             && (unsigned char) p[i + n] > ' '; n++)
        {
            /* void */
        }

        hymt_cut_put(b, p + i, (uint32_t) n, at + i);
    }
}


/* several bytes come from as many in the source, or all from one place */
static void
hymt_cut_put(hymt_block_t *b, const char *s, uint32_t n, uint32_t src)
{
    uint32_t  i;
    bool      same;

    same = s >= b->doc->source && s < b->doc->source + b->doc->len;

    for (i = 0; i < n; i++) {
        b->map[b->len] = src + (same ? i : 0);
        b->plain[b->len++] = s[i];
    }
}


/*
 * An element that is not translated is shown by its text, where that can be
 * found again in an answer; else as a tag that has nothing in it.
 */
static void
hymt_cut_opaque(hymt_block_t *b, const hymt_span_t *span)
{
    size_t    i, len;
    uint32_t  at, n_items;

    at = b->len;
    n_items = b->n_items;

    if (span->inner_len > 1 && span->inner_len <= HYMT_INNER_MAX) {
        hymt_cut_decode(b, span->inner, span->inner_len, false);

        len = b->len - at;

        for (i = 0; i < len && b->plain[at + i] != '<'; i++) { /* void */ }

        if (b->n_items == n_items && i == len && len > 1
            && hymt_blank_before(b->plain + at, len) == 0
            && hymt_blank_after(b->plain + at, len) == 0)
        {
            hymt_block_item(b, HYMT_ATOM_HOLD, at, (uint32_t) len, span->at,
                          span->len);
            return;
        }

        b->len = at;
        b->n_items = n_items;
    }

    hymt_block_item(b, HYMT_ATOM_VOID, at, 0, span->at, span->len);
}
