/*
 * prompt.c - builds prompts.
 *
 * The instruction with its places filled in, and the user's text among it, is
 * one string, encoded as plain text: what stands at a seam comes out as it
 * would in Hugging Face, and nothing in it can become a control token.  Only
 * the chat template's tokens, which stand by id, are prepared beforehand; the
 * encoder's table of words makes the instruction's words cheap.
 */

#include "prompt_private.h"
#include "tokenizer_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>


#define HYMT_MAX_PARTS      32

/* enough to tell the script of a text */
#define HYMT_SCRIPT_SAMPLE  4096


typedef enum {
    HYMT_PART_LITERAL = 0,
    HYMT_PART_TEXT,
    HYMT_PART_TARGET,
    HYMT_PART_SOURCE,
    HYMT_PART_TARGET_ZH,
    HYMT_PART_SOURCE_ZH,
} hymt_part_kind_t;


typedef struct {
    hymt_part_kind_t   kind;
    const char        *literal;
    size_t             len;
} hymt_part_t;


typedef struct {
    hymt_part_t        parts[HYMT_MAX_PARTS];
    uint32_t           n;
} hymt_parts_t;


struct hymt_prompter_s {
    const hymt_tokenizer_t  *tok;

    char                    *override;  /* owned, or NULL */
    hymt_parts_t             chinese;
    hymt_parts_t             english;

    uint32_t                 head[HYMT_TEMPLATE_TOKENS];
    uint32_t                 n_head;
    uint32_t                 tail[HYMT_TEMPLATE_TOKENS];
    uint32_t                 n_tail;

    uint32_t                 stops[HYMT_MAX_STOP + HYMT_TEMPLATE_STOPS];
    uint32_t                 n_stops;
};


static const hymt_template_t *hymt_template_find(
    const hymt_tokenizer_t *tok);
static bool hymt_template_ids(const hymt_tokenizer_t *tok,
    const char *const *texts, uint32_t *ids, uint32_t *n);
static hymt_status_t hymt_prompter_fill(hymt_prompter_t *p,
    const hymt_config_t *config, const hymt_prompt_params_t *params,
    hymt_error_t *err);
static void hymt_prompter_add_stop(hymt_prompter_t *p, uint32_t id,
    uint32_t vocab);
static hymt_status_t hymt_parts_parse(hymt_parts_t *parts, const char *s,
    hymt_error_t *err);
static hymt_part_t *hymt_parts_add(hymt_parts_t *parts,
    hymt_part_kind_t kind);
static bool hymt_place(const char *s, hymt_part_kind_t *kind, size_t *len);
static bool hymt_is_chinese(int lang);
static bool hymt_mostly_han(const char *text, size_t len);
static hymt_status_t hymt_parts_join(const hymt_parts_t *parts,
    hymt_encoder_t *enc, int src, int tgt, const char *text, size_t len,
    const char **out, size_t *out_len, hymt_error_t *err);
static const char *hymt_part_text(const hymt_part_t *part, int src, int tgt,
    size_t *len);


hymt_status_t
hymt_prompter_create(const hymt_tokenizer_t *tok, const hymt_config_t *config,
    const hymt_prompt_params_t *params, hymt_prompter_t **prompter,
    hymt_error_t *err)
{
    hymt_prompter_t  *p;

    *prompter = NULL;

    p = calloc(1, sizeof(hymt_prompter_t));
    if (p == NULL) {
        return hymt_fail(err, "no memory for a prompter");
    }

    p->tok = tok;

    if (hymt_prompter_fill(p, config, params, err) != HYMT_OK) {
        hymt_prompter_free(p);
        return HYMT_ERROR;
    }

    *prompter = p;

    return HYMT_OK;
}


void
hymt_prompter_free(hymt_prompter_t *prompter)
{
    if (prompter != NULL) {
        free(prompter->override);
        free(prompter);
    }
}


