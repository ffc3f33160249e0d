"""Tests of the claims of Corey 2024 on per-query scores.

``workflow/claims.yaml`` states each claim, the models that it concerns, and the statistic that tests it; this module
has one function per statistic.  A function computes *parts*: quantities that, according to the claim, lie in some
range.  They are computed from the original queries, from every bootstrap resample, and from the published numbers,
which have no resamples.

A claim holds if all its parts do, so the part with the weakest support decides (an intersection-union test, Berger
1982).  If parts are outside their range, the one with the strongest evidence decides, its p-value multiplied by the
number of parts (Bonferroni).  The verdict follows from the p-value after Holm's correction over the family:
*reproduced* or *not reproduced* below `ALPHA`, *unresolved* above it, *not run* if a score is missing.

Intervals and p-values are over queries, for fixed models and seeds of random tables.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from embscale.claims import published_scores
from embscale.errors import EmbscaleError
from embscale.rows.markdown import escape, markdown_table
from embscale.rows.selection import LADDER, is_last_checkpoint, with_unique_models
from embscale.scoring.scores import KEYS, NONE
from embscale.statistics import resampling
from embscale.statistics.resampling import Estimate

ALPHA = 0.05
RANDOM = "random"
FULL = "full"
# If a claim mentions pad or random, the first of these that was scored is used; Corey's own draw comes first.
KINDS = {"pad": published_scores.PADS, RANDOM: published_scores.RANDOMS}
LEAST_MODELS = 3  # a trend or a peak needs

VERDICTS = ("reproduced", "not reproduced", "unresolved", "not run")
COLUMNS = [
    "claim", "suite", "models", "words", "statistic", "unit", "expected", "effect", "ci_low", "ci_high", "n", "p",
    "p_holm", "verdict", "published_effect", "published_holds", "figure", "detail",
]  # fmt: skip

CERTAIN = ("same_table",)  # statistics that no resampling changes
OF_NAMED = ("difference", "below_random", "same_table", "experiment")  # statistics of the models that a claim names
OF_TOKENIZERS = ("random_rises", "tokenizer_order")  # of random tables alone; the others are of a whole suite

# By what the report multiplies; the last two are of the second study's claims.
UNITS = {"score": 100, "score per doubling": 100, "tau": 1, "share": 1, "factor": 1, "correlation": 1}


class NotRun(Exception):
    """A score that a claim needs is missing; the message says which."""


@dataclass(frozen=True)
class Claim:
    """An entry of ``claims.yaml``.

    Attributes:
        id: C1 to C16, E1 to E3 for the explanations; a letter behind it where one claim asserts several things.
        words: the claim in short.
        suite: of the models that it is about.
        statistic: name of a function of this module, one of `STATISTICS`.
        arguments: of that function.
        figure: module of `embscale.figures` that shows it.
        no_ladder: why the claim cannot be tested on the ladder; empty if it can.
    """

    id: str
    words: str
    suite: str
    statistic: str
    figure: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    no_ladder: str = ""


@dataclass(frozen=True)
class Part:
    """A quantity, and the range claimed for it.

    Attributes:
        words: what the quantity is.
        draws: ``[1 + resamples]``: from the queries as they are, then from each resample.
        low: end of the range.
        high: the other end.
        unit: a key of `UNITS`.
    """

    words: str
    draws: np.ndarray
    low: float = 0.0
    high: float = math.inf
    unit: str = "score"

    @property
    def value(self) -> float:
        """From the queries as they are."""
        return float(self.draws[0])

    @property
    def holds(self) -> bool:
        """Whether the quantity is in its range, ignoring uncertainty."""
        return bool(self.low < self.value < self.high)

    @property
    def excess(self) -> float:
        """Distance from the nearest end of the range; negative outside."""
        return min(self.value - self.low, self.high - self.value)

    @property
    def expected(self) -> str:
        """The range in words, in the units of the report."""
        scale = UNITS[self.unit]
        low, high = f"{self.low * scale:g}", f"{self.high * scale:g}"
        if math.isinf(self.high):
            return f"above {low}"
        return f"below {high}" if math.isinf(self.low) else f"{low} to {high}"

    def estimate(self) -> Estimate:
        """Value, interval, and the p-value of the relevant end of the range.

        Inside the range, that is the end with the larger p-value; outside, the end that is violated.
        """
        if self.holds:
            ends = [end for end in (self.low, self.high) if math.isfinite(end)]
        else:
            ends = [self.low if self.value <= self.low else self.high]
        return max(
            (resampling.estimate(self.value, self.draws[1:], null=end) for end in ends), key=lambda found: found.p
        )


@dataclass(frozen=True)
class Panel:
    """Mean scores on one task by one metric, from the original queries and from every resample.

    Attributes:
        models: ``suite``, ``dims`` and ``tokenizer`` by model.
        cells: ``(model, variant)`` -> ``[1 + resamples]``; a random table's model is its tokenizer.  Variants are
            written ``full`` (of the last checkpoint), ``full@STEP``, ``crop:128``, ``pad:14336``, ``random:2048``.
        seeds: for each cell over how many random tables it is a mean.
        queries: how many.
        digests: of the tables, by the same keys as `cells`, where there is one.
    """

    models: pd.DataFrame
    cells: Mapping[tuple[str, str], np.ndarray]
    seeds: Mapping[tuple[str, str], np.ndarray]
    queries: int
    digests: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def models_of(self, suite: str) -> list[str]:
        """Models of a suite from narrow to wide."""
        chosen = self.models[self.models["suite"] == suite]
        return list(chosen.sort_values("dims", kind="stable").index)

    def variants(self, owner: str, kind: str) -> list[str]:
        """Variants of this kind that a model or tokenizer has, from narrow to wide."""
        found = [name for model, name in self.cells if model == owner and name.split(":")[0] == kind and ":" in name]
        return sorted(found, key=lambda name: float(name.split(":")[1]))

    def steps(self, model: str) -> list[int]:
        """Steps at which checkpoints before the last were scored."""
        names = [name for owner, name in self.cells if owner == model and name.startswith(f"{FULL}@")]
        return sorted(int(name.partition("@")[2]) for name in names)


@dataclass(frozen=True)
class Subject:
    """The input of a statistic: a panel, and which of its models correspond to those that a claim names.

    Attributes:
        panel: the scores.
        models: of the suite in question, from narrow to wide, those that were scored.
        named: the claim's name of a model -> its name in the panel.
        loose: the claim's numbers of columns are those of other tables: ``crop:128`` means the narrowest crop that
            was scored, ``pad:14336`` the widest pad.
        tokenizers: of the models in question, whether those were scored or not.
        other: panels of other kinds of tasks.
    """

    panel: Panel
    models: Sequence[str]
    named: Mapping[str, str] = field(default_factory=dict)
    loose: bool = False
    tokenizers: Sequence[str] = ()
    other: Mapping[str, Panel] = field(default_factory=dict)

    def model(self, name: str) -> str:
        """The panel's name of a model.

        Raises:
            NotRun: it was not scored.
        """
        found = self.named.get(name, name)
        if found not in self.panel.models.index:
            raise NotRun(f"{name} was not scored")
        return found

    def dims(self, name: str) -> int:
        """Columns of a model's table."""
        return int(self.panel.models.loc[self.model(name), "dims"])

    def find(self, name: str, variant: str) -> tuple[str, str]:
        """The cell of a variant of a model's table.

        ``random`` stands for random tables as wide as the model's, with its tokenizer.

        Raises:
            NotRun: there is none.
        """
        model = self.model(name)
        kind, _, rest = variant.partition(":")
        kinds = KINDS.get(kind, (kind,))
        owner = str(self.panel.models.loc[model, "tokenizer"]) if kind == RANDOM else model
        if kind == RANDOM:
            choices = [f"{word}:{self.dims(name)}" for word in kinds]
        elif rest and self.loose:
            known = [self.panel.variants(model, word) for word in kinds]
            choices = [names[-1] if kind == "pad" else names[0] for names in known if names]
        else:
            choices = [f"{word}:{rest}" if rest else word for word in kinds]
        for choice in choices:
            if (owner, choice) in self.panel.cells:
                return owner, choice
        if kind == RANDOM:
            raise NotRun(f"no random table of {self.dims(name)} columns was scored with the tokenizer of {model}")
        raise NotRun(f"{model} was not scored as {variant}")

    def score(self, name: str, variant: str) -> np.ndarray:
        """Scores ``[1 + resamples]`` of what `find` finds."""
        return self.panel.cells[self.find(name, variant)]

    def words(self, name: str, variant: str) -> str:
        """The variant returned by `find`, for readers."""
        owner, choice = self.find(name, variant)
        return choice if choice.startswith(RANDOM) else f"{owner} {choice}"

    def word(self, variant: str) -> str:
        """What a variant means here; where no model has it, the claim's own word."""
        for model in self.models:
            with contextlib.suppress(NotRun):
                return self.find(model, variant)[1]
        return variant

    def all(self, variant: str) -> tuple[list[str], np.ndarray]:
        """The models that have a variant, at least three, and its scores ``[1 + resamples, models]``."""
        scores = {}
        for model in self.models:
            with contextlib.suppress(NotRun):
                scores[model] = self.score(model, variant)
        if len(scores) < LEAST_MODELS:
            raise NotRun(f"{len(scores)} models were scored as {variant}, which needs {LEAST_MODELS}")
        return list(scores), np.stack(list(scores.values()), axis=1)

    def split(self, at: Sequence[str], variant: str) -> tuple[list[str], np.ndarray, int]:
        """The models that have a variant, its scores, and the place of the last of the models `at` among them."""
        models, values = self.all(variant)
        wanted = [self.model(name) for name in at]
        for name in wanted:
            if name not in models:
                raise NotRun(f"{name} was not scored as {variant}")
        return models, values, max(models.index(name) for name in wanted)

    def sizes(self, models: Sequence[str]) -> list[int]:
        """Columns of the models' tables."""
        return [int(self.panel.models.loc[model, "dims"]) for model in models]


