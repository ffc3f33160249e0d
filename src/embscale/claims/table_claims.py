"""Tests of the claims of Corey 2024 on per-query scores.

``workflow/claims.yaml`` states each claim, the models that it concerns, and the statistic that tests it; this module
has one function per statistic.  A function computes parts (`embscale.claims.verdicts`, which gives the verdicts) from
the scores as they are, from every resample of training runs and clusters of queries (`embscale.statistics.two_way`),
and from the published numbers, which have no resamples.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from embscale.claims import published_scores, verdicts
from embscale.claims.verdicts import LEAST_MODELS, UNITS, Claim, NotRun, NotTestable, Outcome, Part, Trend
from embscale.errors import EmbscaleError
from embscale.rows.markdown import escape, markdown_table
from embscale.rows.selection import LADDER, is_last_checkpoint, with_unique_models
from embscale.scoring.scores import NONE, by_task
from embscale.statistics import resampling
from embscale.statistics.resampling import Estimate
from embscale.statistics.two_way import Resamples

RANDOM = "random"
FULL = "full"
CHANCE = "chance"
# If a claim mentions pad or random, the first of these that was scored is used; Corey's own draw comes first.
KINDS = {"pad": published_scores.PADS, RANDOM: published_scores.RANDOMS}

OF_NAMED = ("difference", "below_random", "same_table", "experiment")  # statistics of the models that a claim names
OF_TOKENIZERS = ("random_rises", "tokenizer_order")  # of random tables alone; the others are of a whole suite


@dataclass(frozen=True)
class Panel:
    """Mean scores on one task by one metric, as measured and from every resample.

    Attributes:
        models: ``suite``, ``dims`` and ``tokenizer`` by model.
        cells: ``(model, variant)`` -> ``[1 + resamples]``, the mean over training runs or over draws of a random
            table; NaN after the first where there are no independent queries.  A random table's model is its
            tokenizer.  Variants are written ``full`` (of the last checkpoint), ``full@STEP``, ``crop:128``,
            ``pad:14336``, ``random:2048``.
        runs: for each cell the score of every training run or draw, as measured.
        queries: how many.
        clusters: of queries, the units that are resampled.
        chance: score of a random ranking ``[1 + resamples]``; empty if it is not known.
        digests: of the tables, by the same keys as `cells`, where there is one.
    """

    models: pd.DataFrame
    cells: Mapping[tuple[str, str], np.ndarray]
    runs: Mapping[tuple[str, str], np.ndarray]
    queries: int
    clusters: int
    chance: np.ndarray
    digests: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def models_of(self, suite: str) -> list[str]:
        """Models of a suite from narrow to wide."""
        chosen = self.models[self.models["suite"] == suite]
        return list(chosen.sort_values("dims", kind="stable").index)

    def variants(self, owner: str, kind: str) -> list[str]:
        """Variants of this kind that a tokenizer or a model's last table has, from narrow to wide."""
        last = [name for model, name in self.cells if model == owner and "@" not in name]
        found = [name for name in last if name.split(":")[0] == kind and ":" in name]
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
        used: the cells that were looked up, filled by look-ups.
    """

    panel: Panel
    models: Sequence[str]
    named: Mapping[str, str] = field(default_factory=dict)
    loose: bool = False
    tokenizers: Sequence[str] = ()
    other: Mapping[str, Panel] = field(default_factory=dict)
    used: set[tuple[str, str]] = field(default_factory=set)

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
        found = self.find(name, variant)
        self.used.add(found)
        return self.panel.cells[found]

    def above_chance(self, *scores: np.ndarray) -> tuple[np.ndarray, ...]:
        """Scores less that of a random ranking.

        Raises:
            NotTestable: that is not known.
        """
        if not len(self.panel.chance):
            raise NotTestable("the score of a random ranking is not known; the references were not scored")
        return tuple(score - self.panel.chance for score in scores)

    def margin(self, stated: Mapping[str, float]) -> tuple[float, str]:
        """A margin that an entry states, as a score and in words."""
        return verdicts.margin(stated, share_of_range=self._range, run_deviations=self._run_deviation)

    def _range(self) -> float:
        """Highest score of the models' tables, less chance."""
        scores = [self.panel.cells[model, FULL] for model in self.models if (model, FULL) in self.panel.cells]
        if not scores:
            raise NotRun("none of the models was scored")
        return max(float(score[0]) for score in self.above_chance(*scores))

    def _run_deviation(self) -> float:
        """Standard deviation between the training runs of one width, pooled over widths."""
        runs = [self.panel.runs.get((model, FULL), np.empty(0)) for model in self.models]
        variances = [values.var(ddof=1) for values in runs if len(values) > 1]
        if not variances:
            raise NotTestable("each model was trained once, so the deviation between runs is not known")
        return math.sqrt(float(np.mean(variances)))

    def trend(self, models: Sequence[str], variant: str, *, ranks: bool) -> Trend:
        """The single runs of these models, whose order by width is in question."""
        return _trend(
            {cell: self.dims(cell[0]) for cell in (self.find(model, variant) for model in models)},
            self.panel,
            ranks=ranks,
        )

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


