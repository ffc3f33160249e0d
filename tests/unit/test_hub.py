"""Tables from a hub: right in every container and family, and right or refused whatever goes wrong."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import httpx2
import numpy as np
import pytest
import torch

import embscale.checkpoints.hub
from embscale.checkpoints import families
from embscale.cli import execute
from embscale.provenance.artifacts import note_path, read_note
from embscale.tables import extraction, table_files
from hub.repositories import CONTAINERS, MODELS, save

pytestmark = pytest.mark.long

DATA = r"/blob/|resolve-cache/.*\.(safetensors|bin)$"


@pytest.fixture(scope="session")
def published(serving, tmp_path_factory):
    """A function that gives repository, commit and true state of a model in a container, made once."""
    made = {}

    def repository(model="gpt_neox", container="safetensors", **options):
        key = (model, container, *sorted(options.items()))
        if key not in made:
            folder = tmp_path_factory.mktemp("repository")
            state = save(model, container, folder, **options)
            repo = f"test/{'-'.join(map(str, key)).replace('(', '').replace(')', '').replace(', ', '-')}"
            repo = "".join(c if c.isalnum() or c in "-_/" else "" for c in repo)
            made[key] = repo, serving.add(repo, folder), state, folder
        return made[key]

    return repository


@pytest.fixture(scope="session")
def large(serving, tmp_path_factory):
    """A function that gives a checkpoint whose table is a tenth of it: 4 MB of 40 MB, in a container."""
    table = torch.randn(8192, 256, generator=torch.Generator().manual_seed(3)).half()
    state = {"gpt_neox.layers.0.dense.weight": torch.zeros(9, 2_000_000).half(), "gpt_neox.embed_in.weight": table}
    made = {}

    def repository(container):
        if container not in made:
            folder = tmp_path_factory.mktemp("large")
            (folder / "config.json").write_text(json.dumps({"model_type": "gpt_neox", "vocab_size": 8000}))
            if container == "legacy":
                torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
            else:
                from huggingface_hub import save_torch_state_dict

                size = "25MB" if container.endswith("sharded") else "100MB"
                safe = container.startswith("safetensors")
                save_torch_state_dict(state, folder, max_shard_size=size, safe_serialization=safe)
            repo = f"test/large-{container}"
            made[container] = f"{repo}@{serving.add(repo, folder)}", table
        return made[container]

    return repository


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Waits as short as a test wants them."""
    monkeypatch.setattr(embscale.checkpoints.hub, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(embscale.checkpoints.hub, "TRIES", 3)


def stored(path):
    """The tensor of a table's file as torch has it, in its own dtype."""
    from safetensors.torch import load_file

    return load_file(path)[table_files.TENSOR]


def extract(checkpoint, output, *flags):
    return execute("extract", [checkpoint, *flags, "-o", str(output)])


def told(capsys):
    """The one line that a failed command ends with."""
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("embscale extract: ")]
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_the_table_is_the_tensor_of_the_checkpoint_bit_for_bit(hub, published, model, container, tmp_path):
    dtype = "bfloat16" if model in ("llama", "gemma2") else "float16" if model != "t5" else "float32"
    repo, commit, state, _ = published(model, container, dtype=dtype)
    output = tmp_path / "t.safetensors"
    assert extract(f"{repo}@main", output) == 0
    note = read_note(note_path(output))
    expected = state[note["facts"]["tensor"]]
    assert any(note["facts"]["tensor"].endswith(name) for name in families.input_table_names(MODELS[model][0]))
    assert stored(output).dtype == expected.dtype and torch.equal(stored(output), expected)
    assert np.array_equal(table_files.load(output), expected.float().numpy())
    assert note["facts"]["commit"] == commit and note["facts"]["repo"] == repo
    assert note["facts"]["tokenizer"].keys() & {"tokenizer.json", "vocab.json", "spiece.model"}


@pytest.mark.parametrize("container", CONTAINERS)
def test_output_tables_of_untied_checkpoints_can_be_had(hub, published, container, tmp_path, capsys):
    repo, _, state, _ = published("gpt_neox", container, dtype="float16")
    output = tmp_path / "t.safetensors"
    assert extract(repo, output, "--table", "output") == 0
    assert torch.equal(stored(output), state["embed_out.weight"])


