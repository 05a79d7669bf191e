#!/usr/bin/env python3
"""Train the demo model on one GPU for a given number of minutes and save it as a Hugging Face checkpoint.

Rows are grouped by length into batches of one constant number of tokens, so that the two compiled halves of
a layer (before and after attention) see one shape only; attention itself runs as flash SDPA on (rows, length).
The loss is on the target text and its end token. The learning rate follows the clock, so the schedule always
completes. Half of the source texts are tokenized with BPE dropout, made by a second process.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn

import common
from common import CONFIG

TOKENS = 61440                                        # tokens of a batch; every length below divides it
LENGTHS = (32, 40, 48, 64, 80, 96, 128, 160, 192, 256)
TARGETS = int(TOKENS * 0.55)                          # most loss positions of a batch
HID, LAYERS, FFN = CONFIG["hidden_size"], CONFIG["num_hidden_layers"], CONFIG["intermediate_size"]
HEADS, KV, HD = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"], CONFIG["head_dim"]
EPS = CONFIG["rms_norm_eps"]


# ---------------------------------------------------------------- data
def tokenize(data, tok, split):
    """Per language: token arrays of both sides, flat, with offsets; texts keep their row order."""
    out = {}
    for lang in common.LANGS:
        for side in (0, 1):
            ids = [e.ids for e in tok.encode_batch([r[side] for r in data[lang][split]])]
            out[f"{lang}{side}"] = np.fromiter((i for x in ids for i in x), np.uint16)
            out[f"{lang}{side}len"] = np.fromiter((len(x) for x in ids), np.int32)
    return out


def dropout_worker(args):
    """Write variants of the tokenized train texts, made with BPE dropout, one file after the other."""
    data, tok = common.load(args.data), Tokenizer.from_file(os.path.join(args.model, "tokenizer.json"))
    tok.model.dropout = 0.1
    for i in range(args.variants):
        np.savez(os.path.join(args.work, "tmp.npz"), **tokenize(data, tok, "train"))
        os.replace(os.path.join(args.work, "tmp.npz"), os.path.join(args.work, f"variant{i}.npz"))


class Texts:
    """One tokenization on the device: all sides behind one another, with global text numbers."""
    def __init__(self, arrays, device):
        keys = [f"{lang}{side}" for lang in common.LANGS for side in (0, 1)]
        self.lens = np.concatenate([arrays[k + "len"] for k in keys])
        self.first = dict(zip(keys, np.cumsum([0] + [len(arrays[k + "len"]) for k in keys])))
        off = np.cumsum(self.lens, dtype=np.int64) - self.lens
        flat = np.concatenate([arrays[k] for k in keys] + [np.zeros(512, np.uint16)]).astype(np.int32)
        self.flat = torch.from_numpy(flat).to(device)
        self.len = torch.from_numpy(self.lens).to(device)
        self.off = torch.from_numpy(off).to(device)


class Batches:
    """Examples are (direction, row); a batch is ids, labels of the loss positions, and positions."""
    def __init__(self, data, split, plain, tok, device):
        self.device, self.plain = device, plain
        prefixes = []
        src, tgt, dirs, frag = [], [], [], []
        for d, (s, t) in enumerate(common.DIRECTIONS):
            lang = t if s == "en" else s
            n = len(data[lang][split])
            prefixes.append([common.BOS, common.USER] + tok.encode(common.prompt(s, t, "")).ids)
            a, b = (0, 1) if s == "en" else (1, 0)
            src.append(plain.first[f"{lang}{a}"] + np.arange(n))
            tgt.append(plain.first[f"{lang}{b}"] + np.arange(n))
            dirs.append(np.full(n, d))
            frag.append(np.array([r[2] == "F" for r in data[lang][split]]))
        self.src, self.tgt, self.dirs, self.frag = map(np.concatenate, (src, tgt, dirs, frag))
        self.plen = np.array([len(p) for p in prefixes])
        table = np.zeros((len(prefixes), 64), np.int64)
        for i, p in enumerate(prefixes):
            table[i, :len(p)] = p
        self.prefix = torch.from_numpy(table).to(device)
        self.plen_t = torch.from_numpy(self.plen).to(device)

    def epoch(self, rng, variant=None, fragments=1.0, shuffle=True):
        """Yield (ids [n, L], loss positions, labels, number of labels) over one pass."""
        keep = ~self.frag | (rng.random(len(self.frag)) < fragments)
        ex = np.flatnonzero(keep)
        noisy = (rng.random(len(ex)) < 0.5) if variant is not None else np.zeros(len(ex), bool)
        slen = self.plain.lens[self.src[ex]]
        if variant is not None:
            slen = np.where(noisy, variant.lens[self.src[ex]], slen)
        tlen = self.plain.lens[self.tgt[ex]]
        total = self.plen[self.dirs[ex]] + slen + 1 + tlen + 1
        bucket = np.searchsorted(LENGTHS, total)
        batches = []
        for b, length in enumerate(LENGTHS):
            rows = np.flatnonzero(bucket == b)
            if shuffle:
                rng.shuffle(rows)
            size = TOKENS // length
            full = len(rows) if not shuffle else len(rows) // size * size   # a partial batch waits for luck
            batches += [(length, rows[i:i + size]) for i in range(0, full, size)]
        if shuffle:
            rng.shuffle(batches)
        for length, rows in batches:
            e = ex[rows]
            n = int((tlen[rows] + 1).sum())
            yield self.build(length, e, noisy[rows], variant) + (min(n, TARGETS),)

    def build(self, length, e, noisy, variant):
        dev = self.device
        packed = torch.from_numpy(np.stack([self.src[e], self.tgt[e], self.dirs[e], noisy.astype(np.int64)]))
        src, tgt, d, noisy = (packed.pin_memory().to(dev, non_blocking=True) if dev.type == "cuda" else packed)
        p = torch.arange(length, device=dev)[None]
        pl = self.plen_t[d][:, None]
        sl, so, flat = self.plain.len[src][:, None], self.plain.off[src][:, None], self.plain.flat
        q = (p - pl).clamp(min=0)
        source = flat[(so + q).clamp(max=len(flat) - 1)]
        if variant is not None:
            z = noisy[:, None].bool()
            sl = torch.where(z, variant.len[src][:, None], sl)
            vs = variant.flat[(variant.off[src][:, None] + q).clamp(max=len(variant.flat) - 1)]
            source = torch.where(z, vs, source)
        a = pl + sl                                                    # where <Assistant> stands
        tl, to = self.plain.len[tgt][:, None], self.plain.off[tgt][:, None]
        target = flat[(to + (p - a - 1).clamp(min=0)).clamp(max=len(flat) - 1)]
        ids = torch.where(p < pl, self.prefix[d][:, p[0].clamp(max=63)], source)
        ids = torch.where(p == a, common.ASSISTANT, torch.where(p > a, target, ids))
        ids = torch.where(p == a + tl + 1, common.EOS, torch.where(p > a + tl + 1, common.PAD, ids))
        loss = ((p >= a) & (p <= a + tl)).flatten()
        # the loss positions first, in order, then the others (all different, so the gather has no repeats)
        slot = torch.where(loss, loss.cumsum(0) - 1, loss.sum() + (~loss).cumsum(0) - 1)
        where = torch.empty_like(slot).scatter_(0, slot, torch.arange(loss.numel(), device=dev))[:TARGETS]
        labels = ids.flatten()[(where + 1).clamp(max=ids.numel() - 1)]
        return ids, where, labels


# ---------------------------------------------------------------- model
def rms(x, w):
    f = x.float()
    return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + EPS)).to(x.dtype) * w.to(x.dtype)


def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def before_attention(x, ln, wq, wk, wv, nq, nk, cos, sin):
    """x [N, hidden] -> q [N, heads, 128], k and v [N, kv, 128]: projections, RoPE, then the norms."""
    y = F.linear(rms(x, ln), torch.cat([wq, wk, wv]).to(x.dtype))
    q, k, v = y.split([HEADS * HD, KV * HD, KV * HD], -1)
    q, k = q.view(-1, HEADS, HD), k.view(-1, KV, HD)
    return rms(rope(q, cos, sin), nq), rms(rope(k, cos, sin), nk), v.view(-1, KV, HD)


def after_attention(x, a, wo, ln, wg, wu, wd, drop):
    x = x + F.dropout(F.linear(a, wo.to(x.dtype)), drop, drop > 0)
    g, u = F.linear(rms(x, ln), torch.cat([wg, wu]).to(x.dtype)).chunk(2, -1)
    return x + F.dropout(F.linear(F.silu(g) * u, wd.to(x.dtype)), drop, drop > 0)


def embed(ids, w, drop, dtype):
    return F.dropout(F.embedding(ids, w).to(dtype), drop, drop > 0)


def head_loss(x, where, labels, count, norm, emb, smooth):
    """Mean smoothed loss over the first `count` positions, and the plain loss."""
    logits = F.linear(rms(x[where], norm), emb.to(x.dtype)).float()
    lse = logits.logsumexp(-1)
    at = logits.gather(1, labels[:, None])[:, 0]
    w = (torch.arange(len(labels), device=x.device) < count).float() / count
    plain = ((lse - at) * w).sum()
    return (1 - smooth) * plain + smooth * ((lse - logits.mean(-1)) * w).sum(), plain.detach()


class Model(nn.Module):
    """The HunYuan dense shape; matrices of all layers are stacked (what Muon wants)."""
    def __init__(self):
        super().__init__()
        def mat(out, inp, std):
            return nn.Parameter(torch.randn(LAYERS, out, inp) * std)
        s, r = HID ** -0.5, (2 * LAYERS) ** -0.5
        self.emb = nn.Parameter(torch.randn(CONFIG["vocab_size"], HID) * 0.04)
        self.wq, self.wk, self.wv = mat(HEADS * HD, HID, s), mat(KV * HD, HID, s), mat(KV * HD, HID, s)
        self.wo = mat(HID, HEADS * HD, (HEADS * HD) ** -0.5 * r)
        self.wg, self.wu = mat(FFN, HID, s), mat(FFN, HID, s)
        self.wd = mat(HID, FFN, FFN ** -0.5 * r)
        self.ln1, self.ln2 = nn.Parameter(torch.ones(LAYERS, HID)), nn.Parameter(torch.ones(LAYERS, HID))
        self.nq, self.nk = nn.Parameter(torch.ones(LAYERS, HD)), nn.Parameter(torch.ones(LAYERS, HD))
        self.norm = nn.Parameter(torch.ones(HID))
        base = CONFIG["rope_theta"] * CONFIG["rope_scaling"]["alpha"] ** (HD / (HD - 2))
        f = torch.outer(torch.arange(512).float(), 1.0 / base ** (torch.arange(0, HD, 2).float() / HD))
        f = torch.cat([f, f], -1)
        self.register_buffer("cos", f.cos(), persistent=False)
        self.register_buffer("sin", f.sin(), persistent=False)

    NAMES = {"wq": "self_attn.q_proj", "wk": "self_attn.k_proj", "wv": "self_attn.v_proj",
             "wo": "self_attn.o_proj", "wg": "mlp.gate_proj", "wu": "mlp.up_proj", "wd": "mlp.down_proj",
             "ln1": "input_layernorm", "ln2": "post_attention_layernorm",
             "nq": "self_attn.query_layernorm", "nk": "self_attn.key_layernorm"}

    def hidden(self, ids, dtype, drop=0.0, fns=(before_attention, after_attention, embed)):
        rows, length = ids.shape
        before, after, emb = fns
        x = emb(ids.reshape(-1), self.emb, drop, dtype)
        cos = self.cos[:length].to(dtype).repeat(rows, 1)[:, None]
        sin = self.sin[:length].to(dtype).repeat(rows, 1)[:, None]
        layers = zip(*(getattr(self, n).unbind(0) for n in
                       ("ln1", "wq", "wk", "wv", "nq", "nk", "wo", "ln2", "wg", "wu", "wd")))
        for ln1, wq, wk, wv, nq, nk, wo, ln2, wg, wu, wd in layers:
            q, k, v = (t.view(rows, length, -1, HD).transpose(1, 2)
                       for t in before(x, ln1, wq, wk, wv, nq, nk, cos, sin))
            k, v = k.expand(-1, HEADS, -1, -1), v.expand(-1, HEADS, -1, -1)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = after(x, a.transpose(1, 2).reshape(rows * length, HEADS * HD), wo, ln2, wg, wu, wd, drop)
        return x

    def export(self, tensors=None):
        """bf16 tensors under Hugging Face's names."""
        t = {n: p.detach().to(torch.bfloat16).cpu() for n, p in (tensors or dict(self.named_parameters())).items()}
        out = {"model.embed_tokens.weight": t["emb"], "model.norm.weight": t["norm"]}
        for n, name in self.NAMES.items():
            for i in range(LAYERS):
                out[f"model.layers.{i}.{name}.weight"] = t[n][i].contiguous()
        return out

    def restore(self, path):
        t = load_file(path)
        with torch.no_grad():
            self.emb.copy_(t["model.embed_tokens.weight"])
            self.norm.copy_(t["model.norm.weight"])
            for n, name in self.NAMES.items():
                for i in range(LAYERS):
                    getattr(self, n)[i].copy_(t[f"model.layers.{i}.{name}.weight"])


