"""The loopback hub is one that real clients can work with, and its faults are those that they name."""

import contextlib
import hashlib
import http.client
import inspect
import itertools
import json
import os
import re
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hub import repositories
from hub.repositories import CONTAINERS, MODELS
from hub.server import Hub

CONTENT = bytes(range(256)) * 100  # 25.6 kB: on the CDN
SMALL = b'{"model_type": "llama"}'
NAME = "org/model"


@pytest.fixture
def folder(tmp_path):
    """Two files and one in a folder."""
    made = tmp_path / "repository"
    (made / "sub").mkdir(parents=True)
    (made / "model.safetensors").write_bytes(CONTENT)
    (made / "config.json").write_bytes(SMALL)
    (made / "sub" / "notes.txt").write_bytes(b"notes")
    return made


@contextlib.contextmanager
def asked(url, *, method="GET", timeout=60, **headers):
    """The raw answer to a request, redirects not followed."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=timeout)
    try:
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method, target, headers={name.replace("_", "-"): value for name, value in headers.items()})
        yield connection.getresponse()
    finally:
        connection.close()


def address(hub, path="model.safetensors", revision="main"):
    return f"{hub.endpoint}/{NAME}/resolve/{revision}/{path}"


def blob(hub):
    """The signed address of the large file."""
    with asked(address(hub)) as answer:
        return answer.headers["Location"]


def get(url, **arguments):
    with asked(url, **arguments) as answer:
        return answer.status, dict(answer.headers), answer.read()


@pytest.mark.parametrize(
    ("asked_range", "start", "end"),
    [("bytes=0-99", 0, 100), ("bytes=25000-", 25000, 25600), ("bytes=-7", 25593, 25600), ("bytes=9-99999", 9, 25600)],
)
def test_ranges(hub, folder, asked_range, start, end):
    commit = hub.add(NAME, folder)
    status, headers, _ = get(address(hub))
    digest = hashlib.sha256(CONTENT).hexdigest()
    assert (status, headers["X-Repo-Commit"], headers["X-Linked-Size"]) == (302, commit, "25600")
    assert headers["X-Linked-ETag"] == f'"{digest}"'
    assert headers["Location"].startswith(f"{hub.cdn}/blob/{digest}?") and hub.cdn != hub.endpoint
    status, headers, body = get(headers["Location"], Range=asked_range)
    assert (status, body) == (206, CONTENT[start:end])
    assert headers["Content-Range"] == f"bytes {start}-{end - 1}/25600"
    assert [(r.origin, r.status, r.range, r.sent) for r in hub.matching(r"model\.safetensors")] == [
        ("hub", 302, None, 0),
        ("cdn", 206, asked_range, end - start),
    ]
    assert hub.bytes_sent() == hub.bytes_sent("", "cdn") == end - start


def test_whole_files_heads_and_ranges_that_do_not_exist(hub, folder):
    commit = hub.add(NAME, folder)
    status, headers, body = get(blob(hub))
    assert (status, body, "Content-Range" in headers) == (200, CONTENT, False)
    status, headers, body = get(blob(hub), method="HEAD")
    assert (status, headers["Content-Length"], body) == (200, "25600", b"")
    status, headers, body = get(blob(hub), Range="bytes=25600-")
    assert (status, headers["Content-Range"], body) == (416, "bytes */25600", b"")
    status, headers, _ = get(address(hub, "config.json"))
    assert (status, headers["X-Repo-Commit"]) == (307, commit)
    status, headers, body = get(hub.endpoint + headers["Location"])
    oid = subprocess.run(["git", "hash-object", "--stdin"], input=SMALL, capture_output=True, check=True).stdout
    assert (status, body, headers["ETag"]) == (200, SMALL, f'"{oid.decode().strip()}"')


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/other/model/resolve/main/config.json", "RepoNotFound"),
        ("/api/models/other/model", "RepoNotFound"),
        (f"/datasets/{NAME}/resolve/main/config.json", "RepoNotFound"),
        (f"/{NAME}/resolve/step1/config.json", "RevisionNotFound"),
        (f"/api/models/{NAME}/revision/{'0' * 40}", "RevisionNotFound"),
        (f"/{NAME}/resolve/main/other.json", "EntryNotFound"),
        (f"/{NAME}/resolve/main/../../../etc/passwd", "EntryNotFound"),
        (f"/api/models/{NAME}/tree/main/other", "EntryNotFound"),
        ("/api/whoami-v2", None),
        ("/", None),
    ],
)
def test_what_is_not_there(hub, folder, path, code):
    commit = hub.add(NAME, folder)
    status, headers, _ = get(hub.endpoint + path)
    assert (status, headers.get("X-Error-Code")) == (404, code)
    assert headers.get("X-Repo-Commit") == (commit if code == "EntryNotFound" else None)


def test_branches_move_and_commits_stay(hub, folder, tmp_path):
    """A commit is a digest of its content, or chosen."""
    first = hub.add(NAME, folder)
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_bytes(b"{}")
    second = hub.add(NAME, other)
    assert first != second and first == hub.add(NAME, folder, revision="refs/pr/1")
    chosen = hub.add(NAME, folder, revision="step1", commit="f8c2" * 10)
    assert chosen == hub.add(NAME, folder, revision="f8c2" * 10) == "f8c2" * 10
    for revision, commit in {"main": second, "refs%2Fpr%2F1": first, "step1": chosen, first: first}.items():
        assert get(address(hub, "config.json", revision))[1]["X-Repo-Commit"] == commit


FAULTS = [
    {"status": 429, "headers": {"Retry-After": "7"}},
    {"status": 503},
    {"status": 500},
    {"status": 403},
    {"headers": {"Content-Range": "bytes 0-99/1"}},
    {"headers": {"ETag": '"other"'}},
    {"whole": True},
    {"shift": 16},
    {"short": 40},
    {"corrupt": 150},
    {"loop": True},
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: "-".join(fault))
def test_faults(hub, folder, fault):
    """Each shows as it should, on the requests that are meant, and on no others."""
    hub.add(NAME, folder)
    struck = hub.fault(r"file=.*model\.safetensors", origin="cdn", after=1, times=1, **fault)
    url = blob(hub)
    good = get(url, Range="bytes=100-199")
    assert good[::2] == (206, CONTENT[100:200])
    status, headers, body = get(url, Range="bytes=100-199")
    third = get(url, Range="bytes=100-199")
    assert third[::2] == good[::2] and third[1]["ETag"] == good[1]["ETag"] and struck.seen == 3
    match fault:
        case {"status": code}:
            assert (status, body) == (code, b"") and fault.get("headers", {}).items() <= headers.items()
        case {"headers": other}:
            assert (status, body) == good[::2] and other.items() <= headers.items()
        case {"whole": True}:
            assert (status, body) == (200, CONTENT)
        case {"shift": by}:
            assert (status, body) == (206, CONTENT[100 + by : 200 + by])
            assert headers["Content-Range"] == "bytes 116-215/25600"
        case {"short": by}:
            assert (body, headers["Content-Length"]) == (CONTENT[100 : 200 - by], "60")
            assert headers["Content-Range"] == "bytes 100-199/25600"
        case {"corrupt": place}:
            assert [i for i in range(100) if body[i] != CONTENT[100 + i]] == [place - 100]
        case {"loop": True}:
            assert status == 302 and url.endswith(headers["Location"])


def test_faults_of_the_connection(hub, folder):
    """Redirects do not use up what shows in bodies alone."""
    hub.add(NAME, folder)
    hub.fault("safetensors", reset_after=5000, times=1)
    hub.fault("safetensors", drip=2000, times=1)
    hub.fault("config", stall=0.4, method="HEAD")
    with asked(blob(hub)) as answer, pytest.raises(ConnectionResetError):
        assert len(answer.read(5000)) == 5000
        answer.read()
    began = time.monotonic()
    assert get(blob(hub), Range="bytes=0-999")[2] == CONTENT[:1000]
    assert time.monotonic() - began > 0.4
    with pytest.raises(TimeoutError):
        get(address(hub, "config.json"), method="HEAD", timeout=0.1)
    assert get(address(hub, "config.json"))[0] == 307
    assert [r.sent for r in hub.matching("", "cdn")] == [5000, 1000]


def test_an_endless_answer_ends_with_the_hub_and_none_comes_before_it(folder):
    hub = Hub()
    with pytest.raises(ConnectionRefusedError):
        get(address(hub))
    with hub:
        hub.add(NAME, folder)
        hub.fault("safetensors", drip=1)
        with pytest.raises(TimeoutError, match="unanswered"), asked(blob(hub)) as answer:
            assert answer.read(1) == CONTENT[:1]
            hub.matching(timeout=0.1)
        began = time.monotonic()
    assert time.monotonic() - began < len(CONTENT) / 10  # at a byte a second
    with pytest.raises(ConnectionRefusedError):
        get(address(hub))


def test_the_throttle_holds_for_each_connection(hub, folder):
    hub.add(NAME, folder)
    url = blob(hub)
    hub.throttle(50_000, latency=0.1)
    began = time.monotonic()
    get(url)
    throttled = time.monotonic() - began
    assert throttled > 0.6
    hub.throttle(None)
    taken = []
    for _ in range(5):  # of which another process may hold up some
        began = time.monotonic()
        get(url)
        taken.append(time.monotonic() - began)
    assert min(taken) < throttled


def test_large_files_are_not_held_in_memory(hub, tmp_path):
    """5 GB without a block on disk: the place past 4 GiB is found, and 64 MB pass through a few blocks."""
    size = 5_000_000_000
    (tmp_path / "large").mkdir()
    with (tmp_path / "large" / "model.safetensors").open("wb") as file:
        file.truncate(size)
        file.seek(-5, os.SEEK_END)
        file.write(b"12345")
    hub.add(NAME, tmp_path / "large", hashed=False)
    url = blob(hub)
    assert get(url, Range=f"bytes={size - 5}-")[2] == b"12345"
    tracemalloc.start()
    with asked(url, Range="bytes=0-63999999") as answer:
        got = sum(len(block) for block in iter(lambda: answer.read(65536), b""))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert got == 64_000_000 and peak < 4_000_000


HUB_CLIENT = """
import huggingface_hub as hf
from huggingface_hub.errors import *
from pathlib import Path
name, folder = sys.argv[1:]
api, fs = hf.HfApi(), hf.HfFileSystem()
def refused(call, *args, **kwargs):
    try: call(*args, **kwargs)
    except HfHubHTTPError as error: return [type(error).__name__, error.response.status_code]
