/*
 * hymt_lines.h - lines of a descriptor, for a program that has other things to
 * do while none comes.
 */

#ifndef HYMT_LINES_H
#define HYMT_LINES_H

#include "base.h"


typedef struct {
    int      fd;
    char    *buf;
    size_t   cap;
    size_t   at;        /* bytes given out */
    size_t   len;       /* bytes read */
    size_t   scanned;   /* no newline before it */
    bool     end;
} hymt_lines_t;


void hymt_lines_init(hymt_lines_t *lines, int fd);

void hymt_lines_free(hymt_lines_t *lines);


/*
 * The next line, without its newline; valid until the next call.  The last one
 * may lack a newline.
 *
 * HYMT_AGAIN: none yet, where `wait` is false; HYMT_DECLINED: the end;
 * HYMT_ERROR: errno says why.
 */
hymt_status_t hymt_lines_next(hymt_lines_t *lines, bool wait, char **line,
    size_t *len);


#endif /* HYMT_LINES_H */