# ---------------------------------------------------------------- optimizer
def orthogonalize(g):
    """Newton-Schulz iterations of Muon on a stack of matrices."""
    x = g.bfloat16()
    if g.shape[-2] > g.shape[-1]:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.mT if g.shape[-2] > g.shape[-1] else x


class Optimizer:
    """Muon for the layers' matrices, AdamW for the embedding and the norms (or AdamW for all)."""
    MATRICES = ("wq", "wk", "wv", "wo", "wg", "wu", "wd")

    def __init__(self, model, lr, decay, muon=True, fused=True):
        named = dict(model.named_parameters())
        self.lr, self.decay = lr, decay
        self.muon = [p for n, p in named.items() if n in self.MATRICES] if muon else []
        self.momentum = [torch.zeros_like(p) for p in self.muon]
        matrix = [named[n] for n in self.MATRICES] if not muon else []
        norms = [p for n, p in named.items() if n not in self.MATRICES and n != "emb"]
        self.adam = torch.optim.AdamW(
            [{"params": matrix, "weight_decay": decay}, {"params": [named["emb"]], "weight_decay": 0.01},
             {"params": norms, "weight_decay": 0.0}], lr=lr, betas=(0.9, 0.98), eps=1e-9, fused=fused)

    @torch.no_grad()
    def step(self, scale):
        lr = self.lr * scale
        for group in self.adam.param_groups:
            group["lr"] = lr
        self.adam.step()
        if self.muon:
            grads = [p.grad for p in self.muon]
            torch._foreach_lerp_(self.momentum, grads, 0.05)
            update = torch._foreach_lerp(grads, self.momentum, 0.95)
            torch._foreach_mul_(self.muon, 1 - lr * self.decay)
            for p, u in zip(self.muon, update):
                p.add_(orthogonalize(u), alpha=-lr * 0.2 * math.sqrt(max(p.shape[-2:])))
        self.adam.zero_grad(set_to_none=True)
        for p in self.muon:
            p.grad = None


