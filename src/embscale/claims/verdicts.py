"""How a verdict is given: the rules that both ledgers of claims follow.

A statistic computes *parts*: quantities that, according to the claim, lie in some range.  A claim holds if all its
parts do, so the part with the weakest support decides (an intersection-union test, Berger 1982).  If parts are outside
their range, the one with the strongest evidence decides, its p-value multiplied by the number of parts (Bonferroni).

1. A claim names its population: models and a task.  It is *reproduced*, *not reproduced* or *unresolved* only where
   these were run; what the models of our ladder show in their place is an analogue, in a column of its own.
2. Two quantities are "the same" within a margin that the entry states: a share of the dynamic range (the highest
   trained score less chance), or a multiple of the standard deviation between training runs; never points of a score.
3. A comparison in which either side does not exceed chance is *at chance*: it has no verdict.
4. A trend over models is tested against the permutation distribution over the models, beside the resamples of queries;
   the larger p-value counts.  Where so few models cannot be significant in any order, the detail says so.
5. Each test stands once.  If two claims ask the same of the ladder, the later one points to the earlier.  p-values are
   corrected (Holm 1979) within the families that the entries declare.
6. Every row names its figure, its rows and the command that recomputes it.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from embscale.errors import EmbscaleError
from embscale.rows.markdown import escape, markdown_table
from embscale.statistics import resampling
from embscale.statistics.resampling import CONFIDENCE, Estimate

ALPHA = 0.05
LEAST_MODELS = 3  # a trend or a peak needs

# Of the population that a claim names, and of our ladder.
REPRODUCED, NOT_REPRODUCED, NOT_RUN = "reproduced", "not reproduced", "published models not run"
HOLDS, FAILS = "holds", "fails"
UNRESOLVED, AT_CHANCE, NOT_TESTABLE = "unresolved", "at chance", "not testable"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, UNRESOLVED, AT_CHANCE, NOT_TESTABLE, NOT_RUN)
ANALOGUES = (HOLDS, FAILS, UNRESOLVED, AT_CHANCE, NOT_TESTABLE)

# By what the report multiplies.
UNITS = {
    "score": 100, "score per doubling": 100, "tau": 1, "share": 1, "factor": 1, "correlation": 1, "nats": 1,
    "nats per doubling": 1,
}  # fmt: skip

# Columns of a test; those of the published models have PUBLISHED before them.
TEST = [
    "statistic", "unit", "expected", "margin", "effect", "ci_low", "ci_high", "n", "over", "runs", "models", "p",
    "p_holm", "detail",
]  # fmt: skip
PUBLISHED = "published_"
COLUMNS = [
    "claim", "words", "population", "verdict", "analogue", "same_as", "family", *TEST,
    *(f"{PUBLISHED}{name}" for name in TEST), "printed_effect", "printed_holds", "figure", "rows", "command",
]  # fmt: skip

# More arrangements of models than this are drawn at random instead of listed.
MOST_ARRANGEMENTS = 500_000
DRAWN_ARRANGEMENTS = 9_999
PER_BLOCK = 20_000  # arrangements evaluated at a time, to bound memory


NO_INTERVAL = (
    "no interval: the values are not of independent units (queries that are all linked, splits of one set of texts)"
)


class NotRun(Exception):
    """A score that a claim needs is missing; the message says which."""


class NotTestable(Exception):
    """The scores are there, and the claim cannot be tested with them; the message says why."""


@dataclass(frozen=True)
class Claim:
    """An entry of ``claims.yaml`` or ``layer_claims.yaml``.

    Attributes:
        id: a letter and a number; a letter behind it where one claim asserts several things.
        words: the claim in short.
        suite: of the models that it is about.
        population: which models it is about, in words.
        task: on which: a retrieval task, or a source of texts.
        family: of the tests that are corrected together.
        statistic: name of a function, one of the statistics of its module.
        arguments: of that function.
        figure: module of `embscale.figures` that shows it.
        no_ladder: why the claim cannot be tested on the ladder; empty if it can.
    """

    id: str
    words: str
    suite: str
    population: str
    task: str
    family: str
    statistic: str
    figure: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    no_ladder: str = ""


@dataclass(frozen=True)
class Trend:
    """Scores of single models whose order is in question.

    Attributes:
        sizes: ``[models]``.  Models are training runs, or draws of random tables; several may have one size.
        scores: ``[tasks, models]``, of the queries as they are.
        ranks: whether the trend is Kendall's tau-b, or the least-squares rise for each doubling of the size.
        weights: ``[tasks]``, by which the trends on several tasks are added up.
    """

    sizes: tuple[float, ...]
    scores: np.ndarray
    ranks: bool
    weights: tuple[float, ...] = (1.0,)

    def p(self, null: float = 0.0) -> float:
        """Two-sided p-value: how often a random assignment of the scores to the sizes gives as extreme a trend.

        Args:
            null: the rise for each doubling under test; of a rank correlation only 0 can be tested.
        """
        scores = self.scores - null * np.log2(self.sizes)
        observed = float(self._trend(scores[:, None, :])[0])
        orders = arrangements(self.sizes)
        blocks = range(0, len(orders), PER_BLOCK)
        found = np.concatenate([self._trend(scores[:, orders[start : start + PER_BLOCK]]) for start in blocks])
        rounding = resampling.ROUNDING
        below, above = (found <= observed + rounding).mean(), (found >= observed - rounding).mean()
        return min(1.0, 2 * float(min(below, above)))

    def _trend(self, scores: np.ndarray) -> np.ndarray:
        """``[tasks, arrangements, models]`` to ``[arrangements]``."""
        function = resampling.kendall if self.ranks else resampling.slope
        return np.asarray(np.tensordot(self.weights, function(self.sizes, scores), axes=1))

    @property
    def smallest_p(self) -> float:
        """The p-value of the most extreme order."""
        return min(1.0, 2 / len(arrangements(self.sizes)))

    @property
    def words(self) -> str:
        """What the p-value is over."""
        orders = len(arrangements(self.sizes))
        every = f"all {orders:,}" if _count(self.sizes) <= MOST_ARRANGEMENTS else f"{orders:,} random"
        found = f"p over {every} orders of {len(self.sizes)} models or draws"
        if self.smallest_p < ALPHA:
            return found
        return f"{found}, of which none could be significant: the smallest possible p is {self.smallest_p:.2g}"


def _count(sizes: Sequence[float]) -> int:
    """How many ways there are to assign scores to sizes; models of one size are interchangeable."""
    same = np.unique(sizes, return_counts=True)[1]
    return math.factorial(len(sizes)) // math.prod(math.factorial(int(count)) for count in same)


def arrangements(sizes: Sequence[float]) -> np.ndarray:
    """Every assignment of models to sizes: ``[arrangements, models]`` of the models' numbers.

    Models of one size are interchangeable, so that 4 sizes with 3 models each have 369,600 assignments and not 12!.
    Of more than `MOST_ARRANGEMENTS`, the observed one and `DRAWN_ARRANGEMENTS` random ones (always the same).
    """
    return _arrangements(tuple(np.unique(sizes, return_inverse=True)[1].tolist()))


@functools.lru_cache(maxsize=16)
def _arrangements(groups: tuple[int, ...]) -> np.ndarray:
    total = len(groups)
    places = [[i for i in range(total) if groups[i] == group] for group in dict.fromkeys(groups)]
    if _count(groups) > MOST_ARRANGEMENTS:
        generator = np.random.default_rng(total)
        drawn = generator.permuted(np.tile(np.arange(total), (DRAWN_ARRANGEMENTS, 1)), axis=1)
        return np.vstack([np.arange(total), drawn])
    rows = np.empty((_count(groups), total), np.int64)
    for number, order in enumerate(_assignments(frozenset(range(total)), [len(group) for group in places])):
        rows[number] = order
    # From the order of the sizes back to the order of the models.
    return rows[:, np.argsort([place for group in places for place in group])]


def _assignments(left: frozenset[int], counts: Sequence[int]) -> list[tuple[int, ...]]:
    """The models for the first size, for the second, and so on, one after the other; each size's in their order."""
    if not counts:
        return [()]
    return [
        chosen + rest
        for chosen in itertools.combinations(sorted(left), counts[0])
        for rest in _assignments(left - set(chosen), counts[1:])
    ]


