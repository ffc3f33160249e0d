"""Contents under old times, lost and foreign records, edited results: Snakemake is made to see them, or stops."""

import json
import os
import shutil
import time
import tomllib
from pathlib import Path

import pytest

import reconcile

LIB = Path(reconcile.__file__).parent
SRC = LIB.parents[1] / "src"

# A job that writes its note as the package does.
JOB = """
import hashlib, json, sys
from pathlib import Path
_, source, value, output = sys.argv
digest = lambda path: hashlib.sha256(Path(path).read_bytes()).hexdigest()
Path(output).write_text(Path(source).read_text() + value)
note = {"command": "job", "params": {"value": value}, "inputs": {source: digest(source)}, "sources": {}}
Path(output + ".note.json").write_text(json.dumps(note | {"outputs": {output: digest(output)}}))
"""
SNAKEFILE = f"""
import sys
from pathlib import Path
sys.path[:0] = [{str(SRC)!r}, {str(LIB)!r}]
from reconcile import reconcile
configfile: "params.yaml"
{{reconcile}}
rule all:
    input: "results/desk/b.txt"
rule a:
    input: "source", job="job.py"
    output: "results/desk/a.txt", "results/desk/a.txt.note.json"
    params: value=config["one"]
    shell: "python job.py {{{{input[0]}}}} {{{{params.value}}}} {{{{output[0]}}}}"
rule b:
    input: "results/desk/a.txt", job="job.py"
    output: "results/desk/b.txt", "results/desk/b.txt.note.json"
    params: value=config["two"]
    shell: "python job.py {{{{input[0]}}}} {{{{params.value}}}} {{{{output[0]}}}}"
"""
RECONCILED = SNAKEFILE.format(reconcile='reconcile([Path("results/desk")])')
BLIND = SNAKEFILE.format(reconcile="")


@pytest.fixture(scope="module")
def computed(project, tmp_path_factory):
    """A toy study that has run."""
    toy = project(tmp_path_factory.mktemp("computed"))
    toy.write({"Snakefile": RECONCILED, "job.py": JOB, "source": "x\n", "params.yaml": "one: 1\ntwo: 1\n"})
    toy.environment["PYTHONPATH"] = str(SRC)
    toy.snakemake("--cores", "1", "--quiet", "all")
    return toy


@pytest.fixture
def reconciled(computed, toy):
    shutil.copytree(computed.root, toy.root, dirs_exist_ok=True)
    toy.environment["PYTHONPATH"] = str(SRC)
    return toy


def wanted(toy, text=RECONCILED):
    """The rules that would run."""
    toy.write({"Snakefile": text})
    lines = toy.snakemake("-n").stdout.splitlines()
    return sorted({line.split()[1].rstrip(":") for line in lines if line.startswith("rule ")} - {"all"})


def edit(path, text):
    """Change a file's bytes and keep its times."""
    before = path.stat()
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_after_a_run_nothing_is_to_be_done_and_nothing_is_touched(reconciled):
    before = {path: path.stat().st_mtime_ns for path in reconciled.root.rglob("*") if path.is_file()}
    assert wanted(reconciled) == []
    names = ("Snakefile", "embscale.digests.json")
    after = {path: path.stat().st_mtime_ns for path in before if path.name not in names}
    assert all(before[path] == after[path] for path in after)


@pytest.mark.fault("an input changed under its old time", happens="what was made of it is made again", do="nothing")
def test_an_input_changed_under_its_old_time_is_seen(reconciled):
    edit(reconciled.root / "source", "y\n")
    assert wanted(reconciled, BLIND) == []
    assert wanted(reconciled) == ["a", "b"]


@pytest.mark.fault("an input changed and changed back", happens="nothing is to be done", do="nothing")
def test_changed_back_under_any_time_nothing_is_to_be_done(reconciled):
    text = reconciled.read("source")
    edit(reconciled.root / "source", "y\n")
    reconciled.snakemake("-n")
    reconciled.write({"source": text})
    assert wanted(reconciled) == []


@pytest.mark.fault("Snakemake's record of a result lost", happens="the result is made again", do="nothing")
def test_results_without_records_are_made_again(reconciled):
    for path in (reconciled.root / ".snakemake/metadata").iterdir():
        path.unlink()
    reconciled.write({"params.yaml": "one: 2\ntwo: 1\n"})
    assert wanted(reconciled, BLIND) == []
    assert wanted(reconciled) == ["a", "b"]
    reconciled.snakemake("--cores", "1", "--quiet", "all")
    assert reconciled.read("results/desk/b.txt") == "x\n21"


