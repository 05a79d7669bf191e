/*
 * safetensors.c - see safetensors.h.
 */

#include "safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


#define HYMT_TENSOR_NAME_MAX  255


static hymt_status_t hymt_safetensors_header(hymt_safetensors_t *st,
    hymt_error_t *err);
static hymt_status_t hymt_safetensors_tensors(hymt_safetensors_t *st,
    json_t *root, hymt_error_t *err);
static hymt_status_t hymt_safetensors_metadata(const hymt_safetensors_t *st,
    json_t *metadata, hymt_error_t *err);
static hymt_status_t hymt_safetensors_name(const hymt_safetensors_t *st,
    const char *name, hymt_error_t *err);
static hymt_status_t hymt_safetensors_tensor(const hymt_safetensors_t *st,
    json_t *entry, hymt_tensor_t *t, hymt_error_t *err);
static hymt_status_t hymt_safetensors_keys(json_t *entry, hymt_tensor_t *t,
    hymt_error_t *err);
static hymt_status_t hymt_safetensors_dtype(const json_t *dtype,
    hymt_tensor_t *t, hymt_error_t *err);
static hymt_status_t hymt_safetensors_shape(const json_t *shape,
    hymt_tensor_t *t, hymt_error_t *err);
static hymt_status_t hymt_safetensors_range(const hymt_safetensors_t *st,
    const json_t *offsets, hymt_tensor_t *t, hymt_error_t *err);
static hymt_status_t hymt_safetensors_sweep(hymt_safetensors_t *st,
    hymt_error_t *err);
static int hymt_safetensors_by_offset(const void *one, const void *two);


hymt_status_t
hymt_safetensors_open(const char *path, hymt_safetensors_t *st,
    hymt_error_t *err)
{
    hymt_status_t  rc;

    memset(st, 0, sizeof(hymt_safetensors_t));
    st->file.fd = -1;

    st->path = strdup(path);
    if (st->path == NULL) {
        return hymt_fail(err, "%s: no memory for the path", path);
    }

    rc = hymt_file_open(path, &st->file, err);

    if (rc == HYMT_OK) {
        rc = hymt_safetensors_header(st, err);
    }

    if (rc != HYMT_OK) {
        hymt_safetensors_close(st);
    }

    return rc;
}


