"""Check the configuration of a run before anything is built: its stage, its parts together, its ranges."""

from collections.abc import Iterator

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from attention_lab.commandline.incompatible import find_incompatibility
from attention_lab.commandline.option_values import (
    check_labels,
    check_machine,
    check_pictures_format,
    check_ranges,
)
from attention_lab.commandline.overrides import as_typed, option_names
from attention_lab.config_parts import SETTING
from attention_lab.errors import LabError
from attention_lab.sizes import KIND_OF_DATA

STAGES_OF_OPTION = {
    "ckpt_path": ("fit", "test", "predict", "export"),
    "export": ("export",),
    "inputs": ("predict",),
    "monitor.metric": ("fit", "test"),
    "pictures": ("fit", "test", "predict"),
    "pictures_format": ("fit", "test", "predict", "leaderboard"),
    "run": ("report", "leaderboard"),
    "tags": ("fit", "test", "predict", "export", "leaderboard", "theorem"),
}
"""The stages that read an option; others would ignore it."""


def check_stage(config: DictConfig) -> None:
    """Check that the stage reads all options that were given.

    Raises:
        LabError: it would ignore one of them.
    """
    if config.resume is not None:  # the options come from the run
        return
    for option in option_names(as_typed(HydraConfig.get().overrides.task)):
        stages = STAGES_OF_OPTION.get(option)
        if stages and config.stage not in stages:
            wanted = " or ".join(f"stage={stage}" for stage in stages)
            raise LabError(f"{option} is for {wanted}, not stage={config.stage}")


def check_combination(config: DictConfig) -> None:
    """Check that model, data and mechanism fit together, and that options are in range.

    Raises:
        LabError: the combination cannot work, or an option is out of range; the message names valid choices.
    """
    if config.theorem is not None:
        raise LabError(
            f"theorem is for stage=theorem, not stage={config.stage}: {_theorems()}, which sets both"
        )
    if config.stage == "export" and not isinstance(config.export, str):
        raise LabError("export must be the name of a file that ends in .pt2, .onnx or .safetensors")
    if config.stage == "fit":
        _check_parts(config)
    check_machine(config)
    check_ranges(config)
    check_labels(config)
    check_pictures_format(config)
    needs, kind = config.model.get("needs"), config.data.get("kind")
    if config.stage == "fit" and needs != kind:
        models, fitting = _choices_with("model", "needs", kind), _choices_with("data", "kind", needs)
        for_data = (
            f"for this data choose model={', '.join(models)}" if models else f"no model needs {kind} data"
        )
        for_model = (
            f"for this model choose data={', '.join(fitting)}" if fitting else f"no data is {needs} data"
        )
        raise LabError(
            f"{_chosen('model')} needs {needs} data, but {_chosen('data')} is {kind} data: "
            f"{for_data}; {for_model}"
        )
    _check_mechanism(config)


def check_theorem(config: DictConfig) -> None:
    """Check that a theorem is chosen, and that options are in range.

    Raises:
        LabError: none is chosen, or an option is out of range.
    """
    if not OmegaConf.is_config(config.theorem):
        raise LabError(f"stage=theorem needs a theorem: {_theorems()}")
    check_machine(config)
    check_ranges(config)


def group_files(group: str) -> Iterator[tuple[str, DictConfig]]:
    """The choices of a group and the contents of their files."""
    loader = GlobalHydra.instance().config_loader()
    for name in _choices(group):
        loaded = loader.repository.load_config(f"{group}/{name}")  # type: ignore[attr-defined]
        if loaded is not None:
            yield name, loaded.config


def _check_parts(config: DictConfig) -> None:
    """Raise LabError if a part, whose file may be the user's, lacks its class or its kind of data."""
    needed = [(part, "_target_") for part in (*SETTING, "task")]
    for part, key in (*KIND_OF_DATA.items(), *needed):
        options = config.get(part)
        if OmegaConf.is_config(options) and key in options:
            continue
        group = "model" if part == "task" else part
        missing = f"{_chosen(group)} has no {part}.{key}"
        if OmegaConf.is_config(options) and part in options:
            raise LabError(f"{missing}: its file must begin with the line '# @package _global_'")
        if key == "_target_":
            raise LabError(f"{missing}, the class: set it in its file, as in _target_: my_package.MyClass")
        known = {str(file[part][key]) for _, file in group_files(part) if key in file.get(part, {})}
        raise LabError(f"{missing}, the kind of data: set it in its file, such as {', '.join(sorted(known))}")


def _theorems() -> str:
    known = [name for name, file in group_files("experiment") if "theorem" in file]
    return f"choose experiment={', '.join(known)}"


def _check_mechanism(config: DictConfig) -> None:
    choices = HydraConfig.get().runtime.choices
    found = find_incompatibility(choices)
    if config.stage == "fit" and found is not None:
        others = [name for name in _choices(found.group) if name not in found.choices]
        raise LabError(
            f"model={choices['model']} does not take {found.group}={choices[found.group]}: {found.reason}; "
            f"choose {found.group}={', '.join(others)}"
        )


def _choices(group: str) -> list[str]:
    names: list[str] = GlobalHydra.instance().config_loader().get_group_options(group)
    return names


def _choices_with(group: str, key: str, value: str) -> list[str]:
    """The choices of a group whose file sets `group.key` to `value`."""
    return [name for name, file in group_files(group) if file.get(group, {}).get(key) == value]


def _chosen(group: str) -> str:
    return f"{group}={HydraConfig.get().runtime.choices[group]}"
