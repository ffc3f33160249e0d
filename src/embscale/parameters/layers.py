"""Parameters of the second study: which layer does a hidden state come from?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from embscale.parameters.kinds import (
    SET,
    SOME,
    Count,
    Counts,
    Device,
    Name,
    Names,
    Natural,
    Positive,
    Seed,
    Seeds,
    Share,
    Text,
)
from embscale.parameters.scores import Bootstrap

Precision = Literal["float32", "float16", "bfloat16"]
Split = Literal["text", "token", "vector"]
Classifier = Literal[
    "logistic_regression",
    "sgd",
    "decision_tree",
    "lda",
    "nearest_centroid",
    "norm_only",
    "position_only",
    "majority",
]
Input = Literal["raw", "unit", "z_scored", "layer_normed", "mean_removed"]
Control = Literal["scalar_norm", "gaussian", "study_random"]
Reduction = Literal["pca", "tsne", "umap"]


@dataclass(frozen=True)
class Cleaning:
    """What is done to a text before it is tokenised."""

    strip_html: Annotated[bool, "tags become spaces, entities characters"]
    strip_punctuation: Annotated[bool, "remove the Unicode categories P"]


@dataclass(frozen=True)
class Source(Cleaning):
    """A source of texts."""

    name: Annotated[str, {"pattern": "^[a-z][a-z0-9_-]*$"}, "recorded in the output"]
    of: Annotated[Text, "heldout or code of the corpus, a name under texts, or a path"]


@dataclass(frozen=True)
class Choice:
    """Which texts are taken, and how much of each."""

    texts_count: Annotated[Count, "texts to take"]
    tokens: Annotated[Count, "first tokens of each text"]
    texts_seed: Annotated[Seed, "of the choice of texts"]


@dataclass(frozen=True)
class Sample(Choice):
    """Which texts are taken, and how much of each; shorter ones are passed over."""

    min_tokens: Annotated[Count, "texts with fewer are passed over and counted"]


@dataclass(frozen=True)
class Forward:
    """How a model runs over texts."""

    batch: Annotated[Count, "texts in one forward pass; changes nothing but rounding"]
    precision: Annotated[Precision, "of weights and forward pass"]
    device: Annotated[Device, "where models run and classifiers are fitted; auto is cuda where there is one"]


@dataclass(frozen=True)
class Running(Forward):
    """How a model runs over the texts whose hidden states are stored."""

    storage_gb: Annotated[Positive, "larger files of hidden states are refused (1 GB is 10^9 bytes)"]


@dataclass(frozen=True)
class Positions:
    """Which positions count."""

    first_position: Annotated[Natural, "earlier positions are left out: the first has abnormal norms"]


@dataclass(frozen=True)
class Fits(Bootstrap, Positions):
    """How classifiers are fitted and tested, whatever the experiment."""

    seeds: Annotated[Seeds, "of the splits, and of whatever else an experiment draws"]
    test_fraction: Annotated[Share, "share of texts, token types or vectors that is tested on"]
    inverse_regularisation: Annotated[Positive, "C of the logistic regression"]
    memory_gb: Annotated[Positive, "larger sets of vectors are read in chunks"]
    chunk: Annotated[Count, "vectors of a chunk, at every layer"]
    device: Annotated[Device, "where models run and classifiers are fitted; auto is cuda where there is one"]


@dataclass(frozen=True)
class Epochs:
    """How long Huang et al.'s own training runs."""

    epochs: Annotated[Count, "of sgd, the training of Huang et al., who made 1000"]


@dataclass(frozen=True)
class OneSplit:
    """The split of an experiment that has only one."""

    split: Annotated[Split, "what training and test do not share; sgd always splits by vector"]


@dataclass(frozen=True)
class Classifiers(Epochs):
    """Which classifiers are fitted, and on what."""

    classifiers: Annotated[tuple[Classifier, ...], SOME, "sgd is the training of Huang et al."]
    inputs: Annotated[tuple[Input, ...], SOME, "how vectors are scaled"]
    controls: Annotated[tuple[Control, ...], SET, "random vectors that keep something of each layer"]
    tree_depth: Annotated[Count, "of the decision tree, at most"]


@dataclass(frozen=True)
class Probe(Classifiers):
    """The classifiers of every model."""

    splits: Annotated[tuple[Split, ...], SOME, "what training and test do not share; the first also for the ablations"]


@dataclass(frozen=True)
class GridConditions:
    """Fewer and shorter texts."""

    classifiers: Annotated[
        tuple[Literal["logistic_regression", "sgd"], ...], SOME, "sgd is what the published grid was made with"
    ]
    windows: Annotated[Counts, "first tokens of each text"]
    counts: Annotated[Counts, "texts"]


@dataclass(frozen=True)
class Grid(GridConditions):
    """Classifiers on shorter and longer windows of fewer and more texts."""

    models: Annotated[Names, "from narrow to wide"]


@dataclass(frozen=True)
class Ablations:
    """What the base model's classifier uses."""

    inverse_regularisations: Annotated[tuple[Positive, ...], {"minItems": 2, "uniqueItems": True}, "values of C to try"]
    random_masks: Annotated[Count, "for each seed and number of dimensions"]


@dataclass(frozen=True)
class Geometry:
    """Norms, spread and similarity of the layers."""

    vectors: Annotated[Count, "of each layer, where vectors are compared pairwise"]
    groups: Annotated[Count, "of texts, left out in turn for the intervals"]
    dimensions: Annotated[Count, "of the subspaces of most variance"]
    neighbours: Annotated[Count, "nearest neighbours of a vector"]
    resamples: Annotated[Count, "bootstrap resamples of the texts, for the norms"]
    seed: Annotated[Seed, "of all that is drawn"]


@dataclass(frozen=True)
class Reductions:
    """Hidden states in two dimensions."""

    kinds: Annotated[tuple[Reduction, ...], SOME, "PCA, t-SNE, UMAP"]
    points: Annotated[Count, "hidden states in a picture, all layers together"]
    perplexity: Annotated[Positive, "of t-SNE"]
    umap_neighbours: Annotated[int, {"minimum": 2}, "of UMAP"]
    start_dimensions: Annotated[Count, "principal components that t-SNE and UMAP start from"]
    outliers: Annotated[Natural, "dimensions of most variance that one of the PCAs leaves out"]
    groups: Annotated[Count, "of texts, left out in turn for the intervals"]
    seed: Annotated[Seed, "of all that is drawn"]


@dataclass(frozen=True)
class LogitLens:
    """What the final norm and the output table make of the states of each layer."""

    vectors: Annotated[Count, "hidden states of each layer"]
    chunk: Annotated[Count, "of them at once"]
    groups: Annotated[Count, "of texts, left out in turn for the intervals"]
    seed: Annotated[Seed, "of the choice of vectors"]


@dataclass(frozen=True)
class Layers(Ablations, Probe, Fits, Running, Sample):
    """Which layer does a hidden state come from?"""

    suites: Annotated[Names, "whose models are classified"]
    base: Annotated[Name, "the model of the ablations and of the transfer between texts"]
    pictured: Annotated[Names, "models whose states are placed in two dimensions"]
    texts: Annotated[
        tuple[Source, ...],
        {"minItems": 2},
        "sources of texts, the first for all models, all for the base model",
    ]
    grid: Grid
    geometry: Geometry
    reductions: Reductions
    logit_lens: LogitLens
