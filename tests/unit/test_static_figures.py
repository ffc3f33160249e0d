"""Figures of static embeddings, words and warm starts: the same bytes each time, and the numbers in words."""

import re

import numpy as np
import pandas as pd
import pytest

from embscale.cli import execute
from embscale.figures import static_scaling, words_probes
from embscale.scoring import words
from embscale.scoring.words import WordVectors
from embscale.tables import random_tables

METRIC = {"metric": "ndcg_at_10"}


def estimate_rows():
    """Means over runs: the ladder falls below random tables, CBOW equals them, the SVD of PPMI lies above."""
    rows = [
        {"suite": suite, "model": f"{suite}-w{dim}", "step": step, "table": "input", "treatment": treatment, "dim": dim,
         "width": dim, "value": value + shift, "runs": runs}
        for suite, steps, runs, value in (
            ("ladder", (0, 40), 3, 0.02), ("cbow", (None,), 1, 0.03), ("ppmi-svd", (None,), 1, 0.05)
        )
        for step in steps
        for dim in (16, 32)
        for treatment, shift in (("full", dim / 1000), ("idf", dim / 500))
    ]  # fmt: skip
    rows += [
        {"suite": "random", "model": "random", "table": "random", "treatment": treatment, "dim": dim, "width": dim,
         "value": 0.03 + dim / 1000 + shift, "runs": 5}
        for dim in (16, 32, 512)
        for treatment, shift in (("full", 0), ("idf", 0.1))
    ]  # fmt: skip
    rows.append({"suite": "reference", "model": "chance", "table": "reference", "treatment": "chance", "value": 0.001})
    frame = pd.DataFrame(rows).assign(**METRIC, task="T", n=100, queries="all", length="64")
    frame = frame.assign(ci_low=frame["value"] - 0.002, ci_high=frame["value"] + 0.002)
    return pd.concat([frame, frame.assign(queries="heldout", value=0.9)], ignore_index=True)


def tuning_rows():
    """A row for each value and one for the test queries; GloVe's largest rate diverged."""
    rows = [
        {"suite": suite, "setting": "learning_rate", "tried": tried, "queries": queries, "value": value,
         "chosen": tried == 0.1, "tokens_seen": 1000, "epochs": epochs, "heldout_loss": loss}
        for suite, epochs, loss, scores in (
            ("ladder", 1, 5.5, (0.05, 0.08, 0.07)), ("glove", 15, np.nan, (0.02, 0.04, np.nan))
        )
        for queries, tried, value in (
            *(("dev", tried, value) for tried, value in zip((0.01, 0.1, 1.0), scores, strict=True)),
            ("test", 0.1, scores[1] + 0.01),
        )
    ]  # fmt: skip
    frame = pd.DataFrame(rows).assign(**METRIC, dim=32, n=100)
    frame = frame.assign(ci_low=frame["value"] - 0.01, ci_high=frame["value"] + 0.01)
    return pd.concat([frame, estimate_rows()], ignore_index=True)


def word_rows():
    own = words.own_set()
    names = sorted(own.words())
    frames = []
    for suite, dim, seed in (("ladder", 8, 1), ("ladder", 16, 2), ("cbow", 16, 3)):
        vectors = WordVectors(
            {name: i for i, name in enumerate(names)}, random_tables.independent(len(names), dim, seed)
        )
        found = words.word_set_rows(vectors, [own], form="space", random_seeds=[7, 8])
        about = {"suite": suite, "model": f"{suite}-w{dim}", "step": np.nan, "variant": "full", "dim": dim}
        frames.append(pd.DataFrame(found).assign(**about))
    return pd.concat(frames)


def rare_rows():
    """Two words a band; in cbow's widest table both forms of a word are one vector."""
    words_of = {
        form: {name: 6 * place + i for i, name in enumerate("abcdef")} for place, form in enumerate(words.FORMS)
    }
    names, pairs = words.two_forms(words_of, np.arange(12))
    frames = []
    for suite, dim, seed in (("ladder", 8, 1), ("cbow", 8, 2), ("cbow", 16, 3)):
        table = random_tables.independent(12, dim, seed)
        if dim == 16:
            table[6:] = table[:6]
        found = words.word_set_rows(WordVectors(names, table), [pairs], form=words.BOTH, random_seeds=[7, 8])
        about = {"suite": suite, "model": f"{suite}-w{dim}", "step": np.nan, "variant": "full", "dim": dim}
        frames.append(pd.DataFrame(found).assign(**about))
    return pd.concat(frames)


def warm_rows():
    rows = [
        {"start": start, "seed": seed, "width": 32, "step": step, "tokens": 1024 * step, "metric": metric,
         "value": value + seed / 100}
        for start, gain in (("random", 0), ("random, frozen", -0.1), ("static", 0.2), ("static, frozen", 0.1))
        for seed in (1, 2, 3)
        for metric, step, value in (
            ("heldout_loss", 0, 8.0), ("heldout_loss", 50, 6.5 - gain), ("heldout_loss", 100, 6.0 - gain),
            ("ndcg_at_10", 0, 0.01), ("ndcg_at_10", 100, 0.02 + gain / 10),
        )
    ]  # fmt: skip
    rows += [
        {"start": "chance", "seed": seed, "width": 32, "step": 0, "tokens": 0, "metric": "ndcg_at_10", "value": 0.001}
        for seed in (1, 2, 3)
    ]
    return pd.DataFrame(rows)


