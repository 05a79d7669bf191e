"""Readers: each yields (document, English, translation) raw text pairs."""

import difflib
import glob
import json
import os
import re
import struct
from html.parser import HTMLParser

from extract import text as T

# Names of the languages in the packages' paths.
LOCALE = {"zh": "zh_CN", "fr": "fr", "de": "de", "es": "es"}
REGION = {"zh": "zh_CN", "fr": "fr_FR", "de": "de_DE", "es": "es_ES"}
LONG = {"zh": "zh-CN", "fr": "fr-FR", "de": "de-DE", "es": "es-ES"}
SHORT = {"zh": "zh-cn", "fr": "fr", "de": "de", "es": "es"}
LOHELP = {"zh": "zh-CN", "fr": "fr", "de": "de", "es": "es"}
WIKI = {"zh": "zh-hans", "fr": "fr", "de": "de", "es": "es"}


# ---- gettext -------------------------------------------------------------

def read_mo(path):
    """Yields (msgid, plural or None, [translations]) without contexts."""
    with open(path, "rb") as handle:
        data = handle.read()
    order = "<" if data[:4] == b"\xde\x12\x04\x95" else ">"
    count, ids, strings = struct.unpack(order + "3I", data[8:20])

    def entry(table, index):
        size, start = struct.unpack_from(order + "2I", data, table + 8 * index)
        return data[start:start + size].decode("utf-8", "replace")

    for index in range(count):
        msgid, translated = entry(ids, index), entry(strings, index)
        if not msgid:
            continue
        msgid = msgid.split("\x04", 1)[-1]
        singular, _, plural = msgid.partition("\0")
        yield singular, plural or None, translated.split("\0")


def mo_pairs(path, doc, clean):
    """A message with a plural gives its plural only (the last form there is)."""
    for singular, plural, strings in read_mo(path):
        yield doc, clean(plural or singular), clean(strings[-1 if plural else 0])


def gettext_source(package, pattern, clean):
    """A reader of every .mo that `pattern` (with {locale}) finds."""
    def read(root, lang):
        found = []
        for locale in (LOCALE[lang], REGION[lang]):
            found = found or glob.glob(os.path.join(root, package, pattern.format(locale=locale)))
        for path in sorted(found, key=os.path.basename):
            yield from mo_pairs(path, os.path.basename(path)[:-3], clean)
    return read


def clean_plain(text):
    return T.strip_tags(text)


def clean_wesnoth(text):
    text = T.help_markup(text)
    if "^" in text and re.match(r"^[^\n^]{0,80}\^", text):
        text = text.split("^", 1)[1]
    return T.strip_tags(text)


def clean_amp(text):
    return T.accelerators(T.strip_tags(text))


def clean_underscore(text):
    return re.sub(r"\s*\(_\w\)", "", T.strip_tags(text)).replace("_", "")


def ufoai(root, lang):
    """Both catalogues are keyed by message name: join en.mo and xx.mo."""
    base = os.path.join(root, "ufoai-misc/usr/share/games/ufoai/base/i18n")
    english, other = (os.path.join(base, name, "LC_MESSAGES/ufoai.mo")
                      for name in ("en", LOCALE[lang]))
    if not (os.path.exists(english) and os.path.exists(other)):
        return
    names = {key: strings[0] for key, _, strings in read_mo(english)}
    for key, _, strings in read_mo(other):
        yield "ufoai", clean_plain(names.get(key) or key), clean_plain(strings[0])


# ---- HTML and XML ---------------------------------------------------------

BLOCKS = set("p h1 h2 h3 h4 h5 h6 li td th dt dd div title item tr table ul ol dl section"
             " steps list terms note page desc blockquote caption para body tbody thead"
             " synopsis listing example quote links sect1 sect2 chapter form"
             " listitem varlistentry term".split())
SKIP = set("script style head pre code-block info nav button svg screen".split())
VOID = set("br hr img meta link input col source wbr area base".split())


