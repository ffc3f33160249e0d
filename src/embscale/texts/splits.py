"""Which texts are for training and which queries choose settings, decided by hashes of names."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

import numpy as np

from embscale.errors import EmbscaleError
from embscale.statistics.clusters import Clusters

TRAIN = "train"
HELDOUT = "heldout"
HELDOUT_PACKAGE = "heldout_package"


def draw(name: str, *, seed: int, purpose: str) -> float:
    """A number from 0 to below 1 that depends on the arguments only, uniform over names.

    So what a name is drawn for does not change when others join or leave the corpus, and draws for different purposes
    are independent of each other.
    """
    digest = hashlib.sha256(f"{purpose} {seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def of_documents(
    names: Sequence[str],
    packages: Sequence[str],
    groups: np.ndarray,
    *,
    heldout_fraction: float,
    heldout_packages: Collection[str],
    seed: int,
) -> np.ndarray:
    """The split of each document: no group is both for training and held out.

    Args:
        names: of the documents.
        packages: that they are from.
        groups: documents of one group are near-duplicates; int ``[documents]``.
        heldout_fraction: groups with a lower draw, by their first name, are held out.
        heldout_packages: all documents of these are held out, and with them the groups that they belong to.
        seed: of the draw.

    Returns:
        `TRAIN`, `HELDOUT` or, for the documents of held-out packages, `HELDOUT_PACKAGE`, ``[documents]``.
    """
    of_package = np.isin(packages, list(heldout_packages))
    first: dict[int, str] = {}
    for place in np.argsort(names):
        first.setdefault(groups[place], names[place])
    drawn = [group for group, name in first.items() if draw(name, seed=seed, purpose="held out") < heldout_fraction]
    heldout = np.isin(groups, drawn) | np.isin(groups, groups[of_package])
    return np.select([of_package, heldout], [HELDOUT_PACKAGE, HELDOUT], TRAIN)


def dev_queries(clusters: Clusters, *, dev_fraction: float, seed: int) -> set[str]:
    """The queries that settings are chosen on, which no score is reported of: whole clusters, by their first query.

    Args:
        clusters: of all queries of a task.
        dev_fraction: clusters with a lower draw are for choosing.
        seed: of the draw.

    Raises:
        EmbscaleError: no query is left on one of the two sides.
    """
    first: dict[int, str] = {}
    for query in sorted(clusters.of):
        first.setdefault(clusters.of[query], query)
    drawn = {c for c, query in first.items() if draw(query, seed=seed, purpose="dev") < dev_fraction}
    chosen = {query for query, cluster in clusters.of.items() if cluster in drawn}
    if not 0 < len(chosen) < len(clusters.of):
        raise EmbscaleError(
            f"corpus.dev_fraction: {dev_fraction:g} of {clusters.count} clusters takes {len(chosen)} of the "
            f"{len(clusters.of)} queries; expected some to choose settings on and some to test: "
            "change it or corpus.seed, or add packages"
        )
    return chosen
