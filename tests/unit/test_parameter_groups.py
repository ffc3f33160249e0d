"""The schema, params.yaml, the flags of commands and the docs come from one dataclass per group of parameters."""

import argparse
import copy
import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
import yaml

import reference
from embscale import cli
from embscale.__main__ import commands
from embscale.errors import EmbscaleError
from embscale.parameters import flags, runs, schema
from embscale.parameters.checking import ParameterError, read
from embscale.parameters.kinds import SOME, Count, Share
from embscale.parameters.layers import Fits
from embscale.parameters.scores import Words
from embscale.parameters.study import Study, check_study, study_schema

ROOT = Path(__file__).resolve().parents[2]
PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text("utf-8"))


@dataclass(frozen=True)
class Example:
    """An example.

    More of it.
    """

    counts: Annotated[tuple[Count, ...], SOME, "some numbers"]
    share: Annotated[Share, "of 100 %"]
    way: Annotated[Literal["a", "b"], "which way"]
    strict: Annotated[bool, "whether or not"]


def test_a_group_is_a_json_schema():
    assert schema.of_group(Example) == {
        "type": "object",
        "description": "An example.",
        "additionalProperties": False,
        "required": ["counts", "share", "way", "strict"],
        "properties": {
            "counts": {
                "type": "array",
                "items": {"type": "integer", "minimum": 1},
                "minItems": 1,
                "uniqueItems": True,
                "description": "some numbers",
            },
            "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "description": "of 100 %"},
            "way": {"enum": ["a", "b"], "description": "which way"},
            "strict": {"type": "boolean", "description": "whether or not"},
        },
    }


def parsed(words, **options):
    parser = argparse.ArgumentParser(exit_on_error=False)
    flags.add(parser, Example, **options)
    return parser.parse_args(words)


def test_flags_carry_a_group_there_and_back():
    values = {"counts": [1, 2], "share": 0.5, "way": "b", "strict": True}
    line = flags.line(Example, values)
    assert line == "--counts 1 2 --share 0.5 --way b --strict"
    args = parsed(shlex.split(line))
    assert flags.problems(args) == [] and not hasattr(args, flags.GROUPS)
    assert flags.read(args, Example) == Example((1, 2), 0.5, "b", True) == schema.build(Example, values)


def test_defaults_can_be_left_out_and_are_shown():
    given = {"counts": [3], "share": 0.25}
    assert flags.read(parsed(["--way", "a"], defaults=given), Example) == Example((3,), 0.25, "a", False)
    parser = argparse.ArgumentParser()
    flags.add(parser, Example, defaults=given)
    assert "of 100 % (0.25)" in parser.format_help()


@pytest.mark.parametrize(
    "words, told",
    [
        ("--counts 0 --share 0.5 --way a", "--counts[0]: given 0 (a whole number); allowed: a whole number at"),
        (
            "--counts 1 --share 1.5 --way a",
            "--share: given 1.5 (a decimal number); allowed: a number above 0 and below",
        ),
        ("--counts 2 2 --share 0.5 --way a", "--counts: given [2, 2] (a list of 2); allowed: a list of at least 1"),
        ("--share 0.5 --way a --counts", "--counts: given [] (a list of 0); allowed: a list of at least 1 items"),
    ],
)
def test_a_value_out_of_bounds_is_named_with_what_is_allowed(words, told):
    assert flags.problems(parsed(words.split()))[0].startswith(told)


def test_a_command_says_so_in_one_line(capsys):
    line = flags.line(Fits, PARAMS["layers"]).replace("--chunk 4096", "--chunk 0")
    own = "transfer --states a=b c=d --suite s --model m --step 1 -o out.csv"
    with pytest.raises(SystemExit):
        cli.parse("transfer", [*own.split()[1:], *shlex.split(line)])
    error = capsys.readouterr().err
    assert error.startswith("embscale transfer: --chunk: given 0 (a whole number); allowed: a whole number at least 1")
    assert error.count("\n") == 1


@pytest.mark.parametrize("words", ["gather a --bootstrap-resample 5", "primer rotary --bootstrap-resample=5"])
def test_an_unknown_flag_is_named_with_the_nearest_known_one(words, capsys):
    command, *rest = words.split()
    with pytest.raises(SystemExit):
        cli.parse(command, rest)
    nearest = "; did you mean --bootstrap-resamples?" if command == "gather" else ""
    assert f"embscale {command}: no flag --bootstrap-resample{nearest} (" in capsys.readouterr().err


