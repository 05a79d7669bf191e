/*
 * prompt_private.h - prompts as data: chat templates and instructions, see
 * prompt_data.c; an instruction cut into phrases, see prompt_phrases.c.
 */

#ifndef HYMT_PROMPT_PRIVATE_H
#define HYMT_PROMPT_PRIVATE_H

#include "prompt.h"


#define HYMT_TEMPLATE_STOPS  5

#define HYMT_MAX_PHRASES      32

#define HYMT_N_FORMS         (1u << HYMT_N_FEATURES)


/* The control tokens of a chat template, by where they stand. */
typedef enum {
    HYMT_MARK_BEGIN = 0,        /* of the whole */
    HYMT_MARK_SYSTEM,
    HYMT_MARK_SYSTEM_END,
    HYMT_MARK_USER,
    HYMT_MARK_USER_END,
    HYMT_MARK_ASSISTANT,
    HYMT_MARK_ASSISTANT_END,
    HYMT_MARK_ASK,              /* of the answer */
    HYMT_N_MARKS
} hymt_mark_t;


/*
 * A template is taken for the tokenizer's when all of its marks that a single
 * turn of the user's needs are among its added tokens.
 */
typedef struct {
    const char  *name;
    const char  *mark[HYMT_N_MARKS];   /* NULL: nothing stands there */
    const char  *stops[HYMT_TEMPLATE_STOPS];

    /*
     * The first turn, unless it is empty, joins the second: a user's turn that
     * comes second has no mark before it, and an empty system's turn none at
     * all.
     */
    bool         head_joins;
} hymt_template_t;

extern const hymt_template_t  hymt_templates[];
extern const size_t           hymt_n_templates;


/*
 * What a family is told, by the features asked for (HYMT_FEATURE_*), in the
 * form of hymt_prompt_params_t.override with {terms}, {context} and {style}
 * besides; NULL: it has no such prompt.
 */
typedef struct {
    const char  *name;
    const char  *term_zh;                 /* between the sides of a term */
    const char  *term_en;
    const char  *target_tag;              /* wraps answers to formatted text */
    const char  *chinese[HYMT_N_FORMS];   /* where Chinese is on either side */
    const char  *english[HYMT_N_FORMS];
} hymt_instruction_t;

extern const hymt_instruction_t  hymt_instructions[HYMT_FAMILY_MT2 + 1];


typedef enum {
    HYMT_PHRASE_LITERAL = 0,
    HYMT_PHRASE_TEXT,
    HYMT_PHRASE_TARGET,
    HYMT_PHRASE_SOURCE,
    HYMT_PHRASE_TARGET_ZH,
    HYMT_PHRASE_SOURCE_ZH,
    HYMT_PHRASE_TERMS,
    HYMT_PHRASE_CONTEXT,
    HYMT_PHRASE_STYLE,
} hymt_phrase_kind_t;


typedef struct {
    hymt_phrase_kind_t   kind;
    const char          *literal;
    size_t               len;
} hymt_phrase_t;


typedef struct {
    hymt_phrase_t  phrase[HYMT_MAX_PHRASES];
    uint32_t       n;
    const char    *term;   /* between the sides of a term */
} hymt_phrases_t;


/*
 * Cuts an instruction into literal phrases and places; s must outlive them.
 * own: it is a family's and may have places for features.
 */
hymt_status_t hymt_phrases_parse(hymt_phrases_t *phrases, const char *s,
    bool own, hymt_error_t *err);

/*
 * Fills the places, {text} with text [len], in the encoder's own buffer: valid
 * until it encodes another.
 */
hymt_status_t hymt_phrases_join(const hymt_phrases_t *phrases,
    hymt_encoder_t *enc, const hymt_prompt_request_t *r, size_t len,
    const char **out, size_t *out_len, hymt_error_t *err);


#endif /* HYMT_PROMPT_PRIVATE_H */
