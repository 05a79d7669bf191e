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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>


/* enough to tell the script of a text */
#define HYMT_SCRIPT_SAMPLE  4096

/* nothing stands there, or the tokenizer does not have it */
#define HYMT_NO_MARK        UINT32_MAX


struct hymt_prompter_s {
    const hymt_tokenizer_t  *tok;
    const hymt_template_t   *template;
    hymt_family_t            family;

    char                    *override;  /* owned, or NULL */
    hymt_phrases_t           chinese[HYMT_N_FORMS];  /* n 0: none */
    hymt_phrases_t           english[HYMT_N_FORMS];

    uint32_t                 mark[HYMT_N_MARKS];

    uint32_t                 stops[HYMT_PROMPT_STOPS];
    uint32_t                 n_stops;
};


_Static_assert(HYMT_MAX_STOP + HYMT_TEMPLATE_STOPS <= HYMT_PROMPT_STOPS,
               "stops of the config and the template");


/* Where ids go. */
typedef struct {
    uint32_t  *ids;
    size_t     cap;
    size_t     n;
} hymt_ids_t;


static const hymt_template_t *hymt_template_find(
    const hymt_tokenizer_t *tok);
static hymt_status_t hymt_prompter_fill(hymt_prompter_t *p,
    const hymt_config_t *config, const hymt_prompt_params_t *params,
    hymt_error_t *err);
static void hymt_prompter_add_stop(hymt_prompter_t *p, uint32_t id,
    uint32_t vocab);
static hymt_status_t hymt_prompter_family(hymt_prompter_t *p,
    hymt_error_t *err);
static hymt_status_t hymt_prompt_check(const hymt_prompt_request_t *r,
    hymt_error_t *err);
static hymt_status_t hymt_prompt_check_terms(const hymt_prompt_request_t *r,
    hymt_error_t *err);
static hymt_status_t hymt_prompt_check_line(const char *what, const char *s,
    size_t len, hymt_error_t *err);
static const hymt_phrases_t *hymt_prompt_phrases(const hymt_prompter_t *p,
    const hymt_prompt_request_t *r, hymt_error_t *err);
static void hymt_prompt_lacks(const hymt_prompter_t *p, uint32_t features,
    hymt_error_t *err);
static bool hymt_is_chinese(int lang);
static bool hymt_mostly_han(const char *text, size_t len);
static hymt_status_t hymt_prompt_turns(const hymt_prompter_t *p,
    hymt_encoder_t *enc, const hymt_turn_t *turns, size_t n_turns,
    hymt_ids_t *out, size_t *n_last, hymt_error_t *err);
static hymt_status_t hymt_prompt_check_turns(const hymt_prompter_t *p,
    const hymt_turn_t *turns, size_t n, hymt_error_t *err);
static hymt_status_t hymt_prompt_turn(const hymt_prompter_t *p,
    hymt_encoder_t *enc, const hymt_turn_t *turn, bool joins, hymt_ids_t *out,
    hymt_error_t *err);
static hymt_status_t hymt_prompt_mark(const hymt_prompter_t *p,
    hymt_mark_t mark, hymt_ids_t *out, hymt_error_t *err);


