"""From what a task observed to records of attention, and from these to pictures."""

import re
from collections.abc import Iterator
from pathlib import Path

from PIL.Image import Image

from attention_lab.tasks import Observation
from attention_lab.tensorboard_plugin.record import AttentionRecord
from attention_lab.tensorboard_plugin.writer import ink
from attention_lab.viz import Heatmap, Overlay, draw_heatmaps, draw_overlays, to_png
from attention_lab.writing import write_atomically


def attention_records(observation: Observation) -> Iterator[tuple[str, AttentionRecord]]:
    """One record for each attention module, with the module's place as its name."""
    for module, weights in observation.weights.items():
        queries, keys = observation.labels(module)
        elsewhere = module in (observation.others or {})
        gold = None if elsewhere or observation.gold is None else observation.gold.long().numpy()
        picture = None if elsewhere else observation.picture
        x = None if elsewhere else observation.x
        yield (
            readable(module),
            AttentionRecord(
                weights=weights.float().numpy(),
                queries=queries,
                keys=keys,
                module=module,
                input=observation.input,
                output=observation.output,
                mask=observation.masks[module].numpy(),
                gold=gold,
                picture=None if picture is None else ink(*picture),
                x=None if x is None else (x[0].double().numpy(), x[1].double().numpy()),
            ),
        )


def attention_pictures(observation: Observation) -> Iterator[tuple[str, Image]]:
    """The pictures of each attention module, with the names of what they show."""
    for place, record in attention_records(observation):
        yield from record_pictures(place, record)


def record_pictures(place: str, record: AttentionRecord) -> Iterator[tuple[str, Image]]:
    """One picture of a record, a panel for each head, with the module's place as its name.

    Over the cells of a picture there is one for each head, with a panel for each query.
    """
    title = f"{_short(record.input)} → {_short(record.output)}"
    many = len(record.weights) > 1
    if record.picture is not None:
        pixels, cell = record.picture
        for number, head in enumerate(record.weights, start=1):
            overlay = Overlay(pixels / 255, cell, head, record.queries, record.gold)
            yield f"{place} head {number}" if many else place, draw_overlays(overlay, title=title)
        return
    heads = [
        Heatmap(
            head,
            title=f"{place} · head {number}" if many else place,
            queries=record.queries,
            keys=record.keys,
            mask=mask,
            gold=record.gold,
        )
        for number, (head, mask) in enumerate(zip(record.weights, record.attended, strict=True), start=1)
    ]
    yield place, draw_heatmaps(heads, title=title)


def readable(module: str) -> str:
    """The place of an attention as a person says it: `encoder.layers.0.attention` is `encoder layer 1`."""
    parts = [part for part in module.split(".") if part not in ("attention", "layers")]
    return " ".join(f"layer {int(part) + 1}" if part.isdigit() else part for part in parts) or "attention"


def save_pictures(observations: list[Observation], folder: Path) -> list[Path]:
    """Write every attention of every example to `folder` as PNG files; returns their paths."""
    paths = []
    for number, observation in enumerate(observations, start=1):
        for place, picture in attention_pictures(observation):
            parts = (f"{number:02d}", _file_name(observation.input), _file_name(place, 100))
            path = folder / f"{'_'.join(part for part in parts if part)}.png"
            write_atomically(path, to_png(picture))
            paths.append(path)
    return paths


def _file_name(text: str, limit: int = 24) -> str:
    """The words of a short text; nothing of a long one, which would name a file no better than its number."""
    return "" if len(text) > limit else re.sub(r"[^\w-]+", "-", text).strip("-")


def _short(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