def _trend(sizes: Mapping[tuple[str, str], int], panel: Panel, *, ranks: bool) -> Trend:
    """Every run of these cells beside the cell's size."""
    runs = [panel.runs[cell] for cell in sizes]
    repeated = [float(size) for size, values in zip(sizes.values(), runs, strict=True) for _ in values]
    return Trend(tuple(repeated), np.concatenate(runs)[None, :], ranks)


Statistic = Callable[..., list[Part]]
STATISTICS: dict[str, Statistic] = {}


def _statistic(function: Statistic) -> Statistic:
    """Make a function known to ``claims.yaml``; its docstring's first line is its help."""
    STATISTICS[function.__name__] = function
    return function


@_statistic
def difference(
    subject: Subject, *, a: str, b: str, low: float = 0.0, margin: Mapping[str, float] | None = None
) -> list[Part]:
    """The first table's score less the second's."""
    first, second = ([subject.model(name), variant] for name, _, variant in (text.partition(" ") for text in (a, b)))
    if first == second:
        raise NotTestable(f"{a} and {b} are the same table here")
    words = f"{subject.words(*first)} less {subject.words(*second)}"
    scores = subject.score(*first), subject.score(*second)
    high, stated = (math.inf, "") if margin is None else subject.margin(margin)
    return [Part(words, scores[0] - scores[1], low, high, above_chance=subject.above_chance(*scores), margin=stated)]


@_statistic
def trend(subject: Subject, *, variant: str = FULL) -> list[Part]:
    """Rank correlation (Kendall's tau-b) of score and width over the models."""
    models, values = subject.all(variant)
    words = f"rank correlation of width and score, {subject.word(variant)}"
    return [
        Part(
            words,
            resampling.kendall(subject.sizes(models), values),
            unit="tau",
            above_chance=subject.above_chance(*values.T),
            needed=LEAST_MODELS,
            trend=subject.trend(models, variant, ranks=True),
        )
    ]


@_statistic
def rise_and_fall(subject: Subject, *, at: list[str], variant: str = FULL) -> list[Part]:
    """Up to a model the score rises with each doubling of width; wider models score less than it in the mean."""
    models, values, place = subject.split(at, variant)
    if not 1 <= place < len(models) - 1:
        raise NotTestable(f"{models[place]} has no narrower or no wider model beside it")
    risen, wider = models[: place + 1], values[:, place + 1 :].mean(axis=1)
    return [
        Part(
            f"rise up to {models[place]}",
            resampling.slope(subject.sizes(risen), values[:, : place + 1]),
            unit="score per doubling",
            above_chance=subject.above_chance(*values[:, : place + 1].T),
            needed=min(LEAST_MODELS, len(risen)),
            trend=subject.trend(risen, variant, ranks=False),
        ),
        Part(
            f"{models[place]} less the mean of wider models",
            values[:, place] - wider,
            above_chance=subject.above_chance(values[:, place], wider),
        ),
    ]


@_statistic
def peak(subject: Subject, *, at: list[str], variant: str = FULL) -> list[Part]:
    """The best of the models at the claimed place, less each other model."""
    models, values, _ = subject.split(at, variant)
    chosen = list(dict.fromkeys(models.index(subject.model(name)) for name in at))
    best = values[:, chosen].max(axis=1)
    return [
        Part(
            f"{' or '.join(models[i] for i in chosen)} less {name}, {subject.word(variant)}",
            best - values[:, i],
            above_chance=subject.above_chance(best, values[:, i]),
        )
        for i, name in enumerate(models)
        if i not in chosen
    ]


