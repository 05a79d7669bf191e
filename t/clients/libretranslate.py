"""Asks a LibreTranslate server with libretranslatepy; prints what came, as JSON.

usage: libretranslate.py URL
"""

import json
import sys
import urllib.error

from libretranslatepy import LibreTranslateAPI


def failure(call):
    """The status and error that a call raises."""
    try:
        call()
    except urllib.error.HTTPError as e:
        return [e.code, json.loads(e.read().decode())["error"]]

    return None


def main():
    api = LibreTranslateAPI(sys.argv[1])
    keyed = LibreTranslateAPI(sys.argv[1], api_key="")

    json.dump({
        "translate": api.translate("Open the file.", "en", "de"),
        "auto": keyed.translate("Open the file.", "auto", "fr"),
        "lines": api.translate("\U0001f600\r\n\U0001f600", "en", "de"),
        "detect": api.detect("Bonjour tout le monde, comment allez-vous ?"),
        "languages": api.languages(),
        "keyed": keyed.languages() == api.languages(),
        "unsupported": failure(lambda: api.translate("a", "en", "zz")),
        "missing": failure(lambda: api.translate("", "en", "de")),
    }, sys.stdout)


main()
