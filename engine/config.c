/*
 * config.c - see config.h.
 *
 * Names, defaults and the rope formula: transformers 4.56 to 5.17,
 * configuration_hunyuan_v1_dense.py and modeling_hunyuan_v1_dense.py.
 */

#include "config.h"
#include "file.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define HYMT_CONFIG_FILE_MAX  (1 << 20)

/*
 * The values of eos_token_id and eod_token_id that HunYuanDenseV1Config has
 * where a model says nothing.  transformers writes them when it saves a model;
 * they are ordinary tokens ("#" and "$" in the 7B's vocabulary).
 */
#define HYMT_CLASS_EOS  2
#define HYMT_CLASS_EOD  3


/* One JSON object of one file, and where its errors go. */
typedef struct {
    char          *path;       /* owned where it is the file's section */
    const char    *within;     /* "" or "rope_scaling." */
    json_t        *object;     /* owned where it is the file's section */
    hymt_error_t  *err;
} hymt_section_t;


typedef struct {
    const char  *key;
    size_t       offset;       /* of a uint32_t in hymt_config_t */
    uint32_t     min;
    uint32_t     max;
    uint32_t     multiple;
    uint32_t     absent;       /* default, 0: must be there */
} hymt_config_size_t;


typedef struct {
    const char  *key;
    bool         want;         /* also where absent */
    const char  *why;
} hymt_config_flag_t;


static hymt_status_t hymt_config_load(const char *dir, const char *name,
    hymt_section_t *s, hymt_error_t *err);
static void hymt_config_unload(hymt_section_t *s);
static hymt_status_t hymt_config_model(const hymt_section_t *s,
    hymt_config_t *config);
static hymt_status_t hymt_config_kind(const hymt_section_t *s);
static hymt_status_t hymt_config_flags(const hymt_section_t *s);
static hymt_status_t hymt_config_word(const hymt_section_t *s,
    const char *key, const char *want);
static hymt_status_t hymt_config_sizes(const hymt_section_t *s,
    hymt_config_t *config);
static hymt_status_t hymt_config_heads(const hymt_section_t *s,
    hymt_config_t *config);
static hymt_status_t hymt_config_rope(const hymt_section_t *s,
    hymt_config_t *config);
static hymt_status_t hymt_config_rope_section(const hymt_section_t *s,
    const char *key, double theta, uint32_t head_dim, double *base);
static hymt_status_t hymt_config_rope_type(const hymt_section_t *s,
    const char **type);
static void hymt_config_name(const hymt_section_t *s, hymt_config_t *config);
static hymt_status_t hymt_config_generation(const hymt_section_t *s,
    hymt_config_t *config);
static hymt_status_t hymt_config_stops(const hymt_section_t *s,
    const char *key, int64_t unset, hymt_config_t *config);
static hymt_status_t hymt_config_stop(const hymt_section_t *s,
    const char *key, const json_t *id, int64_t unset, hymt_config_t *config);
static json_t *hymt_config_get(const hymt_section_t *s,
    const char *key);
static hymt_status_t hymt_config_uint(const hymt_section_t *s,
    const hymt_config_size_t *size, uint32_t *value);
static hymt_status_t hymt_config_bool(const hymt_section_t *s,
    const char *key, bool absent, bool *value);
static hymt_status_t hymt_config_number(const hymt_section_t *s,
    const char *key, double min, double max, double *value);


static const hymt_config_size_t  hymt_config_size_table[] = {
    { "num_hidden_layers", offsetof(hymt_config_t, n_layers),
      1, 1024, 1, 0 },
    { "hidden_size", offsetof(hymt_config_t, hidden),
      16, 65536, 16, 0 },
    { "intermediate_size", offsetof(hymt_config_t, ffn),
      16, 1 << 20, 16, 0 },
    { "num_attention_heads", offsetof(hymt_config_t, n_heads),
      1, 1024, 1, 0 },
    { "vocab_size", offsetof(hymt_config_t, vocab),
      1, 1 << 20, 1, 0 },
    { "max_position_embeddings", offsetof(hymt_config_t, max_position),
      1, 1 << 24, 1, 2048 },
};

