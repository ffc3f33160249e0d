"""Every parser, given files that nobody meant to write: the right result or one line, within limits of time and memory.

`make test` tries each for a few seconds from a fixed start, so that it finds the same whenever it runs.  `make faults`
goes on for ten minutes in all from a start that it prints; EMBSCALE_FUZZ_SEED takes that one again.
"""

import contextlib
import gzip
import json
import os
import random
import resource
import signal
import time
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path

import hypothesis
import numpy as np
import pandas as pd
import portal
import pytest
import yaml
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from safetensors.numpy import save
from small_corpus import MADE_OF

import carried
from embscale.checkpoints import containers, hub, ranges, suites
from embscale.errors import EmbscaleError
from embscale.layers import hidden_states
from embscale.parameters.checking import ParameterError, problems, read_yaml
from embscale.parameters.study import study_schema
from embscale.provenance import notes
from embscale.rows import tidy
from embscale.scoring import scores
from embscale.tables import table_files
from embscale.texts import beir, samples, tokens
from embscale.training import runs

ROOT = Path(__file__).resolve().parents[2]

EXAMPLES = 40  # of each parser, in make test
BUDGET = 600  # seconds of make faults, for all parsers together
SECONDS = 5  # of the processor, for one example
MEMORY = 1 << 30  # bytes, beyond what the process holds already

# Where files break: what ends a line, a cell or a word, what looks like something else, and what is too large.
ODD = [
    b"", b"\0", b"\n", b"\r\n", b"\t", b'"', b"\\", b",", b"{", b"[", b"]", b"}", b":", b"-", b"nan", b"NaN", b"inf",
    b"null", b"None", b"NA", b"true", b"0", b"-1", b"1e999", b"9" * 5000, b"2147483648", b"\xff", b"\xc3",
    b"\xef\xbb\xbf", "\u2028".encode(), "\x85".encode(), b"\\ud800", b'"_id": "d0", ', b"../../x", b"/etc/passwd",
    b"=1+1", b"[" * 100_000, b"&a [*a]", b"!!python/object:os.system x", b"<<: {}", b"\x1f\x8b", b"A" * 140_000,
    b"2026-02-30", b"? {}",
]  # fmt: skip

edits = st.lists(
    st.tuples(st.integers(0, 10**6), st.one_of(st.sampled_from(ODD), st.binary(max_size=6)), st.integers(0, 8)),
    min_size=1,
    max_size=4,
)
words = st.one_of(
    st.text(max_size=8), st.sampled_from(["nan", "None", "NA", "null", "", "..", "a\nb", "--help", "\u2028", "x" * 300])
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)


def edited(good):
    """A good file with bytes changed, lost and added."""

    def apply(changes):
        data = good
        for place, new, lost in changes:
            place %= len(data) + 1
            data = data[:place] + new + data[place + lost :]
        return data

    return edits.map(apply)


def replaced(good):
    """A good tree of values with some replaced, lost, or under another key."""

    @st.composite
    def strategy(draw):
        tree = json.loads(json.dumps(good))
        for _ in range(draw(st.integers(1, 3))):
            node, path = tree, []
            while isinstance(node, dict | list) and node and (not path or draw(st.integers(0, 4))):
                key = draw(st.sampled_from(list(node) if isinstance(node, dict) else list(range(len(node)))))
                path.append((node, key))
                node = node[key]
            if not path:
                break
            parent, key = path[-1]
            way = draw(st.sampled_from(["value", "value", "lost", "key"]))
            if way == "value" or isinstance(parent, list):
                parent[key] = draw(values)
            else:
                value = parent.pop(key)
                if way == "key":
                    parent[draw(words)] = value
        return tree

    return strategy()


@dataclass(frozen=True)
class Parser:
    """One parser under attack.

    Attributes:
        read: takes a file, returns what it holds.
        content: strategy of a file's bytes.
        known: files that once led to a trace, a hang or a wrong result.
        sound: whether what was read can be right, of all that the parser lets through.
        name: of the file.
    """

    read: object
    content: object
    known: tuple = ()
    sound: object = lambda found: True
    name: str = "file"


def as_json(strategy):
    return strategy.map(lambda tree: json.dumps(tree).encode())


