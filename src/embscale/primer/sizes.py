"""How many of a model's parameters are in its tables: arithmetic, for every model of the registry."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from embscale.checkpoints.suites import Checkpoint
from embscale.primer.positions import scheme
from embscale.rows.markdown import markdown_table

# Example shapes from lectures, with the number of parameters if there is a whole model.
EXAMPLES: tuple[dict[str, Any], ...] = (
    {"model": "a round example", "rows": 50_000, "dims": 1_000, "source": "the lecture"},
    {
        "model": "GPT-3",
        "rows": 50_257,
        "dims": 12_288,
        "tied": True,  # as in GPT-2, whose architecture it has
        "parameters": 175_000_000_000,
        "source": "Brown et al. 2020, table 2.1; GPT-2's vocabulary",
    },
    # All of its weights, no table: the lecture's comparison with the tables.
    {"model": "ResNet-50", "parameters": 25_557_032, "source": "He et al. 2016, table 1, counted with 1,000 classes"},
)
EXAMPLE = "example"

COLUMNS = (
    "suite",
    "model",
    "rows",
    "dims",
    "tied",
    "table",
    "tables",
    "parameters",
    "share",
    "positions",
    "source",
    "recalled",
)


def size_rows(registry: Mapping[str, Sequence[Checkpoint]]) -> pd.DataFrame:
    """Sizes of the examples and of every model of the registry, each model once.

    Returns:
        A row for each model: ``suite`` (example for the examples), ``model``, ``rows`` and ``dims`` of its input
        table, ``tied``, parameters of the input ``table``, of all ``tables`` (twice as many where the output table is
        another), of the whole model as ``parameters``, the ``share`` of the tables in them, how the family
        distinguishes ``positions`` (`embscale.primer.positions.scheme`), the ``source`` of these facts, and whether any
        of them is ``recalled`` from memory or estimated.  Empty where not known.
    """
    families = {point.family for points in registry.values() for point in points}
    schemes = {name: scheme({"model_type": name}) for name in families}
    models: dict[str, dict[str, Any]] = {}
    for suite, points in registry.items():
        for point in points:  # the earlier checkpoints of a model have its sizes
            models.setdefault(
                point.model,
                {
                    "suite": suite,
                    "model": point.model,
                    "rows": point.rows,
                    "dims": point.dims,
                    "tied": point.tied,
                    "parameters": point.parameters,
                    "positions": schemes[point.family],
                    "source": point.source,
                    "recalled": point.sure in ("recalled", "estimated")
                    or bool({"parameters", "tied"} & set(point.recalled)),
                },
            )
    examples = [{"suite": EXAMPLE, "recalled": False} | example for example in EXAMPLES]
    sizes = pd.DataFrame([*examples, *models.values()]).reindex(columns=list(COLUMNS))
    for column in ("rows", "dims", "parameters"):
        sizes[column] = sizes[column].astype("Int64")
    sizes["tied"] = sizes["tied"].astype("boolean")
    sizes["table"] = sizes["rows"] * sizes["dims"]
    sizes["tables"] = sizes["table"] * (2 - sizes["tied"].astype("Int64"))
    sizes["share"] = sizes["tables"].astype("Float64") / sizes["parameters"].astype("Float64")
    return sizes


def sizes_table(sizes: pd.DataFrame) -> str:
    """Markdown rows of `size_rows`; models of a suite that have the same sizes stand in one row."""
    lines = [
        [
            "suite",
            "model",
            "table",
            "its parameters, millions",
            "output table",
            "all, millions",
            "share of tables",
            "positions",
        ]
    ]
    keys = ["suite", "rows", "dims", "tied", "parameters"]
    for (suite, rows, dims, tied, parameters), group in sizes.groupby(keys, sort=False, dropna=False):
        first, count = group.iloc[0], len(group)
        known = not _missing(rows)
        lines.append(
            [
                str(suite),
                first["model"] + (f" and {count - 1} more" if count > 1 else ""),
                f"{rows:,} × {dims:,}" if known else "",
                millions(first["table"]) if known else "",
                "" if _missing(tied) else "the same" if tied else "another",
                "" if _missing(parameters) else millions(parameters),
                "" if _missing(first["share"]) else percent(first["share"]),
                "" if _missing(first["positions"]) else first["positions"],
            ]
        )
    return markdown_table(lines)


def millions(count: float) -> str:
    """``617.6``; more digits below one million."""
    return f"{count / 1e6:,.1f}" if count >= 1e6 else f"{count / 1e6:.3g}"


def percent(share: float) -> str:
    """Two significant digits: ``0.35 %``, ``31 %``."""
    digits = max(0, 1 - math.floor(math.log10(share * 100)))
    return f"{share * 100:.{digits}f} %"


def _missing(value: Any) -> bool:  # noqa: ANN401 (of any column)
    return bool(pd.isna(value))
