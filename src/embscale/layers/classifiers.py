"""Classifiers that predict which layer a vector comes from.

The main one is multinomial logistic regression, fitted to convergence (Huang et al. call theirs "LR" and stop after a
fixed number of steps).  The others are the classifier that Huang et al. ran (`sgd`), those that they planned (trees and
other interpretable models), and baselines that see only a single number.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid
from sklearn.tree import DecisionTreeClassifier

from embscale.errors import EmbscaleError
from embscale.layers.examples import Examples, norm_only, standardiser
from embscale.parameters.layers import Classifier

if TYPE_CHECKING:
    import torch

LOGISTIC_REGRESSION = "logistic_regression"
SGD = "sgd"
CLASSIFIERS: tuple[str, ...] = get_args(Classifier)

# scikit-learn's own settings for logistic regression with L-BFGS, used by both implementations so that they stop at the
# same point; only the maximum number of iterations is higher.
ITERATIONS = 2000
TOLERANCE = 1e-4
LINE_SEARCH_STEPS = 50
RELATIVE_REDUCTION = 64 * np.finfo(np.float64).eps

# Huang et al.'s protocol, from their code.
SGD_LEARNING_RATE = 0.01
SGD_BATCH = 1024
SGD_TEST_FRACTION = 0.2

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
        memory_gb: training vectors up to this size are loaded into memory; beyond it, logistic regression reads them
            chunk by chunk in each iteration, and other classifiers raise an error.
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
        EmbscaleError: the examples do not fit into `memory_gb` and the classifier cannot read them in chunks.
    """
    if classifier == LOGISTIC_REGRESSION:
        model = logistic_regression(train, settings, start=start.model if start else None)
        return Fitted(model, model.converged)
    size = len(train) * (train.states.width if classifier not in ("norm_only", "position_only", "majority") else 1) * 4
    if size > settings.memory_gb * 1e9:
        raise EmbscaleError(
            f"{classifier}: {size / 1e9:.1f} GB of training vectors do not fit into the memory given "
            f"({settings.memory_gb:g} GB); take fewer texts, more memory, or {LOGISTIC_REGRESSION} alone"
        )
    if classifier == SGD:
        return sgd(train, test, settings, seed=seed)
    return Fitted(_simple(classifier, len(train.states.classes), settings, seed).fit(*train.whole()))


def _simple(classifier: str, layers: int, settings: Settings, seed: int) -> Any:  # noqa: ANN401 (scikit-learn has no types)
    return {
        "decision_tree": lambda: DecisionTreeClassifier(max_depth=settings.tree_depth, random_state=seed),
        "lda": lambda: LinearDiscriminantAnalysis(solver="lsqr"),
        # Uniform priors make it a true nearest centroid even if a split leaves layers of unequal size.
        "nearest_centroid": lambda: NearestCentroid(priors="uniform"),
        "norm_only": lambda: DecisionTreeClassifier(max_leaf_nodes=BANDS_PER_LAYER * layers, random_state=seed),
        "position_only": lambda: DecisionTreeClassifier(max_leaf_nodes=BANDS_PER_LAYER * layers, random_state=seed),
        "majority": lambda: DummyClassifier(strategy="prior"),
    }[classifier]()


def logistic_regression(train: Examples, settings: Settings, *, start: Linear | None = None) -> Linear:
    """Multinomial logistic regression with an L2 penalty on standardised columns, to convergence.

    Both implementations minimise the same objective as scikit-learn, the mean cross-entropy plus ``|W|^2 / (2 C n)``,
    and stop where no entry of its gradient exceeds `TOLERANCE`: scikit-learn itself on a CPU if the training vectors
    fit into memory, otherwise SciPy's L-BFGS-B with loss and gradient summed over chunks by torch.
    """
    scaler = standardiser(train)
    fits = len(train) * scaler.n_features_in_ * 4 <= settings.memory_gb * 1e9
    route = _scikit_learn if settings.device == "cpu" and fits else _by_chunks
    frame = Linear(np.empty(0), np.empty(0), scaler.mean_, scaler.scale_, False)
    weights, intercepts, converged = route(train, frame, settings, start, fits)
    return replace(frame, weights=weights, intercepts=intercepts, converged=converged)


def _scikit_learn(
    train: Examples, frame: Linear, settings: Settings, start: Linear | None, fits: bool
) -> tuple[np.ndarray, np.ndarray, bool]:
    features, labels = replace(train, prepare=_then_standardised(train, frame)).whole()
    model = LogisticRegression(
        C=settings.inverse_regularisation, max_iter=ITERATIONS, tol=TOLERANCE, warm_start=start is not None
    )
    if start is not None:
        model.coef_, model.intercept_ = _binary(start) if len(start.weights) == 2 else (start.weights, start.intercepts)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(features, labels)
    converged = not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    weights, intercepts = model.coef_.astype(np.float64), model.intercept_.astype(np.float64)
    if len(weights) == 1:  # for two classes, scikit-learn keeps only the difference
        weights, intercepts = np.concatenate([-weights, weights]) / 2, np.concatenate([-intercepts, intercepts]) / 2
    return weights, intercepts, converged


