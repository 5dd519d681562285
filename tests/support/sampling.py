"""Which of many similar cases of a test always run."""

from collections import Counter
from collections.abc import Sequence

import pytest


@pytest.hookimpl(tryfirst=True)  # before the slow ones are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked `sampled(n)`, one case in n always runs; the others are slow, or as `rest` says."""
    numbers: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker("sampled")
        if marker is None:
            continue
        test = item.nodeid.partition("[")[0]
        lengths = [len(mark.args[1]) for mark in item.iter_markers("parametrize")]
        if not in_sample(lengths, numbers[test], *marker.args):
            item.add_marker(marker.kwargs.get("rest", "slow"))
        numbers[test] += 1


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
