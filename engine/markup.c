/*
 * markup.c - see markup_private.h.
 */

#include "markup_private.h"
#include "arena.h"
#include "segment.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>


static hymt_span_t *hymt_build_add(hymt_builder_t *b, hymt_span_kind_t kind,
    uint32_t at, uint32_t len);
static bool hymt_build_skipped(const hymt_builder_t *b, const hymt_tag_t *tag);
static int8_t hymt_build_splits(const hymt_builder_t *b, const hymt_tag_t *tag);
static bool hymt_build_merge(hymt_builder_t *b, const hymt_open_t *e,
    uint32_t at, uint32_t len);


void
hymt_markup_free(hymt_markup_t *m)
{
    free(m->span);
    memset(m, 0, sizeof(*m));
}


void
hymt_build_open(hymt_builder_t *b, const hymt_tag_t *tag)
{
    bool              block, skip;
    uint32_t          at;
    hymt_open_t      *e, *parent;
    hymt_span_t      *span;
    hymt_span_kind_t  kind;

    parent = b->n_open != 0 ? &b->open[b->n_open - 1] : NULL;

    block = tag->block;

    if (b->html) {
        switch (hymt_build_splits(b, tag)) {
        case 0:  block = false; break;
        case 1:  block = true; break;
        default: break;
        }
    }

    kind = tag->empty ? HYMT_SPAN_VOID : HYMT_SPAN_OPEN;

    if (block) {
        kind = HYMT_SPAN_BREAK;
    }

    at = b->markup->n;
    span = hymt_build_add(b, kind, tag->at, tag->len);

    if (span == NULL) {
        return;
    }

    span->element = true;
    span->splits = hymt_build_splits(b, tag);

    if (tag->empty) {
        return;
    }

    if (!hymt_grow(&b->open, b->n_open, &b->capacity, sizeof(hymt_open_t))) {
        b->no_memory = true;
        return;
    }

    skip = hymt_build_skipped(b, tag);
    parent = b->n_open != 0 ? &b->open[b->n_open - 1] : NULL;
    e = &b->open[b->n_open];

    memset(e, 0, sizeof(*e));

    e->name = tag->name;
    e->name_len = tag->name_len;
    e->span = at;
    e->root = b->root;
    e->class = tag->class;
    e->block = block;
    e->skip = skip;
    e->pre = tag->pre || (parent != NULL && parent->pre);

    if (skip && (parent == NULL || !parent->skip)) {
        b->root = b->n_open;

    } else if (!skip && parent != NULL && parent->skip) {
        b->open[b->root].kept = true;
        b->root = HYMT_SPAN_NONE;
    }

    b->n_open++;
}


static bool
hymt_build_skipped(const hymt_builder_t *b, const hymt_tag_t *tag)
{
    if (tag->translate != -1) {
        return tag->translate == 0;
    }

    if (tag->ignored
        || hymt_build_named(b, &b->params->ignore_tags, tag->name,
                            tag->name_len))
    {
        return true;
    }

    return b->n_open != 0 && b->open[b->n_open - 1].skip;
}


static int8_t
hymt_build_splits(const hymt_builder_t *b, const hymt_tag_t *tag)
{
    if (hymt_build_named(b, &b->params->non_splitting_tags, tag->name,
                         tag->name_len))
    {
        return 0;
    }

    if (hymt_build_named(b, &b->params->splitting_tags, tag->name,
                         tag->name_len)
        || (!b->html && b->params->inline_tags_split))
    {
        return 1;
    }

    return !b->html && b->params->listed_tags_split ? 0 : -1;
}


void
hymt_build_close(hymt_builder_t *b, uint32_t i, uint32_t at, uint32_t len)
{
    uint32_t      n;
    hymt_open_t   e;
    hymt_span_t  *span;

    hymt_build_pop(b, i + 1);
    e = b->open[i];

    if (e.skip && b->root == i && !e.kept && !e.block
        && hymt_build_merge(b, &e, at, len))
    {
        hymt_build_pop(b, i);
        return;
    }

    hymt_build_pop(b, i);

    n = b->markup->n;
    span = hymt_build_add(b, e.block ? HYMT_SPAN_BREAK : HYMT_SPAN_CLOSE, at,
                          len);
    if (span == NULL) {
        return;
    }

    span->match = e.span;
    b->markup->span[e.span].match = n;
}


