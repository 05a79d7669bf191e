/*
 * sizing_test.c - how large an engine is made; see sizing.h.
 */

#include "sizing.h"
#include "tap.h"


#define MB  UINT64_C(1000000)


static void
test_sizes(void)
{
    hymt_error_t          err;
    hymt_config_t         c;
    hymt_sizing_t         s;
    hymt_engine_params_t  p;

    memset(&c, 0, sizeof(c));
    c.n_layers = 2;
    c.n_kv_heads = 4;
    c.head_dim = 128;
    c.max_position = 32768;

    memset(&p, 0, sizeof(p));
    p.context = 0;
    p.max_batch = 32;

    is_int(hymt_sizing(&p, 1, 4, &c, 1000, UINT64_C(1) << 40, &s, &err),
           HYMT_OK, "defaults");
    is_int(s.context, 8192, "context 8192");
    is_int(s.n_blocks, 2048, "KV of max_batch * 1024 tokens");
    is_int(s.kv_bytes, UINT64_C(32768) * 8192, "at 8 KiB a token");

    hymt_sizing(&p, 1, 4, &c, 1000, 2 * (1000 + 160 * MB), &s, &err);
    is_int(s.n_blocks, 1221, "held to half of the memory less the weights");

    hymt_sizing(&p, 1, 4, &c, 100 * MB, 200 * MB, &s, &err);
    is_int(s.n_blocks, 512, "but one context at least");

    is_int(hymt_sizing(&p, 1, 4, &c, 100 * MB, 150 * MB, &s, &err), HYMT_ERROR,
           "where that is more than there is");
    has_str(err.text, "lower kv_tokens, max_batch or context", "says what");

    c.max_position = 1024;
    hymt_sizing(&p, 1, 4, &c, 1000, UINT64_C(1) << 40, &s, &err);
    is_int(s.context, 1024, "the default is held to max_position");

    p.context = 2000;
    is_int(hymt_sizing(&p, 1, 4, &c, 0, UINT64_MAX, &s, &err), HYMT_ERROR,
           "a context over it");
    has_str(err.text, "context 2000 is over the model's"
            " max_position_embeddings, 1024", "is refused");

    p.context = 8;
    is_int(hymt_sizing(&p, 1, 4, &c, 0, UINT64_MAX, &s, &err), HYMT_ERROR,
           "a context of 8");
    has_str(err.text, "context 8: at least 16", "is refused");

    p.context = 512;
    p.kv_tokens = 511;
    is_int(hymt_sizing(&p, 1, 4, &c, 0, UINT64_MAX, &s, &err), HYMT_ERROR,
           "KV of less than a context");
    has_str(err.text, "kv_tokens 511 is less than one context of 512",
            "is refused");

    p.kv_tokens = UINT64_MAX;
    is_int(hymt_sizing(&p, 1, 4, &c, 0, UINT64_MAX, &s, &err), HYMT_ERROR,
           "and more than can be counted");

    p.kv_tokens = 513;
    is_int(hymt_sizing(&p, 1, 4, &c, 0, UINT64_MAX, &s, &err), HYMT_OK, "513");
    is_int(s.n_blocks, 33, "is rounded up to blocks");

    p.max_batch = 1025;
    is_int(hymt_sizing(&p, 1, 4, &c, 0, UINT64_MAX, &s, &err), HYMT_ERROR,
           "max_batch 1025");
    has_str(err.text, "max_batch 1025: 1 to 1024", "is refused");

    ok(hymt_sizing_memory() > 64 * MB, "this host has memory: %.0f MB",
       (double) hymt_sizing_memory() / 1e6);
}


int
main(void)
{
    test_sizes();

    return tap_done();
}
