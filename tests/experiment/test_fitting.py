"""What a run prints and saves at the end of training."""

from types import SimpleNamespace
from typing import Any

import pytest
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import nn

from attention_lab.errors import LabError
from attention_lab.experiment.fitting import (
    check_last_checkpoint,
    check_parameters,
    no_best_checkpoint_warning,
)
from attention_lab.experiment.trainer.sharding import FullyShardedStrategy
from attention_lab.tasks import Regression


@pytest.mark.parametrize(
    ("monitor", "measured", "best", "warns"),
    [
        ("validation/loss", [], "", True),
        ("validation/loss", [], "best.ckpt", False),
        ("validation/loss", ["validation/loss"], "", False),
        (None, [], "best.ckpt", False),
    ],
)
def test_a_run_without_validation_says_what_it_tests(
    monitor: str | None, measured: list[str], best: str, warns: bool
) -> None:
    callback = ModelCheckpoint(monitor=monitor)
    callback.best_model_path = best
    metrics = dict.fromkeys(measured, 1.0)
    trainer: Any = SimpleNamespace(
        checkpoint_callback=callback,
        callback_metrics=metrics,
        check_val_every_n_epoch=10,
        limit_val_batches=1.0,
        max_epochs=7,
    )
    warning = "no validation has measured validation/loss: there is no best.ckpt; the last weights are tested"
    assert no_best_checkpoint_warning(trainer) == (warning if warns else "")
    if monitor is None:  # as for graphs, which are seldom validated
        callback.best_model_path = ""
        assert no_best_checkpoint_warning(trainer) == (
            "no validation has run with trainer.check_val_every_n_epoch=10: there is no best.ckpt; the last "
            "weights are tested"
        )
        trainer.limit_val_batches = 0
        assert no_best_checkpoint_warning(trainer) == (
            "no validation has run with trainer.limit_val_batches=0: there is no best.ckpt; the last weights "
            "are tested"
        )
        trainer.max_epochs = 0
        assert no_best_checkpoint_warning(trainer).startswith(
            "no validation has run with trainer.max_epochs=0:"
        )
        metrics["validation/loss"] = 1.0  # of debug=fast_dev_run, which saves no checkpoint
        assert no_best_checkpoint_warning(trainer) == ""
    trainer.checkpoint_callback = None
    assert no_best_checkpoint_warning(trainer) == ""


RESUMABLE = {"resumable": {"dirpath": "run/checkpoints"}}


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({"save_last": True, "dirpath": "run/checkpoints"}, "save_last=true"),
        ({"save_last": "link"}, "save_last=link"),
        ({"filename": "last"}, "filename=last"),
    ],
)
def test_nothing_replaces_the_checkpoint_from_which_a_run_is_resumed(
    options: dict[str, Any], given: str
) -> None:
    with pytest.raises(LabError, match=rf"^callbacks\.mine\.{given} would replace checkpoints/last\.ckpt, "):
        check_last_checkpoint({**RESUMABLE, "mine": options})
    check_last_checkpoint({"mine": options})  # as with callbacks=none
    check_last_checkpoint({**RESUMABLE, "mine": {**options, "dirpath": "run/more"}})
    check_last_checkpoint({**RESUMABLE, "mine": {"save_last": False, "filename": "best"}})


def test_several_processes_need_something_to_train() -> None:
    def check(processes: int, model: nn.Module) -> None:
        task: Any = SimpleNamespace(model=model, parameters=model.parameters)
        check_parameters(SimpleNamespace(world_size=processes, strategy=None), task)  # type: ignore[arg-type]

    check(1, nn.Identity())
    check(2, nn.Linear(1, 1))
    told = r"^Identity has no parameters to train in several processes: set trainer\.devices=1$"
    with pytest.raises(LabError, match=told):
        check(2, nn.Identity())
    with pytest.raises(LabError, match="Linear has no parameters to train"):
        check(2, nn.Linear(1, 1).requires_grad_(False))


def test_kernel_regression_is_not_sharded() -> None:
    task = Regression.__new__(Regression)
    trainer: Any = SimpleNamespace(world_size=2, strategy=FullyShardedStrategy())
    told = "trainer=fsdp is for large models, but kernel regression has few parameters: choose trainer=ddp"
    with pytest.raises(LabError, match=told):
        check_parameters(trainer, task)
