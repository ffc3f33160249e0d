"""``make fetch`` against remotes that were tampered with: what dvc.lock records comes, or nothing does."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

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


@pytest.fixture(scope="module")
def recorded(project, tmp_path_factory):
    """A project that carries its record."""
    root = tmp_path_factory.mktemp("recorded") / "toy"
    root.mkdir()
    toy = project(root)
    toy.write({"dvc.yaml": STAGES, "make.py": MAKE, ".gitignore": "/results/\n/.snakemake/\n"})
    toy.git("init", "-q")
    toy.dvc("init", "-q")
    toy.dvc("config", "cache.type", "reflink,copy")
    toy.dvc("remote", "add", "-q", "--default", "carried", "remote")
    toy.dvc("remote", "modify", "-q", "carried", "verify", "true")
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


def test_dvc_alone_writes_where_a_listing_says(clone):
    """The reason for all this."""
    tampered("../../../../planted.txt", clone)
    clone.dvc("pull", "-q")
    assert list(clone.root.parent.rglob("planted.txt"))


PLACES = ("../../../../planted.txt", "{root}/planted.txt", "below/../../../../../planted.txt", "one more.txt")


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
    with pytest.raises(fetch.FetchError) as error:
        fetch.checked_listing(content, name, "remote/x.dir")
    assert words in str(error.value)


def test_a_file_that_was_tampered_with_is_refused(clone):
    for path in (clone.root / "remote").rglob("*"):
        if path.is_file() and path.read_bytes() == b"folder/a.txt":
            path.unlink()
            path.write_bytes(b"folder/z.txt")
            path.chmod(0o444)  # what DVC takes for a sign that nothing has changed
    done = clone.python(str(SCRIPT), check=False)
    assert done.returncode != 0
    assert "folder/a.txt" not in results(clone)


def test_a_record_that_was_not_pushed_is_named(clone):
    listing(clone).unlink()
    done = clone.python(str(SCRIPT), check=False)
    assert done.returncode == 1 and "no such file; the record was not pushed, or not whole" in done.stdout


def test_a_remote_that_accepts_damage_is_refused_until_it_verifies(clone):
    clone.dvc("remote", "add", "-q", "--local", "lab", str(clone.root / "remote"))
    done = clone.python(str(SCRIPT), "--remote", "lab", check=False)
    assert done.returncode == 1 and "dvc remote modify --local lab verify true" in done.stdout
    clone.dvc("remote", "modify", "-q", "--local", "lab", "verify", "true")
    clone.python(str(SCRIPT), "--remote", "lab")
    assert results(clone) == EVERYTHING


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
