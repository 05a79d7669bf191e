"""Greedy translation with transformers, in batches of like length; used by evaluate.py."""
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

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
    stops = set(model.generation_config.eos_token_id)
    prompts = [chat_ids(tok, *item) for item in items]
    order = sorted(range(len(items)), key=lambda i: len(prompts[i]))
    out = [None] * len(items)
    for start in range(0, len(order), batch):
        rows = order[start:start + batch]
        got = answers(model, [prompts[i] for i in rows], stops, cap)
        for i, ids in zip(rows, got):
            out[i] = tok.decode(ids, skip_special_tokens=True).strip()
        if progress:
            progress(start + len(rows), len(order))
    return out


def answers(model, prompts, stops, cap):
    """Greedy output ids of prompts side by side.  Rows that are done leave the batch when they are a quarter of it, so that
    one that goes on to the cap does not keep the others."""
    width = max(map(len, prompts))
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device)
    ids = torch.tensor([[common.PAD] * (width - len(p)) + p for p in prompts], device=model.device)
    place = (mask.cumsum(1) - 1).clamp(min=0)
    past, out, rows = DynamicCache(config=model.config), [[] for _ in prompts], list(range(len(prompts)))
    for _ in range(cap):
        step = model(input_ids=ids, attention_mask=mask, position_ids=place, past_key_values=past, logits_to_keep=1)
        ids = step.logits[:, -1].argmax(-1, keepdim=True)
        for row, token in zip(rows, ids[:, 0].tolist()):
            if not out[row] or out[row][-1] not in stops:
                out[row].append(token)
        mask = torch.cat([mask, mask.new_ones(len(rows), 1)], 1)
        place = place[:, -1:] + 1
        keep = [i for i, row in enumerate(rows) if out[row][-1] not in stops]
        if not keep:
            break
        if 4 * len(keep) <= 3 * len(rows):
            rows, pick = [rows[i] for i in keep], torch.tensor(keep, device=model.device)
            ids, mask, place = ids[pick], mask[pick], place[pick]
            past.batch_select_indices(pick)
    return out
