"""Every published number of both studies beside ours, by its authors' protocol and by this study's own.

``faithful`` repeats what the authors did.  Of the scores of Corey 2024: special tokens pooled, tables rounded to
bfloat16, nested random draws of torch's legacy generator.  Of the accuracies of Huang et al. 2024: vectors split at
random, a linear softmax by stochastic gradient descent, the first position included.  ``corrected`` is this study's
own way of measuring the same: no special tokens, float32, independent draws; texts split, logistic regression.

| column | means |
|---|---|
| ``study`` | ``corey2024`` or ``huang2024`` |
| ``suite`` to ``masked`` | what was measured, as in the files of `embscale.claims.published_scores` |
| ``published``, ``valid`` | the number, and whether it is sound |
| ``faithful``, ``corrected`` | ours, with ``_ci_low``, ``_ci_high`` and ``_n``: queries, or tested vectors |
| ``difference`` | faithful less published |
| ``explained`` | why they differ, or that they do not; empty where it was not run |
| ``route`` | whether rules of this repository repeat it, once what it needs is there |
| ``status`` | one of `STATUSES` |
| ``needs`` | what a number that was not run waits for |

Scores and accuracies are from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from embscale.checkpoints.suites import Checkpoint
from embscale.claims import published_cells, published_scores
from embscale.claims.published_cells import Cell
from embscale.rows.labels import PERCENT
from embscale.rows.markdown import escape, markdown_table
from embscale.rows.selection import last_checkpoint
from embscale.rows.treatments import FULL, INPUT, RANDOM
from embscale.scoring.named_tables import text_sha256

COREY, HUANG = "corey2024", "huang2024"

RUN, WEIGHTS, TOKENIZER, NO_PART = "run", "needs weights", "needs tokenizer", "not part of this study"
STATUSES = (RUN, WEIGHTS, TOKENIZER, NO_PART)

OF_SCORES = ["tokenizer", "dims", "variant", "variant_dims", "seed", "task", "metric"]
OF_LAYERS = ["trained_on", "texts", "tokens", "texts_count", "n_layers", "input", "control", "masked"]
WAYS = ("faithful", "corrected")
MEASURED = ("value", "ci_low", "ci_high", "n")
COLUMNS = [
    "study", "suite", "model", *OF_SCORES, *OF_LAYERS, "source", "valid", "published",
    *(way + ("" if name == "value" else f"_{name}") for way in WAYS for name in MEASURED),
    "difference", "explained", "route", "status", "needs",
]  # fmt: skip
NUMBERS = ("dims", "variant_dims", "seed", "tokens", "texts_count", "n_layers", "faithful_n", "corrected_n")

# Texts of the second study that it does not describe, so that nobody else can choose them.
UNDESCRIBED = ("pile_ascii",)

# Half of the last digit that the studies give: three decimals of 100, and six of 1.
PRECISION = {COREY: 0.5e-5, HUANG: 0.5e-6}

# Words for a difference.
EQUAL = "equal to the published digits"
INSIDE = "inside our 95 % interval"
UNEXPLAINED = "unexplained"
RENAMED = "the study's weights have another name now"
UNSEEDED = "the study's texts were drawn, and its classifiers started, without a seed"
UNDEFINED = "the study does not say what it means by normalized; here vectors have norm 1"
OTHER_PILE = "other texts of the Pile, which is no longer served"


@dataclass(frozen=True)
class There:
    """What takes part in a study.

    Attributes:
        registry: the last checkpoint of every known model, by name.
        inventory: status and reason of the models of the study's suites, by name.
        tasks: retrieval tasks of the study.
    """

    registry: Mapping[str, Checkpoint]
    inventory: Mapping[str, tuple[str, str]]
    tasks: Sequence[str]

    def runs(self, model: str) -> bool:
        """Whether the weights of a model are used."""
        return self.inventory.get(model, ("", ""))[0] in ("fetch", "local")

    @property
    def models(self) -> list[str]:
        """Models whose weights are used."""
        return [model for model in self.inventory if self.runs(model)]

    def weights(self, model: str) -> str:
        """Which weights a model needs, and why they are not here."""
        known = self.registry.get(published_cells.RENAMED.get(model, model))
        if known is None:
            return f"{model}: not in the registry"
        if known.access == "restricted":
            return f"{model}: on no hub, given on request"
        here = self.inventory.get(known.model) or self.inventory.get(model)
        gate = "gated" if known.gated else "open"
        why = f"; {here[1].rstrip('.')}" if here and here[0] not in ("gated", "fetch", "local") else ""
        return f"{known.repo} ({gate}){why}"

    def tokenizer(self, name: str) -> str:
        """The repository of a tokenizer."""
        return next(f"{c.tokenizer_repo} (tokenizer)" for c in self.registry.values() if c.tokenizer == name)


def table(scores: pd.DataFrame, estimates: pd.DataFrame, layers: pd.DataFrame, there: There) -> pd.DataFrame:
    """A row for each published number.

    Args:
        scores: by the first study's protocol, a row per score, as `embscale.scoring.scores.summarise` gives them.
        estimates: of ``estimates.csv``.
        layers: from `embscale faithful-layers`, both ways.
        there: what takes part in the study.

    Returns:
        Columns `COLUMNS`.
    """
    both = pd.concat([_of_scores(scores, estimates, there), _of_layers(layers, there)], ignore_index=True)
    both["difference"] = both["faithful"] - both["published"]
    both["explained"] = [_explained(row, there) for row in both.to_dict("records")]
    found = both.reindex(columns=COLUMNS)
    return found.astype(dict.fromkeys(NUMBERS, "Int64"))


def _measured(way: str, row: Mapping[str, object] | None) -> dict[str, object]:
    """Our number, its interval and its size, under the columns of a way; empty if it was not run."""
    return {way + ("" if name == "value" else f"_{name}"): row[name] if row else np.nan for name in MEASURED}


# The first study.

Key = tuple[object, ...]


def _of_scores(scores: pd.DataFrame, estimates: pd.DataFrame, there: There) -> pd.DataFrame:
    printed = published_scores.load()
    faithful, corrected = _faithful_scores(scores), _corrected_scores(estimates)
    rows = []
    for row in printed.to_dict("records"):
        cell = _cell(row)
        model = published_cells.model_now(cell.model, there.models)
        known = there.registry.get(model)
        if cell.variant == RANDOM:
            drawn = cell.drawn(cell.rows or (known.rows if known else 0))
            here = faithful.get((cell.tokenizer, text_sha256(drawn), cell.task, cell.metric))
        else:
            here = faithful.get((model, cell.form, cell.task, cell.metric))
        ours = corrected.get((cell.tokenizer if cell.variant == RANDOM else model, *_treatment(cell)))
        status, needs = _status_of_score(cell, model, there, run=here is not None)
        rows.append(
            {name: row[name] for name in ("suite", "model", *OF_SCORES, "source", "valid", "reason")}
            | {"study": COREY, "published": row["value"], "route": True, "status": status, "needs": needs}
            | _measured("faithful", here)
            | _measured("corrected", ours)
        )
    return pd.DataFrame(rows)


def _cell(row: Mapping[str, object]) -> Cell:
    """The cell of a row of `embscale.claims.published_scores.load`."""
    words = {name: "" if pd.isna(value) else str(value) for name, value in row.items()}
    return published_cells.cell(words)


def _faithful_scores(rows: pd.DataFrame) -> dict[Key, dict[str, object]]:
    """Our scores by the authors' protocol: of models by their variant, of random tables by what was drawn."""
    found: dict[Key, dict[str, object]] = {}
    for row in rows.to_dict("records"):
        tail = (row["task"], row["metric"])
        if row["suite"] == RANDOM:
            found[row["tokenizer"], row["table_sha256"], *tail] = row
            continue
        kind, _, generator = str(row["variant"]).partition("pad_faithful_")
        numbers = [f"{row[name]:.0f}" for name in ("variant_dims", "seed") if pd.notna(row[name])]
        words = ["pad_faithful", *numbers, generator] if generator else [kind, *numbers]
        found[row["model"], ":".join(words), *tail] = row
    return found


