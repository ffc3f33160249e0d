"""What the trainings took: tokens, floating-point operations, seconds of one process, by suite and width."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from embscale.answers.trained import Trained

TOTAL = "total"
SUMS = ["tokens", "operations", "seconds"]
COLUMNS = ["suite", "width", "runs", *SUMS]


def rows(runs: Sequence[Trained]) -> pd.DataFrame:
    """Rows of ``costs.csv`` with `COLUMNS`, the last one the total; a run counts up to the study's last step."""
    lines = [{"suite": run.suite, "width": run.width, "runs": 1} | dict(run.cost) for run in runs]
    table = pd.DataFrame(lines, columns=COLUMNS)
    groups = table.groupby(["suite", "width"], sort=False, as_index=False)[["runs", *SUMS]].sum()
    whole = groups[["runs", *SUMS]].sum().to_frame().T.assign(suite=TOTAL)
    return pd.concat([groups, whole], ignore_index=True)[COLUMNS].astype({"runs": int, "width": "Int64"})
