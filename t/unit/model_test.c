/*
 * model_test.c - a model directory as a whole: every tensor found, with the
 * right shape, and read back as it was written.
 */

#include "fixture.h"
#include "model.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>


static char  dir[FIXTURE_PATH];


/* Writes into the middle of a file of the model. */
static void
poke(const char *name, off_t at, const char *bytes, size_t n)
{
    int   fd;
    char  path[FIXTURE_PATH + 64];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_WRONLY);

    if (fd == -1 || pwrite(fd, bytes, n, at) != (ssize_t) n) {
        fixture_die("can't write", path);
    }

    close(fd);
}


static void
cut(const char *name, off_t by)
{
    char         path[FIXTURE_PATH + 64];
    struct stat  st;

    snprintf(path, sizeof(path), "%s/%s", dir, name);

    if (stat(path, &st) == -1 || truncate(path, st.st_size - by) == -1) {
        fixture_die("can't cut", path);
    }
}


static void
drop(const char *name)
{
    char  path[FIXTURE_PATH + 64];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    unlink(path);
}


static hymt_model_t *
open_ok(const char *what)
{
    hymt_error_t   err;
    hymt_model_t  *model;

    err.text[0] = '\0';

    if (!ok(hymt_model_open(dir, &model, &err) == HYMT_OK, "%s opens", what)) {
        printf("# %s\n", err.text);
        exit(1);
    }

    return model;
}


/* Opening fails and the message holds both parts. */
static void
open_fails(const char *what, const char *part, const char *other)
{
    hymt_error_t   err;
    hymt_model_t  *model;

    err.text[0] = '\0';

    is_int(hymt_model_open(dir, &model, &err), HYMT_ERROR, "%s: refused",
           what);
    ok(model == NULL, "%s: no model", what);
    has_str(err.text, part, "%s: message", what);
    has_str(err.text, other, "%s: message, other part", what);
}


/* The elements of t that differ from what the fixture wrote. */
static uint64_t
differences(const fixture_shape_t *s, uint32_t i, const hymt_tensor_t *t)
{
    float             *got, want;
    uint32_t           u;
    uint64_t           j, n, bad;
    hymt_error_t       err;
    fixture_tensor_t   f;

    f = fixture_tensor(s, i);
    n = f.rows * (f.cols ? f.cols : 1);
    got = malloc(n * sizeof(float));

    if (hymt_tensor_read_f32(t, 0, n, got, NULL, &err) != HYMT_OK) {
        printf("# %s\n", err.text);
        free(got);
        return n;
    }

    for (j = 0, bad = 0; j < n; j++) {
        want = fixture_value(s, &f, 7, j);

        if (strcmp(s->dtype, "BF16") == 0) {
            u = (uint32_t) fixture_bf16(want) << 16;
            memcpy(&want, &u, 4);
            bad += want != got[j];

        } else if (strcmp(s->dtype, "F16") == 0) {
            bad += fixture_f16(got[j]) != fixture_f16(want)
                   || fabsf(got[j] - want) > fabsf(want) * 0x1p-11f + 0x1p-25f;

        } else {
            bad += want != got[j];
        }
    }

    free(got);

    return bad;
}


/* By name, with no help of the code under test. */
static const hymt_tensor_t *
by_name(const hymt_model_t *model, const char *name)
{
    size_t               i;
    uint32_t             layer;
    const hymt_layer_t  *l;

    const hymt_tensor_t  *top[3] = { model->embed, model->norm,
                                     model->lm_head };

    for (i = 0; i < 3; i++) {
        if (strcmp(top[i]->name, name) == 0) {
            return top[i];
        }
    }

    for (layer = 0; layer < model->config.n_layers; layer++) {
        l = &model->layers[layer];

        const hymt_tensor_t  *all[11] = {
            l->input_norm, l->q, l->k, l->v, l->o, l->q_norm, l->k_norm,
            l->post_norm, l->gate, l->up, l->down,
        };

        for (i = 0; i < 11; i++) {
            if (all[i] != NULL && strcmp(all[i]->name, name) == 0) {
                return all[i];
            }
        }
    }

    return NULL;
}


