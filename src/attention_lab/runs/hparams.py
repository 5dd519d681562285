"""The columns of TensorBoard's HPARAMS tab: which options of a run they show, and in which order."""

from collections.abc import Mapping
from typing import Any

from hydra.types import RunMode

from attention_lab.commandline.option_paths import flatten, is_hydra_key
from attention_lab.commandline.overrides import option_names
from attention_lab.config_parts import HPARAMS, HPARAMS_HIDDEN, SEED


def hparam_columns(config: Mapping[str, Any], hydra: Any) -> dict[str, Any]:
    """A run's columns in the HPARAMS tab: the choices and options of the parts in `HPARAMS`."""
    choices = {part: hydra.runtime.choices[part] for part in HPARAMS if part in hydra.runtime.choices}
    options = flatten_options({part: config[part] for part in HPARAMS if config.get(part) is not None})
    labels = {"tags": ", ".join(config.get("tags") or []), "notes": config.get("notes")}
    shown = {name: text for name, text in labels.items() if text}
    return choices | {path: value for path, value in options.items() if path not in HPARAMS_HIDDEN} | shown


def hparam_order(hydra: Any) -> list[str]:
    """The order of the HPARAMS columns: swept options, other given options, main choices, given files."""
    given = option_names(hydra.overrides.task)
    constant = set(hydra.job.config.override_dirname.exclude_keys)
    varied = [key for key in given if key not in constant] if hydra.mode == RunMode.MULTIRUN else []
    main = sorted(("model", "scoring", "data", SEED), key=lambda key: key not in given)
    options = [key for key in given if key not in main and not key.endswith("file")]
    return list(dict.fromkeys([*varied, *options, *main, *given]))


def flatten_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """Nested options as `{"model.layers": 2, ...}`, without targets: the columns of the HPARAMS tab."""
    return {
        path: value if isinstance(value, bool | int | float | str) else str(value)
        for path, value in flatten(config)
        if not is_hydra_key(path)
    }
