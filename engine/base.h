/*
 * base.h - status codes, errors as values, checked arithmetic, clocks.
 *
 * Every function of the library that can fail returns a hymt_status_t and, on
 * HYMT_ERROR, has filled an error with a message a person can act on: it names
 * the file, field or setting, what was found, and what would be right.
 *
 * Thread: any.
 */

#ifndef HYMT_BASE_H
#define HYMT_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


#define HYMT_VERSION     "0.1.0"

#define HYMT_ERROR_TEXT  768


typedef enum {
    HYMT_OK = 0,
    HYMT_ERROR = -1,    /* failed; the error says why */
    HYMT_AGAIN = -2,    /* nothing now, or no room now: come back later */
    HYMT_DECLINED = -3, /* not found, or not for this function */
    HYMT_ABORTED = -4,  /* stopped on request, in the middle */
    HYMT_TOO_LONG = -5, /* the input does not fit; the error says by how much */
} hymt_status_t;


typedef struct {
    char text[HYMT_ERROR_TEXT]; /* always terminated; cut, never overrun */
} hymt_error_t;


#define hymt_min(a, b)       ((a) < (b) ? (a) : (b))
#define hymt_max(a, b)       ((a) > (b) ? (a) : (b))
#define hymt_ceil_div(a, b)  (((a) + (b) - 1) / (b))
#define hymt_nelts(a)        (sizeof(a) / sizeof((a)[0]))


/*
 * Formats a message into err (err may be NULL) and returns HYMT_ERROR, so that
 * a failing function can end in "return hymt_fail(err, ...)".
 */
hymt_status_t hymt_fail(hymt_error_t *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));


/* *r = a op b; true where the result does not fit in 64 bits. */
static inline bool
hymt_mul_overflow(uint64_t a, uint64_t b, uint64_t *r)
{
    return __builtin_mul_overflow(a, b, r);
}


static inline bool
hymt_add_overflow(uint64_t a, uint64_t b, uint64_t *r)
{
    return __builtin_add_overflow(a, b, r);
}


/*
 * malloc() and zeros: calloc() of glibc before 2.41 does not take what the
 * thread has just freed.
 */
void *hymt_zalloc(size_t size);


/*
 * CLOCK_MONOTONIC in nanoseconds; comparable between the processes of one host.
 */
uint64_t hymt_now_ns(void);


/*
 * Checks that text is whole UTF-8 (RFC 3629: no surrogates, no overlong forms,
 * nothing above U+10FFFF).  NUL bytes are legal.
 *
 * Returns true, or false with the byte offset of the first bad sequence in
 * *bad (bad may be NULL).
 */
bool hymt_utf8_check(const char *text, size_t len, size_t *bad);


/*
 * The greatest n <= len such that text[0..n) does not end inside a code point
 * that further bytes could complete.  A tail that is already invalid counts as
 * complete: it can't be mended by waiting.
 */
size_t hymt_utf8_whole(const char *text, size_t len);


#endif /* HYMT_BASE_H */
