"""The states of all global random number generators, as values that load with `weights_only=True`."""

import random
from typing import Any

import numpy as np
import torch


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
