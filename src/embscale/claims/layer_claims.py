"""Tests of the claims of Huang et al. 2024 on the layer results.

``workflow/layer_claims.yaml`` states each claim and the statistic that tests it; this module has one function per
statistic.  Parts, verdicts and the correction for the family are those of `embscale.claims.verdicts`.

A row has a value and its 95 % interval, not its bootstrap draws, so draws are normal with the row's value and standard
error (a parametric bootstrap).  If a quantity combines several rows, they are drawn independently.  Rows of one model
mostly come from the same texts, so their difference is known more precisely than that: verdicts err on the side of
*unresolved*.

Every model of the ladder is asked that has such rows, whichever model the claim names; each was trained once.  Splits
of the same texts are no runs: a number whose interval is over them has none here.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from embscale.claims import published_scores, verdicts
from embscale.claims.verdicts import LEAST_MODELS, Claim, NotRun, NotTestable, Outcome, Part, Trend
from embscale.errors import EmbscaleError
from embscale.layers.names import AFTER_FIRST, FINAL_NORM
from embscale.rows.selection import LADDER
from embscale.statistics import resampling
from embscale.statistics.resampling import CONFIDENCE

DRAWS = 9999
ALL = "all"  # as a claim's suite: it is about any published model

# The kinds of rows, with their key columns besides a value and its interval.
KINDS = {
    "probes": ["trained_on", "texts", "classifier", "split", "input", "control", "seed", "layer", "metric"],
    "grid": ["texts", "tokens", "texts_count", "classifier", "split", "design", "seed", "layer", "metric"],
    "transfer": ["trained_on", "texts", "seed", "layer", "metric"],
    "ablations": ["texts", "experiment", "weights", "choice", "k", "fill", "refit", "layer", "seed", "metric"],
    "structure": ["texts", "tied", "quantity", "scaling", "positions", "layer_a", "layer_b", "reference"],
    "quality": ["texts", "reduction", "scaling", "layers", "quantity"],
    "repeated": ["way", "trained_on", "texts", "tokens", "texts_count", "n_layers", "input", "control", "masked"],
}
NUMBERS = ("tokens", "texts_count", "n_layers", "k", "refit", "reference")  # of these columns; the others are names
NEEDED = ["suite", "model", "width", "texts_count", "value", "ci_low", "ci_high", "n"]

# The protocol of Huang et al.; one fitted to convergence and tested on unseen texts; a nonlinear one; and the second
# tested on other vectors of the texts that it was fitted to.
WAYS = {
    "faithful": {"classifier": "sgd", "split": "vector"},
    "honest": {"classifier": "logistic_regression", "split": "text"},
    "tree": {"classifier": "decision_tree", "split": "text"},
    "leaky": {"classifier": "logistic_regression", "split": "vector"},
}
STUDY_DIMENSIONS = 1024  # of gpt2-medium, of which the study masks four
# Computed from the weights of classifiers of several splits of the same texts, so that their intervals are over splits.
OF_SPLITS = ("contribution", "cumulative", "importance", "sign", "stability")


@dataclass(frozen=True)
class Subject:
    """The input of a statistic.

    Attributes:
        rows: by kind, a key of `KINDS`; those of one suite.
        models: width by model, from narrow to wide; those of the suite that have rows of any kind.
        texts: name of the texts on which layers are classified.
        other_texts: name of the texts that classifiers are transferred to.
        any_model: whether all models are asked, also where a claim names some.
        ablated: the way, a key of `WAYS`, of the classifiers whose dimensions were masked.
        certain: whether rows without intervals are treated as exact: published numbers, which are not tested.
        used: models and numbers of texts that were looked up, filled by look-ups.
    """

    rows: Mapping[str, pd.DataFrame]
    models: Mapping[str, int]
    texts: str
    other_texts: str
    any_model: bool = False
    ablated: str = "honest"
    certain: bool = False
    used: dict[str, int] = field(default_factory=dict)

    def find(self, kind: str, **conditions: object) -> pd.DataFrame:
        """Rows of a kind that meet all conditions."""
        rows = self.rows[kind]
        for column, value in {"texts": self.texts, **conditions}.items():
            rows = rows[rows[column] == value]
        return rows

    def having(self, kind: str, models: Sequence[str] | None, **conditions: object) -> list[str]:
        """The models, or those that a claim names, that have such rows; from narrow to wide.

        Raises:
            NotRun: there is none.
        """
        there = set(self.find(kind, **conditions)["model"])
        if models is not None and not self.any_model:
            missing = [name for name in models if name not in there]
            if missing:
                raise NotRun(f"{', '.join(missing)}: no such rows ({_words(kind, conditions)})")
            return list(models)
        found = [model for model in self.models if model in there]
        if not found:
            raise NotRun(f"no such rows ({_words(kind, conditions)})")
        return found

    def number(self, kind: str, model: str, **conditions: object) -> np.ndarray:
        """Value of a row, then its draws, ``[1 + DRAWS]``; NaN if its interval is over splits of the same texts.

        Raises:
            NotRun: there is no such row, or it has no value or no interval.
            EmbscaleError: there are several.
        """
        found = self.find(kind, model=model, **conditions)
        what = f"{model}: {_words(kind, conditions)}"
        if len(found) > 1:
            raise EmbscaleError(f"{what}: {len(found)} rows; give those of one checkpoint and one set of texts")
        if found.empty:
            raise NotRun(f"no row of {what}")
        row = found.iloc[0]
        if math.isnan(row["value"]):
            raise NotRun(f"{what} could not be computed")
        if not math.isnan(row["n"]):  # an exact number, such as chance, is of no sample
            texts = int(row["texts_count"])
            self.used[model] = min(self.used.get(model, texts), texts)
        if self.certain:
            return np.array([row["value"]])
        if conditions.get("experiment") in OF_SPLITS:
            return np.concatenate([[row["value"]], np.full(DRAWS, np.nan)])
        error = (row["ci_high"] - row["ci_low"]) / (2 * stats.norm.ppf((1 + CONFIDENCE) / 2))
        if math.isnan(error):
            raise NotRun(f"{what} has no interval")
        generator = np.random.default_rng(zlib.crc32(f"{what} {row['value']!r}".encode()))
        return row["value"] + error * np.concatenate([[0.0], generator.standard_normal(DRAWS)])

    def accuracy(self, model: str, way: str, *, input_: str = "raw", control: str = "none") -> np.ndarray:
        """Accuracy of a classifier over all seeds."""
        return self._of_probe(model, WAYS[way], input_, control, "accuracy")

    def excess(self, model: str, way: str, *, input_: str = "raw", control: str = "none") -> np.ndarray:
        """Accuracy less that of naming layers at random."""
        chance = self._of_probe(model, WAYS[way], input_, control, "chance")
        return self.accuracy(model, way, input_=input_, control=control) - chance

    def alone(self, model: str, classifier: str) -> np.ndarray:
        """Accuracy of a classifier that is given one number of each vector, on unseen texts."""
        return self._of_probe(model, {"classifier": classifier, "split": "text"}, "raw", "none", "accuracy")

    def margin(self, stated: Mapping[str, float], model: str, way: str) -> tuple[float, str]:
        """A margin that an entry states, as an accuracy and in words; its range is that of raw states less chance.

        Raises:
            NotTestable: it is stated in deviations between runs, of which there is one.
        """

        def deviation() -> float:
            raise NotTestable("each model was trained once, so the deviation between runs is not known")

        return verdicts.margin(
            stated, share_of_range=lambda: float(self.excess(model, way)[0]), run_deviations=deviation
        )

    def _of_probe(self, model: str, kind: Mapping[str, object], input_: str, control: str, metric: str) -> np.ndarray:
        conditions = {**kind, "input": input_, "control": control, "metric": metric}
        return self.number("probes", model, trained_on=self.texts, seed="all", layer="", **conditions)

    def probed(self, way: str, models: Sequence[str] | None = None, **cells: object) -> list[str]:
        """Models with results of this classifier."""
        chosen = WAYS[way] | {"input": "raw", "metric": "accuracy", "control": "none"} | cells
        return self.having("probes", models, **chosen)


def _words(kind: str, conditions: Mapping[str, object]) -> str:
    details = " ".join(
        str(value).replace("_", " ") for value in conditions.values() if value not in ("all", "none", "")
    )
    return f"{kind}, {details}" if details else kind


Statistic = Callable[..., list[Part]]
STATISTICS: dict[str, Statistic] = {}
KINDS_OF: dict[str, tuple[str, ...]] = {}  # kinds of rows, keys of `KINDS`, that a statistic reads


def _statistic(*kinds: str) -> Callable[[Statistic], Statistic]:
    """Make a function known to ``layer_claims.yaml``; its docstring's first line is its help."""

    def known(function: Statistic) -> Statistic:
        STATISTICS[function.__name__] = function
        KINDS_OF[function.__name__] = kinds
        return function

    return known


