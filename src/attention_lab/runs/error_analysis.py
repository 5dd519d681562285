"""What a test leaves of every sequence that was written, and which mistakes are the commonest."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from pytorch_lightning.utilities import move_data_to_device

from attention_lab.data.reading.splits import Split
from attention_lab.metrics import Confusion, confusions
from attention_lab.runs.results import ERROR_COLUMNS, ESCAPES
from attention_lab.tasks import Transduction
from attention_lab.tasks.pictures import save_pictures
from attention_lab.tasks.scored_examples import ScoredExample
from attention_lab.text_tables import markdown_table, markdown_text
from attention_lab.writing import write_atomically

CONSOLE, LISTED, WORST = 10, 100, 20
"""Most confusions on the console and in `errors.md`, and most of the worst examples there."""
LONGEST = 3000
"""Most characters of a cell of its tables."""
Row = tuple[str, str, str]


def write_error_analysis(task: Transduction, split: Split, folder: Path, pictures: int) -> list[Row]:
    """Write `predictions.tsv`, `errors.md` and heatmaps of the worst examples of a test.

    Args:
        task: what was tested.
        split: the part it was tested on.
        folder: the run's folder.
        pictures: of how many of the worst examples there are to be heatmaps, in `attention/worst`.

    Returns:
        The commonest confusions as rows of a table: what, how often, and an example.
    """
    judged = _by_row(task.judged, split)
    table = [("source", "output", "reference", "edits"), *(_texts(task, one) for one in judged.values())]
    lines = ["\t".join(text.translate(ESCAPES) for text in row) for row in table]
    write_atomically(folder / "predictions.tsv", "\n".join(lines) + "\n")

    wrong = {row: one for row, one in judged.items() if one.edits}
    examples = list(wrong.values())
    found = confusions((one.output, one.reference) for one in examples)
    rows = [(_name(task, one), str(one.times), _example(task, examples[one.example])) for one in found]
    worst = sorted(wrong, key=lambda row: (-wrong[row].rate, row))
    shown = [_texts(task, wrong[row]) for row in worst[:WORST]]
    write_atomically(folder / "errors.md", _markdown(judged, found, rows, shown))

    if pictures and worst:
        batch = move_data_to_device(split[torch.tensor(worst[:pictures])], task.device)
        task.eval()
        save_pictures(task.observe(batch), folder / "attention" / "worst")
    return rows[:CONSOLE]


def _by_row(judged: Sequence[ScoredExample], split: Split) -> dict[int, ScoredExample]:
    """The examples by their row in the data; they were tested in the order of their lengths."""
    rows = split.lengths.argsort(stable=True)[: len(judged)].tolist()
    return dict(sorted(zip(rows, judged, strict=True)))


def _texts(task: Transduction, one: ScoredExample) -> tuple[str, str, str, str]:
    return one.source, task.codec.decode(one.output), task.codec.decode(one.reference), str(one.edits)


def _name(task: Transduction, confusion: Confusion) -> str:
    return " → ".join("(nothing)" if symbol is None else _visible(task, symbol) for symbol in confusion.edit)


def _visible(task: Transduction, symbol: int) -> str:
    text = task.codec.target.vocabulary.symbol(symbol)
    return "␣" if text.isspace() else text


def _example(task: Transduction, one: ScoredExample) -> str:
    return f"{one.source}: {task.codec.decode(one.output)} ({task.codec.decode(one.reference)})"


def _markdown(
    judged: Mapping[int, ScoredExample],
    found: Sequence[Confusion],
    rows: Sequence[Row],
    worst: Sequence[Sequence[str]],
) -> str:
    """The commonest confusions and the worst examples as Markdown."""
    kinds: Counter[str] = Counter()
    for one in found:
        kinds[one.edit.kind] += one.times
    symbols = sum(len(one.reference) for one in judged.values())
    mistaken = sum(one.edits > 0 for one in judged.values())
    named = ", ".join(f"{kinds[kind]:,} {kind}s" for kind in ("substitution", "deletion", "insertion"))
    parts = [
        "# Errors",
        f"{mistaken:,} of {len(judged):,} outputs equal none of their references. The nearest ones have "
        f"{symbols:,} symbols, and it takes {kinds.total():,} edits from them to the outputs: {named}.",
    ]
    if rows:
        parts += ["## The commonest", _table(ERROR_COLUMNS, rows[:LISTED])]
        if len(rows) > LISTED:
            parts.append(f"And {len(rows) - LISTED:,} more.")
        parts += [
            "## The worst, by edits for each symbol of the reference",
            _table(("source", "output", "reference", "edits"), worst),
        ]
    return "\n\n".join(parts) + "\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown_table(
        header, [[markdown_text(cell.translate(ESCAPES), LONGEST) for cell in row] for row in rows]
    )
