"""What the command line that a run's folder keeps may say: nothing that would run code of somebody else's."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attention_lab.errors import LabError
from attention_lab.untrusted.plain_files import read_yaml

LISTED = (
    *("pytorch_lightning.Trainer", "pytorch_lightning.loggers.CSVLogger"),
    *(
        f"pytorch_lightning.callbacks.{one}"
        for one in ("EarlyStopping", "LearningRateMonitor", "ModelCheckpoint")
    ),
    *(f"attention_lab.tasks.schedules.{one}" for one in ("constant", "cosine", "inverse_sqrt")),
)
"""Other people's classes that `conf/` names, and functions of ours."""
_LISTED = re.compile(r"(torch\.optim|attention_lab\.callbacks)\.[A-Z]\w*")
_PATHS = ("ckpt_path", "inputs", "run")
"""Options that are no group of `conf/` and may hold a path."""
_SEARCH = "hydra.searchpath="


def kept_overrides(folder: Path, name: str, said: Sequence[str]) -> list[str]:
    """The command line of the run in a folder, which was checked, without `resume` and `allow`.

    Args:
        folder: the run's.
        name: what messages call it.
        said: what is said on the command line now; `allow=[...]` and `hydra.searchpath=` in it count.

    Raises:
        LabError: the file of options is damaged, or an option could run code that is not allowed.
    """
    place = f"{name}/.hydra/overrides.yaml"
    found = read_yaml(folder / ".hydra" / "overrides.yaml", place)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise LabError(f"{place} holds no list of options")
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parser, kept = OverridesParser.create(), []
    allow = [one for text in said if text.startswith("allow=") for one in _names(text)]
    for text in found:
        override = _parsed(parser, text, place)
        key = str(override.key_or_group)
        if key in ("resume", "allow"):
            continue
        reason = _refusal(key, override, allow)
        if reason is not None:
            raise LabError(f"{place}: {text[:200]!r} {reason}")
        kept.append(text)
    _check_search(folder, name, said)
    return kept


def _parsed(parser: Any, text: str, place: str) -> Any:
    from hydra.errors import HydraException

    try:
        if text.startswith("-") or not text.isprintable():
            raise ValueError
        return parser.parse_override(text)
    except (HydraException, ValueError, RecursionError):
        raise LabError(f"{place}: {text[:200]!r} is no option") from None


def _refusal(key: str, override: Any, allow: Sequence[str]) -> str | None:
    """Why an option is refused; None if it is not."""
    if key.split(".")[0].split("/")[0].split("@")[0] == "hydra":
        return "is no option of a training"
    if override.is_sweep_override():
        return "has several values, and a run has one"
    value = override.value()
    values = list(_pairs(key.rpartition(".")[2], value))
    if any(isinstance(one, str) and re.search(r"\$\{[^}]*:", one) for _, one in values):
        return "would read more than options"
    choices = value if isinstance(value, list) else [value]
    is_choice = "." not in key and key not in _PATHS
    if is_choice and any(isinstance(one, str) and re.search(r"[/\\]|\.\.", one) for one in choices):
        return "is no choice of conf/"
    targets = (one for name, one in values if name == "_target_")
    unknown = next((one for one in targets if not _is_known(one, allow)), None)
    if unknown is None:
        return None
    package = str(unknown).partition(".")[0]
    return f"names code that is not of attention-lab: if you trust it, add 'allow=[{package}]'"


def _pairs(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """All values in a value, each with the name of its option."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield "", str(key)
            yield from _pairs(str(key), one)
    elif isinstance(value, list):
        for one in value:
            yield from _pairs(name, one)
    else:
        yield name, value if value is None or isinstance(value, bool | int | float) else str(value)


def _is_known(target: Any, allow: Sequence[str]) -> bool:
    text = str(target)
    if text in LISTED or _LISTED.fullmatch(text) or any(text.startswith(f"{one}.") for one in allow):
        return True
    from attention_lab.experiment.build import is_own_class  # it imports torch

    return is_own_class(text)


def _names(text: str) -> list[str]:
    return [one for one in re.split(r"[\[\],\s\"']+", text.partition("=")[2]) if one]


def _check_search(folder: Path, name: str, said: Sequence[str]) -> None:
    """Refuse a folder of configurations that the run brings along; one that is said now is the user's."""
    found: Any = read_yaml(folder / ".hydra" / "hydra.yaml", f"{name}/.hydra/hydra.yaml")
    for key in ("hydra", "overrides", "hydra"):
        found = found.get(key) if isinstance(found, dict) else None
    given = [str(one) for one in found] if isinstance(found, list) else []
    search = next((one for one in given if "searchpath" in one), None)
    if search is not None and not any(one.startswith(_SEARCH) for one in said):
        raise LabError(
            f"{name}: the run took options from elsewhere: if you trust that place, add {search[:200]!r}"
        )
