"""Things the demo model's scripts share: the pair files, the prompts, the special tokens, the shape."""
import io
import os

LANGS = ("zh", "fr", "de", "es")
DIRECTIONS = [d for x in LANGS for d in (("en", x), (x, "en"))]
EN_NAME = {"en": "English", "zh": "Chinese", "fr": "French", "de": "German", "es": "Spanish"}
ZH_NAME = {"en": "英语", "zh": "中文", "fr": "法语", "de": "德语", "es": "西班牙语"}
PROMPT_ZH = "将以下文本翻译为{target_language}，注意只需要输出翻译后的结果，不要额外解释：\n\n{source_text}"
PROMPT_EN = ("Translate the following segment into {target_language}, without additional explanation."
             "\n\n{source_text}")

# Special tokens: the texts, and the places relative to the first one, of the Hunyuan 1.8B family.
VOCAB = 12288
SPECIALS = {0: "<｜hy_begin▁of▁sentence｜>", 1: "<｜hy_end▁of▁sentence｜>", 2: "<｜hy_▁pad▁｜>",
            6: "<｜hy_User｜>", 7: "<｜hy_Assistant｜>", 8: "<｜hy_EOT｜>"}
SPECIALS.update({18 + k: f"<｜hy_place▁holder▁no▁{k}｜>" for k in range(14)})
SPECIALS = [SPECIALS.get(i, f"<｜hy_reserved▁{i}｜>") for i in range(32)]
FIRST_SPECIAL = VOCAB - len(SPECIALS)
BOS, END, PAD, USER, ASSISTANT, EOT = (FIRST_SPECIAL + i for i in (0, 1, 2, 6, 7, 8))
EOS, EOD, SEP = FIRST_SPECIAL + 20, FIRST_SPECIAL + 26, FIRST_SPECIAL + 7

CONFIG = {
    "architectures": ["HunYuanDenseV1ForCausalLM"], "model_type": "hunyuan_v1_dense",
    "vocab_size": VOCAB, "hidden_size": 256, "intermediate_size": 640, "num_hidden_layers": 8,
    "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 128, "attention_head_dim": 128,
    "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0,
    "rms_norm_eps": 1e-05, "use_qk_norm": True, "rope_theta": 10000.0,
    "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32, "beta_slow": 1,
                     "mscale": 1.0, "mscale_all_dim": 1.0},
    "max_position_embeddings": 32768, "tie_word_embeddings": True, "use_cache": True,
    "initializer_range": 0.02, "torch_dtype": "bfloat16", "bos_token_id": BOS, "eos_token_id": EOS,
    "pad_token_id": PAD, "eod_token_id": EOD, "sep_token_id": SEP,
}


def prompt(src, tgt, text):
    """The user message that asks for `text` in language `tgt` (prompt family "mt1.5")."""
    if "zh" in (src, tgt):
        return PROMPT_ZH.format(target_language=ZH_NAME[tgt], source_text=text)
    return PROMPT_EN.format(target_language=EN_NAME[tgt], source_text=text)


def open_pairs(folder, lang):
    """Rows of pairs.en-LANG.tsv or .tsv.zst: split, kind, set, source, doc, english, translation."""
    path = os.path.join(folder, f"pairs.en-{lang}.tsv")
    if os.path.exists(path):
        stream = open(path, encoding="utf-8", newline="\n")
    else:
        import zstandard
        raw = zstandard.ZstdDecompressor().stream_reader(open(path + ".zst", "rb"))
        stream = io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
    with stream:
        for line in stream:
            row = line.rstrip("\n").split("\t")
            if len(row) == 7 and row[0] in ("train", "dev", "test"):
                yield row


def load(folder):
    """{lang: {"train"|"dev"|"test": [(english, translation, kind, source), ...]}}, `core` rows only.

    A train row is dropped when its English is a held-out sentence of any language, or its translation
    is a held-out sentence of its own language.
    """
    rows = {lang: list(open_pairs(folder, lang)) for lang in LANGS}
    held = {r[5] for lang in LANGS for r in rows[lang] if r[0] != "train"}
    out = {}
    for lang in LANGS:
        held_translation = {r[6] for r in rows[lang] if r[0] != "train"}
        out[lang] = {"train": [], "dev": [], "test": []}
        dropped = 0
        for split, kind, set_, source, _, english, translation in rows[lang]:
            if set_ != "core":
                continue
            if split == "train" and (english in held or translation in held_translation):
                dropped += 1
                continue
            if split != "train" and kind != "S":
                continue
            out[lang][split].append((english, translation, kind, source))
        out[lang]["dropped"] = dropped
    return out
