"""Fit the layer classifiers of a study part by part: seconds of each; and the speed and memory of single fits.

    python benchmarks/classifiers.py STATES.safetensors ... [--base STATES.safetensors] [--skip-memory]
    python benchmarks/classifiers.py --speed [--tokens 20000] [--width 768] [--drift 0.19]

Every STATES gets all classifiers, splits, inputs and controls; the base also the grid and the ablations.  Seconds are
those of one process: of the clock, and of the processor, which other work on the machine disturbs less.

Speed: one fit on synthetic vectors of 13 layers by scikit-learn, as it was called here before, by Huang et al.'s loop,
and by ours, in one thread; beside them the time of the products of ours alone, below which no change of the rest leads.

Memory: logistic regression that reads vectors from a file, each size in a fresh process, three iterations.
"""

import argparse
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from embscale.layers import ablations, classifiers, designs, examples, hidden_states, probes
from embscale.layers.classifiers import CLASSIFIERS, Linear, Settings
from embscale.layers.hidden_states import HiddenStates
from embscale.threads import limited

SEEDS = (1, 2, 3, 4, 5)
RESAMPLES, BOOTSTRAP_SEED = 2000, 1
FIRST_POSITION = 1
SETTINGS = Settings(
    test_fraction=0.25,
    inverse_regularisation=1.0,
    epochs=100,
    tree_depth=6,
    device="cpu",
    memory_gb=2.0,
    chunk=4096,
)
WINDOWS, COUNTS = (4, 8, 16, 32), (50, 100, 200)
RANDOM_MASKS = 5

LAYERS = 13
DECAY, STEP, GROWTH, TAIL = 1.0, 0.4, 1.12, 0.6
OUTLIERS, OUTLIER_SCALE = 3, 30

MEMORY_LAYERS, MEMORY_WIDTH, MEMORY_CHUNK = 5, 256, 2048
MEMORY_VECTORS = (10_000, 40_000, 160_000)
MEMORY_ITERATIONS = 3


class Timed:
    """Sums of seconds by name, of the clock and of the processor."""

    def __init__(self):
        self.parts = {}

    def __call__(self, name, function):
        wall, processor = time.perf_counter(), time.process_time()
        result = function()
        before = self.parts.get(name, (0, 0))
        self.parts[name] = (before[0] + time.perf_counter() - wall, before[1] + time.process_time() - processor)
        return result

    def table(self):
        print("| part | seconds | of the processor |\n|---|---|---|")
        total = np.sum(list(self.parts.values()), axis=0)
        for name, (wall, processor) in (*self.parts.items(), ("all", total)):
            print(f"| {name} | {wall:.1f} | {processor:.1f} |")


def used_in(path):
    states = examples.load_if_fits(hidden_states.load(path), memory_gb=SETTINGS.memory_gb)
    return states, examples.mask_from(states, first_position=FIRST_POSITION)


def all_classifiers(path, timed):
    states, used = used_in(path)
    bootstrap = {"resamples": RESAMPLES, "seed": BOOTSTRAP_SEED}
    for condition in probes.conditions(CLASSIFIERS, examples.SPLITS, examples.INPUTS, tuple(examples.EXPECTED)):
        name = f"{path.stem}: {condition.classifier}"
        fits = timed(
            name,
            lambda condition=condition: probes.run(states, used, condition, SETTINGS, seeds=SEEDS, name=path.stem),
        )
        timed(f"{path.stem}: rows", lambda fits=fits: probes.classifier_rows(fits, SEEDS, states.classes, **bootstrap))


def grid_and_ablations(path, timed):
    states, used = used_in(path)

    def grid():
        return list(
            designs.grid(
                states, used, SETTINGS, classifier="logistic_regression", split="text", windows=WINDOWS, counts=COUNTS,
                seeds=SEEDS, name=path.stem,
            )
        )  # fmt: skip

    timed(f"{path.stem}: grid", grid)
    found = timed(
        f"{path.stem}: ablations",
        lambda: ablations.base(
            states, used, SETTINGS, split="text", seeds=SEEDS, resamples=RESAMPLES, bootstrap_seed=BOOTSTRAP_SEED,
            name=path.stem,
        ),
    )  # fmt: skip
    timed(f"{path.stem}: ablations", lambda: list(ablations.ablations(found, random_masks=RANDOM_MASKS)))


