"""Artifacts: whole or absent, with a note that is checked when they are used."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import embscale.cli
from embscale.__main__ import commands, main
from embscale.claims import published_scores
from embscale.errors import EmbscaleError
from embscale.provenance import artifacts


def make(output, text="x", inputs=()):
    with artifacts.write_with_provenance(command="make", params={"n": 1}, inputs=list(inputs), outputs=[output]) as (
        path,
    ):
        path.write_text(text)


def test_the_note_tells_params_inputs_outputs_and_sources(tmp_path):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    make(first)
    make(second, inputs=[first])
    note = json.loads(artifacts.note_path(second).read_text())
    assert note["command"] == "make" and note["params"] == {"n": 1}
    assert note["inputs"] == {first.as_posix(): artifacts.file_sha256(first)}
    assert note["outputs"] == {second.as_posix(): artifacts.file_sha256(second)}
    assert note["sources"]["embscale/provenance/artifacts.py"] == artifacts.file_sha256(
        artifacts.Path(artifacts.__file__)
    )


def test_the_note_does_not_tell_where_the_package_lies(tmp_path):
    make(tmp_path / "a.txt", inputs=[published_scores.FILE])
    assert list(json.loads(artifacts.note_path(tmp_path / "a.txt").read_text())["inputs"]) == [
        "embscale/claims/published_scores/corey2024.csv"
    ]


def test_others_can_read_what_was_made(tmp_path):
    with artifacts.write_with_provenance(command="make", params={}, inputs=[], outputs=[tmp_path / "a.txt"]) as (path,):
        path.write_text("x")
        path.chmod(0o600)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o644


def test_two_runs_write_the_same_note(tmp_path):
    make(tmp_path / "a.txt")
    before = artifacts.note_path(tmp_path / "a.txt").read_bytes()
    make(tmp_path / "a.txt")
    assert artifacts.note_path(tmp_path / "a.txt").read_bytes() == before


@pytest.mark.fault(
    "a job that fails half-way", happens="nothing is written, what was there stays", do="the same command again"
)
def test_a_failing_job_leaves_nothing_and_keeps_what_was_there(tmp_path):
    make(tmp_path / "a.txt", "old")
    with (
        pytest.raises(RuntimeError),
        artifacts.write_with_provenance(command="make", params={}, inputs=[], outputs=[tmp_path / "a.txt"]) as (path,),
    ):
        path.write_text("half")
        raise RuntimeError
    assert (tmp_path / "a.txt").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "a.txt.note.json"]


@pytest.mark.fault("a command that leaves out one of its outputs", happens="one line, and no output", do="report it")
def test_an_output_that_was_not_written_is_an_error(tmp_path):
    with (
        pytest.raises(EmbscaleError, match=r"a\.txt: the job ended without writing it"),
        artifacts.write_with_provenance(command="make", params={}, inputs=[], outputs=[tmp_path / "a.txt"]),
    ):
        pass


@pytest.mark.fault("an input that is not there", happens="one line names it", do="make it")
def test_a_missing_input_is_named(tmp_path):
    with pytest.raises(EmbscaleError, match=r"absent\.txt: no such file"):
        make(tmp_path / "a.txt", inputs=[tmp_path / "absent.txt"])


@pytest.mark.fault("an input that is not what its note says", happens="one line names it", do="make it again")
def test_an_input_changed_after_it_was_made_stops_the_job(tmp_path):
    make(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text("edited by hand")
    with pytest.raises(EmbscaleError, match="changed or damaged after it was made"):
        make(tmp_path / "b.txt", inputs=[tmp_path / "a.txt"])


def test_a_second_output_in_a_folder_below_is_checked_too(tmp_path):
    outputs = [tmp_path / "main.txt", tmp_path / "below" / "other.txt"]
    with artifacts.write_with_provenance(command="make", params={}, inputs=[], outputs=outputs) as paths:
        for path in paths:
            path.write_text("x")
    outputs[1].write_text("y")
    with pytest.raises(EmbscaleError, match=r"other\.txt: its SHA-256"):
        make(tmp_path / "b.txt", inputs=[outputs[1]])


def test_of_two_notes_that_name_a_file_the_newer_holds(tmp_path):
    """As after an update of the workflow, when what once was a second output has become a job's own."""
    second = tmp_path / "second.txt"
    with artifacts.write_with_provenance(
        command="old", params={}, inputs=[], outputs=[tmp_path / "first.txt", second]
    ) as paths:
        for path in paths:
            path.write_text("old")
    second.unlink()  # as Snakemake does before a job
    make(second, text="new")
    make(tmp_path / "consumer.txt", inputs=[second])
    second.write_text("edited")
    with pytest.raises(EmbscaleError, match="changed or damaged"):
        make(tmp_path / "consumer.txt", inputs=[second])


