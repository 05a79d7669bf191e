/*
 * cpu_kernels.h - what the tests of single CPU operators share: random input
 * with a few extremes, poisoned and guarded output, distances.
 *
 * Lines of a guarded buffer are n floats wide and ld apart; what lies between
 * and after them must keep its poison.
 */

#ifndef HYMT_CPU_KERNELS_H
#define HYMT_CPU_KERNELS_H

#include "kernels.h"
#include "tap.h"


#define KERNELS_GUARD  64      /* floats after the last line */


static const char *const  kernels_names[] = { "scalar", "avx2", "avx512" };


static uint64_t  kernels_random_state = 20240101;


static inline uint32_t
kernels_random(uint32_t n)
{
    kernels_random_state = kernels_random_state * 6364136223846793005u + 1;

    return (uint32_t) (kernels_random_state >> 33) % n;
}


/* Mostly in [-2, 2], one in 200 a hundred times that. */
static inline float
kernels_float(void)
{
    float  x;

    x = (float) kernels_random(1 << 20) / (1 << 18) - 2;

    return kernels_random(200) ? x : x * 100;
}


static inline float *
kernels_input(size_t n)
{
    float   *x;
    size_t   i;

    x = malloc(n * sizeof(float));

    for (i = 0; i < n; i++) {
        x[i] = kernels_float();
    }

    return x;
}


static inline float *
kernels_output(size_t lines, size_t ld)
{
    size_t   bytes;
    float   *y;

    bytes = (lines * ld + KERNELS_GUARD) * sizeof(float);
    y = aligned_alloc(64, hymt_round_up(bytes, 64));
    memset(y, 0xff, hymt_round_up(bytes, 64));

    return y;
}


/* The floats outside [lines][n] that are not poison any more. */
static inline uint32_t
kernels_touched(const float *y, size_t lines, size_t n, size_t ld)
{
    size_t    i;
    uint32_t  bits, touched;

    touched = 0;

    for (i = 0; i < lines * ld + KERNELS_GUARD; i++) {
        if (i < lines * ld && i % ld < n) {
            continue;
        }

        memcpy(&bits, &y[i], sizeof(bits));
        touched += bits != UINT32_MAX;
    }

    return touched;
}


static inline double
kernels_distance(const float *got, const double *want, size_t n)
{
    double  diff, sum;
    size_t  i;

    diff = 0;
    sum = 0;

    for (i = 0; i < n; i++) {
        diff += ((double) got[i] - want[i]) * ((double) got[i] - want[i]);
        sum += want[i] * want[i];
    }

    return sum == 0 ? sqrt(diff) : sqrt(diff / sum);
}


#endif /* HYMT_CPU_KERNELS_H */
