"""Score the first study's whole grid: 37 tables in 4 variants; random tables of 5 tokenizers, 15 widths and 4 seeds.

    python benchmarks/grid.py [--fraction FRACTION] [--scratch FOLDER] [--only SUITE ...] [--skip-study]

The corpus is synthetic, of SCIDOCS's size; the tables are synthetic, of the shapes and dtypes in workflow/suites.yaml.
They are written before the clock starts, one suite at a time, and removed after it.  One `embscale score` in a process
of its own scores a suite: full, the first 128 columns, random, and padded to 14,336 columns, all metrics included, each
query's score kept.  Where its time goes is measured around the functions that it calls; `rest` is what is left of the
process, imports above all.  `cpu` is the time of all threads, which other work on the machine lengthens less.  Bytes
come from the page cache where memory allows.

The first study's route is run on a sample of the documents, and its time fitted as linear in documents, columns and
their product; it draws a random table of 14,336 columns for every model, and for every tokenizer and seed.  Words are
looked up here, where its tokenizers merge bytes, so that its tokenising takes less time than it did.
"""

import argparse
import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import yaml

SUITES = ("pythia", "opt", "cerebras-gpt", "bloom", "t5-v1_1")
COLUMNS = 14_336
CROP = 128
DIMS = (128, 256, 512, 768, 1024, 1088, 1536, 2048, 2560, 4096, 5120, 7168, 9216, 12_288, COLUMNS)
SEEDS = (42, 43, 6573, 7776)
METRICS = ("ndcg_at_10", "map_at_10", "map_at_100", "recall_at_100")

# SCIDOCS: 25,657 documents of 176 words, 1,000 queries, 30 judged documents for each, of which 5 are relevant.
DOCUMENTS, QUERIES, JUDGED, RELEVANT = 25_657, 1000, 30, 5
TOKENS, QUERY_TOKENS = 240, 13
WORDS = 60_000

# The study's route: documents and columns of the sample.
SAMPLE_DOCUMENTS, SAMPLE_DIMS = (320, 960), (128, 2048, COLUMNS)

STAGES = ("read", "draw", "tokenise", "pool", "search", "metrics", "write", "rest")


def suites(fraction):
    """Each suite's models with shape and dtype, rows times the fraction."""
    registry = yaml.safe_load(Path("workflow/suites.yaml").read_text("utf-8"))

    def shape(suite, model):
        facts = registry[suite] | registry[suite]["models"][model]
        rows, dims = facts["shape"]
        return round(rows * fraction), dims, facts["dtype"]

    return {suite: {model: shape(suite, model) for model in registry[suite]["models"]} for suite in SUITES}


def vocabulary(tables):
    """Rows that a suite's tokenizer has use for: the larger models of Pythia have some more."""
    return min(rows for rows, _, _ in tables.values())


def write_corpus(folder, fraction):
    from embscale.texts import beir

    generator = np.random.default_rng(0)
    chances = 1 / np.arange(1, WORDS + 1)
    words = np.array([f"w{i}" for i in range(WORDS)], dtype=object)

    def texts(prefix, lengths):
        found = words[generator.choice(WORDS, lengths.sum(), p=chances / chances.sum())]
        ends = np.cumsum(lengths)
        for number, (start, stop) in enumerate(zip(ends - lengths, ends, strict=True)):
            yield {"_id": f"{prefix}{number:08x}", "title": "", "text": " ".join(found[start:stop])}

    documents, queries = round(DOCUMENTS * fraction), round(QUERIES * fraction)
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_bytes(beir.jsonl_bytes(texts("d", generator.poisson(TOKENS, documents))))
    lengths = 1 + generator.poisson(QUERY_TOKENS - 1, queries)
    (folder / "queries.jsonl").write_bytes(beir.jsonl_bytes(texts("q", lengths)))
    judged = [
        f"q{query:08x}\td{document:08x}\t{int(place < RELEVANT)}"
        for query in range(queries)
        for place, document in enumerate(generator.choice(documents, JUDGED, replace=False))
    ]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged, ""]))