@_statistic
def flat_after(subject: Subject, *, at: list[str], margin: Mapping[str, float], variant: str = FULL) -> list[Part]:
    """Each wider model less the one at which the scores are said to become constant."""
    models, values, place = subject.split(at, variant)
    wider = range(place + 1, len(models))
    if not wider:
        raise NotTestable(f"no model wider than {models[place]} was scored")
    size, stated = subject.margin(margin)
    return [
        Part(
            f"{models[i]} less {models[place]}",
            values[:, i] - values[:, place],
            -size,
            size,
            above_chance=subject.above_chance(values[:, i], values[:, place]),
            margin=stated,
        )
        for i in wider
    ]


@_statistic
def fall_after(subject: Subject, *, at: list[str], variant: str = FULL) -> list[Part]:
    """A model less the mean of wider ones."""
    models, values, place = subject.split(at, variant)
    if place == len(models) - 1:
        raise NotTestable(f"no model wider than {models[place]} was scored as {variant}")
    wider = values[:, place + 1 :].mean(axis=1)
    words = f"{models[place]} less the mean of wider models, {subject.word(variant)}"
    return [Part(words, values[:, place] - wider, above_chance=subject.above_chance(values[:, place], wider))]


@_statistic
def no_rise(subject: Subject, *, margin: Mapping[str, float], variant: str = FULL) -> list[Part]:
    """Change of the score from the narrowest to the widest model along a fitted line in log2 width."""
    models, values = subject.all(variant)
    sizes = subject.sizes(models)
    doublings = math.log2(sizes[-1] / sizes[0])
    size, stated = subject.margin(margin)
    return [
        Part(
            f"fitted change from {models[0]} to {models[-1]}, {subject.word(variant)}",
            resampling.slope(sizes, values) * doublings,
            -math.inf,
            size,
            above_chance=subject.above_chance(*values.T),
            needed=LEAST_MODELS,
            trend=subject.trend(models, variant, ranks=False),
            per_doubling=doublings,
            margin=stated,
        )
    ]


@_statistic
def helps_up_to(subject: Subject, *, at: list[str], variant: str, base: str = FULL) -> list[Part]:
    """A change of the table raises the score up to a model and lowers it beyond, each in the mean over models."""
    models, changed, place = subject.split(at, variant)
    if place == len(models) - 1:
        raise NotTestable(f"no model wider than {models[place]} was scored as {variant}")
    before = np.stack([subject.score(model, base) for model in models], axis=1)
    words = subject.word(variant)
    parts = []
    for sign, which, name in (
        (1, slice(None, place + 1), f"{words} less {base} up to {models[place]}"),
        (-1, slice(place + 1, None), f"{base} less {words} beyond {models[place]}"),
    ):
        means = changed[:, which].mean(axis=1), before[:, which].mean(axis=1)
        parts.append(Part(name, sign * (means[0] - means[1]), above_chance=subject.above_chance(*means)))
    return parts


@_statistic
def unchanged(subject: Subject, *, variant: str, margin: Mapping[str, float], base: str = FULL) -> list[Part]:
    """A change of the table leaves every model's score where it is."""
    models, changed = subject.all(variant)
    size, stated = subject.margin(margin)
    return [
        Part(
            f"{name}: {subject.word(variant)} less {base}",
            changed[:, i] - subject.score(name, base),
            -size,
            size,
            above_chance=subject.above_chance(changed[:, i], subject.score(name, base)),
            margin=stated,
        )
        for i, name in enumerate(models)
    ]


@_statistic
def below_random(subject: Subject, *, models: list[str]) -> list[Part]:
    """Random tables of the model's width, mean over draws, less the model's own table."""
    return [
        Part(
            f"random less {subject.words(name, FULL)}",
            subject.score(name, RANDOM) - subject.score(name, FULL),
            above_chance=subject.above_chance(subject.score(name, RANDOM), subject.score(name, FULL)),
        )
        for name in models
    ]


