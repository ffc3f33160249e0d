"""Number of threads of a command: one limit for all libraries.

numpy, SciPy and torch each have their own pool, with a thread per core.  On arrays as small as those of a layer
classifier, the threads spend more time waiting for each other than computing, above all if another process uses the
cores.  So every command has ``--threads``, by default 1.  Last digits depend on it, so it is recorded in notes.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
from collections.abc import Iterator

# Read by libraries on import.  Numba's is not included: it cannot be changed after a parallel function has run, and the
# only such function here is UMAP's, which uses one thread if it has a seed.
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
    """The current limit; None outside `limited`."""
    return _limit.get()


@contextlib.contextmanager
def limited(threads: int) -> Iterator[None]:
    """Limit the number of threads of all libraries.

    The limit applies to loaded libraries and, through the environment, to those imported meanwhile, which keep it.

    Args:
        threads: of each library, whatever the environment says.
    """
    from threadpoolctl import threadpool_limits

    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ |= dict.fromkeys(VARIABLES, str(threads))
    torch = sys.modules.get("torch")  # threadpoolctl does not see all of its OpenMP and MKL pools
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


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
