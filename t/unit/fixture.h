/*
 * fixture.h - writes a tiny random HunYuanDenseV1 checkpoint for a test.
 *
 *     char             dir[FIXTURE_PATH];
 *     fixture_shape_t  shape = { .hidden = 128, .dtype = "F32" };
 *
 *     fixture_dir(dir);                    a new directory under $TMPDIR
 *     fixture_model(dir, &shape, 42);      config, weights, tokenizer
 *     ...
 *     fixture_remove(dir);
 *
 * Weights depend on the seed, the tensor's place and the element alone: equal
 * seeds and shapes give equal values, rounded to the dtype asked for, whatever
 * the number of shards.  Projections keep the size of what they carry, norm
 * weights lie in [0.5, 1.5), logits have a deviation of about 2.
 *
 * The tokenizer has one token for each byte (ids 0 to 255, no merges) and the
 * special tokens of the 1.8B family's chat template (ids 256 to 260).
 *
 * A failing file operation ends the test's program with a message.
 */

#ifndef HYMT_FIXTURE_H
#define HYMT_FIXTURE_H

#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


#define FIXTURE_PATH    256

#define FIXTURE_BOS     256   /* <｜hy_begin▁of▁sentence｜> */
#define FIXTURE_USER    257   /* <｜hy_User｜> */
#define FIXTURE_ASSIST  258   /* <｜hy_Assistant｜> */
#define FIXTURE_EOS     259   /* <｜hy_place▁holder▁no▁2｜> */
#define FIXTURE_EOD     260   /* <｜hy_place▁holder▁no▁8｜> */


/* A member left zero takes the value in brackets. */
typedef struct {
    uint32_t     layers;       /* [2] */
    uint32_t     hidden;       /* [64] */
    uint32_t     ffn;          /* [96] */
    uint32_t     heads;        /* [4] */
    uint32_t     kv_heads;     /* [2] */
    uint32_t     head_dim;     /* [16] */
    uint32_t     vocab;        /* [272] */
    uint32_t     max_position; /* [1024] */
    const char  *dtype;        /* "F32", "F16", "BF16" ["BF16"] */
    uint32_t     shards;       /* 0: model.safetensors; else index and shards */
    bool         untied;       /* lm_head.weight of its own */
    bool         lm_head_copy; /* tied, and a copy of embed stored as lm_head */
    bool         no_qk_norm;
    bool         new_keys;     /* rope_parameters, dtype: transformers 5 */
    double       rope_theta;   /* [10000] */
    double       rope_alpha;   /* [1000] */
} fixture_shape_t;


typedef struct {
    char      name[96];
    uint64_t  rows;
    uint64_t  cols;            /* 0: a vector of rows elements */
    uint32_t  key;             /* which stream of random numbers */
} fixture_tensor_t;


static inline void
fixture_die(const char *what, const char *path)
{
    printf("Bail out! fixture: %s: %s\n", what, path);
    exit(1);
}


static inline fixture_shape_t
fixture_shape(const fixture_shape_t *given)
{
    fixture_shape_t  s;

    s = *given;

    s.layers = s.layers ? s.layers : 2;
    s.hidden = s.hidden ? s.hidden : 64;
    s.ffn = s.ffn ? s.ffn : 96;
    s.heads = s.heads ? s.heads : 4;
    s.kv_heads = s.kv_heads ? s.kv_heads : 2;
    s.head_dim = s.head_dim ? s.head_dim : 16;
    s.vocab = s.vocab ? s.vocab : 272;
    s.max_position = s.max_position ? s.max_position : 1024;
    s.dtype = s.dtype ? s.dtype : "BF16";
    s.rope_theta = s.rope_theta != 0 ? s.rope_theta : 10000;
    s.rope_alpha = s.rope_alpha != 0 ? s.rope_alpha : 1000;

    return s;
}


static inline uint32_t
fixture_n_tensors(const fixture_shape_t *s)
{
    return 2 + s->layers * (s->no_qk_norm ? 9 : 11)
           + (s->untied || s->lm_head_copy);
}


