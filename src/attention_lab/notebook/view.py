"""The view that `show` returns, which notebooks display and which can be saved."""

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attention_lab.argument_checks import check_number
from attention_lab.files.writing import write_atomically
from attention_lab.tensorboard_plugin import STATIC
from attention_lab.tensorboard_plugin.codec import encode
from attention_lab.tensorboard_plugin.description import describe, read_description
from attention_lab.tensorboard_plugin.image_patches import by_head
from attention_lab.tensorboard_plugin.page import Page, make_html, pack
from attention_lab.tensorboard_plugin.record import AttentionRecord
from attention_lab.tensorboard_plugin.tiling import ROOM
from attention_lab.viz import (
    Heatmap,
    Overlay,
    draw_heatmaps,
    draw_overlays,
    record_heatmaps,
    rounded_top,
    to_png,
)

LARGEST = 48 * 2**20
"""Maximum size of a page's records in bytes, before compression."""
_SANDBOX = "allow-scripts allow-downloads"  # no access to the notebook or its cookies
_UNTRUSTED = "The attention is shown once this notebook is trusted."  # if a notebook removes frames
_ROW, _FRAME, _SHORTEST, _TALLEST = 34, 400, 520, 800  # pixels
_LARGE_ROW, _LARGE_ROWS = 75, 620  # cells of a few rows are larger, until the map is 400 pixels high
_STACKED = "max(0px, min(280px, 1830px - 200vw))"  # the heads are above the map
_PHONE = "max(0px, min(120px, 1200px - 200vw))"  # the colour bar is below it
_THEMES = {  # what dark and light notebooks say of themselves: JupyterLab, VS Code, Colab
    "dark": "[data-jp-theme-light=false], .vscode-dark, .vscode-high-contrast, [theme=dark]",
    "light": "[data-jp-theme-light=true], .vscode-light, .vscode-high-contrast-light",
}
_STYLE = "".join(f":is({found}) .attention-lab{{color-scheme:{theme}}}" for theme, found in _THEMES.items())


