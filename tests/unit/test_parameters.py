"""Every problem of the parameters is told in one line that says what to write instead."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from embscale.checkpoints import suites
from embscale.parameters import checking as parameters
from embscale.parameters.study import study_schema

ROOT = Path(__file__).resolve().parents[2]

SCHEMA = """
$schema: https://json-schema.org/draft/2020-12/schema
type: object
additionalProperties: false
required: [ladder, seed]
properties:
  seed: {type: integer, minimum: 0}
  device: {enum: [auto, cpu, cuda]}
  threshold: {anyOf: [{type: number, minimum: 0}, {const: null}]}
  choice:
    oneOf:
      - {type: string}
      - {type: object, additionalProperties: false, properties: {folds: {type: integer}}}
  tasks:
    type: object
    propertyNames: {pattern: "^[a-z]+$"}
    additionalProperties: {type: boolean}
  sides:
    propertyNames: {enum: [input, output]}
  layers:
    type: object
    patternProperties: {"^layer[0-9]+$": {type: number}}
    additionalProperties: false
  ladder:
    type: object
    additionalProperties: false
    required: [steps]
    properties:
      steps: {type: integer, minimum: 1}
      rate: {type: number, exclusiveMinimum: 0, maximum: 1}
      widths: {type: array, minItems: 1, uniqueItems: true, items: {$ref: "#/$defs/width"}}
$defs:
  width: {type: integer, minimum: 8, multipleOf: 8}
