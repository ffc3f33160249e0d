"""Made-up estimates and differences of a ladder of two widths, whose numbers a test can do by hand."""

import numpy as np
import pandas as pd

WIDTHS = (16, 32)
LENGTHS = ("64", "all")
METRICS = ("ndcg_at_10", "recall_at_100")
TASKS = ("T", "U")
TREATMENTS = ("full", "idf", "crop:16")
# Scores of tables as they are at the first length, by width; random tables also at 64 columns.
TRAINED, UNTRAINED, SHUFFLED = {16: 0.02, 32: 0.03}, {16: 0.011, 32: 0.041}, {16: 0.004, 32: 0.005}
RANDOM = {16: 0.01, 32: 0.04, 64: 0.06}
REFERENCES = {"overlap": 0.2, "overlap_idf": 0.3, "bm25": 0.4, "chance": 0.0005}
# At other lengths everything is lower, with other treatments higher.
LENGTH = {"64": 1.0, "all": 0.25}
TREATMENT = {"full": 1.0, "idf": 2.0, "crop:16": 0.5}
HALF = 0.002  # of each interval


def _cell(**keys):
    return {"tokenizer": "k", "pooling": "mean", "special_tokens": "exclude", "step": np.nan, "dim": np.nan} | keys


def _cells():
    for width in WIDTHS:
        ladder = {"suite": "ladder", "model": f"ladder-w{width}", "width": width, "dim": width}
        for treatment in TREATMENTS:
            yield _cell(**ladder, step=0, table="input", treatment=treatment), UNTRAINED[width], 3
            yield _cell(**ladder, step=40, table="input", treatment=treatment), TRAINED[width], 3
            yield _cell(**ladder, step=40, table="shuffled", treatment=treatment), SHUFFLED[width], 3
    for width, value in RANDOM.items():
        for treatment in TREATMENTS if width in WIDTHS else ("full",):
            random = {"suite": "random", "model": "random", "table": "random"}
            yield _cell(**random, width=width, dim=width, treatment=treatment), value, 5
    for name, value in REFERENCES.items():
        of = {"suite": "reference", "model": name, "table": "reference", "treatment": name}
        yield _cell(**of, width=np.nan), value, 1


def _interval(value):
    return {"value": value, "ci_low": value - HALF, "ci_high": value + HALF}


def _levels():
    """Every task, metric, length and set of queries, with the factor by which it changes scores."""
    for task in TASKS:
        for metric in METRICS:
            for length in LENGTHS:
                for queries, factor in (("all", 1.0), ("heldout", 1.5), ("trained on", 0.9)):
                    scale = LENGTH[length] * factor * (2 if metric == METRICS[1] else 1) * (3 if task == "U" else 1)
                    yield {"task": task, "metric": metric, "length": length, "queries": queries}, scale


def _scored(cell, level):
    """Treatments are scored on the first task at the first length, of all queries."""
    plain = cell["treatment"] == "full" or cell["table"] == "reference"
    return plain or (level["task"], level["length"], level["queries"]) == ("T", "64", "all")


def estimates():
    rows = [
        cell | level | _interval(value * scale * TREATMENT.get(cell["treatment"], 1.0))
        | {"runs": runs, "n": 100, "clusters": 20}
        for cell, value, runs in _cells()
        for level, scale in _levels()
        if _scored(cell, level)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def differences():
    trained = estimates()
    keys = ["width", "treatment", "task", "metric", "length", "queries"]
    parts = []
    for against, controls in (
        ("random", trained[trained["table"] == "random"]),
        ("untrained", trained[(trained["table"] == "input") & (trained["step"] == 0)]),
        ("shuffled", trained[trained["table"] == "shuffled"]),
    ):
        own = trained[(trained["table"] == "input") & ((trained["step"] == 40) | (against == "random"))]
        both = own.merge(controls[[*keys, "value"]].rename(columns={"value": "control_score"}), on=keys)
        parts.append(both.assign(against=against, score=both["value"], value=both["value"] - both["control_score"]))
    rows = pd.concat(parts, ignore_index=True)
    return rows.assign(ci_low=rows["value"] - HALF, ci_high=rows["value"] + HALF, p=0.5, control_runs=5)
