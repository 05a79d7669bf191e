/*
 * document_answer.c - from a translation to bytes of the output; see
 * document_private.h.
 *
 * An answer is read once, left to right, as text, held strings and <sN> tags,
 * and written as it is read.  It is refused where a held string or tag is lost,
 * comes twice, is new, or where the tags are not nested as they were; and what
 * was written is, where another parser reads other elements in it than in the
 * source (markup_judge.h).
 */

#include "document_private.h"
#include "markup_judge.h"
#include "scan.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

#include <unicode/uchar.h>


/* One string that must come back. */
typedef struct {
    const char  *text;
    uint32_t     len;
    uint32_t     atom;
} hymt_hold_t;


/* A tag of the unit. */
typedef struct {
    uint32_t  atom;        /* OPEN or VOID */
    uint32_t  parent;      /* number of the tag around it; 0: none */
    uint32_t  inside;      /* OPEN: texts before it, then between both ends */
    bool      full;        /* there is text between them in the source */
    bool      opened;
    bool      closed;
} hymt_mark_t;


typedef struct {
    hymt_document_t    *doc;
    const hymt_work_t  *work;
    const char         *text;
    uint32_t            len;

    hymt_hold_t        *hold;       /* by text, then by place */
    uint32_t            n_holds;
    uint32_t           *next;       /* by term: its next hold, and the first */
    uint32_t           *end;        /* ... that is not its */
    hymt_terms_t        terms;

    hymt_mark_t        *mark;       /* [1 .. n_marks] */
    uint32_t            n_marks;
    uint32_t            top;        /* number of the innermost open tag */
    uint32_t            n_texts;    /* texts and holds so far */
    uint32_t            n_left;     /* holds and tags still missing */

    char               *out;
    size_t              n_out;
} hymt_reading_t;


static bool hymt_read_begin(hymt_reading_t *r);
static bool hymt_read_judged(const hymt_reading_t *r);
static bool hymt_read_holds(hymt_reading_t *r);
static int hymt_read_hold_order(const void *a, const void *b);
static bool hymt_read_line_hold(hymt_reading_t *r, hymt_hold_t *hold);
static bool hymt_read_marks(hymt_reading_t *r);
static bool hymt_read_all(hymt_reading_t *r);
static uint32_t hymt_read_plain(hymt_reading_t *r, uint32_t at);
static bool hymt_read_hold(hymt_reading_t *r, uint32_t term);
static uint32_t hymt_read_tag(const hymt_reading_t *r, uint32_t at,
    uint32_t *number, char *kind);
static uint32_t hymt_read_mark(hymt_reading_t *r, uint32_t at, uint32_t n,
    uint32_t number, char kind);
static void hymt_read_source(hymt_reading_t *r, uint32_t atom);
static void hymt_read_char(hymt_reading_t *r, uint32_t at, uint32_t n);
static void hymt_read_end(hymt_reading_t *r);
static void hymt_answer_stop(hymt_document_t *doc, const hymt_work_t *work,
    const char *text, size_t *len);
static void hymt_answer_fallback(hymt_document_t *doc, hymt_work_t *work);
static uint32_t hymt_line_ends(const char *text, uint32_t len);


