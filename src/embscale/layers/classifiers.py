"""Classifiers that predict which layer a vector comes from.

The main one is multinomial logistic regression, fitted to convergence (Huang et al. call theirs "LR" and stop after a
fixed number of steps).  The others are the classifier that Huang et al. ran (`sgd`), those that they planned (trees and
other interpretable models), and baselines that see only a single number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.dummy import DummyClassifier
from sklearn.metrics import pairwise_distances_argmin
from sklearn.tree import DecisionTreeClassifier

from embscale.errors import EmbscaleError
from embscale.layers.examples import Examples, check_space, divisors, gigabytes, layer_means, moments, norm_only
from embscale.parameters.layers import Classifier

if TYPE_CHECKING:
    import torch

LOGISTIC_REGRESSION = "logistic_regression"
SGD = "sgd"
CLASSIFIERS: tuple[str, ...] = get_args(Classifier)

# Logistic regression stops where no entry of the gradient exceeds the tolerance, in coordinates in which the loss has
# about the same curvature in all directions.  What is left of the loss then was below 3e-4 on all data tried, with 128
# to 768 columns and 15,000 to 260,000 examples, and less than scikit-learn leaves with its own default settings.
ITERATIONS = 2000
TOLERANCE = 1e-4
LINE_SEARCH_STEPS = 50
RELATIVE_REDUCTION = 64 * np.finfo(np.float64).eps

# Rows of a product.  Sums within a block are in float32, sums over blocks in float64.
BLOCK = 8192

# Huang et al.'s protocol, from their code.
SGD_LEARNING_RATE = 0.01
SGD_BATCH = 1024
SGD_TEST_FRACTION = 0.2

# What does not fit into memory is refused to the first, and read again and again from a temporary file by the second.
# The others see a single number of each vector, or read chunk by chunk once or twice.
AT_ONCE = ("decision_tree",)
FROM_FILE = (LOGISTIC_REGRESSION, SGD)

# A tree on a single feature divides it into intervals; this many per layer are enough for overlapping ranges.
BANDS_PER_LAYER = 8


@dataclass(frozen=True)
class Settings:
    """Settings shared by all fits of a run.

    Attributes:
        test_fraction: share of texts, token types or vectors to test on; `sgd` uses that of Huang et al.
        inverse_regularisation: C of the logistic regression, as in scikit-learn.
        epochs: of `sgd`; Huang et al. use 1000.
        tree_depth: of the decision tree, at most.
        device: ``cpu`` or ``cuda``, for logistic regression and `sgd`.
        memory_gb: training vectors up to this size are loaded into memory, and onto the device; beyond it, logistic
            regression and `sgd` read them from a temporary file, and the decision tree is refused.
        chunk: number of vectors read at a time, at every layer.
    """

    test_fraction: float
    inverse_regularisation: float
    epochs: int
    tree_depth: int
    device: Literal["cpu", "cuda"]
    memory_gb: float
    chunk: int


@dataclass(frozen=True)
class Linear:
    """A softmax over linear functions of standardised columns.

    Attributes:
        weights: ``[classes, columns]``, for standardised columns.
        intercepts: ``[classes]``.
        mean, scale: ``[columns]``, for standardising.
        converged: whether the optimiser stopped by itself.
    """

    weights: np.ndarray
    intercepts: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    converged: bool

    def standardised(self, features: np.ndarray) -> np.ndarray:
        """Columns with mean 0 and variance 1 in training, float32."""
        return (features - self.mean.astype(np.float32)) / self.scale.astype(np.float32)

    def logits(self, features: np.ndarray) -> np.ndarray:
        """Unnormalised log probabilities ``[n, classes]``."""
        return self.standardised(features) @ self.weights.T.astype(np.float32) + self.intercepts.astype(np.float32)

    def predict_proba(self, features: np.ndarray) -> np.ndarray:
        """Probabilities ``[n, classes]``."""
        return softmax(self.logits(features), axis=1)

    @property
    def raw_weights(self) -> np.ndarray:
        """The equivalent weights for unstandardised columns; large for columns with small variance."""
        return self.weights / self.scale


@dataclass(frozen=True)
class Fitted:
    """A classifier and how its fit went.

    Attributes:
        model: has ``predict_proba``, or only ``predict`` if it has no probabilities.
        converged: whether an optimiser stopped by itself; always false for `sgd`, always true for classifiers without
            an optimiser.
        curves: for `sgd`, a row for each epoch with ``epoch``, ``train_loss`` (mean over batches),
            ``train_loss_last_batch`` and ``test_accuracy``.
    """

    model: Any
    converged: bool = True
    curves: pd.DataFrame | None = None


def select_features(classifier: str, examples: Examples) -> Examples:
    """Restrict examples to the features that a classifier uses: all of them, or a single number."""
    if classifier == "norm_only":
        return replace(examples, prepare=norm_only)
    if classifier == "position_only":
        position = examples.states.position

        def only(features: np.ndarray, labels: np.ndarray, vectors: np.ndarray) -> np.ndarray:
            return position[vectors, None].astype(np.float32)

        return replace(examples, prepare=only)
    return examples


def check_memory(classifiers: Sequence[str], examples: int, columns: int, settings: Settings) -> None:
    """Stop before the first fit if one of several fits will need more memory or disk than there is.

    Args:
        classifiers: to be fitted.
        examples: of the largest training set.
        columns: of a vector.
        settings: see there.

    Raises:
        EmbscaleError: it will.
    """
    size = gigabytes(examples, columns)
    if size <= settings.memory_gb:
        return
    if refused := [name for name in dict.fromkeys(classifiers) if name in AT_ONCE]:
        raise EmbscaleError(
            f"{', '.join(refused)}: {size:.3g} GB of training vectors must be in memory at once, and --memory-gb "
            f"allows {settings.memory_gb:g}; raise it, take fewer texts, or leave {', '.join(refused)} out of "
            "--classifiers"
        )
    if any(name in FROM_FILE for name in classifiers):
        check_space(size)


def fit(
    classifier: str, train: Examples, test: Examples, settings: Settings, *, seed: int, start: Fitted | None = None
) -> Fitted:
    """Fit a classifier.

    Args:
        classifier: one of `CLASSIFIERS`.
        train: training examples, from `select_features`.
        test: for the accuracy curve of `sgd`; no other classifier looks at it.
        settings: see there.
        seed: of initial weights and the order of batches (`sgd`), of ties between columns (trees).
        start: an earlier fit of logistic regression on similar examples to begin from; it halves the number of
            iterations without changing the optimum, which is unique.

    Raises:
        EmbscaleError: the examples do not fit into `memory_gb` and the classifier needs all at once.
    """
    check_memory([classifier], len(train), train.states.width, settings)
    if classifier == LOGISTIC_REGRESSION:
        model = logistic_regression(train, settings, start=start.model if start else None)
        return Fitted(model, model.converged)
    if classifier == SGD:
        return sgd(train, test, settings, seed=seed)
    if classifier == "lda":
        return Fitted(lda(train))
    if classifier == "nearest_centroid":
        return Fitted(Centroids(layer_means(train)))
    if classifier == "majority":
        return Fitted(DummyClassifier(strategy="prior").fit(train.labels[:, None], train.labels))
    return Fitted(_tree(classifier, len(train.states.classes), settings, seed).fit(*train.whole()))


def _tree(classifier: str, layers: int, settings: Settings, seed: int) -> DecisionTreeClassifier:
    if classifier == "decision_tree":
        return DecisionTreeClassifier(max_depth=settings.tree_depth, random_state=seed)
    return DecisionTreeClassifier(max_leaf_nodes=BANDS_PER_LAYER * layers, random_state=seed)


@dataclass(frozen=True)
class Centroids:
    """The nearest mean of a layer; it has no probabilities.

    Attributes:
        means: ``[classes, columns]``.
    """

    means: np.ndarray

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Indices of layers ``[n]``."""
        return np.asarray(pairwise_distances_argmin(features, self.means.astype(np.float32)))


