"""The numbers that the primer's text quotes, all computed from the rows of its figures and tables."""

from __future__ import annotations

from typing import Any, get_args

import pandas as pd

from embscale.primer.positions import Scheme
from embscale.primer.sizes import EXAMPLE, millions, percent

Variables = dict[str, Any]


def primer_numbers(
    *, lookup: pd.DataFrame, gradient: pd.DataFrame, space: pd.DataFrame, order: pd.DataFrame, sizes: pd.DataFrame
) -> Variables:
    """What the text says, in words and rounded.

    Args:
        lookup: from `embscale.primer.lookup.lookup_rows`.
        gradient: from `embscale.primer.gradients.gradient_rows`.
        space: from `embscale.primer.space.space_rows`.
        order: from `embscale.primer.order.order_rows`.
        sizes: from `embscale.primer.sizes.size_rows`.
    """
    return {
        **_lookup(lookup),
        **_gradient(gradient),
        **_space(space),
        **_order(order),
        **_sizes(sizes),
    }


def _lookup(rows: pd.DataFrame) -> Variables:
    vectors = rows[rows["matrix"] == "vectors"].drop_duplicates("place").sort_values("place")
    table_rows, dims, tokens = int(rows["rows"].iloc[0]), int(rows["dims"].iloc[0]), len(vectors)
    return {
        "text": rows["text"].iloc[0],
        "tokens": tokens,
        "ids": ", ".join(str(number) for number in vectors["id"]),
        "rows": f"{table_rows:,}",
        "dims": dims,
        "products": f"{tokens * table_rows * dims:,}",
        "copies": f"{tokens * dims:,}",
    }


def _gradient(rows: pd.DataFrame) -> Variables:
    return {
        "taught_in": int((rows["by_input"] > 0).sum()),
        "taught_out": f"{(rows['by_output'] > 0).sum():,}",
        "gradient_rows": f"{len(rows):,}",
    }


def _space(rows: pd.DataFrame) -> Variables:
    placed = rows.dropna(subset="id")
    closest = placed.loc[placed["cosine"].idxmax()]
    return {
        "words": len(placed),
        "words_missing": len(rows) - len(placed),
        "space_share": f"{(rows['explained1'].iloc[0] + rows['explained2'].iloc[0]) * 100:.0f} %",
        "closest": f"{closest['word']} and {closest['nearest']}",
        "closest_cosine": f"{closest['cosine']:.2f}",
    }


def _order(rows: pd.DataFrame) -> Variables:
    """Differences in percent: of the mean and the last token's vector, without and with a mask and positions."""
    value = rows.set_index(["mask", "positions", "vector", "layers"])["value"]
    deepest = int(rows["layers"].max())
    cases = {
        "blind": ("none", "none", "pooled", deepest),
        "causal": ("causal", "none", "pooled", deepest),
        "causal_last_first": ("causal", "none", "last", 1),
        "causal_last": ("causal", "none", "last", deepest),
        "placed": ("none", "sinusoidal", "pooled", deepest),
        "placed_mean": ("none", "sinusoidal", "pooled", 0),
    }
    return {
        "orders": int(rows["n"].iloc[0]) + 1,
        "layers": deepest,
        **{f"order_{name}": f"{value[case] * 100:.0f} %" for name, case in cases.items()},
    }


def _sizes(rows: pd.DataFrame) -> Variables:
    examples = rows[rows["suite"] == EXAMPLE].set_index("model")
    registry = rows[rows["suite"] != EXAMPLE]
    known = registry.dropna(subset="share")
    largest, smallest = known.loc[known["share"].idxmax()], known.loc[known["share"].idxmin()]
    gpt3 = examples.loc["GPT-3"]
    return {
        "round_size": millions(examples["table"]["a round example"]),
        "gpt3_shape": f"{int(gpt3['rows']):,} × {int(gpt3['dims']):,}",
        "gpt3_size": millions(gpt3["table"]),
        "gpt3_share": percent(gpt3["share"]),
        "resnet_size": millions(examples["parameters"]["ResNet-50"]),
        **{f"models_{scheme}": int((registry["positions"] == scheme).sum()) for scheme in get_args(Scheme)},
        "models": len(registry),
        "models_known": len(known),
        "largest_share": percent(largest["share"]),
        "largest_model": largest["model"],
        "smallest_share": percent(smallest["share"]),
        "smallest_model": smallest["model"],
    }
