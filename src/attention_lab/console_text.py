"""Text for the console: on one line, with no character that moves the cursor or hides another."""

import re
import shutil
import unicodedata

_IN_WORDS = (
    "\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
"""Format characters of ordinary text: joiners inside words, and the signs that Arabic, Syriac and Kaithi
write around or below numbers."""
_CONTROLS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Control characters except the tab, line separators, lone surrogates, and the characters that change the
direction, and so the order, of the text that follows."""
LONGEST_MESSAGE = 4000
"""Maximum number of characters of a line on the console; it may contain names as long as a path."""


def printable(text: str, most: int = 300) -> str:
    """A text on one line: a space for each tab, no characters that move the cursor or hide others."""
    spaced = text[: most + 1].replace("\t", " ")
    shown = "".join(one if _is_visible(one) else "\N{REPLACEMENT CHARACTER}" for one in spaced)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def quoted(text: str, most: int = 300) -> str:
    """A `printable` text between quotation marks, such as a name in a message."""
    return f"'{printable(text, most)}'"


def with_short_words(text: str) -> str:
    """A `printable` message that repeats what is in a file, with words of at most 100 characters."""
    return printable(re.sub(r"(\S{99})\S{2,}", r"\1…", text), 1000)


def _is_visible(character: str) -> bool:
    if character.isprintable() or character in _IN_WORDS:
        return True
    return unicodedata.category(character) == "Zs"  # a space, such as U+3000


def without_controls(text: str) -> str:
    """A text that cannot control a terminal, otherwise unchanged; tabs stay too.

    Unlike `printable`, it keeps every character of a language, whether or not it is visible.
    """
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(error: object) -> str:
    """An error's message on one line, or the name of its class if the message is empty."""
    return printable(" ".join(str(error).split())) or type(error).__name__


def console_message(kind: str, text: object) -> str:
    """One line for the console, such as `Error: there is no such file`; `text` may contain any characters."""
    return f"{kind}: {console_line(text)}"


def console_line(text: object) -> str:
    """Any text, such as a command or the name of a folder, as one line that is safe to print."""
    return printable(" ".join(str(text).splitlines()), LONGEST_MESSAGE)


def counted(count: int, noun: str) -> str:
    """A number and its noun, in the singular or plural.

    >>> [counted(count, "tab") for count in (0, 1, 2)]
    ['no tabs', '1 tab', '2 tabs']
    """
    return f"1 {noun}" if count == 1 else f"{f'{count:,}' if count else 'no'} {noun}s"


def console_width() -> int:
    """The width of the console in columns; 120 if it is not a terminal."""
    return shutil.get_terminal_size((120, 24)).columns
