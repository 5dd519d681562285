"""Recognise files in an unexpected format: headers, quotes, swapped columns, symbols with spaces."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from attention_lab.console_text import counted, printable, quoted
from attention_lab.data.reading.files import Row

_HEADINGS = {
    *("source", "target", "src", "tgt", "trg", "input", "output", "original", "translation"),
    *("text", "sentence", "node", "id", "name"),
    *("word", "label", "class", "category", "lemma", "form", "tag", "tags", "features", "phones", "phonemes"),
    *("pronunciation", "transcription", "question", "answer", "english", "french", "german", "spanish"),
    *("italian", "portuguese", "dutch", "russian", "chinese", "japanese", "korean", "arabic", "hindi"),
    *("en", "fr", "de", "es", "it", "pt", "nl", "ru", "zh", "ja", "ko", "ar", "hi"),
}
_READ, _LEAST = 10_000, 20
"""Maximum number of texts to look at, and the minimum from which to conclude anything."""
_INVENTORY, _LENGTH = 300, 2.5
"""Maximum number of distinct symbols, and their maximum mean length; words have 4 characters or more."""
_HAPAX, _SINGLE, _SAME = 0.1, 0.1, 0.9
"""Maximum shares of symbols that occur once, of texts with one symbol, and of texts of equal length."""


def header_hints(splits: Iterable[Iterable[Row]]) -> dict[str, str]:
    """A line for each file whose first line has only column headings, by that line's place."""
    first = (row for split in splits for row in split if row.place.endswith(":1"))
    found = {}
    for row in first:
        fields = [field for field in (row.first, row.second, row.third) if field]
        if all(field.strip('" ').lower() in _HEADINGS for field in fields):
            heading = "<TAB>".join(fields)
            found[row.place] = f"{row.place}: '{heading}' is read as an example: remove it if it is a header"
    return found


def quotes_hint(splits: Iterable[Iterable[Row]]) -> dict[str, str]:
    """A line if all fields of a column are in quotes, as R's `write.table` writes texts."""
    rows = [row for split in splits for row in split]
    for column in ("first", "second", "third"):
        fields = (getattr(row, column) for row in rows)
        if rows and all(len(field) > 1 and field[0] == field[-1] == '"' for field in fields):
            advice = "write the file without them, in R by write.table(..., quote=FALSE)"
            return {"quotes": f"{rows[0].file}: quotes around fields are read as part of them: {advice}"}
    return {}


def swapped_tags_hint(splits: Iterable[Iterable[Row]]) -> dict[str, str]:
    """A line if most forms are tags, as in `lemma<TAB>tags<TAB>form`, the order of some shared tasks."""
    rows = [row for split in splits for row in split]
    tags = [row for row in rows if ";" in row.second]
    if 2 * len(tags) <= len(rows) or any(";" in row.third for row in rows):
        return {}
    first = f"{tags[0].place}: the form {quoted(tags[0].second, 40)} looks like tags"
    return {"columns": f"{first}: if a line is lemma<TAB>tags<TAB>form, swap the last two columns"}


def swapped_labels_hint(splits: Iterable[Iterable[Row]]) -> dict[str, str]:
    """A line if there are more labels than texts, as in `text<TAB>label`; each row is a label and a text."""
    rows = [row for split in splits for row in split]
    swapped = swapped_labels(rows)
    return {"columns": f"{rows[0].file}: {swapped}"} if swapped else {}


def swapped_labels(rows: Sequence[Row]) -> str:
    """What to do if there are more labels than texts; otherwise empty."""
    labels, texts = len({row.first.strip() for row in rows}), len({row.second.strip() for row in rows})
    if labels <= texts:
        return ""
    counts = f"there are {counted(labels, 'label')}, but only {counted(texts, 'text')}"
    return f"{counts}: if a line is text<TAB>label, swap the columns"


def space_hint(texts: Sequence[str], side: str) -> str:
    """A line that suggests splitting texts at spaces, if they look like lists of symbols; otherwise empty.

    Unlike words, symbols are few and short, and new texts hardly add any. The share of symbols that occur
    only once estimates how many new ones there would be (Good 1953). Texts in a fixed format, such as dates,
    have the same number of fields.

    Args:
        texts: the texts of the training split, which are split into characters.
        side: "source" or "target".
    """
    split = [text.split() for text in islice(texts, _READ)]
    symbols = Counter(symbol for row in split for symbol in row)
    lengths = Counter(map(len, split))
    total, rows = symbols.total(), len(split)
    if (
        rows < _LEAST
        or len(symbols) > _INVENTORY
        or sum(count == 1 for count in symbols.values()) > _HAPAX * total
        or sum(len(symbol) * count for symbol, count in symbols.items()) > _LENGTH * total
        or lengths[1] > _SINGLE * rows
        or max(lengths.values()) > _SAME * rows
    ):
        return ""
    longer = [symbol for symbol, _ in symbols.most_common() if len(symbol) > 1]
    if not longer:
        return ""
    shortest = min((row for row in split if longer[0] in row), key=lambda row: len(row))
    example = printable(" ".join(shortest), 40)
    return (
        f"the {side}s look like symbols with spaces between them ('{example}'), "
        f"but are read character by character: data.{side}_split=spaces reads '{longer[0]}' as one symbol"
    )
