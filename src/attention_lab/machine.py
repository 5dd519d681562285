"""The system, the memory and the processor cores of this machine."""

import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from attention_lab.errors import LabError

_CGROUPS = Path("/sys/fs/cgroup")


def check_system() -> None:
    """Raise LabError on Windows, where signals, file locks and opening files work differently."""
    if sys.platform == "win32":
        raise LabError("Windows is not supported: run attention-lab in WSL, the Windows Subsystem for Linux")


def usable_memory() -> int:
    """The memory in bytes that this process may use; a file that needs more is not read.

    It is that of the machine, or less in a container or a job of a cluster, or after `ulimit -v`.
    """
    import resource  # which Windows lacks; `check_system` must run there

    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return min([machine, *_memory_of_groups(), *([] if limit == resource.RLIM_INFINITY else [limit])])


@cache  # training asks in each step
def _memory_of_groups() -> tuple[int, ...]:
    """The limits of the control groups that this process is in (Linux), of both versions."""
    limits = []
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            name = "memory.limit_in_bytes" if controllers else "memory.max"
            group = Path(controllers, path.lstrip("/"))
            for parent in (group, *group.parents):  # in a container, the last may be the only one to be seen
                with suppress(OSError, ValueError):  # ValueError: there is no limit, "max"
                    limits.append(int((_CGROUPS / parent / name).read_text()))
    return tuple(limits)


def check_fits_in_memory(needed: int, task: str, remedy: str) -> None:
    """Raise LabError if a task takes about `needed` bytes of memory, more than this process may use."""
    if needed > (most := usable_memory()):
        found = f"about {needed >> 20:,} MiB of memory, but this machine has {most >> 20:,} MiB"
        raise LabError(f"{task} takes {found}: {remedy}")


def usable_cores() -> int:
    """The number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