@pytest.mark.fault("a file where a folder is to be", happens="one line names it", do="move it")
def test_a_file_in_the_way_of_the_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbscaleError, match=r"file/below: cannot write here"):
        make(tmp_path / "file" / "below" / "a.txt")


@pytest.mark.long
def test_every_command_has_a_summary_and_help(capsys):
    for command, summary in commands().items():
        assert summary.endswith("."), command
        with pytest.raises(SystemExit) as end:
            main([command, "--help"])
        assert end.value.code == 0 and "usage: embscale" in capsys.readouterr().out


@pytest.mark.fault("a command that does not exist", happens="one line names those that do", do="use one of them")
def test_an_unknown_command_is_refused(capsys):
    assert main(["no-such"]) == 2
    assert "known are" in capsys.readouterr().err


def test_an_expected_failure_is_one_line(tmp_path, capsys):
    arguments = [str(tmp_path), "-o", str(tmp_path / "t.safetensors")]
    assert embscale.cli.execute("extract", arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("embscale extract: ") and "config.json: no such file" in line


@pytest.mark.fault(
    "a disk that is full while a command writes",
    happens="one line; no output and nothing unfinished stays",
    do="free some space",
)
@pytest.mark.long
@pytest.mark.parametrize("command", ["extract", "states"])
def test_a_full_disk_is_one_line_and_leaves_nothing(command, checkpoint, texts_file, tmp_path):
    """A limit on the size of files stands in for a disk without room: writing fails in the middle."""
    flags = {"texts": texts_file, "texts-count": 5, "tokens": 12, "first-position": 1, "batch": 2, "texts-seed": 0}
    flags |= {"min-tokens": 12, "precision": "float32", "device": "cpu", "storage-gb": 1}
    flags["tokenizer"] = checkpoint("gpt_neox")
    extra = [part for name, value in flags.items() for part in (f"--{name}", str(value))] if command == "states" else []
    arguments = [command, str(checkpoint("gpt_neox")), *extra, "-o", str(tmp_path / "out" / "made.safetensors")]
    code = (
        "import resource, sys\n"
        # The limit cuts any file: bytecode written now would be a broken module for every later process.
        "sys.dont_write_bytecode = True\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
        "from embscale.__main__ import main\n"
        f"sys.exit(main({arguments!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("embscale")]
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert len(lines) == 1 and "File too large" in lines[0]
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.fault(
    "an output that is an input, by whatever path or link",
    happens="the command ends before it reads anything",
    do="name another output",
)
@pytest.mark.parametrize("way", ["the same name", "climbing", "a link to it", "a link to its folder", "its note"])
def test_an_output_over_an_input_is_refused_before_anything_is_read(tmp_path, way):
    source = tmp_path / "in" / ("out.txt.note.json" if way == "its note" else "a.txt")
    source.parent.mkdir()
    source.write_text("precious")
    (tmp_path / "link.txt").symlink_to(source)
    (tmp_path / "folder").symlink_to(source.parent)
    output = {
        "the same name": source,
        "climbing": tmp_path / "in" / ".." / "in" / "a.txt",
        "a link to it": tmp_path / "link.txt",
        "a link to its folder": tmp_path / "folder" / "a.txt",
        "its note": source.with_name("out.txt"),
    }[way]
    with pytest.raises(EmbscaleError, match="would be written over the input"):
        make(output, inputs=[source])
    assert source.read_text() == "precious"


@pytest.mark.fault(
    "two outputs in one file", happens="the command ends before it reads anything", do="name another output"
)
@pytest.mark.parametrize("second", ["a.txt", "below/../a.txt", "a.txt.note.json"])
def test_two_outputs_in_one_file_are_refused(tmp_path, second):
    outputs = [tmp_path / "a.txt", tmp_path / second]
    with (
        pytest.raises(EmbscaleError, match=r"would be written over the output .*a\.txt"),
        artifacts.write_with_provenance(command="make", params={}, inputs=[], outputs=outputs),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault(
    "an output that is a file of another command, or by hand",
    happens="the command ends before it reads anything",
    do="name another output, or remove the file",
)
def test_what_the_command_did_not_make_is_not_written_over(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    for output, words in [
        (tmp_path / "thesis.txt", "no note beside it says that embscale make made it"),
        (tmp_path, "a folder or a device"),
        (tmp_path.joinpath("/dev/null"), "a folder or a device"),
    ]:
        with pytest.raises(EmbscaleError, match=words):
            make(output)
    make(tmp_path / "a.txt")
    with (
        pytest.raises(EmbscaleError, match="no note beside it says that embscale other made it"),
        artifacts.write_with_provenance(command="other", params={}, inputs=[], outputs=[tmp_path / "a.txt"]),
    ):
        pass
    make(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "new" and (tmp_path / "thesis.txt").read_text() == "precious"


def test_an_earlier_second_output_may_be_written_again_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outputs = [artifacts.Path("main.txt"), artifacts.Path("below/other.txt")]

    def both(folder, text):
        here = [folder / output for output in outputs]
        with artifacts.write_with_provenance(command="make", params={}, inputs=[], outputs=here) as paths:
            for path in paths:
                path.write_text(text)

    both(artifacts.Path(), "old")
    monkeypatch.chdir(tmp_path / "below")
    both(artifacts.Path(".."), "new")
    assert (tmp_path / "below/other.txt").read_text() == "new"


@pytest.mark.fault(
    "one of several outputs that cannot be written", happens="none is written", do="make its folder writable"
)
def test_a_job_that_cannot_write_one_output_leaves_none(tmp_path):
    outputs = [tmp_path / "a.txt", tmp_path / "file" / "b.txt"]
    with (
        pytest.raises(OSError),
        artifacts.write_with_provenance(command="make", params={}, inputs=[], outputs=outputs) as paths,
    ):
        for path in paths:
            path.write_text("x")
        outputs[1].parent.write_text("in the way")  # while the job runs
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


@pytest.mark.fault(
    "an input edited while a job runs",
    happens="the job ends with 1, names it and writes nothing",
    do="the same command again",
)
@pytest.mark.parametrize("moment", ["an edit", "an edit under its old time", "removed"])
def test_an_input_that_changes_during_the_job_stops_it(tmp_path, moment):
    source = tmp_path / "source.txt"
    source.write_text("old")
    before = source.stat()
    with (
        pytest.raises(EmbscaleError, match=r"source\.txt: changed while the command ran"),
        artifacts.write_with_provenance(command="make", params={}, inputs=[source], outputs=[tmp_path / "a.txt"]) as (
            path,
        ),
    ):
        path.write_text("made of the old")
        if moment == "removed":
            source.unlink()
        else:
            source.write_text("new")
        if moment == "an edit under its old time":
            os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [path.name for path in tmp_path.iterdir()] == ([] if moment == "removed" else ["source.txt"])


def test_an_input_that_is_touched_during_the_job_does_not(tmp_path):
    source = tmp_path / "source.txt"
    source.write_text("old")
    with artifacts.write_with_provenance(command="make", params={}, inputs=[source], outputs=[tmp_path / "a.txt"]) as (
        path,
    ):
        path.write_text("made of the old")
        os.utime(source)
    assert (tmp_path / "a.txt").is_file()


EDITED = """
import sys
sys.path.insert(0, {package!r})
from pathlib import Path
from embscale.provenance import artifacts
from embscale.errors import EmbscaleError
folder = Path({package!r}, "embscale")
early, late = folder / "statistics/spectra.py", folder / "statistics/jackknife.py"

def edit(path):
    # The same size, within the same second: what Python's cache of compiled modules would not see.
    path.write_text(path.read_text().replace("the", "The", 1))

{before}
from embscale.statistics import spectra
try:
    with artifacts.write_with_provenance(command="make", params={{}}, inputs=[], outputs=[Path("made.txt")]) as (path,):
        {during}
        from embscale.statistics import jackknife
        path.write_text("x")
        {after}
except EmbscaleError as error:
    print(error)
"""


@pytest.mark.fault(
    "a source edited while a job runs",
    happens="the job ends with 1, names it and writes nothing",
    do="the same command again",
)
@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "during", "after", "changed"),
    [
        ("edit(early)", "pass", "pass", None),
        ("edit(late)", "pass", "pass", None),
        ("pass", "edit(late)", "pass", None),
        ("pass", "edit(early)", "pass", "spectra"),
        ("pass", "pass", "edit(early)", "spectra"),
        ("pass", "pass", "edit(late)", "jackknife"),
        ("pass", "pass", "late.unlink()", "jackknife"),
        ("pass", "edit(late)", "late.write_text(late.read_text().replace('The', 'the', 1))", "jackknife"),
    ],
)
def test_the_note_names_the_code_that_ran_or_there_is_none(tmp_path, before, during, after, changed):
    """A source can be edited at any moment; a module may be imported before or during the job."""
    package = tmp_path / "src"
    shutil.copytree(Path(embscale.cli.__file__).parents[1], package / "embscale")
    subprocess.run(
        [sys.executable, "-m", "compileall", "-q", str(package / "embscale/statistics/spectra.py")], check=True
    )
    code = EDITED.format(package=str(package), before=before, during=during, after=after)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == ""
    if changed:
        assert f"{changed}.py: changed while the command ran, so nothing was written" in done.stdout
        assert not (tmp_path / "made.txt").exists()
        return
    noted = json.loads((tmp_path / "made.txt.note.json").read_text())["sources"]
    for name in ("spectra", "jackknife"):
        module = f"embscale/statistics/{name}.py"
        assert noted[module] == artifacts.file_sha256(package / module)
