import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.data.reading.splitting import partition
from attention_lab.errors import LabError


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(0, 5))
def test_a_partition_is_disjoint_complete_and_keeps_equal_keys_together(keys: list[int], seed: int) -> None:
    if len(set(keys)) < 3:
        with pytest.raises(LabError, match=r"leave none of . distinct examples? for training"):
            partition(keys, (0.5, 0.25, 0.25), seed)
        return
    parts = partition(keys, (0.5, 0.25, 0.25), seed)
    assert sorted(row for part in parts for row in part) == list(range(len(keys)))
    assert all(parts)
    train, validation, test = ({keys[row] for row in part} for part in parts)
    assert len(train | validation | test) == len(train) + len(validation) + len(test)
    assert parts == partition(keys, (0.5, 0.25, 0.25), seed)


def test_the_shares_are_those_of_the_fractions_and_the_seed_decides() -> None:
    parts = partition(range(100), (0.8, 0.1, 0.1), seed=0)
    assert [len(part) for part in parts] == [80, 10, 10]
    assert parts != partition(range(100), (0.8, 0.1, 0.1), seed=1)


def test_a_fraction_of_0_gives_an_empty_part() -> None:
    assert partition(range(4), (1, 0, 0), seed=0) == ([0, 1, 2, 3], [], [])
