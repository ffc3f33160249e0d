"""What a study takes by chapter: against the models themselves, the files that are written, and torch's counts."""

import copy
import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from layer_states import SETTINGS, made, noise

import guards
from embscale.checkpoints import suites
from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.layers import ablations, classifiers, examples, probes, running
from embscale.parameters import checking
from embscale.planning import disk, limits, speed, table, work
from embscale.planning.models import Model, Models
from embscale.texts.samples import Sample
from embscale.texts.tokens import TokenisedTexts
from embscale.training import cost, ladder, plan

pytestmark = pytest.mark.usefixtures("one_thread")

ROOT = Path(__file__).resolve().parents[2]
PARAMS = checking.read(ROOT / "params.yaml", [])
ROOM = limits.Room(memory=10**12, disk=10**13)
OWN = {
    "name": "m", "suite": "s", "tokenizer": "t", "family": "gpt_neox", "rows": 50, "dims": 16, "width": 16, "depth": 2,
    "item": 4, "checkpoints": ("step0", "step6"), "own": True, "whole": True,
}  # fmt: skip


def models(planned=(), **changed):
    """The default study's, with other parameters of the layers or of the ladder."""
    config = copy.deepcopy(PARAMS)
    for name, value in changed.items():
        for group in ("layers", "ladder"):
            if name in config[group]:
                config[group][name] = value
                break
        else:
            raise KeyError(name)
    return Models(config, list(planned))


def published(**facts):
    """A published model that takes part as a whole."""
    names = {field.name: None for field in dataclasses.fields(suites.Checkpoint)}
    point = suites.Checkpoint(
        **names
        | {"suite": "gpt2", "model": "gpt2", "family": "gpt2", "tokenizer": "gpt2", "rows": 50257, "dims": 768}
        | {"width": 768, "depth": 12, "dtype": "F32", "checkpoint_gb": 0.55}
        | facts
    )
    return suites.Planned(point, "fetch", "", whole=True)


def problems(found, room=ROOM):
    """What does not fit."""
    jobs, files = work.jobs(found, figures=3), disk.files(found, Path("nowhere"))
    return list(limits.problems(found, jobs, disk.need(files, room.disk), room))


# Disk.


@pytest.mark.parametrize("family", ["gpt_neox", "gpt2", "opt", "llama", "gemma", "bloom"])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_states_are_as_large_as_the_file_that_is_written(checkpoint, family, precision):
    skeleton = running.skeleton(checkpoint(family))
    parts = running.anatomy(skeleton)
    model = Model(
        **OWN | {"family": family, "rows": 0, "dims": parts.embedding.embedding_dim, "width": parts.width}
        | {"depth": len(parts.blocks)}
    )  # fmt: skip
    ids = TokenisedTexts(np.ones(5 * 7, np.int32), np.arange(6, dtype=np.int64) * 7)
    layout = running.layout(
        skeleton, Sample(tuple("abcde"), ids, 0), first_position=0, precision=precision, metadata={}
    )
    header = min(tensor.start for tensor in layout.tensors.values())
    assert model.states_bytes(5 * 7, precision) == layout.size - header
    assert model.classes == len([name for name in layout.tensors if "block" in name]) + (
        "layer.block input" not in layout.tensors
    )


def test_files_are_those_of_the_workflow_and_sizes_add_up():
    found = models([published()], suites=["ladder", "gpt2"], base="gpt2")
    of = {file.path.as_posix(): file for file in disk.files(found)}
    assert of["results/hub/tables/gpt2/main.safetensors"].size == 50257 * 768 * 4
    assert of["results/hub/checkpoints/gpt2/main/config.json"].size == 550_000_000
    assert of["results/desk/tables/ladder-w16-seed2/step25.safetensors"].size == 4096 * 16 * 4
    training = next(training for training in found.trainings if training.run == "ladder-w16")
    shape = training.shape
    told = 4 * (2 * cost.checkpoint_bytes(shape) + 64 * 4096) + cost.state_bytes(shape, "trained")
    assert of["results/desk/checkpoints/ladder-w16/losses.csv"].size == told
    states = [path for path in of if path.startswith("results/desk/states/")]
    # One source for each of four widths, all three for the base model.
    assert len(states) == 4 + 3 and sum(path.endswith("/gpt2.safetensors") for path in states) == 3
    # 200 texts of 32 tokens; embedding, input of block 1, twelve blocks, final norm.
    values = 200 * 32 * (15 * 768 * 4 + 24)
    assert 0 <= of["results/desk/states/docstrings/gpt2.safetensors"].size - values < 20_000


