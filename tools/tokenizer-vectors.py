#!/usr/bin/env python3
"""Compare the tokenizer and the prompts with Hugging Face's, or write test vectors.

  tokenizer-vectors.py --check 200000 build/tokenize-lines
      generates texts in many scripts, adversarial Unicode among them, and
      compares ids
  tokenizer-vectors.py --write t/data/tokenizer.txt
      writes lines of "text in hexadecimal, tab, ids" for t/unit/tokenizer_test.c
  tokenizer-vectors.py --prompts t/data/prompts.txt
      writes lines of "family, source, target, terms, context, style, 1 where
      the text is formatted, text, ids" for t/unit/prompt_vectors_test.c, texts
      in hexadecimal, through transformers' apply_chat_template
  tokenizer-vectors.py --chats t/data/chats.txt
      writes lines of "template, chat, text of the prompt, ids or -", in
      hexadecimal, the chat as engine/job_parts.h writes it

Needs the package tokenizers; --prompts and --chats also transformers and jinja2.

In user text no added token may match, so the comparison uses the model's
tokenizer.json without its added_tokens.
"""

import argparse
import json
import os
import random
import subprocess
import sys

# first and last code points of scripts and of trouble
BLOCKS = [
    (0x20, 0x7e), (0x00, 0x1f), (0x7f, 0xa0), (0xa1, 0xff), (0x100, 0x24f), (0x250, 0x2ff), (0x300, 0x36f),
    (0x370, 0x3ff), (0x400, 0x52f), (0x530, 0x58f), (0x590, 0x5ff), (0x600, 0x6ff), (0x700, 0x74f), (0x780, 0x7bf),
    (0x8a0, 0x8ff), (0x900, 0x97f), (0x980, 0x9ff), (0xa80, 0xaff), (0xb80, 0xbff), (0xc00, 0xc7f), (0xd00, 0xd7f),
    (0xe00, 0xe7f), (0xe80, 0xeff), (0xf00, 0xfff), (0x1000, 0x109f), (0x10a0, 0x10ff), (0x1100, 0x11ff),
    (0x1200, 0x137f), (0x13a0, 0x13ff), (0x1680, 0x169f), (0x1780, 0x17ff), (0x1800, 0x18af), (0x1ab0, 0x1aff),
    (0x1c80, 0x1c8f), (0x1e00, 0x1eff), (0x1f00, 0x1fff), (0x2000, 0x206f), (0x2070, 0x209f), (0x20a0, 0x20ff),
    (0x2100, 0x214f), (0x2150, 0x218f), (0x2190, 0x23ff), (0x2400, 0x24ff), (0x2500, 0x27bf), (0x2c00, 0x2c5f),
    (0x2e80, 0x2fdf), (0x2ff0, 0x2fff), (0x3000, 0x303f), (0x3040, 0x30ff), (0x3100, 0x318f), (0x31c0, 0x31ef),
    (0x3200, 0x33ff), (0x3400, 0x4dbf), (0x4e00, 0x9fff), (0xa000, 0xa4cf), (0xa640, 0xa69f), (0xa720, 0xa7ff),
    (0xa840, 0xa87f), (0xac00, 0xd7a3), (0xd7b0, 0xd7ff), (0xe000, 0xe0ff), (0xf900, 0xfaff), (0xfb00, 0xfb4f),
    (0xfb50, 0xfdff), (0xfe00, 0xfe0f), (0xfe20, 0xfe6f), (0xfe70, 0xfeff), (0xff00, 0xffef), (0xfff0, 0xffff),
    (0x10000, 0x100ff), (0x10300, 0x103ff), (0x10400, 0x104ff), (0x10500, 0x105ff), (0x10d00, 0x10eff),
    (0x11000, 0x1107f), (0x11200, 0x1124f), (0x11380, 0x113ff), (0x11f00, 0x11fff), (0x12000, 0x123ff),
    (0x13000, 0x1345f), (0x13460, 0x1347f), (0x16100, 0x1613f), (0x16d40, 0x16d7f), (0x1b000, 0x1b16f),
    (0x1cc00, 0x1ceb3), (0x1d100, 0x1d1ff), (0x1d2c0, 0x1d2ff), (0x1d400, 0x1d7ff), (0x1e030, 0x1e08f),
    (0x1e4d0, 0x1e5ff), (0x1f000, 0x1f0ff), (0x1f100, 0x1f2ff), (0x1f300, 0x1f64f), (0x1f680, 0x1f8ff),
    (0x1f900, 0x1faff), (0x1fb00, 0x1fbff), (0x20000, 0x2a6df), (0x2ebf0, 0x2ee5f), (0x30000, 0x323af),
    (0xe0000, 0xe01ef), (0xf0000, 0xf00ff), (0x10ff00, 0x10ffff),
]

