"""Which of many similar cases of a test always run."""

from collections.abc import Sequence

import pytest


def is_sampled(test: pytest.Function, number: int) -> bool:
    """Whether the case of a number, from 0, of a test that is marked `sampled(n)` is among the one in n."""
    marker = test.get_closest_marker("sampled")
    assert marker is not None
    lengths = [len(mark.args[1]) for mark in test.iter_markers("parametrize")]
    return in_sample(lengths, number, *marker.args)


def in_sample(lengths: Sequence[int], number: int, one_in: int) -> bool:
    """Whether a case is in a sample, from its number and how many values each parameter has.

    The last parameter changes first. As in a Latin square, each value of one parameter is sampled with other
    values of the next, so none is left out if the next has at least so many.
    """
    total = 0
    for length in reversed(lengths):
        number, index = divmod(number, length)
        total += index
    return total % one_in == 0
