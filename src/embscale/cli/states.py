"""Run texts through a checkpoint and store the hidden states of every layer.

The output is a safetensors file: each layer's vectors, and the text, the position and the token of each.  An
interrupted run is resumed.  Texts are rows of JSON with a text and optionally an _id (default: the line number).
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from embscale.cli._note import write_with_provenance
from embscale.errors import EmbscaleError
from embscale.parameters import flags
from embscale.parameters.layers import Cleaning, Positions, Running, Sample
from embscale.provenance.artifacts import file_sha256

# Parameters that distinguish unfinished files of different runs.
DECISIVE = ["text_split", "strip_html", "strip_punctuation", "texts_count", "min_tokens", "tokens", "texts_seed"]
DECISIVE += ["first_position", "batch", "precision"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT_DIR", help="a folder in the Hugging Face layout")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="FOLDER", help="holds tokenizer.json")
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE.jsonl[.gz]", help="rows with a text")
    parser.add_argument("--text-split", metavar="NAME", help="keep only the rows whose metadata.split is NAME")
    flags.add(parser, Cleaning, Sample, Positions, Running)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="STATES.safetensors")


def run(args: argparse.Namespace) -> None:
    """Choose texts, print the size of their states, run the model, write the states."""
    from embscale.devices import choose_device
    from embscale.layers import hidden_states, running
    from embscale.texts import samples
    from embscale.texts.tokens import load_tokenizer, tokenizer_file

    device = choose_device(args.device).type
    weights = running.checkpoint_files(args.checkpoint)
    inputs = [args.texts, tokenizer_file(args.tokenizer), *weights]
    facts: dict[str, Any] = {"device": device}
    with write_with_provenance(args, inputs=inputs, outputs=[args.output], facts=facts) as (output,):
        sample = samples.choose(
            samples.read_texts(args.texts, split=args.text_split),
            load_tokenizer(args.tokenizer),
            count=args.texts_count,
            min_tokens=args.min_tokens,
            tokens=args.tokens,
            strip_html=args.strip_html,
            strip_punctuation=args.strip_punctuation,
            seed=args.texts_seed,
        )
        params = {name: getattr(args, name) for name in DECISIVE} | {"device": device}
        metadata = params | {"config_sha256": file_sha256(args.checkpoint / "config.json")}
        options = {"first_position": args.first_position, "metadata": metadata}
        planned = running.layout(running.skeleton(args.checkpoint), sample, precision=args.precision, **options)
        facts |= {"texts_too_short": sample.too_short, "bytes": planned.size}
        layers, vectors = len(planned.tensors) - len(hidden_states.DESCRIBED), planned.tensors["token"].shape[0]
        print(
            f"{layers} layers x {vectors} vectors take {planned.size / 1e9:.3f} GB; {sample.too_short} texts were too "
            "short",
            file=sys.stderr,
        )
        if planned.size > args.storage_gb * 1e9:
            raise EmbscaleError(
                f"{args.output}: the states take {planned.size / 1e9:.3f} GB; --storage-gb allows {args.storage_gb:g}"
            )
        model = running.load_model(args.checkpoint, precision=args.precision, device=device)
        part = _part(args.output, {"params": params, "inputs": [file_sha256(path) for path in inputs]})
        running.extract(model, sample, part, batch=args.batch, **options)
        part.replace(output)


def _part(output: Path, run: dict[str, Any]) -> Path:
    """Path of the unfinished file, specific to the run; those of other runs are removed."""
    digest = hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()
    part = output.with_name(f".{output.name}.{digest[:12]}.part")
    for left in output.parent.glob(f".{glob.escape(output.name)}.*.part*"):
        if not left.name.startswith(part.name):
            left.unlink()
    return part