@pytest.mark.fault(
    "results of one record under Snakemake's records of another", happens="they are made again", do="nothing"
)
def test_a_result_with_the_record_of_another_run_is_made_again(reconciled):
    """As after a checkout of the results without the records, or the other way round."""
    kept = {path.name: path.read_bytes() for path in (reconciled.root / "results/desk").iterdir()}
    reconciled.write({"source": "y\n"})
    reconciled.snakemake("--cores", "1", "--quiet", "all")
    for name, content in kept.items():
        (reconciled.root / "results/desk" / name).write_bytes(content)
    assert wanted(reconciled, BLIND) == ["b"]
    assert wanted(reconciled) == ["a", "b"]
    reconciled.snakemake("--cores", "1", "--quiet", "all")
    assert reconciled.read("results/desk/b.txt") == "y\n11"


@pytest.mark.fault(
    "a result edited by hand, under its old time",
    happens="every run stops and names it",
    do="`make fetch`, or remove it",
)
def test_an_edited_result_stops_the_run_whatever_its_time(reconciled):
    edit(reconciled.root / "results/desk/a.txt", "z\n1")
    assert wanted(reconciled, BLIND) == []
    reconciled.write({"Snakefile": RECONCILED})
    done = reconciled.snakemake("-n", check=False)
    assert done.returncode == 1
    assert "results/desk/a.txt: not what a.txt.note.json says: changed or damaged after it was made" in done.stdout
    assert "make fetch" in done.stdout


@pytest.mark.fault("two notes that name one result", happens="the newer holds", do="nothing")
def test_of_two_notes_that_name_a_result_the_newer_holds(reconciled):
    note = reconciled.root / "results/desk/a.txt.note.json"
    older = note.with_name("z.note.json")
    earlier = {"results/desk/z": "0" * 64, "results/desk/a.txt": "0" * 64}
    older.write_text(json.dumps(json.loads(note.read_text()) | {"outputs": earlier}))
    os.utime(older, (1, 1))
    assert reconciled.python(str(LIB / "reconcile.py")).stdout == ""
    assert reconciled.read("results/desk/a.txt") == "x\n1"


@pytest.mark.fault(
    "an edited result, and `make fetch`",
    happens="it is removed, and comes from the record or is made again",
    do="nothing",
)
def test_an_edited_result_is_removed_on_demand_and_then_made_again(reconciled):
    edit(reconciled.root / "results/desk/b.txt", "z\n1")
    told = reconciled.python(str(LIB / "reconcile.py")).stdout
    assert told == "removed results/desk/b.txt: not what b.txt.note.json says\n"
    reconciled.snakemake("--cores", "1", "--quiet", "all")
    assert reconciled.read("results/desk/b.txt") == "x\n11"


@pytest.mark.fault(
    "a note that names a file outside the results", happens="that file is neither checked nor removed", do="nothing"
)
@pytest.mark.parametrize("written", ["absolute", "climbing", "through a link", "a link itself"])
def test_what_a_note_names_outside_the_results_is_neither_removed_nor_a_reason_to_stop(reconciled, written):
    """As after a command run by hand with one output among the results and another elsewhere; or after an attack."""
    precious = reconciled.root.parent / "elsewhere/precious.txt"
    precious.parent.mkdir()
    precious.write_text("a thesis")
    (reconciled.root / "results/desk/away").symlink_to(precious.parent)
    (reconciled.root / "results/desk/link.txt").symlink_to(precious)
    name = {
        "absolute": str(precious),
        "climbing": "results/desk/../../../elsewhere/precious.txt",
        "through a link": "results/desk/away/precious.txt",
        "a link itself": "results/desk/link.txt",
    }[written]
    note = reconciled.root / "results/desk/a.txt.note.json"
    told = json.loads(note.read_text())
    note.write_text(json.dumps(told | {"outputs": told["outputs"] | {name: "0" * 64}}))
    assert reconciled.python(str(LIB / "reconcile.py")).stdout == ""
    assert precious.read_text() == "a thesis" and (reconciled.root / "results/desk/link.txt").is_symlink()
    assert "not what" not in reconciled.snakemake("-n").stdout


@pytest.mark.fault("`results` a link to another disk", happens="results are checked all the same", do="nothing")
def test_results_behind_a_link_are_the_workflows_all_the_same(reconciled):
    """A large disk elsewhere may hold the results."""
    disk = reconciled.root.parent / "disk"
    shutil.move(reconciled.root / "results", disk)
    (reconciled.root / "results").symlink_to(disk)
    edit(reconciled.root / "results/desk/b.txt", "z\n1")
    removed = reconciled.python(str(LIB / "reconcile.py")).stdout
    assert removed == "removed results/desk/b.txt: not what b.txt.note.json says\n"