def write_tokenizer(folder, rows):
    """Words as tokens, at places all over the table."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    places = np.random.default_rng(1).permutation(rows).tolist()
    tokenizer = Tokenizer(models.WordLevel({f"w{i}": place for i, place in enumerate(places)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))


def write_table(path, rows, dims, dtype, seed):
    """Each row is a run of the same normal values, from another place on: fast to make, and no two are equal."""
    from embscale.tables import table_files as tables

    generator = np.random.default_rng(seed)
    values = generator.standard_normal(2**24 + COLUMNS, dtype=np.float32) * np.float32(0.02)
    stored = (values.view(np.uint32) >> 16).astype("<u2") if dtype == "BF16" else values.astype(tables.STORED[dtype])
    places = generator.permutation(2**24)[:rows]
    with path.open("wb") as file:
        file.write(tables.header(dtype, (rows, dims), {}))
        for start in range(0, rows, 4096):
            some = places[start : start + 4096, None] + np.arange(dims)
            file.write(stored[some].data)


class Clock:
    """Time of each stage, less that of the stages inside it."""

    def __init__(self):
        self.seconds, self.inside, self.counts = dict.fromkeys(STAGES, 0.0), [], {}

    @contextlib.contextmanager
    def measured(self, stage):
        started, above = time.perf_counter(), self.inside
        self.inside = []
        try:
            yield
        finally:
            took = time.perf_counter() - started
            self.seconds[stage] += took - sum(self.inside)
            self.inside = [*above, took]

    def around(self, owner, name, stage):
        function = getattr(owner, name)

        @functools.wraps(function)
        def timed(*args, **kwargs):
            self.counts[name] = self.counts.get(name, 0) + 1
            with self.measured(stage):
                return function(*args, **kwargs)

        setattr(owner, name, timed)


def score(argv):
    """Run embscale score, and print where its time went."""
    from embscale.cli import execute
    from embscale.cli import score as command
    from embscale.provenance import artifacts
    from embscale.scoring import retrieval, scores
    from embscale.texts import beir, tokens

    clock = Clock()
    for owner, name, stage in (
        (artifacts, "file_sha256", "read"),
        (command, "file_sha256", "read"),
        (retrieval.StoredTable, "columns", "read"),
        (retrieval.StreamedTable, "columns", "draw"),
        (beir, "load", "tokenise"),
        (tokens, "load_tokenizer", "tokenise"),
        (tokens, "tokenise", "tokenise"),
        (retrieval.Scorer, "__init__", "tokenise"),
        (retrieval.PooledTexts, "pool", "pool"),
        (retrieval.Products, "add", "search"),
        (retrieval.Products, "__add__", "search"),
        (retrieval.Products, "cosines", "search"),
        (retrieval.Scorer, "ranked", "search"),
        (retrieval.Scorer, "per_query", "metrics"),
        (scores, "summarise", "write"),
        (scores, "long_rows", "write"),
        (scores, "write_parquet", "write"),
    ):
        clock.around(owner, name, stage)
    assert execute("score", argv) == 0
    found = {"seconds": clock.seconds, "rankings": clock.counts["per_query"]}
    print(json.dumps(found | {"cpu": time.process_time(), "peak": peak_memory()}))


def study(sample):
    """Time the first study's route on some documents and columns, and its draw of a random table."""
    import torch
    from scoring import EachByItself, through_mteb
    from sentence_transformers import SentenceTransformer
    from transformers import AutoTokenizer

    from embscale.texts import beir

    data = beir.load(Path(sample["beir"]))
    tokenizer = AutoTokenizer.from_pretrained(sample["tokenizer"])
    rows = sample["rows"]
    torch.manual_seed(SEEDS[0])
    *draw, table = measured(lambda: torch.nn.init.xavier_normal_(torch.empty(rows, COLUMNS, dtype=torch.bfloat16)))
    found = []
    for documents in sample["documents"]:
        some = dict(list(data.documents.items())[:documents])
        judged = {query: {next(iter(some)): 1} for query in data.queries}
        part = beir.RetrievalData(data.name, some, data.queries, judged, data.sha256)
        for dims in sample["dims"]:
            model = SentenceTransformer(modules=[EachByItself(tokenizer, table[:, :dims])], device="cpu")
            wall, cpu, _ = measured(lambda part=part, model=model: through_mteb(part, model, batch_size=16))
            found.append((documents, dims, wall, cpu))
    print(json.dumps({"draw": [seconds / rows for seconds in draw], "runs": found}))