@dataclass(frozen=True)
class Part:
    """A quantity, and the range claimed for it.

    Attributes:
        words: what the quantity is.
        draws: ``[1 + resamples]``: as measured, then from each resample; NaN in the latter if there is no interval.
        low: end of the range.
        high: the other end.
        unit: a key of `UNITS`.
        above_chance: the scores that are compared, each less chance, as `draws`; none where chance is what is asked.
        needed: how many of them must exceed chance; all if not given.
        trend: the models behind a trend over them.
        per_doubling: by what the quantity is divided to be a rise for each doubling; 1 if it is one.
        margin: what the range was derived from, in words.
    """

    words: str
    draws: np.ndarray
    low: float = 0.0
    high: float = math.inf
    unit: str = "score"
    above_chance: tuple[np.ndarray, ...] = ()
    needed: int | None = None
    trend: Trend | None = None
    per_doubling: float = 1.0
    margin: str = ""

    @property
    def value(self) -> float:
        """As measured."""
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
    def certain(self) -> bool:
        """Whether this is a fact that no resample changes, such as the equality of two files."""
        return len(self.draws) == 1

    @property
    def has_interval(self) -> bool:
        """Whether there were independent units to resample."""
        return not np.isnan(self.draws).any()

    @property
    def at_chance(self) -> bool:
        """Whether too few of the compared scores exceed chance, by their 95 % intervals."""
        tail = (1 - CONFIDENCE) / 2
        exceed = sum(np.quantile(score[1:], tail) > 0 for score in self.above_chance)
        return bool(exceed < (len(self.above_chance) if self.needed is None else self.needed))

    @property
    def expected(self) -> str:
        """The range in words, in the units of the report."""
        scale = UNITS[self.unit]
        low, high = f"{self.low * scale:.3g}", f"{self.high * scale:.3g}"
        if math.isinf(self.high):
            return f"above {low}"
        return f"below {high}" if math.isinf(self.low) else f"{low} to {high}"

    def estimate(self) -> Estimate:
        """Value, interval, and the p-value of the relevant end of the range.

        Inside the range, that is the end with the larger p-value; outside, the end that is violated.
        """
        if self.certain or not self.has_interval:
            return Estimate(self.value, math.nan, math.nan, math.nan)
        if self.holds:
            ends = [end for end in (self.low, self.high) if math.isfinite(end)]
        else:
            ends = [self.low if self.value <= self.low else self.high]
        return max((self._estimate(end) for end in ends), key=lambda found: found.p)

    def _estimate(self, end: float) -> Estimate:
        found = resampling.estimate(self.value, self.draws[1:], null=end)
        if self.trend is None:
            return found
        return Estimate(found.value, found.low, found.high, max(found.p, self.trend.p(end / self.per_doubling)))


