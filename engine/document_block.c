/*
 * document_block.c - see document_block.h.
 */

#include "document_block.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>


static void hymt_block_holds(hymt_block_t *b);
static void hymt_block_scan(hymt_block_t *b, uint32_t from, uint32_t to,
    uint32_t src_end);
static void hymt_block_whole(hymt_block_t *b, uint32_t at, uint32_t len);
static void hymt_block_units(hymt_block_t *b);
static uint32_t hymt_block_part(hymt_block_t *b, uint32_t k, uint32_t from,
    uint32_t to, uint32_t *src);
static void hymt_block_run(hymt_block_t *b, uint32_t from, uint32_t to,
    uint32_t src, uint32_t src_end);
static void hymt_block_atom(hymt_block_t *b, hymt_atom_kind_t kind, uint32_t at,
    uint32_t len, uint32_t src, uint32_t src_end);
static void hymt_block_gap(hymt_block_t *b, uint32_t at, uint32_t src);
static uint32_t hymt_block_src(const hymt_block_t *b, uint32_t at);


void
hymt_block_item(hymt_block_t *b, hymt_atom_kind_t kind, uint32_t at,
    uint32_t len, uint32_t src, uint32_t src_len)
{
    hymt_item_t  *item;

    if (!hymt_grow(&b->item, b->n_items, &b->item_capacity,
                   sizeof(hymt_item_t)))
    {
        b->doc->no_memory = true;
        return;
    }

    item = &b->item[b->n_items++];

    item->kind = kind;
    item->at = at;
    item->len = len;
    item->src = src;
    item->src_len = src_len;
    item->span = HYMT_SPAN_NONE;
    item->match = HYMT_SPAN_NONE;
}


hymt_status_t
hymt_block_parts(hymt_block_t *b, hymt_error_t *err)
{
    bool             all;
    size_t           limit;
    hymt_status_t    rc;
    hymt_document_t *doc;

    doc = b->doc;

    if (b->mapped) {
        b->map[b->len] = b->end;
    }

    if (doc->no_memory || !hymt_has_letter(b->plain, b->len)) {
        return HYMT_OK;
    }

    hymt_block_holds(b);

    if (doc->no_memory) {
        return HYMT_OK;
    }

    all = doc->params.split == HYMT_SPLIT_SENTENCE;
    limit = doc->params.split == HYMT_SPLIT_NONE ? SIZE_MAX
                                                 : doc->params.unit_bytes;
    rc = hymt_segment(b->seg, b->plain, b->len, limit, all, &b->whole,
                      &b->cuts, err);

    if (rc == HYMT_OK) {
        hymt_block_units(b);
    }

    return rc;
}


/* adds the placeholders and terms between the items there are */
static void
hymt_block_holds(hymt_block_t *b)
{
    uint32_t     i, n, at;
    hymt_item_t  *old;

    old = b->item;
    n = b->n_items;

    b->item = NULL;
    b->n_items = 0;
    b->item_capacity = 0;
    b->whole.n = 0;
    at = 0;

    for (i = 0; i <= n; i++) {
        hymt_block_scan(b, at, i < n ? old[i].at : b->len,
                      i < n ? old[i].src : b->end);

        if (i < n) {
            at = old[i].at + old[i].len;

            hymt_block_item(b, old[i].kind, old[i].at, old[i].len, old[i].src,
                          old[i].src_len);

            if (!b->doc->no_memory) {
                b->item[b->n_items - 1] = old[i];
            }

            if (old[i].len != 0) {
                hymt_block_whole(b, old[i].at, old[i].len);
            }
        }
    }

    free(old);
}


/*
 * Plain [from, to), which ends at source byte src_end.  A unit must find in its
 * part what is found here in the whole: units are cut at holds, so what is
 * right behind one is looked at as if nothing were before it; and what only its
 * neighbours keep from being a placeholder is not cut off from them.
 */
