"""What is fetched whole, checkpoints, tokenizers, tasks and texts, is what the hub holds, or is refused."""

import gzip
import json
import shutil
import subprocess
import sys

import pytest
import torch

from embscale.cli import execute
from embscale.layers import running
from embscale.provenance.artifacts import note_path, read_note
from embscale.texts import beir, samples, tokens
from hub.repositories import save, save_retrieval, save_retrieval_by_language, save_texts

pytestmark = pytest.mark.long

SCIDOCS = "f8c2fcf00f625baaa80f62ec5bd9e1fff3b8ae88"
XQUAD = "194842d6a49baddf6cd3f4d5130ab3c7756268d2"


@pytest.mark.parametrize("container", ["safetensors-sharded", "bin", "bin-sharded"])
def test_a_checkpoint_runs_as_the_one_that_was_published(hub, container, tmp_path):
    import transformers

    save("gpt2", container, tmp_path / "published")
    (tmp_path / "published" / "modeling_gpt2.py").write_text("raise SystemExit('code of a checkpoint ran')")
    commit = hub.add(f"test/whole-{container}", tmp_path / "published")
    folder = tmp_path / "fetched"
    assert execute("fetch-checkpoint", [f"test/whole-{container}@{commit}", "-o", str(folder)]) == 0
    assert not list(folder.glob("*.py")) and not list(tmp_path.glob(".fetched*"))
    ids = torch.arange(20).reshape(2, 10)
    ours = running.load_model(folder)
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "published", local_files_only=True).eval()
    with torch.inference_mode():
        assert torch.equal(ours(ids).last_hidden_state, theirs(ids).last_hidden_state)
    note = read_note(note_path(folder / "config.json"))
    assert {path.rpartition("/")[2] for path in note["outputs"]} == {
        path.name for path in folder.iterdir() if not path.name.endswith(".note.json")
    }


@pytest.mark.fault(
    "a bit changed in a file of a hub", happens="one line; the file is not used", do="the same command again"
)
def test_a_changed_bit_in_a_whole_file_is_found(hub, tmp_path, capsys):
    save("gpt2", "safetensors", tmp_path / "published")
    commit = hub.add("test/corrupt", tmp_path / "published")
    hub.fault(r"model\.safetensors", corrupt=9000)
    arguments = [f"test/corrupt@{commit}", "-o", str(tmp_path / "fetched")]
    assert execute("fetch-checkpoint", arguments) == 1
    assert "model.safetensors: its sha256 is" in capsys.readouterr().err and not (tmp_path / "fetched").exists()
    hub.faults.clear()
    assert execute("fetch-checkpoint", arguments) == 0


def test_a_subfolder_of_a_repository_is_a_checkpoint_of_its_own(hub, tmp_path):
    save("gpt2", "safetensors", tmp_path / "published" / "early" / "checkpoint_1", seed=1)
    save("gpt2", "safetensors", tmp_path / "published" / "late", seed=2)
    commit = hub.add("test/subfolders", tmp_path / "published")
    arguments = [f"test/subfolders@{commit}", "--subfolder", "early/checkpoint_1"]
    assert execute("fetch-checkpoint", [*arguments, "-o", str(tmp_path / "fetched")]) == 0
    assert execute("extract", [*arguments, "-o", str(tmp_path / "t.safetensors")]) == 0
    whole = running.load_model(tmp_path / "fetched").wte.weight
    from embscale.tables import table_files

    assert torch.equal(torch.from_numpy(table_files.load(tmp_path / "t.safetensors")), whole.detach())


@pytest.mark.fault("weights of other formats in folders of a repository", happens="they are left alone", do="nothing")
@pytest.mark.parametrize("container", ["safetensors", "safetensors-sharded", "bin"])
@pytest.mark.parametrize("subfolder", ["", "sub[1]/inner"])
def test_files_of_the_same_names_elsewhere_in_a_repository_are_left_alone(hub, container, subfolder, tmp_path):
    """Repositories hold exports in onnx/, variants in other precisions, adapters and older checkpoints."""
    top = tmp_path / "published" / subfolder
    save("gpt2", container, top, seed=1)
    for other in ("onnx", "zzz/deeper", "sub1/inner"):
        save("gpt2", container, tmp_path / "published" / other, seed=2)
    save("gpt2", "safetensors", tmp_path / "half", seed=3)
    weights = "model.safetensors" if container == "safetensors" else "config.json"
    for name in ("model.fp16.safetensors", "adapter_model.safetensors", "consolidated.safetensors"):
        shutil.copy(tmp_path / "half/model.safetensors", top / name)
    name = f"test/several-{container}-{len(subfolder)}"
    commit = hub.add(name, tmp_path / "published")
    arguments = [f"{name}@{commit}", "--subfolder", subfolder]
    assert execute("fetch-checkpoint", [*arguments, "-o", str(tmp_path / "fetched")]) == 0
    fetched = {path.name: path.read_bytes() for path in (tmp_path / "fetched").iterdir()}
    note = fetched.pop("config.json.note.json")
    assert weights in fetched and b"model.fp16" not in note
    assert all((top / file).read_bytes() == content for file, content in fetched.items())
    wanted = {path.name for path in top.iterdir() if path.name.startswith(("model-", "model.safe", "pytorch_model"))}
    assert set(fetched) == {"config.json", *wanted}
    loaded = running.load_model(tmp_path / "fetched").wte.weight
    assert execute("extract", [*arguments, "-o", str(tmp_path / "t.safetensors")]) == 0
    from embscale.tables import table_files

    assert torch.equal(torch.from_numpy(table_files.load(tmp_path / "t.safetensors")), loaded.detach())


