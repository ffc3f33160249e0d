"""The models of a study and what is done with each, from its parameters and the registry alone.

The Snakefile imports this module, so it may only depend on what `embscale.checkpoints.suites` needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from embscale.checkpoints.families import family
from embscale.checkpoints.suites import ITEM_SIZES, Planned
from embscale.parameters import runs as study_runs
from embscale.training import plan
from embscale.training.plan import Training

OWN_FAMILY = "gpt_neox"  # of the ladder
OWN_ITEM = 4  # bytes of a value of the ladder's checkpoints


def grid_sample(layers: Mapping[str, Any]) -> dict[str, int] | None:
    """Sizes of the grid's own hidden states; None if those of all models hold all of its windows and texts.

    Args:
        layers: parameters of the second study.
    """
    grid = layers["grid"]
    most, longest = max(grid["counts"]), max(grid["windows"])
    if most <= layers["texts_count"] and longest <= layers["tokens"]:
        return None
    return {
        "texts_count": max(most, layers["texts_count"]),
        "tokens": max(longest, layers["tokens"]),
        "min_tokens": max(longest, layers["min_tokens"]),
    }


@dataclass(frozen=True)
class Model:
    """A model of a study.

    Attributes:
        name: as in file names.
        suite: what it belongs to.
        tokenizer: name of its tokenizer.
        family: ``model_type`` of its configuration.
        rows, dims: of its table.
        width: of its blocks.
        depth: how many blocks; None if the registry does not tell.
        item: bytes of a stored value.
        checkpoints: names, in the order of training.
        own: whether the study trains it.
        whole: whether the last checkpoint is there as a whole, or will be.
        told_weights: weights of the whole model, if the registry tells.
    """

    name: str
    suite: str
    tokenizer: str
    family: str
    rows: int
    dims: int
    width: int
    depth: int | None
    item: int
    checkpoints: tuple[str, ...]
    own: bool
    whole: bool
    told_weights: int | None = None

    @property
    def classes(self) -> int:
        """Layers that a classifier distinguishes: the input of block 1 and the output of each block."""
        return (self.depth or 0) + 1

    @property
    def matrices(self) -> int:
        """Weights of the blocks' matrices: 12 width^2 for each block (Kaplan et al. 2020, table 1)."""
        return 12 * (self.depth or 0) * self.width**2

    @property
    def weights(self) -> int:
        """Weights that a forward pass without the output head needs."""
        return self.told_weights or self.matrices + self.rows * self.dims

    @property
    def stored_columns(self) -> int:
        """Columns of all tensors that `embscale states` stores for a vector; see `running.layer_widths`.

        The stored row, the input of block 1 where the family changes the row, each block, and the final norm.
        """
        parts = family(self.family)
        changed = parts.positions or parts.norm or parts.token_types or parts.projection or parts.root_scale
        layers = (self.depth or 0) + bool(changed) + (parts.final_norm is not None)
        return self.dims + layers * self.width

    def states_bytes(self, vectors: int, precision: str) -> int:
        """Bytes of a file of hidden states, without its header: values, and three numbers for each vector.

        Args:
            vectors: tokens of all texts.
            precision: of the forward pass; float16 is stored as such, all else as float32.
        """
        item = 2 if precision == "float16" else 4
        return vectors * (item * self.stored_columns + 3 * 8)

    def forward_operations(self, tokens: float, context: float) -> float:
        """Floating-point operations of running texts through all blocks, of matrix products alone.

        Two for each weight of a matrix and token, and ``4 depth width context`` for attention (Kaplan et al. 2020,
        appendix B): a third of `cost.operations`, without the output table.

        Args:
            tokens: of all texts.
            context: tokens of one text.
        """
        return tokens * (2.0 * self.matrices + 4.0 * (self.depth or 0) * self.width * context)


@dataclass(frozen=True)
class Models:
    """All models of a study.

    Attributes:
        config: the parameters.
        planned: published checkpoints, from `suites.plan_study`.
    """

    config: Mapping[str, Any]
    planned: Sequence[Planned]

    @cached_property
    def trainings(self) -> list[Training]:
        """Every language model that the study trains."""
        return plan.trainings(self.config)

    @cached_property
    def own(self) -> list[Model]:
        """Runs of the ladder and of its variations."""
        rows, tokenizer = self.config["tokenizer"]["vocab_size"], self.config["tokenizer"]["name"]
        return [
            Model(
                name, run.suite, tokenizer, OWN_FAMILY, rows, run.width, run.width, run.settings["blocks"], OWN_ITEM,
                tuple(run.checkpoints), own=True, whole=True,
            )
            for name, run in study_runs.runs(self.config["ladder"]).items()
        ]  # fmt: skip

    @cached_property
    def published(self) -> list[Model]:
        """Models of the registry that take part, now or once they are pinned."""
        found: dict[str, list[Planned]] = {}
        for item in self.planned:
            if item.available or item.status == "unpinned":
                found.setdefault(item.checkpoint.model, []).append(item)
        models = []
        for name, items in found.items():
            last = items[-1].checkpoint
            models.append(
                Model(
                    name, last.suite, last.tokenizer, last.family, last.rows, last.dims, last.width, last.depth,
                    ITEM_SIZES[last.dtype], tuple(item.checkpoint.name for item in items), own=False,
                    whole=items[-1].whole, told_weights=last.parameters,
                )
            )  # fmt: skip
        return models

    @property
    def scored(self) -> list[Model]:
        """Models whose tables are scored."""
        return [*self.own, *self.published]

    @cached_property
    def studied(self) -> list[Model]:
        """Models that are studied beyond their scores: of the ladder, the first run of each width."""
        names = {f"{study_runs.BASE}-w{width}" for width in self.config["ladder"]["widths"]}
        return [model for model in self.scored if not model.own or model.name in names]

    @cached_property
    def classified(self) -> list[Model]:
        """Models whose hidden states are computed."""
        suites = self.config["layers"]["suites"]
        return [model for model in self.studied if model.suite in suites and model.whole]

    @cached_property
    def static(self) -> dict[str, list[int]]:
        """Columns of the static tables by method."""
        static = self.config["static"]
        return {method: list(static["dims"]) for method in static["methods"]}

    @cached_property
    def tasks(self) -> list[str]:
        """Retrieval tasks, the study's own two first."""
        corpus = self.config["corpus"]
        return [corpus["task"], corpus["code_task"], *self.config["tasks"]]

    @cached_property
    def tokenizers(self) -> list[str]:
        """Names of all tokenizers, the study's own first."""
        own = self.config["tokenizer"]["name"]
        return list(dict.fromkeys([own, *(model.tokenizer for model in self.published)]))

    def sources_of(self, model: Model) -> list[str]:
        """Sources of texts that run through a model: all through the base model, the first through the others."""
        layers = self.config["layers"]
        names = [source["name"] for source in layers["texts"]]
        return names if model.name == layers["base"] else names[:1]
