"""BEIR folders: what is read, and how broken ones are told."""

import gzip
import json
from pathlib import Path

import pytest

from embscale.errors import EmbscaleError
from embscale.texts import beir

CORPUS = [{"_id": "a", "title": "T", "text": "one"}, {"_id": "b", "text": "two"}]
QUERIES = [{"_id": "q", "text": "which"}, {"_id": "unjudged", "text": "none"}]
QRELS = "query-id\tcorpus-id\tscore\nq\tb\t1\nunjudged\ta\t0\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl.gz").write_bytes(beir.gzip_bytes(beir.jsonl_bytes(CORPUS)))
    (tmp_path / "queries.jsonl").write_bytes(beir.jsonl_bytes(QUERIES))
    (tmp_path / "qrels" / "test.tsv").write_text(QRELS)
    return tmp_path


def test_reads_titles_texts_and_judged_queries(folder):
    data = beir.load(folder)
    assert data.documents == {"a": "T one", "b": "two"}
    assert data.queries == {"q": "which"}
    assert data.qrels == {"q": {"b": 1}}


def test_digest_depends_on_content_not_on_compression(folder):
    before = beir.load(folder).sha256
    (folder / "corpus.jsonl").write_bytes(gzip.decompress((folder / "corpus.jsonl.gz").read_bytes()))
    (folder / "corpus.jsonl.gz").unlink()
    assert beir.load(folder).sha256 == before
    (folder / "queries.jsonl").write_bytes(beir.jsonl_bytes([{"_id": "q", "text": "other"}]))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tb\t1\n")
    assert beir.load(folder).sha256 != before


@pytest.mark.fault(
    "a corpus, queries or qrels with a broken line", happens="one line with file and line", do="correct the line"
)
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("queries.jsonl", '{"_id": "q", "text": "which"}\n{"_id": ', r"queries\.jsonl:2: not a JSON object"),
        ("queries.jsonl", "[1]\n", r"queries\.jsonl:1: expected a JSON object, found list"),
        ("queries.jsonl", '{"_id": "q"}\n', r"queries\.jsonl:1: lacks text"),
        (
            "queries.jsonl",
            json.dumps(QUERIES[0]) + "\n" + json.dumps(QUERIES[0]),
            r"queries\.jsonl:2: id 'q' occurs twice",
        ),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\tz\t1\n", r"test\.tsv:2: judges the unknown document 'z'"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nz\ta\t1\n", r"test\.tsv:2: judges the unknown query 'z'"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\ta\tx\n", r"test\.tsv:2: score 'x' is not a whole number"),
        (
            "qrels/test.tsv",
            "query-id\tcorpus-id\tscore\nq\ta\t1\nq\tb\t1\nq\ta\t0\n",
            r"test\.tsv:4: judges document 'a' for query 'q' as 0, after 1 before",
        ),
        ("queries.jsonl", '{"_id": "q", "text": null}\n', r"queries\.jsonl:1: expected words in quotation marks"),
        ("queries.jsonl", '{"_id": 7, "text": "which"}\n', r"queries\.jsonl:1: expected words in quotation marks"),
        ("queries.jsonl", '{"_id": "q", "text": "which"}\n\n', r"queries\.jsonl:2: not a JSON object"),
        (
            "corpus.jsonl",
            '{"_id": "a", "text": ""}\n{"_id": "b", "text": ""}\n{"_id": "a", "text": ""}\n',
            r"corpus\.jsonl:3: id 'a' occurs twice",
        ),
        ("qrels/test.tsv", "a\tb\n", r"test\.tsv:1: expected the columns"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n", r"0 judged queries"),
    ],
)
def test_a_broken_file_is_named_with_its_line(folder, name, content, message):
    (folder / name).write_text(content)
    with pytest.raises(EmbscaleError, match=message):
        beir.load(folder)


def test_a_judgement_that_is_written_twice_counts_once(folder):
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tb\t1\nq\ta\t0\nq\tb\t1\n")
    assert beir.load(folder).qrels == {"q": {"b": 1, "a": 0}}


def test_a_text_may_hold_any_separator_but_a_line_feed(folder):
    queries = [{"_id": "q", "text": "one\u2028two\u0085three\x0bfour\rfive\nsix"}]
    (folder / "queries.jsonl").write_bytes(beir.jsonl_bytes(queries))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tb\t1\n")
    assert beir.load(folder).queries == {"q": queries[0]["text"]}


@pytest.mark.fault("a corpus that is not UTF-8", happens="one line with the byte", do="convert it")
def test_what_is_not_utf_8_is_reported(folder):
    (folder / "queries.jsonl").write_bytes(b'{"_id": "q", "text": "\xff"}\n')
    with pytest.raises(EmbscaleError, match=r"queries\.jsonl: not UTF-8 \(invalid start byte at byte 22\)"):
        beir.load(folder)


@pytest.mark.fault("a compressed corpus cut", happens="one line names it", do="make it again")
def test_a_truncated_archive_is_reported(folder):
    path = folder / "corpus.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(EmbscaleError, match="broken gzip file"):
        beir.load(folder)


