"""Options of Lightning's Trainer, which ignores some values of a wrong type and fails on others."""

import re
from inspect import signature
from typing import Any

import pytest
import pytorch_lightning as pl

from attention_lab.errors import LabError
from attention_lab.experiment.trainer.options import checked_trainer_options

TRAINER = {"_target_": "pytorch_lightning.Trainer"}


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("detect_anomaly", 0.5, "true or false"),
        ("enable_checkpointing", "maybe", "true, false or null"),
        ("min_epochs", "x", "a whole number or null"),
        ("min_epochs", True, "a whole number or null"),
        ("max_steps", None, "a whole number"),
        ("limit_train_batches", "x", "a number or null"),
        ("deterministic", "maybe", "true, false, warn or null"),
        ("profiler", 3, "text or null"),
        ("plugins", "foo", "a list or null"),
        ("devices", ["0"], "a list of whole numbers, text or a whole number"),
        ("accelerator", ["cpu"], "text"),
        ("max_time", [1], "text, a mapping or null"),
    ],
)
def test_a_wrong_type_is_named(option: str, value: object, allowed: str) -> None:
    with pytest.raises(LabError, match=rf"^trainer\.{option}=\S+ must be {re.escape(allowed)}$"):
        checked_trainer_options(TRAINER | {option: value})


@pytest.mark.parametrize("option", ["callbacks", "logger"])
def test_trainer_options_that_a_group_decides_are_rejected(option: str) -> None:
    with pytest.raises(LabError, match=rf"^trainer\.{option} has no effect: choose {option}=\.\.\. instead"):
        checked_trainer_options(TRAINER | {option: False})


@pytest.mark.parametrize(
    "options",
    [
        {name: one.default for name, one in signature(pl.Trainer).parameters.items()},
        {"limit_val_batches": 2, "overfit_batches": 0.5, "gradient_clip_val": 1, "fast_dev_run": 3},
        {"devices": [0, 1], "precision": 32, "deterministic": "warn", "max_time": {"minutes": 1}},
        {"profiler": {"_target_": "pytorch_lightning.profilers.SimpleProfiler"}, "plugins": [{"a": 1}]},
        {"_target_": "my.Trainer", "max_epochs": "as many as it takes", "detect_anomaly": 0.5},
    ],
)
def test_values_that_it_takes_pass(options: dict[str, Any]) -> None:
    options = TRAINER | {
        name: value for name, value in options.items() if name not in ("callbacks", "logger")
    }
    assert checked_trainer_options(options) == options


def test_0_and_1_are_booleans() -> None:
    given = {"detect_anomaly": 1, "enable_progress_bar": 0, "fast_dev_run": 1, "benchmark": None}
    checked = checked_trainer_options(TRAINER | given)
    assert checked == TRAINER | {**given, "detect_anomaly": True, "enable_progress_bar": False}
    assert checked["detect_anomaly"] is True
    assert checked["fast_dev_run"] is not True
