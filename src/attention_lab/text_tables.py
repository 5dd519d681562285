"""CSV files that a spreadsheet shows and does not compute, whatever texts they hold."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_BEGINS = "=+-@|\N{MINUS SIGN}"
"""The first characters of formulas, and of commands to other programs."""
_SEPARATES = ",;|\t\r\n"
"""Where a spreadsheet may part a line, whatever the separator of the file is."""
_NOT_SEEN = "\u115f\u1160\u2800\u3164\uffa0\ufffd"
"""Letters and symbols without ink, and what stands for characters that are not shown."""
_QUOTES = "\"'`"


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as comma-separated values: numbers as they are, texts in one line, as `safe_cell` gives them."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    return safe_cell(re.sub(r"[\r\n]", " ", value) if isinstance(value, str) else value)


def safe_cell(value: Any) -> Any:
    """A text with an apostrophe wherever a spreadsheet would begin to read a formula.

    That is at its start and behind every separator in it, if a sign that begins a formula follows: also one
    that is such a sign in Unicode's form NFKC, or behind spaces, quotes and characters that are not seen.
    A plain number, such as -0.5, stays a number, and so does a value of any other type.
    """
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    safe: list[str] = []
    starts = [0]  # where a formula could begin that has shown no character yet
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
    """Whether a spreadsheet may look for a formula behind this character."""
    return unicodedata.category(character)[0] in "CMZ" or character in _NOT_SEEN or character in _QUOTES