def as_yaml(strategy):
    return strategy.map(lambda tree: yaml.safe_dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass"))


# What each parser reads where nothing is wrong.

CORPUS = beir.jsonl_bytes(
    {"_id": f"d{i}", "title": "A title" * (i % 2), "text": f"Some words, number {i}.", "metadata": {"split": "train"}}
    for i in range(4)
)
QUERIES = beir.jsonl_bytes({"_id": f"q{i}", "text": "What is it?"} for i in range(3))
QRELS = beir.qrels_bytes({"q0": {"d0": 1, "d1": 0}, "q1": {"d2": 2, "d3": -1}})
TOKENS = save(
    {"documents.ids": np.arange(6, dtype=np.int32), "documents.offsets": np.array([0, 2, 2, 6])},
    {"embscale": json.dumps(MADE_OF)},
)
TABLE = save({"table": np.arange(12, dtype=np.float32).reshape(4, 3)}, {"table": "input"})
STATES = save(
    {
        "layer.embedding": np.ones((3, 4), np.float32),
        "layer.block 1": np.ones((3, 4), np.float32),
        **{name: np.arange(3) for name in hidden_states.DESCRIBED},
    },
    hidden_states.file_metadata(["embedding", "block 1"], {"texts": 2}),
)
NOTE = {
    "command": "score",
    "parameters": {"lengths": ["64"], "seed": 1},
    "inputs": {"a.csv": "00", "../b/c.csv": "11"},
    "sources": {"src/embscale/errors.py": "22"},
    "outputs": {"results/file": "33", "results/other.csv": "44"},
}
STUDY = read_yaml(ROOT / "params.yaml")
REGISTRY = dict(list(read_yaml(ROOT / "workflow/suites.yaml").items())[:2])
PINS = {"org/model@main": {"commit": "0123456789" * 4, "source": "the hub"}}
ROWS = (ROOT / "recorded/desk/estimates.csv").read_bytes()[:1500].rpartition(b"\n")[0] + b"\n"
STATE = {"step": 6, "seconds": 1.5, "sessions": 1}
HUB_FILES = [
    {"type": "file", "path": "config.json", "size": 9, "oid": "b" * 40},
    {"type": "file", "path": "a.bin", "size": 7, "oid": "c", "lfs": {"oid": "d" * 64, "size": 7, "pointerSize": 134}},
    {"type": "directory", "path": "onnx", "size": 0, "oid": "e"},
]
HUB_COMMIT = {"id": "o/n", "sha": portal.COMMIT, "siblings": [{"rfilename": "config.json"}], "private": False}
LISTING = [{"md5": "0" * 32, "relpath": "a/b.csv"}, {"md5": "1" * 32, "relpath": "c"}]


def folder_with(name, content):
    """A reader of a whole BEIR folder, one of whose files is the given one."""
    good = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels/test.tsv": QRELS}

    def read(path):
        folder = path.parent / "folder"
        (folder / "qrels").mkdir(parents=True)
        for other, data in good.items():
            (folder / other).write_bytes(path.read_bytes() if other == name else data)
        return beir.load(folder)

    return Parser(read, edited(good[name]), tuple(content), sound_task)


def sound_task(data):
    texts = [*data.documents.values(), *data.queries.values()]
    grades = [grade for judged in data.qrels.values() for grade in judged.values()]
    return (
        all(text.encode() is not None for text in texts)
        and all(set(judged) <= set(data.documents) and max(judged.values()) > 0 for judged in data.qrels.values())
        and set(data.qrels) == set(data.queries) == set(data.heldout)
        and all(abs(grade) <= beir.HIGHEST_GRADE for grade in grades)
    )


def sound_tokens(found):
    groups, metadata = found
    return isinstance(metadata, dict) and all(
        group.ids.dtype == np.int32
        and group.ids.ndim == group.offsets.ndim == 1
        and group.offsets[0] == 0
        and group.offsets[-1] == len(group.ids)
        and (np.diff(group.offsets) >= 0).all()
        and (group.ids >= 0).all()
        and len(group.cut(1)) == len(group)
        for group in groups.values()
    )


def sound_states(states):
    layers, count = states.arrays.values(), len(states.text)
    return all(array.ndim == 2 and len(array) == count and array.dtype.kind == "f" for array in layers) and all(
        getattr(states, name).shape == (count,) for name in hidden_states.DESCRIBED
    )


def study_problems(path):
    return problems(read_yaml(path), study_schema())


def registry(path):
    return suites.load(path, path.with_name("no pins"))


def sound_registry(found):
    points = [point for some in found.values() for point in some]
    return all(point.table_bytes > 0 and suites.Planned(point, "fetch", "").source is not None for point in points)


def checkpoint(path):
    with ranges.open_file(ranges.LocalFolder(path.parent), path.name) as file:
        return containers.directory(file, size=path.stat().st_size, label=str(path))


def note_and_places(path):
    note = notes.read_note(path)
    return notes.outputs_of(path, note)


def listing(path):
    content = path.read_bytes()
    try:
        return carried.checked_listing(content, md5(content).hexdigest() + ".dir", str(path))
    except carried.CarriedError as error:
        raise EmbscaleError(str(error)) from None


def sound_listing(found):
    return not any(os.path.normpath(name).startswith(("/", "..")) for name, _ in found)


def parquet():
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    rows = pd.DataFrame({"query": ["a", "b"], "metric": ["map", "map"], "value": [0.5, 0.25]})
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), sink, compression="zstd", write_page_checksum=True)
    return sink.getvalue()


