"""Run commands again from their notes alone, in the folder that this is started in: ``python replay.py NOTE ...``.

Prints a line of JSON: the outputs whose bytes differ from what the note says, by note.
"""

import json
import sys
from pathlib import Path

from embscale import cli
from embscale.provenance.artifacts import file_sha256


def replay(path):
    """The outputs that differ."""
    note = json.loads(path.read_text("utf-8"))
    for output in note["outputs"]:
        Path(output).unlink()
    path.unlink()
    command, *words = cli.line(note["command"], note["params"] | note["paths"])
    if cli.execute(command, words):
        return ["it failed"]
    again = json.loads(path.read_text("utf-8"))
    for one in (note, again):
        # Other notes name the modules that were loaded; here one process runs everything.
        one["inputs"] = {name: digest for name, digest in one["inputs"].items() if not name.endswith(".note.json")}
    outputs = {name: digest for name, digest in note["outputs"].items() if not name.endswith(".note.json")}
    differing = [output for output, digest in outputs.items() if file_sha256(Path(output)) != digest]
    return differing + [f"its note: {key}" for key in ("params", "paths", "inputs") if again[key] != note[key]]


if __name__ == "__main__":
    found = {path: replay(Path(path)) for path in sys.argv[1:]}
    print(json.dumps({path: differing for path, differing in found.items() if differing}))