"""
GOOD = """
seed: 0
device: cpu
threshold: null
choice: {folds: 5}
tasks: {retrieval: true}
layers: {layer0: 0.5}
ladder: {steps: 10, rate: 1.0e-3, widths: [16, 32]}
"""


@pytest.fixture
def problems():
    """A function from YAML text, laid over the good parameters, to the lines of the error."""
    schema = yaml.safe_load(SCHEMA)

    def check(text, drop=()):
        config = yaml.safe_load(GOOD)
        for key, value in (yaml.safe_load(text) or {}).items():
            merged = isinstance(value, dict) and key == "ladder"
            config[key] = config[key] | value if merged else value
        for key in drop:
            del config[key]
        try:
            parameters.check(config, schema)
        except parameters.ParameterError as error:
            return str(error).splitlines()
        return []

    return check


def test_good_parameters_pass(problems):
    assert problems("") == []


@pytest.mark.fault(
    "a parameter that is misspelt, of another kind or out of bounds",
    happens="one line before the first job: key, given, allowed",
    do="correct it",
)
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "ladder: {stepz: 3}",
            "params.yaml: ladder.stepz: unknown key; known here: steps, rate, widths; did you mean steps?",
        ),
        (
            "device: cdua",
            'params.yaml: device: given "cdua" (text); allowed: one of auto, cpu, cuda; did you mean cuda?',
        ),
        ("seed: -1", "params.yaml: seed: given -1 (a whole number); allowed: a whole number at least 0"),
        (
            f"seed: 1{'0' * 30}",
            "params.yaml: seed: given a whole number beyond 9007199254740992, the largest that is taken; allowed: a "
            "whole number at least 0",
        ),
        ("seed: true", "params.yaml: seed: given true (true or false); allowed: a whole number at least 0"),
        ("seed: 3.0", "params.yaml: seed: given 3.0 (a decimal number); allowed: a whole number at least 0"),
        ("seed:", "params.yaml: seed: given nothing (null); allowed: a whole number at least 0"),
        (
            "ladder: {rate: 1e-3}",
            'params.yaml: ladder.rate: given "1e-3" (text); allowed: a number above 0 and at most 1'
            "; YAML reads 1e-3 as text: write 1.0e-3",
        ),
        (
            "ladder: {steps: 1e6}",
            'params.yaml: ladder.steps: given "1e6" (text); allowed: a whole number at least 1'
            "; YAML reads 1e6 as text: write the whole number out",
        ),
        (
            "ladder: {rate: .nan}",
            "params.yaml: ladder.rate: given nan (a decimal number); allowed: a number above 0 and at most 1",
        ),
        (
            "ladder: {widths: [16, 20]}",
            "params.yaml: ladder.widths[1]: given 20 (a whole number); "
            "allowed: a whole number at least 8 and a multiple of 8",
        ),
        (
            "ladder: {widths: [16, 16]}",
            "params.yaml: ladder.widths: given [16, 16] (a list of 2); allowed: a list of at least 1 items and "
            "without repeats, each a whole number at least 8 and a multiple of 8",
        ),
        (
            "threshold: low",
            'params.yaml: threshold: given "low" (text); allowed: a number at least 0, or only null',
        ),
        ("choice: {folds: many}", 'params.yaml: choice.folds: given "many" (text); allowed: a whole number'),
        ("choice: {fold: 3}", "params.yaml: choice.fold: unknown key; known here: folds; did you mean folds?"),
        ("layers: {layerx: 1}", "params.yaml: layers.layerx: unknown key; known here: names like ^layer[0-9]+$"),
        ("tasks: {A1: true}", "params.yaml: tasks.A1: unknown key; known here: names like ^[a-z]+$"),
        (
            "sides: {outputs: 1}",
            "params.yaml: sides.outputs: unknown key; known here: input, output; did you mean output?",
        ),
        ("on: 1", "params.yaml: True: YAML reads this key as true (true or false); write it in quotes"),
        (
            "ladder: 3",
            "params.yaml: ladder: given 3 (a whole number); allowed: a group of keys (steps, rate, widths)",
        ),
    ],
)
def test_a_problem_is_reported_in_one_line(problems, text, line):
    assert problems(text) == [line]


def test_a_missing_key_is_named_with_what_it_may_hold(problems):
    assert problems("", drop=["seed"]) == ["params.yaml: seed: missing; allowed: a whole number at least 0"]


def test_all_problems_are_reported_together(problems):
    lines = problems("{a: b, seed: -1, ladder: {stepz: 3, rate: 7}}")
    assert [line.split(":")[1].strip() for line in lines] == ["a", "ladder.rate", "ladder.stepz", "seed"]


@pytest.mark.parametrize(("written", "advised"), [("1e-3", "1.0e-3"), ("2E5", "2.0e+5"), ("-1.5e2", "-1.5e+2")])
def test_the_advised_spelling_is_read_as_the_number_that_was_meant(problems, written, advised):
    (line,) = problems(f"threshold: {written}")
    assert line.endswith(f"write {advised}")
    assert yaml.safe_load(written) == written
    assert yaml.safe_load(advised) == float(written)


def test_the_line_names_the_file_that_was_read():
    schema = {"type": "object", "additionalProperties": False}
    with pytest.raises(parameters.ParameterError, match=r"^studies/a\.yaml: b: unknown key; known here: none$"):
        parameters.check({"b": 1}, schema, source="studies/a.yaml")


def test_overlays_are_merged_as_snakemake_merges_them(tmp_path):
    files = [tmp_path / name for name in ("params.yaml", "a.yaml", "b.yaml")]
    texts = ["{g: {x: 1, l: [1, 2]}, y: 1}", "{g: {l: [3]}}", "{g: {x: 4}, z: {w: 1}}"]
    for path, text in zip(files, texts, strict=True):
        path.write_text(text)
    from snakemake.utils import update_config

    expected = {}
    for text in texts:
        update_config(expected, yaml.safe_load(text))
    assert parameters.read(files[0], files[1:]) == expected == {"g": {"x": 4, "l": [3]}, "y": 1, "z": {"w": 1}}
    with pytest.raises(parameters.ParameterError, match=r"none\.yaml: no such file"):
        parameters.read(files[0], [tmp_path / "none.yaml"])


@pytest.mark.long
@pytest.mark.parametrize("overlay", sorted((ROOT / "studies").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_study_of_the_repository_holds_what_is_allowed(overlay):
    merged = parameters.read(ROOT / "params.yaml", [overlay])
    parameters.check(merged, study_schema(), source=overlay.name)
    assert merged["study"] == overlay.stem
    known = suites.load(ROOT / "workflow/suites.yaml", ROOT / "workflow/pins.yaml")
    assert set(merged["suites"]) <= set(known)


def test_nothing_heavier_than_jsonschema_is_imported():
    # -S would hide jsonschema too; what counts is what this import adds to a bare interpreter.
    script = (
        "import sys, embscale.parameters.study, embscale.parameters.checking, embscale.parameters.flags; "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    folder = Path(parameters.__file__).parents[2]
    loaded = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    assert not {"torch", "numpy", "pandas", "snakemake", "pydantic"} & set(loaded.stdout.split())


@pytest.mark.fault(
    "parameters that are no YAML, or have a key twice", happens="one line before the first job", do="correct it"
)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("study: a\nstudy: b\n", "line 2: study is there twice"),
        ("scores:\n  seeds: [1]\n  seeds: [2]\n", "line 3: seeds is there twice"),
        ("a: [\n", "line 2"),
        ("- a\n", "expected a group of keys"),
        ("a: !!python/object:os.system x\n", "could not determine a constructor"),
        ("? [a]\n: b\n", "mine.yaml"),
        ("{" * 5000, "mine.yaml"),
        ("a: \x00", "not YAML"),
    ],
)
def test_a_file_that_is_no_group_of_keys_is_named(tmp_path, text, message):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(parameters.ParameterError, match=message) as error:
        parameters.read(tmp_path / "mine.yaml", [])
    assert str(error.value).startswith(f"{tmp_path / 'mine.yaml'}") and "\n" not in str(error.value)