static hymt_status_t
hymt_prompter_fill(hymt_prompter_t *p, const hymt_config_t *config,
    const hymt_prompt_params_t *params, hymt_error_t *err)
{
    uint32_t                   i, id;
    hymt_family_t              family;
    const hymt_template_t     *t;
    const hymt_instruction_t  *instruction;

    if (hymt_tokenizer_size(p->tok) > config->vocab) {
        return hymt_fail(err, "tokenizer.json has ids up to %" PRIu32 ", but"
                         " vocab_size in config.json is %" PRIu32 ": are the"
                         " files of the same model?",
                         hymt_tokenizer_size(p->tok) - 1, config->vocab);
    }

    t = hymt_template_find(p->tok);

    if (t == NULL) {
        return hymt_fail(err, "tokenizer.json has the special tokens of no"
                         " known chat template: \"%s\" and \"%s\", or \"%s\""
                         " and \"%s\", are needed", hymt_templates[0].head[1],
                         hymt_templates[0].tail[0], hymt_templates[1].head[0],
                         hymt_templates[1].tail[0]);
    }

    (void) hymt_template_ids(p->tok, t->head, p->head, &p->n_head);
    (void) hymt_template_ids(p->tok, t->tail, p->tail, &p->n_tail);

    for (i = 0; i < config->n_stop; i++) {
        hymt_prompter_add_stop(p, config->stop[i], config->vocab);
    }

    for (i = 0; i < HYMT_TEMPLATE_STOPS && t->stops[i] != NULL; i++) {
        if (hymt_tokenizer_added(p->tok, t->stops[i], &id) == HYMT_OK) {
            hymt_prompter_add_stop(p, id, config->vocab);
        }
    }

    if (params->override != NULL) {
        p->override = strdup(params->override);

        if (p->override == NULL) {
            return hymt_fail(err, "no memory for a prompter");
        }

        if (hymt_parts_parse(&p->english, p->override, err) != HYMT_OK) {
            return HYMT_ERROR;
        }

        p->chinese = p->english;

        return HYMT_OK;
    }

    family = params->family == HYMT_FAMILY_AUTO ? HYMT_FAMILY_MT15
                                                : params->family;
    instruction = &hymt_instructions[family];

    if (hymt_parts_parse(&p->chinese, instruction->chinese, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    return hymt_parts_parse(&p->english, instruction->english, err);
}


static const hymt_template_t *
hymt_template_find(const hymt_tokenizer_t *tok)
{
    size_t    i;
    uint32_t  n, ids[HYMT_TEMPLATE_TOKENS];

    for (i = 0; i < hymt_n_templates; i++) {
        if (hymt_template_ids(tok, hymt_templates[i].head, ids, &n)
            && hymt_template_ids(tok, hymt_templates[i].tail, ids, &n))
        {
            return &hymt_templates[i];
        }
    }

    return NULL;
}


static bool
hymt_template_ids(const hymt_tokenizer_t *tok, const char *const *texts,
    uint32_t *ids, uint32_t *n)
{
    for (*n = 0; *n < HYMT_TEMPLATE_TOKENS && texts[*n] != NULL; (*n)++) {
        if (hymt_tokenizer_added(tok, texts[*n], &ids[*n]) != HYMT_OK) {
            return false;
        }
    }

    return true;
}


/*
 * Some config.json files name ordinary text as end token ("$", id 3, from a
 * library's default): only added tokens may end an output.
 */
static void
hymt_prompter_add_stop(hymt_prompter_t *p, uint32_t id, uint32_t vocab)
{
    uint32_t  i;

    if (id >= vocab || id >= p->tok->size || !p->tok->tokens[id].added) {
        return;
    }

    for (i = 0; i < p->n_stops; i++) {
        if (p->stops[i] == id) {
            return;
        }
    }

    p->stops[p->n_stops++] = id;
}


const uint32_t *
hymt_prompter_stops(const hymt_prompter_t *prompter, uint32_t *n)
{
    *n = prompter->n_stops;

    return prompter->stops;
}


/* An instruction into literal parts and places; s must outlive parts. */
static hymt_status_t
hymt_parts_parse(hymt_parts_t *parts, const char *s, hymt_error_t *err)
{
    bool               has_text;
    size_t             len, bad;
    hymt_part_t       *part;
    hymt_part_kind_t   kind;

    parts->n = 0;
    has_text = false;
    part = NULL;

    if (!hymt_utf8_check(s, strlen(s), &bad)) {
        return hymt_fail(err, "the prompt template is not UTF-8 at byte %zu",
                         bad);
    }

    while (*s != '\0') {

        if (!hymt_place(s, &kind, &len)) {
            return hymt_fail(err, "the prompt template has an unknown place"
                             " \"%.*s\": {text}, {target}, {source},"
                             " {target_zh} and {source_zh} are known",
                             (int) len, s);
        }

        if (kind == HYMT_PART_TEXT) {
            if (has_text) {
                return hymt_fail(err, "the prompt template has {text} twice");
            }

            has_text = true;
        }

        /* literal bytes join the part before */

        if (part == NULL || kind != HYMT_PART_LITERAL
            || part->kind != HYMT_PART_LITERAL)
        {
            part = hymt_parts_add(parts, kind);

            if (part == NULL) {
                return hymt_fail(err, "the prompt template has more than %d"
                                 " parts", HYMT_MAX_PARTS);
            }

            part->literal = s;
        }

        part->len += len;
        s += len;
    }

    if (!has_text) {
        return hymt_fail(err, "the prompt template has no {text}");
    }

    return HYMT_OK;
}


static hymt_part_t *
hymt_parts_add(hymt_parts_t *parts, hymt_part_kind_t kind)
{
    hymt_part_t  *part;

    if (parts->n == HYMT_MAX_PARTS) {
        return NULL;
    }

    part = &parts->parts[parts->n++];
    part->kind = kind;
    part->len = 0;

    return part;
}


/*
 * What s begins with: a place, or one byte of literal text.  A brace is a
 * place's only where letters and "_" follow and a brace closes them; false
 * where no such place is known.
 */
static bool
hymt_place(const char *s, hymt_part_kind_t *kind, size_t *len)
{
    size_t  i, n;

    static const struct {
        const char        *name;
        hymt_part_kind_t   kind;
    } places[] = {
        { "{text}", HYMT_PART_TEXT },
        { "{target}", HYMT_PART_TARGET },
        { "{source}", HYMT_PART_SOURCE },
        { "{target_zh}", HYMT_PART_TARGET_ZH },
        { "{source_zh}", HYMT_PART_SOURCE_ZH },
    };

    *kind = HYMT_PART_LITERAL;
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
            && memcmp(s, places[i].name, *len) == 0)
        {
            *kind = places[i].kind;
            return true;
        }
    }

    return false;
}


