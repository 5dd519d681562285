"""A page as a single, self-contained HTML file: its data, its records, one script and one style sheet.

The page's security policy allows only this script and this style sheet, by their hashes, and nothing from
elsewhere. Labels, names and options are embedded as JSON or compressed, and the script inserts them only as
text.
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
    """The parts of a page, besides its data.

    Attributes:
        title: the title.
        script: the module that the page runs; its imports are bundled with it.
        styles: names of the style sheets below `STATIC`.
    """

    title: str
    script: Path
    styles: Sequence[str]


def make_html(page: Page, data: Mapping[str, Any], records: Sequence[str]) -> str:
    """Make the HTML file.

    Args:
        page: the parts of the page.
        data: the data that the script reads, as JSON, from the element `data`.
        records: the records that it reads from the elements `record-0`, `record-1`, ...; see `pack`.
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
    """The records as text for the page's elements, and the element's number for each run, tag and step."""
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
    """Bundle a module and all its imports in one script: each becomes a function that returns its exports.

    It understands the forms that this package's files use: `import { a, b } from "./c.js";`,
    `import * as a from "./c.js";` and exported functions, classes and constants.

    Args:
        entry: the module.
        exported: the exports of the module that the script itself exports, if it is to be a module too.

    Raises:
        ValueError: an import or export has another form.
    """
    names: dict[Path, str] = {}
    parts: list[str] = []

    def include(path: Path) -> str:
        """Add a module and its imports to `parts`, unless already included; returns its name."""
        if path in names:
            return names[path]

        def imported(match: re.Match[str]) -> str:
            some, whole, source = match.groups()
            module = include((path.parent / source).resolve())  # adds it before this one
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
    """JSON in ASCII that cannot end the HTML element that contains it."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _as_text(text: str) -> str:
    """Text escaped for an HTML element."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("\0", "\N{REPLACEMENT CHARACTER}")
    return escaped.encode("utf-8", "replace").decode()