@dataclass(frozen=True)
class Finding:
    """What the parts of a claim give, before the correction for the family.

    Attributes:
        part: the part that decides.
        estimate: of it, with the p-value of the whole claim; NaN where there is none.
        word: one of `ANALOGUES`.
        detail: why, where the word alone does not tell.
    """

    part: Part
    estimate: Estimate
    word: str
    detail: str = ""


def decide(parts: Sequence[Part]) -> Finding:
    """Apply the rules to the parts of one claim."""
    for part in parts:
        if not part.certain and not part.has_interval:
            nothing = Estimate(part.value, math.nan, math.nan, math.nan)
            return Finding(part, nothing, NOT_TESTABLE, NO_INTERVAL)
    for part in parts:
        if part.at_chance:
            found = part.estimate()
            nothing = Estimate(found.value, found.low, found.high, math.nan)
            return Finding(part, nothing, AT_CHANCE, "a compared score does not exceed chance")
    estimates = [(part, part.estimate()) for part in parts]
    outside = [(part, found) for part, found in estimates if not part.holds]
    if outside:
        part, found = min(outside, key=lambda pair: (*_evidence(pair[1]), pair[0].excess))
        if not part.certain:  # a fact has no p-value to correct
            found = Estimate(found.value, found.low, found.high, min(1.0, found.p * len(parts)))
        several = f"{len(outside)} of {len(parts)} parts are outside; this is the clearest"
    else:
        part, found = max(estimates, key=lambda pair: (*_evidence(pair[1]), -pair[0].excess))
        several = f"all {len(parts)} parts are inside; this is the least certain"
    details = [several if len(parts) > 1 else "", part.trend.words if part.trend else ""]
    return Finding(part, found, FAILS if outside else HOLDS, "; ".join(filter(None, details)))


def _evidence(found: Estimate) -> tuple[bool, float]:
    """Facts, which have no p-value, before estimates; these by their p-values."""
    return (True, found.p) if math.isfinite(found.p) else (False, 0.0)


MARGINS = {
    "share_of_range": "of the range (highest trained score less chance)",
    "run_deviations": "times the standard deviation between training runs",
}


