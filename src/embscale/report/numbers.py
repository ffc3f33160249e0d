"""The numbers and tables that the report quotes, all computed from result rows and notes.

Text reaches the page as strings, already rounded, so that one place decides on digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from embscale.rows.labels import (
    NOT_RUN,
    PERCENT,
    REFERENCE_NAMES,
    TREATMENT_NAMES,
    interval,
    length_label,
    metric_label,
    runs_label,
    treatment_label,
)
from embscale.rows.markdown import escape, markdown_table
from embscale.rows.selection import (
    LADDER,
    ladder_tables,
    last_checkpoint,
    last_tables,
    main_run,
    random_tables,
    references,
    where,
)
from embscale.rows.treatments import FULL, INPUT, SHUFFLED
from embscale.scoring import primary_length
from embscale.scoring.estimates import ALL, HELDOUT, SEEN

Variables = dict[str, Any]


def corpus_numbers(
    documents: Sequence[Mapping[str, Any]], qrels: Mapping[str, Mapping[str, int]], facts: Mapping[str, Any]
) -> Variables:
    """Size of the study's own retrieval tasks, and what is held out.

    Args:
        documents: rows of the corpus file.
        qrels: judgements of the queries that have a relevant document, by query and document.
        facts: those in the note of the harvest.
    """
    relevant = sum(score > 0 for judged in qrels.values() for score in judged.values())
    of_split = Counter(row["metadata"]["split"] for row in documents)
    whole = Counter(row["metadata"]["package"] for row in documents if row["metadata"]["split"] == "heldout_package")
    packages = sorted({row["metadata"]["package"] for row in documents})
    near, functions = facts["near_duplicates"], facts["functions"]
    return {
        "documents": f"{len(documents):,}",
        "characters": f"{sum(len(row['text']) for row in documents) / 1e6:.1f} million",
        "queries": f"{len(qrels):,}",
        "relevant_per_query": f"{relevant / len(qrels):.1f}",
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


def score_numbers(rows: pd.DataFrame, differences: pd.DataFrame, *, task: str, metric: str, length: str) -> Variables:
    """What trained tables of the ladder score, and how far above or below their controls they are.

    A trained table counts as above (below) a control if the whole interval of the difference is above (below) zero.

    Args:
        rows: of ``estimates.csv``, of one tokenizer.
        differences: of ``differences.csv``, of the same.
        task: the study's main one.
        metric: the study's primary one.
        length: of documents, the primary one.
    """
    main = {"metric": metric, "length": length, "queries": ALL}
    whole = where(rows, **main, task=task)
    full = last_tables(whole[whole["suite"] == LADDER])
    best, levels = full.loc[full["value"].idxmax()], references(whole)
    apart = ladder_tables(where(differences, **main))
    ours = apart[apart["task"] == task]
    random = random_tables(whole).set_index("width")
    return {
        "metric": metric_label(full),
        "length": length_label(length),
        "length_rule": length_words(rows, task=task, metric=metric, length=length),
        "models": len(full),
        "runs": runs_label(int(full["runs"].max())),
        "draws": int(random["runs"].max()),
        "queries": f"{int(full['n'].iloc[0]):,}",
        "clusters": f"{int(full['clusters'].iloc[0]):,}",
        "widths": ", ".join(f"{width:.0f}" for width in full["dim"]),
        **{name: interval(levels.loc[name]) if name in levels.index else NOT_RUN for name in REFERENCE_NAMES},
        "best": interval(best),
        "best_width": int(best["dim"]),
        "narrowest": interval(full.iloc[0]),
        "narrowest_width": int(full["dim"].iloc[0]),
        "widest": interval(full.iloc[-1]),
        "widest_width": int(full["dim"].iloc[-1]),
        **{f"random_{name}": interval(random.loc[full["dim"].iloc[end]]) for name, end in ENDS.items()},
        **_against("random", ours),
        **_against("untrained", ours),
        **_against("shuffled", ours),
        **_against("random", ours, treatment=IDF),
        **_weighted(whole),
        **_second_task(apart[apart["task"] != task]),
        **_heldout(ladder_tables(where(differences, task=task, metric=metric, length=length, against="random"))),
    }


ENDS = {"narrowest": 0, "widest": -1}
IDF = "idf"


def _against(control: str, differences: pd.DataFrame, treatment: str = FULL) -> Variables:
    """Trained tables less a control of the same treatment: at both ends of the ladder, and at how many widths."""
    found = where(differences, against=control, treatment=treatment).sort_values("width")
    name = control if treatment == FULL else f"{control}_{treatment}"
    if found.empty:
        return {f"less_{name}_{end}": NOT_RUN for end in ENDS} | {f"against_{name}": NOT_RUN}
    ends = {f"less_{name}_{end}": interval(found.iloc[place], signed=True) for end, place in ENDS.items()}
    return ends | {f"against_{name}": sides(found)}


def sides(differences: pd.DataFrame) -> str:
    """At how many widths intervals of differences are above, below and around zero: trained tables score ...."""
    above, below = int((differences["ci_low"] > 0).sum()), int((differences["ci_high"] < 0).sum())
    counts = {"above them": above, "below them": below, "within the uncertainty": len(differences) - above - below}
    parts = [f"{words} at {count}" for words, count in counts.items() if count]
    if len(parts) == 1:
        return parts[0].replace(f" at {len(differences)}", f" at all {len(differences)} widths")
    return f"{', '.join(parts[:-1])} and {parts[-1]} of {len(differences)} widths"


def _weighted(rows: pd.DataFrame) -> Variables:
    """Trained and random tables of the widest model with idf weights."""
    trained = ladder_tables(where(rows, table=INPUT, treatment=IDF))
    if trained.empty:
        return {"idf_widest": NOT_RUN, "random_idf_widest": NOT_RUN}
    random = random_tables(rows, IDF).set_index("width")
    widest = trained.iloc[-1]
    known = widest["width"] in random.index
    return {
        "idf_widest": interval(widest),
        "random_idf_widest": interval(random.loc[widest["width"]]) if known else NOT_RUN,
    }


def _second_task(differences: pd.DataFrame) -> Variables:
    """Trained less random tables on the second task of the study."""
    others = where(differences, against="random", treatment=FULL)
    if others.empty:
        names = ("second_task", "second_queries", "second_less_random_widest", "second_against_random")
        return dict.fromkeys(names, NOT_RUN)
    task = str(others["task"].iloc[0])
    found = others[others["task"] == task].sort_values("width")
    return {
        "second_task": task,
        "second_queries": f"{int(found['n'].iloc[0]):,}",
        "second_less_random_widest": interval(found.iloc[-1], signed=True),
        "second_against_random": sides(found),
    }


def _heldout(differences: pd.DataFrame) -> Variables:
    """Trained less random tables of queries by whether their documents were trained on, at the widest model."""
    found = {}
    for name, queries in (("heldout", HELDOUT), ("seen", SEEN)):
        rows = where(differences, queries=queries, treatment=FULL).sort_values("width")
        none = rows.empty
        found[f"{name}_less_random_widest"] = NOT_RUN if none else interval(rows.iloc[-1], signed=True)
        found[f"{name}_queries"] = NOT_RUN if none else f"{int(rows['n'].iloc[0]):,}"
        found[f"{name}_against_random"] = NOT_RUN if none else sides(rows)
    return found


def _lengths(rows: pd.DataFrame, task: str, metric: str) -> pd.DataFrame:
    return primary_length.ratios(where(rows, task=task, metric=metric, queries=ALL))


def length_words(rows: pd.DataFrame, *, task: str, metric: str, length: str) -> str:
    """Whether the primary length is the one that the rule chooses, in words."""
    chosen = primary_length.choice(_lengths(rows, task, metric))
    if chosen == length:
        return f"The rule chooses the {length_label(length)}, as this study does"
    words = "no length of this study" if chosen is None else f"the {length_label(chosen)}"
    return f"**The rule chooses {words}; this study shows the {length_label(length)}**"


def length_table(rows: pd.DataFrame, *, task: str, metric: str) -> str:
    """Markdown rows of the rule for the primary length: how far random tables are off the floor at each."""
    lines = [
        ["documents", "random, narrowest", "chance", "times chance", "random, middle", "BM25", "share of BM25", "rule"]
    ]
    for row in _lengths(rows, task, metric).itertuples(index=False):
        scores = [f"{value * PERCENT:.2f}" for value in (row.narrowest, row.chance, row.middle, row.bm25)]
        ratios = f"{row.times_chance:.1f}", f"{row.share_of_bm25:.2f}"
        met = "met" if row.off_floor else "not met"
        lines.append([length_label(row.length), *scores[:2], ratios[0], *scores[2:], ratios[1], met])
    return markdown_table(lines)


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


def layer_score_numbers(rows: pd.DataFrame) -> Variables:
    """What layers of the ladder score, and whether the last block scores above or below its controls.

    Args:
        rows: of ``layer_scores.csv``, of one task, metric and length.
    """
    own = rows[(rows["suite"] == LADDER) & rows["layer_number"].notna()]
    if own.empty:
        return dict.fromkeys(LAYER_SCORES, NOT_RUN)
    last = last_checkpoint(own)
    blocks = last[last["layer"].str.startswith("block ") & (last["layer"] != "block input")]
    deepest = blocks["layer_number"] == blocks.groupby("model")["layer_number"].transform("max")
    score = last[last["quantity"] == "score"].replace({"layer": {"embedding": "table"}})
    widest = score[score["width"] == score["width"].max()].set_index("layer")
    first = own[(own["step"] == 0) & (own["layer"] == "block 1")]
    return {
        "step": f"{last['step'].max():.0f}",
        "over": f"queries, {of}" if (of := runs_label(int(last["runs"].max()))) == "one run" else f"{of} and queries",
        "widest": f"{score['width'].max():.0f}",
        "widest_table": interval(widest.loc["table"]),
        "widest_last": interval(widest.loc[blocks.loc[deepest, "layer"].iloc[-1]]),
        "best_is_table": _layers_where_best(score, "table"),
        "last_against_table": _layer_sides(blocks[deepest], "table"),
        "last_against_random": _layer_sides(blocks[deepest], "random"),
        "last_against_untrained": _layer_sides(blocks[deepest], "untrained"),
        "untrained_against_table": _layer_sides(first, "table"),
    }


LAYER_SCORES = (
    "step", "over", "widest", "widest_table", "widest_last", "best_is_table",
    "last_against_table", "last_against_random", "last_against_untrained", "untrained_against_table",
)  # fmt: skip


def _layer_sides(rows: pd.DataFrame, against: str) -> str:
    """At how many widths a layer scores above or below a control, or that there is none."""
    found = where(rows, quantity="difference", against=against)
    return sides(found).replace("all 1 widths", "the only width") if len(found) else NOT_RUN


def _layers_where_best(score: pd.DataFrame, layer: str) -> str:
    """At how many widths a layer scores highest of all layers: ``3 of 4 widths``."""
    best = score.loc[score.groupby("width")["value"].idxmax(), "layer"]
    return f"{int((best == layer).sum())} of {len(best)} widths"


def score_table(rows: pd.DataFrame, *, metrics: Sequence[str]) -> str:
    """Markdown rows of what tables score as they are, by task, metric and width, beside their controls and chance.

    Args:
        rows: of ``estimates.csv``, of one tokenizer and length and all queries.
        metrics: to show.
    """
    names = ["random", "untrained", "shuffled", "chance", "BM25"]
    lines = [["task", "metric × 100", "width", "trained", *names]]
    for task, of_task in rows.groupby("task"):
        for metric in metrics:
            found = where(of_task, metric=metric)
            levels, random = references(found), random_tables(found).set_index("width")
            whole = found[(found["suite"] == LADDER) & (found["treatment"] == FULL)]
            controls = {
                "random": random,
                "untrained": whole[(whole["table"] == INPUT) & (whole["step"] == 0)].set_index("width"),
                "shuffled": whole[whole["table"] == SHUFFLED].set_index("width"),
            }
            for _, row in last_tables(whole).iterrows():
                cells = [
                    interval(of.loc[row["width"]]) if row["width"] in of.index else NOT_RUN for of in controls.values()
                ]
                cells += [
                    f"{levels.loc[name, 'value'] * PERCENT:.2f}" if name in levels.index else NOT_RUN
                    for name in ("chance", "bm25")
                ]
                name = metric_label(found).removesuffix(" × 100")
                lines.append([escape(str(task)), name, f"{row['width']:.0f}", interval(row), *cells])
    return markdown_table(lines)


def treatment_table(rows: pd.DataFrame, differences: pd.DataFrame) -> str:
    """Markdown rows of each treatment: the trained table's score at each width, and less random tables treated alike.

    Args:
        rows: of ``estimates.csv``, of one task, tokenizer, metric and length and all queries.
        differences: of ``differences.csv``, of the same.
    """
    order = {kind: place for place, kind in enumerate(TREATMENT_NAMES)}
    trained = ladder_tables(where(rows, table=INPUT))
    place = trained["treatment"].str.split(":").str[0].map(order)
    trained = trained.assign(place=place).sort_values(["place", "treatment", "width"])
    apart = ladder_tables(where(differences, against="random")).set_index(["treatment", "width"])
    lines = [["treatment of both", "width", "trained", "trained less random"]]
    for treatment, group in trained.groupby("treatment", sort=False):
        for _, row in group.iterrows():
            key = (treatment, row["width"])
            less = interval(apart.loc[key], signed=True) if key in apart.index else NOT_RUN
            lines.append([treatment_label(str(treatment)), f"{row['width']:.0f}", interval(row), less])
    return markdown_table(lines)


def reference_table(rows: pd.DataFrame) -> str:
    """Markdown rows of published scores of systems of other kinds."""
    lines = [["system", "kind", "task", "metric", "published × 100"]]
    for row in rows.sort_values(["task", "value"], ascending=[True, False]).itertuples(index=False):
        metric = row.metric.replace("_at_", "@").replace("ndcg", "nDCG")
        lines.append([escape(row.system), row.kind, escape(row.task), metric, f"{row.value * PERCENT:.2f}"])
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


def ladder_table(losses: Mapping[int, Sequence[pd.DataFrame]], table_rows: int) -> str:
    """Markdown rows of the training of each width, means over its runs: tokens, and loss on held-out texts."""
    lines = [["width", "runs", "tokens seen", "parameters in the table", "loss before, nats", "loss after, nats"]]
    for width, runs in sorted(losses.items()):
        heldout = [rows.dropna(subset="heldout_loss") for rows in runs]
        before, after = (np.mean([rows["heldout_loss"].iloc[end] for rows in heldout]) for end in (0, -1))
        seen = f"{max(int(rows['tokens'].iloc[-1]) for rows in heldout):,}"
        lines.append([str(width), str(len(runs)), seen, f"{width * table_rows:,}", f"{before:.2f}", f"{after:.2f}"])
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
