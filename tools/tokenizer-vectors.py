#!/usr/bin/env python3
"""Compare the tokenizer and the prompts with Hugging Face's, or write test vectors.

  tokenizer-vectors.py --check 200000 build/tokenize-lines
      generates texts in many scripts, adversarial Unicode among them, and
      compares ids
  tokenizer-vectors.py --write t/data/tokenizer.txt
      writes lines of "text in hexadecimal, tab, ids" for t/unit/tokenizer_test.c
  tokenizer-vectors.py --prompts t/data/prompts.txt
      writes lines of "family, source, target, text in hexadecimal, ids" for
      t/unit/prompt_test.c, through transformers' apply_chat_template

Needs the package tokenizers; --prompts also transformers and jinja2.

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


def prompts(args):
    """Ids by transformers: the rendered text with the user's control tokens broken up cannot be tokenised at once, so
    control tokens inside the user's text are encoded as plain text and spliced between the template's."""
    from transformers import PreTrainedTokenizerFast
    fast = PreTrainedTokenizerFast(tokenizer_file=os.path.join(args.model, "tokenizer.json"))
    with open(os.path.join(args.model, "chat_template.jinja"), encoding="utf-8", newline="") as f:
        fast.chat_template = f.read()
    plain = plain_tokenizer(args.model)
    whole = 0
    with open(args.prompts, "w", encoding="ascii", newline="\n") as f:
        f.write(header(args.model))
        for family, (chinese, english) in INSTRUCTIONS.items():
            for src, tgt in PAIRS:
                for source in SOURCES:
                    zh = any(x.startswith("zh") or x == "yue" for x in (src, tgt))
                    content = (chinese if zh else english).format(en=LANGS[tgt][0], zh=LANGS[tgt][1]) + source
                    chat = [{"role": "user", "content": content}]
                    if any(t in source for t in fast.get_added_vocab()):
                        ids = fast.apply_chat_template([{"role": "user", "content": ""}], add_generation_prompt=True,
                                                       return_dict=False)
                        assert len(ids) == 3
                        ids[2:2] = plain.encode(content, add_special_tokens=False).ids
                    else:
                        ids = fast.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
                        whole += 1
                    f.write("\t".join((family, src, tgt, source.encode().hex(), " ".join(map(str, ids)))) + "\n")
    print(f"{whole} prompts through apply_chat_template as a whole")
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default="models/demo", help="model directory (default %(default)s)")
    p.add_argument("--check", type=int, metavar="N", help="texts to compare")
    p.add_argument("program", nargs="?", help="build/tokenize-lines, for --check")
    p.add_argument("--write", metavar="FILE", help="write text vectors")
    p.add_argument("--count", type=int, default=2000, help="how many (default %(default)s)")
    p.add_argument("--prompts", metavar="FILE", help="write prompt vectors")
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
    p.error("one of --check N PROGRAM, --write, --prompts is needed")


if __name__ == "__main__":
    sys.exit(main())
