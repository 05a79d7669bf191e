#!/usr/bin/env python3
"""Write what transformers computes for some token sequences, for t/gpu/logits_test.

usage: tools/hf-logits.py [--device cuda] [--seqs 4] [--rows 96] MODEL=OUT ...

The logits of every position, twice: by the model in fp32 (from the same bf16 weights), and in bf16 as it is
usually run. Sequences are prompts with their answers from MODEL/golden/greedy.tsv where there is one (ten times as
many), else random ids (seeded). Little-endian, no padding:
    char[8]  "HYMTHF01"
    u32      vocabulary size V; u32 number of sequences S
    S times:
        u32        positions P; u32[P] token ids
        f32[P][V]  logits, model in fp32
        f32[P][V]  logits, model in bf16
"""
import argparse
import os
import random
import struct

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging


def sequences(path, vocab, n, rows):
    table = os.path.join(path, "golden", "greedy.tsv")
    if os.path.exists(table):
        with open(table, encoding="utf-8") as f:
            lines = [line.rstrip("\n").split("\t") for line in f][1:]
        for line in lines[::max(1, len(lines) // (10 * n))][:10 * n]:
            yield [int(i) for i in line[5].split()] + [int(i) for i in line[4].split()]
        return
    rnd = random.Random(1)
    for i in range(n):
        yield [rnd.randrange(vocab) for _ in range(max(1, rows - 13 * i))]


@torch.no_grad()
def logits(path, dtype, device, seqs):
    torch.backends.cuda.matmul.allow_tf32 = False
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype).to(device).eval()
    out = [model(input_ids=torch.tensor([ids], device=device)).logits[0].float().cpu().numpy() for ids in seqs]
    del model
    if device != "cpu":
        torch.cuda.empty_cache()
    return out


def write(out, seqs, exact, usual):
    with open(out, "wb") as f:
        f.write(b"HYMTHF01" + struct.pack("<II", exact[0].shape[1], len(seqs)))
        for ids, a, b in zip(seqs, exact, usual):
            f.write(struct.pack("<I%dI" % len(ids), len(ids), *ids))
            f.write(a.astype("<f4").tobytes())
            f.write(b.astype("<f4").tobytes())
    print("%s: %d sequences, %d positions" % (out, len(seqs), sum(map(len, seqs))), flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("pairs", nargs="+", metavar="MODEL=OUT")
    ap.add_argument("--device", default="cuda")
    ap.add_argument("--seqs", type=int, default=4)
    ap.add_argument("--rows", type=int, default=96)
    args = ap.parse_args()

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    for pair in args.pairs:
        model, out = pair.split("=", 1)
        seqs = list(sequences(model, AutoConfig.from_pretrained(model).vocab_size, args.seqs, args.rows))
        write(out, seqs, logits(model, torch.float32, args.device, seqs),
              logits(model, torch.bfloat16, args.device, seqs))


if __name__ == "__main__":
    main()
