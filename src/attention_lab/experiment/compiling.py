"""compile=true: the model's large steps compiled by PyTorch, while it trains."""

from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from attention_lab.errors import LabError, first_line
from attention_lab.models import Encoder, ImageToSequence, Seq2Seq
from attention_lab.models.parts.transformer_decoder import TransformerDecoder
from attention_lab.tasks import Task


class Compiling(pl.Callback):
    """Lets the model run compiled in the steps of training, and as it is written in all else.

    In validation, heatmaps, decoding and test shapes change with every step, and weights are looked at. Only
    the `forward` of modules is exchanged, so that what is saved is the same as without.

    Raises:
        LabError: when the training begins, if the model has no large steps or there is no compiler.
    """

    def __init__(self) -> None:
        self.compiled: list[tuple[nn.Module, Callable[..., Any]]] = []

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Choose what is compiled; the work is done when it first runs."""
        if stage != "fit":
            return
        assert isinstance(pl_module, Task)
        found = steps(pl_module.model)
        _check_compiler(trainer.strategy.root_device)
        # Lengths differ, and so does the last batch: one program for all shapes.
        self.compiled = [(module, torch.compile(module.forward, dynamic=True)) for module in found]

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """From here on compiled."""
        for module, forward in self.compiled:
            module.forward = forward

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """From here on as written."""
        self._restore()

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """As written, though a step may have failed half-way."""
        self._restore()

    def _restore(self) -> None:
        for module, _ in self.compiled:
            vars(module).pop("forward", None)


def compiling(choice: object) -> list[pl.Callback]:
    """The callbacks that the option `compile` asks for; raises LabError if it is neither true nor false."""
    if not isinstance(choice, bool):
        raise LabError(f"compile={choice}: choose true or false")
    return [Compiling()] if choice else []


def steps(model: nn.Module) -> list[nn.Module]:
    """The parts of a model that are compiled: its stacks of layers, or all of it if it has none.

    Raises:
        LabError: it goes symbol by symbol.
    """
    if isinstance(model, Seq2Seq | ImageToSequence):
        raise LabError(
            "compile=true is for models of a few large steps, and a recurrent decoder has many small ones: "
            "leave it out, or choose model=transformer"
        )
    return [one for one in model.modules() if isinstance(one, Encoder | TransformerDecoder)] or [model]


def _check_compiler(device: torch.device) -> None:
    """Compile one addition."""
    from torch._dynamo.exc import TorchDynamoException  # heavy, and of no use without compile=true

    @torch.compile
    def successor(x: Tensor) -> Tensor:
        return x + 1

    try:
        successor(torch.zeros(8, device=device))
    except (TorchDynamoException, RuntimeError) as error:
        raise LabError(
            f"compile=true: PyTorch finds no working compiler for {device.type} ({first_line(error)}): "
            "install a C++ compiler such as g++ (on a GPU also the package triton), or leave compile=true out"
        ) from None
