"""The probes of words as a table for readers: coverage, both forms, chance and random tables beside each number."""

from __future__ import annotations

import pandas as pd

from embscale.errors import EmbscaleError
from embscale.rows.markdown import markdown_table

# The most informative quantity of each probe; the others are in the rows.
METRICS = {
    ("analogy", "accuracy"): "expected word nearest",
    ("analogy", "percentile"): "others farther",
    ("relation", "percentile"): "others farther",
    ("similarity", "spearman"): "rank correlation",
    ("degree", "collinearity"): "cosine of the steps",
    ("degree", "in_order"): "comparative in the middle",
    ("degree", "addition_gain"): "gain by an offset",
    ("degree", "multiplication_gain"): "gain by a factor",
}
FORMS = {"space": "yes", "plain": "no", "both": "both"}


def words_table(rows: pd.DataFrame, model: str) -> str:
    """Markdown rows of the probes of one model's table.

    Args:
        rows: of `words.word_set_rows`, of any models.
        model: which.

    Raises:
        EmbscaleError: there are no rows of it.
    """
    own = rows[(rows["model"] == model) & (rows["variant"] == "full")]
    if own.empty:
        raise EmbscaleError(f"no rows of the model {model!r}; there are {', '.join(sorted(set(rows['model'])))}")
    head = ["set", "probe", "quantity", "space before", "entries asked", "from", "value", "random tables", "chance"]
    lines = [head]
    for row in own.itertuples(index=False):
        quantity = METRICS.get((row.probe, row.metric))
        if quantity is None:
            continue
        probe = row.probe if row.section == "all" else f"{row.probe}: {row.section}"
        asked = f"{row.n:,} of {row.total:,}"
        known = pd.notna(row.value)
        units = f"{row.units:,} {row.unit}"
        interval = f"[{row.ci_low:.3f}, {row.ci_high:.3f}]" if pd.notna(row.ci_low) else "[n/a]"
        value = f"{row.value:.3f} {interval}" if known else f"none: {row.reason}"
        random = f"{row.random_low:.3f} to {row.random_high:.3f}" if known else ""
        chance = f"{row.chance:.3f}" if known and pd.notna(row.chance) else ""
        lines.append([row.set, probe, quantity, FORMS[row.form], asked, units, value, random, chance])
    return markdown_table(lines)
