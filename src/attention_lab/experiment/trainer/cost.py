"""What training costs: steps per second and peak memory."""

import ctypes
import gc
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch.distributed.tensor import DTensor

MEBIBYTE = 2**20
_PROCESS = Path("/proc/self")


class Cost(pl.Callback):
    """Measures a fit from its second step on; the first one loads libraries and allocates buffers.

    Time and memory are those of training alone, without validation, which also draws pictures and loads the
    libraries for them, and without initial epochs on shorter sequences (`DataModule.short_epochs`), so that
    every measured step does the same amount of work.

    Memory is that of the weights, their gradients and the optimiser's state, plus the peak above whatever
    else is in use between two steps. On a GPU it is what PyTorch allocates; on the CPU it is the process's
    resident memory, on Linux only. There, free heap pages are returned to the system and the kernel's peak is
    reset (5 in /proc/self/clear_refs), so that jobs in one process do not see each other's peaks.

    Attributes:
        total_seconds: duration of the fit, including the parts before interruptions.
        resuming: whether the loaded checkpoint is the run's own.
    """

    def __init__(self) -> None:
        self.resuming = False
        self.start = 0.0
        self.total_seconds = 0.0
        self.device = torch.device("cpu")
        self.peak: float | None = None
        self.seconds = 0.0
        self.steps = 0
        self.last_time = 0.0  # from when the next step is timed
        self.last_step: int | None = None
        self.other_memory: float | None = None  # bytes; see `_other_memory`
        self.validated = False  # since the last step

    def state_dict(self) -> dict[str, Any]:
        """Return the measurements so far."""
        return {
            "whole": self.total_seconds + time.perf_counter() - self.start,
            "seconds": self.seconds,
            "steps": self.steps,
            "peak": self._peak(self.device),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue the measurements of a resumed run."""
        if self.resuming:
            self.total_seconds, self.peak = state_dict["whole"], state_dict["peak"]
            self.seconds, self.steps = state_dict["seconds"], state_dict["steps"]

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock for the fit."""
        self.device = pl_module.device
        self.start = time.perf_counter()

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop the clock for the fit."""
        self.total_seconds += time.perf_counter() - self.start

    def metrics(self, device: torch.device) -> dict[str, float]:
        """`fit/steps_per_second` and, in MiB, `fit/peak_memory_mb`, if they could be measured."""
        if not self.steps:
            return {}
        found = {"fit/steps_per_second": self.steps / self.seconds}
        peak = self._peak(device)
        if peak is not None:
            found["fit/peak_memory_mb"] = peak / MEBIBYTE
        return found

    def _peak(self, device: torch.device) -> float | None:
        """The highest peak, including the parts of the run before interruptions."""
        if self.other_memory is None:
            return self.peak
        peak = float(torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else _resident("VmHWM")
        return self.peak if peak is None else max(self.peak or 0.0, peak - self.other_memory)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Restart the clock for the steps."""
        self.last_time = time.perf_counter()

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Measure memory again after a validation."""
        if self.validated and self.last_step is not None:
            start = time.perf_counter()
            self.other_memory = _other_memory(pl_module.device, _training_memory(trainer, pl_module))
            self.last_time += time.perf_counter() - start
        self.validated = False

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep the peak so far, and measure no memory until the next step."""
        self.peak, self.other_memory, self.validated = self._peak(pl_module.device), None, True

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Restart the clock for the steps after a validation in the middle of an epoch."""
        self.last_time = time.perf_counter()

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Add the steps and the time since the last batch."""
        data = getattr(trainer, "datamodule", None)
        if data is not None and trainer.current_epoch < data.short_epochs:
            return
        if trainer.is_last_batch and pl_module.device.type == "cuda":
            torch.cuda.synchronize(pl_module.device)
        if self.last_step is None:
            gc.collect()  # only once: it takes 0.3 s, longer than many epochs
            self.other_memory = _other_memory(pl_module.device, _training_memory(trainer, pl_module))
        else:
            self.seconds += time.perf_counter() - self.last_time
            self.steps += trainer.global_step - self.last_step
        self.last_step, self.last_time = trainer.global_step, time.perf_counter()


def _training_memory(trainer: pl.Trainer, module: pl.LightningModule) -> float:
    """Bytes of the weights, their gradients and the optimiser's state on this device."""
    tensors = [tensor for one in module.parameters() for tensor in (one, one.grad) if tensor is not None]
    states = [state for optimizer in trainer.optimizers for state in optimizer.state.values()]
    tensors += [value for state in states for value in state.values() if isinstance(value, torch.Tensor)]
    here = (one.to_local() if isinstance(one, DTensor) else one for one in tensors)
    return float(sum(tensor.numel() * tensor.element_size() for tensor in here))


def _other_memory(device: torch.device, training: float) -> float | None:
    """Reset the peak and return the bytes in use besides `training`; None if unknown."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return float(torch.cuda.memory_allocated(device)) - training
    now = _resident() if _reset_peak() else None
    return None if now is None else now - training


def _resident(entry: str = "VmRSS") -> float | None:
    """Resident bytes of this process, now (VmRSS) or at the peak (VmHWM); None if the system does not say."""
    status = _PROCESS / "status"
    found = (
        re.search(rf"^{entry}:\s+(\d+) kB", status.read_text(), re.MULTILINE) if status.is_file() else None
    )
    return None if found is None else float(found[1]) * 1024


def _reset_peak() -> bool:
    """Reset the kernel's record of the peak; returns whether that succeeded."""
    if not sys.platform.startswith("linux"):
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim is not None:
        trim(0)
    try:
        (_PROCESS / "clear_refs").write_text("5")
    except OSError:  # some containers do not allow it
        return False
    return True
