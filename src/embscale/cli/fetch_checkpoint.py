"""Fetch a whole checkpoint from the Hugging Face Hub, for its hidden states; every file is verified.

Safetensors files are preferred to PyTorch's; a checkpoint's own code is never fetched.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("checkpoint", metavar="REPO@COMMIT", help="the commit with all its 40 digits")
    parser.add_argument("--subfolder", default="", help="the checkpoint's folder inside the repository")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")


def run(args: argparse.Namespace) -> None:
    """Download beside the output, then move whole files there."""
    from embscale.checkpoints.hub import HubFolder, download
    from embscale.checkpoints.weights import weight_files

    repo, _, commit = args.checkpoint.partition("@")
    source = HubFolder(repo, commit, args.subfolder)
    # The note is named after the first output.
    names = ["config.json", *weight_files(source)]
    part = args.output.with_name(f".{args.output.name}.{commit[:12]}.part")
    # By full path: a repository can contain files of the same name in several folders.
    files = download(repo, commit, part, names=[source.path(name) for name in names])
    outputs = [args.output / name for name in names]
    with write_with_provenance(args, inputs=[], outputs=outputs) as temporary:
        for name, target in zip(names, temporary, strict=True):
            if source.path(name) not in files:
                raise EmbscaleError(f"{source.label(name)}: no such file")
            files[source.path(name)].replace(target)
    shutil.rmtree(part)