class Blocks(HTMLParser):
    """The text blocks of a page, as (path of tags, id, text)."""

    def __init__(self, skip_class=None, skip_tags=SKIP, root_class=None):
        super().__init__(convert_charrefs=True)
        self.skip_class, self.skip_tags, self.root_class = skip_class, skip_tags, root_class
        self.stack, self.blocks, self.skipping = [], [], 0
        self.text, self.root_depth = [], None

    def handle_starttag(self, tag, attrs):
        if tag in VOID:
            if tag == "br":
                self.text.append(" ")
            return
        if tag == "key" and self.text and self.text[-1] == "</key>":
            self.text[-1] = "+"
        attrs = dict(attrs)
        classes = attrs.get("class") or ""
        skip = (tag in self.skip_tags or self._is_code_block(tag) or bool(
            self.skip_class and self.skip_class.search(classes)))
        if tag in BLOCKS:
            self.flush()
        self.stack.append((tag, attrs.get("id"), classes, skip))
        self.skipping += skip
        if self.root_class and self.root_class in classes.split():
            self.root_depth = len(self.stack)

    def _is_code_block(self, tag):
        """Mallard has <code> both within a paragraph and on its own."""
        return tag == "code" and bool(self.stack) and self.stack[-1][0] in (
            "section", "page", "listing", "example", "item", "note", "steps", "synopsis")

    def handle_startendtag(self, tag, attrs):
        if tag == "br":
            self.text.append(" ")
        elif tag in ("link", "xref") and not self.skipping:
            self.text.append("{link}")  # its text is elsewhere: the filter drops the pair

    def handle_endtag(self, tag):
        if tag in VOID or not any(entry[0] == tag for entry in self.stack):
            return
        while self.stack:
            if self.stack[-1][0] in BLOCKS:
                self.flush()
            name, _, _, skip = self.stack.pop()
            if name == "key" and not self.skipping:
                self.text.append("</key>")
            self.skipping -= skip
            if self.root_depth and len(self.stack) < self.root_depth:
                self.root_depth = None
            if name == tag:
                break

    def handle_data(self, data):
        if self.text and self.text[-1] == "</key>" and not data.strip():
            return
        if not self.skipping and (self.root_class is None or self.root_depth):
            self.text.append(data)

    def flush(self):
        text = " ".join("".join(t for t in self.text if t != "</key>").split())
        self.text = []
        if not text:
            return
        for tag, ident, _, _ in reversed(self.stack):
            if tag in BLOCKS:
                self.blocks.append((tag, ident, text))
                return


def blocks_of(path, encoding="utf-8", **options):
    with open(path, encoding=encoding, errors="replace") as handle:
        page = handle.read()
    parser = Blocks(**options)
    parser.feed(re.sub(r"<!\[CDATA\[.*?\]\]>", "", page, flags=re.S))
    parser.close()
    parser.flush()
    return parser.blocks


def aligned(english, other, least=6):
    """Blocks at the same place: all if the tags are equal, else long runs only."""
    tags_a, tags_b = [b[0] for b in english], [b[0] for b in other]
    if tags_a == tags_b:
        runs = [(0, 0, len(tags_a))]
    else:
        matcher = difflib.SequenceMatcher(None, tags_a, tags_b, autojunk=False)
        runs = [m for m in matcher.get_matching_blocks() if m[2] >= least]
    for a, b, size in runs:
        for index in range(size):
            yield english[a + index][2], other[b + index][2]


def pages(base_english, base_other, suffix, leave_out=()):
    """Pages that both folders have, as (relative path, path, path)."""
    for folder, _, names in sorted(os.walk(base_english)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, base_english)
            other = os.path.join(base_other, relative)
            if name.endswith(suffix) and name not in leave_out and os.path.isfile(other):
                yield relative, path, other


def lohelp(root, lang):
    """LibreOffice's help: paragraphs with the same id."""
    def base(package, name):
        return os.path.join(root, "libreoffice-help-" + package,
                            "usr/share/libreoffice/help", name, "text")
    options = dict(skip_class=re.compile(r"^MAC$|^(?:bas|py|sql)?code|noteicon"),
                   root_class=None)
    for relative, path, other in pages(base("en-us", "en-US"),
                                       base(SHORT[lang], LOHELP[lang]), ".html"):
        names = {}
        for _, ident, text in blocks_of(path, **options):
            if ident:
                names.setdefault(ident, text)
        seen = set()
        for _, ident, text in blocks_of(other, **options):
            if ident in names and ident not in seen:
                seen.add(ident)
                yield relative, names[ident], text


def _numbered(text):
    return re.sub(r"^(?:Chapter \d+\.|Kapitel \d+\.|Chapitre \d+\.|Capítulo \d+\."
                  r"|第 ?\d+ ?章。?\.?|[A-Z]?\d*(?:\.\d+)+\.?|\d+\.)\s*", "", text)


