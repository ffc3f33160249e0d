"""``make fetch`` of records that were tampered with: what dvc.lock records comes, or nothing does."""

import hashlib
import io
import json
import lzma
import shutil
import tarfile
from pathlib import Path

import pytest
import yaml

import carried
import fetch

SCRIPT = Path(fetch.__file__)
SRC = SCRIPT.parents[2] / "src"
STAGES = """
stages:
  made:
    cmd: python make.py
    deps: [make.py]
    outs:
      - results/desk/folder: {persist: true}
      - results/desk/other: {persist: true}
      - results/desk/one.txt: {persist: true}
"""
MAKE = """
from pathlib import Path
for name in ("folder/a.txt", "folder/below/b.txt", "other/c.txt", "one.txt"):
    path = Path("results/desk", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(name)
"""
FILES = {
    "dvc.yaml": STAGES,
    "make.py": MAKE,
    "params.yaml": "study: desk\n",
    ".gitignore": "/results/\n/.snakemake/\n",
}


@pytest.fixture(scope="module")
def recorded(project, tmp_path_factory):
    """A project with a remote of DVC, in a folder."""
    root = tmp_path_factory.mktemp("recorded") / "toy"
    root.mkdir()
    toy = project(root)
    toy.write(FILES)
    toy.git("init", "-q")
    toy.dvc("init", "-q")
    toy.dvc("config", "cache.type", "reflink,copy")
    toy.dvc("remote", "add", "-q", "--default", "lab", "remote")
    toy.dvc("remote", "modify", "-q", "lab", "verify", "true")
    toy.dvc("repro", "-q")
    toy.dvc("push", "-q")
    toy.git("add", "-A")
    toy.git("commit", "-qm", "record")
    return toy


@pytest.fixture
def clone(recorded, project, tmp_path):
    recorded.git("clone", "-q", str(recorded.root), str(tmp_path / "clone"))
    toy = project(tmp_path / "clone")
    toy.environment["PYTHONPATH"] = str(SRC)
    return toy


def listing(toy, out="folder"):
    """The remote's listing of a folder."""
    (path,) = [
        path
        for path in (toy.root / "remote").rglob("*.dir")
        if any(entry["relpath"].startswith("c") == (out == "other") for entry in json.loads(path.read_text()))
    ]
    return path


def rewrite(path, change):
    path.chmod(0o644)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def results(toy):
    folder = toy.root / "results/desk"
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


EVERYTHING = {"folder/a.txt", "folder/below/b.txt", "other/c.txt", "one.txt"}


def test_a_sound_remote_gives_everything_and_again_nothing_is_to_be_done(clone):
    for _ in range(2):
        clone.python(str(SCRIPT))
        assert results(clone) == EVERYTHING
    assert clone.dvc("status", "-q").returncode == 0


def tampered(name, toy):
    """One way to tamper with the remote."""
    path = listing(toy)
    evil = hashlib.md5(b"evil").hexdigest()
    stored = toy.root / "remote/files/md5" / evil[:2] / evil[2:]
    stored.parent.mkdir(exist_ok=True)
    stored.write_text("evil")
    if name == "swapped":
        path.chmod(0o644)
        shutil.copyfile(listing(toy, "other"), path)
    elif name == "truncated":
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:-9])
    elif name == "content":
        rewrite(path, lambda entries: [entry | {"md5": evil} for entry in entries])
    elif name == "md5 climbs":
        rewrite(path, lambda entries: [{"relpath": "a.txt", "md5": "../../../../../precious.txt"}, *entries])
    else:
        rewrite(path, lambda entries: [*entries, {"relpath": name.format(root=toy.root.parent), "md5": evil}])


@pytest.mark.fault(
    "a forged listing, and `dvc pull` in the place of `make fetch`",
    happens="DVC writes what it names, wherever that is",
    do="pull only from remotes that can be trusted",
)
def test_dvc_alone_writes_where_a_listing_says(clone):
    """The reason for all this."""
    tampered("../../../../planted.txt", clone)
    clone.dvc("pull", "-q")
    assert list(clone.root.parent.rglob("planted.txt"))


PLACES = ("../../../../planted.txt", "{root}/planted.txt", "below/../../../../../planted.txt", "one more.txt")


