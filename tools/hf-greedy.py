#!/usr/bin/env python3
"""Where transformers' greedy translations in bf16 leave those of the CPU backend, for t/gpu/greedy_test.

usage: build/gpu/greedy_test texts TEXTS
       tools/hf-greedy.py [--device cuda] [--generate] MODEL TEXTS OUT
       build/gpu/greedy_test OUT

A line of TEXTS is a prompt, the CPU's output, and the tokens that end one. A line of OUT has the same tokens up to and
with the first at which transformers, in bf16 as it is usually run, would have gone on with another: its greedy output
up to there. One pass over a prompt with its output tells; --generate lets it generate instead, token by token.
"""
import argparse

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

CAP = 160


def passed(model, prompt, output, stops):
    ids = torch.tensor([prompt + output], device=model.device)
    best = model(input_ids=ids).logits[0, len(prompt) - 1:].argmax(-1).tolist()
    for i, token in enumerate(best[:CAP]):
        if token in stops or i == len(output) or token != output[i]:
            return best[:i + 1]
    return best[:CAP]


def generated(model, prompt, output, stops):
    ids = torch.tensor([prompt], device=model.device)
    return model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=CAP, do_sample=False,
                          eos_token_id=stops, repetition_penalty=1.0)[0, len(prompt):].tolist()


@torch.no_grad()
def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("texts")
    ap.add_argument("out")
    ap.add_argument("--device", default="cpu")
    ap.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    ap.add_argument("--generate", action="store_true")
    args = ap.parse_args()

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=getattr(torch, args.dtype)).to(args.device).eval()
    work = generated if args.generate else passed
    differ = 0
    with open(args.texts) as texts, open(args.out, "w") as out:
        for line in texts:
            prompt, output, stops = ([int(i) for i in column.split()] for column in line.rstrip("\n").split("\t"))
            tokens = work(model, prompt, output, stops)
            differ += [t for t in tokens if t not in stops] != output
            out.write(" ".join(map(str, tokens)) + "\n")
    print("%s in %s: %d others" % (args.out, args.dtype, differ), flush=True)


main()