def of_tokens(ids, offsets, metadata="{}"):
    return save({"documents.ids": ids, "documents.offsets": offsets}, {"embscale": metadata})


NESTED = b"[" * 100_000
PARSERS = {
    "corpus": folder_with(
        "corpus.jsonl",
        [
            NESTED,
            b'{"_id": "d0", "text": "\\ud800"}\n',
            b'{"_id": "d0", "text": "a", "metadata": "train"}\n',
            b'{"_id": "d0", "_id": "d1", "text": "a"}\n',
            b'{"_id": 1, "text": "a"}\n',
            b'{"_id": "d0", "text": ' + b"9" * 5000 + b"}\n",
        ],
    ),
    "queries": folder_with("queries.jsonl", [b"", b"null\n", b"\xff\n"]),
    "qrels": folder_with(
        "qrels/test.tsv",
        [
            b"",
            b"query-id\tcorpus-id\tscore\nq0\td0\t2147483648\n",
            b"query-id\tcorpus-id\tscore\nq0\td0\t1" + b"0" * 30 + b"\n",
            b'query-id\tcorpus-id\tscore\n"q0"\t"d0"\t1\n',
            b"query-id\tcorpus-id\tscore\nq0\t" + b"d" * 131_073 + b"\t1\n",
            "query-id\tcorpus-id\tscore\nq0\td\u2028\t1\n".encode(),
        ],
    ),
    "compressed": Parser(
        lambda path: list(beir.read_jsonl(path)),
        edited(gzip.compress(CORPUS, mtime=0)),
        (gzip.compress(CORPUS, mtime=0)[:-9], gzip.compress(CORPUS)[:20] + b"x" + gzip.compress(CORPUS)[21:]),
        name="corpus.jsonl.gz",
    ),
    "texts": Parser(
        lambda path: samples.read_texts(path, split="train"),
        edited(CORPUS),
        (
            b'{"text": "a", "metadata": "train"}\n',
            b'{"text": "a", "metadata": [1]}\n',
            b'{"text": "a", "metadata": 1}\n',
        ),
        lambda found: all(isinstance(text, str) and text.encode() is not None for text in found.values()),
    ),
    "tokens": Parser(
        tokens.load,
        edited(TOKENS),
        (
            of_tokens(np.array([-1], np.int32), np.array([0, 1])),
            of_tokens(np.zeros(3, np.int32), np.array([0, 2, 1, 3])),
            of_tokens(np.zeros(3, np.int32), np.array([0, 9])),
            of_tokens(np.zeros(3, np.int32), np.array([1, 3])),
            of_tokens(np.zeros(3, np.int32), np.zeros(0, np.int64)),
            of_tokens(np.zeros(3, np.float32), np.array([0, 3])),
            of_tokens(np.zeros((3, 1), np.int32), np.array([0, 3])),
            of_tokens(np.zeros(3, np.int32), np.array([0.0, 3.0])),
            of_tokens(np.zeros(3, np.int32), np.array([0, 3]), "[]"),
            of_tokens(np.zeros(3, np.int32), np.array([0, 3]), NESTED.decode()),
            save({"ids": np.zeros(3, np.int32)}),
        ),
        sound_tokens,
    ),
    "table": Parser(
        lambda path: (table_files.load(path), table_files.which(path), table_files.inspect(path)),
        edited(TABLE),
        (
            save({"table": np.full((2, 2), np.nan, np.float32)}),
            save({"table": np.ones(3, np.float32)}),
            save({"table": np.ones((2, 2), np.int64)}),
            save({"table": np.ones((0, 2), np.float32)}),
            save({"table": np.ones((2, 2), np.float32), "x": np.ones(1)}),
        ),
        lambda found: found[0].ndim == 2 and np.isfinite(found[0]).all(),
    ),
    "hidden states": Parser(
        hidden_states.load,
        edited(STATES),
        (
            save({"text": np.arange(2)}, {"embscale": "[]"}),
            save({"text": np.arange(2)}, {"embscale": '{"layers": 3}'}),
            save({"text": np.arange(2)}, {"embscale": '{"layers": [[]]}'}),
            save({"text": np.arange(2)}, {"embscale": NESTED.decode()}),
            save(
                {"layer.a": np.ones((3, 2)), "layer.b": np.ones((2, 2))}
                | {name: np.arange(3) for name in hidden_states.DESCRIBED},
                {"embscale": '{"layers": ["a", "b"]}'},
            ),
            save({name: np.arange(3) for name in hidden_states.DESCRIBED}, {"embscale": '{"layers": []}'}),
        ),
        sound_states,
    ),
    "checkpoint": Parser(checkpoint, edited(TABLE), (b"", b"\x40\0\0\0\0\0\0\0{", NESTED), name="model.safetensors"),
    "index of shards": Parser(
        lambda path: containers.index(path.read_bytes(), label=str(path)),
        st.one_of(
            edited(b'{"weight_map": {"a": "model.safetensors"}}'),
            as_json(replaced({"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors"}})),
        ),
        (NESTED, b"null", b'{"weight_map": {"a": "../x.bin"}}', b'{"weight_map": {"a": "model.bin", "a": "b.bin"}}'),
        lambda found: all("/" not in shard for shard in found.values()),
    ),
    "note": Parser(
        note_and_places,
        st.one_of(edited(json.dumps(NOTE).encode()), as_json(replaced(NOTE))),
        (
            NESTED,
            b"null",
            json.dumps(NOTE | {"outputs": {"file": 1}}).encode(),
            json.dumps(NOTE | {"outputs": {"file": "0", "a\0b": "0"}}).encode(),
            json.dumps(NOTE | {"outputs": {"file": "0", "": "0"}}).encode(),
        ),
        name="file.note.json",
    ),
    "parameters": Parser(
        study_problems,
        st.one_of(edited((ROOT / "params.yaml").read_bytes()), as_yaml(replaced(STUDY))),
        (NESTED, b"a: 1\na: 2\n", b"a: &x [*x]\n", b"? {a: 1}\n: 2\n", b"a: 2026-02-30\n", b"a: \x85\n", b"- a\n"),
        lambda found: all("\n" not in line for line in found),
    ),
    "registry": Parser(
        registry,
        st.one_of(edited(yaml.safe_dump(REGISTRY).encode()), as_yaml(replaced(REGISTRY))),
        (b"[]\n", b"a: 1\n", b"a: {models: []}\n", b"1: 2\n"),
        sound_registry,
    ),
    "pins": Parser(
        suites.read_pins,
        st.one_of(edited(yaml.safe_dump(PINS).encode()), as_yaml(replaced(PINS))),
        (b"a: 1\n", b"a: {commit: 1234}\n", b"[a]\n", NESTED),
        lambda found: all(pin["commit"] == "" or len(pin["commit"]) == 40 for pin in found.values()),
    ),
    "rows": Parser(
        lambda path: (tidy.load(path), tidy.load_text(path)),
        edited(ROWS),
        (b"", b"\0", b"a,b\n1\n2,3,4\n", b'a\n"', b"\xff\n", b"a,a\n1,2\n"),
        lambda found: len(found[0]) == len(found[1]),
        name="rows.csv",
    ),
    "compressed rows": Parser(
        tidy.load, edited(gzip.compress(ROWS, mtime=0)), (gzip.compress(ROWS, mtime=0)[:-9],), name="rows.csv.gz"
    ),
    "scores of queries": Parser(
        scores.read_parquet,
        edited(parquet()),
        (b"PAR1PAR1", b""),
        # What it lets through is what was written: each page has a checksum.
        name="scores.parquet",
    ),
    "state of a training": Parser(
        runs._json,
        st.one_of(edited(json.dumps(STATE).encode()), as_json(replaced(STATE))),
        (NESTED, b"[]", b"\xff"),
        lambda found: isinstance(found, dict),
    ),
    "listing of a remote": Parser(
        listing,
        st.one_of(edited(json.dumps(LISTING).encode()), as_json(replaced(LISTING))),
        (NESTED, b"null", b'[{"md5": "' + b"0" * 32 + b'", "relpath": "../x"}]', b'{"relpath": 1}'),
        sound_listing,
    ),
}