info = api.model_info(name, files_metadata=True)
tree = {e.path: getattr(e, "size", None) for e in api.list_repo_tree(name, recursive=True)}
snapshot = Path(hf.snapshot_download(name, local_dir=folder))
answer({
    "sha": info.sha,
    "siblings": {s.rfilename: [s.size, s.lfs.sha256 if s.lfs else None] for s in info.siblings},
    "tree": tree,
    "top": sorted(e.path for e in api.list_repo_tree(name)),
    "sub": [e.path for e in api.list_repo_tree(name, "sub")],
    "paths": [e.path for e in api.get_paths_info(name, ["config.json", "sub", "other"])],
    "large": Path(hf.hf_hub_download(name, "model.safetensors")).read_bytes().hex(),
    "config": Path(hf.hf_hub_download(name, "config.json", revision=info.sha)).read_text(),
    "snapshot": sorted(str(p.relative_to(folder)) for p in snapshot.rglob("*.*") if ".cache" not in p.parts),
    "verified": api.verify_repo_checksums(name, local_dir=folder).checked_count,
    "mismatches": api.verify_repo_checksums(name, local_dir=folder).mismatches,
    "range": fs.cat_file(f"{name}@{info.sha}/model.safetensors", 100, 200).hex(),
    "listed": sorted(fs.ls(name, detail=False)),
    "gated": refused(hf.hf_hub_download, "org/gated", "config.json"),
    "gated_info": api.model_info("org/gated").gated,
    "gated_large": refused(fs.cat_file, "org/gated/model.safetensors", 0, 10),
    "missing": refused(hf.hf_hub_download, name, "other.json"),
    "revision": refused(api.model_info, name, revision="other"),
    "repository": refused(api.model_info, "org/other"),
})
"""


@pytest.mark.parametrize("token", [None, "hf_loopback", "hf_without_access"])
def test_the_hubs_own_client(hub, client, folder, tmp_path, token):
    """Everything it reads is what was put there; the token stays off the CDN."""
    commit = hub.add(NAME, folder, lfs=10_000 if token else 10**9)
    hub.add("org/gated", folder, gated=True)
    got = client(HUB_CLIENT, NAME, tmp_path / "copy", token=token)
    names = ["config.json", "model.safetensors", "sub/notes.txt"]
    digest = hashlib.sha256(CONTENT).hexdigest() if token else None
    assert got["sha"] == commit
    assert got["siblings"] == {names[0]: [23, None], names[1]: [25600, digest], names[2]: [5, None]}
    assert got["tree"] == {names[0]: 23, names[1]: 25600, names[2]: 5, "sub": None}
    assert got["top"] == ["config.json", "model.safetensors", "sub"] and got["sub"] == ["sub/notes.txt"]
    assert sorted(got["paths"]) == ["config.json", "sub"]
    assert (bytes.fromhex(got["large"]), got["config"]) == (CONTENT, SMALL.decode())
    assert got["snapshot"] == names and (got["verified"], got["mismatches"]) == (3, [])
    assert bytes.fromhex(got["range"]) == CONTENT[100:200]
    assert got["listed"] == [f"{NAME}/{path}" for path in ("config.json", "model.safetensors", "sub")]
    expected = {None: ["GatedRepoError", 401], "hf_loopback": None, "hf_without_access": ["GatedRepoError", 403]}
    assert got["gated"] == got["gated_large"] == expected[token] and got["gated_info"] == "manual"
    assert got["missing"] == ["RemoteEntryNotFoundError", 404]
    assert got["revision"] == ["RevisionNotFoundError", 404]
    assert got["repository"] == ["RepositoryNotFoundError", 404]
    assert not any(request.authorized for request in hub.matching("", "cdn"))
    assert any(request.authorized for request in hub.matching("", "hub")) == bool(token)
    assert bool(hub.matching("", "cdn")) == bool(token)


def digest_of(state):
    """Of names and values."""
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        digest.update(name.encode() + tensor.float().numpy().tobytes())
    return digest.hexdigest()


TRANSFORMERS = f"""
import hashlib
{inspect.getsource(digest_of)}
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer
found = {{}}
for name in sys.argv[1:]:
    auto = AutoModelForSeq2SeqLM if "t5" in name else AutoModelForCausalLM
    tokens = AutoTokenizer.from_pretrained(name)("A table.").input_ids
    found[name] = [digest_of(auto.from_pretrained(name).state_dict()), tokens]
