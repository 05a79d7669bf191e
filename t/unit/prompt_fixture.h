/*
 * prompt_fixture.h - prompters whose prompts can be read, for the tests of
 * prompt.h.
 */

#ifndef HYMT_PROMPT_FIXTURE_H
#define HYMT_PROMPT_FIXTURE_H

#include "job_parts.h"
#include "tap.h"
#include "tokenizer_json.h"


#define MAX_IDS  4096

#define CONTROL_7B                                                            \
    "[{\"id\": 300, \"content\": \"<|startoftext|>\", \"special\": true},"    \
    " {\"id\": 301, \"content\": \"<|extra_0|>\", \"special\": true},"        \
    " {\"id\": 302, \"content\": \"<|eos|>\", \"special\": true},"            \
    " {\"id\": 303, \"content\": \"<|endoftext|>\", \"special\": true},"      \
    " {\"id\": 304, \"content\": \"<|extra_4|>\", \"special\": true}]"


typedef struct {
    hymt_encoder_t        *enc;
    hymt_config_t          config;
    hymt_prompt_params_t   params;
    hymt_prompter_t       *prompter;
} maker_t;


static uint32_t  ids[MAX_IDS];


static inline int
lang(const char *code)
{
    return code[0] == '\0' ? HYMT_LANG_NONE
                           : hymt_lang_find(code, strlen(code));
}


static inline hymt_prompt_request_t
request(const char *src, const char *tgt, const char *text, size_t len)
{
    hymt_prompt_request_t  r;

    memset(&r, 0, sizeof(r));
    r.src = lang(src);
    r.tgt = lang(tgt);
    r.text = text;
    r.len = len;

    return r;
}


/* A prompter over bytes with the 7B family's control tokens. */
static inline void
make(maker_t *m, hymt_family_t family, const char *override)
{
    hymt_error_t      err;
    tokenizer_json_t  json;

    memset(m, 0, sizeof(*m));
    memset(&json, 0, sizeof(json));
    json.added = CONTROL_7B;

    m->enc = tokenizer_json_encoder(&json);
    m->config.vocab = 305;
    m->params.family = family;
    m->params.languages = HYMT_LANGS_ALL;
    m->params.override = override;

    if (hymt_prompter_create(m->enc->tok, &m->config, &m->params,
                             &m->prompter, &err)
        != HYMT_OK)
    {
        fixture_die("no prompter", err.text);
    }
}


static inline void
unmake(maker_t *m)
{
    hymt_prompter_free(m->prompter);
    tokenizer_json_free(m->enc);
}


/* The prompt as text, control tokens as "[id]"; bytes are their own ids. */
static inline const char *
show(maker_t *m, const hymt_prompt_request_t *r, char *out)
{
    size_t        i, n, n_text, used;
    hymt_error_t  err;

    if (hymt_prompt_build(m->prompter, m->enc, r, ids, MAX_IDS, &n, &n_text,
                          &err)
        != HYMT_OK)
    {
        return strcpy(out, err.text);
    }

    used = 0;

    for (i = 0; i < n; i++) {
        used += (size_t) sprintf(out + used, ids[i] < 256 ? "%c" : "[%u]",
                                 ids[i]);
    }

    return out;
}


#endif /* HYMT_PROMPT_FIXTURE_H */
