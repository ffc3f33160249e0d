"""Which queries training helps and which it hurts: each model's last table beside random tables of its width.

A mean over queries hides that a table may win on many queries and lose on as many.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from embscale.errors import EmbscaleError
from embscale.scoring.beside_random import FULL, KEYS, pairs

GAIN, LOSS = "gain", "loss"
DIGITS = 12  # of a difference of means; what is left beyond is rounding, not a change
COLUMNS = [
    *(name for name in KEYS if name != "variant"), "change", "rank", "query", "text", "score", "control_score",
    "difference", "runs", "draws", "n", "higher", "lower", "equal",
]  # fmt: skip


def changes(per_query: pd.DataFrame, texts: Mapping[str, str], *, count: int) -> pd.DataFrame:
    """The queries that gain and lose most by training.

    Args:
        per_query: rows of ``embscale score --per-query`` on one task.
        texts: of its queries.
        count: of queries to list for each model, at most, for each of `GAIN` and `LOSS`.

    Returns:
        Columns `COLUMNS`, a row for each model and query, the largest changes first, equal ones by the query's name:
        the mean score over training runs, that over random draws (`control_score`) and their difference, from -1 to 1;
        and of all `n` queries how many score higher, lower and the same.  A model without random tables of its width
        has no rows.

    Raises:
        EmbscaleError: a query has no text.
    """
    if unknown := set(per_query["query"]) - set(texts):
        raise EmbscaleError(f"query {min(unknown)!r} is not in the task; give the task of these scores")
    parts = []
    for named, _, trained, random in pairs(per_query, [FULL]):
        score, control = trained.mean(), random.mean()
        difference = (score - control).round(DIGITS)
        counts = {"higher": difference > 0, "lower": difference < 0, "equal": difference == 0}
        found = pd.DataFrame({"score": score, "control_score": control, "difference": difference})
        # Names are sorted, and stay in this order where changes are equal.
        for change, sign in ((GAIN, 1), (LOSS, -1)):
            order = (sign * difference).sort_values(ascending=False, kind="stable")
            listed = found.loc[order[order > 0].index[:count]].rename_axis("query").reset_index()
            parts.append(
                listed.assign(
                    **named, change=change, rank=np.arange(1, len(listed) + 1), text=listed["query"].map(texts),
                    runs=len(trained), draws=len(random), n=len(difference),
                    **{name: int(met.sum()) for name, met in counts.items()},
                )
            )  # fmt: skip
    return pd.concat(parts or [pd.DataFrame(columns=COLUMNS)], ignore_index=True)[COLUMNS]
