"""Warm starts: what the rows hold, and that only runs are compared that differ in the start alone."""

import csv

import numpy as np
import pandas as pd
import pytest

from embscale.artifacts import recorded
from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.warm_start import rows, start_of

SIZES = {"width": 8, "blocks": 1, "head_width": 4, "context": 8, "batch": 2, "steps": 4, "checkpoints": [0, 4]}
SIZES |= {"learning_rate": 0.01, "warmup": 1, "vocab_size": 20, "threads": 1}


def params(seed, table=False, frozen=False, **changes):
    return SIZES | {"seed": seed, "initial_table": table, "freeze_table": frozen} | changes


def losses(end):
    return pd.DataFrame({"step": [0, 2, 4], "loss": [np.nan, 3.0, 2.0], "heldout_loss": [4.0, np.nan, end]})


def scored(**values):
    rows = [{"model": m, "variant": v, "step": 4, "metric": "ndcg_at_10", "value": value, "ci_low": value - 0.01,
             "ci_high": value + 0.01, "n": 9} for m, value in values.items() for v in ("full", "unit")]  # fmt: skip
    return pd.DataFrame(rows)


def test_starts_have_names():
    assert start_of(params(1)) == "random" and start_of(params(1, table=True, frozen=True)) == "static, frozen"


def test_rows_hold_losses_and_scores_of_each_run():
    runs = {"a": params(1), "b": params(1, table=True)}
    made = rows(runs, {"a": losses(2.5), "b": losses(2.0)}, scored(a=0.1, b=0.2, other=0.9))
    loss = made[made["metric"] == "heldout_loss"].set_index(["start", "step"])["value"]
    assert loss.to_dict() == {("random", 0): 4, ("random", 4): 2.5, ("static", 0): 4, ("static", 4): 2.0}
    score = made[made["metric"] == "ndcg_at_10"].set_index("start")
    assert score["value"].to_dict() == {"random": 0.1, "static": 0.2} and score.loc["random", "n"] == 9


def test_only_like_is_compared_with_like():
    two = {"a": losses(2), "b": losses(2)}
    with pytest.raises(EmbscaleError, match="b: differs from the other runs in width, steps"):
        rows({"a": params(1), "b": params(2, width=16, steps=5)}, two, scored(a=0.1, b=0.1))
    with pytest.raises(EmbscaleError, match=r"b and a: the same start \(random\) and seed \(1\)"):
        rows({"a": params(1), "b": params(1)}, two, scored(a=0.1, b=0.1))
    with pytest.raises(EmbscaleError, match="b: no score of its table"):
        rows({"a": params(1), "b": params(2)}, two, scored(a=0.1))


def test_the_command_reads_what_each_run_was_from_its_note(tmp_path, capsys):
    for model, frozen in (("a", False), ("b", True)):
        path = tmp_path / model / "losses.csv"
        with recorded(command="train", params=params(1, frozen=frozen), inputs=[], outputs=[path]) as (output,):
            losses(2.0).to_csv(output, index=False, quoting=csv.QUOTE_MINIMAL)
    scored(a=0.1, b=0.2).to_csv(tmp_path / "scores.csv", index=False)
    given = [str(tmp_path / model / "losses.csv") for model in "ab"]
    given += ["--scores", str(tmp_path / "scores.csv"), "-o", str(tmp_path / "rows.csv")]
    assert execute("warm-start", given) == 0
    made = pd.read_csv(tmp_path / "rows.csv")
    assert dict(zip(made["model"], made["start"], strict=True)) == {"a": "random", "b": "random, frozen"}
    (tmp_path / "b" / "losses.csv").write_text("step,heldout_loss\n", "utf-8")
    assert execute("warm-start", given) == 1
    assert "was changed or damaged" in capsys.readouterr().err