HARD = [
    "\x00", "\x85", "\xa0", "\xad", "\u0130", "\u0131", "\u017f", "\u0301", "\u0316", "\u0345", "\u034f", "\u061c",
    "\u0e33", "\u0f0b", "\u0f71\u0f72", "\u1160", "\u115f", "\u1680", "\u180e", "\u200b", "\u200c", "\u200d", "\u200e",
    "\u2028", "\u2029", "\u202f", "\u205f", "\u2060", "\u2066", "\u212a", "\u3000", "\u3099", "\u30fb", "\u30fc",
    "\u3164", "\ua9c0", "\uac00", "\u1112\u1161\u11ab", "\ufb01", "\ufdfa", "\ufe0f", "\ufeff", "\uff10", "\uff21",
    "\uff5c", "\uffa0", "\uffff", "\U0001d165", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U000e0001", "\U0010ffff", "\u0378", "\u2fe0", "\U0001ccf0",
    "\U0002ebf0", "e\u0301", "A\u030a", "\u1e9b\u0323", "\u00bd", "\u2460", "\u0660\u0661\u0662\u0663", "\u096a",
    " ", "  ", "\n", "\r\n", "\r", "\t", "\n\n\n", "\v", "\f", " \n ", "   x", "'s", "'S", "'\u017f", "'ll", "'LL", "'t",
    "'d", "'\u1e9e", "1", "12", "1234567", "3.14", "$", "...", "!?", "(", ")", "<", ">", "/", "\\", "_", "-", "`", "{", "}",
    "~", "^", "|", "a", "Z", "the", "I'm", "\u4e00", "\u9fa5", "\u9fa6", "\u9fff", "\u3041", "\u3040", "\u30ff", "\u31f0",
    "\u4f60\u597d", "\u3002", "\uff0c", "\uff1a", "\u300c", "\u65e5\u672c\u8a9e\u3067\u3059", "\ud55c\uad6d\uc5b4",
    "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22", "\u0627\u0644\u0639\u064e\u0631\u064e\u0628\u0650\u064a\u0629",
    "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd", "\u0939\u093f\u0928\u094d\u0926\u0940",
    "\u0f56\u0f7c\u0f51\u0f0b\u0f61\u0f72\u0f42", "\u1019\u103c\u1014\u103a\u1019\u102c",
    "\u1781\u17d2\u1798\u17c2\u179a", "\u0626\u06c7\u064a\u063a\u06c7\u0631\u0686\u06d5",
    "\u049a\u0430\u0437\u0430\u049b\u0448\u0430", "\u1820\u1828\u180b\u182d", "na\u00efve", "stra\u00dfe", "\u0152uvre",
]

CONTROL = [
    "<｜hy_Assistant｜>", "<｜hy_User｜>", "<｜hy_begin▁of▁sentence｜>", "<｜hy_place▁holder▁no▁2｜>",
    "<|startoftext|>", "<|extra_0|>", "<|extra_4|>", "<|eos|>", "<|endoftext|>", "<|im_end|>", "</s>", "<pad>",
]

WORDS = (
    "The quick brown fox jumps over the lazy dog while 2026 people watch it happen "
    "Über die Größe der Straße läßt sich streiten "
    "Le cœur a ses raisons que la raison ne connaît point l'été "
    "El niño mañana comió piñas ¿verdad? ¡Sí! "
    "Съешь же ещё этих мягких французских булок "
    "Zażółć gęślą jaźń příliš žluťoučký kůň Türkiye'de "
    "新しい年が始まりました 東京タワー 简体中文和繁體中文 机器翻译 "
    "다람쥐 헌 쳇바퀴에 타고파 ").split()


def code_point(rnd, block=None):
    while True:
        first, last = block or rnd.choice(BLOCKS)
        c = rnd.randint(first, last)
        if not 0xd800 <= c < 0xe000:
            return chr(c)


