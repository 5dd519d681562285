"""Training steps per second of the default run and of experiments, in float32, in bf16 and compiled."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch

from attention_lab.experiment.console import silence_libraries
from benchmarks.measuring.harness import Comparison
from benchmarks.topics.training import TINY, fit, method

STEPS = {"cpu": 20, "cuda": 100}
BF16, COMPILED = "trainer.precision=bf16-mixed", "compile=true"


class Run(NamedTuple):
    """A training run.

    Args:
        options: the options that say what is trained.
        size: the option that sets the size of its training set, and the number of examples per step.
        layers: whether it has layers to compile.
        most: largest number of steps per epoch for which it has data.
    """

    options: str
    size: tuple[str, int]
    layers: bool = True
    most: int = 1000


RUNS = (
    Run("model=seq2seq", ("data.size", 64), layers=False),
    Run("model=transformer", ("data.size", 64)),
    Run("experiment=g2p_cmudict", ("data.size", 128), layers=False),
    Run("model=multihead", ("data.train_size", 64), most=20),
    Run("experiment=efficiency data.length=4000 data.short_epochs=0", ("data.train_size", 1)),
)
"""On a GPU, a method takes up to a minute until it is timed, and all have to fit into ten minutes."""
ON_CPU = RUNS[:2]


def comparisons(device: torch.device, quick: bool) -> Iterator[Comparison]:
    """Each piece of work is an epoch as `python train.py` trains it; on a CPU, nothing is compiled."""
    silence_libraries()
    gpu = device.type == "cuda"
    for run in RUNS[:1] if quick else RUNS if gpu else ON_CPU:
        yield _comparison(run, 2 if quick else min(run.most, STEPS[device.type]), device, tiny=quick)


def _comparison(run: Run, steps: int, device: torch.device, *, tiny: bool) -> Comparison:
    key, batch = run.size
    options = [
        *run.options.split(),
        *(TINY if tiny else (f"{key}={steps * batch}", f"data.batch_size={batch}")),
    ]
    options += ["trainer.accelerator=cpu"] if device.type == "cpu" else []
    methods = {"float32": [], "bf16": [BF16]}
    if run.layers and device.type == "cuda":
        methods |= {"bf16, compiled": [BF16, COMPILED]}
    return Comparison(
        f"`{run.options}`, {steps} steps of {batch}",
        [method(name, partial(fit, [*options, *more])) for name, more in methods.items()],
        note="With all callbacks, log and bar, without validation. Compiling is not timed. Each has a "
        "process of its own, which waits while the others work.",
        work=(float(steps), "steps/s"),
        children=True,
    )
