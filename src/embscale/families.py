"""Where each family of language models keeps its parts: input table, blocks, final norm.

The one place that knows names of modules and of tensors.  To add a family, add its ``model_type``
(the word in ``config.json``) to `FAMILIES`; the tests then build a tiny model of it and check it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from embscale.errors import EmbscaleError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Family:
    """Names of a family's parts; modules as dotted paths below the model without its output head.

    Attributes:
        embedding: the input table's module.
        blocks: the list of blocks.
        final_norm: the norm after the last block.
        input_tables: endings of the tensor names that the input table has in checkpoints, best first.
        output_tables: the same for the output table; a tied checkpoint has none of them.
        model_class: class of `transformers` that loads the part with the blocks.
    """

    embedding: str
    blocks: str
    final_norm: str
    input_tables: tuple[str, ...]
    output_tables: tuple[str, ...] = ("lm_head.weight",)
    model_class: str = "AutoModel"


GPT_NEOX = Family("embed_in", "layers", "final_layer_norm", ("embed_in.weight",), ("embed_out.weight",))
GPT2 = Family("wte", "h", "ln_f", ("wte.weight",))
LLAMA = Family("embed_tokens", "layers", "norm", ("embed_tokens.weight",))
OPT = Family("decoder.embed_tokens", "decoder.layers", "decoder.final_layer_norm", ("decoder.embed_tokens.weight",))
BLOOM = Family("word_embeddings", "h", "ln_f", ("word_embeddings.weight",))
# Only the encoder is studied.  A converted file keeps one of the three names of its shared table.
T5 = Family(
    "encoder.embed_tokens",
    "encoder.block",
    "encoder.final_layer_norm",
    ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
    model_class="T5EncoderModel",
)

FAMILIES = {
    "bloom": BLOOM,
    "gemma": LLAMA,
    "gemma2": LLAMA,
    "gemma3_text": LLAMA,
    "gpt2": GPT2,
    "gpt_neox": GPT_NEOX,
    "llama": LLAMA,
    "mistral": LLAMA,
    "olmo2": LLAMA,
    "opt": OPT,
    "qwen2": LLAMA,
    "qwen3": LLAMA,
    "t5": T5,
}


@dataclass(frozen=True)
class Anatomy:
    """The parts of a model in memory.

    Attributes:
        embedding: the input table, ``embedding.weight`` being ``[rows, dims]`` as stored.
        blocks: the blocks in the order in which they run.
        final_norm: the norm after the last block; None where a checkpoint has none (opt-350m).
    """

    embedding: torch.nn.Embedding
    blocks: Sequence[torch.nn.Module]
    final_norm: torch.nn.Module | None


def family(model_type: str) -> Family:
    """The family of a ``model_type``.

    Raises:
        EmbscaleError: it is not known here.
    """
    if model_type not in FAMILIES:
        raise EmbscaleError(
            f"model_type {model_type!r}: unknown family; known are {', '.join(sorted(FAMILIES))}; "
            "add the names of its parts to FAMILIES in embscale/families.py"
        )
    return FAMILIES[model_type]


def anatomy(model: PreTrainedModel) -> Anatomy:
    """Input table, blocks and final norm of a model, with or without an output head.

    Raises:
        EmbscaleError: the model's family is not known.
    """
    names = family(model.config.model_type)
    part = {
        name: operator.attrgetter(name)(model.base_model) for name in (names.embedding, names.blocks, names.final_norm)
    }
    return Anatomy(part[names.embedding], list(part[names.blocks]), part[names.final_norm])


def input_table_names(model_type: str) -> tuple[str, ...]:
    """Endings of the input table's tensor name in a checkpoint, best first.

    A tensor matches an ending if its name is the ending, or ends with a dot and the ending.
    """
    return family(model_type).input_tables


def output_table_names(model_type: str) -> tuple[str, ...]:
    """Endings of the output table's tensor name, to be matched likewise; tied checkpoints hold none."""
    return family(model_type).output_tables