hymt_status_t
hymt_document_answer(hymt_document_t *doc, hymt_work_t *work, const char *text,
    size_t len)
{
    char            *out;
    bool             good;
    hymt_reading_t   r;

    if (work->run && !doc->params.preserve_formatting) {
        hymt_answer_stop(doc, work, text, &len);
    }

    /* what the model gave back as it was, stays as it was */

    if ((len == work->len && memcmp(text, work->text, len) == 0)
        || (work->tagged != NULL && len == work->tagged_len
            && memcmp(text, work->tagged, len) == 0))
    {
        hymt_document_keep(doc, work);
        return HYMT_OK;
    }

    /* HTML's bare "<" and "&" must not meet another letter than theirs */

    if (doc->params.format == HYMT_FORMAT_HTML && work->src > 0
        && (doc->source[work->src - 1] == '<'
            || doc->source[work->src - 1] == '&'))
    {
        hymt_document_keep(doc, work);
        return HYMT_OK;
    }

    memset(&r, 0, sizeof(r));

    r.doc = doc;
    r.work = work;
    r.text = text;
    r.len = (uint32_t) len;

    good = hymt_read_begin(&r) && hymt_read_all(&r) && hymt_read_judged(&r);

    if (good) {
        out = hymt_arena_alloc(&doc->arena, r.n_out);

        if (out != NULL && r.n_out <= UINT32_MAX) {
            memcpy(out, r.out, r.n_out);
            work->part->text = out;
            work->part->len = (uint32_t) r.n_out;
            work->part->work = NULL;

        } else {
            doc->no_memory = true;
        }
    }

    hymt_read_end(&r);

    if (good || doc->no_memory) {
        return HYMT_OK;
    }

    if (work->atom == NULL) {
        return HYMT_DECLINED;
    }

    hymt_answer_fallback(doc, work);

    return HYMT_OK;
}


/*
 * A run cut out of a sentence is no sentence: the full stop models like to put
 * behind it goes again.
 */
static void
hymt_answer_stop(hymt_document_t *doc, const hymt_work_t *work,
    const char *text, size_t *len)
{
    size_t   at;
    int32_t  c;

    (void) doc;

    at = work->len;
    c = hymt_utf8_prev_char(work->text, &at);

    if (!u_isalnum(c)) {
        return;
    }

    at = *len;
    c = hymt_utf8_prev_char(text, &at);

    if ((c == '.' || c == 0x3002) && at > 0 && text[at - 1] != '.') {
        *len = at;
    }
}


static bool
hymt_read_begin(hymt_reading_t *r)
{
    size_t            size;
    uint32_t          i;
    hymt_document_t  *doc;

    doc = r->doc;

    /* the longest a byte can become is "&quot;"; U+00A0 becomes "&nbsp;" */

    size = (size_t) r->len * (doc->params.format == HYMT_FORMAT_TEXT ? 1 : 6)
           + 1;

    for (i = 0; i < r->work->n_atoms; i++) {
        size += r->work->atom[i].src_len;
        r->n_holds += r->work->atom[i].kind == HYMT_ATOM_HOLD;
        r->n_marks = hymt_max(r->n_marks, r->work->atom[i].number);
    }

    if (size > doc->scratch_size) {
        free(doc->scratch);
        doc->scratch = malloc(size);
        doc->scratch_size = doc->scratch != NULL ? size : 0;
    }

    r->out = doc->scratch;

    if (r->out == NULL || (r->n_holds != 0 && !hymt_read_holds(r))
        || (r->n_marks != 0 && !hymt_read_marks(r)))
    {
        doc->no_memory = true;
        return false;
    }

    return true;
}


static bool
hymt_read_holds(hymt_reading_t *r)
{
    uint32_t            i, n, t;
    const hymt_atom_t  *a;

    r->hold = malloc(r->n_holds * sizeof(hymt_hold_t));
    r->next = malloc(r->n_holds * sizeof(uint32_t));
    r->end = malloc(r->n_holds * sizeof(uint32_t));

    if (r->hold == NULL || r->next == NULL || r->end == NULL) {
        return false;
    }

    n = 0;

    for (i = 0; i < r->work->n_atoms; i++) {
        a = &r->work->atom[i];

        if (a->kind == HYMT_ATOM_HOLD) {
            r->hold[n].text = r->work->text + a->at;
            r->hold[n].len = a->len;
            r->hold[n].atom = i;

            if (!hymt_read_line_hold(r, &r->hold[n++])) {
                return false;
            }
        }
    }

    r->n_left = n;

    qsort(r->hold, n, sizeof(hymt_hold_t), hymt_read_hold_order);

    /* terms are in the same order, each once */

    t = 0;

    for (i = 0; i < n; i++) {

        if (i == 0 || r->hold[i].len != r->hold[i - 1].len
            || memcmp(r->hold[i].text, r->hold[i - 1].text, r->hold[i].len)
               != 0)
        {
            if (!hymt_terms_add(&r->terms, r->hold[i].text, r->hold[i].len)) {
                return false;
            }

            r->next[t++] = i;
        }

        r->end[t - 1] = i + 1;
    }

    return hymt_terms_sort(&r->terms);
}


