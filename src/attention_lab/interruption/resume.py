"""Resume an interrupted run: `resume=<run folder>`, or `resume=auto` with the original command.

`resume=<folder>` is expanded to the command line of a run in that folder. Hydra composes a configuration from
it, which `resumed_configuration` replaces with the one that the run saved, after checking it. The run resumes
from its last intact checkpoint, or starts over if it has none; a finished run is left unchanged.
`resume=auto` does the same when the original command is run again, by a cluster or to complete a sweep.
"""

import fcntl
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from attention_lab.commandline.option_paths import flatten, without_run_folder
from attention_lab.commandline.overrides import keys, options_given, parse_all, paths_given, quote, split
from attention_lab.data.specs import check_sampled_size
from attention_lab.errors import LabError
from attention_lab.interruption.signals import is_rank_zero
from attention_lab.paths import short_path
from attention_lab.runs.parts import GROUPS, MAY_CHANGE, RESUMED
from attention_lab.runs.run_folder import METRICS, read_choices, read_metrics
from attention_lab.text_tables import console_message, printable
from attention_lab.untrusted.plain_files import read_yaml
from attention_lab.untrusted.run_configuration import CHECKPOINTS, check_links, check_run

AUTO = "auto"


def expand_resume(arguments: Sequence[str], conf: Path | None = None) -> list[str]:
    """Expand `resume=<folder>` to the command line that resumes the run in its folder.

    The run's group choices are added, so that the options within them are known; `resumed_configuration`
    later loads their values. A command line without `resume=<folder>` is returned unchanged.

    Args:
        arguments: the command line.
        conf: the configuration folder; None for the one beside the program.

    Raises:
        LabError: the folder is not a training run's, or another argument cannot be combined with `resume`.
    """
    given = (paths_given(arguments, "resume") or [""])[-1]
    if given in (AUTO, "null", ""):
        return list(arguments)
    folder = Path(given).resolve()
    run_folder = f"hydra.run.dir={quote(str(folder))}"
    if run_folder in arguments:  # already expanded: this is another process of the run
        return list(arguments)
    others = [argument for argument in arguments if split(argument).key != "resume"]
    for argument in others:
        key = split(argument).key
        if argument in ("-m", "--multirun") or (argument.startswith("hydra") and key != "hydra.searchpath"):
            raise LabError(f"resume=<folder> resumes one run in its own folder: leave out {argument}")
        if key == "stage":
            raise LabError(f"resume=<folder> resumes a training run: leave out {argument}")
    if not (folder / "config.yaml").is_file():
        raise LabError(f"resume={given}: {_why_not_resumable(folder)}")
    check_links(folder)  # here, because Hydra is about to write to the folder
    conf = Path(sys.argv[0]).resolve().parent / "conf" if conf is None else conf
    choices = [
        f"{group}={choice}"
        for group, choice in read_choices(folder).items()
        if group in GROUPS and group not in keys(others) and _is_choice(conf / group, choice)
    ]
    return [*choices, *others, run_folder, "hydra.output_subdir=null", f"resume={quote(str(folder))}"]


def _is_choice(folder: Path, choice: str) -> bool:
    return re.fullmatch(r"[\w-]{1,60}", choice) is not None and (folder / f"{choice}.yaml").is_file()


def saved_configuration(
    folder: Path, name: str, allow: Sequence[str] = (), given: Collection[str] = ()
) -> dict[str, Any]:
    """Read and check the configuration that a run saved, and adapt its paths if the folder has moved.

    Options that are given on the command line are not checked, since they will replace those in the file.

    Raises:
        LabError: it is damaged, or names code that is not allowed or a path outside the folder.
    """
    file = f"{name}/config.yaml"
    return check_run(read_yaml(folder / "config.yaml", file), folder, file, allow, given)


def resumed_configuration(config: DictConfig) -> DictConfig:
    """For `resume=<folder>`, the run's saved configuration plus the given overrides; otherwise `config`.

    Raises:
        LabError: see `saved_configuration`.
    """
    given = config.get("resume")
    if config.get("stage") != "fit" or not isinstance(given, str) or given == AUTO:
        return config
    folder = Path(given)
    if str(folder.resolve()) != str(Path(HydraConfig.get().runtime.output_dir).resolve()):
        raise LabError("resume: choose auto, or a run's folder as resume=<folder> on the command line")
    from attention_lab.lightning_import import import_lightning  # here, so that --help stays fast

    import_lightning()  # needed to look up the classes
    allow: Any = OmegaConf.to_container(config)["allow"]  # type: ignore[index, call-overload]
    choices = read_choices(folder)
    overrides = {
        one.key_or_group: one
        for one in parse_all(HydraConfig.get().overrides.task)
        if one.key_or_group not in GROUPS or choices.get(one.key_or_group) != one.value()
    }
    overrides.pop("resume", None)
    found = OmegaConf.create(saved_configuration(folder, given, allow, overrides))
    for key, override in overrides.items():
        if override.is_delete():
            _delete(found, key)
        else:
            OmegaConf.update(found, key, OmegaConf.select(config, key), merge=False, force_add=True)
    check_sampled_size(found.data, options_given(overrides.values(), "data"), f"{given}/config.yaml")
    for newer in config:
        if newer not in found and newer not in GROUPS:
            found[newer] = config[newer]
    found.resume, found.allow = AUTO, config.allow
    return found


