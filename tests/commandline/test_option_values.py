"""Values of options that are checked before PyTorch is imported."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from attention_lab.attention.fast.additive.forms import ACTIVATIONS
from attention_lab.attention.windows import FALLOFFS
from attention_lab.commandline.option_values import (
    CHOICES,
    MAXIMUMS,
    NESTED_GROUPS,
    check_ranges,
    check_value,
    few_cores_warning,
)
from attention_lab.errors import LabError
from attention_lab.tasks.sequence_generation import MOST_BEAMS

CONF = Path(__file__).parents[2] / "conf"


def test_choices_and_limits_are_those_of_the_classes() -> None:
    assert CHOICES["scoring.activation"] == tuple(ACTIVATIONS)
    assert CHOICES["window.falloff"] == FALLOFFS
    assert MAXIMUMS["task.beam_size"] == MAXIMUMS["task.n_best"] == MOST_BEAMS


@pytest.mark.parametrize("group", NESTED_GROUPS)
def test_a_choice_written_as_an_option(group: str) -> None:
    choice = next((CONF / group).glob("*.yaml"))
    key = group.replace("/", ".")
    with pytest.raises(LabError, match=f"^{key}={choice.stem}: .* choose another with {group}=..., or set"):
        check_value(key, choice.stem, {"seed": 1})


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("normalizer.temperature=0", "normalizer.temperature=0: choose a number above 0"),
        ("scoring.activation=swish", "scoring.activation=swish is unknown: choose tanh, relu"),
        ("monitor.mode=up", "monitor.mode=up is unknown: choose min, max"),
        ("monitor.metric=2", "monitor.metric=2: give the name of a metric, such as validation/loss"),
        ("monitor.metric=[a]", r"monitor.metric=\['a'\]: give the name of a metric, such as validation/loss"),
        ("task.beam_size=0", "task.beam_size=0: choose 1 or more"),
        ("task.n_best=1001", "task.n_best=1001: choose at most 1000"),
        ("task.label_smoothing=2", "task.label_smoothing=2: choose a fraction from 0 to 1"),
        ("trainer.max_epochs=-2", "trainer.max_epochs=-2: choose -1 or more"),
        ("task.beam_size=1000000000", "task.beam_size=1000000000: choose at most 1000"),
        ("pictures=1000000000", "pictures=1000000000: choose at most 1000"),
        ("optimizer.lr=0", "optimizer.lr=0: choose a number above 0"),
        ("schedule.final=-1", "schedule.final=-1: choose a fraction from 0 to 1"),
        ("model.dropout=1.5", "model.dropout=1.5: choose a fraction from 0 to 1"),
        ("task.ctc_rescoring=2", "task.ctc_rescoring=2: choose a fraction from 0 to 1"),
        ("trainer.check_val_every_n_epoch=0", "trainer.check_val_every_n_epoch=0: choose 1 or more"),
        ("trainer.gradient_clip_val=-1", "trainer.gradient_clip_val=-1: choose 0 or more"),
        ("trainer.val_check_interval=0", "trainer.val_check_interval=0: choose a number above 0"),
        ("trainer.limit_test_batches=0", "trainer.limit_test_batches=0: choose a number above 0"),
    ],
)
def test_values_out_of_range(option: str, message: str) -> None:
    with pytest.raises(LabError, match=f"^{message}"):
        check_ranges(OmegaConf.from_dotlist(["stage=fit", option]))


@pytest.mark.parametrize(
    "key",
    [
        "optimizer.lr",
        "schedule.warmup",
        "trainer.max_epochs",
        "task.label_smoothing",
        "pictures",
        "model.dropout",
    ],
)
def test_an_environment_variable_is_text(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "1")
    config = OmegaConf.from_dotlist(["stage=fit", key + "=${oc.env:MINE}"])
    with pytest.raises(LabError, match=rf"^{key}: '1' is text, not a number; .*, write .*=\"\${{oc.decode:"):
        check_ranges(config)
    check_ranges(OmegaConf.from_dotlist(["stage=fit", key + "=${oc.decode:${oc.env:MINE}}"]))


def test_an_interval_of_validation_may_be_a_time() -> None:
    check_ranges(OmegaConf.create({"stage": "fit", "trainer": {"val_check_interval": "00:00:15:00"}}))


def test_a_test_without_batches() -> None:
    with pytest.raises(LabError, match=r"limit_test_batches=0.*: choose a number above 0"):
        check_ranges(OmegaConf.from_dotlist(["stage=test", "trainer.limit_test_batches=0.0"]))


def test_values_in_range() -> None:
    check_ranges(OmegaConf.from_dotlist(["stage=fit", "monitor.mode=max", "trainer.max_epochs=-1"]))
    check_ranges(OmegaConf.from_dotlist(["stage=test", "normalizer.temperature=0"]))  # it is not used


@pytest.mark.parametrize(
    ("trainer", "warning"),
    [
        (
            {"devices": 8},
            "trainer.devices=8 starts 8 processes, but this machine has 2 cores for them: "
            "trainer.devices=2 is faster",
        ),
        (
            {"devices": 3, "accelerator": "cpu"},
            "trainer.devices=3 starts 3 processes, but this machine has 2",
        ),
        ({"devices": 2}, ""),
        ({"devices": 8, "accelerator": "gpu"}, ""),
        ({"devices": "auto"}, ""),
        ({}, ""),
    ],
)
def test_more_processes_than_cores(
    trainer: dict[str, object], warning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    found = few_cores_warning(OmegaConf.create({"trainer": trainer}))
    assert found.startswith(warning) and bool(found) == bool(warning)


@pytest.mark.parametrize("arguments", ["optimizer.lr=0,001", "data.size=10,000", "-m data.size=10,000"])
def test_a_number_with_a_comma(arguments: str, command: Any) -> None:
    done = command(*arguments.split())
    assert done.err == (
        f"Error: {arguments.split()[-1]} has several values: write a decimal number with a point, such as "
        "0.5, and a large number without commas, such as 10000\n"
    )