Statistic = Callable[..., list[Part]]
STATISTICS: dict[str, Statistic] = {}


def _statistic(function: Statistic) -> Statistic:
    """Make a function known to ``claims.yaml``; its docstring's first line is its help."""
    STATISTICS[function.__name__] = function
    return function


@_statistic
def difference(subject: Subject, *, a: str, b: str, low: float = 0.0, high: float = math.inf) -> list[Part]:
    """The first table's score less the second's."""
    first, second = ([subject.model(name), variant] for name, _, variant in (text.partition(" ") for text in (a, b)))
    if first == second:
        raise NotRun(f"{a} and {b} are the same table here")
    words = f"{subject.words(*first)} less {subject.words(*second)}"
    return [Part(words, subject.score(*first) - subject.score(*second), low, high)]


@_statistic
def trend(subject: Subject, *, variant: str = FULL) -> list[Part]:
    """Rank correlation (Kendall's tau-b) of score and width over the models."""
    models, values = subject.all(variant)
    correlation = resampling.kendall(subject.sizes(models), values)
    return [Part(f"rank correlation of width and score, {subject.word(variant)}", correlation, unit="tau")]


@_statistic
def rise_and_fall(subject: Subject, *, at: list[str], variant: str = FULL) -> list[Part]:
    """Up to a model the score rises with each doubling of width; wider models score less than it in the mean."""
    models, values, place = subject.split(at, variant)
    if not 1 <= place < len(models) - 1:
        raise NotRun(f"{models[place]} has no narrower or no wider model beside it")
    sizes = subject.sizes(models)
    rise = resampling.slope(sizes[: place + 1], values[:, : place + 1])
    return [
        Part(f"rise up to {models[place]}", rise, unit="score per doubling"),
        Part(f"{models[place]} less the mean of wider models", values[:, place] - values[:, place + 1 :].mean(axis=1)),
    ]


