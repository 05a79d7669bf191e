/*
 * tokenize-lines.c - ids of many texts, for tokenizer-vectors.py.
 *
 *   tokenize-lines MODEL < texts > ids
 *
 * Each line of the input is one text as UTF-8 in hexadecimal (texts may hold
 * newlines and NUL); the line of the answer holds its ids, or "error: ...".
 */

#include "tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>


static int unhex(char *line, size_t *len);
static void print_ids(hymt_encoder_t *enc, const char *text, size_t len,
    uint32_t *ids);


int
main(int argc, char **argv)
{
    char              *line;
    size_t             size, len, cap;
    uint32_t          *ids;
    hymt_error_t       err;
    hymt_encoder_t    *enc;
    hymt_tokenizer_t  *tok;

    if (argc != 2) {
        fprintf(stderr, "usage: %s MODEL < hex lines\n", argv[0]);
        return 2;
    }

    if (hymt_tokenizer_load(argv[1], &tok, &err) != HYMT_OK
        || hymt_encoder_create(tok, &enc, &err) != HYMT_OK)
    {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }

    line = NULL;
    size = 0;
    ids = NULL;
    cap = 0;

    while (getline(&line, &size, stdin) > 0) {

        if (unhex(line, &len) != 0) {
            printf("error: not hexadecimal\n");
            continue;
        }

        /* a normaliser may make eleven bytes of one */

        if (11 * len + 1 > cap) {
            cap = 22 * len + 1;
            free(ids);
            ids = malloc(cap * sizeof(uint32_t));

            if (ids == NULL) {
                return 1;
            }
        }

        print_ids(enc, line, len, ids);
    }

    free(ids);
    free(line);
    hymt_encoder_free(enc);
    hymt_tokenizer_free(tok);

    return 0;
}


/* in place */
static int
unhex(char *line, size_t *len)
{
    unsigned  byte;
    int       used;
    char     *p;

    *len = 0;

    for (p = line; *p != '\n' && *p != '\0'; p += 2) {
        if (sscanf(p, "%2x%n", &byte, &used) != 1 || used != 2) {
            return -1;
        }

        line[(*len)++] = (char) byte;
    }

    return 0;
}


static void
print_ids(hymt_encoder_t *enc, const char *text, size_t len, uint32_t *ids)
{
    size_t        i, n;
    hymt_error_t  err;

    if (hymt_encode(enc, text, len, ids, 11 * len + 1, &n, &err) != HYMT_OK) {
        printf("error: %s\n", err.text);
        return;
    }

    for (i = 0; i < n; i++) {
        printf("%s%" PRIu32, i == 0 ? "" : " ", ids[i]);
    }

    printf("\n");
}
