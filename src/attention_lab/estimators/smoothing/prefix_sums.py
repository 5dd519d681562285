"""Sums over runs of consecutive numbers, as differences of prefix sums that lose no digits.

A plain prefix sum over millions of numbers has an error relative to the sum of all of them, and a
difference over only a few of them inherits it. Here the numbers are summed within blocks, and the blocks'
totals in twice the precision (TwoSum; Ogita, Rump & Oishi, "Accurate sum and dot product", 2005, algorithm
4.1). The error of a difference is relative to its own terms and those of the two blocks at its ends.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 128
"""Numbers in a block."""


class PrefixSums(NamedTuple):
    """The sum of all numbers before each place: within its block, and before the block as `high + low`."""

    inner: Float[Tensor, " n"]
    high: Float[Tensor, " b"]
    low: Float[Tensor, " b"]

    def between(self, start: "Places", end: "Places") -> Tensor:
        """The sums from each start up to, but not including, each end."""
        inner = self.inner[end.place] - self.inner[start.place]
        high = self.high[end.block] - self.high[start.block]
        return inner + (high + (self.low[end.block] - self.low[start.block]))


class Places(NamedTuple):
    """Places in a sequence, and their blocks."""

    place: Int[Tensor, " Q"]
    block: Int[Tensor, " Q"]

    def rows(self, part: slice) -> "Places":
        """The places in a slice."""
        return Places(self.place[part], self.block[part])


def places(place: Int[Tensor, " Q"]) -> Places:
    """Places with their blocks; the last place is after the last number."""
    return Places(place, place // BLOCK)


def prefix_sums(numbers: Float[Tensor, " n"]) -> PrefixSums:
    """Prefix sums of float64 numbers, in two passes."""
    count = len(numbers)
    blocks = count // BLOCK + 1
    padded = numbers.new_zeros(blocks, BLOCK)
    padded.view(-1)[:count] = numbers
    within = padded.cumsum(1)
    total = within[:, -1]
    inner = torch.zeros_like(padded)
    inner[:, 1:] = within[:, :-1]
    high = torch.nn.functional.pad(total.cumsum(0), (1, 0))[:-1]
    before, after = high[:-1], high[1:]
    rounded = before + total[:-1]
    virtual = rounded - before
    lost = (before - (rounded - virtual)) + (total[:-1] - virtual)  # TwoSum: before + total = rounded + lost
    low = torch.nn.functional.pad((lost + (rounded - after)).cumsum(0), (1, 0))
    return PrefixSums(inner.view(-1), high, low)
