"""Types, ranges and allowed values of options, checked before PyTorch is imported."""

import math
import re
from collections.abc import Mapping
from typing import Any

from hydra.core.override_parser.types import Sweep
from omegaconf import DictConfig, OmegaConf

from attention_lab.argument_checks import LARGEST_SEED
from attention_lab.commandline.overrides import as_text
from attention_lab.console_text import counted
from attention_lab.errors import LabError
from attention_lab.machine import usable_cores

Defaults = Mapping[str, Any]
FRACTION_ALLOWED = ("every_seconds", "heartbeat", "val_check_interval")
"""Options that accept fractions although their default is an integer."""
NESTED_GROUPS = ("sweep/sampler", "sweep/pruner")
"""Groups of choices inside a choice of another group."""
MINIMUMS = {
    "seed": 0,
    "pictures": 0,
    "threads": 1,
    "task.beam_size": 1,
    "task.n_best": 1,
    "trainer.max_epochs": -1,
    "trainer.gradient_clip_val": 0,
    "trainer.log_every_n_steps": 0,
    "trainer.check_val_every_n_epoch": 1,
    "trainer.num_sanity_val_steps": -1,
    "trainer.accumulate_grad_batches": 1,
}
"""Smallest valid values of options; given lower ones, Lightning ignores them or crashes later."""
MAXIMUMS = {
    "pictures": 1000,
    "threads": 1024,
    "model.layers": 10_000,
    "task.beam_size": 1000,
    "task.n_best": 1000,
}
"""Largest values of options; larger ones would take hours, or more resources than a machine has."""
MOST_DEVICES = 1024
"""Maximum number of processes on one machine."""
FRACTIONS = (
    "schedule.warmup",
    "schedule.final",
    "model.dropout",
    "model.attention_dropout",
    "task.label_smoothing",
    "task.ctc_rescoring",
)
POSITIVE = ("optimizer.lr", "trainer.val_check_interval", "normalizer.temperature", "pooling.temperature")
"""Options of training that must be above 0."""
TIMES = ("trainer.val_check_interval",)
"""Options that are a number, or a time as text."""
TESTED = "trainer.limit_test_batches"
"""The option that says how much is tested, after training or in `stage=test`."""
CHOICES = {
    "monitor.mode": ("min", "max"),
    "trainer.accelerator": ("auto", "cpu", "gpu", "cuda", "mps", "tpu"),
    "trainer.precision": (
        *("32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true", "32", "bf16", "16", "64"),
        *("transformer-engine", "transformer-engine-float16"),
    ),
    "scoring.activation": ("tanh", "relu", "leaky_relu", "gelu", "silu", "sigmoid"),
    "window.falloff": ("none", "gaussian"),
}
"""Allowed values of options that are words."""
PICTURE_FORMATS = ("png", "svg", "pdf")
_TAG = r"\w[\w ./:-]{0,63}"


def check_value(key: str, value: Any, default: Any) -> None:
    """Reject a value whose type is not the default's."""
    if isinstance(value, Sweep) or (isinstance(value, str) and "${" in value):
        return
    if isinstance(default, Mapping):
        _check_group_value(key, value, default)
        return
    if key.endswith("._target_") and value is not None and (not value or not isinstance(value, str)):
        raise LabError(f"{key}={as_text(value)} must be the name of a class, such as my_package.MyClass")
    if isinstance(default, list) and isinstance(value, Mapping):
        raise LabError(f"{key}={as_text(value)} must be a list, as in '{key}=[one,two]'")
    if not isinstance(default, bool | int | float) or (value is None and "." in key):
        return  # null often turns something off; the class decides
    if isinstance(default, bool):
        if not isinstance(value, bool) and value not in (0, 1):
            raise LabError(f"{key}={as_text(value)} must be true or false")
        return
    whole = isinstance(default, int) and not key.endswith(FRACTION_ALLOWED)
    number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not number or math.isnan(value):
        is_round = whole and isinstance(value, float) and value.is_integer()
        example = int(value) if is_round else default
        kind = "a whole number" if whole else "a number"
        raise LabError(f"{key}={as_text(value)} must be {kind}, such as {example}")


def _check_group_value(key: str, value: Any, default: Defaults) -> None:
    """Reject a value for a group of options, unless it is a group itself: `{lr:0.1}`."""
    if isinstance(value, Mapping):
        for name in value:
            check_value(f"{key}.{name}", value[name], default.get(name))
        return
    names = ", ".join(f"{key}.{name}" for name in default if not str(name).startswith("_"))
    if key.startswith(("callbacks.", "logger.")) and (value is None or not names):
        raise LabError(f"{key}={as_text(value)}: to remove it, write ~{key}")
    group = key.replace(".", "/")
    choice = f"choose another with {group}=..., or " if group in NESTED_GROUPS else ""
    raise LabError(f"{key}={as_text(value)}: {key} has no value of its own; {choice}set its options: {names}")


