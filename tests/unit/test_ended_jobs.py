"""What jobs leave that are ended from outside, and which commit a copy of the project names."""

import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from embscale.cli import parse
from embscale.errors import EmbscaleError
from embscale.provenance import artifacts

ROOT = Path(__file__).resolve().parents[2]

JOB = """
import signal, sys, time
from pathlib import Path
import embscale.cli
from embscale.__main__ import main
from embscale.provenance import artifacts

def work(command, words, *, debug):
    outputs = [Path("deep/out.csv")]
    with artifacts.write_with_provenance(command=command, params={}, inputs=[], outputs=outputs) as paths:
        paths[0].write_text("half")
        Path("started").touch()
        time.sleep(60)

embscale.cli.execute = work
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests started by nohup, and their children, would pass over it
sys.exit(main(["check"]))
"""


@pytest.fixture
def job(tmp_path):
    """A job that writes an output and does not end by itself."""
    process = subprocess.Popen([sys.executable, "-c", JOB], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "started").exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_job_that_is_asked_to_end_leaves_nothing_and_says_so_in_one_line(job, tmp_path, number):
    job.send_signal(number)
    _, said = job.communicate(timeout=60)
    assert job.returncode == 128 + number and said == f"embscale: ended by {number.name}\n"
    assert list((tmp_path / "deep").iterdir()) == []


def test_what_a_killed_job_left_is_removed_and_what_a_living_one_writes_is_not(job, tmp_path):
    (left,) = (tmp_path / "deep").glob(".unfinished-*")
    (tmp_path / ".unfinished-by-hand").write_text("a file")
    assert artifacts.remove_unfinished(tmp_path) == [] and left.is_dir()
    job.kill()
    job.wait()
    assert artifacts.remove_unfinished(tmp_path) == [left] and not left.exists()
    assert (tmp_path / ".unfinished-by-hand").is_file()


def test_neither_dvc_nor_git_takes_what_a_killed_job_left(tmp_path):
    from dvc.repo import Repo

    for name in (".dvcignore", ".gitignore"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    repo = Repo.init(tmp_path)
    folder = tmp_path / "any" / f"{artifacts.UNFINISHED}abc"
    folder.mkdir(parents=True)
    (folder / "0-rows.csv").touch()
    assert repo.dvcignore.is_ignored_dir(str(folder))
    repo.close()
    asked = subprocess.run(["git", "check-ignore", "-q", folder / "0-rows.csv"], cwd=tmp_path, check=False)
    assert asked.returncode == 0


def test_an_edited_result_is_refused_by_whatever_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = Path("results/rows.csv")
    with artifacts.write_with_provenance(command="x", params={}, inputs=[], outputs=[made]) as (path,):
        path.write_text("1\n")
    Path("elsewhere").mkdir()
    Path("elsewhere/link.csv").symlink_to(made.resolve())
    Path("folder").symlink_to("results")
    names = [
        made,
        made.resolve(),
        Path("elsewhere/../results/rows.csv"),
        Path("elsewhere/link.csv"),
        Path("folder/rows.csv"),
    ]
    for name in names:
        assert list(artifacts.read_inputs([name]).digests) == [name]
    made.write_text("2\n")
    for name in names:
        with pytest.raises(EmbscaleError, match="changed or damaged"):
            artifacts.read_inputs([name])


@pytest.mark.parametrize("own", [False, True])
def test_a_copy_without_a_repository_does_not_name_the_commit_of_the_one_around_it(tmp_path, own):
    """As the rule has it, run by a shell."""
    rule = (ROOT / "workflow/rules/report.smk").read_text("utf-8")
    commit = re.search(r"""^ +commit="\\"(.*)\\"",$""", rule, re.MULTILINE)[1]
    date = re.search(r"""^ +date='--date="(.*)"',$""", rule, re.MULTILINE)[1]

    def repository(folder):
        folder.mkdir()
        git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(folder)]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", folder.name], check=True)

    repository(tmp_path / "outer")
    inner = tmp_path / "outer" / "inner"
    repository(inner) if own else inner.mkdir()
    said = subprocess.run(f"echo {commit} / {date}", shell=True, cwd=inner, capture_output=True, text=True, check=True)
    assert (said.stdout == "not known /\n") != own, said.stdout


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        ("words t.safetensors --tokenizer a -o b.csv --variants unit unit", "--variants: unit"),
        ("words t.safetensors t.safetensors --tokenizer a -o b.csv", "tables: t.safetensors"),
        ("words t.safetensors --tokenizer a -o b.csv --random-seeds 1 1", "--random-seeds"),
        ("words t.safetensors --tokenizer a -o b.csv --random-seeds 1 01", "--random-seeds"),
    ],
)
def test_a_list_in_which_a_value_would_count_twice_is_refused(words, flag, capsys):
    command, *rest = shlex.split(words)
    with pytest.raises(SystemExit):
        parse(command, rest)
    assert flag in capsys.readouterr().err
