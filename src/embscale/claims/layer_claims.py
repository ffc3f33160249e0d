"""Tests of the claims of Huang et al. 2024 on the layer results.

``workflow/layer_claims.yaml`` states each claim and the statistic that tests it; this module has one function per
statistic.  Parts, verdicts and the correction for the family are those of `embscale.claims.table_claims`.

A row has a value and its 95 % interval, not its bootstrap draws, so draws are normal with the row's value and standard
error (a parametric bootstrap).  If a quantity combines several rows, they are drawn independently.  Rows of one model
mostly come from the same texts, so their difference is known more precisely than that: verdicts err on the side of
*unresolved*.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from scipy import stats

from embscale.claims import published_scores
from embscale.claims.table_claims import COLUMNS, LADDER, LEAST_MODELS, Claim, NotRun, Part, corrected, entry, places_of
from embscale.errors import EmbscaleError
from embscale.layers.names import AFTER_FIRST, FINAL_NORM
from embscale.statistics import resampling
from embscale.statistics.resampling import CONFIDENCE

DRAWS = 9999
MARGIN = 0.02  # two accuracies that differ by less are the same to a reader of the study's figures

# The kinds of rows, with their key columns besides a value and its interval.
KINDS = {
    "probes": ["trained_on", "texts", "classifier", "split", "input", "control", "seed", "layer", "metric"],
    "grid": ["texts", "tokens", "texts_count", "classifier", "split", "design", "seed", "layer", "metric"],
    "transfer": ["trained_on", "texts", "seed", "layer", "metric"],
    "ablations": ["texts", "experiment", "weights", "choice", "k", "fill", "refit", "layer", "seed", "metric"],
    "structure": ["texts", "tied", "quantity", "scaling", "positions", "layer_a", "layer_b", "reference"],
    "quality": ["texts", "reduction", "scaling", "layers", "quantity"],
}
NUMBERS = ("tokens", "texts_count", "k", "refit", "reference")  # of these columns; the others are names
NEEDED = ["suite", "model", "width", "value", "ci_low", "ci_high", "n"]

# The protocol of Huang et al.; one fitted to convergence and tested on unseen texts; and a nonlinear one.
WAYS = {
    "faithful": {"classifier": "sgd", "split": "vector"},
    "honest": {"classifier": "logistic_regression", "split": "text"},
    "tree": {"classifier": "decision_tree", "split": "text"},
}
STUDY_DIMENSIONS = 1024  # of gpt2-medium, of which the study masks four


@dataclass(frozen=True)
class Subject:
    """The input of a statistic.

    Attributes:
        rows: by kind, a key of `KINDS`; those of one suite.
        models: width by model, from narrow to wide; those of the suite that have rows of any kind.
        texts: name of the texts on which layers are classified.
        other_texts: name of the texts that classifiers are transferred to.
        named: the claim's name of a model -> its name in the rows.
        certain: whether rows without intervals are treated as exact: published numbers, which are not tested.
        used: models and numbers of texts that were looked up, filled by look-ups.
    """

    rows: Mapping[str, pd.DataFrame]
    models: Mapping[str, int]
    texts: str
    other_texts: str
    named: Mapping[str, str] = field(default_factory=dict)
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
        if models is not None and not set(models) <= set(self.named):
            missing = [name for name in models if name not in there]
            if missing:
                raise NotRun(f"{', '.join(missing)}: no such rows ({_words(kind, conditions)})")
            return list(models)
        found = [model for model in self.models if model in there]
        if not found:
            raise NotRun(f"no such rows ({_words(kind, conditions)})")
        if models is None:
            return found
        # Of another suite each named model is the one at the same place in the order of widths, of those with rows.
        places = places_of(list(self.named), found)
        return list(dict.fromkeys(places[name] for name in models))

    def number(self, kind: str, model: str, **conditions: object) -> np.ndarray:
        """Value of a row, then its draws, ``[1 + DRAWS]``.

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
            self.used[model] = min(self.used.get(model, int(row["n"])), int(row["n"]))
        if self.certain:
            return np.array([row["value"]])
        error = (row["ci_high"] - row["ci_low"]) / (2 * stats.norm.ppf((1 + CONFIDENCE) / 2))
        if math.isnan(error):
            raise NotRun(f"{what} has no interval")
        generator = np.random.default_rng(zlib.crc32(f"{what} {row['value']!r}".encode()))
        return row["value"] + error * np.concatenate([[0.0], generator.standard_normal(DRAWS)])

    def accuracy(self, model: str, way: str, *, input_: str = "raw", control: str = "none") -> np.ndarray:
        """Accuracy of a classifier over all seeds."""
        return self._of_probe(model, way, input_, control, "accuracy")

    def chance(self, model: str, way: str, *, input_: str = "raw", control: str = "none") -> np.ndarray:
        """Of naming layers at random."""
        return self._of_probe(model, way, input_, control, "chance")

    def _of_probe(self, model: str, way: str, input_: str, control: str, metric: str) -> np.ndarray:
        conditions = WAYS[way] | {"input": input_, "control": control, "metric": metric}
        return self.number("probes", model, trained_on=self.texts, seed="all", layer="", **conditions)

    def probed(self, way: str, models: Sequence[str] | None = None, *, input_: str = "raw") -> list[str]:
        """Models with results of this classifier."""
        return self.having("probes", models, **WAYS[way], input=input_, metric="accuracy", control="none")


