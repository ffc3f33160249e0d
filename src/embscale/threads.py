"""How many threads a command computes with: one limit for all libraries.

numpy, SciPy and torch each bring a pool of their own, with a thread for every core.  On arrays as small as those of a
layer classifier the threads wait for each other more than they compute, above all where another process uses the
cores.  So every command has ``--threads``, 1 unless said otherwise; last digits depend on it, and it goes into notes.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
from collections.abc import Iterator

# Read by a library when it is loaded.  Numba's is not among them: it cannot be changed any more once a function in
# parallel has run, and the only one here is UMAP's, which takes one thread wherever it is given a seed.
VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)

_limit: contextvars.ContextVar[int | None] = contextvars.ContextVar("limit", default=None)


def limit() -> int | None:
    """The limit that holds; None outside `limited`."""
    return _limit.get()


@contextlib.contextmanager
def limited(threads: int) -> Iterator[None]:
    """Let no library compute with more threads.

    It holds for libraries that are loaded, and through the environment for those that are loaded meanwhile, which
    keep it.

    Args:
        threads: of each library, whatever the environment says.
    """
    from threadpoolctl import threadpool_limits

    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ |= dict.fromkeys(VARIABLES, str(threads))
    torch = sys.modules.get("torch")  # its own OpenMP and MKL are not all seen by threadpoolctl
    torch_before = torch.get_num_threads() if torch else None
    token = _limit.set(threads)
    try:
        with threadpool_limits(threads):
            if torch:
                torch.set_num_threads(threads)
            yield
    finally:
        _limit.reset(token)
        if torch:
            torch.set_num_threads(torch_before)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
