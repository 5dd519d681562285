"""Measure several methods of doing the same work, in turn: time, extra peak memory and error."""

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from statistics import median, quantiles
from time import sleep

import torch
from torch import Tensor
from torch.multiprocessing.spawn import ProcessRaisedException

from benchmarks.measuring.machine import Others, Stopwatch, extra_peak, own_seconds
from benchmarks.measuring.relative_error import relative_error

Work = Callable[[], Sequence[Tensor]]
Say = Callable[[str], None]

SAMPLE = 0.15  # minimum seconds; shorter work is repeated, since others' CPU use is counted in ticks of 10 ms
CALM = 0.1  # fraction of the machine; if others use more during a sample, it is repeated
QUIET_AFTER = 0.2  # seconds to wait before a sample is taken again
WARM = {"cpu": 2, "cuda": 5}
"""Pieces of work done before any is timed; on a GPU, the first ones load, tune and compile kernels.

Work of other processes is an epoch with many steps, so that one is enough.
"""


@dataclass(frozen=True)
class Method:
    """One method of doing the work of a comparison.

    Args:
        name: the name in the table: "textbook", "ours, compiled", "x-transformers 2.x".
        make: a function that prepares (not timed) and returns one piece of work (timed), whose results
            (values, gradients) are compared with the reference's.
        needs: a module that must be importable; otherwise the row says "not installed".
        exact: False if the parameters differ from the reference's, so that no error can be stated.
    """

    name: str
    make: Callable[[], Work]
    needs: str = ""
    exact: bool = True


@dataclass(frozen=True)
class Least:
    """The minimum that one piece of work requires of any implementation.

    Args:
        products: floating-point operations in matrix products.
        moved: bytes read or written, counting each input and result once.
        gemm: the rate in `ceiling` that limits the products.
    """

    products: float
    moved: float = 0.0
    gemm: str = "TF/s bf16 GEMM"


@dataclass(frozen=True)
class Comparison:
    """Several methods of doing the same work.

    Args:
        title: the sizes: "B 32, Q = K = 256, h 256".
        methods: the methods; the first one has ratio 1.
        reference: computes the same results in float64.
        note: one sentence below the table.
        work: the amount and unit of a piece of work, such as (3200, "tokens/s"); adds a column with the rate.
        children: whether other processes do the work; their CPU seconds are given, but no memory.
        least: the minimum that the work requires; adds its rate, and the fraction of the machine's best.
    """

    title: str
    methods: Sequence[Method]
    reference: Callable[[], Sequence[Tensor]] | None = None
    note: str = ""
    work: tuple[float, str] | None = None
    children: bool = False
    least: Least | None = None


@dataclass(frozen=True)
class Growth:
    """Methods whose cost is measured at growing sizes.

    Args:
        title: what is measured.
        x: name of the size: "n", "length".
        sizes: the sizes, ascending.
        methods: a function that gives the methods at a size, under the same names; some sizes may lack some.
        note: one sentence below the table.
    """

    title: str
    x: str
    sizes: Sequence[int]
    methods: Callable[[int], Sequence[Method]]
    note: str = ""


@dataclass(frozen=True)
class Row:
    """The measurements of a method; NaN or None if not measured or not applicable.

    Args:
        name: name of the method.
        seconds: median time of one piece of work.
        ratio: how many times faster it is than the first method: median over the rounds.
        spread: the quartiles of the ratio.
        memory: extra bytes at the peak.
        error: largest relative error of the results.
        cpu: median CPU seconds of one piece of work, over all threads and children.
        others: the largest fraction of the machine that others used during a sample.
        disturbed: how many samples remained above `CALM` even after being repeated.
        trouble: why nothing was measured.
    """

    name: str
    seconds: float = math.nan
    ratio: float = math.nan
    spread: tuple[float, float] = (math.nan, math.nan)
    memory: float | None = None
    error: float | None = None
    cpu: float = math.nan
    others: float = math.nan
    disturbed: int = 0
    trouble: str = ""


@dataclass
class _Runner:
    """A prepared method, and the samples taken of it."""

    row: Row
    work: Work
    last: float = 0.0
    number: int = 1
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    again: int = 0

    def once(self, device: torch.device) -> Sequence[Tensor]:
        """Do one piece of work, and record how long it took."""
        watch = Stopwatch(device)
        results = self.work()
        self.last = watch.seconds()
        return results


