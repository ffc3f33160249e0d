"""How a model represents positions: tables of learned positions, rotary angles, attention biases.

Learned positions are a table of their own, added to the rows (GPT-2, OPT, BERT).  The other schemes act inside the
blocks and follow from ``config.json``, except for T5's learned biases.  They depend only on the distance between two
positions; a learned table has to learn that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.linalg

from embscale.checkpoints.families import Positions, family
from embscale.errors import EmbscaleError
from embscale.primer.biases import alibi_bias, relative_bucket
from embscale.primer.sinusoidal import frequencies, sinusoidal
from embscale.statistics import spectra
from embscale.tables.effective import Read, effective_table
from embscale.texts.tokens import TokenisedTexts

Scheme = Literal["learned", "rotary", "alibi", "relative"]

# The reported range contains this share of the pairs of positions at one distance.
SPREAD = 0.95

# The slowest sines of a table are nearly straight lines, so nearly equal.  Directions whose singular value is below
# this fraction of the largest are dropped, since rounding would determine them.
NEGLIGIBLE = 1e-6

COLUMNS = ("scheme", "kind", "statistic", "part", "index", "value", "low", "high", "n")

# T5's first encoder block keeps the biases that all of its blocks use, ``[buckets, heads]``.
RELATIVE_BIAS = ("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",)


def scheme(config: Mapping[str, Any]) -> Scheme:
    """The position scheme of a model, from its ``config.json``.

    Raises:
        EmbscaleError: the family is unknown, or its position scheme is.
    """
    if family(config["model_type"]).positions:
        return "learned"
    match config["model_type"]:
        case "bloom":
            return "alibi"
        case "t5":
            return "relative"
    if hasattr(_library_config(config), "rope_parameters"):
        return "rotary"
    raise EmbscaleError(f"model_type {config['model_type']!r}: no scheme of positions is known for it")


def needed_tensor(config: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Endings of the name of the tensor that `position_rows` reads; None if ``config.json`` suffices.

    Raises:
        EmbscaleError: as `scheme`.
    """
    match scheme(config):
        case "learned":
            return _facts(config).table
        case "relative":
            return RELATIVE_BIAS
    return None


def position_rows(config: Mapping[str, Any], read: Read, *, places: int, seeds: Sequence[int]) -> pd.DataFrame:
    """Rows on a checkpoint's positions: `table_rows` if they are learned, otherwise their effect.

    Args:
        config: ``config.json``.
        read: reads the checkpoint's tensors.
        places: number of distances to report for schemes without a table.
        seeds: of the random tables beside a learned one.

    Returns:
        Tidy rows with `COLUMNS`.

    Raises:
        EmbscaleError: the family's scheme is not known, or a tensor is missing.
    """
    match scheme(config):
        case "learned":
            return table_rows(learned(read, _facts(config)), seeds=seeds)
        case "rotary":
            return rotary_rows(config, places=places)
        case "alibi":
            bias = alibi_bias(_library_config(config).num_attention_heads, places)
            return _bias_rows("alibi", bias, -np.arange(places))
        case "relative":
            return relative_rows(config, read, places=places)


def _facts(config: Mapping[str, Any]) -> Positions:
    facts = family(config["model_type"]).positions
    assert facts is not None
    return facts


# Learned tables


def learned(read: Read, facts: Positions) -> np.ndarray:
    """The position vectors in order, float64 ``[places, width]``.

    Raises:
        EmbscaleError: the checkpoint has no such table, or no row beyond those that come before the first place.
    """
    table = read(facts.table)
    if table is None or table.ndim != 2 or len(table) <= facts.offset:
        shape = "nothing" if table is None else " × ".join(map(str, table.shape))
        raise EmbscaleError(
            f"{' or '.join(facts.table)}: expected a matrix of more than {facts.offset} rows, found {shape}; is the "
            "checkpoint whole?"
        )
    return table[facts.offset :].astype(np.float64)


def table_rows(vectors: np.ndarray, *, seeds: Sequence[int]) -> pd.DataFrame:
    """Statistics of a table of positions, of a sinusoidal one, and of random ones of the same shape and scale.

    Args:
        vectors: ``[places, width]``.
        seeds: of the random tables, whose values are normal.

    Returns:
        Tidy rows with `COLUMNS`.  ``kind`` is table, sinusoidal or random.  For random tables, ``value`` is the mean
        over seeds, ``low`` and ``high`` are the lowest and highest, ``n`` is their number.

    Raises:
        EmbscaleError: fewer than three places, or an odd width.
    """
    places, width = vectors.shape
    if places < 3:
        raise EmbscaleError(f"a table of {places} positions: expected three at least")
    scale = np.sqrt(np.square(vectors).mean())
    frames = [
        statistics(vectors).assign(kind="table"),
        statistics(np.sqrt(2) * scale * sinusoidal(places, width)).assign(kind="sinusoidal"),
    ]
    if seeds:
        drawn = [statistics(scale * np.random.default_rng(seed).standard_normal(vectors.shape)) for seed in seeds]
        random = drawn[0].copy()
        values = np.stack([rows["value"].to_numpy() for rows in drawn])
        random["value"], random["low"], random["high"] = values.mean(axis=0), values.min(axis=0), values.max(axis=0)
        frames.append(random.assign(n=len(seeds), kind="random"))
    return pd.concat(frames, ignore_index=True).assign(scheme="learned", part="all")[list(COLUMNS)]


