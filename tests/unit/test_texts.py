"""Which texts are chosen, by which tokens, and what is taken out of them before."""

import html
import re
import string
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.layers import hidden_states
from embscale.texts import beir, samples, tokens

LENGTH = 12
OPTIONS = {"count": 10, "min_tokens": LENGTH, "tokens": LENGTH, "strip_html": False, "strip_punctuation": False}
OPTIONS |= {"seed": 0}


@pytest.fixture(scope="module")
def tokenizer(tokenizer_folder):
    return tokens.load_tokenizer(tokenizer_folder)


@pytest.fixture(scope="module")
def some(texts_file):
    return samples.read_texts(texts_file, split=None)


def ids_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def test_texts_are_chosen_by_seed_and_id_alone(some, tokenizer):
    sample = samples.choose(some, tokenizer, **OPTIONS)
    assert samples.choose(dict(reversed(some.items())), tokenizer, **OPTIONS).text_ids == sample.text_ids
    assert samples.choose(some, tokenizer, **OPTIONS | {"seed": 1}).text_ids != sample.text_ids
    # More texts are the same texts and others.
    assert samples.choose(some, tokenizer, **OPTIONS | {"count": 15}).text_ids[:10] == sample.text_ids


def test_tokens_are_the_first_of_each_text(some, tokenizer):
    sample = samples.choose(some, tokenizer, **OPTIONS)
    assert len(sample.text_ids) == len(sample.tokens) == 10 and set(sample.tokens.lengths) == {LENGTH}
    for i, name in enumerate(sample.text_ids):
        assert list(sample.tokens[i]) == ids_of(tokenizer, some[name])[:LENGTH]


def test_texts_may_differ_in_length_above_the_least(some, tokenizer):
    sample = samples.choose(some, tokenizer, **OPTIONS | {"count": 30, "tokens": 40})
    lengths = [len(ids_of(tokenizer, some[name])) for name in sample.text_ids]
    np.testing.assert_array_equal(sample.tokens.lengths, np.minimum(lengths, 40))
    assert min(lengths) >= LENGTH and max(lengths) > 40 and len(set(sample.tokens.lengths)) > 2


def test_identical_texts_count_once_and_change_nothing_else(some, tokenizer):
    """Two of one text could stand on both sides of a split by text."""
    sample = samples.choose(some, tokenizer, **OPTIONS)
    doubled = some | {f"again {name}": some[name] for name in some}
    again = samples.choose(doubled, tokenizer, **OPTIONS | {"count": 20})
    texts = [doubled[name] for name in again.text_ids]
    assert len(set(texts)) == 20
    late = {f"{i}": text for i, text in enumerate(some.values())}
    assert samples.choose(some | {"x": "too short"}, tokenizer, **OPTIONS).text_ids == sample.text_ids
    with pytest.raises(EmbscaleError, match="identical ones count once"):
        samples.choose(dict.fromkeys(late, some[sample.text_ids[0]]), tokenizer, **OPTIONS)


def test_short_texts_are_counted_and_too_few_texts_are_an_error(some, tokenizer):
    short = sum(len(ids_of(tokenizer, text)) < LENGTH for text in some.values())
    everything = samples.choose(some, tokenizer, **OPTIONS | {"count": 40 - short})
    assert 0 < everything.too_short <= short
    with pytest.raises(EmbscaleError, match=rf"^{40 - short} of 40 texts have {LENGTH} tokens .*, but 40 are wanted"):
        samples.choose(some, tokenizer, **OPTIONS | {"count": 40})


@pytest.mark.parametrize("min_tokens", [0, 13])
def test_lengths_that_contradict_each_other_are_refused(some, tokenizer, min_tokens):
    with pytest.raises(EmbscaleError, match=f"^texts of {min_tokens} tokens or more cannot be cut to 12"):
        samples.choose(some, tokenizer, **OPTIONS | {"min_tokens": min_tokens})