@pytest.mark.fault(
    "the listing of a folder forged, swapped or cut, in a remote",
    happens="`make fetch` ends with 1 and writes nothing",
    do="record again, and find out who wrote to the remote",
)
@pytest.mark.parametrize("how", [*PLACES, "swapped", "truncated", "content", "md5 climbs"])
@pytest.mark.parametrize("pulled_before", [False, True])
def test_a_listing_that_was_tampered_with_is_refused_and_nothing_is_written(clone, how, pulled_before):
    precious = clone.root.parent / "precious.txt"
    precious.write_text("a thesis")
    tampered(how, clone)
    if pulled_before:
        # As a plain `dvc pull` would have left it in the cache; with the listings mended nothing of it may stay.
        bad = listing(clone) if how not in ("swapped", "truncated") else None
        if bad is not None:
            cached = clone.root / ".dvc/cache" / bad.relative_to(clone.root / "remote")
            cached.parent.mkdir(parents=True)
            shutil.copyfile(bad, cached)
    done = clone.python(str(SCRIPT), check=False)
    assert done.returncode == 1 and "Traceback" not in done.stdout
    assert "not the listing that dvc.lock records" in done.stdout, done.stdout
    assert results(clone) == set() and not list(clone.root.parent.rglob("planted.txt"))
    assert precious.read_text() == "a thesis"


@pytest.mark.fault(
    "a listing in the lock file itself that names a place outside",
    happens="`make fetch` ends with 1 and writes nothing",
    do="do not use this commit",
)
@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"relpath": "../x", "md5": "0" * 32}, "names '../x'"),
        ({"relpath": "a/../../x", "md5": "0" * 32}, "names 'a/../../x'"),
        ({"relpath": "/x", "md5": "0" * 32}, "names '/x'"),
        ({"relpath": "", "md5": "0" * 32}, "names '.'"),
        ({"relpath": "..\\x", "md5": "0" * 32}, "which is no file below its folder"),
        ({"relpath": "x", "md5": "../../x"}, "names '../../x'"),
        ({"relpath": 3, "md5": "0" * 32}, "no listing of files"),
        ({"relpath": "x"}, "no listing of files"),
        ("x", "no listing of files"),
    ],
)
def test_a_listing_that_was_recorded_so_is_refused_too(entry, words):
    """Somebody may propose a change of dvc.lock together with the listing that it names."""
    content = json.dumps([entry]).encode()
    name = f"{hashlib.md5(content).hexdigest()}.dir"
    with pytest.raises(carried.CarriedError) as error:
        carried.checked_listing(content, name, "remote/x.dir")
    assert words in str(error.value)


@pytest.mark.fault(
    "a file of a remote forged",
    happens="`make fetch` ends with 1, the file is not there",
    do="record again, and find out who wrote to the remote",
)
def test_a_file_that_was_tampered_with_is_refused(clone):
    for path in (clone.root / "remote").rglob("*"):
        if path.is_file() and path.read_bytes() == b"folder/a.txt":
            path.unlink()
            path.write_bytes(b"folder/z.txt")
            path.chmod(0o444)  # what DVC takes for a sign that nothing has changed
    done = clone.python(str(SCRIPT), check=False)
    assert done.returncode != 0
    assert "folder/a.txt" not in results(clone)


@pytest.mark.fault("a fetch of what was not pushed", happens="`make fetch` ends with 1 and names it", do="push it")
def test_a_record_that_was_not_pushed_is_named(clone):
    listing(clone).unlink()
    done = clone.python(str(SCRIPT), check=False)
    assert done.returncode == 1 and "no such file; the record was not pushed, or not whole" in done.stdout


@pytest.mark.fault(
    "a fetch from a remote that accepts damage",
    happens="`make fetch` ends with 1",
    do="`dvc remote modify --local lab verify true`",
)
def test_a_remote_that_accepts_damage_is_refused_until_it_verifies(clone):
    clone.dvc("remote", "add", "-q", "--local", "other", str(clone.root / "remote"))
    done = clone.python(str(SCRIPT), "--remote", "other", check=False)
    assert done.returncode == 1 and "dvc remote modify --local other verify true" in done.stdout
    clone.dvc("remote", "modify", "-q", "--local", "other", "verify", "true")
    clone.python(str(SCRIPT), "--remote", "other")
    assert results(clone) == EVERYTHING