def statistics(vectors: np.ndarray) -> pd.DataFrame:
    """Statistics of a table of positions.

    - ``norm`` of the vector at each place;
    - ``similarity``, the mean cosine of places at each distance, and ``similarity_centred``, the same of vectors less
      their mean, with the range that `SPREAD` of the pairs lie in and their number as ``n``;
    - ``variance``, the share of each principal component, and ``participation_ratio``, how many components of equal
      shares would be as concentrated: ``1 / sum(share ** 2)``;
    - ``sinusoidal_share``, the share of variance within the span of the sinusoidal table of ``index`` columns, whose
      dimension (after centring) is ``n``.  Random vectors have ``n / (places - 1)`` of it there.

    Args:
        vectors: ``[places, width]``.

    Returns:
        ``statistic``, ``index`` (place, distance, component or columns), ``value``, ``low``, ``high``, ``n``; NaN for
        cosines of vectors of length 0 and for shares of no variance.
    """
    places, width = vectors.shape
    centred = vectors - vectors.mean(axis=0)
    frames = [_frame("norm", np.arange(places), np.linalg.norm(vectors, axis=1), n=1)]
    for name, chosen in (("similarity", vectors), ("similarity_centred", centred)):
        frames.append(_similarity(chosen).assign(statistic=name))
    total = np.square(centred).sum()
    shares = np.square(np.linalg.svd(centred, compute_uv=False)) / (total if total > 0 else np.nan)
    shares = np.where(shares < NEGLIGIBLE**2, 0, shares)
    frames.append(_frame("variance", np.arange(1, len(shares) + 1), shares, n=places))
    frames.append(_frame("participation_ratio", [0], spectra.participation_ratio(shares)[None], n=places))
    columns = sorted({width, *(2**power for power in range(1, width.bit_length()))})
    spans = [_span(places, count) for count in columns]
    explained = [np.square(span.T @ centred).sum() / (total if total > 0 else np.nan) for span in spans]
    frames.append(_frame("sinusoidal_share", columns, explained, n=[span.shape[1] for span in spans]))
    return pd.concat(frames, ignore_index=True)


def _similarity(vectors: np.ndarray) -> pd.DataFrame:
    """Mean and spread of cosines by distance."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, np.nan)
    cosines = unit @ unit.T
    tail = (1 - SPREAD) / 2
    found = []
    for distance in range(len(vectors)):
        pairs = np.diagonal(cosines, distance)
        pairs = pairs[~np.isnan(pairs)]
        spread = np.quantile(pairs, [tail, 1 - tail]) if len(pairs) else (np.nan, np.nan)
        found.append((distance, pairs.mean() if len(pairs) else np.nan, *spread, len(pairs)))
    return pd.DataFrame(found, columns=["index", "value", "low", "high", "n"])


def _span(places: int, columns: int) -> np.ndarray:
    """An orthonormal basis of the span of the centred sinusoidal table, ``[places, dimension]``."""
    table = sinusoidal(places, columns)
    return scipy.linalg.orth(table - table.mean(axis=0), rcond=NEGLIGIBLE)


# Schemes without a table


def rotary_rows(config: Mapping[str, Any], *, places: int) -> pd.DataFrame:
    """The angles of rotary positions, and the similarity of equal vectors by distance.

    Returns:
        Tidy rows with `COLUMNS`; ``part`` is the kind of layers, where these differ (Gemma 3), else all.
        ``angle`` is in radians for each place, by pair of columns; ``similarity`` is the cosine of a vector that has
        equal shares in all columns with itself, so many places apart: the mean over columns of ``cos(distance angle)``,
        1 for columns that are not turned.
    """
    library = _library_config(config)
    head = getattr(library, "head_dim", None) or library.hidden_size // library.num_attention_heads
    frames = []
    for part, angles in _angles(library, head):
        apart = np.arange(places)
        turned = 2 * np.cos(apart[:, None] * angles).sum(axis=1)
        frames.append(_frame("angle", np.arange(len(angles)), angles, n=1).assign(part=part))
        similarity = (turned + head - 2 * len(angles)) / head
        frames.append(_frame("similarity", apart, similarity, n=1).assign(part=part))
    return pd.concat(frames, ignore_index=True).assign(scheme="rotary", kind="formula")[list(COLUMNS)]


def _angles(library: Any, head: int) -> Iterator[tuple[str, np.ndarray]]:  # noqa: ANN401 (the library's config)
    """Radians for each place by pair of columns, for each kind of layers."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    by_layers = library.rope_parameters
    if "rope_type" in by_layers:
        by_layers = {"all": by_layers}
    else:
        by_layers = {part: by_layers[part] for part in dict.fromkeys(library.layer_types)}
    for part, parameters in by_layers.items():
        kind = parameters["rope_type"]
        if kind == "default":
            turned = int(head * parameters.get("partial_rotary_factor", 1.0))
            yield part, frequencies(turned, parameters["rope_theta"])
        else:  # frequencies changed for contexts longer than in training, in many ways: the library's own
            angles, _ = ROPE_INIT_FUNCTIONS[kind](library, "cpu", layer_type=None if part == "all" else part)
            yield part, angles.double().numpy()


