/*
 * prompt_phrases.c - an instruction cut at its places, and put together with
 * what a request gives for them.
 */

#include "prompt_private.h"
#include "tokenizer_private.h"

#include <string.h>


static hymt_phrase_t *hymt_phrases_add(hymt_phrases_t *phrases,
    hymt_phrase_kind_t kind);
static bool hymt_place(const char *s, bool own, hymt_phrase_kind_t *kind,
    size_t *len);
static bool hymt_phrase_size(const hymt_phrases_t *phrases,
    const hymt_phrase_t *phrase, const hymt_prompt_request_t *r,
    size_t text_len, uint64_t *size);
static const char *hymt_phrase_text(const hymt_phrase_t *phrase,
    const hymt_prompt_request_t *r, size_t text_len, size_t *len);
static char *hymt_phrase_terms(char *p, const char *term,
    const hymt_prompt_request_t *r);
static char *hymt_put(char *p, const char *s, size_t len);


hymt_status_t
hymt_phrases_parse(hymt_phrases_t *phrases, const char *s, bool own,
    hymt_error_t *err)
{
    bool                 has_text;
    size_t               len, bad;
    hymt_phrase_t       *phrase;
    hymt_phrase_kind_t   kind;

    phrases->n = 0;
    has_text = false;
    phrase = NULL;

    if (!hymt_utf8_check(s, strlen(s), &bad)) {
        return hymt_fail(err, "the prompt template is not UTF-8 at byte %zu",
                         bad);
    }

    while (*s != '\0') {

        if (!hymt_place(s, own, &kind, &len)) {
            return hymt_fail(err, "the prompt template has an unknown place"
                             " \"%.*s\": {text}, {target}, {source},"
                             " {target_zh} and {source_zh} are known",
                             (int) len, s);
        }

        if (kind == HYMT_PHRASE_TEXT) {
            if (has_text) {
                return hymt_fail(err, "the prompt template has {text} twice");
            }

            has_text = true;
        }

        /* literal bytes join the phrase before */

        if (phrase == NULL || kind != HYMT_PHRASE_LITERAL
            || phrase->kind != HYMT_PHRASE_LITERAL)
        {
            phrase = hymt_phrases_add(phrases, kind);

            if (phrase == NULL) {
                return hymt_fail(err, "the prompt template has more than %d"
                                 " parts", HYMT_MAX_PHRASES);
            }

            phrase->literal = s;
        }

        phrase->len += len;
        s += len;
    }

    if (!has_text) {
        return hymt_fail(err, "the prompt template has no {text}");
    }

    return HYMT_OK;
}


static hymt_phrase_t *
hymt_phrases_add(hymt_phrases_t *phrases, hymt_phrase_kind_t kind)
{
    hymt_phrase_t  *phrase;

    if (phrases->n == HYMT_MAX_PHRASES) {
        return NULL;
    }

    phrase = &phrases->phrase[phrases->n++];
    phrase->kind = kind;
    phrase->len = 0;

    return phrase;
}


/*
 * What s begins with: a place, or one byte of literal text.  A brace is a
 * place's only where letters and "_" follow and a brace closes them; false
 * where no such place is known.
 */
static bool
hymt_place(const char *s, bool own, hymt_phrase_kind_t *kind, size_t *len)
{
    size_t  i, n;

    static const struct {
        const char          *name;
        hymt_phrase_kind_t   kind;
        bool                 own;
    } places[] = {
        { "{text}", HYMT_PHRASE_TEXT, false },
        { "{target}", HYMT_PHRASE_TARGET, false },
        { "{source}", HYMT_PHRASE_SOURCE, false },
        { "{target_zh}", HYMT_PHRASE_TARGET_ZH, false },
        { "{source_zh}", HYMT_PHRASE_SOURCE_ZH, false },
        { "{terms}", HYMT_PHRASE_TERMS, true },
        { "{context}", HYMT_PHRASE_CONTEXT, true },
        { "{style}", HYMT_PHRASE_STYLE, true },
    };

    *kind = HYMT_PHRASE_LITERAL;
    *len = 1;

    if (s[0] != '{') {
        return true;
    }

    n = strspn(s + 1, "abcdefghijklmnopqrstuvwxyz_");

    if (n == 0 || n > 16 || s[n + 1] != '}') {
        return true;
    }

    *len = n + 2;

    for (i = 0; i < hymt_nelts(places); i++) {
        if (strlen(places[i].name) == *len
            && memcmp(s, places[i].name, *len) == 0
            && (own || !places[i].own))
        {
            *kind = places[i].kind;
            return true;
        }
    }

    return false;
}