def lda(train: Examples) -> Linear:
    """Linear discriminant analysis, from sums in float64: means, and the covariance within layers.

    The least-squares solution of scikit-learn's solver ``lsqr`` (Duda, Hart and Stork 2001, section 2.6.2), for
    standardised columns, so that columns of very different scale do not decide what counts as zero.
    """
    of_layers = moments(train)
    shares = of_layers.counts / of_layers.counts.sum()
    mean, scale = of_layers.mean, of_layers.scale
    centres = (of_layers.means - mean) / scale
    within = np.zeros((len(mean), len(mean)))
    for features, labels, _ in train.chunks():
        centred = (features - of_layers.means[labels]) / scale
        within += centred.T @ centred
    weights = np.linalg.lstsq(within / len(train), centres.T)[0].T
    intercepts = np.log(shares) - (weights * centres).sum(axis=1) / 2
    return Linear(weights, intercepts, mean, scale, True)


def logistic_regression(train: Examples, settings: Settings, *, start: Linear | None = None) -> Linear:
    """Multinomial logistic regression with an L2 penalty on standardised columns, to convergence.

    It minimises the same objective as scikit-learn, the mean cross-entropy plus ``|W|^2 / (2 C n)``, by SciPy's
    L-BFGS-B, with products in float32 on the device and sums over blocks in float64.

    Directions of small variance make the problem ill-conditioned.  So the optimiser sees other coordinates: the
    principal components of the columns, each divided by the square root of the curvature that the loss has along it
    where all weights are zero (its variance divided by the number of classes, plus the penalty).
    """
    import torch

    device = torch.device(settings.device)
    features, labels = _tensors(train, settings.memory_gb, device)
    layers, count = len(train.states.classes), len(train)
    mean, scale, correlation = standardise(features, device)
    # For two classes, scikit-learn penalises only the difference, which equals two halves of opposite sign with twice
    # the penalty.
    penalty = (2 if layers == 2 else 1) / (settings.inverse_regularisation * count)
    variances, axes = np.linalg.eigh(correlation)
    stretch = 1 / np.sqrt(np.maximum(variances, 0) / layers + penalty)
    cross_entropy = CrossEntropy(features, labels, layers, device)

    def unpacked(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inner = point.reshape(layers, -1)
        return inner[:, :-1] * stretch @ axes.T, inner[:, -1] * np.sqrt(layers)

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        weights, intercepts = unpacked(point)
        loss, slope, shift = cross_entropy(weights, intercepts)
        slope += penalty * weights
        gradient = np.column_stack([slope @ axes * stretch, shift * np.sqrt(layers)])
        return loss + penalty * float((weights**2).sum()) / 2, gradient.ravel()

    begin = np.zeros((layers, len(mean) + 1))
    if start is not None:
        begin[:, :-1], begin[:, -1] = start.weights @ axes / stretch, start.intercepts / np.sqrt(layers)
    optimum = minimize(
        objective,
        begin.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": ITERATIONS,
            "maxfun": LINE_SEARCH_STEPS * ITERATIONS,
            "gtol": TOLERANCE,
            "ftol": RELATIVE_REDUCTION,
            "maxls": LINE_SEARCH_STEPS,
        },
    )
    return Linear(*unpacked(optimum.x), mean, scale, bool(optimum.success))


