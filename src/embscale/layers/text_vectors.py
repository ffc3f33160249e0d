"""Vectors of whole texts at every layer: the mean over a text's tokens of their hidden states.

The first layer is the table itself, so its vectors are those that tables are scored with
(`embscale.scoring.retrieval`), and the other layers are scored on the same tokens.  Every token counts, the first one
too, whose state is abnormally large in many models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from embscale.checkpoints.families import anatomy, family
from embscale.errors import EmbscaleError
from embscale.layers.names import EMBEDDING
from embscale.layers.running import batches, layer_widths, not_finite, recording
from embscale.progress import progress
from embscale.texts.tokens import TokenisedTexts

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def distinct(*groups: TokenisedTexts) -> tuple[TokenisedTexts, list[np.ndarray]]:
    """The texts of several groups without repetitions.

    Returns:
        The texts in the order in which they first occur, and for each group the number of each of its texts.
    """
    numbers: dict[bytes, int] = {}
    places = [
        np.array([numbers.setdefault(group[text].tobytes(), len(numbers)) for text in range(len(group))], np.int64)
        for group in groups
    ]
    ids = [np.frombuffer(text, np.int32) for text in numbers]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in ids], dtype=np.int64)])
    return TokenisedTexts(np.concatenate([*ids, np.empty(0, np.int32)]), offsets), places


def mean_states(model: PreTrainedModel, texts: TokenisedTexts, *, batch: int) -> dict[str, np.ndarray]:
    """The mean hidden state of each text at each layer.

    Args:
        model: from `embscale.layers.running.load_model`.
        texts: their tokens.  No padding is added: texts of one length run together.
        batch: texts in one forward pass; of no influence on the result beyond rounding.

    Returns:
        float32 ``[texts, width]`` by layer, in the order in which a token passes them: the table, what block 1 receives
        if that is not the row, the output of each block, and of the final norm if there is one.  Means are taken in
        float64.  A text without tokens has the zero vector.

    Raises:
        EmbscaleError: the texts are of another tokenizer or too long for the model, or a state is not finite.
    """
    import torch

    parts, lengths = anatomy(model), texts.lengths
    _check_fit(model, parts.embedding.weight.shape[0], texts)
    means = {layer: np.zeros((len(texts), width), np.float32) for layer, width in layer_widths(parts).items()}
    groups = [group for group in batches(lengths, batch) if lengths[group[0]]]
    tell = progress("texts", len(groups))
    with torch.inference_mode(), recording(parts) as outputs:
        for number, group in enumerate(groups, 1):
            ids = np.stack([texts[text] for text in group]).astype(np.int64)
            on_device = torch.from_numpy(ids).to(parts.embedding.weight.device)
            model(input_ids=on_device)
            outputs[EMBEDDING] = parts.embedding.weight[on_device]
            for layer, found in means.items():
                states = outputs.pop(layer)
                if (text := not_finite(states)) is not None:
                    raise EmbscaleError(
                        f"{layer}: a value is not finite in a text of {ids.shape[1]} tokens, number {group[text]}; is "
                        "the checkpoint whole, and the precision wide enough?"
                    )
                found[group] = states.double().mean(dim=1).float().cpu().numpy()
            tell(number, "batches")
    return means


def beyond_context(model: PreTrainedModel, texts: TokenisedTexts) -> int:
    """How many texts have more tokens than the model was made for."""
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return 0 if limit is None else int((texts.lengths > limit).sum())


def _check_fit(model: PreTrainedModel, rows: int, texts: TokenisedTexts) -> None:
    name = model.config.model_type
    if (largest := int(texts.ids.max(initial=-1))) >= rows:
        raise EmbscaleError(f"{name}: token {largest} is beyond the table's {rows} rows; this is another tokenizer")
    # Positions that are rotated or relative have no end; of a table of positions there is a last one.
    if family(name).positions and (beyond := beyond_context(model, texts)):
        limit = model.config.get_text_config().max_position_embeddings
        raise EmbscaleError(
            f"{name}: {beyond} texts have more than the {limit} tokens that the model has positions for, the longest "
            f"{texts.lengths.max()}; give a smaller --length, or tokens made with a smaller --max-length"
        )
