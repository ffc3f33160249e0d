"""Remotes that lie, breaks in the middle, two at once: real DVC against real remotes on loopback."""

import contextlib
import functools
import http.server
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

FILES = 30
KEY, SECRET = "key-of-a-test", "secret-of-a-test"

STAGES = """
stages:
  made:
    cmd: python make.py
    deps: [make.py]
    outs:
      - results: {persist: true}
      - one.bin: {persist: true}
"""
MAKE = f"""
import random
from pathlib import Path
random.seed(1)
Path("results").mkdir(exist_ok=True)
for i in range({FILES}):
    Path(f"results/{{i}}.bin").write_bytes(random.randbytes(20_000))
Path("one.bin").write_bytes(random.randbytes(50_000))
"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; remembers what was asked for, and can be slow."""

    def do_GET(self):
        self.server.asked.append(self.path)
        time.sleep(self.server.delay)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            super().do_GET()

    def log_message(self, *_):
        pass


class Remote:
    """A remote on loopback whose objects lie in a folder of this machine.

    Attributes:
        objects: that folder.
        read: its address for those who pull.
        write: its address for those who push.
    """

    def __init__(self, kind, folder, stack):
        self.kind, self.server = kind, None
        self.objects = folder / "objects"
        self.objects.mkdir(parents=True)
        self.read = self.write = str(self.objects)
        if kind == "http":
            handler = functools.partial(Handler, directory=self.objects)
            self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
            self.server.asked, self.server.delay = [], 0
            threading.Thread(target=self.server.serve_forever, daemon=True).start()
            stack.callback(self.server.server_close)
            stack.callback(self.server.shutdown)
            self.read = f"http://127.0.0.1:{self.server.server_port}"
        elif kind == "s3":
            self.port = free_port()
            rclone = Path(sys.executable).with_name("rclone")
            command = [rclone, "serve", "s3", "--addr", f"127.0.0.1:{self.port}", "--auth-key", f"{KEY},{SECRET}"]
            server = subprocess.Popen([*command, folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(server.wait)
            stack.callback(server.kill)
            wait_for(functools.partial(answers, self.port))
            self.read = self.write = "s3://objects"

    def configure(self, toy, address):
        """Make it the default remote of a project; the credentials stay on this machine."""
        toy.dvc("remote", "add", "-q", "-f", "-d", "store", address)
        toy.dvc("remote", "modify", "-q", "store", "verify", "true")
        if self.kind == "s3":
            toy.dvc("remote", "modify", "-q", "store", "endpointurl", f"http://127.0.0.1:{self.port}")
            toy.dvc("remote", "modify", "-q", "store", "region", "us-east-1")
            toy.dvc("remote", "modify", "-q", "--local", "store", "access_key_id", KEY)
            toy.dvc("remote", "modify", "-q", "--local", "store", "secret_access_key", SECRET)

    def files(self):
        return sorted(path for path in self.objects.rglob("*") if path.is_file())

    def remove(self, path):
        """Take an object away; a server of S3 must be asked, for it remembers what lay there."""
        if self.kind != "s3":
            path.unlink()
            return
        import s3fs

        client = {"endpoint_url": f"http://127.0.0.1:{self.port}", "region_name": "us-east-1"}
        store = s3fs.S3FileSystem(key=KEY, secret=SECRET, client_kwargs=client, skip_instance_cache=True)
        store.rm_file(f"objects/{path.relative_to(self.objects).as_posix()}")

    def object_of(self, path):
        """The object that holds a file's bytes."""
        content = path.read_bytes()
        (found,) = [candidate for candidate in self.files() if candidate.read_bytes() == content]
        return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition):
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def made(project, tmp_path_factory):
    """A project whose results are recorded but pushed nowhere."""
    root = tmp_path_factory.mktemp("made") / "toy"
    root.mkdir()
    toy = project(root)
    toy.write({"dvc.yaml": STAGES, "make.py": MAKE})
    toy.git("init", "-q")
    toy.dvc("init", "-q")
    toy.dvc("config", "cache.type", "reflink,copy")
    toy.dvc("repro", "-q")
    return toy


@pytest.fixture
def origin(made, toy):
    """A project of one's own with those results."""
    shutil.copytree(made.root, toy.root, dirs_exist_ok=True)
    return toy


@pytest.fixture(params=["folder", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("http", "s3"))])
def remote(request, tmp_path):
    with contextlib.ExitStack() as stack:
        yield Remote(request.param, tmp_path / "remote", stack)


