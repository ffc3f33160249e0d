"""What has to be run so that every published number of both studies can be answered by its own protocol.

The Snakefile imports this module, so it reads the published numbers with the standard library alone.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("published_scores") / "corey2024.csv"
LAYERS_FILE = FILE.with_name("huang2024.csv")

# Since February 2026 the study's names of two models stand for other weights; these are the names of its weights now.
RENAMED = {"pythia-14m": "pythia-14m-deduped", "pythia-31m": "pythia-31m-deduped"}

RANDOM = "random"
# What the study did to a table, in the words of `embscale score`; its random numbers are torch's at that time.
FORMS = {"full": "full", "crop": "crop:{dims}", "pad": "pad_faithful:{dims}:{seed}:legacy"}


@dataclass(frozen=True)
class Cell:
    """A published score, without its value.

    Attributes:
        suite, model: as the study calls them; both ``random`` for the baselines by tokenizer.
        tokenizer: name of the tokenizer.
        variant: full, crop, pad or random.
        dims: columns that the variant asks for; None for ``full``.
        seed: of the random columns; None where there are none.
        task, metric: of MTEB.
        rows: of a baseline's random table, as the study's name of it says; None for models.
    """

    suite: str
    model: str
    tokenizer: str
    variant: str
    dims: int | None
    seed: int | None
    task: str
    metric: str
    rows: int | None = None

    @property
    def form(self) -> str:
        """The variant of the model's table that `embscale score --faithful` answers this score with."""
        return FORMS[self.variant].format(dims=self.dims, seed=self.seed)

    def drawn(self, rows: int) -> str:
        """The random table that answers this score: the first columns of a draw with so many rows."""
        return f"random:{rows}x{self.dims}:{self.seed}:legacy"


def cells() -> list[Cell]:
    """Every published score, in the order of the file; a score that was published twice is there once."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return list(dict.fromkeys(map(cell, csv.DictReader(file))))


def cell(row: Mapping[str, str]) -> Cell:
    """The cell of a row of the file."""
    names = ("suite", "model", "tokenizer", "variant", "task", "metric")
    dims, seed = (int(row[name]) if row[name] else None for name in ("variant_dims", "seed"))
    said = re.search(r"\((\d+) vocab size\)", row["published_name"])
    return Cell(**{name: row[name] for name in names}, dims=dims, seed=seed, rows=int(said[1]) if said else None)


def model_now(model: str, there: Iterable[str]) -> str:
    """The name under which a model's weights are to be had now, if the study has them, else the published name."""
    now = RENAMED.get(model, model)
    return now if now in there else model


def forms(model: str, task: str, there: Iterable[str]) -> list[str]:
    """Variants of a model's table with published scores on a task, ``full`` among them; none if it has no score.

    Args:
        model: as the study that is run calls it.
        task: of MTEB.
        there: all models of the study that is run.
    """
    found = [c.form for c in cells() if c.variant != RANDOM and c.task == task and model_now(c.model, there) == model]
    return list(dict.fromkeys(found))


def random_tables(tokenizer: str, task: str, rows_of: Mapping[str, int]) -> list[str]:
    """Random tables with published scores on a task.

    Args:
        tokenizer: that makes the tokens.
        task: of MTEB.
        rows_of: rows of the models' tables; each model has random tables of its own size beside it.
    """
    found = []
    for c in cells():
        if (c.tokenizer, c.task, c.variant) == (tokenizer, task, RANDOM):
            rows = c.rows or rows_of.get(model_now(c.model, rows_of))
            found += [c.drawn(rows)] if rows else []
    return list(dict.fromkeys(found))


def tasks() -> list[str]:
    """Tasks of the published scores."""
    return list(dict.fromkeys(c.task for c in cells()))


def metrics() -> list[str]:
    """Metrics of the published scores."""
    return list(dict.fromkeys(c.metric for c in cells()))


def texts_of(model: str) -> list[str]:
    """Texts on which accuracies of a model's layer classifiers were published."""
    return list(dict.fromkeys(row[name] for name in ("trained_on", "texts") for row in _runs(model)))


def windows(model: str, texts: Iterable[str]) -> list[tuple[int, int]]:
    """Tokens of each text, and texts, of the published classifiers of a model that were fitted on some texts."""
    runs = [row for row in _runs(model) if row["trained_on"] in texts]
    return list(dict.fromkeys((int(row["tokens"]), int(row["texts_count"])) for row in runs))


def _runs(model: str) -> list[dict[str, str]]:
    with LAYERS_FILE.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["model"] == model]
