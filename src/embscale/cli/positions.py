"""Describe how a checkpoint represents positions: learned vectors, or the effect of rotations or biases.

The checkpoint is a folder, a folder in an installed package, or a repository of the Hugging Face Hub; or a file with
only a table of learned positions, in order:

  embscale positions EleutherAI/pythia-70m@step1000 --places 128 --suite pythia --model pythia-70m --step 1000 -o ROWS
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embscale.cli._keys import OfModel, known_step
from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.parameters.primer import PositionRows

if TYPE_CHECKING:
    from embscale.checkpoints.ranges import Source
    from embscale.checkpoints.weights import Weights

PACKAGE = "package:"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("checkpoint", metavar="REPO[@REVISION] | FOLDER | package:NAME/FOLDER | TABLE.safetensors")
    parser.add_argument("--subfolder", default="", help="the checkpoint's folder inside the repository")
    flags.add(parser, PositionRows, OfModel)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="ROWS.csv")


def run(args: argparse.Namespace) -> None:
    """Read the needed parts of the checkpoint, write tidy rows."""
    import numpy as np

    from embscale.checkpoints.weights import Weights, read_config
    from embscale.primer import positions
    from embscale.tables import table_files

    keys = {"suite": args.suite, "model": args.model, "step": known_step(args.step)}
    if Path(args.checkpoint).is_file():
        path = Path(args.checkpoint)
        with write_with_provenance(args, inputs=[path], outputs=[args.output]) as (output,):
            rows = positions.table_rows(table_files.load(path).astype(np.float64), seeds=args.seeds)
            rows.assign(**keys).to_csv(output, index=False, float_format="%.8g")
        return
    source, facts = open_checkpoint(args.checkpoint, args.subfolder)
    config = read_config(source)
    endings = positions.needed_tensor(config)
    weights = Weights(source) if endings else None
    inputs = local_files(source, weights, [endings] if endings else [])
    with write_with_provenance(args, inputs=inputs, outputs=[args.output], facts=facts) as (output,):
        read = weights.read if weights else lambda endings: None
        rows = positions.position_rows(config, read, places=args.places, seeds=args.seeds)
        rows.assign(**keys).to_csv(output, index=False, float_format="%.8g")


def open_checkpoint(address: str, subfolder: str) -> tuple[Source, dict[str, Any]]:
    """The files of a checkpoint, and for one on the hub its repository and commit.

    Raises:
        EmbscaleError: there is no such checkpoint.
    """
    from embscale.checkpoints.ranges import LocalFolder, package_folder

    if address.startswith(PACKAGE):
        return LocalFolder(package_folder(address.removeprefix(PACKAGE)).folder / subfolder), {}
    if Path(address).is_dir():
        return LocalFolder(Path(address) / subfolder), {}
    from embscale.checkpoints.hub import HubFolder, resolve

    repo, _, revision = address.partition("@")
    if repo.count("/") != 1 or address.startswith((".", "/")):
        raise EmbscaleError(f"{address}: neither a folder or file here nor a repository (OWNER/NAME[@REVISION])")
    commit = resolve(repo, revision or "main")
    return HubFolder(repo, commit, subfolder), {"repo": repo, "commit": commit}


def local_files(source: Source, weights: Weights | None, endings: list[tuple[str, ...]]) -> list[Path]:
    """The local files of a checkpoint from which tensors are read; none if it is on the hub."""
    from embscale.checkpoints.ranges import LocalFolder

    if not isinstance(source, LocalFolder):
        return []
    found = [weights.find(names) for names in endings] if weights else []
    return [source.folder / name for name in ["config.json", *dict.fromkeys(place.file for place in found if place)]]