static void
test_whole(const fixture_shape_t *shape, const char *what)
{
    uint32_t              i, n, missing, bad_shape;
    uint64_t              params, bad;
    hymt_model_t         *model;
    fixture_shape_t       s;
    fixture_tensor_t      f;
    const hymt_tensor_t  *t;

    s = fixture_shape(shape);

    fixture_dir(dir);
    fixture_model(dir, &s, 7);

    model = open_ok(what);
    n = fixture_n_tensors(&s) - s.lm_head_copy;

    params = 0;
    bad = 0;
    missing = 0;
    bad_shape = 0;

    for (i = 0; i < n; i++) {
        f = fixture_tensor(&s, i);
        t = by_name(model, f.name);

        if (t == NULL) {
            missing++;
            continue;
        }

        bad_shape += t->shape[0] != f.rows
                     || t->shape[1] != (f.cols ? f.cols : 1)
                     || t->n_dims != (f.cols ? 2 : 1)
                     || strcmp(hymt_dtype_name(t->dtype), s.dtype) != 0;
        params += t->shape[0] * t->shape[1];
        bad += differences(&s, i, t);
    }

    is_int(missing, 0, "%s: no tensor without a place", what);
    is_int(bad_shape, 0, "%s: shapes and dtypes", what);
    is_int(bad, 0, "%s: values", what);
    is_int(model->n_params, params, "%s: parameters", what);
    is_int(model->bytes, params * fixture_dtype_size(&s), "%s: bytes", what);
    ok((model->lm_head == model->embed) == !s.untied, "%s: tied", what);
    ok((model->layers[0].q_norm == NULL) == s.no_qk_norm, "%s: q norm", what);

    hymt_model_close(model);
    fixture_remove(dir);
}


static void
test_shapes(void)
{
    fixture_shape_t  plain = { .layers = 0 };
    fixture_shape_t  f32 = { .dtype = "F32", .shards = 3, .untied = true };
    fixture_shape_t  f16 = { .dtype = "F16", .no_qk_norm = true, .ffn = 160 };
    fixture_shape_t  copy = { .lm_head_copy = true, .new_keys = true,
                              .shards = 27 };

    test_whole(&plain, "BF16, tied");
    test_whole(&f32, "F32, three shards, own lm_head");
    test_whole(&f16, "F16, no qk norm");
    test_whole(&copy, "a tied copy of lm_head, a file for each tensor");
}


/*
 * HY-MT1.5-1.8B's and Hy-MT2-7B's shapes as sparse files: parameters by the
 * arithmetic of the published shapes, 2.0385 and 8.0295 billion with the
 * stored copy of lm_head.
 */
static void
test_real_shape(const fixture_shape_t *s, uint64_t params, const char *what)
{
    FILE              *f, *h;
    char              *header;
    size_t             size;
    uint32_t           i;
    uint64_t           at, bytes, length;
    hymt_model_t      *model;
    fixture_tensor_t   t;

    fixture_dir(dir);
    fixture_write_config(dir, s);

    h = open_memstream(&header, &size);
    fprintf(h, "{");

    for (i = 0, at = 0; i < fixture_n_tensors(s); i++, at += bytes) {
        t = fixture_tensor(s, i);
        bytes = t.rows * (t.cols ? t.cols : 1) * 2;

        fprintf(h, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%" PRIu64,
                i ? "," : "", t.name, t.rows);

        if (t.cols) {
            fprintf(h, ",%" PRIu64, t.cols);
        }

        fprintf(h, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at,
                at + bytes);
    }

    fprintf(h, "}");
    fclose(h);

    f = fixture_create(dir, "model.safetensors");
    length = size;
    fwrite(&length, 8, 1, f);
    fwrite(header, 1, size, f);
    fclose(f);
    free(header);

    cut("model.safetensors", -(off_t) at);

    model = open_ok(what);

    is_int(model->n_params, params, "%s: unique parameters", what);
    is_int(model->bytes, params * 2, "%s: bytes", what);

    hymt_model_close(model);
    fixture_remove(dir);
}


static void
test_real_shapes(void)
{
    fixture_shape_t  small = {
        .layers = 32, .hidden = 2048, .ffn = 6144, .heads = 16, .kv_heads = 4,
        .head_dim = 128, .vocab = 120818, .max_position = 262144,
        .dtype = "BF16", .lm_head_copy = true, .rope_theta = 10000,
        .rope_alpha = 1000,
    };
    fixture_shape_t  large = small;

    test_real_shape(&small, 1791080448, "1.8B");

    large.hidden = 4096;
    large.ffn = 14336;
    large.heads = 32;
    large.kv_heads = 8;
    large.vocab = 128167;

    test_real_shape(&large, 6979596288 + 524972032, "7B");
}


