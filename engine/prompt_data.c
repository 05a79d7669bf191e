/*
 * prompt_data.c - chat templates and instructions, word for word as the
 * models' cards and tokenizers give them.  A new family is a row here.
 */

#include "prompt_private.h"


const hymt_template_t  hymt_templates[] = {
    {
        /* 0.5B to 4B: the generation prompt opens the assistant's turn */

        "hunyuan-small",
        {
            [HYMT_MARK_BEGIN] = "<｜hy_begin▁of▁sentence｜>",
            [HYMT_MARK_SYSTEM_END] = "<｜hy_place▁holder▁no▁3｜>",
            [HYMT_MARK_USER] = "<｜hy_User｜>",
            [HYMT_MARK_ASSISTANT] = "<｜hy_Assistant｜>",
            [HYMT_MARK_ASSISTANT_END] = "<｜hy_place▁holder▁no▁2｜>",
            [HYMT_MARK_ASK] = "<｜hy_Assistant｜>",
        },
        {
            "<｜hy_place▁holder▁no▁2｜>", "<｜hy_end▁of▁sentence｜>",
            "<｜hy_place▁holder▁no▁8｜>", "<｜hy_EOT｜>"
        },
        false,
    },
    {
        /* 7B: one token ends the user's turn and asks for the answer */

        "hunyuan-7b",
        {
            [HYMT_MARK_SYSTEM] = "<|startoftext|>",
            [HYMT_MARK_SYSTEM_END] = "<|extra_4|>",
            [HYMT_MARK_USER] = "<|startoftext|>",
            [HYMT_MARK_USER_END] = "<|extra_0|>",
            [HYMT_MARK_ASSISTANT_END] = "<|eos|>",
        },
        { "<|eos|>", "<|extra_5|>", "<|endoftext|>" },
        true,
    },
};

const size_t  hymt_n_templates = hymt_nelts(hymt_templates);


#define HYMT_T  HYMT_FEATURE_TERMS
#define HYMT_C  HYMT_FEATURE_CONTEXT
#define HYMT_S  HYMT_FEATURE_STYLE
#define HYMT_F  HYMT_FEATURE_FORMATTED


/* ---- mt1.5 ---- */

#define MT15_TERMS                                                            \
    "参考下面的翻译：\n{terms}\n"

#define MT15_ONLY                                                             \
    "将以下文本翻译为{target_zh}，注意只需要输出翻译后的结果，"               \
    "不要额外解释：\n"

/* the card has a line end after the text of this one */

#define MT15_CONTEXT                                                          \
    "{context}\n参考上面的信息，把下面的文本翻译成{target_zh}，"              \
    "注意不需要翻译上文，也不要额外解释：\n{text}\n"

#define MT15_TAGS                                                             \
    "原文中的<sn></sn>标签表示标签内文本包含格式信息，"                       \
    "需要在译文中相应的位置尽量保留该标签。"                                  \
    "输出格式为：<target>str</target>\n\n<source>{text}</source>"

#define MT15_FORMATTED                                                        \
    "将以下<source></source>之间的文本翻译为{target_zh}，"                    \
    "注意只需要输出翻译后的结果，不要额外解释，" MT15_TAGS

#define MT15_CONTEXT_FORMATTED                                                \
    "{context}\n参考上面的信息，"                                             \
    "将以下<source></source>之间的文本翻译为{target_zh}，"                    \
    "注意不需要翻译上文，只需要输出翻译后的结果，不要额外解释，" MT15_TAGS

#define MT15_FEATURES                                                         \
    [HYMT_T] = MT15_TERMS MT15_ONLY "{text}",                                 \
    [HYMT_C] = MT15_CONTEXT,                                                  \
    [HYMT_F] = MT15_FORMATTED,                                                \
    [HYMT_T|HYMT_C] = MT15_TERMS MT15_CONTEXT,                                \
    [HYMT_T|HYMT_F] = MT15_TERMS MT15_FORMATTED,                              \
    [HYMT_C|HYMT_F] = MT15_CONTEXT_FORMATTED,                                 \
    [HYMT_T|HYMT_C|HYMT_F] = MT15_TERMS MT15_CONTEXT_FORMATTED


/* ---- mt2 ---- */

/* in Chinese no empty line follows the terms alone */

#define MT2_TERMS_ZH                                                          \
    "参考下面的翻译：\n{terms}"

#define MT2_TERMS_EN                                                          \
    "Reference the following translations:\n{terms}\n"

#define MT2_PLAIN_ZH                                                          \
    "将以下文本翻译为{target_zh}，注意只需要输出翻译后的结果，"               \
    "不要额外解释：\n\n{text}"

#define MT2_STYLE_ZH                                                          \
    "请将以下文本翻译为{target_zh}。\n"                                       \
    "注意翻译的风格要严格符合【{style}】\n\n{text}"

#define MT2_STYLE_EN                                                          \
    "Please translate the following text into {target}. Note that the"        \
    " translation style must strictly conform to [{style}]:\n\n{text}"

#define MT2_BACKGROUND_ZH                                                     \
    "【背景信息】\n{context}\n\n"

#define MT2_BACKGROUND_EN                                                     \
    "[Background Information]\n{context}\n\n"

#define MT2_CONTEXT_ZH                                                        \
    MT2_BACKGROUND_ZH "请结合背景信息将以下文本翻译为{target_zh}。\n\n"       \
    "【待翻译文本】\n{text}"

