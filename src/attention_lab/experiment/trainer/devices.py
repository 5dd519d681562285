"""Check that this machine has the devices that a training run asks for."""

from collections.abc import Mapping
from typing import Any

import torch

from attention_lab.console_text import counted
from attention_lab.errors import LabError


def check_devices(options: Mapping[str, Any]) -> None:
    """Raise LabError if the trainer needs a GPU, or more of them than this machine has.

    Each process needs its own GPU: NCCL does not connect two that share one, whatever the strategy.
    """
    accelerator, apple = options.get("accelerator", "auto"), only_gpu_is_apples()
    if not torch.cuda.is_available():
        if "fsdp" in str(options.get("strategy")) and accelerator != "cpu":
            raise LabError(
                "trainer=fsdp needs GPUs, but this machine has none: choose trainer=ddp, or add "
                "trainer.accelerator=cpu trainer.devices=2 to try it"
            )
        if accelerator == "cuda" or (accelerator in ("gpu", "mps") and not apple):
            raise LabError(
                f"trainer.accelerator={accelerator} needs a GPU, but PyTorch finds none: "
                "choose trainer.accelerator=cpu"
            )
        if accelerator == "auto":  # the processes share the cores
            return
    if accelerator not in ("auto", "gpu", "cuda", "mps"):
        return
    needed = devices = options.get("devices")
    if isinstance(devices, list) and all(isinstance(one, int) for one in devices):
        needed = max(devices, default=-1) + 1
    available = 1 if apple else torch.cuda.device_count()
    if isinstance(needed, int) and needed > available:
        found = counted(available, "GPU")
        raise LabError(
            f"trainer.devices={devices} needs {needed} GPUs, but this machine has {found}: "
            f"choose trainer.devices={available}, or trainer.accelerator=cpu to use its cores"
        )


def only_gpu_is_apples() -> bool:
    """Whether the only GPU of this machine is Apple's."""
    return not torch.cuda.is_available() and torch.backends.mps.is_available()