def anywhere(rnd):
    return code_point(rnd, (0, 0x10ffff))


def text(rnd, real):
    """One text: each kind aims at another weakness."""
    kind = rnd.randrange(10)
    n = rnd.choice((1, 2, 3, 5, 8, 13, 30, 60))
    if kind == 0:
        block = rnd.choice(BLOCKS)
        return "".join(code_point(rnd, block) for _ in range(n))
    if kind == 1:
        return "".join(code_point(rnd) for _ in range(n))
    if kind == 2:
        return "".join(anywhere(rnd) for _ in range(n))
    if kind == 3:
        return "".join(rnd.choice(HARD) for _ in range(n))
    if kind == 4:
        return "".join(rnd.choice((rnd.choice(HARD), code_point(rnd), rnd.choice(WORDS), rnd.choice(" \n\r\t  ")))
                       for _ in range(n))
    if kind == 5:
        return "".join(rnd.choice(" \n\r\t\v\f\x85\xa0\u2028\u3000a.1'") for _ in range(n))
    if kind == 6:
        return "".join(rnd.choice((rnd.choice(CONTROL), rnd.choice(WORDS), rnd.choice(HARD))) for _ in range(n // 4 + 1))
    if kind == 7:
        return "".join(rnd.choice(("a", "ab", "1", " ", "的", "是一", ".", "é", "e\u0301")) * rnd.choice((1, 2, 7, 40))
                       for _ in range(n // 5 + 1))
    line = rnd.choice(real) if real else " ".join(rnd.choice(WORDS) for _ in range(n))
    if kind == 8:
        return line
    at = rnd.randint(0, len(line))
    return line[:at] + rnd.choice(HARD) + rnd.choice(CONTROL + HARD) + line[at:]


def plain_tokenizer(model):
    from tokenizers import Tokenizer
    with open(os.path.join(model, "tokenizer.json"), encoding="utf-8") as f:
        data = json.load(f)
    data["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(data))


def header(model):
    size = os.path.getsize(os.path.join(model, "tokenizer.json"))
    return f"# {model}/tokenizer.json {size} bytes\n"


def batches(rnd, real, count, size=10000):
    while count > 0:
        n = min(size, count)
        yield [text(rnd, real) for _ in range(n)]
        count -= n


def check(args, rnd, real):
    tok = plain_tokenizer(args.model)
    done = wrong = 0
    for texts in batches(rnd, real, args.check):
        want = [" ".join(map(str, e.ids)) for e in tok.encode_batch(texts, add_special_tokens=False)]
        got = subprocess.run([args.program, args.model], check=True, stdout=subprocess.PIPE,
                             input="".join(t.encode().hex() + "\n" for t in texts).encode()).stdout.decode()
        got = got.split("\n")[:-1]
        assert len(got) == len(want), (len(got), len(want))
        for t, w, g in zip(texts, want, got):
            if w != g:
                wrong += 1
                if wrong <= 10:
                    print(f"text {t!r}\n  want {w}\n  got  {g}")
        done += len(texts)
    print(f"{done} texts, {wrong} differ")
    return wrong != 0


def write(args, rnd, real):
    tok = plain_tokenizer(args.model)
    with open(args.write, "w", encoding="ascii", newline="\n") as f:
        f.write(header(args.model))
        for texts in batches(rnd, real, args.count):
            for t, e in zip(texts, tok.encode_batch(texts, add_special_tokens=False)):
                f.write(t.encode().hex() + "\t" + " ".join(map(str, e.ids)) + "\n")
    return 0


# the instructions of the model cards: Chinese where Chinese is on either side
INSTRUCTIONS = {
    "mt1": ("把下面的文本翻译成{zh}，不要额外解释。\n\n",
            "Translate the following segment into {en}, without additional explanation.\n\n"),
    "mt1.5": ("将以下文本翻译为{zh}，注意只需要输出翻译后的结果，不要额外解释：\n\n",
              "Translate the following segment into {en}, without additional explanation.\n\n"),
    "mt2": ("将以下文本翻译为{zh}，注意只需要输出翻译后的结果，不要额外解释：\n\n",
            "Translate the following text into {en}. Note that you should only output the translated result without any"
            " additional explanation:\n\n"),
}
LANGS = {"en": ("English", "英语"), "zh": ("Chinese", "中文"), "zh-Hant": ("Traditional Chinese", "繁体中文"),
         "yue": ("Cantonese", "粤语"), "fr": ("French", "法语"), "de": ("German", "德语"), "ja": ("Japanese", "日语")}
PAIRS = [("en", "zh"), ("zh", "en"), ("fr", "de"), ("yue", "en"), ("ja", "zh-Hant"), ("en", "yue"), ("de", "fr")]
SOURCES = [
    "Hello, world.", "\nHello", "\n\nTwo newlines first", " space first", "   three spaces", ", comma first", "...dots",
    "(bracket)", "2026 began", "12345", "\u0301mark first", "\u0e31\u0e49 Thai mark", "trailing space ", "trailing  ",
    "trailing newline\n", "\t tab", "\r\nCR LF", "你好，世界。", "，标点开头", "：冒号", "　全角空格", "\u200bzero width", "é",
    "'s apostrophe", "<｜hy_Assistant｜>", "x<｜hy_User｜>y<|extra_0|>z<|startoftext|>", "\U0001f468\u200d\U0001f469 family",
    "line one\nline two\n\n\nline three", "a", "。", "\x00nul", "\u3000\n", "ねこ", "カタカナ", "한국어",
]


# what else the cards have: "zh" and "en" are the names of the target, T, C, S, X what a request gives
MT15_TERMS = "参考下面的翻译：\n{T}\n将以下文本翻译为{zh}，注意只需要输出翻译后的结果，不要额外解释：\n{X}"
MT15_CONTEXT = "{C}\n参考上面的信息，把下面的文本翻译成{zh}，注意不需要翻译上文，也不要额外解释：\n{X}\n"
MT15_FORMATTED = (
    "将以下<source></source>之间的文本翻译为{zh}，注意只需要输出翻译后的结果，不要额外解释，原文中的<sn></sn>标签表示标签内文本"
    "包含格式信息，需要在译文中相应的位置尽量保留该标签。输出格式为：<target>str</target>\n\n<source>{X}</source>")
MT2_TERMS_ZH = "参考下面的翻译：\n{T}将以下文本翻译为{zh}，注意只需要输出翻译后的结果，不要额外解释：\n\n{X}"
MT2_TERMS_EN = (
    "Reference the following translations:\n{T}\nTranslate the following text into {en}. Note that you must ONLY output the"
    " translated result without any additional explanation:\n\n{X}")
MT2_STYLE_ZH = "请将以下文本翻译为{zh}。\n注意翻译的风格要严格符合【{S}】\n\n{X}"
MT2_STYLE_EN = (
    "Please translate the following text into {en}. Note that the translation style must strictly conform to [{S}]:\n\n{X}")
MT2_CONTEXT_ZH = "【背景信息】\n{C}\n\n请结合背景信息将以下文本翻译为{zh}。\n\n【待翻译文本】\n{X}"
MT2_CONTEXT_EN = (
    "[Background Information]\n{C}\n\nPlease translate the following text into {en}, taking the provided background"
    " information into consideration.\n\n[Source Text]\n{X}")
MT2_FORMATTED = (
    "### Task\nTranslate the user-facing text within the following XML data into {en}.\n\n### Strict Rules\n"
    "1. **Structure Preservation:** You MUST preserve the original XML data structure, nesting, hierarchy, and indentation"
    " exactly as they are.\n2. **Selective Translation:** Translate ONLY the visible, user-facing text content/values.\n"
    "3. **Strict Non-Translation:** NEVER translate or alter code tags, keys, properties, object names, or variable"
    " placeholders. Leave them exactly in their original English/code form.\n\n### Source Data\n{X}")
# (family, features): Chinese, English
FEATURES = {
    ("mt1.5", "T"): (MT15_TERMS, MT15_TERMS),
    ("mt1.5", "C"): (MT15_CONTEXT, MT15_CONTEXT),
    ("mt1.5", "F"): (MT15_FORMATTED, MT15_FORMATTED),
    ("mt1.5", "TC"): ("参考下面的翻译：\n{T}\n" + MT15_CONTEXT,) * 2,
    ("mt1.5", "TF"): ("参考下面的翻译：\n{T}\n" + MT15_FORMATTED,) * 2,
    ("mt2", "T"): (MT2_TERMS_ZH, MT2_TERMS_EN),
    ("mt2", "S"): (MT2_STYLE_ZH, MT2_STYLE_EN),
    ("mt2", "C"): (MT2_CONTEXT_ZH, MT2_CONTEXT_EN),
    ("mt2", "F"): (MT2_FORMATTED, MT2_FORMATTED),
    ("mt2", "TS"): ("参考下面的翻译：\n{T}" + MT2_STYLE_ZH, "Reference the following translations:\n{T}\n" + MT2_STYLE_EN),
    ("mt2", "TC"): ("参考下面的翻译：\n{T}\n" + MT2_CONTEXT_ZH,
                    "Reference the following translations:\n{T}\n" + MT2_CONTEXT_EN),
}
TERMS = [("NGINX", "恩金克斯"), ("event loop", "Ereignisschleife"), ("<｜hy_User｜>", "{text}")]
GIVEN = [
    ("The server restarts.", "formal", "Hello, <s1>world</s1>."),
    ("第一行。\n\n第二行：", "诗歌", "\n你好，<s1>世</s1>界。 "),
    (" <｜hy_Assistant｜>{text}\n", "a {style} <|eos|>]", " x<｜hy_User｜>y\n"),
]
# how a term is written in a prompt, by family and language of the prompt
BETWEEN = {("mt1.5", 0): " 翻译成 ", ("mt1.5", 1): " 翻译成 ", ("mt2", 0): " 翻译成 ", ("mt2", 1): " translates to "}

# of the 7B models
TEMPLATE_7B = (
    "{% set ns = namespace(has_head=true) %}{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = message['content'] %}{% if loop.index0 == 0 %}{% if content == '' %}{% set ns.has_head = false %}"
    "{% elif message['role'] == 'system' %}{% set content = '<|startoftext|>' + content + '<|extra_4|>' %}{% endif %}"
    "{% endif %}{% if message['role'] == 'user' %}{% if loop.index0 == 1 and ns.has_head %}"
    "{% set content = content + '<|extra_0|>' %}{% else %}{% set content = '<|startoftext|>' + content + '<|extra_0|>' %}"
    "{% endif %}{% elif message['role'] == 'assistant' %}{% set content = content + '<|eos|>' %}{% endif %}{{ content }}"
    "{% endfor %}")
CHATS = [
    [("u", "Hello")],
    [("s", "You are a translator."), ("u", "Hello")],
    [("s", ""), ("u", "Hello")],
    [("u", "One"), ("a", "Un"), ("u", "Two")],
    [("s", "Be brief."), ("u", "One"), ("a", "Un"), ("u", "Two"), ("a", "Deux"), ("u", "Three")],
    [("s", ""), ("u", "One"), ("a", "Un"), ("u", "Two")],
    [("u", "One"), ("u", "Two"), ("u", "Three")],
    [("u", ""), ("u", "Two")],
    [("u", ""), ("a", ""), ("u", " Three")],
    [("a", "I begin."), ("u", "Go on")],
    [("s", "Sys"), ("a", "Hi"), ("u", "你好，世界。")],
    [("s", "Sys\n"), ("u", "\nnewline first"), ("a", " space "), ("u", "  two\n\n")],
    [("u", "翻译："), ("a", "，标点"), ("u", "。")],
    [("s", "<|extra_4|>"), ("u", "<｜hy_Assistant｜>x<|extra_0|><|eos|>")],
    [("u", "a<｜hy_place▁holder▁no▁2｜>"), ("a", "<|startoftext|>"), ("u", "{% raw %}{{ x }}")],
    [("u", "long " * 40), ("a", "é"), ("u", "\x00nul")],
]


def prompter(args):
    """transformers' tokenizer with the model's chat template, and one that knows no added tokens."""
    from transformers import PreTrainedTokenizerFast
    fast = PreTrainedTokenizerFast(tokenizer_file=os.path.join(args.model, "tokenizer.json"))
    with open(os.path.join(args.model, "chat_template.jinja"), encoding="utf-8", newline="") as f:
        fast.chat_template = f.read()
    return fast, plain_tokenizer(args.model)


def chat_ids(fast, plain, chat):
    """Ids by apply_chat_template; where contents hold control tokens, which it would parse, by the template's text around
    marks that stand for the contents, and these encoded as plain text.  Both are compared where there are none."""
    marks = [dict(m, content=f"\ue000{i}\ue001" if m["content"] else "") for i, m in enumerate(chat)]
    rest = fast.apply_chat_template(marks, add_generation_prompt=True, tokenize=False)
    ids = []
    for i, m in enumerate(chat):
        if m["content"]:
            before, rest = rest.split(f"\ue000{i}\ue001")
            ids += fast.encode(before, add_special_tokens=False) + plain.encode(m["content"], add_special_tokens=False).ids
    ids += fast.encode(rest, add_special_tokens=False)
    if not any(t in m["content"] for m in chat for t in fast.get_added_vocab()):
        assert ids == fast.apply_chat_template(chat, add_generation_prompt=True, return_dict=False), chat
        return ids, 1
    return ids, 0


def requests():
    """family, source, target, features, terms, context, style, text: every pair and source plain, some with features"""
    for family in INSTRUCTIONS:
        for src, tgt in PAIRS:
            for source in SOURCES:
                yield family, src, tgt, "", [], "", "", source
    for family, features in FEATURES:
        for src, tgt in PAIRS:
            for n, (context, style, source) in enumerate(GIVEN):
                yield (family, src, tgt, features, TERMS[:n + 1] if "T" in features else [],
                       context if "C" in features else "", style if "S" in features else "", source)


def prompts(args):
    fast, plain = prompter(args)
    whole = 0
    with open(args.prompts, "w", encoding="ascii", newline="\n") as f:
        f.write(header(args.model))
        for family, src, tgt, features, terms, context, style, source in requests():
            en = not any(x.startswith("zh") or x == "yue" for x in (src, tgt))
            if features:
                form = FEATURES[family, features][en]
            else:
                form = INSTRUCTIONS[family][en] + "{X}"
            lines = "".join(a + BETWEEN[family, en] + b + "\n" for a, b in terms)
            content = form.format(en=LANGS[tgt][0], zh=LANGS[tgt][1], T=lines, C=context, S=style, X=source)
            ids, n = chat_ids(fast, plain, [{"role": "user", "content": content}])
            whole += n
            part = "".join(a + "\t" + b + "\n" for a, b in terms)
            f.write("\t".join((family, src, tgt, part.encode().hex(), context.encode().hex(), style.encode().hex(),
                               str(int("F" in features)), source.encode().hex(), " ".join(map(str, ids)))) + "\n")
    print(f"{whole} prompts through apply_chat_template as a whole")
    return 0


def chats(args):
    fast, plain = prompter(args)
    roles = {"s": "system", "u": "user", "a": "assistant"}
    with open(args.chats, "w", encoding="ascii", newline="\n") as f:
        f.write(header(args.model))
        for name, template in (("small", fast.chat_template), ("7b", TEMPLATE_7B)):
            fast.chat_template = template
            for turns in CHATS:
                chat = [{"role": roles[r], "content": c} for r, c in turns]
                part = b"".join(b"%s %d\n%s" % (r.encode(), len(c.encode()), c.encode()) for r, c in turns)
                text = fast.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
                ids = " ".join(map(str, chat_ids(fast, plain, chat)[0])) if name == "small" else "-"
                f.write("\t".join((name, part.hex(), text.encode().hex(), ids)) + "\n")
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default="models/demo", help="model directory (default %(default)s)")
    p.add_argument("--check", type=int, metavar="N", help="texts to compare")
    p.add_argument("program", nargs="?", help="build/tokenize-lines, for --check")
    p.add_argument("--write", metavar="FILE", help="write text vectors")
    p.add_argument("--count", type=int, default=2000, help="how many (default %(default)s)")
    p.add_argument("--prompts", metavar="FILE", help="write prompt vectors")
    p.add_argument("--chats", metavar="FILE", help="write chat vectors")
    p.add_argument("--real", metavar="FILE", help="real text, one a line, to mix in")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()

    real = []
    if args.real:
        with open(args.real, encoding="utf-8", errors="ignore") as f:
            real = [line.rstrip("\n") for line in f if line.strip()]
    rnd = random.Random(args.seed)

    if args.check and args.program:
        return check(args, rnd, real)
    if args.write:
        return write(args, rnd, real)
    if args.prompts:
        return prompts(args)
    if args.chats:
        return chats(args)
    p.error("one of --check N PROGRAM, --write, --prompts, --chats is needed")


if __name__ == "__main__":
    sys.exit(main())
