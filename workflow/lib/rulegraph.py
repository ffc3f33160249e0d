"""Draw the graph of rules: ``snakemake --rulegraph dot | python workflow/lib/rulegraph.py FILE.svg``.

Snakemake describes the graph in the language of Graphviz, which is not installed everywhere; matplotlib is.  Rules
stand in rows by the longest way that leads to them, and an arrow that a longer way implies is left out.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import networkx as nx

NODE = re.compile(r'^\s*(\d+)\[label = "(\w+)"', re.MULTILINE)
EDGE = re.compile(r"^\s*(\d+) -> (\d+)", re.MULTILINE)
ROW_HEIGHT, COLUMN_WIDTH = 0.75, 1.65  # inches
SWEEPS = 8  # over the rows, to bring what belongs together near each other
BOX = {"boxstyle": "round,pad=0.35", "facecolor": "#eef4fa", "edgecolor": "#0b57a4", "linewidth": 0.8}
# The same bytes in every run.
STYLE: Any = {"svg.hashsalt": "rules", "svg.fonttype": "none", "font.size": 8.5, "font.family": "sans-serif"}


def read(dot: str) -> nx.DiGraph:
    """The graph of rules by name, from what comes first to what needs it, without arrows that others imply."""
    names = dict(NODE.findall(dot))
    graph = nx.DiGraph()
    graph.add_nodes_from(sorted(names.values()))
    graph.add_edges_from(sorted((names[source], names[target]) for source, target in EDGE.findall(dot)))
    return nx.transitive_reduction(graph)


def places(graph: nx.DiGraph) -> dict[str, tuple[float, float]]:
    """Where each rule stands: column from -½ to ½ of the widest row, and row from 0 downwards."""
    rows = [sorted(row) for row in nx.topological_generations(graph)]
    widest = max(map(len, rows))
    column: dict[str, float] = {}

    def spread(row: list[str]) -> None:
        column.update({rule: (place + 0.5) * widest / len(row) - widest / 2 for place, rule in enumerate(row)})

    for row in rows:
        spread(row)
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 else reversed(rows):
            near = {rule: [column[other] for other in nx.all_neighbors(graph, rule)] for rule in row}
            row.sort(key=lambda rule: (sum(near[rule]) / max(len(near[rule]), 1), rule))
            spread(row)
    return {rule: (column[rule], -float(depth)) for depth, row in enumerate(rows) for rule in row}


def draw(graph: nx.DiGraph, output: Path) -> None:
    """Write the picture."""
    where = places(graph)
    columns = 1 + round(2 * max(abs(x) for x, _ in where.values()))
    rows = 1 + round(-min(y for _, y in where.values()))
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(COLUMN_WIDTH * columns, ROW_HEIGHT * rows), layout="constrained")
        for source, target in graph.edges:
            arrow = {"arrowstyle": "-|>", "color": "#8b96a1", "linewidth": 0.8, "shrinkA": 9, "shrinkB": 9}
            axes.annotate("", where[target], where[source], arrowprops=arrow)
        for rule, (x, y) in where.items():
            axes.text(x, y, rule, ha="center", va="center", bbox=BOX)
        axes.set_xlim(-columns / 2 - 0.2, columns / 2 + 0.2)
        axes.set_ylim(0.6 - rows, 0.6)
        axes.set_axis_off()
        output.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(output, metadata={"Date": None, "Title": "The rules of the study"})
        plt.close(figure)


if __name__ == "__main__":
    draw(read(sys.stdin.read()), Path(sys.argv[1]))