# Lengths and pictures


@_statistic("structure")
def norms_grow(subject: Subject, *, models: list[str] | None = None) -> list[Part]:
    """Factor of the mean length per block, without the first position."""
    rates = subject.having("structure", models, quantity="growth_rate", positions=AFTER_FIRST)
    return [
        Part(
            f"growth per block, {model}",
            subject.number("structure", model, quantity="growth_rate", positions=AFTER_FIRST),
            low=1.0,
            unit="factor",
        )
        for model in rates
    ]


@_statistic("structure")
def growth_is_exponential(subject: Subject, *, models: list[str] | None = None) -> list[Part]:
    """Fit of an exponential to the mean lengths of the blocks less that of a line, as squared correlations."""
    chosen = {"quantity": "exponential_less_linear", "positions": AFTER_FIRST}
    return [
        Part(f"exponential less linear, {model}", subject.number("structure", model, **chosen), unit="correlation")
        for model in subject.having("structure", models, **chosen)
    ]


@_statistic("structure")
def last_is_longer(subject: Subject, *, factor: float, after_norm: bool, models: list[str] | None = None) -> list[Part]:
    """Mean length at the last layer over that at the layer before."""
    parts = []
    for model in subject.having("structure", models, quantity="last_length_ratio", positions=AFTER_FIRST):
        last = _last_layer(subject, model, "last_length_ratio", after_norm=after_norm, positions=AFTER_FIRST)
        parts.append(Part(f"length at {last[0]} over the layer before, {model}", last[1], low=factor, unit="factor"))
    return parts


