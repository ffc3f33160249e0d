"""In a checkout that belongs to somebody else every command ends with a line that says so, and writes nothing."""

import os
import shutil
import subprocess
import sys

import pytest

# The superuser may write anywhere unless it gives up that right.
BOUND = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]

# What each runs, and what its line says.
COMMANDS = {
    "snakemake -n": (["-m", "snakemake", "--cores", "1", "-n"], "in a copy of your own"),
    "snakemake": (["-m", "snakemake", "--cores", "1"], "in a copy of your own"),
    "make fetch": (["workflow/lib/fetch.py", "desk"], "Permission denied"),
    "make record": (["workflow/lib/publish.py", "desk"], "Permission denied"),
    "make verify": (["workflow/lib/verify.py", "desk"], "no recorded results"),
    "recovery": (["workflow/lib/recover.py"], "in a copy of your own"),
}


@pytest.fixture(scope="module")
def read_only(copy_of_checkout):
    folder = copy_of_checkout("readonly")
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    paths = [folder, *folder.rglob("*")]
    for path in paths:
        path.chmod(path.stat().st_mode & ~0o222)
    yield folder
    for path in paths:
        path.chmod(path.stat().st_mode | 0o200)


def listing(folder):
    return sorted((path.as_posix(), path.lstat().st_mtime_ns) for path in folder.rglob("*"))


@pytest.mark.long
@pytest.mark.fault(
    "a checkout of another user, or a read-only one",
    happens="one line, nothing written",
    do="work in a copy of your own",
)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_in_a_read_only_checkout_ends_with_one_line(read_only, command):
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed: the superuser may write anywhere")
    before = listing(read_only)
    words, expected = COMMANDS[command]
    bound = BOUND if os.geteuid() == 0 else []
    done = subprocess.run([*bound, sys.executable, *words], cwd=read_only, capture_output=True, text=True)
    told = done.stdout + done.stderr
    assert done.returncode not in (0, 70) and "Traceback" not in told
    assert sum(expected in line for line in told.splitlines()) == 1, told
    assert listing(read_only) == before