static int
hymt_read_hold_order(const void *a, const void *b)
{
    int                 rc;
    const hymt_hold_t  *x, *y;

    x = a;
    y = b;
    rc = memcmp(x->text, y->text, hymt_min(x->len, y->len));

    if (rc == 0 && x->len != y->len) {
        rc = x->len < y->len ? -1 : 1;
    }

    if (rc == 0) {
        rc = x->atom < y->atom ? -1 : 1;
    }

    return rc;
}


/* line ends with their blanks are looked for as so many LFs */
static bool
hymt_read_line_hold(hymt_reading_t *r, hymt_hold_t *hold)
{
    char      *p;
    uint32_t   n;

    n = hymt_line_ends(hold->text, hold->len);

    if (n == 0) {
        return true;
    }

    p = hymt_arena_alloc(&r->doc->arena, n);

    if (p == NULL) {
        return false;
    }

    memset(p, '\n', n);
    hold->text = p;
    hold->len = n;

    return true;
}


static bool
hymt_read_marks(hymt_reading_t *r)
{
    uint32_t            i, top, texts;
    hymt_mark_t        *mark;
    const hymt_atom_t  *a;

    r->mark = calloc((size_t) r->n_marks + 1, sizeof(hymt_mark_t));

    if (r->mark == NULL) {
        return false;
    }

    top = 0;
    texts = 0;

    for (i = 0; i < r->work->n_atoms; i++) {
        a = &r->work->atom[i];
        mark = &r->mark[a->number];

        switch (a->kind) {

        case HYMT_ATOM_OPEN:
        case HYMT_ATOM_VOID:
            mark->atom = i;
            mark->parent = top;
            mark->inside = texts;
            top = a->kind == HYMT_ATOM_OPEN ? a->number : top;
            r->n_left++;
            break;

        case HYMT_ATOM_CLOSE:
            mark->full = texts != mark->inside;
            top = mark->parent;
            break;

        case HYMT_ATOM_BLANK:
            break;

        default:
            texts++;
        }
    }

    return true;
}


static bool
hymt_read_all(hymt_reading_t *r)
{
    char      kind;
    bool      tags;
    size_t    len;
    uint32_t  at, n, number, term, hold;

    hold = 0;
    tags = r->doc->params.format == HYMT_FORMAT_TEXT;

    for (at = hymt_read_plain(r, 0); at < r->len; at += n) {

        if (r->n_marks != 0) {
            n = hymt_read_tag(r, at, &number, &kind);

            if (n != 0) {
                n = hymt_read_mark(r, at, n, number, kind);

                if (n == 0) {
                    return false;
                }

                continue;
            }
        }

        term = r->terms.n == 0 ? UINT32_MAX
               : hymt_terms_find(&r->terms, r->text, at, r->len, false);

        /* the "%d" of "50%discount" is none that is held elsewhere */

        if (term != UINT32_MAX && r->terms.term[term].len == 2
            && hymt_placeholder_joined(r->text + hold, at - hold,
                                       r->len - hold))
        {
            term = UINT32_MAX;
        }

        if (term != UINT32_MAX) {
            n = r->terms.term[term].len;

            /* the text between two line ends is lost */

            if (r->text[at] == '\n' && at > 0 && r->text[at - 1] == '\n') {
                return false;
            }

            if (!hymt_read_hold(r, term)) {
                return false;
            }

            hold = at + n;
            continue;
        }

        /* one that the source does not have; or a line end too many */

        if (r->text[at] == '\n'
            || (hymt_placeholder_strict(r->text[at])
                && hymt_placeholder(r->text + hold, at - hold, r->len - hold,
                                    tags, &len) == HYMT_PLACEHOLDER_STRICT))
        {
            return false;
        }

        n = 1;

        while (at + n < r->len && (r->text[at + n] & 0xc0) == 0x80) {
            n++;
        }

        hymt_read_char(r, at, n);
        n += hymt_read_plain(r, at + n);
    }

    return r->n_left == 0 && r->top == 0;
}


