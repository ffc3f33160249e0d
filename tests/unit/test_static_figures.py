"""Figures of static embeddings, words and warm starts: the same bytes each time, and the numbers in words."""

import re

import numpy as np
import pandas as pd
import pytest

from embscale.cli import execute
from embscale.figures import words_probes
from embscale.scoring import words
from embscale.scoring.words import WordVectors
from embscale.tables import random_tables

METRIC = {"metric": "ndcg_at_10"}


def score_rows():
    rows = [
        {
            "suite": suite,
            "model": f"{suite}-w{dim}",
            "step": step,
            "variant": variant,
            "dim": dim,
            "value": value + shift,
        }
        for suite, steps, value in (("ladder", (0, 40), 0.02), ("cbow", (None,), 0.03), ("ppmi-svd", (None,), 0.05))
        for step in steps
        for dim in (16, 32)
        for variant, shift in (("full", dim / 1000), ("all_but_top", dim / 500))
    ]
    rows += [
        {"suite": "random", "model": "random", "variant": "random", "dim": dim, "seed": seed, "value": dim / 1000}
        for dim in (16, 32, 512)
        for seed in (1, 2)
    ]
    frame = pd.DataFrame(rows).assign(**METRIC, task="T", n=100)
    return frame.assign(ci_low=frame["value"] - 0.002, ci_high=frame["value"] + 0.002)


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
        {"start": start, "seed": seed, "step": step, "metric": metric, "value": value + seed / 100}
        for start, gain in (("random", 0), ("random, frozen", -0.1), ("static", 0.2), ("static, frozen", 0.1))
        for seed in (1, 2, 3)
        for metric, step, value in (
            ("heldout_loss", 0, 8.0), ("heldout_loss", 50, 6.5 - gain), ("heldout_loss", 100, 6.0 - gain),
            ("ndcg_at_10", 0, 0.01), ("ndcg_at_10", 100, 0.02 + gain / 10),
        )
    ]  # fmt: skip
    return pd.DataFrame(rows)


FIGURES = {
    "static_scaling": (score_rows, "SVD of PPMI, as trained: 6.60 at 16 columns, 8.20 at 32"),
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
    assert svg == again and svg.count(b"<path") > 20
    assert re.match(r'!\[\]\(f\.svg\)\{fig-alt="[^"]{80,}"\}\n', partial) and said in partial


@pytest.mark.parametrize(
    ("name", "rows", "reason"),
    [
        ("static_scaling", lambda: score_rows()[lambda rows: rows["suite"].isin(["ladder", "random"])], "No static"),
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


def test_words_are_shown_of_the_widest_table_of_each_suite():
    near, degrees = words_probes._shown(word_rows())
    assert set(near["model"]) == set(degrees["model"]) == {"ladder-w16", "cbow-w16"}
