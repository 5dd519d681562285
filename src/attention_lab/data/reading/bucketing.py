"""Batches of similar lengths, distributed over the devices."""

import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Sampler, SequentialSampler

from attention_lab.console_text import counted
from attention_lab.data.reading.datasets import Split
from attention_lab.errors import LabError

POOL = 50  # batches whose rows are sorted together: enough for little padding, few enough to shuffle well


class BucketBatches(Sampler[Tensor]):
    """Yields one tensor of row numbers for each batch; over all ranks, every row occurs exactly once.

    Batch sizes differ by at most one. Every rank gets the same number of batches, unless there are fewer
    rows than ranks. With `shuffle`, rows are permuted, sorted by length within pools of 50 batches and
    split into batches. Then the batches are permuted; those of one step stay together, so that no rank
    waits long for another. The order depends only on `torch.initial_seed()` and the epoch, so ranks agree.
    Without `shuffle`, rows come in the order of their lengths.

    Args:
        lengths: the length of each row [N].
        batch_size: the largest number of rows in a batch; None for all rows. (A batch can have one more if
            batches of a single row could not be distributed equally.)
        shuffle: whether to shuffle, for training.
        rank: number of this device, below `world_size`.

    Raises:
        LabError: there are fewer rows than devices.
    """

    def __init__(
        self, lengths: Tensor, batch_size: int | None, shuffle: bool, rank: int = 0, world_size: int = 1
    ) -> None:
        rows = len(lengths)
        if not rows and shuffle:
            raise LabError("there are no examples for training")
        if rows < world_size and (shuffle or world_size > 1):
            found = counted(rows, "example")
            raise LabError(f"{found}, too few for {world_size} devices: lower trainer.devices")
        rounds = -(-rows // ((batch_size or max(rows, 1)) * world_size))
        self._batches = min(rounds, rows // world_size) * world_size or rows
        self._lengths, self._shuffle = lengths, shuffle
        self._rank, self._world_size = rank, world_size
        self._epoch = self._skipped = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch; called by Lightning."""
        self._epoch = epoch

    def skip(self, batches: int) -> None:
        """Skip the first batches of the next epoch only."""
        self._skipped = batches

    def __len__(self) -> int:
        return len(range(self._rank, self._batches, self._world_size))

    def __iter__(self) -> Iterator[Tensor]:
        if not self._batches:
            return
        if self._shuffle:
            batches = self._shuffled()
        else:
            batches = list(self._lengths.argsort(stable=True).tensor_split(self._batches))
        skipped, self._skipped = self._skipped, 0
        yield from batches[self._rank :: self._world_size][skipped:]

    def _shuffled(self) -> list[Tensor]:
        generator = torch.Generator()
        generator.manual_seed(random.Random(f"{torch.initial_seed()} {self._epoch}").getrandbits(63))
        rows = len(self._lengths)
        order = torch.randperm(rows, generator=generator)
        pool = torch.arange(rows) * self._batches // (rows * POOL)
        # Every other pool is in descending order, so that a batch that spans two pools has similar lengths.
        lengths = self._lengths[order] * (1 - 2 * (pool % 2))
        span = 2 * int(self._lengths.max()) + 1
        batches = order[(pool * span + lengths).argsort(stable=True)].tensor_split(self._batches)
        steps = torch.arange(self._batches).view(-1, self._world_size)
        steps = steps[torch.randperm(len(steps), generator=generator)]
        return [batches[number] for number in steps.flatten().tolist()]


class GrowingBatches(BucketBatches):
    """Batches for data whose first epochs have separate rows, with shorter sequences.

    Args:
        lengths: lengths of the rows of the later epochs.
        short: the rows of each of the first epochs; they are split into the same number of batches.
        batch_size: see `BucketBatches`.
        rank: see `BucketBatches`.
        world_size: see `BucketBatches`.
    """

    def __init__(
        self, lengths: Tensor, short: list[Tensor], batch_size: int | None, rank: int, world_size: int
    ) -> None:
        super().__init__(lengths, batch_size, shuffle=True, rank=rank, world_size=world_size)
        self._short = short

    def _shuffled(self) -> list[Tensor]:
        if self._epoch < len(self._short):
            return list(self._short[self._epoch].tensor_split(self._batches))
        return super()._shuffled()


class SameBatches(SequentialSampler):
    """Repeats the batches of the first epoch in every epoch, so that a few of them can be overfitted.

    With `trainer.overfit_batches`, Lightning keeps a sampler only if it is of this base class.
    """

    def __init__(self, batches: Sampler[Any]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._batches)


def loader(
    split: Split, batch_size: int | None, shuffle: bool, rank: int = 0, world_size: int = 1
) -> DataLoader[Any]:
    """A loader whose sampler yields the rows of a complete batch, with which it indexes the split."""
    batches = BucketBatches(split.lengths, batch_size, shuffle, rank, world_size)
    return DataLoader(split, sampler=batches, batch_size=None)
