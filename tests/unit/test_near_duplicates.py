"""Near-duplicates against sets of words compared one pair at a time."""

import itertools

import numpy as np
import pytest

from embscale.texts import near_duplicates


def shingles(text, words):
    """The shingles of a text as a set of tuples; punctuation must be set off by spaces and have no letters."""
    parts = [part for part in text.lower().split() if part.isalnum()]
    return {tuple(parts[i : i + words]) for i in range(max(1, len(parts) - words + 1))}


def random_texts(seed, count=40):
    """Texts of few different words, some of which quote a part of another, some too short for a shingle."""
    generator = np.random.default_rng(seed)
    vocabulary = ["a", "b", "C", "c", "long", "word", ",", "(", "7"]
    texts = [" ".join(generator.choice(vocabulary, generator.integers(0, 30))) for _ in range(count)]
    for target in generator.integers(0, count, count // 2):
        quoted = texts[generator.integers(count)].split()
        start = int(generator.integers(0, len(quoted) + 1))
        texts[target] += " " + " ".join(quoted[start : start + int(generator.integers(3, 20))])
    return texts


@pytest.mark.parametrize("words", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("share", [0.2, 0.5, 1])
def test_pairs_are_those_of_a_comparison_one_by_one(words, share):
    texts = random_texts(words)
    sets = [shingles(text, words) for text in texts]
    expected = {(i, i) for i in range(len(texts))}
    for i, j in itertools.permutations(range(len(texts)), 2):
        if len(sets[i] & sets[j]) >= share * min(len(sets[i]), len(sets[j])):
            expected.add((i, j))
    near = near_duplicates.near_duplicates(texts, shingle_words=words, share=share)
    assert set(zip(*(map(int, ends) for ends in near.coords), strict=True)) == expected
    assert len(expected) > len(texts) and len(expected) < len(texts) ** 2


def test_a_text_that_is_shorter_than_a_shingle_is_one():
    texts = ["one two", "One, two!", "one two three", "", "", "one two three four"]
    near = near_duplicates.near_duplicates(texts, shingle_words=3, share=0.5)
    assert list(near_duplicates.groups(near)) == [0, 0, 1, 2, 2, 1]


def test_groups_join_what_is_near_through_others():
    words = [f"w{i}" for i in range(24)]
    texts = [" ".join(words[:16]), " ".join(words[4:20]), " ".join(words[8:24]), "else"]
    near = near_duplicates.near_duplicates(texts, shingle_words=4, share=0.6)
    assert near.toarray().tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]
    assert list(near_duplicates.groups(near)) == [0, 0, 0, 1]


def test_a_held_out_text_leaks_once_however_many_resemble_it():
    near = near_duplicates.near_duplicates(["a b c", "a b c", "a b c", "x y z"], shingle_words=2, share=0.5)
    heldout = np.array([True, False, False, True])
    assert near_duplicates.leaking(near, training=~heldout, heldout=heldout) == 0.5
    assert near_duplicates.leaking(near, training=heldout, heldout=np.zeros(4, bool)) == 0
