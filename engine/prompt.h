/*
 * prompt.h - from a text and two languages to the token ids of a prompt.
 *
 * A prompt is data: the family's instruction with its places for the language
 * and the text, inside the chat template of the tokenizer's family, which is
 * recognised by the special tokens present ("<｜hy_User｜>" or
 * "<|startoftext|>").  The ids equal what Hugging Face gives for the whole
 * (apply_chat_template with add_generation_prompt, then the tokenizer without
 * parsing added tokens inside the user's text): only the template's tokens are
 * placed by id, the instruction and the text are tokenised as one string.
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

    /*
     * An instruction that replaces the family's: holds {text} once and may
     * hold {target}, {source} (English names), {target_zh}, {source_zh};
     * NULL: the family's.
     */
    const char       *override;
} hymt_prompt_params_t;


typedef struct hymt_prompter_s  hymt_prompter_t;


/*
 * Fills family, languages and greedy of *p from <dir>/hymt.json where there is
 * one ({"family", "languages", "greedy"}, all optional), else from the
 * directory's name and config->name_or_path; a family already set in *p stays.
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
 * Builds the prompt for text [len] into ids [cap].  src is a language index or
 * HYMT_LANG_NONE (then a Chinese target, or a text that is mostly Han, takes
 * the Chinese instruction, as the model's cards do for zh <-> xx).  *n_text is
 * set to the tokens of the text itself (an estimate good to a token or two at
 * the seam), from which output caps are made.
 */
hymt_status_t hymt_prompt_build(const hymt_prompter_t *prompter,
    hymt_encoder_t *enc, int src, int tgt, const char *text, size_t len,
    uint32_t *ids, size_t cap, size_t *n, size_t *n_text, hymt_error_t *err);


/*
 * Tokens that end the output: the config's, and the template family's by text
 * (only added tokens of the tokenizer that lie inside the vocabulary: some
 * config.json files name ordinary text, such as "$").
 */
const uint32_t *hymt_prompter_stops(const hymt_prompter_t *prompter,
    uint32_t *n);


#endif /* HYMT_PROMPT_H */
