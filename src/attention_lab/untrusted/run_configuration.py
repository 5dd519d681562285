"""Check the configuration in a run's folder, so that a resumed run only writes to that folder."""

import glob
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_lab.errors import LabError
from attention_lab.files.regular_files import exists
from attention_lab.files.run_files import CHECKPOINTS
from attention_lab.machine import usable_cores
from attention_lab.untrusted.configuration import (
    check_targets,
    check_values,
    checked_packages,
    package_to_allow,
    with_moved_classes,
)
from attention_lab.untrusted.plain_files import levels
from attention_lab.untrusted.run_parts import check_parts_of_run, has_listed_name, is_listed

WRITING = ("trainer", "callbacks", "logger")
"""The parts of a configuration whose options may say where to write."""
PATHS = ("dirpath", "folder", "save_dir", "default_root_dir")
"""Options within them that are always a path."""
ACCOUNTS = ("entity", "tracking_uri")
"""Options within them that name the account or the server that a run logs to."""
FORBIDDEN = ("plugins", "profiler", "logger", "callbacks", "model_registry", "barebones", "fast_dev_run")
"""Trainer options that the program sets itself, or that write elsewhere."""
_METRIC = r"[^\W\d][\w.-]*(?:/[\w.-]+)*"
_CHECKPOINT_NAME = re.compile(
    rf"(?:[^{{}}/]|{{{_METRIC}(?::0?\d?\d?(?:\.\d\d?)?[efg%]?)?}}|{{(?:epoch|step):\d?\d?d}})+"
)
"""A file name in which Lightning inserts values: `{metric}`, `{metric:.2f}`, `{epoch:02d}`.

Other formats can insert any character, also `/`, or very many characters.
"""
LONGEST_NAME = 200
MOST_NODES = 256
_DIGITS = 9


def checked_run(
    found: Any, folder: Path, name: str, allow: Sequence[str] = (), given: Collection[str] = ()
) -> dict[str, Any]:
    """Check the resolved configuration of a run, and move its paths to the run's current folder.

    Args:
        found: the content of its `config.yaml`.
        folder: the current folder of the run.
        name: the file's name in messages.
        allow: packages besides this one whose classes it may name.
        given: options on the command line, which will replace those in the file.

    Raises:
        LabError: it does not belong to a training run, or names code that is not allowed or a path outside
            the folder.
    """
    if not isinstance(found, dict) or not isinstance(found.get("trainer"), dict):
        raise LabError(f"{name} is not the configuration of a training run")
    if found.get("stage") != "fit":
        stage = str(found.get("stage"))[:40]
        raise LabError(f"{name} has stage={stage}, which cannot be resumed: run its command again")
    if isinstance(found.get("callbacks"), dict) and "pruning" in found["callbacks"]:
        raise LabError(f"{name} belongs to a trial of a search: run the command of the search again")
    found, packages = with_moved_classes(found), checked_packages(allow)
    check_targets(found, name, packages, is_listed)
    _check_trainer(_without(found["trainer"], "trainer", given), name)
    check_parts_of_run(found, name, packages)
    check_values(found, name)
    if "ckpt_path" not in given:
        _check_no_pattern(found.get("ckpt_path"), name)
    root = str(found["trainer"].get("default_root_dir"))
    kept = {part: _moved(_without(found[part], part, given), part, root, folder, name) for part in WRITING}
    kept["trainer"]["default_root_dir"] = str(folder)  # by default, it is the working directory
    return {**found, **kept, **dict.fromkeys(("run", "inputs", "theorem"))}


def packages_to_allow(found: Any) -> list[str]:
    """The packages whose classes the configuration of a run names, and which a resumed run has to allow.

    It imports none of them: a signal may have interrupted the import of PyTorch, which then fails.
    """
    nodes = [one for level in levels(found) for one in level if isinstance(one, dict)]
    named = [one["_target_"] for one in nodes if isinstance(one.get("_target_"), str)]
    unknown = [one for one in named if not one.startswith("attention_lab.") and not has_listed_name(one)]
    return list(dict.fromkeys(map(package_to_allow, unknown)))


