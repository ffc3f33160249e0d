"""Show what a study would take: bytes, disk, memory, FLOPs and time of each chapter, and what does not fit.

embscale plan studies/paper.yaml

Nothing starts.  The exit status tells whether the study can run here from end to end.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from embscale.cli._numbers import positive
from embscale.errors import EmbscaleError
from embscale.threads import cores

SECONDS_OF_MEASURING = 6.0
GPU_TFLOPS = 50.0  # in float32 with TF32 products, kept up over a whole job; a tenth to a half of what is advertised


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add_study(parser)
    parser.add_argument("--results", type=Path, default=Path("results"), help="where runs are that are trained already")
    parser.add_argument("--no-measure", action="store_true", help="do not time this machine for a few seconds")
    parser.add_argument(
        "--gpu-tflops",
        type=positive,
        default=GPU_TFLOPS,
        metavar="N",
        help=f"10^12 floating-point operations a second that a GPU keeps up ({GPU_TFLOPS:g})",
    )


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
    """Read the study as the workflow does, print its plan; an error names everything that does not fit."""
    from embscale.checkpoints import suites
    from embscale.planning import disk, limits, speed, table, work
    from embscale.planning.models import Models
    from embscale.training import plan

    if not args.gpu_tflops > 0:
        raise EmbscaleError(f"--gpu-tflops {args.gpu_tflops:g}: expected a number above 0")
    config = read_study(args)
    planned = suites.plan_study(config, token=suites.has_token())
    print(suites.render_plan(planned), end="\n\n", flush=True)
    models = Models(config, planned)
    done = plan.look_up(models.trainings, plan.Files.of(config, args.results))
    measured = None if args.no_measure else speed.measure(models.trainings, seconds=SECONDS_OF_MEASURING)
    of_trainings = measured.training if measured else None
    print(plan.render(models.trainings, done=done, speed=of_trainings, cores=cores()), end="\n\n", flush=True)
    jobs, files = work.jobs(models, figures=_figures()), disk.files(models, args.results)
    room = limits.Room.here(args.results)
    needed = disk.need(files, room.disk)
    words = f"Still to be written: {needed.size / 1e9:.1f} GB; {room.disk / 1e9:.1f} GB are free."
    throughput = args.gpu_tflops * 1e12
    print(table.render(models, jobs, files, speed=measured, throughput=throughput, cores=cores(), room_words=words))
    if found := list(limits.problems(models, jobs, needed, room)):
        raise EmbscaleError("\n".join(f"does not fit: {problem}" for problem in found))


def _figures() -> int:
    """Figures of the report: one for each module."""
    from embscale import figures

    return sum(path.stem != "__init__" for path in Path(figures.__path__[0]).glob("*.py"))
