"""The pipelines of DVC: of the study in params.yaml, dvc.yaml; of every other study, the same stages beside its record.

A study other than that of params.yaml is an overlay, ``studies/NAME.yaml``.  Its pipeline, ``recorded/NAME/dvc.yaml``,
is made from dvc.yaml when it is first recorded, so that a plain ``dvc repro`` never starts it, and ``dvc status`` knows
the recorded studies alone.  Part of ``make record``.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import yaml

PARAMS, TEMPLATE = Path("params.yaml"), Path("dvc.yaml")
OVERLAYS, RECORDS, SITE = Path("studies"), Path("recorded"), Path("report/_site")
HEAD = (
    "# Made from dvc.yaml by workflow/lib/pipelines.py, which says why; `make record STUDY={study}` writes it anew.\n"
)


class UnknownStudyError(ValueError):
    """There is no such study; the message says which there are."""


def default_study() -> str:
    """The study of params.yaml."""
    return str(yaml.safe_load(PARAMS.read_text("utf-8"))["study"])


def overlay(study: str) -> Path | None:
    """The overlay of a study; None of that of params.yaml.

    Raises:
        UnknownStudyError: there is none, or it gives the study another name.
    """
    default = default_study()
    if study == default:
        return None
    path = OVERLAYS / f"{study}.yaml"
    if not path.is_file():
        known = ", ".join([default, *sorted(found.stem for found in OVERLAYS.glob("*.yaml"))])
        raise UnknownStudyError(f"STUDY={study}: no file {path}; there are {known}")
    named = (yaml.safe_load(path.read_text("utf-8")) or {}).get("study")
    if named != study:
        raise UnknownStudyError(f"{path}: expected `study: {study}`, as the file is named, not {named!r}")
    return path


def pipeline(study: str) -> Path:
    """The file with a study's stages; it need not exist.

    Raises:
        UnknownStudyError: there is no such study.
    """
    return TEMPLATE if overlay(study) is None else RECORDS / study / TEMPLATE


def lock(study: str) -> Path:
    """The file with the digests of a study's record; it need not exist.

    Raises:
        UnknownStudyError: there is no such study.
    """
    return pipeline(study).with_suffix(".lock")


def site(study: str) -> Path:
    """The folder of a study's pages."""
    return SITE if study == default_study() else SITE / "studies" / study


def of_overlay(template: str, study: str) -> str:
    """The pipeline of a study that is an overlay.

    Each stage runs with the overlay and depends on all of it; its pages lie in a folder of the study's own.

    Args:
        template: the text of dvc.yaml.
        study: the overlay's name.
    """
    path = (OVERLAYS / f"{study}.yaml").as_posix()
    text = template.replace("${study}", study).replace("snakemake --cores all --", _with_overlay(path))
    text = re.sub(rf"(?<=[ ]){SITE}/", f"{SITE.as_posix()}/studies/{study}/", text)
    stages: dict[str, Any] = yaml.safe_load(text)["stages"]
    top = "/".join(".." for _ in (RECORDS / study).parts)
    made = {
        name: {"wdir": top}
        | {key: [*value, {path: None}] if key == "params" else value for key, value in stage.items()}
        for name, stage in stages.items()
    }
    return HEAD.format(study=study) + yaml.safe_dump({"stages": made}, sort_keys=False, width=1000)


def _with_overlay(path: str) -> str:
    return f"snakemake --cores all --configfile {path} --"


def write(study: str) -> None:
    """Write the pipeline of a study, unless it is that of params.yaml, which is written by hand.

    Raises:
        UnknownStudyError: there is no such study.
    """
    path = pipeline(study)
    if path != TEMPLATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(of_overlay(TEMPLATE.read_text("utf-8"), study), "utf-8")


def main() -> int:
    """Print where the pipeline of a study lies; 1 after a line that says that there is no such study."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("study", help="its name")
    parser.add_argument("--write", action="store_true", help="write it")
    args = parser.parse_args()
    try:
        if args.write:
            write(args.study)
        print(pipeline(args.study))
    except UnknownStudyError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