def _binary(start: Linear) -> tuple[np.ndarray, np.ndarray]:
    return start.weights[1:] - start.weights[:1], start.intercepts[1:] - start.intercepts[:1]


def _then_standardised(train: Examples, frame: Linear) -> Callable[..., np.ndarray]:
    return lambda features, labels, vectors: frame.standardised(train.prepare(features, labels, vectors))


def _by_chunks(
    train: Examples, frame: Linear, settings: Settings, start: Linear | None, fits: bool
) -> tuple[np.ndarray, np.ndarray, bool]:
    import torch

    device = torch.device(settings.device)
    layers, columns, count = len(train.states.classes), len(frame.mean), len(train)
    examples = replace(train, prepare=_then_standardised(train, frame))

    def chunks() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for features, labels, _ in examples.chunks():
            yield torch.from_numpy(features).to(device), torch.from_numpy(labels).to(device)

    kept = list(chunks()) if fits else None
    # For two classes, scikit-learn penalises only the difference, which equals two halves of opposite sign with twice
    # the penalty.
    penalty = (2 if layers == 2 else 1) / (settings.inverse_regularisation * count)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        # In float64, so that sums over many chunks are precise enough for the last steps.
        point = torch.tensor(flat.reshape(layers, columns + 1), device=device, requires_grad=True)
        loss, gradient = 0.0, np.zeros((layers, columns + 1))
        for features, labels in kept or chunks():
            logits = features.double() @ point[:, :-1].T + point[:, -1]
            part = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
            (slope,) = torch.autograd.grad(part, point)
            loss += part.item()
            gradient += slope.cpu().numpy()
        weights = flat.reshape(layers, columns + 1)[:, :-1]
        loss, gradient = loss / count, gradient / count
        gradient[:, :-1] += penalty * weights
        return loss + penalty * float((weights**2).sum()) / 2, gradient.ravel()

    begin = np.zeros((layers, columns + 1))
    if start is not None:
        begin[:, :-1], begin[:, -1] = start.weights, start.intercepts
    optimum = minimize(
        objective,
        begin.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": ITERATIONS,
            "gtol": TOLERANCE,
            "ftol": RELATIVE_REDUCTION,
            "maxls": LINE_SEARCH_STEPS,
        },
    )
    solved = optimum.x.reshape(layers, columns + 1)
    return solved[:, :-1], solved[:, -1], bool(optimum.success)


def sgd(train: Examples, test: Examples, settings: Settings, *, seed: int) -> Fitted:
    """Huang et al.'s own protocol: a linear softmax in torch's default initialisation, plain SGD, no standardising.

    The gradient is written out, because for such a small model autograd's overhead would take most of the time.
    """
    import torch

    device = torch.device(settings.device)
    (features, labels), (test_features, test_labels) = (
        tuple(torch.from_numpy(array).to(device) for array in examples.whole()) for examples in (train, test)
    )
    count, layers = len(features), len(train.states.classes)
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(seed)
        layer = torch.nn.Linear(features.shape[1], layers).to(device)
        weights, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
        hot = torch.nn.functional.one_hot(labels, layers).float()
        rows = []
        for epoch in range(1, settings.epochs + 1):
            order = torch.randperm(count, generator=generator).to(device)
            losses = torch.zeros((), device=device)
            for start in range(0, count, SGD_BATCH):
                places = order[start : start + SGD_BATCH]
                batch, truth = features.index_select(0, places), hot.index_select(0, places)
                log_probabilities = torch.log_softmax(torch.addmm(bias, batch, weights.T), 1)
                loss = -(log_probabilities * truth).sum() / len(places)
                losses += loss * len(places)
                error = log_probabilities.exp().sub_(truth).mul_(SGD_LEARNING_RATE / len(places))
                weights.addmm_(error.T, batch, alpha=-1)
                bias.sub_(error.sum(0))
            predicted = torch.addmm(bias, test_features, weights.T).argmax(1)
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
        if isinstance(model, NearestCentroid):
            predicted[places] = model.predict(features)
            continue
        probabilities = model.predict_proba(features)
        predicted[places] = probabilities.argmax(axis=1)
        confidence[places] = probabilities.max(axis=1)
        true = probabilities[np.arange(len(labels)), labels]
        log_loss[places] = -np.log(np.maximum(true, np.finfo(np.float32).eps))
    return {"predicted": predicted, "confidence": confidence, "log_loss": log_loss}
