"""Fixtures: a hub for one test, and client processes that ask it."""

import json
import subprocess
import sys

import pytest

from hub.server import Hub


@pytest.fixture
def hub():
    """A hub without repositories."""
    with Hub() as made:
        yield made


@pytest.fixture
def client(hub, tmp_path):
    """A function that runs Python code in a process whose clients ask the hub; it returns what `answer(...)` was given.

    A process of its own, because clients read their settings when they are imported, and keep caches.
    """

    def run(code, *arguments, token=None):
        prelude = "import json, sys\ndef answer(value): print('\\n' + json.dumps(value))\n"
        command = [sys.executable, "-c", prelude + code, *map(str, arguments)]
        environment = hub.environment(tmp_path / "home", token=token)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run
