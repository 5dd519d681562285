"""Text and numbers for tables: on a console, as Markdown, and as CSV that is safe to open in a spreadsheet.

Whatever a text contains, it cannot move the cursor, hide anything, break out of its cell or act as a formula.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

from attention_lab.console_text import printable

ESCAPES = {control: f"\\x{control:02x}" for control in (*range(32), *range(127, 160))} | str.maketrans(
    {"\n": "\\n", "\t": "\\t"}
)
"""Escapes for characters that would break a row of a table in a file, or control a terminal that shows it."""
_ESCAPED = re.compile("|".join(map(re.escape, ESCAPES.values())))
_ORIGINAL = {escape: chr(character) for character, escape in ESCAPES.items()}
INTERVAL_ENDS = ("_low", "_high")
"""Name suffixes for the bounds of a metric's 95% interval."""
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_BEGINS = "=+-@|\N{MINUS SIGN}"
"""Characters that begin a formula, or a command to another program."""
_SEPARATES = ",;|\t\r\n"
"""Where a spreadsheet may split a line, whatever the file's separator is."""
_ADDRESS = re.compile(r"(?i)(?<=:)(?=//)|(?<=\bwww)(?=\.)")
"""Positions in URLs at which a backslash keeps Markdown viewers from turning them into links."""
_NOT_SEEN = "\u115f\u1160\u2800\u3164\uffa0\ufffd"
"""Blank letters and symbols, and the replacement for characters that are not shown."""
_QUOTES = "\"'`"


def number(value: float) -> str:
    """A number with four significant digits, or all digits before the decimal point if there are more.

    A number just below 1, such as an accuracy, has up to six, so that it does not look like 1.
    """
    if abs(value) >= 1000 or (value.is_integer() and value > 1):
        return f"{value:,.0f}"
    if 0.9999 < value < 1:
        return next((text for digits in (5, 6) if (text := f"{value:.{digits}f}") < "1"), "1.000")
    return f"{value:#.4g}".removesuffix(".")


def numbers_like(value: float, *others: float) -> list[str]:
    """Other numbers, such as an interval or a deviation, with as many decimals as `number` gives `value`."""
    shown = number(value)
    if "e" in shown:
        return [number(one) for one in others]
    if value.is_integer() and abs(value) < 1000 and not all(one.is_integer() for one in others):
        shown = f"{value:#.4g}"
    decimals = len(shown.partition(".")[2])
    return [f"{one:,.{decimals}f}" for one in others]


def interval_like(value: float, *ends: float) -> list[str]:
    """The ends of a value's interval, with its decimals, or up to three more if an end would look like it."""
    shown = numbers_like(value, *ends)
    decimals = len(shown[0].partition(".")[2])
    if "e" in number(value) or not decimals:
        return shown
    for more in range(4):
        texts = [f"{end:,.{decimals + more}f}" for end in (value, *ends)]
        if all(text != texts[0] or end == value for text, end in zip(texts[1:], ends, strict=True)):
            return texts[1:]
    return shown


def with_interval(value: float, low: float, high: float) -> str:
    """A value as `number` writes it, and its interval; see `interval_like`."""
    return f"{number(value)} [{', '.join(interval_like(value, low, high))}]"


def metric_name(name: str) -> str:
    """The name of a metric in readable form.

    >>> [metric_name(one) for one in ("test/token_error_rate", "validation/loss", "fit/steps_per_second")]
    ['token error rate', 'validation loss', 'steps/s']
    """
    words = name.removeprefix("test/").removeprefix("fit/").replace("/", " ").replace("_per_second", "/s")
    words = re.sub("_mb$", " (MiB)", words).replace("_", " ")
    return re.sub(r"\bloo\b", "leave-one-out", words)


def is_interval_end(name: str, metrics: Container[str]) -> bool:
    """Whether this is the name of a bound of another metric's interval."""
    return any(name.endswith(end) and name.removesuffix(end) in metrics for end in INTERVAL_ENDS)


def markdown_text(text: str, most: int = 300) -> str:
    r"""Escape a text so that Markdown shows it literally: `|` as `\|`, and no HTML or links."""
    shown = printable(text, most)
    for character in ("\\", "|", "[", "]", "`", "*"):
        shown = shown.replace(character, f"\\{character}")
    shown = _ADDRESS.sub(r"\\", shown)
    return shown.replace("&", "&amp;").replace("<", "&lt;")


def unescape(cell: str) -> str:
    """The original text of a cell that was written with `ESCAPES`."""
    return _ESCAPED.sub(lambda found: _ORIGINAL[found[0]], cell) if "\\" in cell else cell


def markdown_code(text: str) -> str:
    """A text as inline code in Markdown; nothing for an empty text."""
    return f"`{printable(text).replace('`', chr(39))}`" if text else ""


def markdown_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], numbers_from: int | None = None
) -> str:
    """A Markdown table; the cells must be Markdown already, see `markdown_text`.

    Args:
        header: the names of the columns.
        rows: the cells of each row.
        numbers_from: index of the first right-aligned column; None if all are left-aligned.
    """
    left = len(header) if numbers_from is None else numbers_from
    ruler = ["---"] * left + ["---:"] * (len(header) - left)
    cells = ([re.sub(r"(?<!\\)\|", r"\|", cell) for cell in row] for row in [header, ruler, *rows])
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


class ConsoleTable(NamedTuple):
    """A table of texts for the console.

    Attributes:
        title: the line above the table.
        columns: the names of the columns.
        rows: the cells of each row; a tuple is the lines of a cell.
        right: the indices of the right-aligned columns.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | tuple[str, ...]]]
    right: Sequence[int] = ()


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as comma-separated values: numbers unchanged, texts on one line, made safe by `safe_cell`."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    return safe_cell(re.sub(r"[\r\n]", " ", value) if isinstance(value, str) else value)


def safe_cell(value: Any) -> Any:
    """Put an apostrophe wherever a spreadsheet would begin to read a formula in a text.

    A formula may begin at the start of the text and after every separator in it, with a character such as
    `=`, or one that NFKC normalization turns into such a character. Spaces, quotes and invisible
    characters before it do not count. A plain number, such as -0.5, and a value of any other type stay
    unchanged.
    """
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    safe: list[str] = []
    starts = [0]  # positions where a formula could begin, with no visible character after them so far
    for character in value:
        plain = unicodedata.normalize("NFKC", character)
        first = next((one for one in plain if not _is_passed_over(one)), None)
        if first is not None:
            for start in reversed(starts if first in _BEGINS else []):
                safe.insert(start, "'")
            starts = []
        safe.append(character)
        if any(one in _SEPARATES for one in plain):
            starts = [*starts[:1], len(safe)]
    return "".join(safe)


def _is_passed_over(character: str) -> bool:
    """Whether a spreadsheet may skip this character when it looks for a formula."""
    return unicodedata.category(character)[0] in "CMZ" or character in _NOT_SEEN or character in _QUOTES