hymt_status_t
hymt_phrases_join(const hymt_phrases_t *phrases, hymt_encoder_t *enc,
    const hymt_prompt_request_t *r, size_t text_len, const char **out,
    size_t *out_len, hymt_error_t *err)
{
    char                 *p;
    size_t                len;
    uint32_t              i;
    uint64_t              size;
    const char           *s;
    const hymt_phrase_t  *phrase;

    size = 1;

    for (i = 0; i < phrases->n; i++) {
        phrase = &phrases->phrase[i];

        if (phrase->kind != HYMT_PHRASE_TERMS
            && hymt_phrase_text(phrase, r, text_len, &len) == NULL)
        {
            return hymt_fail(err, "the prompt template names {source}, but no"
                             " source language was given");
        }

        if (!hymt_phrase_size(phrases, phrase, r, text_len, &size)) {
            return hymt_fail(err, "a text of %zu bytes is too long", r->len);
        }
    }

    p = hymt_encoder_text(enc, size);

    if (p == NULL) {
        return hymt_fail(err, "no memory for a prompt of %llu bytes",
                         (unsigned long long) size);
    }

    *out = p;

    for (i = 0; i < phrases->n; i++) {
        phrase = &phrases->phrase[i];

        if (phrase->kind == HYMT_PHRASE_TERMS) {
            p = hymt_phrase_terms(p, phrases->term, r);

        } else {
            s = hymt_phrase_text(phrase, r, text_len, &len);
            p = hymt_put(p, s, len);
        }
    }

    *out_len = (size_t) (p - *out);

    return HYMT_OK;
}


/* Adds the phrase's to *size; false where that overflows. */
static bool
hymt_phrase_size(const hymt_phrases_t *phrases, const hymt_phrase_t *phrase,
    const hymt_prompt_request_t *r, size_t text_len, uint64_t *size)
{
    size_t  i, len;

    if (phrase->kind != HYMT_PHRASE_TERMS) {
        (void) hymt_phrase_text(phrase, r, text_len, &len);

        return !hymt_add_overflow(*size, len, size);
    }

    for (i = 0; i < r->n_terms; i++) {
        if (hymt_add_overflow(*size, r->terms[i].src_len, size)
            || hymt_add_overflow(*size, r->terms[i].tgt_len, size)
            || hymt_add_overflow(*size, strlen(phrases->term) + 1, size))
        {
            return false;
        }
    }

    return true;
}


/* Of any phrase but terms; NULL for a source language that is not known. */
static const char *
hymt_phrase_text(const hymt_phrase_t *phrase, const hymt_prompt_request_t *r,
    size_t text_len, size_t *len)
{
    const char  *s;

    s = NULL;

    switch (phrase->kind) {

    case HYMT_PHRASE_LITERAL:
        *len = phrase->len;
        return phrase->literal;

    case HYMT_PHRASE_TEXT:
        *len = text_len;
        return text_len == 0 ? "" : r->text;

    case HYMT_PHRASE_CONTEXT:
        *len = r->context_len;
        return r->context;

    case HYMT_PHRASE_STYLE:
        *len = r->style_len;
        return r->style;

    case HYMT_PHRASE_TARGET:
        s = hymt_langs[r->tgt].english;
        break;

    case HYMT_PHRASE_TARGET_ZH:
        s = hymt_langs[r->tgt].chinese;
        break;

    case HYMT_PHRASE_SOURCE:
        s = r->src == HYMT_LANG_NONE ? NULL : hymt_langs[r->src].english;
        break;

    case HYMT_PHRASE_SOURCE_ZH:
        s = r->src == HYMT_LANG_NONE ? NULL : hymt_langs[r->src].chinese;
        break;

    case HYMT_PHRASE_TERMS:
        break;
    }

    *len = s == NULL ? 0 : strlen(s);

    return s;
}


static char *
hymt_phrase_terms(char *p, const char *term, const hymt_prompt_request_t *r)
{
    size_t  i;

    for (i = 0; i < r->n_terms; i++) {
        p = hymt_put(p, r->terms[i].src, r->terms[i].src_len);
        p = hymt_put(p, term, strlen(term));
        p = hymt_put(p, r->terms[i].tgt, r->terms[i].tgt_len);
        *p++ = '\n';
    }

    return p;
}


static char *
hymt_put(char *p, const char *s, size_t len)
{
    memcpy(p, s, len);

    return p + len;
}
