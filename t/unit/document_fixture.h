/*
 * document_fixture.h - a document from text to output, with a translator that
 * is no model.
 */

#ifndef HYMT_DOCUMENT_FIXTURE_H
#define HYMT_DOCUMENT_FIXTURE_H

#include "document.h"
#include "segment.h"
#include "tap.h"


/* Writes a translation of the unit to out [cap]; returns its bytes. */
typedef size_t (*translator_pt)(const hymt_unit_t *unit, char *out, size_t cap,
    void *data);


typedef struct {
    hymt_document_stats_t  stats;
    bool                   plain;
    char                   units[4096];   /* as sent, "|" behind each; cut */
} trace_t;


static int
lang(const char *code)
{
    return hymt_lang_find(code, strlen(code));
}


__attribute__((unused))
static hymt_document_params_t
params(hymt_format_t format, const char *src, const char *tgt)
{
    hymt_document_params_t  p;

    memset(&p, 0, sizeof(p));

    p.format = format;
    p.src = lang(src);
    p.tgt = lang(tgt);

    return p;
}


/*
 * The output, malloc'ed, with *out_len; NULL: refused, and err says why.  The
 * text is handed over in memory of its own size, and what ready() gave is
 * checked to stay.
 */
static char *
translate(const char *text, size_t len, const hymt_document_params_t *p,
    translator_pt translator, void *data, size_t *out_len, trace_t *trace,
    hymt_error_t *err)
{
    char             *copy, *answer, *out, *seen;
    size_t            n, n_seen, cap, seen_cap, n_units;
    uint32_t          rounds;
    const char       *s;
    hymt_unit_t       unit;
    hymt_status_t     rc;
    hymt_document_t  *doc;

    err->text[0] = '\0';
    copy = malloc(len + (len == 0));
    memcpy(copy, text, len);
    rc = hymt_document_create(copy, len, p, &doc, err);
    free(copy);

    if (rc != HYMT_OK) {
        return NULL;
    }

    memset(trace, 0, sizeof(*trace));
    trace->plain = hymt_document_plain(doc);
    seen = NULL;
    n_seen = 0;
    seen_cap = 0;
    n_units = 0;

    for (rounds = 0; hymt_document_next(doc, &unit) == HYMT_OK; rounds++) {

        if (rounds % 7 == 3) {
            hymt_document_return(doc, unit.id);
            continue;
        }

        if (n_units + unit.len + 2 < sizeof(trace->units)) {
            memcpy(trace->units + n_units, unit.text, unit.len);
            n_units += unit.len;
            trace->units[n_units++] = '|';
        }

        cap = unit.len * 4 + 8192;
        answer = malloc(cap);
        n = translator(&unit, answer, cap, data);
        hymt_document_result(doc, unit.id, answer, n, false);
        free(answer);

        if (hymt_document_ready(doc, n_seen, &s, &n) != HYMT_OK) {
            printf("Bail out! ready()\n");
            exit(1);
        }

        if (n_seen + n >= seen_cap) {
            seen_cap = (n_seen + n) * 2 + 64;
            seen = realloc(seen, seen_cap);
        }

        memcpy(seen + n_seen, s, n);
        n_seen += n;
    }

    if (hymt_document_output(doc, &s, out_len) != HYMT_OK
        || n_seen > *out_len || (n_seen != 0 && memcmp(seen, s, n_seen) != 0))
    {
        printf("Bail out! output() is not what ready() began\n");
        exit(1);
    }

    out = malloc(*out_len + 1);
    memcpy(out, s, *out_len);
    out[*out_len] = '\0';

    trace->stats = *hymt_document_stats(doc);
    free(seen);
    hymt_document_free(doc);

    return out;
}


/*
 * One plain unit's answer as it comes, a byte after the other: what would have
 * been sent, malloc'ed, with *n_sent; it is in front of the output, *out and
 * *out_len, or *out is NULL.
 */
__attribute__((unused))
static char *
stream(const char *text, const hymt_document_params_t *p, const char *answer,
    size_t len, size_t *n_sent, char **out, size_t *out_len)
{
    char             *copy, *sent;
    size_t            i, n, head, from, to;
    const char       *s;
    hymt_unit_t       unit;
    hymt_error_t      e;
    hymt_document_t  *doc;

    *out = NULL;
    *n_sent = 0;

    if (hymt_document_create(text, strlen(text), p, &doc, &e) != HYMT_OK
        || !hymt_document_plain(doc)
        || hymt_document_ready(doc, 0, &s, &head) != HYMT_OK)
    {
        printf("Bail out! not one plain unit\n");
        exit(1);
    }

    sent = malloc(len + 1);

    for (i = 1; i <= len; i++) {

        if (i < len && (answer[i] & 0xc0) == 0x80) {
            continue;
        }

        copy = malloc(i);
        memcpy(copy, answer, i);
        from = hymt_blank_before(copy, i) + *n_sent;

        if (from < i) {
            to = hymt_document_final(copy, i, from);
            memcpy(sent + *n_sent, copy + from, to - from);
            *n_sent += to - from;
        }

        free(copy);
    }

    while (hymt_document_next(doc, &unit) == HYMT_OK) {
        hymt_document_result(doc, unit.id, answer, len, false);
    }

    if (hymt_document_output(doc, &s, &n) == HYMT_OK
        && (*n_sent == 0 || (n >= head + *n_sent
                             && memcmp(s + head, sent, *n_sent) == 0)))
    {
        *out = strndup(s, n);
        *out_len = n;
    }

    hymt_document_free(doc);
    sent[*n_sent] = '\0';

    return sent;
}


/* ---- translators ---- */


static size_t
identity(const hymt_unit_t *unit, char *out, size_t cap, void *data)
{
    (void) cap;
    (void) data;

    memcpy(out, unit->text, unit->len);

    return unit->len;
}


/* ASCII letters, but none of a tag or placeholder */
__attribute__((unused))
static size_t
upper(const hymt_unit_t *unit, char *out, size_t cap, void *data)
{
    char    until;
    size_t  i;

    (void) cap;
    (void) data;

    until = '\0';

    for (i = 0; i < unit->len; i++) {
        out[i] = unit->text[i];

        if (until == '\0') {

            if (out[i] == '<' || out[i] == '{') {
                until = out[i] == '<' ? '>' : '}';

            } else if (out[i] == '&' || (out[i] == '%' && i + 1 < unit->len
                                         && unit->text[i + 1] == 's'))
            {
                until = out[i] == '%' ? 's' : ';';

            } else if (out[i] >= 'a' && out[i] <= 'z') {
                out[i] = (char) (out[i] - 0x20);
            }

        } else if (out[i] == until) {
            until = '\0';
        }
    }

    return unit->len;
}


/* always the same text */
__attribute__((unused))
static size_t
constant(const hymt_unit_t *unit, char *out, size_t cap, void *data)
{
    (void) unit;

    return (size_t) snprintf(out, cap, "%s", (char *) data);
}


#endif /* HYMT_DOCUMENT_FIXTURE_H */
