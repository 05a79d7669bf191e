/*
 * texts.c - config.json and the tokenizer of a random model: see
 * random_model.h.
 */

#include "config.h"
#include "random_model.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>


static hymt_status_t rm_config(const rm_t *rm, hymt_error_t *err);
static hymt_status_t rm_tokenizer(const rm_t *rm, hymt_error_t *err);
static int rm_words(json_t *root, uint32_t n);
static hymt_status_t rm_copy(const rm_t *rm, const char *name,
    hymt_error_t *err);


hymt_status_t
rm_texts(const rm_t *rm, hymt_error_t *err)
{
    static const char  *copied[] = {
        "tokenizer_config.json", "chat_template.jinja",
        "generation_config.json", "hymt.json",
    };

    size_t  i;

    if (rm_config(rm, err) != HYMT_OK || rm_tokenizer(rm, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    for (i = 0; i < hymt_nelts(copied); i++) {
        if (rm_copy(rm, copied[i], err) != HYMT_OK) {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static hymt_status_t
rm_config(const rm_t *rm, hymt_error_t *err)
{
    FILE              *f;
    hymt_config_t      from;
    const rm_shape_t  *s;

    s = &rm->shape;

    /* what ends a text is the tokenizer's */

    if (hymt_config_read(rm->tokenizer, &from, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    f = rm_create(rm, "config.json", err);
    if (f == NULL) {
        return HYMT_ERROR;
    }

    fprintf(f,
            "{\n"
            "  \"architectures\": [\"HunYuanDenseV1ForCausalLM\"],\n"
            "  \"model_type\": \"hunyuan_v1_dense\",\n"
            "  \"vocab_size\": %" PRIu32 ",\n"
            "  \"hidden_size\": %" PRIu32 ",\n"
            "  \"intermediate_size\": %" PRIu32 ",\n"
            "  \"num_hidden_layers\": %" PRIu32 ",\n"
            "  \"num_attention_heads\": %" PRIu32 ",\n"
            "  \"num_key_value_heads\": %" PRIu32 ",\n"
            "  \"head_dim\": 128,\n"
            "  \"attention_head_dim\": 128,\n"
            "  \"hidden_act\": \"silu\",\n"
            "  \"attention_bias\": false,\n"
            "  \"mlp_bias\": false,\n"
            "  \"attention_dropout\": 0.0,\n"
            "  \"rms_norm_eps\": 1e-05,\n"
            "  \"use_qk_norm\": true,\n"
            "  \"rope_theta\": 10000.0,\n"
            "  \"rope_scaling\": {\"type\": \"dynamic\", \"alpha\": %" PRIu32
            ".0, \"factor\": 1.0,\n"
            "    \"beta_fast\": 32, \"beta_slow\": 1, \"mscale\": 1.0,"
            " \"mscale_all_dim\": 1.0},\n"
            "  \"max_position_embeddings\": %" PRIu32 ",\n"
            "  \"tie_word_embeddings\": true,\n"
            "  \"use_cache\": true,\n"
            "  \"torch_dtype\": \"bfloat16\",\n"
            "  \"eos_token_id\": %" PRIu32 ",\n"
            "  \"pad_token_id\": 0\n"
            "}\n",
            s->vocab, s->hidden, s->ffn, s->layers, s->heads, s->kv_heads,
            s->alpha, s->positions, from.n_stop > 0 ? from.stop[0] : 0);

    return rm_close(f, "config.json", err);
}


static hymt_status_t
rm_tokenizer(const rm_t *rm, hymt_error_t *err)
{
    int            rc;
    char           path[RM_PATH + 64];
    json_t        *root;
    json_error_t   error;

    snprintf(path, sizeof(path), "%s/tokenizer.json", rm->tokenizer);

    root = json_load_file(path, 0, &error);
    if (root == NULL) {
        return hymt_fail(err, "%s: %s", path, error.text);
    }

    rc = rm_words(root, rm->shape.vocab);

    if (rc == 0) {
        snprintf(path, sizeof(path), "%s/tokenizer.json", rm->dir);
        rc = json_dump_file(root, path, JSON_COMPACT);
    }

    json_decref(root);

    return rc == 0 ? HYMT_OK : hymt_fail(err, "%s: can't be made", path);
}


/*
 * A word for each id below n that has no token: a space, as byte-level BPE
 * writes it, a Q, and the id in letters.
 */
static int
rm_words(json_t *root, uint32_t n)
{
    char        *taken, word[16];
    size_t       i;
    json_t      *vocab, *added, *value;
    uint32_t     id, at, rest;
    const char  *key;

    vocab = json_object_get(json_object_get(root, "model"), "vocab");
    added = json_object_get(root, "added_tokens");
    taken = calloc(1, n);

    if (!json_is_object(vocab) || taken == NULL) {
        free(taken);
        return -1;
    }

    json_object_foreach(vocab, key, value) {
        if (json_integer_value(value) < n) {
            taken[json_integer_value(value)] = 1;
        }
    }

    json_array_foreach(added, i, value) {
        value = json_object_get(value, "id");

        if (json_integer_value(value) < n) {
            taken[json_integer_value(value)] = 1;
        }
    }

    for (id = 0; id < n; id++) {

        if (taken[id]) {
            continue;
        }

        at = (uint32_t) snprintf(word, sizeof(word), "\xc4\xa0Q");

        for (rest = id; rest > 0; rest /= 26) {
            word[at++] = (char) ('a' + rest % 26);
        }

        word[at] = '\0';
        (void) json_object_set_new(vocab, word, json_integer(id));
    }

    free(taken);

    return 0;
}


/* Where there is one. */
static hymt_status_t
rm_copy(const rm_t *rm, const char *name, hymt_error_t *err)
{
    char    path[RM_PATH + 64], buf[65536];
    FILE   *from, *to;
    size_t  n;

    snprintf(path, sizeof(path), "%s/%s", rm->tokenizer, name);

    from = fopen(path, "rb");
    if (from == NULL) {
        return HYMT_OK;
    }

    to = rm_create(rm, name, err);
    if (to == NULL) {
        fclose(from);
        return HYMT_ERROR;
    }

    while ((n = fread(buf, 1, sizeof(buf), from)) > 0) {
        (void) fwrite(buf, 1, n, to);
    }

    fclose(from);

    return rm_close(to, name, err);
}
