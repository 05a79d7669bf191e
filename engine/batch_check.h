/*
 * batch_check.h - what a backend refuses of the parameters it is made with and
 * of a step's batch, whichever backend it is.
 *
 * Thread: any; no state, no allocation.
 */

#ifndef HYMT_BATCH_CHECK_H
#define HYMT_BATCH_CHECK_H

#include "backend.h"


/* Nothing is 0, and the model's positions are enough; name: of the backend. */
hymt_status_t hymt_backend_params_check(const char *name,
    const hymt_backend_params_t *p, const hymt_config_t *c, hymt_error_t *err);

/*
 * Slots, rows, positions, KV blocks and tokens are in range.  A sequence
 * without tokens goes on with one that the backend knows, and checks.
 */
hymt_status_t hymt_batch_check(const hymt_batch_t *batch,
    const hymt_backend_params_t *p, const hymt_config_t *c, hymt_error_t *err);


#endif /* HYMT_BATCH_CHECK_H */
