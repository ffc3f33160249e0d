"""Show what a study would fetch and train: checkpoints and bytes, runs, tokens, FLOPs, time and disk.  Nothing starts.

embscale plan studies/paper.yaml
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from embscale.errors import EmbscaleError
from embscale.threads import cores

SECONDS_OF_MEASURING = 6.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_study(parser)
    parser.add_argument("--results", type=Path, default=Path("results"), help="where runs are that are trained already")
    parser.add_argument("--no-measure", action="store_true", help="do not time a few steps of each model")


def add_study(parser: argparse.ArgumentParser) -> None:
    """Declare the parameter files; by default those at the root of the repository."""
    parser.add_argument(
        "study", type=Path, nargs="*", metavar="STUDY.yaml", help="overlays; later ones override earlier ones"
    )
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="the base parameters")


def read_study(args: argparse.Namespace) -> dict[str, Any]:
    """The parameters as the workflow reads and checks them."""
    from embscale.parameters import checking as parameters
    from embscale.parameters.study import check_study

    try:
        config = parameters.read(args.params, args.study)
        check_study(config, source=str(args.study[-1] if args.study else args.params))
    except parameters.ParameterError as error:
        raise EmbscaleError(str(error)) from error
    return config


def run(args: argparse.Namespace) -> None:
    """Read the study as the workflow does, print its plan."""
    from embscale.checkpoints import suites
    from embscale.training import plan

    config = read_study(args)
    print(suites.render_plan(suites.plan_study(config, token=suites.has_token())), end="\n\n", flush=True)
    trainings = plan.trainings(config)
    done = plan.look_up(trainings, plan.Files.of(config, args.results))
    speed = None if args.no_measure else plan.measure(trainings, seconds=SECONDS_OF_MEASURING)
    print(plan.render(trainings, done=done, speed=speed, cores=cores()))
