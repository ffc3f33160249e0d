"""Figures of the primer and of positions: the same bytes each time, their numbers in words; their page."""

import importlib
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from embscale.checkpoints import suites
from embscale.cli import execute
from embscale.primer import biases, gradients, lookup, order, positions, rotary, sinusoidal, sizes, space
from embscale.primer.numbers import primer_numbers
from embscale.texts.tokens import load_tokenizer

pytestmark = pytest.mark.long

REPORT = Path(__file__).resolve().parents[2] / "report"
REGISTRY = suites.SCHEMA.parents[1] / "suites.yaml"
KEYS = {"suite": "s", "step": 1}


def position_score_rows():
    kinds = [("table alone", None, "score", 0.04), ("learned positions", None, "score", 0.02)]
    kinds += [(kind, seed, "score", 0.03) for seed in (1, 2) for kind in ("random positions", "random table")]
    kinds += [("learned positions", None, "change", -0.02), ("random positions", 1, "change", -0.01)]
    made = pd.DataFrame(kinds, columns=["kind", "seed", "quantity", "value"])
    return made.assign(ci_low=made["value"] - 0.01, ci_high=made["value"] + 0.01, metric="ndcg_at_10", n=9,
                       model="own", **KEYS)  # fmt: skip


@pytest.fixture(scope="module")
def rows(tokenizer_folder):
    """Rows of every figure by its name, from a random table with the tests' tokenizer."""
    tokenizer = load_tokenizer(tokenizer_folder)
    table = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), 8)).astype(np.float32)
    words = [" of a the", " a of the"]
    learned = np.random.default_rng(1).standard_normal((20, 8))
    neox = {"model_type": "gpt_neox", "hidden_size": 32, "num_attention_heads": 2}
    bloom = {"model_type": "bloom", "hidden_size": 32, "n_head": 4}
    return {
        "primer_lookup": lookup.lookup_rows(tokenizer, table, "The table", columns=3, neighbours=1),
        "primer_gradient": gradients.gradient_rows(tokenizer, table, "The table of a model"),
        "primer_space": space.space_rows(tokenizer, table, ["vector", "of", "a", "layer", "xylophone"]),
        "primer_offset": space.offset_rows(tokenizer, table, ["vector", "of", "a"], [0, 5]),
        "primer_order": order.order_rows(tokenizer, table, words, layers=2, seed=1),
        "position_sinusoidal": sinusoidal.sinusoidal_rows(places=12, width=8),
        "position_rotary": rotary.rotary_rows(width=8, base=10_000, first_places=[1, 9], distances=12, pair=1, seed=1),
        "position_biases": biases.bias_rows(heads=4, places=40, buckets=32, max_distance=128),
        "position_tables": positions.table_rows(learned, seeds=[1, 2]).assign(model="own", **KEYS),
        "position_scores": position_score_rows(),
        "position_schemes": pd.concat(
            [
                positions.position_rows(neox, lambda endings: None, places=9, seeds=[]).assign(model="neox", **KEYS),
                positions.position_rows(neox, lambda endings: None, places=9, seeds=[]).assign(model="twin", **KEYS),
                positions.position_rows(bloom, lambda endings: None, places=9, seeds=[]).assign(model="bloom", **KEYS),
            ]
        ),
    }


@pytest.fixture(scope="module")
def registry_sizes(tmp_path_factory):
    return sizes.size_rows(suites.load(REGISTRY, tmp_path_factory.mktemp("pins") / "none"))


@pytest.fixture(scope="module")
def values(rows, registry_sizes):
    names = ("lookup", "gradient", "space", "order")
    return primer_numbers(**{name: rows[f"primer_{name}"] for name in names}, sizes=registry_sizes)


# What each description must say, computed by hand or from the rows.
WORDS = {
    "primer_lookup": "a table of 300 rows and 8 columns",
    "primer_gradient": "by way of the softmax, 300 do",
    "primer_space": "Without a point, being several tokens: xylophone.",
    "primer_offset": "3 words (vector, of, a) as points, with arrows to where positions move them at the places 0, 5.",
    "primer_order": "no mask, no positions, mean over tokens: 0, 0, 0; ",
    "position_sinusoidal": "8 columns for 12 places",
    "position_rotary": "differ by 0.00 at most",
    "position_biases": "each of 4 heads, with slopes from 0.25 to 0.00391",
    "position_tables": "own: cosine of neighbours",
    "position_scores": "change, learned positions: -2.00 (-3.00 to -1.00)",
    "position_schemes": "rotary positions of neox, twin, from 1.00 to 0.",
}


