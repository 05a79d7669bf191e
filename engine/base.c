/*
 * base.c - see base.h.
 */

#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>


hymt_status_t
hymt_fail(hymt_error_t *err, const char *fmt, ...)
{
    va_list  args;

    if (err != NULL) {
        va_start(args, fmt);
        vsnprintf(err->text, sizeof(err->text), fmt, args);
        va_end(args);
    }

    return HYMT_ERROR;
}


void *
hymt_zalloc(size_t size)
{
    void  *p;

    p = malloc(size);

    /* or compilers make calloc() of it */

    __asm__ volatile ("" : "+r" (p));

    if (p != NULL) {
        memset(p, 0, size);
    }

    return p;
}


uint64_t
hymt_now_ns(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * 1000000000 + (uint64_t) ts.tv_nsec;
}


/*
 * The length of the well-formed sequence at p (RFC 3629, table 3-7 of the
 * Unicode standard); 0 where it is broken; -n where the n bytes present are a
 * good beginning and the text ends.
 */
static int
hymt_utf8_next(const unsigned char *p, size_t left)
{
    int            n, i;
    unsigned char  lo, hi;

    if (p[0] < 0x80) {
        return 1;
    }

    lo = 0x80;
    hi = 0xbf;

    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        n = 2;

    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        n = 3;
        lo = p[0] == 0xe0 ? 0xa0 : 0x80;
        hi = p[0] == 0xed ? 0x9f : 0xbf;

    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        n = 4;
        lo = p[0] == 0xf0 ? 0x90 : 0x80;
        hi = p[0] == 0xf4 ? 0x8f : 0xbf;

    } else {
        return 0;
    }

    for (i = 1; i < n; i++) {
        if ((size_t) i == left) {
            return -i;
        }

        if (p[i] < lo || p[i] > hi) {
            return 0;
        }

        lo = 0x80;
        hi = 0xbf;
    }

    return n;
}


bool
hymt_utf8_check(const char *text, size_t len, size_t *bad)
{
    int                   n;
    size_t                i;
    uint64_t              eight;
    const unsigned char  *p;

    p = (const unsigned char *) text;

    for (i = 0; i < len; i += (size_t) n) {

        if (p[i] < 0x80) {
            n = 1;

            if (len - i >= sizeof(eight)) {
                memcpy(&eight, p + i, sizeof(eight));
                eight &= 0x8080808080808080;
                n = eight == 0 ? 8 : __builtin_ctzll(eight) / 8;
            }

            continue;
        }

        n = hymt_utf8_next(p + i, len - i);

        if (n <= 0) {
            if (bad != NULL) {
                *bad = i;
            }

            return false;
        }
    }

    return true;
}


size_t
hymt_utf8_whole(const char *text, size_t len)
{
    size_t                i;
    const unsigned char  *p;

    p = (const unsigned char *) text;

    for (i = 1; i <= 3 && i <= len; i++) {
        if ((p[len - i] & 0xc0) != 0x80) {
            return hymt_utf8_next(p + len - i, i) < 0 ? len - i : len;
        }
    }

    return len;
}
