/*
 * exact_text.h - texts whose prompt has exactly so many tokens.
 *
 * A prompt is a frame (template and instruction, the same for all texts) and
 * the text.  Texts are made of words that are one token each, drawn at random,
 * so that no two are alike and no cache helps.
 *
 * Thread: one at a time.
 */

#ifndef HYMT_BENCH_EXACT_TEXT_H
#define HYMT_BENCH_EXACT_TEXT_H

#include "prompt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


#define EXACT_SOURCE   "en"
#define EXACT_TARGET   "de"
#define EXACT_WORD     12          /* longest word, with its space */
#define EXACT_TOKENS   16384       /* longest prompt */


typedef struct {
    hymt_tokenizer_t  *tok;
    hymt_encoder_t    *enc;
    hymt_prompter_t   *prompter;
    hymt_config_t      config;
    int                src;
    int                tgt;

    uint32_t           frame;      /* tokens of a prompt besides its text's */
    uint32_t           n_words;
    uint32_t           n_first;    /* of those, fit for the beginning: first */
    char             (*word)[EXACT_WORD + 1];
    uint32_t          *ids;        /* [EXACT_TOKENS] */
} exact_text_t;


/* xorshift64*: state is never 0 */
static inline uint64_t
exact_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;

    return *state * 0x2545f4914f6cdd1dull;
}


static inline double
exact_uniform(uint64_t *state)
{
    return (double) (exact_random(state) >> 11) * 0x1p-53;
}


/* How many tokens the prompt of a text has; 0: none can be made. */
static inline size_t
exact_text_count(exact_text_t *e, const char *text, size_t len)
{
    size_t                  n, n_text;
    hymt_error_t            err;
    hymt_prompt_request_t   r;

    memset(&r, 0, sizeof(r));
    r.src = e->src;
    r.tgt = e->tgt;
    r.text = text;
    r.len = len;

    if (hymt_prompt_build(e->prompter, e->enc, &r, e->ids, EXACT_TOKENS, &n,
                          &n_text, &err)
        != HYMT_OK)
    {
        return 0;
    }

    return n;
}


/*
 * A text for a prompt of `tokens` (at least frame + 1) into buf; its length,
 * or 0 where it does not fit.
 */
static inline size_t
exact_text_make(exact_text_t *e, uint64_t *state, uint32_t tokens, char *buf,
    size_t cap)
{
    size_t      len, n;
    uint32_t    i, words;
    const char *word;

    words = tokens > e->frame ? tokens - e->frame : 1;

    for (i = 0, len = 0; i < words; i++) {
        word = e->word[exact_random(state) % (i ? e->n_words : e->n_first)];
        word += i ? 0 : 1;
        n = strlen(word);

        if (len + n >= cap) {
            return 0;
        }

        memcpy(buf + len, word, n);
        len += n;
    }

    buf[len] = '\0';

    return len;
}


/* One token, with its space and, for *first, without. */
static inline bool
exact_text_is_word(exact_text_t *e, const char *word, bool *first)
{
    size_t  n, len;

    len = strlen(word);

    if (hymt_encode(e->enc, word, len, e->ids, EXACT_TOKENS, &n, NULL)
        != HYMT_OK || n != 1)
    {
        return false;
    }

    *first = hymt_encode(e->enc, word + 1, len - 1, e->ids, EXACT_TOKENS, &n,
                         NULL)
             == HYMT_OK && n == 1;

    return true;
}


static inline hymt_status_t
exact_text_words(exact_text_t *e, hymt_error_t *err)
{
    bool         first;
    char         swap[EXACT_WORD + 1];
    uint32_t     id, i, len, size;
    const char  *bytes;

    size = hymt_tokenizer_size(e->tok);
    e->word = calloc(size, sizeof(*e->word));
    e->ids = calloc(EXACT_TOKENS, sizeof(uint32_t));

    if (e->word == NULL || e->ids == NULL) {
        return hymt_fail(err, "no memory");
    }

    for (id = 0; id < size; id++) {

        if (!hymt_tokenizer_bytes(e->tok, id, &bytes, &len) || len < 4
            || len > EXACT_WORD || bytes[0] != ' ')
        {
            continue;
        }

        for (i = 1; i < len && bytes[i] >= 'a' && bytes[i] <= 'z'; i++) {
            /* void */
        }

        if (i < len) {
            continue;
        }

        memcpy(e->word[e->n_words], bytes, len);
        e->word[e->n_words][len] = '\0';

        if (!exact_text_is_word(e, e->word[e->n_words], &first)) {
            continue;
        }

        if (first) {
            memcpy(swap, e->word[e->n_first], sizeof(swap));
            memcpy(e->word[e->n_first], e->word[e->n_words], sizeof(swap));
            memcpy(e->word[e->n_words], swap, sizeof(swap));
            e->n_first++;
        }

        e->n_words++;
    }

    if (e->n_first == 0) {
        return hymt_fail(err, "the tokenizer has no words that are one token");
    }

    return HYMT_OK;
}


/* Loads tokenizer and prompts of a model directory, and tries some texts. */
static inline hymt_status_t
exact_text_open(exact_text_t *e, const char *dir, hymt_error_t *err)
{
    bool                   guessed;
    char                   text[8192];
    size_t                 len;
    uint32_t               i, tokens;
    uint64_t               state;
    hymt_prompt_params_t   pp;

    memset(e, 0, sizeof(*e));
    memset(&pp, 0, sizeof(pp));

    if (hymt_config_read(dir, &e->config, err) != HYMT_OK
        || hymt_tokenizer_load(dir, &e->tok, err) != HYMT_OK
        || hymt_encoder_create(e->tok, &e->enc, err) != HYMT_OK
        || hymt_prompt_detect(dir, &e->config, &pp, &guessed, err) != HYMT_OK
        || hymt_prompter_create(e->tok, &e->config, &pp, &e->prompter, err)
           != HYMT_OK
        || exact_text_words(e, err) != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    e->src = hymt_lang_find(EXACT_SOURCE, strlen(EXACT_SOURCE));
    e->tgt = hymt_lang_find(EXACT_TARGET, strlen(EXACT_TARGET));
    state = 1;

    len = exact_text_make(e, &state, 1, text, sizeof(text));
    e->frame = (uint32_t) exact_text_count(e, text, len) - 1;

    for (i = 0; i < 64; i++) {
        tokens = e->frame + 1 + i * 7;
        len = exact_text_make(e, &state, tokens, text, sizeof(text));

        if (len == 0 || exact_text_count(e, text, len) != tokens) {
            return hymt_fail(err, "%s: a text of %" PRIu32 " words has another"
                             " number of tokens", dir, 1 + i * 7);
        }
    }

    return HYMT_OK;
}


static inline void
exact_text_close(exact_text_t *e)
{
    hymt_prompter_free(e->prompter);
    hymt_encoder_free(e->enc);
    hymt_tokenizer_free(e->tok);
    free(e->word);
    free(e->ids);
}


#endif /* HYMT_BENCH_EXACT_TEXT_H */