def margin(stated: Mapping[str, float], **scales: Callable[[], float]) -> tuple[float, str]:
    """The size of a margin, and what it is in words.

    Args:
        stated: one of `MARGINS` with its number, as an entry gives it.
        scales: by the same names, what a margin of 1 is.

    Raises:
        NotTestable: the scale cannot be computed, such as the deviation between runs of which there is one.
    """
    ((kind, times),) = stated.items()
    return times * scales[kind](), f"{times:g} {MARGINS[kind]}"


@dataclass(frozen=True)
class Outcome:
    """What was asked of one set of models.

    Attributes:
        found: the parts, or why there are none.
        models: of which it was asked.
        n: the least number of queries or texts behind a number.
        over: what these are, in words.
        runs: the least number of training runs or draws behind a number.
        remark: what else to say, such as which models were left out.
        ran: whether the models were run, so that they are not what is missing.
    """

    found: list[Part] | str
    models: Sequence[str] = ()
    n: int = 0
    over: str = ""
    runs: int = 0
    remark: str = ""
    ran: bool = True


def tested(statistic: Callable[[], list[Part]], about: Callable[[], Mapping[str, Any]]) -> Outcome:
    """Call a statistic; a claim without one of its scores has no parts but a reason.

    Args:
        statistic: computes the parts.
        about: other fields of the result, known when the statistic has looked up its scores.
    """
    found: list[Part] | str
    ran = True
    try:
        found = statistic()
    except NotTestable as reason:
        found = f"{reason}"
    except NotRun as reason:
        found, ran = f"{reason}", False
    return Outcome(found, **{"ran": ran} | dict(about()))


def ledger_row(
    claim: Claim, published: Outcome, ladder: Outcome, printed: list[Part] | str, *, help_: str, rows: str, command: str
) -> dict[str, Any]:
    """A row of a ledger, columns `COLUMNS`, before tests that recur are joined and families corrected.

    Args:
        claim: what is claimed.
        published: asked of the models that it is about.
        ladder: asked of our ladder.
        printed: asked of the numbers that were published.
        help_: of the statistic; its first line stands where there are no parts.
        rows: the files that it was computed from.
        command: that recomputes it.
    """
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {"claim": claim.id, "words": claim.words, "population": f"{claim.population}, on {claim.task}"}
    row |= {"family": claim.family, "same_as": "", "figure": claim.figure, "rows": rows, "command": command}
    word, test = _test(ladder, help_)
    row |= {"analogue": word} | test
    word, test = _test(published, help_)
    if isinstance(published.found, str):
        word = NOT_TESTABLE if published.ran else NOT_RUN
    row |= {"verdict": {HOLDS: REPRODUCED, FAILS: NOT_REPRODUCED}.get(word, word)}
    row |= {f"{PUBLISHED}{name}": value for name, value in test.items()}
    if not isinstance(printed, str):
        ours = None if isinstance(published.found, str) else decide(published.found).part.words
        shown = next((part for part in printed if part.words == ours), min(printed, key=lambda part: part.excess))
        row |= {"printed_effect": shown.value, "printed_holds": all(part.holds for part in printed)}
    return row


def _test(tested: Outcome, help_: str) -> tuple[str, dict[str, Any]]:
    """The word for a test, and its columns."""
    test: dict[str, Any] = dict.fromkeys(TEST) | {"p": math.nan, "p_holm": math.nan}
    test |= {"statistic": help_.partition("\n")[0].rstrip("."), "models": " ".join(tested.models)}
    if isinstance(tested.found, str):
        return NOT_TESTABLE, test | {"detail": _sentence(tested.found), "models": ""}
    finding = decide(tested.found)
    part, result = finding.part, finding.estimate
    test |= {"statistic": part.words, "unit": part.unit, "expected": part.expected, "margin": part.margin}
    test |= {"effect": result.value, "ci_low": result.low, "ci_high": result.high, "p": result.p}
    test |= {"n": tested.n, "over": tested.over, "runs": tested.runs}
    return finding.word, test | {"detail": _sentence("; ".join(filter(None, [finding.detail, tested.remark])))}


def _sentence(text: str) -> str:
    return f"{text.rstrip('.')}." if text else ""


def same_tests(tested: Mapping[str, list[Part] | str]) -> dict[str, str]:
    """Which claims ask what an earlier one asks: the same quantities of the same models, in the same range.

    Args:
        tested: by claim, its parts or why there are none.

    Returns:
        By claim, the first that asks the same.
    """
    known: dict[object, str] = {}
    found = {}
    for claim, parts in tested.items():
        if isinstance(parts, str):
            continue
        key = frozenset((part.draws.tobytes(), part.low, part.high, part.unit) for part in parts)
        first = known.setdefault(key, claim)
        if first != claim:
            found[claim] = first
    return found