def answered(ask):
    """A reader of what the hub answers."""

    def read(path):
        with portal.standing(path.read_bytes()):
            return ask()

    return read


def hub_files():
    folder = hub.HubFolder("o/n", portal.COMMIT)
    return {name: (size, folder.digest(name)) for name, size in folder.files().items()}


def sound_files(found):
    return all(
        "/" not in name and type(size) is int and size >= 0 and isinstance(digest, str)
        for name, (size, digest) in found.items()
    )


PARSERS |= {
    "the hub's list of files": Parser(
        answered(hub_files),
        st.one_of(edited(json.dumps(HUB_FILES).encode()), as_json(replaced(HUB_FILES))),
        (NESTED, b"null", b"[]", b"<!DOCTYPE html>"),
        sound_files,
    ),
    "the hub's commit": Parser(
        answered(lambda: hub.resolve("o/n", "main")),
        st.one_of(edited(json.dumps(HUB_COMMIT).encode()), as_json(replaced(HUB_COMMIT))),
        (NESTED, b"null", b"[]", b"<!DOCTYPE html>"),
        lambda found: hub.COMMIT.fullmatch(found) is not None,
    ),
}


@contextlib.contextmanager
def limits():
    """At most `SECONDS` of the processor and `MEMORY` bytes more than there are; beyond, the test fails."""

    def late(*_):
        raise TimeoutError(f"still reading after {SECONDS} seconds of the processor")

    before, old = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGPROF, late)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, before[1]))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
        resource.setrlimit(resource.RLIMIT_AS, before)