def standardise(features: torch.Tensor, device: torch.device) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give columns mean 0 and variance 1, in place.

    Args:
        features: float32 ``[n, columns]``; changed.
        device: where products are computed.

    Returns:
        The means and standard deviations that the columns had ``[columns]``, and their correlations
        ``[columns, columns]``, all in float64.
    """
    import torch

    count, columns = features.shape
    blocks = features.split(BLOCK)
    # What is subtracted and divided by is a float32, so that `Linear.standardised` gives the same columns.
    shift = torch.stack([block.sum(0, dtype=torch.float64) for block in blocks]).sum(0).div(count).float()
    covariance = torch.zeros((columns, columns), dtype=torch.float64, device=device)
    for block in blocks:
        block -= shift
        moved = block.to(device)
        covariance += moved.T @ moved
    covariances, mean = covariance.cpu().numpy() / count, shift.double().cpu().numpy()
    divided = torch.from_numpy(divisors(np.diag(covariances), mean)).float()
    for block in blocks:
        block /= divided.to(block.device)
    scale = divided.double().numpy()
    return mean, scale, covariances / np.outer(scale, scale)


class CrossEntropy:
    """Mean cross-entropy of a softmax over linear functions, and its gradient.

    The gradient is written out, because autograd would keep every block's logits.
    """

    def __init__(self, features: torch.Tensor, labels: torch.Tensor, layers: int, device: torch.device) -> None:
        """Features float32 ``[n, columns]`` and labels ``[n]``, on the device or read block by block."""
        self.features, self.labels, self.layers, self.device = features, labels, layers, device

    def _blocks(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for features, labels in zip(self.features.split(BLOCK), self.labels.split(BLOCK), strict=True):
            yield features.to(self.device), labels.to(self.device)

    def __call__(self, weights: np.ndarray, intercepts: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The loss, and its gradient by weights ``[classes, columns]`` and by intercepts ``[classes]``."""
        import torch

        shape = (self.layers, weights.shape[1] + 1)
        slope = torch.zeros(shape, dtype=torch.float64, device=self.device)
        loss = torch.zeros((), dtype=torch.float64, device=self.device)
        directions = torch.from_numpy(weights).float().to(self.device)
        offsets = torch.from_numpy(intercepts).float().to(self.device)[:, None]
        with torch.inference_mode():
            for features, labels in self._blocks():
                # One row for each class: of the possible orders, the fastest for so few classes.
                logits = torch.addmm(offsets, directions, features.T)
                logits -= logits.amax(0)
                truth = labels[None]
                right = logits.gather(0, truth)[0]
                errors = logits.exp_()
                sums = errors.sum(0)
                loss += (sums.log() - right).sum(dtype=torch.float64)
                errors /= sums
                errors.scatter_add_(0, truth, torch.full_like(sums, -1)[None])
                slope[:, :-1] += errors @ features
                slope[:, -1] += errors.sum(1)
        gradient = slope.cpu().numpy() / len(self.labels)
        return float(loss) / len(self.labels), gradient[:, :-1], gradient[:, -1]


