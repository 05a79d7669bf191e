/*
 * random-model.c - writes a model directory with random weights in an exact
 * shape, for measurements and tests where the real weights are not at hand.
 *
 * Matrices are normal with standard deviation 0.02, norms 1 plus a tenth of a
 * normal, so that activations stay about as large as a trained model's and the
 * order of RoPE and QK-norm shows.  bf16.  A weight is a function of seed,
 * tensor and place alone: the files are the same whatever threads and shards
 * wrote them.
 *
 * The tokenizer is another model's, with made-up words for the ids that it
 * lacks: no text is encoded to them, but each that comes out is some text.
 *
 * How: SplitMix64 of a counter gives four 16-bit numbers, each of which is
 * looked up in a table of the normal distribution's 65,536 quantiles, rounded
 * to bf16.  Time is that of writing the file.
 */

#include "config.h"
#include "thread.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>


#define RM_CHUNK        (4u << 20)          /* bytes of one piece of work */
#define RM_SHARD        (8ull << 30)        /* most bytes of a file */
#define RM_MAX_THREADS  64
#define RM_MAX_SHARDS   64
#define RM_PATH         4096

#define RM_PER_LAYER    11


typedef struct {
    const char  *name;
    uint32_t     layers;
    uint32_t     hidden;
    uint32_t     ffn;
    uint32_t     heads;
    uint32_t     kv_heads;
    uint32_t     vocab;
    uint32_t     alpha;
    uint32_t     positions;
} rm_shape_t;


typedef struct {
    char      name[96];
    uint32_t  rows;
    uint32_t  cols;           /* 0: a vector of `rows`, a norm */
    uint32_t  shard;
    uint64_t  begin;          /* of its data, in the shard */
    uint64_t  bytes;
} rm_tensor_t;


typedef struct {
    rm_shape_t         shape;
    uint64_t           seed;
    uint32_t           threads;
    char               dir[RM_PATH];
    const char        *tokenizer;

    rm_tensor_t       *tensors;
    uint32_t           n_tensors;
    uint32_t           n_shards;
    uint64_t           bytes;             /* of weights in all */
    int                fd[RM_MAX_SHARDS];
    uint64_t           data[RM_MAX_SHARDS];   /* where data begins */

    uint16_t          *matrix;            /* [65536] quantiles, bf16 bits */
    uint16_t          *norm;

    _Atomic uint64_t   next;              /* chunk to be written */
    _Atomic int        failed;            /* errno */
} rm_t;


static int rm_arguments(rm_t *rm, int argc, char **argv);
static int rm_number(const char *text, uint32_t *n);
static hymt_status_t rm_write(rm_t *rm, hymt_error_t *err);
static hymt_status_t rm_plan(rm_t *rm, hymt_error_t *err);
static void rm_tensor(rm_t *rm, const char *name, uint32_t layer,
    uint32_t rows, uint32_t cols);
static hymt_status_t rm_tables(rm_t *rm, hymt_error_t *err);
static double rm_quantile(double p);
static uint16_t rm_bf16(float x);
static hymt_status_t rm_config(const rm_t *rm, hymt_error_t *err);
static hymt_status_t rm_tokenizer(const rm_t *rm, hymt_error_t *err);
static int rm_words(json_t *root, uint32_t n);
static hymt_status_t rm_copy(const rm_t *rm, const char *name,
    hymt_error_t *err);
static hymt_status_t rm_headers(rm_t *rm, hymt_error_t *err);
static hymt_status_t rm_index(const rm_t *rm, hymt_error_t *err);
static void rm_shard_name(const rm_t *rm, uint32_t shard, char *name,
    size_t cap);
static FILE *rm_create(const rm_t *rm, const char *name, hymt_error_t *err);
static hymt_status_t rm_close(FILE *f, const char *name, hymt_error_t *err);
static hymt_status_t rm_data(rm_t *rm, hymt_error_t *err);
static void *rm_thread(void *data);
static int rm_chunk(rm_t *rm, uint64_t chunk, uint16_t *buf);
static void rm_fill(const rm_t *rm, uint32_t tensor, uint64_t first,
    uint64_t n, uint16_t *dst);
static uint64_t rm_mix(uint64_t x);


