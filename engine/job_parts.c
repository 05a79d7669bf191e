/*
 * job_parts.c - writes and reads terms, chats and stop strings.
 */

#include "job_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>


static const char  hymt_role_letters[HYMT_N_ROLES] = {
    [HYMT_ROLE_SYSTEM] = 's',
    [HYMT_ROLE_USER] = 'u',
    [HYMT_ROLE_ASSISTANT] = 'a',
};


static const char *hymt_turn_read(const char *p, const char *end,
    hymt_turn_t *turn);


char *
hymt_term_write(char *p, const hymt_term_t *term)
{
    memcpy(p, term->src, term->src_len);
    p += term->src_len;
    *p++ = '\t';

    memcpy(p, term->tgt, term->tgt_len);
    p += term->tgt_len;
    *p++ = '\n';

    return p;
}


hymt_status_t
hymt_terms_read(const char *part, size_t len, hymt_term_t *terms, size_t *n,
    hymt_error_t *err)
{
    const char   *p, *end, *tab, *line;
    hymt_term_t  *t;

    *n = 0;
    end = part + len;

    for (p = part; p < end; p = line + 1) {

        if (*n == HYMT_MAX_TERMS) {
            return hymt_fail(err, "more than %d terms", HYMT_MAX_TERMS);
        }

        line = memchr(p, '\n', (size_t) (end - p));
        tab = line == NULL ? NULL : memchr(p, '\t', (size_t) (line - p));

        if (tab == NULL) {
            return hymt_fail(err, "term %zu is not \"source, tab, translation,"
                             " line end\"", *n + 1);
        }

        t = &terms[(*n)++];
        t->src = p;
        t->src_len = (size_t) (tab - p);
        t->tgt = tab + 1;
        t->tgt_len = (size_t) (line - tab - 1);
    }

    return HYMT_OK;
}


char *
hymt_turn_write(char *p, const hymt_turn_t *turn)
{
    char  head[HYMT_TURN_EXTRA + 1];
    int   n;

    n = snprintf(head, sizeof(head), "%c %" PRIu32 "\n",
                 hymt_role_letters[turn->role], (uint32_t) turn->len);

    memcpy(p, head, (size_t) n);
    p += n;

    if (turn->len > 0) {
        memcpy(p, turn->content, turn->len);
        p += turn->len;
    }

    return p;
}


hymt_status_t
hymt_turns_read(const char *part, size_t len, hymt_turn_t *turns, size_t *n,
    hymt_error_t *err)
{
    const char  *p, *end;

    *n = 0;
    end = part + len;

    for (p = part; p < end; /* void */ ) {

        if (*n == HYMT_MAX_TURNS) {
            return hymt_fail(err, "more than %d messages", HYMT_MAX_TURNS);
        }

        p = hymt_turn_read(p, end, &turns[*n]);

        if (p == NULL) {
            return hymt_fail(err, "message %zu is not \"role, length, line"
                             " end\" and as many bytes", *n + 1);
        }

        (*n)++;
    }

    return HYMT_OK;
}


/* The end of the turn at p < end, or NULL. */
static const char *
hymt_turn_read(const char *p, const char *end, hymt_turn_t *turn)
{
    size_t       len, digits;
    const char  *role;

    role = memchr(hymt_role_letters, *p++, HYMT_N_ROLES);

    if (role == NULL || p == end || *p++ != ' ') {
        return NULL;
    }

    for (len = 0, digits = 0;
         p < end && *p >= '0' && *p <= '9' && digits < 10;
         p++, digits++)
    {
        len = len * 10 + (size_t) (*p - '0');
    }

    if (digits == 0 || p == end || *p++ != '\n'
        || len > (size_t) (end - p))
    {
        return NULL;
    }

    turn->role = (hymt_role_t) (role - hymt_role_letters);
    turn->content = p;
    turn->len = len;

    return p + len;
}


hymt_status_t
hymt_stops_check(const char *part, size_t len, hymt_error_t *err)
{
    size_t  i, from, n;

    if (len > HYMT_STOPS_BYTES) {
        return hymt_fail(err, "the stop strings take %zu bytes: at most %d",
                         len, HYMT_STOPS_BYTES);
    }

    if (len != 0 && part[len - 1] != '\0') {
        return hymt_fail(err, "the last stop string does not end");
    }

    for (i = 0, n = 0, from = 0; i < len; i++) {

        if (part[i] != '\0') {
            continue;
        }

        if (i == from || n++ == HYMT_MAX_STOPS) {
            return hymt_fail(err, "a stop string is empty, or there are more"
                             " than %d", HYMT_MAX_STOPS);
        }

        from = i + 1;
    }

    return HYMT_OK;
}


bool
hymt_stops_seen(const char *stops, size_t len, const char *text, size_t from,
    size_t text_len)
{
    size_t       n, back;
    const char  *s, *end;

    end = stops + len;

    for (s = stops; s < end; s += n + 1) {
        n = strlen(s);
        back = hymt_min(from, n - 1);

        if (memmem(text + from - back, text_len - from + back, s, n) != NULL) {
            return true;
        }
    }

    return false;
}
