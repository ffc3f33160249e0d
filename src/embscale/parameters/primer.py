"""Parameters of the primer: what embeddings and positions are, shown on small examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from embscale.parameters.kinds import Count, Natural, Naturals, Seed, Seeds, Text, Texts


@dataclass(frozen=True)
class Lookup:
    """From a text to its vectors."""

    text: Annotated[Text, "to look up"]
    columns: Annotated[Count, "of each vector that are shown"]
    neighbours: Annotated[Natural, "nearest tokens of each"]


@dataclass(frozen=True)
class Gradient:
    """Which rows of a table a text trains."""

    text: Annotated[Text, "to predict, token by token"]


@dataclass(frozen=True)
class Space:
    """Words as points."""

    words: Annotated[Texts, "to show; those of several tokens are left out"]


@dataclass(frozen=True)
class Offset:
    """Words moved by their positions."""

    words: Annotated[Texts, "to move; those of several tokens are left out"]
    places: Annotated[Naturals, "positions that they are moved to"]


@dataclass(frozen=True)
class Order:
    """Texts of the same tokens in another order, through layers of attention with random weights."""

    texts: Annotated[Texts, "of the same tokens"]
    layers: Annotated[Count, "of attention"]
    seed: Annotated[Seed, "of their weights"]


@dataclass(frozen=True)
class Sinusoidal:
    """Sinusoidal positions."""

    places: Annotated[Count, "positions"]
    width: Annotated[Count, "columns"]


@dataclass(frozen=True)
class Rotary:
    """Rotary positions."""

    width: Annotated[Count, "columns of the two vectors"]
    base: Annotated[float, {"exclusiveMinimum": 1}, "of the frequencies"]
    first_places: Annotated[Naturals, "where the first of the two vectors stands"]
    distances: Annotated[Count, "largest distance of the second"]
    pair: Annotated[Natural, "of columns that is shown turning"]
    seed: Annotated[Seed, "of the two vectors"]


@dataclass(frozen=True)
class Biases:
    """Biases by distance, of ALiBi and of T5."""

    heads: Annotated[Count, "of attention"]
    places: Annotated[Count, "positions"]
    buckets: Annotated[Count, "of distances, in T5"]
    max_distance: Annotated[Count, "from which on T5 knows no difference"]


@dataclass(frozen=True)
class Primer:
    """What embeddings are, shown on the widest table of the ladder."""

    lookup: Lookup
    gradient: Gradient
    order: Order
    space: Space
    offset: Offset
    sinusoidal: Sinusoidal
    rotary: Rotary
    biases: Biases


@dataclass(frozen=True)
class PositionSeeds:
    """What learned positions are compared with."""

    seeds: Annotated[Seeds, "of the random tables that learned positions are compared with"]


@dataclass(frozen=True)
class PositionRows(PositionSeeds):
    """What is measured of a model's positions."""

    places: Annotated[Count, "distances that are reported of schemes without a table"]


@dataclass(frozen=True)
class Positions(PositionRows):
    """How published checkpoints distinguish positions."""

    learned_width: Annotated[Count, "of one more model of the ladder, with learned positions"]
