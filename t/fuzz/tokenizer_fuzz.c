/*
 * tokenizer_fuzz.c - libFuzzer on texts, and on tokenizer.json.
 *
 *     CC=clang make BUILD=build-fuzz fuzz
 *     build-fuzz/bin/tokenizer_fuzz -max_total_time=300 \
 *         -dict=t/fuzz/tokenizer.dict CORPUS
 *
 * The first byte chooses.  Odd: the rest is a tokenizer.json; one that loads
 * must encode and decode.  Even: the rest is a text for a tokenizer with the
 * pre-tokenizers, added tokens and merges of a real one; UTF-8 must encode
 * without added tokens and decode to itself, anything else must be refused.
 */

#include "tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


#define FUZZ_MAX_IDS  65536


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static char               dir[64];
static hymt_encoder_t    *encoder;
static hymt_tokenizer_t  *tokenizer;
static uint32_t           ids[FUZZ_MAX_IDS];


static const char  head[] =
    "{\"added_tokens\": [{\"id\": 300, \"content\": \"<|extra_0|>\","
    " \"special\": true}, {\"id\": 260, \"content\": \"the\"}],"
    " \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": ["
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\p{N}{1,3}\"},"
    " \"behavior\": \"Isolated\", \"invert\": false}, {\"type\": \"Split\","
    " \"pattern\": {\"Regex\": \"[^\\r\\n\\\\p{L}\\\\p{P}\\\\p{S}]?"
    "[\\\\p{L}\\\\p{M}]+| ?[\\\\p{P}\\\\p{S}]+[\\r\\n]*|\\\\s*[\\r\\n]+"
    "|\\\\s+(?!\\\\S)|\\\\s+\"}, \"behavior\": \"Isolated\", \"invert\":"
    " false}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false,"
    " \"use_regex\": false}]}, \"model\": {\"type\": \"BPE\", \"merges\": ["
    "\"t h\", \"a b\", \"a a\", \"th e\", \"aa aa\", \"ab ab\"],"
    " \"vocab\": {\"th\": 256, \"ab\": 257, \"aa\": 258, \"aaaa\": 259,"
    " \"the\": 260, \"abab\": 261";


static void
remove_dir(void)
{
    char  path[128];

    snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
    unlink(path);
    rmdir(dir);
}


static FILE *
create(void)
{
    char  path[128];
    FILE  *f;

    if (dir[0] == '\0') {
        strcpy(dir, "/tmp/hymt-fuzz-XXXXXX");

        if (mkdtemp(dir) == NULL) {
            abort();
        }

        atexit(remove_dir);
    }

    snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
    f = fopen(path, "w");

    if (f == NULL) {
        abort();
    }

    return f;
}


/* a byte as GPT-2 writes it */
static void
put_byte(FILE *f, int b)
{
    int  i, c;

    c = b;

    if (b <= 32 || (b >= 127 && b <= 160) || b == 173) {
        for (i = 0, c = 256; i < b; i++) {
            c += i <= 32 || (i >= 127 && i <= 160) || i == 173;
        }
    }

    if (c < 0x80) {
        fprintf(f, c == '"' || c == '\\' ? "\\%c" : "%c", c);

    } else {
        fprintf(f, "%c%c", 0xc0 | c >> 6, 0x80 | (c & 0x3f));
    }
}


static void
load_own(void)
{
    int           i;
    FILE         *f;
    hymt_error_t  err;

    f = create();
    fputs(head, f);

    for (i = 0; i < 256; i++) {
        fprintf(f, ", \"");
        put_byte(f, i);
        fprintf(f, "\": %d", i);
    }

    fprintf(f, "}}}");
    fclose(f);

    if (hymt_tokenizer_load(dir, &tokenizer, &err) != HYMT_OK
        || hymt_encoder_create(tokenizer, &encoder, &err) != HYMT_OK)
    {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}


/* decodes what was encoded; returns the bytes, the end's included */
static size_t
decode(const hymt_tokenizer_t *tok, size_t n, char *out, size_t cap)
{
    size_t        i, len, used;
    hymt_detok_t  d;

    hymt_detok_init(&d);
    used = 0;

    for (i = 0; i < n; i++) {
        if (hymt_detok_push(tok, &d, ids[i], out + used, cap - used, &len)
            != HYMT_OK)
        {
            abort();
        }

        if (!hymt_utf8_check(out + used, len, NULL)) {
            abort();
        }

        used += len;
    }

    if (hymt_detok_end(&d, out + used, cap - used, &len) != HYMT_OK) {
        abort();
    }

    return used + len;
}


static void
fuzz_text(const char *text, size_t len)
{
    char           *out;
    size_t          i, n;
    hymt_error_t    err;
    hymt_status_t   rc;

    if (tokenizer == NULL) {
        load_own();
    }

    rc = hymt_encode(encoder, text, len, ids, FUZZ_MAX_IDS, &n, &err);

    if (!hymt_utf8_check(text, len, NULL)) {
        if (rc != HYMT_ERROR) {
            abort();
        }

        return;
    }

    if (rc != HYMT_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }

    for (i = 0; i < n; i++) {
        if (ids[i] == 300 || ids[i] == 260) {
            abort();
        }
    }

    out = malloc(3 * len + 64);

    if (out == NULL) {
        return;
    }

    if (decode(tokenizer, n, out, 3 * len + 64) != len
        || memcmp(out, text, len) != 0)
    {
        abort();
    }

    free(out);
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


static void
fuzz_json(const char *json, size_t len)
{
    size_t             n;
    FILE              *f;
    hymt_error_t       err;
    hymt_encoder_t    *enc;
    hymt_tokenizer_t  *tok;

    static const char  text[] = "Hello  <|extra_0|> 12\n\xe4\xbd\xa0 e\xcc\x81";

    f = create();
    fwrite(json, 1, len, f);
    fclose(f);

    err.text[0] = '\0';

    if (hymt_tokenizer_load(dir, &tok, &err) != HYMT_OK) {
        check_message(&err);
        return;
    }

    if (hymt_encoder_create(tok, &enc, &err) != HYMT_OK) {
        abort();
    }

    err.text[0] = '\0';

    if (hymt_encode(enc, text, sizeof(text) - 1, ids, FUZZ_MAX_IDS, &n, &err)
        != HYMT_OK)
    {
        check_message(&err);
    }

    hymt_encoder_free(enc);
    hymt_tokenizer_free(tok);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }

    if (data[0] & 1) {
        fuzz_json((const char *) data + 1, size - 1);

    } else {
        fuzz_text((const char *) data + 1, size - 1);
    }

    return 0;
}
