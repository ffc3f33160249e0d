"""Tune one setting of each method on queries kept for it: the same effort for static embeddings and language models.

Each method is trained once for each value of a declared grid, on the same tokens.  The value whose table scores highest
on the development queries is chosen; test queries have no part in the choice.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from embscale.errors import EmbscaleError
from embscale.parameters import checking, schema
from embscale.training.static_embeddings import Trained

DEV, TEST = "dev", "test"

COLUMNS = (
    "suite",
    "dim",
    "setting",
    "tried",
    "tokens_seen",
    "epochs",
    "tokens_processed",
    "heldout_loss",
    "queries",
    "metric",
    "value",
    "ci_low",
    "ci_high",
    "n",
    "clusters",
    "chosen",
)


@dataclass(frozen=True)
class Scored:
    """The score of a table on a set of queries.

    Attributes:
        value: mean over the queries, from 0 to 1.
        low: end of its 95 % interval over clusters of queries; NaN if there are none.
        high: the other end.
        n: queries.
        clusters: clusters of queries.
    """

    value: float
    low: float
    high: float
    n: int
    clusters: int


def with_setting(settings: Any, setting: str, value: float) -> Any:  # noqa: ANN401 (a group of settings)
    """The settings of a method with another value of one of them.

    Args:
        settings: a group of parameters.
        setting: its name.
        value: to replace it with.

    Raises:
        EmbscaleError: the method has no such number to set, or cannot have this value.
    """
    group: Any = type(settings)
    kinds = {parameter.name: parameter.kind for parameter in schema.parameters(group)}
    numbers = [name for name, kind in kinds.items() if schema.plain(kind) in (int, float) and not schema.is_list(kind)]
    if setting not in numbers:
        raise EmbscaleError(f"setting {setting!r}: the method has none of this name; it has {', '.join(numbers)}")
    if schema.plain(kinds[setting]) is int and float(value).is_integer():
        value = int(value)
    if found := checking.problems({setting: value}, {"properties": {setting: schema.of_kind(kinds[setting])}}):
        raise EmbscaleError(f"setting {found[0]}")
    return dataclasses.replace(settings, **{setting: value})


def rows(
    method: str,
    setting: str,
    tried: Sequence[Any],
    *,
    train: Callable[[Any], Trained],
    score: Callable[[np.ndarray, str], Scored],
    metric: str,
) -> tuple[pd.DataFrame, Trained]:
    """Train with each value, score on the development queries, choose; then score the chosen table on the test queries.

    Args:
        method: name of the method, which is the suite of its tables.
        setting: what is tuned.
        tried: the settings of the method, which differ in this one; of those with equal scores the first is chosen.
        train: with one of them.
        score: of a table on the queries of a split, `DEV` or `TEST`.
        metric: name of that score.

    Returns:
        `COLUMNS`: a row for each value, and a last one with the test score of the chosen one.  A training that
        diverged has no score.  And the chosen table.

    Raises:
        EmbscaleError: every training diverged.
    """
    made = [(getattr(settings, setting), train(settings)) for settings in tried]
    usable = {value: trained for value, trained in made if not trained.diverged}
    if not usable:
        values = ", ".join(f"{value:g}" for value, _ in made)
        raise EmbscaleError(f"{method}: training diverged with every {setting} tried ({values}); try smaller ones")
    scored = {value: score(trained.table, DEV) for value, trained in usable.items()}
    best = max(scored, key=lambda value: scored[value].value)
    found = [_row(value, trained, DEV, scored.get(value)) | {"chosen": value == best} for value, trained in made]
    found.append(_row(best, usable[best], TEST, score(usable[best].table, TEST)) | {"chosen": True})
    rows = pd.DataFrame(found).assign(suite=method, setting=setting, metric=metric)
    return rows[list(COLUMNS)], usable[best]


def _row(value: float, trained: Trained, queries: str, scored: Scored | None) -> dict[str, Any]:
    """The columns of `rows` that differ between them."""
    return {
        "dim": trained.table.shape[1],
        "tried": value,
        "tokens_seen": trained.tokens_seen,
        "epochs": trained.epochs,
        "tokens_processed": round(trained.tokens_seen * trained.epochs),
        "heldout_loss": trained.heldout_loss,
        "queries": queries,
        "value": scored.value if scored else math.nan,
        "ci_low": scored.low if scored else math.nan,
        "ci_high": scored.high if scored else math.nan,
        "n": scored.n if scored else 0,
        "clusters": scored.clusters if scored else 0,
    }


def chosen(found: pd.DataFrame) -> dict[str, Any]:
    """The method, the setting and the chosen value of `rows`."""
    best = found[found["chosen"]].iloc[0]
    return {"method": best["suite"], "setting": best["setting"], "value": best["tried"].item()}


def write_choice(path: Path, found: pd.DataFrame) -> None:
    """Write the chosen setting of `rows` for `read_choice`."""
    path.write_text(json.dumps(chosen(found), indent=1) + "\n", "utf-8")


def read_choice(path: Path, method: str) -> tuple[str, float]:
    """The setting and the value that were chosen for a method.

    Raises:
        EmbscaleError: the file is missing or of another kind, or is about another method.
    """
    advice = "make it with embscale tune"
    try:
        choice = json.loads(path.read_text("utf-8"))
        of, setting, value = choice["method"], choice["setting"], choice["value"]
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; {advice}") from None
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError):
        raise EmbscaleError(
            f"{path}: not a chosen setting; expected a JSON object with method, setting and value; {advice}"
        ) from None
    if of != method:
        raise EmbscaleError(f"{path}: the chosen setting of {of}, but the method is {method}; {advice} {method}")
    if not isinstance(setting, str) or isinstance(value, bool) or not isinstance(value, int | float):
        raise EmbscaleError(f"{path}: setting {setting!r}, value {value!r}: expected a name and a number; {advice}")
    return setting, value