static void
test_read(void)
{
    int                   stop;
    float                 part[5], whole[64];
    uint16_t              raw[64];
    hymt_error_t          err;
    hymt_model_t         *model;
    fixture_shape_t       shape = { .layers = 1 };
    const hymt_tensor_t  *t;

    fixture_dir(dir);
    fixture_model(dir, &shape, 7);
    model = open_ok("for reading");
    t = model->norm;

    is_int(hymt_tensor_read_f32(t, 0, 64, whole, NULL, &err), HYMT_OK,
           "a whole tensor");
    is_int(hymt_tensor_read_f32(t, 59, 5, part, NULL, &err), HYMT_OK,
           "its last five elements");
    is_int(memcmp(part, whole + 59, sizeof(part)), 0, "are the same");
    is_int(hymt_tensor_read(t, 0, 64, raw, NULL, &err), HYMT_OK, "raw");
    is_int(raw[63], fixture_bf16(whole[63]), "raw elements are bf16");
    is_int(hymt_tensor_read_f32(t, 64, 0, part, NULL, &err), HYMT_OK,
           "nothing, at the end");

    is_int(hymt_tensor_read_f32(t, 60, 5, part, NULL, &err), HYMT_ERROR,
           "one element too far");
    has_str(err.text, "model.norm.weight", "names the tensor");
    is_int(hymt_tensor_read_f32(t, UINT64_MAX, 2, part, NULL, &err),
           HYMT_ERROR, "a range that wraps");
    is_int(hymt_tensor_read(t, 1, UINT64_MAX, part, NULL, &err), HYMT_ERROR,
           "a length that wraps");

    stop = 1;
    is_int(hymt_tensor_read(t, 0, 64, raw, &stop, &err), HYMT_ABORTED,
           "stopped");
    is_int(hymt_tensor_read_f32(t, 0, 64, whole, &stop, &err), HYMT_ABORTED,
           "stopped, as floats");

    hymt_model_close(model);
    fixture_remove(dir);
}


/* Every half there is, against the definition. */
static void
test_f16(void)
{
    int            i, bad, e, m;
    char           path[FIXTURE_PATH + 64];
    FILE          *f;
    float         *got, want;
    uint16_t       h;
    hymt_error_t   err;
    hymt_tensor_t  t;
    hymt_status_t  rc;

    fixture_dir(dir);
    f = fixture_create(dir, "halves");

    for (i = 0; i < 65536; i++) {
        h = (uint16_t) i;
        fwrite(&h, 2, 1, f);
    }

    fclose(f);

    memset(&t, 0, sizeof(t));
    t.name = "halves";
    t.file = "halves";
    t.dtype = HYMT_F16;
    t.bytes = 131072;

    snprintf(path, sizeof(path), "%s/halves", dir);
    t.fd = open(path, O_RDONLY);

    got = malloc(65536 * sizeof(float));
    rc = hymt_tensor_read_f32(&t, 0, 65536, got, NULL, &err);
    is_int(rc, HYMT_OK, "all halves are read");

    for (i = 0, bad = 0; i < 65536; i++) {
        e = i >> 10 & 31;
        m = i & 1023;

        want = e == 0 ? ldexpf((float) m, -24)
               : e < 31 ? ldexpf((float) (1024 + m), e - 25)
               : m == 0 ? INFINITY : NAN;
        want = i & 0x8000 ? -want : want;

        bad += isnan(want) ? !isnan(got[i])
                           : memcmp(&want, &got[i], sizeof(float)) != 0;
    }

    is_int(bad, 0, "all halves become the right floats");

    free(got);
    close(t.fd);
    fixture_remove(dir);
}


static void
test_changed(void)
{
    float             x[64];
    hymt_error_t      err;
    hymt_model_t     *model;
    fixture_shape_t   shape = { .layers = 1 };

    fixture_dir(dir);
    fixture_model(dir, &shape, 7);

    model = open_ok("to be cut");
    cut("model.safetensors", 10);
    is_int(hymt_tensor_read_f32(model->norm, 0, 64, x, NULL, &err),
           HYMT_ERROR, "cut after opening");
    has_str(err.text, "model.norm.weight", "cut: names the tensor");
    has_str(err.text, "model.safetensors", "cut: names the file");
    hymt_model_close(model);

    fixture_model(dir, &shape, 7);
    model = open_ok("to be written to");
    usleep(20000);
    poke("model.safetensors", 5000, "x", 1);
    is_int(hymt_tensor_read_f32(model->norm, 0, 64, x, NULL, &err),
           HYMT_ERROR, "written to after opening");
    has_str(err.text, "was written to", "written to: says so");
    hymt_model_close(model);

    fixture_model(dir, &shape, 7);
    model = open_ok("to be replaced");
    drop("model.safetensors");
    is_int(hymt_tensor_read_f32(model->norm, 0, 64, x, NULL, &err), HYMT_OK,
           "removed after opening: old bytes");
    hymt_model_close(model);

    fixture_remove(dir);
}