def check_ranges(config: DictConfig) -> None:
    """Reject values that are out of range and would otherwise be noticed late or never.

    Raises:
        LabError: a value is out of range; the message names the option and the values it may have.
    """
    for key, least in MINIMUMS.items():
        value = _number(config, key)
        if value is not None and not value >= least:
            raise LabError(f"{key}={value}: choose {least} or more")
    for key, most in MAXIMUMS.items():
        value = _number(config, key)
        if value is not None and not value <= most:
            raise LabError(f"{key}={value}: choose at most {most}")
    for key in FRACTIONS:
        value = _number(config, key)
        if value is not None and not 0 <= value <= 1:
            raise LabError(f"{key}={value}: choose a fraction from 0 to 1")
    for key in (TESTED, *POSITIVE) if config.stage == "fit" else (TESTED,):
        value = _number(config, key)
        if value is not None and not 0 < value < math.inf:
            raise LabError(f"{key}={value}: choose a number above 0")
    if config.stage == "fit":
        _check_training(config)


def check_machine(config: DictConfig) -> None:
    """Raise LabError if `trainer.devices`, `seed` or `threads` is invalid."""
    devices = config.trainer.get("devices")
    word = isinstance(devices, str) and not re.fullmatch(r"auto|-1|[\d, ]+", devices)
    if word or (isinstance(devices, int) and (devices == 0 or devices < -1)):
        raise LabError(f"trainer.devices={devices}: choose 1 or more processes, or -1 for all GPUs")
    if isinstance(devices, int) and devices > MOST_DEVICES:
        raise LabError(f"trainer.devices={devices}: choose at most {MOST_DEVICES}")
    seed, threads = config.seed, config.threads
    if isinstance(seed, int) and seed > LARGEST_SEED:
        raise LabError(f"seed={seed}: choose at most {LARGEST_SEED}")
    if threads is not None and type(threads) is not int:  # true is an int
        raise LabError(f"threads={as_text(threads)} must be a whole number, or null")


def few_cores_warning(config: DictConfig) -> str:
    """A one-line warning if more processes are requested than this machine has cores; otherwise empty."""
    devices = config.trainer.get("devices")
    cores = usable_cores()
    on_cpu = config.trainer.get("accelerator", "auto") in ("auto", "cpu")
    if not on_cpu or not isinstance(devices, int) or devices <= cores:
        return ""
    return (
        f"trainer.devices={devices} starts {devices} processes, but this machine has "
        f"{counted(cores, 'core')} for them: trainer.devices={cores} is faster"
    )


def check_pictures_format(config: DictConfig) -> None:
    """Raise LabError if the format chosen for pictures is not supported."""
    chosen = config.get("pictures_format", PICTURE_FORMATS[0])
    if chosen not in PICTURE_FORMATS:
        raise LabError(f"pictures_format={str(chosen)[:40]}: choose {', '.join(PICTURE_FORMATS)}")


def check_labels(config: DictConfig) -> None:
    """Raise LabError if the tags are not a list of words or the notes are not text."""
    tags, notes = config.get("tags"), config.get("notes")
    if tags is not None and not OmegaConf.is_list(tags):
        raise LabError(f"tags={tags}: give a list, as in 'tags=[{tags}]'")
    for tag in tags or ():
        if not re.fullmatch(_TAG, str(tag)):
            raise LabError(
                f"tags: {str(tag)[:80]!r} is not a tag: use at most 64 letters, digits, spaces and _./:-"
            )
    if notes is not None and not isinstance(notes, str | int | float):
        raise LabError("notes must be text, as in 'notes=\"with the old tokenizer\"'")


def _check_training(config: DictConfig) -> None:
    metric = OmegaConf.select(config, "monitor.metric")
    if metric is not None and not isinstance(metric, str):
        raise LabError(f"monitor.metric={metric}: give the name of a metric, such as validation/loss")
    for key, choices in CHOICES.items():
        value = OmegaConf.select(config, key)
        if isinstance(value, str) and value not in choices:
            raise LabError(f"{key}={value} is unknown: choose {', '.join(choices)}")


def _number(config: DictConfig, key: str) -> float | None:
    value = OmegaConf.select(config, key)
    if isinstance(value, str) and key not in TIMES:
        decoded = f'{key}="${{oc.decode:${{oc.env:NAME}}}}"'
        raise LabError(
            f"{key}: {value[:40]!r} is text, not a number; for an environment variable, write {decoded}"
        )
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