@pytest.mark.fault(
    "an edited result in the way of a fetch",
    happens="it is replaced; results of one's own stay",
    do="`make fetch PULL=--force` gives up one's own",
)
def test_an_edited_result_comes_back_and_results_of_ones_own_are_given_up_on_demand_only(clone):
    clone.python(str(SCRIPT))
    (clone.root / "results/desk/one.txt").write_text("my own")
    done = clone.python(str(SCRIPT), check=False)
    assert done.returncode != 0 and clone.read("results/desk/one.txt") == "my own"
    clone.python(str(SCRIPT), "--force")
    assert clone.read("results/desk/one.txt") == "one.txt"
    note = {
        "command": "make",
        "params": {},
        "outputs": {"results/desk/one.txt": hashlib.sha256(b"one.txt").hexdigest()},
    }
    clone.write({"results/desk/one.txt": "damaged", "results/desk/one.txt.note.json": json.dumps(note)})
    assert "removed results/desk/one.txt" in clone.python(str(SCRIPT)).stdout
    assert clone.read("results/desk/one.txt") == "one.txt"


# What the repository carries, without a remote of DVC.

PIPELINE = yaml.safe_dump(
    {
        "stages": {
            f"{stage} of {study}": {
                "wdir": "../..",
                "cmd": f"python make.py {study} {stage}",
                "deps": ["make.py"],
                "outs": [{f"results/{study}/{stage}": {"persist": True}}],
            }
            for stage in ("one", "two")
            for study in ["STUDY"]
        }
    }
)
MAKE_STAGE = """
import random, sys
from pathlib import Path
_, study, stage = sys.argv
random.seed(stage)
words = random.choices(["table", "width", "seed"], k=5000)
for name in ("a.txt", "below/b.txt"):
    path = Path("results", study, stage, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(" ".join([study, name, *words]))
"""
WRITE = """
import sys
from dvc.repo import Repo
import carried
from pipelines import pipeline
with Repo() as repo:
    for study in sys.argv[1:]:
        carried.write(study, carried.recorded(repo.stage.collect(str(pipeline(study)))), repo.cache.local)
"""
STUDIES = ("ladder", "mine")


@pytest.fixture(scope="module")
def carrying(project, tmp_path_factory):
    """A project that carries the records of two studies, both overlays; that of params.yaml was never recorded."""
    root = tmp_path_factory.mktemp("carrying") / "toy"
    root.mkdir()
    toy = project(root)
    toy.environment["PYTHONPATH"] = f"{SRC}:{SCRIPT.parent}"
    toy.write({"make.py": MAKE_STAGE, "params.yaml": "study: desk\n", ".gitignore": "/results/\n/.snakemake/\n"})
    toy.write({".dvcignore": "/remote\n", "write.py": WRITE, "studies/never.yaml": "study: never\n"})
    for study in STUDIES:
        pipeline = PIPELINE.replace("STUDY", study)
        toy.write({f"studies/{study}.yaml": f"study: {study}\n", f"recorded/{study}/dvc.yaml": pipeline})
    toy.git("init", "-q")
    toy.dvc("init", "-q")
    toy.dvc("config", "cache.type", "reflink,copy")
    toy.dvc("remote", "add", "-q", "--default", carried.REMOTE, ".dvc/carried")
    for study in STUDIES:
        toy.dvc("repro", "-q", f"recorded/{study}/dvc.yaml")
    toy.python("write.py", *STUDIES)
    toy.git("add", "-A")
    toy.git("commit", "-qm", "record")
    return toy


@pytest.fixture
def carried_clone(carrying, project, tmp_path):
    carrying.git("clone", "-q", str(carrying.root), str(tmp_path / "clone"))
    toy = project(tmp_path / "clone")
    toy.environment["PYTHONPATH"] = carrying.environment["PYTHONPATH"]
    return toy


def fetched(toy):
    return {path.relative_to(toy.root / "results").as_posix() for path in toy.root.glob("results/**/*.txt")}