def _corrected_scores(estimates: pd.DataFrame) -> dict[Key, dict[str, object]]:
    """Our estimates of whole documents without special tokens, by model, or tokenizer of random tables."""
    chosen = {"length": "all", "queries": "all", "pooling": "mean", "special_tokens": "exclude"}
    rows = estimates[np.logical_and.reduce([estimates[name].astype(str) == value for name, value in chosen.items()])]
    rows = last_checkpoint(rows[rows["table"].isin([INPUT, RANDOM])])
    found: dict[Key, dict[str, object]] = {}
    for row in rows.to_dict("records"):
        random = row["table"] == RANDOM
        if random and row["treatment"] != FULL:
            continue
        treatment = f"{RANDOM}:{row['width']:.0f}" if random else str(row["treatment"])
        found[row["tokenizer" if random else "model"], treatment, row["task"], row["metric"]] = row
    return found


def _treatment(cell: Cell) -> tuple[str, str, str]:
    """What was done to the table, in the words of ``estimates.csv``, with task and metric."""
    name = cell.variant if cell.dims is None else f"{cell.variant}:{cell.dims}"
    return name, cell.task, cell.metric


def _status_of_score(cell: Cell, model: str, there: There, *, run: bool) -> tuple[str, str]:
    if run:
        return RUN, ""
    if cell.variant == RANDOM:
        if not any(there.registry[name].tokenizer == cell.tokenizer for name in there.models):
            return TOKENIZER, there.tokenizer(cell.tokenizer)
    elif not there.runs(model):
        return WEIGHTS, there.weights(cell.model)
    return NO_PART, "" if cell.task in there.tasks else f"{cell.task} under tasks"


# The second study.


