/*
 * kernels.c - see kernels.h.
 */

#include "kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>


static bool hymt_kernels_runs(const char *name);


static const hymt_kernels_t *const  hymt_kernels_all[] = {
#if defined(__x86_64__)
    &hymt_kernels_avx512,
    &hymt_kernels_avx2,
#endif
    &hymt_kernels_scalar,
};


hymt_status_t
hymt_kernels_select(const hymt_kernels_t **kernels, hymt_error_t *err)
{
    size_t       i;
    const char  *name;

    name = getenv("HYMT_CPU_ISA");

    if (name != NULL && name[0] != '\0') {
        *kernels = hymt_kernels_find(name);

        if (*kernels == NULL) {
            return hymt_fail(err, "HYMT_CPU_ISA=%.32s: this host has no such"
                             " kernels; scalar, avx2 and avx512 exist", name);
        }

        return HYMT_OK;
    }

    for (i = 0; i < hymt_nelts(hymt_kernels_all); i++) {
        if (hymt_kernels_runs(hymt_kernels_all[i]->name)) {
            *kernels = hymt_kernels_all[i];
            break;
        }
    }

    return HYMT_OK;
}


const hymt_kernels_t *
hymt_kernels_find(const char *name)
{
    size_t  i;

    for (i = 0; i < hymt_nelts(hymt_kernels_all); i++) {
        if (strcmp(hymt_kernels_all[i]->name, name) == 0
            && hymt_kernels_runs(name))
        {
            return hymt_kernels_all[i];
        }
    }

    return NULL;
}


static bool
hymt_kernels_runs(const char *name)
{
#if defined(__x86_64__)

    if (strcmp(name, "avx512") == 0) {
        return __builtin_cpu_supports("avx512f")
               && __builtin_cpu_supports("avx512bw")
               && __builtin_cpu_supports("avx512vl")
               && __builtin_cpu_supports("avx512dq")
               && __builtin_cpu_supports("avx2")
               && __builtin_cpu_supports("fma");
    }

    if (strcmp(name, "avx2") == 0) {
        return __builtin_cpu_supports("avx2")
               && __builtin_cpu_supports("fma");
    }

#endif

    return strcmp(name, "scalar") == 0;
}


void
hymt_rope_inv_freq(const hymt_config_t *config, float *inv_freq)
{
    float     base, exponent, power;
    uint32_t  i;

    base = (float) config->rope_base;

    for (i = 0; i < config->head_dim / 2; i++) {
        exponent = (float) (2 * i) / (float) config->head_dim;
        power = (float) pow((double) base, (double) exponent);
        inv_freq[i] = 1.0f / power;
    }
}


void
hymt_rope(float *x, const float *cos, const float *sin, uint32_t half)
{
    float     a, b;
    uint32_t  i;

    for (i = 0; i < half; i++) {
        a = x[i];
        b = x[i + half];

        x[i] = a * cos[i] - b * sin[i];
        x[i + half] = b * cos[i] + a * sin[i];
    }
}
