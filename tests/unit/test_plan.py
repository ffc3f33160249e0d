"""What trainings take: counted from the models themselves, looked up as the trainer does, and told in a table."""

import copy
import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_corpus import save_corpus

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.parameters import checking
from embscale.planning import limits
from embscale.training import cost, ladder, plan, runs

pytestmark = pytest.mark.usefixtures("one_thread")

ROOT = Path(__file__).resolve().parents[2]
PARAMS = checking.read(ROOT / "params.yaml", [])
SHAPE = {
    "width": 16, "blocks": 2, "head_width": 8, "vocab_size": 50, "context": 12, "seed": 0, "positions": "rotary",
    "tied": False,
}  # fmt: skip
SHAPES = {
    "untied": SHAPE,
    "tied": SHAPE | {"tied": True},
    "one deep": SHAPE | {"blocks": 1, "width": 24},
    "learned": SHAPE | {"positions": "learned"},
    "learned, tied": SHAPE | {"positions": "learned", "tied": True},
}
shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def changed(**ladder):
    """The default parameters with another ladder."""
    config = copy.deepcopy(PARAMS)
    config["ladder"] |= ladder
    return config


@shapes
def test_weights_are_those_of_the_model(shape):
    assert cost.parameters(shape) == sum(weight.numel() for weight in ladder.build(**shape).parameters())