@_statistic
def mostly_below_random(subject: Subject) -> list[Part]:
    """Share of the models whose table scores less than random tables of its width."""
    models, values = subject.all(FULL)
    random = np.stack([subject.score(model, RANDOM) for model in models], axis=1)
    return [
        Part(
            "share of models below random tables",
            (values < random).mean(axis=1),
            0.5,
            unit="share",
            above_chance=subject.above_chance(*np.minimum(values, random).T),
            needed=LEAST_MODELS,
        )
    ]


@_statistic
def smaller_range(subject: Subject, *, than: str, variant: str = FULL) -> list[Part]:
    """Highest less lowest score of another suite, less the same of this one."""
    _, values = subject.all(variant)
    _, others = Subject(subject.panel, subject.panel.models_of(than), used=subject.used).all(variant)
    best = subject.above_chance(values.max(axis=1), others.max(axis=1))
    words = f"range of {than} less range of the suite"
    return [Part(words, np.ptp(others, axis=1) - np.ptp(values, axis=1), above_chance=best)]


@_statistic
def random_rises(subject: Subject) -> list[Part]:
    """Random tables gain with each doubling of their columns, with every tokenizer."""
    return [
        Part(
            f"rise with {owner}",
            resampling.slope(list(tables.values()), values),
            unit="score per doubling",
            above_chance=subject.above_chance(*values.T),
            needed=min(LEAST_MODELS, len(tables)),
            trend=_trend(tables, subject.panel, ranks=False),
        )
        for owner, (tables, values) in _random_tables(subject).items()
    ]


@_statistic
def tokenizer_order(subject: Subject, *, highest: str, lowest: str) -> list[Part]:
    """Random tables at the greatest common width: one tokenizer above all others, one below."""
    found = _random_tables(subject)
    for name in (highest, lowest):
        if name not in found:
            raise NotRun(f"random tables with the tokenizer {name} were not scored")
    common = set.intersection(*(set(tables.values()) for tables, _ in found.values()))
    if not common:
        raise NotTestable("the tokenizers have no width of random tables in common")
    at = max(common)
    widest = {name: values[:, list(tables.values()).index(at)] for name, (tables, values) in found.items()}
    pairs = [(highest, name) for name in widest if name != highest]
    pairs += [(name, lowest) for name in widest if name not in (highest, lowest)]
    return [
        Part(
            f"{a} less {b}, {at} columns",
            widest[a] - widest[b],
            above_chance=subject.above_chance(widest[a], widest[b]),
        )
        for a, b in pairs
    ]


def _random_tables(subject: Subject) -> dict[str, tuple[dict[tuple[str, str], int], np.ndarray]]:
    """By tokenizer the cells of random tables with their columns, and their scores ``[1 + resamples, widths]``."""
    panel = subject.panel
    found = {}
    for owner in subject.tokenizers:
        known = [panel.variants(owner, word) for word in published_scores.RANDOMS]
        names = next((names for names in known if len(names) > 1), None)
        if names:
            tables = {(owner, name): int(name.split(":")[1]) for name in names}
            subject.used.update(tables)
            found[owner] = (tables, np.stack([panel.cells[cell] for cell in tables], axis=1))
    if not found:
        raise NotRun("random tables of several widths were not scored")
    return found


@_statistic
def gain_since(
    subject: Subject, *, share: float, margin: Mapping[str, float] | None = None, variant: str = FULL
) -> list[Part]:
    """Last checkpoint less the last one of the time between half a share of training and that share, mean of models."""
    pairs = []
    for model in subject.models:
        last = subject.panel.models.loc[model, "step"]
        earlier = [step for step in subject.panel.steps(model) if share / 2 <= step / last <= share] if last > 0 else []
        if earlier:
            pairs.append((subject.score(model, variant), subject.score(model, f"{FULL}@{earlier[-1]}")))
    if not pairs:
        raise NotTestable(f"no checkpoint between {share / 2:.3g} and {share:.3g} of training was scored")
    last, earlier = np.mean(pairs, axis=0)
    size, stated = (math.inf, "") if margin is None else subject.margin(margin)
    low = 0.0 if margin is None else -size
    words = f"gain since {share:.0%} of training or shortly before, mean of {len(pairs)} models"
    return [Part(words, last - earlier, low, size, above_chance=subject.above_chance(last, earlier), margin=stated)]


