"""Start-up: the command line, and the time to the first training step, against importing Lightning alone.

To see which imports take long: `python -X importtime train.py ... 2>&1 | sort -t'|' -k2n`.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from benchmarks.measuring.harness import Comparison, Method, Work

ROOT = Path(__file__).parents[2]


def comparisons(device: torch.device, quick: bool) -> Iterator[Comparison]:
    """Each piece of work is a new process, from start to end."""
    config = Method("`train.py --cfg job`", _python("train.py", "--cfg", "job"))
    methods = [
        Method("`import pytorch_lightning`", _python("-c", "import pytorch_lightning")),
        Method("`import torch`", _python("-c", "import torch")),
        Method("`import torch._dynamo`, which Lightning imports", _python("-c", "import torch._dynamo")),
        Method("Lightning as train.py imports it", _python("-c", LEAN)),
        Method("`train.py model=nw trainer.max_steps=1`", _first_step),
        Method("`train.py --help`", _python("train.py", "--help")),
        config,
    ]
    yield Comparison(
        "A process from start to end, one thread",
        [config] if quick else methods,
        note="`max_steps=1` composes, trains a step, validates, tests, draws, writes a checkpoint and "
        "a report. torchmetrics imports scipy and matplotlib merely because they are installed: train.py "
        "prevents that. Half of `--help` is Hydra's listing of the config groups.",
        children=True,
    )


LEAN = "from attention_lab.lightning_import import import_lightning; import_lightning()"


def _python(*arguments: str) -> Callable[[], Work]:
    """A method whose work is a Python process from start to end."""

    def work() -> Sequence[Tensor]:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL
        )
        return ()

    return lambda: work


def _first_step() -> Work:
    def work() -> Sequence[Tensor]:
        with TemporaryDirectory() as folder:
            options = ["model=nw", "trainer.max_steps=1", "logger=none", f"hydra.run.dir={folder}/run"]
            return _python("train.py", *options)()()

    return work
