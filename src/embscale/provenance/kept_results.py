"""The results that are kept in git, the few that stand for them, and how far a run is from them.

Training rounds differently on each kind of processor, so a run elsewhere gives results of its own.  Those that were
recorded stay in ``recorded/STUDY``; a page states which it shows, and how much the two differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from embscale.provenance.verification import DIGESTS, WORDS, Compared, compare_tables
from embscale.rows import tidy
from embscale.rows.selection import last_tables, random_tables

# Columns that a run measures or that follow from its bytes; all others say what a row is about.
MEASURED = ("value", "ci_low", "ci_high", "n", "clusters", "n_train", "converged")

# Kept tables that are compared; all else follows from them, or from what they follow from.
COMPARED = ("scores", "layers")

# Columns that follow from a model's name.
NAMED = ("suite", "model", "step", "metric", "width", "dim", "runs")

# Whose results a page shows.
RECORDED, LOCAL, NEVER_RECORDED = "recorded", "local", "never recorded"

# Empty cells of keys, so that they compare equal.
EMPTY = ""


def gather(paths: list[Path]) -> pd.DataFrame:
    """Rows of several files one after the other, as text; a column that a file lacks is empty there."""
    return pd.concat([tidy.load_text(path) for path in paths], ignore_index=True).fillna(EMPTY)


def compared_files(kept: Path, recorded: Path) -> list[Path]:
    """The files that `variables` reads: those of the run, and those of the record that exist."""
    return [path for folder in (kept, recorded) for name in COMPARED if (path := folder / f"{name}.csv").is_file()]


def variables(kept: Path, recorded: Path) -> dict[str, str]:
    """What a page says about whose results it shows.

    Args:
        kept: folder with the tables of the run, from ``embscale keep``.
        recorded: folder of the same tables as they were recorded; it need not exist.

    Returns:
        ``whose``, one of `RECORDED`, `LOCAL` and `NEVER_RECORDED`; ``words``, which go on after "The results on this
        page were"; of local results also ``differences``, how far they are from the record.

    Raises:
        EmbscaleError: a table is damaged.
    """
    if len(compared_files(kept, recorded)) < 2 * len(COMPARED):
        words = "computed where this page was made; none of this study have been recorded yet"
        return {"whose": NEVER_RECORDED, "words": words}
    pairs = {name: [tidy.load_text(folder / f"{name}.csv") for folder in (kept, recorded)] for name in COMPARED}
    found = {name: compare_tables(*pair) for name, pair in pairs.items()}
    if all(one.same for one in found.values()):
        counts = " and ".join(f"{len(pair[0]):,} rows of {name}" for name, pair in pairs.items())
        return {"whose": RECORDED, "words": f"recorded in this repository: {counts} are equal to the last digit"}
    accuracies = compare_tables(*(rows[rows["metric"] == "accuracy"] for rows in pairs["layers"]))
    differences = f"scores: {_words(found['scores'])}; accuracies: {_words(accuracies)}"
    word = max((one.word for one in found.values()), key=WORDS.index)
    words = f"computed where this page was made; compared with the recorded ones: {word} ({differences})"
    return {"whose": LOCAL, "words": words, "differences": differences}


def headline(tables: Mapping[str, pd.DataFrame], metric: str, length: str) -> dict[str, Any]:
    """The few numbers that stand for a study, for ``dvc metrics``.

    Args:
        tables: ``estimates``, rows of `embscale.scoring.estimates` of one metric; ``layers``, rows of
            `embscale.layers.probes`; from `gather`.
        metric: of the scores.
        length: first tokens of each document that count.

    Returns:
        The score of each model's last table over its runs and of the random tables over their draws, and the accuracy
        of the main run's layer classifiers, each by model and, where a model has several, by what distinguishes them.
    """
    from embscale.rows.selection import main_run

    trained, random = _last_and_random(tables["estimates"], length)
    whole = main_run(tables["layers"], metric="accuracy")
    named = random.assign(model="random " + random["width"])
    return {metric: _by_model(trained) | _by_model(named), "accuracy": _by_model(whole)}


def curves(estimates: pd.DataFrame, length: str) -> pd.DataFrame:
    """Score against width, for ``dvc plots``: columns width, table, task, value; means over runs, and over draws."""
    rows = pd.concat(_last_and_random(estimates, length)).rename(columns={"suite": "of"})
    rows = rows[["width", "of", "task", "value"]].rename(columns={"of": "table"})
    rows = rows.astype({"width": int, "value": float})
    return rows.sort_values(["table", "task", "width"], ignore_index=True)


def _last_and_random(estimates: pd.DataFrame, length: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of each model's last table, and of random tables, of all queries."""
    rows = estimates[(estimates["length"] == length) & (estimates["queries"] == "all")]
    return last_tables(rows), random_tables(rows)


def _by_model(rows: pd.DataFrame) -> dict[str, float]:
    """Values by model, and by every other key in which the rows of one model differ."""
    keys = [name for name in rows if _is_key(name) and name not in NAMED]
    telling = [name for name in keys if len(rows[["model", name]].drop_duplicates()) > rows["model"].nunique()]
    names = rows[["model", *telling]].apply(lambda row: " ".join(filter(None, row)), axis=1)
    return dict(sorted(zip(names, pd.to_numeric(rows["value"]), strict=True))) if len(rows) else {}


def _is_key(name: str) -> bool:
    return name not in MEASURED and not name.endswith(DIGESTS)


def _words(found: Compared) -> str:
    """What a comparison found, in words."""
    if found.same:
        return f"all {found.rows:,} equal to the last digit"
    parts = [f"{found.identical:,} of {found.rows - found.extra:,} equal to the last digit"]
    if found.largest > 0:
        parts.append(f"largest difference {found.largest:.2g}")
    parts += [f"{found.extra:,} only here"] * bool(found.extra) + [f"{found.missing:,} only there"] * bool(
        found.missing
    )
    return ", ".join(parts)
