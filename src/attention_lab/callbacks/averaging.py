"""A moving average of the weights during training."""

from itertools import chain
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import WeightAveraging
from pytorch_lightning.trainer.states import TrainerFn

from attention_lab.errors import LabError


class AveragedWeights(WeightAveraging):
    """Exponential moving average of the weights; it is validated, saved and tested in their place.

        m_{n+1} = m_n + (1 - d_n) (w_{n+1} - m_n),   d_n = min(d, (1 + n) / (10 + n))

    after each step n, with the average m and the weights w. The decay grows to d during training, so that
    the untrained initial weights are soon forgotten, and the average stays short in a run of only a hundred
    steps.

    Args:
        decay: d; the average spans about 1 / (1 - d) steps.

    Raises:
        LabError: the decay is not in [0, 1).
    """

    def __init__(self, decay: float = 0.998) -> None:
        if not 0 <= decay < 1:
            raise LabError(f"callbacks.ema.decay must be in [0, 1), got {decay}")
        self.decay = decay
        self._has_average = False  # known here without asking the device
        super().__init__()

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Move the average to the device of the weights, which were moved after it was created."""
        self._has_average = False
        if self._average_model is not None:
            self._average_model.to(pl_module.device)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Update the averages after a step of the optimiser."""
        step = trainer.global_step
        if step > self._latest_update_step and self.should_update(step_idx=step - 1):
            self._update(pl_module)
            self._latest_update_step = step

    @torch.no_grad()
    def _update(self, module: pl.LightningModule) -> None:
        """As `AveragedModel.update_parameters`, which asks the GPU for the number of updates every time."""
        average = self._average_model
        assert average is not None
        tensors = (chain(one.parameters(), one.buffers()) for one in (average.module, module))
        pairs = [(mean.detach(), weight.detach()) for mean, weight in zip(*tensors, strict=True)]
        first = not self._has_average and bool(average.n_averaged == 0)
        for mean, weight in pairs:
            if first or not mean.is_floating_point():  # integers, such as counts, have no average
                mean.copy_(weight)
        floating = [] if first else [pair for pair in pairs if pair[0].is_floating_point()]
        if floating:
            means, weights = (list(tensors) for tensors in zip(*floating, strict=True))
            # Everything stays on the device, so that no step waits for a transfer.
            count = average.n_averaged
            share = 1 - ((1 + count) / (10 + count)).clamp_max(self.decay)
            steps = torch._foreach_sub(weights, means)
            torch._foreach_mul_(steps, share)
            torch._foreach_add_(means, steps)
        self._has_average = True
        average.n_averaged += 1

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Continue training from the current weights; testing uses the averaged ones that were loaded."""
        if trainer.state.fn == TrainerFn.FITTING:
            super().on_load_checkpoint(trainer, pl_module, checkpoint)