@_statistic("structure")
def last_is_far(subject: Subject, *, after_norm: bool, models: list[str] | None = None) -> list[Part]:
    """Distance of the last two layers' means over the mean distance of other neighbours, raw."""
    parts = []
    for model in subject.having("structure", models, quantity="last_step_ratio", scaling="raw"):
        name, found = _last_layer(subject, model, "last_step_ratio", after_norm=after_norm, scaling="raw")
        parts.append(Part(f"step to {name} over the other steps, {model}", found, low=1.0, unit="factor"))
    return parts


def _last_layer(
    subject: Subject, model: str, quantity: str, *, after_norm: bool, **conditions: object
) -> tuple[str, np.ndarray]:
    """The row that ends with the last block, or with the final norm's output in its place."""
    ends = subject.find("structure", model=model, quantity=quantity, **conditions)["layer_b"]
    wanted = [str(layer) for layer in ends if (layer == FINAL_NORM) == after_norm]
    if not wanted:
        raise NotRun(f"{model} has no final norm")
    return wanted[0], subject.number("structure", model, quantity=quantity, layer_b=wanted[0], **conditions)


@_statistic("structure")
def drifts_in_order(subject: Subject, *, order: float, models: list[str] | None = None) -> list[Part]:
    """Correlation of two layers' distance in the model and the distance of their means, at unit length."""
    parts = []
    for model in subject.having("structure", models, quantity="order_of_layers", scaling="unit"):
        name, found = _last_layer(subject, model, "order_of_layers", after_norm=False, scaling="unit")
        parts.append(Part(f"order of layers up to {name}, {model}", found, low=order, unit="correlation"))
    return parts


@_statistic("structure")
def steps_even_out(subject: Subject, *, models: list[str] | None = None) -> list[Part]:
    """Largest step of neighbouring layers' means over the mean one, of raw vectors less of unit ones."""
    parts = []
    for model in subject.having("structure", models, quantity="largest_step_ratio", scaling="unit"):
        raw, unit = (
            _last_layer(subject, model, "largest_step_ratio", after_norm=False, scaling=scaling)[1]
            for scaling in ("raw", "unit")
        )
        parts.append(Part(f"largest step, raw less unit, {model}", raw - unit, unit="factor"))
    return parts


@_statistic("structure")
def ring(
    subject: Subject, *, least: float, after_norm: bool, absent: bool = False, models: list[str] | None = None
) -> list[Part]:
    """How far the last layer has come back towards the first, on two principal components of unit vectors."""
    parts = []
    for model in subject.having("structure", models, quantity="return_2d", scaling="unit"):
        name, found = _last_layer(subject, model, "return_2d", after_norm=after_norm, scaling="unit")
        low, high = (-math.inf, least) if absent else (least, math.inf)
        parts.append(Part(f"return at {name}, {model}", found, low, high, "share"))
    return parts


@_statistic("structure")
def ring_by_tying(subject: Subject, *, tied: str, least: float, after_norm: bool) -> list[Part]:
    """Where tables are tied the last layer comes back towards the first, and elsewhere it does not."""
    known = set(subject.find("structure", quantity="return_2d", scaling="unit", tied=tied)["model"])
    alike = {model: width for model, width in subject.models.items() if model in known}
    if not alike:
        raise NotRun(f"no model whose tables are {'tied' if tied == 'yes' else 'not tied'} was run")
    return ring(replace(subject, models=alike), least=least, after_norm=after_norm, absent=tied == "no")


@_statistic("quality")
def pictures_differ(subject: Subject, *, better: str, worse: str, models: list[str] | None = None) -> list[Part]:
    """How well two pictures of the raw vectors keep the layers in their order."""
    conditions = {"quantity": "order_of_layers", "scaling": "raw", "layers": "all"}
    return [
        Part(
            f"order of layers, {better} less {worse}, {model}",
            subject.number("quality", model, reduction=better, **conditions)
            - subject.number("quality", model, reduction=worse, **conditions),
            unit="correlation",
        )
        for model in subject.having("quality", models, reduction=worse, **conditions)
    ]


