"""The command that trains a model does what calling `ladder` by hand does, and stops in one line where it cannot."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from small_corpus import save_corpus

from embscale import devices
from embscale.cli import execute
from embscale.provenance.artifacts import note_path, read_note
from embscale.texts import streams
from embscale.training import cost, ladder

pytestmark = pytest.mark.usefixtures("one_thread")

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"width": 8, "blocks": 1, "head_width": 4, "vocab_size": 14, "context": 8, "seed": 3}
ROTARY = {"positions": "rotary"}
SCHEDULE = ladder.Schedule(steps=6, batch=2, context=8, learning_rate=0.01, final_learning_rate=0.1, warmup=2, seed=3)
GIVEN = {
    **SIZES,
    **ROTARY,
    "batch": 2,
    "steps": 6,
    "learning_rate": 0.01,
    "final_learning_rate": 0.1,
    "warmup": 2,
    "embedding_rate": 1.0,
    "weight_decay": 0.0,
    "table_decay": 0.0,
    "input_table": "trained",
    "device": "cpu",
    "threads": 1,
}


@pytest.fixture
def study(tmp_path):
    """A folder with a corpus, its tokens and its tokenizer."""
    save_corpus(tmp_path)
    return tmp_path


def words(folder, name, checkpoints=(6,), *, kept="runs", tied=False, **other):
    """The command line of a training."""
    files = ("--corpus", folder, "--tokens", folder / "tokens.safetensors", "--tokenizer", folder)
    files += ("--runs", folder / kept, "-o", folder / name)
    flags = [text for key, value in (GIVEN | other).items() for text in (f"--{key.replace('_', '-')}", value)]
    return [str(word) for word in (*files, *flags, *(["--tied"] if tied else []), "--checkpoints", *checkpoints)]


def command(*args, **other):
    return execute("train", words(*args, **other))


def weights(folder, name, step=6):
    return load_file(folder / name / f"step{step}" / "model.safetensors")


def by_hand(folder, *, tied=False, frozen=False, **schedule):
    model = ladder.build(**SIZES, **ROTARY, tied=tied)
    ladder.input_table(model).requires_grad_(not frozen)
    stream, _, _ = streams.read(folder / "corpus.jsonl", folder / "tokens.safetensors", folder, seed=3)
    given = ladder.Schedule(**vars(SCHEDULE) | schedule)
    ladder.train(model, stream, given, reached=lambda step, loss: None)
    # In the file the output table has the name that published checkpoints give it.
    return {name.replace("lm_head", "embed_out"): weight for name, weight in model.state_dict().items()}


def test_the_model_is_the_one_trained_by_hand_each_time(study):
    assert command(study, "a") == 0 == command(study, "b", kept="other runs")
    made, expected = weights(study, "a"), by_hand(study)
    assert made.keys() <= expected.keys() and all(torch.equal(made[name], expected[name]) for name in made)
    file = "step6/model.safetensors"
    assert (study / "a" / file).read_bytes() == (study / "b" / file).read_bytes()


FLAGS = {
    "tied": {"tied": True},
    "rate": {"embedding_rate": 4.0},
    "decay": {"weight_decay": 0.1},
    "table decay": {"table_decay": 0.5},
}


@pytest.mark.parametrize("flags", [*FLAGS.values(), {"input_table": "frozen"}], ids=[*FLAGS, "frozen"])
def test_each_flag_reaches_the_training(study, flags):
    assert command(study, "a", **flags) == 0
    by_keyword = {"frozen": True} if "input_table" in flags else flags
    made, expected, plain = weights(study, "a"), by_hand(study, **by_keyword), by_hand(study)
    assert all(torch.equal(made[name], expected[name]) for name in made)
    assert not all(torch.equal(made[name], plain[name]) for name in made)
    table = "gpt_neox.embed_in.weight"
    if "input_table" in flags:
        assert torch.equal(made[table], ladder.build(**SIZES, **ROTARY).state_dict()[table])
    config = json.loads((study / "a" / "step6" / "config.json").read_text())
    assert config["tie_word_embeddings"] is flags.get("tied", False)
    assert ("embed_out.weight" in made) is not flags.get("tied", False)


def test_learned_positions_are_a_table_that_is_trained(study):
    assert command(study, "learned", positions="learned") == 0
    place = "transformer.wpe.weight"
    untrained = ladder.build(**SIZES, positions="learned").state_dict()[place]
    made = weights(study, "learned")[place]
    assert made.shape == (8, 8) and not torch.equal(made, untrained)
    assert read_note(note_path(study / "learned" / "losses.csv"))["params"]["positions"] == "learned"


def test_losses_and_costs_are_told(study, capsys):
    assert command(study, "a", [0, 2, 6]) == 0
    losses = pd.read_csv(study / "a" / "losses.csv")
    assert losses["step"].tolist() == list(range(7)) and losses["tokens"].tolist() == list(range(0, 97, 16))
    assert np.isnan(losses["loss"][0]) and losses["loss"][1:].notna().all()
    assert losses["step"][losses["heldout_loss"].notna()].tolist() == [0, 2, 6]
    costs = json.loads((study / "a" / "costs.json").read_text())
    shape = {**SIZES, **ROTARY, "tied": False}
    assert costs["seconds"] > 0
    assert costs == {
        "steps": 6,
        "tokens": 96,
        "operations": cost.operations(shape, 96),
        "seconds": costs["seconds"],
    }
    assert "tokens a second" in capsys.readouterr().err


def test_a_second_command_goes_on_where_the_first_ended(study, monkeypatch):
    constant = {"final_learning_rate": 1.0}
    assert command(study, "a", [0, 6], **constant) == 0
    seen, train = [], ladder.train
    monkeypatch.setattr(
        ladder, "train", lambda *args, done, **more: seen.append(done) or train(*args, done=done, **more)
    )
    assert command(study, "b", [0, 6, 9], steps=9, **constant) == 0
    assert seen == [6]
    assert command(study, "c", [0, 6], **constant) == 0
    assert seen == [6]  # nothing is trained
    monkeypatch.undo()
    assert command(study, "alone", [0, 6, 9], steps=9, kept="other runs", **constant) == 0
    for step in (0, 6, 9):
        file = f"step{step}/model.safetensors"
        assert (study / "b" / file).read_bytes() == (study / "alone" / file).read_bytes()
    assert (study / "b" / "losses.csv").read_bytes() == (study / "alone" / "losses.csv").read_bytes()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (study / "c" / "step6" / name).read_bytes() == (study / "a" / "step6" / name).read_bytes()
    assert (study / "c" / "losses.csv").read_bytes() == (study / "a" / "losses.csv").read_bytes()
    # What was computed is told, also where less was asked for.
    assert json.loads((study / "c" / "costs.json").read_text())["steps"] == 9


def test_the_device_is_passed_on(study, monkeypatch):
    """What differs on a GPU is the device alone, on which model and batches are."""
    moved = []
    to = torch.nn.Module.to
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, device: moved.append(device) or to(self, "cpu"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: None)
    monkeypatch.setattr(devices, "_claim", lambda number: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    assert command(study, "a", device="cuda") == 0
    assert moved[0] == torch.device("cuda")
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"  # without which torch refuses to be deterministic there
    assert [json.loads(path.read_text())["device"] for path in study.glob("runs/*/run.json")] == ["a GPU"]
    monkeypatch.undo()
    assert command(study, "b") == 0
    assert len(list(study.glob("runs/*"))) == 2  # a GPU rounds differently, so its runs are others


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
def test_a_gpu_trains_the_same_model(study):
    assert command(study, "cpu") == 0 == command(study, "gpu", device="cuda")
    cpu, gpu = weights(study, "cpu"), weights(study, "gpu")
    assert all(torch.allclose(cpu[name], gpu[name], atol=1e-4) for name in cpu)


# What stops a training.


def error_of(capsys, *args, **other):
    """The one line that a command stops with, and what it must not leave behind."""
    capsys.readouterr()
    assert command(*args, **other) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("embscale train: ")]
    assert len(lines) == 1 and not (args[0] / args[1] / "losses.csv").exists()
    return lines[0]


@pytest.mark.fault(
    "a training that cannot be: sizes, steps, too few texts",
    happens="one line before it begins",
    do="what the line says",
)
@pytest.mark.parametrize(
    "other, line",
    [
        ({"head_width": 5}, "width 8 is no multiple of the head width, 5"),
        ({"checkpoints": [0, 7]}, "--checkpoints: 7 comes after the last of --steps, 6"),
        ({"batch": 200}, "the training texts hold 840 tokens, fewer than one batch of 1600"),
        ({"batch": 60}, "the held-out texts hold 420 tokens, fewer than one batch of 480"),
    ],
)
def test_a_cell_that_cannot_run_is_refused_in_a_line(study, capsys, other, line):
    assert line in error_of(capsys, study, "a", **other)


@pytest.mark.fault("a GPU asked for that is not there", happens="one line before it begins", do="`--device cpu`")
def test_a_gpu_that_is_not_there_is_reported(study, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "device cuda: torch finds no GPU here" in error_of(capsys, study, "a", device="cuda")


def test_a_run_that_diverges_ends_and_keeps_its_checkpoints(study, capsys):
    given = {"checkpoints": [0, 6], "learning_rate": 1e30, "final_learning_rate": 1.0, "warmup": 1}
    line = error_of(capsys, study, "a", **given)
    found = re.search(r"diverged: the loss of step (\d) is no number.*leave the run out, with this reason", line)
    assert found
    (state,) = study.glob("runs/*/state.json")
    assert json.loads(state.read_text())["diverged"] == int(found[1]) and (state.parent / "step0/config.json").is_file()
    assert error_of(capsys, study, "a", **given) == line  # at once: nothing is trained
    assert command(study, "b", **given | {"steps": 1, "checkpoints": [0]}) == 0  # what came before can be had


@pytest.mark.fault(
    "a corpus changed between two sessions of a training",
    happens="it is another training; the old state is refused",
    do="nothing",
)
def test_a_changed_corpus_is_another_run_and_its_state_is_refused_under_the_old_one(study, capsys):
    assert command(study, "a") == 0
    (old,) = study.glob("runs/*")
    lines = (study / "corpus.jsonl").read_text().splitlines()
    swapped = [line.replace('"train"', '"heldout"', 1) if number == 1 else line for number, line in enumerate(lines)]
    (study / "corpus.jsonl").write_text("\n".join(swapped) + "\n")
    assert command(study, "b") == 0
    (new,) = set(study.glob("runs/*")) - {old}
    for path in sorted(new.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    new.rmdir()
    old.rename(new)
    line = error_of(capsys, study, "c")
    assert (
        "run.json: the state of a run with other training, heldout; remove the folder to train from the start" in line
    )


def started(study, name, before="", **other):
    """The command as a process of its own that saves its state after each step."""
    program = (
        "import sys\n"
        "from embscale.training import runs\n"
        f"runs.SECONDS_BETWEEN_STATES = 0.0\n{before}\n"
        "from embscale.cli import execute\n"
        f"sys.exit(execute('train', {words(study, name, **other)!r}))\n"
    )
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE, text=True)


@pytest.mark.fault(
    "a limited file size at any point of a training",
    happens="one line; a state to go on from stays",
    do="free some space, then the same command",
)
@pytest.mark.long
@pytest.mark.parametrize(
    "size, full", [(300, "run.json"), (100_000, "step0/model.safetensors"), (300_000, "state-1.safetensors")]
)
def test_a_full_disk_is_reported_and_leaves_a_state_to_go_on_from(study, capsys, size, full):
    """No file may be larger than the smaller ones of the run, as on a disk without space."""
    given = {"checkpoints": [0, 6], "width": 64, "final_learning_rate": 1.0}
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
    process = started(study, "a", limit, **given)
    lines = process.communicate()[1].splitlines()
    assert process.returncode == 1 and "Traceback" not in "\n".join(lines)
    (line,) = [line for line in lines if line.startswith("embscale train: ")]
    assert re.search(
        r"runs/[0-9a-f]+: cannot write \(.*File too large.*\); the training goes on from its last state", line
    )
    assert not list(study.glob(f"runs/*/{full}"))
    assert not list((study / "a").rglob("*.json"))
    capsys.readouterr()
    assert command(study, "a", **given) == 0 == command(study, "b", kept="other runs", **given)
    file = "step6/model.safetensors"
    assert (study / "a" / file).read_bytes() == (study / "b" / file).read_bytes()
    assert not list(study.glob("runs/*/.*"))  # nothing half written is left


@pytest.mark.long
def test_a_killed_command_goes_on_and_ends_in_the_same_bytes(study):
    given = {"steps": 400, "checkpoints": [0, 200, 400], "final_learning_rate": 1.0}
    random, killed = np.random.default_rng(1), 0
    for _ in range(2):
        process = started(study, "a", **given)
        before = {path.name for path in study.rglob("state-*")}
        while process.poll() is None and {path.name for path in study.rglob("state-*")} <= before:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.1))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.communicate()
    assert killed and not (study / "a" / "losses.csv").exists()
    (folder,) = study.glob("runs/*")
    (folder / ".state-7.safetensors").touch()  # as where it is killed while it writes
    assert command(study, "a", **given) == 0 == command(study, "b", kept="other runs", **given)
    assert [path.name for path in folder.glob("*state-*")] == ["state-400.safetensors"]
    for name in ("losses.csv", *(f"step{step}/model.safetensors" for step in (0, 200, 400))):
        assert (study / "a" / name).read_bytes() == (study / "b" / name).read_bytes()