def synthetic(tokens, width, drift, seed=0):
    """Vectors like those of a residual stream: each layer adds to the last, with decaying spectra and heavy tails.

    Every block adds a random vector, a function of the state, and a vector of its own, in which the means of layers
    differ; all grow with depth, and a few dimensions are outliers.
    """
    generator = np.random.default_rng(seed)
    scale = (np.arange(1, width + 1) ** -DECAY).astype(np.float32)

    def rotation():
        return np.linalg.qr(generator.standard_normal((width, width)))[0].astype(np.float32)

    def drawn():
        tails = np.exp(TAIL * generator.standard_normal((tokens, 1), dtype=np.float32))
        return generator.standard_normal((tokens, width), dtype=np.float32) * scale * tails

    axes = rotation()
    states = np.empty((LAYERS, tokens, width), np.float32)
    states[0] = drawn() @ axes
    for layer in range(1, LAYERS):
        size = STEP * GROWTH**layer
        states[layer] = states[layer - 1] + size * (drawn() @ (axes + 0.3 * rotation()))
        states[layer] += size * scale.mean() * np.tanh(states[layer] @ rotation())
        shift = generator.standard_normal(width).astype(np.float32) * scale @ axes
        states[layer] += drift * GROWTH**layer * shift
    states[..., generator.choice(width, OUTLIERS, replace=False)] *= OUTLIER_SCALE
    return states


class Gradients:
    """Counts the gradients of our logistic regression."""

    def __init__(self):
        self.count, self.inner = 0, classifiers.CrossEntropy.__call__
        classifiers.CrossEntropy.__call__ = self._counted()

    def _counted(self):
        def call(loss, *point):
            self.count += 1
            return self.inner(loss, *point)

        return call


def seconds(function):
    """The result, and seconds of the processor."""
    start = time.process_time()
    result = function()
    return result, time.process_time() - start


