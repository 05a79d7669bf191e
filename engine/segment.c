/*
 * segment.c - see segment.h.
 */

#include "segment.h"
#include "arena.h"
#include "segment_private.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

#include <unicode/ubrk.h>
#include <unicode/utext.h>


#define HYMT_MIN_PART  16          /* a grapheme fits */
#define HYMT_MAX_PART  (1 << 20)


typedef enum {
    HYMT_CUT_ANY = 0,     /* between two ideographs, two Thai words */
    HYMT_CUT_SPACE,
    HYMT_CUT_CLAUSE,
    HYMT_N_CUTS,
} hymt_cut_rank_t;


typedef struct {
    uint32_t         at;
    hymt_cut_rank_t  rank;
} hymt_chance_t;


struct hymt_segmenter_s {
    int              lang;
    UBreakIterator  *sentence;
    UBreakIterator  *line;        /* opened when needed */
    UBreakIterator  *character;
    hymt_chance_t   *chance;      /* [capacity], of the window at hand */
    uint32_t         capacity;
};


/* One call of hymt_segment(). */
typedef struct {
    hymt_segmenter_t     *seg;
    const char           *text;
    uint32_t              len;
    uint32_t              limit;
    const hymt_ranges_t  *whole;
    uint32_t              next_whole;  /* first range not behind the last cut */
    hymt_cuts_t          *cuts;
    uint32_t              start;       /* of the part at hand */
    hymt_error_t         *err;
} hymt_cutting_t;


static hymt_status_t hymt_segment_open(UBreakIterator **it,
    UBreakIteratorType type, int lang, hymt_error_t *err);
static hymt_status_t hymt_segment_text(UBreakIterator *it, UText *text,
    const char *s, size_t len, hymt_error_t *err);
static hymt_status_t hymt_segment_sentences(hymt_cutting_t *c, bool all);
static hymt_status_t hymt_segment_part(hymt_cutting_t *c, uint32_t *fits,
    uint32_t end, bool all);
static hymt_status_t hymt_segment_long(hymt_cutting_t *c, uint32_t end);
static hymt_status_t hymt_segment_choose(hymt_cutting_t *c, uint32_t *n,
    uint32_t end);
static hymt_cut_rank_t hymt_segment_rank(const hymt_cutting_t *c,
    uint32_t at);
static hymt_status_t hymt_segment_hard(hymt_cutting_t *c, uint32_t end);
static const hymt_range_t *hymt_segment_inside(const hymt_cutting_t *c,
    uint32_t at);
static hymt_status_t hymt_segment_add(hymt_cutting_t *c, uint32_t at);


hymt_status_t
hymt_segmenter_create(int lang, hymt_segmenter_t **seg, hymt_error_t *err)
{
    hymt_segmenter_t  *s;

    s = hymt_zalloc(sizeof(hymt_segmenter_t));

    if (s == NULL) {
        return hymt_fail(err, "no memory for a segmenter");
    }

    s->lang = lang;
    *seg = s;

    return HYMT_OK;
}


void
hymt_segmenter_free(hymt_segmenter_t *seg)
{
    if (seg == NULL) {
        return;
    }

    ubrk_close(seg->sentence);
    ubrk_close(seg->line);
    ubrk_close(seg->character);
    free(seg->chance);
    free(seg);
}


hymt_status_t
hymt_segment(hymt_segmenter_t *seg, const char *text, size_t len, size_t limit,
    bool all, const hymt_ranges_t *whole, hymt_cuts_t *cuts, hymt_error_t *err)
{
    hymt_cutting_t  c;

    cuts->n = 0;

    if (len > INT32_MAX) {
        return hymt_fail(err, "a text of %zu bytes can't be cut: at most %d",
                         len, INT32_MAX);
    }

    if (len <= limit && !all) {
        return HYMT_OK;
    }

    memset(&c, 0, sizeof(c));

    c.seg = seg;
    c.text = text;
    c.len = (uint32_t) len;
    c.limit = (uint32_t) hymt_max(hymt_min(limit, len), HYMT_MIN_PART);
    c.whole = whole;
    c.cuts = cuts;
    c.err = err;

    return hymt_segment_sentences(&c, all);
}


