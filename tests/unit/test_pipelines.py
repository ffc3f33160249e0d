"""Which studies there are, where their pipelines and pages lie, and what is said of those that there are not."""

from pathlib import Path

import pytest
import yaml

import pipelines

TEMPLATE = """
stages:
  made:
    cmd:
      - snakemake --cores all -- chapter_made
      - python after.py ${study}
    deps: [src, "report/text", "results/${study}/before.csv"]
    params: [study, ladder]
    outs:
      - results/${study}/folder: {persist: true}
      - results/${study}/rows.csv: {persist: true}
      - report/_site/index.html: {persist: true}
  last:
    cmd: python memory.py ${study}
    deps: [report/_site/index.html]
    outs:
      - results/${study}/memory.json.xz: {persist: true}
"""


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text("study: desk\n")
    Path("dvc.yaml").write_text(TEMPLATE)
    Path("studies").mkdir()
    Path("studies/mine.yaml").write_text("# words\nstudy: mine\n")


def test_the_study_of_the_parameters_has_the_pipeline_at_the_top():
    assert pipelines.default_study() == "desk" and pipelines.overlay("desk") is None
    assert (pipelines.pipeline("desk"), pipelines.lock("desk")) == (Path("dvc.yaml"), Path("dvc.lock"))
    assert pipelines.site("desk") == Path("report/_site")
    pipelines.write("desk")
    assert Path("dvc.yaml").read_text() == TEMPLATE


def test_an_overlay_has_all_to_itself():
    assert pipelines.lock("mine") == Path("recorded/mine/dvc.lock")
    assert pipelines.site("mine") == Path("report/_site/studies/mine")
    pipelines.write("mine")
    made = yaml.safe_load(pipelines.pipeline("mine").read_text())["stages"]
    overlay = {"studies/mine.yaml": None}
    persist = {"persist": True}
    assert made == {
        "made": {
            "wdir": "../..",
            "cmd": [
                "mkdir -p results/mine/folder",
                "snakemake --cores all --configfile studies/mine.yaml -- chapter_made",
                "python after.py mine",
            ],
            "deps": ["src", "report/text", "results/mine/before.csv"],
            "params": ["study", "ladder", overlay],
            "outs": [
                {"results/mine/folder": persist},
                {"results/mine/rows.csv": persist},
                {"report/_site/studies/mine/index.html": persist},
            ],
        },
        "last": {
            "wdir": "../..",
            "cmd": ["python memory.py mine"],
            "deps": ["report/_site/studies/mine/index.html"],
            "outs": [{"results/mine/memory.json.xz": persist}],
        },
    }


@pytest.mark.parametrize(
    ("study", "text", "words"),
    [
        ("none", None, "STUDY=none: no file studies/none.yaml; there are desk, mine"),
        ("other", "study: mine\n", "studies/other.yaml: expected `study: other`, as the file is named, not 'mine'"),
        ("empty", "", "studies/empty.yaml: expected `study: empty`, as the file is named, not None"),
        ("../mine", None, "no file studies/../mine.yaml"),
        ("broken", "study: [\n", "studies/broken.yaml: not YAML: "),
        ("list", "[1]\n", "expected `study: list`"),
    ],
)
def test_a_study_that_there_is_not_is_refused_and_nothing_is_written(study, text, words):
    if text is not None:
        Path(f"studies/{study}.yaml").write_text(text)
    with pytest.raises(pipelines.UnknownStudyError) as error:
        pipelines.write(study)
    assert words in str(error.value) and "\n" not in str(error.value)
    assert not Path("recorded").exists()
