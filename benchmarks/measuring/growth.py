"""Measure how the cost of each method grows with size, until it would need too much time or memory."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from benchmarks.measuring.harness import CALM, SAMPLE, Comparison, Growth, Row, Say, measure


@dataclass(frozen=True)
class Limits:
    """A method is measured only up to the size at which a piece of work would exceed these limits."""

    seconds: float = 5.0
    memory: float = 6.0 * 2**30

    @classmethod
    def of(cls, device: torch.device) -> "Limits":
        """The usual limits; on a GPU, less time and most of its memory."""
        if device.type != "cuda":
            return cls()
        return cls(1.0, 0.8 * torch.cuda.get_device_properties(device).total_memory)


def grow(
    growth: Growth,
    repeats: int = 7,
    *,
    limits: Limits | None = None,
    device: torch.device | None = None,
    sample: float = SAMPLE,
    calm: float = CALM,
    say: Say = lambda _: None,
) -> Iterator[tuple[int, list[Row]]]:
    """Measure the methods of a growth at each size, as `measure` does.

    A method's cost at the next size is predicted from its last two. A method that would exceed a limit is not
    measured at that size nor at larger ones; its rows give the predicted cost.
    """
    limits = limits or Limits.of(device or torch.device("cpu"))
    past: dict[str, list[tuple[int, Row]]] = {}
    failed: dict[str, str] = {}
    for size in growth.sizes:
        methods = list(growth.methods(size))
        skipped = {
            method.name: failed.get(method.name) or _too_much(past.get(method.name, []), size, limits)
            for method in methods
        }
        going = [method for method in methods if not skipped[method.name]]
        say(f"{growth.x} = {size:,}")
        comparison = Comparison(f"{growth.title}, {growth.x} = {size:,}", going)
        rows = {
            row.name: row
            for row in measure(comparison, repeats, device=device, sample=sample, calm=calm, say=say)
        }
        for name, row in rows.items():
            if row.trouble:
                failed[name] = row.trouble
            else:
                past.setdefault(name, []).append((size, row))
        yield (
            size,
            [rows.get(method.name) or Row(method.name, trouble=skipped[method.name]) for method in methods],
        )


def _too_much(past: Sequence[tuple[int, Row]], size: int, limits: Limits) -> str:
    if not past:
        return ""
    seconds = foretell([(n, row.seconds) for n, row in past], size)
    if seconds > limits.seconds:
        return f"about {seconds:.2g} s"
    memory = foretell([(n, row.memory or 0.0) for n, row in past], size)
    return f"about {memory / 2**30:.2g} GiB" if memory > limits.memory else ""


def foretell(points: Sequence[tuple[int, float]], size: int) -> float:
    """Extrapolate the power law through the last two points, or through a single one with power 2."""
    n, value = points[-1]
    power = 2.0
    if len(points) > 1 and value > 0 and points[-2][1] > 0:
        before, earlier = points[-2]
        power = min(3.0, max(0.0, math.log(value / earlier) / math.log(n / before)))
    return float(value * (size / n) ** power)
