"""Check a configuration from a file before any object is built from it.

A checkpoint's recipe and the configuration in a run's folder may come from anyone. They may contain only
plain values. Their classes must belong to this package, to a fixed list, or to packages that the user allows.
Each option must have the type that its class declares, and a reasonable size.
"""

import importlib
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from attention_lab.argument_checks import allowed_types, option_types
from attention_lab.config_parts import MOST_LEVELS
from attention_lab.errors import LabError
from attention_lab.untrusted.plain_files import MOST_VALUES, levels

LARGEST = 10_000_000
"""The largest count that an option may have."""
SEEDS = 2**32
"""Upper bound of options whose name ends in seed, which are not counts."""
_FILES = {
    "attention.kernels": ("Boxcar", "Constant", "Epanechnikov", "Gaussian", "Laplacian", "QueryFree"),
    "data.toy": ("Copy", "Repeat", "Reverse", "Sort"),
    "data.synthetic": ("FarPairs", "Motifs"),
    "data.listops": ("ListOps",),
    "data.recall": ("Recall",),
    "data.sentences": ("Sentences",),
}
"""Former modules of classes that are now named by their package: `data.toy.Copy` became `data.Copy`."""
MOVED = {
    "attention_lab.callbacks.RunLogger": "attention_lab.loggers.TensorBoardRunLogger",
    "attention_lab.callbacks.MlflowTracker": "attention_lab.loggers.MLFlowRunLogger",
    "attention_lab.callbacks.WandbTracker": "attention_lab.loggers.WandbRunLogger",
    "attention_lab.models.matched.MatchedSeq2Seq": "attention_lab.models.parameter_matched.MatchedSeq2Seq",
    **{
        f"attention_lab.{file}.{name}": f"attention_lab.{file.partition('.')[0]}.{name}"
        for file, names in _FILES.items()
        for name in names
    },
}
"""Names of classes in older checkpoints and configurations, and their current names."""
LONGEST_TARGET = 200
"""Maximum length of the name of a class; importing a name of thousands of parts fails."""
Known = Callable[[str], bool]


def with_moved_classes(node: Any) -> Any:
    """The configuration with the current name of every class that has moved."""
    if isinstance(node, dict):
        return {
            key: MOVED.get(value, value)
            if key == "_target_" and isinstance(value, str)
            else with_moved_classes(value)
            for key, value in node.items()
        }
    return [with_moved_classes(item) for item in node] if isinstance(node, list) else node


def check_targets(node: Any, source: str, allow: Sequence[str] = (), listed: Known | None = None) -> None:
    """Reject anything in a configuration that could run code or read other values.

    That means a `_target_` that is neither a class of this package nor listed nor allowed, objects inside the
    options of another, any other instruction to Hydra, interpolations, and values that are not plain (Hydra
    reads tuples as lists).

    Args:
        node: a configuration, or a part of one.
        source: its name in messages.
        allow: packages besides this one whose classes it may name.
        listed: a function that says whether another target may be named; None to allow no others.

    Raises:
        LabError: it has any of these, or more values or levels than a configuration can have.
    """
    count = 0
    for depth, level in enumerate(levels(node)):
        count += len(level)
        if count > MOST_VALUES or depth > MOST_LEVELS:
            most = f"{MOST_VALUES:,} values" if count > MOST_VALUES else f"{MOST_LEVELS} levels of options"
            raise LabError(f"{source} has more than {most}: it is not loaded")
    _check_targets(node, source, allow, listed)


def _check_targets(
    node: Any, source: str, allow: Sequence[str], listed: Known | None, holder: str = ""
) -> None:
    """Check a node among the options of the class `holder`, if any."""
    if type(node) is dict:
        inside = str(node.get("_target_", holder))
        for key, value in node.items():
            if type(key) is not int or "_target_" in node or not _is_allowed(holder, allow):
                _check_key(key, value, source)  # an allowed class may be given a value for each epoch
            if key == "_target_":
                _check_target(value, holder, source, allow, listed)
            _check_targets(value, source, allow, listed, inside)
    elif type(node) is list:
        for item in node:
            _check_targets(item, source, allow, listed, holder)
    elif not (node is None or type(node) in (bool, int, float) or (type(node) is str and "${" not in node)):
        raise LabError(f"{source} has {str(node)[:60]!r}, which is not a plain value: it is not loaded")


def _check_key(key: object, value: object, source: str) -> None:
    """Reject keys that are not text, and all instructions to Hydra but `_target_` and `_partial_`."""
    if type(key) is not str or (key.startswith("_") and key not in ("_target_", "_partial_")):
        raise LabError(f"{source} has the option {key!r}, which is not allowed: it is not loaded")
    if key == "_partial_" and type(value) is not bool:
        raise LabError(f"{source} has _partial_={str(value)[:60]!r}, not true or false: it is not loaded")


