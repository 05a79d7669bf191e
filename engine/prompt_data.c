/*
 * prompt_data.c - chat templates and instructions, word for word as the
 * models' cards and tokenizers give them.  A new family is a row here.
 */

#include "prompt_private.h"


const hymt_template_t  hymt_templates[] = {
    {
        /* 0.5B to 4B: the generation prompt opens the assistant's turn */

        "hunyuan-small",
        { "<｜hy_begin▁of▁sentence｜>", "<｜hy_User｜>" },
        { "<｜hy_Assistant｜>" },
        {
            "<｜hy_place▁holder▁no▁2｜>", "<｜hy_end▁of▁sentence｜>",
            "<｜hy_place▁holder▁no▁8｜>", "<｜hy_EOT｜>"
        },
    },
    {
        /* 7B: one token ends the user's turn and asks for the answer */

        "hunyuan-7b",
        { "<|startoftext|>" },
        { "<|extra_0|>" },
        { "<|eos|>", "<|extra_5|>", "<|endoftext|>" },
    },
};

const size_t  hymt_n_templates = hymt_nelts(hymt_templates);


const hymt_instruction_t  hymt_instructions[HYMT_FAMILY_MT2 + 1] = {

    [HYMT_FAMILY_AUTO] = { "auto", NULL, NULL },

    [HYMT_FAMILY_MT1] = {
        "mt1",
        "把下面的文本翻译成{target_zh}，不要额外解释。\n\n{text}",
        "Translate the following segment into {target}, without additional"
        " explanation.\n\n{text}",
    },

    [HYMT_FAMILY_MT15] = {
        "mt1.5",
        "将以下文本翻译为{target_zh}，注意只需要输出翻译后的结果，"
        "不要额外解释：\n\n{text}",
        "Translate the following segment into {target}, without additional"
        " explanation.\n\n{text}",
    },

    [HYMT_FAMILY_MT2] = {
        "mt2",
        "将以下文本翻译为{target_zh}，注意只需要输出翻译后的结果，"
        "不要额外解释：\n\n{text}",
        "Translate the following text into {target}. Note that you should only"
        " output the translated result without any additional explanation:"
        "\n\n{text}",
    },
};
