"""Compare results that were computed again with the recorded ones.

Four words say how an output relates to the recorded one.  Its bytes may be equal.  Its values may be within tolerance:
another processor rounds differently, and training amplifies that.  A value may be off.  A verdict may have changed,
whatever its values.  Outputs without values that can be compared (tensors, pictures) have the first word or none.
What a job took is another number each time, and is left out.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from embscale.provenance.costs import is_cost
from embscale.provenance.notes import NOTE_SUFFIX, outputs_of, read_note
from embscale.rows import tidy

EQUAL, WITHIN, OFF, CHANGED = "bytes equal", "values within tolerance", "value off", "verdict changed"
UNKNOWN = "other bytes, no values to compare"
WORDS = (EQUAL, WITHIN, UNKNOWN, OFF, CHANGED)  # from best to worst

EXACTLY = 1e-9
VERDICTS = ("verdict", "analogue")
# What a row is about: rows of two tables belong together where these are equal, in the order in which they are written.
ABOUT = set(tidy.TEXT_COLUMNS) - set(VERDICTS) | {
    "claim",
    "dim",
    "dims",
    "explanation",
    "prediction",
    "quantity",
    "run",
    "step",
    "table",
    "unit",
    "width",
}
# How much a row is made of: these numbers are equal or wrong.  Tokens are counted in one table, estimated in another.
COUNTS = (
    "clusters", "control_runs", "draws", "last_tokens", "layer_number", "n", "n_layers", "n_train", "operations",
    "parameters", "points", "rows", "runs", "texts_count", "tokens", "total", "units", "variant_seed",
)  # fmt: skip
PLACE = "place"  # of a row in its table
DIGESTS = "_sha256"  # columns of this ending say of which bytes a row is made, not what was measured
# What a row's interval, if it has one, says about: a difference of half its width is as uncertain as the value itself.
ESTIMATED = ("value", "ci_low", "ci_high", "effect", "score", "control_score")
INTERVAL = ("ci_low", "ci_high")
SHARE_OF_INTERVAL = 0.5
# p-values, and everything else: absolute, or relative to the recorded value, whichever is larger.
TOLERANCES = {"p-value": (0.05, 0.0), "other": (0.005, 0.05)}
TOLERANCE_IN_WORDS = "half an interval, or 5 %"
NUMBER = re.compile(r"[-−+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?")


@dataclasses.dataclass(frozen=True)
class Compared:
    """How one output, or one table of results, relates to the recorded one.

    Attributes:
        path: of the output, as in the record.
        word: one of `WORDS`.
        rows: of the table that was computed; 0 of an output that is no table, or whose bytes are equal.
        identical: those of them that are recorded with the same cells, apart from what a job took.
        extra: those that the record lacks.
        missing: rows that only the record holds.
        numbers: how many were compared.
        largest: the largest absolute difference in the column ``value``.
        worst: the largest difference of all, in tolerances; above 1 is off.
        where: what is worst: what the row is about, and a column.
    """

    path: str
    word: str
    rows: int = 0
    identical: int = 0
    extra: int = 0
    missing: int = 0
    numbers: int = 0
    largest: float = 0.0
    worst: float = 0.0
    where: str = ""

    @property
    def same(self) -> bool:
        """Whether the table has the recorded rows, equal to the last digit."""
        return self.rows == self.identical and not self.missing


def compare_jobs(computed: Path, recorded: Path) -> list[Compared]:
    """Every output below a folder whose job is in the record.

    Args:
        computed: folder of results, with notes.
        recorded: folder of the recorded results, with notes; tensors need not be there, their digests are in the notes.
    """
    found = []
    for path in sorted(computed.rglob(f"*{NOTE_SUFFIX}")):
        known = recorded / path.relative_to(computed)
        if not known.is_file():
            continue
        digests = outputs_of(known, read_note(known))
        for place, digest in outputs_of(path, read_note(path)).items():
            then = recorded / os.path.relpath(place, computed)
            if then in digests:
                found.append(_compare(place.relative_to(computed), place, then, same=digest == digests[then]))
    return found


def _compare(name: Path, computed: Path, recorded: Path, *, same: bool) -> Compared:
    """One output; `same` says whether the notes give both the same digest."""
    if same:
        return Compared(name.as_posix(), EQUAL)
    if name.suffix != ".csv" or not recorded.is_file():
        return Compared(name.as_posix(), UNKNOWN)
    tables = (tidy.load_text(path) for path in (computed, recorded))
    return dataclasses.replace(compare_tables(*tables), path=name.as_posix())


def compare_tables(computed: pd.DataFrame, recorded: pd.DataFrame) -> Compared:
    """Two tables of results, each row with the one about the same.

    Args:
        computed: as text, from `tidy.load_text`.
        recorded: the same.  A column that one side lacks is empty there.
    """
    columns = list(dict.fromkeys([*computed, *recorded]))
    # Rows that were chosen from others keep their numbers, and are paired by place.
    sides = [rows.reindex(columns=columns, fill_value="").reset_index(drop=True) for rows in (computed, recorded)]
    places = [rows.reset_index(names=PLACE)[[PLACE]].join(_about(rows)) for rows in sides]
    pairs = places[0].merge(places[1], on=list(places[0])[1:], suffixes=("_now", "_then")).filter(like=PLACE)
    now, then = (rows.iloc[list(pairs[end])].reset_index(drop=True) for rows, end in zip(sides, pairs, strict=True))
    measured = [name for name in columns if not is_cost(name)]
    found = Compared(
        "",
        WITHIN,
        rows=len(computed),
        identical=int((now[measured] == then[measured]).all(axis=1).sum()),
        extra=len(computed) - len(pairs),
        missing=len(recorded) - len(pairs),
    )
    for name in VERDICTS:
        if name in columns and not now[name].equals(then[name]):
            where = _where(now, then, name, int((now[name] != then[name]).to_numpy().argmax()))
            return dataclasses.replace(found, word=CHANGED, worst=np.inf, where=where)
    numbers, largest, worst, where = 0, 0.0, 0.0, ""
    for name in measured:
        if name.endswith(DIGESTS):
            continue
        apart, tolerances, count = _apart(name, now, then)
        numbers += count
        if name == "value":
            largest = max(apart[np.isfinite(apart)], default=0.0)
        if len(apart) and (apart / tolerances).max() > worst:
            row = int((apart / tolerances).argmax())
            worst, where = float(apart[row] / tolerances[row]), _where(now, then, name, row)
    if found.extra or found.missing:
        worst, where = np.inf, f"{found.extra} rows that are not recorded, {found.missing} recorded ones are missing"
    word = OFF if worst > 1 else EQUAL if list(computed) == list(recorded) and computed.equals(recorded) else WITHIN
    return dataclasses.replace(found, word=word, numbers=numbers, largest=float(largest), worst=worst, where=where)


def _about(rows: pd.DataFrame) -> pd.DataFrame:
    """What each row is about, and how many rows about the same come before it."""
    about = rows[[name for name in rows if name in ABOUT]]
    before = about.groupby(list(about)).cumcount() if len(about.columns) else pd.Series(range(len(rows)))
    return about.assign(**{"rows about the same": before})


def _apart(name: str, computed: pd.DataFrame, recorded: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, int]:
    """The difference of each row in a column, its tolerance, and how many are numbers."""
    now, then = computed[name], recorded[name]
    a, b = (pd.to_numeric(side, errors="coerce").to_numpy(float) for side in (now, then))
    both = np.isfinite(a) & np.isfinite(b)
    # Words are the same words; numbers within them are those of other columns.
    words = now.str.replace(NUMBER, "#", regex=True) == then.str.replace(NUMBER, "#", regex=True)
    numeric = ~np.isnan(a) | ~np.isnan(b)
    apart = np.where(np.where(numeric, now == then, words), 0.0, np.inf)
    apart[both] = np.abs(a[both] - b[both])
    return apart, _tolerance(name, recorded, b), int(both.sum())


def _tolerance(name: str, recorded: pd.DataFrame, values: np.ndarray) -> np.ndarray:
    """How far a number of each row may be from the recorded one."""
    absolute, relative = TOLERANCES["p-value" if name == "p" or name.startswith("p_") else "other"]
    tolerance = np.maximum(absolute, relative * np.abs(np.where(np.isfinite(values), values, 0)))
    if name in ESTIMATED and set(INTERVAL) <= set(recorded):
        low, high = (pd.to_numeric(recorded[end], errors="coerce").to_numpy(float) for end in INTERVAL)
        own = SHARE_OF_INTERVAL * (high - low)
        # What has no spread, such as chance, has an interval of rounding errors.
        tolerance = np.where(np.isfinite(own) & (own > EXACTLY), own, tolerance)
    return np.where((name in COUNTS) & (values == np.round(values)), EXACTLY, tolerance)


def _where(computed: pd.DataFrame, recorded: pd.DataFrame, name: str, row: int) -> str:
    """What a row is about, and the cells of a column in it, for a message."""
    words = [word for column, word in recorded.iloc[row].items() if column in ABOUT and word]
    return f"{', '.join(words) or f'row {row + 1}'}: {name} {computed[name][row]!r}, recorded {recorded[name][row]!r}"


def summary(found: Iterable[Compared], chapters: Mapping[str, str]) -> dict[str, Any]:
    """Counts by chapter and word, and what is worst.

    Args:
        found: from `compare_jobs`.
        chapters: of the first part of an output's path.

    Returns:
        ``outputs``, how many; ``compared``, those whose bytes are equal or that have values; ``by_chapter``, by chapter
        and word; ``numbers`` compared; ``worst``, all outputs that are off or whose verdict changed, or else the one
        with the largest difference; ``reproduced``, whether anything was compared and nothing is off or changed.
    """
    found = list(found)
    counts: dict[str, dict[str, int]] = {}
    for one in found:
        chapter = counts.setdefault(chapters.get(Path(one.path).parts[0], "other"), dict.fromkeys(WORDS, 0))
        chapter[one.word] += 1
    compared = sum(one.word != UNKNOWN for one in found)
    bad = [one for one in found if one.word in (OFF, CHANGED)]
    near = sorted((one for one in found if one.word == WITHIN), key=lambda one: one.worst)[-1:]
    return {
        "outputs": len(found),
        "compared": compared,
        "by_chapter": counts,
        "numbers": sum(one.numbers for one in found),
        "worst": [dataclasses.asdict(one) for one in bad or near],
        "reproduced": compared > 0 and not bad,
    }