/* an inline element that is not translated becomes one span */
static bool
hymt_build_merge(hymt_builder_t *b, const hymt_open_t *e, uint32_t at,
    uint32_t len)
{
    hymt_span_t  *span;

    span = &b->markup->span[e->span];

    if (b->markup->n == e->span + 2 && span[1].kind == HYMT_SPAN_BREAK
        && span[1].pre)
    {
        span->inner = span[1].at;
        span->inner_len = span[1].len;
    }

    span->kind = HYMT_SPAN_OPAQUE;
    span->len = at + len - span->at;
    b->markup->n = e->span + 1;

    return true;
}


void
hymt_build_pop(hymt_builder_t *b, uint32_t i)
{
    hymt_open_t  *e;

    while (b->n_open > i) {
        e = &b->open[--b->n_open];
        b->root = e->root;
    }
}


void
hymt_build_span(hymt_builder_t *b, hymt_span_kind_t kind, uint32_t at,
    uint32_t len)
{
    bool          text;
    hymt_open_t  *top;
    hymt_span_t  *span;

    if (len == 0) {
        return;
    }

    top = b->n_open != 0 ? &b->open[b->n_open - 1] : NULL;
    text = kind == HYMT_SPAN_TEXT;

    if (top != NULL && top->skip && text) {

        /* the mark `pre` tells merge() that this is text */

        span = hymt_build_add(b, HYMT_SPAN_BREAK, at, len);

        if (span != NULL) {
            span->pre = true;
        }

        return;
    }

    if (text && !b->html && hymt_blank_before(b->text + at, len) != len) {

        if (top == NULL) {
            b->mixed = true;

        } else {
            b->markup->span[top->span].mixed = true;
        }
    }

    span = hymt_build_add(b, kind, at, len);

    if (span != NULL) {
        span->pre = top != NULL && top->pre;
    }
}


static hymt_span_t *
hymt_build_add(hymt_builder_t *b, hymt_span_kind_t kind, uint32_t at,
    uint32_t len)
{
    hymt_span_t    *span;
    hymt_markup_t  *m;

    m = b->markup;

    if (!hymt_grow(&m->span, m->n, &m->capacity, sizeof(hymt_span_t))) {
        b->no_memory = true;
        return NULL;
    }

    span = &m->span[m->n++];
    memset(span, 0, sizeof(*span));

    span->at = at;
    span->len = len;
    span->kind = kind;
    span->match = HYMT_SPAN_NONE;
    span->splits = -1;
    span->parent = b->n_open != 0 ? b->open[b->n_open - 1].span
                                  : HYMT_SPAN_NONE;
    return span;
}


bool
hymt_build_named(const hymt_builder_t *b, const hymt_list_t *list,
    uint32_t name, uint32_t len)
{
    uint32_t  i;

    for (i = 0; i < list->n; i++) {

        if (strlen(list->item[i]) != len) {
            continue;
        }

        if (b->html ? strncasecmp(list->item[i], b->text + name, len) == 0
                    : memcmp(list->item[i], b->text + name, len) == 0)
        {
            return true;
        }
    }

    return false;
}


int
hymt_build_translate(const char *value, size_t len)
{
    if (len == 0 || (len == 3 && strncasecmp(value, "yes", 3) == 0)) {
        return 1;
    }

    return len == 2 && strncasecmp(value, "no", 2) == 0 ? 0 : -1;
}


bool
hymt_build_notranslate(const char *value, size_t len)
{
    size_t  i, from;

    for (i = 0; i < len; i++) {

        for (from = i; i < len && strchr(" \t\n\f\r", value[i]) == NULL; i++) {
            /* void */
        }

        if (i - from == 11 && memcmp(value + from, "notranslate", 11) == 0) {
            return true;
        }
    }

    return false;
}
