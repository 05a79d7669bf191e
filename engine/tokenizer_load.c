/*
 * tokenizer_load.c - reads a tokenizer.json into the tables of a tokenizer.
 *
 * Everything is checked here, so that encoding has nothing left to doubt:
 * every byte of UTF-8 has a token, every merge has its three tokens, ids are
 * unique and in range, and no merge makes an added token.
 */

#include "file.h"
#include "tokenizer_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


/* the longest token: far above any real one */
#define HYMT_MAX_TOKEN_BYTES  4096


typedef struct {
    const char        *path;
    hymt_tokenizer_t  *tok;
    json_t            *vocab;
    json_t            *merges;
    json_t            *added;
    char               pair[2 * HYMT_MAX_TOKEN_BYTES + 1];
    hymt_error_t      *err;
} hymt_loader_t;


static hymt_status_t hymt_load_root(hymt_loader_t *l, const json_t *root);
static hymt_status_t hymt_load_model(hymt_loader_t *l, const json_t *model);
static hymt_status_t hymt_load_decoder(hymt_loader_t *l,
    const json_t *decoder);
static hymt_status_t hymt_load_size(hymt_loader_t *l);
static hymt_status_t hymt_load_id(hymt_loader_t *l, const char *what,
    const char *text, const json_t *value, uint32_t *id);
static hymt_status_t hymt_load_vocab(hymt_loader_t *l, size_t *used);
static hymt_status_t hymt_load_added(hymt_loader_t *l, size_t *used);
static void hymt_load_token(hymt_tokenizer_t *tok, uint32_t id, size_t len,
    size_t *used);
static size_t hymt_bytes_of(const char *text, size_t len, char *out);
static int hymt_byte_of(uint32_t point);
static uint32_t hymt_point_of(int byte);
static hymt_status_t hymt_load_bytes(hymt_loader_t *l);
static hymt_status_t hymt_load_merges(hymt_loader_t *l);
static hymt_status_t hymt_load_merge(hymt_loader_t *l, size_t rank);
static hymt_status_t hymt_merge_texts(hymt_loader_t *l, size_t rank,
    const char **left, size_t *left_len, const char **right,
    size_t *right_len);
static hymt_status_t hymt_merge_token(hymt_loader_t *l, size_t rank,
    uint32_t *id);
static void hymt_merge_put(hymt_tokenizer_t *tok, uint32_t left,
    uint32_t right, uint32_t rank, uint32_t id);
static hymt_status_t hymt_load_words(hymt_loader_t *l);
static uint32_t hymt_table_size(size_t n);
static const char *hymt_show_text(const char *text, char buf[HYMT_JSON_SHOW]);


hymt_status_t
hymt_tokenizer_load(const char *dir, hymt_tokenizer_t **tokenizer,
    hymt_error_t *err)
{
    char           *path;
    json_t         *root;
    hymt_status_t   rc;
    hymt_loader_t   l;

    *tokenizer = NULL;

    path = hymt_file_path(dir, HYMT_TOKENIZER_FILE, err);
    if (path == NULL) {
        return HYMT_ERROR;
    }

    if (hymt_json_read(path, HYMT_TOKENIZER_LIMIT, &root, err) != HYMT_OK) {
        free(path);
        return HYMT_ERROR;
    }

    memset(&l, 0, sizeof(l));
    l.path = path;
    l.err = err;
    l.tok = calloc(1, sizeof(hymt_tokenizer_t));

    if (l.tok == NULL) {
        rc = hymt_fail(err, "%s: no memory", path);

    } else {
        rc = hymt_load_root(&l, root);
    }

    json_decref(root);
    free(path);

    if (rc != HYMT_OK) {
        hymt_tokenizer_free(l.tok);
        return rc;
    }

    *tokenizer = l.tok;

    return HYMT_OK;
}


