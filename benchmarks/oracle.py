"""How far `embscale score --faithful` is from what the first study's own code gives.

    python benchmarks/oracle.py SCORES --retrieval FOLDER --tokenizers FOLDER --checkpoint FOLDER

SCORES is a folder with that code's output: `scores.csv`, `per_query_ndcg10.csv`, `random_tables.csv`.  FOLDERs of
tasks in the BEIR format and of tokenizers are named in it.  What is printed are the largest differences; anything above
a tolerance of 0.0001, and any table whose digest is another, ends in a non-zero exit.
"""

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from embscale.__main__ import main as embscale
from embscale.tables import random_tables

TOLERANCE = 1e-4
METRICS = ("ndcg_at_10", "map_at_10", "map_at_100", "recall_at_100")
ROWS = {"gpt-neox-20b": 50_304, "gpt2": 50_257, "opt": 50_272, "t5-v1_1": 32_128}
CHECKPOINT, CHECKPOINT_ROWS = "karpathy--stories260K", 512
DIMS, SEEDS, GENERATORS = (64, 128, 512, 2048), (42, 43), ("legacy", "current")
KEYS = ["dataset", "source", "variant", "dim", "seed", "table_generator", "query_ids"]


def task(folder, scratch, query_ids):
    """The folder of a task, or one like it whose queries' ids are told from its documents'."""
    if query_ids == "as_is":
        return folder
    copy = scratch / f"{folder.name}-prefixed"
    shutil.copytree(folder, copy)
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]
    for query in queries:
        query["_id"] = f"q{query['_id']}"
    (copy / "queries.jsonl").write_text("".join(f"{json.dumps(query)}\n" for query in queries), "utf-8")
    judgements = pd.read_csv(folder / "qrels" / "test.tsv", sep="\t", dtype=str)
    judgements["query-id"] = "q" + judgements["query-id"]
    judgements.to_csv(copy / "qrels" / "test.tsv", sep="\t", index=False)
    return copy


def scored(arguments, scratch):
    """Rows and per-query rows of one `embscale score --faithful`."""
    files = ["--output", scratch / "scores.csv", "--per-query", scratch / "queries.parquet"]
    metrics = [flag for metric in METRICS for flag in ("--metrics", metric)]
    words = ["score", *arguments, "--faithful", "--bootstrap-resamples", 10, *metrics, *files]
    if embscale([str(word) for word in words]) != 0:
        raise SystemExit("embscale score failed")
    return pd.read_csv(scratch / "scores.csv"), pd.read_parquet(scratch / "queries.parquet")


def keyed(rows, **keys):
    """Rows with the keys of the other code's."""
    kind = rows["variant"].str.extract(r"^(?P<kind>full|crop|random|pad_faithful)(?:_(?P<generator>legacy|current))?$")
    names = {"full": "full", "crop": "crop_32", "random": "random_xn", "pad_faithful": "pad_256"}
    return rows.assign(
        variant=kind["kind"].map(names), table_generator=kind["generator"].fillna("none"),
        dim=rows["dim"].astype(int), seed=pd.to_numeric(rows["seed"], errors="coerce").fillna(-1).astype(int), **keys,
    )  # fmt: skip


def ours(args, scratch):
    """All scores, and those of each query."""
    found, of_queries = [], []
    embedding = scratch / "table.safetensors"
    embscale(["extract", str(args.checkpoint), "--output", str(embedding)])
    for dataset in ("scifact", "cranfield", "cisi"):
        for query_ids in ("as_is",) if dataset == "scifact" else ("as_is", "prefixed"):
            folder = task(args.retrieval / dataset, scratch, query_ids)
            for source in (*ROWS, CHECKPOINT):
                own = source == CHECKPOINT
                rows, dims = (CHECKPOINT_ROWS, (64,)) if own else (ROWS[source], DIMS)
                tables = [f"random:{rows}x{d}:{s}:{g}" for d in dims for s in SEEDS for g in GENERATORS]
                pads = [f"pad_faithful:256:{s}:{g}" for s in SEEDS for g in GENERATORS]
                variants = [flag for v in ("crop:32", *pads) for flag in ("--variants", v)] if own else []
                tokenizer = args.checkpoint if own else args.tokenizers / source
                arguments = [*([embedding] if own else []), *tables, "--tokenizer", tokenizer, "--beir", folder]
                own_flags = [*variants, "--variants-of", "files"] if own else []
                keys = {"dataset": dataset, "source": source, "query_ids": query_ids}
                some, queries = scored([*arguments, *own_flags], scratch)
                found.append(keyed(some, **keys))
                of_queries.append(keyed(queries, **keys))
    return pd.concat(found), pd.concat(of_queries)


def theirs(path):
    rows = pd.read_csv(path)
    if "query_id" in rows:
        rows["query_id"] = rows["query_id"].astype(str)
    return rows.assign(dim=rows["dim"].astype(int), seed=rows["seed"].fillna(-1).astype(int))


def digests(rows):
    """Whole tables of the other code whose bytes ours are not."""
    wrong = []
    for _, row in rows.drop_duplicates(["rows", "columns", "seed", "table_generator"]).iterrows():
        digest = hashlib.sha256()
        drawn = row["rows"], row["columns"], row["seed"], row["table_generator"], row["columns"]
        for block in random_tables.blocks(*drawn):
            digest.update((block.view(np.uint32) >> 16).astype("<u2").tobytes())  # bfloat16
        if digest.hexdigest() != row["sha256_all"]:
            wrong.append(f"{row['source']} {row['columns']} {row['seed']} {row['table_generator']}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scores", type=Path)
    parser.add_argument("--retrieval", type=Path, required=True)
    parser.add_argument("--tokenizers", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found, of_queries = ours(args, Path(name))
    both = theirs(args.scores / "scores.csv").merge(found, on=[*KEYS, "metric"], how="left", suffixes=("", "_ours"))
    both["difference"] = (both["value"] - both["value_ours"]).abs()
    table = both.pivot_table(
        index=["dataset", "query_ids", "source"], columns="metric", values="difference", aggfunc="max"
    )[list(METRICS)]
    counts = both.groupby(["dataset", "query_ids", "source"]).size()
    print(f"| task | queries' ids | source | scores | {' | '.join(METRICS)} |\n|{'---|' * (4 + len(METRICS))}")
    for keys, row in table.iterrows():
        print(f"| {' | '.join(keys)} | {counts[keys]} | {' | '.join(f'{value:.1e}' for value in row)} |")
    worst, missing = both["difference"].max(), int(both["value_ours"].isna().sum())
    queries = theirs(args.scores / "per_query_ndcg10.csv").merge(
        of_queries[of_queries["metric"] == "ndcg_at_10"].rename(columns={"score": "ours", "query": "query_id"}),
        on=[*KEYS, "query_id"], how="left",
    )  # fmt: skip
    apart = (queries["ndcg_at_10"] - queries["ours"]).abs()
    wrong = digests(pd.read_csv(args.scores / "random_tables.csv"))
    print(f"\n{len(both)} scores, {missing} missing, largest difference {worst:.1e}")
    print(f"{len(queries)} queries, {int(queries['ours'].isna().sum())} missing, largest difference {apart.max():.1e}")
    print(f"random tables with other bytes: {', '.join(wrong) or 'none'}")
    sys.exit(bool(missing or queries["ours"].isna().any() or worst > TOLERANCE or apart.max() > TOLERANCE or wrong))


if __name__ == "__main__":
    main()