@_statistic("quality")
def picture_shows(
    subject: Subject, *, reduction: str, low: float = -math.inf, high: float = math.inf, models: list[str] | None = None
) -> list[Part]:
    """How well a picture of the raw vectors keeps the layers in their order."""
    shown = {"reduction": reduction, "quantity": "order_of_layers", "scaling": "raw", "layers": "all"}
    return [
        Part(
            f"order of layers, {reduction}, {model}",
            subject.number("quality", model, **shown),
            low,
            high,
            "correlation",
        )
        for model in subject.having("quality", models, **shown)
    ]


# Classifiers


@_statistic("probes")
def above_chance(
    subject: Subject, *, way: str, least: float, input_: str = "raw", models: list[str] | None = None
) -> list[Part]:
    """Accuracy corrected for chance: 0 for naming layers at random, 1 for no mistake."""
    parts = []
    for model in subject.probed(way, models, input=input_):
        excess = subject.excess(model, way, input_=input_)
        above = excess[:1], subject.accuracy(model, way, input_=input_)[:1]
        highest = 1 - (above[1] - above[0])  # chance is exact
        parts.append(Part(f"accuracy corrected for chance, {model}", excess / highest, low=least, unit="share"))
    return parts


@_statistic("probes")
def at_chance(
    subject: Subject, *, way: str, margin: Mapping[str, float], input_: str = "raw", models: list[str] | None = None
) -> list[Part]:
    """Accuracy less that of naming layers at random, which is hardly any."""
    parts = []
    for model in subject.probed(way, models, input=input_):
        size, stated = subject.margin(margin, model, way)
        excess = subject.excess(model, way, input_=input_)
        parts.append(Part(f"accuracy less chance, {model}", excess, -size, size, margin=stated))
    return parts


@_statistic("grid")
def best_of_grid(subject: Subject, *, model: str, low: float, high: float) -> list[Part]:
    """The highest accuracy of a model over windows and numbers of texts."""
    parts = []
    for found in subject.having("grid", [model], **_grid("faithful")):
        cells = subject.find("grid", model=found, **_grid("faithful"), design="as_published")
        values = [subject.number("grid", found, **_cell(row)) for row in cells.to_dict("records")]
        parts.append(Part(f"highest accuracy of {found}", np.max(values, axis=0), low, high))
    return parts


@_statistic("probes")
def falls_with_size(subject: Subject, *, way: str, corrected_for_chance: bool) -> list[Part]:
    """Change of the accuracy for each doubling of the models' width."""
    models = subject.probed(way)
    if len(models) < LEAST_MODELS:
        raise NotTestable(f"{len(models)} models were run, which needs {LEAST_MODELS}")
    above = [subject.excess(model, way) for model in models]
    values = [subject.accuracy(model, way) for model in models]
    if corrected_for_chance:
        chances = [value[0] - excess[0] for value, excess in zip(values, above, strict=True)]
        values = [excess / (1 - chance) for excess, chance in zip(above, chances, strict=True)]
    drawn = -np.stack(values, axis=1)
    sizes = tuple(float(subject.models[model]) for model in models)
    words = "accuracy corrected for chance" if corrected_for_chance else "accuracy"
    return [
        Part(
            f"fall of the {words}, {models[0]} to {models[-1]}",
            resampling.slope(sizes, drawn),
            unit="score per doubling",
            above_chance=tuple(above),
            needed=LEAST_MODELS,
            trend=Trend(sizes, drawn[:1], ranks=False),
        )
    ]


@_statistic("grid")
def rises_with(
    subject: Subject, *, what: str, way: str, design: str = "as_published", models: list[str] | None = None
) -> list[Part]:
    """Change of the accuracy for each doubling of the window, or of the number of texts, the other held fixed."""
    fixed = {"tokens": "texts_count", "texts_count": "tokens"}[what]
    parts = []
    for model in subject.having("grid", models, **_grid(way), design=design):
        cells = subject.find("grid", model=model, **_grid(way), design=design)
        for value, line in cells.groupby(fixed):
            line = line.sort_values(what)
            if len(line) < 2:
                continue
            cells_of = [_cell(row) for row in line.to_dict("records")]
            drawn = np.stack([subject.number("grid", model, **cell) for cell in cells_of], axis=1)
            above = [
                accuracy - subject.number("grid", model, **cell | {"metric": "chance"})
                for accuracy, cell in zip(drawn.T, cells_of, strict=True)
            ]
            fixed_at = f"{value} tokens" if fixed == "tokens" else f"{value} texts"
            rise = resampling.slope(line[what].to_list(), drawn)
            words = f"rise at {fixed_at}, {model}"
            parts.append(Part(words, rise, unit="score per doubling", above_chance=tuple(above)))
    if not parts:
        raise NotTestable(f"the grid has one value of {what} only")
    return parts


def _grid(way: str) -> dict[str, object]:
    return {**WAYS[way], "seed": "all", "layer": "", "metric": "accuracy"}


