"""The result check: whether results are complete, within bounds, and consistent with their notes.

A report is rendered only from results that pass.  Each function returns its findings, one line each.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import embscale
from embscale.provenance.artifacts import NOTE_SUFFIX, file_sha256, read_note
from embscale.provenance.snakemake_metadata import read_record
from embscale.rows.treatments import FULL, RANDOM, REFERENCE, split

# Flags that leave a choice to the command, which notes what it chose.
OPEN = (None, "auto", "any")

# Metrics that are shares.
SHARES = ("accuracy", "chance", "within_one_accuracy", "recall")

TOLERANCE = 1e-9  # of values that were written with all their digits and read again


def reached_notes(results: Sequence[Path], folder: Path) -> dict[Path, dict[str, Any]]:
    """Notes of the jobs that made `results`, and of all jobs before them, by where they lie.

    Args:
        results: outputs of jobs, such as the page's inputs.
        folder: of the study, in which notes are looked for.

    Raises:
        EmbscaleError: a note is broken.
    """
    notes = {path: read_note(path) for path in sorted(folder.rglob(f"*{NOTE_SUFFIX}"), key=_written)}
    # Of several notes that name a file all but the newest are of earlier versions of the workflow.
    makers = {output: path for path, note in notes.items() for output in note["outputs"]}
    waiting = [path.as_posix() for path in results]
    found: dict[Path, dict[str, Any]] = {}
    while waiting:
        path = makers.get(waiting.pop().removesuffix(NOTE_SUFFIX))
        if path is not None and path not in found:
            found[path] = notes[path]
            waiting += notes[path]["inputs"]
    return dict(sorted(found.items()))


def leftovers(notes: Mapping[Path, object], folder: Path) -> list[Path]:
    """Notes in a folder that are not among `notes`: of results that no parameter asks for any more."""
    return [path for path in sorted(folder.rglob(f"*{NOTE_SUFFIX}")) if path not in notes]


def _written(path: Path) -> tuple[int, Path]:
    return path.stat().st_mtime_ns, path


def note_problems(path: Path, note: Mapping[str, Any], digests: dict[Path, str]) -> list[str]:
    """Mismatches between a note and the files that it names.

    A file that is not there is no finding: what a job needs of it, it asks for.

    Args:
        path: of the note.
        note: what it holds.
        digests: SHA-256 of files read so far, which grows.
    """
    package = Path(embscale.__file__).parent.parent
    groups = {
        "was changed or damaged after it was made": {Path(name): sha for name, sha in note["outputs"].items()},
        "is another than the one it was made from": {
            package / name if name.startswith(f"{embscale.__name__}/") else Path(name): sha
            for name, sha in note["inputs"].items()
        },
        "has changed since": {package / name: sha for name, sha in note["sources"].items()},
    }
    problems = []
    for words, named in groups.items():
        for file, noted in named.items():
            if file.is_file() and digests.setdefault(file, file_sha256(file)) != noted:
                shown = file.relative_to(package.parent) if file.is_relative_to(package) else file
                problems.append(f"{path}: {shown} {words}")
    return problems


def parameter_problems(
    path: Path, note: Mapping[str, Any], parse: Callable[[list[str]], argparse.Namespace]
) -> list[str]:
    """Where a note's parameters are not those of the rule that Snakemake remembers.

    Snakemake itself makes a job again whose rule asks for other parameters than it remembers; this compares its records
    with the arguments that the job actually had.

    Args:
        path: of the note.
        note: what it holds.
        parse: reads the command line of the job's command.
    """
    record = read_record(path)
    if record is None or not record.get("shellcmd"):
        return [f"{path}: Snakemake does not remember the job"]
    words = shlex.split(record["shellcmd"])
    # ``python src/embscale COMMAND ...``
    start = [Path(word).name for word in words].index(embscale.__name__) + 2
    arguments = vars(parse(words[start : words.index("2>", start) if "2>" in words else None]))
    return [
        f"{path}: {name} is {noted!r}, but the rule says {arguments[name]!r}"
        for name, noted in note["params"].items()
        if name in arguments and arguments[name] not in OPEN and _words(arguments[name]) != _words(noted)
    ]


def _words(value: object) -> list[str]:
    """A parameter as it stands on a command line."""
    if isinstance(value, Mapping):
        return [f"{key}=={item}" for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [word for item in value for word in _words(item)]
    return [str(value)]


def score_problems(
    rows: pd.DataFrame,
    *,
    metrics: Sequence[str],
    lengths: Sequence[str],
    tables: Sequence[str],
    random: Sequence[str],
    references: Sequence[str],
) -> list[str]:
    """What is missing in score rows, or cannot be.

    Args:
        rows: of `embscale.scoring.scores`.
        metrics: of each score.
        lengths: of documents; treated tables are scored at the first alone.
        tables: ``TASK=MODEL=RUN=STEP=VARIANT,VARIANT``: no run where a model has one training only, the step ``main``
            where none is known, the variants as ``embscale score`` has them, `shuffled` before those of shuffled rows.
        random: ``TASK=TOKENIZER=WIDTH=SEED,SEED=VARIANT,VARIANT`` of random tables, the variants without ``random+``.
        references: ``TASK=TOKENIZER=NAME,NAME`` of what needs no table.
    """
    numbers = {name: rows[name].map(_number) for name in ("run", "seed", "dim", "width")}
    rows = rows.assign(step=rows["step"].map(_step), length=rows["length"].astype(str), **numbers)
    wanted: Counter[tuple[str, ...]] = Counter()
    for task, model, run, step, variants in (table.split("=") for table in tables):
        for variant in variants.split(","):
            kind = variant.partition(":")[0]
            wanted.update((task, model, run, step, kind, *cut) for cut in _cuts(kind, metrics, lengths))
    for task, tokenizer, width, seeds, variants in (table.split("=") for table in random):
        for seed in seeds.split(","):
            for variant in variants.split(","):
                kind = RANDOM if variant == FULL else f"{RANDOM}+{variant.partition(':')[0]}"
                wanted.update((task, tokenizer, width, seed, kind, *cut) for cut in _cuts(kind, metrics, lengths))
    for task, tokenizer, names in (found.split("=") for found in references):
        for name in names.split(","):
            wanted.update((task, tokenizer, name, *cut) for cut in itertools.product(metrics, lengths))
    kinds = {
        RANDOM: ["task", "tokenizer", "width", "seed", "variant"],
        REFERENCE: ["task", "tokenizer", "variant"],
        None: ["task", "model", "run", "step", "variant"],
    }
    there: Counter[tuple[str, ...]] = Counter()
    for suite, columns in kinds.items():
        own = rows[rows["suite"] == suite] if suite else rows[~rows["suite"].isin([RANDOM, REFERENCE])]
        there.update(own[[*columns, "metric", "length"]].itertuples(index=False, name=None))
    problems = _difference(wanted, there, "score") + _interval_problems(rows, "score")
    values = rows["value"]
    problems += [f"score {_row(rows, i)}: not from 0 to 1" for i in values.index[(values < 0) | (values > 1)]]
    return problems + _crop_problems(rows[~rows["suite"].isin([RANDOM, REFERENCE])])


def _cuts(kind: str, metrics: Sequence[str], lengths: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Metrics and lengths at which a variant is scored: treated tables at the first length alone."""
    as_it_is = split(kind)[1] == FULL
    return itertools.product(metrics, lengths if as_it_is else lengths[:1])