def ledger(rows: Sequence[Mapping[str, Any]], same: Mapping[str, str]) -> pd.DataFrame:
    """The ledger: tests that recur stand once, p-values are corrected within their families, and verdicts with them.

    What was asked of the published models and what was asked of the ladder are two questions, so each family is
    corrected once for either.

    Args:
        rows: of `ledger_row`.
        same: from `same_tests`, of the ladder.
    """
    table = pd.DataFrame(rows, columns=COLUMNS)
    for claim, first in same.items():
        chosen = table["claim"] == claim
        table.loc[chosen, TEST] = None
        table.loc[chosen, ["same_as", "analogue"]] = first, f"see {first}"
    for prefix, word in (("", "analogue"), (PUBLISHED, "verdict")):
        p, corrected = f"{prefix}p", f"{prefix}p_holm"
        table[[p, corrected]] = table[[p, corrected]].astype(float)
        for _, family in table[table[p].notna()].groupby("family", sort=False):
            table.loc[family.index, corrected] = resampling.holm(family[p].to_list())
        table.loc[table[corrected] >= ALPHA, word] = UNRESOLVED
    return table


def load(path: Path, known: Mapping[str, Callable[..., list[Part]]]) -> list[Claim]:
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
    needed = {"words", "suite", "population", "task", "family", "statistic", "figure"}
    if missing := needed - set(entry):
        raise EmbscaleError(f"{where}: lacks {', '.join(sorted(missing))}")
    if unknown := set(entry) - needed - {"arguments", "no_ladder"}:
        raise EmbscaleError(f"{where}: unknown key {', '.join(sorted(unknown))}")
    if entry["statistic"] not in known:
        raise EmbscaleError(f"{where}: no statistic {entry['statistic']!r}; known are {', '.join(known)}")
    arguments = entry.get("arguments", {})
    function = inspect.signature(known[entry["statistic"]])
    try:
        function.bind(None, **arguments)
    except TypeError as error:
        raise EmbscaleError(f"{where}: arguments of {entry['statistic']}: {error}") from error
    if "margin" in arguments and not _is_margin(arguments["margin"]):
        kinds = " or ".join(f"{kind}: NUMBER" for kind in MARGINS)
        raise EmbscaleError(f"{where}: margin {arguments['margin']!r}: expected {{{kinds}}}, never points of a score")
    return Claim(name, **entry)


def _is_margin(stated: object) -> bool:
    if not isinstance(stated, dict) or len(stated) != 1:
        return False
    ((kind, number),) = stated.items()
    return kind in MARGINS and isinstance(number, int | float) and not isinstance(number, bool) and number > 0


def folders(files: Sequence[Path], output: Path) -> str:
    """Where the rows are that a ledger was computed from, seen from the ledger."""
    found = {Path(os.path.relpath(file.parent, output.parent)).as_posix() + "/" for file in files}
    return "; ".join(sorted(found))


def recomputed_by(command: str, output: Path) -> str:
    """The command that recomputes a ledger; its note has every flag."""
    return f"embscale {command}, with the flags in {output.name}.note.json"


def not_run_table(rows: pd.DataFrame) -> str:
    """Markdown rows of the claims that were tested on no model, with the reasons."""
    missing = rows[_untested(rows)]
    if missing.empty:
        return "Every claim was tested.\n"
    lines = [["claim", "published models", "our ladder"]]
    for row in missing.to_dict("records"):
        lines.append([_asked(row), _found(row, "verdict", PUBLISHED), _found(row, "analogue", "")])
    return markdown_table(lines)


def _untested(rows: pd.DataFrame) -> pd.Series:
    """Whether no quantity was measured for a claim."""
    return rows["effect"].isna() & rows[f"{PUBLISHED}effect"].isna() & (rows["same_as"].fillna("") == "")


def _asked(row: Mapping[str, Any]) -> str:
    return f"**{row['claim']}** {escape(row['words'])} *({escape(row['population'])})*"


def _found(row: Mapping[str, Any], word: str, prefix: str) -> str:
    """The word of a verdict, and why there is no other."""
    detail = row[f"{prefix}detail"]
    detail = detail if isinstance(detail, str) else ""
    return f"**{row[word]}** {escape(detail[:1].upper() + detail[1:])}".rstrip()