@_statistic
def peak(subject: Subject, *, at: list[str], variant: str = FULL) -> list[Part]:
    """The best of the models at the claimed place, less each other model."""
    models, values, _ = subject.split(at, variant)
    chosen = list(dict.fromkeys(models.index(subject.model(name)) for name in at))
    best = values[:, chosen].max(axis=1)
    return [
        Part(f"{' or '.join(models[i] for i in chosen)} less {name}, {subject.word(variant)}", best - values[:, i])
        for i, name in enumerate(models)
        if i not in chosen
    ]


@_statistic
def flat_after(subject: Subject, *, at: list[str], margin: float, variant: str = FULL) -> list[Part]:
    """Each wider model less the one at which the scores are said to become constant."""
    models, values, place = subject.split(at, variant)
    wider = range(place + 1, len(models))
    if not wider:
        raise NotRun(f"no model wider than {models[place]} was scored")
    return [Part(f"{models[i]} less {models[place]}", values[:, i] - values[:, place], -margin, margin) for i in wider]


@_statistic
def fall_after(subject: Subject, *, at: list[str], variant: str = FULL) -> list[Part]:
    """A model less the mean of wider ones."""
    models, values, place = subject.split(at, variant)
    if place == len(models) - 1:
        raise NotRun(f"no model wider than {models[place]} was scored as {variant}")
    fall = values[:, place] - values[:, place + 1 :].mean(axis=1)
    return [Part(f"{models[place]} less the mean of wider models, {subject.word(variant)}", fall)]


@_statistic
def no_rise(subject: Subject, *, margin: float, variant: str = FULL) -> list[Part]:
    """Change of the score from the narrowest to the widest model along a fitted line in log2 width."""
    models, values = subject.all(variant)
    sizes = subject.sizes(models)
    change = resampling.slope(sizes, values) * math.log2(sizes[-1] / sizes[0])
    return [Part(f"fitted change from {models[0]} to {models[-1]}, {subject.word(variant)}", change, -math.inf, margin)]


@_statistic
def helps_up_to(subject: Subject, *, at: list[str], variant: str, base: str = FULL) -> list[Part]:
    """A change of the table raises the score up to a model and lowers it beyond, each in the mean over models."""
    models, changed, place = subject.split(at, variant)
    gain = changed - np.stack([subject.score(model, base) for model in models], axis=1)
    if place == len(models) - 1:
        raise NotRun(f"no model wider than {models[place]} was scored as {variant}")
    words = subject.word(variant)
    return [
        Part(f"{words} less {base} up to {models[place]}", gain[:, : place + 1].mean(axis=1)),
        Part(f"{base} less {words} beyond {models[place]}", -gain[:, place + 1 :].mean(axis=1)),
    ]


@_statistic
def unchanged(subject: Subject, *, variant: str, margin: float, base: str = FULL) -> list[Part]:
    """A change of the table leaves every model's score where it is."""
    models, changed = subject.all(variant)
    gains = changed - np.stack([subject.score(model, base) for model in models], axis=1)
    return [
        Part(f"{name}: {subject.word(variant)} less {base}", gains[:, i], -margin, margin)
        for i, name in enumerate(models)
    ]


@_statistic
def below_random(subject: Subject, *, models: list[str]) -> list[Part]:
    """Random tables of the model's width, mean over seeds, less the model's own table."""
    return [
        Part(f"random less {subject.words(name, FULL)}", subject.score(name, RANDOM) - subject.score(name, FULL))
        for name in models
    ]


@_statistic
def mostly_below_random(subject: Subject) -> list[Part]:
    """Share of the models whose table scores less than random tables of its width."""
    models, values = subject.all(FULL)
    random = np.stack([subject.score(model, RANDOM) for model in models], axis=1)
    return [Part("share of models below random tables", (values < random).mean(axis=1), 0.5, math.inf, "share")]