static hymt_status_t
hymt_segment_sentences(hymt_cutting_t *c, bool all)
{
    UText          ut = UTEXT_INITIALIZER;
    int32_t        next;
    uint32_t       at, pos, end, fits;
    hymt_status_t  rc;

    rc = hymt_segment_open(&c->seg->sentence, UBRK_SENTENCE, c->seg->lang,
                           c->err);
    if (rc != HYMT_OK) {
        return rc;
    }

    rc = hymt_segment_text(c->seg->sentence, &ut, c->text, c->len, c->err);

    if (rc != HYMT_OK) {
        return rc;
    }

    pos = 0;
    fits = 0;

    while (rc == HYMT_OK && pos < c->len) {
        next = ubrk_next(c->seg->sentence);
        end = next == UBRK_DONE ? c->len : (uint32_t) next;

        /* ICU's sentence may hold several by our own terminators */

        while (rc == HYMT_OK && pos < end) {
            pos += (uint32_t) hymt_sentence_inner(c->text + pos, end - pos);

            if (pos < c->len
                && (hymt_segment_inside(c, pos) != NULL
                    || hymt_sentence_no_end(c->seg->lang, c->text, pos,
                                            c->len)))
            {
                continue;
            }

            at = (uint32_t) hymt_sentence_end(c->seg->lang, c->text, pos);

            if (pos == c->len || hymt_segment_inside(c, at) != NULL) {
                at = pos;
            }

            rc = hymt_segment_part(c, &fits, at, all);
        }
    }

    utext_close(&ut);

    return rc;
}


/*
 * A sentence ends at `end`; *fits is the end of the last one that still fits
 * into the part at hand.
 */
static hymt_status_t
hymt_segment_part(hymt_cutting_t *c, uint32_t *fits, uint32_t end, bool all)
{
    hymt_status_t  rc;

    if (end - c->start > c->limit && *fits > c->start) {
        rc = hymt_segment_add(c, *fits);

        if (rc != HYMT_OK) {
            return rc;
        }
    }

    if (end - c->start > c->limit) {
        rc = hymt_segment_long(c, end);

        if (rc != HYMT_OK) {
            return rc;
        }
    }

    *fits = end;

    return all && end < c->len ? hymt_segment_add(c, end) : HYMT_OK;
}


/* a sentence from c->start to end that does not fit */
static hymt_status_t
hymt_segment_long(hymt_cutting_t *c, uint32_t end)
{
    UText              ut = UTEXT_INITIALIZER;
    int32_t            next;
    uint32_t           n, at, base;
    hymt_status_t      rc;
    hymt_segmenter_t  *seg;

    seg = c->seg;

    rc = hymt_segment_open(&seg->line, UBRK_LINE, seg->lang, c->err);

    if (rc != HYMT_OK) {
        return rc;
    }

    base = c->start;

    rc = hymt_segment_text(seg->line, &ut, c->text + base, end - base, c->err);

    if (rc != HYMT_OK) {
        return rc;
    }

    n = 0;

    /* forward only: a seek would run the dictionary over a whole text again */

    while (rc == HYMT_OK && end - c->start > c->limit) {
        next = ubrk_next(seg->line);
        at = next == UBRK_DONE ? end : base + (uint32_t) next;

        if (at < end && hymt_segment_inside(c, at) != NULL) {
            continue;
        }

        while (rc == HYMT_OK && at - c->start > c->limit) {
            rc = hymt_segment_choose(c, &n, at);
        }

        if (rc != HYMT_OK || at >= end) {
            break;
        }

        if (at <= c->start) {
            continue;
        }

        if (!hymt_grow(&seg->chance, n, &seg->capacity,
                       sizeof(hymt_chance_t)))
        {
            rc = hymt_fail(c->err, "no memory to cut a text");
            break;
        }

        seg->chance[n].at = at;
        seg->chance[n++].rank = hymt_segment_rank(c, at);
    }

    utext_close(&ut);

    return rc == HYMT_DECLINED ? HYMT_OK : rc;
}


/*
 * The part from c->start to end is too long: cuts it at the best of the n
 * chances, and drops those before.  The later half of the part is preferred, so
 * that a comma near the beginning does not make a tiny part.
 */
static hymt_status_t
hymt_segment_choose(hymt_cutting_t *c, uint32_t *n, uint32_t end)
{
    uint32_t          i, best, score, best_score;
    hymt_status_t     rc;
    hymt_chance_t    *chance;

    if (*n == 0) {
        return hymt_segment_hard(c, end);
    }

    chance = c->seg->chance;
    best = 0;
    best_score = 0;

    for (i = 0; i < *n; i++) {
        score = chance[i].rank;

        if (chance[i].at - c->start >= c->limit / 2) {
            score += HYMT_N_CUTS;
        }

        if (score >= best_score) {
            best = i;
            best_score = score;
        }
    }

    rc = hymt_segment_add(c, chance[best].at);

    *n -= best + 1;
    memmove(chance, chance + best + 1, *n * sizeof(hymt_chance_t));

    return rc;
}


static hymt_cut_rank_t
hymt_segment_rank(const hymt_cutting_t *c, uint32_t at)
{
    size_t   i, end;
    int32_t  ch;

    end = at - hymt_blank_after(c->text, at);

    if (end == 0) {
        return HYMT_CUT_SPACE;
    }

    i = end;
    ch = hymt_utf8_prev_char(c->text, &i);

    if (hymt_clause_end(ch)) {

        /* "1,000" has no break there; "a,b" may */

        return end < at || ch > 0x7f ? HYMT_CUT_CLAUSE : HYMT_CUT_ANY;
    }

    if (end == at) {
        return HYMT_CUT_ANY;
    }

    /* Thai, Khmer, Burmese, Tibetan: a space is as good as a comma */

    return hymt_char_unspaced(ch) ? HYMT_CUT_CLAUSE : HYMT_CUT_SPACE;
}