static hymt_status_t
hymt_load_root(hymt_loader_t *l, const json_t *root)
{
    size_t  used;

    used = 0;

    l->added = json_object_get(root, "added_tokens");

    if (l->added != NULL && !json_is_null(l->added)
        && !json_is_array(l->added))
    {
        return hymt_fail(l->err, "%s: added_tokens: an array is needed",
                         l->path);
    }

    if (hymt_load_model(l, json_object_get(root, "model")) != HYMT_OK
        || hymt_load_decoder(l, json_object_get(root, "decoder")) != HYMT_OK
        || hymt_normalizer_load(l->tok, json_object_get(root, "normalizer"),
                                l->path, l->err)
           != HYMT_OK
        || hymt_pretokenizer_load(l->tok,
                                  json_object_get(root, "pre_tokenizer"),
                                  l->path, l->err)
           != HYMT_OK
        || hymt_load_size(l) != HYMT_OK
        || hymt_load_added(l, &used) != HYMT_OK
        || hymt_load_vocab(l, &used) != HYMT_OK
        || hymt_load_bytes(l) != HYMT_OK
        || hymt_load_merges(l) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    if (json_is_true(json_object_get(json_object_get(root, "model"),
                                     "ignore_merges")))
    {
        return hymt_load_words(l);
    }

    return HYMT_OK;
}


/* what model may say besides vocab and merges: only what changes nothing */
static hymt_status_t
hymt_load_model(hymt_loader_t *l, const json_t *model)
{
    char           show[HYMT_JSON_SHOW];
    size_t         i;
    const char    *type;
    const json_t  *value;

    static const char  *const none[] = {
        "dropout", "unk_token", "continuing_subword_prefix",
        "end_of_word_suffix", "byte_fallback"
    };

    if (!json_is_object(model)) {
        return hymt_fail(l->err, "%s: model: an object is needed, not %s",
                         l->path, hymt_json_show(model, show));
    }

    type = json_string_value(json_object_get(model, "type"));

    if (type == NULL || strcmp(type, "BPE") != 0) {
        return hymt_fail(l->err, "%s: model: type %s is not supported, only"
                         " \"BPE\" is", l->path,
                         hymt_json_show(json_object_get(model, "type"),
                                        show));
    }

    for (i = 0; i < hymt_nelts(none); i++) {
        value = json_object_get(model, none[i]);

        if (value == NULL || json_is_null(value) || json_is_false(value)
            || (json_is_string(value) && json_string_length(value) == 0)
            || (json_is_number(value) && json_number_value(value) == 0))
        {
            continue;
        }

        return hymt_fail(l->err, "%s: model: %s %s is not supported, only null"
                         " is", l->path, none[i],
                         hymt_json_show(value, show));
    }

    value = json_object_get(model, "ignore_merges");

    if (value != NULL && !json_is_null(value) && !json_is_boolean(value)) {
        return hymt_fail(l->err, "%s: model: ignore_merges %s is not true or"
                         " false", l->path, hymt_json_show(value, show));
    }

    l->vocab = json_object_get(model, "vocab");
    l->merges = json_object_get(model, "merges");

    if (!json_is_object(l->vocab) || !json_is_array(l->merges)) {
        return hymt_fail(l->err, "%s: model: vocab, an object, and merges, an"
                         " array, are needed", l->path);
    }

    if (json_object_size(l->vocab) > HYMT_MAX_VOCAB
        || json_array_size(l->merges) > HYMT_MAX_VOCAB
        || json_array_size(l->added) > HYMT_MAX_VOCAB)
    {
        return hymt_fail(l->err, "%s: more than %u tokens or merges", l->path,
                         HYMT_MAX_VOCAB);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_load_decoder(hymt_loader_t *l, const json_t *decoder)
{
    char         show[HYMT_JSON_SHOW];
    const char  *type;

    if (decoder == NULL || json_is_null(decoder)) {
        return HYMT_OK;
    }

    type = json_string_value(json_object_get(decoder, "type"));

    if (type == NULL || strcmp(type, "ByteLevel") != 0) {
        return hymt_fail(l->err, "%s: decoder: type %s is not supported, only"
                         " \"ByteLevel\" is", l->path,
                         hymt_json_show(json_object_get(decoder, "type"),
                                        show));
    }

    return HYMT_OK;
}


/* Counts ids and bytes, and makes room for both. */
static hymt_status_t
hymt_load_size(hymt_loader_t *l)
{
    size_t             i, bytes;
    uint32_t           id;
    const char        *key, *text;
    json_t            *value;
    hymt_tokenizer_t  *tok;

    tok = l->tok;
    bytes = 1;

    json_object_foreach(l->vocab, key, value) {
        if (hymt_load_id(l, "model: vocab", key, value, &id) != HYMT_OK) {
            return HYMT_ERROR;
        }

        tok->size = hymt_max(tok->size, id + 1);
        bytes += strlen(key);
    }

    json_array_foreach(l->added, i, value) {
        text = json_string_value(json_object_get(value, "content"));

        if (text == NULL || text[0] == '\0') {
            return hymt_fail(l->err, "%s: added_tokens: number %zu has no"
                             " content, a string that is not empty", l->path,
                             i);
        }

        if (hymt_load_id(l, "added_tokens", text, json_object_get(value, "id"),
                         &id)
            != HYMT_OK)
        {
            return HYMT_ERROR;
        }

        tok->size = hymt_max(tok->size, id + 1);
        bytes += strlen(text);
    }

    /* offsets fit in 32 bits because the file does not exceed 64 MiB */

    tok->tokens = calloc(hymt_max(tok->size, 1), sizeof(hymt_token_t));
    tok->bytes = malloc(bytes);

    if (tok->tokens == NULL || tok->bytes == NULL) {
        return hymt_fail(l->err, "%s: no memory for %" PRIu32 " tokens",
                         l->path, tok->size);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_load_id(hymt_loader_t *l, const char *what, const char *text,
    const json_t *value, uint32_t *id)
{
    char         show[HYMT_JSON_SHOW], show_text[HYMT_JSON_SHOW];
    json_int_t   n;

    n = json_integer_value(value);

    if (!json_is_integer(value) || n < 0 || n >= HYMT_MAX_VOCAB) {
        return hymt_fail(l->err, "%s: %s: id %s of %s is not an integer of 0"
                         " to %u", l->path, what, hymt_json_show(value, show),
                         hymt_show_text(text, show_text), HYMT_MAX_VOCAB - 1);
    }

    if (strlen(text) > HYMT_MAX_TOKEN_BYTES) {
        return hymt_fail(l->err, "%s: %s: a token of %zu bytes, %d are"
                         " accepted: %s", l->path, what, strlen(text),
                         HYMT_MAX_TOKEN_BYTES,
                         hymt_show_text(text, show_text));
    }

    *id = (uint32_t) n;

    return HYMT_OK;
}


static hymt_status_t
hymt_load_added(hymt_loader_t *l, size_t *used)
{
    char               show[HYMT_JSON_SHOW];
    size_t             i;
    uint32_t           id;
    const char        *text;
    json_t            *value, *special, *in_vocab;
    hymt_tokenizer_t  *tok;

    tok = l->tok;

    json_array_foreach(l->added, i, value) {
        text = json_string_value(json_object_get(value, "content"));
        id = (uint32_t) json_integer_value(json_object_get(value, "id"));
        special = json_object_get(value, "special");

        if (special != NULL && !json_is_boolean(special)) {
            return hymt_fail(l->err, "%s: added_tokens: special of %s is not"
                             " true or false", l->path,
                             hymt_show_text(text, show));
        }

        in_vocab = json_object_get(l->vocab, text);

        if (tok->tokens[id].present
            || (in_vocab != NULL
                && json_integer_value(in_vocab) != (json_int_t) id))
        {
            return hymt_fail(l->err, "%s: added_tokens: id %" PRIu32 " of %s"
                             " is another token's, or the token has another"
                             " id in vocab", l->path, id,
                             hymt_show_text(text, show));
        }

        memcpy(tok->bytes + *used, text, strlen(text));
        hymt_load_token(tok, id, strlen(text), used);
        tok->tokens[id].added = true;
        tok->tokens[id].special = json_is_true(special);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_load_vocab(hymt_loader_t *l, size_t *used)
{
    char               show[HYMT_JSON_SHOW];
    size_t             len;
    uint32_t           id;
    const char        *key;
    json_t            *value;
    hymt_token_t      *t;
    hymt_tokenizer_t  *tok;

    tok = l->tok;

    json_object_foreach(l->vocab, key, value) {
        id = (uint32_t) json_integer_value(value);
        t = &tok->tokens[id];
        len = strlen(key);

        if (t->present) {
            if (t->added && t->len == len
                && memcmp(tok->bytes + t->offset, key, len) == 0)
            {
                continue;
            }

            return hymt_fail(l->err, "%s: model: vocab: id %" PRIu32 " of %s"
                             " is another token's", l->path, id,
                             hymt_show_text(key, show));
        }

        len = hymt_bytes_of(key, len, tok->bytes + *used);
        hymt_load_token(tok, id, len, used);
    }

    return HYMT_OK;
}


/* the token's bytes are in place, at tok->bytes + *used */
static void
hymt_load_token(hymt_tokenizer_t *tok, uint32_t id, size_t len, size_t *used)
{
    hymt_token_t  *t;

    t = &tok->tokens[id];
    t->offset = (uint32_t) *used;
    t->len = (uint32_t) len;
    t->present = true;
    *used += len;
}


/*
 * A vocabulary's text to the bytes it stands for; text with a character that
 * stands for no byte is taken as it is, as Hugging Face's decoder does.
 */
static size_t
hymt_bytes_of(const char *text, size_t len, char *out)
{
    int     byte;
    size_t  i, n;

    n = 0;

    for (i = 0; i < len; i++) {

        /* all 256 characters lie below U+0144 */

        if ((unsigned char) text[i] < 0x80) {
            byte = hymt_byte_of((unsigned char) text[i]);

        } else if (((unsigned char) text[i] & 0xe0) == 0xc0) {
            byte = hymt_byte_of(((uint32_t) text[i] & 0x1f) << 6
                                | ((uint32_t) text[i + 1] & 0x3f));
            i++;

        } else {
            byte = -1;
        }

        if (byte < 0) {
            memcpy(out, text, len);
            return len;
        }

        out[n++] = (char) byte;
    }

    return n;
}


/* GPT-2's alphabet: printable Latin-1 stands for itself, the rest follows */
static int
hymt_byte_of(uint32_t point)
{
    if ((point >= 0x21 && point <= 0x7e) || (point >= 0xa1 && point <= 0xac)
        || (point >= 0xae && point <= 0xff))
    {
        return (int) point;
    }

    if (point >= 0x100 && point <= 0x120) {
        return (int) point - 0x100;
    }

    if (point >= 0x121 && point <= 0x142) {
        return (int) point - 0x121 + 0x7f;
    }

    return point == 0x143 ? 0xad : -1;
}


static uint32_t
hymt_point_of(int byte)
{
    if (byte <= 0x20) {
        return 0x100 + (uint32_t) byte;
    }

    if (byte >= 0x7f && byte <= 0xa0) {
        return 0x121 + (uint32_t) byte - 0x7f;
    }

    return byte == 0xad ? 0x143 : (uint32_t) byte;
}


static hymt_status_t
hymt_load_bytes(hymt_loader_t *l)
{
    int                byte;
    char               text[3], show[HYMT_JSON_SHOW];
    uint32_t           point;
    const json_t      *value;
    hymt_tokenizer_t  *tok;

    tok = l->tok;

    for (byte = 0; byte < 256; byte++) {
        tok->byte_id[byte] = HYMT_NO_TOKEN;

        point = hymt_point_of(byte);
        text[0] = (char) (point < 0x80 ? point : (0xc0 | point >> 6));
        text[1] = (char) (point < 0x80 ? 0 : (0x80 | (point & 0x3f)));
        text[2] = '\0';

        value = json_object_get(l->vocab, text);

        if (value != NULL) {
            tok->byte_id[byte] = (uint32_t) json_integer_value(value);
        }

        /* bytes that no UTF-8 holds may be missing */

        if (byte == 0xc0 || byte == 0xc1 || byte > 0xf4) {
            continue;
        }

        if (value == NULL) {
            return hymt_fail(l->err, "%s: model: vocab has no token %s for"
                             " byte 0x%02x: only byte-level BPE is supported",
                             l->path, hymt_show_text(text, show), byte);
        }

        if (tok->tokens[tok->byte_id[byte]].added) {
            return hymt_fail(l->err, "%s: added_tokens: %s is the token of"
                             " byte 0x%02x, which plain text needs", l->path,
                             hymt_show_text(text, show), byte);
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_load_merges(hymt_loader_t *l)
{
    size_t             n, i;
    uint32_t           size;
    hymt_tokenizer_t  *tok;

    tok = l->tok;
    n = json_array_size(l->merges);
    size = hymt_table_size(n);

    tok->merge_mask = size - 1;
    tok->n_merges = (uint32_t) n;
    tok->merges = malloc(size * sizeof(hymt_merge_t));
    tok->merged = calloc(n + 1, sizeof(uint32_t));

    if (tok->merges == NULL || tok->merged == NULL) {
        return hymt_fail(l->err, "%s: no memory for %zu merges", l->path, n);
    }

    for (i = 0; i < size; i++) {
        tok->merges[i].pair = UINT64_MAX;
        tok->merges[i].rank = HYMT_NO_RANK;
    }

    for (i = 0; i < n; i++) {
        if (hymt_load_merge(l, i) != HYMT_OK) {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_load_merge(hymt_loader_t *l, size_t rank)
{
    size_t       left_len, right_len;
    uint32_t     left, right, id;
    const char  *a, *b;

    b = NULL;
    left_len = 0;
    right_len = 0;

    if (hymt_merge_texts(l, rank, &a, &left_len, &b, &right_len) != HYMT_OK) {
        return HYMT_ERROR;
    }

    memcpy(l->pair, a, left_len);
    l->pair[left_len] = '\0';

    if (hymt_merge_token(l, rank, &left) != HYMT_OK) {
        return HYMT_ERROR;
    }

    memcpy(l->pair, b, right_len);
    l->pair[right_len] = '\0';

    if (hymt_merge_token(l, rank, &right) != HYMT_OK) {
        return HYMT_ERROR;
    }

    memcpy(l->pair, a, left_len);
    memcpy(l->pair + left_len, b, right_len);
    l->pair[left_len + right_len] = '\0';

    if (hymt_merge_token(l, rank, &id) != HYMT_OK) {
        return HYMT_ERROR;
    }

    /* plain text never becomes an added token */

    if (l->tok->tokens[id].added) {
        return HYMT_OK;
    }

    hymt_merge_put(l->tok, left, right, (uint32_t) rank, id);

    return HYMT_OK;
}


/* "left right" or ["left", "right"] */
static hymt_status_t
hymt_merge_texts(hymt_loader_t *l, size_t rank, const char **left,
    size_t *left_len, const char **right, size_t *right_len)
{
    char           show[HYMT_JSON_SHOW];
    const char    *space;
    const json_t  *merge;

    merge = json_array_get(l->merges, rank);

    if (json_is_string(merge)) {
        *left = json_string_value(merge);
        space = strchr(*left, ' ');
        *right = space == NULL ? NULL : space + 1;

    } else {
        *left = json_string_value(json_array_get(merge, 0));
        *right = json_string_value(json_array_get(merge, 1));
        space = *left == NULL ? NULL : *left + strlen(*left);
    }

    if (space == NULL || *right == NULL || strchr(*right, ' ') != NULL
        || json_array_size(merge) > 2)
    {
        return hymt_fail(l->err, "%s: model: merges: number %zu, %s, is not"
                         " \"left right\" or [\"left\", \"right\"]", l->path,
                         rank, hymt_json_show(merge, show));
    }

    *left_len = (size_t) (space - *left);
    *right_len = strlen(*right);

    if (*left_len > HYMT_MAX_TOKEN_BYTES || *right_len > HYMT_MAX_TOKEN_BYTES)
    {
        return hymt_fail(l->err, "%s: model: merges: number %zu is longer than"
                         " any token", l->path, rank);
    }

    return HYMT_OK;
}


/* the id of the text in l->pair */
static hymt_status_t
hymt_merge_token(hymt_loader_t *l, size_t rank, uint32_t *id)
{
    char           show[HYMT_JSON_SHOW];
    const json_t  *value;

    value = json_object_get(l->vocab, l->pair);

    if (value == NULL) {
        return hymt_fail(l->err, "%s: model: merges: number %zu needs token"
                         " %s, which vocab does not have", l->path, rank,
                         hymt_show_text(l->pair, show));
    }

    *id = (uint32_t) json_integer_value(value);

    return HYMT_OK;
}


/* of equal pairs the last counts, as in Hugging Face */
static void
hymt_merge_put(hymt_tokenizer_t *tok, uint32_t left, uint32_t right,
    uint32_t rank, uint32_t id)
{
    uint32_t  i;
    uint64_t  pair;

    pair = (uint64_t) left << 32 | right;
    i = (uint32_t) hymt_mix64(pair) & tok->merge_mask;

    while (tok->merges[i].rank != HYMT_NO_RANK && tok->merges[i].pair != pair)
    {
        i = (i + 1) & tok->merge_mask;
    }

    tok->merges[i].pair = pair;
    tok->merges[i].rank = rank;
    tok->merged[rank] = id;
}


/* ignore_merges: tokens by their bytes, none of them added */
static hymt_status_t
hymt_load_words(hymt_loader_t *l)
{
    uint32_t           i, id, size;
    hymt_token_t      *t;
    hymt_tokenizer_t  *tok;

    tok = l->tok;
    size = hymt_table_size(tok->size);

    tok->word_mask = size - 1;
    tok->words = malloc(size * sizeof(uint32_t));

    if (tok->words == NULL) {
        return hymt_fail(l->err, "%s: no memory for %" PRIu32 " tokens",
                         l->path, tok->size);
    }

    for (i = 0; i < size; i++) {
        tok->words[i] = HYMT_NO_TOKEN;
    }

    for (id = 0; id < tok->size; id++) {
        t = &tok->tokens[id];

        if (!t->present || t->added) {
            continue;
        }

        i = hymt_hash_bytes(tok->bytes + t->offset, t->len) & tok->word_mask;

        while (tok->words[i] != HYMT_NO_TOKEN) {
            i = (i + 1) & tok->word_mask;
        }

        tok->words[i] = id;
    }

    return HYMT_OK;
}


/* a power of two at most half full, and never full */
static uint32_t
hymt_table_size(size_t n)
{
    uint32_t  size;

    for (size = 16; size < 2 * n; size *= 2) { /* void */ }

    return size;
}


/* Text of the file for a message: one line of printable ASCII. */
static const char *
hymt_show_text(const char *text, char buf[HYMT_JSON_SHOW])
{
    json_t  *string;

    string = json_string(text);
    hymt_json_show(string, buf);
    json_decref(string);

    return buf;
}
