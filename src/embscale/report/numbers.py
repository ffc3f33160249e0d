"""The numbers and tables that the report quotes, all computed from result rows and notes.

Text reaches the page as strings, already rounded, so that one place decides on digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from embscale.rows.labels import NOT_RUN, PERCENT, VARIANT_NAMES, interval, metric_label
from embscale.rows.markdown import escape, markdown_table
from embscale.rows.selection import ladder_tables, main_run, random_band

Variables = dict[str, Any]


def corpus_numbers(documents: Sequence[Mapping[str, Any]], qrels: pd.DataFrame, facts: Mapping[str, Any]) -> Variables:
    """Size of the study's own retrieval tasks, and what is held out.

    Args:
        documents: rows of the corpus file.
        qrels: judgements with the columns ``query-id``, ``corpus-id``, ``score``.
        facts: those in the note of the harvest.
    """
    relevant = qrels[qrels["score"] > 0]
    of_split = Counter(row["metadata"]["split"] for row in documents)
    whole = Counter(row["metadata"]["package"] for row in documents if row["metadata"]["split"] == "heldout_package")
    packages = sorted({row["metadata"]["package"] for row in documents})
    near, functions = facts["near_duplicates"], facts["functions"]
    return {
        "documents": f"{len(documents):,}",
        "characters": f"{sum(len(row['text']) for row in documents) / 1e6:.1f} million",
        "queries": f"{relevant['query-id'].nunique():,}",
        "relevant_per_query": f"{len(relevant) / relevant['query-id'].nunique():.1f}",
        "dev_queries": f"{facts['docstrings']['queries']['dev']:,}",
        "clusters": facts["docstrings"]["clusters"],
        "heldout": f"{of_split['heldout']:,} of them"
        + "".join(f" and all {count:,} of {package}" for package, count in sorted(whole.items())),
        "near_duplicates": f"{near['groups']:,}",
        "leaking_before": f"{near['leaking_before']:.0%}",
        "packages": ", ".join(packages),
        "functions": f"{sum(functions['documents'].values()):,}",
        "function_queries": f"{functions['queries']['test']:,}",
        "function_dev_queries": f"{functions['queries']['dev']:,}",
    }


def score_numbers(rows: pd.DataFrame) -> Variables:
    """The best table, the random tables beside it, and how many trained tables beat them.

    A trained table counts as above (below) random if its whole interval lies above (below) the mean of the
    random tables of its width.
    """
    full = ladder_tables(rows).query("variant == 'full'").sort_values("width")
    band = random_band(rows)
    random = full["dim"].map(band["mean"])
    best = full.loc[full["value"].idxmax()]
    untrained = full["model"].map(rows[(rows["variant"] == "full") & (rows["step"] == 0)].set_index("model")["value"])
    alone = {kind: rows[rows["variant"] == kind] for kind in ("overlap", "overlap_idf", "bm25")}
    weighted = ladder_tables(rows).query("variant == 'idf'").sort_values("width")
    return {
        "metric": metric_label(rows),
        "models": len(full),
        "idf_widest": interval(weighted.iloc[-1]) if len(weighted) else NOT_RUN,
        **{kind: interval(found.iloc[0]) if len(found) else NOT_RUN for kind, found in alone.items()},
        "widths": ", ".join(f"{width:.0f}" for width in full["dim"]),
        "queries": f"{int(full['n'].iloc[0]):,}",
        "best": interval(best),
        "best_width": int(best["dim"]),
        "narrowest": interval(full.iloc[0]),
        "narrowest_width": int(full["dim"].iloc[0]),
        "widest": interval(full.iloc[-1]),
        "widest_width": int(full["dim"].iloc[-1]),
        "above_random": int((full["ci_low"] > random).sum()),
        "below_random": int((full["ci_high"] < random).sum()),
        "below_untrained": int((full["ci_high"] < untrained).sum()),
        "random_seeds": int(band["count"].max()),
        "random_smallest": f"{band['mean'].iloc[0] * PERCENT:.2f}",
        "random_smallest_dims": int(band.index[0]),
        "random_largest": f"{band['mean'].iloc[-1] * PERCENT:.2f}",
        "random_largest_dims": int(band.index[-1]),
    }


def layer_numbers(probes: pd.DataFrame, texts: str) -> Variables:
    """Accuracy of the layer classifiers, highest and lowest model, on honest and leaky splits; `texts` in words."""
    accuracy = main_run(probes, metric="accuracy")
    chance = main_run(probes, metric="chance")
    best, worst = accuracy.loc[accuracy["value"].idxmax()], accuracy.loc[accuracy["value"].idxmin()]
    fitted = probes[probes["metric"] == "accuracy"]
    leaky = main_run(probes, metric="accuracy", split="vector")["value"].mean()
    return {
        "texts": texts,
        "texts_count": int(best["texts_count"]),
        "tokens": int(best["tokens"]),
        "layers": int(best["n_layers"]),
        "chance": f"{chance['value'].mean() * PERCENT:.0f} %",
        "best": interval(best, digits=1),
        "best_model": escape(best["model"]),
        "worst": interval(worst, digits=1),
        "worst_model": escape(worst["model"]),
        "mean": f"{accuracy['value'].mean() * PERCENT:.1f} %",
        "leaky_mean": f"{leaky * PERCENT:.1f} %" if leaky == leaky else NOT_RUN,
        "vectors": f"{int(best['n']):,}",
        "seeds": probes.loc[probes["seed"] != "all", "seed"].nunique(),
        "not_converged": int((~fitted["converged"].astype(bool)).sum()),
    }


def score_table(rows: pd.DataFrame) -> str:
    """Markdown rows of each model's score by variant, with intervals."""
    final = ladder_tables(rows)
    band = random_band(rows)
    kinds = [kind for kind in VARIANT_NAMES if kind in set(final["variant"])]
    lines = [["width", *(VARIANT_NAMES[kind] for kind in kinds), f"{VARIANT_NAMES['random']}, mean"]]
    for width, group in final.groupby("width"):
        by_kind = group.set_index("variant")
        random = f"{band['mean'][width] * PERCENT:.2f}" if width in band.index else "not run"
        lines.append([str(int(width)), *(interval(by_kind.loc[kind]) for kind in kinds), random])
    return markdown_table(lines)


