/*
 * glossary_entries.c - glossary.h: entries from TSV and CSV, and as TSV.
 */

#include "arena.h"
#include "glossary_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


#define HYMT_GLOSSARY_COLUMNS  4


/* One field of a line: in the text, or unquoted in the parser's buffer. */
typedef struct {
    const char  *text;
    size_t       len;
} hymt_glossary_field_t;


typedef struct {
    hymt_glossary_format_t   format;
    hymt_glossary_limits_t   limits;
    const char              *text;
    size_t                   len;
    size_t                   at;
    uint32_t                 line;     /* of the record, from 1 */
    uint32_t                 next;     /* of what is at `at` */
    char                    *terms;    /* g's, [2 * len + 2] */
    size_t                   used;
    uint32_t                 room;     /* entries allocated */
    uint32_t                *lines;    /* owned, of each entry */
    hymt_glossary_field_t    field[HYMT_GLOSSARY_COLUMNS];
    uint32_t                 n_fields;
    hymt_glossary_t         *g;
    hymt_error_t            *err;
} hymt_glossary_parser_t;


static hymt_status_t hymt_glossary_parse_all(hymt_glossary_parser_t *ps);
static void hymt_glossary_skip_empty(hymt_glossary_parser_t *ps);
static hymt_status_t hymt_glossary_tsv_line(hymt_glossary_parser_t *ps);
static hymt_status_t hymt_glossary_csv_line(hymt_glossary_parser_t *ps);
static hymt_status_t hymt_glossary_csv_quoted(hymt_glossary_parser_t *ps);
static void hymt_glossary_csv_plain(hymt_glossary_parser_t *ps);
static bool hymt_glossary_at_end(const hymt_glossary_parser_t *ps);
static hymt_status_t hymt_glossary_entry(hymt_glossary_parser_t *ps);
static hymt_status_t hymt_glossary_term(hymt_glossary_parser_t *ps,
    uint32_t column, const char *what, const char **term, uint32_t *len);
static hymt_status_t hymt_glossary_lang(hymt_glossary_parser_t *ps,
    uint32_t column, const char *what, int want);
static hymt_status_t hymt_glossary_grow(hymt_glossary_parser_t *ps);
static hymt_status_t hymt_glossary_index(hymt_glossary_parser_t *ps);
static hymt_status_t hymt_glossary_fault(hymt_glossary_parser_t *ps,
    const char *what);


hymt_glossary_limits_t
hymt_glossary_limits(const hymt_glossary_limits_t *limits)
{
    hymt_glossary_limits_t  l;

    memset(&l, 0, sizeof(l));

    if (limits != NULL) {
        l = *limits;
    }

    l.count = l.count == 0 ? 1000 : l.count;
    l.entries = l.entries == 0 ? 10000 : l.entries;
    l.term_bytes = l.term_bytes == 0 ? 1024 : l.term_bytes;
    l.bytes = l.bytes == 0 ? 1024 * 1024 : l.bytes;
    l.cache_bytes = l.cache_bytes == 0 ? 16 * 1024 * 1024 : l.cache_bytes;

    return l;
}


hymt_status_t
hymt_glossary_parse(const char *text, size_t len,
    hymt_glossary_format_t format, int src, int tgt,
    const hymt_glossary_limits_t *limits, hymt_glossary_t **g,
    hymt_error_t *err)
{
    hymt_status_t           rc;
    hymt_glossary_parser_t  ps;

    ps = (hymt_glossary_parser_t) {
        .format = format,
        .limits = hymt_glossary_limits(limits),
        .text = text,
        .len = len,
        .next = 1,
        .err = err,
    };

    if (len > ps.limits.bytes) {
        (void) hymt_fail(err, "entries: %zu bytes, %" PRIu64 " are allowed",
                         len, ps.limits.bytes);
        return HYMT_TOO_LONG;
    }

    ps.g = calloc(1, sizeof(hymt_glossary_t));
    if (ps.g == NULL) {
        return hymt_fail(err, "entries: no memory");
    }

    atomic_init(&ps.g->refs, 1);
    ps.g->info.src = src;
    ps.g->info.tgt = tgt;

    rc = hymt_glossary_parse_all(&ps);

    free(ps.lines);

    if (rc != HYMT_OK) {
        hymt_glossary_unref(ps.g);
        return rc;
    }

    *g = ps.g;

    return HYMT_OK;
}