def _cell(row: Mapping[str, object]) -> dict[str, object]:
    return {name: row[name] for name in KINDS["grid"]}


@_statistic("transfer")
def transfer_costs(subject: Subject, *, model: str) -> list[Part]:
    """Accuracy on the texts' own kind less that on another kind, of one classifier."""
    parts = []
    for found in subject.having("transfer", [model], trained_on=subject.texts):
        shared = {"trained_on": subject.texts, "seed": "all", "layer": ""}
        (here, chance), (there, other_chance) = (
            [
                subject.number("transfer", found, texts=texts, metric=metric, **shared)
                for metric in ("accuracy", "chance")
            ]
            for texts in (subject.texts, subject.other_texts)
        )
        words = f"{subject.texts} less {subject.other_texts}, {found}"
        parts.append(Part(words, here - there, above_chance=(here - chance, there - other_chance)))
    return parts


@_statistic("probes")
def input_costs(subject: Subject, *, input_: str, way: str, least: float, model: str) -> list[Part]:
    """Accuracy on raw vectors less that on changed ones, and the share of it above chance that is left."""
    parts = []
    name = input_.replace("_", " ")
    for found in subject.probed(way, [model], input=input_):
        raw, changed = subject.excess(found, way), subject.excess(found, way, input_=input_)
        # The accuracy on raw vectors must exceed chance; that the other one does is itself claimed.
        parts.append(Part(f"raw less {name}, {found}", raw - changed, above_chance=(raw,)))
        parts.append(Part(f"share left, {name}, {found}", changed / raw, low=least, unit="share", above_chance=(raw,)))
    return parts


@_statistic("probes")
def fails_on_random(
    subject: Subject, *, control: str, margin: Mapping[str, float], model: str, way: str = "honest"
) -> list[Part]:
    """Accuracy on random vectors in the layers' place, less chance."""
    parts = []
    for found in subject.probed(way, [model], control=control):
        size, stated = subject.margin(margin, found, way)
        excess = subject.excess(found, way, control=control)
        words = f"{control.replace('_', ' ')} less chance, {found}"
        parts.append(Part(words, excess, -math.inf, size, margin=stated))
    return parts


CONTROLS = ("norm_only", "position_only")


@_statistic("probes")
def more_than_length(subject: Subject, *, margin: Mapping[str, float], model: str) -> list[Part]:
    """Accuracy of the linear classifier less that of the better of two that are given length, or position, alone."""
    parts = []
    for found in subject.probed("honest", [model]):
        linear = subject.accuracy(found, "honest")
        controls = {name: subject.alone(found, name) for name in CONTROLS}
        best = max(controls, key=lambda name: controls[name][0])
        size, stated = subject.margin(margin, found, "honest")
        words = f"linear less {best.replace('_', ' ')}, {found}"
        above = (subject.excess(found, "honest"),)
        parts.append(Part(words, linear - controls[best], low=size, above_chance=above, margin=stated))
    return parts


