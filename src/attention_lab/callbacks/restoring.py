"""Check the state in a checkpoint before Lightning restores it."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint

from attention_lab.callbacks.resumable import STATE
from attention_lab.console_text import counted
from attention_lab.errors import LabError
from attention_lab.files.run_files import RECIPE
from attention_lab.untrusted.optimizer_state import as_floats, optimizer_state
from attention_lab.untrusted.training_state import (
    LEGACY,
    checkpointing_state,
    contains_path,
    initial_state,
    is_count,
    matching,
)


class Restoring(pl.Callback):
    """Keeps only the parts of a checkpoint that fit this training; must precede all callbacks with a state.

    From another run's checkpoint, training takes the weights, optimiser, schedule and counts, and nothing
    that names a file. From the run's own checkpoint, it also takes the callbacks' states, which may only
    name files in the run's folder.

    Args:
        resuming: whether the checkpoint is the run's own.

    Attributes:
        testing: whether a test has started, whose checkpoint has then been loaded.
    """

    def __init__(self, resuming: bool) -> None:
        self.resuming = resuming
        self.testing = False
        self._checkpoint: dict[str, Any] | None = None

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Reduce the checkpoint in place.

        Raises:
            ValueError: the form of a part differs from what this training expects.
            LabError: another run's checkpoint leaves nothing to train.
        """
        if trainer.state.fn != "fit":
            return
        if self.resuming:
            states = checkpoint["callbacks"]
            checkpoint["callbacks"] = _callback_states(trainer, states if isinstance(states, Mapping) else {})
            for key in LEGACY:
                checkpoint.pop(key, None)
        else:
            more = {RECIPE: checkpoint.get(RECIPE)}
            if STATE in checkpoint:
                batch = checkpoint[STATE]["batch"]
                if not is_count(batch):
                    raise ValueError(f"the batch number {str(batch)[:40]!r} is not a count")
                more[STATE] = {"batch": batch, "done": False}
            kept = initial_state(checkpoint, more)
            checkpoint.clear()
            checkpoint.update(kept)
        now = {"fit_loop": trainer.fit_loop.state_dict()}
        checkpoint["loops"] = matching(now, checkpoint["loops"], "loops")
        if not self.resuming:
            _check_limits(trainer, checkpoint)
        self._checkpoint = checkpoint
        if trainer.strategy.restore_checkpoint_after_setup:
            self._check_steps(trainer)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Check the states of the optimiser, schedule and scaler, which only exist from now on."""
        if self._checkpoint is not None:
            self._check_steps(trainer)

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note that the checkpoint to test has been loaded."""
        self.testing = True

    def _check_steps(self, trainer: pl.Trainer) -> None:
        checkpoint, self._checkpoint = self._checkpoint, None
        assert checkpoint is not None
        states = checkpoint["optimizer_states"]
        if trainer.strategy.lightning_restore_optimizer:
            if len(states) != len(trainer.optimizers):
                raise ValueError(
                    f"it has {len(states)} optimisers, but training has {len(trainer.optimizers)}"
                )
            pairs = zip(trainer.optimizers, states, strict=True)
            checkpoint["optimizer_states"] = [optimizer_state(*pair) for pair in pairs]
        now = [_schedule_state(config.scheduler.state_dict()) for config in trainer.lr_scheduler_configs]
        checkpoint["lr_schedulers"] = matching(now, checkpoint["lr_schedulers"], "lr_schedulers")
        plugin = trainer.precision_plugin
        key = type(plugin).__qualname__
        if key in checkpoint:
            checkpoint[key] = matching(plugin.state_dict(), checkpoint[key], key)


def _check_limits(trainer: pl.Trainer, checkpoint: Mapping[str, Any]) -> None:
    """Raise LabError if the limit on epochs or steps, which counts those of the checkpoint, is reached."""
    epochs = checkpoint["loops"]["fit_loop"]["epoch_progress"]["current"]["processed"]
    steps = checkpoint["global_step"]
    for option, limit, done, noun in (
        ("max_epochs", trainer.max_epochs, epochs, "epoch"),
        ("max_steps", trainer.max_steps, steps, "step"),
    ):
        if limit is not None and 0 <= limit <= done:
            raise LabError(
                f"ckpt_path={trainer.ckpt_path}: it has been trained for {counted(done, noun)} already, and "
                f"trainer.{option}={limit} counts them: choose more"
            )


def _schedule_state(state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: as_floats(value) if key in ("base_lrs", "_last_lr") else value for key, value in state.items()
    }


def _callback_states(trainer: pl.Trainer, states: Mapping[str, Any]) -> dict[str, Any]:
    """The states of this training's callbacks, except those that name files outside its folder."""
    kept = {}
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        key = callback.state_key
        if key not in states:
            continue
        if isinstance(callback, ModelCheckpoint):
            found = (
                None if callback.dirpath is None else checkpointing_state(states[key], Path(callback.dirpath))
            )
            if found is not None:
                kept[key] = found
            elif trainer.is_global_zero:
                sys.stderr.write(
                    "Resume: the best checkpoint is not in the run's folder; a new best one will be chosen\n"
                )
        elif isinstance(callback, EarlyStopping) or type(callback).__module__.startswith("attention_lab."):
            kept[key] = matching(callback.state_dict(), states[key], key)
        elif not contains_path(states[key]):  # a user's own class may have any state
            kept[key] = states[key]
    return kept