#define MT2_CONTEXT_EN                                                        \
    MT2_BACKGROUND_EN "Please translate the following text into {target},"    \
    " taking the provided background information into consideration.\n\n"     \
    "[Source Text]\n{text}"

#define MT2_CONTEXT_STYLE_ZH                                                  \
    MT2_BACKGROUND_ZH "请结合背景信息将以下文本翻译为{target_zh}。\n"         \
    "注意翻译的风格要严格符合【{style}】\n\n【待翻译文本】\n{text}"

#define MT2_CONTEXT_STYLE_EN                                                  \
    MT2_BACKGROUND_EN "Please translate the following text into {target},"    \
    " taking the provided background information into consideration. Note"    \
    " that the translation style must strictly conform to [{style}].\n\n"     \
    "[Source Text]\n{text}"

/* the card's Chinese wording of this has the text inside a sentence */

#define MT2_FORMATTED                                                         \
    "### Task\nTranslate the user-facing text within the following XML data"  \
    " into {target}.\n\n"                                                     \
    "### Strict Rules\n"                                                      \
    "1. **Structure Preservation:** You MUST preserve the original XML data"  \
    " structure, nesting, hierarchy, and indentation exactly as they are.\n"  \
    "2. **Selective Translation:** Translate ONLY the visible, user-facing"   \
    " text content/values.\n"                                                 \
    "3. **Strict Non-Translation:** NEVER translate or alter code tags, keys,"\
    " properties, object names, or variable placeholders. Leave them exactly" \
    " in their original English/code form.\n\n"                               \
    "### Source Data\n{text}"


const hymt_instruction_t  hymt_instructions[HYMT_FAMILY_MT2 + 1] = {

    [HYMT_FAMILY_AUTO] = { .name = "auto" },

    [HYMT_FAMILY_MT1] = {
        .name = "mt1",
        .chinese = {
            [0] = "把下面的文本翻译成{target_zh}，不要额外解释。\n\n{text}",
        },
        .english = {
            [0] = "Translate the following segment into {target}, without"
                  " additional explanation.\n\n{text}",
        },
    },

    [HYMT_FAMILY_MT15] = {
        .name = "mt1.5",
        .term_zh = " 翻译成 ",
        .term_en = " 翻译成 ",
        .target_tag = "target",
        .chinese = {
            [0] = MT15_ONLY "\n{text}",
            MT15_FEATURES,
        },
        .english = {
            [0] = "Translate the following segment into {target}, without"
                  " additional explanation.\n\n{text}",
            MT15_FEATURES,
        },
    },

    [HYMT_FAMILY_MT2] = {
        .name = "mt2",
        .term_zh = " 翻译成 ",
        .term_en = " translates to ",
        .chinese = {
            [0] = MT2_PLAIN_ZH,
            [HYMT_T] = MT2_TERMS_ZH MT2_PLAIN_ZH,
            [HYMT_C] = MT2_CONTEXT_ZH,
            [HYMT_S] = MT2_STYLE_ZH,
            [HYMT_F] = MT2_FORMATTED,
            [HYMT_T|HYMT_C] = MT2_TERMS_ZH "\n" MT2_CONTEXT_ZH,
            [HYMT_T|HYMT_S] = MT2_TERMS_ZH MT2_STYLE_ZH,
            [HYMT_T|HYMT_F] = MT2_TERMS_EN MT2_FORMATTED,
            [HYMT_C|HYMT_S] = MT2_CONTEXT_STYLE_ZH,
            [HYMT_C|HYMT_F] = MT2_BACKGROUND_EN MT2_FORMATTED,
            [HYMT_T|HYMT_C|HYMT_S] = MT2_TERMS_ZH "\n" MT2_CONTEXT_STYLE_ZH,
            [HYMT_T|HYMT_C|HYMT_F] = MT2_TERMS_EN MT2_BACKGROUND_EN
                                     MT2_FORMATTED,
        },
        .english = {
            [0] = "Translate the following text into {target}. Note that you"
                  " should only output the translated result without any"
                  " additional explanation:\n\n{text}",
            [HYMT_T] = MT2_TERMS_EN "Translate the following text into"
                       " {target}. Note that you must ONLY output the"
                       " translated result without any additional explanation:"
                       "\n\n{text}",
            [HYMT_C] = MT2_CONTEXT_EN,
            [HYMT_S] = MT2_STYLE_EN,
            [HYMT_F] = MT2_FORMATTED,
            [HYMT_T|HYMT_C] = MT2_TERMS_EN MT2_CONTEXT_EN,
            [HYMT_T|HYMT_S] = MT2_TERMS_EN MT2_STYLE_EN,
            [HYMT_T|HYMT_F] = MT2_TERMS_EN MT2_FORMATTED,
            [HYMT_C|HYMT_S] = MT2_CONTEXT_STYLE_EN,
            [HYMT_C|HYMT_F] = MT2_BACKGROUND_EN MT2_FORMATTED,
            [HYMT_T|HYMT_C|HYMT_S] = MT2_TERMS_EN MT2_CONTEXT_STYLE_EN,
            [HYMT_T|HYMT_C|HYMT_F] = MT2_TERMS_EN MT2_BACKGROUND_EN
                                     MT2_FORMATTED,
        },
    },
};
