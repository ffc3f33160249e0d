"""Tables of a suite compared, on tables of which it is known what they share; and the command."""

import json

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file
from small_corpus import save_corpus

from embscale.cli import execute
from embscale.parameters.scores import Comparison
from embscale.scoring import compared_tables
from embscale.scoring.compared_tables import Checkpoint

SETTINGS = Comparison(rows=120, neighbours=4, permutations=19, groups=10, draws=2, seed=1)
TOKENS = 150


def suite(*, tied=False):
    """Two widths and two runs: tables start at random, and turn into rotations and paddings of one matrix."""
    generator = np.random.default_rng(0)
    meaning = generator.normal(size=(TOKENS, 6))
    found = []
    for width in (16, 8):
        for run in (1, 2):
            start = generator.normal(size=(TOKENS, width))
            turned = meaning @ np.linalg.qr(generator.normal(size=(width, width)))[0][:6]
            for step, table in ((0, start), (10, start / 2 + turned), (40, turned)):
                output = None if tied else np.roll(table, 1, axis=1)
                found.append(Checkpoint(f"m-w{width}", run, step, table, output))
    return found


@pytest.fixture(scope="module")
def rows():
    seen = np.arange(TOKENS) >= 10
    chosen = compared_tables.chosen_rows(seen, rows=SETTINGS.rows, seed=SETTINGS.seed)
    return compared_tables.similarities(suite(), chosen, SETTINGS)


def of(rows, relation, measure="cka", table="input"):
    return rows[(rows["relation"] == relation) & (rows["measure"] == measure) & (rows["table"] == table)]


def test_rows_are_drawn_from_tokens_that_training_has_seen():
    seen = np.arange(50) % 2 == 0
    some = compared_tables.chosen_rows(seen, rows=10, seed=1)
    assert len(set(some)) == 10 and (some % 2 == 0).all() and (np.diff(some) > 0).all()
    assert some.tolist() != compared_tables.chosen_rows(seen, rows=10, seed=2).tolist()
    assert compared_tables.chosen_rows(seen, rows=99, seed=1).tolist() == np.flatnonzero(seen).tolist()