def measured(function):
    """The fewest seconds and processor seconds of two rounds, and what came of the last."""
    times = []
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        result = function()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return *map(min, zip(*times, strict=True)), result


def peak_memory():
    """Of this process so far, in GiB; not the parent's, as ru_maxrss."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 2**20


def child(script, argument, threads):
    """A script run in a process of its own: what it printed last, and how long the process took."""
    started = time.perf_counter()
    # A thread that waits for another gives its core away, which other work on the machine may hold up.
    threading = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
    environment = os.environ | threading | {"PYTHONWARNINGS": "ignore"}
    command = [sys.executable, script, "--child", json.dumps(argument)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2000:]}"
    return json.loads(done.stdout.splitlines()[-1]), time.perf_counter() - started


def grid(scratch, models, args):
    """Time of each suite; what was scored, by rows and columns."""
    found, wrote = {}, 0.0
    corpus = scratch / "Synthetic"
    write_corpus(corpus, args.fraction)
    for suite, tables in models.items():
        folder = scratch / suite
        folder.mkdir()
        rows = vocabulary(tables)
        write_tokenizer(scratch / f"{suite}-tokenizer", rows)
        started = time.perf_counter()
        for seed, (model, shape) in enumerate(tables.items()):
            write_table(folder / f"{model}.safetensors", *shape, seed)
        wrote += time.perf_counter() - started
        drawn = [(rows, dims, seed) for dims in DIMS for seed in SEEDS]
        drawn += [(more, dims, SEEDS[0]) for more, dims, _ in tables.values() if more > rows]
        argv = [*folder.glob("*.safetensors"), *(f"random:{rows}x{dims}:{seed}" for rows, dims, seed in drawn)]
        argv += ["--tokenizer", scratch / f"{suite}-tokenizer", "--beir", corpus, "--suite", suite, "--faithful"]
        argv += ["--variants", f"crop:{CROP}", "--variants", f"pad_faithful:{COLUMNS}:{SEEDS[0]}"]
        argv += ["--variants-of", "files", "--threads", args.threads, "--device", "cpu"]
        argv += [word for metric in METRICS for word in ("--metrics", metric)]
        argv += ["-o", scratch / "scores.csv", "--per-query", scratch / "scores.parquet"]
        result, took = child(__file__, ["score", list(map(str, argv))], args.threads)
        result["seconds"]["rest"] = took - sum(result["seconds"].values())
        asked = 4 * len(tables) + len(DIMS) * len(SEEDS)
        found[suite] = result | {"total": took, "tables": len(tables), "scores": asked}
        for path in folder.iterdir():
            path.unlink()
        cells = [suite, *(found[suite][name] for name in ("tables", "scores", "rankings"))]
        cells += [f"{took:.1f}", f"{result['cpu']:.1f}"]
        cells += [f"{result['seconds'][stage]:.1f}" for stage in STAGES] + [f"{result['peak']:.2f}"]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return found, wrote


def extrapolated(scratch, models, args):
    """Seconds and processor seconds of the first study's route for the same grid, and those of them to draw."""
    suite, tables = next(iter(models.items()))
    sample = {"beir": str(scratch / "Synthetic"), "tokenizer": str(scratch / f"{suite}-tokenizer")}
    sample |= {"rows": vocabulary(tables), "documents": SAMPLE_DOCUMENTS, "dims": SAMPLE_DIMS}
    result, _ = child(__file__, ["study", sample], args.threads)
    documents, dims, *both = np.array(result["runs"]).T
    terms = np.stack([np.ones(len(dims)), documents, dims, documents * dims], axis=1)
    # Relative errors count, as the short runs are as much a measurement as the long ones.
    fits = np.stack([np.linalg.lstsq(terms / took[:, None], np.ones(len(dims)), rcond=None)[0] for took in both])
    print("\nThe first study's route on a sample (fitted)\n")
    print("| documents | columns | seconds | processor seconds |\n|---|---|---|---|")
    for number, (some, columns, *took) in enumerate(result["runs"]):
        cells = [f"{value:.1f} ({fit @ terms[number]:.1f})" for value, fit in zip(took, fits, strict=True)]
        print(f"| {some} | {columns} | {' | '.join(cells)} |")
    every = round(DOCUMENTS * args.fraction)

    def one(dims):
        return fits @ [1, every, dims, every * dims]

    drawing = evaluating = np.zeros(2)
    for tables in models.values():
        drawn = sum(rows for rows, _, _ in tables.values()) + len(SEEDS) * vocabulary(tables)
        drawing = drawing + np.array(result["draw"]) * drawn
        for _, dims, _ in tables.values():
            evaluating = evaluating + 2 * one(dims) + one(min(CROP, dims)) + one(COLUMNS)
        evaluating = evaluating + len(SEEDS) * sum(map(one, DIMS))
    return evaluating + drawing, drawing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fraction", type=float, default=1.0, help="of documents, queries and rows (1)")
    parser.add_argument("--scratch", type=Path, help="has room for 13 GB; the system's folder for temporary files")
    parser.add_argument("--only", nargs="+", choices=SUITES, default=SUITES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--skip-study", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        name, argument = json.loads(args.child)
        {"score": score, "study": study}[name](argument)
        return
    models = {suite: tables for suite, tables in suites(args.fraction).items() if suite in args.only}
    load = os.getloadavg()[0]
    print(f"{args.threads} threads, fraction {args.fraction}, load before {load:.1f}; seconds, peak memory in GiB\n")
    print(f"| suite | tables | scores | rankings | total | cpu | {' | '.join(STAGES)} | peak |")
    print("|---" * (7 + len(STAGES)) + "|", flush=True)
    with tempfile.TemporaryDirectory(dir=args.scratch) as name:
        found, wrote = grid(Path(name), models, args)
        total = sum(suite["total"] for suite in found.values())
        sums = [sum(suite[key] for suite in found.values()) for key in ("tables", "scores", "rankings")]
        stages = [f"{sum(suite['seconds'][stage] for suite in found.values()):.1f}" for stage in STAGES]
        peak = max(suite["peak"] for suite in found.values())
        cpu = sum(suite["cpu"] for suite in found.values())
        print(f"| all | {' | '.join(map(str, sums))} | {total:.1f} | {cpu:.1f} | {' | '.join(stages)} | {peak:.2f} |")
        print(f"\nload after: {os.getloadavg()[0]:.1f}; writing the tables took {wrote:.1f} s more")
        if not args.skip_study:
            studied, drawing = extrapolated(Path(name), models, args)
            print(f"\nours {total / 60:.1f} min, {cpu / 60:.1f} processor minutes; the first study's route ", end="")
            print(f"{studied[0] / 3600:.1f} h, {studied[1] / 3600:.1f} processor hours", end="")
            print(f" (of which to draw: {drawing[0] / 3600:.2f} and {drawing[1] / 3600:.2f}): ", end="")
            print(f"{studied[0] / total:.0f} times as long, {studied[1] / cpu:.0f} times the processor time")


if __name__ == "__main__":
    main()
