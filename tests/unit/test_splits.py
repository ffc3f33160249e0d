"""Splits by hashes of names: their shares, what they do not depend on, and what they keep together."""

import numpy as np
import pytest

from embscale.errors import EmbscaleError
from embscale.statistics.clusters import query_clusters
from embscale.texts import splits

NAMES = [f"name-{i}" for i in range(4000)]


def heldout(names=NAMES, groups=None, packages=None, fraction=0.1, held=(), seed=3):
    found = splits.of_documents(
        names,
        packages or ["p"] * len(names),
        np.arange(len(names)) if groups is None else groups,
        heldout_fraction=fraction,
        heldout_packages=held,
        seed=seed,
    )
    return dict(zip(names, found.tolist(), strict=True))


def test_draws_are_uniform_and_of_different_purposes_independent():
    first, second = (np.array([splits.draw(n, seed=1, purpose=p) for n in NAMES]) for p in ("a", "b"))
    for values in (first, second):
        assert np.all(np.abs(np.histogram(values, 10, (0, 1))[0] - 400) < 4 * np.sqrt(360))
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(len(NAMES))


def test_held_out_share_is_near_the_fraction_and_stable():
    found = heldout()
    assert 320 < list(found.values()).count(splits.HELDOUT) < 480  # four standard deviations
    assert heldout(NAMES[::-1]) == found == heldout(NAMES[:2000]) | heldout(NAMES[2000:])
    assert heldout(seed=4) != found


def test_a_group_is_on_the_side_of_its_first_name():
    alone = heldout()
    order = np.random.default_rng(0).permutation(4000)
    groups = np.empty(4000, int)
    groups[order] = np.arange(4000) // 4
    found = heldout(groups=groups)
    for group in range(1000):
        names = sorted(NAMES[i] for i in np.flatnonzero(groups == group))
        assert {found[name] for name in names} == {alone[names[0]]}


def test_a_held_out_package_takes_its_near_duplicates_along():
    names = ["a", "b", "c", "d", "e"]
    found = heldout(names, np.array([0, 0, 1, 2, 2]), ["p", "q", "p", "q", "q"], fraction=1e-9, held=["q"])
    assert found == {
        "a": "heldout",
        "b": "heldout_package",
        "c": "train",
        "d": "heldout_package",
        "e": "heldout_package",
    }


def test_dev_queries_are_whole_clusters_and_about_their_share():
    qrels = {f"q{i}": {f"d{i // 4}": 1} for i in range(4000)}
    clusters = query_clusters(qrels, seed=1)
    dev = splits.dev_queries(clusters, dev_fraction=0.2, seed=1)
    assert 4 * 150 < len(dev) < 4 * 250
    assert all((f"q{i}" in dev) == (f"q{i - i % 4}" in dev) for i in range(4000))
    assert dev != splits.dev_queries(clusters, dev_fraction=0.2, seed=2)


@pytest.mark.parametrize(("fraction", "taken"), [(1e-9, 0), (1 - 1e-9, 5)])
def test_queries_on_one_side_alone_are_refused(fraction, taken):
    clusters = query_clusters({f"q{i}": {f"d{i}": 1} for i in range(5)}, seed=1)
    with pytest.raises(EmbscaleError, match=rf"^corpus\.dev_fraction: .* of 5 clusters takes {taken} of the 5 queries"):
        splits.dev_queries(clusters, dev_fraction=fraction, seed=1)
