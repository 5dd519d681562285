"""Check the options of the trainer against Lightning's own class, or the class given instead."""

from collections.abc import Mapping
from typing import Any

from hydra.utils import get_object

from attention_lab.argument_checks import allowed_types, alternatives, option_types
from attention_lab.commandline.option_paths import is_hydra_key
from attention_lab.commandline.overrides import as_text
from attention_lab.errors import LabError
from attention_lab.experiment.part_options import not_an_option


def checked_trainer_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the trainer, with 0 and 1 as booleans where the trainer takes no other numbers.

    Objects given by `_target_`, and the options of a class other than Lightning's own, are not checked.

    Raises:
        LabError: Lightning's Trainer has no such option, or annotates it with another type. It would ignore
            some of these values, and fail on others without naming the option.
    """
    for group in ("callbacks", "logger"):
        if group in options:
            raise LabError(f"trainer.{group} has no effect: choose {group}=... instead")
    checked = dict(options)
    target = options.get("_target_")
    known = option_types(get_object(target)) if target == "pytorch_lightning.Trainer" else {}
    names = [name for name in options if not is_hydra_key(name)] if known else []
    for name in names:
        if name not in known:
            raise LabError(not_an_option("trainer", name, str(target), names))
        if isinstance(value := options[name], Mapping):
            continue
        kinds = alternatives(known[name])
        if bool in kinds and int not in kinds and value in (0, 1):
            checked[name] = bool(value)
        elif allowed := allowed_types(value, known[name]):
            raise LabError(f"trainer.{name}={as_text(value)} must be {allowed}")
    return checked