def _of_layers(layers: pd.DataFrame, there: There) -> pd.DataFrame:
    printed = published_scores.huang()
    keys = ["model", *OF_LAYERS]
    ours = {(row["way"], *(str(row[name]) for name in keys)): row for row in layers.to_dict("records")}
    rows = []
    for row in printed.to_dict("records"):
        key = tuple(str(row[name]) for name in keys)
        faithful, corrected = (ours.get((way, *key)) for way in WAYS)
        status, needs = (RUN, "") if faithful is not None else _status_of_layers(row, there)
        rows.append(
            {name: row[name] for name in ("suite", "model", *OF_LAYERS, "source")}
            | {"study": HUANG, "valid": True, "reason": "", "published": row["value"]}
            | {"route": row["texts"] not in UNDESCRIBED, "status": status, "needs": needs}
            | _measured("faithful", faithful)
            | _measured("corrected", corrected)
        )
    return pd.DataFrame(rows)


def _status_of_layers(row: Mapping[str, object], there: There) -> tuple[str, str]:
    if not there.runs(str(row["model"])):
        return WEIGHTS, there.weights(str(row["model"]))
    if row["texts"] in UNDESCRIBED:
        return NO_PART, "texts that the study does not describe"
    return NO_PART, f"{row['texts_count']} texts of {row['tokens']} tokens of {row['texts']}"


# Words.


def _explained(row: Mapping[str, object], there: There) -> str:
    """Why our faithful number differs from the published one, if that is known."""
    if row["status"] != RUN:
        return ""
    study, difference = str(row["study"]), abs(float(str(row["difference"])))
    if not row["valid"]:
        return str(row["reason"])
    if difference <= PRECISION[study]:
        return EQUAL
    now = published_cells.RENAMED.get(str(row["model"]))
    if now is not None and row["variant"] != RANDOM and not there.runs(now):
        return f"{RENAMED}, {now}"
    if row.get("input") == "normalized":
        return UNDEFINED
    low, high = (float(str(row[f"faithful_{end}"])) for end in ("ci_low", "ci_high"))
    if low <= float(str(row["published"])) <= high:
        return INSIDE
    if study == HUANG:
        return OTHER_PILE if row["texts"] == "pile" else UNEXPLAINED
    return UNEXPLAINED


def partial(rows: pd.DataFrame) -> str:
    """The table for the report: what was run in sentences, then a line for each model that was run."""
    return f"{sentences(rows)}\n" + (f"\n{by_model(rows)}" if (rows["status"] == RUN).any() else "")


def sentences(rows: pd.DataFrame) -> str:
    """How many published numbers there are, were run and agree, and what the others wait for."""
    studies = rows["study"].value_counts()
    total = (
        f"The two studies published {len(rows):,} numbers: {studies[COREY]:,} scores and {studies[HUANG]:,} accuracies."
    )
    run, waiting = rows[rows["status"] == RUN], rows[rows["status"].isin([WEIGHTS, TOKENIZER])]
    waits = f"{len(waiting):,} wait for weights or tokenizers that this study does not fetch"
    if run.empty:
        return f"{total} None of them was run here: {waits}."
    sound = run[run["valid"]]
    equal, inside = ((sound["explained"] == words).sum() for words in (EQUAL, INSIDE))
    unexplained = int((sound["explained"] == UNEXPLAINED).sum())
    rest = len(sound) - equal - inside - unexplained
    corrected, no_part = int(run["corrected"].notna().sum()), int((rows["status"] == NO_PART).sum())
    return (
        f"{total} {len(run):,} were run here by their authors' protocol, and {corrected:,} of these by ours as well; "
        f"{waits}, and {no_part:,} are not part of this study. Of the {len(sound):,} sound numbers that were run, "
        f"{equal:,} are equal to the published digits, {inside:,} more lie inside our 95 % interval, {rest:,} differ "
        f"for a known reason, and {unexplained:,} differ without one. {len(run) - len(sound):,} were run whose "
        "published value is known to be wrong."
    )


def by_model(rows: pd.DataFrame) -> str:
    """Markdown rows, one for each model or tokenizer of random tables of which a number was run."""
    rows = rows.assign(of=rows["model"].where(rows["suite"] != RANDOM, "random, " + rows["tokenizer"].astype(str)))
    head = ["study", "table or model", "numbers", "run", "equal", "inside", "unexplained", "largest difference"]
    lines = [[*head, "published, mean", "faithful, mean", "corrected, mean"]]
    for (study, of), group in rows.groupby(["study", "of"], sort=False):
        run = group[(group["status"] == RUN) & group["valid"]]
        if run.empty:
            continue
        counts = [str((run["explained"] == words).sum()) for words in (EQUAL, INSIDE, UNEXPLAINED)]
        largest = run.loc[run["difference"].abs().idxmax(), "difference"]
        # Means over the same numbers, of one metric.
        same = run[(run["metric"].isin(["ndcg_at_10"]) | (run["study"] == HUANG)) & run["corrected"].notna()]
        means = [f"{same[name].mean() * PERCENT:.2f}" if len(same) else "" for name in ("published", *WAYS)]
        lines.append(
            [study, escape(str(of)), str(len(group)), str(len(run)), *counts, f"{largest * PERCENT:+.3f}", *means]
        )
    return markdown_table(lines)
