"""What no single parameter can say: values of different groups that exclude each other."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from embscale.parameters import runs


def contradictions(config: dict[str, Any]) -> list[str]:
    """A line for each contradiction between parameters that are all right by themselves.

    Args:
        config: the parameters of a study, already checked against its schema.
    """
    return [
        *_corpus(config),
        *_training(config),
        *_tuning(config),
        *_scores(config),
        *_layers(config),
        *_primer(config),
    ]


def _corpus(config: dict[str, Any]) -> Iterator[str]:
    corpus = config["corpus"]
    packages = [package.partition("==")[0] for package in corpus["packages"]]
    for package in corpus["heldout_packages"]:
        if package not in packages:
            yield f"corpus.heldout_packages: {package} is not among corpus.packages, {', '.join(packages)}"
    if set(packages) <= set(corpus["heldout_packages"]):
        yield "corpus.heldout_packages: all of corpus.packages are held out, and none is left to train on"
    if corpus["task"] == corpus["code_task"]:
        yield f"corpus.code_task: {corpus['code_task']} is also the name of corpus.task; give each its own"


def _training(config: dict[str, Any]) -> Iterator[str]:
    ladder, warm_start, static = config["ladder"], config["warm_start"], config["static"]
    yield from _ladder(ladder)
    widths = {f"{group}.dim": config[group]["dim"] for group in ("tuning", "warm_start")}
    widths["positions.learned_width"] = config["positions"]["learned_width"]
    for name, width in widths.items():
        yield from _odd_width(name, width, "ladder", ladder)
    yield from _late_checkpoint("warm_start", warm_start)
    if warm_start["method"] not in static["methods"]:
        there_are = ", ".join(static["methods"])
        yield f"warm_start.method: {warm_start['method']} is not among static.methods; there are {there_are}"


def _ladder(ladder: dict[str, Any]) -> Iterator[str]:
    """Runs that cannot be trained, suites whose names or runs are those of others, and names that are of no run."""
    suites = runs.ladders(ladder)
    trained: dict[str, list[Any]] = {}
    for (suite, settings), name in zip(suites.items(), [None, *ladder["variations"]], strict=True):
        group, own = ("ladder", ladder) if name is None else (f"ladder.variations.{name}", ladder["variations"][name])
        of_heads = group if "head_width" in own else "ladder"
        if {"widths", "head_width"} & own.keys():
            for width in settings["widths"]:
                yield from _odd_width(f"{group}.widths", width, of_heads, settings)
        if {"steps", "checkpoints"} & own.keys():
            yield from _late_checkpoint(group, settings)
        if name and re.fullmatch(r"w\d+", name):
            yield f"{group}: its suite would have the name of a model, {suite}; choose another name"
        others = {key: value for key, value in settings.items() if key not in ("widths", "seeds")}
        cells = [(width, seed, others) for width in settings["widths"] for seed in settings["seeds"]]
        if same := [earlier for earlier, theirs in trained.items() if all(cell in theirs for cell in cells)]:
            yield f"{group}: its runs are runs of {same[0]} with the same settings; let it differ, or remove it"
        trained[suite] = cells
    every = runs.all_runs(ladder)
    further = [name for name, run in every.items() if name != run.model]
    for name in ladder["left_out"]:
        if name not in further:
            why = "the first run of its model, which the study needs" if name in every else "no run of the study"
            yield f"ladder.left_out: {name} is {why}; there are {', '.join(further) or 'no further runs'}"


def _odd_width(name: str, width: int, group: str, settings: dict[str, Any]) -> Iterator[str]:
    if width % settings["head_width"]:
        yield f"{name}: {width} is no multiple of {group}.head_width, {settings['head_width']}"


def _late_checkpoint(group: str, settings: dict[str, Any]) -> Iterator[str]:
    if (last := max(settings["checkpoints"])) > settings["steps"]:
        yield f"{group}.checkpoints: {last} comes after the last of {group}.steps, {settings['steps']}"


def _tuning(config: dict[str, Any]) -> Iterator[str]:
    grids = config["tuning"]["grids"]
    for method in config["static"]["methods"]:
        if method not in grids:
            yield f"tuning.grids: {method} has no grid; each of static.methods needs one"
    sizes = {method: len(values) for method, grid in grids.items() for values in grid.values()}
    if len(set(sizes.values())) > 1:
        words = ", ".join(f"{method} {size}" for method, size in sizes.items())
        yield f"tuning.grids: unequal numbers of values ({words}); methods are compared after equal tuning"


def _scores(config: dict[str, Any]) -> Iterator[str]:
    own = [config["corpus"]["task"], config["corpus"]["code_task"]]
    scores, tasks = config["scores"], [*own, *config["tasks"]]
    for name, variants in (("", scores["variants"]), (".factors", scores["factors"]["variants"])):
        yield from _same_variants(f"scores{name}.variants", variants)
    if scores["primary_metric"] not in scores["metrics"]:
        yield f"scores.primary_metric: {scores['primary_metric']} is not among scores.metrics"
    comparison = scores["comparison"]
    for name in ("neighbours", "groups"):
        if comparison[name] >= comparison["rows"]:
            yield (
                f"scores.comparison.{name}: {comparison[name]} is not below scores.comparison.rows, "
                f"{comparison['rows']}"
            )
    if config["claims"]["task"] not in tasks:
        yield f"claims.task: {config['claims']['task']} is no task of the study; there are {', '.join(tasks)}"
    limits = {
        "tokenizer.max_length": config["tokenizer"]["max_length"],
        "ladder.context": config["ladder"]["context"],
    }
    for length, (limit, most) in itertools.product(scores["lengths"], limits.items()):
        if length != "all" and length > most:
            yield f"scores.lengths: {length} is above {limit}, {most}"
    ladders = ["ladder", *(f"ladder-{name}" for name in config["ladder"]["variations"])]
    for suite in scores["layers"]["suites"]:
        if suite not in ladders and suite not in config["layers"]["suites"]:
            yield (
                f"scores.layers.suites: {suite} is neither {' nor '.join(ladders)} nor among layers.suites, whose "
                "whole checkpoints are fetched"
            )
    for name, task in zip(("task", "code_task"), own, strict=True):
        if task in config["tasks"]:
            yield f"tasks: {task} is the name of the study's own task, corpus.{name}"


def _same_variants(name: str, variants: list[str]) -> Iterator[str]:
    """Variants that differ in the spelling of their numbers alone, such as ``crop:4`` and ``crop:04``."""
    meant: dict[tuple[Any, ...], str] = {}
    for variant in variants:
        kind, *numbers = variant.split(":")
        try:
            key = (kind, *(float(number) if number[0] in "0123456789.i" else number for number in numbers))
        except ValueError:
            yield f"{name}: {variant} has a part that is no number"
            continue
        if (earlier := meant.setdefault(key, variant)) != variant:
            yield f"{name}: {variant} is the same as {earlier}; keep one of them"


def _layers(config: dict[str, Any]) -> Iterator[str]:
    layers, texts = config["layers"], ["heldout", "code", *config["texts"]]
    if layers["min_tokens"] < layers["tokens"]:
        yield f"layers.min_tokens: {layers['min_tokens']} is below layers.tokens, {layers['tokens']}"
    if layers["first_position"] >= (shortest := min(layers["grid"]["windows"])):
        yield f"layers.first_position: {layers['first_position']} leaves nothing of the shortest window, {shortest}"
    if "ladder" in layers["suites"] and layers["tokens"] > config["ladder"]["context"]:
        yield f"layers.tokens: {layers['tokens']} is above ladder.context, {config['ladder']['context']}"
    own = {f"ladder-w{width}" for width in config["ladder"]["widths"]} & {*layers["grid"]["models"]}
    if own and (widest := max(layers["grid"]["windows"])) > config["ladder"]["context"]:
        yield f"layers.grid.windows: {widest} is above ladder.context, {config['ladder']['context']}"
    names = [source["name"] for source in layers["texts"]]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"layers.texts: two sources have the name {name}"
    for source in layers["texts"]:
        if source["of"] not in texts and "/" not in source["of"] and "." not in source["of"]:
            yield f"layers.texts: {source['of']} is neither a file nor one of {', '.join(texts)}"


def _primer(config: dict[str, Any]) -> Iterator[str]:
    rotary = config["primer"]["rotary"]
    if rotary["pair"] >= rotary["width"] // 2:
        yield f"primer.rotary.pair: {rotary['pair']} is beyond the pairs of primer.rotary.width, {rotary['width']}"