@shapes
def test_operations_are_what_torch_counts(shape):
    """Of matrix products, forward and backward; torch counts them as they are executed."""
    from torch.utils.flop_counter import FlopCounterMode

    model = ladder.build(**shape)
    model.set_attn_implementation("eager")  # fused attention computes some products twice
    batch = torch.zeros(3, shape["context"], dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model(input_ids=batch, labels=batch).loss.backward()
    assert cost.operations(shape, batch.numel()) == counter.get_total_flops()


@shapes
@pytest.mark.parametrize("input_table", ["trained", "frozen"])
def test_files_are_as_large_as_told(tmp_path, shape, input_table):
    model = ladder.build(**shape)
    ladder.input_table(model).requires_grad_(input_table == "trained")
    optimizer = ladder.optimiser(model, ladder.Schedule(1, 1, 12, 0.01, 1.0, 1, 0))
    tokens = torch.arange(12).numpy()
    schedule = ladder.Schedule(1, 1, 12, 0.01, 1.0, 1, 0)
    ladder.train(model, tokens, schedule, reached=lambda step, loss: None, optimizer=optimizer)
    model.save_pretrained(tmp_path)
    runs.save_file(runs._tensors(model, optimizer), tmp_path / "state.safetensors")
    told = {"model": cost.checkpoint_bytes(shape), "state": cost.state_bytes(shape, input_table)}
    for name, size in told.items():
        tensors = load_file(tmp_path / f"{name}.safetensors")
        counts = sum(key.startswith("step.") for key in tensors)  # a number for each weight
        assert size == sum(tensor.nbytes for tensor in tensors.values()) - counts * 4


def test_every_training_of_a_study_is_counted():
    config = changed(
        steps=800, checkpoints=[0, 800], variations={"depth8": {"blocks": 8, "widths": [64], "seeds": [1, 2]}}
    )
    made = plan.trainings(config)
    count = {suite: sum(t.suite == suite for t in made) for suite in dict.fromkeys(t.suite for t in made)}
    # 4 widths x 3 seeds; 3 values, one of which is the ladder's own; 3 starts x 3 seeds.
    assert count == {"ladder": 12, "ladder-depth8": 2, "learned": 1, "tuning": 2, "warm starts": 9}
    tokens = {suite: sum(t.tokens for t in made if t.suite == suite) for suite in count}
    assert tokens == {suite: n * 1024 * (100 if suite == "warm starts" else 800) for suite, n in count.items()}
    assert {t.shape["blocks"] for t in made if t.suite == "ladder-depth8"} == {8}
    assert [t.run for t in made if t.suite == "learned"] == ["learned-w64"]
    assert {t.run for t in made if t.suite in ("tuning", "warm starts")} == {""}
    assert sum(t.input_table == "frozen" for t in made) == 3


@pytest.mark.parametrize("other, count", [({"widths": [16, 64]}, 3), ({"checkpoints": [0, 100]}, 3), ({}, 2)])
def test_what_the_ladder_has_trained_is_not_tuned_again(other, count):
    assert sum(training.suite == "tuning" for training in plan.trainings(changed(**other))) == count


def test_experiments_beside_the_ladder_do_not_take_its_device():
    made = plan.trainings(changed(device="cuda", input_table="frozen"))
    assert {t.device for t in made if t.run} == {"cuda"} and {t.input_table for t in made if t.run} == {"frozen"}
    assert {t.device for t in made if not t.run} == {"cpu"}
    assert sum(t.input_table == "frozen" for t in made if not t.run) == 3  # warm starts whose table is frozen


def test_jobs_side_by_side_end_with_the_longest():
    assert plan.side_by_side([5, 1, 1, 1, 1], 2) == 5
    assert plan.side_by_side([3, 3, 3], 2) == 6
    assert plan.side_by_side([3, 3, 3], 1) == 9
    assert plan.side_by_side([], 4) == 0


@pytest.mark.parametrize(
    "value, text", [(0, "0"), (999, "999"), (999.6, "1 k"), (1234, "1.23 k"), (6.27e8, "627 M"), (1.99e15, "1.99 P")]
)
def test_numbers_have_three_digits_and_a_prefix(value, text):
    assert plan.si(value) == text


def test_durations_are_in_words():
    assert [plan.duration(seconds) for seconds in (3.4, 61, 3600 * 45.44)] == ["3 s", "1 min", "45.4 h"]


# Time.


def test_a_model_too_large_to_be_timed_takes_as_long_for_an_operation_as_the_largest_that_was(monkeypatch):
    timed = []

    def seconds_of_a_step(training, *, until):
        timed.append(training.width)
        return 0.001 * training.width

    monkeypatch.setattr(plan, "_seconds_of_a_step", seconds_of_a_step)
    made = plan.trainings(changed(widths=[64, 32, 1_000_000, 16], variations={}))
    speed = plan.measure(made, seconds=1)
    assert timed == sorted(timed) and set(timed) == {16, 32, 64}
    by_run = {training.run: training for training in made}
    huge, largest = by_run["ladder-w1000000"], by_run["learned-w64"]  # which is timed after the ladder's
    ratio = huge.operations_per_step / largest.operations_per_step
    assert speed.step[huge.kind] == pytest.approx(speed.step[largest.kind] * ratio)


def test_time_is_of_steps_and_of_losses_at_checkpoints():
    (training,) = [t for t in plan.trainings(changed(steps=400, checkpoints=[0, 100, 400])) if t.run == "ladder-w64"]
    speed = plan.Speed({training.kind: 0.5}, start=7, heldout_tokens=3 * 1024)
    assert speed.seconds(training) == pytest.approx(7 + 0.5 * (400 + 3))
    assert speed.seconds(training, 200) == pytest.approx(7 + 0.5 * (200 + 1))
    assert speed.seconds(training, 400) == 0


def test_steps_are_timed():
    config = changed(widths=[16], seeds=[1], checkpoints=[0, 400], blocks=1)
    config["tokenizer"]["vocab_size"] = 50
    made = [training for training in plan.trainings(config) if training.suite in ("ladder", "learned")]
    speed = plan.measure(made, seconds=0.1)
    assert set(speed.step) == {training.kind for training in made} and len(speed.step) == 2
    assert all(0 < seconds < 5 for seconds in speed.step.values())


# What is trained already.

SMALL = {
    "widths": [8],
    "seeds": [3],
    "blocks": 1,
    "head_width": 4,
    "context": 8,
    "batch": 2,
    "steps": 6,
    "checkpoints": [0, 6],
}
SETTINGS = {name: value for name, value in PARAMS["ladder"].items() if name not in ("variations", "left_out", "tied")}


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study of small models with its texts, and a function that trains its run for so many steps."""
    config = changed(**SMALL)
    config |= {"study": "mine"}
    config["tokenizer"] |= {"vocab_size": 14, "name": "words"}
    config["positions"]["learned_width"] = 8
    results = tmp_path / "results"
    corpus, tokenizer = results / "mine/tasks/PyDocsSeeAlso", results / "mine/tokenizer"
    tokens = results / "mine/tokens/PyDocsSeeAlso/words.safetensors"
    for folder in (corpus, tokenizer, tokens.parent):
        folder.mkdir(parents=True)
    save_corpus(corpus)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (corpus / name).rename(tokenizer / name)
    (corpus / "tokens.safetensors").rename(tokens)

    def train(steps, checkpoints):
        values = {**SETTINGS, **SMALL, "vocab_size": 14, "width": 8, "seed": 3, "positions": "rotary", "steps": steps}
        lists = ("widths", "seeds", "checkpoints")
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in values.items() if name not in lists]
        flags += ["--checkpoints", *map(str, checkpoints)]
        files = ["--corpus", corpus, "--tokens", tokens, "--tokenizer", tokenizer, "--runs", results / "runs"]
        return execute("train", [*map(str, files), *flags, "-o", str(tmp_path / "made")])

    return config, results, train


def found(config, results):
    return plan.look_up(plan.trainings(config), plan.Files.of(config, results))


def test_runs_are_found_as_the_trainer_finds_them(study):
    config, results, train = study
    assert found(config, results).steps == {"ladder-w8": 0, "learned-w8": 0}
    assert train(4, [0]) == 0
    assert found(config, results).steps == {"ladder-w8": 4, "learned-w8": 0}
    assert train(9, [0, 6, 9]) == 0  # longer than the study asks for
    assert found(config, results).steps == {"ladder-w8": 6, "learned-w8": 0}
    # A checkpoint that was passed unsaved is to be trained again, from the start.
    config["ladder"]["checkpoints"] = [0, 3, 6]
    assert found(config, results).steps["ladder-w8"] == 0
    config["ladder"] |= {"checkpoints": [0, 6], "learning_rate": 0.02}
    assert found(config, results).steps["ladder-w8"] == 0


def test_without_texts_or_device_it_is_not_told(study, monkeypatch):
    config, results, train = study
    assert train(4, [0]) == 0
    tokens = plan.Files.of(config, results).tokens
    tokens.rename(tokens.with_name("aside"))
    assert found(config, results) is None
    tokens.with_name("aside").rename(tokens)
    assert found(config, results) is not None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    config["ladder"]["device"] = "cuda"
    assert found(config, results) is None
    config |= {"study": "other"}
    assert found(config, results) is None


def test_a_run_that_diverged_is_named(study):
    config, results, train = study
    assert train(6, [0, 6]) == 0
    (state,) = results.glob("runs/*/state.json")
    state.write_text(json.dumps(json.loads(state.read_text()) | {"diverged": 5}))
    done = found(config, results)
    assert done.diverged == {"ladder-w8": 5}
    text = plan.render(plan.trainings(config), done=done, speed=None, cores=2)
    assert "ladder-w8 diverged at step 5: lower its learning rate, or name it in ladder.left_out." in text


def test_a_damaged_state_is_reported(study):
    config, results, train = study
    assert train(4, [0]) == 0
    (state,) = results.glob("runs/*/state.json")
    state.write_text("{")
    with pytest.raises(EmbscaleError, match=r"state.json: damaged"):
        found(config, results)


# The table.


def test_totals_are_sums_and_come_last():
    made = plan.trainings(PARAMS)
    done = plan.Done(
        {
            training.run: 400 if training.width == 16 else 100 * (training.width == 32)
            for training in made
            if training.run
        }
    )
    speed = plan.Speed({training.kind: 0.09 for training in made}, 0, 0)
    lines = plan.render(made, done=done, speed=speed, cores=2).splitlines()
    end = lines.index("")
    table = [re.split(r"  +", line.strip()) for line in lines[:end]]
    assert len({len(line) for line in lines[:end]}) == 1
    assert table[0] == ["trainings", "runs", "done", "begun", "tokens", "FLOPs", "core time", "checkpoints", "states"]
    assert table[1][:5] == ["ladder", "12", "3", "3", "4.92 M"]
    assert table[2][:5] == ["width 16", "3", "3", "0", "1.23 M"]
    assert table[-1][:5] == ["total", "24", "3", "3", "7.07 M"]
    left = sum(t.tokens for t in made) - 1024 * (3 * 400 + 3 * 100)
    seconds = left / 1024 * 0.09 / 2
    assert lines[end + 1].startswith(f"Left to train: 21 runs of {plan.si(left)} tokens, ")
    assert f"about {plan.duration(seconds)} on 2 cores" in lines[end + 1]


def test_nothing_is_left_of_what_is_done():
    made = [training for training in plan.trainings(PARAMS) if training.run]
    text = plan.render(made, done=plan.Done({t.run: 400 for t in made}), speed=None, cores=1)
    assert "Left to train: nothing." in text and "core time" not in text


def test_what_is_not_known_is_not_told():
    text = plan.render(plan.trainings(PARAMS), done=None, speed=None, cores=1)
    assert "begun" not in text.splitlines()[0] and "can be told once the study's texts are there" in text


OVERLAY = """\
study: trial
ladder:
  steps: 12000
  checkpoints: [0, 400, 12000]
  variations: {tied: {tied: true}, depth8: {blocks: 8, widths: [64], seeds: [1, 2]}}
"""


@pytest.mark.parametrize(
    "study, runs_",
    [(None, 24), ("studies/tiny.yaml", 13), ("studies/paper.yaml", None), ("studies/ladder.yaml", None), (OVERLAY, 38)],
)
def test_the_command_tells_any_study(study, runs_, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    if study == OVERLAY:
        (tmp_path / "mine.yaml").write_text(OVERLAY, "utf-8")
        study = str(tmp_path / "mine.yaml")
    monkeypatch.setattr(limits.Room, "here", classmethod(lambda cls, results: limits.Room(10**12, 10**13)))
    given = ["--no-measure", "--results", str(tmp_path)]
    # Some checkpoints of the papers' study have no pinned commit.
    assert execute("plan", [*([study] if study else []), *given]) == (study == "studies/paper.yaml")
    lines = capsys.readouterr().out.splitlines()
    config = checking.read(ROOT / "params.yaml", [Path(study)] if study else [])
    (total,) = [line for line in lines if re.match(r"total +\d+ +\d+ +\d+ ", line)]
    made = plan.trainings(config)
    assert total.split()[1] == str(len(made)) and (runs_ is None or len(made) == runs_)


def test_the_command_times_a_few_steps(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("embscale.cli.plan.SECONDS_OF_MEASURING", 0.1)
    assert execute("plan", ["studies/tiny.yaml", "--results", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "core time" in text and "No published suites" in text and "with a GPU" in text
    assert re.search(r"about \d+ (s|min|h) on \d+ cores?, a run on each", text)


def test_a_study_that_cannot_be_trained_is_refused_in_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    (tmp_path / "mine.yaml").write_text("study: mine\nladder: {widths: [24]}\n", "utf-8")
    assert execute("plan", [str(tmp_path / "mine.yaml"), "--no-measure"]) == 1
    error = capsys.readouterr().err
    assert "mine.yaml: ladder.widths: 24 is no multiple of ladder.head_width, 16" in error
