"""Hidden states to disk beside the bare forward pass over the same batches, and memory against the number of texts.

    python benchmarks/states.py CHECKPOINT TOKENIZER TEXTS.jsonl[.gz] [--texts COUNT ...] [--tokens TOKENS]

Seconds, by the clock and of the processor, are the shortest of several rounds in one process with one thread, the two
routes taking turns; on a busy machine the processor's are the better measure.  Every measurement of memory
is a process of its own, so its peak is its own; the texts of the largest count are read by all of them.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from embscale.layers import running
from embscale.texts import samples, tokens

BATCH = 16
FIRST_POSITION = 1
ROUNDS = 7

# A sample of so many texts, then the peak of memory before and after.
MEMORY = """
import dataclasses, json, sys
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[1])
import states
from embscale import hidden_states
checkpoint, tokenizer, file, part = map(Path, sys.argv[2:6])
count, largest, length = map(int, sys.argv[6:9])
sample = states.sampled(file, tokenizer, largest, length)
tokens = dataclasses.replace(sample.tokens, ids=sample.tokens.ids[: count * length],
                             offsets=sample.tokens.offsets[: count + 1])
sample = dataclasses.replace(sample, text_ids=sample.text_ids[:count], tokens=tokens)
model = running.load_model(checkpoint)
peak = lambda: int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])  # not the parent's, as ru_maxrss
before = peak()
states.extract(model, sample, part)
print(json.dumps([before, peak(), part.stat().st_size]))
"""


def sampled(file, tokenizer, count, length):
    """Texts of one length."""
    return samples.choose(
        samples.read_texts(file, split=None),
        tokens.load_tokenizer(tokenizer),
        count=count,
        min_tokens=length,
        tokens=length,
        strip_html=False,
        strip_punctuation=False,
        seed=1,
    )


def forward(model, sample):
    """The model alone."""
    with torch.inference_mode():
        for group in running.batches(sample.tokens.lengths, BATCH):
            model(input_ids=torch.from_numpy(np.stack([sample.tokens[text] for text in group]).astype(np.int64)))


def extract(model, sample, part):
    """Ours."""
    running.extract(model, sample, part, first_position=FIRST_POSITION, batch=BATCH, metadata={})


def seconds(function, *arguments):
    """By the clock and of the processor."""
    started = time.perf_counter(), time.process_time()
    function(*arguments)
    return np.array([time.perf_counter(), time.process_time()]) - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--texts", type=int, nargs="+", default=[100, 400, 1600])
    parser.add_argument("--tokens", type=int, default=32)
    args = parser.parse_args()
    torch.set_num_threads(1)
    sample = sampled(args.file, args.tokenizer, args.texts[1], args.tokens)
    model = running.load_model(args.checkpoint)
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "part"
        forward(model, sample)
        extract(model, sample, part)
        size = part.stat().st_size
        times = []
        for _ in range(ROUNDS):
            part.unlink()
            times.append((seconds(forward, model, sample), seconds(extract, model, sample, part)))
        bare, ours = np.min(times, axis=0)
        print(f"{args.texts[1]} texts x {args.tokens} tokens, batches of {BATCH}, {size / 1e6:.1f} MB written")
        for i, clock in enumerate(("by the clock", "of the processor")):
            print(
                f"seconds {clock:16s}: forward pass {bare[i]:7.3f}, states to disk {ours[i]:7.3f}, "
                f"ratio {ours[i] / bare[i]:.2f}"
            )
        print("  texts   states, MB   peak before, MB   after, MB   growth, MB")
        for count in args.texts:
            command = [sys.executable, "-c", MEMORY, str(Path(__file__).parent), args.checkpoint, args.tokenizer]
            command += [args.file, part, count, max(args.texts), args.tokens]
            part.unlink(missing_ok=True)
            done = subprocess.run([*map(str, command)], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            before, after, written = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{count:7d} {written / 1e6:12.1f} {before / 1024:17.1f} {after / 1024:11.1f}"
                f" {(after - before) / 1024:12.1f}"
            )


if __name__ == "__main__":
    main()
