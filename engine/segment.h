/*
 * segment.h - where a text may be cut: lines, list markers, sentences, words.
 *
 * Sentences are ICU's (UAX #29), with two lists of our own: what ends with a
 * full stop and is no end (abbreviations, initials, ordinals), and terminators
 * ICU passes over (Tibetan shad, Khmer khan, Burmese section).  Thai has no
 * full stop: a long Thai text is cut at its spaces, then between words of
 * ICU's dictionary.
 *
 * Offsets are bytes of UTF-8.  Thread: a segmenter is one thread's at a time.
 */

#ifndef HYMT_SEGMENT_H
#define HYMT_SEGMENT_H

#include "lang.h"


typedef struct {
    uint32_t  at;
    uint32_t  len;
} hymt_range_t;


typedef struct {
    hymt_range_t  *range;     /* malloc'ed, ascending */
    uint32_t       n;
    uint32_t       capacity;
} hymt_ranges_t;


typedef struct {
    uint32_t  *at;            /* malloc'ed, ascending, none 0 or len */
    uint32_t   n;
    uint32_t   capacity;
} hymt_cuts_t;


typedef struct hymt_segmenter_s  hymt_segmenter_t;


/* lang: of the text, or HYMT_LANG_NONE */
hymt_status_t hymt_segmenter_create(int lang, hymt_segmenter_t **seg,
    hymt_error_t *err);

void hymt_segmenter_free(hymt_segmenter_t *seg);


/*
 * Cuts text [len], one paragraph, into parts of at most limit bytes: at
 * sentence ends, as few as will do; a sentence that is too long at clauses,
 * words, at last between graphemes.  all: a cut at every sentence end.  A cut
 * lies behind the white space between two parts.  No cut falls inside one of
 * the ranges in `whole`, even if a part then exceeds limit.  cuts->n is reset.
 */
hymt_status_t hymt_segment(hymt_segmenter_t *seg, const char *text, size_t len,
    size_t limit, bool all, const hymt_ranges_t *whole, hymt_cuts_t *cuts,
    hymt_error_t *err);


/*
 * The length of the line at text [len] without its end; *eol is set to the
 * bytes of the end (LF, CRLF, CR, VT, FF, NEL, U+2028, U+2029; 0 at the end of
 * the text).
 */
size_t hymt_line(const char *text, size_t len, size_t *eol);

/*
 * The bytes of indentation and list marker ("- ", "* ", "1. ", "a) ", "• ",
 * "> ", "# ", "- [ ] ") a line begins with.
 */
size_t hymt_line_marker(const char *line, size_t len);

/* what ends a line, CR of CRLF included */
bool hymt_line_end_char(int32_t c);

/* white space, line ends too, and what is not seen: BOM, zero-width space */
bool hymt_blank_char(int32_t c);

/* bytes of white space (incl. U+00A0, U+3000) at the beginning, at the end */
size_t hymt_blank_before(const char *text, size_t len);
size_t hymt_blank_after(const char *text, size_t len);

/* whether there is a letter of any script: else nothing is to translate */
bool hymt_has_letter(const char *text, size_t len);

/* zh, zh-Hant, yue, ja: no spaces between sentences */
bool hymt_lang_unspaced(int lang);

/* those, and th, km, my, bo: no spaces between words */
bool hymt_lang_wordless(int lang);

/* whether c belongs to a script written without spaces between words */
bool hymt_char_unspaced(int32_t c);


#endif /* HYMT_SEGMENT_H */
