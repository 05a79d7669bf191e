/*
 * model.c - see model.h.
 */

#include "model.h"
#include "safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define HYMT_INDEX_FILE_MAX  (8 << 20)
#define HYMT_MAX_SHARDS      256
#define HYMT_SHAPE_TEXT      48


typedef struct {
    const hymt_tensor_t  *tensor;
    bool                  known;     /* the architecture has a place for it */
} hymt_model_entry_t;


struct hymt_model_private_s {
    hymt_safetensors_t   files[HYMT_MAX_SHARDS];
    uint32_t             n_files;
    hymt_model_entry_t  *entries;    /* all tensors of all files, by name */
    uint32_t             n_entries;
};


/* One weight of a layer: its name, its place, its shape. */
typedef struct {
    const char  *name;
    size_t       offset;             /* of a pointer in hymt_layer_t */
    uint64_t     rows;
    uint64_t     cols;               /* 0: a vector */
} hymt_model_part_t;


static hymt_status_t hymt_model_load(hymt_model_t *model, hymt_error_t *err);
static hymt_status_t hymt_model_files(hymt_model_t *model, json_t **map,
    hymt_error_t *err);
static hymt_status_t hymt_model_file(hymt_model_t *model, const char *name,
    hymt_error_t *err);
static hymt_status_t hymt_model_shards(hymt_model_t *model,
    const char *index, json_t *map, hymt_error_t *err);
static hymt_status_t hymt_model_shard(hymt_model_t *model, const char *index,
    const char *tensor, const json_t *file, hymt_error_t *err);
static bool hymt_model_has_file(const hymt_model_t *model, const char *name);
static hymt_status_t hymt_model_sort(hymt_model_t *model, hymt_error_t *err);
static int hymt_model_by_name(const void *one, const void *two);
static hymt_status_t hymt_model_check_map(const hymt_model_t *model,
    json_t *map, hymt_error_t *err);
static hymt_status_t hymt_model_bind(hymt_model_t *model, hymt_error_t *err);
static hymt_status_t hymt_model_bind_layer(hymt_model_t *model, uint32_t n,
    hymt_error_t *err);
static hymt_status_t hymt_model_take(hymt_model_t *model, const char *name,
    uint64_t rows, uint64_t cols, const hymt_tensor_t **tensor,
    hymt_error_t *err);
static const char *hymt_model_shape(uint64_t rows, uint64_t cols,
    char buf[HYMT_SHAPE_TEXT]);
static hymt_model_entry_t *hymt_model_find(const hymt_model_t *model,
    const char *name);
static hymt_status_t hymt_model_unknown(const hymt_model_t *model,
    hymt_error_t *err);


hymt_status_t
hymt_model_open(const char *dir, hymt_model_t **model, hymt_error_t *err)
{
    hymt_model_t  *m;

    *model = NULL;

    m = calloc(1, sizeof(hymt_model_t));
    if (m == NULL) {
        return hymt_fail(err, "%s: no memory for the model's tables", dir);
    }

    m->dir = strdup(dir);
    m->priv = calloc(1, sizeof(struct hymt_model_private_s));

    if (m->dir == NULL || m->priv == NULL) {
        hymt_model_close(m);
        return hymt_fail(err, "%s: no memory for the model's tables", dir);
    }

    if (hymt_model_load(m, err) != HYMT_OK) {
        hymt_model_close(m);
        return HYMT_ERROR;
    }

    *model = m;

    return HYMT_OK;
}


void
hymt_model_close(hymt_model_t *model)
{
    uint32_t  i;

    if (model == NULL) {
        return;
    }

    if (model->priv != NULL) {
        for (i = 0; i < model->priv->n_files; i++) {
            hymt_safetensors_close(&model->priv->files[i]);
        }

        free(model->priv->entries);
        free(model->priv);
    }

    free(model->layers);
    free(model->dir);
    free(model);
}


static hymt_status_t
hymt_model_load(hymt_model_t *model, hymt_error_t *err)
{
    json_t         *map;
    hymt_status_t   rc;

    map = NULL;

    rc = hymt_config_read(model->dir, &model->config, err);

    if (rc == HYMT_OK) {
        rc = hymt_model_files(model, &map, err);
    }

    if (rc == HYMT_OK) {
        rc = hymt_model_sort(model, err);
    }

    if (rc == HYMT_OK && map != NULL) {
        rc = hymt_model_check_map(model, map, err);
    }

    if (rc == HYMT_OK) {
        rc = hymt_model_bind(model, err);
    }

    if (rc == HYMT_OK) {
        rc = hymt_model_unknown(model, err);
    }

    json_decref(map);

    return rc;
}


