"""Kinds of parameters: a Python type with its limits, in the words of JSON Schema."""

from __future__ import annotations

from typing import Annotated, Literal

LARGEST = (
    2**53
)  # of whole numbers: the last up to which a decimal number holds each; libraries fail at more in odd ways

Count = Annotated[int, {"minimum": 1}]
Natural = Annotated[int, {"minimum": 0}]
Seed = Annotated[int, {"minimum": 0, "maximum": 2**32 - 1}]  # as scikit-learn takes them
Positive = Annotated[float, {"exclusiveMinimum": 0}]
NotNegative = Annotated[float, {"minimum": 0}]
Share = Annotated[float, {"exclusiveMinimum": 0, "exclusiveMaximum": 1}]

SET = {"uniqueItems": True}
SOME = {"minItems": 1, "uniqueItems": True}
Counts = Annotated[tuple[Count, ...], SOME]
Naturals = Annotated[tuple[Natural, ...], SOME]
Seeds = Annotated[tuple[Seed, ...], SOME]

# One that begins with - would be a flag; with a space begins a token such as " the".
Text = Annotated[str, {"pattern": r"^([^\s-]| +\S)[^\n\r\x00]*$"}]
Texts = Annotated[tuple[Text, ...], SOME]
Paths = Annotated[tuple[Text, ...], SET]
Name = Annotated[str, {"pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]*$"}]
Names = Annotated[tuple[Name, ...], SET]
Task = Annotated[str, {"pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]*$"}]  # of MTEB: NAME, or NAME:SUBSET
Tasks = Annotated[tuple[Task, ...], SET]
Sha256 = Annotated[str, {"pattern": r"^(any|[0-9a-f]{64})$"}]

Device = Literal["auto", "cpu", "cuda"]
RendererName = Literal["pandoc", "quarto"]
SpecialTokens = Literal["exclude", "include"]
Metric = Annotated[str, {"pattern": r"^(ndcg|map|recall|precision)_at_(1|3|5|10|20|100)$"}]
# The first tokens of a text, or all of them.
TextLength = Annotated[int | str, {"anyOf": [{"type": "integer", "minimum": 1}, {"enum": ["all"]}]}]
# The forms that `embscale.tables.variants` reads.
Variant = Annotated[
    str,
    {
        "pattern": r"^(crop(_pca)?:[0-9]+|(crop_random|crop_projection|pad|pad_rms):[0-9]+:[0-9]+"
        r"|pad_ratio:([0-9.]+|inf):[0-9]+|pad_faithful:[0-9]+:[0-9]+(:(legacy|current))?"
        r"|unit|centred|all_but_top:[0-9]+|whitened|sif:[0-9.e-]+|idf|bf16)$"
    },
]
Variants = Annotated[tuple[Variant, ...], SET]
