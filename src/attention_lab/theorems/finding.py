"""The result of a theorem: a claim, the measured numbers, and whether they support it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from PIL.Image import Image
from torch import Tensor

Cell = str | int | float
"""A cell of a table: a name, a count or a measurement."""


class Figure(NamedTuple):
    """A picture that is drawn on demand.

    Attributes:
        name: name of its file, without the suffix.
        draw: draws it.
    """

    name: str
    draw: Callable[[], Image]


class Finding(NamedTuple):
    """The outcome of a measurement that tests a claim.

    Attributes:
        title: a name.
        claim: the claim, in a sentence or two.
        source: the paper, with its equation or theorem.
        columns: headings of the table.
        rows: the measurements.
        criterion: the condition under which the claim counts as supported.
        holds: whether the criterion is met.
        figures: pictures of the measurements.
        notes: further measurements, one line each; not part of the criterion.
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
        """Measure, with random numbers from `seed`."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the random numbers inside the block, and restore the generator's state afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def largest_difference(one: Tensor, other: Tensor) -> float:
    """The largest absolute difference of two tensors of the same shape; infinite if either has a NaN."""
    if one.shape != other.shape:
        raise ValueError(f"shapes {tuple(one.shape)} and {tuple(other.shape)} cannot be compared")
    difference = (one.detach() - other.detach()).abs().max()
    return float(difference.nan_to_num(nan=torch.inf))
