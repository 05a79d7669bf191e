/*
 * ops_impl.h - the operators between the matrices; see kernels.h.
 *
 * Included by kernels_*.c only.
 */


static void
hymt_rms_norm(float *y, const float *x, const float *w, uint32_t n,
    uint32_t n_mean, float eps)
{
    vf_t      v, sum;
    float     r;
    uint32_t  i;

    sum = vf_set1(0);

    for (i = 0; i < n; i += HYMT_LANES) {
        v = vf_load(x + i);
        sum = vf_fma(v, v, sum);
    }

    r = 1.0f / sqrtf(vf_sum(sum) / (float) n_mean + eps);

    for (i = 0; i < n; i += HYMT_LANES) {
        vf_store(y + i, vf_load(w + i) * (vf_load(x + i) * vf_set1(r)));
    }
}


static void
hymt_silu_mul(float *y, const float *g, const float *u, uint32_t n)
{
    vf_t      v, s;
    uint32_t  i;

    for (i = 0; i < n; i += HYMT_LANES) {
        v = vf_load(g + i);
        s = v / (vf_set1(1.0f) + vf_exp(-v));
        vf_store(y + i, s * vf_load(u + i));
    }
}


static void
hymt_add(float *y, const float *x, uint32_t n)
{
    uint32_t  i;

    for (i = 0; i < n; i += HYMT_LANES) {
        vf_store(y + i, vf_load(y + i) + vf_load(x + i));
    }
}
