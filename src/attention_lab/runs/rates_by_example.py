"""The errors of a run on each test example, from its `predictions.tsv`."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from attention_lab.files.run_files import PREDICTION_COLUMNS, PREDICTIONS
from attention_lab.runs.prediction_tables import read_rows
from attention_lab.runs.run_folder import Job
from attention_lab.text_tables import unescape

TOKENS, SEQUENCES, ACCURACY = RATES = (
    "test/token_error_rate",
    "test/sequence_error_rate",
    "test/accuracy",
)
"""The metrics that are ratios of sums over the examples in `predictions.tsv`."""


class RatesByExample(NamedTuple):
    """The numerator and denominator of a rate for each example, in the order of the data.

    Attributes:
        sources: a digest of the examples' inputs, which takes less memory than they do.
        numerators: of each example.
        denominators: of each example.
    """

    sources: bytes
    numerators: npt.NDArray[np.int64]
    denominators: npt.NDArray[np.int64]


def read_rates_by_example(job: Job, metric: str) -> RatesByExample | None:
    """The examples behind a run's metric; None unless they reproduce its value in `metrics.json`.

    The length of a reference depends on whether the data's symbols are words or characters, and for classes
    on whether an example has one or several. Both are tried, and the one that reproduces the reported rate
    is used. So a table from a different test is never used.
    """
    table = _read(job) if metric in RATES and metric in job.metrics else None
    if table is None:
        return None
    sources, references, edits = table
    if metric == SEQUENCES:
        edits = (edits > 0).astype(np.int64)
    for length in _UNITS[metric]:
        lengths = np.array([length(reference) for reference in references], np.int64)
        counted = lengths - edits if metric == ACCURACY else edits
        # the reported value is a float32
        if lengths.sum() and abs(counted.sum() / lengths.sum() - job.metrics[metric]) <= 1e-6:
            return RatesByExample(sources, counted, lengths)
    return None


def _words(text: str) -> int:
    return len(text.split())


def _one(text: str) -> int:
    return 1


_UNITS: dict[str, tuple[Callable[[str], int], ...]] = {
    TOKENS: (_words, len),
    SEQUENCES: (_one,),
    ACCURACY: (_one, _words),
}
"""The possible lengths of a reference."""


def _read(job: Job) -> tuple[bytes, Sequence[str], npt.NDArray[Any]] | None:
    """Digest of the sources, references and edits; None if the table is missing or damaged."""
    sources, references, edits = blake2b(), [], []
    try:
        for source, _, reference, count in read_rows(job.folder / PREDICTIONS, PREDICTION_COLUMNS):
            sources.update(f"{source}\n".encode())
            references.append(unescape(reference))
            edits.append(int(count))
        return (sources.digest(), references, np.array(edits, np.int64)) if edits else None
    except (OSError, ValueError, OverflowError):
        return None
