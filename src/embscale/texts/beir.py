"""Retrieval data in the BEIR folder format: read with checks, written with fixed bytes.

A folder holds ``corpus.jsonl[.gz]`` (``_id``, ``title``, ``text``), ``queries.jsonl`` (``_id``,
``text``) and ``qrels/SPLIT.tsv`` (``query-id``, ``corpus-id``, ``score``).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embscale.errors import EmbscaleError, printable

COLUMNS = ["query-id", "corpus-id", "score"]  # of judgements

# Grades are small numbers; trec_eval counts documents by grade, in as many counters as the highest has.
HIGHEST_GRADE = 999
GRADE = re.compile(rf"-?[0-9]{{1,{len(str(HIGHEST_GRADE))}}}")

# Half of a character, written as such, is no text that a tokenizer takes.
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

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
        title = row.get("title") or ""
        if not isinstance(title, str):
            raise EmbscaleError(f"{corpus}: document {row['_id']!r:.80}: expected text as title")
        documents[row["_id"]] = f"{title} {row['text']}".strip()
        if split_of(row, f"{corpus}: document {row['_id']!r:.80}") not in (None, TRAIN):
            unseen.add(row["_id"])
    texts = {row["_id"]: row["text"] for row in _unique(queries, {"_id", "text"})}
    judgements = read_qrels(qrels, documents, texts)
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
    for number, line in enumerate(_lines(path), 1):
        try:
            row = json.loads(line, object_pairs_hook=_unique_keys)
            if SURROGATE.search(line):
                json.dumps(row, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise EmbscaleError(f"{path}:{number}: not a JSON object ({getattr(error, 'msg', error)})") from error
        if not isinstance(row, dict):
            raise EmbscaleError(f"{path}:{number}: expected a JSON object, found {type(row).__name__}")
        yield row


def split_of(row: Mapping[str, Any], where: str) -> str | None:
    """The split of documents that a row belongs to, ``metadata.split``; None where it has none.

    Args:
        row: from `read_jsonl`.
        where: it was read, for the message.

    Raises:
        EmbscaleError: the metadata are no object, or the split is no word.
    """
    metadata = row.get("metadata") or {}
    split = metadata.get("split") if isinstance(metadata, dict) else metadata
    if not isinstance(metadata, dict) or not isinstance(split, str | None):
        raise EmbscaleError(f"{where}: expected an object as metadata, with a word as split")
    return split


def splits_of(path: Path) -> list[str]:
    """The split of each document of a corpus in which all have one, as in the study's own.

    Raises:
        EmbscaleError: a document has none.
    """
    found = []
    for number, row in enumerate(read_jsonl(path), 1):
        split = split_of(row, f"{path}:{number}")
        if split is None:
            raise EmbscaleError(f"{path}:{number}: lacks metadata.split; make the corpus with embscale harvest")
        found.append(split)
    return found


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; the standard library takes the last value of a key that is there twice."""
    if len(row := dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice")
    return row


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file in UTF-8, with or without a line feed after the last."""
    try:
        text = _uncompressed(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise EmbscaleError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from error
    # Not `splitlines`: a text or an id may hold other separators, such as U+2028, as they are.
    return iter(text.removesuffix("\n").split("\n"))


def jsonl_bytes(rows: Iterable[dict[str, Any]]) -> bytes:
    """Rows as UTF-8 lines of JSON."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8")


def qrels_bytes(judged: Mapping[str, Mapping[str, int]]) -> bytes:
    """Judgements as `read_qrels` reads them.

    Args:
        judged: query id to document id to grade.

    Raises:
        EmbscaleError: an id or a grade has no place in such a file.
    """
    lines = ["\t".join(COLUMNS)]
    for query, grades in judged.items():
        for document, grade in grades.items():
            if re.search("[\t\n]", f"{query}{document}") or not GRADE.fullmatch(str(grade)):
                raise EmbscaleError(
                    f"judgement of {document!r:.80} for {query!r:.80} as {grade!r:.80}: expected ids without tab or "
                    f"line feed, and a whole number up to {HIGHEST_GRADE}"
                )
            lines.append(f"{query}\t{document}\t{grade}")
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


def gzip_bytes(content: bytes) -> bytes:
    """Compressed bytes that depend only on the content: no file name, no time."""
    return gzip.compress(content, compresslevel=6, mtime=0)


def _uncompressed(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: no such file; expected a folder in the BEIR format") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
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


def read_qrels(
    path: Path, documents: Collection[str] | None = None, queries: Collection[str] | None = None
) -> dict[str, dict[str, int]]:
    """Judgements of the queries that have at least one relevant document; one may be written twice.

    Cells are taken as they are, quotation marks included, as pytrec_eval and MTEB have them.

    Args:
        path: query, document and grade on each line, between tabs, below a header.
        documents: ids that may be judged; any if not given.
        queries: ids that may be judged for.

    Raises:
        EmbscaleError: a line is something else, judges what is unknown, or contradicts an earlier one.
    """
    qrels: dict[str, dict[str, int]] = {}
    lines = _lines(path)
    if (header := next(lines).removesuffix("\r").split("\t")) != COLUMNS:
        raise EmbscaleError(
            f"{path}:1: expected the columns {', '.join(COLUMNS)}; found {printable(', '.join(header)):.80}"
        )
    for number, line in enumerate(lines, 2):
        if line.count("\t") != len(COLUMNS) - 1:
            raise EmbscaleError(f"{path}:{number}: expected {len(COLUMNS)} cells between tabs, found {line!r:.80}")
        query, document, grade = line.removesuffix("\r").split("\t")
        for kind, found, known in (("query", query, queries), ("document", document, documents)):
            if known is not None and found not in known:
                raise EmbscaleError(f"{path}:{number}: judges the unknown {kind} {found!r:.80}")
        if not GRADE.fullmatch(grade):
            raise EmbscaleError(
                f"{path}:{number}: score {grade!r:.80} is not a whole number from -{HIGHEST_GRADE} to {HIGHEST_GRADE}"
            )
        score = int(grade)
        earlier = qrels.setdefault(query, {}).setdefault(document, score)
        if earlier != score:
            raise EmbscaleError(
                f"{path}:{number}: judges document {document!r:.80} for query {query!r:.80} as {score}, after "
                f"{earlier} before; keep the one that is right"
            )
    return {query: judged for query, judged in qrels.items() if any(score > 0 for score in judged.values())}
