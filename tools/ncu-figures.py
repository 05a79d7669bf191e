#!/usr/bin/env python3
"""What limits the kernels of a step: a line for each kernel of one layer, by Nsight Compute (ncu).

usage: tools/ncu-figures.py [--skip 160] [--count 9] build/gpu/cuda_mixed MODEL DECODE POS PROMPTS LENGTH

The step's kernels are launched one by one; of the last step, which the program tells ncu to look at, --skip kernels are
passed over and --count taken. Each is run alone, again and again, caches emptied before: so its time is longer than in a
step, where its weights are on their way before the kernel in front has ended. Of the memory's rate, L2's, the busiest
unit of the multiprocessors' and the matrix units' it uses so many per cent; warps are those resident, of 64; stalls are
what a warp waits for, in cycles between two of its instructions.

Clocks are left as they are. ncu must be allowed to read the hardware's counters, or says ERR_NVGPUCTRPERM.
"""
import argparse
import csv
import os
import re
import shutil
import subprocess
import sys

STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
METRICS = {
    "us": "gpu__time_duration.sum",
    "memory": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "SM": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "matrix": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "MB": "dram__bytes.sum",
    "warps": "sm__warps_active.avg.pct_of_peak_sustained_active",
}


def ncu(args):
    path = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    command = [path, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
               "--profile-from-start", "off", "--launch-skip", str(args.skip), "--launch-count", str(args.count),
               "--metrics", ",".join(METRICS.values()) + ",regex:" + STALL.pattern, args.program, *args.args, "1"]
    done = subprocess.run(command, env={**os.environ, "HYMT_CUDA_GRAPHS": "off"}, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if len(lines) < 3:
        sys.exit(done.stdout[-1500:] + done.stderr[-500:])
    return csv.DictReader(lines[:1] + lines[2:])


def number(text):
    return float(text.replace(",", "") or "nan")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--skip", type=int, default=160)
    ap.add_argument("--count", type=int, default=9)
    ap.add_argument("program")
    ap.add_argument("args", nargs=5, metavar="ARG")
    args = ap.parse_args()

    print("| kernel, blocks x threads | us | memory % | L2 % | SM % | matrix % | MB | warps | registers | stalls |")
    print("|" + "---|" * 10)
    for row in ncu(args):
        value = {name: number(row[metric]) for name, metric in METRICS.items()}
        stalls = sorted(((number(v), STALL.match(k)[1]) for k, v in row.items() if STALL.match(k)), reverse=True)
        name = re.sub(r"^void |\(\w+\)(?=\d)|\(.*", "", row["Kernel Name"])
        print("| %s, %s x %s | %.1f | %.0f | %.0f | %.0f | %.0f | %.1f | %.0f | %s | %s |" % (
            name[:60], re.sub(r"[^\d,]|(, 1)+\)$", "", row["Grid Size"]).strip(","),
            re.sub(r"[^\d,]|(, 1)+\)$", "", row["Block Size"]).strip(","), value["us"] / 1e3, value["memory"],
            value["L2"], value["SM"], value["matrix"], value["MB"] / 1e6, value["warps"] * 0.64,
            row.get("launch__registers_per_thread", ""),
            ", ".join("%s %.1f" % (s, v) for v, s in stalls[:4] if s != "selected")))


main()
