"""Pictures of a comparison: settings in order, and one quantity against another."""

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from numbers import Real

from attention_lab.commandline.overrides import as_text
from attention_lab.leaderboard.ranking import Block, Ranked
from attention_lab.leaderboard.settings import Setting, bounds, higher_is_better
from attention_lab.leaderboard.tables import Section
from attention_lab.leaderboard.view import View
from attention_lab.text_tables import metric_name
from attention_lab.viz import Format
from attention_lab.viz.plots import plot_file
from attention_lab.viz.plots.panels import Bubbles, Dot, Dots, Lines, Series

VERDICTS: Mapping[str, str] = {
    "best": "best",
    "tied": "not distinguishable from it at 95%",
    "worse": "worse",
    "open": "not compared",
}
COLOURS = ("#005EA2", "#569CD6", "#969CA4", "#C88200")
"""Colours of the verdicts."""
_MOST = 40  # most rows of a panel; a picture has at most three times as many
_MOST_BUBBLES = 3 * _MOST
_MOST_LINES = 16  # as many names fit above one another at their ends
_MOST_TICKS = 12
_LONGEST = 34  # most characters of a row's name; longer ones would be cut off


def draw_board(title: str, sections: Sequence[Section], kind: Format = "png") -> bytes:
    """`leaderboard.png`: the mean of every setting, its 95% interval, and a point for each seed."""
    panels, note = board_panels(sections)
    return plot_file(panels, kind, title=title, note=note, stacked=True)


def board_panels(sections: Sequence[Section]) -> tuple[list[Dots], str]:
    """One panel per block, as many as fit in a picture, and the note above them."""
    panels: list[Dots] = []
    left = 3 * _MOST
    blocks = [(section, block) for section in sections for block in section.blocks]
    for section, block in blocks:
        shown = block.rows[: min(_MOST, left)]
        names, heading = _row_names(shown, block)
        rows = [_dot(row, block, name) for row, name in zip(shown, names, strict=True)]
        left -= len(rows)
        if rows:
            panels.append(_panel(section, block, rows, heading))
    left_out = sum(len(block.rows) for _, block in blocks) - sum(len(panel.rows) for panel in panels)
    seeds = any(row.points for panel in panels for row in panel.rows)
    note = "mean and 95% interval; rings: seeds" if seeds else "one run each"
    note += f"; {left_out} more settings are in the table" if left_out else ""
    return panels, note


def _row_names(rows: Sequence[Ranked], block: Block) -> tuple[list[str], str]:
    """The names of rows, and the heading above them: if a name is too long, they are values alone."""
    names = [block.name(row) for row in rows]
    if len(rows) < 2 or max(map(len, names)) <= _LONGEST:
        return names, ""
    values = [[as_text(row.setting.options[key]) for key in block.named_keys] for row in rows]
    return [" · ".join(row) for row in values], " · ".join(map(_words, block.named_keys))


def _panel(section: Section, block: Block, rows: Sequence[Dot], heading: str) -> Dots:
    where = [section.name, *(f"{key}={as_text(value)}" for key, value in block.options.items())]
    axis = f"{metric_name(block.metric)} ({'higher' if block.largest else 'lower'} is better)"
    return Dots(
        rows,
        " · ".join(filter(None, where)),
        axis,
        within=bounds(block.metric),
        groups=list(VERDICTS.values()),
        colours=COLOURS,
        heading=heading,
    )


def _dot(row: Ranked, block: Block, name: str) -> Dot:
    mean = row.setting.estimate(block.metric).mean
    points = list(row.setting.values(block.metric).values())
    group = list(VERDICTS).index(row.verdict)
    rings = points if len(points) > 1 else []
    return Dot(name, mean, row.setting.interval(block.metric), rings, group)


def draw_axes(settings: Sequence[Setting], view: View, title: str, kind: Format = "png") -> bytes:
    """`comparison.png`, or the same in another format: y against x."""
    panel, note = axes_panel(settings, view)
    return plot_file([panel], kind, title=title, note=note)