@_statistic
def same_table(subject: Subject, *, models: list[str], variant: str) -> list[Part]:
    """1 where the tables hold the same values, 0 where they do not; no resampling."""
    found = [subject.panel.digests.get((subject.model(name), variant)) for name in models]
    if None in found:
        raise NotRun(f"{models[found.index(None)]} was not scored as {variant}")
    equal = float(len(set(found)) == 1)
    return [Part(f"{' and '.join(models)} are equal, {variant}", np.array([equal]), 0.5, unit="share")]


@_statistic
def clearer_elsewhere(subject: Subject, *, variant: str = FULL) -> list[Part]:
    """Rank correlation of width and score on tasks of other kinds, in the mean, less the same here."""
    models, values = subject.all(variant)
    sizes = subject.sizes(models)
    here = subject.trend(models, variant, ranks=True)
    correlations, trends, above = [], [], list(subject.above_chance(*values.T))
    for panel in subject.other.values():
        elsewhere = Subject(panel, [model for model in models if model in panel.models.index])
        if len(elsewhere.models) == len(models):
            correlations.append(resampling.kendall(sizes, elsewhere.all(variant)[1]))
            trends.append(elsewhere.trend(models, variant, ranks=True))
    if not correlations:
        raise NotRun("the models were scored on no task of another kind")
    if any(found.sizes != here.sizes for found in trends):
        raise NotTestable("the tasks were scored with different training runs")
    weights = (*[1 / len(trends)] * len(trends), -1.0)
    return [
        Part(
            f"rank correlation on {len(correlations)} other tasks less that here",
            np.mean(correlations, axis=0) - resampling.kendall(sizes, values),
            unit="tau",
            above_chance=tuple(above),
            needed=LEAST_MODELS,
            trend=Trend(here.sizes, np.concatenate([found.scores for found in (*trends, here)]), True, weights),
        )
    ]


@_statistic
def experiment(subject: Subject, *, needs: str) -> list[Part]:
    """What no scored table can tell; the entry says what would."""
    raise NotTestable(needs)


NOTHING = Panel(pd.DataFrame(columns=["suite", "dims", "tokenizer", "step"]), {}, {}, 0, 0, np.empty(0))


def panel(frames: Sequence[pd.DataFrame], *, task: str, metric: str, length: str, resamples: int, seed: int) -> Panel:
    """Gather the scores on one task by one metric.

    Args:
        frames: as `embscale.scoring.scores.by_task` takes them.
        task: name of the task.
        metric: MTEB's name of the metric.
        length: first tokens of each document that count, or ``all``.
        resamples: bootstrap resamples.
        seed: of the resamples, the same as in ``scores.csv`` gives the same intervals.

    Returns:
        `NOTHING` if there are no such scores.

    Raises:
        EmbscaleError: scores are on different queries; or two belong to one table, protocols being mixed.
    """
    wanted = {"task": task, "metric": metric, "length": length}
    chosen = [
        frame[np.logical_and.reduce([frame[name].astype(str) == value for name, value in wanted.items()])]
        for frame in frames
    ]
    found = by_task([frame for frame in chosen if len(frame)])
    if not found:
        return NOTHING
    scored = found[0]
    resampled = Resamples(scored.clusters, resamples=resamples, seed=seed)
    return _panel(with_unique_models(scored.keys), scored.scores.T, task, resampled)


