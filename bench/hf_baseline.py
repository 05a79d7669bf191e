#!/usr/bin/env python3
"""What Hugging Face transformers makes of the same work: 60 tokens in, 40 out, the 1.8B shape, random weights.

usage: bench/hf_baseline.py [SECONDS]

Greedy, lengths even (kinder than our jittered ones), no HTTP, two ways:
  static      generate() of a batch through a static cache with torch.compile, which then replays CUDA graphs; a
              sentence takes as long as its batch, and the next one waits for that
  continuous  its continuous batching with paged SDPA, the way without flash-attn; so many sentences in flight, of
              which each that ends is followed by another
Prints a table's rows: sentences a second and the median latency of 1, 8, 50 and 256 at once.

Compiling is most of the time. So there is a process for each size, all compile side by side, and then, while the
others wait, one after the other measures. What is not ready after SECONDS (75) is left out and named.
"""
import select
import statistics
import subprocess
import sys
import tempfile
import time

SHAPE = dict(hidden_size=2048, intermediate_size=6144, num_hidden_layers=32, num_attention_heads=16,
             num_key_value_heads=4, head_dim=128, vocab_size=120818, tie_word_embeddings=True,
             max_position_embeddings=32768, rms_norm_eps=1e-5, pad_token_id=0, eos_token_id=None, bos_token_id=1)
IN, OUT = 60, 40
WORK = (("static", (256,)), ("static", (50,)), ("static", (8,)), ("static", (1,)), ("continuous", (1, 8, 50, 256)))
NAMES = {"static": "static cache, torch.compile", "continuous": "continuous batching, paged SDPA"}


def the_model(attention):
    import torch
    from transformers import HunYuanDenseV1Config, HunYuanDenseV1ForCausalLM
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = HunYuanDenseV1ForCausalLM(HunYuanDenseV1Config(**SHAPE, attn_implementation=attention))
    torch.set_default_dtype(torch.float32)
    return model.eval()


class Static:
    def __init__(self, sizes):
        import torch
        self.torch = torch
        self.model = the_model("sdpa")
        for n in sizes:
            for _ in range(3):
                self.batch(n)

    def batch(self, n):
        ids = self.torch.randint(10, 100000, (n, IN), device="cuda")
        start = time.perf_counter()
        self.model.generate(input_ids=ids, attention_mask=self.torch.ones_like(ids), max_new_tokens=OUT,
                            min_new_tokens=OUT, do_sample=False, cache_implementation="static")
        self.torch.cuda.synchronize()
        return time.perf_counter() - start

    def measure(self, n):
        self.batch(n)
        seconds = statistics.median(self.batch(n) for _ in range(5))
        return n / seconds, seconds


class Continuous:
    def __init__(self, sizes):
        import torch
        from transformers import ContinuousBatchingConfig, GenerationConfig
        self.torch = torch
        model = the_model("paged|sdpa")
        self.manager = model.init_continuous_batching(
            generation_config=GenerationConfig(max_new_tokens=OUT, do_sample=False, eos_token_id=-1, pad_token_id=0),
            continuous_batching_config=ContinuousBatchingConfig(
                block_size=128, num_blocks=max(sizes) + 8, max_batch_tokens=2048, max_requests_per_batch=max(sizes)))
        self.manager.warmup()
        self.manager.start()
        for n in sizes[:3]:
            self.rounds(n, n)

    def rounds(self, n, count):
        """count of them, n in flight; the seconds that took, and each one's latency."""
        start = time.perf_counter()
        began, latency = {}, []
        while len(latency) < count:
            while len(began) < min(n, count - len(latency)):
                name = self.manager.add_request(self.torch.randint(10, 100000, (IN,)).tolist(), max_new_tokens=OUT)
                began[name] = time.perf_counter()
            result = self.manager.get_result(timeout=20)
            if result is None or result.error is not None:
                raise RuntimeError("no result" if result is None else result.error)
            if result.is_finished() and result.request_id in began:
                latency.append(time.perf_counter() - began.pop(result.request_id))
        return time.perf_counter() - start, latency

    def measure(self, n):
        count = n * max(1, min(3, 100 // n))
        seconds, latency = self.rounds(n, count)
        return count / seconds, statistics.median(latency)


def child(kind, sizes):
    import warnings
    from transformers.utils import logging
    warnings.filterwarnings("ignore")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    work = {"static": Static, "continuous": Continuous}[kind](sizes)
    print("ready", flush=True)
    for n in sizes:
        if not sys.stdin.readline():
            break
        try:
            print("%.1f | %.0f" % (lambda rate, s: (rate, 1000 * s))(*work.measure(n)), flush=True)
        except Exception as e:
            print("%s |" % repr(e)[:200].replace("\n", " "), flush=True)
    import os
    os._exit(0)    # a thread of the manager's may be waiting


def line(process, deadline):
    ready, _, _ = select.select([process.stdout], [], [], max(0, deadline - time.perf_counter()))
    return process.stdout.readline().strip() if ready else ""


def main():
    import torch
    start = time.perf_counter()
    limit = start + (float(sys.argv[1]) if len(sys.argv) > 1 else 75)
    said = tempfile.TemporaryFile("w+")
    workers = [(kind, sizes, subprocess.Popen([sys.executable, __file__, "child", kind, *map(str, sizes)], text=True,
                                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said))
               for kind, sizes in WORK]
    late = []
    for kind, sizes, worker in workers:
        if line(worker, limit) != "ready":
            worker.kill()
            late.append(worker)
        print("%s %s: %s after %.0f s" % (kind, sizes, "not ready" if worker in late else "ready",
                                          time.perf_counter() - start), flush=True)
    print("\n| transformers on %s | at once | sentences/s | P50 ms |\n|---|---|---|---|"
          % torch.cuda.get_device_name(), flush=True)
    for kind, sizes, worker in workers:
        for n in sizes:
            result = "none |"
            if worker not in late:
                print("go", file=worker.stdin, flush=True)
                result = line(worker, time.perf_counter() + 30) or "no end |"
            print("| %s | %d | %s |" % (NAMES[kind], n, result), flush=True)
        worker.kill()
    if late:
        said.seek(0)
        print(said.read()[-1500:])


if sys.argv[1:2] == ["child"]:
    child(sys.argv[2], [int(i) for i in sys.argv[3:]])
else:
    main()
