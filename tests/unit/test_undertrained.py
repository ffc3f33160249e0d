"""Indicators of tokens without training, against their definitions and tables where the answer is known."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from embscale.scoring import undertrained


def vocabulary_of_bytes():
    """The bytes of GPT-2's vocabulary in their order: printable characters of Latin-1 first, then the others."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    written = [chr(byte) for byte in printable] + [chr(256 + number) for number in range(len(others))]
    return {token: number for number, token in enumerate(written)}


def test_bytes_that_no_text_holds_are_those_of_the_published_reports():
    """Reports on GPT-2 and models with its vocabulary take the tokens 177 to 187, the bytes 0xF5 to 0xFF, as unused."""
    found = undertrained.never_in_texts(vocabulary_of_bytes())
    assert len(vocabulary_of_bytes()) == 256
    assert found.tolist() == [124, 125, *range(177, 188)]
    for byte in undertrained.NEVER_IN_UTF8:
        with pytest.raises(UnicodeDecodeError):
            bytes([byte]).decode()
        assert not any(byte in chr(code).encode() for code in (0, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF))


def test_a_vocabulary_without_such_bytes_has_no_known_tokens():
    assert undertrained.never_in_texts({"the": 0, "a": 1}).tolist() == []


def test_indicators_are_their_definitions():
    generator = np.random.default_rng(0)
    table, output = generator.normal(size=(40, 5)), generator.normal(size=(40, 5)) + np.array([3, 0, 0, 0, 1])
    known = np.array([4, 7, 9])
    found = undertrained.indicators(table, output, known)
    np.testing.assert_allclose(found["input_norm"], np.sqrt((table**2).sum(axis=1)))
    mean = output[known].mean(axis=0, keepdims=True)
    np.testing.assert_allclose(found["output_distance"], cdist(output, mean)[:, 0])
    np.testing.assert_allclose(found["output_cosine"], cdist(output, mean, "cosine")[:, 0])
    centre = output.mean(axis=0)
    np.testing.assert_allclose(found["output_centred"], cdist(output - centre, mean - centre, "cosine")[:, 0])
    # Without the first principal direction, nothing lies along the direction of largest variance.
    _, _, directions = np.linalg.svd(output - centre)
    rest = np.eye(5) - np.outer(directions[0], directions[0])
    np.testing.assert_allclose(found["output_without_first"], cdist(output @ rest, mean @ rest, "cosine")[:, 0])


def test_tokens_that_were_pushed_together_are_found_and_a_random_table_finds_none():
    generator = np.random.default_rng(0)
    unseen = np.arange(400) < 40
    known = np.arange(5)
    output = generator.normal(size=(400, 16))
    asked = np.arange(400) >= 5
    apart = undertrained.indicators(output, output, known)
    for name in ("output_cosine", "output_centred", "output_distance"):
        auc, chance = undertrained.marks(apart[name][asked], unseen[asked])["auc"]
        assert chance == 0.5 and auc == pytest.approx(0.5, abs=0.15)
    output[unseen] += 4 * generator.normal(size=16)
    found = undertrained.indicators(output, output, known)["output_centred"]
    assert undertrained.marks(found[asked], unseen[asked])["auc"][0] > 0.99


def test_marks_are_shares_of_pairs_and_their_chance():
    indicator, unseen = np.array([1.0, 2, 2, 3, 4]), np.array([True, False, True, True, False])
    pairs = [(indicator[i], indicator[j]) for i in (0, 2, 3) for j in (1, 4)]
    won = np.mean([1.0 if a < b else 0.5 if a == b else 0 for a, b in pairs])
    marks = undertrained.marks(indicator, unseen)
    assert marks["auc"] == (pytest.approx(won), 0.5)
    # Precisions where each unseen token is found: 1 of 1, 2 of 3 (a tie), 3 of 4.
    assert marks["average_precision"] == (pytest.approx((1 + 2 / 3 + 3 / 4) / 3), pytest.approx(0.6))


def test_cosines_do_not_depend_on_scale():
    rows = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
    plain, tiny = (undertrained.indicators(some, some, np.array([3, 5])) for some in (rows, np.ldexp(rows, -120)))
    for name in (undertrained.OUTPUT_COSINE, undertrained.OUTPUT_CENTRED, undertrained.OUTPUT_WITHOUT_FIRST):
        np.testing.assert_allclose(plain[name], tiny[name], atol=1e-6)