/* A config of one shape over the weights of another. */
static void
mismatch(fixture_shape_t config, fixture_shape_t weights, const char *what,
    const char *part, const char *other)
{
    fixture_shape_t  s;

    fixture_dir(dir);

    s = fixture_shape(&config);
    fixture_write_config(dir, &s);
    s = fixture_shape(&weights);
    fixture_write_weights(dir, &s, 7);

    open_fails(what, part, other);
    fixture_remove(dir);
}


static void
test_mismatch(void)
{
    fixture_shape_t  plain = { .layers = 2 };
    fixture_shape_t  other = plain;

    other.layers = 3;
    mismatch(other, plain, "a layer too few",
             "\"model.layers.2.input_layernorm.weight\" is missing",
             "3 layers");
    mismatch(plain, other, "a layer too many", "model.layers.2.",
             "11 such in all");

    other = plain;
    other.hidden = 80;
    mismatch(other, plain, "another hidden size",
             "\"model.embed_tokens.weight\" has shape [272, 64]",
             "asks for [272, 80]");

    other = plain;
    other.head_dim = 8;
    mismatch(other, plain, "another head size",
             "\"model.layers.0.self_attn.q_proj.weight\" has shape [64, 64]",
             "asks for [32, 64]");

    other = plain;
    other.ffn = 112;
    mismatch(other, plain, "another ffn",
             "\"model.layers.0.mlp.gate_proj.weight\" has shape [96, 64]",
             "asks for [112, 64]");

    other = plain;
    other.untied = true;
    mismatch(other, plain, "no lm_head", "\"lm_head.weight\" is missing",
             "tie_word_embeddings false");
}


static void
test_directory(void)
{
    fixture_shape_t  plain = { .layers = 1 };
    fixture_shape_t  shards = { .layers = 1, .shards = 3 };

    static const char  index[] = "model.safetensors.index.json";
    static const char  one[] = "model-00001-of-00003.safetensors";
    static const char  two[] = "model-00002-of-00003.safetensors";

    strcpy(dir, "/nonexistent");
    open_fails("no directory", "/nonexistent/config.json",
               "directory of a Hugging Face model?");

    fixture_dir(dir);
    fixture_model(dir, &plain, 7);
    drop("model.safetensors");
    open_fails("no weights", "neither model.safetensors nor", dir);

    fixture_model(dir, &plain, 7);
    cut("model.safetensors", 1);
    open_fails("a byte short", "is the download complete?",
               "model.norm.weight");

    fixture_model(dir, &plain, 7);
    cut("model.safetensors", -1);
    open_fails("a byte long", "1 bytes follow the last tensor",
               "model.safetensors");
    drop("model.safetensors");

    fixture_model(dir, &shards, 7);
    drop(two);
    open_fails("a shard missing", two, "is the download complete?");

    fixture_model(dir, &shards, 7);
    cut(one, 1);
    open_fails("a shard cut", one, "is the download complete?");

    fixture_model(dir, &shards, 7);
    fixture_write(dir, index,
                  "{\"weight_map\": {\"a\": \"../model.safetensors\"}}");
    open_fails("a path in the index", index, "\"../model.safetensors\" is not"
               " the plain name");

    fixture_write(dir, index, "{\"weight_map\": {\"a\": \"/dev/zero\"}}");
    open_fails("an absolute path in the index", "tensor \"a\"",
               "\"/dev/zero\"");
    fixture_write(dir, index, "{\"weight_map\": {\"a\": \"..\"}}");
    open_fails("two dots in the index", "tensor \"a\"", "\"..\"");
    fixture_write(dir, index, "{\"weight_map\": {\"a\": \"\"}}");
    open_fails("an empty name in the index", "tensor \"a\"", "\"\"");
    fixture_write(dir, index, "{\"weight_map\": {\"a\": 7}}");
    open_fails("a number in the index", "tensor \"a\"", "7 is not");
    fixture_write(dir, index, "{\"weight_map\": {\"a\": \"x\\ny\"}}");
    open_fails("a newline in the index", "tensor \"a\"", "\"x\\ny\"");
    fixture_write(dir, index, "{\"weight_map\": {}}");
    open_fails("an empty index", index, "weight_map");
    fixture_write(dir, index, "{\"metadata\": {}}");
    open_fails("no weight_map", index, "got nothing");
    fixture_write(dir, index, "{\"weight_map\": {\"a\": \"b\", }}");
    open_fails("broken JSON in the index", index, "line 1");
    fixture_write(dir, index,
                  "{\"weight_map\": {\"a\": \"b\", \"a\": \"b\"}}");
    open_fails("a tensor twice in the index", index, "duplicate");
    fixture_write(dir, index, "");
    open_fails("an empty file as index", index, "0 bytes");
    fixture_write(dir, index,
                  "{\"weight_map\": {\"model.norm.weight\":"
                  " \"model-00001-of-00003.safetensors\"}}");
    open_fails("a tensor in another shard", one,
               "\"model.norm.weight\" is not in it");
    fixture_write(dir, index,
                  "{\"weight_map\": {\"model.embed_tokens.weight\":"
                  " \"model-00001-of-00003.safetensors\"}}");
    open_fails("an index of one shard of three", "is missing", dir);

    fixture_remove(dir);
}


