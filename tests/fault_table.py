"""The table of faults, ``docs/faults.md``, from the marks of the tests that try them: ``python tests/fault_table.py``.

A test of a fault is marked with its name, what happens and what to do: ``@pytest.mark.fault("a byte flipped in a
remote", happens="`dvc pull` ends with 1", do="record again")``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parent
TABLE = TESTS.parent / "docs/faults.md"
CHAPTERS = {
    "Remotes and records": ("test_faults", "test_fetch_record", "test_publish", "test_stopped_records", "test_verify"),
    "Runs of the workflow": (
        "test_guards", "test_readonly", "test_reconcile", "test_main_process", "test_record_study", "test_memory",
    ),
    "Several runs, hosts and clocks": ("test_locks",),
    "Commands": ("test_artifacts", "test_last_resort", "test_stopped", "test_check"),
    "Trainings and hidden states": ("test_runs", "test_train", "test_hidden_states"),
    "Files that are handed over": (
        "test_beir", "test_containers", "test_foreign_code", "test_tables", "test_tokens", "test_rows", "test_fuzzing",
    ),
    "Hubs": ("test_hub", "test_fetch"),
    "Parameters and registry": ("test_parameters", "test_suites"),
}  # fmt: skip
HEAD = """# Faults

{count} faults that tests cause, with the real tools, what happens then, and what to do. `tests/fault_table.py` writes
this page from the marks of the tests; those that take minutes run with `make faults`, the others with `make test`.
Remotes and hubs are real and on loopback: a folder, a static HTTP server, `rclone serve s3`, a hub of files.
"""


class Fault(NamedTuple):
    """A row of the table."""

    name: str
    happens: str
    do: str
    test: str


def faults(path: Path) -> Iterator[Fault]:
    """Those that the tests of a file are marked with."""
    for node in ast.parse(path.read_text("utf-8")).body:
        for mark in getattr(node, "decorator_list", ()):
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.fault":
                (name,) = (ast.literal_eval(argument) for argument in mark.args)
                words = {word.arg: ast.literal_eval(word.value) for word in mark.keywords}
                yield Fault(name, words["happens"], words["do"], node.name)


def collected() -> dict[str, list[Fault]]:
    """All of them, by the name of the test's file."""
    files = sorted(TESTS.rglob("test_*.py"))
    return {path.stem: found for path in files if (found := list(faults(path)))}


def table() -> str:
    """The page."""
    found = collected()
    parts = [HEAD.format(count=sum(map(len, found.values())))]
    for chapter, names in CHAPTERS.items():
        rows = [f"| {fault.name} | {fault.happens} | {fault.do} | `{fault.test}` |" for name in names
                for fault in found.get(name, ())]  # fmt: skip
        parts.append(
            "\n".join([f"## {chapter}\n", "| fault | what happens | what to do | test |", "|---|---|---|---|", *rows])
            + "\n"
        )
    return "\n".join(parts)


if __name__ == "__main__":
    TABLE.write_text(table(), "utf-8")
