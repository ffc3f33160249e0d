"""Fetch a whole checkpoint from the Hugging Face Hub, for its hidden states; every file is verified.

Safetensors files are taken where there are any, else PyTorch's; a checkpoint's own code never is.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from embscale.artifacts import recorded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("checkpoint", metavar="REPO@COMMIT", help="the commit with all its 40 digits")
    parser.add_argument("--subfolder", default="", help="the checkpoint's folder inside the repository")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")


def run(args: argparse.Namespace) -> None:
    """Download beside the output, then move whole files there."""
    from embscale.hub import HubFolder, download

    repo, _, commit = args.checkpoint.partition("@")
    names = HubFolder(repo, commit, args.subfolder).files()
    weights = "*.safetensors" if any(name.endswith(".safetensors") for name in names) else "pytorch_model*.bin"
    patterns = [f"{args.subfolder}/{name}".lstrip("/") for name in ("config.json", weights, "*.index.json")]
    part = args.output.with_name(f".{args.output.name}.{commit[:12]}.part")
    found = {path.name: path for path in download(repo, commit, part, patterns=patterns)}
    # The note is named after the first output.
    order = sorted(found, key=lambda name: (name != "config.json", name))
    params = {"checkpoint": args.checkpoint, "subfolder": args.subfolder}
    outputs = [args.output / name for name in order]
    with recorded(command="fetch-checkpoint", params=params, inputs=[], outputs=outputs) as temporary:
        for name, target in zip(order, temporary, strict=True):
            found[name].replace(target)
    shutil.rmtree(part)
