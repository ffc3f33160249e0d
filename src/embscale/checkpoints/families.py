"""Module and tensor names of each family of language models, and what happens to a row before block 1.

This is the only module with names of modules and tensors.  To add a family, add its ``model_type`` (from
``config.json``) to `FAMILIES`; the tests then build a tiny model of it and check it.
Tensor names are suffixes: a tensor matches if its name is the suffix, or ends with a dot and the suffix.  Preferred
suffixes come first.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from embscale.errors import EmbscaleError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


# Families whose blocks do not predict the next token.
ENCODERS = ("bert", "t5")


@dataclass(frozen=True)
class Positions:
    """Learned position vectors, one for each position in a text, that are added to the rows.

    Attributes:
        table: endings of the tensor's name; its shape is ``[offset + positions, width]``.
        offset: number of rows before that of the first token.
    """

    table: tuple[str, ...]
    offset: int = 0


@dataclass(frozen=True)
class Norm:
    """A LayerNorm over each row.

    Attributes:
        weight: endings of the tensor's name; its shape is ``[width]``.
        bias: the same.
        epsilon_key: key in ``config.json`` of the number added to the variance.
        epsilon: its default if ``config.json`` lacks the key.
    """

    weight: tuple[str, ...]
    bias: tuple[str, ...]
    epsilon_key: str
    epsilon: float


@dataclass(frozen=True)
class Family:
    """Names of a family's parts; module paths are relative to the model without its output head.

    The last five attributes describe what happens to a row of the input table before block 1, in order;
    `embscale.tables.effective` applies it.

    Attributes:
        embedding: the input table's module.
        blocks: the list of blocks.
        final_norm: the norm after the last block; None if each block ends with its own.
        input_tables: endings of the names that the input table has in checkpoints.
        output_tables: the same for the output table; a tied checkpoint has none, or a copy of the input table.
        model_class: class of `transformers` that loads the part with the blocks.
        projection: endings of the name of the matrix ``[width, dims]`` that projects rows to the width of the blocks,
            in checkpoints whose table is narrower.
        root_scale: rows are multiplied by the square root of their width.
        token_types: endings of the name of a table whose first row is added to every row: a single text is all of the
            first type.
        positions: learned positions.  Rotary, relative and ALiBi positions act inside the blocks.
        norm: the norm before block 1.
    """

    embedding: str
    blocks: str
    final_norm: str | None
    input_tables: tuple[str, ...]
    output_tables: tuple[str, ...] = ("lm_head.weight",)
    model_class: str = "AutoModel"
    projection: tuple[str, ...] = ()
    root_scale: bool = False
    token_types: tuple[str, ...] = ()
    positions: Positions | None = None
    norm: Norm | None = None


# In memory the library calls the output table lm_head, but reads and writes it under this name.
GPT_NEOX = Family("embed_in", "layers", "final_layer_norm", ("embed_in.weight",), ("embed_out.weight",))
GPT2 = Family("wte", "h", "ln_f", ("wte.weight",), positions=Positions(("wpe.weight",)))
LLAMA = Family("embed_tokens", "layers", "norm", ("embed_tokens.weight",))
GEMMA = replace(LLAMA, root_scale=True)
# Gemma 3 from 4b on: the language model is one part among others.
GEMMA3 = replace(
    GEMMA,
    embedding="language_model.embed_tokens",
    blocks="language_model.layers",
    final_norm="language_model.norm",
)
OPT = Family(
    "decoder.embed_tokens",
    "decoder.layers",
    "decoder.final_layer_norm",
    ("decoder.embed_tokens.weight",),
    projection=("decoder.project_in.weight",),
    positions=Positions(("decoder.embed_positions.weight",), offset=2),
)
BLOOM = Family(
    "word_embeddings",
    "h",
    "ln_f",
    ("word_embeddings.weight",),
    norm=Norm(("word_embeddings_layernorm.weight",), ("word_embeddings_layernorm.bias",), "layer_norm_epsilon", 1e-5),
)
# The oldest checkpoints call the parts of a LayerNorm gamma and beta.
BERT = Family(
    "embeddings.word_embeddings",
    "encoder.layer",
    None,
    ("word_embeddings.weight",),
    ("cls.predictions.decoder.weight",),
    token_types=("token_type_embeddings.weight",),
    positions=Positions(("position_embeddings.weight",)),
    norm=Norm(
        ("embeddings.LayerNorm.weight", "embeddings.LayerNorm.gamma"),
        ("embeddings.LayerNorm.bias", "embeddings.LayerNorm.beta"),
        "layer_norm_eps",
        1e-12,
    ),
)
# Only the encoder is studied.  A converted file has one of three names for its shared table.  If the table is also the
# output table, T5 divides by the square root of the width at the output only.
T5 = Family(
    "encoder.embed_tokens",
    "encoder.block",
    "encoder.final_layer_norm",
    ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
    model_class="T5EncoderModel",
)

FAMILIES = {
    "bert": BERT,
    "bloom": BLOOM,
    "gemma": GEMMA,
    "gemma2": GEMMA,
    "gemma3": GEMMA3,
    "gemma3_text": GEMMA,
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
        final_norm: the norm after the last block; None where there is none (BERT, opt-350m).
        width: of the blocks' inputs and outputs; opt-350m's rows are narrower.
        changes_rows: whether block 1 receives anything but the stored rows.
    """

    embedding: torch.nn.Embedding
    blocks: Sequence[torch.nn.Module]
    final_norm: torch.nn.Module | None
    width: int
    changes_rows: bool


def family(model_type: str) -> Family:
    """The family of a ``model_type``.

    Raises:
        EmbscaleError: it is not known here.
    """
    if model_type not in FAMILIES:
        raise EmbscaleError(
            f"model_type {model_type!r}: unknown family; known are {', '.join(sorted(FAMILIES))}; "
            "add the names of its parts to FAMILIES in embscale/checkpoints/families.py"
        )
    return FAMILIES[model_type]


def anatomy(model: PreTrainedModel) -> Anatomy:
    """Input table, blocks and final norm of a model, with or without an output head.

    Raises:
        EmbscaleError: the model's family is not known.
    """
    facts = family(model.config.model_type)
    embedding, blocks = operator.attrgetter(facts.embedding, facts.blocks)(model.base_model)
    final_norm = operator.attrgetter(facts.final_norm)(model.base_model) if facts.final_norm else None
    width = model.config.get_text_config().hidden_size
    changes = (facts.root_scale, facts.token_types, facts.positions, facts.norm, embedding.embedding_dim != width)
    return Anatomy(embedding, list(blocks), final_norm, width, any(changes))


def input_table_names(model_type: str) -> tuple[str, ...]:
    """Endings of the input table's name in a checkpoint, best first."""
    return family(model_type).input_tables


def output_table_names(model_type: str) -> tuple[str, ...]:
    """Endings of the output table's name; a tied checkpoint holds none, or the input table again."""
    return family(model_type).output_tables
