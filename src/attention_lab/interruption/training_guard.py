"""Watches a training: ends it where a signal asks for it, or where its numbers are no numbers any more."""

import io
import re
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import pytorch_lightning as pl
import torch
from torch import Tensor

from attention_lab.callbacks.distributed import any_process
from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.data.reading.image_codec import ImageCodec
from attention_lab.errors import LabError, Stopped
from attention_lab.interruption.exit_messages import lost_process_error
from attention_lab.interruption.signals import DeferredSignals
from attention_lab.writing import write_atomically

BATCH = "bad_batch"
"""Name of the files with the batch whose loss is not finite: tensors, and the same as text."""

PEER_LOST = re.compile(r"gloo.*(by peer|Broken pipe)", re.DOTALL)
"""What is raised where another process has ended in the middle of a step."""


class TrainingGuard(pl.Callback):
    """Stops all processes of a training between the same two batches. It has to be the first callback.

    A loss that is NaN or infinite ends the training before it reaches the weights, and weights that are not
    finite are not saved, so the last checkpoint stays good. With several processes all of them end at the
    next batch; nothing is saved until then. Only the first value of a step counts: a line search
    (LBFGS) may try what it then leaves alone.

    Args:
        waiting: knows whether a signal has come.
        folder: the run's, for the batch.
    """

    def __init__(self, waiting: DeferredSignals, folder: Path) -> None:
        self.waiting, self.folder = waiting, folder
        self.created = time.time()
        self.batch: Any = None
        self.fresh = False
        self.begun = False
        self.bad: str | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Take the signals back from Lightning, which would end with status 0, or wait for ever."""
        self.waiting.begin()

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """End here, if any process has a reason to."""
        self._look(trainer, between_batches=batch_idx % trainer.accumulate_grad_batches == 0)
        self.batch, self.fresh = batch, True

    def on_before_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: Tensor) -> None:
        """Look at the loss, the first one of this batch."""
        self.begun = True
        if self.fresh and not bool(loss.detach().isfinite().all()):
            self.bad = self._describe(trainer, pl_module, f"the loss is {float(loss.detach()):g}")
            if trainer.world_size == 1:
                raise LabError(self.bad)
        self.fresh = False

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Refuse to save weights that are no numbers."""
        names = [name for name, one in pl_module.named_parameters() if not bool(one.isfinite().all())]
        if names and self.bad is None:
            self.bad = self._describe(trainer, pl_module, f"the weights {names[0]} are not finite")
        if any_process(trainer, self.bad is not None):  # of a loss, one process alone may know
            self._end(trainer)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Look a last time."""
        self._look(trainer, between_batches=False)

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Leave it to the process that failed to say why: where it is missed, only a connection broke."""
        if not (isinstance(exception, RuntimeError) and PEER_LOST.search(str(exception))):
            return
        for logger in trainer.loggers:
            logger.finalize("failed")  # as Lightning does after this
        error = lost_process_error(self.folder, self.created)
        if trainer.is_global_zero and error is not None:
            raise error from None
        sys.exit(1)

    def _look(self, trainer: pl.Trainer, between_batches: bool) -> None:
        stop = between_batches and self.waiting.signum is not None
        if any_process(trainer, stop or self.bad is not None):
            self._end(trainer, between_batches)

    def _end(self, trainer: pl.Trainer, between_batches: bool = False) -> NoReturn:
        """End all processes; the first one says why."""
        reasons = [(self.bad, self.waiting.signum)]
        if trainer.world_size > 1:
            reasons *= trainer.world_size
            torch.distributed.all_gather_object(reasons, (self.bad, self.waiting.signum))
        bad = next((text for text, _ in reasons if text is not None), None)
        if bad is None:
            raise Stopped(next(signum for _, signum in reasons if signum is not None), between_batches)
        if trainer.is_global_zero:
            raise LabError(bad)
        raise Stopped(0)

    def _describe(self, trainer: pl.Trainer, module: pl.LightningModule, what: str) -> str:
        """One line for the user; the batch is written."""
        rank = f"_{trainer.global_rank}" if trainer.global_rank else ""
        path = self.folder / f"{BATCH}{rank}.pt"
        given = self.batch._asdict().items()
        fields = {name: value.detach().cpu() for name, value in given if isinstance(value, Tensor)}
        content = io.BytesIO()
        torch.save(fields, content)
        write_atomically(path, content.getbuffer())
        text = ""
        if isinstance(module.codec, TransductionCodec | ImageCodec):
            text = batch_text(module.codec, fields)
            write_atomically(path.with_suffix(".txt"), text)
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        return (
            f"{what} at step {trainer.global_step}; the batch is kept in {path}"
            f"{' and .txt' if text else ''}: look whether its values make sense, lower optimizer.lr "
            f"(now {rate:.2g}) or trainer.gradient_clip_val (now {trainer.gradient_clip_val}), "
            "or raise schedule.warmup"
        )


def batch_text(codec: TransductionCodec | ImageCodec, fields: dict[str, Tensor]) -> str:
    """A line for each example of a batch: `source<TAB>target`."""
    rows = zip(fields["source"], fields["source_lengths"].tolist(), fields["target"], strict=True)
    return "".join(
        f"{codec.source_text(source[..., :length])}\t{codec.decode(target)}\n"
        for source, length, target in rows
    )