def test_params_yaml_names_the_parameters_of_the_dataclasses_in_their_groups():
    def same(group, values):
        assert set(values) == {parameter.name for parameter in schema.parameters(group)}
        for parameter in schema.parameters(group):
            inner = schema.plain(parameter.kind)
            if schema.is_group(inner) and not schema.is_list(parameter.kind):
                same(inner, values[parameter.name])

    same(Study, PARAMS)


def test_every_parameter_says_what_it_means():
    for path, _, parameter in reference.leaves(Study):
        assert parameter.meaning, path
    for group in {group for several in reference.taken_by().values() for group in several}:
        assert schema.of_group(group)["description"] and all(p.meaning for p in schema.parameters(group)), group


def test_the_editors_schema_and_the_docs_are_those_of_the_dataclasses():
    told = "run make docs"
    assert json.loads((ROOT / "workflow/schema/params.schema.json").read_text("utf-8")) == study_schema(), told
    assert (ROOT / "docs/parameters.md").read_text("utf-8") == reference.table(), told
    assert (ROOT / "src/embscale/README.md").read_text("utf-8") == reference.package_map(), told
    first = (ROOT / "params.yaml").read_text("utf-8").partition("\n")[0]
    assert first == "# yaml-language-server: $schema=workflow/schema/params.schema.json"


def test_studies_lead_editors_to_the_same_schema():
    for overlay in (ROOT / "studies").glob("*.yaml"):
        assert "yaml-language-server" not in overlay.read_text("utf-8")  # an overlay need not have all keys


def test_every_parameter_of_a_command_is_one_flag_of_its_name():
    for command in commands():
        known = cli.flags_of(command)
        for group in flags.groups(cli.parser(command)):
            assert {parameter.name for parameter in schema.parameters(group)} <= known, (command, group)


def test_a_note_is_enough_for_the_command_line():
    values = {"scores": ["a.parquet", "b c.parquet"], "csv": "x.csv", "parquet": "y", "bootstrap_resamples": 5}
    values |= {"bootstrap_seed": 1}
    words = cli.line("gather", values)
    assert words[:3] == ["gather", "a.parquet", "b c.parquet"]
    args = vars(cli.parse(words[0], words[1:]))
    assert {name: args[name] for name in ("bootstrap_resamples", "bootstrap_seed")} == {
        "bootstrap_resamples": 5,
        "bootstrap_seed": 1,
    }
    with pytest.raises(EmbscaleError, match="embscale gather has no flag for unknown"):
        cli.line("gather", values | {"unknown": 1})


def test_words_of_a_group_are_quoted_for_a_shell():
    values = {"analogies": ["a b.txt"], "similarity": [], "random_seeds": [1], "resamples": 2, "seed": 3}
    line = flags.line(Words, values)
    assert "'a b.txt'" in line
    words = shlex.split(line)
    assert words[words.index("--analogies") + 1] == "a b.txt"
    assert words.index("--similarity") == len(words) - 1 or words[words.index("--similarity") + 1].startswith("--")


def changed(**values):
    """The default parameters with some of them changed, by dotted names with two underscores for dots."""
    config = copy.deepcopy(PARAMS)
    for dotted, value in values.items():
        *path, name = dotted.split("__")
        group = config
        for part in path:
            group = group[part]
        group[name] = value
    return config


# Variations of the ladder that cannot be trained, or are no variations.
IMPOSSIBLE = [
    ("wide", {"widths": [64, 72]}, "ladder.variations.wide.widths: 72 is no multiple of ladder.head_width, 16"),
    ("heads", {"head_width": 24}, "ladder.variations.heads.widths: 16 is no multiple of ladder.variations.heads.head_"),
    (
        "short",
        {"steps": 50, "checkpoints": [0, 400]},
        "ladder.variations.short.checkpoints: 400 comes after the last of ladder.variations.short.",
    ),
    ("w64", {"blocks": 8}, "ladder.variations.w64: its suite would have the name of a model, ladder-w64; choose an"),
    (
        "same",
        {"tied": False},
        "ladder.variations.same: its runs are runs of ladder with the same settings; let it differ",
    ),
    (
        "few",
        {"widths": [64], "seeds": [2]},
        "ladder.variations.few: its runs are runs of ladder with the same settings",
    ),
]


