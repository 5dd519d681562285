"""Check the choices on the command line before Hydra reads it."""

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from hydra.core.override_parser.types import Override

from attention_lab.commandline.flags import read_flags
from attention_lab.commandline.option_checks import (
    OPTIONAL,
    RARE,
    check_arguments,
    choices_of,
    is_group,
    read_choice,
)
from attention_lab.commandline.other_names import OWN_FILES, meant_by
from attention_lab.commandline.overrides import as_text, listed_values, parse_override, split_override
from attention_lab.config_parts import MECHANISM
from attention_lab.errors import LabError
from attention_lab.files.regular_files import exists, is_file

REQUIRED_EXTRAS = {
    "sweep=optuna": ("optuna", "search"),
    "logger=wandb": ("wandb", "loggers"),
    "logger=mlflow": ("mlflow", "loggers"),
    "launcher=slurm": ("hydra_plugins.hydra_submitit_launcher", "slurm"),
    "launcher=submitit_local": ("hydra_plugins.hydra_submitit_launcher", "slurm"),
    "launcher=joblib": ("hydra_plugins.hydra_joblib_launcher", "joblib"),
    "launcher=ray": ("hydra_plugins.hydra_ray_launcher", "ray"),
}
"""The package that a choice needs, and the extra that installs it."""
DATA_FILES = (".csv", ".tsv", ".ts", ".txt", ".gz")
"""The extensions of data files."""
WITH_CLASSES = ("model", "data", "optimizer", *MECHANISM)
"""Groups in which every choice has a class, `_target_`."""


def check_choices(arguments: Sequence[str], conf: Path) -> None:
    """Raise LabError if a command line names an unknown choice or option.

    Hydra finds the same mistakes, but its messages are many lines long.

    Args:
        arguments: the command line.
        conf: the configuration folder.
    """
    flags = read_flags(arguments)
    given = flags.overrides
    own = [Path(flags.config_dir).absolute()] if flags.config_dir else []
    if flags.config_name or flags.config_path or any(one.startswith("hydra.searchpath") for one in given):
        return
    if own and not own[0].is_dir():
        raise LabError(f"--config-dir={own[0]}: there is no such folder")
    folders = (conf, *own)
    for argument in given:
        _check_word(argument, folders)
        _check_run_folder(argument)
        _check_hydras_choice(argument)
        _check_name_left_out(argument, folders)
        _check_verbosity(argument)
        _check_choice(argument, folders, given)
    if not (flags.help or flags.hydra_help or flags.info or flags.shell_completion):
        check_arguments(given, *folders)
    if not flags.multirun:
        _check_single_values(given, folders)


def _check_word(argument: str, folders: Sequence[Path]) -> None:
    """Raise LabError if an argument is only the name of a group or of a choice, without "="."""
    if not re.fullmatch(r"\w+", argument):
        return
    if is_group(argument, folders):
        known = ", ".join(choices_of(argument, folders))
        raise LabError(f"{argument} is not an option: write {argument}=..., without spaces: choose {known}")
    files = (path / f"{argument}.yaml" for one in folders for path in one.iterdir())
    groups = {path.parent.name for path in files if exists(path)} - {*RARE}
    if groups:
        meant = " or ".join(f"{group}={argument}" for group in sorted(groups))
        raise LabError(f"{argument} is not an option: did you mean {meant}?")


def _check_run_folder(argument: str) -> None:
    """Raise LabError if the folder of a run or sweep is null, a list, or has a variable that is not set."""
    _, key, value = split_override(argument)
    folders = ("hydra.run.dir", "hydra.sweep.dir")
    if key in folders and (value == "null" or value.startswith(("[", "{"))):
        raise LabError(f"{argument}: give a folder, such as {key}=logs/mine, or leave the option out")
    if key not in (*folders, "hydra.sweep.subdir"):
        return
    for name in re.findall(r"(?<!\\)\$\{oc\.env: *(\w+) *\}", value):
        if name not in os.environ:
            raise LabError(f"{argument}: the environment variable {name} is not set")


def _check_hydras_choice(argument: str) -> None:
    """Raise LabError for a choice from one of Hydra's groups that has another name, or is not a name."""
    if not argument.startswith("hydra/"):
        return
    override = parse_override(argument)
    for value in listed_values(override):
        if meant := meant_by(override.key_or_group, str(value)):
            raise LabError(f"{argument}: did you mean {meant}?")
        if not isinstance(value, str | list):
            raise LabError(f"{argument}: give the name of a choice, not {as_text(value)}")


def _check_name_left_out(argument: str, folders: Sequence[Path]) -> None:
    """Raise LabError if a group is left out by a choice, as in `~debug=NAME`, that is not a name."""
    if not argument.startswith("~"):
        return
    override = parse_override(argument)
    key, value = override.key_or_group, override.value()
    if ("/" in key or is_group(key, folders)) and not isinstance(value, str | None):
        raise LabError(f"{argument}: write ~{key} alone, or the name of the choice after it")