static const char *const  hymt_feature_names[HYMT_N_FEATURES] = {
    "terms", "context", "style", "formatted text",
};


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
    uint32_t                i, id;
    const hymt_template_t  *t;

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
                         " and \"%s\", are needed",
                         hymt_templates[0].mark[HYMT_MARK_USER],
                         hymt_templates[0].mark[HYMT_MARK_ASK],
                         hymt_templates[1].mark[HYMT_MARK_USER],
                         hymt_templates[1].mark[HYMT_MARK_USER_END]);
    }

    p->template = t;

    for (i = 0; i < HYMT_N_MARKS; i++) {
        p->mark[i] = HYMT_NO_MARK;

        if (t->mark[i] != NULL) {
            (void) hymt_tokenizer_added(p->tok, t->mark[i], &p->mark[i]);
        }
    }

    for (i = 0; i < config->n_stop; i++) {
        hymt_prompter_add_stop(p, config->stop[i], config->vocab);
    }

    for (i = 0; i < HYMT_TEMPLATE_STOPS && t->stops[i] != NULL; i++) {
        if (hymt_tokenizer_added(p->tok, t->stops[i], &id) == HYMT_OK) {
            hymt_prompter_add_stop(p, id, config->vocab);
        }
    }

    p->family = params->family == HYMT_FAMILY_AUTO ? HYMT_FAMILY_MT15
                                                   : params->family;
    if (params->override == NULL) {
        return hymt_prompter_family(p, err);
    }

    p->override = strdup(params->override);

    if (p->override == NULL) {
        return hymt_fail(err, "no memory for a prompter");
    }

    if (hymt_phrases_parse(&p->english[0], p->override, false, err)
        != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    p->chinese[0] = p->english[0];

    return HYMT_OK;
}


