/*
 * attention_impl.h - softmax(q K^T * scale) V over a sequence's KV blocks.
 *
 * Included by kernels_*.c only; hymt_attention_t in kernels.h has the layouts.
 *
 * Blocks are walked from 0 up with a running maximum and a running sum (Milakov
 * and Gimelshein, arXiv 1805.02867), 16 tokens at a time whatever the batch:
 * a query (one row, one head) goes through the same operations in the same
 * order alone or among others.  K lies transposed, so that the 16 scores of a
 * block are the lanes of a vector and need no sum across; queries go four at a
 * time, to read K and V from the cache once for all of them.
 *
 * Nothing is read of tokens beyond a row's own, except K lanes that are masked.
 */

#define HYMT_SCORE_VECS  (HYMT_KV_BLOCK / HYMT_LANES)

/* of a query's state: running maximum, correction, lane sums */
#define HYMT_STATE_MAX   0
#define HYMT_STATE_CORR  1
#define HYMT_STATE_SUM   2
#define HYMT_STATE       18


/* p[i][16] = the scores of nq queries against one block of K */
hymt_inline void
hymt_attention_scores(const float *const *q, const float *kt, uint32_t dim,
    float scale, float (*p)[HYMT_KV_BLOCK], const int nq)
{
    int       i, v;
    vf_t      sum[4][HYMT_SCORE_VECS], key, x;
    uint32_t  d;

#pragma GCC unroll 4
    for (i = 0; i < nq; i++) {
#pragma GCC unroll 4
        for (v = 0; v < HYMT_SCORE_VECS; v++) {
            sum[i][v] = vf_set1(0);
        }
    }

    for (d = 0; d < dim; d++) {
#pragma GCC unroll 4
        for (v = 0; v < HYMT_SCORE_VECS; v++) {
            key = vf_load(kt + d * HYMT_KV_BLOCK + v * HYMT_LANES);

#pragma GCC unroll 4
            for (i = 0; i < nq; i++) {
                x = vf_set1(q[i][d]);
                sum[i][v] = vf_fma(x, key, sum[i][v]);
            }
        }
    }

#pragma GCC unroll 4
    for (i = 0; i < nq; i++) {
#pragma GCC unroll 4
        for (v = 0; v < HYMT_SCORE_VECS; v++) {
            vf_store(p[i] + v * HYMT_LANES, sum[i][v] * vf_set1(scale));
        }
    }
}


/*
 * Turns the scores of the first n tokens of a block into weights relative to
 * the running maximum, and brings the query's state up to it.
 */
static void
hymt_attention_softmax(float *p, float *state, uint32_t n)
{
    vf_t      top, e, sum, m, corr;
    float     max;
    uint32_t  i;

    for (i = n; i < HYMT_KV_BLOCK; i++) {
        p[i] = -INFINITY;
    }

    top = vf_load(p);

    for (i = HYMT_LANES; i < HYMT_KV_BLOCK; i += HYMT_LANES) {
        top = vf_max(top, vf_load(p + i));
    }

    max = vf_top(top);
    max = state[HYMT_STATE_MAX] > max ? state[HYMT_STATE_MAX] : max;

    m = vf_set1(max);
    corr = vf_exp(vf_set1(state[HYMT_STATE_MAX]) - m);

    for (i = 0; i < HYMT_KV_BLOCK; i += HYMT_LANES) {
        e = vf_exp(vf_load(p + i) - m);
        vf_store(p + i, e);
    }

    for (i = n; i < HYMT_KV_BLOCK; i++) {
        p[i] = 0;
    }

    for (i = 0; i < HYMT_KV_BLOCK; i += HYMT_LANES) {
        sum = vf_load(state + HYMT_STATE_SUM + i);
        sum = vf_fma(sum, corr, vf_load(p + i));
        vf_store(state + HYMT_STATE_SUM + i, sum);
    }

    state[HYMT_STATE_MAX] = max;
    state[HYMT_STATE_CORR] = corr[0];
}


