/*
 * segment_line.c - lines, list markers and white space; see segment.h.
 */

#include "scan.h"
#include "segment.h"
#include "utf8.h"

#include <string.h>

#include <unicode/uchar.h>


#define HYMT_MAX_NUMBER  3     /* digits of a list's number */


static size_t hymt_line_end(const char *p, size_t len);
static size_t hymt_marker(const char *p, size_t len);
static size_t hymt_marker_number(const char *p, size_t len);
static size_t hymt_marker_sign(const char *p, size_t len);


size_t
hymt_line(const char *text, size_t len, size_t *eol)
{
    size_t  i;

    /* control characters, U+0085, U+2028 and U+2029 */

    static const hymt_scan_t  ends = {
        2, { hymt_lanes(0xc2), hymt_lanes(0xe2) }, hymt_lanes(0x0e),
        hymt_lanes(0)
    };

    for (i = hymt_scan(&ends, text, 0, len);
         i < len;
         i = hymt_scan(&ends, text, i + 1, len))
    {
        *eol = hymt_line_end(text + i, len - i);

        if (*eol != 0) {
            return i;
        }
    }

    *eol = 0;

    return len;
}


static size_t
hymt_line_end(const char *p, size_t len)
{
    if (*p == '\r') {
        return len > 1 && p[1] == '\n' ? 2 : 1;
    }

    if (*p >= '\n' && *p <= '\f') {
        return 1;
    }

    if (len > 1 && memcmp(p, "\xc2\x85", 2) == 0) {
        return 2;
    }

    if (len > 2 && (memcmp(p, "\xe2\x80\xa8", 3) == 0
                    || memcmp(p, "\xe2\x80\xa9", 3) == 0))
    {
        return 3;
    }

    return 0;
}


bool
hymt_line_end_char(int32_t c)
{
    return (c >= 0x0a && c <= 0x0d) || c == 0x85 || c == 0x2028 || c == 0x2029;
}


bool
hymt_blank_char(int32_t c)
{
    return c == ' ' || (c >= 0x09 && c <= 0x0d) || c == 0x85 || c == 0xa0
           || c == 0x200b || c == 0xfeff || (c > 0xff && u_isUWhiteSpace(c));
}


size_t
hymt_blank_before(const char *text, size_t len)
{
    int32_t  c;
    size_t   i, next;

    for (i = 0; i < len; i = next) {
        next = i;
        c = hymt_utf8_next_char(text, &next, len);

        if (!hymt_blank_char(c)) {
            break;
        }
    }

    return i;
}


size_t
hymt_blank_after(const char *text, size_t len)
{
    int32_t  c;
    size_t   i, prev;

    for (i = len; i > 0; i = prev) {
        prev = i;
        c = hymt_utf8_prev_char(text, &prev);

        if (!hymt_blank_char(c)) {
            break;
        }
    }

    return len - i;
}


bool
hymt_has_letter(const char *text, size_t len)
{
    int32_t  c;
    size_t   i;

    i = 0;

    while (i < len) {
        c = hymt_utf8_next_char(text, &i, len);

        if (c < 0x80 ? (uint32_t) (c | 0x20) - 'a' < 26 : u_isalpha(c)) {
            return true;
        }
    }

    return false;
}


size_t
hymt_line_marker(const char *line, size_t len)
{
    size_t  at, n, blank;

    at = hymt_blank_before(line, len);

    /* "> 1. - [ ] text": markers may follow each other, but not for ever */

    for ( ;; ) {
        n = hymt_marker(line + at, len - at);

        if (n == 0) {
            return at;
        }

        blank = hymt_blank_before(line + at + n, len - at - n);

        if (blank == 0 || at + n + blank == len) {
            return at;
        }

        at += n + blank;
    }
}


/* a marker without the white space behind it */
static size_t
hymt_marker(const char *p, size_t len)
{
    size_t  n;

    if (len == 0) {
        return 0;
    }

    if (len > 3 && p[0] == '[' && p[2] == ']'
        && (p[1] == ' ' || p[1] == 'x' || p[1] == 'X'))
    {
        return 3;
    }

    n = hymt_marker_sign(p, len);

    return n != 0 ? n : hymt_marker_number(p, len);
}


/* "1." "1)" "(1)" "1.2." "a)" "(a)" "a." "1、" */
static size_t
hymt_marker_number(const char *p, size_t len)
{
    size_t  i, from;

    i = p[0] == '(';

    for ( ;; ) {
        from = i;

        while (i < len && p[i] >= '0' && p[i] <= '9'
               && i - from < HYMT_MAX_NUMBER)
        {
            i++;
        }

        if (i == from || i + 1 >= len || p[i] != '.'
            || p[i + 1] < '0' || p[i + 1] > '9' || i > HYMT_MAX_NUMBER * 4)
        {
            break;
        }

        i++;
    }

    if (i == from) {

        if (i > 1 || i >= len
            || !((p[i] >= 'a' && p[i] <= 'z')
                 || (p[i] >= 'A' && p[i] <= 'Z')))
        {
            return 0;
        }

        i++;

        /* "A. Smith" is a name */

        if (i < len && p[i] == '.' && p[0] >= 'a') {
            return i + 1;
        }

        return i < len && p[i] == ')' ? i + 1 : 0;
    }

    if (p[0] == '(') {
        return i < len && p[i] == ')' ? i + 1 : 0;
    }

    if (i < len && (p[i] == '.' || p[i] == ')')) {
        return i + 1;
    }

    if (len - i > 2 && memcmp(p + i, "\xe3\x80\x81", 3) == 0) {
        return i + 3;
    }

    return 0;
}


static size_t
hymt_marker_sign(const char *p, size_t len)
{
    int32_t  c;
    size_t   i;

    if (p[0] == '#' || p[0] == '>') {
        for (i = 1; i < len && i < 6 && p[i] == p[0]; i++) { /* void */ }

        return i;
    }

    i = 0;
    c = hymt_utf8_next_char(p, &i, len);

    switch (c) {

    case '-': case '*': case '+': case 0xb7:
    case 0x2010: case 0x2011: case 0x2012: case 0x2013: case 0x2014:
    case 0x2022: case 0x2023: case 0x2043: case 0x2219: case 0x25e6:
    case 0x30fb:
        return i;
    }

    /* arrows, boxes, triangles, circles, check marks, circled numbers */

    if ((c >= 0x2190 && c <= 0x21ff) || (c >= 0x2460 && c <= 0x24ff)
        || (c >= 0x25a0 && c <= 0x25ff) || (c >= 0x2600 && c <= 0x27bf))
    {
        return i;
    }

    return 0;
}
