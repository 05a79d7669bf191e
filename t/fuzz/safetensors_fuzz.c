/*
 * safetensors_fuzz.c - libFuzzer on the header of a .safetensors file.
 *
 *     clang -std=c11 -D_GNU_SOURCE -O1 -g -Iengine \
 *         -fsanitize=fuzzer,address,undefined t/fuzz/safetensors_fuzz.c \
 *         engine/base.c engine/file.c engine/safetensors.c engine/tensor.c \
 *         -ljansson -o safetensors_fuzz
 *     ./safetensors_fuzz -max_total_time=300 -dict=t/fuzz/safetensors.dict
 *
 * Input: two bytes, the size of the data; then the header.  Where the header is
 * accepted, its tensors must cover the file exactly, in order; where not, there
 * must be a message of one line that can be printed.
 */

#include "safetensors.h"

#include <stdlib.h>
#include <string.h>


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
check_accepted(const hymt_safetensors_t *st)
{
    uint32_t              i;
    uint64_t              at;
    const hymt_tensor_t  *t;

    at = st->data;

    for (i = 0; i < st->n; i++) {
        t = &st->tensors[i];

        if (t->offset != at || t->n_dims < 1 || t->n_dims > 2
            || t->shape[0] * t->shape[1] * hymt_dtype_size(t->dtype)
               != t->bytes
            || strlen(t->name) > 255)
        {
            abort();
        }

        at += t->bytes;
    }

    if (at != st->file.size) {
        abort();
    }
}


static void
check_message(const hymt_error_t *err)
{
    const char  *p;

    if (err->text[0] == '\0') {
        abort();
    }

    for (p = err->text; *p != '\0'; p++) {
        if ((unsigned char) *p < 0x20 || *p == 0x7f) {
            abort();
        }
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t              len;
    hymt_error_t        err;
    hymt_safetensors_t  st;

    if (size < 4) {
        return 0;
    }

    len = size - 2;
    memset(&st, 0, sizeof(st));

    st.path = strdup("x.safetensors");
    st.file.fd = -1;
    st.file.size = 8 + len + (uint64_t) (data[0] | data[1] << 8);

    err.text[0] = '\0';

    if (hymt_safetensors_parse(&st, (const char *) data + 2, len, &err)
        == HYMT_OK)
    {
        check_accepted(&st);

    } else {
        check_message(&err);
    }

    hymt_safetensors_close(&st);

    return 0;
}
