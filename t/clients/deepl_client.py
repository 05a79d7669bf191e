"""Asks a DeepL server with DeepL's own client; prints what came, as JSON.

usage: deepl_client.py URL
"""

import json
import sys

import deepl


def failure(call):
    """The kind, status and text of the error that a call raises."""
    try:
        call()
    except deepl.DeepLException as e:
        return [type(e).__name__, e.http_status_code, str(e)]

    return None


def result(r):
    return {"text": r.text, "source": r.detected_source_lang,
            "billed": r.billed_characters}


def glossaries(translator, other):
    entries = {"file": "Akte", "Größe": "größe, ä"}
    made = translator.create_glossary("mine", "EN", "DE", entries)
    csv = translator.create_glossary_from_csv("csv", "EN", "DE",
                                              "a,b\n\"c, d\",e\n")
    used = translator.translate_text("Open the door.", source_lang="EN",
                                     target_lang="DE", glossary=made)

    got = {
        "made": [made.name, made.source_lang, made.target_lang,
                 made.entry_count, made.ready, made.creation_time.year],
        "same": translator.get_glossary(made.glossary_id).name,
        "list": sorted(g.name for g in translator.list_glossaries()),
        "others": len(other.list_glossaries()),
        "entries": translator.get_glossary_entries(made) == entries,
        "csv": translator.get_glossary_entries(csv),
        "used": used.text,
        "not_mine": failure(lambda: other.get_glossary(made.glossary_id)),
        "bad": failure(lambda: translator.create_glossary_from_csv(
            "bad", "EN", "DE", "a\n")),
    }

    translator.delete_glossary(made)
    translator.delete_glossary(csv)
    got["deleted"] = failure(lambda: translator.delete_glossary(made))

    return got


def main():
    url = sys.argv[1]

    deepl.http_client.max_network_retries = 0

    translator = deepl.Translator("mine:fx", server_url=url)
    other = deepl.Translator("other", server_url=url)
    client = deepl.DeepLClient("mine", server_url=url)

    texts = translator.translate_text(["Open the file.", "Close the file."],
                                      target_lang="de")
    tags = translator.translate_text(
        "Open <x id=\"1\"></x> now.", source_lang="EN", target_lang="DE",
        tag_handling="xml", ignore_tags=["x"], split_sentences="nonewlines",
        outline_detection=False, preserve_formatting=True)
    zh = translator.translate_text("Open the file.", target_lang="ZH-HANS",
                                   model_type="latency_optimized",
                                   formality="prefer_more")
    usage = translator.get_usage()

    json.dump({
        "texts": [result(r) for r in texts],
        "tags": tags.text,
        "zh": [result(zh), zh.model_type_used],
        "sources": [x.code for x in translator.get_source_languages()],
        "targets": [x.code for x in translator.get_target_languages()],
        "formality": [x.supports_formality
                      for x in translator.get_target_languages()],
        "pairs": len(translator.get_glossary_languages()),
        "usage": [usage.character.count, usage.character.limit,
                  usage.any_limit_reached],
        "glossaries": glossaries(translator, other),
        "unsupported": failure(lambda: translator.translate_text(
            "a", target_lang="JA")),
        "more": failure(lambda: translator.translate_text(
            "a", target_lang="DE", formality="more")),
        "multilingual": failure(client.list_multilingual_glossaries),
        "document": failure(lambda: translator.translate_document_upload(
            "text", target_lang="DE", filename="a.txt")),
        "nobody": failure(deepl.Translator(
            " ", server_url=url + "/off/").list_glossaries),
    }, sys.stdout)


main()
