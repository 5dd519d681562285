"""Decisions and values shared by the processes of distributed training. Every process must call them."""

from typing import TypeVar

import torch

T = TypeVar("T")


def process_count() -> int:
    """The number of processes of this training; 1 if it is not distributed."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return 1
    return torch.distributed.get_world_size()


def any_process(decision: bool, device: torch.device) -> bool:
    """Whether `decision` is true in any process. Unlike Lightning's function, this one adds no barrier.

    Args:
        decision: that of this process.
        device: a device that the processes can reduce tensors on.
    """
    if process_count() == 1:
        return decision
    votes = torch.tensor(int(decision), device=device)
    torch.distributed.all_reduce(votes)
    return bool(votes)


def gather_from_processes(value: T) -> list[T]:
    """The values of all processes, which are pickled, in the order of their ranks."""
    values = [value] * process_count()
    if len(values) > 1:
        torch.distributed.all_gather_object(values, value)
    return values
