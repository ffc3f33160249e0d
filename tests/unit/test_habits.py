"""The files for editors, linters, installers and the host of the repository agree with what the project does."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import lock

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


def recipe(target):
    """The commands of a target of the Makefile."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    return re.findall(r"^\t@?(.*)$", found[1].replace("$(BIN)", ".venv/bin"), re.MULTILINE)


def test_the_hooks_run_the_linters_of_make_lint():
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    hooks = {hook["id"]: hook for hook in repository["hooks"]}
    # A hook formats what a commit changes; make lint only checks, and names all files.
    linters = [re.sub(r" --check( |$).*", "", command) for command in recipe("lint")]
    assert [hook["entry"] for hook in hooks.values()] == linters
    assert repository["repo"] == "local" and {hook["language"] for hook in hooks.values()} == {"system"}
    rules = ["Snakefile", *(path.relative_to(ROOT).as_posix() for path in (ROOT / "workflow/rules").rglob("*.smk"))]
    assert len(rules) > 5 and all(re.search(hooks["snakefmt"]["files"], name) for name in rules)
    checked = [f"{folder}/a.py" for folder in PYPROJECT["tool"]["mypy"]["files"]]
    assert all(re.search(hooks["mypy"]["files"], name) for name in checked)


def test_the_hosted_runs_call_targets_that_exist_and_may_only_read():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"]
    run = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert run == ["make lint", "make test", "make report"] and all(recipe(name.split()[1]) for name in run)
    assert all("timeout-minutes" in job and "permissions" not in job for job in jobs.values())
    # On demand alone; YAML 1.1 reads the key `on` as the truth value.
    assert "workflow_dispatch" in jobs["report"]["if"] and set(workflow[True]) == {
        "push",
        "pull_request",
        "workflow_dispatch",
    }


def test_every_form_asks_for_something_and_has_its_own_name():
    forms = [yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")]
    assert len({form["name"] for form in forms}) == len(forms) == 3
    for form in forms:
        assert any(field.get("validations", {}).get("required") for field in form["body"])
        assert len({field["id"] for field in form["body"]}) == len(form["body"])


def test_the_addresses_of_the_package_are_those_of_the_citation_file():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    known = {cited.get("repository-code"), cited.get("url"), *(work["url"] for work in cited["references"])}
    assert set(PYPROJECT["project"]["urls"].values()) <= known


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-test.lock"])
def test_every_locked_package_has_hashes_and_comes_from_no_place_in_particular(name):
    """As PyPI has them: no local version, no address, and nothing that depends on the build of torch."""
    entries = re.split(r"\n(?=[a-z])", (ROOT / name).read_text("utf-8"))[1:]
    assert len(entries) > 20
    for entry in entries:
        assert re.fullmatch(r"([\w-]+)==([\w.]+)( ; [^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n?", entry), entry
        assert not lock.OF_BUILD.match(entry)


def test_make_finds_the_version_of_torch():
    """By the same expression as the recipe."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    (expression,) = re.findall(r"grep -oE '(torch.*?)' pyproject.toml", MAKEFILE)
    (found,) = re.findall(expression, text)
    assert found in PYPROJECT["project"]["dependencies"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The names of the files in a wheel of the project, built from a copy of its sources."""
    import shutil

    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    build = "from setuptools import build_meta; build_meta.build_wheel('.')"
    subprocess.run([sys.executable, "-c", build], cwd=folder, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


@pytest.mark.long
def test_a_wheel_holds_every_file_of_the_package(wheel):
    listed = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    package = {name.removeprefix("src/") for name in listed.splitlines() if (ROOT / name).is_file()}
    assert "embscale/py.typed" in package and package - wheel == set()
