/*
 * glossary_fuzz.c - libFuzzer on the entries of glossaries, and on matching.
 *
 * Input: one byte, the format and whether case counts; one, the length of the
 * entries in eighths of what follows; the entries; a text.  What is accepted
 * must come back the same through TSV, and what matches must be in the text.
 */

#include "glossary.h"

#include <stdlib.h>
#include <string.h>


#define FUZZ_MATCHES  64


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static void
check_again(const hymt_glossary_t *g)
{
    char                         *tsv;
    size_t                        len;
    uint32_t                      i, n, k;
    hymt_error_t                  err;
    hymt_glossary_t              *again;
    const hymt_glossary_entry_t  *a, *b;

    if (hymt_glossary_tsv(g, &tsv, &len, &err) != HYMT_OK
        || hymt_glossary_parse(tsv, len, HYMT_GLOSSARY_TSV, 1, 12, NULL, &again,
                               &err) != HYMT_OK)
    {
        abort();
    }

    a = hymt_glossary_entries(g, &n);
    b = hymt_glossary_entries(again, &k);

    if (n != k) {
        abort();
    }

    for (i = 0; i < n; i++) {
        if (a[i].src_len == 0 || a[i].tgt_len == 0
            || strcmp(a[i].src, b[i].src) != 0
            || strcmp(a[i].tgt, b[i].tgt) != 0
            || strlen(a[i].src) != a[i].src_len
            || strlen(a[i].tgt) != a[i].tgt_len)
        {
            abort();
        }
    }

    hymt_glossary_unref(again);
    free(tsv);
}


static void
check_match(const hymt_glossary_t *g, const char *text, size_t len, bool icase)
{
    uint32_t                      i, n;
    hymt_error_t                  err;
    const hymt_glossary_entry_t  *out[FUZZ_MATCHES];

    if (hymt_glossary_match(g, text, len, icase, out, FUZZ_MATCHES, &n, &err)
        != HYMT_OK)
    {
        if (hymt_utf8_check(text, len, NULL)) {
            abort();
        }

        return;
    }

    for (i = 0; i < n; i++) {
        if ((i > 0 && out[i]->src_len > out[i - 1]->src_len)
            || (!icase
                && memmem(text, len, out[i]->src, out[i]->src_len) == NULL))
        {
            abort();
        }
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t            split;
    hymt_error_t      err;
    hymt_status_t     rc;
    hymt_glossary_t  *g;

    if (size < 2) {
        return 0;
    }

    size -= 2;
    split = size * (data[1] & 7) / 8;
    err.text[0] = '\0';

    rc = hymt_glossary_parse((const char *) data + 2, split,
                             data[0] & 1 ? HYMT_GLOSSARY_CSV
                                         : HYMT_GLOSSARY_TSV,
                             1, 12, NULL, &g, &err);

    if (rc != HYMT_OK) {
        if (err.text[0] == '\0') {
            abort();
        }

        return 0;
    }

    check_again(g);
    check_match(g, (const char *) data + 2 + split, size - split,
                data[0] & 2);
    hymt_glossary_unref(g);

    return 0;
}
