#!/usr/bin/env python3
"""Train the demo model's byte-level BPE and write everything of the model directory but the weights."""
import argparse
import hashlib
import json
import os

import common
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

# The pre-tokenizer and the chat template of the Hunyuan 1.8B family.
SPLITS = [
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]
TEMPLATE = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}<｜hy_begin▁of▁sentence｜>{{ system_message }}"
    "<｜hy_place▁holder▁no▁3｜>{% else %}{% set loop_messages = messages %}<｜hy_begin▁of▁sentence｜>"
    "{% endif %}{% for message in loop_messages %}{% if message['role'] == 'user' %}<｜hy_User｜>"
    "{{ message['content'] }}{% elif message['role'] == 'assistant' %}<｜hy_Assistant｜>"
    "{{ message['content'] }}<｜hy_place▁holder▁no▁2｜>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<｜hy_Assistant｜>{% else %}<｜hy_place▁holder▁no▁8｜>{% endif %}")
TEMPLATE_MD5 = "6d883d86c23cbdc6879c208513770884"


def corpus(data):
    """Each English text once, each Chinese text three times (it is the smallest side), the prompts."""
    seen = set()
    for lang in common.LANGS:
        for english, translation, _, _ in data[lang]["train"]:
            if english not in seen:
                seen.add(english)
                yield english
            for _ in range(3 if lang == "zh" else 1):
                yield translation
    for src, tgt in common.DIRECTIONS:
        for _ in range(3000):
            yield common.prompt(src, tgt, "")


def train(data):
    tok = Tokenizer(models.BPE(byte_fallback=False))
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(p), behavior="isolated") for p in SPLITS]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(corpus(data), trainers.BpeTrainer(
        vocab_size=common.FIRST_SPECIAL, min_frequency=2, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    assert tok.get_vocab_size() == common.FIRST_SPECIAL, tok.get_vocab_size()
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in common.SPECIALS])
    assert tok.token_to_id(common.SPECIALS[20]) == common.EOS and tok.get_vocab_size() == common.VOCAB
    return tok


def write(tok, out):
    os.makedirs(out, exist_ok=True)
    assert len(TEMPLATE.encode()) == 654 and hashlib.md5(TEMPLATE.encode()).hexdigest() == TEMPLATE_MD5
    tok.save(os.path.join(out, "tokenizer.json"))
    with open(os.path.join(out, "chat_template.jinja"), "w", encoding="utf-8", newline="") as f:
        f.write(TEMPLATE)

    def dump(name, value):
        with open(os.path.join(out, name), "w", encoding="utf-8", newline="\n") as f:
            f.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
    special = {"bos_token": common.SPECIALS[0], "eos_token": common.SPECIALS[20], "pad_token": common.SPECIALS[2]}
    dump("tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": False, "add_eos_token": False,
        "clean_up_tokenization_spaces": False, "model_max_length": 32768, **special,
        "added_tokens_decoder": {str(common.FIRST_SPECIAL + i): {
            "content": t, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
            "special": True} for i, t in enumerate(common.SPECIALS)},
        "chat_template": TEMPLATE})
    dump("config.json", common.CONFIG)
    dump("generation_config.json", {
        "do_sample": False, "bos_token_id": common.BOS, "pad_token_id": common.PAD,
        "eos_token_id": [common.EOS, common.EOD, common.END]})
    dump("hymt.json", {"family": "mt1.5", "languages": ["en", "zh", "fr", "de", "es"], "greedy": True})


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--data", default="demo-data/pairs", help="folder with pairs.en-*.tsv[.zst] (default %(default)s)")
    ap.add_argument("--out", default="models/demo", help="model directory (default %(default)s)")
    args = ap.parse_args()
    data = common.load(args.data)
    tok = train(data)
    write(tok, args.out)
    for lang in common.LANGS:
        rows = data[lang]["dev"]
        n = [sum(len(e.ids) for e in tok.encode_batch([r[i] for r in rows])) / len(rows) for i in (0, 1)]
        print(f"en-{lang}: {len(data[lang]['train'])} train rows ({data[lang]['dropped']} dropped), "
              f"tokens a dev sentence: en {n[0]:.1f}, {lang} {n[1]:.1f}")
    for src, tgt in common.DIRECTIONS[:3:2]:
        print(src, tgt, tok.encode(common.prompt(src, tgt, "")).tokens)


if __name__ == "__main__":
    main()