def _check_verbosity(argument: str) -> None:
    """Raise LabError unless `hydra.verbose` is true, false, or the names of loggers."""
    override = parse_override(argument)
    if override.key_or_group != "hydra.verbose" or override.is_delete():
        return
    for value in listed_values(override):
        if not (
            isinstance(value, str | bool)
            or (isinstance(value, list) and all(isinstance(one, str) for one in value))
        ):
            raise LabError(f"{argument}: give true, false, the name of a logger or a list of names")


def _check_single_values(arguments: Sequence[str], folders: Sequence[Path]) -> None:
    """Raise LabError if an option has several values outside a sweep."""
    if any(re.match(r"hydra\.mode=|experiment=|sweep=", one) for one in arguments):
        return  # experiments may be sweeps
    for argument in arguments:
        override = parse_override(argument)
        if not override.is_sweep_override():
            continue
        if "," not in argument or is_group(override.key_or_group, folders):
            raise LabError(f"{argument} has several values: add -m to run each of them in a sweep")
        _, key, value = split_override(argument)
        raise LabError(
            f"{argument} has several values: for a list write '{key}=[{value}]', for a sweep add -m"
        )


def _check_choice(argument: str, folders: Sequence[Path], given: Sequence[str]) -> None:
    try:
        override = parse_override(argument)
    except LabError:
        return  # `check_arguments` rejects it
    group = override.key_or_group
    if not (is_group(group, folders) or group in RARE):
        return
    known = ", ".join(choices_of(group, folders))
    if not override.is_delete() and [] in listed_values(override):
        raise LabError(f"{group}=[]: choose {known}")
    _check_one_class(group, override, folders[0])
    for choice in _named_choices(override):
        if group in OPTIONAL and choice in ("null", ""):
            raise LabError(f"{group}={choice}: leave it out to choose nothing, or choose {known}")
        if file := _file_of(group, choice, folders):
            check_installed(group, choice)
            read_choice(file)
        elif group == "data" and (is_file(choice) or choice.endswith(DATA_FILES)):
            found = f"data={choice} is a file" if is_file(choice) else f"there is no file {choice}"
            raise LabError(f"{found}: choose the kind of data, such as {_own_data(choice, given)}")
        elif group in WITH_CLASSES and re.fullmatch(r"\w+(\.\w+)*\.(?!yaml$)\w+", choice):
            raise LabError(
                f"{group}={choice} is unknown: choose {known}; "
                f"for a class of your own, add {group}._target_={choice} to one of these"
            )
        elif "${" not in choice:
            meant = _meant(group, choice, folders)
            hint = f" (did you mean {meant}?)" if meant else ""
            raise LabError(f"{group}={choice} is unknown{hint}: choose {known}")


def _own_data(file: str, given: Sequence[str]) -> str:
    """The options that read the user's own file, for the model that is given."""
    if file.endswith(".ts"):  # no other data has such files
        return f"model=multihead data=time_series data.file={file}"
    model = next((one.removeprefix("model=") for one in given if one.startswith("model=")), "")
    return OWN_FILES.get(model, "data=pairs data.file={0}").format(file)


def _check_one_class(group: str, override: Override, conf: Path) -> None:
    """Raise LabError for a list of choices that each have a class: Hydra would mix their options.

    Files in the user's own folders do not count, since they may only change the options of another choice.
    """
    if override.is_delete() or group not in WITH_CLASSES:
        return
    for value in listed_values(override):
        names = [as_text(one) for one in value] if isinstance(value, list) else []
        if sum(_file_of(group, name, [conf]) is not None for name in names) > 1:
            listed = ",".join(names)
            raise LabError(
                f"{group}=[{listed}]: choose one, or for a sweep over them write -m {group}={listed}"
            )


def _named_choices(override: Override) -> Iterator[str]:
    """The choices that an override names, without quotes: several in a list or a sweep, none after a `~`."""
    for value in () if override.is_delete() else listed_values(override):
        yield from map(as_text, value if isinstance(value, list) else [value])


def _file_of(group: str, choice: str, folders: Sequence[Path]) -> Path | None:
    """The file of a choice, which may be in a subfolder of its group; Hydra also accepts the file's name."""
    paths = (Path(f"{one}/{group}/{choice.removesuffix('.yaml')}.yaml") for one in folders)
    return next(filter(exists, paths), None)


def _meant(group: str, choice: str, folders: Sequence[Path]) -> str:
    """The choice that was probably meant by an unknown one; empty if there is no similar one."""
    if other := meant_by(group, choice):
        return other
    elsewhere = [one for one in WITH_CLASSES if choice in choices_of(one, folders)]
    near = difflib.get_close_matches(choice, choices_of(group, folders), 1)
    return " or ".join(f"{one}={choice}" for one in elsewhere) or (near[0] if near else "")


def check_installed(group: str, choice: str) -> None:
    """Check that the package that a choice needs is installed.

    Raises:
        LabError: it is not; the message says how to install it.
    """
    package, extra = REQUIRED_EXTRAS.get(f"{group}={choice}", (None, None))
    if package is not None and find_spec(package) is None:
        raise LabError(f"{group}={choice} needs additional packages: pip install -e '.[{extra}]'")