static const hymt_template_t *
hymt_template_find(const hymt_tokenizer_t *tok)
{
    size_t       i, j, has;
    uint32_t     id;
    const char  *text;

    static const hymt_mark_t  needed[] = {
        HYMT_MARK_BEGIN, HYMT_MARK_USER, HYMT_MARK_USER_END, HYMT_MARK_ASK,
    };

    for (i = 0; i < hymt_n_templates; i++) {

        for (j = 0, has = 0; j < hymt_nelts(needed); j++) {
            text = hymt_templates[i].mark[needed[j]];
            has += text == NULL
                   || hymt_tokenizer_added(tok, text, &id) == HYMT_OK;
        }

        if (has == hymt_nelts(needed)) {
            return &hymt_templates[i];
        }
    }

    return NULL;
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


static hymt_status_t
hymt_prompter_family(hymt_prompter_t *p, hymt_error_t *err)
{
    uint32_t                   i;
    const hymt_instruction_t  *in;

    in = &hymt_instructions[p->family];

    for (i = 0; i < HYMT_N_FORMS; i++) {

        p->chinese[i].term = in->term_zh;
        p->english[i].term = in->term_en;

        if (in->chinese[i] != NULL
            && (hymt_phrases_parse(&p->chinese[i], in->chinese[i], true, err)
                != HYMT_OK
                || hymt_phrases_parse(&p->english[i], in->english[i], true,
                                     err)
                   != HYMT_OK))
        {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


const uint32_t *
hymt_prompter_stops(const hymt_prompter_t *prompter, uint32_t *n)
{
    *n = prompter->n_stops;

    return prompter->stops;
}


bool
hymt_prompt_has(hymt_family_t family, uint32_t features)
{
    family = family == HYMT_FAMILY_AUTO ? HYMT_FAMILY_MT15 : family;

    return features < HYMT_N_FORMS
           && hymt_instructions[family].chinese[features] != NULL;
}


hymt_status_t
hymt_prompt_build(const hymt_prompter_t *p, hymt_encoder_t *enc,
    const hymt_prompt_request_t *r, uint32_t *ids, size_t cap, size_t *n,
    size_t *n_text, hymt_error_t *err)
{
    size_t                 n_alone, n_whole;
    hymt_ids_t             out;
    hymt_turn_t            turn;
    hymt_status_t          rc;
    const hymt_phrases_t  *phrases;

    *n = 0;
    *n_text = 0;
    out = (hymt_ids_t) { ids, cap, 0 };

    if (r->n_turns > 0) {

        if (hymt_prompt_check_turns(p, r->turns, r->n_turns, err) != HYMT_OK) {
            return HYMT_ERROR;
        }

        rc = hymt_prompt_turns(p, enc, r->turns, r->n_turns, &out, n_text,
                               err);
        *n = out.n;

        return rc;
    }

    if (hymt_prompt_check(r, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    phrases = hymt_prompt_phrases(p, r, err);

    if (phrases == NULL) {
        return HYMT_ERROR;
    }

    turn.role = HYMT_ROLE_USER;

    /* without the text, to tell how much of the whole is the text's */

    rc = hymt_phrases_join(phrases, enc, r, 0, &turn.content, &turn.len, err);

    if (rc == HYMT_OK) {
        rc = hymt_encode(enc, turn.content, turn.len, ids, cap, &n_alone, err);
    }

    if (rc == HYMT_OK) {
        rc = hymt_phrases_join(phrases, enc, r, r->len, &turn.content,
                               &turn.len, err);
    }

    if (rc == HYMT_OK) {
        rc = hymt_prompt_turns(p, enc, &turn, 1, &out, &n_whole, err);
    }

    if (rc != HYMT_OK) {
        return rc;
    }

    *n = out.n;
    *n_text = n_whole > n_alone ? n_whole - n_alone : r->len != 0;

    return HYMT_OK;
}


static hymt_status_t
hymt_prompt_check(const hymt_prompt_request_t *r, hymt_error_t *err)
{
    size_t  bad;

    if (r->tgt < 0 || r->tgt >= HYMT_N_LANGS || r->src < HYMT_LANG_NONE
        || r->src >= HYMT_N_LANGS)
    {
        return hymt_fail(err, "no such language: source %d, target %d", r->src,
                         r->tgt);
    }

    if (!hymt_utf8_check(r->text, r->len, &bad)) {
        return hymt_fail(err, "invalid UTF-8 at byte %zu of the text", bad);
    }

    if (!hymt_utf8_check(r->context, r->context_len, &bad)) {
        return hymt_fail(err, "invalid UTF-8 at byte %zu of the context", bad);
    }

    if (hymt_prompt_check_line("the style", r->style, r->style_len, err)
        != HYMT_OK)
    {
        return HYMT_ERROR;
    }

    return hymt_prompt_check_terms(r, err);
}


static hymt_status_t
hymt_prompt_check_terms(const hymt_prompt_request_t *r, hymt_error_t *err)
{
    size_t              i;
    char                what[64];
    const hymt_term_t  *t;

    for (i = 0; i < r->n_terms; i++) {
        t = &r->terms[i];
        snprintf(what, sizeof(what), "term %zu", i + 1);

        if (t->src_len == 0 || t->tgt_len == 0) {
            return hymt_fail(err, "%s has an empty %s", what,
                             t->src_len == 0 ? "source" : "translation");
        }

        if (hymt_prompt_check_line(what, t->src, t->src_len, err) != HYMT_OK
            || hymt_prompt_check_line(what, t->tgt, t->tgt_len, err)
               != HYMT_OK)
        {
            return HYMT_ERROR;
        }
    }

    return HYMT_OK;
}


/*
 * A line of an instruction: whatever breaks it would give the rest another
 * meaning.
 */
static hymt_status_t
hymt_prompt_check_line(const char *what, const char *s, size_t len,
    hymt_error_t *err)
{
    size_t            i, bad;
    int32_t           c;
    utf8proc_ssize_t  n;

    if (!hymt_utf8_check(s, len, &bad)) {
        return hymt_fail(err, "invalid UTF-8 at byte %zu of %s", bad, what);
    }

    for (i = 0; i < len; i += (size_t) n) {

        n = utf8proc_iterate((const utf8proc_uint8_t *) s + i,
                             (utf8proc_ssize_t) (len - i), &c);

        if (n <= 0 || c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028
            || c == 0x2029)
        {
            return hymt_fail(err, "%s has a control character, U+%04" PRIX32
                             ", at byte %zu", what, (uint32_t) c, i);
        }
    }

    return HYMT_OK;
}


/* NULL: there is none for what is asked for together. */
static const hymt_phrases_t *
hymt_prompt_phrases(const hymt_prompter_t *p, const hymt_prompt_request_t *r,
    hymt_error_t *err)
{
    uint32_t               features;
    const hymt_phrases_t  *phrases;

    features = (r->n_terms > 0 ? HYMT_FEATURE_TERMS : 0)
               | (r->context_len > 0 ? HYMT_FEATURE_CONTEXT : 0)
               | (r->style_len > 0 ? HYMT_FEATURE_STYLE : 0)
               | (r->formatted ? HYMT_FEATURE_FORMATTED : 0);

    phrases = hymt_is_chinese(r->tgt) || hymt_is_chinese(r->src)
             || (r->src == HYMT_LANG_NONE && hymt_mostly_han(r->text, r->len))
             ? &p->chinese[features] : &p->english[features];

    if (phrases->n == 0) {
        hymt_prompt_lacks(p, features, err);
        return NULL;
    }

    return phrases;
}


/* Names the first feature that is not there at all, or else all of them. */
static void
hymt_prompt_lacks(const hymt_prompter_t *p, uint32_t features,
    hymt_error_t *err)
{
    char         list[128];
    size_t       len;
    uint32_t     i;
    const char  *who;

    who = p->override != NULL ? "the prompt template given for this model"
                              : hymt_family_name(p->family);

    list[0] = '\0';
    len = 0;

    for (i = 0; i < HYMT_N_FEATURES; i++) {

        if ((features >> i & 1) == 0) {
            continue;
        }

        if (p->english[1u << i].n == 0) {
            (void) hymt_fail(err, p->override != NULL
                             ? "%s has no place for %s"
                             : "models of the family %s have no prompt for %s",
                             who, hymt_feature_names[i]);
            return;
        }

        len += (size_t) snprintf(list + len, sizeof(list) - len, "%s%s",
                                 len == 0 ? "" : " and ",
                                 hymt_feature_names[i]);
    }

    (void) hymt_fail(err, "models of the family %s have no prompt for %s"
                     " together", who, list);
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


/*
 * The chat template around turns that have been checked; *n_last: tokens of
 * the last one's content.
 */
static hymt_status_t
hymt_prompt_turns(const hymt_prompter_t *p, hymt_encoder_t *enc,
    const hymt_turn_t *turns, size_t n_turns, hymt_ids_t *out, size_t *n_last,
    hymt_error_t *err)
{
    bool            joins;
    size_t          i, marks, start;
    hymt_status_t   rc;

    rc = hymt_prompt_mark(p, HYMT_MARK_BEGIN, out, err);
    start = out->n;
    joins = false;

    for (i = 0; rc == HYMT_OK && i < n_turns; i++) {
        start = out->n;
        joins = p->template->head_joins && i == 1 && turns[0].len > 0;

        rc = hymt_prompt_turn(p, enc, &turns[i], joins, out, err);
    }

    if (rc != HYMT_OK) {
        return rc;
    }

    marks = (p->mark[HYMT_MARK_USER] != HYMT_NO_MARK && !joins)
            + (p->mark[HYMT_MARK_USER_END] != HYMT_NO_MARK);
    *n_last = out->n - start - marks;

    return hymt_prompt_mark(p, HYMT_MARK_ASK, out, err);
}


static hymt_status_t
hymt_prompt_check_turns(const hymt_prompter_t *p, const hymt_turn_t *turns,
    size_t n, hymt_error_t *err)
{
    size_t       i, bad;
    hymt_mark_t  mark;

    for (i = 0; i < n; i++) {

        if ((uint32_t) turns[i].role >= HYMT_N_ROLES) {
            return hymt_fail(err, "message %zu has no known role", i + 1);
        }

        if (!hymt_utf8_check(turns[i].content, turns[i].len, &bad)) {
            return hymt_fail(err, "invalid UTF-8 at byte %zu of message %zu",
                             bad, i + 1);
        }

        if (turns[i].role == HYMT_ROLE_SYSTEM && i > 0) {
            return hymt_fail(err, "message %zu is a system message: only the"
                             " first one may be", i + 1);
        }

        if (turns[i].role == HYMT_ROLE_USER) {
            continue;
        }

        mark = turns[i].role == HYMT_ROLE_SYSTEM ? HYMT_MARK_SYSTEM_END
                                                 : HYMT_MARK_ASSISTANT_END;

        if (p->mark[mark] == HYMT_NO_MARK) {
            return hymt_fail(err, "message %zu can't be told to the model: its"
                             " tokenizer.json has no \"%s\"", i + 1,
                             p->template->mark[mark]);
        }
    }

    if (turns[n - 1].role != HYMT_ROLE_USER) {
        return hymt_fail(err, "the last message is not the user's");
    }

    if (turns[n - 1].len == 0) {
        return hymt_fail(err, "the last message is empty");
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_prompt_turn(const hymt_prompter_t *p, hymt_encoder_t *enc,
    const hymt_turn_t *turn, bool joins, hymt_ids_t *out, hymt_error_t *err)
{
    size_t          n;
    hymt_status_t   rc;

    static const struct {
        hymt_mark_t  before;
        hymt_mark_t  after;
    } marks[HYMT_N_ROLES] = {
        [HYMT_ROLE_SYSTEM] = { HYMT_MARK_SYSTEM, HYMT_MARK_SYSTEM_END },
        [HYMT_ROLE_USER] = { HYMT_MARK_USER, HYMT_MARK_USER_END },
        [HYMT_ROLE_ASSISTANT] = { HYMT_MARK_ASSISTANT,
                                  HYMT_MARK_ASSISTANT_END },
    };

    if (p->template->head_joins && turn->role == HYMT_ROLE_SYSTEM
        && turn->len == 0)
    {
        return HYMT_OK;
    }

    rc = HYMT_OK;

    if (!(joins && turn->role == HYMT_ROLE_USER)) {
        rc = hymt_prompt_mark(p, marks[turn->role].before, out, err);
    }

    if (rc == HYMT_OK) {
        rc = hymt_encode(enc, turn->content, turn->len, out->ids + out->n,
                         out->cap - out->n, &n, err);
    }

    if (rc != HYMT_OK) {
        return rc;
    }

    out->n += n;

    return hymt_prompt_mark(p, marks[turn->role].after, out, err);
}


static hymt_status_t
hymt_prompt_mark(const hymt_prompter_t *p, hymt_mark_t mark, hymt_ids_t *out,
    hymt_error_t *err)
{
    if (p->mark[mark] == HYMT_NO_MARK) {
        return HYMT_OK;
    }

    if (out->n == out->cap) {
        (void) hymt_fail(err, "the prompt needs more than %zu tokens",
                         out->cap);
        return HYMT_TOO_LONG;
    }

    out->ids[out->n++] = p->mark[mark];

    return HYMT_OK;
}


void
hymt_prompt_unwrap(const hymt_prompter_t *prompter, const char *text,
    size_t *from, size_t *len)
{
    char         tag[32];
    size_t       n, start, end;
    const char  *name;

    *from = 0;
    name = hymt_instructions[prompter->family].target_tag;

    if (prompter->override != NULL || name == NULL) {
        return;
    }

    n = (size_t) snprintf(tag, sizeof(tag), "</%s>", name);
    start = 0;
    end = *len;

    while (end > start && (text[end - 1] == '\n' || text[end - 1] == ' ')) {
        end--;
    }

    if (end >= n && memcmp(text + end - n, tag, n) == 0) {
        *len = end - n;
    }

    n = (size_t) snprintf(tag, sizeof(tag), "<%s>", name);

    while (start < *len && (text[start] == '\n' || text[start] == ' ')) {
        start++;
    }

    if (*len - start >= n && memcmp(text + start, tag, n) == 0) {
        *from = start + n;
        *len -= *from;
    }
}