def draw(name, frame, folder):
    """The figure and its partial, as the command makes them."""
    folder.mkdir(exist_ok=True)
    rows = folder.parent / f"{name}.csv"
    frame.to_csv(rows, index=False)
    svg, partial = folder / f"{name}.svg", folder / f"{name}.md"
    arguments = [name, "--rows", str(rows), "--svg", str(svg), "--partial", str(partial)]
    arguments += ["--data", str(folder / f"{name}-rows.csv")]
    assert execute("draw", [*arguments, "--image", f"figures/{name}.svg"]) == 0
    return svg.read_bytes(), partial.read_text()


@pytest.mark.parametrize("name", WORDS)
def test_the_same_bytes_twice_and_the_numbers_in_words(rows, name, tmp_path):
    svg, partial = draw(name, rows[name], tmp_path / "a")
    assert (svg, partial) == draw(name, rows[name], tmp_path / "b")
    assert svg.count(b"<") > 60
    assert re.match(rf'!\[\]\(figures/{name}\.svg\){{fig-alt="[^\n]{{80,}}"}}\n\n<details', partial)
    assert WORDS[name] in partial


@pytest.mark.parametrize("name", WORDS)
def test_rows_have_the_columns_that_their_figure_names(rows, name):
    assert set(importlib.import_module(f"embscale.figures.{name}").COLUMNS) <= set(rows[name])


@pytest.mark.parametrize(
    ("name", "other", "words"),
    [
        ("position_tables", "position_schemes", "No model of this study has learned positions: **not run**."),
    ],
)
def test_a_scheme_that_no_model_has_is_said_in_the_figures_place(rows, name, other, words, tmp_path):
    _, partial = draw(name, rows[other], tmp_path)
    assert partial.startswith(f"{words}\n\n<details")


def test_learned_positions_are_a_scheme_and_random_ones_are_none(rows, tmp_path):
    _, partial = draw("position_schemes", rows["position_tables"], tmp_path / "a")
    assert "learned positions of own, from 1.00" in partial
    random = rows["position_tables"].query("kind == 'random'")
    _, partial = draw("position_schemes", random, tmp_path / "b")
    assert partial.startswith(
        "No model of this study has a scheme of positions that is known: **not run**.\n\n<details"
    )


def test_numbers_by_hand(values):
    assert values["products"] == f"{values['tokens'] * 300 * 8:,}" and values["copies"] == str(values["tokens"] * 8)
    assert values["text"] == "The table" and values["ids"].count(",") == values["tokens"] - 1
    assert (values["words"], values["words_missing"]) == (4, 1)
    assert (values["order_blind"], values["order_causal_last_first"], values["orders"]) == ("0 %", "0 %", 2)
    assert values["order_causal"] != "0 %"
    assert (values["gpt3_shape"], values["gpt3_size"], values["resnet_size"]) == ("50,257 × 12,288", "617.6", "25.6")
    assert values["largest_model"] == "pythia-14m"
    assert sum(values[f"models_{scheme}"] for scheme in ("learned", "rotary", "alibi", "relative")) == values["models"]


def test_the_page_renders_with_every_figure_number_and_reference(rows, values, registry_sizes, tmp_path):
    text = (REPORT / "chapters" / "primer.qmd").read_text("utf-8")
    for name in WORDS:
        draw(name, rows[name], tmp_path / "figures")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "sizes.md").write_text(sizes.sizes_table(registry_sizes), "utf-8")
    (tmp_path / "_variables.yml").write_text(yaml.safe_dump({"primer": values}), "utf-8")
    for name in ("_quarto.yml", "chapters/primer.qmd"):
        shutil.copyfile(REPORT / name, tmp_path / Path(name).name)
    bibliography = (REPORT / "references.bib").read_text("utf-8")
    cited = {key for group in re.findall(r"\[@([^\]]+)\]", text) for key in group.replace("@", "").split("; ")}
    assert len(cited) > 5
    stand_ins = [f"@misc{{{key}, title = {{T}}}}" for key in sorted(cited) if f"{{{key}," not in bibliography]
    (tmp_path / "references.bib").write_text("\n".join([bibliography, *stand_ins]), "utf-8")
    index = "---\ntitle: T\nbibliography: references.bib\n---\n\n{{< include primer.qmd >}}\n"
    index += "\n## Scores {#sec-scaling}\n\nA.\n\n## Layers {#sec-layers}\n\nB.\n"
    (tmp_path / "index.qmd").write_text(index, "utf-8")
    page = tmp_path / "page.html"
    assert execute("render", [str(tmp_path / "index.qmd"), "-o", str(page), "--renderer", "pandoc"]) == 0
    html = page.read_text("utf-8")
    assert html.count("<figure") >= len(WORDS) and html.count("<math") > 20
    used = set(re.findall(r"var primer\.(\w+)", text))
    assert used <= set(values) and len(used) > 20