static void
hymt_block_scan(hymt_block_t *b, uint32_t from, uint32_t to, uint32_t src_end)
{
    bool          tags;
    size_t        n;
    uint32_t      i, term, src, end, hold;
    const char   *p;

    p = b->plain + from;
    to -= from;
    tags = b->doc->params.format == HYMT_FORMAT_TEXT;

    if (b->doc->keep.n == 0 && hymt_placeholder_free(p, to)) {
        return;
    }

    hold = 0;

    for (i = 0; i < to; i += (uint32_t) n) {
        term = b->doc->keep.n == 0 ? UINT32_MAX
               : hymt_terms_find(&b->doc->keep, p, i, to, true);
        n = term != UINT32_MAX ? b->doc->keep.term[term].len : 0;

        if (n == 0 && !hymt_placeholder_may(p, i)) {
            n = 1;
            continue;
        }

        if (n == 0 && hymt_placeholder(p + hold, i - hold, to - hold, tags, &n)
                      == HYMT_PLACEHOLDER_NONE)
        {
            if (hymt_placeholder_joined(p + hold, i - hold, to - hold)) {
                hymt_block_whole(b, from + i - 1, HYMT_PLACEHOLDER_JOINED);
            }

            n = 1;
            continue;
        }

        src = hymt_block_src(b, from + i);

        end = i + n == to ? src_end
                          : hymt_block_src(b, from + i + (uint32_t) n);

        hymt_block_item(b, HYMT_ATOM_HOLD, from + i, (uint32_t) n, src,
                      end - src);
        hymt_block_whole(b, from + i, (uint32_t) n);

        hold = i + (uint32_t) n;
    }
}


/* ranges come by where they begin; those that overlap become one */
static void
hymt_block_whole(hymt_block_t *b, uint32_t at, uint32_t len)
{
    hymt_range_t  *last;

    last = b->whole.n != 0 ? &b->whole.range[b->whole.n - 1] : NULL;

    if (last != NULL && at < last->at + last->len) {
        last->len = hymt_max(last->len, at + len - last->at);
        return;
    }

    if (!hymt_grow(&b->whole.range, b->whole.n, &b->whole.capacity,
                   sizeof(hymt_range_t)))
    {
        b->doc->no_memory = true;
        return;
    }

    b->whole.range[b->whole.n].at = at;
    b->whole.range[b->whole.n++].len = len;
}


/* a unit for each part of the block */
static void
hymt_block_units(hymt_block_t *b)
{
    uint32_t  i, k, from, to, src, first;

    b->n_atoms = 0;
    k = 0;
    from = 0;
    src = hymt_block_src(b, 0);

    if (b->n_items > 0) {
        src = hymt_min(src, b->item[0].src);
    }

    while (b->n_spans > b->of_span_capacity) {
        if (!hymt_grow(&b->of_span, b->of_span_capacity, &b->of_span_capacity,
                       sizeof(uint32_t)))
        {
            b->doc->no_memory = true;
            return;
        }
    }

    /* all atoms first: a tag's other end may lie in a later part */

    for (i = 0; i <= b->cuts.n; i++) {
        to = i < b->cuts.n ? b->cuts.at[i] : b->len;
        k = hymt_block_part(b, k, from, to, &src);

        /* the atoms of a part end where this says */

        if (i < b->cuts.n) {
            b->cuts.at[i] = b->n_atoms;
        }

        from = to;
    }

    if (b->doc->no_memory) {
        return;
    }

    for (i = 0; i < b->n_atoms; i++) {

        if (b->atom[i].kind == HYMT_ATOM_OPEN
            || b->atom[i].kind == HYMT_ATOM_CLOSE)
        {
            k = b->atom[i].pair;

            b->atom[i].pair = k != HYMT_SPAN_NONE && k >= b->first_span
                              && k - b->first_span < b->n_spans
                              ? b->of_span[k - b->first_span] : HYMT_SPAN_NONE;
        }
    }

    first = 0;

    for (i = 0; i <= b->cuts.n; i++) {
        to = i < b->cuts.n ? b->cuts.at[i] : b->n_atoms;

        if (first > 0 && first < b->n_atoms) {
            hymt_block_gap(b, b->atom[first].at, b->atom[first].src);
        }

        hymt_document_unit(b->doc, b->plain, b->atom, first, to, false,
                           &b->emit);
        first = to;
    }
}


/*
 * The atoms of plain [from, to), which begins at source byte *src and with item
 * k; returns the item after.  At a cut end tags stay with what they end.
 */
