/*
 * selftest.h - what a backend must show before its engine is READY.
 *
 * A short sequence of fixed pseudo-random tokens is computed alone in one
 * chunk, alone in several chunks, and whole among other sequences in other
 * slots and blocks; its next token is computed as a decode row and as a prompt
 * row.  All logits must be finite and, position by position, equal in every
 * bit: batch invariance is what makes an answer the same on a busy server.
 *
 * Large models get a shorter sequence: the test stays at some twenty rows and
 * five steps.
 *
 * Thread: engine thread, nothing else using the backend.
 */

#ifndef HYMT_SELFTEST_H
#define HYMT_SELFTEST_H

#include "backend.h"


/*
 * HYMT_ABORTED where params->stop was raised; HYMT_ERROR says what differed
 * and where.  Slots and blocks are free to use afterwards.
 */
hymt_status_t hymt_selftest(const hymt_backend_ops_t *ops,
    hymt_backend_t *backend, const hymt_backend_params_t *params,
    const hymt_config_t *config, hymt_error_t *err);


#endif /* HYMT_SELFTEST_H */
