"""Draw records of attention as named pictures, and save them."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy.typing as npt
from PIL.Image import Image

from attention_lab.files.writing import write_atomically
from attention_lab.tasks.observation import Observation
from attention_lab.tasks.pixel_rows import is_picture
from attention_lab.tensorboard_plugin.description import readable
from attention_lab.tensorboard_plugin.image_patches import by_head
from attention_lab.tensorboard_plugin.record import AttentionRecord
from attention_lab.viz import (
    Format,
    Overlay,
    draw_heatmaps,
    draw_overlays,
    draw_thumbnail,
    record_heatmaps,
    rounded_top,
    to_png,
)

_LONGEST = 60  # characters of an input or output in a title


def scale_tops(observations: Iterable[Observation]) -> dict[str, float]:
    """The weight that gets the darkest colour, by place; heads and examples share it. See `rounded_top`."""
    found: dict[str, list[AttentionRecord]] = {}
    for observation in observations:
        for record in observation.records:
            found.setdefault(readable(record.module), []).append(by_head(record))

    def heads(records: Iterable[AttentionRecord]) -> Iterator[npt.NDArray[Any]]:
        """The weights of each head: all of them at once would take as much memory as the records."""
        for record in records:
            for weights, attended in zip(record.weights, record.attended, strict=True):
                yield weights[attended]

    return {place: rounded_top(heads(records)) for place, records in found.items()}


def record_pictures(record: AttentionRecord, top: float) -> Iterator[tuple[str, Image]]:
    """The pictures of a record, each with its name.

    Usually one picture, named after the module, with a panel for each head. If the input is a picture, one
    for each head, with a panel for each query; but one with a panel for each head if its cells attend to each
    other, see `by_head`. `top` is the weight of the darkest colour.
    """
    record = by_head(record)
    place, title = readable(record.module), _title(record)
    if record.picture is not None:
        for name, overlay in _overlays(record):
            yield name, draw_overlays(overlay, title=title, subtitle=name, maximum=top)
    else:
        yield place, draw_heatmaps(record_heatmaps(record), title=title, subtitle=place, maximum=top)


def record_thumbnails(record: AttentionRecord, top: float) -> Iterator[tuple[str, Image]]:
    """The same pictures for TensorBoard, which shows them small: transparent, with fewer, larger labels."""
    record = by_head(record)
    if record.picture is not None:
        for name, overlay in _overlays(record):
            yield name, draw_overlays(overlay, title=_title(record), maximum=top, themed=True)
    else:
        yield (
            readable(record.module),
            draw_thumbnail(record_heatmaps(record), title=_title(record), maximum=top),
        )


def _title(record: AttentionRecord) -> str:
    """Input and output, and the expected output if it is another one."""
    wrong = record.expected and record.expected != record.output
    correct = f", expected {_short(record.expected)}" if wrong else ""
    if is_picture(record.input):
        return f"output: {_short(record.output)}{correct}"
    return " → ".join(_short(text) for text in (record.input, record.output) if text) + correct


def _overlays(record: AttentionRecord) -> Iterator[tuple[str, Overlay]]:
    """For each head, a name and its weights over the picture."""
    assert record.picture is not None
    place, (pixels, cell, by_row) = readable(record.module), record.picture
    for number, head in enumerate(record.weights, start=1):
        overlay = Overlay(pixels / 255, cell, head, record.queries, record.gold, by_row)
        yield f"{place} head {number}" if len(record.weights) > 1 else place, overlay


def record_files(record: AttentionRecord, top: float, kind: Format) -> Iterator[tuple[str, bytes]]:
    """The files of the `record_pictures`, each with its name."""
    if kind == "png":
        yield from ((name, to_png(picture)) for name, picture in record_pictures(record, top))
        return
    record = by_head(record)
    from attention_lab.viz.vector import heatmaps_file, overlays_file  # matplotlib is slow to import

    words: dict[str, Any] = {"title": _title(record), "maximum": top}
    if record.picture is not None:
        for name, overlay in _overlays(record):
            yield name, overlays_file(overlay, kind, subtitle=name, **words)
    else:
        place = readable(record.module)
        yield place, heatmaps_file(record_heatmaps(record), kind, subtitle=place, **words)


def save_pictures(observations: list[Observation], folder: Path, kind: Format = "png") -> list[Path]:
    """Write every attention of every example to `folder` as files of this format; returns their paths.

    The pictures of one attention share a scale.
    """
    paths: list[Path] = []
    tops = scale_tops(observations)
    for number, observation in enumerate(observations, start=1):
        for record in observation.records:
            for place, content in record_files(record, tops[readable(record.module)], kind):
                parts = (f"{number:02d}", _file_name(observation.input), _file_name(place, 100))
                name = "_".join(part for part in parts if part)
                path = folder / f"{name}.{kind}"
                if path in paths:  # of two modules with names alike
                    path = folder / f"{name}_{len(paths) + 1}.{kind}"
                write_atomically(path, content)
                paths.append(path)
    return paths


def _file_name(text: str, limit: int = 24) -> str:
    """Turn a text into part of a file name, cut to `limit` characters."""
    name = ""
    for one in text[: 10 * limit]:
        mark = unicodedata.category(one)[0] == "M"  # an accent or vowel sign belongs to the letter before it
        name += one if re.match(r"[\w-]", one) or (mark and name[-1:] not in ("", "-")) else "-"
    return re.sub("-+", "-", name).strip("-")[:limit].rstrip("-")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