def test_a_tied_checkpoint_says_so(hub, published, tmp_path, capsys):
    repo, *_ = published("llama-tied", "safetensors", dtype="float16")
    assert extract(repo, tmp_path / "t.safetensors", "--table", "output") == 1
    assert "the input table serves as the output table, too" in told(capsys)


@pytest.mark.parametrize("container", CONTAINERS)
def test_little_more_is_sent_than_the_table(hub, large, container, tmp_path):
    checkpoint, table = large(container)
    assert extract(checkpoint, tmp_path / "t.safetensors") == 0
    assert torch.equal(stored(tmp_path / "t.safetensors"), table)
    assert hub.bytes_sent() <= 1.02 * table.nbytes + 2**20


def test_the_effective_table_of_a_hub_checkpoint_is_that_of_the_folder(hub, published, tmp_path):
    repo, _, _, folder = published("opt-projected", "bin-sharded", dtype="float32")
    outputs = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    assert extract(repo, outputs[0], "--effective", "3") == 0
    assert extract(str(folder), outputs[1], "--effective", "3") == 0
    assert torch.equal(stored(outputs[0]), stored(outputs[1])) and stored(outputs[0]).shape[1] == 32
    assert read_note(note_path(outputs[0]))["facts"]["effective"] == ["projection to 32", "positions 3"]


SHORT = 0.8  # seconds without an answer, where a test waits for them

# What goes wrong with requests for data, and passes: the table is right.
PASSING = {
    "busy, with Retry-After": {"status": 503, "headers": {"Retry-After": "0"}, "times": 2},
    "too many requests": {"status": 429, "times": 1},
    "reset before the first byte": {"reset_after": 0, "times": 2},
    "reset after a byte": {"reset_after": 1, "times": 1},
    "reset in the middle": {"reset_after": 12_345, "times": 1},
    "short body": {"short": 100, "times": 1},
    "an address that has expired": {"status": 403, "origin": "cdn", "times": 1},
    "no answer for a while": {"stall": 2 * SHORT, "times": 1},
}
# What does not pass: one line that says what happened.
LASTING = {
    "busy for ever": ({"status": 503}, "the server answers 503"),
    "asks to wait for an hour": ({"status": 429, "headers": {"Retry-After": "3600"}}, "asks to wait 3600 s"),
    "every connection reset": ({"reset_after": 10}, "the connection failed"),
    "every body short": ({"short": 100}, "were announced"),
    "the range is ignored": ({"whole": True, "after": 1}, "does not serve ranges"),
    "another range": ({"shift": 64, "after": 1}, "does not serve ranges"),
    "another range announced": ({"headers": {"Content-Range": "bytes 0-9/10"}, "after": 1}, "does not serve ranges"),
    "compressed": ({"headers": {"Content-Encoding": "gzip"}, "after": 1}, "was sent compressed"),
    "another file": ({"headers": {"ETag": '"other"'}, "after": 1}, "changed while it was read"),
    "another commit": ({"headers": {"X-Repo-Commit": "0" * 40}}, "answered with commit 000000000000"),
    "an endless slow answer": ({"drip": 2_000}, "bytes in "),
    "no answer at all": ({"stall": 5 * SHORT}, "the connection failed (ReadTimeout)"),
    "refused": ({"status": 451}, "the server refuses with status 451"),
}


@contextlib.contextmanager
def short_timeouts(fault):
    """Only where a fault is one of time: on a busy machine a server that is well may be late, too."""
    with pytest.MonkeyPatch.context() as patch:
        if "stall" in fault or "drip" in fault:
            patch.setattr(embscale.checkpoints.hub, "TIMEOUT", httpx2.Timeout(SHORT))
            patch.setattr(embscale.checkpoints.hub, "PATIENCE", SHORT)
        yield