def by_scikit_learn(train):
    """As this package called it until it had a route of its own."""
    scaler = StandardScaler()
    for features, _, _ in train.chunks():
        scaler.partial_fit(features)
    features, labels = train.whole()
    features -= scaler.mean_.astype(np.float32)
    features /= scaler.scale_.astype(np.float32)
    model = LogisticRegression(C=SETTINGS.inverse_regularisation, max_iter=classifiers.ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model, took = seconds(lambda: model.fit(features, labels))
    fitted = Linear(model.coef_.astype(float), model.intercept_.astype(float), scaler.mean_, scaler.scale_, True)
    return fitted, int(model.n_iter_[0]), took


def objective(model, train):
    """What is minimised, and the mean cross-entropy alone, from logits in float32."""
    total = 0.0
    for features, labels, _ in train.chunks():
        total -= log_softmax(model.logits(features).astype(float), axis=1)[np.arange(len(labels)), labels].sum()
    penalty = (model.weights**2).sum() / (2 * SETTINGS.inverse_regularisation)
    return (total + penalty) / len(train), total / len(train)


def products(examples_count, width):
    """Seconds of the two products of one gradient, block by block, in the faster of two libraries."""
    import torch

    features = torch.randn(classifiers.BLOCK, width)
    weights, errors = torch.randn(LAYERS, width), torch.randn(LAYERS, classifiers.BLOCK)
    matrices = [(weights, errors, features), (weights.numpy(), errors.numpy(), features.numpy())]
    best = np.inf
    for of_class, of_example, block in matrices * 5:
        _, took = seconds(lambda w=of_class, e=of_example, x=block: [(w @ x.T, e @ x) for _ in range(5)])
        best = min(best, took / 5)
    return best * examples_count / classifiers.BLOCK


def speed(tokens, width, drift):
    """Single fits side by side, on three quarters of the tokens; accuracy on the others."""
    import torch  # not part of the first fit

    torch.ones(2, 2) @ torch.ones(2, 2)
    count = tokens * 4 // 3
    names = ("embedding", *(f"block {i}" for i in range(1, LAYERS)))
    arrays = dict(zip(names, synthetic(count, width, drift), strict=True))
    states = HiddenStates(arrays=arrays, **{name: np.arange(count) for name in ("text", "position", "token")})
    part = np.broadcast_to(np.arange(count) < tokens, (LAYERS, count))
    train, test = (examples.Examples(states, side, SETTINGS.chunk) for side in (part, ~part))
    print(f"{len(train)} x {width}, {LAYERS} classes")
    rows = {}

    def add(name, model, took, gradients):
        right = np.mean(classifiers.predict(model, test)["predicted"] == test.labels)
        rows[name] = (
            took,
            gradients,
            *(objective(model, train) if isinstance(model, Linear) else (np.nan,) * 2),
            right,
        )
        print(name, *rows[name], flush=True)

    gradients = Gradients()
    settings = SETTINGS.__class__(**vars(SETTINGS) | {"memory_gb": 100.0})
    ours, took = seconds(lambda: classifiers.logistic_regression(train, settings))
    add("ours", ours, took, gradients.count)
    started = gradients.count
    other = examples.Examples(states, np.roll(part, tokens // 4, axis=1), SETTINGS.chunk)
    again, took = seconds(lambda: classifiers.logistic_regression(other, settings, start=ours))
    add("ours, another split from this start", again, took, gradients.count - started)
    model, took = seconds(lambda: classifiers.lda(train))
    add("LDA, closed form", model, took, 0)
    epoch = classifiers.Settings(**vars(settings) | {"epochs": 1})
    model, took = seconds(lambda: classifiers.sgd(train, test, epoch, seed=1))
    add("an epoch of Huang et al.'s loop", model.model, took, 0)
    (model, iterations, inner), took = seconds(lambda: by_scikit_learn(train))
    add("scikit-learn, with standardising by partial_fit as before", model, took, iterations)
    rows["scikit-learn's fit alone"] = (inner, *rows[next(reversed(rows))][1:])
    tight = classifiers.TOLERANCE
    classifiers.TOLERANCE = tight / 20
    best = classifiers.logistic_regression(train, settings, start=ours)
    classifiers.TOLERANCE = tight
    lowest = objective(best, train)[0]
    limit = products(len(train), width) * rows["ours"][1]
    print("| fit | processor seconds | over ours | gradients | above the least objective | cross-entropy | accuracy |")
    print("|---|---|---|---|---|---|---|")
    for name, (took, count, value, loss, right) in rows.items():
        ratio, above = f"{took / rows['ours'][0]:.2f}", "" if "another" in name else f"{value - lowest:.1e}"
        print(f"| {name} | {took:.2f} | {ratio} | {count or ''} | {above} | {loss:.4f} | {right:.4f} |")
    print(f"| the products of our gradients alone | {limit:.2f} | {limit / rows['ours'][0]:.2f} | | | | |")


def peak_of_one_fit(vectors):
    """Peak memory of the process in MB without the pages of files; the vectors are drawn when they are read."""

    def vectors(layer):
        def block(i):
            shape = (examples.DRAWN_ROWS, MEMORY_WIDTH)
            return np.random.default_rng([layer, i]).standard_normal(shape, np.float32) + 0.1 * layer

        return examples.Drawn((vectors, MEMORY_WIDTH), block)

    names = ("embedding", *(f"block {i}" for i in range(1, MEMORY_LAYERS)))
    described = {name: np.arange(vectors) for name in ("text", "position", "token")}
    states = HiddenStates(arrays={name: vectors(i) for i, name in enumerate(names)}, **described)
    part = np.ones((MEMORY_LAYERS, vectors), dtype=bool)
    classifiers.ITERATIONS = MEMORY_ITERATIONS
    settings = Settings(0.25, 1.0, 1, 1, "cpu", 0.0, MEMORY_CHUNK)
    sizes, done = [], threading.Event()

    def watch():
        while not done.wait(0.005):
            lines = Path("/proc/self/status").read_text().splitlines()
            sizes.append(next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")))

    watcher = threading.Thread(target=watch)
    watcher.start()
    classifiers.logistic_regression(examples.Examples(states, part, MEMORY_CHUNK), settings)
    done.set()
    watcher.join()
    return max(sizes) / 1024


def memory():
    print(f"\n{MEMORY_LAYERS} layers of width {MEMORY_WIDTH}, chunks of {MEMORY_CHUNK} vectors")
    print("| vectors | training set, MB | peak of the process, MB |\n|---|---|---|")
    for vectors in MEMORY_VECTORS:
        command = [sys.executable, __file__, "--one-fit", str(vectors)]
        peak = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(f"| {vectors} | {vectors * MEMORY_LAYERS * MEMORY_WIDTH * 4 / 2**20:.0f} | {peak:.0f} |", flush=True)


def main():
    if sys.argv[1:2] == ["--one-fit"]:
        print(peak_of_one_fit(int(sys.argv[2])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("states", type=Path, nargs="*", metavar="STATES.safetensors")
    parser.add_argument("--base", type=Path, metavar="STATES.safetensors", help="the one for grid and ablations")
    parser.add_argument("--skip-memory", action="store_true")
    parser.add_argument("--speed", action="store_true", help="single fits, and nothing else")
    parser.add_argument("--tokens", type=int, default=20_000, help="to train on, at every layer")
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--drift", type=float, default=0.19, help="how far apart the means of layers are")
    args = parser.parse_args()
    if args.speed:
        with limited(1):
            speed(args.tokens, args.width, args.drift)
        return
    timed = Timed()
    for path in args.states:
        all_classifiers(path, timed)
    if args.base:
        grid_and_ablations(args.base, timed)
    if timed.parts:
        timed.table()
    if not args.skip_memory:
        memory()


if __name__ == "__main__":
    main()
