"""Markup, normalisation and sentence splitting."""

import html
import re

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
HAN_RE = re.compile(f"[{HAN}]")
ZH_CLOSE = "”’）》」』\"'\\)"

_TAG = re.compile(r"</?([A-Za-z]\w*)[^<>\n]{0,200}>|<!--.*?-->", re.S)
_CLOSING = re.compile(r"</([A-Za-z]\w*)")
_BREAK = re.compile(r"</?(?:br|p|li|ul|ol|div|h\d|tr|td|th|hr|table|qt)\b[^<>]{0,200}>", re.I)
_HELP_REF = re.compile(r"<(ref|img)>(.*?)</\1>", re.S)
_HELP_TEXT = re.compile(r"<(header|bold|italic|format)>(.*?)</\1>", re.S)
_HELP_ATTR = re.compile(r"text=(?:'((?:[^'\\]|\\.)*)'|\"([^\"]*)\"|([^\s<]+))", re.S)

_SPACES = re.compile(r"[\s\u00a0\u2000-\u200a\u202f\u205f\u3000]+")
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u2060\ufeff]")
_CHARS = str.maketrans({
    "‘": "'", "’": "'", "‛": "'", "`": "'", "‑": "-", "−": "-", "\\": "",
})
_LATIN_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‟": '"', "…": "..."})
_GUILLEMETS = str.maketrans({"«": '"', "»": '"'})
_ZH_QUOTES = str.maketrans({"「": "“", "」": "”", "『": "'", "』": "'", "‘": "'", "’": "'",
                            "﹐": "，", "｡": "。", "\\": ""})
_ZH_FULL = str.maketrans({",": "，", ".": "。", "!": "！", "?": "？", ":": "：", ";": "；"})
_ZH_PUNCT = re.compile(f"(?<=[{HAN}”）》])([,.!?:;])(?![A-Za-z0-9.])")
_ZH_SPACE = re.compile(f"(?<=[{HAN}，。！？：；、（）《》…])\\s+(?=[{HAN}，。！？：；、（）《》…])")
_FRENCH_SPACE = re.compile(r"(?<=[^\s!?:;])([!?:;]+)(?=[\s\"»)\]']|$)")
_DASH = re.compile(r"\s*—\s*|(?<=\s)--(?=\s)")


def help_markup(text):
    """Wesnoth's help language: <ref>dst='x' text='y'</ref> -> y."""
    def inner(match):
        attr = _HELP_ATTR.search(match.group(2))
        if not attr:
            return " "
        return next(g for g in attr.groups() if g is not None).replace("\\'", "'")
    return _HELP_TEXT.sub(inner, _HELP_REF.sub(inner, text))


def strip_tags(text):
    """Removes <b>tags</b> and decodes entities.

    Tags that break the line become a space. One that is opened but never closed,
    such as <name> or <num>, stands for a word: it becomes {}, which the filter drops.
    """
    text = _BREAK.sub(" ", text)
    closed = {name.lower() for name in _CLOSING.findall(text)}

    def plain(match):
        name = match.group(1)
        if name is None or match.group().endswith("/>") or match.group()[1] == "/":
            return ""
        name = name.lower()
        return "" if name in closed or name.split("_")[0] in closed else "{}"
    return html.unescape(_TAG.sub(plain, text))


def accelerators(text):
    """&File and 文件(&F) lose the mark of their keyboard accelerator."""
    return re.sub(r"&(?=\w)", "", re.sub(r"\s*\(&\w\)", "", text))


def _chinese(text):
    text = text.translate(_ZH_QUOTES)
    text = re.sub(r"\.{3,}|。{3,}|…+", "……", text)
    text = re.sub(r"—+", "——", text)
    text = _ZH_PUNCT.sub(lambda m: m.group(1).translate(_ZH_FULL), text)
    return _ZH_SPACE.sub("", text)


def normalise(text, lang):
    """Quotes, dashes and spaces of one kind; Chinese punctuation full width."""
    text = _INVISIBLE.sub("", text)
    text = _SPACES.sub(" ", text).strip()
    if lang == "zh":
        return _chinese(text)
    text = text.translate(_CHARS).translate(_LATIN_QUOTES)
    if lang in ("en", "de"):
        text = text.translate(_GUILLEMETS)
    if lang == "fr":
        text = _FRENCH_SPACE.sub(r" \1", text)
    return _SPACES.sub(" ", _DASH.sub(" — ", text)).strip()


_ABBREV = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|Mr|Mrs|Ms|Dr|St|Prof|No|Nr|bzw|ca|usw|vgl|evtl|ggf|inkl"
    r"|z\.\s?B|d\.\s?h|u\.\s?a|p\.\s?ej|p\.\s?ex|Sr|Sra|Ud|Uds|approx|incl|resp|Abb|fig|Fig)"
    r"|(?<!\w)[A-Za-z])\.$")
_GERMAN_ORDINAL = re.compile(r"(?<![\w.,])\d{1,2}\.$")
_LATIN_END = re.compile(r"[.!?]+[\"'»)\]]*(?=\s+(?:[\"'«(\[¿¡—]\s?)*[A-ZÀ-ÖØ-Þ])")
_ZH_END = re.compile(f"[。！？…]+[{ZH_CLOSE}]*")


def sentences(text, lang):
    """Splits a paragraph into sentences."""
    if lang == "zh":
        return _split_at(text, (m.end() for m in _ZH_END.finditer(text)))
    ends = []
    for match in _LATIN_END.finditer(text):
        head = text[max(0, match.end() - 12):match.end()]
        if not (_ABBREV.search(head) or lang == "de" and _GERMAN_ORDINAL.search(head)):
            ends.append(match.end())
    return _split_at(text, ends)


def _split_at(text, ends):
    parts, start = [], 0
    for end in ends:
        parts.append(text[start:end].strip())
        start = end
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def paragraphs(text):
    """Splits at blank lines."""
    return [p for p in re.split(r"\n\s*\n", text) if p.strip()]
