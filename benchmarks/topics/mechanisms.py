"""A training step of each mechanism of experiment=efficiency, at growing lengths."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_lab.experiment.build import make_data, make_task
from benchmarks.measuring.harness import Comparison, Growth, Method, Work
from benchmarks.topics.training import configured

MECHANISMS = ("scaled_dot", "gaussian", "linear", "band", "rnn", "additive")
"""Files of conf/mechanism."""
LENGTHS = (1000, 2000, 4000)
DATA = ("data.train_size=1", "data.validation_size=1", "data.test_size=1", "data.short_epochs=0")


def comparisons(device: torch.device, quick: bool) -> Iterator[Comparison]:
    """One sequence per step: forward, backward and the optimiser."""
    for length in (24,) if quick else LENGTHS:
        yield Comparison(
            f"experiment=efficiency, one sequence of {length:,}",
            methods(length, device),
            note="Each mechanism has parameters of its own, so no error can be stated.",
            work=(1, "steps/s"),
        )


def growth(device: torch.device, quick: bool) -> Iterator[Growth]:
    """The same at growing lengths."""
    lengths = (24, 48) if quick else (500, *LENGTHS)
    yield Growth("Training step, one sequence", "length", lengths, partial(methods, device=device))


def methods(length: int, device: torch.device) -> Sequence[Method]:
    """A training step of each mechanism on a sequence of this length."""
    return [Method(name, partial(_step, name, length, device), exact=False) for name in MECHANISMS]


def _step(mechanism: str, length: int, device: torch.device) -> Work:
    """Prepare model, batch and optimiser of the experiment; the work is a step, and its result the loss."""
    torch.manual_seed(0)
    options = ("experiment=efficiency", f"mechanism={mechanism}", f"data.length={length}", *DATA)
    with TemporaryDirectory() as name:
        plain = configured(options, Path(name))
    data = make_data(plain)
    task = make_task(plain, data.sizes, data.codec, trainable=True).to(device)
    assert task.make_optimizer is not None
    optimizer = task.make_optimizer(list(task.model.parameters()))
    inputs, lengths, labels = (field.to(device) for field in data.splits.train[torch.tensor([0])][:3])

    def step() -> Sequence[Tensor]:
        optimizer.zero_grad()
        loss = F.cross_entropy(task.model(inputs, lengths).flatten(0, 1), labels.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(task.model.parameters(), plain["trainer"]["gradient_clip_val"])
        optimizer.step()
        return [loss]

    return step