def sgd(train: Examples, test: Examples, settings: Settings, *, seed: int) -> Fitted:
    """Huang et al.'s own protocol: a linear softmax in torch's default initialisation, plain SGD, no standardising.

    The gradient is written out, because for such a small model autograd's overhead would take most of the time.
    """
    import torch

    device = torch.device(settings.device)
    count, layers = len(train), len(train.states.classes)
    (features, labels), (test_features, test_labels) = (
        _tensors(examples, settings.memory_gb, device) for examples in (train, test)
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(seed)
        layer = torch.nn.Linear(features.shape[1], layers).to(device)
        weights, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
        rows = []
        for epoch in range(1, settings.epochs + 1):
            order = torch.randperm(count, generator=generator).to(features.device)
            losses = torch.zeros((), device=device)
            for start in range(0, count, SGD_BATCH):
                places = order[start : start + SGD_BATCH]
                batch = features.index_select(0, places).to(device)
                truth = torch.nn.functional.one_hot(labels.index_select(0, places), layers).to(device, batch.dtype)
                log_probabilities = torch.log_softmax(torch.addmm(bias, batch, weights.T), 1)
                loss = -(log_probabilities * truth).sum() / len(places)
                losses += loss * len(places)
                error = log_probabilities.exp().sub_(truth).mul_(SGD_LEARNING_RATE / len(places))
                weights.addmm_(error.T, batch, alpha=-1)
                bias.sub_(error.sum(0))
            predicted = torch.cat(
                [torch.addmm(bias, block.to(device), weights.T).argmax(1) for block in test_features.split(BLOCK)]
            ).to(test_labels.device)
            rows.append(
                {
                    "epoch": epoch,
                    "train_loss": float(losses) / count,
                    "train_loss_last_batch": float(loss),
                    "test_accuracy": float((predicted == test_labels).float().mean()),
                }
            )
    columns = weights.shape[1]
    model = Linear(
        weights.double().cpu().numpy(), bias.double().cpu().numpy(), np.zeros(columns), np.ones(columns), False
    )
    return Fitted(model, False, pd.DataFrame(rows))


def _tensors(examples: Examples, memory_gb: float, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and labels of examples, on the device if they fit into memory; otherwise read from a file."""
    import torch

    features, labels = (torch.from_numpy(array) for array in examples.whole(memory_gb=memory_gb))
    place = device if gigabytes(*features.shape) <= memory_gb else "cpu"
    return features.to(place), labels.to(place)


def predict(model: Any, test: Examples) -> Mapping[str, np.ndarray]:  # noqa: ANN401 (any classifier)
    """Predict the layer of each example, in order.

    Returns:
        ``predicted``: the layer as an index.  ``confidence``: its probability; NaN if the classifier has no
        probabilities (nearest centroid).  ``log_loss``: minus the logarithm of the true layer's probability, clipped at
        the precision of a float32, as in scikit-learn.
    """
    predicted = np.empty(len(test), np.int64)
    confidence, log_loss = np.full((2, len(test)), np.nan)
    for features, labels, places in test.chunks():
        if isinstance(model, Centroids):
            predicted[places] = model.predict(features)
            continue
        probabilities = model.predict_proba(features)
        predicted[places] = probabilities.argmax(axis=1)
        confidence[places] = probabilities.max(axis=1)
        true = probabilities[np.arange(len(labels)), labels]
        log_loss[places] = -np.log(np.maximum(true, np.finfo(np.float32).eps))
    return {"predicted": predicted, "confidence": confidence, "log_loss": log_loss}
