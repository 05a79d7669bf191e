/*
 * invariance.h - a sequence has the same bits on the CUDA backend whatever runs
 * beside it and however its rows are cut into steps: the tests of that, for any
 * model.
 *
 * Who includes it sets `cuda`, and `small` where all is slow.
 */

#ifndef HYMT_INVARIANCE_H
#define HYMT_INVARIANCE_H

#include "backend_fixture.h"


#define SHORT   75            /* tokens of a test's prompt ... */
#define TINY    21            /* ... where all is slow */


static const hymt_backend_ops_t  *cuda;
static bool                       small;


__attribute__((unused))
static hymt_model_t *
model_open(const char *dir)
{
    hymt_model_t  *model;

    if (hymt_model_open(dir, &model, &err) != HYMT_OK) {
        die(dir);
    }

    return model;
}


/* Logits of a whole prompt, by `ops`, in chunks. */
__attribute__((unused))
static uint32_t
prompt_logits(const hymt_backend_ops_t *ops, const hymt_model_t *model,
    uint32_t n, uint32_t chunk, uint64_t seed, float *logits)
{
    seq_t            s;
    uint32_t         token;
    hymt_backend_t  *b;

    b = backend_open(ops, model, NULL);

    pool_reset();
    seq_make(&s, 3, n, 0, seed, model->config.vocab);
    token = prompt(ops, b, &s, chunk, model->config.vocab, logits);

    ops->destroy(b);

    return token;
}


/*
 * Bits of one sequence's logits, and its token: whole, in chunks, by graphs or
 * kernel by kernel, in another slot and other blocks, twice.
 */
__attribute__((unused))
static void
test_chunks(const hymt_model_t *model, uint32_t n)
{
    float           *got, *want;
    seq_t            s;
    size_t           size;
    uint32_t         i, graphs, token, vocab;
    hymt_backend_t  *b;

    static const uint32_t  chunks[] = { CONTEXT, CONTEXT, 1, 7, 16, 33, 64,
                                        200 };

    vocab = model->config.vocab;
    size = (size_t) n * vocab * sizeof(float);
    want = malloc(size);
    got = malloc(size);
    token = prompt_logits(cuda, model, n, max_rows, 99, want);
    ok(token < vocab, "%u tokens: token %u", n, token);

    for (graphs = 0; graphs < 2; graphs++) {
        setenv("HYMT_CUDA_GRAPHS", graphs ? "on" : "off", 1);
        b = backend_open(cuda, model, NULL);

        for (i = 0; i < hymt_nelts(chunks); i++) {

            /* position by position takes long where the prompt is */

            if ((chunks[i] == 1 && n > SHORT && !graphs)
                || (small && chunks[i] != 7))
            {
                continue;
            }

            pool_reset();
            seq_make(&s, i * 31 % max_slots, n, 0, 99, vocab);
            memset(got, 0xff, size);

            is_int(prompt(cuda, b, &s, hymt_min(chunks[i], max_rows), vocab,
                          got),
                   token, "%u tokens in chunks of %u, graphs %s: same token",
                   n, chunks[i], graphs ? "on" : "off");
            ok(memcmp(got, want, size) == 0,
               "%u tokens in chunks of %u, graphs %s: same bits", n,
               chunks[i], graphs ? "on" : "off");
        }

        cuda->destroy(b);
    }

    unsetenv("HYMT_CUDA_GRAPHS");
    free(got);
    free(want);
}


/*
 * The same sequence among `others` of all lengths, mixed into steps in ever
 * other proportions, prompts first and tokens after.
 */
