"""Options by their dotted paths, as on the command line."""

from collections.abc import Iterator, Mapping
from typing import Any


def flatten(config: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The path and the value of each option within nested ones, targets too."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def lookup(found: Any, *keys: str) -> Any:
    """What stands under these keys, one within the other; None if nothing does."""
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def is_hydra_key(path: str) -> bool:
    """Whether a path is that of a `_target_` or another word of Hydra's."""
    return path.rpartition(".")[2].startswith("_")


def without_run_folder(options: Mapping[str, Any], own: Any) -> dict[str, Any]:
    """Options by path, with a dot in the place of the run's own folder: that of another run is another."""
    replaced = own if isinstance(own, str) and own else None
    return {
        key: value.replace(replaced, ".") if replaced and isinstance(value, str) else value
        for key, value in options.items()
    }