@pytest.mark.fault(
    "a hub that is busy, resets, stalls or sends too little, for a while",
    happens="it is asked again, the table is right",
    do="nothing",
)
@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize("container", ["safetensors", "bin"])
def test_a_fault_that_passes_does_no_harm(hub, large, fault, container, tmp_path):
    checkpoint, table = large(container)
    made = hub.fault(DATA, **PASSING[fault])
    with short_timeouts(PASSING[fault]):
        assert extract(checkpoint, tmp_path / "t.safetensors") == 0
    assert made.seen and torch.equal(stored(tmp_path / "t.safetensors"), table)


@pytest.mark.fault(
    "a connection reset at any byte", happens="what is missing is asked for, the table is right", do="nothing"
)
@pytest.mark.parametrize("place", np.random.default_rng(0).integers(0, 4_194_304, 10).tolist())
def test_a_connection_reset_at_any_byte_does_no_harm(hub, large, place, tmp_path):
    checkpoint, table = large("legacy")
    # The order of tensors in such a file differs from one process to the next, and so does the number of requests.
    assert extract(checkpoint, tmp_path / "undisturbed.safetensors") == 0
    before = sum(re.search(DATA, request.path) is not None for request in hub.requests) - 1
    made = hub.fault(DATA, reset_after=place, after=before, times=1)
    assert extract(checkpoint, tmp_path / "t.safetensors") == 0
    assert made.seen > before + 1 and torch.equal(stored(tmp_path / "t.safetensors"), table)


@pytest.mark.fault(
    "a hub that is busy for ever, ignores ranges or sends another file", happens="one line; no table", do="later again"
)
@pytest.mark.parametrize("fault", LASTING)
@pytest.mark.parametrize("container", ["safetensors", "bin"])
def test_a_fault_that_lasts_is_one_line_and_leaves_no_table(hub, large, fault, container, tmp_path, capsys):
    checkpoint, table = large(container)
    what, words = LASTING[fault]
    hub.fault(DATA, **what)
    output = tmp_path / "t.safetensors"
    with short_timeouts(what):
        assert extract(checkpoint, output) == 1
    line = told(capsys)
    assert words in line and "Signature" not in line
    assert not output.exists() and not note_path(output).exists()
    hub.faults.clear()
    assert extract(checkpoint, output) == 0 and torch.equal(stored(output), table)


@pytest.mark.fault("redirects in circles", happens="one line", do="later again")
def test_redirects_in_circles_are_reported(hub, large, tmp_path, capsys):
    checkpoint, _ = large("safetensors")
    hub.fault(r"/resolve/.*safetensors", loop=True)
    assert extract(checkpoint, tmp_path / "t.safetensors") == 1
    assert "redirects in circles" in told(capsys)


def test_a_busy_interface_is_asked_again(hub, large, tmp_path):
    checkpoint, table = large("safetensors")
    repo = checkpoint.partition("@")[0]
    hub.fault(r"/api/models/", status=503, times=1)
    assert extract(f"{repo}@main", tmp_path / "t.safetensors") == 0
    assert torch.equal(stored(tmp_path / "t.safetensors"), table)


@pytest.mark.fault(
    "a bit changed on the way", happens="it is found; the next run is right", do="the same command again"
)
def test_a_changed_bit_in_a_zip_file_is_found_and_the_next_run_is_right(hub, large, tmp_path, capsys):
    checkpoint, table = large("bin")
    probe = tmp_path / "probe.safetensors"
    assert extract(checkpoint, probe) == 0
    start = read_note(note_path(probe))["facts"]["start"]
    hub.fault(DATA, corrupt=start + 1_000_000)
    output = tmp_path / "t.safetensors"
    assert extract(checkpoint, output) == 1 and "checksum" in told(capsys)
    assert not list(tmp_path.glob(".t.*.part"))
    hub.faults.clear()
    assert extract(checkpoint, output) == 0 and torch.equal(stored(output), table)