# ---------------------------------------------------------------- training
@torch.no_grad()
def dev_loss(model, batches, dtype):
    total, count, rng = 0.0, 0, np.random.default_rng(0)
    for ids, where, labels, n in batches.epoch(rng, shuffle=False):
        x = model.hidden(ids, dtype)
        total += head_loss(x, where, labels, torch.tensor(float(n), device=x.device),
                           model.norm, model.emb, 0.0)[1].item() * n
        count += n
    return total / count


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", default="demo-data/pairs", help="folder with pairs.en-*.tsv[.zst]")
    ap.add_argument("--model", default="models/demo", help="folder with tokenizer.json")
    ap.add_argument("--work", default="demo-data/work", help="where checkpoints and the log go")
    ap.add_argument("--minutes", type=float, default=17, help="training time, compilation not counted")
    ap.add_argument("--lr", type=float, default=3e-3, help="peak learning rate")
    ap.add_argument("--decay", type=float, default=0.1, help="weight decay of the layers' matrices")
    ap.add_argument("--dropout", type=float, default=0.1)
    ap.add_argument("--smooth", type=float, default=0.1, help="label smoothing")
    ap.add_argument("--fragments", type=float, default=0.5, help="share of the fragments in each epoch")
    ap.add_argument("--adamw", action="store_true", help="AdamW for every parameter, no Muon")
    ap.add_argument("--variants", type=int, default=6, help="tokenizations with BPE dropout (0: none)")
    ap.add_argument("--every", type=float, default=60, help="seconds between checkpoints")
    ap.add_argument("--init", help="start from this model.safetensors")
    ap.add_argument("--resume-at", type=float, default=0.0, help="start at this part (0-1) of the schedule")
    ap.add_argument("--cpu", action="store_true", help="plain fp32 on the CPU (to try the script)")
    ap.add_argument("--random", action="store_true", help="only write untrained weights into --model")
    ap.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = ap.parse_args()
    os.makedirs(args.work, exist_ok=True)
    if args.worker:
        return dropout_worker(args)
    torch.manual_seed(1)
    model = Model()
    if args.random:
        return save_file(model.export(), os.path.join(args.model, "model.safetensors"), {"format": "pt"})
    if args.init:
        model.restore(args.init)
    device = torch.device("cpu" if args.cpu else "cuda")
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cuda.enable_math_sdp(args.cpu)
    dtype = torch.float32 if args.cpu else torch.bfloat16
    model.to(device)
    log_file = open(os.path.join(args.work, "log.txt"), "w")

    def log(text):
        print(text, flush=True)
        log_file.write(text + "\n")
        log_file.flush()

    t0 = time.time()
    if args.variants and not os.path.exists(os.path.join(args.work, f"variant{args.variants - 1}.npz")):
        subprocess.Popen(["nice", sys.executable, __file__, "--worker", "--data", args.data, "--model", args.model,
                          "--work", args.work, "--variants", str(args.variants)])
    data, tok = common.load(args.data), Tokenizer.from_file(os.path.join(args.model, "tokenizer.json"))
    plain = Texts(tokenize(data, tok, "train"), device)
    train = Batches(data, "train", plain, tok, device)
    dev = Batches(data, "dev", Texts(tokenize(data, tok, "dev"), device), tok, device)
    log(f"{sum(p.numel() for p in model.parameters())} parameters, {len(train.src)} examples, "
        f"{len(plain.flat)} text tokens, data ready after {time.time() - t0:.0f} s")

    fns, loss_fn = (before_attention, after_attention, embed), head_loss
    if not args.cpu:
        fns = tuple(torch.compile(f, dynamic=False) for f in fns)
        loss_fn = torch.compile(head_loss, dynamic=False)
        global orthogonalize
        orthogonalize = torch.compile(orthogonalize, dynamic=False)
    opt = Optimizer(model, args.lr, args.decay, not args.adamw, fused=not args.cpu)
    params = dict(model.named_parameters())
    ema = {n: p.detach().clone() for n, p in params.items()}
    rng = np.random.default_rng(int(time.time()) if args.init else 1)
    variants, budget = [], args.minutes * 60
    start, last, step, epoch, seen, paused, warm = None, 0.0, 0, 0, 0, 0.0, 8

    def clock():
        return 0.0 if start is None else time.time() - start - paused

    def checkpoint(final=False):
        """Keep the averaged or the plain weights, whichever does better on dev."""
        plain_loss = dev_loss(model, dev, dtype)
        saved = {n: p.detach().clone() for n, p in params.items()}
        with torch.no_grad():
            for n, p in params.items():
                p.copy_(ema[n])
        ema_loss = dev_loss(model, dev, dtype)
        best = ema if ema_loss < plain_loss else saved
        save_file(model.export(best), os.path.join(args.work, "tmp.safetensors"), {"format": "pt"})
        os.replace(os.path.join(args.work, "tmp.safetensors"), os.path.join(args.work, "model.safetensors"))
        with torch.no_grad():
            for n, p in params.items():
                p.copy_(saved[n])
        log(json.dumps({"step": step, "epoch": epoch, "s": round(clock()), "dev": round(plain_loss, 4),
                        "dev_avg": round(ema_loss, 4), "train": round(running.item(), 4),
                        "tokens_per_s": round(seen / max(clock(), 1e-9)), "variants": len(variants),
                        "lr": opt.lr * scale, "final": final}))

    running, scale, done = torch.zeros((), device=device), 0.0, False
    while not done:
        variant = None
        while args.variants and len(variants) < args.variants:      # fetch what the worker has made by now
            path = os.path.join(args.work, f"variant{len(variants)}.npz")
            if not os.path.exists(path):
                break
            variants.append(Texts(np.load(path), device))
        if variants:
            variant = variants[epoch % len(variants)]
        for ids, where, labels, n in train.epoch(rng, variant, args.fragments):
            if step == warm:                                         # compiled by now: the clock starts
                if not args.cpu:
                    torch.cuda.synchronize()
                start = time.time()
                log(f"clock starts {start - t0:.0f} s after the program")
            part = args.resume_at + (1 - args.resume_at) * clock() / budget
            if part >= 1:
                done = True
                break
            scale = min(1.0, (step + 1) / 400, max(0.01, (1 - part) / 0.8))
            x = model.hidden(ids, dtype, args.dropout, fns)
            count = torch.tensor(float(n), device=device)
            loss, nll = loss_fn(x, where, labels, count, model.norm, model.emb, args.smooth)
            loss.backward()
            opt.step(scale)
            with torch.no_grad():
                keep = min(0.9995, (1 + step) / (100 + step))
                torch._foreach_lerp_(list(ema.values()), list(params.values()), 1 - keep)
                running.lerp_(nll, 0.02 if step else 1.0)
            step += 1
            seen += ids.numel() if start else 0
            if clock() - last > args.every:
                t = time.time()
                last = clock()
                checkpoint()
                paused += time.time() - t
        epoch += 1
    checkpoint(final=True)
    log(f"done: {step} steps, {epoch} epochs, {seen} tokens, {clock():.0f} s of training")


if __name__ == "__main__":
    main()
