"""Training on the GPU: steps that never wait for it, reproducible seeds, killed runs, a single device."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from killed_runs import QUICK, SMALL, finish, next_save, start_training, weights

from attention_lab.experiment.build import make_data, make_task
from attention_lab.experiment.trainer.make import make_trainer
from attention_lab.interruption.signals import DeferredSignals
from attention_lab.interruption.training_guard import TrainingGuard
from attention_lab.tasks import Task
from benchmarks.topics.training import configured

pytestmark = pytest.mark.gpu

REVERSE = """
    data=reverse data.max_length=6 data.train_size=40 data.validation_size=4 data.test_size=4
    data.batch_size=10
"""
SEQ2SEQ = f"{REVERSE} model.embedding_size=8 model.hidden_size=16 model.dropout=0.1"
LAYERS = "model.d_model=16 model.heads=2 model.feedforward=32 model.layers=1"
RECALL = """
    experiment=efficiency data.train_size=4 data.length=300 data.short_epochs=0 model.d_model=16 model.heads=2
    model.feedforward=32
"""
RUNS = {
    "seq2seq": SEQ2SEQ,
    "input feeding": f"{SEQ2SEQ} model.input_feeding=true model.wiring=luong",
    "local-p": f"{SEQ2SEQ} scoring=general window=local_p",
    "multihead": f"model=multihead {LAYERS} data.batch_size=50",
    "transformer": f"model=transformer {REVERSE} {LAYERS}",
    **{name: f"{RECALL} mechanism={name}" for name in ("scaled_dot", "linear", "band", "additive")},
    "nw": "model=nw optimizer=adam scoring=laplacian data.train_size=50",
}
"""Options of `train.py` for small runs of every kind of step that need not wait.

A Gaussian score looks at its keys' range, and LBFGS, the usual optimiser of `model=nw`, at the loss.
"""


def _accelerator(device: torch.device) -> str:
    return f"trainer.accelerator={'gpu' if device.type == 'cuda' else 'cpu'}"


class _NeverWaiting(pl.Callback):
    """Forbids waiting for the device from the start of a step to its end, once the first steps are over."""

    def __init__(self, forbidden: Callable[[], AbstractContextManager[None]], after: int = 2) -> None:
        self.forbidden, self.after, self.steps = forbidden, after, 0
        self.context: AbstractContextManager[None] | None = None

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step >= self.after:
            self.context = self.forbidden()
            self.context.__enter__()

    def on_train_batch_end(self, *_: Any) -> None:
        self._leave()
        self.steps += 1

    def on_exception(self, *_: Any) -> None:
        self._leave()

    def _leave(self) -> None:
        if self.context is not None:
            self.context.__exit__(None, None, None)
            self.context = None


def _fitted(options: str, device: torch.device, folder: Path, *callbacks: pl.Callback, seed: int = 1) -> Task:
    """A task, trained in this process by our trainer without validation, logs and checkpoints."""
    bare = "callbacks=none logger=none trainer.enable_progress_bar=false +trainer.enable_checkpointing=false"
    asked = f"{options} {bare} +trainer.limit_val_batches=0 {_accelerator(device)}"
    plain = configured(asked.split(), folder)
    pl.seed_everything(seed, verbose=False)
    data = make_data(plain)
    task = make_task(plain, data.sizes, data.codec, trainable=True)
    make_trainer(plain, *callbacks).fit(task, datamodule=data)
    return task


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("run", RUNS)
def test_a_step_never_waits_for_the_device(
    run: str,
    precision: str,
    device: torch.device,
    no_synchronization: Callable[[], AbstractContextManager[None]],
    tmp_path: Path,
) -> None:
    """Loss, its check, backward, clipping, optimiser and schedule, as Lightning runs them."""
    options = f"{RUNS[run]} trainer.precision={precision} trainer.max_epochs=3 trainer.max_steps=6"
    watched = _NeverWaiting(no_synchronization)
    task = _fitted(options, device, tmp_path, watched, TrainingGuard(DeferredSignals(), tmp_path))
    assert watched.steps > watched.after
    assert all(x.isfinite().all() for x in task.parameters())


@pytest.mark.parametrize("run", ["seq2seq", "multihead", "transformer"])
def test_a_seed_repeats_and_another_differs(run: str, device: torch.device, tmp_path: Path) -> None:
    options = f"{RUNS[run]} +trainer.deterministic=true trainer.max_epochs=2"
    try:
        trained = [list(_fitted(options, device, tmp_path, seed=seed).parameters()) for seed in (1, 1, 2)]
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(map(torch.equal, trained[0], trained[1]))
    assert not all(map(torch.equal, trained[0], trained[2]))


@pytest.mark.parametrize("model", SMALL)
def test_a_killed_run_resumes_to_the_same_bits(model: str, device: torch.device, tmp_path: Path) -> None:
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    options = [SMALL[model], QUICK, _accelerator(device), "+trainer.deterministic=true"]
    finish(start_training(*options, f"hydra.run.dir={unbroken}"))
    process = start_training(*options, f"hydra.run.dir={broken}")
    next_save(broken, process)
    assert process.poll() is None
    process.kill()
    process.communicate()
    finish(start_training(f"resume={broken}"))
    for name in ("last", "best"):
        before, after = weights(unbroken, name), weights(broken, name)
        assert before.keys() == after.keys()
        assert all(torch.equal(before[key], after[key]) for key in before), name


@pytest.mark.parametrize("trainer", ["ddp", "fsdp"])
def test_a_strategy_for_several_devices_trains_on_one(
    trainer: str, device: torch.device, tmp_path: Path
) -> None:
    options = [RUNS["transformer"], f"trainer={trainer} trainer.devices=1 trainer.max_epochs=1 logger=none"]
    finish(start_training(*options, _accelerator(device), "pictures=0", f"hydra.run.dir={tmp_path}/run"))


def test_a_compiled_model_trains(device: torch.device, tmp_path: Path) -> None:
    if device.type == "cpu":
        pytest.skip("the slow tests compile on the CPU")
    options = [
        RUNS["transformer"],
        "compile=true trainer.precision=bf16-mixed trainer.max_epochs=1 pictures=0",
    ]
    finish(start_training(*options, _accelerator(device), "logger=none", f"hydra.run.dir={tmp_path}/run"))
