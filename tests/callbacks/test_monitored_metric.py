"""A metric that is not measured is reported in the same words wherever that is noticed."""

from types import SimpleNamespace
from typing import Any

import pytest
from lightning_fabric.utilities.exceptions import MisconfigurationException

from attention_lab.callbacks import Pruning
from attention_lab.callbacks.monitored_metric import MonitoredMetrics, not_measured
from attention_lab.errors import LabError
from attention_lab.experiment.build_errors import blame_option

MEASURED = {"train/loss": 1.0, "validation/loss": 2.0, "validation/accuracy": 0.5}
EXPECTED = (
    "monitor.metric=validation/foo: there is no such metric; choose validation/loss, validation/accuracy"
)


def trainer() -> Any:
    return SimpleNamespace(callback_metrics=MEASURED, state=SimpleNamespace(fn="fit"), sanity_checking=False)


def test_before_training() -> None:
    with pytest.raises(LabError) as caught:
        MonitoredMetrics({"monitor.metric": "validation/foo"}, early=True).on_validation_end(trainer(), Any)
    assert str(caught.value) == EXPECTED


def test_in_a_search() -> None:
    with pytest.raises(LabError) as caught:
        Pruning("validation/foo", 0, Any).on_validation_end(trainer(), Any)
    assert str(caught.value) == EXPECTED


@pytest.mark.parametrize(
    "message",
    [
        "`ModelCheckpoint(monitor='validation/foo')` could not find the monitored key in the "
        f"returned metrics: {list(MEASURED)}. HINT: ...",
        "Early stopping conditioned on metric `validation/foo` which is not available. Pass in or modify "
        "your `EarlyStopping` callback to use any of the following: `train/loss`, `validation/loss`, "
        "`validation/accuracy`",
    ],
)
@pytest.mark.parametrize("kind", [MisconfigurationException, RuntimeError])
def test_by_lightning(message: str, kind: type[Exception]) -> None:
    with pytest.raises(LabError) as caught, blame_option({}):
        raise kind(message)
    assert str(caught.value) == EXPECTED


def test_without_any_validation() -> None:
    error = not_measured("validation/loss", ["train/loss", "epoch", "step"])
    assert str(error) == (
        "monitor.metric=validation/loss is not measured, because no validation has run: "
        "check trainer.max_steps, trainer.limit_val_batches and trainer.check_val_every_n_epoch"
    )


def test_a_measured_metric_passes() -> None:
    MonitoredMetrics({"monitor.metric": "validation/loss"}, early=True).on_validation_end(trainer(), Any)


def test_metrics_of_training_are_left_to_lightning() -> None:
    MonitoredMetrics({"monitor.metric": "train/foo"}, early=True).on_validation_end(trainer(), Any)


@pytest.mark.long
def test_early_stopping_accepts_training_that_ends_before_the_first_validation(command) -> None:
    done = command("model=multihead", "callbacks=early_stopping", "trainer.max_steps=2", "pictures=0")
    assert done.status == 0, done.err
    assert "no validation has measured validation/accuracy: there is no best.ckpt" in done.err
    assert (done.folder / "metrics.json").exists()
