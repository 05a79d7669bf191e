/*
 * glossary_match.c - glossary.h: which terms occur in a text.
 *
 * Terms lie sorted.  From each place of the text where a term could begin, the
 * range of terms that go on as the text does is narrowed byte by byte: what a
 * walk down a trie would do, without one.  While the whole range goes on alike
 * nothing is searched, so a byte costs little even in texts made to be slow.
 */

#include "glossary_private.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>


/* A text whose terms are collected. */
typedef struct {
    const hymt_glossary_t      *g;
    const hymt_glossary_key_t  *keys;
    const char                 *text;
    size_t                      len;
    unsigned char              *seen;     /* owned, [n entries] */
    uint32_t                   *found;    /* owned, [n entries] */
    uint32_t                    n;
} hymt_glossary_search_t;


static int hymt_glossary_key_order(const void *one, const void *two);
static size_t hymt_glossary_lower_text(const char *text, size_t len, char *to);
static size_t hymt_glossary_char(const char *text, size_t len, int32_t *c);
static bool hymt_glossary_word(int32_t c);
static hymt_status_t hymt_glossary_search(hymt_glossary_search_t *s,
    hymt_error_t *err);
static void hymt_glossary_search_at(hymt_glossary_search_t *s, size_t at);
static uint32_t hymt_glossary_bound(const hymt_glossary_key_t *keys,
    uint32_t low, uint32_t high, size_t depth, int c);
static int hymt_glossary_byte(const hymt_glossary_key_t *key, size_t depth);
static void hymt_glossary_found(hymt_glossary_search_t *s, uint32_t entry,
    size_t end);
static int hymt_glossary_longest(const void *one, const void *two, void *data);


void
hymt_glossary_sort(hymt_glossary_key_t *keys, uint32_t n)
{
    qsort(keys, n, sizeof(hymt_glossary_key_t), hymt_glossary_key_order);
}


static int
hymt_glossary_key_order(const void *one, const void *two)
{
    int                         order;
    const hymt_glossary_key_t  *a, *b;

    a = one;
    b = two;

    order = memcmp(a->text, b->text, hymt_min(a->len, b->len));

    if (order != 0) {
        return order;
    }

    if (a->len != b->len) {
        return a->len < b->len ? -1 : 1;
    }

    return a->entry < b->entry ? -1 : a->entry > b->entry;
}


hymt_status_t
hymt_glossary_lower(hymt_glossary_t *g, hymt_error_t *err)
{
    char      *at;
    size_t     len, total;
    uint32_t   i;

    total = 0;

    for (i = 0; i < g->info.n; i++) {
        total += hymt_glossary_lower_text(g->entries[i].src,
                                          g->entries[i].src_len, NULL);
    }

    g->lower = malloc(g->info.n * sizeof(hymt_glossary_key_t));
    g->lowered = malloc(total + 1);

    if (g->lower == NULL || g->lowered == NULL) {
        return hymt_fail(err, "entries: no memory for %zu bytes", total);
    }

    at = g->lowered;

    for (i = 0; i < g->info.n; i++) {
        len = hymt_glossary_lower_text(g->entries[i].src,
                                       g->entries[i].src_len, at);

        g->lower[i] = (hymt_glossary_key_t) { at, (uint32_t) len, i };
        at += len;
    }

    hymt_glossary_sort(g->lower, g->info.n);

    g->bytes += total;

    return HYMT_OK;
}


/* text is whole UTF-8; returns the length, and writes it unless to is NULL */
static size_t
hymt_glossary_lower_text(const char *text, size_t len, char *to)
{
    size_t            i, total;
    int32_t           c;
    utf8proc_uint8_t  buf[4];

    total = 0;

    for (i = 0; i < len; /* void */) {

        if ((unsigned char) text[i] < 0x80) {
            buf[0] = (utf8proc_uint8_t) text[i++];

            if (buf[0] >= 'A' && buf[0] <= 'Z') {
                buf[0] |= 0x20;
            }

            if (to != NULL) {
                to[total] = (char) buf[0];
            }

            total++;
            continue;
        }

        i += hymt_glossary_char(text + i, len - i, &c);
        c = (int32_t) utf8proc_encode_char(utf8proc_tolower(c), buf);

        if (to != NULL) {
            memcpy(to + total, buf, (size_t) c);
        }

        total += (size_t) c;
    }

    return total;
}


/* one code point of whole UTF-8 */
static size_t
hymt_glossary_char(const char *text, size_t len, int32_t *c)
{
    utf8proc_ssize_t  n;

    n = utf8proc_iterate((const utf8proc_uint8_t *) text,
                         (utf8proc_ssize_t) len, c);

    return n > 0 ? (size_t) n : 1;
}


/*
 * Whether c is of a word that blanks or punctuation part from others.  Korean
 * has blanks, but its particles follow a word at once.
 */
static bool
hymt_glossary_word(int32_t c)
{
    if (c < 0x80) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z')
               || (c >= 'A' && c <= 'Z');
    }

    if ((c >= 0x0e00 && c <= 0x0fff)         /* Thai, Lao, Tibetan */
        || (c >= 0x1000 && c <= 0x109f)      /* Burmese */
        || (c >= 0x1100 && c <= 0x11ff)      /* Hangul */
        || (c >= 0x1780 && c <= 0x17ff)      /* Khmer */
        || (c >= 0x2e80 && c <= 0x9fff)      /* kana, bopomofo, ideographs */
        || (c >= 0xa960 && c <= 0xa97f)      /* Hangul, Burmese */
        || (c >= 0xa9e0 && c <= 0xa9ff)
        || (c >= 0xaa60 && c <= 0xaa7f)
        || (c >= 0xac00 && c <= 0xd7ff)
        || (c >= 0xf900 && c <= 0xfaff)      /* ideographs */
        || (c >= 0xff66 && c <= 0xffdc)      /* narrow kana and Hangul */
        || (c >= 0x20000 && c <= 0x3ffff))
    {
        return false;
    }

    switch (utf8proc_category(c)) {

    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
        return true;

    default:
        return false;
    }
}