def _panel(keys: pd.DataFrame, scores: np.ndarray, task: str, resampled: Resamples | None) -> Panel:
    """Name every score, and take the means over training runs and over draws.

    Args:
        keys: a row for each score.
        scores: ``[scores, queries]``.
        task: named in errors.
        resampled: of the queries; without it there are no resamples.
    """
    # What has no table as it is, such as random tables and plain token overlap, belongs to its tokenizer.
    is_trained = keys["model"].isin(keys.loc[keys["variant"] == FULL, "model"])
    trained = keys[is_trained]
    is_last = is_last_checkpoint(trained.assign(step=trained["step"].mask(trained["step"] == NONE)))
    names = pd.Series([_variant(row) for row in keys.to_dict("records")], index=keys.index)
    earlier = trained.index[~is_last]
    names[earlier] += "@" + keys.loc[earlier, "step"].astype(int).astype(str)
    owners = keys["model"].where(is_trained, keys["tokenizer"])
    keys = keys.assign(run=keys.get("run", NONE))
    full = trained[(trained["variant"] == FULL) & is_last]
    models = full.drop_duplicates("model").set_index("model")[["suite", "dim", "tokenizer", "step"]]
    cells, runs, digests = {}, {}, {}
    for (owner, name), members in keys.groupby([owners, names], sort=False).groups.items():
        if keys.loc[members, ["run", "seed"]].duplicated().any():
            raise EmbscaleError(
                f"task {task}: {owner} has several scores as {name}; choose one way of scoring with --where "
                "(such as --where special_tokens=exclude --where pooling=mean)"
            )
        of_run = keys.loc[members, "run"]
        several = len(of_run.unique()) > 1
        # The columns that a run was padded with are no run, so that their draws are averaged within it.
        units = (of_run if several else keys.loc[members, "seed"]).fillna(NONE).sort_values(kind="stable")
        values = np.stack([scores[group].mean(axis=0) for _, group in units.groupby(units).groups.items()])
        runs[owner, name] = values.mean(axis=1)
        measured = np.array([values.mean()])
        # One run alone has no deviation; the runs of one model vary together in everything that is done to its table.
        cells[owner, name] = (
            measured
            if resampled is None
            else np.concatenate([measured, _draws(resampled, values, owner if several else f"{owner} {name}")])
        )
        made = sorted(set(keys.loc[members, "table_sha256"].astype(str))) if "table_sha256" in keys else []
        digests[owner, name] = " ".join(made)
    chance = next((draws for (_, name), draws in cells.items() if name == CHANCE), np.empty(0))
    clusters = 0 if resampled is None else resampled.clusters
    queries = 0 if resampled is None else resampled.queries
    return Panel(models.rename(columns={"dim": "dims"}), cells, runs, queries, clusters, chance, digests)


def _draws(resampled: Resamples, values: np.ndarray, runs: str) -> np.ndarray:
    """The mean in every resample of runs and clusters of queries; NaN if all queries are one cluster."""
    if resampled.clusters < 2:
        return np.full(resampled.resamples, np.nan)
    return resampled.draws(values, runs)


def _variant(row: Mapping[str, Any]) -> str:
    """``crop:128``, ``pad_ratio:0.5``, ``full``; of a random table that was changed, its own columns come first."""
    numbers = [row["variant_dims"], row.get("strength", NONE)]
    if str(row["variant"]).startswith(f"{RANDOM}+"):
        numbers.insert(0, row["width"])
    return ":".join([str(row["variant"]), *(f"{number:g}" for number in numbers if number not in (NONE, ""))])


def published_panel(rows: pd.DataFrame, *, task: str, metric: str) -> Panel:
    """The study's own numbers that are not known to be wrong, as a panel without resamples.

    It tells no score of a random ranking; on its tasks that is below 0.001, and is taken to be 0.
    """
    rows = rows[(rows["task"] == task) & (rows["metric"] == metric) & rows["valid"]]
    keys = rows.assign(dim=rows["dims"], step=NONE, table_sha256="").reset_index(drop=True)
    # The baselines by tokenizer stand for themselves; those by model repeat one seed of them.
    keys = keys[(keys["suite"] == RANDOM) | (keys["variant"] != RANDOM)].reset_index(drop=True)
    keys[["variant_dims", "seed"]] = keys[["variant_dims", "seed"]].fillna(NONE)
    if keys.empty:
        return NOTHING
    found = _panel(keys, keys["value"].to_numpy(np.float64)[:, None], task, None)
    return replace(found, chance=np.zeros(1))


