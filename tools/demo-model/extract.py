#!/usr/bin/env python3
"""Writes pairs.en-XX.tsv.zst from the packages that get.sh unpacked.

Columns: split (train|dev|test), kind (S sentence, F fragment), set (core),
source, doc, english, translation. See DATA.md for sources and filters.
"""

import argparse
import collections
import glob
import multiprocessing
import os
import shutil
import subprocess
import sys

from extract import filters, holdout, sources, text

LANGS = ("zh", "fr", "de", "es")
COLUMNS = ("split", "kind", "set", "source", "doc", "english", "translation")


def sentence_pairs(english, translation, lang):
    """Splits a paragraph pair into sentence pairs if that is safe to do."""
    left, right = text.sentences(english, "en"), text.sentences(translation, lang)
    if len(left) == len(right) and len(left) > 1 and all(
            filters.ratio_holds(a, b, lang) for a, b in zip(left, right)):
        return list(zip(left, right))
    return [(english, translation)]


def paragraph_pairs(english, translation, lang):
    """Normalised paragraph pairs of one raw message."""
    left, right = text.paragraphs(english), text.paragraphs(translation)
    if len(left) != len(right):
        left, right = [english], [translation]
    for a, b in zip(left, right):
        a, b = text.normalise(a, "en"), text.normalise(b, lang)
        if a and b:
            yield a, b


class Seen:
    """Lets the same pair pass once, the same English or translation twice."""

    def __init__(self):
        self.pairs = set()
        self.english = collections.Counter()
        self.translation = collections.Counter()

    def new(self, english, translation):
        if ((english, translation) in self.pairs or self.english[english] >= 2
                or self.translation[translation] >= 2):
            return False
        self.pairs.add((english, translation))
        self.english[english] += 1
        self.translation[translation] += 1
        return True


def rows_of(root, lang, names, dropped):
    """All rows of a language, in the sources' order."""
    seen = Seen()
    for name, _, kinds, read in sources.SOURCES:
        if names and name not in names:
            continue
        for doc, raw_english, raw_translation in read(root, lang):
            for paragraph, translated in paragraph_pairs(raw_english, raw_translation, lang):
                for english, translation in sentence_pairs(paragraph, translated, lang):
                    reason = filters.acceptable(english, translation, lang)
                    kind = filters.kind(english)
                    if reason is None and kind not in kinds:
                        reason = "fragment"
                    if reason is None and not seen.new(english, translation):
                        reason = "duplicate"
                    if reason is not None:
                        dropped[reason] += 1
                        continue
                    split = holdout.split_of(paragraph) if kind == "S" else "train"
                    yield dict(split=split, kind=kind, set="core", source=name, doc=doc,
                               english=english, translation=translation)


def write_rows(rows, path):
    with open(path, "w", encoding="utf-8") as handle:
        for row in rows:
            handle.write("\t".join(row[c].replace("\t", " ") for c in COLUMNS) + "\n")


def compress(path):
    """Makes PATH.zst; leaves plain text where zstd is not at hand."""
    if shutil.which("zstd"):
        subprocess.run(["zstd", "-q", "-f", "-19", "--rm", path], check=True)
        return path + ".zst"
    try:
        import zstandard
    except ImportError:
        return path
    with open(path, "rb") as handle, open(path + ".zst", "wb") as out:
        zstandard.ZstdCompressor(level=19).copy_stream(handle, out)
    os.remove(path)
    return path + ".zst"


def read_rows(path):
    """Rows of a .tsv or .tsv.zst."""
    if path.endswith(".zst"):
        data = subprocess.run(["zstd", "-q", "-d", "-c", path], check=True,
                              stdout=subprocess.PIPE).stdout.decode("utf-8")
    else:
        with open(path, encoding="utf-8") as handle:
            data = handle.read()
    for line in data.split("\n"):
        if line:
            yield dict(zip(COLUMNS, line.split("\t")))