@pytest.mark.parametrize(
    "values, line",
    [
        *(({"ladder__variations": {name: other}}, line) for name, other, line in IMPOSSIBLE),
        (
            {"ladder__left_out": {"ladder-w64": "diverged"}},
            "ladder.left_out: ladder-w64 is the first run of its model, which the",
        ),
        (
            {"ladder__widths": [64], "ladder__left_out": {"ladder-w32-seed2": "diverged"}},
            "ladder.left_out: ladder-w32-seed2 is no run of the study; there are ladder-w64-seed2, ladder-w64-seed3",
        ),
        (
            {"ladder__seeds": [1], "ladder__left_out": {"ladder-w32-seed2": "diverged"}},
            "ladder.left_out: ladder-w32-seed2 is no run of the study; there are no further runs",
        ),
        ({"ladder__widths": [24]}, "ladder.widths: 24 is no multiple of ladder.head_width, 16"),
        ({"positions__learned_width": 24}, "positions.learned_width: 24 is no multiple of ladder.head_width, 16"),
        ({"ladder__steps": 100}, "ladder.checkpoints: 400 comes after the last of ladder.steps, 100"),
        ({"warm_start__steps": 50}, "warm_start.checkpoints: 100 comes after the last of warm_start.steps, 50"),
        ({"warm_start__dim": 24}, "warm_start.dim: 24 is no multiple of ladder.head_width, 16"),
        (
            {"static__methods": {"ppmi-svd": {"window": 5}}, "warm_start__method": "cbow"},
            "warm_start.method: cbow is not among static.methods; there are ppmi-svd",
        ),
        ({"tuning__dim": 24}, "tuning.dim: 24 is no multiple of ladder.head_width, 16"),
        (
            {"tuning__grids": {"ladder": {"learning_rate": [0.01]}}},
            "tuning.grids: cbow has no grid; each of static.methods needs one",
        ),
        (
            {"tuning__grids__cbow": {"window": [5]}},
            "tuning.grids: unequal numbers of values (ladder 3, cbow 1, ",
        ),
        ({"scores__metrics": ["map_at_100"]}, "scores.primary_metric: ndcg_at_10 is not among scores.metrics"),
        ({"claims__task": "SCIDOCS"}, "claims.task: SCIDOCS is no task of the study; there are PyDocsSeeAlso"),
        ({"tasks": ["PyDocsSeeAlso"]}, "tasks: PyDocsSeeAlso is the name of the study's own task, corpus.task"),
        ({"tasks": ["PyFunctionSummaries"]}, "tasks: PyFunctionSummaries is the name of the study's own task, corpus."),
        ({"corpus__code_task": "PyDocsSeeAlso"}, "corpus.code_task: PyDocsSeeAlso is also the name of corpus.task"),
        ({"corpus__heldout_packages": ["torch"]}, "corpus.heldout_packages: torch is not among corpus.packages, mat"),
        (
            {"corpus__heldout_packages": [package.partition("==")[0] for package in PARAMS["corpus"]["packages"]]},
            "corpus.heldout_packages: all of corpus.packages are held out",
        ),
        ({"layers__min_tokens": 8}, "layers.min_tokens: 8 is below layers.tokens, 32"),
        ({"layers__grid__windows": [256]}, "layers.grid.windows: 256 is above ladder.context, 128"),
        ({"layers__first_position": 8}, "layers.first_position: 8 leaves nothing of the shortest window, 8"),
        ({"ladder__context": 16, "scores__lengths": [16]}, "layers.tokens: 32 is above ladder.context, 16"),
        (
            {"scores__layers__suites": ["ladder", "gpt2"]},
            "scores.layers.suites: gpt2 is neither ladder nor among layers.suites, whose whole checkpoints are fetched",
        ),
        ({"scores__lengths": [64, 129, "all"]}, "scores.lengths: 129 is above ladder.context, 128"),
        (
            {"scores__comparison__rows": 20, "scores__comparison__groups": 20},
            "scores.comparison.groups: 20 is not below scores.comparison.rows, 20",
        ),
        (
            {"scores__comparison__neighbours": 4096},
            "scores.comparison.neighbours: 4096 is not below scores.comparison.rows, 2048",
        ),
        ({"scores__variants": ["crop:4", "crop:04"]}, "scores.variants: crop:04 is the same as crop:4; keep one of"),
        ({"scores__factors__variants": ["sif:0.001", "sif:1e-3"]}, "scores.factors.variants: sif:1e-3 is the same as"),
        ({"scores__variants": ["sif:1e-3-4"]}, "scores.variants: sif:1e-3-4 has a part that is no number"),
        ({"primer__rotary__pair": 8}, "primer.rotary.pair: 8 is beyond the pairs of primer.rotary.width, 16"),
    ],
)
def test_contradictions_between_groups_stop_before_the_first_job(values, line):
    with pytest.raises(ParameterError) as error:
        check_study(changed(**values), source="mine.yaml")
    assert str(error.value).startswith(f"mine.yaml: {line}")


