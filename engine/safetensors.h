/*
 * safetensors.h - the header of one .safetensors file, checked.  Private to
 * the loader.
 *
 * The format (huggingface/safetensors, README "Format"): 8 bytes with the
 * header's length, little-endian; the header, a JSON object from tensor name to
 * {"dtype", "shape", "data_offsets": [begin, end]} and optionally
 * "__metadata__", an object of strings; then the data, to which the offsets
 * refer.
 *
 * Accepted: headers up to 8 MiB (the largest model config.h admits needs 2; the
 * format's own limit is 100 MB), names of 1 to 255 printable ASCII characters,
 * dtypes F32, F16 and BF16, one or two dimensions, none of them 0.
 *
 * As the format demands, the tensors fill the data without gap or overlap:
 * each byte of the file belongs to exactly one tensor.  So a file that was cut,
 * or glued, or whose header speaks of another file, is found here, before
 * anything is read, and the error says which tensor it would have hit.
 *
 * Thread: one at a time.
 */

#ifndef HYMT_SAFETENSORS_H
#define HYMT_SAFETENSORS_H

#include "file.h"
#include "model.h"


#define HYMT_SAFETENSORS_HEADER_MAX  (8 << 20)


typedef struct {
    char           *path;       /* owned */
    hymt_file_t     file;       /* owned while open; fd -1: none */
    uint64_t        data;       /* where the data begins */
    hymt_tensor_t  *tensors;    /* owned, [n], by offset */
    uint32_t        n;
    char           *names;      /* owned, what tensors[].name points into */
} hymt_safetensors_t;


/*
 * Opens a file and reads its header.  path is copied.  On failure nothing is
 * left open; HYMT_DECLINED, with an error, where there is no such file.
 */
hymt_status_t hymt_safetensors_open(const char *path, hymt_safetensors_t *st,
    hymt_error_t *err);


/*
 * The checks alone: header [len] is what st->file.size - 8 - len bytes of data
 * would follow.  path and file of *st are set, the rest is filled.
 */
hymt_status_t hymt_safetensors_parse(hymt_safetensors_t *st,
    const char *header, size_t len, hymt_error_t *err);


void hymt_safetensors_close(hymt_safetensors_t *st);


#endif /* HYMT_SAFETENSORS_H */