def build(job):
    root, out, lang, names, plain = job
    dropped = collections.Counter()
    rows = list(rows_of(root, lang, names, dropped))
    holdout.move_leaks(rows)
    path = os.path.join(out, f"pairs.en-{lang}.tsv")
    write_rows(rows, path)
    if not plain:
        path = compress(path)
    return lang, path, rows, dropped


def report(lang, path, rows, dropped):
    counts = collections.Counter((row["source"], row["kind"]) for row in rows)
    splits = collections.Counter(row["split"] for row in rows)
    print(f"\n{path}: {len(rows)} pairs; " + ", ".join(
        f"{splits[s]} {s}" for s in ("train", "dev", "test")))
    for name, *_ in sources.SOURCES:
        if counts[name, "S"] or counts[name, "F"]:
            print(f"  {name:11} {counts[name, 'S']:7} S {counts[name, 'F']:7} F")
    print("  dropped: " + ", ".join(f"{n} {r}" for r, n in dropped.most_common()))


def compare(lang, rows, reference):
    """A table of what is here, in the reference, and in both."""
    wanted, held_out = collections.defaultdict(set), {}
    for row in read_rows(reference):
        if row["set"] == "core":
            pair = row["english"], row["translation"]
            wanted[row["source"], row["kind"]].add(pair)
            held_out[pair] = row["split"]
    ours = collections.defaultdict(set)
    for row in rows:
        ours[row["source"], row["kind"]].add((row["english"], row["translation"]))
    everything = set().union(*ours.values()) if ours else set()
    print(f"\n{lang}: source kind     here  reference  in both  recall")
    for key in sorted(wanted, key=lambda k: -len(wanted[k])):
        both = len(wanted[key] & everything)
        print(f"  {key[0]:11} {key[1]} {len(ours[key]):8} {len(wanted[key]):10} {both:8}"
              f"  {100 * both / len(wanted[key]):5.1f} %")
    total, both = sum(map(len, wanted.values())), sum(len(w & everything) for w in wanted.values())
    print(f"  all: {len(rows)} here, {total} in the reference, {both} in both,"
          f" {100 * both / total:.1f} %")
    same = collections.Counter(
        (held_out[pair], row["split"]) for row in rows
        if (pair := (row["english"], row["translation"])) in held_out)
    print("  split there -> here: " + ", ".join(
        f"{a} -> {b}: {n}" for (a, b), n in sorted(same.items())))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("unpacked", help="folder with a folder a package (from get.sh)")
    parser.add_argument("out", help="folder to write pairs.en-XX.tsv.zst to")
    parser.add_argument("--langs", default=",".join(LANGS), help="of zh,fr,de,es")
    parser.add_argument("--sources", default="", help="only these, such as cdda,lohelp")
    parser.add_argument("--jobs", type=int, default=1, help="languages at the same time")
    parser.add_argument("--plain", action="store_true", help="do not compress")
    parser.add_argument("--compare", metavar="FOLDER",
                        help="print how much of FOLDER/pairs.en-XX.tsv[.zst] is found again")
    args = parser.parse_args()

    if not glob.glob(os.path.join(args.unpacked, "*/usr")):
        sys.exit(f"extract.py: no unpacked package in {args.unpacked}: run get.sh first")
    unknown = set(args.langs.split(",")) - set(LANGS)
    if unknown:
        sys.exit(f"extract.py: unknown language: {', '.join(sorted(unknown))}")
    os.makedirs(args.out, exist_ok=True)
    names = set(filter(None, args.sources.split(",")))
    jobs = [(args.unpacked, args.out, lang, names, args.plain) for lang in args.langs.split(",")]
    with multiprocessing.Pool(args.jobs) as pool:
        for lang, path, rows, dropped in pool.imap(build, jobs):
            report(lang, path, rows, dropped)
            if args.compare:
                found = glob.glob(os.path.join(args.compare, f"*en-{lang}.tsv*"))
                if found:
                    compare(lang, rows, sorted(found)[0])


if __name__ == "__main__":
    main()