static hymt_status_t
hymt_glossary_parse_all(hymt_glossary_parser_t *ps)
{
    size_t         bad;
    hymt_status_t  rc;

    if (!hymt_utf8_check(ps->text, ps->len, &bad)) {
        (void) hymt_fail(ps->err, "entries: not UTF-8 at byte %zu", bad);
        return HYMT_DECLINED;
    }

    /*
     * Each term is followed by a separator or the end, where its copy has a
     * zero; a quoted one is there a second time, without its quotes.
     */

    ps->g->terms = malloc(2 * ps->len + 2);
    ps->terms = ps->g->terms;

    if (ps->terms == NULL) {
        return hymt_fail(ps->err, "entries: no memory for %zu bytes", ps->len);
    }

    if (ps->len >= 3 && memcmp(ps->text, "\xef\xbb\xbf", 3) == 0) {
        ps->at = 3;
    }

    for ( ;; ) {
        hymt_glossary_skip_empty(ps);

        if (ps->at == ps->len) {
            break;
        }

        ps->line = ps->next;
        ps->n_fields = 0;

        rc = ps->format == HYMT_GLOSSARY_CSV ? hymt_glossary_csv_line(ps)
                                             : hymt_glossary_tsv_line(ps);

        if (rc == HYMT_OK) {
            rc = hymt_glossary_entry(ps);
        }

        if (rc != HYMT_OK) {
            return rc;
        }
    }

    if (ps->g->info.n == 0) {
        (void) hymt_fail(ps->err, "entries: there is none; a line has a source"
                         " term, a %s and a target term",
                         ps->format == HYMT_GLOSSARY_CSV ? "comma" : "tab");
        return HYMT_DECLINED;
    }

    return hymt_glossary_index(ps);
}


static void
hymt_glossary_skip_empty(hymt_glossary_parser_t *ps)
{
    while (ps->at < ps->len) {
        if (ps->text[ps->at] == '\n') {
            ps->next++;
            ps->at++;

        } else if (ps->text[ps->at] == '\r' && ps->at + 1 < ps->len
                   && ps->text[ps->at + 1] == '\n')
        {
            ps->next++;
            ps->at += 2;

        } else {
            break;
        }
    }
}


static hymt_status_t
hymt_glossary_tsv_line(hymt_glossary_parser_t *ps)
{
    size_t       n;
    const char  *line, *end, *tab;

    line = ps->text + ps->at;
    end = memchr(line, '\n', ps->len - ps->at);
    end = end == NULL ? ps->text + ps->len : end;

    ps->at = (size_t) (end - ps->text);

    if (end > line && end[-1] == '\r') {
        end--;
    }

    for ( ;; ) {
        tab = memchr(line, '\t', (size_t) (end - line));
        n = (size_t) ((tab == NULL ? end : tab) - line);

        if (ps->n_fields == 2) {
            return hymt_glossary_fault(ps, "more than one tab");
        }

        ps->field[ps->n_fields++] = (hymt_glossary_field_t) { line, n };

        if (tab == NULL) {
            return ps->n_fields == 2 ? HYMT_OK
                   : hymt_glossary_fault(ps, "no tab between source and"
                                         " target term");
        }

        line = tab + 1;
    }
}


static hymt_status_t
hymt_glossary_csv_line(hymt_glossary_parser_t *ps)
{
    hymt_status_t  rc;

    for ( ;; ) {
        if (ps->n_fields == HYMT_GLOSSARY_COLUMNS) {
            return hymt_glossary_fault(ps, "more than four columns");
        }

        if (ps->at < ps->len && ps->text[ps->at] == '"') {
            rc = hymt_glossary_csv_quoted(ps);
            if (rc != HYMT_OK) {
                return rc;
            }

        } else {
            hymt_glossary_csv_plain(ps);
        }

        if (hymt_glossary_at_end(ps)) {
            break;
        }

        if (ps->text[ps->at] != ',') {
            return hymt_glossary_fault(ps, "text after a closing quote");
        }

        ps->at++;
    }

    if (ps->n_fields == 2 || ps->n_fields == 4) {
        return HYMT_OK;
    }

    return hymt_glossary_fault(ps, "not two columns (source, target), nor four"
                               " (with both languages)");
}


/* unquotes into the terms' memory */
static hymt_status_t
hymt_glossary_csv_quoted(hymt_glossary_parser_t *ps)
{
    char    c;
    char   *to;
    size_t  from;

    from = ps->used;
    to = ps->terms + from;

    for (ps->at++; ps->at < ps->len; ps->at++) {
        c = ps->text[ps->at];

        if (c == '"') {
            if (ps->at + 1 == ps->len || ps->text[ps->at + 1] != '"') {
                break;
            }

            ps->at++;
        }

        if (c == '\n') {
            return hymt_glossary_fault(ps, "a line break in quotes, or no"
                                       " closing quote");
        }

        *to++ = c;
    }

    if (ps->at == ps->len) {
        return hymt_glossary_fault(ps, "no closing quote");
    }

    ps->at++;
    ps->field[ps->n_fields++] = (hymt_glossary_field_t) {
        ps->terms + from, (size_t) (to - ps->terms) - from
    };
    ps->used = (size_t) (to - ps->terms);

    return HYMT_OK;
}