/* Tensor i of the checkpoint, in the order of the files. */
static inline fixture_tensor_t
fixture_tensor(const fixture_shape_t *s, uint32_t i)
{
    uint32_t          n, layer, part;
    fixture_tensor_t  t;

    static const char *const  names[] = {
        "input_layernorm", "post_attention_layernorm",
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
        "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
        "self_attn.query_layernorm", "self_attn.key_layernorm",
    };

    const uint64_t  q = (uint64_t) s->heads * s->head_dim;
    const uint64_t  kv = (uint64_t) s->kv_heads * s->head_dim;
    const uint64_t  shape[11][2] = {
        { s->hidden, 0 }, { s->hidden, 0 },
        { q, s->hidden }, { kv, s->hidden }, { kv, s->hidden },
        { s->hidden, q },
        { s->ffn, s->hidden }, { s->ffn, s->hidden }, { s->hidden, s->ffn },
        { s->head_dim, 0 }, { s->head_dim, 0 },
    };

    memset(&t, 0, sizeof(t));
    n = s->no_qk_norm ? 9 : 11;

    if (i == 0) {
        strcpy(t.name, "model.embed_tokens.weight");
        t.rows = s->vocab;
        t.cols = s->hidden;

    } else if (i <= s->layers * n) {
        layer = (i - 1) / n;
        part = (i - 1) % n;
        snprintf(t.name, sizeof(t.name), "model.layers.%u.%s.weight", layer,
                 names[part]);
        t.rows = shape[part][0];
        t.cols = shape[part][1];
        t.key = 16 + layer * 11 + part;

    } else if (i == 1 + s->layers * n) {
        strcpy(t.name, "model.norm.weight");
        t.rows = s->hidden;
        t.key = 1;

    } else {
        strcpy(t.name, "lm_head.weight");
        t.rows = s->vocab;
        t.cols = s->hidden;
        t.key = s->untied ? 2 : 0;
    }

    return t;
}


/* splitmix64's finaliser, to [0, 1) */
static inline double
fixture_random(uint64_t seed, uint32_t key, uint64_t i)
{
    uint64_t  z;

    z = seed * 0x9e3779b97f4a7c15 + ((uint64_t) key << 40) + i + 1;
    z *= 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;

    return (double) (z >> 11) / 9007199254740992.0;
}


/* Element i of a tensor, before rounding to the dtype. */
static inline float
fixture_value(const fixture_shape_t *s, const fixture_tensor_t *t,
    uint64_t seed, uint64_t i)
{
    double  u, deviation;

    u = fixture_random(seed, t->key, i);

    if (t->cols == 0) {
        return (float) (0.5 + u);
    }

    deviation = t->key <= 2 ? 2 / sqrt(s->hidden) : 1 / sqrt((double) t->cols);

    return (float) ((2 * u - 1) * sqrt(3) * deviation);
}


