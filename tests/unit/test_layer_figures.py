"""Figures of the layers' and tables' geometry: drawn, described with their numbers, for few and for many layers."""

import importlib
import re

import numpy as np
import pandas as pd
import pytest

from embscale.cli import execute
from embscale.figures import layer_norms, layer_reductions, layer_structure, table_metrics
from embscale.plotting.layers import TICKS

pytestmark = pytest.mark.long

WIDTHS = (16, 32)
LAYERS = ("embedding", "block 1", "block 2")
MODELS = [(f"ladder-w{width}", width) for width in WIDTHS]


def point_rows(reductions=("pca", "tsne", "umap")):
    generator = np.random.default_rng(0)
    frames = [
        pd.DataFrame({"x": generator.normal(size=10), "y": generator.normal(size=10)}).assign(
            suite="ladder", model=model, step=40, width=width, reduction=reduction, scaling=scaling, layers=layers,
            layer=layer, layer_index=i,
            explained1=0.4 if reduction == "pca" else np.nan, explained2=0.2 if reduction == "pca" else np.nan,
            trustworthiness=0.9 if scaling == "raw" else 0.8,
        )
        for model, width in MODELS
        for reduction in reductions
        for scaling in ("raw", "unit", "outlier_removed")
        for layers in ("all", "blocks")
        for i, layer in enumerate(LAYERS)
        if layers == "all" or i
    ]  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def norm_rows(layers=LAYERS, sets=("all", "after_first")):
    return pd.DataFrame(
        [
            {"model": model, "width": width, "positions": positions, "layer": layer, "layer_index": i,
             "after_final_norm": layer == "final norm", "min": 2.0**i / 2, "mean": 2.0**i, "max": 2.0**i * 2,
             "growth": 2.0, "growth_low": 1.9, "growth_high": 2.1}
            for model, width in MODELS for positions in sets for i, layer in enumerate((*layers, "final norm"))
        ]
    )  # fmt: skip


def structure_rows(layers=LAYERS):
    rows = []
    for model, width in MODELS:
        shared = {"model": model, "width": width, "scaling": "unit", "n": 100, "reference": 0.1, "layer_b": ""}
        for i, a in enumerate(layers):
            for scaling in ("raw", "unit"):
                for quantity, value in (
                    ("effective_rank", width / (i + 1)),
                    ("participation_ratio", width / (2 * i + 2)),
                ):
                    rows.append(shared | {"scaling": scaling, "quantity": quantity, "layer_a": a, "value": value})
            for j, b in enumerate(layers[i:], i):
                for quantity in layer_structure.MEASURES:
                    if i < j or quantity == "subspace_overlap":
                        value = 0.95 if i == j else 1 / (1 + j - i)
                        rows.append(shared | {"quantity": quantity, "layer_a": a, "layer_b": b, "value": value})
    frame = pd.DataFrame(rows)
    return frame.assign(ci_low=frame["value"] - 0.01, ci_high=frame["value"] + 0.01)


def lens_rows():
    return pd.DataFrame(
        [
            {"model": model, "width": width, "layer": layer, "layer_index": i, "metric": metric, "value": value,
             "ci_low": value - 0.05, "ci_high": value + 0.05, "reference": 0.02}
            for model, width in MODELS for i, layer in enumerate((*LAYERS, "final norm"))
            for metric, value in (("agreement", min(1, i / 2)), ("kl_divergence", max(0, 2.0 - i)))
        ]
    )  # fmt: skip


def table_rows():
    return pd.DataFrame(
        [
            {"suite": suite, "model": f"{suite}-{width}", "step": step, "width": width, "stratum": stratum,
             "scaling": scaling, "quantity": quantity, "reference": width / 2,
             "value": (width if share else 1) * (0.5 if step == 5 else 0.9 if step == 0 else 0.1)}
            for suite, steps in (("ladder", (0, 2, 5)), ("pythia", (np.nan,))) for width in WIDTHS for step in steps
            for stratum in ("all", "rare") for quantity, scaling, _, share in table_metrics.PANELS
        ]
    )  # fmt: skip