static void
hymt_glossary_csv_plain(hymt_glossary_parser_t *ps)
{
    size_t  from;

    from = ps->at;

    while (!hymt_glossary_at_end(ps) && ps->text[ps->at] != ',') {
        ps->at++;
    }

    ps->field[ps->n_fields++] = (hymt_glossary_field_t) {
        ps->text + from, ps->at - from
    };
}


static bool
hymt_glossary_at_end(const hymt_glossary_parser_t *ps)
{
    return ps->at == ps->len || ps->text[ps->at] == '\n'
           || (ps->text[ps->at] == '\r' && ps->at + 1 < ps->len
               && ps->text[ps->at + 1] == '\n');
}


/* one more entry from the fields of a line */
static hymt_status_t
hymt_glossary_entry(hymt_glossary_parser_t *ps)
{
    hymt_status_t          rc;
    hymt_glossary_entry_t  e;

    if (ps->g->info.n == ps->limits.entries) {
        (void) hymt_fail(ps->err, "entries: line %" PRIu32 ": more than %"
                         PRIu32 " entries", ps->line, ps->limits.entries);
        return HYMT_TOO_LONG;
    }

    if ((rc = hymt_glossary_term(ps, 0, "source", &e.src, &e.src_len))
        || (rc = hymt_glossary_term(ps, 1, "target", &e.tgt, &e.tgt_len))
        || (rc = hymt_glossary_lang(ps, 2, "source", ps->g->info.src))
        || (rc = hymt_glossary_lang(ps, 3, "target", ps->g->info.tgt))
        || (rc = hymt_glossary_grow(ps)))
    {
        return rc;
    }

    ps->lines[ps->g->info.n] = ps->line;
    ps->g->entries[ps->g->info.n++] = e;

    return HYMT_OK;
}


static hymt_status_t
hymt_glossary_term(hymt_glossary_parser_t *ps, uint32_t column,
    const char *what, const char **term, uint32_t *len)
{
    char                   *to;
    hymt_glossary_field_t   f;

    f = ps->field[column];

    while (f.len > 0 && f.text[0] == ' ') {
        f.text++;
        f.len--;
    }

    while (f.len > 0 && f.text[f.len - 1] == ' ') {
        f.len--;
    }

    if (f.len == 0) {
        (void) hymt_fail(ps->err, "entries: line %" PRIu32 ": the %s term is"
                         " empty", ps->line, what);
        return HYMT_DECLINED;
    }

    if (f.len > ps->limits.term_bytes) {
        (void) hymt_fail(ps->err, "entries: line %" PRIu32 ": the %s term has"
                         " %zu bytes, %" PRIu32 " are allowed", ps->line, what,
                         f.len, ps->limits.term_bytes);
        return HYMT_TOO_LONG;
    }

    if (!hymt_glossary_printable(f.text, f.len)) {
        (void) hymt_fail(ps->err, "entries: line %" PRIu32 ": the %s term has"
                         " a control character", ps->line, what);
        return HYMT_DECLINED;
    }

    to = ps->terms + ps->used;
    memcpy(to, f.text, f.len);
    to[f.len] = '\0';

    ps->used += f.len + 1;
    *term = to;
    *len = (uint32_t) f.len;

    return HYMT_OK;
}


/* an optional column; an empty one says nothing */
static hymt_status_t
hymt_glossary_lang(hymt_glossary_parser_t *ps, uint32_t column,
    const char *what, int want)
{
    int                           lang;
    const hymt_glossary_field_t  *f;

    f = &ps->field[column];

    if (column >= ps->n_fields || f->len == 0) {
        return HYMT_OK;
    }

    lang = hymt_lang_find(f->text, f->len);

    if (lang != HYMT_LANG_NONE && lang == want) {
        return HYMT_OK;
    }

    (void) hymt_fail(ps->err, "entries: line %" PRIu32 ": the %s language is"
                     " not the glossary's (%s)", ps->line, what,
                     want < 0 ? "none" : hymt_langs[want].code);

    return HYMT_DECLINED;
}


