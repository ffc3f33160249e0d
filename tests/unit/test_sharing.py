"""The licence gate decides for each row of the registry."""

from pathlib import Path

import pytest

from embscale.checkpoints import suites
from embscale.checkpoints.sharing import withheld

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def registry():
    return suites.load(ROOT / "workflow/suites.yaml", ROOT / "workflow/pins.yaml")


def test_every_row_of_the_registry_is_let_through_or_withheld_by_its_licence(registry):
    rows = [row for suite in registry.values() for row in suite]
    assert {row.redistributable for row in rows} == {True, False}
    for row in rows:
        for path in (
            f"results/hub/tables/{row.model}/{row.name}.safetensors",
            f"results/desk/states/{row.model}.safetensors",
            f"results/desk/states/{row.model}.heldout.safetensors",
        ):
            assert (path in withheld([path], registry)) is not row.redistributable, path


def test_checkpoints_and_texts_are_never_pushed_whatever_their_licence(registry):
    paths = [
        "results/hub/checkpoints/pythia-14m/main/model.safetensors",
        "results/hub/tokenizers/gpt2/tokenizer.json",
        "results/hub/tasks/SCIDOCS/corpus.jsonl.gz",
        "results/hub/texts/imdb.jsonl.gz",
    ]
    assert withheld(paths, registry).keys() == set(paths)


def test_results_notes_and_the_ladder_are_let_through(registry):
    paths = [
        "results/desk/scores.csv",
        "results/desk/per_query/SCIDOCS/Llama-2-7b-hf.parquet",
        "results/hub/tables/Llama-2-7b-hf/main.safetensors.note.json",
        "results/desk/tables/ladder-w16/step400.safetensors",
    ]
    assert withheld(paths, registry) == {}


def test_a_table_that_no_row_tells_of_is_withheld_with_the_reason(registry):
    path = "results/hub/tables/stranger/main.safetensors"
    assert withheld([path], registry) == {path: "the registry has no licence for it"}
    llama = "results/hub/tables/Llama-2-7b-hf/main.safetensors"
    assert "the licence of Llama-2-7b-hf (" in withheld([llama], registry)[llama]
