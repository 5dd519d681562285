"""Going on with a run that was interrupted: `resume=<run folder>`, or `resume=auto` in the folder itself.

`resume=<folder>` becomes the command line of that run, with its folder and `resume=auto` added. This goes on
from the run's last whole checkpoint, or begins where there is none yet; a finished run stays as it is. It
serves, too, where the same command is started again: by a cluster, or for what is left of a sweep.
"""

import fcntl
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attention_lab.commandline.option_paths import leaves, placeless
from attention_lab.errors import LabError
from attention_lab.interruption.signals import leads
from attention_lab.runs.run_folder import read_metrics
from attention_lab.untrusted.kept_overrides import kept_overrides
from attention_lab.untrusted.plain_files import read_yaml
from attention_lab.writing import PART, remove

AUTO = "auto"
TRAINING = (
    *("seed", "ckpt_path", "monitor", "model", "scoring", "normalizer", "window", "pooling"),
    *("data", "task", "optimizer", "schedule", "trainer", "callbacks"),
)
"""The parts of a configuration that a run has to go on with as it began."""
SHOWING = ("trainer.enable_progress_bar", "callbacks.progress_bar", "callbacks.resumable.every_seconds")
"""What may change within them."""
RESULTS = "metrics.json"
"""The file that is written last: a run that has it is finished."""


def go_on(arguments: Sequence[str]) -> list[str]:
    """The command line of a run with `resume=<folder>` taken up, or the arguments as they are.

    Raises:
        LabError: the folder is none of a training, or what else is said does not go with it.
    """
    key = "resume="
    given = [one.removeprefix(key).strip("\"'") for one in arguments if one.startswith(key)]
    if not given or given[-1] in (AUTO, "null", ""):
        return list(arguments)
    folder = Path(given[-1]).resolve()
    others = [one for one in arguments if not one.startswith(key)]
    unfit = next((one for one in others if one in ("-m", "--multirun") or one.startswith("hydra")), None)
    if unfit is not None and not unfit.startswith("hydra.searchpath="):
        raise LabError(f"resume=<folder> goes on with one run where it is: leave out {unfit}")
    file = folder / ".hydra" / "overrides.yaml"
    if not file.is_file():
        raise LabError(f"resume={given[-1]}: {_what_it_is(folder)}")
    overrides = kept_overrides(folder, given[-1], others)
    stage = next((one for one in reversed(overrides) if one.startswith("stage=")), "stage=fit")
    if stage != "stage=fit":
        raise LabError(f"resume={given[-1]}: that was {stage}, which is only to be repeated")
    place = json.dumps(str(folder), ensure_ascii=False)
    return [
        *(*overrides, *others),
        *(f"hydra.run.dir={place}", "hydra.output_subdir=null", f"{key}{AUTO}"),
    ]


def take_up() -> None:
    """Put the command line of a run in place of `resume=<folder>`; ends the program if that cannot be."""
    try:
        sys.argv[1:] = go_on(sys.argv[1:])
        _check_writable(sys.argv[1:])
    except LabError as error:
        sys.exit(f"Error: {error}")


def _check_writable(arguments: Sequence[str]) -> None:
    """Refuse a folder in which Hydra, which says so in many lines, cannot make the run's own."""
    if any(one.startswith("--") for one in arguments):
        return  # nothing is written
    keys = ("hydra.run.dir=", "hydra.sweep.dir=")
    given = [one.partition("=")[2].strip("\"'") for one in arguments if one.startswith(keys)] or ["logs"]
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
        return f"give the folder of the run, {folder.parent.parent}"
    if (folder / "multirun.yaml").exists() or any(folder.glob("*/.hydra")):
        return "a sweep goes on by its own command with resume=auto hydra.sweep.dir=<that folder> added"
    return "that is no folder of a run, which has its options in .hydra/overrides.yaml"


def check_same(folder: Path, plain: Mapping[str, Any]) -> None:
    """Refuse to go on with other options than the run in a folder has begun with.

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
        if before.get(key) != now.get(key) and not key.startswith(SHOWING):
            raise LabError(
                f"resume: the run in {shown(folder)} has {key}={before.get(key)}, and not {now.get(key)}: "
                "leave that option as it was, or begin another run, from its weights with ckpt_path=..."
            )


def _options(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the training by their dotted paths, the run's own folder written as a dot."""
    found = dict(leaves({part: config.get(part) for part in TRAINING}))
    return placeless(found, found.pop("trainer.default_root_dir", None))


def finished(folder: Path) -> dict[str, float] | None:
    """The results of a finished run, which is said on the console; None of another one."""
    file = folder / RESULTS
    if not file.is_file():
        return None
    results: dict[str, float] = read_metrics(file)
    print(f"The run is finished: its results are in {shown(file)}")
    return results


def last_checkpoint(folder: Path) -> Path | None:
    """The last whole checkpoint to go on from; says so if a damaged one is passed over."""
    from attention_lab.callbacks.checkpoint_files import LAST, PREVIOUS
    from attention_lab.experiment.checkpoints import read_checkpoint

    place, damaged = folder / "checkpoints", []
    for path in (place / LAST, place / PREVIOUS):
        if not path.is_file():
            continue
        try:
            read_checkpoint(path)
        except LabError:
            damaged.append(path.name)
            continue
        if damaged:
            _say(f"{damaged[0]} is damaged or cut short: going on from {path.name}, the one before it")
        return path
    _say("no whole checkpoint" if damaged else "no checkpoint yet", "the run begins at its first step")
    return None


def _say(*parts: str) -> None:
    if leads():
        print(f"Resume: {'; '.join(parts)}", file=sys.stderr)


def clean(folder: Path) -> None:
    """Remove what a killed run has left half-written."""
    for place in (folder, folder / "checkpoints", folder / "attention"):
        for path in place.glob(f".*{PART}"):
            remove(path)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep a second run out of the folder while this one is in it.

    Raises:
        LabError: another one is.
    """
    if not leads():  # the first process of the run has it
        yield
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(
                f"a run is going on in {shown(folder)}: wait for its end, or stop it first"
            ) from None
        except OSError:
            pass  # not every file system can
        yield
    finally:
        os.close(place)


def shown(path: Path) -> str:
    """A path as it is shown: from here, if it is below."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def how(folder: Path) -> str:
    """The command by which a run goes on."""
    return shlex.join(["python", "train.py", f"resume={shown(folder)}"])