__attribute__((unused))
static void
test_among(const hymt_model_t *model, uint32_t others)
{
    float             *want, *got, *all;
    seq_t             *many;
    size_t             size;
    uint32_t           i, n, at, turn, vocab, mine, token, left, drawn, len;
    static uint32_t    rows[SLOTS], tokens[SLOTS];
    hymt_backend_t    *b;

    len = small ? TINY : SHORT;
    vocab = model->config.vocab;
    size = (size_t) len * vocab * sizeof(float);
    want = malloc(size);
    got = malloc(size);
    all = malloc((size_t) ROWS * vocab * sizeof(float));
    many = calloc(others + 1, sizeof(seq_t));

    token = prompt_logits(cuda, model, len, max_rows, 99, want);

    b = backend_open(cuda, model, NULL);
    pool_reset();
    mine = others / 3;
    drawn = HYMT_TOKEN_NONE;
    memset(got, 0xff, size);

    for (i = 0; i <= others; i++) {
        seq_make(&many[i], others - i, i == mine ? len : 1 + i * 3 % 113, 40,
                 i == mine ? 99 : 1000 + i, vocab);
        seq_begin(cuda, b, &many[i], false);
    }

    for (turn = 0; many[mine].pos < len; turn++) {
        for (i = 0, n = 0, at = 0; i <= others; i++) {
            rows[i] = (turn + i) % 3 ? 1 + (turn * 7 + i * 5) % 13 : 0;

            /* a prompt that is done goes on with its tokens, one a step */

            left = many[i].pos < many[i].n ? many[i].n - many[i].pos
                   : many[i].pos < many[i].n + 40 && i != mine;
            rows[i] = hymt_min(rows[i], left);
            rows[i] = hymt_min(rows[i], max_rows - n);

            at = i == mine ? n : at;
            n += rows[i];
        }

        if (n == 0) {
            continue;
        }

        i = many[mine].pos;

        if (step(cuda, b, many, rows, others + 1, all, tokens) != HYMT_OK) {
            die("step");
        }

        memcpy(got + (size_t) i * vocab, all + (size_t) at * vocab,
               (size_t) rows[mine] * vocab * sizeof(float));

        for (i = 0, n = 0; i < mine; i++) {
            n += rows[i] > 0;
        }

        drawn = tokens[n];
    }

    is_int(drawn, token, "among %u others: same token", others);
    ok(memcmp(got, want, size) == 0, "among %u others: same bits", others);

    cuda->destroy(b);
    free(many);
    free(all);
    free(got);
    free(want);
}


/*
 * Steps of prompts alone, with many rows or nearly: each sequence has the token
 * and the bits, of its last row and of the one that it decodes next, that it
 * has alone and in small chunks.  Twice: who asks for logits has K and V of the
 * last layer computed once more, so the second time the rows that decode find
 * what the step itself left.
 */
__attribute__((unused))
static void
test_prompts(const hymt_model_t *model)
{
    seq_t            *seqs;
    float            *all, *want, *row;
    size_t            size;
    uint32_t          i, j, k, n, end, vocab, rows[SLOTS], ones[SLOTS];
    uint32_t          tokens[SLOTS], drawn[SLOTS], decoded[SLOTS], wrong;
    hymt_backend_t   *b;

    /* rows of each that are there before, rows in the step, whose prompt goes
       on by one and is not sampled */

    static const struct {
        uint32_t  n;
        uint32_t  before;
        uint32_t  rows;
        uint32_t  open;
    } cases[] = {
        { 1, 0, 1024, 1 }, { 1, 0, 1000, 0 }, { 1, 600, 800, 1 },
        { 1, 0, 640, 1 }, { 1, 0, 641, 1 }, { 2, 333, 512, 0 },
        { 3, 0, 341, 1 }, { 12, 0, 80, 5 }, { 64, 16, 16, 64 },
        { 200, 0, 5, 200 }, { 4, 256, 200, 4 },
    };

    vocab = model->config.vocab;
    size = vocab * sizeof(float);
    seqs = calloc(SLOTS, sizeof(seq_t));
    all = malloc(ROWS * size);
    want = malloc(2 * SLOTS * size);
    b = backend_open(cuda, model, NULL);

    for (k = 0; k < hymt_nelts(cases); k++) {
        n = cases[k].n;
        end = cases[k].before + cases[k].rows;

        if (small && n != 3 && n != 12) {
            continue;
        }

        for (i = 0; i < n; i++) {
            ones[i] = 1;
        }

        for (j = 0; j < 3; j++) {
            pool_reset();

            for (i = 0; i < n; i++) {
                seq_make(&seqs[i], j ? SLOTS - 1 - i : i,
                         end + (i == cases[k].open), 2, 9000 + i, vocab);
                seq_begin(cuda, b, &seqs[i], true);

                while (seqs[i].pos < (j ? cases[k].before : end)) {
                    rows[0] = hymt_min(100, (j ? cases[k].before : end)
                                            - seqs[i].pos);

                    if (step(cuda, b, &seqs[i], rows, 1, j ? NULL : all,
                             j ? tokens : &drawn[i]) != HYMT_OK)
                    {
                        die("a chunk");
                    }
                }

                if (j == 0) {
                    memcpy(want + i * vocab, all + (rows[0] - 1) * vocab,
                           size);

                    if (step(cuda, b, &seqs[i], ones, 1,
                             want + (SLOTS + i) * vocab, &decoded[i])
                        != HYMT_OK)
                    {
                        die("a row");
                    }
                }
            }

            if (j == 0) {
                continue;
            }

            for (i = 0; i < n; i++) {
                rows[i] = cases[k].rows;
            }

            memset(all, 0xff, ROWS * size);

            if (step(cuda, b, seqs, rows, n, j == 1 ? all : NULL, tokens)
                != HYMT_OK)
            {
                die("prompts");
            }

            for (i = 0, wrong = 0; i < n; i++) {
                row = all + ((i + 1) * (size_t) cases[k].rows - 1) * vocab;
                wrong += j == 1 && memcmp(row, want + i * vocab, size) != 0;
                wrong += tokens[i] != drawn[i];
                wrong += (tokens[i] < vocab) != (i != cases[k].open);
            }

            is_int(wrong, 0, "%u prompts, %u rows of each behind %u: same %s",
                   n, cases[k].rows, cases[k].before,
                   j == 1 ? "bits and tokens" : "tokens");

            memset(all, 0xff, ROWS * size);

            if (step(cuda, b, seqs, ones, n, all, tokens) != HYMT_OK) {
                die("rows");
            }

            for (i = 0; i < n; i++) {
                wrong += memcmp(all + i * (size_t) vocab,
                                want + (SLOTS + i) * vocab, size) != 0;
                wrong += tokens[i] != decoded[i];
            }

            is_int(wrong, 0, "and of the rows behind them");
        }
    }

    cuda->destroy(b);
    free(want);
    free(all);
    free(seqs);
}


