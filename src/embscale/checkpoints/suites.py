"""Published suites of models: the registry, pinned commits, and what a study would fetch.

The Snakefile imports this module, so it may only depend on PyYAML and on what `embscale.parameters.checking` needs.  A
gigabyte is 10^9 bytes everywhere.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from embscale.errors import EmbscaleError
from embscale.parameters.checking import ParameterError, check, read_yaml
from embscale.parameters.runs import all_runs, ladders, learned

SCHEMA = Path(__file__).resolve().parents[3] / "workflow" / "schema" / "suites.schema.yaml"

ITEM_SIZES = {"F16": 2, "BF16": 2, "F32": 4}  # bytes of a value
GB = 1_000_000_000

COMMIT = re.compile(r"[0-9a-f]{40}")
TOKENIZER_REVISION = "main"

# What score rows call that which is no model.
RESERVED = ("random", "reference", "overlap", "overlap_idf", "bm25", "chance")

# Required facts of each model, given for the model or for its suite.
NEEDED = (
    "family", "licence", "gated", "access", "tokenizer", "tied", "dtype", "repo", "revision", "shape", "source", "sure"
)  # fmt: skip

PINS_HEADER = "# The commit that each revision stands for; written by `embscale pin STUDY.yaml`.\n"


@dataclass(frozen=True)
class Checkpoint:
    """One published checkpoint of one model, from the registry.

    Attributes:
        suite: key of its block.
        model: its name in tables and file names.
        repo: on the hub; empty if access is restricted.
        revision: branch or tag.
        commit: all 40 digits; None if the revision is not pinned, empty if the hub has none of that name.
        subfolder: the checkpoint's folder in the repository, or None for the root.
        step: optimiser step, if known.
        family: ``model_type`` of ``config.json``.
        tokenizer: name of its tokenizer.
        tokenizer_repo: the tokenizer's repository.
        tokenizer_commit: like `commit`.
        rows: of the table.
        dims: columns of the table.
        dtype: safetensors name.
        tied: whether the output table is the input table.
        licence: name of its licence.
        licence_url: its text.
        redistributable: whether the licence allows sharing a table.
        gated: whether the hub requires a token of a user who has accepted the licence.
        access: open, or restricted (not on the hub).
        source: where the facts come from.
        sure: how certain the shape is: verified, read, recalled or estimated.
        recalled: names of other facts that come from memory alone.
        tensor: the table's name in the files, if it differs from the family's.
        width: of the blocks.
        depth: number of blocks.
        parameters: of the whole model.
        checkpoint_gb: of the weights in one format.
        tokens_seen: in training so far.
        precision: of training.
        learning_rate: the highest.
        init: distribution of the initial weights, in words.
    """

    suite: str
    model: str
    repo: str
    revision: str
    commit: str | None
    subfolder: str | None
    step: int | None
    family: str
    tokenizer: str
    tokenizer_repo: str
    tokenizer_commit: str | None
    rows: int
    dims: int
    dtype: str
    tied: bool
    licence: str
    licence_url: str
    redistributable: bool
    gated: bool
    access: Literal["open", "restricted"]
    source: str
    sure: str
    width: int
    recalled: tuple[str, ...] = ()
    tensor: str | None = None
    depth: int | None = None
    parameters: int | None = None
    checkpoint_gb: float | None = None
    tokens_seen: int | None = None
    precision: str | None = None
    learning_rate: float | None = None
    init: str | None = None

    @property
    def name(self) -> str:
        """Its name among the checkpoints of its model, in file names and tables of results."""
        return "main" if self.step is None else f"step{self.step}"

    @property
    def table_bytes(self) -> int:
        """Size of the input table."""
        return self.rows * self.dims * ITEM_SIZES[self.dtype]

    @property
    def checkpoint_bytes(self) -> int | None:
        """Size of the weights in one format, if known."""
        return None if self.checkpoint_gb is None else round(self.checkpoint_gb * GB)


@dataclass(frozen=True)
class Planned:
    """The decision for one checkpoint of a study.

    Attributes:
        checkpoint: the checkpoint.
        status: fetch and local are used; the others say why not.
        reason: the status as a sentence.
        local_path: folder of the checkpoint, if it is not fetched.
        whole: whether the whole checkpoint is available, not only its table.
    """

    checkpoint: Checkpoint
    status: Literal["fetch", "local", "gated", "restricted", "missing", "too large", "unpinned"]
    reason: str
    local_path: str | None = None
    whole: bool = False

    @property
    def available(self) -> bool:
        """Whether its table is used."""
        return self.status in ("fetch", "local")

    @property
    def whole_available(self) -> bool:
        """Whether its hidden states can be computed."""
        return self.whole and self.available

    @property
    def source(self) -> str:
        """Its folder, or ``REPO@COMMIT``."""
        return self.local_path or f"{self.checkpoint.repo}@{self.checkpoint.commit}"

    @property
    def fetched_bytes(self) -> int:
        """Bytes to download, now or once it is pinned: the table, and the whole checkpoint if needed."""
        return self.fetched_table_bytes + self.fetched_whole_bytes

    @property
    def fetched_table_bytes(self) -> int:
        """The part of tables in `fetched_bytes`."""
        return self.checkpoint.table_bytes if self._fetched else 0

    @property
    def fetched_whole_bytes(self) -> int:
        """The part of whole checkpoints in `fetched_bytes`."""
        return self.checkpoint.checkpoint_bytes or 0 if self._fetched and self.whole else 0

    @property
    def _fetched(self) -> bool:
        return self.status in ("fetch", "unpinned") and not self.local_path


def load(registry: Path, pins: Path, *, schema: Path = SCHEMA) -> dict[str, list[Checkpoint]]:
    """Every checkpoint of every suite, in order of training; each model's last checkpoint comes last.

    Args:
        registry: ``workflow/suites.yaml``, or a file like it.
        pins: the commits; need not exist.
        schema: JSON schema of the registry.

    Raises:
        EmbscaleError: a file is missing or invalid; one line for each problem.
    """
    blocks = _read_yaml(registry)
    try:
        check(blocks, _read_yaml(schema), source=str(registry))
    except ParameterError as error:
        raise EmbscaleError(str(error)) from error
    commits = {key: pin["commit"] for key, pin in read_pins(pins).items()}
    suites = {
        suite: [point for model in block["models"] for point in _checkpoints(registry, suite, model, block, commits)]
        for suite, block in blocks.items()
    }
    _check_names(registry, [point for points in suites.values() for point in points])
    return suites


def _checkpoints(
    registry: Path, suite: str, model: str, block: Mapping[str, Any], commits: Mapping[str, str]
) -> list[Checkpoint]:
    """The checkpoints of one model, the last one last."""
    where = f"{registry}: {suite}.models.{model}"
    facts = {**block, **block["models"][model]}
    restricted = facts.get("access") == "restricted"
    for key in NEEDED:
        if key not in facts:
            raise EmbscaleError(f"{where}: lacks {key}; give it here or for the whole suite")
    repo = "" if restricted else facts["repo"].replace("{model}", model)
    per_step = facts.get("tokens_per_step")

    def at(step: int | None, revision: str, subfolder: str | None) -> Checkpoint:
        counted = None if step is None or per_step is None else step * per_step
        optional = ("tensor", "depth", "parameters", "checkpoint_gb", "precision", "learning_rate", "init")
        return Checkpoint(
            suite=suite,
            model=model,
            repo=repo,
            revision=revision,
            commit=commits.get(f"{repo}@{revision}"),
            subfolder=subfolder,
            step=step,
            family=facts["family"],
            tokenizer=facts["tokenizer"]["name"],
            tokenizer_repo=facts["tokenizer"]["repo"],
            tokenizer_commit=commits.get(f"{facts['tokenizer']['repo']}@{TOKENIZER_REVISION}"),
            rows=facts["shape"][0],
            dims=facts["shape"][1],
            dtype=facts["dtype"],
            tied=facts["tied"],
            licence=facts["licence"]["name"],
            licence_url=facts["licence"]["url"],
            redistributable=facts["licence"]["redistributable"],
            gated=facts["gated"],
            access=facts["access"],
            source=facts["source"],
            sure=facts["sure"],
            width=facts.get("width", facts["shape"][1]),
            recalled=tuple(key for key in facts.get("recalled", ()) if key in facts),
            tokens_seen=facts.get("tokens_seen") if counted is None else counted,
            **{key: facts[key] for key in optional if key in facts},
        )

    last = at(facts.get("step"), facts["revision"], facts.get("subfolder"))
    return [*(at(step, *place) for step, place in _earlier(where, facts)), last]


def _earlier(where: str, facts: Mapping[str, Any]) -> Iterator[tuple[int, tuple[str, str | None]]]:
    """Earlier steps in order, each with its revision and subfolder."""
    patterns = [key for key in ("step_revision", "step_subfolder") if key in facts]
    if "steps" not in facts:
        if patterns:
            raise EmbscaleError(f"{where}: gives {patterns[0]}, but no steps")
        return
    if len(patterns) != 1 or "{step}" not in facts[patterns[0]]:
        raise EmbscaleError(f"{where}: its steps need one of step_revision and step_subfolder, with {{step}} in it")
    steps: list[int] = []
    for item in facts["steps"]:
        steps += [item] if isinstance(item, int) else range(item["first"], item["last"] + 1, item["every"])
    if steps != sorted(set(steps)) or ("step" in facts and steps and steps[-1] >= facts["step"]):
        raise EmbscaleError(f"{where}: steps are to rise and to end before step, that of the last checkpoint")
    for step in steps:
        place = facts[patterns[0]].replace("{step}", str(step))
        by_revision = patterns == ["step_revision"]
        yield step, (place, facts.get("subfolder")) if by_revision else (facts["revision"], place)


def _check_names(registry: Path, checkpoints: Sequence[Checkpoint]) -> None:
    """Reject ambiguous names, since they become file names."""
    places: dict[tuple[str, str], tuple[str, ...]] = {}
    repos: dict[str, str] = {}
    tokenizers: dict[str, str] = {}
    for point in checkpoints:
        for kind, name, known, repo in (
            ("model", point.model, repos, point.repo),
            ("tokenizer", point.tokenizer, tokenizers, point.tokenizer_repo),
        ):
            if known.setdefault(name, repo) != repo:
                raise EmbscaleError(f"{registry}: {point.suite}: {kind} {name} is {repo} here and {known[name]} before")
        place = (point.revision, point.subfolder or "")
        if places.setdefault((point.model, point.name), place) != place:
            raise EmbscaleError(f"{registry}: {point.suite}: {point.model} has two checkpoints called {point.name}")


def read_pins(path: Path) -> dict[str, dict[str, str]]:
    """``REPO@REVISION`` -> ``{commit, source}``; empty if the file does not exist.

    An empty commit says that the hub had no such repository or revision when it was asked.

    Raises:
        EmbscaleError: the file is invalid.
    """
    if not path.exists():
        return {}
    pins = _read_yaml(path)
    for key, pin in pins.items():
        commit = pin.get("commit") if isinstance(pin, dict) else None
        # YAML reads a commit hash that has only digits as a number.
        if not (isinstance(commit, str) and (commit == "" or COMMIT.fullmatch(commit))):
            raise EmbscaleError(
                f"{path}: {key!r:.80}: expected {{commit: 40 hexadecimal digits in quotes, source: who says so}}"
            )
    return pins


def write_pins(path: Path, pins: Mapping[str, Mapping[str, str]]) -> None:
    """Write the commits atomically, one per line, sorted by name."""
    # JSON strings are valid YAML and stay text whatever they look like.
    lines = [
        f"{json.dumps(key)}: {{commit: {json.dumps(pin['commit'])}, source: {json.dumps(pin.get('source', ''))}}}\n"
        for key, pin in sorted(pins.items())
    ]
    part = path.with_name(f".{path.name}.part")
    part.write_text(PINS_HEADER + "".join(lines), "utf-8")
    part.replace(path)


def _read_yaml(path: Path) -> dict[str, Any]:
    """Read a group of keys; an empty file is an empty one."""
    try:
        return read_yaml(path)
    except ParameterError as error:
        raise EmbscaleError(str(error)) from error


def has_token() -> bool:
    """Whether the hub's client would find a token; the token itself is not checked."""
    if os.environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    if any(os.environ.get(name, "").strip() for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")):
        return True
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("HF_HOME", f"{cache}/huggingface")
    path = Path(os.path.expandvars(os.environ.get("HF_TOKEN_PATH", f"{home}/token"))).expanduser()
    return path.is_file() and path.stat().st_size > 0


def plan_study(config: Mapping[str, Any], *, token: bool) -> list[Planned]:
    """The plan of a study, from its parameters.

    Raises:
        EmbscaleError: as `load` and `plan` do.
    """
    hub = config["hub"]
    planned = plan(
        load(Path(hub["registry"]), Path(hub["pins"])),
        config["suites"],
        layer_suites=config["layers"]["suites"],
        local_paths=hub["local_paths"],
        token=token,
        max_table_gb=hub["max_table_gb"],
        max_checkpoint_gb=hub["max_checkpoint_gb"],
        max_download_gb=hub["max_download_gb"],
    )
    own = config["tokenizer"]["name"]
    for item in planned:
        if item.checkpoint.tokenizer == own:
            raise EmbscaleError(f"tokenizer.name: {own} is that of {item.checkpoint.suite} too; choose another")
    _check_own_names(config, planned)
    return planned


def _check_own_names(config: Mapping[str, Any], planned: Sequence[Planned]) -> None:
    """Reject published suites and models whose names the study gives to its own: one would take the other's place."""
    ladder, static = config["ladder"], config["static"]
    models = {*all_runs(ladder), *learned(config), *RESERVED}
    models |= {f"{method}-d{dim}" for method in static["methods"] for dim in static["dims"]}
    suites = {*ladders(ladder), *static["methods"], *RESERVED}
    for kind, own, found in (
        ("model", models, {item.checkpoint.model for item in planned}),
        ("suite", suites, {item.checkpoint.suite for item in planned}),
    ):
        # Files of names that differ in capitals alone are one file on some disks.
        taken = {name.casefold() for name in own}
        for name in sorted(found):
            if name.casefold() in taken:
                raise EmbscaleError(
                    f"{config['hub']['registry']}: {kind} {name} is also the name of one of the study's own; rename it"
                )


def plan(
    registry: Mapping[str, Sequence[Checkpoint]],
    suites: Sequence[str],
    *,
    layer_suites: Sequence[str],
    local_paths: Mapping[str, str],
    token: bool,
    max_table_gb: float,
    max_checkpoint_gb: float,
    max_download_gb: float,
) -> list[Planned]:
    """Decide for each checkpoint of a study's suites whether it is used; each model's last checkpoint comes last.

    Args:
        registry: all suites.
        suites: those of the study.  A model in several suites belongs to the first.
        layer_suites: those whose last checkpoints are needed whole; names that are not published suites are ignored.
        local_paths: folders of last checkpoints, by model.
        token: whether there is one, so that gated checkpoints can be fetched.
        max_table_gb: larger tables are left out.
        max_checkpoint_gb: larger checkpoints are not fetched whole.
        max_download_gb: limit for everything together.

    Raises:
        EmbscaleError: a suite or model is not known, a folder is not there, or the study would fetch too much.
    """
    models = _chosen(registry, suites)
    for suite in layer_suites:
        if suite in registry and suite not in suites:
            raise EmbscaleError(f"layers.suites: {suite} is not among the study's suites; add it there too")
    for model, folder in local_paths.items():
        if model not in models:
            raise EmbscaleError(f"hub.local_paths: no model {model} in this study{_meant(model, models)}")
        if not Path(folder).is_dir():
            raise EmbscaleError(f"hub.local_paths.{model}: {folder}: no such folder")

    planned = []
    for model, points in models.items():
        for point in points:
            last = point is points[-1]
            item = _decide(point, local_paths.get(model) if last else None, token, max_table_gb)
            if last and item.status in ("fetch", "unpinned") and point.suite in layer_suites:
                item = _decide_whole(item, max_checkpoint_gb)
            planned.append(item)
    total = sum(item.fetched_bytes for item in planned) / GB
    if total > max_download_gb:
        raise EmbscaleError(
            f"the study would fetch {total:.1f} GB, but hub.max_download_gb is {max_download_gb:g}: "
            "raise it, or leave out suites"
        )
    return planned


def _chosen(registry: Mapping[str, Sequence[Checkpoint]], suites: Sequence[str]) -> dict[str, list[Checkpoint]]:
    """The distinct checkpoints of each model of the given suites, in order of steps."""
    chosen: dict[str, dict[str, Checkpoint]] = {}
    owner: dict[str, str] = {}
    for suite in suites:
        if suite not in registry:
            raise EmbscaleError(f"suites: no suite {suite}{_meant(suite, registry)}; known are {', '.join(registry)}")
        for point in registry[suite]:
            first = owner.setdefault(point.model, suite)
            chosen.setdefault(point.model, {}).setdefault(point.name, replace(point, suite=first))
    return {
        model: sorted(points.values(), key=lambda point: (point.step is None, point.step or 0))
        for model, points in chosen.items()
    }


def _meant(given: str, known: Mapping[str, object]) -> str:
    """`` (did you mean opt-125m?)`` if a known name is close."""
    close = difflib.get_close_matches(given, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _decide(point: Checkpoint, local_path: str | None, token: bool, max_table_gb: float) -> Planned:
    """Decide whether and how to get the table of a checkpoint."""
    licence = f"{point.licence} ({point.licence_url})"
    if point.access == "restricted" and not local_path:
        who = f"who has it names its folder as hub.local_paths.{point.model}"
        return Planned(point, "restricted", f"On no hub, under the {licence}; {who}.")
    if point.gated and not token and not local_path:
        return Planned(point, "gated", f"Gated: accept the {licence} and log in with a token.")
    size = point.table_bytes / GB
    if size > max_table_gb:
        return Planned(point, "too large", f"Its table of {size:.2f} GB is above hub.max_table_gb, {max_table_gb:g}.")
    if local_path:
        # The folder is the checkpoint itself, so there is neither commit nor subfolder.
        point = replace(point, commit=None, subfolder=None)
    needed = {} if local_path else {f"{point.repo}@{point.revision}": point.commit}
    needed[f"{point.tokenizer_repo}@{TOKENIZER_REVISION}"] = point.tokenizer_commit
    gone = " and no ".join(key for key, commit in needed.items() if commit == "")
    if gone:
        again = "if it is back, embscale pin STUDY.yaml --again finds it"
        return Planned(point, "missing", f"The hub has no {gone}; {again}.")
    missing = " and ".join(key for key, commit in needed.items() if commit is None)
    if missing:
        reason = f"No commit of {missing} is known: run embscale pin STUDY.yaml."
        return Planned(point, "unpinned", reason, local_path, whole=local_path is not None)
    if local_path:
        return Planned(point, "local", f"Read from {local_path}.", local_path, whole=True)
    return Planned(point, "fetch", f"Its table of {size:.3f} GB is fetched.")


def _decide_whole(item: Planned, max_checkpoint_gb: float) -> Planned:
    """Decide whether to get the whole checkpoint as well as its table."""
    if item.local_path:
        return item
    size = item.checkpoint.checkpoint_gb
    so_far = item.reason.removesuffix(".")
    if size is None:
        return replace(item, reason=f"{so_far}; not the whole checkpoint, whose size is not known.")
    if size > max_checkpoint_gb:
        limit = f"hub.max_checkpoint_gb, {max_checkpoint_gb:g}"
        return replace(item, reason=f"{so_far}; not the whole checkpoint: its {size:g} GB are above {limit}.")
    return replace(item, reason=f"{so_far}; so is the whole checkpoint of {size:g} GB.", whole=True)


def check_pinned(planned: Sequence[Planned]) -> None:
    """Stop if something is not pinned to a commit, since its content could change.

    Raises:
        EmbscaleError: something is not pinned.
    """
    missing = [item for item in planned if item.status == "unpinned"]
    if missing:
        more = f", and that of {len(missing) - 1} more checkpoints" if len(missing) > 1 else ""
        raise EmbscaleError(missing[0].reason.replace(" is known:", f"{more} is known:"))


def revisions(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every ``(repo, revision)`` of a study that needs a pinned commit, tokenizers included.

    Raises:
        EmbscaleError: as `load` does, or a suite is not known.
    """
    registry = load(Path(config["hub"]["registry"]), Path(config["hub"]["pins"]))
    points = [point for model in _chosen(registry, config["suites"]).values() for point in model]
    needed = [(point.repo, point.revision) for point in points if point.access == "open"]
    return list(dict.fromkeys([*needed, *((point.tokenizer_repo, TOKENIZER_REVISION) for point in points)]))


def render_plan(planned: Sequence[Planned]) -> str:
    """The plan as text: a line for each model, totals for each suite, and what is left out and why."""
    if not planned:
        return "No published suites: nothing would be fetched."
    rows = [("model", "tables", "rows × columns", "table GB", "whole GB", "status")]
    for suite in dict.fromkeys(item.checkpoint.suite for item in planned):
        items = [item for item in planned if item.checkpoint.suite == suite]
        rows.append((suite, *_sums(items)))
        rows += [(f"  {model}", *_sums(group)) for (model, _), group in _groups(items, "model").items()]
    rows.append(("total", *_sums(planned)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for model, *numbers, status in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(numbers, widths[1:], strict=False)]
        lines.append("  ".join([f"{model:{widths[0]}}", *cells, status]))
    total = sum(item.fetched_bytes for item in planned) / GB
    lines += ["", f"To fetch: {total:.2f} GB, which need as much disk."]
    left_out = [item for item in planned if not item.available]
    lines += ["", "Not yet or not at all:"] if left_out else []
    for (suite, status), items in _groups(left_out, "suite").items():
        several = f"{suite}: {len(items)} {status}, such as " if len(items) > 1 else ""
        lines.append(f"  {several}{items[0].checkpoint.model}: {items[0].reason}")
    return "\n".join(line.rstrip() for line in lines)


def _groups(planned: Sequence[Planned], fact: Literal["suite", "model"]) -> dict[tuple[str, str], list[Planned]]:
    """Checkpoints by suite or model, and by status."""
    groups: dict[tuple[str, str], list[Planned]] = {}
    for item in planned:
        groups.setdefault((getattr(item.checkpoint, fact), item.status), []).append(item)
    return groups


def _sums(planned: Sequence[Planned]) -> tuple[str, str, str, str, str]:
    """Cells of a line: number of tables, their common shape, gigabytes to fetch of tables and of the rest, statuses."""
    tables = sum(item.available or item.status == "unpinned" for item in planned)
    shapes = {f"{item.checkpoint.rows} × {item.checkpoint.dims}" for item in planned}
    statuses = Counter(item.status for item in planned)
    statuses_text = ", ".join(
        status if len(statuses) == 1 else f"{count} {status}" for status, count in statuses.items()
    )
    sizes = [sum(item.fetched_table_bytes for item in planned), sum(item.fetched_whole_bytes for item in planned)]
    table, whole = (f"{size / GB:.3f}" if size else "" for size in sizes)
    return str(tables), shapes.pop() if len(shapes) == 1 else "", table, whole, statuses_text
