/*
 * encoder.c - text to ids: the stages in order, and their scratch memory.
 */

#include "tokenizer_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


#define HYMT_JIT_STACK_MIN   (32 * 1024)
#define HYMT_JIT_STACK_MAX   (1024 * 1024)

/*
 * The longest honest match is a run of spaces as long as the text, walked a
 * few times; a pattern that explodes is stopped in well under a second.
 */
#define HYMT_MATCH_LIMIT     (4 * (uint32_t) HYMT_MAX_TEXT)
#define HYMT_DEPTH_LIMIT     100000
#define HYMT_HEAP_LIMIT_KIB  (64 * 1024)


hymt_status_t
hymt_encoder_create(const hymt_tokenizer_t *tok, hymt_encoder_t **encoder,
    hymt_error_t *err)
{
    hymt_encoder_t  *enc;

    *encoder = NULL;

    enc = calloc(1, sizeof(hymt_encoder_t));
    if (enc == NULL) {
        return hymt_fail(err, "no memory for an encoder");
    }

    enc->tok = tok;
    enc->words = calloc(HYMT_WORD_SLOTS, sizeof(hymt_word_t));
    enc->match = pcre2_match_data_create(1, NULL);
    enc->match_context = pcre2_match_context_create(NULL);

    if (enc->words == NULL || enc->match == NULL
        || enc->match_context == NULL)
    {
        hymt_encoder_free(enc);
        return hymt_fail(err, "no memory for an encoder");
    }

    pcre2_set_match_limit(enc->match_context, HYMT_MATCH_LIMIT);
    pcre2_set_depth_limit(enc->match_context, HYMT_DEPTH_LIMIT);
    pcre2_set_heap_limit(enc->match_context, HYMT_HEAP_LIMIT_KIB);

    /* NULL, where there is no JIT, leaves the machine stack: not used then */

    enc->jit_stack = pcre2_jit_stack_create(HYMT_JIT_STACK_MIN,
                                            HYMT_JIT_STACK_MAX, NULL);
    pcre2_jit_stack_assign(enc->match_context, NULL, enc->jit_stack);

    *encoder = enc;

    return HYMT_OK;
}


void
hymt_encoder_free(hymt_encoder_t *enc)
{
    if (enc == NULL) {
        return;
    }

    pcre2_jit_stack_free(enc->jit_stack);
    pcre2_match_context_free(enc->match_context);
    pcre2_match_data_free(enc->match);

    free(enc->points.data);
    free(enc->normal.data);
    free(enc->prefixed.data);
    free(enc->pieces[0].data);
    free(enc->pieces[1].data);
    free(enc->symbols.data);
    free(enc->heap.data);
    free(enc->text.data);
    free(enc->words);
    free(enc);
}


hymt_status_t
hymt_encode(hymt_encoder_t *enc, const char *text, size_t len, uint32_t *ids,
    size_t cap, size_t *n, hymt_error_t *err)
{
    size_t               i, bad, added, n_pieces;
    hymt_status_t        rc;
    const hymt_piece_t  *pieces;

    *n = 0;

    if (len > HYMT_MAX_TEXT) {
        (void) hymt_fail(err, "the text has %zu bytes, the tokenizer takes at"
                         " most %zu at a time", len, HYMT_MAX_TEXT);
        return HYMT_TOO_LONG;
    }

    if (!hymt_utf8_check(text, len, &bad)) {
        return hymt_fail(err, "invalid UTF-8 at byte %zu of the text", bad);
    }

    if (hymt_normalize(enc, &text, &len, err) != HYMT_OK
        || hymt_pretokenize(enc, &text, len, &pieces, &n_pieces, err)
           != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    for (i = 0; i < n_pieces; i++) {

        rc = hymt_bpe_word(enc,
                           (const unsigned char *) text + pieces[i].begin,
                           pieces[i].end - pieces[i].begin, ids + *n,
                           cap - *n, &added);

        if (rc == HYMT_TOO_LONG) {
            (void) hymt_fail(err, "the text needs more than %zu tokens, which"
                             " byte %" PRIu32 " of %zu reaches", cap,
                             pieces[i].begin, len);
            return HYMT_TOO_LONG;
        }

        if (rc != HYMT_OK) {
            return hymt_fail(err, "no memory to encode %zu bytes", len);
        }

        *n += added;
    }

    return HYMT_OK;
}


bool
hymt_scratch_reserve(hymt_scratch_t *s, size_t size)
{
    void    *data;
    size_t   grown;

    if (size <= s->size) {
        return true;
    }

    grown = hymt_max(size, 4096);

    if (s->size <= SIZE_MAX / 2 && grown < 2 * s->size) {
        grown = 2 * s->size;
    }

    data = realloc(s->data, grown);
    if (data == NULL) {
        return false;
    }

    s->data = data;
    s->size = grown;

    return true;
}


char *
hymt_encoder_text(hymt_encoder_t *enc, size_t size)
{
    return hymt_scratch_reserve(&enc->text, size) ? enc->text.data : NULL;
}