@_statistic
def smaller_range(subject: Subject, *, than: str, variant: str = FULL) -> list[Part]:
    """Highest less lowest score of another suite, less the same of this one."""
    _, values = subject.all(variant)
    _, others = Subject(subject.panel, subject.panel.models_of(than)).all(variant)
    return [Part(f"range of {than} less range of the suite", np.ptp(others, axis=1) - np.ptp(values, axis=1))]


@_statistic
def random_rises(subject: Subject) -> list[Part]:
    """Random tables gain with each doubling of their columns, with every tokenizer."""
    return [
        Part(f"rise with {name}", resampling.slope(dims, values), unit="score per doubling")
        for name, (dims, values) in _random_tables(subject).items()
    ]


@_statistic
def tokenizer_order(subject: Subject, *, highest: str, lowest: str) -> list[Part]:
    """Random tables at the greatest common width: one tokenizer above all others, one below."""
    tables = _random_tables(subject)
    for name in (highest, lowest):
        if name not in tables:
            raise NotRun(f"random tables with the tokenizer {name} were not scored")
    common = set.intersection(*(set(dims) for dims, _ in tables.values()))
    if not common:
        raise NotRun("the tokenizers have no width of random tables in common")
    at = max(common)
    widest = {name: values[:, dims.index(at)] for name, (dims, values) in tables.items()}
    above = [Part(f"{highest} less {k}, {at} columns", widest[highest] - v) for k, v in widest.items() if k != highest]
    return above + [
        Part(f"{k} less {lowest}, {at} columns", v - widest[lowest])
        for k, v in widest.items()
        if k not in (highest, lowest)
    ]


def _random_tables(subject: Subject) -> dict[str, tuple[list[int], np.ndarray]]:
    """Widths and scores ``[1 + resamples, widths]`` of random tables, by tokenizer."""
    panel = subject.panel
    found = {}
    for owner in subject.tokenizers:
        known = [panel.variants(owner, word) for word in published_scores.RANDOMS]
        names = next((names for names in known if len(names) > 1), None)
        if names:
            dims = [int(name.split(":")[1]) for name in names]
            found[owner] = (dims, np.stack([panel.cells[owner, name] for name in names], axis=1))
    if not found:
        raise NotRun("random tables of several widths were not scored")
    return found


@_statistic
def gain_since(
    subject: Subject, *, share: float, low: float = 0.0, high: float = math.inf, variant: str = FULL
) -> list[Part]:
    """Last checkpoint less the first that was scored at or after a share of training, mean over models."""
    gains = []
    for model in subject.models:
        last = subject.panel.models.loc[model, "step"]
        earlier = [step for step in subject.panel.steps(model) if step >= share * last] if last > 0 else []
        if earlier:
            gains.append(subject.score(model, variant) - subject.score(model, f"{FULL}@{earlier[0]}"))
    if not gains:
        raise NotRun(f"no checkpoint between {share:.0%} and the end of training was scored")
    return [Part(f"gain since {share:.0%} of training, mean of models", np.mean(gains, axis=0), low, high)]


@_statistic
def same_table(subject: Subject, *, models: list[str], variant: str) -> list[Part]:
    """1 where the tables hold the same values, 0 where they do not; no resampling."""
    found = [subject.panel.digests.get((subject.model(name), variant)) for name in models]
    if None in found:
        raise NotRun(f"{models[found.index(None)]} was not scored as {variant}")
    equal = float(len(set(found)) == 1)
    # The same in every resample; a certain answer.
    return [Part(f"{' and '.join(models)} are equal, {variant}", np.full(2, equal), 0.5, math.inf, "share")]


@_statistic
def clearer_elsewhere(subject: Subject, *, variant: str = FULL) -> list[Part]:
    """Rank correlation of width and score on tasks of other kinds, in the mean, less the same here."""
    models, values = subject.all(variant)
    sizes = subject.sizes(models)
    correlations = []
    for panel in subject.other.values():
        elsewhere = Subject(panel, [model for model in models if model in panel.models.index])
        if len(elsewhere.models) == len(models):
            correlations.append(resampling.kendall(sizes, elsewhere.all(variant)[1]))
    if not correlations:
        raise NotRun("the models were scored on no task of another kind")
    gain = np.mean(correlations, axis=0) - resampling.kendall(sizes, values)
    return [Part(f"rank correlation on {len(correlations)} other tasks less that here", gain, unit="tau")]


@_statistic
def experiment(subject: Subject, *, needs: str) -> list[Part]:
    """What no scored table can tell; the entry says what would."""
    raise NotRun(needs)


def load(path: Path, known: Mapping[str, Callable[..., list[Part]]] = STATISTICS) -> list[Claim]:
    """Read the entries of a ``claims.yaml``.

    Args:
        path: the file.
        known: the statistics that entries may name.

    Raises:
        EmbscaleError: the file is missing or an entry is not as it should be; it says which.
    """
    try:
        entries = yaml.safe_load(path.read_text("utf-8"))
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; the claims are in workflow/") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise EmbscaleError(f"{path}: not YAML ({str(error).splitlines()[0]})") from error
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise EmbscaleError(f"{path}: expected claims by their id, each a group of keys")
    return [_claim(path, str(name), entry, known) for name, entry in entries.items()]