def _words(kind: str, conditions: Mapping[str, object]) -> str:
    details = " ".join(
        str(value).replace("_", " ") for value in conditions.values() if value not in ("all", "none", "")
    )
    return f"{kind}, {details}" if details else kind


Statistic = Callable[..., list[Part]]
STATISTICS: dict[str, Statistic] = {}


def _statistic(function: Statistic) -> Statistic:
    """Make a function known to ``layer_claims.yaml``; its docstring's first line is its help."""
    STATISTICS[function.__name__] = function
    return function


def _least(models: Sequence[str]) -> None:
    if len(models) < LEAST_MODELS:
        raise NotRun(f"{len(models)} models were run, which needs {LEAST_MODELS}")


# Lengths and pictures


@_statistic
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


@_statistic
def growth_is_exponential(subject: Subject, *, models: list[str] | None = None) -> list[Part]:
    """Fit of an exponential to the mean lengths of the blocks less that of a line, as squared correlations."""
    chosen = {"quantity": "exponential_less_linear", "positions": AFTER_FIRST}
    return [
        Part(f"exponential less linear, {model}", subject.number("structure", model, **chosen), unit="correlation")
        for model in subject.having("structure", models, **chosen)
    ]


@_statistic
def last_is_longer(subject: Subject, *, factor: float, after_norm: bool, models: list[str] | None = None) -> list[Part]:
    """Mean length at the last layer over that at the layer before."""
    parts = []
    for model in subject.having("structure", models, quantity="last_length_ratio", positions=AFTER_FIRST):
        last = _last_layer(subject, model, "last_length_ratio", after_norm=after_norm, positions=AFTER_FIRST)
        parts.append(Part(f"length at {last[0]} over the layer before, {model}", last[1], low=factor, unit="factor"))
    return parts


@_statistic
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


@_statistic
def drifts_in_order(subject: Subject, *, order: float, models: list[str] | None = None) -> list[Part]:
    """Correlation of two layers' distance in the model and the distance of their means, at unit length."""
    parts = []
    for model in subject.having("structure", models, quantity="order_of_layers", scaling="unit"):
        name, found = _last_layer(subject, model, "order_of_layers", after_norm=False, scaling="unit")
        parts.append(Part(f"order of layers up to {name}, {model}", found, low=order, unit="correlation"))
    return parts


@_statistic
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