answer(found)
"""


def test_transformers_loads_from_every_container(hub, client, tmp_path):
    """What comes over the hub is what lies on disk."""
    import transformers

    expected = {}
    for model, container in [*itertools.product(["gpt_neox"], CONTAINERS), ("t5", "legacy"), ("opt-projected", "bin")]:
        folder, name = tmp_path / model / container, f"org/{model}-{container}"
        repositories.save(model, container, folder)
        hub.add(name, folder)
        auto = transformers.AutoModelForSeq2SeqLM if model == "t5" else transformers.AutoModelForCausalLM
        tokens = transformers.AutoTokenizer.from_pretrained(folder)("A table.").input_ids
        expected[name] = [digest_of(auto.from_pretrained(folder).state_dict()), tokens]
    assert client(TRANSFORMERS, *expected) == expected
    assert len({digest for digest, _ in expected.values()}) == 3
    assert hub.matching("safetensors", "cdn") and hub.matching(r"pytorch_model-00001-of-0000\d\.bin", "cdn")


@pytest.mark.parametrize("model", MODELS)
def test_checkpoints_are_genuine(model, tmp_path):
    """Files hold the state that is returned, and a model loaded from them computes with exactly those values."""
    import safetensors.torch
    import torch
    import transformers

    auto = transformers.AutoModelForSeq2SeqLM if model == "t5" else transformers.AutoModelForCausalLM
    ids = torch.arange(10, 30)[None]
    outputs = []
    for container in CONTAINERS:
        folder = tmp_path / container
        state = repositories.save(model, container, folder)
        stored = {}
        for path in folder.iterdir():
            if path.suffix == ".safetensors":
                stored |= safetensors.torch.load_file(path)
            elif path.suffix == ".bin":
                stored |= torch.load(path, weights_only=True)
        assert stored.keys() == state.keys() and all(torch.equal(stored[name], state[name]) for name in state)
        loaded, info = auto.from_pretrained(folder, output_loading_info=True)
        assert not info["missing_keys"] and not info["mismatched_keys"]
        assert torch.equal(loaded.get_input_embeddings().weight, state[input_name(model)])
        output = state.get("embed_out.weight" if model == "gpt_neox" else "lm_head.weight", state[input_name(model)])
        assert torch.equal(loaded.get_output_embeddings().weight, output)
        extra = {"decoder_input_ids": ids} if model == "t5" else {}
        with torch.no_grad():
            outputs.append(loaded.eval()(ids, **extra).logits)
    assert all(torch.equal(outputs[0], other) for other in outputs) and outputs[0].std() > 0


def input_name(model):
    """As published checkpoints call the input table."""
    return {
        "gpt_neox": "gpt_neox.embed_in.weight",
        "opt": "model.decoder.embed_tokens.weight",
        "opt-projected": "decoder.embed_tokens.weight",
        "gpt2": "wte.weight",
        "bloom": "word_embeddings.weight",
        "t5": "shared.weight",
    }.get(model, "model.embed_tokens.weight")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_checkpoints_have_the_dtype_and_sizes_that_are_asked_for(dtype, tmp_path):
    import torch

    state = repositories.save("gemma2", "legacy", tmp_path, dtype=dtype, hidden_size=48, vocab_size=500)
    assert {tensor.dtype for tensor in state.values()} == {getattr(torch, dtype)}
    assert state["model.embed_tokens.weight"].shape == (500, 48)
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == dtype
    again = repositories.save("gemma2", "bin", tmp_path / "a", dtype=dtype, hidden_size=48, vocab_size=500)
    other = repositories.save("gemma2", "bin", tmp_path / "b", dtype=dtype, hidden_size=48, vocab_size=500, seed=1)
    assert digest_of(state) == digest_of(again) != digest_of(other)


def test_shards_and_ties(tmp_path):
    """Several shards; a tied table is stored once, under one name in safetensors and under all in pickles."""
    state = repositories.save("llama-tied", "safetensors-sharded", tmp_path / "a")
    index = json.loads((tmp_path / "a" / "model.safetensors.index.json").read_text())["weight_map"]
    assert index.keys() == state.keys() and len(set(index.values())) > 1 and "lm_head.weight" not in state
    state = repositories.save("llama-tied", "bin-sharded", tmp_path / "b")
    index = json.loads((tmp_path / "b" / "pytorch_model.bin.index.json").read_text())["weight_map"]
    assert index.keys() == state.keys() and len(set(index.values())) > 1
    assert state["lm_head.weight"].data_ptr() == state["model.embed_tokens.weight"].data_ptr()
    assert (tmp_path / "a" / "config.json").read_text().count('"tie_word_embeddings": true') == 1
    repositories.save("t5", "bin", tmp_path / "c")
    assert '"tie_word_embeddings": false' in (tmp_path / "c" / "config.json").read_text()


DATASETS = """
from datasets import load_dataset
found = {}
for suffix in ("jsonl", "parquet"):
    name = f"org/scidocs-{suffix}"
    found[suffix] = {
        "documents": {r["_id"]: [r["title"], r["text"]] for r in load_dataset(name, "corpus", split="corpus")},
        "queries": {r["_id"]: r["text"] for r in load_dataset(name, "queries", split="queries")},
        "qrels": [[r["query-id"], r["corpus-id"], r["score"]] for r in load_dataset(name, "default", split="test")],
    }