@_statistic("structure")
def early_norms_overlap(subject: Subject, *, least: float, model: str) -> list[Part]:
    """Overlap of the lengths of neighbouring layers, in the first half of the blocks."""
    chosen = {"quantity": "norm_overlap", "positions": AFTER_FIRST}
    parts = []
    for found in subject.having("structure", [model], **chosen):
        pairs = subject.find("structure", model=found, **chosen)
        pairs = pairs[pairs["layer_a"].str.fullmatch(r"block \d+")]
        early = pairs.head(max(1, len(pairs) // 2))
        if early.empty:
            raise NotTestable(f"{found} has no two blocks")
        parts += [
            Part(
                f"overlap of {row['layer_a']} and {row['layer_b']}, {found}",
                subject.number("structure", found, **chosen, layer_a=row["layer_a"], layer_b=row["layer_b"]),
                low=least,
                unit="share",
            )
            for row in early.to_dict("records")
        ]
    return parts


@_statistic("probes")
def same_on_new_texts(subject: Subject, *, margin: Mapping[str, float], model: str) -> list[Part]:
    """Accuracy when the texts of the test were trained on, less that when they were not."""
    parts = []
    for found in subject.probed("leaky", [model]):
        leaky, honest = subject.excess(found, "leaky"), subject.excess(found, "honest")
        size, stated = subject.margin(margin, found, "honest")
        words = f"split by vector less split by text, {found}"
        parts.append(Part(words, leaky - honest, -size, size, above_chance=(leaky, honest), margin=stated))
    return parts


def beside_published(rows: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Our accuracies by the study's protocol beside its own, see `embscale.claims.published_scores.compare_layers`.

    Runs that were repeated one by one come first, then those of the grid and of the probes that are alike but for the
    first position.

    Args:
        rows: by kind, as `read` gives them.
    """
    repeated = rows["repeated"]
    faithful = repeated[(repeated["way"] == "faithful") & (repeated["masked"] == "")]
    frames = [faithful, _of_grid(rows["probes"], rows["grid"])]
    both = [published_scores.compare_layers(frame, published_scores.huang()) for frame in frames if len(frame)]
    if not both:
        return pd.DataFrame(columns=published_scores.LAYER_COMPARISON)
    return pd.concat(both).drop_duplicates([*published_scores.SAME_RUN, "published"], ignore_index=True)


def _of_grid(probes: pd.DataFrame, grid: pd.DataFrame) -> pd.DataFrame:
    """Rows of the grid as published, and of the probes; a run that is in both is there once."""
    rows = pd.concat([probes.assign(design="as_published"), grid[grid["design"] == "as_published"]], ignore_index=True)
    if rows.empty or not set(published_scores.SAME_RUN) <= set(rows.columns):
        return pd.DataFrame()
    return rows.drop_duplicates(["seed", "layer", "metric", "classifier", "split", *published_scores.SAME_RUN])


@_statistic("probes", "grid", "repeated")
def published_runs(subject: Subject, *, texts: str, margin: Mapping[str, float]) -> list[Part]:
    """Our accuracies by the study's protocol less its own, run by run."""
    both = beside_published(subject.rows)
    both = both[both["texts"] == texts]
    if both.empty:
        raise NotRun(f"none of the study's runs on {texts} was repeated")
    parts = []
    for row in both.to_dict("records"):
        model, count = row["model"], int(row["texts_count"])
        subject.used[model] = min(subject.used.get(model, count), count)
        error = (row["ci_high"] - row["ci_low"]) / (2 * stats.norm.ppf((1 + CONFIDENCE) / 2))
        name = f"{model}, {count} texts, {row['tokens']} tokens"
        drawn = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(DRAWS)
        differences = row["difference"] + error * np.concatenate([[0.0], drawn])
        above = row["published"] - 1 / row["n_layers"]
        size, stated = verdicts.margin(margin, share_of_range=functools.partial(float, above))
        above_chance = (above + differences,)
        parts.append(
            Part(f"ours less published, {name}", differences, -size, size, above_chance=above_chance, margin=stated)
        )
    return parts


# Ablations


@_statistic("ablations")
def no_dimension_stands_out(subject: Subject, *, times: float, model: str) -> list[Part]:
    """The largest share of one dimension in a layer's summed weights, over an equal share."""
    chosen = {"experiment": "contribution", "weights": "raw", "k": 1, "seed": "all", "metric": "percent"}
    parts = []
    for found in subject.having("ablations", [model], **chosen):
        layers = subject.find("ablations", model=found, **chosen)["layer"]
        shares = [np.abs(subject.number("ablations", found, **chosen, layer=layer)) for layer in layers]
        largest = np.max(shares, axis=0) * subject.models[found] / 100
        parts.append(Part(f"largest share over an equal one, {found}", largest, -math.inf, times, "factor"))
    return parts


@_statistic("ablations", "probes")
def mask_costs_little(subject: Subject, *, dimensions: int, margin: Mapping[str, float], model: str) -> list[Part]:
    """Change of the accuracy when the most frequent top dimensions are set to zero."""
    parts = []
    for found, k in _masked(subject, model, dimensions):
        change = subject.number("ablations", found, **_mask("frequent", k))
        whole = subject.excess(found, subject.ablated)
        size, stated = subject.margin(margin, found, subject.ablated)
        words = f"change without {k} of {subject.models[found]}, {found}"
        parts.append(Part(words, change, -size, size, above_chance=(whole,), margin=stated))
    return parts


@_statistic("ablations")
def mask_is_special(subject: Subject, *, dimensions: int, model: str) -> list[Part]:
    """Loss of accuracy without the most frequent top dimensions, less that without as many random ones."""
    parts = []
    for found, k in _masked(subject, model, dimensions):
        frequent, random = (subject.number("ablations", found, **_mask(choice, k)) for choice in ("frequent", "random"))
        parts.append(Part(f"loss by {k} frequent less {k} random, {found}", random - frequent))
    return parts


def _masked(subject: Subject, model: str, dimensions: int) -> list[tuple[str, int]]:
    """Models, and the number of dimensions that is the same share of their width as in the study's."""
    chosen = {name: value for name, value in _mask("frequent", 0).items() if name != "k"}
    masked = []
    for found in subject.having("ablations", [model], **chosen):
        wanted = dimensions * subject.models[found] / STUDY_DIMENSIONS
        if wanted >= 0.5:
            sizes = subject.find("ablations", model=found, **chosen)["k"].astype(float)
            masked.append((found, int(min(sizes, key=lambda size: abs(math.log(size / wanted))))))
    if not masked:
        share = f"{dimensions} of {STUDY_DIMENSIONS}"
        raise NotTestable(f"one dimension of {subject.models[found]} is a much larger share than {share}")
    return masked


def _mask(choice: str, k: int) -> dict[str, object]:
    weights = "raw" if choice == "frequent" else ""
    kind = {"experiment": "mask", "choice": choice, "weights": weights, "fill": "zero", "refit": False}
    return kind | {"k": k, "seed": "all", "metric": "accuracy_change"}


@_statistic("ablations")
def signs_turn(subject: Subject, *, model: str) -> list[Part]:
    """Share of positive weights among each layer's top dimensions, in the first and in the last half of the layers."""
    chosen = {"experiment": "sign", "weights": "raw", "seed": "all", "metric": "positive_share"}
    parts = []
    for found in subject.having("ablations", [model], **chosen):
        layers = subject.find("ablations", model=found, **chosen)["layer"].to_list()
        shares = np.stack([subject.number("ablations", found, **chosen, layer=layer) for layer in layers])
        half = len(layers) // 2
        early, late = shares[:half].mean(axis=0), shares[-half:].mean(axis=0)
        parts.append(Part(f"positive in early layers, {found}", early, -math.inf, 0.5, "share"))
        parts.append(Part(f"positive in late layers, {found}", late, 0.5, math.inf, "share"))
    return parts


@_statistic("ablations")
def counts_are_equal(subject: Subject, *, range_: float, model: str) -> list[Part]:
    """Range over the layers of how many dimensions make up 50 % and 90 % of the weights, over the mean."""
    chosen = {"experiment": "cumulative", "choice": "largest", "weights": "raw", "seed": "all"}
    parts = []
    for share in (50, 90):
        wanted = chosen | {"metric": f"dimensions_for_{share}_percent"}
        for found in subject.having("ablations", [model], **wanted):
            layers = subject.find("ablations", model=found, **wanted)["layer"]
            counts = np.stack([subject.number("ablations", found, **wanted, layer=name) for name in layers])
            spread = np.ptp(counts, axis=0) / counts.mean(axis=0)
            parts.append(Part(f"range of the counts for {share} %, {found}", spread, -math.inf, range_, "share"))
    return parts


@_statistic("ablations")
def seeds_agree(subject: Subject, *, dimensions: int, model: str) -> list[Part]:
    """Overlap of the frequent dimensions of two splits of the same texts, less that of random sets."""
    chosen = {"experiment": "stability", "choice": "frequent", "weights": "raw", "seed": "all", "metric": "overlap"}
    parts = []
    for found in subject.having("ablations", [model], **chosen):
        sizes = subject.find("ablations", model=found, **chosen)["k"]
        k = int(min(sizes, key=lambda size: abs(math.log(size / dimensions))))
        overlap = subject.number("ablations", found, **chosen, k=k)
        chance = subject.number("ablations", found, **chosen | {"choice": "random", "weights": ""}, k=k)
        parts.append(Part(f"overlap of {k} frequent dimensions less chance, {found}", overlap - chance, unit="share"))
    return parts


# Subspaces


@_statistic("structure")
def subspaces_are_distinct(subject: Subject, *, scaling: str, models: list[str] | None = None) -> list[Part]:
    """Overlap of two layers' leading subspaces, from that of random ones (0) to that of two halves of a layer (1)."""
    chosen = {"quantity": "subspace_overlap", "scaling": scaling}
    parts = []
    for model in subject.having("structure", models, **chosen):
        rows = subject.find("structure", model=model, **chosen)
        rows = rows[(rows["layer_a"] != FINAL_NORM) & (rows["layer_b"] != FINAL_NORM)]
        same = rows[rows["layer_a"] == rows["layer_b"]].set_index("layer_a")["value"]
        for row in rows[rows["layer_a"] != rows["layer_b"]].to_dict("records"):
            a, b = row["layer_a"], row["layer_b"]
            found = subject.number("structure", model, **chosen, layer_a=a, layer_b=b)
            kept = (found - row["reference"]) / (min(same[a], same[b]) - row["reference"])
            parts.append(Part(f"overlap of {a} and {b}, {model}", kept, -math.inf, 0.5, "share"))
    return parts


@_statistic()
def experiment(subject: Subject, *, needs: str) -> list[Part]:
    """What no row can tell; the entry says what would."""
    raise NotTestable(needs)


def read(frames: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Rows of every kind in the form that statistics look them up in.

    Args:
        frames: some of `KINDS`; a kind that is missing has no rows.

    Raises:
        EmbscaleError: a kind lacks a column.
    """
    found = {}
    for kind, columns in KINDS.items():
        needed = list(dict.fromkeys([*NEEDED, *columns]))
        rows = frames.get(kind, pd.DataFrame(columns=needed))
        if missing := [column for column in needed if column not in rows.columns]:
            raise EmbscaleError(f"rows of {kind}: no column {missing[0]!r}; it has {', '.join(map(str, rows.columns))}")
        texts = [name for name in columns if name not in NUMBERS]
        filled = rows.assign(**{name: rows[name].astype(object).fillna("").astype(str) for name in texts})
        found[kind] = filled.reset_index(drop=True)
    return found


def printed(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The published numbers as rows of our kinds, so that the same statistics can be computed from them.

    Args:
        rows: from `published.huang`.
    """
    shared = {"classifier": "sgd", "split": "vector", "seed": "all", "layer": "", "ci_low": np.nan, "ci_high": np.nan}
    widths = {"gpt2": 768, "gpt2-medium": 1024, "gpt2-large": 1280, "gpt2-xl": 1600}
    rows = rows[rows["suite"] == "gpt2"].assign(n=0, metric="accuracy", **shared)
    rows = rows.assign(width=rows["model"].map(widths))
    grid = rows[rows["source"] == "grid"].assign(design="as_published")
    noted = rows[(rows["source"] == "notebooks") & (rows["masked"] == "")]
    # Of each size the run that the ablations start from, which the notebooks tell of gpt2-medium alone.
    base = grid[(grid["tokens"] == 30) & (grid["texts_count"] == 1000)]
    probes = pd.concat([base, noted[noted["control"] == "study_random"]])
    chance = probes.assign(metric="chance", value=1 / probes["n_layers"])
    transfer = noted[noted["control"] == "none"]
    transfer = pd.concat([transfer, transfer.assign(metric="chance", value=1 / transfer["n_layers"])])
    masked = rows[rows["masked"] == "591 690 581 239"]
    change = masked.assign(
        value=masked["value"] - noted.loc[noted["texts"] == noted["trained_on"], "value"].iloc[0],
        experiment="mask", weights="raw", choice="frequent", k=4, fill="zero", refit=False, metric="accuracy_change",
    )  # fmt: skip
    return read({"probes": pd.concat([probes, chance]), "grid": grid, "transfer": transfer, "ablations": change})


def ledger(
    claims: Sequence[Claim],
    frames: Mapping[str, pd.DataFrame],
    *,
    texts: str,
    other_texts: str,
    files: Mapping[str, str] | None = None,
    command: str = "",
) -> pd.DataFrame:
    """A row for each claim: the verdict on its own models, and what the ladder shows in their place.

    Args:
        claims: from `embscale.claims.verdicts.load` with `STATISTICS`.
        frames: our rows by kind, a key of `KINDS`.
        texts: name of the texts on which layers of the ladder are classified; of other models, those of the claim.
        other_texts: name of the texts that classifiers are transferred to.
        files: by kind where the rows are, for the ledger.
        command: that recomputes the ledger.

    Returns:
        Columns `embscale.claims.verdicts.COLUMNS`; ``n`` is the least number of texts behind a number.

    Raises:
        EmbscaleError: a kind of rows lacks a column, or holds several rows where one is meant.
    """
    ours, paper = read(frames), printed(published_scores.huang())
    ladder = replace(_of_suite(ours, LADDER, texts, other_texts), any_model=True)
    rows, parts = [], {}
    for claim in claims:
        published = _tested(claim, _of_suite(ours, claim.suite, claim.task, other_texts), "")
        beside = replace(ladder, used={})
        asked = Outcome(claim.no_ladder) if claim.no_ladder else _tested(claim, beside, "ladder")
        parts[claim.id] = asked.found
        there = replace(_of_suite(paper, claim.suite, "imdb", "ag_news"), ablated="faithful", certain=True)
        said = _tested(claim, there, "").found
        read_from = "; ".join((files or {}).get(kind, "") for kind in KINDS_OF[claim.statistic])
        help_ = STATISTICS[claim.statistic].__doc__ or ""
        rows.append(verdicts.ledger_row(claim, published, asked, said, help_=help_, rows=read_from, command=command))
    return verdicts.ledger(rows, verdicts.same_tests(parts))


def _of_suite(frames: Mapping[str, pd.DataFrame], suite: str, texts: str, other_texts: str) -> Subject:
    own = {
        kind: rows[(rows["suite"] != LADDER) if suite == ALL else (rows["suite"] == suite)]
        for kind, rows in frames.items()
    }
    widths = pd.concat([rows[["model", "width"]] for rows in own.values()]).drop_duplicates("model")
    models = widths.sort_values("width", kind="stable").set_index("model")["width"].astype(int).to_dict()
    return Subject(own, models, texts, other_texts)


def _tested(claim: Claim, subject: Subject, name: str) -> Outcome:
    """Put a claim to the rows of a subject; all of its models are expected if it has a name."""
    if not subject.models:
        return Outcome(f"no model of the suite {name or claim.suite} was run", ran=False)

    def about() -> dict[str, Any]:
        used = [model for model in subject.models if model in subject.used]
        left_out = name and 0 < len(used) < len(subject.models)
        remark = f"of the {name} only {', '.join(used)} was run this way" if left_out else ""
        n = min(subject.used.values(), default=0)
        return {"models": used, "n": n, "over": "texts", "runs": 1, "remark": remark}

    return verdicts.tested(lambda: STATISTICS[claim.statistic](subject, **claim.arguments), about)
