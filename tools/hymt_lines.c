/*
 * hymt_lines.c - see hymt_lines.h.
 */

#include "hymt_lines.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


#define HYMT_READ  ((size_t) 64 * 1024)


static hymt_status_t hymt_lines_fill(hymt_lines_t *lines, bool wait);


void
hymt_lines_init(hymt_lines_t *lines, int fd)
{
    memset(lines, 0, sizeof(*lines));
    lines->fd = fd;
}


void
hymt_lines_free(hymt_lines_t *lines)
{
    free(lines->buf);
}


hymt_status_t
hymt_lines_next(hymt_lines_t *lines, bool wait, char **line, size_t *len)
{
    char           *p;
    hymt_status_t   rc;

    for ( ;; ) {
        p = lines->len > lines->scanned
            ? memchr(lines->buf + lines->scanned, '\n',
                     lines->len - lines->scanned)
            : NULL;

        if (p != NULL || (lines->end && lines->at < lines->len)) {
            *line = lines->buf + lines->at;
            *len = p != NULL ? (size_t) (p - *line)
                             : lines->len - lines->at;

            lines->at += *len + (p != NULL);
            lines->scanned = lines->at;

            return HYMT_OK;
        }

        if (lines->end) {
            return HYMT_DECLINED;
        }

        lines->scanned = lines->len;

        rc = hymt_lines_fill(lines, wait);

        if (rc != HYMT_OK) {
            return rc;
        }
    }
}


static hymt_status_t
hymt_lines_fill(hymt_lines_t *lines, bool wait)
{
    char           *buf;
    size_t          cap;
    ssize_t         n;
    struct pollfd   p;

    p.fd = lines->fd;
    p.events = POLLIN;

    if (!wait && poll(&p, 1, 0) == 0) {
        return HYMT_AGAIN;
    }

    if (lines->at > 0) {
        memmove(lines->buf, lines->buf + lines->at, lines->len - lines->at);
        lines->len -= lines->at;
        lines->scanned -= lines->at;
        lines->at = 0;
    }

    if (lines->cap - lines->len < HYMT_READ) {
        cap = lines->cap * 2 + HYMT_READ;

        buf = realloc(lines->buf, cap);
        if (buf == NULL) {
            errno = ENOMEM;
            return HYMT_ERROR;
        }

        lines->buf = buf;
        lines->cap = cap;
    }

    n = read(lines->fd, lines->buf + lines->len, HYMT_READ);

    if (n == -1) {
        return errno == EINTR ? HYMT_OK : HYMT_ERROR;
    }

    lines->end = n == 0;
    lines->len += (size_t) n;

    return HYMT_OK;
}