static const rm_shape_t  rm_shapes[] = {
    { "1.8B", 32, 2048, 6144, 16, 4, 120818, 1000, 262144 },
    { "7B", 32, 4096, 14336, 32, 8, 128256, 100000, 32768 },
    { "tiny", 2, 256, 640, 4, 1, 12288, 1000, 32768 },
};


static const char  rm_help[] =
    "Usage: random-model SHAPE DIR [OPTION VALUE ...]\n"
    "\n"
    "Writes the directory DIR (config.json, safetensors, tokenizer) of a\n"
    "model with random bf16 weights: SHAPE is 1.8B, 7B or tiny.\n"
    "\n"
    "  --layers N --hidden N --ffn N --heads N --kv-heads N --vocab N\n"
    "                   other figures than SHAPE's; heads are of 128\n"
    "  --tokenizer DIR  model whose tokenizer and prompts are taken:\n"
    "                   models/demo; ids it lacks get made-up words\n"
    "  --seed N         1\n"
    "  --threads N      one a core\n";


int
main(int argc, char **argv)
{
    int            rc;
    rm_t           rm;
    uint64_t       start;
    hymt_error_t   err;

    memset(&rm, 0, sizeof(rm));

    rc = rm_arguments(&rm, argc, argv);
    if (rc != 0) {
        fputs(rm_help, rc == 1 ? stdout : stderr);
        return rc == 1 ? 0 : 2;
    }

    start = hymt_now_ns();

    if (rm_write(&rm, &err) != HYMT_OK) {
        fprintf(stderr, "random-model: %s\n", err.text);
        return 1;
    }

    printf("%s: %s, %" PRIu32 " layers, vocabulary %" PRIu32 ", seed %"
           PRIu64 ": %.3f GB in %.2f s\n", rm.dir, rm.shape.name,
           rm.shape.layers, rm.shape.vocab, rm.seed, (double) rm.bytes / 1e9,
           (double) (hymt_now_ns() - start) / 1e9);

    return 0;
}


/* 0, 1 where help is asked for, 2 where they are wrong. */
static int
rm_arguments(rm_t *rm, int argc, char **argv)
{
    int       i;
    size_t    k;
    uint32_t  seed;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        return 1;
    }

    if (argc < 3 || argc % 2 == 0) {
        return 2;
    }

    for (k = 0; k < hymt_nelts(rm_shapes); k++) {
        if (strcmp(argv[1], rm_shapes[k].name) == 0) {
            rm->shape = rm_shapes[k];
        }
    }

    if (rm->shape.name == NULL
        || snprintf(rm->dir, sizeof(rm->dir), "%s", argv[2])
           >= (int) sizeof(rm->dir))
    {
        return 2;
    }

    rm->tokenizer = "models/demo";
    rm->threads = (uint32_t) sysconf(_SC_NPROCESSORS_ONLN);
    seed = 1;

    const struct {
        const char  *name;
        uint32_t    *value;
    }  numbers[] = {
        { "--layers", &rm->shape.layers }, { "--hidden", &rm->shape.hidden },
        { "--ffn", &rm->shape.ffn }, { "--heads", &rm->shape.heads },
        { "--kv-heads", &rm->shape.kv_heads },
        { "--vocab", &rm->shape.vocab }, { "--seed", &seed },
        { "--threads", &rm->threads },
    };

    for (i = 3; i < argc; i += 2) {

        if (strcmp(argv[i], "--tokenizer") == 0) {
            rm->tokenizer = argv[i + 1];
            continue;
        }

        for (k = 0; k < hymt_nelts(numbers); k++) {
            if (strcmp(argv[i], numbers[k].name) == 0) {
                break;
            }
        }

        if (k == hymt_nelts(numbers)
            || rm_number(argv[i + 1], numbers[k].value) != 0)
        {
            return 2;
        }
    }

    rm->seed = seed;
    rm->threads = hymt_min(rm->threads, RM_MAX_THREADS);

    return 0;
}


static int
rm_number(const char *text, uint32_t *n)
{
    char           *end;
    unsigned long   value;

    value = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value == 0
        || value > UINT32_MAX)
    {
        return 1;
    }

    *n = (uint32_t) value;

    return 0;
}


