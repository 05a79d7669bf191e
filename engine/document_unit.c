/*
 * document_unit.c - from atoms to units and parts; see document_private.h.
 */

#include "document_private.h"
#include "segment_private.h"
#include "utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define HYMT_TAG_TEXT  16      /* most bytes of "</s4294967295>" */


static bool hymt_unit_trim(const hymt_atom_t *atom, uint32_t *i, uint32_t *j);
static bool hymt_unit_outer(const hymt_atom_t *a, uint32_t from, uint32_t to,
    uint32_t first, uint32_t last);
static bool hymt_unit_has_tags(const hymt_atom_t *atom, uint32_t i,
    uint32_t j);
static bool hymt_unit_taggable(hymt_document_t *doc, const char *plain,
    const hymt_atom_t *atom, uint32_t i, uint32_t j);
static bool hymt_unit_nested(hymt_document_t *doc, const hymt_atom_t *atom,
    uint32_t i, uint32_t j);
static hymt_work_t *hymt_unit_work(hymt_document_t *doc, const char *plain,
    const hymt_atom_t *atom, uint32_t i, uint32_t j);
static bool hymt_unit_atoms(hymt_document_t *doc, hymt_work_t *work,
    const hymt_atom_t *atom, uint32_t i, uint32_t j);
static bool hymt_unit_tags(hymt_document_t *doc, hymt_work_t *work);
static void hymt_unit_signs(const hymt_document_t *doc, hymt_work_t *work);
static bool hymt_closing_sign(int32_t c);
static bool hymt_is_tag(const hymt_atom_t *a);


void
hymt_document_unit(hymt_document_t *doc, const char *plain,
    const hymt_atom_t *atom, uint32_t i, uint32_t j, bool run,
    hymt_emit_t *emit)
{
    hymt_work_t  *work;

    if (!hymt_unit_trim(atom, &i, &j)) {
        return;
    }

    if (hymt_unit_has_tags(atom, i, j)
        && !hymt_unit_taggable(doc, plain, atom, i, j))
    {
        hymt_document_split(doc, plain, atom, i, j, true, emit);
        return;
    }

    work = hymt_unit_work(doc, plain, atom, i, j);

    if (work != NULL) {
        work->run = run;

        if (run) {
            hymt_unit_signs(doc, work);
        }

        hymt_emit_work(doc, emit, work);
    }
}


void
hymt_document_split(hymt_document_t *doc, const char *plain,
    const hymt_atom_t *atom, uint32_t i, uint32_t j, bool tags,
    hymt_emit_t *emit)
{
    uint32_t  k, from;

    from = i;

    for (k = i; k <= j; k++) {

        if (k < j && (tags ? !hymt_is_tag(&atom[k])
                           : atom[k].kind == HYMT_ATOM_TEXT))
        {
            continue;
        }

        if (from < k) {
            hymt_document_unit(doc, plain, atom, from, k, true, emit);
        }

        from = k + 1;
    }
}


/*
 * What stands at both ends and is no text stays outside of the unit: white
 * space, tags but those whose other end is inside.  False: nothing is left to
 * translate.
 */
static bool
hymt_unit_trim(const hymt_atom_t *atom, uint32_t *i, uint32_t *j)
{
    bool      text;
    uint32_t  k, from, to, first, last;

    from = *i;
    to = *j;
    first = to;
    last = from;
    text = false;

    for (k = from; k < to; k++) {

        if (atom[k].kind > HYMT_ATOM_HOLD || atom[k].kind == HYMT_ATOM_BLANK) {
            continue;
        }

        text |= atom[k].kind == HYMT_ATOM_TEXT;
        first = hymt_min(first, k);
        last = k + 1;
    }

    if (!text) {
        return false;
    }

    while (*i < first && hymt_unit_outer(&atom[*i], from, to, first, last)) {
        (*i)++;
    }

    while (*j > last
           && hymt_unit_outer(&atom[*j - 1], *i, to, first, last))
    {
        (*j)--;
    }

    return true;
}


/*
 * Whether an atom at an end of [from, to), whose text is [first, last), may
 * stay outside: the other end of a tag is not beside the text.
 */
