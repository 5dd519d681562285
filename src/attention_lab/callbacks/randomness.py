"""The global random number generators: apart in each process, and saved as values of `weights_only=True`."""

import random
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch


class RankRandomness(pl.Callback):
    """Gives each process of a training random numbers of its own; the first keeps those of the seed.

    All are seeded alike, so that they begin with the same weights. Drawing on alike, they would drop the same
    elements of batches of one shape, and a step of two processes would have the noise of one.
    """

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Part them; `torch.initial_seed()`, on which all have to agree, stays that of the run."""
        if trainer.global_rank:
            draw_own(trainer.global_rank)


def draw_own(rank: int) -> None:
    """Let PyTorch draw other numbers in each process than in the others, all seeded alike."""
    seed = random.Random(f"{torch.initial_seed()} {rank}").getrandbits(32)
    state = torch.Generator().manual_seed(seed).get_state()
    state[:8] = torch.get_rng_state()[:8]  # the bytes of the initial seed
    torch.set_rng_state(state)
    torch.cuda.manual_seed(seed)  # does nothing where there is none


def random_states() -> dict[str, Any]:
    """The states of the generators of Python, NumPy, PyTorch and its GPUs."""
    name, keys, *rest = np.random.get_state()  # noqa: NPY002  # whoever uses it, it has to be restored
    return {
        "python": random.getstate(),
        "numpy": (name, torch.from_numpy(np.asarray(keys, dtype=np.int64)), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_states(states: dict[str, Any]) -> None:
    """Go on drawing where `random_states` was called; on another number of GPUs those are left alone."""
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(states["torch"].cpu())
    if len(states["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([state.cpu() for state in states["cuda"]])