static const hymt_config_size_t  hymt_config_kv_heads =
    { "num_key_value_heads", offsetof(hymt_config_t, n_kv_heads),
      1, 1024, 1, UINT32_MAX };

/* the rope base's exponent divides by head_dim - 2 */

static const hymt_config_size_t  hymt_config_head_dims[] = {
    { "head_dim", offsetof(hymt_config_t, head_dim),
      4, 1024, 2, UINT32_MAX },
    { "attention_head_dim", offsetof(hymt_config_t, head_dim),
      4, 1024, 2, UINT32_MAX },
};


static const hymt_config_flag_t  hymt_config_flag_table[] = {
    { "attention_bias", false, "biases are not supported" },
    { "mlp_bias", false, "biases are not supported" },
    { "use_cla", false, "cross-layer attention is not supported" },
    { "use_mla", false, "latent attention is not supported" },
    { "use_rotary_pos_emb", true, "a model without rope is not supported" },
};


hymt_status_t
hymt_config_read(const char *dir, hymt_config_t *config, hymt_error_t *err)
{
    hymt_status_t   rc;
    hymt_section_t  model, generation;

    memset(config, 0, sizeof(hymt_config_t));
    memset(&generation, 0, sizeof(hymt_section_t));

    config->top_p = 1;
    config->repetition_penalty = 1;

    rc = hymt_config_load(dir, "config.json", &model, err);

    if (rc == HYMT_DECLINED) {
        rc = hymt_fail(err, "%s/config.json: no such file: is \"%s\" the"
                       " directory of a Hugging Face model?", dir, dir);
    }

    if (rc == HYMT_OK) {
        rc = hymt_config_model(&model, config);
    }

    if (rc == HYMT_OK) {
        rc = hymt_config_load(dir, "generation_config.json", &generation, err);

        rc = rc == HYMT_OK ? hymt_config_generation(&generation, config)
             : rc == HYMT_DECLINED ? HYMT_OK : rc;
    }

    if (rc == HYMT_OK) {
        rc = hymt_config_stops(&model, "eos_token_id", HYMT_CLASS_EOS, config);
    }

    if (rc == HYMT_OK) {
        rc = hymt_config_stops(&model, "eod_token_id", HYMT_CLASS_EOD, config);
    }

    hymt_config_unload(&generation);
    hymt_config_unload(&model);

    return rc;
}


/* HYMT_DECLINED where there is no such file. */
static hymt_status_t
hymt_config_load(const char *dir, const char *name, hymt_section_t *s,
    hymt_error_t *err)
{
    memset(s, 0, sizeof(hymt_section_t));

    s->within = "";
    s->err = err;

    s->path = hymt_file_path(dir, name, err);
    if (s->path == NULL) {
        return HYMT_ERROR;
    }

    return hymt_json_read(s->path, HYMT_CONFIG_FILE_MAX, &s->object, err);
}


static void
hymt_config_unload(hymt_section_t *s)
{
    json_decref(s->object);
    free(s->path);
}