static hymt_status_t
rm_write(rm_t *rm, hymt_error_t *err)
{
    static const char  *copied[] = {
        "tokenizer_config.json", "chat_template.jinja",
        "generation_config.json", "hymt.json",
    };

    size_t  i;

    if (mkdir(rm->dir, 0755) != 0 && errno != EEXIST) {
        return hymt_fail(err, "%s: %s", rm->dir, strerror(errno));
    }

    if (rm_plan(rm, err) != HYMT_OK || rm_tables(rm, err) != HYMT_OK
        || rm_config(rm, err) != HYMT_OK || rm_tokenizer(rm, err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    for (i = 0; i < hymt_nelts(copied); i++) {
        if (rm_copy(rm, copied[i], err) != HYMT_OK) {
            return HYMT_ERROR;
        }
    }

    if (rm_headers(rm, err) != HYMT_OK || rm_data(rm, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    return rm_index(rm, err);
}


/* Names, shapes and places of all tensors. */
static hymt_status_t
rm_plan(rm_t *rm, hymt_error_t *err)
{
    uint32_t           i, j, q, kv;
    uint64_t           at;
    rm_tensor_t       *t;
    const rm_shape_t  *s;

    s = &rm->shape;
    q = s->heads * 128;
    kv = s->kv_heads * 128;

    rm->tensors = calloc((size_t) s->layers * RM_PER_LAYER + 2,
                         sizeof(rm_tensor_t));
    if (rm->tensors == NULL) {
        return hymt_fail(err, "no memory");
    }

    rm_tensor(rm, "model.embed_tokens.weight", 0, s->vocab, s->hidden);

    for (i = 0; i < s->layers; i++) {

        const struct {
            const char  *name;
            uint32_t     rows;
            uint32_t     cols;
        }  layer[RM_PER_LAYER] = {
            { "input_layernorm", s->hidden, 0 },
            { "self_attn.q_proj", q, s->hidden },
            { "self_attn.k_proj", kv, s->hidden },
            { "self_attn.v_proj", kv, s->hidden },
            { "self_attn.o_proj", s->hidden, q },
            { "self_attn.query_layernorm", 128, 0 },
            { "self_attn.key_layernorm", 128, 0 },
            { "post_attention_layernorm", s->hidden, 0 },
            { "mlp.gate_proj", s->ffn, s->hidden },
            { "mlp.up_proj", s->ffn, s->hidden },
            { "mlp.down_proj", s->hidden, s->ffn },
        };

        for (j = 0; j < RM_PER_LAYER; j++) {
            rm_tensor(rm, layer[j].name, i + 1, layer[j].rows, layer[j].cols);
        }
    }

    rm_tensor(rm, "model.norm.weight", 0, s->hidden, 0);

    for (i = 0, at = 0; i < rm->n_tensors; i++) {
        t = &rm->tensors[i];

        if (at > 0 && at + t->bytes > RM_SHARD) {
            at = 0;

            if (++rm->n_shards == RM_MAX_SHARDS) {
                return hymt_fail(err, "more than %d files", RM_MAX_SHARDS);
            }
        }

        t->shard = rm->n_shards;
        t->begin = at;
        at += t->bytes;
        rm->bytes += t->bytes;
    }

    rm->n_shards++;

    return HYMT_OK;
}


/* layer counts from 1; 0: not of a layer. */
static void
rm_tensor(rm_t *rm, const char *name, uint32_t layer, uint32_t rows,
    uint32_t cols)
{
    rm_tensor_t  *t;

    t = &rm->tensors[rm->n_tensors++];
    t->rows = rows;
    t->cols = cols;
    t->bytes = (uint64_t) rows * hymt_max(cols, 1) * 2;

    if (layer == 0) {
        snprintf(t->name, sizeof(t->name), "%s", name);

    } else {
        snprintf(t->name, sizeof(t->name), "model.layers.%" PRIu32
                 ".%s.weight", layer - 1, name);
    }
}


static hymt_status_t
rm_tables(rm_t *rm, hymt_error_t *err)
{
    double    x;
    uint32_t  i;

    rm->matrix = malloc(65536 * sizeof(uint16_t));
    rm->norm = malloc(65536 * sizeof(uint16_t));

    if (rm->matrix == NULL || rm->norm == NULL) {
        return hymt_fail(err, "no memory");
    }

    for (i = 0; i < 65536; i++) {
        x = rm_quantile((i + 0.5) / 65536);
        rm->matrix[i] = rm_bf16((float) (0.02 * x));
        rm->norm[i] = rm_bf16((float) (1 + 0.1 * x));
    }

    return HYMT_OK;
}


/* x with P(X < x) = p: Newton's method on the error function. */
static double
rm_quantile(double p)
{
    int     i;
    double  x, f, density;

    for (i = 0, x = 0; i < 60; i++) {
        f = 0.5 * erfc(-x * M_SQRT1_2) - p;
        density = exp(-0.5 * x * x) * 0.3989422804014327;

        /* far out the slope is small and the step would leave the tail */

        f /= density;
        x -= f > 0.5 ? 0.5 : f < -0.5 ? -0.5 : f;
    }

    return x;
}


/* To the nearest, ties to even; finite x. */
static uint16_t
rm_bf16(float x)
{
    uint32_t  u;

    memcpy(&u, &x, sizeof(u));

    return (uint16_t) ((u + 0x7fff + (u >> 16 & 1)) >> 16);
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


/* The files, their headers, and their full length. */
static hymt_status_t
rm_headers(rm_t *rm, hymt_error_t *err)
{
    FILE               *f;
    char                name[64];
    long                at;
    uint32_t            i, shard;
    uint64_t            n, end;
    const rm_tensor_t  *t;

    for (shard = 0; shard < rm->n_shards; shard++) {
        rm_shard_name(rm, shard, name, sizeof(name));

        f = rm_create(rm, name, err);
        if (f == NULL) {
            return HYMT_ERROR;
        }

        fwrite("12345678{\"__metadata__\":{\"format\":\"pt\"}", 1, 39, f);

        for (i = 0, end = 0; i < rm->n_tensors; i++) {
            t = &rm->tensors[i];

            if (t->shard != shard) {
                continue;
            }

            end = t->begin + t->bytes;

            fprintf(f, ",\"%s\":{\"dtype\":\"BF16\",\"shape\":[%" PRIu32,
                    t->name, t->rows);

            if (t->cols) {
                fprintf(f, ",%" PRIu32, t->cols);
            }

            fprintf(f, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                    t->begin, end);
        }

        fputc('}', f);

        /* data begins aligned, as the library of that format has it */

        for (at = ftell(f); at % 64 != 0; at++) {
            fputc(' ', f);
        }

        n = (uint64_t) at - 8;
        rewind(f);
        (void) fwrite(&n, 1, 8, f);

        rm->data[shard] = (uint64_t) at;
        rm->fd[shard] = dup(fileno(f));

        if (rm_close(f, name, err) != HYMT_OK) {
            return HYMT_ERROR;
        }

        if (rm->fd[shard] == -1
            || ftruncate(rm->fd[shard], (off_t) ((uint64_t) at + end)) != 0)
        {
            return hymt_fail(err, "%s/%s: %s", rm->dir, name,
                             strerror(errno));
        }
    }

    return HYMT_OK;
}


/* Which file has which tensor, where there are several. */
static hymt_status_t
rm_index(const rm_t *rm, hymt_error_t *err)
{
    char      name[64];
    FILE     *f;
    uint32_t  i;

    if (rm->n_shards == 1) {
        return HYMT_OK;
    }

    f = rm_create(rm, "model.safetensors.index.json", err);
    if (f == NULL) {
        return HYMT_ERROR;
    }

    fprintf(f, "{\"metadata\":{\"total_size\":%" PRIu64 "},\"weight_map\":{",
            rm->bytes);

    for (i = 0; i < rm->n_tensors; i++) {
        rm_shard_name(rm, rm->tensors[i].shard, name, sizeof(name));
        fprintf(f, "%s\n\"%s\":\"%s\"", i ? "," : "", rm->tensors[i].name,
                name);
    }

    fputs("}}\n", f);

    return rm_close(f, "model.safetensors.index.json", err);
}


static void
rm_shard_name(const rm_t *rm, uint32_t shard, char *name, size_t cap)
{
    if (rm->n_shards == 1) {
        snprintf(name, cap, "model.safetensors");

    } else {
        snprintf(name, cap, "model-%05" PRIu32 "-of-%05" PRIu32
                 ".safetensors", shard + 1, rm->n_shards);
    }
}


static FILE *
rm_create(const rm_t *rm, const char *name, hymt_error_t *err)
{
    char   path[RM_PATH + 64];
    FILE  *f;

    snprintf(path, sizeof(path), "%s/%s", rm->dir, name);

    f = fopen(path, "wb");
    if (f == NULL) {
        (void) hymt_fail(err, "%s: %s", path, strerror(errno));
    }

    return f;
}


static hymt_status_t
rm_close(FILE *f, const char *name, hymt_error_t *err)
{
    int  bad;

    bad = ferror(f);

    if (fclose(f) != 0 || bad) {
        return hymt_fail(err, "%s: can't be written: %s", name,
                         strerror(errno));
    }

    return HYMT_OK;
}


static hymt_status_t
rm_data(rm_t *rm, hymt_error_t *err)
{
    int        rc;
    uint32_t   i, n;
    pthread_t  tid[RM_MAX_THREADS];

    for (n = 0; n < rm->threads; n++) {
        rc = hymt_thread_start(&tid[n], "random-model", rm_thread, rm);

        if (rc != 0) {
            atomic_store(&rm->failed, rc);
            break;
        }
    }

    for (i = 0; i < n; i++) {
        pthread_join(tid[i], NULL);
    }

    for (i = 0; i < rm->n_shards; i++) {
        close(rm->fd[i]);
    }

    rc = atomic_load(&rm->failed);

    return rc == 0 ? HYMT_OK
                   : hymt_fail(err, "%s: can't write the weights: %s", rm->dir,
                               strerror(rc));
}


static void *
rm_thread(void *data)
{
    rm_t  *rm = data;

    int        rc;
    uint16_t  *buf;

    buf = malloc(RM_CHUNK);

    for (rc = buf == NULL ? ENOMEM : 0; rc == 0; ) {
        rc = rm_chunk(rm, atomic_fetch_add(&rm->next, 1), buf);
    }

    if (rc > 0) {
        atomic_store(&rm->failed, rc);
    }

    free(buf);

    return NULL;
}


/* Chunks count through the tensors.  0, errno, or -1: there are no more. */
static int
rm_chunk(rm_t *rm, uint64_t chunk, uint16_t *buf)
{
    ssize_t             n;
    uint32_t            i;
    uint64_t            chunks, at, bytes, done;
    const rm_tensor_t  *t;

    for (i = 0; i < rm->n_tensors; i++) {
        chunks = hymt_ceil_div(rm->tensors[i].bytes, RM_CHUNK);

        if (chunk < chunks) {
            break;
        }

        chunk -= chunks;
    }

    if (i == rm->n_tensors || atomic_load(&rm->failed)) {
        return -1;
    }

    t = &rm->tensors[i];
    at = chunk * RM_CHUNK;
    bytes = hymt_min(t->bytes - at, RM_CHUNK);

    rm_fill(rm, i, at / 2, bytes / 2, buf);

    for (done = 0; done < bytes; done += (uint64_t) n) {
        n = pwrite(rm->fd[t->shard], (char *) buf + done, bytes - done,
                   (off_t) (rm->data[t->shard] + t->begin + at + done));
        if (n <= 0) {
            return errno != 0 ? errno : EIO;
        }
    }

    return 0;
}


/* Elements first .. first + n - 1; first is a multiple of four. */
static void
rm_fill(const rm_t *rm, uint32_t tensor, uint64_t first, uint64_t n,
    uint16_t *dst)
{
    uint64_t         i, j, bits, key;
    const uint16_t  *table;

    table = rm->tensors[tensor].cols ? rm->matrix : rm->norm;
    key = rm_mix(rm->seed) ^ rm_mix(tensor + 0x9e37ull);

    for (i = 0; i < n; i += 4) {
        bits = rm_mix(key + (first + i) / 4);

        for (j = 0; j < 4 && i + j < n; j++) {
            dst[i + j] = table[bits >> 16 * j & 0xffff];
        }
    }
}


/* SplitMix64's step from the state x (Steele, Lea, Flood, OOPSLA 2014). */
static uint64_t
rm_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;

    return x ^ x >> 31;
}
