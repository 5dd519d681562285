"""Log the weights of every attention on a few fixed examples while any PyTorch Lightning model trains."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from math import isnan
from typing import Any
from zlib import crc32

import pytorch_lightning as pl
import torch
from lightning_fabric.utilities import move_data_to_device
from PIL.Image import Image
from pytorch_lightning.loggers import Logger
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from attention_lab.argument_checks import check_counts, check_number
from attention_lab.callbacks.batch_observation import (
    Forward,
    Labels,
    check_labels,
    observe_batch,
    over_images,
)
from attention_lab.errors import LabError
from attention_lab.loggers import Charts, run_loggers
from attention_lab.loggers.tensorboard import add_picture, run_writer
from attention_lab.metrics import attention_entropy, monotonicity
from attention_lab.tasks import Observation, Task
from attention_lab.tasks.pictures import record_thumbnails, scale_tops
from attention_lab.tensorboard_plugin.description import readable, readable_names
from attention_lab.tensorboard_plugin.writer import write_record
from attention_lab.text_tables import markdown_code, markdown_table

EXAMPLE = "example"
"""The default name of examples in TensorBoard."""
MEASURES: dict[str, Callable[[Tensor], Tensor]] = {
    "weights/heads/entropy": lambda weights: attention_entropy(weights).mean(-1),
    "weights/heads/monotonicity": monotonicity,
}
"""Functions from an example's weights [H, Q, K] to one number per head, by the prefix of the scalar's name.

