"""Take one table out of a checkpoint: our range reads beside a download of the whole file, from a hub on loopback.

    PYTHONPATH=tests python benchmarks/extraction.py [--rate BYTES_PER_SECOND --latency SECONDS] [--scale SCALE]

Bytes are counted at the server.  Every measurement is a process of its own, so its peak memory is its own; the
checkpoints are sparse files of zeros, whose layout is genuine.  Three tables: each container, with one connection
and with four; memory against the size of the table, up to BLOOM's 250,880 rows of 14,336 columns.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hub.server import Hub

OURS = """
import sys
from embscale.tables import extraction
extraction.WORKERS = int(sys.argv[1])
from embscale.__main__ import main
code = main(["extract", sys.argv[2], "-o", sys.argv[3]])
print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])  # unlike ru_maxrss, not the parent's
sys.exit(code)
"""
WHOLE = """
import sys, torch
from huggingface_hub import hf_hub_download
from safetensors import safe_open
path = hf_hub_download(sys.argv[2].split("@")[0], sys.argv[4], revision=sys.argv[2].split("@")[1])
if path.endswith(".safetensors"):
    with safe_open(path, "pt") as file:
        table = file.get_tensor("gpt_neox.embed_in.weight")
else:
    table = torch.load(path, map_location="cpu", weights_only=True)["gpt_neox.embed_in.weight"]
assert table.shape
print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])  # unlike ru_maxrss, not the parent's
"""


def write_safetensors(path, tensors):
    """A safetensors file of zeros that takes no room on disk: the header, then a hole."""
    header, place = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = 2 * shape[0] * shape[1]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + place)


def checkpoint(folder, container, rows, dims, rest):
    """A checkpoint with a table of rows x dims and `rest` times as many bytes of other weights."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt_neox", "vocab_size": rows}))
    other = {f"gpt_neox.layers.{i}.dense.weight": ("F16", [rows // 10, dims]) for i in range(10 * rest)}
    tensors = dict(list(other.items())[::2]) | {"gpt_neox.embed_in.weight": ("F16", [rows, dims])} | other
    if container == "safetensors":
        write_safetensors(folder / "model.safetensors", tensors)
        return "model.safetensors"
    import torch

    state = {name: torch.zeros(shape, dtype=torch.half) for name, (_, shape) in tensors.items()}
    torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=container == "zip")
    return "pytorch_model.bin"


def measured(hub, code, *arguments):
    """Seconds, bytes at the server and peak memory in MB of a process."""
    with tempfile.TemporaryDirectory() as home:
        hub.requests.clear()
        started = time.perf_counter()
        command = [sys.executable, "-c", code, *map(str, arguments)]
        done = subprocess.run(command, env=hub.environment(Path(home)), capture_output=True, text=True)
        seconds = time.perf_counter() - started
        assert done.returncode == 0, done.stderr
        return seconds, hub.bytes_sent(), int(done.stdout.split()[-1]) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, help="bytes per second of each connection")
    parser.add_argument("--latency", type=float, default=0, help="seconds before each answer")
    parser.add_argument("--scale", type=float, default=1, help="of the rows of the largest tables")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Hub() as hub:
        folder = Path(name)
        hub.throttle(args.rate, args.latency)
        print(f"rate of a connection: {args.rate or 'unlimited'}, latency: {args.latency} s; MB = 10^6 bytes")
        print(
            "                                 | whole file             | ours"
            "                                   | whole / ours"
        )
        print(
            "container    table, MB  file, MB |  MB sent      s  peak"
            " |  MB sent  /table  s (1)  s (4)  peak |   bytes    time"
        )
        for container in ("safetensors", "zip", "legacy"):
            file = checkpoint(folder / container, container, 50_304, 1024, 9)
            size, table = (folder / container / file).stat().st_size, 2 * 50_304 * 1024
            address = f"bench/{container}@{hub.add(f'bench/{container}', folder / container)}"
            whole, whole_sent, whole_peak = measured(hub, WHOLE, 0, address, "", file)
            one, _, _ = measured(hub, OURS, 1, address, folder / f"{container}-1.safetensors")
            four, sent, peak = measured(hub, OURS, 4, address, folder / f"{container}-4.safetensors")
            assert sent <= 1.02 * table + 2**20
            print(
                f"{container:12s} {table / 1e6:9.1f} {size / 1e6:9.1f}"
                f" | {whole_sent / 1e6:8.1f} {whole:6.2f} {whole_peak:5.0f}"
                f" | {sent / 1e6:8.1f} {sent / table:7.4f} {one:6.2f} {four:6.2f} {peak:5.0f}"
                f" | {whole_sent / sent:7.1f} {whole / four:7.1f}"
            )
        hub.throttle(None)
        print("table rows x columns     table, MB   sent / table      s   peak, MB")
        for rows, dims in ((50_304, 1024), (250_880, 1024), (250_880, 4096), (int(250_880 * args.scale), 14_336)):
            made = folder / f"bloom-{dims}-{rows}"
            checkpoint(made, "safetensors", rows, dims, 1)
            address = f"bench/bloom@{hub.add('bench/bloom', made, hashed=False)}"
            output = folder / "table.safetensors"
            seconds, sent, peak = measured(hub, OURS, 4, address, output)
            table = 2 * rows * dims
            print(f"{rows:10,} x {dims:6,} {table / 1e6:16,.0f} {sent / table:14.4f} {seconds:6.1f} {peak:10.0f}")
            output.unlink()


if __name__ == "__main__":
    main()
