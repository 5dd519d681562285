"""Resume an interrupted run: `resume=<run folder>`, or `resume=auto` with the original command.

`resume=<folder>` is expanded to the command line of a run in that folder (see `resume_option`). Hydra
composes a configuration from it, which `resumed_configuration` replaces with the one that the run saved,
after checking it. The run resumes from its last intact checkpoint, or starts over if it has none; a finished
run is left unchanged.
`resume=auto` does the same when the original command is run again, by a cluster or to complete a sweep.
"""

import os
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from attention_lab.commandline.option_paths import flatten, without_run_folder
from attention_lab.commandline.overrides import options_given, parse_overrides
from attention_lab.config_parts import GROUPS, MAY_CHANGE, RESUMED, completed
from attention_lab.console_text import console_message, printable
from attention_lab.data.specs import check_size_from_file
from attention_lab.errors import LabError
from attention_lab.files.paths import short_path
from attention_lab.files.regular_files import is_file, matches_in
from attention_lab.files.run_files import BEST, CHECKPOINTS, CONFIG, LAST, METRICS, PREVIOUS
from attention_lab.interruption.ranks import is_rank_zero
from attention_lab.runs.run_folder import read_choices, read_metrics, read_yaml_or_none
from attention_lab.untrusted.plain_files import read_yaml
from attention_lab.untrusted.run_configuration import checked_run, packages_to_allow

AUTO = "auto"


def saved_configuration(
    folder: Path, name: str, allow: Sequence[str] = (), given: Collection[str] = ()
) -> dict[str, Any]:
    """Read and check the configuration that a run saved, and adapt its paths if the folder has moved.

    Options that are given on the command line are not checked, since they will replace those in the file.

    Raises:
        LabError: it is damaged, or names code that is not allowed or a path outside the folder.
    """
    file = f"{name}/config.yaml"
    return checked_run(read_yaml(folder / CONFIG, file), folder, file, allow, given)


def resumed_configuration(config: DictConfig) -> DictConfig:
    """For `resume=<folder>`, the run's saved configuration plus the given overrides; otherwise `config`.

    Raises:
        LabError: see `saved_configuration`.
    """
    given = config.get("resume")
    if config.get("stage") != "fit" or not isinstance(given, str) or given == AUTO:
        return config
    folder = Path(given)
    if os.path.realpath(folder) != os.path.realpath(HydraConfig.get().runtime.output_dir):
        raise LabError("resume: choose auto, or a run's folder as resume=<folder> on the command line")
    from attention_lab.lightning_import import import_lightning  # here, so that --help stays fast

    allow: Any = OmegaConf.to_container(config)["allow"]  # type: ignore[index, call-overload]
    if not allow:
        import_lightning()  # needed to look up the classes
    choices = read_choices(folder)
    overrides = {
        one.key_or_group: one
        for one in parse_overrides(HydraConfig.get().overrides.task)
        if one.key_or_group not in GROUPS or choices.get(one.key_or_group) != one.value()
    }
    found = OmegaConf.create(saved_configuration(folder, given, allow, overrides))
    for key, override in overrides.items():
        if override.is_delete():
            _delete(found, key)
        else:
            OmegaConf.update(found, key, OmegaConf.select(config, key), merge=False)
    check_size_from_file(found.data, options_given(overrides.values(), "data"), f"{given}/config.yaml")
    for newer in config:
        if newer not in found and newer not in GROUPS:
            found[newer] = config[newer]
    found.resume, found.allow = AUTO, config.allow
    return found


def save_configuration(folder: Path, config: DictConfig) -> None:
    """Save the configuration of a new run, so that it can be resumed no matter when it is stopped."""
    from attention_lab.runs.results import write_config

    if is_rank_zero() and not (folder / CONFIG).exists():
        write_config(folder, {str(key): value for key, value in config.items()})


def _delete(config: DictConfig, key: str) -> None:
    parent, _, last = key.rpartition(".")
    node = OmegaConf.select(config, parent) if parent else config
    if OmegaConf.is_dict(node) and last in node:
        del node[last]


def has_checkpoint(folder: Path) -> bool:
    """Whether a run has a checkpoint; until then its options may still be changed."""
    return bool(matches_in(folder / CHECKPOINTS, "*.ckpt"))


def check_same_options(folder: Path, plain: Mapping[str, Any], given: Collection[str] = ()) -> None:
    """Check that a run is resumed with the options it was started with.

    An option of this package's data sets that is newer than the run, and so missing there, is accepted if it
    is off.

    Raises:
        LabError: an option that affects training differs.
    """
    file = folder / CONFIG
    if not is_file(file):
        return  # it was stopped before it started
    kept = read_yaml(file, str(file))
    if not isinstance(kept, dict) or not isinstance(kept.get("trainer"), dict):
        raise LabError(f"{file} is not the configuration of a training run")
    before, now = _training_options(kept), _training_options(plain)
    for key in dict.fromkeys([*before, *now]):
        if before.get(key) != now.get(key) and not key.startswith(MAY_CHANGE):
            newer = key.startswith("data.") and key not in before and key not in given
            if newer and not now[key] and str(before.get("data._target_")).startswith("attention_lab."):
                continue
            option, old, new = (printable(str(one), 200) for one in (key, before.get(key), now.get(key)))
            raise LabError(
                f"resume: the run in {short_path(folder)} has {option}={old}, not {new}: leave that option "
                "as it was, or start another run from its weights with ckpt_path=..."
            )


def _training_options(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options that affect training, by dotted path; the run's own folder is replaced by a dot."""
    found = dict(flatten({part: completed(config.get(part)) for part in RESUMED}))
    return without_run_folder(found, found.pop("trainer.default_root_dir", None))


def has_finished(folder: Path) -> bool:
    """Whether a run has written its results."""
    return is_file(folder / METRICS)


def finished_results(folder: Path) -> dict[str, float] | None:
    """The results of a finished run; None if it is not finished."""
    return read_metrics(folder / METRICS) if has_finished(folder) else None


def find_last_checkpoint(folder: Path, *, expected: bool = True) -> tuple[Path, dict[str, Any]] | None:
    """The last intact checkpoint and its content; None if there is none. Reports a damaged one it skips.

    Args:
        folder: the run's folder.
        expected: whether to report it if there is none, unlike in a sweep, where most jobs have yet to start.
    """
    from attention_lab.untrusted.checkpoints import read_checkpoint

    damaged = []
    for path in (folder / CHECKPOINTS / LAST, folder / CHECKPOINTS / PREVIOUS):
        if not is_file(path):
            continue
        try:
            content = read_checkpoint(path)
        except LabError:
            damaged.append(path.name)
            continue
        if damaged:
            _report(f"{damaged[0]} is damaged or truncated; resuming from {path.name} instead")
        return path, content
    if damaged or expected:
        found = "no intact checkpoint" if damaged else "no checkpoint yet"
        if not damaged and is_file(folder / CHECKPOINTS / BEST):
            found = "no last.ckpt yet, and best.ckpt lacks a part of the state"
        _report(f"{found}; starting from the first step")
    return None


def _report(message: str) -> None:
    if is_rank_zero():
        print(console_message("Resume", message), file=sys.stderr)


def resume_command(folder: Path) -> str:
    """The command that resumes a run, and allows the packages that its own classes come from."""
    packages = packages_to_allow(read_yaml_or_none(folder / CONFIG))
    allowed = [f"allow=[{','.join(packages)}]"] if packages else []
    return shlex.join(["python", "train.py", f"resume={short_path(folder)}", *allowed])
