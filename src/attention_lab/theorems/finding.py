"""What a theorem hands back: a claim, the numbers measured, and whether they bear it out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from PIL.Image import Image
from torch import Tensor

Cell = str | int | float
"""A cell of a table: a name, a count or a measurement."""


class Figure(NamedTuple):
    """A picture that is drawn when it is wanted.

    Attributes:
        name: of its file, without ending.
        draw: draws it.
    """

    name: str
    draw: Callable[[], Image]


class Finding(NamedTuple):
    """The outcome of a measurement that was made to test a claim.

    Attributes:
        title: a name.
        claim: what is said to hold, in a sentence or two.
        source: the paper, with its equation or theorem.
        columns: of the table.
        rows: the measurements.
        criterion: when the claim counts as borne out.
        holds: whether it does.
        figures: pictures of the measurements.
        notes: what else was measured, a line each; no part of the criterion.
    """

    title: str
    claim: str
    source: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    criterion: str
    holds: bool
    figures: Sequence[Figure]
    notes: Sequence[str] = ()


@runtime_checkable
class Theorem(Protocol):
    """A claim that can be tested; its options are those of its constructor."""

    def run(self, seed: int) -> Finding:
        """Measure, with the random numbers of `seed`."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers of `seed`, and afterwards those that would have come without."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def apart(one: Tensor, other: Tensor) -> float:
    """The largest absolute difference of two tensors of one shape; infinite if either has a NaN."""
    if one.shape != other.shape:
        raise ValueError(f"shapes {tuple(one.shape)} and {tuple(other.shape)} cannot be compared")
    difference = (one.detach() - other.detach()).abs().max()
    return float(difference.nan_to_num(nan=torch.inf))