def all_of(study):
    return {f"{study}/{stage}/{name}" for stage in ("one", "two") for name in ("a.txt", "below/b.txt")}


def test_of_several_studies_the_wanted_one_comes_and_dvc_has_nothing_to_say_of_it(carrying, carried_clone):
    for study, there in (("ladder", all_of("ladder")), ("mine", all_of("ladder") | all_of("mine"))):
        for count in ("4 files", "all files were there"):
            assert f"fetched: {study}: {count}" in carried_clone.python(str(SCRIPT), study).stdout
        assert fetched(carried_clone) == there
        assert "up to date" in carried_clone.dvc("status", f"recorded/{study}/dvc.yaml").stdout
    assert "up to date" in carried_clone.dvc("status").stdout
    for name in all_of("mine"):
        assert carried_clone.read(f"results/{name}") == carrying.read(f"results/{name}")
    assert carried_clone.git("status", "--short").stdout == ""


def test_dvc_alone_pulls_what_was_unpacked(carrying, carried_clone):
    """The set-up of the environment unpacks; then `dvc pull` brings results, of one study or of all."""
    carried_clone.git("rm", "-rq", "remote/mine")
    done = carried_clone.python(str(SCRIPT.with_name("unpack.py")))
    assert done.stdout == ""
    carried_clone.dvc("pull", "recorded/ladder/dvc.yaml")
    assert fetched(carried_clone) == all_of("ladder")
    for name in all_of("ladder"):
        assert carried_clone.read(f"results/{name}") == carrying.read(f"results/{name}")
    assert "up to date" in carried_clone.dvc("status", "recorded/ladder/dvc.yaml").stdout


@pytest.mark.fault(
    "a carried archive damaged, when `.venv` is set up",
    happens="one line says which; the rest is there",
    do="`git checkout remote`",
)
def test_what_cannot_be_unpacked_is_told_and_the_rest_is_there(carried_clone):
    archive = next((carried_clone.root / "remote/mine").glob("*.xz"))
    archive.write_bytes(archive.read_bytes()[:100])
    done = carried_clone.python(str(SCRIPT.with_name("unpack.py")), check=False)
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 1, done.stdout
    assert "damaged" in done.stdout and "dvc pull will not find mine" in done.stdout
    carried_clone.dvc("pull", "recorded/ladder/dvc.yaml")
    assert fetched(carried_clone) == all_of("ladder")


@pytest.mark.fault(
    "a fetch of a study that was not recorded, or does not exist",
    happens="`make fetch` ends with 1 and says which studies there are",
    do="`make record STUDY=NAME`",
)
def test_a_study_that_was_not_recorded_or_does_not_exist_is_told_in_one_line(carried_clone):
    for study, words in (
        ("never", "never was not recorded yet; make record STUDY=never computes and records it"),
        ("desk", "desk was not recorded yet"),
        ("nowhere", "no file studies/nowhere.yaml; there are desk, ladder, mine, never"),
    ):
        done = carried_clone.python(str(SCRIPT), study, check=False)
        assert done.returncode == 1 and words in done.stdout and len(done.stdout.splitlines()) == 1, done.stdout
    assert fetched(carried_clone) == set()


def test_the_archives_of_a_record_are_the_same_each_time_and_those_of_others_stay(carrying):
    before = {path: path.read_bytes() for path in (carrying.root / "remote").rglob("*") if path.is_file()}
    assert sorted(path.name for path in before) == sorted(
        f"{stage} of {study}.tar.xz" for stage in ("one", "two") for study in STUDIES
    )
    others = {path: path.stat().st_mtime_ns for path in before if "mine" in path.name}
    carrying.python("write.py", "ladder")
    assert {path: path.read_bytes() for path in before} == before
    assert {path: path.stat().st_mtime_ns for path in others} == others


def test_what_is_carried_is_smaller_than_what_was_recorded(carrying):
    recorded = sum(path.stat().st_size for path in carrying.root.glob("results/**/*.txt"))
    archives = sum(path.stat().st_size for path in carrying.root.glob("remote/**/*.xz"))
    assert 0 < archives < recorded / 5