def test_a_missing_corpus_is_reported(folder):
    (folder / "corpus.jsonl.gz").unlink()
    with pytest.raises(EmbscaleError, match=r"no corpus\.jsonl or corpus\.jsonl\.gz"):
        beir.load(folder)


def test_compressed_bytes_hold_no_time():
    assert beir.gzip_bytes(b"same") == beir.gzip_bytes(b"same")
    assert Path(__file__).name.encode() not in beir.gzip_bytes(b"same")


@pytest.mark.fault("ids in quotation marks, or with other separators", happens="they are ids as they are", do="nothing")
@pytest.mark.parametrize("odd", ['"b"', "b\u0085c", "b\u2028c", "b,c", " b", "b\rc", "NA", "nan", ""])
def test_ids_are_taken_as_they_are(folder, odd):
    (folder / "corpus.jsonl.gz").write_bytes(beir.gzip_bytes(beir.jsonl_bytes([*CORPUS, {"_id": odd, "text": "x"}])))
    (folder / "queries.jsonl").write_bytes(beir.jsonl_bytes([{"_id": odd, "text": "which"}]))
    judged = {odd: {odd: 2, "b": 1}}
    (folder / "qrels" / "test.tsv").write_bytes(beir.qrels_bytes(judged))
    assert beir.load(folder).qrels == judged


def test_lines_may_end_as_on_windows(folder):
    (folder / "qrels" / "test.tsv").write_bytes(QRELS.replace("\n", "\r\n").encode())
    assert beir.load(folder).qrels == {"q": {"b": 1}}


@pytest.mark.fault(
    "a grade that is no small whole number", happens="one line with file and line", do="correct the line"
)
@pytest.mark.parametrize("grade", ["2147483648", "1" + "0" * 30, "1000", "1_0", "+1", " 1", "1.5", "٣", "", "-"])
def test_a_grade_that_is_no_small_whole_number_is_reported(folder, grade):
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\nq\tb\t{grade}\n", "utf-8")
    with pytest.raises(EmbscaleError, match=r"test\.tsv:2: score .* is not a whole number from -999 to 999"):
        beir.load(folder)


@pytest.mark.parametrize("judged", [{"q": {"b": 1.5}}, {"q\t": {"b": 1}}, {"q": {"b\nc": 1}}, {"q": {"b": 1000}}])
def test_a_judgement_that_could_not_be_read_is_not_written(judged):
    with pytest.raises(EmbscaleError, match="expected ids without tab or line feed, and a whole number up to 999"):
        beir.qrels_bytes(judged)


@pytest.mark.fault(
    "keys twice, halves of characters, nesting without end",
    happens="one line with file and line",
    do="correct the line",
)
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("qrels/test.tsv", b"query-id\tcorpus-id\tscore\nq\tb\t1\t\n", r"test\.tsv:2: expected 3 cells between tabs"),
        ("qrels/test.tsv", b"query-id\tcorpus-id\tscore\n\nq\tb\t1\n", r"test\.tsv:2: expected 3 cells between tabs"),
        ("qrels/test.tsv", b"query-id\tcorpus-id\tscore\nq\t\xff\t1\n", r"test\.tsv: not UTF-8"),
        ("qrels/test.tsv", b"", r"test\.tsv:1: expected the columns"),
        ("queries.jsonl", b'{"_id": "q", "text": "\\ud83d"}\n', r"queries\.jsonl:1: not a JSON object"),
        ("queries.jsonl", b'{"_id": "q", "_id": "p", "text": "x"}\n', r"queries\.jsonl:1: .*a key is there twice"),
        ("queries.jsonl", b"[" * 100_000, r"queries\.jsonl:1: not a JSON object"),
        ("queries.jsonl", b'{"_id": "q", "text": ' + b"1" * 5000 + b"}", r"queries\.jsonl:1: not a JSON object"),
        (
            "corpus.jsonl",
            b'{"_id": "a", "text": "", "metadata": "x"}\n',
            "expected an object as metadata",
        ),
        ("corpus.jsonl", b'{"_id": "a", "text": "", "title": [1]}\n', "expected text as title"),
    ],
)
def test_odd_bytes_are_reported(folder, name, content, message):
    (folder / name).write_bytes(content)
    with pytest.raises(EmbscaleError, match=message):
        beir.load(folder)


def test_a_pair_of_escaped_halves_is_a_character(folder):
    (folder / "queries.jsonl").write_bytes(b'{"_id": "q", "text": "\\ud83d\\ude00"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tb\t1\n")
    assert beir.load(folder).queries == {"q": "\U0001f600"}


@pytest.mark.fault("a compressed corpus damaged inside", happens="one line names it", do="make it again")
def test_damage_inside_an_archive_is_reported(folder):
    path = folder / "corpus.jsonl.gz"
    content = bytearray(path.read_bytes())
    content[20:30] = bytes(255 - byte for byte in content[20:30])
    path.write_bytes(content)
    with pytest.raises(EmbscaleError, match="broken gzip file"):
        beir.load(folder)
