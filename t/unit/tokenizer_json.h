/*
 * tokenizer_json.h - writes small tokenizer.json files, right and wrong ones,
 * and loads them.
 *
 * The vocabulary holds one token for each byte (ids 0 to 255) and what the
 * test adds.  A member left NULL takes the value in brackets.
 */

#ifndef HYMT_TOKENIZER_JSON_H
#define HYMT_TOKENIZER_JSON_H

#include "fixture.h"

#include "tokenizer_private.h"


typedef struct {
    const char  *added;         /* ["[]"] */
    const char  *normalizer;    /* ["null"] */
    const char  *pre_tokenizer; /* [ByteLevel that splits nothing] */
    const char  *decoder;       /* ["null"] */
    const char  *vocab;         /* after the bytes: ", \"ab\": 256" [""] */
    const char  *merges;        /* ["[]"] */
    const char  *model;         /* further members: ", \"x\": 1" [""] */
    const char  *whole;         /* the whole file instead of all this */
} tokenizer_json_t;


#define BYTE_LEVEL                                                            \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false,"                  \
    " \"trim_offsets\": true, \"use_regex\": false}"

#define SPLITS(list)                                                          \
    "{\"type\": \"Sequence\", \"pretokenizers\": [" list ", " BYTE_LEVEL "]}"

#define SPLIT(kind, pattern, behavior, invert)                                \
    "{\"type\": \"Split\", \"pattern\": {\"" kind "\": \"" pattern "\"},"     \
    " \"behavior\": \"" behavior "\", \"invert\": " invert "}"


#define or_default(s, d)  ((s) != NULL ? (s) : (d))


static inline hymt_status_t
tokenizer_json_load(const tokenizer_json_t *t, hymt_tokenizer_t **tok,
    hymt_error_t *err)
{
    int            i;
    char           dir[FIXTURE_PATH];
    FILE          *f;
    hymt_status_t  rc;

    fixture_dir(dir);

    if (t->whole != NULL) {
        fixture_write(dir, "tokenizer.json", t->whole);

    } else {
        f = fixture_create(dir, "tokenizer.json");

        fprintf(f, "{\"added_tokens\": %s, \"normalizer\": %s,"
                " \"pre_tokenizer\": %s, \"decoder\": %s, \"model\":"
                " {\"type\": \"BPE\"%s, \"merges\": %s, \"vocab\": {",
                or_default(t->added, "[]"), or_default(t->normalizer, "null"),
                or_default(t->pre_tokenizer, BYTE_LEVEL),
                or_default(t->decoder, "null"), or_default(t->model, ""),
                or_default(t->merges, "[]"));

        for (i = 0; i < 256; i++) {
            fprintf(f, "%s\"", i ? ", " : "");
            fixture_write_byte(f, i);
            fprintf(f, "\": %d", i);
        }

        fprintf(f, "%s}}}\n", or_default(t->vocab, ""));

        if (fclose(f) != 0) {
            fixture_die("can't write tokenizer.json in", dir);
        }
    }

    err->text[0] = '\0';
    rc = hymt_tokenizer_load(dir, tok, err);

    fixture_remove(dir);

    return rc;
}


/* Loads what must load, and makes an encoder; ends the program otherwise. */
static inline hymt_encoder_t *
tokenizer_json_encoder(const tokenizer_json_t *t)
{
    hymt_error_t       err;
    hymt_encoder_t    *enc;
    hymt_tokenizer_t  *tok;

    if (tokenizer_json_load(t, &tok, &err) != HYMT_OK
        || hymt_encoder_create(tok, &enc, &err) != HYMT_OK)
    {
        fixture_die("tokenizer.json does not load", err.text);
        return NULL;
    }

    return enc;
}


static inline void
tokenizer_json_free(hymt_encoder_t *enc)
{
    hymt_tokenizer_t  *tok;

    tok = (hymt_tokenizer_t *) enc->tok;

    hymt_encoder_free(enc);
    hymt_tokenizer_free(tok);
}


/* ids as "1 2 3" */
static inline const char *
ids_show(const uint32_t *ids, size_t n, char *buf, size_t size)
{
    size_t  i, len;

    buf[0] = '\0';

    for (i = 0, len = 0; i < n && len + 12 < size; i++) {
        len += (size_t) sprintf(buf + len, "%s%u", i == 0 ? "" : " ", ids[i]);
    }

    return buf;
}


#endif /* HYMT_TOKENIZER_JSON_H */