def archive(toy, change):
    """Rewrite an archive of the record: its files by name."""
    path = toy.root / "remote/ladder/one of ladder.tar.xz"
    with tarfile.open(path) as found:
        files = {member.name: found.extractfile(member).read() for member in found}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, content in change(files).items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    path.write_bytes(lzma.compress(buffer.getvalue()))


def forged_listing(files):
    """A listing that leads outside, under the recorded one's name."""
    return {
        name: json.dumps([{"relpath": "../../../planted.txt", "md5": "0" * 32}]).encode() if ".dir" in name else content
        for name, content in files.items()
    }


FORGED = "damaged or tampered with"
CHANGES = {
    "content": (lambda files: {name: content + b"!" for name, content in files.items()}, FORGED),
    "listing": (forged_listing, FORGED),
    "climbing": (lambda files: files | {"../../planted.txt": b"evil"}, FORGED),
    "absolute": (lambda files: files | {"/planted.txt": b"evil"}, FORGED),
    "lacks a file": (lambda files: dict(list(files.items())[:-1]), "lacks "),
    "lacks the listing": (lambda files: dict(list(files.items())[1:]), "lacks "),
    "empty": (lambda _: {}, "lacks "),
}


@pytest.mark.fault(
    "a carried archive forged, damaged or missing",
    happens="`make fetch` ends with 1, names it and writes nothing",
    do="`git checkout remote`, or record again",
)
@pytest.mark.parametrize("how", CHANGES)
def test_an_archive_that_was_tampered_with_is_refused_and_nothing_is_written(carried_clone, how):
    change, words = CHANGES[how]
    archive(carried_clone, change)
    done = carried_clone.python(str(SCRIPT), "ladder", check=False)
    assert done.returncode == 1 and words in done.stdout and "Traceback" not in done.stdout, done.stdout
    assert fetched(carried_clone) == set()
    assert not [path for path in carried_clone.root.glob(".dvc/cache/**/*") if path.is_file()]
    assert not list(carried_clone.root.parent.rglob("planted.txt"))


@pytest.mark.fault(
    "a carried archive cut",
    happens="`make fetch` ends with 1, names it and writes nothing",
    do="`git checkout remote`, or record again",
)
@pytest.mark.parametrize("cut", [0, 1, 200, -9])
def test_a_truncated_archive_is_refused_and_nothing_is_written(carried_clone, cut):
    path = carried_clone.root / "remote/ladder/two of ladder.tar.xz"
    path.write_bytes(path.read_bytes()[:cut])
    done = carried_clone.python(str(SCRIPT), "ladder", check=False)
    assert done.returncode == 1 and FORGED in done.stdout and "Traceback" not in done.stdout, done.stdout
    assert fetched(carried_clone) == set()


@pytest.mark.fault(
    "a file in an archive that the lock file does not name", happens="it is left where it is", do="nothing"
)
def test_a_further_file_in_an_archive_is_left_there(carried_clone):
    evil = b"evil"
    archive(carried_clone, lambda files: files | {hashlib.md5(evil).hexdigest(): evil})
    carried_clone.python(str(SCRIPT), "ladder")
    assert fetched(carried_clone) == all_of("ladder")


@pytest.mark.fault("DVC's cache damaged", happens="`make fetch` writes what is recorded in its place", do="nothing")
def test_a_damaged_cache_is_mended(carried_clone):
    carried_clone.python(str(SCRIPT), "ladder")
    for path in carried_clone.root.glob(".dvc/cache/files/**/*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(b"damaged")
            path.chmod(0o444)  # what DVC takes for a sign that nothing has changed
    shutil.rmtree(carried_clone.root / "results")
    carried_clone.python(str(SCRIPT), "ladder")
    assert all(carried_clone.read(f"results/{name}").startswith("ladder ") for name in all_of("ladder"))


def test_results_of_ones_own_are_given_up_on_demand_only(carried_clone):
    carried_clone.write({"results/ladder/one/a.txt": "my own"})
    done = carried_clone.python(str(SCRIPT), "ladder", check=False)
    assert done.returncode == 1 and carried_clone.read("results/ladder/one/a.txt") == "my own"
    carried_clone.python(str(SCRIPT), "ladder", "--force")
    assert carried_clone.read("results/ladder/one/a.txt").startswith("ladder ")