def test_every_pair_of_a_relation_is_compared_once(rows):
    assert list(rows.columns) == compared_tables.SIMILARITY and (rows["n"] == 120).all()
    # Two widths; seeds at three steps, and of the last output tables; two runs each way between widths.
    counts = {
        ("seeds", "input"): 2 * 3, ("seeds", "output"): 2, ("widths", "input"): 4, ("steps", "input"): 2 * 2 * 2,
        ("input and output", "input"): 2 * 2 * 3,
    }  # fmt: skip
    assert (rows.groupby(["relation", "table"]).size() // 2).to_dict() == counts
    sides = ["relation", "measure", "table", "model", "run", "step", "other_table", "other_model", "other_run"]
    assert not rows.duplicated([*sides, "other_step"]).any()
    widths = of(rows, "widths")
    assert set(widths["width"]) == {8} and set(widths["other_width"]) == {16} and set(widths["step"]) == {40}
    assert (of(rows, "steps")["other_step"] == 40).all() and set(of(rows, "steps")["step"]) == {0, 10}


def test_what_tables_share_is_found_and_nothing_else(rows):
    for measure in ("cka", "mutual_neighbours"):
        seeds = of(rows, "seeds", measure).set_index(["width", "step"])["calibrated"]
        assert (seeds.xs(0, level="step") < 0.1).all()
        assert seeds.xs(40, level="step").tolist() == pytest.approx([1, 1])
        assert (seeds.xs(10, level="step") > 0.03).all()
        assert of(rows, "widths", measure)["calibrated"].tolist() == pytest.approx([1] * 4)
        # The two tables of a run have the same columns in another order.
        assert of(rows, "input and output", measure)["calibrated"].tolist() == pytest.approx([1] * 12)


def test_a_tied_model_has_one_table():
    checkpoints = suite(tied=True)
    chosen = np.arange(TOKENS)
    rows = compared_tables.similarities(checkpoints, chosen, SETTINGS)
    assert set(rows["relation"]) == {"seeds", "widths", "steps"} and set(rows["table"]) == {"input"}
    dimensions = compared_tables.dimensions(checkpoints, chosen, SETTINGS)
    assert set(dimensions["table"]) == {"input", "random"}
    found = compared_tables.undertrained_tokens(checkpoints, np.arange(TOKENS) > 20, np.arange(5))
    assert set(found.loc[found["chosen"], "indicator"]) == {"output_cosine"} and set(found["tied"]) == {"yes"}


def test_one_run_of_one_width_is_compared_with_itself_alone():
    alone = [c for c in suite() if c.model == "m-w8" and c.run == 1]
    rows = compared_tables.similarities(alone, np.arange(TOKENS), SETTINGS)
    assert set(rows["relation"]) == {"steps", "input and output"}
    first = compared_tables.similarities(alone[:1], np.arange(TOKENS), SETTINGS)
    assert set(first["relation"]) == {"input and output"}


def test_dimensions_fall_to_what_the_rows_fill_and_random_tables_stand_beside():
    rows = compared_tables.dimensions(suite(), np.arange(TOKENS), SETTINGS)
    assert list(rows.columns) == compared_tables.DIMENSION
    inputs = rows[rows["table"] == "input"].set_index(["width", "run", "step"])["value"]
    assert (inputs.xs(40, level="step") < 7.5).all()  # six directions, in any width
    wide = inputs.xs(16, level="width").groupby("step").mean()
    assert wide[0] > 1.3 * wide[40]
    random = rows[rows["table"] == "random"]
    assert random.groupby("width").size().to_dict() == {8: 2, 16: 2} and random["step"].isna().all()
    # A table before training is random too.
    assert random[random["width"] == 16]["value"].mean() == pytest.approx(wide[0], rel=0.25)
    assert len(rows[rows["table"] == "output"]) == 4
    assert (rows["ci_low"] < rows["value"]).all() and (rows["value"] < rows["ci_high"]).all()


def test_known_tokens_are_not_among_those_to_be_found():
    checkpoints = [Checkpoint("m-w4", 1, 9, np.ones((30, 4)), np.random.default_rng(0).normal(size=(30, 4)))]
    seen, known = np.arange(30) >= 12, np.arange(4)
    rows = compared_tables.undertrained_tokens(checkpoints, seen, known)
    assert list(rows.columns) == compared_tables.UNDERTRAINED
    assert set(rows["unseen"]) == {8} and set(rows["n"]) == {26}
    norms = rows[(rows["indicator"] == "input_norm") & (rows["metric"] == "auc")]
    assert norms["value"].item() == 0.5 and norms["chosen"].item()
    assert set(rows.loc[rows["metric"] == "average_precision", "chance"]) == {8 / 26}


@pytest.mark.parametrize(
    ("seen", "known"), [(range(30), [0]), (range(4, 30), []), (range(4, 30), range(4)), (range(4, 30), [0, 9])]
)
def test_without_tokens_to_find_or_to_know_there_is_nothing_to_mark(seen, known):
    checkpoint = Checkpoint("m-w4", 1, 9, np.ones((30, 4)), None)
    mask = np.isin(np.arange(30), [*seen])
    rows = compared_tables.undertrained_tokens([checkpoint], mask, np.array([*known], int))
    assert rows.empty and list(rows.columns) == compared_tables.UNDERTRAINED


def save_checkpoint(folder, table, output):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt_neox"}), "utf-8")
    tensors = {"gpt_neox.embed_in.weight": table} | ({} if output is None else {"embed_out.weight": output})
    save_file({name: np.ascontiguousarray(value, np.float32) for name, value in tensors.items()},
              folder / "model.safetensors")  # fmt: skip


@pytest.fixture
def study(tmp_path):
    """The small corpus, its tokenizer with two bytes that no text holds, and checkpoints of 16 tokens."""
    save_corpus(tmp_path)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    tokenizer["model"]["vocab"] |= {"\u00c0": 14, "\u00ff": 15}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    generator = np.random.default_rng(0)
    for run in (1, 2):
        for step in (0, 3):
            save_checkpoint(tmp_path / f"r{run}/step{step}", *generator.normal(size=(2, 16, 4)))
    return tmp_path


FLAGS = {"rows": 20, "neighbours": 3, "permutations": 19, "groups": 10, "draws": 1, "seed": 1}


def command(folder, *checkpoints, **other):
    given = checkpoints or [f"m-w4:{run}:{step}={folder}/r{run}/step{step}" for run in (1, 2) for step in (0, 3)]
    files = {"corpus": folder, "tokens": folder / "tokens.safetensors", "tokenizer": folder}
    files |= {name: folder / f"{name}.csv" for name in ("similarity", "dimension", "undertrained", "output")}
    words = [word for name, value in (files | FLAGS | other).items() for word in (f"--{name}", str(value))]
    return execute("compare-tables", [*given, "--suite", "mine", *words])


def test_the_command_writes_comparisons_and_their_means(study):
    assert command(study) == 0
    similarity, dimension, undertrained, means = (
        pd.read_csv(study / f"{name}.csv") for name in ("similarity", "dimension", "undertrained", "output")
    )
    assert {*similarity["suite"], *dimension["suite"], *undertrained["suite"], *means["suite"]} == {"mine"}
    ends = similarity[(similarity["relation"] == "input and output") & (similarity["step"] == 3)]
    of_ends = means[(means["relation"] == "input and output") & (means["step"] == 3)].set_index("quantity")
    assert of_ends["value"].to_dict() == pytest.approx(ends.groupby("measure")["calibrated"].mean().to_dict())
    assert (of_ends["runs"] == 2).all() and set(means["about"]) == {"similarity", "dimension", "undertrained"}
    # The separator and twelve words are seen in training; "never" is to be found.
    assert set(similarity["n"]) == {13} and set(dimension["n"]) == {13}
    assert set(undertrained["unseen"]) == {1} and set(undertrained["n"]) == {14}
    assert (study / "output.csv.note.json").is_file()
    before = (study / "similarity.csv").read_bytes()
    assert command(study) == 0 and (study / "similarity.csv").read_bytes() == before


def test_a_table_that_is_stored_twice_is_tied(study):
    table = np.random.default_rng(1).normal(size=(16, 4))
    save_checkpoint(study / "tied/step3", table, table)
    assert command(study, f"m-w4:1:3={study}/tied/step3") == 0
    assert set(pd.read_csv(study / "undertrained.csv")["tied"]) == {"yes"}
    assert pd.read_csv(study / "similarity.csv").empty


def test_what_does_not_fit_is_said_in_a_line(study, capsys):
    assert command(study, f"m-w4:1:0={study}/gone") == 1
    assert "no such f" in capsys.readouterr().err
    save_checkpoint(study / "small", *np.ones((2, 9, 4)))
    assert command(study, f"m-w4:1:0={study}/small") == 1
    assert "holds token 12; the tables have 9 rows" in capsys.readouterr().err
    assert command(study, neighbours=13) == 1
    assert "training sees 13 tokens of the vocabulary; comparing tables by 13 neighbours" in capsys.readouterr().err
    save_checkpoint(study / "nan", np.ones((16, 4)), np.full((16, 4), np.nan))
    assert command(study, f"m-w4:1:0={study}/nan") == 1
    assert "values that are not finite numbers; leave the run out" in capsys.readouterr().err
    assert command(study, "m-w4=folder") == 1
    assert "expected MODEL:RUN:STEP=FOLDER" in capsys.readouterr().err
