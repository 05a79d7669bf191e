/*
 * batch_check_test.c - what every backend refuses: parameters that can't be,
 * and batches with one thing out of range.
 */

#include "batch_check.h"
#include "tap.h"

#include <string.h>


static const hymt_backend_params_t  params = {
    .max_batch = 4, .max_rows = 24, .context = 64, .n_blocks = 8
};

static hymt_config_t  config;


static void
test_params(void)
{
    hymt_error_t           err;
    hymt_backend_params_t  p;

    is_int(hymt_backend_params_check("cpu", &params, &config, &err), HYMT_OK,
           "parameters that can be");

    p = params;
    p.n_blocks = 0;
    is_int(hymt_backend_params_check("cpu", &p, &config, &err), HYMT_ERROR,
           "no blocks");
    has_str(err.text, "cpu backend: max_batch 4, max_rows 24, context 64,"
            " n_blocks 0: none may be 0", "are named");

    p = params;
    p.context = 129;
    is_int(hymt_backend_params_check("cpu", &p, &config, &err), HYMT_ERROR,
           "a context over the model's");
    has_str(err.text, "129 is more than the model's max_position_embeddings,"
            " 128", "both are named");
}


/* Two sequences: 20 rows at 30, and one that goes on at 5. */
static void
test_batch(void)
{
    size_t            i;
    hymt_error_t      err;
    hymt_batch_t      batch;
    hymt_batch_seq_t  seqs[2];
    uint32_t          tokens[20] = { 0 };
    const uint32_t    blocks[] = { 0, 7, 2, 3 }, bad[] = { 0, 1, 2, 8 };

    const struct {
        uint32_t         n_seqs, n_rows, slot, rows, pos, token;
        const uint32_t  *blocks;
        const char      *error;      /* NULL: none */
    } cases[] = {
        { 2, 21, 3, 20, 30, 99, blocks, NULL },
        { 0, 0, 3, 20, 30, 99, blocks, NULL },
        { 5, 21, 3, 20, 30, 99, blocks, "5 sequences, at most 4" },
        { 2, 20, 3, 20, 30, 99, blocks, "n_rows is 20, its sequences have 21" },
        { 2, 21, 4, 20, 30, 99, blocks, "slot 4, 20 rows at position 30" },
        { 2, 21, 3, 0, 30, 99, blocks, "slot 3, 0 rows" },
        { 2, 21, 3, 25, 30, 99, blocks, "25 rows at position 30" },
        { 2, 21, 3, 20, 45, 99, blocks, "20 rows at position 45" },
        { 2, 21, 3, 20, 64, 99, blocks, "20 rows at position 64" },
        { 2, 21, 3, 20, 30, 99, bad, "sequence 0: KV block 8 of 8" },
        { 2, 21, 3, 20, 30, 100, blocks, "token 100 is not in the vocabulary" },
    };

    for (i = 0; i < hymt_nelts(cases); i++) {
        tokens[19] = cases[i].token;

        memset(seqs, 0, sizeof(seqs));
        seqs[0].slot = cases[i].slot;
        seqs[0].n_rows = cases[i].rows;
        seqs[0].pos = cases[i].pos;
        seqs[0].tokens = tokens;
        seqs[0].blocks = cases[i].blocks;

        seqs[1].n_rows = 1;
        seqs[1].pos = 5;
        seqs[1].blocks = blocks;

        batch = (hymt_batch_t) {
            .seqs = seqs, .n_seqs = cases[i].n_seqs, .n_rows = cases[i].n_rows
        };

        err.text[0] = '\0';
        is_int(hymt_batch_check(&batch, &params, &config, &err),
               cases[i].error != NULL ? HYMT_ERROR : HYMT_OK, "batch %d",
               (int) i);
        has_str(err.text, cases[i].error != NULL ? cases[i].error : "",
                "the error says what");
    }

    /* what a sequence takes is no more there for the next */

    seqs[0].n_rows = 20;
    tokens[19] = 0;
    seqs[1].n_rows = 5;
    seqs[1].tokens = tokens;
    batch.n_rows = 25;
    is_int(hymt_batch_check(&batch, &params, &config, &err), HYMT_ERROR,
           "more rows than a step has");
    has_str(err.text, "sequence 1: slot 0, 5 rows", "at the second sequence");

    seqs[1].n_rows = 2;
    seqs[1].tokens = NULL;
    batch.n_rows = 22;
    is_int(hymt_batch_check(&batch, &params, &config, &err), HYMT_ERROR,
           "two rows without tokens");
}


int
main(void)
{
    config.max_position = 128;
    config.vocab = 100;

    test_params();
    test_batch();

    return tap_done();
}
