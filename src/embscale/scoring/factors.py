"""Effects of scoring choices: pooling, special tokens, number format, and input or output table."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from embscale.errors import EmbscaleError
from embscale.scoring.scores import NAN, NONE
from embscale.statistics.resampling import Estimate, estimate
from embscale.statistics.two_way import Resamples

# The scoring choices.
FACTORS = ("variant", "pooling", "special_tokens")

# Other columns in which a table may differ from the one it is compared with.
SAME = ("suite", "model", "step", "tokenizer", "task", "metric")

COLUMNS = [*SAME, "factor", "level", "against", "value", "difference", "ci_low", "ci_high", "n"]


def differences(per_query: pd.DataFrame, *, against: Mapping[str, str], resamples: int, seed: int) -> pd.DataFrame:
    """Difference between each way of scoring and the baseline, where they differ in a single factor.

    Args:
        per_query: rows of ``embscale score --per-query``.
        against: the baseline level of each of `FACTORS`.
        resamples: of the clusters of queries, the same ones for both ways.
        seed: of the resamples.

    Returns:
        `COLUMNS`: the factor and its level; ``value``, the score at that level; ``difference``, that score minus the
        baseline's, with a 95 % paired interval over clusters of the `n` queries.  Rows in which several factors differ
        are left out.

    Raises:
        EmbscaleError: a model has no baseline score, or was scored twice in the same way.
    """
    rows = []
    for same, group in per_query.groupby(list(SAME), sort=True):
        if group.duplicated([*FACTORS, "query"]).any():
            raise EmbscaleError(f"{_words(same)}: scored twice in one way; give each way once")
        ways = group.pivot(index="query", columns=list(FACTORS), values="score").sort_index()
        base = tuple(against[name] for name in FACTORS)
        if base not in ways:
            asked = ", ".join(f"{name} {level}" for name, level in zip(FACTORS, base, strict=True))
            raise EmbscaleError(f"{_words(same)}: no score with {asked}; score in that way too")
        if ways.isna().to_numpy().any():
            raise EmbscaleError(f"{_words(same)}: one way was scored on other queries than another")
        apart = ways.sub(ways[base], axis=0)
        single = [way for way in ways if sum(level != own for level, own in zip(way, base, strict=True)) == 1]
        clusters = group.drop_duplicates("query").set_index("query")["cluster"].sort_index()
        resampled = Resamples(clusters.to_numpy(), resamples=resamples, seed=seed)
        for way, drawn in zip(single, resampled.means(apart[single].to_numpy()).T, strict=True):
            (factor, level), *_ = [
                (name, level) for name, level in zip(FACTORS, way, strict=True) if level != against[name]
            ]
            value = apart[way].mean()
            # Queries that all belong together are one unit, which gives no interval.
            found = estimate(value, drawn) if resampled.clusters > 1 else Estimate(value, NAN, NAN, NAN)
            rows.append(
                dict(zip(SAME, same, strict=True))
                | {"factor": factor, "level": level, "against": against[factor], "value": ways[way].mean()}
                | {"difference": found.value, "ci_low": found.low, "ci_high": found.high, "n": len(ways)}
            )
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.assign(step=table["step"].astype("Int64").mask(lambda step: step == NONE))


def _words(same: tuple[object, ...]) -> str:
    """What rows are about."""
    return ", ".join(str(value) for name, value in zip(SAME, same, strict=True) if name in ("model", "task", "metric"))