def _claim(path: Path, name: str, entry: dict[str, Any], known: Mapping[str, Callable[..., list[Part]]]) -> Claim:
    where = f"{path}: {name}"
    needed = {"words", "suite", "statistic", "figure"}
    if missing := needed - set(entry):
        raise EmbscaleError(f"{where}: lacks {', '.join(sorted(missing))}")
    if unknown := set(entry) - needed - {"arguments", "no_ladder"}:
        raise EmbscaleError(f"{where}: unknown key {', '.join(sorted(unknown))}")
    if entry["statistic"] not in known:
        raise EmbscaleError(f"{where}: no statistic {entry['statistic']!r}; known are {', '.join(known)}")
    function = inspect.signature(known[entry["statistic"]])
    try:
        function.bind(None, **entry.get("arguments", {}))
    except TypeError as error:
        raise EmbscaleError(f"{where}: arguments of {entry['statistic']}: {error}") from error
    return Claim(name, **entry)


NOTHING = Panel(pd.DataFrame(columns=["suite", "dims", "tokenizer", "step"]), {}, {}, 0)


def panel(per_query: pd.DataFrame, *, task: str, metric: str, resamples: int, seed: int) -> Panel:
    """Gather the scores on one task by one metric.

    Args:
        per_query: columns `KEYS`, ``query`` and ``score``; one row per score and query.
        task: name of the task.
        metric: MTEB's name of the metric.
        resamples: bootstrap resamples.
        seed: of the resamples, the same as in ``scores.csv`` gives the same intervals.

    Raises:
        EmbscaleError: no such scores; they are on different queries; or two belong to one table, protocols being
            mixed.
    """
    rows = per_query[(per_query["task"] == task) & (per_query["metric"] == metric)]
    if rows.empty:
        found = sorted(
            {f"{t} ({m})" for t, m in per_query[["task", "metric"]].drop_duplicates().itertuples(index=False)}
        )
        raise EmbscaleError(f"task {task}: no scores by {metric}; there are {', '.join(found)}")
    keys = [key for key in KEYS if key in rows.columns]
    rows = with_unique_models(rows)
    rows = rows.assign(**{key: _filled(rows[key]) for key in keys if rows[key].isna().any()})
    wide = rows.set_index(["query", *keys])["score"].unstack(keys).sort_index().sort_index(axis=1)
    if wide.isna().to_numpy().any():
        raise EmbscaleError(f"task {task}: scores were made on different queries, or some are missing")
    values = wide.to_numpy()
    means = np.vstack([values.mean(axis=0), resampling.bootstrap_means(values, resamples=resamples, seed=seed)])
    return _panel(wide.columns.to_frame(index=False), means, len(wide), task)


def _filled(column: pd.Series) -> pd.Series:
    """Empty keys filled, since a grouping would drop them."""
    return column.fillna(NONE if pd.api.types.is_numeric_dtype(column) else "")


def _panel(keys: pd.DataFrame, means: np.ndarray, queries: int, task: str) -> Panel:
    """Name every column of `means`, and take the mean over seeds."""
    # What has no table as it is, such as random tables and plain token overlap, belongs to its tokenizer.
    is_trained = keys["model"].isin(keys.loc[keys["variant"] == FULL, "model"])
    trained = keys[is_trained]
    is_last = is_last_checkpoint(trained.assign(step=trained["step"].mask(trained["step"] == NONE)))
    names = pd.Series([_variant(row) for row in keys.to_dict("records")], index=keys.index)
    earlier = trained.index[~is_last]
    names[earlier] += "@" + keys.loc[earlier, "step"].astype(int).astype(str)
    owners = keys["model"].where(is_trained, keys["tokenizer"])
    full = trained[(trained["variant"] == FULL) & is_last]
    if full["model"].duplicated().any():
        model = full.loc[full["model"].duplicated(), "model"].iloc[0]
        raise EmbscaleError(
            f"task {task}: {model} has several scores as {FULL}; choose one way of scoring with --where "
            "(such as --where special_tokens=exclude --where pooling=mean)"
        )
    models = full.set_index("model")[["suite", "dim", "tokenizer", "step"]].rename(columns={"dim": "dims"})
    cells, seeds, digests = {}, {}, {}
    for (owner, name), members in keys.groupby([owners, names], sort=False).groups.items():
        if keys.loc[members, "seed"].duplicated().any():
            raise EmbscaleError(f"task {task}: {owner} has several scores as {name}; choose with --where")
        cells[owner, name] = means[:, members].mean(axis=1)
        seeds[owner, name] = means[0, members]
        digests[owner, name] = str(keys.loc[members[0], "table_sha256"]) if "table_sha256" in keys else ""
    return Panel(models, cells, seeds, queries, digests)


def _variant(row: Mapping[str, Any]) -> str:
    """``crop:128``, ``pad_ratio:0.5``, ``full``."""
    numbers = [row["variant_dims"], row.get("strength", NONE)]
    return ":".join([str(row["variant"]), *(f"{number:g}" for number in numbers if number not in (NONE, ""))])


