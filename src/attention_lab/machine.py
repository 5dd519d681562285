"""The system, the memory and the processor cores of this machine."""

import os
import sys

from attention_lab.errors import LabError


def check_system() -> None:
    """Raise LabError on Windows, where signals, file locks and opening files work differently."""
    if sys.platform == "win32":
        raise LabError("Windows is not supported: run attention-lab in WSL, the Windows Subsystem for Linux")


def physical_memory() -> int:
    """The memory of this machine in bytes; a file that needs more is not read."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_fits_in_memory(needed: int, task: str, remedy: str) -> None:
    """Raise LabError if a task takes about `needed` bytes of memory, more than this machine has."""
    if needed > (most := physical_memory()):
        found = f"about {needed >> 20:,} MiB of memory, but this machine has {most >> 20:,} MiB"
        raise LabError(f"{task} takes {found}: {remedy}")


def usable_cores() -> int:
    """The number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