/*
 * Outputs of 64 sequences, step by step, each told the token it goes on with;
 * then of 1, 64 and 256 at once whose tokens the device has, with two steps in
 * flight: the first of them must have the tokens they had.
 */
__attribute__((unused))
static void
test_overlap(const hymt_model_t *model)
{
    seq_t                    *many;
    uint32_t                  i, j, k, n, vocab, launched, collected, differ;
    hymt_batch_t              batch;
    hymt_backend_t           *b;
    static uint32_t           out[4][SLOTS][40], tokens[SLOTS];
    static hymt_batch_seq_t   list[SLOTS];

    static const uint32_t  sizes[] = { 64, 1, 64, 256 };

    vocab = model->config.vocab;
    many = calloc(SLOTS, sizeof(seq_t));
    b = backend_open(cuda, model, NULL);

    for (k = 0; k < hymt_nelts(sizes); k++) {
        n = sizes[k];
        pool_reset();

        for (i = 0; i < n; i++) {
            seq_make(&many[i], (i * 37 + k) % SLOTS, 5 + i % 40, 40, 3000 + i,
                     vocab);
            seq_begin(cuda, b, &many[i], i % 2);
        }

        memset(&batch, 0, sizeof(batch));
        batch.seqs = list;
        batch.n_seqs = n;
        launched = 0;
        collected = 0;

        while (collected < 40) {
            memset(list, 0, sizeof(list));
            batch.n_rows = 0;

            for (i = 0; i < n; i++) {
                list[i].slot = many[i].slot;
                list[i].n_rows = launched == 0 ? many[i].n : 1;
                list[i].pos = launched == 0 ? 0 : many[i].n + launched - 1;
                list[i].tokens = launched == 0 ? many[i].tokens
                                 : k == 0 ? &out[0][i][launched - 1] : NULL;
                list[i].blocks = many[i].blocks;
                list[i].sample = true;
                list[i].n_out = launched;
                batch.n_rows += list[i].n_rows;
            }

            /* a first step may be too large: its prompts come one by one */

            if (launched == 0) {
                for (i = 0; i < n; i++) {
                    batch.seqs = &list[i];
                    batch.n_seqs = 1;
                    batch.n_rows = list[i].n_rows;

                    if (cuda->launch(b, &batch, &err) != HYMT_OK
                        || cuda->collect(b, &out[k][i][0], &err) != HYMT_OK)
                    {
                        die("prompt");
                    }
                }

                batch.seqs = list;
                batch.n_seqs = n;
                launched = 1;
                collected = 1;
                continue;
            }

            if (launched < 40) {
                if (cuda->launch(b, &batch, &err) != HYMT_OK) {
                    die("launch");
                }

                launched++;
            }

            if (launched - collected == (k == 0 ? 1 : 2) || launched == 40) {
                if (cuda->collect(b, tokens, &err) != HYMT_OK) {
                    die("collect");
                }

                for (i = 0; i < n; i++) {
                    out[k][i][collected] = tokens[i];
                }

                collected++;
            }
        }

        for (i = 0, differ = 0; i < hymt_min(n, sizes[0]); i++) {
            for (j = 0; j < 40 && out[k][i][j] == out[0][i][j]
                        && out[k][i][j] < vocab; j++)
            {
                /* void */
            }

            differ += j < 40;
        }

        is_int(differ, 0, "%u at once, %s", n, k == 0
               ? "one step in flight: tokens"
               : "two steps in flight: same tokens");
    }

    cuda->destroy(b);
    free(many);
}