def published_panel(rows: pd.DataFrame, *, task: str, metric: str) -> Panel:
    """The study's own numbers that are not known to be wrong, as a panel without resamples."""
    rows = rows[(rows["task"] == task) & (rows["metric"] == metric) & rows["valid"]]
    keys = rows.assign(dim=rows["dims"], step=NONE, table_sha256="").reset_index(drop=True)
    # The baselines by tokenizer stand for themselves; those by model repeat one seed of them.
    keys = keys[(keys["suite"] == RANDOM) | (keys["variant"] != RANDOM)].reset_index(drop=True)
    keys[["variant_dims", "seed"]] = keys[["variant_dims", "seed"]].fillna(NONE)
    if keys.empty:
        return NOTHING
    return _panel(keys, keys["value"].to_numpy(np.float64)[None, :], 0, task)


def ledger(
    claims: Sequence[Claim],
    printed: pd.DataFrame,
    scored: Panel,
    ladder: Panel,
    *,
    task: str,
    metric: str,
    other: Mapping[str, Panel] | None = None,
) -> pd.DataFrame:
    """A row for each claim about its own models, and where the ladder was scored another about the ladder.

    Args:
        claims: what is claimed.
        printed: the study's own scores, from `published.load`.
        scored: ours, on the study's task.
        ladder: ours, on the ladder's task.
        task: the study's task.
        metric: MTEB's name of the metric.
        other: our scores on tasks of other kinds, by task.

    Returns:
        Columns `COLUMNS`.
    """
    others = other or {}
    study = published_scores.suites(printed)
    paper = published_panel(printed, task=task, metric=metric)
    # The study's own weights may have another name now, and one with the suite's where another suite uses it too.
    names = {name: f"{suite}/{name}" for suite, models in study.items() for name in models}
    names |= published_scores.RENAMED
    names = {name: now for name, now in names.items() if now in scored.models.index}
    rows = []
    for claim in claims:
        own = study.get(claim.suite, [model for models in study.values() for model in models])
        there = [names.get(name, name) for name in own if names.get(name, name) in scored.models.index]
        missing = [name for name in own if names.get(name, name) not in scored.models.index]
        tokenizers = list(printed.loc[printed["model"].isin(own), "tokenizer"].unique())
        parts = _parts(claim, Subject(scored, there, names, tokenizers=tokenizers, other=others))
        published_models = [name for name in own if name in paper.models.index]
        said = _printed(claim, Subject(paper, published_models, tokenizers=tokenizers), parts)
        if claim.statistic in OF_TOKENIZERS:
            there = [name for name in tokenizers if any(owner == name for owner, _ in scored.cells)]
            missing = [name for name in tokenizers if name not in there]
        elif claim.statistic in OF_NAMED:
            missing = []
        rows.append(_row(claim, claim.suite, parts, scored, there, missing) | said)
    ladder_models = ladder.models_of(LADDER)
    tokenizers = list(ladder.models.loc[ladder_models, "tokenizer"].unique())
    for claim in claims if ladder_models else ():
        places = places_of(study.get(claim.suite, []), ladder_models)
        subject = Subject(ladder, ladder_models, places, loose=True, tokenizers=tokenizers, other=others)
        rows.append(_row(claim, LADDER, claim.no_ladder or _parts(claim, subject), ladder, ladder_models, []))
    return corrected(pd.DataFrame(rows, columns=COLUMNS))


def corrected(table: pd.DataFrame) -> pd.DataFrame:
    """Correct the p-values for their family, and with them the verdicts.

    Claims tested on the ladder are a different question from the study's, so they are a separate family.
    """
    for family in (table["suite"] == LADDER, table["suite"] != LADDER):
        tested = table.index[family & table["p"].notna()]
        table.loc[tested, "p_holm"] = resampling.holm(table.loc[tested, "p"].to_list())
    table.loc[table["p_holm"] >= ALPHA, "verdict"] = "unresolved"
    return table


def places_of(models: Sequence[str], ladder: Sequence[str]) -> dict[str, str]:
    """Match each model of a suite with the ladder's model at the same position in the order of widths."""
    scale = (len(ladder) - 1) / max(1, len(models) - 1)
    return {model: ladder[round(rank * scale)] for rank, model in enumerate(models)}


def _parts(claim: Claim, subject: Subject) -> list[Part] | str:
    """The parts of a claim, or why there are none."""
    try:
        return STATISTICS[claim.statistic](subject, **claim.arguments)
    except NotRun as reason:
        return f"{reason}"


def decide(parts: Sequence[Part]) -> tuple[Part, Estimate]:
    """The part that decides the claim, with the p-value of the whole claim."""
    estimates = [(part, part.estimate()) for part in parts]
    outside = [(part, found) for part, found in estimates if not part.holds]
    if not outside:
        return max(estimates, key=lambda pair: pair[1].p)
    part, found = min(outside, key=lambda pair: pair[1].p)
    return part, Estimate(found.value, found.low, found.high, min(1.0, found.p * len(parts)))


def _row(
    claim: Claim, suite: str, found: list[Part] | str, scored: Panel, models: Sequence[str], missing: Sequence[str]
) -> dict[str, Any]:
    """A row of the ledger, before the correction for the family."""
    help_ = STATISTICS[claim.statistic].__doc__ or ""
    row = entry(claim, suite, found, help_=help_, models=models, n=scored.queries)
    if isinstance(found, str):
        return row
    if claim.statistic in CERTAIN:
        row["p"] = math.nan
    left_out = [f"without {', '.join(missing)}, which were not scored"] if missing else []
    return row | {"detail": "; ".join([*filter(None, [row["detail"]]), *left_out])}