def _check_target(target: Any, holder: str, source: str, allow: Sequence[str], listed: Known | None) -> None:
    """Reject a class that may not be named, or not among the options of the class `holder`, if any."""
    known = is_own_class(target) or _is_allowed(target, allow)
    if not known and not (listed is not None and listed(str(target))):
        raise LabError(
            f"{source} names {str(target)[:200]!r}, which is not part of attention-lab: "
            f"it is not loaded{_how_to_allow(target, allow)}"
        )
    if holder and not _may_hold(holder, target, allow):
        raise LabError(
            f"{source} names {target[:200]!r} inside {holder[:200]}, which has no options that are "
            "objects: it is not loaded"
        )


def class_of(target: str) -> Any:
    """The class or function that a checked target names."""
    module, _, name = target.rpartition(".")
    return getattr(importlib.import_module(module), name)


def check_values(node: Any, source: str, name: str = "") -> None:
    """Reject options whose type or size their classes do not accept; the targets are already checked.

    Numbers must be finite and must not be booleans; counts must be at most `LARGEST`.
    """
    if isinstance(node, list):
        for item in node:
            check_values(item, source, name)
    elif isinstance(node, Mapping):
        types = _option_types(str(node["_target_"])) if "_target_" in node else {}
        for key, value in node.items():
            path = f"{name}.{key}" if name else str(key)
            if key in types:
                check_option(types[key], value, path, source)
            check_values(value, source, path)
    elif type(node) is int and not -LARGEST <= node <= _largest(name):
        raise LabError(f"{source} has {name}={str(node)[:30]}: choose at most {_largest(name)}")
    elif type(node) is float and not math.isfinite(node):
        raise LabError(f"{source} has {name}={node}: it must be a finite number")


def check_option(hint: Any, value: Any, path: str, source: str) -> None:
    """Reject a value whose type is not the one that is annotated."""
    if allowed := allowed_types(value, hint):
        text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        raise LabError(f"{source} has {path}={text[:60]}: it must be {allowed}")


def _largest(name: str) -> int:
    """The largest value of an option; steps and epochs have no real limit, as training can be stopped."""
    return SEEDS if name.endswith("seed") else 2**53 if name.startswith("trainer.") else LARGEST


@cache
def _option_types(target: str) -> Mapping[str, Any]:
    """The types of a class's options."""
    try:
        return option_types(class_of(target))
    except ValueError:  # it has no signature
        return {}


def is_own_class(target: object) -> bool:
    """Whether a target is a class of this package from which a configuration may build objects."""
    found = re.fullmatch(
        r"(attention_lab\.(?:attention|data|models|tasks)(?:\.\w+)*)\.([A-Z]\w*)", str(target)
    )
    return found is not None and is_class(found[1], found[2], "attention_lab")


def _is_allowed(target: object, allow: Sequence[str]) -> bool:
    """Whether a target is a class defined in a package that the user allows."""
    found = re.fullmatch(r"(\w+(?:\.\w+)*)\.(\w+)", str(target))
    if found is None:
        return False
    package = next((name for name in allow if f"{found[1]}.".startswith(f"{name}.")), None)
    return package is not None and is_class(found[1], found[2], package)


def _may_hold(holder: str, target: str, allow: Sequence[str]) -> bool:
    """Whether an object may be an option of another: building it takes memory and has effects before its use.

    No class of this package or of a library has such options in `conf/`; classes that the user allows may.
    """
    return _is_allowed(target, allow) or (_is_allowed(holder, allow) and is_own_class(target))


def is_class(module: str, name: str, package: str) -> bool:
    """Whether a module has a class of this name that is defined in the package and is not abstract."""
    if len(module) + len(name) > LONGEST_TARGET or module.endswith(".__main__"):  # a program
        return False
    try:
        part = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return False
    return (
        isinstance(part, type)
        and f"{part.__module__}.".startswith(f"{package}.")
        and not any(getattr(getattr(part, one, None), "__isabstractmethod__", False) for one in dir(part))
    )


def checked_packages(allow: Any) -> Sequence[str]:
    """The packages that the user allows. Raises LabError if this is not a list of importable packages."""
    if not isinstance(allow, Sequence) or isinstance(allow, str):
        raise LabError(f"allow={allow}: give a list of packages, as in {_allowing('my_package')}")
    for package in allow:
        if not isinstance(package, str) or not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", package):
            raise LabError(f"allow: {str(package)!r} is not the name of a package, such as my_package")
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise LabError(f"allow: {package} cannot be imported: {error}") from None
    return allow


def package_to_allow(target: str) -> str:
    """The package to allow for a target: a user's own as a whole, but only a part of PyTorch or Lightning."""
    names = target.split(".")
    return ".".join(names[:2]) if names[0] in ("pytorch_lightning", "torch") else names[0]


def _how_to_allow(target: object, allow: Sequence[str]) -> str:
    package, asked = package_to_allow(str(target)), "that package is yours"
    if package in allow:
        return f"; {package} is allowed, but it does not define this class"
    top = package.partition(".")[0]
    if not top.isidentifier() or top in ("attention_lab", *sys.stdlib_module_names, "torch"):
        return ""
    if len(package) > LONGEST_TARGET:  # its classes are not loaded
        return ""
    if top == "pytorch_lightning":
        asked = "you want it"
    return f"; if {asked}, add {_allowing(package)}"


def _allowing(package: str) -> str:
    return f"'allow=[{package}]' (in Python, allow=['{package}'])"
