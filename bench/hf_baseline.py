#!/usr/bin/env python3
"""What Hugging Face transformers makes of the same work: 60 tokens in, 40 out, the 1.8B shape, random weights.

usage: bench/hf_baseline.py [SECONDS]

A batch at a time through a static cache and torch.compile, and continuous batching (generate_batch), each with 1,
8, 50 and 256 sentences at once; greedy, lengths even (kinder than our jittered ones), no HTTP.  Prints a table's
rows.  Begins no measurement after SECONDS (90); what is left out is named. Compiling
takes half a minute for each size.
"""
import functools
import sys
import time
import warnings

import torch
from transformers import GenerationConfig, HunYuanDenseV1Config, HunYuanDenseV1ForCausalLM
from transformers.utils import logging

SHAPE = dict(hidden_size=2048, intermediate_size=6144, num_hidden_layers=32, num_attention_heads=16,
             num_key_value_heads=4, head_dim=128, vocab_size=120818, tie_word_embeddings=True,
             max_position_embeddings=32768, rms_norm_eps=1e-5, pad_token_id=0, eos_token_id=None, bos_token_id=1)
IN, OUT = 60, 40


@functools.cache
def the(attention):
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = HunYuanDenseV1ForCausalLM(HunYuanDenseV1Config(**SHAPE, attn_implementation=attention))
    torch.set_default_dtype(torch.float32)
    return model.eval()


def clock(work):
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def compiled(n):
    model = the("sdpa")
    ids = torch.randint(10, 100000, (n, IN), device="cuda")

    def once():
        model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=OUT, min_new_tokens=OUT,
                       do_sample=False, cache_implementation="static")
    for _ in range(3):
        once()
    return sorted(clock(once) for _ in range(3))[1] / n


def continuous(n):
    model = the("paged|sdpa")
    config = GenerationConfig(max_new_tokens=OUT, do_sample=False, eos_token_id=-1, pad_token_id=0)
    prompts = torch.randint(10, 100000, (n, IN)).tolist()

    def answer(inputs):
        model.generate_batch(inputs=inputs, generation_config=config, progress_bar=False)
    answer(prompts[:8])
    return clock(lambda: answer(prompts)) / n


def main():
    warnings.filterwarnings("ignore")
    logging.set_verbosity_error()
    logging.disable_progress_bar()

    start, limit = time.perf_counter(), float(sys.argv[1]) if len(sys.argv) > 1 else 90
    print("| transformers, %s | at once | sentences/s |\n|---|---|---|" % torch.cuda.get_device_name(), flush=True)
    for name, work, sizes in (("continuous batching, paged SDPA", continuous, (256,)),
                              ("static cache, torch.compile", compiled, (256, 50, 8, 1)),
                              ("continuous batching, paged SDPA", continuous, (50, 8, 1))):
        for n in sizes:
            if time.perf_counter() - start > limit:
                print("| %s | %d | no time left |" % (name, n), flush=True)
                continue
            try:
                print("| %s | %d | %.1f |" % (name, n, 1 / work(n)), flush=True)
            except Exception as e:
                print("| %s | %d | %s |" % (name, n, repr(e)[:200].replace("\n", " ")), flush=True)


main()