def entry(
    claim: Claim, suite: str, found: list[Part] | str, *, help_: str, models: Sequence[str], n: int
) -> dict[str, Any]:
    """A row of a ledger, columns `COLUMNS`, before the correction for the family.

    Args:
        claim: what is claimed.
        suite: of whose models it is asked.
        found: its parts, or why there are none.
        help_: of the statistic; the first line stands where there are no parts.
        models: that it was asked of.
        n: what the intervals are over.
    """
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {"claim": claim.id, "suite": suite, "words": claim.words, "figure": claim.figure, "verdict": "not run"}
    row |= {"statistic": help_.partition("\n")[0].rstrip("."), "models": " ".join(models)}
    row |= {"p": math.nan, "p_holm": math.nan}
    if isinstance(found, str):
        return row | {"detail": f"{found.rstrip('.')}."}
    part, result = decide(found)
    row |= {"unit": part.unit, "expected": part.expected, "statistic": part.words, "n": n, "p": result.p}
    row |= {"effect": result.value, "ci_low": result.low, "ci_high": result.high}
    row["verdict"] = "reproduced" if all(part.holds for part in found) else "not reproduced"
    return row | {"detail": f"the weakest of {len(found)} parts" if len(found) > 1 else ""}


def _printed(claim: Claim, subject: Subject, ours: list[Part] | str) -> dict[str, Any]:
    """What the study's own numbers give for the part that decides with ours, else for their weakest."""
    parts = _parts(claim, subject)
    if isinstance(parts, str):
        return {}
    words = "" if isinstance(ours, str) else decide(ours)[0].words
    shown = next((part for part in parts if part.words == words), min(parts, key=lambda part: part.excess))
    said = {"published_effect": shown.value, "published_holds": all(part.holds for part in parts)}
    about = {"unit": shown.unit, "expected": shown.expected, "statistic": shown.words}
    return said | about if isinstance(ours, str) else said


# Columns of `describe`.
DESCRIPTION = ["suite", "quantity", "item", "value", "ci_low", "ci_high", "p", "n", "interval_over"]
PEAK = "share of resamples in which it is the highest"


def facts(registry: Path, pins: Path) -> pd.DataFrame:
    """What the registry knows of each model's last checkpoint, as `statistics.confounds` takes it."""
    from embscale.checkpoints import suites

    names = ["depth", "parameters", "tokens_seen", "learning_rate", "precision", "init", "tied"]
    rows = [
        {"suite": point.suite, "model": point.model, "dims": point.dims}
        | {name: getattr(point, name) for name in names}
        for points in suites.load(registry, pins).values()
        for point in {point.model: point for point in points}.values()
    ]
    return pd.DataFrame(rows, columns=["suite", "model", "dims", *names])


def describe(scored: Panel, known: pd.DataFrame) -> pd.DataFrame:
    """Trends over width, where the highest score is, bands of random tables, and regressions.

    Args:
        scored: our scores.
        known: from `facts`.

    Returns:
        Columns `DESCRIPTION`: `item` is the model, the tokenizer with its columns, or the term.  ``value`` is a
        rank correlation, a score per doubling of width, a share from 0 to 1, or a score.
    """
    rows = [*_trends(scored), *_bands(scored), *_regressions(scored, known)]
    return pd.DataFrame(rows, columns=DESCRIPTION)


def _described(
    suite: str, quantity: str, item: str, estimate: Estimate, n: int, over: str = "queries"
) -> dict[str, Any]:
    values = (suite, quantity, item, estimate.value, estimate.low, estimate.high, estimate.p, n, over)
    return dict(zip(DESCRIPTION, values, strict=True))


def _trends(scored: Panel) -> Iterator[dict[str, Any]]:
    for suite in dict.fromkeys(scored.models["suite"]):
        subject = Subject(scored, scored.models_of(suite))
        if len(subject.models) < LEAST_MODELS:
            continue
        models, values = subject.all(FULL)
        sizes = subject.sizes(models)
        for function, quantity in (
            (resampling.kendall, "Kendall's tau-b of width and score"),
            (resampling.spearman, "Spearman's rank correlation of width and score"),
            (resampling.slope, "score per doubling of width"),
        ):
            found = function(sizes, values)
            yield _described(suite, quantity, "", resampling.estimate(found[0], found[1:]), scored.queries)
        over_models = resampling.permutation_test(sizes, values[0])
        yield _described(
            suite, "Kendall's tau-b, had the widths been dealt at random", "", over_models, len(models), "models"
        )
        for model, share in zip(models, resampling.argmax_distribution(values[1:]), strict=True):
            nothing = Estimate(float(share), math.nan, math.nan, math.nan)
            yield _described(suite, PEAK, model, nothing, scored.queries, "")


def _bands(scored: Panel) -> Iterator[dict[str, Any]]:
    for (owner, name), values in scored.seeds.items():
        kind, _, columns = name.partition(":")
        if kind in published_scores.RANDOMS:
            band, item = resampling.seed_band(values), f"{owner}, {columns} columns, {kind}"
            for quantity, value in (
                ("lowest", band.lowest),
                ("highest", band.highest),
                ("standard deviation", band.sd),
            ):
                alone = Estimate(value, math.nan, math.nan, math.nan)
                yield _described(RANDOM, f"{quantity} of random tables", item, alone, band.seeds, "")
            mean = Estimate(band.mean, band.low, band.high, math.nan)
            yield _described(RANDOM, "mean of random tables", item, mean, band.seeds, "seeds")