/*
 * Opens model.safetensors or, where there is none, what the index names; then
 * *map is the index, owned by the caller.
 */
static hymt_status_t
hymt_model_files(hymt_model_t *model, json_t **map, hymt_error_t *err)
{
    char           *index;
    hymt_status_t   rc;

    rc = hymt_model_file(model, "model.safetensors", err);

    if (rc != HYMT_DECLINED) {
        return rc;
    }

    index = hymt_file_path(model->dir, "model.safetensors.index.json", err);
    if (index == NULL) {
        return HYMT_ERROR;
    }

    rc = hymt_json_read(index, HYMT_INDEX_FILE_MAX, map, err);

    if (rc == HYMT_OK) {
        rc = hymt_model_shards(model, index, *map, err);

    } else if (rc == HYMT_DECLINED) {
        rc = hymt_fail(err, "%s: there is neither model.safetensors nor"
                       " model.safetensors.index.json: are the weights"
                       " downloaded?", model->dir);
    }

    free(index);

    return rc;
}


static hymt_status_t
hymt_model_file(hymt_model_t *model, const char *name, hymt_error_t *err)
{
    char           *path;
    hymt_status_t   rc;

    path = hymt_file_path(model->dir, name, err);
    if (path == NULL) {
        return HYMT_ERROR;
    }

    rc = hymt_safetensors_open(path,
                               &model->priv->files[model->priv->n_files],
                               err);
    if (rc == HYMT_OK) {
        model->priv->n_files++;
    }

    free(path);

    return rc;
}


