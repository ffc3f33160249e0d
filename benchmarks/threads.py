"""`embscale layers` with one thread and with one for each core, on quiet cores and beside a busy process on each.

    python benchmarks/threads.py [--rounds ROUNDS] [--threads COUNT ...] [--busy COUNT ...]

A random GPT-2 of five blocks and width 64, 200 texts x 20 tokens, every setting at its default.  As many threads as
cores is what every library takes by itself.  The runs of a round take turns, each a process of its own: seconds by the
clock, and of the processor.  Other work on the machine counts as busy processes; the load before each run tells of it.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import transformers
from grid import write_tokenizer

BLOCKS, WIDTH, HEADS, VOCABULARY = 5, 64, 4, 2000
TEXTS, TOKENS = 200, 20
BUSY = "while True: pass"


def prepare(folder):
    """A checkpoint with its tokenizer, and texts of Zipf-distributed words."""
    torch.manual_seed(0)
    sizes = {"n_layer": BLOCKS, "n_embd": WIDTH, "n_head": HEADS, "n_positions": 64, "vocab_size": VOCABULARY}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    write_tokenizer(folder / "model", VOCABULARY)
    model.save_pretrained(folder / "model")
    words = np.random.default_rng(0).zipf(1.2, (TEXTS, 2 * TOKENS)) % VOCABULARY
    lines = [f'{{"text": "{" ".join(f"w{word}" for word in text)}"}}\n' for text in words]
    (folder / "texts.jsonl").write_text("".join(lines), "utf-8")


def seconds(folder, threads):
    """Of the command by the clock and of the processor."""
    command = [sys.executable, "-m", "embscale", "layers", "model", "--texts", "texts.jsonl", "--split", "text"]
    command += ["--tokens", TOKENS, "--texts-count", TEXTS, "--threads", threads, "-o", f"threads-{threads}"]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True)
    took, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    cores = os.cpu_count()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, cores])
    parser.add_argument("--busy", type=int, nargs="+", default=[0, cores], help="processes beside it")
    args = parser.parse_args()
    print(f"{cores} cores\n\n| busy processes | threads | load before | seconds | processor seconds |")
    print("|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        for _ in range(args.rounds):
            for busy in args.busy:
                for threads in args.threads:
                    load = os.getloadavg()[0]
                    beside = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(busy)]
                    try:
                        clock, processor = seconds(Path(name), threads)
                    finally:
                        for process in beside:
                            process.kill()
                            process.wait()
                    print(f"| {busy} | {threads} | {load:.1f} | {clock:.1f} | {processor:.1f} |", flush=True)


if __name__ == "__main__":
    main()
