"""Made-up scores and losses of a ladder with variations, whose crossings, effects and laws are known."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from embscale.answers.trained import Trained
from embscale.scoring import scores
from embscale.scoring.scores import NONE, TaskScores

STEPS = (0, 25, 50, 100, 200, 400, 800, 1200, 1600, 2400, 3200, 4000, 4800, 6400, 8000, 9600, 12000)
PER_STEP = 1024
WIDTHS, SEEDS, DRAWS = (16, 32, 64, 128), (1, 2, 3), (42, 43, 44, 45, 46)
# Tokens at which a width's mean curve crosses, by suite and width.
CROSSING = {16: 2.0e6, 32: 3.0e6, 64: 4.5e6, 128: 7.0e6}
SUITES = {
    "ladder": {width: {} for width in WIDTHS},
    "ladder-tied": {width: {"crossing": 2.0, "loss": 0.15} for width in WIDTHS},
    "ladder-frozen": {64: {"crossing": np.inf, "loss": 0.4}},
    "ladder-depth8": {64: {}},
}
RANDOM = {16: 0.03, 32: 0.06, 64: 0.12, 128: 0.18}
KEYS = {
    "run": NONE, "step": NONE, "tokenizer": "t", "variant": "full", "variant_dims": NONE, "strength": NONE,
    "seed": NONE, "dim": NONE, "width": NONE, "pooling": "mean", "special_tokens": "exclude", "task": "T",
    "length": "64", "metric": "ndcg_at_10", "table_sha256": "x", "tokenizer_sha256": "y", "data_sha256": "z",
}  # fmt: skip


def less_random(width, tokens, crossing):
    """A dip, then a rise through zero at `crossing`, in proportion to the level of random tables."""
    if np.isinf(crossing):
        return -0.2 * RANDOM[width] * np.minimum(1, tokens / 1e6)
    early = np.minimum(tokens, 1.2e6) / 1.2e6
    dip = -0.3 * np.log2(crossing / 1.2e6) * early
    rise = 0.3 * np.log2(np.maximum(tokens, 1.2e6) / 1.2e6)
    return RANDOM[width] * (dip + rise)


def loss(width, tokens, more=0.0):
    """A power law with an offset in tokens, and one in width."""
    return 1.5 + more + 0.8 * (width / 64) ** -0.2 + 6.0 * (1 + tokens / 1e5) ** -0.5


def scored(suites=SUITES, *, queries=300, seed=0, spread=0.004, steps=STEPS, seeds=SEEDS, idf=0.0, particular=0.05):
    """Scores of the suites and of random tables, ``full`` at every step, ``unit`` and ``idf`` at both ends.

    Args:
        suites: what differs by suite and width: ``crossing``, a factor.
        queries: how many, three to a cluster.
        seed: of the noise.
        spread: standard deviation between runs.
        steps: of the checkpoints.
        seeds: of the runs.
        idf: what is added to trained less random with idf weights.
        particular: standard deviation of what is particular to a run, a step and a query.
    """
    rng = np.random.default_rng(seed)
    shared = rng.normal(0, 0.1, queries)[:, None] + rng.normal(0, 0.05, queries // 3 + 1)[np.arange(queries) // 3, None]
    keys, columns = [], []

    def add(level, **own):
        keys.append(KEYS | own)
        columns.append(np.clip(0.4 + level + shared[:, 0] + rng.normal(0, particular, queries), 0, 1))

    tokens = np.array(steps) * PER_STEP
    of_seeds = {key: rng.normal(0, spread) for key in seeds}
    for suite, widths in suites.items():
        for width, other in widths.items():
            apart = less_random(width, tokens, CROSSING[width] * other.get("crossing", 1.0))
            for run in seeds:
                own = of_seeds[run] + rng.normal(0, spread / 4)
                model = {"suite": suite, "model": f"{suite}-w{width}", "run": run, "width": width, "dim": width}
                for step, value in zip(steps, apart, strict=True):
                    add(RANDOM[width] + value + own, **model, step=step)
                    if step in (steps[0], steps[-1]):
                        add(RANDOM[width] + value + own, **model, step=step, variant="unit")
                        add(RANDOM[width] + value + own + idf, **model, step=step, variant="idf")
    for width in sorted({width for widths in suites.values() for width in widths}):
        for draw in DRAWS:
            own = {"suite": "random", "model": "random", "width": width, "dim": width, "seed": draw}
            level = RANDOM[width] + rng.normal(0, spread / 2)
            add(level, **own, variant="random", variant_dims=width)
            add(level, **own, variant="random+unit")
            add(level, **own, variant="random+idf")
    add(-0.4, suite="reference", model="chance", variant="chance")
    columns[-1] = np.full(queries, 0.001)
    table = pd.DataFrame(keys)[scores.KEYS]
    return TaskScores("T", table, np.stack(columns, axis=1), np.arange(queries) // 3, np.zeros(queries, bool))


def runs(suites=SUITES, *, seed=0, spread=0.01, steps=STEPS, seeds=SEEDS):
    """The training runs of the suites."""
    rng = np.random.default_rng(seed)
    of_seeds = {key: rng.normal(0, spread) for key in seeds}
    found = []
    for suite, widths in suites.items():
        for width, other in widths.items():
            for run in seeds:
                values = loss(width, np.array(steps) * PER_STEP, other.get("loss", 0.0)) + of_seeds[run]
                values = values + rng.normal(0, spread / 10, len(values))
                found.append(
                    Trained(
                        suite, f"{suite}-w{width}", width, run,
                        {step: step * PER_STEP for step in steps},
                        dict(zip(steps, values.tolist(), strict=True)),
                        {"tokens": steps[-1] * PER_STEP, "operations": 1e9 * width * steps[-1], "seconds": width * 1.0},
                    )
                )  # fmt: skip
    return found


def tokens(found):
    return {run.model: run.tokens for run in found}


def write(folder, made, trained):
    """The files of a study: one of scores, and a folder for each run; the flags of ladder-answers that name them."""
    frame = pd.concat(
        [
            pd.DataFrame([keys] * len(made.scores)).assign(
                query=[f"q{i:04d}" for i in range(len(made.scores))], cluster=made.clusters, heldout=made.heldout,
                score=made.scores[:, place],
            )
            for place, keys in enumerate(made.keys.to_dict("records"))
        ],
        ignore_index=True,
    )  # fmt: skip
    scores.write_parquet(frame, folder / "scores.parquet")
    flags = [str(folder / "scores.parquet")]
    for run in trained:
        own = Path(folder) / f"{run.model}-{run.seed}"
        own.mkdir()
        rows = pd.DataFrame({"step": list(run.loss), "tokens": list(run.tokens.values()), "loss": 1.0})
        rows.assign(heldout_loss=list(run.loss.values())).to_csv(own / "losses.csv", index=False)
        (own / "costs.json").write_text(json.dumps({"steps": max(run.loss)} | dict(run.cost)))
        flags += ["--run", run.suite, str(run.width), str(run.seed), str(own)]
    return flags
