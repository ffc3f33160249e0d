"""Fit the layer classifiers of a study part by part: seconds of each; and the memory of a fit by chunks.

    python benchmarks/classifiers.py STATES.safetensors ... [--base STATES.safetensors] [--skip-memory]

Every STATES gets all classifiers, splits, inputs and controls; the base also the grid and the ablations.  Seconds are
those of one process: of the clock, and of the processor, which other work on the machine disturbs less.

Memory: logistic regression that reads vectors by chunks, each size in a fresh process, three iterations.
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from embscale.layers import ablations, classifiers, designs, examples, hidden_states, probes
from embscale.layers.classifiers import CLASSIFIERS, Settings
from embscale.layers.hidden_states import HiddenStates

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
    timed(f"{path.stem}: ablations", lambda: ablations.ablations(found, random_masks=RANDOM_MASKS))


def peak_of_one_fit(vectors):
    """Peak memory of the process in MB; the vectors are drawn when they are read, so that no file's pages count."""

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
    classifiers.logistic_regression(examples.Examples(states, part, MEMORY_CHUNK), settings)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


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
    args = parser.parse_args()
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
