/*
 * document_stream.c - what of an answer in the making is final; see
 * document.h.
 *
 * All that document_guard.c takes out of an answer begins with one of a few
 * characters, and it joins what stood around it: so the answer is final up to
 * the first such character.  White space is final once something stands behind
 * it: at the end, and before a line end, it goes.
 */

#include "document_private.h"
#include "utf8.h"


static bool hymt_final_waits(int32_t c, const char *text, size_t at,
    size_t len);
static bool hymt_final_begins(int32_t c);


size_t
hymt_document_final(const char *text, size_t len, size_t from)
{
    size_t   at, to;
    int32_t  c;

    at = from;
    to = from;

    while (at < len) {
        c = hymt_utf8_next_char(text, &at, len);

        if (hymt_line_end_char(c)) {
            break;
        }

        if (hymt_blank_char(c)) {
            continue;
        }

        if (hymt_final_waits(c, text, at, len)) {
            break;
        }

        to = at;
    }

    /* an answer may be refused for want of letters */

    if (from == hymt_blank_before(text, len)
        && !hymt_has_letter(text + from, to - from))
    {
        return from;
    }

    return to;
}


/*
 * Whether c, which ends at text[at], is or may become the beginning of
 * something to take out.  A sign that is none by itself may become one where
 * what stands between it and the rest goes.
 */
static bool
hymt_final_waits(int32_t c, const char *text, size_t at, size_t len)
{
    int32_t  next;

    switch (c) {

    case '<':
    case '%':
        if (hymt_utf8_char_at(text, at, len) != ' ') {
            return true;
        }

        break;

    case '$':
    case '#':
        break;

    default:
        return hymt_final_begins(c);
    }

    do {
        next = at < len ? hymt_utf8_next_char(text, &at, len) : -1;
    } while (hymt_blank_char(next) && !hymt_line_end_char(next));

    return hymt_line_end_char(next) || hymt_final_begins(next);
}


/* -1, what is not there yet, may be anything */
static bool
hymt_final_begins(int32_t c)
{
    switch (c) {

    case '<':
    case '%':
    case '{':
    case 0xff5c:
    case 0xff60:
    case 0xffe8:
        return true;
    }

    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c & 0xfffe) == 0xfffe;
}