def test_sources_of_texts_have_names_of_their_own_and_are_known():
    sources = [{**PARAMS["layers"]["texts"][0]}, {**PARAMS["layers"]["texts"][0], "of": "imdb"}]
    with pytest.raises(ParameterError) as error:
        check_study(changed(layers__texts=sources))
    assert str(error.value).splitlines() == [
        "params.yaml: layers.texts: two sources have the name docstrings",
        "params.yaml: layers.texts: imdb is neither a file nor one of heldout, code",
    ]


@pytest.mark.parametrize("overlay", sorted((ROOT / "studies").glob("*.yaml")), ids=lambda path: path.stem)
def test_no_study_of_the_repository_contradicts_itself(overlay):
    check_study(read(ROOT / "params.yaml", [overlay]), source=overlay.name)


def test_variations_that_can_be_trained_are_let_through():
    """Of its own head width, with more seeds than the ladder, and one that others resemble only in part."""
    variations = {
        "heads": {"head_width": 8, "widths": [24]},
        "seeds": {"widths": [64], "seeds": [3, 4]},
        "tied": {"tied": True},
        "deep": {"tied": True, "blocks": 8},
    }
    check_study(changed(ladder__variations=variations, ladder__left_out={"ladder-deep-w64-seed2": "diverged"}))


def test_two_variations_do_not_train_the_same_runs():
    with pytest.raises(ParameterError, match=r"variations.b: its runs are runs of ladder-a with"):
        check_study(changed(ladder__variations={"a": {"tied": True}, "b": {"tied": True, "widths": [32]}}))


def test_runs_of_the_ladder_have_names_and_settings_of_their_own():
    ladder = PARAMS["ladder"] | {
        "widths": [16, 32],
        "seeds": [4, 7],
        "checkpoints": [9, 0],
        "left_out": {"ladder-w32-seed7": "diverged"},
    }
    made = runs.runs(ladder | {"variations": {"tied": {"tied": True, "widths": [16], "seeds": [5]}}})
    assert list(made) == ["ladder-w16", "ladder-w16-seed7", "ladder-w32", "ladder-tied-w16"]
    assert [run[:5] for run in made.values()] == [
        ("ladder-w16", 4, "ladder", 16, "rotary"),
        ("ladder-w16", 7, "ladder", 16, "rotary"),
        ("ladder-w32", 4, "ladder", 32, "rotary"),
        ("ladder-tied-w16", 5, "ladder-tied", 16, "rotary"),
    ]
    assert [run.settings["tied"] for run in made.values()] == [False, False, False, True]
    assert made["ladder-w16"].checkpoints == ["step0", "step9"]


def test_a_shorter_variation_has_the_checkpoints_up_to_its_end():
    from embscale.parameters.runs import ladders

    ladder = {"steps": 9, "checkpoints": [0, 3, 9], "widths": [8], "seeds": [1]}
    variations = {"short": {"steps": 5}, "own": {"steps": 5, "checkpoints": [0, 5]}, "tied": {"tied": True}}
    found = ladders(ladder | {"variations": variations})
    assert {name: settings["checkpoints"] for name, settings in found.items()} == {
        "ladder": [0, 3, 9], "ladder-short": [0, 3], "ladder-own": [0, 5], "ladder-tied": [0, 3, 9]
    }  # fmt: skip


HUB_TEXTS = {"dataset": "a/b", "revision": "0" * 40, "subset": "s", "split": "train", "column": "text"}


@pytest.mark.parametrize(
    "values",
    [
        {"study": "mine\n"},
        {"tasks": [".."]},
        {"tasks": ["--help"]},
        {"tasks": ["SCIDOCS\n"]},
        {"other_tasks": ["-x"]},
        {"suites": ["."]},
        {"tokenizer__name": "bpe\n"},
        {"layers__base": "--help"},
        {"primer__lookup__text": "--help"},
        {"words__analogies": ["--help"]},
        {"words__similarity": ["a\nb"]},
        {"scores__variants": ["unit\n"]},
        {"corpus__packages": ["numpy==1.0\n"]},
        {"texts": {"code": HUB_TEXTS}},
    ],
)
def test_words_that_are_flags_folders_or_two_lines_are_no_names(values):
    (dotted,) = values
    with pytest.raises(ParameterError) as error:
        check_study(changed(**values))
    assert str(error.value).startswith(f"params.yaml: {dotted.replace('__', '.')}") and "\n" not in str(error.value)