def _check_trainer(trainer: Mapping[str, Any], name: str) -> None:
    if trainer.get("_target_") != "pytorch_lightning.Trainer":
        raise LabError(
            f"{name} has trainer._target_={str(trainer.get('_target_'))[:60]}, which is not a trainer"
        )
    for option, value in trainer.items():
        if option in FORBIDDEN or isinstance(value, dict | list):
            raise LabError(
                f"{name} has trainer.{option}, which is not read from a file: "
                "if you want it, give it on the command line"
            )
    for option, most in {"devices": usable_cores(), "num_nodes": MOST_NODES}.items():
        count = str(trainer.get(option)).strip()  # Lightning reads the text "999" as a number
        if count.isdecimal() and (len(count) > _DIGITS or int(count) > most):
            raise LabError(
                f"{name} has trainer.{option}={count[:30]}: here it may be at most {most}, "
                f"unless you give trainer.{option}=... on the command line"
            )
    launched = any(variable in os.environ for variable in ("WORLD_SIZE", "SLURM_NTASKS", "NODE_RANK"))
    if trainer.get("num_nodes", 1) not in (None, 1) and not launched:
        raise LabError(f"{name} has trainer.num_nodes={trainer['num_nodes']}: start it with torchrun or srun")


def _check_no_pattern(given: str | list[str] | None, name: str) -> None:
    """Reject a pattern, such as `/**/*.ckpt`: to find what matches it may take hours."""
    for path in [given] if isinstance(given, str) else given or ():
        if glob.has_magic(path) and not exists(path):
            raise LabError(
                f"{name} has ckpt_path={path[:200]!r}, which is a pattern: give ckpt_path=... on the command "
                "line if you want it"
            )


def _without(node: Any, path: str, given: Collection[str]) -> Any:
    """A part of the configuration without the options that are given on the command line."""
    if path in given and path != "trainer":
        return {}
    if not isinstance(node, dict):
        return node
    left = {key: value for key, value in node.items() if key == "_target_" or f"{path}.{key}" not in given}
    return {key: _without(value, f"{path}.{key}", given) for key, value in left.items()}


def _moved(node: Any, path: str, root: str, folder: Path, name: str) -> Any:
    """A part of the configuration, with paths in the run's former folder moved to its current one."""
    last = path.rpartition(".")[2]
    if last in ACCOUNTS and node is not None:
        raise LabError(
            f"{name} has {path}={str(node)[:200]!r}: give {path}=... on the command line if you want it"
        )
    if isinstance(node, dict):
        return {key: _moved(value, f"{path}.{key}", root, folder, name) for key, value in node.items()}
    if isinstance(node, list) and last not in PATHS:
        return [_moved(value, path, root, folder, name) for value in node]
    if path == "trainer.default_root_dir" or node == root:
        return str(folder)
    if node == f"{root}/{CHECKPOINTS}":
        return str(folder / CHECKPOINTS)
    _check_stays_inside(node, path, name)
    return node


def _check_stays_inside(value: Any, path: str, name: str) -> None:
    """Reject a path outside the run's folder, and a file name that could lead out of it."""
    last = path.rpartition(".")[2]
    text = value if isinstance(value, str) else ""
    is_path = (last in PATHS and value is not None) or text.startswith(("/", "~"))
    if is_path or any(one in text for one in ("..", "\\", "://", "\0")):
        raise LabError(
            f"{name} has {path}={str(value)[:200]!r}, which is not in the run's folder: "
            f"give {path}=... on the command line if you want it"
        )
    if not isinstance(value, str):
        return
    if last == "filename" and not _is_checkpoint_name(value):
        raise LabError(
            f"{name} has {path}={value[:200]!r}, which is not a file name: "
            "use plain text and values such as {validation/loss:.2f} or {epoch:02d}, or give it again on the "
            "command line"
        )
    if last in ("name", "version") and ("/" in value or len(value) > LONGEST_NAME):
        raise LabError(f"{name} has {path}={value[:200]!r}, which is not a file name")


def _is_checkpoint_name(text: str) -> bool:
    """Whether a text names a file in the folder of the checkpoints, whatever the values of the metrics."""
    return len(text) <= LONGEST_NAME and text.isprintable() and bool(_CHECKPOINT_NAME.fullmatch(text))
