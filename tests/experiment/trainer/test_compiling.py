"""compile=true: what is compiled, when the compiled code runs, and the message where compiling fails."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from toys import toy

from attention_lab.attention import Mechanism, ScaledDot
from attention_lab.errors import LabError
from attention_lab.experiment.trainer import compiling
from attention_lab.models import KernelRegression, Seq2Seq, Transformer
from attention_lab.models.parts.encoder import EncoderLayer
from attention_lab.sizes import RegressionSizes

REPOSITORY = Path(__file__).parents[3]
SMALL = ["model=lm", "model.d_model=8", "model.heads=2", "model.layers=1", "model.feedforward=8"]
DATA = ["data=words", "data.size=64", "data.validation_size=20", "data.test_size=20", "trainer.max_epochs=1"]


def test_stacks_of_layers_are_compiled_or_the_whole_model() -> None:
    transformer = toy(Transformer)
    assert compiling.large_modules(transformer) == [transformer.encoder, transformer.decoder]
    smoother = KernelRegression(Mechanism(ScaledDot), RegressionSizes(features=2, targets=1, samples=5))
    assert compiling.large_modules(smoother) == [smoother]
    with pytest.raises(LabError, match="choose model=transformer"):
        compiling.large_modules(toy(Seq2Seq))


@pytest.mark.long
def test_training_alone_runs_compiled(command, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, shapes, within = [], [], False

    def compile_(
        forward: Callable[..., torch.Tensor], *, dynamic: bool = False
    ) -> Callable[..., torch.Tensor]:
        shapes.append(dynamic)

        def compiled(*inputs: torch.Tensor) -> torch.Tensor:
            nonlocal within
            within = True
            output = forward(*inputs)
            within = False
            return output

        return compiled

    def watch(module: nn.Module, _: Any) -> None:
        if isinstance(module, EncoderLayer):
            seen.append((module.training, within))

    monkeypatch.setattr(torch, "compile", compile_)
    watching = register_module_forward_pre_hook(watch)
    done = command(*SMALL, *DATA, "compile=true", "logger=none", "callbacks=none")
    watching.remove()
    assert done.status == 0, done.err
    assert shapes == [False, True]  # an addition, to see whether there is a compiler; the model
    assert set(seen) == {(True, True), (False, False)}


def test_compile_is_true_or_false(command) -> None:
    assert command(*SMALL, *DATA, "compile=maybe").err == "Error: compile=maybe must be true or false\n"


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, without the checks of shapes, which no compiler can see through."""
    return subprocess.run(
        [sys.executable, "train.py", *SMALL, *DATA, "logger=none", "threads=1", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_compiled_training_gives_the_same_checkpoint(tmp_path: Path) -> None:
    states, losses = [], []
    for compiled in ("false", "true"):
        folder = tmp_path / compiled
        done = _run(f"compile={compiled}", "model.dropout=0", "optimizer=sgd", f"hydra.run.dir={folder}")
        assert done.returncode == 0, done.stderr
        states.append(torch.load(folder / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"])
        losses.append(json.loads((folder / "metrics.json").read_text())["test/loss"])
    assert list(states[0]) == list(states[1])
    for name, plain in states[0].items():
        assert torch.allclose(plain, states[1][name], atol=1e-4), name
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


@pytest.mark.slow
def test_a_missing_compiler_is_one_line(tmp_path: Path) -> None:
    nowhere = {"CXX": "/nowhere/g++", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    done = _run("compile=true", f"hydra.run.dir={tmp_path / 'run'}", **nowhere)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: compile=true: PyTorch finds no working compiler for cpu")
