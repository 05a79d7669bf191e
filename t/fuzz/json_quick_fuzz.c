/*
 * json_quick_fuzz.c - libFuzzer on hymt_json_quick() and hymt_json_flat(): what
 * they read jansson reads, too, and alike.
 *
 *     clang -std=c11 -D_GNU_SOURCE -O1 -g -Iengine \
 *         -fsanitize=fuzzer,address,undefined t/fuzz/json_quick_fuzz.c \
 *         engine/base.c engine/json_quick.c engine/scan.c -ljansson -lm \
 *         -o json_quick_fuzz
 *     ./json_quick_fuzz -max_total_time=300 -dict=t/fuzz/json_quick.dict
 */

#include "json_quick.h"

#include <stdlib.h>
#include <string.h>


static json_t *flat(const char *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char          *a, *b;
    json_t        *got, *want, *members;
    json_error_t   error;

    got = hymt_json_quick((const char *) data, size, 1000);
    members = flat((const char *) data, size);

    if (members != NULL && !json_equal(members, got)) {
        abort();
    }

    json_decref(members);

    if (got == NULL) {
        return 0;
    }

    want = json_loadb((const char *) data, size,
                      JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);

    if (want == NULL || !json_equal(got, want)) {
        abort();
    }

    /* members in the same order */

    a = json_dumps(got, JSON_COMPACT);
    b = json_dumps(want, JSON_COMPACT);

    if (a == NULL || b == NULL || strcmp(a, b) != 0) {
        abort();
    }

    free(a);
    free(b);
    json_decref(got);
    json_decref(want);

    return 0;
}


/* NULL: not flat. */
static json_t *
flat(const char *data, size_t size)
{
    size_t               i, n;
    json_t              *root, *value;
    hymt_json_member_t   m[8];

    n = hymt_json_flat(data, size, m, 8);
    root = n > 0 ? json_object() : NULL;

    for (i = 0; i < n; i++) {
        value = m[i].type == JSON_STRING ? json_stringn(m[i].text, m[i].len)
                : m[i].type == JSON_INTEGER ? json_integer(m[i].integer)
                : m[i].type == JSON_REAL ? json_real(m[i].real)
                : json_boolean(m[i].type == JSON_TRUE);

        (void) json_object_setn_new(root, m[i].name, m[i].name_len, value);
    }

    return root;
}
