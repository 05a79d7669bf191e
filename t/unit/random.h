/*
 * random.h - numbers that come again with their seed: xorshift, rng is not 0.
 */

#ifndef HYMT_RANDOM_H
#define HYMT_RANDOM_H

#include <stdint.h>


static uint64_t  rng = 88172645463325252;


/* Below n. */
static inline uint32_t
roll(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;

    return (uint32_t) (rng >> 32) % n;
}


#endif /* HYMT_RANDOM_H */