hymt_status_t
hymt_prompt_build(const hymt_prompter_t *p, hymt_encoder_t *enc, int src,
    int tgt, const char *text, size_t len, uint32_t *ids, size_t cap,
    size_t *n, size_t *n_text, hymt_error_t *err)
{
    size_t               bad, room, content_len, n_alone, n_content;
    const char          *content;
    hymt_status_t        rc;
    const hymt_parts_t  *parts;

    *n = 0;
    *n_text = 0;

    if (tgt < 0 || tgt >= HYMT_N_LANGS || src < HYMT_LANG_NONE
        || src >= HYMT_N_LANGS)
    {
        return hymt_fail(err, "no such language: source %d, target %d", src,
                         tgt);
    }

    if (!hymt_utf8_check(text, len, &bad)) {
        return hymt_fail(err, "invalid UTF-8 at byte %zu of the text", bad);
    }

    if (cap < p->n_head + p->n_tail) {
        (void) hymt_fail(err, "the prompt needs more than %zu tokens", cap);
        return HYMT_TOO_LONG;
    }

    room = cap - p->n_head - p->n_tail;

    if (hymt_is_chinese(tgt) || hymt_is_chinese(src)
        || (src == HYMT_LANG_NONE && hymt_mostly_han(text, len)))
    {
        parts = &p->chinese;

    } else {
        parts = &p->english;
    }

    /* the instruction alone, to tell how much of the whole is the text's */

    rc = hymt_parts_join(parts, enc, src, tgt, text, 0, &content,
                         &content_len, err);

    if (rc == HYMT_OK) {
        rc = hymt_encode(enc, content, content_len, ids + p->n_head, room,
                         &n_alone, err);
    }

    if (rc == HYMT_OK) {
        rc = hymt_parts_join(parts, enc, src, tgt, text, len, &content,
                             &content_len, err);
    }

    if (rc == HYMT_OK) {
        rc = hymt_encode(enc, content, content_len, ids + p->n_head, room,
                         &n_content, err);
    }

    if (rc != HYMT_OK) {
        return rc;
    }

    memcpy(ids, p->head, p->n_head * sizeof(uint32_t));
    memcpy(ids + p->n_head + n_content, p->tail,
           p->n_tail * sizeof(uint32_t));

    *n = p->n_head + n_content + p->n_tail;
    *n_text = n_content > n_alone ? n_content - n_alone : len != 0;

    return HYMT_OK;
}