FIGURES = {
    "static_scaling": (estimate_rows, "Of 4 static tables, 2 score above the random tables of their width and 0 below"),
    "static_tuning": (
        tuning_rows,
        "(0.01: 2.00, 0.1: 4.00, 1: diverged on development queries), test score 5.00 (4.00",
    ),
    "words_probes": (word_rows, "CBOW: analogy 0."),
    "words_rare": (rare_rows, "CBOW: rare 1.00 (no interval), middle 1.00 (no interval), frequent 1.00"),
    "warm_start": (warm_rows, "loss against the random start -0.200 (-0.200 to -0.200)"),
}


def drawn(name, folder, rows, run="a", where=()):
    rows.to_csv(folder / "rows.csv", index=False)
    files = ["--svg", str(folder / f"{run}.svg"), "--partial", str(folder / f"{run}.md"), "--image", "f.svg"]
    files += ["--data", str(folder / f"{run}.csv")]
    assert execute("draw", [name, "--rows", str(folder / "rows.csv"), *where, *files]) == 0
    return (folder / f"{run}.svg").read_bytes(), (folder / f"{run}.md").read_text("utf-8")


@pytest.mark.long
@pytest.mark.parametrize("name", FIGURES)
def test_the_command_draws_the_same_bytes_and_describes_them(name, tmp_path):
    rows, said = FIGURES[name]
    (svg, partial), (again, _) = (drawn(name, tmp_path, rows(), run) for run in ("a", "b"))
    assert svg == again and svg.count(b"<") > 60
    assert re.match(r'!\[\]\(f\.svg\)\{fig-alt="[^"]{80,}"\}\n', partial) and said in partial


@pytest.mark.parametrize(
    ("name", "rows", "reason"),
    [
        ("static_scaling", lambda: estimate_rows()[lambda rows: rows["table"] != "input"], "No static"),
        ("static_tuning", lambda: tuning_rows()[lambda rows: rows["queries"] == "all"], "No method was tuned"),
        ("words_probes", lambda: word_rows().assign(n=0), "No word of the probes"),
        ("words_rare", lambda: rare_rows().assign(n=0), "No word is one token in both forms"),
        ("warm_start", lambda: warm_rows()[lambda rows: rows["metric"] == "heldout_loss"], "No language model"),
    ],
)
def test_what_was_not_run_is_reported(name, rows, reason, tmp_path):
    assert drawn(name, tmp_path, rows())[1].startswith(reason)


def test_one_seed_has_no_interval(tmp_path):
    rows = warm_rows()
    words = drawn("warm_start", tmp_path, rows[rows["seed"] == 1])[1]
    assert "against the random start -0.200; static, frozen" in words and "nan" not in words
    assert "One run, without intervals" in words and "one 32-wide model ends -0.200 nats from" in words


def test_the_words_of_warm_starts_follow_the_interval_over_seeds(tmp_path):
    rows = warm_rows()
    assert "the 32-wide model ends with a lower loss" in drawn("warm_start", tmp_path, rows)[1]
    change = (rows["start"] == "static") & (rows["metric"] == "heldout_loss")
    worse = rows.assign(value=rows["value"].where(~change, rows["value"] + 0.5))
    assert "the 32-wide model ends with a higher loss" in drawn("warm_start", tmp_path, worse)[1]
    noise = rows["seed"].map({1: -1.0, 2: 0.2, 3: 1.3})
    unclear = rows.assign(value=rows["value"].where(~change, rows["value"] + noise))
    assert "is not resolved by these seeds" in drawn("warm_start", tmp_path, unclear)[1]


def test_lines_are_of_the_last_tables_over_all_queries_with_random_tables_in_the_same_treatment():
    rows = estimate_rows()
    found = static_scaling.lines(rows[rows["queries"] == "all"], "idf")
    assert list(found) == ["ladder", "ppmi-svd", "cbow", "random tables"]
    assert found["ladder"]["step"].tolist() == [40, 40] and found["random tables"]["width"].tolist() == [16, 32]
    assert found["random tables"]["value"].tolist() == pytest.approx([0.146, 0.162])
    assert static_scaling.chance(rows) == 0.001


def test_the_language_model_is_described_with_its_loss(tmp_path):
    words = drawn("static_tuning", tmp_path, tuning_rows())[1]
    assert "After equal tuning, language model scores highest, 9.00, and GloVe lowest, 5.00" in words
    assert "Random tables of that width: 6.20. Chance: 0.10." in words
    assert "1,000 tokens, 15 passes." in words and "by learning rate: 0.01: 5.50, 0.1: 5.50, 1: 5.50" in words


def test_words_are_shown_of_the_widest_table_of_each_suite():
    near, degrees = words_probes._shown(word_rows())
    assert set(near["model"]) == set(degrees["model"]) == {"ladder-w16", "cbow-w16"}