/*
 * Writes what stands for itself in a plain text that must hold nothing; returns
 * its bytes.
 */
static uint32_t
hymt_read_plain(hymt_reading_t *r, uint32_t at)
{
    uint32_t  n;

    static const hymt_scan_t  odd = {
        6,
        { hymt_lanes('%'), hymt_lanes('{'), hymt_lanes('$'), hymt_lanes('#'),
          hymt_lanes('<'), hymt_lanes('\n') },
        hymt_lanes(0), hymt_lanes(0)
    };

    if (r->doc->params.format != HYMT_FORMAT_TEXT || r->n_marks != 0
        || r->terms.n != 0)
    {
        return 0;
    }

    n = (uint32_t) hymt_scan(&odd, r->text, at, r->len) - at;

    memcpy(r->out + r->n_out, r->text + at, n);
    r->n_out += n;

    return n;
}


static bool
hymt_read_hold(hymt_reading_t *r, uint32_t term)
{
    if (r->next[term] == r->end[term]) {
        return false;
    }

    hymt_read_source(r, r->hold[r->next[term]++].atom);
    r->n_texts++;
    r->n_left--;

    return true;
}


/* what was written has the elements of what it replaces: a parser says so */
static bool
hymt_read_judged(const hymt_reading_t *r)
{
    hymt_document_t    *doc;
    const hymt_work_t  *work;

    doc = r->doc;
    work = r->work;

    if (doc->params.format == HYMT_FORMAT_TEXT || work->raw
        || hymt_markup_judge(doc->params.format, doc->source + work->src,
                             work->src_len, r->out, r->n_out)
           != HYMT_JUDGE_OTHER)
    {
        return true;
    }

    doc->stats.refused++;

    return false;
}


/* <sN> 'o', </sN> 'c', <sN/> 'v' at `at`; returns its bytes, 0: none */
static uint32_t
hymt_read_tag(const hymt_reading_t *r, uint32_t at, uint32_t *number,
    char *kind)
{
    uint32_t     i, len;
    const char  *p;

    p = r->text + at;
    len = r->len - at;

    if (len < 4 || p[0] != '<') {
        return 0;
    }

    i = 1 + (p[1] == '/');

    if (p[i] != 's' || p[i + 1] < '0' || p[i + 1] > '9') {
        return 0;
    }

    *kind = i == 2 ? 'c' : 'o';
    *number = 0;

    for (i++; i < len && p[i] >= '0' && p[i] <= '9'; i++) {
        *number = hymt_min(*number, 100000000) * 10 + (uint32_t) (p[i] - '0');
    }

    while (i < len && p[i] == ' ') {
        i++;
    }

    if (i < len && p[i] == '/' && *kind == 'o') {
        *kind = 'v';
        i++;
    }

    return i < len && p[i] == '>' ? i + 1 : 0;
}