def test_texts_are_cleaned_before_they_become_tokens(tokenizer):
    dirty = {"a": "Wide&nbsp;tables,<br />hold; long rows &lt;b&gt;!"}
    options = OPTIONS | {"count": 1, "min_tokens": 1, "tokens": 60}
    for strip_html, strip_punctuation, clean in (
        (False, False, dirty["a"]),
        (True, False, "Wide\xa0tables, hold; long rows <b>!"),
        (False, True, "Widenbsptables<br >hold long rows ltbgt"),
        (True, True, "Wide\xa0tables hold long rows <b>"),
    ):
        sample = samples.choose(
            dirty, tokenizer, **options | {"strip_html": strip_html, "strip_punctuation": strip_punctuation}
        )
        assert list(sample.tokens[0]) == ids_of(tokenizer, clean)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one<br /><br />two", "one  two"),
        ("<p>one</p>two", " one two"),
        ("a < b and 3 <4, if x<y", "a < b and 3 <4, if x<y"),
        ("one<!-- never seen -->two", "one two"),
        ("&eacute;&#233;&#xe9;&amp;amp; &copy", "ééé&amp; ©"),
        ('<a href="x>y">z</a>', " z "),
    ],
)
def test_tags_become_spaces_and_entities_characters(text, expected):
    assert samples.without_html(text) == expected


@given(st.text(st.characters(exclude_characters="<&", exclude_categories=["Cs"])))
def test_texts_without_marks_stay_and_escaped_ones_come_back(text):
    assert samples.without_html(text) == text
    assert samples.without_html(html.escape(text + "<&")) == text + "<&"


@given(st.text())
def test_punctuation_goes_and_all_else_stays(text):
    expected = "".join(character for character in text if unicodedata.category(character)[0] != "P")
    assert samples.without_punctuation(text) == expected


def test_symbols_are_no_punctuation():
    assert samples.without_punctuation(string.punctuation + "¿—…") == "$+<=>^`|~"
    assert samples.without_punctuation("it isn't") == "it isnt"


def test_a_split_keeps_its_texts_only(texts_file):
    assert set(samples.read_texts(texts_file, split="heldout")) == {f"text-{i}" for i in range(1, 40, 2)}
    with pytest.raises(EmbscaleError, match=r"corpus\.jsonl: no texts whose metadata\.split is 'nowhere'"):
        samples.read_texts(texts_file, split="nowhere")


def test_rows_without_an_id_are_known_by_their_line(tmp_path):
    path = tmp_path / "texts.jsonl.gz"
    path.write_bytes(beir.gzip_bytes(beir.jsonl_bytes([{"text": "x"}, {"text": "y", "label": 3}, {"text": "x"}])))
    assert samples.read_texts(path, split=None) == {"1": "x", "2": "y", "3": "x"}


@pytest.mark.parametrize("second", ['{"_id": "a", "text": "again"}', '{"_id": "b"}', '{"text": null}', '{"text": [1]}'])
def test_a_bad_row_is_named_by_its_line(tmp_path, second):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"_id": "a", "text": "x"}\n' + second)
    with pytest.raises(EmbscaleError, match=r"texts\.jsonl:2: "):
        samples.read_texts(path, split=None)


@pytest.mark.long
def test_reviews_run_through_a_trained_checkpoint(trained_checkpoint, reviews_file, tmp_path, capsys):
    """Films' reviews with tags in them, no ids, and a model that is trained."""
    flags = ["--strip-html", "--texts-count", "100", "--min-tokens", "64", "--tokens", "64", "--first-position", "1"]
    flags += ["--batch", "32", "--precision", "float32", "--device", "cpu", "--storage-gb", "1", "--texts-seed", "1"]
    output = tmp_path / "states.safetensors"
    folder = str(trained_checkpoint)
    arguments = [folder, "--tokenizer", folder, "--texts", str(reviews_file), *flags, "-o", str(output)]
    assert execute("states", arguments) == 0, capsys.readouterr().err
    states = hidden_states.load(output)
    assert states.classes == ("embedding", "block 1", "block 2", "block 3") and len(states.text) == 100 * 63
    tokenizer = tokens.load_tokenizer(trained_checkpoint)
    raw = samples.read_texts(reviews_file, split=None)
    assert len(raw) == 200 and any("<br />" in text for text in raw.values())
    for text in range(5):
        review = html.unescape(re.sub("<[^>]*>", " ", raw[states.metadata["text_ids"][text]]))
        assert list(states.token[states.text == text]) == ids_of(tokenizer, review)[1:64]
    # Norms grow from block to block, as in every pre-norm model.
    lengths = [np.linalg.norm(states.arrays[layer], axis=1).mean() for layer in states.classes]
    assert lengths == sorted(lengths)
