/*
 * prompt.h - from a request to the token ids of a prompt.
 *
 * A prompt is data: the family's instruction with its places for languages,
 * text, terms, context and style, inside the chat template of the tokenizer's
 * family, which is recognised by the special tokens present ("<｜hy_User｜>" or
 * "<|startoftext|>").  The ids equal what Hugging Face gives for the whole
 * (apply_chat_template with add_generation_prompt, then the tokenizer without
 * parsing added tokens inside what the user gave): only the template's tokens
 * are placed by id, the instruction and what stands in it are tokenised as one
 * string.
 *
 * What the families have, by their cards:
 *
 *              terms  context  style  formatted
 *     mt1        -       -       -        -
 *     mt1.5      x       x       -        x       in Chinese for every pair
 *     mt2        x       x       x        x       formatted: in English
 *
 * mt2's context is its card's "background", its formatted text the card's
 * "structured data", of XML.  The cards show one of these at a time.  Where
 * several are asked for, whole blocks of the card follow one another: terms,
 * then context, then the instruction of the rest; mt2's style joins the
 * instruction of a context.  Style with formatted text has no such form and is
 * refused, as is what a family does not have.
 *
 * Thread: a prompter is immutable after creation.
 */

#ifndef HYMT_PROMPT_H
#define HYMT_PROMPT_H

#include "config.h"
#include "lang.h"
#include "tokenizer.h"


typedef enum {
    HYMT_FAMILY_AUTO = 0, /* from the directory's name or _name_or_path */
    HYMT_FAMILY_MT1,
    HYMT_FAMILY_MT15,
    HYMT_FAMILY_MT2,
} hymt_family_t;


typedef struct {
    hymt_family_t     family;
    hymt_lang_set_t   languages;  /* what this model may be asked for */
    bool              greedy;     /* hymt.json asks for greedy by default */
    uint32_t          features;   /* HYMT_FEATURE_*: what it was trained for */

    /*
     * An instruction that replaces the family's: holds {text} once and may
     * hold {target}, {source} (English names), {target_zh}, {source_zh};
     * NULL: the family's.
     */
    const char       *override;
} hymt_prompt_params_t;


typedef struct hymt_prompter_s  hymt_prompter_t;


/* Bits: several may be asked for together. */
#define HYMT_FEATURE_TERMS      0x1
#define HYMT_FEATURE_CONTEXT    0x2
#define HYMT_FEATURE_STYLE      0x4
#define HYMT_FEATURE_FORMATTED  0x8
#define HYMT_N_FEATURES         4


/* How a word of the source is to be translated. */
typedef struct {
    const char  *src;
    size_t       src_len;
    const char  *tgt;
    size_t       tgt_len;
} hymt_term_t;


typedef enum {
    HYMT_ROLE_SYSTEM = 0,   /* the first message alone */
    HYMT_ROLE_USER,
    HYMT_ROLE_ASSISTANT,
    HYMT_N_ROLES
} hymt_role_t;


typedef struct {
    hymt_role_t   role;
    const char   *content;
    size_t        len;
} hymt_turn_t;


/*
 * What a prompt is made of: zeroed, a text and nothing else.  All texts are
 * plain: nothing in them can become a control token.
 */
typedef struct {
    /*
     * A language index; src may be HYMT_LANG_NONE: then a Chinese target, or a
     * text that is mostly Han, takes the Chinese instruction, as the models'
     * cards do for zh <-> xx.
     */
    int                 src;
    int                 tgt;

    const char         *text;
    size_t              len;

    /* neither side empty, none with control characters */
    const hymt_term_t  *terms;
    size_t              n_terms;

    /* what stands around the text or is good to know; is not translated */
    const char         *context;
    size_t              context_len;

    /* "formal", ...: without control characters */
    const char         *style;
    size_t              style_len;

    /* the text holds <sN></sN> tags: see hymt_prompt_unwrap() */
    bool                formatted;

    /*
     * Raw chat, where n_turns is not 0: the chat template around just these
     * turns, byte for byte apply_chat_template's; all above is not looked at.
     * The last turn is the user's and not empty.
     */
    const hymt_turn_t  *turns;
    size_t              n_turns;
} hymt_prompt_request_t;


/*
 * Fills family, languages, greedy and features of *p from <dir>/hymt.json where
 * there is one ({"family", "languages", "greedy", "features": ["terms",
 * "context", "style", "formatted"]}, all optional), else from the directory's
 * name and config->name_or_path; a family already set in *p stays.  Features
 * that are not declared are taken to be all that the family has.
 * A family that cannot be told is HYMT_FAMILY_MT15 with *guessed = true.
 */
hymt_status_t hymt_prompt_detect(const char *dir, const hymt_config_t *config,
    hymt_prompt_params_t *p, bool *guessed, hymt_error_t *err);


/*
 * "mt1", "mt1.5", "mt2", "auto" and back; HYMT_DECLINED for any other name.
 */
hymt_status_t hymt_family_parse(const char *name, size_t len,
    hymt_family_t *family);
const char *hymt_family_name(hymt_family_t family);


/*
 * tok must outlive the prompter.  Fails where the tokenizer has the special
 * tokens of no known chat template, or the override is malformed.
 */
hymt_status_t hymt_prompter_create(const hymt_tokenizer_t *tok,
    const hymt_config_t *config, const hymt_prompt_params_t *p,
    hymt_prompter_t **prompter, hymt_error_t *err);

void hymt_prompter_free(hymt_prompter_t *prompter);


/*
 * Builds the prompt into ids [cap].  *n_text is set to the tokens of the text
 * itself (of a chat: of its last turn; an estimate good to a token or two at
 * the seam), from which output caps are made.
 *
 * HYMT_TOO_LONG: more than cap.  HYMT_ERROR: the request, the error says what
 * of it.
 */
hymt_status_t hymt_prompt_build(const hymt_prompter_t *prompter,
    hymt_encoder_t *enc, const hymt_prompt_request_t *request, uint32_t *ids,
    size_t cap, size_t *n, size_t *n_text, hymt_error_t *err);


/*
 * True where the family has a prompt for all of these features together (AUTO
 * is MT15).  A prompter with an override has none for any.
 */
bool hymt_prompt_has(hymt_family_t family, uint32_t features);


/*
 * The family's answer to a formatted text without what it is told to wrap it
 * in ("<target>...</target>"; the end may be missing): the part [*len] from
 * *from on.
 */
void hymt_prompt_unwrap(const hymt_prompter_t *prompter, const char *text,
    size_t *from, size_t *len);


#define HYMT_PROMPT_STOPS  (HYMT_MAX_STOP + 8)

/*
 * Tokens that end the output, at most HYMT_PROMPT_STOPS: the config's, and the
 * template family's by text (only added tokens of the tokenizer that lie inside
 * the vocabulary: some config.json files name ordinary text, such as "$").
 */
const uint32_t *hymt_prompter_stops(const hymt_prompter_t *prompter,
    uint32_t *n);


#endif /* HYMT_PROMPT_H */
