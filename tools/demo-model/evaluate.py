#!/usr/bin/env python3
"""BLEU of the saved checkpoint, as transformers loads it, on the whole `core` held-out test sets, greedy.

Prints BLEU and chrF by direction and by source, and how many of the everyday sentences come out as one of
their accepted answers (compared exactly).
"""
import argparse
import json
import os
import sys
import time

import sacrebleu

import common
import translate

HERE = os.path.dirname(os.path.abspath(__file__))


def score(hyp, ref, tgt):
    bleu = sacrebleu.corpus_bleu(hyp, [ref], tokenize="zh" if tgt == "zh" else "13a")
    return {"n": len(hyp), "bleu": round(bleu.score, 2), "chrf": round(sacrebleu.corpus_chrf(hyp, [ref]).score, 2)}


def everyday(path):
    """Rows of everyday.tsv: direction ("en-zh"), source, accepted answers separated by |."""
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                direction, source, accepted = line.rstrip("\n").split("\t")
                yield direction, source, accepted.split("|")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", default="demo-data/pairs", help="folder with pairs.en-*.tsv[.zst]")
    ap.add_argument("--model", default="models/demo")
    ap.add_argument("--everyday", default=os.path.join(HERE, "everyday.tsv"))
    ap.add_argument("--only-everyday", action="store_true")
    ap.add_argument("--device", default="cpu")
    ap.add_argument("--dtype", default="bfloat16", help="what to compute in (float32, bfloat16)")
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--split", default="test", help="test or dev")
    ap.add_argument("--limit", type=int, help="only so many sentences a direction, evenly spread (a quick look)")
    ap.add_argument("--directions", help="such as en-zh,zh-en (default: all eight)")
    ap.add_argument("--out", help="folder for scores.json and the translations")
    args = ap.parse_args()
    model, tok = translate.open_model(args.model, args.device, args.dtype)
    result = {"dtype": args.dtype, "split": args.split, "limit": args.limit, "directions": {}}

    if os.path.exists(args.everyday):
        rows, right = list(everyday(args.everyday)), 0
        for direction, source, accepted in rows:
            answer = translate.greedy(model, tok, [(*direction.split("-"), source)])[0]
            right += answer in accepted
            print("ok " if answer in accepted else "NOT", direction, source, "->", answer, flush=True)
        print(f"everyday: {right} of {len(rows)}")
        result["everyday"] = [right, len(rows)]
    if args.only_everyday:
        return

    data = common.load(args.data)
    wanted = args.directions.split(",") if args.directions else ["-".join(d) for d in common.DIRECTIONS]
    for direction in wanted:
        src, tgt = direction.split("-")
        rows = data[tgt if src == "en" else src][args.split]
        if args.limit and len(rows) > args.limit:
            rows = [rows[i * len(rows) // args.limit] for i in range(args.limit)]
        a, b = (0, 1) if src == "en" else (1, 0)
        t = time.time()
        hyp = translate.greedy(model, tok, [(src, tgt, r[a]) for r in rows], args.batch,
                               progress=lambda i, n: print(f"\r{direction} {i}/{n}", end="", file=sys.stderr))
        print(file=sys.stderr)
        ref = [r[b] for r in rows]
        entry = score(hyp, ref, tgt)
        print(f"{direction}: BLEU {entry['bleu']:5.2f}  chrF {entry['chrf']:5.2f}  {entry['n']} sentences, "
              f"{time.time() - t:.0f} s", flush=True)
        entry["sources"] = {}
        for source in sorted({r[3] for r in rows}, key=lambda s: -sum(r[3] == s for r in rows)):
            pick = [i for i, r in enumerate(rows) if r[3] == source]
            if len(pick) >= 30:
                entry["sources"][source] = score([hyp[i] for i in pick], [ref[i] for i in pick], tgt)
                print(f"    {source:10} {entry['sources'][source]}", flush=True)
        result["directions"][direction] = entry
        if args.out:
            os.makedirs(args.out, exist_ok=True)
            with open(os.path.join(args.out, f"{direction}.tsv"), "w", encoding="utf-8") as f:
                f.writelines(f"{r[3]}\t{r[a]}\t{r[b]}\t{h}\n" for r, h in zip(rows, hyp))
            with open(os.path.join(args.out, "scores.json"), "w", encoding="utf-8") as f:
                json.dump(result, f, indent=1)


if __name__ == "__main__":
    main()