def attack(parser, content, folder):
    """The right result or one line; anything else raised is a failure."""
    path = folder / parser.name
    path.write_bytes(content)
    try:
        with limits():
            found = parser.read(path)
    except (EmbscaleError, ParameterError) as error:
        lines = str(error).splitlines()
        assert len(lines) == 1 or isinstance(error, ParameterError) or all(str(path) in line for line in lines)
        assert "Traceback" not in str(error)
        return
    assert parser.sound(found)
    assert path.read_bytes() == content


def hunt(name, folder, *, start, examples):
    """Attack one parser with so many files, the known ones first."""
    parser, tried = PARSERS[name], iter(range(10**9))

    def test(content):
        place = folder / str(next(tried))
        place.mkdir()
        attack(parser, content, place)

    for known in parser.known:
        test = hypothesis.example(known)(test)
    chosen = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )
    chosen(hypothesis.seed(start)(hypothesis.given(parser.content)(test)))()


@pytest.mark.fault(
    "any bytes changed, lost or added in any file", happens="the right result, or one line", do="make the file again"
)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PARSERS)
def test_a_damaged_file_is_read_right_or_told_in_one_line(name, tmp_path):
    hunt(name, tmp_path, start=1, examples=EXAMPLES)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PARSERS)
def test_ten_minutes_of_damaged_files(name, tmp_path, capsys):
    start = int(os.environ.get("EMBSCALE_FUZZ_SEED", random.SystemRandom().randrange(10**6)))
    with capsys.disabled():
        print(f"\nfuzzing {name}: EMBSCALE_FUZZ_SEED={start}")
    end = time.monotonic() + BUDGET / len(PARSERS)
    for number in range(10**6):
        if time.monotonic() > end:
            break
        folder = tmp_path / str(number)
        folder.mkdir()
        hunt(name, folder, start=start + number, examples=200)


@pytest.mark.parametrize("name", PARSERS)
def test_an_undamaged_file_is_read(name, tmp_path):
    """Otherwise the attacks would find nothing but files that were never good."""
    good = {
        "corpus": CORPUS, "queries": QUERIES, "qrels": QRELS, "compressed": gzip.compress(CORPUS), "texts": CORPUS,
        "tokens": TOKENS, "table": TABLE, "hidden states": STATES, "checkpoint": TABLE,
        "index of shards": b'{"weight_map": {"a": "model.safetensors"}}', "note": json.dumps(NOTE).encode(),
        "parameters": (ROOT / "params.yaml").read_bytes(), "registry": yaml.safe_dump(REGISTRY).encode(),
        "pins": yaml.safe_dump(PINS).encode(), "rows": ROWS, "compressed rows": gzip.compress(ROWS),
        "scores of queries": parquet(), "state of a training": json.dumps(STATE).encode(),
        "listing of a remote": json.dumps(LISTING).encode(),
        "the hub's list of files": json.dumps(HUB_FILES).encode(), "the hub's commit": json.dumps(HUB_COMMIT).encode(),
    }  # fmt: skip
    path = tmp_path / PARSERS[name].name
    path.write_bytes(good[name])
    found = PARSERS[name].read(path)
    assert PARSERS[name].sound(found) and found == [] if name == "parameters" else PARSERS[name].sound(found)