/* writes the tag; returns the bytes read, 0: it may not stand here */
static uint32_t
hymt_read_mark(hymt_reading_t *r, uint32_t at, uint32_t n, uint32_t number,
    char kind)
{
    char                other_kind;
    uint32_t            other, k;
    hymt_mark_t        *mark;
    const hymt_atom_t  *a;

    if (number == 0 || number > r->n_marks) {
        return 0;
    }

    mark = &r->mark[number];
    a = &r->work->atom[mark->atom];

    if (kind == 'c') {

        if (a->kind != HYMT_ATOM_OPEN || !mark->opened || mark->closed
            || r->top != number
            || (mark->full && r->n_texts == mark->inside))
        {
            return 0;
        }

        mark->closed = true;
        r->top = mark->parent;
        r->n_left--;
        hymt_read_source(r, a->pair);

        return n;
    }

    if (mark->opened || mark->parent != r->top) {
        return 0;
    }

    mark->opened = true;
    hymt_read_source(r, mark->atom);

    if (a->kind == HYMT_ATOM_OPEN) {
        mark->inside = r->n_texts;
        r->top = number;

        return kind == 'o' ? n : 0;
    }

    r->n_left--;

    if (kind == 'v') {
        return n;
    }

    while (at + n < r->len && r->text[at + n] == ' ') {
        n++;
    }

    k = at + n < r->len ? hymt_read_tag(r, at + n, &other, &other_kind) : 0;

    return k != 0 && other_kind == 'c' && other == number ? n + k : 0;
}


static void
hymt_read_source(hymt_reading_t *r, uint32_t atom)
{
    const hymt_atom_t  *a;

    a = &r->work->atom[atom];

    memcpy(r->out + r->n_out, r->doc->source + a->src, a->src_len);
    r->n_out += a->src_len;
}


/* n bytes of one code point, as the format writes it */
static void
hymt_read_char(hymt_reading_t *r, uint32_t at, uint32_t n)
{
    const char  *p, *s;

    p = r->text + at;
    s = NULL;

    if (r->doc->params.format != HYMT_FORMAT_TEXT) {

        switch (*p) {
        case '&': s = "&amp;"; break;
        case '<': s = "&lt;"; break;
        case '>': s = "&gt;"; break;
        case '\xc2':
            if (r->doc->nbsp && n == 2 && p[1] == '\xa0') {
                s = "&nbsp;";
            }

            break;
        }
    }

    if (s != NULL) {
        n = (uint32_t) strlen(s);
        p = s;
    }

    memcpy(r->out + r->n_out, p, n);
    r->n_out += n;
    r->n_texts += *p != ' ';
}


static void
hymt_read_end(hymt_reading_t *r)
{
    hymt_terms_free(&r->terms);
    free(r->hold);
    free(r->next);
    free(r->end);
    free(r->mark);
}


/* the runs between tags, else between held strings, become units */
static void
hymt_answer_fallback(hymt_document_t *doc, hymt_work_t *work)
{
    hymt_emit_t   emit;
    hymt_part_t  *first, *part;

    doc->stats.fallbacks++;

    first = NULL;
    part = work->part;
    emit.last = &first;
    emit.src = work->src;

    doc->insert = &doc->queue;
    doc->latest = work->before;
    doc->raw = work->raw;

    hymt_document_split(doc, work->text, work->atom, 0, work->n_atoms,
                        work->tagged != NULL, &emit);
    hymt_emit_upto(doc, &emit, work->src + work->src_len);

    doc->insert = NULL;

    *emit.last = part->next;
    part->next = first;
    part->work = NULL;
    part->text = NULL;
    part->len = 0;
}


bool
hymt_work_lines(const hymt_work_t *work)
{
    uint32_t  i;

    for (i = 0; i < work->n_atoms; i++) {
        if (work->atom[i].kind == HYMT_ATOM_HOLD
            && hymt_line_ends(work->text + work->atom[i].at,
                              work->atom[i].len) != 0)
        {
            return true;
        }
    }

    return false;
}


static uint32_t
hymt_line_ends(const char *text, uint32_t len)
{
    size_t    n, eol;
    uint32_t  ends;

    ends = 0;

    for ( ;; ) {
        n = hymt_line(text, len, &eol);

        if (eol == 0) {
            return ends;
        }

        ends++;
        text += n + eol;
        len -= (uint32_t) (n + eol);
    }
}
