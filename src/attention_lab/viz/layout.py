"""The layout of a picture: where panels go, how large cells are, and which labels there is room for."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isqrt

from attention_lab.viz.cells import Heatmap, Sides
from attention_lab.viz.fonts import label_mask

LARGEST = 2400  # longest side of a picture in pixels
MOST_ACROSS = 8  # panels in a row or column; with more, none would be legible
MARGIN, GAP = 16, 26
HEADING = 34  # the picture's title
SUBHEADING = 24  # the line below it
CAPTION = 26  # a panel's title
AXIS = 20  # an axis name
LEGEND = 96  # width of the colour bar and its ticks
SPACE = 6  # between labels and map
BODY, CELL = 480, 30  # target side of a map and maximum side of a cell, in pixels
LABELLED = 800  # pixels that a map may take if that makes all its labels legible
THIN = 16  # pixels up to which a cell may be longer than twice its other side
NARROWEST = 170  # pixels that a panel's title and largest weight need
TITLE = 13  # size of a panel's title


@dataclass(frozen=True)
class Layout:
    """The dimensions that all panels of a picture share, in pixels.

    `cell` is the height and width of a cell. If there are more weights than pixels, a block of `block`
    weights down and across shares a cell. One query in `step[0]` and one key in `step[1]` has room for its
    label, of at most `query_room` or `key_room` pixels. Key labels of several characters read upwards if they
    are wider than `slot`, or if most are (`turned`); they take `depth` pixels below the map.
    """

    columns: int
    rows: int
    cell: Sides
    block: Sides
    step: Sides
    label_size: int
    query_room: int
    key_room: int
    slot: int
    depth: int
    turned: bool
    width: int
    height: int

    def turns(self, label: str) -> bool:
        """Whether the label of a key reads upwards."""
        turned = is_turned(label, self.label_size, self.key_room, self.slot)
        return turned or (self.turned and len(label) > 1)

    @property
    def left(self) -> int:
        """Distance from a panel's left edge to its map."""
        return AXIS + self.query_room + SPACE

    @property
    def below(self) -> int:
        """Distance from a map's lower edge to the panel's."""
        return SPACE + self.depth + AXIS

    @property
    def across(self) -> int:
        """Distance from one panel to the next on its right."""
        return self.left + self.width + GAP

    @property
    def down(self) -> int:
        """Distance from one panel to the next below."""
        return CAPTION + self.height + self.below + GAP


def arrange(maps: Sequence[Heatmap], columns: int | None) -> Layout:
    """Lay out at most MOST_ACROSS^2 maps in a picture whose sides are at most LARGEST pixels long."""
    columns = _columns(len(maps)) if columns is None else columns
    columns = min(max(columns, ceil(len(maps) / MOST_ACROSS), 1), MOST_ACROSS, len(maps))
    rows = ceil(len(maps) / columns)
    queries, keys = (max(1, *(heatmap.weights.shape[axis] for heatmap in maps)) for axis in (0, 1))
    crowded = max(columns, rows) > 4
    size = 13 if max(queries, keys) <= 16 and not crowded else 11
    limit = 60 if crowded else 96
    query_room = max(max(_widths(heatmap.queries, size, limit), default=0) for heatmap in maps)
    key_room = max(max(_widths(heatmap.keys, size, limit), default=0) for heatmap in maps)
    line = round(1.4 * size) if any(heatmap.keys for heatmap in maps) else 0
    deepest = max(key_room, line)

    room_across = (LARGEST - 2 * MARGIN - LEGEND) // columns - GAP - AXIS - query_room - SPACE
    room_down = (LARGEST - 2 * MARGIN - HEADING - SUBHEADING) // rows - GAP - CAPTION - AXIS - deepest - SPACE
    labelled = [size + 1 if room else 0 for room in (query_room, key_room)]
    cell = _cell((queries, keys), (room_down, room_across), labelled)
    room_across, room_down = min(room_across, BODY), min(room_down, BODY)
    block = max(1, ceil(queries / room_down)), max(1, ceil(keys / room_across))
    step = ceil((size + 1) * block[0] / cell[0]), ceil((size + 1) * block[1] / cell[1])
    slot = step[1] * cell[1] // block[1] - 3
    turned = [
        is_turned(key, size, key_room, slot) for heatmap in maps for key in _some(heatmap.keys[:: step[1]])
    ]
    titles = max(label_mask(heatmap.title, TITLE).shape[1] for heatmap in maps)
    return Layout(
        columns=columns,
        rows=rows,
        cell=cell,
        block=block,
        step=step,
        label_size=size,
        query_room=query_room,
        key_room=key_room,
        slot=slot,
        depth=deepest if any(turned) else line,
        turned=sum(turned) > len(turned) / 2,
        width=max(NARROWEST, ceil(keys / block[1]) * cell[1], min(titles, room_across)),
        height=max(1, ceil(queries / block[0]) * cell[0]),
    )


def _cell(counts: Sides, rooms: Sides, labels: Sequence[int]) -> Sides:
    """Height and width of a cell: nearly square, with room for each label if possible."""
    rooms = min(rooms[0], LABELLED), min(rooms[1], LABELLED)
    sides = [min(CELL, min(room, BODY) // count) for count, room in zip(counts, rooms, strict=True)]
    most = [room // count for count, room in zip(counts, rooms, strict=True)]
    sides = [
        max(1, side, label if label <= fits else 0)
        for side, label, fits in zip(sides, labels, most, strict=True)
    ]
    down, across = (
        max(side, min(other // 2, fits)) for side, other, fits in zip(sides, sides[::-1], most, strict=True)
    )
    return min(down, max(THIN, 2 * across)), min(across, max(THIN, 2 * down))


def _columns(panels: int) -> int:
    """The number of columns for a roughly square grid, if possible without a gap in the last row."""
    square = isqrt(panels - 1) + 1
    return next((n for n in range(square, isqrt(4 * panels) + 1) if panels % n == 0), square)


def _widths(labels: Sequence[str], size: int, limit: int) -> list[int]:
    return [label_mask(label, size, limit).shape[1] for label in _some(labels)]


def _some(labels: Sequence[str]) -> Sequence[str]:
    """The labels, or an evenly spaced selection if there are hundreds."""
    return labels[:: max(1, len(labels) // 64)]


def is_turned(label: str, size: int, limit: int, slot: float) -> bool:
    """Whether a label reads upwards: one of several characters that is wider than its slot."""
    return len(label) > 1 and label_mask(label, size, limit).shape[1] > slot
