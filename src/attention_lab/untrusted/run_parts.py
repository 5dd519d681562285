"""Check that each part of a run's saved configuration is there and of its kind."""

import re
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, Literal

from attention_lab.config_parts import MECHANISM, OPTIMIZATION
from attention_lab.errors import LabError
from attention_lab.untrusted.configuration import check_option, class_of, is_class

OPTIONS: Mapping[str, Any] = {
    "seed": int | None,
    "ckpt_path": str | list[str] | None,
    "pictures": int,
    "pictures_format": str,
    "compile": bool,
    "threads": int | None,
}
"""The type of each option outside the parts; one that is newer than the run may be missing."""
MONITOR: Mapping[str, Any] = {"metric": str | None, "mode": Literal["min", "max"]}
MADE_LATER = (*MECHANISM, *OPTIMIZATION)
"""The parts that are built later than their configuration is read, with sizes or parameters."""
SEVERAL = ("callbacks", "logger")
"""The parts with any number of objects, each with a class."""
_LISTED = {
    "trainer": r"pytorch_lightning\.Trainer",
    "callbacks": r"pytorch_lightning\.callbacks\.(?:EarlyStopping|LearningRateMonitor|ModelCheckpoint)"
    r"|attention_lab\.callbacks\.(?!Pruning)[A-Z]\w*",
    "logger": r"pytorch_lightning\.loggers\.CSVLogger"
    r"|attention_lab\.loggers\.[A-Z]\w*RunLogger",
    "optimizer": r"torch\.optim\.(?!Optimizer$)[A-Z]\w*",
    "schedule": r"attention_lab\.tasks\.schedules\.(?:constant|cosine|inverse_sqrt)",
}
"""By part: the classes and functions that `conf/` names, other than models, data sets and tasks."""
_CLASSES = {
    **_LISTED,
    "model": r"attention_lab\.models\.(?:\w+\.)*[A-Z]\w*",
    "task": r"attention_lab\.tasks\.(?:\w+\.)*[A-Z]\w*",
    "data": r"attention_lab\.data\.(?:\w+\.)*[A-Z]\w*",
    **dict.fromkeys(MECHANISM, r"attention_lab\.attention\.(?:\w+\.)*[A-Z]\w*"),
}
"""The classes of this package and of libraries that each part may name."""
SUBPACKAGES = {
    "model": "models",
    "task": "tasks",
    "data": "data",
    "scoring": "attention.scores",
    "normalizer": "attention.normalizers",
    "window": "attention.windows",
    "pooling": "attention.pooling",
}
"""The module or subpackage that defines the classes of each part from which a trained model is rebuilt."""
_BASES = {
    "data": "attention_lab.data.reading.datamodule.DataModule",
    "task": "attention_lab.tasks.task.Task",
}
_GIVEN = ["mechanism", "sizes"]
"""The first arguments of every model, which the program passes to it."""
_MODULE = "torch.nn.modules.module.Module"
"""The base of each part's classes, by name: Lightning, which some of them need, is slow to import."""


def is_listed(target: str) -> bool:
    """Whether a configuration may name a target that is not one of this package's models, data or tasks."""
    if not has_listed_name(target):
        return False
    module, _, name = target.rpartition(".")
    return not name[0].isupper() or is_class(module, name, module.partition(".")[0])


def has_listed_name(target: str) -> bool:
    """Whether `is_listed` may be true of a target, judged without an import."""
    return any(re.fullmatch(pattern, target) for pattern in _LISTED.values())


def check_parts_of_run(found: Mapping[str, Any], source: str, allow: Sequence[str] = ()) -> None:
    """Reject a configuration, whose targets are already checked, in which a part is missing or invalid.

    Raises:
        LabError: a part is missing, has no class or one for another part, or an option has the wrong type.
    """
    for part, classes in _CLASSES.items():
        node = found.get(part)
        if part not in found or (part in SEVERAL and not isinstance(node, dict)):
            raise LabError(f"{source} has no {part}, which a run's configuration must have")
        if part in SEVERAL:
            for key, one in found[part].items():
                _check_class(one, f"{part}.{key}", classes, source, allow)
        elif node is not None or part not in OPTIMIZATION:  # these may be null
            _check_class(node, part, classes, source, allow)
    check_option(str, found["data"].get("kind"), "data.kind", source)
    for name, hint in OPTIONS.items():
        if name in found:
            check_option(hint, found[name], name, source)
    monitor = found.get("monitor")
    if not isinstance(monitor, dict):
        raise LabError(f"{source} has no monitor with metric and mode, which a run's configuration must have")
    for name, hint in MONITOR.items():
        check_option(hint, monitor.get(name), f"monitor.{name}", source)


def check_subpackage(part: Any, name: str, source: str) -> None:
    """Reject a part that is not built from a class, or from a class of this package with another purpose.

    Args:
        part: the options of the part, with its class as `_target_`, which is already checked.
        name: its name, one of `SUBPACKAGES`.
        source: the name of the configuration in messages.
    """
    if type(part) is not dict or "_target_" not in part:
        raise LabError(f"{source} has no class (_target_) for its {name}: it is not loaded")
    target = str(part["_target_"])
    if wrong := wrong_class(target, name):
        raise LabError(f"{source} names {target[:200]!r} as its {name}, which {wrong}: it is not loaded")


def wrong_class(target: str, name: str) -> str:
    """Why a class cannot be the part `name`, one of `SUBPACKAGES`; empty if it can.

    A subpackage has other classes, too, whose options may take any time: the grammar of `ListOps`, for one.
    Classes of other packages are not restricted.
    """
    if not target.startswith("attention_lab."):
        return ""
    found, base = class_of(target), _BASES.get(name, _MODULE)
    subpackage = f"attention_lab.{SUBPACKAGES[name]}"
    if not f"{found.__module__}.".startswith(f"{subpackage}."):
        return f"is not in {subpackage}"
    if base not in _names_of_bases(found):
        return f"is not a {base.rpartition('.')[2]}"
    if name == "model" and list(signature(found).parameters)[:2] != _GIVEN:
        return "is not made from a mechanism and sizes"
    return ""


def _names_of_bases(part: type) -> list[str]:
    return [f"{base.__module__}.{base.__qualname__}" for base in part.__mro__]


def _check_class(node: Any, path: str, classes: str, source: str, allow: Sequence[str]) -> None:
    target = node.get("_target_") if isinstance(node, dict) else None
    if target is None:
        raise LabError(f"{source} has no class for {path}: it needs {path}._target_")
    allowed = any(f"{target}.".startswith(f"{package}.") for package in allow)
    if not allowed and not re.fullmatch(classes, str(target)):
        raise LabError(
            f"{source} has {path}._target_={str(target)[:200]}, which is not a class for {path.split('.')[0]}"
        )
    if path in SUBPACKAGES:
        check_subpackage(node, path, source)
    if path in MADE_LATER and node.get("_partial_") is not True:
        raise LabError(f"{source} has no {path}._partial_=true, which this part needs")