@_statistic
def ring(
    subject: Subject, *, least: float, after_norm: bool, absent: bool = False, models: list[str] | None = None
) -> list[Part]:
    """How far the last layer has come back towards the first, on two principal components of unit vectors."""
    parts = []
    for model in subject.having("structure", models, quantity="return_2d", scaling="unit"):
        name, found = _last_layer(subject, model, "return_2d", after_norm=after_norm, scaling="unit")
        bounds = {"low": -math.inf, "high": least} if absent else {"low": least}
        parts.append(Part(f"return at {name}, {model}", found, **bounds, unit="share"))
    return parts


@_statistic
def ring_by_tying(subject: Subject, *, tied: str, least: float, after_norm: bool) -> list[Part]:
    """Where tables are tied the last layer comes back towards the first, and elsewhere it does not."""
    known = subject.find("structure", quantity="return_2d", scaling="unit", tied=tied)
    models = [model for model in subject.models if model in set(known["model"])]
    if not models:
        raise NotRun(f"no model whose tables are {'tied' if tied == 'yes' else 'not tied'} was run")
    return ring(subject, least=least, after_norm=after_norm, absent=tied == "no", models=models)


@_statistic
def pictures_differ(
    subject: Subject, *, better: str, worse: str, margin: float, models: list[str] | None = None
) -> list[Part]:
    """How well two pictures of the raw vectors keep the layers in their order."""
    conditions = {"quantity": "order_of_layers", "scaling": "raw", "layers": "all"}
    return [
        Part(
            f"order of layers, {better} less {worse}, {model}",
            subject.number("quality", model, reduction=better, **conditions)
            - subject.number("quality", model, reduction=worse, **conditions),
            low=margin,
            unit="correlation",
        )
        for model in subject.having("quality", models, reduction=worse, **conditions)
    ]


@_statistic
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


@_statistic
def above_chance(
    subject: Subject, *, way: str, least: float, input_: str = "raw", models: list[str] | None = None
) -> list[Part]:
    """Accuracy less that of naming layers at random."""
    return [
        Part(
            f"accuracy less chance, {model}",
            subject.accuracy(model, way, input_=input_) - subject.chance(model, way, input_=input_),
            low=least,
        )
        for model in subject.probed(way, models, input_=input_)
    ]


@_statistic
def at_chance(
    subject: Subject, *, way: str, margin: float, input_: str = "raw", models: list[str] | None = None
) -> list[Part]:
    """Accuracy less that of naming layers at random, which is hardly any."""
    parts = above_chance(subject, way=way, least=-margin, input_=input_, models=models)
    return [replace(part, high=margin) for part in parts]


@_statistic
def best_of_grid(subject: Subject, *, model: str, low: float, high: float) -> list[Part]:
    """The highest accuracy of a model over windows and numbers of texts."""
    (found,) = subject.having("grid", [model], **_grid("faithful"))
    cells = subject.find("grid", model=found, **_grid("faithful"), design="as_published")
    values = [subject.number("grid", found, **_cell(row)) for row in cells.to_dict("records")]
    return [Part(f"highest accuracy of {found}", np.max(values, axis=0), low, high)]


@_statistic
def falls_with_size(subject: Subject, *, way: str, corrected_for_chance: bool) -> list[Part]:
    """Change of the accuracy for each doubling of the models' width."""
    models = subject.probed(way)
    _least(models)
    values = [subject.accuracy(model, way) for model in models]
    if corrected_for_chance:
        chances = [subject.chance(model, way) for model in models]
        values = [(value - chance) / (1 - chance) for value, chance in zip(values, chances, strict=True)]
    fall = -resampling.slope([subject.models[model] for model in models], np.stack(values, axis=1))
    words = "accuracy corrected for chance" if corrected_for_chance else "accuracy"
    return [Part(f"fall of the {words}, {models[0]} to {models[-1]}", fall, unit="score per doubling")]


@_statistic
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
            drawn = np.stack([subject.number("grid", model, **_cell(row)) for row in line.to_dict("records")], axis=1)
            held = f"{value} tokens" if fixed == "tokens" else f"{value} texts"
            rise = resampling.slope(line[what].to_list(), drawn)
            parts.append(Part(f"rise at {held}, {model}", rise, unit="score per doubling"))
    if not parts:
        raise NotRun(f"the grid has one value of {what} only")
    return parts


