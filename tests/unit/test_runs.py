"""Training runs that are interrupted end in the same bytes, and no run takes up what is not its own."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from embscale.errors import EmbscaleError
from embscale.training import ladder, runs

pytestmark = pytest.mark.usefixtures("one_thread")

SHAPE = {"width": 8, "blocks": 1, "head_width": 4, "vocab_size": 20, "context": 8, "seed": 0, "positions": "rotary"}
CHECKPOINTS = [0, 3, 9]
CPU = torch.device("cpu")
CONSTANT = {"batch": 2, "context": 8, "learning_rate": 0.02, "final_learning_rate": 1.0, "warmup": 2, "seed": 0}
TOKENS = np.random.default_rng(0).integers(0, 20, 400)


def schedule(steps=9, **other):
    return ladder.Schedule(**CONSTANT | other, steps=steps)


def a_run(root, *, tokens=TOKENS, shape=SHAPE, input_table="trained", **other):
    about = runs.description(
        shape=shape,
        schedule=schedule(**other),
        input_table=input_table,
        training=tokens,
        unseen=tokens[:64],
        threads=1,
        device=CPU,
    )
    return runs.Run(root, about)


def train(run, steps=9, checkpoints=CHECKPOINTS, tokens=TOKENS, report=lambda step, words: None, **other):
    with run.opened():
        return run.train(tokens, tokens[:64], schedule(steps, **other), checkpoints, device=CPU, report=report)


def bytes_of(run, checkpoints=CHECKPOINTS):
    return [(run.checkpoint(step) / name).read_bytes() for step in checkpoints for name in runs.KEPT]


VARIATIONS = {
    "untied": {},
    "tied": {"shape": SHAPE | {"tied": True}},
    "frozen": {"input_table": "frozen"},
    "rate": {"embedding_rate": 4.0},
    "decay": {"table_decay": 0.1, "weight_decay": 0.01},
    "cosine": {"final_learning_rate": 0.1},
}


@pytest.mark.parametrize("other", VARIATIONS.values(), ids=VARIATIONS)
@pytest.mark.parametrize("stop", [0, 1, 3, 5])
def test_an_interrupted_run_ends_in_the_same_bytes(tmp_path, monkeypatch, other, stop):
    monkeypatch.setattr(runs, "SECONDS_BETWEEN_STATES", 0.0)
    settings = {key: value for key, value in other.items() if key not in ("shape", "input_table")}
    whole = a_run(tmp_path / "whole", **other)
    expected = train(whole, **settings)

    def interrupt(step, words):
        if step == stop + 1:
            raise KeyboardInterrupt

    cut = a_run(tmp_path / "cut", **other)
    with pytest.raises(KeyboardInterrupt):
        train(cut, report=interrupt, **settings)
    again = a_run(tmp_path / "cut", **other)
    found = train(again, **settings)
    assert bytes_of(again) == bytes_of(whole)
    assert found.losses == expected.losses and found.heldout == expected.heldout
    assert (again.folder / "state-9.safetensors").read_bytes() == (whole.folder / "state-9.safetensors").read_bytes()


def test_a_run_is_what_training_in_one_go_gives(tmp_path):
    run = a_run(tmp_path)
    train(run)
    model = ladder.build(**SHAPE)
    ladder.train(model, TOKENS, schedule(), reached=lambda step, loss: None)
    made = load_file(run.checkpoint(9) / "model.safetensors")
    expected = {name.replace("lm_head", "embed_out"): weight for name, weight in model.state_dict().items()}
    assert all(torch.equal(weight, expected[name]) for name, weight in made.items())


def test_a_longer_run_begins_with_a_shorter_one(tmp_path):
    """Studies share what they have in common, and nothing is trained twice."""
    short = train(a_run(tmp_path), steps=3, checkpoints=[0, 3])
    seen = []
    longer = a_run(tmp_path)
    found = train(longer, report=lambda step, words: seen.append(step))
    assert seen[0] == 4 and found.losses[:3] == short.losses
    alone = a_run(tmp_path / "alone")
    train(alone)
    assert bytes_of(longer) == bytes_of(alone)
    # The shorter one again: there is nothing to train.
    train(a_run(tmp_path), steps=3, checkpoints=[0, 3], report=lambda step, words: pytest.fail("trained again"))


def test_where_the_rate_depends_on_the_number_of_steps_runs_are_not_shared(tmp_path):
    falling = [a_run(tmp_path, final_learning_rate=0.1, steps=steps).folder for steps in (3, 9)]
    assert falling[0] != falling[1]
    assert a_run(tmp_path, steps=3).folder == a_run(tmp_path, steps=9).folder


def test_a_checkpoint_that_was_passed_unsaved_is_made(tmp_path):
    train(a_run(tmp_path))
    run = a_run(tmp_path)
    train(run, checkpoints=[0, 5, 9])
    alone = a_run(tmp_path / "alone")
    train(alone, checkpoints=[0, 5, 9])
    assert bytes_of(run, [0, 5, 9]) == bytes_of(alone, [0, 5, 9])


@pytest.mark.fault(
    "the state of another training in the folder of this one",
    happens="the training stops and names the folder",
    do="remove the folder",
)
@pytest.mark.parametrize("other", [{"tokens": TOKENS[::-1].copy()}, {"seed": 1}, {"learning_rate": 0.01}])
def test_another_run_has_another_folder_and_refuses_the_state_of_this_one(tmp_path, other):
    first = a_run(tmp_path)
    train(first)
    second = a_run(tmp_path, **other)
    assert second.folder != first.folder
    first.folder.rename(second.folder)
    with pytest.raises(EmbscaleError, match=r"the state of a run with other (training|schedule).*remove the folder"):
        train(second)


@pytest.mark.fault(
    "a state or checkpoint of a training flipped, cut or removed",
    happens="the training stops and names it",
    do="remove its folder",
)
@pytest.mark.parametrize("name", ["state-9.safetensors", "step3/model.safetensors", "step0/config.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_file_stops_the_run(tmp_path, name, damage):
    run = a_run(tmp_path)
    train(run)
    path = run.folder / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    {"flip": lambda: path.write_bytes(content), "cut": lambda: path.write_bytes(content[:20]), "remove": path.unlink}[
        damage
    ]()
    with pytest.raises(EmbscaleError, match=rf"{name}: damaged .*to train from the start"):
        train(a_run(tmp_path), steps=12)


@pytest.mark.fault(
    "the record of a training damaged", happens="the training stops and names it", do="remove its folder"
)
@pytest.mark.parametrize("text", ["", "[1]", '{"steps": 3}', '{"step": 3, "heldout": {"x": 1}}'])
def test_a_damaged_record_stops_the_run(tmp_path, text):
    run = a_run(tmp_path)
    train(run)
    (run.folder / "state.json").write_text(text)
    with pytest.raises(EmbscaleError, match=r"state.json: damaged"):
        train(a_run(tmp_path))


@pytest.mark.fault(
    "a loss that is no number", happens="the training ends; its checkpoints stay", do="another learning rate"
)
def test_a_loss_that_is_no_number_ends_the_run_and_keeps_its_checkpoints(tmp_path, monkeypatch):
    poisoned = a_run(tmp_path)
    step = ladder.GPTNeoXForCausalLM.forward
    calls = []

    def forward(self, *args, **kwargs):
        found = step(self, *args, **kwargs)
        calls.append(1)
        if self.training and sum(calls) > 10:
            found.loss = found.loss * float("nan")
        return found

    monkeypatch.setattr(ladder.GPTNeoXForCausalLM, "forward", forward)
    with pytest.raises(EmbscaleError, match=r"diverged: the loss of step \d is no number.*ladder.left_out"):
        train(poisoned)
    monkeypatch.undo()
    kept = json.loads((poisoned.folder / "state.json").read_text())
    assert kept["diverged"] == kept["step"] < 9 and "step3/model.safetensors" in kept["files"]
    with pytest.raises(EmbscaleError, match="diverged"):
        train(a_run(tmp_path))
    train(a_run(tmp_path), steps=3, checkpoints=[0, 3])  # what comes before is whole


@pytest.mark.fault("two processes that train one run", happens="the second ends with one line", do="wait")
def test_two_processes_do_not_train_one_run(tmp_path):
    with a_run(tmp_path).opened(), pytest.raises(EmbscaleError, match="another process trains this run"):
        train(a_run(tmp_path))


@pytest.mark.fault(
    "a disk that is full while a state is saved",
    happens="one line; the state before it stays",
    do="free some space, then the same command",
)
def test_a_full_disk_leaves_the_state_before(tmp_path, monkeypatch):
    train(a_run(tmp_path), steps=3, checkpoints=[0, 3])
    before = {path.name: path.read_bytes() for path in a_run(tmp_path).folder.glob("state*")}

    def full(tensors, path):
        path.write_bytes(b"half")
        raise runs.SafetensorError("No space left on device")

    monkeypatch.setattr(runs, "save_file", full)
    with pytest.raises(EmbscaleError, match=r"cannot write.*No space left"):
        train(a_run(tmp_path))
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in a_run(tmp_path).folder.glob("state*")} == before
    run, alone = a_run(tmp_path), a_run(tmp_path / "alone")
    train(run)
    train(alone)
    assert bytes_of(run) == bytes_of(alone)


PROGRAM = """
import sys, pathlib
sys.path.insert(0, {tests!r})
import test_runs
from embscale.training import runs
runs.SECONDS_BETWEEN_STATES = 0.0
run = test_runs.a_run(pathlib.Path({root!r}))
test_runs.train(run, steps=300, checkpoints=[0, 150, 300])
"""


@pytest.mark.fault(
    "a training killed with -9", happens="it goes on and ends in the same bytes", do="the same command again"
)
@pytest.mark.long
def test_a_killed_process_ends_in_the_same_bytes(tmp_path):
    program = PROGRAM.format(tests=str(Path(__file__).parent), root=str(tmp_path / "killed"))
    random = np.random.default_rng(1)
    killed = 0
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", program])
        states = tmp_path / "killed"
        before = {path.name for path in states.rglob("state-*")}
        while process.poll() is None and {path.name for path in states.rglob("state-*")} <= before:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.2))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()
    assert killed
    subprocess.run([sys.executable, "-c", program], check=True)
    alone = a_run(tmp_path / "alone")
    train(alone, steps=300, checkpoints=[0, 150, 300])
    assert bytes_of(a_run(tmp_path / "killed"), [0, 150, 300]) == bytes_of(alone, [0, 150, 300])
