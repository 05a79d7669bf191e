/*
 * simd.h - vectors of floats as the kernels use them, in the width of the
 * instruction set that the including file is compiled for: 16 lanes with
 * AVX-512, 8 with AVX2 and FMA, else 4 in plain C vectors (SSE2, NEON, or
 * whatever the compiler makes of them).
 *
 * Only for kernels_*.c.
 */

#ifndef HYMT_SIMD_H
#define HYMT_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif


#if defined(__AVX512F__)
#define HYMT_LANES  16
#elif defined(__AVX2__)
#define HYMT_LANES  8
#else
#define HYMT_LANES  4
#endif

#define hymt_inline  static inline __attribute__((always_inline))


typedef float     vf_t __attribute__((vector_size(4 * HYMT_LANES)));
typedef int32_t   vi_t __attribute__((vector_size(4 * HYMT_LANES)));
typedef uint32_t  vu_t __attribute__((vector_size(4 * HYMT_LANES)));


/* Loads and stores of rows need only the alignment of a float. */


hymt_inline vf_t
vf_load(const float *p)
{
    vf_t  v;

    memcpy(&v, p, sizeof(v));

    return v;
}


hymt_inline void
vf_store(float *p, vf_t v)
{
    memcpy(p, &v, sizeof(v));
}


hymt_inline vu_t
vu_load(const uint32_t *p)
{
    vu_t  v;

    memcpy(&v, p, sizeof(v));

    return v;
}


hymt_inline vf_t
vf_set1(float x)
{
#if HYMT_LANES == 16
    return (vf_t) _mm512_set1_ps(x);
#elif HYMT_LANES == 8
    return (vf_t) _mm256_set1_ps(x);
#else
    return (vf_t) { x, x, x, x };
#endif
}


/* a * b + c, rounded once where the instruction set can */
hymt_inline vf_t
vf_fma(vf_t a, vf_t b, vf_t c)
{
#if HYMT_LANES == 16
    return (vf_t) _mm512_fmadd_ps((__m512) a, (__m512) b, (__m512) c);
#elif HYMT_LANES == 8
    return (vf_t) _mm256_fmadd_ps((__m256) a, (__m256) b, (__m256) c);
#else
    return a * b + c;
#endif
}


/* mask ? a : b, lane by lane; a mask lane is 0 or -1 */
hymt_inline vf_t
vf_select(vi_t mask, vf_t a, vf_t b)
{
    return (vf_t) (((vi_t) a & mask) | ((vi_t) b & ~mask));
}


/* A lane of b that is not a number stays one. */
hymt_inline vf_t
vf_max(vf_t a, vf_t b)
{
#if HYMT_LANES == 16
    return (vf_t) _mm512_max_ps((__m512) a, (__m512) b);
#elif HYMT_LANES == 8
    return (vf_t) _mm256_max_ps((__m256) a, (__m256) b);
#else
    return vf_select(a > b, a, b);
#endif
}


hymt_inline vf_t
vf_min(vf_t a, vf_t b)
{
#if HYMT_LANES == 16
    return (vf_t) _mm512_min_ps((__m512) a, (__m512) b);
#elif HYMT_LANES == 8
    return (vf_t) _mm256_min_ps((__m256) a, (__m256) b);
#else
    return vf_select(a < b, a, b);
#endif
}


/* Sum and maximum over the lanes, halves first. */


hymt_inline float
vf_sum(vf_t v)
{
    int    i, half;
    float  x[HYMT_LANES];

    vf_store(x, v);

    for (half = HYMT_LANES / 2; half >= 1; half /= 2) {
        for (i = 0; i < half; i++) {
            x[i] += x[i + half];
        }
    }

    return x[0];
}


hymt_inline float
vf_top(vf_t v)
{
    int    i, half;
    float  x[HYMT_LANES];

    vf_store(x, v);

    for (half = HYMT_LANES / 2; half >= 1; half /= 2) {
        for (i = 0; i < half; i++) {
            x[i] = x[i] > x[i + half] ? x[i] : x[i + half];
        }
    }

    return x[0];
}


/*
 * e^x to about 1 ulp: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial of
 * degree 6 for e^r, and n added to the exponent.  Below -87 the result stays
 * the smallest normal number; not a number stays so.
 */
hymt_inline vf_t
vf_exp(vf_t x)
{
    vf_t  n, r, p, magic;

    x = vf_min(vf_set1(88.0f), vf_max(vf_set1(-87.0f), x));

    /* adding 1.5 * 2^23 rounds to an integer, which then is the low bits */

    magic = vf_set1(12582912.0f);

    n = vf_fma(x, vf_set1(1.44269504f), magic);
    r = vf_fma(n - magic, vf_set1(-0.693359375f), x);
    r = vf_fma(n - magic, vf_set1(2.12194440e-4f), r);

    p = vf_set1(1.9875691500e-4f);
    p = vf_fma(p, r, vf_set1(1.3981999507e-3f));
    p = vf_fma(p, r, vf_set1(8.3334519073e-3f));
    p = vf_fma(p, r, vf_set1(4.1665795894e-2f));
    p = vf_fma(p, r, vf_set1(1.6666665459e-1f));
    p = vf_fma(p, r, vf_set1(5.0000001201e-1f));
    p = vf_fma(p, r * r, r) + vf_set1(1.0f);

    return vf_select((vi_t) (x == x), (vf_t) ((vi_t) p + ((vi_t) n << 23)), x);
}


#endif /* HYMT_SIMD_H */