def ledger(
    claims: Sequence[Claim],
    printed: pd.DataFrame,
    scored: Panel,
    ladder: Panel,
    *,
    task: str,
    metric: str,
    other: Mapping[str, Panel] | None = None,
    rows: str = "",
    command: str = "",
) -> pd.DataFrame:
    """A row for each claim: the verdict on its own models, and what the ladder shows in their place.

    Args:
        claims: what is claimed.
        printed: the study's own scores, from `published_scores.load`.
        scored: ours, on the task on which published models were scored.
        ladder: ours, on the ladder's task.
        task: on which published models were scored.
        metric: MTEB's name of the metric.
        other: our scores on tasks of other kinds, by task.
        rows: where the scores of every query are, for the ledger.
        command: that recomputes the ledger.

    Returns:
        Columns `embscale.claims.verdicts.COLUMNS`.
    """
    others = other or {}
    study = published_scores.suites(printed)
    # The study's own weights may have another name now, and one with the suite's where another suite uses it too.
    names = {name: f"{suite}/{name}" for suite, models in study.items() for name in models}
    names |= published_scores.RENAMED
    names = {name: now for name, now in names.items() if now in scored.models.index}
    ladder_models = ladder.models_of(LADDER)
    ladder_tokenizers = list(ladder.models.loc[ladder_models, "tokenizer"].unique())
    papers = {name: published_panel(printed, task=name, metric=metric) for name in {claim.task for claim in claims}}
    found, parts = [], {}
    for claim in claims:
        own = study.get(claim.suite, [model for models in study.values() for model in models])
        tokenizers = list(printed.loc[printed["model"].isin(own), "tokenizer"].unique())
        paper = papers[claim.task]
        there = Subject(paper, [name for name in own if name in paper.models.index], tokenizers=tokenizers)
        if claim.task == task:
            models = [names.get(name, name) for name in own if names.get(name, name) in scored.models.index]
            published = _tested(claim, Subject(scored, models, names, tokenizers=tokenizers, other=others), own)
        else:
            published = Outcome(f"none of its models was scored on {claim.task}", ran=False)
        places = places_of(study.get(claim.suite, []), ladder_models)
        beside = _tested(
            claim, Subject(ladder, ladder_models, places, loose=True, tokenizers=ladder_tokenizers, other=others), []
        )
        if claim.no_ladder:
            beside = Outcome(claim.no_ladder)
        elif not ladder_models:
            beside = Outcome("the ladder was not scored", ran=False)
        parts[claim.id] = beside.found
        help_ = STATISTICS[claim.statistic].__doc__ or ""
        said = _tested(claim, there, []).found
        found.append(verdicts.ledger_row(claim, published, beside, said, help_=help_, rows=rows, command=command))
    return verdicts.ledger(found, verdicts.same_tests(parts))


def _tested(claim: Claim, subject: Subject, own: Sequence[str]) -> Outcome:
    """Put a claim to the scores of a subject; `own` are the claim's models or tokenizers, of which some may lack."""
    panel = subject.panel

    def about() -> dict[str, Any]:
        of_tokenizers = claim.statistic in OF_TOKENIZERS
        models = [owner for owner in subject.tokenizers if any(owner == name for name, _ in subject.used)]
        models = models if of_tokenizers else list(subject.models)
        wanted = subject.tokenizers if of_tokenizers else [subject.named.get(name, name) for name in own]
        missing = [] if claim.statistic in OF_NAMED or not own else [name for name in wanted if name not in models]
        runs = min((len(panel.runs[cell]) for cell in subject.used), default=0)
        clustered = panel.clusters != panel.queries
        return {
            "models": models,
            "n": panel.queries,
            "over": f"queries in {panel.clusters:,} clusters" if clustered else "queries",
            "runs": runs,
            "remark": f"without {', '.join(missing)}, which were not scored" if missing else "",
        } | ({} if models else {"ran": False})

    return verdicts.tested(lambda: STATISTICS[claim.statistic](subject, **claim.arguments), about)


def places_of(models: Sequence[str], ladder: Sequence[str]) -> dict[str, str]:
    """Match each model of a suite with the ladder's model at the same position in the order of widths."""
    scale = (len(ladder) - 1) / max(1, len(models) - 1)
    return {model: ladder[round(rank * scale)] for rank, model in enumerate(models)} if ladder else {}


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
        runs = subject.trend(models, FULL, ranks=True)
        tau = float(resampling.kendall(runs.sizes, runs.scores)[0])
        over_models = Estimate(tau, math.nan, math.nan, runs.p())
        yield _described(
            suite, "Kendall's tau-b, had the widths been dealt at random", "", over_models, len(runs.sizes), "runs"
        )
        for model, share in zip(models, resampling.argmax_distribution(values[1:]), strict=True):
            nothing = Estimate(float(share), math.nan, math.nan, math.nan)
            yield _described(suite, PEAK, model, nothing, scored.queries, "")


def _bands(scored: Panel) -> Iterator[dict[str, Any]]:
    for (owner, name), values in scored.runs.items():
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
