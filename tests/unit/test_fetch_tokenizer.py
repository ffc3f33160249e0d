"""Tokenizers from the files that repositories really hold, beside the algorithms that define their ids."""

import itertools
import json
import unicodedata

import pytest
import regex
import sentencepiece

from embscale.cli import execute
from embscale.texts import tokens
from hub import tokenizer_layouts
from hub.tokenizer_layouts import CONTRACTIONS, LAYOUTS, SENTENCES, SINGLE_DIGITS, TRIPLETS

pytestmark = pytest.mark.long

TEXTS = [
    *SENTENCES,
    "word1 and word2, or word42!",
    "",
    "  two  spaces, three   and four    of them ",
    "tabs\tand\nlines\r\nof the table",
    "caf\u00e9, e\u0301, \u4f60\u597d, \U0001f600 and \u0627\u0644",
    "a \u0085 that one\u00a0and\u2003another space stand\u0085around",
    "1234567 or 3.14, don't, WE'LL",
    "\ufb01ne \u00bd widths",
]


def byte_character(byte):
    """GPT-2's visible character for a byte."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [other for other in range(256) if other not in kept]
    return chr(byte) if byte in kept else chr(256 + others.index(byte))


def merged(word, ranks):
    """The parts of a word after all merges: of the pairs that stand side by side, always the first that was learned."""
    parts = list(word)
    while len(parts) > 1:
        pairs = list(itertools.pairwise(parts))
        first = min(pairs, key=lambda pair: ranks.get(pair, len(ranks)))
        if first not in ranks:
            break
        place = pairs.index(first)
        parts[place : place + 2] = ["".join(first)]
    return parts


def byte_level(folder, text, pattern, *, digits=False, spaces=(), normal=None):
    """Ids by the algorithm of GPT-2's own encoder, from the vocabulary and the merges in the folder's files.

    Args:
        folder: holds vocab.json and merges.txt, or tokenizer.json alone.
        text: without special tokens.
        pattern: what a word is.
        digits: whether every digit is a word before that.
        spaces: runs of spaces that are tokens, the longest first.
        normal: Unicode's form, such as NFC.
    """
    if (folder / "merges.txt").is_file():
        vocabulary = json.loads((folder / "vocab.json").read_text("utf-8"))
        merges = [tuple(line.split(" ")) for line in (folder / "merges.txt").read_text("utf-8").splitlines()[1:]]
    else:
        model = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]
        vocabulary, merges = model["vocab"], [tuple(pair) for pair in model["merges"]]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    text = unicodedata.normalize(normal, text) if normal else text
    runs = "|".join(spaces)
    ids = []
    for piece in regex.split(f"({runs})", text) if spaces else [text]:
        if piece in spaces:
            ids.append(len(vocabulary) + spaces.index(piece))
            continue
        for part in regex.split(r"(\d)", piece) if digits else [piece]:
            for word in words(pattern, part):
                visible = "".join(map(byte_character, word.encode()))
                ids += [vocabulary[token] for token in merged(visible, ranks)]
    return ids


def words(pattern, text):
    """What the pattern finds, and what stands between, in order."""
    end = 0
    for found in regex.finditer(pattern, text):
        yield text[end : found.start()]
        yield found.group()
        end = found.end()
    yield text[end:]


def pieces(folder, text):
    """Ids by SentencePiece itself."""
    (model,) = folder.glob("*.model")
    return sentencepiece.SentencePieceProcessor(model_file=str(model)).encode(text)


# As the published pattern reads where a set may stand in a set.
BLOOM_WORDS = r" ?[^()|\s.,!?…。，、।۔،]+"
NEOX_SPACES = [" " * count for count in (4, 3, 2)]
# By layout: the ids of a text from the published files alone, and the special tokens in front and behind.
TRUTHS = {
    "gpt2": (lambda folder, text: byte_level(folder, text, CONTRACTIONS), [], []),
    "opt": (lambda folder, text: byte_level(folder, text, CONTRACTIONS), [2], []),
    "gpt_neox": (
        lambda folder, text: byte_level(folder, text, CONTRACTIONS, spaces=NEOX_SPACES, normal="NFC"), [], [],
    ),
    "bloom": (lambda folder, text: byte_level(folder, text, BLOOM_WORDS), [], []),
    "t5": (pieces, [], [1]),
    "llama2": (pieces, [1], []),
    "llama3": (lambda folder, text: byte_level(folder, text, TRIPLETS), [286], []),
    "gemma": (pieces, [2], []),
    "qwen": (lambda folder, text: byte_level(folder, text, SINGLE_DIGITS, normal="NFC"), [], []),
    "smollm2": (lambda folder, text: byte_level(folder, text, CONTRACTIONS, digits=True), [], []),
    "olmo2": (lambda folder, text: byte_level(folder, text, TRIPLETS), [], []),
}  # fmt: skip
MODEL_TYPES = {"llama2": "llama", "llama3": "llama", "smollm2": "llama", "qwen": "qwen2"}


def publish(hub, layout, folder):
    """Put a tokenizer into a repository of its own, beside the config of its model."""
    tokenizer_layouts.save(layout, folder)
    (folder / "config.json").write_text(json.dumps({"model_type": MODEL_TYPES.get(layout, layout)}))
    return f"test/tokenizer-{layout}@{hub.add(f'test/tokenizer-{layout}', folder)}"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_suites_files_give_the_ids_of_their_own_algorithm(hub, layout, tmp_path):
    published, fetched = tmp_path / "published", tmp_path / "fetched"
    address = publish(hub, layout, published)
    assert execute("fetch-tokenizer", [address, "-o", str(fetched)]) == 0
    ids, front, behind = TRUTHS[layout]
    tokenizer = tokens.load_tokenizer(fetched)
    for text in TEXTS:
        expected = ids(published, text)
        assert tokenizer.encode(text, add_special_tokens=False).ids == expected, text
        assert tokenizer.encode(text).ids == front + expected + behind, text
    assert {path.name for path in fetched.iterdir()} == {
        "tokenizer.json", "tokenizer_config.json", "tokenizer.json.note.json",
    }  # fmt: skip


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name not in ("opt", "t5")])
def test_a_published_tokenizer_json_is_kept_byte_for_byte(hub, layout, tmp_path):
    address = publish(hub, layout, tmp_path / "published")
    assert execute("fetch-tokenizer", [address, "-o", str(tmp_path / "fetched")]) == 0
    published = (tmp_path / "published/tokenizer.json").read_bytes()
    assert (tmp_path / "fetched/tokenizer.json").read_bytes() == published


@pytest.mark.parametrize("layout", ["opt", "t5"])
def test_older_repositories_hold_no_tokenizer_json(layout, tmp_path):
    tokenizer_layouts.save(layout, tmp_path)
    names = {"opt": {"vocab.json", "merges.txt"}, "t5": {"spiece.model"}}[layout]
    assert {path.name for path in tmp_path.iterdir()} == names | {"tokenizer_config.json", "special_tokens_map.json"}


@pytest.mark.parametrize(
    ("layout", "gone"), [("t5", ["spiece.model"]), ("opt", ["vocab.json", "merges.txt"]), ("bloom", ["tokenizer.json"])]
)
def test_a_repository_whose_vocabulary_is_gone_is_refused_in_a_line(hub, layout, gone, tmp_path, capsys):
    tokenizer_layouts.save(layout, tmp_path / "published")
    for name in gone:
        (tmp_path / "published" / name).unlink()
    (tmp_path / "published/config.json").write_text(json.dumps({"model_type": layout}))
    commit = hub.add(f"test/gone-{layout}", tmp_path / "published")
    assert execute("fetch-tokenizer", [f"test/gone-{layout}@{commit}", "-o", str(tmp_path / "fetched")]) == 1
    said = capsys.readouterr().err.splitlines()[-1]  # behind the client's progress bar
    assert f"test/gone-{layout}@{commit}: holds no tokenizer, only " in said and "spiece.model" in said
    assert not (tmp_path / "fetched/tokenizer.json").exists()


@pytest.mark.parametrize(
    ("layout", "file"), [("opt", "merges.txt"), ("t5", "spiece.model"), ("gpt2", "tokenizer.json")]
)
def test_a_broken_vocabulary_is_refused_in_a_line(hub, layout, file, tmp_path, capsys):
    tokenizer_layouts.save(layout, tmp_path / "published")
    content = (tmp_path / "published" / file).read_bytes()
    (tmp_path / "published" / file).write_bytes(b"#version: 0.2\nno such pair here\n" + content[:100])
    (tmp_path / "published/config.json").write_text(json.dumps({"model_type": layout}))
    commit = hub.add(f"test/broken-{layout}", tmp_path / "published")
    assert execute("fetch-tokenizer", [f"test/broken-{layout}@{commit}", "-o", str(tmp_path / "fetched")]) == 1
    said = capsys.readouterr().err
    assert "cannot load its tokenizer" in said and "Traceback" not in said
    assert not (tmp_path / "fetched/tokenizer.json").exists()
