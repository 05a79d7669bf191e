/*
 * kernels_avx512.c - the operators of kernels.h for AVX-512 (F, BW, VL, DQ).
 */

#include "kernels.h"

#if defined(__x86_64__)

#include "simd.h"

#include <math.h>
#include <string.h>

#include "gemm_impl.h"
#include "attention_impl.h"
#include "ops_impl.h"


const hymt_kernels_t  hymt_kernels_avx512 = {
    .name = "avx512",
    .gemm = hymt_gemm,
    .attention = hymt_attention,
    .rms_norm = hymt_rms_norm,
    .silu_mul = hymt_silu_mul,
    .add = hymt_add,
};

#else

typedef int  hymt_kernels_not_here_t;

#endif
