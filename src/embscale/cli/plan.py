"""Show what a study would fetch: checkpoints, bytes, disk, and what is left out and why.  Nothing is fetched.

embscale plan studies/paper.yaml
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from embscale.errors import EmbscaleError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_study(parser)


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

    print(suites.render_plan(suites.plan_study(read_study(args), token=suites.has_token())))
