"""The memory that this process may use: that of the machine, of its container, or of `ulimit -v`."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attention_lab import machine

MACHINE = 1 << 34


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder in place of the kernel's control groups."""
    monkeypatch.setattr(machine, "_CGROUPS", tmp_path)
    monkeypatch.setattr(machine.os, "sysconf", {"SC_PHYS_PAGES": MACHINE >> 12, "SC_PAGE_SIZE": 1 << 12}.get)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, 0))
    machine._memory_of_groups.cache_clear()
    yield tmp_path
    machine._memory_of_groups.cache_clear()


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("0::/jobs/7", "jobs/7/memory.max"),
        ("0::/jobs/7", "jobs/memory.max"),  # the limit of the group around it
        ("0::/", "memory.max"),  # in a container
        ("4:memory:/docker/ab", "memory/docker/ab/memory.limit_in_bytes"),
        ("4:memory:/docker/ab", "memory/memory.limit_in_bytes"),
        ("12:cpu,cpuacct:/\n4:memory:/a:b\n0::/", "memory/a:b/memory.limit_in_bytes"),
    ],
)
def test_the_limit_of_a_control_group(
    line: str, file: str, groups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.Path, "read_text", _instead_of("/proc/self/cgroup", f"{line}\n"))
    assert machine.usable_memory() == MACHINE
    (groups / file).parent.mkdir(parents=True, exist_ok=True)
    for written, found in (("max\n", MACHINE), ("9223372036854771712\n", MACHINE), ("1048576\n", 1 << 20)):
        (groups / file).write_text(written)
        machine._memory_of_groups.cache_clear()
        assert machine.usable_memory() == found


@pytest.mark.usefixtures("groups")
def test_the_limit_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1 << 30, 1 << 31))
    assert machine.usable_memory() == 1 << 30


def _instead_of(name: str, text: str) -> Callable[..., str]:
    """`Path.read_text`, which finds another text in one file."""
    read = Path.read_text

    def read_text(path: Path, *arguments: str) -> str:
        return text if str(path) == name else read(path, *arguments)

    return read_text