static bool
hymt_unit_outer(const hymt_atom_t *a, uint32_t from, uint32_t to,
    uint32_t first, uint32_t last)
{
    if (a->kind != HYMT_ATOM_OPEN && a->kind != HYMT_ATOM_CLOSE) {
        return true;
    }

    return a->pair == HYMT_SPAN_NONE || a->pair < from || a->pair >= to
           || a->pair >= last
           || (a->kind == HYMT_ATOM_OPEN && a->pair < first);
}


static bool
hymt_unit_has_tags(const hymt_atom_t *atom, uint32_t i, uint32_t j)
{
    for ( /* void */ ; i < j; i++) {
        if (hymt_is_tag(&atom[i])) {
            return true;
        }
    }

    return false;
}


/* whether the model may see the tags, as <sN></sN> */
static bool
hymt_unit_taggable(hymt_document_t *doc, const char *plain,
    const hymt_atom_t *atom, uint32_t i, uint32_t j)
{
    size_t       len;
    const char  *p, *end;

    if (!doc->params.tags_by_model || !hymt_unit_nested(doc, atom, i, j)) {
        return false;
    }

    /* a text about such tags can't be told from ours */

    p = plain + atom[i].at;
    end = plain + atom[j - 1].at + atom[j - 1].len;

    while (p < end) {
        p = memchr(p, '<', (size_t) (end - p));

        if (p == NULL) {
            break;
        }

        p++;
        len = (size_t) (end - p);

        if (len > 0 && (*p == 's' || *p == 'S' || *p == '/')) {
            return false;
        }
    }

    return true;
}


static bool
hymt_unit_nested(hymt_document_t *doc, const hymt_atom_t *atom, uint32_t i,
    uint32_t j)
{
    bool       good;
    uint32_t   k, depth, *stack;

    stack = malloc((j - i) * sizeof(uint32_t));

    if (stack == NULL) {
        doc->no_memory = true;
        return false;
    }

    good = true;
    depth = 0;

    for (k = i; k < j && good; k++) {

        if (atom[k].kind == HYMT_ATOM_OPEN) {
            stack[depth++] = k;

        } else if (atom[k].kind == HYMT_ATOM_CLOSE) {
            good = depth > 0 && stack[--depth] == atom[k].pair;
        }
    }

    free(stack);

    return good && depth == 0;
}


static hymt_work_t *
hymt_unit_work(hymt_document_t *doc, const char *plain, const hymt_atom_t *atom,
    uint32_t i, uint32_t j)
{
    hymt_work_t  *work;

    if (doc->cutting && doc->n_work >= doc->params.max_units) {
        doc->too_many = true;
        return NULL;
    }

    work = hymt_arena_array(&doc->arena, 1, sizeof(hymt_work_t));

    if (work == NULL
        || !hymt_grow(&doc->work, doc->n_work, &doc->work_capacity,
                      sizeof(hymt_work_t *)))
    {
        doc->no_memory = true;
        return NULL;
    }

    work->id = doc->n_work;
    work->raw = doc->raw;
    work->text = plain + atom[i].at;
    work->len = atom[j - 1].at + atom[j - 1].len - atom[i].at;
    work->src = atom[i].src;
    work->src_len = atom[j - 1].src + atom[j - 1].src_len - atom[i].src;

    if (j - i > 1 && !hymt_unit_atoms(doc, work, atom, i, j)) {
        doc->no_memory = true;
        return NULL;
    }

    doc->work[doc->n_work++] = work;

    return work;
}


static bool
hymt_unit_atoms(hymt_document_t *doc, hymt_work_t *work,
    const hymt_atom_t *atom, uint32_t i, uint32_t j)
{
    bool          tags;
    uint32_t      k, number;
    hymt_atom_t  *a;

    work->n_atoms = j - i;
    work->atom = hymt_arena_array(&doc->arena, j - i, sizeof(hymt_atom_t));

    if (work->atom == NULL) {
        return false;
    }

    memcpy(work->atom, atom + i, (j - i) * sizeof(hymt_atom_t));

    tags = false;
    number = 0;

    for (k = 0; k < j - i; k++) {
        a = &work->atom[k];
        a->at -= atom[i].at;

        switch (a->kind) {

        case HYMT_ATOM_OPEN:
            a->pair -= i;
            a->number = ++number;
            tags = true;
            break;

        case HYMT_ATOM_CLOSE:
            a->pair -= i;
            a->number = work->atom[a->pair].number;
            break;

        case HYMT_ATOM_VOID:
            a->number = ++number;
            tags = true;
            break;

        default:
            break;
        }
    }

    return !tags || hymt_unit_tags(doc, work);
}


