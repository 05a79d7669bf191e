/*
 * detok.c - tokens to text, whole code points only.
 */

#include "tokenizer_private.h"

#include <string.h>


/* U+FFFD */
#define HYMT_REPLACEMENT      "\xef\xbf\xbd"
#define HYMT_REPLACEMENT_LEN  3


/* The bytes that wait and the token's, as if they were one string. */
typedef struct {
    const hymt_detok_t  *head;
    const char          *tail;
    size_t               tail_len;
} hymt_joined_t;


static size_t hymt_joined_len(const hymt_joined_t *j);
static size_t hymt_joined_peek(const hymt_joined_t *j, size_t at,
    char window[4]);
static size_t hymt_detok_step(const char *window, size_t n, bool *broken);


hymt_status_t
hymt_detok_push(const hymt_tokenizer_t *tok, hymt_detok_t *d, uint32_t id,
    char *out, size_t cap, size_t *n)
{
    bool           broken;
    char           window[4];
    size_t         at, len, step, used, left;
    uint32_t       tail_len;
    hymt_joined_t  j;

    *n = 0;

    if (hymt_tokenizer_special(tok, id)
        || !hymt_tokenizer_bytes(tok, id, &j.tail, &tail_len))
    {
        return HYMT_OK;
    }

    j.head = d;
    j.tail_len = tail_len;
    len = hymt_joined_len(&j);
    used = 0;

    for (at = 0; at < len; at += step) {

        left = hymt_joined_peek(&j, at, window);
        step = hymt_detok_step(window, left, &broken);

        if (step == 0) {
            break;
        }

        if (cap - used < (broken ? HYMT_REPLACEMENT_LEN : step)) {
            return HYMT_TOO_LONG;
        }

        if (broken) {
            memcpy(out + used, HYMT_REPLACEMENT, HYMT_REPLACEMENT_LEN);
            used += HYMT_REPLACEMENT_LEN;

        } else {
            memcpy(out + used, window, step);
            used += step;
        }
    }

    /* at most three bytes can wait for a fourth */

    left = hymt_joined_peek(&j, at, window);
    memcpy(d->pending, window, left);
    d->n = (uint32_t) left;
    *n = used;

    return HYMT_OK;
}


static size_t
hymt_joined_len(const hymt_joined_t *j)
{
    return j->head->n + j->tail_len;
}


/* Up to four bytes from at on; returns how many. */
static size_t
hymt_joined_peek(const hymt_joined_t *j, size_t at, char window[4])
{
    size_t  i, n;

    n = hymt_min(hymt_joined_len(j) - at, 4);

    for (i = 0; i < n; i++) {
        window[i] = at + i < j->head->n ? j->head->pending[at + i]
                                        : j->tail[at + i - j->head->n];
    }

    return n;
}


/*
 * The length of the code point, or of the maximal broken part, that window [n]
 * begins with; 0 where further bytes decide.  n < 4 only at the end.
 */
static size_t
hymt_detok_step(const char *window, size_t n, bool *broken)
{
    size_t  i;

    *broken = false;

    if ((unsigned char) window[0] < 0x80) {
        return 1;
    }

    for (i = 2; i <= n; i++) {
        if (hymt_utf8_check(window, i, NULL)) {
            return i;
        }
    }

    if (n < 4 && hymt_utf8_whole(window, n) == 0) {
        return 0;
    }

    *broken = true;

    /* the longest beginning that bytes could have completed */

    for (i = hymt_min(n, 3); i > 1; i--) {
        if (hymt_utf8_whole(window, i) == 0) {
            break;
        }
    }

    return i;
}


hymt_status_t
hymt_detok_end(hymt_detok_t *d, char *out, size_t cap, size_t *n)
{
    *n = 0;

    if (d->n == 0) {
        return HYMT_OK;
    }

    if (cap < HYMT_REPLACEMENT_LEN) {
        return HYMT_TOO_LONG;
    }

    memcpy(out, HYMT_REPLACEMENT, HYMT_REPLACEMENT_LEN);
    *n = HYMT_REPLACEMENT_LEN;
    d->n = 0;

    return HYMT_OK;
}