@pytest.mark.fault(
    "a branch that moves while a table is fetched", happens="the table is of the first commit", do="nothing"
)
def test_a_branch_that_moves_between_two_reads_does_not_mix_two_tables(hub, published, tmp_path, monkeypatch):
    repo = "test/moving"
    _, _, old, old_folder = published("gpt2", "safetensors", dtype="float32", seed=1)
    _, _, new, new_folder = published("gpt2", "safetensors", dtype="float32", seed=2)
    first = hub.add(repo, old_folder, lfs=100)
    locate = extraction.locate

    def locate_then_move(*arguments, **options):
        found = locate(*arguments, **options)
        assert hub.add(repo, new_folder, lfs=100) != first
        return found

    monkeypatch.setattr(extraction, "locate", locate_then_move)
    assert extract(repo, tmp_path / "t.safetensors") == 0
    assert torch.equal(stored(tmp_path / "t.safetensors"), old["wte.weight"])
    assert not torch.equal(old["wte.weight"], new["wte.weight"])
    assert read_note(note_path(tmp_path / "t.safetensors"))["facts"]["commit"] == first


BAD_INDEX = {
    "a shard that is not there": ("model-00009-of-00009.safetensors", "no such file, though"),
    "a shard above the folder": ("../../other/resolve/main/model.safetensors", "not the name of a file"),
    "a shard elsewhere": ("/etc/passwd", "not the name of a file"),
}


@pytest.mark.fault(
    "an index on a hub that names files elsewhere",
    happens="one line; nothing is asked for",
    do="do not use this checkpoint",
)
@pytest.mark.parametrize("fault", BAD_INDEX)
def test_an_index_that_names_other_files_is_refused_before_data_is_asked_for(hub, fault, tmp_path, capsys):
    shard, words = BAD_INDEX[fault]
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    index = {"metadata": {}, "weight_map": {"wte.weight": shard}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    repo = f"test/index-{list(BAD_INDEX).index(fault)}"
    hub.add(repo, folder)
    assert extract(repo, tmp_path / "t.safetensors") == 1 and words in told(capsys)
    assert not hub.matching("passwd|other")


def test_what_is_there_already_is_not_fetched_again(hub, large, tmp_path, capsys):
    checkpoint, _ = large("safetensors")
    output = tmp_path / "t.safetensors"
    assert extract(checkpoint, output) == 0
    hub.requests.clear()
    assert extract(checkpoint, output) == 0 and "there already" in capsys.readouterr().err
    assert not hub.requests
    output.write_bytes(output.read_bytes()[:-1] + b"x")
    assert extract(checkpoint, output) == 0 and hub.requests


def command(checkpoint, output):
    return [sys.executable, "-m", "embscale", "extract", checkpoint, "-o", str(output)]


@pytest.mark.fault(
    "a fetch of a table killed", happens="the next one goes on where it ended", do="the same command again"
)
def test_a_killed_run_is_taken_up_where_it_ended(hub, large, tmp_path, monkeypatch):
    checkpoint, table = large("safetensors")
    output, home = tmp_path / "t.safetensors", tmp_path / "home"
    code = (
        "import sys; from embscale.tables import extraction; extraction.PIECE = 200_000\n"
        "from embscale.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    piecewise = [sys.executable, "-c", code, "extract", checkpoint, "-o", str(output)]
    hub.throttle(300_000)
    run = subprocess.Popen(piecewise, env=hub.environment(home))
    deadline = time.monotonic() + 60
    while sum(part.stat().st_size for part in tmp_path.glob(".t.*.part")) < 1_000_000:
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert not output.exists()
    hub.throttle(None)
    hub.matching()  # until the server, too, knows that nobody listens
    hub.requests.clear()
    assert subprocess.run(piecewise, env=hub.environment(home)).returncode == 0
    assert torch.equal(stored(output), table)
    assert hub.bytes_sent() < table.nbytes - 900_000 + 2**20
    assert not list(tmp_path.glob(".t.*.part"))


@pytest.mark.fault("two fetches of one table at once", happens="it is fetched once", do="nothing")
def test_two_runs_at_once_fetch_the_table_once(hub, large, tmp_path):
    checkpoint, table = large("bin-sharded")
    output = tmp_path / "t.safetensors"
    runs = [subprocess.Popen(command(checkpoint, output), env=hub.environment(tmp_path / "home")) for _ in range(2)]
    assert [run.wait(60) for run in runs] == [0, 0]
    assert torch.equal(stored(output), table)
    assert hub.bytes_sent() <= 1.02 * table.nbytes + 2**20


@pytest.mark.fault(
    "a disk that is full while a table is fetched", happens="one line; the next run is right", do="free some space"
)
def test_a_full_disk_is_one_line_and_the_next_run_is_right(hub, large, tmp_path):
    """A limit on the size of files stands in for a disk without room."""
    checkpoint, table = large("safetensors")
    output = tmp_path / "t.safetensors"
    code = (
        "import resource, sys\n"
        "sys.dont_write_bytecode = True\n"  # it would be cut short, too, and stay
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))\n"
        "from embscale.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    environment = hub.environment(tmp_path / "home")
    arguments = [sys.executable, "-c", code, *command(checkpoint, output)[3:]]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "File too large" in done.stderr and "Traceback" not in done.stderr
    assert not output.exists()
    assert subprocess.run(command(checkpoint, output), env=environment).returncode == 0
    assert torch.equal(stored(output), table)


@pytest.mark.fault(
    "a gated repository",
    happens="one line without a token; the token goes to the hub alone",
    do="accept the licence, `hf auth login`",
)
def test_a_gated_repository_needs_the_token_which_goes_nowhere_else(hub, published, tmp_path):
    _, _, state, folder = published("llama", "safetensors", dtype="bfloat16")
    hub.add("test/gated", folder, gated=True, lfs=1000)
    output = tmp_path / "t.safetensors"

    def run(token):
        environment = hub.environment(tmp_path / "home", token=token)
        return subprocess.run(command("test/gated", output), env=environment, capture_output=True, text=True)

    for token in (None, "hf_wrong_secret"):
        done = run(token)
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("embscale extract: ")]
        assert done.returncode == 1 and f"accept its licence at {hub.endpoint}/test/gated" in line
        assert "hf_wrong_secret" not in done.stdout + done.stderr
    hub.requests.clear()
    done = run(hub.token)
    assert done.returncode == 0, done.stderr
    assert torch.equal(stored(output), state["model.embed_tokens.weight"])
    assert not [request.path for request in hub.matching("test/gated", "hub") if not request.authorized]
    cdn = hub.matching(origin="cdn")
    assert cdn and not any(request.authorized for request in cdn)
    written = done.stdout + done.stderr + note_path(output).read_text() + output.read_bytes().decode("latin-1")
    assert hub.token not in written


