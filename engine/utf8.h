/*
 * utf8.h - walking over the code points of a text.
 *
 * Safe on any bytes: what is not UTF-8 reads as -1, a byte or more at a time.
 */

#ifndef HYMT_UTF8_H
#define HYMT_UTF8_H

#include "base.h"

#include <unicode/utf8.h>


/* The code point at *at < len; *at moves behind it. */
static inline int32_t
hymt_utf8_next_char(const char *text, size_t *at, size_t len)
{
    int32_t  c;
    size_t   i;

    i = *at;
    U8_NEXT((const uint8_t *) text, i, len, c);
    *at = i;

    return c;
}


/* The code point that ends at *at > 0; *at moves to its beginning. */
static inline int32_t
hymt_utf8_prev_char(const char *text, size_t *at)
{
    int32_t      c, i;
    const char  *p;

    /* ICU's macro counts in 32 bits: a window of one code point is enough */

    i = (int32_t) hymt_min(*at, 4);
    p = text + *at - i;
    *at -= (size_t) i;
    U8_PREV((const uint8_t *) p, 0, i, c);
    *at += (size_t) i;

    return c;
}


/* the code point at `at`; -1 at the end */
static inline int32_t
hymt_utf8_char_at(const char *text, size_t at, size_t len)
{
    return at < len ? hymt_utf8_next_char(text, &at, len) : -1;
}


#endif /* HYMT_UTF8_H */
