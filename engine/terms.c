/*
 * terms.c - strings found in a text, longest first; see placeholder.h.
 */

#include "arena.h"
#include "placeholder.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

#include <unicode/uchar.h>


static int hymt_terms_compare(const void *a, const void *b);
static uint32_t hymt_terms_bound(const hymt_terms_t *terms, uint32_t lo,
    uint32_t hi, uint32_t k, int byte);
static bool hymt_terms_joined(const char *text, size_t at, size_t len);


bool
hymt_terms_add(hymt_terms_t *terms, const char *text, size_t len)
{
    if (len == 0 || len > UINT32_MAX) {
        return true;
    }

    if (!hymt_grow(&terms->term, terms->n, &terms->capacity,
                   sizeof(hymt_term_t)))
    {
        return false;
    }

    terms->term[terms->n].text = text;
    terms->term[terms->n++].len = (uint32_t) len;

    return true;
}


bool
hymt_terms_sort(hymt_terms_t *terms)
{
    uint32_t  i, n, byte;

    if (terms->n == 0) {
        return true;
    }

    terms->first = malloc(257 * sizeof(uint32_t));

    if (terms->first == NULL) {
        return false;
    }

    qsort(terms->term, terms->n, sizeof(hymt_term_t), hymt_terms_compare);

    for (i = 1, n = 1; i < terms->n; i++) {
        if (hymt_terms_compare(&terms->term[i], &terms->term[n - 1]) != 0) {
            terms->term[n++] = terms->term[i];
        }
    }

    terms->n = n;
    byte = 0;

    for (i = 0; i < n; i++) {
        while (byte <= (unsigned char) terms->term[i].text[0]) {
            terms->first[byte++] = i;
        }
    }

    while (byte <= 256) {
        terms->first[byte++] = n;
    }

    return true;
}


static int
hymt_terms_compare(const void *a, const void *b)
{
    int                 rc;
    const hymt_term_t  *x, *y;

    x = a;
    y = b;
    rc = memcmp(x->text, y->text, hymt_min(x->len, y->len));

    if (rc != 0) {
        return rc;
    }

    return x->len < y->len ? -1 : x->len > y->len;
}


uint32_t
hymt_terms_find(const hymt_terms_t *terms, const char *text, size_t at,
    size_t len, bool whole_words)
{
    int       byte;
    uint32_t  lo, hi, k, found;

    if (terms->n == 0) {
        return UINT32_MAX;
    }

    byte = (unsigned char) text[at];
    lo = terms->first[byte];
    hi = terms->first[byte + 1];

    if (lo == hi || hymt_terms_joined(text, at, len)) {
        return UINT32_MAX;
    }

    found = UINT32_MAX;

    /* terms [lo, hi) begin with the k bytes at `at`, the shortest first */

    for (k = 1; lo < hi; k++) {

        if (terms->term[lo].len == k) {

            if (!whole_words || !hymt_terms_joined(text, at + k, len)) {
                found = lo;
            }

            lo++;
        }

        if (at + k >= len) {
            break;
        }

        byte = (unsigned char) text[at + k];
        lo = hymt_terms_bound(terms, lo, hi, k, byte);
        hi = hymt_terms_bound(terms, lo, hi, k, byte + 1);
    }

    return found;
}


/* the first of the terms [lo, hi) whose byte k is not below */
static uint32_t
hymt_terms_bound(const hymt_terms_t *terms, uint32_t lo, uint32_t hi,
    uint32_t k, int byte)
{
    uint32_t  mid;

    while (lo < hi) {
        mid = lo + (hi - lo) / 2;

        if ((unsigned char) terms->term[mid].text[k] < byte) {
            lo = mid + 1;

        } else {
            hi = mid;
        }
    }

    return lo;
}


/* whether a word goes on from before `at` to behind it */
static bool
hymt_terms_joined(const char *text, size_t at, size_t len)
{
    size_t   before;
    int32_t  a, b;

    if (at == 0 || at >= len) {
        return false;
    }

    before = at;
    a = hymt_utf8_prev_char(text, &before);
    b = hymt_utf8_char_at(text, at, len);

    return a >= 0 && b >= 0 && u_isalnum(a) && u_isalnum(b)
           && !hymt_char_unspaced(a) && !hymt_char_unspaced(b);
}


void
hymt_terms_free(hymt_terms_t *terms)
{
    free(terms->term);
    free(terms->first);
    memset(terms, 0, sizeof(*terms));
}
