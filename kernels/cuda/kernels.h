/*
 * kernels.h - the border between the CUDA backend's host code (plain C) and its
 * kernels (.cu): one argument struct and one launcher for each operator.
 *
 * Everything is bf16 unless said otherwise; sums are fp32.  Rounding points are
 * those of Hugging Face's bf16 forward pass: each line "-> bf16" below is one.
 *
 * What every kernel promises:
 *   - a row's bits depend on that row's inputs alone: the order of each sum
 *     belongs to the operator's shape, never to how many rows there are;
 *   - it reads rows up to `rows`, which a captured graph fixes to its bucket:
 *     rows beyond those in use hold leftovers, are computed and go nowhere
 *     (their kv_dest is -1, their sample rows are never drawn);
 *   - its first action that touches what an earlier kernel wrote comes after
 *     griddepcontrol.wait (sm_90), which EVERY thread block executes, also one
 *     that has nothing to do; before it only weights and launch constants are
 *     read.  Blocks allow the next kernel to start as early as they can.  One
 *     kernel waits otherwise: attention of prompts beside decode rows.
 *
 * Launchers check nothing, allocate nothing, can be captured into a graph, and
 * return cudaGetLastError().  `pdl` in hymt_cuda_t asks for programmatic
 * dependent launch.
 *
 * Thread: the engine thread.
 */

#ifndef HYMT_CUDA_KERNELS_H
#define HYMT_CUDA_KERNELS_H

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
#include <cuda_bf16.h>

typedef __nv_bfloat16  hymt_bf16_t;

