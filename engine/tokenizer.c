/*
 * tokenizer.c - questions to a loaded tokenizer.
 */

#include "tokenizer_private.h"

#include <stdlib.h>
#include <string.h>


void
hymt_tokenizer_free(hymt_tokenizer_t *tok)
{
    uint32_t  i;

    if (tok == NULL) {
        return;
    }

    for (i = 0; i < tok->n_stages; i++) {
        pcre2_code_free(tok->stages[i].re);
    }

    free(tok->tokens);
    free(tok->bytes);
    free(tok->merges);
    free(tok->merged);
    free(tok->words);
    free(tok);
}


uint32_t
hymt_tokenizer_size(const hymt_tokenizer_t *tok)
{
    return tok->size;
}


hymt_status_t
hymt_tokenizer_added(const hymt_tokenizer_t *tok, const char *text,
    uint32_t *id)
{
    size_t               len;
    uint32_t             i;
    const hymt_token_t  *t;

    len = strlen(text);

    /* asked a few times at start: not worth a table */

    for (i = 0; i < tok->size; i++) {
        t = &tok->tokens[i];

        if (t->added && t->len == len
            && memcmp(tok->bytes + t->offset, text, len) == 0)
        {
            *id = i;
            return HYMT_OK;
        }
    }

    return HYMT_DECLINED;
}


bool
hymt_tokenizer_special(const hymt_tokenizer_t *tok, uint32_t id)
{
    return id < tok->size && tok->tokens[id].special;
}


bool
hymt_tokenizer_bytes(const hymt_tokenizer_t *tok, uint32_t id,
    const char **bytes, uint32_t *len)
{
    if (id >= tok->size || !tok->tokens[id].present) {
        return false;
    }

    *bytes = tok->bytes + tok->tokens[id].offset;
    *len = tok->tokens[id].len;

    return true;
}
