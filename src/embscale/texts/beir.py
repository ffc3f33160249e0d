"""Retrieval data in the BEIR folder format: read with checks, written with fixed bytes.

A folder holds ``corpus.jsonl[.gz]`` (``_id``, ``title``, ``text``), ``queries.jsonl`` (``_id``,
``text``) and ``qrels/SPLIT.tsv`` (``query-id``, ``corpus-id``, ``score``).
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embscale.errors import EmbscaleError

TRAIN = "train"  # the split of documents that models are trained on


@dataclass(frozen=True)
class RetrievalData:
    """One retrieval task in memory.

    Attributes:
        name: the folder's name.
        documents: document id to text, preceded by its title, joined as in MTEB and BEIR.
        queries: query id to text, judged queries only.
        qrels: query id to document id to relevance; every query has a relevant document.
        sha256: digest of the files that it was read from.
        heldout: for each query whether neither the document of its id nor a relevant one was trained on: their
            ``metadata.split`` is given and is not ``train``.
    """

    name: str
    documents: dict[str, str]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]
    sha256: str
    heldout: dict[str, bool] = field(default_factory=dict)


def corpus_file(folder: Path) -> Path:
    """The corpus of a folder, plain or compressed."""
    for name in ("corpus.jsonl", "corpus.jsonl.gz"):
        if (folder / name).is_file():
            return folder / name
    raise EmbscaleError(f"{folder}: no corpus.jsonl or corpus.jsonl.gz; expected a folder in the BEIR format")


def files(folder: Path, split: str) -> list[Path]:
    """The files of one split of a folder."""
    return [corpus_file(folder), folder / "queries.jsonl", folder / "qrels" / f"{split}.tsv"]


def splits(folder: Path) -> list[str]:
    """The splits of a folder that are used: ``test``, and ``dev`` if there is one, to choose settings on."""
    return ["test", *(["dev"] if files(folder, "dev")[-1].is_file() else [])]


def load(folder: Path, split: str = "test") -> RetrievalData:
    """Read and check one split.

    A query without a relevant document is left out, since no metric is defined for it.

    Raises:
        EmbscaleError: a file is missing or broken, an id occurs twice, a judgement names an unknown id, or two
            judgements contradict each other; the message names file and line.
    """
    corpus, queries, qrels = files(folder, split)
    documents, unseen = {}, set()
    for row in _unique(corpus, {"_id", "text"}):
        documents[row["_id"]] = f"{row.get('title') or ''} {row['text']}".strip()
        if (row.get("metadata") or {}).get("split", TRAIN) != TRAIN:
            unseen.add(row["_id"])
    texts = {row["_id"]: row["text"] for row in _unique(queries, {"_id", "text"})}
    judgements = _read_qrels(qrels, documents, texts)
    if not documents or not judgements:
        raise EmbscaleError(
            f"{folder}: {len(documents)} documents and {len(judgements)} judged queries; neither may be 0"
        )
    digest = hashlib.sha256(b"".join(_uncompressed(path) for path in (corpus, queries, qrels))).hexdigest()
    judged = {query: text for query, text in texts.items() if query in judgements}
    heldout = {
        query: all(judgements[query][document] <= 0 or document in unseen for document in judgements[query])
        and (query in unseen or query not in documents)
        for query in judged
    }
    return RetrievalData(folder.name, documents, judged, judgements, digest, heldout)


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a ``.jsonl`` or ``.jsonl.gz`` file; errors name file and line."""
    try:
        # Not `splitlines`: a text may hold other separators, such as U+2028, as they are.
        lines = _uncompressed(path).decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise EmbscaleError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from error
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise EmbscaleError(f"{path}:{number}: not a JSON object ({error.msg})") from error
        if not isinstance(row, dict):
            raise EmbscaleError(f"{path}:{number}: expected a JSON object, found {type(row).__name__}")
        yield row


def jsonl_bytes(rows: Iterable[dict[str, Any]]) -> bytes:
    """Rows as UTF-8 lines of JSON."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8")


def gzip_bytes(content: bytes) -> bytes:
    """Compressed bytes that depend only on the content: no file name, no time."""
    return gzip.compress(content, compresslevel=6, mtime=0)


def _uncompressed(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; expected a folder in the BEIR format") from None
    except (EOFError, gzip.BadGzipFile) as error:
        raise EmbscaleError(f"{path}: broken gzip file ({error}); remove it and make it again") from error


def _unique(path: Path, keys: set[str]) -> Iterator[dict[str, Any]]:
    seen = set()
    for number, row in enumerate(read_jsonl(path), 1):
        if not keys <= row.keys():
            raise EmbscaleError(f"{path}:{number}: lacks {', '.join(sorted(keys - row.keys()))}")
        if not all(isinstance(row[key], str) for key in keys):
            raise EmbscaleError(f"{path}:{number}: expected words in quotation marks for {', '.join(sorted(keys))}")
        if row["_id"] in seen:
            raise EmbscaleError(f"{path}:{number}: id {row['_id']!r} occurs twice")
        seen.add(row["_id"])
        yield row


def _read_qrels(path: Path, documents: dict[str, str], queries: dict[str, str]) -> dict[str, dict[str, int]]:
    """Judgements of the queries that have at least one relevant document; one may be written twice."""
    qrels: dict[str, dict[str, int]] = {}
    reader = csv.DictReader(_uncompressed(path).decode("utf-8").splitlines(), delimiter="\t")
    if reader.fieldnames != ["query-id", "corpus-id", "score"]:
        raise EmbscaleError(f"{path}:1: expected the columns query-id, corpus-id, score; found {reader.fieldnames}")
    for number, row in enumerate(reader, 2):
        query, document = row["query-id"], row["corpus-id"]
        if query not in queries or document not in documents:
            unknown = f"query {query!r}" if query not in queries else f"document {document!r}"
            raise EmbscaleError(f"{path}:{number}: judges the unknown {unknown}")
        try:
            score = int(row["score"])
        except (TypeError, ValueError):
            raise EmbscaleError(f"{path}:{number}: score {row['score']!r} is not a whole number") from None
        known = qrels.setdefault(query, {}).setdefault(document, score)
        if known != score:
            raise EmbscaleError(
                f"{path}:{number}: judges document {document!r} for query {query!r} as {score}, after {known} before; "
                "keep the one that is right"
            )
    return {query: judged for query, judged in qrels.items() if any(score > 0 for score in judged.values())}
