#!/usr/bin/env python3
"""Write models/demo/golden: what transformers answers, for the tests of other engines.

greedy.tsv: held-out `core` test sentences over all eight directions with the greedy output of the bf16 weights
computed in fp32 on the CPU, one sentence at a time (no padding), repetition penalty 1, at most 160 new tokens.
Sentences whose two best logits come closer than 1e-3 at any step are left out, so that the order of additions
in fp32 cannot turn the answer; this makes the set a little easier than the whole test set. Columns (with a
header line): src_lang, tgt_lang, source, output, output_ids (with the end token if one came), prompt_ids.

logits.bin: for some rows of greedy.tsv, prompt and output ids fed at once; little-endian, no padding:
    char[8]  "HYMTLOG1"
    u32      vocabulary size V; u32 number of ids K; u32 number of texts T
    u32[K]   the vocabulary ids whose logits are kept
    T times:
        u32      row of greedy.tsv (0 is the first after the header); u32 positions P; u32 prompt length
        u32[P]   token ids
        P times: u32 argmax of the V logits; f32 their L2 norm; f32[K] the kept logits
"""
import argparse
import hashlib
import os
import struct

import torch

import common
import translate

FIELDS = ("src_lang", "tgt_lang", "source", "output", "output_ids", "prompt_ids")


@torch.no_grad()
def answer(model, prompt, stops, cap, margin):
    """Greedy output ids, or None when two logits come too close."""
    out, past, ids = [], None, torch.tensor([prompt])
    while len(out) < cap:
        step = model(input_ids=ids, past_key_values=past, use_cache=True)
        past, logits = step.past_key_values, step.logits[0, -1]
        best = logits.topk(2)
        if (best.values[0] - best.values[1]).item() < margin:
            return None
        out.append(best.indices[0].item())
        if out[-1] in stops:
            break
        ids = torch.tensor([[out[-1]]])
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", default="demo-data/pairs", help="folder with pairs.en-*.tsv[.zst]")
    ap.add_argument("--model", default="models/demo")
    ap.add_argument("--out", default="models/demo/golden")
    ap.add_argument("--sentences", type=int, default=300)
    ap.add_argument("--texts", type=int, default=50, help="how many of them go into logits.bin")
    ap.add_argument("--cap", type=int, default=160, help="most new tokens")
    ap.add_argument("--margin", type=float, default=1e-3, help="least distance of the two best logits")
    args = ap.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    model, tok = translate.open_model(args.model, "cpu", "float32")
    stops = set(model.generation_config.eos_token_id)
    data = common.load(args.data)
    rows, close = [], 0
    for n, (src, tgt) in enumerate(common.DIRECTIONS):
        want = args.sentences * (n + 1) // 8 - args.sentences * n // 8
        a = 0 if src == "en" else 1
        texts = {r[a] for r in data[tgt if src == "en" else src]["test"]}
        for text in sorted(texts, key=lambda t: hashlib.sha1((src + tgt + t).encode()).digest()):
            prompt = translate.chat_ids(tok, src, tgt, text)
            ids = answer(model, prompt, stops, args.cap, args.margin)
            if ids is None:
                close += 1
                continue
            rows.append((src, tgt, text, tok.decode(ids, skip_special_tokens=True), ids, prompt))
            want -= 1
            if not want:
                break
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "greedy.tsv"), "w", encoding="utf-8", newline="\n") as f:
        f.write("\t".join(FIELDS) + "\n")
        for *texts, ids, prompt in rows:
            assert not any(c in t for t in texts for c in "\t\n\r"), texts
            f.write("\t".join([*texts, " ".join(map(str, ids)), " ".join(map(str, prompt))]) + "\n")
    keep = sorted({common.EOS, common.ASSISTANT} | {7 + 197 * i for i in range(62)})
    picked = [i * len(rows) // args.texts for i in range(args.texts)]
    with open(os.path.join(args.out, "logits.bin"), "wb") as f:
        f.write(b"HYMTLOG1" + struct.pack(f"<3I{len(keep)}I", common.VOCAB, len(keep), len(picked), *keep))
        for i in picked:
            ids = rows[i][5] + rows[i][4]
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids])).logits[0]
            f.write(struct.pack(f"<3I{len(ids)}I", i, len(ids), len(rows[i][5]), *ids))
            for row, best, norm in zip(logits[:, keep].tolist(), logits.argmax(-1).tolist(),
                                       logits.double().norm(dim=-1).tolist()):
                f.write(struct.pack(f"<If{len(keep)}f", best, norm, *row))
    ended = sum(r[4][-1] in stops for r in rows)
    print(f"{len(rows)} sentences ({close} left out: logits too close), {ended} ended by themselves; "
          f"logits of {len(picked)}")


if __name__ == "__main__":
    main()