static bool
hymt_is_chinese(int lang)
{
    const char  *code;

    if (lang == HYMT_LANG_NONE) {
        return false;
    }

    code = hymt_langs[lang].code;

    return strcmp(code, "zh") == 0 || strcmp(code, "zh-Hant") == 0
           || strcmp(code, "yue") == 0;
}


/* Han, and not Japanese: that has kana between. */
static bool
hymt_mostly_han(const char *text, size_t len)
{
    size_t            i, han, kana, letters;
    int32_t           c;
    utf8proc_ssize_t  n;

    han = 0;
    kana = 0;
    letters = 0;
    len = hymt_min(len, HYMT_SCRIPT_SAMPLE);

    for (i = 0; i < len; i += (size_t) n) {

        n = utf8proc_iterate((const utf8proc_uint8_t *) text + i,
                             (utf8proc_ssize_t) (len - i), &c);

        if (n <= 0) {
            break;
        }

        if ((c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf)
            || (c >= 0xf900 && c <= 0xfaff) || (c >= 0x20000 && c <= 0x323af))
        {
            han++;

        } else if (c >= 0x3040 && c <= 0x30ff) {
            kana++;
        }

        letters += utf8proc_category(c) >= UTF8PROC_CATEGORY_LU
                   && utf8proc_category(c) <= UTF8PROC_CATEGORY_LO;
    }

    return 2 * han > letters && 10 * kana < han;
}


/* The content of the user's turn, in the encoder's own buffer. */
static hymt_status_t
hymt_parts_join(const hymt_parts_t *parts, hymt_encoder_t *enc, int src,
    int tgt, const char *text, size_t len, const char **out, size_t *out_len,
    hymt_error_t *err)
{
    char        *p;
    size_t       part_len;
    uint32_t     i;
    uint64_t     size;
    const char  *part;

    size = 1;

    for (i = 0; i < parts->n; i++) {

        part = hymt_part_text(&parts->parts[i], src, tgt, &part_len);

        if (part == NULL && parts->parts[i].kind != HYMT_PART_TEXT) {
            return hymt_fail(err, "the prompt template names {source}, but no"
                             " source language was given");
        }

        if (hymt_add_overflow(size, part == NULL ? len : part_len, &size)) {
            return hymt_fail(err, "a text of %zu bytes is too long", len);
        }
    }

    p = hymt_encoder_text(enc, size);

    if (p == NULL) {
        return hymt_fail(err, "no memory for a prompt of %" PRIu64 " bytes",
                         size);
    }

    *out = p;

    for (i = 0; i < parts->n; i++) {

        part = hymt_part_text(&parts->parts[i], src, tgt, &part_len);

        if (part == NULL) {
            part = text;
            part_len = len;
        }

        memcpy(p, part, part_len);
        p += part_len;
    }

    *out_len = (size_t) (p - *out);

    return HYMT_OK;
}


/* NULL for the user's text, and for a source language that is not known */
static const char *
hymt_part_text(const hymt_part_t *part, int src, int tgt, size_t *len)
{
    const char  *s;

    s = NULL;

    switch (part->kind) {

    case HYMT_PART_LITERAL:
        *len = part->len;
        return part->literal;

    case HYMT_PART_TEXT:
        break;

    case HYMT_PART_TARGET:
        s = hymt_langs[tgt].english;
        break;

    case HYMT_PART_TARGET_ZH:
        s = hymt_langs[tgt].chinese;
        break;

    case HYMT_PART_SOURCE:
        s = src == HYMT_LANG_NONE ? NULL : hymt_langs[src].english;
        break;

    case HYMT_PART_SOURCE_ZH:
        s = src == HYMT_LANG_NONE ? NULL : hymt_langs[src].chinese;
        break;
    }

    *len = s == NULL ? 0 : strlen(s);

    return s;
}
