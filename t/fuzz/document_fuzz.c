/*
 * document_fuzz.c - libFuzzer on texts, pages and what a model says of them.
 *
 *     CC=clang make BUILD=build-fuzz fuzz
 *     build-fuzz/bin/document_fuzz -max_total_time=300 \
 *         -dict=t/fuzz/document.dict CORPUS
 *
 * Four bytes choose format, split, languages, unit size; up to a NUL comes the
 * text, behind it what answers are made of: each unit takes the next 16 bytes,
 * the first of which says how.  Whatever they say, the output has the tags of
 * the text; XML stays well-formed; lines of text stay as many.  Where every
 * unit comes back as it is (odd fourth byte), so does the text.
 */

#include "document.h"
#include "markup.h"
#include "segment.h"

#include <stdlib.h>
#include <string.h>


#define FUZZ_MAX_ANSWER  65536
#define FUZZ_SLICE       16


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


typedef struct {
    const char  *text;
    uint32_t     len;
} piece_t;


static char  answer[FUZZ_MAX_ANSWER];


static size_t
make_answer(const hymt_unit_t *unit, const uint8_t *slice, size_t n)
{
    size_t  len, at;

    len = unit->len < FUZZ_MAX_ANSWER / 4 ? unit->len : FUZZ_MAX_ANSWER / 4;

    memcpy(answer, unit->text, len);

    if (n == 0) {
        return len;
    }

    switch (slice[0] % 6) {

    case 0:                                         /* as it is */
        return len;

    case 1:                                         /* twice */
        memcpy(answer + len, unit->text, len);
        return len * 2;

    case 2:                                         /* the slice */
        memcpy(answer, slice + 1, n - 1);
        return n - 1;

    case 3:                                         /* the slice inside */
        at = n > 1 && len != 0 ? slice[1] % len : 0;
        memmove(answer + at + n - 1, answer + at, len - at);
        memcpy(answer + at, slice + 1, n - 1);
        return len + n - 1;

    case 4:                                         /* halves swapped */
        at = n > 1 && len != 0 ? slice[1] % len : 0;
        memcpy(answer, unit->text + at, len - at);
        memcpy(answer + len - at, unit->text, at);
        return len;

    default:                                        /* nothing */
        return 0;
    }
}


static int
by_bytes(const void *a, const void *b)
{
    int             rc;
    const piece_t  *x, *y;

    x = a;
    y = b;
    rc = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);

    return rc != 0 ? rc : x->len < y->len ? -1 : x->len > y->len;
}


/* the spans that are no text, sorted; they point into text */
static piece_t *
tags_of(const char *text, size_t len, const hymt_document_params_t *p,
    uint32_t *n)
{
    piece_t        *tag;
    uint32_t        i;
    hymt_error_t    err;
    hymt_markup_t   m;
    hymt_status_t   rc;

    memset(&m, 0, sizeof(m));
    *n = 0;

    rc = p->format == HYMT_FORMAT_HTML
         ? hymt_markup_html(text, len, p, &m, &err)
         : hymt_markup_xml(text, len, p, &m, &err);

    if (rc != HYMT_OK) {
        hymt_markup_free(&m);
        return NULL;
    }

    tag = calloc(m.n + 1, sizeof(piece_t));

    for (i = 0; i < m.n; i++) {
        if (m.span[i].kind != HYMT_SPAN_TEXT) {
            tag[*n].text = text + m.span[i].at;
            tag[(*n)++].len = m.span[i].len;
        }
    }

    hymt_markup_free(&m);
    qsort(tag, *n, sizeof(piece_t), by_bytes);

    return tag;
}


static size_t
count_lines(const char *text, size_t len)
{
    size_t  n, k, eol;

    for (n = 0; ; n++) {
        k = hymt_line(text, len, &eol);

        if (eol == 0) {
            return n;
        }

        text += k + eol;
        len -= k + eol;
    }
}


/* no character that is not given back: controls, lines ends but CR and LF */
static bool
tame(const char *text, size_t len)
{
    size_t         i;
    unsigned char  c;

    for (i = 0; i < len; i++) {
        c = (unsigned char) text[i];

        if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f
            || (c == 0xc2 && (unsigned char) text[i + 1] < 0xa0)
            || (c == 0xe2 && (unsigned char) text[i + 1] == 0x80)
            || c == 0xef || c >= 0xf0)
        {
            return false;
        }
    }

    return true;
}


static void
check(const char *text, size_t len, const char *out, size_t out_len,
    const hymt_document_params_t *p)
{
    uint32_t   i, n, n_out;
    piece_t   *had, *has;

    if (p->format == HYMT_FORMAT_TEXT) {

        if (count_lines(text, len) != count_lines(out, out_len)) {
            abort();
        }

        return;
    }

    had = tags_of(text, len, p, &n);
    has = tags_of(out, out_len, p, &n_out);

    if (had == NULL || has == NULL || n != n_out) {
        abort();
    }

    for (i = 0; i < n; i++) {
        if (by_bytes(&had[i], &has[i]) != 0) {
            abort();
        }
    }

    free(had);
    free(has);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool                     same;
    char                    *text;
    size_t                   len, n, out_len, n_answer;
    const char              *out;
    hymt_unit_t              unit;
    hymt_error_t             err;
    const uint8_t           *nul, *answers;
    hymt_document_t         *doc;
    hymt_document_params_t   p;
    static const char       *terms[] = { "Acme", "a", "<b>" };

    if (size < 4) {
        return 0;
    }

    memset(&p, 0, sizeof(p));

    p.format = data[0] % 3;
    p.split = data[0] / 3 % 4;
    p.tags_by_model = (data[0] & 0x40) != 0;
    p.neighbours = (data[0] & 0x80) != 0;
    p.src = data[1] % (HYMT_N_LANGS + 1) - 1;
    p.tgt = data[2] % HYMT_N_LANGS;
    p.unit_bytes = data[3] / 2;

    if (data[1] & 0x80) {
        p.keep.item = terms;
        p.keep.n = 3;
    }

    same = data[3] % 2;
    p.tgt = same ? p.src : p.tgt;

    data += 4;
    size -= 4;

    nul = memchr(data, '\0', size);
    len = nul != NULL ? (size_t) (nul - data) : size;
    answers = data + len + (nul != NULL);
    n_answer = size - len - (nul != NULL);

    if (!hymt_utf8_check((const char *) data, len, NULL)) {
        return 0;
    }

    text = malloc(len + 1);
    memcpy(text, data, len);
    text[len] = '\0';
    err.text[0] = '\0';

    if (hymt_document_create(text, len, &p, &doc, &err) != HYMT_OK) {

        if (err.text[0] == '\0' || p.format != HYMT_FORMAT_XML) {
            abort();
        }

        free(text);
        return 0;
    }

    while (hymt_document_next(doc, &unit) == HYMT_OK) {

        if (same) {
            hymt_document_result(doc, unit.id, unit.text, unit.len, false);
            continue;
        }

        n = n_answer < FUZZ_SLICE ? n_answer : FUZZ_SLICE;
        out_len = make_answer(&unit, answers, n);
        answers += n;
        n_answer -= n;

        hymt_document_result(doc, unit.id, answer, out_len, n % 2);
        hymt_document_ready(doc, 0, &out, &out_len);
    }

    if (hymt_document_output(doc, &out, &out_len) != HYMT_OK) {
        abort();
    }

    check(text, len, out, out_len, &p);

    if (same && tame(text, len)
        && (out_len != len || memcmp(out, text, len) != 0))
    {
        abort();
    }

    hymt_document_free(doc);
    free(text);

    return 0;
}
