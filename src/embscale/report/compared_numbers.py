"""What the text says of compared tables: whether they are more alike than chance, fill fewer dimensions, and so on."""

from __future__ import annotations

import pandas as pd

from embscale.rows.labels import NOT_RUN
from embscale.rows.selection import LADDER

SEEDS, WIDTHS, ENDS = "seeds", "widths", "input and output"
INDICATORS = ("input_norm", "output_cosine")
# What is counted, and a single one of it.
OF_WIDTHS, OF_PAIRS = "widths", "pairs of widths"
ONE = {OF_WIDTHS: "width", OF_PAIRS: "pair of widths"}


def variables(rows: pd.DataFrame) -> dict[str, str]:
    """Phrases about the last tables of the ladder.

    Args:
        rows: from `embscale.scoring.compared_estimates`, with the column ``suite``.

    Returns:
        ``seeds``, ``widths`` and ``ends``: at how many widths, or pairs of them, two tables are more alike than chance,
        and by how much; ``dimension``: at how many widths tables fill fewer dimensions than random ones; for each of
        `INDICATORS`, how well it finds tokens at both ends of the ladder, and how many there are.
    """
    own = rows[rows["suite"] == LADDER]
    last = own[own["step"] == own.groupby(["about", "width"], dropna=False)["step"].transform("max")]
    cka = last[(last["quantity"] == "cka") & (last["table"] == "input")]
    found = {
        "seeds": _alike(cka[cka["relation"] == SEEDS], OF_WIDTHS),
        "widths": _alike(cka[cka["relation"] == WIDTHS], OF_PAIRS),
        "ends": _alike(cka[cka["relation"] == ENDS], OF_WIDTHS),
        "dimension": _dimension(own[own["about"] == "dimension"]),
    }
    auc = last[last["quantity"] == "auc"].sort_values("width")
    for indicator in INDICATORS:
        found[indicator] = _auc(auc[auc["indicator"] == indicator])
    return found


def _at(count: int, total: int, things: str) -> str:
    """``at all 4 widths``, ``at 1 of 4 widths`` or ``at none of the widths``."""
    if not count:
        return f"at none of the {things}"
    if count == total:
        return f"at all {total} {things}" if total > 1 else f"at the only {ONE[things]}"
    return f"at {count} of {total} {things}"


def _alike(rows: pd.DataFrame, things: str) -> str:
    if rows.empty:
        return NOT_RUN
    known = rows["ci_low"].notna()
    above = int((rows["ci_low"].where(known, rows["value"]) > 0).sum())
    values = " to ".join(dict.fromkeys(f"{value:.2f}" for value in (rows["value"].min(), rows["value"].max())))
    return (
        f"more alike than chance {_at(above, len(rows), things)} (calibrated CKA {values}"
        f"{'' if known.all() else ', without intervals'})"
    )


def _dimension(rows: pd.DataFrame) -> str:
    tables = rows[rows["table"] == "input"]
    last = tables[tables["step"] == tables.groupby("width")["step"].transform("max")].set_index("width")
    random = rows[rows["table"] == "random"].set_index("width")["value"].reindex(last.index)
    if last.empty or random.isna().any():
        return NOT_RUN
    below = int((last["ci_high"] < random).sum())
    return f"fewer dimensions than random tables {_at(below, len(last), OF_WIDTHS)}"


def _auc(rows: pd.DataFrame) -> str:
    if rows.empty:
        return NOT_RUN
    ends = [rows.iloc[0], rows.iloc[-1]] if len(rows) > 1 else [rows.iloc[0]]
    words = " and ".join(f"{row['value']:.2f} at width {row['width']:.0f}" for row in ends)
    return f"{words} (chance {rows['chance'].iloc[0]:.2f})"
