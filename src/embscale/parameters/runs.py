"""The training runs of a study's language models, by name, from its parameters.

The Snakefile and `embscale plan` read the same list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

BASE = "ladder"  # the suite whose settings the variations share


class Training(NamedTuple):
    """A language model that the study trains: one width, one seed.

    Attributes:
        model: its name, which the runs of all seeds share.
        seed: of the initial weights and of the order of texts.
        suite: the ladder or one of its variations.
        width: columns of the embedding table.
        positions: rotary or learned.
        settings: the parameters of its suite.
    """

    model: str
    seed: int
    suite: str
    width: int
    positions: str
    settings: Mapping[str, Any]

    @property
    def checkpoints(self) -> list[str]:
        """Names of its checkpoints, in the order of training."""
        return [f"step{step}" for step in sorted(self.settings["checkpoints"])]


def suite_of(variation: str) -> str:
    """The suite of a variation of the ladder."""
    return f"{BASE}-{variation}"


def ladders(ladder: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings of the ladder and of its variations by suite.

    A variation names what differs.  One of fewer steps has the ladder's checkpoints up to there, unless it names its
    own.

    Args:
        ladder: the parameters of the ladder.
    """
    return {BASE: dict(ladder)} | {
        suite_of(name): {**ladder, **_checkpoints(ladder, other), **other}
        for name, other in ladder["variations"].items()
    }


def _checkpoints(ladder: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, list[int]]:
    """The ladder's checkpoints within the steps of a variation, if there are any."""
    within = [step for step in ladder["checkpoints"] if step <= other.get("steps", ladder["steps"])]
    return {"checkpoints": within} if within else {}


def all_runs(ladder: Mapping[str, Any]) -> dict[str, Training]:
    """Every run that the factors of the ladder make, also those that are left out.

    The name of a model's first run is the model's; others have their seed behind it.
    """
    return {
        f"{suite}-w{width}" + (f"-seed{seed}" if number else ""): Training(
            f"{suite}-w{width}", seed, suite, width, "rotary", settings
        )
        for suite, settings in ladders(ladder).items()
        for width in settings["widths"]
        for number, seed in enumerate(settings["seeds"])
    }


def runs(ladder: Mapping[str, Any]) -> dict[str, Training]:
    """The runs of the ladder and its variations, without those that are left out."""
    return {name: run for name, run in all_runs(ladder).items() if name not in ladder["left_out"]}


def learned(config: Mapping[str, Any]) -> dict[str, Training]:
    """The run of one more model, with learned positions, of which only the last checkpoint is kept."""
    ladder, width = config["ladder"], config["positions"]["learned_width"]
    settings = {**ladder, "checkpoints": [max(ladder["checkpoints"])]}
    model = f"learned-w{width}"
    return {model: Training(model, ladder["seeds"][0], "learned", width, "learned", settings)}


def tuned_run(config: Mapping[str, Any]) -> str | None:
    """The run of the ladder that tuning need not repeat: of its width, and with its last step saved."""
    ladder, name = config["ladder"], f"{BASE}-w{config['tuning']['dim']}"
    return name if name in runs(ladder) and ladder["steps"] in ladder["checkpoints"] else None