def _grid(way: str) -> dict[str, object]:
    return {**WAYS[way], "seed": "all", "layer": "", "metric": "accuracy"}


def _cell(row: Mapping[str, object]) -> dict[str, object]:
    return {name: row[name] for name in KINDS["grid"]}


@_statistic
def transfer_costs(subject: Subject, *, model: str) -> list[Part]:
    """Accuracy on the texts' own kind less that on another kind, of one classifier."""
    (found,) = subject.having("transfer", [model], trained_on=subject.texts)
    here, there = (
        subject.number(
            "transfer", found, trained_on=subject.texts, texts=texts, seed="all", layer="", metric="accuracy"
        )
        for texts in (subject.texts, subject.other_texts)
    )
    return [Part(f"{subject.texts} less {subject.other_texts}, {found}", here - there)]


@_statistic
def input_costs(subject: Subject, *, input_: str, way: str, model: str) -> list[Part]:
    """Accuracy on raw vectors less that on changed ones, and what is left above chance."""
    (found,) = subject.probed(way, [model], input_=input_)
    changed = subject.accuracy(found, way, input_=input_)
    return [
        Part(f"raw less {input_.replace('_', ' ')}, {found}", subject.accuracy(found, way) - changed),
        Part(f"{input_.replace('_', ' ')} less chance, {found}", changed - subject.chance(found, way, input_=input_)),
    ]


@_statistic
def fails_on_random(subject: Subject, *, control: str, margin: float, model: str, way: str = "honest") -> list[Part]:
    """Accuracy on random vectors in the layers' place, less chance."""
    chosen = WAYS[way] | {"control": control, "metric": "accuracy"}
    (found,) = subject.having("probes", [model], **chosen)
    excess = subject.accuracy(found, way, control=control) - subject.chance(found, way, control=control)
    return [Part(f"{control.replace('_', ' ')} less chance, {found}", excess, -math.inf, margin)]


@_statistic
def more_than_length(subject: Subject, *, model: str) -> list[Part]:
    """Accuracy of the linear classifier less that of one that is given the length alone."""
    conditions = {"split": "text", "input": "raw", "control": "none"}
    (found,) = subject.having("probes", [model], classifier="norm_only", **conditions)
    alone = subject.number(
        "probes",
        found,
        classifier="norm_only",
        **conditions,
        trained_on=subject.texts,
        seed="all",
        layer="",
        metric="accuracy",
    )
    return [Part(f"linear less length alone, {found}", subject.accuracy(found, "honest") - alone)]


