"""Retrieval scores of the layers of models, from the table to the last one, on the queries that tables are scored on.

A text's vector at a layer is the mean of its tokens' hidden states (`embscale.layers.text_vectors`); at layer 0 it is
the mean of their rows, which is how tables are scored.  Layers are compared with the table of the same checkpoint, with
the same layer of the untrained model, with random tables of the model's width and with a ranking in random order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from embscale.errors import EmbscaleError
from embscale.rows.treatments import RANDOM, REFERENCE
from embscale.scoring.retrieval import Scorer
from embscale.scoring.scores import NONE
from embscale.statistics.resampling import Estimate, estimate, percentile_interval
from embscale.statistics.two_way import Resamples
from embscale.texts.beir import RetrievalData
from embscale.texts.tokens import TokenisedTexts

EMBEDDING = "embedding"  # the layer that is the table, as in `embscale.layers.names`
TABLE, UNTRAINED, CHANCE = "table", "untrained", "chance"
SCORE, DIFFERENCE = "score", "difference"
NOTHING = "none"  # what a score is compared with

# Groups of scores that are compared: the same task in the same way.
SAME = ["tokenizer", "pooling", "special_tokens", "task", "length", "metric"]
CELL = ["suite", "width", "model", "step", "layer_number", "layer"]
COLUMNS = [
    *CELL, *SAME, "quantity", "against", "value", "ci_low", "ci_high", "p", "runs", "control_runs", "n", "clusters",
]  # fmt: skip


def vector_scorer(
    data: RetrievalData, documents: np.ndarray, queries: np.ndarray, *, depth: int, device: str
) -> Scorer:
    """A scorer for vectors of texts instead of tables: each distinct text is a token, whose row is its vector.

    Args:
        data: the task.
        documents: number of each document's text among the vectors, ``[documents]``.
        queries: the same for queries.
        depth: how many documents of a ranking are kept.
        device: where to compute.
    """
    texts = (TokenisedTexts(numbers.astype(np.int32), np.arange(len(numbers) + 1)) for numbers in (documents, queries))
    return Scorer(data, *texts, depth=depth, device=device)


@dataclass(frozen=True)
class _Cell:
    """All scores of one layer of one checkpoint, of random tables of one width, or of a reference.

    Attributes:
        keys: columns `CELL`.
        members: the training runs, or the seeds of random tables, ascending.
        scores: ``[members, queries]``.
    """

    keys: dict[str, Any]
    members: tuple[int, ...]
    scores: np.ndarray

    @property
    def runs(self) -> str:
        """Names the set of runs, for `Resamples.of_runs`."""
        width = f" {self.keys['width']}" if self.keys["suite"] == RANDOM else ""
        return f"{self.keys['suite']} {self.keys['model']}{width}"


def estimates(layers: pd.DataFrame, tables: pd.DataFrame, *, resamples: int, seed: int) -> pd.DataFrame:
    """Mean scores of layers over training runs, and how far they are above or below their controls.

    Args:
        layers: scores of every query, from ``embscale layer-scores``.
        tables: the same of random tables and of what needs no table, from ``embscale score``; others are left out, and
            random tables that were treated in any way.
        resamples: of clusters of queries, and of runs.
        seed: of the resampling.

    Returns:
        `COLUMNS`.  The quantity `SCORE` of each layer at each step, of random tables by width, and of each reference;
        the quantity `DIFFERENCE` of each layer ``against`` the table of the same checkpoint, the same layer of the
        untrained model (`UNTRAINED`), random tables of the model's width and `CHANCE`, as far as they are there.
        Intervals are two-way, over runs and clusters of queries (`embscale.statistics.two_way`); of one run over
        queries alone; where all queries are one cluster, there is none.  ``p`` is two-sided.

    Raises:
        EmbscaleError: two scores cover different queries, or one occurs twice.
    """
    plain = tables[(tables["suite"] == REFERENCE) | ((tables["suite"] == RANDOM) & (tables["variant"] == RANDOM))]
    joined = pd.concat([layers, plain.assign(layer="", layer_number=NONE)], ignore_index=True)
    joined["member"] = joined["run"].where(joined["suite"] != RANDOM, joined["seed"])
    names = joined.select_dtypes("category").columns
    joined = joined.astype(dict.fromkeys(names, "str"))
    found: list[dict[str, Any]] = []
    for values, group in joined.groupby(SAME, sort=True):
        same = dict(zip(SAME, values, strict=True))
        if not (group["layer_number"] >= 0).any():
            continue  # a tokenizer or task of which no layers were scored
        clusters = group.drop_duplicates("query").set_index("query")["cluster"].sort_index()
        resampled = Resamples(clusters.to_numpy(), resamples=resamples, seed=seed)
        found += (same | row for row in _of_group(list(_cells(group, clusters.index)), resampled))
    rows = pd.DataFrame(found, columns=COLUMNS)
    whole = {name: rows[name].astype("Int64") for name in ("step", "width", "layer_number", "control_runs")}
    return rows.assign(**{name: column.mask(column == NONE) for name, column in whole.items()})


def _cells(group: pd.DataFrame, queries: pd.Index) -> Iterator[_Cell]:
    """The cells of one task in one way: layers by model, step and layer, then random tables, then references."""
    order = {RANDOM: 1, REFERENCE: 2}
    wide = group.pivot_table(index=[*CELL, "member"], columns="query", values="score", aggfunc=["sum", "size"])
    name = group["model"].iloc[0]
    if (wide["size"] > 1).to_numpy().any():
        raise EmbscaleError(f"{name}: a score occurs twice for one query; give each file of scores once")
    if wide.isna().to_numpy().any():
        raise EmbscaleError(f"{name}: scores were made on different queries; make them again with one task")
    cells = []
    for values, rows in wide["sum"][queries].groupby(level=CELL, sort=True):
        members = tuple(int(member) for member in rows.index.get_level_values("member"))
        cells.append(_Cell(dict(zip(CELL, values, strict=True)), members, rows.to_numpy()))
    yield from sorted(cells, key=lambda cell: order.get(cell.keys["suite"], 0))


def _of_group(cells: Sequence[_Cell], resampled: Resamples) -> Iterator[dict[str, Any]]:
    """Rows of scores and differences, without what is the same for all."""
    # Resampled queries of all cells at once.
    means = resampled.means(np.stack([cell.scores.mean(axis=0) for cell in cells], axis=1))
    place = {tuple(cell.keys.values()): number for number, cell in enumerate(cells)}
    units = {"n": resampled.queries, "clusters": resampled.clusters}
    for number, cell in enumerate(cells):
        value, ends = float(cell.scores.mean()), (np.nan, np.nan)
        if resampled.clusters > 1:
            low, high = percentile_interval(means[:, number] + resampled.of_runs(cell.scores, cell.runs))
            # Scores are from 0 to 1, and so is what can be said of them.
            ends = max(0.0, float(low)), min(1.0, float(high))
        about = cell.keys | units | {"runs": len(cell.members)}
        yield about | {
            "quantity": SCORE, "against": NOTHING, "value": value, "ci_low": ends[0], "ci_high": ends[1],
            "p": np.nan, "control_runs": NONE,
        }  # fmt: skip
        for against, other in _controls(cell, place):
            control = cells[other]
            less = Estimate(value - float(control.scores.mean()), np.nan, np.nan, np.nan)
            if resampled.clusters > 1:
                drawn = means[:, number] - means[:, other] + _between_runs(resampled, cell, control)
                less = estimate(less.value, drawn)
            yield about | {
                "quantity": DIFFERENCE, "against": against, "value": less.value, "ci_low": less.low,
                "ci_high": less.high, "p": less.p, "control_runs": len(control.members),
            }  # fmt: skip


def _controls(cell: _Cell, place: dict[tuple[Any, ...], int]) -> Iterator[tuple[str, int]]:
    """The places of the cells that a layer is compared with, each with its name."""
    keys = cell.keys
    if keys["layer_number"] < 0:
        return

    def find(**changes: Any) -> int | None:  # noqa: ANN401 (values of keys)
        return place.get(tuple((keys | changes).values()))

    nowhere = {"step": NONE, "layer": "", "layer_number": NONE}
    candidates = {
        TABLE: find(layer_number=0, layer=EMBEDDING) if keys["layer_number"] else None,
        UNTRAINED: find(step=0) if keys["step"] > 0 else None,
        RANDOM: find(suite=RANDOM, model=RANDOM, **nowhere),
        CHANCE: find(suite=REFERENCE, model=CHANCE, width=NONE, **nowhere),
    }
    yield from ((name, control) for name, control in candidates.items() if control is not None)


def _between_runs(resampled: Resamples, cell: _Cell, control: _Cell) -> np.ndarray:
    """What differences between runs add to each resample of a difference; runs that both have are paired."""
    if cell.runs == control.runs and cell.members == control.members:
        return resampled.of_runs(cell.scores - control.scores, cell.runs)
    return resampled.of_two(cell.scores, control.scores, f"{cell.runs} {control.runs}")