def _crop_problems(rows: pd.DataFrame) -> list[str]:
    """Tables cropped to all their columns, whose score is not that of the table."""
    # The columns of a cropped table are those of the whole one only where nothing was cut off.
    keys = ["task", "metric", "length", "model", "run", "step", "dim"]
    crop, full = (rows[rows["variant"] == variant] for variant in ("crop", "full"))
    both = crop.merge(full, on=keys, suffixes=("_crop", "_full"))
    wrong = both[(both["value_crop"] - both["value_full"]).abs() > TOLERANCE]
    return [f"score {', '.join(map(str, row))}: crop to all columns differs" for row in wrong[keys].to_numpy()]


def layer_problems(rows: pd.DataFrame, *, models: Sequence[str]) -> list[str]:
    """What is missing in the rows of layer classifiers, or cannot be.

    Args:
        rows: of `embscale.layers.probes`.
        models: whose hidden states were taken.
    """
    problems = [f"no accuracy of {model}" for model in models if not ((rows["model"] == model) & _is(rows)).any()]
    problems += _interval_problems(rows[_is(rows)], "accuracy")
    share = rows["metric"].isin(SHARES)
    outside = share & ((rows["value"] < 0) | (rows["value"] > 1))
    problems += [f"{_row(rows, i)}: not from 0 to 1" for i in rows.index[outside]]
    chance = rows[rows["metric"] == "chance"]
    low = chance["value"] < 1 / chance["n_layers"] - TOLERANCE
    # The share of the largest class is never below that of classes of one size.
    problems += [f"{_row(rows, i)}: chance is below one in {int(rows.loc[i, 'n_layers'])}" for i in chance.index[low]]
    error = rows["metric"] == "mean_absolute_layer_error"
    far = error & ((rows["value"] < 0) | (rows["value"] > rows["n_layers"] - 1))
    return problems + [f"{_row(rows, i)}: no layer is so far from another" for i in rows.index[far]]


