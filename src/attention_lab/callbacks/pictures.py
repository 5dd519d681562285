"""From what a task observed to pictures."""

import re
from collections.abc import Iterator
from pathlib import Path

from PIL.Image import Image

from attention_lab.tasks import Observation
from attention_lab.viz import Heatmap, Overlay, draw_heatmaps, draw_overlays, to_png


def attention_pictures(observation: Observation) -> Iterator[tuple[str, Image]]:
    """One picture for each attention module, a panel for each head, with the module's place as its name.

    Over the cells of a picture there is one for each head, with a panel for each query.
    """
    gold = None if observation.gold is None else observation.gold.numpy()
    for module, weights in observation.weights.items():
        place = readable(module)
        queries, keys = observation.labels(module)
        elsewhere = module in (observation.others or {})
        title = f"{_short(observation.input)} → {_short(observation.output)}"
        if observation.picture is not None and not elsewhere:
            ink, cell = observation.picture
            for number, head in enumerate(weights, start=1):
                name = place if len(weights) == 1 else f"{place} head {number}"
                yield (
                    name,
                    draw_overlays(Overlay(ink.numpy(), cell, head.numpy(), queries, gold), title=title),
                )
            continue
        heads = [
            Heatmap(
                head.numpy(),
                title=place if len(weights) == 1 else f"{place} · head {number}",
                queries=queries,
                keys=keys,
                mask=mask.numpy(),
                gold=None if elsewhere else gold,
            )
            for number, (head, mask) in enumerate(
                zip(weights, observation.masks[module], strict=True), start=1
            )
        ]
        yield place, draw_heatmaps(heads, title=title)


def readable(module: str) -> str:
    """The place of an attention as a person says it: `encoder.layers.0.attention` is `encoder layer 1`."""
    parts = [part for part in module.split(".") if part not in ("attention", "layers")]
    return " ".join(f"layer {int(part) + 1}" if part.isdigit() else part for part in parts) or "attention"


def save_pictures(observations: list[Observation], folder: Path) -> list[Path]:
    """Write every attention of every example to `folder` as PNG files; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, observation in enumerate(observations, start=1):
        for place, picture in attention_pictures(observation):
            parts = (f"{number:02d}", _file_name(observation.input), _file_name(place))
            path = folder / f"{'_'.join(part for part in parts if part)}.png"
            path.write_bytes(to_png(picture))
            paths.append(path)
    return paths


def _file_name(text: str, limit: int = 24) -> str:
    """The words of a short text; nothing of a long one, which would name a file no better than its number."""
    return "" if len(text) > limit else re.sub(r"[^\w-]+", "-", text).strip("-")


def _short(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
