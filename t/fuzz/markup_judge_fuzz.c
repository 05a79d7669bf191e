/*
 * markup_judge_fuzz.c - libFuzzer on the second parser, libxml2 and Expat below
 * it.
 *
 * The first byte chooses the format; up to a NUL comes one fragment, behind it
 * another.  A fragment is never other than itself; what is said of two is said
 * again.  What is no UTF-8 may come too: nothing may happen but an answer.
 */

#include "markup_judge.h"

#include <stdlib.h>
#include <string.h>


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char              *a, *b;
    size_t             a_len, b_len;
    const uint8_t     *nul;
    hymt_format_t      format;
    hymt_judgement_t   first;

    if (size < 1) {
        return 0;
    }

    format = data[0] % 2 ? HYMT_FORMAT_HTML : HYMT_FORMAT_XML;
    data++;
    size--;

    nul = memchr(data, '\0', size);
    a_len = nul != NULL ? (size_t) (nul - data) : size;
    b_len = size - a_len - (nul != NULL);

    /* of their own size, so that reading behind them is seen */

    a = malloc(a_len);
    b = malloc(b_len);
    memcpy(a, data, a_len);

    if (b_len != 0) {
        memcpy(b, nul + 1, b_len);
    }

    if (hymt_markup_judge(format, a, a_len, a, a_len) == HYMT_JUDGE_OTHER) {
        abort();
    }

    first = hymt_markup_judge(format, a, a_len, b, b_len);

    if (hymt_markup_judge(format, a, a_len, b, b_len) != first) {
        abort();
    }

    free(a);
    free(b);

    return 0;
}