@_statistic
def early_norms_overlap(subject: Subject, *, least: float, model: str) -> list[Part]:
    """Overlap of the lengths of neighbouring layers, in the first half of the blocks."""
    chosen = {"quantity": "norm_overlap", "positions": AFTER_FIRST}
    (found,) = subject.having("structure", [model], **chosen)
    pairs = subject.find("structure", model=found, **chosen)
    pairs = pairs[pairs["layer_a"].str.fullmatch(r"block \d+")]
    early = pairs.head(max(1, len(pairs) // 2))
    if early.empty:
        raise NotRun(f"{found} has no two blocks")
    return [
        Part(
            f"overlap of {row['layer_a']} and {row['layer_b']}, {found}",
            subject.number("structure", found, **chosen, layer_a=row["layer_a"], layer_b=row["layer_b"]),
            low=least,
            unit="share",
        )
        for row in early.to_dict("records")
    ]


@_statistic
def same_on_new_texts(subject: Subject, *, margin: float, model: str) -> list[Part]:
    """Accuracy when the texts of the test were trained on, less that when they were not."""
    conditions = {"classifier": "logistic_regression", "input": "raw", "control": "none"}
    (found,) = subject.having("probes", [model], split="vector", **conditions)
    chosen = conditions | {"trained_on": subject.texts, "seed": "all", "layer": "", "metric": "accuracy"}
    leaky, honest = (subject.number("probes", found, split=split, **chosen) for split in ("vector", "text"))
    return [Part(f"split by vector less split by text, {found}", leaky - honest, -margin, margin)]


def beside_published(probes: pd.DataFrame, grid: pd.DataFrame) -> pd.DataFrame:
    """Our accuracies by the study's protocol beside its own, see `embscale.claims.published_scores.compare_layers`.

    Args:
        probes: as `read` gives them.
        grid: likewise; a run that is in both counts once.
    """
    rows = pd.concat([probes.assign(design="as_published"), grid[grid["design"] == "as_published"]], ignore_index=True)
    if rows.empty or not set(published_scores.SAME_RUN) <= set(rows.columns):
        return pd.DataFrame(columns=published_scores.LAYER_COMPARISON)
    once = rows.drop_duplicates(["seed", "layer", "metric", "classifier", "split", *published_scores.SAME_RUN])
    return published_scores.compare_layers(once, published_scores.huang())


@_statistic
def published_runs(subject: Subject, *, texts: str, margin: float) -> list[Part]:
    """Our accuracies by the study's protocol less its own, run by run."""
    both = beside_published(subject.rows["probes"], subject.rows["grid"])
    both = both[both["texts"] == texts]
    if both.empty:
        raise NotRun(f"none of the study's runs on {texts} was repeated")
    parts = []
    for row in both.to_dict("records"):
        subject.used[row["model"]] = int(row["n"])
        error = (row["ci_high"] - row["ci_low"]) / (2 * stats.norm.ppf((1 + CONFIDENCE) / 2))
        name = f"{row['model']}, {row['texts_count']} texts, {row['tokens']} tokens"
        drawn = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(DRAWS)
        differences = row["difference"] + error * np.concatenate([[0.0], drawn])
        parts.append(Part(f"ours less published, {name}", differences, -margin, margin))
    return parts


# Ablations


@_statistic
def no_dimension_stands_out(subject: Subject, *, times: float, model: str) -> list[Part]:
    """The largest share of one dimension in a layer's summed weights, over an equal share."""
    chosen = {"experiment": "contribution", "weights": "raw", "k": 1, "seed": "all", "metric": "percent"}
    (found,) = subject.having("ablations", [model], **chosen)
    layers = subject.find("ablations", model=found, **chosen)["layer"]
    shares = [np.abs(subject.number("ablations", found, **chosen, layer=layer)) for layer in layers]
    largest = np.max(shares, axis=0) * subject.models[found] / 100
    return [Part(f"largest share over an equal one, {found}", largest, -math.inf, times, "factor")]


@_statistic
def mask_costs_little(subject: Subject, *, dimensions: int, margin: float, model: str) -> list[Part]:
    """Change of the accuracy when the most frequent top dimensions are set to zero."""
    found, k = _masked(subject, model, dimensions)
    change = subject.number("ablations", found, **_mask("frequent", k))
    return [Part(f"change without {k} of {subject.models[found]}, {found}", change, -margin, margin)]


@_statistic
def mask_is_special(subject: Subject, *, dimensions: int, model: str) -> list[Part]:
    """Loss of accuracy without the most frequent top dimensions, less that without as many random ones."""
    found, k = _masked(subject, model, dimensions)
    frequent, random = (subject.number("ablations", found, **_mask(choice, k)) for choice in ("frequent", "random"))
    return [Part(f"loss by {k} frequent less {k} random, {found}", random - frequent)]


def _masked(subject: Subject, model: str, dimensions: int) -> tuple[str, int]:
    """The model, and the number of dimensions that is the same share of its width as in the study's."""
    chosen = {name: value for name, value in _mask("frequent", 0).items() if name != "k"}
    (found,) = subject.having("ablations", [model], **chosen)
    wanted = dimensions * subject.models[found] / STUDY_DIMENSIONS
    if wanted < 0.5:
        share = f"{dimensions} of {STUDY_DIMENSIONS}"
        raise NotRun(f"one dimension of {subject.models[found]} is a much larger share than {share}")
    sizes = subject.find("ablations", model=found, **chosen)["k"].astype(float)
    return found, int(min(sizes, key=lambda size: abs(math.log(size / wanted))))


def _mask(choice: str, k: int) -> dict[str, object]:
    weights = "raw" if choice == "frequent" else ""
    kind = {"experiment": "mask", "choice": choice, "weights": weights, "fill": "zero", "refit": False}
    return kind | {"k": k, "seed": "all", "metric": "accuracy_change"}


@_statistic
def signs_turn(subject: Subject, *, model: str) -> list[Part]:
    """Share of positive weights among each layer's top dimensions, in the first and in the last half of the layers."""
    chosen = {"experiment": "sign", "weights": "raw", "seed": "all", "metric": "positive_share"}
    (found,) = subject.having("ablations", [model], **chosen)
    layers = subject.find("ablations", model=found, **chosen)["layer"].to_list()
    shares = np.stack([subject.number("ablations", found, **chosen, layer=layer) for layer in layers])
    half = len(layers) // 2
    return [
        Part(f"positive in early layers, {found}", shares[:half].mean(axis=0), -math.inf, 0.5, "share"),
        Part(f"positive in late layers, {found}", shares[-half:].mean(axis=0), 0.5, math.inf, "share"),
    ]


@_statistic
def counts_are_equal(subject: Subject, *, margin: float, model: str) -> list[Part]:
    """Range over the layers of how many dimensions make up 50 % and 90 % of the weights, over the mean."""
    chosen = {"experiment": "cumulative", "choice": "largest", "weights": "raw", "seed": "all"}
    parts = []
    for share in (50, 90):
        metric = f"dimensions_for_{share}_percent"
        (found,) = subject.having("ablations", [model], **chosen, metric=metric)
        layers = subject.find("ablations", model=found, **chosen, metric=metric)["layer"]
        counts = np.stack([subject.number("ablations", found, **chosen, metric=metric, layer=name) for name in layers])
        spread = np.ptp(counts, axis=0) / counts.mean(axis=0)
        parts.append(Part(f"range of the counts for {share} %, {found}", spread, -math.inf, margin, "share"))
    return parts


@_statistic
def seeds_agree(subject: Subject, *, dimensions: int, range_: float, model: str) -> list[Part]:
    """Overlap of the frequent dimensions of two runs less that of random sets, and the range of the accuracy."""
    chosen = {"experiment": "stability", "choice": "frequent", "weights": "raw", "seed": "all", "metric": "overlap"}
    (found,) = subject.having("ablations", [model], **chosen)
    sizes = subject.find("ablations", model=found, **chosen)["k"]
    k = int(min(sizes, key=lambda size: abs(math.log(size / dimensions))))
    overlap = subject.number("ablations", found, **chosen, k=k)
    chance = subject.number("ablations", found, **chosen | {"choice": "random", "weights": ""}, k=k)
    parts = [Part(f"overlap of {k} frequent dimensions less chance, {found}", overlap - chance, unit="share")]
    runs = subject.find("probes", model=found, **WAYS["honest"], input="raw", control="none", metric="accuracy")
    seeds = runs.loc[(runs["layer"] == "") & (runs["seed"] != "all"), "seed"]
    if len(seeds) > 1:
        fixed = WAYS["honest"] | {"input": "raw", "control": "none", "metric": "accuracy", "layer": ""}
        # Each run has a test set of its own, so that its error is in its value already: no draws.
        values = subject.find("probes", model=found, **fixed).set_index("seed").loc[seeds, "value"]
        spread = np.full_like(overlap, np.ptp(values.to_numpy()))
        parts.append(Part(f"range of the accuracy over {len(seeds)} runs, {found}", spread, -math.inf, range_))
    return parts


# Subspaces


@_statistic
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


@_statistic
def experiment(subject: Subject, *, needs: str) -> list[Part]:
    """What no row can tell; the entry says what would."""
    raise NotRun(needs)


def read(frames: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Rows of every kind in the form that statistics look them up in.

    Args:
        frames: some of `KINDS`; a kind that is missing has no rows.

    Raises:
        EmbscaleError: a kind lacks a column.
    """
    found = {}
    for kind, columns in KINDS.items():
        rows = frames.get(kind, pd.DataFrame(columns=[*NEEDED, *columns]))
        if missing := [column for column in [*NEEDED, *columns] if column not in rows.columns]:
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
    masked = rows[rows["masked"] == "591 690 581 239"]
    change = masked.assign(
        value=masked["value"] - noted.loc[noted["texts"] == noted["trained_on"], "value"].iloc[0],
        experiment="mask", weights="raw", choice="frequent", k=4, fill="zero", refit=False, metric="accuracy_change",
    )  # fmt: skip
    return read({"probes": pd.concat([probes, chance]), "grid": grid, "transfer": transfer, "ablations": change})


def ledger(
    claims: Sequence[Claim], frames: Mapping[str, pd.DataFrame], *, texts: str, other_texts: str
) -> pd.DataFrame:
    """A row for each claim about its own models, and another about the ladder if it was run.

    Args:
        claims: from `embscale.claims.table_claims.load` with `STATISTICS`.
        frames: our rows by kind, a key of `KINDS`.
        texts: name of the texts on which layers are classified.
        other_texts: name of the texts that classifiers are transferred to.

    Returns:
        Columns `embscale.claims.table_claims.COLUMNS`; ``n`` is the least number of vectors, texts or seeds behind a
        number.

    Raises:
        EmbscaleError: a kind of rows lacks a column, or holds several rows where one is meant.
    """
    ours = read(frames)
    paper = Subject(printed(published_scores.huang()), {}, "imdb", "ag_news", certain=True)
    rows = []
    for claim in claims:
        subject = _of_suite(ours, claim.suite, texts, other_texts)
        there = _of_suite(paper.rows, claim.suite, paper.texts, paper.other_texts)
        published_parts = _parts(claim, replace(there, certain=True))
        rows.append(_row(claim, claim.suite, subject) | _said(claim, published_parts))
    ladder = _of_suite(ours, LADDER, texts, other_texts)
    sizes = _of_suite(paper.rows, "gpt2", paper.texts, paper.other_texts).models
    for claim in claims if ladder.models else ():
        subject = replace(ladder, named={name: name for name in sizes}, used={})
        rows.append(_row(claim, LADDER, claim.no_ladder or subject))
    return corrected(pd.DataFrame(rows, columns=COLUMNS))


def _of_suite(frames: Mapping[str, pd.DataFrame], suite: str, texts: str, other_texts: str) -> Subject:
    own = {kind: rows[(rows["suite"] == suite) | (suite == "all")] for kind, rows in frames.items()}
    widths = pd.concat([rows[["model", "width"]] for rows in own.values()]).drop_duplicates("model")
    models = widths.sort_values("width", kind="stable").set_index("model")["width"].astype(int).to_dict()
    return Subject(own, models, texts, other_texts)


def _parts(claim: Claim, subject: Subject) -> list[Part] | str:
    """The parts of a claim, or the reason why there are none."""
    try:
        return STATISTICS[claim.statistic](subject, **claim.arguments)
    except NotRun as reason:
        return f"{reason}"


def _row(claim: Claim, suite: str, subject: Subject | str) -> dict[str, object]:
    found = subject if isinstance(subject, str) else _parts(claim, subject)
    if not isinstance(subject, str) and not subject.models:
        found = f"no model of the suite {suite} was run"
    used = {} if isinstance(subject, str) else subject.used
    help_ = STATISTICS[claim.statistic].__doc__ or ""
    models = [] if isinstance(found, str) else list(used)
    return entry(claim, suite, found, help_=help_, models=models, n=min(used.values(), default=0))


def _said(claim: Claim, parts: list[Part] | str) -> dict[str, object]:
    """The result from the published numbers; empty if none of this kind were published."""
    if isinstance(parts, str):
        return {}
    shown = min(parts, key=lambda part: part.excess)
    return {"published_effect": shown.value, "published_holds": all(part.holds for part in parts)}