texts = {split: [dict(row) for row in rows] for split, rows in load_dataset("org/imdb", "plain_text").items()}
import mteb
task = mteb.get_task("SCIDOCS")
task.load_data()
data = task.dataset["default"]["test"]
answer({
    **found,
    "texts": texts,
    "mteb": {
        "documents": {r["id"]: [r["title"], r["text"]] for r in data["corpus"]},
        "queries": {r["id"]: r["text"] for r in data["queries"]},
        "qrels": data["relevant_docs"],
    },
})
"""


def test_datasets_and_mteb_load(hub, client, tmp_path):
    for suffix in ("jsonl", "parquet"):
        truth = repositories.save_retrieval(tmp_path / suffix, suffix=suffix)
        hub.add(f"org/scidocs-{suffix}", tmp_path / suffix, kind="dataset")
    # The commit at which MTEB reads it.
    hub.add("mteb/scidocs", tmp_path / "jsonl", kind="dataset", revision="f8c2fcf00f625baaa80f62ec5bd9e1fff3b8ae88")
    texts = repositories.save_texts(tmp_path / "texts")
    hub.add("org/imdb", tmp_path / "texts", kind="dataset")
    got = client(DATASETS)
    truth = json.loads(json.dumps(truth))  # tuples become lists
    for suffix in ("jsonl", "parquet"):
        assert got[suffix]["documents"] == truth["documents"] and got[suffix]["queries"] == truth["queries"]
        judged = {(query, document): score for query, document, score in got[suffix]["qrels"]}
        assert judged == {(q, d): score for q, grades in truth["qrels"].items() for d, score in grades.items()}
    assert got["mteb"] == truth and got["texts"] == texts
    assert [{row["label"] for row in texts[split]} for split in ("train", "unsupervised")] == [{0, 1}, {-1}]


def test_a_folder_of_repositories_is_served(folder, tmp_path):
    models = tmp_path / "served" / "models" / "org"
    models.mkdir(parents=True)
    folder.rename(models / "model")
    (models / "model@step1").mkdir()
    (models / "model@step1" / "config.json").write_bytes(b"{}")
    repositories.save_texts(tmp_path / "served" / "datasets" / "org" / "imdb")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "hub.server", str(tmp_path / "served")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = [process.stdout.readline() for _ in range(4)]
            endpoint = lines[0].strip().partition("HF_ENDPOINT=")[2]
            assert [re.sub(r"[0-9a-f]{40}$", "COMMIT", line.strip()) for line in lines[1:]] == [
                "model org/model@main COMMIT",
                "model org/model@step1 COMMIT",
                "dataset org/imdb@main COMMIT",
            ]
            assert lines[2].split()[-1] == get(f"{endpoint}/{NAME}/resolve/step1/config.json")[1]["X-Repo-Commit"]
            assert get(f"{endpoint}/datasets/org/imdb/resolve/main/README.md")[0] == 307
        finally:
            process.terminate()
