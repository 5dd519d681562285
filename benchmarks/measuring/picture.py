"""Draw growth curves: time and memory against size, on logarithmic axes."""

from collections.abc import Callable, Sequence
from functools import partial
from math import nan

from attention_lab.viz import to_png
from attention_lab.viz.plots import draw_panels
from attention_lab.viz.plots.panels import Lines, Series
from benchmarks.measuring.harness import Growth, Row

_MOST_TICKS = 6
_LEAST = 1.0  # MiB; smaller values are drawn at this height, since pages are counted rather than bytes

Measured = Sequence[tuple[int, Sequence[Row]]]


def draw_growth(growth: Growth, measured: Measured) -> bytes:
    """A PNG with a line for each method: time on the left and, if measured, extra memory on the right."""
    sizes = [n for n, _ in measured]
    panel = partial(
        Lines,
        x_label=growth.x,
        log_x=True,
        log_y=True,
        ticks=sizes[:: 1 + (len(sizes) > _MOST_TICKS)],
        names="ends",
    )
    panels = [panel(_series(measured, lambda row: row.seconds), "time", format_y=_seconds)]
    if any(row.memory is not None for _, rows in measured for row in rows):
        memory = _series(measured, _mebibytes)
        panels.append(panel(memory, "extra memory", format_y=lambda at: f"{at:,.0f} MiB"))
    return to_png(draw_panels(panels, title=growth.title))


def _series(measured: Measured, value: Callable[[Row], float]) -> list[Series]:
    names = dict.fromkeys(row.name for _, rows in measured for row in rows)
    found = []
    for name in names:
        points = [(n, value(row)) for n, rows in measured for row in rows if row.name == name]
        found.append(Series(name, [n for n, _ in points], [y for _, y in points]))
    return found


def _mebibytes(row: Row) -> float:
    return nan if row.memory is None else max(_LEAST, row.memory / 2**20)


def _seconds(at: float) -> str:
    if at >= 0.999:
        return f"{at:.3g} s"
    return f"{at * 1e3:.3g} ms" if at >= 0.999e-3 else f"{at * 1e6:.3g} µs"
