"""The ladder's answers in sentences and tables for the report, by rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from embscale.answers import costs, explanations, fits
from embscale.answers.crossings import ALL_RUNS, CROSSED, NOT_BEFORE
from embscale.answers.effects import LOSS, NOT_COMPARED, QUANTITIES, SCORE, TOKENS
from embscale.claims.verdicts import UNITS
from embscale.rows.labels import PERCENT, runs_label
from embscale.rows.markdown import escape, markdown_table
from embscale.rows.selection import LADDER
from embscale.rows.treatments import RANDOM
from embscale.scoring.estimates import UNTRAINED

SUPERSCRIPT = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
MINUS = "\N{MINUS SIGN}"
SCALE = {SCORE: PERCENT, LOSS: 1, TOKENS: 1}
SLICE = (
    "a slice of the deep ladder (`studies/ladder.yaml`), which trains the same runs further, and others with one thing "
    "changed at a time: the output table tied to the input table, the table frozen, its own learning rate or weight "
    "decay, the depth."
)
CONTROLS = {RANDOM: "random tables", UNTRAINED: "their own start"}
PARENTHESES = {SCORE: "× 100", LOSS: "nats", TOKENS: "doublings"}


def tokens_label(tokens: float) -> str:
    """``3.1 million`` or ``410,000`` tokens."""
    return f"{tokens / 1e6:.3g} million" if tokens >= 1e6 else f"{float(f'{tokens:.2g}'):,.0f}"


def power_label(value: float) -> str:
    """``2.2 × 10¹⁶`` for 2.2e16."""
    digits, _, power = f"{value:.1e}".partition("e")
    return f"{digits} × 10{str(int(power)).translate(SUPERSCRIPT)}"


def variation(suite: str) -> str:
    """``tied`` for the suite ``ladder-tied``."""
    return suite.removeprefix(f"{LADDER}-")


def crossing_label(row: Mapping[str, Any]) -> str:
    """``3.1 million [2.2 million, 4.5 million]``, or what is known where a table has not crossed."""
    value = tokens_label(row["tokens"])
    if row["status"] == NOT_BEFORE:
        value = f"not before {value}"
        if row["ci_low"] >= row["tokens"]:
            return value
    if pd.isna(row["ci_low"]):
        return value
    high = "no upper end" if pd.isna(row["ci_high"]) else tokens_label(row["ci_high"])
    return f"{value} [{tokens_label(row['ci_low'])}, {high}]"


def crossings_sentence(rows: pd.DataFrame, against: str = RANDOM) -> str:
    """How many tokens each width of the ladder takes to pass a control."""
    whole = rows[(rows["suite"] == LADDER) & (rows["run"] == ALL_RUNS) & (rows["against"] == against)]
    whole = whole.sort_values("width")
    control = CONTROLS[against]
    if whole.empty:
        return f"{control} were not scored"
    if (whole["status"] == NOT_BEFORE).all():
        return f"no width is above {control} when training ends, after {tokens_label(whole['tokens'].max())} tokens"
    parts = [f"{_from(row)} at width {row['width']}" for row in whole.to_dict("records")]
    return f"tables stay above {control} {_joined(parts)}"


def _from(row: Mapping[str, Any]) -> str:
    label = crossing_label(row)
    return f"{label} tokens" if row["status"] == NOT_BEFORE else f"from {label} tokens on"


def crossings_table(rows: pd.DataFrame) -> str:
    """Markdown rows of the tokens to the crossing by suite, width and control."""
    lines = [["models", "width", "above", "runs that crossed", "tokens until the mean curve does", "median of runs"]]
    for row in rows[rows["run"] == ALL_RUNS].to_dict("records"):
        middle = f"not before {tokens_label(row['last_tokens'])}"
        middle = middle if pd.isna(row["median"]) else tokens_label(row["median"])
        crossed = f"{row['crossed_runs']} of {row['runs']}"
        name = escape(variation(row["suite"]))
        lines.append([name, str(row["width"]), row["against"], crossed, crossing_label(row), middle])
    return markdown_table(lines)


def effects_table(rows: pd.DataFrame) -> str:
    """Markdown rows of what each variation changes; a sentence if there is none."""
    varied = rows[rows["against"].fillna("") != ""]
    if varied.empty:
        return "This study trains no variation of the ladder: **not run**.\n"
    lines = [["variation", "width", "of", "variation", "ladder", "difference", "p (Holm)", "within", "verdict"]]
    for row in varied.to_dict("records"):
        of = row["quantity"]
        scale = SCALE[of]
        level, base = (_level(of, row[name]) for name in ("level", "base_level"))
        effect = "" if pd.isna(row["effect"]) else _signed(row["effect"] * scale)
        if not pd.isna(row["ci_low"]) or not pd.isna(row["ci_high"]):
            ends = (_signed(row[end] * scale) if not pd.isna(row[end]) else "open" for end in ("ci_low", "ci_high"))
            effect += f" [{', '.join(ends)}]"
        p = "" if pd.isna(row["p_holm"]) else f"{row['p_holm']:.2g}"
        verdict = row["verdict"] + (f" ({row['detail']})" if isinstance(row["detail"], str) and row["detail"] else "")
        within = f"±{row['margin'] * scale:.2g}"
        name = escape(variation(row["suite"]))
        of = f"{of} ({PARENTHESES[of]})"
        lines.append([name, str(row["width"]), of, level, base, effect, p, within, escape(verdict)])
    return markdown_table(lines)


def _level(quantity: str, value: float) -> str:
    if pd.isna(value):
        return "not crossed"
    if quantity == TOKENS:
        return tokens_label(value)
    return _signed(value * PERCENT) if quantity == SCORE else f"{value:.2f}"


def effects_sentence(rows: pd.DataFrame) -> str:
    """Which variations raise and lower the score less random, the loss and the tokens to the crossing."""
    varied = rows[rows["against"].fillna("") != ""]
    if varied.empty:
        return (
            "this study trains no variation of the ladder, so it cannot tell what tying, rates, decay or depth change"
        )
    parts = []
    for quantity in QUANTITIES:
        of = varied[(varied["quantity"] == quantity) & (varied["verdict"] != NOT_COMPARED)]
        words = [f"{verdict} with {_variations(group)}" for verdict, group in of.groupby("verdict", sort=False)]
        parts.append(f"{quantity}, {', '.join(words)}" if words else f"{quantity}, nothing to compare")
    return "; ".join(parts)


def _variations(rows: pd.DataFrame) -> str:
    """``frozen (width 64) and tied (widths 16 and 32)``."""
    parts = []
    for suite, group in rows.groupby("suite", sort=False):
        widths = [str(width) for width in group["width"]]
        parts.append(f"{variation(str(suite))} (width{'s' * (len(widths) > 1)} {_joined(widths)})")
    return _joined(parts)


def explanations_sentence(rows: pd.DataFrame) -> str:
    """Which explanations stand."""
    found = explanations.standing(rows)
    parts = [
        f"“{explanations.EXPLANATIONS[name]}” {'is unresolved' if word == 'unresolved' else word}"
        for name, word in found.items()
    ]
    return _joined(parts)


def explanations_table(rows: pd.DataFrame) -> str:
    """Markdown rows of each prediction with its verdict and numbers."""
    found = explanations.standing(rows)
    lines = [["explanation", "prediction", "verdict"]]
    for name, group in rows.groupby("explanation", sort=False):
        for place, row in enumerate(group.to_dict("records")):
            head = "" if place else f"**{escape(explanations.EXPLANATIONS[str(name)])}**: {found[str(name)]}"
            lines.append([head, escape(row["words"]), _verdict(row)])
    return markdown_table(lines)


def _verdict(row: Mapping[str, Any]) -> str:
    parts = [f"**{row['verdict']}**"]
    if isinstance(row["statistic"], str) and row["statistic"]:
        scale = UNITS[row["unit"]]
        numbers = [f"{row[name] * scale:.2f}".replace("-", MINUS) for name in ("effect", "ci_low", "ci_high")]
        interval = "no interval" if pd.isna(row["ci_low"]) else f"[{numbers[1]}, {numbers[2]}]"
        margin = f", {escape(row['margin'])}" if isinstance(row["margin"], str) and row["margin"] else ""
        p = "" if pd.isna(row["p_holm"]) else f"; p {row['p_holm']:.2g}"
        parts.append(f"{escape(row['statistic'])}: {numbers[0]} {interval} (criterion: {row['expected']}{margin}){p};")
        parts.append(f"{runs_label(int(row['runs']))}.")
    detail = row["detail"] if isinstance(row["detail"], str) else ""
    return " ".join([*parts, escape(detail[:1].upper() + detail[1:])]).strip()


def fits_table(rows: pd.DataFrame) -> str:
    """Markdown rows of each law, and of how it predicts what it has not seen."""
    lines = [["of", "law and its points", "held out", "observed", "predicted", "verdict"]]
    for row in rows.to_dict("records"):
        scale = PERCENT if row["quantity"] == fits.SCORE else 1
        term, times = ("factor", scale) if row["law"] == fits.LOGARITHM.name else ("exponent", 1)
        law, predicted = f"{row['law']}, {row['points']} point{'s' * (row['points'] != 1)}", ""
        if row["verdict"] != fits.NOT_SUPPORTED:
            slope = "slope" if term == "factor" else term
            law += f": {slope} {_range(row, term, f'{term}_low', f'{term}_high', times)}"
            predicted = _range(row, "predicted", "predicted_low", "predicted_high", scale)
        of = f"{row['quantity']} by {row['by']}" + (f", width {row['width']:.0f}" if row["by"] == "tokens" else "")
        out = f"{tokens_label(row['held_out'])} tokens" if row["by"] == "tokens" else f"width {row['held_out']:.0f}"
        detail = row["detail"] if isinstance(row["detail"], str) else ""
        verdict = f"**{row['verdict']}**" + (f": {escape(detail)}" if detail else "")
        observed = f"{row['observed'] * scale:.2f}".replace("-", MINUS)
        lines.append([of, law, out, observed, predicted, verdict])
    return markdown_table(lines)


def _range(row: Mapping[str, Any], value: str, low: str, high: str, scale: float) -> str:
    numbers = [f"{row[name] * scale:.2f}".replace("-", MINUS) for name in (value, low, high)]
    return numbers[0] if pd.isna(row[low]) else f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"


def fits_sentence(rows: pd.DataFrame) -> str:
    """How many laws predict what was held out from them, and which cannot be fitted."""
    parts = []
    for by, held_out in (("width", "the widest model"), ("tokens", "the end of the training")):
        of = rows[rows["by"] == by]
        words = {
            fits.PREDICTED: ("predicts", "predict", held_out),
            fits.MISSED: ("misses", "miss", held_out),
            fits.NOT_SUPPORTED: ("is", "are", "not supported by enough points"),
        }
        counts = {word: int((of["verdict"] == word).sum()) for word in words}
        told = [f"{n} {words[word][n > 1]} {words[word][2]}" for word, n in counts.items() if n]
        parts.append(f"of the {len(of)} laws by {by}, {_joined(told)}")
    return "; ".join(parts)


def costs_table(rows: pd.DataFrame) -> str:
    """Markdown rows of what training took."""
    lines = [["models", "width", "runs", "tokens", "operations", "hours of one process"]]
    for row in rows.to_dict("records"):
        width = "" if pd.isna(row["width"]) else str(row["width"])
        name = row["suite"] if row["suite"] == costs.TOTAL else variation(row["suite"])
        numbers = [
            str(row["runs"]),
            f"{row['tokens']:,.0f}",
            power_label(row["operations"]),
            f"{row['seconds'] / 3600:.2f}",
        ]
        lines.append([escape(name), width, *numbers])
    return markdown_table(lines)


def costs_sentence(rows: pd.DataFrame) -> str:
    """The sums of all trainings."""
    whole = rows[rows["suite"] == costs.TOTAL].iloc[0]
    return (
        f"{runs_label(int(whole['runs']))}, {tokens_label(whole['tokens'])} tokens, {power_label(whole['operations'])} "
        f"floating-point operations and {whole['seconds'] / 3600:.2g} hours of one process"
    )


def study_sentence(crossings: pd.DataFrame) -> str:
    """What of the deep ladder the study has, and what it therefore cannot tell."""
    whole = crossings[(crossings["run"] == ALL_RUNS) & (crossings["against"] == RANDOM)]
    ladder = whole[whole["suite"] == LADDER]
    tokens, runs = tokens_label(ladder["last_tokens"].max()), int(ladder["runs"].min())
    varied = [variation(suite) for suite in dict.fromkeys(whole["suite"]) if suite != LADDER]
    widths = f"{len(ladder)} widths" if len(ladder) > 1 else "one width"
    words = f"The study trains {widths} in {runs_label(runs)} for {tokens} tokens each"
    missing = []
    if not varied:
        missing.append("what tying, freezing, decay, depth or another rate of the table would change")
    if not (ladder["status"] == CROSSED).all():
        uncrossed = (ladder["status"] == NOT_BEFORE).sum()
        if uncrossed == len(ladder):
            missing.append("when tables pass random ones")
        elif uncrossed:
            missing.append(f"when {uncrossed} of the widths pass random tables")
    if runs == 1:
        missing.append("how far another run would differ")
    if len(ladder) == 1:
        missing.append("what width changes")
    words += f", and the variations {_joined(varied)}." if varied else f", without variations: {SLICE}"
    return f"{words} It cannot tell {_joined(missing)}." if missing else words


def variables(answers: Mapping[str, pd.DataFrame], *, study: str, own: bool) -> dict[str, str]:
    """What the report quotes, by name.

    Args:
        answers: ``crossings``, ``effects``, ``explanations``, ``fits`` and ``costs``.
        study: that they are of.
        own: whether it is the study of the report; otherwise they are recorded.
    """
    return {
        "of": study,
        "whose": f"All of this section was computed here, in the study `{study}`."
        if own
        else f"All of this section is **recorded**, not computed here: it is of the study `{study}` in this repository "
        f"(`make report STUDY={study}` computes it, `make fetch STUDY={study}` brings its whole report).",
        "study": study_sentence(answers["crossings"]),
        "crossings": crossings_sentence(answers["crossings"]),
        "crossings_untrained": crossings_sentence(answers["crossings"], UNTRAINED),
        "effects": effects_sentence(answers["effects"]),
        "explanations": explanations_sentence(answers["explanations"]),
        "fits": fits_sentence(answers["fits"]),
        "costs": costs_sentence(answers["costs"]),
    }


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", MINUS)


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
