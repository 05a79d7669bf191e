/*
 * histogram.h - bounds of the buckets that steps are counted in.
 *
 * Bucket i counts values up to bounds[i], the last one the rest.
 */

#ifndef HYMT_HISTOGRAM_H
#define HYMT_HISTOGRAM_H

#include <stdint.h>


#define HYMT_BUCKETS  16


/* How long a step takes, ns; how many sequences it carries. */
extern const uint64_t hymt_step_bounds[HYMT_BUCKETS - 1];
extern const uint64_t hymt_batch_bounds[HYMT_BUCKETS - 1];


uint32_t hymt_bucket(const uint64_t *bounds, uint64_t value);


#endif /* HYMT_HISTOGRAM_H */
