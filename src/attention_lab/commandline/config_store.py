"""Faster `--help`: Hydra's registry of configurations is not copied."""

from hydra.core.config_store import ConfigStore


def share_config_store() -> None:
    """Let every copy of Hydra's loader share its registry, `ConfigStore`, which it only reads.

    To list the groups for `--help`, Hydra deep-copies its loader five times for each group. Most of a copy,
    and half of the time of `--help`, is the registry, a singleton that copies what is loaded from it.
    """
    ConfigStore.__deepcopy__ = lambda store, memo: store  # type: ignore[attr-defined]
