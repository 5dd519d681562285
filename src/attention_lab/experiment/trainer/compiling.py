"""compile=true: compile the model's large modules with PyTorch during training."""

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
    """Runs the compiled model in training steps, and the uncompiled model everywhere else.

    In validation, decoding and tests, shapes change at every step and weights are recorded. Only `forward`
    methods are replaced, so checkpoints do not change.

    Raises:
        LabError: when training begins, if the model decodes symbol by symbol or there is no compiler.
    """

    def __init__(self) -> None:
        self.compiled: list[tuple[nn.Module, Callable[..., Any]]] = []

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Choose the modules to compile; they are compiled when they first run."""
        if stage != "fit":
            return
        assert isinstance(pl_module, Task)
        found = large_modules(pl_module.model)
        _check_compiler(trainer.strategy.root_device)
        # Lengths and the size of the last batch vary, so compile one program for all shapes.
        self.compiled = [(module, torch.compile(module.forward, dynamic=True)) for module in found]

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Switch to the compiled modules."""
        for module, forward in self.compiled:
            module.forward = forward

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Switch back."""
        self._restore()

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Switch back, in case a step failed."""
        self._restore()

    def _restore(self) -> None:
        for module, _ in self.compiled:
            vars(module).pop("forward", None)


def compile_callbacks(choice: object) -> list[pl.Callback]:
    """The callbacks for the option `compile`; raises LabError if it is neither true nor false."""
    if not isinstance(choice, bool):
        raise LabError(f"compile={choice}: choose true or false")
    return [Compiling()] if choice else []


def large_modules(model: nn.Module) -> list[nn.Module]:
    """The modules to compile: the model's stacks of layers, or the model itself if it has none.

    Raises:
        LabError: the model decodes symbol by symbol.
    """
    if isinstance(model, Seq2Seq | ImageToSequence):
        raise LabError(
            "compile=true helps models with a few large steps, but a recurrent decoder has many small ones: "
            "leave it out, or choose model=transformer"
        )
    return [one for one in model.modules() if isinstance(one, Encoder | TransformerDecoder)] or [model]


def _check_compiler(device: torch.device) -> None:
    """Raise LabError if not even an addition can be compiled."""
    from torch._dynamo.exc import TorchDynamoException  # slow to import, and only needed for compile=true

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