hymt_status_t
hymt_glossary_match(const hymt_glossary_t *g, const char *text, size_t len,
    bool icase, const hymt_glossary_entry_t **out, uint32_t max, uint32_t *n,
    hymt_error_t *err)
{
    char                    *lower;
    size_t                   bad;
    uint32_t                 i;
    hymt_status_t            rc;
    hymt_glossary_search_t   s;

    *n = 0;

    if (!hymt_utf8_check(text, len, &bad)) {
        return hymt_fail(err, "text: not UTF-8 at byte %zu", bad);
    }

    lower = NULL;
    s = (hymt_glossary_search_t) {
        .g = g,
        .keys = icase ? g->lower : g->exact,
        .text = text,
        .len = len,
    };

    if (icase) {
        s.len = hymt_glossary_lower_text(text, len, NULL);
        lower = malloc(s.len + 1);

        if (lower == NULL) {
            return hymt_fail(err, "text: no memory for %zu bytes", s.len);
        }

        (void) hymt_glossary_lower_text(text, len, lower);
        s.text = lower;
    }

    rc = hymt_glossary_search(&s, err);

    if (rc == HYMT_OK) {
        qsort_r(s.found, s.n, sizeof(uint32_t), hymt_glossary_longest, &s);

        *n = hymt_min(s.n, max);

        for (i = 0; i < *n; i++) {
            out[i] = &g->entries[s.found[i]];
        }
    }

    free(s.seen);
    free(s.found);
    free(lower);

    return rc;
}


static hymt_status_t
hymt_glossary_search(hymt_glossary_search_t *s, hymt_error_t *err)
{
    bool     word, last;
    size_t   at, n;
    int32_t  c;

    s->seen = calloc(s->g->info.n, 1);
    s->found = malloc(s->g->info.n * sizeof(uint32_t));

    if (s->seen == NULL || s->found == NULL) {
        return hymt_fail(err, "text: no memory to look for %u terms",
                         (unsigned) s->g->info.n);
    }

    last = false;

    for (at = 0; at < s->len; at += n) {
        n = hymt_glossary_char(s->text + at, s->len - at, &c);
        word = hymt_glossary_word(c);

        if (!word || !last) {
            hymt_glossary_search_at(s, at);
        }

        last = word;
    }

    return HYMT_OK;
}


static void
hymt_glossary_search_at(hymt_glossary_search_t *s, size_t at)
{
    int       c;
    size_t    depth;
    uint32_t  i, low, high;

    low = 0;
    high = s->g->info.n;

    for (depth = 0; low < high && at + depth < s->len; /* void */) {

        c = (unsigned char) s->text[at + depth];

        if (hymt_glossary_byte(&s->keys[low], depth) != c) {
            low = hymt_glossary_bound(s->keys, low, high, depth, c);
        }

        if (low < high && hymt_glossary_byte(&s->keys[high - 1], depth) != c) {
            high = hymt_glossary_bound(s->keys, low, high, depth, c + 1);
        }

        depth++;

        /*
         * The shortest of the range end here.  In lower case several may be
         * equal: they come in the entries' order, and the first stands for all.
         */

        for (i = low; low < high && s->keys[low].len == depth; low++) {
            if (low == i) {
                hymt_glossary_found(s, s->keys[low].entry, at + depth);
            }
        }
    }
}


/* the first key of the range whose byte at depth is not less than c */
static uint32_t
hymt_glossary_bound(const hymt_glossary_key_t *keys, uint32_t low,
    uint32_t high, size_t depth, int c)
{
    uint32_t  mid;

    while (low < high) {
        mid = low + (high - low) / 2;

        if (hymt_glossary_byte(&keys[mid], depth) < c) {
            low = mid + 1;

        } else {
            high = mid;
        }
    }

    return low;
}


/* -1 past the end: a shorter key comes first */
static int
hymt_glossary_byte(const hymt_glossary_key_t *key, size_t depth)
{
    return depth < key->len ? (unsigned char) key->text[depth] : -1;
}


/* a word's letter at the end must not go on */
static void
hymt_glossary_found(hymt_glossary_search_t *s, uint32_t entry, size_t end)
{
    size_t   i;
    int32_t  c;

    if (s->seen[entry]) {
        return;
    }

    if (end < s->len) {
        for (i = end - 1; (s->text[i] & 0xc0) == 0x80; i--) { /* void */ }

        (void) hymt_glossary_char(s->text + i, end - i, &c);

        if (hymt_glossary_word(c)) {
            (void) hymt_glossary_char(s->text + end, s->len - end, &c);

            if (hymt_glossary_word(c)) {
                return;
            }
        }
    }

    s->seen[entry] = 1;
    s->found[s->n++] = entry;
}


static int
hymt_glossary_longest(const void *one, const void *two, void *data)
{
    uint32_t                a, b;
    const hymt_glossary_t  *g;

    g = ((const hymt_glossary_search_t *) data)->g;
    a = *(const uint32_t *) one;
    b = *(const uint32_t *) two;

    if (g->entries[a].src_len != g->entries[b].src_len) {
        return g->entries[a].src_len > g->entries[b].src_len ? -1 : 1;
    }

    return a < b ? -1 : a > b;
}
