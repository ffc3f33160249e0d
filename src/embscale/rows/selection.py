"""Select rows: the last checkpoint of each model, the main run of the classifiers, the random tables."""

from __future__ import annotations

import math

import pandas as pd

from embscale.rows.treatments import FULL, INPUT, RANDOM, REFERENCE

LADDER = "ladder"
VARIATION = f"{LADDER}-"  # how the name of a suite begins that varies the ladder

# The run that all others are compared with, on the first of its splits.
MAIN_RUN = {"classifier": "logistic_regression", "input": "raw", "control": "none"}


def where(rows: pd.DataFrame, **values: str) -> pd.DataFrame:
    """Rows with these values in the columns of these names."""
    for column, value in values.items():
        rows = rows[rows[column] == value]
    return rows


def is_last_checkpoint(rows: pd.DataFrame) -> pd.Series:
    """Whether each row is of the last checkpoint of its model.

    A model is identified by its suite and its name, since two suites may use one name.  A checkpoint whose step is not
    known (a revision such as ``main``) is the only one of its model or the finished one, so it counts as the last.

    Args:
        rows: with the columns ``suite``, ``model`` and ``step``; a step that is not known is empty.

    Returns:
        Booleans with the index of `rows`.
    """
    step = pd.to_numeric(rows["step"]).astype("Float64").fillna(math.inf).astype(float)
    return step == step.groupby([rows["suite"], rows["model"]], dropna=False).transform("max")


def last_checkpoint(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of each model's last checkpoint (`is_last_checkpoint`), in their order."""
    return rows[is_last_checkpoint(rows)]


def with_unique_models(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with ``SUITE/MODEL`` as the model's name where several suites have a model of that name.

    What follows may then group by the column ``model`` alone.  Rows without the columns ``suite`` and ``model`` are
    returned as they are.
    """
    if not {"suite", "model"} <= set(rows.columns):
        return rows
    suites = rows.groupby("model")["suite"].transform("nunique")
    if not (shared := suites > 1).any():
        return rows
    return rows.assign(model=rows["model"].mask(shared, rows["suite"].astype(str) + "/" + rows["model"].astype(str)))


def last_tables(rows: pd.DataFrame) -> pd.DataFrame:
    """The score of each model's last table as it is, by task and width, over runs (`embscale.scoring.estimates`)."""
    trained = rows[(rows["table"] == INPUT) & (rows["treatment"] == FULL)]
    return last_checkpoint(trained).sort_values(["task", "suite", "dim", "model"], ignore_index=True)


def ladder_tables(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the last table of each model of the ladder, the narrowest first: scores, estimates or differences."""
    return last_checkpoint(rows[rows["suite"] == LADDER]).sort_values("width", kind="stable")


def random_tables(rows: pd.DataFrame, treatment: str = FULL) -> pd.DataFrame:
    """The mean over draws of random tables that went through a treatment, the narrowest first."""
    random = rows[(rows["table"] == RANDOM) & (rows["treatment"] == treatment)]
    return random.sort_values("width", kind="stable")


def references(rows: pd.DataFrame) -> pd.DataFrame:
    """What needs no table (BM25, token overlap, chance), by its name."""
    return rows[rows["table"] == REFERENCE].drop_duplicates("model").set_index("model")


def widest_tables(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the last table of each suite's widest model."""
    last = last_checkpoint(rows)
    models = last.drop_duplicates(["suite", "model"]).sort_values("dim", kind="stable")
    return last.merge(models.groupby("suite").tail(1)[["suite", "model"]], on=["suite", "model"])


def random_band(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean, lowest and highest score of single random tables over seeds, by width."""
    random = rows[rows["variant"] == "random"]
    return random.groupby("dim")["value"].agg(["mean", "min", "max", "count"])


def main_split(rows: pd.DataFrame) -> str:
    """The split of the main run: the first split of its classifier, if that was run."""
    splits = rows.loc[rows["classifier"] == MAIN_RUN["classifier"], "split"]
    return str(splits.iloc[0]) if len(splits) else "text"


def main_run(rows: pd.DataFrame, **where: str) -> pd.DataFrame:
    """Rows of the main run over all seeds, or of a variation of it given by keyword arguments."""
    for column, value in (MAIN_RUN | {"split": main_split(rows), "seed": "all"} | where).items():
        rows = rows[rows[column] == value]
    return rows
