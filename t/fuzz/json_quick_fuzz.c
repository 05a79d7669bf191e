/*
 * json_quick_fuzz.c - libFuzzer on hymt_json_quick(): what it reads jansson
 * reads, too, and alike.
 *
 *     clang -std=c11 -D_GNU_SOURCE -O1 -g -Iengine \
 *         -fsanitize=fuzzer,address,undefined t/fuzz/json_quick_fuzz.c \
 *         engine/base.c engine/json_quick.c -ljansson -lm -o json_quick_fuzz
 *     ./json_quick_fuzz -max_total_time=300 -dict=t/fuzz/json_quick.dict
 */

#include "json_quick.h"

#include <stdlib.h>
#include <string.h>


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char          *a, *b;
    json_t        *got, *want;
    json_error_t   error;

    got = hymt_json_quick((const char *) data, size, 1000);

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
