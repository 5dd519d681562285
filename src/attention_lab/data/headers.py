"""Recognise a line of column headings, which would be read as an example, and swapped columns."""

from collections.abc import Iterable

from attention_lab.data.reading.files import Row
from attention_lab.text_tables import counted, printable

_HEADINGS = {
    *("source", "target", "src", "tgt", "trg", "input", "output", "original", "translation"),
    *("text", "sentence"),
    *("word", "label", "class", "category", "lemma", "form", "tag", "tags", "features", "phones", "phonemes"),
    *("pronunciation", "transcription", "question", "answer", "english", "french", "german", "spanish"),
    *("italian", "portuguese", "dutch", "russian", "chinese", "japanese", "korean", "arabic", "hindi"),
    *("en", "fr", "de", "es", "it", "pt", "nl", "ru", "zh", "ja", "ko", "ar", "hi"),
}


def header_hints(splits: Iterable[Iterable[Row]]) -> dict[str, str]:
    """A line for each file whose first line has only column headings, by that line's place."""
    first = (row for split in splits for row in split if row.place.endswith(":1"))
    found = {}
    for row in first:
        fields = [field for field in (row.first, row.second, row.third) if field]
        if all(field.strip().lower() in _HEADINGS for field in fields):
            heading = "<TAB>".join(fields)
            found[row.place] = f"{row.place}: '{heading}' is read as an example: remove it if it is a header"
    return found


def swapped_tags_hint(splits: Iterable[Iterable[Row]]) -> dict[str, str]:
    """A line if most forms are tags, as in `lemma<TAB>tags<TAB>form`, the order of some shared tasks."""
    rows = [row for split in splits for row in split]
    tags = [row for row in rows if ";" in row.second]
    if 2 * len(tags) <= len(rows) or any(";" in row.third for row in rows):
        return {}
    first = f"{tags[0].place}: the form '{printable(tags[0].second, 40)}' looks like tags"
    return {"columns": f"{first}: if a line is lemma<TAB>tags<TAB>form, swap the last two columns"}


def swapped_labels_hint(splits: Iterable[Iterable[Row]]) -> dict[str, str]:
    """A line if there are more labels than texts, as in `text<TAB>label`; each row is a label and a text."""
    rows = [row for split in splits for row in split]
    labels, texts = len({row.first.strip() for row in rows}), len({row.second.strip() for row in rows})
    if labels <= texts:
        return {}
    file = rows[0].place.rpartition(":")[0]
    counts = f"there are {counted(labels, 'label')}, but only {counted(texts, 'text')}"
    return {"columns": f"{file}: {counts}: if a line is text<TAB>label, swap the columns"}