def _is(rows: pd.DataFrame, metric: str = "accuracy") -> pd.Series:
    return rows["metric"] == metric


def _interval_problems(rows: pd.DataFrame, what: str) -> list[str]:
    """Rows without a value, a number of observations or an interval around the value.

    Queries that all belong together are one cluster, which gives no interval.
    """
    numbers = rows[["value", "ci_low", "ci_high", "n"]].apply(pd.to_numeric, errors="coerce")
    finite = pd.DataFrame(np.isfinite(numbers), index=rows.index, columns=numbers.columns)
    one = rows["clusters"] == 1 if "clusters" in rows else False
    has_interval = (finite["ci_low"] & finite["ci_high"]) | one
    empty = ~(finite["value"] & finite["n"] & has_interval) | (numbers["n"] < 1)
    outside = (numbers["value"] < numbers["ci_low"] - TOLERANCE) | (numbers["value"] > numbers["ci_high"] + TOLERANCE)
    return [f"{what} {_row(rows, i)}: no number, interval or n" for i in rows.index[empty]] + [
        f"{what} {_row(rows, i)}: outside its interval" for i in rows.index[outside & ~empty]
    ]


def _difference(wanted: Counter[tuple[str, ...]], there: Counter[tuple[str, ...]], what: str) -> list[str]:
    """Rows that are missing, and those that nobody asked for."""
    return [f"{what} {', '.join(key)}: missing" for key in (wanted - there).elements()] + [
        f"{what} {', '.join(key)}: not asked for" for key in (there - wanted).elements()
    ]


def _row(rows: pd.DataFrame, index: object) -> str:
    """What a row is about, in words."""
    names = (
        "task",
        "length",
        "model",
        "run",
        "step",
        "variant",
        "dim",
        "seed",
        "classifier",
        "layer",
        "metric",
        "value",
    )
    cells = rows.loc[index, [name for name in names if name in rows]].dropna()
    return ", ".join(str(cell) for cell in cells if cell != "")


def _number(value: object) -> str:
    """A whole number as it stands on a command line; nothing where there is none."""
    return "" if pd.isna(value) else str(int(float(str(value))))


def _step(value: object) -> str:
    """The same of a training step; ``main`` where there is none."""
    return _number(value) or "main"
