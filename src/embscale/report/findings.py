"""The title, the abstract and the answers at the head of the report: sentences chosen by rule from the results.

A trained table counts as better (worse) than its control if the whole 95 % interval of the difference is above (below)
zero; otherwise the two cannot be distinguished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from embscale.answers.crossings import ALL_RUNS, CROSSED, FROM_THE_START
from embscale.answers.words import tokens_label
from embscale.claims.verdicts import FAILS, HOLDS, NOT_REPRODUCED, REPRODUCED, UNRESOLVED
from embscale.claims.verdicts import NOT_RUN as PUBLISHED_NOT_RUN
from embscale.rows.labels import PERCENT, interval, metric_label, runs_label
from embscale.rows.selection import LADDER, ladder_tables, last_tables, main_run, references, where
from embscale.rows.treatments import FULL, RANDOM
from embscale.scoring.estimates import ALL

IDF, BM25 = "idf", "bm25"
BETTER, WORSE, OPEN = "better", "worse", "open"
ABOVE_BELOW = ((BETTER, "above"), (WORSE, "below"))
OTHER_TITLE = "Embedding tables and layers of small language models"


def sides(differences: pd.DataFrame) -> dict[str, int]:
    """At how many widths the trained tables are better and worse than their control, and how many are open."""
    better, worse = int((differences["ci_low"] > 0).sum()), int((differences["ci_high"] < 0).sum())
    return {BETTER: better, WORSE: worse, OPEN: len(differences) - better - worse}


def counted(count: int, total: int) -> str:
    """``all 4 widths``, ``3 of 4 widths`` or ``the only width``."""
    if total == 1:
        return "the only width"
    return f"all {total} widths" if count == total else f"{count} of {total} widths"


def title(differences: pd.DataFrame) -> str:
    """The finding on tables in one line.

    Args:
        differences: of trained and random tables as they are, a row for each width.
    """
    total, found = len(differences), sides(differences)
    if not total:
        return OTHER_TITLE
    trained = "Trained embedding tables"
    if found[BETTER] and found[WORSE]:
        return (
            f"{trained} retrieve better than random ones at {found[BETTER]} and worse at {counted(found[WORSE], total)}"
        )
    for side in (BETTER, WORSE):
        if found[side]:
            return f"{trained} retrieve {side} than random ones at {counted(found[side], total)}"
    return f"{trained} cannot be distinguished from random ones"


def tables_sentence(rows: pd.DataFrame, differences: pd.DataFrame, tokens: float) -> str:
    """What the widest trained table scores, against random tables and against BM25.

    Args:
        rows: estimates of one task, metric and length and of all queries.
        differences: as in `title`.
        tokens: that each model was trained on.
    """
    trained = last_tables(rows[rows["suite"] == LADDER])
    widest = trained.iloc[-1]
    name = metric_label(trained).removesuffix(" × 100")
    words = (
        f"After {tokens_label(tokens)} tokens, the {widest['dim']:.0f}-wide table scores "
        f"{widest['value'] * PERCENT:.2f} of 100 in {name} (how high relevant documents rank)"
    )
    own = differences[differences["width"] == widest["width"]]
    if len(own):
        side = next((side for side, count in sides(own).items() if count), OPEN)
        verb = {BETTER: "above", WORSE: "below", OPEN: "not clearly apart from"}[side]
        words += f", {verb} random tables of its width ({interval(own.iloc[0], signed=True)})"
    levels = references(rows)
    if BM25 in levels.index:
        words += f"; BM25, which only matches words, scores {levels.loc[BM25, 'value'] * PERCENT:.2f}"
    return f"{words}."


def layers_sentence(probes: pd.DataFrame) -> str:
    """How often a linear classifier names the layer, from the model where it does worst to that where it does best."""
    accuracy, chance = (main_run(probes, metric=metric) for metric in ("accuracy", "chance"))
    low, high = accuracy.loc[accuracy["value"].idxmin()], accuracy.loc[accuracy["value"].idxmax()]
    ends = [interval(row, digits=1) for row in (low, high)]
    share = " to ".join(dict.fromkeys(ends))
    return (
        f"A linear classifier names the layer of a hidden state, on texts that it has not seen, in {share} % of the "
        f"cases; chance is {chance['value'].mean() * PERCENT:.0f} %."
    )


def training_answer(differences: pd.DataFrame) -> str:
    """Does training improve a table beyond what its width gives?"""
    total, found = len(differences), sides(differences)
    if not total:
        return "Not run: no random tables were scored."
    if found[BETTER] == total:
        return f"Yes. Trained tables score above random tables of the same width at {counted(total, total)}."
    parts = [
        f"{verb} random tables of the same width at {counted(found[side], total)}"
        for side, verb in ABOVE_BELOW
        if found[side]
    ]
    rest = f"; the difference at {'the other' if found[OPEN] == 1 else 'the others'} is within the uncertainty"
    if not parts:
        return (
            f"Unresolved. At {counted(total, total)} the difference to random tables of the same width is within the "
            "uncertainty."
        )
    verdict = "Only at some widths" if found[BETTER] else "No"
    return f"{verdict}. Trained tables score {' and '.join(parts)}{rest if found[OPEN] else ''}."


def narrowing(curves: pd.DataFrame) -> str:
    """Where the gap between trained and random tables narrows: it ends above the interval of its lowest point.

    Args:
        curves: differences along training, of the study whose answers the report shows.
    """
    lines = where(curves, suite=LADDER, treatment=FULL, against=RANDOM).sort_values("tokens").groupby("width")
    ends = [(int(width), line.loc[line["value"].idxmin()], line.iloc[-1]) for width, line in lines]
    narrower = [(width, low, last) for width, low, last in ends if last["value"] < 0 and last["value"] > low["ci_high"]]
    if not narrower:
        return ""
    width, low, last = narrower[-1]
    return (
        f"The gap narrows at {counted(len(narrower), len(ends))}; at width {width} from "
        f"{_signed(low['value'])} after {tokens_label(low['tokens'])} tokens to {_signed(last['value'])}."
    )


def longer_answer(crossings: pd.DataFrame, curves: pd.DataFrame, recorded: str = "") -> str:
    """Does longer training help?

    Args:
        crossings: of the study whose answers the report shows.
        curves: of the same, as in `narrowing`.
        recorded: its name, if it is another one than the report's.
    """
    whole = crossings[
        (crossings["suite"] == LADDER) & (crossings["run"] == ALL_RUNS) & (crossings["against"] == RANDOM)
    ].sort_values("tokens")
    if whole.empty:
        return "Not run."
    of = f"In the recorded study `{recorded}`, " if recorded else ""
    last = tokens_label(whole["last_tokens"].max())
    crossed = whole[whole["status"].isin([CROSSED, FROM_THE_START])]
    if crossed.empty:
        narrower = narrowing(curves)
        open_ = "Not within this training" if not recorded else "Not even there"
        verdict = "It narrows the gap and does not close it" if narrower else open_
        words = f"{verdict}. {_upper(f'{of}no width is above random tables for good after {last} tokens')}."
        return f"{words} {narrower}".strip()
    widths = counted(len(crossed), len(whole))
    if (crossed["status"] == FROM_THE_START).all():
        return f"Tables need none of it. {_upper(f'{of}{widths} are above random tables from the start')}."
    first, final = (tokens_label(crossed[crossed["status"] == CROSSED]["tokens"].iloc[place]) for place in (0, -1))
    span = f"from {first} tokens on" if first == final else f"between {first} and {final} tokens"
    verdict = "Yes" if len(crossed) == len(whole) else "At some widths"
    return f"{verdict}. {_upper(f'{of}{widths} rise above random tables for good, {span} (of {last})')}."


def weights_answer(rows: pd.DataFrame, differences: pd.DataFrame) -> str:
    """Does it matter how tokens are weighted?

    Args:
        rows: as in `tables_sentence`.
        differences: of trained and random tables, of every treatment.
    """
    trained = {treatment: ladder_tables(where(rows, table="input", treatment=treatment)) for treatment in (FULL, IDF)}
    if trained[FULL].empty or trained[IDF].empty:
        return "Not run."
    plain, weighted = (trained[treatment].iloc[-1] for treatment in (FULL, IDF))
    gain = (weighted["value"] - plain["value"]) * PERCENT
    apart = where(differences, treatment=FULL)
    of_training = apart[apart["width"] == plain["width"]]["value"]
    words = (
        f"weighting rare tokens up (idf) takes the {plain['dim']:.0f}-wide table from "
        f"{plain['value'] * PERCENT:.2f} to {weighted['value'] * PERCENT:.2f}"
    )
    found = sides(where(differences, treatment=IDF))
    if sum(found.values()):
        at = [f"{verb} random ones at {found[side]}" for side, verb in ABOVE_BELOW if found[side]]
        where_apart = " and ".join(at) or "not clearly apart from random ones at any"
        words += f"; with these weights, trained tables are {where_apart} of {sum(found.values())} widths"
    more = not of_training.empty and abs(gain) > abs(of_training.iloc[0] * PERCENT)
    return f"{'Yes, more than training does' if more else 'Less than training does'}: {words}."


def layers_answer(probes: pd.DataFrame) -> str:
    """Can a classifier name the layer of a hidden state?"""
    accuracy = main_run(probes, metric="accuracy")
    chance = main_run(probes, metric="chance")["value"].mean() * PERCENT
    above = int((accuracy["ci_low"] * PERCENT > chance).sum())
    low, high = (f"{value * PERCENT:.1f}" for value in (accuracy["value"].min(), accuracy["value"].max()))
    verdict = "Yes" if above == len(accuracy) else ("In some models" if above else "No")
    return f"{verdict}. It is right in {low} to {high} % of the cases, by model; chance is {chance:.0f} %."


def claims_answer(ledgers: Sequence[pd.DataFrame]) -> str:
    """Do the two published studies hold?"""
    claims = pd.concat(ledgers)
    claims = claims[claims["same_as"].fillna("") == ""]  # the others have the verdict of another claim
    published, ours = claims["verdict"].value_counts(), claims["analogue"].value_counts()
    tried = len(claims) - int(published.get(PUBLISHED_NOT_RUN, 0))
    said = {HOLDS: "hold", FAILS: "fail", UNRESOLVED: "are unresolved"}
    counts = [f"{ours[word]} {verb}" for word, verb in said.items() if ours.get(word)]
    rest = len(claims) - sum(int(ours.get(word, 0)) for word in said)
    words = (
        f"Of {len(claims)} claims asked of our models, {_joined([*counts, *[f'{rest} could not be tested'][:rest]])}"
    )
    if not tried:
        return f"Open, as the published models were not run. {words}."
    verdicts = [f"{published[word]} {word}" for word in (REPRODUCED, NOT_REPRODUCED, UNRESOLVED) if published.get(word)]
    return f"On the published models, {_joined(verdicts) or 'none could be decided'} of {tried}. {words}."


def trust_answer(rows: pd.DataFrame, tokens: float) -> str:
    """Can I trust it?"""
    trained = last_tables(rows[rows["suite"] == LADDER])
    runs = runs_label(int(trained["runs"].max()))
    over = "queries alone" if runs == "one run" else f"{runs} of each width and {int(trained['n'].iloc[0]):,} queries"
    return (
        f"The intervals cover {over} of these models. They say little about large models, which see hundreds of "
        f"billions of tokens instead of {tokens_label(tokens)}."
    )


def variables(
    rows: pd.DataFrame,
    differences: pd.DataFrame,
    probes: pd.DataFrame,
    crossings: pd.DataFrame,
    curves: pd.DataFrame,
    ledgers: Sequence[pd.DataFrame],
    *,
    main: Mapping[str, str],
    tokens: float,
    recorded: str = "",
) -> dict[str, str]:
    """What the head of the report says, by name.

    Args:
        rows: of ``estimates.csv``, of one tokenizer.
        differences: of ``differences.csv``, of the same.
        probes: of the layer classifiers.
        crossings: of the study whose answers the report shows.
        curves: of the same, as in `narrowing`.
        ledgers: of claims.
        main: the main ``task``, the primary ``metric`` and ``length``.
        tokens: that each model was trained on.
        recorded: the study that the crossings are of, if it is not the report's.
    """
    whole = where(rows, **main, queries=ALL)
    against = ladder_tables(where(differences, **main, queries=ALL, against=RANDOM))
    full = where(against, treatment=FULL)
    return {
        "title": title(full),
        "tables": tables_sentence(whole, full, tokens),
        "layers": layers_sentence(probes),
        "training_answer": training_answer(full),
        "longer_answer": longer_answer(crossings, curves, recorded),
        "weights_answer": weights_answer(whole, against),
        "layers_answer": layers_answer(probes),
        "claims_answer": claims_answer(ledgers),
        "trust_answer": trust_answer(whole, tokens),
        "panels": f"The panel of the study `{recorded}` shows recorded results."
        if recorded
        else "All lines are of this study.",
    }


def _signed(value: float) -> str:
    return f"{value * PERCENT:+.2f}".replace("-", "−")


def _upper(words: str) -> str:
    return words[:1].upper() + words[1:]


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""
