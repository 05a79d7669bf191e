/*
 * histogram.c - see histogram.h.
 */

#include "histogram.h"


const uint64_t  hymt_step_bounds[HYMT_BUCKETS - 1] = {
    250000, 500000, 1000000, 2000000, 4000000, 8000000, 16000000, 32000000,
    64000000, 128000000, 256000000, 512000000, 1000000000, 2000000000,
    4000000000
};


const uint64_t  hymt_batch_bounds[HYMT_BUCKETS - 1] = {
    1, 2, 4, 6, 8, 12, 16, 24, 32, 64, 128, 192, 256, 512, 1024
};


uint32_t
hymt_bucket(const uint64_t *bounds, uint64_t value)
{
    uint32_t  i;

    for (i = 0; i < HYMT_BUCKETS - 1 && value > bounds[i]; i++) { /* void */ }

    return i;
}
