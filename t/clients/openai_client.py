"""Asks an OpenAI-compatible server with openai; prints what came, as JSON.

usage: openai_client.py URL
"""

import json
import sys

import openai

PROMPT = ("Translate the following segment into German, without additional"
          " explanation.\n\nOpen the file and save your changes.")


def failure(call):
    """The class, status, code and parameter of the error that a call raises."""
    try:
        call()
    except openai.APIStatusError as e:
        return [type(e).__name__, e.status_code, e.code, e.param]

    return None


def streamed(client, **more):
    """The text, last reason and usage of a stream."""
    text, reason, usage = "", None, None

    for chunk in client.chat.completions.create(stream=True, **more):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reason = choice.finish_reason or reason

        usage = chunk.usage or usage

    return [text, reason, usage and usage.total_tokens]


def main():
    client = openai.OpenAI(base_url=sys.argv[1], api_key="anything",
                           max_retries=0)
    hurry = openai.OpenAI(base_url=sys.argv[1] + "/hurry/", api_key="anything",
                          max_retries=0)
    ask = {"model": "demo", "messages": [{"role": "user", "content": PROMPT}]}
    parts = {"model": "demo", "messages": [
        {"role": "system", "content": "You translate."},
        {"role": "user", "content": [{"type": "text", "text": PROMPT}]}]}
    chat = client.chat.completions.create
    whole = chat(temperature=0, **ask)

    try:
        streamed(hurry, **dict(ask, messages=[
            {"role": "user", "content": PROMPT + PROMPT * 12}]))
        broken = None
    except openai.APIError as e:
        broken = [e.code, e.message]

    json.dump({
        "content": whole.choices[0].message.content,
        "reason": whole.choices[0].finish_reason,
        "total": whole.usage.total_tokens,
        "parts": chat(**parts).choices[0].finish_reason,
        "extra": chat(extra_body={"top_k": 1, "repetition_penalty": 1.0,
                                  "stop_token_ids": [13]},
                      seed=7, **ask).choices[0].message.content,
        "stop": chat(stop=[" und"], **ask).choices[0].message.content,
        "streamed": streamed(client, stream_options={"include_usage": True},
                             **ask),
        "broken": broken,
        "models": [m.id for m in client.models.list()],
        "model": client.models.retrieve("demo").id,
        "not_found": failure(lambda: chat(**dict(ask, model="gpt-5"))),
        "bad": failure(lambda: chat(temperature=99, **ask)),
        "n": failure(lambda: chat(n=2, **ask)),
    }, sys.stdout)


main()
