"""The pictures of a comparison: settings in order, and one quantity against another."""

from collections.abc import Mapping, Sequence
from itertools import chain
from math import isfinite
from numbers import Real

from attention_lab.leaderboard.ranking import Block, Ranked
from attention_lab.leaderboard.settings import Setting, format_value
from attention_lab.leaderboard.tables import Section, or_nan
from attention_lab.viz import to_png
from attention_lab.viz.panels import Bubbles, Dot, Dots, Interval, Lines, Series
from attention_lab.viz.plots import draw_panels

VERDICTS: Mapping[str, str] = {
    "best": "best",
    "tied": "not distinguishable from it at 95%",
    "worse": "worse",
    "open": "not compared",
}
COLOURS = ("#005EA2", "#569CD6", "#969CA4", "#C88200")
"""Of the verdicts."""
_MOST = 40  # rows of a panel; there are at most three times as many in the picture
_MOST_TICKS = 12


def draw_board(title: str, sections: Sequence[Section]) -> bytes:
    """`leaderboard.png`: of every setting the mean, its 95% interval, and a point for each seed."""
    panels, note = board_panels(sections)
    return to_png(draw_panels(panels, title=title, note=note, stacked=True))


def board_panels(sections: Sequence[Section]) -> tuple[list[Dots], str]:
    """A panel for each block, as far as they fit a picture, and the note above them."""
    panels: list[Dots] = []
    left = 3 * _MOST
    blocks = [(section, block) for section in sections for block in section.blocks]
    for section, block in blocks:
        rows = [_dot(row, block) for row in block.rows[: min(_MOST, left)]]
        left -= len(rows)
        if rows:
            panels.append(_panel(section, block, rows))
    left_out = sum(len(block.rows) for _, block in blocks) - sum(len(panel.rows) for panel in panels)
    note = "mean and 95% interval; rings: seeds"
    note += f"; {left_out} more settings are in the table" if left_out else ""
    return panels, note


def _panel(section: Section, block: Block, rows: Sequence[Dot]) -> Dots:
    where = [section.name, *(f"{key}={format_value(value)}" for key, value in block.options.items())]
    axis = f"{block.metric} ({'more' if block.largest else 'less'} is better)"
    return Dots(
        rows,
        " · ".join(filter(None, where)),
        axis,
        within=visible_range(rows),
        groups=list(VERDICTS.values()),
        colours=COLOURS,
    )


def _dot(row: Ranked, block: Block) -> Dot:
    mean = or_nan(row.cell.estimate(block.metric)).mean
    points = list(row.cell.values(block.metric).values())
    group = list(VERDICTS).index(row.verdict)
    return Dot(block.name(row), mean, row.cell.interval(block.metric), points, group)


def visible_range(rows: Sequence[Dot]) -> Interval | None:
    """All values, and of the intervals what lies within twice their spread; None where there are no values.

    An interval of two seeds is twelve times their distance wide: it would press all else into a corner.
    """
    values = [value for row in rows for value in (row.value, *row.points) if abs(value) < 1e100]
    if not values:
        return None
    low, high = min(values), max(values)
    spread = (high - low) or abs(high) or 1.0
    ends = [end for row in rows for end in row.interval if isfinite(end)]
    low = min([low, *(max(end, low - spread / 2) for end in ends)])
    high = max([high, *(min(end, high + spread / 2) for end in ends)])
    space = 0.04 * ((high - low) or spread)
    return low - space, high + space


def draw_axes(
    cells: Sequence[Setting], x: str, y: str, *, size: str | None, title: str, group: str | None = None
) -> bytes:
    """`comparison.png`: y against x."""
    panel, note = axes_panel(cells, x, y, size=size, group=group)
    return to_png(draw_panels([panel], title=title, note=note))


def axes_panel(
    cells: Sequence[Setting], x: str, y: str, *, size: str | None = None, group: str | None = None
) -> tuple[Lines | Bubbles, str]:
    """Lines over an option or bubbles over a metric, and the note above them.

    Bubbles that differ in more than `group` are joined: of a mechanism, those of every length.
    """
    bubbles = x not in cells[0].options
    joined = bubbles and group in cells[0].options and len(cells[0].options) > 1
    lines: dict[str, list[Setting]] = {}
    for cell in cells:
        named = [
            str(value) for key, value in cell.options.items() if key == group or (not joined and key != x)
        ]
        lines.setdefault(" · ".join(named), []).append(cell)
    most = max(len(cell.values(y)) for cell in cells)
    note = f"mean and 95% interval over {most} seeds" if most > 1 else "one run each"
    if not bubbles:
        return _lines(lines, x, y), note
    if joined:
        note += f"; beside each bubble {' · '.join(key for key in cells[0].options if key != group)}"
    note += f"; area and number: {size}" if size else ""
    series = [
        Series(
            name,
            _means(line, x),
            _means(line, y),
            [cell.interval(y) for cell in line],
            [cell.interval(x) for cell in line],
            areas=_means(line, size) if size else (),
            texts=[_rest(cell, group) for cell in line] if joined else (),
        )
        for name, line in lines.items()
    ]
    return Bubbles(series, x_label=x, y_label=y), note


def _lines(lines: Mapping[str, Sequence[Setting]], x: str, y: str) -> Lines:
    """Numbers stand where they belong, on a logarithmic axis over a factor of ten; all else side by side."""
    values = {cell.options[x] for cell in chain.from_iterable(lines.values())}
    numeric = all(isinstance(value, Real) and not isinstance(value, bool) for value in values)
    series = []
    for name, line in lines.items():
        row = sorted(line, key=lambda cell: cell.options[x]) if numeric else line
        intervals = [cell.interval(y) for cell in row]
        series.append(Series(name, [cell.options[x] for cell in row], _means(row, y), intervals))
    return Lines(
        series,
        x_label=x,
        y_label=y,
        log_x=numeric and min(values) > 0 and max(values) >= 10 * min(values),
        ticks=sorted(values) if numeric and len(values) <= _MOST_TICKS else (),
        names="ends",
        apart=5 if numeric else 12,
    )


def _rest(cell: Setting, group: str | None) -> str:
    """A setting by its options beside the group."""
    return " · ".join(str(value) for key, value in cell.options.items() if key != group)


def _means(cells: Sequence[Setting], metric: str) -> list[float]:
    return [or_nan(cell.estimate(metric)).mean for cell in cells]
