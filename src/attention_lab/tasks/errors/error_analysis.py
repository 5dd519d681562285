"""Tables of all outputs of a test and of its most common errors."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from attention_lab.console_text import counted
from attention_lab.data.reading.codecs import ImageCodec, TransductionCodec
from attention_lab.data.reading.datasets import Split, TransductionSplit
from attention_lab.data.reading.vocabulary import Vocabulary
from attention_lab.files.run_files import (
    CONFUSION_COLUMNS,
    CONFUSIONS,
    ERRORS,
    PREDICTION_COLUMNS,
    PREDICTIONS,
)
from attention_lab.files.writing import write_atomically
from attention_lab.metrics import Confusion, confusions
from attention_lab.tasks.errors.scored_examples import ScoredExample, with_unseen
from attention_lab.text_tables import ESCAPES, ConsoleTable, markdown_table, markdown_text

COLUMNS = ("expected → output", "times", "example: output (expected)")
"""The columns of a table of errors."""

CONSOLE, LISTED, WORST = 10, 100, 20
"""Maximum numbers of confusions on the console, of confusions in `errors.md`, and of examples there."""
NOTHING = "(nothing)"
"""Stands for a missing symbol, and for an output without symbols."""
LONGEST = 3000
"""Maximum number of characters in a table cell of `errors.md`."""
NOT_IN_TRAINING = " (not in training)"
"""Marks a symbol that the model can only copy, if at all."""
Row = tuple[str, str, str]
T = TypeVar("T")


Codec = TransductionCodec | ImageCodec


def write_error_analysis(
    examples: Sequence[ScoredExample], codec: Codec, split: Split, folder: Path, unseen: str
) -> tuple[ConsoleTable, list[int]]:
    """Write `predictions.tsv`, `confusions.tsv` and `errors.md` of a test.

    Args:
        examples: the scored examples, in the order of testing.
        codec: ids to text.
        split: the tested split.
        folder: the run's folder.
        unseen: a line about symbols of this split that never occur in training; empty if there are none.

    Returns:
        The most common confusions, for the console, and the row numbers of the wrong examples in the data,
        those with most edits per symbol first.
    """
    scored = by_row(examples, split)
    if isinstance(split, TransductionSplit) and split.names:
        scored = {row: one._replace(source=split.names[row]) for row, one in scored.items()}
    cells = {row: _cells(codec, one) for row, one in scored.items()}
    write_table(folder / PREDICTIONS, [PREDICTION_COLUMNS, *cells.values()])

    wrong = [row for row, one in scored.items() if one.edits]
    mistaken = [scored[row] for row in wrong]
    extended = codec.target.vocabulary.extended(symbol for one in mistaken for symbol in one.unknown)
    found = confusions(
        (
            with_unseen(one.output, one.copyable, extended),
            with_unseen(one.reference, one.unseen, extended),
        )
        for one in mistaken
    )
    rows = [
        (_name(codec, one, extended), str(one.times), example_of(cells[wrong[one.example]])) for one in found
    ]
    write_table(folder / CONFUSIONS, [CONFUSION_COLUMNS, *rows[:LISTED]])
    worst = sorted(wrong, key=lambda row: (-scored[row].rate, row))
    shown = [cells[row] for row in worst[:WORST]]
    write_atomically(folder / ERRORS, _markdown(scored, found, rows, shown, unseen))
    return ConsoleTable("Most common errors", COLUMNS, rows[:CONSOLE], right=(1,)), worst


def write_table(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write rows as lines of tab-separated cells."""
    lines = ["\t".join(text.translate(ESCAPES) for text in row) for row in rows]
    write_atomically(path, "\n".join(lines) + "\n")


def by_row(scored: Sequence[T], split: Split) -> dict[int, T]:
    """The examples by their row in the data; a test goes through them by length."""
    rows = split.lengths.argsort(stable=True)[: len(scored)].tolist()
    return dict(sorted(zip(rows, scored, strict=True)))


def _cells(codec: Codec, one: ScoredExample) -> tuple[str, str, str, str]:
    output, reference = codec.decode(one.output, one.copyable), codec.decode(one.reference, one.unseen)
    return one.source, output, reference, str(one.edits)


def _name(codec: Codec, confusion: Confusion, extended: Vocabulary) -> str:
    return " → ".join(
        NOTHING if number is None else _visible(codec, number, extended) for number in confusion.edit
    )


def _visible(codec: Codec, number: int, extended: Vocabulary) -> str:
    text, known = extended.symbol(number), number < len(codec.target.vocabulary)
    return ("␣" if text.isspace() else text) + ("" if known else NOT_IN_TRAINING)


def example_of(cells: Sequence[str]) -> str:
    """The input, output and expected output of an example, in one cell."""
    source, output, expected, _ = cells
    return f"{source}: {output or NOTHING} ({expected})"


def _markdown(
    scored: Mapping[int, ScoredExample],
    found: Sequence[Confusion],
    rows: Sequence[Row],
    worst: Sequence[Sequence[str]],
    unseen: str,
) -> str:
    """The most common confusions and the worst examples as Markdown."""
    kinds: Counter[str] = Counter()
    for one in found:
        kinds[one.edit.kind] += one.times
    symbols = sum(len(one.reference) for one in scored.values())
    mistaken = sum(one.edits > 0 for one in scored.values())
    summary = count_of_wrong(mistaken, len(scored))
    if mistaken:
        named = ", ".join(
            f"{kinds[kind]:,} {kind}{'' if kinds[kind] == 1 else 's'}"
            for kind in ("substitution", "deletion", "insertion")
        )
        differ = "It differs from its reference" if mistaken == 1 else "They differ from their references"
        summary += f" {differ} by {counted(kinds.total(), 'edit')}: {named}."
    parts = [f"{summary} The references have {symbols:,} symbols in total."]
    if unseen:
        parts.append(f"{markdown_text(unseen, LONGEST)}.")
    return error_tables(parts, rows, "The worst outputs, by edits per symbol of the reference", worst)


def count_of_wrong(wrong: int, outputs: int) -> str:
    """The first sentence about the errors of a test."""
    return f"{wrong:,} of {outputs:,} outputs {'is' if wrong == 1 else 'are'} wrong."


def error_tables(
    paragraphs: Sequence[str], rows: Sequence[Row], title: str, worst: Sequence[Sequence[str]]
) -> str:
    """The errors of a test as Markdown: paragraphs, the most common errors, and the worst examples.

    Args:
        paragraphs: the text above the table.
        rows: the cells of `COLUMNS`, the most common error first.
        title: the heading of the worst examples.
        worst: their cells of `PREDICTION_COLUMNS`.
    """
    parts = ["# Errors", *paragraphs]
    if rows:
        parts += ["## The most common errors", _table(COLUMNS, rows[:LISTED])]
        if len(rows) > LISTED:
            parts.append(f"And {len(rows) - LISTED:,} more.")
        parts += [f"## {title}", _table(PREDICTION_COLUMNS, worst)]
    return "\n\n".join(parts) + "\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown_table(
        header, [[markdown_text(cell.translate(ESCAPES), LONGEST) for cell in row] for row in rows]
    )
