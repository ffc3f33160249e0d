"""Score a table and its variants in one pass: nested widths, pads and random draws share the data read or drawn."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from embscale.errors import EmbscaleError
from embscale.provenance.artifacts import file_sha256
from embscale.rows import treatments
from embscale.scoring import named_tables
from embscale.scoring.named_tables import NO_KEYS, OF_TASK
from embscale.tables import table_files

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from embscale.scoring.retrieval import Padding, Ranking, Scorer, StoredTable, Table
    from embscale.tables.random_tables import Generator, RandomTable
    from embscale.tables.variants import Rows, Source, Variant


REFERENCE = "reference"

# Baselines that need no table, from `embscale.scoring.lexical`.
CHANCE = "chance"
REFERENCES = ("overlap", "overlap_idf", "bm25", CHANCE)


@dataclass(frozen=True)
class Draw:
    """A random table drawn as in Corey's code; narrower tables are its first columns.

    Attributes:
        rows: tokens.
        columns: of the whole draw.
        seed: of the draw.
        generator: which of torch's generators.
    """

    rows: int
    columns: int
    seed: int
    generator: Generator

    @property
    def text(self) -> str:
        """For the log."""
        return f"{named_tables.RANDOM}:{self.rows}x{self.columns}:{self.seed}:{self.generator}"


@dataclass
class Job:
    """One pass over a table: rankings by prefixes of its columns, and optionally one padded with random columns.

    Attributes:
        name: for the log.
        make: returns the table, given a task and the rows that the texts of all tasks use.
        keys: the identifying columns of a score row, by number of table columns; None means all columns.
        of_task: whether the table depends on the task.
        rows: rows of the table if it is a file, else 0.
        dims: its columns, else 0.
        draw: the random draw that the table consists of or is padded with.
        padding: returns the columns of the pad, given the rows that are used.
        padded: the identifying columns of the padded table's score row.
        table: the table made by `make`.
    """

    name: str
    make: Callable[[Scorer, np.ndarray], Table]
    keys: dict[int | None, list[dict[str, Any]]]
    of_task: bool = False
    rows: int = 0
    dims: int = 0
    draw: Draw | None = None
    padding: Callable[[np.ndarray], Padding] | None = None
    padded: dict[str, Any] = field(default_factory=dict)
    table: Table | None = None

    def untreated(self) -> Job | None:
        """The same for the table as it is, without variants of it; None if there are only variants."""
        full = [keys for keys in self.keys.get(None, []) if treatments.split(keys["variant"])[1] == treatments.FULL]
        # Random tables that are columns of one draw are tables, not variants.
        keys: dict[int | None, list[dict[str, Any]]] = {None: full}
        if self.draw and not self.padding:
            keys = self.keys
        return replace(self, keys=keys, padding=None, padded={}) if any(keys.values()) else None

    def scores(
        self, scorer: Scorer, used: np.ndarray, metrics: Sequence[str]
    ) -> Iterator[tuple[list[dict[str, Any]], pd.DataFrame]]:
        """The scores of every query for `keys` and `padded`; a line tells if vectors are zero, which ties them."""
        for keys, ranking in self._rankings(scorer, used):
            if ranking.zero_documents or ranking.zero_queries:
                print(
                    f"{self.name}: {ranking.zero_documents} documents and {ranking.zero_queries} queries have a vector "
                    f"of zeros in {keys[0]['dim']} columns; their scores are 0, and ties go by document id",
                    file=sys.stderr,
                )
            yield keys, scorer.per_query(ranking, metrics)

    def _rankings(self, scorer: Scorer, used: np.ndarray) -> Iterator[tuple[list[dict[str, Any]], Ranking]]:
        if self.table is None or self.of_task:
            self.table = None  # before the next one is made
            self.table = self.make(scorer, used)
        _, dims = self.table.shape
        by_width: dict[int, list[dict[str, Any]]] = {}
        for asked, several in self.keys.items():
            width = min(asked or dims, dims)
            by_width.setdefault(width, []).extend(keys | {"dim": width} for keys in several)
        widths, padding = sorted(by_width), None
        if self.padding:
            padding = self.padding(used)
            widths, padded = sorted({*widths, dims}), padding.table.shape[1]
            by_width[padded] = [self.padded | {"dim": padded}]
        for width, ranking in scorer.nested(self.table, widths, padding):
            if width in by_width:
                yield by_width[width], ranking


@dataclass
class Reference:
    """A baseline that needs no table."""

    name: str
    keys: dict[str, Any]
    table: None = None

    def untreated(self) -> Reference:
        """Itself."""
        return self

    def scores(
        self, scorer: Scorer, used: np.ndarray, metrics: Sequence[str]
    ) -> Iterator[tuple[list[dict[str, Any]], pd.DataFrame]]:
        """Its only scores; `used` rows of a table do not matter."""
        from embscale.scoring import lexical

        if self.name == CHANCE:
            yield [self.keys], scorer.chance(metrics)
        else:
            yield [self.keys], scorer.per_query(lexical.REFERENCES[self.name](scorer), metrics)


def plan(
    tables: Sequence[str],
    variants: Sequence[str],
    *,
    variants_of: str,
    faithful: bool,
    suite: str,
    model: str | None,
    run: int | None,
    shuffle_seed: int | None,
) -> tuple[list[Job | Reference], list[Path]]:
    """The jobs to run, and the files that they read.

    Args:
        tables: files, ``STEP=FILE``, ``random:ROWSxDIMS:SEED`` or one of `REFERENCES`.
        variants: forms of a table as `embscale.tables.variants` reads them.
        variants_of: which tables have them: ``all``, ``files``, the ``last``, or ``controlled``: the last and, as one
            of its controls, the untrained table of step 0.
        faithful: as in Corey 2024: tables from files are rounded to bfloat16, random tables drawn with its generator.
        suite: recorded in the rows of files.
        model: the same; by default the name of each file.
        run: the same; the seed of the training run, if there are several.
        shuffle_seed: if given, the last table is also scored with its rows shuffled among the tokens, as it is and in
            all variants.

    Raises:
        EmbscaleError: a name has another form, a file holds no table, or the table to be shuffled is no file.
    """
    from embscale.tables.random_tables import COLUMNS, parse_random
    from embscale.tables.variants import Variant

    if shuffle_seed is not None and (named_tables.is_random(tables[-1]) or tables[-1] in REFERENCES):
        raise EmbscaleError(
            f"{tables[-1]}: the last table is no file, so there are no rows to shuffle; drop --shuffle-seed"
        )
    parsed = [Variant.parse(text) for text in variants]
    jobs: list[Job | Reference] = []
    files: list[Path] = []
    draws = Draws()
    nested: dict[Draw, list[RandomTable]] = {}
    for number, text in enumerate(tables):
        last = number == len(tables) - 1
        chosen = {
            "all": True,
            "files": not named_tables.is_random(text),
            "last": last,
            "controlled": last or named_tables.split_step(text)[0] == 0,
        }
        own = parsed if chosen[variants_of] else []
        if text in REFERENCES:
            keys = {"suite": REFERENCE, "model": text, "variant": text, "table_sha256": named_tables.text_sha256(text)}
            jobs.append(Reference(text, NO_KEYS | keys))
        elif named_tables.is_random(text):
            table = parse_random(text)
            if faithful and table.generator is None:
                table = parse_random(f"{text}:legacy")
            if table.generator:
                draw = draws.want(Draw(table.rows, COLUMNS, table.seed, table.generator), table.dims)
                nested.setdefault(draw, []).append(table)
            else:
                jobs.append(_streamed_job(text, table, Variant("full"), named_tables.random_keys(table)))
            jobs += [_changed_random(table, variant) for variant in own]
        else:
            step, path = named_tables.split_step(text)
            files.append(path)
            seed = shuffle_seed if last else None
            jobs += _file_jobs(
                path, step, own, draws, faithful=faithful, suite=suite, model=model, run=run, shuffle_seed=seed
            )
    for draw, several in nested.items():
        widths: dict[int | None, list[dict[str, Any]]] = {}
        for table in several:
            widths.setdefault(table.dims, []).append(named_tables.random_keys(table))
        jobs.append(Job(draw.text, functools.partial(draws.table, draw), widths, draw=draw))
    # Jobs that share a draw are consecutive, and the widest table comes first: it needs the fewest columns for its pad.
    order = {draw: place for place, draw in enumerate(draws.wanted)}
    jobs.sort(key=lambda job: (order[job.draw] + 1, -job.dims) if isinstance(job, Job) and job.draw else (0, 0))
    return jobs, files


def _file_jobs(
    path: Path,
    step: int | None,
    variants: list[Variant],
    draws: Draws,
    *,
    faithful: bool,
    suite: str,
    model: str | None,
    run: int | None,
    shuffle_seed: int | None,
) -> list[Job | Reference]:
    """Jobs for the table of a file and its variants, and for its rows shuffled."""
    from embscale.scoring.retrieval import StoredTable

    table = StoredTable(path, bfloat16=faithful)
    source = Rounded(table.file) if faithful else table.file
    digest = named_tables.text_sha256(f"{file_sha256(path)} bf16") if faithful else file_sha256(path)
    shared = named_tables.file_keys(suite=suite, model=model, run=run, step=step, path=path, table_sha256=digest)
    shared["width"] = table.shape[1]
    jobs = _forms(path.name, table_files.which(path), table, source, variants, draws, shared)
    if shuffle_seed is not None:
        shuffled = Shuffled(table, shuffle_seed)
        name = named_tables.SHUFFLED
        shared["table_sha256"] = named_tables.text_sha256(f"{digest} {name} {shuffle_seed}")
        jobs += _forms(f"{path.name} {name}", name, shuffled, shuffled, variants, draws, shared)
    return jobs


def _forms(
    name: str,
    of: str,
    table: Table,
    source: Rows,
    variants: list[Variant],
    draws: Draws,
    shared: dict[str, Any],
) -> list[Job | Reference]:
    """Jobs for a table and its variants; crops and a pad share one pass."""
    from embscale.tables.variants import Variant

    rows, dims = table.shape
    first: dict[int | None, list[dict[str, Any]]] = {}
    passes = [Job(name, lambda scorer, used: table, first, rows=rows, dims=dims)]
    jobs: list[Job | Reference] = []
    for variant in [Variant("full"), *(variant for variant in variants if variant.kind != "full")]:
        keys = shared | named_tables.variant_keys(variant, of)
        if variant.kind in ("full", "crop"):
            first.setdefault(variant.dims, []).append(keys)
        elif variant.kind == "pad_faithful" and cast("int", variant.dims) > dims:
            columns, seed = cast("int", variant.dims), cast("int", variant.seed)
            if passes[-1].draw:
                passes.append(replace(passes[0], name=variant.text, keys={}))
            passes[-1].draw = draws.want(Draw(rows, columns, seed, cast("Generator", variant.generator)), columns)
            passes[-1].padding, passes[-1].padded = functools.partial(draws.padding, passes[-1].draw), keys
        else:
            jobs.append(_streamed_job(variant.text, source, variant, keys))
    return [*passes, *jobs]


def _changed_random(table: RandomTable, variant: Variant) -> Job:
    """A variant of a random table, such as one with idf weights."""
    keys = named_tables.random_keys(table, variant)
    return _streamed_job(f"{table.text} {variant.text}", table, variant, keys)


def _streamed_job(name: str, table: Source, variant: Variant, keys: dict[str, Any]) -> Job:
    of_task = variant.kind in OF_TASK
    return Job(name, lambda scorer, used: streamed(table, variant, scorer, used), {None: [keys]}, of_task)


def streamed(table: Source, variant: Variant, scorer: Scorer, used: np.ndarray) -> Table:
    """A variant, computed row by row from the first to the last."""
    from embscale.scoring.retrieval import KEPT_BYTES, StreamedTable
    from embscale.tables.variants import Context

    context = Context.of(scorer.documents, table.shape[0]) if variant.kind in OF_TASK else None
    columns = variant.blocks(table, context)

    def blocks(start: int, stop: int) -> Iterator[np.ndarray]:
        return (block[:, start:stop] for block in columns.some(used))

    dims = next(iter(columns)).shape[1]
    return StreamedTable((table.shape[0], dims), used, blocks, kept_bytes=KEPT_BYTES // 2)  # may include directions


class Draws:
    """Random draws as in Corey's code; the latest is cached for the tables that share it.

    Attributes:
        wanted: how many leading columns of each draw are needed.
    """

    def __init__(self) -> None:
        self.wanted: dict[Draw, int] = {}
        self._last: tuple[Draw, Padding] | None = None

    def want(self, draw: Draw, dims: int) -> Draw:
        """Register that a number of leading columns of a draw is needed."""
        self.wanted[draw] = max(dims, self.wanted.get(draw, 0))
        return draw

    def padding(self, draw: Draw, used: np.ndarray) -> Padding:
        """The registered columns, as padding for tables."""
        import torch

        from embscale.scoring.retrieval import Padding, StreamedTable
        from embscale.tables import random_tables

        if self._last is None or self._last[0] != draw:
            self._last = None  # before the next one is made

            def blocks(start: int, stop: int) -> Iterator[np.ndarray]:
                return random_tables.blocks(
                    draw.rows, stop, draw.seed, draw.generator, draw.columns, first=start, only=used
                )

            table = StreamedTable((draw.rows, self.wanted[draw]), used, blocks, torch.bfloat16)
            self._last = draw, Padding(table)
        return self._last[1]

    def table(self, draw: Draw, scorer: Scorer, used: np.ndarray) -> Table:
        """The draw as a table of its own."""
        return self.padding(draw, used).table


class Shuffled:
    """A table on disk with its rows shuffled among the tokens: what a token means is lost, the geometry stays."""

    def __init__(self, table: StoredTable, seed: int) -> None:
        self.table, self.shape = table, table.shape
        self.order = np.random.default_rng(seed).permutation(table.shape[0])

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Rows one after the other."""
        return self.table.columns(self.order[rows], 0, self.shape[1]).numpy()

    def columns(self, rows: np.ndarray, start: int, stop: int) -> torch.Tensor:
        """Some rows of some columns."""
        return self.table.columns(self.order[rows], start, stop)


class Rounded:
    """A table on disk with its values rounded to bfloat16, as in Corey 2024."""

    def __init__(self, table: Rows) -> None:
        self.table, self.shape = table, table.shape

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Rows one after the other."""
        from embscale.checkpoints.dtypes import round_to_bfloat16

        return round_to_bfloat16(self.table[rows])