/*
 * No chance at all, as in a long run of base64.  HYMT_DECLINED: not even
 * graphemes let themselves be parted before end.
 */
static hymt_status_t
hymt_segment_hard(hymt_cutting_t *c, uint32_t end)
{
    UText                ut = UTEXT_INITIALIZER;
    int32_t              next;
    uint32_t             at, good, window;
    hymt_status_t        rc;
    hymt_segmenter_t    *seg;
    const hymt_range_t  *r;

    seg = c->seg;

    rc = hymt_segment_open(&seg->character, UBRK_CHARACTER, seg->lang, c->err);

    if (rc != HYMT_OK) {
        return rc;
    }

    /* a grapheme longer than four parts (marks piled up) is nobody's text */

    window = hymt_min(end - c->start, hymt_min(c->limit, HYMT_MAX_PART) * 4);
    window = (uint32_t) hymt_utf8_whole(c->text + c->start, window);

    rc = hymt_segment_text(seg->character, &ut, c->text + c->start, window,
                           c->err);
    if (rc != HYMT_OK) {
        return rc;
    }

    good = 0;

    for ( ;; ) {
        next = ubrk_next(seg->character);

        if (next == UBRK_DONE) {
            break;
        }

        at = c->start + (uint32_t) next;

        if (at - c->start > c->limit && good != 0) {
            break;
        }

        if (at < end && hymt_segment_inside(c, at) == NULL) {
            good = at;
        }
    }

    utext_close(&ut);

    if (good == 0) {
        good = c->start + window;
        r = hymt_segment_inside(c, good);

        if (r != NULL) {
            good = hymt_min(r->at + r->len, end);
        }
    }

    return good < c->len ? hymt_segment_add(c, good) : HYMT_DECLINED;
}


/* the range that at would cut; calls come with at behind c->start */
static const hymt_range_t *
hymt_segment_inside(const hymt_cutting_t *c, uint32_t at)
{
    uint32_t             lo, hi, mid;
    const hymt_range_t  *r;

    if (c->whole == NULL) {
        return NULL;
    }

    lo = c->next_whole;
    hi = c->whole->n;

    while (lo < hi) {
        mid = lo + (hi - lo) / 2;
        r = &c->whole->range[mid];

        if (r->at + r->len <= at) {
            lo = mid + 1;

        } else {
            hi = mid;
        }
    }

    if (lo < c->whole->n && c->whole->range[lo].at < at) {
        return &c->whole->range[lo];
    }

    return NULL;
}


static hymt_status_t
hymt_segment_add(hymt_cutting_t *c, uint32_t at)
{
    const hymt_ranges_t  *whole;

    if (at == c->start) {
        return HYMT_OK;
    }

    if (!hymt_grow(&c->cuts->at, c->cuts->n, &c->cuts->capacity,
                   sizeof(uint32_t)))
    {
        return hymt_fail(c->err, "no memory to cut a text");
    }

    c->cuts->at[c->cuts->n++] = at;
    c->start = at;

    whole = c->whole;

    while (whole != NULL && c->next_whole < whole->n
           && whole->range[c->next_whole].at + whole->range[c->next_whole].len
              <= at)
    {
        c->next_whole++;
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_segment_open(UBreakIterator **it, UBreakIteratorType type, int lang,
    hymt_error_t *err)
{
    UErrorCode   e;
    const char  *locale;

    if (*it != NULL) {
        return HYMT_OK;
    }

    e = U_ZERO_ERROR;
    locale = lang == HYMT_LANG_NONE ? "" : hymt_langs[lang].code;

    *it = ubrk_open(type, locale, NULL, 0, &e);

    if (U_FAILURE(e)) {
        *it = NULL;
        return hymt_fail(err, "ICU opens no break iterator for \"%s\": %s: is"
                         " its data (libicu) whole?", locale, u_errorName(e));
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_segment_text(UBreakIterator *it, UText *text, const char *s, size_t len,
    hymt_error_t *err)
{
    UErrorCode  e;

    e = U_ZERO_ERROR;

    utext_openUTF8(text, s, (int64_t) len, &e);

    if (U_SUCCESS(e)) {
        ubrk_setUText(it, text, &e);
    }

    if (U_FAILURE(e)) {
        utext_close(text);
        return hymt_fail(err, "ICU can't read a text of %zu bytes: %s", len,
                         u_errorName(e));
    }

    return HYMT_OK;
}
