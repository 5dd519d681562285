"""Going on with a run that was interrupted: `resume=<run folder>`, or `resume=auto` in the folder itself.

`resume=<folder>` becomes the command line of a run in that folder, and `rebuilt` then puts the configuration
that the run has saved, checked, in the place of the one that this command line composes. It goes on from the
run's last whole checkpoint, or begins where there is none yet; a finished run stays as it is. `resume=auto`
does the same where the same command is started again: by a cluster, or for what is left of a sweep.
"""

import fcntl
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from attention_lab.commandline.option_paths import flatten, without_run_folder
from attention_lab.commandline.overrides import keys, parse_all, paths_given, quote, split
from attention_lab.errors import LabError
from attention_lab.interruption.signals import is_rank_zero
from attention_lab.runs.parts import GROUPS, MAY_CHANGE, RESUMED
from attention_lab.runs.run_folder import METRICS, read_choices, read_metrics
from attention_lab.untrusted.plain_files import read_yaml
from attention_lab.untrusted.run_configuration import CHECKPOINTS, check_links, check_run
from attention_lab.writing import PART, remove

AUTO = "auto"


def expand_resume(arguments: Sequence[str], conf: Path | None = None) -> list[str]:
    """The command line that resumes a run in its folder, for `resume=<folder>`; otherwise the arguments.

    The run's choices of groups are said again, so that options within them are known; for what they hold see
    `rebuilt`.

    Args:
        arguments: the command line.
        conf: the folder with the configuration; None: beside the program.

    Raises:
        LabError: the folder is none of a training, or what else is said does not go with it.
    """
    given = _folder_said(arguments)
    if given is None:
        return list(arguments)
    folder = Path(given).resolve()
    place = f"hydra.run.dir={quote(str(folder))}"
    if place in arguments:  # said before: this is another process of the run
        return list(arguments)
    others = [one for one in arguments if split(one).key != "resume"]
    unfit = next((one for one in others if one in ("-m", "--multirun") or one.startswith("hydra")), None)
    if unfit is not None and split(unfit).key != "hydra.searchpath":
        raise LabError(f"resume=<folder> resumes one run in its own folder: leave out {unfit}")
    stage = next((one for one in others if split(one).key == "stage"), None)
    if stage is not None:
        raise LabError(f"resume=<folder> resumes a training: leave out {stage}")
    if not (folder / "config.yaml").is_file():
        raise LabError(f"resume={given}: {_what_it_is(folder)}")
    check_links(folder)  # here: Hydra is about to write there
    conf = Path(sys.argv[0]).resolve().parent / "conf" if conf is None else conf
    choices = [
        f"{group}={choice}"
        for group, choice in read_choices(folder).items()
        if group in GROUPS and group not in keys(others) and _is_choice(conf / group, choice)
    ]
    return [*choices, *others, place, "hydra.output_subdir=null", f"resume={quote(str(folder))}"]


def _folder_said(arguments: Sequence[str]) -> str | None:
    """The folder of `resume=<folder>`, if that is on the command line."""
    given = paths_given(arguments, "resume")
    return None if not given or given[-1] in (AUTO, "null", "") else given[-1]


def _is_choice(folder: Path, choice: str) -> bool:
    return re.fullmatch(r"[\w-]{1,60}", choice) is not None and (folder / f"{choice}.yaml").is_file()


def saved(folder: Path, name: str, allow: Sequence[str] = ()) -> dict[str, Any]:
    """The configuration that a run has saved, checked, with its places in its present folder.

    Raises:
        LabError: it is damaged, names code that is not allowed, or a place outside of the folder.
    """
    file = f"{name}/config.yaml"
    return check_run(read_yaml(folder / "config.yaml", file), folder, file, allow)


def rebuilt(config: DictConfig) -> DictConfig:
    """The configuration that the run in `resume=<folder>` has saved, with what is said now; or the one given.

    Raises:
        LabError: see `saved`.
    """
    given = config.get("resume")
    if config.get("stage") != "fit" or not isinstance(given, str) or given == AUTO:
        return config
    folder = Path(given)
    if str(folder.resolve()) != str(Path(HydraConfig.get().runtime.output_dir).resolve()):
        raise LabError("resume: choose auto, or a run's folder as resume=<folder> on the command line")
    from attention_lab.lightning_import import import_lightning  # it would slow --help down

    import_lightning()  # which the classes that are looked up need
    allow: Any = OmegaConf.to_container(config)["allow"]  # type: ignore[index, call-overload]
    found = OmegaConf.create(saved(folder, given, allow))
    choices = read_choices(folder)
    for override in parse_all(HydraConfig.get().overrides.task):
        key = override.key_or_group
        if key == "resume" or (key in GROUPS and choices.get(key) == override.value()):
            continue
        if override.is_delete():
            _leave_out(found, key)
        else:
            OmegaConf.update(found, key, OmegaConf.select(config, key), merge=False, force_add=True)
    found.resume, found.allow = AUTO, config.allow
    return found


def note(folder: Path, config: DictConfig) -> None:
    """Save the configuration of a new run, so that it can be resumed whenever it is stopped."""
    from attention_lab.runs.results import write_config

    if is_rank_zero() and not (folder / "config.yaml").exists():
        write_config(folder, {str(key): value for key, value in config.items()})


