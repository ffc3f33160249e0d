"""A toy project in a temporary folder, run by the real Snakemake and DVC of this environment."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300  # seconds for what takes a few on a quiet machine


class Toy:
    """A folder with files, and the commands that work on it."""

    def __init__(self, root):
        self.root = root
        # Neither the user's settings nor a conda elsewhere on the PATH may change what the tests see.
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(root.parent),
            "GIT_CONFIG_SYSTEM": os.devnull,
            "DVC_NO_ANALYTICS": "1",
            "DVC_SITE_CACHE_DIR": str(root.parent / "site"),
        }

    def write(self, files):
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def read(self, name):
        return (self.root / name).read_text()

    def run(self, *command, check=True):
        """Run a command in the folder and return its result with both streams in ``stdout``."""
        done = subprocess.run(
            command, cwd=self.root, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert not check or done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}"
        return done

    def python(self, *arguments, **options):
        return self.run(sys.executable, *arguments, **options)

    def snakemake(self, *arguments, **options):
        return self.python("-m", "snakemake", *arguments, **options)

    def dvc(self, *arguments, **options):
        return self.python("-m", "dvc", *arguments, **options)

    def git(self, *arguments, **options):
        return self.run("git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments, **options)

    @contextlib.contextmanager
    def running(self, *arguments, until):
        """A Snakemake in the background, from the moment that a file exists; killed at the end."""
        command = [sys.executable, "-m", "snakemake", *arguments]
        with (self.root / "background.log").open("w") as log:
            process = subprocess.Popen(command, cwd=self.root, env=self.environment, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + PATIENCE
            while not (self.root / until).exists():
                assert process.poll() is None and time.monotonic() < deadline, self.read("background.log")
                time.sleep(0.05)
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def copy_of_checkout(tmp_path_factory):
    """A function that copies what git tracks, as it stands in the working tree, to a folder of that name."""

    def copy(name):
        folder = tmp_path_factory.mktemp(name)
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for path in listed.splitlines():
            if (ROOT / path).is_file():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / path, folder / path)
        return folder

    return copy


@pytest.fixture(scope="session")
def project():
    """The class of toy projects: ``project(FOLDER)`` is one in a folder that exists."""
    return Toy


@pytest.fixture
def toy(tmp_path):
    root = tmp_path / "toy"
    root.mkdir()
    return Toy(root)


@pytest.fixture
def computed_study(toy):
    """A function that makes the toy a study `desk` with these results, which are computed and packed nowhere."""

    def make(files):
        hub = {"registry": str(ROOT / "workflow/suites.yaml"), "pins": str(ROOT / "workflow/pins.yaml")}
        toy.environment["PYTHONPATH"] = str(ROOT / "src")
        toy.write({
            "params.yaml": yaml.safe_dump({"study": "desk", "hub": hub}),
            "dvc.yaml": "stages:\n  made: {cmd: 'true', outs: [results/desk/made: {persist: true}]}\n",
            ".gitignore": "/results\n/.snakemake\n",
        } | {f"results/desk/made/{name}": text for name, text in files.items()})  # fmt: skip
        toy.git("init", "-q")
        toy.dvc("init", "-q")
        toy.dvc("config", "cache.type", "reflink,copy")
        toy.dvc("repro", "-q")
        return toy

    return make