@pytest.fixture
def slow(tmp_path):
    """A static web server that takes its time over each answer."""
    with contextlib.ExitStack() as stack:
        remote = Remote("http", tmp_path / "remote", stack)
        remote.server.delay = 0.3
        yield remote


def publish(origin, remote):
    """Push to a remote, commit, and give back a fresh clone that reads from it."""
    remote.configure(origin, remote.write)
    origin.dvc("push", "-q")
    origin.git("add", "-A")
    origin.git("commit", "-qm", "record")
    clone = type(origin)(origin.root.parent / "clone")
    origin.git("clone", "-q", str(origin.root), str(clone.root))
    remote.configure(clone, remote.read)
    return clone


def contents(toy):
    """The results that are there."""
    paths = [*(toy.root / "results").glob("*"), *toy.root.glob("one.bin")]
    return {path.name: path.read_bytes() for path in paths}


def flip(path, place=1000):
    """Change one bit, as a disk or a network does: no time or permission tells of it."""
    path.chmod(0o644)
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    path.chmod(0o444)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_fresh_clone_gets_each_byte_once(origin, remote):
    clone = publish(origin, remote)
    clone.dvc("pull", "-q")
    assert contents(clone) == contents(origin)
    assert clone.dvc("status").stdout == "Data and pipelines are up to date.\n"
    if remote.server:
        asked = Counter(path for path in remote.server.asked if re.search(r"/[0-9a-f]{30}$", path))
        # An output that is a single file is asked for twice, the listing of a folder, a few kilobytes, more often.
        single = remote.object_of(origin.root / "one.bin").relative_to(remote.objects).as_posix()
        assert asked.pop(f"/{single}") <= 2
        assert len(asked) == FILES and set(asked.values()) == {1}


@pytest.mark.fault(
    "a remote that needs credentials",
    happens="they stay in `.dvc/config.local`, which git does not track",
    do="nothing",
)
def test_credentials_stay_out_of_what_git_tracks(origin, remote):
    clone = publish(origin, remote)
    tracked = clone.git("ls-files").stdout.split()
    assert ".dvc/config.local" not in tracked
    assert all(SECRET not in (origin.root / name).read_text("utf-8", "replace") for name in tracked)


@pytest.mark.fault(
    "a byte flipped in an object of a remote",
    happens="`dvc pull` ends with 1, the file is not there",
    do="record again",
)
def test_a_flipped_byte_is_refused(origin, remote):
    clone = publish(origin, remote)
    flip(remote.object_of(origin.root / "one.bin"))
    assert clone.dvc("pull", check=False).returncode != 0
    assert not (clone.root / "one.bin").exists()
    assert contents(clone).items() <= contents(origin).items()


@pytest.mark.fault(
    "a remote of one's own without `verify = true`",
    happens="`dvc pull` accepts damage; `make fetch` refuses the remote",
    do="`dvc remote modify --local lab verify true`",
)
@pytest.mark.parametrize("remote", ["folder", pytest.param("http", marks=pytest.mark.slow)], indirect=True)
def test_without_verification_a_flipped_byte_is_accepted(origin, remote):
    """The trap: DVC takes the object's name for its digest.  S3 has checksums of its own."""
    clone = publish(origin, remote)
    clone.dvc("remote", "modify", "-q", "store", "verify", "false")
    flip(remote.object_of(origin.root / "one.bin"))
    clone.dvc("pull", "-q")
    assert (clone.root / "one.bin").read_bytes() != (origin.root / "one.bin").read_bytes()
    assert clone.dvc("status").stdout == "Data and pipelines are up to date.\n"


@pytest.mark.fault(
    "an object missing in a remote", happens="`dvc pull` ends with 1", do="remove the listing of its folder, then push"
)
def test_a_missing_object_is_reported_and_a_push_from_nothing_fixes_it(origin, remote):
    clone = publish(origin, remote)
    remote.remove(remote.object_of(origin.root / "results/7.bin"))
    done = clone.dvc("pull", check=False)
    assert done.returncode != 0 and ("failed to" in done.stdout or "missing" in done.stdout)
    # The trap: where the listing of a folder is there, DVC takes its files for pushed.
    origin.dvc("push", "-q")
    assert clone.dvc("pull", check=False).returncode != 0
    for path in remote.files():
        remote.remove(path)
    origin.dvc("push", "-q")
    clone.dvc("pull", "-q")
    assert contents(clone) == contents(origin)