def docbook_html(package, folder, skip, leave_out=()):
    """DocBook pages (publican, xsl) with a folder a language."""
    def read(root, lang):
        base = os.path.join(root, package, folder)
        options = dict(skip_class=re.compile(skip))
        for relative, path, other in pages(os.path.join(base, "en-US"),
                                           os.path.join(base, LONG[lang]), ".html",
                                           leave_out):
            for english, text in aligned(blocks_of(path, **options), blocks_of(other, **options)):
                yield "/" + relative, _numbered(english), _numbered(text)
    return read


def _charset(path):
    with open(path, "rb") as handle:
        found = re.search(rb"charset=([\w-]+)", handle.read(2000))
    return found.group(1).decode() if found else "utf-8"


def apache(root, lang):
    base = os.path.join(root, "apache2-doc/usr/share/doc/apache2-doc/manual")
    options = dict(skip_class=re.compile(
        r"toplang|bottomlang|menu|apache$|^up$|^top$|example|related|outofdate"))
    for relative, path, other in pages(os.path.join(base, "en"),
                                       os.path.join(base, SHORT[lang]), ".html"):
        for english, text in aligned(blocks_of(path, encoding=_charset(path), **options),
                                     blocks_of(other, encoding=_charset(other), **options)):
            yield "/" + relative, english, text


def mallard(package, books):
    """GNOME help pages (Mallard): usr/share/help/{C,xx}/BOOK/*.page."""
    def read(root, lang):
        base = os.path.join(root, package, "usr/share/help")
        for book in books:
            for relative, path, other in pages(os.path.join(base, "C", book),
                                               os.path.join(base, LOCALE[lang], book), ".page"):
                for english, text in aligned(blocks_of(path), blocks_of(other)):
                    yield book + "/" + relative, english, text
    return read


# ---- others ----------------------------------------------------------------

def ding(root, lang):
    """The example sentences among the entries of the German dictionary."""
    path = os.path.join(root, "trans-de-en/usr/share/trans/de-en")
    if lang != "de" or not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as handle:
        for line in handle:
            german, _, english = line.rstrip("\n").partition(" :: ")
            german, english = german.split(" | "), english.split(" | ")
            if line.startswith("#") or len(german) != len(english):
                continue
            for translation, sentence in zip(german, english):
                sentence, translation = _ding_clean(sentence), _ding_clean(translation)
                if "/" in sentence + translation or _DING_PHRASE.search(
                        sentence) or _DING_PHRASE.search(translation):
                    continue
                if re.search(r"[.!?]$", sentence) and re.search(r"[.!?]$", translation):
                    yield "ding", sentence, translation


# Dictionary phrases, not sentences: "to be loyal to sb."
_DING_PHRASE = re.compile(r"\b(?:sb|sth|etc|etw|jdm|jdn|jds|jd|usw)\.$")


def _ding_clean(text):
    """The first of the variants, without (additions), {n} and [labels]."""
    text = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)", "", text)
    return " ".join(re.split(r"; | / ", text)[0].split())


def _crawl_entries(path):
    with open(path, encoding="utf-8", errors="replace") as handle:
        for entry in handle.read().split("%%%%"):
            name, _, body = entry.strip().partition("\n")
            if body.strip():
                yield name.strip(), body.strip()


def crawl(root, lang):
    base = os.path.join(root, "crawl-common/usr/share/crawl/dat/descript")
    for path in sorted(glob.glob(os.path.join(base, "*.txt"))):
        name = os.path.basename(path)
        other = os.path.join(base, lang, name)
        if name == "quotes.txt" or not os.path.exists(other):
            continue
        translated = dict(_crawl_entries(other))
        for key, body in _crawl_entries(path):
            if key in translated:
                yield f"{name}:{key}", clean_plain(body), clean_plain(translated[key])


def _wikitext(text):
    text = re.sub(r"\[\[(?:[^|\]]*\|)?([^\]]*)\]\]", r"\1", text)
    text = re.sub(r"\[https?://\S+ ([^\]]*)\]", r"\1", text)
    return T.strip_tags(re.sub(r"'{2,}", "", text))


def mediawiki(root, lang):
    base = os.path.join(root, "mediawiki/usr/share/mediawiki")
    for folder, _, names in sorted(os.walk(base)):
        if "en.json" not in names or WIKI[lang] + ".json" not in names:
            continue
        english, other = (json.load(open(os.path.join(folder, name + ".json"), encoding="utf-8"))
                          for name in ("en", WIKI[lang]))
        for key, message in english.items():
            if isinstance(message, str) and isinstance(other.get(key), str):
                yield os.path.relpath(folder, base), _wikitext(message), _wikitext(other[key])


