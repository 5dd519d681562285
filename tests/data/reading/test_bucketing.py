import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from attention_lab.data.reading.bucketing import BucketBatches, loader
from attention_lab.data.reading.datasets import TransductionSplit
from attention_lab.errors import LabError

LENGTHS = st.lists(st.integers(1, 30), min_size=1, max_size=200).map(torch.tensor)
SIZES = st.one_of(st.none(), st.integers(1, 20))


def batches(sampler: BucketBatches) -> list[list[int]]:
    return [batch.tolist() for batch in sampler]


@given(LENGTHS, SIZES, st.booleans(), st.integers(1, 5))
@example(torch.tensor([1, 2, 3]), 1, True, 2)  # batches of one row, which cannot be distributed equally
def test_over_all_ranks_every_row_comes_once(
    lengths: Tensor, size: int | None, shuffle: bool, world_size: int
) -> None:
    rows = len(lengths)
    if rows < world_size and (shuffle or world_size > 1):
        with pytest.raises(LabError, match=rf"^(no|{rows}) examples?, too few for {world_size} devices"):
            BucketBatches(lengths, size, shuffle, 0, world_size)
        return
    samplers = [BucketBatches(lengths, size, shuffle, rank, world_size) for rank in range(world_size)]
    dealt = [batches(sampler) for sampler in samplers]
    assert [len(sampler) for sampler in samplers] == [len(part) for part in dealt]
    assert sorted(row for part in dealt for batch in part for row in batch) == list(range(rows))
    if rows >= world_size:
        assert len({len(part) for part in dealt}) == 1
    sizes = [len(batch) for part in dealt for batch in part]
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1
    if size is not None:
        assert max(sizes) <= (size if size > 1 else 2)


@given(st.integers(1, 100), st.integers(1, 20))
def test_on_one_device_there_are_no_more_batches_than_needed(rows: int, size: int) -> None:
    assert len(BucketBatches(torch.ones(rows), size, shuffle=True)) == -(-rows // size)


def test_the_order_depends_on_the_seed_and_the_epoch() -> None:
    sampler = BucketBatches(torch.arange(100) % 7, 8, shuffle=True)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        first = batches(sampler)
        torch.rand(5)
        assert batches(sampler) == first
        sampler.set_epoch(1)
        second = batches(sampler)
        assert second != first
        torch.manual_seed(4)
        assert batches(sampler) != second
        torch.manual_seed(3)
        sampler.set_epoch(0)
        assert batches(sampler) == first


def test_an_epoch_goes_on_in_its_middle_and_the_next_is_whole() -> None:
    sampler = BucketBatches(torch.arange(1, 21), 4, shuffle=True)
    whole = batches(sampler)
    sampler.skip(3)
    assert batches(sampler) == whole[3:]
    assert batches(sampler) == whole


def test_evaluation_goes_by_length_in_every_epoch() -> None:
    sampler = BucketBatches(torch.tensor([3, 1, 2, 1]), 2, shuffle=False)
    assert batches(sampler) == [[1, 3], [2, 0]]
    sampler.set_epoch(1)
    assert batches(sampler) == [[1, 3], [2, 0]]


def test_batches_are_of_similar_lengths() -> None:
    lengths = torch.randint(1, 30, (6400,), generator=torch.Generator().manual_seed(0))
    padding = sum(
        int((lengths[batch].max() - lengths[batch]).sum())
        for batch in BucketBatches(lengths, 64, shuffle=True)
    )
    assert padding < 0.05 * lengths.sum()


def test_rows_of_similar_lengths_share_other_batches_in_every_epoch() -> None:
    """Only rows of one pool are sorted by length together; no two rows have the same length here."""
    sampler = BucketBatches(torch.arange(1, 1001), 4, shuffle=True)
    epochs = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        epochs.append({tuple(sorted(batch)) for batch in batches(sampler)})
    assert len(epochs[0] & epochs[1]) < 25  # of 250


def test_the_batches_of_a_step_are_of_similar_lengths_on_all_ranks() -> None:
    """A step takes as long as the longest of them."""
    lengths = torch.randint(1, 30, (6400,), generator=torch.Generator().manual_seed(0))
    dealt = [batches(BucketBatches(lengths, 16, True, rank, 4)) for rank in range(4)]
    steps = [[int(lengths[batch].max()) for batch in step] for step in zip(*dealt, strict=True)]
    assert len(steps) == 100
    assert max(max(step) - min(step) for step in steps) <= 3
    assert len({max(step) for step in steps[:10]}) > 3  # but steps follow one another in any order


def test_nothing_gives_no_batches() -> None:
    assert batches(BucketBatches(torch.zeros(0), None, shuffle=False)) == []


def test_a_loader_yields_whole_batches_trimmed_to_their_longest() -> None:
    rows = [[5, 2], [6, 7, 2], [2]]
    split = TransductionSplit(rows, rows, [[row] for row in rows], [[] for _ in rows])
    whole = list(loader(split, None, shuffle=False))
    assert len(whole) == 1
    assert whole[0].source.tolist() == [[2, 0, 0], [5, 2, 0], [6, 7, 2]]
    assert [batch.source.tolist() for batch in loader(split, 2, shuffle=False)] == [
        [[2, 0], [5, 2]],
        [[6, 7, 2]],
    ]
