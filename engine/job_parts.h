/*
 * job_parts.h - how terms and a chat are written in a job's parts: a client
 * writes them, the host reads them and believes nothing.
 *
 * Terms: a line for each, "source TAB translation LF".  A chat: for each turn
 * "R N LF" and N bytes of content, where R is s, u or a (system, user,
 * assistant) and N is decimal.
 *
 * Thread: any.
 */

#ifndef HYMT_JOB_PARTS_H
#define HYMT_JOB_PARTS_H

#include "prompt.h"


#define HYMT_MAX_TERMS  256
#define HYMT_MAX_TURNS  256

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


#endif /* HYMT_JOB_PARTS_H */
