/*
 * kernels.h - the operators of the CPU backend, one table for each instruction
 * set, and the layouts they read and write.
 *
 * Every operator is written once, in gemm_impl.h, attention_impl.h and
 * ops_impl.h, in terms of the vectors of simd.h; kernels_scalar.c (which runs
 * anywhere), kernels_avx2.c and kernels_avx512.c compile it for their
 * instruction set.
 *
 * Promise: the bits of one row of a result depend on that row's input and on
 * the weight alone, not on how many rows are computed together nor on how they
 * are cut into calls.  Every sum has one order, that of k (or of the tokens)
 * upwards; vectors lie across outputs, so no sum is ever split by their width.
 *
 * Thread: any; the kernels have no state.
 */

#ifndef HYMT_KERNELS_H
#define HYMT_KERNELS_H

#include "backend.h"


/* Rows of a weight that lie side by side in a panel. */
#define HYMT_PANEL  32

/*
 * k is summed in blocks of so many, and the blocks' sums are then added: a
 * weight's slice stays in the L1 cache for all rows of x, and the rounding
 * error of a long sum grows with the block, not with K.
 */
#define HYMT_K_BLOCK  256

/* Buffers and rows that vectors touch start at multiples of this. */
#define HYMT_ALIGN  64

#define hymt_round_up(n, to)  (hymt_ceil_div(n, to) * (to))


/*
 * A weight [n][k] in panels of 32 rows; panel p holds, for k from 0 up, the 32
 * values of its rows:
 *   bf16: 16 words of 32 bits, word j = row j in the low and row j + 16 in the
 *         high half, so that one shift and one mask make two vectors of f32;
 *   f32:  32 floats.
 * Rows beyond n are zero.
 */
typedef struct {
    void      *data;          /* owned by who allocated it */
    uint32_t   n;
    uint32_t   k;
    uint32_t   n_panels;      /* ceil(n / 32) */
    bool       f32;
} hymt_matrix_t;


/*
 * One kv head's attention for a run of rows of one sequence.
 *
 * A KV block of this layer and head is K transposed, [dim][16], then V,
 * [16][dim], dim being head_dim rounded up to 16 (the rest of q, K and V is
 * zero there); the blocks of a pool follow each other at block_stride floats.
 */
typedef struct {
    const float     *kv;            /* block 0 of the layer, this head's part */
    size_t           block_stride;  /* floats */
    const uint32_t  *blocks;        /* the sequence's table */
    const float     *q;             /* row 0: [group][dim] */
    size_t           q_stride;      /* floats from row to row */
    float           *out;           /* [n_rows][group][dim], dense */
    float           *state;         /* scratch, [n_rows][group][18] */
    uint32_t         n_rows;
    uint32_t         group;         /* query heads of this kv head */
    uint32_t         dim;
    uint32_t         pos;           /* of row 0; row i sees 0 .. pos + i */
    float            scale;
} hymt_attention_t;


typedef struct {
    const char  *name;          /* "scalar", "avx2", "avx512" */

    /*
     * y[m][n] = sum_k x[m][k] * w[n][k]    x f32 [m, K], w bf16 or f32 [N, K]
     *
     * for the panels [panel, panel + n_panels) of w.  y points at the first of
     * these columns; 32 columns are written for each panel.  x and y rows are
     * ldx and ldy floats apart; y 64-byte aligned, ldy a multiple of 16.
     */
    void (*gemm)(const hymt_matrix_t *w, uint32_t panel, uint32_t n_panels,
        const float *x, size_t ldx, uint32_t m, float *y, size_t ldy);

    void (*attention)(const hymt_attention_t *a);

    /*
     * y[i] = w[i] * (x[i] / sqrt(mean(x^2) + eps)); n is a multiple of 16, the
     * mean is over the first n_mean (the rest being zero).  y may be x.
     */
    void (*rms_norm)(float *y, const float *x, const float *w, uint32_t n,
        uint32_t n_mean, float eps);

    /* y[i] = silu(g[i]) * u[i], n a multiple of 16 */
    void (*silu_mul)(float *y, const float *g, const float *u, uint32_t n);

    /* y[i] += x[i], n a multiple of 16 */
    void (*add)(float *y, const float *x, uint32_t n);
} hymt_kernels_t;


extern const hymt_kernels_t  hymt_kernels_scalar;

#if defined(__x86_64__)
extern const hymt_kernels_t  hymt_kernels_avx2;
extern const hymt_kernels_t  hymt_kernels_avx512;
#endif


/*
 * The best table for this host, or the one that the environment's HYMT_CPU_ISA
 * names (scalar, avx2, avx512): an unknown name or one that this host can't run
 * is an error.
 */
hymt_status_t hymt_kernels_select(const hymt_kernels_t **kernels,
    hymt_error_t *err);

/* The table of that name; NULL where there is none or the host can't run it. */
const hymt_kernels_t *hymt_kernels_find(const char *name);


/*
 * inv_freq [head_dim / 2] of the rotary embedding, with the roundings of
 * PyTorch in fp32: at position 8192 an error in the last bit is an error of
 * 4e-4 in the angle.
 */
void hymt_rope_inv_freq(const hymt_config_t *config, float *inv_freq);


/*
 * x[i], x[i + half] rotated by the angle pos * inv_freq[i], whose cosine and
 * sine are given ("NeoX" halves); half elements each.
 */
void hymt_rope(float *x, const float *cos, const float *sin, uint32_t half);


#endif /* HYMT_KERNELS_H */