`weights` sorts after `train` and `validation`, so TensorBoard shows losses and metrics first; `heads` sorts
after the pictures of examples.
"""
Measured = dict[tuple[str, str], dict[str, float]]
"""For each measure and attention, one number per head, by the name of the scalar."""


class AttentionMaps(pl.Callback):
    """Log the attention weights of a fixed batch to TensorBoard.

    With a `batch`, it logs the attention of any `LightningModule`, before training and at the end of epochs.
    Without one, it logs the attention of this package's tasks on a few validation examples at every
    validation, together with measures and outputs; other loggers (Weights & Biases, MLflow) get the same
    pictures and measures.

    For example:

        batch = tokenizer(texts, return_tensors="pt", padding=True)
        labels = [tokenizer.convert_ids_to_tokens(ids) for ids in batch["input_ids"]]
        pl.Trainer(callbacks=[AttentionMaps(batch, labels=labels)])

    Every layer and head is written for the Attention tab, which this package adds to TensorBoard, and drawn
    for the Images tab, which needs no plugin. Both show the weights before dropout. They are recorded in a
    separate pass, so that training stays on the fast path. All pictures of an attention share one colour
    scale across steps. It ends at 1, or lower as long as no weight is above 0.5.

    A trainer may have several of these callbacks, with different names: `AttentionMaps(hard,
    name="hard case")` logs `hard case 1`, `hard case 2`, and so on.

    Args:
        batch: the argument of the module: a mapping is passed as keyword arguments, a tuple or list as
            positional ones, anything else as the only one. None for the validation examples of a task of
            this package.
        labels: a list of texts for each example in `batch`, one for each position; positions at the end
            without a label are padding, and left out.
        every_n_epochs: log `batch` at the end of every n-th epoch of training.
        forward: a function that calls the module in another way, `forward(module, batch)`.
        images: the images of the examples, `[B, C, H, W]`, `[B, H, W, C]` or `[B, H, W]`. Attention whose
            keys are their patches is laid over them: in the Attention tab for every query, in the Images tab
            for the class token (without one, the mean over the patches).
        patch_size: side of a patch of the images in pixels; by default that of the module's first convolution
            whose stride is its kernel size.
        name: what an example of `batch` is called in TensorBoard, before its number.
        examples: the largest number of examples.
        every: without a batch, log at every n-th validation.

    Raises:
        LabError: a number is not a whole number of at least 1, labels are not lists of texts, `forward` is
            not a function, or the name cannot be used; or, when training begins, labels fit no attention or
            leave out padding on the left, no attention has the patches of the images, there is no
            `TensorBoardLogger`, or the model is a task of this package, which cannot be called with a batch.
    """

    def __init__(
        self,
        batch: Any = None,
        labels: Labels | None = None,
        *,
        every_n_epochs: int = 1,
        forward: Forward | None = None,
        images: Any = None,
        patch_size: int | None = None,
        name: str = EXAMPLE,
        examples: int = 4,
        every: int = 1,
    ) -> None:
        check_counts("callbacks.attention_maps", 1, examples=examples, every=every)
        check_number("AttentionMaps: every_n_epochs", every_n_epochs, least=1, whole=True)
        check_labels(labels)
        if forward is not None and not callable(forward):
            raise LabError(f"AttentionMaps: forward must be a function of module and batch, not {forward!r}")
        if not isinstance(name, str) or not name.strip() or "/" in name:  # before the attention's name
            raise LabError(f"AttentionMaps: name={name!r} must be a word or words, without '/'")
        if batch is None and name != EXAMPLE:
            raise LabError(f"AttentionMaps: name={name!r} is for a batch of your own: give the batch as well")
        self.name = name
        if batch is None and images is not None:
            raise LabError("AttentionMaps: images are for a batch of your own: give the batch as well")
        if patch_size is not None and images is None:
            raise LabError("AttentionMaps: patch_size is for images: give images=... as well")
        self.batch, self.labels, self.forward = batch, labels, forward
        self.images, self.patch_size = images, patch_size
        self.every_n_epochs = every_n_epochs
        self.examples = examples
        self.every = every
        self.validations = 0
        self.tops: dict[str, float] = {}
        self.charts = 0  # a checksum

    @property
    def state_key(self) -> str:
        """The key of the state in a checkpoint; Lightning needs another one for each name."""
        return super().state_key if self.name == EXAMPLE else self._generate_state_key(name=self.name)

    def state_dict(self) -> dict[str, Any]:
        """Return the number of validations so far, the scales of the pictures and the charts' checksum."""
        return {"validations": self.validations, "tops": dict(self.tops), "charts": self.charts}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where a checkpoint stopped."""
        self.validations = state_dict["validations"]
        self.charts = int(state_dict.get("charts", 0))
        tops = state_dict.get("tops")
        known = tops.items() if isinstance(tops, dict) else ()
        self.tops = {str(name): top for name, top in known if isinstance(top, float) and 0 < top <= 1}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the attention of the given batch before training."""
        if self.batch is not None and not trainer.global_step:
            self._write_batch(trainer, pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the attention of the given batch after an epoch."""
        if self.batch is not None and (trainer.current_epoch + 1) % self.every_n_epochs == 0:
            self._write_batch(trainer, pl_module)

    def _write_batch(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Run the batch in every process, as each may have a shard of the model; write in one."""
        loggers = [one for one in trainer.loggers if _is_for_tensorboard(one)]
        trial = bool(trainer.fast_dev_run)  # type: ignore[attr-defined]  # Lightning takes the loggers away
        if not loggers and not trial:
            raise LabError(
                "AttentionMaps writes to TensorBoard: give the trainer logger=TensorBoardLogger('logs')"
            )
        if isinstance(pl_module, Task) and not callable(self.forward):
            raise LabError("callbacks.attention_maps.batch is for models of your own: leave it out")
        precision = trainer.precision_plugin
        batch = precision.convert_input(move_data_to_device(self.batch, pl_module.device))
        # On the CPU, torch's encoder layers fail under autocast in evaluation mode.
        with precision.forward_context(), torch.autocast("cpu", enabled=False):
            observations = observe_batch(pl_module, batch, self.labels, self.examples, self.forward)
        if self.images is not None:
            observations = over_images(observations, self.images, self.patch_size, pl_module)
        if trial or not trainer.is_global_zero:
            return
        writer: SummaryWriter = loggers[0].experiment  # type: ignore[attr-defined]
        self._log_maps([partial(add_picture, writer)], writer, observations, trainer.global_step)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the probe batch, on the writing process only and not during the sanity check."""
        if trainer.sanity_checking or self.batch is not None:
            return
        self.validations += 1
        loggers = run_loggers(trainer)
        if not loggers or (self.validations - 1) % self.every:
            return
        step = trainer.global_step
        observations = observe_probe(trainer, pl_module, self.examples)
        writer = run_writer(trainer)
        self._log_maps([logger.log_picture for logger in loggers], writer, observations, step)
        measured = _measure([observation.weights for observation in observations])
        charts = _charts(trainer.callback_metrics, measured)
        checksum = crc32(json.dumps(charts).encode())
        heads = dict(chain.from_iterable(one.items() for one in measured.values()))
        for logger in loggers:
            logger.log_metrics(heads, step)
            if checksum != self.charts:  # the first time, and when a metric has been added
                logger.log_charts(charts)
        self.charts = checksum
        if writer is not None:
            writer.add_text("samples", _table(observations), step)

    def _log_maps(
        self,
        pictures: list[Callable[[str, Image, int], None]],
        writer: SummaryWriter | None,
        observations: list[Observation],
        step: int,
    ) -> None:
        """Log records for the Attention tab, and their pictures."""
        for place, top in scale_tops(observations).items():
            self.tops[place] = max(top, self.tops.get(place, 0.0))
        names = readable_names(record.module for one in observations for record in one.records)
        for number, observation in enumerate(observations, start=1):
            for record in observation.records:
                place, tag = readable(record.module), f"{self.name} {number}/{names[record.module]}"
                if writer is not None:
                    write_record(writer, tag, record, step)
                for name, picture in record_thumbnails(record, self.tops[place]):
                    for log_picture in pictures:
                        log_picture(f"weights/{tag}{name.removeprefix(place)}", picture, step)


def _is_for_tensorboard(logger: Logger) -> bool:
    """Whether this is a `TensorBoardLogger`: that of `pytorch_lightning`, or its copy in `lightning`."""
    return any(kind.__name__ == "TensorBoardLogger" for kind in type(logger).__mro__)


def _measure(examples: list[dict[str, Tensor]]) -> Measured:
    """The measures of every head of every attention, averaged over the examples."""
    found: Measured = {}
    for module, place in readable_names(examples[0]).items():
        for name, measure in MEASURES.items():
            heads = torch.stack([measure(weights[module]) for weights in examples]).nanmean(0)
            found[name, place] = {
                f"{name}/{place} head {head}": value
                for head, value in enumerate(heads.tolist(), start=1)
                if not isnan(value)  # monotonicity is undefined for a single row
            }
    return found


def _charts(metrics: Iterable[str], measured: Measured) -> Charts:
    """Charts with several lines: a metric in training and validation, or the heads of an attention."""
    charts: dict[str, dict[str, list[str]]] = {"losses and metrics": {}}
    for name in sorted(metrics, key=lambda name: (not name.endswith("/loss"), name)):
        part, _, metric = name.partition("/")
        if part in ("train", "validation"):
            charts["losses and metrics"].setdefault(metric, []).append(name)
    for (measure, place), heads in measured.items():
        group = f"{measure.rpartition('/')[2]} of the weights of each head"
        charts.setdefault(group, {})[place] = list(heads)
    return charts


def _table(observations: list[Observation]) -> str:
    """Inputs, outputs and expected outputs, as a Markdown table of code."""
    rows = [(one.input, one.output, one.expected) for one in observations]
    # TensorBoard does not unescape `\|` within code.
    cells = [[markdown_code(text.replace("|", "/")) for text in row] for row in rows]
    return markdown_table(("input", "output", "expected"), cells)


def observe_probe(trainer: pl.Trainer, task: pl.LightningModule, examples: int) -> list[Observation]:
    """The task's observations of the data's probe batch, in evaluation mode."""
    assert isinstance(task, Task)
    return task.observe_probe(trainer.datamodule, examples)  # type: ignore[attr-defined]
