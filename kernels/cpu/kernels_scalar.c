/*
 * kernels_scalar.c - the operators of kernels.h for any host: plain C.
 */

#include "kernels.h"

#include "simd.h"

#include <math.h>
#include <string.h>

#include "gemm_impl.h"
#include "attention_impl.h"
#include "ops_impl.h"


const hymt_kernels_t  hymt_kernels_scalar = {
    .name = "scalar",
    .gemm = hymt_gemm,
    .attention = hymt_attention,
    .rms_norm = hymt_rms_norm,
    .silu_mul = hymt_silu_mul,
    .add = hymt_add,
};
