"""The search space: convert Hydra's sweep syntax to Optuna's distributions, and a trial to overrides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep
from omegaconf import DictConfig, OmegaConf
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from attention_lab.commandline.configuration_checks import group_files
from attention_lab.commandline.overrides import as_text, parse_overrides, part_of
from attention_lab.errors import LabError

APART = ("sweep", "launcher", "hydra", "logger", "threads", "compile", "pictures", "pictures_format")
"""Options and parts of the configuration that do not affect a trial's result."""


@dataclass(frozen=True)
class Space:
    """The options of a study.

    Attributes:
        fixed: the options that are the same in all trials, by name.
        searched: the options that vary, by name.
        distributions: the distributions of the searched options.
    """

    fixed: Mapping[str, Override]
    searched: Mapping[str, Override]
    distributions: Mapping[str, BaseDistribution]

    def overrides(self, values: Mapping[str, Any]) -> list[str]:
        """The command line of a trial with these values."""
        lines = [str(one.input_line) for one in self.fixed.values()]
        return lines + [
            f"{self.searched[key].get_key_element()}={as_text(values[key])}" for key in self.searched
        ]

    def has_same_error(self, reason: str) -> bool:
        """Whether all trials end with this error: it is about an option that is the same in all of them."""
        about = any(reason.startswith((f"{key}=", f"{key} ", f"{key}:")) for key in self.fixed)
        return about and not any(key in reason for key in self.searched)

    def describe(self) -> dict[str, str]:
        """The options that results depend on: all but those in `APART`."""
        lines = {**self.fixed, **self.searched}
        return {key: str(one.input_line) for key, one in sorted(lines.items()) if part_of(key) not in APART}


def short(value: object) -> str:
    """A value as shown in tables."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def read_space(config: DictConfig, given: Sequence[str], loader: ConfigLoader) -> Space:
    """Read the model's search space, overridden and extended by the given options.

    Raises:
        LabError: the space does not exist, nothing is searched, or a range is invalid.
    """
    name = str(config.sweep.space or config.hydra.runtime.choices.model)
    known = dict(group_files("search"))
    if config.sweep.space is not None and name not in known:
        raise LabError(f"sweep.space={name} is unknown: choose {', '.join(sorted(known))}")
    own: DictConfig = known.get(name, OmegaConf.create())
    for key, value in own.items():
        if isinstance(value, DictConfig):
            raise LabError(
                f"search/{name}.yaml: {key!s} must be a range or a value, such as choice(8,16), "
                "not options of its own"
            )
    lines = [*(f"{key!s}={value}" for key, value in own.items()), *given]
    options = {one.key_or_group: one for one in parse_overrides(lines, loader)}
    searched = {key: one for key, one in options.items() if one.is_sweep_override()}
    if not searched:
        raise LabError(
            "sweep=optuna: nothing is searched; give a range, as in 'optimizer.lr=interval(1e-4,1e-2)', "
            f"or write such ranges to search/{name}.yaml in the folder of --config-dir"
        )
    fixed = {key: one for key, one in options.items() if key not in searched}
    return Space(fixed, searched, {key: distribution_of(one) for key, one in searched.items()})


def distribution_of(option: Override) -> BaseDistribution:
    """The distribution of an option's values. Raises LabError if its range is invalid."""
    value = option.value()
    try:
        if isinstance(value, IntervalSweep):
            assert value.start is not None
            assert value.end is not None
            log = "log" in value.tags
            if isinstance(value.start, int) and isinstance(value.end, int):
                return IntDistribution(value.start, value.end, log=log)
            return FloatDistribution(float(value.start), float(value.end), log=log)
        if isinstance(value, RangeSweep) and all(
            isinstance(end, int) for end in (value.start, value.stop, value.step)
        ):
            numbers = list(value.range())
            return IntDistribution(int(min(numbers)), int(max(numbers)), step=abs(int(value.step)))
        return CategoricalDistribution(list(option.sweep_string_iterator()))
    except ValueError as error:
        raise LabError(f"{option.input_line}: {error}") from None
