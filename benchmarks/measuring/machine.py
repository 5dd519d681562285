"""The machine's state and abilities: CPU use by others, peak memory, best possible rates, and its name."""

import ctypes
import gc
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import active_children
from pathlib import Path
from time import perf_counter, process_time

import torch
from torch import Tensor

_STATUS, _STAT, _CLEAR = Path("/proc/self/status"), Path("/proc/stat"), Path("/proc/self/clear_refs")


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Stopwatch:
    """Measures the time of work on a device since its creation: by events on a GPU, else by the clock."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        synchronize(device)
        if device.type == "cuda":
            self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
            self.events[0].record(torch.cuda.current_stream(device))
        self.begin = perf_counter()

    def seconds(self) -> float:
        """Wait until the device has finished, and return the seconds until then."""
        if self.device.type != "cuda":
            return perf_counter() - self.begin
        self.events[1].record(torch.cuda.current_stream(self.device))
        self.events[1].synchronize()
        return float(self.events[0].elapsed_time(self.events[1])) / 1e3


def own_seconds() -> float:
    """CPU seconds of this process, its children and those they have waited for; NaN if unknown.

    The system adds a child's seconds only after it has ended. For a running child of `multiprocessing`, they
    are read from /proc, in steps of 10 ms.
    """
    living = [_child_seconds(child.pid) for child in active_children()]  # first: this waits for ended ones
    times = os.times()
    return process_time() + times.children_user + times.children_system + sum(living)


def _child_seconds(pid: int | None) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return math.nan
    # After the name, which may contain anything: user and system time, and both for its own children.
    ticks = text.rpartition(")")[2].split()[11:15]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """CPU seconds used by all processes and by other guests of the host; NaN if unknown."""
    try:
        fields = [int(field) for field in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:
        return float("nan")
    user, nice, system, _idle, _waiting, interrupts, soft, steal = fields
    return (user + nice + system + interrupts + soft + steal) / os.sysconf("SC_CLK_TCK")


class Others:
    """Measures how much of the machine others have used since this object was created."""

    def __init__(self) -> None:
        self._start = perf_counter(), busy_seconds(), own_seconds()

    def share(self) -> float:
        """From 0 (none) to 1 (every core all the time); NaN if unknown.

        The clock of /proc/stat ticks every 10 ms, so the share of a shorter time means little.
        """
        begin, busy, own = self._start
        seconds = (perf_counter() - begin) * (os.cpu_count() or 1)
        used = busy_seconds() - busy - (own_seconds() - own)
        return used if math.isnan(used) else min(1.0, max(0.0, used / seconds))


def extra_peak(work: Callable[[], object], device: torch.device) -> float | None:
    """Bytes that a piece of work needs at its peak beyond what was in use before; None if unknown.

    On a CPU, the high-water mark of the resident pages is reset first, and pages that the allocator has kept
    since earlier work are returned. Otherwise work that reuses them would appear to need no memory.
    """
    gc.collect()
    if device.type == "cuda":
        synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        synchronize(device)
        return float(torch.cuda.max_memory_allocated(device) - before)
    if sys.platform != "linux":
        return None
    with suppress(OSError, AttributeError):  # musl has no malloc_trim
        ctypes.CDLL(None).malloc_trim(0)
    try:
        _CLEAR.write_text("5")
    except OSError:
        return None
    resident = _status("VmRSS")
    result = work()  # kept alive until the mark is read
    peak = _status("VmHWM") - resident
    del result
    return float(max(0, peak))


def _status(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def ceiling(device: torch.device) -> dict[str, float]:
    """The best rates that the machine can reach right now, by unit."""
    size = 8192 if device.type == "cuda" else 1024
    left, right = (torch.rand(size, size, device=device) for _ in range(2))
    out = torch.empty_like(left)
    found = {"GF/s f32 GEMM": 2 * size**3 / _least(lambda: torch.mm(left, right, out=out), device) / 1e9}
    if device.type == "cuda":
        a, b = left.bfloat16(), right.bfloat16()
        half = torch.empty_like(a)
        seconds = _least(lambda: torch.mm(a, b, out=half), device)
        found["TF/s bf16 GEMM"] = 2 * size**3 / seconds / 1e12
    source = torch.zeros(1 << (28 if device.type == "cuda" else 25), device=device)  # beyond any cache
    target = torch.zeros_like(source)
    seconds = _least(lambda: target.copy_(source), device)
    found["GB/s copied"] = source.numel() * source.element_size() / seconds / 1e9
    small = torch.rand(1 << 20 if device.type == "cuda" else torch.get_num_threads() << 15, device=device)
    result = torch.empty_like(small)

    def exponentials() -> Tensor:
        for _ in range(64):
            torch.exp(small, out=result)
        return result

    found["G/s exp in cache"] = 64 * small.numel() / _least(exponentials, device) / 1e9
    return found


def _least(work: Callable[[], Tensor], device: torch.device, repeats: int = 7) -> float:
    """Seconds of the fastest run, since a ceiling is what was possible, not what was typical."""
    work()
    seconds = []
    for _ in range(repeats):
        watch = Stopwatch(device)
        work()
        seconds.append(watch.seconds())
    return min(seconds)


def device_name(device: torch.device) -> str:
    """The manufacturer's name for the processor that is measured."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith("model name")).split(":")[1].strip()
    return platform.processor() or platform.machine()


def driver_version() -> str:
    """The version of NVIDIA's driver, or "unknown"."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return (said.split() or ["unknown"])[0]
