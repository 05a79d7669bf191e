/*
 * logits_test.c - a backend's logits against those of Hugging Face
 * transformers, which tools/hf-logits.py wrote from the same weights.
 *
 *     logits_test MODEL FILE [BACKEND]
 *
 * Ours are what the sampler draws from, rounded to bf16 where the backend does,
 * and of equal ones the first id is the greatest, as it is to the sampler.
 *
 * With the model in fp32 as the truth: our distance, ||ours - fp32|| / ||fp32||
 * over all positions, is at most 1.2 times that of the model in bf16.  And
 * teacher-forced, position by position: positions whose greatest logit is
 * another one than the truth's are at most 1 %, and none where the truth's two
 * greatest are further apart than one bf16 unit in the last place.
 *
 * The two last bars are about what bf16 itself can keep: with them at the edge
 * a fair coin would decide.  So what counts as too many is more than 1 % and
 * more than two standard deviations (of a count, its square root) above what
 * transformers in bf16 has on the same positions.  Both counts are printed.
 */

#include "backend.h"
#include "tap.h"

#include <unistd.h>


#define MAX_ROWS      512
#define CONTEXT       512
#define RATIO         1.2


typedef struct {
    uint32_t  positions;
    double    diff[2];           /* squares; ours, bf16's */
    double    ref;
    uint32_t  other[2];          /* positions with another greatest one */
    uint32_t  untied[2];         /* of those, where the truth is clear */
    double    gap[2];            /* widest of those, in units */
} distance_t;


static hymt_error_t  err;


__attribute__((noreturn))
static void
die(const char *what)
{
    printf("Bail out! %s: %s\n", what, err.text);
    exit(1);
}


static void
take(FILE *f, void *p, size_t size, size_t n, const char *name)
{
    if (fread(p, size, n, f) != n) {
        hymt_fail(&err, "ends too soon");
        die(name);
    }
}


/* Logits of every position: one step of the whole sequence. */
static void
compute(const hymt_backend_ops_t *ops, hymt_backend_t *b,
    const uint32_t *tokens, uint32_t n, float *logits)
{
    uint32_t          i, token, blocks[CONTEXT / HYMT_KV_BLOCK];
    hymt_batch_t      batch;
    hymt_sampling_t   sampling;
    hymt_batch_seq_t  seq;

    memset(&batch, 0, sizeof(batch));
    memset(&seq, 0, sizeof(seq));
    memset(&sampling, 0, sizeof(sampling));

    for (i = 0; i < hymt_nelts(blocks); i++) {
        blocks[i] = i;
    }

    seq.n_rows = n;
    seq.tokens = tokens;
    seq.blocks = blocks;
    batch.seqs = &seq;
    batch.n_seqs = 1;
    batch.n_rows = n;
    batch.logits = logits;

    sampling.top_p = 1;
    sampling.repetition_penalty = 1;
    ops->slot_begin(b, 0, &sampling, tokens, n);

    if (ops->launch(b, &batch, &err) != HYMT_OK
        || ops->collect(b, &token, &err) != HYMT_OK)
    {
        die(ops->name);
    }
}


/* A unit in the last place of bf16 at x: 8 bits of significand. */
static double
unit(double x)
{
    int  e;

    (void) frexp(x, &e);

    return ldexp(1, e - 8);
}


static void
compare(const float *ours, const float *exact, const float *usual,
    uint32_t vocab, distance_t *d)
{
    double    gap, x;
    uint32_t  i, j, best[3], second;

    for (i = 0, best[0] = best[1] = best[2] = 0; i < vocab; i++) {
        x = (double) ours[i] - exact[i];
        d->diff[0] += x * x;
        x = (double) usual[i] - exact[i];
        d->diff[1] += x * x;
        d->ref += (double) exact[i] * exact[i];

        best[0] = ours[i] > ours[best[0]] ? i : best[0];
        best[1] = usual[i] > usual[best[1]] ? i : best[1];
        best[2] = exact[i] > exact[best[2]] ? i : best[2];
    }

    for (i = 0, second = best[2] == 0; i < vocab; i++) {
        if (i != best[2] && exact[i] > exact[second]) {
            second = i;
        }
    }

    gap = ((double) exact[best[2]] - exact[second]) / unit(exact[best[2]]);
    d->positions++;

    for (j = 0; j < 2; j++) {
        if (best[j] != best[2]) {
            d->other[j]++;
            d->untied[j] += gap > 1;
            d->gap[j] = gap > d->gap[j] ? gap : d->gap[j];
        }
    }
}