@pytest.mark.fault(
    "a record that was not pushed",
    happens="`dvc pull` ends with 1; `dvc status --cloud` says so beforehand",
    do="push it",
)
def test_a_record_that_was_not_pushed_is_reported(origin, remote):
    clone = publish(origin, remote)
    origin.write({"make.py": MAKE.replace("seed(1)", "seed(2)")})
    origin.dvc("repro", "-q")
    origin.git("commit", "-qam", "record")
    assert "new" in origin.dvc("status", "--cloud").stdout
    clone.git("pull", "-q")
    done = clone.dvc("pull", check=False)
    assert done.returncode != 0 and "missing" in done.stdout.lower()


def started(toy, *arguments):
    """A DVC in the background, the leader of a group of its own."""
    command = [sys.executable, "-m", "dvc", *arguments]
    return subprocess.Popen(
        command, cwd=toy.root, env=toy.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip


def cached(toy):
    return [path for path in (toy.root / ".dvc/cache/files").rglob("*") if path.is_file()]


@pytest.mark.fault("a pull killed with -9", happens="its lock is free again", do="the same command again")
@pytest.mark.slow
def test_a_pull_that_was_killed_is_taken_up(origin, slow):
    clone = publish(origin, slow)
    pull = started(clone, "pull", "-q", "--jobs", "2")
    wait_for(lambda: len(cached(clone)) > 5)
    os.killpg(pull.pid, signal.SIGKILL)
    pull.wait()
    assert 5 < len(cached(clone)) < FILES
    slow.server.delay = 0
    clone.dvc("pull", "-q")
    assert contents(clone) == contents(origin)


@pytest.mark.fault("two pulls at once", happens="the second ends with 1: unable to acquire lock", do="wait")
@pytest.mark.slow
def test_a_second_pull_waits_for_no_one(origin, slow):
    clone = publish(origin, slow)
    pull = started(clone, "pull", "-q", "--jobs", "2")
    wait_for(lambda: cached(clone))
    second = clone.dvc("pull", check=False)
    assert second.returncode != 0 and "Unable to acquire lock" in second.stdout
    slow.server.delay = 0
    assert pull.wait() == 0
    assert contents(clone) == contents(origin)


@pytest.mark.fault("a push killed with -9", happens="its lock is free again", do="the same command again")
@pytest.mark.parametrize("remote", ["folder", pytest.param("s3", marks=pytest.mark.slow)], indirect=True)
def test_a_push_that_was_killed_is_taken_up(origin, remote):
    remote.configure(origin, remote.write)
    push = started(origin, "push", "-q", "--jobs", "1")
    wait_for(lambda: remote.files())
    os.killpg(push.pid, signal.SIGKILL)
    push.wait()
    clone = publish(origin, remote)
    clone.dvc("pull", "-q")
    assert contents(clone) == contents(origin)


@pytest.mark.fault(
    "an object of a remote truncated",
    happens="`dvc pull` ends with 1",
    do="remove the listing of its folder, then push",
)
def test_a_truncated_object_is_refused(origin, remote):
    clone = publish(origin, remote)
    found = remote.object_of(origin.root / "results/3.bin")
    found.chmod(0o644)
    os.truncate(found, 1000)
    found.chmod(0o444)
    assert clone.dvc("pull", check=False).returncode != 0
    assert contents(clone).items() <= contents(origin).items()


@pytest.mark.fault("a clone in another folder", happens="nothing is to be done", do="nothing")
def test_a_clone_in_another_folder_needs_no_more(origin, remote):
    clone = publish(origin, remote)
    clone.dvc("pull", "-q")
    moved = type(clone)(clone.root.parent / "else where" / "clone")
    moved.root.parent.mkdir()
    clone.root.rename(moved.root)
    assert moved.dvc("status").stdout == "Data and pipelines are up to date.\n"
    assert moved.dvc("repro").stdout.endswith("Data and pipelines are up to date.\n")
