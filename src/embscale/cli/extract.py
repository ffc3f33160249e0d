"""Extract one embedding table from each checkpoint, reading little more than the table's bytes.

A checkpoint is a folder, a folder in an installed package, or a repository of the Hugging Face Hub:

  embscale extract EleutherAI/pythia-70m@step1000 -o pythia-70m.safetensors
  embscale extract checkpoints/my-model -o my-model.safetensors
  embscale extract package:my_package/model -o my-model.safetensors

Safetensors and PyTorch files are read, in one piece or in shards; nothing in them is executed.  The
output is a safetensors file with one tensor, "table", in the dtype that it is stored in, and a note beside it records
where every byte came from.  An interrupted download is resumed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embscale.cli._note import write_with_provenance
from embscale.cli._numbers import positive
from embscale.errors import EmbscaleError
from embscale.provenance.artifacts import file_sha256, note_path, read_note

if TYPE_CHECKING:
    from embscale.checkpoints.ranges import Source
    from embscale.checkpoints.weights import Location

PACKAGE = "package:"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("checkpoint", nargs="+", metavar="REPO[@REVISION] | FOLDER | package:NAME/FOLDER")
    parser.add_argument("--subfolder", default="", help="the checkpoint's folder inside the repository")
    parser.add_argument(
        "--table", choices=("input", "output"), default="input", help="output: the one before the softmax, if untied"
    )
    parser.add_argument("--tensor", metavar="NAME", help="its name, if it differs from the family's")
    parser.add_argument(
        "--effective",
        metavar="POSITIONS",
        type=_positions,
        help="the rows as block 1 receives them, in float32; learned positions: none, mean, or one position from 0",
    )
    parser.add_argument("--max-table-gb", type=positive, help="refuse a larger table (1 GB is 10^9 bytes)")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        nargs="+",
        required=True,
        metavar="TABLE.safetensors",
        help="one for each checkpoint",
    )


def run(args: argparse.Namespace) -> None:
    """Find each table, read its bytes, write it."""
    if args.effective is not None and args.table == "output":
        raise EmbscaleError("--effective: it is the input table that block 1 sees; drop --table output")
    if len(args.checkpoint) != len(args.output):
        raise EmbscaleError(
            f"{len(args.checkpoint)} checkpoints and {len(args.output)} outputs; give an --output for each checkpoint"
        )
    for checkpoint, output in zip(args.checkpoint, args.output, strict=True):
        one = argparse.Namespace(**vars(args) | {"checkpoint": checkpoint, "output": output, "command_line": args})
        _extract(one)


def _extract(args: argparse.Namespace) -> None:
    """Extract the table of one checkpoint."""
    if args.checkpoint.startswith(PACKAGE):
        from embscale.checkpoints.ranges import package_folder

        _extract_local(args, package_folder(args.checkpoint.removeprefix(PACKAGE)).folder)
    elif Path(args.checkpoint).is_dir():
        _extract_local(args, Path(args.checkpoint))
    else:
        _extract_from_hub(args)


def _positions(text: str) -> str | int:
    if text in ("none", "mean"):
        return text
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected none, mean or a number from 0")
    return int(text)


def _extract_local(args: argparse.Namespace, folder: Path) -> None:
    from embscale.checkpoints.ranges import LocalFolder
    from embscale.tables import extraction

    source = LocalFolder(folder / args.subfolder)
    location = _locate(args, source)
    inputs = [source.folder / "config.json", source.folder / location.file]
    facts = _origin(source, location)
    with write_with_provenance(args.command_line, inputs=inputs, outputs=[args.output], facts=facts) as (output,):
        extraction.stream(source, location, output, {"table": args.table, "tensor": location.tensor.name})
        facts |= _finish(args, source, output)


def _extract_from_hub(args: argparse.Namespace) -> None:
    from filelock import FileLock

    from embscale.checkpoints.hub import HubFolder, resolve
    from embscale.tables import extraction

    repo, _, revision = args.checkpoint.partition("@")
    if repo.count("/") != 1 or args.checkpoint.startswith((".", "/")):
        raise EmbscaleError(f"{args.checkpoint}: neither a folder here nor a repository (OWNER/NAME[@REVISION])")
    args.output.parent.mkdir(parents=True, exist_ok=True)
    # One process fetches; others that need the same table wait for it.
    with FileLock(args.output.with_name(f".{args.output.name}.lock")):
        if _is_there(args):
            print(f"{args.output}: there already, as its note says", file=sys.stderr)
            return
        commit = resolve(repo, revision or "main")
        source = HubFolder(repo, commit, args.subfolder)
        location = _locate(args, source)
        facts = {"repo": repo, "commit": commit} | _origin(source, location)
        origin = {key: str(facts[key]) for key in ("repo", "commit", "file", "tensor", "start", "end")}
        metadata = {"table": args.table} | origin
        with write_with_provenance(args.command_line, inputs=[], outputs=[args.output], facts=facts) as (output,):
            digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode()).hexdigest()
            part = args.output.with_name(f".{args.output.name}.{digest[:12]}.part")
            extraction.stream(source, location, part, metadata)
            part.replace(output)
            extraction.digests_of(part).unlink()
            facts |= _finish(args, source, output)


def _params(args: argparse.Namespace) -> dict[str, Any]:
    """The parameters that the result depends on."""
    return {key: getattr(args.command_line, key) for key in ("checkpoint", "subfolder", "table", "tensor", "effective")}


def _is_there(args: argparse.Namespace) -> bool:
    """Whether an earlier run with the same arguments left the complete table.  A branch may have moved since."""
    from embscale.checkpoints.hub import COMMIT

    if not args.output.is_file() or not note_path(args.output).is_file():
        return False
    note = read_note(note_path(args.output))
    pinned = COMMIT.fullmatch(args.checkpoint.partition("@")[2]) is not None
    same = _params(args).items() <= note["params"].items()
    return pinned and same and file_sha256(args.output) in note["outputs"].values()


def _locate(args: argparse.Namespace, source: Source) -> Location:
    from embscale.checkpoints import weights
    from embscale.tables import extraction

    location = extraction.locate(source, weights.read_config(source), args.table, name=args.tensor)
    rows, dims = location.tensor.shape
    size = location.tensor.end - location.tensor.start
    print(f"{location.tensor.name}: {rows} rows x {dims} columns, {location.tensor.dtype}", file=sys.stderr)
    if args.max_table_gb is not None and size > args.max_table_gb * 1e9:
        raise EmbscaleError(
            f"{source.label(location.file)}: the table has {size / 1e9:.2f} GB; --max-table-gb allows "
            f"{args.max_table_gb:g} (max_table_gb in params.yaml)"
        )
    return location


def _origin(source: Source, location: Location) -> dict[str, Any]:
    """Location of the bytes, for the note."""
    from embscale.checkpoints.weights import TOKENIZER_FILES

    tensor = location.tensor
    present = source.files()
    return {
        "file": location.file,
        "tensor": tensor.name,
        "start": tensor.start,
        "end": tensor.end,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "tokenizer": {name: source.digest(name) for name in TOKENIZER_FILES if name in present},
    }


def _finish(args: argparse.Namespace, source: Source, output: Path) -> dict[str, Any]:
    """Inspect the values and apply --effective; returns entries for the note."""
    from embscale.checkpoints import weights
    from embscale.tables import table_files

    seen = table_files.inspect(output)
    facts: dict[str, Any] = {
        "table_sha256": seen.sha256,
        "rows_not_finite": seen.rows_not_finite,
        "rows_zero": seen.rows_zero,
    }
    if args.effective is not None:
        from embscale.tables.effective import effective_table

        table, applied = effective_table(
            table_files.load(output), weights.read_config(source), weights.Weights(source).read, args.effective
        )
        table_files.save(
            output, table, {"table": table_files.EFFECTIVE, "effective": ", ".join(applied) or "nothing to apply"}
        )
        facts["effective"] = applied
    for complaint in seen.complaints:
        print(f"embscale extract: warning: {args.output}: {complaint}", file=sys.stderr)
    return facts
