/*
 * logits_test.c - logits of the demo model at every position of the texts in
 * models/demo/golden/logits.bin, which holds what transformers computes from
 * the same weights in fp32; tools/demo-model/golden.py documents the file.
 */

#include "backend.h"
#include "golden.h"


#define LOGITS  GOLDEN_MODEL "/golden/logits.bin"
#define LIMIT   1e-4          /* of ||diff|| / ||ref|| */


/* logits.bin, read from front to back. */
typedef struct {
    const char      *at;
    const char      *end;
    uint32_t         vocab;
    uint32_t         n_keep;
    const uint32_t  *keep;         /* [n_keep] ids whose logits are there */
    uint32_t         n_texts;
} logits_t;


typedef struct {
    uint32_t         row;
    uint32_t         n;            /* positions */
    const uint32_t  *tokens;       /* [n] */
    const char      *want;         /* n times argmax, norm, [n_keep] logits */
} text_t;


/* How far a backend is from the file, over all positions. */
typedef struct {
    uint32_t    texts;
    uint32_t    positions;
    uint32_t    argmax;            /* positions with another one */
    double      worst;             /* of the kept logits' ||diff|| / ||ref|| */
    double      norm;              /* of the whole rows' norms */
    double      largest;           /* difference of one logit */
} distance_t;


static const void *
logits_take(logits_t *f, uint64_t bytes)
{
    const char  *p;

    p = f->at;

    if (bytes > (uint64_t) (f->end - p)) {
        hymt_fail(&err, "ends too soon");
        golden_die(LOGITS);
    }

    f->at += bytes;

    return p;
}


static char *
logits_open(logits_t *f)
{
    char            *data;
    size_t           len;
    const uint32_t  *head;

    data = golden_read(LOGITS, &len);
    f->at = data;
    f->end = data + len;

    if (memcmp(logits_take(f, 8), "HYMTLOG1", 8) != 0) {
        hymt_fail(&err, "not in the known format");
        golden_die(LOGITS);
    }

    head = logits_take(f, 12);
    f->vocab = head[0];
    f->n_keep = head[1];
    f->n_texts = head[2];
    f->keep = logits_take(f, 4 * (uint64_t) f->n_keep);

    return data;
}


static void
logits_next(logits_t *f, text_t *text)
{
    const uint32_t  *head;

    head = logits_take(f, 12);
    text->row = head[0];
    text->n = head[1];
    text->tokens = logits_take(f, 4 * (uint64_t) text->n);
    text->want = logits_take(f, text->n * (8 + 4 * (uint64_t) f->n_keep));
}


/* Logits of every position of a text, in one step: [n][vocab]. */
static void
logits_compute(const hymt_backend_ops_t *ops, hymt_backend_t *b,
    const text_t *text, float *logits)
{
    uint32_t          i, token, blocks[GOLDEN_CONTEXT / HYMT_KV_BLOCK];
    hymt_batch_t      batch;
    hymt_sampling_t   sampling;
    hymt_batch_seq_t  seq;

    memset(&batch, 0, sizeof(batch));
    memset(&seq, 0, sizeof(seq));
    memset(&sampling, 0, sizeof(sampling));

    for (i = 0; i < hymt_nelts(blocks); i++) {
        blocks[i] = i;
    }

    seq.n_rows = text->n;
    seq.tokens = text->tokens;
    seq.blocks = blocks;
    batch.seqs = &seq;
    batch.n_seqs = 1;
    batch.n_rows = text->n;
    batch.logits = logits;

    sampling.top_p = 1;
    sampling.repetition_penalty = 1;
    ops->slot_begin(b, 0, &sampling, text->tokens, text->n);

    if (ops->launch(b, &batch, &err) != HYMT_OK
        || ops->collect(b, &token, &err) != HYMT_OK)
    {
        golden_die(ops->name);
    }
}


/* One position: got [vocab] against its record in the file. */
static void
logits_compare(const logits_t *f, const float *got, const char *want,
    distance_t *d)
{
    float         norm;
    double        diff, sum, ref, x;
    uint32_t      i, best, argmax;
    const float  *kept;

    memcpy(&argmax, want, 4);
    memcpy(&norm, want + 4, 4);
    kept = (const float *) (const void *) (want + 8);

    for (i = 0, best = 0, sum = 0; i < f->vocab; i++) {
        sum += (double) got[i] * got[i];
        best = got[i] > got[best] ? i : best;
    }

    for (i = 0, diff = 0, ref = 0; i < f->n_keep; i++) {
        x = fabs((double) got[f->keep[i]] - kept[i]);
        diff += x * x;
        ref += (double) kept[i] * kept[i];
        d->largest = x <= d->largest ? d->largest : x;
    }

    x = sqrt(diff / ref);
    d->worst = x <= d->worst ? d->worst : x;

    x = fabs(sqrt(sum) - norm) / norm;
    d->norm = x <= d->norm ? d->norm : x;

    d->argmax += best != argmax;
    d->positions++;
}


static void
test_logits(const hymt_backend_ops_t *ops, uint32_t stride)
{
    char                   *data;
    float                  *got;
    text_t                  text;
    uint32_t                i, j;
    logits_t                f;
    distance_t              d;
    hymt_model_t           *model;
    hymt_backend_t         *b;
    hymt_backend_params_t   p;

    data = logits_open(&f);
    got = malloc(sizeof(float) * GOLDEN_CONTEXT * f.vocab);

    memset(&d, 0, sizeof(d));
    memset(&p, 0, sizeof(p));
    p.threads = 2;
    p.max_batch = 1;
    p.max_rows = GOLDEN_CONTEXT;
    p.context = GOLDEN_CONTEXT;
    p.n_blocks = GOLDEN_CONTEXT / HYMT_KV_BLOCK;

    if (hymt_model_open(GOLDEN_MODEL, &model, &err) != HYMT_OK
        || ops->create(&p, model, &b, &err) != HYMT_OK)
    {
        golden_die(ops->name);
    }

    for (i = 0; i < f.n_texts; i++) {
        logits_next(&f, &text);

        if (i % stride != 0 || text.n > GOLDEN_CONTEXT) {
            continue;
        }

        logits_compute(ops, b, &text, got);
        d.texts++;

        for (j = 0; j < text.n; j++) {
            logits_compare(&f, got + (size_t) j * f.vocab,
                           text.want + j * (8 + 4 * (size_t) f.n_keep), &d);
        }
    }

    printf("# %s: %" PRIu32 " positions of %" PRIu32 " of %" PRIu32 " texts:"
           " ||diff||/||ref|| <= %.2g, norms %.2g, one logit %.2g\n",
           ops->name, d.positions, d.texts, f.n_texts, d.worst, d.norm,
           d.largest);

    ok(f.at == f.end, "%s: the file has nothing more", ops->name);
    is_int(d.texts, hymt_ceil_div(f.n_texts, stride), "%s: texts", ops->name);
    is_near(d.worst, 0, LIMIT, "%s: logits of every position", ops->name);
    is_near(d.norm, 0, LIMIT, "%s: norms of all logits", ops->name);
    is_int(d.argmax, 0, "%s: positions with another best id", ops->name);

    ops->destroy(b);
    hymt_model_close(model);
    free(got);
    free(data);
}


int
main(void)
{
    test_logits(&hymt_backend_cpu, golden_stride(1, 3));
    test_logits(&hymt_backend_ref, golden_stride(5, 10));

    return tap_done();
}