/* the text the formatted prompt is given */
static bool
hymt_unit_tags(hymt_document_t *doc, hymt_work_t *work)
{
    char         *p;
    size_t        size;
    uint32_t      k;
    hymt_atom_t  *a;

    size = (size_t) work->len + 1;

    for (k = 0; k < work->n_atoms; k++) {
        size += hymt_is_tag(&work->atom[k]) ? HYMT_TAG_TEXT * 2 : 0;
    }

    p = size <= UINT32_MAX ? hymt_arena_alloc(&doc->arena, size) : NULL;

    if (p == NULL) {
        return false;
    }

    work->tagged = p;

    for (k = 0; k < work->n_atoms; k++) {
        a = &work->atom[k];

        switch (a->kind) {

        case HYMT_ATOM_OPEN:
            p += sprintf(p, "<s%u>", a->number);
            break;

        case HYMT_ATOM_CLOSE:
            p += sprintf(p, "</s%u>", a->number);
            break;

        case HYMT_ATOM_VOID:
            p += sprintf(p, "<s%u></s%u>", a->number, a->number);
            break;

        default:
            memcpy(p, work->text + a->at, a->len);
            p += a->len;
        }
    }

    work->tagged_len = (uint32_t) (p - work->tagged);

    return true;
}


/*
 * A run of a sentence may begin with the punctuation behind what it was cut
 * from; a model would drop that.
 */
static void
hymt_unit_signs(const hymt_document_t *doc, hymt_work_t *work)
{
    size_t   at, n;
    int32_t  c;

    if (work->atom != NULL) {
        return;
    }

    n = 0;

    for ( ;; ) {
        at = n;
        c = at < work->len ? hymt_utf8_next_char(work->text, &at, work->len)
                           : -1;

        if (!hymt_closing_sign(c)) {
            break;
        }

        n = at + hymt_blank_before(work->text + at, work->len - at);
    }

    if (memcmp(work->text, doc->source + work->src, n) == 0
        && hymt_has_letter(work->text + n, work->len - n))
    {
        work->text += n;
        work->len -= (uint32_t) n;
        work->src += (uint32_t) n;
        work->src_len -= (uint32_t) n;
    }
}


static bool
hymt_closing_sign(int32_t c)
{
    return (c > 0 && c < 0x80 && strchr(",.;:!?)]", c) != NULL)
           || hymt_clause_end(c) || c == 0x3002 || c == 0xff01 || c == 0xff1f
           || c == 0xff09 || c == 0x061f;
}


static bool
hymt_is_tag(const hymt_atom_t *a)
{
    return a->kind >= HYMT_ATOM_OPEN;
}


void
hymt_emit_upto(hymt_document_t *doc, hymt_emit_t *emit, uint32_t at)
{
    hymt_part_t  *part;

    if (at <= emit->src) {
        return;
    }

    part = hymt_arena_array(&doc->arena, 1, sizeof(hymt_part_t));

    if (part == NULL) {
        doc->no_memory = true;
        return;
    }

    part->at = emit->src;
    part->len = at - emit->src;

    *emit->last = part;
    emit->last = &part->next;
    emit->src = at;
}


void
hymt_emit_text(hymt_document_t *doc, hymt_emit_t *emit, const char *text,
    uint32_t len)
{
    hymt_part_t  *part;

    part = hymt_arena_array(&doc->arena, 1, sizeof(hymt_part_t));

    if (part == NULL) {
        doc->no_memory = true;
        return;
    }

    part->text = text;
    part->len = len;

    *emit->last = part;
    emit->last = &part->next;
}


void
hymt_emit_work(hymt_document_t *doc, hymt_emit_t *emit, hymt_work_t *work)
{
    hymt_part_t  *part;

    hymt_emit_upto(doc, emit, work->src);

    part = hymt_arena_array(&doc->arena, 1, sizeof(hymt_part_t));

    if (part == NULL) {
        doc->no_memory = true;
        return;
    }

    part->work = work;
    work->part = part;

    *emit->last = part;
    emit->last = &part->next;
    emit->src = work->src + work->src_len;

    work->before = doc->latest;

    if (doc->cutting) {
        doc->latest = work;
    }

    hymt_document_enqueue(doc, work);
}
