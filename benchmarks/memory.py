"""Peak memory of scoring: the largest table by dtype, then by documents, by columns, and for variants of the largest.

    python benchmarks/memory.py [--skip-variants] [--rows ROWS]

Every number is the peak of a process of its own.  A table is a sparse file of zeros, which is read like any other, but
for variants, which need values that differ; they need all rows, and their time grows with those, their memory does not.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from grid import child, peak_memory, write_table
from scoring import METRICS, synthetic, tokenised

LARGEST = (250_880, 14_336)
TABLE = (50_304, 4096)
DOCUMENTS, CURVE_DOCUMENTS = 5183, (1000, 5000, 10_000, 20_000, 40_000)
CURVE_DIMS = (128, 1024, 4096, 8192, 14_336)
VARIANTS = ("centred", "crop_pca:128", "all_but_top:143", "whitened")
THREADS = 2


def scored(task):
    """Score a table, or a variant of one, and print seconds and memory before and at its peak."""
    from embscale.checkpoints import dtypes
    from embscale.scoring.retrieval import Scorer, StoredTable
    from embscale.tables import table_files
    from embscale.texts import tokens

    rows, dims = task["shape"]
    with tempfile.TemporaryDirectory(dir=task.get("folder")) as name:
        data, folder = synthetic(Path(name), documents=task["documents"])
        apart = max(1, rows // TABLE[0])  # the same tokens spread over all rows
        groups = [tokens.TokenisedTexts(group.ids * apart % rows, group.offsets) for group in tokenised(data, folder)]
        path = Path(name) / "table.safetensors"
        if "variant" in task:
            write_table(path, rows, dims, task["dtype"], 0)
        else:
            with path.open("wb") as file:
                start = table_files.header(task["dtype"], (rows, dims), {})
                file.write(start)
                file.truncate(len(start) + rows * dims * np.dtype(dtypes.STORED[task["dtype"]]).itemsize)
        scorer = Scorer(data, *groups)
        before, started = peak_memory(), time.perf_counter()
        table = StoredTable(path)
        if "variant" in task:
            from embscale.scoring.engine import streamed
            from embscale.tables.variants import Variant

            table = streamed(table.file, Variant.parse(task["variant"]), scorer, scorer.rows)
        scorer.per_query(table, METRICS)
        took = time.perf_counter() - started
    print(json.dumps({"rows": len(scorer.rows), "seconds": took, "before": before, "peak": peak_memory()}))


def row(first, **task):
    result, _ = child(__file__, {"documents": DOCUMENTS, "shape": TABLE, "dtype": "F16"} | task, THREADS)
    numbers = f"{result['rows']} | {result['seconds']:.1f} | {result['before']:.2f} | {result['peak']:.2f}"
    print(f"| {first} | {numbers} |", flush=True)
    return result["peak"]


def head(title, first):
    print(
        f"\n{title}\n\n| {first} | rows in use | seconds | GiB before | peak GiB |\n|---|---|---|---|---|", flush=True
    )


def curve(title, first, values, task):
    """Rows of a table, and how far the peaks are from a line."""
    head(title, first)
    peaks = [row(value, **task(value)) for value in values]
    slope, start = np.polyfit(values, peaks, 1)
    off = np.abs(np.polyval([slope, start], values) - peaks).max()
    print(f"\n{start:.2f} GiB and {1000 * slope:.4f} GiB for each 1,000, at most {off:.2f} GiB off")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skip-variants", action="store_true")
    parser.add_argument("--rows", type=int, default=LARGEST[0], help="of the table that variants are made of")
    parser.add_argument("--columns", type=int, default=LARGEST[1], help="the same")
    parser.add_argument("--variant", nargs="+", default=VARIANTS, help="which")
    parser.add_argument("--only-variants", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        scored(json.loads(args.child))
        return
    if not args.only_variants:
        head(f"A table of {LARGEST[0]} x {LARGEST[1]}", "dtype")
        for dtype in ("F64", "F32", "F16", "BF16"):
            row(dtype, shape=LARGEST, dtype=dtype)
        rows, dims = TABLE
        curve(
            f"By documents, {rows} x {dims}", "documents", CURVE_DOCUMENTS, lambda documents: {"documents": documents}
        )
        curve(f"By columns, {DOCUMENTS} documents", "columns", CURVE_DIMS, lambda dims: {"shape": (rows, dims)})
    if not args.skip_variants:
        head(f"Variants of a table of {args.rows} x {args.columns}", "variant")
        for variant in args.variant:
            row(variant, variant=variant, shape=(args.rows, args.columns))


if __name__ == "__main__":
    main()