/* out[i] = out[i] * correction + sum over n tokens of p[i][t] * v[t] */
hymt_inline void
hymt_attention_values(float *out, const float *state, const float *v,
    uint32_t dim, float (*p)[HYMT_KV_BLOCK], uint32_t n, const int nq)
{
    int       i;
    vf_t      sum[4], value, x;
    uint32_t  d, t;

    for (d = 0; d < dim; d += HYMT_LANES) {

#pragma GCC unroll 4
        for (i = 0; i < nq; i++) {
            x = vf_set1(state[i * HYMT_STATE + HYMT_STATE_CORR]);
            sum[i] = vf_load(out + (uint32_t) i * dim + d) * x;
        }

        for (t = 0; t < n; t++) {
            value = vf_load(v + t * dim + d);

#pragma GCC unroll 4
            for (i = 0; i < nq; i++) {
                x = vf_set1(p[i][t]);
                sum[i] = vf_fma(x, value, sum[i]);
            }
        }

#pragma GCC unroll 4
        for (i = 0; i < nq; i++) {
            vf_store(out + (uint32_t) i * dim + d, sum[i]);
        }
    }
}


/* nq queries from number `first` (row * group + head) against n tokens. */
hymt_inline void
hymt_attention_queries(const hymt_attention_t *a, uint32_t first,
    const float *block, uint32_t n, const int nq)
{
    int           i;
    float        *out, *state;
    float         p[4][HYMT_KV_BLOCK];
    uint32_t      index;
    const float  *q[4];

    for (i = 0; i < nq; i++) {
        index = first + (uint32_t) i;
        q[i] = a->q + index / a->group * a->q_stride
               + (size_t) (index % a->group) * a->dim;
    }

    out = a->out + (size_t) first * a->dim;
    state = a->state + (size_t) first * HYMT_STATE;

    hymt_attention_scores(q, block, a->dim, a->scale, p, nq);

    for (i = 0; i < nq; i++) {
        hymt_attention_softmax(p[i], state + i * HYMT_STATE, n);
    }

    hymt_attention_values(out, state, block + (size_t) HYMT_KV_BLOCK * a->dim,
                          a->dim, p, n, nq);
}


/* All queries that see tokens of block b, `token` being its first. */
static void
hymt_attention_block(const hymt_attention_t *a, uint32_t b, uint32_t token)
{
    uint32_t      i, row, n, end;
    const float  *block;

    block = a->kv + a->blocks[b] * a->block_stride;
    row = token > a->pos ? token - a->pos : 0;

    i = row * a->group;
    end = a->n_rows * a->group;

    while (i < end) {
        n = a->pos + i / a->group + 1 - token;
        n = hymt_min(n, HYMT_KV_BLOCK);

        /* four queries at once: of one row, or of rows that see all of it */

        if (i + 4 <= end
            && (n == HYMT_KV_BLOCK || i / a->group == (i + 3) / a->group))
        {
            if (n == HYMT_KV_BLOCK) {
                hymt_attention_queries(a, i, block, HYMT_KV_BLOCK, 4);

            } else {
                hymt_attention_queries(a, i, block, n, 4);
            }

            i += 4;

        } else {
            hymt_attention_queries(a, i, block, n, 1);
            i++;
        }
    }
}


static void
hymt_attention(const hymt_attention_t *a)
{
    vf_t      sum, r;
    float    *out;
    uint32_t  i, d, b, n, n_blocks;

    n = a->n_rows * a->group;

    for (i = 0; i < n; i++) {
        memset(a->state + i * HYMT_STATE, 0, HYMT_STATE * sizeof(float));
        a->state[i * HYMT_STATE + HYMT_STATE_MAX] = -INFINITY;
    }

    memset(a->out, 0, (size_t) n * a->dim * sizeof(float));

    n_blocks = hymt_ceil_div(a->pos + a->n_rows, HYMT_KV_BLOCK);

    for (b = 0; b < n_blocks; b++) {
        hymt_attention_block(a, b, b * HYMT_KV_BLOCK);
    }

    for (i = 0; i < n; i++) {
        sum = vf_set1(0);

        for (d = 0; d < HYMT_KV_BLOCK; d += HYMT_LANES) {
            sum += vf_load(a->state + i * HYMT_STATE + HYMT_STATE_SUM + d);
        }

        r = vf_set1(1.0f / vf_sum(sum));
        out = a->out + (size_t) i * a->dim;

        for (d = 0; d < a->dim; d += HYMT_LANES) {
            vf_store(out + d, vf_load(out + d) * r);
        }
    }
}