static hymt_status_t
hymt_safetensors_header(hymt_safetensors_t *st, hymt_error_t *err)
{
    int             i;
    char           *header;
    uint64_t        len;
    unsigned char   head[8];
    hymt_status_t   rc;

    if (st->file.size < sizeof(head)) {
        return hymt_fail(err, "%s: the file has %" PRIu64 " bytes, too few for"
                         " a safetensors file: is the download complete?",
                         st->path, st->file.size);
    }

    if (hymt_file_pread(st->file.fd, st->path, "header's length", 0, head,
                        sizeof(head), err)
        != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (memcmp(head, "version ", sizeof(head)) == 0) {
        return hymt_fail(err, "%s: this is a Git LFS pointer, not the weights:"
                         " run \"git lfs pull\" in the model's directory",
                         st->path);
    }

    for (len = 0, i = sizeof(head) - 1; i >= 0; i--) {
        len = len << 8 | head[i];
    }

    if (len < 2 || len > HYMT_SAFETENSORS_HEADER_MAX) {
        return hymt_fail(err, "%s: the header's length is %" PRIu64 "; 2 to %d"
                         " are accepted: is this a safetensors file?",
                         st->path, len, HYMT_SAFETENSORS_HEADER_MAX);
    }

    if (len > st->file.size - sizeof(head)) {
        return hymt_fail(err, "%s: the header takes %" PRIu64 " bytes but the"
                         " file has %" PRIu64 ": is the download complete?",
                         st->path, len, st->file.size);
    }

    header = malloc((size_t) len);
    if (header == NULL) {
        return hymt_fail(err, "%s: no memory for its header of %" PRIu64
                         " bytes", st->path, len);
    }

    rc = hymt_file_pread(st->file.fd, st->path, "header", sizeof(head), header,
                         (size_t) len, err);

    if (rc == HYMT_OK) {
        rc = hymt_safetensors_parse(st, header, (size_t) len, err);
    }

    free(header);

    return rc;
}


hymt_status_t
hymt_safetensors_parse(hymt_safetensors_t *st, const char *header, size_t len,
    hymt_error_t *err)
{
    json_t         *root;
    hymt_status_t   rc;

    st->data = sizeof(uint64_t) + len;

    if (header[0] != '{') {
        return hymt_fail(err, "%s: the header does not begin with \"{\": is"
                         " this a safetensors file?", st->path);
    }

    if (hymt_json_parse(st->path, header, len, &root, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    rc = hymt_safetensors_tensors(st, root, err);

    json_decref(root);

    if (rc != HYMT_OK) {
        return HYMT_ERROR;
    }

    return hymt_safetensors_sweep(st, err);
}


static hymt_status_t
hymt_safetensors_tensors(hymt_safetensors_t *st, json_t *root,
    hymt_error_t *err)
{
    char           *p;
    json_t         *entry;
    size_t          size;
    const char     *name;
    hymt_tensor_t  *t;

    size = 0;

    json_object_foreach(root, name, entry) {
        size += strlen(name) + 1;
    }

    st->tensors = calloc(json_object_size(root) + 1, sizeof(hymt_tensor_t));
    st->names = malloc(size + 1);

    if (st->tensors == NULL || st->names == NULL) {
        return hymt_fail(err, "%s: no memory for a table of %zu tensors",
                         st->path, json_object_size(root));
    }

    p = st->names;

    json_object_foreach(root, name, entry) {

        if (strcmp(name, "__metadata__") == 0) {
            if (hymt_safetensors_metadata(st, entry, err) != HYMT_OK) {
                return HYMT_ERROR;
            }

            continue;
        }

        if (hymt_safetensors_name(st, name, err) != HYMT_OK) {
            return HYMT_ERROR;
        }

        t = &st->tensors[st->n++];

        t->name = strcpy(p, name);
        p += strlen(name) + 1;

        if (hymt_safetensors_tensor(st, entry, t, err) != HYMT_OK) {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_safetensors_metadata(const hymt_safetensors_t *st, json_t *metadata,
    hymt_error_t *err)
{
    char         show[HYMT_JSON_SHOW];
    json_t      *value;
    const char  *key;

    if (!json_is_object(metadata)) {
        return hymt_fail(err, "%s: \"__metadata__\" must be an object of"
                         " strings, got %s", st->path,
                         hymt_json_show(metadata, show));
    }

    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value)) {
            return hymt_fail(err, "%s: \"__metadata__\" must be an object of"
                             " strings, but holds %s", st->path,
                             hymt_json_show(value, show));
        }
    }

    return HYMT_OK;
}


/* Names go into messages and logs as they are. */
static hymt_status_t
hymt_safetensors_name(const hymt_safetensors_t *st, const char *name,
    hymt_error_t *err)
{
    size_t  i;

    for (i = 0; name[i] != '\0'; i++) {
        if (name[i] < 0x21 || name[i] > 0x7e || i == HYMT_TENSOR_NAME_MAX) {
            break;
        }
    }

    if (i == 0 || name[i] != '\0') {
        return hymt_fail(err, "%s: a tensor's name \"%.*s...\" is not 1 to %d"
                         " printable ASCII characters", st->path, (int) i,
                         name, HYMT_TENSOR_NAME_MAX);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_safetensors_tensor(const hymt_safetensors_t *st, json_t *entry,
    hymt_tensor_t *t, hymt_error_t *err)
{
    t->file = st->path;
    t->fd = st->file.fd;
    t->mtime_ns = st->file.mtime_ns;

    if (hymt_safetensors_keys(entry, t, err) != HYMT_OK
        || hymt_safetensors_dtype(json_object_get(entry, "dtype"), t, err)
           != HYMT_OK
        || hymt_safetensors_shape(json_object_get(entry, "shape"), t, err)
           != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    return hymt_safetensors_range(st, json_object_get(entry, "data_offsets"),
                                  t, err);
}


static hymt_status_t
hymt_safetensors_keys(json_t *entry, hymt_tensor_t *t, hymt_error_t *err)
{
    char    show[HYMT_JSON_SHOW];
    size_t  i;

    static const char *const  keys[] = { "dtype", "shape", "data_offsets" };

    if (!json_is_object(entry)) {
        return hymt_fail(err, "%s: tensor \"%s\" must be an object, got %s",
                         t->file, t->name, hymt_json_show(entry, show));
    }

    for (i = 0; i < hymt_nelts(keys); i++) {
        if (json_object_get(entry, keys[i]) == NULL) {
            return hymt_fail(err, "%s: tensor \"%s\" has no \"%s\"", t->file,
                             t->name, keys[i]);
        }
    }

    if (json_object_size(entry) != hymt_nelts(keys)) {
        return hymt_fail(err, "%s: tensor \"%s\" has keys besides \"dtype\","
                         " \"shape\" and \"data_offsets\"", t->file, t->name);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_safetensors_dtype(const json_t *dtype, hymt_tensor_t *t,
    hymt_error_t *err)
{
    char    show[HYMT_JSON_SHOW];
    size_t  i;

    static const hymt_dtype_t  known[] = { HYMT_F32, HYMT_F16, HYMT_BF16 };

    for (i = 0; i < hymt_nelts(known) && json_is_string(dtype); i++) {
        if (strcmp(json_string_value(dtype), hymt_dtype_name(known[i])) == 0) {
            t->dtype = known[i];
            return HYMT_OK;
        }
    }

    return hymt_fail(err, "%s: tensor \"%s\" has dtype %s; F32, F16 and BF16"
                     " are supported: use the bf16 checkpoint", t->file,
                     t->name, hymt_json_show(dtype, show));
}


static hymt_status_t
hymt_safetensors_shape(const json_t *shape, hymt_tensor_t *t,
    hymt_error_t *err)
{
    char           show[HYMT_JSON_SHOW];
    size_t         i, n;
    const json_t  *dim;

    n = json_array_size(shape);

    if (!json_is_array(shape) || n < 1 || n > hymt_nelts(t->shape)) {
        return hymt_fail(err, "%s: tensor \"%s\" must have a shape of one or"
                         " two dimensions, got %s", t->file, t->name,
                         hymt_json_show(shape, show));
    }

    t->n_dims = (uint32_t) n;
    t->shape[1] = 1;

    for (i = 0; i < n; i++) {
        dim = json_array_get(shape, i);

        if (!json_is_integer(dim) || json_integer_value(dim) < 1) {
            return hymt_fail(err, "%s: tensor \"%s\": a shape is made of"
                             " positive integers, got %s", t->file, t->name,
                             hymt_json_show(shape, show));
        }

        t->shape[i] = (uint64_t) json_integer_value(dim);
    }

    if (hymt_mul_overflow(t->shape[0], t->shape[1], &t->bytes)
        || hymt_mul_overflow(t->bytes, hymt_dtype_size(t->dtype), &t->bytes))
    {
        return hymt_fail(err, "%s: tensor \"%s\": shape %s is beyond 64 bits",
                         t->file, t->name, hymt_json_show(shape, show));
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_safetensors_range(const hymt_safetensors_t *st, const json_t *offsets,
    hymt_tensor_t *t, hymt_error_t *err)
{
    char          show[HYMT_JSON_SHOW];
    json_int_t    begin, end;

    const json_t  *one = json_array_get(offsets, 0);
    const json_t  *two = json_array_get(offsets, 1);

    if (json_array_size(offsets) != 2 || !json_is_integer(one)
        || !json_is_integer(two))
    {
        return hymt_fail(err, "%s: tensor \"%s\": \"data_offsets\" must be two"
                         " integers, got %s", t->file, t->name,
                         hymt_json_show(offsets, show));
    }

    begin = json_integer_value(one);
    end = json_integer_value(two);

    if (begin < 0 || end < begin) {
        return hymt_fail(err, "%s: tensor \"%s\" goes from byte %" PRId64
                         " to byte %" PRId64, t->file, t->name,
                         (int64_t) begin, (int64_t) end);
    }

    if ((uint64_t) (end - begin) != t->bytes) {
        return hymt_fail(err, "%s: tensor \"%s\": shape [%" PRIu64 ", %" PRIu64
                         "] in %s needs %" PRIu64 " bytes, data_offsets give"
                         " %" PRId64, t->file, t->name, t->shape[0],
                         t->shape[1], hymt_dtype_name(t->dtype), t->bytes,
                         (int64_t) (end - begin));
    }

    if ((uint64_t) end > st->file.size - st->data) {
        return hymt_fail(err, "%s: tensor \"%s\" ends at byte %" PRIu64
                         " but the file has %" PRIu64 ": is the download"
                         " complete?", t->file, t->name,
                         st->data + (uint64_t) end, st->file.size);
    }

    t->offset = st->data + (uint64_t) begin;

    return HYMT_OK;
}


/* In order of place each tensor begins where the one before ends. */
static hymt_status_t
hymt_safetensors_sweep(hymt_safetensors_t *st, hymt_error_t *err)
{
    uint32_t              i;
    uint64_t              end;
    const hymt_tensor_t  *t;

    qsort(st->tensors, st->n, sizeof(hymt_tensor_t),
          hymt_safetensors_by_offset);

    end = st->data;

    for (i = 0; i < st->n; i++) {
        t = &st->tensors[i];

        if (t->offset < end) {
            return hymt_fail(err, "%s: tensor \"%s\" begins at byte %" PRIu64
                             ", inside tensor \"%s\", which ends at %" PRIu64,
                             st->path, t->name, t->offset,
                             st->tensors[i - 1].name, end);
        }

        if (t->offset > end) {
            return hymt_fail(err, "%s: the %" PRIu64 " bytes before tensor"
                             " \"%s\" belong to no tensor: the file is"
                             " malformed", st->path, t->offset - end,
                             t->name);
        }

        end = t->offset + t->bytes;
    }

    if (end != st->file.size) {
        return hymt_fail(err, "%s: %" PRIu64 " bytes follow the last tensor%s%s"
                         "%s: the file is malformed", st->path,
                         st->file.size - end, st->n ? " \"" : "",
                         st->n ? st->tensors[st->n - 1].name : "",
                         st->n ? "\"" : "");
    }

    return HYMT_OK;
}


static int
hymt_safetensors_by_offset(const void *one, const void *two)
{
    const hymt_tensor_t  *a = one;
    const hymt_tensor_t  *b = two;

    if (a->offset != b->offset) {
        return a->offset < b->offset ? -1 : 1;
    }

    return strcmp(a->name, b->name);
}


void
hymt_safetensors_close(hymt_safetensors_t *st)
{
    if (st->file.fd != -1) {
        close(st->file.fd);
        st->file.fd = -1;
    }

    free(st->path);
    free(st->tensors);
    free(st->names);

    st->path = NULL;
    st->tensors = NULL;
    st->names = NULL;
    st->n = 0;
}
