"""The machine on which a page was made."""

from __future__ import annotations

import os
import platform
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")  # Linux gives the name of the processor only there


def machine() -> str:
    """This machine in words: system, processor, how many cores this process may use, memory where it is known."""
    lines = CPU_INFO.read_text("utf-8", "replace").splitlines() if CPU_INFO.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    words = [f"{platform.system()} {platform.machine()}", *names[:1], f"{cores} cores"]
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        words.append(f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB of memory")
    return ", ".join(words)