@pytest.mark.fault(
    "a note, or a record of Snakemake, truncated",
    happens="it counts as none; a result without a record is made again",
    do="nothing",
)
def test_a_truncated_note_or_record_is_no_note_or_record(reconciled):
    (reconciled.root / "results/desk/a.txt.note.json").write_text("{")
    assert wanted(reconciled) == []
    record = next(path for path in (reconciled.root / ".snakemake/metadata").iterdir() if path.stat().st_size)
    record.write_text("{")
    assert wanted(reconciled) != []


@pytest.mark.fault(
    "`requirements.lock` changed", happens="results made with other versions are made again", do="nothing"
)
@pytest.mark.parametrize(
    ("noted", "locked", "other"),
    [("9.9", "9.9", []), ("9.9+cpu", "9.9", []), ("9.9", "9.8", ["pytest"]), (pytest.__version__, "9.8", [])],
)
def test_results_of_another_library_version_are_made_again(reconciled, noted, locked, other):
    lines = f"# versions\npytest=={locked} ; os_name != 'nt' \\\n    --hash=sha256:{'0' * 64}\n"
    (reconciled.root / "requirements.lock").write_text(lines)
    versions = reconcile.locked_versions(reconciled.root / "requirements.lock", reconciled.root / "none")
    assert versions == {"pytest": locked}
    assert reconcile.other_libraries({"libraries": {"pytest": noted, "python": "3.1"}}, versions) == other
    for path in (reconciled.root / "results/desk").glob("*.note.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"libraries": {"pytest": noted}}))
    assert wanted(reconciled) == (["a", "b"] if other else [])


def test_the_version_of_torch_is_known_though_it_is_not_in_the_lock_file():
    root = LIB.parents[1]
    versions = reconcile.locked_versions(root / "requirements.lock", root / "pyproject.toml")
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"torch=={versions['torch']}" in project["dependencies"]
    assert versions.keys() >= {"numpy", "mteb", "scikit-learn", "transformers"}


def test_digests_are_taken_once_and_again_when_a_file_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "big"
    path.write_bytes(bytes(1000))
    digest = reconcile.Digests(tmp_path / "store/known.json")
    first = digest(path)
    digest.save()
    again = reconcile.Digests(tmp_path / "store/known.json")
    monkeypatch.setattr(reconcile.hashlib, "file_digest", None)
    assert again(path) == first
    monkeypatch.undo()
    time.sleep(0.05)  # longer than the clock of any file system's times stands still
    # The same size and the same time as before: only the time of the change itself tells.
    before = path.stat()
    path.write_bytes(bytes(999) + b"1")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert reconcile.Digests(tmp_path / "store/known.json")(path) != first
    (tmp_path / "store/known.json").write_text("{")
    assert reconcile.Digests(tmp_path / "store/known.json").known == {}


@pytest.mark.fault("a dry run beside a run", happens="it touches nothing", do="nothing")
def test_a_dry_run_beside_a_run_touches_nothing(reconciled):
    reconciled.snakemake("-n")
    record = json.dumps({})
    reconciled.write({
        "hold.py": f"import sys, time; sys.path[:0] = [{str(SRC)!r}, {str(LIB)!r}]\n"
        "from locks import RunLock\nfrom reconcile import reconcile\nfrom pathlib import Path\n"
        "import os, subprocess\nRunLock().acquire()\n"
        "print(subprocess.run([sys.executable, 'ask.py'], capture_output=True, text=True))\n",
        "ask.py": f"import sys; sys.path[:0] = [{str(SRC)!r}, {str(LIB)!r}]\n"
        "from reconcile import reconcile\nfrom pathlib import Path\nprint('found', reconcile([Path('results')]))\n",
        "results/unfinished.txt": record,
    })  # fmt: skip
    assert "found []" in reconciled.python("hold.py").stdout
    assert "unfinished.txt" in reconciled.python("ask.py").stdout


def test_files_of_a_folder_that_is_an_output_have_its_record(toy, monkeypatch):
    making = "mkdir -p {output}/images; touch {output}/index.html {output}/images/a.svg"
    toy.write({"Snakefile": f'rule pages:\n    output: directory("results/desk/pages")\n    shell: "{making}"\n'})
    toy.snakemake("--cores", "1", "--quiet", "all", "--", "pages")
    monkeypatch.chdir(toy.root)
    folder = Path("results/desk")
    assert reconcile.reconcile([folder]) == []
    # What Quarto leaves where the page is made by hand is no result; any other file is one without a record.
    left = ("_page/index.html", ".quarto/xref/INDEX", ".gitignore")
    toy.write({f"results/desk/report/{name}": "by hand" for name in left})
    assert reconcile.reconcile([folder]) == []
    toy.write({"results/desk/report/index.html": "by hand"})
    assert reconcile.reconcile([folder]) == [folder / "report/index.html"]