def measure(
    comparison: Comparison,
    repeats: int = 7,
    *,
    device: torch.device | None = None,
    sample: float = SAMPLE,
    calm: float = CALM,
    say: Say = lambda _: None,
) -> list[Row]:
    """Measure the methods of a comparison in turn (A, B, C, A, B, C): a slow minute affects all of them.

    Each method first runs untimed, once for its results and once for its memory. If others use more than
    `calm` of the machine during a sample, it is repeated, at most `repeats` times in total for each method.
    Of samples that are still disturbed, the calmest counts.

    Args:
        comparison: what to measure.
        repeats: samples of each method; medians are reported.
        device: where the work is done; by default on the CPU.
        sample: minimum seconds of a sample; shorter work is repeated within it.
        calm: largest fraction of the machine that others may use.
        say: called with one line for each method.

    Returns:
        A row for each method, in the same order.
    """
    device = device or torch.device("cpu")
    expected = _expected(comparison, say)
    entries = [_prepare(method, comparison, expected, device, sample) for method in comparison.methods]
    for _ in range(repeats):
        entries = [_sample(x, device, calm, repeats) if isinstance(x, _Runner) else x for x in entries]
    rows = [_summary(one, entries[0], calm) if isinstance(one, _Runner) else one for one in entries]
    for row in rows:
        say(_line(row))
    return rows


def _expected(comparison: Comparison, say: Say) -> list[Tensor] | None:
    """The results in float64; None, and the reason is printed, if they do not fit in memory."""
    if comparison.reference is None:
        return None
    try:
        return [_plain(one) for one in comparison.reference()]
    except (RuntimeError, MemoryError) as error:
        say(f"no errors are given, as there is no reference: {_first_line(error)}")
        return None


def _prepare(
    method: Method, comparison: Comparison, expected: list[Tensor] | None, device: torch.device, sample: float
) -> "_Runner | Row":
    """Run a method for its results, until it is warm, for its memory, and for the length of a sample."""
    row = Row(method.name)
    if method.needs and find_spec(method.needs.partition(".")[0]) is None:
        return replace(row, trouble="not installed")
    compared = expected if method.exact else None
    try:
        runner = _Runner(row, method.make())
        results = runner.once(device)
        # Copied only if they are compared: from a GPU, gigabytes of results take seconds.
        found = [] if compared is None else [_plain(one) for one in results]
        del results
        for _ in range(WARM["cpu" if comparison.children else device.type] - 2):
            runner.once(device)
        memory = None if comparison.children else extra_peak(lambda: runner.once(device), device)
        off = None if compared is None else relative_error(found, compared)
        if runner.last < sample:
            once, _, _ = _take(runner, device)
            runner.number = max(1, math.ceil(sample / max(once, 1e-9)))
    except Exception as error:  # noqa: BLE001  # such as Triton's own; the other methods can be measured
        return replace(row, trouble=_first_line(error))
    runner.row = replace(row, memory=memory, error=off)
    return runner


def _first_line(error: Exception) -> str:
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error):
        return "out of memory"
    if isinstance(error, ProcessRaisedException):  # its message is the traceback of the other process
        return str(error).rstrip().splitlines()[-1][:120]
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:120]


def _plain(one: Tensor) -> Tensor:
    return one.detach().to("cpu", torch.float64)


def _take(runner: _Runner, device: torch.device) -> tuple[float, float, float]:
    """Seconds and CPU seconds of one piece of work, and the fraction of the machine that others used."""
    gc.collect(1)  # what the last sample left; a full collection would take longer than the sample
    others, cpu, watch = Others(), own_seconds(), Stopwatch(device)
    for _ in range(runner.number):
        runner.work()
    seconds = watch.seconds()
    return seconds / runner.number, (own_seconds() - cpu) / runner.number, others.share()


def _sample(runner: _Runner, device: torch.device, calm: float, most_again: int) -> "_Runner | Row":
    """Add a sample; if that fails, as when others now hold the memory, return a row that says why."""
    try:
        best = _take(runner, device)
        while best[2] > calm and runner.again < most_again:
            runner.again += 1
            sleep(QUIET_AFTER)
            best = min(best, _take(runner, device), key=lambda one: one[2])
    except Exception as error:  # noqa: BLE001  # as in `_prepare`
        return Row(runner.row.name, trouble=_first_line(error))
    for values, value in zip((runner.seconds, runner.cpu, runner.others), best, strict=True):
        values.append(value)
    return runner


def _summary(runner: _Runner, first: "_Runner | Row", calm: float) -> Row:
    row = replace(
        runner.row,
        seconds=median(runner.seconds),
        cpu=median(runner.cpu),
        others=max(runner.others),
        disturbed=sum(share > calm for share in runner.others),
    )
    if not isinstance(first, _Runner):
        return row
    ratios = [a / b for a, b in zip(first.seconds, runner.seconds, strict=True)]
    low, _, high = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return replace(row, ratio=median(ratios), spread=(low, high))


def _line(row: Row) -> str:
    if row.trouble:
        return f"{row.name}: {row.trouble}"
    parts = [f"{row.name}: {row.seconds * 1e3:.4g} ms", f"{row.ratio:.3g}x"]
    parts += [f"{row.memory / 2**20:.1f} MiB"] if row.memory is not None else []
    parts += [f"error {row.error:.1e}"] if row.error is not None else []
    parts += [f"others used up to {row.others:.0%} of the machine"] if row.disturbed else []
    return ", ".join(parts)