def axes_panel(settings: Sequence[Setting], view: View) -> tuple[Lines | Bubbles, str]:
    """Lines if x is an option, bubbles if it is a metric; and the note above the plot.

    If there are too many to be named, only those with the best mean of y are drawn. The bubbles of a group
    are joined if settings also differ in other options, such as the length.
    """
    x, y, group, size = view.x, view.y, view.group, view.size
    assert x is not None and y is not None
    bubbles = x not in settings[0].options
    joined = bubbles and group in settings[0].options and len(settings[0].options) > 1
    lines: dict[str, list[Setting]] = {}
    for setting in settings:
        named = [
            str(value) for key, value in setting.options.items() if key == group or (not joined and key != x)
        ]
        lines.setdefault(" · ".join(named), []).append(setting)
    lines = _best(lines, y, by_setting=bubbles)
    left_out = len(settings) - sum(map(len, lines.values()))
    settings = list(chain.from_iterable(lines.values()))
    counts = sorted({len(setting.values(y)) for setting in settings} - {0}) or [0]
    seeds = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    note = f"mean and 95% interval over {seeds} seeds" if counts[-1] > 1 else "one run each"
    more = f"; {left_out} more settings are in the table" if left_out else ""
    if not bubbles:
        return _lines(lines, x, y), note + more
    if joined:
        note += (
            f"; beside each bubble: {' · '.join(_words(key) for key in settings[0].options if key != group)}"
        )
    note += f"; area and number: {metric_name(size)}" if size else ""
    series = [
        Series(
            name,
            _means(line, x),
            _means(line, y),
            [setting.interval(y) for setting in line],
            [setting.interval(x) for setting in line],
            areas=_means(line, size) if size else (),
            texts=[_rest(setting, group) for setting in line] if joined else (),
        )
        for name, line in lines.items()
    ]
    return Bubbles(series, x_label=metric_name(x), y_label=metric_name(y)), note + more


def _best(lines: Mapping[str, list[Setting]], y: str, *, by_setting: bool) -> dict[str, list[Setting]]:
    """The lines or, `by_setting`, the bubbles with the best means of y, as many as can be named, in order."""
    jobs = [job for line in lines.values() for setting in line for job in setting.jobs]
    sign = -1 if higher_is_better(y, jobs) else 1

    def rank(drawn: Sequence[Setting]) -> float:
        """A sort key; infinite without a mean."""
        return min((sign * mean for mean in _means(drawn, y) if not math.isnan(mean)), default=math.inf)

    if by_setting:
        ranked = sorted(chain.from_iterable(lines.values()), key=lambda setting: rank([setting]))
        kept = {id(setting) for setting in ranked[:_MOST_BUBBLES]}
        found = {name: [one for one in line if id(one) in kept] for name, line in lines.items()}
        return {name: line for name, line in found.items() if line}
    names = set(sorted(lines, key=lambda name: rank(lines[name]))[:_MOST_LINES])
    return {name: line for name, line in lines.items() if name in names}


def _lines(lines: Mapping[str, Sequence[Setting]], x: str, y: str) -> Lines:
    """Lines over an axis of numbers, logarithmic if they span a factor of ten, or of equidistant values."""
    values = {setting.options[x] for setting in chain.from_iterable(lines.values())}
    numeric = all(isinstance(value, Real) and not isinstance(value, bool) for value in values)
    series = []
    for name, line in lines.items():
        row = sorted(line, key=lambda setting: setting.options[x]) if numeric else line
        intervals = [setting.interval(y) for setting in row]
        series.append(Series(name, [setting.options[x] for setting in row], _means(row, y), intervals))
    return Lines(
        series,
        x_label=_words(x),
        y_label=metric_name(y),
        log_x=numeric and min(values) > 0 and max(values) >= 10 * min(values),
        ticks=sorted(map(float, values)) if numeric and len(values) <= _MOST_TICKS else (),
        names="ends",
        apart=5 if numeric else 12,
    )


def _words(option: str) -> str:
    """An option's name in words: `train size` for data.train_size."""
    return option.rpartition(".")[2].replace("_", " ")


def _rest(setting: Setting, group: str | None) -> str:
    """The options of a setting other than the group."""
    return " · ".join(str(value) for key, value in setting.options.items() if key != group)


def _means(settings: Sequence[Setting], metric: str) -> list[float]:
    return [setting.estimate(metric).mean for setting in settings]
