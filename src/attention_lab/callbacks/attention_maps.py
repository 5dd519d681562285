"""Log the weights of every attention on a few fixed examples at every validation."""

from collections.abc import Callable
from math import isnan
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from attention_lab.callbacks.tensorboard import run_writer
from attention_lab.callbacks.trackers import RunTracker, run_trackers
from attention_lab.errors import LabError
from attention_lab.metrics import attention_entropy, monotonicity
from attention_lab.tasks import Observation, Task
from attention_lab.tasks.pictures import record_pictures, scale_tops
from attention_lab.tensorboard_plugin.description import readable
from attention_lab.tensorboard_plugin.writer import write_record
from attention_lab.text_tables import markdown_code, markdown_table

MEASURES: dict[str, Callable[[Tensor], Tensor]] = {
    "attention_entropy": lambda weights: attention_entropy(weights).mean(-1),
    "attention_monotonicity": monotonicity,
}
"""Functions from an example's weights [H, Q, K] to a number for each head, by the name of the scalar."""


class AttentionMaps(pl.Callback):
    """Log the attention weights of a fixed probe batch, their measures and the outputs to TensorBoard.

    Other trackers (Weights & Biases, MLflow) get the same pictures and measures.

    Every layer and head is written for the Attention tab, which this package adds to TensorBoard, and drawn
    for the Images tab, which needs no plugin. Both show the weights before dropout, recorded in a separate
    pass, so that training stays on the fast path. All pictures of an attention share one scale, also at
    different steps. It ends at 1, or lower while no weight is above 0.5.

    Args:
        examples: number of validation examples.
        every: log at every n-th validation.
    """

    def __init__(self, examples: int = 4, every: int = 1) -> None:
        if examples < 1 or every < 1:
            raise LabError(
                f"callbacks.attention_maps: examples={examples} and every={every} must be at least 1"
            )
        self.examples = examples
        self.every = every
        self.validations = 0
        self.tops: dict[str, float] = {}

    def state_dict(self) -> dict[str, Any]:
        """The number of validations so far, and the scales of the pictures."""
        return {"validations": self.validations, "tops": dict(self.tops)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where a checkpoint stopped."""
        self.validations = state_dict["validations"]
        tops = state_dict.get("tops")
        known = tops.items() if isinstance(tops, dict) else ()
        self.tops = {str(name): top for name, top in known if isinstance(top, float) and 0 < top <= 1}

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the probe batch, on the writing process only and not before training has begun."""
        if trainer.sanity_checking:
            return
        self.validations += 1
        trackers = run_trackers(trainer)
        if not trackers or (self.validations - 1) % self.every:
            return
        step = trainer.global_step
        observations = observe_probe(trainer, pl_module, self.examples)
        writer = run_writer(trainer)
        self._log_maps(trackers, writer, observations, step)
        measures = _measures([observation.weights for observation in observations])
        for tracker in trackers:
            tracker.log_metrics(measures, step)
        if writer is not None:
            writer.add_text("samples", _table(observations), step)

    def _log_maps(
        self,
        trackers: list[RunTracker],
        writer: SummaryWriter | None,
        observations: list[Observation],
        step: int,
    ) -> None:
        """Log records for the Attention tab, and pictures of them."""
        for place, top in scale_tops(observation.records for observation in observations).items():
            self.tops[place] = max(top, self.tops.get(place, 0.0))
        for number, observation in enumerate(observations, start=1):
            for record in observation.records:
                place = readable(record.module)
                if writer is not None:
                    write_record(writer, f"example {number}/{place}", record, step)
                for name, picture in record_pictures(record, self.tops[place]):
                    for tracker in trackers:
                        tracker.log_picture(f"attention/example {number}/{name}", picture, step)


def _measures(examples: list[dict[str, Tensor]]) -> dict[str, float]:
    """The measures of every head of every attention, each the mean over the examples."""
    found = {}
    for module in examples[0]:
        for name, measure in MEASURES.items():
            heads = torch.stack([measure(weights[module]) for weights in examples]).nanmean(0)
            for head, value in enumerate(heads.tolist(), start=1):
                if not isnan(value):  # monotonicity is undefined for one row
                    found[f"{name}/{readable(module)} head {head}"] = value
    return found


def _table(observations: list[Observation]) -> str:
    """Inputs, outputs and expected outputs, as a Markdown table of code."""
    rows = [(one.input, one.output, one.expected) for one in observations]
    # TensorBoard does not unescape `\|` within code.
    cells = [[markdown_code(text.replace("|", "/")) for text in row] for row in rows]
    return markdown_table(("input", "output", "expected"), cells)


def observe_probe(trainer: pl.Trainer, task: pl.LightningModule, examples: int) -> list[Observation]:
    """What the task sees in the data's probe batch, in evaluation mode."""
    assert isinstance(task, Task)
    return task.observe_probe(trainer.datamodule, examples)  # type: ignore[attr-defined]