/* to nearest, ties to even */
static inline uint16_t
fixture_bf16(float f)
{
    uint32_t  u;

    memcpy(&u, &f, 4);

    return (uint16_t) ((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}


/* to nearest, ties to even; |f| < 65504 */
static inline uint16_t
fixture_f16(float f)
{
    int       e;
    double    m;
    uint16_t  sign;

    sign = signbit(f) ? 0x8000 : 0;
    m = frexp(fabs((double) f), &e);     /* m in [0.5, 1) */

    if (m == 0) {
        return sign;
    }

    if (e < -13) {
        return (uint16_t) (sign | (uint16_t) rint(ldexp(m, e + 24)));
    }

    return (uint16_t) (sign + ((e + 13) << 10) + (int) rint(ldexp(m, 11)));
}


static inline uint32_t
fixture_dtype_size(const fixture_shape_t *s)
{
    return strcmp(s->dtype, "F32") == 0 ? 4 : 2;
}


static inline FILE *
fixture_create(const char *dir, const char *name)
{
    FILE  *f;
    char   path[FIXTURE_PATH + 64];

    snprintf(path, sizeof(path), "%s/%s", dir, name);

    f = fopen(path, "wb");
    if (f == NULL) {
        fixture_die("can't create", path);
    }

    return f;
}


/* Writes <dir>/<name> with the text given. */
static inline void
fixture_write(const char *dir, const char *name, const char *text)
{
    FILE  *f;

    f = fixture_create(dir, name);

    if (fputs(text, f) < 0 || fclose(f) != 0) {
        fixture_die("can't write", name);
    }
}


static inline void
fixture_write_data(FILE *f, const fixture_shape_t *s,
    const fixture_tensor_t *t, uint64_t seed)
{
    float     v;
    uint16_t  h;
    uint64_t  i, n;

    n = t->rows * (t->cols ? t->cols : 1);

    for (i = 0; i < n; i++) {
        v = fixture_value(s, t, seed, i);

        if (fixture_dtype_size(s) == 4) {
            fwrite(&v, 4, 1, f);

        } else {
            h = strcmp(s->dtype, "F16") == 0 ? fixture_f16(v)
                                             : fixture_bf16(v);
            fwrite(&h, 2, 1, f);
        }
    }
}


/* One file with the tensors first .. last - 1. */
static inline void
fixture_write_shard(const char *dir, const char *name,
    const fixture_shape_t *s, uint64_t seed, uint32_t first, uint32_t last)
{
    FILE              *f, *h;
    char              *header;
    size_t             size;
    uint32_t           i;
    uint64_t           at, bytes, length;
    fixture_tensor_t   t;

    h = open_memstream(&header, &size);
    if (h == NULL) {
        fixture_die("no memory for", name);
    }

    fprintf(h, "{\"__metadata__\":{\"format\":\"pt\"}");

    for (i = first, at = 0; i < last; i++, at += bytes) {
        t = fixture_tensor(s, i);
        bytes = t.rows * (t.cols ? t.cols : 1) * fixture_dtype_size(s);

        fprintf(h, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%llu", t.name,
                s->dtype, (unsigned long long) t.rows);

        if (t.cols) {
            fprintf(h, ",%llu", (unsigned long long) t.cols);
        }

        fprintf(h, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long) at,
                (unsigned long long) (at + bytes));
    }

    fprintf(h, "}");
    fclose(h);

    f = fixture_create(dir, name);

    /* padded with spaces to 8 bytes, as the format's own writer does */

    length = (size + 7) / 8 * 8;
    fwrite(&length, 8, 1, f);
    fprintf(f, "%-*s", (int) length, header);

    for (i = first; i < last; i++) {
        t = fixture_tensor(s, i);
        fixture_write_data(f, s, &t, seed);
    }

    if (ferror(f) || fclose(f) != 0) {
        fixture_die("can't write", name);
    }

    free(header);
}


static inline void
fixture_write_weights(const char *dir, const fixture_shape_t *s, uint64_t seed)
{
    FILE              *f;
    char               name[64];
    uint32_t           i, j, n, first, last;
    fixture_tensor_t   t;

    n = fixture_n_tensors(s);

    if (s->shards == 0) {
        fixture_write_shard(dir, "model.safetensors", s, seed, 0, n);
        return;
    }

    f = fixture_create(dir, "model.safetensors.index.json");
    fprintf(f, "{\"metadata\": {}, \"weight_map\": {\n");

    for (i = 0; i < s->shards; i++) {
        first = n * i / s->shards;
        last = n * (i + 1) / s->shards;

        snprintf(name, sizeof(name), "model-%05u-of-%05u.safetensors", i + 1,
                 s->shards);
        fixture_write_shard(dir, name, s, seed, first, last);

        for (j = first; j < last; j++) {
            t = fixture_tensor(s, j);
            fprintf(f, "  \"%s\": \"%s\"%s\n", t.name, name,
                    j + 1 < n ? "," : "");
        }
    }

    fprintf(f, "}}\n");

    if (ferror(f) || fclose(f) != 0) {
        fixture_die("can't write the index in", dir);
    }
}


static inline void
fixture_write_config(const char *dir, const fixture_shape_t *s)
{
    FILE        *f;
    const char  *dtype;

    dtype = strcmp(s->dtype, "F32") == 0 ? "float32"
            : strcmp(s->dtype, "F16") == 0 ? "float16" : "bfloat16";

    f = fixture_create(dir, "config.json");

    fprintf(f, "{\n"
            "  \"architectures\": [\"HunYuanDenseV1ForCausalLM\"],\n"
            "  \"model_type\": \"hunyuan_v1_dense\",\n"
            "  \"num_hidden_layers\": %u,\n  \"hidden_size\": %u,\n"
            "  \"intermediate_size\": %u,\n  \"num_attention_heads\": %u,\n"
            "  \"num_key_value_heads\": %u,\n  \"head_dim\": %u,\n"
            "  \"vocab_size\": %u,\n  \"max_position_embeddings\": %u,\n",
            s->layers, s->hidden, s->ffn, s->heads, s->kv_heads, s->head_dim,
            s->vocab, s->max_position);

    fprintf(f, "  \"hidden_act\": \"silu\",\n  \"attention_bias\": false,\n"
            "  \"mlp_bias\": false,\n  \"rms_norm_eps\": 1e-05,\n"
            "  \"use_qk_norm\": %s,\n  \"tie_word_embeddings\": %s,\n",
            s->no_qk_norm ? "false" : "true", s->untied ? "false" : "true");

    if (s->new_keys) {
        fprintf(f, "  \"dtype\": \"%s\",\n  \"rope_parameters\": {\n"
                "    \"rope_type\": \"dynamic\", \"alpha\": %.17g,\n"
                "    \"factor\": 1.0, \"rope_theta\": %.17g\n  },\n",
                dtype, s->rope_alpha, s->rope_theta);

    } else {
        fprintf(f, "  \"torch_dtype\": \"%s\",\n  \"rope_theta\": %.17g,\n"
                "  \"rope_scaling\": {\"type\": \"dynamic\","
                " \"alpha\": %.17g, \"factor\": 1.0},\n",
                dtype, s->rope_theta, s->rope_alpha);
    }

    fprintf(f, "  \"bos_token_id\": %d,\n  \"eos_token_id\": %d,\n"
            "  \"eod_token_id\": %d\n}\n",
            FIXTURE_BOS, FIXTURE_EOS, FIXTURE_EOD);

    if (ferror(f) || fclose(f) != 0) {
        fixture_die("can't write config.json in", dir);
    }

    fixture_write(dir, "generation_config.json",
                  "{\"do_sample\": false, \"eos_token_id\": [259, 260]}\n");
}


/* GPT-2's way to write a byte as a letter, in UTF-8 and JSON. */
static inline void
fixture_write_byte(FILE *f, int b)
{
    int  i, c;

    c = b;

    if (b <= 32 || (b >= 127 && b <= 160) || b == 173) {
        for (i = 0, c = 256; i < b; i++) {
            c += i <= 32 || (i >= 127 && i <= 160) || i == 173;
        }
    }

    if (c == '"' || c == '\\') {
        fprintf(f, "\\%c", c);

    } else if (c < 0x80) {
        fprintf(f, "%c", c);

    } else {
        fprintf(f, "%c%c", 0xc0 | c >> 6, 0x80 | (c & 0x3f));
    }
}


static inline void
fixture_write_tokenizer(const char *dir)
{
    int    i;
    FILE  *f;

    static const char *const  special[] = {
        "<｜hy_begin▁of▁sentence｜>", "<｜hy_User｜>", "<｜hy_Assistant｜>",
        "<｜hy_place▁holder▁no▁2｜>", "<｜hy_place▁holder▁no▁8｜>",
    };

    f = fixture_create(dir, "tokenizer.json");

    fprintf(f, "{\"version\": \"1.0\", \"truncation\": null,"
            " \"padding\": null, \"added_tokens\": [");

    for (i = 0; i < 5; i++) {
        fprintf(f, "%s\n  {\"id\": %d, \"content\": \"%s\","
                " \"single_word\": false, \"lstrip\": false,"
                " \"rstrip\": false, \"normalized\": false,"
                " \"special\": true}", i ? "," : "", FIXTURE_BOS + i,
                special[i]);
    }

    fprintf(f, "],\n\"normalizer\": null,\n\"pre_tokenizer\": {"
            "\"type\": \"ByteLevel\", \"add_prefix_space\": false,"
            " \"trim_offsets\": true, \"use_regex\": false},\n"
            "\"post_processor\": null,\n\"decoder\": {\"type\": \"ByteLevel\","
            " \"add_prefix_space\": true, \"trim_offsets\": true,"
            " \"use_regex\": true},\n\"model\": {\"type\": \"BPE\","
            " \"dropout\": null, \"unk_token\": null,\n"
            "\"continuing_subword_prefix\": null,"
            " \"end_of_word_suffix\": null, \"fuse_unk\": false,\n"
            "\"byte_fallback\": false, \"ignore_merges\": false,"
            " \"merges\": [], \"vocab\": {");

    for (i = 0; i < 256; i++) {
        fprintf(f, "%s\"", i ? ", " : "");
        fixture_write_byte(f, i);
        fprintf(f, "\": %d", i);
    }

    fprintf(f, "}}}\n");

    if (ferror(f) || fclose(f) != 0) {
        fixture_die("can't write tokenizer.json in", dir);
    }
}


/* Makes a new empty directory and puts its path into dir [FIXTURE_PATH]. */
static inline void
fixture_dir(char *dir)
{
    const char  *tmp;

    tmp = getenv("TMPDIR");
    snprintf(dir, FIXTURE_PATH, "%s/hymt-test-XXXXXX",
             tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp");

    if (mkdtemp(dir) == NULL) {
        fixture_die("can't make a directory", dir);
    }
}


/*
 * Writes config.json, generation_config.json, tokenizer.json and the weights
 * into dir, which must be there.
 */
static inline void
fixture_model(const char *dir, const fixture_shape_t *shape, uint64_t seed)
{
    fixture_shape_t  s;

    s = fixture_shape(shape);

    fixture_write_config(dir, &s);
    fixture_write_tokenizer(dir);
    fixture_write_weights(dir, &s, seed);
}


/* Removes the directory and the files in it. */
static inline void
fixture_remove(const char *dir)
{
    DIR            *d;
    char            path[FIXTURE_PATH + 256];
    struct dirent  *e;

    d = opendir(dir);
    if (d == NULL) {
        return;
    }

    while ((e = readdir(d)) != NULL) {
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);

        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            unlink(path);
        }
    }

    closedir(d);
    rmdir(dir);
}


#endif /* HYMT_FIXTURE_H */
