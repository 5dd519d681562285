"""End training on a signal, or when the loss or the weights are no longer finite."""

import io
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytorch_lightning as pl
import torch
from torch import Tensor

from attention_lab.data.reading.codecs import ImageCodec, TransductionCodec
from attention_lab.distributed import any_process, gather_from_processes
from attention_lab.errors import LabError, Stopped
from attention_lab.files.writing import write_atomically
from attention_lab.interruption.exit_messages import lost_process_error
from attention_lab.interruption.signals import DeferredSignals

BATCH = "bad_batch"
"""Name of the files that hold a batch whose loss is not finite, as tensors and as text."""


class _SentLoss(NamedTuple):
    """The loss of a batch, being copied to the CPU.

    Attributes:
        value: the loss, valid once it has arrived.
        arrived: an event that signals its arrival; None on the CPU.
        batch: the batch.
        step: the number of its step.
    """

    value: Tensor
    arrived: torch.cuda.Event | None
    batch: Any
    step: int

    @property
    def is_finite(self) -> bool:
        """Whether the loss is finite; waits for it."""
        if self.arrived is not None:
            self.arrived.synchronize()
        return bool(self.value.isfinite().all())


class TrainingGuard(pl.Callback):
    """Stops all processes of a training run between the same two batches. It must be the first callback.

    A loss that is NaN or infinite ends training before it affects the weights, and weights that are not
    finite are not saved, so the last checkpoint stays valid. On a GPU, a loss is checked one step later, when
    it has been copied; otherwise every step would wait for the GPU. With several processes, all of them end
    at the next batch, and nothing is saved until then. Only the first loss of a step is checked, because a
    line search (LBFGS) may try points that it then discards.

    Args:
        deferred: whether a signal has been received.
        folder: the run's folder, where a bad batch is saved.
    """

    def __init__(self, deferred: DeferredSignals, folder: Path) -> None:
        self.deferred, self.folder = deferred, folder
        self.created = time.time()
        self.batch: Any = None
        self.unchecked = False  # no loss of this batch has been checked yet
        self.sent: _SentLoss | None = None  # the loss to be checked next
        self.started = False  # a forward pass has succeeded
        self.failure: str | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Take the signals back from Lightning, which would exit with status 0 or wait forever."""
        self.deferred.start_training()

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """End training here if any process has a reason to stop."""
        self._check(trainer, between_batches=batch_idx % trainer.accumulate_grad_batches == 0)
        self.batch, self.unchecked = batch, True

    def on_before_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: Tensor) -> None:
        """Check the first loss of each batch; on a GPU, that of the previous batch."""
        self.started = True
        if not self.unchecked:
            return
        self.unchecked = False
        if _is_late(loss):
            self._check_loss(trainer, pl_module)
        value = loss.detach().to("cpu", non_blocking=loss.is_cuda)
        arrived = None
        if loss.is_cuda:
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record()
        self.sent = _SentLoss(value, arrived, self.batch, trainer.global_step)
        if not _is_late(loss):
            self._check_loss(trainer, pl_module)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Refuse to save weights that are not finite."""
        self._check_loss(trainer, pl_module)
        names = [name for name, one in pl_module.named_parameters() if not bool(one.isfinite().all())]
        if names and self.failure is None:
            self.failure = self._describe(trainer, pl_module, f"the weights {names[0]} are not finite")
        # perhaps only one process has seen a bad loss
        if any_process(self.failure is not None, trainer.strategy.root_device):
            self._end(trainer)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Check one last time."""
        self._check_loss(trainer, pl_module)
        self._check(trainer, between_batches=False)

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """If the connection to a failed process is lost, let that process say why it failed."""
        if not _is_lost_peer(exception):
            return
        for logger in trainer.loggers:
            logger.finalize("failed")  # as Lightning does after this
        error = lost_process_error(self.folder, self.created)
        if trainer.is_global_zero and error is not None:
            raise error from None
        sys.exit(1)

    def _check_loss(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Check the loss that was sent last, unless it has been checked."""
        sent, self.sent = self.sent, None
        if sent is None or sent.is_finite:
            return
        self.failure = self._describe(trainer, module, f"the loss is {float(sent.value):g}", sent)
        if trainer.world_size == 1:
            raise LabError(self.failure)

    def _check(self, trainer: pl.Trainer, between_batches: bool) -> None:
        stop = between_batches and self.deferred.signum is not None
        if any_process(stop or self.failure is not None, trainer.strategy.root_device):
            self._end(trainer, between_batches)

    def _end(self, trainer: pl.Trainer, between_batches: bool = False) -> NoReturn:
        """End all processes; the first one reports why."""
        reasons = gather_from_processes((self.failure, self.deferred.signum))
        failure = next((text for text, _ in reasons if text is not None), None)
        if failure is None:
            raise Stopped(next(signum for _, signum in reasons if signum is not None), between_batches)
        if trainer.is_global_zero:
            raise LabError(failure)
        raise Stopped(0)

    def _describe(
        self, trainer: pl.Trainer, module: pl.LightningModule, problem: str, sent: _SentLoss | None = None
    ) -> str:
        """Save the batch (by default the current one), and describe the problem in one line."""
        batch, step = (self.batch, trainer.global_step) if sent is None else (sent.batch, sent.step)
        rank = f"_{trainer.global_rank}" if trainer.global_rank else ""
        path = self.folder / f"{BATCH}{rank}.pt"
        items = batch._asdict().items()
        fields = {name: value.detach().cpu() for name, value in items if isinstance(value, Tensor)}
        content = io.BytesIO()
        torch.save(fields, content)
        write_atomically(path, content.getbuffer())
        text = ""
        if isinstance(module.codec, TransductionCodec | ImageCodec):
            text = batch_text(module.codec, fields)
            write_atomically(path.with_suffix(".txt"), text)
        described = (
            f"{problem} at step {step}; the batch is saved in {path}"
            f"{' and .txt' if text else ''}: check that its values make sense"
        )
        if step == 0:
            return (
                f"{described}; nothing has been learned yet, so if they do, the model or one of its parts, "
                "such as a scoring of your own, returns values that are not finite"
            )
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        return (
            f"{described}, lower optimizer.lr (now {rate:.2g}) or trainer.gradient_clip_val "
            f"(now {trainer.gradient_clip_val}), or raise schedule.warmup"
        )


def _is_lost_peer(error: BaseException) -> bool:
    """Whether another process has ended in the middle of a step."""
    # A regex would search on from every "gloo"; the name of a metric in a file from others may have many.
    _, _, text = str(error).partition("gloo")
    return isinstance(error, RuntimeError) and ("by peer" in text or "Broken pipe" in text)


def _is_late(loss: Tensor) -> bool:
    """Whether to check the loss one step later."""
    return loss.is_cuda


def batch_text(codec: TransductionCodec | ImageCodec, fields: dict[str, Tensor]) -> str:
    """One line per example of a batch: `source<TAB>target`."""
    rows = zip(fields["source"], fields["source_lengths"].tolist(), fields["target"], strict=True)
    return "".join(
        f"{codec.source_text(source[..., :length])}\t{codec.decode(target)}\n"
        for source, length, target in rows
    )