static uint32_t
hymt_block_part(hymt_block_t *b, uint32_t k, uint32_t from, uint32_t to,
    uint32_t *src)
{
    uint32_t      end;
    hymt_item_t  *item;

    for ( /* void */ ; k < b->n_items; k++) {
        item = &b->item[k];

        if (item->at > to
            || (item->at == to && to != b->len
                && (item->kind != HYMT_ATOM_CLOSE || item->len != 0)))
        {
            break;
        }

        hymt_block_run(b, from, item->at, *src, item->src);

        if (item->span != HYMT_SPAN_NONE) {
            b->of_span[item->span - b->first_span] = b->n_atoms;
        }

        hymt_block_atom(b, item->kind, item->at, item->len, item->src,
                      item->src + item->src_len);

        if (!b->doc->no_memory) {
            b->atom[b->n_atoms - 1].pair = item->match;
        }

        from = item->at + item->len;
        *src = item->src + item->src_len;
    }

    if (from < to) {
        end = hymt_block_src(b, to);

        if (k < b->n_items && b->item[k].at == to) {
            end = hymt_min(end, b->item[k].src);
        }

        hymt_block_run(b, from, to, *src, end);
        *src = end;
    }

    return k;
}


/* text without items: blanks at its ends are atoms of their own */
static void
hymt_block_run(hymt_block_t *b, uint32_t from, uint32_t to, uint32_t src,
    uint32_t src_end)
{
    uint32_t          before, after, core, core_end;
    hymt_atom_kind_t  kind;

    if (from >= to) {
        return;
    }

    before = (uint32_t) hymt_blank_before(b->plain + from, to - from);

    if (before == to - from) {
        hymt_block_atom(b, HYMT_ATOM_BLANK, from, before, src, src_end);
        return;
    }

    after = (uint32_t) hymt_blank_after(b->plain + from, to - from);
    core = before != 0 ? hymt_block_src(b, from + before) : src;
    core_end = after != 0 ? hymt_block_src(b, to - after) : src_end;

    if (before != 0) {
        hymt_block_atom(b, HYMT_ATOM_BLANK, from, before, src, core);
    }

    from += before;
    to -= after;

    kind = hymt_has_letter(b->plain + from, to - from) ? HYMT_ATOM_TEXT
                                                       : HYMT_ATOM_SIGNS;
    hymt_block_atom(b, kind, from, to - from, core, core_end);

    if (after != 0) {
        hymt_block_atom(b, HYMT_ATOM_BLANK, to, after, core_end, src_end);
    }
}


static void
hymt_block_atom(hymt_block_t *b, hymt_atom_kind_t kind, uint32_t at,
    uint32_t len, uint32_t src, uint32_t src_end)
{
    hymt_atom_t  *a;

    if (!hymt_grow(&b->atom, b->n_atoms, &b->atom_capacity,
                   sizeof(hymt_atom_t)))
    {
        b->doc->no_memory = true;
        return;
    }

    a = &b->atom[b->n_atoms++];
    memset(a, 0, sizeof(*a));

    a->kind = kind;
    a->at = at;
    a->len = len;
    a->src = src;
    a->src_len = src_end - src;
    a->pair = HYMT_SPAN_NONE;
}


/*
 * Between two parts, the second at plain byte at and source byte src: one space
 * goes where the target has none between sentences and the source has; one
 * comes where it is the other way round.
 */
static void
hymt_block_gap(hymt_block_t *b, uint32_t at, uint32_t src)
{
    int       src_lang, tgt;
    bool      unspaced;
    size_t    i;
    int32_t   c;
    uint32_t  blank, from;

    src_lang = b->doc->params.src;
    tgt = b->doc->params.tgt;

    blank = (uint32_t) hymt_blank_after(b->plain, at);

    if (blank >= at) {
        return;
    }

    i = at - blank;
    c = hymt_utf8_prev_char(b->plain, &i);
    unspaced = hymt_char_unspaced(c);

    if (src_lang != HYMT_LANG_NONE) {
        unspaced = hymt_lang_wordless(src_lang);
    }

    if (src_lang == tgt) {
        return;
    }

    if (hymt_lang_unspaced(tgt)) {
        from = hymt_block_src(b, at - 1);

        /* "a < b" must not become a tag, "a & b" no reference */

        if (!unspaced && blank == 1 && b->plain[at - 1] == ' '
            && c != '<' && c != '&'
            && b->doc->source[from] == ' ' && from >= b->emit.src
            && hymt_block_src(b, at) - from == 1)
        {
            hymt_emit_upto(b->doc, &b->emit, from);
            b->emit.src = from + 1;
        }

    } else if (unspaced && blank == 0 && hymt_char_unspaced(c)) {
        hymt_emit_upto(b->doc, &b->emit, src);
        hymt_emit_text(b->doc, &b->emit, " ", 1);
    }
}


/* where plain[at] comes from */
static uint32_t
hymt_block_src(const hymt_block_t *b, uint32_t at)
{
    return b->mapped ? b->map[at] : b->base + at;
}
