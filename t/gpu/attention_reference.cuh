/*
 * attention_reference.cuh - attention in double, row by row, and how far a run
 * of attention_test.cu is from it.
 */

#ifndef HYMT_ATTENTION_REFERENCE_CUH
#define HYMT_ATTENTION_REFERENCE_CUH

#include "attention_test.cuh"


/*
 * One row and head.  rounded: with P of each tile rounded to bf16 as the kernel
 * does, else the exact softmax.
 */
static void
reference(const fixture_t *f, uint32_t seq, uint32_t pos, uint32_t head,
    bool rounded, double *out)
{
    double           m, l, max, sum, p, a, b, scale, acc[HYMT_HEAD_DIM], s[64];
    uint32_t         n;
    const uint16_t  *q, *k, *v;

    scale = 1.0 / sqrt((double) HYMT_HEAD_DIM);
    q = f->q + ((size_t) (f->seqs[seq].row + pos) * f->n_heads + head)
        * HYMT_HEAD_DIM;

    m = -INFINITY;
    l = 0;
    memset(out, 0, HYMT_HEAD_DIM * sizeof(double));

    for (uint32_t first = 0; first <= pos; first += HYMT_ATTN_TILE) {
        n = pos + 1 - first < HYMT_ATTN_TILE ? pos + 1 - first
                                             : HYMT_ATTN_TILE;
        max = -INFINITY;

        for (uint32_t i = 0; i < n; i++) {
            k = f->cache + cache_at(f, &f->seqs[seq], first + i,
                                    head / f->group, 0);
            s[i] = 0;

            for (uint32_t d = 0; d < HYMT_HEAD_DIM; d++) {
                s[i] += (double) bf16_float(q[d]) * bf16_float(k[d]);
            }

            s[i] *= scale;
            max = s[i] > max ? s[i] : max;
        }

        sum = 0;
        memset(acc, 0, sizeof(acc));

        for (uint32_t i = 0; i < n; i++) {
            v = f->cache + cache_at(f, &f->seqs[seq], first + i,
                                    head / f->group, 1);
            p = exp(s[i] - max);
            sum += p;
            p = rounded ? bf16_float(bf16((float) p)) : p;

            for (uint32_t d = 0; d < HYMT_HEAD_DIM; d++) {
                acc[d] += p * bf16_float(v[d]);
            }
        }

        a = exp(m - (max > m ? max : m));
        b = exp(max - (max > m ? max : m));
        m = max > m ? max : m;
        l = l * a + sum * b;

        for (uint32_t d = 0; d < HYMT_HEAD_DIM; d++) {
            out[d] = out[d] * a + acc[d] * b;
        }
    }

    for (uint32_t d = 0; d < HYMT_HEAD_DIM; d++) {
        out[d] /= l;
    }
}


/*
 * ||o - ref|| / ||ref|| over `n` rows drawn from all, every head, the ends of
 * sequences always.  bf16 alone rounds by 1.7e-3 of a value on average, P
 * rounded to bf16 adds about as much.  From the reference that rounds both
 * where the kernels do, what is left are numbers that fp32's own errors push
 * across a border of rounding, 2^-8 of a value each: 5 % of them in contexts of
 * 8192 make 6e-4.
 */
static void
is_close(const fixture_t *f, uint32_t n, const char *what)
{
    double           ref[HYMT_HEAD_DIM], near[HYMT_HEAD_DIM];
    double           err[2], sum, x;
    uint32_t         seq, pos, head;
    const uint16_t  *o;

    err[0] = 0;
    err[1] = 0;
    sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        seq = i < f->n_seqs ? i : random_u32() % f->n_seqs;
        pos = i < f->n_seqs ? f->seqs[seq].len - 1
                            : random_u32() % f->seqs[seq].len;

        for (head = i % 2; head < f->n_heads; head += 2) {
            reference(f, seq, pos, head, false, ref);
            reference(f, seq, pos, head, true, near);

            o = f->want + ((size_t) (f->seqs[seq].row + pos) * f->n_heads
                           + head) * HYMT_HEAD_DIM;

            for (uint32_t d = 0; d < HYMT_HEAD_DIM; d++) {
                x = bf16_float(o[d]);
                err[0] += (x - ref[d]) * (x - ref[d]);
                x -= bf16_float(bf16((float) near[d]));
                err[1] += x * x;
                sum += ref[d] * ref[d];
            }
        }
    }

    err[0] = sqrt(err[0] / sum);
    err[1] = sqrt(err[1] / sum);

    ok(err[0] < 4e-3, "%s: %.2e from the exact softmax", what, err[0]);
    ok(err[1] < 1e-3, "%s: %.2e from the one that rounds P", what, err[1]);
}


#endif /* HYMT_ATTENTION_REFERENCE_CUH */
