"""Names of tables on the command line, and the columns that identify tables and variants in score rows.

A table is a file (FILE, or STEP=FILE where the training step is recorded in the rows) or random
(random:ROWSxDIMS:SEED).
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embscale.scoring.scores import NONE
from embscale.tables.table_files import INPUT

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from embscale.tables.random_tables import RandomTable
    from embscale.tables.variants import Variant

RANDOM = "random"
MAIN = "main"  # the step of a published checkpoint if it is not known

# A trained table whose rows are shuffled among the tokens: the same geometry without the meaning.
SHUFFLED = "shuffled"

# Variants that weight tokens by their frequency in a task's documents.
OF_TASK = ("sif", "idf")

# Default values of rows without step, seed and so on.
NO_KEYS = dict.fromkeys(("run", "step", "variant_dims", "strength", "seed", "dim", "width"), NONE)


def is_random(text: str) -> bool:
    """Whether a name stands for a random table."""
    return text.startswith(f"{RANDOM}:")


def split_step(text: str) -> tuple[int | None, Path]:
    """Step and file of ``STEP=FILE`` or ``FILE``; no step if it is not given or is ``main``."""
    match = re.fullmatch(rf"(\d+|{MAIN})=(.+)", text)
    step, path = (match[1], match[2]) if match else (MAIN, text)
    return None if step == MAIN else int(step), Path(path)


def file_keys(
    *, suite: str, model: str | None, run: int | None, step: int | None, path: Path, table_sha256: str
) -> dict[str, Any]:
    """Keys of the table of a file, without the variant's; the model defaults to the file's name."""
    return NO_KEYS | {
        "suite": suite,
        "model": model or path.stem,
        "run": NONE if run is None else run,
        "step": NONE if step is None else step,
        "table_sha256": table_sha256,
    }


def variant_keys(variant: Variant, table: str) -> dict[str, Any]:
    """Keys of a variant of a file's table; the variant's name includes the table's unless it is the input table."""
    given = {"variant_dims": variant.dims, "strength": variant.strength, "seed": variant.seed}
    kind = f"{variant.kind}_{variant.generator}" if variant.generator else variant.kind
    if table != INPUT:
        kind = table if variant.kind == "full" else f"{table}+{kind}"
    return {"variant": kind} | {name: NONE if value is None else value for name, value in given.items()}


def random_keys(table: RandomTable, variant: Variant | None = None) -> dict[str, Any]:
    """Keys of a random table, or of a variant of it; its seed is the table's, not the variant's."""
    name = f"{RANDOM}_{table.generator}" if table.generator else RANDOM
    keys = NO_KEYS | {
        "suite": RANDOM,
        "model": RANDOM,
        "variant": name,
        "variant_dims": table.dims,
        "width": table.dims,
        "seed": table.seed,
        "table_sha256": text_sha256(table.text),
    }
    if variant is None or variant.kind == "full":
        return keys
    given = {"variant_dims": variant.dims, "strength": variant.strength}
    return (
        keys
        | {"variant": f"{name}+{variant.kind}"}
        | {name: NONE if value is None else value for name, value in given.items()}
    )


def note_unused_rows(name: str, rows: int, tokenizer: Tokenizer) -> None:
    """Print a note about a table with more rows than its tokenizer has tokens, such as a padded table."""
    unused = rows - tokenizer.get_vocab_size()
    if unused > 0:
        print(f"{name}: {rows} rows, of which the tokenizer has no use for {unused}", file=sys.stderr)


def text_sha256(text: str) -> str:
    """Digest of the specification of a table that is not a file."""
    return hashlib.sha256(text.encode()).hexdigest()
