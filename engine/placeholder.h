/*
 * placeholder.h - what must come back from a translation as it was.
 *
 * %s %1$s %-5.2f %% %@ %(name)s %{name}    formats of C, Python, Ruby
 * {} {0} {name} {0:.2f} {{x}} {% x %} ${x} #{x}  templates
 * {n, plural, one {...} other {...}}       ICU messages, whole
 * <x id="1"/> <b> </b> <0>                 tags in plain text
 * https://... mailto:... name@host.tld     addresses
 *
 * "100% sure", "50%discount", "a < b" and "{ }" are text.
 *
 * Thread: any.
 */

#ifndef HYMT_PLACEHOLDER_H
#define HYMT_PLACEHOLDER_H

#include "segment.h"


typedef enum {
    HYMT_PLACEHOLDER_NONE = 0,
    HYMT_PLACEHOLDER_STRICT,   /* a program reads it: one too many is a fault */
    HYMT_PLACEHOLDER_ADDRESS,  /* people read it */
} hymt_placeholder_t;


/* Strings to find in a text, longest first. */
typedef struct {
    const char  *text;
    uint32_t     len;
} hymt_term_t;

typedef struct {
    hymt_term_t  *term;        /* malloc'ed, sorted, no two alike; the strings
                                  are the caller's */
    uint32_t      n;
    uint32_t      capacity;
    uint32_t     *first;       /* [257], malloc'ed: by first byte */
} hymt_terms_t;                /* all zero: empty */


/*
 * The placeholder that begins at text[at]; *n is set to its bytes.  tags: those
 * of plain text too.
 */
hymt_placeholder_t hymt_placeholder(const char *text, size_t at, size_t len,
    bool tags, size_t *n);


/* A letter or digit of ASCII. */
static inline bool
hymt_placeholder_word(char c)
{
    return (unsigned) ((c | 0x20) - 'a') < 26 || (unsigned) (c - '0') < 10;
}


/* Whether one may begin with c that is no address. */
static inline bool
hymt_placeholder_strict(char c)
{
    return c == '%' || c == '{' || c == '$' || c == '#' || c == '<';
}


/*
 * Whether text[at] begins what is text only because of the digit before it and
 * the letter behind it: "%d" of "50%discount".  Cut off from one of them it
 * would be a placeholder.
 */
bool hymt_placeholder_joined(const char *text, size_t at, size_t len);

#define HYMT_PLACEHOLDER_JOINED  4    /* bytes from the digit to the letter */


/* The place of the first byte from `at` on with which one may, or len. */
size_t hymt_placeholder_next(const char *text, size_t at, size_t len);


/*
 * True: there is none in a text, addresses included.  A look, where finding out
 * for certain is to look at each word.
 */
bool hymt_placeholder_free(const char *text, size_t len);


/* Whether one may begin at text[at]: not in a word, nor where a blank is. */
static inline bool
hymt_placeholder_may(const char *text, size_t at)
{
    return hymt_placeholder_strict(text[at])
           || (hymt_placeholder_word(text[at])
               && (at == 0 || !hymt_placeholder_word(text[at - 1])));
}


/* Adding, then sorting once, then finding.  False: no memory. */
bool hymt_terms_add(hymt_terms_t *terms, const char *text, size_t len);
bool hymt_terms_sort(hymt_terms_t *terms);

/*
 * The index of the longest term at text[at], or UINT32_MAX.  A term that begins
 * with a letter or digit is not found right behind another; one that ends with
 * such must not, where whole_words is set, have one behind it.  Scripts without
 * spaces know no such borders.
 */
uint32_t hymt_terms_find(const hymt_terms_t *terms, const char *text, size_t at,
    size_t len, bool whole_words);

void hymt_terms_free(hymt_terms_t *terms);


#endif /* HYMT_PLACEHOLDER_H */
