"""The global random number generators: different in each process, and saved as plain values."""

import random
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch


class RankRandomness(pl.Callback):
    """Gives each process of distributed training its own random numbers; the first keeps those of the seed.

    All processes start from the same seed, so that they have the same initial weights. If they kept drawing
    the same numbers, they would drop the same elements, and a step of two processes would have the dropout
    noise of one.
    """

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Separate the random numbers; all processes keep the run's `torch.initial_seed()`."""
        if trainer.global_rank:
            separate_random_numbers(trainer.global_rank)


def separate_random_numbers(rank: int) -> None:
    """Make PyTorch's random numbers in this process differ from those of other ranks with the same seed."""
    seed = random.Random(f"{torch.initial_seed()} {rank}").getrandbits(32)
    state = torch.Generator().manual_seed(seed).get_state()
    state[:8] = torch.get_rng_state()[:8]  # the bytes of the initial seed
    torch.set_rng_state(state)
    torch.cuda.manual_seed(seed)  # does nothing without a GPU


def random_states() -> dict[str, Any]:
    """The states of the random number generators of Python, NumPy, PyTorch and its GPUs."""
    name, keys, *rest = np.random.get_state()  # noqa: NPY002  # the global state must be restored, too
    return {
        "python": random.getstate(),
        "numpy": (name, torch.from_numpy(np.asarray(keys, dtype=np.int64)), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_states(states: dict[str, Any]) -> None:
    """Restore the states; those of the GPUs only if there are as many as before."""
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(states["torch"].cpu())
    if len(states["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([state.cpu() for state in states["cuda"]])