extern "C" {
#else

typedef uint16_t  hymt_bf16_t;        /* its bits: C has no such type */
#endif


#define HYMT_HEAD_DIM    128          /* the only one built */
#define HYMT_KV_PAGE     16           /* HYMT_KV_BLOCK of engine/backend.h */
#define HYMT_ATTN_TILE   64           /* positions of one softmax tile */
#define HYMT_GATE_GROUP  8            /* rows of gate, then rows of up, ... */
#define HYMT_TOKEN_SLOT  0x80000000u  /* tokens[]: | slot: its last token */


/* A device as the launchers see it. */
typedef struct {
    int                device;
    int                cc;         /* 80, 86, 89, 90, ... */
    uint32_t           sms;
    uint32_t           smem;       /* bytes a block may have, opted in */
    bool               pdl;        /* cc / 10 == 9: others run other code */
    cudaStream_t       stream;
    cublasLtHandle_t   lt;         /* NULL: own kernels alone */
    void              *workspace;  /* for cublasLt */
    size_t             workspace_bytes;
} hymt_cuda_t;


/* ---- gemm.c, gemm_sm90.cu, gemm_mma.cu, gemm_lt.c, gemm_proof.cu ---- */

/*
 * y[m][n] = sum_k x[m][k] * w[n][k]
 *
 * THE rule of the family: k ascends in steps of 16 within ONE fp32 accumulator,
 * for every weight and every number of rows; no split over k.  So the kernels
 * for few rows, for many, and cublasLt without split-K give the same bits, and
 * hymt_gemm_create() proves it on the device at hand before cublasLt is used.
 */
typedef enum {
    HYMT_GEMM_STORE = 0,  /* y [m][n] bf16 */
    HYMT_GEMM_SILU,       /* w: 8 rows of gate, 8 of up, 8 of gate, ...;
                             y [m][n/2] = bf16(bf16(silu(bf16 gate))
                                               * bf16 up) */
    HYMT_GEMM_F32,        /* y [m][n] fp32, not rounded: what tests compare */
} hymt_gemm_after_t;


typedef struct {
    const hymt_bf16_t  *w;        /* [n][k], n % 8 == 0, k % 64 == 0 */
    uint32_t            n;
    uint32_t            k;
    const hymt_bf16_t  *x;        /* [max_rows][k], fixed for life */
    void               *y;        /* [max_rows][ldy], fixed for life */
    uint32_t            ldy;      /* elements */
    uint32_t            max_rows;
    hymt_bf16_t        *scratch;  /* SILU: [max_rows][n], for cublasLt */
    hymt_gemm_after_t   after;
} hymt_gemm_shape_t;


typedef struct hymt_gemm_s  hymt_gemm_t;    /* host memory, one a weight */


/*
 * Opens cuBLASLt where it is installed, and sets dev->lt; it is looked up by
 * dlopen(), nothing links it.  0, or -1 with a message in err[cap]: own kernels
 * then serve all sizes.  close: NULL in dev->lt is legal.
 */
int hymt_lt_open(hymt_cuda_t *dev, char *err, size_t cap);
void hymt_lt_close(hymt_cuda_t *dev);

/*
 * Tensor maps and algorithms of one product.  At load, never on the hot path.
 * 0, or -1 with a message in err[cap].
 */
int hymt_gemm_create(const hymt_cuda_t *dev, const hymt_gemm_shape_t *shape,
    hymt_gemm_t **gemm, char *err, size_t cap);
void hymt_gemm_free(hymt_gemm_t *gemm);

/* Rows 0 .. m-1; 1 <= m <= max_rows. */
cudaError_t hymt_gemm_run(const hymt_gemm_t *gemm, uint32_t m,
    cudaStream_t stream);

/* One line for the log: what serves which numbers of rows, what was refused. */
void hymt_gemm_describe(const hymt_gemm_t *gemm, char *text, size_t cap);


/* ---- norm.cu ---- */

/*
 * Embedding and first norm: x[r] = embed[token(r)], h[r] = norm(x[r]).
 * token(r) = tokens[r], or last[tokens[r] & ~HYMT_TOKEN_SLOT].
 */
typedef struct {
    const hymt_bf16_t  *embed;   /* [vocab][hidden] */
    const uint32_t     *tokens;  /* [rows] */
    const uint32_t     *last;    /* [slots] */
    const hymt_bf16_t  *weight;  /* [hidden] */
    hymt_bf16_t        *x;       /* [rows][hidden], residual stream */
    hymt_bf16_t        *h;       /* [rows][hidden] */
    uint32_t            rows;
    uint32_t            hidden;  /* % 8 == 0, <= 8192 */
    uint32_t            vocab;   /* ids at or over it read row 0 */
    float               eps;
} hymt_embed_args_t;

cudaError_t hymt_cuda_embed(const hymt_cuda_t *dev,
    const hymt_embed_args_t *args, cudaStream_t stream);

/*
 * sum[r] = x[from] + y[r] -> bf16, or x[from];  h[r] = norm(sum[r]):
 * norm: v = x / sqrt(mean(x^2) + eps) in fp32 -> bf16, times weight -> bf16.
 * from = gather[r], or r.
 */
typedef struct {
    const hymt_bf16_t  *x;       /* [..][hidden] */
    const hymt_bf16_t  *y;       /* [rows][hidden], what is added, or NULL */
    const hymt_bf16_t  *weight;  /* [hidden] */
    hymt_bf16_t        *sum;     /* [rows][hidden], NULL: not wanted; may be x
                                    where nothing is gathered */
    hymt_bf16_t        *h;       /* [rows][hidden] */
    const uint32_t     *gather;  /* [rows] or NULL */
    uint32_t            rows;
    uint32_t            hidden;
    float               eps;
} hymt_norm_args_t;

cudaError_t hymt_cuda_add_norm(const hymt_cuda_t *dev,
    const hymt_norm_args_t *args, cudaStream_t stream);

/* y[r][i] = silu_mul of gu, in turns as HYMT_GEMM_SILU says; after cuBLASLt */
cudaError_t hymt_cuda_silu_mul(const hymt_cuda_t *dev,
    const hymt_bf16_t *gu, hymt_bf16_t *y, uint32_t rows, uint32_t ffn,
    cudaStream_t stream);


/* ---- rope.cu ---- */

/* What q and k go through; see below. */
typedef struct {
    const hymt_bf16_t  *cos;      /* [context][64] */
    const hymt_bf16_t  *sin;
    const hymt_bf16_t  *q_norm;   /* [128]; NULL: no QK-norm */
    const hymt_bf16_t  *k_norm;
    uint32_t            context;  /* positions at or over it are clamped */
    float               eps;
} hymt_rope_t;

/*
 * Splits qkv; q and k: RoPE (cos and sin in fp32 of a host table in double ->
 * bf16; q*cos -> bf16, rot(q)*sin -> bf16, sum -> bf16), then QK-norm (as norm
 * above, weight [128]); k and v go to the cache.  Rows without a destination
 * are left alone: those that decode, whose attention does this itself.  That of
 * prompts can do so with q, which is left alone where it is not wanted.
 *
 * Cache of a layer: [block][kv_head][K|V][16][128] bf16.
 */
typedef struct {
    const hymt_bf16_t  *qkv;      /* [rows][(n_heads + 2 n_kv) * 128] */
    hymt_bf16_t        *q;        /* [rows][n_heads * 128], NULL: not wanted */
    hymt_bf16_t        *cache;    /* of this layer */
    const uint32_t     *pos;      /* [rows] */
    const int32_t      *kv_dest;  /* [rows] block * 16 + offset; -1: none */
    hymt_rope_t         rope;
    uint32_t            rows;
    uint32_t            n_heads;
    uint32_t            n_kv;
} hymt_rope_args_t;

cudaError_t hymt_cuda_rope_append(const hymt_cuda_t *dev,
    const hymt_rope_args_t *args, cudaStream_t stream);


/* ---- attention_decode.cu, attention_prefill.cu ---- */

/*
 * Paged attention of one layer, for decode rows and prompt rows alike.
 *
 * What makes bits equal however rows are grouped: the positions of a sequence
 * are cut into tiles of HYMT_ATTN_TILE from 0; a tile's (max, sum, acc) for a
 * row depends on the row and the tile alone (own maximum, exp2 with the scale
 * folded, P rounded to bf16 before PV, sums in fp32; k16 steps ascending); and
 * tiles are merged one by one in order:
 *     m' = max(m, m_t);  a = exp2(m - m'), b = exp2(m_t - m')
 *     l = l * a + l_t * b;  acc = acc * a + acc_t * b     (same fma forms)
 * A tile that is masked for a row leaves the row's bits as they are.  Merging
 * is one device function's; a tile is one function's for prompts and another's
 * for decode, with the same products and sums in the same order.  Output
 * acc / l -> bf16.
 *
 * A work item is a run of rows of one sequence at consecutive positions.  Those
 * of prompts with more tiles, the later ones, had better come first.  A
 * decode item is its sequence's only row in a step, so that the positions
 * before it were written by earlier steps: they are read before the wait, as
 * are items and tables, which the copy in front of the step has written.  Of
 * its own position it takes q, k and v from qkv, does what rope.cu would, and
 * appends k and v to the cache.  Where positions before it are of the same step
 * decode is launched without dev->pdl.
 *
 * Prefill reads the cache as rope.cu left it, and q; or, on cc 9.0, it takes q
 * from qkv and does what rope.cu would: faster with many rows, slower with few.
 *
 * In a step of both, `mixed`, prefill comes right behind decode, of which it
 * needs nothing, and runs beside it.  Decode then allows it to start behind its
 * own wait only, when q, qkv and the cache are complete; prefill reads them
 * past L1 and without a wait, and waits at its end, so that what waits for it
 * has waited for both.
 *
 * `compact` is for a model's last layer, where few rows are wanted: of each
 * item its last row alone, and of those that have no place in o nothing (but
 * decode appends to the cache all the same).
 */
typedef struct {
    uint32_t  row;         /* first row in q, and in o if not compact */
    uint32_t  n_rows;      /* decode: 1; prefill: hymt_attention_rows() */
    uint32_t  pos;         /* position of the first row */
    uint32_t  table;       /* of its block ids, index into tables */
    uint32_t  part;        /* decode: this part ... */
    uint32_t  n_parts;     /* ... of so many; 1: no merging through memory */
    uint32_t  first_tile;  /* tiles of this part: [first_tile, end_tile) */
    uint32_t  end_tile;
    uint32_t  partial;     /* n_parts > 1: first tile's place in `partial`, the
                              same for all parts of a row */
    uint32_t  counter;     /* n_parts > 1: index into counters, one a row */
    uint32_t  out;         /* compact: the last row's in o; UINT32_MAX: none */
} hymt_attention_item_t;


typedef struct {
    const hymt_bf16_t            *q;         /* prefill; [rows][heads * 128];
                                                NULL: from qkv, cc 9.0 only */
    const hymt_bf16_t            *qkv;       /* decode, prefill without q: as
                                                in rope.cu */
    hymt_rope_t                   rope;      /* the same */
    hymt_bf16_t                  *o;         /* [rows][n_heads * 128] */
    hymt_bf16_t                  *cache;     /* of this layer */
    const uint32_t               *tables;    /* block ids of all sequences */
    const hymt_attention_item_t  *items;     /* device memory */
    const uint32_t               *n_items;   /* device memory: in use */
    uint32_t                      grid;      /* items the launch is for */
    float                        *partial;   /* [tile][n_kv][group][128 + 2] */
    uint32_t                     *counters;  /* [rows in parts][n_kv], 0 before
                                                and after */
    uint32_t                      n_heads;
    uint32_t                      n_kv;      /* group n_heads/n_kv: 1 2 4 8 */
    bool                          mixed;     /* decode, then prefill */
    bool                          compact;   /* last rows, to item.out */
} hymt_attention_args_t;

/* Most rows of one prefill item, for a group. */
uint32_t hymt_attention_rows(uint32_t group);

cudaError_t hymt_cuda_attention_decode(const hymt_cuda_t *dev,
    const hymt_attention_args_t *args, cudaStream_t stream);
cudaError_t hymt_cuda_attention_prefill(const hymt_cuda_t *dev,
    const hymt_attention_args_t *args, cudaStream_t stream);


/* ---- sampler.cu ---- */

/*
 * Draws one token for each sample row, with the semantics of
 * kernels/cpu/sampler.h (order, ties by id, doubles where it has doubles) from
 * logits in bf16: as Hugging Face's, they are rounded where the head stores
 * them, and widened to fp32 before the penalty.  Equal ones are frequent so,
 * and of equal ones the smallest id is the best.
 * One of these for each row; all zero temperature: greedy.
 */
typedef struct {
    uint32_t  slot;        /* seen[slot] and last[slot] are its; UINT32_MAX: a
                              padded row, nothing is drawn */
    uint32_t  n_out;       /* output token number, for hymt_uniform() */
    float     temperature;
    float     top_p;
    float     repetition_penalty;
    uint32_t  top_k;
    uint32_t  index;
    uint32_t  pad;
    uint64_t  seed;
} hymt_sample_row_t;


typedef struct {
    const hymt_bf16_t        *logits;   /* [rows][ld], left as they are */
    uint32_t                  ld;       /* padded vocabulary, % 8 == 0 */
    uint32_t                  vocab;    /* ids at or over it are never drawn */
    uint32_t                  rows;
    const hymt_sample_row_t  *sample;   /* [rows] device */
    uint32_t                 *seen;     /* [slots][seen_words] bitmaps */
    uint32_t                  seen_words;
    uint32_t                 *last;     /* [slots]: the drawn token */
    uint32_t                 *out;      /* [rows] device or mapped host */
    uint32_t                 *bad;      /* [1]: |= 1 where a drawn row has a
                                           logit that is not finite */
    void                     *scratch;  /* hymt_sampler_scratch(rows, ld) */
} hymt_sample_args_t;

size_t hymt_sampler_scratch(uint32_t rows, uint32_t ld);

cudaError_t hymt_cuda_sample(const hymt_cuda_t *dev,
    const hymt_sample_args_t *args, cudaStream_t stream);


#ifdef __cplusplus
}
#endif

#endif /* HYMT_CUDA_KERNELS_H */