/* The same tensor in two shards. */
static void
test_duplicate(void)
{
    fixture_shape_t  s = { .layers = 1 };

    s = fixture_shape(&s);

    fixture_dir(dir);
    fixture_write_config(dir, &s);
    fixture_write_shard(dir, "a", &s, 7, 0, 8);
    fixture_write_shard(dir, "b", &s, 7, 7, 13);
    fixture_write(dir, "model.safetensors.index.json",
                  "{\"weight_map\": {\"model.embed_tokens.weight\": \"a\","
                  " \"model.norm.weight\": \"b\"}}");

    open_fails("in two shards", "model.layers.0.mlp.gate_proj.weight",
               "is also in");

    fixture_remove(dir);
}


/* More files than are opened at once. */
static void
test_many_files(void)
{
    int              i;
    char             name[16];
    FILE            *f;
    fixture_shape_t  s = { .layers = 1 };

    s = fixture_shape(&s);

    fixture_dir(dir);
    fixture_write_config(dir, &s);

    for (i = 0; i < 257; i++) {
        snprintf(name, sizeof(name), "part%d", i);
        f = fixture_create(dir, name);
        fwrite("\2\0\0\0\0\0\0\0{}", 1, 10, f);
        fclose(f);
    }

    f = fixture_create(dir, "model.safetensors.index.json");
    fprintf(f, "{\"weight_map\": {\"t\": \"part0\"");

    for (i = 1; i < 257; i++) {
        fprintf(f, ", \"t%d\": \"part%d\"", i, i);
    }

    fprintf(f, "}}");
    fclose(f);

    open_fails("257 files", "model.safetensors.index.json",
               "more than 256 files");
    fixture_remove(dir);
}


static void
test_special_files(void)
{
    char             path[FIXTURE_PATH + 64];
    fixture_shape_t  s = { .layers = 1 };

    fixture_dir(dir);
    fixture_model(dir, &s, 7);
    drop("model.safetensors");
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);

    (void) !mkfifo(path, 0600);
    open_fails("a FIFO", path, "not a regular file");
    unlink(path);

    (void) !symlink("/dev/zero", path);
    open_fails("a device", path, "not a regular file");
    unlink(path);

    (void) !mkdir(path, 0700);
    open_fails("a directory", path, "not a regular file");
    rmdir(path);

    (void) !symlink("loop", path);
    open_fails("a dangling link", "neither model.safetensors nor", dir);
    unlink(path);

    fixture_write(dir, "model.safetensors",
                  "version https://git-lfs.github.com/spec/v1\noid\n");
    open_fails("a Git LFS pointer", path, "git lfs pull");

    fixture_remove(dir);
}


int
main(void)
{
    test_shapes();
    test_real_shapes();
    test_read();
    test_f16();
    test_changed();
    test_mismatch();
    test_directory();
    test_duplicate();
    test_many_files();
    test_special_files();

    return tap_done();
}
