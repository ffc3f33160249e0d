"""Write the graph of rules: ``snakemake --rulegraph mermaid-js | python workflow/lib/rulegraph.py FILE.md``.

Hosts of repositories draw Mermaid where it stands in Markdown.  Snakemake prints a colour for every rule and an arrow
for every dependency; without colours, and without the arrows that a longer path implies, the graph can be read.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import networkx as nx

NODE = re.compile(r"^\s*(\w+)\[(\w+)\]$", re.MULTILINE)
EDGE = re.compile(r"^\s*(\w+) --> (\w+)$", re.MULTILINE)
PAGE = """\
# The rules

What the default study needs, from texts and checkpoints to the page; written by `snakemake docs`.

```mermaid
flowchart LR
{lines}
```
"""


def page(mermaid: str) -> str:
    """The Markdown page, from what Snakemake prints."""
    names = dict(NODE.findall(mermaid))
    graph = nx.DiGraph((names[source], names[target]) for source, target in EDGE.findall(mermaid))
    return PAGE.format(lines="\n".join(f"    {a} --> {b}" for a, b in sorted(nx.transitive_reduction(graph).edges)))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(sys.stdin.read()), "utf-8")
