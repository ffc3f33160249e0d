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

import yaml

PARAMS, TEMPLATE = Path("params.yaml"), Path("dvc.yaml")
OVERLAYS, RECORDS, SITE = Path("studies"), Path("recorded"), Path("report/_site")
HEAD = "# Made from dvc.yaml by workflow/lib/pipelines.py; `make record STUDY={study}` writes it anew.\n"
RUN = "snakemake --cores all --"


class UnknownStudyError(ValueError):
    """There is no such study, or its overlay cannot be used; the message says what to do."""


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
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except yaml.YAMLError as error:
        raise UnknownStudyError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    named = content.get("study") if isinstance(content, dict) else None
    if named != study:
        raise UnknownStudyError(f"{path}: expected `study: {study}`, as the file is named, not {named!r}")
    return path


def configuration(study: str) -> list[str]:
    """The arguments of Snakemake that choose a study.

    Raises:
        UnknownStudyError: there is no such study.
    """
    path = overlay(study)
    return ["--configfile", path.as_posix()] if path else []


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

    Each stage runs with the overlay and depends on all of it; its pages lie in a folder of the study's own.  Folders
    are made first, as a study may have nothing for one of them, and DVC expects each output.

    Args:
        template: the text of dvc.yaml.
        study: the overlay's name.
    """
    path = (OVERLAYS / f"{study}.yaml").as_posix()
    text = template.replace("${study}", study).replace(RUN, f"{RUN.removesuffix('--')}--configfile {path} --")
    text = re.sub(rf"(?<![\w/]){SITE.as_posix()}/", f"{SITE.as_posix()}/studies/{study}/", text)
    top = "/".join(".." for _ in (RECORDS / study).parts)
    stages = {}
    for name, stage in yaml.safe_load(text)["stages"].items():
        commands = stage["cmd"] if isinstance(stage["cmd"], list) else [stage["cmd"]]
        folders = [out for found in stage["outs"] for out in found if not Path(out).suffix]
        changed = {"cmd": [*([f"mkdir -p {' '.join(folders)}"] if folders else []), *commands]}
        if "params" in stage:
            changed["params"] = [*stage["params"], {path: None}]
        stages[name] = {"wdir": top} | stage | changed
    return HEAD.format(study=study) + yaml.safe_dump({"stages": stages}, sort_keys=False, width=1000)


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
