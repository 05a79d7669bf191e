/*
 * config.h - what config.json (and generation_config.json) of a Hugging Face
 * directory say about a HunYuanDenseV1 model.
 *
 * Accepted: model_type "hunyuan_v1_dense"; rope keys of both ages
 * (rope_scaling / rope_parameters, type / rope_type, rope_theta outside or
 * inside); head_dim, else attention_head_dim, else hidden_size /
 * num_attention_heads; torch_dtype or dtype.  Refused by name: any other
 * model_type, a quantization_config, biases, a hidden_act other than silu,
 * rope types other than "dynamic" with alpha (or none), sizes that do not
 * divide or are out of range.
 */

#ifndef HYMT_CONFIG_H
#define HYMT_CONFIG_H

#include "base.h"


#define HYMT_MAX_STOP  16


typedef struct {
    uint32_t  n_layers;
    uint32_t  hidden;         /* multiple of 16 */
    uint32_t  ffn;            /* intermediate_size */
    uint32_t  n_heads;
    uint32_t  n_kv_heads;     /* divides n_heads */
    uint32_t  head_dim;       /* even */
    uint32_t  vocab;          /* rows of the embedding */
    uint32_t  max_position;   /* hard limit of the context */
    float     rms_eps;
    bool      tied;           /* logits through embed_tokens */
    bool      qk_norm;

    /*
     * rope_theta * alpha^(head_dim / (head_dim - 2)) in double, used from
     * position 0 on (transformers, configuration_hunyuan_v1_dense.py): inv_freq
     * [i] = 1 / (float) base ^ (2i / head_dim)
     */
    double    rope_base;

    /* end tokens of generation_config.json's eos list, then config.json's */
    uint32_t  stop[HYMT_MAX_STOP];
    uint32_t  n_stop;

    /* recommended sampling of generation_config.json; do_sample false: 0 */
    float     temperature;
    float     top_p;
    float     repetition_penalty;
    uint32_t  top_k;

    char      name_or_path[256]; /* _name_or_path, may be empty */
} hymt_config_t;


/*
 * Reads <dir>/config.json and, where present, <dir>/generation_config.json.
 * Files over 1 MiB are refused.
 */
hymt_status_t hymt_config_read(const char *dir, hymt_config_t *config,
    hymt_error_t *err);


#endif /* HYMT_CONFIG_H */