FIGURES = {
    "layer_reductions": (
        point_rows,
        "PCA, width 32, blocks alone, at unit length: 60 % of the variance, trustworthiness 0.80",
    ),
    "layer_norms": (
        norm_rows,
        "ladder-w16 with the first position from 1.00 to 4.00, a factor of 2.000 [1.900, 2.100]",
    ),
    "layer_structure": (
        structure_rows,
        "neighbours kept: neighbouring layers 0.50 to 0.50, first and last 0.33, by chance 0.10",
    ),
    "layer_spread": (
        structure_rows,
        "participation ratio / width, from the first layer to the last: ladder-w16 from 0.50 to 0.17, ladder-w32 from",
    ),
    "layer_lens": (lens_rows, "ladder-w16 0.0 % at embedding (by chance 2.0 %), 50.0 % at block 1"),
    "table_metrics": (
        table_rows,
        "effective rank / width, ladder: 0.500 at 16 columns, 0.500 at 32 (Gaussian rows 0.500)",
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_the_command_draws_the_same_bytes_and_describes_them(name, tmp_path):
    rows, words = FIGURES[name]
    rows().to_csv(tmp_path / "rows.csv", index=False)
    for run in ("a", "b"):
        files = ["--svg", str(tmp_path / f"{run}.svg"), "--partial", str(tmp_path / f"{run}.md")]
        files += ["--data", str(tmp_path / f"{run}-rows.csv")]
        assert execute("draw", [name, "--rows", str(tmp_path / "rows.csv"), *files, "--image", "f.svg"]) == 0
    svg = (tmp_path / "a.svg").read_bytes()
    assert svg == (tmp_path / "b.svg").read_bytes() and svg.count(b"<") > 60
    partial = (tmp_path / "a.md").read_text()
    assert re.match(r'!\[\]\(f\.svg\)\{fig-alt="[^"]{80,}"\}\n', partial) and words in partial


@pytest.mark.parametrize("name", FIGURES)
def test_a_missing_column_is_reported(name, tmp_path, capsys):
    column = importlib.import_module(f"embscale.figures.{name}").COLUMNS[0]
    FIGURES[name][0]().drop(columns=column).to_csv(tmp_path / "rows.csv", index=False)
    files = ["--svg", str(tmp_path / "a.svg"), "--partial", str(tmp_path / "a.md")]
    files += ["--data", str(tmp_path / "a-rows.csv")]
    assert execute("draw", [name, "--rows", str(tmp_path / "rows.csv"), *files]) == 1
    assert f"rows.csv: no column '{column}'" in capsys.readouterr().err


def test_pictures_that_were_not_made_are_left_out():
    shown = layer_reductions.pictures(point_rows(("pca",)))
    assert shown == [("ladder-w16", "pca", "all"), ("ladder-w32", "pca", "all"), ("ladder-w32", "pca", "blocks")]
    one = point_rows(("pca",)).query("width == 32")
    assert layer_reductions.pictures(one) == [("ladder-w32", "pca", "all"), ("ladder-w32", "pca", "blocks")]


def test_norms_of_a_model_without_a_final_norm_are_drawn():
    rows = norm_rows()
    assert layer_norms.draw(rows[~rows["after_final_norm"]]).axes
    assert len(layer_norms.draw(norm_rows(sets=("after_first",))).axes) == 1


def test_a_heat_map_holds_both_halves_and_a_diagonal():
    rows = structure_rows().query("width == 32")
    overlap = layer_structure.matrix(rows, "subspace_overlap").to_numpy()
    assert np.diag(overlap).tolist() == [0.95] * 3 and np.array_equal(overlap, overlap.T) and overlap[0, 2] == 1 / 3
    assert np.diag(layer_structure.matrix(rows, "linear_cka_debiased")).tolist() == [1] * 3


@pytest.mark.parametrize("blocks", [5, 48])
def test_names_of_many_layers_do_not_overlap(blocks):
    layers = ("embedding", *(f"block {i}" for i in range(1, blocks + 1)))
    axes = layer_norms.draw(norm_rows(layers)).axes[0]
    places, names = axes.get_xticks(), [label.get_text() for label in axes.get_xticklabels()]
    assert names[0] == "table" and names[-1] == "norm" and len(names) <= TICKS
    assert np.diff(places).min() > 0.04 * blocks
    assert not layer_structure.draw(structure_rows(layers)).axes[0].texts or blocks < layer_structure.ANNOTATED


def test_tables_between_the_first_and_the_last_are_left_out():
    shown = table_metrics._shown(table_rows())
    assert shown.groupby("suite")["kind"].unique().map(sorted).to_dict() == {
        "ladder": ["trained", "untrained"], "pythia": ["trained"]
    }  # fmt: skip
    assert set(shown["stratum"]) == {"all"} and 2 not in set(shown["step"])
