"""A page in one HTML file that needs nothing else: its data, its records, one script and one style.

The page allows itself its one script and its one style by their hashes, and nothing from elsewhere. What is
shown (labels, names, options) is in it as JSON or compressed; its script writes it as text only.
"""

import json
import re
import struct
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from attention_lab.tensorboard_plugin import STATIC

_IMPORT = re.compile(r'^import (?:\{([^}]*)\}|\* as (\w+)) from "([^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|class|const) (\w+)", re.MULTILINE)

Blobs = tuple[bytes, bytes]
"""The header and the body of a record."""


class Page(NamedTuple):
    """What a page is made of, besides its data.

    Attributes:
        title: its title.
        script: the module that it starts; what that imports is bundled with it.
        styles: names of its style sheets below `STATIC`.
    """

    title: str
    script: Path
    styles: Sequence[str]


def make_html(page: Page, data: Mapping[str, Any], records: Sequence[str]) -> str:
    """The file.

    Args:
        page: its parts.
        data: what its script reads from the element `data`, as JSON.
        records: what it reads from the elements `record-0`, `record-1`, ...; see `pack`.
    """
    script = bundle(page.script)
    style = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in page.styles)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    records_html = "".join(
        f'<script type="text/plain" id="record-{number}">{text}</script>\n'
        for number, text in enumerate(records)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{_as_text(page.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<div id="content"></div>\n'
        f'<script type="application/json" id="data">{_as_json(data)}</script>\n'
        f"{records_html}<script>{script}</script>\n</body>\n</html>\n"
    )


def pack(
    series: Mapping[str, Mapping[str, Mapping[int, Blobs]]],
) -> tuple[list[str], dict[str, dict[str, dict[int, int]]]]:
    """The records as text for elements of the page, and by run, tag and step which of them is meant."""
    elements: list[str] = []

    def place(header: bytes, body: bytes) -> int:
        elements.append(b64encode(zlib.compress(struct.pack("<I", len(header)) + header + body, 6)).decode())
        return len(elements) - 1

    places = {
        name: {tag: {step: place(*blobs) for step, blobs in records.items()} for tag, records in tags.items()}
        for name, tags in series.items()
    }
    return elements, places


def bundle(entry: Path, *exported: str) -> str:
    """A module and all that it imports as one script: each module becomes a function that gives its exports.

    Understood are the forms `import { a, b } from "./c.js";`, `import * as a from "./c.js";` and exported
    functions, classes and constants: what the files of this package use.

    Args:
        entry: the module.
        exported: those of its exports that the script exports, as a module does.

    Raises:
        ValueError: an import or export of another form.
    """
    names: dict[Path, str] = {}
    parts: list[str] = []

    def include(path: Path) -> str:
        """Add a module and its imports to `parts`, unless included before; returns its name."""
        if path in names:
            return names[path]

        def imported(match: re.Match[str]) -> str:
            some, whole, source = match.groups()
            module = include((path.parent / source).resolve())  # which stands before this one, then
            return f"const {whole} = {module};" if whole else f"const {{{some}}} = {module};"

        text = _IMPORT.sub(imported, path.read_text(encoding="utf-8"))
        exports = ", ".join(name for _, name in _EXPORT.findall(text))
        text = _EXPORT.sub(r"\1 \2", text)
        if re.search(r"^(import|export)\b", text, re.MULTILINE):
            raise ValueError(f"{path.name} has an import or export that cannot be bundled")
        names[path] = f"module_{path.parent.name}_{path.stem}"
        parts.append(f"const {names[path]} = (() => {{\n{text}\nreturn {{ {exports} }};\n}})();\n")
        return names[path]

    name = include(entry.resolve())
    if exported:
        parts.append(f"export const {{ {', '.join(exported)} }} = {name};\n")
    return '"use strict";\n' + "".join(parts)


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _as_json(data: Any) -> str:
    """JSON in ASCII in which nothing can end the element that it stands in."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _as_text(text: str) -> str:
    """Text for an element of HTML."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("\0", "\N{REPLACEMENT CHARACTER}")
    return escaped.encode("utf-8", "replace").decode()
