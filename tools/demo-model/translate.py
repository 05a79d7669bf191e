"""Greedy translation with transformers, in batches of like length; used by evaluate.py."""
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import common


def open_model(path, device, dtype):
    """Model and tokenizer; `dtype` is what the bf16 weights are computed in."""
    model = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype)).to(device).eval()
    return model, AutoTokenizer.from_pretrained(path, padding_side="left")


def chat_ids(tok, src, tgt, text):
    out = tok.apply_chat_template([{"role": "user", "content": common.prompt(src, tgt, text)}],
                                  add_generation_prompt=True, tokenize=True, return_dict=True)
    return list(out["input_ids"])


@torch.no_grad()
def greedy(model, tok, items, batch=128, cap=200, progress=None):
    """Translate [(src, tgt, text)]; the answer is at most `cap` tokens long."""
    prompts = [chat_ids(tok, *item) for item in items]
    order = sorted(range(len(items)), key=lambda i: len(prompts[i]))
    out = [None] * len(items)
    for start in range(0, len(order), batch):
        rows = order[start:start + batch]
        width = max(len(prompts[i]) for i in rows)
        ids = torch.tensor([[common.PAD] * (width - len(prompts[i])) + prompts[i] for i in rows])
        mask = torch.tensor([[0] * (width - len(prompts[i])) + [1] * len(prompts[i]) for i in rows])
        got = model.generate(input_ids=ids.to(model.device), attention_mask=mask.to(model.device),
                             max_new_tokens=cap, do_sample=False)
        for i, row in zip(rows, got[:, width:].tolist()):
            out[i] = tok.decode(row, skip_special_tokens=True).strip()
        if progress:
            progress(start + len(rows), len(order))
    return out