/* The greatest count that is no worse than `usual`, by two deviations. */
static uint32_t
no_worse(uint32_t usual)
{
    return usual + (uint32_t) (2 * sqrt(usual) + 0.5);
}


static void
test_file(const hymt_backend_ops_t *ops, hymt_backend_t *b, uint32_t vocab,
    const char *name)
{
    char         magic[8];
    FILE        *f;
    float       *ours, *exact, *usual;
    double       error[2];
    size_t       size;
    uint32_t     i, j, n, head[2], limit, tokens[MAX_ROWS];
    distance_t   d;

    f = fopen(name, "rb");
    if (f == NULL) {
        hymt_fail(&err, "can't be opened");
        die(name);
    }

    take(f, magic, 1, 8, name);
    take(f, head, 4, 2, name);

    if (memcmp(magic, "HYMTHF01", 8) != 0 || head[0] != vocab) {
        hymt_fail(&err, "is of another format or vocabulary");
        die(name);
    }

    size = (size_t) MAX_ROWS * vocab * sizeof(float);
    ours = malloc(size);
    exact = malloc(size);
    usual = malloc(size);

    if (ours == NULL || exact == NULL || usual == NULL) {
        hymt_fail(&err, "no memory");
        die(name);
    }

    memset(&d, 0, sizeof(d));

    for (i = 0; i < head[1]; i++) {
        take(f, &n, 4, 1, name);

        if (n == 0 || n > MAX_ROWS) {
            hymt_fail(&err, "a sequence of %" PRIu32 " tokens", n);
            die(name);
        }

        take(f, tokens, 4, n, name);
        take(f, exact, (size_t) vocab * 4, n, name);
        take(f, usual, (size_t) vocab * 4, n, name);

        /* what is not written must show */

        memset(ours, 0xff, (size_t) n * vocab * sizeof(float));
        compute(ops, b, tokens, n, ours);

        for (j = 0; j < n; j++) {
            compare(ours + (size_t) j * vocab, exact + (size_t) j * vocab,
                    usual + (size_t) j * vocab, vocab, &d);
        }
    }

    fclose(f);
    free(ours);
    free(exact);
    free(usual);

    error[0] = sqrt(d.diff[0] / d.ref);
    error[1] = sqrt(d.diff[1] / d.ref);
    limit = hymt_max(d.positions / 100, no_worse(d.other[1]));

    printf("# %s: %" PRIu32 " positions; distance from fp32: ours %.3e,"
           " transformers in bf16 %.3e, ratio %.3f\n", name, d.positions,
           error[0], error[1], error[0] / error[1]);
    printf("# greatest logit another one: ours %" PRIu32 " (%.2f %%), bf16 %"
           PRIu32 " (%.2f %%); beyond one unit: ours %" PRIu32 ", bf16 %"
           PRIu32 "; widest: ours %.2f units, bf16 %.2f\n", d.other[0],
           100.0 * d.other[0] / d.positions, d.other[1],
           100.0 * d.other[1] / d.positions, d.untied[0], d.untied[1],
           d.gap[0], d.gap[1]);

    ok(error[0] <= RATIO * error[1], "%s: no further from fp32 than %.1f times"
       " bf16", name, RATIO);
    ok(d.other[0] <= limit, "%s: another greatest logit at %" PRIu32 " of %"
       PRIu32 " positions, at most %" PRIu32, name, d.other[0], d.positions,
       limit);
    ok(d.untied[0] <= no_worse(d.untied[1]), "%s: beyond one unit at %" PRIu32
       ", at most %" PRIu32, name, d.untied[0], no_worse(d.untied[1]));
}


int
main(int argc, char **argv)
{
    hymt_model_t              *model;
    hymt_backend_t            *b;
    hymt_backend_params_t      p;
    const hymt_backend_ops_t  *ops;

    if (argc < 3) {
        printf("1..0 # SKIP logits_test MODEL FILE [BACKEND], FILE by"
               " tools/hf-logits.py\n");
        return 0;
    }

    ops = hymt_backend_find(argc > 3 ? argv[3] : "cuda", &err);

    if (ops == NULL || hymt_model_open(argv[1], &model, &err) != HYMT_OK) {
        die(argv[1]);
    }

    memset(&p, 0, sizeof(p));
    p.max_batch = 16;
    p.max_rows = MAX_ROWS;
    p.context = CONTEXT;
    p.n_blocks = CONTEXT / HYMT_KV_BLOCK;

    if (ops->create(&p, model, &b, &err) != HYMT_OK) {
        die(ops->name);
    }

    test_file(ops, b, model->config.vocab, argv[2]);

    ops->destroy(b);
    hymt_model_close(model);

    return tap_done();
}