/*
 * In steps of all kinds, with graphs and without, each sequence that asks for a
 * token has the greatest of its own last row's logits, which are computed for
 * all rows apart from the step.
 */
__attribute__((unused))
static void
test_wanted(const hymt_model_t *model, uint32_t n)
{
    seq_t            *many;
    float            *all, *row;
    uint32_t          i, j, k, turn, graphs, vocab, best, at, wrong, drawn;
    static uint32_t   rows[SLOTS], tokens[SLOTS];
    hymt_backend_t   *b;

    vocab = model->config.vocab;
    all = malloc((size_t) ROWS * vocab * sizeof(float));
    many = calloc(n, sizeof(seq_t));

    for (graphs = 0; graphs < 2; graphs++) {
        setenv("HYMT_CUDA_GRAPHS", graphs ? "on" : "off", 1);
        b = backend_open(cuda, model, NULL);
        pool_reset();
        wrong = 0;
        drawn = 0;

        for (i = 0; i < n; i++) {
            seq_make(&many[i], n - 1 - i, 1 + random_below(small ? 40 : 150),
                     20, 7000 + i, vocab);
            seq_begin(cuda, b, &many[i], true);
        }

        for (turn = 0; turn < 24; turn++) {
            at = 0;

            for (i = 0; i < n; i++) {
                j = many[i].pos < many[i].n ? many[i].n - many[i].pos
                    : many[i].pos < many[i].n + 20;

                /* all, or chunks alone, or what has come to its end alone */

                rows[i] = turn % 4 == 3 || random_below(3) == 0 ? 0
                          : 1 + random_below(turn % 2 ? 200 : 9);

                if (turn % 8 == 3) {
                    rows[i] = j > 2 ? 2 : 0;

                } else if (turn % 8 == 7) {
                    rows[i] = many[i].pos >= many[i].n;
                }

                rows[i] = hymt_min(hymt_min(rows[i], j), max_rows - at);
                at += rows[i];
            }

            if (at == 0) {
                continue;
            }

            if (step(cuda, b, many, rows, n, all, tokens) != HYMT_OK) {
                die("step");
            }

            for (i = 0, j = 0, at = 0; i < n; i++) {
                if (rows[i] == 0) {
                    continue;
                }

                at += rows[i];
                row = all + (size_t) (at - 1) * vocab;

                for (k = 1, best = 0; k < vocab; k++) {
                    best = row[k] > row[best] ? k : best;
                }

                if (many[i].pos < many[i].n) {
                    best = HYMT_TOKEN_NONE;
                }

                drawn += best != HYMT_TOKEN_NONE;
                wrong += tokens[j++] != best;
            }
        }

        ok(drawn > 0, "%u sequences, graphs %s: %u tokens", n,
           graphs ? "on" : "off", drawn);
        is_int(wrong, 0, "each its own row's greatest logit");

        cuda->destroy(b);
    }

    unsetenv("HYMT_CUDA_GRAPHS");
    free(many);
    free(all);
}


#endif /* HYMT_INVARIANCE_H */
