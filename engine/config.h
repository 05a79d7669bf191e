/*
 * config.h - what config.json (and generation_config.json) of a Hugging Face
 * directory say about a HunYuanDenseV1 model.
 *
 * Accepted: model_type "hunyuan_v1_dense"; rope keys of both ages
 * (rope_scaling / rope_parameters, type / rope_type, rope_theta outside or
 * inside); head_dim, else attention_head_dim, else hidden_size /
 * num_attention_heads.  A key set to null counts as absent, and an absent one
 * has the default of transformers' class (tie_word_embeddings false,
 * use_qk_norm true, rope_theta 10000); layers, hidden, ffn, heads and vocab
 * must be there.  torch_dtype and dtype are not looked at: a tensor says its
 * own.
 * Refused by name: any other model_type, a quantization_config, biases, a
 * hidden_act other than silu, rope types other than "dynamic" with alpha (or
 * none), two rope objects that differ, sizes that do not divide or are out of
 * the ranges below.  Keys not named here are ignored.
 */

#ifndef HYMT_CONFIG_H
#define HYMT_CONFIG_H

#include "base.h"


#define HYMT_MAX_STOP  16


typedef struct {
    uint32_t  n_layers;       /* 1 to 1024 */
    uint32_t  hidden;         /* 16 to 65536, multiple of 16 */
    uint32_t  ffn;            /* intermediate_size: 16 to 2^20, mult. of 16 */
    uint32_t  n_heads;        /* 1 to 1024 */
    uint32_t  n_kv_heads;     /* divides n_heads */
    uint32_t  head_dim;       /* 4 to 1024, even */
    uint32_t  vocab;          /* rows of the embedding, 1 to 2^20 */
    uint32_t  max_position;   /* hard limit of the context, 1 to 2^24 */
    float     rms_eps;        /* 1e-12 to 1 */
    bool      tied;           /* logits through embed_tokens */
    bool      qk_norm;

    /*
     * rope_theta * alpha^(head_dim / (head_dim - 2)) in double, used from
     * position 0 on (transformers, configuration_hunyuan_v1_dense.py): inv_freq
     * [i] = 1 / (float) base ^ (2i / head_dim)
     */
    double    rope_base;

    /*
     * End tokens: generation_config.json's eos_token_id (one or a list), then
     * config.json's eos_token_id and eod_token_id, each once.  An id outside
     * the vocabulary can't come out and is left out.  So are eos 2 and eod 3
     * of config.json: they are the defaults of transformers' class, which it
     * writes for a model that names none, and in the real vocabularies they
     * are ordinary tokens that must not end a text.  May be empty.
     */
    uint32_t  stop[HYMT_MAX_STOP];
    uint32_t  n_stop;

    /*
     * Recommended sampling of generation_config.json, ranges as sampling.h's.
     * do_sample false or absent: temperature 0, the others as the file says.
     * Absent keys: 1, 1, 1 and top_k 50 with do_sample, as in transformers.
     */
    float     temperature;
    float     top_p;
    float     repetition_penalty;
    uint32_t  top_k;

    char      name_or_path[256]; /* _name_or_path or its end; may be empty */
} hymt_config_t;


/*
 * Reads <dir>/config.json and, where present, <dir>/generation_config.json.
 * Files over 1 MiB are refused.
 */
hymt_status_t hymt_config_read(const char *dir, hymt_config_t *config,
    hymt_error_t *err);


#endif /* HYMT_CONFIG_H */
