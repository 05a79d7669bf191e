/*
 * job_parts.h - how terms, a chat and stop strings are written in a job's
 * parts: a client writes them, the host reads them and believes nothing.
 *
 * Terms: a line for each, "source TAB translation LF".  A chat: for each turn
 * "R N LF" and N bytes of content, where R is s, u or a (system, user,
 * assistant) and N is decimal.  Stop strings: each with a NUL behind it.
 *
 * Thread: any.
 */

#ifndef HYMT_JOB_PARTS_H
#define HYMT_JOB_PARTS_H

#include "prompt.h"


#define HYMT_MAX_TERMS  256
#define HYMT_MAX_TURNS  256
#define HYMT_MAX_STOPS  8

/* Most bytes of the stop strings of a job, with their NULs. */
#define HYMT_STOPS_BYTES  1024

/* Most bytes that writing one takes beside its own. */
#define HYMT_TERM_EXTRA  2
#define HYMT_TURN_EXTRA  13


/*
 * Appends at p, which has room for it, and returns its end.  A term has no TAB
 * and no LF in it (no control character at all: a host refuses them); a turn
 * has less than 2^32 bytes.
 */
char *hymt_term_write(char *p, const hymt_term_t *term);
char *hymt_turn_write(char *p, const hymt_turn_t *turn);


/*
 * Reads a part into terms [HYMT_MAX_TERMS] or turns [HYMT_MAX_TURNS], which
 * point into it.  HYMT_ERROR: not what a client writes, or more than those;
 * UTF-8 and what the texts hold is prompt.h's to judge.
 */
hymt_status_t hymt_terms_read(const char *part, size_t len,
    hymt_term_t *terms, size_t *n, hymt_error_t *err);
hymt_status_t hymt_turns_read(const char *part, size_t len,
    hymt_turn_t *turns, size_t *n, hymt_error_t *err);

/* HYMT_ERROR: more or longer than the above, an empty one, no NUL behind. */
hymt_status_t hymt_stops_check(const char *part, size_t len,
    hymt_error_t *err);

/*
 * Whether one of the stop strings [len], which were checked, is in text from
 * `from` on, or ends there.
 */
bool hymt_stops_seen(const char *stops, size_t len, const char *text,
    size_t from, size_t text_len);


#endif /* HYMT_JOB_PARTS_H */
