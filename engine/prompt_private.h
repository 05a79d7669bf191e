/*
 * prompt_private.h - prompts as data: chat templates and instructions, see
 * prompt_data.c.
 */

#ifndef HYMT_PROMPT_PRIVATE_H
#define HYMT_PROMPT_PRIVATE_H

#include "prompt.h"


#define HYMT_TEMPLATE_TOKENS  3
#define HYMT_TEMPLATE_STOPS   5


/*
 * What a chat template makes of one user turn with a generation prompt: head,
 * the user's content, tail.  A template is taken for the tokenizer's when all
 * of head and tail are among its added tokens.
 */
typedef struct {
    const char  *name;
    const char  *head[HYMT_TEMPLATE_TOKENS];  /* up to the first NULL */
    const char  *tail[HYMT_TEMPLATE_TOKENS];
    const char  *stops[HYMT_TEMPLATE_STOPS];
} hymt_template_t;

extern const hymt_template_t  hymt_templates[];
extern const size_t           hymt_n_templates;


/* What a family is told, in the form of hymt_prompt_params_t.override. */
typedef struct {
    const char  *name;
    const char  *chinese;   /* where Chinese is on either side */
    const char  *english;
} hymt_instruction_t;

extern const hymt_instruction_t  hymt_instructions[HYMT_FAMILY_MT2 + 1];


#endif /* HYMT_PROMPT_PRIVATE_H */