bool
hymt_glossary_printable(const char *text, size_t len)
{
    size_t                i;
    const unsigned char  *p;

    p = (const unsigned char *) text;

    for (i = 0; i < len; i++) {

        if (p[i] < 0x20 || p[i] == 0x7f
            || (p[i] == 0xc2 && i + 1 < len && p[i + 1] < 0xa0)
            || (p[i] == 0xe2 && i + 2 < len && p[i + 1] == 0x80
                && (p[i + 2] == 0xa8 || p[i + 2] == 0xa9))
            || (p[i] == 0xef && i + 2 < len && p[i + 1] == 0xbb
                && p[i + 2] == 0xbf))
        {
            return false;
        }
    }

    return true;
}


static hymt_status_t
hymt_glossary_grow(hymt_glossary_parser_t *ps)
{
    uint32_t  n, room;

    n = ps->g->info.n;
    room = ps->room;

    if (!hymt_grow(&ps->g->entries, n, &room, sizeof(hymt_glossary_entry_t))
        || !hymt_grow(&ps->lines, n, &ps->room, sizeof(uint32_t)))
    {
        return hymt_fail(ps->err, "entries: no memory for more than %" PRIu32,
                         n);
    }

    return HYMT_OK;
}


/* sorts for the search, which shows what is there twice */
static hymt_status_t
hymt_glossary_index(hymt_glossary_parser_t *ps)
{
    uint32_t              i;
    hymt_glossary_t      *g;
    hymt_glossary_key_t  *a, *b;

    g = ps->g;

    g->exact = malloc(g->info.n * sizeof(hymt_glossary_key_t));
    if (g->exact == NULL) {
        return hymt_fail(ps->err, "entries: no memory for %" PRIu32 " entries",
                         g->info.n);
    }

    for (i = 0; i < g->info.n; i++) {
        g->exact[i] = (hymt_glossary_key_t) {
            g->entries[i].src, g->entries[i].src_len, i
        };
    }

    hymt_glossary_sort(g->exact, g->info.n);

    for (i = 1; i < g->info.n; i++) {
        a = &g->exact[i - 1];
        b = &g->exact[i];

        if (a->len == b->len && memcmp(a->text, b->text, a->len) == 0) {
            (void) hymt_fail(ps->err, "entries: line %" PRIu32 ": the source"
                             " term is already in line %" PRIu32,
                             ps->lines[b->entry], ps->lines[a->entry]);
            return HYMT_DECLINED;
        }
    }

    g->bytes = sizeof(hymt_glossary_t) + 2 * (uint64_t) ps->len
               + (uint64_t) ps->room * sizeof(hymt_glossary_entry_t)
               + (uint64_t) g->info.n * 2 * sizeof(hymt_glossary_key_t);

    return hymt_glossary_lower(g, ps->err);
}


static hymt_status_t
hymt_glossary_fault(hymt_glossary_parser_t *ps, const char *what)
{
    (void) hymt_fail(ps->err, "entries: line %" PRIu32 ": %s", ps->line, what);

    return HYMT_DECLINED;
}


const hymt_glossary_entry_t *
hymt_glossary_entries(const hymt_glossary_t *g, uint32_t *n)
{
    *n = g->info.n;

    return g->entries;
}


const hymt_glossary_info_t *
hymt_glossary_info(const hymt_glossary_t *g)
{
    return &g->info;
}


hymt_status_t
hymt_glossary_tsv(const hymt_glossary_t *g, char **text, size_t *len,
    hymt_error_t *err)
{
    char      *p;
    size_t     size;
    uint32_t   i;

    size = 0;

    for (i = 0; i < g->info.n; i++) {
        size += (size_t) g->entries[i].src_len + g->entries[i].tgt_len + 2;
    }

    p = malloc(size + 1);
    if (p == NULL) {
        return hymt_fail(err, "entries: no memory for %zu bytes", size);
    }

    *text = p;
    *len = size;

    for (i = 0; i < g->info.n; i++) {
        memcpy(p, g->entries[i].src, g->entries[i].src_len);
        p += g->entries[i].src_len;
        *p++ = '\t';
        memcpy(p, g->entries[i].tgt, g->entries[i].tgt_len);
        p += g->entries[i].tgt_len;
        *p++ = '\n';
    }

    *p = '\0';

    return HYMT_OK;
}


void
hymt_glossary_unref(hymt_glossary_t *g)
{
    if (g == NULL || atomic_fetch_sub(&g->refs, 1) != 1) {
        return;
    }

    free(g->entries);
    free(g->exact);
    free(g->lower);
    free(g->terms);
    free(g->lowered);
    free(g);
}