static hymt_status_t
hymt_config_model(const hymt_section_t *s, hymt_config_t *config)
{
    double  eps;

    if (hymt_config_kind(s) != HYMT_OK
        || hymt_config_flags(s) != HYMT_OK
        || hymt_config_sizes(s, config) != HYMT_OK
        || hymt_config_heads(s, config) != HYMT_OK
        || hymt_config_rope(s, config) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    eps = 1e-5;

    if (hymt_config_number(s, "rms_norm_eps", 1e-12, 1, &eps) != HYMT_OK
        || hymt_config_bool(s, "tie_word_embeddings", false, &config->tied)
           != HYMT_OK
        || hymt_config_bool(s, "use_qk_norm", true, &config->qk_norm)
           != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    config->rms_eps = (float) eps;
    hymt_config_name(s, config);

    return HYMT_OK;
}


/* What kind of model this is, before anything is said about its sizes. */
static hymt_status_t
hymt_config_kind(const hymt_section_t *s)
{
    char           show[HYMT_JSON_SHOW];
    const char    *type;
    const json_t  *value;

    value = hymt_config_get(s, "model_type");
    type = value != NULL && json_is_string(value) ? json_string_value(value)
                                                  : "";

    if (strcmp(type, "hy_v3") == 0) {
        return hymt_fail(s->err, "%s: model_type \"hy_v3\" is the"
                         " mixture-of-experts Hy-MT2-30B-A3B, which is not"
                         " supported; use one of the dense models (1.8B, 7B)",
                         s->path);
    }

    if (strcmp(type, "hunyuan_v1_dense") != 0) {
        return hymt_fail(s->err, "%s: model_type must be \"hunyuan_v1_dense\","
                         " got %s", s->path, hymt_json_show(value, show));
    }

    value = hymt_config_get(s, "quantization_config");

    if (value != NULL) {
        return hymt_fail(s->err, "%s: quantization_config (quant_method %s):"
                         " quantised checkpoints are not supported; use the"
                         " bf16 checkpoint", s->path,
                         hymt_json_show(json_object_get(value, "quant_method"),
                                        show));
    }

    return HYMT_OK;
}


/* Switches that would change the forward pass. */
static hymt_status_t
hymt_config_flags(const hymt_section_t *s)
{
    bool    value;
    size_t  i;

    const hymt_config_flag_t  *flag;

    for (i = 0; i < hymt_nelts(hymt_config_flag_table); i++) {
        flag = &hymt_config_flag_table[i];

        if (hymt_config_bool(s, flag->key, flag->want, &value) != HYMT_OK) {
            return HYMT_ERROR;
        }

        if (value != flag->want) {
            return hymt_fail(s->err, "%s: \"%s\" is %s: %s", s->path,
                             flag->key, value ? "true" : "false", flag->why);
        }
    }

    if (hymt_config_word(s, "hidden_act", "silu") != HYMT_OK
        || hymt_config_word(s, "norm_type", "rms") != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    return HYMT_OK;
}


/* A string that may be absent but, where it is there, has one value only. */
static hymt_status_t
hymt_config_word(const hymt_section_t *s, const char *key, const char *want)
{
    char           show[HYMT_JSON_SHOW];
    const json_t  *value;

    value = hymt_config_get(s, key);

    if (value != NULL
        && (!json_is_string(value)
            || strcmp(json_string_value(value), want) != 0))
    {
        return hymt_fail(s->err, "%s: \"%s\" must be \"%s\", got %s", s->path,
                         key, want, hymt_json_show(value, show));
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_config_sizes(const hymt_section_t *s, hymt_config_t *config)
{
    size_t                     i;
    uint32_t                  *value;
    const hymt_config_size_t  *size;

    for (i = 0; i < hymt_nelts(hymt_config_size_table); i++) {
        size = &hymt_config_size_table[i];
        value = (uint32_t *) ((char *) config + size->offset);

        if (hymt_config_uint(s, size, value) != HYMT_OK) {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_config_heads(const hymt_section_t *s, hymt_config_t *config)
{
    size_t                     i;
    uint32_t                   n;
    const hymt_config_size_t  *size;

    if (hymt_config_uint(s, &hymt_config_kv_heads, &n) != HYMT_OK) {
        return HYMT_ERROR;
    }

    config->n_kv_heads = n == UINT32_MAX ? config->n_heads : n;

    if (config->n_heads % config->n_kv_heads != 0) {
        return hymt_fail(s->err, "%s: \"num_key_value_heads\" %" PRIu32
                         " does not divide \"num_attention_heads\" %" PRIu32,
                         s->path, config->n_kv_heads, config->n_heads);
    }

    for (i = 0; i < hymt_nelts(hymt_config_head_dims); i++) {
        size = &hymt_config_head_dims[i];

        if (hymt_config_uint(s, size, &config->head_dim) != HYMT_OK) {
            return HYMT_ERROR;
        }

        if (config->head_dim != UINT32_MAX) {
            return HYMT_OK;
        }
    }

    n = config->hidden / config->n_heads;

    if (config->hidden % config->n_heads != 0
        || n % size->multiple != 0 || n < size->min || n > size->max)
    {
        return hymt_fail(s->err, "%s: there is no \"head_dim\", and"
                         " \"hidden_size\" %" PRIu32 " over"
                         " \"num_attention_heads\" %" PRIu32 " is not an even"
                         " integer from %" PRIu32 " to %" PRIu32, s->path,
                         config->hidden, config->n_heads, size->min,
                         size->max);
    }

    config->head_dim = n;

    return HYMT_OK;
}


static hymt_status_t
hymt_config_rope(const hymt_section_t *s, hymt_config_t *config)
{
    double         theta, base[2];
    hymt_status_t  rc[2];

    theta = 10000;

    if (hymt_config_number(s, "rope_theta", 1, 1e15, &theta) != HYMT_OK) {
        return HYMT_ERROR;
    }

    rc[0] = hymt_config_rope_section(s, "rope_parameters", theta,
                                     config->head_dim, &base[0]);
    if (rc[0] == HYMT_ERROR) {
        return HYMT_ERROR;
    }

    rc[1] = hymt_config_rope_section(s, "rope_scaling", theta,
                                     config->head_dim, &base[1]);
    if (rc[1] == HYMT_ERROR) {
        return HYMT_ERROR;
    }

    if (rc[0] == HYMT_OK && rc[1] == HYMT_OK && base[0] != base[1]) {
        return hymt_fail(s->err, "%s: \"rope_parameters\" and"
                         " \"rope_scaling\" are both there and differ (rope"
                         " base %.10g and %.10g): remove one", s->path,
                         base[0], base[1]);
    }

    config->rope_base = rc[0] == HYMT_OK ? base[0]
                        : rc[1] == HYMT_OK ? base[1] : theta;

    return HYMT_OK;
}


/*
 * The rope base by one of the two objects that may describe it; HYMT_DECLINED
 * where it is absent.  A theta inside goes before the one outside.
 */
static hymt_status_t
hymt_config_rope_section(const hymt_section_t *s, const char *key,
    double theta, uint32_t head_dim, double *base)
{
    char            show[HYMT_JSON_SHOW], within[32];
    double          alpha;
    json_t         *value;
    const char     *type;
    hymt_section_t  rope;

    value = hymt_config_get(s, key);

    if (value == NULL) {
        return HYMT_DECLINED;
    }

    if (!json_is_object(value)) {
        return hymt_fail(s->err, "%s: \"%s\" must be an object, got %s",
                         s->path, key, hymt_json_show(value, show));
    }

    type = "";
    snprintf(within, sizeof(within), "%s.", key);

    rope.path = s->path;
    rope.within = within;
    rope.object = value;
    rope.err = s->err;

    if (hymt_config_number(&rope, "rope_theta", 1, 1e15, &theta) != HYMT_OK
        || hymt_config_rope_type(&rope, &type) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (strcmp(type, "default") == 0) {
        *base = theta;
        return HYMT_OK;
    }

    alpha = 0;

    if (hymt_config_number(&rope, "alpha", 1, 1e15, &alpha) != HYMT_OK) {
        return HYMT_ERROR;
    }

    if (alpha == 0) {
        return hymt_fail(s->err, "%s: \"%s\" of type \"dynamic\" has no"
                         " \"alpha\": dynamic rope by \"factor\" is not"
                         " supported", s->path, key);
    }

    *base = theta * pow(alpha, (double) head_dim / (head_dim - 2));

    if (!(*base <= FLT_MAX)) {
        return hymt_fail(s->err, "%s: \"%s\": rope_theta %.6g with alpha %.6g"
                         " gives a rope base beyond single precision",
                         s->path, key, theta, alpha);
    }

    return HYMT_OK;
}


/* transformers 5 writes "rope_type" and may keep "type" beside it */
static hymt_status_t
hymt_config_rope_type(const hymt_section_t *s, const char **type)
{
    char           show[HYMT_JSON_SHOW];
    const json_t  *old, *new, *value;

    old = hymt_config_get(s, "type");
    new = hymt_config_get(s, "rope_type");

    if (old != NULL && new != NULL && !json_equal(old, new)) {
        return hymt_fail(s->err, "%s: \"%stype\" and \"%srope_type\" differ",
                         s->path, s->within, s->within);
    }

    value = new != NULL ? new : old;

    if (value == NULL && hymt_config_get(s, "alpha") == NULL
        && hymt_config_get(s, "factor") == NULL)
    {
        *type = "default";
        return HYMT_OK;
    }

    *type = value != NULL && json_is_string(value) ? json_string_value(value)
                                                   : "";

    if (strcmp(*type, "default") != 0 && strcmp(*type, "dynamic") != 0) {
        return hymt_fail(s->err, "%s: \"%srope_type\" must be \"dynamic\""
                         " (with \"alpha\") or \"default\", got %s", s->path,
                         s->within, hymt_json_show(value, show));
    }

    return HYMT_OK;
}


/*
 * Of a long name the end is kept: that is where a path names its model.  One
 * with control characters is no name, and would spoil logs.
 */
static void
hymt_config_name(const hymt_section_t *s, hymt_config_t *config)
{
    size_t         i, len;
    const char    *name;
    const json_t  *value;

    value = hymt_config_get(s, "_name_or_path");

    if (value == NULL || !json_is_string(value)) {
        return;
    }

    name = json_string_value(value);
    len = strlen(name);

    for (i = 0; i < len; i++) {
        if ((unsigned char) name[i] < 0x20 || name[i] == 0x7f) {
            return;
        }
    }

    if (len >= sizeof(config->name_or_path)) {
        name += len - sizeof(config->name_or_path) + 1;

        while ((*name & 0xc0) == 0x80) {
            name++;
        }
    }

    strcpy(config->name_or_path, name);
}


static hymt_status_t
hymt_config_generation(const hymt_section_t *s, hymt_config_t *config)
{
    bool     sample;
    double   temperature, top_p, top_k, penalty;

    if (hymt_config_stops(s, "eos_token_id", -1, config) != HYMT_OK
        || hymt_config_bool(s, "do_sample", false, &sample) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    /* what transformers takes where a key is absent */

    temperature = 1;
    top_p = 1;
    top_k = sample ? 50 : 0;
    penalty = 1;

    if (hymt_config_number(s, "temperature", 0, 10, &temperature) != HYMT_OK
        || hymt_config_number(s, "top_p", 1e-6, 1, &top_p) != HYMT_OK
        || hymt_config_number(s, "top_k", -1, 1 << 20, &top_k) != HYMT_OK
        || hymt_config_number(s, "repetition_penalty", 0.1, 10, &penalty)
           != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    config->temperature = sample ? (float) temperature : 0;
    config->top_p = (float) top_p;
    config->top_k = top_k > 0 ? (uint32_t) top_k : 0;
    config->repetition_penalty = (float) penalty;

    return HYMT_OK;
}


/* Adds one id or a list of ids to the stop list. */
static hymt_status_t
hymt_config_stops(const hymt_section_t *s, const char *key, int64_t unset,
    hymt_config_t *config)
{
    size_t         i;
    const json_t  *value;

    value = hymt_config_get(s, key);

    if (value == NULL) {
        return HYMT_OK;
    }

    if (!json_is_array(value)) {
        return hymt_config_stop(s, key, value, unset, config);
    }

    for (i = 0; i < json_array_size(value); i++) {
        if (hymt_config_stop(s, key, json_array_get(value, i), unset, config)
            != HYMT_OK)
        {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_config_stop(const hymt_section_t *s, const char *key, const json_t *id,
    int64_t unset, hymt_config_t *config)
{
    char      show[HYMT_JSON_SHOW];
    int64_t   n;
    uint32_t  i;

    if (!json_is_integer(id)) {
        return hymt_fail(s->err, "%s: \"%s\" must be an integer or a list of"
                         " integers, got %s", s->path, key,
                         hymt_json_show(id, show));
    }

    n = json_integer_value(id);

    if (n < 0 || n >= config->vocab || n == unset) {
        return HYMT_OK;
    }

    for (i = 0; i < config->n_stop; i++) {
        if (config->stop[i] == (uint32_t) n) {
            return HYMT_OK;
        }
    }

    if (config->n_stop == HYMT_MAX_STOP) {
        return hymt_fail(s->err, "%s: \"%s\": more than %d end tokens in"
                         " generation_config.json and config.json", s->path,
                         key, HYMT_MAX_STOP);
    }

    config->stop[config->n_stop++] = (uint32_t) n;

    return HYMT_OK;
}


/* A key set to null counts as absent, as in transformers. */
static json_t *
hymt_config_get(const hymt_section_t *s, const char *key)
{
    json_t  *value;

    value = json_object_get(s->object, key);

    return value != NULL && json_is_null(value) ? NULL : value;
}


static hymt_status_t
hymt_config_uint(const hymt_section_t *s, const hymt_config_size_t *size,
    uint32_t *value)
{
    char           show[HYMT_JSON_SHOW], multiple[32];
    json_int_t     n;
    const json_t  *json;

    json = hymt_config_get(s, size->key);

    if (json == NULL) {
        if (size->absent == 0) {
            return hymt_fail(s->err, "%s: \"%s\" is missing", s->path,
                             size->key);
        }

        *value = size->absent;
        return HYMT_OK;
    }

    n = json_is_integer(json) ? json_integer_value(json) : -1;

    if (n < size->min || n > size->max || n % size->multiple != 0) {
        snprintf(multiple, sizeof(multiple), ", a multiple of %" PRIu32,
                 size->multiple);

        return hymt_fail(s->err, "%s: \"%s\" must be an integer from %" PRIu32
                         " to %" PRIu32 "%s, got %s", s->path, size->key,
                         size->min, size->max,
                         size->multiple > 1 ? multiple : "",
                         hymt_json_show(json, show));
    }

    *value = (uint32_t) n;

    return HYMT_OK;
}


static hymt_status_t
hymt_config_bool(const hymt_section_t *s, const char *key, bool absent,
    bool *value)
{
    char           show[HYMT_JSON_SHOW];
    const json_t  *json;

    json = hymt_config_get(s, key);

    if (json == NULL) {
        *value = absent;
        return HYMT_OK;
    }

    if (!json_is_boolean(json)) {
        return hymt_fail(s->err, "%s: \"%s\" must be true or false, got %s",
                         s->path, key, hymt_json_show(json, show));
    }

    *value = json_is_true(json);

    return HYMT_OK;
}


/* Leaves *value as it is where the key is absent. */
static hymt_status_t
hymt_config_number(const hymt_section_t *s, const char *key, double min,
    double max, double *value)
{
    char           show[HYMT_JSON_SHOW];
    double         n;
    const json_t  *json;

    json = hymt_config_get(s, key);

    if (json == NULL) {
        return HYMT_OK;
    }

    n = json_is_number(json) ? json_number_value(json) : NAN;

    if (!(n >= min && n <= max)) {
        return hymt_fail(s->err, "%s: \"%s%s\" must be a number from %g to %g,"
                         " got %s", s->path, s->within, key, min, max,
                         hymt_json_show(json, show));
    }

    *value = n;

    return HYMT_OK;
}
