"""The pictures of a comparison: settings in order, and one quantity against another."""

from collections.abc import Sequence
from dataclasses import replace

from attention_lab.leaderboard.ranking import Block, Ranked
from attention_lab.leaderboard.settings import Setting, format_value
from attention_lab.leaderboard.tables import Section, or_nan
from attention_lab.viz import to_png
from attention_lab.viz.plot import Measured, draw_bubbles, draw_lines
from attention_lab.viz.ranking import Bar, Panel, draw_ranking


def draw_board(title: str, sections: Sequence[Section]) -> bytes:
    """`leaderboard.png`: of every setting the mean, its 95% interval, and a point for each seed."""
    panels = [_panel(section, block) for section in sections for block in section.blocks]
    return to_png(draw_ranking(title, panels))


def _panel(section: Section, block: Block) -> Panel:
    where = [section.name, *(f"{key}={format_value(value)}" for key, value in block.options.items())]
    axis = f"{block.metric} ({'more' if block.largest else 'less'} is better)"
    return Panel(" · ".join(filter(None, where)), axis, [_bar(row, block) for row in block.rows])


def _bar(row: Ranked, block: Block) -> Bar:
    mean = or_nan(row.cell.estimate(block.metric)).mean
    points = list(row.cell.values(block.metric).values())
    return Bar(block.name(row), mean, row.cell.interval(block.metric), points, row.verdict)


def draw_axes(
    cells: Sequence[Setting], x: str, y: str, *, size: str | None, title: str, group: str | None = None
) -> bytes:
    """`comparison.png`: y against x, as lines over an option or as bubbles over a metric; by matplotlib.

    Bubbles that differ in more than `group` are joined: of a mechanism, those of every length.
    """
    bubbles = x not in cells[0].options
    most = max(len(cell.values(y)) for cell in cells)
    spread = f"mean and 95% interval over {most} seeds" if most > 1 else "one run each"
    labels = {"title": title, "x_label": x, "y_label": y}
    lines: dict[str, list[Setting]] = {}
    joined = bubbles and group in cells[0].options and len(cells[0].options) > 1
    for cell in cells:
        named = [
            str(value) for key, value in cell.options.items() if key == group or (not joined and key != x)
        ]
        lines.setdefault(" · ".join(named), []).append(cell)
    measured = [_measured(name, line, x, y, size) for name, line in lines.items()]
    if joined:
        measured = [
            replace(row, points=[_rest(cell, group) for cell in line])
            for row, line in zip(measured, lines.values(), strict=True)
        ]
        others = " · ".join(key for key in cells[0].options if key != group)
        spread = f"{spread}; beside each bubble {others}"
    if bubbles:
        note = f"{spread}; area and number: {size}" if size else spread
        return to_png(draw_bubbles(measured, note=note, **labels))
    return to_png(draw_lines(measured, note=spread, **labels))


def _rest(cell: Setting, group: str | None) -> str:
    """A setting by its options beside the group."""
    return " · ".join(str(value) for key, value in cell.options.items() if key != group)


def _measured(name: str, cells: Sequence[Setting], x: str, y: str, size: str | None) -> Measured:
    means, intervals = _means(cells, y), [cell.interval(y) for cell in cells]
    areas = _means(cells, size) if size else None
    if x in cells[0].options:
        return Measured(name, [cell.options[x] for cell in cells], means, intervals, areas=areas)
    across = [cell.interval(x) for cell in cells]
    return Measured(name, _means(cells, x), means, intervals, x_intervals=across, areas=areas)


def _means(cells: Sequence[Setting], metric: str) -> list[float]:
    return [or_nan(cell.estimate(metric)).mean for cell in cells]