def _regressions(scored: Panel, known: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Score on log2 width with a constant for each suite, alone and beside facts of the models."""
    models = [model for model in scored.models.index if (model, FULL) in scored.cells]
    if len(models) < LEAST_MODELS:
        return
    frame = scored.models.loc[models].assign(width=lambda rows: np.log2(rows["dims"].astype(float)))
    means = np.stack([scored.cells[model, FULL] for model in models], axis=1)
    yield from _regression("alone", frame, ["width"], means, scored.queries)
    beside = known.drop_duplicates("model").set_index("model").reindex(frame.index)
    narrowest = known.sort_values("dims", kind="stable").groupby("suite")["init"].first()
    frame["tied"] = beside["tied"].astype(float)
    frame["tokens"] = np.log2(beside["tokens_seen"].astype(float))
    frame["init"] = (beside["init"] != frame["suite"].map(narrowest)).astype(float).where(beside["init"].notna())
    whole = frame.notna().all(axis=1).to_numpy()
    terms = ["width", "tied", "tokens", "init"]
    if whole.sum() > len(terms) + frame.loc[whole, "suite"].nunique():
        yield from _regression("beside facts", frame[whole], terms, means[:, whole], scored.queries)


TERMS = {
    "width": "doubling of width",
    "tied": "tied tables",
    "tokens": "doubling of tokens seen",
    "init": "other initial weights than the suite's narrowest model",
}


def _regression(
    kind: str, frame: pd.DataFrame, terms: Sequence[str], means: np.ndarray, queries: int
) -> Iterator[dict[str, Any]]:
    fitted = resampling.regression({term: frame[term].to_numpy() for term in terms}, list(frame["suite"]), means)
    quantity = f"regression with suite constants, {kind}, {fitted.models} models"
    for term in terms:
        unknown = Estimate(math.nan, math.nan, math.nan, math.nan)
        yield _described("all", quantity, TERMS[term], fitted.coefficients.get(term, unknown), queries)


def claims_table(rows: pd.DataFrame) -> str:
    """Markdown rows of the claims that were put to scores; all that the ledger knows of them is in its CSV."""
    run = rows[rows["verdict"] != "not run"]
    if run.empty:
        return "None of the claims could be put to the scores of this study.\n"
    lines = [["claim", "the study says", "asked here", "found", "p (Holm)", "verdict"]]
    for row in run.itertuples(index=False):
        scale = UNITS.get(row.unit, 1)
        what = row.statistic + (f" ({row.detail})" if isinstance(row.detail, str) and row.detail else "")
        said = f"; said to be {row.expected}" if isinstance(row.expected, str) and row.expected else ""
        interval = f"{row.effect * scale:.2f} [{row.ci_low * scale:.2f}, {row.ci_high * scale:.2f}]"
        p = "" if pd.isna(row.p_holm) else f"{row.p_holm:.2g}"
        asked = escape(f"{row.suite}: {what}{said}")
        lines.append([row.claim, escape(row.words), asked, interval, p, f"**{row.verdict}**"])
    return markdown_table(lines)


def not_run_table(rows: pd.DataFrame) -> str:
    """Markdown rows of the claims that were not run, with the reason."""
    missing = rows[rows["verdict"] == "not run"]
    if missing.empty:
        return "Every claim was run.\n"
    lines = [["claim", "the study says", "to be asked of", "not run because"]]
    for row in missing.itertuples(index=False):
        lines.append([row.claim, *map(escape, (row.words, row.suite, row.detail))])
    return markdown_table(lines)


def description_table(rows: pd.DataFrame) -> str:
    """Markdown rows of `describe`, scores times 100."""
    if rows.empty:
        return "Not run.\n"
    lines = [["suite", "quantity", "item", "value", "n"]]
    for row in rows.itertuples(index=False):
        scale = 1 if row.quantity.startswith(("Kendall", "Spearman", "share")) else UNITS["score"]
        if pd.isna(row.value):
            value = "determined by the other terms"
        elif pd.isna(row.ci_low):
            value = f"{row.value * scale:.2f}"
        else:
            value = f"{row.value * scale:.2f} [{row.ci_low * scale:.2f}, {row.ci_high * scale:.2f}]"
        lines.append([*map(escape, (row.suite, row.quantity, row.item)), value, f"{row.n:,}"])
    return markdown_table(lines)


def confounds_table(rows: pd.DataFrame) -> str:
    """Markdown rows of `statistics.confounds`: what varies within a suite, and how it goes along with width."""
    varying = rows[rows["varies"].astype(bool)]
    if varying.empty:
        return "Nothing that is known of these suites varies with width.\n"
    lines = [["suite", "fact", "correlation with log width", "models", "values, from narrow to wide"]]
    for row in varying.itertuples(index=False):
        correlation = "" if pd.isna(row.correlation) else f"{row.correlation:.2f}"
        known = escape(row.known)
        lines.append([escape(row.suite), escape(row.fact.replace("_", " ")), correlation, str(row.models), known])
    return markdown_table(lines)
