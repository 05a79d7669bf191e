/*
 * kernels_avx2.c - the operators of kernels.h for AVX2 and FMA.
 */

#include "kernels.h"

#if defined(__x86_64__)

#include "simd.h"

#include <math.h>
#include <string.h>

#include "gemm_impl.h"
#include "attention_impl.h"
#include "ops_impl.h"


const hymt_kernels_t  hymt_kernels_avx2 = {
    .name = "avx2",
    .gemm = hymt_gemm,
    .attention = hymt_attention,
    .rms_norm = hymt_rms_norm,
    .silu_mul = hymt_silu_mul,
    .add = hymt_add,
};

#else

typedef int  hymt_kernels_not_here_t;

#endif