def save_configuration(folder: Path, config: DictConfig) -> None:
    """Save the configuration of a new run, so that it can be resumed no matter when it is stopped."""
    from attention_lab.runs.results import write_config

    if is_rank_zero() and not (folder / "config.yaml").exists():
        write_config(folder, {str(key): value for key, value in config.items()})


def _delete(config: DictConfig, key: str) -> None:
    parent, _, last = key.rpartition(".")
    node = OmegaConf.select(config, parent) if parent else config
    if OmegaConf.is_dict(node) and last in node:
        del node[last]


def resume_from_command_line() -> None:
    """Expand `resume=<folder>` in `sys.argv`; exit with an error message if that is impossible."""
    try:
        sys.argv[1:] = expand_resume(sys.argv[1:])
        _check_writable(sys.argv[1:])
    except LabError as error:
        sys.exit(console_message("Error", error))


def _check_writable(arguments: Sequence[str]) -> None:
    """Check that Hydra can create the run's folder; its own error is many lines long."""
    if any(argument.startswith("--") for argument in arguments):
        return  # options such as --help write nothing
    given = paths_given(arguments, "hydra.run.dir", "hydra.sweep.dir") or ["logs"]
    folder = Path(given[-1].partition("${")[0]).absolute()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        Path(tempfile.mkdtemp(dir=existing)).rmdir()  # permission bits are misleading for /proc and for root
    except OSError:
        raise LabError(f"cannot write in {existing}: choose another folder with hydra.run.dir=...") from None


def _why_not_resumable(folder: Path) -> str:
    if not folder.exists():
        return "there is no such folder"
    if folder.is_file():
        return f"give the folder of the run, {folder.parent}"
    if (folder / "multirun.yaml").exists() or any(folder.glob("*/.hydra")):
        return "to resume a sweep, add resume=auto hydra.sweep.dir=<that folder> to its own command"
    if (folder / ".hydra").is_dir():
        return "that run was stopped before it started: run its command again"
    return "that is not the folder of a run: it has no config.yaml"


def has_checkpoint(folder: Path) -> bool:
    """Whether a run has a checkpoint; until then its options may still be changed."""
    return any((folder / CHECKPOINTS).glob("*.ckpt"))


def check_same_options(folder: Path, plain: Mapping[str, Any], given: Collection[str] = ()) -> None:
    """Check that a run is resumed with the options it was started with.

    An option of this package's data sets that is newer than the run, and so missing there, is accepted if it
    is off.

    Args:
        folder: the run's folder.
        plain: the current options.
        given: the options on the command line.

    Raises:
        LabError: an option that affects training differs.
    """
    file = folder / "config.yaml"
    if not file.is_file():
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
    found = dict(flatten({part: config.get(part) for part in RESUMED}))
    return without_run_folder(found, found.pop("trainer.default_root_dir", None))


def has_finished(folder: Path) -> bool:
    """Whether a run has written its results."""
    return (folder / METRICS).is_file()


def finished_results(folder: Path) -> dict[str, float] | None:
    """The results of a finished run, with a note on the console; None if it is not finished."""
    file = folder / METRICS
    if not has_finished(folder):
        return None
    results: dict[str, float] = read_metrics(file)
    print(f"The run has already finished: its results are in {short_path(file)}")
    return results


def find_last_checkpoint(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The last intact checkpoint and its content; None if there is none. Reports a damaged one it skips."""
    from attention_lab.callbacks.checkpoint_files import LAST, PREVIOUS
    from attention_lab.untrusted.checkpoints import read_checkpoint

    damaged = []
    for path in (folder / CHECKPOINTS / LAST, folder / CHECKPOINTS / PREVIOUS):
        if not path.is_file():
            continue
        try:
            content = read_checkpoint(path)
        except LabError:
            damaged.append(path.name)
            continue
        if damaged:
            _report(f"{damaged[0]} is damaged or truncated; resuming from {path.name} instead")
        return path, content
    _report(f"{'no intact checkpoint' if damaged else 'no checkpoint yet'}; starting from the first step")
    return None


def _report(message: str) -> None:
    if is_rank_zero():
        print(console_message("Resume", message), file=sys.stderr)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder, so that no other run uses it at the same time.

    Raises:
        LabError: another run has locked it.
    """
    if not is_rank_zero():  # the first process of the run holds the lock
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(
                f"another run is using {short_path(folder)}: wait for it to finish, or stop it first"
            ) from None
        except OSError:
            pass  # not supported by every file system
        yield
    finally:
        os.close(descriptor)


def resume_command(folder: Path) -> str:
    """The command that resumes a run."""
    return shlex.join(["python", "train.py", f"resume={short_path(folder)}"])
