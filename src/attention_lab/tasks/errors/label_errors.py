"""Tables of all outputs of a test of a classifier, and of its most common errors."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attention_lab.files.run_files import (
    CONFUSION_COLUMNS,
    CONFUSIONS,
    ERRORS,
    PREDICTION_COLUMNS,
    PREDICTIONS,
)
from attention_lab.files.writing import write_atomically
from attention_lab.metrics import bootstrap_interval
from attention_lab.tasks.errors.error_analysis import (
    COLUMNS,
    CONSOLE,
    LISTED,
    WORST,
    count_of_wrong,
    error_tables,
    example_of,
    write_table,
)
from attention_lab.text_tables import ConsoleTable

Decode = Callable[..., str]


class ClassifiedExample(NamedTuple):
    """One example of a test.

    Attributes:
        text: the input; empty if it has no text.
        outputs: the classes that the model chose, one for each position that has a label.
        labels: the correct classes.
    """

    text: str
    outputs: list[int]
    labels: list[int]

    @property
    def wrong(self) -> int:
        """The number of wrong classes."""
        return sum(output != label for output, label in zip(self.outputs, self.labels, strict=True))


def accuracy_interval(examples: Sequence[ClassifiedExample]) -> dict[str, float]:
    """The ends of the 95% interval of the accuracy (see `bootstrap_interval`); empty without examples."""
    if not examples:
        return {}
    wrong = np.array([one.wrong for one in examples], dtype=np.int64)
    error = bootstrap_interval(wrong, np.array([len(one.labels) for one in examples], dtype=np.int64))
    return {"accuracy_low": 1 - error.high, "accuracy_high": 1 - error.low}


def write_label_errors(
    examples: Mapping[int, ClassifiedExample], decode: Decode, folder: Path
) -> ConsoleTable:
    """Write `predictions.tsv`, `confusions.tsv` and `errors.md` of a test.

    Args:
        examples: the examples by their row in the data; one without a text is called by its number.
        decode: the name of a class, or the names of several.
        folder: the run's folder.

    Returns:
        The most common errors, for the console.
    """
    cells = {row: _cells(row, one, decode) for row, one in examples.items()}
    write_table(folder / PREDICTIONS, [PREDICTION_COLUMNS, *cells.values()])
    counts: Counter[tuple[int, int]] = Counter()
    shown: dict[tuple[int, int], int] = {}
    for row, one in examples.items():
        for pair in zip(one.labels, one.outputs, strict=True):
            if pair[0] != pair[1]:
                counts[pair] += 1
                shown.setdefault(pair, row)
    rows = [
        (f"{decode(label)} → {decode(output)}", str(times), example_of(cells[shown[label, output]]))
        for (label, output), times in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    write_table(folder / CONFUSIONS, [CONFUSION_COLUMNS, *rows[:LISTED]])
    wrong = sorted((row for row, one in examples.items() if one.wrong), key=lambda row: -examples[row].wrong)
    worst = [cells[row] for row in wrong[:WORST]]
    summary = count_of_wrong(len(wrong), len(examples))
    write_atomically(folder / ERRORS, error_tables([summary], rows, "Wrong outputs", worst))
    return ConsoleTable("Most common errors", COLUMNS, rows[:CONSOLE], right=(1,))


def _cells(row: int, one: ClassifiedExample, decode: Decode) -> tuple[str, str, str, str]:
    output, label = (
        decode(classes[0] if len(classes) == 1 else classes) for classes in (one.outputs, one.labels)
    )
    return one.text or f"example {row + 1}", output, label, str(one.wrong)