@pytest.mark.fault("no network", happens="what is there serves, what is not is one line", do="later again")
def test_offline_what_is_there_serves_and_what_is_not_is_reported(hub, large, tmp_path):
    checkpoint, _ = large("safetensors")
    output, environment = tmp_path / "t.safetensors", hub.environment(tmp_path / "home")
    assert subprocess.run(command(checkpoint, output), env=environment).returncode == 0
    hub.requests.clear()
    offline = environment | {"HF_HUB_OFFLINE": "1"}
    assert subprocess.run(command(checkpoint, output), env=offline).returncode == 0
    for wanted in (checkpoint, checkpoint.partition("@")[0]):
        done = subprocess.run(command(wanted, tmp_path / "u.safetensors"), env=offline, capture_output=True, text=True)
        assert done.returncode == 1 and "HF_HUB_OFFLINE" in done.stderr and "Traceback" not in done.stderr
    assert not hub.requests


@pytest.mark.fault("a repository or revision that does not exist", happens="one line names it", do="correct the name")
@pytest.mark.parametrize(
    ("checkpoint", "words"),
    [
        ("test/no-such-repository", "no such repository"),
        ("test/large-safetensors@no-such-branch", "no such revision"),
        ("nowhere", "neither a folder here nor a repository"),
        ("./nowhere/at-all", "neither a folder here nor a repository"),
    ],
)
def test_a_wrong_name_is_reported(hub, large, checkpoint, words, tmp_path, capsys):
    large("safetensors")
    assert extract(checkpoint, tmp_path / "t.safetensors") == 1 and words in told(capsys)


def test_no_process_reads_a_token_from_the_tests_own_environment():
    assert not [name for name in os.environ if name.startswith("HF_TOKEN")]