def lighthouse(root, lang):
    """The npm package's locales/*.json: {key: {"message": text}}."""
    folder = os.path.join(root, "npm-lighthouse", "package", "shared", "localization",
                          "locales")
    paths = [os.path.join(folder, name + ".json") for name in ("en-US", lang)]
    if not all(map(os.path.exists, paths)):
        return
    english, other = (json.load(open(path, encoding="utf-8")) for path in paths)
    for key, entry in english.items():
        if key in other:
            yield key, *(_markdown(e["message"]) for e in (entry, other[key]))


def _markdown(text):
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "")


# In the order in which duplicates are resolved: name, licence, reader, and
# whether fragments are kept too ("SF") or sentences only ("S").
SOURCES = [
    ("cdda", "CC-BY-SA-3.0", "SF", gettext_source(
        "cataclysm-dda-data", "usr/share/locale/{locale}/LC_MESSAGES/*.mo", clean_plain)),
    ("wesnoth", "GPL-2+", "SF", gettext_source(
        "wesnoth-1.16-*", "usr/share/games/wesnoth/1.16/locale/{locale}/LC_MESSAGES/*.mo",
        clean_wesnoth)),
    ("widelands", "GPL-2+", "SF", gettext_source(
        "widelands-data", "usr/share/games/widelands/data/locale/{locale}/LC_MESSAGES/*.mo",
        clean_plain)),
    ("freedink", "Zlib", "SF", gettext_source(
        "freedink-data", "usr/share/games/dink/dink/l10n/{locale}/LC_MESSAGES/*.mo", clean_plain)),
    ("ufoai", "GPL-2+", "SF", ufoai),
    ("crawl", "GPL-2+", "SF", crawl),
    ("freeciv", "GPL-2+", "S", gettext_source(
        "freeciv-data", "usr/share/locale/{locale}/LC_MESSAGES/*.mo", clean_underscore)),
    ("lohelp", "MPL-2.0", "SF", lohelp),
    ("gnomehelp", "CC-BY-SA-3.0", "SF", mallard(
        "gnome-user-docs", ["gnome-help", "system-admin-guide"])),
    ("gnomedevel", "CC-BY-SA-3.0/4.0", "S", mallard("gnome-devel-docs", [
        "gnome-devel-demos", "hig", "platform-overview", "programming-guidelines"])),
    ("evohelp", "CC-BY-SA-3.0", "SF", mallard("evolution-common", ["evolution"])),
    ("handbook", "GPL-2+ or CC-BY-SA-3.0", "SF", docbook_html(
        "debian-handbook", "usr/share/doc/debian-handbook/html", r"docnav|toc|literallayout")),
    ("harden", "GPL-2+", "SF", docbook_html(
        "harden-doc", "usr/share/doc/harden-doc/html", r"docnav|toc|navheader|navfooter|screen",
        leave_out=("changelog_history.html",))),
    ("apache", "Apache-2.0", "S", apache),
    ("ding", "GPL-2+", "SF", ding),
    ("digikam", "GPL-2+", "S", gettext_source(
        "digikam-data", "usr/share/locale/{locale}/LC_MESSAGES/*.mo", clean_amp)),
    ("kmymoney", "GPL-2+", "S", gettext_source(
        "kmymoney-common", "usr/share/locale/{locale}/LC_MESSAGES/*.mo", clean_amp)),
    ("gnucash", "GPL-2+", "S", gettext_source(
        "gnucash-common", "usr/share/locale/{locale}/LC_MESSAGES/*.mo", clean_underscore)),
    ("mediawiki", "GPL-2+", "S", mediawiki),
    ("blender", "GPL-2+", "S", gettext_source(
        "blender-data", "usr/share/locale/{locale}/LC_MESSAGES/*.mo", clean_plain)),
    ("gimp", "GPL-3+", "S", gettext_source(
        "gimp-data", "usr/share/locale/{locale}/LC_MESSAGES/*.mo", clean_underscore)),
    ("evoui", "LGPL-2+", "S", gettext_source(
        "evolution-common", "usr/share/locale/{locale}/LC_MESSAGES/*.mo", clean_underscore)),
    ("lighthouse", "Apache-2.0", "S", lighthouse),  # only with NPM=1
]