def layer_table(probes: pd.DataFrame) -> str:
    """Markdown rows of each model's layer classifier."""
    metrics = ("accuracy", "mean_absolute_layer_error", "within_one_accuracy")
    by_metric = {metric: main_run(probes, metric=metric).set_index("model") for metric in metrics}
    lines = [["model", "layers", "accuracy, %", "within one layer, %", "mean layer error", "vectors tested"]]
    for model, row in by_metric["accuracy"].iterrows():
        lines.append(
            [
                escape(str(model)),
                str(row["n_layers"]),
                interval(row, digits=1),
                interval(by_metric["within_one_accuracy"].loc[model], digits=1),
                f"{by_metric['mean_absolute_layer_error'].loc[model, 'value']:.2f}",
                f"{int(row['n']):,}",
            ]
        )
    return markdown_table(lines)


def ladder_table(losses: Mapping[int, pd.DataFrame], table_rows: int) -> str:
    """Markdown rows of the training of each model: tokens, and loss on held-out texts."""
    lines = [["width", "tokens seen", "parameters in the table", "loss before, nats", "loss after, nats"]]
    for width, rows in sorted(losses.items()):
        heldout = rows.dropna(subset="heldout_loss")
        before, after = heldout["heldout_loss"].iloc[0], heldout["heldout_loss"].iloc[-1]
        seen = f"{int(heldout['tokens'].iloc[-1]):,}"
        lines.append([str(width), seen, f"{width * table_rows:,}", f"{before:.2f}", f"{after:.2f}"])
    return markdown_table(lines)


def suites_table(inventory: pd.DataFrame) -> str:
    """Markdown rows of the published checkpoints: which took part, and why the others did not."""
    if inventory.empty:
        return "None.\n"
    lines = [["suite", "checkpoint", "commit", "table", "licence", "status"]]
    for row in inventory.itertuples(index=False):
        commit = f"`{row.commit[:12]}`" if isinstance(row.commit, str) else "not pinned"
        name = row.model if row.checkpoint == "main" else f"{row.model}, {row.checkpoint}"
        suite, name, licence, reason = map(escape, (row.suite, name, row.licence, row.reason))
        lines.append([suite, name, commit, f"{row.rows:,} × {row.dims:,}", licence, reason])
    return markdown_table(lines)


def other_tasks_table(rows: pd.DataFrame | None) -> str:
    """Markdown rows of the scores on tasks of other kinds than retrieval, with what each interval is over."""
    if rows is None:
        return "No task of another kind is part of this study (`other_tasks` in its parameters): **not run**.\n"
    lines = [["model", "task", "metric", "score × 100", "n", "interval over"]]
    for _, row in rows.sort_values(["task", "suite", "dim", "model"]).iterrows():
        names = [escape(row[column]) for column in ("model", "task", "metric")]
        lines.append([*names, interval(row), f"{row['n']:,}", row["interval_over"]])
    return markdown_table(lines)


def provenance_table(notes: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown rows that say for each figure which command made it from which bytes."""
    lines = [["artifact", "command", "made from (SHA-256)"]]
    for name, note in notes.items():
        made_from = ", ".join(f"`{path}` {digest[:12]}" for path, digest in note["inputs"].items())
        lines.append([f"`{name}`", f"`embscale {note['command']}`", made_from or "installed packages"])
    return markdown_table(lines)