def test_what_is_there_needs_no_disk(tmp_path):
    there, other = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    files = [disk.File(there, disk.LAYERS, 500), disk.File(other, disk.HUB, 700)]
    assert disk.need(files, 0).size == 1200
    there.write_bytes(bytes(300))
    assert disk.need(files, 0).size == 700
    # A job that writes it again replaces it.
    assert disk.need(files, 0, written=[there, other]).size == 500 - 300 + 700
    assert disk.need(files, 0, written=[tmp_path / "c"]).size == 0


def test_a_disk_that_is_too_small_is_named_with_what_makes_less():
    files = [disk.File(Path("a"), disk.HUB, 10**9), disk.File(Path("b"), disk.LAYERS, 5 * 10**9)]
    assert disk.need(files, 7 * 10**9).fits and disk.need(files, 7 * 10**9).size == 6 * 10**9
    short = disk.need(files, 7 * 10**9 - 1)
    assert not short.fits and "\n" not in short.words
    assert "6.0 GB are to be written" in short.words and "layers.texts_count" in short.words
    assert disk.need([], 0).fits  # nothing to write needs no room


def test_a_run_that_would_fill_the_disk_stops_in_a_line(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    config = models(texts_count=20_000).config
    outputs = ["results/desk/states/docstrings/ladder-w128.safetensors", "results/desk/report/page.html"]
    dag = SimpleNamespace(needrun_jobs=lambda: [SimpleNamespace(output=outputs)])
    size = 20_000 * 32 * (6 * 128 * 4 + 24)
    for free, stops in [(size + 2 * 10**9, False), (size, True)]:
        monkeypatch.setattr(guards.shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        if stops:
            with pytest.raises(Exception, match=r"the disk: 2\.0 GB are to be written.*layers\.texts_count") as raised:
                guards.stop_before_the_disk_is_full(dag, config, [])
            assert type(raised.value).__name__ == "WorkflowError" and "\n" not in str(raised.value)
        else:
            guards.stop_before_the_disk_is_full(dag, config, [])
    outputs.clear()  # nothing to do needs no room
    monkeypatch.setattr(guards.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    guards.stop_before_the_disk_is_full(dag, config, [])


# Operations.


def counted(run):
    """Floating-point operations that torch executes."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def test_operations_of_a_forward_pass_are_what_torch_counts():
    shape = {"width": 16, "blocks": 2, "head_width": 8, "vocab_size": 50, "context": 12, "seed": 0}
    model = ladder.build(**shape, positions="rotary")
    model.set_attn_implementation("eager")
    batch = torch.zeros(3, 12, dtype=torch.long)
    assert Model(**OWN).forward_operations(36, 12) == counted(lambda: model.base_model(input_ids=batch))


def test_operations_of_a_gradient_are_what_torch_counts():
    features, labels = torch.randn(5 * 8, 16), torch.arange(5).repeat(8)
    weights = torch.zeros(5, 16, requires_grad=True)
    told = work.gradient_operations(work.Set(vectors=8, classes=5, columns=16))
    assert told == counted(lambda: torch.nn.functional.cross_entropy(features @ weights.T, labels).backward())
    assert work.gradient_operations(work.Set(191_100 / 13, 13, 768)) == pytest.approx(7.63e9, rel=1e-3)


def test_scores_count_two_operations_for_each_column_of_tokens_and_pairs():
    texts = work.Texts(documents=100, queries=10, tokens=9000, size=0, known=True)
    assert work.score_operations(texts, 64, 16) == {work.RANKING: 2 * 16 * (6400 + 1000), work.PAIRS: 1000}
    assert work.score_operations(texts, "all", 16)[work.RANKING] == 2 * 16 * (9000 + 1000)
    assert [work.columns_of(v, 64) for v in ("crop:16", "crop_pca:128", "pad:512:7", "pad_rms:8:7", "unit")] == [
        16, 64, 512, 64, 64,
    ]  # fmt: skip


def test_refits_are_those_of_the_ablations(monkeypatch):
    columns = []
    real = ablations.logistic_regression

    def counting(train, settings, *, start=None):
        columns.append(start.weights.shape[1])
        return real(train, settings, start=start)

    monkeypatch.setattr(ablations, "logistic_regression", counting)
    states = made(noise(3, 40, 8) + np.arange(3)[:, None, None])
    used = np.ones(40, dtype=bool)
    found = ablations.base(states, used, SETTINGS, split="text", seeds=[1], resamples=5, bootstrap_seed=1, name="toy")
    list(ablations.ablations(found, random_masks=2))
    assert sorted(columns) == sorted(work.refits(8))


def test_fits_grow_with_seeds_and_classes():
    whole, settings = work.Set(1000, 5, 64), PARAMS["layers"]
    one, _ = work.fit_operations("logistic_regression", whole, settings, 1)
    five, _ = work.fit_operations("logistic_regression", whole, settings, 5)
    gradient = work.gradient_operations(whole.share(0.75))
    assert one[work.GRADIENT] == gradient * work.COLD
    assert five[work.GRADIENT] == gradient * (work.COLD + 4 * work.WARM)
    sgd, _ = work.fit_operations("sgd", whole, settings, 2)
    assert five[work.PRODUCT] == 5 * 2 * 3750 * 64**2  # covariances
    assert sgd[work.STEP] == 2 * 50 * 4  # batches of 1,024
    # Of 4,000 training examples, four for each weight; of 1,000 tested ones, two.
    assert sgd[work.GRADIENT] == pytest.approx(2 * 50 * 64 * 5 * (4 * 4000 + 2 * 1000))


# What does not fit.


def test_the_default_study_fits():
    assert problems(models()) == []


def test_a_study_without_layers_is_told_what_it_names():
    found = problems(models(suites=[]))
    assert f"layers.base: {PARAMS['layers']['base']} takes no part in this study; no model of layers.suites" in found[0]
    assert {line.split(":")[0] for line in found} == {"layers.base", "layers.pictured", "layers.grid.models"}


def test_states_above_the_budget_are_named_with_the_size_that_is_enough():
    (line,) = [line for line in problems(models(storage_gb=0.015)) if "storage_gb" in line]
    assert line.startswith("states ladder-w128: 0.0 GB are above layers.storage_gb, 0.015; raise it to 0.1")


@pytest.mark.parametrize("classifier", ["sgd", "lda", "logistic_regression", "majority", "decision_tree"])
@pytest.mark.parametrize("share, fits", [(1.0001, True), (0.9999, False)])
def test_classifiers_are_refused_where_the_fit_itself_refuses_them(classifier, share, fits):
    found = models(classifiers=[classifier], texts_count=20, tokens=3, first_position=0)
    model = next(model for model in found.classified if model.width == 16)
    size = limits.training_bytes(classifier, work.whole_set(model, found.config["layers"]), found.config["layers"])
    assert (size == 0) == (classifier != "decision_tree")
    found.config["layers"]["memory_gb"] = max(size, 1) * share / 1e9
    told = [line for line in problems(found) if "layers.memory_gb" in line and line.startswith(f"probe {model.name}")]
    states = made(noise(model.classes, 60, 16))
    parts = probes.train_test_split(
        states, np.ones(60, dtype=bool), split="vector", seed=1,
        test_fraction=classifiers.SGD_TEST_FRACTION if classifier == "sgd" else SETTINGS.test_fraction,
    )  # fmt: skip
    train, test = (examples.Examples(states, part, 150) for part in parts)
    settings = dataclasses.replace(SETTINGS, memory_gb=found.config["layers"]["memory_gb"], epochs=1)
    if fits or size == 0:
        assert not told
        classifiers.fit(classifier, train, test, settings, seed=1)
    else:
        assert f"{classifier} needs up" in told[0]
        with pytest.raises(EmbscaleError, match="must be in memory at once"):
            classifiers.fit(classifier, train, test, settings, seed=1)


def test_a_grid_is_never_refused_for_its_memory():
    found = models(classifiers=["logistic_regression"], memory_gb=0.001)
    assert not [line for line in problems(found) if line.startswith("grid ladder-w64")]


def test_a_model_too_large_for_memory_is_named_with_the_parameter():
    big = published(checkpoint_gb=28.0, width=4096, dims=4096, depth=32, rows=32000, parameters=7 * 10**9)
    found = models([big], suites=["ladder", "gpt2"], storage_gb=100.0)
    (line,) = [line for line in problems(found, limits.Room(24 * 10**9, 10**13)) if line.startswith("states gpt2")]
    assert "GB of memory, but 24.0 GB are free; take a smaller layers.batch, layers.precision, or hub." in line
    assert not [line for line in problems(found) if line.startswith("states gpt2")]
    found.config["layers"]["precision"] = "float16"  # half as much
    assert not [line for line in problems(found, limits.Room(24 * 10**9, 10**13)) if line.startswith("states gpt2")]


def test_no_disk_and_no_pins_are_named():
    (line,) = problems(models(), limits.Room(10**12, 10**8))
    assert line.startswith("the disk: 0.5 GB are to be written")
    unpinned = dataclasses.replace(published(), status="unpinned")
    assert "1 checkpoints have no pinned commit, gpt2 first: run embscale pin" in problems(models([unpinned]))[0]


def test_a_model_of_unknown_depth_is_named():
    found = models([published(depth=None)], suites=["ladder", "gpt2"])
    assert any(line.startswith("gpt2: its depth is not in hub.registry") for line in problems(found))


# Time.

SPEED = speed.Speed(
    dict.fromkeys(work.KINDS, 1e9), plan.Speed({t.kind: 0.5 for t in models().trainings}, start=3.0, heldout_tokens=0)
)


def test_time_is_operations_by_their_rates_after_the_libraries():
    job = work.Job("layers", "x", {work.PRODUCT: 4e9, work.PAIRS: 2e9}, seconds=1.0, device="auto")
    start = speed.STARTS["layers"]
    assert SPEED.seconds(job) == start + 1 + 4 + 2
    # The operations move, the rest stays.
    assert SPEED.with_gpu(job, 8e9) == start + 1 + (4 + 2) / 8
    assert SPEED.with_gpu(dataclasses.replace(job, device="cpu"), 8e9) == SPEED.seconds(job)


def test_steps_one_after_the_other_take_a_gpu_the_time_of_their_launches():
    job = work.Job("layers", "x", {work.GRADIENT: 8e9, work.STEP: 1e6}, device="auto")
    start = speed.STARTS["layers"]
    assert SPEED.seconds(job) == start + 8
    assert SPEED.with_gpu(job, 8e9) == pytest.approx(start + 1 + 1e6 * speed.LAUNCHES)


def test_a_task_in_one_language_has_the_size_of_that_language():
    one, other = work.texts_of("XQuADRetrieval:es"), work.texts_of("XQuADRetrieval:zh")
    assert one.known and one[:2] == (240, 1184) and one.size == 292_907 and other.size < one.size / 2


def test_the_table_has_a_line_for_each_chapter_and_totals():
    found = models([published()], suites=["ladder", "gpt2"])
    jobs, files = work.jobs(found, figures=3), disk.files(found)
    text = table.render(found, jobs, files, speed=SPEED, throughput=1e13, cores=2, room_words="Room.")
    lines = text.split("\n")[: text.split("\n").index("")]
    assert [line.split()[0] for line in lines] == ["chapter", *work.CHAPTERS, "total"]
    assert len({len(line) for line in lines}) == 1
    assert lines[-1].split()[1] == str(sum(job.count for job in jobs))
    assert plan.si(sum(file.size for file in files), "B") in lines[-1]
    assert plan.si(sum(map(table.operations, jobs))) in lines[-1]
    without = table.render(found, jobs, files, speed=None, throughput=1e13, cores=2, room_words="Room.")
    assert "core time" not in without and without.endswith("Room.")


def test_measured_rates_are_positive_and_a_ranking_costs_more_by_columns():
    rates = {**speed._ranking(0.01), work.PRODUCT: speed._product(0.01)}
    assert all(rate > 0 for rate in rates.values())
    assert speed._gradient(0.01) > 0 and speed._sorting(0.01) > 0


# The command.


def command(study, tmp_path, monkeypatch, room=ROOM, *more):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(limits.Room, "here", classmethod(lambda cls, results: room))
    (tmp_path / "mine.yaml").write_text("study: mine\n" + study, "utf-8")
    return execute("plan", [str(tmp_path / "mine.yaml"), "--no-measure", "--results", str(tmp_path), *more])


@pytest.mark.parametrize(
    "study, room, told",
    [
        ("layers: {storage_gb: 0.001}", ROOM, "layers.storage_gb, 0.001; raise it to"),
        ("layers: {suites: []}", ROOM, "layers.base: ladder-w64 takes no part"),
        ("layers: {memory_gb: 0.001}", ROOM, "layers.memory_gb is 0.001; raise it"),
        ("", limits.Room(10**12, 10**8), "does not fit: the disk: 0.5 GB"),
        ("", limits.Room(10**8, 10**12), "GB of memory, but 0.1 GB are free; take a smaller ladder.batch"),
    ],
)
def test_the_exit_status_tells_that_a_study_cannot_run(study, room, told, tmp_path, monkeypatch, capsys):
    assert command(study, tmp_path, monkeypatch, room) == 1
    captured = capsys.readouterr()
    assert told in captured.err and "chapter" in captured.out


def test_a_gpu_needs_a_throughput(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        command("", tmp_path, monkeypatch, ROOM, "--gpu-tflops", "0")
    assert "--gpu-tflops: '0': expected a number above 0" in capsys.readouterr().err
    assert command("", tmp_path, monkeypatch) == 0