def relative_rows(config: Mapping[str, Any], read: Read, *, places: int) -> pd.DataFrame:
    """T5's learned biases, by position of the key minus that of the query.

    Raises:
        EmbscaleError: the checkpoint has no such tensor, or one of another shape.
    """
    library = _library_config(config)
    buckets = library.relative_attention_num_buckets
    learned_biases = read(RELATIVE_BIAS)
    if learned_biases is None or learned_biases.shape != (buckets, library.num_heads):
        shape = "nothing" if learned_biases is None else " × ".join(map(str, learned_biases.shape))
        raise EmbscaleError(
            f"{RELATIVE_BIAS[0]}: expected {buckets} × {library.num_heads}, found {shape}; is the checkpoint whole?"
        )
    apart = np.arange(1 - places, places)
    bucket = relative_bucket(
        apart, buckets=buckets, max_distance=library.relative_attention_max_distance, bidirectional=True
    )
    return _bias_rows("relative", learned_biases[bucket].T.astype(np.float64), apart)


def _bias_rows(name: Scheme, bias: np.ndarray, apart: np.ndarray) -> pd.DataFrame:
    """Tidy rows of biases ``[heads, distances]``; ``part`` is the head."""
    frames = [_frame("bias", apart, values, n=1).assign(part=str(head)) for head, values in enumerate(bias)]
    return pd.concat(frames, ignore_index=True).assign(scheme=name, kind="formula")[list(COLUMNS)]


def _frame(
    statistic: str, index: np.ndarray | Sequence[int], value: np.ndarray | Sequence[float], *, n: int | Sequence[int]
) -> pd.DataFrame:
    return pd.DataFrame({"statistic": statistic, "index": index, "value": value, "low": np.nan, "high": np.nan, "n": n})


def _library_config(config: Mapping[str, Any]) -> Any:  # noqa: ANN401 (a class for each family)
    """The library's own reading of ``config.json``, which knows old names and defaults; of the text part alone."""
    from transformers import AutoConfig

    settings = dict(config)
    return AutoConfig.for_model(settings.pop("model_type"), **settings).get_text_config()


# Positions in retrieval


def table_with_positions(config: Mapping[str, Any], table: np.ndarray, read: Read) -> np.ndarray:
    """The rows as block 1 receives them, without positions, followed by the position vectors.

    Args:
        config: ``config.json``.
        table: the input table as stored, float32 ``[rows, dims]``.
        read: reads the checkpoint's other tensors.

    Returns:
        float32 ``[rows + places, width]``; the table that the texts of `with_positions` are pooled from.

    Raises:
        EmbscaleError: the family has no learned positions, or a norm after adding them: then the mean of a text is
            not that of its rows plus that of its positions.
    """
    facts = family(config["model_type"])
    if facts.positions is None:
        raise EmbscaleError(f"model_type {config['model_type']!r}: it has no learned positions to add")
    if facts.norm:
        raise EmbscaleError(
            f"model_type {config['model_type']!r}: a norm follows its positions, so they cannot be added to a mean"
        )
    rows, _ = effective_table(table, config, read, "none")
    return np.concatenate([rows, learned(read, facts.positions).astype(np.float32)])


def with_positions(texts: TokenisedTexts, rows: int, places: int) -> TokenisedTexts:
    """The same texts with the position of each token as an additional token: row ``rows + t`` for position t.

    The mean over tokens of row plus position is the mean of the rows plus the mean of the text's positions.  Pooled
    from a table with the position vectors appended, these texts get half of it, which has the same cosines.  So the
    position part depends only on the text's length, not on the order of its tokens.

    Args:
        texts: token ids below `rows`.
        rows: of the table without positions.
        places: how many positions there are.

    Raises:
        EmbscaleError: a text is longer than that, or has a token without a row.
    """
    if texts.ids.max(initial=0) >= rows:
        raise EmbscaleError(f"a text has the token {texts.ids.max()}: the table has {rows} rows; tokenize it anew")
    longest = int(texts.lengths.max(initial=0))
    if longest > places:
        raise EmbscaleError(
            f"a text has {longest} tokens, but there are {places} learned positions; tokenize with "
            f"--max-length {places} or less"
        )
    place = np.arange(len(texts.ids)) - np.repeat(texts.offsets[:-1], texts.lengths)
    ids = np.stack([texts.ids, rows + place], axis=1).ravel()
    return TokenisedTexts(ids.astype(np.int32), 2 * texts.offsets)