static hymt_status_t
hymt_model_shards(hymt_model_t *model, const char *index, json_t *map,
    hymt_error_t *err)
{
    char         show[HYMT_JSON_SHOW];
    json_t      *weights, *file;
    const char  *tensor;

    weights = json_object_get(map, "weight_map");

    if (!json_is_object(weights) || json_object_size(weights) == 0) {
        return hymt_fail(err, "%s: \"weight_map\" must be an object from"
                         " tensors to files, got %s", index,
                         hymt_json_show(weights, show));
    }

    json_object_foreach(weights, tensor, file) {
        if (hymt_model_shard(model, index, tensor, file, err) != HYMT_OK) {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


/* Opens the file that the index names for a tensor, if it is not open yet. */
static hymt_status_t
hymt_model_shard(hymt_model_t *model, const char *index, const char *tensor,
    const json_t *file, hymt_error_t *err)
{
    char            show[HYMT_JSON_SHOW];
    size_t          i, len;
    const char     *name;
    hymt_status_t   rc;

    name = json_is_string(file) ? json_string_value(file) : "";
    len = strlen(name);

    for (i = 0; i < len; i++) {
        if (name[i] < 0x20 || name[i] > 0x7e || name[i] == '/') {
            break;
        }
    }

    /* a leading dot covers "." and ".." too */

    if (len == 0 || len > 255 || i != len || name[0] == '.') {
        return hymt_fail(err, "%s: tensor \"%.100s\": %s is not the plain name"
                         " of a file in the same directory", index, tensor,
                         hymt_json_show(file, show));
    }

    if (hymt_model_has_file(model, name)) {
        return HYMT_OK;
    }

    if (model->priv->n_files == HYMT_MAX_SHARDS) {
        return hymt_fail(err, "%s: names more than %d files", index,
                         HYMT_MAX_SHARDS);
    }

    rc = hymt_model_file(model, name, err);

    if (rc == HYMT_DECLINED) {
        return hymt_fail(err, "%s/%s: no such file, but %s names it for tensor"
                         " \"%.100s\": is the download complete?", model->dir,
                         name, index, tensor);
    }

    return rc;
}


static bool
hymt_model_has_file(const hymt_model_t *model, const char *name)
{
    size_t    skip;
    uint32_t  i;

    skip = strlen(model->dir) + 1;

    for (i = model->priv->n_files; i > 0; i--) {
        if (strcmp(model->priv->files[i - 1].path + skip, name) == 0) {
            return true;
        }
    }

    return false;
}


static hymt_status_t
hymt_model_sort(hymt_model_t *model, hymt_error_t *err)
{
    uint32_t                      i, j, n;
    const hymt_tensor_t          *a, *b;
    struct hymt_model_private_s  *priv;

    priv = model->priv;

    for (i = 0, n = 0; i < priv->n_files; i++) {
        n += priv->files[i].n;
    }

    priv->entries = calloc((size_t) n + 1, sizeof(hymt_model_entry_t));
    if (priv->entries == NULL) {
        return hymt_fail(err, "%s: no memory for a table of %" PRIu32
                         " tensors", model->dir, n);
    }

    for (i = 0; i < priv->n_files; i++) {
        for (j = 0; j < priv->files[i].n; j++) {
            priv->entries[priv->n_entries++].tensor =
                                                &priv->files[i].tensors[j];
        }
    }

    qsort(priv->entries, n, sizeof(hymt_model_entry_t), hymt_model_by_name);

    for (i = 1; i < n; i++) {
        a = priv->entries[i - 1].tensor;
        b = priv->entries[i].tensor;

        if (strcmp(a->name, b->name) == 0) {
            return hymt_fail(err, "%s: tensor \"%s\" is also in %s", b->file,
                             b->name, a->file);
        }
    }

    return HYMT_OK;
}


static int
hymt_model_by_name(const void *one, const void *two)
{
    const hymt_model_entry_t  *a = one;
    const hymt_model_entry_t  *b = two;

    return strcmp(a->tensor->name, b->tensor->name);
}


/* A tensor must be in the file for which the index names it. */
static hymt_status_t
hymt_model_check_map(const hymt_model_t *model, json_t *map,
    hymt_error_t *err)
{
    size_t               skip;
    json_t              *file;
    const char          *name;
    hymt_model_entry_t  *entry;

    skip = strlen(model->dir) + 1;

    json_object_foreach(json_object_get(map, "weight_map"), name, file) {
        entry = hymt_model_find(model, name);

        if (entry == NULL
            || strcmp(entry->tensor->file + skip, json_string_value(file))
               != 0)
        {
            return hymt_fail(err, "%s/%s: tensor \"%.100s\" is not in it, but"
                             " model.safetensors.index.json says so: do the"
                             " files belong together?", model->dir,
                             json_string_value(file), name);
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_model_bind(hymt_model_t *model, hymt_error_t *err)
{
    uint32_t              i;
    hymt_model_entry_t   *copy;

    const hymt_config_t  *c = &model->config;

    model->layers = calloc(c->n_layers, sizeof(hymt_layer_t));
    if (model->layers == NULL) {
        return hymt_fail(err, "%s: no memory for %" PRIu32 " layers",
                         model->dir, c->n_layers);
    }

    if (hymt_model_take(model, "model.embed_tokens.weight", c->vocab,
                        c->hidden, &model->embed, err)
        != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    for (i = 0; i < c->n_layers; i++) {
        if (hymt_model_bind_layer(model, i, err) != HYMT_OK) {
            return HYMT_ERROR;
        }
    }

    if (hymt_model_take(model, "model.norm.weight", c->hidden, 0,
                        &model->norm, err)
        != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (!c->tied) {
        return hymt_model_take(model, "lm_head.weight", c->vocab, c->hidden,
                               &model->lm_head, err);
    }

    /* the 1.8B and 7B checkpoints hold a copy, which transformers ignores */

    model->lm_head = model->embed;
    copy = hymt_model_find(model, "lm_head.weight");

    if (copy != NULL) {
        copy->known = true;
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_model_bind_layer(hymt_model_t *model, uint32_t n, hymt_error_t *err)
{
    char                   name[128];
    size_t                 i;
    hymt_layer_t          *layer;
    const hymt_tensor_t  **place;

    const hymt_config_t      *c = &model->config;
    const uint64_t            q = (uint64_t) c->n_heads * c->head_dim;
    const uint64_t            kv = (uint64_t) c->n_kv_heads * c->head_dim;
    const hymt_model_part_t   parts[] = {
        { "input_layernorm", offsetof(hymt_layer_t, input_norm),
          c->hidden, 0 },
        { "self_attn.q_proj", offsetof(hymt_layer_t, q), q, c->hidden },
        { "self_attn.k_proj", offsetof(hymt_layer_t, k), kv, c->hidden },
        { "self_attn.v_proj", offsetof(hymt_layer_t, v), kv, c->hidden },
        { "self_attn.o_proj", offsetof(hymt_layer_t, o), c->hidden, q },
        { "post_attention_layernorm", offsetof(hymt_layer_t, post_norm),
          c->hidden, 0 },
        { "mlp.gate_proj", offsetof(hymt_layer_t, gate), c->ffn, c->hidden },
        { "mlp.up_proj", offsetof(hymt_layer_t, up), c->ffn, c->hidden },
        { "mlp.down_proj", offsetof(hymt_layer_t, down), c->hidden, c->ffn },

        /* the last two only with qk_norm */

        { "self_attn.query_layernorm", offsetof(hymt_layer_t, q_norm),
          c->head_dim, 0 },
        { "self_attn.key_layernorm", offsetof(hymt_layer_t, k_norm),
          c->head_dim, 0 },
    };

    layer = &model->layers[n];

    for (i = 0; i < hymt_nelts(parts) - (c->qk_norm ? 0 : 2); i++) {
        snprintf(name, sizeof(name), "model.layers.%" PRIu32 ".%s.weight", n,
                 parts[i].name);

        place = (const hymt_tensor_t **) ((char *) layer + parts[i].offset);

        if (hymt_model_take(model, name, parts[i].rows, parts[i].cols, place,
                            err)
            != HYMT_OK)
        {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_model_take(hymt_model_t *model, const char *name, uint64_t rows,
    uint64_t cols, const hymt_tensor_t **tensor, hymt_error_t *err)
{
    char                  have[HYMT_SHAPE_TEXT], want[HYMT_SHAPE_TEXT];
    hymt_model_entry_t   *entry;
    const hymt_tensor_t  *t;

    entry = hymt_model_find(model, name);

    if (entry == NULL) {
        return hymt_fail(err, "%s: tensor \"%s\" is missing (config.json asks"
                         " for %" PRIu32 " layers, tie_word_embeddings %s,"
                         " use_qk_norm %s)", model->dir, name,
                         model->config.n_layers,
                         model->config.tied ? "true" : "false",
                         model->config.qk_norm ? "true" : "false");
    }

    t = entry->tensor;

    if (t->n_dims != (cols == 0 ? 1 : 2) || t->shape[0] != rows
        || (cols != 0 && t->shape[1] != cols))
    {
        return hymt_fail(err, "%s: tensor \"%s\" has shape %s; config.json"
                         " asks for %s", t->file, name,
                         hymt_model_shape(t->shape[0],
                                          t->n_dims == 1 ? 0 : t->shape[1],
                                          have),
                         hymt_model_shape(rows, cols, want));
    }

    entry->known = true;
    *tensor = t;

    model->n_params += t->bytes / hymt_dtype_size(t->dtype);
    model->bytes += t->bytes;

    return HYMT_OK;
}


static const char *
hymt_model_shape(uint64_t rows, uint64_t cols, char buf[HYMT_SHAPE_TEXT])
{
    if (cols == 0) {
        snprintf(buf, HYMT_SHAPE_TEXT, "[%" PRIu64 "]", rows);

    } else {
        snprintf(buf, HYMT_SHAPE_TEXT, "[%" PRIu64 ", %" PRIu64 "]", rows,
                 cols);
    }

    return buf;
}


static hymt_model_entry_t *
hymt_model_find(const hymt_model_t *model, const char *name)
{
    hymt_tensor_t       tensor;
    hymt_model_entry_t  key;

    tensor.name = name;
    key.tensor = &tensor;
    key.known = false;

    return bsearch(&key, model->priv->entries, model->priv->n_entries,
                   sizeof(hymt_model_entry_t), hymt_model_by_name);
}


/* A weight that is not used means an architecture that is not this one. */
static hymt_status_t
hymt_model_unknown(const hymt_model_t *model, hymt_error_t *err)
{
    uint32_t                   i, n;
    const hymt_model_entry_t  *entry, *first;

    first = NULL;

    for (i = 0, n = 0; i < model->priv->n_entries; i++) {
        entry = &model->priv->entries[i];

        if (!entry->known) {
            first = n++ == 0 ? entry : first;
        }
    }

    if (first == NULL) {
        return HYMT_OK;
    }

    return hymt_fail(err, "%s: tensor \"%s\" has no place in the model that"
                     " config.json describes (%" PRIu32 " such in all)",
                     first->tensor->file, first->tensor->name, n);
}