def _leave_out(config: DictConfig, key: str) -> None:
    above, _, last = key.rpartition(".")
    node = OmegaConf.select(config, above) if above else config
    if OmegaConf.is_dict(node) and last in node:
        del node[last]


def resume_from_command_line() -> None:
    """Put the command line of a run in place of `resume=<folder>`; ends the program if that cannot be."""
    try:
        sys.argv[1:] = expand_resume(sys.argv[1:])
        _check_writable(sys.argv[1:])
    except LabError as error:
        sys.exit(f"Error: {error}")


def _check_writable(arguments: Sequence[str]) -> None:
    """Refuse a folder in which Hydra, which says so in many lines, cannot make the run's own."""
    if any(one.startswith("--") for one in arguments):
        return  # nothing is written
    given = paths_given(arguments, "hydra.run.dir", "hydra.sweep.dir") or ["logs"]
    folder = Path(given[-1].partition("${")[0]).absolute()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        Path(tempfile.mkdtemp(dir=there)).rmdir()  # permissions do not say it of /proc, nor for root
    except OSError:
        raise LabError(f"cannot write in {there}: choose another folder with hydra.run.dir=...") from None


def _what_it_is(folder: Path) -> str:
    if not folder.exists():
        return "there is no such folder"
    if folder.is_file():
        return f"give the folder of the run, {folder.parent}"
    if (folder / "multirun.yaml").exists() or any(folder.glob("*/.hydra")):
        return "a sweep is resumed by its own command with resume=auto hydra.sweep.dir=<that folder> added"
    if (folder / ".hydra").is_dir():
        return "that run was stopped before it began: give its command again"
    return "that is no folder of a run, which has its options in config.yaml"


def has_checkpoint(folder: Path) -> bool:
    """Whether a run has a checkpoint; before, other options are no other training."""
    return any((folder / CHECKPOINTS).glob("*.ckpt"))


def check_same_options(folder: Path, plain: Mapping[str, Any]) -> None:
    """Refuse to resume a run with options other than those it was started with.

    Raises:
        LabError: an option differs that would change the training.
    """
    file = folder / "config.yaml"
    if not file.is_file():
        return  # it was stopped before it began
    kept = read_yaml(file, str(file))
    if not isinstance(kept, dict) or not isinstance(kept.get("trainer"), dict):
        raise LabError(f"{file} holds no options of a training")
    before, now = _options(kept), _options(plain)
    for key in dict.fromkeys([*before, *now]):
        if before.get(key) != now.get(key) and not key.startswith(MAY_CHANGE):
            raise LabError(
                f"resume: the run in {display_path(folder)} has {key}={before.get(key)}, not {now.get(key)}: "
                "leave that option as it was, or start another run from its weights with ckpt_path=..."
            )


def _options(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the training by their dotted paths, the run's own folder written as a dot."""
    found = dict(flatten({part: config.get(part) for part in RESUMED}))
    return without_run_folder(found, found.pop("trainer.default_root_dir", None))


def finished_results(folder: Path) -> dict[str, float] | None:
    """The results of a finished run, which is said on the console; None of another one."""
    file = folder / METRICS
    if not file.is_file():
        return None
    results: dict[str, float] = read_metrics(file)
    print(f"The run is finished: its results are in {display_path(file)}")
    return results


def find_last_checkpoint(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The last intact checkpoint to resume from, and its content; says so if a damaged one is skipped."""
    from attention_lab.callbacks.checkpoint_files import LAST, PREVIOUS
    from attention_lab.untrusted.checkpoints import read_checkpoint

    place, damaged = folder / CHECKPOINTS, []
    for path in (place / LAST, place / PREVIOUS):
        if not path.is_file():
            continue
        try:
            content = read_checkpoint(path)
        except LabError:
            damaged.append(path.name)
            continue
        if damaged:
            _say(f"{damaged[0]} is damaged or cut short: going on from {path.name}, the one before it")
        return path, content
    _say("no whole checkpoint" if damaged else "no checkpoint yet", "the run begins at its first step")
    return None


def _say(*parts: str) -> None:
    if is_rank_zero():
        print(f"Resume: {'; '.join(parts)}", file=sys.stderr)


def remove_partial_files(folder: Path) -> None:
    """Remove what a killed run has left half-written."""
    for place in (folder, folder / CHECKPOINTS, folder / "attention"):
        for path in place.glob(f".*{PART}"):
            remove(path)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep a second run out of the folder while this one is in it.

    Raises:
        LabError: another one is.
    """
    if not is_rank_zero():  # the first process of the run has it
        yield
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(
                f"a run is going on in {display_path(folder)}: wait for its end, or stop it first"
            ) from None
        except OSError:
            pass  # not every file system can
        yield
    finally:
        os.close(place)


def display_path(path: Path) -> str:
    """A path as it is shown: from here, if it is below."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def resume_command(folder: Path) -> str:
    """The command that resumes a run."""
    return shlex.join(["python", "train.py", f"resume={display_path(folder)}"])
