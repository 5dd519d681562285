"""What became of each test example of a run, as its `predictions.tsv` tells it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attention_lab.reading import read_regular
from attention_lab.runs.run_folder import Job
from attention_lab.text_tables import ESCAPES

RATES = ("test/token_error_rate", "test/sequence_error_rate")
"""The metrics that are ratios of sums over the examples of `predictions.tsv`."""
_MOST = 1 << 28  # bytes of a table
_HEADER = ["source", "output", "reference", "edits"]
_UNESCAPED = {escape: chr(character) for character, escape in ESCAPES.items()}


class TestPredictions(NamedTuple):
    """A rate's numerator and denominator for each example, in the order of the data."""

    sources: tuple[str, ...]
    numerators: npt.NDArray[np.int64]
    denominators: npt.NDArray[np.int64]


def read_test_predictions(job: Job, metric: str) -> TestPredictions | None:
    """The outcomes behind a metric of a run; None unless they give the very value of its `metrics.json`.

    How many symbols a reference has depends on how the data writes them: as words with spaces between, or as
    characters. The reading is taken that gives the rate the run reported; so is a table of another test never
    taken for this one's.
    """
    table = _read(job) if metric in RATES and metric in job.metrics else None
    if table is None:
        return None
    sources, references, edits = table
    readings: list[Callable[[str], int]] = [lambda text: len(text.split()), len]
    if metric == RATES[1]:
        edits, readings = (edits > 0).astype(np.int64), [lambda _: 1]
    for length in readings:
        lengths = np.array([length(reference) for reference in references], np.int64)
        # the reported value is a float32
        if lengths.sum() and abs(edits.sum() / lengths.sum() - job.metrics[metric]) <= 1e-6:
            return TestPredictions(sources, edits, lengths)
    return None


def _read(job: Job) -> tuple[tuple[str, ...], Sequence[str], npt.NDArray[Any]] | None:
    """Sources, references and edits; None where there is no such table, or a damaged one."""
    try:
        lines = read_regular(job.folder / "predictions.tsv", _MOST).decode().removesuffix("\n").split("\n")
        header, *rows = (line.split("\t") for line in lines)
        if header != _HEADER or not rows or any(len(row) != len(_HEADER) for row in rows):
            return None
        edits = np.array([int(row[3]) for row in rows], np.int64)
    except (OSError, ValueError, OverflowError):
        return None
    return tuple(row[0] for row in rows), [_unescaped(row[2]) for row in rows], edits


def _unescaped(text: str) -> str:
    for escape, character in _UNESCAPED.items():
        text = text.replace(escape, character)
    return text
