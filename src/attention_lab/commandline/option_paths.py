"""Options by their dotted paths, such as `model.layers`."""

from collections.abc import Iterator, Mapping
from typing import Any


def flatten(config: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted path and the value of each option in a nested configuration, including targets."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def lookup(found: Any, *keys: str) -> Any:
    """The value under these nested keys; None if there is none."""
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def is_hydra_key(path: str) -> bool:
    """Whether a path ends in `_target_` or another of Hydra's keywords."""
    return path.rpartition(".")[2].startswith("_")


def without_run_folder(options: Mapping[str, Any], own: Any) -> dict[str, Any]:
    """The options with the run's own folder replaced by a dot, so that two runs can be compared."""
    replaced = own if isinstance(own, str) and own else None
    return {
        key: value.replace(replaced, ".") if replaced and isinstance(value, str) else value
        for key, value in options.items()
    }
