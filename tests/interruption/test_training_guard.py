"""How the guard ends training on a loss that is not finite or a lost process."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from attention_lab import distributed
from attention_lab.data.reading.batches import ClassificationBatch
from attention_lab.errors import LabError, Stopped
from attention_lab.interruption import training_guard
from attention_lab.interruption.signals import DeferredSignals
from attention_lab.interruption.training_guard import TrainingGuard

GONE = [
    "[/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:60032. This is typically caused",
    "[/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:54972: Connection reset by peer.",
]


def _end(folder: Path, error: Exception, first: bool = True, age: float | None = None) -> None:
    guard = TrainingGuard(DeferredSignals(), folder)
    if age is not None:
        reason = folder / "error.txt"
        reason.write_text("the disk is full\n")
        os.utime(reason, (guard.created - age, guard.created - age))
    finalized: list[str] = []
    logger = SimpleNamespace(finalize=finalized.append)
    trainer: Any = SimpleNamespace(loggers=[logger], is_global_zero=first)
    try:
        guard.on_exception(trainer, SimpleNamespace(), error)  # type: ignore[arg-type]
    finally:  # Lightning itself does so after any other error
        assert finalized == (["failed"] if str(error) in GONE else [])


def test_a_checkpoint_is_not_saved_if_another_process_has_a_loss_that_is_not_finite(
    tmp_path: Path, monkeypatch
) -> None:
    """An infinite loss can have finite gradients, so a single process may know of it."""
    monkeypatch.setattr(distributed, "process_count", lambda: 2)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda votes: votes.add_(1))

    def gather(reasons: list[tuple[str | None, None]], own: tuple[str | None, None]) -> None:
        reasons[:] = [own, ("the loss is inf", None)]

    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    strategy = SimpleNamespace(root_device=torch.device("cpu"))
    trainer: Any = SimpleNamespace(world_size=2, is_global_zero=True, strategy=strategy)
    with pytest.raises(LabError, match="the loss is inf"):
        TrainingGuard(DeferredSignals(), tmp_path).on_save_checkpoint(trainer, pl.LightningModule(), {})


@pytest.mark.parametrize("text", GONE)
@pytest.mark.parametrize("age", [None, 60.0], ids=["no reason", "a reason from before the resume"])
def test_the_first_process_reports_that_another_was_killed(text: str, age: float | None, tmp_path) -> None:
    with pytest.raises(LabError, match=r"another process of this run was killed.* resume="):
        _end(tmp_path, RuntimeError(text), age=age)


@pytest.mark.parametrize("first", [True, False])
def test_nothing_is_added_if_the_failed_process_recorded_why(first: bool, tmp_path: Path, capsys) -> None:
    with pytest.raises(SystemExit) as end:
        _end(tmp_path, RuntimeError(GONE[0]), first, age=-1.0)
    assert end.value.code == 1
    assert capsys.readouterr() == ("", "")


def test_the_other_processes_do_not_repeat_that_one_was_killed(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        _end(tmp_path, RuntimeError(GONE[0]), first=False)


def test_other_errors_are_unchanged(tmp_path: Path, capsys) -> None:
    _end(tmp_path, RuntimeError("shapes do not fit"))
    _end(tmp_path, LabError("reset by peer"))
    _end(tmp_path, RuntimeError("gloo" * 200_000))  # in the name of a metric; a regex took 20 minutes
    assert capsys.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("texts", [(), ("a text", "another")])
def test_the_tensors_of_a_bad_batch_are_saved_without_its_texts(
    texts: tuple[str, ...], tmp_path: Path
) -> None:
    guard = TrainingGuard(DeferredSignals(), tmp_path)
    two = torch.tensor([1, 2])
    guard.batch, guard.unchecked = ClassificationBatch(two.unsqueeze(1), two, two, texts), True
    optimizer = SimpleNamespace(param_groups=[{"lr": 0.1}])
    trainer: Any = SimpleNamespace(world_size=1, global_rank=0, global_step=3, gradient_clip_val=None)
    trainer.optimizers = [optimizer]
    with pytest.raises(LabError, match="the loss is nan at step 3"):
        guard.on_before_backward(trainer, SimpleNamespace(codec=None), torch.tensor(torch.nan))  # type: ignore[arg-type]
    assert list(torch.load(tmp_path / "bad_batch.pt")) == ["inputs", "lengths", "labels"]


def _step(guard: TrainingGuard, step: int, *losses: float, accumulated: int = 1) -> Any:
    """One batch until the backward pass of its losses."""
    batch = torch.tensor([step])
    optimizer = SimpleNamespace(param_groups=[{"lr": 0.1}])
    strategy = SimpleNamespace(root_device=torch.device("cpu"))
    trainer: Any = SimpleNamespace(
        world_size=1, global_rank=0, global_step=step, gradient_clip_val=None, strategy=strategy
    )
    trainer.optimizers, trainer.accumulate_grad_batches = [optimizer], accumulated
    trainer.is_global_zero = True
    module: Any = pl.LightningModule()
    module.codec = None
    guard.on_train_batch_start(
        trainer, module, ClassificationBatch(batch.unsqueeze(1), batch, batch, ()), step
    )
    for loss in losses:
        guard.on_before_backward(trainer, module, torch.tensor(loss))
    return trainer, module


def test_a_signal_waits_until_all_batches_of_a_step_are_done(tmp_path: Path) -> None:
    guard = TrainingGuard(DeferredSignals(), tmp_path)
    guard.deferred.signum = 15
    _step(guard, 3, 1.0, accumulated=2)  # the second batch of a step
    with pytest.raises(Stopped) as stopped:
        _step(guard, 4, 1.0, accumulated=2)
    assert (stopped.value.signum, stopped.value.between_batches) == (15, True)


def test_only_the_first_loss_of_a_batch_ends_training(tmp_path: Path) -> None:
    guard = TrainingGuard(DeferredSignals(), tmp_path)
    _step(guard, 0, 1.0, torch.inf)  # a line search may try a point that it then discards
    with pytest.raises(LabError, match="the loss is inf at step 1"):
        _step(guard, 1, torch.inf, 1.0)


def test_before_the_first_step_the_learning_rate_is_not_blamed(tmp_path: Path) -> None:
    with pytest.raises(LabError) as raised:
        _step(TrainingGuard(DeferredSignals(), tmp_path), 0, torch.nan)
    assert str(raised.value) == (
        f"the loss is nan at step 0; the batch is saved in {tmp_path / 'bad_batch.pt'}: check that its "
        "values make sense; nothing has been learned yet, so if they do, the model or one of its parts, such "
        "as a scoring of your own, returns values that are not finite"
    )


def test_a_single_weight_that_is_not_finite_is_not_saved(tmp_path: Path) -> None:
    guard = TrainingGuard(DeferredSignals(), tmp_path)
    trainer, module = _step(guard, 2, 1.0)
    module.layer = torch.nn.Linear(2, 2)
    guard.on_save_checkpoint(trainer, module, {})
    module.layer.bias.data[1] = torch.nan
    with pytest.raises(LabError, match=r"the weights layer\.bias are not finite at step 2"):
        guard.on_save_checkpoint(trainer, module, {})


LATER = {
    "at the next step": lambda guard, *_: _step(guard, 2, 1.0),
    "at the end": lambda guard, trainer, module: guard.on_train_end(trainer, module),
    "before a checkpoint": lambda guard, trainer, module: guard.on_save_checkpoint(trainer, module, {}),
}


@pytest.mark.parametrize("moment", LATER)
def test_on_a_gpu_a_loss_is_checked_one_step_later_and_before_anything_is_saved(
    moment: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(training_guard, "_is_late", lambda _: True)
    guard = TrainingGuard(DeferredSignals(), tmp_path)
    _step(guard, 0, 1.0)
    trainer, module = _step(guard, 1, torch.nan)
    assert not list(tmp_path.iterdir())
    with pytest.raises(LabError, match="the loss is nan at step 1; the batch is saved in"):
        LATER[moment](guard, trainer, module)
    assert torch.load(tmp_path / "bad_batch.pt")["lengths"].item() == 1
