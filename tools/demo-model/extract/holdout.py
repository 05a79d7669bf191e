"""train, dev or test, from the English paragraph; then leaks go back to train."""

import hashlib
import re


def split_of(paragraph):
    """2 % test, 1 % dev, by the paragraph's letters and digits: the same for
    every language, and not changed by spaces, quotes or capitals."""
    key = re.sub(r"[^a-z0-9]+", "", paragraph.lower())
    value = int(hashlib.sha1(key.encode("ascii")).hexdigest()[:8], 16) % 1000
    return "test" if value < 20 else "dev" if value < 30 else "train"


def _grams(sentence, size=4):
    words = sentence.lower().split()
    return {tuple(words[i:i + size]) for i in range(len(words) - size + 1)}


def move_leaks(rows):
    """Held-out rows whose English, or over half of its 4-grams, train has too."""
    known, grams = set(), set()
    for row in rows:
        if row["split"] == "train":
            known.add(row["english"])
            grams |= _grams(row["english"])
    for row in rows:
        if row["split"] == "train":
            continue
        own = _grams(row["english"])
        shared = sum(gram in grams for gram in own)
        if row["english"] in known or (own and shared > len(own) / 2):
            row["split"] = "train"