class View:
    """Attention on a page of its own.

    A notebook displays it if it is the last expression of a cell.

    Args:
        runs: records by run and by tag, `example 1/module`.
        title: title of the page.
        theme: "auto", "light" or "dark".
        height: height in a notebook, in pixels; None for as much as the weights need.

    Raises:
        LabError: the height is not a number of at least 1.
        ValueError: the theme is unknown; later, when the page is made, there are too many records for it.
    """

    def __init__(
        self,
        runs: Mapping[str, Mapping[str, AttentionRecord]],
        *,
        title: str = "",
        theme: str = "auto",
        height: int | None = None,
    ) -> None:
        if theme not in ("auto", "light", "dark"):
            raise ValueError(f"theme={theme!r}: choose auto, light or dark")
        if height is not None:
            check_number("height", height, least=1)
        self.runs = {run: dict(records) for run, records in runs.items() if records}
        self.title, self.theme = title, theme
        self.height = height or self._height()
        self._html = ""

    @property
    def records(self) -> dict[str, AttentionRecord]:
        """The records of the first run by tag, `example 1/module`."""
        return next(iter(self.runs.values()))

    @property
    def html(self) -> str:
        """The page as a single HTML file that loads nothing else."""
        if not self._html:
            self._html = self._page()
        return self._html

    def _repr_html_(self) -> str:
        """The page in a sandboxed frame."""
        height = f"calc({self.height}px + {_STACKED} + {_PHONE})"
        style = f"width:100%;height:{height};border:0;resize:vertical;overflow:auto"
        page = html.escape(self.html, quote=True)
        attributes = f'class="attention-lab" title="attention" loading="lazy" style="{style}"'
        frame = f'<iframe sandbox="{_SANDBOX}" {attributes} srcdoc="{page}">{_UNTRUSTED}</iframe>'
        return f"<style>{_STYLE}</style>{frame}"

    def __repr__(self) -> str:
        shapes = {record.weights.shape for records in self.runs.values() for record in records.values()}
        size = " x ".join(map(str, next(iter(shapes)))) if len(shapes) == 1 else f"{len(shapes)} shapes"
        count = sum(map(len, self.runs.values()))
        several = "s" if count > 1 else ""
        return f"View({count} attention{several}, {size}): .save('attention.html'), .png(), .svg()"

    def save(self, path: str | Path) -> Path:
        """Write the page, or a picture of the first attention if the name ends in `.png` or `.svg`.

        Raises:
            ValueError: the name has a different ending.
        """
        path = Path(path)
        match path.suffix.lower():
            case ".html":
                content: str | bytes = self.html
            case ".png":
                content = self.png()
            case ".svg":
                content = self.svg()
            case _:
                raise ValueError(f"{path}: the name must end in .html, .png or .svg")
        write_atomically(path, content)
        return path

    def png(self, tag: str | None = None) -> bytes:
        """A PNG of all heads of one attention; `tag` is a key of `records`, by default the first one.

        Attention over an image is drawn on it: for a vision model, that of each head as in `by_head`.
        """
        drawn, look = self._drawn(tag)
        if isinstance(drawn, Overlay):
            return to_png(draw_overlays(drawn, **look))
        return to_png(draw_heatmaps(drawn, **look))

    def svg(self, tag: str | None = None) -> str:
        """The same as SVG: text stays text, and cells are vectors unless there are too many."""
        from attention_lab.viz.vector import heatmaps_file, overlays_file  # matplotlib is slow to import

        drawn, look = self._drawn(tag)
        if isinstance(drawn, Overlay):
            return overlays_file(drawn, "svg", **look).decode()
        return heatmaps_file(drawn, "svg", **look).decode()

    def _drawn(self, tag: str | None) -> tuple[list[Heatmap] | Overlay, dict[str, Any]]:
        """One attention as maps or over its image, with the title and the weight of the darkest colour."""
        records = self.records
        tag = next(iter(records)) if tag is None else tag
        if tag not in records:
            raise ValueError(f"there is no record {tag!r}; choose from {', '.join(map(repr, records))}")
        look: dict[str, Any] = {"title": self.title or tag.partition("/")[2]}
        record = by_head(records[tag])
        if record.picture is not None and len(record.weights) == 1:
            ink, cell, by_row = record.picture
            overlay = Overlay(ink / 255, cell, record.weights[0], record.queries, record.gold, by_row)
            return overlay, look | {"maximum": rounded_top([record.weights]), "subtitle": record.input}
        maps = record_heatmaps(records[tag])
        return maps, look | {"maximum": rounded_top(one.weights[one.attended] for one in maps)}

    def _height(self) -> int:
        rows = max(len(record.queries) for records in self.runs.values() for record in records.values())
        few = min(_LARGE_ROWS, _FRAME - 40 + _LARGE_ROW * rows)
        return min(_TALLEST, max(_SHORTEST, few, _FRAME + _ROW * rows))

    def _page(self) -> str:
        room = min(ROOM, LARGEST // sum(map(len, self.runs.values())))
        encoded = {
            run or " ": {tag: {0: encode(record, room)} for tag, record in records.items()}
            for run, records in self.runs.items()
        }
        size = sum(
            len(header) + len(body)
            for tags in encoded.values()
            for steps in tags.values()
            for header, body in steps.values()
        )
        if size > LARGEST:
            raise ValueError(
                f"the weights take {size >> 20} MiB, more than the {LARGEST >> 20} MiB that a page can hold: "
                "choose some with names=[...] and heads=[...]"
            )
        elements, places = pack(encoded)
        data = {
            "title": self.title,
            "theme": self.theme,
            "runs": [run or " " for run in self.runs],
            "tags": {
                run or " ": {
                    tag: {"steps": [0], **read_description(describe(record))}
                    for tag, record in records.items()
                }
                for run, records in self.runs.items()
            },
            "records": places,
        }
        parts = Page(self.title or "attention", STATIC / "notebook" / "notebook.js", ("viewer/viewer.css",))
        return make_html(parts, data, elements)