def test_a_tokenizer_gives_the_ids_of_the_published_one(hub, tmp_path):
    import transformers

    save("gpt2", "safetensors", tmp_path / "published")
    commit = hub.add("test/tokenizer", tmp_path / "published")
    assert execute("fetch-tokenizer", [f"test/tokenizer@{commit}", "-o", str(tmp_path / "fetched")]) == 0
    text = "Wide tables hold long rows."
    expected = transformers.AutoTokenizer.from_pretrained(tmp_path / "published", local_files_only=True)(text)
    assert tokens.load_tokenizer(tmp_path / "fetched").encode(text).ids == expected["input_ids"]
    assert not hub.matching(r"resolve.*\.safetensors")


def run(hub, home, *arguments):
    """A command in a process of its own: the libraries for data sets read their settings once."""
    command = [sys.executable, "-m", "embscale", *map(str, arguments)]
    return subprocess.run(command, env=hub.environment(home), capture_output=True, text=True)


def test_a_task_of_the_benchmark_becomes_a_folder(hub, tmp_path):
    truth = save_retrieval(tmp_path / "published")
    hub.add("mteb/scidocs", tmp_path / "published", kind="dataset", commit=SCIDOCS)
    done = run(hub, tmp_path / "home", "fetch-task", "SCIDOCS", "-o", tmp_path / "SCIDOCS")
    assert done.returncode == 0, done.stderr
    data = beir.load(tmp_path / "SCIDOCS")
    assert data.documents == {name: " ".join(parts).strip() for name, parts in truth["documents"].items()}
    assert data.queries == truth["queries"] and data.qrels == truth["qrels"]
    note = read_note(note_path(tmp_path / "SCIDOCS" / "corpus.jsonl.gz"))
    assert note["facts"]["dataset"]["revision"] == SCIDOCS


def test_a_task_in_several_languages_is_fetched_in_one(hub, tmp_path):
    languages = {"es": ["filas", "anchas", "tabla"], "zh": ["长行", "宽表", "词"]}
    truth = save_retrieval_by_language(tmp_path / "published", languages)
    hub.add("mteb/XQuADRetrieval", tmp_path / "published", kind="dataset", commit=XQUAD)
    done = run(hub, tmp_path / "home", "fetch-task", "XQuADRetrieval:zh", "-o", tmp_path / "XQuADRetrieval:zh")
    assert done.returncode == 0, done.stderr
    data = beir.load(tmp_path / "XQuADRetrieval:zh")
    assert data.name == "XQuADRetrieval:zh" and data.queries == truth["zh"]["queries"]
    assert data.documents == {name: " ".join(parts).strip() for name, parts in truth["zh"]["documents"].items()}
    assert data.qrels == truth["zh"]["qrels"] and not hub.matching("es-corpus/")


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("NoSuchTask", "MTEB knows no such task"),
        ("STSBenchmark", "of the type STS, not Retrieval"),
        ("XQuADRetrieval:xx", "XQuADRetrieval has no subset xx"),
        ("XQuADRetrieval", "name one of its subsets, XQuADRetrieval:SUBSET: ar, de, el, en"),
    ],
)
def test_what_is_no_retrieval_task_is_refused(hub, task, words, tmp_path):
    done = run(hub, tmp_path / "home", "fetch-task", task, "-o", tmp_path / task)
    assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr


def test_texts_are_those_of_the_data_set(hub, tmp_path):
    truth = save_texts(tmp_path / "published")
    commit = hub.add("test/imdb", tmp_path / "published", kind="dataset")
    flags = ["--subset", "plain_text", "--split", "train", "--column", "text", "-o", tmp_path / "imdb.jsonl.gz"]
    done = run(hub, tmp_path / "home", "fetch-texts", f"test/imdb@{commit}", *flags)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in gzip.decompress((tmp_path / "imdb.jsonl.gz").read_bytes()).splitlines()]
    assert [row["text"] for row in rows] == [row["text"] for row in truth["train"]]
    assert samples.read_texts(tmp_path / "imdb.jsonl.gz", split=None)["train-0"] == truth["train"][0]["text"]
    flags[5] = "no_such_column"
    done = run(hub, tmp_path / "home", "fetch-texts", f"test/imdb@{commit}", *flags)
    assert done.returncode == 1 and "no column no_such_column; it has text, label" in done.stderr
