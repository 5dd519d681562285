"""The cases of a test that is marked `sampled`."""

import itertools
import math

import pytest
from sampling import in_sample


@pytest.mark.parametrize("one_in", [1, 2, 3])
@pytest.mark.parametrize("lengths", [(3, 6), (12, 4), (15, 3, 2), (40, 6), (6, 5)], ids=str)
def test_every_value_of_each_parameter_is_sampled(lengths: tuple[int, ...], one_in: int) -> None:
    cases = itertools.product(*(range(length) for length in lengths))
    sampled = [case for number, case in enumerate(cases) if in_sample(lengths, number, one_in)]
    assert len(sampled) == pytest.approx(math.prod(lengths) / one_in, abs=2)
    for values, length in zip(zip(*sampled, strict=True), lengths, strict=True):
        assert set(values) == set(range(length))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("third", range(3))
@pytest.mark.parametrize(("first", "second"), [(number, -number) for number in range(4)])
def test_cases_are_numbered_with_the_last_parameter_changing_first(
    first: int, second: int, third: int, request: pytest.FixtureRequest
) -> None:
    """And parameters that are given together count as one."""
    assert first == -second
    is_slow = request.node.get_closest_marker("slow") is not None
    assert is_slow == bool((first + third) % 2)


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize("number", range(4))
def test_the_rest_may_be_long(number: int, request: pytest.FixtureRequest) -> None:
    marks = {mark.name for mark in request.node.iter_markers()}
    assert marks & {"long", "slow"} == ({"long"} if number % 2 else set())
