"""What nobody foresaw ends in one line for its user, and with the whole trace for whoever mends it."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from embscale import cli
from embscale.__main__ import main


@pytest.fixture
def failing(monkeypatch, tmp_path):
    """Let the command ``costs`` fail as told; traces go into a folder of this test."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fail(error):
        def run(_):
            raise error

        module = SimpleNamespace(__doc__="Fail.", add_arguments=lambda parser: None, run=run)
        monkeypatch.setattr(cli, "load", lambda command: module)

    return fail


@pytest.mark.fault("an error that nobody foresaw", happens="one line names the file with the trace", do="report it")
@pytest.mark.parametrize("error", [ValueError("odd\nwords"), KeyError("key"), RecursionError(), AssertionError()])
def test_one_line_names_the_file_with_the_trace(failing, capsys, error):
    failing(error)
    assert main(["costs"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"embscale costs: {type(error).__name__}")
    trace = Path(re.search(r"report it with (\S+)$", line)[1]).read_text()
    assert trace.startswith("Traceback") and type(error).__name__ in trace and "raise error" in trace


def test_a_developer_gets_the_error_itself(failing):
    failing(ValueError("odd"))
    with pytest.raises(ValueError, match="odd"):
        main(["--debug", "costs"])


@pytest.mark.fault("such an error on a full disk", happens="the line alone", do="`embscale --debug`")
def test_a_full_disk_leaves_the_line(failing, capsys, monkeypatch):
    failing(ValueError("odd"))
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    assert main(["costs"]) == 1
    expected = "embscale costs: ValueError: odd; nobody foresaw this: run embscale --debug to see where\n"
    assert capsys.readouterr().err == expected


@pytest.mark.fault("Ctrl-C", happens="one line, exit status 130", do="nothing")
def test_an_interrupt_is_one_line_and_the_exit_status_of_a_shell(failing, capsys):
    failing(KeyboardInterrupt())
    assert main(["costs"]) == 130
    assert capsys.readouterr().err == "embscale costs: interrupted\n"
