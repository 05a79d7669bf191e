"""Which pairs are kept, and whether they are sentences (S) or fragments (F)."""

import re

from extract.text import HAN_RE

MAX_WORDS = 70
MAX_CHARS = 500

_SENTENCE = re.compile(r"^[\"'(\[¿¡.—]*\s*[A-ZÀ-ÖØ-Þ0-9].*[.!?][\"')\]]*$", re.S)
_PLACEHOLDER = re.compile(
    r"%[-+ 0#]*\d*(?:\.\d+)?(?:\d+\$)?l?[sdiufcxXgeLpn](?![a-z])|%\d|%%|%\(|%[A-Z]\b|\{[^}]*\}"
    r"|\$[A-Za-z_{(0-9|]|(?<!\w)&\w|@[a-z]+|\[\[|\{\{|<[^>]*>|[<>{}|\\#@^~]|&&|::|\w\(\)")
_URL = re.compile(r"https?:|ftp:|www\.|\w@\w|\.(?:org|com|net)\b")
_CODE = re.compile(r"\w_\w|(?<!\w)--\w|[{}]$|(?<!=)=\w|\w=(?!=)|\w\.[A-Za-z]\w*\(")
_WRONG_SCRIPT = re.compile("[\u3040-\u30ff\uac00-\ud7af\u0400-\u04ff\u0600-\u06ff\u0370-\u03ff]")
_TRADITIONAL = set("這個們來時後說為與開關無對東車長門問間買賣學會應該從讓還沒過頭電點實現發變"
                   "當樣種經濟義務員產業請選擇標題檔資訊網頁變數傳輸圖處論設備")
_BLOCK = re.compile(
    r"\b(?:\w*fuck\w*|shit\w*|bitch\w*|whore\w*|cunt\w*|rape[ds]?|raping|rapist\w*|porn\w*|sex"
    r"|sexual\w*|sexy|dildo\w*|vagina\w*|penis\w*|masturbat\w*|erotic\w*|hentai|nigg\w+|faggot\w*"
    r"|slut\w*|cock|tits|boobs|brothel\w*|asshole\w*|orgasm\w*|suicid\w*|heroin|cocaine|meth"
    r"|crack pipe|pedophil\w*|necrophil\w*|condom\w*|genital\w*)\b", re.I)

_STOP = {
    "en": "the of and to is in that it you for with this are be not your was on have will can",
    "fr": "le la les de des du un une et est que qui dans pour vous il elle ce cette sur pas avec"
          " au aux par ne se votre en sont l d qu",
    "de": "der die das und ist nicht ein eine einen einer zu den dem des mit von auf für sich"
          " sie es im werden wird wenn ich wir ihr dass kann",
    "es": "el la los las de del un una y es que en por para con no se su al lo como más este esta"
          " está si son",
}
_STOP = {lang: set(words.split()) for lang, words in _STOP.items()}
_WORD = re.compile(r"[^\W\d_]+")


def letters_share(text):
    visible = [c for c in text if not c.isspace()]
    return sum(c.isalpha() for c in visible) / len(visible) if visible else 0.0


def ratio_holds(english, translation, lang):
    """Are the two of plausible relative length? Bounds widen for short texts."""
    if lang == "zh":
        words = len(english.split())
        size = len(HAN_RE.findall(translation)) + len(re.findall(r"[A-Za-z0-9]+", translation))
        ratio = (size + 1) / (words + 1)
        return 0.7 <= ratio <= 3.3 if words >= 6 else 0.5 <= ratio <= 4.7
    ratio = (len(translation) + 5) / (len(english) + 5)
    return 0.62 <= ratio <= 1.75 if len(english) >= 40 else 0.45 <= ratio <= 2.4


def _numbers(text):
    return sorted(set(re.findall(r"\d+", re.sub(r"(?<=\d)[ ,.](?=\d)", "", text))))


def _is_english(text):
    """Untranslated the other way round: pages of a third language happen."""
    words = [w.lower() for w in _WORD.findall(text)]
    own = sum(w in _STOP["en"] for w in words)
    foreign = max(sum(w in _STOP[lang] for w in words) for lang in ("fr", "de", "es"))
    return foreign < 2 or foreign <= own


def _language_holds(english, translation, lang):
    if lang == "zh":
        letters = sum(c.isalpha() for c in translation)
        han = len(HAN_RE.findall(translation))
        return (han >= 2 and han >= 0.4 * letters
                and not any(c in _TRADITIONAL for c in translation))
    words = [w.lower() for w in _WORD.findall(translation)]
    if len(words) < 4:
        return True
    own = sum(w in _STOP[lang] for w in words)
    foreign = sum(w in _STOP["en"] for w in words)
    return foreign <= own or foreign < 2


def acceptable(english, translation, lang):
    """All the filters on one pair; the reason for dropping it, or None."""
    words = english.split()
    if len(words) < 2 or len(words) > MAX_WORDS or len(translation) > MAX_CHARS:
        return "size"
    if english.lower() == translation.lower():
        return "untranslated"
    for text in (english, translation):
        if _PLACEHOLDER.search(text):
            return "placeholder"
        if _URL.search(text) or _CODE.search(text):
            return "url or code"
        if letters_share(text) < 0.65:
            return "letters"
        if _WRONG_SCRIPT.search(text):
            return "language"
    if lang != "zh" and HAN_RE.search(translation) or HAN_RE.search(english):
        return "language"
    if not _is_english(english) or not _language_holds(english, translation, lang):
        return "language"
    if not ratio_holds(english, translation, lang):
        return "ratio"
    if _numbers(english) != _numbers(translation):
        return "numbers"
    if _BLOCK.search(english):
        return "block list"
    return None


def kind(english):
    """S: starts like a sentence, ends like one, at least three words. Else F."""
    if len(english.split()) >= 3 and _SENTENCE.match(english):
        return "S"
    return "F"
